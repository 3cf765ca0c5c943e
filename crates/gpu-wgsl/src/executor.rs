//! Execution of `tensor-core` plans on a device.
//!
//! Role: implements [`Executor`] for [`Gpu`]: uploads arrays, runs each step as a kernel generated
//! by `nest`, and reads results.
//! Method: the division of a nest into kernels is computed once per nest and input lengths, and
//! each kernel is compiled once; both are cached with the device. Runs are only recorded; they are
//! submitted when the scheduler requests it or when a result is read. A gather records positions
//! out of range in a separate buffer; reading any array computed from its output returns the error.
//! Memory: `bool` takes 1 bit, `f16` 2 bytes, `f64` 8 bytes, all other types 4 bytes. Steps that
//! the device does not support run on the host ([`FallbackReason`]).

mod array;
mod buffers;
mod matrices;
#[cfg(test)]
mod proof;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use web_time::Instant;

use tensor_core::exec::{Accuracy, Cache, DeviceTimes, Executor, MemoryUse, NestCache, Storage};
use tensor_core::ir::{LoopNest, Value};
use tensor_core::plan::{Origin, Step, Target};
use tensor_core::{DType, HostData};

use crate::adapter::Adapter;
use crate::device::{Generated, Measuring};
use crate::limits::KernelLimits;
use crate::nest::{self, Division, Emitted, NestParams, Numbers, Schedule, Sequence, SubNest};
use crate::{Error, Gpu, Result};
pub(crate) use array::Array;
use array::{Faults, Gathered, WORD_BITS};

/// Maximum number of elements of an array that a kernel reads or writes.
const MAX_LEN: usize = i32::MAX as usize;

/// The cached routes and compiled kernels of a device.
#[derive(Debug, Default)]
struct KernelCache {
    /// Routes by nest and lengths of its inputs, in elements.
    routes: NestCache<Box<[usize]>, Route>,
    /// Kernels by form, the nest without its numbers ([`nest::split`]). For a kernel that binds
    /// chunks, the key includes the last axis whose loop may start at an index other than 0.
    kernels: Cache<(LoopNest, Option<usize>), Arc<Compiled>>,
    n_compiled: AtomicU64,
    fallbacks: Mutex<BTreeMap<FallbackReason, u64>>,
}

impl KernelCache {
    fn count_fallback(&self, why: FallbackReason) {
        *self.lock_fallbacks().entry(why).or_default() += 1;
    }

    fn lock_fallbacks(&self) -> MutexGuard<'_, BTreeMap<FallbackReason, u64>> {
        // A panic cannot leave a counter half updated, so a poisoned lock is safe.
        self.fallbacks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A compiled kernel, for all nests of one form, which differ only in their numbers.
#[derive(Debug)]
pub(crate) struct Compiled {
    kernel: Generated,
    n_groups: u64,
    /// Number of operations per run.
    operations: f64,
}

/// The reason why a step runs on the host and not on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FallbackReason {
    /// The step computes in `f64`, which the device does not support.
    F64,
    /// The step computes a function of `f64` that WGSL does not have, such as an exponential, a
    /// logarithm or a remainder.
    FunctionOfF64,
    /// The step is a sort.
    Sort,
    /// An array length, a position in an array, or the size of an axis that an index selects from
    /// exceeds 31 bits.
    TooLong,
    /// The step exceeds a limit of the device even if its loops are divided: the size of a binding,
    /// the number of loop iterations, or the size of a workgroup.
    Indivisible,
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F64 => "the device does not support f64 (needs 64-bit floats and 64-bit integers in shaders)",
            Self::FunctionOfF64 => "WGSL does not have this function of f64",
            Self::Sort => "the device has no kernel for sorts",
            Self::TooLong => "positions or sizes exceed 31 bits",
            Self::Indivisible => {
                "exceeds the device's limit on binding size, loop iterations or workgroup size"
            }
        })
    }
}

/// The way in which a device runs a nest. The computation of a route takes longer than a run, so
/// routes are cached.
#[derive(Debug)]
pub(crate) struct Route {
    /// The division into kernels, or the reason why the nest runs on the host.
    division: std::result::Result<Division, FallbackReason>,
    /// The kernel and the numbers of a nest that runs whole, once the kernel is compiled.
    kernel: OnceLock<(Arc<Compiled>, Numbers)>,
}

impl Route {
    pub(crate) fn new(nest: &LoopNest, lens: &[usize], limits: &KernelLimits) -> Self {
        Self {
            division: divide(nest, lens, limits),
            kernel: OnceLock::new(),
        }
    }

