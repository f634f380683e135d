//! What was published and what was not, for the thread that publishes and for who asks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use store::Count;

use crate::link::LinkEvent;
use crate::source::Losses;
use crate::status::LinkStatus;

/// How publishing stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BusState {
    /// Whether the broker is reached.
    pub is_connected: bool,
    /// Rows that the broker acknowledged.
    pub published: u64,
    /// Rows that went before they were sent, as later ones needed the room.
    pub evicted: u64,
    /// Rows larger than a message may be.
    pub too_large: u64,
    /// Rows that were not acknowledged when the run ended.
    pub unacknowledged: u64,
    /// Why the last attempt failed, if none succeeded since.
    pub trouble: Option<String>,
}

impl BusState {
    /// Rows that the broker does not have.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.evicted + self.too_large + self.unacknowledged
    }

    /// The same in words, by cause; nothing where the broker has all.
    #[must_use]
    pub fn losses(&self) -> Option<String> {
        let Self { published, evicted, too_large, unacknowledged, trouble, .. } = self;
        let why = trouble.as_ref().map_or_else(String::new, |why| format!("; {why}"));
        (self.lost() > 0).then(|| {
            format!(
                "{} rows were not published, {published} were: {evicted} evicted, {too_large} too \
                 large, {unacknowledged} not acknowledged{why}",
                self.lost()
            )
        })
    }
}

/// Counters of one run.
pub(crate) struct Tally {
    link: LinkStatus,
    published: AtomicU64,
    evicted: AtomicU64,
    too_large: AtomicU64,
    unacknowledged: AtomicU64,
    waiting: AtomicU64,
    retried: AtomicU64,
    duplicates: AtomicU64,
    disconnects: AtomicU64,
    metrics_sent: AtomicU64,
    ends_within: Mutex<Option<Duration>>,
}

impl Tally {
    pub(crate) const fn new(tell: fn(&str)) -> Self {
        const fn zero() -> AtomicU64 {
            AtomicU64::new(0)
        }
        Self {
            link: LinkStatus::new(tell),
            published: zero(),
            evicted: zero(),
            too_large: zero(),
            unacknowledged: zero(),
            waiting: zero(),
            retried: zero(),
            duplicates: zero(),
            disconnects: zero(),
            metrics_sent: zero(),
            ends_within: Mutex::new(None),
        }
    }

    pub(crate) fn note_event(&self, event: &LinkEvent) {
        match event {
            LinkEvent::Connected => self.note_connected(),
            LinkEvent::Away(why) => self.note_away(why),
            LinkEvent::Trouble(why) => self.note_trouble(why),
        }
    }

    fn note_connected(&self) {
        let lost = match self.evicted.load(Relaxed) {
            0 => String::new(),
            rows => format!("; {rows} rows so far were evicted before they could be sent"),
        };
        self.link.note_connected(&lost);
    }

    pub(crate) fn note_away(&self, why: &str) {
        let was_connected = self.link.note_away(why, "; rows wait in memory");
        self.disconnects.fetch_add(u64::from(was_connected), Relaxed);
    }

    pub(crate) fn note_trouble(&self, why: &str) {
        self.link.note_trouble(why);
    }

    pub(crate) fn note_published(&self, rows: u64, is_duplicate: bool) {
        self.published.fetch_add(rows, Relaxed);
        self.duplicates.fetch_add(u64::from(is_duplicate), Relaxed);
        self.link.note_well();
    }

    pub(crate) fn note_retried(&self) {
        self.retried.fetch_add(1, Relaxed);
    }

    pub(crate) fn note_lost(&self, lost: Losses) {
        self.evicted.fetch_add(lost.evicted, Relaxed);
        self.too_large.fetch_add(lost.too_large, Relaxed);
    }

    pub(crate) fn note_unacknowledged(&self, rows: u64) {
        self.unacknowledged.fetch_add(rows, Relaxed);
    }

    pub(crate) fn note_waiting(&self, rows: u64) {
        self.waiting.store(rows, Relaxed);
    }

    pub(crate) fn note_metrics(&self) {
        self.metrics_sent.fetch_add(1, Relaxed);
    }

    /// Whether rows go out, as far as is known.
    pub(crate) fn is_well(&self) -> bool {
        self.is_connected() && self.link.trouble().is_none()
    }

    /// How many connections were lost so far.
    pub(crate) fn disconnects(&self) -> u64 {
        self.disconnects.load(Relaxed)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.link.is_connected()
    }

    /// Has it end, after so long at the latest.
    pub(crate) fn end(&self, within: Duration) {
        let mut ends = self.ends_within.lock().unwrap_or_else(PoisonError::into_inner);
        ends.get_or_insert(within);
    }

    pub(crate) fn ends_within(&self) -> Option<Duration> {
        *self.ends_within.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> BusState {
        BusState {
            is_connected: self.is_connected(),
            published: self.published.load(Relaxed),
            evicted: self.evicted.load(Relaxed),
            too_large: self.too_large.load(Relaxed),
            unacknowledged: self.unacknowledged.load(Relaxed),
            trouble: self.link.trouble(),
        }
    }

    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn counts(&self) -> Vec<Count> {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        let lost = |cause, counter| {
            let about = "Rows that the broker does not get, by cause.";
            Count::total("rows_lost", about, of(counter)).with("cause", cause)
        };
        let connected = f64::from(u8::from(self.is_connected()));
        vec![
            Count::gauge("connected", "1 while the broker is reached, otherwise 0.", connected),
            Count::total(
                "rows_published",
                "Rows that the broker acknowledged.",
                of(&self.published),
            ),
            lost("evicted", &self.evicted),
            lost("too_large", &self.too_large),
            lost("unacknowledged", &self.unacknowledged),
            Count::gauge(
                "rows_waiting",
                "Rows not yet acknowledged by the broker.",
                of(&self.waiting) as f64,
            ),
            Count::total("messages_retried", "Messages published again.", of(&self.retried)),
            Count::total(
                "messages_duplicate",
                "Messages that the broker already had, which it keeps once.",
                of(&self.duplicates),
            ),
            Count::total("disconnects", "Connections lost.", of(&self.disconnects)),
            Count::total("metrics_published", "Messages with metrics.", of(&self.metrics_sent)),
        ]
    }
}
