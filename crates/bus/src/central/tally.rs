//! What was received and what was not, for the thread that receives and for others.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use store::Count;

use super::rows::RowFault;
use super::sensors::SensorSums;
use crate::link::LinkEvent;
use crate::status::LinkStatus;

/// How a central view stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CentralCounts {
    /// Rows that were received.
    pub rows: u64,
    /// Sensors that were heard.
    pub sensors: u64,
    /// Rows that others follow and that did not come.
    pub missing: u64,
    /// Messages that are not of this version, or damaged, or a stranger's.
    pub refused: u64,
}

impl fmt::Display for CentralCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, sensors, missing, refused } = self;
        write!(
            f,
            "{rows} rows of {sensors} sensors received, {missing} missing; {refused} messages \
             refused"
        )
    }
}

/// Counters of one view.
pub(super) struct CentralTally {
    pub rows: AtomicU64,
    /// Rows that had come before.
    pub repeated: AtomicU64,
    /// Rows of tables that the settings do not have.
    pub unwanted: AtomicU64,
    /// Rows whose time is far ahead of this machine's clock.
    pub ahead: AtomicU64,
    /// Messages that were not read, by cause.
    faults: [AtomicU64; FAULTS.len()],
    pub joins_waiting: AtomicU64,
    pub joins_evicted: AtomicU64,
    sums: Mutex<SensorSums>,
    link: LinkStatus,
    pub ends: AtomicBool,
    tell: fn(&str),
}

/// Causes, as they are counted.
const FAULTS: [(Fault, &str); 5] = [
    (Fault::Row(RowFault::Version), "version"),
    (Fault::Row(RowFault::Headers), "headers"),
    (Fault::Row(RowFault::Rows), "rows"),
    (Fault::Metrics, "metrics"),
    (Fault::Sensors, "sensors_max"),
];

/// Why a message was not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    Row(RowFault),
    /// Metrics that are none.
    Metrics,
    /// Of more sensors than are followed.
    Sensors,
}

fn zero() -> AtomicU64 {
    AtomicU64::new(0)
}

impl CentralTally {
    pub(super) fn new(tell: fn(&str)) -> Self {
        Self {
            rows: zero(),
            repeated: zero(),
            unwanted: zero(),
            ahead: zero(),
            faults: std::array::from_fn(|_| zero()),
            joins_waiting: zero(),
            joins_evicted: zero(),
            sums: Mutex::default(),
            link: LinkStatus::new(tell),
            ends: AtomicBool::new(false),
            tell,
        }
    }

    pub(super) fn tell(&self, line: &str) {
        (self.tell)(line);
    }

    pub(super) fn note_fault(&self, fault: Fault) {
        let counted = self.faults.iter().zip(FAULTS);
        for (count, (of, _)) in counted {
            if of == fault {
                let before = count.fetch_add(1, Relaxed);
                if before == 0 {
                    (self.tell)(&format!("sensors: {}", fault.line()));
                }
            }
        }
    }

    pub(super) fn note_event(&self, event: &LinkEvent) {
        match event {
            LinkEvent::Connected => self.link.note_connected(""),
            LinkEvent::Away(why) => drop(self.link.note_away(why, "")),
            LinkEvent::Trouble(why) => self.note_trouble(why),
        }
    }

    pub(super) fn note_trouble(&self, why: &str) {
        self.link.note_trouble(why);
    }

    pub(super) fn put_sums(&self, sums: SensorSums) {
        *self.sums.lock().unwrap_or_else(PoisonError::into_inner) = sums;
    }

    pub(super) fn sums(&self) -> SensorSums {
        *self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> CentralCounts {
        let sums = self.sums();
        let refused = self.faults.iter().map(|count| count.load(Relaxed)).sum();
        let rows = self.rows.load(Relaxed);
        CentralCounts { rows, sensors: sums.known, missing: sums.missing, refused }
    }

    /// For the metrics page.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn counts(&self) -> Vec<Count> {
        let sums = self.sums();
        let total = |name, about, count: &AtomicU64| Count::total(name, about, count.load(Relaxed));
        let gauge = |name, about, value: u64| Count::gauge(name, about, value as f64);
        let connected = u64::from(self.link.is_connected());
        let mut counts = vec![
            gauge("connected", "Whether the broker is reached.", connected),
            gauge("known", "Sensors that were heard.", sums.known),
            gauge("silent", "Sensors without a message for silent-after.", sums.silent),
            gauge("shared", "Names under which several runs publish.", sums.shared),
            gauge("clocks_off", "Sensors whose clocks differ by 5 s or more.", sums.clocks_off),
            total("rows_read", "Rows received from sensors.", &self.rows),
            total("rows_repeated", "Rows that had come before.", &self.repeated),
            total(
                "rows_ahead",
                "Rows a minute or more ahead of this machine's clock.",
                &self.ahead,
            ),
            total("rows_unwanted", "Rows of tables that the settings do not have.", &self.unwanted),
            gauge("rows_missing", "Rows that others follow and that did not come.", sums.missing),
            gauge(
                "joins_waiting",
                "Flows that wait for rows of other sensors.",
                self.joins_waiting.load(Relaxed),
            ),
            total(
                "joins_evicted",
                "Flows that waited less than join-wait, as there were too many.",
                &self.joins_evicted,
            ),
        ];
        for (count, (_, cause)) in self.faults.iter().zip(FAULTS) {
            let about = "Messages that were not read.";
            counts.push(total("messages_refused", about, count).with("cause", cause));
        }
        counts
    }
}

impl Fault {
    /// The first of a kind, for users.
    const fn line(self) -> &'static str {
        match self {
            Self::Row(RowFault::Version) => {
                "messages of another version are left out and counted; update the older side"
            }
            Self::Row(RowFault::Headers) => {
                "messages whose headers contradict their subject are left out and counted; wanted: \
                 messages as docs/specs/messages.md has them"
            }
            Self::Row(RowFault::Rows) => {
                "messages with damaged rows are left out and counted; wanted: JSON lines with the \
                 columns of the reference"
            }
            Self::Metrics => "metrics that cannot be read are left out and counted",
            Self::Sensors => {
                "too many sensors: those after the first 1,000 are left out and counted; use \
                 another prefix for some of them"
            }
        }
    }
}
