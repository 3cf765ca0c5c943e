//! Distances between distributions of statrs and of this crate, against closed forms.

use distributions::{Error, Estimate, InverseGaussian, Levy, Standardized, distance, normality};
use statrs::distribution::{Cauchy, Continuous, ContinuousCDF, Exp, Laplace, Normal, Uniform};
use statrs::statistics::{Max, Min};
use tensor_core::compare::{Tolerance, assert_close};

/// Checks that a distance is within its own error estimate of the exact value.
#[track_caller]
fn check(found: Result<Estimate, Error>, truth: f64) {
    let Estimate { value, error } = found.expect("the distance converges");
    assert_close([value], [truth], Tolerance::exact().or_absolute(error));
    assert!(error <= 1e-10 * truth || error < 1e-13, "{error}");
}

#[test]
fn the_normality_of_the_inverse_gaussian_is_found_by_quadrature_too() {
    let normal = Normal::new(0.0, 1.0).unwrap();
    for k in [0.5, 1.0, 4.0, 30.0] {
        let distribution = Standardized::new(k).unwrap();
        check(
            distance::total_variation(&distribution, &normal),
            normality::total_variation(k).unwrap(),
        );
        check(
            distance::hellinger(&distribution, &normal),
            normality::hellinger(k).unwrap(),
        );
        check(
            distance::kl(&distribution, &normal),
            normality::kl(k).unwrap(),
        );
        // The normal distribution function of `statrs` has errors of 1e-10.
        let cdf_based = [
            distance::kolmogorov(&distribution, &normal).unwrap().value,
            distance::wasserstein1(&distribution, &normal)
                .unwrap()
                .value,
        ];
        let truth = [
            normality::kolmogorov(k).unwrap(),
            normality::wasserstein1(k).unwrap(),
        ];
        assert_close(cdf_based, truth, Tolerance::relative(1).or_absolute(4e-10));
        assert_eq!(
            distance::kl(&normal, &distribution).unwrap().value,
            f64::INFINITY
        );
    }
}

#[test]
fn shifted_and_scaled_distributions_are_as_far_apart_as_formulas_say() {
    let normal = |mean, std| Normal::new(mean, std).unwrap();
    check(
        distance::kl(&normal(0.0, 1.0), &normal(0.1, 2.0)),
        2_f64.ln() + (1.0 + 0.01) / 8.0 - 0.5,
    );
    let product: f64 = (2.0 * 2.0 / 5.0_f64).sqrt() * (-0.25 * 9.0 / 5.0_f64).exp();
    check(
        distance::hellinger(&normal(0.0, 1.0), &normal(3.0, 2.0)),
        (1.0 - product).sqrt(),
    );
    let (a, b) = (Exp::new(1.0).unwrap(), Exp::new(2.0).unwrap());
    // The densities are equal at ln 2, where the distribution functions are 1/2 and 3/4.
    check(distance::total_variation(&a, &b), 0.25);
    check(distance::kolmogorov(&a, &b), 0.25);
    check(distance::wasserstein1(&a, &b), 0.5);
    check(distance::kl(&a, &b), 1.0 - 2_f64.ln());
    check(distance::kl(&b, &a), 2_f64.ln() - 0.5);
    let laplace = |at| Laplace::new(at, 1.0).unwrap();
    check(distance::wasserstein1(&laplace(0.0), &laplace(0.7)), 0.7);
    check(
        distance::total_variation(&laplace(0.0), &laplace(0.7)),
        -(-0.35_f64).exp_m1(),
    );
    let cauchy = |at| Cauchy::new(at, 1.0).unwrap();
    let half_angle = 2.0 / std::f64::consts::PI * 0.5_f64.atan();
    check(
        distance::total_variation(&cauchy(0.0), &cauchy(1.0)),
        half_angle,
    );
    check(distance::kolmogorov(&cauchy(0.0), &cauchy(1.0)), half_angle);
}

#[test]
fn supports_that_differ_are_cut_at_their_ends() {
    let uniform = |low, high| Uniform::new(low, high).unwrap();
    check(
        distance::total_variation(&uniform(0.0, 1.0), &uniform(0.3, 1.3)),
        0.3,
    );
    check(
        distance::kolmogorov(&uniform(0.0, 1.0), &uniform(0.3, 1.3)),
        0.3,
    );
    check(
        distance::wasserstein1(&uniform(0.0, 1.0), &uniform(0.3, 1.3)),
        0.3,
    );
    check(
        distance::hellinger(&uniform(0.0, 1.0), &uniform(0.3, 1.3)),
        0.3_f64.sqrt(),
    );
    check(
        distance::kl(&uniform(0.2, 0.7), &uniform(0.0, 1.0)),
        2_f64.ln(),
    );
    check(
        distance::total_variation(&uniform(0.0, 1.0), &uniform(5.0, 6.0)),
        1.0,
    );
    check(
        distance::kolmogorov(&uniform(0.0, 1.0), &uniform(5.0, 6.0)),
        1.0,
    );
    assert_eq!(
        distance::kl(&uniform(0.0, 1.0), &uniform(0.2, 0.7))
            .unwrap()
            .value,
        f64::INFINITY
    );
}

