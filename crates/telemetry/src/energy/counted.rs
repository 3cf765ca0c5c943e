//! Detection of resets and misreadings of an energy counter, and a running sum for displays.
//!
//! Role: [`went_on`] is the only rule that decides whether a counter continues from one reading to
//! the next; [`crate::Trace::energy`] uses this rule as well. [`EnergyTotal`] is separate from
//! `Trace::energy` because a live display takes one reading at a time and stores no rows, so it can
//! neither interpolate to the ends of a window nor bound the error.
//! Method: a counter continues from a reading to a later one if it does not fall and rises no
//! faster than a device can draw. The steps between such readings are added. A reading that does
//! not continue from the last accepted reading is stored as doubtful. The next reading decides:
//! ```text
//! readings   5000  5030   12   5060    12 was a misreading; count 5060 - 5030
//! readings   5000  5030   12     20    the counter was reset; count 20
//! ```
//! After a reset (a driver that is loaded again counts from zero), the energy between the last
//! reading before the reset and the reset itself is lost.

use std::time::Duration;

/// A running sum of the increases of an energy counter. The sum never decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EnergyTotal {
    /// The last accepted reading, (s, J).
    last: Option<(f64, f64)>,
    /// The last reading after `last` that did not continue from `last`, (s, J).
    doubted: Option<(f64, f64)>,
    sum_j: f64,
}

/// Upper bound on the power of any device, in W: a counter that rises faster was misread.
pub(super) const ANY_POWER_W: f64 = 1e6;
/// Tolerance, in s, of the time between two readings of a counter, because a driver may update the
/// counter late.
const SLACK_S: f64 = 1.0;

/// Returns whether a counter continued from one reading, (s, J), to a later reading: it neither
/// fell nor rose faster than `most_w`.
pub(crate) fn went_on(from: (f64, f64), to: (f64, f64), most_w: f64) -> bool {
    let most_j = most_w * (to.0 - from.0 + SLACK_S);
    (0.0..=most_j).contains(&(to.1 - from.1))
}

impl EnergyTotal {
    /// Adds a reading of the counter, in J, and returns the energy since the first reading, in J.
    /// The result never decreases.
    ///
    /// `time` is the time of the reading, measured from any fixed origin. The first reading adds
    /// 0 J. A reading also adds 0 J if it is not finite or is negative, if the counter fell, or if
    /// the counter rose faster than 1 MW. If the next reading continues from a reading that fell
    /// or rose too fast, counting continues from there, and the energy since a reset is added.
    pub fn add(&mut self, time: Duration, reported_j: f64) -> f64 {
        if !(reported_j.is_finite() && reported_j >= 0.0) {
            return self.sum_j;
        }
        let now = (time.as_secs_f64(), reported_j);
        let goes_on = |from: &(f64, f64)| went_on(*from, now, ANY_POWER_W);
        let restarted = self.last.zip(self.doubted.filter(goes_on));
        if let Some((_, last_j)) = self.last.filter(goes_on) {
            self.sum_j += reported_j - last_j;
        } else if let Some((last, first)) = restarted {
            // After a reset the counter began at 0, so all of the new reading is energy since the
            // reset. A counter that jumped up was not at 0; only the last step counts.
            let is_from_zero = first.1 < last.1 && went_on((last.0, 0.0), first, ANY_POWER_W);
            self.sum_j += reported_j - if is_from_zero { 0.0 } else { first.1 };
        } else if self.last.is_some() {
            self.doubted = Some(now);
            return self.sum_j;
        }
        (self.last, self.doubted) = (Some(now), None);
        self.sum_j
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the running sum after each reading; the readings are 1 s apart.
    fn sums<const N: usize>(reported: [f64; N]) -> [f64; N] {
        let (mut counted, mut second) = (EnergyTotal::default(), 0);
        reported.map(|reported_j| {
            second += 1;
            counted.add(Duration::from_secs(second), reported_j)
        })
    }

    #[test]
    fn a_counter_that_began_again_is_followed_from_there() {
        let reported = [5e6, 5e6 + 30.0, 12.0, 20.0, f64::NAN, -1.0, 25.0];
        assert_eq!(sums(reported), [0.0, 30.0, 30.0, 50.0, 50.0, 50.0, 55.0]);
        // A counter that jumped up and stayed there: the jump is not counted.
        assert_eq!(sums([5.0, 1e15, 1e15 + 2.0]), [0.0, 0.0, 2.0]);
    }

    #[test]
    fn after_a_misread_value_a_counter_continues_from_the_value_before() {
        for misread in [1e15, 5e6 - 0.001, 0.0, f64::INFINITY] {
            let sums = sums([5e6, 5e6 + 1.0, misread, 5e6 + 3.0]);
            assert_eq!(sums, [0.0, 1.0, 1.0, 3.0], "{misread}");
        }
    }

    #[test]
    fn counting_begins_at_the_first_reading_that_is_a_value() {
        for first in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            assert_eq!(sums([first, 5.0, 7.0]), [0.0, 0.0, 2.0], "{first}");
        }
    }

    #[test]
    fn what_a_counter_may_rise_depends_on_the_time_that_passed() {
        let mut counted = EnergyTotal::default();
        counted.add(Duration::ZERO, 0.0);
        assert_eq!(counted.add(Duration::from_secs(1), 3e6), 0.0);
        assert_eq!(counted.add(Duration::from_secs(3), 3e6 + 5.0), 3e6 + 5.0);
    }
}
