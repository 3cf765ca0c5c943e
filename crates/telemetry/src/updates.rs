//! When a sensor was updated, from what was read of it.
//!
//! Role: a sensor that is read at any time tells the same number until its next update; what follows from a trace
//! (energy, update period, window) needs the updates and not the reads.
//! Method: a change between two reads brackets an update. Updates keep a grid `phase + k·period`, so each bracket,
//! modulo the period, is an arc that holds the phase, and the arcs of many changes, whatever the rhythm of the reads,
//! narrow it down. A sensor's clock wanders against ours, so each stretch of a few seconds has a phase of its own. Two
//! equal readings in a row are no change and need none: they lie on the grid. Where reads are no more frequent than
//! updates, each read stands for one. A period that is not known is found by going along the changes with each
//! candidate.

/// A sensor's reading, at the update that made it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Update {
    /// When, in s.
    pub time_s: f64,
    /// How far that may be off, in s.
    pub slack_s: f64,
    /// What was told.
    pub value: f64,
}

/// A period of updates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Period {
    pub period_s: f64,
    pub uncertainty_s: f64,
}

/// An update that lies after one time and not after the other.
#[derive(Clone, Copy, Debug)]
struct Bracket {
    after_s: f64,
    by_s: f64,
}

/// What a sensor's clock and a driver's time stamps may be off from the grid, in periods; brackets are wider by that.
pub(crate) const JITTER: f64 = 0.01;
/// Changes that lie further apart, in periods, are not counted along the grid: the error of the period adds up.
const MAX_STEPS: f64 = 20.0;
/// Reads less frequent than this, in periods, miss updates.
const SLOW_READS: f64 = 0.98;
/// A pause between two reads, in the longer of period and usual interval, after which updates are missing.
const PAUSE: f64 = 2.5;
/// Periods that are tried, each so much shorter than the one before.
const PERIOD_STEP: f64 = 0.004;
/// What a change off the grid counts against one on it, in nats.
const MISFIT_COST: f64 = 2.0;
/// What changes must tell on average, in nats, for a period to be believed.
const MIN_EVIDENCE: f64 = 0.15;
/// Periods that have a phase of their own, or the time, in s, if that is longer; it is voted for by their changes and
/// by those half as far again.
const BLOCK: f64 = 64.0;
const BLOCK_S: f64 = 4.0;
/// Fewer changes tell no period.
const MIN_CHANGES: usize = 8;
/// Changes that a period is looked for in; more only cost time.
const MAX_CHANGES: usize = 600;

/// Gives the median interval of reads, in s; 0 for fewer than two.
pub(crate) fn read_interval_s(series: &[(f64, f64)]) -> f64 {
    let gaps = series.windows(2).map(|pair| pair[1].0 - pair[0].0);
    median(gaps.collect()).unwrap_or(0.0)
}

/// Gives the median; of an even number, the upper of the two in the middle.
pub(crate) fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

/// Finds the period of a sensor's updates between two lengths, in s; none if reads are too slow or changes too few.
pub(crate) fn period(series: &[(f64, f64)], shortest_s: f64, longest_s: f64) -> Option<Period> {
    let mut changes = changes(series);
    changes.truncate(MAX_CHANGES);
    let interval_s = read_interval_s(series);
    if changes.len() < MIN_CHANGES || interval_s <= 0.0 {
        return None;
    }
    let shortest_s = shortest_s.max(interval_s / SLOW_READS);
    // Every grid fits if it is fine enough. A change on a grid is worth what it excludes: ln(period / bracket).
    let widths = changes.iter().map(|change| change.by_s - change.after_s);
    let width_s = median(widths.collect())?;
    let (mut best, mut coarse_s, mut candidate_s) = (MIN_EVIDENCE, 0.0, longest_s);
    while candidate_s >= shortest_s {
        let off = misfit(&changes, candidate_s);
        let told = (candidate_s / (width_s + 2.0 * JITTER * candidate_s)).ln();
        let evidence = (1.0 - off) * told - off * MISFIT_COST;
        if evidence > best {
            (best, coarse_s) = (evidence, candidate_s);
        }
        candidate_s *= 1.0 - PERIOD_STEP;
    }
    if coarse_s == 0.0 {
        return None;
    }
    // A period that is a little off breaks stretches, and short stretches tell the period less well.
    let mut found = refined(&changes, coarse_s);
    for _ in 0..2 {
        found = refined(&changes, found.period_s);
    }
    Some(found)
}

