//! IEEE arithmetic on every adapter, bit by bit: expressions that a driver's compiler would
//! simplify if it could see through the operations.
//!
//! Method: sums, differences and products are rounded once on every device, so a device must return
//! the same bits as the host. Quotients and roots are exact only for inputs chosen by the test;
//! elsewhere only the class (NaN, infinite, finite) is compared.

#![expect(clippy::eq_op, reason = "the tests need repeated operands")]

use std::fmt::Display;

use gpu_wgsl::check::every_adapter;
use gpu_wgsl::{Feature, Gpu};
use tensor_core::rng::Philox;
use tensor_core::{DType, Element, Executor, Host, ScanAxis, Tensor};

/// Number of elements of a random input: enough for a reassociated sum to differ in at least one
/// element.
const LEN: usize = 4096;

fn normal(stream: u64) -> Tensor {
    let mut data = vec![0.0; LEN];
    Philox::new(5).fill_normal_f32(stream, &mut data);
    Tensor::from_vec(&[LEN], data)
}

/// A float type whose values are compared by their bits, with all NaN mapped to one value.
trait Bits: Element + Copy {
    fn bits(self) -> u64;
}

impl Bits for f32 {
    fn bits(self) -> u64 {
        if self.is_nan() {
            u64::MAX
        } else {
            self.to_bits().into()
        }
    }
}

impl Bits for f64 {
    fn bits(self) -> u64 {
        if self.is_nan() {
            u64::MAX
        } else {
            self.to_bits()
        }
    }
}

fn bits<T: Bits>(program: &Tensor, executor: &dyn Executor) -> Vec<u64> {
    let elements = program.eval::<T>(executor);
    let elements = elements.unwrap_or_else(|error| panic!("{error}"));
    elements.iter().map(|element| element.bits()).collect()
}

/// Fails with the names of all programs for which a device returns other bits than the host.
fn assert_same_bits<T: Bits>(gpu: &Gpu, programs: &[(impl Display, Tensor)]) {
    let mut failures = Vec::new();
    for (name, program) in programs {
        let (actual, expected) = (bits::<T>(program, gpu), bits::<T>(program, &Host::new()));
        assert_eq!(actual.len(), expected.len());
        let n_differ = (0..actual.len())
            .filter(|&at| actual[at] != expected[at])
            .count();
        if n_differ > 0 {
            failures.push(format!("{name}: {n_differ} of {} elements", actual.len()));
        }
    }
    let driver = &gpu.adapter().driver;
    assert!(failures.is_empty(), "{driver}: {}: {failures:#?}", T::DTYPE);
}

/// Evaluates a tensor on the host.
fn on_host(tensor: &Tensor) -> Tensor {
    let computed = tensor.realize(&Host::new());
    computed.unwrap_or_else(|error| panic!("{error}"))
}

/// Returns programs of sums, differences and products.
fn sums_and_products(dtype: DType, [x, y, z]: &[Tensor; 3]) -> Vec<(&'static str, Tensor)> {
    vec![
        ("(x + c) + d", (x + 0.1) + 0.2),
        ("(x - c) - d", (x - 0.1) - 0.2),
        ("(x + x) + c", (x + x) + 0.7),
        ("((x + y) + c) + d", (x + y + 0.1) + 0.2),
        ("(x + c) - c", (x + 1.0) - 1.0),
        ("c - (c - x)", 1.0 - (1.0 - x)),
        ("(x + y) - x", (x + y) - x),
        ("(x - y) + y", (x - y) + y),
        ("x * y + x * z", x * y + x * z),
        ("x * y - x * y", x * y - x * y),
        ("(x - x) + x", (x - x) + x),
        ("x * big * small", x * 1e30 * 1e-30),
        ("round to whole numbers", (x + 12_582_912.0) - 12_582_912.0),
        ("error of a sum", two_sum(x, y)),
        ("error of a product", product_error(dtype, x, y)),
        ("(x * y - z * y) + x", (x * y - z * y) + x),
        ("(x * y + z) + x * z", (x * y + z) + x * z),
        ("x * y + z", x * y + z),
        (
            "compensated sum",
            kahan(&[x, y, z, &(x * 1e-7), &(y * 1e-7)]),
        ),
        ("sum of differences", (x - y).reshape(&[2048, 2]).sum(1)),
        ("short sum - term", {
            let pairs = x.reshape(&[2048, 2]);
            pairs.sum(1) - pairs.slice(1, 1..2).squeeze(1)
        }),
        ("sum of one + y - y", (x.reshape(&[4096, 1]).sum(1) + y) - y),
        ("-(x - y)", -(x - y)),
        ("x < x + y", (x + y).lt(x).cast(dtype)),
    ]
}

