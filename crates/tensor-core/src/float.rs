//! The element types that sums and products are taken in.

use std::ops::{Add, Mul};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// An element type of einsum and of matrix products: `f32` or `f64`.
pub trait Float:
    sealed::Sealed + Copy + Add<Output = Self> + Mul<Output = Self> + Send + Sync + 'static
{
    /// The empty sum.
    const ZERO: Self;
    /// The empty product.
    const ONE: Self;
}

impl Float for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
}

impl Float for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
}
