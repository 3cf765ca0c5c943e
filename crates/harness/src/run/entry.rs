//! A contestant in the rounds of a workload: its check, its turns and its times.

use super::{N_ROUNDS, N_SLOW_ROUNDS};
use crate::curve::Curve;
use crate::energy::{EnergyMeter, RunEnergy, Site};
use crate::findings::Findings;
use crate::measure::{Ratio, Timing};
use crate::record::Check;
use crate::workload::{Extent, Implementation, Output, Workload};
use anyhow::{Context, Result};
use charts::Figure;
use std::time::Instant;

/// Target duration of a turn, in seconds.
const TURN_S: f64 = 0.05;
/// Maximum number of runs in a turn.
const MAX_RUNS_PER_TURN: usize = 200;
/// Number of turns that a single run must exceed for a contestant to count as slow.
const SLOW_TURNS: f64 = 4.0;
/// Longest run that is repeated, in seconds; a longer one is timed once, because rounds of it would
/// take minutes.
const LONGEST_REPEATED_S: f64 = 4.0;

/// A contestant that is ready to take turns.
pub(super) struct ReadyEntry<'a> {
    pub(super) extent: Extent,
    /// The name of a rival; `None` for a variant.
    rival: Option<&'a str>,
    pub(super) check: Check,
    /// Seconds that the start took: allocation and upload of the inputs. Only set if the
    /// contestant's timer is not the host's clock.
    pub(super) upload_s: Option<f64>,
    pub(super) first_call_s: Option<f64>,
    /// Seconds to read the result back, under the same condition.
    pub(super) read_back_s: Option<f64>,
    pub(super) peak_extra_bytes: Option<u64>,
    /// Energy of one run.
    pub(super) energy: Option<RunEnergy>,
    /// Figure drawn from the last checked result.
    pub(super) figure: Option<Figure>,
    /// Named results.
    pub(super) findings: Findings,
    /// Losses and accuracy of a training; empty otherwise.
    pub(super) curve: Curve,
    /// Whether rivals are compared with this contestant, for which its time by the host's clock is
    /// needed.
    compared: bool,
    contestant: Option<Box<dyn Implementation + 'a>>,
    runs_per_turn: usize,
    n_rounds: usize,
    /// Times of each round by the contestant's own timer.
    rounds: Vec<Vec<f64>>,
    /// Times of each round by the host's clock, if that is not its own timer.
    wall_rounds: Vec<Vec<f64>>,
}

impl<'a> ReadyEntry<'a> {
    /// Starts a contestant, runs it for the first time and checks its result. An error in any of
    /// these steps becomes the entry's check.
    pub(super) fn new(
        extent: Extent,
        rival: Option<&'a str>,
        compared: bool,
        start: impl FnOnce() -> Result<Box<dyn Implementation + 'a>>,
        workload: &Workload<'_>,
    ) -> Self {
        let mut entry = Self {
            extent,
            rival,
            check: Check::Ok,
            upload_s: None,
            first_call_s: None,
            read_back_s: None,
            peak_extra_bytes: None,
            energy: None,
            figure: None,
            findings: Findings::default(),
            curve: Curve::default(),
            compared,
            contestant: None,
            runs_per_turn: 0,
            n_rounds: 0,
            rounds: Vec::new(),
            wall_rounds: Vec::new(),
        };
        if let Err(error) = entry.prepare(start, workload) {
            entry.fail(&error);
        }
        entry
    }

