//! Operands that a kernel hides from the driver's compiler.
//!
//! Role: keeps IEEE arithmetic. WGSL lets a compiler treat `(x - y) + y` as `x`, `x - x` as 0 and
//! `a * b + a * c` as `a * (b + c)`, sum up in another order and fuse a product into a sum; Mesa's
//! compiler does the first four. For each of these changes, a compiler must see the operation that
//! computes an operand. An operand of a sum, a product, a quotient or a root is therefore written
//! as an opaque copy, which hides this operation, if it is itself computed by such operations. Each
//! operation is then rounded once in every kernel. A divisor is always a copy, because a compiler
//! may drop the store of a quotient whose divisor is known to be 0.
//! A compiler may also compute an operand, for example `f32(i - i)`, and treat `0 * y` as 0, even
//! if `y` is NaN. An operand of arithmetic is therefore also a copy if a compiler may know its
//! value. Comparisons of floats are copies where flags are combined or select between the compared
//! numbers, and operands of a conversion are copies, because `f64(f32(x))` may become `x`.
//! Method: a copy is `x | zero` on the bits of `x`, where `zero` is a parameter that is 0. The
//! second operand of a difference, a quotient or a comparison is copied with another parameter,
//! because both operands may be equal: `(x + y) - (y + x)`. An operation of one parameter is not
//! enough: a known 0 becomes `zero` by `0 + zero` and by `0 | zero`, and a value that is `zero`
//! becomes 0 by `zero - zero`. Comparisons use their operands directly unless both are computed
//! from a common value, or from elements that may be the same. A fold uses its operand directly,
//! because the executor may choose the order of the terms. The operand is a copy only if it is a
//! sum or a difference, because a compiler could fold its two operands one after the other, or if
//! its value may be known.
//! Cost: one integer operation per copy, which the memory traffic of an elementwise kernel hides.
//! Matrix products, convolutions and distances between two arrays have no copies in their loops.

use std::collections::BTreeSet;

use tensor_core::DType;
use tensor_core::ir::{LoopNest, Value, ValueId};
use tensor_core::op::{Binary, Reduce, Unary};

/// The form in which an operand is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    /// The operand itself.
    Not,
    /// An opaque copy.
    Once,
    /// An opaque copy that the compiler cannot equate with the other operand's copy.
    Apart,
}

/// The operands of a nest that are opaque copies.
#[derive(Debug)]
pub(super) struct Copies<'n> {
    nest: &'n LoopNest,
    /// For each value, whether a compiler may know it.
    known: Vec<bool>,
    /// For each value, whether it is a sum or a difference, or a selection of one.
    sums: Vec<bool>,
}

impl<'n> Copies<'n> {
    pub(super) fn new(nest: &'n LoopNest) -> Self {
        Self {
            nest,
            known: known(nest),
            sums: sums(nest),
        }
    }

    /// Returns how a fold writes its operand. The flags of `all` and `any` need no copies, because
    /// their accumulator begins with an opaque flag: a compiler finds no two comparisons next to
    /// each other.
    pub(super) fn folded(&self, operand: ValueId) -> Copied {
        match self.sums[operand.0] && is_float(self.nest, operand) {
            true => Copied::Once,
            false => self.factor(operand),
        }
    }

    /// Returns how a sum of products, which adds each product with `fma`, writes a factor.
    pub(super) fn factor(&self, factor: ValueId) -> Copied {
        Copied::once_if(is_float(self.nest, factor) && self.known[factor.0])
    }

