//! A store with hand-made rows of every table, as a run would have them at a moment.

use std::sync::Arc;

use engine::columns::{Columns, Field, Kind, Schema, Value};
use store::{Count, Store, TableLimits};

const START_NS: i64 = 1_780_000_000_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// A name that a terminal would obey, and one that reads from right to left.
const HOSTILE: &str = "evil\x1b[2J\u{202e}moc.\u{9b}31m\r\nexample";

const fn text(name: &'static str) -> Field {
    Field::new(name, Kind::Text, "").nullable()
}
const fn number(name: &'static str) -> Field {
    Field::new(name, Kind::U64, "").nullable()
}
const fn port(name: &'static str) -> Field {
    Field::new(name, Kind::U16, "").nullable()
}
const fn float(name: &'static str) -> Field {
    Field::new(name, Kind::F64, "").nullable()
}
const fn time(name: &'static str) -> Field {
    Field::new(name, Kind::TimestampNs, "").nullable()
}

const TRAFFIC: Schema = &[
    time("start_ns"),
    number("period_ns"),
    number("packets"),
    number("bytes"),
    number("new_flows"),
    number("ended_flows"),
    number("dropped_packets"),
];

const FLOWS: Schema = &[
    text("community_id"),
    text("protocol"),
    text("src_ip"),
    port("src_port"),
    text("dst_ip"),
    port("dst_port"),
    time("first_ns"),
    time("last_ns"),
    number("src_packets"),
    number("src_bytes"),
    number("dst_packets"),
    number("dst_bytes"),
    text("end_reason"),
    port("vlan"),
    text("app_protocol"),
    text("server_name"),
];

const CLASSIFY: Schema = &[
    text("community_id"),
    text("src_ip"),
    port("src_port"),
    text("dst_ip"),
    port("dst_port"),
    text("label"),
    float("confidence"),
    time("decided_ns"),
];

const DEVICES: Schema = &[
    text("host"),
    text("label"),
    float("confidence"),
    text("guess"),
    number("flow_count"),
    time("decided_ns"),
    text("model"),
];

const CCA: Schema = &[
    time("start_ns"),
    number("period_ns"),
    text("community_id"),
    text("src_ip"),
    port("src_port"),
    text("dst_ip"),
    port("dst_port"),
    float("cbiq_bytes"),
    float("queue_share"),
    float("drops"),
    number("ingress_bytes"),
    float("delay_max_s"),
    text("control"),
    float("confidence"),
    text("unnamed"),
    text("missing"),
];

const CCA_ONE_TAP: Schema = &[
    time("start_ns"),
    number("period_ns"),
    text("community_id"),
    text("src_ip"),
    port("src_port"),
    text("dst_ip"),
    port("dst_port"),
    float("flight_bytes"),
    number("sent_bytes"),
    float("drops"),
    float("rtt_s"),
    float("rtt_min_s"),
    float("rtt_inflation_s"),
    text("control"),
    float("confidence"),
    text("likeliest"),
    text("unnamed"),
];

const TOP: Schema = &[time("window_start_ns"), text("name"), number("packets"), number("bytes")];

const LATENCY: Schema = &[
    text("community_id"),
    text("protocol"),
    text("src_ip"),
    port("src_port"),
    text("dst_ip"),
    port("dst_port"),
    time("first_ns"),
    time("last_ns"),
    number("rtt_min_ns"),
    text("slow_end"),
    number("dst_rtt_p50_ns"),
    number("dst_rtt_p99_ns"),
    number("src_rtt_p50_ns"),
    number("server_p50_ns"),
];

const DESTINATIONS: Schema =
    &[time("start_ns"), text("dst_ip"), number("rtt_p50_ns"), number("rtt_p99_ns")];

const L4S: Schema = &[
    time("start_ns"),
    number("period_ns"),
    text("community_id"),
    text("src_ip"),
    port("src_port"),
    text("dst_ip"),
    port("dst_port"),
    number("packets"),
    number("l4s_packets"),
    float("remark_share"),
    number("l4s_p50_ns"),
    number("classic_p50_ns"),
    number("l4s_p99_ns"),
];

const HOSTS: [&str; 6] = [
    "192.0.2.1",
    "192.0.2.77",
    "198.51.100.200",
    "2001:db8:85a3::8a2e:370:7334",
    "203.0.113.9",
    "10.1.2.3",
];
const NAMES: [&str; 5] = ["example.com", HOSTILE, "東京.example", "", "video.example.net"];
const LABELS: [&str; 4] = ["youtube", "zoom", "unknown", HOSTILE];

