//! Times of a sensor's updates, each with its own bounds.
//!
//! Method: set membership. A reading that differs from the one before it brackets an update. Two
//! updates are a whole number of periods apart, so each bracket narrows its neighbours' brackets,
//! by as much as the period is known: once forward and once backward in time. Nothing narrows
//! across a number of periods that is not unique, so an error of the clock widens the bounds of
//! updates far from a change and never shifts them. Where reads are slow, a bracket leaves several
//! places on the grid, which are followed until changes rule them out. Brackets that contradict
//! each other are not narrowed. A reading of power may stay the same over an update, so updates
//! between two changes are filled in. A counter of a device that draws power does not: an unchanged
//! counter proves that there was no update ([`of_counter`]). An update that passed between two
//! reads was not seen. [`Step`] states for each update whether one did.
//! Cost: time and memory grow with the number of reads and not with the time that they span.

use super::{JITTER, ROUNDING, SLOW_READS};

/// Bounds on the time between two updates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rhythm {
    /// The estimate, in s.
    pub period_s: f64,
    pub shortest_s: f64,
    pub longest_s: f64,
}

/// The relation of an update to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// No update lies between.
    Next,
    /// An update may lie between, and was not seen.
    Unsure,
    /// At least one update lies between, and was not seen.
    Missed,
}

/// A sensor's reading, at the update that made it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Update {
    /// The time, in s.
    pub time_s: f64,
    /// The bound on the error of the time, in s.
    pub slack_s: f64,
    /// The reading.
    pub value: f64,
    pub step: Step,
}

/// Reads of one value, without a time between in which another could have passed.
#[derive(Clone, Copy, Debug)]
struct Hold {
    value: f64,
    /// The first and the last read, in s.
    first_s: f64,
    last_s: f64,
    /// Bounds on the update that made the value, in s.
    low_s: f64,
    high_s: f64,
    /// The time since the last read of the hold before, in s.
    gap_s: f64,
    /// The fewest and the most periods since the update of the hold before.
    steps: (f64, f64),
}

impl Rhythm {
    /// Returns the rhythm of a period that may be off by a share of itself.
    pub(crate) fn new(period_s: f64, tolerance: f64) -> Self {
        Self {
            period_s,
            shortest_s: period_s * (1.0 - tolerance).max(0.0),
            longest_s: period_s * (1.0 + tolerance),
        }
    }

    /// Returns the rhythm that both allow; none if they contradict each other.
    pub(crate) fn within(&self, other: &Self) -> Option<Self> {
        let shortest_s = self.shortest_s.max(other.shortest_s);
        let longest_s = self.longest_s.min(other.longest_s);
        (shortest_s <= longest_s).then(|| Self {
            period_s: self.period_s.clamp(shortest_s, longest_s),
            shortest_s,
            longest_s,
        })
    }

    /// Returns the largest error of the period, as a share of it.
    pub(crate) fn tolerance(&self) -> f64 {
        (self.longest_s / self.period_s - 1.0).max(1.0 - self.shortest_s / self.period_s)
    }

    /// Returns the fewest and the most periods between two times that each lie between bounds.
    fn steps(&self, from_s: (f64, f64), to_s: (f64, f64)) -> (f64, f64) {
        let fewest = ((to_s.0 - from_s.1) / self.longest_s - ROUNDING).ceil();
        let most = ((to_s.1 - from_s.0) / self.shortest_s + ROUNDING).floor();
        (fewest, most)
    }
}

/// Returns the updates of a sensor of power from its reads, (s, W), in the order of their times.
pub(crate) fn of_power(series: &[(f64, f64)], rhythm: &Rhythm) -> Vec<Update> {
    let holds = holds(series, rhythm.longest_s, |gap_s| {
        gap_s > SLOW_READS * rhythm.shortest_s
    });
    let places = places(&holds, Some(rhythm));
    let mut updates: Vec<Update> = vec![];
    let mut step = Step::Next;
    for (i, hold) in holds.iter().enumerate() {
        push(&mut updates, places[i], hold.value, step);
        let next = holds.get(i + 1).zip(places.get(i + 1).copied());
        fill(&mut updates, hold, places[i], next, rhythm);
        if let (Some((after, place)), Some(last)) = (next, updates.last()) {
            let (fewest, most) = rhythm.steps(bounds((last.time_s, last.slack_s)), bounds(place));
            step = if after.first_s - hold.last_s <= SLOW_READS * rhythm.shortest_s || most <= 1.0 {
                Step::Next
            } else if fewest >= 2.0 || place.0 - last.time_s > 1.5 * rhythm.longest_s {
                Step::Missed
            } else {
                Step::Unsure
            };
        }
    }
    updates
}

