//! Running error analysis: bounds on the errors that an executor may make.
//!
//! Role: computes a bound on the absolute error of every value of a nest, so that the reference
//! executor and another one can be compared on any program, including programs with cancellation
//! and discontinuities.
//! Method: the inputs of a step count as exact. Each operation propagates the errors of its
//! operands (by evaluating the function at both ends of the interval where it is monotone, else by
//! its slope) and adds its own rounding error. The rounding error is 0 where the result needs no
//! rounding, so programs on small dyadic numbers stay exact. A value is in one of three states:
//! - surely finite: a number with a finite error, whose interval does not reach past the largest
//!   number of the type;
//! - surely special: NaN, or the same infinity, on every executor; its error is finite;
//! - open: its error is infinite. Where a comparison could go either way, its result is open, and
//!   so is every value that depends on the choice.
//!
//! A finite result near the largest number is open. So is an infinite result that does not exceed
//! the largest number clearly, or does not do so in every order in which a fold may run. An
//! executor may fuse a product with the sum that follows: it then adds the exact product, not the
//! infinity to which the rounded product overflowed. Therefore the difference of two overflowed
//! products is open, while the difference of two infinities from other operations is surely NaN.
//! An executor may also compute a sum over sums as one sum over all terms, so a sum over overflowed
//! sums of opposite signs is open, too, and a sum over sums is exact only if no partial sum of all
//! terms is rounded, in any order.
//! Source: Higham 2002, "Accuracy and Stability of Numerical Algorithms", sections 3.3 and 4.3.

use crate::dtype::{DType, Scalar};
use crate::op::{Binary, Compare, Rounding, Spread, Unary};

pub(crate) use fold::FoldError;
#[cfg(any(test, feature = "random-programs"))]
pub(crate) use fold::Terms;

mod fold;
mod magnitudes;

/// The rounding error of a library function, in units in the last place.
const FUNCTION_ULPS: f64 = 4.0;
/// The rounding error of an IEEE operation, in units in the last place; includes the effect of a
/// fused or reordered neighbour.
const BASIC_ULPS: f64 = 1.0;
/// The error of a zero whose sign is open, which means that it may differ between executors. An
/// executor may choose the sign of the zero that a sum starts from, and which of +0 and -0 is the
/// maximum. The sign only matters if the zero is a divisor or the base of a power. The constant is
/// a mark, not a size: it is the smallest subnormal number.
const OPEN_SIGN: f64 = f64::from_bits(1);
/// The error of an infinity that is an overflowed product. An executor that fuses the product with
/// a following sum adds the exact product instead of the infinity, so only sums and differences
/// check for this mark.
const OVERFLOWED: f64 = 1.0;
/// The error of an infinity that is an overflowed sum. An executor that computes a sum over sums as
/// one sum adds the terms instead of the infinity, so only sums check for this mark.
const OVERFLOWED_SUM: f64 = 2.0;
/// The margin by which a result has to exceed the largest number of its type to count as infinite
/// on every executor, relative to this largest number. The margin is larger than any rounding
/// error. Half of the margin is reserved for the term that a fused sum subtracts.
const CLEARLY: f64 = 1.0 / 1024.0;

/// A value with a bound on its error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Approximate {
    pub(crate) value: Scalar,
    /// The absolute error; infinite if the value is open. For a `bool`, an integer or a position,
    /// any error other than 0 means that the value is uncertain.
    pub(crate) error: f64,
}

impl Approximate {
    fn float(self) -> f64 {
        self.value.to_f64()
    }

    fn has_open_sign(self) -> bool {
        self.error == OPEN_SIGN && self.float() == 0.0
    }

    /// Returns the value with the sign of a zero treated as certain.
    fn signed(self) -> Self {
        let error = if self.has_open_sign() {
            0.0
        } else {
            self.error
        };
        Self { error, ..self }
    }

    fn is_open(self) -> bool {
        self.error.is_infinite()
    }

    /// Returns `true` if the value is NaN, or the same infinity, on every executor.
    fn is_surely_special(self) -> bool {
        !self.is_open() && !self.float().is_finite()
    }

    fn is_surely_nan(self) -> bool {
        self.is_surely_special() && self.float().is_nan()
    }

    /// Returns `true` if every executor computes exactly this value.
    fn is_exact(self) -> bool {
        self.error == 0.0 || self.is_surely_special()
    }

    /// Returns `true` if the value has the same sign (positive, negative or zero) on every
    /// executor.
    fn has_sure_sign(self) -> bool {
        self.is_exact() || self.float().abs() > self.error
    }
}

