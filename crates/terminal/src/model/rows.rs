//! Rows of one table: a row each, or the last one of each flow where rows are of periods.

use std::collections::{BTreeSet, HashMap};

use engine::columns::{Columns, Schema};
use store::Table;
use store::query::{Cell, Filter, Measure, Order, RowsQuery, TimeRange, cell};

use super::{ROWS_MAX, Row, Sheet, Subject, measure};
use crate::screens::{
    Column, DEVICES, FLOWS, L4S, LATENCY, QUEUES, Screen, Source, TOP, columns_of,
};
use crate::value::{Value, bytes as written_bytes};

/// Rows of periods that are looked at: the last ones.
const PERIOD_ROWS_MAX: usize = 20_000;

/// Periods of a chart.
const PERIODS_MAX: usize = 60;

/// How long after its end a window may be on its way: a second for late packets, and some more.
const WINDOW_LATE_NS: i64 = 1_500_000_000;

/// Flows whose last row is older than this many periods have no values of now.
const PERIODS_CURRENT: i64 = 3;

fn columns(screen: Screen) -> &'static [Column] {
    match screen {
        Screen::Services => DEVICES,
        Screen::Queues => QUEUES,
        Screen::Latency => LATENCY,
        Screen::L4s => L4S,
        _ => FLOWS,
    }
}

/// The rows of a table.
pub(super) fn sheet(
    screen: Screen,
    table: &Table,
    filter: &Filter,
    sort: Option<(usize, bool)>,
) -> Sheet {
    let schema = table.schema();
    let columns: Vec<Column> =
        columns(screen).iter().filter(|column| column.is_of(schema)).copied().collect();
    let places = Places::of(schema);
    let readers: Vec<Reader> = columns.iter().map(|column| Reader::of(column, schema)).collect();
    let (rows, matched, note) = if places.start.is_some() || places.host.is_some() {
        latest(table, filter, &places, &readers)
    } else {
        each(table, filter, &columns, &places, &readers, (sort, &["bytes", "last_ns"]))
    };
    let note = if screen == Screen::Queues { by_control(&columns, &rows) } else { note };
    Sheet { columns, rows, matched, note, ..Sheet::default() }
}

/// The rows of a table that no other screen shows: the latest first, or the last window's.
pub(super) fn any(
    table: &Table,
    filter: &Filter,
    written: &str,
    sort: Option<(usize, bool)>,
    windows: Windows,
) -> Sheet {
    let schema = table.schema();
    let (last, length_ns) = (last_window(table), windows.length_ns.filter(|&ns| ns > 0));
    let is_there = |column: &Column| {
        let is_rate = matches!(column.source, Source::PerWindow(_));
        column.is_of(schema) && (!is_rate || length_ns.is_some())
    };
    let columns = match table.name().trim_end_matches(|c: char| c == '_' || c.is_ascii_digit()) {
        "top" => TOP.iter().filter(|column| is_there(column)).copied().collect(),
        _ => columns_of(schema),
    };
    let reader = |column: &Column| match (column.source, length_ns) {
        (Source::PerWindow(name), Some(length_ns)) => Reader::per_window(name, length_ns, schema),
        _ => Reader::of(column, schema),
    };
    let readers: Vec<Reader> = columns.iter().map(reader).collect();
    let places = Places::of(schema);
    let window = last.and_then(|ns| {
        let written = if written.is_empty() { String::new() } else { format!("({written}) and ") };
        Filter::new(&format!("{written}window_start_ns == {ns}"), schema).ok()
    });
    let seconds = |ns: i64| packet::Span::from_ns(ns).as_seconds_f64();
    let note = match (length_ns, last) {
        (Some(length_ns), Some(start_ns)) if windows.is_over(start_ns, length_ns) => {
            let note = format!("no packets in the last {} s", seconds(length_ns));
            return Sheet { columns, note, ..Sheet::default() };
        }
        (Some(length_ns), Some(_)) => format!("the last {} s", seconds(length_ns)),
        (None, Some(_)) => String::from("the last window"),
        (_, None) => String::new(),
    };
    let usual: &[&str] = if window.is_some() { &["bytes"] } else { &[] };
    let filter = window.as_ref().unwrap_or(filter);
    let (rows, matched, _) = each(table, filter, &columns, &places, &readers, (sort, usual));
    Sheet { columns, rows, matched, note, ..Sheet::default() }
}

