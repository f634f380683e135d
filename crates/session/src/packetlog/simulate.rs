//! `simulate packetlog`: what the paper's switch and server would log of packets, at rates that
//! only hardware reaches.

use std::sync::Arc;

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use engine::flow::pass::{Labels, Lens, Piece};
use engine::group::Outcome;
use packet::{Batch, HashSeed, Network, Record, Span};
use packetlog::integer::{IntegerClassifier, IntegerModel, IntegerOptions};
use packetlog::pipeline::Judge;
use packetlog::policy::{Granularity, Mode};
use packetlog::switch::workload::{WORKLOADS, Workload};
use packetlog::switch::{LossCause, PacketLengths, Switch, SwitchLimits, SwitchTally};
use packetlog::{Classifier, PacketVerdict};

use super::{LogError, NEEDS, PacketModel};
use crate::application::{Closing, Opening, Ready, Refusal, Wants, Watcher, Watchers};
use crate::choice::choice;
use crate::done::RunTotals;

/// Gb/s of one stream.
const STREAM_GBPS: u32 = 100;
/// Picoseconds of a byte at that rate.
const BYTE_PS: u64 = 80;
/// More are beyond what the paper and any switch of today have.
const STREAMS_MAX: u32 = 64;
/// Packets of all streams that are classified together.
const BATCH_LEN: usize = 256;

/// Columns of the simulation, a row for each traffic, rate and mode.
pub const SIMULATION: Schema = &[
    Field::new("traffic", Kind::Text, "Workload of the paper, or captures."),
    Field::new("gbps", Kind::U32, "Offered rate in Gbit/s: a stream for each 100."),
    Field::new("mode", Kind::Text, "Recording mode."),
    Field::new("packets", Kind::U64, "Packets offered, of all streams."),
    Field::new("mpps", Kind::F64, "Million packets per second offered."),
    Field::new("marked_packets", Kind::U64, "Packets classified as anomalous."),
    Field::new("log_gbps", Kind::F64, "Messages to the server, in Gbit/s, before any limit."),
    Field::new("log_mpps", Kind::F64, "Their number, in millions per second."),
    Field::new("benign_log_gbps", Kind::F64, "Those of benign packets, in Gbit/s."),
    Field::new("benign_log_mpps", Kind::F64, "Their number, in millions per second."),
    Field::new("marked_log_gbps", Kind::F64, "Those of marked packets, in Gbit/s."),
    Field::new("marked_log_mpps", Kind::F64, "Their number, in millions per second."),
    Field::new("marked_gbps", Kind::F64, "Marked packets as they were offered, in Gbit/s."),
    Field::new("recirculated_gbps", Kind::F64, "Recirculated in the switch, before any limit."),
    Field::new("recirculated_mpps", Kind::F64, "Their number, in millions per second."),
    Field::new("exceeded", Kind::Text, "Limits below these rates: recirculation, rdma, disks."),
    Field::new("full_packets", Kind::U64, "Packets stored in full."),
    Field::new("partial_packets", Kind::U64, "Packets stored truncated."),
    Field::new("header_packets", Kind::U64, "Packets stored as headers."),
    Field::new("unsampled_packets", Kind::U64, "Packets not stored because the mode samples."),
    Field::new("lost_recirculation", Kind::U64, "Packets lost at the recirculation port."),
    Field::new("lost_rdma", Kind::U64, "Packets lost at the server, each with a NACK."),
    Field::new("lost_recovery", Kind::U64, "Packets lost until the switch noticed the NACK."),
    Field::new("lost_memory", Kind::U64, "Packets lost because both memory blocks were full."),
    Field::new("nacks", Kind::U64, "Losses that the server reported to the switch."),
    Field::new("blocks_written", Kind::U64, "Memory blocks written to disk."),
    Field::new("first_loss_us", Kind::F64, "Microseconds until the first loss.").nullable(),
];

