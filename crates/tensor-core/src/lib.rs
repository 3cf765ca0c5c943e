//! Host arrays with `NumPy`'s rules, and what it takes to trust them.
//!
//! An array here is an [`ndarray`] array. Around it stand
//! - [`shape`], [`view`] and [`array`](mod@array): broadcasting, slices, windows and reshapes as affine
//!   index maps that copy nothing; every error names the operation and the shapes;
//! - [`einsum()`]: sums of products over named indices;
//! - [`gemm`]: the fast matrix product, and the plain one in f64 that it is compared with;
//! - [`compare`]: the comparator that decides whether a result is right;
//! - [`rng`]: counter-based random numbers, the same bits on every device and in any order;
//! - [`data`]: files, so far IDX.
//!
//! ```
//! use tensor_core::compare::{Bound, assert_close};
//! use tensor_core::ndarray::{Array1, Array2};
//! use tensor_core::rng::Philox;
//! use tensor_core::{View, array, einsum};
//!
//! // Five random images of 784 pixels, and weights for ten classes.
//! let mut x = Array2::<f32>::zeros((5, 784));
//! let mut w = Array2::<f32>::zeros((784, 10));
//! let random = Philox::new(42);
//! random.stream(0).fill_uniform_f32(0, x.as_slice_mut().expect("new arrays are contiguous"));
//! random.stream(1).fill_normal_f32(0, w.as_slice_mut().expect("new arrays are contiguous"));
//!
//! // A matrix product in index notation, and a bias broadcast over its rows.
//! let scores = einsum("ik,kj->ij", &[&x, &w])?;
//! let scores = array::zip_with("add", &scores, &Array1::from_elem(10, 0.5), |score, bias| score + bias)?;
//! assert_eq!(scores.shape(), [5, 10]);
//!
//! // The same in f64. A product meets up to 784 roundings on its way into the sum, and one more where
//! // the bias is added; each is off by half an epsilon at most.
//! let (x, w) = (x.mapv(f64::from), w.mapv(f64::from));
//! let terms = x.mapv(f64::abs).dot(&w.mapv(f64::abs)) + 0.5;
//! assert_close(&scores, x.dot(&w) + 0.5, Bound::relative(785 / 2 + 1).scaled_by(terms));
//!
//! // Rows, columns, flips and windows of a buffer are maps, not copies.
//! let view = View::contiguous(&[28, 28])?.window(0, 3, 1)?.window(1, 3, 1)?;
//! assert_eq!(view.shape(), [26, 26, 3, 3]);
//! # Ok::<(), tensor_core::Error>(())
//! ```

pub use ndarray;

pub use einsum::einsum;
pub use error::{Error, Result};
pub use float::Float;
pub use view::View;

pub mod array;
pub mod compare;
pub mod data;
pub mod einsum;
mod error;
mod float;
pub mod gemm;
pub mod rng;
pub mod shape;
pub mod view;
