//! Numbers with vectors of every instruction set.

use bytemuck::Pod;
use pulp::Simd;

use super::lanes::{LaneType, Stored};
use crate::op::Reduce;

/// A number with vectors.
pub(super) trait Vector: Stored<Lane = Self> + LaneType {
    /// A vector of the instruction set `S`. All types of 32 bits have equally many lanes.
    type Of<S: Simd>: Pod;
    /// Returns whether a number is neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Returns the number of lanes of a vector.
    fn n_lanes<S: Simd>() -> usize;
    /// Returns a vector of equal lanes.
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Of<S>;
    /// Returns a vector of the first lanes of `x`, and zeros after its end.
    fn load<S: Simd>(simd: S, x: &[Self]) -> Self::Of<S>;
    /// Returns `x + y`; integers wrap.
    fn add<S: Simd>(simd: S, x: Self::Of<S>, y: Self::Of<S>) -> Self::Of<S>;
    /// Returns `x * y`; integers wrap.
    fn mul<S: Simd>(simd: S, x: Self::Of<S>, y: Self::Of<S>) -> Self::Of<S>;
    /// Returns the larger operand; NaN if one is NaN.
    fn larger<S: Simd>(simd: S, x: Self::Of<S>, y: Self::Of<S>) -> Self::Of<S>;
    /// Returns the smaller operand; NaN if one is NaN.
    fn smaller<S: Simd>(simd: S, x: Self::Of<S>, y: Self::Of<S>) -> Self::Of<S>;
}

/// A float with vectors.
pub(super) trait FloatVector: Vector {
    /// Returns `x * y + z`, with one rounding where the instruction set has such an instruction.
    fn mul_add<S: Simd>(simd: S, x: Self::Of<S>, y: Self::Of<S>, z: Self::Of<S>) -> Self::Of<S>;
    /// Returns `|x - y|`.
    fn distance<S: Simd>(simd: S, x: Self::Of<S>, y: Self::Of<S>) -> Self::Of<S>;
    /// Returns `x - y`.
    fn sub<S: Simd>(simd: S, x: Self::Of<S>, y: Self::Of<S>) -> Self::Of<S>;
    /// Returns `x / y`.
    fn div<S: Simd>(simd: S, x: Self::Of<S>, y: Self::Of<S>) -> Self::Of<S>;
    /// Returns `-x`.
    fn neg<S: Simd>(simd: S, x: Self::Of<S>) -> Self::Of<S>;
    /// Returns `|x|`.
    fn abs<S: Simd>(simd: S, x: Self::Of<S>) -> Self::Of<S>;
    /// Returns the square root, rounded correctly.
    fn sqrt<S: Simd>(simd: S, x: Self::Of<S>) -> Self::Of<S>;
    /// Returns `x` where it is NaN, and `y` elsewhere.
    fn nan_or<S: Simd>(simd: S, x: Self::Of<S>, y: Self::Of<S>) -> Self::Of<S>;
    /// Returns the lanes of `x` from the lane `n` on, then the first `n` lanes.
    fn rotate<S: Simd>(simd: S, x: Self::Of<S>, n: usize) -> Self::Of<S>;
    /// Returns the larger operand. If an operand is NaN, the result is one of the operands; of two
    /// zeros, the result has either sign.
    fn max_of_numbers<S: Simd>(simd: S, x: Self::Of<S>, y: Self::Of<S>) -> Self::Of<S>;
    /// Returns the smaller operand, with the exceptions of
    /// [`max_of_numbers`](Self::max_of_numbers).
    fn min_of_numbers<S: Simd>(simd: S, x: Self::Of<S>, y: Self::Of<S>) -> Self::Of<S>;
    /// Returns `y` where `y >= x`, and `x` elsewhere.
    fn at_least<S: Simd>(simd: S, x: Self::Of<S>, y: Self::Of<S>) -> Self::Of<S>;
    /// Returns `y` where `y <= x`, and `x` elsewhere.
    fn at_most<S: Simd>(simd: S, x: Self::Of<S>, y: Self::Of<S>) -> Self::Of<S>;
}

