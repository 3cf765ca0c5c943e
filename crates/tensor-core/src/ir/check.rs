//! The check of a nest's invariants.

use std::ops::Range;

use super::{IndexMap, LoopNest, Value, ValueId, held};
use crate::dtype::DType;
use crate::op::{Binary, MAX_POSITIONS, Reduce, Sorted};
use crate::shape::element_count;

impl LoopNest {
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

impl Value {
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
}
