//! Which packets one in so many are.

use packet::{HashSeed, KeyHash as _};

use super::granularity::{Sample, SampleBy};
use crate::judged::PacketVerdict;

/// Chooses packets, each class for itself.
#[derive(Clone, Debug)]
pub struct Sampler {
    seed: HashSeed,
    /// Packets of each class that were asked about since one was taken.
    since: Vec<u32>,
}

impl Sampler {
    /// For so many classes.
    #[must_use]
    pub fn new(class_count: usize, seed: HashSeed) -> Self {
        Self { seed, since: vec![0; class_count] }
    }

    /// Whether the packet is one of those that are kept. The first of a class is.
    #[inline]
    pub fn takes(&mut self, sample: Option<Sample>, judged: &PacketVerdict) -> bool {
        let Some(Sample { one_in, by }) = sample else { return true };
        match (by, &judged.flow) {
            (SampleBy::Flow, Some((key, _))) => {
                // The low half: the top bits choose partitions elsewhere.
                (key.key_hash(self.seed) as u32).is_multiple_of(one_in.get())
            }
            // What is of no flow is counted.
            _ => {
                let Some(since) = self.since.get_mut(usize::from(judged.class)) else {
                    return true;
                };
                let is_taken = *since == 0;
                *since = (*since + 1) % one_in;
                is_taken
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judged::Basis;

    fn judged(class: u16) -> PacketVerdict {
        PacketVerdict { class, confidence: 1.0, basis: Basis::Packet, flow: None }
    }

    #[test]
    fn every_eighth_of_each_class_is_taken() {
        let mut sampler = Sampler::new(2, HashSeed::new(1));
        let sample = "header,1/8".parse::<super::super::Granularity>().unwrap().sample;
        let taken: Vec<usize> = (0..32).filter(|_| sampler.takes(sample, &judged(0))).collect();
        assert_eq!(taken, [0, 8, 16, 24]);
        assert!(sampler.takes(sample, &judged(1)), "the other class has its own count");
        assert!(sampler.takes(None, &judged(0)));
    }
}
