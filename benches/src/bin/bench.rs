//! The bench command: checks and times every workload on every executor of this machine, and writes
//! a record and a report.
//!
//! Role: built and run by `cargo xtask bench`; a bundle contains it for machines without cargo.

use anyhow::{Context, Result};
use benches::machine;
use benches::meter::Meter;
use benches::mnist::{self, Images};
use benches::record::{AdapterFacts, Check, Machine, NotRun, Record};
use benches::run::{self, Setting};
use benches::sampling;
use benches::workload::{Problem, Task};
use benches::{peak, report, rivals, table, workloads};
use gpu_wgsl::{Adapter, DeviceType, Feature, Gpu, Select};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tool_io::output::print;
use tool_io::replace_file;
use tool_io::signals::{self, INTERRUPTED};

const HELP: &str = "\
bench: check and time every workload on every executor of this machine, and write a report

usage: cargo xtask bench [options]        (in a bundle: ./bench [options])

  --only PATTERN  run only workloads whose `name/size` contains PATTERN
  --list          print `name/size` of the workloads and exit
  --data DIR      read the images from DIR: at least 50000 images of 28 x 28 bytes in IDX format, in a file
                  train-images-idx3-ubyte or train-images-idx3-ubyte.gz
  --no-rivals     do not measure other libraries (NumPy, PyTorch, ...)
  --record        also write the record to benches/record/
  --out DIR       write bench/<date>.json and report/index.html under DIR (default: target)
  --json          print one JSON object per row instead of the table
  --sample DIR    profile instead of measuring: run each workload on the host executor for ten seconds, every other
                  half second under a stack sampler (Unix), write DIR/<name>-<size>.folded with one line `a;b;c count`
                  per stack, as read by flame-graph tools, and print the ten functions with the largest self time
  --help          print this help

Environment: RIVALS_PYTHON is the Python interpreter of the rivals, DATA_DIR the folder that contains mnist/.
Exit code: 0; 1 if a check failed; 2 for wrong usage; 130 if interrupted, with the finished workloads on disk.
";

/// Exit code for wrong usage.
const USAGE: u8 = 2;
/// Ratio of two measurements of the same peak above which the machine counts as disturbed.
const DISTURBED: f64 = 1.15;
/// Share of a measured peak above which the peak is reported as wrong: no result can exceed it.
const ABOVE_PEAK: f64 = 1.15;

#[derive(Debug, Default)]
struct Options {
    only: Option<String>,
    list: bool,
    data: Option<PathBuf>,
    no_rivals: bool,
    record: bool,
    out: Option<PathBuf>,
    json: bool,
    sample: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = match parse() {
        Ok(Some(options)) => options,
        Ok(None) => {
            let _ = print(HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("bench: {error}\n\n{HELP}");
            return ExitCode::from(USAGE);
        }
    };
    match bench(&options) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("only") => options.only = Some(parser.value()?.string()?),
            Long("list") => options.list = true,
            Long("data") => options.data = Some(parser.value()?.into()),
            Long("no-rivals") => options.no_rivals = true,
            Long("record") => options.record = true,
            Long("out") => options.out = Some(parser.value()?.into()),
            Long("json") => options.json = true,
            Long("sample") => options.sample = Some(parser.value()?.into()),
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(options))
}

