//! The element types of einsum and of matrix products.

use crate::dtype::Element;
use std::ops::{Add, Mul};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A floating-point element type, `f32` or `f64`.
pub trait Float: sealed::Sealed + Element + Add<Output = Self> + Mul<Output = Self> {
    /// The additive identity, 0.
    const ZERO: Self;
    /// The multiplicative identity, 1.
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
