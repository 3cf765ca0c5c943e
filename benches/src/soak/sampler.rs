//! The sampler on a simulated NVML whose GPUs and calls fail, compared with what the simulated
//! machine really drew.
//!
//! Method: a step draws a machine (boards, loads, driver), faults (lost GPUs, timeouts, missing
//! metrics, counters that step back) and the sampler's settings, and records up to some minutes of
//! simulated time. Every value that NVML returns must be that of the model, rounded as NVML does;
//! every value that is missing must have a fault that the scenario explains, and a fault of the
//! scenario must be reported. The file that the sampler wrote must have every row. The energies of
//! random windows must contain the energy that the model drew, in at least [`LEAST_COVERED`] of the
//! cases: the bounds assume sensors whose clocks are known.
//! A second sampler runs in real time during the whole job, and is checked at each step.
//! Limits: the counter steps back in the source around NVML, because the simulated counter does
//! not.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use telemetry::format::{self, Dialect, Writer};
use telemetry::nvml::Nvml;
use telemetry::synthetic::{
    Board, Counter, FaultRule, Gpu, Model, PowerProfile, PowerSegment, Reporting, Scenario,
    Synthetic,
};
use telemetry::{Calibration, Device, Fault, Metric, Reading, Sampler, Source, Trace};
use tool_io::TemporaryFolder;

use super::draws::Draws;
use super::fake::{Clock, FakeNvml};
use super::{Counts, Job, Worker};

mod long;

use long::Long;

/// Smallest share of energies whose interval contains the true energy; the share that the tests of
/// `telemetry` require.
const LEAST_COVERED: f64 = 0.95;
/// Smallest number of energies whose share is checked.
const LEAST_CHECKED: u64 = 200;
/// Number of windows per GPU and step.
const N_WINDOWS: usize = 4;
/// Largest number of rounds of a step.
const MOST_ROUNDS: usize = 2000;
/// Driver versions with different calls.
const DRIVERS: [&str; 5] = [
    "450.80.02",
    "510.47.03",
    "530.30.02",
    "570.133.20",
    "580.95.05",
];
/// Calls that fail, with the metrics that each of them returns.
const CALLS: [(&str, &[Metric]); 5] = [
    ("nvmlDeviceGetPowerUsage", &[Metric::PowerDraw]),
    ("nvmlDeviceGetTotalEnergyConsumption", &[Metric::Energy]),
    ("nvmlDeviceGetTemperature*", &[Metric::Temperature]),
    (
        "nvmlDeviceGetUtilizationRates",
        &[Metric::GpuBusy, Metric::MemoryBusy],
    ),
    (
        "nvmlDeviceGetFieldValues",
        &[Metric::PowerInstant, Metric::PowerAverage],
    ),
];
/// NVML's return codes of calls that fail for a time: not supported, no permission, timeout, reset
/// of the interrupt, no data, unknown.
const CODES: [u32; 6] = [3, 4, 10, 11, 21, 999];
/// Energy that a counter has counted before the start, in J, so that a reset steps back visibly.
const COUNTED_J: f64 = 1e6;
/// Smallest share of windows whose energy is known.
const LEAST_KNOWN: f64 = 0.75;

/// Returns the job.
pub(super) fn jobs() -> Vec<Job> {
    vec![Job::new("sampler", Samplers::start)]
}

/// The sampler in real time, and the library of the samplers in simulated time.
struct Samplers {
    fake: FakeNvml,
    long: Long,
    folder: TemporaryFolder,
    covered: Covered,
    known: Known,
}

/// Numbers of energies, and of those whose interval contains the truth.
#[derive(Clone, Copy, Debug, Default)]
struct Covered {
    n_all: u64,
    n_covered: u64,
}

/// Numbers of windows, and of those whose energy is known.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    n_all: u64,
    n_known: u64,
}

impl Known {
    fn add(&mut self, is_known: bool) {
        self.n_all += 1;
        self.n_known += u64::from(is_known);
    }

