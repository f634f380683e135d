use engine::columns::Columns;
use history::Ask;
use proptest::prelude::*;
use store::query::{
    Aggregate, Cancellation, Filter, GroupsQuery, Measure, Number, Order, OrderBy, RowsQuery,
    SeriesQuery, TimeRange,
};
use store::{RowChunk, TableLimits};

use crate::lent::{Folder, HOUR_NS, Run, SCHEMA, START_NS, options, row, text, texts};

const FILTERS: [&str; 5] = [
    "",
    "dst_port == 444",
    "src_ip == 192.0.2.3 and not app_protocol == tls",
    "tls",
    "score > 20 or port == 447",
];

const MINUTE_NS: i64 = 60_000_000_000;

fn filter(text: &str) -> Filter {
    if text.is_empty() { Filter::all() } else { Filter::new(text, SCHEMA).unwrap() }
}

fn measure(name: &str) -> Measure {
    Measure::find(SCHEMA, name).unwrap()
}

fn groups(filter_text: &str, range: TimeRange) -> GroupsQuery {
    GroupsQuery {
        filter: filter(filter_text),
        range,
        by: vec![measure("dst_port")],
        aggregates: vec![
            (Aggregate::Sum, measure("src_bytes")),
            (Aggregate::Max, measure("bytes")),
            (Aggregate::Count, measure("size")),
        ],
        order: (OrderBy::Key(0), false),
        offset: 0,
        limit: 100,
    }
}

fn series(filter_text: &str, range: TimeRange) -> SeriesQuery {
    SeriesQuery {
        filter: filter(filter_text),
        range,
        value: Some(measure("src_bytes")),
        aggregate: Aggregate::Sum,
        by: Some(measure("src_ip")),
        series_count: 3,
        step_ns: Some(HOUR_NS / 4),
    }
}

fn rows(filter_text: &str, range: TimeRange, order: &str, limit: usize) -> RowsQuery {
    let order = Order::read(order, SCHEMA).unwrap();
    RowsQuery { filter: filter(filter_text), range, order, offset: 2, limit }
}

/// What was found, in words.
fn words<'a>(found: impl Iterator<Item = (&'a Columns, usize)>) -> Vec<String> {
    found.map(|(columns, row)| text(columns, row)).collect()
}

/// Every query over stored rows and memory finds what it finds over all rows.
fn compare(run: &Run, all: &[Columns], filter_text: &str, range: TimeRange) {
    let held = || all.iter().cloned().map(RowChunk::own).collect::<Vec<_>>();
    for (order, limit) in [("src_bytes", 7), ("-dst_port,src_bytes", 3), ("-src_bytes", 10_000)] {
        let query = rows(filter_text, range, order, limit);
        let wanted = query.run_on(held(), SCHEMA);
        let found = run.history.rows(&run.table, &query);
        assert_eq!(words(found.each()), words(wanted.each()), "{filter_text} {order}");
        assert_eq!(found.matched, wanted.matched);
    }
    let latest = run.history.rows(&run.table, &rows(filter_text, range, "", 10_000));
    let wanted = rows(filter_text, range, "", 10_000).run_on(held(), SCHEMA);
    assert_eq!(latest.matched, wanted.matched);
    let query = groups(filter_text, range);
    let (wanted, found) = (query.run(&held(), SCHEMA), run.history.groups(&run.table, &query));
    assert_eq!(found.rows.len(), wanted.rows.len());
    for (found, wanted) in found.rows.iter().zip(&wanted.rows) {
        assert_eq!((&found.key, found.row_count), (&wanted.key, wanted.row_count));
        assert_eq!(found.values, wanted.values);
    }
    let query = series(filter_text, range);
    let (wanted, found) = (query.run(&held(), SCHEMA), run.history.series(&run.table, &query));
    assert_eq!((found.times, found.series), (wanted.times, wanted.series));
    let filter = filter(filter_text);
    let ask = Ask { range, filter: &filter, columns: None };
    let mut chunks = run.history.chunks(&run.table, &ask).chunks;
    let time = store::query::time_column(SCHEMA);
    for held in &mut chunks {
        let columns = held.columns();
        let is_wanted = |row: &usize| range.has(columns, time, *row) && filter.has(columns, *row);
        let places: Vec<_> = (0..columns.row_count()).filter(is_wanted).collect();
        *held = RowChunk::own(columns.picked(&places));
    }
    let wanted = RowsQuery { order: Vec::new(), offset: 0, ..rows(filter_text, range, "", 10_000) };
    let mut wanted = words(wanted.run_on(held(), SCHEMA).each());
    wanted.sort();
    assert_eq!(texts(&chunks), wanted);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]

    #[test]
    fn stored_rows_and_memory_are_all_rows(
        steps in prop::collection::vec((1_u64..80, 0_i64..300, 0_i64..120, 0_u8..5), 1..12),
        from in prop::option::of(0_i64..300),
        minutes in prop::option::of(1_i64..200),
        filter_index in 0..FILTERS.len(),
    ) {
        let folder = Folder::new("property");
        let mut run = Run::new(&folder);
        let (mut all, mut stored, mut number) = (Vec::new(), 0, 0_u64);
        for (count, minute, spread, next) in steps {
            for at in 0..count {
                let at = i64::try_from(at).unwrap() * spread * MINUTE_NS / 80;
                let has_time = !number.is_multiple_of(31);
                let ns = has_time.then_some(START_NS + minute * MINUTE_NS + at);
                let one = row(number, ns);
                run.table.push(&one);
                all.push(one);
                number += 1;
            }
            match next {
                0 | 1 => {
                    run.history.flush();
                    stored = all.len();
                }
                2 => {
                    run.history.end();
                    drop(run);
                    run = Run::new(&folder);
                    stored = all.len();
                }
                _ => {}
            }
        }
        prop_assert!(stored <= all.len());
        let from_ns = from.map(|minute| START_NS + minute * MINUTE_NS);
        let to_ns = minutes.map(|count| from_ns.unwrap_or(START_NS) + count * MINUTE_NS);
        compare(&run, &all, FILTERS[filter_index], TimeRange { from_ns, to_ns });
        compare(&run, &all, FILTERS[filter_index], TimeRange::default());
    }
}

