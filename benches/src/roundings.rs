//! Rounding error of sums in f32.
//!
//! Role: the part of every workload's tolerance that grows with the number of terms.
//! Source: Higham and Mary 2019, "A new approach to probabilistic rounding error analysis".

/// Returns the tolerance, in units of `f32::EPSILON`, for sums of `n_terms` terms: the smaller of
/// the worst case, `n_terms / 2 + 1`, and six standard deviations of independent roundings,
/// `6 · √n_terms / 2 + 1`.
///
/// The worst case alone could not distinguish f32 from formats with 10 bits of mantissa, which some
/// hardware uses for products.
#[must_use]
pub fn of_sum(n_terms: usize) -> usize {
    let deviations = (3.0 * (n_terms as f64).sqrt()).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "far below 2^53 and not negative"
    )]
    let deviations = deviations as usize;
    (n_terms / 2).min(deviations) + 1
}

/// Returns absolute values. The sum of the absolute values of its terms scales the tolerance of a
/// sum.
#[must_use]
pub fn magnitudes(numbers: &[f64]) -> Vec<f64> {
    numbers.iter().map(|x| x.abs()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_sums_have_the_worst_case_and_long_ones_the_likely_one() {
        assert_eq!([0, 1, 10, 36].map(of_sum), [1, 1, 6, 19]);
        assert_eq!(of_sum(10_000), 301);
    }
}
