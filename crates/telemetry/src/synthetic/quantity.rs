//! Quantities over time other than power: utilisation, memory, throughput.
//!
//! Role: a constant, or a [`PowerProfile`] whose values have the unit of the quantity instead of W.

use super::PowerProfile;
use serde::{Deserialize, Serialize};

/// A quantity over time. In JSON, a constant is a number, and a varying quantity is a
/// [`PowerProfile`] whose pieces may use the keys `from` and `to`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// A constant value.
    Constant(f64),
    /// A value that follows a profile.
    Varying(PowerProfile),
}

impl Quantity {
    /// Creates a square wave: `high` for the fraction `duty` of each period, then `low`.
    #[must_use]
    pub fn square(low: f64, high: f64, period_s: f64, duty: f64) -> Self {
        Self::Varying(PowerProfile::square(low, high, period_s, duty))
    }

    /// Returns the value at a time.
    #[must_use]
    pub fn at(&self, time_s: f64) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Varying(profile) => profile.power_w(time_s),
        }
    }

    /// Returns the mean over a window that ends at a time; the value at that time if the window is
    /// empty.
    #[must_use]
    pub fn mean(&self, end_s: f64, window_s: f64) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Varying(profile) => profile.mean_w(end_s, window_s),
        }
    }

    /// Returns the first value that is not finite or below 0, or the first duration of a piece that
    /// is not finite or not above 0; `None` if all are valid.
    pub(super) fn invalid(&self) -> Option<f64> {
        match self {
            Self::Constant(value) => (!is_level(*value)).then_some(*value),
            Self::Varying(profile) => invalid(profile),
        }
    }
}

/// Returns the first value or duration of a profile that is not valid, as [`Quantity::invalid`].
pub(super) fn invalid(profile: &PowerProfile) -> Option<f64> {
    let lasts = |seconds: f64| seconds > 0.0 && seconds.is_finite();
    let numbers = profile.pieces.iter().flat_map(|piece| {
        [
            (piece.lasts_s, lasts(piece.lasts_s)),
            (piece.from_w, is_level(piece.from_w)),
            (piece.to_w, is_level(piece.to_w)),
        ]
    });
    let mut invalid = numbers.filter(|(_, is_valid)| !is_valid);
    invalid.next().map(|(number, _)| number)
}

fn is_level(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_program_are_both_quantities() -> serde_json::Result<()> {
        let constant: Quantity = serde_json::from_str("12.5")?;
        assert_eq!(constant.mean(3.0, 1.0), 12.5);
        let ramp = r#"{"pieces": [{"lasts_s": 2, "from": 0, "to": 100}], "repeats": true}"#;
        let varying: Quantity = serde_json::from_str(ramp)?;
        assert_eq!((varying.at(3.0), varying.mean(4.0, 4.0)), (50.0, 50.0));
        Ok(())
    }

    #[test]
    fn the_first_invalid_value_or_duration_is_found() {
        let square = |low, high| Quantity::square(low, high, 1.0, 0.5).invalid();
        assert_eq!(square(0.0, 1.0), None);
        assert_eq!(square(-1.0, 1.0), Some(-1.0));
        assert!(square(0.0, f64::NAN).is_some_and(f64::is_nan));
        assert_eq!(square(0.0, f64::INFINITY), Some(f64::INFINITY));
        assert_eq!(Quantity::Constant(-2.0).invalid(), Some(-2.0));
        let mut still = PowerProfile::constant(1.0);
        still.pieces[0].lasts_s = 0.0;
        assert_eq!(invalid(&still), Some(0.0));
    }
}
