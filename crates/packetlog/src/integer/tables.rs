//! Products, squares and quotients: from tables, by shifts, additions and lookups with fixed
//! bounds, as a switch has them, or by the multiplications and divisions of a processor.
//!
//! Tables are computed here once, in floats. What is done per packet uses whole numbers of 64 bits
//! alone.

/// Significant bits of a number that is looked up: the width of a key that a switch can match.
const KEY_BITS: u32 = 16;
/// Steps of the search for a range: a table has fewer than 2¹³ entries.
const SEARCH_BITS: u32 = 13;
/// The smallest relative error of products; a smaller one would need more entries than that.
pub const PRODUCT_ERROR_MIN: f64 = 0.001;
/// The largest.
pub const PRODUCT_ERROR_MAX: f64 = 0.25;
/// Significant bits that squares and quotients are looked up by.
pub const MANTISSA_BITS: std::ops::RangeInclusive<u32> = 4..=12;
/// Fraction bits of a logarithm to base 2.
const LOG_BITS: u32 = 16;
/// Bits after the point of a power of two below 2.
const POWER_BITS: u32 = 31;
/// Bits after the point of a [`ratio`].
pub const RATIO_BITS: u32 = 16;

/// Numbers of 16 bits in ranges, so narrow that one number stands for all of a range.
///
/// The paper (section IV-A) has ranges from ⌊(1 + 2δ)^i⌋ to ⌊(1 + 2δ)^(i + 1)⌋ and the product
/// with (1 + δ)(1 + 2δ)^i. For small numbers, where ranges are rounded down, that is more than δ
/// off: with δ = 0.01 the product of 1 is that of 1.98. Here a range from a ends at
/// ⌊a(1 + δ)/(1 − δ)⌋ = b, and 2ab/(a + b) stands for it, which is at most δ from both ends; small
/// numbers are exact. With δ = 0.01 there are 388 entries, and 560 by the paper's formula.
#[derive(Clone, Debug)]
pub struct Ranges {
    starts: Vec<u16>,
}

/// The range of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RangePlace {
    /// Its entry in each table.
    pub index: u16,
    /// Bits of the number below the 16 that were looked up.
    pub shift: u16,
}

impl Ranges {
    /// Ranges whose products are at most this relative error off, between
    /// [`PRODUCT_ERROR_MIN`] and [`PRODUCT_ERROR_MAX`].
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn new(error: f64) -> Self {
        let error = error.clamp(PRODUCT_ERROR_MIN, PRODUCT_ERROR_MAX);
        let mut starts = vec![0];
        let mut next = 1;
        while let Ok(start) = u16::try_from(next) {
            starts.push(start);
            next = (f64::from(start) * (1.0 + error) / (1.0 - error)).floor() as u32 + 1;
        }
        Self { starts }
    }

    /// Entries of a table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Never.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The range of a number: of its 16 highest bits where it has more.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub fn place(&self, number: u64) -> RangePlace {
        let shift = (u64::BITS - number.leading_zeros()).saturating_sub(KEY_BITS);
        let key = (number >> shift) as u16;
        let (mut index, mut bit) = (0, SEARCH_BITS);
        while bit > 0 {
            bit -= 1;
            let next = index | 1 << bit;
            if self.starts.get(next).is_some_and(|&start| start <= key) {
                index = next;
            }
        }
        RangePlace { index: index as u16, shift: shift as u16 }
    }

    /// The number that stands for a range.
    #[must_use]
    pub fn representative(&self, index: usize) -> f64 {
        let of = |at: usize| self.starts.get(at).map(|&start| f64::from(start));
        let Some(first) = of(index).filter(|&first| first > 0.0) else { return 0.0 };
        let last = of(index + 1).unwrap_or(65_536.0) - 1.0;
        2.0 * first * last / (first + last)
    }

    /// The products of a constant, a row of a table: one for each range, rounded down. Below 0 it
    /// is what −1, a missing number, is compared with.
    #[allow(clippy::cast_possible_truncation)]
    pub fn products(&self, constant: f64) -> impl Iterator<Item = i64> {
        (0..self.len()).map(move |index| {
            if constant < 0.0 {
                return if constant < -1.0 { -2 } else { -1 };
            }
            // Saturates.
            (constant * self.representative(index)).floor() as i64
        })
    }
}

/// Whether `value` is at most a constant times a number: `products` is the constant's row of the
/// table, `place` the number's. It differs from the exact answer only where value and product are
/// at most the ranges' error apart; of numbers of more than 16 bits 2⁻¹⁴ more, if the constant is 1
/// at least.
#[inline]
#[must_use]
pub fn is_at_most(value: i64, place: RangePlace, products: &[i64]) -> bool {
    let product = products.get(usize::from(place.index)).copied().unwrap_or(0);
    value >> place.shift <= product
}

/// Squares, and squares divided by a number.
#[derive(Clone, Debug)]
pub enum Squares {
    /// Multiplied and divided.
    Exact,
    /// Looked up.
    Rounded(RoundedSquares),
}

