//! Twin of `inverse_gaussian_sample`: samples of the inverse Gaussian distribution.
//!
//! Method: draw `i` uses block `i` of a Philox stream. The first 40 bits and the next 24 bits
//! determine the magnitude `|w|` of a normal number, by the Box–Muller method. The last 64 bits
//! choose between `μ q` and `μ / q`, `q = (t + sqrt(1 + t²))²` with `t = |w| sqrt(μ/λ) / 2`; the
//! smaller candidate is chosen with probability `q / (1 + q)`. The result has the signed root of
//! the sampler in `distributions`. Small uniform numbers keep their relative precision, so `|w|`
//! exceeds 7, and the larger candidate has its correct small probability if `μ/λ` is large.
//! Accuracy: [`DRAW_EPSILONS`], relative to the result for the same words in f64, unless rounding
//! changes the choice.
//! Limits: no draw is zero, infinite or NaN: draws outside of the range of f32 are clamped to the
//! range.
//! Source: Michael, Schucany and Haas 1976, "Generating random variates using transformations with
//! multiple roots".

use super::philox_fill::philox_block;
use super::{Grid, float, index, launch, split};
use crate::Kernel;
use crate::params::InverseGaussianSampleParams;
use std::f32::consts::FRAC_PI_2;

/// Maximum relative error of a draw, in epsilons of f32.
pub const DRAW_EPSILONS: usize = 16;

/// The range of the square root of a draw: the roots of the smallest normal f32 and of the largest
/// f32.
const ROOTS: [f32; 2] = [1.084_202_2e-19, 1.844_674_3e19];
/// 2^-24, the unit of a 24-bit fraction.
const UNIT: f32 = 1.0 / 16_777_216.0;

/// Writes `n` draws of a stream, starting with draw `first`.
///
/// Shapes: `draws` has at least `n` numbers; the remaining elements do not change.
///
/// # Panics
/// If `draws` is too short.
pub fn inverse_gaussian_sample(
    kernel: &Kernel,
    params: &InverseGaussianSampleParams,
    draws: &mut [f32],
) {
    let draws = &mut draws[..params.n as usize];
    launch(Grid::for_kernel(kernel, params), |at| {
        let i = at.workgroup * u64::from(kernel.workgroup_size[0]) + u64::from(at.lid[0]);
        if let (Some(draw), Ok(i)) = (draws.get_mut(index(i)), u32::try_from(i)) {
            let counter = [
                params.first.wrapping_add(i),
                0,
                params.stream[0],
                params.stream[1],
            ];
            *draw = drawn(params, philox_block(counter, params.key));
        }
    });
}

fn drawn(params: &InverseGaussianSampleParams, words: [u32; 4]) -> f32 {
    // Magnitude of a normal number by the Box–Muller method. A quarter turn is enough, because only
    // the magnitude is used.
    let radius = split::sqrt(-2.0 * float::ln(uniform(words[0], words[1] << 24)));
    let turn = ((words[1] >> 8) as f32 + 0.5) * UNIT;
    let z = radius * float::sin(turn * FRAC_PI_2);
    // The square of `root_q` is the larger candidate divided by the mean; the smaller candidate is
    // its inverse.
    let t = 0.5 * z * params.root_ratio;
    let root_q = t + split::sqrt(1.0 + t * t);
    let is_larger = uniform(words[2], words[3]) * (1.0 + root_q * root_q) < 1.0;
    let root = if is_larger {
        params.root_mean * root_q
    } else {
        params.root_mean * split::inverse(root_q).value()
    };
    let inside = root.clamp(ROOTS[0], ROOTS[1]);
    inside * inside
}

/// Returns a number in (0, 1] from a 64-bit integer `i`: the f32 nearest to `(i + 1/2) 2^-64`.
/// Small numbers have the full relative precision of f32.
fn uniform(high: u32, low: u32) -> f32 {
    let middle = (((high & 0xff) << 16) | (low >> 16)) as f32;
    let last = (low & 0xffff) as f32 + 0.5;
    (high >> 8) as f32 * UNIT + (middle * (UNIT * UNIT) + last * (UNIT * UNIT / 65_536.0))
}
