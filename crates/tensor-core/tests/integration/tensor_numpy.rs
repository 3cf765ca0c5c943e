//! Programs on tensors return the same results as `NumPy`, on every executor of this crate.
//!
//! Role: reads `testdata/tensor.txt`, which `NumPy` wrote, and documents the intended differences
//! between tensors and `NumPy`.
//! Method: a line contains a program (steps joined by `|`, each a name and numbers), its operands,
//! and the expected result or error. Results must be equal, including NaN, infinities and the signs
//! of zeros. Only functions without a correctly rounded implementation have a tolerance.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::fmt::Debug;
use std::str::FromStr;

use half::f16;
use tensor_core::compare::{self, Mismatch, Tolerance, assert_close, compare};
use tensor_core::ndarray::{ArrayD, array};
use tensor_core::op::{Binary, Rounding, Unary};
use tensor_core::view::Slice;
use tensor_core::{
    Axes, DType, Element, Executor, Host, Reference, ScanAxis, SortAxis, Tensor, array,
};

/// The number of lines of `tensor.txt`, so that a truncated file is detected.
const N_LINES: usize = 1_235;

/// The tolerance of functions, in epsilons: `NumPy` and the executors may each be off by up to
/// four.
const FUNCTION_EPSILONS: usize = 8;

fn executors() -> [Box<dyn Executor>; 2] {
    [Box::new(Host::new()), Box::new(Reference)]
}

/// A step of a program.
struct Step<'a> {
    name: &'a str,
    arguments: Vec<&'a str>,
}

impl<'a> Step<'a> {
    fn new(text: &'a str) -> Self {
        let mut words = text.split_whitespace();
        Self {
            name: words.next().unwrap(),
            arguments: words.collect(),
        }
    }

    fn number<T: FromStr<Err: Debug>>(&self, at: usize) -> T {
        self.arguments[at].parse().unwrap()
    }

    fn numbers<T: FromStr<Err: Debug>>(&self) -> Vec<T> {
        (0..self.arguments.len())
            .map(|at| self.number(at))
            .collect()
    }

    fn axis(&self) -> isize {
        self.number(0)
    }

    fn slice(&self) -> Slice {
        let bound = |at: usize| (self.arguments[at] != "_").then(|| self.number(at));
        Slice {
            start: bound(1),
            stop: bound(2),
            step: self.number(3),
        }
    }

    fn axes(&self) -> Axes {
        let axes = if self.arguments == [".."] {
            Axes::from(..)
        } else {
            Axes::from(&self.numbers::<isize>()[..])
        };
        if self.name.ends_with("_keep") {
            Axes::keepdims(axes)
        } else {
            axes
        }
    }

    fn apply(&self, operands: &[Tensor]) -> Tensor {
        let borrowed: Vec<&Tensor> = operands.iter().collect();
        match (self.name, operands) {
            ("select", [condition, yes, no]) => condition.select(yes, no),
            ("clip", [x, low, high]) => x.clip(low, high),
            ("concat", _) => Tensor::concat(&borrowed, self.axis()),
            ("stack", _) => Tensor::stack(&borrowed, self.axis()),
            (name, [x, index, values]) if name.starts_with("scatter") => {
                self.scatter(x, index, values)
            }
            ("bincount", [index]) => index.bincount(self.number(0)),
            ("histogram", [x]) => x.histogram(self.number(0), self.number(1), self.number(2)),
            (_, [a]) => self
                .unary(a)
                .or_else(|| self.view(a))
                .or_else(|| self.reduction(a))
                .or_else(|| self.scan(a))
                .or_else(|| self.sort(a))
                .unwrap(),
            (_, [a, b]) => self.binary(a, b).unwrap(),
            _ => panic!("{} of {} operands", self.name, operands.len()),
        }
    }

    fn unary_operation(&self) -> Option<Unary> {
        Unary::ALL.into_iter().find(|op| op.name() == self.name)
    }

    fn unary(&self, x: &Tensor) -> Option<Tensor> {
        if let Some(op) = self.unary_operation() {
            return Some(x.unary(op));
        }
        Some(match self.name {
            "exp2" => x.exp2(),
            "expm1" => x.expm1(),
            "log1p" => x.log1p(),
            "square" => x.square(),
            "relu" => x.relu(),
            "sign" => x.sign(),
            "lt_1" => x.lt(1),
            "cast" => x.cast(dtype(self.arguments[0])),
            _ => return None,
        })
    }

