//! The planner's choices: which results are stored and which are computed again, and which guards
//! remain.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::exec::{self, Executor};
use tensor_core::ir::{Guard, Value};
use tensor_core::op::{Binary, Unary};
use tensor_core::plan::{Plan, Step, Target};
use tensor_core::{DType, Host, HostData, Reference, Scalar, SortAxis, Tensor, einsum, grad};

fn planned(tensors: &[&Tensor]) -> Plan {
    Plan::new(tensors, &Host::new().target()).unwrap().0
}

/// Returns integers below 23, which are so small that the results of the stencils in these tests
/// are exact.
fn numbers(shape: &[usize]) -> Tensor {
    let len: usize = shape.iter().product();
    let data = (0..len).map(|at| f32::from(u8::try_from(at * 7 % 23).unwrap()));
    Tensor::from_vec(shape, data.collect())
}

#[test]
fn values_that_are_equal_after_axes_are_merged_are_computed_once() {
    let sum = numbers(&[1, 6]).sum(1);
    // The two operands differ by axes of size 1 only, which loops do not have.
    let plan = planned(&[&(sum.expand_dims(0) - sum.expand_dims(1))]);
    assert_eq!(plan.steps.len(), 1, "{}", plan.explain());
    let is_load = |value: &&Value| matches!(value, Value::Load { .. });
    let is_sum = |value: &&Value| matches!(value, Value::Reduced(..));
    let n = [
        values(&plan).filter(is_load).count(),
        values(&plan).filter(is_sum).count(),
    ];
    assert_eq!(n, [1, 1], "{}", plan.explain());
}

/// Returns the operations of a plan, in additions.
fn operations(plan: &Plan) -> f64 {
    plan.steps.iter().map(|step| step.nest.operations()).sum()
}

fn values(plan: &Plan) -> impl Iterator<Item = &Value> {
    plan.steps.iter().flat_map(|step| &step.nest.values)
}

fn guards_of(value: &Value) -> &[Guard] {
    match value {
        Value::Load { guards, .. } | Value::Gather { guards, .. } | Value::Inside(guards) => guards,
        _ => &[],
    }
}

fn guards(plan: &Plan) -> Vec<&Guard> {
    values(plan).flat_map(guards_of).collect()
}

#[track_caller]
fn is_same_on_both_executors(tensor: &Tensor) {
    let [host, reference] = [&Host::new() as &dyn Executor, &Reference]
        .map(|executor| tensor.eval::<f32>(executor).unwrap());
    let (host, reference) = (host.as_slice().unwrap(), reference.as_slice().unwrap());
    assert_close(host, reference, Tolerance::bits());
}

/// Returns an expensive value in several steps; the tests check which of them are stored.
fn chain(x: &Tensor) -> Tensor {
    (x.exp() * 2.0 + 1.0).sigmoid()
}

#[track_caller]
fn one_step_has_the_whole_chain(plan: &Plan) {
    let has = |step: &&Step, op: Unary| {
        let is_it = |value: &Value| matches!(value, Value::Unary(own, _) if *own == op);
        step.nest.values.iter().any(is_it)
    };
    let with = |op: Unary| {
        let steps: Vec<&Step> = plan.steps.iter().filter(|step| has(step, op)).collect();
        steps
    };
    assert_eq!(with(Unary::Exp).len(), 1, "{}", plan.explain());
    assert_eq!(with(Unary::Exp), with(Unary::Sigmoid), "{}", plan.explain());
}

#[test]
fn of_an_expensive_chain_that_pairs_read_only_the_outermost_link_is_kept() {
    let x = numbers(&[300]);
    let near = chain(&x).expand_dims(0) - x.expand_dims(1);
    let plan = planned(&[&near.abs().lt(1.0).sum(0)]);
    one_step_has_the_whole_chain(&plan);
    assert_eq!(plan.steps.len(), 2, "{}", plan.explain());
}

#[test]
fn of_an_expensive_chain_that_many_steps_read_only_the_outermost_link_is_kept() {
    let y = chain(&numbers(&[30, 40]));
    let sums: Vec<Tensor> = (1_u8..=8)
        .map(|times| (&y * f32::from(times)).sum(0))
        .collect();
    let plan = planned(&sums.iter().collect::<Vec<_>>());
    one_step_has_the_whole_chain(&plan);
    assert_eq!(plan.steps.len(), 1 + sums.len(), "{}", plan.explain());
}

