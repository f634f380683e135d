//! Piecewise-linear coding of a query's numbers (Gorishniy, Rubachev and Babenko, "On embeddings
//! for numerical features in tabular deep learning", section 3.2).
//!
//! A linear layer sees a number as one direction, so that a threshold in it costs a unit of the
//! hidden layer. Coded by bins, it has a direction for each of its ranges. Bins between quantiles
//! are narrow where numbers are dense.

use super::EncoderError;

/// Bins of a coding at most.
pub const BIN_COUNT_MAX: usize = 2_048;

/// Which ranges of which numbers of a query are inputs of their own, behind the numbers themselves.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Coding {
    bins: Vec<Bin>,
}

/// A number's way through a range: 0 below it, 1 above it.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Bin {
    number: usize,
    low: f32,
    /// One over its width.
    slope: f32,
}

impl Coding {
    /// From three numbers a bin: the index of the query's number, from where on, and up to where.
    ///
    /// # Errors
    /// [`EncoderError`]: too many bins, a part of one, a number that a query of `query_len` does
    /// not have, or a range that does not rise.
    pub fn new(query_len: usize, bins: &[f32]) -> Result<Self, EncoderError> {
        let (rows, rest) = bins.as_chunks::<3>();
        if !rest.is_empty() || rows.len() > BIN_COUNT_MAX {
            return Err(EncoderError::new(format!(
                "head.bins: {} numbers; wanted: 3 for each of {BIN_COUNT_MAX} bins at most",
                bins.len()
            )));
        }
        let bins = rows.iter().enumerate().map(|(at, row)| Bin::new(query_len, at, *row));
        Ok(Self { bins: bins.collect::<Result<_, _>>()? })
    }

    /// How many there are.
    #[must_use]
    pub const fn bin_count(&self) -> usize {
        self.bins.len()
    }

    /// Appends the query and what its bins say of it.
    pub(super) fn append(&self, query: &[f32], to: &mut Vec<f32>) {
        to.extend_from_slice(query);
        to.extend(self.bins.iter().map(|bin| bin.of(query)));
    }
}

impl Bin {
    fn new(
        query_len: usize,
        at: usize,
        [number, low, high]: [f32; 3],
    ) -> Result<Self, EncoderError> {
        let index = number as usize;
        if index >= query_len || index as f32 != number {
            return Err(EncoderError::new(format!(
                "head.bins: bin {at} is about number {number} of a query; wanted: one of \
                 {query_len}, from 0 on"
            )));
        }
        let slope = 1.0 / (high - low);
        // A width that is no number, or so small that its inverse is none, has no slope either.
        if !low.is_finite() || !high.is_finite() || !slope.is_finite() || slope <= 0.0 {
            return Err(EncoderError::new(format!(
                "head.bins: bin {at} is from {low} to {high}; wanted: finite numbers, the second \
                 above the first"
            )));
        }
        Ok(Self { number: index, low, slope })
    }

    fn of(&self, query: &[f32]) -> f32 {
        query
            .get(self.number)
            .map_or(0.0, |number| ((number - self.low) * self.slope).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coded(coding: &Coding, query: &[f32]) -> Vec<f32> {
        let mut found = Vec::new();
        coding.append(query, &mut found);
        found
    }

    #[test]
    fn a_number_is_followed_by_its_way_through_each_bin() {
        let bins = [1.0, -1.0, 0.0, 1.0, 0.0, 4.0, 0.0, 0.5, 1.0];
        let coding = Coding::new(2, &bins).unwrap();
        assert_eq!(coding.bin_count(), 3);
        assert_eq!(coded(&coding, &[0.75, 1.0]), [0.75, 1.0, 1.0, 0.25, 0.5]);
        assert_eq!(coded(&coding, &[-9.0, 9e37]), [-9.0, 9e37, 1.0, 1.0, 0.0]);
        assert_eq!(coded(&Coding::default(), &[2.0]), [2.0]);
    }

    #[test]
    fn bins_that_cannot_be_say_what_is_wanted() {
        let refused = |bins: &[f32]| Coding::new(2, bins).unwrap_err().to_string();
        assert!(refused(&[0.0, 1.0]).contains("2 numbers; wanted: 3 for each of 2048 bins"));
        assert!(refused(&vec![0.0; 3 * (BIN_COUNT_MAX + 1)]).contains("6147 numbers; wanted"));
        for number in [2.0, -1.0, 0.5, f32::NAN, f32::INFINITY] {
            let text = refused(&[0.0, 0.0, 1.0, number, 0.0, 1.0]);
            assert!(text.starts_with("head.bins: bin 1 is about number"), "{text}");
            assert!(text.ends_with("wanted: one of 2, from 0 on"), "{text}");
        }
        for (low, high) in [
            (1.0, 1.0),
            (1.0, 0.0),
            (f32::NAN, 1.0),
            (0.0, f32::INFINITY),
            (f32::MIN, f32::MAX),
            (0.0, 1e-40),
        ] {
            let text = refused(&[0.0, low, high]);
            assert!(text.ends_with("wanted: finite numbers, the second above the first"), "{text}");
        }
    }
}
