//! What a model of two taps reads of rows besides their shape: how large the numbers of a flow are,
//! and which part of the queue's they are.
//!
//! Divided by its own maximum, a flow looks the same whether it holds a tenth of the queue or nine
//! tenths, and who takes which share is what congestion controls differ in.

use super::levels::{SEGMENT_BYTES, level};

/// Columns that a network reads of so many inputs: the shape, the level and the share of each.
pub(super) const fn width(input_count: usize) -> usize {
    3 * input_count
}

/// Appends to each row of a flow's `shapes` its levels and shares. Rows are its inputs and the sums
/// of these over all flows; shapes are rows divided by their maxima.
pub(super) fn with_shares(rows: &[f32], shapes: &[f32], input_count: usize, out: &mut Vec<f32>) {
    let columns = (2 * input_count).max(1);
    out.reserve(rows.len() / columns * width(input_count));
    for (row, shape) in rows.chunks_exact(columns).zip(shapes.chunks_exact(columns)) {
        let (own, of_all) = row.split_at(input_count);
        out.extend(shape.iter().take(input_count));
        out.extend(own.iter().map(|bytes| level(bytes / SEGMENT_BYTES)));
        out.extend(own.iter().zip(of_all).map(|(&own, &all)| share(own, all)));
    }
}

/// Of nothing there is no share.
fn share(own: f32, of_all: f32) -> f32 {
    if of_all > 0.0 { own / of_all } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked out by hand: `tests/test_cca_levels.py` has the same numbers.
    #[test]
    fn a_flow_has_a_shape_a_level_and_a_share() {
        let rows = [1448.0, 0.0, 5792.0, 1448.0, 4344.0, 1448.0, 4344.0, 0.0];
        let shapes = [1.0 / 3.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.75, 0.0];
        let mut out = Vec::new();
        with_shares(&rows, &shapes, 2, &mut out);
        #[rustfmt::skip]
        let wanted = [
            1.0 / 3.0, 0.0, 1.0 / 12.0, 0.0, 0.25, 0.0,
            1.0, 1.0, 2.0 / 12.0, 1.0 / 12.0, 1.0, 0.0,
        ];
        assert_eq!(out.len(), wanted.len());
        for (at, (found, wanted)) in out.iter().zip(wanted).enumerate() {
            assert!((found - wanted).abs() < 1e-6, "{at}: {found}, {wanted}");
        }
    }
}
