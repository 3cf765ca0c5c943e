//! The characteristic function and the moment generating function, and their logarithms.
//!
//! Method: the cumulant generating function at a complex `z` is computed as `2 μ z / (1 + sqrt(1 -
//! 2μ²z/λ))`. The textbook form `(λ/μ)(1 - sqrt(1 - 2μ²z/λ))` subtracts nearly equal numbers where
//! `μ/λ` is small. For very large `|z|` the factors of the first form would leave f64's range;
//! there the result is `-sqrt(-2λ z)`, the dominant term of the textbook form.

use super::InverseGaussian;
use crate::point::{product, quotient};
use crate::special::elementary::{Scaled, two_sum};
use crate::special::wide::{RANGE, Wide};
use num_complex::Complex64;
use std::f64::consts::SQRT_2;

/// The value of `2μ²|t|/λ` from which on 1 is negligible in f64 compared with the square root of
/// this value.
const FAR: f64 = 1e34;

impl InverseGaussian {
    /// Returns the characteristic function `E exp(i t X)`, `exp((λ/μ)(1 - sqrt(1 - 2i μ²t/λ)))`: 0
    /// at ±∞, NaN for NaN.
    ///
    /// Accuracy: relative to its size `φ(t)`, 14 epsilons times `1 + |ln φ(t)|`, because it is
    /// computed as the exponential of its logarithm.
    #[must_use]
    pub fn characteristic_function(&self, t: f64) -> Complex64 {
        self.ln_characteristic_function(t).exp()
    }

    /// Returns the continuous logarithm of the characteristic function that is 0 at `t = 0`,
    /// `(λ/μ)(1 - sqrt(1 - 2i μ²t/λ))`: `-∞ ± ∞i` at ±∞, NaN for NaN.
    ///
    /// Accuracy: 10 epsilons of each part.
    #[must_use]
    pub fn ln_characteristic_function(&self, t: f64) -> Complex64 {
        if t.abs() >= FAR * self.mgf_end() {
            let part = self.shape.sqrt() * t.abs().sqrt();
            return Complex64::new(-part, part.copysign(t));
        }
        // `μ²/λ` can overflow although its product with `t` does not.
        let growth = Wide::new(t.abs()).times(self.growth());
        let inner = Complex64::new(1.0, -2.0 * growth.value().copysign(t));
        Complex64::new(0.0, 2.0 * self.mean * t) / (1.0 + inner.sqrt())
    }

    /// Returns the moment generating function `E exp(t X)`, `exp((λ/μ)(1 - sqrt(1 - 2μ²t/λ)))`:
    /// finite up to and including [`Self::mgf_end`], and ∞ beyond; 0 at -∞, NaN for NaN.
    ///
    /// Accuracy: the relative error is at most 10 epsilons times 1 plus the size of the function's
    /// logarithm. The parameters and `t` count as exact.
    #[must_use]
    pub fn mgf(&self, t: f64) -> f64 {
        self.cgf(t).exp()
    }

    /// Returns the cumulant generating function `ln E exp(t X)`, `(λ/μ)(1 - sqrt(1 - 2μ²t/λ))`:
    /// finite up to and including [`Self::mgf_end`], and ∞ beyond; -∞ at -∞, NaN for NaN.
    ///
    /// Accuracy: a relative error of 8 epsilons, where the parameters and `t` count as exact. This
    /// includes a `t` close to the end, because `1 - 2μ²t/λ` is computed in two parts. If
    /// [`Self::mgf_end`] was rounded up, the function returns the value at the exact end there.
    ///
    /// # Examples
    /// ```
    /// use distributions::InverseGaussian;
    ///
    /// let distribution = InverseGaussian::new(1.0, 3.0)?;
    /// assert_eq!(distribution.cgf(distribution.mgf_end()), 3.0); // λ/μ
    /// assert_eq!(distribution.cgf(2.0), f64::INFINITY);
    /// # Ok::<(), distributions::Error>(())
    /// ```
    #[must_use]
    pub fn cgf(&self, t: f64) -> f64 {
        let end = self.mgf_end();
        if t > end {
            return f64::INFINITY;
        }
        if -t >= FAR * end {
            return -SQRT_2 * self.shape.sqrt() * (-t).sqrt();
        }
        2.0 * self.mean * t / (1.0 + self.distance_to_end(t).max(0.0).sqrt())
    }

    /// Returns `1 - 2μ²t/λ` with a relative error of a few epsilons, also where the difference is
    /// small.
    fn distance_to_end(&self, t: f64) -> f64 {
        // Powers of two make the factors normal numbers near 1, so that no part of a product is
        // lost.
        let [mean, shape, size] = [self.mean, self.shape, t.abs()].map(Wide::new);
        let square = product([mean.significand, 0.0], [mean.significand, 0.0]);
        let [high, low] = quotient(
            product(square, [size.significand.copysign(t), 0.0]),
            shape.significand,
        );
        let exponent = 1.0 + 2.0 * mean.exponent + size.exponent - shape.exponent;
        let scale = Scaled::new(1.0, exponent.clamp(-RANGE, RANGE));
        let [high, low] = [high, low].map(|part| scale.times(part));
        let (difference, error) = two_sum(1.0, -high);
        difference + (error - low)
    }

    /// Returns `λ/(2μ²)`, the largest `t` at which `E exp(t X)` is finite.
    #[must_use]
    pub fn mgf_end(&self) -> f64 {
        self.inverse_growth().times(Wide::new(0.5)).value()
    }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex64;
    use tensor_core::compare::{Tolerance, assert_close};

    use crate::InverseGaussian;

    #[test]
    fn the_characteristic_function_is_finite_where_its_products_overflow() {
        // `2 μ² t/λ` is 2e310. In the limit of a large mean, the logarithm is `-(1 - i) sqrt(λ t)`.
        let distribution = InverseGaussian::new(1e150, 1e-5).unwrap();
        for (t, imaginary) in [(1e5, 1.0), (-1e5, -1.0)] {
            let Complex64 { re, im } = distribution.ln_characteristic_function(t);
            assert_close([re, im], [-1.0, imaginary], Tolerance::relative(4));
        }
    }

    #[test]
    fn the_characteristic_function_is_finite_where_the_ratio_of_the_parameters_overflows() {
        let distribution = InverseGaussian::new(1e10, 1e-300).unwrap();
        let at_zero = distribution.characteristic_function(0.0);
        assert_close([at_zero.re, at_zero.im], [1.0, 0.0], Tolerance::exact());
        for (t, imaginary) in [(1e-300, 1e-300), (-1e-300, -1e-300)] {
            // `2 μ² t/λ` is 2e20, so the logarithm is `λ/μ - (1 - i) sqrt(λ t)` to all digits.
            let Complex64 { re, im } = distribution.ln_characteristic_function(t);
            assert_close(
                [re, im],
                [1e-310 - 1e-300, imaginary],
                Tolerance::relative(10),
            );
        }
    }
}
