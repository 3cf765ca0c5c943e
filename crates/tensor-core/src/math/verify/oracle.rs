//! Elementary functions in the precision of two floats, the oracle of the functions of f64.
//!
//! Method: Taylor series and Newton's method on sums of two f64, the plainest way. About 96 bits of
//! a result are valid; a test compares some results with 32 digits from another source.
//! Source: Dekker 1971, "A floating-point technique for extending the available precision",
//! Numerische Mathematik 18.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number as the sum of two floats, of which the second is at most half a unit in the last place
/// of the first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) high: f64,
    pub(super) low: f64,
}

/// Returns the exact sum of two floats (Knuth 1969).
fn sum(a: f64, b: f64) -> Pair {
    let high = a + b;
    let of_b = high - a;
    let low = (a - (high - of_b)) + (b - of_b);
    Pair { high, low }
}

impl From<f64> for Pair {
    fn from(high: f64) -> Self {
        Self { high, low: 0.0 }
    }
}

impl Add for Pair {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (high, low) = (sum(self.high, other.high), sum(self.low, other.low));
        let part = sum(high.high, high.low + low.high);
        sum(part.high, part.low + low.low)
    }
}

impl Neg for Pair {
    type Output = Self;

    fn neg(self) -> Self {
        Self {
            high: -self.high,
            low: -self.low,
        }
    }
}

impl Sub for Pair {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Pair {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let high = self.high * other.high;
        let low = self.high.mul_add(other.high, -high);
        sum(high, low + (self.high * other.low + self.low * other.high))
    }
}

impl Div for Pair {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let first = Self::from(self.high / other.high);
        let second = (self - first * other).high / other.high;
        let rest = self - first * other - other * Self::from(second);
        first + Self::from(second) + Self::from(rest.high / other.high)
    }
}

/// A number `value 2^exponent`, whose `value` neither overflows nor loses bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exact {
    pub(super) value: Pair,
    pub(super) exponent: i32,
}

impl From<Pair> for Exact {
    fn from(value: Pair) -> Self {
        Self { value, exponent: 0 }
    }
}

/// The magnitude below which a function with slope 1 at 0 is `x`, up to a relative error of 2^-200.
/// Smaller numbers would lose bits in the second float of a sum.
const TINY: f64 = 1e-30;
const LN_2: Pair = Pair {
    high: std::f64::consts::LN_2,
    low: 2.3190468138462996e-17,
};
/// The bits of π/2.
const HALF_PI: [f64; 4] = [
    std::f64::consts::FRAC_PI_2,
    6.123233995736766e-17,
    -1.4973849048591698e-33,
    5.562271104311117e-50,
];

/// Returns the whole number n next to `x / ln 2`, and `e^(x − n ln 2) − 1`.
fn exp_parts(x: Pair) -> (f64, Pair) {
    /// The number of doublings, and the factor that they amount to.
    const DOUBLINGS: i32 = 8;
    let n = (x.high / LN_2.high).round_ties_even();
    let r = (x - LN_2 * n.into()) * 0.5_f64.powi(DOUBLINGS).into();
    // e^r − 1 = r (1 + r/2 (1 + r/3 (…)))
    let one = Pair::from(1.0);
    let series = (2..16)
        .rev()
        .fold(one, |sum, i| one + r * sum / f64::from(i).into());
    let mut excess = r * series;
    for _ in 0..DOUBLINGS {
        excess = excess * (excess + 2.0.into());
    }
    (n, excess)
}

/// Returns e to the power of a number.
#[expect(clippy::cast_possible_truncation, reason = "whole numbers up to 1100")]
fn exp_of_pair(x: Pair) -> Exact {
    let (n, excess) = exp_parts(x);
    Exact {
        value: excess + 1.0.into(),
        exponent: n as i32,
    }
}

/// Returns e to the power of `x`, for |x| up to 750.
pub(super) fn exp(x: f64) -> Exact {
    exp_of_pair(x.into())
}

/// Returns e to the power of a number, less 1, where the power does not overflow.
fn exp_m1_of_pair(x: Pair) -> Pair {
    let (n, excess) = exp_parts(x);
    let scale = n.exp2();
    excess * scale.into() + Pair::from(scale) - 1.0.into()
}

/// Returns the natural logarithm of a positive finite number.
fn ln_pair(x: f64) -> Pair {
    // x = 2^k m with m between 0.75 and 1.5.
    let (x, lifted) = if x.is_subnormal() {
        (x * 64.0_f64.exp2(), 64.0)
    } else {
        (x, 0.0)
    };
    let k = f64::from((x.to_bits() >> 52) as u32) - 1023.0;
    let m = f64::from_bits((x.to_bits() & ((1 << 52) - 1)) | 1.0_f64.to_bits());
    let (k, m) = if m > 1.5 { (k + 1.0, 0.5 * m) } else { (k, m) };
    // A step of Halley's method for e^y = m, from a start with an error of 2^-53.
    let y = Pair::from(m.ln());
    let power = exp_m1_of_pair(y);
    let m_less_1 = Pair::from(m - 1.0);
    let step = (m_less_1 - power) / (m_less_1 + power + 2.0.into());
    y + step + step + LN_2 * (k - lifted).into()
}

