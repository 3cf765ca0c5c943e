//! Chains: operations on floats that follow each other.
//!
//! Role: the form of a chain, its operands, and the operations that chains support. `chain_loops`
//! computes chains. Nests that are one chain run row by row (`rows`); chains within other nests are
//! instructions of the interpreter.
//!
//! ```text
//! (x - mean) / deviation * scale:    first x, links [- mean, / deviation, * scale]
//! ```

use std::ops::Range;

use super::functions;
use super::loops::View;
use super::vector::Vector;
#[cfg(test)]
use crate::fault::{self, Fault};
use crate::ir::{LoopNest, Value, ValueId};
use crate::op::{Binary, Reduce, Unary};

/// The maximum number of operations of a chain.
pub(super) const MAX_LINKS: usize = 12;

/// Operations that follow each other, on operands of type `O`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chain<O> {
    pub(super) first: O,
    pub(super) links: Vec<Link<O>>,
}

/// An operation on the value of a chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Link<O> {
    /// `op(value)`
    Unary(Unary),
    /// `op(value, operand)`
    Binary(Binary, O),
    /// `op(operand, value)`
    Swapped(Binary, O),
    /// `op(value, value)`
    Twice(Binary),
}

impl<O> Link<O> {
    /// Returns the operation with a reference to its operand.
    pub(super) fn as_ref(&self) -> Link<&O> {
        match self {
            Self::Unary(op) => Link::Unary(*op),
            Self::Binary(op, operand) => Link::Binary(*op, operand),
            Self::Swapped(op, operand) => Link::Swapped(*op, operand),
            Self::Twice(op) => Link::Twice(*op),
        }
    }

    /// Returns whether the operation is an elementary function.
    #[inline(always)]
    pub(super) fn is_function(&self) -> bool {
        matches!(self, Self::Unary(op) if functions::has(*op))
    }

    /// Returns whether the operation is an elementary function that always needs a separate loop.
    #[inline(always)]
    pub(super) fn needs_own_loop(&self) -> bool {
        use Unary::{Exp, Ln, Sigmoid, Tanh};
        self.is_function() && !matches!(self, Self::Unary(Exp | Ln | Sigmoid | Tanh))
    }

    /// Returns the operation with another operand.
    #[inline(always)]
    pub(super) fn map<P>(self, f: impl FnOnce(O) -> P) -> Link<P> {
        match self {
            Self::Unary(op) => Link::Unary(op),
            Self::Binary(op, operand) => Link::Binary(op, f(operand)),
            Self::Swapped(op, operand) => Link::Swapped(op, f(operand)),
            Self::Twice(op) => Link::Twice(op),
        }
    }
}

/// Returns whether a value is an operation on floats that runs on vectors in CPU registers.
pub(super) fn is_arithmetic(nest: &LoopNest, id: ValueId) -> bool {
    use Binary::{Add, Div, Maximum, Minimum, Mul, Sub};
    use Unary::{Abs, Neg, Recip, Sqrt};
    let is_supported = match nest.values[id.0] {
        Value::Unary(op, _) => matches!(op, Abs | Neg | Recip | Sqrt),
        Value::Binary(op, ..) => matches!(op, Add | Div | Maximum | Minimum | Mul | Sub),
        _ => false,
    };
    is_supported && nest.dtypes[id.0].is_float()
}

impl<O> Chain<O> {
    /// Returns the chain that ends with an operation, or `None` if `operand` returns no operand.
    /// `is_merged` returns whether a value is computed by the chain. At most one operand of each
    /// operation may be such a value.
    ///
    /// # Panics
    /// If a value of the chain is not an operation.
    pub(super) fn new(
        nest: &LoopNest,
        mut last: ValueId,
        is_merged: impl Fn(ValueId) -> bool,
        operand: impl Fn(ValueId) -> Option<O>,
    ) -> Option<Self> {
        let mut links = Vec::new();
        let first = loop {
            let value = &nest.values[last.0];
            let before = value.operands().find(|&it| is_merged(it));
            let (link, next) = match *value {
                Value::Unary(op, a) => (Link::Unary(op), a),
                Value::Binary(op, a, b) if a == b => (Link::Twice(op), a),
                #[cfg(test)]
                Value::Binary(op, a, b)
                    if before == Some(b) && fault::is_planted(Fault::ChainedOperands) =>
                {
                    (Link::Binary(op, operand(a)?), b)
                }
                Value::Binary(op, a, b) if before == Some(b) => (Link::Swapped(op, operand(a)?), b),
                Value::Binary(op, a, b) => (Link::Binary(op, operand(b)?), a),
                _ => unreachable!("chains consist of operations"),
            };
            links.push(link);
            if before.is_none() {
                break next;
            }
            last = next;
        };
        // The links were found from the last to the first.
        links.reverse();
        Some(Self {
            first: operand(first)?,
            links,
        })
    }
}

/// An operand of a chain on rows of lanes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operand<'a, T> {
    /// The same number for all lanes.
    Number(T),
    /// A number for each row.
    Row(Elements<'a, T>),
    /// A number for each lane: consecutive elements in each row.
    Lanes(Elements<'a, T>),
}

/// The position of an operand in an array.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elements<'a, T> {
    pub(super) array: &'a [T],
    /// The position of the first element of the first row.
    pub(super) start: isize,
    /// The distance from a row to the next.
    pub(super) step: isize,
}

impl<'a, T: Vector> Elements<'a, T> {
    /// Returns some elements of a row. The planner keeps positions inside the array; an invalid
    /// range yields an empty slice.
    #[inline(always)]
    fn row(self, row: usize, lanes: Range<usize>) -> &'a [T] {
        let start = self.step.wrapping_mul(row.cast_signed());
        let start = self.start.wrapping_add(start).cast_unsigned();
        let start = start.wrapping_add(lanes.start);
        let end = start.saturating_add(lanes.len());
        self.array.get(start..end).unwrap_or_default()
    }
}

impl<'a, T: Vector> Operand<'a, T> {
    /// Returns some lanes of a row.
    #[inline(always)]
    pub(super) fn view(self, row: usize, lanes: Range<usize>) -> View<'a, T> {
        match self {
            Self::Number(number) => View::Uniform(number),
            Self::Row(elements) => match elements.row(row, 0..1) {
                [number, ..] => View::Uniform(*number),
                [] => View::Lanes(&[]),
            },
            Self::Lanes(elements) => View::Lanes(elements.row(row, lanes)),
        }
    }
}

/// Returns whether values of a chain pass through memory: before a fold, and between functions with
/// loops of their own.
pub(super) fn needs_scratch<T>(
    first: &Operand<'_, T>,
    links: &[Link<Operand<'_, T>>],
    fold: Option<Reduce>,
) -> bool {
    let is_array = links.is_empty() && matches!(first, Operand::Lanes(_));
    links.iter().any(|link| link.is_function()) || (fold.is_some() && !is_array)
}
