//! Two-player games with arbitrary payoffs.

use super::matrix::check_not_empty;
use super::table::{self, Table};
use super::{Base, Labels, MatrixGame, StrategicGame, assert_fits, product};
use crate::{Error, Number, Rational, Result};
use ndarray::Array2;

/// A two-player game: one payoff for each player in each cell.
///
/// # Examples
/// ```
/// use games::{Bimatrix, MatrixGame, ndarray::array};
///
/// let chicken = Bimatrix::new(array![[6, 2], [7, 0]], array![[6, 7], [2, 0]])?;
/// assert!(MatrixGame::try_from(chicken).is_err());
/// # Ok::<(), games::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Bimatrix {
    shape: [usize; 2],
    payoffs: [Table; 2],
    labels: Labels,
}

impl Bimatrix {
    /// Creates a game from the row player's and the column player's payoffs, both `[rows, cols]`.
    ///
    /// # Errors
    /// [`Error::EmptyGame`] without rows or columns; [`Error::ShapeMismatch`] if the shapes differ;
    /// [`Error::PayoffInvalid`] if a payoff is not finite or its absolute value exceeds 1e150.
    pub fn new<T: Number, U: Number>(rows: Array2<T>, cols: Array2<U>) -> Result<Self> {
        const OPERATION: &str = "Bimatrix::new";
        let shape = [rows.nrows(), rows.ncols()];
        check_not_empty(OPERATION, &shape)?;
        if cols.shape() != shape {
            return Err(Error::ShapeMismatch {
                operation: OPERATION,
                expected: shape.to_vec(),
                actual: cols.shape().to_vec(),
            });
        }
        Ok(Self {
            shape,
            payoffs: [
                Table::new(OPERATION, 0, &shape, rows.iter())?,
                Table::new(OPERATION, 1, &shape, cols.iter())?,
            ],
            labels: Labels::default(),
        })
    }

    /// Returns the game with names.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] if the list of players' names or of actions' names is neither empty
    /// nor complete.
    pub fn with_labels(self, labels: Labels) -> Result<Self> {
        labels.check("Bimatrix::with_labels", &self.shape)?;
        Ok(Self { labels, ..self })
    }

    /// Returns a player's payoffs, `[rows, cols]`, row-major, each rounded to the nearest f64.
    ///
    /// # Panics
    /// If `player` is neither 0 nor 1.
    #[must_use]
    pub fn payoffs(&self, player: usize) -> &[f64] {
        self.payoffs[player].floats()
    }

    /// Creates a game from both players' payoffs.
    pub(super) fn of_parts(shape: [usize; 2], payoffs: [Table; 2], labels: Labels) -> Self {
        Self {
            shape,
            payoffs,
            labels,
        }
    }

    /// Returns both players' payoffs.
    pub(super) fn into_parts(self) -> ([usize; 2], [Table; 2], Labels) {
        (self.shape, self.payoffs, self.labels)
    }
}

impl From<MatrixGame> for Bimatrix {
    fn from(game: MatrixGame) -> Self {
        let (shape, payoffs, labels) = game.into_parts();
        Self::of_parts(shape, payoffs, labels)
    }
}

impl TryFrom<Bimatrix> for MatrixGame {
    type Error = Error;

    /// Converts a game whose payoffs have exactly the same sum, zero or another constant, in every
    /// cell.
    fn try_from(game: Bimatrix) -> Result<Self> {
        let sum = game.payoffs[0]
            .constant_sum(&game.payoffs[1])
            .map_err(|at| Error::NotConstantSum {
                operation: "MatrixGame::try_from",
                cell: table::cell(&game.shape, at),
            })?;
        Ok(Self::of_parts(game.shape, game.payoffs, sum, game.labels))
    }
}

impl StrategicGame for Bimatrix {
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

    fn expected(&self, base: Base, player: usize, profile: &[Vec<f64>], values: &mut [f64]) {
        assert_fits(&self.shape, player, profile, values);
        let payoffs = self.payoffs[player].of_base(base);
        if player == 0 {
            product::right(payoffs, &profile[1], values);
        } else {
            product::left(payoffs, &profile[0], values);
        }
    }

    fn constant(&self, player: usize) -> f64 {
        self.payoffs[player].constant()
    }

    fn payoff_size(&self, player: usize) -> f64 {
        self.payoffs[player].size()
    }

    fn constant_sum(&self) -> Option<Rational> {
        self.payoffs[0].constant_sum(&self.payoffs[1]).ok()
    }
}
