//! Scores of packets in steps, so that they are counted in bounded memory and compared exactly.

/// Steps between the lowest score and the highest: scores are resolved to a thousandth.
pub const SCORE_STEPS: u16 = 1_000;

/// The threshold of a model that was not calibrated: the class of the highest probability decides.
pub const MODEL_THRESHOLD: Threshold = Threshold(SCORE_STEPS / 2);

/// The score of a packet: half of 1 plus the probability of its most probable anomalous class
/// minus that of the first class, in steps; with two classes the probability of the second.
///
/// A step `s` stands for scores above `s` and up to `s + 1` thousandths, so that comparing steps is
/// comparing scores, for every threshold in whole thousandths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct ScoreStep(u16);

impl ScoreStep {
    /// Of the difference of both probabilities, -1 to 1.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn of(margin: f64) -> Self {
        let half = f64::from(SCORE_STEPS / 2);
        // In range by the clamp, and 0 where it is no number.
        let step = ((margin * half).ceil() + half - 1.0).clamp(0.0, f64::from(SCORE_STEPS - 1));
        Self(step as u16)
    }

    /// Its place in a histogram of [`SCORE_STEPS`].
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The step at a place in such a histogram; the last one from there on.
    #[must_use]
    pub fn at(index: usize) -> Self {
        let last = SCORE_STEPS - 1;
        Self(u16::try_from(index).map_or(last, |step| step.min(last)))
    }
}

/// The score above which a packet is marked, in whole thousandths; 1,000 marks none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Threshold(u16);

impl Threshold {
    /// Marks every packet.
    pub const ALL: Self = Self(0);
    /// Marks no packet.
    pub const NONE: Self = Self(SCORE_STEPS);

    /// From thousandths; no more than 1,000.
    #[must_use]
    pub fn from_steps(steps: u16) -> Option<Self> {
        (steps <= SCORE_STEPS).then_some(Self(steps))
    }

    /// In thousandths.
    #[must_use]
    pub const fn steps(self) -> u16 {
        self.0
    }

    /// As a score, 0 to 1.
    #[must_use]
    pub fn score(self) -> f64 {
        f64::from(self.0) / f64::from(SCORE_STEPS)
    }

    /// Whether a packet of this score is marked.
    #[inline]
    #[must_use]
    pub const fn marks(self, score: ScoreStep) -> bool {
        score.0 >= self.0
    }
}

/// The threshold of each forest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ForestThresholds {
    /// Of packets that the flow forest classifies.
    pub flow: Threshold,
    /// Of the others.
    pub packet: Threshold,
}
