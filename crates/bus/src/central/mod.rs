//! A central view: rows and metrics of many sensors, read from the broker into tables of the store.
//!
//! A thread of its own reads the stream in its order, from a time in the past on, and metrics as
//! they come. Nothing is acknowledged and nothing is kept at the broker: what is read is known by
//! the numbers of rows, so that each row is taken once, also after the broker was away.

mod clocks;
#[cfg(feature = "fuzzed")]
pub(crate) mod fuzzed;
mod joins;
mod live_runs;
mod progress;
mod receive;
mod rows;
mod sensors;
mod tally;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::columns::{Columns, Schema};
use store::{Store, TableLimits};

pub use joins::JOINED_SCHEMA;
pub use rows::central_schema;
pub use sensors::SENSORS_SCHEMA;
pub use tally::CentralCounts;

use joins::Joins;
use receive::Receiver;
use sensors::Sensors;
use tally::CentralTally;

use crate::link::Link;
use crate::{BusError, runtime};

/// The name of counts, and of the table of sensors.
const NAME: &str = "sensors";

/// What is read, and from where.
#[derive(Clone, Debug)]
pub struct CentralOptions {
    /// The broker, and how it is reached.
    pub link: Link,
    /// The first word of every subject.
    pub prefix: String,
    /// The name of this machine, for the broker's lists.
    pub name: String,
    /// Rows that the broker has stored for longer are not read.
    pub since: Duration,
    /// A sensor without a message for so long is silent.
    pub silent_after: Duration,
    /// A flow waits so long for the rows of other sensors.
    pub join_wait: Duration,
    /// Time since the epoch in nanoseconds, lent by the front end.
    pub realtime_ns: fn() -> i64,
    /// Monotonic time, lent by the front end.
    pub monotonic: fn() -> Duration,
    /// Prints messages for users; a line each.
    pub tell: fn(&str),
}

/// Where the rows of one table of sensors go.
pub struct CentralTable {
    /// Its name at sensors.
    pub name: String,
    /// Its columns here: see [`central_schema`].
    pub schema: Schema,
    /// Takes rows; may wait.
    pub put: Box<dyn FnMut(Columns) + Send>,
}

/// A view that receives.
pub struct Central {
    tally: Arc<CentralTally>,
    thread: Option<JoinHandle<()>>,
}

impl Central {
    /// Connects, and begins to receive: rows into `tables`, and the tables `sensors` and, with
    /// flows, `joined` of the store. A broker that does not answer within two seconds is no error.
    ///
    /// # Errors
    /// [`BusError`], where trying again would not help.
    pub fn begin(
        options: CentralOptions,
        tables: Vec<CentralTable>,
        store: &Arc<Store>,
    ) -> Result<Self, BusError> {
        let tally = Arc::new(CentralTally::new(options.tell));
        let limits = TableLimits::default();
        let about = "Sensors: when each was heard, silent or restarted, and how it stands.";
        let table = store.add(NAME, about, SENSORS_SCHEMA, limits);
        let CentralOptions { silent_after, realtime_ns, tell, join_wait, .. } = options;
        let sensors = Sensors::new(table, silent_after, realtime_ns, tell);
        let flows = tables.iter().find(|table| table.name == "flows");
        let joins = flows.and_then(|flows| {
            let about = "Flows that several sensors saw: which, and how many packets each.";
            Joins::new(flows.schema, join_wait, || {
                store.add("joined", about, JOINED_SCHEMA, limits)
            })
        });
        let counted = Arc::clone(&tally);
        store.count_by(NAME, Box::new(move || counted.counts()));
        let mut receiver =
            Receiver::new(options, tables, (sensors, joins), Arc::clone(store), Arc::clone(&tally));
        let runtime = runtime().map_err(BusError::Start)?;
        runtime.block_on(receiver.connect())?;
        let thread = thread::Builder::new().name(NAME.into()).spawn(move || {
            runtime.block_on(receiver.run());
            // No end waits for the name of a server.
            runtime.shutdown_background();
        });
        Ok(Self { tally, thread: Some(thread.map_err(BusError::Start)?) })
    }

    /// Packets of all sensors, as their last metrics have them: received, and dropped.
    #[must_use]
    pub fn packets(&self) -> Box<dyn Fn() -> (u64, u64) + Send + Sync> {
        let tally = Arc::clone(&self.tally);
        Box::new(move || (tally.sums().received, tally.sums().dropped))
    }

    /// Ends: what was received.
    #[must_use]
    pub fn end(mut self) -> CentralCounts {
        self.stop();
        self.tally.state()
    }

    fn stop(&mut self) {
        self.tally.ends.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by the thread; what it had read is counted.
            let _ = thread.join();
        }
    }
}

impl Drop for Central {
    fn drop(&mut self) {
        self.stop();
    }
}
