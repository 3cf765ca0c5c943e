//! Random programs on this crate's executors, and the deliberate faults that they must detect.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;

use super::coverage::Coverage;
use super::program::{RandomProgram, programs};
use super::{
    Failure, MAX_SHRINK_ITERS, On, Shares, Tally, expected, is_full, large, same_bits, search,
    seed, within_bounds,
};
use crate::dtype::DType;
use crate::exec::Accuracy;
use crate::fault::{self, Fault};
use crate::plan::Target;
use crate::tensor::Tensor;
use crate::{Axes, Host, Reference};
use proptest::strategy::Strategy;

const CASES: u32 = 2_000;
const CASES_IN_FULL: u32 = 200_000;
/// Number of programs of a usual run that are large in one place. These programs take longer than
/// the others.
const CASES_OF_LARGE: u32 = 1_000;

/// Checks programs with [`search`], and panics with the report of a failure.
pub(super) fn check_all<P: Debug>(
    strategy: &impl Strategy<Value = P>,
    cases: u32,
    seed: u64,
    check: impl FnMut(P) -> Result<(), String>,
) {
    if let Err(failure) = search(strategy, cases, seed, MAX_SHRINK_ITERS, check) {
        panic!("{}", failure.report);
    }
}

/// Compares some tensors with the oracle on both executors of this crate: bit by bit on the
/// reference executor, within error bounds on the host.
pub(super) fn check(
    tensors: &[Tensor],
    limits: &Target,
    tally: &mut Tally,
    coverage: &mut Coverage,
) -> Result<(), String> {
    let expected = expected(tensors, Accuracy::IEEE, tally);
    let (host, reference) = (Host::new(), Reference);
    let on = |executor, comparison| On {
        executor,
        comparison,
    };
    on(&reference, same_bits).check(tensors, &expected, limits, tally, &mut |_| ())?;
    on(&host, within_bounds).check(tensors, &expected, limits, tally, &mut |plan| {
        plan.steps
            .iter()
            .for_each(|step| coverage.count(&step.nest));
    })
}

/// Returns a check that compares the outputs of programs on both executors and updates the
/// statistics.
fn outputs<'t>(
    tally: &'t mut Tally,
    coverage: &'t mut Coverage,
) -> impl FnMut(RandomProgram) -> Result<(), String> + 't {
    |program| check(&program.tensors(), &program.target, tally, coverage)
}

#[test]
fn open_elements_and_no_elements_compare_too_little() {
    let with_open = |open: f64| {
        let outputs = 10;
        let shares = |open| Shares {
            outputs,
            open,
            exact: 5.0,
        };
        let tally = Tally {
            floats: shares(open),
            others: shares(0.0),
            ..Tally::default()
        };
        tally.check_compared(Accuracy::IEEE)
    };
    with_open(1.0).unwrap();
    assert!(with_open(2.0).unwrap_err().starts_with("open: [0.200, "));
    assert!(Tally::default().check_compared(Accuracy::IEEE).is_err());
}

#[test]
fn random_programs_give_what_their_nodes_say_on_every_executor_and_target() {
    let (cases, seed) = (if is_full() { CASES_IN_FULL } else { CASES }, seed());
    let mut tally = Tally::default();
    let mut coverage = Coverage::default();
    check_all(&programs(), cases, seed, outputs(&mut tally, &mut coverage));
    eprintln!("PROGRAM_SEED={seed}: {tally:?}");
    let enough = |n: usize, least: usize| n >= least * cases as usize / CASES as usize;
    tally.assert_compared(Accuracy::IEEE);
    assert!(
        enough(tally.products, 50)
            && enough(tally.steps, 25_000)
            && enough(tally.banded_steps, 500)
            && enough(tally.scratch_arrays, 200),
        "too little was planned: {tally:?}"
    );
}

#[test]
fn programs_that_are_large_in_one_place_reach_the_loops_kept_for_them() {
    /// Maximum number of rounds of programs. The counts are random: by chance, a round may have too
    /// few of a rare kind. The counts of all rounds are added, so six rounds have enough, unless
    /// the kind is hardly generated.
    const N_ROUNDS: u64 = 6;
    let cases = if is_full() {
        CASES_IN_FULL
    } else {
        CASES_OF_LARGE
    };
    let seed = seed();
    let (mut tally, mut coverage) = (Tally::default(), Coverage::default());
    let mut too_few = None;
    for round in 0..N_ROUNDS {
        let seed = seed.wrapping_add(round);
        for (one_in, family) in large::families() {
            let outputs = outputs(&mut tally, &mut coverage);
            check_all(&family, cases / one_in, seed, outputs);
        }
        eprintln!("PROGRAM_SEED={seed}: {tally:?}, {coverage:?}");
        let banded = ("products in bands", tally.banded_products, 2);
        let mut kinds = coverage.kinds().into_iter().chain([banded]);
        too_few = kinds.find(|&(_, n, least)| {
            let least = least * cases as usize;
            n < least.div_ceil(CASES as usize)
        });
        if too_few.is_none() {
            break;
        }
    }
    tally.assert_compared(Accuracy::IEEE);
    assert!(
        too_few.is_none(),
        "{too_few:?} (kind, number, minimum number): {tally:?}"
    );
}