    /// Returns how operand 0, 1 or 2 of a value is written.
    pub(super) fn operand(&self, id: usize, operand: usize) -> Copied {
        let nest = self.nest;
        match nest.values[id] {
            Value::Select(condition, a, b) if nest.dtypes[id] == DType::Bool => {
                self.flag([condition, a, b][operand])
            }
            Value::Select(condition, a, b) if operand == 0 => self.condition(condition, [a, b]),
            Value::Cast(to, a) if to == DType::Bool || to.is_float() => self.of_inline(a),
            Value::Cast(_, a) if !self.is_only_summed(ValueId(id)) => self.flag(a),
            Value::Unary(_, a) if !is_float(nest, a) => self.flag(a),
            Value::Binary(_, a, b) | Value::Compare(_, a, b) if !is_float(nest, a) => {
                self.flag([a, b][operand])
            }
            Value::Unary(Unary::Recip, _) => Copied::Once,
            Value::Unary(Unary::Sqrt | Unary::Neg, a) => self.of_inline(a),
            Value::Binary(op, a, b) => match (op, operand) {
                (Binary::Sub, 1) => self.second(a, b),
                (Binary::Div, 1) => Copied::Apart,
                (Binary::Add | Binary::Sub | Binary::Mul | Binary::Div, _) => {
                    self.of_inline([a, b][operand])
                }
                _ => Copied::Not,
            },
            Value::Compare(_, a, b) => match self.have_common_origin(a, b) {
                false => Copied::Not,
                true if operand == 1 => self.second(a, b),
                true => self.of_inline(a),
            },
            _ => Copied::Not,
        }
    }

    fn of_inline(&self, a: ValueId) -> Copied {
        Copied::once_if(self.is_inline(a))
    }

    /// Returns the copy of the second of two operands that may be equal.
    fn second(&self, a: ValueId, b: ValueId) -> Copied {
        match a == b || self.is_inline(b) || may_coincide(self.nest, a, b) {
            true => Copied::Apart,
            false => Copied::Not,
        }
    }

    /// Returns how an operation on flags writes a flag. Where a compiler sees comparisons of
    /// floats, it may turn `x < c & y < c` into `max(x, y) < c` and `!(x < y)` into `x >= y`, which
    /// are different if an operand is NaN. A selection between flags and a product of the integers
    /// of flags are such operations, too.
    fn flag(&self, flag: ValueId) -> Copied {
        let is_comparison = match self.nest.values[flag.0] {
            Value::Compare(_, a, _) | Value::Cast(DType::Bool, a) => is_float(self.nest, a),
            _ => false,
        };
        Copied::once_if(is_comparison)
    }

    /// Returns whether a value is used by sums and conversions to floats only, which are no
    /// operations on flags: operands of arithmetic on floats are copies themselves. A count of
    /// comparisons is common, so its loop has no copies.
    fn is_only_summed(&self, value: ValueId) -> bool {
        let mut values = self.nest.values.iter();
        values.all(|user| {
            let is_allowed = match user {
                Value::Reduced(op, _) => *op == Reduce::Sum,
                Value::Cast(to, _) => to.is_float(),
                _ => false,
            };
            is_allowed || !user.operands().any(|operand| operand == value)
        })
    }

    /// Returns how a selection writes its condition. A compiler may turn a selection between the
    /// operands of the condition into a minimum or a maximum, which ignores NaN.
    fn condition(&self, condition: ValueId, branches: [ValueId; 2]) -> Copied {
        match self.nest.values[condition.0] {
            Value::Compare(_, a, b) if [a, b].iter().any(|x| branches.contains(x)) => {
                self.flag(condition)
            }
            _ => Copied::Not,
        }
    }

    /// Returns whether a value is a float that a kernel computes with operators, so that a compiler
    /// sees the operation where the value is used, or a float that a compiler may know. The result
    /// of a reduction counts as well, because compilers unroll short loops. Loads, parameters and
    /// functions on bits are otherwise opaque.
    fn is_inline(&self, value: ValueId) -> bool {
        let nest = self.nest;
        let has_operator = match nest.values[value.0] {
            Value::Unary(op, _) => matches!(
                op,
                Unary::Neg
                    | Unary::Abs
                    | Unary::Sqrt
                    | Unary::Recip
                    | Unary::Floor
                    | Unary::Ceil
                    | Unary::Round
                    | Unary::Trunc
            ),
            // Maximum and minimum of `f64` consist of operators, too (`extreme`).
            Value::Binary(op, ..) => is_rounded(op) || nest.dtypes[value.0] == DType::F64,
            Value::Select(..) | Value::Cast(..) | Value::Reduced(..) | Value::Scanned(..) => true,
            _ => false,
        };
        is_float(nest, value) && (has_operator || self.known[value.0])
    }

