//! Shared scalar functions of kernels, compared with their twins on every adapter of this machine.
//!
//! Method: for each function a kernel is generated that applies the function to two arrays of
//! words. The buffers contain words instead of floats, so that the bits of special values are
//! preserved in inputs and results.

use std::cmp::Ordering;

use bytemuck::{Pod, Zeroable};
use gpu_wgsl::check::every_adapter;
use gpu_wgsl::{Error, Gpu};
use shaders::twin::{float, half, int};
use shaders::{Field, Kernel, Params, source};
use tensor_core::compare::{Tolerance, assert_close, sentinel_filled};
use tensor_core::rng::Philox;

/// Number of random pairs, in addition to the pairs of special values. The total is not a multiple
/// of the workgroup size.
const N_RANDOM: u64 = 60_011;
/// Words that are special values as a float, as a half or as an integer.
const SPECIAL: [u32; 26] = [
    0,
    1,
    2,
    31,
    32,
    33,
    0x7bff,
    0x7c00,
    0xffff,
    0x007f_ffff,
    0x0080_0000,
    0x3880_0000,
    0x3f00_0000,
    0x3f80_0000,
    0x4000_0000,
    0x4040_0000,
    0x477f_f000,
    0x4b80_0000,
    0x4f00_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0x7fc0_0000,
    0x8000_0000,
    0xbf80_0000,
    0xff80_0000,
    0xffff_ffff,
];

type Function<T> = fn(T, T) -> T;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
struct FunctionParams {
    n: u32,
    pad0: u32,
    pad1: u32,
    pad2: u32,
}

impl Params for FunctionParams {
    const NAME: &'static str = "FunctionParams";
    const FIELDS: &'static [Field] = &[
        Field {
            name: "n",
            offset_bytes: 0,
        },
        Field {
            name: "pad0",
            offset_bytes: 4,
        },
        Field {
            name: "pad1",
            offset_bytes: 8,
        },
        Field {
            name: "pad2",
            offset_bytes: 12,
        },
    ];

    fn domain(&self) -> [u64; 3] {
        [self.n.into(), 1, 1]
    }

    fn buffer_lens(&self) -> Vec<u64> {
        vec![self.n.into(); 3]
    }

    fn loop_iterations(&self) -> u64 {
        // The longest division of two floats: exponents that differ by 253, eight places per pass.
        32
    }
}

/// Returns a kernel that computes `expression` for each pair of words `x` and `y`.
fn kernel(part: &str, expression: &str) -> Kernel {
    let text = format!(
        "struct FunctionParams {{ n: u32, pad0: u32, pad1: u32, pad2: u32 }}
@group(0) @binding(0) var<uniform> params: FunctionParams;
@group(0) @binding(1) var<storage, read> xs: array<u32>;
@group(0) @binding(2) var<storage, read> ys: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

@compute @workgroup_size(64)
fn function(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>,
        @builtin(local_invocation_index) lid: u32) {{
    let at = grid_workgroup(wid, n) * 64u + lid;
    if (at < params.n) {{
        let x = xs[at];
        let y = ys[at];
        out[at] = {expression};
    }}
}}
{part}{}",
        source::GRID
    );
    shaders::reflect("function", &text).unwrap_or_else(|why| panic!("{expression}: {why}"))
}

/// Returns pairs of words: all pairs of special words, random words, and random floats with
/// magnitudes from 2^-8 to 2^8.
fn pairs() -> (Vec<u32>, Vec<u32>) {
    let random = Philox::new(77);
    let middle = |word: u32| (word & 0x87ff_ffff) + (119 << 23);
    let drawn = (0..N_RANDOM).map(|i| (random.word(2 * i), random.word(2 * i + 1)));
    let special = SPECIAL.into_iter().flat_map(|x| SPECIAL.map(|y| (x, y)));
    let moderate = drawn.clone().map(|(x, y)| (middle(x), middle(y)));
    special.chain(drawn).chain(moderate).unzip()
}

fn run(gpu: &Gpu, kernel: &Kernel, x: &[u32], y: &[u32]) -> Result<Vec<u32>, Error> {
    let n = x.len();
    let x = gpu.upload("x", &[n], x)?;
    let y = gpu.upload("y", &[n], y)?;
    let out = gpu.upload("out", &[n], &sentinel_filled::<u32>(n))?;
    let params = FunctionParams {
        n: u32::try_from(n).expect("there are fewer than 2^32 pairs"),
        ..FunctionParams::default()
    };
    gpu.dispatch(kernel, &params, &[&x, &y, &out])?;
    gpu.read(&out)
}

