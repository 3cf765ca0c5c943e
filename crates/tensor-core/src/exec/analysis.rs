//! How far an executor may be off: running error analysis.
//!
//! Role: gives every value of a nest a bound on its absolute error, so that the oracle and an executor can be compared
//! on any program, cancelling and discontinuous ones too.
//! Method: the inputs of a step count as exact. Each operation hands on the errors of its operands (through the
//! function itself where it is monotone, else through its slope) and adds its own rounding, which is nothing where
//! the result needs none: programs on small dyadic numbers stay exact. Where a comparison could fall either way, its
//! result is uncertain, and so is what it decides; an uncertain element has an infinite bound. A finite bound on NaN
//! or infinity says that every executor gives the same; so a result that may overflow, or not, has none.
//! Source: Higham 2002, "Accuracy and Stability of Numerical Algorithms", sections 3.3 and 4.3.

use crate::dtype::{DType, Scalar};
use crate::op::{Binary, Compare, Reduce, Unary};

/// Own error of a library function, in units of the last place.
const FUNCTION_ULPS: f64 = 4.0;
/// Own error of an IEEE operation, in units of the last place; room for a fused or reordered neighbour included.
const BASIC_ULPS: f64 = 1.0;
/// The error of a zero of which only the sign is open: where sums begin, and which of two zeros is the larger, is the
/// executor's choice. It matters to what divides by the zero, and to nothing else.
const OPEN_SIGN: f64 = f64::from_bits(1);

/// A value with the error it may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Approximate {
    pub(crate) value: Scalar,
    /// Infinite if nothing can be said. Of a `bool`, an integer or a position anything but 0 means uncertain.
    pub(crate) error: f64,
}

impl Approximate {
    fn float(self) -> f64 {
        self.value.to_f64()
    }

    fn has_open_sign(self) -> bool {
        self.error == OPEN_SIGN && self.float() == 0.0
    }

    /// The same, with its sign taken for certain.
    fn signed(self) -> Self {
        let error = if self.has_open_sign() {
            0.0
        } else {
            self.error
        };
        Self { error, ..self }
    }
}

/// The spacing of numbers of a type at a value.
fn spacing(dtype: DType, value: f64) -> f64 {
    let (epsilon, tiny) = match dtype {
        DType::F32 => (f64::from(f32::EPSILON), f64::from(f32::MIN_POSITIVE)),
        DType::F64 => (f64::EPSILON, f64::MIN_POSITIVE),
        DType::F16 => (f64::powi(2.0, -10), f64::powi(2.0, -14)),
        DType::I32 | DType::U32 | DType::Bool => return 0.0,
    };
    if value.is_finite() {
        value.abs().max(tiny) * epsilon
    } else {
        0.0
    }
}

/// The largest finite number of a type of floats.
fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(f32::MAX),
        DType::F16 => f64::from(half::f16::MAX),
        _ => f64::MAX,
    }
}

/// Nothing can be said once an error overflows or comes from NaN, or once an inexact result may have overflowed.
fn settled(result: Scalar, error: f64) -> f64 {
    let may_overflow = error > 0.0 && result.to_f64().abs() + error > largest(result.dtype());
    if error.is_finite() && !may_overflow {
        error
    } else {
        f64::INFINITY
    }
}

/// A zero made from a zero of open sign has an open sign too.
fn open_again(result: Scalar, error: f64) -> f64 {
    if result.to_f64() == 0.0 {
        error.max(OPEN_SIGN)
    } else {
        error
    }
}

/// How far apart two results are that differ at all.
fn reach(a: f64, b: f64) -> f64 {
    if a == b || a.is_nan() && b.is_nan() {
        0.0
    } else if a.is_nan() || b.is_nan() {
        f64::INFINITY
    } else {
        (a - b).abs()
    }
}

