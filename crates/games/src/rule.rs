//! Rules of learning, and the order in which players update.
//!
//! Role: plain data that a configuration holds and that errors name.

/// A rule that computes a player's next strategy from the values of its actions.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Rule {
    /// Probabilities in proportion to positive regrets.
    RegretMatching {
        /// The discount applied to the sums of regrets after each iteration.
        discount: Discount,
        /// Whether the last regret is added once more, as a prediction of the next regret.
        predictive: bool,
    },
    /// Probabilities in proportion to `exp(rate * regret)`, exponential weights.
    Hedge {
        /// The learning rate, in units of 1 / payoff. `None` uses `sqrt(8 ln n / t)` divided by the
        /// range of payoffs, for `n` actions.
        rate: Option<f64>,
    },
    /// The best response to the opponents' average play so far; ties go to the first action.
    /// Strategic games only.
    FictitiousPlay,
    /// The discrete replicator equation: `x ← x (1 + step (value - mean value))`; strategic games
    /// only.
    Replicator {
        /// The step, in units of 1 / payoff: above 0, and at most 1 divided by the range of
        /// payoffs.
        step: f64,
    },
}

/// The discount applied to sums of regrets after each iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Discount {
    /// No discount.
    None,
    /// Negative sums are set to zero: the `+` of CFR+.
    Clip,
    /// Positive sums are multiplied by `t^α / (t^α + 1)`, negative ones by `t^β / (t^β + 1)`.
    Powers {
        /// The exponent for positive sums.
        alpha: f64,
        /// The exponent for negative sums.
        beta: f64,
    },
}

/// The order in which players update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Updates {
    /// All players learn against the same profile, then all update.
    Simultaneous,
    /// Player 0 learns and updates, then player 1 against the updated player 0, and so on.
    Alternating,
}
