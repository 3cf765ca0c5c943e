//! Twin of `inverse_gaussian_sample`: draws of the inverse Gaussian law.
//!
//! Method: draw `i` is made of block `i` of a Philox stream. The first 40 bits and the next 24 make the size `|w|` of a
//! normal number, by Box and Muller; the last 64 choose between `μ q` and `μ / q`, `q = (t + sqrt(1 + t²))²` with
//! `t = |w| sqrt(μ/λ) / 2`, of which the smaller is right with probability `q / (1 + q)`. That is the signed root of
//! `distributions`' sampler. Uniform numbers keep their digits where they are small, so `|w|` reaches beyond 7 and the
//! larger candidate is drawn as rarely as it must be where `μ/λ` is large.
//! Accuracy: [`DRAW_EPSILONS`] relative to the same words in f64, where rounding does not change the choice.
//! Limits: no draw is zero, infinite or NaN: beyond f32's range it is the nearest number in it.
//! Source: Michael, Schucany and Haas 1976, "Generating random variates using transformations with multiple roots".

use super::philox_fill::philox_block;
use super::{Grid, float, index, launch, split};
use crate::Kernel;
use crate::params::InverseGaussianSampleParams;
use std::f32::consts::FRAC_PI_2;

/// Largest error of a draw, in epsilons of f32.
pub const DRAW_EPSILONS: usize = 16;

/// Roots of the smallest normal number, and of the largest number.
const ROOTS: [f32; 2] = [1.084_202_2e-19, 1.844_674_3e19];
/// A unit of 24 bits.
const UNIT: f32 = 1.0 / 16_777_216.0;

/// Writes `n` draws of a stream, from number `first` on.
///
/// Shapes: `draws` holds at least `n` numbers; the rest is left alone.
///
/// # Panics
/// If `draws` is shorter than that.
pub fn inverse_gaussian_sample(
    kernel: &Kernel,
    params: &InverseGaussianSampleParams,
    draws: &mut [f32],
) {
    let draws = &mut draws[..params.n as usize];
    launch(Grid::of(kernel, params), |at| {
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
    // The size of a normal number by Box and Muller; of the angle a quarter turn is enough.
    let radius = split::sqrt(-2.0 * float::ln(uniform(words[0], words[1] << 24)));
    let turn = ((words[1] >> 8) as f32 + 0.5) * UNIT;
    let z = radius * float::sin(turn * FRAC_PI_2);
    // The square of `root_q` is the larger of the two candidates, over the mean; the smaller one is its inverse.
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

/// A number above 0 and up to 1 from 64 bits: the nearest to the middle of its cell, so that small ones keep their digits.
fn uniform(high: u32, low: u32) -> f32 {
    let middle = (((high & 0xff) << 16) | (low >> 16)) as f32;
    let last = (low & 0xffff) as f32 + 0.5;
    (high >> 8) as f32 * UNIT + (middle * (UNIT * UNIT) + last * (UNIT * UNIT / 65_536.0))
}
