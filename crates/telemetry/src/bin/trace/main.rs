//! The trace command: samples power and utilisation while a command runs, or until it is stopped.
//!
//! Role: `cargo xtask trace` and `cargo xtask demo` build and run this program; a bundle contains
//! the program.
//! Method: rows are written to the file while they are sampled, so that at most about a second of
//! rows is lost if the program is killed. Ctrl-C and SIGTERM end the command, if there is one, and
//! then sampling; the rest of the file, the energy and the report are still written.

mod analyses;
mod chart;
mod command;
mod conclusion;
mod findings;
mod json;
mod page;
mod settings;

use analyses::Pair;
use anyhow::{Context, Result, anyhow, bail, ensure};
use charts::units;
use command::{Event, Events, NotStarted, Traced, code_of};
use commands::trace::{Analysis, Trace as Options};
use conclusion::{Ending, conclude};
use findings::Findings;
use indicatif::{ProgressBar, ProgressStyle};
use settings::{Input, Settings, is_same, selection};
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::sync::{Arc, Weak};
use std::time::Duration;
use telemetry::format::{self, Dialect, Release, Writer};
use telemetry::nvml::Nvml;
use telemetry::rapl::Rapl;
use telemetry::synthetic::{Model, PowerProfile, Quantity, Scenario, Synthetic};
use telemetry::{
    EnergyTotal, Failure, Metric, POST_ROLL, Running, Sampler, Select, Snapshot, Trace,
};
use tool_io::{output, replace_file};

/// Interval at which the live line is updated. Events that end the program wake it earlier.
const LIVE: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let parsed = Options::parse_words(std::env::args_os());
    let done = parsed.and_then(|options| {
        if let Some(analysis) = options.analysis {
            return Ok(analyse(analysis, &selection(options.gpu), options.json));
        }
        let settings = Settings::new(options)?;
        Ok(match settings.file() {
            Some(file) => convert(&settings, file),
            None => sample(&settings),
        })
    });
    match done {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            output::note(format_args!("trace: {error:#}"));
            let code = error.downcast_ref::<NotStarted>().map(NotStarted::code);
            code.map_or(ExitCode::FAILURE, ExitCode::from)
        }
        // Prints the help or the version and exits with 0, or prints the error and exits with 2.
        Err(usage) => usage.exit(),
    }
}

