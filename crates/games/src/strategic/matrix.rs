//! Two-player zero-sum games.

use super::table::Table;
use super::{Base, Labels, StrategicGame, polish, product};
use crate::{Error, Number, Profile, Rational, Result};
use ndarray::Array2;
use num_traits::Zero;

/// A two-player zero-sum game: the row player gains what the column player loses.
///
/// A game whose payoffs have another constant sum, such as points for a win and half for a draw, is
/// one too: made by `MatrixGame::try_from`, it gives the column player what the row player leaves
/// of [`Self::sum`].
///
/// # Examples
/// ```
/// use games::{MatrixGame, ndarray::array};
///
/// let game = MatrixGame::zero_sum(array![[0, -1, 2], [1, 0, -1], [-2, 1, 0]])?;
/// assert_eq!(game.n_rows(), 3);
/// # Ok::<(), games::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixGame {
    shape: [usize; 2],
    gains: Table,
    /// The column player's payoffs, unless these are the negated gains: rounded from the exact
    /// differences, because a large sum less a large gain would lose the digits of a small one.
    rest: Option<Table>,
    /// The sum of both players' payoffs.
    sum: Rational,
    labels: Labels,
}

impl MatrixGame {
    /// Takes the row player's gains, `[rows, cols]`: floats, integers or fractions.
    ///
    /// # Errors
    /// [`Error::EmptyGame`] without rows or columns; [`Error::PayoffInvalid`] if a gain is not finite or its size above 1e150.
    pub fn zero_sum<T: Number>(gains: Array2<T>) -> Result<Self> {
        const OPERATION: &str = "MatrixGame::zero_sum";
        let shape = [gains.nrows(), gains.ncols()];
        check_not_empty(OPERATION, &shape)?;
        Ok(Self {
            shape,
            gains: Table::new(OPERATION, 0, &shape, gains.iter())?,
            rest: None,
            sum: Rational::zero(),
            labels: Labels::default(),
        })
    }

    /// Gives the same game with names.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] if there are names of players or actions, but not one for each.
    pub fn with_labels(self, labels: Labels) -> Result<Self> {
        labels.check("MatrixGame::with_labels", &self.shape)?;
        Ok(Self { labels, ..self })
    }

    /// Gives the number of actions of the row player.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.shape[0]
    }

    /// Gives the number of actions of the column player.
    #[must_use]
    pub fn n_cols(&self) -> usize {
        self.shape[1]
    }

    /// Gives the row player's gains, `[rows, cols]`, row-major, each rounded to the nearest f64.
    #[must_use]
    pub fn gains(&self) -> &[f64] {
        self.gains.floats()
    }

    /// Returns the row player's gains less a constant, row-major, each rounded once.
    #[cfg(feature = "gpu")]
    pub(crate) fn centred_gains(&self) -> &[f64] {
        self.gains.centred()
    }

    /// Returns what both players get together: 0, unless the game was made of another with a
    /// constant sum.
    #[must_use]
    pub fn sum(&self) -> &Rational {
        &self.sum
    }

    /// Makes a game of the first player's payoffs, and the sum that the second gets the rest of.
    pub(super) fn of_parts(shape: [usize; 2], gains: Table, sum: Rational, labels: Labels) -> Self {
        Self {
            shape,
            rest: (!sum.is_zero()).then(|| gains.complement(&sum)),
            gains,
            sum,
            labels,
        }
    }

    /// Gives both players' payoffs.
    pub(super) fn into_parts(self) -> ([usize; 2], [Table; 2], Labels) {
        let rest = self.rest.unwrap_or_else(|| self.gains.negated());
        (self.shape, [self.gains, rest], self.labels)
    }
}

impl StrategicGame for MatrixGame {
    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn payoff(&self, player: usize, cell: &[usize]) -> Rational {
        let gain = self.gains.fraction(cell[0] * self.shape[1] + cell[1]);
        if player == 0 { gain } else { &self.sum - gain }
    }

    fn payoff_range(&self, player: usize) -> f64 {
        self.table(player).range()
    }

    fn expected(&self, base: Base, player: usize, profile: &[Vec<f64>], values: &mut [f64]) {
        let payoffs = self.table(player).of_base(base);
        if player == 0 {
            product::right(payoffs, &profile[1], values);
        } else {
            product::left(payoffs, &profile[0], values);
            if self.rest.is_none() {
                negate(values);
            }
        }
    }

    fn all_expected(&self, base: Base, profile: &[Vec<f64>], values: &mut [Vec<f64>]) {
        let (rows, cols) = values.split_at_mut(1);
        if self.rest.is_some() {
            self.expected(base, 0, profile, &mut rows[0]);
            self.expected(base, 1, profile, &mut cols[0]);
        } else {
            // One pass over the gains serves both players.
            let gains = self.gains.of_base(base);
            product::both(gains, &profile[0], &profile[1], &mut rows[0], &mut cols[0]);
            negate(&mut cols[0]);
        }
    }

    fn constant(&self, player: usize) -> f64 {
        let constant = self.table(player).constant();
        let is_negated = player == 1 && self.rest.is_none();
        if is_negated { -constant } else { constant }
    }

    fn payoff_size(&self, player: usize) -> f64 {
        self.table(player).size()
    }

    fn polished(&self, profile: &[Vec<f64>]) -> Option<Profile> {
        polish::polished(self.gains.centred(), profile)
    }

    fn constant_sum(&self) -> Option<Rational> {
        Some(self.sum.clone())
    }
}

impl MatrixGame {
    /// Returns the table of a player's payoffs; for the column player of a zero-sum game, that of
    /// the gains, whose signs are opposite.
    fn table(&self, player: usize) -> &Table {
        let rest = self.rest.as_ref().filter(|_| player == 1);
        rest.unwrap_or(&self.gains)
    }
}

/// Refuses a game in which somebody has nothing to choose from.
pub(super) fn check_not_empty(operation: &'static str, shape: &[usize]) -> Result<()> {
    if shape.is_empty() || shape.contains(&0) {
        return Err(Error::EmptyGame {
            operation,
            shape: shape.to_vec(),
        });
    }
    Ok(())
}

fn negate(values: &mut [f64]) {
    for value in values {
        *value = -*value;
    }
}
