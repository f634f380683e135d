//! Rows that several passes make, in one order.
//!
//! Each pass of a part of the flows hands in its rows in order, section by section: a section ends
//! at each mark of event time, at which all passes stand alike. Their sections are put together
//! where nobody waits for it, and become columns there: what is written does not depend on how many
//! passes there were.
//!
//! **Bounds.** A pass is never held up while packets come, as it may be the one that others wait
//! for; it is at most as far ahead as frames are read ahead. Of the flows that are left at the end,
//! at most [`CHUNKS_WAITING_MAX`] chunks of each pass wait.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use engine::columns::Columns;

use super::Outlet;
use crate::refusal::Refusal;

/// Chunks of rows of a pass that wait at the end of the input.
const CHUNKS_WAITING_MAX: usize = 4;

/// Rows that are turned into columns at once.
const ROWS_PER_CHUNK: usize = 1 << 12;

/// How passes share the flows of an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// One pass has all.
    Whole,
    /// So many passes have a part each, and stand alike at each mark.
    Parts(usize),
    /// So many passes listen to a socket each, which the kernel gives both ways of a flow: their
    /// rows are written as they come.
    Sockets(usize),
    /// Any number of passes, made as they are needed, each have some frames, in whatever order.
    AnyOrder {
        /// Whether several inputs are read at the same time, so that which packet is the first is
        /// known by stamps alone.
        is_merged: bool,
    },
}

impl Sharing {
    /// How many passes there are.
    #[must_use]
    pub fn pass_count(self) -> usize {
        match self {
            Self::Whole | Self::AnyOrder { .. } => 1,
            Self::Parts(count) | Self::Sockets(count) => count.max(1),
        }
    }
}

/// Turns rows into columns.
pub trait Lay: Send + 'static {
    /// A row.
    type Row: Send;

    /// The order of rows within a section; those that are equal keep theirs, which one pass has
    /// made.
    fn compare(one: &Self::Row, other: &Self::Row) -> Ordering;

    /// Turns rows into columns, and hands those to `put`.
    ///
    /// # Errors
    /// [`Refusal`]: a row that its columns do not take.
    fn lay(&mut self, rows: &[Self::Row], put: &mut dyn FnMut(Columns)) -> Result<(), Refusal>;
}

/// Where one pass hands in its rows.
pub struct PartOutlet<L: Lay>(To<L>);

enum To<L: Lay> {
    /// The only one: they are written as they are.
    Only(Laying<L>),
    /// One of several.
    Among(Arc<Queue<L::Row>>),
}

/// Rows on their way to the writer.
struct Laying<L> {
    lay: L,
    outlet: Option<Outlet>,
    refusal: Option<Refusal>,
}

impl<L: Lay> Laying<L> {
    fn put(&mut self, rows: &[L::Row]) {
        let Self { lay, outlet, refusal } = self;
        if refusal.is_none() {
            let mut put = |columns| {
                if let Some(outlet) = outlet {
                    outlet.put(columns);
                }
            };
            *refusal = lay.lay(rows, &mut put).err();
        }
    }
}

/// Rows of one pass that wait to be put together.
struct Queue<R> {
    waiting: Mutex<Waiting<R>>,
    changed: Condvar,
}

struct Waiting<R> {
    entries: VecDeque<Entry<R>>,
    /// Sections that are complete.
    complete_count: usize,
    /// Whether the input has ended, and who is behind is waited for.
    is_last: bool,
    is_closed: bool,
}

enum Entry<R> {
    Rows(Vec<R>),
    End,
}

