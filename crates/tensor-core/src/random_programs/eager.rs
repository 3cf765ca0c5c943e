//! Random programs that are evaluated operation by operation, compared with the naive evaluator and
//! with the lazy program.
//!
//! Method: every output must be within the error bounds that hold for any executor. On one executor
//! it must have the same bits as the lazy program, unless it depends on a sum or product of floats.

use std::collections::HashMap;

use super::oracle::Oracle;
use super::own::check_all;
use super::program::{RandomProgram, programs};
use super::{computed, is_full, seed, within_bounds};
use crate::exec::verify;
use crate::op::{Reduce, Scan};
use crate::plan::Plan;
use crate::tensor::Op;
use crate::{Eager, Executor, Host, Tensor};

/// Statistics on the outputs of some programs.
#[derive(Debug, Default)]
struct Outcomes {
    programs: usize,
    outputs: usize,
    /// Outputs that depend on no sum or product of floats over axes.
    free_of_sums: usize,
    /// Other outputs that have the same bits as those of the lazy program.
    same_anyway: usize,
}

/// Compares the eager outputs of a program with the oracle and with the outputs of the lazy
/// program.
fn check(program: &RandomProgram, outcomes: &mut Outcomes) -> Result<(), String> {
    outcomes.programs += 1;
    let (host, lazy) = (Host::new(), program.tensors());
    let small = program.without_unused();
    let eager = Eager::new(host.clone()).run(|| small.tensors());
    let asked: Vec<&Tensor> = lazy.iter().collect();
    let (plan, data) = Plan::new(&asked, &host.target()).map_err(|error| error.to_string())?;
    let in_one = computed(&plan, &data, &host)?;
    let (mut oracle, mut sums) = (Oracle::default(), HashMap::new());
    for ((lazy, eager), in_one) in lazy.iter().zip(&eager).zip(&in_one) {
        if !is_computed(eager) {
            return Err(format!("{eager:?} was not computed"));
        }
        let (plan, data) =
            Plan::new(&[eager], &host.target()).map_err(|error| error.to_string())?;
        let actual = &computed(&plan, &data, &host)?[0];
        within_bounds(actual, &oracle.array(lazy)).map_err(|what| {
            format!("{lazy:?}, computed at once, differs from the oracle: {what}")
        })?;
        let same = verify::same_bits(&verify::scalars(actual), &verify::scalars(in_one));
        outcomes.outputs += 1;
        match (has_sum(lazy, &mut sums), same) {
            (false, Err(what)) => {
                return Err(format!("{lazy:?} has other bits in one piece: {what}"));
            }
            (false, Ok(())) => outcomes.free_of_sums += 1,
            (true, same) => outcomes.same_anyway += usize::from(same.is_ok()),
        }
    }
    Ok(())
}

/// Returns `true` if a tensor needs no computation: it is in memory, a constant, an index, or a
/// view of a tensor that needs no computation.
fn is_computed(tensor: &Tensor) -> bool {
    let node = tensor.node();
    tensor.storage().is_some()
        || match node.op {
            Op::Const(_) | Op::Index => true,
            Op::View { .. } | Op::Reshape | Op::Surrogate => is_computed(&node.inputs[0]),
            _ => false,
        }
}

/// Returns `true` if a tensor depends on a sum or product of floats over axes.
fn has_sum(tensor: &Tensor, known: &mut HashMap<usize, bool>) -> bool {
    if let Some(&has) = known.get(&tensor.address()) {
        return has;
    }
    let node = tensor.node();
    let is_one = matches!(
        &node.op,
        Op::Reduce {
            op: Reduce::Sum | Reduce::Prod,
            ..
        } | Op::Scan(Scan {
            op: Reduce::Sum | Reduce::Prod,
            ..
        })
    ) && node.dtype.is_float();
    let has = is_one || node.inputs.iter().any(|input| has_sum(input, known));
    known.insert(tensor.address(), has);
    has
}

const CASES: u32 = 500;
const CASES_IN_FULL: u32 = 50_000;

#[test]
fn random_programs_give_the_same_operation_by_operation() {
    let (cases, seed) = (if is_full() { CASES_IN_FULL } else { CASES }, seed());
    let mut outcomes = Outcomes::default();
    check_all(&programs(), cases, seed, |program| {
        check(&program, &mut outcomes)
    });
    eprintln!("PROGRAM_SEED={seed}: {outcomes:?}");
    assert!(3 * outcomes.free_of_sums > outcomes.outputs, "{outcomes:?}");
}
