//! Power as a function of time with a known integral.

use serde::{Deserialize, Serialize};

/// Power over time: linear pieces in sequence, which repeat or hold their last value.
///
/// Before time zero the power is the power at time zero.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerProfile {
    /// The pieces in sequence; without pieces the power is 0. Pieces whose duration is not above 0
    /// are ignored, and rejected in the scenario of a simulated machine.
    pub pieces: Vec<PowerSegment>,
    /// Whether the pieces repeat from the start after the last piece.
    #[serde(default)]
    pub repeats: bool,
}

/// A linear piece of a power profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerSegment {
    /// Duration, in s.
    pub lasts_s: f64,
    /// Power at the start, in W. Files may use `from`, for quantities other than power.
    #[serde(alias = "from")]
    pub from_w: f64,
    /// Power at the end, in W. Files may use `to`.
    #[serde(alias = "to")]
    pub to_w: f64,
}

impl PowerProfile {
    /// Creates a profile of constant power.
    #[must_use]
    pub fn constant(watts: f64) -> Self {
        Self {
            pieces: vec![PowerSegment::level(1.0, watts)],
            repeats: true,
        }
    }

    /// Creates a square wave: `high_w` for the fraction `duty` of each period, then `low_w`. The
    /// values are not checked here; a simulated machine rejects a period that is not above 0 and a
    /// `duty` outside 0 to 1.
    #[must_use]
    pub fn square(low_w: f64, high_w: f64, period_s: f64, duty: f64) -> Self {
        let parts = [(duty, high_w), (1.0 - duty, low_w)];
        let parts = parts.into_iter().filter(|(share, _)| *share != 0.0);
        Self {
            pieces: parts
                .map(|(share, watts)| PowerSegment::level(period_s * share, watts))
                .collect(),
            repeats: true,
        }
    }

    /// Returns the power at a time, in W.
    #[must_use]
    pub fn power_w(&self, time_s: f64) -> f64 {
        let mut left = self.within(time_s).1;
        for piece in self.lasting() {
            if left < piece.lasts_s {
                return piece.at(left);
            }
            left -= piece.lasts_s;
        }
        self.last_w()
    }

    /// Returns the energy between two times, in J; negative if `to_s` is before `from_s`.
    #[must_use]
    pub fn energy_j(&self, from_s: f64, to_s: f64) -> f64 {
        self.since_zero_j(to_s) - self.since_zero_j(from_s)
    }

    /// Returns the mean power over a window that ends at a time, in W; the power at that time if
    /// `window_s` is not above 0.
    #[must_use]
    pub fn mean_w(&self, end_s: f64, window_s: f64) -> f64 {
        if window_s > 0.0 {
            self.energy_j(end_s - window_s, end_s) / window_s
        } else {
            self.power_w(end_s)
        }
    }

    /// Returns the highest power, in W; at least 0.
    #[must_use]
    pub fn peak_w(&self) -> f64 {
        self.ends_w().fold(0.0, f64::max)
    }

    /// Returns the lowest power, in W; 0 without pieces.
    #[must_use]
    pub fn lowest_w(&self) -> f64 {
        let lowest_w = self.ends_w().fold(f64::INFINITY, f64::min);
        if lowest_w.is_finite() { lowest_w } else { 0.0 }
    }

