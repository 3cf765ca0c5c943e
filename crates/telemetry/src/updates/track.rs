//! Times of a sensor's updates, each with a bound on its error.
//!
//! Method: set-membership estimation, in four steps.
//! 1. Reads of one value form a hold. The last read of a hold and the first read of the next hold
//!    bracket an update ([`holds`]).
//! 2. Two updates are a whole number of periods apart, so a bracket, moved by a number of periods,
//!    narrows the next bracket:
//!    ```text
//!    bracket 1   [--------]
//!    moved                          [--------]       by one period
//!    bracket 2                 [--------]
//!    narrowed                       [---]
//!    ```
//!    One pass goes forward and one backward in time ([`narrowed`]). The bounds on the period widen
//!    a moved bracket, so an error of the clock widens the bounds of updates far from a change and
//!    never shifts them. If reads are slow, several numbers of periods are possible. Each is
//!    followed as a branch until later changes exclude it. Brackets that contradict each other are
//!    not narrowed.
//! 3. A time is chosen within each narrowed bracket such that neighbouring times have similar
//!    errors ([`regular`]).
//! 4. A reading of power may be the same after an update, so updates are filled in between the
//!    first and the last read of a hold ([`fill`]). A counter of a device that draws power changes
//!    at every update, so an unchanged counter proves that there was no update ([`of_counter`]).
//!
//! An update that passed between two reads is not in the list. [`UpdateGap`] states for each update
//! whether an update is missing before it.
//! Cost: for n reads, time is O(n log n), because step 3 halves ranges that no line fits, and
//! memory is O(n). Neither depends on the time between reads.

use super::{JITTER, ROUNDING, SLOW_READS};

/// Bounds on the time between two updates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PeriodBounds {
    /// The estimate, in s.
    pub period_s: f64,
    /// Lower bound, in s.
    pub shortest_s: f64,
    /// Upper bound, in s.
    pub longest_s: f64,
}

/// The relation of an update to the previous update in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateGap {
    /// No update happened between the two updates.
    Next,
    /// An update that no read saw may have happened between the two updates.
    Unsure,
    /// At least one update that no read saw happened between the two updates.
    Missed,
}

/// An update of a sensor with the reading that it produced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Update {
    /// The time, in s.
    pub time_s: f64,
    /// The bound on the error of the time, in s.
    pub slack_s: f64,
    /// The reading, in W or J.
    pub value: f64,
    /// Relation to the previous update.
    pub step: UpdateGap,
}

/// Consecutive reads of one value, with intervals that are too short to miss an update.
///
/// ```text
/// reads         x      x    x    x        x
/// value         1      2    2    2        3
///                      ^first_s  ^last_s
/// update        (------]                      from low_s to high_s
///               |gap_s |
/// ```
#[derive(Clone, Copy, Debug)]
struct Hold {
    value: f64,
    /// Time of the first read, in s.
    first_s: f64,
    /// Time of the last read, in s.
    last_s: f64,
    /// Earliest possible time of the update that produced the value, in s.
    low_s: f64,
    /// Latest possible time of that update, in s.
    high_s: f64,
    /// Time from the last read of the previous hold to the first read of this hold, in s; infinite
    /// for the first hold.
    gap_s: f64,
    /// Smallest and largest number of periods since the update of the previous hold.
    steps: (f64, f64),
}

impl PeriodBounds {
    /// Creates the bounds for a period with a relative error of at most `tolerance`.
    pub(crate) fn new(period_s: f64, tolerance: f64) -> Self {
        Self {
            period_s,
            shortest_s: period_s * (1.0 - tolerance).max(0.0),
            longest_s: period_s * (1.0 + tolerance),
        }
    }

    /// Returns the intersection of two bounds; `None` if the intersection is empty. The estimate is
    /// that of `self`, clamped to the intersection.
    pub(crate) fn within(&self, other: &Self) -> Option<Self> {
        let shortest_s = self.shortest_s.max(other.shortest_s);
        let longest_s = self.longest_s.min(other.longest_s);
        (shortest_s <= longest_s).then(|| Self {
            period_s: self.period_s.clamp(shortest_s, longest_s),
            shortest_s,
            longest_s,
        })
    }

    /// Returns the largest possible error of the period, as a share of the period.
    pub(crate) fn tolerance(&self) -> f64 {
        (self.longest_s / self.period_s - 1.0).max(1.0 - self.shortest_s / self.period_s)
    }