    /// Returns the division into kernels, or the reason why the nest runs on the host.
    pub(crate) fn division(&self) -> std::result::Result<&Division, FallbackReason> {
        self.division.as_ref().map_err(|why| *why)
    }
}

/// Returns the limits of one step on a device of an adapter.
#[must_use]
pub fn target(adapter: &Adapter) -> Target {
    // One binding is reserved for the output, and one for the positions out of range of gathers.
    let inputs = adapter
        .limits
        .max_storage_buffers_per_shader_stage
        .saturating_sub(2);
    Target {
        max_values: 96,
        max_inputs: (inputs as usize).min(24),
        min_product: None,
        computes_factors: true,
        stores_halves: false,
        merges_sums: false,
        min_band: None,
    }
}

impl Executor for Gpu {
    fn name(&self) -> &str {
        &self.adapter().name
    }

    fn target(&self) -> Target {
        Target {
            stores_halves: self.limits().matrices.is_some(),
            ..target(self.adapter())
        }
    }

    fn accuracy(&self) -> Accuracy {
        // WGSL allows 2.5 ulp for a quotient. A square root is one over the inverse square root,
        // which adds 2 ulp.
        Accuracy {
            quotient_ulps: 5.0,
            keeps_subnormals: false,
        }
    }

    fn accepts(&self, step: &Step, input_lens: &[usize]) -> bool {
        let route = self.route(&step.nest, input_lens);
        if let Err(why) = route.division {
            self.kernel_cache().count_fallback(why);
        }
        route.division.is_ok()
    }

    fn check_capacity(&self, dtype: DType, len: usize) -> tensor_core::Result<()> {
        let bytes = nest::bytes(dtype, len);
        let checked = self.check_buffer_bytes("array", len, bytes);
        checked.map_err(|error| self.executor_error(error))
    }

    fn check_step(&self, step: &Step, input_lens: &[usize]) -> tensor_core::Result<()> {
        let checked = self.check_capacity(step.nest.dtype(), step.nest.output_len());
        checked.or_else(|error| match self.route(&step.nest, input_lens).division {
            Err(FallbackReason::F64 | FallbackReason::FunctionOfF64 | FallbackReason::Sort) => {
                Ok(())
            }
            _ => Err(error),
        })
    }

    fn owns(&self, storage: &dyn Storage) -> bool {
        Array::downcast(storage).is_some_and(|array| array.is_on(self))
    }

    fn upload(&self, data: HostData) -> tensor_core::Result<Arc<dyn Storage>> {
        let array = Array::upload(self, &data).map_err(|error| self.executor_error(error))?;
        Ok(Arc::new(array))
    }

    fn run(
        &self,
        step: &Step,
        inputs: &[Arc<dyn Storage>],
    ) -> tensor_core::Result<Arc<dyn Storage>> {
        let mut arrays = Vec::with_capacity(inputs.len());
        for input in inputs {
            let array = Array::downcast(input.as_ref()).filter(|array| array.is_on(self));
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
        Ok(Arc::new(array.map_err(|error| self.executor_error(error))?))
    }

    fn submit(&self) -> tensor_core::Result<()> {
        self.flush().map_err(|error| self.executor_error(error))
    }

    fn device_times(&self) -> Option<Box<dyn DeviceTimes + '_>> {
        // No times if another measurement is running or the device is lost.
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

/// A device that measures the time of each step.
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
        times.map_err(|error| self.gpu.executor_error(error))
    }
}

impl Gpu {
    /// Returns the number of steps that ran on the host since the device was opened, by reason.
    #[must_use]
    pub fn fallbacks(&self) -> BTreeMap<FallbackReason, u64> {
        self.kernel_cache().lock_fallbacks().clone()
    }

