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
        key_count: 0,
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
    /// Names in all of them.
    key_count: usize,
    /// And bytes of these.
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
            let is_full = self.key_count >= self.settings.max_keys;
            if is_full || self.text_len + len > TEXT_LEN_MAX {
                return self.beyond_max_keys.fold(&tally);
            }
            self.key_count += 1;
            self.text_len += len;
        }
        sums.entry(name).or_default().fold(&tally);
    }

    /// Hands on the windows that no packet can change any more: with an epoch
    /// ([`packet::event_time`]) all of them.
    fn put(&mut self, mark: FlowMark) {
        // Without windows all of the input is one ranking, whatever its clock does.
        let is_all = match mark.kind {
            MarkKind::Tick => false,
            MarkKind::Step => self.settings.window.is_some(),
            MarkKind::Last => true,
        };
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
        self.key_count = self.key_count.saturating_sub(sums.len());
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

#[cfg(test)]
mod tests {
    use engine::flow::EndReason;
    use packet::{FlowDirection, FlowKey, Layers, Protocol, Span};

    use super::*;

    fn flow_at(last: Timestamp) -> FlowRecord {
        let ends = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        FlowRecord {
            key: FlowKey::from_tuple(ends.0, ends.1, 1000, 443, Protocol::TCP).0,
            direction: FlowDirection::LowToHigh,
            reason: EndReason::End,
            vlan_id: Layers::NO_VLAN,
            input: 0,
            tcp_flags: [0; 2],
            packets: [1, 0],
            bytes: [100, 0],
            first: last,
            last,
        }
    }

    fn sums(settings: Settings) -> Sums {
        Sums {
            settings,
            text: Text::new(None),
            outlet: None,
            shown: None,
            windows: BTreeMap::new(),
            key_count: 0,
            text_len: 0,
            beyond_max_keys: Tally::default(),
            refusal: None,
        }
    }

    #[test]
    fn a_clock_that_is_set_back_ends_windows_and_no_ranking_without_them() {
        let at = Timestamp::from_parts(1_000, 0);
        for (window, names_left) in [(None, 2), (Some(Span::from_seconds(1)), 1)] {
            let mut sums = sums(Settings { window, ..Settings::default() });
            sums.add(&flow_at(at), Some("one.example.com"));
            let watermark = Timestamp::from_parts(500, 0);
            sums.put(FlowMark { watermark, kind: MarkKind::Step });
            sums.add(&flow_at(watermark), Some("other.example.com"));
            assert_eq!(sums.key_count, names_left, "{window:?}");
            sums.put(FlowMark { watermark, kind: MarkKind::Last });
            assert_eq!(sums.key_count, 0);
        }
    }

    #[test]
    fn windows_share_the_maximum_of_names_until_they_are_handed_on() {
        let at = |seconds| Timestamp::from_parts(seconds, 0);
        let window = Some(Span::from_seconds(1));
        let mut sums = sums(Settings { window, max_keys: 64, ..Settings::default() });
        let fill = |sums: &mut Sums, from: i64| {
            for name in (0..200).map(|at| format!("{at:03}.example.com")) {
                // Ten windows of 20 names each.
                let second: i64 = name[..3].parse::<i64>().unwrap() / 20;
                sums.add(&flow_at(at(from + second)), Some(&name));
            }
            sums.windows.values().map(HashMap::len).sum::<usize>()
        };
        assert_eq!(fill(&mut sums, 1_000), 64);
        assert_eq!(sums.beyond_max_keys.packets, 200 - 64);
        // The first two windows end, with 20 names each.
        sums.put(FlowMark { watermark: at(1_003), kind: MarkKind::Tick });
        assert_eq!((sums.key_count, sums.text_len), (24, 24 * "000.example.com".len()));
        sums.put(FlowMark { watermark: at(1_003), kind: MarkKind::Last });
        assert_eq!((sums.key_count, sums.text_len), (0, 0));
        assert_eq!(fill(&mut sums, 2_000), 64);
    }
}
