//! Times workloads: every contestant is checked first, then all take turns.
//!
//! Role: turns a [`Workload`] into rows of a record, for the bench command.
//! Method: a contestant's first run is timed apart, since it pays for compilation; then its result is compared with
//! the oracle, and a wrong one is never timed. The others run in rounds, each a few times a turn, so that what
//! disturbs the machine disturbs all of them; a speed-up is the median over rounds of the ratio within a round.
//! Contestants that are slow sit out the later rounds.

use crate::measure::{Ratio, SETTLE, Timing};
use crate::record::{Check, Machine, NotRun, RivalTiming, Row};
use crate::rivals::{Job, Rival};
use crate::workload::{Contestant, Part, RivalWork, Rung, Workload};
use anyhow::Result;
use std::path::Path;
use std::time::{Duration, Instant};

/// Rounds in which contestants take turns.
const N_ROUNDS: usize = 9;
/// Rounds of a contestant whose single run is longer than a turn.
const N_SLOW_ROUNDS: usize = 3;
/// What a turn should take.
const TURN_S: f64 = 0.05;
/// Runs of a turn at the most.
const MAX_RUNS_PER_TURN: usize = 200;
/// Longest wait for one answer of a rival.
const PATIENCE: Duration = Duration::from_secs(120);
/// Executors that stand for what a user gets; rivals are set beside these.
const COMPARED: [&str; 2] = ["host", "wgsl"];

/// What the rows of one workload need to know of the run around them.
#[allow(
    missing_debug_implementations,
    reason = "closures have nothing to show"
)]
pub struct Setting<'a> {
    /// Machine with its measured peaks.
    pub machine: &'a Machine,
    /// Python of the rivals, or why there is none.
    pub python: Option<&'a Path>,
    /// Asked before each contestant; true ends the run with what is finished.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Told what happens next.
    pub progress: &'a dyn Fn(&str),
}

/// Rows of a workload, and what of it was not run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// One row for each rung, in order.
    pub rows: Vec<Row>,
    /// Rivals that did not start.
    pub not_run: Vec<NotRun>,
}

/// A contestant in the rounds.
struct Entry<'a> {
    name: String,
    part: Part,
    contestant: Option<Box<dyn Contestant + 'a>>,
    check: Check,
    first_call_s: Option<f64>,
    runs_per_turn: usize,
    n_rounds: usize,
    /// Times of each round.
    rounds: Vec<Vec<f64>>,
}

/// Runs all rungs and rivals of a workload.
///
/// A rung or rival that fails becomes a row that says so; it stops no other. An interrupt gives up this workload.
pub fn run(mut workload: Workload<'_>, setting: &Setting<'_>) -> Outcome {
    let say =
        |what: &str| (setting.progress)(&format!("{} {}: {what}", workload.name, workload.size));
    let mut outcome = Outcome::default();
    let rungs = std::mem::take(&mut workload.rungs);
    let mut rows: Vec<Row> = rungs.iter().map(|rung| row_of(&workload, rung)).collect();
    let mut entries = Vec::new();
    for rung in rungs {
        if (setting.interrupted)() {
            return outcome;
        }
        say(&format!("checking {}", rung.executor));
        entries.push(enter_rung(rung, &workload));
    }
    let mut versions = Vec::new();
    for (rival, python) in workload.rivals.iter().zip(setting.python.iter().cycle()) {
        if (setting.interrupted)() {
            return outcome;
        }
        say(&format!("checking {}", rival.library));
        match start_rival(rival, python) {
            Ok(rival) => {
                versions.push(rival.version.clone());
                entries.push(prepare(
                    rival.name.clone(),
                    workload.whole,
                    Box::new(rival),
                    &workload,
                ));
            }
            Err(not_run) => outcome.not_run.push(not_run),
        }
    }
    say("timing");
    for round in 0..N_ROUNDS {
        if (setting.interrupted)() {
            return outcome;
        }
        take_turns(&mut entries, round);
    }
    let (rungs, rivals) = entries.split_at(rows.len());
    let first = rungs
        .first()
        .and_then(|first| Some(first.timing()?.median / first.part.share()));
    for (row, entry) in rows.iter_mut().zip(rungs) {
        fill(row, entry, setting.machine, first);
        if COMPARED.contains(&row.executor.as_str()) {
            let beside = rivals.iter().zip(&versions);
            row.rivals = beside
                .map(|(rival, version)| (rival.name.clone(), rival.beside(entry, version)))
                .collect();
        }
    }
    outcome.rows = rows;
    outcome
}

/// Gives the row of a rung before anything is measured.
fn row_of(workload: &Workload<'_>, rung: &Rung<'_>) -> Row {
    Row {
        workload: workload.name.to_owned(),
        source: workload.source.to_owned(),
        size: workload.size.clone(),
        executor: rung.executor.to_owned(),
        adapter: rung.adapter.clone(),
        timer: rung.timer,
        operations: Some(workload.operations * rung.part.share()),
        bytes: Some(workload.bytes * rung.part.share()),
        note: rung.part.note(),
        ..Row::default()
    }
}

fn enter_rung<'a>(rung: Rung<'a>, workload: &Workload<'_>) -> Entry<'a> {
    let name = rung.executor.to_owned();
    match (rung.start)() {
        Ok(contestant) => prepare(name, rung.part, contestant, workload),
        Err(error) => Entry::failed(name, rung.part, format!("{error:#}")),
    }
}

