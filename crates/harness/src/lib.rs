//! Measures workloads: runs every implementation on every executor of a machine, next to other
//! libraries, and reports only times of results that were checked.
//!
//! Role: a [`workload`] defines what is computed and how a result is checked; a workload that is a
//! single expression on tensors is a [`program`]. [`run`] times a workload together with its
//! rivals, [`campaign`] does so for a list of tasks, [`record`] stores the results as JSON, and
//! [`table`] and [`report`] display a record. [`changes`] compares records of two versions, and
//! [`trend`] shows those of a folder. [`sampling`] shows where a workload spends its time. The
//! folder `examples/sort` is a complete workload that is not a tensor program.
//! Terms: a *variant* is one implementation of a workload in this project, such as plain loops, the
//! host executor or a GPU; its variants and rivals at one size are a *comparison*. A
//! *rival* is another library (NumPy, PyTorch, JAX, …) that does the same work. A *contestant* is
//! either. The *oracle* is the plain reference computation, usually in f64, that every result is
//! compared with.
//! Limits: contains no workload, and does not depend on the crates of games, distributions or
//! sensors; a program that can measure energy implements [`energy::EnergyMeter`].

pub mod campaign;
pub mod changes;
pub mod claim;
pub mod columns;
pub mod comparison;
pub mod curve;
pub mod energy;
pub mod findings;
pub mod implementation;
pub mod machine;
pub mod measure;
pub mod memory;
mod on_cpu;
pub mod on_gpu;
mod on_host;
pub mod peak;
pub mod process;
pub mod program;
pub mod progress;
pub mod record;
pub mod report;
pub mod rivals;
pub mod run;
pub mod sampling;
pub mod sign_test;
pub mod sources;
pub mod speedup;
mod staged;
pub mod table;
pub mod trend;
pub mod workload;
