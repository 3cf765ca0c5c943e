//! Tests of the functions of f64 against the oracle.

use super::oracle::{self, Exact};
use super::{assert_same, is_full, worst};
use crate::math::Math;
use rayon::prelude::*;

/// A test case: name, function, oracle, the error bound in ulps that its documentation states, and
/// the range of arguments for which the oracle is valid.
type Case = (
    &'static str,
    fn(f64) -> f64,
    fn(f64) -> Exact,
    f64,
    [f64; 2],
);

const CASES: [Case; 6] = [
    ("exp", Math::exp, oracle::exp, 0.78, [-745.2, 709.78]),
    ("ln", Math::ln, oracle::ln, 0.82, [5e-324, f64::MAX]),
    ("tanh", Math::tanh, oracle::tanh, 0.93, [-25.0, 25.0]),
    (
        "sigmoid",
        Math::sigmoid,
        oracle::sigmoid,
        1.5,
        [-745.1, 745.1],
    ),
    ("sin", Math::sin, oracle::sin, 0.9, [-1e9, 1e9]),
    ("cos", Math::cos, oracle::cos, 0.9, [-1e9, 1e9]),
];
const POW_BOUND: f64 = 0.95;

/// Returns the distance of `actual` from `exact` in ulps.
fn error_in_ulps(actual: f64, exact: Exact) -> f64 {
    let Exact { value, exponent } = exact;
    // Both numbers are compared after a division by 2^exponent, in two steps because the factor may
    // exceed the range of f64. Beyond the range, the number that follows the largest counts.
    let half = exponent / 2;
    let scaled = |x: f64| x * 2.0_f64.powi(-half) * 2.0_f64.powi(half - exponent);
    let actual = if actual.is_infinite() {
        (2.0_f64.powi(1023 - exponent) * 2.0).copysign(actual)
    } else {
        scaled(actual)
    };
    let binade = f64::from_bits(value.high.to_bits() & f64::INFINITY.to_bits());
    let ulp = (binade * f64::EPSILON).max(scaled(f64::from_bits(1)));
    ((actual - value.high) - value.low).abs() / ulp
}

