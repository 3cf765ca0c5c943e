//! Regret matching in the order of a published snippet, used to reproduce its claims.
//!
//! Role: used by the ledger of claims; to solve a game, use [`crate::solve`]. The snippet computes
//! the next strategy before it adds the regrets of the last one, and averages the strategies two to
//! `N + 1` while regrets are of strategies one to `N`. Therefore its error estimate is not the
//! upper bound that it is claimed to be.
//! Method: as in the snippet, but games need not be square. The first two strategies are both
//! uniform.
//! Source: the PyTorch snippet in "Approximate Nash equilibrium by regret matching" (2023).

use crate::regret::in_proportion;
use crate::strategic::StrategicGame;
use crate::{MatrixGame, Profile, draw::draw};
use rand::Rng;

/// The loop of the reproduced snippet, on a zero-sum game.
///
/// # Examples
/// ```
/// use games::{MatrixGame, SourceOrder, ndarray::array};
///
/// let game = MatrixGame::zero_sum(array![[0, -1, 2], [1, 0, -1], [-2, 1, 0]])?;
/// let mut run = SourceOrder::new(&game);
/// run.advance(500);
/// assert!((run.estimate() - 0.107_107_850_613_778).abs() < 1e-14);
/// # Ok::<(), games::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SourceOrder<'g> {
    game: &'g MatrixGame,
    iteration: u64,
    strategies: Profile,
    regrets: Profile,
    sums: Profile,
}

impl<'g> SourceOrder<'g> {
    /// Starts with uniform strategies.
    #[must_use]
    pub fn new(game: &'g MatrixGame) -> Self {
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

    /// Runs iterations of the averaged variant, in which regrets are against mixed strategies.
    pub fn advance(&mut self, iterations: u64) {
        let mut values = self.strategies.clone();
        for _ in 0..iterations {
            self.game.all_action_values(&self.strategies, &mut values);
            let pairs = values[0].iter().zip(&self.strategies[0]);
            let value: f64 = pairs.map(|(value, p)| value * p).sum();
            self.update(&values, [value, -value]);
        }
    }

    /// Runs iterations of the stochastic variant, in which both players' actions are drawn and
    /// regrets are against the drawn actions.
    pub fn advance_stochastic(&mut self, iterations: u64, rng: &mut impl Rng) {
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
    pub fn average(&self) -> Profile {
        self.sums.iter().map(|sums| in_proportion(sums)).collect()
    }

    /// Returns the snippet's estimate of the error: twice the largest average regret of either
    /// player; NaN before the first iteration.
    #[must_use]
    pub fn estimate(&self) -> f64 {
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
