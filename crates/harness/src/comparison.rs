//! Display form of a record: one comparison per workload and size, with the rivals as lines next to
//! the variants.
//!
//! Role: the terminal table and all parts of the report are made from these lines, so they agree on
//! the set of variants, the rates of the rivals, and the times of lines that did a part of the
//! work.
//! Method: comparisons keep the order of first appearance in the record. Within a comparison our
//! variants keep their order, CPU before adapters; rivals come last. A rival that was measured
//! against several variants is one line with all comparisons. Times of a line that did a part of
//! the work are scaled to the whole, and the line is marked as scaled.

use crate::record::{AdapterPeaks, Check, Machine, Record, RivalTiming, Row, Timer};
use charts::units;
use charts::{Figure, Ink};

/// All lines of one workload at one size.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Name of the workload.
    pub workload: String,
    /// Size as one word.
    pub size: String,
    /// Id of the document that the workload comes from; [`crate::sources`] has the titles.
    pub source: String,
    /// Unit of every rate in this comparison, without a prefix: `FLOP/s`; empty if no row has a
    /// rate.
    pub rate_unit: String,
    /// Lines in display order.
    pub contestants: Vec<Contestant>,
    /// Figure of the result, if the workload has one.
    pub figure: Option<Figure>,
}

/// One line of a comparison: a variant or a rival.
#[derive(Clone, Debug)]
pub struct Contestant {
    /// Name of the executor, or of the rival with its version.
    pub name: String,
    /// Place where the work of the line ran.
    pub place: Place,
    /// Outcome of the comparison of the result with the oracle.
    pub check: Check,
    /// Median, first and third quartile, in seconds, for the whole work.
    pub time: Option<[f64; 3]>,
    /// Median time by the host's clock, in seconds, for the whole work; absent if only the device's
    /// timer measured the work.
    pub wall_s: Option<f64>,
    /// Whether the line did a part of the work, and its times are scaled to the whole.
    pub is_scaled: bool,
    /// Median time of each round, in seconds, for the whole work; empty if it was timed once.
    pub rounds: Vec<f64>,
    /// Time of the first call in seconds.
    pub first_call_s: Option<f64>,
    /// Work per second, in the comparison's `rate_unit`.
    pub rate: Option<f64>,
    /// Rate divided by the rate of the first variant.
    pub speedup_over_first: Option<f64>,
    /// Fraction of the device's measured peak.
    pub share_of_peak: Option<f64>,
    /// Bytes of inputs and outputs per second, in 10⁹ bytes.
    pub gb_per_s: Option<f64>,
    /// Peak memory held in addition to inputs and result, in bytes.
    pub peak_extra_bytes: Option<u64>,
    /// Energy of one run in joules, and its error interval if it is known.
    pub energy: Option<(f64, Option<[f64; 2]>)>,
    /// Arithmetic intensity of the whole work, in operations per byte.
    pub intensity: Option<f64>,
    /// Training losses, `loss_stride` steps apart, all finite; empty without a training or if the
    /// check failed.
    pub losses: Vec<f32>,
    /// Steps from one loss to the next, at least 1.
    pub loss_stride: usize,
    /// Fraction of the test data that the trained net classifies correctly.
    pub accuracy: Option<f32>,
    /// Remark shown next to the numbers.
    pub note: String,
}

/// Place where the work of a line ran: this project on the CPU or on an adapter, or another
/// library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// This project, on the CPU.
    Cpu,
    /// This project, on the adapter of that name.
    Adapter(String),
    /// Another library.
    Rival,
}

impl Place {
    /// Returns the colour of a place. The hue of an adapter depends on its position in `adapters`.
    pub(crate) fn ink(&self, adapters: &[String]) -> Ink {
        match self {
            Self::Cpu => Ink::Cpu,
            Self::Rival => Ink::Rival,
            Self::Adapter(name) => {
                let position = adapters.iter().position(|adapter| adapter == name);
                Ink::adapter(position.unwrap_or(0))
            }
        }
    }

    /// Returns the heading above the lines of this place.
    #[must_use]
    pub fn heading(&self) -> &str {
        match self {
            Self::Cpu => "CPU",
            Self::Adapter(name) => name,
            Self::Rival => "other libraries",
        }
    }

