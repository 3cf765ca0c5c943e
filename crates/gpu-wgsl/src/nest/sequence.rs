//! Nests that together compute one nest.

use std::sync::Arc;

use tensor_core::DType;
use tensor_core::ir::{Guard, IndexMap, LoopNest, Value, ValueId};

/// Nests in the order of their execution. The last one computes the output of the whole nest.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    /// Each nest with the numbers of its inputs. The first numbers are those of the inputs of the
    /// whole nest; the results of the nests follow.
    pub(crate) nests: Vec<(Arc<LoopNest>, Vec<usize>)>,
}

impl Sequence {
    /// Returns the nests, each with the lengths of its inputs; `lens` are the input lengths of the
    /// whole nest.
    pub(crate) fn with_lens(&self, lens: &[usize]) -> Vec<(&Arc<LoopNest>, Vec<usize>)> {
        let mut lens = lens.to_vec();
        let nests = self.nests.iter().map(|(nest, inputs)| {
            let own = inputs.iter().map(|&input| lens[input]).collect();
            lens.push(nest.output_len());
            (nest, own)
        });
        nests.collect()
    }
}

/// The values and inputs of a nest under construction.
#[derive(Default)]
pub(super) struct NestBuilder {
    pub(super) values: Vec<Value>,
    pub(super) dtypes: Vec<DType>,
    /// The inputs, by their numbers in the sequence, and their types.
    inputs: Vec<(usize, DType)>,
}

impl NestBuilder {
    /// Adds a value of a type and returns its id.
    pub(super) fn push(&mut self, value: Value, dtype: DType) -> ValueId {
        self.values.push(value);
        self.dtypes.push(dtype);
        ValueId(self.values.len() - 1)
    }

    /// Adds a load of an input, by its number in the sequence.
    pub(super) fn load(
        &mut self,
        (input, dtype): (usize, DType),
        map: IndexMap,
        guards: Vec<Guard>,
    ) -> ValueId {
        let input = self.input(input, dtype);
        self.push(Value::Load { input, map, guards }, dtype)
    }

    /// Returns the number of an input within this nest.
    pub(super) fn input(&mut self, input: usize, dtype: DType) -> usize {
        let known = self.inputs.iter().position(|&(known, _)| known == input);
        known.unwrap_or_else(|| {
            self.inputs.push((input, dtype));
            self.inputs.len() - 1
        })
    }

    /// Copies a value of the whole nest, with its maps transformed by `map` and with the additional
    /// guards `more`. `places` contains the new ids of the values copied so far.
    pub(super) fn copy(
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
        if let Value::Load { input, .. } | Value::Gather { input, .. } = &mut value {
            *input = self.input(*input, nest.inputs[*input]);
        }
        value.add_guards(more);
        self.push(value, nest.dtypes[id])
    }

    /// Returns the nest over some loops, and the numbers of its inputs in the sequence.
    pub(super) fn finish(
        self,
        domain: Vec<usize>,
        reduce: Vec<usize>,
    ) -> (Arc<LoopNest>, Vec<usize>) {
        let (numbers, inputs) = self.inputs.into_iter().unzip();
        let nest = LoopNest {
            domain,
            reduce,
            values: self.values,
            dtypes: self.dtypes,
            inputs,
            contract: None,
        };
        (Arc::new(nest), numbers)
    }
}

/// Returns, for each value, whether `from` depends on the value or is this value.
pub(super) fn reached(nest: &LoopNest, from: ValueId) -> Vec<bool> {
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

/// Nests on the reference executor, for tests.
#[cfg(test)]
pub(super) mod reference {
    use tensor_core::exec::{Executor, Storage};
    use tensor_core::plan::{BufferId, Plan, Step};
    use tensor_core::{HostData, Reference, Scalar, Tensor};

    use super::*;

    fn run(nest: &Arc<LoopNest>, inputs: &[Arc<dyn Storage>]) -> Arc<dyn Storage> {
        let step = Step {
            nest: Arc::clone(nest),
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

    /// Compares each step of a program with its divisions by `divide`, and returns the number of
    /// the divisions.
    pub(in super::super) fn n_equal(
        program: &Tensor,
        divide: impl Fn(&LoopNest) -> Vec<Sequence>,
    ) -> usize {
        let (plan, data) = Plan::new(&[program], &Reference.target()).unwrap();
        let mut arrays: Vec<Option<Arc<dyn Storage>>> = vec![None; plan.buffers.len()];
        for (input, storage) in plan.inputs.iter().zip(data) {
            arrays[input.0] = Some(storage);
        }
        let mut n_divisions = 0;
        for step in plan.steps.iter() {
            let inputs = step.inputs.iter();
            let inputs: Vec<_> = inputs
                .map(|input| arrays[input.0].clone().unwrap())
                .collect();
            let whole = run(&step.nest, &inputs);
            let expected = elements(Arc::clone(&whole));
            for sequence in divide(&step.nest) {
                n_divisions += 1;
                let mut given = inputs.clone();
                for (nest, numbers) in &sequence.nests {
                    let own: Vec<_> = numbers.iter().map(|&at| Arc::clone(&given[at])).collect();
                    given.push(run(nest, &own));
                }
                let result = given.pop().unwrap();
                assert_eq!(elements(result), expected, "{sequence:?}");
            }
            arrays[step.output.0] = Some(whole);
        }
        n_divisions
    }
}