/// The error of `op(x)`, whose value is `result`.
pub(crate) fn unary(op: Unary, x: Approximate, result: Scalar) -> f64 {
    if op == Unary::IsNan {
        return certain_if(x.error.is_finite());
    }
    if !x.value.dtype().is_float() || x.error.is_infinite() {
        return certain_if(x.error == 0.0);
    }
    if x.has_open_sign() {
        let recip = op == Unary::Recip;
        return if recip {
            f64::INFINITY
        } else {
            open_again(result, unary(op, x.signed(), result))
        };
    }
    let ulps = match op {
        Unary::Neg | Unary::Abs | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => 0.0,
        Unary::Sqrt | Unary::Recip => BASIC_ULPS,
        // Whether a function overflows near the edge is its library's choice.
        Unary::Exp if result.to_f64().is_infinite() && x.float().is_finite() => {
            return f64::INFINITY;
        }
        _ => FUNCTION_ULPS,
    };
    let own = ulps * spacing(result.dtype(), result.to_f64());
    if x.error == 0.0 {
        return own;
    }
    let at = |shift: f64| op.eval(Scalar::F64(x.float() + shift)).to_f64();
    let spread = match op {
        Unary::Sin | Unary::Cos => x.error,
        Unary::Recip if x.float().abs() <= x.error => f64::INFINITY,
        _ => reach(at(x.error), at(0.0)).max(reach(at(-x.error), at(0.0))),
    };
    settled(result, spread + own)
}

/// The error of `op(a, b)`, whose value is `result`.
pub(crate) fn binary(op: Binary, a: Approximate, b: Approximate, result: Scalar) -> f64 {
    if !a.value.dtype().is_float() {
        return certain_if(a.error == 0.0 && b.error == 0.0);
    }
    if a.has_open_sign() || b.has_open_sign() {
        let divides = matches!(op, Binary::Div | Binary::FloorDiv | Binary::Pow);
        let error = binary(op, a.signed(), b.signed(), result);
        return if divides {
            f64::INFINITY
        } else {
            open_again(result, error)
        };
    }
    let exact = a.error == 0.0 && b.error == 0.0;
    let (x, y) = (a.float().abs(), b.float().abs());
    let own = BASIC_ULPS * spacing(result.dtype(), result.to_f64());
    // To the power of 0 even NaN gives 1.
    let hands_on_nan = (x.is_nan() || y.is_nan())
        && a.error.is_finite()
        && b.error.is_finite()
        && op != Binary::Pow;
    let overflows = result.to_f64().is_infinite() && x.is_finite() && y.is_finite();
    settled(
        result,
        match op {
            _ if hands_on_nan => 0.0,
            // A fused or reordered neighbour might not overflow.
            Binary::Add | Binary::Sub | Binary::Mul | Binary::Pow if overflows => f64::INFINITY,
            Binary::Add | Binary::Sub | Binary::Mul if exact && is_exact(op, a, b, result) => 0.0,
            Binary::Add | Binary::Sub => a.error + b.error + own,
            Binary::Mul if exact => own,
            Binary::Mul => x * b.error + y * a.error + a.error * b.error + own,
            Binary::Div if exact => own,
            Binary::Div if y <= b.error => f64::INFINITY,
            Binary::Div => (x * b.error + y * a.error) / (y * (y - b.error)) + own,
            Binary::Maximum | Binary::Minimum if x == 0.0 && y == 0.0 => {
                a.error.max(b.error).max(OPEN_SIGN)
            }
            Binary::Maximum | Binary::Minimum => a.error.max(b.error),
            Binary::FloorDiv | Binary::Rem => certain_if(exact) + own,
            Binary::Pow if exact => FUNCTION_ULPS * own,
            // The slopes of a^b, doubled for what is not linear; below zero only whole b have a power.
            Binary::Pow
                if a.error < x / 4.0 && b.error < 1.0 && (a.float() > 0.0 || b.error == 0.0) =>
            {
                let relative = y * a.error / x + x.ln().abs() * b.error;
                2.0 * result.to_f64().abs() * relative.exp_m1() + FUNCTION_ULPS * own
            }
            Binary::Pow => f64::INFINITY,
            Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr => certain_if(exact),
        },
    )
}

