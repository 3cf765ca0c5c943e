//! Moments, entropy, median and mode.
//!
//! Method: with `φ = μ/λ` all cumulants are positive, `κ_n = (2n - 3)!! μ^n φ^(n-1)`. The moments
//! are computed as sums and products of positive terms, so no digits cancel. Only the entropy is
//! computed as a difference.

use super::InverseGaussian;
use crate::special::exponential_integral::scaled_e1;
use crate::special::wide::{RANGE, Wide};
use std::f64::consts::{E, LN_2, PI};

impl InverseGaussian {
    /// Returns the mean `μ`.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the variance `μ³/λ`.
    ///
    /// Accuracy: 6 epsilons.
    #[must_use]
    pub fn variance(&self) -> f64 {
        self.cumulant(2)
    }

    /// Returns the standard deviation `μ sqrt(μ/λ)`.
    ///
    /// Accuracy: 4 epsilons.
    #[must_use]
    pub fn std_dev(&self) -> f64 {
        self.mean * self.root_phi()
    }

    /// Returns the skewness `3 sqrt(μ/λ)`.
    ///
    /// Accuracy: 4 epsilons.
    #[must_use]
    pub fn skewness(&self) -> f64 {
        3.0 * self.root_phi()
    }

    /// Returns the excess kurtosis `15 μ/λ`, rounded twice.
    #[must_use]
    pub fn excess_kurtosis(&self) -> f64 {
        // The ratio is a `Wide`, because `μ/λ` can be subnormal although the result is not.
        let phi = Wide::new(self.mean).over(Wide::new(self.shape));
        phi.times(Wide::new(15.0)).value()
    }

    /// Returns the differential entropy in nats, `ln(2πe μ³/λ)/2 - (3/2) exp(2λ/μ) E1(2λ/μ)`.
    ///
    /// Accuracy: 4 epsilons of `1 + |ln μ| + |ln λ|`.
    ///
    /// # Source
    /// From `E ln X = ln μ - exp(2λ/μ) E1(2λ/μ)` and `E λ(X - μ)²/(μ² X) = 1`.
    #[must_use]
    pub fn entropy(&self) -> f64 {
        // The ratio of the parameters can overflow or underflow; the difference of their logarithms
        // cannot.
        let ln_phi = self.mean.ln() - self.shape.ln();
        let normal = 0.5 * ((2.0 * PI * E).ln() + ln_phi) + self.mean.ln();
        normal - 1.5 * scaled_e1(2.0 / self.phi(), LN_2 - ln_phi)
    }