/// Implements [`Vector`] by the functions of `pulp`.
macro_rules! vector {
    (
        $type:ty,
        $of:ident,
        $n_lanes:ident,
        [$splat:ident, $load:ident, $add:ident, $mul:ident],
        $is_finite:expr,
        $extreme:ident!($larger:ident, $smaller:ident)
    ) => {
        impl Vector for $type {
            type Of<S: Simd> = S::$of;

            #[inline(always)]
            fn is_finite(self) -> bool {
                $is_finite(self)
            }

            #[inline(always)]
            fn n_lanes<S: Simd>() -> usize {
                S::$n_lanes
            }

            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::$of {
                simd.$splat(x)
            }

            #[inline(always)]
            fn load<S: Simd>(simd: S, x: &[Self]) -> S::$of {
                simd.$load(x)
            }

            #[inline(always)]
            fn add<S: Simd>(simd: S, x: S::$of, y: S::$of) -> S::$of {
                simd.$add(x, y)
            }

            #[inline(always)]
            fn mul<S: Simd>(simd: S, x: S::$of, y: S::$of) -> S::$of {
                simd.$mul(x, y)
            }

            #[inline(always)]
            fn larger<S: Simd>(simd: S, x: S::$of, y: S::$of) -> S::$of {
                $extreme!(simd, $larger, x, y)
            }

            #[inline(always)]
            fn smaller<S: Simd>(simd: S, x: S::$of, y: S::$of) -> S::$of {
                $extreme!(simd, $smaller, x, y)
            }
        }
    };
}

/// Returns the extreme operand of integers.
macro_rules! extreme {
    ($simd:ident, $extreme:ident, $x:ident, $y:ident) => {
        $simd.$extreme($x, $y)
    };
}

/// Returns `x` where it wins a comparison with `y` or is NaN, and `y` elsewhere. A comparison with
/// NaN fails, so a NaN of `y` is the result, too.
macro_rules! extreme_f32 {
    ($simd:ident, $wins:ident, $x:ident, $y:ident) => {{
        let is_nan = $simd.not_m32s($simd.equal_f32s($x, $x));
        $simd.select_f32s($simd.or_m32s($simd.$wins($x, $y), is_nan), $x, $y)
    }};
}

/// As `extreme_f32`, for `f64`.
macro_rules! extreme_f64 {
    ($simd:ident, $wins:ident, $x:ident, $y:ident) => {{
        let is_nan = $simd.not_m64s($simd.equal_f64s($x, $x));
        $simd.select_f64s($simd.or_m64s($simd.$wins($x, $y), is_nan), $x, $y)
    }};
}

/// Implements [`FloatVector`] by the functions of `pulp`.
macro_rules! float_vector {
    (
        $float:ty,
        $of:ident,
        [$mul_add:ident, $sub:ident, $div:ident],
        [$neg:ident, $abs:ident, $sqrt:ident],
        [$max:ident, $min:ident],
        [$to_bits:ident, $rotate:ident, $from_bits:ident],
        [$select:ident, $equal:ident, $at_least:ident, $at_most:ident]
    ) => {
        impl FloatVector for $float {
            #[inline(always)]
            fn mul_add<S: Simd>(simd: S, x: S::$of, y: S::$of, z: S::$of) -> S::$of {
                simd.$mul_add(x, y, z)
            }

            #[inline(always)]
            fn distance<S: Simd>(simd: S, x: S::$of, y: S::$of) -> S::$of {
                simd.$abs(simd.$sub(x, y))
            }

            #[inline(always)]
            fn sub<S: Simd>(simd: S, x: S::$of, y: S::$of) -> S::$of {
                simd.$sub(x, y)
            }

            #[inline(always)]
            fn div<S: Simd>(simd: S, x: S::$of, y: S::$of) -> S::$of {
                simd.$div(x, y)
            }

            #[inline(always)]
            fn neg<S: Simd>(simd: S, x: S::$of) -> S::$of {
                simd.$neg(x)
            }

            #[inline(always)]
            fn abs<S: Simd>(simd: S, x: S::$of) -> S::$of {
                simd.$abs(x)
            }

            #[inline(always)]
            fn sqrt<S: Simd>(simd: S, x: S::$of) -> S::$of {
                simd.$sqrt(x)
            }

            #[inline(always)]
            fn nan_or<S: Simd>(simd: S, x: S::$of, y: S::$of) -> S::$of {
                simd.$select(simd.$equal(x, x), y, x)
            }

            #[inline(always)]
            fn rotate<S: Simd>(simd: S, x: S::$of, n: usize) -> S::$of {
                simd.$from_bits(simd.$rotate(simd.$to_bits(x), n))
            }

            #[inline(always)]
            fn max_of_numbers<S: Simd>(simd: S, x: S::$of, y: S::$of) -> S::$of {
                simd.$max(x, y)
            }

            #[inline(always)]
            fn min_of_numbers<S: Simd>(simd: S, x: S::$of, y: S::$of) -> S::$of {
                simd.$min(x, y)
            }

            #[inline(always)]
            fn at_least<S: Simd>(simd: S, x: S::$of, y: S::$of) -> S::$of {
                simd.$select(simd.$at_least(y, x), y, x)
            }

            #[inline(always)]
            fn at_most<S: Simd>(simd: S, x: S::$of, y: S::$of) -> S::$of {
                simd.$select(simd.$at_most(y, x), y, x)
            }
        }
    };
}

