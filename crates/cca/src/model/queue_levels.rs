//! What a model of two taps reads of rows besides their shape: how large the numbers of a flow are
//! and, if it wants that, which part of the queue's they are.
//!
//! Divided by its own maximum, a flow looks the same whether it holds a tenth of the queue or nine
//! tenths, and who takes which share is what congestion controls differ in.

use super::levels::{SEGMENT_BYTES, level};

/// Columns that a network reads of so many inputs: the shape and the level of each, and its share.
pub(super) const fn width(input_count: usize, has_shares: bool) -> usize {
    input_count * if has_shares { 3 } else { 2 }
}

/// Appends to each row of a flow's `shapes` its levels, and its shares if they are read. Rows are
/// its inputs and, for shares, the sums of these over all flows; shapes are rows divided by their
/// maxima.
pub(super) fn append(
    rows: &[f32],
    shapes: &[f32],
    (input_count, has_shares): (usize, bool),
    out: &mut Vec<f32>,
) {
    let columns = input_count * if has_shares { 2 } else { 1 };
    out.reserve(rows.len() / columns.max(1) * width(input_count, has_shares));
    for (row, shape) in rows.chunks_exact(columns.max(1)).zip(shapes.chunks_exact(columns.max(1))) {
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

    fn appended(rows: &[f32], shapes: &[f32], has_shares: bool) -> Vec<f32> {
        let mut out = Vec::new();
        append(rows, shapes, (2, has_shares), &mut out);
        out
    }

    fn assert_close(found: &[f32], wanted: &[f32]) {
        assert_eq!(found.len(), wanted.len());
        for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
            assert!((found - wanted).abs() < 1e-6, "{at}: {found}, {wanted}");
        }
    }

    /// Worked out by hand: `tests/test_cca_levels.py` has the same numbers.
    #[test]
    fn a_flow_has_a_shape_a_level_and_a_share() {
        let rows = [1448.0, 0.0, 5792.0, 1448.0, 4344.0, 1448.0, 4344.0, 0.0];
        let shapes = [1.0 / 3.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.75, 0.0];
        #[rustfmt::skip]
        let wanted = [
            1.0 / 3.0, 0.0, 1.0 / 12.0, 0.0, 0.25, 0.0,
            1.0, 1.0, 2.0 / 12.0, 1.0 / 12.0, 1.0, 0.0,
        ];
        assert_close(&appended(&rows, &shapes, true), &wanted);
    }

    #[test]
    fn without_shares_there_are_no_sums() {
        let rows = [1448.0, 0.0, 4344.0, 1448.0];
        let shapes = [1.0 / 3.0, 0.0, 1.0, 1.0];
        let wanted = [1.0 / 3.0, 0.0, 1.0 / 12.0, 0.0, 1.0, 1.0, 2.0 / 12.0, 1.0 / 12.0];
        assert_close(&appended(&rows, &shapes, false), &wanted);
    }
}
