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
//! A second sampler runs in real time during the whole work, on a machine of its own with faults
//! every minute, with memory for few rows and with a file that begins again whenever it is full.
//! At each step the energy of its last seconds is compared with the model's.
//! Limits: the counter steps back in the source around NVML, because the simulated counter does
//! not.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use telemetry::format::{self, Dialect, Writer};
use telemetry::nvml::Nvml;
use telemetry::synthetic::{
    Board, Counter, FaultRule, Gpu, Model, PowerProfile, PowerSegment, Reporting, Scenario,
    Synthetic,
};
use telemetry::{Calibration, Device, Fault, Metric, Reading, Running, Sampler, Source, Trace};

use super::draws::Draws;
use super::fake::{Clock, FakeNvml};
use super::{Counts, Work, Worker};

/// Smallest share of energies whose interval contains the true energy; the share that the tests of
/// `telemetry` require.
const LEAST_COVERED: f64 = 0.95;
/// Number of energies from which on the share is checked.
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
/// Settings of the sampler that runs in real time.
const LONG_INTERVAL: Duration = Duration::from_millis(20);
const LONG_CAPACITY: usize = 4096;
const LONG_WINDOW: Duration = Duration::from_secs(5);
/// Longest time without a row of the first GPU. A busy machine may stop a thread for seconds.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Length of the file that begins again, in bytes.
const FILE_BYTES: u64 = 4 << 20;
/// Number of minutes for which the long scenario has faults.
const LONG_MINUTES: u64 = 600;

/// Returns the work.
pub(super) fn works() -> Vec<Work> {
    vec![Work::new("sampler", Samplers::start)]
}

/// The sampler in real time, and the library of the samplers in simulated time.
struct Samplers {
    fake: FakeNvml,
    long: Long,
    folder: Folder,
    covered: Covered,
}

/// Numbers of energies, and of those whose interval contains the truth.
#[derive(Clone, Copy, Debug, Default)]
struct Covered {
    n_all: u64,
    n_covered: u64,
}

/// A folder in the temporary folder, removed when dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that remains is harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Samplers {
    fn start() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("soak-sampler-{}", std::process::id()));
        std::fs::create_dir_all(&folder).context("cannot create a folder")?;
        let folder = Folder(folder);
        Ok(Self {
            fake: FakeNvml::copied_to(&folder.0.join("simulated"))?,
            long: Long::start(&folder.0)?,
            folder,
            covered: Covered::default(),
        })
    }
}

impl Worker for Samplers {
    fn step(&mut self, seed: u64, counts: &mut Counts) -> Result<()> {
        let mut draws = Draws::new(seed);
        let session = Session::draw(&mut draws)?;
        let trace = session.record(&self.fake, &self.folder.0.join("rows"))?;
        counts.add("rows", trace.n_rows);
        counts.add("rows with faults", trace.n_faulty);
        session.check_energies(&trace.trace, &mut draws, &mut self.covered, counts)?;
        self.long.check(counts)
    }

