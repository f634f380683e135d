//! How far a sketch's sums are from the true ones at the end of a window, by how many flows were
//! active in it.
//!
//! A window is as long as it takes until so many flows have sent something. Stamps are those of
//! the capture, sped up to the rate at which the paper replays its own. Where a capture has fewer
//! flows it is replayed in parallel, each stream under flow identifiers of its own, as the paper
//! does it (section VIII-E).

use std::path::{Path, PathBuf};

use capture::{Input, ReadOptions, open};
use clap::Args;
use engine::sketch::{Sketch, SketchOptions, SketchPacket};
use engine::sums::PacketSums;
use packet::{FlowKey, HashSeed, KeyHash as _, Source as _, Span, Timestamp};
use packetlog::integer::sketch::{IntegerPacket, IntegerSketch};
use packetlog::integer::sums::IntegerSums;
use packetlog::integer::tables::{Ranges, Squares};

use crate::Failure;
use crate::packetlog::reference::{Entry, KeyPacket, OnePerBucket, Truth};

/// Nanoseconds from packet to packet, on average: 15.2 million a second, as the paper's first trace
/// at 100 Gb/s.
const GAP_NS: f64 = 65.8;

/// The longest window of a sketch.
const WINDOW_NS: i64 = u32::MAX as i64;

/// The most that the paper's traces have, some of them; what two layers of 2¹⁶ buckets hold just so
/// and just not; what it extrapolates to.
const FLOWS: &str = "10000,33000,59000,100000,120000,160000,295000,590000,1180000";

/// Arguments of `packetlog sketch-error`.
#[derive(Debug, Args)]
pub(crate) struct SketchErrorArguments {
    /// A capture; may be given again
    #[arg(long, value_name = "FILE", required = true)]
    capture: Vec<PathBuf>,
    /// Active flows in a window
    #[arg(long, value_delimiter = ',', default_value = FLOWS)]
    flows: Vec<usize>,
    /// Windows to look at, at most
    #[arg(long, default_value_t = 5)]
    windows: usize,
    /// Packets of each capture to take
    #[arg(long, default_value_t = 5_000_000)]
    packets: usize,
    /// Layers
    #[arg(long, default_value_t = 2)]
    layers: usize,
    /// Buckets of a layer, as a power of two
    #[arg(long, default_value_t = 16)]
    bucket_bits: u32,
}

/// Prints a line of JSON for each capture, number of flows and rule.
pub(crate) fn run(arguments: &SketchErrorArguments) -> Result<(), Failure> {
    for path in &arguments.capture {
        let packets = read(path, arguments.packets)?;
        let mut distinct: Vec<u64> = packets.iter().map(|packet| packet.hash).collect();
        distinct.sort_unstable();
        distinct.dedup();
        for &flows in &arguments.flows {
            // A fifth more than needed, so that a window ends before the capture does.
            let streams = (flows * 6 / 5).div_ceil(distinct.len().max(1));
            let trace = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into());
            measure(arguments, &trace, &packets, flows, streams);
        }
    }
    Ok(())
}

/// Packets of flows with the hashes of their keys, at the paper's rate.
fn read(path: &Path, count_max: usize) -> Result<Vec<KeyPacket>, Failure> {
    let input = Input::File(path.to_owned());
    let mut source = open(&input, &ReadOptions::default()).map_err(|error| error.to_string())?;
    let seed = HashSeed::new(1);
    let mut packets = Vec::new();
    while let Some(batch) = source.next_batch() {
        for frame in batch.frames() {
            if let Some((key, _)) = FlowKey::from_frame(&frame)
                && packets.len() < count_max
            {
                packets.push(KeyPacket {
                    hash: key.key_hash(seed),
                    time_ns: frame.record.timestamp.as_ns(),
                    size: frame.record.wire_len,
                });
            }
        }
    }
    packets.sort_by_key(|packet| packet.time_ns);
    let (Some(first), Some(last)) = (packets.first(), packets.last()) else {
        return Err(format!("{}: no packets of flows", path.display()));
    };
    let (start, span) = (first.time_ns, (last.time_ns - first.time_ns).max(1));
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    let factor = GAP_NS * packets.len() as f64 / span as f64;
    for packet in &mut packets {
        packet.time_ns = ((packet.time_ns - start) as f64 * factor) as i64;
    }
    Ok(packets)
}

/// Who estimates.
struct Rules {
    ours: Sketch,
    /// The same, but no flow is ever evicted.
    stubborn: Sketch,
    paper: OnePerBucket,
    /// By bits of a square.
    integer: [IntegerRule; 2],
    ranges: Ranges,
}

