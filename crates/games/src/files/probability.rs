//! Probabilities of chance that sum to exactly 1, recovered from rounded numbers.

use super::decimal::{self, Decimal};
use crate::extensive::Count;
use crate::number::words_of_sum;
use crate::{Error, Rational};
use num_bigint::BigInt;
use num_traits::{One, Signed, Zero};

/// Smallest number of decimal places of a number that was rounded when it was written; numbers with
/// fewer places are taken as exact.
const ROUNDED_PLACES: usize = 9;

/// Bits of a double's precision: conversion to a double changes a number by a relative 2^-52 or
/// less.
const DOUBLE_BITS: u32 = 52;

/// The reason why there are no probabilities.
#[derive(Debug, PartialEq)]
pub(super) enum MendError {
    /// The numbers are no probabilities; the text describes them.
    NoProbabilities(String),
    /// The counter of the work returned this error.
    Halted(Error),
}

impl From<Error> for MendError {
    fn from(halt: Error) -> Self {
        Self::Halted(halt)
    }
}

/// Returns the intended probabilities, which sum to exactly 1. The work is reported to `count`.
///
/// # Errors
/// A description of the numbers, if their sum differs from 1 by more than 1e-9 or if a fraction
/// becomes too long; an error of `count`.
pub(super) fn mend(written: &[Decimal], count: &Count<'_>) -> Result<Vec<Rational>, MendError> {
    let total = sum(written.iter().map(|number| &number.value), count)?;
    let miss = (&total - Rational::one()).abs();
    if miss.is_zero() {
        return Ok(written.iter().map(|number| number.value.clone()).collect());
    }
    if miss > decimal::unit(ROUNDED_PLACES) {
        let found = format!("a sum of {}", crate::number::nearest(&total));
        return Err(MendError::NoProbabilities(found));
    }
    let meant = written.iter().map(|number| meant(number, count));
    let meant = meant.collect::<Result<Vec<Rational>, Error>>()?;
    match sum(meant.iter(), count) {
        Ok(total) if total.is_one() => return Ok(meant),
        Err(MendError::Halted(halt)) => return Err(halt.into()),
        // The fractions do not fit the numbers, or their sum is too long.
        Ok(_) | Err(MendError::NoProbabilities(_)) => {}
    }
    let share = |number: &Decimal| {
        count(words_of_sum(&number.value, &total))?;
        Ok(&number.value / &total)
    };
    let shares = written.iter().map(share);
    let shares = shares.collect::<Result<Vec<Rational>, Error>>()?;
    if shares.iter().all(decimal::fits) {
        Ok(shares)
    } else {
        Err(too_long())
    }
}

fn sum<'a>(
    mut numbers: impl Iterator<Item = &'a Rational>,
    count: &Count<'_>,
) -> Result<Rational, MendError> {
    // Sums of unlimited length would make the time quadratic in the length of the text.
    let add = |total: Rational, number: &Rational| {
        count(words_of_sum(&total, number))?;
        let total = Some(total + number).filter(decimal::fits);
        total.ok_or_else(too_long)
    };
    numbers.try_fold(Rational::zero(), add)
}

fn too_long() -> MendError {
    let found = format!("fractions of more than {} digits", super::MAX_DIGITS);
    MendError::NoProbabilities(found)
}

/// Returns the simplest fraction that rounds to a number.
fn meant(written: &Decimal, count: &Count<'_>) -> Result<Rational, Error> {
    let value = &written.value;
    if written.places < ROUNDED_PLACES || !value.is_positive() {
        return Ok(value.clone());
    }
    let in_double = value / BigInt::from(1_u64 << DOUBLE_BITS);
    let tolerance = decimal::unit(written.places).max(in_double);
    let low = (value - &tolerance).max(Rational::zero());
    simplest_between(low, value + tolerance, count)
}

