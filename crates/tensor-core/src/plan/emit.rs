//! The translation of one computation into one step: a loop nest in its simplest form.
//!
//! Method: the values that the result needs get new numbers, maps get one stride for each loop
//! axis, axes that walk memory like a single axis are merged, and inputs are numbered within the
//! step. A nest that turns out to be a matrix product is marked. If the target needs plain factors,
//! computed factors become steps of their own.

use std::collections::HashSet;
use std::sync::Arc;

use super::lower::{Lowered, Lowering};
use super::{BufferId, BufferKind, Step};
use crate::dtype::DType;
use crate::hash::HashMap;
use crate::ir::{Contract, IndexMap, LoopNest, Matrices, Pairs, Value, ValueId};
use crate::op::{Binary, Reduce, Scan, Sort};

/// Adds the step that computes an array, and returns the step's buffer.
pub(super) fn step(draft: &mut Lowering<'_>, lowered: &Lowered, shape: &[usize]) -> BufferId {
    let mut lowered = lowered.clone();
    let (mut nest, mut order, mut inputs) = nest_of(draft, &lowered, shape);
    let sizes = [shape, &lowered.reduce].concat();
    // A factor that is larger than its inputs is never stored; the product then runs as plain
    // loops. Both factors are checked before either is computed, because a product with only one
    // factor in memory would read more than was counted.
    let mut factors = unready_factors(draft, &nest, &order).into_iter();
    let has_grown = factors.any(|factor| grows(draft, factor, &sizes));
    if has_grown {
        draft.keep_factors(&lowered);
    }
    if has_grown || !has_room_for_factors(draft, &nest) {
        nest.contract = None;
    }
    while let Some(&factor) = unready_factors(draft, &nest, &order).first() {
        lowered.value = with_factor_in_memory(draft, &lowered, shape, factor);
        (nest, order, inputs) = nest_of(draft, &lowered, shape);
    }
    let reads_once = reads_input_once(draft, &nest, &inputs);
    if let Some(contract) = &mut nest.contract {
        contract.reads_once = reads_once;
    }
    let origins = draft.origins(&lowered);
    let output = draft.buffer(BufferKind::Temporary, nest.dtype(), shape);
    draft.steps.push(Step {
        nest: Arc::new(nest),
        inputs,
        output,
        wave: 0,
        origins,
    });
    output
}

/// Returns `true` if an array would be computed as a matrix product.
pub(super) fn is_product(draft: &Lowering<'_>, lowered: &Lowered, shape: &[usize]) -> bool {
    nest_of(draft, lowered, shape).0.contract.is_some()
}

/// Returns whether a product should read an input of the program once
/// ([`Contract::reads_once`]). A factor that another step computes is not marked, because in a band
/// only some of its rows are in memory at a time, in a cache.
fn reads_input_once(draft: &Lowering<'_>, nest: &LoopNest, inputs: &[BufferId]) -> bool {
    let large_factor = || {
        nest.contract.as_ref()?;
        let pairs = Pairs::from_nest(nest)?;
        let side = Matrices::from_nest(nest, &pairs)?.factor_read_once(pairs.dtype)?;
        Some(pairs.factors[side])
    };
    let is_input = |factor: ValueId| match nest.values[factor.0] {
        Value::Load { input, .. } => draft.buffers[inputs[input].0].kind == BufferKind::Input,
        _ => false,
    };
    large_factor().is_some_and(is_input)
}

