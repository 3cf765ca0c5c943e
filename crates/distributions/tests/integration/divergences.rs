//! Distances between random distributions of the same family against golden values and closed
//! forms. The families have unbounded densities, densities that underflow, and shapes up to 100.

use crate::support::{Row, table};
use distributions::{Error, Estimate, InverseGaussian, distance};
use statrs::distribution::{Beta, ContinuousCDF, Gamma, Laplace, Normal, Uniform};
use std::f64::consts::{FRAC_1_SQRT_2, PI};
use tensor_core::rng::Philox;

/// The five distances, in the order of [`COLUMNS`].
type Found = Vec<Result<Estimate, Error>>;

/// Columns of the golden distances.
const COLUMNS: [&str; 5] = [
    "kolmogorov",
    "total_variation",
    "hellinger",
    "kl",
    "wasserstein1",
];

/// Computes the five distances of a pair.
fn distances<L: distance::ContinuousDistribution>(p: &L, q: &L) -> Found {
    vec![
        distance::kolmogorov(p, q),
        distance::total_variation(p, q),
        distance::hellinger(p, q),
        distance::kl(p, q),
        distance::wasserstein1(p, q),
    ]
}

/// Computes the five distances of the pair of a golden row.
fn of_row(row: &Row) -> Found {
    let [a, b, c, d] = ["p1", "p2", "q1", "q2"].map(|name| row.number(name));
    let message = "golden parameters";
    match row.text("family") {
        "Beta" => distances(
            &Beta::new(a, b).expect(message),
            &Beta::new(c, d).expect(message),
        ),
        "Gamma" => distances(
            &Gamma::new(a, b).expect(message),
            &Gamma::new(c, d).expect(message),
        ),
        "Laplace" => distances(
            &Laplace::new(a, b).expect(message),
            &Laplace::new(c, d).expect(message),
        ),
        "Normal" => distances(
            &Normal::new(a, b).expect(message),
            &Normal::new(c, d).expect(message),
        ),
        _ => distances(
            &InverseGaussian::new(a, b).expect(message),
            &InverseGaussian::new(c, d).expect(message),
        ),
    }
}