#[test]
fn sums_of_minutes_are_the_sums_of_rows() {
    let folder = Folder::new("sums");
    let run = Run::new(&folder);
    let mut all = Vec::new();
    for number in 0..3_000 {
        let at = i64::try_from(number).unwrap();
        let one = row(number, Some(START_NS + at * 3_000_000_000));
        run.table.push(&one);
        all.push(RowChunk::own(one));
        if number % 500 == 1 {
            run.history.flush();
        }
    }
    let (name, schema) = run.history.sums_with(&run.table, &["app_protocol", "dst_bytes"]).unwrap();
    assert_eq!(name, "flows@1m-app_protocol");
    let filter = Filter::all();
    let ask = Ask { range: TimeRange::default(), filter: &filter, columns: None };
    let found = run.history.sums(&run.table, &name, &ask).unwrap();
    let query = |schema, counts: &str| GroupsQuery {
        filter: Filter::all(),
        range: TimeRange::default(),
        by: vec![Measure::find(schema, "app_protocol").unwrap()],
        aggregates: ["dst_bytes", counts]
            .iter()
            .filter_map(|name| Some((Aggregate::Sum, Measure::find(schema, name).ok()?)))
            .collect(),
        order: (OrderBy::Rows, false),
        offset: 0,
        limit: 10,
    };
    let sums = query(schema, "rows").run(&found.chunks, schema);
    let wanted = query(SCHEMA, "rows").run(&all, SCHEMA);
    assert!(sums.searched < 700, "{}", sums.searched);
    assert_eq!(sums.rows.len(), 2);
    for (sum, wanted) in sums.rows.iter().zip(&wanted.rows) {
        assert_eq!((&sum.key, sum.values[0]), (&wanted.key, wanted.values[0]));
        let count = Number::Integer(wanted.row_count.into());
        assert_eq!(sum.values[1], Some(count));
    }
    assert!(run.history.sums_with(&run.table, &["score"]).is_none());
    assert!(run.history.sums(&run.table, "flows@1m-no", &ask).is_none());
}

#[test]
fn a_cancelled_query_reads_no_file() {
    let folder = Folder::new("cancelled");
    Run::new(&folder).push((0..900).map(|number| (number, START_NS)));
    let run = Run::new(&folder);
    let range = TimeRange { from_ns: Some(START_NS - 24 * HOUR_NS), to_ns: None };
    let searched = |cancellation: &Cancellation| {
        let filter = || filter("dst_bytes >= 0").until(cancellation);
        let rows = RowsQuery { filter: filter(), ..rows("", range, "src_bytes", 10) };
        let groups = GroupsQuery { filter: filter(), ..groups("", range) };
        let short = SeriesQuery { filter: filter(), ..series("", range) };
        // Of this the sums by minute are read.
        let to_ns = Some(START_NS + HOUR_NS);
        let long = SeriesQuery {
            filter: Filter::all().until(cancellation),
            by: None,
            ..series("", TimeRange { to_ns, ..range })
        };
        let (history, table) = (&run.history, &run.table);
        let of_series = [short, long].map(|query| history.series(table, &query).searched);
        let of_rows = history.rows(table, &rows).searched;
        (of_rows, history.groups(table, &groups).searched, of_series)
    };
    let cancellation = Cancellation::default();
    assert_eq!(searched(&cancellation), (900, 900, [900, 2]));
    cancellation.cancel();
    assert_eq!(searched(&cancellation), (0, 0, [0, 0]));
}

