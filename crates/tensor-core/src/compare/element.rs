//! Element types of comparisons, with their sentinels.

use std::fmt;

/// The value of an element in comparisons: floats widened to f64, integers and booleans exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A float; every f32 is exactly representable as an f64.
    Float(f64),
    /// An integer of any width, or a boolean as 0 or 1.
    Int(i128),
}

impl Value {
    /// Returns the distance of two values: 0 if they are equal or both NaN, infinite if they differ
    /// and one of them is not finite, never NaN. The distance of an integer and an unequal float is
    /// above 0.
    pub(super) fn distance(self, other: Self) -> f64 {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.abs_diff(b) as f64,
            (Self::Float(a), Self::Float(b)) if a == b || a.is_nan() && b.is_nan() => 0.0,
            (Self::Float(a), Self::Float(b)) if a.is_finite() && b.is_finite() => (a - b).abs(),
            (Self::Float(_), Self::Float(_)) => f64::INFINITY,
            (Self::Int(int), Self::Float(float)) | (Self::Float(float), Self::Int(int)) => {
                distance_to_int(float, int)
            }
        }
    }
}

fn distance_to_int(float: f64, int: i128) -> f64 {
    let whole = float.trunc();
    if !float.is_finite() {
        return f64::INFINITY;
    }
    // Integers have at most 65 bits, so a float that saturates in this conversion cannot be equal
    // to one.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "`whole` has no fraction; saturation is harmless"
    )]
    let apart = (whole as i128).saturating_sub(int) as f64;
    // The fraction is smaller than 1, so it cannot cancel a difference of whole numbers.
    (apart + (float - whole)).abs()
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Float(x) => write!(f, "{x:?}"),
            Self::Int(x) => write!(f, "{x}"),
        }
    }
}

/// An element type of comparisons: the floats, integers and `bool`.
pub trait Element: Copy + sealed::Sealed {
    /// The value that fills outputs before a computation, so that elements that were not written
    /// are detected: a finite number and, in types of 32 bits and more, an unlikely result.
    const SENTINEL: Self;
    /// Whether an element with the sentinel value is an error by itself. In narrower types every
    /// value may be a correct result; there an element that was not written is detected only if it
    /// differs from the expected value.
    const SENTINEL_IS_RESERVED: bool;
    /// The distance from 1 to the next larger value; 0 for integers.
    const EPSILON: f64;
    /// The name of the type, as in Rust.
    const NAME: &'static str;
    /// Returns the value in a form in which all types can be compared.
    fn value(self) -> Value;
    /// Returns the bits, zero-extended.
    fn bits(self) -> u64;
}

mod sealed {
    pub trait Sealed {}
}

/// The sentinel of floats, about -5.5e29 with an irregular mantissa. The f64 sentinel is the same
/// number, so that it is recognized after a conversion.
const FLOAT_SENTINEL: f32 = f32::from_bits(0xf0de_ad5e);