    /// Checks that most energies are known: a sampler without energies has none that is wrong.
    fn check(self, when: &str) -> Result<()> {
        let Self { n_all, n_known } = self;
        ensure!(
            n_all < LEAST_CHECKED || n_known as f64 >= LEAST_KNOWN * n_all as f64,
            "{n_known} of {n_all} windows {when} have an energy (expected a share of at least {LEAST_KNOWN})"
        );
        Ok(())
    }
}

impl Samplers {
    fn start() -> Result<Self> {
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "soak-sampler")
            .context("cannot create a folder")?;
        Ok(Self {
            fake: FakeNvml::copied_to(&folder.path().join("simulated"))?,
            long: Long::start(folder.path())?,
            folder,
            covered: Covered::default(),
            known: Known::default(),
        })
    }
}

impl Worker for Samplers {
    fn step(&mut self, seed: u64, counts: &mut Counts) -> Result<()> {
        let mut draws = Draws::new(seed);
        let session = Session::draw(&mut draws)?;
        let trace = session.record(&self.fake, &self.folder.path().join("rows"))?;
        counts.add("rows", trace.n_rows);
        counts.add("rows with faults", trace.n_faulty);
        let (covered, known) = (&mut self.covered, &mut self.known);
        session.check_energies(&trace.trace, &mut draws, covered, known, counts)?;
        self.long.check(counts)
    }

    fn finish(&mut self) -> Result<()> {
        let Covered { n_all, n_covered } = self.covered;
        let share = n_covered as f64 / n_all as f64;
        ensure!(
            n_all < LEAST_CHECKED || share >= LEAST_COVERED,
            "{n_covered} of {n_all} intervals contain the true energy (expected {LEAST_COVERED})"
        );
        self.known.check("in simulated time")?;
        self.long.finish()
    }
}

/// A machine and the settings of a sampler.
#[derive(Debug)]
struct Session {
    scenario: Scenario,
    model: Model,
    interval: Duration,
    lasts: Duration,
    capacity: usize,
    dialect: Dialect,
    /// The GPU whose counter steps back, with the time.
    reset: Option<(usize, Duration)>,
}

/// A recorded trace.
struct Recorded {
    trace: Trace,
    n_rows: usize,
    n_faulty: usize,
}

impl Session {
    fn draw(draws: &mut Draws) -> Result<Self> {
        let n_gpus = draws.integer(1, 4);
        let interval = Duration::from_millis(draws.integer(10, 150) as u64);
        let n_rounds = draws.integer(100, MOST_ROUNDS);
        let lasts = interval * u32::try_from(n_rounds)?;
        let mut scenario = Scenario::default().on_driver(draws.choice(&DRIVERS));
        scenario.gpus = (0..n_gpus).map(|_| gpu(draws)).collect();
        for _ in 0..draws.integer(0, 4) {
            let gpu = draws.integer(0, n_gpus - 1);
            scenario.faults.push(rule(draws, gpu, lasts));
        }
        let reset = draws.happens(0.3).then(|| {
            let time = lasts.mul_f64(draws.between(0.2, 0.8));
            (draws.integer(0, n_gpus - 1), time)
        });
        Ok(Self {
            model: Model::new(scenario.clone())?,
            scenario,
            interval,
            lasts,
            capacity: draws.integer(64, 4096),
            dialect: draws.choice(&[Dialect::Csv, Dialect::JsonLines]),
            reset,
        })
    }

