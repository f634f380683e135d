//! The paper's simulator (section VIII-E): what a switch that logs 100, 200 and 400 Gb/s would
//! send, and what would go round inside it.
//!
//! A capture stands for 100 Gb/s, and more come from parallel streams of it, each under addresses
//! of its own; one classifier judges them all. Rates are shares of bytes and packets, of that.
//! Stamps stay those of the capture: a model knows gaps by them, and its window then holds as many
//! packets of a stream as when it was trained. Benign packets are logged as headers; anomalous ones
//! whole, in segments of 128, 64, 32, 16, 8 and 4 bytes (section V-B), each behind its headers in a
//! message of its own. What is left of a packet goes round once for each segment that was taken
//! off. Nothing is dropped: numbers above a limit tell where the switch would begin to.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use packet::{Batch, HashSeed, Network, Record};
use packetlog::{Basis, Classifier, Model, PacketVerdict};

use crate::Failure;
use crate::frames::Frames;

/// Around each message: Ethernet, IPv4, UDP, base and extended transport header of RDMA, its
/// checksum and Ethernet's. With 54 bytes of headers that is near the 137 that figure 3 of the
/// paper comes to.
const MESSAGE_BYTES: u64 = 14 + 20 + 8 + 12 + 16 + 4 + 4;

/// The rate of one stream.
const STREAM_BITS: f64 = 100e9;

/// Where the paper's switch and server end, in Gb/s: the port through which packets go round, RDMA,
/// and eight gigabytes that take 1.67 s to be written.
const LIMITS: [(&str, f64); 3] = [("recirculation", 100.0), ("rdma", 60.0), ("disks", 38.3)];

/// Packets of all streams that are judged together.
const BATCH_LEN: usize = 256;

/// Arguments of `packetlog scale`.
#[derive(Debug, Args)]
pub(crate) struct ScaleArguments {
    /// A capture; may be given again
    #[arg(long, value_name = "FILE", required = true)]
    capture: Vec<PathBuf>,
    /// The model's file
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// Rates, multiples of 100 Gb/s
    #[arg(long, value_delimiter = ',', default_value = "100,200,400")]
    gbps: Vec<u32>,
    /// Packets of each capture to take
    #[arg(long, default_value_t = 2_000_000)]
    packets: usize,
}

/// Prints a line of JSON for each capture and rate.
pub(crate) fn run(arguments: &ScaleArguments) -> Result<(), Failure> {
    let name = arguments.model.display();
    let text = std::fs::read(&arguments.model).map_err(|error| format!("{name}: {error}"))?;
    let model = Arc::new(Model::parse(&text).map_err(|error| format!("{name}: {error}"))?);
    for path in &arguments.capture {
        let frames = Frames::read(path, arguments.packets)?;
        for &gbps in &arguments.gbps {
            let streams = u8::try_from((gbps / 100).clamp(1, 255)).unwrap_or(u8::MAX);
            simulate(path, &frames, &model, streams);
        }
    }
    Ok(())
}

/// Bytes and packets that were counted.
#[derive(Default)]
struct Counted {
    packets: u64,
    anomalous: u64,
    by_packet: u64,
    wire_bytes: u64,
    log_packets: u64,
    log_bytes: u64,
    round_packets: u64,
    round_bytes: u64,
}

impl Counted {
    fn add(&mut self, record: &Record, judged: &PacketVerdict) {
        let wire_len = u64::from(record.wire_len);
        let payload = u64::from(record.layers.payload_len).min(wire_len);
        let headers = wire_len - payload;
        self.packets += 1;
        self.wire_bytes += wire_len;
        self.by_packet += u64::from(judged.basis == Basis::Packet);
        if judged.class == 0 {
            self.message(headers);
            return;
        }
        self.anomalous += 1;
        let mut left = payload;
        loop {
            // The largest segment that fits; less than four bytes are one of four.
            let segment = match left {
                0 => 0,
                128.. => 128,
                left => (1 << left.ilog2()).max(4).min(left.max(4)),
            };
            self.message(headers + segment);
            left = left.saturating_sub(segment);
            if left == 0 {
                return;
            }
            self.round_packets += 1;
            self.round_bytes += headers + left;
        }
    }

    fn message(&mut self, bytes: u64) {
        self.log_packets += 1;
        self.log_bytes += bytes + MESSAGE_BYTES;
    }
}