    fn rank(&self) -> usize {
        match self {
            Self::Cpu => 0,
            Self::Adapter(_) => 1,
            Self::Rival => 2,
        }
    }
}

impl Contestant {
    /// Returns the reason if the check failed.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        match &self.check {
            Check::Failed(why) => Some(why),
            _ => None,
        }
    }

    /// Returns the complete remark: the reason if the check did not pass, the accuracy of a trained
    /// net, and the note.
    #[must_use]
    pub fn remark(&self) -> String {
        let outcome = match &self.check {
            Check::Ok => String::new(),
            Check::Skipped(why) if self.time.is_none() => format!("not run: {why}"),
            Check::Skipped(why) => format!("not checked: {why}"),
            Check::Failed(why) => why.clone(),
        };
        let accuracy = self.accuracy.map_or(String::new(), |accuracy| {
            format!("test accuracy {}", units::percent(accuracy.into()))
        });
        joined(joined(outcome, &accuracy), &self.note)
    }
}

impl Comparison {
    /// Returns the variant of this project that passed its check and is the fastest by the host's
    /// clock, with its time in seconds.
    #[must_use]
    pub fn our_fastest(&self) -> Option<(f64, &Contestant)> {
        let contestants = self.contestants.iter();
        let passed =
            contestants.filter(|line| line.place != Place::Rival && line.check == Check::Ok);
        passed
            .filter_map(|line| Some((line.wall_s?, line)))
            .min_by(|(one, _), (other, _)| one.total_cmp(other))
    }
}

/// Groups the rows of a record into comparisons.
#[must_use]
pub fn comparisons(record: &Record) -> Vec<Comparison> {
    let mut comparisons: Vec<(Comparison, Vec<&Row>)> = Vec::new();
    for row in &record.rows {
        let same = |comparison: &Comparison| {
            comparison.workload == row.workload && comparison.size == row.size
        };
        match comparisons
            .iter_mut()
            .find(|(comparison, _)| same(comparison))
        {
            Some((comparison, rows)) => {
                if comparison.rate_unit.is_empty() {
                    comparison.rate_unit = units::split_prefix(&row.rate_unit).1.to_owned();
                }
                rows.push(row);
            }
            None => comparisons.push((empty_comparison(row), vec![row])),
        }
    }
    let filled = comparisons
        .into_iter()
        .map(|(comparison, rows)| Comparison {
            contestants: lines(&rows),
            figure: rows.iter().find_map(|row| row.figure.clone()),
            ..comparison
        });
    filled.collect()
}

fn empty_comparison(row: &Row) -> Comparison {
    Comparison {
        workload: row.workload.clone(),
        size: row.size.clone(),
        source: row.source.clone(),
        rate_unit: units::split_prefix(&row.rate_unit).1.to_owned(),
        contestants: Vec::new(),
        figure: None,
    }
}

fn lines(rows: &[&Row]) -> Vec<Contestant> {
    let mut lines: Vec<Contestant> = rows.iter().map(|row| our_line(row)).collect();
    for row in rows {
        for (name, timing) in &row.rivals {
            let line = rival_line(row, name, timing);
            // A rival that was measured against several variants becomes one line with all
            // comparisons.
            match lines
                .iter_mut()
                .find(|seen| seen.place == Place::Rival && seen.name == line.name)
            {
                Some(seen) => seen.note = joined(std::mem::take(&mut seen.note), &line.note),
                None => lines.push(Contestant {
                    note: joined(timing.note.clone(), &line.note),
                    ..line
                }),
            }
        }
    }
    lines.sort_by_key(|line| line.place.rank());
    // A line that does a part of the work reads all shared inputs for the part, so its intensity is
    // lower than that of the whole work, at which its scaled time is shown.
    let whole = lines.iter().filter_map(|line| line.intensity);
    let whole = whole.max_by(f64::total_cmp);
    for line in lines.iter_mut().filter(|line| line.is_scaled) {
        line.intensity = line.intensity.and(whole);
    }
    lines
}

