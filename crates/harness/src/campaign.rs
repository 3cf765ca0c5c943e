//! A campaign: all tasks of a program, with the peaks of the machine measured before and after.
//!
//! Role: joins `peak`, `run` and `record` for a program such as the bench command, which chooses
//! the tasks and shows the record.
//! Method: the record is written to disk before the first task, so that a path that cannot be
//! written is reported at once, and after every task, so that an interrupt loses only one of them.
//! A task that panics becomes a failed row, and the others go on.
//! Each workload uses new devices: kernels compiled for an earlier workload would make a first call
//! look cheap.

mod alone;

use crate::energy::EnergyMeter;
use crate::progress::Progress;
use crate::record::{AdapterFacts, Check, Machine, NotRun, Record, Row, latest_in};
use crate::run::{self, RunServices};
use crate::workload::Task;
use crate::{claim, machine, peak, rivals};
use alone::Lock;
use anyhow::Result;
use gpu_wgsl::{Adapter, Feature, Gpu, Select};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Ratio of two measurements of the same peak above which the machine counts as disturbed.
const DISTURBED: f64 = 1.15;
/// Executor in the row of a task that panicked, because the panic is not attributed to one
/// executor.
const ALL: &str = "all";
/// Share of a measured peak above which the peak is reported as wrong: no result can exceed it.
const ABOVE_PEAK: f64 = 1.15;

/// Settings of a campaign, chosen by its program.
#[allow(
    missing_debug_implementations,
    reason = "closures do not implement Debug"
)]
pub struct Settings<'a> {
    /// Folder that receives the record.
    pub folder: &'a Path,
    /// Whether rivals take part.
    pub with_rivals: bool,
    /// Python packages of the rivals, whose versions the record contains.
    pub packages: &'a [&'a str],
    /// Function that returns the origin of the data that the tasks have read so far, one line;
    /// `None` if they have read none.
    pub data_origin: &'a dyn Fn() -> Option<String>,
    /// Energy meter of this machine.
    pub meter: &'a dyn EnergyMeter,
    /// Called before each step; `true` ends the campaign, and the rest is listed as not run.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Progress display.
    pub progress: &'a Progress,
    /// Called after each task.
    pub finished: &'a dyn Fn(&Finished<'_>) -> Result<()>,
}

/// A finished task.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'r> {
    /// Number of finished tasks, from 1.
    pub n_done: usize,
    /// Number of all tasks.
    pub n_tasks: usize,
    /// Estimated time until the last task is finished; `None` before anything is known.
    pub remaining: Option<Duration>,
    /// Rows of the task; empty if it was not run.
    pub rows: &'r [Row],
}

/// A run of many tasks, with its record.
#[allow(
    missing_debug_implementations,
    reason = "closures do not implement Debug"
)]
pub struct Campaign<'a> {
    settings: Settings<'a>,
    record: Record,
    path: PathBuf,
    python: Option<PathBuf>,
    adapters: Vec<Adapter>,
    /// Whether the inputs or the expected result of a task could not be computed.
    has_unprepared: bool,
    /// Durations of tasks in the previous record of the folder, in seconds.
    known_s: BTreeMap<String, f64>,
    /// Durations of the tasks of this run, in seconds.
    done_s: BTreeMap<String, f64>,
    lock: Lock,
}

