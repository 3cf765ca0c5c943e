//! The scalar values of a program while it is being planned.
//!
//! Method: values are hash-consed, so equal ones are one; operations on constants fold as they are made, if every executor would give
//! the same bits (a value is computed again in several steps, and a view may make it constant in one of them); guards are
//! brought into their simplest form, in which one that always or never holds is a constant.
//! While planning, a value belongs to an array whose axes come first in its index maps; axes that a
//! [`Value::Reduced`] above it folds come after them. Maps are trimmed of trailing zeros: so a value over an array
//! is also a value over the loops of any nest that has the array's axes first, and the axes of a nest can grow.

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use super::HashMap;
use crate::dtype::{DType, Scalar};
use crate::ir::{Guard, IndexMap, Value, ValueId};
use crate::op::{Binary, Compare, Reduce, Unary};
use crate::plan::guards::simplest;
use crate::view::reshaped_strides;

/// Values with their types; an operand always comes before its use.
#[derive(Default)]
pub(super) struct Arena {
    values: Vec<Value>,
    dtypes: Vec<DType>,
    ids: HashMap<Value, ValueId>,
    last: RefCell<Reached>,
}

/// The values behind the root that was asked about last: one root is asked about several times in a
/// row, and what a value is computed from never changes.
#[derive(Default)]
struct Reached {
    root: Option<ValueId>,
    all: Rc<[ValueId]>,
    /// For each value the number of the walk that met it last.
    met: Vec<usize>,
    n_walks: usize,
}

impl Reached {
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
        all.sort_unstable();
        (self.root, self.all) = (Some(root), all.into());
    }
}

impl Arena {
    pub(super) fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    pub(super) fn dtype(&self, id: ValueId) -> DType {
        self.dtypes[id.0]
    }

    /// Gives the place of a value, which is new only if no equal one exists.
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

    pub(super) fn constant(&mut self, scalar: Scalar) -> ValueId {
        self.intern(Value::Const(scalar), scalar.dtype())
    }

    pub(super) fn as_constant(&self, id: ValueId) -> Option<Scalar> {
        match self.value(id) {
            Value::Const(scalar) => Some(*scalar),
            _ => None,
        }
    }

    pub(super) fn unary(&mut self, op: Unary, a: ValueId) -> ValueId {
        match self.as_constant(a) {
            Some(a) if op.is_correctly_rounded() => self.constant(op.eval(a)),
            _ => self.intern(Value::Unary(op, a), op.result(self.dtype(a))),
        }
    }

    pub(super) fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> ValueId {
        match (self.as_constant(a), self.as_constant(b)) {
            (Some(a), Some(b)) if op.is_correctly_rounded() || !a.dtype().is_float() => {
                self.constant(op.eval(a, b))
            }
            (_, Some(b)) if is_right_identity(op, b) => a,
            (Some(a), _) if op == Binary::Mul && is_right_identity(op, a) => b,
            _ => self.intern(Value::Binary(op, a, b), self.dtype(a)),
        }
    }

    pub(super) fn compare(&mut self, op: Compare, a: ValueId, b: ValueId) -> ValueId {
        if let (Some(a), Some(b)) = (self.as_constant(a), self.as_constant(b)) {
            return self.constant(Scalar::Bool(op.eval(a, b)));
        }
        self.intern(Value::Compare(op, a, b), DType::Bool)
    }

    pub(super) fn select(&mut self, condition: ValueId, yes: ValueId, no: ValueId) -> ValueId {
        match self.as_constant(condition) {
            Some(Scalar::Bool(true)) => yes,
            Some(Scalar::Bool(false)) => no,
            _ if yes == no => yes,
            _ => self.intern(Value::Select(condition, yes, no), self.dtype(yes)),
        }
    }

    pub(super) fn cast(&mut self, to: DType, a: ValueId) -> ValueId {
        if self.dtype(a) == to {
            return a;
        }
        if let Some(a) = self.as_constant(a) {
            return self.constant(a.cast(to));
        }
        self.intern(Value::Cast(to, a), to)
    }

    pub(super) fn reduced(&mut self, op: Reduce, a: ValueId) -> ValueId {
        self.intern(Value::Reduced(op, a), op.result(self.dtype(a)))
    }

    /// All values that `root` is computed from, itself included, operands first.
    pub(super) fn reachable(&self, root: ValueId) -> Vec<ValueId> {
        self.reached(root).to_vec()
    }

    /// The values of [`reachable`](Self::reachable), shared.
    pub(super) fn reached(&self, root: ValueId) -> Rc<[ValueId]> {
        let mut last = self.last.borrow_mut();
        if last.root != Some(root) {
            last.walk(root, &self.values);
        }
        Rc::clone(&last.all)
    }

