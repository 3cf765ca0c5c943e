//! Property tests: random programs on an executor, compared with an evaluator that uses no plans.
//!
//! Role: tests the planner and executors; also for authors of other executors (feature
//! `random-programs`). A fault in either shows as a wrong element. Deliberate faults in the planner
//! prove that the comparison detects them.
//! Method: each program is planned for the executor's own target and for a random one (tiny caps,
//! with and without matrix products), run, and compared with `oracle`. The reference executor must
//! return exactly the same bits, however the program was split into steps. Other executors must
//! stay within the error bounds that the oracle propagates. Elements without a bound are excluded
//! and counted; their share is limited. Small programs draw any operation. A few programs are large
//! in one place, to reach the loops that executors use for large arrays. `own` runs the test on
//! this crate's executors.
//! `PROGRAM_SEED=n` repeats a run; `VERIFY_FULL=1` makes a hundred times as many programs.
#![cfg_attr(
    not(test),
    expect(
        dead_code,
        reason = "some items are only used by the tests of this crate"
    )
)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::iter::Sum;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use proptest::strategy::{Strategy, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::dtype::{DType, HostData, Scalar};
use crate::exec::{self, Accuracy, Executor, Reference, Storage, verify};
use crate::ir::{LoopNest, Value};
use crate::plan::{BufferId, LEAST_INPUTS, LEAST_VALUES, Plan, Target};
use crate::tensor::Tensor;
use oracle::{Array, Oracle};
use program::{RandomProgram, programs};

mod apply;
#[cfg(test)]
mod coverage;
#[cfg(test)]
mod eager;
#[cfg(test)]
mod gradients;
mod inputs;
mod large;
mod oracle;
#[cfg(test)]
mod own;
mod program;

/// Statistics on the outputs of some programs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    elements: usize,
    /// The statistics of non-empty outputs of floats. Each output counts with the shares of its
    /// elements that are open (without an error bound) and exact, so a large output counts as much
    /// as a small one.
    floats: Shares,
    /// The statistics of non-empty outputs of other types, counted as those in `floats`.
    others: Shares,
    steps: usize,
    products: usize,
    /// The number of steps that run in bands.
    banded_steps: usize,
    /// The number of products that run in bands.
    banded_products: usize,
    /// The number of arrays of which only one piece of a band exists at a time.
    scratch_arrays: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Shares {
    outputs: usize,
    open: f64,
    exact: f64,
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        let both = |a: Shares, b: Shares| Shares {
            outputs: a.outputs + b.outputs,
            open: a.open + b.open,
            exact: a.exact + b.exact,
        };
        tallies.fold(Self::default(), |a, b| Self {
            elements: a.elements + b.elements,
            floats: both(a.floats, b.floats),
            others: both(a.others, b.others),
            steps: a.steps + b.steps,
            products: a.products + b.products,
            banded_steps: a.banded_steps + b.banded_steps,
            banded_products: a.banded_products + b.banded_products,
            scratch_arrays: a.scratch_arrays + b.scratch_arrays,
        })
    }
}

impl Tally {
    fn count(&mut self, array: &Array) {
        let Some(first) = array.first() else {
            return;
        };
        let share = |is: fn(f64) -> bool| {
            let n = array.iter().filter(|element| is(element.error)).count();
            n as f64 / array.len() as f64
        };
        let shares = if first.value.dtype().is_float() {
            &mut self.floats
        } else {
            &mut self.others
        };
        shares.outputs += 1;
        shares.open += share(f64::is_infinite);
        shares.exact += share(|error| error == 0.0);
        self.elements += array.len();
    }

    /// Checks that the share of open elements is not too large and the share of exact floats not
    /// too small, because otherwise too little was compared. If subnormal numbers may be flushed to
    /// zero, an additional twentieth may be open.
    ///
    /// # Errors
    /// A share out of its limits, or no outputs of floats or of other types; the text contains the
    /// shares.
    pub fn check_compared(&self, accuracy: Accuracy) -> Result<(), String> {
        let more = if accuracy.keeps_subnormals { 0.0 } else { 0.05 };
        let of = |share: f64, shares: &Shares| share / shares.outputs as f64;
        let open = [self.floats, self.others].map(|shares| of(shares.open, &shares));
        let exact = of(self.floats.exact, &self.floats);
        // Without outputs, a share is NaN, which fails each comparison.
        if open[0] < 0.15 + more && open[1] < 0.2 + more && exact > 0.4 - more {
            return Ok(());
        }
        Err(format!(
            "open: {open:.3?}, exact floats: {exact:.3}; {self:?}"
        ))
    }

