//! Flows that several sensors saw, joined by Community ID and time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use store::Table;
use store::query::{Cell, cell};

/// Flows that wait for rows of other sensors, at most; the oldest is decided where there are more.
const WAITING_MAX: usize = 200_000;

/// Clocks of sensors may differ by so much, in nanoseconds.
const SKEW_NS: i64 = 2_000_000_000;

/// Bytes of the texts by which flows are joined, at most: flows that wait are bounded by their
/// number, and a Community ID has 30 bytes, an address 45.
const TEXT_LEN_MAX: usize = 64;

/// The table of joined flows.
pub const JOINED_SCHEMA: Schema = &[
    Field::new("community_id", Kind::Text, "Community ID v1, seed 0."),
    Field::new("protocol", Kind::Text, "IP protocol."),
    Field::new("src_ip", Kind::Text, "Source, as the sensor with the earliest packet has it."),
    Field::new("src_port", Kind::U16, "Its port."),
    Field::new("dst_ip", Kind::Text, "Destination."),
    Field::new("dst_port", Kind::U16, "Its port."),
    Field::new("first_ns", Kind::TimestampNs, "Earliest packet at any sensor."),
    Field::new("last_ns", Kind::TimestampNs, "Latest packet at any sensor."),
    Field::new("sensors", Kind::Text, "Sensors that saw it, in the order of their first packets."),
    Field::new("sensor_count", Kind::U16, "How many these are."),
    Field::new(
        "packets_max",
        Kind::U64,
        "Packets in both directions, at the sensor with the most.",
    ),
    Field::new("packets_min", Kind::U64, "The same at the sensor with the fewest."),
    Field::new("bytes_max", Kind::U64, "Bytes in both directions, at the sensor with the most."),
    Field::new("bytes_min", Kind::U64, "The same at the sensor with the fewest."),
    Field::new(
        "first_spread_s",
        Kind::F64,
        "Seconds between the first packets at the first and the last sensor; differences of their clocks included.",
    ),
];

/// What is read of rows of flows.
const READ: [&str; 12] = [
    "community_id",
    "first_ns",
    "last_ns",
    "src_packets",
    "dst_packets",
    "src_bytes",
    "dst_bytes",
    "protocol",
    "src_ip",
    "src_port",
    "dst_ip",
    "dst_port",
];

/// A flow at one sensor.
struct Seen {
    sensor: String,
    first_ns: i64,
    packets: u64,
    bytes: u64,
}

/// A flow at all sensors that reported it so far.
struct Group {
    number: u64,
    first_ns: i64,
    last_ns: i64,
    protocol: String,
    ends: [(String, u16); 2],
    seen: Vec<Seen>,
}

/// Flows that wait for rows of other sensors.
pub(super) struct Joins {
    /// Where the columns of [`READ`] are, behind the sensor.
    places: [usize; READ.len()],
    groups: HashMap<String, Vec<Group>>,
    /// In the order in which they came: when, which, and its number.
    order: VecDeque<(Duration, String, u64)>,
    /// Of these the ones that are part of an older one by now.
    merged_count: usize,
    wait: Duration,
    number: u64,
    table: Arc<Table>,
    /// Flows that were decided before their time.
    pub evicted: u64,
}

fn text(cell: &Cell<'_>) -> String {
    cell.text().unwrap_or_default().into()
}

impl Joins {
    /// Of flows with these columns; nothing where some that are read are missing, such as with
    /// names of another tool.
    pub(super) fn new(
        flows: Schema,
        wait: Duration,
        add: impl FnOnce() -> Arc<Table>,
    ) -> Option<Self> {
        let place = |name: &str| flows.iter().position(|field| field.name == name);
        let mut places = [0; READ.len()];
        for (at, name) in places.iter_mut().zip(READ) {
            *at = place(name)?;
        }
        let (groups, order, table) = (HashMap::new(), VecDeque::new(), add());
        let (merged_count, number, evicted) = (0, 0, 0);
        Some(Self { places, groups, order, merged_count, wait, number, table, evicted })
    }

    /// Takes in rows of flows, the sensor in front.
    pub(super) fn take(&mut self, rows: &Columns, now: Duration) {
        for row in 0..rows.row_count() {
            self.take_row(rows, row, now);
        }
        while self.order.len() > WAITING_MAX {
            self.evicted += u64::from(self.decide_oldest());
        }
    }

