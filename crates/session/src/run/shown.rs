//! What a lens shows of itself during the run, on request.

use std::sync::Arc;

use engine::columns::Columns;
use engine::flow::pass::{LensSupervisor, Now};
use engine::group::Outcome;
use packet::Timestamp;
use store::{Count, Counting, OpenRows, Store, Table};

use crate::application::{Closing, Watcher};
use crate::networks::Enriching;

/// Slots of the flow table that are visited between two batches. A record is copied in about
/// 50 ns, so packets wait for some 25 µs.
const SLOTS_PER_ANSWER: u32 = 512;

/// Parts whose number is this or more are counts of packets; those before are an application's own.
const OUTCOMES: usize = 1 << 16;

/// So many numbers of parts lie between two applications of a name.
const PARTS: usize = 1 << 20;

/// Whose counts they are that a run keeps of itself, its threads and its tables.
pub(super) const RUN: &str = "run";

/// The part of those in which drills are counted; flow tables have the numbers before.
pub(super) const DRILLS: usize = usize::MAX;

/// An application among all of a run.
#[derive(Clone)]
pub(super) struct Whose {
    name: &'static str,
    /// Its place in the run.
    place: usize,
    /// The table that its counts name, where another application has the same name.
    table: Option<Arc<str>>,
}

impl Whose {
    pub(super) fn new(name: &'static str, place: usize, table: Option<&Table>) -> Self {
        let table = table.map(Table::name).filter(|table| *table != name).map(Arc::from);
        Self { name, place, table }
    }

    /// Counts as the application's own.
    fn own(&self, counts: Vec<Count>) -> Vec<Count> {
        let Some(table) = &self.table else { return counts };
        counts.into_iter().map(|count| count.with("table", &**table)).collect()
    }

    fn part(&self, part: usize) -> usize {
        self.place * PARTS + part
    }

    fn put(&self, store: &Store, part: usize, counts: Vec<Count>) {
        store.put_counts(self.name, self.part(part), self.own(counts));
    }

    /// Before the first packet: that there is none yet is said, so that rates begin at 0.
    pub(super) fn put_first(&self, store: &Store) {
        self.put(store, OUTCOMES, outcome_counts(&Outcome::default()));
    }

    /// Has counts made whenever someone asks.
    pub(super) fn count_by(&self, store: &Store, counting: Counting) {
        let whose = self.clone();
        store.count_by(self.name, Box::new(move || whose.own(counting())));
    }

    /// What it says in the end, in place of what its lenses said.
    pub(super) fn put_last(&self, store: &Store, closing: &Closing) {
        let Closing { outcome, counts, shown, .. } = closing;
        let mut last = outcome_counts(outcome);
        let of = |wanted: &str| counts.iter().find(|(name, _)| *name == wanted);
        if let (Some((_, late)), Some((_, steps))) = (of("late"), of("clock_steps")) {
            last.extend(clock_counts(*late, *steps));
        }
        let parts = self.part(OUTCOMES)..self.part(PARTS);
        store.put_last_counts(self.name, parts, self.own(last));
        if !shown.is_empty() {
            let parts = self.part(0)..self.part(OUTCOMES);
            store.put_last_counts(self.name, parts, self.own(shown.clone()));
        }
    }
}

/// Where a lens shows its state.
#[derive(Clone)]
pub(super) struct LiveView {
    store: Arc<Store>,
    whose: Whose,
    /// Where its rows are kept.
    table: Option<Arc<Table>>,
    /// What its rows get besides.
    enriching: Option<Enriching>,
    /// Which of the lenses of the application this is.
    part: usize,
    /// The question that was answered last, that to which counts were given last, and that to
    /// which rows were.
    answered: u64,
    counted: u64,
    answered_rows: u64,
    /// The segment of the flow table that is next.
    segment: u32,
    /// The number of the flow table that it speaks of: of a pass one of its lenses does.
    flow_table: Option<usize>,
}

impl LiveView {
    pub(super) const fn new(
        store: Arc<Store>,
        whose: Whose,
        table: Option<Arc<Table>>,
        enriching: Option<Enriching>,
    ) -> Self {
        Self {
            store,
            whose,
            table,
            enriching,
            part: 0,
            answered: 0,
            counted: 0,
            answered_rows: 0,
            segment: 0,
            flow_table: None,
        }
    }

    /// From here on also says how large the flow table of its pass is.
    pub(super) const fn note_flow_table(&mut self, number: usize) {
        self.flow_table = Some(number);
    }

    /// The same for another lens of the application.
    pub(super) fn of_part(&self, part: usize) -> Self {
        Self { part, ..self.clone() }
    }

    pub(super) fn is_asked(&self) -> bool {
        self.store.asked() != self.answered
    }

    /// Answers in parts, one after each batch, so that packets never wait long.
    pub(super) fn answer(&mut self, watcher: &mut LensSupervisor<dyn Watcher>, now: &Now<'_>) {
        let Self { store, whose, table, part, .. } = self;
        // In this order: whoever asks for rows asks for counts afterwards, so that what is answered
        // here as a whole was asked for as a whole.
        let asked = store.asked();
        let asked_for_rows = store.asked_for_rows();
        if now.time != Timestamp::UNKNOWN {
            store.put_time(now.time.as_ns());
        }
        if asked != self.counted || now.is_last {
            self.counted = asked;
            if let Some(counts) = watcher.show(|watcher| watcher.counts(now)) {
                whose.put(store, *part, counts);
            }
            let of_packets = packet_counts(&watcher.outcome_of(now.outcome), now);
            whose.put(store, OUTCOMES + *part, of_packets);
            if let Some(number) = self.flow_table {
                store.put_counts(RUN, number, flow_table_counts(now));
            }
        }
        let wants_rows = self.segment > 0 || asked_for_rows != self.answered_rows || now.is_last;
        let Some(table) = table.as_ref().filter(|_| wants_rows) else {
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
        let slots = start..start + SLOTS_PER_ANSWER;
        let open = watcher.show(|watcher| watcher.open_rows(now, slots)).flatten();
        let has_more = match open {
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
            (self.segment, self.answered, self.answered_rows) = (0, asked, asked_for_rows);
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
        Count::total("packets_processed", "Packets received.", outcome.processed()),
        Count::total("packets_cut", "Packets truncated by the capture.", outcome.cut),
        Count::total("packets_faulted", "Packets lost to faults.", outcome.faulted),
    ];
    counts.extend(outcome.malformed.iter().map(|(cause, count)| {
        Count::total("packets_malformed", "Malformed packets.", count).with("cause", cause.name())
    }));
    counts
}

/// The same, and what came out of order.
fn packet_counts(outcome: &Outcome, now: &Now<'_>) -> Vec<Count> {
    let mut counts = outcome_counts(outcome);
    if now.slot_count() > 0 {
        counts.extend(clock_counts(now.late, now.clock_steps));
    }
    counts
}

fn clock_counts(late: u64, steps: u64) -> [Count; 2] {
    let about = "Packets more than a second behind the latest timestamp.";
    let set_back = "Times that the clock was set back.";
    [Count::total("packets_behind", about, late), Count::total("clock_steps", set_back, steps)]
}

#[allow(clippy::cast_precision_loss)]
fn flow_table_counts(now: &Now<'_>) -> Vec<Count> {
    let (flows, bytes) = (now.flow_count() as f64, now.byte_count() as f64);
    vec![
        Count::gauge("flow_table_flows", "Flows in all flow tables.", flows),
        Count::gauge("flow_table_bytes", "Memory reserved for flow tables.", bytes),
    ]
}