    /// Records the session, and checks each reading and the file with the rows.
    fn record(&self, fake: &FakeNvml, path: &Path) -> Result<Recorded> {
        fake.play(&self.scenario)?;
        let clock = fake.clock()?;
        clock.set(Duration::ZERO);
        let nvml = Nvml::open_at(fake.path())?;
        let found = Arc::new(Mutex::new(Found::default()));
        let sure = Scenario {
            faults: vec![],
            ..self.scenario.clone()
        };
        let source = Checked {
            nvml,
            truth: Synthetic::new(Model::new(sure)?),
            clock,
            rules: self.scenario.faults.clone(),
            reset: self.reset,
            interval: self.interval,
            found: Arc::clone(&found),
        };
        let sampler = Sampler::new(source)
            .interval(self.interval)
            .capacity(self.capacity)
            .with_sink(Writer::create(self.dialect, path)?);
        let trace = sampler.record(self.lasts)?;
        let found = found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(wrong) = found.wrong {
            bail!("{wrong}; faults {:?}", self.scenario.faults);
        }
        let n_rounds = usize::try_from(self.lasts.as_nanos() / self.interval.as_nanos())? + 1;
        let n_rows = n_rounds * self.scenario.gpus.len();
        ensure!(
            found.n_rows == n_rows,
            "the source was read {} times (expected {n_rows})",
            found.n_rows
        );
        let read = format::read(&std::fs::read(path).context("cannot read the rows")?)?;
        ensure!(
            read.skipped.is_empty(),
            "lines cannot be read: {:?}",
            read.skipped
        );
        let n_written = read.trace.rows.len();
        ensure!(
            n_written == n_rows,
            "the file has {n_written} rows (expected {n_rows})"
        );
        let largest = self.capacity.max(2 * self.scenario.gpus.len());
        ensure!(
            trace.rows.len() <= largest,
            "memory has {} rows (expected at most {largest})",
            trace.rows.len()
        );
        Ok(Recorded {
            trace,
            n_rows,
            n_faulty: found.n_faulty,
        })
    }

    /// Compares the energies of random windows with those of the model.
    fn check_energies(
        &self,
        trace: &Trace,
        draws: &mut Draws,
        covered: &mut Covered,
        known: &mut Known,
        counts: &mut Counts,
    ) -> Result<()> {
        let lasts_s = self.lasts.as_secs_f64();
        for (index, gpu) in self.model.gpus().iter().enumerate() {
            for _ in 0..N_WINDOWS {
                let from_s = draws.between(0.0, 0.8 * lasts_s);
                let to_s = draws.between(from_s, lasts_s);
                let window = Duration::from_secs_f64(from_s)..Duration::from_secs_f64(to_s);
                let energy = trace.energy_calibrated(index, window, &Calibration::known(1.0));
                known.add(energy.is_some());
                let Some(energy) = energy else {
                    counts.add("windows without an energy", 1);
                    continue;
                };
                let truth_j = gpu.energy_j(from_s, to_s);
                let interval = energy.interval;
                ensure!(
                    interval.low_j <= energy.joules && energy.joules <= interval.high_j,
                    "GPU {index}, {from_s} to {to_s} s: {energy} is outside of its interval"
                );
                let is_covered = interval.contains(truth_j);
                counts.add("energies", 1);
                covered.n_all += 1;
                covered.n_covered += u64::from(is_covered);
                if !is_covered {
                    counts.add("energies outside of their interval", 1);
                }
            }
        }
        Ok(())
    }
}

/// Draws a GPU with a load of linear pieces between its idle and its load power.
fn gpu(draws: &mut Draws) -> Gpu {
    let mut gpu = Gpu::from_board(draws.choice(&Board::ALL));
    let (low_w, high_w) = (gpu.power.lowest_w(), gpu.power.peak_w());
    let pieces = (0..draws.integer(1, 20)).map(|_| {
        let from_w = draws.between(low_w, high_w);
        let is_level = draws.happens(0.6);
        PowerSegment {
            lasts_s: draws.between(0.05, 5.0),
            from_w,
            to_w: if is_level {
                from_w
            } else {
                draws.between(low_w, high_w)
            },
        }
    });
    gpu.power = PowerProfile {
        pieces: pieces.collect(),
        repeats: true,
    };
    gpu.counter = match draws.integer(0, 3) {
        0 => Reporting::Never,
        1 => Reporting::AsBuilt,
        _ => Reporting::By(Counter {
            update_s: draws.choice(&[0.02, 0.1]),
            start_j: COUNTED_J,
            ..Counter::default()
        }),
    };
    gpu
}