#[test]
fn padding_that_a_slice_takes_off_leaves_nothing_behind() {
    let x = numbers(&[6, 5]);
    for fill in [0.0, 7.0] {
        let padded = x.pad(0, 2, 3, fill).pad(1, 1, 1, fill);
        let plan = planned(&[&(padded.slice(0, 2..8).slice(1, 1..6) + 1.0)]);
        assert_eq!(values(&plan).count(), 3, "{}", plan.explain());
        assert!(guards(&plan).is_empty(), "{}", plan.explain());
        let outside = padded.slice(0, ..2) + 1.0;
        let plan = planned(&[&outside]);
        assert!(
            matches!(plan.steps[0].nest.values[..], [Value::Const(_)]),
            "{}",
            plan.explain()
        );
        is_same_on_both_executors(&outside);
    }
}

#[test]
fn padding_again_and_again_leaves_one_guard_a_direction() {
    let x = numbers(&[50]);
    let mut y = x.clone();
    for _ in 0..5 {
        y = y.pad(0, 1, 1, 0.0).slice(0, 2..);
        y = y.pad(0, 1, 1, 0.0).flip(0);
    }
    let plan = planned(&[&(&y + 1.0)]);
    assert_eq!(guards(&plan).len(), 1, "{}", plan.explain());
    is_same_on_both_executors(&(y + 1.0));
}

#[test]
fn a_view_that_sees_nothing_of_a_reduction_reduces_nothing() {
    let x = numbers(&[6, 7]);
    let first = Tensor::full(&[2], true).pad(0, 0, 4, false);
    let chosen = first.select(x.sum(1), x.slice(1, 3..4).squeeze(1));
    let rest = chosen.slice(0, 2..) * 2.0;
    let plan = planned(&[&rest]);
    assert!(plan.steps[0].nest.reduce.is_empty(), "{}", plan.explain());
    is_same_on_both_executors(&rest);
    is_same_on_both_executors(&chosen);
}

/// Returns the mean of the four neighbours of each inner point.
fn relaxed_inside(x: &Tensor) -> Tensor {
    let inner = |axis| x.slice(axis, 1..).slice(axis, ..-1);
    let (rows, cols) = (inner(1), inner(0));
    (rows.slice(0, ..-2) + rows.slice(0, 2..) + cols.slice(1, ..-2) + cols.slice(1, 2..)) * 0.25
}

/// Returns the mean of the four neighbours of each point, with 0 outside the border.
fn relaxed(x: &Tensor) -> Tensor {
    relaxed_inside(&x.pad(0, 1, 1, 0.0).pad(1, 1, 1, 0.0))
}

#[test]
fn each_round_of_a_repeated_stencil_is_kept_for_the_next() {
    const ROUNDS: u8 = 8;
    let x = numbers(&[100, 120]);
    for round in [relaxed, relaxed_inside] {
        let once = operations(&planned(&[&round(&x)]));
        let mut y = x.clone();
        for _ in 0..ROUNDS {
            y = round(&y);
        }
        let plan = planned(&[&y]);
        let all = once * f64::from(ROUNDS);
        assert!(operations(&plan) <= all, "{}", plan.explain());
        assert_eq!(plan.steps.len(), usize::from(ROUNDS), "{}", plan.explain());
        // The repeated division by 4 stays exact for eight rounds.
        is_same_on_both_executors(&y);
    }
}

#[test]
fn narrow_stencils_are_computed_again_a_few_times_at_most() {
    const ROUNDS: u8 = 30;
    /// The limit of the operations, relative to computing each round once. Two rounds fused in one
    /// step compute the inner round at three positions for each element, so they cost as much as
    /// four rounds: a factor of 2. The rest is for the zeros outside the border.
    const MOST: f64 = 3.0;
    let x = numbers(&[5000]);
    let smooth = |x: &Tensor| {
        let padded = x.pad(0, 1, 1, 0.0);
        (padded.slice(0, ..-2) + x + padded.slice(0, 2..)) * 0.5
    };
    let once = operations(&planned(&[&smooth(&x)]));
    let mut y = x.clone();
    for _ in 0..ROUNDS {
        y = smooth(&y);
    }
    let plan = planned(&[&y]);
    let all = once * f64::from(ROUNDS);
    assert!(operations(&plan) <= MOST * all, "{}", plan.explain());
}

