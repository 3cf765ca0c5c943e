//! Characteristic and moment generating functions, and their logarithms.
//!
//! Method: `μ z / (1 + sqrt(1 - 2μ²z/λ)) * 2`, the cumulant generating function at a complex `z`; the textbook form
//! `(λ/μ)(1 - sqrt(1 - 2μ²z/λ))` subtracts nearly equal numbers where `μ/λ` is small.

use super::InverseGaussian;
use num_complex::Complex64;

impl InverseGaussian {
    /// Gives `E exp(i t X)`.
    #[must_use]
    pub fn characteristic_function(&self, t: f64) -> Complex64 {
        self.ln_characteristic_function(t).exp()
    }

    /// Gives the logarithm of the characteristic function that is 0 at 0 and continuous.
    #[must_use]
    pub fn ln_characteristic_function(&self, t: f64) -> Complex64 {
        let inner = Complex64::new(1.0, -2.0 * self.mean * self.phi() * t);
        Complex64::new(0.0, 2.0 * self.mean * t) / (1.0 + inner.sqrt())
    }

    /// Gives the moment generating function `E exp(t X)`: finite up to [`Self::mgf_end`], included, and ∞ beyond.
    #[must_use]
    pub fn mgf(&self, t: f64) -> f64 {
        self.cgf(t).exp()
    }

    /// Gives the cumulant generating function `ln E exp(t X)`: finite up to [`Self::mgf_end`], included, and ∞ beyond.
    ///
    /// # Examples
    /// ```
    /// use distributions::InverseGaussian;
    ///
    /// let law = InverseGaussian::new(1.0, 3.0)?;
    /// assert_eq!(law.cgf(law.mgf_end()), 3.0); // λ/μ
    /// assert_eq!(law.cgf(2.0), f64::INFINITY);
    /// # Ok::<(), distributions::Error>(())
    /// ```
    #[must_use]
    pub fn cgf(&self, t: f64) -> f64 {
        let end = self.mgf_end();
        if t > end || t == f64::NEG_INFINITY {
            return t.signum() * f64::INFINITY;
        }
        // 1 - t/end, exact near the end.
        let inner = ((end - t) / end).max(0.0);
        2.0 * self.mean * t / (1.0 + inner.sqrt())
    }

    /// Gives `λ/(2μ²)`, the largest `t` at which `E exp(t X)` is finite.
    #[must_use]
    pub fn mgf_end(&self) -> f64 {
        0.5 * (self.shape / self.mean) / self.mean
    }
}