/// Returns the updates of a counter from its reads, (s, J): those that changed it, and the one
/// before the first read.
///
/// `longest_s` bounds the age of a reading; without a rhythm, brackets are not narrowed.
pub(crate) fn of_counter(
    series: &[(f64, f64)],
    rhythm: Option<&Rhythm>,
    longest_s: f64,
) -> Vec<Update> {
    let mut holds = holds(series, longest_s, |_| false);
    // Each update changes a counter, so between two changes that reads follow closely there is one
    // period.
    for hold in &mut holds {
        if rhythm.is_some_and(|rhythm| hold.gap_s <= SLOW_READS * rhythm.shortest_s) {
            hold.steps.1 = 1.0;
        }
    }
    let mut updates = vec![];
    for (hold, place) in holds.iter().zip(places(&holds, rhythm)) {
        push(&mut updates, place, hold.value, Step::Next);
    }
    updates
}

/// Returns the holds of reads; `is_broken` states whether an update may pass in a time between two
/// equal reads.
fn holds(series: &[(f64, f64)], longest_s: f64, is_broken: impl Fn(f64) -> bool) -> Vec<Hold> {
    let mut holds: Vec<Hold> = vec![];
    for &(time_s, value) in series {
        let (mut low_s, mut min_steps, mut gap_s) = (time_s - longest_s, 1.0, f64::INFINITY);
        if let Some(last) = holds.last_mut() {
            gap_s = time_s - last.last_s;
            if value == last.value {
                if !is_broken(gap_s) {
                    last.last_s = time_s;
                    continue;
                }
                min_steps = if gap_s < longest_s { 0.0 } else { 1.0 };
            } else {
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
fn places(holds: &[Hold], rhythm: Option<&Rhythm>) -> Vec<(f64, f64)> {
    let brackets: Vec<Range> = holds.iter().map(|hold| (hold.low_s, hold.high_s)).collect();
    let Some(rhythm) = rhythm else {
        let middle = |(low_s, high_s): Range| (0.5 * (low_s + high_s), 0.5 * (high_s - low_s));
        return brackets.into_iter().map(middle).collect();
    };
    let steps: Vec<(f64, f64)> = holds.iter().skip(1).map(|hold| hold.steps).collect();
    let forward = narrowed(&brackets, &steps, rhythm);
    // Backward in time is forward in negative time.
    let mirrored: Vec<Range> = brackets.iter().rev().map(|&(a, b)| (-b, -a)).collect();
    let steps_mirrored: Vec<(f64, f64)> = steps.iter().rev().copied().collect();
    let backward = narrowed(&mirrored, &steps_mirrored, rhythm);
    let both = brackets.iter().zip(forward).zip(backward.iter().rev());
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
    let times = regular(&ranges, rhythm);
    let slack = |(time_s, range): (f64, Range)| (time_s, (time_s - range.0).max(range.1 - time_s));
    times.into_iter().zip(ranges).map(slack).collect()
}

/// Fewer updates are not divided further.
const SHORT_LINE: usize = 16;

/// Returns a time in each range, on one line where all ranges allow, and on a line for each half of
/// them otherwise: errors of neighbours are then alike, and hardly change the energy between them.
fn regular(ranges: &[Range], rhythm: &Rhythm) -> Vec<f64> {
    let Some(first) = ranges.first() else {
        return vec![];
    };
    let middle_s = |range: &Range| 0.5 * (range.0 + range.1);
    let (origin_s, mut steps, mut before_s) = (middle_s(first), 0.0, middle_s(first));
    // Weight, steps and time of each update.
    let points: Vec<(f64, f64, f64)> = ranges
        .iter()
        .map(|range| {
            steps += ((middle_s(range) - before_s) / rhythm.period_s).round();
            before_s = middle_s(range);
            let width_s = range.1 - range.0 + JITTER * rhythm.period_s;
            (width_s.powi(-2), steps, before_s - origin_s)
        })
        .collect();
    let (offset_s, spacing_s) = line(&points, rhythm);
    let fitted = points
        .iter()
        .map(|point| origin_s + offset_s + point.1 * spacing_s);
    let fits = |(time_s, range): (f64, &Range)| (range.0..=range.1).contains(&time_s);
    if ranges.len() > SHORT_LINE && !fitted.clone().zip(ranges).all(fits) {
        let (left, right) = ranges.split_at(ranges.len() / 2);
        let mut times = regular(left, rhythm);
        times.extend(regular(right, rhythm));
        return times;
    }
    let within = |(time_s, range): (f64, &Range)| time_s.max(range.0).min(range.1);
    fitted.zip(ranges).map(within).collect()
}

/// Returns offset and slope of the line through points, (weight, steps, s), with a slope that the
/// rhythm allows.
fn line(points: &[(f64, f64, f64)], rhythm: &Rhythm) -> (f64, f64) {
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
    let slope_s = (product / spread).clamp(rhythm.shortest_s, rhythm.longest_s);
    // Two points determine a slope no better than the rhythm does.
    let slope_s = if points.len() > 2 && slope_s.is_finite() {
        slope_s
    } else {
        rhythm.period_s
    };
    (time_s - slope_s * steps, slope_s)
}

/// The least and the most of a time, in s.
type Range = (f64, f64);

/// Places on the grid between which a bracket leaves the choice; more are taken for one that holds
/// all.
const MAX_BRANCHES: usize = 4;

/// Returns for each bracket the ranges that are left of it by those before it, with bounds on the
/// periods between.
fn narrowed(brackets: &[Range], allowed: &[(f64, f64)], rhythm: &Rhythm) -> Vec<Vec<Range>> {
    let jitter_s = JITTER * rhythm.period_s;
    let mut found: Vec<Vec<Range>> = vec![];
    // Ranges of the point of the grid that the update keeps to.
    let mut points: Vec<Range> = vec![];
    for (i, &(low_s, high_s)) in brackets.iter().enumerate() {
        let bracket = (low_s - jitter_s, high_s + jitter_s);
        let allowed = if i > 0 { allowed[i - 1] } else { (0.0, 0.0) };
        let mut next: Vec<Range> = vec![];
        for &from in &points {
            let (fewest, most) = rhythm.steps(from, bracket);
            let (fewest, most) = (fewest.max(allowed.0), most.min(allowed.1));
            let is_few = most - fewest < MAX_BRANCHES as f64;
            if !is_few {
                next = vec![bracket];
                break;
            }
            let steps = (0..=MAX_BRANCHES).map(|more| fewest + more as f64);
            let after = |step: f64| {
                let low_s = bracket.0.max(from.0 + step * rhythm.shortest_s);
                (low_s, bracket.1.min(from.1 + step * rhythm.longest_s))
            };
            let ranges = steps.take_while(|&step| step <= most).map(after);
            next.extend(ranges.filter(|(low_s, high_s)| low_s <= high_s));
        }
        merge(&mut next);
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

/// Joins ranges that overlap.
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

/// Returns the least and the most of all ranges.
fn hull(ranges: &[Range]) -> Range {
    let all = ranges.iter().copied();
    all.fold((f64::INFINITY, f64::NEG_INFINITY), |hull, range| {
        (hull.0.min(range.0), hull.1.max(range.1))
    })
}

/// Adds the updates that kept a hold's value, from its first update to its last read or to the next
/// hold.
fn fill(
    updates: &mut Vec<Update>,
    hold: &Hold,
    place: (f64, f64),
    next: Option<(&Hold, (f64, f64))>,
    rhythm: &Rhythm,
) {
    let (period_s, drift_s) = (rhythm.period_s, rhythm.tolerance() * rhythm.period_s);
    let (mut spacing_s, mut n_steps, mut is_all_seen) = (period_s, f64::INFINITY, false);
    let mut after = None;
    if let Some((hold_after, place_after)) = next {
        n_steps = ((place_after.0 - place.0) / period_s).round().max(1.0);
        spacing_s = (place_after.0 - place.0) / n_steps;
        is_all_seen = hold_after.first_s - hold.last_s <= SLOW_READS * rhythm.shortest_s;
        after = Some(place_after.1);
    }
    // At times far from zero a period may be less than the spacing of numbers.
    let most_steps = ((hold.last_s - place.0) / period_s).ceil() + 1.0;
    let mut step = 1.0;
    while step < n_steps && step <= most_steps {
        let time_s = place.0 + step * spacing_s;
        let mut slack_s = place.1 + step * drift_s;
        if let Some(after_s) = after {
            slack_s = slack_s.min(after_s + (n_steps - step) * drift_s);
        }
        slack_s = slack_s.max(JITTER * period_s).min(0.5 * rhythm.longest_s);
        let is_seen = time_s + slack_s <= hold.last_s + ROUNDING * period_s;
        if !(is_seen || is_all_seen && time_s <= hold.last_s + period_s) {
            break;
        }
        push(updates, (time_s, slack_s), hold.value, Step::Next);
        step += 1.0;
    }
}

/// Adds an update, if it is later than the last.
fn push(updates: &mut Vec<Update>, (time_s, slack_s): (f64, f64), value: f64, step: Step) {
    if updates.last().is_none_or(|last| last.time_s < time_s) {
        updates.push(Update {
            time_s,
            slack_s,
            value,
            step,
        });
    }
}

fn bounds((time_s, slack_s): (f64, f64)) -> (f64, f64) {
    (time_s - slack_s, time_s + slack_s)
}