fn pick<T: Copy>(of: &[T], at: u64) -> T {
    of[at as usize % of.len()]
}

fn rows(schema: Schema, rows: impl Iterator<Item = Vec<Value<'static>>>) -> Columns {
    let mut columns = Columns::new(schema);
    for row in rows {
        columns.push_row(&row).expect("a row has the columns of its table");
    }
    columns
}

fn id(at: u64) -> Value<'static> {
    // The few IDs of a test may stay.
    Value::Str(Box::leak(format!("1:{at:027}=").into_boxed_str()))
}

/// Address and port of both ends.
fn ends(at: u64) -> [Value<'static>; 4] {
    [
        Value::Str(pick(&HOSTS, at)),
        Value::U16(40_000 + (at % 20_000) as u16),
        Value::Str(pick(&HOSTS, at / 2 + 1)),
        Value::U16(pick(&[443, 53, 80], at)),
    ]
}

/// Flows as they are after so many ticks.
pub fn flows(range: std::ops::Range<u64>, tick: u64, reason: &'static str) -> Columns {
    let row = |at: u64| {
        let grown = at * at * 1_000 * (1 + tick);
        let name = pick(&NAMES, at);
        let mut row = vec![id(at), Value::Str(pick(&["tcp", "udp"], at))];
        row.extend(ends(at));
        row.extend([
            Value::TimestampNs(START_NS + at as i64 * SECOND),
            Value::TimestampNs(START_NS + (at + tick + 3) as i64 * SECOND),
            Value::U64(10 + at + tick),
            Value::U64(grown),
            Value::U64(20 + at + tick),
            Value::U64(grown * 3),
            Value::Str(reason),
            if at.is_multiple_of(3) { Value::U16(7) } else { Value::Null },
            Value::Str(pick(&["tls", "quic", "dns"], at)),
            if name.is_empty() { Value::Null } else { Value::Str(name) },
        ]);
        row
    };
    rows(FLOWS, range.map(row))
}

fn classify() -> Columns {
    let row = |at: u64| {
        let mut row = vec![id(at)];
        row.extend(ends(at));
        let label = pick(&LABELS, at);
        row.extend([Value::Str(label), Value::F64(0.9), Value::TimestampNs(START_NS)]);
        row
    };
    rows(CLASSIFY, (0..40).map(row))
}

fn devices() -> Columns {
    let row = |at: u64| {
        vec![
            Value::Str(pick(&HOSTS, at)),
            Value::Str(pick(&["camera", "phone", HOSTILE], at)),
            Value::F64(0.75),
            Value::Str("camera"),
            Value::U64(at + 1),
            Value::TimestampNs(START_NS + at as i64),
            Value::Str("devices 0123abcd"),
        ]
    };
    rows(DEVICES, (0..9).map(row))
}

fn control(at: u64) -> [Value<'static>; 3] {
    match at % 3 {
        0 => [Value::Str("bbr"), Value::F64(0.97), Value::Null],
        1 => [Value::Str("cubic"), Value::F64(0.83), Value::Null],
        _ => [Value::Null, Value::Null, Value::Str("short")],
    }
}

fn start(period: u64) -> [Value<'static>; 2] {
    [Value::TimestampNs(START_NS + period as i64 * SECOND), Value::U64(SECOND as u64)]
}

/// Periods of six flows in a queue.
pub fn cca(periods: std::ops::Range<u64>) -> Columns {
    let row = |(period, at): (u64, u64)| {
        let mut row = Vec::from(start(period));
        row.push(id(at));
        row.extend(ends(at));
        let cbiq = (at + 1) as f64 * 1_000.0 * ((period % 20) + 1) as f64;
        row.extend([
            Value::F64(cbiq),
            Value::F64((at + 1) as f64 / 21.0),
            Value::F64(at as f64),
            Value::U64(125_000 * (at + 1)),
            Value::F64(0.012),
        ]);
        row.extend(control(at));
        row.push(Value::Null);
        row
    };
    rows(CCA, periods.flat_map(|period| (0..6).map(move |at| (period, at))).map(row))
}

