//! Benchmark workloads, the runner behind `cargo xtask bench`, result records and the HTML report.
//!
//! Role: a [`workload`] defines what is computed and how a result is checked; most workloads are a
//! [`program`] on tensors, and [`workloads`] lists all of them. [`run`] times a workload together
//! with its rivals, [`record`] stores the results as JSON, and [`table`] and [`report`] display a
//! record. [`sampling`] shows where a workload spends its time.
//! Terms: a *variant* is one implementation of a workload in this project, such as plain loops, the
//! host executor or a GPU; the variants of a workload, simplest first, are its *comparison*. A
//! *rival* is another library (NumPy, PyTorch, JAX, …) that does the same work. A *contestant* is
//! either. The *oracle* is the plain reference computation, usually in f64, that every result is
//! compared with.

pub mod claims;
pub mod columns;
pub mod comparison;
pub mod curve;
pub mod doctor;
pub mod implementation;
pub mod machine;
pub mod measure;
pub mod memory;
pub mod meter;
pub mod mnist;
mod on_cpu;
mod on_gpu;
mod on_host;
pub mod peak;
pub mod program;
pub mod quadrature;
pub mod record;
pub mod report;
pub mod rivals;
pub mod roundings;
pub mod run;
pub mod sampling;
pub mod sources;
mod staged;
pub mod table;
pub mod training;
pub mod workload;
pub mod workloads;

/// The README's snippets, compiled and run as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
