//! Phrases that pages and doc comments no longer use, each with what to write instead.
//!
//! Only phrases that have no other meaning in technical prose are listed: a rule that cries out
//! over good English would be worked around. What a page quotes as code is left alone, since the
//! program's texts have tests of their own.

use super::Finding;
use crate::repository::File;

/// A retired phrase, in lower case with single spaces, and what replaces it.
pub const PHRASES: &[(&str, &str)] = &[
    ("anew", "again, re-created"),
    ("anybody", "a user, a program"),
    ("at once", "immediately, at the same time, in one call"),
    ("before a queue", "upstream of a queue, at its ingress"),
    ("before the queue", "upstream of the queue, at its ingress"),
    ("behind a queue", "downstream of a queue, at its egress"),
    ("behind the queue", "downstream of the queue, at its egress"),
    ("beside", "compared with, alongside, in addition to, next to"),
    ("everybody", "all users, every user"),
    ("for want of", "because there is no"),
    ("front door", "front end"),
    ("front doors", "front ends"),
    ("go on", "continue"),
    ("goes on", "continues"),
    ("held against", "compared with"),
    ("in vain", "without success"),
    ("kept in part", "truncated"),
    ("kept whole", "recorded in full"),
    ("looked at", "observed, inspected"),
    ("never seen", "held-out, not in training"),
    ("nobody", "no user, no flow"),
    ("of late", "in the last N periods"),
    ("put off by", "biased by, disturbed by"),
    ("put right", "repaired, corrected"),
    ("ran short", "was under pressure, was exhausted"),
    ("run short", "are under pressure, are exhausted"),
    ("runs short", "is under pressure, is exhausted"),
    ("save for", "except"),
    ("sends again", "retransmits"),
    ("sent again", "retransmitted"),
    ("somebody", "a user, a program"),
    ("tells", "reports, shows, distinguishes"),
    ("told", "reported, shown, detected, inferred, distinguished"),
    ("went on", "continued"),
    ("what became of", "the outcome of"),
    ("what came of", "the outcome of"),
    ("what came to", "the total of"),
    ("what comes of", "the outcome of"),
    ("what flows do", "per-flow queue occupancy"),
    ("whoever", "a user who, a program that"),
    ("whole again", "intact, repaired"),
];

/// Beginnings of the paths of pages that must be free of [`PHRASES`]. The list only grows: a page
/// joins it when it has been rewritten, and none leaves.
pub const PAGES: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "STYLE.md",
    "bench/",
    "deploy/",
    "docs/",
    "fuzz/",
    "models/",
    "page/",
    "testbed/",
    "testdata/",
];

/// Beginnings of the paths of pages below [`PAGES`] that cannot be rewritten, each with the
/// reason.
pub const EXCEPT: &[(&str, &str)] = &[
    ("bench/results/20", "tables that a run printed are evidence of it; each README.md is held"),
    ("models/categories/card.md", "sealed by SHA256SUMS; the next training writes it in new words"),
    ("models/devices/card.md", "the same"),
    ("models/services/card.md", "the same"),
    ("models/video-rate/card.md", "the same"),
];

/// Beginnings of the paths of sources whose doc comments must be free of [`PHRASES`]. The list
/// only grows.
pub const SOURCES: &[&str] = &[
    "crates/alerts/",
    "crates/capture/",
    "crates/cca/",
    "crates/classify/",
    "crates/doctor/",
    "crates/dualq/",
    "crates/engine/",
    "crates/l4s/",
    "crates/latency/",
    "crates/model/",
    "crates/names/",
    "crates/packet/",
    "crates/packetlog/",
    "crates/server/",
    "crates/service/",
    "crates/simulator/",
    "crates/store/",
];

/// Pages and doc comments that were rewritten in plain terms stay so. Titles of decisions are left
/// alone: they are the names by which other pages refer to them.
#[must_use]
pub fn retired_phrase(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_excepted = |path: &str| {
        let is_listed = EXCEPT.iter().any(|(page, _)| path.starts_with(page));
        is_listed && !path.ends_with("/README.md")
    };
    let is_title = |file: &File, line| line == 1 && file.path.starts_with("docs/decisions/0");
    for file in files {
        let begins = |list: &[&str]| list.iter().any(|start| file.path.starts_with(start));
        let text = file.text().unwrap_or_default();
        let prose = match file.suffix() {
            "md" if begins(PAGES) && !is_excepted(&file.path) => prose(text),
            "rs" if begins(SOURCES) => prose(&doc_comments(text)),
            _ => continue,
        };
        let tokens = tokens(&prose);
        for (phrase, instead) in PHRASES {
            let words: Vec<&str> = phrase.split(' ').collect();
            let is_phrase = |window: &[(usize, &str)]| {
                window.iter().zip(&words).all(|((_, seen), word)| seen == word)
            };
            for window in tokens.windows(words.len()).filter(|window| is_phrase(window)) {
                if is_title(file, window[0].0) {
                    continue;
                }
                let seen = format!("the retired phrase `{phrase}`");
                findings.push(Finding::new(file, window[0].0, seen, *instead));
            }
        }
    }
    findings
}

/// The doc comments of a source, each on its line; other lines are empty.
fn doc_comments(source: &str) -> String {
    let text = |line: &str| {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        text.unwrap_or_default().trim_start().to_owned()
    };
    source.split('\n').map(text).collect::<Vec<_>>().join("\n")
}