#[test]
fn distances_between_far_and_heavy_tailed_distributions_keep_their_bounds() {
    let normal = |mean, std| Normal::new(mean, std).unwrap();
    for shift in [30.0, 1e3, 1e5] {
        check(
            distance::total_variation(&normal(0.0, 1.0), &normal(shift, 1.0)),
            1.0,
        );
        check(
            distance::hellinger(&normal(0.0, 1.0), &normal(shift, 1.0)),
            1.0,
        );
    }
    // The second distribution is so far from 0 that x has too few digits, which must be reported as
    // an error.
    let remote = distance::total_variation(&normal(0.0, 1.0), &normal(1e9, 1.0));
    assert!(
        matches!(remote, Err(Error::NotConverged { .. })),
        "{remote:?}"
    );
    let narrow = [1.0, 2.0].map(|mean| InverseGaussian::new(mean, mean * 1e8).unwrap());
    check(distance::total_variation(&narrow[0], &narrow[1]), 1.0);
    let levy = [1.0, 2.0].map(|scale| Levy::new(scale).unwrap());
    // The densities cross at x = 1/ln 2, where the tails are erf(sqrt(c/(2x))).
    let crossing = std::f64::consts::LN_2.recip();
    let truth = levy[1].sf(crossing) - levy[0].sf(crossing);
    check(distance::total_variation(&levy[0], &levy[1]), truth);
    check(distance::kolmogorov(&levy[0], &levy[1]), truth);
}

/// A mixture of a normal distribution and a much narrower normal distribution.
struct Bumpy {
    wide: Normal,
    narrow: Normal,
    /// The probability of the narrow part.
    share: f64,
}

impl Bumpy {
    /// Returns the mixture of a function of both parts.
    fn mixed(&self, of: impl Fn(&Normal) -> f64) -> f64 {
        (1.0 - self.share) * of(&self.wide) + self.share * of(&self.narrow)
    }
}

impl Min<f64> for Bumpy {
    fn min(&self) -> f64 {
        f64::NEG_INFINITY
    }
}

impl Max<f64> for Bumpy {
    fn max(&self) -> f64 {
        f64::INFINITY
    }
}

impl Continuous<f64, f64> for Bumpy {
    fn pdf(&self, x: f64) -> f64 {
        self.mixed(|distribution| distribution.pdf(x))
    }

    fn ln_pdf(&self, x: f64) -> f64 {
        self.pdf(x).ln()
    }
}

impl ContinuousCDF<f64, f64> for Bumpy {
    fn cdf(&self, x: f64) -> f64 {
        self.mixed(|distribution| distribution.cdf(x))
    }

    fn sf(&self, x: f64) -> f64 {
        self.mixed(|distribution| distribution.sf(x))
    }
}

#[test]
fn narrow_parts_of_a_distribution_are_seen() {
    let wide = Normal::new(0.0, 1.0).unwrap();
    for (std, share) in [(1e-3, 0.05), (1e-6, 1e-3)] {
        let narrow = Normal::new(0.3, std).unwrap();
        let bumpy = Bumpy {
            wide,
            narrow,
            share,
        };
        // The densities differ by share (narrow - wide), so the distance is the share times the
        // distance of both parts.
        let found = distance::total_variation(&bumpy, &wide).unwrap().value;
        let apart = distance::total_variation(&narrow, &wide).unwrap().value;
        assert_close(
            [found],
            [share * apart],
            Tolerance::exact().or_absolute(1e-9),
        );
        let kl = distance::kl(&bumpy, &wide).unwrap().value;
        // The divergence is about share ln(share/std); a quadrature that misses the narrow part
        // returns far less than half of this value.
        assert!(kl > 0.5 * share * (share / std).ln(), "{kl}");
    }
}

/// A normal distribution whose `cdf` returns NaN everywhere and whose `pdf` returns NaN above 1.
struct Broken(Normal);

impl Min<f64> for Broken {
    fn min(&self) -> f64 {
        self.0.min()
    }
}

impl Max<f64> for Broken {
    fn max(&self) -> f64 {
        self.0.max()
    }
}

impl Continuous<f64, f64> for Broken {
    fn pdf(&self, x: f64) -> f64 {
        if x > 1.0 { f64::NAN } else { self.0.pdf(x) }
    }

    fn ln_pdf(&self, x: f64) -> f64 {
        self.pdf(x).ln()
    }
}

impl ContinuousCDF<f64, f64> for Broken {
    fn cdf(&self, _: f64) -> f64 {
        f64::NAN
    }

    fn inverse_cdf(&self, p: f64) -> f64 {
        self.0.inverse_cdf(p)
    }
}

#[test]
fn a_distribution_that_returns_nan_is_an_error() {
    let normal = Normal::new(0.0, 1.0).unwrap();
    let broken = Broken(normal);
    for found in [
        distance::kolmogorov(&broken, &normal),
        distance::total_variation(&broken, &normal),
        distance::hellinger(&broken, &normal),
        distance::kl(&normal, &broken),
        distance::wasserstein1(&broken, &normal),
    ] {
        assert!(
            matches!(found, Err(Error::NotConverged { .. })),
            "{found:?}"
        );
    }
}

#[test]
fn a_distribution_is_nowhere_from_itself() {
    let distribution = InverseGaussian::new(2.0, 0.3).unwrap();
    let found = [
        distance::kolmogorov(&distribution, &distribution),
        distance::total_variation(&distribution, &distribution),
        distance::hellinger(&distribution, &distribution),
        distance::kl(&distribution, &distribution),
        distance::wasserstein1(&distribution, &distribution),
    ];
    for found in found {
        assert_eq!(found.unwrap().value, 0.0);
    }
}

#[test]
fn distances_that_are_infinite_or_unreachable_are_errors() {
    let (cauchy, normal) = (
        Cauchy::new(0.0, 1.0).unwrap(),
        Normal::new(0.0, 1.0).unwrap(),
    );
    for found in [
        distance::kl(&cauchy, &normal),
        distance::wasserstein1(&cauchy, &normal),
    ] {
        assert!(
            matches!(found, Err(Error::NotConverged { .. })),
            "{found:?}"
        );
    }
}
