//! Whether tuned layers are better, on examples that did not train them.

use model::encoder::{EncoderError, Head, HeadScratch};

use super::ExampleColumns;
use crate::history::QUERY_LEN;

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

/// The mean weighted squared error of the examples held out, or of all where none is.
pub(super) fn loss(
    head: &Head,
    examples: &ExampleColumns,
    is_held: &[bool],
) -> Result<f64, EncoderError> {
    let ExampleColumns { hidden, hidden_index, queries, targets, weights } = examples;
    let is_all = !is_held.contains(&true);
    let mut scratch = HeadScratch::new(head);
    let (mut error_sum, mut weight_sum) = (0.0, 0.0);
    let (queries, _) = queries.as_chunks::<QUERY_LEN>();
    let rows = hidden_index.iter().zip(queries).zip(targets.iter().zip(weights)).zip(is_held);
    for (((&index, query), (target, &weight)), &is_held) in rows {
        if !is_held && !is_all {
            continue;
        }
        let width = head.hidden_len();
        let output = &hidden[index as usize * width..][..width];
        let mut scores = [0.0];
        head.score(&mut scratch, output, query, &mut scores)?;
        let [score] = scores;
        error_sum += f64::from(weight) * f64::from(score - target).powi(2);
        weight_sum += f64::from(weight);
    }
    Ok(error_sum / f64::max(weight_sum, f64::MIN_POSITIVE))
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