#[test]
fn a_few_elements_of_a_stencil_do_not_ask_for_all_of_the_one_before() {
    let x = numbers(&[400, 500]);
    let corner = relaxed(&relaxed(&x)).slice(0, ..2).slice(1, ..3);
    let plan = planned(&[&corner]);
    assert_eq!(plan.steps.len(), 1, "{}", plan.explain());
    is_same_on_both_executors(&corner);
}

#[test]
fn what_is_cheap_to_compute_again_stays_fused() {
    let x = numbers(&[64, 200]);
    let mut long = x.clone();
    for _ in 0..10 {
        long = (&long * 0.5 + 1.0).abs();
    }
    let cases = [
        ("chain", long, 1),
        ("softmax", x.softmax(1), 3),
        ("window", x.window(1, 5, 1).mean(-1), 1),
        ("one stencil", relaxed(&x), 1),
        ("shifted differences", x.slice(1, 1..) - x.slice(1, ..-1), 1),
        ("halves", x.exp().slice(0, ..32) + x.exp().slice(0, 32..), 1),
    ];
    for (name, tensor, n_steps) in &cases {
        let plan = planned(&[tensor]);
        assert_eq!(plan.steps.len(), *n_steps, "{name}: {}", plan.explain());
    }
}

#[test]
fn cheap_factors_are_left_to_a_target_that_computes_them() {
    let target = Target {
        computes_factors: true,
        ..Host::new().target()
    };
    let weights = (numbers(&[200, 300]) - numbers(&[300])) * numbers(&[300]);
    let product = numbers(&[100, 200]).matmul(&weights);
    let (plan, _) = Plan::new(&[&product], &target).unwrap();
    assert_eq!(plan.steps.len(), 1, "{}", plan.explain());
    assert!(plan.steps[0].nest.contract.is_some(), "{}", plan.explain());
}

#[test]
fn halves_are_stored_as_halves_on_request() {
    let target = |stores_halves| Target {
        stores_halves,
        ..Reference.target()
    };
    let half = |x: Tensor| x.cast(DType::F16).cast(DType::F32);
    let layer = half(numbers(&[40, 50]).matmul(&numbers(&[50, 60])));
    let flags = numbers(&[40, 50]).matmul(&numbers(&[50, 60])).gt(0.0);
    for (program, stored, narrow) in [
        (layer.matmul(&numbers(&[60, 70])), DType::F32, DType::F16),
        (
            half(numbers(&[40, 60]).cumsum(1)).matmul(&numbers(&[60, 70])),
            DType::F32,
            DType::F16,
        ),
        // Only halves are stored in their own type, and an output has the type of its tensor.
        (
            flags.cast(DType::F32).matmul(&numbers(&[60, 70])),
            DType::F32,
            DType::F32,
        ),
    ] {
        for (stores_halves, expected) in [(false, stored), (true, narrow)] {
            let (plan, data) = Plan::new(&[&program], &target(stores_halves)).unwrap();
            let first = plan.buffers[plan.steps[0].output.0].dtype;
            assert_eq!(first, expected, "{}", plan.explain());
            let result = pollster::block_on(exec::run(&Reference, &plan, &data)).unwrap();
            let HostData::F32(actual) = pollster::block_on(result[0].clone().read()).unwrap()
            else {
                panic!("the program returns f32");
            };
            let expected = program.eval::<f32>(&Reference).unwrap();
            assert_close(actual, expected.flatten(), Tolerance::bits());
        }
    }
    let (plan, _) =
        Plan::new(&[&layer, &layer.matmul(&numbers(&[60, 70]))], &target(true)).unwrap();
    assert_eq!(plan.buffers[plan.outputs[0].0].dtype, DType::F32);
    // An output that is a view of a scan needs no step that converts the scan.
    let view = half(numbers(&[40, 60]).cumsum(1)).reshape(&[2400]);
    let (plan, _) = Plan::new(&[&view], &target(true)).unwrap();
    assert_eq!(plan.steps.len(), 1, "{}", plan.explain());
}

