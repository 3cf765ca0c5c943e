//! A thermal model: the temperature of a die as a function of its power.
//!
//! Role: the thermal model of a scenario, solved in closed form.
//! Method: one thermal resistance and one capacity, `τ T' = ambient + R P(t) - T`. The power is
//! piecewise linear, so each piece has an elementary solution. One round of a repeating power
//! profile is an affine map of the filtered power, and many rounds form a geometric series.

use super::{PowerProfile, PowerSegment};
use serde::{Deserialize, Serialize};

/// A first-order thermal model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Thermal {
    /// Temperature at zero power, in °C.
    pub ambient_c: f64,
    /// Temperature rise per watt, in °C/W; 0 for a constant temperature.
    pub rise_c_per_w: f64,
    /// Time constant, in s; above 0.
    pub tau_s: f64,
    /// Temperature from which the device reports thermal slowdown, in °C.
    pub slowdown_c: f64,
    /// Temperature at which the device would shut down, in °C; reported only, without effect.
    pub shutdown_c: f64,
}

impl Default for Thermal {
    fn default() -> Self {
        Self {
            ambient_c: 30.0,
            rise_c_per_w: 0.5,
            tau_s: 20.0,
            slowdown_c: 93.0,
            shutdown_c: 96.0,
        }
    }
}

/// Returns the power after a first-order low-pass filter, in W. At time zero the filter has settled
/// on the power at time zero.
///
/// The cost is that of one round of the profile, regardless of `time_s`.
pub(super) fn filtered_w(profile: &PowerProfile, tau_s: f64, time_s: f64) -> f64 {
    let start_w = profile.power_w(0.0);
    let through = |from_w: f64, time_s: f64| {
        let (mut state_w, mut left_s) = (from_w, time_s);
        for piece in &profile.pieces {
            let lasts_s = left_s.min(piece.lasts_s);
            state_w = through_piece(piece, tau_s, state_w, lasts_s);
            left_s -= lasts_s;
        }
        let last_w = profile.pieces.last().map_or(0.0, |piece| piece.to_w);
        last_w + (state_w - last_w) * (-left_s / tau_s).exp()
    };
    let round_s: f64 = profile.pieces.iter().map(|piece| piece.lasts_s).sum();
    let time_s = time_s.max(0.0);
    if !profile.repeats || round_s <= 0.0 {
        return through(start_w, time_s);
    }
    let n_rounds = (time_s / round_s).floor();
    // A round maps w to `through(0) + decay w` with `decay = exp(-round_s / τ)`. The distance of
    // the state from the fixed point of this map shrinks by the factor `decay` each round.
    let fixed_w = through(0.0, round_s) / -(-round_s / tau_s).exp_m1();
    let state_w = fixed_w + (start_w - fixed_w) * (-n_rounds * round_s / tau_s).exp();
    through(state_w, (time_s - n_rounds * round_s).max(0.0))
}

/// Solves `τ s' = P - s` over the first `time_s` seconds of a piece, from the state `state_w`.
fn through_piece(piece: &PowerSegment, tau_s: f64, state_w: f64, time_s: f64) -> f64 {
    let slope = (piece.to_w - piece.from_w) / piece.lasts_s;
    // The particular solution is the power delayed by the time constant.
    let behind = |time_s: f64| piece.from_w + slope * (time_s - tau_s);
    behind(time_s) + (state_w - behind(0.0)) * (-time_s / tau_s).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filtered_power_solves_its_equation() {
        let pieces = vec![
            PowerSegment::level(0.3, 50.0),
            PowerSegment {
                lasts_s: 0.4,
                from_w: 50.0,
                to_w: 250.0,
            },
        ];
        for repeats in [true, false] {
            let profile = PowerProfile {
                pieces: pieces.clone(),
                repeats,
            };
            let (tau_s, step_s) = (1.7, 1e-5);
            let (mut state_w, mut time_s) = (50.0, 0.0);
            while time_s < 4.0 {
                state_w += step_s / tau_s * (profile.power_w(time_s + step_s / 2.0) - state_w);
                time_s += step_s;
            }
            let exact_w = filtered_w(&profile, tau_s, time_s);
            assert!((exact_w - state_w).abs() < 1e-2, "{exact_w} {state_w}");
        }
    }

    #[test]
    fn filtered_power_starts_settled_and_ends_at_the_mean() {
        let square = PowerProfile::square(40.0, 240.0, 0.5, 0.25);
        assert_eq!(filtered_w(&square, 5.0, 0.0), 240.0);
        // With a time constant of ten periods, the ripple stays within a tenth of the swing.
        assert!((filtered_w(&square, 5.0, 1e6) - 90.0).abs() < 20.0);
        assert!((filtered_w(&PowerProfile::constant(70.0), 5.0, 3.0) - 70.0).abs() < 1e-9);
    }
}
