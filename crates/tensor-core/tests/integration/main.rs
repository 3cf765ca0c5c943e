//! The integration tests of the crate, one module per topic.
//!
//! Role: a single test program, because each further program adds up to a second of CPU time to the
//! build, mostly for linking. Files next to this folder are programs of their own: `data_memory`
//! and `peak_memory` replace the allocator of the process, `helper_pool` counts its threads, and
//! `profile` starts itself again with another environment.

mod bands;
mod compare_faults;
mod data_files;
mod eager;
mod einsum_golden;
mod error_names;
mod first_steps;
mod gradients;
mod host_pairs;
mod hostile_gradients;
mod hostile_plans;
mod idx_hostile;
mod jit;
mod near_zero;
mod packed_bits;
mod plan_choices;
mod profile_forms;
mod recomputed_values;
mod tensor_numpy;
mod threads;
mod training;
mod training_runs;
mod view_properties;
