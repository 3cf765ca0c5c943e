//! The verdict of a [`Bottleneck`], and its text.

use super::{Bottleneck, Evidence, Shares, Verdict};
use crate::analysis::cut::GAP_LEVEL;
use crate::analysis::estimate::Estimate;
use crate::energy::digits;
use std::fmt;

/// 95th percentile of utilisation, in %, below which the verdict is [`Verdict::Underused`].
const UNDERUSED_PERCENT: f64 = 70.0;
/// Threshold of the share of idle time for [`Verdict::MostlyIdle`].
const MOSTLY: f64 = 0.5;
/// Threshold of the share of idle time for the verdicts of a device that is idle at times.
const AT_TIMES: f64 = 0.05;
/// Smallest width of the range of the active share at which the verdict is undecided. A wider range
/// would be displayed as about 0 to 100 %.
const ANY_SHARE: f64 = 0.99;
/// Share of known time from which on the text does not mention unknown time. It is below 1 because
/// a pause leaves a short time at its ends.
const ALL_KNOWN: f64 = 0.995;

impl Bottleneck {
    /// Returns the first verdict that applies to the shares of time, the period and utilisation.
    pub(super) fn first_fitting_verdict(&self) -> Verdict {
        let idle = 1.0 - self.shares.active.value;
        let Estimate { low, high, .. } = self.shares.active;
        // A job that alternates between two loads has a period as well, but its low level is not
        // idle.
        let low_is_gap = |levels_w: (f64, f64)| levels_w.0 < GAP_LEVEL * levels_w.1;
        let has_gaps = self
            .periodicity
            .is_some_and(|found| low_is_gap(found.levels_w));
        // The order of the arms is the priority of the verdicts.
        match self.busy_percentiles {
            _ if self.evidence == Evidence::Neither => Verdict::Undecided,
            _ if high - low >= ANY_SHARE => Verdict::Undecided,
            _ if idle > MOSTLY => Verdict::MostlyIdle,
            _ if has_gaps && idle > AT_TIMES => Verdict::PeriodicIdle,
            Some((_, p95)) if p95 < UNDERUSED_PERCENT => Verdict::Underused,
            _ if idle > AT_TIMES => Verdict::Fluctuating,
            _ => Verdict::Busy,
        }
    }
}

/// Displays a share in per cent, with its range if the range is wider than the rounding.
struct Percent(Estimate);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { value, low, high } = self.0.scaled(100.0);
        write!(f, "{value:.0} %")?;
        if high - low >= 1.0 {
            write!(f, " [{low:.0}, {high:.0}]")?;
        }
        Ok(())
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.verdict {
            Verdict::Undecided if self.evidence == Evidence::Neither => {
                "Busy and idle time cannot be distinguished: utilisation is not reported, and power has no two levels."
            }
            Verdict::Undecided => {
                "Busy and idle time cannot be distinguished: the readings allow every share of idle time, from 0 to 100 %."
            }
            Verdict::MostlyIdle => "The device was idle for most of the time.",
            Verdict::PeriodicIdle => "The device waits in every round.",
            Verdict::Underused => "The device is under-used.",
            Verdict::Fluctuating => "The device is busy at times and idle at others.",
            Verdict::Busy => "The device was busy.",
        })?;
        if self.verdict != Verdict::Undecided {
            self.fmt_shares(f)?;
        }
        if self.known < ALL_KNOWN {
            let unknown = 100.0 * (1.0 - self.known);
            write!(f, " {unknown:.0} % of the time is unknown and left out.")?;
        }
        if let Some(found) = self.periodicity {
            write!(
                f,
                " Power repeats every {:.2} s, {:.0} times, and is high ({:.0} W) for {:.0} % of \
                 each period and low ({:.0} W) for the rest (probability of a false alarm: at most \
                 {:.0e}).",
                found.period_s,
                found.n_periods,
                found.levels_w.1,
                100.0 * found.duty,
                found.levels_w.0,
                // Smaller bounds, 0 included, are reported as 1e-9.
                found.chance.max(1e-9),
            )?;
        }
        if let Some((p5, p95)) = self.busy_percentiles {
            write!(
                f,
                " Utilisation is {p5:.0} % at the 5th percentile and {p95:.0} % at the 95th."
            )?;
        }
        match self.joules {
            Some(joules) if joules > 0.0 => self.fmt_energy(f, joules),
            _ => Ok(()),
        }
    }
}

impl Bottleneck {
    /// Writes the shares of the states. Idle time is split into time with allocated and with free
    /// memory only if memory in use is reported.
    fn fmt_shares(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shares {
            active,
            idle_held,
            idle,
        } = self.shares;
        write!(f, " It was active for {} of the time", Percent(active))?;
        if self.is_memory_reported {
            let (held, free) = (Percent(idle_held), Percent(idle));
            write!(
                f,
                ", idle with memory allocated for {held}, and idle for {free}."
            )
        } else {
            let idle = Percent(idle);
            write!(f, " and idle for {idle}; memory in use is not reported.")
        }
    }

    /// Writes the energy of the window and, if idle time is known, the energy of idle time.
    fn fmt_energy(&self, f: &mut fmt::Formatter<'_>, joules: f64) -> fmt::Result {
        write!(f, " It used {} J", digits(joules))?;
        let known = self.wasted_j.filter(|_| self.verdict != Verdict::Undecided);
        let Some(wasted_j) = known else {
            return f.write_str(".");
        };
        write!(
            f,
            ", of which {} J [{}, {}] ({:.0} %) while idle.",
            digits(wasted_j.value),
            digits(wasted_j.low),
            digits(wasted_j.high),
            100.0 * wasted_j.value / joules,
        )
    }
}