fn start_rival(rival: &RivalWork<'_>, python: &Path) -> Result<Rival, NotRun> {
    let job = Job {
        library: rival.library,
        script: rival.script,
        sizes: &rival.sizes,
        arrays: &rival.arrays,
        patience: PATIENCE,
    };
    Rival::start(python, &job)
}

/// Runs a contestant for the first time and checks its result.
fn prepare<'a>(
    name: String,
    part: Part,
    mut contestant: Box<dyn Contestant + 'a>,
    workload: &Workload<'_>,
) -> Entry<'a> {
    let start = Instant::now();
    let first = contestant.run(1);
    let first_call_s = start.elapsed().as_secs_f64();
    let result = first.and_then(|_| contestant.result());
    let second = result.and_then(|result| {
        (workload.check)(&result, part)?;
        contestant.run(1)
    });
    match second.map(|seconds| seconds.first().copied()) {
        Ok(Some(seconds)) => {
            let slow = seconds > 4.0 * TURN_S;
            Entry {
                name,
                part,
                contestant: Some(contestant),
                check: Check::Ok,
                first_call_s: Some(first_call_s),
                runs_per_turn: runs_per_turn(seconds),
                n_rounds: if slow { N_SLOW_ROUNDS } else { N_ROUNDS },
                rounds: Vec::new(),
            }
        }
        Ok(None) => Entry::failed(name, part, "it told no time".to_owned()),
        Err(error) => Entry::failed(name, part, format!("{error:#}")),
    }
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

/// Lets every contestant run its turn of a round; every other round goes backwards, so that a drift cancels.
fn take_turns(entries: &mut [Entry<'_>], round: usize) {
    let mut order: Vec<&mut Entry<'_>> = entries.iter_mut().collect();
    if round % 2 == 1 {
        order.reverse();
    }
    for entry in order {
        if round >= entry.n_rounds {
            continue;
        }
        let Some(contestant) = &mut entry.contestant else {
            continue;
        };
        std::thread::sleep(SETTLE);
        // The first run of a turn wakes threads that another's turn put to sleep; what is longer than a turn is
        // not moved by that.
        let warm_up = usize::from(entry.runs_per_turn > 1);
        match contestant.run(warm_up + entry.runs_per_turn) {
            Ok(seconds) => entry
                .rounds
                .push(seconds.into_iter().skip(warm_up).collect()),
            Err(error) => {
                entry.check = Check::Failed(format!("{error:#}"));
                entry.contestant = None;
            }
        }
    }
}

impl Entry<'_> {
    fn failed(name: String, part: Part, why: String) -> Self {
        Self {
            name,
            part,
            contestant: None,
            check: Check::Failed(why),
            first_call_s: None,
            runs_per_turn: 0,
            n_rounds: 0,
            rounds: Vec::new(),
        }
    }

    /// Gives median and quartiles over all runs; nothing for a contestant that failed.
    fn timing(&self) -> Option<Timing> {
        if self.check == Check::Ok {
            Timing::from_samples(&self.rounds.concat())
        } else {
            None
        }
    }

    /// Gives the median of each round, for work that was done whole.
    fn round_medians(&self) -> Vec<f64> {
        let medians = self
            .rounds
            .iter()
            .filter_map(|round| Timing::from_samples(round));
        medians
            .map(|timing| timing.median / self.part.share())
            .collect()
    }

    /// Gives this rival's times and its ratio to `ours`, over the rounds that both ran.
    fn beside(&self, ours: &Self, version: &str) -> RivalTiming {
        let timing = self.timing();
        let (ours_medians, theirs) = (ours.round_medians(), self.round_medians());
        let n = ours_medians.len().min(theirs.len());
        let both = timing.is_some() && ours.timing().is_some();
        let ratio = both
            .then(|| Ratio::from_pairs(&ours_medians[..n], &theirs[..n]))
            .flatten();
        RivalTiming {
            version: version.to_owned(),
            check: self.check.clone(),
            median_s: timing.map(|timing| timing.median),
            low_s: timing.map(|timing| timing.low),
            high_s: timing.map(|timing| timing.high),
            speedup: ratio.map(|ratio| ratio.median),
            low: ratio.map(|ratio| ratio.low),
            high: ratio.map(|ratio| ratio.high),
        }
    }
}

/// Fills what was measured and what follows from it into a row.
///
/// `first_s` is what the first rung takes for the whole.
fn fill(row: &mut Row, entry: &Entry<'_>, machine: &Machine, first_s: Option<f64>) {
    row.check = entry.check.clone();
    row.first_call_s = entry.first_call_s;
    let Some(timing) = entry.timing() else { return };
    let peak = match &row.adapter {
        None => machine.peaks.cpu_flops,
        Some(adapter) => machine
            .peaks
            .adapters
            .get(adapter)
            .and_then(|peaks| peaks.flops),
    };
    let rate = row.operations.map(|operations| operations / timing.median);
    row.median_s = Some(timing.median);
    row.low_s = Some(timing.low);
    row.high_s = Some(timing.high);
    row.rate = rate.map(|rate| rate * 1e-9);
    row.rate_unit = "GFLOP/s".to_owned();
    row.gb_per_s = row.bytes.map(|bytes| bytes / timing.median * 1e-9);
    row.share_of_peak = rate.zip(peak).map(|(rate, peak)| rate / peak);
    row.speedup_over_first = first_s.map(|first| first * entry.part.share() / timing.median);
}
