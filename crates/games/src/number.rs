//! Input numbers: fractions of any size, conversions to them without loss, and their order.
//!
//! Role: lets the same game be used by learning and by proofs. Learning computes in f64, proofs in
//! fractions. Every finite float is a fraction, so proofs see the exact input; integers and
//! fractions are rounded only for learning.
//! Method: fractions are compared by cross products. The comparison of the library of fractions
//! recurses once for each term that two continued fractions share, unless the numerators or the
//! denominators are equal. Two long fractions that are close, or that are equal but not both in
//! lowest terms, would overflow the stack.

use num_bigint::{BigInt, BigUint, Sign};
use num_traits::{ToPrimitive, Zero};
use std::cmp::Ordering;

/// Number of leading bits from which cross products are estimated: a product of two such numbers,
/// rounded up, fits in 128 bits.
const LEADING_BITS: u64 = 63;
/// Fixed cost of an operation on big integers, in operations on words.
pub(crate) const OVERHEAD_WORDS: usize = 16;

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
        exact.is_some_and(|exact| {
            let float = Self::from_float(nearest(&exact));
            float.is_some_and(|float| compare(&float, &exact).is_eq())
        })
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

/// Compares two fractions of any length by value; they need not be in lowest terms.
///
/// The stack does not grow with the length. `Rational::cmp` recurses once for each term that two
/// continued fractions share, so that long fractions may overflow the stack.
///
/// The order is unspecified if a denominator is 0.
///
/// Cost: constant for fractions of machine words, and usually for long fractions that differ in
/// their leading bits; otherwise two products of long integers.
///
/// # Examples
/// ```
/// use games::{Rational, compare};
///
/// let [third, half] = [3, 2].map(|bottom| Rational::new(1.into(), bottom.into()));
/// assert!(compare(&third, &half).is_lt());
/// ```
#[must_use]
pub fn compare(a: &Rational, b: &Rational) -> Ordering {
    let sign = |fraction: &Rational| fraction.numer().sign() * fraction.denom().sign();
    let sizes = match (sign(a), sign(b)) {
        (Sign::Plus, Sign::Plus) => [a, b],
        (Sign::Minus, Sign::Minus) => [b, a],
        (a_sign, b_sign) => return a_sign.cmp(&b_sign),
    };
    let [(top, bottom), (other_top, other_bottom)] =
        sizes.map(|fraction| (fraction.numer().magnitude(), fraction.denom().magnitude()));
    if bottom == other_bottom {
        return top.cmp(other_top);
    }
    compare_products([top, other_bottom], [other_top, bottom])
}

