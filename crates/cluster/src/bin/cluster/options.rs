//! The part of the command line that all commands share.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use cluster::{Cluster, Job, Machine, Member, Progress};
use lexopt::prelude::*;
use tensor_core::exec::Level;

use super::trace::TraceOptions;

/// The kinds of command lines.
pub(super) enum Usage {
    /// The help of the program, or of the command with this number.
    Help(Option<usize>),
    Version,
    Wrong(String),
    /// A command with its arguments.
    Command(usize, Vec<OsString>),
}

impl Usage {
    /// Finds the command of a command line.
    pub(super) fn of(mut args: Vec<OsString>, commands: &[&str]) -> Self {
        if args.is_empty() {
            return Self::Wrong("no command (see --help)".to_owned());
        }
        let first = args.remove(0);
        let first = first.to_string_lossy();
        let wants_help = args.iter().any(|arg| arg == "--help" || arg == "-h");
        match (&*first, commands.iter().position(|name| *name == first)) {
            ("--help" | "-h", _) => Self::Help(None),
            ("--version", _) => Self::Version,
            (_, Some(number)) if wants_help => Self::Help(Some(number)),
            (_, Some(number)) => Self::Command(number, args),
            (other, None) => Self::Wrong(format!(
                "unknown command {other:?} (commands: {})",
                commands.join(", ")
            )),
        }
    }
}

/// The latency in microseconds and the bandwidth in GB/s of a fast network.
const NETWORK: [f64; 2] = [2.0, 12.0];

/// The options of all commands.
#[derive(Debug, Default)]
pub(super) struct Common {
    pub(super) journal: Option<PathBuf>,
    pub(super) n_threads: Option<usize>,
    pub(super) is_json: bool,
    pub(super) is_quiet: bool,
    pub(super) repeats: bool,
    /// Whether results must not depend on the CPU.
    is_portable: bool,
    pub(super) trace: TraceOptions,
    /// The numbers of ranks and of cores for which times are predicted.
    predicted: Vec<[usize; 2]>,
    /// The latency in microseconds and the bandwidth in GB/s of predictions.
    network: Option<[f64; 2]>,
}

impl Common {
    /// Parses the value of a common option.
    ///
    /// # Errors
    /// The option is not one of the common ones.
    pub(super) fn take(
        &mut self,
        option: &str,
        parser: &mut lexopt::Parser,
    ) -> Result<(), lexopt::Error> {
        match option {
            "journal" => self.journal = Some(parser.value()?.into()),
            "threads" => self.n_threads = Some(parser.value()?.parse_with(threads)?),
            "json" => self.is_json = true,
            "quiet" => self.is_quiet = true,
            "repeat" => self.repeats = true,
            "portable" => self.is_portable = true,
            "trace" => self.trace.folder = Some(parser.value()?.into()),
            "nvml" => self.trace.nvml = Some(parser.value()?.into()),
            "predict" => self.predicted = parser.value()?.parse_with(machines)?,
            "network" => self.network = Some(parser.value()?.parse_with(network)?),
            other => return Err(Long(other).unexpected()),
        }
        Ok(())
    }

    /// Checks that each option has an effect.
    pub(super) fn checked(self) -> Result<Self, lexopt::Error> {
        let has_folder = self.trace.folder.is_some();
        if self.trace.nvml.is_some() && !has_folder {
            return Err("--nvml needs --trace".into());
        }
        if has_folder && self.repeats {
            return Err(
                "--trace and --repeat exclude each other: each run replaces the traces".into(),
            );
        }
        if self.network.is_some() && self.predicted.is_empty() {
            return Err("--network needs --predict".into());
        }
        Ok(self)
    }

    /// Returns an error if times are to be predicted, for a command that cannot.
    pub(super) fn without_predictions(&self) -> Result<(), lexopt::Error> {
        if self.predicted.is_empty() {
            return Ok(());
        }
        Err("--predict is not for this command".into())
    }

    /// Sets the number of threads of this rank, and warns if ranks have different CPUs.
    pub(super) fn prepare(&self, cluster: &Cluster) -> Result<()> {
        // Ranks that may run on the same cores divide them.
        let member = cluster.member();
        let is_neighbour =
            |other: &&Member| (&other.host, &other.cpus) == (&member.host, &member.cpus);
        let n_neighbours = cluster.members().iter().filter(is_neighbour).count();
        let share = member.n_threads / n_neighbours;
        let n_threads = self.n_threads.unwrap_or(share).max(1);
        rayon::ThreadPoolBuilder::new()
            .num_threads(n_threads)
            .build_global()
            .context("cannot start the threads")?;
        if self.is_portable {
            Level::restrict_to_baseline();
            return Ok(());
        }
        let first = &cluster.members()[0].instructions;
        let mut members = cluster.members().iter();
        let other = members.find(|member| member.instructions != *first);
        if let (0, Some(other)) = (cluster.rank(), other) {
            eprintln!(
                "warning: host {} has {}, and host {} has {}: sums of floats may differ in their last bits (--portable prevents this)",
                cluster.members()[0].host,
                first,
                other.host,
                other.instructions
            );
        }
        Ok(())
    }

