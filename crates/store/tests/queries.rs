//! Questions over small tables, by hand.
#![allow(clippy::unwrap_used, clippy::panic)]

use engine::columns::{Columns, Field, Kind, Schema, Value};
use proptest::prelude::*;
use store::query::{
    Aggregate, Cancellation, Filter, GroupsQuery, Measure, Number, Order, OrderBy, RowsQuery,
    SeriesQuery, TimeRange, cell,
};
use store::{Store, Table, TableLimits};

const SCHEMA: Schema = &[
    Field::new("first_ns", Kind::TimestampNs, "").nullable(),
    Field::new("src_ip", Kind::Text, ""),
    Field::new("dst_ip", Kind::Text, ""),
    Field::new("dst_port", Kind::U16, ""),
    Field::new("src_bytes", Kind::U64, ""),
    Field::new("dst_bytes", Kind::U64, ""),
    Field::new("label", Kind::Text, "").nullable(),
    Field::new("confidence", Kind::F64, "").nullable(),
];

fn measure(name: &str) -> Measure {
    Measure::find(SCHEMA, name).unwrap()
}

const SECOND: i64 = 1_000_000_000;

fn table() -> std::sync::Arc<Table> {
    let store = Store::new();
    let table = store.add("flows", "", SCHEMA, TableLimits::default());
    let rows = [
        (0, "10.0.0.1", "192.0.2.7", 443, 100, 2_000, Some("video"), Some(0.9)),
        (1, "10.0.0.2", "2001:db8::1", 53, 60, 90, Some("dns"), Some(0.5)),
        (61, "10.1.0.3", "192.0.2.7", 443, 700, 70_000, Some("video"), Some(0.99)),
        (62, "10.0.0.1", "192.0.2.9", 80, 10, 20, None, None),
    ];
    for (s, src, dst, port, up, down, label, confidence) in rows {
        let mut columns = Columns::new(SCHEMA);
        let row = [
            Value::TimestampNs(s * SECOND),
            Value::Str(src),
            Value::Str(dst),
            Value::U16(port),
            Value::U64(up),
            Value::U64(down),
            label.map(Value::Str).into(),
            confidence.map(Value::F64).into(),
        ];
        columns.push_row(&row).unwrap();
        table.push(&columns);
    }
    table
}

fn query(filter: &str, order: &str) -> RowsQuery {
    RowsQuery {
        filter: Filter::new(filter, SCHEMA).unwrap(),
        range: TimeRange::default(),
        order: Order::read(order, SCHEMA).unwrap(),
        offset: 0,
        limit: 100,
    }
}

/// Seconds of the rows that are found, in their order.
fn found(query: &RowsQuery) -> Vec<i64> {
    let rows = query.run(&table().view());
    rows.each().map(|(columns, row)| cell(columns, 0, row).time().unwrap() / SECOND).collect()
}

#[test]
fn filters_choose_rows() {
    let cases: &[(&str, &[i64])] = &[
        ("", &[0, 1, 61, 62]),
        ("src_ip == 10.0.0.0/16", &[0, 1, 62]),
        ("ip == 192.0.2.0/24 && dst_port == 443", &[0, 61]),
        ("ip == 2001:db8::/32", &[1]),
        ("label == \"video\" and confidence > 0.95", &[61]),
        ("label != video", &[1]),
        ("not label == video", &[1, 62]),
        ("bytes > 70k", &[61]),
        ("bytes >= 2.1k and bytes <= 70.7k", &[0, 61]),
        ("dst_port in {53, 80}", &[1, 62]),
        ("label contains ID", &[0, 61]),
        ("VIDEO", &[0, 61]),
        ("\"10.1.\"", &[61]),
        ("(dns or video) and !(dst_port == 443)", &[1]),
        ("first_ns >= 1970-01-01T00:01:00Z", &[61, 62]),
        ("port == 0x35", &[1]),
    ];
    for (text, wanted) in cases {
        assert_eq!(found(&query(text, "first_ns")), *wanted, "{text}");
    }
}

