//! Makes large captures: planned traffic ([`plan`], [`frames`]), real captures
//! mixed in under other addresses ([`mix`]), loads of real flows ([`load`]), and every
//! form that peers want to read ([`outputs`]).

mod addresses;
mod frames;
mod load;
mod mix;
mod outputs;
mod plan;
pub(crate) mod random;

use std::path::PathBuf;

use capture::{Input, ReadOptions, open};
use clap::{Args, ValueEnum};
use packet::{LinkType, Source, Timestamp};

use crate::Failure;
use frames::FrameMaker;
pub(crate) use load::{LoadArguments, load};
use mix::Captures;
use outputs::Outputs;
use plan::{Event, Origin, Plan};

/// First second of what is made: late 2023, a stamp that every tool believes.
const START_SECONDS: i64 = 1_700_000_000;

/// Bytes of each frame in the file of headers: enough for every header that is made.
const HEADERS_SNAPLEN: u32 = 96;

/// Arguments of `gen`.
#[derive(Debug, Args)]
pub(crate) struct GenArguments {
    /// Planned packets to make
    #[arg(long, default_value_t = 5_000_000)]
    packets: u64,
    /// Seed: the same seed makes the same bytes
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Folder of captures to mix in, repeated under other addresses
    #[arg(long, value_name = "DIR", requires = "mix_packets")]
    mix: Option<PathBuf>,
    /// Packets to take from that folder
    #[arg(long, value_name = "N", requires = "mix")]
    mix_packets: Option<u64>,
    #[command(flatten)]
    outputs: OutputArguments,
}

/// Arguments of `convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArguments {
    /// Capture to read
    #[arg(short = 'r', long)]
    read: PathBuf,
    #[command(flatten)]
    outputs: OutputArguments,
}

/// What to write, and where.
#[derive(Debug, Args)]
pub(crate) struct OutputArguments {
    /// Frames, as pcap
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Bytes kept of each frame in that file; 0 keeps all
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    snaplen: u32,
    /// The same frames cut at 96 bytes, as pcap
    #[arg(long, value_name = "FILE")]
    headers: Option<PathBuf>,
    /// IPv4 packets as 40-byte records
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    /// IPv4 packets as two columns of u32: DIR/src.u32 and DIR/len.u32
    #[arg(long, value_name = "DIR")]
    columns: Option<PathBuf>,
    /// Resolution of the stamps in pcap files
    #[arg(long, value_enum, default_value = "us")]
    resolution: Resolution,
}

/// Resolution of stamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Resolution {
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

/// Makes a capture.
#[allow(clippy::print_stderr)] // A door: what was made is told beside it.
pub(crate) fn generate(arguments: &GenArguments) -> Result<(), Failure> {
    let mut outputs = Outputs::create(&arguments.outputs)?;
    let captures = match (&arguments.mix, arguments.mix_packets) {
        (Some(folder), Some(count)) => Captures::read(folder, count)?,
        _ => Captures::default(),
    };
    let plan = Plan::new(arguments.seed, arguments.packets, &captures);
    let mut maker = FrameMaker::new(arguments.seed, plan.flows);
    let mut frame = Vec::with_capacity(2_048);
    for event in &plan.events {
        frame.clear();
        let wire_len = match event.origin {
            Origin::Flow(index) => maker.make(event, index, &mut frame),
            Origin::Capture(packet) => captures.copy(packet, event.round, &mut frame),
        };
        outputs.write(timestamp(event), wire_len, &frame)?;
    }
    let written = outputs.finish()?;
    eprintln!("wirelens-bench: {written}, {} flows planned", maker.flow_count());
    Ok(())
}

/// Writes a capture anew.
#[allow(clippy::print_stderr)] // As above.
pub(crate) fn convert(arguments: &ConvertArguments) -> Result<(), Failure> {
    let mut outputs = Outputs::create(&arguments.outputs)?;
    let input = Input::File(arguments.read.clone());
    let mut source = open(&input, &ReadOptions::default()).map_err(|error| error.to_string())?;
    while let Some(batch) = source.next_batch() {
        for frame in batch.frames() {
            if frame.record.link != LinkType::ETHERNET {
                return Err(format!("{input}: link type {}; wanted Ethernet", frame.record.link.0));
            }
            outputs.write(frame.record.timestamp, frame.record.wire_len, frame.bytes)?;
        }
    }
    let written = outputs.finish()?;
    eprintln!("wirelens-bench: {written}");
    Ok(())
}

fn timestamp(event: &Event) -> Timestamp {
    Timestamp::from_parts(START_SECONDS, i64::try_from(event.time_ns).unwrap_or_default())
}
