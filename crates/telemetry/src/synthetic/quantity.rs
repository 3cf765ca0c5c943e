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

    /// Returns whether all values are finite and at least 0, and all pieces have a finite duration
    /// above 0.
    pub(super) fn is_sound(&self) -> bool {
        match self {
            Self::Constant(value) => value.is_finite() && *value >= 0.0,
            Self::Varying(profile) => is_sound(profile),
        }
    }
}

/// Returns whether all values of a profile are finite and at least 0, and all its pieces have a
/// finite duration above 0.
pub(super) fn is_sound(profile: &PowerProfile) -> bool {
    let level = |value: f64| value.is_finite() && value >= 0.0;
    profile.pieces.iter().all(|piece| {
        piece.lasts_s > 0.0 && piece.lasts_s.is_finite() && level(piece.from_w) && level(piece.to_w)
    })
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
    fn pieces_that_do_not_last_and_values_below_nothing_are_unsound() {
        assert!(Quantity::square(0.0, 1.0, 1.0, 0.5).is_sound());
        assert!(!Quantity::square(-1.0, 1.0, 1.0, 0.5).is_sound());
        assert!(!Quantity::square(0.0, f64::NAN, 1.0, 0.5).is_sound());
        let mut still = PowerProfile::constant(1.0);
        still.pieces[0].lasts_s = 0.0;
        assert!(!is_sound(&still));
    }
}
