//! Plans: the steps that compute some tensors, their order and their buffers.
//!
//! Role: between a lazy program and an executor. [`Plan::new`] is a pure function of the program's
//! structure and a [`Target`]. A plan contains no data and can run again on other inputs of the
//! same shapes; `cache` holds the plans of earlier programs.
//! Method: `graph` collects the distinct nodes, and `reads` counts how often each is read. `lower`,
//! `folds` and `keep` decide which nodes are fused and which results are stored in memory. `arena`
//! and `guards` simplify the computations. `emit` turns each computation into a [`LoopNest`]. This
//! module sorts the steps into waves: the steps of one wave are independent of each other and may
//! run at the same time, also on several executors.
//! Memory: a temporary lives from its wave to the last wave that reads it; [`Plan::peak_bytes`]
//! returns the peak. `bands` finds the steps that an executor may run piece by piece, so that some
//! temporaries are never stored as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::{Contract, LoopNest};
use crate::shape::{count_in_bytes, max_count};
use crate::storage::Storage;
use crate::tensor::Tensor;
pub use bands::Band;
use bands::Group;
pub use cache::{Counters, cache_counters};
use graph::Graph;
pub(crate) use guards::gcd;
use lower::Lowering;
use reads::Reads;

mod arena;
mod bands;
mod cache;
mod emit;
pub(crate) mod explain;
#[cfg(test)]
mod fault;
mod folds;
mod graph;
mod guards;
mod keep;
mod lower;
mod nodes;
mod reads;

/// The minimum cap on values with which every single operation can be planned: a selection has four
/// values.
pub(crate) const LEAST_VALUES: usize = 4;
/// The minimum cap on inputs with which every single operation can be planned: a selection has
/// three inputs.
pub(crate) const LEAST_INPUTS: usize = 3;

/// The limits of one step on an executor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The maximum number of values in one nest. A maximum below 4 counts as 4, because one
    /// operation may need 4 values.
    pub max_values: usize,
    /// The maximum number of inputs of one nest. A maximum below 3 counts as 3. An executor may
    /// divide a nest at its folds and store their results (one array for a reduction, two for a
    /// scan); the values after the folds then read at most `max_inputs` arrays, the stored ones
    /// included.
    pub max_inputs: usize,
    /// The minimum number of multiplications for a matrix product to be marked in
    /// [`LoopNest::contract`]; `None` if products are never marked.
    pub min_product: Option<usize>,
    /// Whether the factors of a marked product may be computed values; if not, factors are plain
    /// loads.
    pub computes_factors: bool,
    /// Whether values that were converted from `f16` are stored as `f16` between steps, and
    /// converted where they are read: for executors that multiply `f16` faster. Only outputs, and
    /// values that are stored because a step would exceed `max_values`, have their own type.
    pub stores_halves: bool,
    /// Whether a sum over results of a product becomes one product, which adds up all terms. An
    /// example is the gradient of a convolution by its image: each pixel is a sum over taps of sums
    /// over filters. The executor must then support products whose factors have guards in common
    /// and depend on axes of each other only through these guards: see
    /// [`LoopNest::dependence_of_factors`].
    pub merges_sums: bool,
    /// The minimum number of bytes that the steps of a [`Band`] read and write; `None` if plans
    /// should have no bands, because [`Executor::run_band`](crate::Executor::run_band) is not
    /// implemented.
    pub min_band: Option<usize>,
}

/// The index of a buffer in [`Plan::buffers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub usize);

/// The purpose of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BufferKind {
    /// Provided by the caller when the plan runs.
    Input,
    /// Written by one step, read by later steps, then freed.
    Temporary,
    /// Written by one step and returned to the caller; later steps may read it, too.
    Output,
}

/// A contiguous, row-major array that a plan reads or writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Buffer {
    /// The purpose of the buffer.
    pub kind: BufferKind,
    /// The type of the elements.
    pub dtype: DType,
    /// The shape in which the buffer is written or provided.
    pub shape: Vec<usize>,
}

/// An operation of the program, and its source line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The name of the operation.
    pub operation: &'static str,
    /// The source line that created the operation.
    pub location: &'static Location<'static>,
}

/// A loop nest and its buffers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step {
    /// The computation.
    pub nest: Arc<LoopNest>,
    /// The buffers of the nest's inputs.
    pub inputs: Vec<BufferId>,
    /// The buffer of the nest's output.
    pub output: BufferId,
    /// The number of the wave. Steps of lower waves run before; steps of the same wave are
    /// independent of each other.
    pub wave: usize,
    /// The operations that the step computes.
    pub origins: Vec<Origin>,
}

