//! The scalar values of a program during planning.
//!
//! Method: values are hash-consed, so that equal values are stored once. Operations on constants
//! are folded at creation if every executor would compute the same bits. (A value may be computed
//! again in several steps, and a view may make it constant in one of them; all must agree.) Guards
//! are brought into their simplest form; a guard that always or never holds becomes a constant.
//! Layout: during planning a value belongs to an array whose axes come first in the value's index
//! maps; axes that a [`Value::Reduced`] above the value folds come after them. Trailing zero
//! strides are trimmed. Therefore a value over an array is also a value over the loops of any nest
//! that begins with the array's axes, and a nest can get more axes without a change of its values.

use std::cell::RefCell;
use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use crate::dtype::{DType, Scalar};
use crate::hash::HashMap;
use crate::ir::{Guard, IndexMap, Value, ValueId};
use crate::op::{Binary, Compare, Reduce, Scan, Sort, Unary};
use crate::plan::guards::simplest;
use crate::view::reshaped_strides;

/// Values with their types; operands precede their readers.
#[derive(Default)]
pub(super) struct ExprArena {
    values: Vec<Value>,
    dtypes: Vec<DType>,
    ids: HashMap<Value, ValueId>,
    last: RefCell<Reached>,
}

/// The values from which the most recently queried value, the root, is computed. They are cached
/// because callers query one root several times in a row, and the operands of a value never change.
#[derive(Default)]
struct Reached {
    root: Option<ValueId>,
    all: Rc<[ValueId]>,
    /// The number of the last walk that visited each value.
    met: Vec<usize>,
    n_walks: usize,
}

impl Reached {
    /// Collects the values from which `root` is computed, sorted by id, which puts operands first.
    fn walk(&mut self, root: ValueId, values: &[Value]) {
        self.n_walks += 1;
        self.met.resize(values.len(), 0);
        let mut all = vec![root];
        self.met[root.0] = self.n_walks;
        let mut next = 0;
        while let Some(&id) = all.get(next) {
            next += 1;
            for operand in values[id.0].operands() {
                let met = &mut self.met[operand.0];
                if *met != self.n_walks {
                    *met = self.n_walks;
                    all.push(operand);
                }
            }
        }
        // Operands have smaller ids than their readers, so sorting by id puts operands first.
        all.sort_unstable();
        (self.root, self.all) = (Some(root), all.into());
    }
}

impl ExprArena {
    pub(super) fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    pub(super) fn dtype(&self, id: ValueId) -> DType {
        self.dtypes[id.0]
    }