    /// Panics if too little was compared; see [`check_compared`](Self::check_compared).
    ///
    /// # Panics
    /// If a share is out of its limits; the message contains the shares.
    pub fn assert_compared(&self, accuracy: Accuracy) {
        if let Err(shares) = self.check_compared(accuracy) {
            panic!("{shares}");
        }
    }
}

/// Generates programs, small ones and a few that are large in one place, runs them on an executor
/// and compares the results with the oracle.
///
/// # Errors
/// A report of the first program with a wrong result, shrunk as far as the result stays wrong.
pub fn compare_on(executor: &dyn Executor, n_programs: u32, seed: u64) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mut check = |program: RandomProgram| {
        let tensors = program.tensors();
        let expected = expected(&tensors, executor.accuracy(), &mut tally);
        let on = On {
            executor,
            comparison: within_bounds,
        };
        on.check(
            &tensors,
            &expected,
            &program.target,
            &mut tally,
            &mut |_| (),
        )
    };
    let failed = |failure: Failure| failure.report;
    search(&programs(), n_programs, seed, MAX_SHRINK_ITERS, &mut check).map_err(failed)?;
    for (one_in, family) in large::families() {
        search(
            &family,
            n_programs / one_in,
            seed,
            MAX_SHRINK_ITERS,
            &mut check,
        )
        .map_err(failed)?;
    }
    Ok(tally)
}

/// Runs a program on an executor and compares its results with the oracle, within the oracle's
/// error bounds. `limits` is the target of a second plan, lowered to the executor's limits.
///
/// The oracle computes every tensor that the program depends on, so all of them should be small.
///
/// # Errors
/// A report of the first wrong result, or an error of the executor.
///
/// # Panics
/// If a tensor is an error node or is not in the host's memory.
pub fn check_program(
    executor: &dyn Executor,
    program: &[Tensor],
    limits: &Target,
) -> Result<(), String> {
    check_one(executor, program, limits, within_bounds)
}

/// Runs a program on [`Reference`] and compares its results with the oracle, bit by bit.
///
/// # Errors
/// As [`check_program`].
///
/// # Panics
/// As [`check_program`].
pub fn check_reference(program: &[Tensor], limits: &Target) -> Result<(), String> {
    check_one(&Reference, program, limits, same_bits)
}

fn check_one(
    executor: &dyn Executor,
    program: &[Tensor],
    limits: &Target,
    comparison: Comparison,
) -> Result<(), String> {
    let mut tally = Tally::default();
    let expected = expected(program, executor.accuracy(), &mut tally);
    let on = On {
        executor,
        comparison,
    };
    on.check(program, &expected, limits, &mut tally, &mut |_| ())
}

/// Plans small random programs for a target, to inspect what an executor makes of the plans.
///
/// # Errors
/// An error of a program's plan, or of the generator.
pub fn plans(target: &Target, n_programs: u32, seed: u64) -> Result<Vec<Plan>, String> {
    let plan = |program: Result<RandomProgram, String>| {
        let tensors = program?.tensors();
        let asked: Vec<&Tensor> = tensors.iter().collect();
        let planned = Plan::new(&asked, target).map_err(|error| error.to_string());
        planned.map(|(plan, _)| plan)
    };
    small_programs(n_programs, seed).map(plan).collect()
}

/// Generates small random programs that depend on the seed only.
fn small_programs(
    n_programs: u32,
    seed: u64,
) -> impl Iterator<Item = Result<RandomProgram, String>> {
    let mut runner = runner(Config::default(), seed);
    let programs = programs();
    (0..n_programs).map(move |_| {
        let tree = programs.new_tree(&mut runner);
        let tree = tree.map_err(|why| format!("the generator gave up: {why}"))?;
        Ok(tree.current())
    })
}

/// Generates small random programs, runs them without blocking the thread, and compares the results
/// with the oracle. Use it in a browser, whose main thread must not block.
///
/// # Errors
/// A report of the first program with a wrong result; programs are not shrunk.
pub async fn compare_on_async(
    executor: &dyn Executor,
    n_programs: u32,
    seed: u64,
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for (number, program) in small_programs(n_programs, seed).enumerate() {
        let failed = |what: String| format!("PROGRAM_SEED={seed}, number {number}: {what}");
        let program = program.map_err(failed)?;
        let tensors = program.tensors();
        let expected = expected(&tensors, executor.accuracy(), &mut tally);
        let asked: Vec<&Tensor> = tensors.iter().collect();
        let (plan, data) =
            Plan::new(&asked, &executor.target()).map_err(|error| failed(error.to_string()))?;
        tally.steps += plan.steps.len();
        let of_plan = |what: String| failed(format!("{what}\n{}", plan.explain()));
        let arrays = exec::run(executor, &plan, &data).await;
        let arrays = arrays.map_err(|error| of_plan(error.to_string()))?;
        for (array, expected) in arrays.into_iter().zip(&expected) {
            let actual = array.read().await;
            let actual = actual.map_err(|error| of_plan(error.to_string()))?;
            within_bounds(&actual, expected).map_err(of_plan)?;
        }
    }
    Ok(tally)
}