#[test]
fn a_thousand_pieces_are_joined_in_a_few_choices_each() {
    /// The limit of the operations per element: joining 1000 pieces in groups of eight takes four
    /// rounds, each with a selection and a comparison for each of the eight pieces.
    const MOST: f64 = 4.0 * 2.0 * 8.0;
    let pieces: Vec<Tensor> = (0_u16..1000)
        .map(|at| Tensor::from_vec(&[10, 10], vec![f32::from(at); 100]))
        .collect();
    let pieces: Vec<&Tensor> = pieces.iter().collect();
    let joined = [
        Tensor::concat(&pieces, 0),
        Tensor::concat(&pieces, 1),
        Tensor::stack(&pieces, 0),
        Tensor::stack(&pieces, -1),
    ];
    for tensor in joined {
        let plan = planned(&[&tensor]);
        assert!(operations(&plan) < MOST * 1e5, "{}", operations(&plan));
        is_same_on_both_executors(&tensor);
    }
}

#[test]
fn joined_pieces_stand_in_their_order_whatever_their_number() {
    for n_pieces in [1_u16, 2, 7, 8, 9, 63, 64, 65, 200] {
        let lines: Vec<Vec<f32>> = (0..n_pieces)
            .map(|at| vec![f32::from(at); usize::from(at % 4)])
            .collect();
        let tensors: Vec<Tensor> = lines
            .iter()
            .map(|line| Tensor::from_vec(&[line.len()], line.clone()))
            .collect();
        let joined = Tensor::concat(&tensors.iter().collect::<Vec<_>>(), 0);
        let actual = joined.eval::<f32>(&Host::new()).unwrap();
        let bound = Tolerance::bits().allow_empty();
        assert_close(actual.as_slice().unwrap(), lines.concat(), bound);
        if (2..=8).contains(&n_pieces) {
            assert_eq!(planned(&[&joined]).steps.len(), 1);
        }
    }
}

#[test]
fn a_square_by_pow_is_a_product_where_that_gives_the_same_bits() {
    let has_pow = |tensor: &Tensor| {
        let plan = planned(&[tensor]);
        values(&plan).any(|value| matches!(value, Value::Binary(Binary::Pow, ..)))
    };
    let special = [0.0, -0.0, 1.5, -3.0, 1e-30, 3e38, f32::INFINITY, f32::NAN];
    let odd = (1_u32..2000).map(|at| f32::from_bits(at.wrapping_mul(0x9E37_79B9)));
    let data: Vec<f32> = special.into_iter().chain(odd).collect();
    let x = Tensor::from_vec(&[data.len()], data.clone());
    let square = x.pow(2.0);
    assert!(!has_pow(&square));
    assert!(has_pow(&x.cast(DType::F64).pow(2.0)));
    let two = Scalar::F32(2.0);
    let by_definition = data.iter().map(|&x| Binary::Pow.eval(Scalar::F32(x), two));
    let expected: Vec<f64> = by_definition.map(Scalar::to_f64).collect();
    let actual = square.eval::<f32>(&Reference).unwrap();
    let actual: Vec<f64> = actual.iter().map(|&square| f64::from(square)).collect();
    let is_same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    assert!(actual.iter().zip(&expected).all(is_same));
}

#[test]
fn caps_of_zero_are_the_least_that_an_operation_needs() {
    let (x, y) = (numbers(&[4, 6]), numbers(&[6]));
    let index = Tensor::from_vec(&[2], vec![3, 1]);
    let program = (x.gt(&y).select(x.gather(&index, 0).sum(0), &y) * 2.0 + &x).max(1);
    let capped = |max_values, max_inputs| Target {
        max_values,
        max_inputs,
        min_product: Some(1),
        computes_factors: true,
        stores_halves: true,
        merges_sums: true,
        min_band: None,
    };
    let (least, data) = Plan::new(&[&program], &capped(4, 3)).unwrap();
    for target in [capped(0, 0), capped(1, 0), capped(0, 2)] {
        assert_eq!(Plan::new(&[&program], &target).unwrap().0, least);
    }
    let result = exec::run(&Reference, &least, &data);
    let result = pollster::block_on(result).unwrap().remove(0);
    let HostData::F32(elements) = pollster::block_on(result.read()).unwrap() else {
        panic!("the program returns f32");
    };
    let expected = program.eval::<f32>(&Reference).unwrap();
    assert_close(elements, expected.flatten(), Tolerance::bits());
}

