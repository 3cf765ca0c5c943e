//! Tests of the functions of f32 against the functions of f64 in the standard library.
//!
//! Method: f64 has 29 more bits, so its own error of about one ulp is negligible. By default a
//! sample of the arguments is tested; with `VERIFY_FULL=1` all 2^32 (and more pairs of `pow`),
//! which takes about a quarter of an hour on two cores. The functions are computed in loops for the
//! widest instructions; another test compares their bits with those of single elements.

use super::{Chunks, Math};
use rayon::prelude::*;
use std::f32::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, PI};

mod double;
mod oracle;

/// A test case: name, function, reference, and the error bound in ulps that its documentation
/// states.
pub(crate) type Case = (&'static str, fn(f32) -> f32, fn(f64) -> f64, f64);

pub(crate) const CASES: [Case; 10] = [
    ("exp", Math::exp, f64::exp, 1.02),
    ("exp_m1", Math::exp_m1, f64::exp_m1, 0.505),
    ("ln", Math::ln, f64::ln, 0.92),
    ("ln_1p", Math::ln_1p, f64::ln_1p, 0.501),
    ("tanh", Math::tanh, f64::tanh, 0.93),
    ("sigmoid", Math::sigmoid, <f64 as Math>::sigmoid, 1.66),
    ("erf", Math::erf, <f64 as Math>::erf, 1.15),
    ("erfc", Math::erfc, <f64 as Math>::erfc, 0.502),
    ("sin", Math::sin, f64::sin, 0.88),
    ("cos", Math::cos, f64::cos, 0.88),
];
const POW_BOUND: f64 = 0.8;

/// Arguments at which a reduction switches or results leave their range, and (in the last row) the
/// arguments with the largest errors among all 2^32. The sample includes every number around these
/// arguments and their negatives.
#[rustfmt::skip]
const TURNING_POINTS: [f32; 36] = [
    0.0, f32::MIN_POSITIVE, 1.0 / 16_777_216.0, 0.5, 0.6875, 1.0, 1.375, 2.0, f32::INFINITY,
    LN_2 / 2.0, 9.0, 9.194, 10.0, 10.0538, 87.33655, 88.72284, 103.97208,
    FRAC_PI_4, FRAC_PI_2, PI, 3.0 * FRAC_PI_2, 131_072.0, FROM, FROM * STEP, FROM * STEP * STEP,
    27.377993, 5.858424, 1.1205679, 1.2724477, 0.90612465, 0.031193217, 4007.9246, 121.6863,
    3.3797116e-6, 6.367763, 1.0596036,
];
/// The magnitude at which the reduction of sine and cosine first skips a group of bits of 1/π.
const FROM: f32 = 1_125_899_906_842_624.0;
/// The factor to the next magnitude at which the reduction skips a group.
const STEP: f32 = 67_108_864.0;
/// The number of arguments that are compared on each side of such a magnitude.
const NEIGHBOURS: u32 = 2000;

fn is_full() -> bool {
    std::env::var_os("VERIFY_FULL").is_some_and(|value| value == "1")
}

/// Returns every `stride`-th number, in the order of the bit patterns, in blocks.
fn strided(stride: u32) -> impl ParallelIterator<Item = Vec<f32>> {
    /// The number of elements of a block.
    const BLOCK: u32 = 4096;
    let last = u32::MAX / stride;
    (0..=last / BLOCK).into_par_iter().map(move |block| {
        let first = block * BLOCK;
        let numbers = first..=last.min(first + (BLOCK - 1));
        numbers.map(|i| f32::from_bits(i * stride)).collect()
    })
}

/// Returns the numbers around each turning point and around its negative.
fn neighbours() -> impl ParallelIterator<Item = Vec<f32>> {
    TURNING_POINTS
        .par_iter()
        .flat_map_iter(|point| [*point, -point])
        .map(|point| neighbours_of(point).collect())
}

/// Returns the numbers around a number.
fn neighbours_of(point: f32) -> impl Iterator<Item = f32> {
    let first = point.to_bits().wrapping_sub(NEIGHBOURS);
    (0..2 * NEIGHBOURS).map(move |i| f32::from_bits(first.wrapping_add(i)))
}

/// Returns the distance of `actual` from `exact` in ulps; infinite if exactly one of them is NaN or
/// a zero has the wrong sign.
fn error_in_ulps(actual: f32, exact: f64) -> f64 {
    /// The number that would follow the largest f32, 2^128.
    const END: f64 = 2.0 * (1_u128 << 127) as f64;
    if actual.is_nan() && exact.is_nan() {
        return 0.0;
    }
    let wrong_sign = actual == 0.0 && actual.is_sign_negative() != exact.is_sign_negative();
    if actual.is_nan() || exact.is_nan() || wrong_sign {
        return f64::INFINITY;
    }
    let (actual, exact) = (f64::from(actual).clamp(-END, END), exact.clamp(-END, END));
    let binade = f64::from_bits(exact.to_bits() & f64::INFINITY.to_bits());
    let ulp = f64::from(f32::EPSILON) * binade.clamp(f32::MIN_POSITIVE.into(), END / 2.0);
    (actual - exact).abs() / ulp
}

/// Returns the largest error in ulps, and the argument where it occurs.
fn worst<A: Send>(errors: impl ParallelIterator<Item = (f64, A)>) -> (f64, Option<A>) {
    errors
        .map(|(error, x)| (error, Some(x)))
        .reduce(|| (0.0, None), |a, b| if b.0 > a.0 { b } else { a })
}

/// Computes a function of [`CASES`] in a loop for the widest instructions.
fn computed(name: &str, x: &[f32]) -> Vec<f32> {
    let mut results = vec![0.0; x.len()];
    pulp::Arch::new().dispatch(ByName(name, x, &mut results));
    results
}

#[test]
fn functions_of_f32_keep_the_bounds_in_their_docs() {
    let stride = if is_full() { 1 } else { 4099 };
    for (name, _, exact, bound) in CASES {
        let blocks = strided(stride).chain(neighbours());
        let (error, at) = worst(blocks.flat_map_iter(|block| {
            let pairs = computed(name, &block).into_iter().zip(block);
            pairs.map(|(result, x)| (error_in_ulps(result, exact(x.into())), x))
        }));
        eprintln!("{name}: {error:.4} ulp at {at:?}");
        assert!(error <= bound, "{name}: {error} ulp at {at:?}");
    }
}

#[test]
fn powers_of_f32_keep_the_bound_in_their_doc() {
    let (bases, exponents) = if is_full() {
        (4099, 4_000_037)
    } else {
        (500_009, 40_000_003)
    };
    // With exponents from the whole range of f32, most powers are 1, 0 or infinite. These small
    // exponents cover the values between.
    let small = (-40..=40).flat_map(|i| [i as f32 / 4.0, i as f32 / 7.0, i as f32 * 3.3]);
    let exponents: Vec<f32> = strided(exponents)
        .flatten_iter()
        .chain(small.par_bridge())
        .collect();
    // These exponents are chosen for each base, so that the logarithms of the powers cover the
    // range of f32.
    let logs = (-27..=23).map(|i| i as f32 * 3.86);
    let chosen = |x: f32| logs.clone().map(move |log| log / x.abs().ln());
    // Around 1, large exponents yield such powers, and an error of the logarithm matters most.
    let near_one = neighbours_of(1.0).chain(neighbours_of(std::f32::consts::SQRT_2));
    let bases = strided(bases).chain(rayon::iter::once(near_one.collect()));
    let (error, at) = worst(bases.flatten_iter().flat_map_iter(|x| {
        let exponents: Vec<f32> = exponents.iter().copied().chain(chosen(x)).collect();
        let powers = computed_powers(&vec![x; exponents.len()], &exponents);
        let pairs = exponents.into_iter().zip(powers);
        pairs.map(move |(y, power)| {
            let exact = f64::from(x).powf(y.into());
            (error_in_ulps(power, exact), (x, y))
        })
    }));
    eprintln!("pow: {error:.4} ulp at {at:?}");
    assert!(error <= POW_BOUND, "pow: {error} ulp at {at:?}");
}

/// Computes powers in chunks of lanes for the widest instructions.
fn computed_powers(x: &[f32], y: &[f32]) -> Vec<f32> {
    let mut powers = vec![0.0; x.len()];
    pulp::Arch::new().dispatch(Powers(x, y, &mut powers));
    powers
}

/// Bases, exponents and powers.
struct Powers<'a>(&'a [f32], &'a [f32], &'a mut [f32]);

