//! One log of Zeek: tab-separated under a header that names and types columns, or JSON lines.

use std::fmt::Write as _;

use packet::Timestamp;

use crate::exports::file::TextFile;
use crate::exports::text::Object;
use crate::outlet::RowsError;

/// A column: its name and its type.
pub type Column = (&'static str, &'static str);

/// A value of a column.
#[derive(Clone, Debug)]
pub(super) enum Cell<'a> {
    /// Not known.
    Unset,
    /// A string, address or word.
    Text(&'a str),
    /// A number, as both forms write it.
    Number(String),
    /// A truth value.
    Bool(bool),
}

impl<'a> Cell<'a> {
    pub(super) fn text(value: Option<&'a str>) -> Self {
        value.map_or(Self::Unset, Self::Text)
    }

    pub(super) fn number(value: Option<impl ToString>) -> Self {
        value.map_or(Self::Unset, |value| Self::Number(value.to_string()))
    }
}

/// A log that grows.
pub(super) struct Log {
    path: &'static str,
    columns: Vec<Column>,
    is_json: bool,
    pub(super) file: TextFile,
    /// Event time of the latest line; none before the first.
    latest: Option<Timestamp>,
}

impl Log {
    pub(super) const fn new(
        path: &'static str,
        columns: Vec<Column>,
        is_json: bool,
        file: TextFile,
    ) -> Self {
        Self { path, columns, is_json, file, latest: None }
    }

    /// Appends a line.
    pub(super) fn put(&mut self, time: Timestamp, cells: &[Cell<'_>]) -> Result<(), RowsError> {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.begin(time);
        let Self { columns, is_json, file, .. } = self;
        if *is_json {
            push_json(&mut file.text, columns, cells);
        } else {
            push_tabs(&mut file.text, cells);
        }
        file.write_if_full()
    }

    fn begin(&mut self, time: Timestamp) {
        if self.latest.is_none() && !self.is_json {
            push_head(&mut self.file.text, self.path, &self.columns, time);
        }
        self.latest = self.latest.max(Some(time));
    }

    fn end(&mut self) {
        // A log without a line has a header all the same.
        let time = self.latest.unwrap_or(Timestamp::from_ns(0));
        self.begin(time);
        if !self.is_json {
            push_end(&mut self.file.text, time);
        }
    }

    /// Finishes the file and begins the next; a pipe goes on.
    pub(super) fn reopen(&mut self) -> Result<(), RowsError> {
        if self.file.is_stream() {
            return self.file.write_out();
        }
        self.end();
        self.latest = None;
        self.file.reopen().map(|_| ())
    }

    pub(super) fn finish(mut self) -> Result<(), RowsError> {
        self.end();
        self.file.finish()
    }
}

/// Appends the header of a log that begins at this time.
pub fn push_head(text: &mut String, path: &str, columns: &[Column], open: Timestamp) {
    text.push_str("#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n");
    // Writing to a string cannot fail.
    let _ = writeln!(text, "#path\t{path}\n#open\t{}", day(open));
    for (title, is_name) in [("#fields", true), ("#types", false)] {
        text.push_str(title);
        for &(name, kind) in columns {
            text.push('\t');
            text.push_str(if is_name { name } else { kind });
        }
        text.push('\n');
    }
}

/// Appends the last line of a log.
pub fn push_end(text: &mut String, close: Timestamp) {
    let _ = writeln!(text, "#close\t{}", day(close));
}

/// `2026-11-21-22-11-54`.
fn day(stamp: Timestamp) -> String {
    let text = stamp.to_string();
    text.get(..19).unwrap_or(&text).replace(['T', ':'], "-")
}

fn push_tabs(text: &mut String, cells: &[Cell<'_>]) {
    for (index, cell) in cells.iter().enumerate() {
        if index > 0 {
            text.push('\t');
        }
        match cell {
            Cell::Unset => text.push('-'),
            Cell::Text("") => text.push_str("(empty)"),
            Cell::Text(value) => text.push_str(&escaped(value)),
            Cell::Number(value) => text.push_str(value),
            Cell::Bool(value) => text.push(if *value { 'T' } else { 'F' }),
        }
    }
    text.push('\n');
}

fn push_json(text: &mut String, columns: &[Column], cells: &[Cell<'_>]) {
    let mut line = Object::begin(text);
    for ((name, _), cell) in columns.iter().zip(cells) {
        match cell {
            Cell::Unset => {}
            Cell::Text(value) => line.text(name, value),
            Cell::Number(value) => line.raw(name, value),
            Cell::Bool(value) => line.raw(name, value),
        }
    }
    line.end();
    text.push('\n');
}

/// A text that holds neither a tab nor what the header gives a meaning.
#[must_use]
pub fn escaped(text: &str) -> String {
    match text {
        "-" | "(empty)" => text.bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        _ => text
            .chars()
            .map(|letter| match letter {
                '\\' => String::from("\\\\"),
                letter if letter.is_ascii_control() => format!("\\x{:02x}", u32::from(letter)),
                letter => String::from(letter),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_hold_neither_tabs_nor_marks() {
        assert_eq!([escaped("a\tb"), escaped("-")], ["a\\x09b", "\\x2d"]);
        let mut text = String::new();
        push_tabs(&mut text, &[Cell::Text(""), Cell::Unset, Cell::Bool(true), Cell::Text("a")]);
        assert_eq!(text, "(empty)\t-\tT\ta\n");
    }

    #[test]
    fn a_day_is_that_of_event_time() {
        assert_eq!(day(Timestamp::from_ns(951_782_400_000_001_999)), "2000-02-29-00-00-00");
    }

    #[test]
    fn what_is_unset_is_no_key_of_json() {
        let mut text = String::new();
        let columns = [("a", "string"), ("b", "count"), ("c", "count")];
        let cells = [Cell::Text("x\ty"), Cell::Unset, Cell::Number(String::from("3"))];
        push_json(&mut text, &columns, &cells);
        assert_eq!(text, "{\"a\":\"x\\ty\",\"c\":3}\n");
    }
}
