//! What the extension, the program and the tests share compiles once: each asks the same features
//! of every dependency. Where they differ, cargo compiles all that depends on it again,
//! which took ten minutes of two cores.

#![allow(clippy::expect_used)]

use std::collections::BTreeSet;
use std::process::Command;

/// Dependencies with their features, such as `serde v1.0.229 [derive,std]`.
fn features(kinds: &str, packages: &[&str]) -> BTreeSet<String> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let said = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p} [{f}]"])
        .args(["--edges", kinds, "--manifest-path", manifest])
        .args(packages)
        .output()
        .expect("cargo runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let lines = String::from_utf8(said.stdout).expect("cargo tree prints text");
    lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

fn assert_shared(part: &BTreeSet<String>, whole: &BTreeSet<String>, wanted: &str) {
    assert!(part.len() > 100, "dependencies were not read: {part:?}");
    let others: Vec<&String> = part.difference(whole).collect();
    assert!(others.is_empty(), "compiled twice: {others:#?}; wanted: {wanted}");
}

#[test]
fn dependencies_have_the_same_features_everywhere() {
    let extension = features("normal,build", &["--package", "wirelens-python"]);
    let program = ["--package", "wirelens", "--package", "wirelens-python"];
    let program = features("normal,build", &program);
    let tests = features("normal,build,dev", &["--workspace"]);
    assert_shared(&extension, &program, "these features asked for in crates/python/Cargo.toml");
    let wanted = "no more features for tests, or the same for the program";
    assert_shared(&program, &tests, wanted);
}
