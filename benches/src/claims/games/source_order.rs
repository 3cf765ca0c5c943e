//! Regret matching in the order of a published snippet, used to reproduce its claims.
//!
//! Method: in each of its `N` iterations, the snippet computes the next strategy before it adds the
//! regrets of the current one. It averages strategies 2 to `N + 1`, but its regrets are those of
//! strategies 1 to `N`. Therefore its error estimate is not the upper bound that it is claimed to
//! be. Unlike in the snippet, games need not be square. The first two strategies are both uniform.
//! Source: the PyTorch snippet in "Approximate Nash equilibrium by regret matching" (2023).

use games::{MatrixGame, Profile, StrategicGame as _};
use rand::{Rng, RngExt as _};

/// The loop of the reproduced snippet, on a zero-sum game.
#[derive(Clone, Debug)]
pub(super) struct SourceOrder<'g> {
    game: &'g MatrixGame,
    iteration: u64,
    strategies: Profile,
    regrets: Profile,
    sums: Profile,
}

impl<'g> SourceOrder<'g> {
    /// Creates the state before the first iteration, with uniform strategies.
    #[must_use]
    pub(super) fn new(game: &'g MatrixGame) -> Self {
        let of_each = |number: fn(usize) -> f64| -> Profile {
            game.shape().iter().map(|&n| vec![number(n); n]).collect()
        };
        Self {
            game,
            iteration: 0,
            strategies: of_each(|n| 1.0 / n as f64),
            regrets: of_each(|_| 0.0),
            sums: of_each(|_| 0.0),
        }
    }

    /// Runs iterations of the averaged variant, whose regrets are computed against the opponent's
    /// mixed strategy.
    pub(super) fn advance(&mut self, iterations: u64) {
        let mut values = self.strategies.clone();
        for _ in 0..iterations {
            self.game.all_action_values(&self.strategies, &mut values);
            let pairs = values[0].iter().zip(&self.strategies[0]);
            let value: f64 = pairs.map(|(value, p)| value * p).sum();
            self.update(&values, [value, -value]);
        }
    }

    /// Runs iterations of the stochastic variant: both players draw an action, and regrets are
    /// computed against the opponent's drawn action.
    pub(super) fn advance_stochastic(&mut self, iterations: u64, rng: &mut impl Rng) {
        let (payoffs, n_cols) = (self.game.row_payoffs(), self.game.n_cols());
        for _ in 0..iterations {
            let row = draw(&self.strategies[0], rng);
            let col = draw(&self.strategies[1], rng);
            let of_row = payoffs[col..].iter().step_by(n_cols).copied();
            let of_col = payoffs[row * n_cols..][..n_cols]
                .iter()
                .map(|payoff| -payoff);
            let values = [of_row.collect(), of_col.collect()];
            let value = payoffs[row * n_cols + col];
            self.update(&values, [value, -value]);
        }
    }

    /// Returns the average strategies; uniform before the first iteration.
    #[must_use]
    pub(super) fn average(&self) -> Profile {
        self.sums.iter().map(|sums| in_proportion(sums)).collect()
    }

    /// Returns the snippet's estimate of the error: twice the largest average regret of either
    /// player; NaN before the first iteration.
    #[must_use]
    pub(super) fn estimate(&self) -> f64 {
        let regrets = self.regrets.iter().flatten().copied();
        2.0 * regrets.fold(f64::NEG_INFINITY, f64::max) / self.iteration as f64
    }

    fn update(&mut self, values: &[Vec<f64>], worth: [f64; 2]) {
        self.iteration += 1;
        for player in 0..2 {
            let (regrets, strategy) = (&mut self.regrets[player], &mut self.strategies[player]);
            // The snippet computes the strategy first, from regrets that lack those of this
            // iteration.
            *strategy = in_proportion(regrets);
            for (regret, value) in regrets.iter_mut().zip(&values[player]) {
                *regret += value - worth[player];
            }
            for (sum, p) in self.sums[player].iter_mut().zip(&*strategy) {
                *sum += p;
            }
        }
    }
}

/// Returns probabilities in proportion to the positive parts of numbers; uniform if no number is
/// positive.
fn in_proportion(numbers: &[f64]) -> Vec<f64> {
    let total: f64 = numbers.iter().map(|number| number.max(0.0)).sum();
    let equal = 1.0 / numbers.len() as f64;
    let share = |number: &f64| {
        if total > 0.0 {
            number.max(0.0) / total
        } else {
            equal
        }
    };
    numbers.iter().map(share).collect()
}

/// Draws the index of an action with the given probabilities.
fn draw(probabilities: &[f64], rng: &mut impl Rng) -> usize {
    let mut left: f64 = rng.random();
    let drawn = probabilities.iter().position(|p| {
        left -= p;
        left < 0.0
    });
    // Probabilities may sum to slightly less than 1; the last action is then drawn.
    drawn.unwrap_or(probabilities.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use games::{nash_conv, ndarray::array};
    use tensor_core::compare::{Tolerance, assert_close};

    /// Results of the snippet in NumPy, one row per run: number of iterations, average strategy of
    /// the row player, NashConv of the average profile, and the snippet's estimate of the error.
    const TRACE: [(u64, [f64; 3], f64, f64); 3] = [
        (
            10,
            [
                0.301_036_036_036_036,
                0.665_630_630_630_630_7,
                0.033_333_333_333_333_33,
            ],
            0.535_405_405_405_405_4,
            0.535_405_405_405_405_4,
        ),
        (
            100,
            [
                0.198_101_170_236_331_6,
                0.519_214_076_892_647_4,
                0.282_684_752_871_021_1,
            ],
            0.246_023_472_839_968_5,
            0.242_729_396_467_361_33,
        ),
        (
            1000,
            [
                0.236_613_551_674_985_9,
                0.515_646_583_948_935_1,
                0.247_739_864_376_078_92,
            ],
            0.084_838_961_197_926_67,
            0.084_172_294_531_260_02,
        ),
    ];

    #[test]
    fn the_snippet_is_followed() {
        let game = MatrixGame::zero_sum(array![[0, -1, 2], [1, 0, -1], [-2, 1, 0]]).unwrap();
        let tolerance = || Tolerance::exact().or_absolute(1e-13);
        for (iterations, strategy, distance, estimate) in TRACE {
            let mut run = SourceOrder::new(&game);
            run.advance(iterations);
            let profile = run.average();
            assert_close(&profile[0], strategy, tolerance());
            assert_close(&profile[1], strategy, tolerance());
            assert_close(
                [nash_conv(&game, &profile).unwrap()],
                [distance],
                tolerance(),
            );
            assert_close([run.estimate()], [estimate], tolerance());
        }
    }
}
