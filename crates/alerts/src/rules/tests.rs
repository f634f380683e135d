use engine::columns::{Field, Kind, Schema, Value};

use super::*;
use crate::settings::AlertSettings;

const SCHEMA: Schema = &[
    Field::new("time_ns", Kind::TimestampNs, ""),
    Field::new("src_ip", Kind::Text, ""),
    Field::new("label", Kind::Text, ""),
    Field::new("bytes", Kind::U64, "").nullable(),
];

fn settings(text: &str) -> AlertSettings {
    toml::from_str(&format!("name = 'rule'\ntable = 'flows'\n{text}")).unwrap()
}

fn rule(text: &str) -> Rule {
    Rule::bind(&settings(text), SCHEMA).unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

fn second(seconds: i64) -> Timestamp {
    Timestamp::from_ns(seconds * 1_000_000_000)
}

/// Looks at rows of (second, source, label, bytes), and says which alerts come.
fn look(rule: &mut Rule, rows: &[(i64, &str, &str, u64)]) -> Vec<Arc<Alert>> {
    let mut columns = Columns::new(SCHEMA);
    for (seconds, source, label, bytes) in rows {
        let time = Value::TimestampNs(second(*seconds).as_ns());
        let row = [time, Value::Str(source), Value::Str(label), Value::U64(*bytes)];
        columns.push_row(&row).unwrap();
    }
    let mut out = Vec::new();
    for (row, (seconds, ..)) in rows.iter().enumerate() {
        let at = At { now: second(*seconds), row: second(*seconds), is_open: false };
        rule.look(&columns, row, at, &mut out);
    }
    out
}

#[test]
fn each_key_of_matching_rows_fires() {
    let mut rule = rule(
        "when = 'bytes > 1k'\nvalue = 'bytes'\ntext = '{src_ip} sends {bytes}'\n\
         labels = { severity = 'critical', team = 'net' }\n\
         annotations = { runbook_url = 'https://wiki/{label}' }",
    );
    let out = look(
        &mut rule,
        &[(1, "a", "x", 10), (2, "a", "x", 2_000), (3, "a", "x", 3_000), (4, "b", "y", 5_000)],
    );
    let texts: Vec<_> = out.iter().map(|alert| alert.text.as_str()).collect();
    assert_eq!(texts, ["a sends 2000", "b sends 5000"]);
    assert_eq!(out[0].value, Some(2_000.0));
    assert_eq!(out[0].host.as_deref(), Some("a"));
    assert_eq!(out[1].annotations["runbook_url"], "https://wiki/y");
    let labels: Vec<_> = out[0].labels.iter().map(|(n, v)| format!("{n}={v}")).collect();
    assert_eq!(labels, ["alertname=rule", "severity=critical", "src_ip=a", "team=net"]);
}

#[test]
fn rows_of_a_key_have_to_match_for_some_time() {
    let mut rule = rule("when = 'bytes > 100'\nfor = '10s'");
    let mut rows: Vec<_> = (0..10).map(|at| (at, "a", "x", 200)).collect();
    rows.push((10, "a", "x", 50));
    rows.extend((11..22).map(|at| (at, "a", "x", 200)));
    rows.push((15, "b", "x", 200));
    let out = look(&mut rule, &rows);
    assert_eq!(out.len(), 1);
    assert_eq!((out[0].time, out[0].first), (second(21), second(11)));
}

#[test]
fn what_is_new_fires_once_after_learning() {
    let mut rule = rule("new = ['src_ip', 'label']\nlearn = '1h'");
    let out = look(
        &mut rule,
        &[
            (0, "a", "ssh", 0),
            (10, "b", "http", 0),
            (3_601, "a", "ssh", 0),
            (3_602, "a", "http", 0),
            (3_603, "a", "http", 0),
            (3_604, "c", "ssh", 0),
        ],
    );
    let texts: Vec<_> = out.iter().map(|alert| alert.text.as_str()).collect();
    assert_eq!(texts, ["rule: src_ip a, label http", "rule: src_ip c, label ssh"]);
    assert_eq!(out[0].labels["label"], "http");
}

#[test]
fn a_share_of_the_rows_fires() {
    let mut rule = rule("when = \"label == bad\"\nshare-above = 0.2\nover = '60s'");
    let few: Vec<_> =
        (0..50).map(|at| (at, "a", if at % 5 == 4 { "bad" } else { "x" }, 0)).collect();
    assert_eq!(look(&mut rule, &few).len(), 0, "a fifth is not above a fifth");
    let out = look(&mut rule, &[(51, "a", "bad", 0), (52, "b", "bad", 0)]);
    assert_eq!(out.len(), 1);
    assert!((out[0].value.unwrap() - 11.0 / 51.0).abs() < 1e-9, "{:?}", out[0].value);
}

#[test]
fn a_share_within_a_host_is_that_host_s() {
    let text = "when = \"label == bad\"\nshare-above = 0.5\nover = '60s'\nleast-rows = 4\n\
                key = ['src_ip']\namong = ['src_ip']";
    let mut rule = rule(text);
    let mut rows = vec![(0, "a", "bad", 0), (1, "a", "bad", 0), (2, "a", "bad", 0)];
    rows.extend((3..40).map(|at| (at, "b", "x", 0)));
    assert_eq!(look(&mut rule, &rows).len(), 0, "three rows are too few");
    let out = look(&mut rule, &[(41, "a", "bad", 0)]);
    assert_eq!((out.len(), out[0].value), (1, Some(1.0)));
}

#[test]
fn a_share_can_be_one_of_weights() {
    let text = "when = \"bytes > 0\"\nshare-above = 0.8\nover = '10s'\nleast-rows = 2\n\
                key = ['label']\nweight = ['bytes']";
    let mut rule = rule(text);
    let out = look(
        &mut rule,
        &[(0, "a", "bbr", 100), (1, "b", "cubic", 100), (2, "a", "bbr", 600), (3, "b", "cubic", 1)],
    );
    assert_eq!(out.len(), 1);
    assert_eq!((out[0].labels["label"].as_str(), out[0].value), ("bbr", Some(0.875)));
}

#[test]
fn a_sum_over_a_window_fires() {
    let mut counted = rule("when = \"label == scan\"\nabove = 3\nover = '60s'\nkey = ['src_ip']");
    let rows: Vec<_> = (0..8).map(|at| (at * 10, "a", "scan", 0)).collect();
    let out = look(&mut counted, &rows);
    assert_eq!((out.len(), out[0].value, out[0].time), (1, Some(4.0), second(30)));
    assert_eq!(out[0].text, "rule: src_ip a (4)");
    let mut summed = rule("above = 1e6\nover = '60s'\nweight = ['bytes']");
    assert_eq!(look(&mut summed, &[(0, "a", "x", 900_000), (70, "b", "x", 900_000)]).len(), 0);
    assert_eq!(look(&mut summed, &[(71, "b", "x", 200_000)]).len(), 1);
}

#[test]
fn a_window_has_to_exceed_its_limit_all_the_time() {
    // Above the limit at 0 to 2 s, not at 20 s, and again from 40 s on.
    let rows = |label: &'static str| {
        let mut rows: Vec<_> = (0..3).map(|at| (at, "a", "bad", 0)).collect();
        rows.extend((20..24).map(|at| (at, "a", label, 0)));
        rows.extend((40..70).map(|at| (at, "a", "bad", 0)));
        rows
    };
    let mut counted = rule("above = 1\nover = '2s'\nkey = ['src_ip']\nfor = '30s'");
    let mut slow = rows("bad");
    slow.retain(|(at, ..)| ![21, 22, 23].contains(at));
    assert_eq!(look(&mut counted, &slow).len(), 0, "one row at 20 s is not above one");
    let text = "when = \"label == bad\"\nshare-above = 0.5\nover = '5s'\nleast-rows = 1\n\
                key = ['src_ip']\namong = ['src_ip']\nfor = '30s'";
    assert_eq!(look(&mut rule(text), &rows("good")).len(), 0, "no row matches from 20 to 23 s");
    let out = look(&mut rule(text), &rows("bad"));
    assert_eq!((out.len(), out[0].time), (1, second(40)));
}