impl Squares {
    /// Looked up by so many bits, within [`MANTISSA_BITS`].
    #[must_use]
    pub fn rounded(mantissa_bits: u32) -> Self {
        Self::Rounded(RoundedSquares::new(mantissa_bits))
    }

    /// Bytes of the tables.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Exact => 0,
            Self::Rounded(tables) => tables.size_bytes(),
        }
    }

    /// The square of a number.
    #[inline]
    #[must_use]
    pub fn of(&self, number: u32) -> u64 {
        match self {
            Self::Exact => u64::from(number) * u64::from(number),
            Self::Rounded(tables) => tables.of(number),
        }
    }

    /// The square of one number divided by another; both 1 at least, else 0.
    #[inline]
    #[must_use]
    pub fn over(&self, number: u64, divisor: u64) -> u64 {
        match self {
            Self::Exact => square_over(number, divisor),
            Self::Rounded(tables) => tables.over(number, divisor),
        }
    }
}

/// As the program in the kernel divides, which has 64 bits: of a number of more than 32 by its 32
/// highest. By a divisor of 32 bits a quotient is at most 2⁻²⁹ off by ratio, and 1 for being
/// rounded down.
fn square_over(number: u64, divisor: u64) -> u64 {
    let shift = (u64::BITS - number.leading_zeros()).saturating_sub(u32::BITS);
    let top = number >> shift;
    let quotient = (top * top).checked_div(divisor).unwrap_or(0);
    u64::try_from(u128::from(quotient) << (2 * shift)).unwrap_or(u64::MAX)
}

/// A ratio in parts of 2⁻¹⁶, rounded down; of a value of 2⁴⁷ or more in whole numbers. What it is
/// divided by is 1 at least.
#[inline]
#[must_use]
pub fn ratio(value: u64, divisor: u64) -> i64 {
    let is_small = value >> (i64::BITS - 1 - RATIO_BITS) == 0;
    let over = |value: u64| value.checked_div(divisor).unwrap_or(0);
    let one = 1 << RATIO_BITS;
    let ratio = if is_small { over(value * one) } else { over(value).saturating_mul(one) };
    i64::try_from(ratio).unwrap_or(i64::MAX)
}

/// Squares, and squares divided by a number, of the highest bits of numbers.
///
/// Tofino's math unit, which NetBeacon squares with, looks up 4 bits. A number is rounded to its
/// `mantissa_bits` highest bits, so a square is at most 2^(1 − bits) off by ratio, and a quotient
/// 2^(2 − bits), and 1 for being rounded down.
#[derive(Clone, Debug)]
pub struct RoundedSquares {
    mantissa_bits: u32,
    squares: Vec<u32>,
    logarithms: Vec<u32>,
    powers: Vec<u32>,
}

impl RoundedSquares {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn new(mantissa_bits: u32) -> Self {
        let mantissa_bits = mantissa_bits.clamp(*MANTISSA_BITS.start(), *MANTISSA_BITS.end());
        let numbers = 0..=1_u32 << mantissa_bits;
        let scaled = |number: f64, bits: u32| (number * f64::from(1_u32 << bits)).round() as u32;
        let power = |at: u32| (f64::from(at) / f64::from(1_u32 << mantissa_bits)).exp2();
        Self {
            mantissa_bits,
            squares: numbers.clone().map(|number| number * number).collect(),
            logarithms: numbers.map(|at| scaled(f64::from(at.max(1)).log2(), LOG_BITS)).collect(),
            powers: (0..1 << mantissa_bits).map(|at| scaled(power(at), POWER_BITS)).collect(),
        }
    }

    fn size_bytes(&self) -> usize {
        let entries = self.squares.len() + self.logarithms.len() + self.powers.len();
        entries * size_of::<u32>()
    }

