//! Small symmetric systems of linear equations.

/// Solves `A x = b` for a symmetric positive definite matrix (row-major, `n × n`) by an `LDLᵀ`
/// factorisation. Returns `None` if a pivot is not positive beyond the rounding errors.
///
/// Source: Golub and Van Loan 2013, "Matrix Computations", section 4.1.
pub(crate) fn solve(a: &[f64], b: &[f64]) -> Option<Vec<f64>> {
    /// The smallest pivot relative to the diagonal: rounding errors of the few operations that
    /// lead to a pivot are far smaller.
    const SMALLEST_PIVOT: f64 = 1e-13;
    let n = b.len();
    let mut factor = vec![0.0_f64; n * n];
    let mut pivots = vec![0.0; n];
    for col in 0..n {
        let pivot = a[col * n + col]
            - (0..col)
                .map(|k| factor[col * n + k].powi(2) * pivots[k])
                .sum::<f64>();
        if pivot > SMALLEST_PIVOT * a[col * n + col] {
            pivots[col] = pivot;
        } else {
            return None;
        }
        for row in col + 1..n {
            let known: f64 = (0..col)
                .map(|k| factor[row * n + k] * factor[col * n + k] * pivots[k])
                .sum();
            factor[row * n + col] = (a[row * n + col] - known) / pivot;
        }
    }
    // L y = b, then D Lᵀ x = y.
    let mut x = b.to_vec();
    for row in 0..n {
        let known: f64 = (0..row).map(|k| factor[row * n + k] * x[k]).sum();
        x[row] -= known;
    }
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|k| factor[k * n + row] * x[k]).sum();
        x[row] = x[row] / pivots[row] - known;
    }
    Some(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor_core::compare::{Tolerance, assert_close};

    #[test]
    fn a_system_is_solved_and_a_singular_one_is_not() {
        let a = [4.0, 2.0, -2.0, 2.0, 5.0, 1.0, -2.0, 1.0, 6.0];
        let x = solve(&a, &[2.0, 15.0, 18.0]).unwrap();
        assert_close(x, [1.0, 2.0, 3.0], Tolerance::relative(16));
        assert_eq!(solve(&[4.0, 4.0, 4.0, 4.0], &[13.0, 13.0]), None);
        assert_eq!(solve(&[0.0], &[1.0]), None);
        assert_eq!(solve(&[f64::NAN], &[1.0]), None);
    }
}
