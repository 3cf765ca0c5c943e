//! From a guess to an optimum: exact exchanges of columns.
//!
//! Method: if the exact solution and prices of a basis do not prove each other optimal, columns are
//! exchanged: by the simplex method if all values are right, by the dual one if all costs are, both
//! by Bland's rule, and until then by the least-index criss-cross rule, which may start anywhere.
//! No rule visits a basis twice, so the search ends.
//! Source: Bland 1977, "New finite pivoting rules for the simplex method"; Terlaky 1985, "A
//! convergent criss-cross method".

use super::basis::Basis;
use super::guess;
use super::program::{Domain, LinearProgram, Optimum};
use super::work::{LimitReached, Work};
use crate::number::compare;
use crate::{Error, Rational};
use num_bigint::BigInt;
use num_traits::{Signed, Zero};

/// A reason why no optimum was proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SimplexError {
    /// No numbers satisfy the rows.
    Infeasible,
    /// The dual has no solution: if the program has a solution, its objective has no upper bound.
    Unbounded,
    /// The proof met a limit and was stopped.
    Halted(LimitReached),
}

/// Solves a linear program and proves the optimum.
pub(super) fn solve(program: &LinearProgram, work: &Work<'_>) -> Result<Optimum, SimplexError> {
    work.begin_program();
    work.look()?;
    let preference = guess::preference(program, work);
    work.look()?;
    solve_from(program, &preference, work)
}

/// Solves a program, starting from the basis of the first independent columns in `preference`.
pub(super) fn solve_from(
    program: &LinearProgram,
    preference: &[usize],
    work: &Work<'_>,
) -> Result<Optimum, SimplexError> {
    let mut basis = Basis::choose(program, preference, work)?;
    let mut way = Way::CrissCross;
    loop {
        let optimum = basis.optimum(work)?;
        let costs = program.reduced_costs(&optimum.dual, work)?;
        let wrong_value = program.first_wrong_value(&optimum);
        let wrong_cost = program.first_wrong_cost(&costs);
        way = match (way, wrong_value, wrong_cost) {
            (_, None, None) => {
                let is_proof = program.is_proof(&optimum, work)?;
                assert!(is_proof, "a basis without fault is a proof");
                return Ok(optimum);
            }
            (Way::CrissCross, None, _) => Way::Primal,
            (Way::CrissCross, _, None) => Way::Dual,
            (way, _, _) => way,
        };
        let by_value = wrong_value.filter(|&value| wrong_cost.is_none_or(|cost| value < cost));
        let (leaving, entering) = match (by_value, wrong_cost) {
            (Some(leaving), _) => {
                let shares = basis.shares_in(leaving, work)?;
                let entering = entering_for(program, (&optimum, &costs), leaving, &shares, way);
                (leaving, entering.ok_or(SimplexError::Infeasible)?)
            }
            (None, Some(entering)) => {
                let shares = basis.shares_of(entering, work)?;
                let leaving = leaving_for(program, (&optimum, &costs), entering, &shares, way);
                (leaving.ok_or(SimplexError::Unbounded)?, entering)
            }
            (None, None) => unreachable!("it would be an optimum"),
        };
        basis = Basis::choose(program, &basis.exchanged(leaving, entering), work)?;
    }
}

/// Returns the column that enters the basis in exchange for a basic column whose value is
/// infeasible; the exchange sets this value to zero.
fn entering_for(
    program: &LinearProgram,
    (optimum, costs): (&Optimum, &[BigInt]),
    leaving: usize,
    shares: &[Option<BigInt>],
    way: Way,
) -> Option<usize> {
    let value = optimum.primal.numerators[leaving].sign();
    let ratio = |column: usize| {
        let share = shares[column].as_ref()?;
        let can_enter = match program.domain(column) {
            Domain::Free => !share.is_zero(),
            Domain::NonNegative => share.sign() == value,
            Domain::Zero => false,
        };
        can_enter.then(|| match way {
            Way::Dual => Rational::new_raw(costs[column].clone(), share.abs()),
            Way::CrissCross | Way::Primal => Rational::zero(),
        })
    };
    first_smallest(program.n_columns(), ratio)
}

/// Returns the column that leaves the basis in exchange for a column whose reduced cost is
/// infeasible; the value of the leaving column becomes zero.
fn leaving_for(
    program: &LinearProgram,
    (optimum, costs): (&Optimum, &[BigInt]),
    entering: usize,
    shares: &[BigInt],
    way: Way,
) -> Option<usize> {
    let cost = costs[entering].sign();
    let ratio = |column: usize| {
        let share = &shares[column];
        // The entering column increases if its cost is negative, and replaces a column with a
        // positive coefficient.
        let can_leave = match program.domain(column) {
            Domain::Free => false,
            Domain::NonNegative => !share.is_zero() && share.sign() == -cost,
            Domain::Zero => !share.is_zero(),
        };
        let value = &optimum.primal.numerators[column];
        can_leave.then(|| match way {
            Way::Primal => Rational::new_raw(value.clone(), share.abs()),
            Way::CrissCross | Way::Dual => Rational::zero(),
        })
    };
    first_smallest(program.n_columns(), ratio)
}

