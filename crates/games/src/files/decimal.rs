//! Numbers in the notations of files: `7`, `-1/3`, `.25`, `1.5e-3`.

use super::MAX_DIGITS;
use crate::Rational;
use num_bigint::BigInt;
use num_traits::{One, Zero, pow};

/// Largest number of bits of an integer that certainly has at most [`MAX_DIGITS`] digits: 700 times
/// the binary logarithm of 10, rounded down.
const SURE_BITS: u64 = 2325;

/// A number and its notation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decimal {
    /// The number itself.
    pub(super) value: Rational,
    /// Number of decimal places: 2 in `0.25`; 0 in a fraction or an integer.
    pub(super) places: usize,
}

/// Returns whether a number is short enough to be read from a file.
pub(super) fn fits(number: &Rational) -> bool {
    let is_short = |part: &BigInt| {
        part.bits() <= SURE_BITS || part.magnitude().to_string().len() <= MAX_DIGITS
    };
    is_short(number.numer()) && is_short(number.denom())
}

/// Parses a number; returns `None` if the word is not a number or has more than [`MAX_DIGITS`]
/// digits.
pub(super) fn read(word: &str) -> Option<Decimal> {
    let exact = |value| Some(Decimal { value, places: 0 });
    if let Ok(integer) = word.parse::<i64>() {
        return exact(BigInt::from(integer).into());
    }
    let (is_negative, size) = match word.strip_prefix(['+', '-']) {
        Some(size) => (word.starts_with('-'), size),
        None => (false, word),
    };
    let signed = |digits: BigInt| if is_negative { -digits } else { digits };
    if let Some((top, bottom)) = size.split_once('/') {
        let (top, bottom) = (natural(top)?, natural(bottom)?);
        return if bottom.is_zero() {
            None
        } else {
            exact(Rational::new(signed(top), bottom))
        };
    }
    let (digits, exponent) = match size.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (size, 0),
    };
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let shift = i64::from(exponent) - i64::try_from(decimals.len()).ok()?;
    let n_zeros = usize::try_from(shift.unsigned_abs()).ok()?;
    if (whole.len() + decimals.len()).checked_add(n_zeros)? > MAX_DIGITS {
        return None;
    }
    let digits = signed(natural(&[whole, decimals].concat())?);
    if shift >= 0 {
        return exact((digits * pow(BigInt::from(10), n_zeros)).into());
    }
    Some(Decimal {
        value: shifted(digits, n_zeros),
        places: n_zeros,
    })
}

/// Divides an integer by a power of ten.
///
/// Only the factors 2 and 5 can be common, so no general greatest common divisor is needed.
fn shifted(mut digits: BigInt, places: usize) -> Rational {
    let Some(n_zero_bits) = digits.trailing_zeros() else {
        return Rational::zero();
    };
    let twos = usize::try_from(n_zero_bits).map_or(places, |bits| bits.min(places));
    digits >>= twos;
    let mut fives = 0;
    while fives < places && (&digits % 5_u32).is_zero() {
        digits /= 5_u32;
        fives += 1;
    }
    Rational::new_raw(
        digits,
        pow(BigInt::from(5), places - fives) << (places - twos),
    )
}

/// Returns `10^-places`, one unit of the last decimal place.
pub(super) fn unit(places: usize) -> Rational {
    Rational::new_raw(BigInt::one(), pow(BigInt::from(10), places))
}

/// Parses a text that consists of digits only.
fn natural(digits: &str) -> Option<BigInt> {
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    if digits.len() > MAX_DIGITS || !are_digits {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_they_say() {
        let cases: [(&str, i64, i64, usize); 12] = [
            ("7", 7, 1, 0),
            ("+7", 7, 1, 0),
            ("-007", -7, 1, 0),
            ("-6/4", -3, 2, 0),
            (".25", 1, 4, 2),
            ("-2.", -2, 1, 0),
            ("1.50", 3, 2, 2),
            ("15e-1", 3, 2, 1),
            ("1.5E+1", 15, 1, 0),
            ("-0.0", 0, 1, 1),
            ("-3.20", -16, 5, 2),
            ("1250e-4", 1, 8, 4),
        ];
        for (word, top, bottom, places) in cases {
            let value = Rational::new(top.into(), bottom.into());
            assert_eq!(read(word), Some(Decimal { value, places }), "{word}");
        }
        let long = read("9223372036854775808/3").unwrap().value;
        assert_eq!(long.to_string(), "9223372036854775808/3");
    }

    #[test]
    fn what_is_no_number_is_rejected() {
        for word in [
            "", "-", ".", "e5", "1e", "1e+", "1/0", "1/-2", "1/", "/2", "1/2/3", ".5/2", "--1",
            "+-1", "1_0", "0x1", "nan", "inf", "1.2.3", "1e1.5", "½",
        ] {
            assert_eq!(read(word), None, "{word}");
        }
    }

    #[test]
    fn numbers_have_seven_hundred_digits_at_most() {
        for (just, more) in [
            ("1e699", "1e700"),
            ("1e-699", "1e-700"),
            ("10e-698", "10e-699"),
            ("1e699", "1e999999999"),
            ("1e-699", "-1e-2147483648"),
            ("0", "0e99999999999999999999"),
        ] {
            assert!(
                read(just).is_some_and(|number| fits(&number.value)),
                "{just}"
            );
            assert_eq!(read(more), None, "{more}");
        }
        let (just, more) = ("9".repeat(MAX_DIGITS), "9".repeat(MAX_DIGITS + 1));
        for just in [just.clone(), format!("1/{just}")] {
            let number = read(&just).unwrap().value;
            assert!(fits(&number) && fits(&-&number));
            assert!(!fits(&(number + Rational::one())));
        }
        for more in [
            more.clone(),
            format!("0.{more}"),
            format!("1/{more}"),
            format!("{more}/1"),
        ] {
            assert_eq!(read(&more), None);
        }
    }
}
