//! Distributions outside the family of the inverse Gaussian, defined through the public trait.

use crate::support;
use distributions::{Custom, CustomDistribution, Error, InverseGaussian, distance};
use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};
use statrs::distribution::{Continuous, ContinuousCDF, Gamma as Reference};
use statrs::function::gamma::ln_gamma;
use statrs::statistics::{Distribution, Max, Min};
use std::sync::atomic::{AtomicUsize, Ordering};
use tensor_core::compare::{Tolerance, assert_close};

/// The gamma distribution of a rate of 1.
#[derive(Clone, Copy, Debug)]
struct Gamma {
    shape: f64,
}

impl Gamma {
    /// Returns `ln (P(X <= x) / (x f(x)))` by the power series of the incomplete gamma function.
    fn ln_lower_ratio(self, x: f64) -> f64 {
        let (mut term, mut sum, mut n) = (1.0 / self.shape, 1.0 / self.shape, self.shape);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        sum.ln()
    }

    /// Returns `ln (P(X > x) / (x f(x)))` by Legendre's continued fraction, from its end.
    fn ln_upper_ratio(self, x: f64) -> f64 {
        let fraction = (1..400).rev().fold(0.0, |rest, n| {
            let n = f64::from(n);
            n * (n - self.shape) / (x + 2.0 * n + 1.0 - self.shape - rest)
        });
        -(x + 1.0 - self.shape - fraction).ln()
    }
}

impl CustomDistribution for Gamma {
    fn support(&self) -> [f64; 2] {
        [0.0, f64::INFINITY]
    }

    fn ln_pdf(&self, x: f64) -> f64 {
        (self.shape - 1.0) * x.ln() - x - ln_gamma(self.shape)
    }

    fn ln_tails(&self, x: f64) -> [f64; 2] {
        let ln_rate = self.shape * x.ln() - x - ln_gamma(self.shape);
        let complement = |ln_p: f64| (-ln_p.exp()).ln_1p();
        if x < self.shape + 1.0 {
            let lower = ln_rate + self.ln_lower_ratio(x);
            [lower, complement(lower)]
        } else {
            let upper = ln_rate + self.ln_upper_ratio(x);
            [complement(upper), upper]
        }
    }

    fn hazard_limit(&self) -> f64 {
        1.0
    }
}

impl Distribution<f64> for Gamma {
    fn mean(&self) -> Option<f64> {
        Some(self.shape)
    }

    fn variance(&self) -> Option<f64> {
        Some(self.shape)
    }
}

/// The logistic distribution, on the whole line.
#[derive(Clone, Copy, Debug)]
struct Logistic;

impl CustomDistribution for Logistic {
    fn support(&self) -> [f64; 2] {
        [f64::NEG_INFINITY, f64::INFINITY]
    }

    fn ln_pdf(&self, x: f64) -> f64 {
        -x.abs() - 2.0 * (-x.abs()).exp().ln_1p()
    }

    fn ln_tails(&self, x: f64) -> [f64; 2] {
        [-x, x].map(|y| -(y.max(0.0) + (-y.abs()).exp().ln_1p()))
    }

    fn quantile_guess(&self, ln_p: f64, is_upper: bool) -> f64 {
        if is_upper { -ln_p } else { ln_p }
    }
}

/// The larger of two uniform numbers between 3 and 5, mirrored if `is_mirrored`.
#[derive(Clone, Copy, Debug)]
struct Larger {
    is_mirrored: bool,
}

impl CustomDistribution for Larger {
    fn support(&self) -> [f64; 2] {
        if self.is_mirrored {
            [-5.0, -3.0]
        } else {
            [3.0, 5.0]
        }
    }

    fn ln_pdf(&self, x: f64) -> f64 {
        (0.5 * (x.abs() - 3.0)).ln()
    }

    fn ln_tails(&self, x: f64) -> [f64; 2] {
        let (up, down) = (0.5 * (x.abs() - 3.0), 0.5 * (5.0 - x.abs()));
        let tails = [2.0 * up.ln(), down.ln() + up.ln_1p()];
        if self.is_mirrored {
            [tails[1], tails[0]]
        } else {
            tails
        }
    }
}

/// Logarithms of probabilities from -1e-12 to -1e4.
fn levels() -> impl Iterator<Item = f64> {
    (0..64).map(|level| -10_f64.powf(f64::from(level) / 4.0 - 12.0))
}

