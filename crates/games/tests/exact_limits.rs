//! Limits of proofs: deadlines, cancellation, and payoffs with too many digits.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

mod support;

use games::exact::{Dominance, Objective, Prover, all_equilibria, lemke_howson};
use games::extensive::{Kuhn, LiarsDice, Tree, TreeBuilder};
use games::ndarray::{Array2, array};
use games::{Bimatrix, Error, MatrixGame, Rational};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use support::random_game;
use tensor_core::rng::Philox;

/// Time limit of proofs that would take from seconds to minutes without a limit.
const WITHIN: Duration = Duration::from_millis(50);
/// Largest allowed CPU time of a proof with the limit [`WITHIN`], or of an error without a proof;
/// some steps between two readings of the clock take 0.1 s.
const MOST_BUSY: Duration = Duration::from_millis(500);

/// A function that tries a proof with a prover and returns the error, if any.
type Proof<'a> = &'a dyn Fn(Prover<'_>) -> Option<Error>;

/// Returns the CPU time of this thread, which does not depend on the load of the machine.
#[cfg(target_os = "linux")]
fn busy() -> Duration {
    /// Clock ticks per second; the file contains times in clock ticks.
    const TICKS: u64 = 100;
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // The thread's name, which may contain spaces, is in parentheses; times in user and system
    // mode are fields 14 and 15 of the line, hence 12 and 13 of the rest.
    let (_, rest) = text.rsplit_once(')').unwrap();
    let fields = rest.split_ascii_whitespace().skip(11).take(2);
    let ticks: u64 = fields.map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 1000 / TICKS)
}

