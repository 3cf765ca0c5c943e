//! Exponentials and logarithms that are accurate near zero, and the exponential of base 2.
//!
//! Method: each function is composed of primitive operations, so that every executor supports it,
//! and has an explicit derivative. The formulas avoid differences that depend on rounding, such as
//! `(1 + x) - 1`: some device compilers reassociate sums, which would destroy the result.
//! Source: the series of the inverse hyperbolic tangent, Abramowitz and Stegun 1964, "Handbook of
//! Mathematical Functions", 4.6.22; `expm1` by the hyperbolic tangent, 4.5.
//! Accuracy: stated for each function, for executors with the accuracy that [`crate::op`] requires,
//! and tested on [`Host`](crate::Host) and [`Reference`](crate::Reference) by
//! `tests/integration/near_zero.rs`.

use std::ops::RangeInclusive;

use super::Tensor;
use super::hook;
use crate::dtype::DType;
use crate::op::{Binary, Unary};

/// The arguments of `log1p` for which the series is used: from `√½ - 1` to `√2 - 1`, where
/// `|s| <= 3 - 2√2`; the logarithm of `1 + x` elsewhere.
const SERIES: RangeInclusive<f64> =
    std::f64::consts::FRAC_1_SQRT_2 - 1.0..=std::f64::consts::SQRT_2 - 1.0;
/// The number of terms of the series, so that the next term is below a quarter of a unit in the
/// last place of the type, since `s² <= (3 - 2 √2)² = 0.0295`.
const F32_TERMS: u32 = 6;
const F64_TERMS: u32 = 12;

impl Tensor {
    /// Returns 2 to the power of each element of a float tensor, exactly for whole numbers. Equal
    /// to [`pow`](Tensor::pow) of 2.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor};
    /// let x = Tensor::from_array(array![-1.0_f32, 0.5, 10.0]);
    /// let expected = array![0.5, std::f32::consts::SQRT_2, 1024.0].into_dyn();
    /// assert_eq!(x.exp2().eval::<f32>(&Host::new())?, expected);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn exp2(&self) -> Self {
        let operation = "exp2";
        if let Err(error) = self.accepts_exponential() {
            return Self::error(error.renamed(operation));
        }
        self.like(2.0)
            .binary(Binary::Pow, self)
            .composed(operation, &[self])
    }

    /// Returns `e^x - 1` of each element of a float tensor, without cancellation near 0; -0.0 for
    /// -0.0.
    ///
    /// Below 1 the formula is `2 t / (1 - t)` with `t = tanh(x / 2)`, above 1 the difference
    /// itself. Accuracy: 8 units in the last place where the result is a normal number. The
    /// derivative is `e^x`.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::{Host, Tensor};
    /// let x = Tensor::scalar(1e-20_f64);
    /// assert_eq!(x.expm1().item::<f64>(&Host::new())?, 1e-20);
    /// assert_eq!((x.exp() - 1.0).item::<f64>(&Host::new())?, 0.0);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn expm1(&self) -> Self {
        let operation = "expm1";
        if let Err(error) = self.accepts_exponential() {
            return Self::error(error.renamed(operation));
        }
        let lazily = hook::pause();
        let t = (self * 0.5).tanh();
        let near = (&t * 2.0) / (1.0 - &t);
        let far = self.exp() - 1.0;
        let value = self
            .lt(1.0)
            .select(near, &far)
            .with_surrogate_gradient(&far);
        drop(lazily);
        hook::after_operation(value.composed(operation, &[self]))
    }

    /// Returns `ln(1 + x)` of each element of a float tensor, without the rounding of the sum near
    /// 0; -0.0 for -0.0, minus infinity at -1, NaN below.
    ///
    /// From `√½ - 1` to `√2 - 1` the formula is the series `2 (s + s³/3 + s⁵/5 + …)` with
    /// `s = x / (2 + x)`, elsewhere the logarithm itself. Accuracy: 8 units in the last place where
    /// the result is a normal number. The derivative is `1 / (1 + x)`.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::{Host, Tensor};
    /// let x = Tensor::scalar(1e-20_f64);
    /// assert_eq!(x.log1p().item::<f64>(&Host::new())?, 1e-20);
    /// assert_eq!((x + 1.0).ln().item::<f64>(&Host::new())?, 0.0);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn log1p(&self) -> Self {
        let operation = "log1p";
        if let Err(error) = self.accepts_exponential() {
            return Self::error(error.renamed(operation));
        }
        let lazily = hook::pause();
        let s = self / (self + 2.0);
        let square = s.square();
        let n_terms = if self.0.dtype == DType::F32 {
            F32_TERMS
        } else {
            F64_TERMS
        };
        // Horner's scheme, starting from the last term.
        let coefficient = |term: u32| 2.0 / f64::from(2 * term + 1);
        let mut sum = self.like(coefficient(n_terms - 1));
        for term in (0..n_terms - 1).rev() {
            sum = sum * &square + coefficient(term);
        }
        let far = (self + 1.0).ln();
        let is_near = self.ge(*SERIES.start()) & self.le(*SERIES.end());
        let value = is_near.select(s * sum, &far).with_surrogate_gradient(&far);
        drop(lazily);
        hook::after_operation(value.composed(operation, &[self]))
    }

    /// Checks that exponentials are defined on the element type.
    fn accepts_exponential(&self) -> crate::Result<()> {
        self.check()?;
        let (operation, dtype) = (Unary::Exp.name(), self.0.dtype);
        if Unary::Exp.accepts(dtype) {
            return Ok(());
        }
        Err(crate::Error::DTypeUnsupported { operation, dtype })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terms_of_the_series_end_below_a_quarter_of_a_unit() {
        for x in [*SERIES.start(), *SERIES.end()] {
            let square = (x / (2.0 + x)).powi(2);
            assert!(square < 0.0295, "{x}: {square}");
            for (n_terms, epsilon) in [
                (F32_TERMS, f64::from(f32::EPSILON)),
                (F64_TERMS, f64::EPSILON),
            ] {
                // The next term, divided by the first.
                let next = square.powi(n_terms.cast_signed()) / f64::from(2 * n_terms + 1);
                assert!(next < epsilon / 4.0, "{n_terms} terms: {next}");
            }
        }
    }
}
