//! The intermediate representation: loop nests over affine index maps.
//!
//! Role: the form in which a plan describes its steps and in which an executor receives them. A new
//! executor has to support this module and no other description of a computation.
//! Method: a [`LoopNest`] computes one output array. Its loops are the axes of the output
//! (`domain`) followed by the reduced axes (`reduce`). At every point of this iteration space its
//! values are computed in order, each from earlier values: elements of inputs read through
//! [`IndexMap`]s, constants, positions, and scalar operations. A [`Value::Reduced`] folds a value
//! over all reduced axes. The values that depend on it form the epilogue, which is computed once
//! per output element. A [`Value::Scanned`] folds a value along an axis of the domain and has a
//! result at each point, which an epilogue may follow, too. The output is contiguous and row-major.
//! ```text
//! for d in domain:                       for (i, j) in 2000 x 2000:
//!     accumulators = identities              count = 0
//!     for r in reduce:                       for n in 256:
//!         body at (d, r)                         count += |x[n, i] - x[n, j]| < 1
//!         accumulate
//!     out[d] = epilogue at d                 out[i, j] = count
//! ```
//! A [`Contract`] marks a nest as a (batched) product of two matrices, so that an executor can use
//! a matrix library; the nest itself computes the same product.
//!
//! The loop axes may differ from the axes of the output tensor: adjacent axes are merged if one
//! stride per map covers both, and axes of size 1 are left out. A nest may contain several
//! `Reduced` values. An axis of the domain may have size 0; then nothing is written. The lengths of
//! the inputs are not part of the nest. Equal nests compute the same function, so a nest can be the
//! key of a cache of compiled code. Its constants are part of the key; a number that changes from
//! run to run should therefore be an input without axes.
//!
//! Invariants, checked by [`LoopNest::check`]:
//! - operands precede their uses; the last value is the result;
//! - no reduced axis has size 0: the planner replaces an empty reduction by its identity;
//! - a value outside a `Reduced` depends on domain axes only; a `Reduced` is not nested inside
//!   another;
//! - a nest with a `Scanned` has no other fold and no reduced axes;
//! - a nest with a `Sorted` has exactly two values: a load of a whole input in row-major order, and
//!   the `Sorted` of that load. Positions fit into a `u32`;
//! - every map has one stride per loop axis;
//! - where all guards of a load or gather hold, its positions are inside the input. If a guard
//!   depends on several axes, `check` does not test this; an executor may then return any value for
//!   an element outside of the input, and accesses no other memory;
//! - types match the description of each operation.
//!
//! Limits: a nest writes its output in order. A scatter is a reduction that compares an index with
//! each position of an output axis; an executor may recognise this form and write the elements to
//! their positions instead.

mod held;
mod matrices;
mod packing;
mod pairs;
mod scatter;

pub(crate) use held::held;
pub(crate) use matrices::Matrices;
pub(crate) use packing::WORD_BITS;
pub(crate) use pairs::{BitFunction, PairFunction, Pairs, Reduction};
pub(crate) use scatter::{Scatter, ScatterFold};

use crate::dtype::{DType, Scalar};
use crate::op::{Binary, Compare, MAX_POSITIONS, Reduce, Scan, Sort, Sorted, Unary};
use crate::shape::{element_count, row_major_strides};
use std::fmt;
use std::ops::Range;

/// An affine map from loop indices to a position: `offset + Σ strides[axis] * index[axis]`.
///
/// Stride 0 means broadcasting and a negative stride a reversed axis; strides that reach a position
/// more than once describe overlapping windows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct IndexMap {
    /// The position at which all indices are 0. This position may be outside the input if guards
    /// exclude it.
    pub offset: isize,
    /// The strides, one per loop axis, domain axes first.
    pub strides: Vec<isize>,
}

/// A condition on loop indices: `0 <= map(index) < extent`.
///
/// Padding is expressed by guards. The comparison is on unbounded integers; [`IndexMap::range`]
/// returns the range from which an executor can choose an integer width. Where a guard fails, the
/// guarded element is not read; an executor may read a clamped position instead and discard the
/// element.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The position to compare.
    pub map: IndexMap,
    /// The exclusive upper limit of the position.
    pub extent: usize,
}

