//! The trace as it grows: records wait until their packet's fate is known.

use std::collections::VecDeque;
use std::io::{self, Write};

use l4s::trace::{MAGIC, Outcome, Record};

/// Records that may wait. More are written as they are: their packets are then in flight for
/// longer than a router with a sane limit can hold them.
const WAITING_MAX: usize = 500_000;

/// Where records go.
pub(crate) struct TraceWriter<'a> {
    to: Option<&'a mut dyn Write>,
    waiting: VecDeque<Record>,
    /// Number of the first of them.
    first: u64,
}

impl<'a> TraceWriter<'a> {
    pub(crate) fn begin(mut to: Option<&'a mut dyn Write>) -> io::Result<Self> {
        if let Some(to) = &mut to {
            to.write_all(&MAGIC)?;
        }
        Ok(Self { to, waiting: VecDeque::new(), first: 0 })
    }

    pub(crate) const fn is_wanted(&self) -> bool {
        self.to.is_some()
    }

    /// A packet that has arrived at the router; its number.
    pub(crate) fn add(&mut self, record: impl FnOnce() -> Record) -> io::Result<u64> {
        if self.to.is_none() {
            return Ok(0);
        }
        let number = self.first + self.waiting.len() as u64;
        self.waiting.push_back(record());
        while self.waiting.front().is_some_and(is_over) || self.waiting.len() > WAITING_MAX {
            self.write_first()?;
        }
        Ok(number)
    }

    /// The record of that number, while it waits.
    pub(crate) fn at(&mut self, number: u64) -> Option<&mut Record> {
        self.waiting.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn write_first(&mut self) -> io::Result<()> {
        if let (Some(to), Some(record)) = (&mut self.to, self.waiting.pop_front()) {
            to.write_all(&record.to_bytes())?;
            self.first += 1;
        }
        Ok(())
    }

    pub(crate) fn end(mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            self.write_first()?;
        }
        self.to.map_or(Ok(()), Write::flush)
    }
}

/// Whether nothing more can become of a packet.
fn is_over(record: &Record) -> bool {
    record.acked_ns.is_some() || matches!(record.outcome, Outcome::Dropped(_))
}
