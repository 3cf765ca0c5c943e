//! Payoffs minus a constant for each player.
//!
//! Role: a constant in a player's payoffs changes no best response and no regret, but a large
//! constant leaves few bits of a float for the differences. Learning and best responses compute on
//! centred payoffs; values add the constant back.
//! Method: the constant is the midpoint of the player's range if all payoffs have one sign and none
//! is more than twice another, else 0. In the second case the range is at least half of the largest
//! payoff, so that centring would save at most two bits, and would lose payoffs that are small next
//! to the midpoint. Fractions are centred before they are rounded to floats.
//! Accuracy: the difference of two floats of which none is more than twice the other is exact, so
//! centred floats are exact; a centred fraction has one rounding.
//! Source: Sterbenz 1974, "Floating-point computation", for the exact difference.

use crate::Rational;
use crate::number::{compare, nearest};
use num_traits::Signed;

/// The payoffs of one player minus a constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Centred {
    /// The constant, rounded.
    pub(crate) constant: f64,
    /// Each payoff minus the exact constant, rounded.
    pub(crate) payoffs: Vec<f64>,
}

impl Centred {
    /// Centres floats; returns `None` if the constant is 0.
    pub(crate) fn of_floats(payoffs: &[f64]) -> Option<Self> {
        let constant = midpoint(payoffs.iter().copied());
        (constant != 0.0).then(|| Self {
            constant,
            payoffs: payoffs.iter().map(|payoff| payoff - constant).collect(),
        })
    }

    /// Centres fractions; returns `None` if the constant is 0.
    pub(crate) fn of_fractions(payoffs: &[Rational]) -> Option<Self> {
        let low = payoffs.iter().min_by(|a, b| compare(a, b))?;
        let high = payoffs.iter().max_by(|a, b| compare(a, b))?;
        // A raw fraction, for the reason below.
        let twice =
            |payoff: &Rational| Rational::new_raw(payoff.numer() * 2, payoff.denom().clone());
        let is_narrow = (low.is_positive() && compare(high, &twice(low)).is_le())
            || (high.is_negative() && compare(low, &twice(high)).is_ge());
        if !is_narrow {
            return None;
        }
        // Raw fractions are not reduced: reduction would dominate the cost if payoffs have
        // thousands of digits.
        let constant = Rational::new_raw(
            low.numer() * high.denom() + high.numer() * low.denom(),
            low.denom() * high.denom() * 2,
        );
        let less = |payoff: &Rational| {
            nearest(&Rational::new_raw(
                payoff.numer() * constant.denom() - constant.numer() * payoff.denom(),
                payoff.denom() * constant.denom(),
            ))
        };
        Some(Self {
            constant: nearest(&constant),
            payoffs: payoffs.iter().map(less).collect(),
        })
    }

    /// Centres fractions; the constant may be 0.
    pub(crate) fn of_outcomes(payoffs: &[Rational]) -> Self {
        Self::of_fractions(payoffs).unwrap_or_else(|| Self {
            constant: 0.0,
            payoffs: payoffs.iter().map(nearest).collect(),
        })
    }
}

/// Returns the midpoint of the range of floats, or 0 if one float is more than twice another, if
/// signs differ, or if there are no floats.
pub(crate) fn midpoint(payoffs: impl Iterator<Item = f64>) -> f64 {
    let (low, high) = payoffs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), payoff| {
        (low.min(payoff), high.max(payoff))
    });
    let is_narrow = (low > 0.0 && high <= 2.0 * low) || (high < 0.0 && low >= 2.0 * high);
    // Halved before the sum, so that the sum stays finite.
    if is_narrow && low <= high {
        0.5 * low + 0.5 * high
    } else {
        0.0
    }
}

/// Returns the largest absolute value; 0 for an empty slice.
pub(crate) fn largest_size(payoffs: &[f64]) -> f64 {
    payoffs
        .iter()
        .fold(0.0, |size, payoff| size.max(payoff.abs()))
}
