//! The intermediate representation: loop nests over affine index maps.
//!
//! Role: what a plan consists of and what an executor runs; all that a new executor has to understand.
//! Method: a [`LoopNest`] computes one output array. Its loops are the axes of the output (`domain`)
//! followed by the axes that are reduced (`reduce`). At every point of that space its values are computed in the
//! order given, each from earlier ones: elements of inputs read through [`IndexMap`]s, constants, positions, scalar
//! operations. A [`Value::Reduced`] folds a value over all reduced axes; what follows it is the epilogue, which is
//! computed once per output element. The output is contiguous and row-major.
//! ```text
//! for d in domain:                       for (i, j) in 2000 x 2000:
//!     accumulators = identities              count = 0
//!     for r in reduce:                       for n in 256:
//!         body at (d, r)                         count += |x[n, i] - x[n, j]| < 1
//!         accumulate
//!     out[d] = epilogue at d                 out[i, j] = count
//! ```
//! A [`Contract`] is a note on a nest that it is a product of two matrices (or a batch of them), so an executor
//! may hand it to a matrix library; running the nest itself gives the same values.
//!
//! The loop axes need not be those of the output buffer: neighbours that every map walks as one are merged, and axes of
//! size 1 are left out. Several `Reduced` values may stand in one nest. Sizes may be 0: an empty domain writes nothing;
//! with an empty reduced axis the accumulators keep their identities and the epilogue still runs. What depends on the
//! lengths of the inputs is not in the nest. Equal nests compute the same, so a nest is a key for compiled code;
//! its numbers are part of it, and one that changes from run to run is better an input without axes.
//!
//! Invariants, which [`LoopNest::check`] tests:
//! - operands come before their uses; the last value is the result;
//! - no reduced axis has size 0: the planner puts the identity in the place of a reduction of nothing;
//! - a value outside a `Reduced` depends on domain axes alone; a `Reduced` never stands inside another;
//! - every map has one stride a loop axis; with all guards satisfied it stays inside its input;
//! - types fit, as each operation's description says.
//!
//! Limits: scans and sorts cannot be expressed; nothing scatters.

use crate::dtype::{DType, Scalar};
use crate::op::{Binary, Compare, Reduce, Unary};
use crate::shape::element_count;
use std::fmt;

/// An affine map from loop indices to a position: `offset + Σ strides[axis] * index[axis]`.
///
/// Stride 0 is broadcasting, a negative stride a flip; strides that reach the same position twice are windows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct IndexMap {
    /// The position where all indices are 0. It may lie outside the input where guards keep it from being used.
    pub offset: isize,
    /// One stride a loop axis, domain axes first.
    pub strides: Vec<isize>,
}

/// A condition on loop indices: `0 <= map(index) < extent`, in all integers ([`IndexMap::range`] tells which width they
/// need). Padding consists of these. What it guards is not read where it fails; an executor may read a clamped position
/// instead and discard it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guard {
    /// A position, which grows along some axes.
    pub map: IndexMap,
    /// How many positions pass.
    pub extent: usize,
}

/// The place of a value in [`LoopNest::values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub usize);

/// One scalar at one point of the loops.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// The same everywhere.
    Const(Scalar),
    /// The position that a map gives, as `u32` (modulo 2^32).
    Index(IndexMap),
    /// Whether all guards hold, as `bool`.
    Inside(Vec<Guard>),
    /// An element of an input; 0 (`false`) where a guard fails, and then nothing is read.
    Load {
        /// Which input.
        input: usize,
        /// Where in it.
        map: IndexMap,
        /// When it is read at all.
        guards: Vec<Guard>,
    },
    /// An element of an input at a position that another value (`i32` or `u32`) shifts:
    /// `map(index) + stride * at`. A negative `i32` counts from the end of the axis. Where `at` is not in
    /// `-extent..extent`, the executor reports [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange).
    Gather {
        /// Which input.
        input: usize,
        /// Where in it the axis begins.
        map: IndexMap,
        /// When it is read at all; else the value is 0.
        guards: Vec<Guard>,
        /// The index along the axis.
        at: ValueId,
        /// How far apart the elements of the axis lie.
        stride: isize,
        /// The size of the axis.
        extent: usize,
    },
    /// Word `stride * at + first` (`u32`, modulo 2^32) of a stream of
    /// [`Philox`](crate::rng::Philox).
    Random {
        /// The key, from the seed.
        key: [u32; 2],
        /// The number of the stream as two `u32` values, low word first: the upper half of the
        /// counter.
        stream: [ValueId; 2],
        /// The position whose words are drawn.
        at: ValueId,
        /// The number of words per position.
        stride: u32,
        /// The number of this word among those of its position.
        first: u32,
    },
    /// An operation on one value.
    Unary(Unary, ValueId),
    /// An operation on two values of one type.
    Binary(Binary, ValueId, ValueId),
    /// A comparison of two values of one type.
    Compare(Compare, ValueId, ValueId),
    /// The second value where the first (`bool`) is true, else the third. Both are computed: a gather out of range is an
    /// error even in the one that is not chosen.
    Select(ValueId, ValueId, ValueId),
    /// The value converted, as [`Scalar::cast`] does.
    Cast(DType, ValueId),
    /// The value folded over all reduced axes. `bool`s are summed as `u32`.
    Reduced(Reduce, ValueId),
}