#[test]
fn the_text_of_a_plan_counts_the_bytes_that_are_touched() {
    let x = numbers(&[100, 200]);
    let text = |tensor: &Tensor| planned(&[tensor]).explain().to_string();
    let has = |text: &str, line: &str| assert!(text.contains(line), "{line:?} is not in\n{text}");
    let row = x.slice(0, 3..4);
    has(
        &text(&(&row + 1)),
        "reads 800 B, writes 800 B, operations 200\n",
    );
    has(
        &text(&row.broadcast_to(&[50, 200]).abs()),
        "reads 800 B, writes 40.00 kB, operations 10.00 k\n",
    );
    // The whole array counts once, however often it is read.
    has(&text(&(&x + &x.flip(0))), "reads 80.00 kB, writes 80.00 kB");
    has(&text(&x.slice(0, ..2).sum(1)), "reads 1.60 kB, writes 8 B");
    // A gather reads as many elements as it returns, and their positions.
    let index = Tensor::from_vec(&[2], vec![3, 1]);
    has(
        &text(&(x.gather(&index, 0) * 2.0)),
        "reads 1.61 kB, writes 1.60 kB",
    );
    has(&text(&(x.slice(0, ..0) + 1)), "reads 0 B, writes 0 B");
}

#[test]
fn a_choice_that_a_constant_condition_never_takes_is_left_out() {
    let table = numbers(&[4]);
    let outside = table.gather(&Tensor::from_vec(&[1], vec![9]), 0);
    let always = Tensor::scalar(true).select(1.0, &outside);
    is_same_on_both_executors(&always);
    let one_by_one = Tensor::from_vec(&[1], vec![true]).select(1.0, &outside);
    assert!(one_by_one.eval::<f32>(&Reference).is_err());
    // Also if the choice has steps of its own.
    let sorted = outside.sort(SortAxis::new(0));
    let never = Tensor::scalar(true).select(&table, &sorted);
    is_same_on_both_executors(&never);
    assert_eq!(planned(&[&never]).steps.len(), 0);
    let plan = planned(&[&(&never + &table), &sorted]);
    assert_eq!(plan.steps.len(), 3, "{}", plan.explain());
}

#[test]
fn a_condition_between_equal_choices_is_left_out() {
    let table = numbers(&[4]);
    let outside = table.gather(&Tensor::from_vec(&[4], vec![9; 4]), 0);
    let condition = outside.sort(SortAxis::new(0)).lt(1.0);
    let both = condition.select(&table, &table) + 1.0;
    is_same_on_both_executors(&both);
    assert_eq!(planned(&[&both]).steps.len(), 1);
}

#[test]
fn two_numbers_to_choose_from_are_f32() {
    let condition = Tensor::from_vec(&[2], vec![true, false]);
    assert_eq!(condition.select(1, 0).dtype().unwrap(), DType::F32);
    assert_eq!(condition.select(1.0, 0.0).dtype().unwrap(), DType::F32);
    assert_eq!(
        condition.select(Tensor::scalar(1), 0).dtype().unwrap(),
        DType::I32
    );
    assert!(condition.select(true, false).dtype().is_err());
}

#[test]
fn a_convolution_of_a_computed_image_is_a_product_of_what_lies_in_memory() {
    let image = numbers(&[3, 2, 9, 9]) - 11.0;
    let kernels = numbers(&[4, 2, 3, 3]);
    let seen = image.relu();
    let windows = seen.window(2, 3, 1).window(3, 3, 1);
    let convolved = einsum("bchwuv,ocuv->bohw", &[&windows, &kernels]);
    let plan = planned(&[&convolved]);
    let products = plan
        .steps
        .iter()
        .filter(|step| step.nest.contract.is_some());
    // The image is stored and its windows are not: they have more than five times as many elements.
    assert_eq!((products.count(), plan.peak_bytes()), (1, 4 * 3 * 2 * 81));
    is_same_on_both_executors(&convolved);
}

