//! Golden runs: what a command says is kept in files, and a change shows.
//!
//! A case is a folder:
//!
//! | file | holds |
//! |---|---|
//! | `cmd` | the arguments, blank-separated, `'…'` for one with blanks; `< FILE` at the end feeds standard input |
//! | `stdout` | what is expected there |
//! | `stderr` | the same, where it matters |
//! | `status` | the exit status, where it is not 0 |
//!
//! The command runs at the repository's root, in UTC, in the plain locale and
//! without colours. `UPDATE_GOLDEN=1` writes what is seen in place of what was
//! expected; the difference is then read in review.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::repository;

/// Something that differs from run to run, and what stands for it in a golden file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mask {
    /// This very text, such as the path of a temporary folder.
    Text(String),
    /// The number right after this text.
    NumberAfter(&'static str),
    /// The number right before this text.
    NumberBefore(&'static str),
}

/// Stands for what a [`Mask`] covers.
pub const MASKED: &str = "<…>";

/// What a run of a case said.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Outcome {
    stdout: String,
    stderr: String,
    status: i32,
}

/// Runs every case below `testdata/golden/` whose name begins with `prefix`,
/// and tells how many there were.
///
/// # Errors
/// Where the outcome of some case is not the expected one: each case with the
/// first line that differs and how to accept it. Also where there is no case,
/// so that a misspelt prefix does not pass.
pub fn check_all(program: &Path, prefix: &str, masks: &[Mask]) -> Result<usize, String> {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1");
    let folder = repository::root().join("testdata/golden");
    let mut cases =
        case_folders(&folder, prefix).map_err(|error| format!("{}: {error}", folder.display()))?;
    cases.sort();
    if cases.is_empty() {
        return Err(format!(
            "no case `{prefix}*` in {}; a case holds a file `cmd`",
            folder.display()
        ));
    }
    let mut complaints = String::new();
    for case in &cases {
        if let Err(complaint) = check_case(program, case, masks, update) {
            let _ = writeln!(complaints, "{}: {complaint}", case.display());
        }
    }
    if complaints.is_empty() { Ok(cases.len()) } else { Err(complaints) }
}

fn case_folders(folder: &Path, prefix: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix)
            && entry.path().join("cmd").exists()
        {
            cases.push(entry.path());
        }
    }
    Ok(cases)
}

fn check_case(program: &Path, case: &Path, masks: &[Mask], update: bool) -> Result<(), String> {
    let seen = run(program, case, masks)?;
    if update {
        return write_outcome(case, &seen).map_err(|error| format!("cannot be updated: {error}"));
    }
    let expected = |name: &str| fs::read_to_string(case.join(name));
    let status = expected("status").map_or(Ok(0), |text| text.trim().parse::<i32>());
    let status = status.map_err(|error| format!("status: {error}"))?;
    if seen.status != status {
        let said = seen.stderr.lines().last().unwrap_or_default();
        return Err(format!("exit status {}, expected {status}; it said: {said}", seen.status));
    }
    let stdout = expected("stdout").map_err(|error| format!("stdout: {error}"))?;
    compare("stdout", &stdout, &seen.stdout)?;
    expected("stderr").map_or(Ok(()), |stderr| compare("stderr", &stderr, &seen.stderr))
}

fn run(program: &Path, case: &Path, masks: &[Mask]) -> Result<Outcome, String> {
    let typed = fs::read_to_string(case.join("cmd")).map_err(|error| format!("cmd: {error}"))?;
    let (arguments, input) = split_command(&typed)?;
    let root = repository::root();
    let stdin = match input {
        Some(path) => {
            Stdio::from(File::open(root.join(&path)).map_err(|error| format!("{path}: {error}"))?)
        }
        None => Stdio::null(),
    };
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .envs([("TZ", "UTC"), ("LC_ALL", "C"), ("NO_COLOR", "1")])
        .stdin(stdin)
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let text = |bytes: &[u8]| apply(masks, &String::from_utf8_lossy(bytes));
    Ok(Outcome {
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
        // A run that a signal ended has no status of its own.
        status: output.status.code().unwrap_or(-1),
    })
}

/// Arguments, and the file for standard input.
fn split_command(typed: &str) -> Result<(Vec<String>, Option<String>), String> {
    let mut words = Vec::new();
    // Every second part of a text cut at its quotes was quoted.
    for (index, part) in typed.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    if typed.matches('\'').count() % 2 == 1 {
        return Err(format!("cmd: a quote is not closed: {}", typed.trim()));
    }
    match words.iter().position(|word| word == "<") {
        None => Ok((words, None)),
        Some(at) if at + 2 == words.len() => {
            let input = words.pop();
            words.pop();
            Ok((words, input))
        }
        Some(_) => Err("cmd: `<` and one file are expected at the end".to_owned()),
    }
}

