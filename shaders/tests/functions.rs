//! Twins of scalar functions, compared with the definitions of tensor programs.

use shaders::twin::{float, half, int};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::op::{Binary, Rounding, Unary};
use tensor_core::rng::Philox;
use tensor_core::{DType, Scalar};

/// Number of random bit patterns, and number of random numbers of moderate size, for every
/// function.
const N_DRAWS: u64 = 300_000;
/// Special values, and neighbours of the thresholds in the functions.
const SPECIAL: [f32; 40] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.5,
    -0.5,
    1.5,
    65_504.0,
    65_520.0,
    65_519.996,
    5.960_464_5e-8,
    2.980_232_2e-8,
    6.097_555e-5,
    f32::MAX,
    f32::MIN,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    1e-45,
    -1e-45,
    1.1754942e-38,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    16_777_216.0,
    16_777_215.0,
    -16_777_217.0,
    2_147_483_648.0,
    -2_147_483_648.0,
    4_294_967_296.0,
    0.999_999_94,
    1.000_000_1,
    0.625,
    88.722_84,
    -103.972_08,
    2_048.0,
    2_047.999_9,
];

fn words(stream: u64) -> impl Iterator<Item = u32> {
    let random = Philox::new(31).stream(stream);
    (0..N_DRAWS).map(move |i| random.word(i))
}

/// Returns special values, random bits, and numbers with exponents uniform from 2^-16 to 2^16.
fn floats(stream: u64) -> Vec<f32> {
    let dense = words(stream).map(f32::from_bits);
    let middle = words(stream + 1).map(|word| {
        let magnitude = (word & 0x0fff_ffff) + (111 << 23);
        f32::from_bits(magnitude | (word & 0x8000_0000))
    });
    SPECIAL.into_iter().chain(dense).chain(middle).collect()
}

/// Returns every pair of special values, and pairs of random values.
fn pairs() -> Vec<(f32, f32)> {
    let special = SPECIAL.into_iter().flat_map(|a| SPECIAL.map(|b| (a, b)));
    special
        .chain(floats(2).into_iter().zip(floats(4)))
        .collect()
}

/// Returns a tolerance of `n` units in the last place of the expected f64 values.
fn ulps(n: f64, expected: &[f64]) -> Tolerance {
    let unit = |x: &f64| {
        let exponent = if x.is_finite() && *x != 0.0 {
            x.abs().log2().floor().max(-126.0)
        } else {
            -126.0
        };
        n * exponent.exp2()
    };
    Tolerance::relative(1).scaled_by(expected.iter().map(unit))
}

/// Returns infinity for values that round to an infinite f32; other values unchanged.
fn of_f32_range(x: f64) -> f64 {
    let rounded = Scalar::F64(x).cast(DType::F32).to_f64();
    if rounded.is_infinite() { rounded } else { x }
}

fn check_unary(op: Unary, twin: fn(f32) -> f32, n_ulps: f64) {
    let x = floats(0);
    let actual: Vec<f32> = x.iter().map(|&x| twin(x)).collect();
    let expected: Vec<f64> = x
        .iter()
        .map(|&x| of_f32_range(op.eval(Scalar::F64(x.into())).to_f64()))
        .collect();
    assert_close(&actual, &expected, ulps(n_ulps, &expected));
}

fn check_binary(op: Binary, twin: fn(f32, f32) -> f32, pairs: &[(f32, f32)], n_ulps: f64) {
    let actual: Vec<f32> = pairs.iter().map(|&(a, b)| twin(a, b)).collect();
    let expected: Vec<f64> = pairs
        .iter()
        .map(|&(a, b)| {
            of_f32_range(
                op.eval(Scalar::F64(a.into()), Scalar::F64(b.into()))
                    .to_f64(),
            )
        })
        .collect();
    assert_close(&actual, &expected, ulps(n_ulps, &expected));
}

/// Checks that the results have the same bits as the definition, except for NaN.
fn check_binary_bits(op: Binary, twin: fn(f32, f32) -> f32) {
    let bits = |x: Scalar| {
        let is_nan = x.to_f64().is_nan();
        if is_nan {
            u64::from(f32::NAN.to_bits())
        } else {
            x.bits()
        }
    };
    let (mut actual, mut expected) = (Vec::new(), Vec::new());
    for (a, b) in pairs() {
        actual.push(bits(Scalar::F32(twin(a, b))));
        expected.push(bits(op.eval(Scalar::F32(a), Scalar::F32(b))));
    }
    assert_close(&actual, &expected, Tolerance::bits());
}

