//! `simulate packetlog`: what the paper's switch and server would log of packets, at rates that
//! only hardware reaches.

use std::sync::Arc;

use engine::columns::Schema;
use engine::flow::pass::{Labels, Lens, Piece};
use engine::group::Outcome;
use packet::{Batch, HashSeed, Network, Record, Span};
use packetlog::integer::{IntegerClassifier, IntegerModel, IntegerOptions};
use packetlog::pipeline::Judge;
use packetlog::policy::{Granularity, Mode};
use packetlog::switch::workload::{WORKLOADS, Workload};
use packetlog::switch::{PacketLengths, Switch, SwitchLimits};
use packetlog::{Classifier, PacketVerdict};

use super::anomalous::{Agreement, AnomalousFrames};
use super::simulated::{Row, SimulationReport};
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
            rows.extend(finished(workload.name, gbps, last_ps, switches, None));
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
    agreement: Option<Agreement>,
) -> impl Iterator<Item = Row> {
    let seconds = last_ps.max(1) as f64 / 1e12;
    let row = move |(mode, switch): (String, Switch)| Row {
        traffic,
        gbps,
        mode,
        seconds,
        tally: switch.finish(),
        agreement,
    };
    switches.into_iter().map(row)
}

/// A simulation of captures that is ready to begin.
pub struct Simulator {
    settings: SimulationSettings,
    model: PacketModel,
    integer: Option<Arc<IntegerModel>>,
    anomalous: Option<AnomalousFrames>,
}

impl Simulator {
    /// Checks that the modes fit the model, and that a switch can compute it in whole numbers where
    /// that is asked for. Verdicts are compared with the anomalous frames, if they are given.
    ///
    /// # Errors
    /// [`LogError::Usage`]
    pub fn new(
        settings: SimulationSettings,
        model: PacketModel,
        is_integer: bool,
        anomalous: Option<AnomalousFrames>,
    ) -> Result<Self, LogError> {
        switches(&settings.modes, model.model.classes())?;
        let tables = || IntegerModel::new(&model.model, IntegerOptions::SWITCH);
        let integer = is_integer.then(tables).transpose();
        let integer = integer
            .map_err(|error| LogError::usage(format_args!("--integer with this model: {error}")))?;
        Ok(Self { settings, model, integer: integer.map(Arc::new), anomalous })
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
            let agreement = self.anomalous.as_ref().map(|_| Agreement::default());
            Ok(Rate { gbps, judge, switches, streams: Streams::default(), bytes: 0, agreement })
        };
        let rates = self.settings.gbps.iter().map(rate).collect::<Result<_, Refusal>>()?;
        let (anomalous, truth) = (self.anomalous, Vec::new());
        Ok(SimulationLens { rates, packets: 0, anomalous, truth }.into())
    }
}

/// The lens: every packet is classified once for each rate, in as many streams.
struct SimulationLens {
    rates: Vec<Rate>,
    packets: u64,
    anomalous: Option<AnomalousFrames>,
    /// Of the packets of a batch whether they are anomalous; none where that is not known.
    truth: Vec<bool>,
}

struct Rate {
    gbps: u32,
    judge: Box<dyn Judge + Send>,
    switches: Switches,
    streams: Streams,
    /// Of one stream so far.
    bytes: u64,
    agreement: Option<Agreement>,
}

/// Packets of all streams, each with [other addresses](rename).
#[derive(Default)]
struct Streams {
    bytes: Vec<u8>,
    records: Vec<Record>,
    judged: Vec<PacketVerdict>,
}

impl Rate {
    fn take(&mut self, batch: &Batch<'_>, truth: &[bool]) {
        let streams = self.gbps / STREAM_GBPS;
        let together = (BATCH_LEN / streams as usize).max(1);
        let mut truths = truth.chunks(together);
        for records in batch.records.chunks(together) {
            let truth = truths.next().unwrap_or_default();
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
                if let (Some(agreement), Some(&is_anomalous)) =
                    (&mut self.agreement, truth.get(index / streams as usize))
                {
                    agreement.count(judged.class > 0, is_anomalous);
                }
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
        self.truth.clear();
        if let Some(anomalous) = &mut self.anomalous {
            self.truth.extend(anomalous.take(batch.records.len()));
        }
        self.rates.iter_mut().for_each(|rate| rate.take(&batch, &self.truth));
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
        self.anomalous.map_or(Ok(()), |anomalous| anomalous.left()).map_err(Refusal::new)?;
        let rows = self.rates.into_iter().flat_map(|rate| {
            let end_ps = rate.bytes * BYTE_PS;
            finished("captures", rate.gbps, end_ps, rate.switches, rate.agreement)
        });
        let report = SimulationReport { rows: rows.collect() };
        Ok(Closing { outcome, found: Some(Box::new(report)), ..Closing::default() })
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
