//! Equality and hashes of types that contain fractions.
//!
//! Role: replaces derived implementations of `PartialEq` and `Hash`. Derived implementations call
//! the library of fractions, which recurses as deep as continued fractions are long: hashes of long
//! fractions, and comparisons of long fractions that are close, overflow the stack.
//! Method: fractions are equal if their values are equal; they need not be in lowest terms.

use crate::Rational;
use crate::number::compare;
use num_traits::Zero;
use std::hash::{Hash, Hasher};

/// A fraction, or a list of fractions.
pub(crate) trait Fractions {
    /// Returns whether the lengths of lists and the values of fractions are equal. Fractions with
    /// denominator 0, which [`Rational::new_raw`] can create, equal each other and no other
    /// fraction.
    fn equal(&self, other: &Self) -> bool;
}

impl Fractions for Rational {
    fn equal(&self, other: &Self) -> bool {
        match (self.denom().is_zero(), other.denom().is_zero()) {
            (false, false) => compare(self, other).is_eq(),
            (is_undefined, is_other_undefined) => is_undefined && is_other_undefined,
        }
    }
}

impl<T: Fractions> Fractions for [T] {
    fn equal(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().zip(other).all(|(a, b)| a.equal(b))
    }
}

impl<T: Fractions, const N: usize> Fractions for [T; N] {
    fn equal(&self, other: &Self) -> bool {
        self.as_slice().equal(other)
    }
}

impl<T: Fractions> Fractions for Vec<T> {
    fn equal(&self, other: &Self) -> bool {
        self.as_slice().equal(other)
    }
}

impl<T: Fractions> Fractions for Option<T> {
    fn equal(&self, other: &Self) -> bool {
        self.as_slice().equal(other.as_slice())
    }
}

/// Implements `PartialEq` for a struct. Fields before the semicolon are compared by `PartialEq`,
/// fields after the semicolon by [`Fractions`]. All fields must be listed.
macro_rules! equality {
    ($type:ident { $($field:ident),*; $($fractions:ident),+ }) => {
        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                let Self { $($field,)* $($fractions),+ } = self;
                $(*$field == other.$field &&)*
                $($crate::equality::Fractions::equal($fractions, &other.$fractions))&&+
            }
        }
    };
}
pub(crate) use equality;

/// Hashes the value of a fraction, so that equal fractions have equal hashes.
///
/// Cost: a greatest common divisor, because the fraction need not be in lowest terms.
pub(crate) fn hash(fraction: &Rational, state: &mut impl Hasher) {
    let has_value = !fraction.denom().is_zero();
    let parts = has_value.then(|| fraction.reduced().into_raw());
    parts.hash(state);
}