    /// Returns whether two values are computed from a common value through inline values only, or
    /// from loads that may coincide.
    fn have_common_origin(&self, a: ValueId, b: ValueId) -> bool {
        let others = self.origins(b);
        self.origins(a).iter().any(|&origin| {
            let is_other = |&other| origin == other || may_coincide(self.nest, origin, other);
            others.iter().any(is_other)
        })
    }

    /// Returns the values that are not inline and from which a value is computed through inline
    /// values only; the value itself if it is not inline.
    fn origins(&self, value: ValueId) -> BTreeSet<ValueId> {
        let mut origins = BTreeSet::new();
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            if !self.is_inline(value) {
                origins.insert(value);
            } else {
                open.extend(self.nest.values[value.0].operands());
            }
        }
        origins
    }
}

impl Copied {
    fn once_if(is_copied: bool) -> Self {
        match is_copied {
            true => Self::Once,
            false => Self::Not,
        }
    }
}

/// Returns for each value whether a compiler may compute it without data: a position, because loops
/// are unrolled; a whole number or a flag that is 0 where a guard fails; a constant flag, which is
/// no parameter; an integer or a flag computed from two operands with a common source, as in
/// `i - i`; and functions of these. Operators on floats have opaque operands.
fn known(nest: &LoopNest) -> Vec<bool> {
    let mut known: Vec<bool> = Vec::with_capacity(nest.values.len());
    // The values without operands from which a value is computed.
    let mut sources: Vec<BTreeSet<ValueId>> = Vec::with_capacity(nest.values.len());
    for (id, value) in nest.values.iter().enumerate() {
        let dtype = nest.dtypes[id];
        let any_operand = || value.operands().any(|operand| known[operand.0]);
        let is_known = match value {
            Value::Index(_) | Value::Inside(_) => true,
            Value::Const(_) => dtype == DType::Bool,
            // The 0 of a float is opaque (`literal`).
            Value::Load { guards, .. } | Value::Gather { guards, .. } => {
                !guards.is_empty() && matches!(dtype, DType::I32 | DType::U32 | DType::Bool)
            }
            Value::Position { guards, .. } => !guards.is_empty() || any_operand(),
            Value::Random { .. } => false,
            Value::Unary(Unary::Neg | Unary::Sqrt | Unary::Recip, a) if is_float(nest, *a) => false,
            Value::Binary(op, a, _) if is_float(nest, *a) && is_rounded(*op) => false,
            Value::Binary(_, a, b) | Value::Compare(_, a, b)
                if !is_float(nest, *a) && !sources[a.0].is_disjoint(&sources[b.0]) =>
            {
                true
            }
            // A known condition selects data.
            Value::Select(_, a, b) => known[a.0] || known[b.0],
            _ => any_operand(),
        };
        known.push(is_known);
        let own = value.operands().next().is_none().then_some(ValueId(id));
        let inherited = value.operands().flat_map(|operand| &sources[operand.0]);
        sources.push(own.into_iter().chain(inherited.copied()).collect());
    }
    known
}

/// Returns whether two values load the same element of an input in some iteration of a loop, so
/// that a compiler that unrolls the loop finds one load. The positions of an invocation along the
/// other axes are no constants.
fn may_coincide(nest: &LoopNest, a: ValueId, b: ValueId) -> bool {
    let [Value::Load { input, map, .. }, other] = [a, b].map(|value| &nest.values[value.0]) else {
        return false;
    };
    let Value::Load {
        input: other_input,
        map: other_map,
        ..
    } = other
    else {
        return false;
    };
    let is_loop = |axis: usize| {
        axis >= nest.domain.len() || nest.scan().is_some_and(|(_, scan)| scan.axis == axis)
    };
    let mut strides = map.strides.iter().zip(&other_map.strides).enumerate();
    input == other_input
        && strides.all(|(axis, (one, two))| one == two || is_loop(axis))
        // Neighbours, as `x[i + 1]` and `x[i]`, are different elements in every iteration.
        && (map.offset == other_map.offset || map.strides != other_map.strides)
}

