//! What the shared functions of laws ask of the inverse Gaussian.
//!
//! Method: quantiles start from a normal quantile moved by the saddle-point correction `ln((1 + r)/2)/w`, or for large
//! `μ/λ` from that of the Lévy law, the limit.
//! Source: the correction is the r* of Barndorff-Nielsen 1986, "Inference on full or partial parameters".

use super::InverseGaussian;
use crate::law::Law;
use crate::point::{Point, Ratios, quotient};
use crate::quantile::{Target, normal_quantile};
use crate::special::elementary::{ln, two_sum};
use std::f64::consts::LN_2;

/// Normal scores nearer to 0 than this start from the limit of the correction, whose formula is 0/0 there.
const NEAR_MEDIAN: f64 = 1e-3;
/// Upper quantiles for large `μ/λ` start at this signed root or beyond. Found by trial: the test of `quantile` that counts
/// evaluations holds with it.
const LEAST_ROOT: f64 = 0.5;

impl Law for InverseGaussian {
    #[inline(always)]
    fn point(&self, x: f64) -> Point {
        let Self { mean, shape } = *self;
        let (d, d_low) = two_sum(x, -mean);
        let ratios = Ratios {
            offset: quotient([d, d_low], mean),
            decay: quotient([shape, 0.0], x),
            gap: 2.0 * (shape / mean),
        };
        Point::of(x, ratios)
    }

    #[inline(always)]
    fn inside(&self) -> f64 {
        self.mean
    }

    #[inline(always)]
    fn hazard_at_infinity(&self) -> f64 {
        self.mgf_end()
    }

    #[inline(always)]
    fn start(&self, target: Target) -> f64 {
        let root_phi = (self.mean / self.shape).sqrt();
        let normal = normal_quantile(target.ln_p);
        if root_phi < 1.0 {
            let z = if target.is_upper { -normal } else { normal };
            let half = 0.5 * root_phi;
            // r* : the law's signed root w and its normal score z differ by ln((1 + r)/2)/w.
            let w = if z.abs() > NEAR_MEDIAN {
                z - ln(0.5 * (1.0 + ratio(z * half))) / z
            } else {
                z - half
            };
            return self.mean * ratio(w * half);
        }
        if target.is_upper {
            self.mean * ratio(0.5 * root_phi * (-normal).max(LEAST_ROOT))
        } else {
            // The Lévy law: P = 2 Φ(-sqrt(λ/x)).
            let z = normal_quantile(target.ln_p - LN_2);
            self.shape / (z * z)
        }
    }
}

/// Gives `x/μ` at a signed root `w`, of `t = w sqrt(φ)/2`.
#[inline(always)]
fn ratio(t: f64) -> f64 {
    let root = t.abs() + (1.0 + t * t).sqrt();
    if t < 0.0 {
        1.0 / (root * root)
    } else {
        root * root
    }
}
