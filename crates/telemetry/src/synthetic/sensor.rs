//! What a power sensor tells of the power there is.

use super::Program;
use crate::SensorClass;
use serde::{Deserialize, Serialize};

/// A sensor that is read anew every so often, and then tells the mean of the power over a window that just ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensor {
    /// Time between two updates, in s.
    pub update_s: f64,
    /// Length of the window, in s; it may be shorter than the time between updates, and then most is not seen.
    pub window_s: f64,
    /// Time of the first update, in s.
    #[serde(default)]
    pub phase_s: f64,
    /// What it tells over what is true.
    #[serde(default = "one")]
    pub gain: f64,
    /// Constant offset that the sensor adds, in W: below 0 for a sensor that does not see all rails
    /// of its board.
    #[serde(default)]
    pub offset_w: f64,
}

impl Sensor {
    /// Gives the sensor of a class.
    #[must_use]
    pub fn of(class: SensorClass) -> Self {
        let (update_s, window_s) = class.update_and_window_s();
        Self {
            update_s,
            window_s,
            phase_s: 0.0,
            gain: 1.0,
            offset_w: 0.0,
        }
    }

    /// Gives the time of the newest update at a time, in s.
    #[must_use]
    pub fn updated_s(&self, time_s: f64) -> f64 {
        self.phase_s + ((time_s - self.phase_s) / self.update_s).floor() * self.update_s
    }

    /// Gives what it tells at a time, in W.
    #[must_use]
    pub fn told_w(&self, program: &Program, time_s: f64) -> f64 {
        self.told_of(time_s, |end_s, window_s| program.mean_w(end_s, window_s))
    }

    /// Gives what it tells at a time, in W, of a power whose mean over a window that ends at a time, both in s, is
    /// `mean_w(end_s, window_s)`.
    pub fn told_of(&self, time_s: f64, mean_w: impl Fn(f64, f64) -> f64) -> f64 {
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
        let ramp = Program {
            pieces: vec![super::super::Piece {
                lasts_s: 10.0,
                from_w: 0.0,
                to_w: 1000.0,
            }],
            repeats: false,
        };
        let sensor = Sensor {
            phase_s: 0.03,
            ..Sensor::of(SensorClass::PartTime)
        };
        // The window ends at the update and its middle is 12.5 ms before.
        let expected = 100.0 * (1.03 - 0.0125);
        for time in [1.0301, 1.08, 1.1299] {
            let told = sensor.told_w(&ramp, time);
            assert!((told - expected).abs() < 1e-9, "{time}: {told}");
        }
    }
}
