//! Chains: operations on floats that follow each other.
//!
//! Role: the form of a chain, its operands and results, and the operations that chains support.
//! `chain_loops` computes chains. Nests that are one chain run row by row (`rows`); chains within
//! other nests are instructions of the interpreter.
//!
//! ```text
//! (x - mean) / deviation * scale:    first x, links [- mean, / deviation, * scale]
//! ```

use std::ops::Range;

use super::functions;
use super::loops::View;
use super::vector::Vector;
use crate::dtype::Scalar;
#[cfg(test)]
use crate::fault::{self, Fault};
use crate::ir::{IndexMap, LoopNest, Value, ValueId};
use crate::op::{Binary, Unary};

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

    /// Returns the operand, if there is one besides the value of the chain.
    pub(super) fn operand(&self) -> Option<&O> {
        match self {
            Self::Binary(_, operand) | Self::Swapped(_, operand) => Some(operand),
            Self::Unary(_) | Self::Twice(_) => None,
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
    /// Returns the operands.
    pub(super) fn operands(&self) -> impl Iterator<Item = &O> {
        let of_links = self.links.iter().filter_map(Link::operand);
        std::iter::once(&self.first).chain(of_links)
    }

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

/// The source of an operand.
#[derive(Debug, Clone)]
pub(super) enum OperandSource {
    Number(Scalar),
    /// An element of an input for each row. The map has a stride for each loop over rows.
    Row(usize, IndexMap),
    /// Consecutive elements of an input for each row; the map is that of the first element.
    Lanes(usize, IndexMap),
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
    /// A number for each row: the element with this number in the row of an earlier chain's
    /// results.
    ResultNumber(ResultPosition),
    /// A number for each lane: consecutive elements in the row of an earlier chain's results.
    ResultLanes(ResultPosition),
}

/// A position in the results of an earlier chain on the same rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResultPosition {
    /// The number of the earlier chain.
    pub(super) chain: usize,
    /// The number of the element in each row of the results.
    pub(super) start: usize,
}

/// The results of a chain on rows of lanes.
#[derive(Debug)]
pub(super) struct Results<'a, T> {
    elements: &'a mut [T],
    /// The distance from a row to the next.
    step: usize,
    /// The number of the last rows that are in memory, a power of 2; `None` if all rows are in
    /// memory. Row `i` is at the position of row `i % n`.
    n_last_rows: Option<usize>,
}

impl<'a, T: Vector> Results<'a, T> {
    /// Returns results whose rows have this distance.
    pub(super) fn new(elements: &'a mut [T], step: usize) -> Self {
        Self {
            elements,
            step,
            n_last_rows: None,
        }
    }

    /// Returns results of which only the last `n_rows` rows are in memory: each row replaces the
    /// row `n_rows` before. `n_rows` must be a power of 2.
    pub(super) fn with_last_rows(elements: &'a mut [T], step: usize, n_rows: usize) -> Self {
        debug_assert!(n_rows.is_power_of_two());
        Self {
            elements,
            step,
            n_last_rows: Some(n_rows),
        }
    }

    /// Returns the position of the first element of a row.
    #[inline(always)]
    fn start(&self, row: usize) -> usize {
        match self.n_last_rows {
            Some(n_rows) => self.step * (row & (n_rows - 1)),
            None => self.step * row,
        }
    }

    /// Returns the results from a row on.
    pub(super) fn skip_rows(&mut self, row: usize) -> Results<'_, T> {
        let start = match self.n_last_rows {
            Some(_) => 0,
            None => self.start(row),
        };
        Results {
            elements: self.elements.get_mut(start..).unwrap_or_default(),
            ..*self
        }
    }

    /// Returns some results of a row. An invalid range yields an empty slice.
    #[inline(always)]
    fn row(&self, row: usize, lanes: Range<usize>) -> &[T] {
        let start = self.start(row);
        self.elements
            .get(start + lanes.start..start + lanes.end)
            .unwrap_or_default()
    }

    /// Returns some results of a row for writing. An invalid range yields an empty slice.
    #[inline(always)]
    pub(super) fn row_mut(&mut self, row: usize, lanes: Range<usize>) -> &mut [T] {
        let start = self.start(row);
        self.elements
            .get_mut(start + lanes.start..start + lanes.end)
            .unwrap_or_default()
    }
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
    /// Returns some lanes of a row. `results` are those of the earlier chains.
    #[inline(always)]
    pub(super) fn view<'v>(
        self,
        row: usize,
        lanes: Range<usize>,
        results: &'v [Results<'_, T>],
    ) -> View<'v, T>
    where
        'a: 'v,
    {
        match self {
            Self::Number(number) => View::Uniform(number),
            Self::Row(elements) => number_of(elements.row(row, 0..1)),
            Self::Lanes(elements) => View::Lanes(elements.row(row, lanes)),
            Self::ResultNumber(ResultPosition { chain, start }) => {
                number_of(results[chain].row(row, start..start + 1))
            }
            Self::ResultLanes(ResultPosition { chain, start }) => {
                View::Lanes(results[chain].row(row, start + lanes.start..start + lanes.end))
            }
        }
    }
}

/// Returns the number for all lanes, or an empty view if the slice is empty.
#[inline(always)]
fn number_of<T: Vector>(number: &[T]) -> View<'_, T> {
    match number {
        [number, ..] => View::Uniform(*number),
        [] => View::Lanes(&[]),
    }
}
