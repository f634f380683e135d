//! The recorder's end of a command: from what was typed to options, and from counters to lines.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use packet::Span;
use packet::file::Section;
use packetlog::features::{PlaceCounts, StateCounts};
use packetlog::log::RecoveryReport;
use packetlog::own::Access;
use packetlog::pipeline::TallyNow;
use packetlog::reasons::{ColumnNames, ReasonTally};
use packetlog::recorder::{
    self, Cause, ClassInfo, Disk, Recorder, RecorderOptions, RecorderReport, RecorderState,
};
use packetlog::{ClassifierCounts, Model};
use serde_json::{Value, json};

use super::LogError;
use super::desk::{Gauges, Writer};
use super::files::{Direct, Encoding, FileSettings, Notes, WhenFull};
use super::offload::KernelHalf;
use super::settings::Settings;
use crate::clock::Clock;
use crate::drills::SlowDisk;

/// Opens the log, and puts right what an earlier recorder left.
pub fn create(
    folder: &Path,
    files: &FileSettings,
    settings: &Settings,
    model: &Model,
    clock: Clock,
    is_live: bool,
    slow: Option<SlowDisk>,
) -> Result<(Recorder, RecoveryReport), LogError> {
    if slow.is_some() && files.direct == Direct::Always {
        let why = "has no effect on writes around the page cache, which direct = \"always\" asks \
                   for; leave one of them out";
        return Err(LogError::usage(format_args!("simulate slow-disk: {why}")));
    }
    let disk = slow.map(|slow| -> Box<dyn Disk> { Box::new(slow) });
    let classes: Vec<_> = model
        .classes()
        .iter()
        .enumerate()
        .map(|(index, name)| ClassInfo {
            name: name.clone(),
            priority: settings.priority(index, name),
        })
        .collect();
    let section = Section { application: String::from("wirelens"), ..Section::default() };
    let columns = ColumnNames::of(model);
    let options = RecorderOptions { columns, ..options(folder, files, is_live)? };
    let created = Recorder::create_on(options, &classes, &section, clock.monotonic, disk);
    created.map_err(LogError::error)
}

fn options(
    folder: &Path,
    files: &FileSettings,
    is_live: bool,
) -> Result<RecorderOptions, LogError> {
    let time = |span: Span| Duration::from_nanos(u64::try_from(span.as_ns()).unwrap_or(0));
    let usual = RecorderOptions::new(folder);
    Ok(RecorderOptions {
        file_len_max: files.file_bytes,
        file_span_max: Some(files.file_time),
        chunk_len: block_len(files)?,
        chunk_count: files.blocks.into(),
        flush_after: time(files.flush),
        direct: match files.direct {
            Direct::Auto => recorder::Direct::Auto,
            Direct::Never => recorder::Direct::Never,
            Direct::Always => recorder::Direct::Always,
        },
        keep_bytes_max: files.keep_bytes,
        keep_age_max: files.keep_time,
        when_full: match files.when_full {
            WhenFull::Stop => recorder::WhenFull::Stop,
            WhenFull::Overwrite => recorder::WhenFull::OverwriteUnimportant,
        },
        sync: files.sync,
        compress: files.compress,
        // A capture can wait for the disk, a link cannot.
        waits: !is_live,
        // Who reads captures waits for the disk; a service that is stopped does so for a while.
        sync_wait: if is_live { usual.sync_wait } else { Duration::MAX },
        stops: !is_live,
        access: access(files),
        anchor: files.anchor.clone(),
        notes: match files.notes {
            Notes::Option => recorder::Notes::Option,
            Notes::Comment => recorder::Notes::Comment,
        },
        encoding: match files.encoding {
            Encoding::Pcapng => recorder::Encoding::Pcapng,
            Encoding::Compact => recorder::Encoding::Compact,
        },
        ..usual
    })
}

