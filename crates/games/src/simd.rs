//! Functions compiled for several SIMD instruction sets and selected at run time.
//!
//! Role: the only place that selects an instruction set and that defines groups of [`LANES`] lanes.
//! (Batches use larger groups.)
//! Method: `LANES` numbers fill one vector of the widest CPUs and several vectors on other CPUs.
//! Lanes never interact and no multiply-add is fused, so every CPU computes the same bits. Explicit
//! vectors are needed because compilers turned plain loops over arrays of eight into scalar code.

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};
use pulp::Simd;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

/// Number of f64 lanes of a [`Vector`]: as many as fit in a 512-bit register.
pub(crate) const LANES: usize = 8;

/// A vector with a number for each lane, aligned for SIMD loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Vector(pub(crate) [f64; LANES]);

/// An array of numbers that starts at the alignment of a vector.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "Vec<f64>", into = "Vec<f64>"))]
pub(crate) struct Numbers {
    vectors: Vec<Vector>,
    len: usize,
}

impl Numbers {
    /// Creates an array of `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        Self {
            vectors: vec![Vector::default(); len.div_ceil(LANES)],
            len,
        }
    }

    /// Returns the numbers and the padding of the last vector.
    pub(crate) fn vectors(&self) -> &[Vector] {
        &self.vectors
    }

    /// Returns the numbers and the padding of the last vector, mutably.
    pub(crate) fn vectors_mut(&mut self) -> &mut [Vector] {
        &mut self.vectors
    }
}

impl Deref for Numbers {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &flat(&self.vectors)[..self.len]
    }
}

impl DerefMut for Numbers {
    fn deref_mut(&mut self) -> &mut [f64] {
        &mut flat_mut(&mut self.vectors)[..self.len]
    }
}

impl From<Vec<f64>> for Numbers {
    fn from(numbers: Vec<f64>) -> Self {
        let mut copy = Self::zeros(numbers.len());
        copy.copy_from_slice(&numbers);
        copy
    }
}

impl From<Numbers> for Vec<f64> {
    fn from(numbers: Numbers) -> Self {
        numbers.to_vec()
    }
}

/// Reinterprets vectors as numbers.
#[inline(always)]
pub(crate) fn flat(vectors: &[Vector]) -> &[f64] {
    cast_slice(vectors)
}

/// Reinterprets vectors as mutable numbers.
#[inline(always)]
pub(crate) fn flat_mut(vectors: &mut [Vector]) -> &mut [f64] {
    cast_slice_mut(vectors)
}

pub(crate) static ARCH: LazyLock<pulp::Arch> = LazyLock::new(pulp::Arch::new);

/// Defines functions that are compiled for several SIMD instruction sets, together with every
/// `#[inline(always)]` function that they call. The first name in angle brackets is the lifetime of
/// references, the second the instruction set.
macro_rules! simd {
    ($($(#[$doc:meta])* $vis:vis fn $name:ident<$a:lifetime, $kind:ident>(
        $simd:ident; $($arg:ident: $ty:ty),+ $(,)?
    ) $(-> $out:ty)? $body:block)+) => {$(
        $(#[$doc])*
        $vis fn $name<$a>($($arg: $ty),+) $(-> $out)? {
            struct Work<$a> {
                $($arg: $ty),+
            }

            impl pulp::WithSimd for Work<'_> {
                type Output = $crate::simd::or_unit!($($out)?);

                #[inline(always)]
                fn with_simd<$kind: pulp::Simd>(self, $simd: $kind) -> Self::Output {
                    let Self { $($arg),+ } = self;
                    $body
                }
            }

            $crate::simd::ARCH.dispatch(Work { $($arg),+ })
        }
    )+};
}

macro_rules! or_unit {
    () => {
        ()
    };
    ($out:ty) => {
        $out
    };
}

pub(crate) use {or_unit, simd};

/// Returns the number of SIMD vectors in [`LANES`] lanes.
#[inline(always)]
pub(crate) fn parts<S: Simd>() -> usize {
    LANES / S::F64_LANES
}

/// Reinterprets the slice as SIMD vectors.
#[inline(always)]
pub(crate) fn split<S: Simd>(vectors: &[Vector]) -> &[S::f64s] {
    S::as_simd_f64s(flat(vectors)).0
}

/// Reinterprets the slice as mutable SIMD vectors.
#[inline(always)]
pub(crate) fn split_mut<S: Simd>(vectors: &mut [Vector]) -> &mut [S::f64s] {
    S::as_mut_simd_f64s(flat_mut(vectors)).0
}

/// Returns `a b + c`, rounded twice.
#[inline(always)]
pub(crate) fn mul_then_add<S: Simd>(simd: S, a: S::f64s, b: S::f64s, c: S::f64s) -> S::f64s {
    simd.add_f64s(simd.mul_f64s(a, b), c)
}

/// Applies a function to each lane, for operations without a SIMD instruction.
#[inline(always)]
pub(crate) fn map<S: Simd>(_simd: S, mut numbers: S::f64s, f: impl Fn(f64) -> f64) -> S::f64s {
    for number in cast_slice_mut::<S::f64s, f64>(std::slice::from_mut(&mut numbers)) {
        *number = f(*number);
    }
    numbers
}