    fn prepare(
        &mut self,
        start: impl FnOnce() -> Result<Box<dyn Implementation + 'a>>,
        workload: &Workload<'_>,
    ) -> Result<()> {
        let clock = Instant::now();
        let mut contestant = start()?;
        let upload_s = clock.elapsed().as_secs_f64();
        let clock = Instant::now();
        let first = contestant.run(1)?;
        self.first_call_s = Some(clock.elapsed().as_secs_f64());
        let clock = Instant::now();
        let result = contestant.result()?;
        let read_back_s = clock.elapsed().as_secs_f64();
        self.judge(&result, workload)?;
        self.add_numbers(contestant.numbers());
        if workload.runs_once {
            self.rounds.push(first);
            self.contestant = Some(contestant);
            return Ok(());
        }
        // The duration of the first run is no estimate of later ones, because it may be mostly
        // compilation.
        let second = contestant.run(1)?;
        let seconds = second
            .first()
            .copied()
            .context("run: the contestant reported no time (expected 1)")?;
        let by_host = contestant.wall(1)?;
        if by_host.is_some() {
            self.upload_s = Some(upload_s);
            self.read_back_s = Some(read_back_s);
        }
        if seconds > LONGEST_REPEATED_S {
            self.rounds.push(second);
            self.wall_rounds.extend(by_host.filter(|_| self.compared));
        } else {
            self.peak_extra_bytes = contestant.peak_extra_bytes()?;
            self.runs_per_turn = runs_per_turn(seconds);
            self.n_rounds = if seconds > SLOW_TURNS * TURN_S {
                N_SLOW_ROUNDS
            } else {
                N_ROUNDS
            };
        }
        self.contestant = Some(contestant);
        Ok(())
    }

    /// Compares a result with the oracle, and stores its curve and figure if it is correct.
    fn judge(&mut self, result: &Output, workload: &Workload<'_>) -> Result<()> {
        workload.judge(self.rival, result, self.extent.part)?;
        self.curve = Curve::from_output(result, workload.n_losses);
        if let (Some(findings), true) = (&workload.findings, self.compared) {
            self.findings = findings(result)?;
        }
        self.figure = match &workload.figure {
            Some(figure) if self.compared => Some(figure(result)?),
            _ => None,
        };
        Ok(())
    }

    /// Takes the contestant's turn in a round, unless it has fewer rounds.
    pub(super) fn take_turn(&mut self, round: usize) {
        if round < self.n_rounds
            && let Err(error) = self.try_turn()
        {
            self.fail(&error);
        }
    }

    fn try_turn(&mut self) -> Result<()> {
        let Some(contestant) = &mut self.contestant else {
            return Ok(());
        };
        // The first runs of a turn wake threads that slept during other turns and spread them over
        // the cores, so they are not counted. Runs longer than a turn are hardly affected and need
        // no warm-up.
        let warm_up = self.runs_per_turn / 2;
        let times = warm_up + self.runs_per_turn;
        let without_warm_up = |seconds: Vec<f64>| seconds.into_iter().skip(warm_up).collect();
        self.rounds.push(without_warm_up(contestant.run(times)?));
        if self.compared
            && let Some(seconds) = contestant.wall(times)?
        {
            self.wall_rounds.push(without_warm_up(seconds));
        }
        Ok(())
    }

    /// Runs the contestant under the energy meter, after the rounds.
    pub(super) fn meter(&mut self, meter: &dyn EnergyMeter, site: Site) {
        if self.timing().is_none() {
            return;
        }
        let Some(contestant) = &mut self.contestant else {
            return;
        };
        match meter.measure(contestant.as_mut(), site) {
            Ok(energy) => self.energy = energy,
            Err(error) => self.fail(&error),
        }
    }

    /// Compares the result of the last round with the oracle, because a data race may corrupt a
    /// later run only.
    pub(super) fn check_again(&mut self, workload: &Workload<'_>) {
        let Some(contestant) = &mut self.contestant else {
            return;
        };
        let result = contestant.result();
        let numbers = contestant.numbers();
        let checked = result.and_then(|result| self.judge(&result, workload));
        self.add_numbers(numbers);
        if let Err(error) = checked.context("after the last round") {
            self.fail(&error);
        }
    }

