//! The element types of einsum and of matrix products.

use crate::dtype::Element;
use std::ops::{Add, Mul};

mod sealed {
    use gemm_common::Parallelism;

    /// A function of the GEMM library for a type. It adds `beta · a · b` to `alpha · c`, or
    /// overwrites `c`. The parameters are the numbers of rows, columns and terms; a pointer with
    /// the strides of columns and of rows for `c`, with a flag whether `c` is read, for `a`, and
    /// for `b`; `alpha` and `beta`; flags for complex numbers; and the threads.
    pub(super) type Product<T> = unsafe fn(
        usize,
        usize,
        usize,
        *mut T,
        isize,
        isize,
        bool,
        *const T,
        isize,
        isize,
        *const T,
        isize,
        isize,
        T,
        T,
        bool,
        bool,
        bool,
        Parallelism,
    );

    pub trait Sealed: Sized {
        /// Returns the function for the instruction sets of this CPU.
        fn product() -> Product<Self>;
    }

    impl Sealed for f32 {
        fn product() -> Product<Self> {
            gemm_f32::gemm::f32::get_gemm_fn()
        }
    }

    impl Sealed for f64 {
        fn product() -> Product<Self> {
            gemm_f64::gemm::f64::get_gemm_fn()
        }
    }
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
