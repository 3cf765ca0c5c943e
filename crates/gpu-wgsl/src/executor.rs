//! Plans of `tensor-core` on a device.
//!
//! Role: makes [`Gpu`] an executor: uploads arrays, runs each step as the kernel that `nest` writes for it, reads results.
//! Method: a kernel is written and compiled once for each nest and kept with its device. Work is only recorded, and leaves when the
//! scheduler submits or something is read. A gather notes a position out of range in a buffer of its own; whoever reads an array
//! that was computed from it gets the error.
//! Memory: `bool` takes a bit, `f16` two bytes, `f64` eight, everything else four. What a device lacks runs on the host ([`Refusal`]).

mod array;
#[cfg(test)]
mod proof;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tensor_core::exec::{Accuracy, DeviceTimes, Executor, Kept, MemoryUse, Storage};
use tensor_core::ir::{LoopNest, Value};
use tensor_core::plan::{Origin, Step, Target};
use tensor_core::{DType, HostData};

use crate::device::{Generated, Measuring};
use crate::nest::{self, Division, Emitted, NestParams, Numbers, Parts, Room, Schedule, Window};
use crate::{Error, Gpu, Result};
pub(crate) use array::Array;
use array::{Faults, Gathered};

/// The most elements of an array that a kernel reads or writes.
const MAX_LEN: usize = i32::MAX as usize;

/// The kernels of a device.
#[derive(Debug, Default)]
pub(crate) struct Nests {
    /// How each nest whose arrays can all be bound whole runs.
    whole: Kept<Arc<LoopNest>, Ready>,
    /// By form; for a kernel that is given stretches, with the last axis that may start elsewhere.
    kernels: Kept<(LoopNest, Option<usize>), Compiled>,
    n_compiled: AtomicU64,
    refusals: Mutex<BTreeMap<Refusal, u64>>,
}

impl Nests {
    fn note_refusal(&self, why: Refusal) {
        *self.lock_refusals().entry(why).or_default() += 1;
    }

    fn lock_refusals(&self) -> MutexGuard<'_, BTreeMap<Refusal, u64>> {
        // A count is whole at any time.
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kernel of a form.
#[derive(Debug)]
pub(crate) struct Compiled {
    kernel: Generated,
    n_groups: u64,
    /// Of one run.
    operations: f64,
}

/// Why a device does not run a step, and the host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// It computes in `f64`, which the device lacks.
    F64,
    /// It computes a function of `f64` that WGSL lacks: an exponential, a logarithm, a remainder.
    FunctionOfF64,
    /// An array, or a position in one, that 31 bits do not count.
    TooLong,
    /// No division of its loops makes the arrays fit into bindings, its loops are longer than the driver lets them run, or it takes
    /// larger workgroups than the device was opened with.
    Indivisible,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F64 => "computes in f64, which the device lacks",
            Self::FunctionOfF64 => "computes a function of f64 that WGSL lacks",
            Self::TooLong => "has positions of more than 31 bits",
            Self::Indivisible => {
                "reads more at a time than can be bound, loops longer than the driver lets it, or takes larger workgroups than there are"
            }
        })
    }
}

/// A nest that can run.
#[derive(Debug)]
enum Ready {
    Kernel(Arc<Compiled>, Numbers),
    Parts(Parts),
    /// One that might take too long at a time.
    Long,
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
            keeps_subnormals: false,
        }
    }

    fn accepts(&self, step: &Step, input_lens: &[usize]) -> bool {
        let refusal = refusal(&step.nest, input_lens, self.room());
        if let Some(why) = refusal {
            self.nests().note_refusal(why);
        }
        refusal.is_none()
    }

    fn check_room(&self, dtype: DType, len: usize) -> tensor_core::Result<()> {
        let bytes = nest::bytes(dtype, len);
        let room = self.check_buffer_bytes("array", len, bytes);
        room.map_err(|error| self.told(error))
    }

    fn check_step(&self, step: &Step, input_lens: &[usize]) -> tensor_core::Result<()> {
        let room = self.check_room(step.nest.dtype(), step.nest.output_len());
        room.or_else(|error| match refusal(&step.nest, input_lens, self.room()) {
            Some(Refusal::F64 | Refusal::FunctionOfF64) => Ok(()),
            _ => Err(error),
        })
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
        let array = self.run_nest(&step.nest, step.origins.last(), &arrays);
        Ok(Arc::new(array.map_err(|error| self.told(error))?))
    }

    fn submit(&self) -> tensor_core::Result<()> {
        self.flush().map_err(|error| self.told(error))
    }

    fn device_times(&self) -> Option<Box<dyn DeviceTimes + '_>> {
        // While another measurement runs, or once the device is lost, nobody can tell.
        let measuring = self.measure_numbered().ok()?;
        Some(Box::new(Timed {
            gpu: self,
            measuring,
        }))
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

