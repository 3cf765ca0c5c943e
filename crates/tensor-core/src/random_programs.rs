//! Random programs on every executor, against an evaluator that knows no plans.
//!
//! Role: the property test of planner and executors. A fault in either shows as a wrong element, and faults that are
//! planted in the planner on purpose show that this holds.
//! Method: each program is planned for the executor's own target and for one drawn at random (tiny caps, with and
//! without matrix products), run, and compared with `oracle`. The reference executor must give its very bits, however
//! the program was cut; the host executor must stay within the bounds that the oracle carries along. Elements without a
//! bound are left out and counted: they must not become the rule. Small programs draw any operation; a few that are large
//! in one place reach what executors keep for large arrays, and the nests of their plans are counted by shape (`coverage`).
//! `PROGRAM_SEED=n` repeats a run; `VERIFY_FULL=1` makes a hundred times as many programs.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::SystemTime;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::compare::{Bound, compare};
use crate::dtype::{DType, HostData, Scalar};
use crate::exec::{self, Executor, Storage, verify};
use crate::fault::{self, Fault};
use crate::plan::{BufferId, Plan, Target};
use crate::tensor::Tensor;
use crate::{Axes, Host, Reference};
use coverage::Coverage;
use oracle::{Array, Oracle};
use program::{Program, programs};

mod apply;
mod coverage;
mod eager;
mod gradients;
mod inputs;
mod large;
mod oracle;
mod program;

/// What one operation may need, however low a target's caps are: a choice between three gathers.
const LEAST_VALUES: usize = 4;
const LEAST_INPUTS: usize = 3;

/// What some programs' outputs consisted of.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    elements: usize,
    /// The outputs of floats and of other types that are not empty, and the shares of their elements that are open
    /// (of which nothing can be said) and exact, all outputs added: a large one counts as much as a small one.
    floats: Shares,
    others: Shares,
    steps: usize,
    products: usize,
    /// What the host executor ran.
    coverage: Coverage,
}

#[derive(Debug, Clone, Copy, Default)]
struct Shares {
    outputs: usize,
    open: f64,
    exact: f64,
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

    /// Fails if too much of the outputs is open, or too little of the floats exact.
    fn assert_compared(&self) {
        let of = |share: f64, shares: &Shares| share / shares.outputs as f64;
        let open = [self.floats, self.others].map(|shares| of(shares.open, &shares));
        let exact = of(self.floats.exact, &self.floats);
        assert!(
            open[0] < 0.15 && open[1] < 0.2 && exact > 0.4,
            "open: {open:.3?}, exact floats: {exact:.3}; {self:?}"
        );
    }
}