    fn take_row(&mut self, rows: &Columns, row: usize, now: Duration) {
        let at = self.places.map(|place| cell(rows, place, row));
        let [id, first, last, src_packets, dst_packets, src_bytes, dst_bytes, protocol, ends @ ..] =
            &at;
        // Flows of packets without a time are not joined by it.
        let (Some(id), Some(first_ns), Some(last_ns)) = (id.text(), first.time(), last.time())
        else {
            return;
        };
        let [src_ip, src_port, dst_ip, dst_port] = ends;
        // Such texts are a stranger's.
        if [Some(id), protocol.text(), src_ip.text(), dst_ip.text()]
            .into_iter()
            .flatten()
            .any(|text| text.len() > TEXT_LEN_MAX)
        {
            return;
        }
        let sum = |one: &Cell<'_>, other: &Cell<'_>| whole(one).saturating_add(whole(other));
        let port = |cell: &Cell<'_>| u16::try_from(whole(cell)).unwrap_or(0);
        let seen = Seen {
            first_ns,
            packets: sum(src_packets, dst_packets),
            bytes: sum(src_bytes, dst_bytes),
            sensor: text(&cell(rows, 0, row)),
        };
        let mut group = Group {
            number: self.number + 1,
            first_ns,
            last_ns,
            protocol: text(protocol),
            ends: [(text(src_ip), port(src_port)), (text(dst_ip), port(dst_port))],
            seen: vec![seen],
        };
        let groups = self.groups.entry(id.into()).or_default();
        // Several, where a sensor cut the flow and this one saw all of it.
        let met: Vec<Group> = groups.extract_if(.., |other| group.meets(other)).collect();
        let Some(oldest) = met.iter().map(|other| other.number).min() else {
            self.number = group.number;
            self.order.push_back((now, id.into(), group.number));
            groups.push(group);
            return;
        };
        self.merged_count += met.len() - 1;
        met.into_iter().for_each(|other| group.add(other));
        group.number = oldest;
        groups.push(group);
    }

    /// Decides flows that have waited long enough.
    pub(super) fn look(&mut self, now: Duration) {
        let wait = self.wait;
        while self.order.front().is_some_and(|(came, _, _)| now.saturating_sub(*came) >= wait) {
            self.decide_oldest();
        }
    }

    /// Decides all.
    pub(super) fn end(&mut self) {
        while !self.order.is_empty() {
            self.decide_oldest();
        }
    }

    /// Flows that wait.
    pub(super) fn waiting(&self) -> u64 {
        (self.order.len() - self.merged_count) as u64
    }

