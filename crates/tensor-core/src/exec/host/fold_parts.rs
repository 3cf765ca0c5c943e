//! The nests before and after the fold of a nest.
//!
//! Role: a kernel with loops of its own for a fold, such as a product or a scan, lets the
//! interpreter compute the other values of its nest.

use crate::dtype::DType;
use crate::ir::{IndexMap, LoopNest, Value, ValueId};

/// Returns the nest that computes the operand of a scan, the only fold of `nest`.
pub(super) fn body_of(nest: &LoopNest, operand: ValueId) -> LoopNest {
    // The scan is the only fold, so the operand is the last value of the body.
    let is_needed = nest.body();
    let values = (0..=operand.0).filter(|&id| is_needed[id]);
    let values = values.map(|id| (id, nest.values[id].clone()));
    with_values(nest, nest.inputs.clone(), nest.reduce.clone(), values)
}

/// Returns the nest without its fold: the results of the fold are loaded through a map from an
/// additional, last input.
pub(super) fn epilogue_of(nest: &LoopNest, fold: ValueId, results: &IndexMap) -> LoopNest {
    let is_needed = nest.epilogue();
    let value = |id: usize| match id == fold.0 {
        true => Value::Load {
            input: nest.inputs.len(),
            map: results.clone(),
            guards: Vec::new(),
        },
        false => nest.values[id].clone(),
    };
    let values = (0..nest.values.len()).filter(|&id| is_needed[id]);
    let values = values.map(|id| (id, value(id)));
    let inputs = [&nest.inputs[..], &[nest.dtypes[fold.0]]].concat();
    with_values(nest, inputs, Vec::new(), values)
}

/// Returns a nest of some values of `nest`, each with its number there. Operands precede their
/// readers.
fn with_values(
    nest: &LoopNest,
    inputs: Vec<DType>,
    reduce: Vec<usize>,
    values: impl Iterator<Item = (usize, Value)>,
) -> LoopNest {
    let mut places = vec![ValueId(0); nest.values.len()];
    let mut part = LoopNest {
        domain: nest.domain.clone(),
        reduce,
        values: Vec::new(),
        dtypes: Vec::new(),
        inputs,
        contract: None,
    };
    let rank = part.domain.len() + part.reduce.len();
    for (id, mut value) in values {
        value.map_operands(|operand| places[operand.0]);
        value.maps_mut().for_each(|map| map.strides.truncate(rank));
        places[id] = ValueId(part.values.len());
        part.values.push(value);
        part.dtypes.push(nest.dtypes[id]);
    }
    part
}