/// What is printed of it on a terminal.
const SHOWN: Schema = &[
    Field::new("traffic", Kind::Text, "Workload of the paper, or captures."),
    Field::new("gbps", Kind::U32, "Offered rate in Gbit/s."),
    Field::new("mode", Kind::Text, "Recording mode."),
    Field::new("marked", Kind::Text, "Share of packets classified as anomalous."),
    Field::new("log_gbps", Kind::Text, "Messages to the server."),
    Field::new("log_mpps", Kind::Text, "Their number."),
    Field::new("recirculated_gbps", Kind::Text, "Recirculated in the switch."),
    Field::new("lost", Kind::Text, "Share of packets lost."),
    Field::new("exceeded", Kind::Text, "Limits below these rates."),
];

choice! {
    /// A workload of the paper.
    WorkloadName: "workload" {
        W1 = "w1", "Monday of CIC-IDS2017: benign";
        W2 = "w2", "Tuesday: 2.3 % of packets anomalous, small";
        W3 = "w3", "Wednesday: 17.7 % anomalous";
        W4 = "w4", "Thursday: 1.0 % anomalous, hard to find";
        W5 = "w5", "Friday: 13.4 % anomalous";
    }
}

impl WorkloadName {
    const fn workload(self) -> &'static Workload {
        &WORKLOADS[self as usize]
    }
}

/// What is simulated.
#[derive(Clone)]
pub struct SimulationSettings {
    /// Offered rates.
    pub gbps: Vec<u32>,
    /// Modes, each a switch of its own.
    pub modes: Vec<Mode>,
}

/// The outcome of all simulated switches.
pub struct SimulationReport {
    rows: Vec<Row>,
}

struct Row {
    traffic: &'static str,
    gbps: u32,
    mode: String,
    seconds: f64,
    tally: SwitchTally,
}

/// A rate from its text.
///
/// # Errors
/// What was wanted.
pub fn parse_gbps(text: &str) -> Result<u32, String> {
    let gbps = text.parse::<u32>().ok().filter(|gbps| {
        gbps.is_multiple_of(STREAM_GBPS) && (1..=STREAMS_MAX).contains(&(gbps / STREAM_GBPS))
    });
    gbps.ok_or_else(|| String::from("wanted a multiple of 100, up to 6400"))
}

/// The recommended modes of these names.
///
/// # Errors
/// [`LogError::Usage`], with the names that there are.
pub fn recommended_modes(names: &[String]) -> Result<Vec<Mode>, LogError> {
    let all = Mode::recommended();
    let of = |name: &String| {
        all.iter().find(|mode| mode.name == *name).cloned().ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|mode| mode.name.as_str()).collect();
            LogError::usage(format_args!(
                "--mode {name}: no such mode; wanted: one of {}",
                known.join(", ")
            ))
        })
    };
    names.iter().map(of).collect()
}

/// Simulates workloads of the paper for so long.
///
/// # Errors
/// [`LogError::Usage`], where a mode names classes.
pub fn simulate_workloads(
    settings: &SimulationSettings,
    workloads: &[WorkloadName],
    duration: Span,
) -> Result<SimulationReport, LogError> {
    let end_ps = duration.as_ns().unsigned_abs().saturating_mul(1_000);
    let classes = ["benign", "anomalous"].map(String::from);
    let mut rows = Vec::new();
    for workload in workloads.iter().map(|name| name.workload()) {
        for &gbps in &settings.gbps {
            let mut switches = switches(&settings.modes, &classes)?;
            let mut last_ps = 0;
            let packets = workload.packets(gbps / STREAM_GBPS, HashSeed::new(1));
            for packet in packets.take_while(|packet| packet.time_ps < end_ps) {
                for (_, switch) in &mut switches {
                    switch.offer(packet.time_ps, packet.lengths, &packet.judged);
                }
                last_ps = packet.time_ps;
            }
            rows.extend(finished(workload.name, gbps, last_ps, switches));
        }
    }
    Ok(SimulationReport { rows })
}

type Switches = Vec<(String, Switch)>;

fn switches(modes: &[Mode], classes: &[String]) -> Result<Switches, LogError> {
    let switch = |mode: &Mode| {
        let table: Vec<Granularity> = mode.table(classes).map_err(LogError::usage)?;
        Ok((mode.name.clone(), Switch::new(table, &SwitchLimits::default())))
    };
    modes.iter().map(switch).collect()
}

