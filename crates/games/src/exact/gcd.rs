//! The greatest common divisor of long integers.
//!
//! Role: fractions in a proof have tens of thousands of bits and must be in lowest terms. The
//! binary algorithm of the integer library is too slow for them: it shifts and subtracts all words
//! once for every one or two bits.
//! Method: quotients of Euclid's algorithm are computed from the leading 62 bits of both numbers,
//! as long as these bits determine the quotients. Several quotients, together about 30 bits, are
//! then applied to the long numbers in one step.
//! Source: Lehmer 1938, "Euclid's algorithm for large numbers"; the condition is Collins', as in
//! Knuth 1997, "The art of computer programming", volume 2, section 4.5.2.

use super::work::{LimitReached, Work};
use crate::Rational;
use num_bigint::{BigInt, BigUint};
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

/// Number of leading bits from which quotients are computed.
const LEADING: u64 = 62;
/// Largest number of bits of numerators and denominators for which the library's operations on
/// fractions are fast enough to need no interruption.
const SHORT_BITS: u64 = 512;

/// Returns a fraction in lowest terms; the denominator must not be 0.
pub(super) fn lowest_terms(
    numerator: &BigInt,
    denominator: &BigInt,
    work: &Work<'_>,
) -> Result<Rational, LimitReached> {
    let divisor = gcd(
        numerator.magnitude().clone(),
        denominator.magnitude().clone(),
        work,
    )?;
    let divisor = BigInt::from(divisor);
    let sign = denominator.signum();
    let (numerator, denominator) = if divisor.is_one() {
        (numerator * &sign, denominator * sign)
    } else {
        (numerator / &divisor * &sign, denominator / divisor * sign)
    };
    Ok(Rational::new_raw(numerator, denominator))
}

/// Returns the difference of fractions in lowest terms.
///
/// The subtraction of the library of fractions cannot be interrupted, and its greatest common
/// divisors are slow for long numbers.
pub(super) fn difference(
    a: &Rational,
    b: &Rational,
    work: &Work<'_>,
) -> Result<Rational, LimitReached> {
    let bits = [a.numer(), a.denom(), b.numer(), b.denom()].map(BigInt::bits);
    work.count_fraction(bits.iter().sum())?;
    if bits.into_iter().max() <= Some(SHORT_BITS) {
        return Ok(a - b);
    }
    if a.denom() == b.denom() {
        return lowest_terms(&(a.numer() - b.numer()), a.denom(), work);
    }
    work.count_product(bits[0].max(bits[2]), bits[1].max(bits[3]))?;
    let numerator = a.numer() * b.denom() - b.numer() * a.denom();
    lowest_terms(&numerator, &(a.denom() * b.denom()), work)
}

/// Returns the product of fractions in lowest terms.
pub(super) fn product(
    a: &Rational,
    b: &Rational,
    work: &Work<'_>,
) -> Result<Rational, LimitReached> {
    let bits = [a.numer(), a.denom(), b.numer(), b.denom()].map(BigInt::bits);
    work.count_fraction(bits.iter().sum())?;
    if bits.into_iter().max() <= Some(SHORT_BITS) {
        return Ok(a * b);
    }
    work.count_product(bits[0].max(bits[1]), bits[2].max(bits[3]))?;
    lowest_terms(&(a.numer() * b.numer()), &(a.denom() * b.denom()), work)
}

/// Returns the least common multiple of positive integers.
pub(super) fn lcm(a: BigInt, b: &BigInt, work: &Work<'_>) -> Result<BigInt, LimitReached> {
    if b.is_one() || a == *b {
        return Ok(a);
    }
    let divisor = gcd(a.magnitude().clone(), b.magnitude().clone(), work)?;
    work.count_product(a.bits(), b.bits())?;
    Ok(a * (b / BigInt::from(divisor)))
}