    /// The buffers that `root` reads, each once.
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

    /// Whether `root` holds a reduction.
    pub(super) fn reduces(&self, root: ValueId) -> bool {
        let is_reduction = |id: &ValueId| matches!(self.value(*id), Value::Reduced(..));
        self.reached(root).iter().any(is_reduction)
    }

    /// The value that an operation gives, once its operands are known.
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

    /// The same computation with `f` applied to each value after its operands; its maps are then over loops of the
    /// sizes given. `None` if `f` fails for one.
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

    /// The same computation with every index map changed by `f`, over loops of the sizes given; `None` if `f` fails
    /// for one.
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

    /// The same computation with one value in the place of another.
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

    /// The computation read through a view of the shape `to`: coordinate `a` of its array, of which there are
    /// `rows.len()`, is given by `rows[a]`. The axes that it reduces are `reduce`.
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

    /// The computation of an array of shape `from` under the shape `to`; `None` where no strides describe that.
    pub(super) fn reshaped(
        &mut self,
        root: ValueId,
        from: &[usize],
        to: &[usize],
        reduce: &[usize],
    ) -> Option<ValueId> {
        self.remapped(root, &[to, reduce].concat(), |map| {
            let strides: Vec<isize> = (0..from.len()).map(|axis| map.stride(axis)).collect();
            let mut strides = reshaped_strides(from, &strides, to)?;
            strides.extend(map.strides.iter().skip(from.len()));
            Some(IndexMap {
                offset: map.offset,
                strides,
            })
        })
    }

    /// The computation of an array of shape `from` padded to `to`: `before[axis]` elements of `fill` come first.
    pub(super) fn padded(
        &mut self,
        root: ValueId,
        from: &[usize],
        to: &[usize],
        before: &[usize],
        fill: Scalar,
    ) -> ValueId {
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
        let guarded = self.rewritten(root, to, |value| {
            for map in value.maps_mut() {
                *map = moved_map(map, &rows, to.len());
            }
            if let Value::Load { guards: own, .. } | Value::Gather { guards: own, .. } = value {
                own.extend(guards.iter().cloned());
            }
            Some(())
        });
        let inner = guarded.unwrap_or(root);
        if fill == Scalar::zero(fill.dtype())
            && matches!(self.value(inner), Value::Load { .. } | Value::Gather { .. })
        {
            return inner;
        }
        let inside = simply_guarded(Value::Inside(guards), DType::Bool, to);
        let inside = self.intern(inside, DType::Bool);
        let fill = self.constant(fill);
        self.select(inside, inner, fill)
    }
}

/// The place of a value among those that a root is computed from, which are in order.
fn place(values: &[ValueId], id: ValueId) -> usize {
    match values.binary_search(&id) {
        Ok(place) => place,
        Err(_) => unreachable!("a value is listed with its operands"),
    }
}

/// The value over loops of the sizes given, with guards in their simplest form.
fn simply_guarded(mut value: Value, dtype: DType, sizes: &[usize]) -> Value {
    let (Value::Load { guards, .. } | Value::Gather { guards, .. } | Value::Inside(guards)) =
        &mut value
    else {
        return value;
    };
    match simplest(guards, sizes) {
        None => return Value::Const(Scalar::zero(dtype)),
        Some(simple) => *guards = simple,
    }
    if value == Value::Inside(Vec::new()) {
        return Value::Const(Scalar::Bool(true));
    }
    value
}

/// The strides of one coordinate.
fn unit(rank: usize, axis: usize) -> Vec<isize> {
    let mut strides = vec![0; rank];
    strides[axis] = 1;
    strides
}

/// Whether `x op b` is `x` for every `x`, bit for bit.
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

/// `map` over an array of which each coordinate is given by a row; axes after the array's own stay.
pub(super) fn moved_map(map: &IndexMap, rows: &[IndexMap], rank: usize) -> IndexMap {
    let mut moved = IndexMap {
        offset: map.offset,
        strides: vec![0; rank],
    };
    // Positions that guards forbid may wrap; those that are read never do.
    for (axis, row) in rows.iter().enumerate() {
        let stride = map.stride(axis);
        moved.offset = moved.offset.wrapping_add(stride.wrapping_mul(row.offset));
        for (sum, &step) in moved.strides.iter_mut().zip(&row.strides) {
            #[cfg(test)]
            let step = super::fault::step(step);
            *sum = sum.wrapping_add(stride.wrapping_mul(step));
        }
    }
    moved.strides.extend(map.strides.iter().skip(rows.len()));
    moved
}