/// Returns the rounding error of `a + b` by Knuth's algorithm.
fn two_sum(a: &Tensor, b: &Tensor) -> Tensor {
    let sum = a + b;
    let from_b = &sum - a;
    (a - (&sum - &from_b)) + (b - &from_b)
}

/// Returns the high half of a number by Veltkamp's splitting.
fn high_half(dtype: DType, x: &Tensor) -> Tensor {
    let splitter = match dtype {
        DType::F64 => 134_217_729.0,
        _ => 4097.0,
    };
    let scaled = x * splitter;
    &scaled - (&scaled - x)
}

/// Returns the rounding error of `a * b` by Dekker's algorithm.
fn product_error(dtype: DType, a: &Tensor, b: &Tensor) -> Tensor {
    let (a_high, b_high) = (high_half(dtype, a), high_half(dtype, b));
    let (a_low, b_low) = (a - &a_high, b - &b_high);
    let product = a * b;
    ((&a_high * &b_high - product) + &a_high * &b_low + &a_low * &b_high) + &a_low * &b_low
}

/// Returns a sum by Kahan's algorithm.
fn kahan(terms: &[&Tensor]) -> Tensor {
    let (mut sum, mut lost) = (terms[0].clone(), terms[0] * 0.0);
    for &term in &terms[1..] {
        let corrected = term - &lost;
        let next = &sum + &corrected;
        lost = (&next - &sum) - &corrected;
        sum = next;
    }
    sum
}

#[test]
fn sums_and_products_have_the_bits_of_the_host() {
    for gpu in every_adapter() {
        let inputs = [0, 1, 2].map(normal);
        assert_same_bits::<f32>(gpu, &sums_and_products(DType::F32, &inputs));
        if let Err(missing) = gpu.require("f64", &[Feature::F64, Feature::Int64]) {
            gpu_wgsl::check::skip(&missing.to_string());
            continue;
        }
        let wide = inputs.map(|x| on_host(&(x.cast(DType::F64) * std::f64::consts::PI)));
        assert_same_bits::<f64>(gpu, &sums_and_products(DType::F64, &wide));
    }
}