/// Returns the nest of a computation, the arena's id of each of its values, and the buffers of its
/// inputs.
fn nest_of(
    draft: &Lowering<'_>,
    lowered: &Lowered,
    shape: &[usize],
) -> (LoopNest, Vec<ValueId>, Vec<BufferId>) {
    let root = lowered.value;
    #[cfg(test)]
    let root = super::fault::result(&draft.arena, root);
    let order = draft.arena.reachable(root);
    let place: HashMap<ValueId, ValueId> = order
        .iter()
        .enumerate()
        .map(|(at, &id)| (id, ValueId(at)))
        .collect();
    // Inputs are numbered by first use; a buffer that several values read is one input.
    let mut inputs: Vec<BufferId> = Vec::new();
    let sizes = [shape, &lowered.reduce].concat();
    let mut values = Vec::with_capacity(order.len());
    for &id in &order {
        let mut value = draft.arena.value(id).clone();
        value.map_operands(|operand| place[&operand]);
        // The arena trims trailing zero strides; a nest has one stride for each loop.
        for map in value.maps_mut() {
            map.strides.resize(sizes.len(), 0);
        }
        if let Value::Load { input, .. } | Value::Gather { input, .. } = &mut value {
            let buffer = BufferId(*input);
            *input = inputs
                .iter()
                .position(|&known| known == buffer)
                .unwrap_or_else(|| {
                    inputs.push(buffer);
                    inputs.len() - 1
                });
        }
        values.push(value);
    }
    let mut nest = LoopNest {
        domain: shape.to_vec(),
        reduce: lowered.reduce.clone(),
        dtypes: order.iter().map(|&id| draft.arena.dtype(id)).collect(),
        inputs: inputs
            .iter()
            .map(|buffer| draft.buffers[buffer.0].dtype)
            .collect(),
        values,
        contract: None,
    };
    let mut order = order;
    if merge_axes(&mut nest) {
        merge_values(&mut nest, &mut order);
    }
    nest.contract = find_contract(&nest, draft.target.merges_sums)
        .filter(|contract| draft.target.is_worth_a_product(&nest, contract));
    (nest, order, inputs)
}

/// Merges neighbouring axes that every map walks like a single axis, and drops axes of size 1. The
/// axis of a scan or sort stays an axis of its own. Returns whether the axes changed.
fn merge_axes(nest: &mut LoopNest) -> bool {
    let sizes = nest.sizes();
    if sizes.contains(&0) {
        return false;
    }
    let n_domain = nest.domain.len();
    let line = nest.line_axis();
    // Each new axis is a run of old axes; the last axis of the run gives the stride.
    //
    //    sizes   [2, 3, 4]     strides [12, 4, 1]  ->  sizes [24]      strides [1]
    //    sizes   [2, 3, 4]     strides [24, 4, 1]  ->  sizes [2, 12]   strides [24, 1]
    let mut runs: Vec<(usize, usize, bool)> = Vec::new();
    for (axis, &size) in sizes.iter().enumerate() {
        let reduced = axis >= n_domain;
        if size == 1 && line != Some(axis) {
            continue;
        }
        // Merge if in every map one step along the run equals `size` steps along this axis.
        if let Some((last, run_size, last_reduced)) = runs.last_mut()
            && *last_reduced == reduced
            && line != Some(axis)
            && line != Some(*last)
            && nest
                .values
                .iter()
                .flat_map(Value::maps)
                .all(|map| map.strides[*last] == map.strides[axis].wrapping_mul(size.cast_signed()))
        {
            (*last, *run_size) = (axis, *run_size * size);
        } else {
            runs.push((axis, size, reduced));
        }
    }
    for map in nest.values.iter_mut().flat_map(Value::maps_mut) {
        map.strides = runs.iter().map(|&(last, ..)| map.strides[last]).collect();
    }
    for value in &mut nest.values {
        if let Value::Scanned(Scan { axis, .. }, _) | Value::Sorted(Sort { axis, .. }, _) = value {
            let place = runs.iter().position(|&(last, ..)| last == *axis);
            *axis = place.unwrap_or(*axis);
        }
    }
    let of = |reduced: bool| {
        let same = runs.iter().filter(move |run| run.2 == reduced);
        same.map(|&(_, size, _)| size).collect()
    };
    (nest.domain, nest.reduce) = (of(false), of(true));
    runs.len() < sizes.len()
}

