//! A sampler in real time on a simulated NVML.
//!
//! Method: the machine has faults every minute; the sampler has memory for few rows, and a file
//! that is truncated at its maximum length. At each step of the job, the energy of the seconds
//! before the last row is compared with that of the model.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use telemetry::format::{Dialect, Writer};
use telemetry::nvml::Nvml;
use telemetry::synthetic::{Board, FaultRule, Model, Scenario};
use telemetry::{Calibration, Running, Sampler, Trace};

use super::super::Counts;
use super::super::fake::FakeNvml;
use super::Known;

/// Time between two rows.
const INTERVAL: Duration = Duration::from_millis(20);
/// Number of rows in memory.
const CAPACITY: usize = 4096;
/// Length of the windows whose energy is checked.
const WINDOW: Duration = Duration::from_secs(5);
/// Longest time without a row of the first GPU. A busy machine may stop a thread for seconds.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Maximum length of the file, in bytes.
const FILE_BYTES: u64 = 4 << 20;
/// Number of minutes for which the long scenario has faults.
const MINUTES: u64 = 600;

/// The sampler in real time.
pub(super) struct Long {
    running: Running,
    fake: FakeNvml,
    model: Model,
    /// The windows before each step.
    known: Known,
}

/// A file that is truncated when it reaches its maximum length.
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

/// Returns the time of the last row of the first GPU, if there is one.
fn last_row(trace: &Trace) -> Option<Duration> {
    let mut rows = trace.rows.iter().rev();
    rows.find(|row| row.device == 0).map(|row| row.time)
}

/// Returns the longest time without a row of the first GPU that ends in a window.
fn longest_pause(trace: &Trace, window: &Range<Duration>) -> Duration {
    let rows = trace.rows.iter().filter(|row| row.device == 0);
    let times = rows.map(|row| row.time);
    let starts = std::iter::once(Duration::ZERO).chain(times.clone());
    let pauses = starts
        .zip(times)
        .filter(|(_, end)| window.start < *end && *end <= window.end);
    let longest = pauses.map(|(start, end)| end.saturating_sub(start)).max();
    longest.unwrap_or_default()
}

impl Long {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let fake = FakeNvml::copied_to(&folder.join("real-time"))?;
        let mut scenario = Scenario::from_boards(&[Board::T4, Board::A100, Board::H100]);
        for minute in 0..MINUTES {
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
            .interval(INTERVAL)
            .capacity(CAPACITY)
            .with_sink(Writer::new(Dialect::Csv, Ring { file, n_bytes: 0 }))
            .start()?;
        Ok(Self {
            running,
            fake,
            model: Model::new(scenario)?,
            known: Known::default(),
        })
    }

    /// Checks that the sampler runs, and the energy of the last seconds of the first GPU.
    pub(super) fn check(&mut self, counts: &mut Counts) -> Result<()> {
        if let Some(failure) = self.running.failure() {
            bail!("the sampler in real time failed: {failure}");
        }
        let (now, fake_now) = (self.running.now(), self.fake.time()?);
        let offset_s = fake_now.as_secs_f64() - now.as_secs_f64();
        // The window ends at a row, because a window that ends an update period later has no
        // energy, and the next row may be late.
        let found = self.running.with_trace(|trace| {
            let to = last_row(trace)?;
            let window = to.checked_sub(WINDOW)?..to;
            let energy = trace.energy_calibrated(0, window.clone(), &Calibration::known(1.0));
            let pause = longest_pause(trace, &window);
            Some((window, energy, trace.rows.len(), pause))
        });
        let Some((window, energy, n_rows, pause)) = found else {
            // The first window is not over.
            ensure!(
                now <= WINDOW + LONGEST_PAUSE,
                "the sampler in real time has no rows of {WINDOW:?} after {now:?}"
            );
            return Ok(());
        };
        ensure!(
            n_rows <= 2 * CAPACITY,
            "memory has {n_rows} rows (expected at most {})",
            2 * CAPACITY
        );
        let longest = pause.max(now.saturating_sub(window.end));
        ensure!(
            longest <= LONGEST_PAUSE,
            "the sampler in real time read no row for {longest:?} (expected at most {LONGEST_PAUSE:?})"
        );
        self.known.add(energy.is_some());
        let Some(energy) = energy else {
            // A thread that waits for the processor leaves a pause, whose energy is unknown.
            ensure!(
                pause > 5 * INTERVAL,
                "the sampler in real time has no energy from {window:?}, without a pause"
            );
            counts.add("pauses in real time", 1);
            return Ok(());
        };
        let gpu = &self.model.gpus()[0];
        let [from_s, to_s] = [window.start, window.end].map(|time| time.as_secs_f64() + offset_s);
        let truth_j = gpu.energy_j(from_s, to_s);
        // A thread that waits for the processor reads later than the time in its row.
        let slack_j = gpu.gpu().power.peak_w() * 5.0 * INTERVAL.as_secs_f64();
        let interval = energy.interval;
        ensure!(
            interval.low_j - slack_j <= truth_j && truth_j <= interval.high_j + slack_j,
            "in real time: {energy}, but the GPU drew {truth_j} J"
        );
        counts.add("energies in real time", 1);
        Ok(())
    }

    /// Checks the windows of all steps together.
    pub(super) fn finish(&self) -> Result<()> {
        self.known.check("in real time")
    }
}
