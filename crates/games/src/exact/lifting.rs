//! The exact solution of an integer system from its solutions modulo a prime.
//!
//! Method: the solution is written in powers of the prime, a digit at a time: each digit solves the system for what is
//! left of the right-hand side, modulo the prime. From time to time fractions with one denominator are recovered from
//! the digits and put into the system; when they solve it, they are the solution. Cramer's rule and Hadamard's bound
//! tell how many digits suffice.
//! Source: Dixon 1982, "Exact solution of linear equations using p-adic expansions".

use super::field::Field;
use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_traits::{One, Signed, Zero};

/// Fractions with one denominator, which is positive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fractions {
    pub(super) numerators: Vec<BigInt>,
    pub(super) denominator: BigInt,
}

/// A square system that is regular modulo the prime of a field.
pub(super) trait System {
    fn field(&self) -> Field;

    /// Solves the system modulo the prime.
    fn solve(&self, right: &[BigInt]) -> Vec<u64>;

    /// Multiplies a vector by the system's matrix.
    fn multiply(&self, vector: &[BigInt]) -> Vec<BigInt>;

    /// Gives an upper bound for the bits of every minor of the matrix.
    fn bits(&self) -> u64;

    /// Gives about how many operations a digit takes.
    fn n_operations(&self) -> usize;
}

/// What an operation on big integers takes besides its words, in steps of one word.
const OVERHEAD: u64 = 16;

/// What is left of the steps of arithmetic that a proof may take, so that none takes forever.
#[derive(Debug)]
pub(super) struct Budget(u64);

/// The budget is spent.
#[derive(Debug)]
pub(super) struct Exhausted;

impl Budget {
    pub(super) fn new(steps: u64) -> Self {
        Self(steps)
    }

    /// Takes as many steps as operations on integers of so many bits take.
    pub(super) fn spend(&mut self, n_operations: usize, bits: u64) -> Result<(), Exhausted> {
        let steps = n_operations as u64 * (OVERHEAD + bits / u64::from(u64::BITS));
        self.0 = self.0.checked_sub(steps).ok_or(Exhausted)?;
        Ok(())
    }
}

/// Solves a system exactly.
pub(super) fn solve(
    system: &impl System,
    right: &[BigInt],
    budget: &mut Budget,
) -> Result<Fractions, Exhausted> {
    let prime = BigInt::from(system.field().prime());
    // Twice the size of numerator and denominator, and the sign.
    let needed = 2 * (system.bits() + most_bits(right) + right.len() as u64) + 4;
    let mut left = right.to_vec();
    let mut digits = vec![];
    let mut next_try = 1;
    loop {
        budget.spend(system.n_operations(), most_bits(&left))?;
        let digit: Vec<BigInt> = system.solve(&left).into_iter().map(BigInt::from).collect();
        for (left, product) in left.iter_mut().zip(system.multiply(&digit)) {
            *left = (&*left - product) / &prime;
        }
        digits.push(digit);
        let n_digits = digits.len() as u64;
        let is_enough = n_digits * (prime.bits() - 1) > needed;
        let is_exact = left.iter().all(Zero::is_zero);
        if n_digits < next_try && !is_enough && !is_exact {
            continue;
        }
        next_try = n_digits + n_digits / 2 + 1;
        let n_steps = right.len() * digits.len();
        budget.spend(n_steps, n_digits * prime.bits())?;
        if let Some(found) = recover(&digits, &prime) {
            let scaled = right.iter().map(|right| right * &found.denominator);
            if system.multiply(&found.numerators).into_iter().eq(scaled) {
                return Ok(found);
            }
        }
        assert!(!is_enough, "so many digits determine the solution");
    }
}

fn most_bits(numbers: &[BigInt]) -> u64 {
    numbers.iter().map(BigInt::bits).max().unwrap_or(0)
}

/// Recovers small fractions with one denominator from their digits; `None` if there are none.
fn recover(digits: &[Vec<BigInt>], prime: &BigInt) -> Option<Fractions> {
    let modulus = prime.pow(u32::try_from(digits.len()).ok()?);
    let limit = BigInt::one() << ((modulus.bits() - 2) / 2);
    let mut numerators: Vec<BigInt> = vec![];
    let mut denominator = BigInt::one();
    for at in 0..digits[0].len() {
        let low_to_high = digits.iter().rev();
        let residue = low_to_high.fold(BigInt::zero(), |sum, digit| sum * prime + &digit[at]);
        let mut numerator = (residue * &denominator).mod_floor(&modulus);
        if &numerator + &numerator > modulus {
            numerator -= &modulus;
        }
        if numerator.abs() > limit {
            let (more, factor) = fraction(numerator, &modulus, &limit);
            denominator *= &factor;
            if denominator > limit {
                return None;
            }
            for earlier in &mut numerators {
                *earlier *= &factor;
            }
            numerator = more;
        }
        numerators.push(numerator);
    }
    Some(Fractions {
        numerators,
        denominator,
    })
}

/// Gives numerator and positive denominator of the fraction with a small numerator that has this residue, by Euclid's
/// algorithm, stopped halfway.
fn fraction(residue: BigInt, modulus: &BigInt, limit: &BigInt) -> (BigInt, BigInt) {
    let mut numerators = (modulus.clone(), residue.mod_floor(modulus));
    let mut denominators = (BigInt::zero(), BigInt::one());
    while numerators.1 > *limit {
        let (quotient, rest) = numerators.0.div_rem(&numerators.1);
        numerators = (numerators.1, rest);
        let next = denominators.0 - quotient * &denominators.1;
        denominators = (denominators.1, next);
    }
    if denominators.1.sign() == Sign::Minus {
        (-numerators.1, -denominators.1)
    } else {
        (numerators.1, denominators.1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::field::GAPS;
    use super::*;

    #[test]
    fn fractions_come_back_from_their_residues() {
        let prime = Field::new(GAPS[0]).prime();
        let modulus = BigInt::from(prime).pow(4);
        let limit = BigInt::one() << ((modulus.bits() - 2) / 2);
        for (numerator, denominator) in [(1, 3), (-355, 113), (0, 1), (-7, 1), (1, i64::MAX)] {
            let (numerator, denominator) = (BigInt::from(numerator), BigInt::from(denominator));
            let inverse = denominator.modinv(&modulus).unwrap();
            let residue = (&numerator * inverse).mod_floor(&modulus);
            assert_eq!(
                fraction(residue, &modulus, &limit),
                (numerator, denominator)
            );
        }
    }
}
