//! The artifacts that ship for golden runs are those that are written here.
//! `UPDATE_GOLDEN=1 cargo test --release -p wirelens-classify` writes them.

use std::fs;
use std::path::PathBuf;

use crate::build::{Files, artifact, sealed};

/// One of which a file was changed after its hash was taken.
fn changed() -> Files {
    let mut files = artifact();
    files.retain(|name, _| ["cascade.json", "SHA256SUMS"].contains(&name.as_str()));
    if let Some(json) = files.get_mut("cascade.json") {
        json.extend(b"\n");
    }
    files
}

/// One that remembers hosts.
fn remembering() -> Files {
    const MEMORY: &str = r#""memory": {"half_life_ns": 600000000000, "prior": 1, "floor": 0.01}"#;
    let mut files = artifact();
    if let Some(json) = files.get_mut("cascade.json") {
        let text = String::from_utf8_lossy(json).replace("\"version\": 1,", "\"version\": 3,");
        let text = text.replace("\"by-hand\"", "\"by-hand-hosts\"");
        let text = text.replace(" \"stages\"", &format!(" {MEMORY},\n \"stages\""));
        *json = text.into_bytes();
    }
    sealed(files)
}

#[test]
fn the_artifacts_of_the_golden_runs_are_these() {
    let testdata = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    for (folder, files) in
        [("cascade", artifact()), ("cascade-changed", changed()), ("cascade-hosts", remembering())]
    {
        let folder = testdata.join(folder);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::create_dir_all(&folder).unwrap();
            for (name, bytes) in &files {
                fs::write(folder.join(name), bytes).unwrap();
            }
        }
        for (name, bytes) in &files {
            let kept = fs::read(folder.join(name)).unwrap_or_default();
            assert!(kept == *bytes, "{} is not what the test writes", folder.join(name).display());
        }
    }
}
