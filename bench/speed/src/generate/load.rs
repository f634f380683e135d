//! A load of real flows: so many new ones a second, each drawn from those of given
//! captures, with its own gaps, under addresses of its own.

use std::path::{Path, PathBuf};

use capture::{Input, ReadOptions, input, open};
use clap::Args;
use engine::flow::{FlowFrames, FlowOptions, FlowPacket, FlowSlot, FramesOutcome, FromFrames};
use engine::run::{Control, run_one};
use packet::dissect::DissectOptions;
use packet::{Frame, HashSeed, LinkType, Timestamp};

use super::addresses::Addresses;
use super::outputs::Outputs;
use super::random::Random;
use super::{OutputArguments, START_SECONDS};
use crate::Failure;

/// Arguments of `load`.
#[derive(Debug, Args)]
pub(crate) struct LoadArguments {
    /// Captures to draw flows from: files or folders
    #[arg(short = 'r', long, required = true, num_args = 1..)]
    read: Vec<PathBuf>,
    /// New flows a second, at times independent of each other
    #[arg(long, default_value_t = 1_000.0)]
    flows_per_s: f64,
    /// Seconds in which flows begin; their packets may come later
    #[arg(long, default_value_t = 10.0)]
    duration_s: f64,
    /// Packets of each flow at most; 0 for all
    #[arg(long, default_value_t = 0)]
    flow_packets_max: usize,
    /// Leave packets out that come later than this after their flow's first
    #[arg(long, default_value_t = 60.0)]
    flow_duration_s_max: f64,
    /// Seed: the same seed makes the same bytes
    #[arg(long, default_value_t = 42)]
    seed: u64,
    #[command(flatten)]
    outputs: OutputArguments,
}

/// One packet of a flow.
struct Packet {
    timestamp: Timestamp,
    start: usize,
    len: usize,
    wire_len: u32,
    addresses: Option<Addresses>,
}

/// Flows as they were captured.
#[derive(Default)]
struct Flows {
    flows: Vec<Vec<Packet>>,
    bytes: Vec<u8>,
    packet_count_max: usize,
}

/// A packet of the load.
struct Event {
    time_ns: i64,
    /// Which of the flows that begin, from 0 on.
    arrival: u32,
    flow: u32,
    packet: u32,
}

/// Makes a load.
#[allow(clippy::print_stderr)] // A door: what was made is told beside it.
pub(crate) fn load(arguments: &LoadArguments) -> Result<(), Failure> {
    let mut outputs = Outputs::create(&arguments.outputs)?;
    let flows = Flows::read(arguments)?;
    let (arrivals, events) = flows.events(arguments);
    let mut bytes = Vec::with_capacity(2_048);
    for event in &events {
        let packet = &flows.flows[event.flow as usize][event.packet as usize];
        bytes.clear();
        bytes.extend_from_slice(&flows.bytes[packet.start..packet.start + packet.len]);
        if let Some(addresses) = packet.addresses {
            addresses.change(&mut bytes, event.arrival);
        }
        let timestamp = Timestamp::from_parts(START_SECONDS, event.time_ns);
        outputs.write(timestamp, packet.wire_len, &bytes)?;
    }
    let written = outputs.finish()?;
    let drawn = flows.flows.len();
    eprintln!("wirelens-bench: {written}; {arrivals} flows, drawn from {drawn}");
    Ok(())
}

impl Flows {
    fn read(arguments: &LoadArguments) -> Result<Self, Failure> {
        let found = input::resolve(&arguments.read).map_err(|error| error.to_string())?;
        let packet_count_max = match arguments.flow_packets_max {
            0 => usize::MAX,
            some => some,
        };
        let mut flows = Self { packet_count_max, ..Self::default() };
        for input in &found.inputs {
            flows = flows.with(input)?;
        }
        if flows.flows.is_empty() {
            let given = arguments.read.first().map_or(Path::new(""), PathBuf::as_path);
            return Err(format!("{}: no flow over Ethernet in its captures", given.display()));
        }
        Ok(flows)
    }

    /// These, and those of another capture.
    fn with(self, input: &Input) -> Result<Self, Failure> {
        let dissect = DissectOptions { decapsulate: false, transport: true };
        let options = ReadOptions { dissect, ..ReadOptions::default() };
        let mut source = open(input, &options).map_err(|error| error.to_string())?;
        let mut stage = FlowFrames::new(FlowOptions::default(), HashSeed::new(1), self, ());
        run_one(&mut source, &mut stage, &Control::default());
        let FramesOutcome { keep, .. } = stage.finish();
        Ok(keep)
    }

    /// How many flows begin, and their packets in order of time.
    #[allow(clippy::cast_possible_truncation)] // Of seconds as nanoseconds, and of indices.
    fn events(&self, arguments: &LoadArguments) -> (u32, Vec<Event>) {
        let mut random = Random::new(arguments.seed);
        let (mut arrivals, mut events) = (0, Vec::new());
        let mut begin_s = 0.0;
        loop {
            begin_s -= (1.0 - random.unit()).ln() / arguments.flows_per_s;
            if begin_s >= arguments.duration_s {
                break;
            }
            let flow = random.below(self.flows.len() as u64) as usize;
            let packets = &self.flows[flow];
            let first = packets.first().map_or(0, |packet| packet.timestamp.as_ns());
            let duration_ns = i128::from((arguments.flow_duration_s_max * 1e9) as i64);
            for (index, packet) in packets.iter().enumerate() {
                let offset = i128::from(packet.timestamp.as_ns() - first);
                if (0..=duration_ns).contains(&offset) {
                    let time_ns = (begin_s * 1e9) as i64 + offset as i64;
                    let (flow, packet) = (flow as u32, index as u32);
                    events.push(Event { time_ns, arrival: arrivals, flow, packet });
                }
            }
            arrivals += 1;
        }
        events.sort_by_key(|event| event.time_ns);
        (arrivals, events)
    }
}

impl FromFrames for Flows {
    /// The flow's place among all, from 1 on.
    type State = usize;

    fn on_frame(&mut self, state: &mut usize, frame: &Frame<'_>, _: &FlowPacket, _: FlowSlot) {
        let record = frame.record;
        if record.link != LinkType::ETHERNET {
            return;
        }
        if *state == 0 {
            self.flows.push(Vec::new());
            *state = self.flows.len();
        }
        let packets = &mut self.flows[*state - 1];
        if packets.len() < self.packet_count_max {
            packets.push(Packet {
                timestamp: record.timestamp,
                start: self.bytes.len(),
                len: frame.bytes.len(),
                wire_len: record.wire_len,
                addresses: Addresses::of(frame),
            });
            self.bytes.extend_from_slice(frame.bytes);
        }
    }
}