/// Returns a word of random bits for each number.
fn random_word(number: u64) -> u64 {
    // The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
    let word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Returns a random number of a range: half of them uniform in value, half of them in bits, so that
/// all magnitudes occur.
fn random_in([low, high]: [f64; 2], number: u64) -> f64 {
    let word = random_word(number);
    let by_bits = f64::from_bits(word.rotate_left(11));
    if word & 1 == 0 && (low..=high).contains(&by_bits) {
        by_bits
    } else {
        let share = (word >> 11) as f64 / 9_007_199_254_740_992.0;
        low + share * (high - low)
    }
}

#[test]
fn functions_of_f64_keep_the_bounds_in_their_docs() {
    let n: u64 = if is_full() { 100_000_000 } else { 100_000 };
    for (name, function, oracle, bound, range) in CASES {
        let errors = (0..n).into_par_iter().map(|i| {
            let x = random_in(range, i);
            (error_in_ulps(function(x), oracle(x)), x)
        });
        let (error, at) = worst(errors);
        eprintln!("{name} of f64: {error:.4} ulp at {at:?}");
        assert!(error <= bound, "{name}: {error} ulp at {at:?}");
    }
}

#[test]
fn powers_of_f64_keep_the_bound_in_their_doc() {
    let n: u64 = if is_full() { 100_000_000 } else { 100_000 };
    let errors = (0..n).into_par_iter().filter_map(|i| {
        let word = random_word(!i);
        // A fourth of the bases are of any magnitude, a fourth of magnitude 1; a fourth are near 1,
        // where an error of the logarithm matters most, and a fourth near a power of 2 and √½,
        // where the reduction changes the exponent.
        let x = match word % 4 {
            0 => random_in([5e-324, f64::MAX], i),
            1 => random_in([0.1, 10.0], i),
            2 => 1.0 + random_in([-0.5, 0.5], i) * (-((word >> 2) as f64 % 53.0)).exp2(),
            _ => {
                (((word >> 2) % 64) as f64 - 32.5).exp2() * (1.0 + 0.01 * random_in([-1.0, 1.0], i))
            }
        };
        // The logarithms of the powers cover the range of f64.
        let log = random_in([-745.0, 709.7], i.wrapping_mul(3) + 1);
        let y = if word & 4 == 0 {
            log / x.ln()
        } else {
            random_in([-50.0, 50.0], !i)
        };
        let is_inside = (x > 0.0) & (-745.0..709.7).contains(&(y * x.ln()));
        is_inside.then(|| (error_in_ulps(Math::pow(x, y), oracle::pow(x, y)), (x, y)))
    });
    let (error, at) = worst(errors);
    eprintln!("pow of f64: {error:.4} ulp at {at:?}");
    assert!(error <= POW_BOUND, "pow: {error} ulp at {at:?}");
}

#[test]
fn special_values_of_f64_are_those_of_c99() {
    const INF: f64 = f64::INFINITY;
    for (name, function, expected) in [
        ("exp", Math::exp as fn(f64) -> f64, [1.0, 1.0, INF, 0.0]),
        ("exp_m1", Math::exp_m1, [0.0, -0.0, INF, -1.0]),
        ("ln", Math::ln, [-INF, -INF, INF, f64::NAN]),
        ("ln_1p", Math::ln_1p, [0.0, -0.0, INF, f64::NAN]),
        ("tanh", Math::tanh, [0.0, -0.0, 1.0, -1.0]),
        ("sigmoid", Math::sigmoid, [0.5, 0.5, 1.0, 0.0]),
        ("erf", Math::erf, [0.0, -0.0, 1.0, -1.0]),
        ("erfc", Math::erfc, [1.0, 1.0, 0.0, 2.0]),
        ("sin", Math::sin, [0.0, -0.0, f64::NAN, f64::NAN]),
        ("cos", Math::cos, [1.0, 1.0, f64::NAN, f64::NAN]),
    ] {
        for (x, expected) in [0.0, -0.0, INF, -INF].into_iter().zip(expected) {
            assert_same(function(x), expected, &format!("{name} of {x}"));
        }
        assert!(function(f64::NAN).is_nan(), "{name} of NaN");
    }
    let tiny = f64::from_bits(1);
    assert_same(Math::exp(-745.0), tiny, "exp equal to the smallest number");
    assert_same(Math::exp(-745.2), 0.0, "exp below the smallest number");
    assert_same(
        Math::ln(tiny),
        -744.4400719213812,
        "ln of the smallest number",
    );
    assert_same(Math::tanh(tiny), tiny, "tanh of the smallest number");
    assert_same(Math::sin(-tiny), -tiny, "sin of the smallest number");
    assert_same(Math::sin(1e300), 1e300_f64.sin(), "sin of a large number");
    assert_same(
        Math::pow(-2.0, 1024.0),
        INF,
        "pow beyond the largest number",
    );
    assert_same(Math::pow(-2.0, 1025.0), -INF, "pow beyond the least number");
    assert_same(
        Math::pow(-2.0, -1075.0),
        -0.0,
        "pow below the smallest number",
    );
    assert_same(
        Math::pow(-2.0, -1074.0),
        tiny,
        "pow equal to the smallest number",
    );
    assert_same(
        Math::pow(tiny, 0.5),
        2.2227587494850775e-162,
        "pow of the smallest number",
    );
    assert_same(
        Math::pow(-1.0, 9_007_199_254_740_991.0),
        -1.0,
        "an odd power of -1",
    );
    assert_same(
        Math::pow(-1.0, 9_007_199_254_740_992.0),
        1.0,
        "an even power of -1",
    );
}
