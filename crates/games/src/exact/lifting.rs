//! The exact solution of an integer system from its solutions modulo a prime.
//!
//! Method: the solution is written in powers of the prime, one digit at a time. Each digit solves
//! the system for the remainder of the right-hand side, modulo the prime. From time to time,
//! fractions with one denominator are recovered from the digits and substituted into the system; if
//! they satisfy it, they are the solution. Cramer's rule and Hadamard's bound determine how many
//! digits suffice. The remainder of the right-hand side does not grow: for a matrix of short
//! integers it stays within 128 bits and is computed modulo 2^128, where the division by the prime
//! is exact.
//! Source: Dixon 1982, "Exact solution of linear equations using p-adic expansions".

use super::field::Field;
use super::work::{LimitReached, Work};
use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

/// Fractions with one denominator, which is positive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fractions {
    pub(super) numerators: Vec<BigInt>,
    pub(super) denominator: BigInt,
}

/// Largest number of bits of a right-hand side, and of the sum of absolute values in a row of the
/// matrix, for which the remainder fits in 128 bits.
pub(super) const SHORT_BITS: u64 = 124;

/// A square system that is regular modulo the prime of a field.
pub(super) trait System {
    fn field(&self) -> Field;

    /// Solves the system modulo the prime.
    fn solve(&self, right: Vec<u64>) -> Vec<u64>;

    /// Multiplies a vector by the system's matrix.
    fn multiply(&self, vector: &[BigInt], work: &Work<'_>) -> Result<Vec<BigInt>, LimitReached>;

    /// Returns whether the sum of absolute values in each row has at most [`SHORT_BITS`] bits.
    fn is_short(&self) -> bool;

    /// Subtracts the product of the matrix and a vector from `left`, modulo 2^128; the system must
    /// be short.
    fn subtract_product(&self, left: &mut [i128], vector: &[u64]);

    /// Returns an upper bound of the bits of every minor of the matrix.
    fn bits(&self) -> u64;

    /// Returns the approximate number of operations for a digit.
    fn n_operations(&self) -> usize;
}

/// Solves a system exactly.
pub(super) fn solve(
    system: &impl System,
    right: &[BigInt],
    work: &Work<'_>,
) -> Result<Fractions, LimitReached> {
    let prime = BigInt::from(system.field().prime());
    // Twice the size of numerator and denominator, and the sign.
    let needed = 2 * (system.bits() + most_bits(right) + right.len() as u64) + 4;
    let mut left = Left::new(system, right);
    let mut digits = vec![];
    let mut next_try = 1;
    loop {
        digits.push(left.next_digit(system, work)?);
        let n_digits = digits.len() as u64;
        let is_enough = n_digits * (prime.bits() - 1) > needed;
        if n_digits < next_try && !is_enough && !left.is_zero() {
            continue;
        }
        // An attempt is expensive, so the number of digits grows by half between attempts.
        next_try = n_digits + n_digits / 2 + 1;
        if let Some(found) = recover(&digits, &prime, work)? {
            let mut is_solution = true;
            for (product, right) in system.multiply(&found.numerators, work)?.iter().zip(right) {
                work.count_product(found.denominator.bits(), right.bits())?;
                is_solution &= *product == right * &found.denominator;
            }
            if is_solution {
                return Ok(found);
            }
        }
        assert!(!is_enough, "so many digits determine the solution");
    }
}

/// The remainder of the right-hand side after the digits so far, divided by the power of the prime.
enum Left {
    Short(Vec<i128>),
    Long(Vec<BigInt>),
}

impl Left {
    fn new(system: &impl System, right: &[BigInt]) -> Self {
        let short = || right.iter().map(BigInt::to_i128).collect();
        let fits = system.is_short() && most_bits(right) <= SHORT_BITS;
        let short: Option<Vec<i128>> = if fits { short() } else { None };
        short.map_or_else(|| Self::Long(right.to_vec()), Self::Short)
    }

    fn is_zero(&self) -> bool {
        match self {
            Self::Short(left) => left.iter().all(|&left| left == 0),
            Self::Long(left) => left.iter().all(Zero::is_zero),
        }
    }

