//! Prints what looking up indicators costs, with a million entries:
//! `cargo run --release -p wirelens-alerts --example look_up`.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use alerts::indicators::addresses::{Addresses, Prefix};
use alerts::indicators::names::Names;
use alerts::{Alerts, Clocks, IndicatorKind, IndicatorSettings, Lists, Options, Settings};
use engine::columns::{Columns, Field, Kind, Schema, Value};
use packet::{HashSeed, Timestamp};
use store::{Store, TableLimits};

const ENTRIES: u64 = 1_000_000;
const ROUNDS: u64 = 100;
const LOOK_UPS: u64 = 40_000;

/// Numbers without a pattern, the same each time.
fn random(seed: u64, at: u64) -> u64 {
    HashSeed::new(seed).hash_word(at)
}

fn v4(bits: u64) -> Ipv4Addr {
    Ipv4Addr::from((bits >> 32) as u32)
}

/// In one of 4,096 allocations of 32 bits below 2a00::/12, as addresses of a region are: their
/// first bits say little.
fn v6(bits: u64) -> Ipv6Addr {
    let allocation = 0x2a00_0000 | (bits >> 52) << 8;
    let high = allocation << 32 | (bits >> 20) & 0xffff_ffff;
    Ipv6Addr::from((u128::from(high) << 64) | u128::from(bits.rotate_left(17)))
}

/// The quickest of many short rounds: other programs slow the rest down.
fn measure(name: &str, look_up: impl Fn(u64) -> bool) {
    let (mut found, mut best) = (0, f64::MAX);
    for round in 0..ROUNDS {
        let asked = round * LOOK_UPS..(round + 1) * LOOK_UPS;
        let began = Instant::now();
        found += asked.filter(|&at| black_box(look_up(black_box(at)))).count();
        best = best.min(began.elapsed().as_nanos() as f64 / LOOK_UPS as f64);
    }
    println!("{name:40} {best:7.1} ns a look-up, {found} of {} found", ROUNDS * LOOK_UPS);
}

fn addresses(name: &str, entry: impl Fn(u64) -> Prefix, asked: impl Fn(u64) -> IpAddr) {
    let began = Instant::now();
    let set = Addresses::new((0..ENTRIES).map(|at| entry(random(1, at))));
    let megabytes = set.byte_count() as f64 / 1e6;
    println!("{name}: built in {:?}, {megabytes:.1} MB", began.elapsed());
    // Half of the look-ups are of entries.
    let half = |at: u64| if at.is_multiple_of(2) { random(1, at % ENTRIES) } else { random(2, at) };
    measure(name, |at| set.find(asked(half(at))).is_some());
}

fn main() {
    addresses("IPv4 addresses", |bits| v4(bits).into(), |bits| v4(bits).into());
    addresses("IPv6 addresses", |bits| v6(bits).into(), |bits| v6(bits).into());
    let text = |bits: u64| format!("{}/{}", v4(bits), 12 + bits % 21);
    addresses("IPv4 prefixes", |bits| Prefix::parse(&text(bits)).unwrap(), |bits| v4(bits).into());
    let domain = |bits: u64| format!("{:x}.{:x}.example", bits >> 24, bits & 0xff_ffff);
    let names: Vec<_> = (0..ENTRIES).map(|at| domain(random(1, at))).collect();
    let began = Instant::now();
    let set = Names::new(names.iter().map(String::as_str));
    let megabytes = set.byte_count() as f64 / 1e6;
    println!("domain names: built in {:?}, {megabytes:.1} MB", began.elapsed());
    let asked: Vec<_> =
        (0..1 << 16).map(|at| format!("www.{}", domain(random(1 + (at % 2), at)))).collect();
    measure("domain names of 4 labels", |at| {
        set.find_domain(&asked[at as usize % asked.len()]).is_some()
    });
    measure("texts, such as fingerprints", |at| {
        set.find(&names[(at * 7_919 % ENTRIES) as usize]).is_some()
    });
    whole_file();
}

/// A list as it is used: a file, and look-ups of text, as rows have it.
fn whole_file() {
    let path = std::env::temp_dir().join(format!("wirelens-look-up-{}", std::process::id()));
    let mut text = String::new();
    (0..ENTRIES).for_each(|at| writeln!(text, "{}", v4(random(1, at))).unwrap());
    std::fs::write(&path, text).unwrap();
    let settings: IndicatorSettings = IndicatorSettings {
        name: "list".into(),
        file: path.clone(),
        kind: IndicatorKind::Ip,
        columns: None,
        tables: None,
        entries_max: None,
        resolve_after: None,
        labels: Default::default(),
    };
    let began = Instant::now();
    let lists = Lists::open(std::slice::from_ref(&settings)).unwrap();
    println!("a file of a million addresses: read in {:?}", began.elapsed());
    measure("addresses through the lists, in use", |at| {
        lists.with_address(v4(random(3, at)).into()) != 0
    });
    rows(settings);
    std::fs::remove_file(path).unwrap();
}

const FLOWS: Schema = &[
    Field::new("community_id", Kind::Text, ""),
    Field::new("src_ip", Kind::Text, ""),
    Field::new("dst_ip", Kind::Text, ""),
    Field::new("last_ns", Kind::TimestampNs, ""),
    Field::new("bytes", Kind::U64, ""),
];

/// Rows as a run has them, two addresses each, of which none is in the list.
fn rows(list: IndicatorSettings) {
    fn monotonic() -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
    let row_count = 190_000;
    let best = (0..5).map(|_| {
        let store = Store::new();
        let table = store.add("flows", "", FLOWS, TableLimits::default());
        let mut rows = Columns::new(FLOWS);
        for at in 0..row_count {
            let addresses = [1, 2].map(|way| v4(random(4 + way, at)).to_string());
            let [src, dst] = addresses.each_ref().map(|text| Value::Str(text));
            let id = Value::Str("1:d2lyZWxlbnMgaXMgaGVyZSEh=");
            rows.push_row(&[id, src, dst, Value::TimestampNs(0), Value::U64(at)]).unwrap();
        }
        table.push(&rows);
        let settings = Settings { indicators: vec![list.clone()], ..Settings::default() };
        let clocks = Clocks { monotonic, realtime: || Timestamp::UNKNOWN };
        let (host_name, page, lists) = (String::new(), None, None);
        let options = Options { is_live: false, host_name, page, lists, clocks, eve: |_| None };
        let mut alerts = Alerts::begin(&settings, options, store).unwrap();
        // The list is loaded; what is measured begins with its thread.
        let began = Instant::now();
        alerts.end(Duration::ZERO);
        began.elapsed().as_nanos() as f64 / row_count as f64
    });
    let best = best.fold(f64::MAX, f64::min);
    println!("rows with two addresses: {best:.0} ns a row, so that 5 % of a core look at");
    println!("{:.0} rows in a second", 0.05e9 / best);
}
