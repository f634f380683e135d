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
    /// is no error: it is tried again for as long as the run lasts.
    ///
    /// # Errors
    /// [`BusError`], where trying again would not help.
    pub fn begin(options: Options, store: Arc<Store>) -> Result<Self, BusError> {
        let tally = Arc::new(Tally::new(options.tell));
        let mut publisher = Publisher::new(options, Arc::clone(&store), Arc::clone(&tally));
        let runtime = runtime().map_err(BusError::Start)?;
        runtime.block_on(publisher.connect())?;
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
/// looked up.
fn runtime() -> io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(1).thread_name("nats-names").build()
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}
