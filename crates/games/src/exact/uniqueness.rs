//! Uniqueness of an optimum.
//!
//! Method: columns of positive cost are zero at every optimum. If every other zero column has
//! positive cost, the optimum, which is a vertex, is unique. Otherwise the sum of the zero columns
//! with cost zero is maximised over all optima. A second optimum would make at least one of these
//! columns positive; otherwise this optimum and its mirror image about the vertex would both be
//! optimal, which contradicts the vertex.
//! Source: Mangasarian 1979, "Uniqueness of solution in linear programming".
//! Limits: variables that are not negative; a free one could move along a line that no zero shows.

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
    let face = program.restricted(|column| !costs_nothing(column));
    match simplex::solve(&face.maximizing_sum(&idle), work) {
        Ok(farthest) => Ok(idle.into_iter().all(|column| is_zero(&farthest, column))),
        Err(SimplexError::Unbounded) => Ok(false),
        Err(fault) => Err(fault),
    }
}
