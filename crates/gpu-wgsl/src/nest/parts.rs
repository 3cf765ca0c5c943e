//! Long reductions in two steps.
//!
//! Role: replaces a nest with few output elements and long reduced axes by nests that keep a device
//! busy, or whose loops end within the driver's limit. One nest per fold computes many partial
//! results in parallel. A last nest combines the partial results and computes the rest.
//! Method: one reduced axis is split into pieces of equal length, and a new first axis of the
//! domain counts the pieces. The results of one piece are therefore contiguous, and the combining
//! kernel reads neighbours in parallel. If the last piece is short, guards replace the elements
//! past the end by the fold's neutral element. Both steps are ordinary nests, so the oracle can run
//! them, and the order of a fold depends only on the nest and the number of parts.
//!
//! ```text
//!  sum over 10 terms, 3 parts of piece 4:
//!  part 0: 0 1 2 3   part 1: 4 5 6 7   part 2: 8 9 n n     n: neutral element
//!  rest:   part 0 + part 1 + part 2
//! ```

use std::sync::Arc;

use tensor_core::ir::{Guard, IndexMap, LoopNest, Value, ValueId};
use tensor_core::op::Reduce;
use tensor_core::{DType, Scalar};

use super::contiguous;

/// A nest whose reductions are computed in two steps: partial results, then their combination.
#[derive(Debug, Clone)]
pub(crate) struct SplitReduction {
    /// The nests of the first step, one for each reduction, each with the indices of its inputs
    /// among the inputs of the original nest. A fold computes the partial results of all parts.
    pub(crate) folds: Vec<(Arc<LoopNest>, Vec<usize>)>,
    /// The nest of the second step, which combines the partial results and computes all later
    /// values. Its inputs are the original inputs `rest_inputs`, then the results of the folds.
    pub(crate) rest: Arc<LoopNest>,
    /// Indices of the original inputs that `rest` reads.
    pub(crate) rest_inputs: Vec<usize>,
}

impl SplitReduction {
    /// Returns the nests in the order of their execution, each with the lengths of its inputs;
    /// `lens` are the input lengths of the whole nest.
    pub(crate) fn nests(&self, lens: &[usize]) -> Vec<(&Arc<LoopNest>, Vec<usize>)> {
        let at =
            |inputs: &[usize]| -> Vec<usize> { inputs.iter().map(|&input| lens[input]).collect() };
        let mut nests: Vec<_> = self
            .folds
            .iter()
            .map(|(fold, inputs)| (fold, at(inputs)))
            .collect();
        let partials = self.folds.iter().map(|(fold, _)| fold.output_len());
        let rest = at(&self.rest_inputs).into_iter().chain(partials).collect();
        nests.push((&self.rest, rest));
        nests
    }
}

/// Splits the longest reduced axis into at most `n_parts` parts; `None` for fewer than two parts,
/// or if the axis has fewer than two elements per part.
pub(crate) fn cut(nest: &LoopNest, n_parts: usize) -> Option<SplitReduction> {
    let (axis, &size) = nest
        .reduce
        .iter()
        .enumerate()
        .max_by_key(|(_, size)| **size)?;
    if n_parts < 2 || size < 2 * n_parts {
        return None;
    }
    let piece = size.div_ceil(n_parts);
    let cut = Cut {
        nest,
        axis,
        piece,
        n_parts: size.div_ceil(piece),
    };
    let (body, epilogue) = (nest.body(), nest.epilogue());
    // Reductions whose results are used after the loops; one fold kernel for each.
    let is_asked = |id: usize| epilogue[id] && !body[id];
    let reduced: Vec<(usize, Reduce, ValueId)> = (0..nest.values.len())
        .filter(|&id| is_asked(id))
        .filter_map(|id| match nest.values[id] {
            Value::Reduced(op, operand) => Some((id, op, operand)),
            _ => None,
        })
        .collect();
    let folds = reduced
        .iter()
        .map(|&(_, op, operand)| cut.fold(op, operand))
        .map(|(fold, inputs)| (Arc::new(fold), inputs));
    let folds = folds.collect();
    let (rest, rest_inputs) = cut.rest(&epilogue);
    Some(SplitReduction {
        folds,
        rest: Arc::new(rest),
        rest_inputs,
    })
}

