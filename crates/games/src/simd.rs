//! Functions for the SIMD that this CPU has, chosen at run time.
//!
//! Role: the only place that knows how that is done, and what [`LANES`] lanes are made of. (Batches put more abreast.)
//! Method: `LANES` numbers abreast are one vector of the widest CPUs and several parts of it on others; lanes never meet,
//! and no multiply-add is fused, so every CPU gives the same bits. Explicit vectors are needed: of plain loops over arrays
//! of eight, compilers made scalars.

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};
use pulp::Simd;
use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

/// Numbers abreast.
pub(crate) const LANES: usize = 8;

/// A number for each lane, where a CPU reads it at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Vector(pub(crate) [f64; LANES]);

/// Numbers, of which the first stands where a vector may.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "Vec<f64>", into = "Vec<f64>"))]
pub(crate) struct Numbers {
    vectors: Vec<Vector>,
    len: usize,
}

impl Numbers {
    /// Gives as many zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        Self {
            vectors: vec![Vector::default(); len.div_ceil(LANES)],
            len,
        }
    }

    /// Gives the numbers and what fills the last vector.
    pub(crate) fn vectors(&self) -> &[Vector] {
        &self.vectors
    }

    /// Gives the numbers and what fills the last vector.
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

/// Sees vectors as numbers.
#[inline(always)]
pub(crate) fn flat(vectors: &[Vector]) -> &[f64] {
    cast_slice(vectors)
}

/// Sees vectors as numbers.
#[inline(always)]
pub(crate) fn flat_mut(vectors: &mut [Vector]) -> &mut [f64] {
    cast_slice_mut(vectors)
}

pub(crate) static ARCH: LazyLock<pulp::Arch> = LazyLock::new(pulp::Arch::new);

/// Defines functions that are compiled for several kinds of SIMD, with all that is `#[inline(always)]` in them; the first
/// name in angle brackets is that of the lifetime of references, the second that of the kind.
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

/// Gives how many of a CPU's vectors [`LANES`] lanes are.
#[inline(always)]
pub(crate) fn parts<S: Simd>() -> usize {
    LANES / S::F64_LANES
}

/// Sees vectors as those of a CPU.
#[inline(always)]
pub(crate) fn split<S: Simd>(vectors: &[Vector]) -> &[S::f64s] {
    S::as_simd_f64s(flat(vectors)).0
}

/// Sees vectors as those of a CPU.
#[inline(always)]
pub(crate) fn split_mut<S: Simd>(vectors: &mut [Vector]) -> &mut [S::f64s] {
    S::as_mut_simd_f64s(flat_mut(vectors)).0
}

/// Gives `a b + c`, rounded twice.
#[inline(always)]
pub(crate) fn mul_then_add<S: Simd>(simd: S, a: S::f64s, b: S::f64s, c: S::f64s) -> S::f64s {
    simd.add_f64s(simd.mul_f64s(a, b), c)
}

/// Gives a function of each lane, for what CPUs have no instruction for.
#[inline(always)]
pub(crate) fn map<S: Simd>(_simd: S, mut numbers: S::f64s, f: impl Fn(f64) -> f64) -> S::f64s {
    for number in cast_slice_mut::<S::f64s, f64>(std::slice::from_mut(&mut numbers)) {
        *number = f(*number);
    }
    numbers
}