/// Replaces equal values by the first of them, also in `order`, the arena's id of each value. The
/// arena has no equal values, but values whose maps differ along dropped axes alone become equal.
fn merge_values(nest: &mut LoopNest, order: &mut Vec<ValueId>) {
    let mut known: HashMap<(Value, DType), ValueId> = HashMap::default();
    let mut places = Vec::with_capacity(nest.values.len());
    let (values, dtypes) = (
        std::mem::take(&mut nest.values),
        std::mem::take(&mut nest.dtypes),
    );
    let ids = std::mem::take(order);
    for ((mut value, dtype), id) in values.into_iter().zip(dtypes).zip(ids) {
        value.map_operands(|operand: ValueId| places[operand.0]);
        let next = ValueId(nest.values.len());
        let place = *known.entry((value.clone(), dtype)).or_insert(next);
        if place == next {
            nest.values.push(value);
            nest.dtypes.push(dtype);
            order.push(id);
        }
        places.push(place);
    }
}

/// Returns the matrix product that a nest computes, or `None` if the nest has another form: it must
/// have one float sum, of the product of two values. Axes that both factors or neither depend on
/// are batch axes; an axis of the left factor alone is a row axis, of the right factor alone a
/// column axis. If `shares_guards` is set, guards that both factors have are ignored.
fn find_contract(nest: &LoopNest, shares_guards: bool) -> Option<Contract> {
    let is_reduction = |(_, value): &(usize, &Value)| matches!(value, Value::Reduced(..));
    let mut reductions = nest.values.iter().enumerate().filter(is_reduction);
    let (sum, &Value::Reduced(Reduce::Sum, product)) = reductions.next()? else {
        return None;
    };
    let Value::Binary(Binary::Mul, lhs, rhs) = nest.values[product.0] else {
        return None;
    };
    if reductions.next().is_some() || !nest.dtypes[sum].is_float() {
        return None;
    }
    let [left, right] = if shares_guards {
        nest.dependence_of_factors([lhs, rhs])
    } else {
        [lhs, rhs].map(|factor| nest.dependence(factor))
    };
    let n_domain = nest.domain.len();
    let axes = |want: (bool, bool)| -> Vec<usize> {
        (0..n_domain)
            .filter(|&axis| (left[axis], right[axis]) == want)
            .collect()
    };
    // Both factors must depend on every reduced axis, otherwise the axis is no inner dimension.
    let inner_is_shared = (n_domain..left.len()).all(|axis| left[axis] && right[axis]);
    inner_is_shared.then(|| Contract {
        batch: [axes((true, true)), axes((false, false))].concat(),
        rows: axes((true, false)),
        cols: axes((false, true)),
        lhs,
        rhs,
        sum: ValueId(sum),
        reads_once: false,
    })
}

/// Returns the arena's ids of those factors of the nest's product that are computed values, if the
/// target supports only loads as factors.
fn unready_factors(draft: &Lowering<'_>, nest: &LoopNest, order: &[ValueId]) -> Vec<ValueId> {
    let Some(contract) = nest
        .contract
        .as_ref()
        .filter(|_| !draft.target.computes_factors)
    else {
        return Vec::new();
    };
    let factors = [contract.lhs, contract.rhs].into_iter();
    let computed = factors.filter(|factor| !matches!(nest.values[factor.0], Value::Load { .. }));
    computed.map(|factor| order[factor.0]).collect()
}

