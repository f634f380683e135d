//! Whether tuned layers are better, on examples that did not train them.

use model::encoder::{EncoderError, Examples, Head, TrainingSettings};

/// One block of examples in so many is held out.
const EVERY: usize = 10;
/// Examples of a block at most. Neighbours share an output of the encoder and resemble each other,
/// so that single examples would hardly be held out.
const BLOCK_MAX: usize = 64;

/// Which of so many examples are held out: a tenth, in blocks spread over the whole time, since a
/// queue changes within a minute. None of fewer than ten.
pub(super) fn held_out(count: usize) -> Vec<bool> {
    let block = (count / (EVERY * EVERY)).clamp(1, BLOCK_MAX);
    (0..count).map(|at| at / block % EVERY == EVERY - 1).collect()
}

/// What training makes smaller, of the examples held out, or of all where none is.
pub(super) fn loss(
    head: &Head,
    examples: &Examples<'_>,
    is_held: &[bool],
    settings: &TrainingSettings,
) -> Result<f64, EncoderError> {
    let is_all = !is_held.contains(&true);
    let chosen = (0..).zip(is_held).filter(|&(_, &is_held)| is_held || is_all);
    let chosen: Vec<u32> = chosen.map(|(at, _)| at).collect();
    examples.loss(head, &chosen, settings)
}

#[cfg(test)]
mod tests {
    use super::held_out;

    #[test]
    fn a_tenth_is_held_out_in_blocks_over_the_whole_time() {
        for (count, wanted) in [(0, 0), (9, 0), (10, 1), (512, 50), (250_000, 24_960)] {
            let held = held_out(count);
            let found = held.iter().filter(|&&is_held| is_held).count();
            assert_eq!((held.len(), found), (count, wanted));
            let last = held.iter().rposition(|&is_held| is_held);
            assert!(last.is_none_or(|last| last >= count * 9 / 10), "{count}: {last:?}");
        }
    }
}
