//! Plans: which steps compute some tensors, in which order, through which buffers.
//!
//! Role: between a lazy program and an executor. [`Plan::of`] is a pure function of the program's structure and a
//! [`Target`]; a plan holds no data and can be run again on other inputs of the same shapes.
//! Method: `graph` collects the distinct nodes, `lower` and `keep` decide what is fused and what goes into memory,
//! `arena` and `guards` simplify what is computed, `emit` gives each computation the form of a [`LoopNest`], and this
//! module sorts the steps into waves: steps of one wave do not need each other and may run at the same time, on
//! several executors if wanted.
//! Memory: a temporary lives from its wave to the last wave that reads it; [`Plan::peak_bytes`] is what that comes to.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::exec::Storage;
use crate::ir::{Contract, LoopNest};
use crate::shape::{count_in_bytes, max_count};
use crate::tensor::{Op, Tensor};
use graph::Graph;
use lower::Draft;
pub(crate) use lower::contiguous;

mod arena;
mod emit;
pub(crate) mod explain;
#[cfg(test)]
mod fault;
mod graph;
mod guards;
mod keep;
mod lower;
mod nodes;

/// A map by hash. Keys are made by the user's own program, so nothing is gained by a hash that
/// withstands attacks, and planning asks for several hashes a node.
type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;

/// What one operation may need, however low a target's caps are: a choice between three arrays.
const LEAST_VALUES: usize = 4;
const LEAST_INPUTS: usize = 3;

/// What an executor can take in one step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The most values of one nest; fewer than 4 count as 4, which one operation may need.
    pub max_values: usize,
    /// The most inputs of one nest; fewer than 3 count as 3.
    pub max_inputs: usize,
    /// The fewest multiplications for which a product of matrices is marked as one; `None` if never.
    pub min_product: Option<usize>,
    /// Whether the factors of a marked product may be computed; else they are plain reads.
    pub computes_factors: bool,
}

/// The place of a buffer in [`Plan::buffers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub usize);

/// What a buffer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Given when the plan runs.
    Input,
    /// Written by one step, read by later ones, then free.
    Temporary,
    /// Written by one step and asked for; later steps may read it too.
    Output,
}

/// A contiguous, row-major array that a plan reads or writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// What it is for.
    pub kind: Kind,
    /// The type of its elements.
    pub dtype: DType,
    /// The shape under which it is written, or given.
    pub shape: Vec<usize>,
}

/// An operation of the program, and the line that asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Its name.
    pub op: &'static str,
    /// Its line.
    pub location: &'static Location<'static>,
}

/// One nest and the buffers it works on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step {
    /// What is computed.
    pub nest: Arc<LoopNest>,
    /// The buffers of the nest's inputs.
    pub inputs: Vec<BufferId>,
    /// The buffer of the nest's output.
    pub output: BufferId,
    /// Steps of a lower wave come before; steps of the same wave do not need each other.
    pub wave: usize,
    /// The operations that it does.
    pub origins: Vec<Origin>,
}

/// How some tensors are computed. A clone shares buffers and steps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    /// All arrays that take part.
    pub buffers: Arc<[Buffer]>,
    /// The buffers that are given, in the order in which their data is expected.
    pub inputs: Vec<BufferId>,
    /// The buffers of the tensors asked for, in that order. One may stand here twice, or be an input.
    pub outputs: Vec<BufferId>,
    /// The steps in an order that respects what they need, by wave.
    pub steps: Arc<[Step]>,
}

impl Target {
    /// The target with caps under which every operation can be planned.
    fn workable(&self) -> Self {
        Self {
            max_values: self.max_values.max(LEAST_VALUES),
            max_inputs: self.max_inputs.max(LEAST_INPUTS),
            ..self.clone()
        }
    }

    fn is_worth_a_product(&self, nest: &LoopNest, contract: &Contract) -> bool {
        let size = |axes: &[usize]| {
            axes.iter()
                .map(|&axis| nest.domain[axis])
                .product::<usize>()
        };
        let multiplications = nest.output_len().saturating_mul(nest.reduce_len());
        let is_matrix = size(&contract.rows) * size(&contract.cols) > 1 && nest.reduce_len() > 1;
        is_matrix && self.min_product.is_some_and(|min| multiplications >= min)
    }
}

impl Buffer {
    /// The number of elements.
    #[must_use]
    #[allow(
        clippy::len_without_is_empty,
        reason = "an empty array is an ordinary one here"
    )]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The size in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.len().saturating_mul(self.dtype.bytes())
    }
}