/// One output array, computed by a nest of loops; the module's page says how.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LoopNest {
    /// The sizes of the output's axes.
    pub domain: Vec<usize>,
    /// The sizes of the reduced axes; empty if nothing is reduced.
    pub reduce: Vec<usize>,
    /// The values, operands first; the last one is the result.
    pub values: Vec<Value>,
    /// The type of each value.
    pub dtypes: Vec<DType>,
    /// The type of each input.
    pub inputs: Vec<DType>,
    /// Where the nest is a matrix product: which part of it is what.
    pub contract: Option<Contract>,
}

/// How a nest is a (batched) matrix product: its only `Reduced` value is a sum over `lhs * rhs`.
///
/// Axes are numbered as loop axes. `lhs` does not depend on `cols`, `rhs` does not depend on `rows`, both may depend
/// on `batch` and `inner`. So at each point of `batch` the sum is the product of a matrix (rows, inner) and a matrix
/// (inner, cols). What follows the sum is the epilogue, as in any nest.
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
}

impl IndexMap {
    /// The position at a loop index; missing strides count as 0.
    #[must_use]
    pub fn at(&self, index: &[usize]) -> isize {
        let steps = self.strides.iter().zip(index);
        steps.fold(self.offset, |sum, (stride, &index)| {
            sum.wrapping_add(stride.wrapping_mul(index.cast_signed()))
        })
    }

    /// The stride on an axis; 0 for an axis that the map does not name.
    #[must_use]
    pub fn stride(&self, axis: usize) -> isize {
        self.strides.get(axis).copied().unwrap_or(0)
    }

    /// The smallest and the largest position over loops of the sizes given, none of which is 0.
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
    /// Whether it holds at a loop index.
    #[must_use]
    pub fn holds(&self, index: &[usize]) -> bool {
        let position = self.map.at(index);
        position >= 0 && position.unsigned_abs() < self.extent
    }
}

impl Value {
    /// The values it is computed from.
    pub fn operands(&self) -> impl Iterator<Item = ValueId> + use<> {
        let (a, b, c) = match *self {
            Self::Const(_) | Self::Index(_) | Self::Inside(_) | Self::Load { .. } => {
                (None, None, None)
            }
            Self::Gather { at, .. } => (Some(at), None, None),
            Self::Random {
                stream: [low, high],
                at,
                ..
            } => (Some(at), Some(low), Some(high)),
            Self::Unary(_, a) | Self::Cast(_, a) | Self::Reduced(_, a) => (Some(a), None, None),
            Self::Binary(_, a, b) | Self::Compare(_, a, b) => (Some(a), Some(b), None),
            Self::Select(a, b, c) => (Some(a), Some(b), Some(c)),
        };
        [a, b, c].into_iter().flatten()
    }

    /// Replaces each operand by another value.
    pub fn map_operands(&mut self, f: impl Fn(ValueId) -> ValueId) {
        match self {
            Self::Const(_) | Self::Index(_) | Self::Inside(_) | Self::Load { .. } => {}
            Self::Gather { at: a, .. }
            | Self::Unary(_, a)
            | Self::Cast(_, a)
            | Self::Reduced(_, a) => *a = f(*a),
            Self::Binary(_, a, b) | Self::Compare(_, a, b) => (*a, *b) = (f(*a), f(*b)),
            Self::Select(a, b, c)
            | Self::Random {
                at: a,
                stream: [b, c],
                ..
            } => (*a, *b, *c) = (f(*a), f(*b), f(*c)),
        }
    }

    /// The index maps it holds itself, those of guards included.
    pub fn maps(&self) -> impl Iterator<Item = &IndexMap> {
        let (map, guards): (Option<&IndexMap>, &[Guard]) = match self {
            Self::Index(map) => (Some(map), &[]),
            Self::Inside(guards) => (None, guards),
            Self::Load { map, guards, .. } | Self::Gather { map, guards, .. } => {
                (Some(map), guards)
            }
            _ => (None, &[]),
        };
        map.into_iter().chain(guards.iter().map(|guard| &guard.map))
    }

