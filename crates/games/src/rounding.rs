//! Bounds on the rounding error of best responses.
//!
//! Role: a NashConv smaller than its own rounding error proves nothing; the bound states what may
//! be claimed.
//! Method: the standard model of rounding. A sum of products in which a term passes through `k`
//! roundings has an absolute error of at most `k u / (1 - k u)` times the sum of absolute values,
//! with `u = 2^-53`; sums of probabilities are 1 within the tolerance of profiles. Terms of
//! probability 0 are added without rounding.
//! Source: Higham 2002, "Accuracy and stability of numerical algorithms", section 3.1.

/// The unit roundoff of f64.
pub(crate) const UNIT: f64 = f64::EPSILON / 2.0;
/// Factor above 1 that covers terms of second order, sums of probabilities that are not exactly 1
/// (within 1e-9 for each player) and the rounding of the bound itself.
const SLACK: f64 = 1.0 + 1e-6;
/// The smallest positive float, at which products may underflow.
const TINY: f64 = f64::from_bits(1);

/// The parts of the error of what one player gains by a best response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GainError {
    /// Absolute value that no payoff exceeds.
    pub(crate) size: f64,
    /// Relative error of the weight of a payoff in the worth of an action, in units of [`UNIT`].
    pub(crate) n_roundings: f64,
    /// Number of choices in a row whose losses add up: 1 in a strategic game.
    pub(crate) depth: f64,
    /// Relative error of the sum of losses, in units of [`UNIT`].
    pub(crate) n_relative: f64,
}

impl GainError {
    /// Returns the bound for a computed gain.
    ///
    /// Each choice loses the difference of two worths, hence the factor 2. Without payoffs other
    /// than 0 nothing is rounded.
    pub(crate) fn bound(self, gain: f64) -> f64 {
        if self.size == 0.0 {
            return 0.0;
        }
        let worth = self.n_roundings * (UNIT * self.size + TINY);
        (2.0 * self.depth * worth + self.n_relative * UNIT * gain) * SLACK
    }
}
