//! The laws: unsafe has an address, the doors alone meet the world, and
//! nobody silences the lints that say so.

use super::Finding;
use crate::repository::File;
use crate::source::{has_word, lines_before_tests, mask_rust, numbered};

/// Where `unsafe` may stand. All else is safe Rust.
pub const UNSAFE_ADDRESSES: &[&str] = &[
    "crates/capture/src/sys.rs",
    "crates/capture/src/sys/",
    "crates/engine/src/prefetch.rs",
    "crates/jail/src/sys/",
    "crates/l4s-abi/src/",
    "crates/model/src/simd.rs",
    "crates/model/src/simd/",
    "crates/packetlog/src/uring.rs",
    "crates/packetlog/src/uring/",
    "crates/python/src/",
    "crates/testbed/src/sys/",
];

/// Who may print, exit and read settings: the front doors and what only
/// developers run.
pub const DOORS: &[&str] = &["crates/cli/", "crates/python/", "crates/testkit/", "bench/", "fuzz/"];

/// What makes a file, a folder or a socket: `files` does, so that it is private and no link leads
/// elsewhere.
const FILE_MAKERS: &[&str] = &[
    "File::create",
    "File::create_new",
    "File::options",
    "OpenOptions::new",
    "DirBuilder::new",
    "fs::write",
    "fs::copy",
    "fs::create_dir",
    "fs::create_dir_all",
    "UnixListener::bind",
];

/// Where files are made by other rules: `files` itself, traffic that the testbed makes, and what
/// only developers run.
const FILE_PLACES: &[&str] =
    &["crates/files/", "crates/testbed/", "crates/testkit/", "bench/", "fuzz/"];

/// What only a door may write.
const DOOR_WORDS: &[&str] = &[
    "print!",
    "println!",
    "eprint!",
    "eprintln!",
    "dbg!",
    "process::exit",
    "env::var",
    "env::var_os",
    "env::vars",
    "env::vars_os",
    "env::args",
    "env::args_os",
    "io::stdout",
    "io::stderr",
];

/// Lints that carry a law.
const LAW_LINTS: &[&str] = &[
    "clippy::disallowed_methods",
    "clippy::exit",
    "clippy::print_stdout",
    "clippy::print_stderr",
    "clippy::undocumented_unsafe_blocks",
    "clippy::multiple_unsafe_ops_per_block",
];

/// `unsafe` stands at its addresses only.
#[must_use]
pub fn unsafe_address(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files).filter(|file| !is_at_any(file, UNSAFE_ADDRESSES)) {
        for (number, line) in numbered(&mask_rust(file.text().unwrap_or_default())) {
            if has_word(line, "unsafe") {
                let wanted = "safe Rust, or a place at one of UNSAFE_ADDRESSES";
                findings.push(Finding::new(file, number, "`unsafe`", wanted));
            }
        }
    }
    findings
}

/// Each crate forbids unsafe code at its root. One that has an address denies
/// it, and lets it in at the root or at the address.
#[must_use]
pub fn crate_root(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files) {
        let has_address = UNSAFE_ADDRESSES.iter().any(|at| at.starts_with(crate_of(file)));
        let masked = mask_rust(file.text().unwrap_or_default());
        let says = |attribute| masked.lines().any(|line| line.trim() == attribute);
        if is_crate_root(file)
            && !says("#![forbid(unsafe_code)]")
            && !(has_address && says("#![deny(unsafe_code)]"))
        {
            let wanted =
                if has_address { "`#![deny(unsafe_code)]`" } else { "`#![forbid(unsafe_code)]`" };
            findings.push(Finding::new(file, 1, "a crate root that admits unsafe code", wanted));
        }
        let may_allow = is_at_any(file, UNSAFE_ADDRESSES) || (has_address && is_crate_root(file));
        for (number, line) in numbered(&masked).filter(|_| !may_allow) {
            if is_silenced(line, "unsafe_code") {
                let wanted = "no exception outside UNSAFE_ADDRESSES and their crate's root";
                findings.push(Finding::new(file, number, "unsafe code let in", wanted));
            }
        }
    }
    findings
}