/// Returns the time since the first call.
#[cfg(not(target_os = "linux"))]
fn busy() -> Duration {
    static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

/// Returns a tree whose payoffs do not have a constant sum, in which both players see a signal of
/// chance and choose one of two actions.
fn signals(n_signals: usize) -> Tree {
    let names = |n: usize| vec![String::new(); n];
    let mut builder = TreeBuilder::new(String::new(), names(2));
    let mut sets = |player: usize| -> Vec<u32> {
        let set = |_| builder.information_set(player, "", names(2)).unwrap();
        (0..n_signals).map(set).collect()
    };
    let (first, second) = (sets(0), sets(1));
    let weights: Vec<i64> = (1..).take(n_signals).collect();
    builder.chance(&weights, || names(n_signals)).unwrap();
    let random = Philox::new(7);
    for signal in 0..n_signals {
        builder.decision(first[signal], 2).unwrap();
        for action in 0..2 {
            builder.decision(second[signal], 2).unwrap();
            for reply in 0..2 {
                let at = 8 * signal + 4 * action + 2 * reply;
                let payoff = |at: usize| i64::from(random.word(at as u64) % 1000);
                builder.terminal(&[payoff(at), payoff(at + 1)]).unwrap();
            }
        }
    }
    builder.finish().unwrap()
}

/// Returns a square matrix of random fractions with `n_digits` decimal digits.
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
    let late = Prover::new().deadline(Instant::now());
    let matrix = random_game([3, 3], 1);
    let bimatrix = Bimatrix::new(array![[3, 0], [0, 2]], array![[2, 0], [0, 3]]).unwrap();
    let tree = Tree::from_game(&Kuhn).unwrap();
    let faults = [
        late.exact(&matrix).unwrap_err(),
        late.exact(&tree).unwrap_err(),
        late.sequence_form_lp(&tree).unwrap_err(),
        late.strategic_form(&tree).unwrap_err(),
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
    let proofs: [Proof<'_>; 4] = [
        &|prover| prover.exact(&long).err(),
        &|prover| {
            let found = prover.correlated_equilibrium(&middle, &Objective::Welfare);
            found.err()
        },
        &|prover| prover.lemke_howson_all(&large).err(),
        &|prover| prover.all_equilibria(&small).err(),
    ];
    for (number, proof) in proofs.iter().enumerate() {
        let before = busy();
        let fault = proof(Prover::new().time_limit(WITHIN));
        let took = busy() - before;
        assert!(
            matches!(fault, Some(Error::DeadlineReached { .. })),
            "{number}: {fault:?}"
        );
        assert!(took < MOST_BUSY, "{number}: {took:?}");
    }
}

#[test]
fn a_caller_cancels_a_proof() {
    let long = MatrixGame::zero_sum(long_fractions(4, 5000, 3)).unwrap();
    let tree = signals(8);
    let proofs: [(&str, Proof<'_>); 2] = [
        ("exact", &|prover| prover.exact(&long).err()),
        ("extensive::StrategicForm", &|prover| {
            prover.strategic_form(&tree).err()
        }),
    ];
    for (operation, proof) in proofs {
        let calls = Cell::new(0);
        let watch = || {
            calls.set(calls.get() + 1);
            if calls.get() > 5 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let fault = proof(Prover::new().interrupted_by(&watch));
        assert_eq!(fault, Some(Error::Cancelled { operation }));
        assert_eq!(calls.get(), 6, "{operation}");
    }
}

#[test]
fn payoffs_of_too_many_digits_are_rejected_at_once() {
    let game = Bimatrix::new(long_fractions(4, 20_000, 1), long_fractions(4, 20_000, 2)).unwrap();
    let before = busy();
    for fault in [
        all_equilibria(&game).unwrap_err(),
        lemke_howson(&game, 0).unwrap_err(),
    ] {
        let Error::TooLarge { needed, limit, .. } = fault else {
            panic!("{fault}");
        };
        assert!(limit == 4096 && needed > 60_000, "{needed}");
    }
    let took = busy() - before;
    assert!(took < MOST_BUSY, "{took:?}");
    // Long denominators alone are not too long, if the numerators over the common one are short.
    let scale = Rational::new(1.into(), num_bigint::BigInt::from(3).pow(9000));
    let thirds = Array2::from_shape_fn((2, 2), |(row, col)| {
        &scale * Rational::from_integer(i64::from(row == col).into())
    });
    let game = Bimatrix::new(thirds.clone(), thirds).unwrap();
    assert_eq!(all_equilibria(&game).unwrap().len(), 3);
}

/// Returns a square matrix of normally distributed floats.
fn random_floats(side: usize, key: u64) -> Array2<f64> {
    let random = Philox::new(key);
    Array2::from_shape_fn((side, side), |(row, col)| {
        random.normal((row * side + col) as u64)
    })
}

#[test]
fn a_deadline_that_is_over_ends_a_proof_before_its_setup() {
    // To copy a million payoffs as fractions takes seconds in this profile.
    let side = 1000;
    let matrix = MatrixGame::zero_sum(random_floats(side, 1)).unwrap();
    let general = Bimatrix::new(random_floats(side, 2), random_floats(side, 3)).unwrap();
    let small = Bimatrix::new(random_floats(80, 2), random_floats(80, 3)).unwrap();
    let tree = Tree::from_game(&LiarsDice::new(4, 1).unwrap()).unwrap();
    let proofs: [Proof<'_>; 6] = [
        &|prover| prover.exact(&matrix).err(),
        &|prover| prover.lemke_howson(&general, 0).err(),
        &|prover| prover.lemke_howson_all(&general).err(),
        &|prover| {
            let found = prover.correlated_equilibrium(&small, &Objective::Welfare);
            found.err()
        },
        &|prover| prover.eliminate_dominated(&small, Dominance::Strict).err(),
        &|prover| prover.exact(&tree).err(),
    ];
    for (number, proof) in proofs.iter().enumerate() {
        let before = busy();
        let fault = proof(Prover::new().deadline(Instant::now()));
        let took = busy() - before;
        assert!(
            matches!(fault, Some(Error::DeadlineReached { .. })),
            "{number}: {fault:?}"
        );
        assert!(took <= Duration::from_millis(20), "{number}: {took:?}");
    }
}

#[test]
fn a_proof_looks_at_its_limits_while_it_is_set_up() {
    /// CPU time after which a proof is cancelled.
    const UNTIL: Duration = Duration::from_millis(50);
    /// Largest allowed CPU time between two calls of the cancellation function: several times the
    /// CPU time on an idle machine.
    const MOST_BETWEEN: Duration = Duration::from_millis(200);
    let matrix = MatrixGame::zero_sum(random_floats(500, 1)).unwrap();
    let general = Bimatrix::new(random_floats(300, 2), random_floats(300, 3)).unwrap();
    let small = Bimatrix::new(random_floats(60, 2), random_floats(60, 3)).unwrap();
    let long = MatrixGame::zero_sum(long_fractions(3, 20_000, 3)).unwrap();
    let tree = Tree::from_game(&LiarsDice::new(6, 1).unwrap()).unwrap();
    let proofs: [(&str, Proof<'_>); 7] = [
        ("floats", &|prover| prover.exact(&matrix).err()),
        ("path", &|prover| prover.lemke_howson(&general, 0).err()),
        ("correlated", &|prover| {
            let found = prover.correlated_equilibrium(&small, &Objective::Welfare);
            found.err()
        }),
        ("elimination", &|prover| {
            prover
                .eliminate_dominated(&general, Dominance::Strict)
                .err()
        }),
        ("long", &|prover| prover.exact(&long).err()),
        ("long correlated", &|prover| {
            let found = prover.correlated_equilibrium(&long, &Objective::Welfare);
            found.err()
        }),
        ("tree", &|prover| prover.exact(&tree).err()),
    ];
    for (what, proof) in proofs {
        let begin = busy();
        let last = Cell::new(begin);
        let most = Cell::new(Duration::ZERO);
        let watch = || {
            let now = busy();
            most.set(most.get().max(now - last.replace(now)));
            if now - begin >= UNTIL {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let fault = proof(Prover::new().interrupted_by(&watch));
        let between = most.get().max(busy() - last.get());
        assert!(
            matches!(fault, Some(Error::Cancelled { .. })),
            "{what}: {fault:?}"
        );
        assert!(between <= MOST_BETWEEN, "{what}: {between:?}");
    }
}

#[test]
fn the_evaluation_of_a_tree_solved_in_floats_can_be_cancelled() {
    let tree = Tree::from_game(&Kuhn).unwrap();
    let n_calls = Cell::new(0);
    let count = || {
        n_calls.set(n_calls.get() + 1);
        ControlFlow::Continue(())
    };
    let counting = Prover::new().interrupted_by(&count);
    counting.sequence_form_lp(&tree).unwrap();
    let n_all = n_calls.take();
    let cancel_last = || {
        n_calls.set(n_calls.get() + 1);
        if n_calls.get() < n_all {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    let cancelled = Prover::new()
        .interrupted_by(&cancel_last)
        .sequence_form_lp(&tree);
    let operation = "extensive::CompiledGame";
    assert_eq!(cancelled, Err(Error::Cancelled { operation }));
}
