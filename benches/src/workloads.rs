//! The workloads of the bench command, one module a family.
//!
//! Role: the list that the bench command walks. A family is a name, sizes, inputs from a seed, an oracle, rungs,
//! rivals and a check; to add one, write its module beside these and name it in [`all`].

use crate::workload::Task;

pub mod chain;
pub mod conv;
pub mod matmul;
pub mod matmul_pair;
pub mod matmul_scale;
pub mod similarity;
pub mod softmax;

/// Seed of all random inputs.
const SEED: u64 = 457_428_938_475;
/// Everyone who is compared with, where a workload leaves none out.
const LIBRARIES: [&str; 4] = ["numpy", "torch", "torch-compile", "jax"];

/// Gives every task in order; the largest only where a real GPU is.
#[must_use]
pub fn all(real_gpu: bool) -> Vec<Task> {
    let mut tasks: Vec<Task> = matmul::tasks(real_gpu).collect();
    tasks.extend(similarity::tasks());
    tasks.extend([
        matmul_scale::task(),
        matmul_pair::task(),
        chain::task(),
        softmax::task(),
        conv::task(),
    ]);
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_tasks_share_an_id() {
        let mut ids: Vec<String> = all(true).iter().map(Task::id).collect();
        let n_tasks = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), n_tasks);
    }
}