fn our_line(row: &Row) -> Contestant {
    let share = row.share_of_work.unwrap_or(1.0);
    Contestant {
        name: row.executor.clone(),
        place: row.adapter.clone().map_or(Place::Cpu, Place::Adapter),
        check: row.check.clone(),
        time: interval([row.median_s, row.low_s, row.high_s], share),
        wall_s: positive(match row.timer {
            Timer::Wall => row.median_s,
            _ => row.wall_s,
        })
        .map(|median| row.of_whole(median)),
        is_scaled: row.share_of_work.is_some(),
        rounds: row.whole_rounds_s(),
        first_call_s: positive(row.first_call_s),
        rate: base_rate(row.rate, &row.rate_unit),
        speedup_over_first: positive(row.speedup_over_first),
        share_of_peak: positive(row.share_of_peak),
        gb_per_s: positive(row.gb_per_s),
        peak_extra_bytes: row.peak_extra_bytes,
        energy: positive(row.energy_j).map(|joules| {
            (
                joules / share,
                row.energy_interval_j
                    .map(|ends| ends.map(|end| end / share)),
            )
        }),
        intensity: intensity(row),
        losses: row.losses.clone(),
        loss_stride: row.loss_stride.unwrap_or(1).max(1),
        accuracy: row.accuracy,
        note: joined(row.note.clone(), &around(row)),
    }
}

fn rival_line(row: &Row, name: &str, timing: &RivalTiming) -> Contestant {
    let share = timing.share_of_work.unwrap_or(1.0);
    Contestant {
        name: format!("{name} {}", timing.version).trim().to_owned(),
        place: Place::Rival,
        check: timing.check.clone(),
        time: interval([timing.median_s, timing.low_s, timing.high_s], share),
        wall_s: positive(timing.median_s).map(|median| median / share),
        is_scaled: timing.share_of_work.is_some(),
        rounds: timing.rounds_s.iter().map(|round| round / share).collect(),
        first_call_s: positive(timing.first_call_s),
        rate: base_rate(timing.rate, &row.rate_unit),
        speedup_over_first: positive(timing.speedup_over_first),
        share_of_peak: positive(timing.share_of_peak),
        gb_per_s: positive(timing.gb_per_s),
        peak_extra_bytes: timing.peak_extra_bytes,
        energy: positive(timing.energy_j).map(|joules| (joules / share, None)),
        intensity: intensity_of(base_rate(timing.rate, &row.rate_unit), timing.gb_per_s),
        losses: timing.losses.clone(),
        loss_stride: timing.loss_stride.unwrap_or(1).max(1),
        accuracy: timing.accuracy,
        note: comparison(&row.executor, timing),
    }
}

/// Describes the speed of our executor relative to a rival's: `gemm runs at 0.97× its speed
/// (0.95–0.99)`.
fn comparison(executor: &str, timing: &RivalTiming) -> String {
    let Some(speedup) = positive(timing.speedup) else {
        return String::new();
    };
    let interval = positive(timing.low).zip(positive(timing.high));
    let interval = interval.map_or(String::new(), |(low, high)| {
        format!(" ({})", units::range([low, high]))
    });
    format!(
        "{executor} runs at {} its speed{interval}",
        units::times(speedup)
    )
}

/// Returns a rate in its unit without a prefix.
fn base_rate(rate: Option<f64>, unit: &str) -> Option<f64> {
    Some(units::split_prefix(unit).0 * positive(rate)?)
}

/// Returns operations per byte, from operations per second and 10⁹ bytes per second.
fn intensity_of(rate: Option<f64>, gb_per_s: Option<f64>) -> Option<f64> {
    Some(rate? / (1e9 * positive(gb_per_s)?))
}

fn intensity(row: &Row) -> Option<f64> {
    Some(positive(row.operations)? / positive(row.bytes)?)
}

/// Describes the times of a run that the device's own timer does not cover (end to end, upload,
/// read-back).
fn around(row: &Row) -> String {
    let parts = [
        ("end to end", row.wall_s),
        ("upload", row.upload_s),
        ("read-back", row.read_back_s),
    ];
    let known = parts
        .into_iter()
        .filter_map(|(what, seconds)| Some((what, row.of_whole(positive(seconds)?))));
    let times = known.map(|(what, seconds)| format!("{what} {}", units::seconds(seconds)));
    times.collect::<Vec<_>>().join(", ")
}