    /// Returns the median.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.inverse_cdf(0.5)
    }

    /// Returns the mode `μ / (sqrt(1 + κ²) + κ)` with `κ = 3μ/(2λ)`.
    ///
    /// Accuracy: 6 epsilons.
    #[must_use]
    pub fn mode(&self) -> f64 {
        let kappa = 1.5 * self.phi();
        if kappa >= 1.0 / f64::EPSILON {
            // `sqrt(1 + κ²) + κ` is `2κ` to all digits of f64, and may overflow.
            return self.shape / 3.0;
        }
        self.mean / (1.0_f64.hypot(kappa) + kappa)
    }

    /// Returns the cumulant of order `n`, `(2n - 3)!! μ^n (μ/λ)^(n-1)`; 0 for `n = 0`.
    ///
    /// The result is 0 or ∞ only where the cumulant is below or beyond f64's range.
    ///
    /// Accuracy: `4n` epsilons. Cost: `n` steps, fewer where the result is 0 or ∞.
    #[must_use]
    pub fn cumulant(&self, n: u32) -> f64 {
        if n == 0 {
            return 0.0;
        }
        let (mut cumulant, growth) = (Wide::new(self.mean), self.growth());
        // An upper bound of the ratios of consecutive cumulants.
        let last = Wide::new(2.0 * f64::from(n)).times(growth);
        for order in 1..n {
            let ratio = Wide::new(2.0 * f64::from(order) - 1.0).times(growth);
            // The ratios grow with the order: from here on the product stays outside f64's range.
            if (cumulant.exponent > RANGE && ratio.exponent >= 0.0)
                || (cumulant.exponent < -RANGE && last.exponent < 0.0)
            {
                break;
            }
            cumulant = cumulant.times(ratio);
        }
        cumulant.value()
    }

    /// Returns `μ²/λ`: the ratio of the cumulants of orders `n + 1` and `n` is `(2n - 1) μ²/λ`.
    pub(super) fn growth(&self) -> Wide {
        let mean = Wide::new(self.mean);
        mean.times(mean).over(Wide::new(self.shape))
    }

    /// Returns `λ/μ²`, rounded twice; `λ/μ` may be outside f64's range.
    pub(crate) fn inverse_growth(&self) -> Wide {
        let mean = Wide::new(self.mean);
        Wide::new(self.shape).over(mean).over(mean)
    }

    /// Returns the raw moment `E X^n`; the order can be negative.
    ///
    /// `E X^n = μ^n Σ_j (n-1+j)! / (j! (n-1-j)!) (μ/(2λ))^j` for `n >= 1`, and `E X^-n = E X^(n+1)
    /// / μ^(2n+1)`. For `n >= 1` the moment is computed as the product of the ratios `ρ_j` of
    /// neighbouring moments, `ρ_j = (2j - 1) μ²/λ + μ²/ρ_(j-1)` with `ρ_0 = μ`. The result is 0 or
    /// ∞ only where the moment is below or beyond f64's range.
    ///
    /// Accuracy: `4 |n|` epsilons. Cost: `|n|` divisions, fewer where the result is 0 or ∞.
    ///
    /// # Source
    /// Tweedie 1957, "Statistical properties of inverse Gaussian distributions I"; the ratios: from
    /// the recursion of the Bessel functions `K`, of which the moments are multiples.
    ///
    /// # Examples
    /// ```
    /// use distributions::InverseGaussian;
    ///
    /// let distribution = InverseGaussian::new(2.0, 5.0)?;
    /// assert!((distribution.raw_moment(2) - (distribution.variance() + 4.0)).abs() < 1e-14);
    /// // The mean of 1/X is 1/μ + 1/λ.
    /// assert!((distribution.raw_moment(-1) - 0.7).abs() < 1e-15);
    /// # Ok::<(), distributions::Error>(())
    /// ```
    #[must_use]
    pub fn raw_moment(&self, n: i32) -> f64 {
        self.raw_moment_of(n.unsigned_abs(), n > 0)
    }

    /// Returns `E X^order` if `is_positive`, otherwise `E X^-order`.
    pub(crate) fn raw_moment_of(&self, order: u32, is_positive: bool) -> f64 {
        // For a negative order, the same recursion of the ratios has 1/μ and 1/λ in place of μ and
        // μ²/λ, and the product starts with 1 instead of μ.
        let (base, growth, first, n_ratios) = if is_positive {
            // μ/λ can overflow where μ²/λ does not.
            (self.mean, self.growth().value(), self.mean, order - 1)
        } else {
            (1.0 / self.mean, 1.0 / self.shape, 1.0, order)
        };
        let n_ratios = f64::from(n_ratios);
        let (mut ratio, mut product, mut j) = (base, Wide::new(first), 0.0);
        while j < n_ratios {
            j += 1.0;
            ratio = (2.0 * j - 1.0) * growth + base * (base / ratio);
            product = product.times(Wide::new(ratio));
            // The ratios grow, by at most `2 growth` per step: from here on the product stays
            // outside f64's range.
            let last_ratio = ratio + 2.0 * (n_ratios - j) * growth;
            if (product.exponent > RANGE && ratio >= 1.0)
                || (product.exponent < -RANGE && last_ratio <= 1.0)
            {
                break;
            }
        }
        product.value()
    }

    /// Returns `E (X - μ)^n`, from the cumulants by a recursion without cancellation:
    /// `E (X - μ)^n = Σ_j C(n-1, j-1) κ_j E (X - μ)^(n-j)` over `j` from 2 to `n`.
    ///
    /// The result is 0 or ∞ only where the moment is below or beyond f64's range.
    ///
    /// Accuracy: `4n` epsilons.
    ///
    /// Cost: constant if an upper or a lower bound shows that the moment is outside f64's range.
    /// Otherwise of order `n²` steps, and memory for `2n` numbers of 16 bytes; the recursion ends
    /// early at an order whose moment is beyond f64's range if the moments grow from there on. The
    /// bounds decide nearly all orders above 1000, except near `n = λ/μ`.
    #[must_use]
    pub fn central_moment(&self, n: u32) -> f64 {
        if let Some(limit) = self.central_moment_outside(f64::from(n)) {
            return limit;
        }
        self.central_moment_by_recursion(n)
    }

    fn central_moment_by_recursion(&self, n: u32) -> f64 {
        // |X - μ| is at most the larger of X and μ, and μ^n at most E X^n.
        if n > 1 && self.raw_moment_of(n, true) == 0.0 {
            return 0.0;
        }
        let growth = self.growth();
        let mut cumulants = vec![Wide::ZERO, Wide::new(self.mean)];
        let mut moments = vec![Wide::new(1.0), Wide::ZERO];
        for order in 2..=n as usize {
            let ratio = Wide::new(2.0 * order as f64 - 3.0).times(growth);
            cumulants.push(cumulants[order - 1].times(ratio));
            let (mut binomial, mut sum) = (Wide::new(1.0), Wide::ZERO);
            // From j = 2 on, since the first cumulant of X - μ is 0.
            for j in 2..=order {
                let share = (order - j + 1) as f64 / (j - 1) as f64;
                binomial = binomial.times(Wide::new(share));
                sum = sum.plus(binomial.times(cumulants[j]).times(moments[order - j]));
            }
            moments.push(sum);
            // Term by term, the sum for the next order is at least `3/2 order growth` times this
            // sum.
            let is_growing = Wide::new(order as f64).times(growth).exponent >= 0.0;
            if is_growing && sum.exponent > RANGE {
                return f64::INFINITY;
            }
        }
        moments[n as usize].value()
    }

    /// Returns 0 or ∞ if a bound shows that `E (X - μ)^n` is outside f64's range.
    ///
    /// Upper bound: `E |X - μ|^n <= (n/(e s))^n (E exp(s (X - μ)) + E exp(-s (X - μ)))` for every
    /// positive `s` up to [`Self::mgf_end`]. The second expectation is smaller than the first.
    ///
    /// Lower bound: the moment is a sum of products of cumulants over the partitions of `n`
    /// elements. All terms are positive, so the terms of one kind of partition are a lower bound:
    /// `n/2` pairs, or one triple and `(n - 3)/2` pairs if `n` is odd. The number `(n - 1)!!` of
    /// partitions into pairs is at least `(n/e)^(n/2)`.
    fn central_moment_outside(&self, n: f64) -> Option<f64> {
        let (std_dev, end) = (self.std_dev(), self.mgf_end());
        let s = (n.sqrt() / std_dev).min(end);
        // The cumulant generating function minus its linear term, `μ s (1 - q)/(1 + q)` with `q =
        // sqrt(1 - s/end)`.
        let share = s / end;
        let generated = self.mean * s * share / (1.0 + (1.0 - share).sqrt()).powi(2);
        let ln_upper = n * (n / (E * s)).ln() + LN_2 + generated;
        if ln_upper < -RANGE * LN_2 {
            return Some(0.0);
        }
        (n > 3.0 && self.ln_central_moment_at_least(n) > RANGE * LN_2).then_some(f64::INFINITY)
    }

    /// Returns the logarithm of the lower bound of a central moment of an order above 3.
    fn ln_central_moment_at_least(&self, n: f64) -> f64 {
        let is_even = n % 2.0 == 0.0;
        let ln_pairs = |n: f64| n * (0.5 * (n / E).ln() + self.std_dev().ln());
        if is_even {
            ln_pairs(n)
        } else {
            // C(n, 3) κ_3 with κ_3 = 3 μ^3 φ^2, and pairs of the rest.
            let triples = n.ln() + (n - 1.0).ln() + (n - 2.0).ln() - LN_2;
            triples + 3.0 * self.mean.ln() + 2.0 * self.phi().ln() + ln_pairs(n - 3.0)
        }
    }

    /// Returns `φ = μ/λ`, the squared coefficient of variation.
    pub(crate) fn phi(&self) -> f64 {
        self.mean / self.shape
    }

    /// Returns `sqrt(μ/λ)`, the coefficient of variation, as a quotient of roots: the root is in
    /// f64's range even if the ratio of the parameters is not.
    pub(crate) fn root_phi(&self) -> f64 {
        self.mean.sqrt() / self.shape.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor_core::compare::{Tolerance, assert_close};

    #[test]
    fn raw_moments_are_right_where_their_products_leave_the_range_of_f64() {
        // The product of the first ratios is below the range of f64.
        let mut n_in_range = 0;
        for n in [2_u32, 50, 400, 1150, 2000] {
            for last_ratio in [0.5, 1.2, 1.5, 2.0, 2.7, 4.0] {
                // The ratios grow from 0 to about `last_ratio`.
                let growth = last_ratio / (2.0 * f64::from(n));
                let distribution = InverseGaussian::new_unchecked(growth, growth);
                let (mut ratio, mut product) = (growth, Wide::new(growth));
                for j in 1..n {
                    ratio = (2.0 * f64::from(j) - 1.0) * growth + growth * growth / ratio;
                    product = product.times(Wide::new(ratio));
                }
                let expected = product.value();
                n_in_range += usize::from(expected > 0.0 && expected < f64::INFINITY);
                let tolerance = Tolerance::relative(8 * n as usize).or_absolute(f64::MIN_POSITIVE);
                let moment = distribution.raw_moment_of(n, true);
                assert_close([moment], [expected], tolerance);
            }
        }
        assert!(n_in_range >= 15, "{n_in_range}");
    }

    #[test]
    fn the_lower_bound_of_central_moments_is_below_them_and_near_for_a_small_phi() {
        for (phi, mean) in [(1e-9, 1.0), (1e-9, 1e3), (0.5, 2.0), (30.0, 1.0)] {
            let distribution = InverseGaussian::new_unchecked(mean, mean / phi);
            for n in [4, 5, 6, 7, 16, 17] {
                let ln_moment = distribution.central_moment_by_recursion(n).ln();
                let ln_bound = distribution.ln_central_moment_at_least(f64::from(n));
                let difference = ln_moment - ln_bound;
                assert!(difference > 0.0, "{distribution:?}, {n}: {difference}");
                // For a small φ the distribution is nearly normal. The bound then has (n/e)^(n/2)
                // in place of (n - 1)!!, which is at most sqrt(2) times as large.
                let is_normal = phi < 1e-6;
                assert!(
                    !is_normal || difference < 0.5 * LN_2 + 1e-3,
                    "{n}: {difference}"
                );
            }
        }
    }

    #[test]
    fn the_lower_bound_of_central_moments_excludes_the_largest_finite_moments() {
        for ln_phi in [-6, -2, 2, 4, 8] {
            let phi = f64::from(ln_phi).exp();
            for n in [4, 5, 6, 7, 16, 17, 60, 61] {
                // Moments grow with the mean if φ is constant; the largest mean whose moment is
                // finite, to a factor of 1.01.
                let distribution = |ln_mean: f64| {
                    let mean = ln_mean.exp();
                    InverseGaussian::new_unchecked(mean, mean / phi)
                };
                let is_finite = |ln_mean| {
                    distribution(ln_mean)
                        .central_moment_by_recursion(n)
                        .is_finite()
                };
                let (mut low, mut high) = (-20.0, 300.0);
                assert!(is_finite(low) && !is_finite(high));
                while high - low > 0.01 {
                    let middle = 0.5 * (low + high);
                    *(if is_finite(middle) {
                        &mut low
                    } else {
                        &mut high
                    }) = middle;
                }
                let last = distribution(low);
                assert_eq!(
                    last.central_moment_outside(f64::from(n)),
                    None,
                    "{last:?}, {n}"
                );
            }
        }
    }

    #[test]
    fn bounds_of_central_moments_agree_with_the_recursion() {
        let mut n_decided = 0;
        for ln_phi in -8..=8 {
            for mean in [1e-30, 0.1, 1.0, 1e20] {
                let distribution =
                    InverseGaussian::new_unchecked(mean, mean / f64::from(ln_phi).exp());
                for n in [1, 2, 3, 4, 5, 9, 10, 11, 16, 17, 60, 61, 150, 151, 200, 300] {
                    if let Some(limit) = distribution.central_moment_outside(f64::from(n)) {
                        n_decided += 1;
                        assert_eq!(
                            distribution.central_moment_by_recursion(n),
                            limit,
                            "{distribution:?}, {n}"
                        );
                    }
                }
            }
        }
        assert!(n_decided > 200, "{n_decided}");
    }
}
