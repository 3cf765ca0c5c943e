//! Jobs on several ranks of an MPI job: the program `cluster`.
//!
//! Role: the workloads `cluster-tasks`, `cluster-similarity`, `cluster-games` and `cluster-train`.
//! Variants: `ranks-1`, `ranks-2` and `ranks-4`, with one thread each. They do the same work
//! (strong scaling), except in the size of `cluster-games` that ends with `per-rank`, where each
//! rank has as much work as the single rank of `ranks-1` (weak scaling).
//! Method: `mpirun` starts the program, which runs its command again for each request, so that the
//! start of processes is not measured. The times are those that the program reports: from the start
//! of the first task to the last result in the journal. The findings of a row are the share of the
//! time in which workers ran tasks, the share in which the coordinator was idle, the share of rank
//! 0 in messages, and the bytes sent by rank 0. The row `ranks-1` also has predicted times of other
//! numbers of ranks.
//! Accuracy: integers must be equal to those of the oracle. The games' results must have the bits
//! of a single process. Losses are compared with those of a training with undivided batches, within
//! `LOSS_TOLERANCE`; the tests of `cluster` prove that the bits do not depend on the ranks.
//! Source: the similarity is case study 2 of the blog note "Tracing GPU Resources", the games are
//! those of "Approximate Nash Equilibrium by Regret Matching", the net has two layers as in the
//! lecture on Python performance.
//! Limits: needs the program next to this one, which `cargo xtask bench` builds where an MPI
//! library is installed.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use games::ndarray::Array3;
use games::{Batch, SolverConfig};
use gpu_wgsl::Gpu;
use harness::process::Process;
use harness::record::NotRun;
use harness::workload::{
    Extent, Implementation, Output, OutputElement as _, Problem, Task, Variant, Work, Workload,
};
use serde_json::{Value, json};
use tensor_core::compare::{Tolerance, compare};
use tensor_core::rng::Philox;

mod training;

/// Numbers of ranks.
const RANKS: [usize; 3] = [1, 2, 4];
/// Names of the variants with these ranks.
const NAMES: [&str; 3] = ["ranks-1", "ranks-2", "ranks-4"];
/// The machines for which times are predicted: this one with two and four ranks on two cores, and
/// 1024 ranks with a core each.
const PREDICTED: &str = "2/2,4/2,1024";
/// Names of the predicted times.
const PREDICTIONS: [&str; 3] = [
    "predicted_s_2_ranks_on_2_cores",
    "predicted_s_4_ranks_on_2_cores",
    "predicted_s_1024_ranks",
];
/// Longest wait for a run.
const PATIENCE: Duration = Duration::from_secs(120);
/// Absolute tolerance of losses of about 2.3, in f32: a hundred roundings. The sums over shards
/// have other roundings than undivided ones.
const LOSS_TOLERANCE: f64 = 3e-5;

/// Steps of a task of about 10 ms.
const LONG_TASK: u64 = 9_000_000;
/// Rows, columns and tiles of the similarity.
const SIMILARITY: [usize; 3] = [256, 8192, 512];
/// Games, actions, iterations and games per task.
const GAMES: [usize; 4] = [40_000, 3, 500, 1000];

/// Returns all tasks.
pub fn tasks() -> impl Iterator<Item = Task> {
    let empty = || Ok(Job::tasks(200_000, 1));
    let long = || Ok(Job::tasks(400, LONG_TASK));
    let [rows, columns, _] = SIMILARITY;
    let [n_games, n_actions, n_iterations, _] = GAMES;
    [
        Task::new("cluster-tasks", "S0", "200000-empty", started(empty)),
        Task::new("cluster-tasks", "S0", "400-of-10ms", started(long)),
        Task::new(
            "cluster-similarity",
            "S0",
            format!("{rows}x{columns}"),
            started(Job::similarity),
        ),
        Task::new(
            "cluster-games",
            "S0",
            format!("{n_actions}x{n_actions}x{n_games}-{n_iterations}"),
            started(Job::games),
        ),
        Task::new(
            "cluster-games",
            "S0",
            format!("{n_actions}x{n_actions}x{n_games}-{n_iterations}-per-rank"),
            started(|| {
                let job = Job::games()?;
                Ok(Job {
                    is_weak: true,
                    ..job
                })
            }),
        ),
        Task::new(
            "cluster-train",
            "S2",
            training::size(),
            started(training::job),
        ),
    ]
    .into_iter()
}

