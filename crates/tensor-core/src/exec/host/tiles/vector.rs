//! Floats with vectors of every instruction set.

use bytemuck::Pod;
use pulp::Simd;

use crate::float::Float;

/// A float with vectors.
pub(in crate::exec::host) trait Vector: Float + Pod {
    /// A vector of the instruction set `S`.
    type Of<S: Simd>: Pod;
    /// Returns whether a number is neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Returns the number of lanes of a vector.
    fn n_lanes<S: Simd>() -> usize;
    /// Returns a vector of equal lanes.
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Of<S>;
    /// Returns `x * y + z`, with one rounding where the instruction set has such an instruction.
    fn mul_add<S: Simd>(simd: S, x: Self::Of<S>, y: Self::Of<S>, z: Self::Of<S>) -> Self::Of<S>;
    /// Returns a vector of the first lanes of `x`, and zeros after its end.
    fn load<S: Simd>(simd: S, x: &[Self]) -> Self::Of<S>;
}

/// Implements [`Vector`] by the functions of `pulp`.
macro_rules! vector {
    ($float:ty, $of:ident, $n_lanes:ident, $splat:ident, $mul_add:ident, $load:ident) => {
        impl Vector for $float {
            type Of<S: Simd> = S::$of;

            #[inline(always)]
            fn is_finite(self) -> bool {
                self.is_finite()
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
            fn mul_add<S: Simd>(simd: S, x: S::$of, y: S::$of, z: S::$of) -> S::$of {
                simd.$mul_add(x, y, z)
            }

            #[inline(always)]
            fn load<S: Simd>(simd: S, x: &[Self]) -> S::$of {
                simd.$load(x)
            }
        }
    };
}

vector!(
    f32,
    f32s,
    F32_LANES,
    splat_f32s,
    mul_add_e_f32s,
    partial_load_f32s
);
vector!(
    f64,
    f64s,
    F64_LANES,
    splat_f64s,
    mul_add_e_f64s,
    partial_load_f64s
);