    /// Returns the number of tensor kernels compiled since the device was opened.
    ///
    /// A driver takes 1 to 1000 ms to compile a kernel. Steps share a kernel if they differ only in
    /// numbers: constants, slice starts, random stream numbers. (Equal constants of a step are one
    /// parameter, so a constant that becomes equal to another constant needs one more kernel.) If
    /// the count grows at every iteration of a loop, then shapes or operations change.
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
        self.kernel_cache().n_compiled.load(Ordering::Relaxed)
    }

    /// Returns the routes and kernels of this device.
    fn kernel_cache(&self) -> &KernelCache {
        self.extension()
    }

    /// Returns the route of a nest whose inputs have these lengths, in elements.
    pub(crate) fn route(&self, nest: &Arc<LoopNest>, lens: &[usize]) -> Arc<Route> {
        let routes = &self.kernel_cache().routes;
        let route = routes.get(nest, lens.into(), |nest, lens| {
            Ok::<_, Infallible>(Route::new(nest, lens, self.limits()))
        });
        route.unwrap_or_else(|never| match never {})
    }

    /// Runs a nest, whole or in parts. Errors refer to `origin`.
    fn run_nest(
        &self,
        nest: &Arc<LoopNest>,
        origin: Option<&Origin>,
        inputs: &[&Array],
    ) -> Result<Array> {
        if nest.output_len() == 0 {
            let mut empty = Array::alloc(self, origin, nest.dtype(), 0)?;
            inputs.iter().for_each(|input| empty.inherit(input));
            return Ok(empty);
        }
        let lens: Vec<usize> = inputs.iter().map(|input| input.len()).collect();
        if let Some(input) = packed_bools(nest, &lens) {
            return Ok(inputs[input].as_words());
        }
        let route = self.route(nest, &lens);
        match &route.division {
            Ok(Division::Whole) => {
                let (compiled, numbers) = self.whole_kernel(nest, &route)?;
                compiled.run(self, nest, numbers, origin, inputs)
            }
            Ok(Division::Windows(windows)) => self.run_windows(nest, windows, origin, inputs),
            Ok(Division::Parts(parts)) => self.run_parts(parts, origin, inputs),
            // `accepts` returns false for such a nest, but a caller may run it without a check.
            Err(why) => Err(Error::Device {
                operation: "run",
                message: why.to_string(),
            }),
        }
    }

    /// Returns the kernel and the numbers of a nest that runs whole; the first call compiles the
    /// kernel.
    fn whole_kernel<'r>(
        &self,
        nest: &LoopNest,
        route: &'r Route,
    ) -> Result<&'r (Arc<Compiled>, Numbers)> {
        if let Some(kernel) = route.kernel.get() {
            return Ok(kernel);
        }
        let kernel = self.kernel_of(nest, None)?;
        Ok(route.kernel.get_or_init(|| kernel))
    }

    fn run_parts(
        &self,
        parts: &Sequence,
        origin: Option<&Origin>,
        inputs: &[&Array],
    ) -> Result<Array> {
        let mut results: Vec<Array> = Vec::with_capacity(parts.nests.len());
        for (nest, numbers) in &parts.nests {
            let input = |&number: &usize| match number.checked_sub(inputs.len()) {
                Some(result) => &results[result],
                None => inputs[number],
            };
            let own: Vec<&Array> = numbers.iter().map(input).collect();
            results.push(self.run_nest(nest, origin, &own)?);
        }
        match results.pop() {
            Some(result) => Ok(result),
            None => unreachable!("a sequence has nests"),
        }
    }

    /// Runs a nest window by window. Each window binds only a chunk of every array.
    fn run_windows(
        &self,
        nest: &LoopNest,
        windows: &[SubNest],
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
            let chunks = Some(&window.chunks[..]);
            compiled.record(self, head, &numbers, inputs, &output, chunks)?;
        }
        Ok(output.array())
    }

    /// Returns the kernel of a nest's form, and the numbers that are its parameters.
    fn kernel_of(
        &self,
        nest: &LoopNest,
        window: Option<usize>,
    ) -> Result<(Arc<Compiled>, Numbers)> {
        // The cache key is the form, so nests that differ only in numbers share a kernel.
        let (form, numbers) = nest::split(nest);
        let compiled = self
            .kernel_cache()
            .kernels
            .get((form, window), |(form, window)| {
                let schedule = nest::schedule(form, self.limits());
                let emitted = nest::emit(form, &schedule, *window);
                let compiled = Compiled::new(self, form, &schedule, &emitted)?;
                self.kernel_cache()
                    .n_compiled
                    .fetch_add(1, Ordering::Relaxed);
                Ok::<_, Error>(Arc::new(compiled))
            });
        Ok((compiled?, numbers))
    }

    /// Converts an error of the device to an error of the executor.
    pub(crate) fn executor_error(&self, error: Error) -> tensor_core::Error {
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

    /// Records a run of a nest of this form. The output must not be empty.
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
        chunks: Option<&[Range<u64>]>,
    ) -> Result<()> {
        let mut buffers: Vec<_> = inputs.iter().map(|input| input.buffer()).collect();
        buffers.push(output.array.buffer());
        buffers.extend(output.faults.as_ref().map(|faults| faults.buffer()));
        gpu.run_generated(
            &self.kernel,
            [head, &numbers.bytes()].concat(),
            &buffers,
            chunks,
            self.n_groups,
            self.operations,
        )
    }
}

