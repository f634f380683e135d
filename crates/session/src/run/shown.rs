//! What a lens shows of itself while the run goes on, when it is asked.

use std::sync::Arc;

use engine::columns::Columns;
use engine::flow::pass::Now;
use engine::group::Outcome;
use packet::Timestamp;
use store::{Count, OpenRows, Store, Table};

use crate::application::Watcher;
use crate::networks::Enriching;

/// Slots of the flow table that are looked at between two batches. A record is copied in about
/// 50 ns, so packets wait for some 25 µs.
const SLOTS_PER_ANSWER: u32 = 512;

/// Parts whose number is this or more are counts of packets; those before are an application's own.
const OUTCOMES: usize = 1 << 16;

/// Where a lens shows what goes on.
#[derive(Clone)]
pub(super) struct Shown {
    store: Arc<Store>,
    /// Where its rows are kept.
    table: Option<Arc<Table>>,
    /// What its rows get besides.
    enriching: Option<Enriching>,
    /// Which of the lenses of the application this is.
    part: usize,
    /// The question that was answered last.
    answered: u64,
    /// The segment of the flow table that is next.
    segment: u32,
}

impl Shown {
    pub(super) const fn new(
        store: Arc<Store>,
        table: Option<Arc<Table>>,
        enriching: Option<Enriching>,
    ) -> Self {
        Self { store, table, enriching, part: 0, answered: 0, segment: 0 }
    }

    /// The same for another lens of the application.
    pub(super) fn of_part(&self, part: usize) -> Self {
        Self { part, ..self.clone() }
    }

    pub(super) fn is_asked(&self) -> bool {
        self.store.asked() != self.answered
    }

    /// Answers in parts, one after each batch, so that packets never wait long.
    pub(super) fn answer(&mut self, watcher: &dyn Watcher, now: &Now<'_>) {
        let Self { store, table, part, .. } = self;
        let asked = store.asked();
        if now.time != Timestamp::UNKNOWN {
            store.put_time(now.time.as_ns());
        }
        if self.segment == 0 || now.is_last {
            store.put_counts(watcher.name(), *part, watcher.counts(now));
            store.put_counts(watcher.name(), OUTCOMES + *part, outcome_counts(now.outcome));
        }
        let Some(table) = table.as_ref() else {
            self.answered = asked;
            return;
        };
        if now.is_last {
            table.end_open(*part, 0);
            self.answered = asked;
            return;
        }
        let start = self.segment * SLOTS_PER_ANSWER;
        let segment = self.segment as usize;
        let has_more = match watcher.open_rows(now, start..start + SLOTS_PER_ANSWER) {
            Some((row_count, rows)) => {
                let rows = enriched(rows, self.enriching.as_ref());
                table.put_open(*part, segment, row_count, rows);
                start + SLOTS_PER_ANSWER < now.slot_count()
            }
            None => false,
        };
        if has_more {
            self.segment += 1;
        } else {
            table.end_open(*part, segment + 1);
            (self.segment, self.answered) = (0, asked);
        }
    }
}

/// Rows that are made when someone asks for them, with what is known of their addresses.
fn enriched(rows: OpenRows, enriching: Option<&Enriching>) -> OpenRows {
    let Some(enriching) = enriching.cloned() else { return rows };
    Box::new(move || {
        let found = enriching.rows(&rows());
        found.unwrap_or_else(|_| Columns::new(enriching.schema()))
    })
}

/// Packets by outcome.
fn outcome_counts(outcome: &Outcome) -> Vec<Count> {
    let mut counts = vec![
        Count::total("packets_processed", "Packets taken in.", outcome.processed()),
        Count::total("packets_cut", "Packets that the capture cut short.", outcome.cut),
    ];
    counts.extend(outcome.malformed.iter().map(|(cause, count)| {
        Count::total("packets_malformed", "Malformed packets.", count).with("cause", cause.name())
    }));
    counts
}

/// What the passes of an application counted in the end, where they shared the packets.
pub(super) fn put_outcome(store: &Store, name: &'static str, outcome: &Outcome) {
    store.put_counts(name, OUTCOMES, outcome_counts(outcome));
}
