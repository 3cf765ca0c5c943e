//! From a guess to an optimum: exact exchanges of columns.
//!
//! Method: if the exact solution and prices of a basis do not prove each other optimal, columns are exchanged: by the
//! simplex method if all values are right, by the dual one if all costs are, both by Bland's rule, and until then by the
//! least-index criss-cross rule, which may start anywhere. None of them comes back to a basis, so there is an end.
//! Source: Bland 1977, "New finite pivoting rules for the simplex method"; Terlaky 1985, "A convergent criss-cross
//! method".

use super::basis::Basis;
use super::guess;
use super::lifting::{Budget, Exhausted};
use super::program::{Domain, Optimum, Program};
use crate::{Error, Rational};
use num_bigint::BigInt;
use num_traits::{Signed, Zero};

/// Steps of arithmetic that a proof may take, a few nanoseconds each.
const BUDGET: u64 = 1 << 32;

/// Why a program has no optimum, or none that is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No numbers satisfy the rows.
    Infeasible,
    /// The dual has no solution: if the program has one, its objective has no bound.
    Unbounded,
    /// The proof takes more steps of arithmetic than it may.
    TooLong,
}

/// Solves a program and proves it.
pub(super) fn solve(program: &Program) -> Result<Optimum, Fault> {
    let preference = guess::preference(program);
    solve_from(program, &preference, Budget::new(BUDGET))
}

/// Solves a program, starting from the basis that an order of its columns gives.
fn solve_from(
    program: &Program,
    preference: &[usize],
    mut budget: Budget,
) -> Result<Optimum, Fault> {
    let mut basis = Basis::choose(program, preference, &mut budget)?;
    let mut way = Way::CrissCross;
    loop {
        let optimum = basis.optimum(&mut budget)?;
        let n_entries = program.n_entries() + program.n_columns();
        budget.spend(n_entries, optimum.dual.denominator.bits())?;
        let wrong_value = program.first_wrong_value(&optimum);
        let wrong_cost = program.first_wrong_cost(&optimum);
        way = match (way, wrong_value, wrong_cost) {
            (_, None, None) => {
                assert!(
                    program.is_proof(&optimum),
                    "a basis without fault is a proof"
                );
                return Ok(optimum);
            }
            (Way::CrissCross, None, _) => Way::Primal,
            (Way::CrissCross, _, None) => Way::Dual,
            (way, _, _) => way,
        };
        let by_value = wrong_value.filter(|&value| wrong_cost.is_none_or(|cost| value < cost));
        let (leaving, entering) = match (by_value, wrong_cost) {
            (Some(leaving), _) => {
                let shares = basis.shares_in(leaving, &mut budget)?;
                let entering = entering_for(program, &optimum, leaving, &shares, way);
                (leaving, entering.ok_or(Fault::Infeasible)?)
            }
            (None, Some(entering)) => {
                let shares = basis.shares_of(entering, &mut budget)?;
                let leaving = leaving_for(program, &optimum, entering, &shares, way);
                (leaving.ok_or(Fault::Unbounded)?, entering)
            }
            (None, None) => unreachable!("it would be an optimum"),
        };
        basis = Basis::choose(program, &basis.exchanged(leaving, entering), &mut budget)?;
    }
}

/// Gives the column that enters for one whose value is wrong: it brings the value to zero.
fn entering_for(
    program: &Program,
    optimum: &Optimum,
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
        let cost = || program.reduced_cost(column, &optimum.dual);
        can_enter.then(|| match way {
            Way::Dual => Rational::new_raw(cost(), share.abs()),
            Way::CrissCross | Way::Primal => Rational::zero(),
        })
    };
    first_smallest(program.n_columns(), ratio)
}

