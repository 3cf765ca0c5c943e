//! Learned low-bit quantisers: levels that are sums over a small basis, so that products of
//! quantised numbers are counts of bits.
//!
//! - [`LevelSet`]: the levels, codes and thresholds of a quantiser (binary, ternary, uniform,
//!   LQ-Nets with and without an offset, ABC-Net), on slices and as tensor programs.
//! - [`Quantizer`]: the level sets of the channels of a tensor.
//! - [`Qem`]: the basis with the smallest mean square error for a [`Sample`] or a distribution;
//!   one step for all channels as a tensor program ([`Qem::step_of`]).
//! - [`abc`]: the levels of ABC-Net. [`lloyd_max`]: locally optimal levels without a basis.
//! - [`Network`]: a network of convolutions in f32, with float or quantised weights and
//!   activations. [`StateDict`] reads its parameters from files of PyTorch's layout.
//! - [`Report`]: bits, errors and sizes of the layers of a quantised network.
//! - [`FrozenNetwork`]: a quantised network as integers and bits or bytes ([`Packing`]). Its codes
//!   are equal on every executor.
//! - [`conv2d_packed`]: convolutions of [`Packed`] images and [`PackedSigns`], as tensor programs.
//! - [`layers`]: convolutions, linear layers, normalizations and activations in training, with
//!   float or quantised weights and activations. [`train`]: networks of these layers as data, and
//!   their training, with checkpoints. [`MovingBasis`]: the moving average of a basis.
//! - Module `gpu` (feature `gpu`): frozen networks and convolutions of packed numbers on a device.
//!
//! # Examples
//! ```
//! use quant::{Qem, Sample};
//!
//! let weights: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.37).sin().powi(3)).collect();
//! let fit = Qem::signs(2)?.fit(&Sample::new(&weights)?)?;
//! let levels = fit.level_set()?;
//! let (codes, _) = levels.quantize(&weights);
//! let restored = levels.dequantize(&codes)?;
//! assert_eq!((codes.len(), restored.len()), (1000, 1000));
//! assert!(fit.mean_square_error < 0.024);
//! # Ok::<(), quant::Error>(())
//! ```
//! Tensors and executors are those of the crate `tensor-core`, devices those of `gpu-wgsl`; neither
//! is re-exported.
//! Limits: at most 8 numbers in a basis, and at most 4 bits of levels that are fitted in training.
//! Sides and channels of an image, and outputs of a layer, are at most 2^20, and the numbers of a
//! window at most [`Window::MAX`]. Sums of a frozen network must fit i32
//! ([`Error::SumOverflow`]).

mod abc;
mod average;
mod border;
mod checksum;
mod conv;
mod error;
#[cfg(test)]
mod fault;
mod frozen;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod layers;
mod least_squares;
mod level_set;
mod lloyd_max;
mod network;
mod planes;
mod population;
mod qem;
mod quantizer;
mod report;
mod state_dict;
pub mod train;
mod window;

pub use abc::{Abc, abc};
pub use average::MovingBasis;
pub use conv::{Outside, Packed, PackedSigns, conv2d_packed};
pub use error::{Error, Result};
pub use frozen::{FrozenLayer, FrozenNetwork};
pub use level_set::{Alphabet, LevelSet, MAX_BITS, Ties};
pub use lloyd_max::{LloydMax, lloyd_max};
pub use network::{Activation, InputImage, Layer, Network, Normalization, Weights};
pub use planes::{Packing, PlaneLayout};
pub use population::{Cell, Normal, Population, RectifiedNormal, Sample};
pub use qem::{Fit, Qem, QemStep};
pub use quantizer::Quantizer;
pub use report::{LayerReport, QuantizerReport, Report};
pub use state_dict::StateDict;
pub use window::Window;