/// Returns for each value whether it is a sum or a difference, or a selection of one.
fn sums(nest: &LoopNest) -> Vec<bool> {
    let mut sums: Vec<bool> = Vec::with_capacity(nest.values.len());
    for value in &nest.values {
        sums.push(match *value {
            Value::Binary(Binary::Add | Binary::Sub, ..) => true,
            Value::Select(_, a, b) => sums[a.0] || sums[b.0],
            _ => false,
        });
    }
    sums
}

/// Returns whether an operation on floats is one operator.
fn is_rounded(op: Binary) -> bool {
    matches!(op, Binary::Add | Binary::Sub | Binary::Mul | Binary::Div)
}

/// Returns whether a value is an `f32` or an `f64`. An `f16` does not count: it is rounded by
/// integer operations, which a compiler does not simplify.
fn is_float(nest: &LoopNest, value: ValueId) -> bool {
    nest.dtypes[value.0].is_float()
}

#[cfg(test)]
mod tests {
    use tensor_core::plan::Plan;
    use tensor_core::{Executor, Reference, Tensor};

    use super::super::tests::schedule_limits;
    use super::super::{emit, schedule, split};
    use super::*;

    /// Returns the number of opaque copies in the kernel of a program of one step.
    fn n_copies(program: &Tensor) -> usize {
        let (plan, _) = Plan::new(&[program], &Reference.target()).unwrap();
        assert_eq!(plan.steps.len(), 1, "{}", plan.explain());
        let nest = &plan.steps[0].nest;
        let source = emit(&split(nest).0, &schedule(nest, &schedule_limits()), None).source;
        let [all, functions] = ["opaque_", "fn opaque_"].map(|text| source.matches(text).count());
        all - functions
    }

    fn arrays<const N: usize>() -> [Tensor; N] {
        std::array::from_fn(|n| Tensor::from_vec(&[3], vec![n as f32; 3]))
    }

    #[test]
    fn operations_on_data_and_comparisons_of_differences_have_no_copies() {
        let [x, y] = arrays();
        for program in [
            &x + &y,
            (&x * &y).exp(),
            &x + &x,
            (&x - &y).abs().lt(1.0),
            (&x - &y).maximum(0.0),
        ] {
            assert_eq!(n_copies(&program), 0);
        }
    }

    #[test]
    fn operands_that_may_be_equal_are_copied_in_two_ways() {
        let [x, y] = arrays();
        let (sum, other) = (&x + &y, &y + &x);
        for program in [
            &sum - &other,
            &sum / &other,
            sum.eq(&other),
            &sum - &sum,
            &x - &x,
        ] {
            let (plan, _) = Plan::new(&[&program], &Reference.target()).unwrap();
            let nest = &plan.steps[0].nest;
            let last = nest.result().0;
            let copies = Copies::new(nest);
            assert_eq!(copies.operand(last, 1), Copied::Apart, "{}", plan.explain());
            assert_ne!(copies.operand(last, 0), Copied::Apart, "{}", plan.explain());
        }
    }

    #[test]
    fn operands_that_a_compiler_could_see_through_are_copies() {
        let [x, y, z] = arrays();
        for (program, n) in [
            (&x - &x, 1),
            ((&x - &y) + &y, 1),
            ((&x * &y).sum(0) + 2.0, 1),
            (-(&x - &y), 1),
            ((&x + 1.0) - 1.0, 1),
            (&x * &y + &x * &z, 2),
            (x.sqrt().square(), 2),
            ((&x + &y).lt(&x), 1),
            ((&x + &y) - (&x + &y), 2),
            (&x / &y, 1),
            (x.recip(), 1),
            (Tensor::arange(3).cast(DType::F32) * 2.0, 1),
        ] {
            assert_eq!(n_copies(&program), n);
        }
    }