/// The pivoting rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Criss-cross, used until all values or all costs are feasible.
    CrissCross,
    /// The primal simplex method, which keeps all values feasible.
    Primal,
    /// The dual simplex method, which keeps all costs feasible.
    Dual,
}

/// Returns the first column with the smallest ratio, among the columns that have a ratio.
fn first_smallest(n_columns: usize, ratio: impl Fn(usize) -> Option<Rational>) -> Option<usize> {
    let ratios = (0..n_columns).filter_map(|column| Some((ratio(column)?, column)));
    let least = ratios.min_by(|(ratio, _), (other, _)| compare(ratio, other));
    least.map(|(_, column)| column)
}

impl SimplexError {
    /// Converts the error for the program of a game, which is known to have an optimum.
    pub(super) fn of_game(self, operation: &'static str) -> Error {
        match self {
            Self::Halted(halt) => halt.error(operation),
            Self::Infeasible | Self::Unbounded => {
                unreachable!("the program of a game has an optimum")
            }
        }
    }
}

impl From<LimitReached> for SimplexError {
    fn from(halt: LimitReached) -> Self {
        Self::Halted(halt)
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::{MAX_STEPS, Prover};
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::Config;

    fn rational(number: i64) -> Rational {
        Rational::from_integer(number.into())
    }

    fn unlimited() -> Work<'static> {
        Work::new(&Prover::new())
    }

    fn solve(program: &LinearProgram) -> Result<Optimum, SimplexError> {
        super::solve(program, &unlimited())
    }

    fn optimal_value(program: &LinearProgram, optimum: &Optimum) -> Rational {
        program.value(optimum, &unlimited()).unwrap()
    }

    /// Returns a program with nonnegative variables and inequalities.
    fn inequalities(objective: &[i64], rows: &[(Vec<i64>, i64)]) -> LinearProgram {
        let variables = objective
            .iter()
            .map(|&share| (Domain::NonNegative, rational(share)));
        let mut program = LinearProgram::maximize(variables, &unlimited()).unwrap();
        for (entries, right) in rows {
            let terms = entries.iter().map(|&entry| rational(entry)).enumerate();
            let right = rational(*right);
            program
                .push_row(terms.collect(), Domain::NonNegative, right, &unlimited())
                .unwrap();
        }
        program
    }

    fn value(program: &LinearProgram) -> Result<String, SimplexError> {
        solve(program).map(|optimum| optimal_value(program, &optimum).to_string())
    }

    #[test]
    fn programs_without_optimum_are_distinguished() {
        let bounded = inequalities(&[1, 1], &[(vec![2, 1], 3), (vec![1, 3], 5)]);
        assert_eq!(value(&bounded), Ok("11/5".into()));
        let infeasible = inequalities(&[1, 1], &[(vec![1, 1], 1), (vec![-1, -1], -2)]);
        assert_eq!(value(&infeasible), Err(SimplexError::Infeasible));
        let unbounded = inequalities(&[1, 1], &[(vec![1, -1], 1)]);
        assert_eq!(value(&unbounded), Err(SimplexError::Unbounded));
        let empty = inequalities(&[0, 0], &[]);
        assert_eq!(value(&empty), Ok("0".into()));
        let nothing = inequalities(&[], &[(vec![], 1)]);
        assert_eq!(value(&nothing), Ok("0".into()));
    }

    #[test]
    fn free_variables_and_repeated_equations_are_solved() {
        let free = (Domain::Free, rational(1));
        let bounded = (Domain::NonNegative, rational(-2));
        let mut program =
            LinearProgram::maximize([free.clone(), free, bounded], &unlimited()).unwrap();
        let terms = |entries: [i64; 3]| entries.map(rational).into_iter().enumerate().collect();
        // The row x + y = z - 4 with three factors, and the row x - y = 1 times 30.
        for factor in [1, -2, 3] {
            let entries = [factor, factor, -factor];
            let right = rational(-4 * factor);
            program
                .push_row(terms(entries), Domain::Zero, right, &unlimited())
                .unwrap();
        }
        let difference = terms([30, -30, 0]);
        program
            .push_row(difference, Domain::Zero, rational(30), &unlimited())
            .unwrap();
        let optimum = solve(&program).unwrap();
        assert_eq!(optimal_value(&program, &optimum), rational(-4));
        let variable = |at| program.variable(&optimum, at, &unlimited()).unwrap();
        let x: Vec<String> = (0..3).map(|at| variable(at).to_string()).collect();
        assert_eq!(x, ["-3/2", "-5/2", "0"]);
    }

