//! The text formats: rows encoded one after another into a buffer that is
//! passed on when it is large enough, or immediately if a reader waits.

use std::io::{self, Write};

use engine::columns::{Columns, Schema};

use crate::Format;
use crate::csv;
use crate::jsonl::Keys;

const BUFFER_LEN_BYTES: usize = 64 * 1024;

pub(crate) struct Lines<W> {
    io: W,
    buffer: Vec<u8>,
    dialect: Dialect,
    at_once: bool,
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
        Self { io, buffer: Vec::with_capacity(BUFFER_LEN_BYTES), dialect, at_once }
    }

    pub(crate) fn write(&mut self, rows: &Columns) -> io::Result<()> {
        for row in 0..rows.row_count() {
            match &self.dialect {
                Dialect::Csv => csv::row(&mut self.buffer, rows.columns(), row),
                Dialect::Jsonl(keys) => keys.row(&mut self.buffer, rows.columns(), row),
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