vector!(
    f32,
    f32s,
    F32_LANES,
    [splat_f32s, partial_load_f32s, add_f32s, mul_f32s],
    f32::is_finite,
    extreme_f32!(greater_than_f32s, less_than_f32s)
);
vector!(
    f64,
    f64s,
    F64_LANES,
    [splat_f64s, partial_load_f64s, add_f64s, mul_f64s],
    f64::is_finite,
    extreme_f64!(greater_than_f64s, less_than_f64s)
);
vector!(
    i32,
    i32s,
    I32_LANES,
    [splat_i32s, partial_load_i32s, add_i32s, mul_i32s],
    |_| true,
    extreme!(max_i32s, min_i32s)
);
vector!(
    u32,
    u32s,
    U32_LANES,
    [splat_u32s, partial_load_u32s, add_u32s, mul_u32s],
    |_| true,
    extreme!(max_u32s, min_u32s)
);
float_vector!(
    f32,
    f32s,
    [mul_add_e_f32s, sub_f32s, div_f32s],
    [neg_f32s, abs_f32s, sqrt_f32s],
    [max_f32s, min_f32s],
    [transmute_u32s_f32s, rotate_left_u32s, transmute_f32s_u32s],
    [
        select_f32s,
        equal_f32s,
        greater_than_or_equal_f32s,
        less_than_or_equal_f32s
    ]
);
float_vector!(
    f64,
    f64s,
    [mul_add_e_f64s, sub_f64s, div_f64s],
    [neg_f64s, abs_f64s, sqrt_f64s],
    [max_f64s, min_f64s],
    [transmute_u64s_f64s, rotate_left_u64s, transmute_f64s_u64s],
    [
        select_f64s,
        equal_f64s,
        greater_than_or_equal_f64s,
        less_than_or_equal_f64s
    ]
);

/// Returns the lanes of a vector.
#[inline(always)]
pub(super) fn vector_lanes<S: Simd, T: FloatVector>(vector: &T::Of<S>) -> &[T] {
    bytemuck::cast_slice(std::slice::from_ref(vector))
}

/// Returns `N` vectors of lanes, with zeros after the end of the lanes.
#[inline(always)]
pub(super) fn load_vectors<S: Simd, T: FloatVector, const N: usize>(
    simd: S,
    lanes: &[T],
    at: usize,
) -> [T::Of<S>; N] {
    let width = T::n_lanes::<S>();
    // These are plain loops because the compiler does not always inline calls of `array::from_fn`.
    let mut vectors = [T::splat(simd, T::identity(Reduce::Sum)); N];
    if lanes.len() >= at + N * width {
        for (number, vector) in vectors.iter_mut().enumerate() {
            *vector = vector_at::<S, T>(&lanes[at..][..N * width], number);
        }
    } else {
        for (number, vector) in vectors.iter_mut().enumerate() {
            let start = lanes.len().min(at + number * width);
            let lanes = &lanes[start..lanes.len().min(start + width)];
            *vector = match lanes.len() == width {
                true => vector_at::<S, T>(lanes, 0),
                false => <T as Vector>::load(simd, lanes),
            };
        }
    }
    vectors
}

/// Returns the vector of lanes with this number.
#[inline(always)]
pub(super) fn vector_at<S: Simd, T: FloatVector>(lanes: &[T], number: usize) -> T::Of<S> {
    let width = T::n_lanes::<S>();
    let lanes = &lanes[number * width..][..width];
    bytemuck::pod_read_unaligned(bytemuck::cast_slice(lanes))
}

/// Returns a vector with all bits set in the lanes where a mask is set, and zeros elsewhere.
#[inline(always)]
pub(super) fn bits_of<S: Simd>(simd: S, mask: S::m32s) -> S::u32s {
    // Most instruction sets have masks of this form already.
    if size_of::<S::m32s>() == size_of::<S::u32s>() {
        bytemuck::pod_read_unaligned(bytemuck::bytes_of(&mask))
    } else {
        simd.select_u32s(mask, simd.splat_u32s(u32::MAX), simd.splat_u32s(0))
    }
}

/// Returns a vector with the values of a function of equal lanes of `x` and `y`. The loop has the
/// constant length of a vector, so the compiler may turn it into vector instructions.
#[inline(always)]
pub(super) fn map<T: Pod, V: Pod>(mut x: V, y: V, f: impl Fn(T, T) -> T) -> V {
    let lanes = bytemuck::cast_slice_mut::<V, T>(std::slice::from_mut(&mut x)).iter_mut();
    for (x, &y) in lanes.zip(bytemuck::cast_slice::<V, T>(std::slice::from_ref(&y))) {
        *x = f(*x, y);
    }
    x
}