    /// Adds the numbers that a contestant itself reports to the findings.
    fn add_numbers(&mut self, numbers: Vec<(&'static str, f64)>) {
        let finite = numbers.into_iter().filter(|(_, number)| number.is_finite());
        let named = finite.map(|(name, number)| (name.to_owned(), number));
        self.findings.numbers.extend(named);
    }

    /// Marks the contestant as failed and discards all its measurements.
    fn fail(&mut self, error: &anyhow::Error) {
        self.check = Check::Failed(format!("{error:#}"));
        self.contestant = None;
        (self.upload_s, self.first_call_s, self.read_back_s) = (None, None, None);
        (self.peak_extra_bytes, self.energy) = (None, None);
        (self.figure, self.curve) = (None, Curve::default());
        self.findings = Findings::default();
        self.rounds.clear();
        self.wall_rounds.clear();
    }

    /// Returns a remark on its times: "one run" if it was timed once, else empty.
    pub(super) fn note(&self) -> &'static str {
        if self.n_rounds == 0 && !self.rounds.is_empty() {
            "one run"
        } else {
            ""
        }
    }

    /// Returns median and quartiles of all runs by the contestant's own timer, or `None` if it
    /// failed.
    pub(super) fn timing(&self) -> Option<Timing> {
        Timing::from_samples(&self.rounds.concat())
    }

    /// Returns the median time of each round by the contestant's own timer; empty if it was timed
    /// once.
    pub(super) fn round_medians(&self) -> Vec<f64> {
        if self.n_rounds == 0 {
            return Vec::new();
        }
        medians(&self.rounds).collect()
    }

    /// Returns the fraction of the work that a run does, or `None` if a run does all of it.
    pub(super) fn share_of_work(&self) -> Option<f64> {
        let part = self.extent.part;
        (part.rows != part.of).then(|| part.share())
    }

    /// Returns the median by the host's clock, or `None` if that is its own timer.
    pub(super) fn wall_s(&self) -> Option<f64> {
        Timing::from_samples(&self.wall_rounds.concat()).map(|timing| timing.median)
    }

    /// Returns the ratio of this rival's time to that of `ours`, both by the host's clock and
    /// scaled to the whole work.
    pub(super) fn over(&self, ours: &Self) -> Option<Ratio> {
        self.timing().and(ours.timing())?;
        let (ours, theirs) = (ours.wall_medians(), self.wall_medians());
        let n = ours.len().min(theirs.len());
        Ratio::from_pairs(&ours[..n], &theirs[..n])
    }

    /// Returns the median of each round by the host's clock, scaled to the whole work.
    fn wall_medians(&self) -> Vec<f64> {
        let rounds = if self.wall_rounds.is_empty() {
            &self.rounds
        } else {
            &self.wall_rounds
        };
        medians(rounds)
            .map(|median| median / self.extent.part.share())
            .collect()
    }
}

/// Returns the median of each round.
fn medians(rounds: &[Vec<f64>]) -> impl Iterator<Item = f64> {
    let timings = rounds
        .iter()
        .filter_map(|round| Timing::from_samples(round));
    timings.map(|timing| timing.median)
}

