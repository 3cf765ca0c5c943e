//! Values: the scalars that a nest computes at each point of its loops.

use super::{Guard, IndexMap};
use crate::dtype::{DType, Scalar};
use crate::op::{Binary, Compare, Reduce, Scan, Sort, Unary};

/// The index of a value in [`LoopNest::values`](super::LoopNest::values).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub usize);

/// A scalar that is computed at one point of the loops.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// A constant.
    Const(Scalar),
    /// The position of a map, as `u32` (modulo 2^32).
    Index(IndexMap),
    /// A `bool` that is true if all guards hold.
    Inside(Vec<Guard>),
    /// An element of an input; 0 (`false`), without a read, where a guard fails.
    Load {
        /// The index of the input.
        input: usize,
        /// The position of the element in the input.
        map: IndexMap,
        /// The conditions under which the element is read.
        guards: Vec<Guard>,
    },
    /// An element of an input at a position that depends on another value (`i32` or `u32`):
    /// `map(index) + stride * at`. A negative `i32` counts from the end of the axis. If `at` is not
    /// in `-extent..extent`, the executor reports
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange).
    Gather {
        /// The index of the input.
        input: usize,
        /// The position of the first element of the axis.
        map: IndexMap,
        /// The conditions under which the element is read; where one fails, the value is 0.
        guards: Vec<Guard>,
        /// The index along the axis.
        at: ValueId,
        /// The distance between adjacent elements of the axis.
        stride: isize,
        /// The size of the axis.
        extent: usize,
    },
    /// The position on an axis given by another value (`i32` or `u32`), as `u32`. A negative `i32`
    /// counts from the end of the axis. If `at` is not in `-extent..extent`, the executor reports
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange).
    Position {
        /// The conditions under which the position is computed; where one fails, the value is 0.
        guards: Vec<Guard>,
        /// The index along the axis.
        at: ValueId,
        /// The size of the axis.
        extent: usize,
    },
    /// Word `stride * at + first` (`u32`, modulo 2^32) of a stream of
    /// [`Philox`](crate::rng::Philox).
    Random {
        /// The key, from the seed.
        key: [u32; 2],
        /// The stream number as two `u32` values, low word first: the upper half of the counter.
        stream: [ValueId; 2],
        /// The position, which selects the words.
        at: ValueId,
        /// The number of words per position.
        stride: u32,
        /// The index of this word among the words of its position, from 0.
        first: u32,
    },
    /// An operation on one value.
    Unary(Unary, ValueId),
    /// An operation on two values of one type.
    Binary(Binary, ValueId, ValueId),
    /// A comparison of two values of one type.
    Compare(Compare, ValueId, ValueId),
    /// The second value where the first (`bool`) is true, else the third. Both are computed, so
    /// that an index out of range is an error even in the branch that is not selected.
    Select(ValueId, ValueId, ValueId),
    /// The value converted to another type by [`Scalar::cast`].
    Cast(DType, ValueId),
    /// The value folded over all reduced axes. The sum of `bool`s is a `u32`.
    Reduced(Reduce, ValueId),
    /// The running fold of the value along an axis of the domain: each point has the result over
    /// the points that the [`Scan`] covers.
    Scanned(Scan, ValueId),
    /// The value at each point of the domain after each line along an axis is sorted, or the
    /// position of that value on the axis.
    Sorted(Sort, ValueId),
}

impl Value {
    /// Returns the operands of the value.
    pub fn operands(&self) -> impl Iterator<Item = ValueId> + use<> {
        let (a, b, c) = match *self {
            Self::Const(_) | Self::Index(_) | Self::Inside(_) | Self::Load { .. } => {
                (None, None, None)
            }
            Self::Gather { at, .. } | Self::Position { at, .. } => (Some(at), None, None),
            Self::Random {
                stream: [low, high],
                at,
                ..
            } => (Some(at), Some(low), Some(high)),
            Self::Unary(_, a)
            | Self::Cast(_, a)
            | Self::Reduced(_, a)
            | Self::Scanned(_, a)
            | Self::Sorted(_, a) => (Some(a), None, None),
            Self::Binary(_, a, b) | Self::Compare(_, a, b) => (Some(a), Some(b), None),
            Self::Select(a, b, c) => (Some(a), Some(b), Some(c)),
        };
        [a, b, c].into_iter().flatten()
    }

