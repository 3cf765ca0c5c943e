//! The scheduler: runs a plan wave by wave and drops each array after its last reader. A band runs
//! in the wave of its first step, if the executor supports bands.

use std::sync::{Arc, LazyLock};

use super::{Executor, Host, Storage, verify};
use crate::error::{Error, Result};
use crate::parallel;
use crate::plan::{Band, BufferId, BufferKind, Plan, Step};
use crate::tensor::Tensor;
use crate::tensor::hook;

/// Runs a plan on one executor: takes the data of the plan's inputs and returns its output arrays.
///
/// # Errors
/// [`Error::BadStep`] if [`Plan::check`] rejects the plan, or if a step breaks a rule of the
/// intermediate representation.
/// [`Error::InputMismatch`] or [`Error::InputCount`] if `data` does not fit the plan's inputs.
/// Errors of a step, with the source line of its last operation.
pub async fn run(
    executor: &dyn Executor,
    plan: &Plan,
    data: &[Arc<dyn Storage>],
) -> Result<Vec<Arc<dyn Storage>>> {
    run_with(&[executor], plan, data, |_, _| 0).await
}

/// Runs a plan like [`run`] and blocks until the end.
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
    let (_lazily, _line) = (hook::pause(), Tensor::with_caller_lines());
    pollster::block_on(walk(&[executor], plan, data, |_, _| 0))
}

/// The executor for steps that other executors do not accept. It is shared, so that compiled
/// kernels are reused.
static FALL_BACK: LazyLock<Host> = LazyLock::new(Host::new);

/// The number of values that a loop computes in some tens of microseconds, in which a sleeping
/// thread wakes up.
const LARGE: usize = 1 << 17;

/// Returns the approximate number of values that a step computes.
fn n_values(step: &Step) -> usize {
    /// The number of multiply-adds that a GEMM library does while a loop computes one value.
    const PAIRS: usize = 8;
    let nest = &step.nest;
    let sizes = nest.domain.iter().chain(&nest.reduce);
    let points = sizes.fold(1, |n: usize, &size| n.saturating_mul(size));
    match nest.contract {
        Some(_) => points / PAIRS,
        None => points.saturating_mul(nest.values.len()),
    }
}

/// Runs a plan on several executors. `place` returns the index of the executor for each step, given
/// the step's number; the index is taken modulo the number of executors. `place` is called more
/// than once for a step and must return the same index each time. Steps of one wave run at the
/// same time. Arrays are copied through host memory if the next reader is another executor, and
/// results are copied to the first executor. The plan must be made for a
/// [`Target`](crate::plan::Target) that all executors support.
///
/// # Errors
/// As [`run`]; also [`Error::NoExecutor`] if `executors` is empty.
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
    for output in &plan.outputs {
        let buffer = &plan.buffers[output.0];
        let room = executors[0].check_capacity(buffer.dtype, buffer.len());
        let writer = || plan.steps.iter().find(|step| step.output == *output);
        room.map_err(|error| match writer() {
            Some(step) => step.locate(error),
            None => error,
        })?;
    }
    for (number, step) in plan.waves().flatten().enumerate() {
        let executor = executors[place(number, step) % executors.len()];
        let room = executor.check_step(step, &input_lens(plan, step));
        room.map_err(|error| step.locate(error))?;
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
    let mut arrays = Arrays::new(plan, data);
    let mut in_band = vec![false; plan.steps.len()];
    let mut bands = plan.bands.iter().peekable();
    let mut first = 0;
    for wave in plan.waves() {
        let numbers = first..first + wave.len();
        first = numbers.end;
        while let Some(band) = bands.next_if(|band| numbers.contains(&band.steps[0])) {
            // Steps on different executors run one by one.
            if let [executor] = executors
                && arrays.run_band(*executor, band).await?
            {
                band.steps.iter().for_each(|&at| in_band[at] = true);
            }
        }
        let steps = numbers.zip(wave).filter(|&(number, _)| !in_band[number]);
        let mut jobs: Vec<Job<'_>> = Vec::with_capacity(wave.len());
        for (number, step) in steps {
            let lens = input_lens(plan, step);
            let chosen = executors[place(number, step) % executors.len()];
            let executor: &dyn Executor = if chosen.accepts(step, &lens) {
                chosen
            } else {
                &*FALL_BACK
            };
            jobs.push(Job {
                executor,
                step,
                inputs: arrays.brought_to(executor, &step.inputs).await?,
            });
        }
        let steps: Vec<&Step> = jobs.iter().map(|job| job.step).collect();
        for (step, array) in steps.iter().zip(run_together(&jobs)) {
            let array = array?;
            arrays.verify(executors, step, &array)?;
            arrays.store(step.output, array);
        }
        for step in steps {
            arrays.was_read(&step.inputs);
        }
    }
    for executor in executors {
        executor.submit()?;
    }
    let mut outputs = Vec::with_capacity(plan.outputs.len());
    for output in &plan.outputs {
        outputs.extend(arrays.brought_to(executors[0], &[*output]).await?);
    }
    Ok(outputs)
}

