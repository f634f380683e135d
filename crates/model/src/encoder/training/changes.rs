//! How well sharp changes of scores are predicted, as a loss with a slope.
//!
//! The mean squared error draws predictions towards the middle of what can happen, and a change
//! from one middle to another is less than a sharp one. F1 counts changes, which has no slope; with
//! a sigmoid for each threshold it has one.

use super::super::kernels::exponential;

/// Added to what F1 is divided by, so that a minibatch without a change is no division by 0.
const LEAST: f32 = 1e-3;
/// No example is before it.
pub const NONE_BEFORE: u32 = u32::MAX;

/// An example as the change from another one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Change {
    /// The example before it, or [`NONE_BEFORE`].
    pub before: u32,
    /// What is added to the difference of the two scores.
    pub step: f32,
    /// How large a change is a sharp one.
    pub threshold: f32,
    /// 1 where it rises sharply, −1 where it falls, else 0.
    pub sign: f32,
}

impl Change {
    /// Of an example that has none before it.
    pub const NONE: Self = Self { before: NONE_BEFORE, step: 0.0, threshold: 1.0, sign: 0.0 };
}

/// 1 over 1 + e to the minus x, within 1e-6 of it.
fn sigmoid(x: f32) -> f32 {
    // The exponential is for numbers up to 0.
    let of = exponential(-x.abs());
    if x < 0.0 { of / (1.0 + of) } else { 1.0 / (1.0 + of) }
}

/// Sums over a minibatch, and what each change adds to them.
#[derive(Clone, Debug, Default)]
pub(super) struct BatchSums {
    /// The slopes of what is right, and of what is predicted, by change.
    slopes: Vec<(f32, f32)>,
    right: f32,
    predicted: f32,
    sharp: f32,
}

impl BatchSums {
    /// Takes one change: the difference of its latencies as predicted, and for how many it counts.
    pub(super) fn count(&mut self, change: &Change, difference: f32, share: f32, softness: f32) {
        let rise = sigmoid((difference - change.threshold) / softness);
        let fall = sigmoid((-difference - change.threshold) / softness);
        let (rising, falling) = (rise * (1.0 - rise) / softness, fall * (1.0 - fall) / softness);
        let (right, slope) = match change.sign {
            sign if sign > 0.0 => (rise, rising),
            sign if sign < 0.0 => (fall, -falling),
            _ => (0.0, 0.0),
        };
        self.right += share * right;
        self.predicted += share * (rise + fall);
        self.sharp += share * change.sign.abs();
        self.slopes.push((share * slope, share * (rising - falling)));
    }

    /// 1 less F1.
    pub(super) fn loss(&self) -> f32 {
        1.0 - 2.0 * self.right / self.total()
    }

    /// The slope of [`Self::loss`] by the difference of each change, in the order in which they
    /// were counted.
    pub(super) fn slopes(&self) -> impl Iterator<Item = f32> + '_ {
        let total = self.total();
        self.slopes.iter().map(move |(right, predicted)| {
            -2.0 * (right * total - self.right * predicted) / (total * total)
        })
    }

    pub(super) fn clear(&mut self) {
        self.slopes.clear();
        (self.right, self.predicted, self.sharp) = (0.0, 0.0, 0.0);
    }

    fn total(&self) -> f32 {
        self.predicted + self.sharp + LEAST
    }
}