#[test]
fn functions_of_one_argument_keep_their_bounds() {
    let functions = Unary::ALL
        .into_iter()
        .filter(|op| op.rounding() == Rounding::Function);
    for op in functions {
        let found = float::UNARY
            .into_iter()
            .find(|(name, ..)| *name == op.name());
        let (name, twin, n_ulps) = found.unwrap_or_else(|| panic!("{} has no twin", op.name()));
        eprintln!("{name}");
        check_unary(op, twin, n_ulps);
    }
}

#[test]
fn sin_and_cos_keep_their_bound_next_to_whole_quarters() {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to f32 is intended"
    )]
    let near: Vec<f32> = (1..100_000)
        .flat_map(|k| {
            let x = (f64::from(k) * std::f64::consts::FRAC_PI_2) as f32;
            [x.next_down(), x, x.next_up()]
        })
        .collect();
    for (op, twin) in [
        (Unary::Sin, float::sin as fn(f32) -> f32),
        (Unary::Cos, float::cos),
    ] {
        let actual: Vec<f32> = near.iter().map(|&x| twin(x)).collect();
        let expected: Vec<f64> = near
            .iter()
            .map(|&x| op.eval(Scalar::F64(x.into())).to_f64())
            .collect();
        assert_close(&actual, &expected, ulps(float::SIN_COS_ULPS, &expected));
    }
}

#[test]
fn odd_functions_keep_the_sign_of_zero() {
    for twin in [float::sin, float::tanh, float::erf] {
        assert_close([twin(-0.0), twin(0.0)], [-0.0_f32, 0.0], Tolerance::bits());
    }
}

#[test]
fn pow_keeps_its_bound() {
    check_binary(Binary::Pow, float::pow, &pairs(), float::POW_ULPS);
}

#[test]
fn pow_keeps_its_bound_where_neither_base_nor_result_leaves_the_range() {
    let exponents = Philox::new(32);
    let pairs: Vec<(f32, f32)> = (0..)
        .zip(
            floats(6)
                .into_iter()
                .filter(|a| a.is_normal() && a.abs() != 1.0),
        )
        .map(|(i, a)| {
            let a = a.abs();
            (a, (exponents.uniform_f32(i) - 0.5) * 300.0 / a.log2())
        })
        .collect();
    check_binary(Binary::Pow, float::pow, &pairs, float::POW_ULPS);
}

#[test]
fn pow_of_whole_exponents_has_the_sign_of_its_base() {
    let pairs: Vec<(f32, f32)> = (-40..40_i16)
        .flat_map(|b| [-1.7, -0.6, 0.9, -1.0].map(|a| (a, f32::from(b))))
        .chain([
            (-0.0, 3.0),
            (-0.0, -3.0),
            (-0.0, 2.0),
            (-1.0, 16_777_215.0),
            (-1.0, 16_777_216.0),
        ])
        .collect();
    check_binary(Binary::Pow, float::pow, &pairs, float::POW_ULPS);
    assert_close([float::pow(-0.0, 3.0)], [-0.0_f32], Tolerance::bits());
}

#[test]
fn rem_gives_the_bits_of_its_definition() {
    check_binary_bits(Binary::Rem, float::rem);
}

#[test]
fn floor_div_keeps_its_bound_and_the_sign_of_zero() {
    check_binary(
        Binary::FloorDiv,
        float::floor_div,
        &pairs(),
        float::FLOOR_DIV_ULPS,
    );
    let zeros = [(0.0, -3.0), (-0.0, 3.0), (2.0, 3.0), (-0.0, -3.0)];
    let actual = zeros.map(|(a, b)| float::floor_div(a, b));
    assert_close(actual, [-0.0_f32, -0.0, 0.0, 0.0], Tolerance::bits());
}

#[test]
fn floor_div_is_exact_below_2_to_the_24() {
    let exact: Vec<(f32, f32)> = pairs()
        .into_iter()
        .filter(|(a, b)| (a / b).abs() < 16_000_000.0)
        .collect();
    let actual: Vec<f32> = exact.iter().map(|&(a, b)| float::floor_div(a, b)).collect();
    let expected: Vec<f64> = exact
        .iter()
        .map(|&(a, b)| {
            Binary::FloorDiv
                .eval(Scalar::F64(a.into()), Scalar::F64(b.into()))
                .to_f64()
        })
        .collect();
    assert_close(&actual, &expected, Tolerance::exact());
}

