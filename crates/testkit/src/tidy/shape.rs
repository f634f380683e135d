//! How long files, functions and lines may be.

use super::Finding;
use crate::repository::File;
use crate::source::{code_line_count, lines_before_tests, mask_python, mask_rust, numbered};

/// Lines of code in a file, tests at its end not counted.
pub const FILE_LINES_MAX: usize = 500;
/// Lines of the command, tests and comments included: it translates, and computes nothing. A
/// question takes some 50 of them: flags, help and what they refuse; a tenth is for hints, tables
/// that fit the terminal, completions and manual pages.
pub const FRONT_LINES_MAX: usize = 10_300;
/// Where the command is.
const FRONT: &str = "crates/cli/";
/// Lines of code in a function; clippy holds Rust to the same number.
pub const FUNCTION_LINES_MAX: usize = 70;
/// Characters in a line of Rust or Python.
pub const LINE_CHARS_MAX: usize = 100;
/// Bytes in a file that is kept in the repository.
pub const FILE_SIZE_BYTES_MAX: usize = 2_500_000;
/// Bytes in a file of a trained model that ships, or of a trace that takes half an hour to make.
pub const MODEL_FILE_SIZE_BYTES_MAX: usize = 4_000_000;

/// A file that can be held in the head.
#[must_use]
pub fn file_len(files: &[File]) -> Vec<Finding> {
    let count_lines = |file: &File| -> Option<usize> {
        let text = file.text()?;
        match file.suffix() {
            "rs" if !file.path.contains("/tests/") => {
                let masked = mask_rust(text);
                Some(code_line_count(lines_before_tests(&masked).map(|(_, line)| line)))
            }
            "rs" | "c" | "h" | "cc" | "cpp" | "js" | "ts" => {
                Some(code_line_count(mask_rust(text).lines()))
            }
            "py" => Some(code_line_count(mask_python(text).lines())),
            "sh" => Some(text.lines().filter(|line| !is_blank_shell(line)).count()),
            _ => None,
        }
    };
    let too_long = |file| Some((file, count_lines(file).filter(|&len| len > FILE_LINES_MAX)?));
    files
        .iter()
        .filter_map(too_long)
        .map(|(file, len)| {
            let wanted = format!("at most {FILE_LINES_MAX}: split it by what its parts do");
            Finding::new(file, 1, format!("{len} lines of code"), wanted)
        })
        .collect()
}

/// A command that only translates: what it computes would be counted here.
#[must_use]
pub fn front_len(files: &[File]) -> Vec<Finding> {
    let of_front = || files.iter().filter(|file| file.is_at(FRONT) && file.suffix() == "rs");
    let len: usize = of_front().filter_map(|file| Some(file.text()?.lines().count())).sum();
    let longest = of_front().max_by_key(|file| file.size_bytes());
    longest
        .filter(|_| len > FRONT_LINES_MAX)
        .map(|file| {
            let wanted = format!("at most {FRONT_LINES_MAX}: what computes is for `session`");
            Finding::new(file, 1, format!("{len} lines in {FRONT}"), wanted)
        })
        .into_iter()
        .collect()
}

/// A function that can be read without scrolling, for Python; clippy does it for Rust.
#[must_use]
pub fn function_len(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.suffix() == "py") {
        let Some(text) = file.text() else { continue };
        for function in python_functions(&mask_python(text)) {
            if function.code_lines > FUNCTION_LINES_MAX {
                let seen = format!("a function of {} lines of code", function.code_lines);
                let wanted = format!("at most {FUNCTION_LINES_MAX}");
                findings.push(Finding::new(file, function.line, seen, wanted));
            }
        }
    }
    findings
}

/// Lines that fit beside each other on a screen. Excused is what would be read
/// or found less well in two lines: addresses, rows of tables, and a text that
/// stands alone.
#[must_use]
pub fn line_len(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| matches!(file.suffix(), "rs" | "py")) {
        for (number, line) in numbered(file.text().unwrap_or_default()) {
            let len = line.chars().count();
            if len > LINE_CHARS_MAX && !is_unbreakable(line) {
                let seen = format!("a line of {len} characters");
                let wanted = format!("at most {LINE_CHARS_MAX}");
                findings.push(Finding::new(file, number, seen, wanted));
            }
        }
    }
    findings
}

/// A last line that is a line, so that files can be joined and compared.
#[must_use]
pub fn last_newline(files: &[File]) -> Vec<Finding> {
    let is_open = |text: &str| !text.is_empty() && !text.ends_with('\n');
    files
        .iter()
        // Seeds of a fuzzer are data, also where they look like text.
        .filter(|file| !file.path.starts_with("fuzz/seeds/"))
        // What a killed run leaves ends where it was killed.
        .filter(|file| !file.path.ends_with(".partial"))
        .filter(|file| file.text().is_some_and(is_open))
        .map(|file| {
            let last = file.text().unwrap_or_default().lines().count();
            Finding::new(file, last, "the last line has no end", "a newline after it")
        })
        .collect()
}

/// A repository that is quick to clone.
#[must_use]
pub fn file_size(files: &[File]) -> Vec<Finding> {
    const LARGER: [&str; 2] = ["models/", "testbed/data/latencies/"];
    let most = |file: &File| match LARGER.iter().any(|folder| file.path.starts_with(folder)) {
        true => MODEL_FILE_SIZE_BYTES_MAX,
        false => FILE_SIZE_BYTES_MAX,
    };
    files
        .iter()
        .filter(|file| file.size_bytes() > most(file))
        .map(|file| {
            let seen = format!("a file of {} bytes", file.size_bytes());
            let wanted = format!("at most {}: make it by a script, or shorten it", most(file));
            Finding::new(file, 1, seen, wanted)
        })
        .collect()
}

