//! `cluster tasks`: the cost of tasks and messages themselves.

use std::convert::Infallible;
use std::ffi::OsString;

use anyhow::Result;
use cluster::Cluster;
use lexopt::ValueExt as _;

use super::options::{Common, next_option, positive};
use super::summary::Summary;
use super::{Parsed, Run};

pub(super) const HELP: &str = "\
cluster tasks: measure how fast tasks are distributed, and what messages cost

usage: mpirun -n RANKS cluster tasks [--tasks N] [--steps N] [OPTIONS]

  --tasks N      number of tasks (default: 200000)
  --steps N      steps of a recurrence of integers that each task computes, about a nanosecond each (default: 1)

and the options of all commands (cluster --help).
";

pub(super) fn parse(args: Vec<OsString>) -> Parsed {
    let mut common = Common::default();
    let (mut n_tasks, mut n_steps) = (200_000, 1);
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(option) = next_option(&mut parser)? {
        match &*option {
            "tasks" => n_tasks = parser.value()?.parse_with(positive)?,
            "steps" => n_steps = parser.value()?.parse_with(positive)?,
            other => common.take(other, &mut parser)?,
        }
    }
    let run: Run = Box::new(move |cluster, common| run(n_tasks, n_steps, cluster, common));
    Ok((common, run))
}

fn run(n_tasks: usize, n_steps: usize, cluster: &Cluster, common: &Common) -> Result<Summary> {
    let network = cluster.network()?;
    let job = common.job(&format!("tasks of {n_steps} steps"), n_tasks);
    let mapped = cluster.map(&job, |task| Ok::<_, Infallible>(recurrence(task, n_steps)))?;
    let xor = mapped.results.iter().fold(0, |xor, result| xor ^ result);
    let elapsed = mapped.elapsed.as_secs_f64();
    let mut summary = Summary::new()
        .with("tasks", n_tasks)
        .with("tasks_per_s", n_tasks as f64 / elapsed)
        .with("xor", xor)
        .with_times(&mapped)
        .with_predictions(common, |machine| mapped.predict(&job, machine));
    if let Some(network) = network {
        summary = summary
            .with("message_latency_s", network.latency.as_secs_f64())
            .with("message_bytes_per_s", network.bandwidth);
    }
    Ok(summary)
}

/// Returns a number after some steps of a congruential generator (Knuth's MMIX), of which no
/// compiler can skip any.
fn recurrence(task: usize, n_steps: usize) -> u32 {
    let mut x = task as u64;
    for _ in 0..n_steps {
        x = std::hint::black_box(x)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
    }
    // The high half, whose bits are the more random ones.
    u32::try_from(x >> 32).unwrap_or(0)
}