    #[test]
    fn floats_that_a_compiler_may_know_are_copies() {
        let [x, y] = arrays();
        let whole = Tensor::from_vec(&[3], vec![1_i32, 2, 3]);
        let zero = (&whole - &whole).cast(DType::F32);
        let position = Tensor::arange(3).cast(DType::F32);
        for (program, n) in [
            (&zero * &x, 1),
            (zero.sin() * &x, 1),
            ((&zero * &x).sum(0), 1),
            ((zero.abs() * &x).sum(0), 1),
            ((&position * &x).sum(0), 1),
            (position.prod(0), 1),
            (whole.lt(&whole).select(&x, &y).sqrt(), 1),
            ((whole.pad(0, 1, 1, 0).cast(DType::F32) * 2.0).sum(0), 1),
            (
                (&whole.eq(1) & Tensor::scalar(false)).cast(DType::F32) * &x,
                1,
            ),
            // A position selects data, but the selected number is not known.
            ((Tensor::arange(3).lt(2).select(&x, &y) * &x).sum(0), 0),
            // The data of an integer are not known, and copies of known operands are opaque.
            ((whole.cast(DType::F32) * &x).sum(0), 0),
            (((&whole + 1).cast(DType::F32) * &x).sum(0), 0),
            ((&x * 2.0 * &y).sum(0), 0),
            ((&zero + &x).exp() * &y, 1),
        ] {
            assert_eq!(n_copies(&program), n);
        }
    }

    #[test]
    fn comparisons_of_floats_are_copies_where_a_compiler_could_replace_them() {
        let [x, y, z] = arrays();
        let (less, truth) = (x.lt(&y), Tensor::scalar(true));
        for (program, n) in [
            (x.lt(1.0) & y.lt(1.0), 2),
            (!&less, 1),
            (&less ^ Tensor::scalar(true), 1),
            (less.select(&x, &y), 1),
            (less.select(&y, 0.0), 1),
            ((&x - &y).cast(DType::Bool), 1),
            (x.cast(DType::F64).cast(DType::F32), 1),
            (less.select(!&truth, &less), 2),
            (less.select(&truth, x.lt(&z)), 2),
            (less.cast(DType::U32) * x.lt(&z).cast(DType::U32), 2),
            (less.cast(DType::U32).prod(0), 1),
            (less.cast(DType::U32).cast(DType::I32).prod(0), 1),
            // Neither flags of integers nor other selections change a result.
            (Tensor::arange(3).lt(1) & Tensor::arange(3).lt(2), 0),
            (less.select(1.0, 2.0), 0),
            (less.all(0), 0),
            (less.count(0), 0),
            (x.cast(DType::Bool), 0),
        ] {
            assert_eq!(n_copies(&program), n, "{program:?}");
        }
    }

    #[test]
    fn loads_that_coincide_in_a_loop_are_copies() {
        let [x, y] = arrays();
        let ranks = |a: &Tensor, b: &Tensor| a.expand_dims(1).le(b.expand_dims(0));
        assert_eq!(n_copies(&ranks(&x, &x).count(..)), 1);
        assert_eq!(n_copies(&ranks(&x, &y).count(..)), 0);
        // Neighbours are never the same element.
        let differences = x.slice(0, 1..) - x.slice(0, ..-1);
        assert_eq!(n_copies(&differences.abs().sum(0)), 0);
        let distances = |a: &Tensor, b: &Tensor| (a.expand_dims(1) - b.expand_dims(0)).abs();
        assert_eq!(n_copies(&distances(&x, &x).sum(..)), 1);
        assert_eq!(n_copies(&distances(&x, &y).sum(..)), 0);
        // An invocation has a position of its own along each axis of the result.
        assert_eq!(n_copies(&distances(&x, &x)), 0);
    }
}