/// Returns the natural logarithm of a positive finite number.
pub(super) fn ln(x: f64) -> Exact {
    ln_pair(x).into()
}

/// Returns `x` to the power of `y`, for a positive finite `x` and a power within the range of f64.
pub(super) fn pow(x: f64, y: f64) -> Exact {
    exp_of_pair(ln_pair(x) * y.into())
}

/// Returns the hyperbolic tangent of `x`, for |x| up to 300.
pub(super) fn tanh(x: f64) -> Exact {
    if x.abs() < TINY {
        return Pair::from(x).into();
    }
    let e = exp_m1_of_pair((2.0 * x).into());
    (e / (e + 2.0.into())).into()
}

/// Returns the logistic function of `x`, for |x| up to 745.
pub(super) fn sigmoid(x: f64) -> Exact {
    let one = Pair::from(1.0);
    let Exact { value, exponent } = exp(-x.abs());
    // Below 2^-200 the power is negligible next to 1.
    let power = value * f64::from(exponent.max(-200)).exp2().into();
    if x < 0.0 {
        Exact {
            value: value / (one + power),
            exponent,
        }
    } else {
        (one / (one + power)).into()
    }
}

/// Returns the sine of `x`, for |x| up to 2^30.
pub(super) fn sin(x: f64) -> Exact {
    if x.abs() < TINY {
        return Pair::from(x).into();
    }
    sin_ahead(x, 0.0)
}

/// Returns the cosine of `x`, for |x| up to 2^30.
pub(super) fn cos(x: f64) -> Exact {
    sin_ahead(x, 1.0)
}

/// Returns the sine of `x + lead π/2`.
fn sin_ahead(x: f64, lead: f64) -> Exact {
    let n = (x / HALF_PI[0]).round();
    let part = |bits: f64| Pair::from(bits) * Pair::from(-n);
    let r = HALF_PI
        .into_iter()
        .fold(Pair::from(x), |rest, bits| rest + part(bits));
    // sin r = r (1 − r²/2·3 (1 − r²/4·5 (…))), and cos r = 1 − r²/1·2 (1 − r²/3·4 (…))
    let (one, square) = (Pair::from(1.0), r * r);
    let series = |first: u32| {
        let terms = (0..16)
            .rev()
            .map(|i| f64::from((first + 2 * i) * (first + 2 * i + 1)));
        terms.fold(one, |sum, divisor| one - square * sum / divisor.into())
    };
    let quarters = (n + lead).rem_euclid(4.0);
    let size = if quarters % 2.0 == 0.0 {
        r * series(2)
    } else {
        series(1)
    };
    (if quarters < 2.0 { size } else { -size }).into()
}

#[test]
fn the_oracle_has_the_digits_of_another_source() {
    // Sums of two floats, computed with mpmath in 60 digits.
    for (name, actual, high, low) in [
        (
            "exp(1)",
            exp(1.0),
            std::f64::consts::E,
            1.4456468917292502e-16,
        ),
        (
            "ln(1 + 2^-40)",
            ln(1.0 + (-40.0_f64).exp2()),
            9.094947017725146e-13,
            2.5077212817525026e-37,
        ),
        (
            "ln(10)",
            ln(10.0),
            std::f64::consts::LN_10,
            -2.1707562233822494e-16,
        ),
        (
            "tanh(0.001)",
            tanh(0.001),
            0.0009999996666668,
            1.7800613799166557e-20,
        ),
        (
            "tanh(0.75)",
            tanh(0.75),
            0.6351489523872873,
            1.7012977006564836e-17,
        ),
        (
            "sin(1e6)",
            sin(1e6),
            -0.34999350217129294,
            -1.5952848809323968e-17,
        ),
        (
            "sin(355)",
            sin(355.0),
            -3.014435335948845e-05,
            1.3012643991046347e-21,
        ),
        (
            "cos(2)",
            cos(2.0),
            -0.4161468365471424,
            1.990596398957495e-17,
        ),
        (
            "1.5^-100.25",
            pow(1.5, -100.25),
            2.2225486680453577e-18,
            5.003936737765078e-35,
        ),
    ] {
        let scale = f64::from(actual.exponent).exp2();
        let error = actual.value * scale.into() - Pair { high, low };
        assert!((error.high / high).abs() < 1e-28, "{name}: {error:?}");
    }
}