/// Runs the kernel on the pairs for which `keeps` is true, and passes the actual and the expected
/// words to `compare`.
fn check(
    part: &str,
    expression: &str,
    twin: impl Fn(u32, u32) -> u32,
    keeps: impl Fn(u32, u32) -> bool,
    compare: impl Fn(Vec<u32>, Vec<[u32; 2]>),
) {
    let kernel = kernel(part, expression);
    let (x, y) = pairs();
    let (x, y): (Vec<u32>, Vec<u32>) = x.into_iter().zip(y).filter(|&(x, y)| keeps(x, y)).unzip();
    let both = |(&x, &y): (&u32, &u32)| [twin(x, y), twin(flushed(x), flushed(y))];
    let expected: Vec<[u32; 2]> = x.iter().zip(&y).map(both).collect();
    for gpu in every_adapter() {
        let name = &gpu.adapter().name;
        eprintln!("{expression} on {name}");
        let actual = run(gpu, &kernel, &x, &y).unwrap_or_else(|why| panic!("{name}: {why}"));
        compare(actual, expected.clone());
    }
}

fn check_words(part: &str, expression: &str, twin: impl Fn(u32, u32) -> u32) {
    let same = |actual: Vec<u32>, expected: Vec<[u32; 2]>| {
        let expected: Vec<u32> = expected.into_iter().map(|[word, _]| word).collect();
        assert_close(actual, expected, Tolerance::bits());
    };
    check(part, expression, twin, |_, _| true, same);
}

/// Returns a float's bits, or those of a zero of its sign if the float is subnormal.
fn flushed(word: u32) -> u32 {
    if f32::from_bits(word).is_subnormal() {
        word & 0x8000_0000
    } else {
        word
    }
}

/// Compares floats: two NaN are equal, other values must agree within `n_ulps` units in the last
/// place. A device may flush subnormal numbers to zero, arguments as well as results.
fn check_floats(name: &str, arguments: &str, n_ulps: usize, twin: impl Fn(f32, f32) -> f32) {
    let floats = |words: Vec<u32>| words.into_iter().map(f32::from_bits).collect::<Vec<_>>();
    let unit = |x: &f32| {
        let binade = if x.is_finite() {
            x.to_bits() & 0x7f80_0000
        } else {
            0
        };
        f64::from(f32::from_bits(binade))
    };
    check(
        source::FLOAT,
        &format!("bitcast<u32>({name}({arguments}))"),
        |x, y| twin(f32::from_bits(x), f32::from_bits(y)).to_bits(),
        |_, _| true,
        |actual, expected| {
            // A device that flushes its arguments returns the result for flushed arguments:
            // `pow(0, 1e-40)` is 0, but `pow(0, 0)` is 1.
            let actual = floats(actual);
            let expected_word = |(&actual, [exact, flushed]): (&f32, [u32; 2])| {
                let [exact, flushed] = [exact, flushed].map(f32::from_bits);
                match actual.total_cmp(&flushed) {
                    Ordering::Equal => flushed,
                    _ => exact,
                }
            };
            let expected: Vec<f32> = actual.iter().zip(expected).map(expected_word).collect();
            let bound = Tolerance::relative(n_ulps)
                .scaled_by(expected.iter().map(unit))
                .or_absolute(f32::MIN_POSITIVE.into());
            assert_close(actual, &expected, bound);
        },
    );
}

/// Compares a function with its twin. A device may fuse operations, so the results may be rounded
/// differently: the tolerance is 2 units in the last place, or 4 for `erfc`, which is a product of
/// three functions.
fn check_unary(name: &str, twin: fn(f32) -> f32) {
    let n_ulps = if name == "float_erfc" { 4 } else { 2 };
    check_floats(name, "bitcast<f32>(x)", n_ulps, |x, _| twin(x));
}