struct Cut<'n> {
    nest: &'n LoopNest,
    /// Index of the split axis among the reduced axes.
    axis: usize,
    /// Number of elements of a piece of the split axis; the last piece may be shorter.
    piece: usize,
    /// Number of pieces.
    n_parts: usize,
}

/// The values and inputs of a nest under construction.
#[derive(Default)]
struct NestBuilder {
    values: Vec<Value>,
    dtypes: Vec<DType>,
    inputs: Vec<usize>,
}

impl NestBuilder {
    fn push(&mut self, value: Value, dtype: DType) -> ValueId {
        self.values.push(value);
        self.dtypes.push(dtype);
        ValueId(self.values.len() - 1)
    }

    /// Returns the index of an input of the original nest among the inputs of this nest.
    fn input(&mut self, input: usize) -> usize {
        let known = self.inputs.iter().position(|&known| known == input);
        known.unwrap_or_else(|| {
            self.inputs.push(input);
            self.inputs.len() - 1
        })
    }

    /// Copies a value of the original nest, with its maps transformed by `map` and with the
    /// additional guards `more`. `places` contains the new ids of the values copied so far.
    fn copy(
        &mut self,
        nest: &LoopNest,
        id: usize,
        places: &[Option<ValueId>],
        map: &dyn Fn(&IndexMap) -> IndexMap,
        more: &[Guard],
    ) -> ValueId {
        let mut value = nest.values[id].clone();
        // Operands are stored before their uses, so their new ids are known.
        value.map_operands(|operand| places[operand.0].unwrap_or(ValueId(0)));
        for own in value.maps_mut() {
            *own = map(own);
        }
        if let Value::Load { input, guards, .. } | Value::Gather { input, guards, .. } = &mut value
        {
            *input = self.input(*input);
            guards.extend_from_slice(more);
        }
        self.push(value, nest.dtypes[id])
    }
}

