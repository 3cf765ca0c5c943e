//! The probabilities of the sign test.
//!
//! Role: the only place that computes binomial probabilities.

/// Returns P(B ≤ k) for k = 0, 1, … `n`, where B is binomial(`n`, ½).
///
/// Accuracy: each step rounds a logarithm of up to `n ln 2`, so the relative error is at most about
/// 6 × 10⁻⁵ for `n` = 10⁶ (measured: below 10⁻⁶ in the middle and at the end). Terms below the
/// smallest `f64` count as 0. Cost: time proportional to the number of values that are taken.
///
/// # Examples
/// ```
/// use harness::sign_test::at_most;
///
/// assert!(at_most(2).zip([0.25, 0.75, 1.0]).all(|(p, exact)| (p - exact).abs() < 1e-15));
/// ```
pub fn at_most(n: usize) -> impl Iterator<Item = f64> {
    // The terms are computed as logarithms, because 2⁻ⁿ underflows for many trials.
    let first = -(n as f64) * std::f64::consts::LN_2;
    (0..=n).scan((first, 0.0), move |(ln_term, sum), k| {
        *sum += ln_term.exp();
        *ln_term += ((n - k) as f64 / (k + 1) as f64).ln();
        Some(*sum)
    })
}

/// Returns the exact p-value of the sign test against the alternative that the first sign is more
/// frequent: the probability that at least `n_first` of all signs are first signs, if both signs
/// are equally probable. Returns 1 if there are no signs.
#[must_use]
pub fn more_frequent(n_first: usize, n_second: usize) -> f64 {
    // At least `n_first` first signs are at most `n_second` second signs.
    let p = at_most(n_first + n_second).nth(n_second);
    p.map_or(1.0, |p| p.min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor_core::compare::{Tolerance, assert_close};

    #[test]
    fn p_values_are_sums_of_binomial_coefficients() {
        let expected = [
            1.0,
            1.0 / 1024.0,
            1.0,
            // 1 + 10 + 45 of 2^10.
            56.0 / 1024.0,
            // All but 1 + 10.
            1013.0 / 1024.0,
        ];
        let actual = [(0, 0), (10, 0), (0, 10), (8, 2), (2, 8)]
            .map(|(first, second)| more_frequent(first, second));
        // At most eleven terms, whose logarithms have errors of some epsilons.
        assert_close(actual, expected, Tolerance::relative(64));
    }

    #[test]
    fn many_trials_sum_to_one() {
        for n in [1000, 1_000_000] {
            let last = at_most(n).last().unwrap_or(0.0);
            assert!((last - 1.0).abs() < 1e-6, "{n}: {last}");
            // By symmetry, the median of an odd number of trials is between the middle values.
            let middle = at_most(n + 1).nth(n / 2).unwrap_or(0.0);
            assert!((middle - 0.5).abs() < 1e-6, "{n}: {middle}");
        }
    }
}