/// The index of a value in [`LoopNest::values`].
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

/// A nest of loops that computes one output array; see the module documentation for the definition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LoopNest {
    /// The sizes of the output's axes.
    pub domain: Vec<usize>,
    /// The sizes of the reduced axes; empty if nothing is reduced.
    pub reduce: Vec<usize>,
    /// The values, each after its operands. The last value is the result.
    pub values: Vec<Value>,
    /// The type of each value.
    pub dtypes: Vec<DType>,
    /// The element type of each input.
    pub inputs: Vec<DType>,
    /// The parts of the matrix product, if the nest is a matrix product.
    pub contract: Option<Contract>,
}

/// The parts of a nest that is a (batched) matrix product: its only `Reduced` value is a sum over
/// `lhs * rhs`.
///
/// Axes are numbered as loop axes, in ascending order in `rows` and in `cols`. `lhs` depends on
/// `rows` and not on `cols`, `rhs` on `cols` and not on `rows`; both may depend on `batch` and on
/// the reduced axes (`inner`). At each point of `batch` the sum is therefore the product of a
/// matrix (rows, inner) and a matrix (inner, cols). Guards that both factors have are an exception:
/// see [`LoopNest::dependence_of_factors`]. The values after the sum are the epilogue, as in any
/// nest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Contract {
    /// Domain axes of both factors (or of neither).
    pub batch: Vec<usize>,
    /// Domain axes of the left factor.
    pub rows: Vec<usize>,
    /// Domain axes of the right factor.
    pub cols: Vec<usize>,
    /// The left factor.
    pub lhs: ValueId,
    /// The right factor.
    pub rhs: ValueId,
    /// The sum of their products.
    pub sum: ValueId,
    /// Whether one factor is a large input of the program, and the other factor has few vectors, so
    /// that a copy of the large factor, as GEMM libraries create, takes as long as the product.
    pub reads_once: bool,
}

impl IndexMap {
    /// Returns the map of a whole array in row-major order.
    pub(crate) fn in_order(shape: &[usize]) -> Self {
        Self {
            offset: 0,
            strides: row_major_strides("plan", shape).unwrap_or_default(),
        }
    }

    /// Returns the position at a loop index; missing strides count as 0.
    #[must_use]
    pub fn at(&self, index: &[usize]) -> isize {
        // The oracles call this function for every element. A plain loop, because calls of iterator
        // adapters are not inlined at the optimisation level of tests.
        let mut at = self.offset;
        for (axis, stride) in self.strides.iter().enumerate() {
            let Some(&index) = index.get(axis) else {
                break;
            };
            at = at.wrapping_add(stride.wrapping_mul(index.cast_signed()));
        }
        at
    }

    /// Returns the map composed with a view: coordinate `a` of the array is `rows[a]` applied to
    /// the view's index of `rank` axes. Axes after the array's own axes stay unchanged.
    pub(crate) fn through_view(&self, rows: &[Self], rank: usize) -> Self {
        let mut composed = Self {
            offset: self.offset,
            strides: vec![0; rank],
        };
        // Positions that guards exclude may overflow, so the arithmetic wraps; positions that are
        // read never overflow.
        for (axis, row) in rows.iter().enumerate() {
            let stride = self.stride(axis);
            composed.offset = composed
                .offset
                .wrapping_add(stride.wrapping_mul(row.offset));
            for (sum, &step) in composed.strides.iter_mut().zip(&row.strides) {
                *sum = sum.wrapping_add(stride.wrapping_mul(step));
            }
        }
        composed
            .strides
            .extend(self.strides.iter().skip(rows.len()));
        composed
    }

    /// Returns the stride on an axis; 0 for an axis past the end of `strides`.
    #[must_use]
    pub fn stride(&self, axis: usize) -> isize {
        self.strides.get(axis).copied().unwrap_or(0)
    }

    /// Returns whether the position is the index along one axis.
    pub(crate) fn is_coordinate(&self, axis: usize) -> bool {
        let mut strides = self.strides.iter().enumerate();
        self.offset == 0
            && axis < self.strides.len()
            && strides.all(|(of, &stride)| stride == isize::from(of == axis))
    }