/// Returns median and quartiles of the whole work, from those of a share of it; a missing quartile
/// is replaced by the median.
fn interval([median, low, high]: [Option<f64>; 3], share: f64) -> Option<[f64; 3]> {
    let median = positive(median)?;
    let [low, high] = [low, high].map(|end| positive(end).unwrap_or(median));
    Some([median, low, high].map(|time| time / share))
}

/// Joins two remarks with a semicolon; either may be empty.
pub(crate) fn joined(first: String, second: &str) -> String {
    match (first.is_empty(), second.is_empty()) {
        (_, true) => first,
        (true, false) => second.to_owned(),
        (false, false) => format!("{first}; {second}"),
    }
}

/// Drops values that a logarithmic axis cannot show: zero, negative and non-finite ones.
fn positive(value: Option<f64>) -> Option<f64> {
    value.filter(|value| *value > 0.0 && value.is_finite())
}

/// Returns the measured peaks of the CPU and of each adapter, without those that cannot be drawn.
#[must_use]
pub fn peaks(machine: &Machine) -> Vec<(Place, AdapterPeaks)> {
    let peaks = &machine.peaks;
    let cpu = peaks.cpu();
    let adapters = peaks
        .adapters
        .iter()
        .map(|(name, peaks)| (Place::Adapter(name.clone()), *peaks));
    std::iter::once((Place::Cpu, cpu))
        .chain(adapters)
        .map(|(place, peaks)| {
            let drawn = AdapterPeaks {
                flops: positive(peaks.flops),
                copy_bytes_per_s: positive(peaks.copy_bytes_per_s),
                bit_products: positive(peaks.bit_products),
            };
            (place, drawn)
        })
        .filter(|(_, peaks)| peaks.flops.is_some() || peaks.copy_bytes_per_s.is_some())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn lines_stand_cpu_first_then_adapters_then_rivals() {
        for comparison in comparisons(&sample::record()) {
            assert!(
                comparison
                    .contestants
                    .is_sorted_by_key(|line| line.place.rank()),
                "{}",
                comparison.size
            );
        }
    }

    #[test]
    fn a_rival_against_two_variants_stands_once_with_both_comparisons() {
        let timing = RivalTiming {
            median_s: Some(1.0),
            speedup: Some(0.5),
            low: Some(0.4),
            high: Some(0.6),
            ..RivalTiming::default()
        };
        let row = |executor: &str| Row {
            executor: executor.into(),
            median_s: Some(2.0),
            check: Check::Ok,
            rivals: [("torch".to_owned(), timing.clone())].into(),
            ..Row::default()
        };
        let lines = lines(&[&row("loops"), &row("gemm")]);
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[2].note,
            "loops runs at 0.500× its speed (0.400–0.600); gemm runs at 0.500× its speed (0.400–0.600)"
        );
    }

    #[test]
    fn a_failed_variant_is_never_the_fastest() {
        let comparison = |check: Check| {
            let failed = Row {
                check,
                median_s: Some(1.0),
                executor: "wrong".into(),
                ..Row::default()
            };
            let passed = Row {
                median_s: Some(9.0),
                check: Check::Ok,
                executor: "right".into(),
                ..Row::default()
            };
            comparisons(&Record {
                rows: vec![failed, passed],
                ..Record::default()
            })
            .remove(0)
        };
        let fastest = |check| comparison(check).our_fastest().unwrap().1.name.clone();
        assert_eq!(fastest(Check::Failed("off".into())), "right");
        assert_eq!(fastest(Check::Ok), "wrong");
    }

    #[test]
    fn zero_and_nan_are_no_numbers_to_draw() {
        let row = Row {
            median_s: Some(0.0),
            rate: Some(f64::NAN),
            ..Row::default()
        };
        let line = our_line(&row);
        assert!(line.time.is_none() && line.rate.is_none() && line.intensity.is_none());
    }
}