#[test]
fn rules_continue_where_time_was_ahead_and_steps_back() {
    let hours = 3 * 3_600;
    let mut summed = rule("above = 1e6\nover = '60s'\nweight = ['bytes']");
    assert_eq!(look(&mut summed, &[(hours, "a", "x", 900_000)]).len(), 0);
    summed.step_back(second(100));
    assert_eq!(look(&mut summed, &[(100, "a", "x", 900_000)]).len(), 0, "it is another window");
    assert_eq!(look(&mut summed, &[(170, "b", "x", 900_000)]).len(), 0, "and it slides");
    let mut held = rule("when = 'bytes > 100'\nfor = '10s'");
    assert_eq!(look(&mut held, &[(hours, "a", "x", 200)]).len(), 0);
    held.step_back(second(100));
    let out = look(&mut held, &[(105, "a", "x", 200), (110, "a", "x", 200)]);
    assert_eq!((out.len(), out[0].time), (1, second(110)));
    let mut learned = rule("new = ['src_ip']\nlearn = '1h'");
    assert_eq!(look(&mut learned, &[(hours, "a", "x", 0)]).len(), 0);
    learned.step_back(second(0));
    assert_eq!(look(&mut learned, &[(3_600, "a", "x", 0), (3_601, "b", "x", 0)]).len(), 1);
}