/// A plan for the computation of some tensors. Clones share buffers and steps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    /// All arrays that the plan reads or writes.
    pub buffers: Arc<[Buffer]>,
    /// The input buffers, in the order in which `run` expects their data.
    pub inputs: Vec<BufferId>,
    /// The buffers of the requested tensors, in the order of the request. A buffer may occur twice,
    /// and may be an input.
    pub outputs: Vec<BufferId>,
    /// The steps in an order that respects their dependencies, sorted by wave.
    pub steps: Arc<[Step]>,
    /// The groups of steps that may run piece by piece, in the order of their first steps. A step
    /// belongs to at most one band. All inputs of a band exist in the wave of its first step.
    pub bands: Arc<[Band]>,
}

impl Target {
    /// Returns the target with caps raised to the minimum with which every operation can be
    /// planned.
    fn workable(&self) -> Self {
        Self {
            max_values: self.max_values.max(LEAST_VALUES),
            max_inputs: self.max_inputs.max(LEAST_INPUTS),
            ..self.clone()
        }
    }

    /// Returns `true` if a product is large enough to be marked. Products that are really a sum, an
    /// outer product or a single element are not marked.
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

impl Step {
    /// Adds the source line of the step's last operation to an error that has no line.
    pub(crate) fn locate(&self, error: Error) -> Error {
        match self.origins.last() {
            Some(origin) => error.at(origin.location),
            None => error,
        }
    }
}

impl Buffer {
    /// Returns the number of elements; saturates at `usize::MAX`.
    #[must_use]
    #[allow(
        clippy::len_without_is_empty,
        reason = "an empty array is an ordinary one here"
    )]
    pub fn len(&self) -> usize {
        let sizes = self.shape.iter();
        sizes.fold(1, |n: usize, &size| n.saturating_mul(size))
    }

    /// Returns the size in memory, in bytes; saturates at `usize::MAX`.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.len().saturating_mul(self.dtype.bytes())
    }
}

