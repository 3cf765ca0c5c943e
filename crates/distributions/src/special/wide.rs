//! Non-negative numbers with a range far beyond that of f64.
//!
//! Role: products and sums whose terms overflow or underflow in f64 although the result does not.
//! Accuracy: one f64 rounding per operation.

use super::elementary::{Scaled, binade};

/// 2^54, a factor that makes every subnormal number normal.
const UP: f64 = 18_014_398_509_481_984.0;
/// Size of a binary exponent above which a number is outside f64's range, including the subnormal
/// numbers.
pub(crate) const RANGE: f64 = 1100.0;

/// A non-negative number `significand * 2^exponent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wide {
    /// In `[1, 2)`, or 0.
    pub(crate) significand: f64,
    /// An integer.
    pub(crate) exponent: f64,
}

impl Wide {
    /// The number 0.
    pub(crate) const ZERO: Self = Self {
        significand: 0.0,
        exponent: 0.0,
    };

    /// Creates the number from a finite, non-negative f64.
    pub(crate) fn new(x: f64) -> Self {
        Self::ZERO.with(x)
    }

    /// Returns the number with another significand, normalized to `[1, 2)`.
    fn with(self, significand: f64) -> Self {
        if significand == 0.0 {
            return Self::ZERO;
        }
        let is_small = significand < f64::MIN_POSITIVE;
        let (lifted, lift) = if is_small { (UP, 54.0) } else { (1.0, 0.0) };
        let (significand, exponent) = binade(significand * lifted);
        Self {
            significand,
            exponent: self.exponent + exponent - lift,
        }
    }

    /// Returns the product.
    pub(crate) fn times(self, other: Self) -> Self {
        let exponent = self.exponent + other.exponent;
        Self { exponent, ..self }.with(self.significand * other.significand)
    }

    /// Returns the quotient; `other` must be positive.
    pub(crate) fn over(self, other: Self) -> Self {
        let exponent = self.exponent - other.exponent;
        Self { exponent, ..self }.with(self.significand / other.significand)
    }

    /// Returns the square root.
    pub(crate) fn sqrt(self) -> Self {
        // The exponent of the root is an integer, so an odd exponent leaves a factor of 2.
        let exponent = (0.5 * self.exponent).floor();
        let odd = self.exponent - 2.0 * exponent;
        Self { exponent, ..self }.with((self.significand * (1.0 + odd)).sqrt())
    }

    /// Returns the sum.
    pub(crate) fn plus(self, other: Self) -> Self {
        if other.significand == 0.0 {
            return self;
        }
        let (large, small) = if self.significand > 0.0 && self.exponent >= other.exponent {
            (self, other)
        } else {
            (other, self)
        };
        // Align the smaller term with the larger; below 2^-RANGE its contribution is 0 anyway.
        let shift = (small.exponent - large.exponent).max(-RANGE);
        large.with(large.significand + Scaled::new(small.significand, shift).value())
    }

    /// Returns the nearest f64: 0 below the range of f64, ∞ above the range.
    pub(crate) fn value(self) -> f64 {
        Scaled::new(self.significand, self.exponent.clamp(-RANGE, RANGE)).value()
    }
}

#[cfg(test)]
mod tests {
    use super::Wide;

    /// Returns 2^exponent.
    fn power_of_two(exponent: f64) -> Wide {
        Wide {
            significand: 1.0,
            exponent,
        }
    }

    #[test]
    fn the_square_of_a_root_is_the_number() {
        for exponent in [-4001.0, -3.0, 0.0, 1.0, 2.0, 4001.0, 4002.0] {
            for factor in [1.0, 1.5, 1.999] {
                let number = Wide::new(factor).times(power_of_two(exponent));
                let root = number.sqrt();
                let ratio = root.times(root).over(number).value();
                assert!((ratio - 1.0).abs() <= f64::EPSILON, "{number:?}: {ratio}");
            }
        }
        assert_eq!(Wide::ZERO.sqrt().value(), 0.0);
    }

    #[test]
    fn the_sum_of_numbers_of_any_distance_is_the_rounded_sum() {
        for exponent in [-1e6, -3000.0, 0.0, 3000.0, 1e6] {
            let one = power_of_two(exponent);
            for (distance, sum) in [(0.0, 2.0), (1.0, 1.5), (60.0, 1.0), (5000.0, 1.0)] {
                let small = power_of_two(exponent - distance);
                for total in [one.plus(small), small.plus(one)] {
                    assert_eq!(total.over(one).value(), sum, "{exponent}, {distance}");
                }
            }
            assert_eq!(one.plus(Wide::ZERO).over(one).value(), 1.0);
            assert_eq!(Wide::ZERO.plus(one).over(one).value(), 1.0);
        }
    }
}
