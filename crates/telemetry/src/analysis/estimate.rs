//! Estimated values with error ranges.

use serde::Serialize;

/// An estimated value with a range that contains the true value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// The best estimate.
    pub value: f64,
    /// The lower end of the range.
    pub low: f64,
    /// The upper end of the range.
    pub high: f64,
}

impl Estimate {
    /// Returns whether the range contains a number.
    #[must_use]
    pub fn contains(&self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }

    /// Multiplies the estimate by a factor that is at least 0.
    pub(super) fn scaled(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }

    /// Widens the range so that it contains the range of another estimate.
    pub(super) fn hull(self, other: &Self) -> Self {
        Self {
            value: self.value,
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }

    /// Returns whether the ranges overlap.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    /// Adds another estimate: its value, lower end and upper end are added to those of this
    /// estimate.
    pub(super) fn add(&mut self, other: Self) {
        self.value += other.value;
        self.low += other.low;
        self.high += other.high;
    }

    /// Widens the range of a share, 0 to 1, because the share is unknown in the fraction `part` of
    /// its time. The low end counts this part as 0, the high end as 1.
    pub(super) fn with_hidden(self, part: f64) -> Self {
        Self {
            low: self.low * (1.0 - part),
            high: self.high * (1.0 - part) + part,
            ..self
        }
    }

    /// Clamps the value and both ends to the interval from 0 to `most`, which counts as 0 if it is
    /// negative or NaN. The range then contains the value. An end that is NaN becomes the value.
    pub(super) fn within(self, most: f64) -> Self {
        // Unlike `clamp`, `min` and `max` accept any numbers, and return the other one for NaN.
        let most = most.max(0.0);
        let value = self.value.max(0.0).min(most);
        Self {
            value,
            low: self.low.max(0.0).min(value),
            high: self.high.min(most).max(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_numbers_become_a_range_within_limits() {
        let numbers = [f64::NAN, f64::NEG_INFINITY, -1.0, 0.0, 2.0, f64::INFINITY];
        for most in numbers {
            for (value, low, high) in numbers
                .iter()
                .flat_map(|&a| numbers.iter().map(move |&b| (a, b, -b)))
            {
                let within = Estimate { value, low, high }.within(most);
                assert!(within.contains(within.value), "{within:?}, {most}");
                assert!(
                    0.0 <= within.low && within.high <= most.max(0.0),
                    "{within:?}"
                );
            }
        }
    }
}