fn runs_per_turn(seconds: f64) -> usize {
    let runs = (TURN_S / seconds.max(1e-9)).clamp(1.0, MAX_RUNS_PER_TURN as f64);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 1..=200 above"
    )]
    let runs = runs as usize;
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Extent, OutputElement};
    use crate::workload::{Portion, Work};
    use anyhow::bail;
    use tensor_core::compare::{Tolerance, compare};

    /// A contestant that returns given times and a given result. It fails after `lasts` runs, and
    /// its result is wrong once fewer than `spoils` runs are left.
    struct Fake {
        seconds: f64,
        result: f32,
        lasts: usize,
        spoils: usize,
    }

    impl Implementation for Fake {
        fn run(&mut self, times: usize) -> Result<Vec<f64>> {
            if times > self.lasts {
                bail!("it broke");
            }
            self.lasts -= times;
            Ok(vec![self.seconds; times])
        }

        fn result(&mut self) -> Result<Output> {
            let spoilt = self.lasts < self.spoils;
            Ok(Output::F32(vec![if spoilt { -1.0 } else { self.result }]))
        }
    }

    fn enter(
        seconds: f64,
        result: f32,
        [lasts, spoils]: [usize; 2],
        share: usize,
    ) -> ReadyEntry<'static> {
        let whole = Extent {
            part: Portion::whole(10),
            work: Work::Operations(1.0),
            bytes: 1.0,
        };
        let workload = Workload::new(whole, |result, _| {
            compare(f32::from_output(result)?, [4.0_f32], &Tolerance::exact())?;
            Ok(())
        })
        .with_losses(1);
        let start = || {
            Ok(Box::new(Fake {
                seconds,
                result,
                lasts,
                spoils,
            }) as Box<dyn Implementation>)
        };
        let part = Portion {
            rows: share,
            of: 10,
        };
        let mut entry = ReadyEntry::new(Extent { part, ..whole }, None, true, start, &workload);
        for round in 0..N_ROUNDS {
            entry.take_turn(round);
        }
        entry.check_again(&workload);
        entry
    }

    #[test]
    fn a_wrong_result_has_no_time() {
        let entry = enter(0.01, 5.0, [1000, 0], 10);
        assert!(
            matches!(&entry.check, Check::Failed(why) if why.contains('5')),
            "{:?}",
            entry.check
        );
        assert_eq!(entry.timing(), None);
    }

    #[test]
    fn a_result_that_goes_wrong_while_it_is_timed_has_no_time() {
        let entry = enter(0.01, 4.0, [1000, 990], 10);
        assert_eq!((entry.first_call_s, entry.wall_s()), (None, None));
        assert!(
            matches!(&entry.check, Check::Failed(why) if why.starts_with("after the last round")),
            "{:?}",
            entry.check
        );
        assert_eq!(entry.timing(), None);
    }

    #[test]
    fn a_contestant_that_breaks_in_mid_round_has_no_time() {
        let entry = enter(0.01, 4.0, [20, 0], 10);
        assert_eq!(entry.check, Check::Failed("it broke".to_owned()));
        assert_eq!(entry.timing(), None);
    }

    #[test]
    fn what_takes_several_seconds_is_timed_once_and_has_no_interval() {
        // The contestant allows two runs only; a third one would fail the check.
        let (long, fast) = (enter(5.0, 4.0, [2, 0], 10), enter(0.5, 4.0, [1000, 0], 10));
        assert_eq!((&long.check, long.note()), (&Check::Ok, "one run"));
        let timing = long.timing().unwrap();
        assert_eq!((timing.median, timing.spread()), (5.0, None));
        let ratio = long.over(&fast).unwrap();
        assert_eq!((ratio.median, ratio.interval), (10.0, None));
        assert_eq!(fast.note(), "");
    }

    #[test]
    fn only_a_result_that_passed_keeps_its_losses() {
        let passed = enter(0.01, 4.0, [1000, 0], 10);
        assert_eq!(passed.curve.losses, [4.0]);
        let spoilt = enter(0.01, 4.0, [1000, 990], 10);
        assert_eq!(spoilt.curve, Curve::default());
    }

    #[test]
    fn slow_contestants_sit_out_and_ratios_are_for_the_whole_work() {
        let (slow, fast) = (
            enter(1.0, 4.0, [1000, 0], 10),
            enter(0.01, 4.0, [1000, 0], 1),
        );
        assert_eq!(
            (slow.rounds.len(), fast.rounds.len()),
            (N_SLOW_ROUNDS, N_ROUNDS)
        );
        // A tenth of the work in 0.01 s means the whole in 0.1 s.
        let ratio = slow.over(&fast).unwrap();
        assert!(
            (ratio.median - 10.0).abs() < 1e-9 && ratio.n == N_SLOW_ROUNDS,
            "{ratio:?}"
        );
    }
}
