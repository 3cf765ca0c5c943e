//! Random programs on every executor, against an evaluator that knows no plans.
//!
//! Role: the property test of planner and executors. A fault in either shows as a wrong element, and faults that are
//! planted in the planner on purpose show that this holds.
//! Method: each program is planned for the executor's own target and for one drawn at random (tiny caps, with and
//! without matrix products), run, and compared with `oracle`. The reference executor must give its very bits, however
//! the program was cut; the host executor must stay within the bounds that the oracle carries along. Elements without a
//! bound are left out and counted: they must not become the rule.
//! `PROGRAM_SEED=n` repeats a run; `VERIFY_FULL=1` makes a hundred times as many programs.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::SystemTime;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::compare::{Bound, compare};
use crate::dtype::{DType, HostData, Scalar};
use crate::exec::{self, Executor, Storage, verify};
use crate::plan::fault::{self, Fault};
use crate::plan::{BufferId, Plan, Target};
use crate::tensor::Tensor;
use crate::{Axes, Host, Reference};
use oracle::{Array, Oracle};
use program::programs;

mod apply;
mod inputs;
mod oracle;
mod program;

/// What one operation may need, however low a target's caps are: a choice between three gathers.
const LEAST_VALUES: usize = 4;
const LEAST_INPUTS: usize = 3;

/// What some programs' outputs consisted of.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    outputs: usize,
    elements: usize,
    floats: usize,
    /// Elements that must be met exactly.
    exact: usize,
    /// Elements, and floats among them, of which nothing can be said.
    open: usize,
    open_floats: usize,
    steps: usize,
    products: usize,
}

impl Tally {
    fn count(&mut self, array: &Array) {
        self.outputs += 1;
        self.elements += array.len();
        for element in array {
            let (is_float, is_open) = (
                element.value.dtype().is_float(),
                element.error.is_infinite(),
            );
            self.floats += usize::from(is_float);
            self.exact += usize::from(element.error == 0.0);
            self.open += usize::from(is_open);
            self.open_floats += usize::from(is_open && is_float);
        }
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
    let plain = |scalar: Scalar| {
        if scalar.to_f64().is_nan() {
            f64::NAN
        } else {
            scalar.to_f64()
        }
    };
    let actual: Vec<f64> = scalars(actual).map(plain).collect();
    let expected: Vec<f64> = expected
        .iter()
        .map(|element| plain(element.value))
        .collect();
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

/// Checks so many programs; gives what they consisted of, or what went wrong and the shrunk program.
fn search(cases: u32, seed: u64, max_shrink_iters: u32) -> Result<Tally, String> {
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
    let tally = RefCell::new(Tally::default());
    let outcome = runner.run(&programs(), |program| {
        check(&program.tensors(), &program.target, &mut tally.borrow_mut())
            .map_err(TestCaseError::fail)
    });
    match outcome {
        Ok(()) => Ok(tally.into_inner()),
        Err(TestError::Fail(why, program)) => {
            Err(format!("PROGRAM_SEED={seed}: {why}\n{program:#?}"))
        }
        Err(TestError::Abort(why)) => Err(format!("PROGRAM_SEED={seed}: gave up: {why}")),
    }
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

#[test]
fn random_programs_give_what_their_nodes_say_on_every_executor_and_target() {
    const CASES: u32 = 2_000;
    const CASES_IN_FULL: u32 = 200_000;
    let (cases, seed) = (if is_full() { CASES_IN_FULL } else { CASES }, seed());
    let tally = search(cases, seed, 4 * CASES).unwrap_or_else(|failure| panic!("{failure}"));
    eprintln!("{cases} programs of PROGRAM_SEED={seed}: {tally:?}");
    assert!(
        2 * tally.open_floats < tally.floats,
        "too little was compared: {tally:?}"
    );
    assert!(
        tally.exact > tally.elements / 4,
        "too little was exact: {tally:?}"
    );
    assert!(
        tally.products > 0,
        "no matrix product was planned: {tally:?}"
    );
}

/// The programs within which a fault in the planner must show.
const UNTIL_FOUND: u32 = 200;

#[track_caller]
fn is_found(fault: Fault) {
    let failure =
        fault::planted(fault, || search(UNTIL_FOUND, 1, 0)).expect_err("the fault was not found");
    assert!(failure.contains("differs from the oracle"), "{failure}");
}

#[test]
fn a_view_planned_with_a_wrong_stride_is_found() {
    is_found(Fault::Stride);
}

#[test]
fn a_reduction_planned_without_its_epilogue_is_found() {
    is_found(Fault::Epilogue);
}

#[test]
fn a_difference_planned_with_swapped_operands_is_found() {
    is_found(Fault::Operands);
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