    /// Returns the smallest and the largest number of periods between two updates whose times are
    /// within the given bounds.
    fn steps(&self, from_s: (f64, f64), to_s: (f64, f64)) -> (f64, f64) {
        let fewest = ((to_s.0 - from_s.1) / self.longest_s - ROUNDING).ceil();
        let most = ((to_s.1 - from_s.0) / self.shortest_s + ROUNDING).floor();
        (fewest, most)
    }
}

/// Returns the updates of a power sensor from its reads, (s, W), in the order of their times.
pub(crate) fn of_power(series: &[(f64, f64)], period_bounds: &PeriodBounds) -> Vec<Update> {
    let holds = holds(series, period_bounds.longest_s, |gap_s| {
        gap_s > SLOW_READS * period_bounds.shortest_s
    });
    let places = places(&holds, Some(period_bounds));
    let mut updates: Vec<Update> = vec![];
    let mut step = UpdateGap::Next;
    for (i, hold) in holds.iter().enumerate() {
        push(&mut updates, places[i], hold.value, step);
        let next = holds.get(i + 1).zip(places.get(i + 1).copied());
        fill(&mut updates, hold, places[i], next, period_bounds);
        // The step of the next hold's update, relative to the last update that was filled in. No
        // update was missed if reads are close together or at most one period fits between the two.
        if let (Some((after, place)), Some(last)) = (next, updates.last()) {
            let (fewest, most) =
                period_bounds.steps(bounds((last.time_s, last.slack_s)), bounds(place));
            step = if after.first_s - hold.last_s <= SLOW_READS * period_bounds.shortest_s
                || most <= 1.0
            {
                UpdateGap::Next
            } else if fewest >= 2.0 || place.0 - last.time_s > 1.5 * period_bounds.longest_s {
                UpdateGap::Missed
            } else {
                UpdateGap::Unsure
            };
        }
    }
    updates
}

/// Returns the updates of a counter from its reads, (s, J): the update before the first read and
/// each update that changed the counter.
///
/// A reading is never older than `longest_s`. Without `period_bounds`, brackets are not narrowed.
pub(crate) fn of_counter(
    series: &[(f64, f64)],
    period_bounds: Option<&PeriodBounds>,
    longest_s: f64,
) -> Vec<Update> {
    let mut holds = holds(series, longest_s, |_| false);
    // Each update changes the counter. If the last read of the old value and the first read of the
    // new value are less than a period apart, there was only one update between the two values.
    for hold in &mut holds {
        if period_bounds
            .is_some_and(|period_bounds| hold.gap_s <= SLOW_READS * period_bounds.shortest_s)
        {
            hold.steps.1 = 1.0;
        }
    }
    let mut updates = vec![];
    for (hold, place) in holds.iter().zip(places(&holds, period_bounds)) {
        push(&mut updates, place, hold.value, UpdateGap::Next);
    }
    updates
}

/// Groups reads, (s, value), into holds.
///
/// `is_broken` returns whether an update may have been missed in an interval, in s, between two
/// equal reads. Such reads are in different holds.
fn holds(series: &[(f64, f64)], longest_s: f64, is_broken: impl Fn(f64) -> bool) -> Vec<Hold> {
    let mut holds: Vec<Hold> = vec![];
    for &(time_s, value) in series {
        // The update that produced a reading is at most `longest_s` before the read.
        let (mut low_s, mut min_steps, mut gap_s) = (time_s - longest_s, 1.0, f64::INFINITY);
        if let Some(last) = holds.last_mut() {
            gap_s = time_s - last.last_s;
            if value == last.value {
                if !is_broken(gap_s) {
                    last.last_s = time_s;
                    continue;
                }
                // Equal readings may come from the same update unless a whole period has passed.
                min_steps = if gap_s < longest_s { 0.0 } else { 1.0 };
            } else {
                // The old value was read after its own update, so the new update is later.
                low_s = low_s.max(last.last_s);
            }
        }
        holds.push(Hold {
            value,
            first_s: time_s,
            last_s: time_s,
            low_s,
            high_s: time_s,
            gap_s,
            steps: (min_steps, f64::INFINITY),
        });
    }
    holds
}

