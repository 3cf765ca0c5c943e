//! Twin of `inverse_gaussian_eval`: functions of the inverse Gaussian distribution in f32.
//!
//! Method: as in `distributions`, whose f64 functions are the oracle. With `s = sqrt(λ/x)`, the
//! signed root `w = s (x - μ)/μ`, `v = s (x + μ)/μ` and `E = w²/2`, a tail is `exp(-E)` times a sum
//! or a difference of `erfcx` at `w/√2` and `v/√2`. An error of `E` becomes a relative error of the
//! result. Therefore `E`, its factors and the logarithms are sums of two parts (`split`); a single
//! f32 would lose six bits where a tail is close to the smallest f32.
//! Accuracy: relative errors below [`max_epsilons`] for mean and shape/mean from 1e-12 to 1e12
//! (golden points in `testdata/`) and every normal `x`, wherever the result is normal; below the
//! smallest normal number the error is absolute. Errors are largest where a tail is computed as
//! 1 minus the other. The error of the log-density is relative to the larger of 1 and its
//! magnitude. A logarithm below -2^122 may be -∞.
//! Limits: numbers below the smallest normal number count as 0; 0 and negative numbers are left of
//! the support. NaN returns NaN. For the requirements on a device's compiler see `split`.

use super::split::{self, Sum};
use super::{Grid, erfcx, float, index, launch};
use crate::Kernel;
use crate::params::{InverseGaussianEvalParams, InverseGaussianFunction as Function};
use std::f32::consts::FRAC_1_SQRT_2;

/// Bits of 2^124, the threshold from which the exponent counts as infinite.
const FAR: u32 = 0x7d80_0000;
/// Threshold from which numbers are scaled by 1/16, so that their inverse is normal.
const LARGE: f32 = 1.0e30;
/// Threshold of the exponent beyond which every density is zero.
const NOTHING_FROM: f32 = 173.0;
/// Threshold of `w/√2` above which the upper tail is computed.
const UPPER_FROM: f32 = -0.47;
/// `1 / sqrt(2π)`.
const INV_SQRT_2PI: f32 = 0.398_942_3;

/// Returns the maximum error of a function, in epsilons of f32. The bound also holds for a device's
/// results.
#[must_use]
pub const fn max_epsilons(function: Function) -> usize {
    match function {
        Function::Pdf | Function::LnPdf => 3,
        Function::Sf => 8,
        Function::LnCdf => 12,
        Function::Cdf => 14,
        Function::LnSf => 16,
    }
}

/// Writes the function of `params` at each of the first `n` numbers of `xs`.
///
/// Shapes: `xs` and `ys` have at least `n` numbers; the remaining elements of `ys` do not change.
///
/// # Panics
/// If `xs` or `ys` is too short.
pub fn inverse_gaussian_eval(
    kernel: &Kernel,
    params: &InverseGaussianEvalParams,
    xs: &[f32],
    ys: &mut [f32],
) {
    let n = params.n as usize;
    let (xs, ys) = (&xs[..n], &mut ys[..n]);
    launch(Grid::for_kernel(kernel, params), |at| {
        let i = index(at.workgroup * u64::from(kernel.workgroup_size[0]) + u64::from(at.lid[0]));
        if let Some(y) = ys.get_mut(i) {
            *y = value_at(params, xs[i]);
        }
    });
}

fn value_at(params: &InverseGaussianEvalParams, x: f32) -> f32 {
    if float::is_nan(x) {
        return x;
    }
    if x < f32::MIN_POSITIVE {
        return value_at_end(params, false);
    }
    if x > f32::MAX {
        return value_at_end(params, true);
    }
    let point = Intermediates::new(params, x);
    if point.is_far {
        return value_at_end(params, x > params.mean[0]);
    }
    match Function::from_code(params.function) {
        Function::Pdf => point.density(),
        Function::LnPdf => point.ln_density(),
        Function::Cdf => point.probability(false),
        Function::Sf => point.probability(true),
        Function::LnCdf => point.ln_probability(false),
        Function::LnSf => point.ln_probability(true),
    }
}

/// Returns the limit of the function left of the support, or at plus infinity.
fn value_at_end(params: &InverseGaussianEvalParams, is_right: bool) -> f32 {
    let ends = match Function::from_code(params.function) {
        Function::Pdf => [0.0, 0.0],
        Function::LnPdf => [f32::NEG_INFINITY; 2],
        Function::Cdf => [0.0, 1.0],
        Function::Sf => [1.0, 0.0],
        Function::LnCdf => [f32::NEG_INFINITY, 0.0],
        Function::LnSf => [0.0, f32::NEG_INFINITY],
    };
    ends[usize::from(is_right)]
}