/// Compares the bits of floats, except for NaN and for values that a device may flush to zero.
fn check_float_bits(name: &str, twin: fn(f32, f32) -> f32) {
    let is_kept = |x: f32| x == 0.0 || !x.is_subnormal();
    let canonical = |words: Vec<u32>| {
        let one = |word| {
            if float::is_nan(f32::from_bits(word)) {
                0x7fc0_0000
            } else {
                word
            }
        };
        words.into_iter().map(one).collect::<Vec<_>>()
    };
    check(
        source::FLOAT,
        &format!("bitcast<u32>({name}(bitcast<f32>(x), bitcast<f32>(y)))"),
        |x, y| twin(f32::from_bits(x), f32::from_bits(y)).to_bits(),
        |x, y| {
            let [x, y] = [x, y].map(f32::from_bits);
            is_kept(x) && is_kept(y) && is_kept(twin(x, y))
        },
        |actual, expected| {
            let exact = expected.into_iter().map(|[exact, _]| exact).collect();
            assert_close(canonical(actual), canonical(exact), Tolerance::bits());
        },
    );
}

#[test]
fn float_functions_of_one_argument_match_their_twins() {
    for (name, twin, _) in float::UNARY {
        check_unary(&format!("float_{name}"), twin);
    }
}

#[test]
fn float_pow_matches_its_twin() {
    check_floats(
        "float_pow",
        "bitcast<f32>(x), bitcast<f32>(y)",
        2,
        float::pow,
    );
}

#[test]
fn float_rem_and_floor_div_have_the_bits_of_their_twins() {
    check_float_bits("float_rem", float::rem);
    check_float_bits("float_floor_div", float::floor_div);
}

#[test]
fn float_maximum_and_minimum_have_the_bits_of_their_twins() {
    check_float_bits("float_maximum", float::maximum);
    check_float_bits("float_minimum", float::minimum);
}

#[test]
fn float_conversions_and_is_nan_match_their_twins() {
    let part = source::FLOAT;
    check_words(
        part,
        "bitcast<u32>(float_to_i32(bitcast<f32>(x)))",
        |x, _| float::to_i32(f32::from_bits(x)).cast_unsigned(),
    );
    check_words(part, "float_to_u32(bitcast<f32>(x))", |x, _| {
        float::to_u32(f32::from_bits(x))
    });
    check_words(
        part,
        "select(0u, 1u, float_is_nan(bitcast<f32>(x)))",
        |x, _| float::is_nan(f32::from_bits(x)).into(),
    );
}

#[test]
fn half_functions_match_their_twins() {
    let part = source::HALF;
    check_words(part, "half_bits(bitcast<f32>(x))", |x, _| {
        half::bits(f32::from_bits(x))
    });
    check_words(part, "bitcast<u32>(half_round(bitcast<f32>(x)))", |x, _| {
        half::round(f32::from_bits(x)).to_bits()
    });
    check_words(part, "bitcast<u32>(half_value(x & 0xffffu))", |x, _| {
        half::value(x & 0xffff).to_bits()
    });
}

#[test]
fn unsigned_functions_match_their_twins() {
    let functions: [(&str, Function<u32>); 4] = [
        ("int_floor_div_u32", int::floor_div_u32),
        ("int_rem_u32", int::rem_u32),
        ("int_shl_u32", int::shl_u32),
        ("int_shr_u32", int::shr_u32),
    ];
    for (name, twin) in functions {
        check_words(source::INT, &format!("{name}(x, y)"), twin);
        check_words(source::INT, &format!("{name}(x, y & 63u)"), |x, y| {
            twin(x, y & 63)
        });
    }
}

#[test]
fn signed_functions_match_their_twins() {
    let functions: [(&str, Function<i32>); 4] = [
        ("int_floor_div_i32", int::floor_div_i32),
        ("int_rem_i32", int::rem_i32),
        ("int_shl_i32", int::shl_i32),
        ("int_shr_i32", int::shr_i32),
    ];
    for (name, twin) in functions {
        let signed = |x: u32, y: u32| twin(x.cast_signed(), y.cast_signed()).cast_unsigned();
        let call = |y: &str| format!("bitcast<u32>({name}(bitcast<i32>(x), bitcast<i32>({y})))");
        check_words(source::INT, &call("y"), signed);
        check_words(source::INT, &call("y & 63u"), |x, y| signed(x, y & 63));
    }
}

#[test]
fn philox_word_is_that_of_the_generator() {
    let expression = "philox_word(vec2<u32>(x, 7u), vec2<u32>(y, 3u), x ^ (y >> 3u))";
    check_words(source::PHILOX, expression, |x, y| {
        let key = 7 << 32 | u64::from(x);
        let stream = 3 << 32 | u64::from(y);
        Philox::new(key)
            .stream(stream)
            .word(u64::from(x ^ (y >> 3)))
    });
}
