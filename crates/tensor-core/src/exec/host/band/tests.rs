//! Tests of the steps of a band that run together, on blocks of rows.

use super::*;
use crate::exec::{self, Executor, Storage};
use crate::fault;
use crate::plan::Target;
use crate::tensor::{Axes, Tensor};
use crate::{Host, Reference};

/// Returns an array in memory of small multiples of 1/8 of both signs, in an irregular order.
fn array(shape: &[usize], dtype: DType) -> Tensor {
    let n: usize = shape.iter().product();
    let element = |i: usize| ((i * 7919 + i / 13) % 33) as f32 / 8.0 - 2.0;
    let array = Tensor::from_vec(shape, (0..n).map(element).collect());
    let stored = array.cast(dtype).realize(&Host::new());
    stored.expect("the program is valid")
}

/// Returns a plan for the host in which bands of any size are worth it.
fn planned(tensors: &[&Tensor]) -> (Plan, Vec<Arc<dyn Storage>>) {
    let target = Target {
        min_band: Some(0),
        ..Host::new().target()
    };
    Plan::new(tensors, &target).expect("the program is valid")
}

/// Returns the bits of the results.
fn results(executor: &dyn Executor, plan: &Plan, data: &[Arc<dyn Storage>]) -> Vec<Vec<u64>> {
    let arrays = pollster::block_on(exec::run(executor, plan, data)).expect("the plan runs");
    let bits = |array: Arc<dyn Storage>| {
        let data = pollster::block_on(array.read()).expect("the host reads its arrays");
        let bits = |at| data.get(at).map_or(0, |number| number.bits());
        (0..data.len()).map(bits).collect()
    };
    arrays.into_iter().map(bits).collect()
}

/// Returns the lengths of the groups of steps of the only band of a plan.
#[track_caller]
fn group_lens(plan: &Plan) -> Vec<usize> {
    let [band] = &*plan.bands else {
        panic!("{}", plan.explain());
    };
    let kernels = Kernels::default();
    let stages = stages(&kernels, plan, band).expect("the nests are valid");
    groups(&stages, band.n_rows)
        .iter()
        .map(|group| group.steps.len())
        .collect()
}

/// Asserts that groups of these lengths have the bits of single steps.
#[track_caller]
fn check(tensors: &[&Tensor], lens: &[usize]) {
    let (plan, data) = planned(tensors);
    assert_eq!(group_lens(&plan), lens, "{}", plan.explain());
    let mut apart = plan.clone();
    apart.bands = Arc::new([]);
    let host = Host::new();
    let expected = results(&host, &apart, &data);
    assert_eq!(results(&host, &plan, &data), expected);
}

/// Returns `(x - mean) / sqrt(variance + 1e-5) * scale + shift` of each row.
fn layer_norm(x: &Tensor, scale: &Tensor, shift: &Tensor) -> Tensor {
    let centered = x - x.mean(Axes::keepdims(-1));
    let variance = centered.square().mean(Axes::keepdims(-1));
    centered / (variance + 1e-5).sqrt() * scale + shift
}

#[test]
fn chains_on_the_same_rows_run_together_with_the_bits_of_single_steps() {
    for dtype in [DType::F32, DType::F64] {
        for (rows, cols) in [(65, 64), (131, 100), (67, 1000), (40, 1024), (33, 2051)] {
            let x = array(&[rows, cols], dtype);
            let [scale, shift] = [3, 5]
                .map(|skipped| array(&[skipped + cols], dtype).slice(0, skipped.cast_signed()..));
            check(&[&x.softmax(1)], &[4]);
            check(&[&x.log_softmax(1)], &[3]);
            check(&[&layer_norm(&x, &scale, &shift)], &[3]);
            // Functions with loops of their own, before and after folds.
            let waves = x.sin().sum(Axes::keepdims(1)).tanh();
            check(&[&((&x * &waves).cos().max(1) - 1.0)], &[2]);
        }
        // Rows of two axes, of which the second steps over some elements.
        let planes = array(&[7, 13, 70], dtype).slice(1, 0..11);
        check(&[&planes.softmax(2)], &[4]);
        // Rows of two axes, and a number of each row that is an element of another result.
        let x = array(&[7, 11, 70], dtype);
        check(&[&x.softmax(2)], &[4]);
        let exp = (&x - array(&[7, 11, 1], dtype)).exp();
        let first = exp.slice(2, 3..4);
        check(&[&exp, &(&x * first).sum(2)], &[2]);
    }
}

#[test]
fn results_that_other_steps_read_are_stored_for_all_rows_of_a_piece() {
    // The cumulative sums run alone, and read two results of the group before.
    let x = array(&[90, 100], DType::F32);
    let e = (&x - x.max(Axes::keepdims(1))).exp();
    let total = e.sum(Axes::keepdims(1));
    let sums = e.cumsum(1) / &total;
    check(&[&sums, &(&e / &total)], &[3, 1, 1]);
    // An output of the band that the step after the group reads, or a later step.
    check(&[&e, &e.cumsum(1)], &[2, 1]);
    check(&[&e, &(&e / &total).cumsum(1)], &[3, 1]);
    // Two rows of the chains for each row of the band: the sums over the middle axis run alone.
    let planes = array(&[48, 2, 90], DType::F32);
    check(&[&planes.softmax(2).sum(1)], &[3, 1]);
    // The interpreter runs the operations after this fold, which read the fold twice.
    let sums = x.sum(Axes::keepdims(1));
    check(&[&(&x * (&sums + sums.exp()))], &[1, 1]);
    // An output of the band that later chains of the group read.
    let scores = x.softmax(1);
    check(&[&scores, &(&scores * &x).sum(1)], &[5]);
}

/// A program whose last step reads the rows of each plane in reversed order.
fn reversed_rows() -> Tensor {
    let x = array(&[40, 3, 80], DType::F32);
    (&x - (&x * &x).sum(Axes::keepdims(2)).flip(1)) * 2.0
}

#[test]
fn a_step_that_reads_other_rows_runs_alone() {
    check(&[&reversed_rows()], &[1, 1]);
}

#[test]
fn a_step_with_other_rows_that_runs_together_is_found() {
    let (plan, data) = planned(&[&reversed_rows()]);
    let (reference, its_data) =
        Plan::new(&[&reversed_rows()], &Reference.target()).expect("the program is valid");
    let expected = results(&Reference, &reference, &its_data);
    // The numbers are exact.
    assert_eq!(results(&Host::new(), &plan, &data), expected);
    let host = Host::new();
    let wrong = fault::planted(Fault::RowsTogether, || results(&host, &plan, &data));
    assert_ne!(wrong, expected);
}