    /// The index maps that the value holds, those of guards included, for changing them.
    pub fn maps_mut(&mut self) -> impl Iterator<Item = &mut IndexMap> {
        let (map, guards): (Option<&mut IndexMap>, &mut [Guard]) = match self {
            Self::Index(map) => (Some(map), &mut []),
            Self::Inside(guards) => (None, guards),
            Self::Load { map, guards, .. } | Self::Gather { map, guards, .. } => {
                (Some(map), guards)
            }
            _ => (None, &mut []),
        };
        map.into_iter()
            .chain(guards.iter_mut().map(|guard| &mut guard.map))
    }

    /// What one evaluation costs, in additions; memory traffic not counted.
    #[must_use]
    pub fn cost(&self) -> usize {
        match self {
            Self::Unary(op, _) => op.cost(),
            Self::Binary(op, ..) => op.cost(),
            Self::Compare(..) | Self::Select(..) | Self::Cast(..) | Self::Reduced(..) => 1,
            Self::Inside(guards) => guards.len(),
            Self::Random { .. } => 40,
            Self::Gather { .. } => 2,
            Self::Const(_) | Self::Index(_) | Self::Load { .. } => 0,
        }
    }
}

impl LoopNest {
    /// The sizes of all loops: domain, then reduced axes.
    #[must_use]
    pub fn sizes(&self) -> Vec<usize> {
        [&self.domain[..], &self.reduce].concat()
    }

