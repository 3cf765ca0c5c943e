//! The scheduler: runs a plan wave by wave and drops each array after its last reader.

use std::sync::{Arc, LazyLock};

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

use super::{Executor, Host, Storage, verify};
use crate::error::{Error, Result};
use crate::plan::{Kind, Plan, Step};
use crate::tensor::Tensor;
use crate::tensor::hook;

/// Runs a plan on one executor: takes the data of the plan's inputs and returns its output arrays.
///
/// # Errors
/// [`Error::InputMismatch`] or [`Error::InputCount`] if `data` does not fit the plan's inputs.
/// Errors of a step, with the source line of its last operation.
pub async fn run(
    executor: &dyn Executor,
    plan: &Plan,
    data: &[Arc<dyn Storage>],
) -> Result<Vec<Arc<dyn Storage>>> {
    run_with(&[executor], plan, data, |_, _| 0).await
}

/// Runs a plan like [`run`] and blocks until the end. A large plan runs inside rayon's pool, so
/// that the pool is entered once and not again by each step that splits its work.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_and_wait(
    executor: &dyn Executor,
    plan: &Plan,
    data: &[Arc<dyn Storage>],
) -> Result<Vec<Arc<dyn Storage>>> {
    // Called on the caller's thread, as the contract of `for_run` requires.
    let for_run = executor.for_run(plan);
    let executor = for_run.as_deref().unwrap_or(executor);
    // While this thread waits, rayon may let it run a job of another plan. Such a job must not see
    // this thread's eager scope or its current source line.
    let (_lazily, _line) = (hook::pause(), Tensor::on_nobodys_behalf());
    let wait = || pollster::block_on(walk(&[executor], plan, data, |_, _| 0));
    if executor.shares_its_steps() && is_large(plan) {
        rayon::scope(|_| wait())
    } else {
        wait()
    }
}

/// The executor for steps that other executors do not accept. It is shared, so that compiled
/// kernels are reused.
static FALL_BACK: LazyLock<Host> = LazyLock::new(Host::new);

/// Returns `true` if a plan is large enough to use other threads: waking a thread takes some tens
/// of microseconds.
fn is_large(plan: &Plan) -> bool {
    /// The number of values that a loop computes in some tens of microseconds.
    const LARGE: usize = 1 << 17;
    /// The number of multiply-adds that a GEMM library does while a loop computes one value.
    const PAIRS: usize = 8;
    let values = plan.steps.iter().map(|step| {
        let nest = &step.nest;
        let sizes = nest.domain.iter().chain(&nest.reduce);
        // The plan is not checked yet, so the number of points may overflow.
        let points = sizes.fold(1, |n: usize, &size| n.saturating_mul(size));
        match nest.contract {
            Some(_) => points / PAIRS,
            None => points.saturating_mul(nest.values.len()),
        }
    });
    values.fold(0, usize::saturating_add) >= LARGE
}

/// Runs a plan on several executors. `place` returns the index of the executor for each step, given
/// the step's number; the index is taken modulo the number of executors. Steps of one wave run at
/// the same time. Arrays are copied through host memory if the next reader is another executor, and
/// results are copied to the first executor. The plan must be made for a
/// [`Target`](crate::plan::Target) that all executors support.
///
/// # Errors
/// As [`run`].
///
/// # Examples
/// Two independent products, one on each executor.
/// ```
/// use tensor_core::exec::{self, Executor};
/// use tensor_core::plan::Plan;
/// use tensor_core::{Host, Tensor};
///
/// let [x, y, z] = [1.0_f32, 2.0, 3.0].map(|value| Tensor::from_vec(&[8, 8], vec![value; 64]));
/// let sum = (x.matmul(&y) + 100.0) + (x.matmul(&z) + 1000.0);
/// let (first, second) = (Host::new(), Host::new());
/// let (plan, data) = Plan::new(&[&sum], &first.target())?;
/// let executors: [&dyn Executor; 2] = [&first, &second];
/// let result =
///     pollster::block_on(exec::run_with(&executors, &plan, &data, |number, _| number % 2))?;
/// assert_eq!(result[0].len(), 64);
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub async fn run_with(
    executors: &[&dyn Executor],
    plan: &Plan,
    data: &[Arc<dyn Storage>],
    place: impl Fn(usize, &Step) -> usize,
) -> Result<Vec<Arc<dyn Storage>>> {
    let for_run: Vec<Option<Box<dyn Executor + '_>>> = executors
        .iter()
        .map(|executor| executor.for_run(plan))
        .collect();
    let executors: Vec<&dyn Executor> = executors
        .iter()
        .zip(&for_run)
        .map(|(executor, own)| own.as_deref().unwrap_or(*executor))
        .collect();
    walk(&executors, plan, data, place).await
}

/// Checks that the executors have room for every array of a plan: the array of each step on the
/// step's executor, and each output on the first executor.
fn check_room(
    executors: &[&dyn Executor],
    plan: &Plan,
    place: &impl Fn(usize, &Step) -> usize,
) -> Result<()> {
    let at_step = |error: Error, step: Option<&Step>| match step.and_then(|of| of.origins.last()) {
        Some(origin) => error.at(origin.location),
        None => error,
    };
    for output in &plan.outputs {
        let buffer = &plan.buffers[output.0];
        let room = executors[0].check_capacity(buffer.dtype, buffer.len());
        let writer = || plan.steps.iter().find(|step| step.output == *output);
        room.map_err(|error| at_step(error, writer()))?;
    }
    for (number, step) in plan.waves().flatten().enumerate() {
        let executor = executors[place(number, step) % executors.len()];
        let room = executor.check_step(step, &input_lens(plan, step));
        room.map_err(|error| at_step(error, Some(step)))?;
    }
    Ok(())
}

