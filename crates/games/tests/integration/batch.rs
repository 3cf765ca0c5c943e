//! Tests of batches against solutions of single games.

use crate::support::random_gains;
use games::ndarray::{Array3, Axis};
use games::{Batch, MatrixGame, Rule, SolverConfig, Updates, solve};
use tensor_core::compare::{Tolerance, assert_close};

#[test]
fn a_game_in_a_batch_is_learnt_as_if_it_were_alone() {
    let rules = [
        SolverConfig::default(),
        SolverConfig::regret_matching().updates(Updates::Simultaneous),
        SolverConfig::discounted(1.5, 0.0, 2.0),
        SolverConfig::fictitious_play(),
        SolverConfig::replicator(0.2),
        SolverConfig {
            rule: Rule::Hedge { rate: Some(0.7) },
            ..SolverConfig::hedge()
        },
    ];
    for (key, shape) in [[1, 1, 1], [9, 3, 3], [8, 2, 4], [17, 5, 3], [3, 1, 6]]
        .into_iter()
        .enumerate()
    {
        let gains = random_gains(shape, key as u64);
        let batch = Batch::zero_sum(gains.clone()).unwrap();
        for config in rules.map(|rule| rule.iterations(30)) {
            let together = batch.solve(&config).unwrap();
            for (game, gains) in gains.axis_iter(Axis(0)).enumerate() {
                let alone =
                    solve(&MatrixGame::zero_sum(gains.to_owned()).unwrap(), &config).unwrap();
                let bound = Tolerance::exact().or_absolute(1e-10);
                assert_close(together.rows.row(game), &alone.strategies[0], bound.clone());
                assert_close(together.cols.row(game), &alone.strategies[1], bound.clone());
                assert_close([together.values[game]], [alone.value], bound.clone());
                assert_close([together.nash_conv[game]], [alone.nash_conv], bound);
            }
        }
    }
}

#[test]
fn no_games_are_a_batch_and_empty_games_are_not() {
    let none = Batch::zero_sum(Array3::<f64>::zeros((0, 3, 3))).unwrap();
    assert_eq!(
        none.solve(&SolverConfig::default()).unwrap().rows.dim(),
        (0, 3)
    );
    assert!(Batch::zero_sum(Array3::<f64>::zeros((2, 0, 3))).is_err());
    assert!(Batch::zero_sum(Array3::from_elem((1, 2, 2), f64::NAN)).is_err());
    assert!(none.solve(&SolverConfig::hedge()).is_err());
    assert!(
        none.solve(&SolverConfig::default().iterations(u64::MAX))
            .is_err()
    );
}

#[test]
fn a_game_does_not_depend_on_the_other_games_of_a_batch() {
    let gains = random_gains([40, 3, 3], 5);
    let config = SolverConfig::default().iterations(50);
    let all = Batch::zero_sum(gains.clone())
        .unwrap()
        .solve(&config)
        .unwrap();
    for game in [0, 7, 31, 32, 39] {
        let one = gains
            .slice_axis(Axis(0), (game..game + 1).into())
            .to_owned();
        let one = Batch::zero_sum(one).unwrap().solve(&config).unwrap();
        assert_eq!(one.rows.row(0), all.rows.row(game));
        assert_eq!(one.nash_conv[0], all.nash_conv[game]);
    }
}

#[test]
fn a_step_is_in_range_if_it_is_in_the_range_of_each_game() {
    // The range of each game is 1; the payoffs of all games together range from -1 to 1.
    let gains = Array3::from_shape_fn((2, 2, 2), |(game, row, col)| match game {
        0 => f64::from(u8::from(row == col)),
        _ => -f64::from(u8::from(row == col)),
    });
    let batch = Batch::zero_sum(gains.clone()).unwrap();
    let config = SolverConfig::replicator(1.0).iterations(10);
    let together = batch.solve(&config).unwrap();
    for (game, gains) in gains.axis_iter(Axis(0)).enumerate() {
        let alone = solve(&MatrixGame::zero_sum(gains.to_owned()).unwrap(), &config).unwrap();
        assert_eq!(together.rows.row(game).to_vec(), alone.strategies[0]);
    }
    assert!(batch.solve(&SolverConfig::replicator(1.1)).is_err());
}

#[cfg(feature = "rayon")]
#[test]
fn the_number_of_threads_changes_nothing() {
    let batch = Batch::zero_sum(random_gains([200, 4, 3], 6)).unwrap();
    let solve = |n_threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(n_threads)
            .build()
            .unwrap();
        pool.install(|| {
            batch
                .solve(&SolverConfig::default().iterations(40))
                .unwrap()
        })
    };
    assert_eq!(solve(1), solve(3));
}