/// Each crate takes the workspace's lints; without them it obeys none of them.
#[must_use]
pub fn lints_inherited(files: &[File]) -> Vec<Finding> {
    let inherits = |text: &str| text.contains("[lints]\nworkspace = true");
    let is_member = |file: &&File| {
        file.name() == "Cargo.toml" && (file.is_at("crates/") || file.is_at("bench/"))
    };
    files
        .iter()
        .filter(is_member)
        .filter(|file| !file.text().is_some_and(inherits))
        .map(|file| Finding::new(file, 1, "lints of its own", "`[lints]` with `workspace = true`"))
        .collect()
}

/// Nobody silences a lint that carries a law, save the doors.
#[must_use]
pub fn lint_silenced(files: &[File]) -> Vec<Finding> {
    in_house_lines(files, |line| {
        let lint = LAW_LINTS.iter().find(|lint| is_silenced(line, lint))?;
        Some((format!("`{lint}` silenced"), "the law it carries kept".to_owned()))
    })
}

/// Only the doors print, exit and read settings.
#[must_use]
pub fn doors(files: &[File]) -> Vec<Finding> {
    in_house_lines(files, |line| {
        let word = DOOR_WORDS.iter().find(|word| has_word(line, word))?;
        let wanted = "a value handed to or from a front door, which alone meets the world";
        Some((format!("`{word}`"), wanted.to_owned()))
    })
}

/// Only `files` makes files, folders and sockets.
#[must_use]
pub fn file_maker(files: &[File]) -> Vec<Finding> {
    lines_outside(files, FILE_PLACES, |line| {
        let word = FILE_MAKERS.iter().find(|word| has_word(line, word))?;
        Some((format!("`{word}`"), "a call of the crate `files`".to_owned()))
    })
}

/// What `check` says of the lines of code outside doors and tests: seen and wanted.
fn in_house_lines(
    files: &[File],
    check: impl Fn(&str) -> Option<(String, String)>,
) -> Vec<Finding> {
    lines_outside(files, DOORS, check)
}

/// The same of the lines outside these places and tests.
fn lines_outside(
    files: &[File],
    places: &[&str],
    check: impl Fn(&str) -> Option<(String, String)>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust(files).filter(|file| !is_at_any(file, places) && !is_test_or_build(file)) {
        for (number, line) in lines_before_tests(&mask_rust(file.text().unwrap_or_default())) {
            findings
                .extend(check(line).map(|(seen, wanted)| Finding::new(file, number, seen, wanted)));
        }
    }
    findings
}

fn rust(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.suffix() == "rs")
}

fn is_at_any(file: &File, places: &[&str]) -> bool {
    places.iter().any(|place| file.is_at(place))
}

fn is_test_or_build(file: &File) -> bool {
    ["/tests/", "/benches/", "/examples/"].iter().any(|folder| file.path.contains(folder))
        || matches!(file.name(), "tests.rs" | "build.rs")
}

/// `crates/packet/` of `crates/packet/src/time.rs`.
fn crate_of(file: &File) -> &str {
    file.path.find("src/").map_or(file.path.as_str(), |at| &file.path[..at])
}

fn is_crate_root(file: &File) -> bool {
    if !file.is_at("crates/") && !file.is_at("bench/") {
        return false;
    }
    let inside = &file.path[crate_of(file).len()..];
    let is_program = |rest: &str| !rest.contains('/') || rest.ends_with("/main.rs");
    matches!(inside, "src/lib.rs" | "src/main.rs")
        || inside.strip_prefix("src/bin/").is_some_and(is_program)
}

