//! Checks as text of any width, and as JSON.

use std::fmt::Write as _;
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;
use serde_json::{Value, json as object};
use unicode_width::UnicodeWidthStr;

use crate::check::{Check, Level};

/// Columns where there is no terminal.
const WIDTH: usize = 80;
/// Below so many columns, each check has a line of its own for its name.
const WIDE_MIN: usize = 60;
/// Columns of the level and of the name, where both are on the line.
const LEVEL_WIDTH: usize = 9;
const NAME_WIDTH: usize = 20;

/// Columns of the terminal that this is; 80 where it is none.
#[must_use]
pub fn width_of(terminal: impl AsFd) -> usize {
    let columns = tcgetwinsize(terminal).map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { WIDTH } else { columns }
}

/// The checks, in so many columns. Command lines are not broken, so that they can be copied.
#[must_use]
pub fn text(checks: &[Check], width: usize) -> String {
    let is_wide = width >= WIDE_MIN;
    let indent = if is_wide { LEVEL_WIDTH + NAME_WIDTH } else { 2 };
    let mut text = String::new();
    for Check { name, level, seen, wanted, change } in checks {
        let head = if is_wide {
            format!("{:LEVEL_WIDTH$}{name:NAME_WIDTH$}", level.name())
        } else {
            format!("{}: {name}", level.name())
        };
        text.push_str(head.trim_end());
        // A long name has a line of its own.
        let is_beside = is_wide && name.width() < NAME_WIDTH;
        for (at, line) in lines(seen, width.saturating_sub(indent)).iter().enumerate() {
            if at == 0 && is_beside {
                let _ = write!(text, "{}{line}", " ".repeat(indent - head.trim_end().width()));
            } else {
                let _ = write!(text, "\n{:indent$}{line}", "");
            }
        }
        let wanted = if wanted.is_empty() { String::new() } else { format!("wanted: {wanted}") };
        for line in lines(&wanted, width.saturating_sub(indent)) {
            let _ = write!(text, "\n{:indent$}{line}", "");
        }
        if !change.is_empty() {
            let _ = write!(text, "\n{:indent$}{change}", "");
        }
        text.push('\n');
    }
    let count = |level| checks.iter().filter(|check| check.level == level).count();
    let sum = format!(
        "checks: {}; problems: {}, warnings: {}, unknown: {}",
        checks.len(),
        count(Level::Problem),
        count(Level::Warning),
        count(Level::Unknown)
    );
    text.push_str(&lines(&sum, width).join("\n"));
    text.push('\n');
    text
}

/// A text in lines of so many columns, if its words are no longer.
fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The checks as one JSON object, with their numbers by level.
#[must_use]
pub fn json(checks: &[Check]) -> String {
    let count = |level| checks.iter().filter(|check| check.level == level).count();
    let some = |text: &str| if text.is_empty() { Value::Null } else { Value::from(text) };
    let rows = checks.iter().map(|check| {
        object!({
            "name": check.name,
            "level": check.level.name(),
            "seen": check.seen,
            "wanted": some(&check.wanted),
            "change": some(&check.change),
        })
    });
    let whole = object!({
        "checks": rows.collect::<Vec<_>>(),
        "problems": count(Level::Problem),
        "warnings": count(Level::Warning),
        "unknown": count(Level::Unknown),
    });
    format!("{whole:#}\n")
}