fn input_lens(plan: &Plan, step: &Step) -> Vec<usize> {
    let inputs = step.inputs.iter();
    inputs.map(|input| plan.buffers[input.0].len()).collect()
}

/// Runs a plan on exactly these executors: the caller has called [`Executor::for_run`] before.
async fn walk(
    executors: &[&dyn Executor],
    plan: &Plan,
    data: &[Arc<dyn Storage>],
    place: impl Fn(usize, &Step) -> usize,
) -> Result<Vec<Arc<dyn Storage>>> {
    check_inputs(plan, data)?;
    if executors.is_empty() {
        return Err(Error::NoExecutor);
    }
    check_room(executors, plan, &place)?;
    let is_large = is_large(plan);
    let last_reads = plan.last_reads();
    let mut arrays: Vec<Copies> = vec![Vec::new(); plan.buffers.len()];
    for (&input, storage) in plan.inputs.iter().zip(data) {
        arrays[input.0].push(Arc::clone(storage));
    }
    let mut number = 0;
    for wave in plan.waves() {
        let mut jobs: Vec<Job<'_>> = Vec::with_capacity(wave.len());
        for step in wave {
            let lens = input_lens(plan, step);
            let chosen = executors[place(number, step) % executors.len()];
            let executor: &dyn Executor = if chosen.accepts(step, &lens) {
                chosen
            } else {
                &*FALL_BACK
            };
            let mut inputs = Vec::with_capacity(step.inputs.len());
            for input in &step.inputs {
                inputs.push(brought_to(executor, &mut arrays[input.0]).await?);
            }
            jobs.push(Job {
                executor,
                step,
                inputs,
            });
            number += 1;
        }
        let mixed = jobs
            .iter()
            .any(|job| !std::ptr::addr_eq(job.executor, jobs[0].executor));
        // A step that only queues its work is started on this thread: another thread would gain
        // nothing, and a profiler that measures this thread sees the whole cost.
        let computes = |job: &Job<'_>| job.executor.shares_its_steps();
        let deals = jobs.len() > 1 && (mixed || is_large) && jobs.iter().any(computes);
        let results: Vec<Result<Arc<dyn Storage>>> = if deals {
            let queued = jobs
                .iter()
                .map(|job| (!computes(job)).then(|| job.run(mixed)));
            let queued: Vec<_> = queued.collect();
            let all = jobs.into_par_iter().zip(queued);
            all.map(|(job, queued)| queued.unwrap_or_else(|| job.run(mixed)))
                .collect()
        } else {
            jobs.into_iter().map(|job| job.run(mixed)).collect()
        };
        for (step, array) in wave.iter().zip(results) {
            arrays[step.output.0].push(array?);
        }
        // Free temporaries whose last reader was this wave.
        for input in wave.iter().flat_map(|step| &step.inputs) {
            let over = wave.first().map(|step| step.wave);
            let temporary = plan.buffers[input.0].kind == Kind::Temporary;
            if temporary && last_reads[input.0] <= over {
                arrays[input.0].clear();
            }
        }
    }
    for executor in executors {
        executor.submit()?;
    }
    let mut outputs = Vec::with_capacity(plan.outputs.len());
    for output in &plan.outputs {
        outputs.push(brought_to(executors[0], &mut arrays[output.0]).await?);
    }
    Ok(outputs)
}

/// The copies of one array, at most one for each executor that needed it so far.
type Copies = Vec<Arc<dyn Storage>>;

/// A step with its executor and its inputs in that executor's memory.
struct Job<'a> {
    executor: &'a dyn Executor,
    step: &'a Step,
    inputs: Vec<Arc<dyn Storage>>,
}

impl Job<'_> {
    /// Runs the step. If `submit` is set, starts the queued work at once, because other executors
    /// run steps of the same wave.
    fn run(&self, submit: bool) -> Result<Arc<dyn Storage>> {
        let run = || {
            let array = self.executor.run(self.step, &self.inputs)?;
            if submit {
                self.executor.submit()?;
            }
            verify::verify_if_enabled(self.executor, self.step, &self.inputs, &array)?;
            Ok(array)
        };
        run().map_err(|error: Error| match self.step.origins.last() {
            Some(origin) => error.at(origin.location),
            None => error,
        })
    }
}

fn check_inputs(plan: &Plan, data: &[Arc<dyn Storage>]) -> Result<()> {
    plan.check().map_err(|what| Error::BadStep { what })?;
    if plan.inputs.len() != data.len() {
        return Err(Error::InputCount {
            expected: plan.inputs.len(),
            actual: data.len(),
        });
    }
    for (number, (input, storage)) in plan.inputs.iter().zip(data).enumerate() {
        let buffer = &plan.buffers[input.0];
        if (buffer.dtype, buffer.len()) != (storage.dtype(), storage.len()) {
            return Err(Error::InputMismatch {
                number,
                expected: (buffer.dtype, buffer.shape.clone()),
                actual: (storage.dtype(), storage.len()),
            });
        }
    }
    Ok(())
}

/// Returns an array in memory of an executor, and uploads it if needed. The copy stays available
/// for later readers.
async fn brought_to(executor: &dyn Executor, copies: &mut Copies) -> Result<Arc<dyn Storage>> {
    if let Some(own) = copies.iter().find(|copy| executor.owns(copy.as_ref())) {
        return Ok(Arc::clone(own));
    }
    let Some(any) = copies.first() else {
        unreachable!(
            "a wave reads only inputs and results of earlier waves, which live until their last reader"
        );
    };
    let own = executor.upload(Arc::clone(any).read().await?)?;
    copies.push(Arc::clone(&own));
    Ok(own)
}