#[allow(clippy::cast_precision_loss)]
fn finished(
    traffic: &'static str,
    gbps: u32,
    last_ps: u64,
    switches: Switches,
) -> impl Iterator<Item = Row> {
    let seconds = last_ps.max(1) as f64 / 1e12;
    let row = move |(mode, switch): (String, Switch)| Row {
        traffic,
        gbps,
        mode,
        seconds,
        tally: switch.finish(),
    };
    switches.into_iter().map(row)
}

/// A simulation of captures that is ready to begin.
pub struct Simulator {
    settings: SimulationSettings,
    model: PacketModel,
    integer: Option<Arc<IntegerModel>>,
}

impl Simulator {
    /// Checks that the modes fit the model, and that a switch can compute it in whole numbers where
    /// that is asked for.
    ///
    /// # Errors
    /// [`LogError::Usage`]
    pub fn new(
        settings: SimulationSettings,
        model: PacketModel,
        is_integer: bool,
    ) -> Result<Self, LogError> {
        switches(&settings.modes, model.model.classes())?;
        let tables = || IntegerModel::new(&model.model, IntegerOptions::SWITCH);
        let integer = is_integer.then(tables).transpose();
        let integer = integer
            .map_err(|error| LogError::usage(format_args!("--integer with this model: {error}")))?;
        Ok(Self { settings, model, integer: integer.map(Arc::new) })
    }
}

impl Ready for Simulator {
    fn name(&self) -> &'static str {
        "simulate packetlog"
    }

    fn is_by_flow(&self) -> bool {
        false
    }

    fn wants(&self) -> Wants {
        Wants::frames(NEEDS)
    }

    fn schema(&self, _: bool) -> Schema {
        &[]
    }

    fn open(self: Box<Self>, opening: Opening) -> Result<Watchers, Refusal> {
        let seed = opening.seed;
        let rate = |&gbps: &u32| {
            let judge: Box<dyn Judge + Send> = match &self.integer {
                Some(integer) => Box::new(IntegerClassifier::new(Arc::clone(integer), seed)),
                None => Box::new(Classifier::new(Arc::clone(&self.model.model), seed)),
            };
            let switches = switches(&self.settings.modes, self.model.model.classes());
            let switches = switches.map_err(Refusal::new)?;
            Ok(Rate { gbps, judge, switches, streams: Streams::default(), bytes: 0 })
        };
        let rates = self.settings.gbps.iter().map(rate).collect::<Result<_, Refusal>>()?;
        Ok(SimulationLens { rates, packets: 0 }.into())
    }
}

/// The lens: every packet is classified once for each rate, in as many streams.
struct SimulationLens {
    rates: Vec<Rate>,
    packets: u64,
}

struct Rate {
    gbps: u32,
    judge: Box<dyn Judge + Send>,
    switches: Switches,
    streams: Streams,
    /// Of one stream so far.
    bytes: u64,
}

/// Packets of all streams, each with [other addresses](rename).
#[derive(Default)]
struct Streams {
    bytes: Vec<u8>,
    records: Vec<Record>,
    judged: Vec<PacketVerdict>,
}

impl Rate {
    fn take(&mut self, batch: &Batch<'_>) {
        let streams = self.gbps / STREAM_GBPS;
        let together = (BATCH_LEN / streams as usize).max(1);
        for records in batch.records.chunks(together) {
            let Streams { bytes, records: all, judged } = &mut self.streams;
            bytes.clear();
            all.clear();
            for frame in (Batch { records, ..*batch }).frames() {
                for stream in 0..streams {
                    let offset = bytes.len();
                    bytes.extend_from_slice(frame.bytes);
                    rename(&mut bytes[offset..], frame.record, stream);
                    let offset = u32::try_from(offset).unwrap_or(u32::MAX);
                    all.push(Record { offset, ..*frame.record });
                }
            }
            self.judge.judge(&Batch { bytes, records: all, tick: None }, judged);
            for (index, (record, judged)) in all.iter().zip(&*judged).enumerate() {
                let lengths = lengths(record);
                let stream = index as u64 % u64::from(streams);
                // Streams follow each other within the time of their packet.
                let part = u64::from(lengths.wire()) * BYTE_PS * stream / u64::from(streams);
                let now_ps = self.bytes * BYTE_PS + part;
                for (_, switch) in &mut self.switches {
                    switch.offer(now_ps, lengths, judged);
                }
                if stream + 1 == u64::from(streams) {
                    self.bytes += u64::from(lengths.wire());
                }
            }
        }
    }
}

