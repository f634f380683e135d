//! Names of types that say what was done to something, and not what it is.

use super::Finding;
use crate::repository::File;
use crate::source::{mask_rust, numbered};

/// Names that may stay, each with its reason.
const ALLOWED: &[(&str, &str)] = &[
    ("Cooked", "the link type of Linux is called a cooked capture (SLL)"),
    ("Malformed", "Wireshark's word for a packet whose headers contradict each other"),
];

/// Last words that end like a participle and are nouns.
const NOUNS: &[&str] = &["Bed", "Feed", "Need", "Seed", "Shed", "Speed"];

/// Participles that do not end in `ed`. Those that are as often nouns, such as a cut, a run, a set
/// or a split, are not among them.
const IRREGULAR: &[&str] = &[
    "Begun",
    "Bought",
    "Bound",
    "Broken",
    "Brought",
    "Built",
    "Chosen",
    "Done",
    "Drawn",
    "Driven",
    "Forgotten",
    "Found",
    "Frozen",
    "Given",
    "Gone",
    "Got",
    "Gotten",
    "Grown",
    "Held",
    "Hidden",
    "Kept",
    "Known",
    "Laid",
    "Left",
    "Lent",
    "Lost",
    "Made",
    "Met",
    "Paid",
    "Read",
    "Said",
    "Seen",
    "Sent",
    "Shown",
    "Sold",
    "Sought",
    "Spent",
    "Taken",
    "Thrown",
    "Told",
    "Unknown",
    "Unseen",
    "Unsent",
    "Written",
];

/// Public types are named by nouns: `FlowEnd`, not `Ended`. A participle needs the sentence around
/// it, which is missing where a type is imported.
#[must_use]
pub fn participle_name(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let text = file.text().unwrap_or_default();
        let (code, declared): (String, fn(&str) -> Option<&str>) = match file.suffix() {
            "rs" => (mask_rust(text), rust_type),
            "py" | "pyi" => (text.to_owned(), python_class),
            _ => continue,
        };
        for (number, line) in numbered(&code) {
            if let Some(name) = declared(line).filter(|name| is_participle(name)) {
                let seen = format!("a public type `{name}`");
                let wanted = "a noun of the field, such as `FlowEnd` for `Ended`";
                findings.push(Finding::new(file, number, seen, wanted));
            }
        }
    }
    findings
}

/// `Flow` of `pub(crate) struct Flow<S> {`.
fn rust_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(inside) => inside.split_once(')')?.1,
        None => rest,
    };
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (kind, rest) = rest.split_once(' ')?;
    matches!(kind, "struct" | "enum" | "trait" | "type" | "union").then(|| first_name(rest))
}

/// `Flow` of `class Flow(Row):`; nothing of one whose name begins with an underscore.
fn python_class(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("class ")?;
    (!rest.starts_with('_') && rest.trim_end().ends_with([':', '('])).then(|| first_name(rest))
}

fn first_name(text: &str) -> &str {
    let is_inside = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c: char| !is_inside(c)).next().unwrap_or_default()
}

/// Whether the last word of a name in capitals and lower case is a participle.
fn is_participle(name: &str) -> bool {
    let start = name.rfind(|c: char| c.is_ascii_uppercase()).unwrap_or(0);
    let last = &name[start..];
    let is_regular = last.len() > 3 && last.ends_with("ed") && !NOUNS.contains(&last);
    let is_allowed = ALLOWED.iter().any(|(allowed, _)| *allowed == name);
    (is_regular || IRREGULAR.contains(&last)) && !is_allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn participles_as_names_of_types_are_found() {
        for (path, text, count) in [
            ("a.rs", "pub struct Ended<S> {\n", 1),
            ("a.rs", "    pub(crate) enum FlowTold {\n", 1),
            ("a.rs", "pub(in crate::flow) trait Kept: Sized {\n", 1),
            ("a.rs", "pub type Lost = u64;\npub unsafe trait Held {}\n", 2),
            ("a.py", "class Judged(Row):\n", 1),
            ("a.pyi", "class FlowSeen:\n", 1),
            ("a.rs", "struct Ended;\n", 0),
            ("a.rs", "// pub struct Ended;\npub fn ended() {}\n", 0),
            ("a.rs", "pub struct Endedness;\npub struct HashSeed(u64);\npub struct Seed;\n", 0),
            ("a.rs", "pub enum Malformed {\npub struct EndedFlow<S>(S);\n", 0),
            ("a.rs", "pub struct TUN(u8);\npub struct _x;\n", 0),
            ("a.py", "class _Read:\n    class Ended:\n\"\"\"\nclass Ended is a word\n", 0),
            ("a.md", "pub struct Ended;\n", 0),
        ] {
            let findings = participle_name(&[File::new(path, text)]);
            assert_eq!(findings.len(), count, "{path}: {text}");
        }
    }

    #[test]
    fn names_that_stay_say_why() {
        for (name, reason) in ALLOWED {
            assert!(reason.split_whitespace().count() >= 5, "{name}: {reason}");
        }
    }
}