/// Whether a sum, difference or product of exact floats was not rounded.
fn is_exact(op: Binary, a: Approximate, b: Approximate, result: Scalar) -> bool {
    let (a, b) = (a.float(), b.float());
    let (wide, lost) = match op {
        Binary::Mul => (a * b, a.mul_add(b, -(a * b))),
        _ => {
            // What rounding took from a sum, by Knuth.
            let b = if op == Binary::Sub { -b } else { b };
            let sum = a + b;
            let b_part = sum - a;
            (sum, (a - (sum - b_part)) + (b - b_part))
        }
    };
    lost == 0.0 && wide == result.to_f64()
}

/// The error of a comparison: none if the errors of its operands cannot change it.
pub(crate) fn compare(_: Compare, a: Approximate, b: Approximate) -> f64 {
    let (a, b) = (a.signed(), b.signed());
    let exact = a.error == 0.0 && b.error == 0.0;
    let gap = (a.float() - b.float()).abs();
    let finite = a.error.is_finite() && b.error.is_finite();
    let has_nan = a.float().is_nan() || b.float().is_nan();
    certain_if(exact || gap > a.error + b.error || has_nan && finite)
}

/// The error of a choice, given which side was taken.
pub(crate) fn select(condition: Approximate, taken: Approximate, other: Approximate) -> f64 {
    if condition.error == 0.0 || taken.value == other.value && taken.error == other.error {
        taken.error
    } else if taken.value.dtype().is_float() {
        let gap = (taken.float() - other.float()).abs();
        settled(taken.value, gap + taken.error.max(other.error))
    } else {
        f64::INFINITY
    }
}

/// The error of a conversion, whose value is `result`.
pub(crate) fn cast(x: Approximate, result: Scalar) -> f64 {
    if x.has_open_sign() {
        return if is_any_float(result) { OPEN_SIGN } else { 0.0 };
    }
    let is_kept = x.float() == result.to_f64();
    let rounding = spacing(result.dtype(), result.to_f64());
    if x.error == 0.0 {
        return if is_kept { 0.0 } else { rounding };
    }
    if is_any_float(result) && is_any_float(x.value) {
        return settled(result, x.error + rounding);
    }
    if result.dtype() == DType::Bool && x.float().abs() <= x.error {
        // Both ends of the interval are true, and 0 lies between them.
        return f64::INFINITY;
    }
    let moved = |shift: f64| Scalar::F64(x.float() + shift).cast(result.dtype());
    certain_if(x.error.is_finite() && moved(x.error) == result && moved(-x.error) == result)
}

fn is_any_float(x: Scalar) -> bool {
    matches!(x.dtype(), DType::F32 | DType::F64 | DType::F16)
}

fn certain_if(certain: bool) -> f64 {
    if certain { 0.0 } else { f64::INFINITY }
}

/// The error of a reduction, gathered element by element.
#[derive(Debug)]
pub(crate) struct FoldError {
    op: Reduce,
    n: f64,
    /// The errors' sum, and the largest.
    errors: f64,
    worst: f64,
    /// The sum of magnitudes, and a power of two that divides every element.
    sum: f64,
    granule: f64,
    /// The product of magnitudes, and the same with all errors added.
    product: f64,
    product_and_error: f64,
    /// The largest and the smallest magnitude that a product of some elements has.
    most: f64,
    least: f64,
    /// Whether NaN or infinity is among the elements.
    special: bool,
}

impl FoldError {
    pub(crate) fn new(op: Reduce) -> Self {
        Self {
            op,
            n: 0.0,
            errors: 0.0,
            worst: 0.0,
            sum: 0.0,
            granule: f64::INFINITY,
            product: 1.0,
            product_and_error: 1.0,
            most: 1.0,
            least: 1.0,
            special: false,
        }
    }