/// Bytes of a packet: headers are all before the payload.
fn lengths(record: &Record) -> PacketLengths {
    let payload = record.layers.payload_len.min(record.wire_len);
    PacketLengths { headers: record.wire_len - payload, payload }
}

/// Another network for both hosts: the first byte of each address, XOR the number of the stream.
///
/// A capture may have the other address as well. Then its packets and those of the stream count as
/// one host's: no bits of IPv4 addresses are unused in every capture, and which are in this one is
/// known only when it has been read.
#[allow(clippy::cast_possible_truncation)]
fn rename(frame: &mut [u8], record: &Record, stream: u32) {
    let at = usize::from(record.layers.network_offset);
    let places = match record.layers.network {
        Network::Ipv4 => [at + 12, at + 16],
        Network::Ipv6 => [at + 8, at + 24],
        Network::Arp => {
            let len = |index| frame.get(at + index).map_or(0, |&len| usize::from(len));
            let (hardware, protocol) = (len(4), len(5));
            [at + 8 + hardware, at + 8 + 2 * hardware + protocol]
        }
        Network::None => return,
    };
    for place in places {
        if let Some(byte) = frame.get_mut(place) {
            *byte ^= stream as u8;
        }
    }
}

impl Lens for SimulationLens {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        let batch = piece.as_batch();
        self.packets += batch.records.len() as u64;
        self.rates.iter_mut().for_each(|rate| rate.take(&batch));
    }

    fn outcome(&self) -> Option<Outcome> {
        Some(Outcome { keyed: self.packets, ..Outcome::default() })
    }
}

impl Watcher for SimulationLens {
    fn name(&self) -> &'static str {
        "simulate packetlog"
    }

    fn close(self: Box<Self>, _: &RunTotals) -> Result<Closing, Refusal> {
        let outcome = Outcome { keyed: self.packets, ..Outcome::default() };
        let rows = self
            .rates
            .into_iter()
            .flat_map(|rate| finished("captures", rate.gbps, rate.bytes * BYTE_PS, rate.switches));
        let report = SimulationReport { rows: rows.collect() };
        Ok(Closing { outcome, found: Some(Box::new(report)), ..Closing::default() })
    }
}

impl Row {
    #[allow(clippy::cast_precision_loss)]
    fn gbps(&self, bytes: u64) -> f64 {
        bytes as f64 * 8e-9 / self.seconds
    }

    #[allow(clippy::cast_precision_loss)]
    fn mpps(&self, packets: u64) -> f64 {
        packets as f64 * 1e-6 / self.seconds
    }

    /// Limits that the log would have to be within, and is not.
    #[allow(clippy::cast_precision_loss)]
    fn exceeded(&self) -> String {
        let (all, limits) = (self.tally.all(), SwitchLimits::default());
        let log_gbps = self.gbps(all.log_bytes);
        // What is stored is without what is around each message.
        let around = all.log_packets * u64::from(packetlog::switch::MESSAGE_BYTES);
        let rates = [
            ("recirculation", self.gbps(all.round_bytes), limits.recirculation_mbps),
            ("rdma", log_gbps, limits.rdma_mbps),
            ("disks", self.gbps(all.log_bytes - around), limits.disk_mbps),
        ];
        let above = rates.iter().filter(|(_, gbps, mbps)| gbps * 1e3 > *mbps as f64);
        above.map(|&(name, ..)| name).collect::<Vec<_>>().join(" ")
    }
}

