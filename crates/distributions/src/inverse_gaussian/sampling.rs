//! Random numbers of the inverse Gaussian distribution, and their derivatives with respect to its
//! parameters.
//!
//! Method: the signed root `w` has density `2 n(w) / (1 + r)`, where `r = x/μ` at that root and `n`
//! is the normal density. The size of a standard normal number is therefore a draw of `|w|`. The
//! two signs of `w` belong to the candidates `x = μ q` and `x = μ/q` with `q = (t + sqrt(1 + t²))²`
//! and `t = |w| sqrt(μ/λ)/2`; the smaller candidate is chosen with probability `q/(1 + q)`. This is
//! the method of Michael, Schucany and Haas without its subtraction, which returns zero or negative
//! numbers for large `μ/λ`.
//! Source: Michael, Schucany and Haas 1976, "Generating random variates using transformations with
//! multiple roots".

use super::InverseGaussian;
use crate::distribution::Distribution;
use crate::error::is_positive;
use crate::lanes;
use crate::special::erfcx::{erfcx, slope};
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;
use std::f64::consts::PI;
use std::hint::select_unpredictable;

/// The `t` from which on `sqrt(1 + t²)` is replaced by `t`: 1 is negligible compared with `t²`, and
/// `t²` could overflow.
const FAR: f64 = 1e100;

impl InverseGaussian {
    /// Draws a number: positive and finite, whatever the parameters.
    ///
    /// Cost: a normal number, a uniform number and three square roots.
    ///
    /// # Examples
    /// ```
    /// use distributions::InverseGaussian;
    /// use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
    ///
    /// let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    /// let distribution = InverseGaussian::new(1e200, 1e-200)?;
    /// assert!(distribution.sample(&mut rng) > 0.0);
    /// # Ok::<(), distributions::Error>(())
    /// ```
    #[must_use]
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        self.roots().sample(rng)
    }

    /// Fills a slice with independent draws: the same numbers as `out.len()` calls of
    /// [`Self::sample`].
    pub fn sample_into<R: Rng + ?Sized>(&self, rng: &mut R, out: &mut [f64]) {
        let roots = self.roots();
        out.fill_with(|| roots.sample(rng));
    }

    fn roots(&self) -> Roots {
        Roots {
            of_mean: self.mean.sqrt(),
            of_phi: self.root_phi(),
        }
    }

    /// Returns the derivatives `[∂x/∂μ, ∂x/∂λ]` of the quantile `x` at a fixed probability, and
    /// hence of a draw `x`.
    ///
    /// By implicit differentiation, `∂x/∂θ = -(∂F/∂θ)/f`: with `v` as in the documentation of
    /// [`InverseGaussian`], `∂x/∂μ = (λ/μ²) x sqrt(2π x/λ) erfcx(v/√2)` and `λ ∂x/∂λ = x - μ
    /// ∂x/∂μ`, computed without this subtraction. NaN outside the support.
    ///
    /// Accuracy: 6 epsilons for the mean. The derivative by the shape is a sum of two terms of
    /// different sign for `x > μ`; its error is at most 13 epsilons of the sum of their sizes.
    ///
    /// # Source
    /// Figurnov, Mohamed and Mnih 2018, "Implicit reparameterization gradients".
    ///
    /// # Examples
    /// ```
    /// use distributions::InverseGaussian;
    ///
    /// let distribution = InverseGaussian::new(1.0, 2.0)?;
    /// let x = distribution.inverse_cdf(0.3);
    /// let [by_mean, by_shape] = distribution.sample_gradient(x);
    /// // The distribution has a scale parameter: μ ∂x/∂μ + λ ∂x/∂λ = x.
    /// assert!((1.0 * by_mean + 2.0 * by_shape - x).abs() < 1e-15);
    /// # Ok::<(), distributions::Error>(())
    /// ```
    #[must_use]
    pub fn sample_gradient(&self, x: f64) -> [f64; 2] {
        if is_positive(x) {
            lanes::run(Gradient {
                distribution: *self,
                x,
            })
        } else {
            [f64::NAN; 2]
        }
    }
}

/// The square roots of `μ` and of `μ/λ`, which all draws of a distribution share.
#[derive(Clone, Copy)]
struct Roots {
    of_mean: f64,
    of_phi: f64,
}

impl Roots {
    #[inline]
    fn sample<R: Rng + ?Sized>(self, rng: &mut R) -> f64 {
        let z: f64 = rng.sample(StandardNormal);
        let u: f64 = rng.random();
        let t = 0.5 * z.abs() * self.of_phi;
        let root_q = t + if t < FAR { (1.0 + t * t).sqrt() } else { t };
        // P(smaller) = q/(1 + q), so P(larger) = 1/(1 + q). A branch on this random choice would
        // often be mispredicted; the select avoids it.
        let is_larger = u * (1.0 + root_q * root_q) < 1.0;
        let (larger, smaller) = (self.of_mean * root_q, self.of_mean / root_q);
        let root = select_unpredictable(is_larger, larger, smaller);
        (root * root).clamp(f64::MIN_POSITIVE, f64::MAX)
    }
}

struct Gradient {
    distribution: InverseGaussian,
    x: f64,
}

impl pulp::NullaryFnOnce for Gradient {
    type Output = [f64; 2];

    #[inline(always)]
    fn call(self) -> [f64; 2] {
        let Self { distribution, x } = self;
        let InverseGaussian { mean, shape } = distribution;
        // b = v/√2.
        let b = distribution.point(x).b();
        // With λ/(μ s) = v x/(x + μ), the common factor is 2x/(x + μ) · √π b erfcx(b), which equals
        // 2x/(x + μ) · (1 - √π e). Here e is half of `slope(b, b)`, which has no cancellation.
        let share = 2.0 * (x / (x + mean));
        let complement = 0.5 * PI.sqrt() * slope(b, b);
        [
            (x / mean) * share * (PI.sqrt() * b * erfcx(b)),
            (x / shape) * ((mean - x) / (mean + x) + share * complement),
        ]
    }
}
