//! The way of rows out of a pass: a bounded queue of columns for each table, and one thread that
//! writes them. A front end that shows more than columns takes an application's own values
//! in the same way.
//!
//! A pass never waits for a disk longer than its input can. From captures it waits, and every row
//! is written; while it listens on an interface it does not: rows that find the queue full are
//! dropped and counted. Once the run is stopped it waits as well.

mod parts;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use engine::columns::Columns;
use engine::run::{Control, spawn_free};
use store::Count;

pub use parts::{Lay, Merge, PartOutlet, Sections, Sharing};
pub use writer::{Rows, RowsError, RowsWriter, TakeRows, Taker};

/// Pieces of rows that wait for the thread that writes them.
const PIECES_WAITING_MAX: usize = 16;

/// The same where a pass waits for room: a piece has up to some thousand rows, and more of them in
/// memory would make nothing faster.
const PIECES_AHEAD_MAX: usize = 4;

/// Rows wait no longer than this for a row group to be full.
const HELD_MAX: Duration = Duration::from_secs(10);

/// What to do with rows for which the queue has no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenBehind {
    /// Wait until there is.
    Wait,
    /// Drop and count them, until the run is stopped.
    Drop,
}

/// The outcome of an outlet's rows, readable at any time.
#[derive(Debug, Default)]
pub struct OutletCounts {
    /// Rows that were handed in.
    pub received: AtomicU64,
    /// Rows that were written.
    pub written: AtomicU64,
    /// Rows dropped because the queue was full.
    pub dropped: AtomicU64,
    /// Rows that could not be written: their writer had failed.
    pub failed: AtomicU64,
}

/// How often it is looked whether rows were held for long, and whether what is shown is stale.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Since when rows are held back.
struct Held {
    now: fn() -> Instant,
    since: Instant,
}

impl Held {
    fn is_long(&mut self) -> bool {
        let now = (self.now)();
        let is_long = now.saturating_duration_since(self.since) >= HELD_MAX;
        if is_long {
            self.since = now;
        }
        is_long
    }
}

enum Message<P> {
    Rows(P),
    Reopen,
}

#[derive(Default)]
struct Shared {
    counts: OutletCounts,
    is_abandoned: AtomicBool,
    /// A new file is wanted, and the queue had no room to say so.
    reopens: AtomicBool,
    failure: Mutex<Option<RowsError>>,
    control: Arc<Control>,
}

/// Where an application hands in its rows, from any number of threads.
pub struct Outlet<P = Columns> {
    sender: SyncSender<Message<P>>,
    when_behind: WhenBehind,
    shared: Arc<Shared>,
}

impl<P> Clone for Outlet<P> {
    fn clone(&self) -> Self {
        let (sender, shared) = (self.sender.clone(), Arc::clone(&self.shared));
        Self { sender, when_behind: self.when_behind, shared }
    }
}