/// Returns a function that prepares a job if the program is there.
fn started(job: impl Fn() -> Result<Job> + 'static) -> impl Fn() -> Result<Job> + 'static {
    move || {
        program()?;
        job()
    }
}

/// A job with its expected result.
#[derive(Debug)]
pub struct Job {
    /// The command line for `k` times the work.
    arguments: fn(usize) -> String,
    /// The numbers that are checked, in the JSON of a run.
    result: fn(&Value) -> Option<Vec<f64>>,
    expected: Vec<f64>,
    tolerance: Tolerance,
    extent: Extent,
    /// Whether the work grows with the number of ranks; the numbers that are checked do not.
    is_weak: bool,
}

impl Job {
    fn tasks(n_tasks: u64, n_steps: u64) -> Self {
        let empty = |_| "tasks --tasks 200000".to_owned();
        let long = |_| format!("tasks --tasks 400 --steps {LONG_TASK}");
        let results = (0..n_tasks).map(|task| recurrence(task, n_steps));
        let xor = results.fold(0, |xor, result| xor ^ (result >> 32));
        Self {
            arguments: if n_steps == 1 { empty } else { long },
            result: |run| Some(vec![run["xor"].as_f64()?]),
            expected: vec![xor as f64],
            tolerance: Tolerance::exact(),
            extent: Extent::new(Work::Values(n_tasks as f64), 4.0 * n_tasks as f64),
            is_weak: false,
        }
    }

    fn similarity() -> Result<Self> {
        let [rows, columns, _] = SIMILARITY;
        let mut numbers = vec![0.0_f32; rows * columns];
        Philox::new(1).fill_uniform_f32(0, &mut numbers);
        // The program's largest number.
        numbers.iter_mut().for_each(|number| *number *= 1.05);
        let pairs = (columns * columns) as f64;
        Ok(Self {
            arguments: |_| {
                let [rows, columns, tile] = SIMILARITY;
                format!("similarity --random {rows}x{columns} --tile {tile}")
            },
            result: |run| Some(vec![run["pairs"].as_f64()?, run["similar_pairs"].as_f64()?]),
            expected: vec![pairs, n_similar(&numbers, columns) as f64],
            tolerance: Tolerance::exact(),
            extent: Extent::new(Work::Values(pairs), 4.0 * (rows * columns) as f64),
            is_weak: false,
        })
    }

    fn games() -> Result<Self> {
        let [n_games, n_actions, n_iterations, _] = GAMES;
        let mut payoffs = vec![0.0_f32; n_games * n_actions * n_actions];
        Philox::new(0).fill_normal_f32(0, &mut payoffs);
        let bytes = size_of_val(&payoffs[..]);
        let payoffs = Array3::from_shape_vec((n_games, n_actions, n_actions), payoffs)?;
        let config = SolverConfig::default().iterations(n_iterations as u64);
        let solution = Batch::zero_sum(payoffs)?.solve(&config)?;
        // `f64::max` ignores NaN.
        let largest = solution
            .nash_conv
            .iter()
            .map(|x| x.abs())
            .max_by(f64::total_cmp);
        Ok(Self {
            // With more ranks, more seeds: the results of the first seed stay the same.
            arguments: |k| {
                let [n_games, n_actions, n_iterations, batch] = GAMES;
                format!(
                    "games --games {n_games} --actions {n_actions} --iterations {n_iterations} --batch {batch} --seeds {k}"
                )
            },
            result: |run| {
                let row = &run["rows"][0];
                Some(vec![row["games"].as_f64()?, row["max_nash_conv"].as_f64()?])
            },
            expected: vec![n_games as f64, largest.unwrap_or(f64::NAN)],
            tolerance: Tolerance::exact(),
            extent: Extent::new(Work::Games(n_games as f64), bytes as f64),
            is_weak: false,
        })
    }

    fn variant(&self, name: &'static str, n_ranks: usize, n_times: usize) -> Variant<'_> {
        let extent = Extent {
            work: self.extent.work.share(n_times as f64),
            bytes: self.extent.bytes * n_times as f64,
            ..self.extent
        };
        Variant::new(name, extent, move || {
            let mut command = mpirun(n_ranks)?;
            let arguments = (self.arguments)(n_times);
            command.args(arguments.split_whitespace()).args([
                "--threads",
                "1",
                "--quiet",
                "--json",
                "--repeat",
            ]);
            if n_ranks == 1 {
                // The ranks of a prediction's run need a core each.
                command.args(["--predict", PREDICTED]);
            }
            Ok(OnRanks {
                process: Process::spawn(&mut command)?,
                result: self.result,
                last: None,
            })
        })
    }
}

impl Problem for Job {
    fn workload<'a>(&'a self, _gpus: &'a [Gpu]) -> Workload<'a> {
        let variants = NAMES.into_iter().zip(RANKS);
        let variants = variants.map(|(name, n_ranks)| {
            let n_times = if self.is_weak { n_ranks } else { 1 };
            self.variant(name, n_ranks, n_times)
        });
        Workload::new(self.extent, |result, _| {
            compare(
                f64::from_output(result)?,
                &self.expected[..],
                &self.tolerance,
            )?;
            Ok(())
        })
        .with_variants(variants)
    }
}

/// The ranks of a variant.
#[derive(Debug)]
struct OnRanks {
    process: Process,
    result: fn(&Value) -> Option<Vec<f64>>,
    /// The results of the latest run.
    last: Option<Value>,
}

impl Implementation for OnRanks {
    fn run(&mut self, times: usize) -> Result<Vec<f64>> {
        let run = |_| {
            let answer = match self.last {
                None => self.process.answer(PATIENCE),
                Some(_) => self.process.request(&json!("again"), PATIENCE),
            };
            let answer = answer?;
            let elapsed = answer["elapsed_s"].as_f64();
            self.last = Some(answer);
            elapsed.context("cluster: the results have no time")
        };
        (0..times).map(run).collect()
    }

    fn result(&mut self) -> Result<Output> {
        let last = self.last.as_ref().context("cluster: no run")?;
        let result = (self.result)(last).context("cluster: the results are incomplete")?;
        Ok(f64::wrap(result))
    }

    fn numbers(&self) -> Vec<(&'static str, f64)> {
        let Some(last) = &self.last else {
            return vec![];
        };
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let mut numbers = vec![
            ("share_working", number(&last["share_working"])),
            (
                "share_coordinator_idle",
                number(&last["share_coordinator_idle"]),
            ),
            (
                "share_communication_of_rank_0",
                number(&last["share_communication"]),
            ),
            (
                "bytes_sent_by_rank_0",
                number(&last["bytes_sent_by_rank_0"]),
            ),
        ];
        let predictions = PREDICTIONS.into_iter().enumerate();
        numbers.extend(
            predictions
                .map(|(place, name)| (name, number(&last["predictions"][place]["elapsed_s"]))),
        );
        numbers
    }
}

/// Returns the path of the program `cluster`.
///
/// # Errors
/// [`NotRun`] if it is not next to this program.
fn program() -> Result<PathBuf> {
    let own = env::current_exe()?;
    let path = own.with_file_name(format!("cluster{}", env::consts::EXE_SUFFIX));
    if path.exists() {
        return Ok(path);
    }
    Err(NotRun {
        what: "cluster".to_owned(),
        why: "the program `cluster` was not built".to_owned(),
        how: "install MPI, on Debian by `apt-get install mpich libmpich-dev libclang-dev`"
            .to_owned(),
    }
    .into())
}

/// Returns the command that starts the program on some ranks.
fn mpirun(n_ranks: usize) -> Result<Command> {
    let program = program()?;
    let version = Command::new(&program).arg("--version").output()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    ensure!(
        version.starts_with("cluster "),
        "cluster: unknown version {version:?}"
    );
    // Debian adds the name of the library to its launcher.
    let is_open_mpi = version.contains("Open MPI");
    let own = if is_open_mpi {
        "mpirun.openmpi"
    } else {
        "mpirun.mpich"
    };
    let path = env::var_os("PATH").unwrap_or_default();
    let has_own = env::split_paths(&path).any(|folder| folder.join(own).exists());
    let mut command = Command::new(if has_own { own } else { "mpirun" });
    if is_open_mpi {
        // Four ranks on two cores; as root in a container.
        command
            .arg("--oversubscribe")
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    command.args(["-n", &n_ranks.to_string()]).arg(program);
    Ok(command)
}

/// Returns a number after some steps of Knuth's congruential generator, by squaring the step.
fn recurrence(start: u64, n_steps: u64) -> u64 {
    let (mut factor, mut term) = (6_364_136_223_846_793_005_u64, 1_442_695_040_888_963_407_u64);
    let (mut x, mut n) = (start, n_steps);
    while n > 0 {
        if n & 1 == 1 {
            x = x.wrapping_mul(factor).wrapping_add(term);
        }
        term = term.wrapping_mul(factor.wrapping_add(1));
        factor = factor.wrapping_mul(factor);
        n >>= 1;
    }
    x
}

/// Returns the number of ordered pairs of columns that differ by less than 1 in all rows.
fn n_similar(numbers: &[f32], n_columns: usize) -> usize {
    let row = |row: usize| &numbers[row * n_columns..][..n_columns];
    let n_rows = numbers.len() / n_columns;
    let mut n = 0;
    let mut similar = vec![true; n_columns];
    for left in 0..n_columns {
        similar.fill(true);
        for row in (0..n_rows).map(row) {
            for (similar, right) in similar[left..].iter_mut().zip(&row[left..]) {
                *similar &= (row[left] - right).abs() < 1.0;
            }
        }
        // The pair of a column with itself counts once, each other pair in both orders.
        let own = similar[left..].iter().filter(|&&similar| similar).count();
        n += 2 * own - usize::from(similar[left]);
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recurrence_by_squaring_is_the_recurrence() {
        for n_steps in [0, 1, 2, 3, 100, 1001] {
            let step = |x: u64| {
                x.wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407)
            };
            let expected = (0..n_steps).fold(17, |x, _| step(x));
            assert_eq!(recurrence(17, n_steps), expected);
        }
    }

    #[test]
    fn similar_columns_are_counted_in_both_orders() {
        let columns = [0.0, 0.5, 2.0, 0.0, -0.5, 0.0];
        assert_eq!(n_similar(&columns, 3), 5);
    }

    #[test]
    fn wrong_results_are_rejected() {
        let job = Job::tasks(3, 1);
        let workload = job.workload(&[]);
        let whole = harness::workload::Portion::whole(1);
        let right = job.expected[0];
        workload
            .judge(None, &f64::wrap(vec![right]), whole)
            .unwrap();
        for wrong in [vec![], vec![right + 1.0], vec![right; 2]] {
            assert!(workload.judge(None, &f64::wrap(wrong), whole).is_err());
        }
    }
}