/// Prints an analysis of recorded files.
fn analyse(analysis: Analysis, select: &Select, is_json: bool) -> Result<ExitCode> {
    match analysis {
        Analysis::Compare {
            before,
            after,
            items,
            items_after,
        } => {
            let pair = Pair {
                files: [before, after],
                items: [items, items_after.unwrap_or(items)],
            };
            analyses::compare(&pair, select, is_json)?;
        }
        Analysis::Dvfs {
            files,
            items,
            max_slowdown,
        } => analyses::energy_curve(&files, items, max_slowdown, select, is_json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn sample(settings: &Settings) -> Result<ExitCode> {
    // Check everything that can be checked before an existing recording is overwritten.
    let listener = settings
        .serve
        .map(|address| telemetry::serve::listen(Some(address)));
    let listener = listener.transpose()?;
    let sampler = sampler(settings)?
        .interval(settings.interval)
        .select(settings.select.clone());
    let dialect = settings.dialect;
    // Whether COMMAND can be started is known only after the attempt. Until then an existing file
    // is unchanged and a new one is empty; the writer removes a new file if the start fails.
    let (writer, release) = Writer::create(dialect, settings.rows())?.held_back();
    settings.check_page()?;
    let events = Events::listen()?;
    let running = sampler.with_sink(writer).start()?;
    warn_of_more_devices(dialect, running.latest().devices.len());
    let running = Arc::new(running);
    let endpoint = listener.map(|listener| {
        // A weak reference, so that the endpoint cannot keep the trace running after this function
        // ends.
        let running = Arc::downgrade(&running);
        let newest = move || {
            let running = Weak::upgrade(&running);
            running.map_or_else(Snapshot::default, |running| running.snapshot())
        };
        listener.serve(newest)
    });
    let endpoint = endpoint.transpose()?;
    if let (Some(endpoint), false) = (&endpoint, settings.is_quiet) {
        output::note(format_args!("trace: http://{}/metrics", endpoint.address()));
    }
    let (status, command) = observe(settings, &running, &events, release)?;
    drop(endpoint);
    let running = Arc::try_unwrap(running)
        .ok()
        .context("the metrics endpoint is still running")?;
    let stopped = running.stop();
    for failure in &stopped.failures {
        output::note(format_args!("trace: {}", described(settings, failure)));
    }
    let is_of_file = |failure: &Failure| matches!(failure, Failure::Sink { .. });
    let is_complete = !stopped.failures.iter().any(is_of_file);
    let ending = Ending {
        rows: is_complete.then(|| settings.rows()),
        has_command_ended: command.is_some().then_some(status.is_some()),
    };
    let is_cut = ending.has_command_ended == Some(false);
    let found = Findings::new(&stopped.trace, is_cut);
    let loss = found.loss_of_all();
    if let Some(loss) = &loss {
        output::note(format_args!("trace: {loss}"));
    }
    let concluded = conclude(settings, &found, &ending);
    // Wait for a command that runs longer than its trace, even if the report failed.
    let status = match (status, command) {
        (None, Some(mut command)) => Some(command.outlive(&events)?),
        (status, _) => status,
    };
    concluded?;
    Ok(if stopped.failures.is_empty() && loss.is_none() {
        status.map_or(ExitCode::SUCCESS, code_of)
    } else {
        ExitCode::FAILURE
    })
}

/// Describes a failure; the failure of a sink names the file of rows.
fn described(settings: &Settings, failure: &Failure) -> String {
    match failure {
        Failure::Sink { .. } => format!("{}: {failure}", settings.rows().display()),
        _ => failure.to_string(),
    }
}

/// Writes the report of a recorded file, and its rows in another format if the options name a file
/// for the rows.
fn convert(settings: &Settings, file: &Path) -> Result<ExitCode> {
    settings.check_page()?;
    let trace = recorded(file)?.select(&settings.select)?;
    if let Some(out) = &settings.out {
        ensure!(
            !is_same(file, out),
            "--out: {} is the recorded file itself (expected another file)",
            file.display()
        );
        warn_of_more_devices(settings.dialect, trace.devices.len());
        replace_file(out, &format::write(&trace, settings.dialect))?;
    }
    let ending = Ending {
        rows: settings.out.as_deref(),
        has_command_ended: None,
    };
    conclude(settings, &Findings::new(&trace, false), &ending)?;
    Ok(ExitCode::SUCCESS)
}

fn warn_of_more_devices(dialect: Dialect, n_devices: usize) {
    if dialect == Dialect::SemicolonCsv && n_devices > 1 {
        output::note(format_args!(
            "trace: --format semicolon-csv contains only the first of {n_devices} devices; --format csv contains all"
        ));
    }
}

fn sampler(settings: &Settings) -> Result<Sampler> {
    Ok(match (&settings.input, &settings.nvml) {
        (Input::Rapl, _) => Sampler::new(Rapl::open()?),
        (Input::Demo, _) => Sampler::new(demo()?),
        (Input::File(file), _) => bail!("{} is a recorded file", file.display()),
        // An explicitly named library has no fallback.
        (Input::Nvml | Input::Any, Some(library)) => Sampler::new(Nvml::open_at(library)?),
        (Input::Nvml, None) => Sampler::new(Nvml::open()?),
        (Input::Any, None) => Sampler::open().map_err(|error| {
            anyhow!(
                "{error}; `cargo xtask doctor` checks the drivers, and `cargo xtask demo` runs \
                 without sensors"
            )
        })?,
    })
}

/// Creates a simulated GPU that is busy for 1.2 s and idle for 0.8 s, repeatedly.
fn demo() -> Result<Synthetic> {
    const PERIOD_S: f64 = 2.0;
    const DUTY: f64 = 0.6;
    let mut scenario = Scenario::default();
    for gpu in &mut scenario.gpus {
        gpu.power = PowerProfile::square(15.0, 65.0, PERIOD_S, DUTY);
        gpu.utilisation.gpu_pct = Quantity::square(0.0, 96.0, PERIOD_S, DUTY);
        gpu.utilisation.memory_pct = Quantity::square(0.0, 38.0, PERIOD_S, DUTY);
    }
    Ok(Synthetic::new(Model::new(scenario)?))
}

fn recorded(path: &Path) -> Result<Trace> {
    let bytes = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
    let read = format::read(&bytes).with_context(|| format!("{}", path.display()))?;
    for skipped in &read.skipped {
        let skipped = output::printable(&skipped.to_string());
        output::note(format_args!(
            "trace: {}: skipped: {skipped}",
            path.display()
        ));
    }
    Ok(read.trace)
}

/// Runs the command, if there is one, as a region of the trace. Returns the exit status, if the
/// command ended, and the command, which may still be running.
fn observe(
    settings: &Settings,
    running: &Running,
    events: &Events,
    release: Release,
) -> Result<(Option<ExitStatus>, Option<Traced>)> {
    if settings.command.is_empty() {
        release.release();
        return Ok((wait(settings, running, None, events)?, None));
    }
    let region = running.span(settings.command_line());
    let mut command = Traced::start(&settings.command, events)?;
    release.release();
    let status = wait(settings, running, Some(&mut command), events)?;
    drop(region);
    std::thread::sleep(POST_ROLL);
    Ok((status, Some(command)))
}

/// Waits until the command ends, the time limit is reached or, without a command, a signal arrives.
/// Signals are passed to the command if there is one. Returns the exit status if the command ended.
fn wait(
    settings: &Settings,
    running: &Running,
    mut command: Option<&mut Traced>,
    events: &Events,
) -> Result<Option<ExitStatus>> {
    let live = if settings.is_live {
        ProgressBar::new_spinner()
    } else {
        ProgressBar::hidden()
    };
    live.set_style(ProgressStyle::with_template("{spinner} {msg}")?);
    let (mut counted, mut reported) = (vec![], None);
    let status = loop {
        if let Some(command) = &mut command
            && let Some(status) = command.ended()?
        {
            break Some(status);
        }
        let left = settings
            .at_most
            .map(|at_most| at_most.saturating_sub(running.now()));
        if left.is_some_and(|left| left.is_zero()) {
            break None;
        }
        let failure = running.failure();
        if failure != reported {
            if let Some(failure) = &failure {
                live.suspend(|| {
                    output::note(format_args!("trace: {}", described(settings, failure)))
                });
            }
            reported = failure;
        }
        if settings.is_live {
            live.set_message(live_line(&running.latest(), &mut counted));
        }
        if let Some(Event::Stop(stop)) = events.next(left.unwrap_or(LIVE).min(LIVE)) {
            match &mut command {
                Some(command) => command.stop(stop),
                None => break None,
            }
        }
    };
    live.finish_and_clear();
    Ok(status)
}

/// Returns the live line: time, power, utilisation and energy of the newest rows. `counted`
/// contains the energy of each device so far, and is updated.
fn live_line(newest: &Trace, counted: &mut Vec<EnergyTotal>) -> String {
    counted.resize(newest.devices.len(), EnergyTotal::default());
    let mut line = format!("{:.0} s", newest.duration().as_secs_f64());
    for row in &newest.rows {
        let device = &newest.devices[row.device];
        line += &format!(" | {} {}", device.index, device.name);
        let power = Metric::POWERS
            .into_iter()
            .find_map(|metric| row.values.get(metric));
        line += &power.map_or_else(String::new, |watts| format!(" {watts:.0} W"));
        let busy = row.values.get(Metric::GpuBusy);
        line += &busy.map_or_else(String::new, |busy| format!(" {busy:.0} % busy"));
        let reported = row.values.get(Metric::Energy);
        let joules = reported.map(|reported_j| counted[row.device].add(row.time, reported_j));
        line += &joules.map_or_else(String::new, |joules| {
            format!(" {} J", units::digits(joules))
        });
    }
    line
}