/// Checks that the quantile functions of both tails lead back to every level, except where f64 has
/// no number near the quantile. `noise` is the rounding error of the distribution's own
/// logarithms, relative to the rounding error of 1. Returns the number of levels that were checked.
fn check_round_trips(distribution: Custom<impl CustomDistribution>, noise: f64) -> usize {
    let mut n_checked = 0;
    for (ln_p, is_upper) in levels().flat_map(|ln_p| [(ln_p, false), (ln_p, true)]) {
        let (x, back) = if is_upper {
            let x = distribution.inverse_ln_sf(ln_p);
            (x, distribution.ln_sf(x))
        } else {
            let x = distribution.inverse_ln_cdf(ln_p);
            (x, distribution.ln_cdf(x))
        };
        // An epsilon of x changes ln P by x f(x)/P epsilons.
        let condition = (x.abs().ln() + distribution.ln_pdf(x) - back).exp();
        let [low, high] = distribution.inner().support();
        if low + f64::MIN_POSITIVE < x && x < high && condition < 1e12 {
            let tolerance = Tolerance::relative(8).scaled_by([noise + ln_p.abs() + condition]);
            assert_close([back], [ln_p], tolerance);
            n_checked += 1;
        }
    }
    n_checked
}

#[test]
fn quantiles_of_both_tails_lead_back() {
    // The logarithms of gamma distributions are sums of terms of up to 300, and for small shapes
    // the upper tail is 1 minus a lower tail of more than 0.9.
    let noise = 100.0;
    for shape in [0.1, 0.3, 1.0, 2.5, 30.0, 100.0] {
        let n_checked = check_round_trips(Custom::new(Gamma { shape }), noise);
        // For small shapes most quantiles of the lower tail are below the range of f64.
        assert!(
            n_checked > if shape < 0.2 { 50 } else { 115 },
            "{n_checked}"
        );
    }
    assert_eq!(check_round_trips(Custom::new(Logistic), 1.0), 128);
    for is_mirrored in [false, true] {
        let n_checked = check_round_trips(Custom::new(Larger { is_mirrored }), 1.0);
        assert!(n_checked > 100, "{n_checked}");
    }
}

/// A distribution without a first guess, which counts its evaluations.
#[derive(Clone, Copy, Debug)]
struct Counted<'a, L> {
    inner: L,
    n_evaluations: &'a AtomicUsize,
}

impl<L: CustomDistribution> CustomDistribution for Counted<'_, L> {
    fn support(&self) -> [f64; 2] {
        self.inner.support()
    }

    fn ln_pdf(&self, x: f64) -> f64 {
        self.inner.ln_pdf(x)
    }

    fn ln_tails(&self, x: f64) -> [f64; 2] {
        self.n_evaluations.fetch_add(1, Ordering::Relaxed);
        self.inner.ln_tails(x)
    }
}

/// Returns the mean and the largest number of evaluations of a quantile without a first guess.
fn evaluations(inner: impl CustomDistribution) -> [usize; 2] {
    let n_evaluations = &AtomicUsize::new(0);
    let counted = Custom::new(Counted {
        inner,
        n_evaluations,
    });
    let (mut total, mut most, mut count) = (0, 0, 0);
    for ln_p in levels() {
        for quantile in [Custom::inverse_ln_cdf, Custom::inverse_ln_sf] {
            quantile(&counted, ln_p);
            let n = n_evaluations.swap(0, Ordering::Relaxed);
            (total, most, count) = (total + n, most.max(n), count + 1);
        }
    }
    [total / count, most]
}

#[test]
fn a_quantile_without_a_first_guess_is_found_in_at_most_64_evaluations() {
    let mut found: Vec<[usize; 2]> = [0.1, 2.5, 100.0]
        .map(|shape| evaluations(Gamma { shape }))
        .to_vec();
    found.extend([
        evaluations(Logistic),
        evaluations(Larger { is_mirrored: true }),
    ]);
    assert!(
        found.iter().all(|&[mean, most]| mean <= 16 && most <= 64),
        "{found:?}"
    );
}

#[test]
fn quantiles_of_the_logistic_distribution_are_the_closed_form() {
    let logistic = Custom::new(Logistic);
    for ln_p in levels() {
        let expected = -(-ln_p.exp_m1()).ln() + ln_p;
        let found = [logistic.inverse_ln_cdf(ln_p), -logistic.inverse_ln_sf(ln_p)];
        let tolerance = Tolerance::relative(8).scaled_by([1.0 + expected.abs(); 2]);
        assert_close(found, [expected; 2], tolerance);
    }
}

