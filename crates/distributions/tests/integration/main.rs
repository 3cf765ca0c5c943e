//! The integration tests of the crate, one module per topic.
//!
//! Role: a single test program, because each further program adds up to a second of CPU time to the
//! build, mostly for linking. No test changes or measures the state of the process, so all tests
//! can run in the same process.

mod distance;
mod divergences;
mod estimate;
mod extremes;
mod f32_plane;
mod goodness;
#[cfg(feature = "gpu")]
mod gpu;
mod gpu_twins;
mod moments;
mod normality;
mod own_distribution;
mod properties;
mod reference;
mod relatives;
mod sampling;
mod shifted;
mod sprt;
mod standardized;
mod support;