    fn ends_w(&self) -> impl Iterator<Item = f64> + '_ {
        self.lasting().flat_map(|p| [p.from_w, p.to_w])
    }

    /// Returns the power that is held after the last piece, in W.
    fn last_w(&self) -> f64 {
        self.lasting().last().map_or(0.0, |last| last.to_w)
    }

    /// Returns the pieces whose duration is above 0.
    fn lasting(&self) -> impl Iterator<Item = &PowerSegment> {
        self.pieces.iter().filter(|piece| piece.lasts_s > 0.0)
    }

    /// Returns the energy since time zero, in J; for times before zero, minus the energy up to
    /// zero.
    fn since_zero_j(&self, time_s: f64) -> f64 {
        if time_s < 0.0 {
            return time_s * self.power_w(0.0);
        }
        let (rounds, mut left) = self.within(time_s);
        let whole: f64 = self
            .lasting()
            .map(|piece| piece.energy_j(piece.lasts_s))
            .sum();
        let mut energy = rounds * whole;
        for piece in self.lasting() {
            let time = left.min(piece.lasts_s);
            energy += piece.energy_j(time);
            left -= time;
        }
        energy + left * self.last_w()
    }

    /// Returns the number of completed rounds at a time, and the time since the start of the
    /// current round, in s.
    fn within(&self, time_s: f64) -> (f64, f64) {
        let time_s = time_s.max(0.0);
        let round_s: f64 = self.lasting().map(|piece| piece.lasts_s).sum();
        if !self.repeats || round_s <= 0.0 {
            return (0.0, time_s);
        }
        let rounds = (time_s / round_s).floor();
        (rounds, (time_s - rounds * round_s).max(0.0))
    }
}

impl PowerSegment {
    /// Creates a piece of constant power.
    #[must_use]
    pub fn level(lasts_s: f64, watts: f64) -> Self {
        Self {
            lasts_s,
            from_w: watts,
            to_w: watts,
        }
    }

    fn at(&self, time_s: f64) -> f64 {
        self.from_w + (self.to_w - self.from_w) * (time_s / self.lasts_s)
    }

    /// Returns the energy of the first `time_s` seconds of the piece, in J.
    fn energy_j(&self, time_s: f64) -> f64 {
        0.5 * (self.from_w + self.at(time_s)) * time_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_the_integral_of_power() {
        let pieces = vec![
            PowerSegment::level(0.3, 50.0),
            PowerSegment {
                lasts_s: 0.2,
                from_w: 50.0,
                to_w: 250.0,
            },
            PowerSegment::level(0.4, 250.0),
        ];
        for repeats in [true, false] {
            let profile = PowerProfile {
                pieces: pieces.clone(),
                repeats,
            };
            let (from, to, steps) = (-0.4, 3.1, 350_000);
            let step = (to - from) / f64::from(steps);
            let midpoints = (0..steps).map(|i| from + (f64::from(i) + 0.5) * step);
            let sum: f64 = midpoints.map(|time| profile.power_w(time) * step).sum();
            let energy = profile.energy_j(from, to);
            assert!((energy - sum).abs() < 1e-2, "{energy} {sum}");
        }
    }

    #[test]
    fn a_piece_without_a_duration_above_0_has_no_effect() {
        let level = PowerSegment::level(2.0, 60.0);
        for (lasts_s, repeats) in [(0.0, true), (0.0, false), (-1.0, false), (f64::NAN, true)] {
            let none = PowerSegment::level(lasts_s, 1e3);
            let [with, without] = [vec![none, level, none], vec![level]]
                .map(|pieces| PowerProfile { pieces, repeats });
            for (from_s, to_s) in [(0.0, 0.0), (0.0, 1.0), (0.5, 1.9), (-1.0, 7.0)] {
                assert_eq!(with.energy_j(from_s, to_s), without.energy_j(from_s, to_s));
                assert_eq!(with.power_w(to_s), without.power_w(to_s));
            }
            assert_eq!([with.lowest_w(), with.peak_w()], [60.0, 60.0]);
        }
    }

    #[test]
    fn a_square_wave_draws_its_mean() {
        let square = PowerProfile::square(40.0, 240.0, 0.5, 0.25);
        assert!((square.energy_j(0.1, 5.1) - 5.0 * 90.0).abs() < 1e-9);
        assert_eq!(square.power_w(0.1), 240.0);
        assert_eq!(square.power_w(0.2), 40.0);
        assert!((square.mean_w(0.5, 0.5) - 90.0).abs() < 1e-9);
    }
}
