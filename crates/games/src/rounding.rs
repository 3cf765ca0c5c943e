//! Bounds on the rounding error of best responses.
//!
//! Role: a NashConv smaller than its own rounding error proves nothing. The bound states the
//! precision of a computed NashConv.
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

/// The error terms of one player's gain from a best response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GainError {
    /// Largest absolute value of a payoff.
    pub(crate) size: f64,
    /// Relative error of a payoff's weight in the value of an action, in units of [`UNIT`].
    pub(crate) n_roundings: f64,
    /// Number of consecutive choices whose losses are added: 1 in a strategic game.
    pub(crate) depth: f64,
    /// Relative error of the sum of losses, in units of [`UNIT`].
    pub(crate) n_relative: f64,
}

impl GainError {
    /// Returns the error bound of a computed gain.
    ///
    /// Each choice loses the difference of two action values, hence the factor 2. If all payoffs
    /// are 0, nothing is rounded and the bound is 0.
    pub(crate) fn bound(self, gain: f64) -> f64 {
        if self.size == 0.0 {
            return 0.0;
        }
        let value_error = self.n_roundings * (UNIT * self.size + TINY);
        (2.0 * self.depth * value_error + self.n_relative * UNIT * gain) * SLACK
    }
}