    #[test]
    fn equations_that_contradict_each_other_are_infeasible() {
        let mut program =
            LinearProgram::maximize([(Domain::Free, rational(1))], &unlimited()).unwrap();
        for (entry, right) in [(2, 1), (4, 3)] {
            let terms = vec![(0, rational(entry))];
            program
                .push_row(terms, Domain::Zero, rational(right), &unlimited())
                .unwrap();
        }
        assert_eq!(value(&program), Err(SimplexError::Infeasible));
    }

    #[test]
    fn values_are_in_the_units_of_the_rows_before_scaling() {
        let half = Rational::new(1.into(), 2.into());
        let share = [(Domain::NonNegative, half.clone())];
        let mut program = LinearProgram::maximize(share, &unlimited()).unwrap();
        let terms = vec![(0, half / rational(3))];
        program
            .push_row(terms, Domain::NonNegative, rational(7), &unlimited())
            .unwrap();
        let optimum = solve(&program).unwrap();
        assert_eq!(optimal_value(&program, &optimum), rational(21));
        assert_eq!(
            program.variable(&optimum, 0, &unlimited()),
            Ok(rational(42))
        );
    }

    #[test]
    fn cycling_programs_end() {
        // Example of Beale 1955: the simplex method with the largest-cost rule cycles.
        let rows = [
            (vec![25, -6000, -4, 900], 0),
            (vec![50, -9000, -2, 300], 0),
            (vec![0, 0, 1, 0], 1),
        ];
        let program = inequalities(&[75, -15_000, 2, -600], &rows);
        for start in [vec![0, 1, 2, 3, 4, 5, 6], vec![6, 5, 4, 3, 2, 1, 0]] {
            let optimum = solve_from(&program, &start, &unlimited()).unwrap();
            assert_eq!(optimal_value(&program, &optimum), rational(5));
        }
    }

    #[test]
    fn steps_that_are_used_up_end_the_proof() {
        let program = inequalities(&[1, 1], &[(vec![2, 1], 3), (vec![1, 3], 5)]);
        let short = solve_from(&program, &[2, 3, 0, 1], &Work::with_steps(20));
        assert_eq!(
            short.unwrap_err(),
            SimplexError::Halted(LimitReached::Steps)
        );
        let error = SimplexError::Halted(LimitReached::Steps).of_game("exact");
        assert_eq!(
            error,
            Error::Unproved {
                operation: "exact",
                limit: MAX_STEPS
            }
        );
    }

    fn programs() -> impl Strategy<Value = (LinearProgram, Vec<usize>)> {
        let entries = prop::collection::vec(-3..=3_i64, 4);
        let row = (entries.clone(), -2..=5_i64, 0..6_u8);
        let rows = prop::collection::vec(row, 1..6);
        let domains = prop::collection::vec(prop::bool::weighted(0.2), 4);
        (entries, domains, rows).prop_flat_map(|(objective, is_free, rows)| {
            let domain = |free| {
                if free {
                    Domain::Free
                } else {
                    Domain::NonNegative
                }
            };
            let domains = is_free.into_iter().map(domain);
            let variables = domains.zip(objective.into_iter().map(rational));
            let mut program = LinearProgram::maximize(variables, &unlimited()).unwrap();
            for (entries, right, kind) in rows {
                let slack = if kind == 0 {
                    Domain::Zero
                } else {
                    Domain::NonNegative
                };
                let terms = entries.into_iter().map(rational).enumerate();
                program
                    .push_row(terms.collect(), slack, rational(right), &unlimited())
                    .unwrap();
            }
            let start = Just((0..program.n_columns()).collect::<Vec<_>>()).prop_shuffle();
            (Just(program), start)
        })
    }

    proptest! {
        #![proptest_config(Config { cases: 500, failure_persistence: None, ..Config::default() })]

        #[test]
        fn any_start_leads_to_the_same_answer((program, start) in programs()) {
            let guessed = solve(&program).map(|optimum| optimal_value(&program, &optimum));
            let from_start = solve_from(&program, &start, &unlimited());
            let from_start = from_start.map(|optimum| optimal_value(&program, &optimum));
            match (guessed, from_start) {
                (Ok(guessed), Ok(other)) => prop_assert_eq!(guessed, other),
                // A program and its dual can both be infeasible.
                (Err(_), Err(_)) => {}
                (guessed, other) => prop_assert!(false, "{:?} and {:?}", guessed, other),
            }
            // The dual of the dual is the program; its value has the other sign.
            prop_assert_eq!(solve(&program).is_ok(), solve(&program.dual()).is_ok());
        }
    }
}
