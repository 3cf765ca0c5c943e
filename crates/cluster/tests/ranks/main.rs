//! Tests on several ranks. Each test starts itself again by `mpirun`, as the ranks of a job.

mod all_reduce;
mod job;
mod kills;
mod map;
mod rows;
