//! The best-response polytope of a player, in integers.
//!
//! Method: a shift and a scale, which do not change best responses, turn each player's payoffs into
//! the smallest possible integers that are at least 1. A point z of `{z ≥ 0, C z ≤ 1}` other than
//! the origin represents the strategy `z / Σ z`, which limits the opponent's payoff to `1 / Σ z`. C
//! is positive, so the polytope is bounded.
//! Shapes: `C` is `[actions of the opponent, own actions]`, row-major. Labels number the actions of
//! both players, rows before columns. An own label is tight where `z` is 0, the opponent's where
//! the action is a best response.
//! Source: von Stengel 2002, "Computing equilibria for two-person games", section 2.

use super::equilibrium::Payoffs;
use super::gcd::gcd;
use super::work::{LimitReached, Work};
use num_bigint::{BigInt, BigUint};
use num_traits::{One, Zero};
use std::ops::Range;

/// The polytope of one player's strategies.
#[derive(Clone, Debug)]
pub(super) struct Polytope {
    /// Labels of the player's actions, for the constraints `z ≥ 0`.
    pub(super) own: Range<usize>,
    /// Labels of the opponent's actions, for the constraints `C z ≤ 1`.
    pub(super) others: Range<usize>,
    /// The integers of C, row-major.
    pub(super) entries: Vec<BigInt>,
}

impl Polytope {
    /// Creates the polytope of a player's strategies from the payoffs of the opponent.
    pub(super) fn new(
        payoffs: &Payoffs,
        player: usize,
        work: &Work<'_>,
    ) -> Result<Self, LimitReached> {
        let [n_rows, n_cols] = payoffs.shape;
        let (rows, cols) = (0..n_rows, n_rows..n_rows + n_cols);
        let (own, others) = if player == 0 {
            (rows, cols)
        } else {
            (cols, rows)
        };
        let opponent = 1 - player;
        let mut entries = Vec::with_capacity(n_rows * n_cols);
        for other in 0..others.len() {
            for action in 0..own.len() {
                let entry = payoffs.numerator(opponent, other, action);
                work.count_fraction(entry.bits())?;
                entries.push(entry.clone());
            }
        }
        let least = entries.iter().min().cloned().unwrap_or_default();
        for entry in &mut entries {
            *entry -= &least;
        }
        let mut divisor = BigUint::ZERO;
        for entry in &entries {
            if !divisor.is_one() {
                divisor = gcd(divisor, entry.magnitude().clone(), work)?;
            }
        }
        let divisor = BigInt::from(divisor);
        for entry in &mut entries {
            work.count_product(entry.bits(), divisor.bits())?;
            if !divisor.is_zero() {
                *entry /= &divisor;
            }
            *entry += 1;
        }
        Ok(Self {
            own,
            others,
            entries,
        })
    }

    /// Returns both players' polytopes.
    pub(super) fn both(payoffs: &Payoffs, work: &Work<'_>) -> Result<[Self; 2], LimitReached> {
        Ok([Self::new(payoffs, 0, work)?, Self::new(payoffs, 1, work)?])
    }
}
