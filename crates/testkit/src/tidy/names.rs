//! Names that say nothing, and marks of unfinished work.

use super::Finding;
use crate::repository::File;
use crate::source::{has_word, mask_rust, numbered};

/// A thing that two crates need lives in the lower of them, under its own name.
const VAGUE_NAMES: &[&str] =
    &["common", "helper", "helpers", "misc", "miscellaneous", "types", "util", "utils"];

/// Put together here, so that this file is not found itself.
const WORK_MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

const TEXT_SUFFIXES: &[&str] = &[
    "c", "cc", "cpp", "css", "h", "html", "js", "json", "md", "py", "rs", "sh", "toml", "ts",
    "yaml", "yml",
];

/// No file, folder or module is named after nothing in particular.
#[must_use]
pub fn vague_name(files: &[File]) -> Vec<Finding> {
    let wanted = "a name that says what it does";
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| matches!(file.suffix(), "rs" | "py" | "toml")) {
        let stem = |part: &str| part.split('.').next().unwrap_or_default().to_owned();
        if let Some(part) = file.path.split('/').map(stem).find(|part| is_vague(part)) {
            findings.push(Finding::new(file, 1, format!("a path with `{part}`"), wanted));
        }
        if file.suffix() != "rs" {
            continue;
        }
        for (number, line) in numbered(&mask_rust(file.text().unwrap_or_default())) {
            if let Some(name) = module_name(line).filter(|name| is_vague(name)) {
                findings.push(Finding::new(file, number, format!("a module `{name}`"), wanted));
            }
        }
    }
    findings
}

/// Work that is left is an issue, where it is seen, not a mark, where it is not.
#[must_use]
pub fn work_mark(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_text = |file: &&File| {
        TEXT_SUFFIXES.contains(&file.suffix()) || matches!(file.name(), "Makefile" | "run")
    };
    for file in files.iter().filter(is_text) {
        for (number, line) in numbered(file.text().unwrap_or_default()) {
            if let Some(mark) = WORK_MARKS.iter().find(|mark| has_word(line, mark)) {
                let wanted = "the work done, or an issue";
                findings.push(Finding::new(file, number, format!("`{mark}`"), wanted));
            }
        }
    }
    findings
}

fn is_vague(name: &str) -> bool {
    VAGUE_NAMES.contains(&name)
}

/// `time` of `pub mod time;`.
fn module_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("mod ")?;
    let is_declaration = before.trim().is_empty() || before.trim_start().starts_with("pub");
    let name = after.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    is_declaration.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vague_names_are_found() {
        for (path, text, count) in [
            ("crates/utils/src/lib.rs", "", 1),
            ("crates/packet/src/types.rs", "", 1),
            ("python/wirelens/helpers.py", "", 1),
            ("crates/packet/src/lib.rs", "pub(crate) mod common;\n", 1),
            ("crates/packet/src/lib.rs", "    mod misc {\n", 1),
            ("crates/packet/src/lib.rs", "// mod misc\nmod time;\n", 0),
            ("crates/packet/src/record_types.rs", "", 0),
        ] {
            assert_eq!(vague_name(&[File::new(path, text)]).len(), count, "{path}: {text}");
        }
    }

    #[test]
    fn work_marks_are_found() {
        for mark in WORK_MARKS {
            let found = work_mark(&[File::new("a.py", format!("x\n# {mark}: later\n"))]);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].line, 2);
        }
        assert!(work_mark(&[File::new("a.sh", "mktemp -d /tmp/run.XXXXXX\n")]).is_empty());
    }
}
