//! Sampling of actions.

use rand::{Rng, RngExt};

/// Draws the index of an action with the given probabilities.
pub(crate) fn draw(probabilities: &[f64], rng: &mut impl Rng) -> usize {
    let mut left: f64 = rng.random();
    let drawn = probabilities.iter().position(|p| {
        left -= p;
        left < 0.0
    });
    // Probabilities may sum to slightly less than 1; the last positive one is then drawn.
    drawn
        .or_else(|| probabilities.iter().rposition(|&p| p > 0.0))
        .unwrap_or(0)
}