    fn finish(&mut self) -> Result<()> {
        let Covered { n_all, n_covered } = self.covered;
        let share = n_covered as f64 / n_all as f64;
        ensure!(
            n_all < LEAST_CHECKED || share >= LEAST_COVERED,
            "{n_covered} of {n_all} intervals contain the true energy (expected {LEAST_COVERED})"
        );
        Ok(())
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
        counts: &mut Counts,
    ) -> Result<()> {
        let lasts_s = self.lasts.as_secs_f64();
        for (index, gpu) in self.model.gpus().iter().enumerate() {
            for _ in 0..N_WINDOWS {
                let from_s = draws.between(0.0, 0.8 * lasts_s);
                let to_s = draws.between(from_s, lasts_s);
                let window = Duration::from_secs_f64(from_s)..Duration::from_secs_f64(to_s);
                let energy = trace.energy_calibrated(index, window, &Calibration::known(1.0));
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
    /// is initialised again requires none, because another GPU may have caused that.
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
        // A lost GPU is looked for after 1, 3, 7, … s, so that it is found at the latest when it
        // has been lost twice as long as its fault lasted, plus a second and a round.
        let may_be_lost = |rule: &&FaultRule| {
            let from = Duration::from_millis(rule.from_ms);
            let until = rule.until_ms.map(Duration::from_millis);
            let found = until.map(|until| until + (until - from));
            let slack = Duration::from_secs(1) + 2 * self.interval;
            let is_over = found.is_some_and(|found| now > found + slack);
            rule.gpu == Some(device) && now >= from && !is_over
        };
        let lost: Vec<&FaultRule> = self.rules.iter().filter(may_be_lost).collect();
        let n_of_device = self
            .rules
            .iter()
            .filter(|rule| rule.gpu == Some(device))
            .count();
        // Faults that follow one another make longer pauses.
        let is_explained = !lost.is_empty() || n_of_device > 1;
        ensure!(is_explained, "the GPU is lost without a reason");
        Ok(())
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

/// The sampler in real time.
struct Long {
    running: Running,
    fake: FakeNvml,
    model: Model,
}

/// A file that begins again whenever it is full.
struct Ring {
    file: File,
    n_bytes: u64,
}

impl Write for Ring {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.n_bytes > FILE_BYTES {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.n_bytes = 0;
        }
        let n_written = self.file.write(bytes)?;
        self.n_bytes += n_written as u64;
        Ok(n_written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns the longest time without a row of the first GPU that ends after `from`, up to `now`.
fn longest_pause(trace: &Trace, from: Duration, now: Duration) -> Duration {
    let rows = trace.rows.iter().filter(|row| row.device == 0);
    let (mut last, mut longest) = (Duration::ZERO, Duration::ZERO);
    for time in rows.map(|row| row.time).chain([now]) {
        if time > from {
            longest = longest.max(time.saturating_sub(last));
        }
        last = time;
    }
    longest
}

impl Long {
    fn start(folder: &Path) -> Result<Self> {
        let fake = FakeNvml::copied_to(&folder.join("real-time"))?;
        let mut scenario = Scenario::from_boards(&[Board::T4, Board::A100, Board::H100]);
        for minute in 0..LONG_MINUTES {
            // The first GPU has no fault, so that its energy is known at all times.
            let from_ms = 60_000 * minute + 10_000;
            let lost = FaultRule {
                until_ms: Some(from_ms + 2000),
                ..FaultRule::lost(1, from_ms)
            };
            let timeout = FaultRule {
                gpu: Some(2),
                from_ms: from_ms + 20_000,
                until_ms: Some(from_ms + 25_000),
                ..FaultRule::for_symbol("nvmlDeviceGetPowerUsage", 10)
            };
            scenario.faults.extend([lost, timeout]);
        }
        fake.play(&scenario)?;
        let nvml = Nvml::open_at(fake.path())?;
        let file = File::create(folder.join("ring")).context("cannot create a file")?;
        let running = Sampler::new(nvml)
            .interval(LONG_INTERVAL)
            .capacity(LONG_CAPACITY)
            .with_sink(Writer::new(Dialect::Csv, Ring { file, n_bytes: 0 }))
            .start()?;
        Ok(Self {
            running,
            fake,
            model: Model::new(scenario)?,
        })
    }

    /// Checks that the sampler runs, and the energy of the last seconds of the first GPU.
    fn check(&self, counts: &mut Counts) -> Result<()> {
        if let Some(failure) = self.running.failure() {
            bail!("the sampler in real time failed: {failure}");
        }
        let (now, fake_now) = (self.running.now(), self.fake.time()?);
        let offset_s = fake_now.as_secs_f64() - now.as_secs_f64();
        let Some(from) = now.checked_sub(LONG_WINDOW) else {
            return Ok(());
        };
        let (energy, n_rows, pause) = self.running.with_trace(|trace| {
            let energy = trace.energy_calibrated(0, from..now, &Calibration::known(1.0));
            (energy, trace.rows.len(), longest_pause(trace, from, now))
        });
        ensure!(
            n_rows <= 2 * LONG_CAPACITY,
            "memory has {n_rows} rows (expected at most {})",
            2 * LONG_CAPACITY
        );
        ensure!(
            pause <= LONGEST_PAUSE,
            "the sampler in real time read nothing for {pause:?}"
        );
        let Some(energy) = energy else {
            // A thread that waits for the processor leaves a pause, whose energy is unknown.
            ensure!(
                pause > 5 * LONG_INTERVAL,
                "the sampler in real time has no energy of its last seconds, without a pause"
            );
            counts.add("pauses in real time", 1);
            return Ok(());
        };
        let gpu = &self.model.gpus()[0];
        let [from_s, to_s] = [from, now].map(|time| time.as_secs_f64() + offset_s);
        let truth_j = gpu.energy_j(from_s, to_s);
        // A thread that waits for the processor reads later than its row says.
        let slack_j = gpu.gpu().power.peak_w() * 5.0 * LONG_INTERVAL.as_secs_f64();
        let interval = energy.interval;
        ensure!(
            interval.low_j - slack_j <= truth_j && truth_j <= interval.high_j + slack_j,
            "in real time: {energy}, but the GPU drew {truth_j} J"
        );
        counts.add("energies in real time", 1);
        Ok(())
    }
}
