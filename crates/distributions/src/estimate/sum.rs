//! A compensated running sum with twice the digits of f64.
//!
//! Accuracy: the sum of `n` positive numbers has the error of one rounding, for all `n` below 2^50.
//! Source: Dekker 1971, "A floating-point technique for extending the available precision".

use crate::special::elementary::two_sum;

/// A number stored as an unevaluated sum `high + low`, where `low` is below the rounding error of
/// `high`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct CompensatedSum {
    high: f64,
    low: f64,
}

impl CompensatedSum {
    /// Returns the number rounded to f64.
    pub(super) fn value(self) -> f64 {
        self.high
    }

    /// Returns whether `low` is below the rounding error of `high`, as in every computed sum.
    pub(super) fn is_sound(self) -> bool {
        self.high + self.low == self.high
    }

    /// Returns the sum with `x` added.
    pub(super) fn plus(self, x: f64) -> Self {
        // The second sum moves the carry of the low part into the high part.
        let (high, error) = two_sum(self.high, x);
        let (high, low) = two_sum(high, self.low + error);
        Self { high, low }
    }

    /// Returns the sum of two compensated sums.
    pub(super) fn plus_sum(self, other: Self) -> Self {
        self.plus(other.high).plus(other.low)
    }

    /// Returns the difference as an f64, with a relative error of one rounding even if most digits
    /// cancel.
    pub(super) fn minus(self, other: Self) -> f64 {
        let (difference, error) = two_sum(self.high, -other.high);
        difference + (error + (self.low - other.low))
    }
}

impl From<f64> for CompensatedSum {
    fn from(high: f64) -> Self {
        Self { high, low: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::CompensatedSum;

    #[test]
    fn a_sum_keeps_what_single_numbers_lose() {
        let tenth = (0..1_000_000).fold(CompensatedSum::default(), |sum, _| sum.plus(0.1));
        // The f64 nearest to 0.1, times a million, rounded once.
        assert_eq!(tenth.value(), 100_000.0);
        let near = CompensatedSum::from(1.0).plus(1e-20);
        assert_eq!(near.value(), 1.0);
        assert_eq!(near.minus(CompensatedSum::from(1.0)), 1e-20);
        assert_eq!(near.plus_sum(near).minus(CompensatedSum::from(2.0)), 2e-20);
    }
}
