//! The integration tests of the crate, one module per topic.
//!
//! Role: a single test program, because each further program adds up to a second of CPU time to the
//! build, mostly for linking. Files next to this folder are programs of their own: `devices`,
//! `sampler` and `spans` measure in real time; `fake_nvml_codes`, `kill` and `spans` start
//! themselves again, with another environment or to be ended by a signal; `trace` needs the program
//! of this name, which only a feature builds.

mod doctor;
mod fake_nvml;
mod fake_nvml_python;
mod formats;
mod nvml;
#[path = "../support/mod.rs"]
mod support;
