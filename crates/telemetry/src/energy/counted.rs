//! The continuation of an energy counter from reading to reading, and its sum for displays.
//!
//! Role: [`went_on`] is the only rule for a counter's continuation; [`crate::Trace::energy`] uses
//! it as well. [`Counted`] is separate from that method because a live display takes one reading at
//! a time and stores no rows, so it can neither interpolate to the ends of a window nor bound an
//! error.
//! Method: a counter goes on from one reading to the next if it rises, and no faster than a device
//! draws. Its steps are added up. A reading that does not go on was misread if a later reading goes
//! on from the one before. If a later reading goes on from the new one, the counter began again (a
//! driver that was loaded again counts from zero), and the new reading was counted since. Energy
//! between the last reading and the fall is lost.

use std::time::Duration;

/// The sum of a counter's steps from one reading at a time, which never falls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// The newest reading that is believed, (s, J).
    last: Option<(f64, f64)>,
    /// One since then that did not go on from it.
    doubted: Option<(f64, f64)>,
    sum_j: f64,
}

/// More than any device draws, in W: a counter that rises faster was misread.
pub(super) const ANY_POWER_W: f64 = 1e6;
/// Tolerance, in s, of the time between two readings of a counter, for late drivers.
const SLACK_S: f64 = 1.0;

/// Whether a counter went on from one reading (s, J) to a later one: it neither fell nor rose
/// faster than `most_w`.
pub(crate) fn went_on(from: (f64, f64), to: (f64, f64), most_w: f64) -> bool {
    let most_j = most_w * (to.0 - from.0 + SLACK_S);
    (0.0..=most_j).contains(&(to.1 - from.1))
}

impl Counted {
    /// Adds a reading, in J, at a time since any origin, and returns the energy since the first
    /// reading, in J: never less than before.
    ///
    /// The first reading adds nothing, nor does one that is not finite or below 0, one that fell,
    /// or one that rose by more than a megawatt draws. If the next reading goes on from such a
    /// reading, counting continues from there, and the energy counted since a reset is added.
    pub fn add(&mut self, time: Duration, told_j: f64) -> f64 {
        if !(told_j.is_finite() && told_j >= 0.0) {
            return self.sum_j;
        }
        let now = (time.as_secs_f64(), told_j);
        let goes_on = |from: &(f64, f64)| went_on(*from, now, ANY_POWER_W);
        let anew = self.last.zip(self.doubted.filter(goes_on));
        if let Some((_, last_j)) = self.last.filter(goes_on) {
            self.sum_j += told_j - last_j;
        } else if let Some((last, first)) = anew {
            let is_from_zero = first.1 < last.1 && went_on((last.0, 0.0), first, ANY_POWER_W);
            self.sum_j += told_j - if is_from_zero { 0.0 } else { first.1 };
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

    /// Returns the sums after readings a second apart.
    fn sums<const N: usize>(told: [f64; N]) -> [f64; N] {
        let (mut counted, mut second) = (Counted::default(), 0);
        told.map(|told_j| {
            second += 1;
            counted.add(Duration::from_secs(second), told_j)
        })
    }

    #[test]
    fn a_counter_that_began_anew_is_followed_from_there() {
        let told = [5e6, 5e6 + 30.0, 12.0, 20.0, f64::NAN, -1.0, 25.0];
        assert_eq!(sums(told), [0.0, 30.0, 30.0, 50.0, 50.0, 50.0, 55.0]);
        // A counter that jumped for good did not count that.
        assert_eq!(sums([5.0, 1e15, 1e15 + 2.0]), [0.0, 0.0, 2.0]);
    }

    #[test]
    fn a_misread_counter_is_counted_on_from_what_it_told_before() {
        for misread in [1e15, 5e6 - 0.001, 0.0, f64::INFINITY] {
            let sums = sums([5e6, 5e6 + 1.0, misread, 5e6 + 3.0]);
            assert_eq!(sums, [0.0, 1.0, 1.0, 3.0], "{misread}");
        }
    }

    #[test]
    fn what_a_counter_may_rise_depends_on_the_time_that_passed() {
        let mut counted = Counted::default();
        counted.add(Duration::ZERO, 0.0);
        assert_eq!(counted.add(Duration::from_secs(1), 3e6), 0.0);
        assert_eq!(counted.add(Duration::from_secs(3), 3e6 + 5.0), 3e6 + 5.0);
    }
}