    /// Returns the smallest and the largest position over loops of the given sizes, none of which
    /// may be 0. Saturates at the limits of `isize`.
    #[must_use]
    pub fn range(&self, sizes: &[usize]) -> (isize, isize) {
        let (mut low, mut high) = (self.offset, self.offset);
        for (&stride, &size) in self.strides.iter().zip(sizes) {
            let span = stride.saturating_mul((size - 1).cast_signed());
            low = low.saturating_add(span.min(0));
            high = high.saturating_add(span.max(0));
        }
        (low, high)
    }
}

impl Guard {
    /// Returns whether the guard holds at a loop index.
    #[must_use]
    pub fn holds(&self, index: &[usize]) -> bool {
        let position = self.map.at(index);
        position >= 0 && position.unsigned_abs() < self.extent
    }
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

    /// Returns the smallest and the largest position at which a load or gather reads its input, in
    /// loops of the given sizes. Returns `None` if nothing is read, for other values, and for
    /// values with a guard on several axes, for which the limits are not computed.
    fn positions_read(&self, sizes: &[usize]) -> Option<(isize, isize)> {
        let (map, guards, gathered) = match self {
            Self::Load { map, guards, .. } => (map, guards, (0, 1)),
            Self::Gather {
                map,
                guards,
                stride,
                extent,
                ..
            } => (map, guards, (*stride, *extent)),
            _ => return None,
        };
        let mut block: Vec<Range<usize>> = sizes.iter().map(|&size| 0..size).collect();
        for guard in guards {
            let mut named = (0..sizes.len()).filter(|&axis| guard.map.stride(axis) != 0);
            let (axis, None) = (named.next(), named.next()) else {
                return None;
            };
            let (stride, len) = axis.map_or((0, 1), |axis| (guard.map.stride(axis), sizes[axis]));
            let held = held(guard.map.offset, stride, guard.extent, len);
            match axis {
                Some(axis) => {
                    let old = &block[axis];
                    block[axis] = old.start.max(held.start)..old.end.min(held.end);
                }
                None if held.is_empty() => return None,
                None => {}
            }
        }
        if block.iter().any(Range::is_empty) || gathered.1 == 0 {
            return None;
        }
        let first: Vec<usize> = block.iter().map(|range| range.start).collect();
        // The gathered axis is one more loop.
        let lens = block.iter().map(Range::len).chain([gathered.1]);
        let reached = IndexMap {
            offset: map.at(&first),
            strides: map.strides.iter().copied().chain([gathered.0]).collect(),
        };
        Some(reached.range(&lens.collect::<Vec<_>>()))
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

impl LoopNest {
    /// Returns the sizes of all loops: domain axes, then reduced axes.
    #[must_use]
    pub fn sizes(&self) -> Vec<usize> {
        [&self.domain[..], &self.reduce].concat()
    }

    /// Returns the number of output elements.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.domain.iter().product()
    }

    /// Returns the number of points that are folded into one output element; 1 if nothing is
    /// reduced.
    #[must_use]
    pub fn reduce_len(&self) -> usize {
        self.reduce.iter().product()
    }

    /// Returns whether the nest reduces, and each of its reductions has an annihilator, so that the
    /// loops can stop once all results are decided.
    #[must_use]
    pub fn can_stop(&self) -> bool {
        let has_annihilator = |value: &Value| match value {
            Value::Reduced(op, _) => op.annihilator().is_some(),
            _ => true,
        };
        !self.reduce.is_empty() && self.values.iter().all(has_annihilator)
    }

    /// Returns the id of the result, which is the last value.
    #[must_use]
    pub fn result(&self) -> ValueId {
        ValueId(self.values.len().saturating_sub(1))
    }

    /// Returns the type of the output.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtypes[self.result().0]
    }

    /// Returns the scan of the nest and its value, or `None` if the nest scans nothing.
    #[must_use]
    pub fn scan(&self) -> Option<(ValueId, Scan)> {
        let mut values = self.values.iter().enumerate();
        values.find_map(|(id, value)| match value {
            Value::Scanned(scan, _) => Some((ValueId(id), *scan)),
            _ => None,
        })
    }