/// What is known of the windows of a table.
#[derive(Clone, Copy, Default)]
pub(super) struct Windows {
    /// How long they are, where that is known.
    pub(super) length_ns: Option<i64>,
    /// How far event time is, while it goes on.
    pub(super) now_ns: Option<i64>,
}

impl Windows {
    /// Whether another window has ended since this one, without a row.
    fn is_over(self, start_ns: i64, length_ns: i64) -> bool {
        let age_ns = self.now_ns.map(|now_ns| now_ns.saturating_sub(start_ns));
        let spare_ns = WINDOW_LATE_NS.max(length_ns / 2);
        age_ns.is_some_and(|age_ns| age_ns > length_ns.saturating_mul(2).saturating_add(spare_ns))
    }
}

/// When the last window of a table by windows began.
fn last_window(table: &Table) -> Option<i64> {
    let place = table.schema().iter().position(|field| field.name == "window_start_ns")?;
    let view = table.view();
    let rows = *view.final_rows().last()?;
    (0..rows.row_count()).filter_map(|at| cell(rows, place, at).time()).max()
}

/// The bytes in the queue, and the share of each congestion control.
fn by_control(columns: &[Column], rows: &[Row]) -> String {
    let place = |source| columns.iter().position(|column| column.source == source);
    let bytes = place(Source::Measure("cbiq_bytes"));
    let Some((bytes, control)) = bytes.zip(place(Source::Control)) else { return String::new() };
    let mut sums: HashMap<&str, f64> = HashMap::new();
    for row in rows {
        let Some(number) = row.values.get(bytes).and_then(Value::number) else { continue };
        let name = match row.values.get(control) {
            Some(Value::Text(text)) if !text.starts_with('(') => text.split(' ').next(),
            _ => None,
        };
        *sums.entry(name.unwrap_or("not named")).or_default() += number;
    }
    let sum: f64 = sums.values().sum();
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
    let share =
        |(name, bytes): &(&str, f64)| format!("{name} {:.0}%", bytes / sum.max(1.0) * 100.0);
    let shares: Vec<_> = sums.iter().map(share).collect();
    format!("{} in the queue: {}", written_bytes(sum), shares.join(", "))
}

/// A row each; of many, those that come first.
fn each(
    table: &Table,
    filter: &Filter,
    columns: &[Column],
    places: &Places,
    readers: &[Reader],
    (sort, usual): (Option<(usize, bool)>, &[&str]),
) -> (Vec<Row>, usize, String) {
    let by = sort.and_then(|(place, is_descending)| {
        let Source::Measure(name) = columns.get(place)?.source else { return None };
        Some(Order { measure: measure(table, name)?, is_descending })
    });
    // What the store cannot put in order, such as rates, is looked for in what moved last.
    let is_other = sort.is_some() && by.is_none();
    let usual: &[&str] = if is_other { &["last_ns", "first_ns"] } else { usual };
    let fallback = || {
        let name = usual.iter().find_map(|name| measure(table, name))?;
        Some(Order { measure: name, is_descending: true })
    };
    let query = RowsQuery {
        filter: filter.clone(),
        range: TimeRange::default(),
        order: by.or_else(fallback).into_iter().collect(),
        offset: 0,
        limit: ROWS_MAX,
    };
    let found = query.run(&table.view());
    let row = |(rows, at): (&Columns, usize)| Row {
        id: places.id(rows, at),
        subject: places.subject(rows, at),
        values: readers.iter().map(|reader| reader.value(rows, at)).collect(),
        is_warning: false,
    };
    let shown: Vec<Row> = found.each().map(row).collect();
    let note = if is_other && found.matched > shown.len() {
        format!("sorted among the {ROWS_MAX} most recently changed rows")
    } else {
        String::new()
    };
    (shown, found.matched, note)
}