impl Plan {
    /// Plans the computation of some tensors. Also returns the data of the plan's inputs.
    ///
    /// # Errors
    /// Errors that occurred while one of the tensors was built; [`Error::TooLarge`] for an array
    /// that no memory can hold.
    ///
    /// # Examples
    /// The logical shape (256, 300, 300) never exists in memory: the plan has one step and no
    /// temporary.
    /// ```
    /// use tensor_core::plan::Plan;
    /// use tensor_core::{Executor, Host, Tensor};
    ///
    /// let x = Tensor::from_vec(&[256, 300], vec![0.5_f32; 256 * 300]);
    /// let near = (x.expand_dims(2) - x.expand_dims(1)).abs().lt(1.0);
    /// let (plan, _inputs) = Plan::new(&[&near.sum(0)], &Host::new().target())?;
    /// assert_eq!((plan.steps.len(), plan.peak_bytes()), (1, 0));
    /// println!("{}", plan.explain());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    pub fn new(tensors: &[&Tensor], target: &Target) -> Result<(Self, Vec<Arc<dyn Storage>>)> {
        let graph = Graph::from_outputs(tensors)?;
        Ok((Self::of_graph(&graph, target)?, graph.data()))
    }

    /// Plans the computation of a graph's outputs.
    fn of_graph(graph: &Graph<'_>, target: &Target) -> Result<Self> {
        /// The maximum number of drafts; a plan that would still change after so many rounds is
        /// good enough.
        const MAX_ROUNDS: usize = 6;
        let target = &target.workable();
        let reads = Reads::new(graph);
        let mut kept = BTreeSet::new();
        let mut n_rounds = 0;
        // Each draft may reveal nodes that are cheaper to store than to compute again. The next
        // draft stores these nodes.
        let (plan, worth_scratch) = loop {
            n_rounds += 1;
            let mut draft = Lowering::new(graph, &reads, target, &kept);
            let outputs = draft.outputs();
            let more = draft.worth_keeping(&keep::MEMORY);
            if more.is_empty() || n_rounds == MAX_ROUNDS {
                let worth_scratch = draft.worth_keeping(&keep::SCRATCH);
                break (Self::finished(draft, outputs)?, worth_scratch);
            }
            drop(draft);
            kept.extend(more);
        };
        if plan.bands.is_empty() || worth_scratch.is_empty() {
            return Ok(plan);
        }
        // Scratch memory is cheap, but only a finished plan shows whether a band alone reads the
        // arrays of these nodes.
        kept.extend(worth_scratch);
        let mut draft = Lowering::new(graph, &reads, target, &kept);
        let outputs = draft.outputs();
        let with_scratch = Self::finished(draft, outputs)?;
        let is_better = !with_scratch.bands.is_empty()
            && with_scratch.stored_bytes() <= plan.stored_bytes()
            && with_scratch.peak_bytes() <= plan.peak_bytes();
        Ok(if is_better { with_scratch } else { plan })
    }

    /// Builds the plan from the last draft: sets the kinds of buffers, finds bands, and sorts the
    /// steps into waves.
    fn finished(draft: Lowering<'_>, outputs: Vec<BufferId>) -> Result<Self> {
        let min_band = draft.target.min_band;
        let (mut buffers, inputs, steps) = (draft.buffers, draft.inputs, draft.steps);
        for buffer in &buffers {
            let (shape, element_bytes) = (&buffer.shape, buffer.dtype.bytes());
            if count_in_bytes(shape, element_bytes).is_none() {
                return Err(Error::TooLarge {
                    operation: "plan",
                    shape: shape.clone(),
                    limit: max_count(element_bytes),
                });
            }
        }
        for output in &outputs {
            if buffers[output.0].kind == BufferKind::Temporary {
                buffers[output.0].kind = BufferKind::Output;
            }
        }
        let mut steps = steps_in_use(steps, &outputs, buffers.len());
        set_waves(&mut steps, &[], buffers.len());
        let parts = Parts {
            buffers,
            inputs,
            outputs,
        };
        let found = min_band.and_then(|least| bands::find(&parts.buffers, &steps, least));
        let Some((mut sorted, groups)) = found else {
            return Ok(parts.assembled(steps, &[]));
        };
        let one_by_one = parts.clone().assembled(steps, &[]);
        set_waves(&mut sorted, &groups, parts.buffers.len());
        let banded = parts.assembled(sorted, &groups);
        // The steps of a band run at the same time, so some run earlier and some later than alone,
        // and other arrays may exist at the same time.
        let most = one_by_one.peak_bytes().saturating_add(bands::PIECE_BYTES);
        Ok(if banded.peak_bytes() <= most {
            banded
        } else {
            one_by_one
        })
    }

    /// Checks that a plan, which may have been changed by hand, can run: every step reads only
    /// inputs and results of earlier waves.
    ///
    /// # Errors
    /// A message that names the buffer, the input, the step, the band or the output.
    pub fn check(&self) -> Result<(), String> {
        for (number, buffer) in self.buffers.iter().enumerate() {
            if count_in_bytes(&buffer.shape, buffer.dtype.bytes()).is_none() {
                let limit = max_count(buffer.dtype.bytes());
                return Err(format!(
                    "buffer {number}: shape {:?} is too large (limit {limit} elements)",
                    buffer.shape
                ));
            }
        }
        let mut written = vec![None; self.buffers.len()];
        let mut write = |buffer: BufferId, wave: usize| {
            let place = written.get_mut(buffer.0).ok_or("no such buffer")?;
            *place = Some(wave);
            Ok::<(), &str>(())
        };
        for &input in &self.inputs {
            write(input, 0).map_err(|what| format!("input: {what}"))?;
        }
        for (number, step) in self.steps.iter().enumerate() {
            let ready = step.wave.checked_add(1).ok_or_else(|| {
                let limit = usize::MAX - 1;
                format!(
                    "step {number}: wave is too large ({}; limit {limit})",
                    step.wave
                )
            })?;
            write(step.output, ready).map_err(|what| format!("step {number}: {what}"))?;
        }
        let is_ready = |buffer: &BufferId, wave: usize| matches!(written.get(buffer.0), Some(Some(ready)) if *ready <= wave);
        for (number, step) in self.steps.iter().enumerate() {
            if !step.inputs.iter().all(|input| is_ready(input, step.wave)) {
                return Err(format!(
                    "step {number}: an input is written by no earlier wave"
                ));
            }
            if number > 0 && self.steps[number - 1].wave > step.wave {
                return Err(format!(
                    "step {number}: wave is lower than the wave of the previous step"
                ));
            }
        }
        for output in &self.outputs {
            if !is_ready(output, usize::MAX) {
                return Err(format!("output buffer {} is never written", output.0));
            }
            // A run drops each temporary after its last reader.
            if self.buffers[output.0].kind == BufferKind::Temporary {
                return Err(format!(
                    "output buffer {} is a temporary (expected an input or an output)",
                    output.0
                ));
            }
        }
        self.check_bands(&is_ready)
    }

    /// Checks that each band is a band of this plan, and that all of its inputs exist when its
    /// first step runs.
    fn check_bands(&self, is_ready: &impl Fn(&BufferId, usize) -> bool) -> Result<(), String> {
        if self.bands.is_empty() {
            return Ok(());
        }
        let mut in_band = vec![false; self.steps.len()];
        let n_readers = self.n_readers();
        for (number, band) in self.bands.iter().enumerate() {
            let wrong = |what: &str| Err(format!("band {number}: {what}"));
            let is_new = |&at: &usize| {
                let place = in_band.get_mut(at);
                place.is_some_and(|place| !std::mem::replace(place, true))
            };
            if !band.steps.is_sorted() || !band.steps.iter().all(is_new) {
                return wrong("a step does not exist, occurs twice or is out of order");
            }
            for &at in &band.steps {
                let step = &self.steps[at];
                let of = |id: &BufferId| (self.buffers[id.0].dtype, self.buffers[id.0].len());
                let inputs: Vec<(DType, usize)> = step.inputs.iter().map(of).collect();
                let checked = step.nest.check(&inputs);
                checked.map_err(|what| format!("step {at}: {what}"))?;
                if of(&step.output) != (step.nest.dtype(), step.nest.output_len()) {
                    return wrong("an output has another type or length than its buffer");
                }
            }
            let plan = (&*self.buffers, &*self.steps);
            let expected = Band::new(plan, &n_readers, band.steps.clone(), band.n_rows);
            if expected.as_ref() != Some(band) {
                return wrong("the steps do not form this band");
            }
            let first_wave = self.steps[band.steps[0]].wave;
            if !band.inputs.iter().all(|input| is_ready(input, first_wave)) {
                return wrong("an input is written by no earlier wave");
            }
        }
        Ok(())
    }

    /// Returns the steps, wave by wave.
    pub fn waves(&self) -> impl Iterator<Item = &[Step]> {
        self.steps.chunk_by(|a, b| a.wave == b.wave)
    }

    /// Returns the number of steps that read each buffer.
    pub(crate) fn n_readers(&self) -> Vec<usize> {
        n_readers(&self.steps, self.buffers.len())
    }

    /// Returns the peak of the bytes of temporaries. Each temporary lives from the wave that writes
    /// it to the last wave that reads it. The results that only a band reads are not counted, and
    /// the steps of a band run in the wave of the first of them. An executor that runs the steps of
    /// a band one by one needs memory for these results, too.
    #[must_use]
    pub fn peak_bytes(&self) -> usize {
        let mut waves: Vec<usize> = self.steps.iter().map(|step| step.wave).collect();
        let mut is_stored = vec![true; self.buffers.len()];
        for band in self.bands.iter() {
            for &at in &band.steps {
                waves[at] = self.steps[band.steps[0]].wave;
            }
            for buffer in band.scratch(&self.steps) {
                is_stored[buffer.0] = false;
            }
        }
        let mut last_reads = vec![0; self.buffers.len()];
        for (step, &wave) in self.steps.iter().zip(&waves) {
            for input in &step.inputs {
                last_reads[input.0] = wave.max(last_reads[input.0]);
            }
        }
        // The bytes that are allocated in each wave, and those that are freed after it.
        let mut changes: BTreeMap<usize, (u128, u128)> = BTreeMap::new();
        for (step, &wave) in self.steps.iter().zip(&waves) {
            let buffer = &self.buffers[step.output.0];
            if buffer.kind == BufferKind::Temporary && is_stored[step.output.0] {
                let bytes = buffer.bytes() as u128;
                let last = last_reads[step.output.0].max(wave);
                changes.entry(wave).or_default().0 += bytes;
                changes.entry(last).or_default().1 += bytes;
            }
        }
        let (mut live, mut peak) = (0, 0);
        for (allocated, freed) in changes.into_values() {
            live += allocated;
            peak = live.max(peak);
            live -= freed;
        }
        usize::try_from(peak).unwrap_or(usize::MAX)
    }

    /// Returns the bytes of all temporaries, without the results that only a band reads.
    fn stored_bytes(&self) -> usize {
        let scratch = self.bands.iter().flat_map(|band| band.scratch(&self.steps));
        let scratch: BTreeSet<BufferId> = scratch.collect();
        let stored = self.steps.iter().map(|step| step.output);
        let stored = stored.filter(|id| !scratch.contains(id));
        let buffers = stored.map(|id| &self.buffers[id.0]);
        let temporaries = buffers.filter(|buffer| buffer.kind == BufferKind::Temporary);
        temporaries.fold(0, |sum, buffer| sum.saturating_add(buffer.bytes()))
    }

    /// Returns the plan as text for people: the steps with their loops, values, bytes and
    /// operations.
    ///
    /// The bytes that a step reads are the bytes of the distinct elements that it touches,
    /// estimated as follows. A load touches as many elements as the loops that move its position
    /// have iterations. An input counts the sum over all its loads, but at most the whole array.
    /// Operations are counted in additions, as in [`LoopNest::operations`].
    #[must_use]
    pub fn explain(&self) -> impl fmt::Display {
        explain::Explained(self.clone())
    }
}

