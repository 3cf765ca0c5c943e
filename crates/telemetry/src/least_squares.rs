//! Linear least squares with a few unknowns.
//!
//! Role: the one place that fits curves and sinusoids.
//! Method: QR by Householder reflections on columns that are scaled to length one. Normal equations
//! would square the condition number and so lose twice as many digits.

/// The result of a linear least-squares fit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fit {
    /// The unknowns, in the order of the columns.
    pub coefficients: Vec<f64>,
    /// Sum of the squared residuals.
    pub residual: f64,
    /// Share of the variance around the mean that the fit explains.
    pub r_squared: f64,
}

/// Threshold for linear dependence: a column counts as a linear combination of the earlier columns
/// if its component orthogonal to them has at most this fraction of its length.
const DEPENDENT: f64 = 1e-11;

/// Computes the coefficients for which `Σ coefficient · column` is closest to `y`.
///
/// Returns `None` if there are no columns, more columns than rows, or linearly dependent columns.
///
/// # Panics
/// If the columns are not as long as `y`.
pub(crate) fn fit(columns: &[Vec<f64>], y: &[f64]) -> Option<Fit> {
    let (n, n_unknowns) = (y.len(), columns.len());
    assert!(
        columns.iter().all(|column| column.len() == n),
        "columns are as long as y"
    );
    if n < n_unknowns || n_unknowns == 0 {
        return None;
    }
    let lengths: Vec<f64> = columns.iter().map(|column| norm(column)).collect();
    if lengths
        .iter()
        .any(|&length| length.partial_cmp(&0.0).is_none_or(|order| order.is_le()))
    {
        return None;
    }
    let scaled = |(column, length): (&Vec<f64>, &f64)| column.iter().map(|x| x / length).collect();
    let mut a: Vec<Vec<f64>> = columns.iter().zip(&lengths).map(scaled).collect();
    let mut right = y.to_vec();
    for k in 0..n_unknowns {
        let length = norm(&a[k][k..]);
        if length
            .partial_cmp(&DEPENDENT)
            .is_none_or(|order| order.is_le())
        {
            return None;
        }
        // The Householder reflection that maps the rest of the column onto its first element. The
        // sign of `length` follows that element, so the addition does not cancel.
        let mut mirror = a[k][k..].to_vec();
        mirror[0] += length.copysign(mirror[0]);
        let half = 0.5 * mirror.iter().map(|m| m * m).sum::<f64>();
        for column in a[k..].iter_mut().chain([&mut right]) {
            let rest = &mut column[k..];
            let along = mirror
                .iter()
                .zip(rest.iter())
                .map(|(m, x)| m * x)
                .sum::<f64>()
                / half;
            for (x, m) in rest.iter_mut().zip(&mirror) {
                *x -= along * m;
            }
        }
    }
    let mut coefficients = vec![0.0; n_unknowns];
    for k in (0..n_unknowns).rev() {
        let known: f64 = (k + 1..n_unknowns).map(|j| a[j][k] * coefficients[j]).sum();
        coefficients[k] = (right[k] - known) / a[k][k];
    }
    let residual = right[n_unknowns..].iter().map(|r| r * r).sum();
    for (coefficient, length) in coefficients.iter_mut().zip(&lengths) {
        *coefficient /= length;
    }
    Some(Fit {
        coefficients,
        residual,
        r_squared: 1.0 - residual / variance_sum(y).max(f64::MIN_POSITIVE),
    })
}

/// Returns the sum of the squared differences from the mean.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn variance_sum(y: &[f64]) -> f64 {
    let mean = y.iter().sum::<f64>() / y.len() as f64;
    y.iter().map(|value| (value - mean).powi(2)).sum()
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|value| value * value).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cubic_is_found_through_its_points() {
        let x: Vec<f64> = (0..9).map(|i| 500.0 + 100.0 * f64::from(i)).collect();
        let columns: Vec<Vec<f64>> = (0..4)
            .map(|power| x.iter().map(|x| x.powi(power)).collect())
            .collect();
        let y: Vec<f64> = x
            .iter()
            .map(|x| 3.0 - 2e-2 * x + 1e-5 * x * x - 4e-9 * x.powi(3))
            .collect();
        let found = fit(&columns, &y).unwrap();
        for (coefficient, expected) in found.coefficients.iter().zip([3.0, -2e-2, 1e-5, -4e-9]) {
            assert!((coefficient / expected - 1.0).abs() < 1e-8, "{found:?}");
        }
        assert!((found.r_squared - 1.0).abs() < 1e-12 && found.residual < 1e-15);
    }

    #[test]
    fn residuals_are_orthogonal_to_the_columns() {
        let columns = [vec![1.0; 5], vec![0.0, 1.0, 2.0, 3.0, 5.0]];
        let y = [1.0, -1.0, 2.0, 0.5, 4.0];
        let found = fit(&columns, &y).unwrap();
        let at = |i: usize| found.coefficients[0] + found.coefficients[1] * columns[1][i];
        let left: Vec<f64> = (0..5).map(|i| y[i] - at(i)).collect();
        for column in &columns {
            let product: f64 = column.iter().zip(&left).map(|(x, r)| x * r).sum();
            assert!(product.abs() < 1e-12, "{product}");
        }
        let sum: f64 = left.iter().map(|r| r * r).sum();
        assert!((sum - found.residual).abs() < 1e-12);
    }

    #[test]
    fn columns_that_depend_on_each_other_have_no_fit() {
        assert_eq!(
            fit(
                &[vec![1.0, 2.0, 3.0], vec![2.0, 4.0, 6.0]],
                &[1.0, 2.0, 4.0]
            ),
            None
        );
        assert_eq!(fit(&[vec![0.0; 3]], &[1.0, 2.0, 4.0]), None);
        assert_eq!(fit(&[vec![1.0], vec![2.0]], &[1.0]), None);
    }
}
