//! Quantiles of Student's t distribution.
//!
//! Source: Abramowitz and Stegun 1964, "Handbook of Mathematical Functions", 26.7.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Largest number of degrees of freedom; larger numbers are treated as this number. Its quantiles
/// up to 4.4 exceed those of the normal distribution by less than 1 %.
pub(super) const MAX_DEGREES: usize = 1000;

/// Returns the two-sided quantile of Student's t distribution: the magnitude that is exceeded with
/// probability `risk`. The number of degrees of freedom is clamped to 1 to [`MAX_DEGREES`].
///
/// The probability rises with the angle `θ = atan(t/√ν)`, whose range is bounded, so a bisection
/// finds the angle.
pub(super) fn t_quantile(n_degrees: usize, risk: f64) -> f64 {
    let n_degrees = n_degrees.clamp(1, MAX_DEGREES);
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..f64::MANTISSA_DIGITS {
        let middle = 0.5 * (low + high);
        if t_probability(middle, n_degrees) < 1.0 - risk {
            low = middle;
        } else {
            high = middle;
        }
    }
    (n_degrees as f64).sqrt() * low.tan()
}

/// Returns the probability that Student's t has at most the magnitude `√ν·tan θ`.
///
/// The series in powers of cos θ has the exponents 0, 2, …, ν - 2 for even ν and 1, 3, …, ν - 2 for
/// odd ν. The factor from the term of exponent n to the next term is `cos²θ·(n + 1)/(n + 2)`.
fn t_probability(angle: f64, n_degrees: usize) -> f64 {
    let (sin, cos) = angle.sin_cos();
    let is_odd = n_degrees % 2 == 1;
    let (mut term, mut sum) = (if is_odd { cos } else { 1.0 }, 0.0);
    for exponent in (n_degrees % 2..n_degrees.saturating_sub(1)).step_by(2) {
        sum += term;
        term *= cos * cos * (exponent + 1) as f64 / (exponent + 2) as f64;
    }
    if is_odd {
        FRAC_2_PI * (angle + sin * sum)
    } else {
        sin * sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_student() {
        // Expansion of the quantile in powers of 1/ν (Abramowitz and Stegun 1964, "Handbook of
        // Mathematical Functions", 26.7.5), which is accurate to 1e-3 from ν = 6 on.
        let z = 1.959_964_f64;
        let terms = [
            (z.powi(3) + z) / 4.0,
            (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
            (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
        ];
        for n_degrees in 6..=30 {
            let nu = f64::from(u32::try_from(n_degrees).unwrap());
            let t = z + terms[0] / nu + terms[1] / nu.powi(2) + terms[2] / nu.powi(3);
            let off = (t_quantile(n_degrees, 0.05) - t).abs();
            assert!(off < 2e-3, "{n_degrees}: {t}");
        }
        // NIST/SEMATECH, "e-Handbook of Statistical Methods", table 1.3.6.7.2.
        for (n_degrees, t) in [(3, 3.182), (4, 2.776), (5, 2.571), (30, 2.042)] {
            let off = (t_quantile(n_degrees, 0.05) - t).abs();
            assert!(off < 5.1e-4, "{n_degrees}: {t}");
        }
        // The distribution with one degree of freedom is Cauchy's; the one with two has the
        // quantile p·√(2 / (1 − p²)).
        for risk in [0.05_f64, 0.05 / 21.0, 1e-5] {
            let p = 1.0 - risk;
            let one = (FRAC_PI_2 * p).tan();
            let two = p * (2.0 / (1.0 - p * p)).sqrt();
            assert!((t_quantile(1, risk) / one - 1.0).abs() < 1e-9, "{risk}");
            assert!((t_quantile(2, risk) / two - 1.0).abs() < 1e-9, "{risk}");
        }
        // Quantiles of the normal distribution.
        for (risk, z) in [(0.05, 1.959_964), (1e-5, 4.417_173)] {
            let excess = t_quantile(usize::MAX, risk) / z - 1.0;
            assert!((0.0..0.01).contains(&excess), "{risk}: {excess}");
        }
    }
}