/// Gives all updates from the first read to the last, in the order of their times.
pub(crate) fn updates(series: &[(f64, f64)], period_s: f64) -> Vec<Update> {
    let interval_s = read_interval_s(series);
    let mut updates = if interval_s > SLOW_READS * period_s {
        let per_read = |&(time_s, value): &(f64, f64)| Update {
            time_s: time_s - 0.5 * period_s,
            slack_s: 0.5 * period_s,
            value,
        };
        series.iter().map(per_read).collect()
    } else {
        on_grid(series, period_s)
    };
    let longest_s = PAUSE * period_s.max(interval_s);
    for pair in series.windows(2) {
        let (from_s, to_s) = (pair[0].0, pair[1].0);
        if to_s - from_s > longest_s {
            updates.retain(|u| u.time_s <= from_s || u.time_s > to_s - period_s);
        }
    }
    updates
}

fn changes(series: &[(f64, f64)]) -> Vec<Bracket> {
    let changed = |pair: &&[(f64, f64)]| pair[0].1 != pair[1].1;
    let bracket = |pair: &[(f64, f64)]| Bracket {
        after_s: pair[0].0,
        by_s: pair[1].0,
    };
    series.windows(2).filter(changed).map(bracket).collect()
}

/// A stretch of changes that fit one grid: how many periods after its first each change came, and the phase.
struct Stretch {
    first: usize,
    steps: Vec<f64>,
    phase: Phase,
}

/// How far along its grid a stretch is, and between which times its first update was.
#[derive(Clone, Copy)]
struct Phase {
    step: f64,
    low_s: f64,
    high_s: f64,
}

impl Phase {
    fn start(change: &Bracket, jitter_s: f64) -> Self {
        Self {
            step: 0.0,
            low_s: change.after_s - jitter_s,
            high_s: change.by_s + jitter_s,
        }
    }

    /// Goes on to the next change; none if it is not on the grid, or too far away.
    fn next(self, change: &Bracket, period_s: f64, jitter_s: f64) -> Option<Self> {
        let since_s = 0.5 * (change.after_s + change.by_s) - 0.5 * (self.low_s + self.high_s);
        let step = (since_s / period_s).round().max(self.step + 1.0);
        let low_s = self.low_s.max(change.after_s - jitter_s - step * period_s);
        let high_s = self.high_s.min(change.by_s + jitter_s - step * period_s);
        let is_on_grid = step - self.step <= MAX_STEPS && low_s <= high_s;
        is_on_grid.then_some(Self {
            step,
            low_s,
            high_s,
        })
    }
}

/// Divides changes into stretches.
fn stretches(changes: &[Bracket], period_s: f64) -> Vec<Stretch> {
    let jitter_s = JITTER * period_s;
    let mut stretches: Vec<Stretch> = vec![];
    for (first, change) in changes.iter().enumerate() {
        if let Some(stretch) = stretches.last_mut()
            && let Some(phase) = stretch.phase.next(change, period_s, jitter_s)
        {
            stretch.steps.push(phase.step);
            stretch.phase = phase;
            continue;
        }
        stretches.push(Stretch {
            first,
            steps: vec![0.0],
            phase: Phase::start(change, jitter_s),
        });
    }
    stretches
}