#[test]
fn every_distance_of_every_pair_is_within_its_error_of_the_truth() {
    let mut faults = Vec::new();
    for row in table("pairs.csv") {
        for (column, found) in COLUMNS.into_iter().zip(of_row(&row)) {
            let truth = row.number(column);
            let is_right = found.is_ok_and(|found| (found.value - truth).abs() <= found.error);
            if !is_right {
                let pair = ["family", "p1", "p2", "q1", "q2"].map(|name| row.text(name));
                faults.push(format!("{pair:?} {column}: {found:?}, truth {truth:e}"));
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

/// A pair of normal distributions, for two distances in closed form.
struct Normals {
    means: [f64; 2],
    deviations: [f64; 2],
}

impl Normals {
    /// Draws a pair from the numbers `at` to `at + 5` of a stream. Means and deviations differ by
    /// small and by large amounts.
    fn random(random: &Philox, at: u64) -> Self {
        let uniform = |i: u64, low: f64, high: f64| low + (high - low) * random.uniform_f64(at + i);
        let mean = uniform(0, -5.0, 5.0);
        let deviation = 10_f64.powf(uniform(1, -2.0, 2.0));
        let shift = uniform(2, -3.0, 3.0) * 10_f64.powf(uniform(3, -4.0, 0.5));
        let ratio = 10_f64.powf(uniform(4, -1.0, 1.0) * 10_f64.powf(uniform(5, -3.0, 0.0)));
        Self {
            means: [mean, mean + deviation * shift],
            deviations: [deviation, deviation * ratio],
        }
    }

    /// Returns the value of a function for the first distribution minus its value for the second.
    fn difference(&self, x: f64, of: impl Fn(f64, f64) -> f64) -> f64 {
        let [first, second] = [0, 1].map(|i| {
            let deviation = self.deviations[i];
            of((x - self.means[i]) / deviation, deviation)
        });
        first - second
    }

    /// Returns the largest difference of the distribution functions, which is at one of the two
    /// points where the densities are equal, the roots of `a x² + 2 b x + c`.
    fn kolmogorov(&self) -> f64 {
        let ([m, n], [s, t]) = (self.means, self.deviations);
        let (a, b) = (s * s - t * t, m * t * t - n * s * s);
        let c = s * s * (n * n + 2.0 * t * t * (t / s).ln()) - t * t * m * m;
        let root = (b * b - a * c).sqrt();
        let crossings = [(-b + root) / a, (-b - root) / a];
        let differences = crossings.map(|x| self.difference(x, |z, _| normal_cdf(z)).abs());
        differences[0].max(differences[1])
    }

    /// Returns the integral of the absolute difference of the distribution functions. The
    /// difference has one sign change, so the integral is computed on both sides of it from the
    /// integral of the normal distribution function, `z Φ(z) + φ(z)`.
    fn wasserstein1(&self) -> f64 {
        let ([m, n], [s, t]) = (self.means, self.deviations);
        let crossing = (m * t - n * s) / (t - s);
        let density = |z: f64| (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
        let below = self.difference(crossing, |z, s| s * (z * normal_cdf(z) + density(z)));
        below.abs() + (n - m - below).abs()
    }
}

/// Returns the standard normal distribution function, to f64 accuracy.
fn normal_cdf(z: f64) -> f64 {
    0.5 * puruspe::erfc(-z * FRAC_1_SQRT_2)
}

#[test]
fn distances_of_normal_distributions_are_within_their_errors_of_closed_forms() {
    // The normal distribution function of `statrs` has errors of 1e-10, which the error estimates
    // must include.
    const ROUNDING: f64 = 1e-13;
    let random = Philox::new(9);
    for pair in 0..200 {
        let normals = Normals::random(&random, 6 * pair);
        let [p, q] = [0, 1].map(|i| {
            Normal::new(normals.means[i], normals.deviations[i])
                .expect("the random parameters are valid")
        });
        let unit = normals.deviations[0].max(normals.deviations[1]);
        let cases = [
            (distance::kolmogorov(&p, &q), normals.kolmogorov(), 1.0),
            (distance::wasserstein1(&p, &q), normals.wasserstein1(), unit),
        ];
        for (found, truth, unit) in cases {
            let found = found.expect("the integrals of smooth densities converge");
            assert!(
                (found.value - truth).abs() <= found.error + ROUNDING * unit,
                "{p:?} {q:?}: {found:?}, truth {truth:e}"
            );
            assert!(found.error <= 1e-9 * unit, "{p:?} {q:?}: {found:?}");
        }
    }
}

/// A uniform distribution on [0, 1] and [2, 3], whose density is 0 in the gap between both. Its
/// `ln_pdf` is the logarithm of the density, `-inf` in the gap.
struct Gapped;

impl statrs::statistics::Min<f64> for Gapped {
    fn min(&self) -> f64 {
        0.0
    }
}

impl statrs::statistics::Max<f64> for Gapped {
    fn max(&self) -> f64 {
        3.0
    }
}

impl statrs::distribution::Continuous<f64, f64> for Gapped {
    fn pdf(&self, x: f64) -> f64 {
        let is_inside = (0.0..=1.0).contains(&x) || (2.0..=3.0).contains(&x);
        if is_inside { 0.5 } else { 0.0 }
    }

    fn ln_pdf(&self, x: f64) -> f64 {
        self.pdf(x).ln()
    }
}

impl ContinuousCDF<f64, f64> for Gapped {
    fn cdf(&self, x: f64) -> f64 {
        0.5 * (x.clamp(0.0, 1.0) + (x - 2.0).clamp(0.0, 1.0))
    }
}

#[test]
fn only_supports_prove_an_infinite_divergence() {
    let uniform = |low, high| Uniform::new(low, high).unwrap();
    let infinite = [
        distance::kl(&uniform(0.0, 1.0), &uniform(0.2, 0.7)),
        // The probability outside the support underflows, but the logarithm of the density does
        // not.
        distance::kl(
            &Normal::new(1e3, 1.0).unwrap(),
            &InverseGaussian::new(1e3, 1.0).unwrap(),
        ),
    ];
    for found in infinite {
        assert_eq!(found.unwrap().value, f64::INFINITY);
    }
    // A density of 0 strictly inside the support must be an error, because it may be an underflow.
    let found = distance::kl(&uniform(0.5, 2.5), &Gapped);
    assert!(
        matches!(found, Err(Error::NotConverged { .. })),
        "{found:?}"
    );
    // The extrapolated part of `ln_pdf` dominates the result: the exact divergence is far above
    // 745, the size of the logarithm of the smallest f64.
    let (wide, narrow) = (
        Laplace::new(0.0, 1e4).unwrap(),
        Laplace::new(0.0, 1.0).unwrap(),
    );
    let found = distance::kl(&wide, &narrow).unwrap();
    let truth = 1e4 - 1.0 - 1e4_f64.ln();
    assert!(
        (found.value - truth).abs() <= found.error,
        "{found:?}, {truth}"
    );
}
