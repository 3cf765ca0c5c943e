//! Distances of random pairs of a family against golden values: unbounded densities, underflow, shapes up to 100.

mod support;

use distributions::{Error, Estimate, InverseGaussian, distance};
use statrs::distribution::{Beta, ContinuousCDF, Gamma, Laplace, Normal, Uniform};
use std::collections::HashMap;
use support::table;

type Row = HashMap<String, String>;
type Found = Vec<Result<Estimate, Error>>;

const COLUMNS: [&str; 5] = [
    "kolmogorov",
    "total_variation",
    "hellinger",
    "kl",
    "wasserstein1",
];

fn number(row: &Row, name: &str) -> f64 {
    row[name].parse().expect("columns hold numbers")
}

/// Computes the five distances of a pair.
fn distances<L: distance::ContinuousLaw>(p: &L, q: &L) -> Found {
    vec![
        distance::kolmogorov(p, q),
        distance::total_variation(p, q),
        distance::hellinger(p, q),
        distance::kl(p, q),
        distance::wasserstein1(p, q),
    ]
}

fn of_row(row: &Row) -> Found {
    let [a, b, c, d] = ["p1", "p2", "q1", "q2"].map(|name| number(row, name));
    let message = "golden parameters";
    match row["family"].as_str() {
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
            let truth = number(&row, column);
            // statrs' normal distribution function is good to 1e-10 only.
            let is_rough =
                row["family"] == "Normal" && ["kolmogorov", "wasserstein1"].contains(&column);
            let own = if is_rough { 4e-10 * (1.0 + truth) } else { 0.0 };
            let is_right =
                found.is_ok_and(|found| (found.value - truth).abs() <= found.error + own);
            if !is_right {
                let pair = ["family", "p1", "p2", "q1", "q2"].map(|name| row[name].as_str());
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

/// A distribution whose `ln_pdf` is the logarithm of its density, and which has no density in a gap.
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
        // The probability outside the support underflows, the density does not.
        distance::kl(
            &Normal::new(1e3, 1.0).unwrap(),
            &InverseGaussian::new(1e3, 1.0).unwrap(),
        ),
    ];
    for found in infinite {
        assert_eq!(found.unwrap().value, f64::INFINITY);
    }
    // No density strictly inside the support: an error rather than a claim.
    let found = distance::kl(&uniform(0.5, 2.5), &Gapped);
    assert!(
        matches!(found, Err(Error::NotConverged { .. })),
        "{found:?}"
    );
    // An underflow that matters, continued: the exact divergence is far above 745.
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