impl Plan {
    /// Plans the computation of some tensors, and gives the data that its inputs stand for.
    ///
    /// # Errors
    /// Whatever went wrong while one of the tensors was built; [`Error::TooLarge`] for an array that no memory holds.
    ///
    /// # Examples
    /// The logical shape (256, 300, 300) is never in memory: one step, no temporary.
    /// ```
    /// use tensor_core::plan::Plan;
    /// use tensor_core::{Executor, Host, Tensor};
    ///
    /// let x = Tensor::from_vec(&[256, 300], vec![0.5_f32; 256 * 300]);
    /// let near = (x.expand_dims(2) - x.expand_dims(1)).abs().lt(1.0);
    /// let (plan, _inputs) = Plan::of(&[&near.sum(0)], &Host::new().target())?;
    /// assert_eq!((plan.steps.len(), plan.peak_bytes()), (1, 0));
    /// println!("{}", plan.explain());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    pub fn of(tensors: &[&Tensor], target: &Target) -> Result<(Self, Vec<Arc<dyn Storage>>)> {
        /// A plan that still changes after so many rounds is good enough.
        const MAX_ROUNDS: usize = 6;
        let target = &target.workable();
        let graph = Graph::of(tensors)?;
        let mut kept = BTreeSet::new();
        let mut n_rounds = 0;
        let plan = loop {
            n_rounds += 1;
            let mut draft = Draft::of(&graph, target, &kept);
            let outputs = draft.outputs();
            let more = draft.worth_keeping();
            if more.is_empty() || n_rounds == MAX_ROUNDS {
                break Self::finished(draft, outputs);
            }
            drop(draft);
            kept.extend(more);
        };
        for buffer in plan.buffers.iter() {
            let (shape, element_bytes) = (&buffer.shape, buffer.dtype.bytes());
            if count_in_bytes(shape, element_bytes).is_none() {
                return Err(Error::TooLarge {
                    op: "plan",
                    shape: shape.clone(),
                    limit: max_count(element_bytes),
                });
            }
        }
        let data = graph.nodes.iter().filter_map(|node| match &node.op {
            Op::Data(storage) => Some(Arc::clone(storage)),
            _ => None,
        });
        Ok((plan, data.collect()))
    }

    fn finished(draft: Draft<'_>, outputs: Vec<BufferId>) -> Self {
        let (mut buffers, inputs, mut steps) = (draft.buffers, draft.inputs, draft.steps);
        for output in &outputs {
            if buffers[output.0].kind == Kind::Temporary {
                buffers[output.0].kind = Kind::Output;
            }
        }
        let mut ready = vec![0; buffers.len()];
        for step in &mut steps {
            step.wave = step
                .inputs
                .iter()
                .map(|input| ready[input.0])
                .max()
                .unwrap_or(0);
            ready[step.output.0] = step.wave + 1;
        }
        steps.sort_by_key(|step| step.wave);
        Self {
            buffers: buffers.into(),
            inputs,
            outputs,
            steps: steps.into(),
        }
    }

    /// Tests that a plan, perhaps changed by hand, can run: every step reads only inputs and what earlier waves wrote.
    ///
    /// # Errors
    /// A sentence that names the step or the output.
    pub fn check(&self) -> Result<(), String> {
        let mut written = vec![None; self.buffers.len()];
        let mut write = |buffer: BufferId, wave: usize| {
            let place = written.get_mut(buffer.0).ok_or("there is no such buffer")?;
            *place = Some(wave);
            Ok::<(), &str>(())
        };
        for &input in &self.inputs {
            write(input, 0).map_err(|what| format!("an input: {what}"))?;
        }
        for (number, step) in self.steps.iter().enumerate() {
            write(step.output, step.wave + 1).map_err(|what| format!("step {number}: {what}"))?;
        }
        let is_ready = |buffer: &BufferId, wave: usize| matches!(written.get(buffer.0), Some(Some(ready)) if *ready <= wave);
        for (number, step) in self.steps.iter().enumerate() {
            if !step.inputs.iter().all(|input| is_ready(input, step.wave)) {
                return Err(format!("step {number} reads what no earlier wave writes"));
            }
            if number > 0 && self.steps[number - 1].wave > step.wave {
                return Err(format!(
                    "step {number} belongs to an earlier wave than the one before"
                ));
            }
        }
        match self
            .outputs
            .iter()
            .find(|output| !is_ready(output, usize::MAX))
        {
            Some(output) => Err(format!("nothing writes output buffer {}", output.0)),
            None => Ok(()),
        }
    }

    /// The steps, wave by wave.
    pub fn waves(&self) -> impl Iterator<Item = &[Step]> {
        self.steps.chunk_by(|a, b| a.wave == b.wave)
    }

    /// For each buffer the last wave that reads it; `None` if no step does.
    #[must_use]
    pub fn last_reads(&self) -> Vec<Option<usize>> {
        let mut last = vec![None; self.buffers.len()];
        for step in self.steps.iter() {
            for input in &step.inputs {
                last[input.0] = last[input.0].max(Some(step.wave));
            }
        }
        last
    }

    /// The most bytes that temporaries take at one time, each living from the wave that writes it to the last
    /// that reads it.
    #[must_use]
    pub fn peak_bytes(&self) -> usize {
        let last_reads = self.last_reads();
        let mut live = vec![0_usize; self.waves().count()];
        for step in self.steps.iter() {
            let buffer = &self.buffers[step.output.0];
            if buffer.kind == Kind::Temporary {
                let last = last_reads[step.output.0].unwrap_or(step.wave);
                for bytes in &mut live[step.wave..=last] {
                    *bytes = bytes.saturating_add(buffer.bytes());
                }
            }
        }
        live.into_iter().max().unwrap_or(0)
    }

    /// The plan as text for people: steps with their loops, values, bytes and operations.
    ///
    /// The bytes that a step reads are those of the elements that it touches, each counted once: for each value that reads, as
    /// many as the loops that move it have iterations; for each input, the sum over the values that read it, and at most the
    /// whole array. Operations are counted in additions, as [`LoopNest::operations`] does.
    #[must_use]
    pub fn explain(&self) -> impl fmt::Display {
        explain::Explained(self.clone())
    }
}
