//! Whether all is well: losses, limits, resources.

use std::fmt::Write as _;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use store::Count;
use utoipa::ToSchema;

use super::state::{HistoryAbout, RunState};
use crate::app::App;
use crate::problem::Problem;

/// Health of the run.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`, or `degraded` where any check is not.
    status: &'static str,
    /// What was examined.
    checks: Vec<Check>,
    /// Seconds since the server began.
    uptime_s: f64,
    /// Resident memory of the process.
    memory_bytes: Option<u64>,
    /// Processor time of the process so far.
    cpu_seconds: Option<f64>,
    /// What is in memory, by table.
    tables: Vec<TableHealth>,
}

/// A check.
#[derive(Serialize, ToSchema)]
struct Check {
    /// What is examined.
    name: &'static str,
    /// `ok`, `warning` or `error`.
    status: &'static str,
    /// What was seen.
    seen: String,
    /// What is wanted, or what to try.
    wanted: &'static str,
}

/// A table in memory.
#[derive(Serialize, ToSchema)]
struct TableHealth {
    name: String,
    rows: usize,
    evicted: u64,
    bytes: usize,
    /// Rows for which the queue to their writer had no room.
    dropped: u64,
}

/// Losses, limits and resources.
#[utoipa::path(
    get,
    path = "/api/v1/health",
    tag = "run",
    responses(
        (status = 200, description = "Health of the run", body = Health),
        (status = 503, description = "Too many bytes of answers wait", body = Problem)
    )
)]
pub(super) async fn health(State(app): State<App>) -> Json<Health> {
    let state = RunState::now(&app, false);
    let counts = app.store.counts();
    let dropped_rows = |name: &str| {
        let of = counts.iter().filter(|(application, _)| *application == name);
        let rows = of.flat_map(|(_, counts)| counts).filter(|count| count.name == "rows_dropped");
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        rows.map(|count| count.value as u64).sum::<u64>()
    };
    let tables: Vec<_> = app
        .store
        .tables()
        .iter()
        .map(|table| {
            let held = table.state();
            TableHealth {
                name: table.name().to_owned(),
                rows: held.row_count,
                evicted: held.evicted,
                bytes: held.byte_count,
                dropped: dropped_rows(table.name()),
            }
        })
        .collect();
    let rows_dropped: u64 = tables.iter().map(|table| table.dropped).sum();
    let checks = vec![
        share(
            "packets dropped by the capture",
            state.packets.dropped,
            state.packets.received,
            "none; try a larger ring buffer (buffer-size), a filter, or a smaller snaplen",
        ),
        share(
            "malformed packets",
            state.packets.malformed,
            state.packets.received,
            "few; `wirelens info` lists the causes",
        ),
        Check {
            name: "rows dropped on the way out",
            status: if rows_dropped == 0 { "ok" } else { "error" },
            seen: rows_dropped.to_string(),
            wanted: "none; a faster disk, or fewer rows",
        },
    ];
    let others = broker(&counts).into_iter().chain(sensors(&counts)).chain(worker(&counts));
    let others = others.chain(losses(&counts));
    let of_run = drill(&state.drills).into_iter().chain(stored(state.history.as_ref()));
    let checks: Vec<_> = checks.into_iter().chain(of_run).chain(others).collect();
    let is_well = checks.iter().all(|check| check.status == "ok");
    #[allow(clippy::cast_precision_loss)]
    let uptime_s = ((app.facts.now_ns)() - app.started_ns) as f64 / 1e9;
    let of_process = |name: &str| {
        let of = counts.iter().filter(|(application, _)| *application == "process");
        of.flat_map(|(_, counts)| counts).find(|count| count.name == name).map(|count| count.value)
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let memory_bytes = of_process("resident_memory_bytes").map(|bytes| bytes as u64);
    let cpu_seconds = of_process("cpu_seconds");
    Json(Health {
        status: if is_well { "ok" } else { "degraded" },
        checks,
        uptime_s,
        memory_bytes,
        cpu_seconds,
        tables,
    })
}

/// Faults that are made on purpose.
fn drill(names: &[String]) -> Option<Check> {
    (!names.is_empty()).then(|| Check {
        name: "drill",
        status: "warning",
        seen: names.join(", "),
        wanted: "none; start the run without --simulate",
    })
}

/// Whether what is to be stored is stored.
fn stored(history: Option<&HistoryAbout>) -> Option<Check> {
    let history = history?;
    let is_well = history.missed_rows == 0 && history.trouble.is_none();
    let trouble = history.trouble.as_ref().map_or_else(String::new, |why| format!("; {why}"));
    Some(Check {
        name: "rows that could not be stored",
        status: if is_well { "ok" } else { "error" },
        seen: format!("{}{trouble}", history.missed_rows),
        wanted: "none; check the disk of [history] and its permissions",
    })
}

/// Losses that make the exit status 1, and applications that have ended before the run.
fn losses(counts: &[(&'static str, Vec<Count>)]) -> Vec<Check> {
    let of_alerts = sums(counts, "alerts");
    let of_log = sums(counts, "packetlog");
    let total = |name: &str| {
        let all = counts.iter().flat_map(|(_, counts)| counts);
        all.filter(|count| count.name == name).map(|count| count.value).sum::<f64>()
    };
    let device = counts.iter().filter(|(application, _)| *application == "run");
    let device = device.flat_map(|(_, counts)| counts).filter(|count| {
        count.name == "packets_dropped"
            && count.labels.iter().any(|(_, value)| value == "interface")
    });
    let (device, stopped) = (device.map(|count| count.value).sum::<f64>(), total("stopped"));
    let none = |name, seen: f64, wanted| Check {
        name,
        status: if seen > 0.0 { "error" } else { "ok" },
        seen: seen.to_string(),
        wanted,
    };
    let device = (device > 0.0).then(|| {
        let wanted = "none; the card or its driver lost them: try ethtool -G, or `wirelens doctor`";
        none("packets dropped by the device", device, wanted)
    });
    let failed = (total("rows_failed") > 0.0).then(|| {
        none("rows that could not be written", total("rows_failed"), "none; check the disk")
    });
    let stopped = (stopped > 0.0).then(|| {
        none(
            "applications stopped by a fault",
            stopped,
            "none; the output of the run has the reason",
        )
    });
    let log = of_log.map(|sum| {
        let wanted = "none; check the disk of [packetlog] and its keep-bytes";
        none("packets that the packet log lost", sum("packets_lost"), wanted)
    });
    let alerts = of_alerts.map(|sum| {
        let lost = sum("notify_failed") + sum("notify_dropped") + sum("rows_missed");
        let wanted = "none; /metrics has the destination: wirelens_alerts_notify_…";
        none("alerts not delivered, or rows not checked", lost, wanted)
    });
    [device, failed, stopped, log, alerts].into_iter().flatten().collect()
}

/// Sums over labels of what an application counts, by name; nothing where there is none.
fn sums(counts: &[(&'static str, Vec<Count>)], application: &str) -> Option<impl Fn(&str) -> f64> {
    let (_, counts) = counts.iter().find(|(name, _)| *name == application)?;
    Some(|name: &str| {
        let of = counts.iter().filter(|count| count.name == name);
        of.map(|count| count.value).sum::<f64>()
    })
}

/// Whether sensors are heard and all of their rows came, where others' results are shown.
fn sensors(counts: &[(&'static str, Vec<Count>)]) -> Option<Check> {
    let sum = sums(counts, "sensors")?;
    let (known, silent, missing) = (sum("known"), sum("silent"), sum("rows_missing"));
    let (shared, clocks_off) = (sum("shared"), sum("clocks_off"));
    let is_connected = sum("connected") > 0.0;
    let status = match (is_connected && known > 0.0, missing > 0.0) {
        (_, true) => "error",
        (true, false) if silent + shared + clocks_off == 0.0 => "ok",
        _ => "warning",
    };
    let state = if is_connected { "connected" } else { "away" };
    let mut seen =
        format!("broker {state}; {known} heard, {silent} silent; {missing} rows missing");
    for (count, what) in [(shared, "names shared by several runs"), (clocks_off, "clocks differ")] {
        if count > 0.0 {
            let _ = write!(seen, "; {count} {what}");
        }
    }
    Some(Check {
        name: "sensors",
        status,
        seen,
        wanted: "all heard, each by a name of its own, with clocks that agree, and no row missing; \
                 the table `sensors` has each of them",
    })
}

/// Whether a worker is reached and keeps up.
fn worker(counts: &[(&'static str, Vec<Count>)]) -> Option<Check> {
    let sum = sums(counts, "worker")?;
    let (_, counts) = counts.iter().find(|(name, _)| *name == "worker")?;
    let of = |outcome: &str| {
        let is_it = |count: &&Count| count.labels.iter().any(|(_, value)| value == outcome);
        counts.iter().find(is_it).map_or(0.0, |count| count.value)
    };
    let missed = of("late") + of("busy") + of("failed");
    let is_connected = sum("connected") > 0.0;
    let state = if is_connected { "connected" } else { "away" };
    Some(Check {
        name: "rows of sensors",
        status: if is_connected && missed == 0.0 { "ok" } else { "warning" },
        seen: format!(
            "broker {state}; {} rows answered, {missed} messages not in time",
            sum("rows_answered")
        ),
        wanted: "connected, and all in time; try more threads, or more workers",
    })
}

/// Whether rows reach the broker, where they are published.
fn broker(counts: &[(&'static str, Vec<Count>)]) -> Option<Check> {
    let sum = sums(counts, "nats")?;
    let (is_connected, lost) = (sum("connected") > 0.0, sum("rows_lost"));
    let status = match (is_connected, lost > 0.0) {
        (true, false) => "ok",
        (false, false) => "warning",
        (_, true) => "error",
    };
    let state = if is_connected { "connected" } else { "away" };
    Some(Check {
        name: "broker of [nats]",
        status,
        seen: format!("{state}; {lost} rows lost, {} waiting", sum("rows_waiting")),
        wanted: "connected, and no row lost; check the broker and the network to it",
    })
}

/// A loss, as a share: up to a thousandth it is a warning.
fn share(name: &'static str, lost: u64, of: u64, wanted: &'static str) -> Check {
    let status = match lost {
        0 => "ok",
        _ if lost.saturating_mul(1_000) <= of => "warning",
        _ => "error",
    };
    Check { name, status, seen: format!("{lost} of {of}"), wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_of_any_kind_is_no_good_health() {
        let none = [("packetlog", Vec::new()), ("alerts", Vec::new()), ("run", Vec::new())];
        let found = losses(&none);
        assert_eq!(found.len(), 2, "those of applications that run");
        assert!(found.iter().all(|check| check.status == "ok"));
        for (application, name) in [
            ("packetlog", "packets_lost"),
            ("alerts", "notify_failed"),
            ("alerts", "notify_dropped"),
            ("alerts", "rows_missed"),
            ("flows", "rows_failed"),
            ("cca", "stopped"),
        ] {
            let counts = [(application, vec![Count::total(name, "", 3)])];
            let bad: Vec<_> =
                losses(&counts).into_iter().filter(|check| check.status == "error").collect();
            assert_eq!(bad.len(), 1, "{application} {name}");
            assert_eq!(bad[0].seen, "3");
        }
        let dropped = |cause: &str| {
            let count = Count::total("packets_dropped", "", 5);
            vec![Count { labels: vec![("cause", cause.to_owned())], ..count }]
        };
        assert_eq!(losses(&[("run", dropped("interface"))]).len(), 1);
        assert!(losses(&[("run", dropped("ring_full"))]).is_empty(), "it has a check of its own");
    }
}