    /// Returns the sort of the nest, or `None` if the nest sorts nothing.
    #[must_use]
    pub fn sort(&self) -> Option<Sort> {
        self.values.iter().find_map(|value| match value {
            Value::Sorted(sort, _) => Some(*sort),
            _ => None,
        })
    }

    /// Returns the axis of the nest's scan or sort.
    #[must_use]
    pub fn line_axis(&self) -> Option<usize> {
        self.values.iter().find_map(Value::line_axis)
    }

    /// Returns for each value whether it belongs to the body: the values that a fold depends on,
    /// computed at every point of all loops. The others are computed once per output element. A
    /// value that both the body and the epilogue use counts as body, and the epilogue computes it
    /// again.
    #[must_use]
    pub fn body(&self) -> Vec<bool> {
        let mut body = vec![false; self.values.len()];
        for (id, value) in self.values.iter().enumerate().rev() {
            // Backwards, because operands precede their uses: a value is marked before its operands
            // are.
            if value.is_fold() || body[id] {
                for operand in value.operands() {
                    body[operand.0] = true;
                }
            }
        }
        body
    }

    /// Returns for each value whether the result depends on it other than through a fold.
    #[must_use]
    pub fn epilogue(&self) -> Vec<bool> {
        let mut needed = vec![false; self.values.len()];
        if let Some(last) = needed.last_mut() {
            *last = true;
        }
        for (id, value) in self.values.iter().enumerate().rev() {
            // A fold is needed itself, but its operands are computed in the body.
            if needed[id] && !value.is_fold() {
                for operand in value.operands() {
                    needed[operand.0] = true;
                }
            }
        }
        needed
    }

    /// Returns for each loop axis whether a value depends on it, directly or through its operands.
    #[must_use]
    pub fn dependence(&self, root: ValueId) -> Vec<bool> {
        let mut depends = vec![false; self.domain.len() + self.reduce.len()];
        let mut open = vec![root];
        let mut seen = vec![false; self.values.len()];
        while let Some(id) = open.pop() {
            // Values may share operands; visit each only once.
            if std::mem::replace(&mut seen[id.0], true) {
                continue;
            }
            for map in self.values[id.0].maps() {
                for (axis, &stride) in map.strides.iter().enumerate() {
                    depends[axis] |= stride != 0;
                }
            }
            let along = self.values[id.0].line_axis();
            if let Some(depends) = along.and_then(|axis| depends.get_mut(axis)) {
                *depends = true;
            }
            open.extend(self.values[id.0].operands());
        }
        depends
    }

    /// Returns for each loop axis whether each of two factors depends on it. If both factors are
    /// loads, guards that both have are left out: where such a guard fails, both factors are 0, and
    /// the product is no term of the sum.
    #[must_use]
    pub fn dependence_of_factors(&self, factors: [ValueId; 2]) -> [Vec<bool>; 2] {
        let [
            Value::Load { guards: left, .. },
            Value::Load { guards: right, .. },
        ] = factors.map(|factor| &self.values[factor.0])
        else {
            return factors.map(|factor| self.dependence(factor));
        };
        [(factors[0], right), (factors[1], left)].map(|(factor, others)| {
            let Value::Load { map, guards, .. } = &self.values[factor.0] else {
                unreachable!("both factors are loads");
            };
            let own = guards.iter().filter(|guard| !others.contains(guard));
            let maps = || own.clone().map(|guard| &guard.map).chain([map]);
            let n_axes = self.domain.len() + self.reduce.len();
            let depends = |axis: usize| maps().any(|map| map.stride(axis) != 0);
            (0..n_axes).map(depends).collect()
        })
    }

    /// Returns the estimated cost of one run, in additions.
    #[must_use]
    pub fn operations(&self) -> f64 {
        let (body, epilogue) = (self.body(), self.epilogue());
        let (outputs, points) = (
            self.output_len() as f64,
            self.output_len() as f64 * self.reduce_len() as f64,
        );
        let mut total = 0.0;
        for (id, value) in self.values.iter().enumerate() {
            let cost = value.cost() as f64;
            // A value that both the body and the epilogue use is computed in both, so both costs
            // count.
            let inside = body[id] || value.is_fold();
            total += if inside { cost * points } else { 0.0 };
            let after = epilogue[id] && !value.is_fold();
            total += if after { cost * outputs } else { 0.0 };
        }
        total
    }