    /// The highest bits of a number, rounded, and how many are below them.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    fn rounded(&self, number: u64) -> (usize, u32) {
        let shift = (u64::BITS - number.leading_zeros()).saturating_sub(self.mantissa_bits);
        let half = if shift == 0 { 0 } else { 1 << (shift - 1) };
        ((number.saturating_add(half) >> shift) as usize, shift)
    }

    #[inline]
    fn of(&self, number: u32) -> u64 {
        let (top, shift) = self.rounded(number.into());
        // At most 2³², whose square does not fit.
        let square = u128::from(self.squares.get(top).copied().unwrap_or(0)) << (2 * shift);
        u64::try_from(square).unwrap_or(u64::MAX)
    }

    #[inline]
    fn over(&self, number: u64, divisor: u64) -> u64 {
        if number == 0 || divisor == 0 {
            return 0;
        }
        self.power((2 * self.logarithm(number)).saturating_sub(self.logarithm(divisor)))
    }

    #[inline]
    fn logarithm(&self, number: u64) -> u32 {
        let (top, shift) = self.rounded(number);
        self.logarithms.get(top).copied().unwrap_or(0) + (shift << LOG_BITS)
    }

    #[inline]
    fn power(&self, logarithm: u32) -> u64 {
        let below = LOG_BITS - self.mantissa_bits;
        let logarithm = logarithm + (1 << below >> 1);
        let (whole, fraction) = (logarithm >> LOG_BITS, logarithm & ((1 << LOG_BITS) - 1));
        let power = u64::from(self.powers.get((fraction >> below) as usize).copied().unwrap_or(0));
        match whole.checked_sub(POWER_BITS) {
            None => power >> (POWER_BITS - whole),
            Some(more) if more <= u32::BITS => power << more,
            Some(_) => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_number_of_16_bits_is_within_the_error_of_its_range() {
        for error in [PRODUCT_ERROR_MIN, 0.01, 0.05, PRODUCT_ERROR_MAX] {
            let ranges = Ranges::new(error);
            assert!(ranges.len() < 1 << SEARCH_BITS);
            for number in 0..=u16::MAX {
                let place = ranges.place(number.into());
                let stands_for = ranges.representative(place.index.into());
                let off = (stands_for - f64::from(number)).abs();
                assert!(off <= error * f64::from(number) + 1e-9, "{error} {number} {stands_for}");
            }
        }
        assert_eq!(Ranges::new(0.01).len(), 388);
    }

    #[test]
    fn a_missing_number_is_below_every_product_and_alone_below_one_of_a_negative_constant() {
        let ranges = Ranges::new(0.01);
        let products = |constant| ranges.products(constant).collect::<Vec<_>>();
        let place = ranges.place(70_000);
        assert!(is_at_most(-1, place, &products(0.0)));
        assert!(is_at_most(-1, place, &products(-0.5)) && !is_at_most(0, place, &products(-0.5)));
        assert!(!is_at_most(-1, place, &products(-1.5)));
    }

    proptest! {
        #[test]
        fn a_product_decides_wrongly_only_within_its_error(
            constant in 1.0f64..1e12, number in 0u64..=u32::MAX.into(), ratio in 0.5f64..2.0,
            error in PRODUCT_ERROR_MIN..PRODUCT_ERROR_MAX,
        ) {
            let ranges = Ranges::new(error);
            let products: Vec<i64> = ranges.products(constant).collect();
            let exact = constant * number as f64;
            let value = (exact * ratio).min(9e18) as i64;
            let is_wrong =
                is_at_most(value, ranges.place(number), &products) != (value as f64 <= exact);
            let error = if number > u16::MAX.into() { error + 1.0 / 16_384.0 } else { error };
            // One more for products that are rounded down.
            let is_near = (value as f64 - exact).abs() <= exact * error + 1.0;
            prop_assert!(!is_wrong || is_near, "{value} {exact}");
        }

        #[test]
        fn a_square_is_within_its_error(number: u32, bits in MANTISSA_BITS) {
            let exact = f64::from(number).powi(2);
            prop_assert!((Squares::Exact.of(number) as f64 - exact).abs() <= exact * 1e-15);
            let off = (Squares::rounded(bits).of(number) as f64 - exact).abs();
            // The square of the rounding error on top of twice the error.
            let bound = 2f64.powi(1 - bits as i32) + 2f64.powi(-2 * bits as i32);
            prop_assert!(off <= exact * bound, "{off} {exact}");
        }

        #[test]
        fn a_quotient_is_within_its_error(
            number in 1u64..1 << 40, divisor in 1u64..1 << 32, bits in MANTISSA_BITS,
        ) {
            let exact = (number as f64).powi(2) / divisor as f64;
            prop_assume!(exact < 1e19);
            let off = (Squares::Exact.over(number, divisor) as f64 - exact).abs();
            prop_assert!(off <= exact * 2f64.powi(-29) + 1.0, "{off} {exact}");
            let off = (Squares::rounded(bits).over(number, divisor) as f64 - exact).abs();
            prop_assert!(off <= exact * 2f64.powi(2 - bits as i32) + 1.0, "{off} {exact}");
        }

        #[test]
        fn a_ratio_is_rounded_down(value: u64, bits in 0u32..64, divisor in 1u64..1 << 32) {
            let value = value >> bits;
            let exact = value as f64 / divisor as f64;
            let found = ratio(value, divisor) as f64 / f64::from(1 << RATIO_BITS);
            prop_assume!(exact < 2f64.powi(46));
            let error = if value < 1 << 47 { 1.0 / f64::from(1 << RATIO_BITS) } else { 1.0 };
            prop_assert!(found <= exact * (1.0 + 1e-15) && exact - found <= error + exact * 1e-15);
        }
    }

    #[test]
    fn what_does_not_fit_is_the_largest_number() {
        assert_eq!(ratio(u64::MAX, 1), i64::MAX);
        assert_eq!(ratio((1 << 47) - 1, 1), ((1 << 47) - 1) << RATIO_BITS);
        assert_eq!(Squares::Exact.over(u64::MAX, 1), u64::MAX);
        assert_eq!(Squares::Exact.over(u64::MAX, u64::MAX), 0);
        assert_eq!((Squares::Exact.over(3, 0), Squares::Exact.over(0, 3)), (0, 0));
        assert_eq!(Squares::Exact.over(1 << 40, 1 << 20), 1 << 60);
        assert_eq!(Squares::Exact.over(1 << 40, 1 << 16), u64::MAX);
    }
}