/// A sketch in whole numbers.
struct IntegerRule {
    sketch: IntegerSketch,
    squares: Squares,
}

/// Gaps are squared in this unit.
const GAP_UNIT_NS: f64 = 64.0;
/// The relative error of products, as that of the packet log.
const PRODUCT_ERROR: f64 = 0.01;

impl Rules {
    const NAMES: [&str; 6] = [
        "ours",
        "ours, no flow evicted",
        "one flow a bucket, as in the paper",
        "the paper's with NetBeacon's squares",
        "whole numbers, squares of 10 bits",
        "whole numbers, squares of 4 bits",
    ];

    fn new(arguments: &SketchErrorArguments) -> Self {
        let window = Span::from_ns(WINDOW_NS);
        let (layers, buckets) = (arguments.layers, 1 << arguments.bucket_bits);
        let options = SketchOptions { layers, buckets, window };
        let integer = |bits| IntegerRule {
            sketch: IntegerSketch::new(layers, buckets, window),
            squares: Squares::rounded(bits),
        };
        Self {
            ours: Sketch::new(options),
            stubborn: Sketch::new(options).with_votes(u32::MAX),
            paper: OnePerBucket::new(layers, arguments.bucket_bits),
            integer: [10, 4].map(integer),
            ranges: Ranges::new(PRODUCT_ERROR),
        }
    }

    fn observe(&mut self, packet: &KeyPacket) {
        let &KeyPacket { hash, time_ns, size } = packet;
        let time = Timestamp::from_ns(time_ns);
        let sketch_packet = SketchPacket { hash, time, size, is_marked: false };
        self.ours.observe(sketch_packet);
        self.stubborn.observe(sketch_packet);
        self.paper.observe(packet);
        for rule in &mut self.integer {
            let packet = IntegerPacket { hash, time, size, is_marked: false };
            rule.sketch.observe(&packet, &rule.squares);
        }
    }

    /// What a rule has of a key; nothing where it has no place.
    fn get(&self, rule: usize, hash: u64) -> Option<Attributes> {
        let of = |sums: PacketSums| sums.is_held().then(|| attributes(&sums));
        match rule {
            0 => of(self.ours.get(hash)),
            1 => of(self.stubborn.get(hash)),
            2 => self.paper.get(hash).map(|entry| attributes(&entry.sums)),
            3 => self.paper.get(hash).map(netbeacon),
            _ => {
                let IntegerRule { sketch, squares } = &self.integer[rule - 4];
                sketch.get(hash).map(|sums| integer(sums, squares, &self.ranges))
            }
        }
    }

    fn forget(&mut self) {
        self.ours.forget();
        self.stubborn.forget();
        self.paper.clear();
        self.integer.iter_mut().for_each(|rule| rule.sketch.forget());
    }
}

/// The paper's: squares of sizes by NetBeacon's, the square of the mean likewise.
fn netbeacon(entry: &Entry) -> Attributes {
    let sums = &entry.sums;
    let mean_square = entry.squares as f64 / f64::from(sums.packets);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let mean = Entry::square_of(sums.size_mean() as u32) as f64;
    let mut attributes = attributes(sums);
    attributes[5] = Some((mean_square - mean).max(0.0));
    attributes
}

/// Ratios as they are compared: by the number that stands for the range of the divisor.
fn integer(sums: &IntegerSums, squares: &Squares, ranges: &Ranges) -> Attributes {
    let ratio = |value: f64, divisor: u32| {
        let place = ranges.place(divisor.into());
        value / (ranges.representative(place.index.into()) * f64::from(1_u32 << place.shift))
    };
    let of_gap = |value: f64| (sums.gaps() > 0).then_some(value);
    [
        Some(sums.packets.into()),
        Some(sums.size_sum as f64),
        Some(sums.size_max.into()),
        Some(sums.size_min.into()),
        Some(ratio(sums.size_sum as f64, sums.packets)),
        Some(ratio(sums.size_moment(squares) as f64, sums.packets)),
        of_gap(sums.gap_sum() as f64),
        of_gap(sums.gap_max as f64),
        of_gap(sums.gap_min as f64),
        of_gap(ratio(sums.gap_sum() as f64, sums.gaps())),
        of_gap(ratio(sums.gap_moment(squares) as f64 * GAP_UNIT_NS * GAP_UNIT_NS, sums.gaps())),
    ]
}

