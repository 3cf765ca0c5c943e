//! `cluster tasks`: the cost of tasks and messages themselves.

use std::convert::Infallible;

use anyhow::Result;
use clap::Args;
use cluster::Cluster;

use super::Work;
use super::options::{Common, positive};
use super::summary::Summary;

/// Measure how fast tasks are distributed, and what messages cost
#[derive(Args, Debug)]
#[command(args_override_self = true, allow_negative_numbers = true)]
pub(super) struct Options {
    /// Number of tasks
    #[arg(long = "tasks", value_name = "N", value_parser = positive, default_value_t = 200_000)]
    n_tasks: usize,
    /// Steps of a recurrence of integers that each task computes, about a nanosecond each
    #[arg(long = "steps", value_name = "N", value_parser = positive, default_value_t = 1)]
    n_steps: usize,
    #[command(flatten)]
    common: Common,
}

impl Work for Options {
    fn common(&self) -> &Common {
        &self.common
    }

    fn run(&self, cluster: &Cluster) -> Result<Summary> {
        run(self.n_tasks, self.n_steps, cluster, &self.common)
    }
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
