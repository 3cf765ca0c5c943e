//! Input numbers: fractions of any size, and conversions to them without loss.
//!
//! Role: lets the same game be used by learning and by proofs. Learning computes in f64, proofs in
//! fractions. Every finite float is a fraction, so proofs see the exact input; integers and
//! fractions are rounded only for learning.

use num_bigint::{BigInt, Sign};
use num_traits::{ToPrimitive, Zero};

/// A fraction of arbitrary-precision integers, in lowest terms.
pub type Rational = num_rational::BigRational;

/// A number type for payoffs and probabilities: a float, an integer or a [`Rational`].
pub trait Number: Clone {
    /// Returns the nearest f64: infinite if the number is too large, NaN if it is not a number.
    fn nearest(&self) -> f64;

    /// Returns whether [`Self::nearest`] equals the number exactly.
    fn is_float(&self) -> bool;

    /// Returns the number as a fraction with a positive denominator; `None` if the number is NaN or
    /// infinite, or if its denominator is 0.
    fn exact(&self) -> Option<Rational>;
}

macro_rules! floats {
    ($($float:ty)+) => {$(
        impl Number for $float {
            fn nearest(&self) -> f64 {
                f64::from(*self)
            }

            fn is_float(&self) -> bool {
                true
            }

            fn exact(&self) -> Option<Rational> {
                Rational::from_float(*self)
            }
        }
    )+};
}

macro_rules! integers {
    ($($integer:ty)+) => {$(
        impl Number for $integer {
            fn nearest(&self) -> f64 {
                *self as f64
            }

            #[expect(
                clippy::cast_possible_truncation,
                reason = "the cast back is of a whole number, and saturates beyond i128"
            )]
            fn is_float(&self) -> bool {
                // `i128::MAX` rounds up to a float outside of i128, so it does not count as a
                // float.
                let back = *self as f64 as i128;
                i128::from(*self) == back && back != i128::MAX
            }

            fn exact(&self) -> Option<Rational> {
                Some(BigInt::from(*self).into())
            }
        }
    )+};
}

floats!(f32 f64);
integers!(i8 i16 i32 i64 i128 u8 u16 u32 u64);

impl Number for Rational {
    fn nearest(&self) -> f64 {
        nearest(self)
    }

    fn is_float(&self) -> bool {
        let exact = self.exact();
        exact.is_some_and(|exact| Self::from_float(nearest(&exact)) == Some(exact))
    }

    fn exact(&self) -> Option<Rational> {
        match self.denom().sign() {
            Sign::Plus => Some(self.clone()),
            // `new_raw` can create fractions with a negative or zero denominator.
            Sign::Minus => Some(Self::new_raw(-self.numer(), -self.denom())),
            Sign::NoSign => None,
        }
    }
}

/// Returns the f64 nearest to a fraction; infinite if it is too large, NaN if its denominator is 0.
pub(crate) fn nearest(fraction: &Rational) -> f64 {
    if fraction.denom().is_zero() {
        return f64::NAN;
    }
    fraction.to_f64().unwrap_or(f64::NAN)
}

/// Returns the largest number minus the smallest; 0 for no numbers.
pub(crate) fn range(numbers: impl Iterator<Item = f64>) -> f64 {
    let (low, high) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| {
        (low.min(number), high.max(number))
    });
    (high - low).max(0.0)
}

/// Returns the fraction equal to a finite float.
pub(crate) fn exact_float(float: f64) -> Rational {
    Rational::from_float(float).unwrap_or_else(Rational::zero)
}