    /// The number of output elements.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.domain.iter().product()
    }

    /// The number of points that are folded into one output element; 1 if nothing is reduced.
    #[must_use]
    pub fn reduce_len(&self) -> usize {
        self.reduce.iter().product()
    }

    /// The result, which is the last value.
    #[must_use]
    pub fn result(&self) -> ValueId {
        ValueId(self.values.len().saturating_sub(1))
    }

    /// The type of the output.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtypes[self.result().0]
    }

    /// For each value whether it belongs to the body: computed at every point of all loops, since a reduction
    /// reaches it. The others are computed once per output element. A value that both need counts as body, and
    /// the epilogue computes it again.
    #[must_use]
    pub fn body(&self) -> Vec<bool> {
        let mut body = vec![false; self.values.len()];
        for (id, value) in self.values.iter().enumerate().rev() {
            let reduced = matches!(value, Value::Reduced(..));
            if reduced || body[id] {
                for operand in value.operands() {
                    body[operand.0] = true;
                }
            }
        }
        body
    }

    /// For each value whether the result needs it outside any reduction.
    #[must_use]
    pub fn epilogue(&self) -> Vec<bool> {
        let mut needed = vec![false; self.values.len()];
        if let Some(last) = needed.last_mut() {
            *last = true;
        }
        for (id, value) in self.values.iter().enumerate().rev() {
            if needed[id] && !matches!(value, Value::Reduced(..)) {
                for operand in value.operands() {
                    needed[operand.0] = true;
                }
            }
        }
        needed
    }

    /// For each loop axis whether a value depends on it.
    #[must_use]
    pub fn dependence(&self, root: ValueId) -> Vec<bool> {
        let mut depends = vec![false; self.domain.len() + self.reduce.len()];
        let mut open = vec![root];
        let mut seen = vec![false; self.values.len()];
        while let Some(id) = open.pop() {
            if std::mem::replace(&mut seen[id.0], true) {
                continue;
            }
            for map in self.values[id.0].maps() {
                for (axis, &stride) in map.strides.iter().enumerate() {
                    depends[axis] |= stride != 0;
                }
            }
            open.extend(self.values[id.0].operands());
        }
        depends
    }

    /// The operations of one run, in additions.
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
            let inside = body[id] || matches!(value, Value::Reduced(..));
            total += if inside { cost * points } else { 0.0 };
            let after = epilogue[id] && !matches!(value, Value::Reduced(..));
            total += if after { cost * outputs } else { 0.0 };
        }
        total
    }

    /// Tests the invariants of the module's page against inputs of the types and lengths given.
    ///
    /// # Errors
    /// A sentence that names the value and what is wrong with it.
    pub fn check(&self, inputs: &[(DType, usize)]) -> Result<(), String> {
        let sizes = self.sizes();
        let wrong = |id: usize, what: &str| Err(format!("value {id}: {what}"));
        if self.values.is_empty() || self.values.len() != self.dtypes.len() {
            return Err("a nest needs a value, and a type for each".to_owned());
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
                "inputs of types {:?} instead of {:?}",
                inputs, self.inputs
            ));
        }
        if element_count("run", &sizes).is_err() {
            return Err(format!("loops {sizes:?} that nobody can count"));
        }
        for (id, value) in self.values.iter().enumerate() {
            if value.operands().any(|operand| operand.0 >= id) {
                return wrong(id, "an operand comes after its use");
            }
        }
        self.check_contract()?;
        let (body, epilogue) = (self.body(), self.epilogue());
        for (id, value) in self.values.iter().enumerate() {
            if value.maps().any(|map| map.strides.len() != sizes.len()) {
                return wrong(id, "a map has not one stride a loop axis");
            }
            let on_reduced =
                |map: &IndexMap| map.strides[self.domain.len()..].iter().any(|&s| s != 0);
            if epilogue[id] && !matches!(value, Value::Reduced(..)) && value.maps().any(on_reduced)
            {
                return wrong(id, "the epilogue depends on a reduced axis");
            }
            if body[id] && matches!(value, Value::Reduced(..)) {
                return wrong(id, "a reduction stands inside another");
            }
            if let Err(what) = self.check_types(id) {
                return wrong(id, &what);
            }
            if !sizes.contains(&0)
                && let Value::Load { input, map, guards } = value
                && guards.is_empty()
            {
                let (low, high) = map.range(&sizes);
                let len = inputs.get(*input).map_or(0, |&(_, len)| len);
                if low < 0 || high.unsigned_abs() >= len {
                    return wrong(id, "a load leaves its input");
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
        let sums_a_product = match value(contract.sum) {
            Some(Value::Reduced(Reduce::Sum, product)) => {
                self.dtypes[contract.sum.0].is_float()
                    && value(*product)
                        == Some(&Value::Binary(Binary::Mul, contract.lhs, contract.rhs))
            }
            _ => false,
        };
        // Asked only once the factors are known to be values of the nest.
        let are_apart = || {
            let walks = |factor: ValueId, axes: &[usize]| {
                let depends = self.dependence(factor);
                axes.iter().any(|&axis| depends[axis])
            };
            !walks(contract.lhs, &contract.cols) && !walks(contract.rhs, &contract.rows)
        };
        let mut axes = [&contract.batch[..], &contract.rows, &contract.cols].concat();
        axes.sort_unstable();
        if sums_a_product && axes.into_iter().eq(0..self.domain.len()) && are_apart() {
            Ok(())
        } else {
            Err("the contract does not describe the nest".to_owned())
        }
    }

    fn check_types(&self, id: usize) -> Result<(), String> {
        let of = |value: ValueId| self.dtypes[value.0];
        let same = |a: ValueId, b: ValueId| {
            if of(a) == of(b) {
                Ok(of(a))
            } else {
                Err(format!("operands of types {} and {}", of(a), of(b)))
            }
        };
        let refused = |name: &str, dtype: DType| Err(format!("{name} of {dtype}"));
        let expected = match &self.values[id] {
            Value::Const(scalar) => scalar.dtype(),
            Value::Index(_) => DType::U32,
            Value::Random { .. } => match self.values[id].operands().find(|&a| of(a) != DType::U32)
            {
                None => DType::U32,
                Some(operand) => return refused("random", of(operand)),
            },
            Value::Inside(_) => DType::Bool,
            Value::Load { input, .. } | Value::Gather { input, .. } => *self
                .inputs
                .get(*input)
                .ok_or_else(|| "no such input".to_owned())?,
            Value::Unary(op, a) if op.accepts(of(*a)) => op.result(of(*a)),
            Value::Unary(op, a) => return refused(op.name(), of(*a)),
            Value::Binary(op, a, b) if op.accepts(same(*a, *b)?) => of(*a),
            Value::Binary(op, a, _) => return refused(op.name(), of(*a)),
            Value::Compare(op, a, b) if op.accepts(same(*a, *b)?) => DType::Bool,
            Value::Compare(op, a, _) => return refused(op.name(), of(*a)),
            Value::Select(condition, a, b) if of(*condition) == DType::Bool => same(*a, *b)?,
            Value::Select(condition, ..) => return refused("select", of(*condition)),
            Value::Cast(to, _) => *to,
            Value::Reduced(op, a) if op.accepts(of(*a)) => op.result(of(*a)),
            Value::Reduced(op, a) => return refused(op.name(), of(*a)),
        };
        if expected == self.dtypes[id] {
            Ok(())
        } else {
            Err(format!(
                "a value of type {expected} is said to be {}",
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

/// Axis names as in formulas: i, j, k, … for up to the eighth, then i8, i9, …
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
        }
    }
}
