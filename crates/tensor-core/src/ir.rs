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

mod check;
mod display;
mod held;
mod map;
mod matrices;
mod packing;
mod pairs;
mod scatter;
mod value;

pub use map::{Guard, IndexMap};
pub use value::{Value, ValueId};

pub(crate) use held::held;
pub(crate) use map::low_bits;
pub(crate) use matrices::Matrices;
pub(crate) use packing::WORD_BITS;
pub(crate) use pairs::{BitFunction, PairFunction, Pairs, Reduction};
pub(crate) use scatter::{Scatter, ScatterFold};

use crate::dtype::DType;
use crate::op::{Scan, Sort};

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
}
