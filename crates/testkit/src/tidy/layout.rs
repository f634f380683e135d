//! Where things stand: inside a protocol's file, beside a skipped test, and at
//! the other end of a link.

use std::collections::BTreeSet;

use super::Finding;
use crate::repository::File;
use crate::source::{mask_rust, numbered};

/// Where the protocol files lie.
const PROTOCOLS: &str = "crates/packet/src/wire/";

/// How the reason of a skipped test begins: one that reads captures which are
/// kept beside the repository, and which `make test-wide` runs.
const WIDE: &str = "#[ignore = \"wide: ";

/// The tenth protocol is read at a glance, because each file has one order:
/// offsets, checked view, small value, display, tests.
#[must_use]
pub fn protocol_order(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_protocol = |file: &&File| {
        file.is_at(PROTOCOLS)
            && file.suffix() == "rs"
            && !matches!(file.name(), "mod.rs" | "tests.rs")
    };
    for file in files.iter().filter(is_protocol) {
        let masked = mask_rust(file.text().unwrap_or_default());
        let mut last: Option<(usize, &str)> = None;
        for (part, starts) in PARTS {
            let Some((line, _)) = numbered(&masked).find(|(_, line)| starts(line)) else {
                continue;
            };
            if let Some((before_line, before)) = last.filter(|&(before, _)| before > line) {
                let seen = format!("{part} before {before} (line {before_line})");
                let wanted = "offsets, view, value, display, tests, in this order";
                findings.push(Finding::new(file, line, seen, wanted));
            }
            last = last.max(Some((line, part)));
        }
    }
    findings
}

/// A part of a protocol's file, and how its first line is told.
type Part = (&'static str, fn(&str) -> bool);

const PARTS: [Part; 5] = [
    ("offsets", |line| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
        line.starts_with("mod field")
            || (line.starts_with("const ") && !line.starts_with("const _"))
    }),
    ("view", |line| line.starts_with("pub struct ") && !is_value(line)),
    ("value", |line| line.starts_with("pub struct ") && is_value(line)),
    ("display", shows_view_or_value),
    ("tests", |line| line.starts_with("#[cfg(test)]")),
];

/// Of the view, which borrows, or of the value. A smaller type, such as a set
/// of flags, keeps its display beside it.
fn shows_view_or_value(line: &str) -> bool {
    let shown = line.strip_prefix("impl").and_then(|rest| rest.split_once("fmt::Display for "));
    shown.is_some_and(|(_, name)| name.contains("<'") || name.contains("Repr "))
}

fn is_value(line: &str) -> bool {
    let name = line.trim_start_matches("pub struct ");
    name.split(|c: char| !c.is_alphanumeric()).next().is_some_and(|name| name.ends_with("Repr"))
}

/// Every skipped test is run somewhere: the only reason to skip one is that it
/// is wide.
#[must_use]
pub fn ignored_test(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.suffix() == "rs") {
        let text = file.text().unwrap_or_default();
        for ((number, line), masked) in numbered(text).zip(mask_rust(text).lines()) {
            if masked.trim_start().starts_with("#[ignore") && !line.trim_start().starts_with(WIDE) {
                let wanted = format!("`{WIDE}…\"]`, or a test that runs");
                findings.push(Finding::new(file, number, "a test that nothing runs", wanted));
            }
        }
    }
    findings
}

/// All files at the root: pages, licences and settings.
pub const ROOT_FILES: &[&str] = &[
    ".editorconfig",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "STYLE.md",
    "clippy.toml",
    "pyproject.toml",
    "rustfmt.toml",
];

/// The first thing that a reader sees is what was put there on purpose. An output that was written
/// where a command ran was not.
#[must_use]
pub fn root_file(files: &[File]) -> Vec<Finding> {
    let at_root = files.iter().filter(|file| !file.path.contains('/'));
    at_root
        .filter(|file| !ROOT_FILES.contains(&file.path.as_str()))
        .map(|file| {
            let wanted = "one of ROOT_FILES: a page or settings go there, an output elsewhere";
            Finding::new(file, 1, "a file at the root that no list has", wanted)
        })
        .collect()
}