/// Computes the expected elements of some tensors with the oracle, with error bounds for executors
/// of some accuracy.
fn expected(tensors: &[Tensor], accuracy: Accuracy, tally: &mut Tally) -> Vec<Rc<Array>> {
    let mut oracle = Oracle::new(accuracy);
    let expected: Vec<_> = tensors.iter().map(|tensor| oracle.array(tensor)).collect();
    expected.iter().for_each(|array| tally.count(array));
    expected
}

/// An executor, and the comparison that its results must pass.
struct On<'e> {
    executor: &'e dyn Executor,
    comparison: Comparison,
}

impl On<'_> {
    /// Runs two plans of some tensors and compares the results with `expected`. One plan is for the
    /// executor's own target, the other for the target `limits`, lowered to the executor's limits.
    /// Calls `seen` with each plan.
    fn check(
        &self,
        tensors: &[Tensor],
        expected: &[Rc<Array>],
        limits: &Target,
        tally: &mut Tally,
        seen: &mut dyn FnMut(&Plan),
    ) -> Result<(), String> {
        // The random target never exceeds the limits of the executor.
        let own = self.executor.target();
        for target in [own.clone(), within_limits(limits, &own)] {
            let asked: Vec<&Tensor> = tensors.iter().collect();
            let (plan, data) = Plan::new(&asked, &target).map_err(|error| error.to_string())?;
            let products = plan
                .steps
                .iter()
                .filter(|step| step.nest.contract.is_some());
            tally.steps += plan.steps.len();
            tally.products += products.count();
            for band in plan.bands.iter() {
                tally.banded_steps += band.steps.len();
                let steps = band.steps.iter().map(|&at| &plan.steps[at]);
                let products = steps.filter(|step| step.nest.contract.is_some());
                tally.banded_products += products.count();
                tally.scratch_arrays += band.steps.len() - band.outputs.len();
            }
            seen(&plan);
            let failed = |what: String| {
                let name = self.executor.name();
                let plan = plan.explain();
                format!("{what}; on {name}, planned for {target:?}\n{plan}")
            };
            check_plan(&plan, &target).map_err(failed)?;
            let actual = computed(&plan, &data, self.executor).map_err(failed)?;
            for (actual, expected) in actual.iter().zip(expected) {
                (self.comparison)(actual, expected)
                    .map_err(|what| failed(format!("differs from the oracle: {what}")))?;
            }
            self.check_bands(&plan, &data, &actual).map_err(failed)?;
        }
        Ok(())
    }
}

impl On<'_> {
    /// Runs the steps of a plan one by one, and checks that the results have the same bits as with
    /// bands.
    fn check_bands(
        &self,
        plan: &Plan,
        data: &[Arc<dyn Storage>],
        with_bands: &[HostData],
    ) -> Result<(), String> {
        if plan.bands.is_empty() {
            return Ok(());
        }
        let mut apart = plan.clone();
        apart.bands = Arc::new([]);
        let one_by_one = computed(&apart, data, self.executor)?;
        for (with, without) in with_bands.iter().zip(&one_by_one) {
            verify::same_bits(&verify::scalars(with), &verify::scalars(without))
                .map_err(|what| format!("differs from the steps without bands: {what}"))?;
        }
        Ok(())
    }
}

/// Returns a target with the caps of `target`, lowered to those of the executor where needed.
fn within_limits(target: &Target, own: &Target) -> Target {
    Target {
        max_values: target.max_values.min(own.max_values),
        max_inputs: target.max_inputs.min(own.max_inputs),
        min_product: target.min_product,
        computes_factors: target.computes_factors && own.computes_factors,
        stores_halves: target.stores_halves,
        merges_sums: target.merges_sums && own.merges_sums,
        min_band: own.min_band.and(target.min_band),
    }
}