    fn binary(&self, a: &Tensor, b: &Tensor) -> Option<Tensor> {
        Some(match self.name {
            "add" => a + b,
            "sub" => a - b,
            "mul" => a * b,
            "div" => a / b,
            "floor_div" => a.floor_div(b),
            "rem" => a % b,
            "pow" => a.pow(b),
            "maximum" => a.maximum(b),
            "minimum" => a.minimum(b),
            "and" => a & b,
            "or" => a | b,
            "xor" => a ^ b,
            "shl" => a.shl(b),
            "shr" => a.shr(b),
            "dot4_i8" => a.dot4_i8(b),
            "lt" => a.lt(b),
            "le" => a.le(b),
            "gt" => a.gt(b),
            "ge" => a.ge(b),
            "eq" => a.eq(b),
            "ne" => a.ne(b),
            "matmul" => a.matmul(b),
            "gather" => a.gather(b, self.axis()),
            "take_along_axis" => a.take_along_axis(b, self.axis()),
            _ => return None,
        })
    }

    fn view(&self, x: &Tensor) -> Option<Tensor> {
        Some(match self.name {
            "reshape" => x.reshape(&self.numbers::<usize>()),
            "flatten" => x.flatten(),
            "permute" => x.permute(&self.numbers::<isize>()),
            "t" => x.t(),
            "expand_dims" => x.expand_dims(self.axis()),
            "squeeze" => x.squeeze(self.axis()),
            "broadcast_to" => x.broadcast_to(&self.numbers::<usize>()),
            "slice" => x.slice(self.axis(), self.slice()),
            "flip" => x.flip(self.axis()),
            "window" => x.window(self.axis(), self.number(1), self.number(2)),
            "swap_axes" => x.swap_axes(self.axis(), self.number::<isize>(1)),
            "tril" => x.tril(self.number(0)),
            "triu" => x.triu(self.number(0)),
            "split" => x.split(self.axis(), self.number(1))[self.number::<usize>(2)].clone(),
            "pad" => x.pad(
                self.axis(),
                self.number(1),
                self.number(2),
                self.number::<i32>(3),
            ),
            _ => return None,
        })
    }

    fn reduction(&self, x: &Tensor) -> Option<Tensor> {
        Some(match self.name.trim_end_matches("_keep") {
            "sum" => x.sum(self.axes()),
            "prod" => x.prod(self.axes()),
            "max" => x.max(self.axes()),
            "min" => x.min(self.axes()),
            "all" => x.all(self.axes()),
            "any" => x.any(self.axes()),
            "count" => x.count(self.axes()),
            "mean" => x.mean(self.axes()),
            "var0" => x.var(self.axes(), 0),
            "var1" => x.var(self.axes(), 1),
            "std0" => x.std(self.axes(), 0),
            "std1" => x.std(self.axes(), 1),
            "argmax" => x.argmax(self.axis()),
            "argmin" => x.argmin(self.axis()),
            "softmax" => x.softmax(self.axis()),
            _ => return None,
        })
    }

    fn scan(&self, x: &Tensor) -> Option<Tensor> {
        let mut along = ScanAxis::new(self.number::<isize>(0));
        let mut parts = self.name.split('_');
        let name = parts.next();
        for part in parts {
            along = match part {
                "reversed" => along.reversed(),
                "exclusive" => along.exclusive(),
                _ => return None,
            };
        }
        Some(match name? {
            "cumsum" => x.cumsum(along),
            "cumprod" => x.cumprod(along),
            "cummax" => x.cummax(along),
            "cummin" => x.cummin(along),
            _ => return None,
        })
    }

    fn scatter(&self, x: &Tensor, index: &Tensor, values: &Tensor) -> Tensor {
        let axis: isize = self.number(0);
        match self.name {
            "scatter_add" => x.scatter_add(index, values, axis),
            "scatter_max" => x.scatter_max(index, values, axis),
            "scatter_min" => x.scatter_min(index, values, axis),
            "scatter_add_along_axis" => x.scatter_add_along_axis(index, values, axis),
            "scatter_max_along_axis" => x.scatter_max_along_axis(index, values, axis),
            "scatter_min_along_axis" => x.scatter_min_along_axis(index, values, axis),
            name => panic!("no operation {name}"),
        }
    }

    fn sort(&self, x: &Tensor) -> Option<Tensor> {
        let axis = SortAxis::new(self.number::<isize>(0));
        Some(match self.name {
            "sort" => x.sort(axis),
            "sort_descending" => x.sort(axis.descending()),
            "argsort" => x.argsort(axis),
            "argsort_descending" => x.argsort(axis.descending()),
            "topk" => x.topk(self.number(0), self.number::<isize>(1)).0,
            "topk_positions" => x.topk(self.number(0), self.number::<isize>(1)).1,
            _ => return None,
        })
    }

