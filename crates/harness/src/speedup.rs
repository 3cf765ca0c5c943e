//! Our speed-up over the best rival in each comparison, and the tally of decisions.
//!
//! Role: the first answer of the report, of the terminal table and of the README: faster, slower or
//! undecided.
//! Method: of the rivals that passed the check, the one with the smallest speed-up is the best. Of
//! the executors that users run, the one with the largest speed-up over its best rival counts. A
//! ratio decides nothing if its interval contains 1, or if it has no interval because one of the
//! two was timed once.

use std::fmt;

use charts::Ink;

use crate::record::{Check, Record, RivalTiming, Row};

/// Speed-up of our best executor over the best rival, for one workload at one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Speedup<'r> {
    /// Row of our executor.
    pub row: &'r Row,
    /// Name of the rival.
    pub rival: &'r str,
    /// Measurements of the rival.
    pub timing: &'r RivalTiming,
    /// Rival's time divided by ours.
    pub ratio: f64,
    /// Interval of the ratio.
    pub interval: Option<[f64; 2]>,
}

/// Meaning of a ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The whole interval is above 1.
    Faster,
    /// The whole interval is below 1.
    Slower,
    /// The interval contains 1, or there is no interval.
    Undecided,
}

/// Numbers of decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of comparisons in which we are faster.
    pub faster: usize,
    /// Number of comparisons in which we are slower.
    pub slower: usize,
    /// Number of undecided comparisons.
    pub undecided: usize,
}

impl Decision {
    /// Returns the decision on a ratio, from its interval.
    #[must_use]
    pub fn from_interval(interval: Option<[f64; 2]>) -> Self {
        match interval {
            Some([low, _]) if low > 1.0 => Self::Faster,
            Some([_, high]) if high < 1.0 => Self::Slower,
            _ => Self::Undecided,
        }
    }

    /// Returns the colour of the decision.
    #[must_use]
    pub fn ink(self) -> Ink {
        match self {
            Self::Faster => Ink::Faster,
            Self::Slower => Ink::Slower,
            Self::Undecided => Ink::Muted,
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Undecided => "undecided",
        })
    }
}

impl Speedup<'_> {
    /// Returns whether we are faster or slower.
    #[must_use]
    pub fn decision(&self) -> Decision {
        Decision::from_interval(self.interval)
    }
}

/// Returns the interval of a rival's ratio, if it has one.
#[must_use]
pub fn interval(timing: &RivalTiming) -> Option<[f64; 2]> {
    Some([timing.low?, timing.high?])
}

/// Returns the speed-up of each comparison that has a rival, in the order of the record.
#[must_use]
pub fn speedups(record: &Record) -> Vec<Speedup<'_>> {
    let mut found: Vec<Speedup<'_>> = Vec::new();
    let rows = record.rows.iter().filter(|row| row.is_user_executor());
    for speedup in rows.filter_map(over_best_rival) {
        let (workload, size) = (&speedup.row.workload, &speedup.row.size);
        let mut seen = found.iter_mut();
        match seen.find(|seen| seen.row.workload == *workload && seen.row.size == *size) {
            Some(seen) if seen.ratio < speedup.ratio => *seen = speedup,
            Some(_) => {}
            None => found.push(speedup),
        }
    }
    found
}

/// Groups speed-ups by workload. A group begins with its largest ratio; the first group has the
/// largest median.
#[must_use]
pub fn by_workload<'s, 'r>(found: &'s [Speedup<'r>]) -> Vec<Vec<&'s Speedup<'r>>> {
    let mut groups: Vec<Vec<&Speedup<'_>>> = Vec::new();
    for speedup in found {
        let workload = &speedup.row.workload;
        let mut known = groups.iter_mut();
        match known.find(|group| group[0].row.workload == *workload) {
            Some(group) => group.push(speedup),
            None => groups.push(vec![speedup]),
        }
    }
    for group in &mut groups {
        group.sort_by(|one, other| other.ratio.total_cmp(&one.ratio));
    }
    groups.sort_by(|one, other| median(other).total_cmp(&median(one)));
    groups
}

/// Returns the median of the ratios of a group, which is sorted; of the two in the middle, the
/// geometric mean.
#[must_use]
pub fn median(group: &[&Speedup<'_>]) -> f64 {
    let (lower, upper) = (
        group[group.len() / 2].ratio,
        group[(group.len() - 1) / 2].ratio,
    );
    (lower * upper).sqrt()
}

/// Returns the names of the rivals of a group, each once.
#[must_use]
pub fn rivals<'r>(group: &[&Speedup<'r>]) -> Vec<&'r str> {
    let mut rivals: Vec<&str> = group.iter().map(|speedup| speedup.rival).collect();
    rivals.sort_unstable();
    rivals.dedup();
    rivals
}