/// Returns programs whose results are infinite, NaN or exact on every device.
fn extremes(dtype: DType) -> Vec<(&'static str, Tensor)> {
    let values = [
        f64::INFINITY,
        f64::NAN,
        1.0,
        -0.0,
        f64::NEG_INFINITY,
        0.0,
        -2.0,
        4.0,
    ];
    let x = on_host(&Tensor::from_vec(&[8], values.to_vec()).cast(dtype));
    // Data instead of constants, so that no compiler can know that the elements are ones.
    let ones = on_host(&Tensor::from_vec(&[8], vec![1.0_f64; 8]).cast(dtype));
    // Products of 1 by 1 matrices: each sum has one term, and each factor a load of its own.
    let product = |a: &Tensor, b: &Tensor| a.reshape(&[8, 1, 1]).matmul(&b.reshape(&[8, 1, 1]));
    let whole = Tensor::arange(8);
    let nothing = (&whole - &whole).cast(dtype);
    vec![
        ("x / 0", &x / 0.0),
        ("x / -0", &x / -0.0),
        ("1 / (x - x)", 1.0 / (&x - &x)),
        ("y / (x - x)", &ones / (&x - &x)),
        ("y / (x * 0)", &ones / (&x * 0.0)),
        ("y / (d - d)", {
            let d = (&x - &ones).square();
            &ones / (&d - &d)
        }),
        ("y / (i - i)", &ones / &nothing),
        ("recip of i - i", nothing.recip()),
        ("(s + s) / s for s, the sum of nothing", {
            let s = x.reshape(&[8, 1]).cumsum(ScanAxis::new(1).exclusive());
            (&s + &s) / &s
        }),
        ("x * (i - i)", &x * &nothing),
        ("x / 0 > 1", (&x / 0.0).gt(1.0).cast(dtype)),
        ("max(x / 0, y)", (&x / 0.0).maximum(&ones)),
        ("deviation of one sample", x.reshape(&[8, 1]).std(1, 1)),
        ("variance of one sample", x.reshape(&[8, 1]).var(1, 1)),
        ("rounded to an integer", {
            let halves = (Tensor::arange(13).cast(dtype) - 6.0) * 0.5;
            halves.round().cast(DType::I32).cast(dtype)
        }),
        (
            "rounded",
            ((Tensor::arange(31).cast(dtype) - 15.0) * 0.25).round(),
        ),
        ("whole parts of large numbers", {
            let large = (Tensor::arange(31).cast(dtype) - 15.0) * 987_654_321_012.3;
            large.trunc() + large.floor() * 3.0 - large.ceil()
        }),
        ("x - x", &x - &x),
        ("(x + y) - (y + x)", (&x + &ones) - (&ones + &x)),
        ("(x * y) / (y * x)", (&x * &ones) / (&ones * &x)),
        ("x + y == y + x", (&x + &ones).eq(&ones + &x).cast(dtype)),
        ("an infinite sum minus itself along another axis", {
            let row = Tensor::from_vec(&[1, 2], vec![f64::INFINITY, 1.0]);
            let sum = on_host(&row.cast(dtype)).sum(1);
            sum.expand_dims(0) - sum.expand_dims(1)
        }),
        ("1 / -(x - x)", 1.0 / -(&x - &x)),
        ("x * 0", &x * 0.0),
        ("flag * x", whole.lt(4).cast(dtype) * &x),
        (
            "padded * x",
            whole.slice(0, 0..4).cast(dtype).pad(0, 2, 2, 0.0) * &x,
        ),
        ("square of a root", x.sqrt().square()),
        ("(x + inf) - inf", (&x + f64::INFINITY) - f64::INFINITY),
        ("x == x", x.eq(&x).cast(dtype)),
        ("smaller by choice", x.lt(&ones).select(&x, &ones)),
        ("larger by choice", ones.lt(&x).select(&x, &ones)),
        ("maximum of all", x.max(0)),
        ("sum of all", x.sum(0)),
        ("dot product", (&x * &ones).sum(0)),
        ("sum of squares of roots", x.sqrt().square().sum(0)),
        ("matrix products of roots", product(&x.sqrt(), &x.sqrt())),
        (
            "matrix products of a root and its magnitude",
            product(&x.sqrt().abs(), &x.sqrt()),
        ),
        (
            "matrix products of a negated root",
            product(&-x.sqrt(), &x.sqrt()),
        ),
        ("matrix products with reciprocals", product(&x, &x.recip())),
        (
            "matrix products of quotients",
            product(&(&ones / &x), &(&x / &ones)),
        ),
    ]
}