impl<'a> Campaign<'a> {
    /// Describes the machine and writes the record for the first time.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn new(settings: Settings<'a>) -> Result<Self> {
        let adapters = gpu_wgsl::adapters();
        let mut record = Record::new(Machine {
            data_origin: (settings.data_origin)(),
            adapters: adapters.iter().map(facts).collect(),
            ..machine::describe()
        });
        if adapters.is_empty() {
            record.not_run.push(no_adapter());
        }
        let python = if settings.with_rivals {
            rivals::python().map_err(|absent| no_rivals(&absent.why, &absent.how))
        } else {
            Err(no_rivals("excluded by --no-rivals", "omit --no-rivals"))
        };
        let python = python.map_err(|absent| record.not_run.push(absent)).ok();
        if let Some(python) = &python {
            record.machine.rivals = rivals::packages(python, settings.packages);
        }
        // An unreadable earlier record only costs the estimate.
        let previous = latest_in(settings.folder).ok().flatten();
        let previous = previous.and_then(|path| Record::read(&path).ok());
        let known_s = previous.map_or_else(BTreeMap::new, |previous| previous.durations_s);
        // A run of few tasks hands the durations of the others on.
        record.durations_s.clone_from(&known_s);
        record.finished = Some(false);
        let lock = Lock::take();
        record.machine.disturbed = not_alone(&lock);
        let path = record.write_new(settings.folder)?;
        Ok(Self {
            settings,
            record,
            path,
            python,
            adapters,
            has_unprepared: false,
            known_s,
            done_s: BTreeMap::new(),
            lock,
        })
    }

    /// Returns the record as measured so far.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the path to which the record is written after every task.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the check of a variant failed, or the inputs of a task could not be
    /// computed. Failed checks of rivals do not count.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let mut rows = self.record.rows.iter();
        self.has_unprepared || rows.any(|row| matches!(row.check, Check::Failed(_)))
    }

    /// Adds an entry to the list of parts not run, unless it is already listed.
    pub fn leave_out(&mut self, absent: NotRun) {
        if !self.record.not_run.contains(&absent) {
            self.record.not_run.push(absent);
        }
    }

    /// Adds the claims ledger to the record.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn add_claims(&mut self, claims: Vec<claim::Entry>) -> Result<()> {
        self.record.claims = claims;
        self.write()
    }

    /// Measures the peaks, runs all tasks and measures the peaks again.
    ///
    /// A task whose inputs or expected result cannot be computed is listed as not run, and the
    /// others go on.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn run(&mut self, tasks: &[Task]) -> Result<()> {
        let progress = self.settings.progress;
        progress.say("measuring the peaks of this machine");
        self.measure_peaks();
        for (idx, task) in tasks.iter().enumerate() {
            let (n_rows, clock) = (self.record.rows.len(), Instant::now());
            if (self.settings.interrupted)() || !self.run_task(task)? {
                self.leave_out(aborted(task));
                continue;
            }
            // A task that was not measured says nothing about its duration.
            let mut rows = self.record.rows[n_rows..].iter();
            if rows.any(|row| row.median_s.is_some()) {
                let seconds = clock.elapsed().as_secs_f64();
                self.done_s.insert(task.id.to_string(), seconds);
                self.record.durations_s.insert(task.id.to_string(), seconds);
            }
            (self.settings.finished)(&Finished {
                n_done: idx + 1,
                n_tasks: tasks.len(),
                remaining: self.remaining(&tasks[idx + 1..]),
                rows: &self.record.rows[n_rows..],
            })?;
        }
        if !(self.settings.interrupted)() {
            progress.say("measuring the peaks of this machine again");
            self.measure_peaks();
            self.record.finished = Some(true);
        }
        progress.done();
        self.write()
    }

    /// Writes the record, with the origin of the data that tasks have read so far.
    fn write(&mut self) -> Result<()> {
        self.record.machine.data_origin = (self.settings.data_origin)();
        self.record.write(&self.path)
    }

    /// Estimates the time of the remaining tasks: each took as long in the previous record, times
    /// the ratio of the tasks that both have, or else the mean of the finished ones.
    fn remaining(&self, tasks: &[Task]) -> Option<Duration> {
        let done = &self.done_s;
        let mean = done.values().sum::<f64>() / done.len().max(1) as f64;
        let both = done
            .iter()
            .filter_map(|(id, now)| Some((now, self.known_s.get(id)?)));
        let (now, before) = both.fold((0.0, 0.0), |(a, b), (now, before)| (a + now, b + before));
        let ratio = if before > 0.0 { now / before } else { 1.0 };
        let expected = tasks.iter().map(|task| {
            let known = self.known_s.get(&task.id.to_string());
            known.map_or(mean, |before| ratio * before)
        });
        let is_known = !done.is_empty() || !self.known_s.is_empty();
        let seconds = Some(expected.sum::<f64>()).filter(|_| is_known)?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Runs one task as [`Campaign::try_task`]. A panic becomes a failed row.
    fn run_task(&mut self, task: &Task) -> Result<bool> {
        let n_rows = self.record.rows.len();
        let attempt = AssertUnwindSafe(|| self.try_task(task));
        match catch_unwind(attempt) {
            Ok(outcome) => outcome,
            Err(panic) => {
                // Rows of the task that panicked may be incomplete.
                self.record.rows.truncate(n_rows);
                self.record.rows.push(panicked(task, &*panic));
                self.write()?;
                Ok(true)
            }
        }
    }

    /// Runs one task and writes the record; returns false if the task was aborted.
    fn try_task(&mut self, task: &Task) -> Result<bool> {
        let progress = self.settings.progress;
        progress.say(&format!("{}: computing the oracle", task.id));
        let problem = match task.prepare() {
            Ok(problem) => problem,
            Err(error) => {
                let absent = error.downcast::<NotRun>().unwrap_or_else(|error| {
                    self.has_unprepared = true;
                    not_prepared(task, &error)
                });
                self.leave_out(absent);
                return Ok(true);
            }
        };
        let gpus = self.open();
        let services = RunServices {
            python: self.python.as_deref(),
            interrupted: self.settings.interrupted,
            progress: &|message| progress.say(message),
            meter: self.settings.meter,
        };
        let outcome = run::run(&task.id, problem.workload(&gpus), &services);
        let is_finished = !outcome.rows.is_empty();
        self.record.rows.extend(outcome.rows);
        for absent in outcome.not_run {
            self.leave_out(absent);
        }
        self.record.fill_shares();
        self.write()?;
        Ok(is_finished)
    }

    /// Measures the peaks and keeps the best values seen. If the CPU's peaks changed by more than
    /// [`DISTURBED`], the machine is marked as disturbed, because the times of this run are less
    /// reliable.
    fn measure_peaks(&mut self) {
        let machine = &mut self.record.machine;
        let cpu = peak::cpu(machine.cores);
        let before = machine.peaks.cpu();
        let changes = [
            ("arithmetic", before.flops.zip(cpu.flops)),
            ("copy", before.copy_bytes_per_s.zip(cpu.copy_bytes_per_s)),
        ];
        let ratios = changes.into_iter().filter_map(|(what, both)| {
            let (before, now) = both?;
            Some((what, before.max(now) / before.min(now)))
        });
        let changed = ratios
            .filter(|(_, ratio)| *ratio > DISTURBED)
            .map(|(what, ratio)| {
                format!(
                    "the CPU's {what} peak changed by a factor of {ratio:.2} during the run: the \
                     times of this run are less reliable"
                )
            });
        let mut disturbed: Vec<String> = not_alone(&self.lock).into_iter().chain(changed).collect();
        let cpu = peak::better(before, cpu);
        machine.peaks.cpu_flops = cpu.flops;
        machine.peaks.cpu_copy_bytes_per_s = cpu.copy_bytes_per_s;
        for (set, rate) in peak::cpu_bit_products(machine.cores) {
            let best = machine.peaks.cpu_bit_products.entry(set).or_default();
            *best = best.max(rate);
        }
        for gpu in self.open() {
            let name = &gpu.adapter().name;
            match peak::gpu(&gpu) {
                Ok(peaks) => {
                    let adapters = &mut self.record.machine.peaks.adapters;
                    let known = adapters.entry(name.clone()).or_default();
                    *known = peak::better(*known, peaks);
                }
                Err(error) => self.leave_out(not_opened(name, &format!("peaks: {error:#}"))),
            }
        }
        self.record.fill_shares();
        let share = self.record.largest_share();
        if let Some(share) = share.filter(|&share| share > ABOVE_PEAK) {
            disturbed.push(format!(
                "a result is {share:.2} times as fast as the measured peak: the peak is too low"
            ));
        }
        let machine = &mut self.record.machine;
        machine.disturbed = (!disturbed.is_empty()).then(|| disturbed.join("; "));
    }

    /// Opens a new device on every adapter; an adapter that cannot be opened is listed as not run.
    fn open(&mut self) -> Vec<Gpu> {
        let mut gpus = Vec::new();
        for place in 0..self.adapters.len() {
            let adapter = &self.adapters[place];
            match Gpu::open(Select::Index(adapter.index)) {
                Ok(gpu) => gpus.push(gpu),
                Err(error) => self.leave_out(not_opened(&adapter.name, &error.to_string())),
            }
        }
        gpus
    }
}

