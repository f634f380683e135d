//! What a model of one tap reads of rows besides their shape: how large their numbers are.
//!
//! Divided by its maximum, a window of three packets looks like one of three hundred, while
//! HighSpeed, Scalable and H-TCP act like Reno in the former and not in the latter.

use crate::flight::FlightInput;

/// Bytes of data of a full packet on Ethernet, with TCP timestamps.
pub(super) const SEGMENT_BYTES: f32 = 1448.0;

/// Logarithms up to 4095 full packets, or as many milliseconds, become numbers up to 1.
const DOUBLINGS: f32 = 12.0;

/// Retransmitted packets of a row; more are no more than a burst of losses.
const RESENT_MAX: f32 = 8.0;

/// How long rows are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct RowLength {
    /// So many are a round trip.
    pub per_rtt: usize,
    pub seconds: f32,
}

/// Columns that a network reads of so many inputs: the shape and the level of each, and the level
/// of a row's length.
pub(super) const fn width(input_count: usize) -> usize {
    2 * input_count + 1
}

/// Appends to each row of `shapes`, which are `rows` divided by their maxima, its levels.
pub(super) fn with_levels(
    rows: &[f32],
    shapes: &[f32],
    inputs: &[FlightInput],
    length: RowLength,
    out: &mut Vec<f32>,
) {
    let columns = inputs.len().max(1);
    let row_level = level(length.seconds * 1e3);
    out.reserve(rows.len() / columns * width(columns));
    for (at, shape) in shapes.chunks_exact(columns).enumerate() {
        out.extend_from_slice(shape);
        let first = (at + 1).saturating_sub(length.per_rtt);
        let lately = rows.get(first * columns..(at + 1) * columns).unwrap_or_default();
        out.extend(inputs.iter().enumerate().map(|(column, &input)| {
            let values = lately.iter().skip(column).step_by(columns).copied();
            of_input(input, values, length.per_rtt)
        }));
        out.push(row_level);
    }
}

/// The level of an input in the last of some rows of at most a round trip.
#[allow(clippy::cast_precision_loss)] // Rows of a round trip are few.
fn of_input(
    input: FlightInput,
    lately: impl ExactSizeIterator<Item = f32> + Clone,
    rows_per_rtt: usize,
) -> f32 {
    let count = lately.len().max(1) as f32;
    let last = || lately.clone().last().unwrap_or(0.0);
    match input {
        FlightInput::Flight | FlightInput::FlightMax | FlightInput::Sacked => {
            level(last() / SEGMENT_BYTES)
        }
        FlightInput::Sent | FlightInput::Acked => {
            // Where a window begins less than a round trip ago, what there is stands for the rest.
            let sum: f32 = lately.clone().sum();
            level(sum * (rows_per_rtt as f32 / count) / SEGMENT_BYTES)
        }
        FlightInput::Resent => last().min(RESENT_MAX) / RESENT_MAX,
        FlightInput::Rtt | FlightInput::UpstreamRtt | FlightInput::PathRtt => level(last() * 1e3),
    }
}

/// The logarithm of so many packets or milliseconds.
pub(super) fn level(value: f32) -> f32 {
    (1.0 + value).log2() / DOUBLINGS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked out by hand: `tests/test_cca_onetap_training.py` has the same numbers.
    #[test]
    fn levels_are_logarithms_of_packets_and_milliseconds() {
        let inputs = [FlightInput::FlightMax, FlightInput::Sent, FlightInput::Resent];
        let inputs = [inputs.as_slice(), &[FlightInput::PathRtt]].concat();
        #[rustfmt::skip]
        let rows = [
            1448.0, 1448.0, 0.0, 0.003,
            4344.0, 0.0, 16.0, 0.007,
            4344.0, 4344.0, 2.0, 0.007,
        ];
        let mut out = Vec::new();
        let length = RowLength { per_rtt: 2, seconds: 0.001 };
        with_levels(&rows, &rows, &inputs, length, &mut out);
        let twelfths: Vec<f32> = out
            .chunks_exact(width(4))
            .flat_map(|row| row.iter().skip(4).map(|level| level * 12.0))
            .collect();
        // 1 packet in flight and 1 sent in half a round trip, so 2 in a whole one; 3 ms; 1 ms.
        #[rustfmt::skip]
        let wanted = [
            1.0, 3.0_f32.log2(), 0.0, 2.0, 1.0,
            2.0, 1.0, 12.0, 3.0, 1.0,
            2.0, 2.0, 3.0, 3.0, 1.0,
        ];
        assert_eq!(twelfths.len(), wanted.len());
        for (at, (found, wanted)) in twelfths.iter().zip(wanted).enumerate() {
            assert!((found - wanted).abs() < 1e-5, "{at}: {found}, {wanted}");
        }
    }
}
