//! Arithmetic modulo a prime just below 2^61.
//!
//! Role: linear systems are factorised in this field before their solutions are lifted to
//! fractions.
//! Method: `2^61 = gap` modulo the prime, so the upper half of a product is folded onto the lower
//! half without a division.

#![expect(
    clippy::cast_possible_truncation,
    reason = "the upper bits of a product are folded onto the lower ones first"
)]

use num_bigint::BigInt;
use num_traits::ToPrimitive;

/// The differences between 2^61 and the primes used, found by trial with the Miller-Rabin test.
pub(super) const GAPS: [u64; 4] = [1, 31, 45, 229];
/// Bits of a prime.
const BITS: u32 = 61;
/// The largest number of [`BITS`] bits.
const MASK: u64 = (1 << BITS) - 1;

/// The integers modulo `2^61 - gap`, each as its least representative.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    gap: u64,
}

impl Field {
    /// Returns the field of the prime `2^61 - gap`; `gap` is one of [`GAPS`].
    pub(super) fn new(gap: u64) -> Self {
        Self { gap }
    }

    pub(super) fn prime(self) -> u64 {
        (1 << BITS) - self.gap
    }

    pub(super) fn multiply(self, a: u64, b: u64) -> u64 {
        let product = u128::from(a) * u128::from(b);
        // Below 2^61 · 2^8 + 2^61, and after the second fold below 2^61 + 2^17.
        let folded = (product >> BITS) * u128::from(self.gap) + u128::from(product as u64 & MASK);
        let folded = (folded >> BITS) as u64 * self.gap + (folded as u64 & MASK);
        self.wrap(folded)
    }

    pub(super) fn subtract(self, a: u64, b: u64) -> u64 {
        self.wrap(a + self.prime() - b)
    }

    /// Returns the inverse of a nonzero number, by Fermat's little theorem.
    pub(super) fn invert(self, a: u64) -> u64 {
        let mut exponent = self.prime() - 2;
        let (mut power, mut inverse) = (a, 1);
        while exponent > 0 {
            if exponent & 1 == 1 {
                inverse = self.multiply(inverse, power);
            }
            power = self.multiply(power, power);
            exponent >>= 1;
        }
        inverse
    }

    /// Returns an integer modulo the prime.
    pub(super) fn reduce(self, integer: &BigInt) -> u64 {
        let prime = self.prime() as i64;
        let remainder = match integer.to_i64() {
            Some(small) => small % prime,
            None => (integer % prime)
                .to_i64()
                .expect("a remainder is below 2^61"),
        };
        remainder.rem_euclid(prime) as u64
    }

    /// Returns an integer modulo the prime.
    pub(super) fn reduce_i128(self, integer: i128) -> u64 {
        integer.rem_euclid(i128::from(self.prime())) as u64
    }

    fn wrap(self, a: u64) -> u64 {
        let prime = self.prime();
        if a >= prime { a - prime } else { a }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_inverses_agree_with_long_arithmetic() {
        for gap in GAPS {
            let field = Field::new(gap);
            let prime = u128::from(field.prime());
            let mut number = 1;
            for step in 0..1000_u64 {
                let other = field.prime() - 1 - step;
                let product = u128::from(number) * u128::from(other) % prime;
                assert_eq!(u128::from(field.multiply(number, other)), product);
                assert_eq!(field.multiply(number, field.invert(number)), 1);
                number = field.multiply(number, 6_364_136_223_846_793_005 % field.prime());
            }
        }
    }

    #[test]
    fn negative_and_long_integers_are_reduced() {
        for gap in GAPS {
            let field = Field::new(gap);
            assert_eq!(field.reduce(&BigInt::from(-1)), field.prime() - 1);
            let long = (BigInt::from(field.prime()) << 200) - 5;
            assert_eq!(field.reduce(&long), field.prime() - 5);
            assert_eq!(field.subtract(3, 5), field.prime() - 2);
        }
    }
}
