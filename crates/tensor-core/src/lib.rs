//! Lazy tensors with the semantics of `NumPy`, executed as fused loops on the CPU, with tools for
//! testing and profiling.
//!
//! **Execution model.** A [`Tensor`] is a handle on a program that has not run yet. Methods only
//! record work: nothing is computed before [`eval`](Tensor::eval) or [`realize`](Tensor::realize).
//! A wrong call stores its error in the tensor, and [`shape`](Tensor::shape), [`grad`], `eval` and
//! `realize` return the error. Evaluation plans the program as a whole ([`plan`]): elementwise
//! operations, broadcasts, views, padding and selections are fused into the loops that use them. A
//! shape that only occurs between a broadcast and its reduction is therefore never stored. Fusion
//! spans one level of reductions: the operand of a second reduction is an array in memory. An
//! [`Executor`] runs the steps of the plan: [`Host`] on all cores of this machine; [`Reference`]
//! one element at a time, as the oracle; devices in crates of their own. With `TENSOR_VERIFY=1`
//! every step is compared with the oracle as it runs.
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
//! // How often are two columns closer than 1? The difference has shape (256, 300, 300), but is
//! // never stored: the plan has one step and needs no memory for intermediate results.
//! let near = (x.expand_dims(2) - x.expand_dims(1)).abs().lt(1.0).sum(0);
//! let (plan, _) = Plan::new(&[&near], &host.target())?;
//! assert_eq!((plan.steps.len(), plan.peak_bytes()), (1, 0));
//! assert_eq!(near.eval::<u32>(&host)?[[7, 7]], 256);
//!
//! // Reductions can keep their axes, views copy nothing, matrix products use a matrix library.
//! let centred = &x - x.mean(Axes::keepdims(0));
//! let covariance = einsum("ni,nj->ij", &[&centred, &centred]) / 255.0;
//! let largest = covariance.argmax(1).eval::<u32>(&host)?;
//! assert!(largest.iter().enumerate().all(|(i, &j)| i as u32 == j));
//!
//! // Errors are returned on evaluation, with the source line of the faulty operation.
//! let (two, three) = (array![1.0_f32, 2.0], array![1.0_f32, 2.0, 3.0]);
//! let wrong = Tensor::from_array(two) + Tensor::from_array(three);
//! let error = wrong.exp().eval::<f32>(&host).unwrap_err();
//! assert!(error.to_string().starts_with("add: shapes [[2], [3]] do not broadcast"), "{error}");
//! assert!(error.location().is_some());
//! # Ok::<(), tensor_core::Error>(())
//! ```
//!
//! The other parts of the crate:
//! - [`grad`](grad()) and [`jit`](jit()): gradients as tensor programs, and functions whose plan is
//!   cached; [`value_and_grad`]: a loss and its gradients in one call;
//! - [`Eager`]: a scope in which each operation runs at once, for debugging;
//! - [`loss`], [`optim`] and [`init`]: losses, optimizers and initialization for training small
//!   networks;
//! - [`profile`]: time and memory by step, operation and source line, as a table, a trace or a
//!   picture;
//! - [`op`]: the definition of every scalar operation; [`ir`] and [`exec`]: the interfaces that a
//!   new executor implements;
//! - [`shape`], [`view`] and [`array`](mod@array): `NumPy`'s rules for shapes and host arrays;
//! - [`einsum`](mod@einsum): parsing and evaluation of einsum specifications, and the order of
//!   pairwise products;
//! - [`gemm`] and [`math`]: the matrix product, and elementary functions that the compiler can
//!   vectorize;
//! - [`similarity`]: the comparison of all pairs of columns, streamed in tiles;
//! - [`compare`]: the comparison that decides whether a result is correct;
//! - [`rng`]: counter-based random numbers with the same bits on every device and in any order;
//! - [`data`]: IDX, NPY and safetensors files.
//!
//! Element types are `f32`, `f64`, `i32`, `u32`, `bool`, and `f16` for storage only
//! ([`half::f16`]). A tensor has at most 64 axes ([`shape::MAX_RANK`]).

pub use half;
pub use ndarray;

pub use dtype::{DType, Element, HostData, Scalar};
pub use eager::Eager;
pub use error::{Error, Result};
pub use exec::{Executor, Host, Reference, Storage, TensorList};
pub use float::Float;
pub use grad::{grad, value_and_grad};
pub use jit::{Compiled, jit};
pub use plan::Counters;
pub use profile::Profiler;
pub use tensor::{Axes, Axis, Choice, Operand, ScanAxis, SortAxis, Tensor, einsum};
pub use view::View;

pub mod array;
mod cache;
pub mod compare;
pub mod data;
mod dtype;
mod eager;
pub mod einsum;
mod error;
pub mod exec;
#[cfg(test)]
mod fault;
mod file_type;
mod float;
pub mod gemm;
mod grad;
mod hash;
pub mod init;
pub mod ir;
mod jit;
mod level;
pub mod loss;
pub mod math;
pub mod op;
pub mod optim;
mod parallel;
pub mod plan;
mod plane;
pub mod profile;
#[cfg(any(test, feature = "random-programs"))]
pub mod random_programs;
pub mod rng;
pub mod shape;
pub mod similarity;
mod storage;
mod tensor;
pub mod view;
