//! The bench command: checks and times every workload on every executor of this machine, and writes
//! a record and a report.
//!
//! Role: built and run by `cargo xtask bench`; a bundle contains it for machines without cargo.

use anyhow::{Context, Result};
use benches::meter::Meter;
use benches::mnist::LazyImages;
use benches::workloads;
use gpu_wgsl::DeviceType;
use harness::campaign::{Campaign, Settings};
use harness::progress::Progress;
use harness::record::{NotRun, Record};
use harness::workload::Task;
use harness::{report, sampling, table};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tool_io::output::print;
use tool_io::replace_file;
use tool_io::signals::{self, INTERRUPTED};

const HELP: &str = "\
bench: check and time every workload on every executor of this machine, and write a report

usage: cargo xtask bench [options]        (in a bundle: ./bench [options])

  --only PATTERN  run only workloads whose `name/size` contains PATTERN; may be given several times
  --full          also run the long workloads, which take minutes each; --list marks them
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

#[derive(Debug, Default)]
struct Options {
    only: Vec<String>,
    full: bool,
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
            Long("only") => options.only.push(parser.value()?.string()?),
            Long("full") => options.full = true,
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
    let mut adapters = gpu_wgsl::adapters().into_iter();
    let real_gpu = adapters.any(|adapter| adapter.device_type != DeviceType::Cpu);
    let images = Rc::new(LazyImages::new(options.data.clone()));
    let mut tasks = workloads::all(real_gpu, &images);
    let known: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
    let is_chosen = |id: &str| {
        let mut patterns = options.only.iter();
        options.only.is_empty() || patterns.any(|pattern| id.contains(pattern))
    };
    tasks.retain(|task| is_chosen(&task.id.to_string()));
    let n_chosen = tasks.len();
    if !options.list {
        tasks.retain(|task| options.full || !task.is_long);
    }
    let n_long = n_chosen - tasks.len();
    let mut patterns = options.only.iter();
    if let Some(pattern) = patterns.find(|only| !known.iter().any(|id| id.contains(*only))) {
        eprintln!("bench: no workload matches {pattern:?}; --list prints all of them");
        return Ok(ExitCode::from(USAGE));
    }
    if tasks.is_empty() {
        eprintln!("bench: all workloads that match are long; add --full to run them");
        return Ok(ExitCode::from(USAGE));
    }
    if options.list {
        let ids = tasks.iter().map(|task| {
            let mark = if task.is_long { " (long: --full)" } else { "" };
            format!("{}{mark}\n", task.id)
        });
        print(ids.collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let progress = Progress::new();
    let interrupted = on_interrupt()?;
    let is_interrupted = || interrupted.load(Ordering::Relaxed);
    if let Some(folder) = &options.sample {
        return sample(&tasks, folder, &is_interrupted, &progress);
    }
    let out = options.out.as_deref().unwrap_or(Path::new("target"));
    let (records, meter) = (out.join("bench"), Meter::open());
    let mut campaign = Campaign::new(Settings {
        folder: &records,
        with_rivals: !options.no_rivals,
        data_origin: Some(images.get()?.origin.clone()),
        meter: &meter,
        interrupted: &is_interrupted,
        progress: &progress,
    })?;
    if !options.only.is_empty() {
        campaign.leave_out(NotRun {
            what: "other workloads".to_owned(),
            why: format!("--only {}", options.only.join(" --only ")),
            how: "omit --only".to_owned(),
        });
    }
    if n_long > 0 {
        campaign.leave_out(NotRun {
            what: format!("{n_long} long workloads"),
            why: "each takes minutes".to_owned(),
            how: "add --full".to_owned(),
        });
    }
    campaign.run(&tasks)?;
    // The results are printed before more files are written, so that a full disk does not lose
    // them.
    let record = campaign.record();
    show(record, options.json)?;
    eprintln!("record: {}", campaign.path().display());
    if options.record {
        let copy = Path::new("benches/record").join(record.file_name());
        record.write(&copy)?;
        eprintln!("copy:   {}", copy.display());
    }
    let page = out.join("report").join("index.html");
    report::write(record, &page)?;
    eprintln!("report: {}", page.display());
    Ok(match (is_interrupted(), campaign.has_failed()) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    })
}

/// Prints the table of a record, or its rows as JSON.
fn show(record: &Record, json: bool) -> Result<()> {
    if !json {
        return Ok(print(format!("{}\n", table::render(record)))?);
    }
    for row in &record.rows {
        print(serde_json::to_string(row)? + "\n")?;
    }
    Ok(())
}

/// Profiles each workload on the host executor and writes the folded stacks into `folder`; nothing
/// else is measured.
fn sample(
    tasks: &[Task],
    folder: &Path,
    is_interrupted: &dyn Fn() -> bool,
    progress: &Progress,
) -> Result<ExitCode> {
    for task in tasks {
        if is_interrupted() {
            return Ok(ExitCode::from(INTERRUPTED));
        }
        progress.say(&format!("{}: sampling", task.id));
        let problem = match task.prepare() {
            Ok(problem) => problem,
            Err(error) => {
                print(format!("not run: {}\n", error.downcast::<NotRun>()?))?;
                continue;
            }
        };
        let sampled = sampling::sample_host(problem.workload(&[]));
        let Some(sampled) = sampled.with_context(|| task.id.to_string())? else {
            eprintln!(
                "{}: not sampled (no variant for the host executor)",
                task.id
            );
            continue;
        };
        let path = folder.join(format!("{}-{}.folded", task.id.name, task.id.size));
        replace_file(&path, &sampled.stacks.folded())?;
        print(format!(
            "{} in {}: {}",
            task.id,
            path.display(),
            sampled.summary()
        ))?;
    }
    progress.done();
    Ok(ExitCode::SUCCESS)
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
