//! What clocks and limits do to power and speed.
//!
//! Role: the model behind a device's controls, and the history of what was set.
//! Method: `P(f) = static + (P(f_max) - static) (f / f_max)^exponent`, and `1 / speed = fixed + cycles / f`. A limit
//! lowers the clock to where the program's peak keeps to it, so within one setting power is a linear function of the
//! program, and energy stays exact.
//! Limits: a real device lowers its clock from moment to moment, and in steps.

use super::Program;
use serde::{Deserialize, Serialize};

/// A device's clocks, and what they do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClockModel {
    /// Clocks of the multiprocessors that can be chosen, in MHz, falling.
    pub sm_mhz: Vec<u32>,
    /// Clock of the multiprocessors when idle, in MHz.
    pub idle_sm_mhz: u32,
    /// Clocks of the memory that can be chosen, in MHz, falling.
    pub memory_mhz: Vec<u32>,
    /// Power that does not change with the clock, in W; the program's lowest, if that is less.
    pub static_w: f64,
    /// Power of the clock that the rest goes by.
    pub exponent: f64,
    /// Part of the time of a unit of work that does not change with the clock, in s.
    pub fixed_s: f64,
    /// The other part, in cycles of a MHz clock: s·MHz.
    pub megacycles: f64,
}

impl ClockModel {
    /// Gives the highest clock of the multiprocessors, in MHz.
    #[must_use]
    pub fn top_sm_mhz(&self) -> u32 {
        self.sm_mhz.first().copied().unwrap_or(0)
    }

    /// Gives the power that does not change with the clock, in W.
    #[must_use]
    pub fn static_w(&self, power: &Program) -> f64 {
        self.static_w.min(power.lowest_w())
    }

    /// Gives units of work done in a second at a clock in MHz, all the time being busy.
    #[must_use]
    pub fn speed_per_s(&self, sm_mhz: f64) -> f64 {
        1.0 / (self.fixed_s + self.megacycles / sm_mhz)
    }

    /// Gives the highest clock, in MHz, that lets a program keep to a limit; the lowest there is, if none does.
    fn capped_mhz(&self, power: &Program, limit_w: f64) -> f64 {
        let (static_w, top_mhz) = (self.static_w(power), f64::from(self.top_sm_mhz()));
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

/// What was set at a time, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Setting {
    /// When it was set, in s.
    pub(super) since_s: f64,
    /// The lowest and highest clock that were asked for, in MHz.
    pub(super) locked_mhz: Option<(u32, u32)>,
    /// The limit on power, in W.
    pub(super) limit_w: f64,
    /// The clock of busy multiprocessors, in MHz.
    pub(super) sm_mhz: f64,
    /// What is left of the power that changes with the clock.
    pub(super) scale: f64,
    /// Whether the limit is why the clock is low.
    pub(super) is_capped: bool,
}

impl Setting {
    pub(super) fn new(
        clocks: &ClockModel,
        power: &Program,
        since_s: f64,
        locked_mhz: Option<(u32, u32)>,
        limit_w: f64,
    ) -> Self {
        let top_mhz = clocks.top_sm_mhz();
        let wanted_mhz = locked_mhz.map_or(top_mhz, |(_, highest)| {
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
        let Gpu { clocks, power, .. } = Gpu::of(Board::P100);
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
        let Gpu { clocks, power, .. } = Gpu::of(Board::P100);
        let locked = |highest| Setting::new(&clocks, &power, 0.0, Some((0, highest)), 250.0).sm_mhz;
        assert_eq!(
            (locked(936), locked(1000), locked(9000), locked(1)),
            (936.0, 936.0, 1328.0, 544.0)
        );
    }
}
