//! GPU computing through WGSL: adapters, devices, memory accounting and checked kernels.
//!
//! Role: the only crate that uses wgpu. All calls of wgpu are in one private module, `device`. The
//! public items are plain data types of this crate, so a new major version of wgpu changes one
//! folder only.
//! Method: dispatches are recorded and sent in one submission when a result is read
//! ([`Gpu::flush`]). Buffers come from a pool with size classes. Every size is checked against the
//! adapter's limits before memory is allocated.
//! Arithmetic: sums, differences and products of tensor programs are rounded once, in the order in
//! which the program states them, with NaN and infinities as IEEE 754 defines them, because kernels
//! hide from a driver's compiler the operations that WGSL lets the compiler simplify. Two-sum,
//! Kahan's and Dekker's algorithms therefore work. WGSL itself does not require NaN and infinities;
//! the tests of this crate and `TENSOR_VERIFY=1` compare both on the adapter at hand. (Tested on
//! Mesa's llvmpipe, on `SwiftShader`, and on NVIDIA's driver.) Exceptions: quotients, square
//! roots and elementary functions have errors of a few units in the last place
//! ([`Executor::accuracy`](tensor_core::Executor::accuracy)); the terms of a reduction or a matrix
//! product are added with fused multiply-adds and in an order that depends on the device; a driver
//! may flush subnormal numbers to zero.
//! Numbers: constants, slice starts and random stream numbers are parameters of a kernel, so a step
//! whose learning rate changes needs no new compilation ([`Gpu::compiled_kernels`]).
//! Modules: [`check`] compares kernels with CPU twins on every adapter; [`tuning`] measures block
//! sizes. `examples/own_kernel.rs` runs a kernel of one's own.
//! Features: `existing-device` accepts a device that an application has opened, and re-exports
//! wgpu; `translation` translates kernels to GLSL, HLSL and MSL; `cli` builds the program `tune`.
//! Limits: kernels count in 32 bits. [`Gpu::dispatch`] binds each buffer whole, so a buffer may not
//! exceed the adapter's binding limit. Tensor programs run on longer arrays in parts if their loops
//! can be split, otherwise on the host ([`Gpu::fallbacks`]).
//!
//! ```
//! use gpu_wgsl::{Error, Gpu, Select};
//! use shaders::{layout, params::MatmulParams};
//!
//! # fn main() -> Result<(), Error> {
//! let gpu = match Gpu::open(Select::Best) {
//!     Err(Error::NoAdapter { .. }) => return Ok(()), // no adapter here; the CPU crates still work
//!     other => other?,
//! };
//! let a = gpu.upload("a", &[1, 2], &[3.0_f32, 4.0])?;
//! let b = gpu.upload("b", &[2, 1], &[10.0_f32, 100.0])?;
//! let c = gpu.alloc::<f32>("c", &[1, 1])?;
//! gpu.dispatch(&layout::MATMUL_NAIVE, &MatmulParams::new(1, 2, 1), &[&a, &b, &c])?;
//! assert_eq!(gpu.read(&c)?, [430.0]);
//! # Ok(())
//! # }
//! ```
//!
//! A device is also an executor of tensor programs ([`tensor_core::Executor`]):
//! ```
//! use gpu_wgsl::{Error, Gpu, Select};
//! use tensor_core::Tensor;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let gpu = match Gpu::open(Select::Best) {
//!     Err(Error::NoAdapter { .. }) => return Ok(()),
//!     other => other?,
//! };
//! let x = Tensor::arange(6).reshape(&[2, 3]).realize(&gpu)?;
//! let sums = (x * 2).sum(1).eval::<i32>(&gpu)?;
//! assert_eq!(sums.into_raw_vec_and_offset().0, [6, 24]);
//! # Ok(())
//! # }
//! ```
//!
//! In a browser, whose main thread must not block, the functions with `async` in their names do the
//! same:
//! ```
//! use gpu_wgsl::{Error, Gpu, Select};
//! use tensor_core::Tensor;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> { pollster::block_on(async {
//! let gpu = match Gpu::open_async(Select::Best).await {
//!     Err(Error::NoAdapter { .. }) => return Ok(()),
//!     other => other?,
//! };
//! let x = Tensor::arange(6).reshape(&[2, 3]);
//! let [x] = Tensor::realize_all_async([x], &gpu).await?;
//! let sums = (&x * 2).sum(1).eval_async::<i32>(&gpu).await?;
//! assert_eq!(sums.into_raw_vec_and_offset().0, [6, 24]);
//! assert_eq!(x.to_host_async::<i32>().await?.into_raw_vec_and_offset().0, [0, 1, 2, 3, 4, 5]);
//! # Ok(()) }) }
//! ```

mod adapter;
pub mod check;
mod device;
mod error;
mod executor;
mod explain;
mod grid;
mod limits;
mod nest;
mod pool;
mod tiles;
mod translation;
pub mod tuning;

pub use adapter::{Adapter, DeviceType, Feature, Limits, Select};
#[cfg(feature = "existing-device")]
pub use device::foreign::*;
pub use device::{AnyBuffer, Buffer, Gpu, Read, Scalar, Timer, Timing, adapters};
pub use error::{Error, Holder, Result};
pub use executor::{FallbackReason, target};
pub use explain::{StepExplanation, explain, explain_with_matrices};
pub use grid::{MAX_WORKGROUPS_PER_DIMENSION, linear_grid};
pub use pool::PoolCounters;
pub use tiles::{Choice, Combination, ShapeClass, Tile};
pub use translation::spirv;
#[cfg(feature = "translation")]
pub use translation::{Language, translate};
