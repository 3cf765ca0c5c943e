//! Random programs on an executor, against an evaluator that knows no plans.
//!
//! Role: the property test of planner and executors, for whoever writes an executor (feature `random-programs`). A fault in
//! either shows as a wrong element, and faults that are planted in the planner on purpose show that this holds.
//! Method: each program is planned for the executor's own target and for one drawn at random (tiny caps, with and
//! without matrix products), run, and compared with `oracle`. The reference executor must give its very bits, however
//! the program was cut; others must stay within the bounds that the oracle carries along. Elements without a
//! bound are left out and counted: they must not become the rule. Small programs draw any operation; a few that are large
//! in one place reach what executors keep for large arrays. `own` holds this crate's executors to it.
//! `PROGRAM_SEED=n` repeats a run; `VERIFY_FULL=1` makes a hundred times as many programs.
#![cfg_attr(
    not(test),
    expect(dead_code, reason = "the tests of this crate ask for more of it")
)]

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::iter::Sum;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::compare::{Bound, compare};
use crate::dtype::{DType, HostData, Scalar};
use crate::exec::{self, Accuracy, Executor, Storage, verify};
use crate::plan::{BufferId, Plan, Target};
use crate::tensor::Tensor;
use oracle::{Array, Oracle};
use program::{Program, programs};

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

/// What one operation may need, however low a target's caps are: a choice between three gathers.
const LEAST_VALUES: usize = 4;
const LEAST_INPUTS: usize = 3;

/// What some programs' outputs consisted of.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    elements: usize,
    /// The outputs of floats and of other types that are not empty, and the shares of their elements that are open
    /// (of which nothing can be said) and exact, all outputs added: a large one counts as much as a small one.
    floats: Shares,
    others: Shares,
    steps: usize,
    products: usize,
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

    /// Fails if too much of the outputs is open, or too little of the floats exact: then little was
    /// compared. Where subnormal numbers may be flushed to zero, a twentieth more may be open.
    ///
    /// # Panics
    /// With the shares.
    pub fn assert_compared(&self, accuracy: Accuracy) {
        let more = if accuracy.keeps_subnormals { 0.0 } else { 0.05 };
        let of = |share: f64, shares: &Shares| share / shares.outputs as f64;
        let open = [self.floats, self.others].map(|shares| of(shares.open, &shares));
        let exact = of(self.floats.exact, &self.floats);
        assert!(
            open[0] < 0.15 + more && open[1] < 0.2 + more && exact > 0.4 - more,
            "open: {open:.3?}, exact floats: {exact:.3}; {self:?}"
        );
    }
}

/// Makes programs, small ones and a few that are large in one place, runs them on an executor, and compares what they give.
///
/// # Errors
/// A report of the first program that gives something else, shrunk as far as it still does.
pub fn compare_on(executor: &dyn Executor, n_programs: u32, seed: u64) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mut check = |program: Program| {
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

/// What some tensors are for an executor of some accuracy, by the oracle.
fn expected(tensors: &[Tensor], accuracy: Accuracy, tally: &mut Tally) -> Vec<Rc<Array>> {
    let mut oracle = Oracle::of(accuracy);
    let expected: Vec<_> = tensors.iter().map(|tensor| oracle.array(tensor)).collect();
    expected.iter().for_each(|array| tally.count(array));
    expected
}

/// An executor, and how near to the oracle it must come.
struct On<'e> {
    executor: &'e dyn Executor,
    comparison: Comparison,
}

impl On<'_> {
    /// Compares some tensors, planned for the executor's own target and within the limits of another.
    fn check(
        &self,
        tensors: &[Tensor],
        expected: &[Rc<Array>],
        limits: &Target,
        tally: &mut Tally,
        seen: &mut dyn FnMut(&Plan),
    ) -> Result<(), String> {
        let own = self.executor.target();
        for target in [own.clone(), within_limits(limits, &own)] {
            let asked: Vec<&Tensor> = tensors.iter().collect();
            let (plan, data) = Plan::of(&asked, &target).map_err(|error| error.to_string())?;
            let products = plan
                .steps
                .iter()
                .filter(|step| step.nest.contract.is_some());
            tally.steps += plan.steps.len();
            tally.products += products.count();
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
        }
        Ok(())
    }
}

/// A target that asks no more of an executor than its own does.
fn within_limits(target: &Target, own: &Target) -> Target {
    Target {
        max_values: target.max_values.min(own.max_values),
        max_inputs: target.max_inputs.min(own.max_inputs),
        min_product: target.min_product,
        computes_factors: target.computes_factors && own.computes_factors,
    }
}

/// Every step must be valid, and keep to the target's caps.
fn check_plan(plan: &Plan, target: &Target) -> Result<(), String> {
    for (number, step) in plan.steps.iter().enumerate() {
        let of = |input: &BufferId| (plan.buffers[input.0].dtype, plan.buffers[input.0].len());
        let inputs: Vec<(DType, usize)> = step.inputs.iter().map(of).collect();
        step.nest
            .check(&inputs)
            .map_err(|what| format!("step {number} is invalid: {what}"))?;
        let (n_values, n_inputs) = (step.nest.values.len(), step.inputs.len());
        if n_values > target.max_values.max(LEAST_VALUES)
            || n_inputs > target.max_inputs.max(LEAST_INPUTS)
        {
            return Err(format!(
                "step {number} has {n_values} values and {n_inputs} inputs"
            ));
        }
    }
    Ok(())
}

/// What a plan gives; a panic on the way is a failure like others.
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

/// Every bit must be that of the oracle, but one NaN is as good as another.
fn same_bits(actual: &HostData, expected: &Array) -> Result<(), String> {
    same_scalars(
        scalars(actual),
        expected.iter().map(|element| element.value),
    )
}

fn same_scalars(
    actual: impl Iterator<Item = Scalar>,
    expected: impl Iterator<Item = Scalar>,
) -> Result<(), String> {
    let plain = |scalar: Scalar| {
        if scalar.to_f64().is_nan() {
            f64::NAN
        } else {
            scalar.to_f64()
        }
    };
    let (actual, expected): (Vec<f64>, Vec<f64>) =
        (actual.map(plain).collect(), expected.map(plain).collect());
    let compared = compare(&actual, &expected, &Bound::bits().allow_empty());
    compared.map(drop).map_err(|mismatch| mismatch.to_string())
}

fn within_bounds(actual: &HostData, expected: &Array) -> Result<(), String> {
    let errors: Vec<f64> = expected.iter().map(|element| element.error).collect();
    let values: Vec<Scalar> = expected.iter().map(|element| element.value).collect();
    verify::within(
        actual,
        &HostData::from_scalars(actual.dtype(), &values),
        &errors,
    )
}

fn scalars(data: &HostData) -> impl Iterator<Item = Scalar> {
    (0..data.len()).filter_map(|at| data.get(at))
}

/// What was wrong with a program, and how many were checked up to it.
struct Failure {
    programs: usize,
    report: String,
}

/// Checks so many programs; gives what went wrong and the shrunk program.
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
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let (check, n_checked, failed_at) = (RefCell::new(check), Cell::new(0), Cell::new(None));
    let outcome = runner.run(strategy, |program| {
        n_checked.update(|n| n + 1);
        check.borrow_mut()(program).map_err(|what| {
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

/// Whether `VERIFY_FULL=1` asks for many programs.
#[must_use]
pub fn is_full() -> bool {
    std::env::var_os("VERIFY_FULL").is_some_and(|value| value == "1")
}

/// The seed that `PROGRAM_SEED` asks for, or another one each time.
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

const MAX_SHRINK_ITERS: u32 = 8_000;