fn bench(options: &Options) -> Result<ExitCode> {
    let adapters = gpu_wgsl::adapters();
    let real_gpu = adapters
        .iter()
        .any(|adapter| adapter.device_type != DeviceType::Cpu);
    let pattern = options.only.as_deref().unwrap_or("");
    let mut tasks = workloads::all(real_gpu);
    tasks.retain(|task| task.id().contains(pattern));
    if options.list {
        print(
            tasks
                .iter()
                .map(|task| task.id() + "\n")
                .collect::<String>(),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    if tasks.is_empty() {
        eprintln!("bench: no workload matches {pattern:?}; --list prints all of them");
        return Ok(ExitCode::from(USAGE));
    }
    let images = mnist::load(options.data.as_deref())?;
    let progress = Progress::new();
    let interrupted = on_interrupt()?;
    let has_labels = images.labelled.is_some();
    let (tasks, unlabelled): (Vec<Task>, Vec<Task>) = tasks
        .into_iter()
        .partition(|task| has_labels || !task.needs_labels);
    if let Some(folder) = &options.sample {
        for task in &unlabelled {
            let left_out = without_labels(task);
            print(format!("not run: {}: {}\n", left_out.what, left_out.why))?;
        }
        return sample(&tasks, &images, folder, &interrupted, &progress);
    }
    progress.say("measuring the peaks of this machine");
    let mut campaign = Campaign::start(options, &images, adapters)?;
    for task in &unlabelled {
        campaign.leave_out(without_labels(task));
    }
    for task in tasks {
        if interrupted.load(Ordering::Relaxed) {
            campaign.leave_out(aborted(&task));
            continue;
        }
        progress.say(&format!("{}: computing the oracle", task.id()));
        let problem = (task.prepare)(&images).with_context(|| task.id())?;
        if !campaign.run(problem.as_ref(), &interrupted, &progress)? {
            campaign.leave_out(aborted(&task));
        }
    }
    if !interrupted.load(Ordering::Relaxed) {
        progress.say("measuring the peaks of this machine again");
        campaign.measure_peaks();
    }
    progress.done();
    campaign.finish(options)?;
    let failed = campaign
        .record
        .rows
        .iter()
        .any(|row| matches!(row.check, Check::Failed(_)));
    Ok(match (interrupted.load(Ordering::Relaxed), failed) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    })
}

/// Profiles each workload on the host executor and writes the folded stacks into `folder`; nothing
/// else is measured.
fn sample(
    tasks: &[Task],
    images: &Images,
    folder: &Path,
    interrupted: &AtomicBool,
    progress: &Progress,
) -> Result<ExitCode> {
    for task in tasks {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(ExitCode::from(INTERRUPTED));
        }
        progress.say(&format!("{}: sampling", task.id()));
        let problem = (task.prepare)(images).with_context(|| task.id())?;
        let sampled = sampling::sample_host(problem.workload(&[])).with_context(|| task.id())?;
        let Some(sampled) = sampled else {
            eprintln!(
                "{}: not sampled (no variant for the host executor)",
                task.id()
            );
            continue;
        };
        let path = folder.join(format!("{}-{}.folded", task.name, task.size));
        replace_file(&path, &sampled.stacks.folded())?;
        print(format!(
            "{} in {}: {}",
            task.id(),
            path.display(),
            sampled.summary()
        ))?;
    }
    progress.done();
    Ok(ExitCode::SUCCESS)
}

/// A run of the bench command: its record is written to disk after every workload.
struct Campaign {
    record: Record,
    path: PathBuf,
    python: Option<PathBuf>,
    adapters: Vec<Adapter>,
    meter: Meter,
}

