//! The fixed WGSL kernels of the workspace, with their interfaces and CPU twins.
//!
//! Role: embeds the kernel texts ([`source`]) and provides their interfaces ([`layout`], generated
//! by `cargo xtask codegen`), the parameter structs ([`params`]) and a CPU twin of each kernel
//! ([`twin`]). The crate does not depend on a device; `gpu-wgsl` runs the kernels.
//! Features: `reflect` adds the function `reflect`, which describes your own kernels from their
//! texts.
//! Method: a chain of tests. The oracle (f64, in the crate that owns the mathematics) checks the
//! twin (f32, same order of operations), and the twin checks the WGSL kernel.
//!
//! ```
//! use shaders::{layout, params::MatmulParams, twin};
//!
//! let params = MatmulParams::new(1, 2, 1);
//! let mut c = [0.0];
//! twin::matmul_naive(&layout::MATMUL_NAIVE, &params, &[3.0, 4.0], &[10.0, 100.0], &mut c);
//! assert_eq!(c, [430.0]);
//! ```

mod kernel;
#[rustfmt::skip]
pub mod layout;
pub mod params;
#[cfg(feature = "reflect")]
mod reflect;
pub mod source;
pub mod twin;

pub use kernel::{Access, Binding, Element, Kernel, ParamsLayout};
pub use params::{Field, Params};
#[cfg(feature = "reflect")]
pub use reflect::reflect;
