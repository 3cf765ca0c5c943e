//! The part of the command line that all commands share.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use cluster::{Cluster, Job, Machine, Member, Progress};
use tensor_core::exec::Level;

use super::trace::TraceOptions;

/// The options of all commands.
#[derive(Args, Debug)]
#[command(next_help_heading = "Options of all commands")]
pub(super) struct Common {
    /// Write finished results to FILE, and continue from there after an interruption, with any
    /// number of ranks (not for `train`, which has --checkpoint)
    #[arg(long, value_name = "FILE")]
    pub(super) journal: Option<PathBuf>,
    /// Threads of each rank, at most 1024 [default: the cores that the rank may use, divided among
    /// the ranks that may use the same cores]
    #[arg(long = "threads", value_name = "N", value_parser = threads)]
    n_threads: Option<usize>,
    /// Use no instructions that some CPUs lack, so that results do not depend on the CPU; slower
    #[arg(long = "portable")]
    is_portable: bool,
    /// Print one JSON object instead of text
    #[arg(long = "json")]
    pub(super) is_json: bool,
    /// Print no progress on standard error
    #[arg(long = "quiet")]
    pub(super) is_quiet: bool,
    /// Also predict the time on other machines: RANKS, or RANKS/CORES if ranks share cores,
    /// separated by commas; the ranks of this run need a core each
    #[arg(long = "predict", value_name = "LIST", value_parser = machines)]
    predicted: Option<Machines>,
    /// Network of --predict: latency in microseconds, bandwidth in GB/s
    #[arg(long, value_name = "L,B", value_parser = network, default_value = "2,12", requires = "predicted")]
    network: [f64; 2],
    #[command(flatten)]
    pub(super) trace: TraceOptions,
    /// Run again for each line of standard input, with a result each time, until its end or a line
    /// with the word `quit`; not with --trace, because each run replaces the traces
    #[arg(long = "repeat", conflicts_with = "trace")]
    pub(super) repeats: bool,
}

/// Numbers of ranks and of cores.
type Machines = Vec<[usize; 2]>;

impl Common {
    /// Returns an error if --predict was given, for commands that cannot predict times.
    pub(super) fn without_predictions(&self) -> Result<(), String> {
        match self.predicted {
            None => Ok(()),
            Some(_) => Err("--predict is not for this command".to_owned()),
        }
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
            tool_io::output::note(format_args!(
                "warning: host {} has {}, and host {} has {}: sums of floats may differ in their last bits (--portable prevents this)",
                cluster.members()[0].host,
                first,
                other.host,
                other.instructions
            ));
        }
        Ok(())
    }

    /// Returns the machines for which times are predicted.
    pub(super) fn machines(&self) -> impl Iterator<Item = Machine> {
        let [latency, bandwidth] = self.network;
        let predicted = self.predicted.iter().flatten();
        predicted.map(move |&[n_ranks, n_cores]| Machine {
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
fn machines(text: &str) -> Result<Machines, String> {
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