impl Campaign {
    /// Measures the machine and writes the record for the first time, so that a path that cannot be
    /// written is reported at once.
    fn start(options: &Options, images: &Images, adapters: Vec<Adapter>) -> Result<Self> {
        let mut record = Record::new(Machine {
            data_origin: Some(images.origin.clone()),
            adapters: adapters.iter().map(facts).collect(),
            ..machine::describe()
        });
        if adapters.is_empty() {
            record.not_run.push(no_adapter());
        }
        let python = if options.no_rivals {
            Err(no_rivals("--no-rivals", "omit --no-rivals"))
        } else {
            rivals::python().map_err(|absent| no_rivals(&absent.why, &absent.how))
        };
        let python = python.map_err(|absent| record.not_run.push(absent)).ok();
        let path = options.out().join("bench").join(record.file_name());
        let mut campaign = Self {
            record,
            path,
            python,
            adapters,
            meter: Meter::open(),
        };
        campaign.record.write(&campaign.path)?;
        campaign.measure_peaks();
        if let Some(only) = &options.only {
            campaign.leave_out(NotRun {
                what: "other workloads".to_owned(),
                why: format!("--only {only}"),
                how: "omit --only".to_owned(),
            });
        }
        Ok(campaign)
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
        let mut disturbed: Vec<String> = ratios
            .filter(|(_, ratio)| *ratio > DISTURBED)
            .map(|(what, ratio)| {
                format!(
                    "the CPU's {what} peak changed by a factor of {ratio:.2} during the run: the \
                     times of this run are less reliable"
                )
            })
            .collect();
        let cpu = peak::better(before, cpu);
        machine.peaks.cpu_flops = cpu.flops;
        machine.peaks.cpu_copy_bytes_per_s = cpu.copy_bytes_per_s;
        for gpu in self.open() {
            let name = &gpu.adapter().name;
            match peak::gpu(&gpu) {
                Ok(peaks) => {
                    let known = self
                        .record
                        .machine
                        .peaks
                        .adapters
                        .entry(name.clone())
                        .or_default();
                    *known = peak::better(*known, peaks);
                }
                Err(error) => self.leave_out(not_opened(name, &format!("peaks: {error:#}"))),
            }
        }
        self.record.fill_shares();
        if let Some(share) = self
            .record
            .largest_share()
            .filter(|&share| share > ABOVE_PEAK)
        {
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

    /// Adds an entry to the list of parts not run, unless it is already listed.
    fn leave_out(&mut self, absent: NotRun) {
        if !self.record.not_run.contains(&absent) {
            self.record.not_run.push(absent);
        }
    }

    /// Runs one workload and writes the record; returns false if the workload was aborted.
    fn run(
        &mut self,
        problem: &dyn Problem,
        interrupted: &AtomicBool,
        progress: &Progress,
    ) -> Result<bool> {
        // Each workload uses new devices: kernels compiled for an earlier workload would make a
        // first call look cheap.
        let gpus = self.open();
        let setting = Setting {
            python: self.python.as_deref(),
            interrupted: &|| interrupted.load(Ordering::Relaxed),
            progress: &|message| progress.say(message),
            meter: &self.meter,
        };
        let outcome = run::run(problem.workload(&gpus), &setting);
        let finished = !outcome.rows.is_empty();
        self.record.rows.extend(outcome.rows);
        outcome
            .not_run
            .into_iter()
            .for_each(|absent| self.leave_out(absent));
        self.record.fill_shares();
        self.record.write(&self.path)?;
        Ok(finished)
    }

    /// Prints the results, then writes the files, so that a full disk does not lose the printed
    /// results.
    fn finish(&self, options: &Options) -> Result<()> {
        if options.json {
            let lines = self
                .record
                .rows
                .iter()
                .map(serde_json::to_string)
                .collect::<Result<Vec<_>, _>>()?;
            print(
                lines
                    .iter()
                    .map(|line| format!("{line}\n"))
                    .collect::<String>(),
            )?;
        } else {
            print(format!("{}\n", table::render(&self.record)))?;
        }
        self.record.write(&self.path)?;
        eprintln!("record: {}", self.path.display());
        if options.record {
            let kept = Path::new("benches/record").join(self.record.file_name());
            self.record.write(&kept)?;
            eprintln!("copy:   {}", kept.display());
        }
        let page = options.out().join("report").join("index.html");
        report::write(std::slice::from_ref(&self.record), &page)?;
        eprintln!("report: {}", page.display());
        Ok(())
    }
}

fn aborted(task: &Task) -> NotRun {
    NotRun {
        what: task.id(),
        why: "interrupted".to_owned(),
        how: "run bench again".to_owned(),
    }
}

fn without_labels(task: &Task) -> NotRun {
    NotRun {
        what: task.id(),
        why: "labels or test images are missing".to_owned(),
        how: "pass --data a folder with all four files of MNIST".to_owned(),
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

impl Options {
    fn out(&self) -> &Path {
        self.out.as_deref().unwrap_or(Path::new("target"))
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

/// Installs the handler that sets a flag on an interrupt; a second interrupt exits at once.
fn on_interrupt() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let mark = Arc::clone(&interrupted);
    signals::on_stop(move |_| {
        if mark.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        eprintln!("interrupted: finishing the current step; interrupt again to exit at once");
    })?;
    Ok(interrupted)
}

/// Progress display: a spinner on a terminal, otherwise one line per step.
struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar }
    }

    fn say(&self, message: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(message.to_owned()),
            None => eprintln!("{message}"),
        }
    }

    fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