/// A link to a file of the repository leads to one.
#[must_use]
pub fn link(files: &[File]) -> Vec<Finding> {
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let exists = |path: &str| {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || paths.contains(path)
            || paths.range(folder.as_str()..).next().is_some_and(|next| next.starts_with(&folder))
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.suffix() == "md") {
        for (number, target) in links(file.text().unwrap_or_default()) {
            let path = resolve(&file.path, &target);
            if !path.as_deref().is_some_and(exists) {
                let wanted = "a file of the repository";
                findings.push(Finding::new(file, number, format!("a link to `{target}`"), wanted));
            }
        }
    }
    findings
}

/// Targets of links that stay in the repository, without their anchors.
fn links(markdown: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    let mut in_code = false;
    for (number, line) in numbered(markdown) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        // Every second part of a line cut at its backticks is code.
        let prose: String = line.split('`').step_by(2).collect();
        let inline = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let reference = prose.split_once("]: ").filter(|(label, _)| label.starts_with('['));
        for target in inline.chain(reference.map(|(_, target)| target)) {
            let target = target.split_whitespace().next().unwrap_or_default();
            let path = target.split('#').next().unwrap_or_default();
            if !path.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                links.push((number, path.to_owned()));
            }
        }
    }
    links
}

/// Path from the root of what `target` means in the file at `from`; `None`
/// where it leads out of the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDERED: &str = "const SIZE: usize = 8;\npub struct UdpPacket<'a>(&'a [u8]);\n\
        pub struct UdpRepr {}\nimpl fmt::Display for UdpRepr {}\nconst _: () = ();\n\
        #[cfg(test)]\nmod tests {}\n";

    #[test]
    fn protocol_files_out_of_order_are_found() {
        let found = |name: &str, text: &str| {
            protocol_order(&[File::new(&format!("{PROTOCOLS}{name}"), text)]).len()
        };
        assert_eq!(found("udp.rs", ORDERED), 0);
        let reversed: Vec<_> = ORDERED.lines().take(4).collect();
        let reversed: String = reversed.iter().rev().flat_map(|line| [line, "\n"]).collect();
        assert_eq!(found("udp.rs", &reversed), 3);
        assert_eq!(found("udp.rs", "pub struct UdpRepr;\npub struct Udp;\n"), 1);
        assert_eq!(found("udp.rs", "#[cfg(test)]\nmod tests {}\nconst SIZE: usize = 8;\n"), 1);
        let small = "pub struct Flags(u16);\nimpl fmt::Display for Flags {}\n";
        assert_eq!(found("udp.rs", &format!("{small}{ORDERED}")), 1, "offsets come first");
        assert_eq!(found("udp.rs", &ORDERED.replacen('\n', &format!("\n{small}"), 1)), 0);
        assert_eq!(found("mod.rs", &reversed), 0);
    }

    #[test]
    fn outputs_at_the_root_are_found() {
        let found = |path: &str| root_file(&[File::new(path, "# x\n")]).len();
        assert_eq!((found("unknown-services.md"), found("out.jsonl"), found("table")), (1, 1, 1));
        assert_eq!((found("OUT"), found("run.toml"), found(".results")), (1, 1, 1));
        assert_eq!((found("README.md"), found("clippy.toml"), found(".gitignore")), (0, 0, 0));
        assert_eq!(found("docs/guide/flows.md"), 0);
    }

    #[test]
    fn skipped_tests_without_a_home_are_found() {
        let found = |text: &str| ignored_test(&[File::new("a.rs", text)]).len();
        assert_eq!(found("#[test]\n#[ignore]\nfn f() {}\n"), 1);
        assert_eq!(found("    #[ignore = \"slow\"]\n"), 1);
        assert_eq!(found("    #[ignore = \"wide: reads 237 captures\"]\n// #[ignore]\n"), 0);
    }

    #[test]
    fn dead_links_are_found() {
        let files =
            |markdown: &str| [File::new("docs/guide/a.md", markdown), File::new("STYLE.md", "")];
        for (markdown, count) in [
            ("[s](../../STYLE.md#laws) [d](..) [h](#here) [w](https://a.b/c)\n", 0),
            ("[s](/STYLE.md \"title\") `[x](y)`\n```\n[x](y)\n```\n", 0),
            ("[s](STYLE.md)\n", 1),
            ("[a]: ../b.md\n", 1),
            ("[out](../../../STYLE.md)\n", 1),
            ("![a](a.md) ![b](b.png)\n", 1),
        ] {
            assert_eq!(link(&files(markdown)).len(), count, "{markdown}");
        }
    }
}
