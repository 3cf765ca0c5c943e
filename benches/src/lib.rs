//! Workloads, the runner behind the bench command, records and the report.
//!
//! Role: a workload ([`workload`]; most are a [`program`], [`workloads`] lists them) says what is computed and what is
//! right; [`run`] times it beside its rivals; [`record`] keeps what came out, and table and report show it. [`sampling`] tells
//! where the time of one goes.

pub mod claims;
pub mod columns;
pub mod curve;
pub mod date;
pub mod doctor;
pub mod figure;
pub mod ladder;
pub mod machine;
pub mod measure;
pub mod memory;
pub mod meter;
pub mod mnist;
mod on_cpu;
mod on_gpu;
mod on_host;
pub mod output;
pub mod peak;
pub mod program;
pub mod quadrature;
pub mod record;
pub mod report;
pub mod rivals;
pub mod roundings;
pub mod run;
pub mod sampling;
pub mod signals;
mod staged;
pub mod table;
pub mod training;
pub mod units;
pub mod workload;
pub mod workloads;

/// The README's snippets, compiled and run as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
