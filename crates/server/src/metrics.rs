//! What Prometheus reads: OpenMetrics text.
//!
//! No label holds an address, a name or a flow: labels are causes, stages and tables, of which
//! there are few.

use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use store::{Count, CountKind};

use crate::app::App;

/// The type of the text, which Prometheus insists on.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Series at most; more than that is a mistake of ours, and is cut.
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
    samples: Vec<(Vec<(&'static str, String)>, f64)>,
}

fn families(app: &App) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    let mut series = 0;
    let of_applications = app.store.counts().into_iter();
    for (application, counts) in of_applications.chain(own(app)) {
        for Count { name, about, kind, labels, value } in counts {
            series += 1;
            if series > SERIES_MAX {
                return families;
            }
            let prefix = if application.is_empty() { "" } else { "_" };
            let name = format!("wirelens{prefix}{application}_{name}");
            match families.iter_mut().find(|family| family.name == name) {
                Some(family) => family.samples.push((labels, value)),
                None => families.push(Family { name, about, kind, samples: vec![(labels, value)] }),
            }
        }
    }
    families
}

/// What the server says of the run, of tables and of itself.
#[allow(clippy::cast_precision_loss)]
fn own(app: &App) -> Vec<(&'static str, Vec<Count>)> {
    use std::sync::atomic::Ordering::Relaxed;
    let (received, dropped) = (app.facts.packets)();
    let run = vec![
        Count::gauge("build_info", "The version.", 1.0).with("version", app.facts.version),
        Count::total("packets_received", "Packets received by the capture.", received),
        Count::total("packets_dropped", "Packets lost before they were looked at.", dropped)
            .with("stage", "capture"),
        Count::gauge("run_over", "Whether all input was read.", f64::from(app.store.is_over())),
        Count::gauge(
            "event_time_seconds",
            "How far event time has come, since the epoch.",
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
            of(Count::total("rows_evicted", "Rows that went for later ones.", state.evicted)),
        ]);
    }
    let served = &app.served;
    let open = served.connections_open.load(Relaxed) as f64;
    let server = vec![
        Count::total("requests", "HTTP requests.", served.requests.load(Relaxed)),
        Count::total("requests_refused", "Requests refused.", served.refused.load(Relaxed)),
        Count::total("connections", "Connections accepted.", served.connections.load(Relaxed)),
        Count::total(
            "connections_refused",
            "Connections beyond the limit.",
            served.connections_refused.load(Relaxed),
        ),
        Count::gauge("connections_open", "Connections that are open.", open),
    ];
    vec![("", run), ("store", tables), ("server", server)]
}

#[derive(Debug)]
struct Collector(Vec<Family>);

impl prometheus_client::collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for Family { name, about, kind, samples } in &self.0 {
            let metric_type = match kind {
                CountKind::Counter => MetricType::Counter,
                CountKind::Gauge => MetricType::Gauge,
            };
            let help = about.trim_end_matches('.');
            let mut metric = encoder.encode_descriptor(name, help, None, metric_type)?;
            for (labels, value) in samples {
                if labels.is_empty() {
                    push(&mut metric, *kind, *value)?;
                } else {
                    push(&mut metric.encode_family(labels)?, *kind, *value)?;
                }
            }
        }
        Ok(())
    }
}

fn push(metric: &mut MetricEncoder<'_>, kind: CountKind, value: f64) -> Result<(), fmt::Error> {
    match kind {
        CountKind::Counter => metric.encode_counter::<NoLabelSet, f64, f64>(&value, None),
        CountKind::Gauge => metric.encode_gauge(&value),
    }
}
