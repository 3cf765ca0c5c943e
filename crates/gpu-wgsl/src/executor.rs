//! Plans of `tensor-core` on a device.
//!
//! Role: makes [`Gpu`] an executor: uploads arrays, runs each step as the kernel that `nest` writes for it, reads results.
//! Method: a kernel is written and compiled once for each nest and kept with its device. Work is only recorded, and leaves when the
//! scheduler submits or something is read. A gather notes a position out of range in a buffer of its own; whoever reads an array
//! that was computed from it gets the error.
//! Memory: `bool` takes a bit, `f16` two bytes, `f64` eight, everything else four. Steps on `f64` run on the host.

mod array;
#[cfg(test)]
mod attacks;

use std::panic::Location;
use std::sync::Arc;

use tensor_core::exec::{Accuracy, Executor, Kept, MemoryUse, Storage};
use tensor_core::ir::{LoopNest, Value};
use tensor_core::plan::{Step, Target};
use tensor_core::{DType, HostData};

use crate::device::Generated;
use crate::nest::{self, Emitted, NestParams, Schedule};
use crate::{Error, Gpu, Result};
pub(crate) use array::Array;
use array::{Faults, Gathered};

/// The most elements of an array that a kernel reads or writes.
const MAX_LEN: usize = i32::MAX as usize;

/// The kernels of a device, each for the nest it was written for.
#[derive(Debug, Default)]
pub(crate) struct Nests(Kept<Arc<LoopNest>, Ready>);

/// The kernel of a nest.
#[derive(Debug)]
pub(crate) struct Compiled {
    kernel: Generated,
    n_groups: u64,
    gathers: Vec<Gathered>,
}

/// A nest that can run.
#[derive(Debug)]
enum Ready {
    Kernel(Compiled),
    /// The folds with the places of their inputs; what joins them, with the places of its own.
    Parts {
        folds: Vec<(Arc<LoopNest>, Vec<usize>)>,
        rest: Arc<LoopNest>,
        rest_inputs: Vec<usize>,
    },
}

impl Executor for Gpu {
    fn name(&self) -> &str {
        &self.adapter().name
    }

    fn target(&self) -> Target {
        let limits = &self.adapter().limits;
        // One binding is the output's, one that of faults.
        let inputs = limits
            .max_storage_buffers_per_shader_stage
            .saturating_sub(2);
        Target {
            max_values: 96,
            max_inputs: (inputs as usize).min(24),
            min_product: None,
            computes_factors: true,
        }
    }

    fn accuracy(&self) -> Accuracy {
        // What WGSL grants a quotient is 2.5 units, and a square root is one over the inverse root, which is granted 2 more.
        Accuracy {
            quotient_ulps: 5.0,
            keeps_extremes: false,
        }
    }

    fn accepts(&self, step: &Step, input_lens: &[usize]) -> bool {
        let nest = &step.nest;
        let is_short = |len: usize| len <= MAX_LEN;
        let has_f64 = nest
            .dtypes
            .iter()
            .chain(&nest.inputs)
            .any(|dtype| *dtype == DType::F64);
        let lens = input_lens.iter().copied().all(is_short) && is_short(nest.output_len());
        !has_f64 && lens && guards_fit(nest) && nest::fits(nest, self.room())
    }

    fn owns(&self, storage: &dyn Storage) -> bool {
        Array::of(storage).is_some_and(|array| array.is_on(self))
    }

    fn upload(&self, data: HostData) -> tensor_core::Result<Arc<dyn Storage>> {
        let array = Array::upload(self, &data).map_err(|error| self.told(error))?;
        Ok(Arc::new(array))
    }

    fn run(
        &self,
        step: &Step,
        inputs: &[Arc<dyn Storage>],
    ) -> tensor_core::Result<Arc<dyn Storage>> {
        let mut arrays = Vec::with_capacity(inputs.len());
        for input in inputs {
            let array = Array::of(input.as_ref()).filter(|array| array.is_on(self));
            arrays.push(array.ok_or(tensor_core::Error::ForeignStorage)?);
        }
        let lens: Vec<(DType, usize)> = inputs
            .iter()
            .map(|input| (input.dtype(), input.len()))
            .collect();
        step.nest
            .check(&lens)
            .map_err(|what| tensor_core::Error::BadStep { what })?;
        let location = step.origins.last().map(|origin| origin.location);
        let array = self.run_nest(&step.nest, location, &arrays);
        Ok(Arc::new(array.map_err(|error| self.told(error))?))
    }

    fn submit(&self) -> tensor_core::Result<()> {
        self.flush().map_err(|error| self.told(error))
    }