/// Checks that every step of a plan is valid and stays within the target's caps.
fn check_plan(plan: &Plan, target: &Target) -> Result<(), String> {
    for (number, step) in plan.steps.iter().enumerate() {
        let of = |input: &BufferId| (plan.buffers[input.0].dtype, plan.buffers[input.0].len());
        let inputs: Vec<(DType, usize)> = step.inputs.iter().map(of).collect();
        step.nest
            .check(&inputs)
            .map_err(|what| format!("step {number} is invalid: {what}"))?;
        let (n_values, n_inputs) = (step.nest.values.len(), step.inputs.len());
        let n_after_folds = n_inputs_after_folds(&step.nest);
        if n_values > target.max_values.max(LEAST_VALUES)
            || n_inputs.max(n_after_folds) > target.max_inputs.max(LEAST_INPUTS)
        {
            return Err(format!(
                "step {number} has {n_values} values, {n_inputs} inputs, and {n_after_folds} \
                 arrays after its folds"
            ));
        }
    }
    Ok(())
}

/// Returns the number of arrays that the last part of a divided nest reads.
fn n_inputs_after_folds(nest: &LoopNest) -> usize {
    let (mut inputs, mut n_stored) = (BTreeSet::new(), 0);
    for (value, is_after) in nest.values.iter().zip(nest.epilogue()) {
        match value {
            Value::Load { input, .. } | Value::Gather { input, .. } if is_after => {
                inputs.insert(*input);
            }
            Value::Reduced(..) if is_after => n_stored += 1,
            Value::Scanned(..) if is_after => n_stored += 2,
            _ => {}
        }
    }
    inputs.len() + n_stored
}

/// Runs a plan and returns its outputs. A panic is reported as an error.
fn computed(
    plan: &Plan,
    data: &[Arc<dyn Storage>],
    executor: &dyn Executor,
) -> Result<Vec<HostData>, String> {
    let run = AssertUnwindSafe(|| pollster::block_on(exec::run(executor, plan, data)));
    let storages = match catch_unwind(run) {
        Ok(storages) => storages.map_err(|error| error.to_string())?,
        Err(_) => return Err("the executor panicked".to_owned()),
    };
    let read = |storage: Arc<dyn Storage>| {
        pollster::block_on(storage.read()).map_err(|error| error.to_string())
    };
    storages.into_iter().map(read).collect()
}

type Comparison = fn(&HostData, &Array) -> Result<(), String>;

/// Compares with the oracle bit by bit; all NaN values count as equal.
fn same_bits(actual: &HostData, expected: &Array) -> Result<(), String> {
    let expected: Vec<Scalar> = expected.iter().map(|element| element.value).collect();
    verify::same_bits(&verify::scalars(actual), &expected)
}

/// Compares with the oracle within its error bounds.
fn within_bounds(actual: &HostData, expected: &Array) -> Result<(), String> {
    let errors: Vec<f64> = expected.iter().map(|element| element.error).collect();
    let values: Vec<Scalar> = expected.iter().map(|element| element.value).collect();
    verify::within(
        actual,
        &HostData::from_scalars(actual.dtype(), &values),
        &errors,
    )
}

/// A failed search: the number of programs up to the first failure, and the report.
struct Failure {
    programs: usize,
    report: String,
}

/// Checks `cases` programs. Returns the error and the shrunk program of the first failure.
fn search<P: Debug>(
    strategy: &impl Strategy<Value = P>,
    cases: u32,
    seed: u64,
    max_shrink_iters: u32,
    check: impl FnMut(P) -> Result<(), String>,
) -> Result<(), Failure> {
    let config = Config {
        cases,
        max_shrink_iters,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = runner(config, seed);
    let (check, n_checked, failed_at) = (RefCell::new(check), Cell::new(0), Cell::new(None));
    let outcome = runner.run(strategy, |program| {
        n_checked.update(|n| n + 1);
        check.borrow_mut()(program).map_err(|what| {
            // Shrinking calls the check again; only the first failure counts.
            failed_at.set(failed_at.get().or(Some(n_checked.get())));
            TestCaseError::fail(what)
        })
    });
    let report = match outcome {
        Ok(()) => return Ok(()),
        Err(TestError::Fail(why, program)) => {
            format!("PROGRAM_SEED={seed}: {why}\n{program:#?}")
        }
        Err(TestError::Abort(why)) => format!("PROGRAM_SEED={seed}: gave up: {why}"),
    };
    let programs = failed_at.get().unwrap_or_default();
    Err(Failure { programs, report })
}

fn runner(config: Config, seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// Returns `true` if `VERIFY_FULL=1` is set, for more programs.
#[must_use]
pub fn is_full() -> bool {
    std::env::var_os("VERIFY_FULL").is_some_and(|value| value == "1")
}

/// Returns the seed in `PROGRAM_SEED`, or a seed from the current time.
#[must_use]
pub fn seed() -> u64 {
    let asked = std::env::var("PROGRAM_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    asked.unwrap_or_else(|| {
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        since.as_secs()
    })
}

/// The maximum number of attempts to shrink a failing program.
const MAX_SHRINK_ITERS: u32 = 8_000;
