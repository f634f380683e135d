//! Commands, a line each, from whoever started us. When that ends, so do we.

use std::fs::File;
use std::io::{self, Read as _};

/// The longest line; a longer one is nothing that we would understand.
const LINE_LEN_MAX: usize = 4_096;

/// What one read brought.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Complete lines, without spaces around them; none is empty.
    pub(crate) lines: Vec<String>,
    /// Whether nothing more will come.
    pub(crate) is_end: bool,
}

/// Lines of a descriptor, as they come.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    source: &'a File,
    pending: Vec<u8>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(source: &'a File) -> Self {
        Self { source, pending: Vec::new() }
    }

    pub(crate) fn source(&self) -> &'a File {
        self.source
    }

    /// Reads once, which waits if nothing is there. What stands at the end without a line end
    /// is a line as well.
    pub(crate) fn read(&mut self) -> io::Result<Heard> {
        let mut buffer = [0; LINE_LEN_MAX];
        let count = match self.source.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Ok(Heard::default());
            }
            Err(error) => return Err(error),
        };
        self.pending.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let is_end = count == 0;
        let complete = match self.pending.iter().rposition(|byte| *byte == b'\n') {
            _ if is_end || self.pending.len() > LINE_LEN_MAX => self.pending.len(),
            Some(at) => at + 1,
            None => 0,
        };
        let bytes: Vec<u8> = self.pending.drain(..complete).collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        Ok(Heard { lines: lines.map(str::to_owned).collect(), is_end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek as _, Write as _};

    #[test]
    fn lines_come_whole_and_the_last_needs_no_end() {
        let mut file = tempfile::tempfile().unwrap();
        let long = "x".repeat(LINE_LEN_MAX - 3);
        write!(file, "one\n\n  two \r\n{long}\nthree").unwrap();
        file.rewind().unwrap();
        let mut lines = Lines::new(&file);
        let mut seen = Vec::new();
        loop {
            let heard = lines.read().unwrap();
            seen.extend(heard.lines);
            if heard.is_end {
                break;
            }
        }
        assert_eq!(seen, ["one", "two", &long, "three"]);
    }
}