/// A plan without its steps.
#[derive(Clone)]
struct Parts {
    buffers: Vec<Buffer>,
    inputs: Vec<BufferId>,
    outputs: Vec<BufferId>,
}

impl Parts {
    /// Returns the plan of some steps, which have their waves, with the bands of some groups.
    fn assembled(self, steps: Vec<Step>, groups: &[Group]) -> Plan {
        let mut numbered: Vec<(Option<usize>, Step)> = Vec::with_capacity(steps.len());
        let mut ahead = groups.iter().enumerate().peekable();
        for (at, step) in steps.into_iter().enumerate() {
            ahead.next_if(|(_, group)| group.steps.end <= at);
            let group = ahead.peek().filter(|(_, group)| group.steps.contains(&at));
            numbered.push((group.map(|&(number, _)| number), step));
        }
        // The sort is stable, so the steps of a band stay in their order.
        numbered.sort_by_key(|(_, step)| step.wave);
        let mut members = vec![Vec::new(); groups.len()];
        for (at, (group, _)) in numbered.iter().enumerate() {
            if let Some(group) = group {
                members[*group].push(at);
            }
        }
        let steps: Vec<Step> = numbered.into_iter().map(|(_, step)| step).collect();
        let n_readers = n_readers(&steps, self.buffers.len());
        let bands = groups.iter().zip(members).filter_map(|(group, members)| {
            Band::new((&self.buffers, &steps), &n_readers, members, group.n_rows)
        });
        let mut bands: Vec<Band> = bands.collect();
        bands.sort_by_key(|band| band.steps[0]);
        Plan {
            bands: bands.into(),
            buffers: self.buffers.into(),
            inputs: self.inputs,
            outputs: self.outputs,
            steps: steps.into(),
        }
    }
}

