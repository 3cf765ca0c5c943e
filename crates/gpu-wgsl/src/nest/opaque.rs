//! Operands that a kernel hides from the driver's compiler.
//!
//! Role: keeps IEEE arithmetic. WGSL lets a compiler treat `(x - y) + y` as `x`, `x - x` as 0 and
//! `a * b + a * c` as `a * (b + c)`, sum up in another order and fuse a product into a sum; Mesa's
//! compiler does the first four. For each of these changes, a compiler must see the operation that
//! computes an operand. An operand of a sum, a product, a quotient or a root is therefore written
//! as an opaque copy, which hides this operation, if it is itself computed by such operations. Each
//! operation is then rounded once in every kernel. A divisor is always a copy, because a compiler
//! may drop the store of a quotient whose divisor is known to be 0.
//! Method: a copy is `x | zero` on the bits of `x`, where `zero` is a parameter that is 0. The
//! second operand of a difference, a quotient or a comparison is copied as `x + zero`, because both
//! operands may be equal: `(x + y) - (y + x)`. Comparisons use their operands directly unless both
//! are computed from a common value. A fold uses its operand directly, because the executor may
//! choose the order of the terms. Only a sum or a difference is copied, because a compiler could
//! fold its two operands one after the other.
//! Cost: one integer operation per copy, which the memory traffic of an elementwise kernel hides.
//! Matrix products, convolutions and distances have no copies in their loops.

use std::collections::BTreeSet;

use tensor_core::DType;
use tensor_core::ir::{LoopNest, Value, ValueId};
use tensor_core::op::{Binary, Unary};

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

/// Returns how a fold writes its operand.
pub(super) fn folded(nest: &LoopNest, operand: ValueId) -> Copied {
    let is_sum = matches!(
        nest.values[operand.0],
        Value::Binary(Binary::Add | Binary::Sub, ..)
    );
    match is_sum && is_float(nest, operand) {
        true => Copied::Once,
        false => Copied::Not,
    }
}

/// Returns how operand 0 or 1 of a value is written.
pub(super) fn copied(nest: &LoopNest, id: usize, operand: usize) -> Copied {
    let of_inline = |a: ValueId| match is_inline(nest, a) {
        true => Copied::Once,
        false => Copied::Not,
    };
    // The copy of the second of two operands that may be equal.
    let second = |a: ValueId, b: ValueId| match a == b || is_inline(nest, b) {
        true => Copied::Apart,
        false => Copied::Not,
    };
    match nest.values[id] {
        Value::Unary(_, a) | Value::Binary(_, a, _) | Value::Compare(_, a, _)
            if !is_float(nest, a) =>
        {
            Copied::Not
        }
        Value::Unary(Unary::Recip, _) => Copied::Once,
        Value::Unary(Unary::Sqrt | Unary::Neg, a) => of_inline(a),
        Value::Binary(op, a, b) => match (op, operand) {
            (Binary::Sub, 1) => second(a, b),
            (Binary::Div, 1) => Copied::Apart,
            (Binary::Add | Binary::Sub | Binary::Mul | Binary::Div, _) => {
                of_inline([a, b][operand])
            }
            _ => Copied::Not,
        },
        Value::Compare(_, a, b) => match numbers(nest, a).is_disjoint(&numbers(nest, b)) {
            true => Copied::Not,
            false if operand == 1 => second(a, b),
            false => of_inline(a),
        },
        _ => Copied::Not,
    }
}

/// Returns whether a value is an `f32` or an `f64`. An `f16` does not count: it is rounded by
/// integer operations, which a compiler does not simplify.
fn is_float(nest: &LoopNest, value: ValueId) -> bool {
    nest.dtypes[value.0].is_float()
}

/// Returns whether a value is a float that a kernel computes with operators, so that a compiler
/// sees the operation where the value is used. The result of a reduction counts as well, because
/// compilers unroll short loops. Loads, parameters and functions on bits are already opaque.
fn is_inline(nest: &LoopNest, value: ValueId) -> bool {
    is_float(nest, value)
        && match nest.values[value.0] {
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
            Value::Binary(op, ..) => {
                let has_operator =
                    matches!(op, Binary::Add | Binary::Sub | Binary::Mul | Binary::Div);
                // Maximum and minimum of `f64` consist of operators, too (`extreme`).
                has_operator || nest.dtypes[value.0] == DType::F64
            }
            Value::Select(..) | Value::Cast(..) | Value::Reduced(..) | Value::Scanned(..) => true,
            _ => false,
        }
}

/// Returns the values that are not inline and from which a value is computed through inline values
/// only; the value itself if it is not inline.
fn numbers(nest: &LoopNest, value: ValueId) -> BTreeSet<ValueId> {
    let mut numbers = BTreeSet::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        if !is_inline(nest, value) {
            numbers.insert(value);
        } else {
            open.extend(nest.values[value.0].operands());
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use tensor_core::plan::Plan;
    use tensor_core::{Executor, Reference, Tensor};

    use super::super::tests::schedule_limits;
    use super::super::{emit, schedule, split};
    use super::*;

    /// Returns the number of copied operands in the only step of a program, of which its kernel has
    /// as many.
    fn n_copies(program: &Tensor) -> usize {
        let (plan, _) = Plan::new(&[program], &Reference.target()).unwrap();
        assert_eq!(plan.steps.len(), 1, "{}", plan.explain());
        let nest = &plan.steps[0].nest;
        let source = emit(&split(nest).0, &schedule(nest, &schedule_limits()), None).source;
        let [all, functions] = ["opaque_", "fn opaque_"].map(|text| source.matches(text).count());
        let operands = (0..nest.values.len()).flat_map(|id| [(id, 0), (id, 1)]);
        let copies = operands.filter(|&(id, operand)| match nest.values[id] {
            Value::Unary(..) if operand == 1 => false,
            _ => copied(nest, id, operand) != Copied::Not,
        });
        let n_copies = copies.count();
        assert_eq!(all - functions, n_copies, "{source}");
        n_copies
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
            assert_eq!(copied(nest, last, 1), Copied::Apart, "{}", plan.explain());
            assert_ne!(copied(nest, last, 0), Copied::Apart, "{}", plan.explain());
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
}
