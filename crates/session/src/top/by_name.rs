//! `top` by name: bytes and packets of flows, by the server that each one names.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use engine::flow::pass::Now;
use engine::flow::{EndedFlow, FlowMark, FlowRecord, FlowSink, FlowState, MarkKind};
use engine::table::{Entry as _, Tally};
use engine::window::LATENESS_ALLOWANCE;
use names::reader::{Limits, NameState, Reader};
use packet::Timestamp;

use super::application::shown;
use super::ranking::ROWS_PER_PIECE;
use super::row::{BYTES, PACKETS, WINDOW_START};
use super::{Ranking, Settings, Top};
use crate::application::{
    Application as _, Closing, Count, Framing, FramingLens, Opening, Refusal, Watcher, Watchers,
};
use crate::done::RunTotals;
use crate::names_read::{self, Text};
use crate::outlet::Outlet;

const NAME: Field = Field::new(
    "name",
    Kind::Text,
    "Server name sent by clients (SNI, HTTP host), else the name that DNS resolved to its address, \
     else the name queried; empty for flows without one.",
)
.nullable();

/// The columns, without windows.
pub(super) const SCHEMA: Schema = &[NAME, PACKETS, BYTES];
/// And with them.
pub(super) const WINDOWED_SCHEMA: Schema = &[WINDOW_START, NAME, PACKETS, BYTES];

/// Windows that are open together: of short ones the oldest is handed on for another, and may have
/// rows again.
const WINDOWS_MAX: usize = 4096;

/// Bytes of names that are added up at a time.
const TEXT_LEN_MAX: usize = 256 << 20;

/// Begins.
pub(super) fn watch(
    settings: Settings,
    shown: Option<Outlet<Vec<Ranking>>>,
    opening: Opening,
) -> Result<Watchers, Refusal> {
    let limits = Limits { has_windows: settings.window.is_some(), ..Limits::default() };
    let key = settings.hash_names.as_deref().map(names_read::read_key).transpose()?;
    let sums = Sums {
        settings,
        text: Text::new(key),
        outlet: opening.outlet,
        shown,
        windows: BTreeMap::new(),
        text_len: 0,
        beyond_max_keys: Tally::default(),
        refusal: None,
    };
    let lens: Box<dyn Watcher> = Box::new(FramingLens::new(Reader::new(limits), sums, Finish));
    Ok(Watchers { lenses: vec![lens], ..Watchers::default() })
}

/// Sums by name, of each window that is not complete.
struct Sums {
    settings: Settings,
    text: Text,
    outlet: Option<Outlet>,
    shown: Option<Outlet<Vec<Ranking>>>,
    windows: BTreeMap<Option<Timestamp>, HashMap<Option<Box<str>>, Tally>>,
    /// Bytes of names in all of them.
    text_len: usize,
    beyond_max_keys: Tally,
    refusal: Option<Refusal>,
}

impl Sums {
    fn add(&mut self, record: &FlowRecord, name: Option<&str>) {
        let start = self.settings.window.map(|window| record.last.window_start(window));
        if self.windows.len() >= WINDOWS_MAX
            && !self.windows.contains_key(&start)
            && let Some((first, sums)) = self.windows.pop_first()
        {
            self.hand_on(first, sums);
        }
        let sums = self.windows.entry(start).or_default();
        let tally = Tally { packets: record.packets_total(), bytes: record.bytes_total() };
        let name: Option<Box<str>> = name.map(Into::into);
        if !sums.contains_key(&name) {
            let len = name.as_deref().map_or(0, str::len);
            if sums.len() >= self.settings.max_keys || self.text_len + len > TEXT_LEN_MAX {
                return self.beyond_max_keys.fold(&tally);
            }
            self.text_len += len;
        }
        sums.entry(name).or_default().fold(&tally);
    }

    /// Hands on the windows that no packet can change any more: with an epoch
    /// ([`packet::event_time`]) all of them.
    fn put(&mut self, mark: FlowMark) {
        let is_all = mark.kind != MarkKind::Tick;
        while let Some(entry) = self.windows.first_entry() {
            let window = self.settings.window.unwrap_or_default();
            let is_over = entry
                .key()
                .is_some_and(|start| start.plus(window).plus(LATENESS_ALLOWANCE) <= mark.watermark);
            if !is_over && !is_all {
                break;
            }
            let (start, sums) = entry.remove_entry();
            self.hand_on(start, sums);
        }
    }