/// Returns the distance between neighbouring numbers of a type at a value, or 0 for integers, NaN
/// and infinities. In the subnormal range the distance is that of the smallest normal number.
pub(super) fn spacing(dtype: DType, value: f64) -> f64 {
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

/// Returns the largest finite number of a float type.
fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(f32::MAX),
        DType::F16 => f64::from(half::f16::MAX),
        _ => f64::MAX,
    }
}

/// Returns `true` if twice `half` exceeds the largest number of the type by the margin [`CLEARLY`].
/// The argument is half a magnitude because the magnitude itself may overflow f64.
fn twice_overflows(half: f64, dtype: DType) -> bool {
    half > largest(dtype) * (0.5 + CLEARLY / 2.0)
}

/// Returns `error`, or infinity if `error` is not finite or if an inexact result may have
/// overflowed.
fn settled(result: Scalar, error: f64) -> f64 {
    let may_overflow = error > 0.0 && result.to_f64().abs() + error > largest(result.dtype());
    if error.is_finite() && !may_overflow {
        error
    } else {
        f64::INFINITY
    }
}

/// Returns the error of a result computed from a zero of open sign: if the result is 0, its sign is
/// open, too.
fn open_again(result: Scalar, error: f64) -> f64 {
    if result.to_f64() == 0.0 {
        error.max(OPEN_SIGN)
    } else {
        error
    }
}

/// Returns the distance of two results; 0 if both are equal or NaN, infinity if only one is NaN.
fn reach(a: f64, b: f64) -> f64 {
    if a == b || a.is_nan() && b.is_nan() {
        0.0
    } else if a.is_nan() || b.is_nan() {
        f64::INFINITY
    } else {
        (a - b).abs()
    }
}

/// Returns the error that an operation adds to the errors of its operands.
fn rounding_error(rounding: Rounding, result: Scalar) -> f64 {
    let ulps = match rounding {
        Rounding::Exact => 0.0,
        Rounding::Ieee => BASIC_ULPS,
        Rounding::Function => FUNCTION_ULPS,
    };
    ulps * spacing(result.dtype(), result.to_f64())
}