/// Gives the column that leaves for one whose cost is wrong: it goes to zero.
fn leaving_for(
    program: &Program,
    optimum: &Optimum,
    entering: usize,
    shares: &[BigInt],
    way: Way,
) -> Option<usize> {
    let cost = program.reduced_cost(entering, &optimum.dual).sign();
    let ratio = |column: usize| {
        let share = &shares[column];
        // The entering column grows if its cost is negative, and takes the place of those with positive shares.
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

/// How columns are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Until all values or all costs are right.
    CrissCross,
    /// So that all values stay right.
    Primal,
    /// So that all costs stay right.
    Dual,
}

/// Gives the column whose ratio is smallest, the first of them, among those that have one.
fn first_smallest(n_columns: usize, ratio: impl Fn(usize) -> Option<Rational>) -> Option<usize> {
    let ratios = (0..n_columns).filter_map(|column| Some((ratio(column)?, column)));
    ratios.min().map(|(_, column)| column)
}

impl Fault {
    /// Gives the error of a program that is known to have an optimum.
    pub(super) fn of_game(self, operation: &'static str) -> Error {
        match self {
            Self::TooLong => Error::Unproved {
                operation,
                limit: BUDGET,
            },
            Self::Infeasible | Self::Unbounded => {
                unreachable!("the program of a game has an optimum")
            }
        }
    }
}

impl From<Exhausted> for Fault {
    fn from(_: Exhausted) -> Self {
        Self::TooLong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::Config;

    fn rational(number: i64) -> Rational {
        Rational::from_integer(number.into())
    }

    /// Makes a program of non-negative variables and inequalities.
    fn inequalities(objective: &[i64], rows: &[(Vec<i64>, i64)]) -> Program {
        let variables = objective
            .iter()
            .map(|&share| (Domain::NonNegative, rational(share)));
        let mut program = Program::maximize(variables);
        for (entries, right) in rows {
            let terms = entries.iter().map(|&entry| rational(entry)).enumerate();
            program.push_row(terms.collect(), Domain::NonNegative, rational(*right));
        }
        program
    }

    fn value(program: &Program) -> Result<String, Fault> {
        solve(program).map(|optimum| program.value(&optimum).to_string())
    }

    #[test]
    fn programs_without_optimum_are_told_apart() {
        let bounded = inequalities(&[1, 1], &[(vec![2, 1], 3), (vec![1, 3], 5)]);
        assert_eq!(value(&bounded), Ok("11/5".into()));
        let infeasible = inequalities(&[1, 1], &[(vec![1, 1], 1), (vec![-1, -1], -2)]);
        assert_eq!(value(&infeasible), Err(Fault::Infeasible));
        let unbounded = inequalities(&[1, 1], &[(vec![1, -1], 1)]);
        assert_eq!(value(&unbounded), Err(Fault::Unbounded));
        let empty = inequalities(&[0, 0], &[]);
        assert_eq!(value(&empty), Ok("0".into()));
        let nothing = inequalities(&[], &[(vec![], 1)]);
        assert_eq!(value(&nothing), Ok("0".into()));
    }

    #[test]
    fn free_variables_and_repeated_equations_are_solved() {
        let free = (Domain::Free, rational(1));
        let bounded = (Domain::NonNegative, rational(-2));
        let mut program = Program::maximize([free.clone(), free, bounded]);
        let terms = |entries: [i64; 3]| entries.map(rational).into_iter().enumerate().collect();
        // x + y = z - 4, three times; x - y = 1, by a tenth and by 30.
        for factor in [1, -2, 3] {
            let entries = [factor, factor, -factor];
            program.push_row(terms(entries), Domain::Zero, rational(-4 * factor));
        }
        program.push_row(terms([30, -30, 0]), Domain::Zero, rational(30));
        let optimum = solve(&program).unwrap();
        assert_eq!(program.value(&optimum), rational(-4));
        let x: Vec<String> = (0..3)
            .map(|variable| program.variable(&optimum, variable).to_string())
            .collect();
        assert_eq!(x, ["-3/2", "-5/2", "0"]);
    }

    #[test]
    fn equations_that_contradict_each_other_are_infeasible() {
        let mut program = Program::maximize([(Domain::Free, rational(1))]);
        program.push_row(vec![(0, rational(2))], Domain::Zero, rational(1));
        program.push_row(vec![(0, rational(4))], Domain::Zero, rational(3));
        assert_eq!(value(&program), Err(Fault::Infeasible));
    }

    #[test]
    fn prices_are_those_of_the_rows_as_they_were_given() {
        let half = Rational::new(1.into(), 2.into());
        let mut program = Program::maximize([(Domain::NonNegative, half.clone())]);
        program.push_row(
            vec![(0, half.clone() / rational(3))],
            Domain::NonNegative,
            rational(7),
        );
        let optimum = solve(&program).unwrap();
        assert_eq!(program.value(&optimum), rational(21));
        assert_eq!(program.price(&optimum, 0), rational(3));
        assert_eq!(program.variable(&optimum, 0), rational(42));
    }

    #[test]
    fn cycling_programs_end() {
        // Beale 1955: the simplex method by largest costs comes back to where it was.
        let rows = [
            (vec![25, -6000, -4, 900], 0),
            (vec![50, -9000, -2, 300], 0),
            (vec![0, 0, 1, 0], 1),
        ];
        let program = inequalities(&[75, -15_000, 2, -600], &rows);
        for start in [vec![0, 1, 2, 3, 4, 5, 6], vec![6, 5, 4, 3, 2, 1, 0]] {
            let optimum = solve_from(&program, &start, Budget::new(BUDGET)).unwrap();
            assert_eq!(program.value(&optimum), rational(5));
        }
    }

    #[test]
    fn a_budget_that_is_spent_ends_the_proof() {
        let program = inequalities(&[1, 1], &[(vec![2, 1], 3), (vec![1, 3], 5)]);
        let short = solve_from(&program, &[2, 3, 0, 1], Budget::new(300));
        assert_eq!(short.unwrap_err(), Fault::TooLong);
        let error = Fault::TooLong.of_game("exact");
        assert_eq!(
            error,
            Error::Unproved {
                operation: "exact",
                limit: BUDGET
            }
        );
    }

    fn programs() -> impl Strategy<Value = (Program, Vec<usize>)> {
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
            let mut program = Program::maximize(domains.zip(objective.into_iter().map(rational)));
            for (entries, right, kind) in rows {
                let slack = if kind == 0 {
                    Domain::Zero
                } else {
                    Domain::NonNegative
                };
                let terms = entries.into_iter().map(rational).enumerate();
                program.push_row(terms.collect(), slack, rational(right));
            }
            let start = Just((0..program.n_columns()).collect::<Vec<_>>()).prop_shuffle();
            (Just(program), start)
        })
    }

    proptest! {
        #![proptest_config(Config { cases: 500, failure_persistence: None, ..Config::default() })]

        #[test]
        fn any_start_leads_to_the_same_answer((program, start) in programs()) {
            let guessed = solve(&program).map(|optimum| program.value(&optimum));
            let from_start = solve_from(&program, &start, Budget::new(BUDGET));
            let from_start = from_start.map(|optimum| program.value(&optimum));
            match (guessed, from_start) {
                (Ok(guessed), Ok(other)) => prop_assert_eq!(guessed, other),
                // A program can be infeasible and its dual as well.
                (Err(_), Err(_)) => {}
                (guessed, other) => prop_assert!(false, "{:?} and {:?}", guessed, other),
            }
            // The dual of the dual is the program; its value has the other sign.
            let dual = solve(&program.dual()).map(|optimum| program.dual().value(&optimum));
            let primal = solve(&program).map(|optimum| program.value(&optimum));
            prop_assert_eq!(primal.is_ok(), dual.is_ok());
        }
    }
}
