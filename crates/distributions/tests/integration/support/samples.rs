//! Golden and random samples, and tolerances for simulated counts.

use crate::support::{Row, table};
use distributions::InverseGaussian;
use distributions::estimate::Fit;
use rand::rngs::Xoshiro256PlusPlus;
use tensor_core::compare::{Tolerance, assert_close};

/// A sample of `estimate-samples.csv` with its expected results.
pub(crate) struct Sample {
    row: Row,
    /// The observations.
    pub(crate) xs: Vec<f64>,
}

impl Sample {
    /// Reads all samples.
    pub(crate) fn all() -> Vec<Self> {
        let rows = table("estimate-samples.csv").into_iter();
        rows.map(|row| {
            let xs = row.text("xs").split(' ');
            let xs = xs.map(|x| x.parse().expect("columns hold numbers"));
            Self {
                xs: xs.collect(),
                row,
            }
        })
        .collect()
    }

    /// Returns an expected result or a parameter of the sample.
    pub(crate) fn number(&self, column: &str) -> f64 {
        self.row.number(column)
    }
}

/// Compares a result of every golden sample with its expected column.
pub(crate) fn check(column: &str, bound: Tolerance, figure: impl Fn(&Sample, &Fit) -> f64) {
    let samples = Sample::all();
    let found = samples.iter().map(|sample| {
        figure(
            sample,
            &Fit::from_sample(&sample.xs).expect("golden samples have a fit"),
        )
    });
    let found: Vec<f64> = found.collect();
    let expected: Vec<f64> = samples.iter().map(|sample| sample.number(column)).collect();
    assert_close(&found, &expected, bound);
}

/// Returns a random sample of a distribution with mean 1 and the given `μ/λ`.
pub(crate) fn draws(phi: f64, n: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<f64> {
    let mut xs = vec![0.0; n];
    InverseGaussian::new(1.0, 1.0 / phi)
        .expect("the parameters are valid")
        .sample_into(rng, &mut xs);
    xs
}

/// Number of samples of a simulation.
pub(crate) const N_SAMPLES: u32 = 4000;
/// Allowed deviation of a simulated result, in standard deviations. A binomial count exceeds it by
/// chance once in 15,787 simulations.
pub(crate) const DEVIATIONS: f64 = 4.0;

/// Returns whether a count is plausible for a binomial distribution of probability `p`.
pub(crate) fn is_binomial(count: u32, n: u32, p: f64) -> bool {
    let n = f64::from(n);
    (f64::from(count) - n * p).abs() <= DEVIATIONS * (n * p * (1.0 - p)).sqrt()
}