fn simulate(path: &Path, frames: &Frames, model: &Arc<Model>, streams: u8) {
    let mut classifier = Classifier::new(Arc::clone(model), HashSeed::new(1));
    let (mut judged, mut counted) = (Vec::new(), Counted::default());
    let wire_bytes: u64 = frames.records().iter().map(|record| u64::from(record.wire_len)).sum();
    #[allow(clippy::cast_precision_loss)]
    let seconds = wire_bytes as f64 * 8.0 / STREAM_BITS;
    let (mut bytes, mut records) = (Vec::new(), Vec::with_capacity(BATCH_LEN));
    let mut judge = |bytes: &mut Vec<u8>, records: &mut Vec<Record>| {
        classifier.judge(&Batch { bytes, records, tick: None }, &mut judged);
        records.iter().zip(&judged).for_each(|(record, judged)| counted.add(record, judged));
        bytes.clear();
        records.clear();
    };
    for record in frames.records() {
        for stream in 0..streams {
            let offset = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            bytes.extend_from_slice(frames.bytes_of(record));
            rename(&mut bytes[offset as usize..], record, stream);
            records.push(Record { offset, ..*record });
            if records.len() == BATCH_LEN {
                judge(&mut bytes, &mut records);
            }
        }
    }
    judge(&mut bytes, &mut records);
    print(path, u32::from(streams) * 100, seconds, &counted, &classifier);
}

/// Another network for both hosts.
fn rename(frame: &mut [u8], record: &Record, stream: u8) {
    let at = usize::from(record.layers.network_offset);
    let places = match record.layers.network {
        Network::Ipv4 => [at + 12, at + 16],
        Network::Ipv6 => [at + 8, at + 24],
        _ => return,
    };
    for place in places {
        if let Some(byte) = frame.get_mut(place) {
            *byte ^= stream;
        }
    }
}

#[allow(clippy::print_stdout, clippy::cast_precision_loss)] // A door: the line is its output.
fn print(path: &Path, gbps: u32, seconds: f64, counted: &Counted, classifier: &Classifier) {
    let per_second = |bytes: u64| bytes as f64 * 8.0 / seconds / 1e9;
    let share = |part: u64| part as f64 / counted.packets.max(1) as f64;
    let inside = counted.round_bytes;
    let rates = [per_second(inside), per_second(counted.log_bytes), per_second(counted.log_bytes)];
    let above: Vec<String> = LIMITS
        .iter()
        .zip(rates)
        .filter(|((_, limit), rate)| rate > limit)
        .map(|((name, _), _)| format!("\"{name}\""))
        .collect();
    // Captures of a testbed's runs are all called the same.
    let of = |name: Option<&OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
    let folder = of(path.parent().and_then(Path::file_name));
    let trace = format!("{folder}/{}", of(path.file_stem()));
    let refused: u64 = classifier.counts().sketches.iter().map(|(_, counts)| counts.refused).sum();
    println!(
        r#"{{"figure":"packetlog-scale","trace":"{trace}","gbps":{gbps},"packets":{},"mpps":{:.3},"anomalous":{:.5},"by_packet":{:.5},"refused":{refused},"log_gbps":{:.3},"log_mpps":{:.3},"recirculated_gbps":{:.3},"recirculated_mpps":{:.3},"above":[{}]}}"#,
        counted.packets,
        counted.packets as f64 / seconds / 1e6,
        share(counted.anomalous),
        share(counted.by_packet),
        rates[1],
        counted.log_packets as f64 / seconds / 1e6,
        rates[0],
        counted.round_packets as f64 / seconds / 1e6,
        above.join(",")
    );
}

#[cfg(test)]
mod tests {
    use packet::Layers;

    use super::*;

    fn counted(payload_len: u32, class: u16) -> Counted {
        let layers = Layers { payload_len, ..Layers::default() };
        let record = Record { wire_len: 54 + payload_len, layers, ..Record::default() };
        let judged = PacketVerdict { class, confidence: 1.0, basis: Basis::Packet, flow: None };
        let mut counted = Counted::default();
        counted.add(&record, &judged);
        counted
    }

    #[test]
    fn a_packet_is_split_as_the_paper_says() {
        // "A packet with a 1480B payload will be split into 13 segments."
        let anomalous = counted(1480, 1);
        assert_eq!((anomalous.log_packets, anomalous.round_packets), (13, 12));
        assert_eq!(anomalous.log_bytes, 1480 + 13 * (54 + MESSAGE_BYTES));
        let benign = counted(1480, 0);
        assert_eq!((benign.log_packets, benign.log_bytes), (1, 54 + MESSAGE_BYTES));
        assert_eq!(counted(0, 1).log_packets, 1);
        assert_eq!((counted(3, 1).log_packets, counted(5, 1).log_packets), (1, 2));
        // All five small segments behind eleven large ones.
        assert_eq!(counted(11 * 128 + 124, 1).log_packets, 16);
    }
}