impl Cut<'_> {
    /// Returns the nest that computes the partial results of one reduction, and the indices of its
    /// inputs among the inputs of the original nest.
    fn fold(&self, op: Reduce, operand: ValueId) -> (LoopNest, Vec<usize>) {
        let nest = self.nest;
        let beyond: Vec<Guard> = self.last_piece().into_iter().collect();
        let mut draft = NestBuilder::default();
        let mut places = vec![None; nest.values.len()];
        let needed = reached(nest, operand);
        // Copies only the values on which the fold's operand depends.
        for id in (0..nest.values.len()).filter(|&id| needed[id]) {
            let place = draft.copy(nest, id, &places, &|map| self.cut_map(map), &beyond);
            places[id] = Some(place);
        }
        let dtype = nest.dtypes[operand.0];
        let mut last = ValueId(draft.values.len() - 1);
        if !beyond.is_empty() {
            let inside = draft.push(Value::Inside(beyond), DType::Bool);
            let neutral = neutral(op, dtype);
            let neutral = draft.push(Value::Const(neutral), dtype);
            last = draft.push(Value::Select(inside, last, neutral), dtype);
        }
        draft.push(Value::Reduced(op, last), op.result(dtype));
        let mut reduce = nest.reduce.clone();
        reduce[self.axis] = self.piece;
        let fold = LoopNest {
            domain: [&[self.n_parts], &nest.domain[..]].concat(),
            reduce,
            values: draft.values,
            dtypes: draft.dtypes,
            inputs: draft
                .inputs
                .iter()
                .map(|&input| nest.inputs[input])
                .collect(),
            contract: None,
        };
        (fold, draft.inputs)
    }

    /// Returns the nest that combines the partial results and computes all later values, and the
    /// indices of the original inputs that the nest reads.
    fn rest(&self, epilogue: &[bool]) -> (LoopNest, Vec<usize>) {
        let nest = self.nest;
        let n_domain = nest.domain.len();
        // The values after the reduction depend on domain axes only; the single reduced axis of
        // this nest counts the parts.
        let on_domain = |map: &IndexMap| IndexMap {
            offset: map.offset,
            strides: [&map.strides[..n_domain], &[0]].concat(),
        };
        let mut draft = NestBuilder::default();
        let mut places = vec![None; nest.values.len()];
        let mut joined: Vec<(usize, DType)> = Vec::new();
        for id in (0..nest.values.len()).filter(|&id| epilogue[id]) {
            places[id] = Some(if let Value::Reduced(op, _) = nest.values[id] {
                let dtype = nest.dtypes[id];
                // The loads of partial results follow all original inputs, whose number is not
                // known yet. `input` is therefore 0 until the loop below.
                let load = Value::Load {
                    input: 0,
                    map: self.of_partial(),
                    guards: Vec::new(),
                };
                let load = draft.push(load, dtype);
                joined.push((load.0, dtype));
                draft.push(Value::Reduced(op, load), dtype)
            } else {
                draft.copy(nest, id, &places, &on_domain, &[])
            });
        }
        let n_inputs = draft.inputs.len();
        let mut inputs: Vec<DType> = draft
            .inputs
            .iter()
            .map(|&input| nest.inputs[input])
            .collect();
        for (number, (load, dtype)) in joined.into_iter().enumerate() {
            if let Value::Load { input, .. } = &mut draft.values[load] {
                *input = n_inputs + number;
            }
            inputs.push(dtype);
        }
        let rest = LoopNest {
            domain: nest.domain.clone(),
            reduce: vec![self.n_parts],
            values: draft.values,
            dtypes: draft.dtypes,
            inputs,
            contract: None,
        };
        (rest, draft.inputs)
    }

    /// Converts a map of the original nest to the axes of a fold: the part, then the domain, then
    /// the reduced axes. The split axis counts within its piece, so the next part is `piece`
    /// elements further.
    fn cut_map(&self, map: &IndexMap) -> IndexMap {
        let (domain, reduced) = map.strides.split_at(self.nest.domain.len());
        let of_part = reduced[self.axis] * self.piece.cast_signed();
        IndexMap {
            offset: map.offset,
            strides: [&[of_part], domain, reduced].concat(),
        }
    }

    /// Returns the guard that rejects positions past the end of the split axis; `None` if the last
    /// piece has full length.
    fn last_piece(&self) -> Option<Guard> {
        let size = self.nest.reduce[self.axis];
        let n_domain = self.nest.domain.len();
        let mut strides = vec![0; 1 + n_domain + self.nest.reduce.len()];
        strides[0] = self.piece.cast_signed();
        strides[n_domain + 1 + self.axis] = 1;
        (self.piece * self.n_parts > size).then_some(Guard {
            map: IndexMap { offset: 0, strides },
            extent: size,
        })
    }

    /// Returns the map with which the combining nest loads a partial result. The axes of this nest
    /// are the domain, then the part; the partial results are stored as `[part, domain]`.
    fn of_partial(&self) -> IndexMap {
        let IndexMap { offset, strides } = contiguous(&self.nest.domain);
        let of_part = self.nest.output_len().cast_signed();
        IndexMap {
            offset,
            strides: [&strides[..], &[of_part]].concat(),
        }
    }
}

/// Returns, for each value, whether `from` depends on the value or is this value.
fn reached(nest: &LoopNest, from: ValueId) -> Vec<bool> {
    let mut reached = vec![false; nest.values.len()];
    reached[from.0] = true;
    for id in (0..=from.0).rev() {
        if reached[id] {
            for operand in nest.values[id].operands() {
                reached[operand.0] = true;
            }
        }
    }
    reached
}

