//! Sizes of messages and when they come.

use std::str::FromStr;

use dualq::Draws;

/// A measured distribution of message sizes, by its name in `testbed/data/message-sizes.txt`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes(&'static str);

impl Sizes {
    /// All there are, in the order of the file.
    fn names() -> Vec<&'static str> {
        let words = MESSAGE_SIZES.lines().filter_map(|line| line.split_whitespace().next());
        let mut names: Vec<_> = words.filter(|word| !word.starts_with('#')).collect();
        names.dedup();
        names
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = Self::names();
        names.iter().find(|name| **name == text).map(|name| Self(name)).ok_or_else(|| {
            format!("`{text}` names no sizes of messages; wanted one of {}", names.join(", "))
        })
    }
}

/// Lines of `NAME BYTES SHARE`, with the share of messages that are no larger; the file names its
/// sources, and ns-3 reads it, too.
const MESSAGE_SIZES: &str = include_str!("../../../testbed/data/message-sizes.txt");

/// Draws messages of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    /// Sizes and shares, both rising; sizes in between lie on a line.
    points: Vec<(f64, f64)>,
    gap_mean_ns: f64,
}

impl Messages {
    pub(crate) fn new(Sizes(name): Sizes, bps: f64) -> Self {
        let points = points(name);
        let gap_mean_ns = mean(&points) * 8.0 / bps * 1e9;
        Self { points, gap_mean_ns }
    }

    /// Bytes of a message.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn size(&self, draws: &mut Draws) -> u64 {
        let share = draws.unit();
        let drawn = segments(&self.points).find(|(_, (_, to_share))| share <= *to_share);
        let size = drawn.map_or(0.0, |((from, from_share), (to, to_share))| {
            let along = (share - from_share) / (to_share - from_share).max(f64::EPSILON);
            from + (to - from) * along.clamp(0.0, 1.0)
        });
        size.ceil().max(1.0) as u64
    }

    /// Until the next message: exponential, so that messages come independently.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn gap_ns(&self, draws: &mut Draws) -> u64 {
        (-(1.0 - draws.unit()).ln() * self.gap_mean_ns).ceil() as u64
    }
}

fn points(name: &str) -> Vec<(f64, f64)> {
    let point = |line: &str| {
        let mut words = line.split_whitespace();
        let is_of_it = words.next() == Some(name);
        let (bytes, share) = (words.next()?, words.next()?);
        is_of_it.then_some((bytes.parse().ok()?, share.parse().ok()?))
    };
    std::iter::once((1.0, 0.0)).chain(MESSAGE_SIZES.lines().filter_map(point)).collect()
}

fn segments(points: &[(f64, f64)]) -> impl Iterator<Item = ((f64, f64), (f64, f64))> {
    points.iter().copied().zip(points.iter().copied().skip(1))
}

fn mean(points: &[(f64, f64)]) -> f64 {
    segments(points).map(|((from, low), (to, high))| (from + to) / 2.0 * (high - low)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_gaps_have_the_means_that_they_should() {
        assert!(Sizes::names().starts_with(&["websearch", "hadoop"]), "{:?}", Sizes::names());
        for sizes in Sizes::names().into_iter().map(Sizes) {
            let (messages, mut draws) = (Messages::new(sizes, 5e6), Draws::new(1));
            let last = messages.points.last().copied().unwrap();
            assert!((last.1 - 1.0).abs() < 1e-9, "{last:?}");
            assert!(segments(&messages.points).all(|(from, to)| from.0 < to.0 && from.1 <= to.1));
            let count = 200_000;
            let bytes: u64 = (0..count).map(|_| messages.size(&mut draws)).sum();
            let ns: u64 = (0..count).map(|_| messages.gap_ns(&mut draws)).sum();
            let bps = bytes as f64 * 8.0 / (ns as f64 / 1e9);
            assert!((bps / 5e6 - 1.0).abs() < 0.05, "{sizes:?}: {bps}");
        }
    }
}