fn is_unbreakable(line: &str) -> bool {
    let code = line.trim();
    let is_row_of_comment = code.trim_start_matches([' ', '/', '!', '#']).starts_with('|');
    let is_row = code.starts_with(['(', '[']) && (code.ends_with("),") || code.ends_with("],"));
    let text = code.trim_start_matches(['b', 'f', 'r', '#']).trim_end_matches([',', ')', ';', '#']);
    let is_text = text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    is_row_of_comment || is_row || is_text || line.contains("://")
}

fn is_blank_shell(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

struct PythonFunction {
    line: usize,
    code_lines: usize,
}

/// Functions of a masked text. A function lasts until a line outside brackets
/// stands no deeper than its `def`.
fn python_functions(masked: &str) -> Vec<PythonFunction> {
    let mut done = Vec::new();
    let mut open: Vec<(usize, PythonFunction)> = Vec::new();
    let mut bracket_depth = 0_usize;
    for (number, line) in numbered(masked) {
        let body = line.trim_start();
        if body.is_empty() {
            continue;
        }
        let indent = line.len() - body.len();
        if bracket_depth == 0 {
            while open.last().is_some_and(|(def_indent, _)| indent <= *def_indent) {
                done.extend(open.pop().map(|(_, function)| function));
            }
            if body.starts_with("def ") || body.starts_with("async def ") {
                open.push((indent, PythonFunction { line: number, code_lines: 0 }));
            }
        }
        for (_, function) in &mut open {
            function.code_lines += 1;
        }
        let opening = line.matches(['(', '[', '{']).count();
        let closing = line.matches([')', ']', '}']).count();
        bracket_depth = (bracket_depth + opening).saturating_sub(closing);
    }
    done.extend(open.into_iter().map(|(_, function)| function));
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_computes_is_found() {
        let file = |path: &str, count| File::new(path, "// x\n".repeat(count));
        let tests = file("crates/cli/tests/b.rs", FRONT_LINES_MAX - 5_000);
        let within = [file("crates/cli/src/a.rs", 5_000), tests];
        assert!(front_len(&within).is_empty());
        let beyond = [&within[..], &[file("crates/cli/src/c.rs", 1)]].concat();
        assert_eq!(front_len(&beyond).len(), 1);
        assert!(front_len(&[file("crates/session/src/a.rs", 10_000)]).is_empty());
    }

    #[test]
    fn long_files_are_found() {
        let long = "let x = 1;\n".repeat(501);
        let commented = "// let x = 1;\n\n".repeat(501);
        let tested = format!("let x = 1;\n#[cfg(test)]\n{long}");
        let file = |path, text: &str| [File::new(path, text)];
        assert_eq!(file_len(&file("crates/a/src/b.rs", &long)).len(), 1);
        assert_eq!(file_len(&file("crates/a/tests/b.rs", &long)).len(), 1);
        assert_eq!(file_len(&file("tools/b.sh", &long)).len(), 1);
        assert_eq!(file_len(&file("tools/b.py", &"x = 1\n".repeat(501))).len(), 1);
        assert!(file_len(&file("crates/a/src/b.rs", &commented)).is_empty());
        assert!(file_len(&file("crates/a/src/b.rs", &tested)).is_empty());
    }

    #[test]
    fn long_python_functions_are_found() {
        let body = "    x = 1\n".repeat(70);
        let long = format!("def f(\n    a,\n) -> None:\n{body}\ndef g():\n    pass\n");
        let findings = function_len(&[File::new("a.py", long)]);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 1);
        assert!(findings[0].seen.contains("73"), "{}", findings[0]);
        let documented = format!("def f():\n    \"\"\"\n{}\"\"\"\n    pass\n", "word\n".repeat(99));
        assert!(function_len(&[File::new("a.py", documented)]).is_empty());
    }

    #[test]
    fn long_lines_are_found() {
        let long = "ä".repeat(101);
        for (line, count) in [
            (long.clone(), 1),
            ("ä".repeat(100), 0),
            (format!("/// | {long} |"), 0),
            (format!("// see https://{long}"), 0),
            (format!("    (17, \"{long}\"),"), 0),
            (format!("    r#\"{long}\"#,"), 0),
            (format!("    say(\"{long}\");"), 1),
            (format!("    (17, {long}) + 1"), 1),
        ] {
            assert_eq!(line_len(&[File::new("a.rs", line.clone())]).len(), count, "{line}");
        }
    }

    #[test]
    fn open_last_lines_are_found() {
        assert_eq!(last_newline(&[File::new("a", "x\ny")])[0].line, 2);
        assert!(last_newline(&[File::new("a", "x\n"), File::new("b", "")]).is_empty());
        assert!(last_newline(&[File::new("a.pcap", [0_u8, 1])]).is_empty());
    }

    #[test]
    fn large_files_are_found() {
        for (path, most) in [
            ("testdata/a.pcap", FILE_SIZE_BYTES_MAX),
            ("models/a/slow.trees.jsonl", MODEL_FILE_SIZE_BYTES_MAX),
            ("testbed/data/latencies/web.parquet", MODEL_FILE_SIZE_BYTES_MAX),
        ] {
            let file = |size| [File::new(path, vec![0; size])];
            assert_eq!(file_size(&file(most + 1)).len(), 1);
            assert!(file_size(&file(most)).is_empty());
        }
    }
}
