//! How much evidence weighs compared with what a model says of a flow's packets.

use super::{Evidence, Kind, State};

/// Weights of one stage: `score(class) = a[state] · ln p(class) + Σ k[kind] + b(class)`, and the
/// softmax of the scores. `p` is what the model says, raised so that no class is below `floor`.
#[derive(Clone, PartialEq, Debug)]
pub struct Weights {
    /// No class is less probable by the model; what it never saw it rates badly.
    pub floor: f64,
    /// What the model weighs, by state.
    pub model: [f64; State::ALL.len()],
    /// What evidence weighs, by kind.
    pub kinds: [f64; Kind::ALL.len()],
    /// What is added to each class.
    pub classes: Vec<f64>,
}

impl Weights {
    /// Puts the probabilities by model and evidence in the place of the model's.
    pub fn mix(&self, probabilities: &mut [f64], evidence: &Evidence) {
        let scale = 1.0 - self.floor * probabilities.len() as f64;
        let weight = self.model.get(evidence.state() as usize).copied().unwrap_or(1.0);
        let mut most = f64::NEG_INFINITY;
        for (class, (probability, base)) in probabilities.iter_mut().zip(&self.classes).enumerate()
        {
            let mut score = weight * (*probability * scale + self.floor).ln() + base;
            for (kind, classes) in self.kinds.iter().zip(evidence.classes()) {
                if classes >> class & 1 == 1 {
                    score += kind;
                }
            }
            *probability = score;
            most = most.max(score);
        }
        let mut sum = 0.0;
        for probability in probabilities.iter_mut() {
            *probability = (*probability - most).exp();
            sum += *probability;
        }
        for probability in probabilities {
            *probability /= sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights() -> Weights {
        Weights {
            floor: 0.1,
            model: [1.0, 1.0, 1.0, 1.0, 0.5],
            kinds: [2.0; 5],
            classes: vec![0.0, 0.5],
        }
    }

    #[test]
    fn probabilities_are_those_of_the_formula() {
        let mut evidence = Evidence::default();
        let mut found = [0.9, 0.1];
        weights().mix(&mut found, &evidence);
        // 0.9 · 0.8 + 0.1 and 0.1 · 0.8 + 0.1, the second times e^0.5.
        let second = 0.18 * 0.5_f64.exp();
        assert!((found[1] - second / (0.82 + second)).abs() < 1e-12, "{found:?}");
        evidence.add(Kind::Suffix, 1);
        let mut found = [0.9, 0.1];
        weights().mix(&mut found, &evidence);
        let second = 0.18_f64.sqrt() * 2.5_f64.exp();
        assert!((found[1] - second / (0.82_f64.sqrt() + second)).abs() < 1e-12, "{found:?}");
        assert!((found[0] + found[1] - 1.0).abs() < 1e-12);
    }
}
