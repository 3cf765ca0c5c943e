//! A guess at the optimal basis of a linear program, in floats.
//!
//! Role: proofs start from a guess. A bad guess, or no guess, only costs time.
//! Method: the program is solved in floats, then its dual restricted to the prices that the first
//! solution allows to be positive; or the dual first. A basis that proves both optimal contains all
//! nonzero columns, and no column with a positive reduced cost. So columns are ordered by value
//! minus reduced cost. In that order, without columns that depend on earlier ones, they form such a
//! basis if rounding permits.
//! Limits: rows and columns are scaled by powers of two, so magnitudes may differ widely between
//! rows or columns, but not within one.

use super::program::{Domain, LinearProgram};
use super::work::Work;
use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOptions, Variable};
use num_bigint::BigInt;
use num_traits::ToPrimitive;
use std::time::Duration;

/// Threshold above which a value or a reduced cost counts as positive: well above the solver's
/// tolerance.
const POSITIVE: f64 = 1e-8;
/// Tolerance of the solver for rows: the least that the solver accepts.
const TOLERANCE: f64 = 1e-10;
/// Time limit of a guess; no program that can be proved is known to need more.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// Cost of rounding a coefficient or of passing it to the solver, in operations on machine words.
const WORDS_PER_ENTRY: u64 = 64;
/// Iterations of the solver between two of its readings of the clock.
const SOLVER_ITERATIONS_PER_LOOK: usize = 1000;
/// Least time of an iteration of the solver for each coefficient of a dense program, in seconds.
const SECONDS_PER_TERM: f64 = 1e-9;
/// Limit to which exponents of two are clamped: powers beyond it are 0 or infinite in f64 anyway.
const MAX_POWER: i64 = 2000;

/// Returns all columns of a program, in the order of preference for an optimal basis.
pub(super) fn preference(program: &LinearProgram, work: &Work<'_>) -> Vec<usize> {
    let merits = merits(program, work).unwrap_or_else(|| vec![0.0; program.n_columns()]);
    by_merit(program, &merits)
}

/// Returns all columns of a program, in descending order of merit.
pub(super) fn by_merit(program: &LinearProgram, merits: &[f64]) -> Vec<usize> {
    // Among columns that every basis needs, and among columns of equal merit, short columns come
    // first: long ones cause more fill-in.
    let rank = |column: usize| {
        let length = program.entries(column).len();
        match program.domain(column) {
            Domain::Zero => (2, 0.0, length),
            _ if merits[column] > POSITIVE => (0, 0.0, length),
            _ => (1, -merits[column], length),
        }
    };
    let mut order: Vec<usize> = (0..program.n_columns()).collect();
    order.sort_by(|&a, &b| {
        let ((a_class, a_key, a_length), (b_class, b_key, b_length)) = (rank(a), rank(b));
        let by_key = a_class.cmp(&b_class).then(a_key.total_cmp(&b_key));
        by_key.then(a_length.cmp(&b_length))
    });
    order
}

/// Returns the merit of each column: the absolute value of its variable or slack minus the absolute
/// value of its reduced cost. Returns `None` if the solver fails.
fn merits(program: &LinearProgram, work: &Work<'_>) -> Option<Vec<f64>> {
    let primal = Rounded::new(program, work)?;
    let dual = primal.dual();
    // The solver's work grows mostly with the number of rows; the second program has little left to
    // decide.
    let (values, costs) = if program.n_rows() <= program.n_variables() {
        solve_pair(&primal, &dual, work)?
    } else {
        let (costs, values) = solve_pair(&dual, &primal, work)?;
        (values, costs)
    };
    let cost = |column| costs[primal.twin(column)].abs();
    let merit = |(column, value): (usize, f64)| value.abs() - cost(column);
    Some(values.into_iter().enumerate().map(merit).collect())
}

/// Returns solutions of a program and of its dual, in which no column and its twin are both
/// positive; zeros for the dual if the solver fails on the dual.
fn solve_pair(first: &Rounded, second: &Rounded, work: &Work<'_>) -> Option<(Vec<f64>, Vec<f64>)> {
    let values = first.solve(work)?;
    let mut face = second.clone();
    for (column, &value) in values.iter().enumerate() {
        if first.domains[column] == Domain::NonNegative && value > POSITIVE {
            face.domains[first.twin(column)] = Domain::Zero;
        }
    }
    let twins = face.solve(work).or_else(|| second.solve(work));
    let twins = twins.unwrap_or_else(|| vec![0.0; values.len()]);
    Some((values, twins))
}

/// A program in floats, whose rows and columns are divided by powers of two so that their largest
/// entries are near 1.
#[derive(Clone, Debug)]
struct Rounded {
    /// Domains of the variables, then of the slacks.
    domains: Vec<Domain>,
    objective: Vec<f64>,
    /// The terms of each row, by variables.
    rows: Vec<Vec<(usize, f64)>>,
    right: Vec<f64>,
}