impl<R> Queue<R> {
    fn new() -> Self {
        let entries = VecDeque::new();
        let waiting = Waiting { entries, complete_count: 0, is_last: false, is_closed: false };
        Self { waiting: Mutex::new(waiting), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<R>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, rows: Vec<R>) {
        let mut waiting = self.lock();
        while waiting.is_last && waiting.entries.len() >= CHUNKS_WAITING_MAX && !waiting.is_closed {
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.entries.push_back(Entry::Rows(rows));
        self.changed.notify_all();
    }

    /// Waits until the last section is complete.
    fn wait_for_last(&self) {
        let mut waiting = self.lock();
        while !waiting.is_last && !waiting.is_closed {
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The rows of a complete section.
    fn section(&self) -> Vec<R> {
        let mut waiting = self.lock();
        let mut section = Vec::new();
        while let Some(entry) = waiting.entries.pop_front() {
            match entry {
                Entry::Rows(rows) if section.is_empty() => section = rows,
                Entry::Rows(rows) => section.extend(rows),
                Entry::End => {
                    waiting.complete_count -= 1;
                    break;
                }
            }
        }
        // A pass may wait for room that is there now.
        self.changed.notify_all();
        section
    }

    /// The next rows of the last section, once they are there; nothing after the last of them.
    fn next(&self) -> Option<Vec<R>> {
        let mut waiting = self.lock();
        loop {
            match waiting.entries.pop_front() {
                Some(Entry::Rows(rows)) => {
                    self.changed.notify_all();
                    return Some(rows);
                }
                Some(Entry::End) => {}
                None if waiting.is_closed => return None,
                None => {
                    waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner)
                }
            }
        }
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}

/// Where sections end, as who drives a pass tells.
pub trait Sections: Send {
    /// A mark was told, and what ended by it; `is_last` where nothing comes but what is left.
    fn end(&self, is_last: bool);
    /// Nothing comes any more.
    fn close(&self);
}

struct SectionsOf<R>(Arc<Queue<R>>);

impl<R: Send> Sections for SectionsOf<R> {
    fn end(&self, is_last: bool) {
        let mut waiting = self.0.lock();
        waiting.entries.push_back(Entry::End);
        waiting.complete_count += 1;
        waiting.is_last = is_last;
        self.0.changed.notify_all();
    }

    fn close(&self) {
        self.0.close();
    }
}

/// Puts the rows of all passes together.
pub trait Merge: Send {
    /// The sections of each pass, to be told where they end.
    fn sections(&self) -> Vec<Box<dyn Sections>>;

    /// Hands on the sections that all passes have completed.
    fn hand_on(&mut self);

    /// Hands on what comes until every pass is closed.
    ///
    /// # Errors
    /// What any row was refused for.
    fn finish(self: Box<Self>) -> Result<(), Refusal>;
}

struct Merging<L: Lay> {
    queues: Vec<Arc<Queue<L::Row>>>,
    laying: Laying<L>,
}

impl<L: Lay> Merge for Merging<L> {
    fn sections(&self) -> Vec<Box<dyn Sections>> {
        let of = |queue| Box::new(SectionsOf(Arc::clone(queue))) as Box<dyn Sections>;
        self.queues.iter().map(of).collect()
    }

    fn hand_on(&mut self) {
        let complete = self.queues.iter().map(|queue| queue.lock().complete_count).min();
        for _ in 0..complete.unwrap_or_default() {
            let parts = self.queues.iter().map(|queue| queue.section());
            // A sort that finds runs in order merges them.
            let mut section: Vec<_> = parts.flatten().collect();
            section.sort_by(L::compare);
            if !section.is_empty() {
                self.laying.put(&section);
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Result<(), Refusal> {
        // What ends with the last mark is a section of its own, which is put together when all
        // passes have it, whichever has it first.
        self.queues.iter().for_each(|queue| queue.wait_for_last());
        self.hand_on();
        let Self { queues, mut laying } = *self;
        let mut parts: Vec<_> = queues
            .iter()
            .map(|queue| std::iter::from_fn(|| queue.next()).flatten().peekable())
            .collect();
        let mut chunk = Vec::with_capacity(ROWS_PER_CHUNK);
        loop {
            let mut first: Option<(usize, &L::Row)> = None;
            for (at, part) in parts.iter_mut().enumerate() {
                if let Some(row) = part.peek()
                    && first.is_none_or(|(_, first)| L::compare(row, first).is_lt())
                {
                    first = Some((at, row));
                }
            }
            let row = first.map(|(at, _)| at).and_then(|at| parts.get_mut(at)?.next());
            let is_over = row.is_none();
            chunk.extend(row);
            if chunk.len() >= ROWS_PER_CHUNK || is_over && !chunk.is_empty() {
                laying.put(&chunk);
                chunk.clear();
            }
            if is_over {
                return laying.refusal.map_or(Ok(()), Err);
            }
        }
    }
}

impl<L: Lay> PartOutlet<L> {
    /// For each of the passes that share the flows one; and who puts their rows together, where
    /// that is to be done. Without an outlet columns go nowhere: then `lay` hands on what it gets.
    #[must_use]
    pub fn for_passes(
        outlet: Option<&Outlet>,
        lay: impl Fn() -> L,
        sharing: Sharing,
    ) -> (Vec<Self>, Option<Box<dyn Merge>>) {
        let laying = || Laying { lay: lay(), outlet: outlet.cloned(), refusal: None };
        let count = sharing.pass_count();
        if count == 1 || matches!(sharing, Sharing::Sockets(_)) {
            return ((0..count).map(|_| Self(To::Only(laying()))).collect(), None);
        }
        let laying = laying();
        let queues: Vec<_> = (0..count).map(|_| Arc::new(Queue::new())).collect();
        let parts = queues.iter().map(|queue| Self(To::Among(Arc::clone(queue)))).collect();
        (parts, Some(Box::new(Merging { queues, laying })))
    }

    /// Takes rows, which are in order: those of a section at once, of the last one in several
    /// calls. Nothing is left in `rows`.
    pub fn put(&mut self, rows: &mut Vec<L::Row>) {
        if rows.is_empty() {
            return;
        }
        match &mut self.0 {
            To::Only(laying) => laying.put(rows),
            To::Among(queue) => queue.put(std::mem::take(rows)),
        }
        rows.clear();
    }

    /// Why a row was refused, where this is the only pass.
    #[must_use]
    pub fn into_refusal(mut self) -> Option<Refusal> {
        self.take_refusal()
    }

    /// The same.
    pub(crate) fn take_refusal(&mut self) -> Option<Refusal> {
        match &mut self.0 {
            To::Only(laying) => laying.refusal.take(),
            To::Among(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use engine::columns::{Schema, Value};
    use engine::run::Control;

    use super::super::tests::{SCHEMA, never};
    use super::super::{OutletWriter, RowsError, RowsWriter, TakeRows, WhenBehind, begin};
    use super::*;

    struct Numbers;

    impl Lay for Numbers {
        type Row = u64;

        fn compare(one: &u64, other: &u64) -> Ordering {
            one.cmp(other)
        }

        fn lay(&mut self, rows: &[u64], put: &mut dyn FnMut(Columns)) -> Result<(), Refusal> {
            let mut columns = Columns::new(SCHEMA);
            for &row in rows {
                columns.push_row(&[Value::U64(row)]).map_err(Refusal::new)?;
            }
            put(columns);
            Ok(())
        }
    }

    /// Sends on what it is handed.
    struct Sends(mpsc::Sender<Columns>);

    impl TakeRows for Sends {
        fn begin(&mut self, _: Schema, _: Option<fn(&str)>) -> Result<(), RowsError> {
            Ok(())
        }

        fn take(&mut self, rows: &Columns) -> Result<(), RowsError> {
            self.0.send(rows.clone()).unwrap();
            Ok(())
        }

        fn finish(self: Box<Self>) -> Result<(), RowsError> {
            Ok(())
        }
    }

    fn columns(rows: &[u64]) -> Columns {
        let mut laid = Columns::new(SCHEMA);
        Numbers.lay(rows, &mut |columns| laid = columns).unwrap();
        laid
    }

    #[test]
    fn a_pass_that_waits_for_room_continues_when_the_last_section_is_taken() {
        let queue = Arc::new(Queue::new());
        for row in 0..CHUNKS_WAITING_MAX as u64 - 1 {
            queue.put(vec![row]);
        }
        SectionsOf(Arc::clone(&queue)).end(true);
        let of_pass = Arc::clone(&queue);
        let pass = thread::spawn(move || {
            of_pass.put(vec![9]);
            of_pass.close();
        });
        // Until it waits.
        thread::sleep(Duration::from_millis(20));
        assert_eq!(queue.section(), [0, 1, 2]);
        assert_eq!(queue.next(), Some(vec![9]));
        assert_eq!(queue.next(), None);
        pass.join().unwrap();
    }

    #[test]
    fn the_last_section_is_in_order_whichever_pass_ends_it_first() {
        for late in [0, 1] {
            let (to, from) = mpsc::channel();
            let rows = RowsWriter::to_door(SCHEMA, Box::new(Sends(to)), None).unwrap();
            let control = Arc::new(Control::default());
            let begun: (Outlet, OutletWriter) =
                begin("numbers", rows, WhenBehind::Wait, never, control);
            let (outlet, writer) = begun;
            let shared = Sharing::Parts(2);
            let (mut parts, merge) = PartOutlet::for_passes(Some(&outlet), || Numbers, shared);
            drop(outlet);
            let merge = merge.unwrap();
            let sections = merge.sections();
            let mut end = |part: usize| {
                // Of the last section, and what is left after it, which begins anew.
                parts[part].put(&mut vec![10 + part as u64, 20 + part as u64]);
                sections[part].end(true);
                parts[part].put(&mut vec![part as u64]);
                sections[part].close();
            };
            end(1 - late);
            let merging = thread::spawn(move || merge.finish());
            thread::sleep(Duration::from_millis(20));
            end(late);
            merging.join().unwrap().unwrap();
            writer.finish().unwrap();
            let found: Vec<Columns> = from.iter().collect();
            assert_eq!(found, [columns(&[10, 11, 20, 21]), columns(&[0, 1])]);
        }
    }
}