    pub(crate) fn push(&mut self, x: Approximate) {
        let x = x.signed();
        self.n += 1.0;
        self.errors += x.error;
        self.worst = self.worst.max(x.error);
        let size = x.float().abs();
        if !size.is_finite() {
            self.special = true;
            return;
        }
        self.sum += size;
        self.product *= size;
        self.product_and_error *= size + x.error;
        self.most *= (size + x.error).max(1.0);
        if size > 0.0 {
            self.granule = self.granule.min(granule(size));
            self.least *= size.min(1.0);
        }
    }

    /// `result` is what the reduction gave.
    pub(crate) fn finish(&self, result: Scalar) -> f64 {
        let dtype = result.dtype();
        if !dtype.is_float() {
            return certain_if(self.errors == 0.0);
        }
        settled(
            result,
            match self.op {
                Reduce::Sum => self.of_sum(dtype),
                Reduce::Prod => self.of_product(dtype),
                _ => open_again(result, self.worst),
            },
        )
    }

    /// Any order of n additions, and a rounding of each term where it is a product taken apart or fused.
    fn of_sum(&self, dtype: DType) -> f64 {
        let size = self.sum + self.errors;
        let unit = spacing(dtype, 1.0);
        if size > largest(dtype) {
            return f64::INFINITY;
        }
        // No partial sum needs more digits than the type has.
        let is_exact = self.errors == 0.0 && self.sum * unit <= 2.0 * self.granule;
        if self.special || is_exact {
            return if self.special || self.sum > 0.0 {
                0.0
            } else {
                OPEN_SIGN
            };
        }
        // In units of the last place: half a unit each, but no more than six standard deviations of independent ones
        // (Higham and Mary 2019, "A new approach to probabilistic rounding error analysis").
        let roundings = (self.n / 2.0).min(3.0 * self.n.sqrt()) + 2.0;
        self.errors + roundings * unit * size + (self.n + 1.0) * spacing(dtype, 0.0)
    }

    /// Any order of n multiplications; what underflows on the way may grow again.
    fn of_product(&self, dtype: DType) -> f64 {
        let (unit, tiny) = (spacing(dtype, 1.0), spacing(dtype, 0.0));
        if self.most > largest(dtype) {
            return f64::INFINITY;
        }
        if self.special {
            return certain_if(self.errors == 0.0 && self.least * unit > tiny);
        }
        let size = self.product_and_error;
        size - self.product + (self.n + 1.0) * (unit * size + tiny * self.most)
    }
}