impl SimulationReport {
    /// All of it.
    ///
    /// # Errors
    /// A row that does not fit, a fault of ours.
    #[allow(clippy::cast_precision_loss)]
    pub fn columns(&self) -> Result<Columns, RowMismatch> {
        let mut columns = Columns::new(SIMULATION);
        for row in &self.rows {
            let (tally, all) = (&row.tally, row.tally.all());
            let (benign, marked) = (&tally.benign, &tally.anomalous);
            let exceeded = row.exceeded();
            let first = tally.first_loss_ps.iter().flatten().min();
            let lost = |cause: LossCause| Value::U64(tally.lost[cause as usize]);
            columns.push_row(&[
                Value::Str(row.traffic),
                Value::U32(row.gbps),
                Value::Str(&row.mode),
                Value::U64(all.packets),
                Value::F64(row.mpps(all.packets)),
                Value::U64(marked.packets),
                Value::F64(row.gbps(all.log_bytes)),
                Value::F64(row.mpps(all.log_packets)),
                Value::F64(row.gbps(benign.log_bytes)),
                Value::F64(row.mpps(benign.log_packets)),
                Value::F64(row.gbps(marked.log_bytes)),
                Value::F64(row.mpps(marked.log_packets)),
                Value::F64(row.gbps(marked.bytes)),
                Value::F64(row.gbps(all.round_bytes)),
                Value::F64(row.mpps(all.round_packets)),
                Value::Str(&exceeded),
                Value::U64(tally.full),
                Value::U64(tally.partial),
                Value::U64(tally.headers),
                Value::U64(tally.not_sampled),
                lost(LossCause::Recirculation),
                lost(LossCause::Rdma),
                lost(LossCause::RdmaRecovery),
                lost(LossCause::Memory),
                Value::U64(tally.nacks),
                Value::U64(tally.blocks_written),
                first.map_or(Value::Null, |&ps| Value::F64(ps as f64 * 1e-6)),
            ])?;
        }
        Ok(columns)
    }

    /// What fits a terminal.
    ///
    /// # Errors
    /// A row that does not fit, a fault of ours.
    #[allow(clippy::cast_precision_loss)]
    pub fn shown(&self) -> Result<Columns, RowMismatch> {
        let mut columns = Columns::new(SHOWN);
        for row in &self.rows {
            let (all, lost) = (row.tally.all(), row.tally.lost.iter().sum::<u64>());
            let percent =
                |part: u64| format!("{:.2} %", part as f64 / all.packets.max(1) as f64 * 100.0);
            columns.push_row(&[
                Value::Str(row.traffic),
                Value::U32(row.gbps),
                Value::Str(&row.mode),
                Value::Str(&percent(row.tally.anomalous.packets)),
                Value::Str(&format!("{:.1}", row.gbps(all.log_bytes))),
                Value::Str(&format!("{:.1}", row.mpps(all.log_packets))),
                Value::Str(&format!("{:.1}", row.gbps(all.round_bytes))),
                Value::Str(&percent(lost)),
                Value::Str(&row.exceeded()),
            ])?;
        }
        Ok(columns)
    }
}

#[cfg(test)]
mod tests {
    use packet::Layers;

    use super::*;

    #[test]
    fn addresses_of_ip_and_arp_are_others_in_another_stream() {
        let headers = [(Network::Ipv4, 12, 16), (Network::Ipv6, 8, 24), (Network::Arp, 14, 24)];
        for (network, source, destination) in headers {
            let mut frame = [0; 60];
            // Lengths of addresses of Ethernet and IPv4, as ARP has them.
            (frame[18], frame[19]) = (6, 4);
            let before = frame;
            let layers = Layers { network, network_offset: 14, ..Layers::default() };
            rename(&mut frame, &Record { layers, ..Record::default() }, 5);
            let changed: Vec<_> = (0..60).filter(|&at| frame[at] != before[at]).collect();
            assert_eq!(changed, [14 + source, 14 + destination], "{network:?}");
            assert_eq!(frame[14 + source], 5);
        }
    }
}
