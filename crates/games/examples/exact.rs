//! Solves a bimatrix game exactly: dominated actions, all equilibria, correlated equilibrium.
//!
//! Run it with `cargo run -p games --example exact`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use games::exact::{self, Dominance, Objective, Prover};
use games::{Bimatrix, ndarray::array};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    // Chicken with a third action that is never a good choice.
    let game = Bimatrix::new(
        array![[6, 2, 1], [7, 0, 1], [0, -1, -2]],
        array![[6, 7, 0], [2, 0, -1], [1, 1, -2]],
    )?;
    let rest = exact::eliminate_dominated(&game, Dominance::Strict)?;
    println!("actions left after strict dominance: {:?}", rest.surviving);

    // A prover has a time limit; the functions of `exact` have none.
    let prover = Prover::new().time_limit(Duration::from_secs(10));
    for equilibrium in prover.all_equilibria(&game)? {
        let show = |strategy: &[games::Rational]| {
            strategy
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let [row, col] = &equilibrium.strategies;
        println!(
            "row {}, column {}, payoffs {} and {}",
            show(row),
            show(col),
            equilibrium.payoffs[0],
            equilibrium.payoffs[1]
        );
        exact::verify(&game, &equilibrium)?;
    }

    // A mediator who recommends actions can reach more welfare than any equilibrium.
    let best = prover.correlated_equilibrium(&game, &Objective::Welfare)?;
    println!(
        "welfare of the best correlated equilibrium: {}",
        best.objective
    );
    assert_eq!(best.objective.to_string(), "21/2");
    Ok(())
}