    /// Returns the next digit of the solution, and updates the remainder.
    fn next_digit(
        &mut self,
        system: &impl System,
        work: &Work<'_>,
    ) -> Result<Vec<u64>, LimitReached> {
        let field = system.field();
        match self {
            Self::Short(left) => {
                work.spend_words(system.n_operations())?;
                let digit =
                    system.solve(left.iter().map(|&left| field.reduce_i128(left)).collect());
                system.subtract_product(left, &digit);
                // Right side minus product is a multiple of the prime, so multiplication by the
                // inverse modulo 2^128 is an exact division.
                let inverse = inverse_modulo_2_128(field.prime());
                for left in left {
                    *left = left.wrapping_mul(inverse);
                }
                Ok(digit)
            }
            Self::Long(left) => {
                work.spend(system.n_operations(), most_bits(left))?;
                let prime = BigInt::from(field.prime());
                let digit = system.solve(left.iter().map(|left| field.reduce(left)).collect());
                let long: Vec<BigInt> = digit.iter().map(|&digit| digit.into()).collect();
                for (left, product) in left.iter_mut().zip(system.multiply(&long, work)?) {
                    *left = (&*left - product) / &prime;
                }
                Ok(digit)
            }
        }
    }
}

/// Returns the inverse of an odd number modulo 2^128, by Newton's iteration: the lowest three bits
/// of the number are those of its inverse, and each step doubles the number of correct bits.
fn inverse_modulo_2_128(odd: u64) -> i128 {
    let odd = i128::from(odd);
    (0..6).fold(odd, |inverse, _| {
        inverse.wrapping_mul(2_i128.wrapping_sub(odd.wrapping_mul(inverse)))
    })
}

fn most_bits(numbers: &[BigInt]) -> u64 {
    numbers.iter().map(BigInt::bits).max().unwrap_or(0)
}

/// Recovers small fractions with one denominator from digits; returns `None` if no such fractions
/// exist.
fn recover(
    digits: &[Vec<u64>],
    prime: &BigInt,
    work: &Work<'_>,
) -> Result<Option<Fractions>, LimitReached> {
    let Ok(n_digits) = u32::try_from(digits.len()) else {
        return Ok(None);
    };
    let modulus = prime.pow(n_digits);
    // At most one fraction has a residue if numerator and denominator do not exceed the square root
    // of half the modulus.
    let limit = BigInt::one() << ((modulus.bits() - 2) / 2);
    let mut numerators: Vec<BigInt> = vec![];
    let mut denominator = BigInt::one();
    for at in 0..digits[0].len() {
        work.spend(digits.len(), modulus.bits())?;
        let low_to_high = digits.iter().rev();
        let residue = low_to_high.fold(BigInt::zero(), |sum, digit| sum * prime + digit[at]);
        // By Cramer's rule the fractions share a denominator. The residue times the denominator so
        // far is therefore usually a small integer already, and Euclid's algorithm is not needed.
        let mut numerator = (residue * &denominator).mod_floor(&modulus);
        if &numerator + &numerator > modulus {
            numerator -= &modulus;
        }
        if numerator.abs() > limit {
            let (more, factor) = fraction(numerator, &modulus, &limit, work)?;
            denominator *= &factor;
            if denominator > limit {
                return Ok(None);
            }
            for earlier in &mut numerators {
                work.count_product(earlier.bits(), factor.bits())?;
                *earlier *= &factor;
            }
            numerator = more;
        }
        numerators.push(numerator);
    }
    Ok(Some(Fractions {
        numerators,
        denominator,
    }))
}

/// Returns numerator and positive denominator of the fraction with a small numerator that has this
/// residue, by Euclid's algorithm, stopped halfway.
fn fraction(
    residue: BigInt,
    modulus: &BigInt,
    limit: &BigInt,
    work: &Work<'_>,
) -> Result<(BigInt, BigInt), LimitReached> {
    // Invariant: each numerator equals its denominator times the residue, modulo `modulus`.
    let mut numerators = (modulus.clone(), residue.mod_floor(modulus));
    let mut denominators = (BigInt::zero(), BigInt::one());
    while numerators.1 > *limit {
        work.count_product(modulus.bits(), 1)?;
        let (quotient, rest) = numerators.0.div_rem(&numerators.1);
        numerators = (numerators.1, rest);
        let next = denominators.0 - quotient * &denominators.1;
        denominators = (denominators.1, next);
    }
    Ok(if denominators.1.sign() == Sign::Minus {
        (-numerators.1, -denominators.1)
    } else {
        (numerators.1, denominators.1)
    })
}

#[cfg(test)]
mod tests {
    use super::super::field::GAPS;
    use super::super::work::Prover;
    use super::*;

    #[test]
    fn fractions_come_back_from_their_residues() {
        let work = Work::new(&Prover::new());
        let prime = Field::new(GAPS[0]).prime();
        let modulus = BigInt::from(prime).pow(4);
        let limit = BigInt::one() << ((modulus.bits() - 2) / 2);
        for (numerator, denominator) in [(1, 3), (-355, 113), (0, 1), (-7, 1), (1, i64::MAX)] {
            let (numerator, denominator) = (BigInt::from(numerator), BigInt::from(denominator));
            let inverse = denominator.modinv(&modulus).unwrap();
            let residue = (&numerator * inverse).mod_floor(&modulus);
            assert_eq!(
                fraction(residue, &modulus, &limit, &work),
                Ok((numerator, denominator))
            );
        }
    }

    #[test]
    fn a_recovered_fraction_is_the_only_one_of_its_size() {
        let work = Work::new(&Prover::new());
        let prime = BigInt::from(251);
        let modulus = &prime * &prime;
        let mut n_found = 0;
        for residue in (0..251_u64 * 251).step_by(17) {
            let digits = [vec![residue % 251], vec![residue / 251]];
            let Some(found) = recover(&digits, &prime, &work).unwrap() else {
                continue;
            };
            let (numerator, denominator) = (&found.numerators[0], &found.denominator);
            let difference = denominator * residue - numerator;
            assert!(difference.mod_floor(&modulus).is_zero(), "{residue}");
            for part in [numerator, denominator] {
                assert!(
                    BigInt::from(2) * part * part <= modulus,
                    "{residue}: {part}"
                );
            }
            n_found += 1;
        }
        assert!(n_found > 100, "{n_found}");
    }

    #[test]
    fn inverses_modulo_2_128_are_inverses() {
        for gap in GAPS {
            let prime = Field::new(gap).prime();
            assert_eq!(inverse_modulo_2_128(prime).wrapping_mul(prime.into()), 1);
        }
    }
}