    /// Returns the tolerance of a result relative to `NumPy`, in epsilons.
    fn epsilons(&self) -> usize {
        if let Some(op) = self.unary_operation() {
            return match op.rounding() {
                Rounding::Exact | Rounding::Ieee => 0,
                Rounding::Function => FUNCTION_EPSILONS,
            };
        }
        match self.name {
            "exp2" | "expm1" | "log1p" | "pow" | "softmax" => FUNCTION_EPSILONS,
            // A variance consists of a mean and a sum, each over a few elements in an unspecified
            // order.
            name if name.starts_with("var") || name.starts_with("std") => FUNCTION_EPSILONS,
            _ => 0,
        }
    }

    /// Returns `true` if the sign of a zero result is defined. It is not defined for the larger of
    /// two equal zeros, and for a sum of only negative zeros.
    fn zeros_have_a_sign(&self) -> bool {
        let open = [
            "maximum", "minimum", "max", "min", "relu", "clip", "sum", "mean", "cumsum", "cummax",
            "cummin",
        ];
        let scanned = self.name.trim_end_matches("_exclusive");
        let scanned = scanned.trim_end_matches("_reversed");
        !open.contains(&scanned.trim_end_matches("_keep"))
    }
}

fn dtype(name: &str) -> DType {
    DType::ALL
        .into_iter()
        .find(|dtype| dtype.to_string() == name)
        .unwrap()
}

/// Splits `f32[2,3] 1 2 …` into type, shape and elements.
fn parts(text: &str) -> (DType, Vec<usize>, Vec<&str>) {
    let (name, rest) = text.split_once('[').unwrap();
    let (shape, words) = rest.split_once(']').unwrap();
    let shape = shape
        .split(',')
        .filter(|size| !size.is_empty())
        .map(|size| size.parse().unwrap());
    (
        dtype(name),
        shape.collect(),
        words.split_whitespace().collect(),
    )
}

fn parsed<T: FromStr<Err: Debug>>(words: &[&str]) -> Vec<T> {
    words.iter().map(|word| word.parse().unwrap()).collect()
}

fn flags(words: &[&str]) -> Vec<bool> {
    words.iter().map(|&word| word == "1").collect()
}

fn tensor(text: &str) -> Tensor {
    let (dtype, shape, words) = parts(text);
    match dtype {
        DType::F32 => Tensor::from_vec(&shape, parsed::<f32>(&words)),
        DType::F64 => Tensor::from_vec(&shape, parsed::<f64>(&words)),
        DType::I32 => Tensor::from_vec(&shape, parsed::<i32>(&words)),
        DType::U32 => Tensor::from_vec(&shape, parsed::<u32>(&words)),
        DType::Bool => Tensor::from_vec(&shape, flags(&words)),
        DType::F16 => Tensor::from_vec(&shape, parsed::<f16>(&words)),
    }
}