/// Draws a fault of a GPU. No fault begins in the first second, in which the source is opened.
fn rule(draws: &mut Draws, gpu: usize, lasts: Duration) -> FaultRule {
    let lasts_ms = lasts.as_secs_f64() * 1e3;
    let from_ms = whole(draws.between(1e3, lasts_ms.max(2e3)));
    let until_ms = from_ms + whole(draws.between(1.0, 0.3 * lasts_ms));
    let (is_lost, until_init) = (draws.happens(0.4), draws.happens(0.3));
    let is_for_good = draws.happens(0.2);
    let (symbol, code) = (draws.choice(&CALLS).0, draws.choice(&CODES));
    let rule = if is_lost {
        FaultRule::lost(gpu, from_ms)
    } else {
        FaultRule {
            gpu: Some(gpu),
            from_ms,
            ..FaultRule::for_symbol(symbol, code)
        }
    };
    FaultRule {
        until_ms: (!is_for_good).then_some(until_ms),
        until_init: until_init && is_lost,
        ..rule
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times in ms are positive and small"
)]
fn whole(ms: f64) -> u64 {
    ms as u64
}

/// The first wrong reading, and numbers of readings.
#[derive(Clone, Debug, Default)]
struct Found {
    wrong: Option<String>,
    n_rows: usize,
    n_faulty: usize,
}

/// NVML with each reading compared with the model.
struct Checked {
    nvml: Nvml,
    /// The machine without faults.
    truth: Synthetic,
    clock: Clock,
    rules: Vec<FaultRule>,
    reset: Option<(usize, Duration)>,
    interval: Duration,
    found: Arc<Mutex<Found>>,
}

impl Source for Checked {
    fn name(&self) -> &'static str {
        "checked nvml"
    }

    fn devices(&self) -> &[Device] {
        self.nvml.devices()
    }

    fn read(&mut self, device: usize, now: Duration) -> Reading {
        self.clock.set(now);
        let mut reading = self.nvml.read(device, now);
        let truth = self.truth.read(device, now);
        let checked = self.check(device, now, &reading, &truth);
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.n_rows += 1;
        found.n_faulty += usize::from(!reading.faults.is_empty());
        if let Err(wrong) = checked {
            let first = format!("GPU {device} at {} s: {wrong:#}", now.as_secs_f64());
            found.wrong.get_or_insert(first);
        }
        if let Some((of, since)) = self.reset
            && of == device
            && now >= since
            && let Some(counted_j) = reading.values.get(Metric::Energy)
            && counted_j >= COUNTED_J
        {
            reading.values.set(Metric::Energy, counted_j - COUNTED_J);
        }
        reading
    }
}

impl Checked {
    fn check(
        &self,
        device: usize,
        now: Duration,
        reading: &Reading,
        truth: &Reading,
    ) -> Result<()> {
        for metric in Metric::ALL {
            let faults = reading.faults.iter().filter(|fault| fault.0 == metric);
            let faults: Vec<Fault> = faults.map(|fault| fault.1).collect();
            match (
                reading.values.get(metric),
                &faults[..],
                truth.values.get(metric),
            ) {
                (Some(value), [], Some(expected)) => {
                    let tolerance = rounding(metric);
                    ensure!(
                        (value - expected).abs() <= tolerance,
                        "{metric} is {value} (expected {expected} within {tolerance})"
                    );
                    ensure!(
                        !self.must_fail(device, metric, now),
                        "{metric} has a value, although its call fails"
                    );
                }
                (None, &[fault], Some(_)) => self.check_fault(device, metric, fault, now)?,
                (None, [], None) => {}
                (value, faults, expected) => bail!(
                    "{metric} is {value:?} with the faults {faults:?} (expected {expected:?})"
                ),
            }
        }
        Ok(())
    }