/// Returns the fraction with the least denominator strictly between two nonnegative fractions; if
/// several qualify, the least such fraction.
///
/// The continued fractions of both ends agree in their first terms. The result has the same first
/// terms, and as its last term the least integer strictly between the remainders of both ends.
fn simplest_between(
    mut low: Rational,
    high: Rational,
    count: &Count<'_>,
) -> Result<Rational, Error> {
    let mut high = Some(high);
    let mut shared = vec![];
    let last = loop {
        count(words_of_sum(&low, &low))?;
        let whole = low.floor();
        let next = &whole + BigInt::one();
        let Some(bound) = high.filter(|high| next >= *high) else {
            break next;
        };
        let rest = &low - &whole;
        low = (bound - &whole).recip();
        // The reciprocal is unbounded if the interval extends to 0.
        high = Some(rest)
            .filter(|rest| !rest.is_zero())
            .map(|rest| rest.recip());
        shared.push(whole);
    };
    let attach = |tail: Rational, whole: Rational| {
        count(words_of_sum(&tail, &whole))?;
        Ok(whole + tail.recip())
    };
    shared.into_iter().rev().try_fold(last, attach)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNLIMITED: &Count<'static> = &|_| Ok(());

    fn mended(written: &[&str]) -> Result<Vec<String>, MendError> {
        let read = |word: &&str| decimal::read(word).unwrap();
        let written: Vec<Decimal> = written.iter().map(read).collect();
        let chances = mend(&written, UNLIMITED)?;
        assert!(chances.iter().sum::<Rational>().is_one());
        Ok(chances.iter().map(Rational::to_string).collect())
    }

    #[test]
    fn no_fraction_between_two_is_simpler_than_the_simplest() {
        let fraction = |top: i64, bottom: i64| Rational::new(top.into(), bottom.into());
        let all = || (1..=12).flat_map(|bottom| (0..=2 * bottom).map(move |top| (top, bottom)));
        for (low, high) in all().flat_map(|low| all().map(move |high| (low, high))) {
            let (low, high) = (fraction(low.0, low.1), fraction(high.0, high.1));
            if low >= high {
                continue;
            }
            // Between two fractions with denominators up to 12 there is one with a denominator up
            // to 24.
            let inside = |bottom| {
                (0..)
                    .map(move |top| fraction(top, bottom))
                    .find(|it| *it > low)
            };
            let least = (1..=24).filter_map(inside).find(|it| *it < high);
            let simplest = simplest_between(low.clone(), high, UNLIMITED);
            assert_eq!(simplest.ok(), least);
        }
    }

    #[test]
    fn rounded_thirds_sixths_and_sevenths_are_mended() {
        assert_eq!(mended(&["0.3333333333333333"; 3]).unwrap(), ["1/3"; 3]);
        assert_eq!(mended(&["0.1666666666666667"; 6]).unwrap(), ["1/6"; 6]);
        assert_eq!(mended(&["0.14285714285714285"; 7]).unwrap(), ["1/7"; 7]);
        assert_eq!(
            mended(&["0.5", "1.6666666666666666e-1", "0.333333333"]).unwrap(),
            ["1/2", "1/6", "1/3"]
        );
        assert_eq!(
            mended(&["3.333333333333333e-01", "6.666666666666666e-01"]).unwrap(),
            ["1/3", "2/3"]
        );
    }

    #[test]
    fn doubles_are_mended_whatever_their_size() {
        // The doubles nearest to n in 132600, the deals of three cards, with 17 digits that matter.
        let n_deals = 52 * 51 * 50;
        let mut n_mended = 0;
        for n in 1..200 {
            let counts = [n, 7 * n, n_deals - 8 * n];
            let written =
                counts.map(|count| format!("{:.16e}", f64::from(count) / f64::from(n_deals)));
            let exact = written
                .each_ref()
                .map(|word| decimal::read(word).unwrap().value);
            if exact.iter().sum::<Rational>().is_one() {
                continue;
            }
            let meant = counts.map(|count| Rational::new(count.into(), n_deals.into()).to_string());
            assert_eq!(
                mended(&written.each_ref().map(String::as_str)).unwrap(),
                meant
            );
            n_mended += 1;
        }
        assert!(n_mended > 100, "{n_mended}");
    }

    #[test]
    fn chances_that_sum_to_one_stay_as_they_are() {
        assert_eq!(
            mended(&["0.3333333333333333", "0.6666666666666667"]).unwrap(),
            [
                "3333333333333333/10000000000000000",
                "6666666666666667/10000000000000000"
            ]
        );
        assert_eq!(
            mended(&["1/3", "0.25", "5/12"]).unwrap(),
            ["1/3", "1/4", "5/12"]
        );
        assert_eq!(mended(&["0", "1"]).unwrap(), ["0", "1"]);
    }

    #[test]
    fn chances_that_fit_no_fractions_are_divided_by_their_sum() {
        assert_eq!(
            mended(&["0.7000001", "0.2999998995"]).unwrap(),
            ["1400000200/1999999999", "599999799/1999999999"]
        );
        let tiny = mended(&["1e-12", "0.9999999999"]).unwrap();
        assert_eq!(tiny, ["1/999999999901", "999999999900/999999999901"]);
    }

    #[test]
    fn many_chances_need_no_common_fraction() {
        let sizes: Vec<f64> = (1..=300).map(|at| f64::from(at).sqrt()).collect();
        let total: f64 = sizes.iter().sum();
        let written: Vec<String> = sizes
            .iter()
            .map(|size| format!("{:.11}", size / total))
            .collect();
        let written: Vec<&str> = written.iter().map(String::as_str).collect();
        let first = mended(&written).unwrap().swap_remove(0);
        assert_eq!(first, "28797229/99999999999");
    }

    #[test]
    fn sums_far_from_one_are_rejected() {
        let found = |text: &str| Err(MendError::NoProbabilities(text.into()));
        assert_eq!(mended(&["0.333"; 3]), found("a sum of 0.999"));
        assert_eq!(
            mended(&["0.5", "0.500000002"]),
            found("a sum of 1.000000002")
        );
        let primes = [101, 103, 107, 109].map(|base| format!("1/{}", BigInt::from(base).pow(100)));
        let long = mended(&primes.each_ref().map(String::as_str));
        assert_eq!(long, found("fractions of more than 700 digits"));
    }
}
