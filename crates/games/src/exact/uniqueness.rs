//! Uniqueness of an optimum.
//!
//! Method: a column whose reduced cost is positive is zero at every optimum. If all columns that
//! are zero at the given optimum, which is a vertex, have positive reduced cost, the optimum is
//! unique. Otherwise the sum of the zero columns with reduced cost zero is maximised over all
//! optima. The optimum is unique if and only if this maximum is zero: at a vertex the nonzero
//! columns are linearly independent, so a second optimum makes at least one of the zero columns
//! positive.
//! Source: Mangasarian 1979, "Uniqueness of solution in linear programming".
//! Limits: nonnegative variables. A free variable may vary along a line of optima even if no zero
//! column can become positive.

use super::program::{Domain, LinearProgram, Optimum};
use super::simplex::{self, SimplexError};
use super::work::Work;
use num_traits::Zero;

/// Returns whether the optimum of a program is unique.
pub(super) fn is_unique(
    program: &LinearProgram,
    optimum: &Optimum,
    work: &Work<'_>,
) -> Result<bool, SimplexError> {
    let is_zero = |optimum: &Optimum, column: usize| optimum.primal.numerators[column].is_zero();
    let costs = program.reduced_costs(&optimum.dual, work)?;
    let costs_nothing = |column: usize| costs[column].is_zero();
    let can_grow = |&column: &usize| {
        let is_bounded = program.domain(column) == Domain::NonNegative;
        is_bounded && is_zero(optimum, column) && costs_nothing(column)
    };
    let idle: Vec<usize> = (0..program.n_columns()).filter(can_grow).collect();
    if idle.is_empty() {
        return Ok(true);
    }
    // Without the columns of nonzero cost, all feasible points of the program are optimal.
    let face = program.restricted(|column| !costs_nothing(column));
    match simplex::solve(&face.maximizing_sum(&idle), work) {
        Ok(farthest) => Ok(idle.into_iter().all(|column| is_zero(&farthest, column))),
        Err(SimplexError::Unbounded) => Ok(false),
        Err(fault) => Err(fault),
    }
}