    fn memory(&self) -> Option<MemoryUse> {
        let pool = self.pool();
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Some(MemoryUse {
            live_bytes: bytes(pool.live_bytes()),
            peak_bytes: bytes(pool.peak_bytes()),
        })
    }
}

impl Gpu {
    /// Runs a nest, whole or in parts; faults name `location`.
    fn run_nest(
        &self,
        nest: &Arc<LoopNest>,
        location: Option<&'static Location<'static>>,
        inputs: &[&Array],
    ) -> Result<Array> {
        if nest.output_len() == 0 {
            return Array::alloc(self, nest.dtype(), 0);
        }
        match &*self.ready(nest)? {
            Ready::Kernel(compiled) => compiled.run(self, nest, location, inputs),
            Ready::Parts {
                folds,
                rest,
                rest_inputs,
            } => {
                let at = |places: &[usize]| -> Vec<&Array> {
                    places.iter().map(|&place| inputs[place]).collect()
                };
                let mut partials = Vec::with_capacity(folds.len());
                for (fold, places) in folds {
                    partials.push(self.run_nest(fold, location, &at(places))?);
                }
                let given = at(rest_inputs).into_iter().chain(&partials);
                self.run_nest(rest, location, &given.collect::<Vec<_>>())
            }
        }
    }

    fn ready(&self, nest: &Arc<LoopNest>) -> Result<Arc<Ready>> {
        self.nests().0.get(Arc::clone(nest), |nest| {
            if let Some(parts) = nest::cut(nest, self.room()) {
                let folds = parts.folds.into_iter();
                return Ok(Ready::Parts {
                    folds: folds
                        .map(|(fold, inputs)| (Arc::new(fold), inputs))
                        .collect(),
                    rest: Arc::new(parts.rest),
                    rest_inputs: parts.rest_inputs,
                });
            }
            let schedule = nest::schedule(nest, self.room());
            let emitted = nest::emit(nest, &schedule);
            let compiled = Compiled::new(self, nest, &schedule, &emitted)?;
            Ok(Ready::Kernel(compiled))
        })
    }

    /// An error of the device, in the words of an executor.
    pub(crate) fn told(&self, error: Error) -> tensor_core::Error {
        tensor_core::Error::Device {
            executor: self.adapter().name.clone(),
            source: Arc::new(error),
        }
    }
}

impl Compiled {
    pub(crate) fn new(
        gpu: &Gpu,
        nest: &LoopNest,
        schedule: &Schedule,
        emitted: &Emitted,
    ) -> Result<Self> {
        Ok(Self {
            kernel: gpu.generated(&emitted.name, &emitted.source)?,
            n_groups: schedule.n_groups(nest),
            gathers: gathers(nest),
        })
    }

    /// Records a run; the output is not empty.
    pub(crate) fn run(
        &self,
        gpu: &Gpu,
        nest: &LoopNest,
        location: Option<&'static Location<'static>>,
        inputs: &[&Array],
    ) -> Result<Array> {
        let mut output = Array::alloc(gpu, nest.dtype(), nest.output_len())?;
        inputs.iter().for_each(|input| output.inherit(input));
        let faults = match &self.gathers[..] {
            [] => None,
            gathers => Some(Arc::new(Faults::alloc(gpu, gathers, location)?)),
        };
        let mut buffers: Vec<_> = inputs.iter().map(|input| input.buffer()).collect();
        buffers.push(output.buffer());
        buffers.extend(faults.as_ref().map(|faults| faults.buffer()));
        gpu.run_generated(&self.kernel, &NestParams::new(), &buffers, self.n_groups)?;
        output.fail_with(faults);
        Ok(output)
    }
}

/// Whether a kernel can count what guards ask for.
fn guards_fit(nest: &LoopNest) -> bool {
    let sizes = nest.sizes();
    let guards = nest.values.iter().flat_map(|value| match value {
        Value::Inside(guards) | Value::Load { guards, .. } | Value::Gather { guards, .. } => {
            &guards[..]
        }
        _ => &[],
    });
    sizes.contains(&0)
        || guards.into_iter().all(|guard| {
            let (low, high) = guard.map.range(&sizes);
            let fits = |position: isize| i32::try_from(position).is_ok();
            fits(low) && fits(high) && guard.extent <= MAX_LEN
        })
}

fn gathers(nest: &LoopNest) -> Vec<Gathered> {
    let gathers = nest.values.iter().filter_map(|value| match value {
        Value::Gather { at, extent, .. } => Some(Gathered {
            extent: *extent,
            is_signed: nest.dtypes[at.0] == DType::I32,
        }),
        _ => None,
    });
    gathers.collect()
}