/// Returns the greatest common divisor.
pub(super) fn gcd(
    mut a: BigUint,
    mut b: BigUint,
    work: &Work<'_>,
) -> Result<BigUint, LimitReached> {
    if a < b {
        std::mem::swap(&mut a, &mut b);
    }
    while b.bits() > LEADING {
        work.count_product(a.bits(), 4 * u64::from(u64::BITS))?;
        let dropped = a.bits() - LEADING;
        let leading = |number: &BigUint| (number >> dropped).to_i128().unwrap_or(0);
        match steps(leading(&a), leading(&b)) {
            Some([[p, q], [r, s]]) => {
                // Each row has one nonpositive coefficient, and unsigned numbers need the positive
                // part first.
                let combine = |p: i128, q: i128| {
                    let (p_part, q_part) = (&a * p.unsigned_abs(), &b * q.unsigned_abs());
                    if q < 0 {
                        p_part - q_part
                    } else {
                        q_part - p_part
                    }
                };
                (a, b) = (combine(p, q), combine(r, s));
            }
            // The leading bits determine no quotient, for example if `b` is much shorter than `a`.
            None => {
                work.count_product(a.bits() - b.bits(), b.bits())?;
                let rest = a % &b;
                a = std::mem::replace(&mut b, rest);
            }
        }
    }
    if b.is_zero() {
        return Ok(a);
    }
    let rest = a % &b;
    Ok(BigUint::gcd(&b, &rest))
}

/// Returns the steps of Euclid's algorithm that leading bits determine, as a matrix `[[p, q], [r,
/// s]]` that takes the pair `(a, b)` to `(p a + q b, r a + s b)`; `None` if they do not
/// determine any step. Of `p` and `q` one is not positive, and likewise of `r` and `s`.
fn steps(mut a: i128, mut b: i128) -> Option<[[i128; 2]; 2]> {
    let (mut p, mut q, mut r, mut s) = (1, 0, 0, 1);
    let mut has_stepped = false;
    loop {
        if b + r == 0 || b + s == 0 {
            break;
        }
        // The dropped bits change the true quotient at most to these two extremes; if both agree,
        // the quotient is certain.
        let quotient = (a + p) / (b + r);
        if quotient != (a + q) / (b + s) {
            break;
        }
        (p, r) = (r, p - quotient * r);
        (q, s) = (s, q - quotient * s);
        (a, b) = (b, a - quotient * b);
        has_stepped = true;
    }
    has_stepped.then_some([[p, q], [r, s]])
}

#[cfg(test)]
mod tests {
    use super::super::work::Prover;
    use super::*;
    use tensor_core::rng::Philox;

    #[test]
    fn divisors_of_long_integers_are_those_of_the_binary_algorithm() {
        let work = Work::new(&Prover::new());
        let random = Philox::new(4);
        let mut at = 0;
        let mut number = |n_words: u64| -> BigUint {
            let words = (0..n_words).map(|_| {
                at += 1;
                random.word(at)
            });
            BigUint::new(words.collect())
        };
        for case in 0..400 {
            let common = number(case % 7);
            let (a, b) = (number(case % 41) * &common, number(case % 13) * &common);
            assert_eq!(gcd(a.clone(), b.clone(), &work), Ok(a.gcd(&b)), "{a} {b}");
        }
        // Neighbouring Fibonacci numbers have the most steps, powers of two the longest quotients.
        let (mut a, mut b) = (BigUint::one(), BigUint::one());
        for _ in 0..2000 {
            (a, b) = (&a + &b, a);
        }
        assert_eq!(gcd(a, b, &work), Ok(BigUint::one()));
        let power = |n: u32| BigUint::from(2_u32).pow(n);
        assert_eq!(gcd(power(3000), power(1000), &work), Ok(power(1000)));
        assert_eq!(
            gcd(power(900) + 1_u32, power(900), &work),
            Ok(BigUint::one())
        );
    }

    #[test]
    fn fractions_are_in_lowest_terms_with_a_positive_denominator() {
        let work = Work::new(&Prover::new());
        for (numerator, denominator) in [(6, -4), (-6, -4), (0, -5), (7, 7), (1, 3)] {
            let (numerator, denominator) = (BigInt::from(numerator), BigInt::from(denominator));
            let found = lowest_terms(&numerator, &denominator, &work).unwrap();
            let expected = Rational::new(numerator, denominator);
            assert_eq!(
                (found.numer(), found.denom()),
                (expected.numer(), expected.denom())
            );
        }
    }
}