/// Returns the neutral element of a fold, in the type of its operand.
fn neutral(op: Reduce, dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(op == Reduce::All),
        _ => op.neutral(dtype),
    }
}

#[cfg(test)]
mod tests {
    use tensor_core::exec::{Executor, Storage};
    use tensor_core::plan::{BufferId, Plan, Step};
    use tensor_core::rng::Philox;
    use tensor_core::{Axes, HostData, Reference, Tensor};

    use super::*;

    fn run(nest: &LoopNest, inputs: &[Arc<dyn Storage>]) -> Arc<dyn Storage> {
        let step = Step {
            nest: Arc::new(nest.clone()),
            inputs: (0..inputs.len()).map(BufferId).collect(),
            output: BufferId(inputs.len()),
            wave: 0,
            origins: Vec::new(),
        };
        Reference.run(&step, inputs).unwrap()
    }

    fn elements(storage: Arc<dyn Storage>) -> Vec<f64> {
        let data: HostData = pollster::block_on(storage.read()).unwrap();
        (0..data.len())
            .filter_map(|at| data.get(at))
            .map(Scalar::to_f64)
            .collect()
    }

    #[test]
    fn parts_give_what_the_whole_gives() {
        // Integer values, so that sums are exact in every order.
        let x = (Tensor::arange(5 * 23).reshape(&[5, 23]) % 7 - 3).cast(DType::F32);
        let table = Tensor::arange(23) * 3;
        let rows = Tensor::arange(5 * 23).reshape(&[5, 23]) % 23;
        let random = |stream| {
            let words = Tensor::rand(Philox::new(5).stream(stream), &[5, 23]);
            (words * 1000.0).cast(DType::I32)
        };
        let programs = [
            x.sum(1) * 2.0 + x.slice(1, 0..1).squeeze(1),
            x.max(..) - x.min(..) * x.lt(0.0).count(..).cast(DType::F32),
            x.lt(4.0).all(1),
            x.lt(-3.0).any(1),
            x.sum(0).exp(),
            x.prod(1),
            table.gather(&rows, 0).sum(1),
            x.pad(1, 2, 3, 1.0).window(1, 4, 1).sum(Axes::from([1, 2])),
            Tensor::arange(23).sum(0),
            random(4).max(..) * 3 + random((1 << 40) + 9).min(..),
        ];
        let mut n_cut = 0;
        for program in &programs {
            let (plan, data) = Plan::new(&[program], &Reference.target()).unwrap();
            let mut arrays: Vec<Option<Arc<dyn Storage>>> = vec![None; plan.buffers.len()];
            for (input, storage) in plan.inputs.iter().zip(data) {
                arrays[input.0] = Some(storage);
            }
            for step in plan.steps.iter() {
                let inputs = step
                    .inputs
                    .iter()
                    .map(|input| arrays[input.0].clone().unwrap());
                let inputs: Vec<_> = inputs.collect();
                let whole = run(&step.nest, &inputs);
                let expected = elements(Arc::clone(&whole));
                for n_parts in 2..12 {
                    let Some(parts) = cut(&step.nest, n_parts) else {
                        continue;
                    };
                    n_cut += 1;
                    let at = |places: &[usize]| -> Vec<_> {
                        places
                            .iter()
                            .map(|&place| Arc::clone(&inputs[place]))
                            .collect()
                    };
                    let folded = parts
                        .folds
                        .iter()
                        .map(|(fold, places)| run(fold, &at(places)));
                    let given = [at(&parts.rest_inputs), folded.collect()].concat();
                    assert_eq!(elements(run(&parts.rest, &given)), expected, "{parts:?}");
                }
                arrays[step.output.0] = Some(whole);
            }
        }
        assert!(n_cut > 50, "{n_cut}");
    }
}
