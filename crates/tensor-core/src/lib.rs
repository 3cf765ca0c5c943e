//! Lazy tensors with `NumPy`'s rules, fused without intermediates, on the CPU; and what it takes to trust them.
//!
//! **The model in one screen.** A [`Tensor`] is a handle on a program that has not run: methods describe work, and nothing
//! is computed or fails before [`eval`](Tensor::eval) or [`realize`](Tensor::realize). Then the program is planned as a
//! whole ([`plan`]): what is element by element, broadcast, viewed, padded or selected is merged into the loops that need
//! it, so a shape that only appears between a broadcast and its reduction is never in memory (one level of reductions at a
//! time: what a second reduction reads is an array). An [`Executor`] runs the plan's steps: [`Host`] on all
//! cores of this machine; [`Reference`] plainly, one element at a time, as the oracle; devices in crates of their own. With
//! `TENSOR_VERIFY=1` every step is compared with the oracle as it runs.
//!
//! ```
//! use tensor_core::ndarray::array;
//! use tensor_core::plan::Plan;
//! use tensor_core::rng::Philox;
//! use tensor_core::{Axes, Executor, Host, Tensor, einsum};
//!
//! let host = Host::new();
//! let x = Tensor::randn(Philox::new(42), &[256, 300]).realize(&host)?;
//!
//! // How often are two columns closer than 1? Its logical shape (256, 300, 300) exists in no memory: one step.
//! let near = (x.expand_dims(2) - x.expand_dims(1)).abs().lt(1.0).sum(0);
//! let (plan, _) = Plan::of(&[&near], &host.target())?;
//! assert_eq!((plan.steps.len(), plan.peak_bytes()), (1, 0));
//! assert_eq!(near.eval::<u32>(&host)?[[7, 7]], 256);
//!
//! // Reductions keep their axes on demand, views cost nothing, matrix products go to a library.
//! let centred = &x - x.mean(Axes::keep(0));
//! let covariance = einsum("ni,nj->ij", &[&centred, &centred]) / 255.0;
//! assert!(covariance.argmax(1).eval::<u32>(&host)?.iter().enumerate().all(|(i, &j)| i as u32 == j));
//!
//! // What is wrong is said when it is asked for, with the line that wrote it.
//! let wrong = Tensor::from_array(array![1.0_f32, 2.0]) + Tensor::from_array(array![1.0_f32, 2.0, 3.0]);
//! let error = wrong.exp().eval::<f32>(&host).unwrap_err();
//! assert!(error.to_string().starts_with("add: shapes [[2], [3]] do not broadcast"), "{error}");
//! assert!(error.location().is_some());
//! # Ok::<(), tensor_core::Error>(())
//! ```
//!
//! Around it stand
//! - [`grad`](grad()) and [`jit`](jit()): gradients as programs of their own, and functions that are planned once;
//!   [`value_and_grad`]: a loss and its gradients in one call;
//! - [`loss`], [`optim`] and [`init`]: what training a small net takes;
//! - [`profile`]: where time and memory go, by step, operation and line; a trace and a picture;
//! - [`op`]: what every scalar operation computes; [`ir`] and [`exec`]: all that a new executor needs to know;
//! - [`shape`], [`view`] and [`array`](mod@array): `NumPy`'s rules for shapes and host arrays;
//! - [`einsum`](mod@einsum): specifications, paths, and the plain definition;
//! - [`gemm`] and [`math`]: the matrix product, and elementary functions that vectorise;
//! - [`compare`]: the comparator that decides whether a result is right;
//! - [`rng`]: counter-based random numbers, the same bits on every device and in any order;
//! - [`data`]: IDX, NPY and safetensors files.
//!
//! Types are `f32`, `f64`, `i32`, `u32`, `bool`, and `f16` to store ([`half::f16`]). Scans and
//! sorts are absent for now.

pub use half;
pub use ndarray;

pub use dtype::{DType, Element, HostData, Scalar};
pub use eager::Eager;
pub use error::{Error, Result};
pub use exec::{Executor, Host, Reference, Storage};
pub use float::Float;
pub use grad::{grad, value_and_grad};
pub use jit::{Compiled, Counters, jit};
pub use profile::Profiler;
pub use tensor::{Axes, Axis, Choice, Operand, Tensor, TensorList, einsum};
pub use view::View;

pub mod array;
pub mod compare;
pub mod data;
mod dtype;
mod eager;
pub mod einsum;
mod error;
pub mod exec;
#[cfg(test)]
mod fault;
mod float;
pub mod gemm;
mod grad;
pub mod init;
pub mod ir;
mod jit;
pub mod loss;
pub mod math;
pub mod op;
pub mod optim;
pub mod plan;
pub mod profile;
#[cfg(any(test, feature = "random-programs"))]
pub mod random_programs;
pub mod rng;
pub mod shape;
pub mod similarity;
mod tensor;
pub mod view;