/// What is kept of a flow over its periods.
struct Latest {
    start_ns: i64,
    place: (usize, usize),
    charts: Vec<Vec<(i64, f64)>>,
}

/// The last row of each flow, with charts over its periods.
fn latest(
    table: &Table,
    filter: &Filter,
    places: &Places,
    readers: &[Reader],
) -> (Vec<Row>, usize, String) {
    let held = table.view().latest(PERIOD_ROWS_MAX);
    let start = |rows: &Columns, at| {
        places.start.and_then(|column| cell(rows, column, at).time()).unwrap_or(0)
    };
    let charts: Vec<Option<&Measure>> = readers.iter().map(Reader::chart).collect();
    let mut flows: HashMap<String, Latest> = HashMap::new();
    let (mut newest_ns, mut period_ns) = (i64::MIN, 0);
    let mut starts = BTreeSet::new();
    for (chunk, rows) in held.iter().map(store::RowChunk::columns).enumerate() {
        for at in (0..rows.row_count()).filter(|&at| filter.has(rows, at)) {
            let start_ns = start(rows, at);
            newest_ns = newest_ns.max(start_ns);
            starts.insert(start_ns);
            period_ns = places.period_ns(rows, at).max(period_ns);
            let flow = flows.entry(places.id(rows, at)).or_insert_with(|| Latest {
                start_ns,
                place: (chunk, at),
                charts: vec![Vec::new(); charts.len()],
            });
            // Rows of a segment come in order, those of several do not.
            if start_ns >= flow.start_ns {
                (flow.start_ns, flow.place) = (start_ns, (chunk, at));
            }
            for (values, chart) in flow.charts.iter_mut().zip(&charts) {
                let number = chart.and_then(|measure| measure.cell(rows, at).number());
                values.extend(number.map(|number| (start_ns, number)));
            }
        }
    }
    if period_ns == 0 {
        period_ns = least_gap(&starts);
    }
    let (matched, scale) = (flows.len(), Scale { newest_ns, period_ns });
    let row = |(id, flow): (String, Latest)| {
        let (chunk, at) = flow.place;
        let rows = held.get(chunk)?.columns();
        let is_current = scale.is_current(flow.start_ns);
        let value = |(reader, chart): (&Reader, &Vec<(i64, f64)>)| match reader.chart() {
            Some(_) => Value::Chart(scale.chart(chart)),
            None if is_current || reader.is_lasting() => reader.value(rows, at),
            None => Value::None,
        };
        let values = readers.iter().zip(&flow.charts).map(value).collect();
        Some(Row { id, subject: places.subject(rows, at), values, is_warning: false })
    };
    let shown: Vec<Row> = flows.into_iter().filter_map(row).collect();
    (shown, matched, String::new())
}

/// The length of periods of a table that does not say it; 0 where it cannot be known.
fn least_gap(starts: &BTreeSet<i64>) -> i64 {
    let gaps =
        starts.iter().zip(starts.iter().skip(1)).map(|(one, next)| next.saturating_sub(*one));
    gaps.min().unwrap_or(0)
}

/// The periods of charts: all end with the newest.
struct Scale {
    newest_ns: i64,
    period_ns: i64,
}

impl Scale {
    const fn is_current(&self, start_ns: i64) -> bool {
        self.period_ns == 0
            || self.newest_ns.saturating_sub(start_ns)
                < self.period_ns.saturating_mul(PERIODS_CURRENT)
    }

    /// The last periods, empty where there was no row.
    fn chart(&self, values: &[(i64, f64)]) -> Vec<f64> {
        let mut chart = vec![0.0; PERIODS_MAX];
        for &(start_ns, number) in values {
            let ago = self.newest_ns.saturating_sub(start_ns) / self.period_ns.max(1);
            let place =
                usize::try_from(ago).ok().and_then(|ago| (PERIODS_MAX - 1).checked_sub(ago));
            if let Some(value) = place.and_then(|place| chart.get_mut(place)) {
                *value = number;
            }
        }
        chart
    }
}