    /// Returns the id of a value, which is new only if no equal value exists.
    pub(super) fn intern(&mut self, mut value: Value, dtype: DType) -> ValueId {
        for map in value.maps_mut() {
            let used = map.strides.iter().rposition(|&stride| stride != 0);
            map.strides.truncate(used.map_or(0, |last| last + 1));
        }
        match self.ids.entry(value) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => {
                let id = ValueId(self.values.len());
                self.values.push(place.key().clone());
                self.dtypes.push(dtype);
                *place.insert(id)
            }
        }
    }

    /// Returns a constant.
    pub(super) fn constant(&mut self, scalar: Scalar) -> ValueId {
        self.intern(Value::Const(scalar), scalar.dtype())
    }

    /// Returns the scalar of a value, or `None` if the value is not a constant.
    pub(super) fn as_constant(&self, id: ValueId) -> Option<Scalar> {
        match self.value(id) {
            Value::Const(scalar) => Some(*scalar),
            _ => None,
        }
    }

    /// Returns `op(a)`, folded if `a` is constant and the operation is correctly rounded.
    pub(super) fn unary(&mut self, op: Unary, a: ValueId) -> ValueId {
        match self.as_constant(a) {
            Some(a) if op.is_correctly_rounded() => self.constant(op.eval(a)),
            _ => self.intern(Value::Unary(op, a), op.result(self.dtype(a))),
        }
    }

    /// Returns `op(a, b)`, folded if both operands are constant and the operation is correctly
    /// rounded, or simplified if one operand is neutral.
    pub(super) fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> ValueId {
        match (self.as_constant(a), self.as_constant(b)) {
            (Some(a), Some(b)) if op.is_correctly_rounded() || !a.dtype().is_float() => {
                self.constant(op.eval(a, b))
            }
            // x op identity is x, bit for bit.
            (_, Some(b)) if is_right_identity(op, b) => a,
            (Some(a), _) if op == Binary::Mul && is_right_identity(op, a) => b,
            _ => self.intern(Value::Binary(op, a, b), self.dtype(a)),
        }
    }

    /// Returns the comparison of two values, folded if both are constant.
    pub(super) fn compare(&mut self, op: Compare, a: ValueId, b: ValueId) -> ValueId {
        // Signed integers are equal if their bits are. They are compared as `u32`, the type of
        // positions, so that each comparison with a position has one form, which `term_at_index`
        // and `Scatter` recognise.
        let is_signed_word = |id: ValueId| match *self.value(id) {
            Value::Cast(DType::I32, word) => self.dtype(word) == DType::U32,
            _ => false,
        };
        if op == Compare::Eq && (is_signed_word(a) || is_signed_word(b)) {
            let [a, b] = [a, b].map(|id| self.cast(DType::U32, id));
            return self.compare(op, a, b);
        }
        if let (Some(a), Some(b)) = (self.as_constant(a), self.as_constant(b)) {
            return self.constant(Scalar::Bool(op.eval(a, b)));
        }
        self.intern(Value::Compare(op, a, b), DType::Bool)
    }

    /// Returns a selection, simplified if the condition is constant or both sides are equal.
    pub(super) fn select(&mut self, condition: ValueId, yes: ValueId, no: ValueId) -> ValueId {
        match self.as_constant(condition) {
            Some(Scalar::Bool(true)) => yes,
            Some(Scalar::Bool(false)) => no,
            _ if yes == no => yes,
            _ => self.intern(Value::Select(condition, yes, no), self.dtype(yes)),
        }
    }

    /// Returns a conversion, folded if `a` is constant; returns `a` if the type does not change.
    pub(super) fn cast(&mut self, to: DType, a: ValueId) -> ValueId {
        if self.dtype(a) == to {
            return a;
        }
        if let Some(a) = self.as_constant(a) {
            return self.constant(a.cast(to));
        }
        // A conversion between integers changes no bits.
        if let Value::Cast(between, from) = *self.value(a)
            && self.dtype(from) == to
            && between.is_integer()
            && to.is_integer()
        {
            return from;
        }
        self.intern(Value::Cast(to, a), to)
    }

    /// Returns the reduction of a value over the axes after those of its array.
    pub(super) fn reduced(&mut self, op: Reduce, a: ValueId) -> ValueId {
        self.intern(Value::Reduced(op, a), op.result(self.dtype(a)))
    }

    /// Returns the sum of a value over the last axis of its array, if at most one term is not zero:
    /// the term whose position equals an index. No loop is needed then. `shape` is the shape of the
    /// array; returns `None` for other values.
    pub(super) fn term_at_index(&mut self, root: ValueId, shape: &[usize]) -> Option<ValueId> {
        let (&extent, sizes) = shape.split_last()?;
        let axis = sizes.len();
        let Value::Select(hit, term, other) = *self.value(root) else {
            return None;
        };
        let Value::Compare(Compare::Eq, left, right) = *self.value(hit) else {
            return None;
        };
        let zero = Scalar::zero(self.dtype(term));
        let is_position = |id: ValueId| match self.value(id) {
            Value::Index(map) => map.is_coordinate(axis),
            _ => false,
        };
        let at = if is_position(left) { right } else { left };
        let depends = |value: &Value| value.maps().any(|map| map.stride(axis) != 0);
        let is_constant_along =
            |id: ValueId| !self.reached(id).iter().any(|&id| depends(self.value(id)));
        // All indices of a gather are checked, whether their terms are zero or not.
        let has_constant_indices = || {
            let indices = self.reachable(term).into_iter();
            let mut indices = indices.filter_map(|id| self.value(id).checked_index());
            indices.all(|(at, _)| is_constant_along(at))
        };
        let has_form = (is_position(left) || is_position(right))
            && self.as_constant(other) == Some(zero)
            && is_constant_along(at)
            && has_constant_indices();
        if !has_form {
            return None;
        }
        let is_inside =
            matches!(self.value(at), Value::Position { extent: of, .. } if *of <= extent);
        let last = self.constant(Scalar::U32(u32::try_from(extent - 1).ok()?));
        let clamped = match is_inside {
            true => at,
            false => self.binary(Binary::Minimum, at, last),
        };
        let term = self.rewritten(term, sizes, |value| {
            if value
                .guards()
                .iter()
                .any(|guard| guard.map.stride(axis) != 0)
            {
                return None;
            }
            if let Value::Load { input, map, guards } = &mut *value
                && map.stride(axis) != 0
            {
                let stride = std::mem::take(&mut map.strides[axis]);
                *value = Value::Gather {
                    input: *input,
                    map: map.clone(),
                    guards: guards.clone(),
                    at: clamped,
                    stride,
                    extent,
                };
            }
            (!depends(value)).then_some(())
        })?;
        let mut sum = term;
        // The index is checked even if the term is the same at every position.
        if !(is_inside && self.reached(term).contains(&at)) {
            let inside = self.compare(Compare::Le, at, last);
            let zero = self.constant(zero);
            sum = self.select(inside, term, zero);
        }
        // A sum begins with 0.0, so a term of -0.0 becomes 0.0.
        let zero = self.constant(zero);
        Some(self.binary(Binary::Add, sum, zero))
    }

    /// Returns the scan of a value along an axis of its array.
    pub(super) fn scanned(&mut self, scan: Scan, a: ValueId) -> ValueId {
        self.intern(Value::Scanned(scan, a), self.dtype(a))
    }

    /// Returns the sort of a value along an axis of its array.
    pub(super) fn sorted(&mut self, sort: Sort, a: ValueId) -> ValueId {
        let dtype = sort.dtype(self.dtype(a));
        self.intern(Value::Sorted(sort, a), dtype)
    }

    /// Returns all values that `root` is computed from, including `root`, operands first.
    pub(super) fn reachable(&self, root: ValueId) -> Vec<ValueId> {
        self.reached(root).to_vec()
    }

    /// Returns the values of [`reachable`](Self::reachable) as a shared list.
    pub(super) fn reached(&self, root: ValueId) -> Rc<[ValueId]> {
        let mut last = self.last.borrow_mut();
        if last.root != Some(root) {
            last.walk(root, &self.values);
        }
        Rc::clone(&last.all)
    }

    /// Returns the buffers that `root` reads, without duplicates.
    pub(super) fn inputs_of(&self, root: ValueId) -> Vec<usize> {
        let mut inputs = Vec::new();
        for &id in &*self.reached(root) {
            if let Value::Load { input, .. } | Value::Gather { input, .. } = self.value(id)
                && !inputs.contains(input)
            {
                inputs.push(*input);
            }
        }
        inputs
    }

    /// Returns the number of arrays that the values after the folds of `root` read if the folds are
    /// stored: a reduction as one array, and a scan as two, the results within parts and those
    /// before each part.
    pub(super) fn n_inputs_after_folds(&self, root: ValueId) -> usize {
        let (mut open, mut seen) = (vec![root], HashSet::from([root]));
        let (mut inputs, mut n_stored) = (HashSet::new(), 0);
        while let Some(id) = open.pop() {
            match self.value(id) {
                Value::Reduced(..) => n_stored += 1,
                Value::Scanned(..) => n_stored += 2,
                value => {
                    if let Value::Load { input, .. } | Value::Gather { input, .. } = value {
                        inputs.insert(*input);
                    }
                    open.extend(value.operands().filter(|&operand| seen.insert(operand)));
                }
            }
        }
        inputs.len() + n_stored
    }

    /// Returns whether a value is zero if the guards of all its loads fail: a load, or a sum of
    /// products of loads.
    pub(super) fn is_zero_outside(&self, root: ValueId) -> bool {
        let is_load =
            |id: ValueId| matches!(self.value(id), Value::Load { .. } | Value::Gather { .. });
        self.summed_product(root)
            .map_or(is_load(root), |factors| factors.into_iter().all(is_load))
    }

    /// Returns both factors of the terms of a sum of products of floats; `None` for other values.
    pub(super) fn summed_product(&self, root: ValueId) -> Option<[ValueId; 2]> {
        let Value::Reduced(Reduce::Sum, term) = *self.value(root) else {
            return None;
        };
        match *self.value(term) {
            Value::Binary(Binary::Mul, x, y) if self.dtype(term).is_float() => Some([x, y]),
            _ => None,
        }
    }

    /// Returns `true` if `root` contains a reduction.
    pub(super) fn reduces(&self, root: ValueId) -> bool {
        let is_reduction = |id: &ValueId| matches!(self.value(*id), Value::Reduced(..));
        self.reached(root).iter().any(is_reduction)
    }

    /// Returns the value of an operation whose operands may have become constant, simplified again.
    fn folded(&mut self, value: Value, dtype: DType) -> ValueId {
        match value {
            Value::Unary(op, a) => self.unary(op, a),
            Value::Binary(op, a, b) => self.binary(op, a, b),
            Value::Compare(op, a, b) => self.compare(op, a, b),
            Value::Select(condition, yes, no) => self.select(condition, yes, no),
            Value::Cast(to, a) => self.cast(to, a),
            value => self.intern(value, dtype),
        }
    }

    /// Returns a computation with `f` applied to each value after its operands. The new maps are
    /// over loops of the given sizes. Returns `None` if `f` fails for some value.
    fn rewritten(
        &mut self,
        root: ValueId,
        sizes: &[usize],
        f: impl Fn(&mut Value) -> Option<()>,
    ) -> Option<ValueId> {
        let old = self.reached(root);
        let mut new: Vec<ValueId> = Vec::with_capacity(old.len());
        for &id in &*old {
            let mut value = self.value(id).clone();
            value.map_operands(|operand| new[place(&old, operand)]);
            f(&mut value)?;
            let dtype = self.dtype(id);
            let value = simply_guarded(value, dtype, sizes);
            new.push(self.folded(value, dtype));
        }
        new.last().copied()
    }

    /// Returns a computation with every index map changed by `f`, over loops of the given sizes.
    /// Returns `None` if `f` fails for some map.
    pub(super) fn remapped(
        &mut self,
        root: ValueId,
        sizes: &[usize],
        f: impl Fn(&IndexMap) -> Option<IndexMap>,
    ) -> Option<ValueId> {
        self.rewritten(root, sizes, |value| {
            for map in value.maps_mut() {
                *map = f(map)?;
            }
            Some(())
        })
    }

    /// Returns a computation in which value `new` replaces value `old`.
    pub(super) fn replaced(&mut self, root: ValueId, old: ValueId, new: ValueId) -> ValueId {
        let values = self.reached(root);
        let mut known: Vec<ValueId> = Vec::with_capacity(values.len());
        for &id in &*values {
            if id == old {
                known.push(new);
                continue;
            }
            let mut value = self.value(id).clone();
            value.map_operands(|operand| known[place(&values, operand)]);
            let dtype = self.dtype(id);
            known.push(self.folded(value, dtype));
        }
        known.last().copied().unwrap_or(root)
    }

    /// Returns a computation as read through a view of shape `to`. Coordinate `a` of the
    /// computation's array is `rows[a]` of the view's index. `reduce` are the sizes of the reduced
    /// axes.
    pub(super) fn moved(
        &mut self,
        root: ValueId,
        rows: &[IndexMap],
        to: &[usize],
        reduce: &[usize],
    ) -> ValueId {
        self.remapped(root, &[to, reduce].concat(), |map| {
            Some(moved_map(map, rows, to.len()))
        })
        .unwrap_or(root)
    }

    /// Returns the value of an array of shape `from` after a reshape to `to`, or `None` if the
    /// reshape cannot be expressed by strides.
    pub(super) fn reshaped(
        &mut self,
        root: ValueId,
        from: &[usize],
        to: &[usize],
        reduce: &[usize],
    ) -> Option<ValueId> {
        self.remapped(root, &[to, reduce].concat(), |map| {
            // Only the strides of the array's own axes change; those of reduced axes follow
            // unchanged.
            let strides: Vec<isize> = (0..from.len()).map(|axis| map.stride(axis)).collect();
            let mut strides = reshaped_strides(from, &strides, to)?;
            strides.extend(map.strides.iter().skip(from.len()));
            Some(IndexMap {
                offset: map.offset,
                strides,
            })
        })
    }

    /// Returns the computation of an array of shape `from` padded to shape `to`: `before[axis]`
    /// elements of `fill` come first. `reduce` are the sizes of the reduced axes; if there are any,
    /// `fill` must be zero, and the array a [sum of products of loads](Self::is_zero_outside).
    pub(super) fn padded(
        &mut self,
        root: ValueId,
        (from, to): (&[usize], &[usize]),
        reduce: &[usize],
        before: &[usize],
        fill: Scalar,
    ) -> ValueId {
        // Coordinate `axis` of the inner array is the padded coordinate minus `before[axis]`.
        let rows: Vec<IndexMap> = (0..from.len())
            .map(|axis| IndexMap {
                offset: -before[axis].cast_signed(),
                strides: unit(from.len(), axis),
            })
            .collect();
        let guards: Vec<Guard> = (0..from.len())
            .filter(|&axis| from[axis] != to[axis])
            .map(|axis| Guard {
                map: rows[axis].clone(),
                extent: from[axis],
            })
            .collect();
        // Loads outside the guards return zero and read no memory, whatever their positions are.
        let guarded = self.rewritten(root, &[to, reduce].concat(), |value| {
            for map in value.maps_mut() {
                *map = moved_map(map, &rows, to.len());
            }
            value.add_guards(&guards);
            Some(())
        });
        let inner = guarded.unwrap_or(root);
        // A load outside its guards is zero already, so padding with zeros needs no selection.
        if fill == Scalar::zero(fill.dtype()) && self.is_zero_outside(inner) {
            return inner;
        }
        let inside = simply_guarded(Value::Inside(guards), DType::Bool, to);
        let inside = self.intern(inside, DType::Bool);
        let fill = self.constant(fill);
        self.select(inside, inner, fill)
    }
}