/// The writing end.
pub struct OutletWriter {
    name: &'static str,
    /// Asks for a new file; `false` where the queue has no room to say so.
    ask: Box<dyn Fn() -> bool + Send>,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

/// Begins a thread that writes rows; where it fails, `control` ends the run. Rows of an interface
/// are handed on every now and then by this clock.
#[must_use]
pub fn begin<P: Rows, T: Taker<P>>(
    name: &'static str,
    rows: T,
    when_behind: WhenBehind,
    now: fn() -> Instant,
    control: Arc<Control>,
) -> (Outlet<P>, OutletWriter) {
    let (sender, receiver) = mpsc::sync_channel(match when_behind {
        WhenBehind::Wait => PIECES_AHEAD_MAX,
        WhenBehind::Drop => PIECES_WAITING_MAX,
    });
    let shared = Arc::new(Shared { control, ..Shared::default() });
    let of_thread = Arc::clone(&shared);
    let held = (when_behind == WhenBehind::Drop).then(|| Held { now, since: now() });
    let thread = spawn_free(format!("rows-{name}"), move || {
        let mut rows = Some(rows);
        if let Err(error) = write(&receiver, &mut rows, &of_thread, held) {
            let has_failed = !matches!(error, RowsError::Lost(_));
            *lock(&of_thread.failure) = Some(error);
            if has_failed {
                of_thread.control.fail();
            }
            for message in receiver {
                if let Message::Rows(rows) = message {
                    add(&of_thread.counts.failed, &rows);
                }
            }
        }
    });
    let outlet = Outlet { sender: sender.clone(), when_behind, shared: Arc::clone(&shared) };
    let ask = Box::new(move || sender.try_send(Message::Reopen).is_ok());
    (outlet, OutletWriter { name, ask, shared, thread })
}

fn add(counter: &AtomicU64, rows: &impl Rows) {
    counter.fetch_add(rows.row_count() as u64, Ordering::Relaxed);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes until nobody hands in rows any more. Nothing is in `rows` after a file could not be begun
/// anew.
fn write<P: Rows, T: Taker<P>>(
    receiver: &Receiver<Message<P>>,
    rows: &mut Option<T>,
    shared: &Shared,
    mut held: Option<Held>,
) -> Result<(), RowsError> {
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(Message::Rows(taken)) => {
                if let Some(rows) = rows {
                    rows.take(&taken).inspect_err(|_| add(&shared.counts.failed, &taken))?;
                }
                add(&shared.counts.written, &taken);
            }
            Ok(Message::Reopen) => shared.reopens.store(true, Ordering::Release),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if shared.reopens.swap(false, Ordering::AcqRel)
            && let Some(open) = rows.take()
        {
            *rows = Some(open.reopen()?);
        }
        if let (Some(held), Some(rows)) = (&mut held, rows.as_mut())
            && held.is_long()
        {
            rows.flush_held()?;
        }
    }
    match rows.take() {
        Some(rows) if !shared.is_abandoned.load(Ordering::Acquire) => rows.finish(),
        _ => Ok(()),
    }
}

impl<P: Rows> Outlet<P> {
    /// Hands in rows.
    pub fn put(&self, rows: P) {
        let counts = &self.shared.counts;
        let row_count = rows.row_count() as u64;
        if row_count == 0 {
            return;
        }
        counts.received.fetch_add(row_count, Ordering::Relaxed);
        // No packet is lost over it after a stop, and the rows that are left then may be many.
        let waits = self.when_behind == WhenBehind::Wait || self.shared.control.is_stopped();
        let is_dropped = if waits {
            // The writer leaves last; if it is gone the run is being abandoned.
            self.sender.send(Message::Rows(rows)).is_err()
        } else {
            let sent = self.sender.try_send(Message::Rows(rows));
            matches!(sent, Err(TrySendError::Full(_) | TrySendError::Disconnected(_)))
        };
        if is_dropped {
            counts.dropped.fetch_add(row_count, Ordering::Relaxed);
        }
    }
}

impl OutletWriter {
    /// The table's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The outcome of rows so far.
    #[must_use]
    pub fn counts(&self) -> &OutletCounts {
        &self.shared.counts
    }

    /// The same, for observers of the run.
    #[must_use]
    pub fn counting(&self) -> store::Counting {
        let shared = Arc::clone(&self.shared);
        Box::new(move || {
            let counts = &shared.counts;
            let of = |name, about, count: &AtomicU64| {
                Count::total(name, about, count.load(Ordering::Relaxed))
            };
            vec![
                of("rows_received", "Rows received.", &counts.received),
                of("rows_written", "Rows written.", &counts.written),
                of("rows_dropped", "Rows dropped because the queue was full.", &counts.dropped),
                of("rows_failed", "Rows that could not be written.", &counts.failed),
            ]
        })
    }

    /// Has the file finished, and a new one begun, behind the rows that were handed in; where the
    /// queue is full, behind the next of them. Whoever reads packets does not wait for it.
    pub fn reopen(&self) {
        if !(self.ask)() {
            self.shared.reopens.store(true, Ordering::Release);
        }
    }