/// Returns programs with operands that a compiler can compute: positions, and functions of integers
/// or flags that are combined with themselves.
fn known_operands(dtype: DType) -> Vec<(String, Tensor)> {
    let whole = Tensor::arange(8).reshape(&[4, 2]);
    let (data, flag) = (on_host(&whole), on_host(&whole.lt(4)));
    let zero = (&data - &data).cast(dtype);
    let values = [0.0, 1.0, -0.0, 2.0, f64::NAN, -8.0, f64::INFINITY, -0.25];
    let x = on_host(&Tensor::from_vec(&[4, 2], values.to_vec()).cast(dtype));
    let known = [
        ("i - i", (&whole - &whole).cast(dtype)),
        ("flag ^ flag", (&flag ^ &flag).cast(dtype)),
        ("n ^ (n ^ -1)", (&data ^ (&data ^ -1)).cast(dtype)),
        (
            "position",
            Tensor::arange(2).cast(dtype).broadcast_to(&[4, 2]),
        ),
        ("sin(n - n)", zero.sin()),
        ("half of n < n", data.lt(&data).cast(DType::F16).cast(dtype)),
        ("0 if n == n, else x", data.eq(&data).select(&zero, &x)),
    ];
    let pairs = known.iter().flat_map(|(name, known)| {
        [(known, known), (known, &x), (&x, known)].map(|pair| (name, pair))
    });
    let programs = pairs.flat_map(|(name, (a, b))| {
        let product = a * b;
        let quotient = (a / b + b) * b;
        [
            ("a / b", a / b),
            ("1 / (a - b)", (a - b).recip()),
            ("a < b", a.lt(b).cast(dtype)),
            ("max(a, b) + 1", a.maximum(b) + 1.0),
            ("sum of a * b", product.sum(1)),
            ("sum of (a / b + b) * b", quotient.sum(1)),
            ("product of a / b", (a / b).prod(1)),
            ("a * b", product),
        ]
        .map(|(program, tensor)| (format!("{program} with {name}"), tensor))
    });
    programs.collect()
}

/// Returns programs of comparisons, selections and conversions, which a compiler may replace by
/// minima and maxima, by the opposite comparison, or by fewer conversions. All of these differ for
/// NaN, for infinities or in a rounding.
fn choices(dtype: DType) -> Vec<(&'static str, Tensor)> {
    let data = |values: [f64; 8]| on_host(&Tensor::from_vec(&[8], values.to_vec()).cast(dtype));
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let x = data([nan, 0.5, 0.25, inf, -2.0, nan, -0.5, 3.0]);
    let y = data([0.5, nan, 0.5, inf, -2.0, nan, 0.75, -1.0]);
    let z = data([0.75, 0.5, nan, -inf, 5.0, 1.0, -0.75, nan]);
    let flag = |flag: Tensor| flag.cast(dtype);
    let small = |x: &Tensor| x.abs().lt(1.0);
    let truth = Tensor::scalar(true);
    let pairs = |x: &Tensor| x.reshape(&[4, 2]);
    let whole = on_host(&(Tensor::arange(8) * 4_194_305 + 16_777_217));
    let wide = |row: &[f64]| on_host(&Tensor::from_vec(&[row.len()], row.to_vec()).cast(dtype));
    let (ends, ones) = (wide(&[inf, 1.0]), wide(&[1.0; 3]));
    let unknown = wide(&[nan, 1.0, inf]);
    vec![
        ("|x| < 1 & |y| < 1", flag(small(&x) & small(&y))),
        ("|x| < 1 | |y| < 1", flag(small(&x) | small(&y))),
        ("x > y & x > z", flag(x.gt(&y) & x.gt(&z))),
        ("y < x & z < x", flag(y.lt(&x) & z.lt(&x))),
        ("x <= y & x <= z", flag(x.le(&y) & x.le(&z))),
        ("x > y | x > z", flag(x.gt(&y) | x.gt(&z))),
        ("not x < y", flag(!x.lt(&y))),
        ("not x <= y", flag(!x.le(&y))),
        ("not x == y", flag(!x.eq(&y))),
        ("x < y ^ true", flag(x.lt(&y) ^ &truth)),
        ("x < y == false", flag(x.lt(&y).eq(&!&truth))),
        ("not (x < y & x < z)", flag(!(x.lt(&y) & x.lt(&z)))),
        (
            "false if x < y, else true",
            flag(x.lt(&y).select(!&truth, &truth)),
        ),
        (
            "x > z if x > y, else false",
            flag(x.gt(&y).select(x.gt(&z), !&truth)),
        ),
        (
            "true if x > y, else x > z",
            flag(x.gt(&y).select(&truth, x.gt(&z))),
        ),
        (
            "product of x > y and x > z",
            (x.gt(&y).cast(DType::U32) * x.gt(&z).cast(DType::U32)).cast(dtype),
        ),
        (
            "product of |x| < 1",
            pairs(&small(&x)).cast(DType::I32).prod(1).cast(dtype),
        ),
        ("all |x| < 1", flag(pairs(&small(&x)).all(1))),
        ("any |x| < 1", flag(pairs(&small(&x)).any(1))),
        ("not any |x| < 1", flag(!pairs(&small(&x)).any(1))),
        ("x if x < y, else y", x.lt(&y).select(&x, &y)),
        ("y if x < y, else x", x.lt(&y).select(&y, &x)),
        ("x if y < x, else y", y.lt(&x).select(&x, &y)),
        ("x if x <= y, else y", x.le(&y).select(&x, &y)),
        ("x if not x < y, else y", (!x.lt(&y)).select(&x, &y)),
        ("0 if x < 0, else x", x.lt(0.0).select(0.0, &x)),
        ("x if x > 0, else 0", x.gt(0.0).select(&x, 0.0)),
        ("-x if x < 0, else x", x.lt(0.0).select(-&x, &x)),
        ("x - y as a flag", flag((&x - &y).cast(DType::Bool))),
        ("x * y as a flag", flag((&x * &y).cast(DType::Bool))),
        ("number of x - y", pairs(&(&x - &y)).count(1).cast(dtype)),
        ("x as f16 and back", x.cast(DType::F16).cast(dtype)),
        ("n as f32", whole.cast(DType::F32).cast(dtype)),
        (
            "n - n as f32",
            whole.cast(dtype) - whole.cast(DType::F32).cast(dtype),
        ),
        (
            "x / 3 as f32",
            (&z / 8.0 + 1e-9).cast(DType::F32).cast(dtype),
        ),
        (
            "sum of padded whole numbers * x",
            (on_host(&Tensor::arange(1)).pad(0, 1, 1, 0).cast(dtype) * &unknown).sum(0),
        ),
        (
            "sum of (flag & false) * x",
            (flag(on_host(&truth) & Tensor::scalar(false)) * &unknown).sum(0),
        ),
        (
            "sum of |x[i] - x[j]|",
            (ends.expand_dims(1) - ends.expand_dims(0)).abs().sum(..),
        ),
        (
            "number of x[i] <= x[j]",
            unknown
                .expand_dims(1)
                .le(unknown.expand_dims(0))
                .count(..)
                .cast(dtype),
        ),
        (
            "running sum of x[0] - x",
            (unknown.slice(0, 2..3) - &unknown + &ones).cumsum(0),
        ),
    ]
}

