//! The trace command: samples power and utilisation while a command runs, or until it is stopped.
//!
//! Role: `cargo xtask trace` and `cargo xtask demo` build and run this program; a bundle carries it along.
//! Method: rows go to the file as they are sampled, so whatever ends the program leaves what was written a second before.
//! Ctrl-C and SIGTERM end sampling, not the program: the end of the file, the energy and the report still come.

use anyhow::{Context, Result, bail};
use benches::report::{trace_page, verdict};
use benches::{output, record::replace_file, units};
use indicatif::{ProgressBar, ProgressStyle};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use telemetry::format::{self, Dialect, Writer};
use telemetry::nvml::Nvml;
use telemetry::rapl::Rapl;
use telemetry::replay::Replay;
use telemetry::synthetic::{Model, Program, Quantity, Scenario, Synthetic};
use telemetry::{Metric, Running, Sampler, Select, Trace};

const HELP: &str = "\
trace: sample power, energy and utilisation

usage: cargo xtask trace [options] [-- COMMAND …]

Samples while COMMAND runs, without one until Ctrl-C or SIGTERM. Ends with the energy, how sure it is, what kept the
device from working, and a report.

  --gpu NAME        only this one, by index, UUID or PCI place; may be given again (default: all)
  --interval TIME   100ms, 0.5s, 20us … (default 100ms)
  --for TIME        stop after this time
  --out FILE        write rows to FILE as they come (default: log.csv)
  --format FORMAT   seed (the `;` columns of the source's script, first device; the default for .csv), csv, jsonl or chrome
  --report FILE     write the HTML report there (default: the file's name with .html)
  --source SOURCE   nvml, rapl, demo (a GPU that does not exist), or a recorded file (default: nvml, else rapl)
  --nvml PATH       load NVIDIA's library from there
  --serve ADDRESS   answer GET /metrics for Prometheus meanwhile: 127.0.0.1:9835, say
  --quiet           no live line
  --json            print the result as one JSON object
  --help            print this

Exit: that of COMMAND; 0 without one; 1 where nothing could be sampled.
";
/// How often the program looks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);
/// How often the live line changes, in looks.
const LIVE: u64 = 10;

struct Options {
    select: Select,
    interval: Duration,
    at_most: Option<Duration>,
    out: PathBuf,
    dialect: Option<Dialect>,
    report: Option<PathBuf>,
    source: Option<OsString>,
    nvml: Option<PathBuf>,
    serve: Option<SocketAddr>,
    is_quiet: bool,
    is_json: bool,
    command: Vec<OsString>,
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("trace: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let Some(options) = parse()? else {
        output::print(HELP)?;
        return Ok(ExitCode::SUCCESS);
    };
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&stop);
    ctrlc::set_handler(move || theirs.store(true, Ordering::Release))?;
    let dialect = options
        .dialect
        .unwrap_or_else(|| match Dialect::of_path(&options.out) {
            Dialect::Csv => Dialect::Seed,
            other => other,
        });
    let running = sampler(&options)?
        .interval(options.interval)
        .select(options.select.clone())
        .to(Writer::create(dialect, &options.out)?)
        .start()?;
    let n_devices = running.look(|trace| trace.devices.len());
    if dialect == Dialect::Seed && n_devices > 1 {
        eprintln!(
            "trace: the script's columns hold the first of {n_devices} devices; --format csv holds all"
        );
    }
    let running = Arc::new(running);
    let endpoint = options.serve.map(|address| {
        let running = Arc::clone(&running);
        telemetry::serve::serve(Some(address), move || running.look(Trace::clone))
    });
    let endpoint = endpoint.transpose()?;
    let child = start(&options.command)?;
    let code = wait(&options, &running, child, &stop)?;
    drop(endpoint);
    let running = Arc::try_unwrap(running)
        .ok()
        .context("the endpoint goes on")?;
    let stopped = running.stop();
    for failure in &stopped.failures {
        eprintln!("trace: {}: {failure}", options.out.display());
    }
    conclude(&options, &stopped.trace)?;
    Ok(if stopped.failures.is_empty() {
        code
    } else {
        ExitCode::FAILURE
    })
}

fn parse() -> Result<Option<Options>> {
    use lexopt::prelude::*;
    let mut names = vec![];
    let mut options = Options {
        select: Select::All,
        interval: Duration::from_millis(100),
        at_most: None,
        out: "log.csv".into(),
        dialect: None,
        report: None,
        source: None,
        nvml: None,
        serve: None,
        is_quiet: false,
        is_json: false,
        command: vec![],
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("gpu") => names.push(parser.value()?.string()?),
            Long("interval") => options.interval = parser.value()?.parse_with(time)?,
            Long("for") => options.at_most = Some(parser.value()?.parse_with(time)?),
            Long("out") => options.out = parser.value()?.into(),
            Long("format") => options.dialect = Some(parser.value()?.parse_with(dialect)?),
            Long("report") => options.report = Some(parser.value()?.into()),
            Long("source") => options.source = Some(parser.value()?),
            Long("nvml") => options.nvml = Some(parser.value()?.into()),
            Long("serve") => options.serve = Some(parser.value()?.parse()?),
            Long("quiet") => options.is_quiet = true,
            Long("json") => options.is_json = true,
            Long("help") | Short('h') => return Ok(None),
            Value(first) => {
                options.command = [first].into_iter().chain(parser.raw_args()?).collect();
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if !names.is_empty() {
        options.select = Select::Named(names);
    }
    Ok(Some(options))
}

/// Reads a time with its unit.
fn time(text: &str) -> Result<Duration> {
    let place = text.find(|letter: char| letter.is_alphabetic() || letter == 'µ');
    let (number, unit) = text.split_at(place.unwrap_or(text.len()));
    let per_second = match unit {
        "s" | "" => 1.0,
        "ms" => 1e3,
        "us" | "µs" => 1e6,
        "min" => 1.0 / 60.0,
        _ => bail!("{text:?} has none of the units s, ms, us, min"),
    };
    let seconds: f64 = number
        .trim()
        .parse()
        .with_context(|| format!("{text:?} is no time"))?;
    Duration::try_from_secs_f64(seconds / per_second).with_context(|| format!("{text:?}"))
}

fn dialect(text: &str) -> Result<Dialect> {
    Ok(match text {
        "seed" => Dialect::Seed,
        "csv" => Dialect::Csv,
        "jsonl" => Dialect::JsonLines,
        "chrome" => Dialect::ChromeTrace,
        _ => bail!("{text:?} is none of seed, csv, jsonl, chrome"),
    })
}

fn sampler(options: &Options) -> Result<Sampler> {
    let nvml = || {
        options
            .nvml
            .as_deref()
            .map_or_else(Nvml::open, Nvml::open_at)
    };
    Ok(
        match options
            .source
            .as_ref()
            .map(|source| source.to_string_lossy())
            .as_deref()
        {
            Some("nvml") => Sampler::new(nvml()?),
            Some("rapl") => Sampler::new(Rapl::open()?),
            Some("demo") => Sampler::new(demo()?),
            Some(path) => Sampler::new(Replay::of(recorded(Path::new(path))?)),
            None => match nvml() {
                Ok(nvml) => Sampler::new(nvml),
                // Who named a library wants that one.
                Err(error) if options.nvml.is_some() => return Err(error.into()),
                Err(no_gpu) => match Rapl::open() {
                    Ok(rapl) => Sampler::new(rapl),
                    Err(no_cpu) => bail!(
                        "nothing to sample: {no_gpu}; {no_cpu} (see `cargo xtask doctor`, and `cargo xtask demo` for a look without a GPU)"
                    ),
                },
            },
        },
    )
}

/// Gives a GPU that computes for 1.2 s and waits for 0.8, again and again.
fn demo() -> Result<Synthetic> {
    const PERIOD_S: f64 = 2.0;
    const DUTY: f64 = 0.6;
    let mut scenario = Scenario::default();
    for gpu in &mut scenario.gpus {
        gpu.power = Program::square(15.0, 65.0, PERIOD_S, DUTY);
        gpu.utilisation.gpu_pct = Quantity::square(0.0, 96.0, PERIOD_S, DUTY);
        gpu.utilisation.memory_pct = Quantity::square(0.0, 38.0, PERIOD_S, DUTY);
    }
    Ok(Synthetic::new(Model::new(scenario)?))
}

fn recorded(path: &Path) -> Result<Trace> {
    let bytes = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
    let read = format::read(&bytes).with_context(|| format!("{}", path.display()))?;
    for skipped in &read.skipped {
        eprintln!("trace: {}: passed over: {skipped}", path.display());
    }
    Ok(read.trace)
}

fn start(command: &[OsString]) -> Result<Option<Child>> {
    let Some((program, args)) = command.split_first() else {
        return Ok(None);
    };
    let child = Command::new(program).args(args).spawn();
    let child =
        child.with_context(|| format!("{} could not be started", program.to_string_lossy()))?;
    Ok(Some(child))
}

/// Waits for the command, the time or a signal; gives the command's exit code.
fn wait(
    options: &Options,
    running: &Running,
    mut child: Option<Child>,
    stop: &AtomicBool,
) -> Result<ExitCode> {
    let live = if options.is_quiet {
        ProgressBar::hidden()
    } else {
        ProgressBar::new_spinner()
    };
    live.set_style(ProgressStyle::with_template("{spinner} {msg}")?);
    let mut looks = 0_u64;
    let code = loop {
        if let Some(status) = child.as_mut().map(Child::try_wait).transpose()?.flatten() {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            break code.map_or(ExitCode::FAILURE, ExitCode::from);
        }
        let is_over = options
            .at_most
            .is_some_and(|at_most| running.now() >= at_most);
        if stop.load(Ordering::Acquire) || is_over {
            // Ctrl-C reached the command as well; a command that is to outlive its trace does.
            break ExitCode::SUCCESS;
        }
        if looks.is_multiple_of(LIVE) {
            live.set_message(running.look(live_line));
        }
        looks += 1;
        std::thread::sleep(LOOK);
    };
    live.finish_and_clear();
    Ok(code)
}

/// Says in a line how it stands.
fn live_line(trace: &Trace) -> String {
    let mut line = format!("{:.0} s", trace.duration().as_secs_f64());
    for (index, device) in trace.devices.iter().enumerate() {
        let Some(row) = trace.rows.iter().rev().find(|row| row.device == index) else {
            continue;
        };
        line += &format!(" | {} {}", device.index, device.name);
        let power = [
            Metric::PowerInstant,
            Metric::PowerDraw,
            Metric::PowerAverage,
        ];
        let power = power.into_iter().find_map(|metric| row.values.get(metric));
        line += &power.map_or_else(String::new, |watts| format!(" {watts:.0} W"));
        let busy = row.values.get(Metric::GpuBusy);
        line += &busy.map_or_else(String::new, |busy| format!(" {busy:.0} % busy"));
        let first = trace
            .of_device(index)
            .find_map(|row| row.values.get(Metric::Energy));
        let joules = first
            .zip(row.values.get(Metric::Energy))
            .map(|(first, now)| now - first);
        line += &joules.map_or_else(String::new, |joules| {
            format!(" {} J", units::digits(joules))
        });
    }
    line
}

/// Prints what it came to, and writes the report.
fn conclude(options: &Options, trace: &Trace) -> Result<()> {
    let report = options
        .report
        .clone()
        .unwrap_or_else(|| options.out.with_extension("html"));
    replace_file(&report, &trace_page(trace)?)?;
    let window = |device: usize| {
        let mut rows = trace.of_device(device).map(|row| row.time);
        let start = rows.next().unwrap_or_default();
        start..rows.last().unwrap_or(start)
    };
    if options.is_json {
        let device = |(index, device): (usize, &telemetry::Device)| {
            serde_json::json!({
                "device": device,
                "energy": trace.energy(index, window(index)),
                "verdict": verdict(trace, index),
            })
        };
        let devices: Vec<_> = trace.devices.iter().enumerate().map(device).collect();
        let said = serde_json::json!({
            "rows": trace.rows.len(),
            "out": options.out,
            "report": report,
            "overhead": trace.overhead,
            "faults": trace.faults,
            "devices": devices,
        });
        return output::print(&format!("{said}\n"));
    }
    let mut said = String::new();
    for (index, device) in trace.devices.iter().enumerate() {
        let energy = trace.energy(index, window(index));
        let energy = energy.map_or_else(
            || "told neither energy nor power".to_owned(),
            |energy| energy.to_string(),
        );
        said += &format!("{} {}: {energy}\n", device.index, device.name);
        for sentence in verdict(trace, index) {
            said += &format!("  {sentence}\n");
        }
    }
    for fault in &trace.faults {
        said += &format!(
            "  {} failed {} times: {}\n",
            fault.metric, fault.count, fault.fault
        );
    }
    said += &format!(
        "rows: {}, report: {}\n",
        options.out.display(),
        report.display()
    );
    output::print(&said)
}