/// A device whose steps are timed.
#[derive(Debug)]
struct Timed<'g> {
    gpu: &'g Gpu,
    measuring: Measuring<'g>,
}

impl DeviceTimes for Timed<'_> {
    fn run(
        &self,
        number: usize,
        step: &Step,
        inputs: &[Arc<dyn Storage>],
    ) -> tensor_core::Result<Arc<dyn Storage>> {
        Gpu::numbered(number, || self.gpu.run(step, inputs))
    }

    fn finish(&self) -> tensor_core::Result<Vec<(usize, [Instant; 2])>> {
        let times = self.measuring.finish();
        times.map_err(|error| self.gpu.told(error))
    }
}

impl Gpu {
    /// How many steps of programs ran on the host since the device was opened, and why.
    #[must_use]
    pub fn refusals(&self) -> BTreeMap<Refusal, u64> {
        self.nests().lock_refusals().clone()
    }

    /// Returns how many kernels of tensor programs were compiled since the device was opened.
    ///
    /// Compiling takes a driver 1 to 1000 ms a kernel. Steps of programs share a kernel if they
    /// differ in nothing but numbers: constants, starts of slices, numbers of random streams.
    /// (Equal constants of a step are one number, so a constant that comes to equal another one
    /// takes one kernel more.) A count that grows at every step of a loop therefore means that
    /// shapes or operations change.
    ///
    /// # Examples
    /// ```
    /// use gpu_wgsl::{Gpu, Select};
    /// use tensor_core::Tensor;
    ///
    /// # if gpu_wgsl::adapters().is_empty() { return Ok(()) }
    /// let gpu = Gpu::open(Select::Best)?;
    /// let mut x = Tensor::from_vec(&[2], vec![1.0_f32, 2.0]);
    /// for step in 1..10 {
    ///     x = (&x * (1.0 / f64::from(step))).realize(&gpu)?;
    /// }
    /// assert_eq!(gpu.compiled_kernels(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn compiled_kernels(&self) -> u64 {
        self.nests().n_compiled.load(Ordering::Relaxed)
    }

    /// Runs a nest, whole or in parts; what is wrong names `origin`.
    fn run_nest(
        &self,
        nest: &Arc<LoopNest>,
        origin: Option<&Origin>,
        inputs: &[&Array],
    ) -> Result<Array> {
        if nest.output_len() == 0 {
            return Array::alloc(self, origin, nest.dtype(), 0);
        }
        let lens: Vec<usize> = inputs.iter().map(|input| input.len()).collect();
        if nest::is_whole(nest, &lens, self.room().binding) {
            match &*self.ready(nest, &lens)? {
                Ready::Kernel(compiled, numbers) => {
                    return compiled.run(self, nest, numbers, origin, inputs);
                }
                Ready::Parts(parts) => return self.run_parts(parts, origin, inputs),
                Ready::Long => {}
            }
        }
        match nest::division(nest, &lens, self.room()) {
            Some(Division::Parts(parts)) => self.run_parts(&parts, origin, inputs),
            Some(Division::Windows(windows)) => self.run_windows(nest, &windows, origin, inputs),
            // Nothing that is not accepted is run, but a caller may not have asked.
            None => Err(self.too_long(nest, inputs)),
            Some(Division::Whole) => {
                let (compiled, numbers) = self.kernel_of(nest, None)?;
                compiled.run(self, nest, &numbers, origin, inputs)
            }
        }
    }

    fn run_parts(
        &self,
        parts: &Parts,
        origin: Option<&Origin>,
        inputs: &[&Array],
    ) -> Result<Array> {
        let at = |places: &[usize]| -> Vec<&Array> {
            places.iter().map(|&place| inputs[place]).collect()
        };
        let mut partials = Vec::with_capacity(parts.folds.len());
        for (fold, places) in &parts.folds {
            partials.push(self.run_nest(fold, origin, &at(places))?);
        }
        let given = at(&parts.rest_inputs).into_iter().chain(&partials);
        self.run_nest(&parts.rest, origin, &given.collect::<Vec<_>>())
    }

    /// Runs a nest part by part, each on stretches of the arrays.
    fn run_windows(
        &self,
        nest: &LoopNest,
        windows: &[Window],
        origin: Option<&Origin>,
        inputs: &[&Array],
    ) -> Result<Array> {
        let mut runs = Vec::with_capacity(windows.len());
        for window in windows {
            runs.push(self.kernel_of(&window.nest, Some(window.axis))?);
        }
        let output = Output::alloc(self, nest, origin, inputs)?;
        for (window, (compiled, numbers)) in windows.iter().zip(runs) {
            let head = bytemuck::bytes_of(&window.params);
            let stretches = Some(&window.stretches[..]);
            compiled.record(self, head, &numbers, inputs, &output, stretches)?;
        }
        Ok(output.array())
    }

    /// The longest of the arrays of a nest that nothing can bind.
    fn too_long(&self, nest: &LoopNest, inputs: &[&Array]) -> Error {
        let lens = inputs.iter().map(|input| (input.dtype(), input.len()));
        let arrays = lens.chain([(nest.dtype(), nest.output_len())]);
        let bytes = arrays.map(|(dtype, len)| (nest::bytes(dtype, len), len));
        let (needed, len) = bytes.max().unwrap_or_default();
        Error::TooLarge {
            op: "run",
            name: "array".to_owned(),
            shape: vec![len as u64],
            needed,
            unit: "bytes",
            limit_name: "maxStorageBufferBindingSize",
            limit: self.room().binding.bytes,
        }
    }

    /// What a nest whose arrays can all be bound whole runs as.
    fn ready(&self, nest: &Arc<LoopNest>, lens: &[usize]) -> Result<Arc<Ready>> {
        self.nests().whole.get(Arc::clone(nest), |nest| {
            Ok(match nest::division(nest, lens, self.room()) {
                Some(Division::Parts(parts)) => Ready::Parts(parts),
                Some(Division::Whole) => {
                    let (compiled, numbers) = self.kernel_of(nest, None)?;
                    Ready::Kernel(compiled, numbers)
                }
                // Where stretches lie depends on the lengths, which are not in the nest.
                Some(Division::Windows(_)) | None => Ready::Long,
            })
        })
    }

    /// The kernel of a nest's form, and the numbers that a run of the nest brings along.
    fn kernel_of(
        &self,
        nest: &LoopNest,
        window: Option<usize>,
    ) -> Result<(Arc<Compiled>, Numbers)> {
        let (form, numbers) = nest::split(nest);
        let compiled = self.nests().kernels.get((form, window), |(form, window)| {
            let schedule = nest::schedule(form, self.room());
            let emitted = nest::emit(form, &schedule, *window);
            let compiled = Compiled::new(self, form, &schedule, &emitted)?;
            self.nests().n_compiled.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Error>(compiled)
        });
        Ok((compiled?, numbers))
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
            operations: nest.operations(),
        })
    }

    /// Records a run of a nest of this form; the output is not empty.
    pub(crate) fn run(
        &self,
        gpu: &Gpu,
        nest: &LoopNest,
        numbers: &Numbers,
        origin: Option<&Origin>,
        inputs: &[&Array],
    ) -> Result<Array> {
        let output = Output::alloc(gpu, nest, origin, inputs)?;
        let head = NestParams::new();
        self.record(
            gpu,
            bytemuck::bytes_of(&head),
            numbers,
            inputs,
            &output,
            None,
        )?;
        Ok(output.array())
    }

    fn record(
        &self,
        gpu: &Gpu,
        head: &[u8],
        numbers: &Numbers,
        inputs: &[&Array],
        output: &Output,
        stretches: Option<&[Range<u64>]>,
    ) -> Result<()> {
        let mut buffers: Vec<_> = inputs.iter().map(|input| input.buffer()).collect();
        buffers.push(output.array.buffer());
        buffers.extend(output.faults.as_ref().map(|faults| faults.buffer()));
        gpu.run_generated(
            &self.kernel,
            [head, &numbers.bytes()].concat(),
            &buffers,
            stretches,
            self.n_groups,
            self.operations,
        )
    }
}

