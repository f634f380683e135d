//! Rules of the repository that neither the compiler nor a lint can check.
//!
//! A rule reads files and tells what it finds: where, what was seen, and what
//! is wanted instead. `STYLE.md` gives the reason of each. Every rule has a
//! test that shows it a bad file.

pub mod circles;
pub mod laws;
pub mod layout;
pub mod names;
pub mod packages;
pub mod participles;
pub mod phrases;
pub mod shape;

use std::fmt;

use crate::repository::File;

/// One place where a rule does not hold.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// The file's path from the root.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// What stands there.
    pub seen: String,
    /// What should.
    pub wanted: String,
}

/// A rule and the name by which an exception refers to it.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// One or two words, `snake_case`.
    pub name: &'static str,
    /// What it finds in some files.
    pub check: fn(&[File]) -> Vec<Finding>,
}

/// A place where a rule is known not to hold, with the reason.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// [`Rule::name`].
    pub rule: &'static str,
    /// The file's path from the root.
    pub path: &'static str,
    /// Why it is better so.
    pub reason: &'static str,
}

/// All rules, in the order of `STYLE.md`.
pub const RULES: &[Rule] = &[
    Rule { name: "unsafe_address", check: laws::unsafe_address },
    Rule { name: "crate_root", check: laws::crate_root },
    Rule { name: "lints_inherited", check: laws::lints_inherited },
    Rule { name: "lint_silenced", check: laws::lint_silenced },
    Rule { name: "doors", check: laws::doors },
    Rule { name: "file_maker", check: laws::file_maker },
    Rule { name: "import_circle", check: circles::import_circle },
    Rule { name: "vague_name", check: names::vague_name },
    Rule { name: "participle_name", check: participles::participle_name },
    Rule { name: "retired_phrase", check: phrases::retired_phrase },
    Rule { name: "file_len", check: shape::file_len },
    Rule { name: "front_len", check: shape::front_len },
    Rule { name: "function_len", check: shape::function_len },
    Rule { name: "line_len", check: shape::line_len },
    Rule { name: "last_newline", check: shape::last_newline },
    Rule { name: "file_size", check: shape::file_size },
    Rule { name: "protocol_order", check: layout::protocol_order },
    Rule { name: "ignored_test", check: layout::ignored_test },
    Rule { name: "root_file", check: layout::root_file },
    Rule { name: "link", check: layout::link },
    Rule { name: "work_mark", check: names::work_mark },
    Rule { name: "foreign_package", check: packages::foreign_package },
];

/// Known exceptions. One that no longer excuses anything is a finding itself.
pub const EXCEPTIONS: &[Exception] = &[
    Exception {
        rule: "doors",
        path: "crates/files/src/stream.rs",
        reason: "an output named /dev/stdout is that descriptor duplicated, so that `>>` appends",
    },
    Exception {
        rule: "file_maker",
        path: "crates/cli/src/installed.rs",
        reason: "manual pages are installed for all users to read",
    },
    Exception {
        rule: "file_maker",
        path: "crates/python/src/l4s.rs",
        reason: "traces and journals of a simulation hold no traffic",
    },
];

impl Finding {
    fn new(file: &File, line: usize, seen: impl Into<String>, wanted: impl Into<String>) -> Self {
        Self { path: file.path.clone(), line, seen: seen.into(), wanted: wanted.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; wanted: {}", self.path, self.line, self.seen, self.wanted)
    }
}

/// What all `rules` find in `files`, less what `exceptions` excuse; one line each.
#[must_use]
pub fn complaints(files: &[File], rules: &[Rule], exceptions: &[Exception]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut is_used = vec![false; exceptions.len()];
    for rule in rules {
        let mut findings = (rule.check)(files);
        findings.sort();
        for finding in findings {
            let excuse = exceptions
                .iter()
                .position(|known| known.rule == rule.name && known.path == finding.path);
            match excuse {
                Some(index) => is_used[index] = true,
                None => complaints.push(format!("{finding} ({})", rule.name)),
            }
        }
    }
    for (exception, _) in exceptions.iter().zip(is_used).filter(|(_, is_used)| !is_used) {
        complaints.push(format!(
            "{}: nothing left to excuse; wanted: no exception from {}",
            exception.path, exception.rule
        ));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Rule = Rule { name: "line_len", check: shape::line_len };

    #[test]
    fn a_complaint_names_place_sight_wish_and_rule() {
        let file = File::new("a.rs", format!("\n{}\n", "x".repeat(101)));
        let complaints = complaints(&[file], &[LONG], &[]);
        assert_eq!(
            complaints,
            ["a.rs:2: a line of 101 characters; wanted: at most 100 (line_len)"]
        );
    }

    #[test]
    fn an_exception_excuses_and_must_be_needed() {
        let excuse = Exception { rule: "line_len", path: "a.rs", reason: "shown to a test" };
        let long = File::new("a.rs", format!("{}\n", "x".repeat(101)));
        let short = File::new("a.rs", "x\n");
        assert!(complaints(&[long], &[LONG], &[excuse]).is_empty());
        assert_eq!(complaints(&[short], &[LONG], &[excuse]).len(), 1);
    }

    #[test]
    fn exceptions_name_rules_that_exist_and_say_why() {
        for exception in EXCEPTIONS {
            assert!(RULES.iter().any(|rule| rule.name == exception.rule), "{}", exception.rule);
            assert!(exception.reason.split_whitespace().count() >= 3, "{}", exception.path);
        }
    }
}