/// Returns the index of a value in a sorted list of values.
fn place(values: &[ValueId], id: ValueId) -> usize {
    match values.binary_search(&id) {
        Ok(place) => place,
        Err(_) => unreachable!("the list contains the operands of each of its values"),
    }
}

/// Returns a value over loops of the given sizes, with its guards in their simplest form.
fn simply_guarded(mut value: Value, dtype: DType, sizes: &[usize]) -> Value {
    if let Some(guards) = value.guards_mut() {
        match simplest(guards, sizes) {
            None => return Value::Const(Scalar::zero(dtype)),
            Some(simple) => *guards = simple,
        }
    }
    if value == Value::Inside(Vec::new()) {
        return Value::Const(Scalar::Bool(true));
    }
    value
}

/// Returns the strides of a map that returns one coordinate.
fn unit(rank: usize, axis: usize) -> Vec<isize> {
    let mut strides = vec![0; rank];
    strides[axis] = 1;
    strides
}

/// Returns `true` if `x op b` equals `x` for every `x`, bit for bit.
fn is_right_identity(op: Binary, b: Scalar) -> bool {
    let one = Scalar::I32(1);
    match op {
        Binary::Mul | Binary::Div => b.dtype() != DType::Bool && b == one.cast(b.dtype()),
        // -0.0 + 0.0 is 0.0, but x - 0.0 is always x.
        Binary::Sub => b == Scalar::zero(b.dtype()),
        Binary::Add | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr => {
            !b.dtype().is_float() && b == Scalar::zero(b.dtype())
        }
        _ => false,
    }
}

/// Returns a map composed with a view, as [`IndexMap::through_view`].
pub(super) fn moved_map(map: &IndexMap, rows: &[IndexMap], rank: usize) -> IndexMap {
    #[cfg(test)]
    let rows = &super::fault::rows(rows)[..];
    map.through_view(rows, rank)
}