impl pulp::NullaryFnOnce for Powers<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self(x, y, powers) = self;
        let ((x, x_rest), (y, y_rest)) = (x.as_chunks(), y.as_chunks());
        let (whole, rest) = powers.as_chunks_mut();
        for ((x, y), powers) in x.iter().zip(y).zip(whole) {
            f32::pow_chunk(x, y, powers);
        }
        for ((x, y), power) in x_rest.iter().zip(y_rest).zip(rest) {
            *power = Math::pow(*x, *y);
        }
    }
}

#[test]
fn powers_do_not_depend_on_their_chunk() {
    // One of 61 lanes has a rare argument, so there are chunks with and without.
    let numbers: Vec<f32> = strided(5_003).flatten_iter().collect();
    let usual = |x: f32| x.abs().clamp(1e-30, 1e30);
    let x: Vec<f32> = numbers
        .iter()
        .enumerate()
        .map(|(i, &x)| if i % 61 == 0 { x } else { usual(x) })
        .collect();
    let y: Vec<f32> = numbers.iter().rev().map(|y| y % 50.0).collect();
    for ((x, y), power) in x.iter().zip(&y).zip(computed_powers(&x, &y)) {
        assert_same(
            power,
            Math::pow(*x, *y),
            &format!("{x} to the power of {y}"),
        );
    }
}

