//! The implementation of [`Distribution`] for the inverse Gaussian distribution.
//!
//! Method: the search of a quantile starts from a normal quantile, corrected by the saddle-point
//! term `ln((1 + r)/2)/w`. For `μ/λ >= 1` the search of a lower quantile starts from the quantile
//! of the Lévy distribution, which is the limit for large `μ/λ`.
//! Source: the correction is the statistic r* of Barndorff-Nielsen 1986, "Inference on full or
//! partial parameters".

use super::InverseGaussian;
use crate::distribution::Distribution;
use crate::distribution::quantile_solver::{QuantileArgument, Target, normal_quantile, solve};
use crate::point::{Point, Ratios, quotient};
use crate::special::elementary::{ln, two_sum};
use std::f64::consts::LN_2;

/// The size of a normal score up to which the first guess uses the limit of the correction, because
/// the formula of the correction is 0/0 at a score of 0.
const NEAR_MEDIAN: f64 = 1e-3;
/// The smallest signed root at which the search of an upper quantile starts for `μ/λ >= 1`. Chosen
/// by experiment; with this value, every search stays within the number of evaluations that a test
/// in `quantile_solver` allows.
const LEAST_ROOT: f64 = 0.5;

impl Distribution for InverseGaussian {
    type Point = Point;

    #[inline(always)]
    fn point(&self, x: f64) -> Point {
        let Self { mean, shape } = *self;
        let (d, d_low) = two_sum(x, -mean);
        let ratios = Ratios {
            offset: quotient([d, d_low], mean),
            decay: quotient([shape, 0.0], x),
            gap: 2.0 * (shape / mean),
        };
        Point::new(x, ratios)
    }

    #[inline(always)]
    fn inside(&self) -> f64 {
        self.mean
    }

    #[inline(always)]
    fn hazard_at_high(&self) -> f64 {
        self.mgf_end()
    }

    #[inline(always)]
    fn start(&self, target: Target) -> f64 {
        let root_phi = (self.mean / self.shape).sqrt();
        let normal = normal_quantile(target.ln_p);
        if root_phi < 1.0 {
            let z = if target.is_upper { -normal } else { normal };
            let half = 0.5 * root_phi;
            // r*: the signed root w and the normal score z differ by ln((1 + r)/2)/w.
            let w = if z.abs() > NEAR_MEDIAN {
                z - ln(0.5 * (1.0 + at_root(1.0, z * half))) / z
            } else {
                z - half
            };
            return at_root(self.mean, w * half);
        }
        if target.is_upper {
            at_root(self.mean, 0.5 * root_phi * (-normal).max(LEAST_ROOT))
        } else {
            // The Lévy distribution: P = 2 Φ(-sqrt(λ/x)), solved for x.
            let z = normal_quantile(target.ln_p - LN_2);
            self.shape / z / z
        }
    }

    fn quantiles<const N: usize>(&self, ps: &[f64; N], argument: QuantileArgument) -> [f64; N] {
        solve(self, ps, argument).map(|quantile| quantile.x)
    }
}

/// Returns `x/μ` at the signed root `w`, from `t = w sqrt(φ)/2` with `φ = μ/λ`.
#[inline(always)]
fn at_root(mean: f64, t: f64) -> f64 {
    // 1 is less than half a unit in the last place of the square, which may overflow.
    const LARGE: f64 = 1e9;
    let hypotenuse = if t.abs() > LARGE {
        t.abs()
    } else {
        (1.0 + t * t).sqrt()
    };
    let root = t.abs() + hypotenuse;
    // In steps, because the square may exceed the range of f64 where the result does not.
    if t < 0.0 {
        mean / root / root
    } else {
        mean * root * root
    }
}