    /// Whether the oldest was still one of its own.
    fn decide_oldest(&mut self) -> bool {
        let Some((_, id, number)) = self.order.pop_front() else { return false };
        let groups = self.groups.get_mut(&id);
        let group = groups.and_then(|groups| {
            let place = groups.iter().position(|group| group.number == number)?;
            Some(groups.swap_remove(place))
        });
        let Some(group) = group else {
            self.merged_count -= 1;
            return false;
        };
        if self.groups.get(&id).is_some_and(Vec::is_empty) {
            self.groups.remove(&id);
        }
        if group.seen.len() > 1 {
            let mut row = Columns::new(JOINED_SCHEMA);
            if group.push(&id, &mut row).is_ok() {
                self.table.push(&row);
            }
        }
        true
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(cell: &Cell<'_>) -> u64 {
    cell.number().unwrap_or(0.0) as u64
}

impl Group {
    /// Whether the times of both overlap, as far as clocks agree.
    const fn meets(&self, other: &Self) -> bool {
        self.first_ns <= other.last_ns.saturating_add(SKEW_NS)
            && self.last_ns.saturating_add(SKEW_NS) >= other.first_ns
    }

    /// What else was seen of the flow; rows of one sensor, as where it cut the flow, are added up.
    /// Who began it is as the earliest packet has it.
    fn add(&mut self, other: Self) {
        if other.first_ns <= self.first_ns {
            (self.first_ns, self.ends, self.protocol) =
                (other.first_ns, other.ends, other.protocol);
        }
        self.last_ns = self.last_ns.max(other.last_ns);
        for seen in other.seen {
            match self.seen.iter_mut().find(|before| before.sensor == seen.sensor) {
                Some(before) => {
                    before.first_ns = before.first_ns.min(seen.first_ns);
                    before.packets = before.packets.saturating_add(seen.packets);
                    before.bytes = before.bytes.saturating_add(seen.bytes);
                }
                None => self.seen.push(seen),
            }
        }
    }

    fn push(mut self, id: &str, rows: &mut Columns) -> Result<(), RowMismatch> {
        self.seen.sort_by(|one, other| {
            (one.first_ns, &one.sensor).cmp(&(other.first_ns, &other.sensor))
        });
        let names: Vec<_> = self.seen.iter().map(|seen| seen.sensor.as_str()).collect();
        let (most, fewest) = (
            |value: fn(&Seen) -> u64| self.seen.iter().map(value).max().unwrap_or(0),
            |value: fn(&Seen) -> u64| self.seen.iter().map(value).min().unwrap_or(0),
        );
        let firsts = || self.seen.iter().map(|seen| seen.first_ns);
        let spread_ns = firsts().max().unwrap_or(0).saturating_sub(firsts().min().unwrap_or(0));
        #[allow(clippy::cast_precision_loss)]
        let spread_s = spread_ns as f64 / 1e9;
        let [(src_ip, src_port), (dst_ip, dst_port)] = &self.ends;
        rows.push_row(&[
            Value::Str(id),
            Value::Str(&self.protocol),
            Value::Str(src_ip),
            Value::U16(*src_port),
            Value::Str(dst_ip),
            Value::U16(*dst_port),
            Value::TimestampNs(self.first_ns),
            Value::TimestampNs(self.last_ns),
            Value::Str(&names.join(", ")),
            Value::U16(u16::try_from(names.len()).unwrap_or(u16::MAX)),
            Value::U64(most(|seen| seen.packets)),
            Value::U64(fewest(|seen| seen.packets)),
            Value::U64(most(|seen| seen.bytes)),
            Value::U64(fewest(|seen| seen.bytes)),
            Value::F64(spread_s),
        ])
    }
}

#[cfg(test)]
mod tests {
    use store::{Store, TableLimits};

    use super::*;
    use crate::central::rows::SENSOR;

    const FLOWS: Schema = &[
        SENSOR,
        Field::new("community_id", Kind::Text, "").nullable(),
        Field::new("protocol", Kind::Text, "").nullable(),
        Field::new("src_ip", Kind::Text, "").nullable(),
        Field::new("src_port", Kind::U16, "").nullable(),
        Field::new("dst_ip", Kind::Text, "").nullable(),
        Field::new("dst_port", Kind::U16, "").nullable(),
        Field::new("first_ns", Kind::TimestampNs, "").nullable(),
        Field::new("last_ns", Kind::TimestampNs, "").nullable(),
        Field::new("src_packets", Kind::U64, "").nullable(),
        Field::new("dst_packets", Kind::U64, "").nullable(),
        Field::new("src_bytes", Kind::U64, "").nullable(),
        Field::new("dst_bytes", Kind::U64, "").nullable(),
    ];
    const SECOND_NS: i64 = 1_000_000_000;

    /// A sensor's flow of so many packets each way, between these seconds.
    fn flow(sensor: &str, id: &str, seconds: std::ops::Range<i64>, packets: u64) -> Columns {
        let mut rows = Columns::new(FLOWS);
        let count = Value::U64(packets);
        rows.push_row(&[
            Value::Str(sensor),
            Value::Str(id),
            Value::Str("TCP"),
            Value::Str("10.0.0.1"),
            Value::U16(1000),
            Value::Str("10.0.0.2"),
            Value::U16(443),
            Value::TimestampNs(seconds.start * SECOND_NS),
            Value::TimestampNs(seconds.end * SECOND_NS),
            count,
            count,
            Value::U64(packets * 100),
            Value::U64(packets * 10),
        ])
        .unwrap();
        rows
    }

    fn joins(store: &Store) -> Joins {
        let add = || store.add("joined", "", JOINED_SCHEMA, TableLimits::default());
        Joins::new(FLOWS, Duration::from_secs(60), add).unwrap()
    }

    /// What was joined: id, sensors, and the packets at the most and the fewest.
    fn joined(store: &Store) -> Vec<(String, String, u64, u64)> {
        let view = store.find("joined").unwrap().view();
        let mut found = Vec::new();
        for rows in view.final_rows() {
            for row in 0..rows.row_count() {
                let at = |place| cell(rows, place, row);
                found.push((text(&at(0)), text(&at(8)), whole(&at(10)), whole(&at(11))));
            }
        }
        found
    }

    #[test]
    fn flows_meet_by_id_and_time() {
        let store = Store::new();
        let (mut joins, second) = (joins(&store), Duration::from_secs);
        joins.take(&flow("b", "1:x", 10..20, 5), second(0));
        joins.take(&flow("alone", "1:y", 10..20, 5), second(0));
        joins.take(&flow("a", "1:x", 9..19, 7), second(1));
        // The same ports again, long after: another flow, which one sensor alone saw.
        joins.take(&flow("a", "1:x", 100..101, 1), second(2));
        // Cut by its sensor.
        joins.take(&flow("b", "1:x", 20..21, 1), second(3));
        joins.look(second(59));
        assert_eq!((joined(&store), joins.waiting()), (vec![], 3));
        joins.look(second(60));
        let wanted = vec![(String::from("1:x"), String::from("a, b"), 14, 12)];
        assert_eq!((joined(&store), joins.waiting()), (wanted.clone(), 1));
        // What comes after that is decided by itself.
        joins.take(&flow("c", "1:x", 10..20, 5), second(61));
        joins.end();
        assert_eq!((joined(&store), joins.waiting(), joins.groups.len()), (wanted, 0, 0));
    }

    /// The same flow as its other sensor has it: who began it was not seen there.
    fn turned(rows: &Columns) -> Columns {
        let mut turned = Columns::new(FLOWS);
        let at = |place| cell(rows, place, 0);
        let name = |place| at(place).text().unwrap_or_default().to_owned();
        let names: Vec<String> = (0..7).map(name).collect();
        let number = |place| whole(&at(place));
        let time = |place| at(place).time().unwrap();
        turned
            .push_row(&[
                Value::Str(&names[0]),
                Value::Str(&names[1]),
                Value::Str(&names[2]),
                Value::Str(&names[5]),
                Value::U16(443),
                Value::Str(&names[3]),
                Value::U16(1000),
                Value::TimestampNs(time(7)),
                Value::TimestampNs(time(8)),
                Value::U64(number(10)),
                Value::U64(number(9)),
                Value::U64(number(12)),
                Value::U64(number(11)),
            ])
            .unwrap();
        turned
    }

    #[test]
    fn who_began_a_flow_is_as_the_earliest_packet_has_it_in_any_order() {
        for is_turned_first in [true, false] {
            let store = Store::new();
            let mut joins = joins(&store);
            let mut rows =
                [turned(&flow("late", "1:x", 12..20, 5)), flow("early", "1:x", 10..20, 9)];
            if !is_turned_first {
                rows.reverse();
            }
            rows.iter().for_each(|rows| joins.take(rows, Duration::ZERO));
            joins.end();
            let view = store.find("joined").unwrap().view();
            let rows = view.final_rows()[0];
            let seen = [2, 4].map(|place| text(&cell(rows, place, 0)));
            let ports = [3, 5].map(|place| whole(&cell(rows, place, 0)));
            assert_eq!((seen, ports), (["10.0.0.1", "10.0.0.2"].map(String::from), [1000, 443]));
        }
    }

    #[test]
    fn a_flow_that_one_sensor_cut_is_one_in_any_order() {
        let parts = [
            flow("cuts", "1:x", 0..10, 3),
            flow("cuts", "1:x", 20..30, 4),
            flow("whole", "1:x", 0..30, 7),
        ];
        for order in [[0, 1, 2], [0, 2, 1], [2, 0, 1], [1, 2, 0], [2, 1, 0], [1, 0, 2]] {
            let store = Store::new();
            let (mut joins, second) = (joins(&store), Duration::from_secs);
            for (at, part) in (0..).zip(order) {
                joins.take(&parts[part], second(at));
            }
            assert_eq!(joins.waiting(), 1, "{order:?}");
            joins.look(second(60));
            let wanted = vec![(String::from("1:x"), String::from("cuts, whole"), 14, 14)];
            assert_eq!(joined(&store), wanted, "{order:?}");
            joins.end();
            assert_eq!((joined(&store).len(), joins.waiting(), joins.groups.len()), (1, 0, 0));
            assert_eq!((joins.evicted, joins.merged_count), (0, 0));
        }
    }

    #[test]
    fn a_text_that_no_flow_has_does_not_wait() {
        let store = Store::new();
        let mut joins = joins(&store);
        joins.take(&flow("a", &"1:x".repeat(30), 0..1, 1), Duration::ZERO);
        assert_eq!((joins.waiting(), joins.groups.len()), (0, 0));
    }

    #[test]
    fn the_oldest_is_decided_where_too_many_wait() {
        let store = Store::new();
        let mut joins = joins(&store);
        joins.take(&flow("a", "first", 0..1, 1), Duration::ZERO);
        joins.take(&flow("b", "first", 0..1, 1), Duration::ZERO);
        for at in 0..WAITING_MAX {
            joins.take(&flow("a", &at.to_string(), 0..1, 1), Duration::ZERO);
        }
        assert_eq!((joins.evicted, joins.waiting()), (1, WAITING_MAX as u64));
        assert_eq!(joined(&store).len(), 1);
    }

    #[test]
    fn flows_by_the_names_of_another_tool_are_not_joined() {
        let store = Store::new();
        let add = || store.add("joined", "", JOINED_SCHEMA, TableLimits::default());
        assert!(Joins::new(&FLOWS[..5], Duration::ZERO, add).is_none());
        assert!(store.find("joined").is_none());
    }
}
