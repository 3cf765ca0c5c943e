//! A model of the relation between true and reported power.

use super::PowerProfile;
use crate::SensorClass;
use serde::{Deserialize, Serialize};

/// A power sensor that updates at regular intervals. Each update reports the mean power over the
/// window that ends at the update.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensor {
    /// Time between two updates, in s.
    pub update_s: f64,
    /// Length of the window, in s. If the window is shorter than the update interval, the power
    /// between the windows is not measured.
    pub window_s: f64,
    /// Time of the first update, in s.
    #[serde(default)]
    pub phase_s: f64,
    /// Ratio of reported power to true power.
    #[serde(default = "one")]
    pub gain: f64,
    /// Constant offset that the sensor adds, in W: below 0 for a sensor that does not see all rails
    /// of its board.
    #[serde(default)]
    pub offset_w: f64,
}

impl Sensor {
    /// Creates the sensor of a class, without gain error, offset or phase.
    #[must_use]
    pub fn for_class(class: SensorClass) -> Self {
        let (update_s, window_s) = class.update_and_window_s();
        Self {
            update_s,
            window_s,
            phase_s: 0.0,
            gain: 1.0,
            offset_w: 0.0,
        }
    }

    /// Returns the time of the last update at or before a time, in s.
    #[must_use]
    pub fn updated_s(&self, time_s: f64) -> f64 {
        self.phase_s + ((time_s - self.phase_s) / self.update_s).floor() * self.update_s
    }

    /// Returns the reading at a time, in W, for a device whose power over time is `profile`.
    #[must_use]
    pub fn reported_w(&self, profile: &PowerProfile, time_s: f64) -> f64 {
        self.reported_mean(time_s, |end_s, window_s| profile.mean_w(end_s, window_s))
    }

    /// Returns the reading at a time, in W; at least 0. `mean_w(end_s, window_s)` returns the mean
    /// of the true power over a window that ends at `end_s`.
    pub fn reported_mean(&self, time_s: f64, mean_w: impl Fn(f64, f64) -> f64) -> f64 {
        (self.gain * mean_w(self.updated_s(time_s), self.window_s) + self.offset_w).max(0.0)
    }
}

fn one() -> f64 {
    1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sensor_holds_its_reading_until_the_next_update() {
        let ramp = PowerProfile {
            pieces: vec![super::super::PowerSegment {
                lasts_s: 10.0,
                from_w: 0.0,
                to_w: 1000.0,
            }],
            repeats: false,
        };
        let sensor = Sensor {
            phase_s: 0.03,
            ..Sensor::for_class(SensorClass::PartTime)
        };
        // The window ends at the update, so its middle is 12.5 ms before the update.
        let expected = 100.0 * (1.03 - 0.0125);
        for time in [1.0301, 1.08, 1.1299] {
            let reported = sensor.reported_w(&ramp, time);
            assert!((reported - expected).abs() < 1e-9, "{time}: {reported}");
        }
    }
}
