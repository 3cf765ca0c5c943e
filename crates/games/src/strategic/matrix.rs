//! Two-player zero-sum games.

use super::table::{self, Table};
use super::{Base, Labels, StrategicGame, assert_fits, polish, product};
use crate::equality::equality;
use crate::{Error, Number, Profile, Rational, Result};
use ndarray::Array2;
use num_traits::Zero;

/// A two-player zero-sum game: the row player gains the amount that the column player loses.
///
/// `MatrixGame::try_from` also accepts games with another constant sum, such as 1 for a win and 1/2
/// for a draw. The column player's payoff is then [`Self::sum`] minus the row player's payoff.
///
/// # Examples
/// ```
/// use games::{MatrixGame, ndarray::array};
///
/// let game = MatrixGame::zero_sum(array![[0, -1, 2], [1, 0, -1], [-2, 1, 0]])?;
/// assert_eq!(game.n_rows(), 3);
/// # Ok::<(), games::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MatrixGame {
    shape: [usize; 2],
    payoffs: Table,
    /// The column player's payoffs; `None` if they are the negated payoffs of the row player. They
    /// are stored because the rounded sum minus a rounded payoff of the row player would lose
    /// payoffs that are small next to the sum.
    others: Option<Table>,
    /// The sum of both players' payoffs.
    sum: Rational,
    labels: Labels,
}

equality!(MatrixGame { shape, payoffs, others, labels; sum });

impl MatrixGame {
    /// Creates a game from the row player's payoffs, `[rows, cols]`: floats, integers or fractions.
    ///
    /// # Errors
    /// [`Error::EmptyGame`] without rows or columns; [`Error::PayoffInvalid`] if a payoff is not
    /// finite or its absolute value exceeds 1e150.
    pub fn zero_sum<T: Number>(gains: Array2<T>) -> Result<Self> {
        const OPERATION: &str = "MatrixGame::zero_sum";
        let shape = [gains.nrows(), gains.ncols()];
        check_not_empty(OPERATION, &shape)?;
        Ok(Self {
            shape,
            payoffs: Table::new(OPERATION, 0, &shape, gains.iter())?,
            others: None,
            sum: Rational::zero(),
            labels: Labels::default(),
        })
    }

    /// Returns the game with names.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] if the list of players' names or of actions' names is neither empty
    /// nor complete.
    pub fn with_labels(self, labels: Labels) -> Result<Self> {
        labels.check("MatrixGame::with_labels", &self.shape)?;
        Ok(Self { labels, ..self })
    }

    /// Returns the number of actions of the row player.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.shape[0]
    }

    /// Returns the number of actions of the column player.
    #[must_use]
    pub fn n_cols(&self) -> usize {
        self.shape[1]
    }

    /// Returns the row player's payoffs, `[rows, cols]`, row-major, each rounded to the nearest
    /// f64.
    #[must_use]
    pub fn row_payoffs(&self) -> &[f64] {
        self.payoffs.floats()
    }

    /// Returns the row player's payoffs minus a constant, row-major, each rounded once.
    #[cfg(feature = "gpu")]
    pub(crate) fn centred_gains(&self) -> &[f64] {
        self.payoffs.centred()
    }

    /// Returns the sum of both players' payoffs: 0, unless the game was converted from a game with
    /// another constant sum.
    #[must_use]
    pub fn sum(&self) -> &Rational {
        &self.sum
    }

    /// Creates a game from both players' payoffs, which have this sum in every cell.
    pub(super) fn of_parts(
        shape: [usize; 2],
        [gains, others]: [Table; 2],
        sum: Rational,
        labels: Labels,
    ) -> Self {
        Self {
            shape,
            payoffs: gains,
            others: (!sum.is_zero()).then_some(others),
            sum,
            labels,
        }
    }

    /// Returns both players' payoffs.
    pub(super) fn into_parts(self) -> ([usize; 2], [Table; 2], Labels) {
        let others = self.others.unwrap_or_else(|| self.payoffs.negated());
        (self.shape, [self.payoffs, others], self.labels)
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
        assert!(player < 2, "no player {player}");
        let gain = self.payoffs.fraction(table::position(&self.shape, cell));
        if player == 0 { gain } else { &self.sum - gain }
    }

    fn payoff_range(&self, player: usize) -> f64 {
        self.table_up_to_sign(player).range()
    }

    fn expected(&self, base: Base, player: usize, profile: &[Vec<f64>], values: &mut [f64]) {
        assert_fits(&self.shape, player, profile, values);
        if player == 0 {
            product::right(self.payoffs.of_base(base), &profile[1], values);
        } else if let Some(others) = &self.others {
            product::left(others.of_base(base), &profile[0], values);
        } else {
            product::left(self.payoffs.of_base(base), &profile[0], values);
            negate(values);
        }
    }

    fn all_expected(&self, base: Base, profile: &[Vec<f64>], values: &mut [Vec<f64>]) {
        assert_eq!(values.len(), 2, "values of each player");
        if self.others.is_some() {
            self.expected(base, 0, profile, &mut values[0]);
            self.expected(base, 1, profile, &mut values[1]);
            return;
        }
        for (player, values) in values.iter().enumerate() {
            assert_fits(&self.shape, player, profile, values);
        }
        let (rows, cols) = values.split_at_mut(1);
        let gains = self.payoffs.of_base(base);
        product::both(gains, &profile[0], &profile[1], &mut rows[0], &mut cols[0]);
        negate(&mut cols[0]);
    }

    fn constant(&self, player: usize) -> f64 {
        match &self.others {
            Some(others) if player == 1 => others.constant(),
            _ if player == 1 => -self.payoffs.constant(),
            _ => self.payoffs.constant(),
        }
    }

    fn payoff_size(&self, player: usize) -> f64 {
        self.table_up_to_sign(player).size()
    }

    fn polished(&self, profile: &[Vec<f64>]) -> Option<Profile> {
        polish::polished(self.payoffs.centred(), profile)
    }

    fn constant_sum(&self) -> Option<Rational> {
        Some(self.sum.clone())
    }
}

impl MatrixGame {
    /// Returns a player's payoffs, or the opponent's payoffs if both differ only in sign.
    fn table_up_to_sign(&self, player: usize) -> &Table {
        let others = self.others.as_ref().filter(|_| player == 1);
        others.unwrap_or(&self.payoffs)
    }
}

/// Returns an error if a player has no actions.
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