#[test]
fn what_a_fold_over_pairs_reads_is_stored_even_if_it_is_cheap() {
    let x = numbers(&[64, 200]);
    let pairs = |x: &Tensor| {
        let differences = x.expand_dims(2) - x.expand_dims(1);
        differences.abs().lt(1.0).sum(0)
    };
    let words = (x * 10.0).cast(DType::U32).realize(&Host::new()).unwrap();
    let planes = &words ^ words.flip(1);
    let other = planes.expand_dims(2) ^ words.expand_dims(1);
    let cases = [
        ("a scaled array", pairs(&(numbers(&[64, 200]) * 0.5 + 1.0))),
        ("a sum", pairs(&(&words + words.flip(1)).cast(DType::F32))),
        ("words", other.count_ones().sum(0)),
    ];
    for (name, tensor) in &cases {
        let plan = planned(&[tensor]);
        assert_eq!(plan.steps.len(), 2, "{name}: {}", plan.explain());
        let last = &plan.steps[1].nest.values;
        let loads = last
            .iter()
            .filter(|value| matches!(value, Value::Load { .. }));
        assert_eq!(loads.count(), 2, "{name}: {}", plan.explain());
        is_same_on_both_executors(&tensor.cast(DType::F32));
    }
}

#[test]
fn an_inner_reduction_is_stored_in_the_order_of_its_own_axes() {
    let sums = numbers(&[6, 7, 8]).sum(2);
    let shape = |tensor: &Tensor| {
        let plan = planned(&[tensor]);
        let first = plan.steps[0].output;
        plan.buffers[first.0].shape.clone()
    };
    // A sum over the first axis reads its input with this axis last.
    assert_eq!(shape(&sums.sum(0)), [6, 7]);
    assert_eq!(shape(&sums.t().max(1)), [6, 7]);
    assert_eq!(shape(&sums.flip(0).expand_dims(0).sum(1)), [6, 7]);
    // Only the elements that a slice takes are computed.
    assert_eq!(shape(&sums.slice(0, ..2).sum(0)), [2, 7]);
    is_same_on_both_executors(&sums.sum(0));
}

#[test]
fn a_sum_over_results_of_a_product_is_one_product() {
    let image = numbers(&[2, 3, 9, 9]);
    let kernels = numbers(&[4, 3, 3, 3]);
    let windows = image.window(2, 3, 1).window(3, 3, 1);
    let convolved = einsum("bchwuv,ocuv->bohw", &[&windows, &kernels]);
    let loss = (convolved * numbers(&[2, 4, 7, 7])).sum(..);
    let gradient = grad(&loss, &[&image]).unwrap().remove(0);
    let plan = planned(&[&gradient]);
    let is_product = |step: &Step| step.nest.contract.is_some();
    assert!(plan.steps.iter().all(is_product), "{}", plan.explain());
    // The products of each window with its kernels, 9 times as many as the image has elements, are
    // not stored.
    assert_eq!((plan.steps.len(), plan.peak_bytes()), (1, 0));
    is_same_on_both_executors(&gradient);

    // A product of which one factor does not depend on the outer axis remains apart.
    let product = numbers(&[30, 20]).matmul(&numbers(&[20, 40]));
    let plan = planned(&[&product.sum(0)]);
    assert_eq!(plan.steps.len(), 2, "{}", plan.explain());
    let target = Target {
        merges_sums: false,
        ..Host::new().target()
    };
    let (plan, _) = Plan::new(&[&gradient], &target).unwrap();
    assert!(plan.steps.len() > 1, "{}", plan.explain());
}

/// Returns an array of zeros in memory.
fn zeros(shape: &[usize]) -> Tensor {
    Tensor::from_vec(shape, vec![0.0_f32; shape.iter().product()])
}

/// The number of elements of a large input: 32 MiB of `f32`.
const LARGE_LEN: usize = 8 << 20;