    /// Checks the invariants listed in the module documentation, for inputs of the given types and
    /// lengths.
    ///
    /// # Errors
    /// A message with the value and the rule that it breaks.
    pub fn check(&self, inputs: &[(DType, usize)]) -> Result<(), String> {
        let sizes = self.sizes();
        let wrong = |id: usize, what: &str| Err(format!("value {id}: {what}"));
        if self.values.is_empty() || self.values.len() != self.dtypes.len() {
            return Err("a nest needs at least one value, and one type per value".to_owned());
        }
        if self.reduce.contains(&0) {
            return Err("a reduced axis has size 0".to_owned());
        }
        if !inputs
            .iter()
            .map(|&(dtype, _)| dtype)
            .eq(self.inputs.iter().copied())
        {
            return Err(format!(
                "input types differ (got {:?}, expected {:?})",
                inputs, self.inputs
            ));
        }
        if element_count("run", &sizes).is_err() {
            return Err(format!(
                "the number of loop points overflows (sizes {sizes:?})"
            ));
        }
        for (id, value) in self.values.iter().enumerate() {
            if value.operands().any(|operand| operand.0 >= id) {
                return wrong(id, "an operand follows its use");
            }
            if value.maps().any(|map| map.strides.len() != sizes.len()) {
                return wrong(id, "a map does not have one stride per loop axis");
            }
        }
        self.check_scan()?;
        self.check_sort()?;
        self.check_contract()?;
        let (body, epilogue) = (self.body(), self.epilogue());
        for (id, value) in self.values.iter().enumerate() {
            let on_reduced =
                |map: &IndexMap| map.strides[self.domain.len()..].iter().any(|&s| s != 0);
            if epilogue[id] && !value.is_fold() && value.maps().any(on_reduced) {
                return wrong(id, "the epilogue depends on a reduced axis");
            }
            if body[id] && matches!(value, Value::Reduced(..)) {
                return wrong(id, "a reduction is nested inside another");
            }
            if let Err(what) = self.check_types(id) {
                return wrong(id, &what);
            }
            if let Value::Load { input, .. } | Value::Gather { input, .. } = value
                && let Some((low, high)) = value.positions_read(&sizes)
            {
                let len = inputs.get(*input).map_or(0, |&(_, len)| len);
                if low < 0 || high.unsigned_abs() >= len {
                    return wrong(id, "a load reads outside its input");
                }
            }
        }
        Ok(())
    }

    fn check_contract(&self) -> Result<(), String> {
        let Some(contract) = &self.contract else {
            return Ok(());
        };
        let value = |id: ValueId| self.values.get(id.0);
        // The contract must name a float sum over exactly the product `lhs * rhs`.
        let sums_a_product = match value(contract.sum) {
            Some(Value::Reduced(Reduce::Sum, product)) => {
                self.dtypes[contract.sum.0].is_float()
                    && value(*product)
                        == Some(&Value::Binary(Binary::Mul, contract.lhs, contract.rhs))
            }
            _ => false,
        };
        // Evaluated lazily: the factors must be values of this nest, which `sums_a_product` has
        // checked by then.
        let are_apart = || {
            let [left, right] = self.dependence_of_factors([contract.lhs, contract.rhs]);
            let on_any = |depends: &[bool], axes: &[usize]| axes.iter().any(|&axis| depends[axis]);
            let on_all = |depends: &[bool], axes: &[usize]| axes.iter().all(|&axis| depends[axis]);
            !on_any(&left, &contract.cols)
                && !on_any(&right, &contract.rows)
                && on_all(&left, &contract.rows)
                && on_all(&right, &contract.cols)
                && contract.rows.is_sorted()
                && contract.cols.is_sorted()
        };
        // Each domain axis must be in exactly one of the three groups.
        let mut axes = [&contract.batch[..], &contract.rows, &contract.cols].concat();
        axes.sort_unstable();
        if sums_a_product && axes.into_iter().eq(0..self.domain.len()) && are_apart() {
            Ok(())
        } else {
            Err("the contract does not describe the nest".to_owned())
        }
    }

