//! What Prometheus reads: OpenMetrics text.
//!
//! No label holds an address, a name or a flow: labels are causes, stages and tables, of which
//! there are few.

use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use store::{Count, CountKind, Spread};

use crate::app::App;

/// The type of the text, which Prometheus insists on.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Series at most; what is beyond is left out, and counted.
const SERIES_MAX: usize = 2_000;

/// All metrics.
pub(crate) fn text(app: &App) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Collector(families(app))));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

/// Counts of one name.
#[derive(Debug)]
struct Family {
    name: String,
    about: &'static str,
    kind: CountKind,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    labels: Vec<(&'static str, String)>,
    value: f64,
    spread: Option<Spread>,
}

fn families(app: &App) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    // The last is that of what is left out.
    let (mut series, mut left_out) = (1, 0);
    // Of too many, those of applications are left out.
    for (application, counts) in own(app).into_iter().chain(app.store.counts()) {
        for count in counts {
            // Of a histogram each bucket, the sum and how many there are.
            let wanted = count.spread.as_ref().map_or(1, |spread| spread.counts.len() + 2);
            if series + wanted > SERIES_MAX {
                left_out += wanted as u64;
                continue;
            }
            series += wanted;
            add(&mut families, application, count);
        }
    }
    let about = "Series beyond the limit of a scrape.";
    #[allow(clippy::cast_precision_loss)]
    add(&mut families, "server", Count::gauge("series_left_out", about, left_out as f64));
    families
}

fn add(families: &mut Vec<Family>, application: &str, count: Count) {
    let Count { name, about, kind, labels, value, spread } = count;
    let name = full_name(application, name);
    let sample = Sample { labels, value, spread };
    match families.iter_mut().find(|family| family.name == name) {
        Some(family) => family.samples.push(sample),
        None => families.push(Family { name, about, kind, samples: vec![sample] }),
    }
}

/// What the run counts of itself has no other prefix; what the process does has the names that
/// Prometheus' own libraries give it.
fn full_name(application: &str, name: &str) -> String {
    match application {
        "run" => format!("wirelens_{name}"),
        "process" => format!("process_{name}"),
        _ => format!("wirelens_{application}_{name}"),
    }
}

/// What the server says of the run, of tables and of itself.
#[allow(clippy::cast_precision_loss)]
fn own(app: &App) -> Vec<(&'static str, Vec<Count>)> {
    use std::sync::atomic::Ordering::Relaxed;
    let run = vec![
        Count::gauge("build_info", "The version.", 1.0).with("version", app.facts.version),
        Count::gauge("run_over", "Whether all input was read.", f64::from(app.store.is_over())),
        Count::gauge(
            "event_time_seconds",
            "Latest event time, since the epoch.",
            app.store.time_ns().map_or(f64::NAN, |ns| ns as f64 / 1e9),
        ),
    ];
    let mut tables = Vec::new();
    for table in app.store.tables() {
        let state = table.state();
        let name = table.name().to_owned();
        let of = |count: Count| count.with("table", name.clone());
        tables.extend([
            of(Count::gauge("rows_kept", "Rows in memory.", state.row_count as f64)),
            of(Count::gauge("memory_bytes", "Memory of these rows.", state.byte_count as f64)),
            of(Count::total("rows_evicted", "Rows evicted by later ones.", state.evicted)),
        ]);
    }
    let served = &app.served;
    let open = served.connections_open.load(Relaxed) as f64;
    let waiting = app.answer_bytes.waiting() as f64;
    let server = vec![
        Count::total("requests", "HTTP requests.", served.requests.load(Relaxed)),
        Count::total("requests_refused", "Requests refused.", served.refused.load(Relaxed)),
        Count::total("connections", "Connections accepted.", served.connections.load(Relaxed)),
        Count::total(
            "connections_refused",
            "Connections beyond the limit.",
            served.connections_refused.load(Relaxed),
        ),
        Count::gauge("connections_open", "Open connections.", open),
        Count::gauge("answer_bytes_waiting", "Bytes of answers not taken by clients.", waiting),
    ];
    let refused = [
        ("queries", &served.queries_refused),
        ("bytes", &served.bytes_refused),
        ("time", &served.queries_late),
    ];
    let refused = refused.map(|(cause, count)| {
        Count::total("answers_refused", "Answers refused.", count.load(Relaxed))
            .with("cause", cause)
    });
    let cut = [("request", &served.slow_requests), ("answer", &served.slow_answers)];
    let cut = cut.map(|(cause, count)| {
        let about = "Connections closed as their clients were slow.";
        Count::total("connections_cut", about, count.load(Relaxed)).with("cause", cause)
    });
    let server = server.into_iter().chain(refused).chain(cut).collect();
    let started = app.started_ns as f64 / 1e9;
    let started = Count::gauge("start_time_seconds", "Start time of the server.", started);
    vec![("run", run), ("process", vec![started]), ("store", tables), ("server", server)]
}

#[derive(Debug)]
struct Collector(Vec<Family>);

impl prometheus_client::collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for Family { name, about, kind, samples } in &self.0 {
            let metric_type = match kind {
                CountKind::Counter => MetricType::Counter,
                CountKind::Gauge => MetricType::Gauge,
                CountKind::Histogram => MetricType::Histogram,
            };
            let help = about.trim_end_matches('.');
            let mut metric = encoder.encode_descriptor(name, help, None, metric_type)?;
            for sample in samples {
                if sample.labels.is_empty() {
                    push(&mut metric, *kind, sample)?;
                } else {
                    push(&mut metric.encode_family(&sample.labels)?, *kind, sample)?;
                }
            }
        }
        Ok(())
    }
}

fn push(
    metric: &mut MetricEncoder<'_>,
    kind: CountKind,
    sample: &Sample,
) -> Result<(), fmt::Error> {
    let Sample { value, spread, .. } = sample;
    match (kind, spread) {
        (CountKind::Counter, _) => metric.encode_counter::<NoLabelSet, f64, f64>(value, None),
        (CountKind::Histogram, Some(Spread { bounds, counts, sum })) => {
            let ends = bounds.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<_> = ends.zip(counts.iter().copied()).collect();
            let count = counts.iter().sum();
            metric.encode_histogram::<NoLabelSet>(*sum, count, &buckets, None)
        }
        (CountKind::Gauge | CountKind::Histogram, _) => metric.encode_gauge(value),
    }
}