/// Returns the error of `op(x)`, whose computed value is `result`.
pub(super) fn unary(op: Unary, x: Approximate, result: Scalar) -> f64 {
    if op == Unary::IsNan {
        return certain_if(!x.is_open());
    }
    if !x.value.dtype().is_float() || x.is_open() {
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
    if x.is_surely_special() {
        // `-x` and `|x|` of an overflowed product still are overflowed products, so the mark stays.
        let keeps = matches!(op, Unary::Neg | Unary::Abs);
        return if keeps { x.error } else { 0.0 };
    }
    if result.to_f64().is_infinite() {
        return certain_if(is_surely_infinite(op, x, result.dtype()));
    }
    let own = rounding_error(op.rounding(), result);
    // The interval's ends, evaluated in f64: exact for monotone functions.
    let at = |shift: f64| op.eval(Scalar::F64(x.float() + shift)).to_f64();
    let spread = match op.spread() {
        _ if x.error == 0.0 => 0.0,
        Spread::Slope => x.error,
        Spread::Pole if x.float().abs() <= x.error => f64::INFINITY,
        Spread::Ends | Spread::Pole => {
            reach(at(x.error), at(0.0)).max(reach(at(-x.error), at(0.0)))
        }
    };
    settled(result, spread + own)
}

/// Returns `true` if a function of a surely finite value is infinite on every executor.
fn is_surely_infinite(op: Unary, x: Approximate, dtype: DType) -> bool {
    match op {
        // The result must overflow even if the argument is smaller by 1, so an error in `exp`
        // cannot matter.
        Unary::Exp => (x.float() - x.error - 1.0).exp() > largest(dtype),
        Unary::Recip if x.float() != 0.0 => {
            let half = 0.5 / (x.float().abs() + x.error);
            x.has_sure_sign() && twice_overflows(half, dtype)
        }
        // A pole, for example `ln(0)`: certain only at an exact argument.
        _ => x.error == 0.0,
    }
}

/// Returns the error of `op(a, b)`, whose computed value is `result`.
pub(super) fn binary(op: Binary, a: Approximate, b: Approximate, result: Scalar) -> f64 {
    if !a.value.dtype().is_float() {
        return certain_if(a.error == 0.0 && b.error == 0.0);
    }
    if a.has_open_sign() || b.has_open_sign() {
        // +0 and -0 only lead to different results as a divisor or as the base of a power.
        let divides = match op {
            Binary::Div | Binary::FloorDiv => b.has_open_sign(),
            Binary::Pow => a.has_open_sign(),
            _ => false,
        };
        let error = binary(op, a.signed(), b.signed(), result);
        return if divides {
            f64::INFINITY
        } else {
            open_again(result, error)
        };
    }
    if op == Binary::Pow {
        return power(a, b, result);
    }
    if a.is_surely_nan() || b.is_surely_nan() {
        return 0.0;
    }
    if a.is_open() || b.is_open() {
        return f64::INFINITY;
    }
    if a.is_surely_special() || b.is_surely_special() {
        return with_infinity(op, a, b, result);
    }
    if result.to_f64().is_infinite() {
        return overflow(op, a, b);
    }
    let exact = a.error == 0.0 && b.error == 0.0;
    let (x, y) = (a.float().abs(), b.float().abs());
    // `floor_div` and `rem` are held to the error of one rounding, although each executor has a
    // formula of its own.
    let own = rounding_error(Rounding::Ieee, result);
    settled(
        result,
        match op {
            Binary::Add | Binary::Sub | Binary::Mul if exact && is_exact(op, a, b, result) => 0.0,
            // Propagation to first order, and the second-order term where the operands are not
            // exact. In a quotient a/b, the divisor may be as small as |b| - err(b), hence the
            // denominator y * (y - err(b)) below.
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
            _ => certain_if(exact) + own,
        },
    )
}

/// Returns the error of an operation on a sure infinity and a value that is not open, or on two
/// sure infinities.
fn with_infinity(op: Binary, a: Approximate, b: Approximate, result: Scalar) -> f64 {
    let is_finite = |x: Approximate| x.float().is_finite();
    let sure_signs = a.has_sure_sign() && b.has_sure_sign();
    match op {
        Binary::Add | Binary::Sub => {
            let is_exact = |x: Approximate| x.error == 0.0 || x.error == OVERFLOWED_SUM;
            if !is_finite(a) && !is_finite(b) {
                let exact = is_exact(a) && is_exact(b);
                return certain_if(exact || result.to_f64().is_infinite());
            }
            let (infinity, other) = if is_finite(a) { (b, a) } else { (a, b) };
            // The amount by which the other operand reduces a product that overflowed; negative if
            // both have the same sign.
            let signs = if op == Binary::Sub { -1.0 } else { 1.0 };
            let along = signs * other.float() * infinity.float().signum();
            let taken = other.error - along;
            let is_left = taken <= largest(result.dtype()) * CLEARLY / 2.0;
            certain_if(is_exact(infinity) || is_left)
        }
        Binary::Mul => certain_if(sure_signs),
        Binary::Div if !sure_signs && result.to_f64() == 0.0 => OPEN_SIGN,
        Binary::Div => certain_if(sure_signs),
        Binary::Maximum | Binary::Minimum if result.to_f64().is_infinite() => 0.0,
        Binary::Maximum | Binary::Minimum => {
            if is_finite(a) {
                a.error
            } else {
                b.error
            }
        }
        _ => certain_if(a.is_exact() && b.is_exact()),
    }
}

/// Returns the error of an operation on surely finite values whose result is infinite.
fn overflow(op: Binary, a: Approximate, b: Approximate) -> f64 {
    // `x` and `y` are the smallest magnitudes that the operands may have. All sums are halved,
    // since an f64 sum could itself overflow.
    let (x, y) = (a.float().abs() - a.error, b.float().abs() - b.error);
    let quotient = || {
        let pole = b.float() == 0.0 && b.error == 0.0;
        let half = 0.5 * x / (b.float().abs() + b.error);
        x > 0.0 && (pole || y > 0.0 && twice_overflows(half, a.value.dtype()))
    };
    let clearly = |half: f64| twice_overflows(half, a.value.dtype());
    let errors = 0.5 * a.error + 0.5 * b.error;
    match op {
        Binary::Add => certain_if(clearly((0.5 * a.float() + 0.5 * b.float()).abs() - errors)),
        Binary::Sub => certain_if(clearly((0.5 * a.float() - 0.5 * b.float()).abs() - errors)),
        Binary::Mul if x > 0.0 && y > 0.0 && clearly(0.5 * x * y) => OVERFLOWED,
        Binary::Div => certain_if(quotient()),
        Binary::FloorDiv => certain_if(a.error == 0.0 && b.error == 0.0 && quotient()),
        _ => f64::INFINITY,
    }
}

/// Returns the error of `a` to the power of `b`, whose computed value is `result`.
fn power(a: Approximate, b: Approximate, result: Scalar) -> f64 {
    let (x, y) = (a.float().abs(), b.float().abs());
    if a.is_surely_special() || b.is_surely_special() {
        // A power of exact operands is certain even if they are NaN or infinite: NaN to the power
        // of 0 is 1.
        return certain_if(a.is_exact() && b.is_exact());
    }
    let exact = a.error == 0.0 && b.error == 0.0;
    // The slopes of a^b hold where the function is nearly linear; a negative base has a power only
    // for integer exponents.
    let is_near = a.error < x / 4.0 && b.error < 1.0 && (a.float() > 0.0 || b.error == 0.0);
    let relative = if exact {
        0.0
    } else if is_near {
        y * a.error / x + x.ln().abs() * b.error
    } else {
        f64::INFINITY
    };
    if result.to_f64().is_infinite() {
        // In logarithms: b ln(a), less the relative error, has to exceed ln(largest) by more than
        // the error of the logarithm.
        let exponent = b.float() * x.ln();
        return certain_if(exponent - 2.0 * relative > largest(result.dtype()).ln() + 1.0);
    }
    let own = rounding_error(Binary::Pow.rounding(), result);
    let spread = if exact {
        0.0
    } else {
        // Doubled, because the function is not exactly linear.
        2.0 * result.to_f64().abs() * relative.exp_m1()
    };
    settled(result, spread + own)
}

/// Returns `true` if a sum, difference or product of exact floats was not rounded.
fn is_exact(op: Binary, a: Approximate, b: Approximate, result: Scalar) -> bool {
    let (a, b) = (a.float(), b.float());
    let (wide, lost) = match op {
        Binary::Mul => (a * b, a.mul_add(b, -(a * b))),
        _ => {
            // The rounding error of a sum, by Knuth's TwoSum.
            let b = if op == Binary::Sub { -b } else { b };
            let sum = a + b;
            let b_part = sum - a;
            (sum, (a - (sum - b_part)) + (b - b_part))
        }
    };
    lost == 0.0 && wide == result.to_f64()
}

/// Returns the error of a comparison: 0 if the errors of its operands cannot change the result,
/// else infinity.
pub(super) fn compare(_: Compare, a: Approximate, b: Approximate) -> f64 {
    let (a, b) = (a.signed(), b.signed());
    // Certain if the intervals of both operands do not overlap.
    let gap = (a.float() - b.float()).abs();
    let has_nan = a.is_surely_nan() || b.is_surely_nan();
    certain_if(a.is_exact() && b.is_exact() || gap > a.error + b.error || has_nan)
}

/// Returns the error of a selection, given the selected operand and the other operand.
pub(super) fn select(condition: Approximate, taken: Approximate, other: Approximate) -> f64 {
    if condition.error == 0.0 || taken.value == other.value && taken.error == other.error {
        taken.error
    } else if taken.value.dtype().is_float() {
        // The executor may take the other operand, so the error includes the distance between the
        // operands.
        let gap = (taken.float() - other.float()).abs();
        settled(taken.value, gap + taken.error.max(other.error))
    } else {
        f64::INFINITY
    }
}

/// Returns the error of a conversion, whose computed value is `result`.
pub(super) fn cast(x: Approximate, result: Scalar) -> f64 {
    if x.has_open_sign() {
        return if is_any_float(result) { OPEN_SIGN } else { 0.0 };
    }
    if x.is_surely_special() {
        return 0.0;
    }
    if x.error == 0.0 && x.float() == result.to_f64() {
        return 0.0;
    }
    if is_any_float(result) {
        if result.to_f64().is_infinite() {
            return certain_if(twice_overflows(
                0.5 * (x.float().abs() - x.error),
                result.dtype(),
            ));
        }
        let is_number = is_any_float(x.value) || x.error == 0.0;
        let rounding = spacing(result.dtype(), result.to_f64());
        return settled(result, x.error + rounding + certain_if(is_number));
    }
    if result.dtype() == DType::Bool && x.error > 0.0 && x.float().abs() <= x.error {
        // The interval contains 0 (false) and numbers other than 0 (true), although both of its
        // ends are true.
        return f64::INFINITY;
    }
    // An integer is certain if both ends of the interval convert to it.
    let moved = |shift: f64| Scalar::F64(x.float() + shift).cast(result.dtype());
    let stays = || moved(x.error) == result && moved(-x.error) == result;
    certain_if(x.error == 0.0 || !x.is_open() && stays())
}

fn is_any_float(x: Scalar) -> bool {
    matches!(x.dtype(), DType::F32 | DType::F64 | DType::F16)
}

/// Returns 0 if `certain`, else an infinite error.
pub(super) fn certain_if(certain: bool) -> f64 {
    if certain { 0.0 } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::dtype::HostData;
    use crate::exec::verify::{against_reference, within};
    use crate::exec::{Executor, Reference};
    use crate::op::Reduce;
    use crate::plan::Plan;
    use crate::tensor::Tensor;

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
    }

    const OPEN: f64 = f64::INFINITY;
    const MAX: f32 = f32::MAX;
    const INF: f32 = f32::INFINITY;

    fn exactly(value: f32) -> Approximate {
        approximate(value, 0.0)
    }

    fn overflowed() -> Approximate {
        approximate(INF, OVERFLOWED)
    }

    #[test]
    fn a_function_far_past_the_largest_number_is_surely_infinite_and_near_it_open() {
        let exp = |x: f32, error: f64| of_unary(Unary::Exp, approximate(x, error));
        assert_eq!([exp(1000.0, 0.0), exp(1000.0, 10.0)], [0.0, 0.0]);
        assert_eq!([exp(88.8, 0.0), exp(100.0, 20.0)], [OPEN, OPEN]);
        assert!(exp(88.0, 0.0) < 1e33 && exp(88.0, 2.0) == OPEN);
        assert_eq!(of_unary(Unary::Exp, exactly(88.722_84)), OPEN);
        let recip = |x: f32, error: f64| of_unary(Unary::Recip, approximate(x, error));
        assert_eq!([recip(0.0, 0.0), recip(1e-40, 0.0)], [0.0, 0.0]);
        assert_eq!(
            [recip(1e-40, 1e-39), recip(2.938_73e-39, 0.0)],
            [OPEN, OPEN]
        );
        assert_eq!(of_unary(Unary::Ln, exactly(0.0)), 0.0);
        let pow = |a: f32, b: f32| of_binary(Binary::Pow, exactly(a), exactly(b));
        assert_eq!([pow(10.0, 50.0), pow(0.0, -1.0)], [0.0, 0.0]);
        assert_eq!([pow(2.0, 128.0), pow(2.0, 128.5)], [OPEN, OPEN]);
    }

    #[test]
    fn what_a_sure_infinity_meets_is_certain() {
        let infinity = exactly(INF);
        let near_one = approximate(1.0, 0.25);
        for x in [infinity, overflowed()] {
            for (op, error) in [
                (Binary::Add, 0.0),
                (Binary::Sub, 0.0),
                (Binary::Mul, 0.0),
                (Binary::Div, 0.0),
                (Binary::Maximum, 0.0),
                (Binary::Minimum, 0.25),
            ] {
                assert_eq!(of_binary(op, x, near_one), error, "{} of {x:?}", op.name());
                assert_eq!(
                    of_binary(op, near_one, x),
                    error,
                    "{} with {x:?}",
                    op.name()
                );
            }
            for op in Compare::ALL {
                assert_eq!(compare(op, x, near_one), 0.0);
                assert_eq!(compare(op, x, infinity), 0.0);
            }
            for op in [Unary::Recip, Unary::Sqrt, Unary::Tanh, Unary::Sin] {
                assert_eq!(of_unary(op, x), 0.0, "{}", op.name());
            }
            assert_eq!(cast(x, Scalar::F64(f64::INFINITY)), 0.0);
            assert_eq!(cast(x, Scalar::I32(i32::MAX)), 0.0);
        }
        let near_zero = approximate(0.0, 1e-9);
        assert_eq!(of_binary(Binary::Mul, infinity, near_zero), OPEN);
        assert_eq!(of_binary(Binary::Div, infinity, near_zero), OPEN);
        assert_eq!(of_binary(Binary::Div, near_zero, infinity), OPEN_SIGN);
        assert_eq!(of_binary(Binary::Mul, infinity, exactly(0.0)), 0.0);
        for op in [Binary::Add, Binary::Mul, Binary::Div, Binary::Maximum] {
            assert_eq!(of_binary(op, infinity, approximate(1.0, OPEN)), OPEN);
        }
    }

    #[test]
    fn the_difference_of_products_that_overflow_is_open() {
        let product = |a: f32, b: f32| {
            let value = Binary::Mul.eval(Scalar::F32(a), Scalar::F32(b));
            let error = binary(Binary::Mul, exactly(a), exactly(b), value);
            Approximate { value, error }
        };
        let (big, opposite) = (product(1e30, 1e30), product(1e30, -1e30));
        assert_eq!([big.error, opposite.error], [OVERFLOWED; 2]);
        assert_eq!(product(MAX, 1.000_01).error, OPEN);
        let add = |a: Approximate, b: Approximate| of_binary(Binary::Add, a, b);
        assert_eq!(
            [add(big, opposite), of_binary(Binary::Sub, big, big)],
            [OPEN; 2]
        );
        assert_eq!(
            [add(big, exactly(-3e38)), add(exactly(-3e38), big)],
            [OPEN; 2]
        );
        assert_eq!([add(big, exactly(3e38)), add(big, big)], [0.0; 2]);
        assert_eq!(of_binary(Binary::Sub, exactly(3e38), opposite), 0.0);
        assert_eq!(of_binary(Binary::Sub, exactly(3e38), big), OPEN);
        let negated = approximate(-INF, of_unary(Unary::Neg, big));
        assert_eq!(add(big, negated), OPEN);
        // Infinities that come from no product cannot be fused away.
        assert_eq!(add(exactly(INF), exactly(-INF)), 0.0);
        assert_eq!(add(exactly(INF), exactly(-MAX)), 0.0);
    }

    #[test]
    fn sums_and_quotients_that_overflow_clearly_are_surely_infinite() {
        let of = |op, a, b| of_binary(op, exactly(a), exactly(b));
        assert_eq!(
            [of(Binary::Add, 3e38, 3e38), of(Binary::Sub, 3e38, -3e38)],
            [0.0; 2]
        );
        assert_eq!(of(Binary::Add, MAX, 3e31), OPEN);
        assert_eq!(
            of_binary(Binary::Add, approximate(3e38, 3e38), exactly(3e38)),
            OPEN
        );
        assert_eq!(
            [of(Binary::Div, 1e30, 1e-30), of(Binary::Div, 1.0, 0.0)],
            [0.0; 2]
        );
        assert_eq!(of(Binary::Div, MAX, 0.999_99), OPEN);
        let narrow = |x: f32, error: f64| {
            let x = approximate(x, error);
            cast(x, x.value.cast(DType::F16))
        };
        assert_eq!(
            [narrow(1e5, 0.0), narrow(1e5, 1e4), narrow(1e5, 5e4)],
            [0.0, 0.0, OPEN]
        );
        assert_eq!(narrow(65_530.0, 0.0), OPEN);
    }

    #[test]
    fn a_number_in_the_place_of_a_sure_infinity_is_rejected() {
        let x = Tensor::from_vec(&[3], vec![1000.0_f32, 1e30, 88.8]);
        for (tensor, at) in [(x.exp(), 0), (&x * 1e30, 1), (&x * 1e30 + 1.0, 1)] {
            let (plan, data) = Plan::new(&[&tensor], &Reference.target()).unwrap();
            let input = pollster::block_on(Arc::clone(&data[0]).read()).unwrap();
            let right = tensor.eval::<f32>(&Reference).unwrap();
            let step = &plan.steps[0];
            let check = |change: &dyn Fn(&mut [f32])| {
                let mut actual = right.iter().copied().collect::<Vec<_>>();
                change(&mut actual);
                against_reference(&Reference, step, &[&input], &HostData::F32(actual))
            };
            assert!(right[at].is_infinite());
            assert!(check(&|_| {}).is_ok());
            for wrong in [MAX, -INF, f32::NAN, 0.0] {
                assert!(check(&|actual| actual[at] = wrong).is_err(), "{wrong}");
            }
        }
        // Near the largest number, the largest number and infinity are both accepted.
        let near = approximate(INF, of_unary(Unary::Exp, exactly(88.8)));
        let expected = HostData::F32(vec![INF]);
        assert!(within(&HostData::F32(vec![MAX]), &expected, &[near.error]).is_ok());
    }

    #[test]
    fn the_sign_of_a_sum_of_nothing_matters_to_a_division_alone() {
        let mut sum = FoldError::new(Reduce::Sum);
        sum.push(exactly(-0.0));
        let zero = approximate(-0.0, sum.finish(Scalar::F32(-0.0)));
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