    /// Ends without a file: the run did not begin.
    pub fn abandon(self) {
        let Self { ask, shared, thread, .. } = self;
        shared.is_abandoned.store(true, Ordering::Release);
        drop(ask);
        let _ = thread.join();
    }

    /// Waits until all is written. The rows that were dropped.
    ///
    /// # Errors
    /// What the writer met.
    pub fn finish(self) -> Result<u64, RowsError> {
        let Self { ask, shared, thread, .. } = self;
        drop(ask);
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
        match lock(&shared.failure).take() {
            Some(error) => Err(error),
            None => {
                let counts = &shared.counts;
                let [received, written, dropped] =
                    [&counts.received, &counts.written, &counts.dropped]
                        .map(|count| count.load(Ordering::Relaxed));
                debug_assert_eq!(received, written + dropped, "every row is accounted for");
                Ok(dropped)
            }
        }
    }
}

/// A disk that takes nothing until it is told to, or its other end is gone.
#[cfg(test)]
pub(crate) struct Stuck(pub(crate) Receiver<()>);

#[cfg(test)]
impl TakeRows for Stuck {
    fn begin(&mut self, _: engine::columns::Schema, _: Option<fn(&str)>) -> Result<(), RowsError> {
        Ok(())
    }

    fn take(&mut self, _: &Columns) -> Result<(), RowsError> {
        let _ = self.0.recv();
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), RowsError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use engine::columns::{Field, Kind, Schema, Value};

    use super::*;

    pub(super) const SCHEMA: Schema = &[Field::new("number", Kind::U64, "A number.")];

    /// The time is asked for where rows come from an interface.
    pub(super) fn never() -> Instant {
        unreachable!("rows of captures are held as long as it takes")
    }

    #[test]
    fn once_the_run_is_stopped_rows_of_an_interface_wait_for_room() {
        let (go, stuck) = mpsc::channel();
        let rows = RowsWriter::to_door(SCHEMA, Box::new(Stuck(stuck)), None).unwrap();
        let control = Arc::new(Control::default());
        #[allow(clippy::disallowed_methods)]
        let now = Instant::now;
        let (outlet, writer) = begin("numbers", rows, WhenBehind::Drop, now, Arc::clone(&control));
        let mut row = Columns::new(SCHEMA);
        row.push_row(&[Value::U64(1)]).unwrap();
        // As many as may wait, the one that is being written, and one without room at the least.
        let count = PIECES_WAITING_MAX as u64 + 2;
        (0..count).for_each(|_| outlet.put(row.clone()));
        let dropped = writer.counts().dropped.load(Ordering::Relaxed);
        assert!(dropped > 0);
        control.stop();
        drop(go);
        (0..count).for_each(|_| outlet.put(row.clone()));
        drop(outlet);
        assert_eq!(writer.finish().unwrap(), dropped);
    }

    #[test]
    fn whoever_wants_a_new_file_does_not_wait_for_the_disk() {
        let (go, stuck) = mpsc::channel();
        let rows = RowsWriter::to_door(SCHEMA, Box::new(Stuck(stuck)), None).unwrap();
        let control = Arc::new(Control::default());
        let (outlet, writer) = begin("numbers", rows, WhenBehind::Wait, never, control);
        let mut row = Columns::new(SCHEMA);
        row.push_row(&[Value::U64(1)]).unwrap();
        // The one that is being written, and as many as may wait.
        let count = PIECES_AHEAD_MAX as u64 + 1;
        (0..count).for_each(|_| outlet.put(row.clone()));
        writer.reopen();
        drop(go);
        drop(outlet);
        let shared = Arc::clone(&writer.shared);
        assert_eq!(writer.finish().unwrap(), 0);
        assert_eq!(shared.counts.written.load(Ordering::Relaxed), count);
    }
}