    /// Returns the machines for which times are predicted.
    pub(super) fn machines(&self) -> impl Iterator<Item = Machine> {
        let [latency, bandwidth] = self.network.unwrap_or(NETWORK);
        self.predicted
            .iter()
            .map(move |&[n_ranks, n_cores]| Machine {
                n_ranks,
                n_cores,
                latency: Duration::from_secs_f64(latency * 1e-6),
                bandwidth: bandwidth * 1e9,
            })
    }

    /// Returns a job with the journal of the command line, which reports its progress.
    pub(super) fn job<'a>(&self, description: &str, n_tasks: usize) -> Job<'a> {
        let job = Job::new(description, n_tasks);
        let job = match &self.journal {
            Some(path) => job.with_journal(path),
            None => job,
        };
        if self.is_quiet {
            return job;
        }
        let shown = std::cell::Cell::new(None);
        job.with_observer(move |progress| show(&shown, progress))
    }
}

/// Writes the progress to standard error, every few seconds.
fn show(shown: &std::cell::Cell<Option<Instant>>, progress: Progress) {
    const INTERVAL: Duration = Duration::from_secs(5);
    let is_over = progress.n_done == progress.n_tasks;
    let from = shown.get().unwrap_or_else(Instant::now);
    shown.set(Some(from));
    if from.elapsed() >= INTERVAL && !is_over {
        shown.set(Some(Instant::now()));
        // A closed standard error does not end the job.
        let _ = writeln!(
            io::stderr(),
            "{} of {} tasks",
            progress.n_done,
            progress.n_tasks
        );
    }
}

/// Returns the name of the next option; `None` at the end of the command line.
///
/// # Errors
/// The next argument is no long option.
pub(super) fn next_option(parser: &mut lexopt::Parser) -> Result<Option<String>, lexopt::Error> {
    match parser.next()? {
        None => Ok(None),
        Some(Long(name)) => Ok(Some(name.to_owned())),
        Some(other) => Err(other.unexpected()),
    }
}

/// Parses a number of threads.
fn threads(text: &str) -> Result<usize, String> {
    const MAX_THREADS: usize = 1024;
    match positive(text)? {
        number if number <= MAX_THREADS => Ok(number),
        _ => Err(format!("expected at most {MAX_THREADS}")),
    }
}

/// Returns a list of `len` default values, or an error if there is not enough memory.
pub(super) fn allocated<T: Clone + Default>(what: &str, len: Option<usize>) -> Result<Vec<T>> {
    let mut list = vec![];
    let reserved = len.is_some_and(|len| list.try_reserve_exact(len).is_ok());
    ensure!(reserved, "{what}: not enough memory");
    list.resize(len.unwrap_or(0), T::default());
    Ok(list)
}

/// Parses a positive whole number.
pub(super) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("expected a whole number of at least 1".to_owned()),
    }
}

/// Parses numbers of ranks, each perhaps with a number of cores.
fn machines(text: &str) -> Result<Vec<[usize; 2]>, String> {
    /// A simulation holds each rank in memory.
    const MAX_RANKS: usize = 1_000_000;
    let number = |text: &str| match positive(text)? {
        number if number <= MAX_RANKS => Ok(number),
        _ => Err(format!("expected at most {MAX_RANKS}")),
    };
    let machine = |text: &str| match text.split_once('/') {
        Some((ranks, cores)) => Ok([number(ranks)?, number(cores)?]),
        None => number(text).map(|n_ranks| [n_ranks; 2]),
    };
    text.split(',').map(machine).collect()
}

/// Parses the latency and the bandwidth of a network.
fn network(text: &str) -> Result<[f64; 2], String> {
    let number = |text: &str| text.parse().ok().filter(|&number: &f64| number > 0.0);
    let pair = text.split_once(',').and_then(|(latency, bandwidth)| {
        let (latency, bandwidth) = (number(latency)?, number(bandwidth)?);
        let is_network = latency <= 1e6 && (1e-6..1e6).contains(&bandwidth);
        is_network.then_some([latency, bandwidth])
    });
    let must = "expected microseconds (at most 1e6) and GB/s (1e-6 to 1e6), such as 2,12";
    pair.ok_or_else(|| must.to_owned())
}

/// Parses two positive numbers with an `x` between them.
pub(super) fn pair(text: &str) -> Result<[usize; 2], String> {
    let pair = text
        .split_once('x')
        .ok_or("expected two numbers, such as 256x2000")?;
    Ok([positive(pair.0)?, positive(pair.1)?])
}
