//! Positive numbers with a range far beyond f64's, for products and sums whose terms leave f64's
//! range.
//!
//! Accuracy: a rounding of f64 for each operation.

use super::elementary::{Scaled, binade};

/// 2^54, which makes every subnormal number normal.
const UP: f64 = 18_014_398_509_481_984.0;
/// Beyond this in size a binary exponent is outside f64's range, in its subnormal part too.
pub(crate) const RANGE: f64 = 1100.0;

/// A number `significand 2^exponent` that is not negative.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wide {
    /// From 1 to 2, or 0.
    pub(crate) significand: f64,
    pub(crate) exponent: f64,
}

impl Wide {
    pub(crate) const ZERO: Self = Self {
        significand: 0.0,
        exponent: 0.0,
    };

    /// Creates the number of a finite f64 that is not negative.
    pub(crate) fn new(x: f64) -> Self {
        Self::ZERO.with(x)
    }

    /// Returns the number with another significand, normalized.
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

    /// Returns the quotient by a number above 0.
    pub(crate) fn over(self, other: Self) -> Self {
        let exponent = self.exponent - other.exponent;
        Self { exponent, ..self }.with(self.significand / other.significand)
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
        let shift = (small.exponent - large.exponent).max(-RANGE);
        large.with(large.significand + Scaled::of(small.significand, shift).value())
    }

    /// Returns the nearest f64: 0 or infinity outside its range.
    pub(crate) fn value(self) -> f64 {
        Scaled::of(self.significand, self.exponent.clamp(-RANGE, RANGE)).value()
    }
}
