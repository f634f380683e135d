//! From rows in a store to alerts that were delivered.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use alerts::{Alerts, BeginError, Clocks, Options, Settings};
use engine::columns::{Columns, Field, Kind, Schema, Value};
use packet::Timestamp;
use store::query::{Cell, cell};
use store::{Count, Store, Table, TableLimits};

const FLOWS: Schema = &[
    Field::new("community_id", Kind::Text, ""),
    Field::new("src_ip", Kind::Text, ""),
    Field::new("dst_ip", Kind::Text, ""),
    Field::new("last_ns", Kind::TimestampNs, "").nullable(),
    Field::new("server_name", Kind::Text, "").nullable(),
    Field::new("bytes", Kind::U64, ""),
];

const SECOND: i64 = 1_000_000_000;

fn monotonic() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

fn options(is_live: bool) -> Options {
    let clocks = Clocks { monotonic, realtime: || Timestamp::from_ns(2_000 * SECOND) };
    let (host_name, eve) = ("sensor-1".into(), |_: &alerts::Alert| None);
    Options { is_live, host_name, page: None, lists: None, clocks, eve }
}

fn settings(text: &str) -> Settings {
    toml::from_str(text).unwrap()
}

fn begin(text: &str, options: Options, store: &Arc<Store>) -> Alerts {
    Alerts::begin(&settings(text), options, Arc::clone(store))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn flow(id: u64, dst: &str, second: i64, name: Option<&str>, bytes: u64) -> Columns {
    let mut rows = Columns::new(FLOWS);
    let id = format!("1:{id}");
    let row = [
        Value::Str(&id),
        Value::Str("10.0.0.1"),
        Value::Str(dst),
        Value::TimestampNs(second * SECOND),
        name.map(Value::Str).into(),
        Value::U64(bytes),
    ];
    rows.push_row(&row).unwrap();
    rows
}

fn flows(store: &Store) -> Arc<Table> {
    store.add("flows", "", FLOWS, TableLimits::default())
}

/// A column of the table of alerts.
fn told(store: &Store, column: &str) -> Vec<String> {
    let table = store.find("alerts").unwrap();
    let place = table.schema().iter().position(|field| field.name == column).unwrap();
    let view = table.view();
    let mut found = Vec::new();
    for rows in view.final_rows() {
        found.extend((0..rows.row_count()).map(|row| match cell(rows, place, row) {
            Cell::Text(text) => text.to_owned(),
            Cell::Time(ns) => ns.to_string(),
            other => format!("{other:?}"),
        }));
    }
    found
}

fn wait_until(what: &str, mut is_done: impl FnMut() -> bool) {
    let began = monotonic();
    while !is_done() {
        assert!(monotonic() - began < Duration::from_secs(20), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("wirelens-alerts-{}-{name}", std::process::id()))
}

fn count(store: &Store, name: &str) -> f64 {
    let counts = store.counts();
    let (_, counts) = counts.iter().find(|(name, _)| *name == "alerts").unwrap();
    counts.iter().filter(|count| count.name == name).map(|count| count.value).sum()
}

const RULE: &str = "
    [[alert]]
    name = 'large'
    table = 'flows'
    when = 'bytes > 1M'
    value = 'bytes'
    labels = { severity = 'critical' }
";

#[test]
fn an_alert_is_delivered_within_two_seconds() {
    let store = Store::new();
    let table = flows(&store);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let http = TcpListener::bind("127.0.0.1:0").unwrap();
    let log = path("two-seconds.jsonl");
    let text = format!(
        "{RULE}
        [[notify]]
        kind = 'syslog'
        to = 'udp://{}'
        [[notify]]
        kind = 'syslog'
        to = 'tcp://{}'
        [[notify]]
        kind = 'webhook'
        to = 'http://{}/'
        [[notify]]
        kind = 'jsonl'
        to = '{}'",
        udp.local_addr().unwrap(),
        tcp.local_addr().unwrap(),
        http.local_addr().unwrap(),
        log.display()
    );
    let (sender, receiver) = channel();
    let arrived = |what: &'static str| {
        let sender = sender.clone();
        move || sender.send((what, monotonic())).unwrap()
    };
    let [on_udp, on_tcp, on_http] = ["udp", "tcp", "http"].map(arrived);
    thread::spawn(move || {
        udp.recv(&mut [0; 4_096]).unwrap();
        on_udp();
    });
    thread::spawn(move || {
        tcp.accept().unwrap().0.read_exact(&mut [0; 100]).unwrap();
        on_tcp();
    });
    thread::spawn(move || {
        let (mut stream, _) = http.accept().unwrap();
        stream.read_exact(&mut [0; 200]).unwrap();
        on_http();
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    });
    let mut alerts = begin(&text, options(true), &store);
    thread::sleep(Duration::from_millis(250));
    let pushed = monotonic();
    table.push(&flow(1, "192.0.2.1", 1, None, 2_000_000));
    for _ in 0..3 {
        let (what, at) = receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        let took = at - pushed;
        println!("{what}: {took:?}");
        assert!(took < Duration::from_secs(2), "{what}: {took:?}");
    }
    alerts.end(Duration::from_secs(5));
    let states = alerts.notify_states();
    assert!(states.iter().all(|state| state.delivered == 1), "{states:?}");
    assert!(fs::read_to_string(&log).unwrap().contains("\"name\":\"large\""));
    assert_eq!(told(&store, "name"), ["large"]);
    assert_eq!(told(&store, "community_id"), ["1:1"]);
    assert_eq!((count(&store, "fired"), count(&store, "notify_delivered")), (1.0, 4.0));
    fs::remove_file(log).unwrap();
}

#[test]
fn captures_give_the_same_alerts_however_often_one_looks() {
    let text = "
        [[alert]]
        name = 'many'
        table = 'flows'
        above = 2
        over = '10s'
        key = ['dst_ip']
        resolve-after = '20s'
    ";
    let run = |pause: Duration| {
        let store = Store::new();
        let table = flows(&store);
        let mut alerts = begin(text, options(false), &store);
        for second in 0..300_i64 {
            let (dst, at) = (if second % 90 < 12 { "192.0.2.1" } else { "192.0.2.2" }, second * 4);
            table.push(&flow(1, dst, if second % 90 < 12 { at / 4 * 3 } else { at }, None, 1));
            if second % 7 == 0 {
                thread::sleep(pause);
            }
        }
        alerts.end(Duration::from_secs(5));
        let columns = ["time_ns", "state", "host", "labels"].map(|column| told(&store, column));
        let mut rows: Vec<_> =
            (0..columns[0].len()).map(|row| columns.each_ref().map(|c| c[row].clone())).collect();
        rows.sort();
        rows
    };
    let quick = run(Duration::ZERO);
    assert_eq!(quick, run(Duration::from_millis(5)));
    assert!(!quick.is_empty());
}

#[test]
fn an_alert_is_resolved_as_event_time_goes_on_without_rows() {
    let store = Store::new();
    let table = flows(&store);
    let alerts = begin(RULE, options(true), &store);
    store.put_time(100 * SECOND);
    table.push(&flow(1, "192.0.2.1", 99, None, 2_000_000));
    wait_until("it fires", || told(&store, "state") == ["firing"]);
    let asked = store.asked();
    wait_until("it asks how far time has come", || store.asked() > asked);
    store.put_time(159 * SECOND);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(told(&store, "state").len(), 1);
    store.put_time(161 * SECOND);
    wait_until("it is resolved", || told(&store, "state") == ["firing", "resolved"]);
    assert_eq!(told(&store, "time_ns")[1], (160 * SECOND).to_string());
    assert_eq!(count(&store, "active"), 0.0);
    drop(alerts);
}

#[test]
fn an_alert_is_resolved_where_time_was_hours_ahead() {
    let store = Store::new();
    let table = flows(&store);
    store.allow_epochs();
    let alerts = begin(RULE, options(true), &store);
    let ahead = 3 * 3_600;
    store.put_time(ahead * SECOND);
    table.push(&flow(1, "192.0.2.1", ahead, None, 2_000_000));
    wait_until("it fires", || told(&store, "state") == ["firing"]);
    store.put_time(100 * SECOND);
    store.put_time(101 * SECOND);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(told(&store, "state").len(), 1);
    store.put_time(162 * SECOND);
    wait_until("it is resolved", || told(&store, "state") == ["firing", "resolved"]);
    assert_eq!(told(&store, "time_ns")[1], (161 * SECOND).to_string());
    drop(alerts);
}

#[test]
fn a_flow_that_goes_on_meets_an_indicator() {
    let store = Store::new();
    let table = flows(&store);
    let list = path("c2.txt");
    fs::write(&list, "192.0.2.0/24\nbad line\n").unwrap();
    let text = format!(
        "[[indicators]]\nname = 'c2'\nkind = 'ip'\nfile = '{}'\nlabels = {{ feed = 'x' }}",
        list.display()
    );
    let alerts = begin(&text, options(true), &store);
    let pushed = monotonic();
    table.put_open(0, 0, 1, Box::new(|| flow(7, "192.0.2.9", 5, None, 10)));
    wait_until("it fires", || !told(&store, "name").is_empty());
    assert!(monotonic() - pushed < Duration::from_secs(2));
    table.end_open(0, 0);
    table.push(&flow(7, "192.0.2.9", 6, None, 99));
    wait_until("the final row counts", || count(&store, "indicator_hits") == 1.0);
    assert_eq!(told(&store, "name"), ["c2"], "the final row is the same alert");
    let text = &told(&store, "text")[0];
    assert_eq!(text, "192.0.2.0/24 in dst_ip 192.0.2.9: src_ip 10.0.0.1, dst_ip 192.0.2.9");
    assert!(told(&store, "labels")[0].contains("\"indicator\":\"192.0.2.0/24\""));
    assert_eq!(told(&store, "severity"), ["critical"]);
    let state = &alerts.list_states()[0];
    assert_eq!((state.account.bad_lines, state.account.bad_shown[0].0), (1, 2));
    fs::remove_file(list).unwrap();
}

#[test]
fn a_list_is_reloaded_while_rows_come_and_none_is_lost() {
    let store = Store::new();
    let table = flows(&store);
    let list = path("names.txt");
    let write = |path: &Path, round: usize| {
        let more: String = (0..20_000 + round).map(|at| format!("d{at}.example\n")).collect();
        fs::write(path, format!("evil.example\n{more}")).unwrap();
    };
    write(&list, 0);
    let text =
        format!("[[indicators]]\nname = 'names'\nkind = 'domain'\nfile = '{}'", list.display());
    let mut alerts = begin(&text, options(true), &store);
    let mut pushed = 0_u32;
    for round in 1..4 {
        write(&list, round);
        alerts.lists().reload();
        wait_until("it is reloaded", || {
            table.push(&flow(pushed.into(), "192.0.2.1", 1, Some("www.evil.example"), 1));
            pushed += 1;
            alerts.list_states()[0].reloads >= round as u64
        });
    }
    assert!(alerts.list_states()[0].account.entries > 20_000);
    alerts.end(Duration::ZERO);
    assert_eq!(count(&store, "indicator_hits"), f64::from(pushed));
    assert_eq!(count(&store, "rows_missed"), 0.0);
    fs::remove_file(list).unwrap();
}

#[test]
fn rows_that_were_evicted_before_are_counted() {
    let store = Store::new();
    let limits = TableLimits { row_count: 4_096, ..TableLimits::default() };
    let table = store.add("flows", "", FLOWS, limits);
    (0..20_000).for_each(|at| table.push(&flow(at, "192.0.2.1", 1, None, 1)));
    let mut alerts = begin(RULE, options(false), &store);
    let losses = alerts.end(Duration::ZERO);
    let (read, missed) = (count(&store, "rows_read"), count(&store, "rows_missed"));
    assert_eq!(read + missed, 20_000.0);
    assert!(missed > 10_000.0 && missed == table.state().evicted as f64, "{missed}");
    let wanted = format!("[[alert]] {missed} rows were evicted before rules checked them");
    assert!(losses.len() == 1 && losses[0].starts_with(&wanted), "{losses:?}");
}

#[test]
fn counters_are_a_table_for_rules() {
    let store = Store::new();
    let text = "
        [[alert]]
        name = 'capture drops'
        table = 'counts'
        when = 'application == capture and name == packets_dropped and increase > 0'
        key = ['application', 'name', 'labels']
        value = 'increase'
        text = '{increase} packets dropped'
    ";
    let put = |value| {
        store.put_counts("capture", 0, vec![Count::total("packets_dropped", "", value)]);
    };
    put(5);
    let alerts = begin(text, options(true), &store);
    thread::sleep(Duration::from_millis(1_300));
    assert_eq!(told(&store, "text").len(), 0);
    put(8);
    wait_until("it fires", || told(&store, "text") == ["3 packets dropped"]);
    drop(alerts);
}

#[test]
fn mistakes_and_files_that_are_missing_refuse_to_begin() {
    let store = Store::new();
    flows(&store);
    let text = "
        [[alert]]
        name = 'a'
        table = 'alerts'
        [[indicators]]
        name = 'b'
        file = '/nonexistent/list'
        kind = 'ip'
    ";
    let told = |text: &str| match Alerts::begin(&settings(text), options(true), store.clone()) {
        Err(error @ BeginError::Settings(_)) => error.to_string(),
        _ => panic!("{text}"),
    };
    assert!(told(text).contains("[[alert]] 1: table: no table \"alerts\"; this run has: flows"));
    let text = text.replace("'alerts'", "'flows'");
    assert!(told(&text).starts_with("[[indicators]] 1: file: /nonexistent/list: "));
    assert!(store.find("alerts").is_none(), "nothing has begun");
}

#[test]
fn a_test_alert_goes_to_each_destination() {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let text = format!(
        "[[notify]]\nkind = 'syslog'\nto = 'udp://{}'\nonly = {{ severity = 'page' }}\n\
         [[notify]]\nkind = 'webhook'\nname = 'hook'\nto = 'http://127.0.0.1:9/'",
        udp.local_addr().unwrap()
    );
    let notify = settings(&text).notify;
    let tested = Alerts::test(&notify, "sensor-1", None, options(true).clocks, |_| None);
    assert_eq!((tested[0].name.as_str(), tested[0].failure.as_ref()), ("syslog", None));
    assert_eq!(tested[1].name, "hook");
    assert!(tested[1].failure.is_some());
    let mut bytes = [0; 4_096];
    let len = udp.recv(&mut bytes).unwrap();
    assert!(String::from_utf8_lossy(&bytes[..len]).contains("name=\"wirelens-test\""));
}

#[test]
fn rules_are_replaced_while_those_that_stay_keep_their_alerts() {
    let store = Store::new();
    let table = flows(&store);
    let rule =
        |name: &str| format!("[[alert]]\nname = '{name}'\ntable = 'flows'\nwhen = 'bytes > 1M'\n");
    let alerts = begin(&(rule("stays") + &rule("goes")), options(true), &store);
    table.push(&flow(1, "192.0.2.1", 1, None, 2_000_000));
    wait_until("both fire", || told(&store, "name").len() == 2);
    let wrong = settings(&rule("new").replace("bytes", "octets"));
    assert_eq!(alerts.replace_rules(&wrong.alert).unwrap_err().len(), 1);
    alerts.replace_rules(&settings(&(rule("new") + &rule("stays"))).alert).unwrap();
    wait_until("one is resolved", || told(&store, "name").len() == 3);
    assert_eq!(
        (told(&store, "name")[2].as_str(), &*told(&store, "state")[2]),
        ("goes", "resolved")
    );
    table.push(&flow(1, "192.0.2.1", 2, None, 2_000_000));
    wait_until("the new one fires", || told(&store, "name").len() == 4);
    assert_eq!(told(&store, "name")[3], "new", "the one that stayed is active");
    drop(alerts);
}

#[test]
fn a_table_that_no_rule_read_is_read_from_now_on() {
    let store = Store::new();
    let table = flows(&store);
    let alerts = begin("", options(true), &store);
    table.push(&flow(1, "192.0.2.1", 1, None, 2_000_000));
    thread::sleep(Duration::from_millis(250));
    alerts.replace_rules(&settings(RULE).alert).unwrap();
    thread::sleep(Duration::from_millis(250));
    table.push(&flow(2, "192.0.2.1", 1, None, 2_000_000));
    wait_until("it fires", || !told(&store, "community_id").is_empty());
    assert_eq!(told(&store, "community_id"), ["1:2"]);
    drop(alerts);
}
