//! What is kept of the packets of one window that go one way: sums, no packets.

use packet::{Frame, Timestamp};

use super::number::Quantity;
use super::rtp::Rtp;
use crate::sequence::{payload_bytes, size_bytes};

/// Lengths from this on are one where different lengths are counted: Ethernet carries none of them
/// unless its ends agree on more, so they mostly come from offloads and say little.
pub const DISTINCT_MAX: u32 = 1_535;

/// Packets of this length, from the IP header on, and longer ones are taken for parts of video
/// frames where frames are detected by sizes; audio is shorter. A packet begins a frame unless its
/// length is within [`FRAME_BYTES_SPREAD`] of one of the two such packets before it: encoders cut a
/// frame into parts of one length. Sharma et al. (IMC 2023) call it the IP/UDP heuristic.
pub const FRAME_BYTES_MIN: u32 = 450;

/// How far apart lengths of one frame's parts are at most.
pub const FRAME_BYTES_SPREAD: u32 = 2;

const DISTINCT_WORDS: usize = (DISTINCT_MAX as usize + 1) / 64;
const BURST_GAPS_NS: [u64; 3] = [5_000_000, 15_000_000, 30_000_000];

/// Values of a way's quantities, in the order of [`Quantity::ALL`].
pub(super) type Values = [f32; Quantity::ALL.len()];

/// Least, most, sum and sum of squares of whole numbers; exact, so that their order is nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Moments {
    count: u32,
    least: u64,
    most: u64,
    sum: u64,
    squares: u128,
}

impl Default for Moments {
    fn default() -> Self {
        Self { count: 0, least: u64::MAX, most: 0, sum: 0, squares: 0 }
    }
}

impl Moments {
    fn add(&mut self, value: u64) {
        self.count = self.count.saturating_add(1);
        self.least = self.least.min(value);
        self.most = self.most.max(value);
        self.sum = self.sum.saturating_add(value);
        let square = u128::from(value) * u128::from(value);
        self.squares = self.squares.saturating_add(square);
    }

    /// Least, most, mean and variance; −1 each where there is nothing.
    fn values(&self) -> [f32; 4] {
        if self.count == 0 {
            return [-1.0; 4];
        }
        let count = f64::from(self.count);
        let sum = u128::from(self.sum);
        // Whole until the last step: a difference of two large numbers would keep few digits.
        let spread = (u128::from(self.count).saturating_mul(self.squares))
            .saturating_sub(sum.saturating_mul(sum));
        let (mean, variance) = (self.sum as f64 / count, spread as f64 / (count * count));
        [self.least as f32, self.most as f32, mean as f32, variance as f32]
    }
}

/// What stays with a flow from one window to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Carried {
    latest: Option<Timestamp>,
    /// Lengths of the last two packets that may be parts of frames.
    parts: [u32; 2],
}

/// Packets of one window that go one way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Side {
    carried: Carried,
    payload_bytes: u64,
    sizes: Moments,
    distinct: [u64; DISTINCT_WORDS],
    gaps: Moments,
    gaps_above: [u32; BURST_GAPS_NS.len()],
    frames: u32,
    rtp: Option<Box<Rtp>>,
}

impl Side {
    pub(super) fn on_frame(&mut self, frame: &Frame<'_>, time: Timestamp, reads_rtp: bool) {
        let size = size_bytes(frame.record);
        self.payload_bytes += u64::from(payload_bytes(frame.record).unwrap_or(0));
        self.sizes.add(size.into());
        let place = size.min(DISTINCT_MAX);
        if let Some(word) = self.distinct.get_mut(place as usize / 64) {
            *word |= 1 << (place % 64);
        }
        if let Some(latest) = self.carried.latest {
            let gap_ns = u64::try_from(time.since(latest).as_ns()).unwrap_or(0);
            self.gaps.add(gap_ns);
            for (count, above_ns) in self.gaps_above.iter_mut().zip(BURST_GAPS_NS) {
                *count = count.saturating_add(u32::from(gap_ns > above_ns));
            }
        }
        self.carried.latest = self.carried.latest.max(Some(time));
        if size >= FRAME_BYTES_MIN {
            let is_part = |part: &u32| part.abs_diff(size) <= FRAME_BYTES_SPREAD;
            let begins = !self.carried.parts.iter().any(is_part);
            self.frames = self.frames.saturating_add(u32::from(begins));
            self.carried.parts = [self.carried.parts[1], size];
        }
        if reads_rtp {
            self.rtp.get_or_insert_default().on_frame(frame);
        }
    }

    /// A window ends: what is counted is forgotten.
    pub(super) fn turn(&mut self) {
        let (carried, mut rtp) = (self.carried, self.rtp.take());
        if let Some(rtp) = &mut rtp {
            rtp.turn();
        }
        *self = Self { carried, rtp, ..Self::default() };
    }

    pub(super) fn values(&self) -> Values {
        let [least, most, mean, variance] = self.sizes.values();
        let [gap_least, gap_most, gap_mean, gap_variance] = self.gaps.values();
        let [above_5, above_15, above_30] = self.gaps_above.map(|count| count as f32);
        let distinct: u32 = self.distinct.iter().map(|word| word.count_ones()).sum();
        let [packets, timestamps, markers, streams] =
            self.rtp.as_ref().map_or([0.0; 4], |rtp| rtp.values());
        let (count, sum) = (self.sizes.count as f32, self.sizes.sum as f32);
        [
            count,
            sum,
            self.payload_bytes as f32,
            least,
            most,
            mean,
            variance,
            distinct as f32,
            gap_least,
            gap_most,
            gap_mean,
            gap_variance,
            above_5,
            above_15,
            above_30,
            self.frames as f32,
            packets,
            timestamps,
            markers,
            streams,
        ]
    }

    /// Bytes that have come in this window.
    pub(super) const fn bytes(&self) -> u64 {
        self.sizes.sum
    }

    /// Bytes that it allocates.
    pub(super) fn kept_bytes(&self) -> usize {
        self.rtp.as_ref().map_or(0, |_| size_of::<Rtp>())
    }
}
