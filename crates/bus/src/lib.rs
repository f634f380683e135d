//! Rows, alerts and metrics of a run over NATS, and rows that other machines score.
//!
//! A thread of its own reads new rows of the store, as alerts and the history do, and drives the
//! connection, so that nothing of the broker is in the path of packets: rows wait in the tables of
//! the store, whose size is bounded, and in a bounded number of messages that the broker has not
//! acknowledged. What is evicted before it was sent is counted.
//!
//! `docs/specs/messages.md` specifies subjects and messages.

#![forbid(unsafe_code)]

mod central;
mod escalation;
#[cfg(feature = "fuzzed")]
pub mod fuzzed;
mod link;
mod message;
mod metrics;
mod publish;
mod source;
mod status;
mod stream;
mod tally;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use store::Store;
use tokio::runtime::Runtime;

pub use central::{
    Central, CentralCounts, CentralOptions, CentralTable, JOINED_SCHEMA, SENSORS_SCHEMA,
    central_schema,
};
pub use escalation::{
    AnswerError, AnswerRows, Asker, BatchOptions, EscalationOptions, Escalations, Evidence,
    PARTITION_COUNT, RowAnswer, RowFields, RowOutcome, Worker, WorkerCounts, WorkerOptions,
};
pub use link::Link;
pub use message::is_word;
pub use tally::BusState;

use publish::Publisher;
use tally::Tally;

/// What waits at the end has so long to be acknowledged.
const DELIVER_WITHIN: Duration = Duration::from_secs(10);

/// The version of subjects and messages.
pub const VERSION: u32 = 1;

/// What a run publishes, and as who.
#[derive(Clone, Debug)]
pub struct Options {
    /// The broker, and how it is reached.
    pub link: Link,
    /// The first word of every subject.
    pub prefix: String,
    /// The name of this sensor, a word of subjects.
    pub sensor: String,
    /// Distinguishes this run from others of the same sensor.
    pub run: String,
    /// How long the broker keeps rows, where the stream is created here.
    pub keep: Duration,
    /// Bytes of rows that it keeps at most.
    pub keep_bytes: u64,
    /// How often metrics are sent.
    pub metrics_every: Duration,
    /// Whether tables wait for the broker while it is well: of captures, whose rows may come faster
    /// than they are sent. On an interface nothing waits.
    pub waits: bool,
    /// Time since the epoch in nanoseconds, lent by the front end: views compare clocks by it.
    pub realtime_ns: fn() -> i64,
    /// Monotonic time, lent by the front end.
    pub monotonic: fn() -> Duration,
    /// Prints messages for users; a line each.
    pub tell: fn(&str),
}

/// Why nothing is published.
#[derive(Debug)]
pub enum BusError {
    /// A file of credentials, a token or a certificate.
    File(std::path::PathBuf, io::Error),
    /// The broker refuses, or its address is no address: trying again would not help.
    Refused(String),
    /// No thread.
    Start(io::Error),
}

impl fmt::Display for BusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Refused(why) => f.write_str(why),
            Self::Start(error) => write!(f, "no thread for it: {error}"),
        }
    }
}

impl std::error::Error for BusError {}

/// A run that is published.
pub struct Bus {
    tally: Arc<Tally>,
    thread: Option<JoinHandle<()>>,
}

impl Bus {
    /// Connects, and begins to publish what the store has and gets. A broker that does not answer
    /// within two seconds is no error: it is tried again for as long as the run lasts.
    ///
    /// # Errors
    /// [`BusError`], where trying again would not help.
    pub fn begin(options: Options, store: Arc<Store>) -> Result<Self, BusError> {
        let tally = Arc::new(Tally::new(options.tell));
        let mut publisher = Publisher::new(options, Arc::clone(&store), Arc::clone(&tally));
        let runtime = runtime().map_err(BusError::Start)?;
        runtime.block_on(publisher.begin())?;
        let counted = Arc::clone(&tally);
        store.count_by("nats", Box::new(move || counted.counts()));
        let thread = thread::Builder::new().name("nats".into()).spawn(move || {
            runtime.block_on(publisher.run());
            // The end does not wait for the name of a server that is still being looked up.
            runtime.shutdown_background();
        });
        Ok(Self { tally, thread: Some(thread.map_err(BusError::Start)?) })
    }

    /// Publishes what the tables have and waits some time for acknowledgements, then ends: how it
    /// stands then.
    #[must_use]
    pub fn end(mut self) -> BusState {
        self.stop(DELIVER_WITHIN);
        self.tally.state()
    }