#[test]
fn open_rows_match_but_do_not_count_twice() {
    let mut columns = Columns::new(SCHEMA);
    let row = [Value::TimestampNs(0), Value::Str("a"), Value::Str("x"), Value::U64(5)];
    columns.push_row(&row).unwrap();
    let see = |rule: &mut Rule| {
        let mut out = Vec::new();
        for seconds in 0..5 {
            let at = At { now: second(seconds), row: second(0), is_open: true };
            rule.look(&columns, 0, at, &mut out);
        }
        out
    };
    let out = see(&mut rule("when = 'bytes > 1'\nfor = '3s'"));
    assert_eq!((out.len(), out[0].rows), (1, 1));
    assert_eq!(see(&mut rule("when = 'bytes > 1'\nopen = false")).len(), 0);
    assert_eq!(see(&mut rule("above = 2\nover = '60s'")).len(), 0);
}

#[test]
fn all_that_is_wrong_is_told() {
    for (text, key, wanted) in [
        ("when = 'port > 1'", "when", "src_ip"),
        ("key = ['host']", "key", "no column \"host\""),
        ("new = ['host']", "new", "no column \"host\""),
        ("value = 'label'", "value", "not a number"),
        ("text = '{x}'", "text", "{x} is not a column"),
        ("annotations = { a = '{' }", "annotations", "brace"),
        ("share-above = 0.1", "over", "60s"),
        ("over = '60s'", "over", "share-above"),
        ("share-above = 1.5\nover = '1s'", "share-above", "less than 1"),
        ("above = 1\nover = '1s'\nweight = ['label']", "weight", "not a number"),
        ("share-above = 0.1\nover = '1s'\namong = ['label']", "among", "columns of key"),
        ("new = ['label']\nfor = '1s'", "for", "once"),
        ("new = ['label']\nabove = 1\nover = '1s'", "name", "only one"),
        ("learn = '1s'", "learn", "needs new"),
        ("labels = { 'a-b' = 'x' }", "labels", "letters"),
        ("labels = { alertname = 'x' }", "labels", "alertname"),
        ("labels = { src_ip = 'x' }", "labels", "label already"),
    ] {
        let wrong = Rule::bind(&settings(text), SCHEMA).err().unwrap_or_default();
        let is_told = |(at, told): &(&str, String)| *at == key && told.contains(wanted);
        assert!(wrong.iter().any(is_told), "{text}: {wrong:?}");
    }
    let wrong = Rule::bind(&settings("when = 'x > 1'\nvalue = 'y'\ntext = '{z}'"), SCHEMA);
    assert_eq!(wrong.err().unwrap_or_default().len(), 3);
}