/// Bytes of a block, where memory holds as many blocks as are asked for.
///
/// # Errors
/// [`LogError::Usage`]
pub(super) fn block_len(files: &FileSettings) -> Result<usize, LogError> {
    let Ok(len) = usize::try_from(files.block_bytes) else {
        return Err(LogError::usage("--block-bytes: too large for this machine"));
    };
    let memory = files.block_bytes.saturating_mul(files.blocks.into());
    if let Some(available) = memory_available().filter(|&available| memory > available) {
        return Err(LogError::usage(format_args!(
            "--blocks {} of {} bytes: {memory} bytes of memory; wanted: at most the {available} \
             that are available here",
            files.blocks, files.block_bytes
        )));
    }
    Ok(len)
}

/// Who may read the log.
pub const fn access(files: &FileSettings) -> Access {
    if files.group_readable { Access::Group } else { Access::Owner }
}

/// What was repaired, if anything was.
pub fn recovered_line(recovered: &RecoveryReport) -> Option<String> {
    let told = [
        (recovered.indexes_made, "indexes rebuilt"),
        (recovered.chunks_found, "blocks missing from the index"),
        (recovered.chunks_mended, "torn blocks repaired"),
        (recovered.packets_saved, "packets recovered from them"),
        (recovered.bytes_lost, "damaged bytes cut off at the end"),
        (recovered.files_deleted, "files without a packet deleted"),
        (recovered.faults, "places without a valid block, skipped"),
    ];
    let told: Vec<_> = told
        .into_iter()
        .filter(|&(count, _)| count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// Bytes of memory that this machine has left, where it tells.
fn memory_available() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = told.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// What the desk sees of a recorder.
pub struct Watcher {
    state: Arc<RecorderState>,
    reasons: Arc<ReasonTally>,
    /// Bytes that the log may fill, where that ends it before the disk does.
    bytes_max: Option<u64>,
    /// The half in the kernel, where there is one.
    kernel: Option<Arc<KernelHalf>>,
}

impl Watcher {
    /// Of a log that is written so.
    #[must_use]
    pub(super) fn new(
        state: Arc<RecorderState>,
        reasons: Arc<ReasonTally>,
        files: &FileSettings,
        kernel: Option<Arc<KernelHalf>>,
    ) -> Self {
        Self { state, reasons, bytes_max: files.keep_bytes, kernel }
    }
}

impl Writer for Watcher {
    fn gauges(&self) -> Gauges {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        // Of numbers so large no digit matters that is lost.
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let (free, total) = (of(&self.state.disk_free), of(&self.state.disk_total));
        let disk = if total == 0 { 1.0 } else { share(free, total) };
        let log = self.bytes_max.map_or(1.0, |max| 1.0 - share(of(&self.state.log_bytes), max));
        Gauges {
            disk_free: disk.min(log).max(0.0),
            queue: share(of(&self.state.chunks_queued), self.state.chunk_count),
            written_bytes: of(&self.state.bytes_written),
            write_busy_ns: of(&self.state.write_ns_total),
            lost: self.state.lost_total(),
            written_packets: of(&self.state.packets_written)
                .saturating_sub(of(&self.state.packets_gone)),
            unwritten_packets: of(&self.state.packets_unwritten),
        }
    }

    fn status(&self) -> Value {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let state = &self.state;
        let by_cause = |count: &dyn Fn(Cause) -> u64| -> serde_json::Map<_, _> {
            let causes = Cause::ALL.iter();
            causes.map(|&cause| (cause.name().to_owned(), count(cause).into())).collect()
        };
        json!({
            "blocks_written": of(&state.chunks_written),
            "packets_written": of(&state.packets_written),
            "bytes_written": of(&state.bytes_written),
            "bytes": of(&state.log_bytes),
            "last_write_us": of(&state.write_ns_last) / 1000,
            "is_direct": of(&state.is_direct) == 1,
            "disk_free_bytes": of(&state.disk_free),
            "disk_bytes": of(&state.disk_total),
            "files_overwritten": of(&state.files_overwritten),
            "files_gone": of(&state.files_gone),
            "files_compressed": of(&state.files_compressed),
            "lost": by_cause(&|cause| state.lost(cause)),
            "write_errors": by_cause(&|cause| state.errors(cause)),
            "reasons": {
                "written": of(&state.reasons_written),
                "omitted": of(&self.reasons.omitted),
                "lost": of(&state.reasons_lost),
                "evicted": of(&self.reasons.evicted),
            },
            "ledger": {
                "records": of(&state.ledger_records),
                "omitted": of(&state.ledger_omitted),
            },
            "kernel": self.kernel.as_ref().map(|half| half.status()),
            "last_error": state.last_error(),
        })
    }

    fn classes(&self) -> Vec<(u16, u64, u64)> {
        let rows = self.state.acknowledged();
        rows.iter().map(|row| (row.class, row.seen_packets, row.stored_packets)).collect()
    }

    fn losses(&self) -> Value {
        let lost = Cause::ALL.iter().map(|&cause| (cause, self.state.lost(cause)));
        let lost: serde_json::Map<_, _> = lost
            .filter(|&(_, count)| count > 0)
            .map(|(cause, count)| (cause.name().into(), count.into()))
            .collect();
        let mut losses = json!({"lost": lost});
        if let Some(error) = self.state.last_error() {
            losses["error"] = error.into();
        }
        losses
    }
}

/// What was recorded, for the last event.
pub fn report_json(report: &RecorderReport) -> Value {
    let lost: serde_json::Map<_, _> =
        report.lost.iter().map(|&(cause, count)| (cause.name().into(), count.into())).collect();
    json!({
        "blocks": report.chunks,
        "bytes": report.bytes,
        "lost": lost,
        "files_unsynced": report.files_unsynced,
    })
}

/// Packets that are in the log, or were until they had to make room.
pub fn kept(report: &RecorderReport) -> u64 {
    report.rows.iter().map(|row| row.stored_packets).sum()
}

/// Packets that were to be kept and are not.
pub fn lost(report: &RecorderReport) -> u64 {
    report.rows.iter().map(|row| row.lost_packets).sum()
}

/// What ends a recording with an error: packets that were to be kept are not in the log.
pub fn loss(
    folder: &Path,
    report: &RecorderReport,
    state: &RecorderState,
    was_cut: bool,
    overwrites: bool,
) -> Option<LogError> {
    let (lost, kept) = (lost(report), kept(report));
    let folder = folder.display();
    if lost == 0 {
        // The packets are there; what `stats` knows of them is not.
        let error = state.account_error()?;
        return Some(LogError::error(format_args!(
            "{folder}/account: {error}; `wirelens packetlog stats` will not include this recording"
        )));
    }
    let causes: Vec<_> =
        report.lost.iter().map(|(cause, count)| format!("{cause} {count}")).collect();
    let last = state.last_error().map(|error| format!(": {error}")).unwrap_or_default();
    let (free, wanted) = (&state.disk_free, &state.wanted_bytes);
    let room = match state.stopped() {
        None => String::new(),
        Some(_) => format!(
            "; the disk has {} bytes free, the next block wanted {}{}",
            free.load(Ordering::Relaxed),
            wanted.load(Ordering::Relaxed),
            if was_cut { "; the rest of the input was not read" } else { "" }
        ),
    };
    let most = report.lost.iter().max_by_key(|(_, count)| *count);
    let hint = most.map_or("", |(cause, _)| hint(*cause, overwrites));
    Some(LogError::error(format_args!(
        "{folder}: {lost} of {} packets that should be stored are lost ({}){last}{room}; {hint}",
        lost + kept,
        causes.join(", "),
    )))
}

/// What to try against a loss.
const fn hint(cause: Cause, overwrites: bool) -> &'static str {
    match cause {
        Cause::DiskFull if overwrites => "free some space, or give a folder on another disk",
        Cause::DiskFull => {
            "free some space, give a folder on another disk, or overwrite old files with \
             --when-full overwrite"
        }
        Cause::LogFull if overwrites => {
            "give a larger --keep-bytes: packets of more important classes take all of it"
        }
        Cause::LogFull => "give a larger --keep-bytes, or --when-full overwrite",
        Cause::WriterBehind => "give more --blocks, a mode that stores less, or a faster disk",
        Cause::ReadOnly => "give a folder that can be written",
        Cause::Gone => "do not change the files of a log while it is recorded",
        Cause::WriteFailed | Cause::WriterEnded => "check the disk, or give another folder",
    }
}

/// How many states began, and how many were evicted although they were not idle.
fn of_states(counts: StateCounts) -> String {
    let kinds = [
        ("flows", counts.flows),
        ("pairs", counts.pairs),
        ("clients", counts.clients),
        ("servers", counts.servers),
    ];
    let one = |(name, counts): (&str, PlaceCounts)| {
        let evicted = counts.evicted;
        let tail = if evicted > 0 { format!(" ({evicted} evicted)") } else { String::new() };
        format!("{} {name}{tail}", counts.begun)
    };
    kinds.map(one).join(", ")
}

/// What was classified, and from what.
fn of_classifier(counts: &ClassifierCounts) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "packetlog: {} classified with flow state, {} without",
        counts.by_flow, counts.by_packet
    );
    if let Some((packets, verdicts)) = counts.reused {
        let _ = writeln!(
            text,
            "packetlog: {packets} of these with the last verdict of their flow; verdicts of {} \
             flows stored, {} evicted",
            verdicts.begun, verdicts.evicted
        );
    }
    if counts.merged.frames > 0 {
        let _ = writeln!(
            text,
            "packetlog: {} merged frames (offloads), classified as the {} packets that they were \
             on the wire",
            counts.merged.frames, counts.merged.packets
        );
    }
    if let Some(states) = counts.states {
        let _ = writeln!(text, "packetlog: states of {}", of_states(states));
    }
    text
}