/// Returns the steps on which the outputs depend, in their order. A stored array may lose its last
/// reader: a selection whose condition is constant reads one choice only.
fn steps_in_use(steps: Vec<Step>, outputs: &[BufferId], n_buffers: usize) -> Vec<Step> {
    let mut is_read = vec![false; n_buffers];
    for output in outputs {
        is_read[output.0] = true;
    }
    let is_in_use = |step: &Step| {
        let is_in_use = is_read[step.output.0];
        if is_in_use {
            step.inputs.iter().for_each(|input| is_read[input.0] = true);
        }
        is_in_use
    };
    // A step reads results of earlier steps only, so its readers are seen first.
    let mut in_use: Vec<Step> = steps.into_iter().rev().filter(is_in_use).collect();
    in_use.reverse();
    in_use
}

/// Sets the waves of steps, whose order respects dependencies. The steps of a band begin when all
/// of the band's inputs exist.
fn set_waves(steps: &mut [Step], groups: &[Group], n_buffers: usize) {
    // `ready[buffer]` is the first wave that may read the buffer: 0 for inputs.
    let mut ready = vec![0; n_buffers];
    let mut groups = groups.iter().peekable();
    let mut at = 0;
    while at < steps.len() {
        let together = match groups.next_if(|group| group.steps.start == at) {
            Some(group) => group.steps.clone(),
            None => at..at + 1,
        };
        at = together.end;
        let steps = &mut steps[together];
        let reads = steps.iter().flat_map(|step| &step.inputs);
        let start = reads.map(|input| ready[input.0]).max().unwrap_or(0);
        for step in steps {
            let reads = step.inputs.iter().map(|input| ready[input.0]);
            step.wave = reads.max().unwrap_or(0).max(start);
            ready[step.output.0] = step.wave + 1;
        }
    }
}

/// Returns the number of steps that read each buffer.
fn n_readers(steps: &[Step], n_buffers: usize) -> Vec<usize> {
    let mut n_readers = vec![0; n_buffers];
    for input in steps.iter().flat_map(|step| &step.inputs) {
        n_readers[input.0] += 1;
    }
    n_readers
}
