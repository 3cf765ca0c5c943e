//! The nests before and after the fold of a nest.
//!
//! Role: builds the nests of the values before and after a fold, for kernels whose fold has loops
//! of its own: products, rows, scans and scatters. The interpreter runs these nests, except for
//! those that are chains on rows.

use crate::dtype::DType;
use crate::ir::{IndexMap, LoopNest, Value, ValueId};

/// Returns the nest that computes a value of the body over some loop axes of `nest`, which become
/// the axes of its output. The value must depend on no other axes.
pub(super) fn operand_of(nest: &LoopNest, operand: ValueId, axes: &[usize]) -> LoopNest {
    let mut is_needed = vec![false; nest.values.len()];
    is_needed[operand.0] = true;
    for id in (0..=operand.0).rev() {
        // Backwards, because operands precede their uses.
        if is_needed[id] {
            let operands = nest.values[id].operands();
            operands.for_each(|operand| is_needed[operand.0] = true);
        }
    }
    let sizes = nest.sizes();
    let values = (0..=operand.0).filter(|&id| is_needed[id]).map(|id| {
        let mut value = nest.values[id].clone();
        for map in value.maps_mut() {
            map.strides = axes.iter().map(|&axis| map.stride(axis)).collect();
        }
        (id, value)
    });
    let domain = axes.iter().map(|&axis| sizes[axis]).collect();
    with_values(nest, domain, nest.inputs.clone(), values)
}

/// Returns the nest without its folds: the results of each of the folds are loaded through a map
/// from an additional input. These inputs follow those of the nest, in the order of `folds`.
pub(super) fn epilogue_of(nest: &LoopNest, folds: &[ValueId], results: &IndexMap) -> LoopNest {
    let is_needed = nest.epilogue();
    let rank = nest.domain.len();
    let value = |id: usize| match folds.iter().position(|fold| fold.0 == id) {
        Some(number) => Value::Load {
            input: nest.inputs.len() + number,
            map: results.clone(),
            guards: Vec::new(),
        },
        None => {
            let mut value = nest.values[id].clone();
            value.maps_mut().for_each(|map| map.strides.truncate(rank));
            value
        }
    };
    let values = (0..nest.values.len()).filter(|&id| is_needed[id]);
    let values = values.map(|id| (id, value(id)));
    let results = folds.iter().map(|fold| nest.dtypes[fold.0]);
    let inputs = nest.inputs.iter().copied().chain(results).collect();
    with_values(nest, nest.domain.clone(), inputs, values)
}

/// Returns a nest of some values of `nest`, each with its number there. Operands precede their
/// readers.
fn with_values(
    nest: &LoopNest,
    domain: Vec<usize>,
    inputs: Vec<DType>,
    values: impl Iterator<Item = (usize, Value)>,
) -> LoopNest {
    let mut places = vec![ValueId(0); nest.values.len()];
    let mut part = LoopNest {
        domain,
        reduce: Vec::new(),
        values: Vec::new(),
        dtypes: Vec::new(),
        inputs,
        contract: None,
    };
    for (id, mut value) in values {
        value.map_operands(|operand| places[operand.0]);
        places[id] = ValueId(part.values.len());
        part.values.push(value);
        part.dtypes.push(nest.dtypes[id]);
    }
    part
}