/// Compares floats, and the signs of zeros if they are defined.
fn check_floats<T>(
    actual: &ArrayD<T>,
    shape: &[usize],
    words: &[&str],
    program: &[Step<'_>],
) -> Result<(), Mismatch>
where
    T: Element + compare::Element + FromStr<Err: Debug> + Into<f64>,
{
    let expected = array::from_vec(shape, parsed::<T>(words)).unwrap();
    let epsilons = program.iter().map(Step::epsilons).max().unwrap();
    compare(
        actual,
        &expected,
        &Tolerance::relative(epsilons).allow_empty(),
    )?;
    if program.iter().all(Step::zeros_have_a_sign) {
        let is_negative_zero = |&x: &T| 1.0 / x.into() == f64::NEG_INFINITY;
        let (actual, expected) = (actual.map(is_negative_zero), expected.map(is_negative_zero));
        compare(actual, expected, &Tolerance::exact().allow_empty())?;
    }
    Ok(())
}

fn check_exact<T: Element + compare::Element>(
    actual: &ArrayD<T>,
    shape: &[usize],
    expected: Vec<T>,
) -> Result<(), Mismatch> {
    let expected = array::from_vec(shape, expected).unwrap();
    compare(actual, expected, &Tolerance::exact().allow_empty()).map(drop)
}

fn check(
    result: &Tensor,
    expected: &str,
    program: &[Step<'_>],
    executor: &dyn Executor,
) -> Result<(), String> {
    let (dtype, shape, words) = parts(expected);
    let actual = (result.dtype().map_err(text)?, result.shape().map_err(text)?);
    if actual != (dtype, &shape) {
        return Err(format!("got {actual:?}"));
    }
    let floats = match dtype {
        DType::F32 => check_floats(
            &result.eval::<f32>(executor).map_err(text)?,
            &shape,
            &words,
            program,
        ),
        DType::F64 => check_floats(
            &result.eval::<f64>(executor).map_err(text)?,
            &shape,
            &words,
            program,
        ),
        DType::I32 => check_exact(
            &result.eval::<i32>(executor).map_err(text)?,
            &shape,
            parsed(&words),
        ),
        DType::U32 => check_exact(
            &result.eval::<u32>(executor).map_err(text)?,
            &shape,
            parsed(&words),
        ),
        DType::Bool => check_exact(
            &result.eval::<bool>(executor).map_err(text)?,
            &shape,
            flags(&words),
        ),
        DType::F16 => {
            // The comparator does not support half precision; every f16 is an f32.
            let wide = result.eval::<f16>(executor).map_err(text)?.mapv(f32::from);
            check_floats(&wide, &shape, &words, program)
        }
    };
    floats.map_err(text)
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Returns the name of the error that a tensor has from the start or that its evaluation returns.
fn refusal(result: &Tensor, executor: &dyn Executor) -> String {
    match result.realize(executor) {
        Ok(_) => "nothing".to_owned(),
        Err(error) => {
            let text = format!("{:?}", error.root());
            text.split(|letter: char| !letter.is_alphanumeric())
                .next()
                .unwrap()
                .to_owned()
        }
    }
}

fn run(line: &str, executor: &dyn Executor) -> Result<(), String> {
    let fields: Vec<&str> = line.split("; ").collect();
    let [program, operands @ .., expected] = &fields[..] else {
        panic!("a line has a program and a result");
    };
    let operands: Vec<Tensor> = operands.iter().map(|text| tensor(text)).collect();
    let program: Vec<Step<'_>> = program.split('|').map(Step::new).collect();
    let (first, rest) = program.split_first().unwrap();
    let start = first.apply(&operands);
    let result = rest.iter().fold(start, |x, step| step.apply(&[x]));
    let Some(expected) = expected.strip_prefix("refused ") else {
        return check(&result, expected, &program, executor);
    };
    let actual = refusal(&result, executor);
    if actual == expected {
        Ok(())
    } else {
        Err(format!("error: {actual} (expected {expected})"))
    }
}

#[test]
fn numpy_gives_the_same() {
    let lines: Vec<&str> = include_str!("../../testdata/tensor.txt").lines().collect();
    assert_eq!(lines.len(), N_LINES);
    for name in Unary::ALL
        .map(Unary::name)
        .into_iter()
        .chain(Binary::ALL.map(Binary::name))
    {
        let has_line = lines
            .iter()
            .any(|line| line.starts_with(&format!("{name};")));
        assert!(has_line, "{name} has no line in tensor.txt");
    }
    let mut failed = Vec::new();
    for executor in executors() {
        for line in &lines {
            if let Err(why) = run(line, executor.as_ref()) {
                failed.push(format!("{}: {line}\n  {why}", executor.name()));
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} lines differ:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// Asserts that every executor rejects a tensor with an error of this name.
#[track_caller]
fn assert_rejected(tensor: &Tensor, expected: &str) {
    for executor in executors() {
        assert_eq!(refusal(tensor, executor.as_ref()), expected);
    }
}

/// Asserts that every executor computes exactly these elements.
#[track_caller]
fn assert_gives<T: Element + compare::Element, const N: usize>(tensor: &Tensor, expected: [T; N]) {
    for executor in executors() {
        let actual = tensor.eval::<T>(executor.as_ref()).unwrap();
        assert_close(actual.flatten(), expected, Tolerance::exact());
    }
}

// The intended differences from NumPy.

#[test]
fn two_types_meet_only_after_a_cast() {
    let (i, f) = (
        Tensor::from_array(array![1, 2]),
        Tensor::from_array(array![0.5_f32, 0.5]),
    );
    assert_rejected(&(&i + &f), "DTypeMismatch");
    assert_rejected(&f.gt(f.cast(DType::F64)), "DTypeMismatch");
    assert_rejected(&i.matmul(&f), "DTypeMismatch");
    assert_rejected(&Tensor::concat(&[&i, &f], 0), "DTypeMismatch");
    assert_gives(&(i.cast(DType::F32) + &f), [1.5_f32, 2.5]);
}

#[test]
fn a_number_takes_the_type_of_the_tensor_or_is_rejected() {
    let (i, u) = (
        Tensor::from_array(array![1, 2]),
        Tensor::from_array(array![1_u32, 2]),
    );
    assert_gives(&(&u * 2), [2_u32, 4]);
    assert_gives(&(2 * i.cast(DType::F32)), [2.0_f32, 4.0]);
    assert_rejected(&(&i + 0.5), "Unrepresentable");
    assert_rejected(&(&u + -1), "Unrepresentable");
    assert_rejected(&i.eq(true), "Unrepresentable");
    assert_rejected(&i.maximum(u32::MAX), "Unrepresentable");
}

#[test]
fn functions_of_real_numbers_are_rejected_on_integers() {
    let i = Tensor::from_array(array![4, 9]);
    assert_rejected(&(&i / 2), "DTypeUnsupported");
    for rejected in [
        i.sqrt(),
        i.exp(),
        i.recip(),
        i.pow(2),
        i.round(),
        i.is_nan(),
        i.softmax(0),
    ] {
        assert_rejected(&rejected, "DTypeUnsupported");
    }
    assert_gives(&i.floor_div(2), [2, 4]);
}

#[test]
fn unsigned_integers_have_no_sign_to_change() {
    let u = Tensor::from_array(array![1_u32]);
    assert_rejected(&-&u, "DTypeUnsupported");
    assert_rejected(&u.abs(), "DTypeUnsupported");
    assert_gives(&(0 - &u), [u32::MAX]);
}

#[test]
fn truth_values_are_no_numbers_until_they_are_counted() {
    let b = Tensor::from_array(array![true, false, true]);
    for rejected in [
        &b + &b,
        &b * &b,
        b.maximum(&b),
        b.max(0),
        b.prod(0),
        b.argmax(0),
        b.lt(&b),
        b.matmul(&b),
    ] {
        assert_rejected(&rejected, "DTypeUnsupported");
    }
    assert_gives(&b.sum(..), [2_u32]);
    assert_gives(&b.mean(..), [2.0_f32 / 3.0]);
    let f = Tensor::from_array(array![1.0_f32, f32::NAN]);
    assert_rejected(&f.all(..), "DTypeUnsupported");
    assert_rejected(&f.and(&f), "DTypeUnsupported");
    assert_gives(&f.count(..), [2_u32]);
}

#[test]
fn half_precision_is_stored_and_converted_only() {
    let h = Tensor::from_array(array![f16::ONE, f16::NEG_ONE]);
    for rejected in [&h + &h, h.exp(), h.eq(&h), h.sum(..), h.max(..), h.mean(..)] {
        assert_rejected(&rejected, "DTypeUnsupported");
    }
    assert_gives(&h.flip(0).cast(DType::F32), [-1.0_f32, 1.0]);
}

#[test]
fn integers_are_summed_in_their_own_type_and_wrap() {
    let i = Tensor::from_array(array![i32::MAX, 1]);
    assert_gives(&i.sum(..), [i32::MIN]);
    assert_gives(&(&i * 2).prod(..), [-4]);
    assert_gives(&i.cast(DType::U32).sum(..), [1_u32 << 31]);
    // The mean of integers has the type f32.
    assert_gives(&i.mean(..), [1_073_741_824.0_f32]);
}

#[test]
fn floats_saturate_when_they_become_integers() {
    let f = Tensor::from_array(array![
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        3e9,
        -3e9,
        -1.0
    ]);
    assert_gives(
        &f.cast(DType::I32),
        [0, i32::MAX, i32::MIN, i32::MAX, i32::MIN, -1],
    );
    assert_gives(&f.cast(DType::U32), [0, u32::MAX, 0, 3_000_000_000, 0, 0]);
    assert_gives(
        &f.cast(DType::F64).cast(DType::I32),
        [0, i32::MAX, i32::MIN, i32::MAX, i32::MIN, -1],
    );
}

#[test]
fn positions_and_counts_are_u32_and_ranges_are_i32() {
    let x = Tensor::from_array(array![1.0_f32, 3.0]);
    assert_gives(&x.argmax(0), [1_u32]);
    assert_gives(&x.gt(0.0).count(..), [2_u32]);
    assert_gives(&Tensor::arange(3), [0, 1, 2]);
}

#[test]
fn the_oracle_adds_floats_in_f64() {
    let x = Tensor::from_array(array![1e8_f32, 1.0, -1e8]);
    assert_close(
        x.sum(..).eval::<f32>(&Reference).unwrap().flatten(),
        [1.0_f32],
        Tolerance::exact(),
    );
}

#[test]
fn nothing_is_not_joined() {
    assert_rejected(&Tensor::concat(&[], 0), "ConcatMismatch");
    assert_rejected(&Tensor::stack(&[], 0), "ConcatMismatch");
}