fn is_silenced(line: &str, lint: &str) -> bool {
    ["allow(", "expect(", "warn("].iter().any(|word| has_word(line, word)) && has_word(line, lint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(check: fn(&[File]) -> Vec<Finding>, path: &str, text: &str) -> usize {
        check(&[File::new(path, text)]).len()
    }

    #[test]
    fn unsafe_away_from_home_is_found() {
        let text = "// unsafe in words\nunsafe { f() }\n";
        let findings = unsafe_address(&[File::new("crates/packet/src/a.rs", text)]);
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2]);
        assert_eq!(found(unsafe_address, "crates/capture/src/sys/mmap.rs", text), 0);
        assert_eq!(found(unsafe_address, "crates/capture/src/system.rs", text), 1);
    }

    #[test]
    fn crate_roots_that_admit_unsafe_are_found() {
        let (forbid, deny) = ("#![forbid(unsafe_code)]\n", "#![deny(unsafe_code)]\n");
        for (path, text, count) in [
            ("crates/packet/src/lib.rs", "", 1),
            ("crates/packet/src/lib.rs", deny, 1),
            ("crates/packet/src/lib.rs", "// #![forbid(unsafe_code)]\n", 1),
            ("crates/packet/src/lib.rs", forbid, 0),
            ("crates/capture/src/lib.rs", deny, 0),
            ("crates/capture/src/lib.rs", "#![deny(unsafe_code)]\n#[allow(unsafe_code)]\n", 0),
            ("crates/capture/src/file.rs", "#[allow(unsafe_code)]\n", 1),
            ("crates/cli/src/main.rs", "", 1),
            ("bench/speed/src/bin/generate.rs", "", 1),
            ("bench/speed/src/bin/figures/rings.rs", "", 0),
            ("fuzz/targets/packet.rs", "", 0),
        ] {
            assert_eq!(found(crate_root, path, text), count, "{path}: {text}");
        }
    }

    #[test]
    fn crates_with_lints_of_their_own_are_found() {
        let inheriting = "[package]\n\n[lints]\nworkspace = true\n";
        assert_eq!(found(lints_inherited, "crates/packet/Cargo.toml", "[package]\n"), 1);
        assert_eq!(found(lints_inherited, "crates/packet/Cargo.toml", inheriting), 0);
        assert_eq!(found(lints_inherited, "Cargo.toml", "[workspace]\n"), 0);
    }

    #[test]
    fn silenced_laws_are_found() {
        let text = "#[allow(clippy::disallowed_methods)]\n";
        assert_eq!(found(lint_silenced, "crates/engine/src/a.rs", text), 1);
        assert_eq!(found(lint_silenced, "crates/cli/src/a.rs", text), 0);
        assert_eq!(found(lint_silenced, "crates/engine/src/a.rs", "#[allow(clippy::too_many)]"), 0);
    }

    #[test]
    fn files_that_are_made_elsewhere_are_found() {
        for line in ["File::create(path)", "std::fs::write(path, x)", "UnixListener::bind(path)"] {
            assert_eq!(found(file_maker, "crates/alerts/src/a.rs", line), 1, "{line}");
            assert_eq!(found(file_maker, "crates/cli/src/a.rs", line), 1, "{line}");
            assert_eq!(found(file_maker, "crates/files/src/a.rs", line), 0, "{line}");
            assert_eq!(found(file_maker, "crates/alerts/tests/a.rs", line), 0, "{line}");
        }
        assert_eq!(found(file_maker, "crates/cli/src/a.rs", "File::open(path)"), 0);
        assert_eq!(found(file_maker, "crates/cli/src/a.rs", "UnixListener::bind_addr(name)"), 0);
    }

    #[test]
    fn side_doors_are_found() {
        for line in
            ["println!(\"x\");", "std::process::exit(1)", "std::env::var(\"X\")", "io::stdout()"]
        {
            assert_eq!(found(doors, "crates/engine/src/a.rs", line), 1, "{line}");
            assert_eq!(found(doors, "crates/cli/src/a.rs", line), 0, "{line}");
            assert_eq!(found(doors, "crates/engine/tests/a.rs", line), 0, "{line}");
            let tested = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{ {line} }}\n");
            assert_eq!(found(doors, "crates/engine/src/a.rs", &tested), 0, "{line}");
        }
        assert_eq!(found(doors, "crates/engine/src/a.rs", "// println!\nenv!(\"X\")"), 0);
    }
}