/// Returns the time of each hold's update and the bound on its error, in s.
///
/// With `period_bounds`, brackets are narrowed forward and backward in time. Without
/// `period_bounds`, the times are the middles of the brackets.
fn places(holds: &[Hold], period_bounds: Option<&PeriodBounds>) -> Vec<(f64, f64)> {
    let brackets: Vec<Range> = holds.iter().map(|hold| (hold.low_s, hold.high_s)).collect();
    let Some(period_bounds) = period_bounds else {
        let middle = |(low_s, high_s): Range| (0.5 * (low_s + high_s), 0.5 * (high_s - low_s));
        return brackets.into_iter().map(middle).collect();
    };
    let steps: Vec<(f64, f64)> = holds.iter().skip(1).map(|hold| hold.steps).collect();
    let forward = narrowed(&brackets, &steps, period_bounds);
    // The backward pass is a forward pass over negated times in reverse order.
    let mirrored: Vec<Range> = brackets.iter().rev().map(|&(a, b)| (-b, -a)).collect();
    let steps_mirrored: Vec<(f64, f64)> = steps.iter().rev().copied().collect();
    let backward = narrowed(&mirrored, &steps_mirrored, period_bounds);
    let both = brackets.iter().zip(forward).zip(backward.iter().rev());
    // Each pass may leave several ranges of a bracket. The time is in one range of each pass, so
    // the bound is the hull of all intersections. If all intersections are empty, the readings
    // contradict `period_bounds`, and the bracket itself is the bound.
    let ranges: Vec<Range> = both
        .map(|((bracket, ahead), behind)| {
            let within =
                |a: &Range, b: &Range| (a.0.max(-b.1).max(bracket.0), a.1.min(-b.0).min(bracket.1));
            let pairs = ahead
                .iter()
                .flat_map(|a| behind.iter().map(move |b| within(a, b)));
            let left: Vec<Range> = pairs.filter(|(low_s, high_s)| low_s <= high_s).collect();
            if left.is_empty() {
                *bracket
            } else {
                hull(&left)
            }
        })
        .collect();
    let times = regular(&ranges, period_bounds);
    let slack = |(time_s, range): (f64, Range)| (time_s, (time_s - range.0).max(range.1 - time_s));
    times.into_iter().zip(ranges).map(slack).collect()
}

/// Largest number of updates that are not split further in [`regular`].
const SHORT_LINE: usize = 16;

/// Returns a time within each range.
///
/// The times are on a straight line over the number of periods if such a line passes through all
/// ranges. Otherwise the ranges are split in half, and each half has a line of its own.
/// Neighbouring times then have similar errors, which hardly change the time between two updates
/// and so the energy of the cell between them.
fn regular(ranges: &[Range], period_bounds: &PeriodBounds) -> Vec<f64> {
    let Some(first) = ranges.first() else {
        return vec![];
    };
    let middle_s = |range: &Range| 0.5 * (range.0 + range.1);
    let (origin_s, mut steps, mut before_s) = (middle_s(first), 0.0, middle_s(first));
    // Weight, number of periods since the first update, and time of each update. Narrow ranges have
    // a high weight; the jitter limits the weight of a range of zero width. Times are relative to
    // the first time, to keep precision.
    let points: Vec<(f64, f64, f64)> = ranges
        .iter()
        .map(|range| {
            steps += ((middle_s(range) - before_s) / period_bounds.period_s).round();
            before_s = middle_s(range);
            let width_s = range.1 - range.0 + JITTER * period_bounds.period_s;
            (width_s.powi(-2), steps, before_s - origin_s)
        })
        .collect();
    let (offset_s, spacing_s) = line(&points, period_bounds);
    let fitted = points
        .iter()
        .map(|point| origin_s + offset_s + point.1 * spacing_s);
    let fits = |(time_s, range): (f64, &Range)| (range.0..=range.1).contains(&time_s);
    if ranges.len() > SHORT_LINE && !fitted.clone().zip(ranges).all(fits) {
        let (left, right) = ranges.split_at(ranges.len() / 2);
        let mut times = regular(left, period_bounds);
        times.extend(regular(right, period_bounds));
        return times;
    }
    // In a short part, times that the line puts outside their range are moved to its nearest end.
    let within = |(time_s, range): (f64, &Range)| time_s.max(range.0).min(range.1);
    fitted.zip(ranges).map(within).collect()
}