/// Returns the speed-up of a row over its best rival.
fn over_best_rival(row: &Row) -> Option<Speedup<'_>> {
    if row.check != Check::Ok {
        return None;
    }
    let rivals = row
        .rivals
        .iter()
        .filter(|(_, rival)| rival.check == Check::Ok);
    let ratios = rivals.filter_map(|(name, timing)| {
        let ratio = timing
            .speedup
            .filter(|ratio| *ratio > 0.0 && ratio.is_finite())?;
        Some(Speedup {
            row,
            rival: name,
            timing,
            ratio,
            interval: interval(timing),
        })
    });
    ratios.min_by(|one, other| one.ratio.total_cmp(&other.ratio))
}

impl Tally {
    /// Counts the decisions.
    #[must_use]
    pub fn count(decisions: impl IntoIterator<Item = Decision>) -> Self {
        let mut tally = Self::default();
        for decision in decisions {
            *match decision {
                Decision::Faster => &mut tally.faster,
                Decision::Slower => &mut tally.slower,
                Decision::Undecided => &mut tally.undecided,
            } += 1;
        }
        tally
    }

    /// Returns the number of all decisions.
    #[must_use]
    pub fn total(self) -> usize {
        self.faster + self.slower + self.undecided
    }
}

/// Formats the tally as a phrase: `faster in 25 of 32, slower in 2, undecided in 5`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            faster,
            slower,
            undecided,
        } = self;
        let total = self.total();
        write!(
            f,
            "faster in {faster} of {total}, slower in {slower}, undecided in {undecided}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rival(ratio: f64, interval: Option<[f64; 2]>, check: Check) -> RivalTiming {
        RivalTiming {
            check,
            speedup: Some(ratio),
            low: interval.map(|ends| ends[0]),
            high: interval.map(|ends| ends[1]),
            ..RivalTiming::default()
        }
    }

    fn row<const N: usize>(executor: &str, rivals: [(&str, RivalTiming); N]) -> Row {
        Row {
            workload: "chain".into(),
            executor: executor.into(),
            check: Check::Ok,
            rivals: rivals
                .map(|(name, timing)| (name.to_owned(), timing))
                .into(),
            ..Row::default()
        }
    }

    #[test]
    fn the_best_rival_is_compared_with_our_best_executor() {
        let ok = |ratio, low, high| rival(ratio, Some([low, high]), Check::Ok);
        let wrong = rival(0.01, Some([0.01, 0.02]), Check::Failed("off".into()));
        let rows = vec![
            row("loops", [("numpy", ok(90.0, 80.0, 99.0))]),
            row(
                "host",
                [
                    ("numpy", ok(3.0, 2.0, 4.0)),
                    ("jax", ok(0.5, 0.4, 0.6)),
                    ("wrong", wrong),
                ],
            ),
            row(
                "wgsl",
                [("numpy", ok(5.0, 4.0, 6.0)), ("jax", ok(1.1, 0.9, 1.2))],
            ),
        ];
        let record = Record {
            rows,
            ..Record::default()
        };
        let found = speedups(&record);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].rival, found[0].row.executor.as_str()),
            ("jax", "wgsl")
        );
        assert_eq!(found[0].decision(), Decision::Undecided);
    }

    #[test]
    fn an_interval_with_1_and_no_interval_decide_nothing() {
        for (interval, decision) in [
            (Some([1.01, 3.0]), Decision::Faster),
            (Some([0.1, 0.99]), Decision::Slower),
            (Some([1.0, 3.0]), Decision::Undecided),
            (Some([0.9, 3.0]), Decision::Undecided),
            (Some([f64::NAN, f64::NAN]), Decision::Undecided),
            (None, Decision::Undecided),
        ] {
            assert_eq!(Decision::from_interval(interval), decision);
        }
        let tally = Tally::count([Decision::Faster, Decision::Undecided, Decision::Faster]);
        let text = "faster in 2 of 3, slower in 0, undecided in 1";
        assert_eq!(tally.to_string(), text);
    }

    #[test]
    fn results_that_failed_or_lack_a_ratio_are_not_compared() {
        let no_ratio = RivalTiming {
            check: Check::Ok,
            ..RivalTiming::default()
        };
        let mut failed = row("host", [("jax", rival(2.0, None, Check::Ok))]);
        failed.check = Check::Failed("off".into());
        let rows = vec![row("host", [("numpy", no_ratio)]), failed];
        let record = Record {
            rows,
            ..Record::default()
        };
        assert!(speedups(&record).is_empty());
    }
}
