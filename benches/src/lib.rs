//! The workloads of the bench command, the claims ledger and the doctor's report.
//!
//! Role: [`workloads`] lists what is measured; the crate `harness` measures it, and [`meter`] adds
//! the energy. [`claims`] are statements of the project's sources, each recomputed. [`doctor`]
//! describes a machine. [`soak`] runs works for hours and watches their memory.
//!
//! # Adding a workload
//! Create a folder in `workloads/` with a Rust module and, for rivals, a Python script next to it,
//! which [`harness::script!`] embeds; add the module's tasks to [`workloads::all`].
//! - A single expression on tensors is a [`TensorWorkload`](harness::program::TensorWorkload), a
//!   neural net is a [`training::Recipe`]; inputs, bytes, variants, check and the rivals' arguments
//!   follow from these. A family of programs is one module with a table of cases; its script has
//!   all cases and runs the one that [`Script::with_case`](harness::rivals::Script::with_case)
//!   names.
//! - Anything else implements [`Problem`](harness::workload::Problem) for its inputs and expected
//!   result. `crates/harness/examples/sort` is a complete one.

pub mod claims;
pub mod doctor;
pub mod level_figure;
pub mod low_bit;
pub mod machine_code;
pub mod meter;
pub mod mnist;
pub mod quadrature;
pub mod roundings;
pub mod soak;
pub mod training;
pub mod workloads;

/// The snippets of the READMEs, compiled and run as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../crates/tensor-core/README.md")]
#[doc = include_str!("../../crates/gpu-wgsl/README.md")]
#[doc = include_str!("../../crates/distributions/README.md")]
#[doc = include_str!("../../crates/games/README.md")]
#[doc = include_str!("../../crates/telemetry/README.md")]
#[doc = include_str!("../../crates/quant/README.md")]
#[doc = include_str!("../../shaders/README.md")]
pub struct Readme;