    fn check_scan(&self) -> Result<(), String> {
        let Some((id, _)) = self.scan() else {
            return Ok(());
        };
        let n_folds = self.values.iter().filter(|value| value.is_fold()).count();
        if n_folds > 1 {
            return Err(format!(
                "value {}: a scan must be the only fold (the nest has {n_folds} folds)",
                id.0
            ));
        }
        if !self.reduce.is_empty() {
            return Err(format!(
                "value {}: a scan does not support reduced axes (the nest has {}; expected 0)",
                id.0,
                self.reduce.len()
            ));
        }
        self.check_line_axis(id)
    }

    fn check_sort(&self) -> Result<(), String> {
        if self.sort().is_none() {
            return Ok(());
        }
        let in_order = |value: &Value| match value {
            Value::Load { map, guards, .. } => {
                guards.is_empty() && *map == IndexMap::in_order(&self.domain)
            }
            _ => false,
        };
        let is_alone = matches!(
            &self.values[..],
            [load, Value::Sorted(_, ValueId(0))] if in_order(load)
        );
        if !is_alone || !self.reduce.is_empty() {
            return Err(format!(
                "a sort has other values next to it ({} values; expected a load of one whole input in \
                 row-major order, and the sort)",
                self.values.len()
            ));
        }
        self.check_line_axis(ValueId(1))?;
        let n = self.line_axis().map_or(0, |axis| self.domain[axis]);
        let has_positions = self
            .sort()
            .is_some_and(|sort| sort.result == Sorted::Positions);
        if has_positions && n > MAX_POSITIONS {
            return Err(format!(
                "value 1: positions of an axis do not fit into u32 ({n} elements; limit {MAX_POSITIONS})"
            ));
        }
        Ok(())
    }

    /// Checks that the axis of the nest's scan or sort, value `id`, exists.
    fn check_line_axis(&self, id: ValueId) -> Result<(), String> {
        let n_axes = self.domain.len();
        match self.line_axis().filter(|&axis| axis >= n_axes) {
            None => Ok(()),
            Some(axis) => Err(format!(
                "value {}: no such axis (axis {axis}; the domain has {n_axes} axes)",
                id.0
            )),
        }
    }

    fn check_types(&self, id: usize) -> Result<(), String> {
        let of = |value: ValueId| self.dtypes[value.0];
        let same = |a: ValueId, b: ValueId| {
            if of(a) == of(b) {
                Ok(of(a))
            } else {
                Err(format!("operand types differ ({} and {})", of(a), of(b)))
            }
        };
        let unsupported =
            |name: &str, dtype: DType| Err(format!("{name} is not defined on {dtype}"));
        let expected = match &self.values[id] {
            Value::Const(scalar) => scalar.dtype(),
            Value::Index(_) => DType::U32,
            Value::Random { .. } => match self.values[id].operands().find(|&a| of(a) != DType::U32)
            {
                None => DType::U32,
                Some(operand) => return unsupported("random", of(operand)),
            },
            Value::Inside(_) => DType::Bool,
            Value::Position { at, .. } if of(*at).is_integer() => DType::U32,
            Value::Position { at, .. } => return unsupported("position", of(*at)),
            Value::Load { input, .. } | Value::Gather { input, .. } => *self
                .inputs
                .get(*input)
                .ok_or_else(|| "no such input".to_owned())?,
            Value::Unary(op, a) if op.accepts(of(*a)) => op.result(of(*a)),
            Value::Unary(op, a) => return unsupported(op.name(), of(*a)),
            Value::Binary(op, a, b) if op.accepts(same(*a, *b)?) => of(*a),
            Value::Binary(op, a, _) => return unsupported(op.name(), of(*a)),
            Value::Compare(op, a, b) if op.accepts(same(*a, *b)?) => DType::Bool,
            Value::Compare(op, a, _) => return unsupported(op.name(), of(*a)),
            Value::Select(condition, a, b) if of(*condition) == DType::Bool => same(*a, *b)?,
            Value::Select(condition, ..) => return unsupported("select", of(*condition)),
            Value::Cast(to, _) => *to,
            Value::Reduced(op, a) if op.accepts(of(*a)) => op.result(of(*a)),
            Value::Reduced(op, a) => return unsupported(op.name(), of(*a)),
            Value::Scanned(scan, a) if scan.accepts(of(*a)) => of(*a),
            Value::Scanned(scan, a) => return unsupported(scan.name(), of(*a)),
            Value::Sorted(sort, a) if sort.accepts(of(*a)) => sort.dtype(of(*a)),
            Value::Sorted(sort, a) => return unsupported(sort.name(), of(*a)),
        };
        if expected == self.dtypes[id] {
            Ok(())
        } else {
            Err(format!(
                "the recorded type is wrong (value has type {expected}, recorded {})",
                self.dtypes[id]
            ))
        }
    }
}

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// Returns the name of an axis as in formulas: i, j, k, …, p for the first eight, then i8, i9, …
fn axis_name(axis: usize) -> String {
    const LETTERS: &[u8] = b"ijklmnop";
    LETTERS.get(axis).map_or_else(
        || format!("i{axis}"),
        |&letter| char::from(letter).to_string(),
    )
}