fn write_outcome(case: &Path, seen: &Outcome) -> std::io::Result<()> {
    fs::write(case.join("stdout"), &seen.stdout)?;
    if seen.status != 0 || case.join("stderr").exists() {
        fs::write(case.join("stderr"), &seen.stderr)?;
    }
    match (seen.status, case.join("status")) {
        (0, path) if !path.exists() => Ok(()),
        (status, path) => fs::write(path, format!("{status}\n")),
    }
}

/// The first line that differs, from both sides.
fn compare(name: &str, expected: &str, seen: &str) -> Result<(), String> {
    if expected == seen {
        return Ok(());
    }
    let (mut expected_lines, mut seen_lines) = (expected.split('\n'), seen.split('\n'));
    let mut number = 0_usize;
    loop {
        number += 1;
        let (expected, seen) = (expected_lines.next(), seen_lines.next());
        if expected != seen {
            let end = "(nothing more)";
            return Err(format!(
                "{name}, line {number}\n  expected: {}\n  seen:     {}\n  \
                 to accept it, run the test with UPDATE_GOLDEN=1 and read the difference",
                expected.unwrap_or(end),
                seen.unwrap_or(end),
            ));
        }
    }
}

fn apply(masks: &[Mask], text: &str) -> String {
    masks.iter().fold(text.to_owned(), |text, mask| match mask {
        Mask::Text(volatile) => text.replace(volatile.as_str(), MASKED),
        Mask::NumberAfter(label) => mask_after(&text, label),
        Mask::NumberBefore(label) => mask_before(&text, label),
    })
}

fn is_numeric(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '.' | ',')
}

fn mask_after(text: &str, label: &str) -> String {
    let mut parts = text.split(label);
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(is_numeric);
        masked += label;
        masked += if rest.len() < part.len() { MASKED } else { "" };
        masked += rest;
    }
    masked
}

fn mask_before(text: &str, label: &str) -> String {
    let parts: Vec<&str> = text.split(label).collect();
    let mut masked = String::with_capacity(text.len());
    for (index, part) in parts.iter().enumerate() {
        if index + 1 == parts.len() {
            masked += part;
            break;
        }
        let rest = part.trim_end_matches(is_numeric);
        masked += rest;
        masked += if rest.len() < part.len() { MASKED } else { "" };
        masked += label;
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_as_typed() {
        let (words, input) = split_command("top -r - 'udp port 53' < a.pcap\n").unwrap();
        assert_eq!(words, ["top", "-r", "-", "udp port 53"]);
        assert_eq!(input.as_deref(), Some("a.pcap"));
        assert!(split_command("top 'udp").is_err());
        assert!(split_command("top < a b").is_err());
    }

    #[test]
    fn masks_cover_what_varies_and_nothing_else() {
        let masks =
            [Mask::NumberBefore(" s"), Mask::NumberAfter("rate "), Mask::Text("/tmp/a".to_owned())];
        let seen = apply(&masks, "12 packets in 0.25 s, rate 1,200.5/s, in /tmp/a/b, no s");
        assert_eq!(seen, "12 packets in <…> s, rate <…>/s, in <…>/b, no s");
    }

    #[test]
    fn a_difference_is_shown_by_its_line() {
        let complaint = compare("stdout", "a\nb\n", "a\nc\n").unwrap_err();
        assert!(complaint.contains("line 2"), "{complaint}");
        assert!(complaint.contains("expected: b"), "{complaint}");
        assert!(compare("stdout", "a\n", "a\nb\n").is_err());
        assert!(compare("stdout", "a\n", "a").is_err());
        assert!(compare("stdout", "a\n", "a\n").is_ok());
    }

    #[test]
    fn a_case_passes_fails_and_is_rewritten() {
        let case = std::env::temp_dir().join(format!("wirelens-golden-{}", std::process::id()));
        fs::create_dir_all(&case).unwrap();
        fs::write(case.join("cmd"), "-c 'echo seen; echo why >&2; exit 3'\n").unwrap();
        fs::write(case.join("stdout"), "expected\n").unwrap();
        let check = |update| check_case(Path::new("/bin/sh"), &case, &[], update);

        let refused = check(false).unwrap_err();
        assert!(refused.contains("exit status 3, expected 0"), "{refused}");
        assert!(refused.contains("why"), "{refused}");
        check(true).unwrap();
        check(false).unwrap();
        let kept = |name: &str| fs::read_to_string(case.join(name)).unwrap();
        assert_eq!((kept("stdout"), kept("status")), ("seen\n".to_owned(), "3\n".to_owned()));
        fs::write(case.join("stderr"), "another reason\n").unwrap();
        assert!(check(false).unwrap_err().contains("stderr, line 1"));
        fs::remove_dir_all(&case).unwrap();
    }

    #[test]
    fn a_misspelt_prefix_does_not_pass() {
        assert!(check_all(Path::new("/bin/true"), "no-such-case-", &[]).is_err());
    }
}