/// Returns the offset, in s, and the slope, in s per period, of the weighted least-squares line
/// through points, (weight, steps, s). The slope is clamped to `period_bounds`.
fn line(points: &[(f64, f64, f64)], period_bounds: &PeriodBounds) -> (f64, f64) {
    let mean = |value: &dyn Fn(&(f64, f64, f64)) -> f64| {
        let weights: f64 = points.iter().map(|point| point.0).sum();
        points
            .iter()
            .map(|point| point.0 * value(point))
            .sum::<f64>()
            / weights
    };
    let (steps, time_s) = (mean(&|point| point.1), mean(&|point| point.2));
    let spread = mean(&|point| (point.1 - steps).powi(2));
    let product = mean(&|point| (point.1 - steps) * (point.2 - time_s));
    let slope_s = (product / spread).clamp(period_bounds.shortest_s, period_bounds.longest_s);
    // One or two points do not determine the slope better than `period_bounds` does.
    let slope_s = if points.len() > 2 && slope_s.is_finite() {
        slope_s
    } else {
        period_bounds.period_s
    };
    (time_s - slope_s * steps, slope_s)
}

/// Lower and upper bound on a time, in s.
type Range = (f64, f64);

/// Largest number of separate ranges that are followed for one bracket. More ranges are replaced by
/// their hull.
const MAX_BRANCHES: usize = 4;

/// Returns, for each bracket (an interval of time that contains one update), the ranges of the
/// update's time that are consistent with all earlier brackets.
///
/// `allowed[i]` bounds the number of periods between the updates of brackets `i` and `i + 1`. For
/// each range of an update and each possible number of periods, the range is moved by that number
/// of periods and intersected with the next bracket:
/// ```text
/// from                [--]
/// + 1 period                  [---]
/// + 2 periods                         [----]
/// bracket                       [------------]
/// next                          [-]   [----]
/// ```
fn narrowed(
    brackets: &[Range],
    allowed: &[(f64, f64)],
    period_bounds: &PeriodBounds,
) -> Vec<Vec<Range>> {
    let jitter_s = JITTER * period_bounds.period_s;
    let mut found: Vec<Vec<Range>> = vec![];
    // Ranges of the grid point of the last update. The update itself is within the jitter of its
    // grid point, so brackets are widened here and results are widened again below.
    let mut points: Vec<Range> = vec![];
    for (i, &(low_s, high_s)) in brackets.iter().enumerate() {
        let bracket = (low_s - jitter_s, high_s + jitter_s);
        let allowed = if i > 0 { allowed[i - 1] } else { (0.0, 0.0) };
        let mut next: Vec<Range> = vec![];
        for &from in &points {
            let (fewest, most) = period_bounds.steps(from, bracket);
            let (fewest, most) = (fewest.max(allowed.0), most.min(allowed.1));
            // With many possible numbers of periods, the range excludes almost no part of the
            // bracket, so the bracket is not narrowed.
            let is_few = most - fewest < MAX_BRANCHES as f64;
            if !is_few {
                next = vec![bracket];
                break;
            }
            let steps = (0..=MAX_BRANCHES).map(|more| fewest + more as f64);
            let after = |step: f64| {
                let low_s = bracket.0.max(from.0 + step * period_bounds.shortest_s);
                (
                    low_s,
                    bracket.1.min(from.1 + step * period_bounds.longest_s),
                )
            };
            let ranges = steps.take_while(|&step| step <= most).map(after);
            next.extend(ranges.filter(|(low_s, high_s)| low_s <= high_s));
        }
        merge(&mut next);
        // No range left means a contradiction; the next brackets are narrowed by this one alone.
        points = match next.len() {
            0 => vec![bracket],
            n if n > MAX_BRANCHES => vec![hull(&next)],
            _ => next,
        };
        found.push(
            points
                .iter()
                .map(|&(a, b)| (a - jitter_s, b + jitter_s))
                .collect(),
        );
    }
    found
}

/// Sorts ranges and merges ranges that overlap.
fn merge(ranges: &mut Vec<Range>) {
    ranges.sort_by(|a, b| a.0.total_cmp(&b.0));
    ranges.dedup_by(|next, last| {
        let overlaps = next.0 <= last.1;
        if overlaps {
            last.1 = last.1.max(next.1);
        }
        overlaps
    });
}

/// Returns the smallest range that contains all ranges.
fn hull(ranges: &[Range]) -> Range {
    let all = ranges.iter().copied();
    all.fold((f64::INFINITY, f64::NEG_INFINITY), |hull, range| {
        (hull.0.min(range.0), hull.1.max(range.1))
    })
}

