//! Packets as the paper describes its traces: rates, sizes and shares of Table IV, and what its
//! classifier marked (Tables VI and IX).
//!
//! CIC-IDS2017, which it replays, is not part of this. Packets come evenly, at the rate of Table
//! IV. Of sizes it has means alone: a benign packet has 54, 590 or 1,514 bytes, 590 in a tenth of
//! packets, so often that the mean is the table's. A marked packet has 540 bytes of payload: the
//! recirculated bytes of Table XII, divided by the packets that are marked by Tables IV and IX,
//! are 1,010 to 1,310 in nine of ten cases, and by section V-B 1,220 for such a packet.

use packet::HashSeed;

use super::segments::PacketLengths;
use crate::judged::{Basis, PacketVerdict};

/// Of Ethernet, IPv4 and TCP.
const HEADERS: u32 = 54;
const MIDDLE: u32 = 590;
const LARGE: u32 = 1_514;
const MIDDLE_SHARE: f64 = 0.1;
/// Of a marked packet.
const MARKED_PAYLOAD: u32 = 540;
/// Gb/s of one stream.
const STREAM_GBPS: f64 = 100.0;
/// Draws have so many values.
const DRAWS: f64 = 4_294_967_296.0;

/// One of the paper's workloads at 100 Gb/s.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Workload {
    /// Its name in the paper.
    pub name: &'static str,
    mpps: f64,
    anomalous_mpps: f64,
    anomalous_gbps: f64,
    /// Precision and recall at 100, 200 and 400 Gb/s; where nothing is anomalous, accuracy.
    quality: [(f64, f64); 3],
}

const fn workload(
    name: &'static str,
    [mpps, anomalous_mpps, anomalous_gbps]: [f64; 3],
    quality: [(f64, f64); 3],
) -> Workload {
    Workload { name, mpps, anomalous_mpps, anomalous_gbps, quality }
}

/// All five.
pub const WORKLOADS: [Workload; 5] = [
    workload("w1", [15.214, 0.0, 0.0], [(0.951, 0.0), (0.943, 0.0), (0.918, 0.0)]),
    workload("w2", [14.694, 0.344, 0.153], [(0.453, 0.999), (0.435, 0.999), (0.362, 0.998)]),
    workload("w3", [14.418, 2.551, 16.621], [(0.817, 0.997), (0.805, 0.997), (0.765, 0.998)]),
    workload("w4", [15.856, 0.163, 0.348], [(0.073, 0.394), (0.066, 0.394), (0.055, 0.340)]),
    workload("w5", [15.986, 2.135, 12.039], [(0.835, 0.991), (0.823, 0.991), (0.783, 0.991)]),
];

/// A packet of a workload.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WorkloadPacket {
    /// When it comes, in picoseconds from the first one.
    pub time_ps: u64,
    /// Its bytes.
    pub lengths: PacketLengths,
    /// Whether it is anomalous.
    pub is_anomalous: bool,
    /// What was found of it: class 0, or 1 where it was marked.
    pub judged: PacketVerdict,
}

impl Workload {
    /// Its packets at so many times 100 Gb/s, without an end. The seed decides every draw.
    pub fn packets(&self, streams: u32, seed: HashSeed) -> impl Iterator<Item = WorkloadPacket> {
        let (marked, wrongly_marked) = self.marked(streams);
        let benign_mpps = self.mpps - self.anomalous_mpps;
        let sizes = shares((STREAM_GBPS - self.anomalous_gbps) * 125.0 / benign_mpps);
        let limits = [wrongly_marked, marked].map(limit);
        let anomalous = limit(self.anomalous_mpps / self.mpps);
        let gap_ps = 1e6 / (self.mpps * f64::from(streams.max(1)));
        (0_u64..).map(move |number| {
            let [a, b] = [0, 1].map(|draw| seed.hash_words(number, draw));
            let is_anomalous = a >> 32 < anomalous;
            let is_marked = b >> 32 < limits[usize::from(is_anomalous)];
            let payload = if is_marked { MARKED_PAYLOAD } else { payload(a & 0xffff_ffff, sizes) };
            let (class, basis) = (u16::from(is_marked), Basis::Packet);
            let judged = PacketVerdict { class, confidence: 1.0, basis, flow: None };
            let lengths = PacketLengths { headers: HEADERS, payload };
            #[allow(clippy::cast_precision_loss)]
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let time_ps = (number as f64 * gap_ps) as u64;
            WorkloadPacket { time_ps, lengths, is_anomalous, judged }
        })
    }

    /// Of anomalous packets and of benign ones the shares that are marked.
    fn marked(&self, streams: u32) -> (f64, f64) {
        let at = match streams {
            0 | 1 => 0,
            2 | 3 => 1,
            _ => 2,
        };
        let (precision, recall) = self.quality[at];
        if self.anomalous_mpps <= 0.0 {
            return (0.0, 1.0 - precision);
        }
        let found = self.anomalous_mpps * recall;
        let benign = self.mpps - self.anomalous_mpps;
        (recall, found * (1.0 / precision - 1.0) / benign)
    }
}

/// A share as a limit of draws.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn limit(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * DRAWS) as u64
}

/// Of packets of this mean size the share of large ones, and that of large and middle ones.
fn shares(mean: f64) -> [u64; 2] {
    let over = |size: u32| f64::from(size - HEADERS);
    let large = (mean - f64::from(HEADERS) - MIDDLE_SHARE * over(MIDDLE)) / over(LARGE);
    [large, large + MIDDLE_SHARE].map(limit)
}

fn payload(draw: u64, [large, not_small]: [u64; 2]) -> u32 {
    if draw < large {
        LARGE - HEADERS
    } else if draw < not_small {
        MIDDLE - HEADERS
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_shares_are_those_of_the_tables_within_hundredths() {
        for workload in WORKLOADS {
            let count = 400_000;
            let packets: Vec<_> = workload.packets(1, HashSeed::new(7)).take(count).collect();
            let seconds = packets[count - 1].time_ps as f64 / 1e12;
            let of = |is: &dyn Fn(&WorkloadPacket) -> bool| {
                packets.iter().filter(|packet| is(packet)).count() as f64
            };
            let near = |seen: f64, wanted: f64, within: f64| {
                assert!((seen - wanted).abs() < within, "{}: {seen} {wanted}", workload.name);
            };
            near(count as f64 / seconds / 1e6 / workload.mpps, 1.0, 0.001);
            let anomalous = of(&|packet| packet.is_anomalous);
            near(anomalous / count as f64, workload.anomalous_mpps / workload.mpps, 0.002);
            let marked = of(&|packet| packet.judged.class == 1);
            let right = of(&|packet| packet.judged.class == 1 && packet.is_anomalous);
            let (precision, recall) = workload.quality[0];
            if workload.anomalous_mpps > 0.0 {
                near(right / marked, precision, 0.02);
                near(right / anomalous, recall, 0.03);
            } else {
                near(marked / count as f64, 1.0 - precision, 0.002);
            }
            let benign = packets.iter().filter(|packet| packet.judged.class == 0);
            let sizes: Vec<f64> = benign.map(|packet| packet.lengths.wire().into()).collect();
            let benign_mpps = workload.mpps - workload.anomalous_mpps;
            let wanted = (STREAM_GBPS - workload.anomalous_gbps) * 125.0 / benign_mpps;
            near(sizes.iter().sum::<f64>() / sizes.len() as f64 / wanted, 1.0, 0.01);
        }
    }
}
