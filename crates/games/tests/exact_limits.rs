//! Limits of proofs: deadlines, cancellation, and payoffs with too many digits.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

mod support;

use games::exact::{Dominance, Objective, Prover, all_equilibria, lemke_howson};
use games::extensive::{Kuhn, Tree};
use games::ndarray::{Array2, array};
use games::{Bimatrix, Error, MatrixGame, Rational};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use support::random_game;
use tensor_core::rng::Philox;

/// Far more than a look at the clock takes, far less than the proofs that are cut short.
const PATIENCE: Duration = Duration::from_secs(8);

/// Fractions of so many decimal digits.
fn long_fractions(side: usize, n_digits: usize, key: u64) -> Array2<Rational> {
    let random = Philox::new(key);
    let number = |first: usize| -> String {
        let digit = |at: usize| char::from(b'1' + (random.word(at as u64) % 9) as u8);
        (first..first + n_digits).map(digit).collect()
    };
    Array2::from_shape_fn((side, side), |(row, col)| {
        let first = (row * side + col) * 2 * n_digits;
        Rational::new_raw(
            number(first).parse().unwrap(),
            number(first + n_digits).parse().unwrap(),
        )
    })
}

#[test]
fn every_proof_has_a_deadline() {
    let late = Prover::new().until(Instant::now());
    let matrix = random_game([3, 3], 1);
    let bimatrix = Bimatrix::new(array![[3, 0], [0, 2]], array![[2, 0], [0, 3]]).unwrap();
    let tree = Tree::of(&Kuhn).unwrap();
    let faults = [
        late.exact(&matrix).unwrap_err(),
        late.exact(&tree).unwrap_err(),
        late.sequence_form_lp(&tree).unwrap_err(),
        late.all_equilibria(&bimatrix).unwrap_err(),
        late.lemke_howson(&bimatrix, 0).unwrap_err(),
        late.lemke_howson_all(&bimatrix).unwrap_err(),
        late.correlated_equilibrium(&bimatrix, &Objective::Any)
            .unwrap_err(),
        late.coarse_correlated_equilibrium(&bimatrix, &Objective::Any)
            .unwrap_err(),
        late.eliminate_dominated(&bimatrix, Dominance::Strict)
            .unwrap_err(),
    ];
    for fault in faults {
        assert!(matches!(fault, Error::DeadlineReached { .. }), "{fault}");
    }
}

#[test]
fn proofs_of_minutes_end_soon_after_their_deadline() {
    let within = Duration::from_millis(100);
    let long = MatrixGame::zero_sum(long_fractions(4, 5000, 3)).unwrap();
    let general = |side: usize| {
        let [rows, cols] = [5, 6].map(|key| {
            let random = Philox::new(key);
            Array2::from_shape_fn((side, side), |(row, col)| {
                random.normal((row * side + col) as u64)
            })
        });
        Bimatrix::new(rows, cols).unwrap()
    };
    let (middle, large) = (general(40), general(120));
    let small = Bimatrix::new(
        Array2::from_shape_fn((14, 14), |(row, col)| ((row * 31 + col * 17) % 29) as f64),
        Array2::from_shape_fn((14, 14), |(row, col)| ((row * 13 + col * 23) % 27) as f64),
    );
    let small = small.unwrap();
    let proofs: [&dyn Fn() -> Option<Error>; 4] = [
        &|| Prover::new().within(within).exact(&long).err(),
        &|| {
            Prover::new()
                .within(within)
                .correlated_equilibrium(&middle, &Objective::Welfare)
                .err()
        },
        &|| Prover::new().within(within).lemke_howson_all(&large).err(),
        &|| Prover::new().within(within).all_equilibria(&small).err(),
    ];
    for (number, proof) in proofs.iter().enumerate() {
        let begin = Instant::now();
        let fault = proof();
        let took = begin.elapsed();
        assert!(
            matches!(fault, Some(Error::DeadlineReached { .. })),
            "{number}: {fault:?}"
        );
        assert!(took < PATIENCE, "{number}: {took:?}");
    }
}

#[test]
fn a_caller_cancels_a_proof() {
    let calls = Cell::new(0);
    let watch = || {
        calls.set(calls.get() + 1);
        if calls.get() > 5 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let long = MatrixGame::zero_sum(long_fractions(4, 5000, 3)).unwrap();
    let fault = Prover::new().watched_by(&watch).exact(&long).unwrap_err();
    assert_eq!(fault, Error::Cancelled { operation: "exact" });
    assert_eq!(calls.get(), 6);
}

#[test]
fn payoffs_of_too_many_digits_are_refused_at_once() {
    let game = Bimatrix::new(long_fractions(4, 20_000, 1), long_fractions(4, 20_000, 2)).unwrap();
    let begin = Instant::now();
    for fault in [
        all_equilibria(&game).unwrap_err(),
        lemke_howson(&game, 0).unwrap_err(),
    ] {
        let Error::TooLarge { needed, limit, .. } = fault else {
            panic!("{fault}");
        };
        assert!(limit == 4096 && needed > 60_000, "{needed}");
    }
    assert!(
        begin.elapsed() < Duration::from_secs(1),
        "{:?}",
        begin.elapsed()
    );
    // Long denominators alone are not too long, if the numerators over the common one are short.
    let scale = Rational::new(1.into(), num_bigint::BigInt::from(3).pow(9000));
    let thirds = Array2::from_shape_fn((2, 2), |(row, col)| {
        &scale * Rational::from_integer(i64::from(row == col).into())
    });
    let game = Bimatrix::new(thirds.clone(), thirds).unwrap();
    assert_eq!(all_equilibria(&game).unwrap().len(), 3);
}
