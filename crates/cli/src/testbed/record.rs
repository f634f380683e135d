//! `wirelens testbed record`: taps until the end of standard input, and a report.

use ::testbed::record::{CountSettings, Recording, Settings, TapReport, TapSettings};
use capture::live::Passing;
use capture::tap::TapCounts;
use serde_json::{Value, json};

use super::args::RecordArguments;
use super::relay::lateness_json;
use super::{commands, say, say_report};
use crate::failure::{Failure, Status};

/// Names the program in its captures.
const APPLICATION: &str = concat!("wirelens ", env!("CARGO_PKG_VERSION"));

pub(super) fn run(arguments: RecordArguments) -> Result<Status, Failure> {
    let RecordArguments { tap: taps, count: counts, snaplen, buffer, comment } = arguments;
    let settings = Settings {
        taps,
        counts,
        snaplen: if snaplen == 0 { u32::MAX } else { snaplen },
        ring_size_bytes: buffer,
        comment,
        application: APPLICATION.to_owned(),
    };
    let commands = commands()?;
    let recording = Recording::open(&settings)?;
    say("ready")?;
    recording.wait(&commands)?;
    let report = recording.end()?;
    let taps = settings.taps.iter().zip(&report.taps);
    let counts = settings.counts.iter().zip(&report.counts);
    say_report(&json!({
        "taps": taps.map(|(tap, (recorded, counted))| tap_json(tap, recorded, counted))
            .collect::<Vec<_>>(),
        "counts": counts.map(|(at, counted)| count_json(at, counted)).collect::<Vec<_>>(),
        "late_us": lateness_json(&report.lateness),
    }))?;
    Ok(Status::Fine)
}

fn tap_json(tap: &TapSettings, recorded: &TapReport, counted: &TapCounts) -> Value {
    json!({
        "file": tap.file.display().to_string(),
        "netns": tap.place.namespace,
        "dev": tap.place.device,
        "direction": direction(tap.passing),
        "packets": recorded.packets,
        "bytes": recorded.bytes,
        "segments": recorded.segments,
        "dropped": recorded.dropped,
        "freezes": recorded.freezes,
        "unread": recorded.unread,
        "damage": recorded.damage,
        "tc": tc_json(counted),
    })
}

fn count_json(at: &CountSettings, counted: &TapCounts) -> Value {
    json!({
        "netns": at.place.namespace,
        "dev": at.place.device,
        "direction": direction(at.passing),
        "tc": tc_json(counted),
    })
}

fn tc_json(counted: &TapCounts) -> Value {
    json!({
        "packets": counted.packets,
        "bytes": counted.bytes,
        "segments": counted.segments,
    })
}

fn direction(passing: Passing) -> &'static str {
    match passing {
        Passing::Both => "both",
        Passing::In => "in",
        Passing::Out => "out",
    }
}