/// Compares some tensors on both executors, each planning for its own target and within the limits of another.
fn check(tensors: &[Tensor], limits: &Target, tally: &mut Tally) -> Result<(), String> {
    let mut oracle = Oracle::default();
    let expected: Vec<_> = tensors.iter().map(|tensor| oracle.array(tensor)).collect();
    expected.iter().for_each(|array| tally.count(array));
    let (host, reference) = (Host::new(), Reference);
    let executors: [(&dyn Executor, Comparison); 2] =
        [(&reference, same_bits), (&host, within_bounds)];
    for (executor, comparison) in executors {
        for target in [executor.target(), within_limits(limits, &executor.target())] {
            let asked: Vec<&Tensor> = tensors.iter().collect();
            let (plan, data) = Plan::of(&asked, &target).map_err(|error| error.to_string())?;
            tally.steps += plan.steps.len();
            tally.products += plan
                .steps
                .iter()
                .filter(|step| step.nest.contract.is_some())
                .count();
            let name = executor.name();
            if name == host.name() {
                plan.steps
                    .iter()
                    .for_each(|step| tally.coverage.count(&step.nest));
            }
            let failed = |what: String| {
                format!(
                    "{what}; on {name}, planned for {target:?}\n{}",
                    plan.explain()
                )
            };
            check_plan(&plan, &target).map_err(failed)?;
            for (actual, expected) in computed(&plan, &data, executor)
                .map_err(failed)?
                .iter()
                .zip(&expected)
            {
                comparison(actual, expected)
                    .map_err(|what| failed(format!("differs from the oracle: {what}")))?;
            }
        }
    }
    Ok(())
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

fn is_full() -> bool {
    std::env::var_os("VERIFY_FULL").is_some_and(|value| value == "1")
}

/// The seed asked for, or another one each time.
fn seed() -> u64 {
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

const CASES: u32 = 2_000;
const CASES_IN_FULL: u32 = 200_000;
const MAX_SHRINK_ITERS: u32 = 8_000;

/// Checks programs as [`search`], and fails with its report.
fn check_all<P: Debug>(
    strategy: &impl Strategy<Value = P>,
    cases: u32,
    seed: u64,
    check: impl FnMut(P) -> Result<(), String>,
) {
    if let Err(failure) = search(strategy, cases, seed, MAX_SHRINK_ITERS, check) {
        panic!("{}", failure.report);
    }
}

/// Compares what programs give on every executor, and counts it.
fn outputs(tally: &mut Tally) -> impl FnMut(Program) -> Result<(), String> {
    |program| check(&program.tensors(), &program.target, tally)
}

#[test]
fn random_programs_give_what_their_nodes_say_on_every_executor_and_target() {
    let (cases, seed) = (if is_full() { CASES_IN_FULL } else { CASES }, seed());
    let mut tally = Tally::default();
    check_all(&programs(), cases, seed, outputs(&mut tally));
    eprintln!("PROGRAM_SEED={seed}: {tally:?}");
    let enough = |n: usize, least: usize| n >= least * cases as usize / CASES as usize;
    tally.assert_compared();
    assert!(
        enough(tally.products, 50) && enough(tally.steps, 25_000),
        "too little was planned: {tally:?}"
    );
}

#[test]
fn programs_that_are_large_in_one_place_reach_the_loops_kept_for_them() {
    let (cases, seed) = (if is_full() { CASES_IN_FULL } else { CASES }, seed());
    let mut tally = Tally::default();
    for (one_in, family) in large::families() {
        check_all(&family, cases / one_in, seed, outputs(&mut tally));
    }
    eprintln!("PROGRAM_SEED={seed}: {tally:?}");
    tally.assert_compared();
    for (kind, n, least) in tally.coverage.kinds() {
        let least = least * cases as usize / CASES as usize;
        assert!(n >= least, "{n} {kind} instead of {least}: {tally:?}");
    }
}

/// The programs within which a fault in the planner must show.
const UNTIL_FOUND: u32 = 200;

#[track_caller]
fn is_found(fault: Fault) {
    let mut tally = Tally::default();
    let found = fault::planted(fault, || {
        search(&programs(), UNTIL_FOUND, 1, 0, outputs(&mut tally))
    });
    let Err(Failure { programs, report }) = found else {
        panic!("{fault:?} was not found in {UNTIL_FOUND} programs");
    };
    eprintln!("{fault:?} was found by program {programs}");
    assert!(report.contains("differs from the oracle"), "{report}");
}

#[test]
fn a_view_planned_with_a_wrong_stride_is_found() {
    is_found(Fault::PlannedStride);
}

#[test]
fn a_reduction_planned_without_its_epilogue_is_found() {
    is_found(Fault::PlannedEpilogue);
}

#[test]
fn a_difference_planned_with_swapped_operands_is_found() {
    is_found(Fault::PlannedOperands);
}

/// Checks a program that was once wrong.
#[track_caller]
fn is_right(tensors: &[Tensor], limits: &Target) {
    if let Err(what) = check(tensors, limits, &mut Tally::default()) {
        panic!("{what}");
    }
}

const SMALL_PRODUCTS: Target = Target {
    max_values: 64,
    max_inputs: 3,
    min_product: Some(1),
    computes_factors: false,
};

#[test]
fn a_value_that_is_folded_and_read_by_another_fold_is_kept_for_it() {
    let x = Tensor::from_vec(&[2, 2], vec![1.0_f32, 2.0, 3.0, 4.0]);
    let low = x.lt(2.5);
    let most = low.cast(DType::F32).max(0);
    is_right(&[low.count(0) + most.cast(DType::U32)], &SMALL_PRODUCTS);
}

#[test]
fn what_stands_beside_a_reduction_of_nothing_is_still_read() {
    let empty = Tensor::from_vec(&[0, 2, 0, 1], Vec::<f32>::new());
    let beside = Tensor::from_vec(&[1], vec![-1.0_f32]);
    let sums = (-empty).sum(Axes::keep([0, 2, 3]));
    is_right(&[sums + beside], &SMALL_PRODUCTS);
}

#[test]
fn a_product_whose_factors_would_need_too_many_inputs_is_left_to_loops() {
    let [a, b, c] = [1.0_f32, 2.0, 3.0].map(|value| Tensor::from_vec(&[2, 2], vec![value; 4]));
    let product = a.exp().matmul(&b.exp());
    is_right(&[product + a.floor() + c.floor()], &SMALL_PRODUCTS);
}

#[test]
fn a_batch_of_products_of_integers_reads_the_columns_of_each_batch() {
    let rows = (Tensor::arange(8) + 1).reshape(&[2, 2, 2]);
    let columns = (Tensor::arange(2 * 2 * 100) + 1).reshape(&[2, 2, 100]);
    is_right(&[rows.matmul(&columns)], &SMALL_PRODUCTS);
}