/// Returns `true` if the nest stays within the target's cap on inputs after the unsupported factors
/// are stored and loaded from memory.
fn has_room_for_factors(draft: &Lowering<'_>, nest: &LoopNest) -> bool {
    let Some(contract) = nest
        .contract
        .as_ref()
        .filter(|_| !draft.target.computes_factors)
    else {
        return true;
    };
    // The walk does not enter the factors, so it finds the inputs that remain without them.
    let mut seen = HashSet::from([contract.lhs, contract.rhs]);
    let mut open = vec![nest.result()];
    let mut read = HashSet::new();
    while let Some(id) = open.pop() {
        if let Value::Load { input, .. } | Value::Gather { input, .. } = nest.values[id.0] {
            read.insert(input);
        }
        open.extend(
            nest.values[id.0]
                .operands()
                .filter(|&operand| seen.insert(operand)),
        );
    }
    // Each factor adds one input: its new buffer, or the buffer that it loads already.
    read.len() + 2 <= draft.target.max_inputs
}

/// Returns `true` if a factor, over the axes that it depends on, is larger than all its inputs.
fn grows(draft: &Lowering<'_>, factor: ValueId, sizes: &[usize]) -> bool {
    let axes = axes_of(draft, factor, sizes);
    let len: usize = axes.iter().map(|&axis| sizes[axis]).product();
    draft.outgrows(factor, len)
}

/// Returns the loop axes that a value depends on, without axes of size 1.
fn axes_of(draft: &Lowering<'_>, root: ValueId, sizes: &[usize]) -> Vec<usize> {
    let mut depends = vec![false; sizes.len()];
    for id in draft.arena.reachable(root) {
        for map in draft.arena.value(id).maps() {
            for (axis, &stride) in map.strides.iter().enumerate() {
                depends[axis] |= stride != 0;
            }
        }
    }
    (0..sizes.len())
        .filter(|&axis| depends[axis] && sizes[axis] > 1)
        .collect()
}

/// Sorts axes in the memory order of the elements that a value reads, longest strides first. A
/// factor and its transpose are thus stored as one array, written in the order in which it is read.
fn in_memory_order(draft: &Lowering<'_>, root: ValueId, mut axes: Vec<usize>) -> Vec<usize> {
    let values = draft.arena.reachable(root);
    let stride = |axis: usize| {
        let maps = values.iter().filter_map(|&id| match draft.arena.value(id) {
            Value::Load { map, .. } | Value::Gather { map, .. } => Some(map),
            _ => None,
        });
        maps.map(|map| map.stride(axis).unsigned_abs()).max()
    };
    axes.sort_by_key(|&axis| std::cmp::Reverse(stride(axis)));
    axes
}

/// Computes a factor over the axes that it depends on, in a step of its own. Returns the
/// computation with the factor loaded from memory.
fn with_factor_in_memory(
    draft: &mut Lowering<'_>,
    lowered: &Lowered,
    shape: &[usize],
    factor: ValueId,
) -> ValueId {
    let sizes = [shape, &lowered.reduce].concat();
    // The stored factor has only its own axes, in memory order; all other axes get stride 0 in the
    // load below.
    let axes = in_memory_order(draft, factor, axes_of(draft, factor, &sizes));
    let own: Vec<usize> = axes.iter().map(|&axis| sizes[axis]).collect();
    let packed = draft.arena.remapped(factor, &own, |map| {
        Some(IndexMap {
            offset: map.offset,
            strides: axes.iter().map(|&axis| map.stride(axis)).collect(),
        })
    });
    let computation = Lowered {
        value: packed.unwrap_or(factor),
        reduce: Vec::new(),
        scan: None,
        nodes: lowered
            .nodes
            .iter()
            .filter(|(_, inside)| **inside)
            .map(|(&node, _)| (node, false))
            .collect(),
    };
    let buffer = draft.compute(&computation, &own);
    let mut map = IndexMap {
        offset: 0,
        strides: vec![0; sizes.len()],
    };
    for (&axis, &stride) in axes.iter().zip(&IndexMap::in_order(&own).strides) {
        map.strides[axis] = stride;
    }
    let dtype: DType = draft.arena.dtype(factor);
    let load = draft.arena.intern(
        Value::Load {
            input: buffer.0,
            map,
            guards: Vec::new(),
        },
        dtype,
    );
    draft.arena.replaced(lowered.value, factor, load)
}
