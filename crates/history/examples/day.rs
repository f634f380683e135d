//! Measures queries over a day of flows: `day FOLDER [ROWS]` makes the rows where the folder has
//! none, and prints how long each query took.

#![allow(clippy::print_stdout, clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use engine::columns::{Columns, Field, Kind, Schema, Value};
use history::{Ask, History, HistoryOptions};
use store::query::{
    Aggregate, Filter, GroupsQuery, Measure, Order, OrderBy, RowsQuery, SeriesQuery, TimeRange,
};
use store::{RowChunk, Store, Table, TableLimits};

const DAY_NS: i64 = 86_400_000_000_000;
const START_NS: i64 = 1_764_028_800_000_000_000;
const ROWS_PER_PUSH: u64 = 1_000;

const fn count(name: &'static str) -> Field {
    Field::new(name, Kind::U64, "")
}

const fn text(name: &'static str) -> Field {
    Field::new(name, Kind::Text, "")
}

const SCHEMA: Schema = &[
    text("community_id"),
    text("protocol"),
    text("src_ip"),
    Field::new("src_port", Kind::U16, ""),
    text("dst_ip"),
    Field::new("dst_port", Kind::U16, ""),
    Field::new("first_ns", Kind::TimestampNs, "").nullable(),
    Field::new("last_ns", Kind::TimestampNs, "").nullable(),
    count("src_packets"),
    count("src_bytes"),
    count("dst_packets"),
    count("dst_bytes"),
    text("end_reason"),
    text("app_protocol").nullable(),
    text("server_name").nullable(),
];

/// The same with each call: a generator of good enough numbers.
struct Random(u64);

impl Random {
    const fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn push(rows: &mut Columns, random: &mut Random, at: i64) {
    const PORTS: [u16; 8] = [443, 443, 443, 53, 80, 22, 123, 8_080];
    const NAMES: [&str; 4] = ["tls", "quic", "dns", "http"];
    let is_scan = random.below(10) == 0;
    let port = if is_scan {
        u16::try_from(random.below(65_536)).unwrap()
    } else {
        PORTS[usize::try_from(random.below(8)).unwrap()]
    };
    let host = random.below(5_000);
    let source = format!("10.{}.{}.{}", host / 65_536, host / 256 % 256, host % 256);
    let server = random.below(200_000);
    let target = format!("198.{}.{}.{}", server / 65_536, server / 256 % 256, server % 256);
    let id = format!("1:{:016x}{:011x}=", random.below(u64::MAX), random.below(1 << 44));
    let name = (!is_scan).then(|| NAMES[usize::try_from(random.below(4)).unwrap()]);
    let server_name = format!("host{}.example.net", server % 3_000);
    let values = [
        Value::Str(&id),
        Value::Str(if port == 53 { "udp" } else { "tcp" }),
        Value::Str(&source),
        Value::U16(u16::try_from(1_024 + random.below(60_000)).unwrap()),
        Value::Str(&target),
        Value::U16(port),
        Value::TimestampNs(at - i64::try_from(random.below(60_000_000_000)).unwrap()),
        Value::TimestampNs(at),
        Value::U64(random.below(500)),
        Value::U64(random.below(500_000)),
        Value::U64(random.below(900)),
        Value::U64(random.below(5_000_000)),
        Value::Str("idle"),
        name.map(Value::Str).into(),
        name.filter(|name| *name == "tls").map(|_| Value::Str(&server_name)).into(),
    ];
    rows.push_row(&values).unwrap();
}

/// A day of rows, flushed once a minute as a run does.
fn make(history: &History, table: &Table, row_count: u64) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut minute = 0;
    let (mut flushing, mut longest) = (Duration::ZERO, Duration::ZERO);
    for start in (0..row_count).step_by(usize::try_from(ROWS_PER_PUSH).unwrap()) {
        let mut rows = Columns::new(SCHEMA);
        for number in start..start + ROWS_PER_PUSH {
            let share = i128::from(number) * i128::from(DAY_NS) / i128::from(row_count);
            push(&mut rows, &mut random, START_NS + i64::try_from(share).unwrap());
        }
        table.push(&rows);
        let now = start * 1_440 / row_count;
        if now > minute {
            minute = now;
            let begun = Instant::now();
            history.flush();
            flushing += begun.elapsed();
            longest = longest.max(begun.elapsed());
        }
    }
    println!("flushing: {flushing:.2?} in all, {longest:.2?} the longest");
}