/// Gives the share of changes that begin a new stretch, 0 to 1. A long pause begins one with any period.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn misfit(changes: &[Bracket], period_s: f64) -> f64 {
    let jitter_s = JITTER * period_s;
    let (mut off, mut phase) = (0_usize, Phase::start(&changes[0], jitter_s));
    for pair in changes.windows(2) {
        phase = phase.next(&pair[1], period_s, jitter_s).unwrap_or_else(|| {
            off += usize::from(pair[1].by_s - pair[0].after_s < MAX_STEPS * period_s);
            Phase::start(&pair[1], jitter_s)
        });
    }
    off as f64 / changes.len() as f64
}

/// Fits the period to the middles of the brackets, by the count of periods within each stretch.
fn refined(changes: &[Bracket], coarse_s: f64) -> Period {
    let middle_s = |i: usize| 0.5 * (changes[i].after_s + changes[i].by_s);
    let (mut products, mut squares, mut residuals, mut n) = (0.0, 0.0, 0.0, 0.0);
    let mut longest = 1.0_f64;
    for stretch in stretches(changes, coarse_s) {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let length = stretch.steps.len() as f64;
        let times: Vec<f64> = (stretch.first..)
            .map(middle_s)
            .take(stretch.steps.len())
            .collect();
        let mean_step = stretch.steps.iter().sum::<f64>() / length;
        let mean_time = times.iter().sum::<f64>() / length;
        longest = longest.max(stretch.steps[stretch.steps.len() - 1]);
        for (step, time) in stretch.steps.iter().zip(&times) {
            products += (step - mean_step) * (time - mean_time);
            squares += (step - mean_step).powi(2);
            residuals += (time - mean_time - coarse_s * (step - mean_step)).powi(2);
            n += 1.0;
        }
    }
    if squares <= 0.0 {
        return Period {
            period_s: coarse_s,
            uncertainty_s: coarse_s,
        };
    }
    let period_s = products / squares;
    let widest_s = changes
        .iter()
        .map(|c| c.by_s - c.after_s)
        .fold(0.0, f64::max);
    let scatter_s = (residuals / n).sqrt().max(widest_s / 12.0_f64.sqrt());
    Period {
        period_s,
        // Reads in step with the updates are off alike, which no number of them averages out.
        uncertainty_s: 2.0 * scatter_s / squares.sqrt()
            + (widest_s + 2.0 * JITTER * coarse_s) / longest,
    }
}

/// Gives the updates of reads that are more frequent.
fn on_grid(series: &[(f64, f64)], period_s: f64) -> Vec<Update> {
    let (Some(&first), Some(&last)) = (series.first(), series.last()) else {
        return vec![];
    };
    let changes = changes(series);
    let reach_s = f64::max(BLOCK * period_s, BLOCK_S);
    let mut updates: Vec<Update> = vec![];
    let mut next_read = 0;
    let (mut start_s, mut phase) = (first.0, (first.0 - 0.5 * period_s, 0.5 * period_s));
    while start_s <= last.0 {
        let end_s = start_s + reach_s;
        let from = changes.partition_point(|c| c.by_s < start_s - 0.5 * reach_s);
        let to = changes.partition_point(|c| c.after_s < end_s + 0.5 * reach_s);
        phase = vote(&changes[from..to], period_s).unwrap_or(phase);
        let (phase_s, slack_s) = phase;
        // The newest update at the first read was up to a period before.
        let at_least_s = updates
            .last()
            .map_or(first.0 - period_s, |u| u.time_s + 0.5 * period_s);
        let mut time_s = phase_s + ((at_least_s - phase_s) / period_s).ceil() * period_s;
        while time_s <= end_s.min(last.0) {
            let middle_s = time_s + 0.5 * period_s;
            while next_read + 1 < series.len()
                && (series[next_read + 1].0 - middle_s).abs()
                    <= (series[next_read].0 - middle_s).abs()
            {
                next_read += 1;
            }
            updates.push(Update {
                time_s,
                slack_s,
                value: series[next_read].1,
            });
            time_s += period_s;
        }
        start_s = end_s;
    }
    updates
}