/// What a nest writes.
#[derive(Debug)]
struct Output {
    array: Array,
    faults: Option<Arc<Faults>>,
}

impl Output {
    fn alloc(
        gpu: &Gpu,
        nest: &LoopNest,
        origin: Option<&Origin>,
        inputs: &[&Array],
    ) -> Result<Self> {
        let mut array = Array::alloc(gpu, origin, nest.dtype(), nest.output_len())?;
        inputs.iter().for_each(|input| array.inherit(input));
        let faults = match &gathers(nest)[..] {
            [] => None,
            gathers => Some(Arc::new(Faults::alloc(gpu, gathers, origin)?)),
        };
        Ok(Self { array, faults })
    }

    fn array(mut self) -> Array {
        self.array.fail_with(self.faults);
        self.array
    }
}

/// Why a nest cannot run here, if so.
pub(crate) fn refusal(nest: &LoopNest, lens: &[usize], room: &Room) -> Option<Refusal> {
    let is_short = |len: usize| len <= MAX_LEN;
    let mut dtypes = nest.dtypes.iter().chain(&nest.inputs);
    if dtypes.any(|dtype| *dtype == DType::F64) && !room.has_f64 {
        return Some(Refusal::F64);
    }
    if !nest::has_text(nest) {
        return Some(Refusal::FunctionOfF64);
    }
    let are_short = lens.iter().copied().all(is_short) && is_short(nest.output_len());
    if !are_short || !guards_fit(nest) {
        return Some(Refusal::TooLong);
    }
    (!nest::fits(nest, lens, room)).then_some(Refusal::Indivisible)
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