/// Where the columns are that say what a row is of.
struct Places {
    id: Option<usize>,
    first: Option<usize>,
    start: Option<usize>,
    period: Option<usize>,
    host: Option<usize>,
    ends: [Option<usize>; 4],
}

impl Places {
    fn of(schema: Schema) -> Self {
        let place = |name: &str| schema.iter().position(|field| field.name == name);
        Self {
            id: place("community_id"),
            first: place("first_ns").or_else(|| place("time_ns")),
            start: place("start_ns"),
            period: place("period_ns"),
            host: place("host"),
            ends: ["src_ip", "src_port", "dst_ip", "dst_port"].map(place),
        }
    }

    fn period_ns(&self, rows: &Columns, at: usize) -> i64 {
        match self.period.map(|column| cell(rows, column, at)) {
            Some(Cell::Integer(ns)) => i64::try_from(ns).unwrap_or(0),
            _ => 0,
        }
    }

    /// The same for all rows of a flow, or of a direction where each has rows.
    fn id(&self, rows: &Columns, at: usize) -> String {
        if let Some(host) = self.host {
            return text(cell(rows, host, at));
        }
        let mut id = self.id.map(|column| text(cell(rows, column, at))).unwrap_or_default();
        let is_of_periods = self.start.is_some();
        for column in self.ends.iter().take(if self.id.is_some() { 2 } else { 4 }).flatten() {
            id.push(' ');
            id.push_str(&text(cell(rows, *column, at)));
        }
        if let Some(first) = self.first.filter(|_| !is_of_periods) {
            id.push(' ');
            id.push_str(&text(cell(rows, first, at)));
        }
        id
    }

    fn subject(&self, rows: &Columns, at: usize) -> Subject {
        if let Some(id) = self.id.and_then(|column| cell(rows, column, at).text()) {
            return Subject::Flow(id.to_owned());
        }
        let [source, _, destination, _] = self.ends;
        let host = self.host.or(destination).or(source);
        let host = host.and_then(|column| cell(rows, column, at).text());
        host.map_or(Subject::None, |host| Subject::Host(host.to_owned()))
    }
}

fn text(cell: Cell<'_>) -> String {
    match cell {
        Cell::Text(text) => text.to_owned(),
        Cell::Integer(value) => value.to_string(),
        Cell::Time(ns) => ns.to_string(),
        _ => String::new(),
    }
}

/// How a value of a column is read from rows of a table.
enum Reader {
    One(Measure),
    FirstOf(Vec<Measure>),
    Ends(Vec<Option<Measure>>),
    Per(Measure, Measure),
    /// Times so much.
    Times(Measure, f64),
    Sum(Vec<Option<Measure>>),
    Largest(Vec<Option<Measure>>),
    Chart(Measure),
    Control(Vec<Option<Measure>>),
    Length(Measure, Measure),
    Later,
}

impl Reader {
    fn of(column: &Column, schema: Schema) -> Self {
        let find = |name: &str| Measure::find(schema, name).ok();
        let both = |one: &str, other: &str, make: fn(Measure, Measure) -> Self| {
            find(one).zip(find(other)).map_or(Self::Later, |(one, other)| make(one, other))
        };
        match column.source {
            Source::Measure(name) => find(name).map_or(Self::Later, Self::One),
            Source::Service => {
                let names = ["server_name", "resolved_name", "label", "dns_query", "app_protocol"];
                Self::FirstOf(names.iter().filter_map(|name| find(name)).collect())
            }
            Source::Ends => {
                let names = ["host", "src_ip", "src_port", "dst_ip", "dst_port"];
                Self::Ends(names.map(find).into())
            }
            Source::PerPeriod(name) => both(name, "period_ns", Self::Per),
            Source::Chart(name) => find(name).map_or(Self::Later, Self::Chart),
            Source::Control => Self::Control(["control", "confidence", "unnamed"].map(find).into()),
            Source::Length => both("first_ns", "last_ns", Self::Length),
            Source::Sum(names) => Self::Sum(names.iter().map(|name| find(name)).collect()),
            Source::Largest(names) => Self::Largest(names.iter().map(|name| find(name)).collect()),
            Source::PerWindow(_) | Source::Growth | Source::Own => Self::Later,
        }
    }