fn cca_one_tap() -> Columns {
    let row = |(period, at): (u64, u64)| {
        let mut row = Vec::from(start(period));
        row.push(id(at));
        row.extend(ends(at));
        row.extend([
            Value::F64((at + 1) as f64 * 14_480.0),
            Value::U64(250_000),
            Value::F64(0.0),
            Value::F64(0.0234),
            Value::F64(0.02),
            Value::F64(0.0034),
        ]);
        let [name, confidence, unnamed] = control(at);
        row.extend([name, confidence, Value::Str("bbr 0.97, vegas 0.01"), unnamed]);
        row
    };
    rows(CCA_ONE_TAP, (0..30).flat_map(|period| (0..4).map(move |at| (period, at))).map(row))
}

fn latency() -> Columns {
    let row = |at: u64| {
        let mut row = vec![id(at), Value::Str("tcp")];
        row.extend(ends(at));
        row.extend([
            Value::TimestampNs(START_NS),
            Value::TimestampNs(START_NS + SECOND),
            Value::U64(12_000_000 + at * 1_000),
            Value::Str(pick(&["server", "source", "none"], at)),
            Value::U64(20_000_000 + at * 100_000),
            Value::U64(90_000_000),
            Value::U64(450_000),
            if at.is_multiple_of(2) { Value::Null } else { Value::U64(3_000_000) },
        ]);
        row
    };
    rows(LATENCY, (0..25).map(row))
}

/// Periods without their length.
fn destinations() -> Columns {
    let row = |(period, at): (u64, u64)| {
        let rtt_ns = 10_000_000 * (1 + (period + at) % 9);
        let start = Value::TimestampNs(START_NS + period as i64 * 5 * SECOND);
        vec![start, Value::Str(pick(&HOSTS, at)), Value::U64(rtt_ns), Value::U64(3 * rtt_ns)]
    };
    rows(DESTINATIONS, (0..30).flat_map(|period| (0..6).map(move |at| (period, at))).map(row))
}

fn l4s() -> Columns {
    let row = |(period, at): (u64, u64)| {
        let mut row = Vec::from(start(period));
        row.push(id(at));
        row.extend(ends(at));
        row.extend([
            Value::U64(1_000),
            Value::U64(900),
            Value::F64(period as f64 / 100.0),
            Value::U64(800_000),
            Value::U64(15_000_000),
            Value::U64(2_100_000),
        ]);
        row
    };
    rows(L4S, (0..20).flat_map(|period| (0..3).map(move |at| (period, at))).map(row))
}

/// Two windows of a ranking.
fn top() -> Columns {
    let row = |at: u64| {
        vec![
            Value::TimestampNs(START_NS + (at / 5) as i64 * SECOND),
            Value::Str(pick(&NAMES, at)),
            Value::U64(at + 1),
            Value::U64((10 - at) * 1_500),
        ]
    };
    rows(TOP, (0..10).map(row))
}

/// Traffic of some seconds.
pub fn traffic(periods: std::ops::Range<u64>) -> Columns {
    let row = |period: u64| {
        let mut row = Vec::from(start(period));
        let wave = 1 + period % 17;
        row.extend([wave * 1_000, wave * 800_000, 3, 2, u64::from(period == 5)].map(Value::U64));
        row
    };
    rows(TRAFFIC, periods.map(row))
}

/// A store with every table.
pub fn full() -> Arc<Store> {
    let store = Store::new();
    let add = |name: &str, schema: Schema, columns: &Columns| {
        let table = store.add(name, "", schema, TableLimits::default());
        table.push(columns);
        table
    };
    add("traffic", TRAFFIC, &traffic(0..60));
    add("flows", FLOWS, &flows(0..30, 0, "fin"));
    add("classify", CLASSIFY, &classify());
    add("classify", DEVICES, &devices());
    add("cca", CCA, &cca(0..40));
    add("cca", CCA_ONE_TAP, &cca_one_tap());
    add("latency", LATENCY, &latency());
    add("latency", DESTINATIONS, &destinations());
    add("l4s", L4S, &l4s());
    add("top", TOP, &top());
    let counts = vec![
        Count::total("packets", "", 123_456),
        Count::total("packets_malformed", "", 3).with("cause", HOSTILE),
        Count::total("rows_dropped", "", 0),
    ];
    store.put_counts("flows", 0, counts);
    tick(&store, 0);
    store
}

/// Moves event time and the flows that are open.
pub fn tick(store: &Store, tick: u64) {
    if let Some(table) = store.find("flows") {
        table.put_open(0, 0, 10, Box::new(move || flows(30..40, tick, "open")));
    }
    store.put_time(START_NS + (60 + tick as i64) * SECOND);
}