/// Returns the warning about another campaign on this machine; `None` without one.
fn not_alone(lock: &Lock) -> Option<String> {
    let warning = "another run of bench was active when this one began";
    (!lock.is_alone).then(|| warning.to_owned())
}

/// Returns the row of a task that panicked.
fn panicked(task: &Task, panic: &(dyn Any + Send)) -> Row {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "no message".to_owned());
    Row {
        workload: task.id.name.to_owned(),
        source: task.id.source.to_owned(),
        size: task.id.size.clone(),
        executor: ALL.to_owned(),
        check: Check::Failed(format!("panicked: {text}")),
        ..Row::default()
    }
}

fn aborted(task: &Task) -> NotRun {
    NotRun {
        what: task.id.to_string(),
        why: "interrupted".to_owned(),
        how: "run bench again".to_owned(),
    }
}

fn not_prepared(task: &Task, error: &anyhow::Error) -> NotRun {
    NotRun {
        what: task.id.to_string(),
        why: format!("the inputs or the expected result cannot be computed: {error:#}"),
        how: String::new(),
    }
}

fn no_rivals(why: &str, how: &str) -> NotRun {
    NotRun {
        what: "rivals".to_owned(),
        why: why.to_owned(),
        how: how.to_owned(),
    }
}

fn not_opened(adapter: &str, why: &str) -> NotRun {
    NotRun {
        what: adapter.to_owned(),
        why: why.to_owned(),
        how: "see `cargo xtask doctor`".to_owned(),
    }
}