impl fmt::Display for IndexMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut terms: Vec<String> = Vec::new();
        for (axis, &stride) in self.strides.iter().enumerate() {
            match stride {
                0 => {}
                1 => terms.push(axis_name(axis)),
                stride => terms.push(format!("{stride}{}", axis_name(axis))),
            }
        }
        if self.offset != 0 || terms.is_empty() {
            // A map without terms is written as its offset, even if the offset is 0.
            terms.push(self.offset.to_string());
        }
        f.write_str(&terms.join(" + ").replace("+ -", "- "))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = |guards: &[Guard]| {
            let conditions: Vec<String> = guards
                .iter()
                .map(|guard| format!("0 <= {} < {}", guard.map, guard.extent))
                .collect();
            conditions.join(" and ")
        };
        match self {
            Self::Const(scalar) => write!(f, "{scalar}"),
            Self::Index(map) => write!(f, "{map}"),
            Self::Inside(guards) => f.write_str(&when(guards)),
            Self::Load { input, map, guards } if guards.is_empty() => write!(f, "in{input}[{map}]"),
            Self::Load { input, map, guards } => write!(f, "in{input}[{map}] if {}", when(guards)),
            Self::Gather {
                input,
                map,
                at,
                stride,
                ..
            } => {
                write!(f, "in{input}[{map} + {stride} * {at}]")
            }
            Self::Position { at, extent, .. } => write!(f, "position({at}, {extent})"),
            Self::Random {
                stream: [low, high],
                at,
                stride,
                first,
                ..
            } => match (stride, first) {
                (1, 0) => write!(f, "random({at}, {low}, {high})"),
                _ => write!(f, "random({stride} * {at} + {first}, {low}, {high})"),
            },
            Self::Unary(op, a) => write!(f, "{}({a})", op.name()),
            Self::Binary(op, a, b) => write!(f, "{}({a}, {b})", op.name()),
            Self::Compare(op, a, b) => write!(f, "{}({a}, {b})", op.name()),
            Self::Select(condition, a, b) => write!(f, "select({condition}, {a}, {b})"),
            Self::Cast(to, a) => write!(f, "{to}({a})"),
            Self::Reduced(op, a) => write!(f, "{} of {a}", op.name()),
            Self::Scanned(scan, a) => {
                write!(f, "{} of {a} along {}", scan.name(), axis_name(scan.axis))?;
                f.write_str(if scan.reversed { ", reversed" } else { "" })?;
                f.write_str(if scan.exclusive { ", exclusive" } else { "" })
            }
            Self::Sorted(sort, a) => {
                write!(f, "{} of {a} along {}", sort.name(), axis_name(sort.axis))?;
                f.write_str(if sort.descending { ", descending" } else { "" })
            }
        }
    }
}
/// Converts a position to the `u32` of a [`Value::Index`]: the position modulo 2^32.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positions are u32 modulo 2^32 by definition"
)]
pub(crate) fn low_bits(position: isize) -> u32 {
    position as u32
}