/// Adds the lines that nodes record outside the generator of programs, which is the only caller of
/// the operations.
fn add_foreign_lines(tensors: &[Tensor], lines: &mut BTreeSet<String>) {
    let mut waiting = tensors.to_vec();
    let mut seen = HashSet::new();
    while let Some(tensor) = waiting.pop() {
        let node = tensor.node();
        if !node.location.file().contains("random_programs") {
            lines.insert(format!("{}: {}", node.location, node.op.name()));
        }
        let inputs = node.inputs.iter();
        waiting.extend(inputs.filter(|input| seen.insert(input.address())).cloned());
    }
}

#[test]
fn nodes_record_the_line_of_the_caller() {
    const PROGRAMS: u32 = 1000;
    let mut lines = BTreeSet::new();
    let mut check = |program: RandomProgram| {
        add_foreign_lines(&program.tensors(), &mut lines);
        Ok(())
    };
    check_all(&programs(), PROGRAMS, 1, &mut check);
    for (one_in, family) in large::families() {
        check_all(&family, PROGRAMS / one_in, 1, &mut check);
    }
    assert!(lines.is_empty(), "{lines:#?}");
}

/// The number of programs within which a fault in the planner must be found.
const UNTIL_FOUND: u32 = 400;

#[track_caller]
fn is_found(fault: Fault) {
    is_found_in(fault, &programs());
}

#[track_caller]
fn is_found_in(fault: Fault, strategy: &impl Strategy<Value = RandomProgram>) {
    let mut tally = Tally::default();
    let found = fault::planted(fault, || {
        let mut coverage = Coverage::default();
        let outputs = outputs(&mut tally, &mut coverage);
        search(strategy, UNTIL_FOUND, 1, 0, outputs)
    });
    let Err(Failure { programs, report }) = found else {
        panic!("{fault:?} was not found in {UNTIL_FOUND} programs");
    };
    eprintln!("{fault:?} was found by program {programs}");
    assert!(report.contains("differs from the "), "{report}");
}

#[test]
fn a_view_planned_with_a_wrong_stride_is_found() {
    is_found(Fault::PlannedStride);
}

#[test]
fn a_step_that_joins_a_band_but_reads_other_rows_is_found() {
    is_found(Fault::BandedRows);
}

#[test]
fn a_piece_of_a_product_that_begins_a_line_early_is_found() {
    is_found_in(Fault::BandedLines, &large::layers());
}

#[test]
fn a_reduction_planned_without_its_epilogue_is_found() {
    is_found(Fault::PlannedEpilogue);
}

#[test]
fn a_scan_planned_with_elements_that_it_leaves_out_is_found() {
    is_found(Fault::PlannedScan);
}

#[test]
fn a_sort_planned_in_the_other_direction_is_found() {
    is_found(Fault::PlannedSort);
}

#[test]
fn a_chain_with_exchanged_operands_is_found() {
    is_found(Fault::ChainedOperands);
}

#[test]
fn a_scatter_to_the_next_position_is_found() {
    is_found_in(Fault::ScatteredPosition, &large::scatters());
}

#[test]
fn a_symmetric_matrix_without_its_mirrored_half_is_found() {
    is_found_in(Fault::UnmirroredHalf, &large::symmetric());
}

#[test]
fn a_difference_planned_with_swapped_operands_is_found() {
    is_found(Fault::PlannedOperands);
}

/// Checks a program that once had a wrong result.
#[track_caller]
fn is_right(tensors: &[Tensor], limits: &Target) {
    if let Err(what) = check(
        tensors,
        limits,
        &mut Tally::default(),
        &mut Coverage::default(),
    ) {
        panic!("{what}");
    }
}

const SMALL_PRODUCTS: Target = Target {
    max_values: 64,
    max_inputs: 3,
    min_product: Some(1),
    computes_factors: false,
    stores_halves: false,
    merges_sums: true,
    min_band: None,
};

#[test]
fn a_padded_half_keeps_within_the_least_number_of_values() {
    let halves = Tensor::from_vec(&[3], vec![half::f16::ONE; 3]).cast(DType::F32);
    let least = Target {
        max_values: 4,
        computes_factors: true,
        stores_halves: true,
        ..SMALL_PRODUCTS
    };
    is_right(&[halves.pad(0, 1, 1, 1.0)], &least);
}

#[test]
fn a_value_that_is_folded_and_read_by_another_fold_is_kept_for_it() {
    let x = Tensor::from_vec(&[2, 2], vec![1.0_f32, 2.0, 3.0, 4.0]);
    let low = x.lt(2.5);
    let most = low.cast(DType::F32).max(0);
    is_right(&[low.count(0) + most.cast(DType::U32)], &SMALL_PRODUCTS);
}

#[test]
fn operands_next_to_an_empty_reduction_are_still_read() {
    let empty = Tensor::from_vec(&[0, 2, 0, 1], Vec::<f32>::new());
    let beside = Tensor::from_vec(&[1], vec![-1.0_f32]);
    let sums = (-empty).sum(Axes::keepdims([0, 2, 3]));
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