fn of_reasons(report: &RecorderReport) -> String {
    let mut text = String::new();
    if report.reasons > 0 {
        let _ = writeln!(
            text,
            "packetlog: {} reasons of marked hosts and flows stored, see `packetlog stats --why`",
            report.reasons
        );
    }
    if report.reasons_lost > 0 {
        let _ = writeln!(text, "packetlog: {} reasons could not be stored", report.reasons_lost);
    }
    text
}

/// The lines at the end.
pub fn lines(
    tally: &TallyNow,
    counts: &ClassifierCounts,
    report: &RecorderReport,
    model: &Model,
) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "packetlog: {} seen = {} stored + {} skipped by the mode + {} lost",
        tally.seen,
        kept(report),
        tally.passed_over,
        lost(report)
    );
    text += &of_classifier(counts);
    if let Some(counts) = tally.hindsight {
        let _ = writeln!(
            text,
            "packetlog: {} packets stored at greater length by hindsight, {} bytes more",
            counts.raised, counts.raised_bytes
        );
        for (count, what) in [
            (counts.early, "packets waited less than --hindsight, as --hindsight-bytes were full"),
            (counts.clock_steps, "steps back of the clock ended hindsight for waiting packets"),
        ] {
            if count > 0 {
                let _ = writeln!(text, "packetlog: {count} {what}");
            }
        }
    }
    for row in &report.rows {
        let class = usize::from(row.class);
        let name = model.classes().get(class).map_or("unknown", String::as_str);
        let _ = writeln!(
            text,
            "packetlog: {name}: {} packets of {} stored, {} bytes of {}",
            row.stored_packets, row.seen_packets, row.kept_bytes, row.seen_bytes
        );
    }
    let share = report.bytes as f64 / tally.seen_bytes.max(1) as f64 * 100.0;
    let _ = writeln!(
        text,
        "packetlog: {} bytes of log with index, {share:.2} % of {} on the wire",
        report.bytes, tally.seen_bytes
    );
    for (cause, count) in &report.lost {
        let _ = writeln!(text, "packetlog: {count} packets lost: {cause}");
    }
    text += &of_reasons(report);
    if report.files_unsynced > 0 {
        let _ = writeln!(
            text,
            "packetlog: {} files are not known to be on the disk: it reported an error, or took \
             longer than the recorder waits; a power cut can take their packets",
            report.files_unsynced
        );
    }
    for (count, what) in [
        (report.frames_cut, "frames longer than a block, truncated"),
        (report.stamps_clamped, "timestamps before 1970, written as 1970"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "packetlog: {count} {what}");
        }
    }
    text
}
