//! Tests on several ranks. Each test starts itself again by `mpirun`, as the ranks of a job.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod all_reduce;
mod job;
mod kills;
mod map;
mod program;
mod rows;
