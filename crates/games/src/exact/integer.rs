//! Number types for tableaux: machine words while they suffice, then integers of any size.
//!
//! Role: [`TableauNumber`] has all operations that pivoting needs. An operation may fail because
//! the type is too small: a word overflows, or a [`super::ball::Ball`] cannot decide its sign. The
//! caller then continues with the next type.
//! Source: Edmonds 1967, "Systems of distinct representatives and linear algebra"; Bareiss 1968,
//! "Sylvester's identity and multistep integer-preserving Gaussian elimination".

use crate::Rational;
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::ToPrimitive;
use std::cmp::Ordering;

/// A number of a tableau. `None` and `false` mean that this kind of number cannot represent or
/// decide the result.
pub(super) trait TableauNumber: Clone {
    /// Converts an integer of the game; no integer of the game has more than `bits` bits.
    fn from_big(integer: &BigInt, bits: u64) -> Option<Self>;

    /// Returns the number 1.
    fn one() -> Self;

    /// Returns the negated number.
    fn negated(&self) -> Option<Self>;

    /// Compares the number with 0.
    fn sign(&self) -> Option<Ordering>;

    /// Compares `a b` with `c d`.
    fn compare_products(a: &Self, b: &Self, c: &Self, d: &Self) -> Option<Ordering>;

    /// Computes `(row pivot − factor pivot_row) / divisor` for each number of a row; for integers
    /// the division is exact.
    fn eliminate(
        row: &mut [Self],
        pivot_row: &[Self],
        pivot: &Self,
        factor: &Self,
        divisor: &Self,
    ) -> bool;

    /// Returns the number of machine words of the number.
    fn n_words(&self) -> u64 {
        1
    }

    /// Returns an approximate absolute value, used to prefer pivots; 0 only for zero.
    fn size(&self) -> f64;
}

impl TableauNumber for i128 {
    fn from_big(integer: &BigInt, _bits: u64) -> Option<Self> {
        integer.to_i128()
    }

    fn one() -> Self {
        1
    }

    fn negated(&self) -> Option<Self> {
        self.checked_neg()
    }

    fn sign(&self) -> Option<Ordering> {
        Some(self.cmp(&0))
    }

    fn compare_products(a: &Self, b: &Self, c: &Self, d: &Self) -> Option<Ordering> {
        Some(a.checked_mul(*b)?.cmp(&c.checked_mul(*d)?))
    }

    fn eliminate(
        row: &mut [Self],
        pivot_row: &[Self],
        pivot: &Self,
        factor: &Self,
        divisor: &Self,
    ) -> bool {
        row.iter_mut().zip(pivot_row).all(|(entry, across)| {
            let product = entry.checked_mul(*pivot);
            let other = factor.checked_mul(*across);
            let difference = product.zip(other).and_then(|(a, b)| a.checked_sub(b));
            let quotient = difference.and_then(|difference| difference.checked_div(*divisor));
            quotient.inspect(|&quotient| *entry = quotient).is_some()
        })
    }

    fn size(&self) -> f64 {
        (*self as f64).abs()
    }
}

impl TableauNumber for BigInt {
    fn from_big(integer: &BigInt, _bits: u64) -> Option<Self> {
        Some(integer.clone())
    }

    fn one() -> Self {
        Self::from(1)
    }

    fn negated(&self) -> Option<Self> {
        Some(-self)
    }

    fn sign(&self) -> Option<Ordering> {
        Some(self.cmp(&Self::ZERO))
    }

    fn compare_products(a: &Self, b: &Self, c: &Self, d: &Self) -> Option<Ordering> {
        Some((a * b).cmp(&(c * d)))
    }

    fn eliminate(
        row: &mut [Self],
        pivot_row: &[Self],
        pivot: &Self,
        factor: &Self,
        divisor: &Self,
    ) -> bool {
        for (entry, across) in row.iter_mut().zip(pivot_row) {
            *entry = (&*entry * pivot - factor * across) / divisor;
        }
        true
    }

    fn n_words(&self) -> u64 {
        1 + self.bits() / u64::from(u64::BITS)
    }

    fn size(&self) -> f64 {
        self.bits() as f64
    }
}

/// Returns fractions as integers over their least common denominator.
pub(super) fn over_common_denominator(fractions: &[Rational]) -> (Vec<BigInt>, BigInt) {
    let denominators = fractions.iter().map(Rational::denom);
    let common = denominators.fold(BigInt::from(1), |common, denominator| {
        common.lcm(denominator)
    });
    let numerators = fractions.iter();
    let numerators = numerators.map(|fraction| fraction.numer() * (&common / fraction.denom()));
    (numerators.collect(), common)
}