/// Intermediate results at one `x`, shared by the functions.
struct Intermediates {
    /// `x 2^-lift`.
    x: f32,
    /// The reciprocal of `x 2^-lift`.
    inverse: Sum,
    lift: i32,
    /// `sqrt(λ/x)`.
    s: f32,
    /// `w/√2`.
    a: f32,
    /// `v/√2`.
    b: f32,
    exponent: Sum,
    is_far: bool,
}

/// A tail of the distribution: its probability is `exp(-E) factor`.
struct Tail {
    is_upper: bool,
    factor: f32,
}

impl Intermediates {
    fn new(params: &InverseGaussianEvalParams, x: f32) -> Self {
        let is_large = x > LARGE;
        let scale = if is_large { 0.0625 } else { 1.0 };
        let inverse = split::inverse(x * scale);
        let d = split::difference(x, params.mean);
        // 2 E = g p², with p = (x - μ) / max(x, μ) and the other factors in g. Neither factor
        // leaves the range unless E does.
        let shape = Sum::from(params.shape);
        let (p, g) = if x > params.mean[0] {
            (
                split::product(d.times(scale), inverse),
                split::product(params.rate.into(), Sum::from_f32(x)),
            )
        } else {
            (
                split::product(d, params.inverse_mean.into()),
                split::product(shape, inverse),
            )
        };
        let exponent = split::product(split::product(g, p), p).times(0.5);
        let e = exponent.value();
        let root = split::sqrt(e);
        Self {
            x: x * scale,
            inverse,
            lift: if is_large { 4 } else { 0 },
            s: split::sqrt((shape.value() * scale) * inverse.value()),
            a: if d.head < 0.0 { -root } else { root },
            b: split::sqrt(e + params.twice_ratio),
            exponent,
            is_far: g.head.abs().to_bits() >= FAR,
        }
    }

    fn density(&self) -> f32 {
        let (significand, power) = self.decay();
        // Each factor takes half of the power, because s / x alone may be out of range where the
        // density is not.
        let half = power >> 1;
        let first = float::scaled(self.s, half);
        let second = float::scaled(self.inverse.value(), power - half - self.lift);
        let value = (INV_SQRT_2PI * significand) * first * second;
        if self.exponent.head > NOTHING_FROM {
            0.0
        } else {
            value
        }
    }

    fn ln_density(&self) -> f32 {
        let (exponent, _) = float::binade(self.x.to_bits());
        let exponent = float::to_i32(exponent);
        let inverse = float::scaled(self.inverse.value(), exponent);
        self.ln_scaled(INV_SQRT_2PI * self.s * inverse, -exponent - self.lift)
    }

    /// Returns the smaller tail. Near the median the result may be the larger tail, with a
    /// probability of at most 0.76.
    fn tail(&self) -> Tail {
        if self.a > UPPER_FROM {
            return Tail {
                is_upper: true,
                factor: FRAC_1_SQRT_2 * self.s * erfcx::slope(self.a, self.b),
            };
        }
        Tail {
            is_upper: false,
            factor: 0.5 * (erfcx::at(-self.a) + erfcx::at(self.b)),
        }
    }

    fn tail_value(&self, tail: &Tail) -> f32 {
        let (significand, power) = self.decay();
        let value = float::scaled(significand * tail.factor, power);
        if self.exponent.head > NOTHING_FROM {
            0.0
        } else {
            value
        }
    }

    fn probability(&self, of_upper: bool) -> f32 {
        let tail = self.tail();
        let value = self.tail_value(&tail);
        if tail.is_upper == of_upper {
            value
        } else {
            1.0 - value
        }
    }

    fn ln_probability(&self, of_upper: bool) -> f32 {
        let tail = self.tail();
        if tail.is_upper == of_upper {
            return self.ln_scaled(tail.factor, 0);
        }
        split::ln_of_complement(self.tail_value(&tail))
    }

    /// Returns `exp(-E)` as a significand and the exponent of a power of 2.
    fn decay(&self) -> (f32, i32) {
        float::exp_of_sum(
            (-self.exponent.head).max(-NOTHING_FROM),
            -self.exponent.tail,
        )
    }

    /// Returns `ln(factor 2^shift) - E`. The multiple of `ln 2` and the head of `E` have few bits,
    /// so their difference is exact as a sum of two parts.
    fn ln_scaled(&self, factor: f32, shift: i32) -> f32 {
        let (exponent, significand) = float::binade(factor.to_bits());
        let n = exponent + shift as f32;
        let low = (n * float::LN2[1] - self.exponent.tail) + float::ln(significand);
        let high = float::head(n * float::LN2[0] - self.exponent.head);
        let rest = (n * float::LN2[0] - high) - self.exponent.head;
        high + (rest + low)
    }
}