/// Compares two lists of fractions in lexicographic order.
pub(crate) fn compare_lists(a: &[Rational], b: &[Rational]) -> Ordering {
    let pairs = a.iter().zip(b);
    let first = pairs
        .map(|(a, b)| compare(a, b))
        .find(|order| order.is_ne());
    first.unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// Compares `a b` with `c d`.
fn compare_products([a, b]: [&BigUint; 2], [c, d]: [&BigUint; 2]) -> Ordering {
    let words = [a, b, c, d].map(BigUint::to_u64);
    if let [Some(a), Some(b), Some(c), Some(d)] = words.map(|word| word.map(u128::from)) {
        return (a * b).cmp(&(c * d));
    }
    let (left, right) = (Estimate::of_product(a, b), Estimate::of_product(c, d));
    if left.is_above(&right) {
        Ordering::Greater
    } else if right.is_above(&left) {
        Ordering::Less
    } else {
        (a * b).cmp(&(c * d))
    }
}

/// Bounds of a product: at least `low · 2^shift`, and at most `high · 2^shift`.
struct Estimate {
    low: u128,
    high: u128,
    shift: u64,
}

impl Estimate {
    fn of_product(a: &BigUint, b: &BigUint) -> Self {
        let ([a_low, a_high, a_shift], [b_low, b_high, b_shift]) = (leading(a), leading(b));
        Self {
            low: u128::from(a_low) * u128::from(b_low),
            high: u128::from(a_high) * u128::from(b_high),
            shift: a_shift + b_shift,
        }
    }

    /// Returns whether the lower bound exceeds the upper bound of another product.
    fn is_above(&self, other: &Self) -> bool {
        // Returns a number times a power of two; `None` if the result exceeds 128 bits. The number
        // 0 fits after any shift, but shifts of 128 or more are not defined.
        let shifted = |number: u128, shift: u64| {
            if number == 0 {
                return Some(0);
            }
            let fits = shift <= u64::from(number.leading_zeros());
            fits.then(|| number << shift)
        };
        match self.shift.checked_sub(other.shift) {
            Some(shift) => shifted(self.low, shift).is_none_or(|low| low > other.high),
            None => {
                let high = shifted(other.high, other.shift - self.shift);
                high.is_some_and(|high| self.low > high)
            }
        }
    }
}

/// Returns the leading bits of a number, the same rounded up, and the number of bits below them.
fn leading(number: &BigUint) -> [u64; 3] {
    let dropped = number.bits().saturating_sub(LEADING_BITS);
    let low = (number >> dropped).to_u64();
    let low = low.expect("the leading bits fit in a word");
    [low, low + u64::from(dropped > 0), dropped]
}

/// Returns the number of words that hold `bits` bits.
pub(crate) fn words(bits: u64) -> usize {
    usize::try_from(bits / u64::from(u64::BITS)).map_or(usize::MAX, |words| words.saturating_add(1))
}

/// Returns the estimated number of operations on words for the greatest common divisor of two
/// integers of `bits` bits: one pass over the words for each bit.
pub(crate) fn words_of_gcd(bits: u64) -> usize {
    let words = words(bits);
    OVERHEAD_WORDS.saturating_add(words.saturating_mul(words).saturating_mul(64))
}

/// Returns the estimated number of operations on words for a sum, a difference or a quotient of two
/// fractions.
pub(crate) fn words_of_sum(a: &Rational, b: &Rational) -> usize {
    let bits = [a.numer(), a.denom(), b.numer(), b.denom()].map(BigInt::bits);
    // A common divisor of two of the integers, and one of the numerator and denominator of the
    // result.
    words_of_gcd(bits.into_iter().max().unwrap_or(0)).saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(digits: &str) -> BigInt {
        digits.parse().expect("the text is a number")
    }

    /// Returns the ratios of neighbouring Fibonacci numbers of 20,000 digits, the smaller ratio
    /// first. Their continued fractions share almost all of their thousands of terms.
    fn long_neighbours() -> [Rational; 2] {
        const N_BITS: u64 = 66_439;
        let (mut n, mut m) = (BigInt::from(1), BigInt::from(1));
        while m.bits() < N_BITS {
            // Two steps of the sequence: every second ratio is below the golden ratio.
            (n, m) = (2 * &n + &m, &n + m);
        }
        [(n.clone(), m.clone()), (&n + m, n)].map(|(top, bottom)| Rational::new_raw(top, bottom))
    }

    #[test]
    fn long_fractions_are_compared_on_a_small_stack() {
        const STACK_BYTES: usize = 2 << 20;
        let compared = || {
            let [a, b] = long_neighbours();
            let twice = Rational::new_raw(a.numer() * 2, a.denom() * 2);
            let negative = Rational::new_raw(-a.numer(), a.denom().clone());
            assert_eq!(compare(&a, &b), Ordering::Less);
            assert_eq!(compare(&b, &a), Ordering::Greater);
            assert_eq!(compare(&a, &twice), Ordering::Equal);
            assert_eq!(compare(&negative, &b), Ordering::Less);
            let negative_twice = Rational::new_raw(twice.numer().clone(), -twice.denom());
            assert_eq!(compare(&negative, &negative_twice), Ordering::Equal);
            let lists = [[a.clone(), a.clone()], [twice, b]];
            assert_eq!(compare_lists(&lists[0], &lists[1]), Ordering::Less);
            assert!(!a.is_float());
        };
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn(compared).expect("a thread starts");
        thread.join().expect("no comparison failed");
    }

    #[test]
    fn estimates_decide_only_what_they_bound() {
        // Products of equal leading bits that differ in the last bit, or in no bit.
        let long = number("340282366920938463463374607431768211507");
        let (a, b) = (long.magnitude(), &(long.magnitude() + 1_u32));
        let next = &(b + 1_u32);
        assert_eq!(compare_products([a, b], [b, a]), Ordering::Equal);
        assert_eq!(compare_products([b, b], [a, next]), Ordering::Greater);
        assert_eq!(compare_products([a, next], [b, b]), Ordering::Less);
        // A product of long numbers and a product of words.
        let (zero, one) = (&BigUint::default(), &BigUint::from(1_u32));
        assert_eq!(compare_products([one, one], [one, a]), Ordering::Less);
        assert_eq!(compare_products([one, a], [one, one]), Ordering::Greater);
        assert_eq!(compare_products([zero, a], [one, one]), Ordering::Less);
        assert_eq!(compare_products([zero, a], [zero, b]), Ordering::Equal);
        // The bits below the leading ones fill a `u128`, or more.
        for dropped in [128, 129, 1000] {
            let long = &(BigUint::from(1_u32) << (LEADING_BITS + dropped - 1));
            assert_eq!(compare_products([zero, long], [one, one]), Ordering::Less);
            assert_eq!(
                compare_products([one, one], [zero, long]),
                Ordering::Greater
            );
            assert_eq!(compare_products([zero, long], [zero, one]), Ordering::Equal);
        }
    }

    fn integers() -> impl Strategy<Value = BigInt> {
        let bytes = prop::collection::vec(any::<u8>(), 0..40);
        bytes.prop_map(|bytes| BigInt::from_signed_bytes_le(&bytes))
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_the_library(
            (a, b) in (integers(), integers()),
            (c, d) in (integers(), integers()),
            factor in 1..4_u32,
        ) {
            prop_assume!(!b.is_zero() && !d.is_zero());
            let given = Rational::new_raw(a.clone(), b.clone());
            let other = Rational::new_raw(c, d);
            let multiple = Rational::new_raw(a * factor, b * factor);
            let near = Rational::new_raw(given.numer() + 1, given.denom().clone());
            for (x, y) in [(&given, &other), (&given, &multiple), (&multiple, &near)] {
                // The library expects positive denominators.
                prop_assert_eq!(compare(x, y), x.reduced().cmp(&y.reduced()));
            }
        }
    }
}