/// Output array of a kernel, with the fault buffer of its gathers.
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

/// Returns the input that is the result of a nest as well, because the nest only packs the input's
/// `bool`s into words. A `bool` is a bit on the device, so whole words need no kernel. `lens` are
/// the lengths of the inputs.
pub(crate) fn packed_bools(nest: &LoopNest, lens: &[usize]) -> Option<usize> {
    let n_packed = nest.output_len().checked_mul(WORD_BITS);
    nest.packed_input()
        .filter(|&input| Some(lens[input]) == n_packed)
}

/// Divides a nest into kernels, or returns the reason why it cannot run on the device.
fn divide(
    nest: &LoopNest,
    lens: &[usize],
    limits: &KernelLimits,
) -> std::result::Result<Division, FallbackReason> {
    let is_short = |len: usize| len <= MAX_LEN;
    let mut dtypes = nest.dtypes.iter().chain(&nest.inputs);
    if dtypes.any(|dtype| *dtype == DType::F64) && !limits.has_f64 {
        return Err(FallbackReason::F64);
    }
    if nest.sort().is_some() {
        return Err(FallbackReason::Sort);
    }
    if !nest::has_text(nest) {
        return Err(FallbackReason::FunctionOfF64);
    }
    let are_short = lens.iter().copied().all(is_short) && is_short(nest.output_len());
    let are_short = are_short && nest.reduce.iter().copied().all(is_short);
    let mut indices = nest.values.iter().filter_map(Value::checked_index);
    if !are_short || !guards_fit(nest) || indices.any(|(_, extent)| extent > MAX_LEN) {
        return Err(FallbackReason::TooLong);
    }
    let division = nest::divide(nest, lens, limits).ok_or(FallbackReason::Indivisible)?;
    if let Division::Parts(parts) = &division {
        // The guards of parts count beyond the end of an axis if the last part is shorter.
        for (part, lens) in parts.with_lens(lens) {
            divide(part, &lens, limits)?;
        }
    }
    Ok(division)
}

/// Returns whether the positions and extents of all guards fit into `i32`.
fn guards_fit(nest: &LoopNest) -> bool {
    let sizes = nest.sizes();
    let guards = nest.values.iter().flat_map(Value::guards);
    sizes.contains(&0)
        || guards.into_iter().all(|guard| {
            let (low, high) = guard.map.range(&sizes);
            let fits = |position: isize| i32::try_from(position).is_ok();
            fits(low) && fits(high) && guard.extent <= MAX_LEN
        })
}

fn gathers(nest: &LoopNest) -> Vec<Gathered> {
    let indices = nest.values.iter().filter_map(Value::checked_index);
    let gathers = indices.map(|(at, extent)| Gathered {
        extent,
        is_signed: nest.dtypes[at.0] == DType::I32,
    });
    gathers.collect()
}

#[cfg(test)]
mod tests {
    use tensor_core::plan::Plan;
    use tensor_core::rng::Philox;
    use tensor_core::{Reference, Tensor};

    use super::*;
    use crate::nest::tests::schedule_limits;

    #[test]
    fn an_axis_beyond_the_indices_of_a_kernel_runs_on_the_host() {
        let divided = |len: usize| {
            let mean = Tensor::rand(Philox::new(1), &[len]).mean(..);
            let (plan, _) = Plan::new(&[&mean], &Reference.target()).unwrap();
            let nest = &plan.steps[0].nest;
            divide(nest, &[], &schedule_limits())
                .map(|division| matches!(division, Division::Whole))
        };
        assert_eq!(divided(2_000_000_001), Ok(false));
        assert_eq!(divided(2_500_000_001), Err(FallbackReason::TooLong));
    }

    #[test]
    fn parts_that_count_beyond_the_indices_of_a_kernel_run_on_the_host() {
        let mean = Tensor::rand(Philox::new(1), &[2_147_483_001]).mean(..);
        let (plan, _) = Plan::new(&[&mean], &Reference.target()).unwrap();
        let divided = |loop_iterations| {
            let limits = KernelLimits {
                loop_iterations,
                ..schedule_limits()
            };
            divide(&plan.steps[0].nest, &[], &limits).map(|_| ())
        };
        // 512 parts of equal lengths end below 2^31. With 16,800 iterations for each part there are
        // more parts, which end above 2^31.
        assert_eq!(divided(None), Ok(()));
        assert_eq!(divided(Some(16_800)), Err(FallbackReason::TooLong));
    }
}