    /// Replaces each operand by its image under `f`.
    pub fn map_operands(&mut self, f: impl Fn(ValueId) -> ValueId) {
        match self {
            Self::Const(_) | Self::Index(_) | Self::Inside(_) | Self::Load { .. } => {}
            Self::Gather { at: a, .. }
            | Self::Position { at: a, .. }
            | Self::Unary(_, a)
            | Self::Cast(_, a)
            | Self::Reduced(_, a)
            | Self::Scanned(_, a)
            | Self::Sorted(_, a) => *a = f(*a),
            Self::Binary(_, a, b) | Self::Compare(_, a, b) => (*a, *b) = (f(*a), f(*b)),
            Self::Select(a, b, c)
            | Self::Random {
                at: a,
                stream: [b, c],
                ..
            } => (*a, *b, *c) = (f(*a), f(*b), f(*c)),
        }
    }

    /// Returns whether the value combines another value at several points of the loops.
    #[must_use]
    pub fn is_fold(&self) -> bool {
        matches!(
            self,
            Self::Reduced(..) | Self::Scanned(..) | Self::Sorted(..)
        )
    }

    /// Returns the axis of a scan or sort, whose lines along the axis are computed as a whole.
    #[must_use]
    pub fn line_axis(&self) -> Option<usize> {
        match self {
            Self::Scanned(scan, _) => Some(scan.axis),
            Self::Sorted(sort, _) => Some(sort.axis),
            _ => None,
        }
    }

    /// Returns the guards of the value.
    #[must_use]
    pub fn guards(&self) -> &[Guard] {
        match self {
            Self::Inside(guards)
            | Self::Load { guards, .. }
            | Self::Gather { guards, .. }
            | Self::Position { guards, .. } => guards,
            _ => &[],
        }
    }

    /// Returns the guards of the value for changes; `None` for values without any.
    pub(crate) fn guards_mut(&mut self) -> Option<&mut Vec<Guard>> {
        match self {
            Self::Inside(guards)
            | Self::Load { guards, .. }
            | Self::Gather { guards, .. }
            | Self::Position { guards, .. } => Some(guards),
            _ => None,
        }
    }

    /// Adds conditions to a value that is 0 where one of them fails. Other values do not change.
    pub fn add_guards(&mut self, more: &[Guard]) {
        if !matches!(self, Self::Inside(_))
            && let Some(guards) = self.guards_mut()
        {
            guards.extend_from_slice(more);
        }
    }

    /// Returns the index along an axis that the value checks, and the size of the axis; `None` for
    /// a value that checks none.
    #[must_use]
    pub fn checked_index(&self) -> Option<(ValueId, usize)> {
        match *self {
            Self::Gather { at, extent, .. } | Self::Position { at, extent, .. } => {
                Some((at, extent))
            }
            _ => None,
        }
    }

    /// Returns the index maps of the value, guards included, but not those of its operands.
    pub fn maps(&self) -> impl Iterator<Item = &IndexMap> {
        let (map, guards): (Option<&IndexMap>, &[Guard]) = match self {
            Self::Index(map) => (Some(map), &[]),
            Self::Inside(guards) | Self::Position { guards, .. } => (None, guards),
            Self::Load { map, guards, .. } | Self::Gather { map, guards, .. } => {
                (Some(map), guards)
            }
            _ => (None, &[]),
        };
        map.into_iter().chain(guards.iter().map(|guard| &guard.map))
    }

    /// Returns mutable references to the index maps of the value, guards included.
    pub fn maps_mut(&mut self) -> impl Iterator<Item = &mut IndexMap> {
        let (map, guards): (Option<&mut IndexMap>, &mut [Guard]) = match self {
            Self::Index(map) => (Some(map), &mut []),
            Self::Inside(guards) | Self::Position { guards, .. } => (None, guards),
            Self::Load { map, guards, .. } | Self::Gather { map, guards, .. } => {
                (Some(map), guards)
            }
            _ => (None, &mut []),
        };
        map.into_iter()
            .chain(guards.iter_mut().map(|guard| &mut guard.map))
    }

    /// Returns the estimated cost of one evaluation, in additions, without memory traffic.
    #[must_use]
    pub fn cost(&self) -> usize {
        match self {
            Self::Unary(op, _) => op.cost(),
            Self::Binary(op, ..) => op.cost(),
            Self::Compare(..) | Self::Select(..) | Self::Cast(..) | Self::Reduced(..) => 1,
            // Each element waits for the previous one.
            Self::Scanned(..) => 4,
            // Each digit of a key is counted and moved.
            Self::Sorted(..) => 16,
            Self::Inside(guards) => guards.len(),
            Self::Random { .. } => 40,
            Self::Gather { .. } | Self::Position { .. } => 2,
            Self::Const(_) | Self::Index(_) | Self::Load { .. } => 0,
        }
    }
}