/// Adds the updates of a hold (a run of equal reads) after its first update. These updates did not
/// change the value.
///
/// `place` is the first update: its time and a bound on the error of that time. The others follow
/// at equal distances. The distance is the period, or the closest value for which the first update
/// of the next hold is a whole number of steps away:
/// ```text
/// reads      x   x   x   x   x     x
/// value      1   1   1   1   1     2
/// updates  ^      +      +      ^        ^ given (`place`, `next`), + filled in
/// ```
/// An update is added only if a read of the hold certainly saw the update, or if the reads before
/// the next hold are too close together to miss an update.
fn fill(
    updates: &mut Vec<Update>,
    hold: &Hold,
    place: (f64, f64),
    next: Option<(&Hold, (f64, f64))>,
    period_bounds: &PeriodBounds,
) {
    let (period_s, drift_s) = (
        period_bounds.period_s,
        period_bounds.tolerance() * period_bounds.period_s,
    );
    let (mut spacing_s, mut n_steps, mut is_all_seen) = (period_s, f64::INFINITY, false);
    let mut after = None;
    if let Some((hold_after, place_after)) = next {
        n_steps = ((place_after.0 - place.0) / period_s).round().max(1.0);
        spacing_s = (place_after.0 - place.0) / n_steps;
        is_all_seen = hold_after.first_s - hold.last_s <= SLOW_READS * period_bounds.shortest_s;
        after = Some(place_after.1);
    }
    // `place` is the last update before the first read, so later updates are after the read. Its
    // time has an error, so one step before the read is kept. If the bounds on the period are very
    // wide, `place` is many steps before the read; all but the last of these steps are left out.
    let first_step = ((hold.first_s - place.0) / spacing_s).floor().max(1.0);
    // At times far from zero a period may be shorter than the spacing of f64 numbers, so steps are
    // counted, and their number depends on the reads of the hold alone.
    let most_steps = ((hold.last_s - hold.first_s) / spacing_s).ceil() + 2.0;
    let mut n_filled = 0.0;
    while n_filled <= most_steps && first_step + n_filled < n_steps {
        let step = first_step + n_filled;
        n_filled += 1.0;
        let time_s = place.0 + step * spacing_s;
        // The error of the period adds up with the distance from either end of the hold. The update
        // is bounded from the closer end.
        let mut slack_s = place.1 + step * drift_s;
        if let Some(after_s) = after {
            slack_s = slack_s.min(after_s + (n_steps - step) * drift_s);
        }
        slack_s = slack_s
            .max(JITTER * period_s)
            .min(0.5 * period_bounds.longest_s);
        let is_seen = time_s + slack_s <= hold.last_s + ROUNDING * period_s;
        if !(is_seen || is_all_seen && time_s <= hold.last_s + period_s) {
            break;
        }
        push(updates, (time_s, slack_s), hold.value, UpdateGap::Next);
    }
}

/// Adds an update if its time is after the last update in the list.
fn push(updates: &mut Vec<Update>, (time_s, slack_s): (f64, f64), value: f64, step: UpdateGap) {
    if updates.last().is_none_or(|last| last.time_s < time_s) {
        updates.push(Update {
            time_s,
            slack_s,
            value,
            step,
        });
    }
}

/// Returns the lower and the upper bound of a time with a bound on its error, in s.
fn bounds((time_s, slack_s): (f64, f64)) -> (f64, f64) {
    (time_s - slack_s, time_s + slack_s)
}

#[cfg(test)]
mod tests {
    use super::{PeriodBounds, holds, of_power};

    #[test]
    fn equal_readings_are_of_two_updates_only_after_a_whole_period() {
        // Readings 0.9 s and 1.5 s apart, of a sensor with a period of 1 s.
        let series = [(0.0, 100.0), (0.9, 100.0), (2.4, 100.0), (2.5, 120.0)];
        let found = holds(&series, 1.0, |gap_s| gap_s > 0.5);
        let least: Vec<f64> = found.iter().map(|hold| hold.steps.0).collect();
        assert_eq!(least, [1.0, 0.0, 1.0, 1.0]);
        // Without a pause, equal readings are one hold.
        assert_eq!(holds(&series, 1.0, |_| false).len(), 2);
    }

    /// Such bounds follow from reads at times up to the limit of `Duration`.
    #[test]
    fn the_number_of_updates_is_limited_by_the_reads_if_the_period_is_unknown() {
        let period_bounds = PeriodBounds {
            period_s: 0.2,
            shortest_s: 0.0,
            longest_s: 3.2e9,
        };
        let series = [(3.3, 13.0), (65.6, 2.0), (65.6, 2.0), (1e18, 2.0)];
        let updates = of_power(&series, &period_bounds);
        assert!(updates.len() <= 3 * series.len(), "{}", updates.len());
    }
}