#[test]
fn special_values_are_those_of_c99() {
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    for (name, function, expected) in [
        ("exp", Math::exp as fn(f32) -> f32, [1.0, 1.0, INF, 0.0]),
        ("exp_m1", Math::exp_m1, [0.0, -0.0, INF, -1.0]),
        ("ln", Math::ln, [-INF, -INF, INF, NAN]),
        ("ln_1p", Math::ln_1p, [0.0, -0.0, INF, NAN]),
        ("tanh", Math::tanh, [0.0, -0.0, 1.0, -1.0]),
        ("sigmoid", Math::sigmoid, [0.5, 0.5, 1.0, 0.0]),
        ("erf", Math::erf, [0.0, -0.0, 1.0, -1.0]),
        ("erfc", Math::erfc, [1.0, 1.0, 0.0, 2.0]),
        ("sin", Math::sin, [0.0, -0.0, NAN, NAN]),
        ("cos", Math::cos, [1.0, 1.0, NAN, NAN]),
    ] {
        for (x, expected) in [0.0, -0.0, INF, -INF].into_iter().zip(expected) {
            assert_same(function(x), expected, &format!("{name} of {x}"));
        }
        assert!(
            function(NAN).is_nan() && function(-NAN).is_nan(),
            "{name} of NaN"
        );
    }
    let (tiny, vanishing) = (f32::from_bits(1), -104.0_f32);
    assert_same(
        Math::exp(-103.5_f32),
        tiny,
        "exp equal to the smallest number",
    );
    assert_same(Math::exp(vanishing), 0.0, "exp below the smallest number");
    assert_same(
        Math::sigmoid(-103.5_f32),
        tiny,
        "sigmoid equal to the smallest number",
    );
    assert_same(Math::ln(tiny), -103.27893, "ln of the smallest number");
    assert_same(Math::ln_1p(-1.0_f32), -INF, "ln_1p of -1");
    assert_same(Math::sin(tiny), tiny, "sin of the smallest number");
    assert_same(Math::erf(tiny), tiny, "erf of the smallest number");
    assert_same(
        Math::erfc(10.05_f32),
        tiny,
        "erfc equal to the smallest number",
    );
}