fn no_adapter() -> NotRun {
    NotRun {
        what: "GPU executor (wgsl)".to_owned(),
        why: "no Vulkan, Metal or DX12 adapter was found".to_owned(),
        how: "install a driver; on Debian without a GPU: apt-get install mesa-vulkan-drivers libvulkan1".to_owned(),
    }
}

fn facts(adapter: &Adapter) -> AdapterFacts {
    AdapterFacts {
        name: adapter.name.clone(),
        backend: adapter.backend.clone(),
        driver: adapter.driver.clone(),
        device_type: format!("{:?}", adapter.device_type),
        limits: adapter
            .limits
            .named()
            .map(|(name, limit)| (name.to_owned(), limit))
            .into(),
        features: Feature::ALL
            .map(|feature| (feature.to_string(), adapter.features.contains(&feature)))
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::NoMeter;
    use crate::workload::{Problem, Workload};
    use anyhow::bail;
    use tool_io::TemporaryFolder;

    /// A problem that is never created.
    struct Absent;

    impl Problem for Absent {
        fn workload<'a>(&'a self, _: &'a [Gpu]) -> Workload<'a> {
            unreachable!("`prepare` fails")
        }
    }

    #[test]
    fn a_task_that_cannot_be_prepared_is_listed_and_the_others_go_on() {
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "campaign").unwrap();
        let (progress, interrupted) = (Progress::new(), || false);
        let mut campaign = Campaign::new(Settings {
            folder: folder.path(),
            with_rivals: false,
            packages: &[],
            data_origin: &|| None,
            meter: &NoMeter,
            interrupted: &interrupted,
            progress: &progress,
            finished: &|_| Ok(()),
        })
        .unwrap();
        let left_out: Task = Task::new("sort", "S2", "10", || -> Result<Absent> {
            Err(no_rivals("no data", "fetch it").into())
        });
        assert!(campaign.run_task(&left_out).unwrap());
        assert!(!campaign.has_failed());
        let broken = Task::new("sort", "S2", "20", || -> Result<Absent> {
            bail!("the file ends early")
        });
        assert!(campaign.run_task(&broken).unwrap());
        assert!(campaign.has_failed());
        let bad = Task::new("sort", "S2", "30", || -> Result<Absent> {
            panic!("index {}", 7)
        });
        assert!(campaign.run_task(&bad).unwrap());
        let row = &campaign.record().rows[0];
        assert_eq!(row.check, Check::Failed("panicked: index 7".into()));
        assert_eq!((row.size.as_str(), campaign.record().rows.len()), ("30", 1));
        let listed = campaign.record().not_run.last().unwrap();
        assert_eq!((listed.what.as_str(), listed.how.as_str()), ("sort/20", ""));
        assert!(
            listed.why.ends_with("the file ends early"),
            "{}",
            listed.why
        );
    }
}