const ATTRIBUTES: [&str; 11] = [
    "packets",
    "size_sum",
    "size_max",
    "size_min",
    "size_mean",
    "size_variance",
    "gap_sum",
    "gap_max",
    "gap_min",
    "gap_mean",
    "gap_variance",
];

type Attributes = [Option<f64>; ATTRIBUTES.len()];

/// Attributes of a flow that has any; gaps only where there are two packets.
fn attributes(sums: &PacketSums) -> Attributes {
    let of_gap = |value: f64| (sums.packets > 1).then_some(value);
    [
        Some(sums.packets.into()),
        Some(sums.size_sum as f64),
        Some(sums.size_max.into()),
        Some(sums.size_min.into()),
        Some(sums.size_mean()),
        Some(sums.size_variance()),
        of_gap(sums.gap_sum as f64),
        of_gap(sums.gap_max as f64),
        of_gap(sums.gap_min as f64),
        of_gap(sums.gap_mean()),
        of_gap(sums.gap_variance()),
    ]
}

/// Errors added up, and of how many flows.
#[derive(Clone, Copy, Default)]
struct Errors {
    sums: [f64; ATTRIBUTES.len()],
    counts: [u64; ATTRIBUTES.len()],
    held: u64,
    flows: u64,
}

impl Errors {
    /// A flow that is not held has an error of 1 in all; where the truth is 0, an estimate is
    /// either right or has an error of 1.
    fn add(&mut self, truth: &PacketSums, estimate: Option<Attributes>) {
        self.flows += 1;
        self.held += u64::from(estimate.is_some());
        for (at, truth) in attributes(truth).into_iter().enumerate() {
            let Some(truth) = truth else { continue };
            let error = match estimate.and_then(|estimate| estimate[at]) {
                Some(estimate) if estimate_is(estimate, truth) => 0.0,
                Some(estimate) if estimate_is(truth, 0.0) => f64::from(u8::from(estimate > 0.0)),
                Some(estimate) if at == 0 || truth > 0.0 => (estimate - truth).abs() / truth,
                _ => 1.0,
            };
            self.sums[at] += if estimate.is_some() { error } else { 1.0 };
            self.counts[at] += 1;
        }
    }
}

fn estimate_is(estimate: f64, truth: f64) -> bool {
    (estimate - truth).abs() <= truth.abs() * 1e-12
}

fn measure(
    arguments: &SketchErrorArguments,
    trace: &str,
    packets: &[KeyPacket],
    flows: usize,
    streams: usize,
) {
    let mut rules = Rules::new(arguments);
    let mut errors = [Errors::default(); Rules::NAMES.len()];
    let (mut truth, mut windows, mut packet_count, mut in_window) = (Truth::default(), 0, 0, 0);
    let seed = HashSeed::new(2);
    'packets: for packet in packets {
        for stream in 0..streams {
            let hash = seed.hash_words(packet.hash, stream as u64);
            let packet = KeyPacket { hash, ..*packet };
            truth.observe(&packet);
            rules.observe(&packet);
            in_window += 1;
            if truth.keys.len() < flows {
                continue;
            }
            for (rule, errors) in errors.iter_mut().enumerate() {
                for (&hash, entry) in &truth.keys {
                    errors.add(&entry.sums, rules.get(rule, hash));
                }
            }
            packet_count += std::mem::take(&mut in_window);
            truth = Truth::default();
            rules.forget();
            windows += 1;
            if windows == arguments.windows {
                break 'packets;
            }
        }
    }
    for (name, errors) in Rules::NAMES.iter().zip(&errors).filter(|_| windows > 0) {
        print(trace, (flows, streams, windows, packet_count), name, errors, &rules);
    }
}

#[allow(clippy::print_stdout, clippy::cast_precision_loss)] // A door: the line is its output.
fn print(
    trace: &str,
    (flows, streams, windows, packets): (usize, usize, usize, u64),
    rule: &str,
    errors: &Errors,
    rules: &Rules,
) {
    let share = |sum: f64, count: u64| sum / count.max(1) as f64;
    let values = ATTRIBUTES
        .iter()
        .enumerate()
        .map(|(at, name)| format!(r#""{name}":{:.3e}"#, share(errors.sums[at], errors.counts[at])));
    println!(
        r#"{{"figure":"packetlog-sketch-error","trace":"{trace}","active_flows":{flows},"streams":{streams},"windows":{windows},"packets_per_window":{},"rule":"{rule}","size_bytes":{},"coverage":{:.6},{}}}"#,
        packets / windows as u64,
        rules.ours.size_bytes(),
        share(errors.held as f64, errors.flows),
        values.collect::<Vec<_>>().join(",")
    );
}
