//! How sure a model is, from the probabilities that it gives.

/// How uncertainty is measured (the paper's section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Uncertainty {
    /// What the likeliest class lacks to certainty: 1 − max p.
    LeastConfidence,
    /// −Σ p ln p, in nats.
    Entropy,
}

/// What a model says of one flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Answer {
    /// The likeliest class; of equals the first.
    pub label: u16,
    /// The likeliest class that names something: another than `label` where that is the class of
    /// flows of no other.
    pub guess: u16,
    /// The probability of the guess; of a stage's answer, calibrated.
    pub confidence: f64,
    /// The uncertainty, as the stage measures it.
    pub uncertainty: f64,
}

impl Answer {
    /// That of a stage whose model failed.
    pub(crate) const NONE: Self =
        Self { label: 0, guess: 0, confidence: 0.0, uncertainty: f64::INFINITY };

    /// Whether the stage's model failed: this is no answer of it.
    pub(crate) const fn is_none(&self) -> bool {
        !self.uncertainty.is_finite()
    }
}

impl Uncertainty {
    /// Both, in the order of the specification.
    pub const ALL: [Self; 2] = [Self::LeastConfidence, Self::Entropy];

    /// The word in the artifact.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeastConfidence => "least-confidence",
            Self::Entropy => "entropy",
        }
    }

    /// What these probabilities, one a class, come to.
    #[must_use]
    pub fn answer(self, probabilities: &[f64]) -> Answer {
        let (mut label, mut confidence) = (0, f64::NEG_INFINITY);
        for (class, &probability) in (0..).zip(probabilities) {
            if probability > confidence {
                (label, confidence) = (class, probability);
            }
        }
        let uncertainty = match self {
            Self::LeastConfidence => 1.0 - confidence,
            Self::Entropy => {
                let terms = probabilities.iter().filter(|&&p| p > 0.0).map(|p| p * p.ln());
                // Added in the order of the classes, so that it is the same everywhere.
                -terms.fold(0.0, |sum, term| sum + term)
            }
        };
        Answer { label, guess: label, confidence, uncertainty }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equals_the_first_is_the_answer() {
        let answer = Uncertainty::LeastConfidence.answer(&[0.2, 0.4, 0.4]);
        assert_eq!((answer.label, answer.confidence, answer.uncertainty), (1, 0.4, 0.6));
        let sure = Uncertainty::Entropy.answer(&[0.0, 1.0]);
        assert_eq!((sure.label, sure.uncertainty), (1, 0.0));
        let even = Uncertainty::Entropy.answer(&[0.5, 0.5]);
        assert!((even.uncertainty - std::f64::consts::LN_2).abs() < 1e-15);
    }

    #[test]
    fn no_number_is_never_sure() {
        let answer = Uncertainty::LeastConfidence.answer(&[f64::NAN, f64::NAN]);
        assert_eq!(answer.label, 0);
        assert!(answer.uncertainty > 1.0);
    }
}
