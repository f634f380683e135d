//! Packets in memory through the recorder.

use std::path::PathBuf;

use capture::{Input, ReadOptions, open};
use clap::{Args, ValueEnum};
use packet::file::Section;
use packet::{FlowKey, Frame, Network, Record, Source as _, Span};
use packetlog::policy::header_len;
use packetlog::recorder::{ClassInfo, Direct, Disk, Recorder, RecorderOptions};
use packetlog::{Basis, PacketVerdict};

use super::clock;
use crate::Failure;
use crate::clock::Stopwatch;
use crate::measurement::Measurement;

/// How much of a packet is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Keep {
    /// Its headers
    Headers,
    /// All of it
    Full,
}

/// How files are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Way {
    /// Through the page cache
    Plain,
    /// Around it, by `io_uring`
    Direct,
    /// Not at all: what the recorder itself costs
    Nowhere,
}

/// Arguments of `packetlog record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArguments {
    /// The capture
    #[arg(long, value_name = "FILE")]
    capture: PathBuf,
    /// The folder, which must be empty
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
    /// How often its packets are recorded
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// How much of each is kept
    #[arg(long, value_enum, default_value_t = Keep::Headers)]
    keep: Keep,
    /// How files are written
    #[arg(long, value_enum, default_value_t = Way::Plain)]
    way: Way,
    /// Acknowledge only what the disk has
    #[arg(long)]
    sync: bool,
    /// Give each round addresses of its own; takes time that is counted
    #[arg(long)]
    shift: bool,
    /// One packet of so many is of the second class
    #[arg(long, default_value_t = 100)]
    anomalous_one_in: usize,
}

/// A disk that takes everything and keeps nothing.
struct Nowhere;

impl Disk for Nowhere {
    fn write(&mut self, _: &std::fs::File, _: &[u8], _: u64) -> std::io::Result<()> {
        Ok(())
    }
}

/// Packets as they lie in memory.
struct Load {
    bytes: Vec<u8>,
    records: Vec<Record>,
    judged: Vec<PacketVerdict>,
    kept: Vec<u32>,
    span: Span,
}

fn load(arguments: &RecordArguments) -> Result<Load, Failure> {
    let input = Input::File(arguments.capture.clone());
    let mut source = open(&input, &ReadOptions::default()).map_err(|error| error.to_string())?;
    let (mut bytes, mut records) = (Vec::new(), Vec::new());
    while let Some(batch) = source.next_batch() {
        for frame in batch.frames() {
            let offset = bytes.len() as u32;
            bytes.extend_from_slice(frame.bytes);
            records.push(Record { offset, interface: 0, ..*frame.record });
        }
    }
    let (first, last) = match (records.first(), records.last()) {
        (Some(first), Some(last)) => (first.timestamp, last.timestamp),
        _ => return Err("no packets".into()),
    };
    let mut load =
        Load { bytes, records, judged: Vec::new(), kept: Vec::new(), span: last.since(first) };
    judge(&mut load, arguments);
    Ok(load)
}

/// What a classifier would have found: given, since it is the recorder that is measured.
fn judge(load: &mut Load, arguments: &RecordArguments) {
    load.judged.clear();
    load.kept.clear();
    for (number, record) in load.records.iter().enumerate() {
        let frame = Frame::new(&load.bytes, record);
        let class = u16::from(number % arguments.anomalous_one_in == 0);
        let flow = FlowKey::from_frame(&frame);
        load.judged.push(PacketVerdict { class, confidence: 0.9, basis: Basis::Flow, flow });
        load.kept.push(match (arguments.keep, class) {
            (Keep::Headers, 0) => header_len(&frame),
            _ => record.captured_len,
        });
    }
}

/// Other hosts, later.
fn shift(load: &mut Load, round: u32) {
    for record in &mut load.records {
        record.timestamp = record.timestamp.plus(load.span).plus(Span::from_ns(1));
        if record.layers.network != Network::Ipv4 {
            continue;
        }
        let header = record.offset as usize + usize::from(record.layers.network_offset);
        for address in [header + 12, header + 16] {
            if let Some(octet) = load.bytes.get_mut(address + 1) {
                *octet ^= (round ^ (round - 1)) as u8;
            }
        }
    }
}

pub(crate) fn run(arguments: &RecordArguments) -> Result<(), Failure> {
    let mut load = load(arguments)?;
    let class = |name: &str, priority| ClassInfo { name: name.into(), priority };
    let options = RecorderOptions {
        direct: if arguments.way == Way::Direct { Direct::Always } else { Direct::Never },
        sync: arguments.sync,
        waits: true,
        ..RecorderOptions::new(&arguments.folder)
    };
    let disk: Option<Box<dyn Disk>> = match arguments.way {
        Way::Nowhere => Some(Box::new(Nowhere)),
        Way::Plain | Way::Direct => None,
    };
    let classes = [class("benign", 0), class("anomalous", 1)];
    let section = Section { application: "wirelens-bench".into(), ..Section::default() };
    let (mut recorder, _) = Recorder::create_on(options, &classes, &section, clock, disk)
        .map_err(|error| error.to_string())?;
    let stopwatch = Stopwatch::start();
    for round in 0..arguments.rounds {
        if arguments.shift && round > 0 {
            shift(&mut load, round);
            judge(&mut load, arguments);
        }
        let packets = load.records.iter().zip(&load.judged).zip(&load.kept);
        for ((record, judged), &kept) in packets {
            recorder.store(&Frame::new(&load.bytes, record), kept, judged);
        }
    }
    let report = recorder.finish().map_err(|error| error.to_string())?;
    let elapsed = stopwatch.stop();
    let item_count = u64::from(arguments.rounds) * load.records.len() as u64;
    let name = format!(
        "record {:?} {:?}{}, {} bytes",
        arguments.keep,
        arguments.way,
        if arguments.sync { " sync" } else { "" },
        report.bytes
    );
    let check = report.lost.iter().map(|(_, lost)| lost).sum();
    Measurement { figure: "packetlog", name, thread_count: 2, item_count, elapsed, check }.print();
    Ok(())
}