    fn hand_on(&mut self, start: Option<Timestamp>, sums: HashMap<Option<Box<str>>, Tally>) {
        let text_len: usize = sums.keys().flatten().map(|name| name.len()).sum();
        self.text_len = self.text_len.saturating_sub(text_len);
        self.put_window(start, sums);
    }

    fn put_window(&mut self, start: Option<Timestamp>, sums: HashMap<Option<Box<str>>, Tally>) {
        let key_count = sums.len();
        let mut total = Tally::default();
        sums.values().for_each(|tally| total.fold(tally));
        let mut rows: Vec<_> = sums.into_iter().collect();
        let sort = self.settings.sort;
        rows.sort_by(|(name, tally), (other_name, other)| {
            (Reverse(sort.rank(*tally)), name).cmp(&(Reverse(sort.rank(*other)), other_name))
        });
        if self.settings.rows > 0 {
            rows.truncate(self.settings.rows);
        }
        let rows: Vec<_> =
            rows.into_iter().map(|(name, tally)| (self.text.of(name.as_deref()), tally)).collect();
        if let Err(refused) = self.put_rows(start, &rows) {
            self.refusal.get_or_insert(Refusal::new(refused));
        }
        if let Some(shown) = &self.shown {
            let row = |(name, tally): (Option<String>, Tally)| {
                (vec![name.unwrap_or_else(|| String::from("(no name)"))], tally)
            };
            let rows = rows.into_iter().map(row).collect();
            let titles = &["name"];
            shown.put(vec![Ranking { window_start: start, titles, rows, total, key_count }]);
        }
    }

    fn put_rows(
        &self,
        start: Option<Timestamp>,
        rows: &[(Option<String>, Tally)],
    ) -> Result<(), RowMismatch> {
        let Some(outlet) = &self.outlet else { return Ok(()) };
        let start = start.map(|start| Value::TimestampNs(start.as_ns()));
        for piece in rows.chunks(ROWS_PER_PIECE) {
            let mut columns = Columns::new(match start {
                Some(_) => WINDOWED_SCHEMA,
                None => SCHEMA,
            });
            for (name, tally) in piece {
                let name = name.as_deref().map(Value::Str).into();
                let measures = [name, Value::U64(tally.packets), Value::U64(tally.bytes)];
                let values: Vec<_> = start.into_iter().chain(measures).collect();
                columns.push_row(&values)?;
            }
            outlet.put(columns);
        }
        Ok(())
    }
}

impl FlowSink<NameState> for Sums {
    fn take(&mut self, flows: &[EndedFlow<NameState>]) {
        for (record, FlowState(named)) in flows {
            self.add(record, named.seen.found.as_ref().and_then(|found| found.name()));
        }
    }
}

/// What is reported at the end.
struct Finish;

impl Framing<Reader, Sums> for Finish {
    const NAME: &'static str = Top::NAME;

    fn fold(&mut self, _: Reader) {}

    fn on_marked(&mut self, sums: &mut Sums, mark: FlowMark) {
        // Behind the last mark come the flows that had not ended.
        if mark.kind != MarkKind::Last {
            sums.put(mark);
        }
    }

    fn counts(&self, reader: &Reader, _: &Now<'_>) -> Vec<Count> {
        names_read::shown(&reader.counts()).into()
    }

    fn close(self, reader: Reader, mut sums: Sums, flows: &RunTotals) -> Result<Closing, Refusal> {
        sums.put(FlowMark { watermark: Timestamp::UNKNOWN, kind: MarkKind::Last });
        if let Some(refusal) = sums.refusal {
            return Err(refusal);
        }
        let counted = reader.counts();
        let mut closing = flows.closing();
        closing.lines = names_read::lines(&counted);
        closing.counts.extend(names_read::counts(&counted));
        closing.beyond_max_keys = sums.beyond_max_keys.packets;
        closing.shown = shown(0, closing.beyond_max_keys, 0);
        closing.shown.extend(names_read::shown(&counted));
        Ok(closing)
    }
}
