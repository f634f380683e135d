//! `wirelens packetlog stats`: how much was seen and kept of each class.

use std::io::{self, Write as _};

use comfy_table::{CellAlignment, Table, presets};
use packetlog::log::{Log, LogStats, Query};
use session::packetlog::{REASONS, ReasonListing, STATS, Why, stats_columns};
use session::run::Jail;

use super::args::StatsArguments;
use super::query;
use crate::args::OutputFormat;
use crate::failure::{Failure, Status};
use crate::output::{self, Rows, Show};
use crate::run::tell_line;
use crate::table;
use crate::top::grouped;

/// Runs `wirelens packetlog stats`.
pub(super) fn run(arguments: &StatsArguments) -> Result<Status, Failure> {
    let show = output::show(&arguments.output)?;
    let hosts = arguments.host.clone();
    let query = Query { hosts, flow: query::flow(arguments.flow.as_deref())?, ..Query::default() };
    let schema = if arguments.why.is_some() { REASONS } else { STATS };
    let rows = match show {
        Show::Table => None,
        Show::Rows(format) => Some(output::create(&arguments.output, format, schema)?),
    };
    Jail::unless(arguments.log.no_jail).enter_for_folder(&arguments.log.at.folder, tell_line);
    let log = Log::open(&arguments.log.at.folder).map_err(Failure::error)?;
    if let Some(what) = arguments.why {
        return why(&log, &query, what, rows);
    }
    let stats = log.stats();
    match rows {
        None => io::stdout().write_all(text(&stats).as_bytes())?,
        Some(mut rows) => {
            rows.write(&stats_columns(&stats).map_err(Failure::error)?)?;
            rows.finish()?;
        }
    }
    if stats.file_count == 0 {
        super::tell_empty(&arguments.log.at.folder, false);
    }
    for fault in log.faults().chain(log.side_faults()) {
        eprintln!("wirelens: {fault}");
    }
    let is_whole = log.faults().chain(log.side_faults()).next().is_none();
    Ok(if is_whole { Status::Fine } else { Status::Damaged })
}

/// Prints why packets were marked.
fn why(log: &Log, query: &Query, what: Why, rows: Option<Rows>) -> Result<Status, Failure> {
    let mut listing = ReasonListing::new(what);
    let report = log.reasons(query, |found| listing.add(found));
    match rows {
        None if listing.is_empty() => {}
        None => output::list(&listing.shown().map_err(Failure::error)?, OutputFormat::Table)?,
        Some(mut rows) => {
            rows.write(&listing.columns().map_err(Failure::error)?)?;
            rows.finish()?;
        }
    }
    eprint!("{}", table::broken(&listing.notes(report.file_count, query)));
    for fault in &report.faults {
        eprintln!("wirelens: {fault}");
    }
    Ok(if report.faults.is_empty() { Status::Fine } else { Status::Damaged })
}

fn text(stats: &LogStats) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let header =
        ["class", "seen", "kept", "lost", "in the log", "bytes seen", "bytes kept", "share"];
    table.set_header(header);
    let total = stats.total();
    let rows = stats.classes.iter().map(|class| (class.name.as_str(), class.sums));
    for (name, sums) in rows.chain([("all", total)]) {
        let kept_bytes = sums.kept_bytes.saturating_add(sums.overwritten_bytes);
        table.add_row([
            name.to_owned(),
            grouped(sums.seen_packets),
            grouped(sums.stored_packets.saturating_add(sums.overwritten_packets)),
            grouped(sums.lost_packets),
            grouped(sums.stored_packets),
            grouped(sums.seen_bytes),
            grouped(kept_bytes),
            percent(kept_bytes, sums.seen_bytes),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let least = ["lost", "in the log", "bytes seen", "seen"];
    let mut text = table::fitted(&mut table, &least);
    text.push('\n');
    text.push_str(&table::broken(&of_files(stats)));
    if total.overwritten_packets > 0 {
        text.push_str(&format!(
            "{} packets were stored and are deleted: to make room, for their age, or by a user\n",
            grouped(total.overwritten_packets)
        ));
    }
    if let Some(ledger) = &stats.ledger {
        text.push_str(&table::broken(&session::packetlog::ledger_lines(ledger)));
    }
    if total.lost_packets > 0 {
        let known: u64 = stats.lost.iter().fold(0, |sum, (_, lost)| sum.saturating_add(*lost));
        let unknown = total.lost_packets.saturating_sub(known);
        let causes = stats.lost.iter().map(|(cause, lost)| (cause.name(), *lost));
        let causes = causes.chain((unknown > 0).then_some(("cause not recorded", unknown)));
        let causes: Vec<_> =
            causes.map(|(name, lost)| format!("{name} {}", grouped(lost))).collect();
        let (lost, causes) = (grouped(total.lost_packets), causes.join(", "));
        text.push_str(&format!("{lost} packets that should be stored are lost: {causes}\n"));
    }
    if stats.ring_lost > 0 {
        text.push_str(&format!(
            "{} packets were dropped by the capture before the log received them\n",
            grouped(stats.ring_lost)
        ));
    }
    if !stats.is_whole && stats.file_count > 0 {
        text.push_str(
            "this log has neither account nor ledger: losses and deletions are only partly known\n",
        );
    }
    text
}

/// When its packets are from, and what its files take.
fn of_files(stats: &LogStats) -> String {
    let share = stats.share().map_or(String::from("-"), |share| format!("{:.2} %", share * 100.0));
    let span = match (stats.first, stats.last) {
        (Some(first), Some(last)) => format!("{first} to {last}"),
        _ => String::from("no packet yet"),
    };
    let sums = format!(
        "{span}\n{} files ({} compressed), {} bytes: {share} of what was seen\n",
        stats.file_count,
        stats.compressed_count,
        grouped(stats.bytes),
    );
    let of_these = [
        ("bytes of index", stats.index_bytes),
        ("of reasons", stats.reason_bytes),
        ("of the account", stats.account_bytes),
        ("of the ledger", stats.ledger_bytes),
        ("of events", stats.event_bytes),
    ];
    let of_these = of_these.map(|(what, bytes)| format!("{} {what}", grouped(bytes)));
    format!("{sums}of these {}\n", of_these.join(", "))
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return String::from("-");
    }
    // Of numbers so large no digit matters that is lost.
    format!("{:.2} %", part as f64 / whole as f64 * 100.0)
}