#[test]
fn a_product_with_few_columns_reads_a_large_input_once() {
    let check = |case: &str, product: &Tensor, expected: bool| {
        let plan = planned(&[product]);
        let mut contracts = plan.steps.iter().filter_map(|it| it.nest.contract.as_ref());
        let contract = contracts.next().unwrap();
        assert_eq!(contract.reads_once, expected, "{case}: {}", plan.explain());
    };
    // A matrix with just as many elements as a large input has, or one row fewer.
    for (terms, cols, missing_rows, expected) in [
        (256, 4, 0, true),
        (256, 16, 0, true),
        (256, 3, 0, false),
        (256, 17, 0, false),
        (256, 10, 1, false),
        (199, 10, 0, false),
        (200, 10, 0, true),
        (1 << 16, 10, 0, true),
        ((1 << 16) + 1, 10, 0, false),
    ] {
        let rows = LARGE_LEN.div_ceil(terms) - missing_rows;
        let (a, b) = (zeros(&[rows, terms]), zeros(&[terms, cols]));
        let case = format!("{rows} x {terms} x {cols}");
        check(&case, &a.matmul(&b), expected);
        check(&case, &b.t().matmul(&a.t()), expected);
        check(&case, &(a.matmul(&b) * 2.0).maximum(0.0), expected);
    }
    let rows = LARGE_LEN / 256;
    let (a, b) = (zeros(&[rows, 256]), zeros(&[256, 10]));
    check("computed factor", &a.exp().matmul(&b), false);
    check("terms apart", &zeros(&[256, rows]).t().matmul(&b), false);
    check(
        "equal rows",
        &zeros(&[1, 256]).broadcast_to(&[rows, 256]).matmul(&b),
        false,
    );
    check(
        "rows apart",
        &zeros(&[rows, 300]).slice(1, 30..286).matmul(&b),
        true,
    );
    let batches = zeros(&[2, rows, 256]).matmul(&zeros(&[2, 256, 10]));
    check("batches", &batches, false);
    let doubles = [zeros(&[rows / 2, 256]), b].map(|x| x.cast(DType::F64).realize(&Host::new()));
    let [a, b] = doubles.map(Result::unwrap);
    check("doubles", &a.matmul(&b), true);
}

#[test]
fn a_large_input_that_is_read_once_has_the_bits_of_smaller_inputs() {
    let rows = LARGE_LEN / 256;
    let (a, b) = (numbers(&[rows, 256]), numbers(&[256, 10]));
    let program = |a: &Tensor| (a.matmul(&b) / 1000.0).softmax(1);
    let parts = [0..rows / 2, rows / 2..rows].map(|range| program(&a.slice(0, range)));
    let parts = Tensor::concat(&parts.each_ref(), 0);
    let host = Host::new();
    let [whole, parts] = [program(&a), parts].map(|x| x.eval::<f32>(&host).unwrap());
    assert_close(&whole, &parts, Tolerance::exact());
}

#[test]
fn a_chain_of_views_of_a_reduction_may_be_deeper_than_the_stack() {
    let mut view = numbers(&[6, 7]).sum(0);
    for _ in 0..100_000 {
        view = view.flip(0);
    }
    let plan = planned(&[&view.sum(0)]);
    assert_eq!(plan.steps.len(), 2, "{}", plan.explain());
}

#[test]
fn the_gradient_of_a_pool_is_stored_once_in_the_order_of_its_input() {
    let (images, weights) = (numbers(&[2, 8, 8, 16]), numbers(&[4, 3, 3, 16]));
    let pooled = |x: &Tensor| x.window(1, 2, 2).window(2, 2, 2).max([-1, -2]);
    // The convolution after the gradient reads each element nine times, through overlapping
    // windows.
    let gradient = grad(&pooled(&images).square().sum(..), &[&images]).unwrap();
    let windows = gradient[0].window(1, 3, 1).window(2, 3, 1);
    let sums = einsum("byxcuv,ouvc->byxo", &[&windows, &weights]);
    let plan = planned(&[&sums]);
    // Maxima, numbers of equal maxima, gradient, convolution.
    assert_eq!(plan.steps.len(), 4, "{}", plan.explain());
    let n_rows = |step: &Step| (step.nest.domain.len(), step.nest.domain.last().copied());
    assert_eq!(n_rows(&plan.steps[2]), (5, Some(16)), "{}", plan.explain());
    is_same_on_both_executors(&sums);
}