/// The power of two that the last digit of a positive float stands for.
fn granule(x: f64) -> f64 {
    let digits = f64::MANTISSA_DIGITS - 1;
    let (exponent, fraction) = (x.to_bits() >> digits, x.to_bits() & ((1 << digits) - 1));
    let last = fraction.trailing_zeros().min(digits);
    // A float without its leading digit's implicit 1 is subnormal, of the exponent 1.
    let unit = f64::from_bits(exponent.max(1) << digits) * f64::EPSILON;
    if exponent == 0 && fraction == 0 {
        0.0
    } else {
        unit * f64::powi(2.0, last.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approximate(value: f32, error: f64) -> Approximate {
        Approximate {
            value: Scalar::F32(value),
            error,
        }
    }

    fn of_unary(op: Unary, x: Approximate) -> f64 {
        unary(op, x, op.eval(x.value))
    }

    fn of_binary(op: Binary, a: Approximate, b: Approximate) -> f64 {
        binary(op, a, b, op.eval(a.value, b.value))
    }

    fn of_fold(op: Reduce, elements: &[f32], result: f32) -> f64 {
        let mut fold = FoldError::new(op);
        for &element in elements {
            fold.push(approximate(element, 0.0));
        }
        fold.finish(Scalar::F32(result))
    }

    #[test]
    fn a_root_or_logarithm_that_may_lie_below_zero_is_uncertain() {
        let near_zero = approximate(1e-10, 1e-9);
        assert_eq!(of_unary(Unary::Sqrt, near_zero), f64::INFINITY);
        assert_eq!(of_unary(Unary::Ln, near_zero), f64::INFINITY);
        assert_eq!(of_unary(Unary::Sqrt, approximate(-1.0, 0.5)), 0.0);
        let power = of_binary(Binary::Pow, approximate(-2.0, 0.0), approximate(3.0, 1e-6));
        assert_eq!(power, f64::INFINITY);
    }

    #[test]
    fn nan_is_certain_only_where_it_came_for_certain() {
        let (maybe, surely) = (
            approximate(f32::NAN, f64::INFINITY),
            approximate(f32::NAN, 0.0),
        );
        assert_eq!(of_unary(Unary::Sigmoid, maybe), f64::INFINITY);
        assert_eq!(of_unary(Unary::Sigmoid, surely), 0.0);
        let near_one = approximate(1.0, 1e-7);
        assert_eq!(of_binary(Binary::Mul, surely, near_one), 0.0);
        assert_eq!(of_binary(Binary::Mul, maybe, near_one), f64::INFINITY);
        assert_eq!(compare(Compare::Lt, surely, near_one), 0.0);
        assert_eq!(compare(Compare::Lt, maybe, near_one), f64::INFINITY);
    }

    #[test]
    fn a_number_that_may_be_zero_has_an_uncertain_truth() {
        let truth = |x: Approximate| cast(x, x.value.cast(DType::Bool));
        assert_eq!(truth(approximate(1.0, 2.0)), f64::INFINITY);
        assert_eq!(truth(approximate(1.0, 0.5)), 0.0);
        assert_eq!(truth(approximate(0.0, 0.0)), 0.0);
    }

    #[test]
    fn results_that_need_no_rounding_have_no_error() {
        let (a, b) = (approximate(1.25, 0.0), approximate(-2.5, 0.0));
        for op in [Binary::Add, Binary::Sub, Binary::Mul] {
            assert_eq!(of_binary(op, a, b), 0.0, "{}", op.name());
        }
        assert!(of_binary(Binary::Add, a, approximate(1e-9, 0.0)) > 0.0);
        assert!(of_binary(Binary::Mul, approximate(1.1, 0.0), approximate(1.1, 0.0)) > 0.0);
        assert_eq!(of_fold(Reduce::Sum, &[0.25, -3.5, 1000.0], 996.75), 0.0);
        assert!(of_fold(Reduce::Sum, &[0.25, 16_777_216.0], 16_777_216.0) > 0.0);
        assert_eq!(granule(0.75), 0.25);
        assert_eq!(granule(96.0), 32.0);
        assert_eq!(granule(f64::from_bits(6)), f64::from_bits(2));
    }

    #[test]
    fn a_sum_that_may_overflow_on_its_way_is_uncertain_and_infinity_is_not() {
        assert_eq!(
            of_fold(Reduce::Sum, &[3e38, 3e38, -3e38], 3e38),
            f64::INFINITY
        );
        assert_eq!(
            of_fold(Reduce::Prod, &[1e30, 1e30, 1e-30], 1e30),
            f64::INFINITY
        );
        assert_eq!(
            of_fold(Reduce::Sum, &[f32::INFINITY, 1.1], f32::INFINITY),
            0.0
        );
        assert_eq!(of_fold(Reduce::Sum, &[f32::NAN, 1.1], f32::NAN), 0.0);
        assert_eq!(
            of_binary(Binary::Add, approximate(3e38, 0.0), approximate(3e38, 0.0)),
            f64::INFINITY
        );
    }

    #[test]
    fn the_sign_of_a_sum_of_nothing_matters_to_a_division_alone() {
        let error = of_fold(Reduce::Sum, &[-0.0, -0.0], -0.0);
        let zero = approximate(-0.0, error);
        assert_eq!(compare(Compare::Eq, zero, approximate(0.0, 0.0)), 0.0);
        assert_eq!(of_binary(Binary::Add, zero, approximate(1.0, 0.0)), 0.0);
        assert_eq!(of_unary(Unary::Recip, zero), f64::INFINITY);
        let negated = approximate(0.0, of_unary(Unary::Neg, zero));
        assert_eq!(
            of_binary(Binary::Div, approximate(1.0, 0.0), negated),
            f64::INFINITY
        );
    }
}
