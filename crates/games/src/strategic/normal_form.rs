//! Games with any number of players.

use super::matrix::check_not_empty;
use super::table::{self, Table};
use super::{Base, Bimatrix, Labels, MatrixGame, StrategicGame, assert_fits};
use crate::{Error, Number, Rational, Result};
use ndarray::ArrayD;

/// A game with any number of players: one payoff for each player in each cell.
///
/// # Examples
/// ```
/// use games::{NormalForm, StrategicGame, ndarray::ArrayD};
///
/// // Three voters, who gain 1 each if all agree.
/// let agree = ArrayD::from_shape_fn(vec![2, 2, 2], |at| i32::from(at[0] == at[1] && at[1] == at[2]));
/// let game = NormalForm::new(3, vec![agree.clone(), agree.clone(), agree])?;
/// let mut values = [0.0; 2];
/// game.action_values(0, &vec![vec![0.5, 0.5]; 3], &mut values);
/// assert_eq!(values, [0.25, 0.25]);
/// # Ok::<(), games::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NormalForm {
    shape: Vec<usize>,
    payoffs: Vec<Table>,
    labels: Labels,
}

impl NormalForm {
    /// Creates a game from one array of payoffs for each player, all of the same shape: the number
    /// of actions of each player.
    ///
    /// # Errors
    /// [`Error::EmptyGame`] if there are no players or a player has no actions;
    /// [`Error::ShapeMismatch`] if there are not `n_players` arrays, each with `n_players` axes, or
    /// if the arrays' shapes differ; [`Error::PayoffInvalid`] if a payoff is not finite or its
    /// absolute value exceeds 1e150.
    pub fn new<T: Number>(n_players: usize, payoffs: Vec<ArrayD<T>>) -> Result<Self> {
        const OPERATION: &str = "NormalForm::new";
        let mismatch = |expected: &[usize], actual: &[usize]| Error::ShapeMismatch {
            operation: OPERATION,
            expected: expected.to_vec(),
            actual: actual.to_vec(),
        };
        if payoffs.len() != n_players {
            return Err(mismatch(&[n_players], &[payoffs.len()]));
        }
        let shape = payoffs
            .first()
            .map_or(vec![], |first| first.shape().to_vec());
        check_not_empty(OPERATION, &shape)?;
        if shape.len() != n_players {
            return Err(mismatch(&[n_players], &[shape.len()]));
        }
        let table = |(player, payoffs): (usize, &ArrayD<T>)| {
            if payoffs.shape() != shape {
                return Err(mismatch(&shape, payoffs.shape()));
            }
            Table::new(OPERATION, player, &shape, payoffs.iter())
        };
        let payoffs = payoffs
            .iter()
            .enumerate()
            .map(table)
            .collect::<Result<_>>()?;
        Ok(Self {
            shape,
            payoffs,
            labels: Labels::default(),
        })
    }

    /// Returns the game with names.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] if the list of players' names or of actions' names is neither empty
    /// nor complete.
    pub fn with_labels(self, labels: Labels) -> Result<Self> {
        labels.check("NormalForm::with_labels", &self.shape)?;
        Ok(Self { labels, ..self })
    }

    /// Returns a player's payoffs, row-major, each rounded to the nearest f64.
    ///
    /// # Panics
    /// If there is no such player.
    #[must_use]
    pub fn payoffs(&self, player: usize) -> &[f64] {
        self.payoffs[player].floats()
    }
}

impl From<Bimatrix> for NormalForm {
    fn from(game: Bimatrix) -> Self {
        let (shape, payoffs, labels) = game.into_parts();
        Self {
            shape: shape.to_vec(),
            payoffs: payoffs.to_vec(),
            labels,
        }
    }
}

impl From<MatrixGame> for NormalForm {
    fn from(game: MatrixGame) -> Self {
        Bimatrix::from(game).into()
    }
}

impl TryFrom<NormalForm> for Bimatrix {
    type Error = Error;

    /// Converts a game of two players.
    fn try_from(game: NormalForm) -> Result<Self> {
        let unsupported = |n_players| Error::PlayersUnsupported {
            operation: "Bimatrix::try_from",
            n_players,
            must: "2",
        };
        let n_players = game.shape.len();
        let shape = <[usize; 2]>::try_from(game.shape).map_err(|_| unsupported(n_players))?;
        let payoffs = <[Table; 2]>::try_from(game.payoffs).map_err(|_| unsupported(n_players))?;
        Ok(Self::of_parts(shape, payoffs, game.labels))
    }
}

impl TryFrom<NormalForm> for MatrixGame {
    type Error = Error;

    /// Converts a game of two players whose payoffs have a constant sum.
    fn try_from(game: NormalForm) -> Result<Self> {
        Bimatrix::try_from(game)?.try_into()
    }
}

impl StrategicGame for NormalForm {
    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn payoff(&self, player: usize, cell: &[usize]) -> Rational {
        self.payoffs[player].fraction(table::position(&self.shape, cell))
    }

    fn payoff_range(&self, player: usize) -> f64 {
        self.payoffs[player].range()
    }

    fn constant(&self, player: usize) -> f64 {
        self.payoffs[player].constant()
    }

    fn payoff_size(&self, player: usize) -> f64 {
        self.payoffs[player].size()
    }

    fn expected(&self, base: Base, player: usize, profile: &[Vec<f64>], values: &mut [f64]) {
        assert_fits(&self.shape, player, profile, values);
        // Players after `player` are averaged out from the last axis on, then players before it
        // from the first axis on.
        let mut left = self.payoffs[player].of_base(base).to_vec();
        for other in (player + 1..self.shape.len()).rev() {
            let weights = &profile[other];
            left = left
                .chunks_exact(weights.len())
                .map(|row| dot(row, weights))
                .collect();
        }
        for weights in &profile[..player] {
            let n_rest = left.len() / weights.len();
            let mut sums = vec![0.0; n_rest];
            for (row, &weight) in left.chunks_exact(n_rest).zip(weights) {
                for (sum, payoff) in sums.iter_mut().zip(row) {
                    *sum += weight * payoff;
                }
            }
            left = sums;
        }
        values.copy_from_slice(&left);
    }

    fn constant_sum(&self) -> Option<Rational> {
        let [first, second] = &self.payoffs[..] else {
            return None;
        };
        first.constant_sum(second).ok()
    }
}

fn dot(row: &[f64], weights: &[f64]) -> f64 {
    row.iter()
        .zip(weights)
        .map(|(payoff, weight)| payoff * weight)
        .sum()
}