    /// A column over the length of windows, in seconds.
    fn per_window(name: &str, length_ns: i64, schema: Schema) -> Self {
        let per_second = 1.0 / packet::Span::from_ns(length_ns).as_seconds_f64();
        let measure = Measure::find(schema, name).ok();
        measure.map_or(Self::Later, |measure| Self::Times(measure, per_second))
    }

    const fn chart(&self) -> Option<&Measure> {
        match self {
            Self::Chart(measure) => Some(measure),
            _ => None,
        }
    }

    /// Whether it holds of a flow that sends nothing now.
    const fn is_lasting(&self) -> bool {
        matches!(self, Self::Ends(_) | Self::Control(_) | Self::FirstOf(_))
    }

    fn value(&self, rows: &Columns, at: usize) -> Value {
        let read = |measure: &Measure| Value::of(measure.cell(rows, at));
        let of = |measure: &Option<Measure>| measure.as_ref().map_or(Value::None, read);
        match self {
            Self::One(measure) => read(measure),
            Self::FirstOf(measures) => {
                let found = measures.iter().map(read).find(|value| *value != Value::None);
                found.unwrap_or(Value::None)
            }
            Self::Ends(measures) => ends(&measures.iter().map(of).collect::<Vec<_>>()),
            Self::Per(amount, period) => match (read(amount).number(), read(period).number()) {
                (Some(amount), Some(ns)) if ns > 0.0 => Value::Number(amount * 1e9 / ns),
                _ => Value::None,
            },
            Self::Times(measure, factor) => {
                read(measure).number().map_or(Value::None, |number| Value::Number(number * factor))
            }
            Self::Sum(measures) => {
                let numbers = measures.iter().map(|measure| of(measure).number());
                numbers.sum::<Option<f64>>().map_or(Value::None, Value::Number)
            }
            Self::Largest(measures) => {
                let numbers = measures.iter().filter_map(|measure| of(measure).number());
                numbers.reduce(f64::max).map_or(Value::None, Value::Number)
            }
            Self::Control(measures) => match measures.iter().map(of).collect::<Vec<_>>().as_slice()
            {
                [Value::Text(control), Value::Number(confidence), ..] => {
                    Value::Text(format!("{control} {confidence:.2}"))
                }
                [Value::Text(control), ..] => Value::Text(control.clone()),
                [_, _, Value::Text(unnamed)] => Value::Text(format!("({unnamed})")),
                _ => Value::None,
            },
            Self::Length(first, last) => match (read(first).number(), read(last).number()) {
                (Some(first), Some(last)) => Value::Number(last - first),
                _ => Value::None,
            },
            Self::Chart(_) | Self::Later => Value::None,
        }
    }
}

/// The sign between both ends: replaced when drawn, as not every terminal has an arrow.
pub(crate) const ARROW: char = '→';

/// Both ends of a flow as one text; the host or the one address where there is only that.
fn ends(values: &[Value]) -> Value {
    let end = |address: &Value, port: &Value| {
        let Value::Text(address) = address else { return None };
        Some(match port {
            Value::Number(port) if address.contains(':') => format!("[{address}]:{port}"),
            Value::Number(port) => format!("{address}:{port}"),
            _ => address.clone(),
        })
    };
    let [host, src_ip, src_port, dst_ip, dst_port] = values else { return Value::None };
    match (end(src_ip, src_port), end(dst_ip, dst_port)) {
        (Some(source), Some(destination)) => Value::Text(format!("{source} {ARROW} {destination}")),
        (Some(one), None) | (None, Some(one)) => Value::Text(one),
        (None, None) => host.clone(),
    }
}
