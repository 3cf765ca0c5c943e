//! Draws of actions.

use rand::{Rng, RngExt};

/// Draws an action.
pub(crate) fn draw(probabilities: &[f64], rng: &mut impl Rng) -> usize {
    let mut left: f64 = rng.random();
    let drawn = probabilities.iter().position(|p| {
        left -= p;
        left < 0.0
    });
    // Probabilities may sum to a little less than 1; then the last that is not 0 is drawn.
    drawn
        .or_else(|| probabilities.iter().rposition(|&p| p > 0.0))
        .unwrap_or(0)
}
