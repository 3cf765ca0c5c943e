//! The scalar values of a program while it is being planned.
//!
//! Method: values are hash-consed, so equal ones are one, and operations on constants fold as they are made.
//! While planning, a value belongs to an array whose axes come first in its index maps; axes that a
//! [`Value::Reduced`] above it folds come after them. Maps are trimmed of trailing zeros: so a value over an array
//! is also a value over the loops of any nest that has the array's axes first, and the axes of a nest can grow.

use std::collections::{HashMap, HashSet};

use crate::dtype::{DType, Scalar};
use crate::ir::{Guard, IndexMap, Value, ValueId};
use crate::op::{Binary, Compare, Reduce, Unary};
use crate::view::reshaped_strides;

/// Values with their types; an operand always comes before its use.
#[derive(Default)]
pub(super) struct Arena {
    values: Vec<Value>,
    dtypes: Vec<DType>,
    ids: HashMap<Value, ValueId>,
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
        if let Some(&id) = self.ids.get(&value) {
            return id;
        }
        let id = ValueId(self.values.len());
        self.values.push(value.clone());
        self.dtypes.push(dtype);
        self.ids.insert(value, id);
        id
    }

    pub(super) fn constant(&mut self, scalar: Scalar) -> ValueId {
        self.intern(Value::Const(scalar), scalar.dtype())
    }

    fn as_constant(&self, id: ValueId) -> Option<Scalar> {
        match self.value(id) {
            Value::Const(scalar) => Some(*scalar),
            _ => None,
        }
    }

    pub(super) fn unary(&mut self, op: Unary, a: ValueId) -> ValueId {
        if let Some(a) = self.as_constant(a) {
            return self.constant(op.eval(a));
        }
        self.intern(Value::Unary(op, a), op.result(self.dtype(a)))
    }

    pub(super) fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> ValueId {
        #[cfg(test)]
        let (a, b) = super::fault::operands(op, a, b);
        match (self.as_constant(a), self.as_constant(b)) {
            (Some(a), Some(b)) => self.constant(op.eval(a, b)),
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
        let mut seen = HashSet::from([root]);
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            for operand in self.value(id).operands() {
                if seen.insert(operand) {
                    open.push(operand);
                }
            }
        }
        let mut all: Vec<ValueId> = seen.into_iter().collect();
        all.sort_unstable();
        all
    }

    /// The same computation with every index map changed by `f`; `None` if that fails for one.
    pub(super) fn remapped(
        &mut self,
        root: ValueId,
        f: impl Fn(&IndexMap) -> Option<IndexMap>,
    ) -> Option<ValueId> {
        self.rewritten(root, |_, value| {
            for map in value.maps_mut() {
                *map = f(map)?;
            }
            Some(())
        })
    }

    /// The same computation with `f` applied to each value after its operands.
    pub(super) fn rewritten(
        &mut self,
        root: ValueId,
        f: impl Fn(ValueId, &mut Value) -> Option<()>,
    ) -> Option<ValueId> {
        let mut new: HashMap<ValueId, ValueId> = HashMap::new();
        for id in self.reachable(root) {
            let mut value = self.value(id).clone();
            value.map_operands(|operand| new[&operand]);
            f(id, &mut value)?;
            new.insert(id, self.intern(value, self.dtype(id)));
        }
        Some(new[&root])
    }

    /// The same computation with one value in the place of another.
    pub(super) fn replaced(&mut self, root: ValueId, old: ValueId, new: ValueId) -> ValueId {
        let mut known: HashMap<ValueId, ValueId> = HashMap::from([(old, new)]);
        for id in self.reachable(root) {
            if id != old {
                let mut value = self.value(id).clone();
                value.map_operands(|operand| known[&operand]);
                let dtype = self.dtype(id);
                known.insert(id, self.intern(value, dtype));
            }
        }
        known[&root]
    }

    /// The computation read through a view: coordinate `a` of its array, of which there are `rows.len()`, is given by
    /// `rows[a]` over the `rank` axes of the view.
    pub(super) fn moved(&mut self, root: ValueId, rows: &[IndexMap], rank: usize) -> ValueId {
        self.remapped(root, |map| Some(moved_map(map, rows, rank)))
            .unwrap_or(root)
    }

    /// The computation of an array of shape `from` under the shape `to`; `None` where no strides describe that.
    pub(super) fn reshaped(
        &mut self,
        root: ValueId,
        from: &[usize],
        to: &[usize],
    ) -> Option<ValueId> {
        self.remapped(root, |map| {
            let strides: Vec<isize> = (0..from.len()).map(|axis| map.stride(axis)).collect();
            let mut strides = reshaped_strides(from, &strides, to)?;
            strides.extend(map.strides.iter().skip(from.len()));
            Some(IndexMap {
                offset: map.offset,
                strides,
            })
        })
    }

    /// The computation of an array padded: `before[axis]` elements of `fill` come first.
    pub(super) fn padded(
        &mut self,
        root: ValueId,
        shape: &[usize],
        out: &[usize],
        before: &[usize],
        fill: Scalar,
    ) -> ValueId {
        let rows: Vec<IndexMap> = (0..shape.len())
            .map(|axis| IndexMap {
                offset: -before[axis].cast_signed(),
                strides: unit(shape.len(), axis),
            })
            .collect();
        let guards: Vec<Guard> = (0..shape.len())
            .filter(|&axis| shape[axis] != out[axis])
            .map(|axis| Guard {
                map: rows[axis].clone(),
                extent: shape[axis],
            })
            .collect();
        let moved = self.moved(root, &rows, shape.len());
        let guarded = self.rewritten(moved, |_, value| {
            if let Value::Load { guards: own, .. } | Value::Gather { guards: own, .. } = value {
                own.extend(guards.iter().cloned());
            }
            Some(())
        });
        let inner = guarded.unwrap_or(moved);
        if fill == Scalar::zero(fill.dtype())
            && matches!(self.value(inner), Value::Load { .. } | Value::Gather { .. })
        {
            return inner;
        }
        let inside = self.intern(Value::Inside(guards), DType::Bool);
        let fill = self.constant(fill);
        self.select(inside, inner, fill)
    }
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