#[test]
fn choices_of_nan_and_infinities_are_those_of_the_host() {
    for gpu in every_adapter() {
        assert_same_bits::<f32>(gpu, &choices(DType::F32));
        match gpu.require("f64", &[Feature::F64, Feature::Int64]) {
            Ok(()) => assert_same_bits::<f64>(gpu, &choices(DType::F64)),
            Err(missing) => gpu_wgsl::check::skip(&missing.to_string()),
        }
    }
}

#[test]
fn operations_on_operands_that_a_compiler_can_compute_are_those_of_the_host() {
    for gpu in every_adapter() {
        assert_same_bits::<f32>(gpu, &known_operands(DType::F32));
        match gpu.require("f64", &[Feature::F64, Feature::Int64]) {
            Ok(()) => assert_same_bits::<f64>(gpu, &known_operands(DType::F64)),
            Err(missing) => gpu_wgsl::check::skip(&missing.to_string()),
        }
    }
}

#[test]
fn divisions_by_zero_and_extremes_are_those_of_the_host() {
    for gpu in every_adapter() {
        assert_same_bits::<f32>(gpu, &extremes(DType::F32));
        match gpu.require("f64", &[Feature::F64, Feature::Int64]) {
            Ok(()) => assert_same_bits::<f64>(gpu, &extremes(DType::F64)),
            Err(missing) => gpu_wgsl::check::skip(&missing.to_string()),
        }
    }
}