/// Finds the phase that most brackets have an update at, and how far it may be off; none without changes.
///
/// Each bracket holds an update, so, modulo the period, it is an arc that holds the phase.
fn vote(changes: &[Bracket], period_s: f64) -> Option<(f64, f64)> {
    let origin_s = changes.first()?.after_s;
    let jitter_s = JITTER * period_s;
    let mut edges = vec![];
    let mut votes = 0;
    for change in changes {
        let width_s = change.by_s - change.after_s + 2.0 * jitter_s;
        if width_s >= period_s {
            continue;
        }
        let start_s = (change.after_s - jitter_s - origin_s).rem_euclid(period_s);
        let end_s = (start_s + width_s).rem_euclid(period_s);
        votes += i32::from(end_s < start_s);
        edges.extend([(start_s, 1), (end_s, -1)]);
    }
    // Where one arc ends and another begins, both hold.
    edges.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let (mut most, mut best_s, mut width_s) = (0, 0.0, -1.0);
    for (i, &(from_s, change)) in edges.iter().enumerate() {
        votes += change;
        let to_s = edges
            .get(i + 1)
            .map_or(edges[0].0 + period_s, |next| next.0);
        if (votes, to_s - from_s) > (most, width_s) {
            (most, best_s, width_s) = (votes, 0.5 * (from_s + to_s), to_s - from_s);
        }
    }
    (most > 0).then_some((origin_s + best_s, 0.5 * width_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Program, Sensor};

    fn read(sensor: &Sensor, program: &Program, every_s: f64, until_s: f64) -> Vec<(f64, f64)> {
        let mut series = vec![];
        let mut time_s = 0.0;
        while time_s < until_s {
            series.push((time_s, sensor.told_w(program, time_s)));
            time_s += every_s;
        }
        series
    }

    #[test]
    fn reads_in_any_rhythm_find_the_grid() {
        let program = Program::square(50.0, 250.0, 0.104, 0.5);
        let sensor = Sensor {
            update_s: 0.1,
            window_s: 0.1,
            phase_s: 0.0371,
            gain: 1.0,
        };
        for every_s in [0.007, 0.0133, 0.031, 0.0667, 0.08] {
            let series = read(&sensor, &program, every_s, 20.0);
            let found = updates(&series, 0.1);
            assert!(
                (199..=202).contains(&found.len()),
                "{every_s}: {}",
                found.len()
            );
            for update in &found[2..found.len() - 1] {
                let true_s = sensor.updated_s(update.time_s + 0.05);
                let off_s = (update.time_s - true_s).abs();
                assert!(
                    off_s <= update.slack_s + 1e-9,
                    "{every_s}: {update:?} {true_s}"
                );
                assert!(update.slack_s < 0.02, "{every_s}: {update:?}");
                assert_eq!(update.value, sensor.told_w(&program, true_s + 1e-9));
            }
        }
    }

    #[test]
    fn a_constant_has_updates_but_no_period() {
        let series: Vec<_> = (0..200).map(|i| (f64::from(i) * 0.01, 80.0)).collect();
        assert_eq!(period(&series, 0.005, 1.0), None);
        let found = updates(&series, 0.1);
        assert!((20..=21).contains(&found.len()), "{}", found.len());
        assert!(
            found
                .iter()
                .all(|update| (update.value - 80.0).abs() < 1e-9)
        );
    }

    #[test]
    fn a_pause_of_the_reads_leaves_updates_out() {
        let ramp = Program::square(0.0, 1.0, 0.37, 0.4);
        let mut series = read(&Sensor::of(crate::SensorClass::FullTime), &ramp, 0.01, 6.0);
        series.retain(|&(time_s, _)| !(2.0..4.0).contains(&time_s));
        let found = updates(&series, 0.1);
        assert!(found.iter().all(|u| u.time_s < 2.05 || u.time_s > 3.85));
    }
}