/// CPU time of this process so far, as Linux counts it: in steps of 10 ms.
fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let of = |at: usize| stat.split(' ').nth(at).and_then(|text| text.parse::<u64>().ok());
    (of(13).unwrap_or(0) + of(14).unwrap_or(0)) * 10
}

fn timed<T>(what: &str, mut run: impl FnMut() -> T, say: impl Fn(&T) -> String) {
    for turn in ["first", "again"] {
        let (begun, cpu) = (Instant::now(), cpu_ms());
        let found = run();
        let (taken, cpu) = (begun.elapsed(), cpu_ms() - cpu);
        println!("{what} ({turn}): {taken:.2?}, {cpu} ms CPU; {}", say(&found));
    }
}

fn measure(name: &str) -> Measure {
    Measure::find(SCHEMA, name).unwrap()
}

fn groups(schema: Schema, range: TimeRange) -> GroupsQuery {
    let of = |name| (Aggregate::Sum, Measure::find(schema, name).unwrap());
    GroupsQuery {
        filter: Filter::all(),
        range,
        by: vec![Measure::find(schema, "dst_port").unwrap()],
        aggregates: vec![of("src_bytes"), of("dst_bytes")],
        order: (OrderBy::Aggregate(1), true),
        offset: 0,
        limit: 20,
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "day".to_owned()));
    let row_count = arguments.next().map_or(5_000_000, |text| text.parse().unwrap());
    let store = Store::new();
    let table = store.add("flows", "", SCHEMA, TableLimits::default());
    let week = packet::Span::from_seconds(7 * 86_400);
    let mut options = HistoryOptions::new(folder, week, 2 << 30, || START_NS + DAY_NS);
    options.flush_every = Duration::from_secs(3_600);
    let begun = Instant::now();
    let history = History::begin(options, store).unwrap();
    println!("begun in {:.0?}", begun.elapsed());
    if history.state().file_count == 0 {
        make(&history, &table, row_count);
        let state = history.end();
        println!("{} files, {} bytes, missed {}", state.file_count, state.byte_count, state.missed);
    }
    let range = TimeRange { from_ns: Some(START_NS), to_ns: Some(START_NS + DAY_NS) };
    let rows = |filter: &str, order: &str| RowsQuery {
        filter: if filter.is_empty() {
            Filter::all()
        } else {
            Filter::new(filter, SCHEMA).unwrap()
        },
        range,
        order: Order::read(order, SCHEMA).unwrap(),
        offset: 0,
        limit: 100,
    };
    for (filter, order) in [
        ("src_ip == 10.0.3.7 and dst_port == 443", ""),
        ("dst_bytes > 4900k and app_protocol == tls", "-dst_bytes"),
        ("", ""),
        ("", "-dst_bytes"),
        ("host77.example", ""),
    ] {
        let query = rows(filter, order);
        let what = format!("rows {filter:?} by {order:?}");
        let say = |rows: &store::query::Rows| format!("{} of {}", rows.matched, rows.searched);
        timed(&what, || history.rows(&table, &query), say);
    }
    let query = groups(SCHEMA, range);
    let say = |groups: &store::query::Groups| format!("{} of {}", groups.matched, groups.searched);
    timed("groups by dst_port", || history.groups(&table, &query), say);
    let query = SeriesQuery {
        filter: Filter::all(),
        range,
        value: Some(measure("bytes")),
        aggregate: Aggregate::Sum,
        by: Some(measure("app_protocol")),
        series_count: 5,
        step_ns: None,
    };
    let say = |series: &store::query::Series| format!("{} steps", series.times.len());
    timed("series by app_protocol", || history.series(&table, &query), say);
    let (name, schema) = history.sums_with(&table, &["dst_port", "dst_bytes"]).unwrap();
    let query = groups(schema, range);
    let filter = Filter::all();
    let ask = || Ask { range, filter: &filter, columns: None };
    let run = || query.run(&history.sums(&table, &name, &ask()).unwrap().chunks, schema);
    timed("groups by dst_port of minutes", run, |groups| {
        format!("{} of {}", groups.matched, groups.searched)
    });
    let read = || history.chunks(&table, &Ask { columns: Some(vec![5, 9, 11]), ..ask() });
    timed("reading three columns", read, |found| {
        let bytes = found.chunks.iter().map(RowChunk::columns).map(Columns::byte_count);
        format!("{} bytes", bytes.sum::<usize>())
    });
}