#[test]
fn a_long_series_is_read_from_sums() {
    let folder = Folder::new("long");
    let run = Run::new(&folder);
    let mut all = Vec::new();
    for number in 0..9_000 {
        let one = row(number, Some(START_NS + i64::try_from(number).unwrap() * 1_000_000_000));
        run.table.push(&one);
        all.push(RowChunk::own(one));
        if number == 6_000 {
            run.history.flush();
        }
    }
    let query = |step_ns, aggregate, value: Option<&str>| SeriesQuery {
        filter: Filter::all(),
        range: TimeRange { from_ns: Some(START_NS), to_ns: Some(START_NS + 3 * HOUR_NS) },
        value: value.map(measure),
        aggregate,
        by: Some(measure("app_protocol")),
        series_count: 3,
        step_ns: Some(step_ns),
    };
    for (aggregate, value, is_of_sums) in [
        (Aggregate::Sum, Some("dst_bytes"), true),
        (Aggregate::Sum, None, true),
        (Aggregate::Count, None, true),
        (Aggregate::Mean, Some("dst_bytes"), false),
    ] {
        let query = query(HOUR_NS / 4, aggregate, value);
        let (found, wanted) = (run.history.series(&run.table, &query), query.run(&all, SCHEMA));
        assert_eq!((found.times, found.series), (wanted.times, wanted.series), "{aggregate:?}");
        assert_eq!(found.searched < 1_000, is_of_sums, "{aggregate:?}: {}", found.searched);
    }
    let short = run.history.series(&run.table, &query(1_000_000_000, Aggregate::Sum, None));
    assert_eq!(short.searched, 9_000, "steps of seconds need rows");
}

#[test]
fn rows_that_are_in_memory_are_not_read_from_files() {
    let folder = Folder::new("memory");
    let limits = TableLimits { row_count: 5_000, ..TableLimits::default() };
    Run::new(&folder).push([(1, START_NS - HOUR_NS)]);
    let run = Run::with(options(&folder), SCHEMA, limits);
    let mut all = Vec::new();
    for number in 0..20_000 {
        let ns = START_NS + i64::try_from(number).unwrap() * 1_000_000_000;
        let one = row(number, Some(ns));
        run.table.push(&one);
        all.push(RowChunk::own(one));
        if number % 100 == 0 {
            run.history.flush();
        }
    }
    for (second, is_in_memory) in [(19_900, true), (17_000, true), (10_000, false), (0, false)] {
        let range = TimeRange { from_ns: Some(START_NS + second * 1_000_000_000), to_ns: None };
        let query = series("", range);
        let found = run.history.series(&run.table, &query);
        assert_eq!(found.series, query.run(&all, SCHEMA).series, "from {second} s");
        let in_memory = run.table.state().row_count;
        assert_eq!(found.searched == in_memory, is_in_memory, "from {second} s");
    }
}

#[test]
fn columns_that_nobody_asks_for_are_not_read() {
    let folder = Folder::new("blank");
    let run = Run::with(options(&folder), SCHEMA, TableLimits::default());
    run.push((0..50).map(|number| (number, START_NS)));
    run.history.flush();
    let filter = filter("dst_port == 444");
    let place = |name: &str| SCHEMA.iter().position(|field| field.name == name).unwrap();
    let columns = Some(vec![place("src_bytes")]);
    let ask = Ask { range: TimeRange::default(), filter: &filter, columns };
    for _ in 0..2 {
        let found = run.history.stored("flows", SCHEMA, &ask);
        let [held] = &found.chunks[..] else { panic!("one chunk") };
        let cell = |name: &str| store::query::cell(held.columns(), place(name), 0);
        assert_eq!((found.searched, held.columns().row_count()), (50, 10));
        assert_eq!(cell("src_bytes"), store::query::Cell::Integer(i128::from(u64::MAX - 1)));
        assert_eq!(cell("dst_bytes"), store::query::Cell::Null);
    }
}

#[test]
fn many_rows_are_summed_up_as_few_are() {
    const COPY_COUNT: u64 = 220;
    let mut rows = Columns::new(SCHEMA);
    for number in 0..1_000 {
        rows.append(&row(number, Some(START_NS)));
    }
    let query = groups("not dst_port == 445", TimeRange::default());
    let few = query.run(&[RowChunk::own(rows.clone())], SCHEMA);
    let many: Vec<_> = (0..COPY_COUNT).map(|_| RowChunk::own(rows.clone())).collect();
    let many = query.run(&many, SCHEMA);
    assert_eq!((many.searched, many.matched, many.left_out), (220_000, 4, 0));
    for (few, many) in few.rows.iter().zip(&many.rows) {
        let times = |value: &Option<Number>| match value {
            Some(Number::Integer(value)) => Number::Integer(value * i128::from(COPY_COUNT)),
            other => panic!("an integer: {other:?}"),
        };
        assert_eq!((&many.key, many.row_count), (&few.key, few.row_count * COPY_COUNT));
        assert_eq!(many.values[0], Some(times(&few.values[0])));
        assert_eq!(many.values[1], few.values[1], "the largest");
        assert_eq!(many.values[2], Some(times(&few.values[2])));
    }
}