impl sealed::Sealed for f32 {}
impl Element for f32 {
    const SENTINEL: Self = FLOAT_SENTINEL;
    const SENTINEL_IS_RESERVED: bool = true;
    const EPSILON: f64 = Self::EPSILON as f64;
    const NAME: &'static str = "f32";
    fn value(self) -> Value {
        Value::Float(f64::from(self))
    }
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl sealed::Sealed for f64 {}
impl Element for f64 {
    const SENTINEL: Self = FLOAT_SENTINEL as Self;
    const SENTINEL_IS_RESERVED: bool = true;
    const EPSILON: Self = Self::EPSILON;
    const NAME: &'static str = "f64";
    fn value(self) -> Value {
        Value::Float(self)
    }
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

macro_rules! integer {
    ($type:ty, $unsigned:ty, $sentinel:expr, $reserved:expr) => {
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const SENTINEL: Self = $sentinel;
            const SENTINEL_IS_RESERVED: bool = $reserved;
            const EPSILON: f64 = 0.0;
            const NAME: &'static str = stringify!($type);
            fn value(self) -> Value {
                Value::Int(i128::from(self))
            }
            fn bits(self) -> u64 {
                u64::from(<$unsigned>::from_ne_bytes(self.to_ne_bytes()))
            }
        }
    };
}

integer!(i8, u8, -0x5b, false);
integer!(i16, u16, -0x5a5b, false);
integer!(i32, u32, -0x2152_5a5b, true);
integer!(i64, u64, -0x2152_5a5b_2152_5a5b, true);
integer!(u8, u8, 0xa5, false);
integer!(u16, u16, 0xa5a5, false);
integer!(u32, u32, 0xdead_a5a5, true);
integer!(u64, u64, 0xdead_a5a5_dead_a5a5, true);

impl sealed::Sealed for bool {}
impl Element for bool {
    const SENTINEL: Self = true;
    const SENTINEL_IS_RESERVED: Self = false;
    const EPSILON: f64 = 0.0;
    const NAME: &'static str = "bool";
    fn value(self) -> Value {
        Value::Int(i128::from(self))
    }
    fn bits(self) -> u64 {
        u64::from(self)
    }
}

/// Creates a buffer filled with [`Element::SENTINEL`], for the output of a computation.
///
/// # Examples
/// ```
/// use tensor_core::compare::{Tolerance, Mismatch, compare, sentinel_filled};
/// let mut out = sentinel_filled::<f32>(4);
/// out[..3].copy_from_slice(&[1.0, 2.0, 3.0]);
/// let error = compare(&out, [1.0, 2.0, 3.0, 4.0], &Tolerance::relative(1)).unwrap_err();
/// assert!(matches!(error, Mismatch::Sentinel { .. }));
/// ```
#[must_use]
pub fn sentinel_filled<T: Element>(len: usize) -> Vec<T> {
    vec![T::SENTINEL; len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_types_have_a_distance() {
        let (big, one) = (Value::Int(i128::from(u64::MAX)), Value::Int(1));
        assert_eq!(
            Value::Int(i128::from(i64::MIN)).distance(Value::Int(i128::from(i64::MIN))),
            0.0
        );
        assert!(big.distance(Value::Int(i128::from(u64::MAX - 1))) > 0.0);
        assert_eq!(one.distance(Value::Float(1.0)), 0.0);
        for (float, distance) in [(1.5, 0.5), (0.5, 0.5), (-0.5, 1.5), (-2.0, 3.0)] {
            assert_eq!(Value::Float(float).distance(one), distance);
            assert_eq!(one.distance(Value::Float(float)), distance);
        }
        assert_eq!(Value::Float(-0.0).distance(Value::Int(0)), 0.0);
        let tiny = f64::from_bits(1);
        assert_eq!(Value::Float(tiny).distance(Value::Int(0)), tiny);
        for float in [f64::MAX, f64::MIN] {
            for int in [i128::from(i64::MIN), i128::from(u64::MAX)] {
                assert!(Value::Float(float).distance(Value::Int(int)) > 1e38);
            }
        }
        assert!(big.distance(Value::Float(18_446_744_073_709_551_615.0)) > 0.0);
        for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(one.distance(Value::Float(float)), f64::INFINITY);
            assert_eq!(
                Value::Float(float).distance(Value::Float(1.0)),
                f64::INFINITY
            );
            assert_eq!(Value::Float(float).distance(Value::Float(float)), 0.0);
        }
        assert_eq!(
            Value::Float(f64::MAX).distance(Value::Float(f64::MIN)),
            f64::INFINITY
        );
    }

    #[test]
    fn float_sentinels_are_one_finite_number() {
        assert!(<f32 as Element>::SENTINEL.is_finite());
        assert_eq!(
            f64::from(<f32 as Element>::SENTINEL),
            <f64 as Element>::SENTINEL
        );
    }
}
