//! Effect of clock settings and power limits on power and speed.
//!
//! Role: the model behind a device's controls, and the settings in force at each time.
//! Method: `P(f) = static + (P(f_max) - static) (f / f_max)^exponent`, and `1 / speed = fixed +
//! cycles / f`. A power limit lowers the clock until the peak of the power profile is at the limit.
//! Within one setting, power is therefore a linear function of the profile, and energy stays exact.
//! Limits: a real device adjusts its clock continuously and in steps; this model uses one clock per
//! setting, chosen from the peak.

use super::PowerProfile;
use serde::{Deserialize, Serialize};

/// A device's clocks and their effect on power and speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClockModel {
    /// Selectable clocks of the multiprocessors, in MHz, in descending order.
    pub sm_mhz: Vec<u32>,
    /// Clock of the multiprocessors when idle, in MHz.
    pub idle_sm_mhz: u32,
    /// Selectable clocks of the memory, in MHz, in descending order.
    pub memory_mhz: Vec<u32>,
    /// Power that does not depend on the clock, in W. If the lowest power of the profile is less,
    /// that power is used.
    pub static_w: f64,
    /// Exponent of the clock in the clock-dependent part of the power.
    pub exponent: f64,
    /// Clock-independent time per unit of work, in s.
    pub fixed_s: f64,
    /// Clock cycles per unit of work, in millions. Divided by the clock in MHz, they are the
    /// clock-dependent time in s.
    pub megacycles: f64,
}

impl ClockModel {
    /// Returns the highest clock of the multiprocessors, in MHz; 0 if there are no clocks.
    #[must_use]
    pub fn top_sm_mhz(&self) -> u32 {
        self.sm_mhz.first().copied().unwrap_or(0)
    }

    /// Returns the clock-independent power, in W: the smaller of the field `static_w` and the
    /// lowest power of the profile.
    #[must_use]
    pub fn static_w(&self, power: &PowerProfile) -> f64 {
        self.static_w.min(power.lowest_w())
    }

    /// Returns the units of work per second at a clock in MHz, for a device that is busy all the
    /// time.
    #[must_use]
    pub fn speed_per_s(&self, sm_mhz: f64) -> f64 {
        1.0 / (self.fixed_s + self.megacycles / sm_mhz)
    }

    /// Returns the highest clock, in MHz, at which the peak of a power profile is at most
    /// `limit_w`; the lowest selectable clock if no clock is low enough.
    fn capped_mhz(&self, power: &PowerProfile, limit_w: f64) -> f64 {
        let (static_w, top_mhz) = (self.static_w(power), f64::from(self.top_sm_mhz()));
        // Solves P(f) = limit for f at the peak: (f / f_max)^exponent = share.
        let share = (limit_w - static_w) / (power.peak_w() - static_w);
        if share < 1.0 {
            let bottom_mhz = f64::from(self.sm_mhz.last().copied().unwrap_or(0));
            (top_mhz * share.max(0.0).powf(1.0 / self.exponent)).max(bottom_mhz)
        } else {
            top_mhz
        }
    }
}

impl Default for ClockModel {
    fn default() -> Self {
        super::Gpu::default().clocks
    }
}

/// A setting of clocks and power limit, and its effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Setting {
    /// Start of the setting, in s.
    pub(super) since_s: f64,
    /// The requested lowest and highest clock, in MHz; none if the clocks are not locked.
    pub(super) locked_mhz: Option<(u32, u32)>,
    /// The power limit, in W.
    pub(super) limit_w: f64,
    /// The clock of the multiprocessors while busy, in MHz.
    pub(super) sm_mhz: f64,
    /// Factor by which the clock-dependent power is scaled: `(sm_mhz / highest clock)^exponent`.
    pub(super) scale: f64,
    /// Whether the power limit, rather than a lock, determines the clock.
    pub(super) is_capped: bool,
}

impl Setting {
    pub(super) fn new(
        clocks: &ClockModel,
        power: &PowerProfile,
        since_s: f64,
        locked_mhz: Option<(u32, u32)>,
        limit_w: f64,
    ) -> Self {
        let top_mhz = clocks.top_sm_mhz();
        let wanted_mhz = locked_mhz.map_or(top_mhz, |(_, highest)| {
            // The clocks are in descending order, so the first one at or below the limit is the
            // highest.
            let mut below = clocks.sm_mhz.iter().copied().filter(|&mhz| mhz <= highest);
            below
                .next()
                .or(clocks.sm_mhz.last().copied())
                .unwrap_or(top_mhz)
        });
        let capped_mhz = clocks.capped_mhz(power, limit_w);
        let sm_mhz = f64::from(wanted_mhz).min(capped_mhz);
        Self {
            since_s,
            locked_mhz,
            limit_w,
            sm_mhz,
            scale: (sm_mhz / f64::from(top_mhz)).powf(clocks.exponent),
            is_capped: capped_mhz < f64::from(wanted_mhz),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Board, Gpu};

    #[test]
    fn a_limit_lowers_the_clock_to_where_the_peak_keeps_to_it() {
        let Gpu { clocks, power, .. } = Gpu::from_board(Board::P100);
        let limit_w = 80.0;
        let setting = Setting::new(&clocks, &power, 0.0, None, limit_w);
        let static_w = clocks.static_w(&power);
        let peak_w = static_w + setting.scale * (power.peak_w() - static_w);
        assert!(
            setting.is_capped && (peak_w - limit_w).abs() < 1e-9,
            "{peak_w}"
        );
    }

    #[test]
    fn a_lock_takes_the_highest_clock_that_it_allows() {
        let Gpu { clocks, power, .. } = Gpu::from_board(Board::P100);
        let locked = |highest| Setting::new(&clocks, &power, 0.0, Some((0, highest)), 250.0).sm_mhz;
        assert_eq!(
            (locked(936), locked(1000), locked(9000), locked(1)),
            (936.0, 936.0, 1328.0, 544.0)
        );
    }
}