#[test]
fn the_gamma_distribution_agrees_with_statrs() {
    for shape in [0.3, 1.0, 2.5, 30.0] {
        let (gamma, reference) = (
            Custom::new(Gamma { shape }),
            Reference::new(shape, 1.0).unwrap(),
        );
        for x in (1..60).map(|i| shape * f64::from(i) / 20.0) {
            let found = [gamma.pdf(x), gamma.ln_pdf(x), gamma.cdf(x), gamma.sf(x)];
            let expected = [
                reference.pdf(x),
                reference.ln_pdf(x),
                reference.cdf(x),
                reference.sf(x),
            ];
            assert_close(found, expected, Tolerance::relative(1).or_absolute(1e-12));
            let hazard = reference.pdf(x) / reference.sf(x);
            assert_close(
                [gamma.hazard(x)],
                [hazard],
                Tolerance::relative(1).or_absolute(1e-9 * hazard),
            );
            // The search of statrs ends at an error of about 1e-9, and above 0.999 the rounding of
            // p moves the quantile.
            let p = reference.cdf(x);
            if p < 0.999 {
                let tolerance = Tolerance::relative(1).or_absolute(1e-8 * x);
                assert_close(
                    [gamma.inverse_cdf(p)],
                    [reference.inverse_cdf(p)],
                    tolerance,
                );
            }
        }
        assert_eq!(gamma.mean(), reference.mean());
        assert_eq!(gamma.std_dev(), reference.std_dev());
        assert_eq!((gamma.min(), gamma.max()), (0.0, f64::INFINITY));
    }
}

#[test]
fn distances_are_the_closed_forms() {
    // The divergence of gamma distributions of shapes 1 and 2: E(-ln X) = γ for the first.
    let [one, two] = [1.0, 2.0].map(|shape| Custom::new(Gamma { shape }));
    let found = distance::kl(&one, &two).unwrap();
    let gamma = std::f64::consts::EULER_GAMMA;
    assert_close(
        [found.value],
        [gamma],
        Tolerance::exact().or_absolute(found.error),
    );
    assert!(found.error < 1e-9, "{found:?}");
    // The densities are equal at x = 1, where the tails are 1/e and 2/e.
    for found in [
        distance::total_variation(&one, &two).unwrap(),
        distance::kolmogorov(&one, &two).unwrap(),
    ] {
        let expected = (-1_f64).exp();
        assert_close(
            [found.value],
            [expected],
            Tolerance::exact().or_absolute(found.error),
        );
    }
    let found = distance::wasserstein1(&one, &two).unwrap();
    assert_close(
        [found.value],
        [1.0],
        Tolerance::exact().or_absolute(found.error),
    );
    // A distance also accepts a distribution of this crate together with a distribution of the
    // user.
    let inverse_gaussian = InverseGaussian::new(2.0, 4.0).unwrap();
    assert!(distance::hellinger(&inverse_gaussian, &two).unwrap().value > 0.05);
    assert_eq!(distance::kl(&two, &two).unwrap().value, 0.0);
}

#[test]
fn values_outside_the_support_and_at_its_ends_are_the_limits() {
    let larger = Custom::new(Larger { is_mirrored: false });
    let mut out = [f64::NAN; 4];
    larger.cdf_into(&[2.0, 3.0, 5.0, 6.0], &mut out).unwrap();
    assert_eq!(out, [0.0, 0.0, 1.0, 1.0]);
    larger.ln_sf_into(&[2.0, 3.0, 5.0, 6.0], &mut out).unwrap();
    assert_eq!(out, [0.0, 0.0, f64::NEG_INFINITY, f64::NEG_INFINITY]);
    assert_eq!([larger.pdf(2.0), larger.pdf(6.0)], [0.0; 2]);
    assert_eq!(
        [larger.inverse_cdf(0.0), larger.inverse_cdf(1.0)],
        [3.0, 5.0]
    );
    assert!(larger.pdf(f64::NAN).is_nan() && larger.hazard(6.0).is_nan());
    assert_eq!(Custom::new(Gamma { shape: 2.0 }).hazard(f64::INFINITY), 1.0);
    let error = larger.try_inverse_sf(1.5).unwrap_err();
    assert!(matches!(error, Error::ProbabilityInvalid { .. }));
}

#[test]
fn draws_have_the_distribution() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let gamma = Custom::new(Gamma { shape: 0.7 });
    let draws = (0..4000).map(|_| gamma.sample(&mut rng)).collect();
    // The statistic exceeds 1.95 with probability 1e-3.
    assert!(support::kolmogorov(draws, |x| gamma.cdf(x)) < 1.95);
}