#[test]
fn maximum_and_minimum_give_the_bits_of_their_definition() {
    check_binary_bits(Binary::Maximum, float::maximum);
    check_binary_bits(Binary::Minimum, float::minimum);
}

#[test]
fn conversions_and_is_nan_are_those_of_scalars() {
    for x in floats(8) {
        let scalar = Scalar::F32(x);
        assert_eq!(
            Scalar::I32(float::to_i32(x)),
            scalar.cast(DType::I32),
            "{x:?}"
        );
        assert_eq!(
            Scalar::U32(float::to_u32(x)),
            scalar.cast(DType::U32),
            "{x:?}"
        );
        assert_eq!(
            Scalar::Bool(float::is_nan(x)),
            Unary::IsNan.eval(scalar),
            "{x:?}"
        );
    }
}

#[test]
fn half_bits_are_those_of_the_storage_type() {
    // Only magnitudes from 2^-26 to 2^16 are relevant: every exponent in this range is drawn more
    // than a thousand times.
    let halves = words(10).map(|word| {
        f32::from_bits((word & 0x8000_0000) | ((word & 0x1fff_ffff) % (44 << 23) + (100 << 23)))
    });
    for x in floats(8).into_iter().chain(halves) {
        let expected = Scalar::F32(x).cast(DType::F16);
        assert_eq!(u64::from(half::bits(x)), expected.bits(), "{x:?}");
        let rounded = Scalar::F32(half::round(x));
        assert_eq!(rounded, expected.cast(DType::F32), "{x:?}");
    }
}

#[test]
fn every_half_value_is_exact() {
    for bits in (0..=0xffff).filter(|bits| bits & 0x7fff <= 0x7c00) {
        let value = Scalar::F32(half::value(bits));
        let stored = value.cast(DType::F16);
        assert_eq!(stored.bits(), u64::from(bits));
        assert_eq!(stored.cast(DType::F32), value, "{bits:x}");
    }
    for bits in [0x7c01, 0x7e00, 0xfc01, 0xffff] {
        assert!(half::value(bits).is_nan(), "{bits:x}");
    }
}

#[test]
fn integer_functions_are_those_of_scalars() {
    let special = [
        0,
        1,
        2,
        7,
        8,
        31,
        32,
        33,
        u32::MAX,
        u32::MAX - 6,
        1 << 31,
        (1 << 31) - 1,
    ];
    let random = words(12).zip(words(13)).map(|(a, b)| (a, b >> (b & 31)));
    let pairs = special
        .into_iter()
        .flat_map(|a| special.map(|b| (a, b)))
        .chain(random);
    for (a, b) in pairs {
        let unsigned = |op: Binary| op.eval(Scalar::U32(a), Scalar::U32(b));
        for (op, twin) in UNSIGNED {
            assert_eq!(
                Scalar::U32(twin(a, b)),
                unsigned(op),
                "{} of {a} and {b}",
                op.name()
            );
        }
        let [a, b] = [a, b].map(u32::cast_signed);
        let signed = |op: Binary| op.eval(Scalar::I32(a), Scalar::I32(b));
        for (op, twin) in SIGNED {
            assert_eq!(
                Scalar::I32(twin(a, b)),
                signed(op),
                "{} of {a} and {b}",
                op.name()
            );
        }
    }
}

type Function<T> = fn(T, T) -> T;

const UNSIGNED: [(Binary, Function<u32>); 4] = [
    (Binary::FloorDiv, int::floor_div_u32),
    (Binary::Rem, int::rem_u32),
    (Binary::Shl, int::shl_u32),
    (Binary::Shr, int::shr_u32),
];

const SIGNED: [(Binary, Function<i32>); 4] = [
    (Binary::FloorDiv, int::floor_div_i32),
    (Binary::Rem, int::rem_i32),
    (Binary::Shl, int::shl_i32),
    (Binary::Shr, int::shr_i32),
];

/// `&&` and `||` become branches. A generated kernel calls these functions hundreds of times in its
/// loops, and a driver may need minutes and gigabytes to compile hundreds of branches.
#[test]
fn functions_of_programs_have_no_short_circuits() {
    use shaders::source::{FLOAT, HALF, INT};
    for part in [FLOAT, HALF, INT] {
        let mut code = part.lines().map(|line| line.split("//").next().unwrap());
        assert_eq!(
            code.find(|line| line.contains("&&") || line.contains("||")),
            None
        );
    }
}