    /// Returns the rules of a device that are in force at a time.
    fn active(&self, device: usize, now: Duration) -> impl Iterator<Item = &FaultRule> {
        let is_active = move |rule: &&FaultRule| {
            let is_begun = now >= Duration::from_millis(rule.from_ms);
            let until = rule.until_ms.map(Duration::from_millis);
            rule.gpu == Some(device) && is_begun && until.is_none_or(|until| now < until)
        };
        self.rules.iter().filter(is_active)
    }

    /// Returns whether a rule requires that a metric has a fault. A rule that ends when the library
    /// is initialised again requires none, because the loss of another GPU may have initialised it.
    fn must_fail(&self, device: usize, metric: Metric, now: Duration) -> bool {
        self.active(device, now)
            .any(|rule| !rule.until_init && meets(rule, metric))
    }

    /// Checks that the scenario explains a fault.
    fn check_fault(
        &self,
        device: usize,
        metric: Metric,
        fault: Fault,
        now: Duration,
    ) -> Result<()> {
        if fault != Fault::Lost {
            let mut active = self.active(device, now);
            let is_explained =
                active.any(|rule| meets(rule, metric) && Fault::from_nvml(rule.code) == fault);
            ensure!(
                is_explained,
                "{metric} has the fault {fault:?} without a reason"
            );
            return Ok(());
        }
        // The sampler looks for a lost GPU after 1, 3, 7, … s. If faults last from `from` to
        // `until`, the GPU is found by `until + (until - from)`, plus a second and a round.
        let rules = self.rules_of_loss(device);
        let from = rules.iter().map(|rule| rule.from_ms).min();
        let untils: Option<Vec<u64>> = rules.iter().map(|rule| rule.until_ms).collect();
        let until = untils.and_then(|untils| untils.into_iter().max());
        let is_explained = from.is_some_and(|from| {
            let found_ms = until.map(|until| 2 * until - from);
            let slack = Duration::from_secs(1) + 2 * self.interval;
            now >= Duration::from_millis(from)
                && found_ms.is_none_or(|found_ms| now <= Duration::from_millis(found_ms) + slack)
        });
        ensure!(is_explained, "the GPU is lost without a reason");
        Ok(())
    }

    /// Returns the rules that can make a device lost: those with that code, or all rules of the
    /// device if the others fail every metric that the device reports.
    fn rules_of_loss(&self, device: usize) -> Vec<&FaultRule> {
        let is_loss = |rule: &FaultRule| Fault::from_nvml(rule.code) == Fault::Lost;
        let own = self.rules.iter().filter(|rule| rule.gpu == Some(device));
        let own: Vec<&FaultRule> = own.collect();
        let fails = |metric: Metric| own.iter().any(|rule| !is_loss(rule) && meets(rule, metric));
        let reported = &self.devices()[device];
        let mut reported = Metric::ALL
            .into_iter()
            .filter(|&metric| reported.field(metric).is_some());
        match reported.all(fails) {
            true => own,
            false => own.into_iter().filter(|rule| is_loss(rule)).collect(),
        }
    }
}

/// Returns whether a rule applies to the call of a metric.
fn meets(rule: &FaultRule, metric: Metric) -> bool {
    let is_of_call =
        |(symbol, metrics): &(&str, &[Metric])| *symbol == rule.symbol && metrics.contains(&metric);
    rule.symbol == FaultRule::default().symbol || CALLS.iter().any(is_of_call)
}

/// Returns the largest difference between a value and NVML's rounded value: NVML reports whole mW,
/// mJ, degrees, per cent and MHz.
fn rounding(metric: Metric) -> f64 {
    match metric {
        Metric::Temperature
        | Metric::GpuBusy
        | Metric::MemoryBusy
        | Metric::SmClock
        | Metric::MemoryClock => 0.51,
        _ => 0.000_51,
    }
}