#[test]
fn special_powers_are_those_of_c99() {
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    // C99, F.9.4.4, row by row, with one case for each sign and parity.
    for (x, y, expected) in [
        (0.0, -3.0, INF),
        (-0.0, -3.0, -INF),
        (0.0, -2.0, INF),
        (-0.0, -2.0, INF),
        (-0.0, -2.5, INF),
        (0.0, -INF, INF),
        (-0.0, -INF, INF),
        (0.0, 3.0, 0.0),
        (-0.0, 3.0, -0.0),
        (0.0, 2.0, 0.0),
        (-0.0, 2.0, 0.0),
        (-0.0, 2.5, 0.0),
        (-1.0, INF, 1.0),
        (-1.0, -INF, 1.0),
        (1.0, INF, 1.0),
        (1.0, NAN, 1.0),
        (1.0, -7.5, 1.0),
        (INF, 0.0, 1.0),
        (NAN, 0.0, 1.0),
        (NAN, -0.0, 1.0),
        (-NAN, 0.0, 1.0),
        (-INF, -0.0, 1.0),
        (-8.0, 0.5, NAN),
        (-0.5, -1.5, NAN),
        (-8.0, 3.0, -512.0),
        (-8.0, -1.0, -0.125),
        (-8.0, 2.0, 64.0),
        (0.5, -INF, INF),
        (-0.5, -INF, INF),
        (2.0, -INF, 0.0),
        (-2.0, -INF, 0.0),
        (0.5, INF, 0.0),
        (-0.5, INF, 0.0),
        (2.0, INF, INF),
        (-2.0, INF, INF),
        (-INF, -3.0, -0.0),
        (-INF, -2.0, 0.0),
        (-INF, -2.5, 0.0),
        (-INF, 3.0, -INF),
        (-INF, 2.0, INF),
        (-INF, 2.5, INF),
        (INF, -0.5, 0.0),
        (INF, 0.5, INF),
        (NAN, 2.0, NAN),
        (2.0, NAN, NAN),
        (-1.0, NAN, NAN),
        (-2.0, NAN, NAN),
        (0.0, NAN, NAN),
        (-1.0, 16_777_215.0, -1.0),
        (-1.0, 16_777_216.0, 1.0),
        (-1.0, f32::MAX, 1.0),
        (-1.0, 8_388_607.5, NAN),
        (-2.0, 127.0, -1.701_411_8e38),
        (-2.0, 129.0, -INF),
        (-2.0, -149.0, -f32::from_bits(1)),
    ] {
        let name = format!("{x} to the power of {y}");
        assert_same(Math::pow(x, y), expected, &name);
        // The bounds of f64 are wider: -2^129 is a number.
        if (x, y) != (-2.0, 129.0) {
            let (x, y) = (f64::from(x), f64::from(y));
            assert_same(Math::pow(x, y), expected.into(), &format!("{name} in f64"));
        }
    }
}

/// Asserts that two numbers have the same bits, or that both are NaN.
fn assert_same<T: Into<f64>>(actual: T, expected: T, what: &str) {
    let (actual, expected): (f64, f64) = (actual.into(), expected.into());
    let same = actual.to_bits() == expected.to_bits() || (actual.is_nan() && expected.is_nan());
    assert!(same, "{what}: {actual}, expected {expected}");
}

#[test]
fn a_loop_for_the_widest_instructions_gives_the_same_bits() {
    let inputs: Vec<f32> = strided(65_537).flatten_iter().collect();
    for (name, function, ..) in CASES {
        for (x, actual) in inputs.iter().zip(computed(name, &inputs)) {
            assert_same(actual, function(*x), &format!("{name} of {x}"));
        }
    }
}

/// A function's name, its inputs and its outputs. A struct instead of a closure: a function that is
/// called through a pointer, as in `CASES`, or in a closure that the compiler does not inline, runs
/// without the instructions for which it was dispatched.
struct ByName<'a>(&'a str, &'a [f32], &'a mut [f32]);

impl pulp::NullaryFnOnce for ByName<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self(name, inputs, outputs) = self;
        /// Runs the loop over a function of [`Math`]. `for` is inlined around a function of any
        /// length, `for_each` is not.
        macro_rules! each {
            ($function:ident) => {
                for (y, x) in outputs.iter_mut().zip(inputs) {
                    *y = Math::$function(*x);
                }
            };
        }
        /// Runs the loop over a function of [`Chunks`], and the rest lane by lane.
        macro_rules! each_chunk {
            ($function:ident, $rest:ident) => {{
                let ((x, x_rest), (y, y_rest)) = (inputs.as_chunks(), outputs.as_chunks_mut());
                for (y, x) in y.iter_mut().zip(x) {
                    f32::$function(x, y);
                }
                for (y, x) in y_rest.iter_mut().zip(x_rest) {
                    *y = Math::$rest(*x);
                }
            }};
        }
        match name {
            "exp" => each!(exp),
            "exp_m1" => each!(exp_m1),
            "ln" => each!(ln),
            "ln_1p" => each!(ln_1p),
            "tanh" => each!(tanh),
            "sigmoid" => each!(sigmoid),
            "erf" => each!(erf),
            "erfc" => each!(erfc),
            "sin" => each_chunk!(sin_chunk, sin),
            "cos" => each_chunk!(cos_chunk, cos),
            _ => panic!("{name} has no case in this match"),
        }
    }
}