/// Runs the steps of one wave and returns their arrays.
///
/// A step that is large enough for all threads runs alone and divides its own work. The other steps
/// run on one thread each, at the same time, if all of them together are worth waking a thread.
fn run_together(jobs: &[Job<'_>]) -> Vec<Result<Arc<dyn Storage>>> {
    let mixed = jobs
        .iter()
        .any(|job| !std::ptr::addr_eq(job.executor, jobs[0].executor));
    if let [job] = jobs {
        return vec![job.run(mixed)];
    }
    let is_computed = |job: &&Job<'_>| job.executor.shares_its_steps();
    let n_threads = rayon::current_num_threads();
    let computed = jobs
        .iter()
        .filter(is_computed)
        .map(|job| n_values(job.step));
    let total = computed.fold(0, usize::saturating_add);
    // A step of more than its share would keep one thread busy while the others have nothing to do.
    let share = LARGE
        .max(total / n_threads)
        .min(LARGE.saturating_mul(n_threads));
    let is_small = |job: &&Job<'_>| is_computed(job) && n_values(job.step) <= share;
    let mut results: Vec<Option<Result<Arc<dyn Storage>>>> = Vec::new();
    results.resize_with(jobs.len(), || None);
    // A step that only queues its work is started first, and on this thread: a device then works
    // while the host computes, and a profiler that measures this thread sees the whole cost.
    for computed in [false, true] {
        for (result, job) in results.iter_mut().zip(jobs) {
            if is_computed(&job) == computed && !is_small(&job) {
                *result = Some(job.run(mixed));
            }
        }
    }
    let n_values = jobs.iter().filter(is_small).map(|job| n_values(job.step));
    let largest = n_values.clone().max().unwrap_or(0);
    let others = n_values.fold(0, usize::saturating_add) - largest;
    let is_shared = others >= LARGE;
    let small = results
        .iter_mut()
        .zip(jobs)
        .filter(|(_, job)| is_small(job));
    let run = |(result, job): (&mut Option<_>, &Job<'_>)| *result = Some(job.run(mixed));
    if is_shared {
        let run = |(): &mut (), job| {
            run(job);
            Ok(())
        };
        let done = parallel::for_each(small, || (), run);
        debug_assert!(done.is_ok(), "the error of a step is its result");
    } else {
        small.for_each(run);
    }
    results.into_iter().flatten().collect()
}

/// The arrays of a plan during a run.
struct Arrays<'p> {
    plan: &'p Plan,
    copies: Vec<Copies>,
    /// The number of reads of each buffer that remain.
    n_readers: Vec<usize>,
    /// The outputs of bands, if these have to be compared with the outputs of the single steps.
    unverified: Vec<(BufferId, Arc<dyn Storage>)>,
}

/// The copies of one array, at most one for each executor that needed it so far.
type Copies = Vec<Arc<dyn Storage>>;

impl<'p> Arrays<'p> {
    /// Stores the inputs of a plan.
    fn new(plan: &'p Plan, data: &[Arc<dyn Storage>]) -> Self {
        let mut arrays = Self {
            plan,
            copies: vec![Vec::new(); plan.buffers.len()],
            n_readers: plan.n_readers(),
            unverified: Vec::new(),
        };
        for (&input, storage) in plan.inputs.iter().zip(data) {
            arrays.store(input, Arc::clone(storage));
        }
        arrays
    }

    fn store(&mut self, buffer: BufferId, array: Arc<dyn Storage>) {
        self.copies[buffer.0].push(array);
    }

    /// Returns arrays in memory of an executor, and uploads them if needed. The copies stay
    /// available for later readers.
    async fn brought_to(
        &mut self,
        executor: &dyn Executor,
        buffers: &[BufferId],
    ) -> Result<Vec<Arc<dyn Storage>>> {
        let mut arrays = Vec::with_capacity(buffers.len());
        for buffer in buffers {
            arrays.push(brought_to(executor, &mut self.copies[buffer.0]).await?);
        }
        Ok(arrays)
    }

    /// Notes that a step has read its inputs. Drops temporaries that no other step reads.
    fn was_read(&mut self, inputs: &[BufferId]) {
        for input in inputs {
            self.n_readers[input.0] -= 1;
            let is_temporary = self.plan.buffers[input.0].kind == BufferKind::Temporary;
            if is_temporary && self.n_readers[input.0] == 0 {
                self.copies[input.0].clear();
            }
        }
    }

    /// Runs the steps of a band and stores the outputs. Returns `false` if the steps have to run
    /// one by one: because the executor does not run the band, or because its outputs are compared
    /// with those of the steps.
    async fn run_band(&mut self, executor: &dyn Executor, band: &Band) -> Result<bool> {
        let plan = self.plan;
        let accepts = |&at: &usize| {
            let step = &plan.steps[at];
            executor.accepts(step, &input_lens(plan, step))
        };
        if !band.steps.iter().all(accepts) {
            return Ok(false);
        }
        let inputs = self.brought_to(executor, &band.inputs).await?;
        let Some(outputs) = executor.run_band(plan, band, &inputs)? else {
            return Ok(false);
        };
        if outputs.len() != band.outputs.len() {
            let (actual, expected) = (outputs.len(), band.outputs.len());
            let what = format!("run_band returned {actual} arrays (expected {expected})");
            return Err(Error::BadStep { what });
        }
        let outputs = band.outputs.iter().copied().zip(outputs);
        if verify::is_enabled() {
            self.unverified.extend(outputs);
            return Ok(false);
        }
        for (buffer, array) in outputs {
            self.store(buffer, array);
        }
        for &at in &band.steps {
            self.was_read(&plan.steps[at].inputs);
        }
        Ok(true)
    }

    /// Compares the output of a step with that of its band, if the band has run before.
    fn verify(
        &mut self,
        executors: &[&dyn Executor],
        step: &Step,
        array: &Arc<dyn Storage>,
    ) -> Result<()> {
        let is_output = |(buffer, _): &(BufferId, _)| *buffer == step.output;
        let Some(number) = self.unverified.iter().position(is_output) else {
            return Ok(());
        };
        let (_, of_band) = self.unverified.swap_remove(number);
        verify::against_step(executors[0], step, of_band, Arc::clone(array))
            .map_err(|error| step.locate(error))
    }
}

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
        run().map_err(|error: Error| self.step.locate(error))
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, PoisonError, Weak};

    use super::*;
    use crate::dtype::HostData;
    use crate::exec::Reference;
    use crate::plan::Target;

    /// An executor that counts the results that exist at the same time.
    #[derive(Debug, Default)]
    struct Counting {
        results: Mutex<Vec<Weak<dyn Storage>>>,
        most: AtomicUsize,
    }

    impl Executor for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }

        fn target(&self) -> Target {
            Reference.target()
        }

        fn owns(&self, storage: &dyn Storage) -> bool {
            Reference.owns(storage)
        }

        fn upload(&self, data: HostData) -> Result<Arc<dyn Storage>> {
            Reference.upload(data)
        }

        fn run(&self, step: &Step, inputs: &[Arc<dyn Storage>]) -> Result<Arc<dyn Storage>> {
            let result = Reference.run(step, inputs)?;
            let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
            results.push(Arc::downgrade(&result));
            let n_alive = results.iter().filter(|result| result.strong_count() > 0);
            self.most.fetch_max(n_alive.count(), Ordering::Relaxed);
            Ok(result)
        }
    }

    #[test]
    fn a_result_is_dropped_after_its_last_reader() {
        let x = Tensor::from_vec(&[4], vec![1.0_f32, 2.0, 3.0, 4.0]);
        let last = (0..6).fold(x, |x, _| x.cumsum(0));
        let executor = Counting::default();
        let (plan, data) = Plan::new(&[&last], &executor.target()).unwrap();
        assert_eq!(plan.steps.len(), 6, "{}", plan.explain());
        run_and_wait(&executor, &plan, &data).unwrap();
        assert_eq!(executor.most.into_inner(), 2);
    }
}