impl Rounded {
    /// Rounds a program; `None` at a limit of the work.
    fn new(program: &LinearProgram, work: &Work<'_>) -> Option<Self> {
        let n_variables = program.n_variables();
        let mut row_bits = vec![0; program.n_rows()];
        for (row, entry) in (0..n_variables).flat_map(|column| program.entries(column)) {
            row_bits[*row] = row_bits[*row].max(bits(entry));
        }
        let column_bits = |column| {
            let entries = program.entries(column).iter();
            let sizes = entries.map(|(row, entry)| bits(entry) - row_bits[*row]);
            sizes.max().unwrap_or(0)
        };
        let column_bits: Vec<i64> = (0..n_variables).map(column_bits).collect();
        let mut rows = vec![vec![]; program.n_rows()];
        for (column, column_bits) in column_bits.iter().enumerate() {
            let n_entries = program.entries(column).len() as u64;
            work.count(WORDS_PER_ENTRY * n_entries).ok()?;
            for (row, entry) in program.entries(column) {
                rows[*row].push((column, quotient(entry, row_bits[*row] + column_bits)));
            }
        }
        let shares = (0..n_variables).map(|column| program.share(column));
        let right = program.right();
        Some(Self {
            domains: (0..program.n_columns())
                .map(|column| program.domain(column))
                .collect(),
            objective: scaled(shares.zip(column_bits)),
            rows,
            right: scaled(right.into_iter().zip(row_bits)),
        })
    }

    /// Returns the dual, as [`LinearProgram::dual`] does.
    fn dual(&self) -> Self {
        let mut rows = vec![vec![]; self.objective.len()];
        for (row, terms) in self.rows.iter().enumerate() {
            for &(variable, entry) in terms {
                rows[variable].push((row, -entry));
            }
        }
        let (variables, slacks) = self.domains.split_at(self.objective.len());
        let domains = slacks.iter().chain(variables);
        Self {
            domains: domains.map(|domain| domain.dual()).collect(),
            objective: self.right.iter().map(|right| -right).collect(),
            rows,
            right: self.objective.iter().map(|share| -share).collect(),
        }
    }

    /// Returns a lower bound of the time that the solver takes from its start to its first reading
    /// of the clock, or to its end.
    fn least_time(&self) -> Duration {
        let n_terms: usize = self.rows.iter().map(Vec::len).sum();
        // A program is rarely solved in fewer iterations than it has rows.
        let n_iterations = SOLVER_ITERATIONS_PER_LOOK.min(self.rows.len());
        let n_operations = n_iterations.saturating_mul(n_terms);
        Duration::from_secs_f64(SECONDS_PER_TERM * n_operations as f64)
    }

    /// Returns the column of the dual that belongs to a column: for a variable, the slack of its
    /// dual row; for a slack, the price of its row.
    fn twin(&self, column: usize) -> usize {
        (column + self.rows.len()) % self.domains.len()
    }

    /// Returns variables and slacks of a solution; `None` if the solver fails.
    fn solve(&self, work: &Work<'_>) -> Option<Vec<f64>> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let shares = self.objective.iter().zip(&self.domains);
        let variables: Vec<Variable> = shares
            .map(|(&share, &domain)| problem.add_var(share, bounds(domain)))
            .collect();
        let slacks = &self.domains[variables.len()..];
        for ((terms, &right), slack) in self.rows.iter().zip(&self.right).zip(slacks) {
            work.count(WORDS_PER_ENTRY * terms.len() as u64).ok()?;
            let terms = terms
                .iter()
                .map(|&(column, entry)| (variables[column], entry));
            let terms: Vec<_> = terms.collect();
            match slack {
                Domain::Free => {}
                Domain::NonNegative => problem.add_constraint(terms, ComparisonOp::Le, right),
                Domain::Zero => problem.add_constraint(terms, ComparisonOp::Eq, right),
            }
        }
        let mut options = SolveOptions::default();
        // The solver cannot be cancelled, but accepts a time limit.
        let time_left = work.time_left().unwrap_or(TIME_LIMIT).min(TIME_LIMIT);
        if time_left < self.least_time() {
            return None;
        }
        options.time_limit = Some(time_left);
        options.tolerances.feasibility = TOLERANCE;
        let solution = problem.solve_with(options).ok()?.into_solution().ok()?;
        let values = variables
            .iter()
            .map(|&variable| solution.var_value(variable));
        let mut values: Vec<f64> = values.collect();
        for (terms, right) in self.rows.iter().zip(&self.right) {
            let activity = terms.iter().map(|&(column, entry)| entry * values[column]);
            values.push(right - activity.sum::<f64>());
        }
        Some(values)
    }
}

fn bounds(domain: Domain) -> (f64, f64) {
    match domain {
        Domain::Free => (f64::NEG_INFINITY, f64::INFINITY),
        Domain::NonNegative => (0.0, f64::INFINITY),
        Domain::Zero => (0.0, 0.0),
    }
}

/// Returns integers, each divided by its own power of two and by one common power of two, so that
/// the largest quotient is near 1.
fn scaled(integers: impl Iterator<Item = (BigInt, i64)> + Clone) -> Vec<f64> {
    let nonzero = integers.clone().filter(|(integer, _)| bits(integer) > 0);
    let largest = nonzero
        .map(|(integer, power)| bits(&integer) - power)
        .max()
        .unwrap_or(0);
    integers
        .map(|(integer, power)| quotient(&integer, power + largest))
        .collect()
}

/// Returns the number of bits of an integer.
fn bits(integer: &BigInt) -> i64 {
    i64::try_from(integer.bits()).unwrap_or(i64::MAX)
}

/// Returns `integer / 2^power`, rounded; 0 where the quotient underflows, infinite where it
/// overflows.
fn quotient(integer: &BigInt, power: i64) -> f64 {
    let dropped = (bits(integer) - i64::from(u64::BITS)).max(0);
    let mantissa = (integer >> dropped).to_f64().unwrap_or(f64::NAN);
    let power = (dropped - power).clamp(-MAX_POWER, MAX_POWER);
    mantissa * 2_f64.powi(i32::try_from(power).unwrap_or(0))
}
