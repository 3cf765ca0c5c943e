//! One computation becomes one step: a loop nest in its simplest form.
//!
//! Method: the values that the result needs are numbered anew, maps get one stride a loop axis, axes that walk memory
//! like one are merged, and inputs are numbered within the step. A nest that turns out to be a matrix product is marked;
//! where the target wants plain factors, the others are computed first.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::lower::{Draft, Lowered, contiguous};
use super::{BufferId, Kind, Step};
use crate::dtype::DType;
use crate::ir::{Contract, IndexMap, LoopNest, Value, ValueId};
use crate::op::{Binary, Reduce};

/// Adds the step that computes an array, and gives its buffer.
pub(super) fn step(draft: &mut Draft<'_>, lowered: &Lowered, shape: &[usize]) -> BufferId {
    let mut lowered = lowered.clone();
    let (mut nest, mut order, mut inputs) = nest_of(draft, &lowered, shape);
    let sizes = [shape, &lowered.reduce].concat();
    // Better a slower product than an array that only appears on the way. Asked of both factors before either is computed:
    // one in memory beside one that is not would read more than was counted.
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
    let origins = draft.origins(&lowered);
    let output = draft.buffer(Kind::Temporary, nest.dtype(), shape);
    draft.steps.push(Step {
        nest: Arc::new(nest),
        inputs,
        output,
        wave: 0,
        origins,
    });
    output
}

/// Whether an array would be computed as a matrix product.
pub(super) fn is_product(draft: &Draft<'_>, lowered: &Lowered, shape: &[usize]) -> bool {
    nest_of(draft, lowered, shape).0.contract.is_some()
}

/// The nest of a computation, the arena's id of each of its values, and its inputs.
fn nest_of(
    draft: &Draft<'_>,
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
    let mut inputs: Vec<BufferId> = Vec::new();
    let sizes = [shape, &lowered.reduce].concat();
    let mut values = Vec::with_capacity(order.len());
    for &id in &order {
        let mut value = draft.arena.value(id).clone();
        value.map_operands(|operand| place[&operand]);
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
    merge_axes(&mut nest);
    nest.contract =
        find_contract(&nest).filter(|contract| draft.target.is_worth_a_product(&nest, contract));
    (nest, order, inputs)
}

/// Merges neighbouring axes that every map walks like one, and drops those of size 1.
fn merge_axes(nest: &mut LoopNest) {
    let sizes = nest.sizes();
    if sizes.contains(&0) {
        return;
    }
    let n_domain = nest.domain.len();
    // Each new axis is a run of old ones, of which the last gives the stride.
    let mut runs: Vec<(usize, usize, bool)> = Vec::new();
    for (axis, &size) in sizes.iter().enumerate() {
        let reduced = axis >= n_domain;
        if size == 1 {
            continue;
        }
        if let Some((last, run_size, last_reduced)) = runs.last_mut()
            && *last_reduced == reduced
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
    let of = |reduced: bool| {
        let same = runs.iter().filter(move |run| run.2 == reduced);
        same.map(|&(_, size, _)| size).collect()
    };
    (nest.domain, nest.reduce) = (of(false), of(true));
}

/// Reads a nest as a matrix product, if it is one.
fn find_contract(nest: &LoopNest) -> Option<Contract> {
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
    let (left, right) = (nest.dependence(lhs), nest.dependence(rhs));
    let n_domain = nest.domain.len();
    let axes = |want: (bool, bool)| -> Vec<usize> {
        (0..n_domain)
            .filter(|&axis| (left[axis], right[axis]) == want)
            .collect()
    };
    let inner_is_shared = (n_domain..left.len()).all(|axis| left[axis] && right[axis]);
    inner_is_shared.then(|| Contract {
        batch: [axes((true, true)), axes((false, false))].concat(),
        rows: axes((true, false)),
        cols: axes((false, true)),
        lhs,
        rhs,
        sum: ValueId(sum),
    })
}

/// The factors of the nest's product that the target does not take as they are, by their ids in the arena.
fn unready_factors(draft: &Draft<'_>, nest: &LoopNest, order: &[ValueId]) -> Vec<ValueId> {
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

/// Whether the inputs stay within the target's cap once the factors that it does not take are read from memory.
fn has_room_for_factors(draft: &Draft<'_>, nest: &LoopNest) -> bool {
    let Some(contract) = nest
        .contract
        .as_ref()
        .filter(|_| !draft.target.computes_factors)
    else {
        return true;
    };
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
    // Each factor is one input more: the buffer that it goes into, or the one that it reads already.
    read.len() + 2 <= draft.target.max_inputs
}

/// Whether a factor over the axes that it depends on is larger than all that it reads.
fn grows(draft: &Draft<'_>, factor: ValueId, sizes: &[usize]) -> bool {
    let axes = axes_of(draft, factor, sizes);
    let len: usize = axes.iter().map(|&axis| sizes[axis]).product();
    draft.outgrows(factor, len)
}

/// The loop axes that a value depends on, without those of size 1.
fn axes_of(draft: &Draft<'_>, root: ValueId, sizes: &[usize]) -> Vec<usize> {
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

/// Axes in the order in which what a value reads lies in memory: those of long strides first. So a factor and its
/// transpose are one array, which is written as it is read.
fn as_it_lies(draft: &Draft<'_>, root: ValueId, mut axes: Vec<usize>) -> Vec<usize> {
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

/// Computes a factor over the axes that it depends on, and gives the computation that reads it from there.
fn with_factor_in_memory(
    draft: &mut Draft<'_>,
    lowered: &Lowered,
    shape: &[usize],
    factor: ValueId,
) -> ValueId {
    let sizes = [shape, &lowered.reduce].concat();
    let axes = as_it_lies(draft, factor, axes_of(draft, factor, &sizes));
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
    for (&axis, &stride) in axes.iter().zip(&contiguous(&own).strides) {
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