#[test]
fn what_is_no_filter_is_refused_in_words() {
    let cases = [
        ("colour == 1", "no column \"colour\""),
        ("dst_prt == 1", "try \"dst_port\""),
        ("dst_port == https", "wanted: a number"),
        ("dst_port contains 4", "is a number"),
        ("(dns", "not closed"),
        ("dns video", "wanted: and, or, or the end"),
        ("label == ", "wanted: a value"),
        ("label in video", "in braces"),
        ("label == \"video", "not closed"),
        ("first_ns > noon", "wanted: a time"),
        ("&& dns", "wanted: a column"),
    ];
    for (text, wanted) in cases {
        let error = Filter::new(text, SCHEMA).unwrap_err().to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
    let deep = "(".repeat(100_000);
    assert!(Filter::new(&deep, SCHEMA).is_err());
    let deep = "!".repeat(4_000);
    assert!(Filter::new(&deep, SCHEMA).unwrap_err().to_string().contains("too deep"));
}

#[test]
fn rows_come_in_order_and_in_pages() {
    assert_eq!(found(&query("", "")), [62, 61, 1, 0], "the latest first");
    assert_eq!(found(&query("", "-dst_bytes")), [61, 0, 1, 62]);
    assert_eq!(found(&query("", "-confidence")), [61, 0, 1, 62], "missing last");
    assert_eq!(found(&query("", "confidence")), [1, 0, 61, 62], "missing last");
    let page = RowsQuery { offset: 1, limit: 2, ..query("", "src_ip,-dst_port") };
    assert_eq!(found(&page), [62, 1]);
    let rows = page.run(&table().view());
    assert_eq!((rows.matched, rows.searched, rows.len()), (4, 4, 2));
    let range = TimeRange { from_ns: Some(SECOND), to_ns: Some(62 * SECOND) };
    assert_eq!(found(&RowsQuery { range, ..query("", "first_ns") }), [1, 61]);
    assert!(Order::read("-colour", SCHEMA).unwrap_err().to_string().contains("dst_port"));
    let order = |count| Order::read(&vec!["dst_port"; count].join(","), SCHEMA);
    assert_eq!(order(8).unwrap().len(), 8);
    assert_eq!(order(9).unwrap_err().to_string(), "sort: 9 columns; wanted: 8 at most");
}

#[test]
fn rows_are_put_together_by_columns() {
    let query = GroupsQuery {
        filter: Filter::all(),
        range: TimeRange::default(),
        by: vec![measure("label")],
        aggregates: vec![
            (Aggregate::Sum, measure("dst_bytes")),
            (Aggregate::Mean, measure("confidence")),
            (Aggregate::Max, measure("first_ns")),
            (Aggregate::Sum, measure("bytes")),
        ],
        order: (OrderBy::Rows, true),
        offset: 0,
        limit: 10,
    };
    let names = query.names();
    assert_eq!(names[..4], ["label", "rows", "sum_dst_bytes", "mean_confidence"]);
    assert_eq!(names[4..], ["max_first_ns", "sum_bytes"]);
    let order = query.order("-sum_dst_bytes").unwrap();
    let groups = GroupsQuery { order, ..query }.run(&table().view().chunks(), SCHEMA);
    let [video, dns, none] = groups.rows.as_slice() else { panic!("three groups") };
    assert_eq!((video.row_count, dns.row_count, none.row_count), (2, 1, 1));
    assert_eq!(video.values[0], Some(Number::Integer(72_000)));
    assert_eq!(video.values[1], Some(Number::Float((0.9 + 0.99) / 2.0)));
    assert_eq!(video.values[2], Some(Number::Time(61 * SECOND)));
    assert_eq!(video.values[3], Some(Number::Integer(72_800)));
    assert_eq!(none.values[1], None);
}

#[test]
fn values_are_put_together_over_time() {
    let query = SeriesQuery {
        filter: Filter::all(),
        range: TimeRange::default(),
        value: Some(measure("dst_bytes")),
        aggregate: Aggregate::Sum,
        by: Some(measure("label")),
        series_count: 1,
        step_ns: Some(60 * SECOND),
    };
    let series = query.run(&table().view().chunks(), SCHEMA);
    assert_eq!(series.times, [0, 60 * SECOND]);
    let values: Vec<_> = series.series.iter().map(|(_, values)| values.clone()).collect();
    let integers = |values: [i128; 2]| values.map(|value| Some(Number::Integer(value))).to_vec();
    assert_eq!(values, [integers([2_000, 70_000]), integers([90, 20])]);
    assert!(series.series[1].0.is_none(), "the rest");
    let whole = SeriesQuery { by: None, value: None, ..query };
    let series = whole.run(&table().view().chunks(), SCHEMA);
    assert_eq!(series.series[0].1, integers([2, 2]));
    let short = SeriesQuery { step_ns: Some(1), ..whole };
    let series = short.run(&table().view().chunks(), SCHEMA);
    assert!(series.times.len() <= 4_000 && series.matched == 4, "{}", series.times.len());
}

#[test]
fn a_cancelled_query_searches_nothing_more() {
    let (cancellation, other) = (Cancellation::default(), Cancellation::default());
    let table = table();
    let chunks = table.view().chunks();
    let matched = || {
        let filter = || Filter::all().until(&cancellation);
        let rows = RowsQuery { filter: filter(), ..query("", "") };
        let groups = GroupsQuery {
            filter: filter(),
            range: TimeRange::default(),
            by: vec![measure("dst_port")],
            aggregates: Vec::new(),
            order: (OrderBy::Rows, true),
            offset: 0,
            limit: 10,
        };
        let series = SeriesQuery {
            filter: filter(),
            range: TimeRange::default(),
            value: None,
            aggregate: Aggregate::Count,
            by: None,
            series_count: 1,
            step_ns: None,
        };
        let of_series = series.run(&chunks, SCHEMA).matched;
        (rows.run(&table.view()).searched, groups.run(&chunks, SCHEMA).matched, of_series)
    };
    other.cancel();
    assert_eq!(matched(), (4, 3, 4));
    cancellation.cancel();
    assert_eq!(matched(), (0, 0, 0));
}

proptest! {
    #[test]
    fn no_text_stops_the_process(text in "[a-z0-9(){}!&|<>=,.\"'/:% \\u{80}-\\u{ff}]{0,60}") {
        if let Ok(filter) = Filter::new(&text, SCHEMA) {
            let view = table().view();
            for held in view.chunks() {
                (0..held.columns().row_count()).for_each(|row| {
                    let _ = filter.has(held.columns(), row);
                });
            }
        }
    }
}