    fn stop(&mut self, within: Duration) {
        self.tally.end(within);
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by the thread; what it had sent is counted.
            let _ = thread.join();
        }
    }
}

/// What drives the connection: the thread that runs it, and another while the name of a server is
/// looked up; a third where the start of a run has given up a look-up that is still under way.
fn runtime() -> io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(2).thread_name("nats-names").build()
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::{LazyLock, Mutex};
    use std::time::Instant;

    use super::*;

    #[allow(clippy::disallowed_methods)]
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);

    fn now() -> Duration {
        FIRST.elapsed()
    }

    /// Servers that let connections in and say nothing, of which each holds up an attempt to
    /// connect by three seconds, as a name server that is away holds it up by ten.
    fn silent_servers() -> (Vec<TcpListener>, Link) {
        let listen = |_| TcpListener::bind("127.0.0.1:0").unwrap();
        let listeners: Vec<_> = (0..4).map(listen).collect();
        let address = |one: &TcpListener| format!("nats://{}", one.local_addr().unwrap());
        let servers = listeners.iter().map(address).collect();
        (listeners, Link { servers, ..Link::default() })
    }

    static PRINTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn print(line: &str) {
        PRINTED.lock().unwrap().push(line.to_owned());
    }

    /// What the function returned, and whether it took less than so many seconds.
    fn within<T>(seconds: u64, what: impl FnOnce() -> T) -> (T, bool) {
        let began = now();
        let made = what();
        (made, now() - began < Duration::from_secs(seconds))
    }

    #[test]
    fn neither_start_nor_end_waits_for_a_broker_that_does_not_answer() {
        let (_listeners, link) = silent_servers();
        let [prefix, sensor, run] = ["wirelens", "a", "1"].map(String::from);
        let escalations = EscalationOptions {
            link: link.clone(),
            prefix: prefix.clone(),
            sensor: sensor.clone(),
            run: run.clone(),
            monotonic: now,
            tell: print,
        };
        let (begun, is_soon) = within(9, || Escalations::begin(escalations));
        assert!(is_soon, "the start of escalations");
        assert!(within(9, || drop(begun)).1, "their end");
        let central = CentralOptions {
            link: link.clone(),
            prefix: prefix.clone(),
            name: sensor.clone(),
            since: Duration::ZERO,
            silent_after: Duration::from_secs(1),
            join_wait: Duration::from_secs(1),
            realtime_ns: || 0,
            monotonic: now,
            tell: print,
        };
        let (begun, is_soon) = within(9, || Central::begin(central, Vec::new(), &Store::new()));
        assert!(is_soon, "the start of a view");
        // An attempt begins two seconds after the one before.
        thread::sleep(Duration::from_millis(2_500));
        assert!(within(9, || begun.map(Central::end)).1, "its end");
        let options = Options {
            link,
            prefix,
            sensor,
            run,
            keep: Duration::from_secs(1),
            keep_bytes: 1 << 20,
            metrics_every: Duration::from_secs(1),
            waits: false,
            realtime_ns: || 0,
            monotonic: now,
            tell: print,
        };
        let (begun, is_soon) = within(9, || Bus::begin(options, Store::new()));
        assert!(is_soon, "the start of a run");
        thread::sleep(Duration::from_millis(500));
        assert!(within(9, || begun.map(Bus::end)).1, "its end");
        let printed = PRINTED.lock().unwrap().join("\n");
        assert_eq!(printed.matches("no answer within 2 s of the start").count(), 3, "{printed}");
        assert_eq!(printed.matches("the broker is away").count(), 3, "{printed}");
    }

    #[test]
    fn a_worker_ends_soon_where_its_broker_does_not_answer() {
        struct Nothing;
        impl AnswerRows for Nothing {
            fn answer(
                &mut self,
                _: &[RowFields<'_>],
                _: &mut Vec<RowAnswer>,
            ) -> Result<(), AnswerError> {
                Ok(())
            }
        }
        let (_listeners, link) = silent_servers();
        let worker = Worker::new(WorkerOptions {
            link,
            prefix: String::from("wirelens"),
            model: String::from("m"),
            partitions: 0..=3,
            name: String::from("w"),
            thread_count: 1,
            batch: BatchOptions { rows_max: 64, waits: false },
            monotonic: now,
            tell: |_| {},
        });
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            let ran = scope.spawn(|| worker.run(|| Nothing, &ends));
            thread::sleep(Duration::from_millis(500));
            ends.store(true, Relaxed);
            assert!(within(9, || ran.join().unwrap()).1);
        });
    }
}
