//! The text formats: rows encoded one after another into a buffer that is
//! passed on when it is large enough, or immediately if a reader waits.

use std::io::{self, Write};

use engine::columns::{Columns, Schema, Values};

use crate::Format;
use crate::csv;
use crate::digits::FloatText;
use crate::jsonl::{self, Keys};

const BUFFER_LEN_BYTES: usize = 64 * 1024;

pub(crate) struct Lines<W> {
    io: W,
    buffer: Vec<u8>,
    dialect: Dialect,
    at_once: bool,
    /// Of each column of the rows at hand whether any of its texts is quoted or escaped: they are
    /// searched together, since what is searched for is rare and each is short.
    special: Vec<bool>,
    float: FloatText,
}

enum Dialect {
    Csv,
    Jsonl(Keys),
}

impl<W: Write> Lines<W> {
    pub(crate) fn csv(schema: Schema, io: W, at_once: bool) -> io::Result<Self> {
        let mut lines = Self::new(io, Dialect::Csv, at_once);
        csv::header(&mut lines.buffer, schema);
        lines.hand_on()?;
        Ok(lines)
    }

    pub(crate) fn jsonl(schema: Schema, io: W, at_once: bool) -> Self {
        Self::new(io, Dialect::Jsonl(Keys::new(schema)), at_once)
    }

    fn new(io: W, dialect: Dialect, at_once: bool) -> Self {
        let buffer = Vec::with_capacity(BUFFER_LEN_BYTES);
        Self { io, buffer, dialect, at_once, special: Vec::new(), float: FloatText::default() }
    }

    pub(crate) fn write(&mut self, rows: &Columns) -> io::Result<()> {
        let is_special = match self.dialect {
            Dialect::Csv => csv::is_special,
            Dialect::Jsonl(_) => jsonl::is_special,
        };
        self.special.clear();
        self.special.extend(rows.columns().iter().map(|column| match column.values() {
            Values::Text(texts) => is_special(texts.bytes()),
            _ => false,
        }));
        for row in 0..rows.row_count() {
            let Self { buffer, dialect, special, float, .. } = self;
            match dialect {
                Dialect::Csv => csv::row(buffer, rows.columns(), special, float, row),
                Dialect::Jsonl(keys) => keys.row(buffer, rows.columns(), special, float, row),
            }
            if self.buffer.len() >= BUFFER_LEN_BYTES {
                self.drain()?;
            }
        }
        self.hand_on()
    }

    /// The output, and the bytes that are held back.
    pub(crate) fn io(&self) -> (&W, usize) {
        (&self.io, self.buffer.len())
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.drain()?;
        self.io.flush()?;
        Ok(self.io)
    }

    pub(crate) fn format(&self) -> Format {
        match self.dialect {
            Dialect::Csv => Format::Csv,
            Dialect::Jsonl(_) => Format::Jsonl,
        }
    }

    fn hand_on(&mut self) -> io::Result<()> {
        if self.at_once { self.flush_held() } else { Ok(()) }
    }

    /// Hands on the lines held back.
    pub(crate) fn flush_held(&mut self) -> io::Result<()> {
        self.drain()?;
        self.io.flush()
    }

    fn drain(&mut self) -> io::Result<()> {
        self.io.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
