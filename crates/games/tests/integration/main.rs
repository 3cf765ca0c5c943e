//! The integration tests of the crate, one module per topic.
//!
//! Role: a single test program, because each further program adds up to a second of CPU time to the
//! build, mostly for linking. Two files next to this folder are programs of their own:
//! `exact_limits` measures times, and `solve` needs the program of this name, which only a feature
//! builds.

mod batch;
mod bimatrix;
mod cfr;
mod compiled;
mod dynamics;
mod exact_correlated;
mod exact_domination;
mod exact_trees;
mod exact_zero_sum;
mod extensive;
mod files;
mod files_hostile;
mod files_openspiel;
mod files_round_trip;
#[cfg(feature = "gpu")]
mod gpu;
mod gpu_twins;
mod mccfr;
mod offsets;
mod strategic_form;
#[path = "../support/mod.rs"]
mod support;
mod traces;