/// Words and marks with the number of their line. A mark or an empty line stands between two
/// words as a token, so that no phrase reaches over it; the end of a line does not.
fn tokens(prose: &str) -> Vec<(usize, &str)> {
    let mut tokens = Vec::new();
    for (index, line) in prose.split('\n').enumerate() {
        if line.trim().is_empty() {
            tokens.push((index + 1, ""));
        }
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_inside = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            let len = rest.find(|c| !is_inside(c)).unwrap_or(rest.len()).max(first.len_utf8());
            let (token, behind) = rest.split_at(len);
            tokens.push((index + 1, token));
            rest = behind.trim_start();
        }
    }
    tokens
}

/// The text in lower case; of blocks and spans of code, comments and targets of links only a mark
/// and their ends of lines are left.
fn prose(markdown: &str) -> String {
    let mut prose = String::with_capacity(markdown.len());
    let mut rest = markdown;
    while let Some(first) = rest.chars().next() {
        let begins_line = prose.is_empty() || prose.ends_with('\n');
        let len = hidden_len(rest, begins_line);
        if len == 0 {
            prose.extend(first.to_lowercase());
            rest = &rest[first.len_utf8()..];
        } else {
            prose.push('`');
            prose.extend(rest[..len].chars().filter(|&c| c == '\n'));
            rest = &rest[len..];
        }
    }
    prose
}

/// How many bytes at the beginning of `rest` are not prose.
fn hidden_len(rest: &str, begins_line: bool) -> usize {
    let until = |end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
    if begins_line && rest.trim_start_matches(' ').starts_with("```") {
        let is_fence = |line: &str| line.trim_start().starts_with("```");
        let mut lines = rest.split_inclusive('\n');
        let first_len = lines.next().map_or(0, str::len);
        let mut is_open = true;
        let inside = lines.take_while(|line| std::mem::replace(&mut is_open, !is_fence(line)));
        first_len + inside.map(str::len).sum::<usize>()
    } else if rest.starts_with("<!--") {
        until("-->")
    } else if rest.starts_with("](") {
        until(")")
    } else if rest.starts_with('`') {
        let marks = rest.len() - rest.trim_start_matches('`').len();
        let paragraph = rest.split("\n\n").next().unwrap_or(rest);
        let end = paragraph[marks..].find(&rest[..marks]);
        end.map_or(marks, |at| at + 2 * marks)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::root;

    fn found(markdown: &str) -> Vec<usize> {
        let findings = retired_phrase(&[File::new(PAGES[0], markdown)]);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn retired_phrases_are_found() {
        for (markdown, lines) in [
            ("# Told\n\nRows beside others\n", vec![3, 1]),
            ("It is **sent\nagain**, at once.\n", vec![2, 1]),
            ("It is (whoever's) | Nobody |\n", vec![1, 1]),
            ("`x` and\n`y\nz` are told `apart`\n", vec![3]),
            ("```text\ntold\n```\ntold\n", vec![4]),
            ("<!--= a\nb -->told\n", vec![2]),
        ] {
            assert_eq!(found(markdown), lines, "{markdown}");
        }
    }

    #[test]
    fn code_comments_links_and_other_words_are_passed_over() {
        for markdown in [
            "It is sent, again. It is sent\n\nagain.\n",
            "`told` and ``told ` told`` and `not\ntold` and <!-- told\ntold -->\n",
            "  ```console\n  $ told\n  ```\n[text](page.md#beside-told)\n",
            "Besides, untold toldings; an at-once-only list\n",
            "sent `x` again\n",
        ] {
            assert_eq!(found(markdown), [0; 0], "{markdown}");
        }
        for (page, lines) in [
            ("other/page.md", vec![]),
            ("bench/results/2026-11-22/table.md", vec![]),
            ("bench/results/2026-11-22/README.md", vec![1, 3]),
            ("models/services/card.md", vec![]),
            ("docs/decisions/0024-session.md", vec![3]),
            ("docs/guide/0024.md", vec![1, 3]),
        ] {
            let findings = retired_phrase(&[File::new(page, "# Told\n\ntold\n")]);
            assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), lines);
        }
        assert!(retired_phrase(&[File::new("ARCHITECTURE.md.rs", "told\n")]).is_empty());
    }

    #[test]
    fn doc_comments_of_the_sources_listed_are_read() {
        let found = |path: &str, text: &str| retired_phrase(&[File::new(path, text)]).len();
        let source = "//! It is told.\n\n/// Rows at\n/// once.\npub struct Row; // told\n";
        assert_eq!(found("crates/engine/src/row.rs", source), 2);
        assert_eq!(found("crates/cli/src/row.rs", source), 0);
        let other = "/// It is sent\npub struct Row;\n/// again, `told`.\nlet told = \"told\";\n";
        assert_eq!(found("crates/engine/src/row.rs", other), 0);
    }

    #[test]
    fn phrases_can_be_found_and_pages_exist() {
        for (phrase, instead) in PHRASES {
            assert_eq!(found(&format!("A {phrase} b\n")), [1], "{phrase}");
            assert!(!instead.is_empty(), "{phrase}");
        }
        let excepted = EXCEPT.iter().map(|(page, reason)| {
            assert!(!reason.is_empty(), "{page}");
            page
        });
        for page in PAGES.iter().chain(SOURCES).chain(excepted) {
            let (folder, name) = page.rsplit_once('/').unwrap_or((".", page));
            let begins = std::fs::read_dir(root().join(folder)).is_ok_and(|mut entries| {
                let names = |entry: std::io::Result<std::fs::DirEntry>| {
                    entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with(name))
                };
                entries.any(names)
            });
            assert!(begins, "{page}: no page begins so; a list of pages has no empty entries");
        }
    }
}
