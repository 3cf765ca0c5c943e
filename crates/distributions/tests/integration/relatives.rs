//! The distributions related to the inverse Gaussian, against golden values and identities between
//! these distributions.

use crate::support::gate::{GATE, golden, worst};
use crate::support::{self, Row, kolmogorov};
use distributions::{
    Error, FirstPassage, InverseGaussian, Levy, ReciprocalInverseGaussian, ShiftedInverseGaussian,
};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use statrs::distribution::{Continuous, ContinuousCDF};
use statrs::statistics::{Distribution, Median, Mode};
use tensor_core::compare::{Tolerance, assert_close, compare};

/// The functions that all distributions have in common, selected by name, so that tests can use
/// trait objects.
trait Functions {
    /// Returns the value of the function `name` at `x`.
    fn function(&self, name: &str, x: f64) -> f64;
}

macro_rules! functions {
    ($($distribution:ty),+) => {$(
        impl Functions for $distribution {
            fn function(&self, name: &str, x: f64) -> f64 {
                match name {
                    "pdf" => self.pdf(x),
                    "cdf" => self.cdf(x),
                    "sf" => self.sf(x),
                    "ln_pdf" => self.ln_pdf(x),
                    "ln_cdf" => self.ln_cdf(x),
                    "ln_sf" => self.ln_sf(x),
                    "hazard" => self.hazard(x),
                    "inverse_cdf" => self.inverse_cdf(x),
                    "inverse_sf" => self.inverse_sf(x),
                    "inverse_ln_cdf" => self.inverse_ln_cdf(x),
                    "inverse_ln_sf" => self.inverse_ln_sf(x),
                    _ => panic!("no function {name}"),
                }
            }
        }
    )+};
}

functions!(
    ReciprocalInverseGaussian,
    Levy,
    FirstPassage,
    ShiftedInverseGaussian,
    InverseGaussian
);

/// Returns the distribution of a golden row.
fn distribution(row: &Row) -> Box<dyn Functions> {
    let first = row.number("first");
    match row.text("distribution") {
        "levy" => Box::new(Levy::new(first).expect("a golden scale")),
        "reciprocal" => Box::new(
            ReciprocalInverseGaussian::new(first, row.number("second"))
                .expect("golden parameters are valid"),
        ),
        "shifted" => Box::new(
            ShiftedInverseGaussian::new(row.number("third"), first, row.number("second"))
                .expect("golden parameters are valid"),
        ),
        _ => {
            let (drift, volatility) = (row.number("second"), row.number("third"));
            Box::new(
                FirstPassage::new(first, drift, volatility).expect("golden parameters are valid"),
            )
        }
    }
}

/// The functions of `x`, by name and column.
const FUNCTIONS: [&str; 7] = ["pdf", "ln_pdf", "cdf", "sf", "ln_cdf", "ln_sf", "hazard"];

/// Returns the value of a function at a row, its golden value, and the size to which the error is
/// relative.
fn evaluated(row: &Row, name: &str) -> [f64; 3] {
    let truth = row.number(name);
    let actual = distribution(row).function(name, row.number("x"));
    let least = if name == "ln_pdf" { 1.0 } else { 0.0 };
    [actual, truth, truth.abs().max(least)]
}

/// Returns the quantile of a row, its golden value, and the size to which the error is relative.
fn inverted(row: &Row) -> [f64; 3] {
    let x = row.number("x");
    let actual = distribution(row).function(row.text("kind"), row.number("p"));
    [actual, x, x.abs() * (1.0 + row.number("condition"))]
}

#[test]
fn every_function_of_every_relative_meets_its_gate_and_the_table_reports_the_errors() {
    let mut data = support::table("relatives.csv");
    data.extend(support::table("wide.csv"));
    let names = FUNCTIONS.map(|name| format!("`{name}`")).join(" | ");
    let mut text = format!(
        "\nLargest relative errors of the relatives at their golden points, measured by `tests/integration/relatives.rs`. Their\n\
         parameters are from 1e-150 to 1e150; levels and volatilities of first passages are from 1e-50 to 1e50.\n\n\
         | distribution | points | {names} | points of quantiles | quantiles |\n|---|---|{}\n",
        "---|".repeat(FUNCTIONS.len() + 2),
    );
    let distributions = [
        ("reciprocal", "ReciprocalInverseGaussian"),
        ("levy", "Levy"),
        ("passage", "FirstPassage"),
        ("shifted", "ShiftedInverseGaussian"),
    ];
    for (distribution_name, shown) in distributions {
        let of_kind = |is_eval: bool| {
            let rows = data
                .iter()
                .filter(|row| row.text("distribution") == distribution_name);
            rows.filter(move |row| (row.text("kind") == "eval") == is_eval)
        };
        let cells = FUNCTIONS.map(|name| {
            let rows = of_kind(true).map(|row| (row.text("id"), evaluated(row, name)));
            worst(rows).cell(&format!("{distribution_name} {name}"))
        });
        let rows = of_kind(false).map(|row| (row.text("id"), inverted(row)));
        let quantiles = worst(rows).cell(&format!("{distribution_name} quantiles"));
        let [n_points, n_quantiles] = [true, false].map(|is_eval| of_kind(is_eval).count());
        text += &format!(
            "| [`{shown}`] | {n_points} | {} | {n_quantiles} | {quantiles} |\n",
            cells.join(" | ")
        );
    }
    golden("src/accuracy_relatives.md", &text);
}

/// Returns arguments spread over every distribution with a median near 1, including the ends of the
/// support and invalid arguments.
fn spread() -> Vec<f64> {
    let inside = (-40..=40).map(|i| 10_f64.powf(f64::from(i) / 4.0));
    inside
        .chain([
            0.0,
            -1.0,
            f64::INFINITY,
            f64::NAN,
            f64::MIN_POSITIVE,
            f64::MAX,
        ])
        .collect()
}

#[test]
fn heavy_upper_tails_have_quantiles_to_the_last_digits() {
    // For such large x, P(X > x) = erf(sqrt(c/(2x))) is sqrt(2c/(π x)) to all digits of f64.
    for exponent in 20..140 {
        let p = 1.234_567 * 10_f64.powi(-exponent);
        let c = 7.3;
        let truth = std::f64::consts::FRAC_2_PI * c / p / p;
        let levy = Levy::new(c).unwrap();
        let passage = FirstPassage::new(c, 0.0, c.sqrt()).unwrap();
        let found = [
            levy.inverse_sf(p),
            levy.inverse_ln_cdf(-p),
            passage.inverse_sf(p),
            passage.inverse_ln_cdf(-p),
        ];
        assert_close(found, [truth; 4], Tolerance::relative(8));
    }
}

#[test]
fn the_ends_of_the_support_have_their_limits() {
    let reciprocal = ReciprocalInverseGaussian::new(2.0, 3.0).unwrap();
    let levy = Levy::new(3.0).unwrap();
    let towards = FirstPassage::new(1.0, 2.0, 0.5).unwrap();
    let away = FirstPassage::new(1.0, -0.125, 0.5).unwrap();
    let hit = away.hitting_probability();
    assert_close([hit], [(-1.0_f64).exp()], Tolerance::relative(1));
    let distributions: [(&dyn Functions, f64, f64); 4] = [
        (&reciprocal, 1.0, 1.5),
        (&levy, 1.0, 0.0),
        (&towards, 1.0, 8.0),
        (&away, hit, 0.0),
    ];
    for (distribution, reached, hazard) in distributions {
        let at = |name, x| distribution.function(name, x);
        for x in [0.0, -1.0] {
            assert_eq!(
                ["pdf", "cdf", "sf"].map(|name| at(name, x)),
                [0.0, 0.0, 1.0]
            );
            assert_eq!(
                ["ln_pdf", "ln_cdf", "ln_sf", "hazard"].map(|name| at(name, x)),
                [f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0, 0.0]
            );
        }
        let end = f64::INFINITY;
        let names = ["pdf", "cdf", "sf", "hazard"];
        let expected = [0.0, reached, 1.0 - reached, hazard];
        assert_close(
            names.map(|name| at(name, end)),
            expected,
            Tolerance::relative(2),
        );
        let expected = [f64::NEG_INFINITY, reached.ln(), (1.0 - reached).ln()];
        let names = ["ln_pdf", "ln_cdf", "ln_sf"];
        assert_close(
            names.map(|name| at(name, end)),
            expected,
            Tolerance::relative(2),
        );
        let names = ["pdf", "ln_pdf", "cdf", "sf", "ln_cdf", "ln_sf", "hazard"];
        assert!(names.iter().all(|name| at(name, f64::NAN).is_nan()));
        assert_eq!(at("inverse_cdf", 0.0), 0.0);
        assert_eq!(at("inverse_sf", 0.0), end);
        assert_eq!(at("inverse_ln_cdf", 0.0), end);
        assert_eq!(at("inverse_ln_sf", 0.0), 0.0);
    }
}

#[test]
fn a_slice_gets_the_bits_of_single_numbers() {
    fn check(distribution: &impl Functions, name: &str, into: impl FnOnce(&[f64], &mut [f64])) {
        let xs = spread();
        let mut out = vec![-7.0; xs.len()];
        into(&xs, &mut out);
        let single: Vec<f64> = xs.iter().map(|&x| distribution.function(name, x)).collect();
        assert_close(&out, &single, Tolerance::bits());
    }
    let reciprocal = ReciprocalInverseGaussian::new(2.0, 3.0).unwrap();
    check(&reciprocal, "cdf", |xs, out| {
        reciprocal.cdf_into(xs, out).unwrap()
    });
    check(&reciprocal, "ln_pdf", |xs, out| {
        reciprocal.ln_pdf_into(xs, out).unwrap()
    });
    let levy = Levy::new(3.0).unwrap();
    check(&levy, "sf", |xs, out| levy.sf_into(xs, out).unwrap());
    check(&levy, "hazard", |xs, out| {
        levy.hazard_into(xs, out).unwrap()
    });
    for drift in [-0.3, 0.0, 0.3] {
        let passage = FirstPassage::new(1.0, drift, 0.5).unwrap();
        check(&passage, "pdf", |xs, out| {
            passage.pdf_into(xs, out).unwrap()
        });
        check(&passage, "cdf", |xs, out| {
            passage.cdf_into(xs, out).unwrap()
        });
        check(&passage, "ln_cdf", |xs, out| {
            passage.ln_cdf_into(xs, out).unwrap()
        });
        check(&passage, "ln_sf", |xs, out| {
            passage.ln_sf_into(xs, out).unwrap()
        });
    }
}

#[test]
fn nothing_is_nan_far_beyond_the_plane() {
    let sizes = [1e-300, 1e-150, 1.0, 1e150, 1e300];
    let triples = sizes
        .iter()
        .flat_map(|&a| sizes.map(|b| (a, b)))
        .flat_map(|(a, b)| sizes.map(|c| (a, b, c)));
    for (a, b, x) in triples {
        let distributions: [Box<dyn Functions>; 6] = [
            Box::new(ReciprocalInverseGaussian::new(a, b).unwrap()),
            Box::new(Levy::new(a).unwrap()),
            Box::new(FirstPassage::new(a, 0.0, b).unwrap()),
            Box::new(FirstPassage::new(a, 1.0, b).unwrap()),
            Box::new(FirstPassage::new(a, -b, 1.0).unwrap()),
            Box::new(FirstPassage::new(1.0, a, b).unwrap()),
        ];
        for distribution in distributions {
            for name in ["pdf", "cdf", "sf", "ln_pdf", "ln_cdf", "ln_sf", "hazard"] {
                let value = distribution.function(name, x);
                assert!(!value.is_nan(), "{name} of ({a:e}, {b:e}) at {x:e}");
                assert!(
                    !["cdf", "sf"].contains(&name) || (0.0..=1.0).contains(&value),
                    "{name} of ({a:e}, {b:e}) at {x:e}: {value}"
                );
            }
            for p in [1e-300, 0.1, 0.9] {
                let quantiles =
                    ["inverse_cdf", "inverse_sf"].map(|name| distribution.function(name, p));
                assert!(quantiles.iter().all(|x| *x >= 0.0), "({a:e}, {b:e}) at {p}");
            }
        }
    }
}

#[test]
fn a_levy_distribution_is_the_limit_of_large_means() {
    let (levy, near) = (
        Levy::new(2.0).unwrap(),
        InverseGaussian::new(1e30, 2.0).unwrap(),
    );
    let xs = [1e-2, 0.1, 1.0, 10.0, 1e5];
    for name in ["pdf", "cdf", "sf", "ln_pdf", "ln_cdf", "ln_sf", "hazard"] {
        let of = |distribution: &dyn Functions| xs.map(|x| distribution.function(name, x));
        assert_close(of(&levy), of(&near), Tolerance::relative(8));
    }
    let ps = [1e-5, 0.1, 0.5, 0.9];
    let of = |distribution: &dyn Functions| ps.map(|p| distribution.function("inverse_cdf", p));
    assert_close(of(&levy), of(&near), Tolerance::relative(16));
}

#[test]
fn a_first_passage_has_the_distribution_of_its_drift() {
    let xs = [0.1, 0.5, 1.0, 1.5, 2.0, 8.0];
    // The parameters have exact quotients and squares.
    let cases: [(f64, Box<dyn Functions>); 2] = [
        (0.5, Box::new(InverseGaussian::new(4.0, 16.0).unwrap())),
        (0.0, Box::new(Levy::new(16.0).unwrap())),
    ];
    for (drift, other) in cases {
        let distribution = FirstPassage::new(2.0, drift, 0.5).unwrap();
        for name in ["pdf", "cdf", "sf", "ln_pdf", "ln_cdf", "ln_sf", "hazard"] {
            let of = |distribution: &dyn Functions| xs.map(|x| distribution.function(name, x));
            assert_close(of(&distribution), of(&*other), Tolerance::relative(8));
        }
        assert_eq!(distribution.ln_hitting_probability(), 0.0);
        assert_eq!(distribution.given_hit(), distribution);
    }
    let away = FirstPassage::new(2.0, -0.5, 0.5).unwrap();
    assert_eq!(away.ln_hitting_probability(), -8.0);
    let given_hit = away.given_hit();
    assert_eq!(given_hit, FirstPassage::new(2.0, 0.5, 0.5).unwrap());
    let scaled = xs.map(|x| given_hit.cdf(x) * away.hitting_probability());
    assert_close(xs.map(|x| away.cdf(x)), scaled, Tolerance::relative(4));
}

#[test]
fn moments_are_those_of_the_inverse_gaussian_part_and_the_squared_normal_part() {
    let (mean, shape) = (2.0, 3.0);
    let distribution = ReciprocalInverseGaussian::new(mean, shape).unwrap();
    let part = InverseGaussian::new(1.0 / mean, shape / mean / mean).unwrap();
    // The cumulants of a squared normal number divided by λ are 2^(n-1) (n-1)! / λ^n.
    let cumulant = |n: i32, factor: f64| part.cumulant(n.unsigned_abs()) + factor / shape.powi(n);
    let [k1, k2, k3, k4] = [(1, 1.0), (2, 2.0), (3, 8.0), (4, 48.0)].map(|(n, f)| cumulant(n, f));
    let found = [
        distribution.mean(),
        distribution.variance(),
        distribution.std_dev(),
        distribution.skewness(),
        distribution.excess_kurtosis(),
    ];
    let expected = [k1, k2, k2.sqrt(), k3 / k2.powf(1.5), k4 / k2 / k2];
    assert_close(found, expected, Tolerance::relative(8));
    let second = distribution.raw_moment(2);
    assert_close([second], [k2 + k1 * k1], Tolerance::relative(8));
    // The variance in the limit in which one of the two terms dominates.
    for (mean, shape) in [(1e-150, 1e150), (1e150, 1e-150)] {
        let distribution = ReciprocalInverseGaussian::new(mean, shape).unwrap();
        assert_close([distribution.mean()], [1e150], Tolerance::relative(4));
    }
}

#[test]
fn moments_keep_their_digits_where_the_ratio_of_the_parameters_leaves_f64() {
    // The leading terms of the formulas; the other terms are below 1e-150 of them.
    let cases = [
        // mean, shape, standard deviation, skewness, excess kurtosis
        (1e-200, 1e200, 1.0, 3e-200, 0.0),
        (1.0, 1e308, 1e-154, 3e-154, 1.5e-307),
        (1e200, 1e-200, 2_f64.sqrt() * 1e200, 8_f64.sqrt(), 12.0),
    ];
    for (mean, shape, std_dev, skewness, kurtosis) in cases {
        let distribution = ReciprocalInverseGaussian::new(mean, shape).unwrap();
        let found = [
            distribution.std_dev(),
            distribution.skewness(),
            distribution.excess_kurtosis(),
        ];
        assert_close(found, [std_dev, skewness, kurtosis], Tolerance::relative(8));
    }
    // The standard deviation and the skewness are powers of the ratio μ/λ.
    let gaussian = InverseGaussian::new(1e100, 1e-210).unwrap();
    let found = [gaussian.std_dev(), gaussian.skewness(), gaussian.mode()];
    let expected = [1e255, 3e155, 1e-210 / 3.0];
    assert_close(found, expected, Tolerance::relative(6));
    // The ratio 1.55e-309 has fewer digits than 15 times this ratio.
    let narrow = InverseGaussian::new(0.155, 1e308).unwrap();
    let kurtosis = narrow.excess_kurtosis();
    assert_close([kurtosis], [2.325e-308], Tolerance::relative(2));
}

#[test]
fn the_inverse_of_the_growth_keeps_its_digits_where_a_quotient_leaves_f64() {
    // The subnormal shape 2047 · 2^-1074. Its quotient by the mean is subnormal, too.
    let (mean, shape) = (3.0 * 2_f64.powi(-33), f64::from_bits(2047));
    let inverse = 2047.0 / 9.0 * 2_f64.powi(66 - 1074);
    let end = InverseGaussian::new(mean, shape).unwrap().mgf_end();
    assert_close([end], [0.5 * inverse], Tolerance::relative(2));
    // λ/μ² is 2^1024, which overflows; its half does not.
    let short = InverseGaussian::new(2_f64.powi(-511), 4.0).unwrap();
    assert_eq!(short.mgf_end(), 2_f64.powi(1023));
    // For a large μ/λ, which overflows here, the mode of the reciprocal is λ/μ².
    let reciprocal = ReciprocalInverseGaussian::new(mean, shape).unwrap();
    assert_close([reciprocal.mode()], [inverse], Tolerance::relative(2));
}

#[test]
fn moments_of_a_first_passage_keep_their_digits_where_its_mean_leaves_f64() {
    let cases = [
        // level, drift, volatility, variance
        (1e200, 1e-150, 1e-200, 1e250),
        (1e-200, 1e118, 1e218, 1e-118),
        (1e-200, 1e200, 1e300, 1e-200),
    ];
    for (level, drift, volatility, variance) in cases {
        let distribution = FirstPassage::new(level, drift, volatility).unwrap();
        let found = [distribution.variance(), distribution.std_dev()];
        let expected = [variance, f64::sqrt(variance)];
        assert_close(found, expected, Tolerance::relative(4));
    }
    // Without drift, the mode is A²/(3σ²), although 3σ²/(2A) underflows.
    let without = FirstPassage::new(1e-20, 0.0, 1e-171).unwrap();
    assert_close([without.mode()], [1e302 / 3.0], Tolerance::relative(6));
}

#[test]
fn draws_are_near_zero_if_the_mean_underflows() {
    let distribution = FirstPassage::new(1e-200, 1e200, 1e-200).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    for _ in 0..100 {
        assert_eq!(distribution.sample(&mut rng), f64::MIN_POSITIVE);
    }
}

#[test]
fn modes_are_peaks_and_medians_are_halves() {
    for (mean, shape) in [(2.0, 3.0), (1e5, 1e-3), (1e-3, 1e5)] {
        let distribution = ReciprocalInverseGaussian::new(mean, shape).unwrap();
        let mode = Mode::mode(&distribution).unwrap();
        let around = [1.0 - 1e-4, 1.0 + 1e-4].map(|factor| distribution.ln_pdf(mode * factor));
        assert!(
            around
                .iter()
                .all(|ln_pdf| *ln_pdf < distribution.ln_pdf(mode))
        );
        let median = Median::median(&distribution);
        // An epsilon of the median changes the probability by about `median * pdf` epsilons.
        let scale = 1.0 + median * distribution.pdf(median);
        let bound = Tolerance::relative(2).scaled_by([scale]);
        assert_close([distribution.cdf(median)], [0.5], bound);
    }
    let levy = Levy::new(2.0).unwrap();
    let around = [0.999, 1.001].map(|factor| levy.pdf(levy.mode() * factor));
    assert!(around.iter().all(|pdf| *pdf < levy.pdf(levy.mode())));
    assert_close([levy.cdf(levy.median())], [0.5], Tolerance::relative(4));
}

#[test]
fn entropies_meet_their_golden_values() {
    // mpmath 1.3.0, 60 digits. Reciprocal: log(2 pi e/(mean shape))/2 + exp(x) e1(x)/2 at x = 2
    // shape/mean, whose first value was checked by quadrature. Lévy: (1 + 3 euler + log(16 pi
    // scale^2))/2.
    let reciprocal = [
        (2.0, 3.0, 0.6541006687183045),
        (1e-3, 1e5, -0.883646557289373),
        (1e5, 1e-3, 7.691512570959251_f64),
    ];
    for (mean, shape, truth) in reciprocal {
        let distribution = ReciprocalInverseGaussian::new(mean, shape).unwrap();
        let scale: f64 = 1.0 + mean.ln().abs() + shape.ln().abs();
        let bound = Tolerance::relative(4).scaled_by([scale]);
        assert_close([distribution.entropy()], [truth], bound);
    }
    let levy = [
        (2.0, 4.017629981956835),
        (1e-120, -272.9857283578886),
        (3e7, 20.541190741023318_f64),
    ];
    for (scale, truth) in levy {
        let distribution = Levy::new(scale).unwrap();
        let bound = Tolerance::relative(4).scaled_by([1.0 + f64::ln(scale).abs()]);
        assert_close([distribution.entropy()], [truth], bound);
        assert_eq!(
            Distribution::entropy(&distribution),
            Some(distribution.entropy())
        );
    }
}

#[test]
fn a_first_passage_has_the_moments_and_the_mode_of_its_distribution() {
    let distribution = FirstPassage::new(2.0, 0.5, 0.5).unwrap();
    let same = InverseGaussian::new(4.0, 16.0).unwrap();
    assert_close(
        [
            distribution.mean(),
            distribution.variance(),
            distribution.std_dev(),
            distribution.mode(),
        ],
        [same.mean(), same.variance(), same.std_dev(), same.mode()],
        Tolerance::relative(4),
    );
    assert_eq!(Distribution::mean(&distribution), Some(distribution.mean()));
    assert_eq!(
        Distribution::variance(&distribution),
        Some(distribution.variance())
    );
    assert_eq!(
        Distribution::std_dev(&distribution),
        Some(distribution.std_dev())
    );
    assert_eq!(Mode::mode(&distribution), Some(distribution.mode()));
    let away = FirstPassage::new(2.0, -0.5, 0.5).unwrap();
    assert_eq!(away.mode(), distribution.mode());
    for distribution in [away, FirstPassage::new(2.0, 0.0, 0.5).unwrap()] {
        assert_eq!(
            [
                distribution.mean(),
                distribution.variance(),
                distribution.std_dev()
            ],
            [f64::INFINITY; 3]
        );
        assert_eq!(Distribution::std_dev(&distribution), Some(f64::INFINITY));
        assert_eq!(
            (distribution.entropy(), distribution.skewness()),
            (None, None)
        );
    }
    let without = FirstPassage::new(2.0, 0.0, 0.5).unwrap();
    let levy = Levy::new(16.0).unwrap();
    assert_close([without.mode()], [levy.mode()], Tolerance::relative(6));
}

#[test]
fn the_traits_of_statrs_return_the_numbers_of_the_methods() {
    fn check<L: Continuous<f64, f64> + ContinuousCDF<f64, f64> + Functions>(distribution: &L) {
        let names = ["pdf", "ln_pdf", "cdf", "sf"];
        let by_trait = [
            distribution.pdf(0.7),
            distribution.ln_pdf(0.7),
            distribution.cdf(0.7),
            distribution.sf(0.7),
        ];
        assert_eq!(by_trait, names.map(|name| distribution.function(name, 0.7)));
        assert_eq!(
            ContinuousCDF::inverse_cdf(distribution, 0.2),
            distribution.function("inverse_cdf", 0.2)
        );
        assert!(ContinuousCDF::try_inverse_cdf(distribution, 1.5).is_err());
        assert_eq!(
            [distribution.min(), distribution.max()],
            [0.0, f64::INFINITY]
        );
    }
    check(&ReciprocalInverseGaussian::new(2.0, 3.0).unwrap());
    check(&Levy::new(2.0).unwrap());
    check(&FirstPassage::new(2.0, -0.1, 1.0).unwrap());
    // The Lévy distribution of statrs, in the range in which it is accurate.
    let (ours, theirs) = (
        Levy::new(2.0).unwrap(),
        statrs::distribution::Levy::new(0.0, 2.0).unwrap(),
    );
    for x in [0.1, 1.0, 10.0] {
        let theirs = ContinuousCDF::cdf(&theirs, x);
        assert_close(
            [theirs],
            [ours.cdf(x)],
            Tolerance::exact().or_absolute(1e-9 * theirs),
        );
    }
}

#[test]
fn bad_parameters_are_rejected_by_name() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let of = |parameter| move |error| matches!(error, Error::ParameterInvalid { parameter: found, .. } if found == parameter);
        assert!(Levy::new(bad).is_err_and(of("scale")));
        assert!(FirstPassage::new(bad, 1.0, 1.0).is_err_and(of("level")));
        assert!(FirstPassage::new(1.0, 1.0, bad).is_err_and(of("volatility")));
        let rejected = ReciprocalInverseGaussian::new(bad, 1.0);
        assert!(rejected.is_err_and(|error| matches!(error, Error::MeanInvalid { .. })));
    }
    for bad in [f64::NAN, f64::NEG_INFINITY] {
        let rejected = FirstPassage::new(1.0, bad, 1.0).unwrap_err();
        assert_eq!(
            rejected.to_string(),
            format!("first passage: drift is invalid ({bad}; expected finite)")
        );
    }
}

#[cfg(feature = "serde")]
#[test]
fn distributions_are_written_as_their_parameters_and_checked_when_read() {
    let passage = FirstPassage::new(3.0, -1.0, 2.0).unwrap();
    let text = serde_json::to_string(&passage).unwrap();
    assert_eq!(text, r#"{"level":3.0,"drift":-1.0,"volatility":2.0}"#);
    assert_eq!(
        serde_json::from_str::<FirstPassage>(&text).unwrap(),
        passage
    );
    let reciprocal = ReciprocalInverseGaussian::new(2.0, 3.0).unwrap();
    let text = serde_json::to_string(&reciprocal).unwrap();
    assert_eq!(text, r#"{"mean":2.0,"shape":3.0}"#);
    assert!(
        serde_json::from_str::<ReciprocalInverseGaussian>(r#"{"mean":0.0,"shape":3.0}"#).is_err()
    );
    assert!(
        serde_json::from_str::<FirstPassage>(r#"{"level":0.0,"drift":1.0,"volatility":2.0}"#)
            .is_err()
    );
    assert!(serde_json::from_str::<Levy>(r#"{"scale":-1.0}"#).is_err());
}

#[test]
fn draws_follow_the_distributions() {
    // A correct sampler exceeds this distance with the probability 2 exp(-2 · 2.2²) = 1.3e-4.
    const FAR: f64 = 2.2;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
    let mut draw = |sample: &dyn Fn(&mut Xoshiro256PlusPlus) -> f64| -> Vec<f64> {
        (0..20_000).map(|_| sample(&mut rng)).collect()
    };
    for (mean, shape) in [(2.0, 3.0), (1e8, 1e-8), (1e-8, 1e8)] {
        let distribution = ReciprocalInverseGaussian::new(mean, shape).unwrap();
        let draws = draw(&|rng| distribution.sample(rng));
        assert!(kolmogorov(draws, |x| distribution.cdf(x)) < FAR);
    }
    let levy = Levy::new(3.0).unwrap();
    assert!(kolmogorov(draw(&|rng| levy.sample(rng)), |x| levy.cdf(x)) < FAR);
    for drift in [-1.0, -1e-200, 0.0, 1e-320, 1.0] {
        let distribution = FirstPassage::new(1.0, drift, 2.0).unwrap();
        let draws = draw(&|rng| distribution.sample(rng));
        let share = draws.iter().filter(|t| t.is_finite()).count() as f64 / 20_000.0;
        // Four standard deviations of a binomial fraction.
        let deviations = Tolerance::exact().or_absolute(4.0 * (0.25 / 20_000.0_f64).sqrt());
        assert_close([share], [distribution.hitting_probability()], deviations);
        assert!(draws.iter().all(|t| *t > 0.0));
        let finite = draws.into_iter().filter(|t| t.is_finite()).collect();
        assert!(kolmogorov(finite, |t| distribution.given_hit().cdf(t)) < FAR);
    }
}

proptest! {
    #[test]
    fn both_sides_of_a_reciprocal_are_those_of_its_distribution(
        ln_mean in -50.0..50.0_f64, ln_phi in -30.0..18.0_f64, exponent in -8..8_i32,
    ) {
        let mean = ln_mean.exp();
        let distribution = InverseGaussian::new(mean, mean / ln_phi.exp()).unwrap();
        // A power of two has an exact reciprocal.
        let x = 2_f64.powf(f64::from(exponent) + mean.log2().round());
        let found = [distribution.reciprocal().cdf(1.0 / x), distribution.reciprocal().ln_sf(1.0 / x)];
        let floor = f64::MIN_POSITIVE;
        prop_assert!(compare(found, [distribution.sf(x), distribution.ln_cdf(x)], &Tolerance::relative(GATE).or_absolute(floor)).is_ok());
    }

    #[test]
    fn distributions_scale_with_their_parameters(ln_scale in -40..40_i32, x in 1e-3..1e3_f64, drift in -2.0..2.0_f64) {
        let c = 2_f64.powi(ln_scale);
        let cdfs = |c: f64| [
            Levy::new(3.0 * c).unwrap().cdf(x * c),
            ReciprocalInverseGaussian::new(2.0 / c, 3.0 / c).unwrap().cdf(x * c),
            // Scaling the time by c² scales the drift by 1/c² and the volatility by 1/c.
            FirstPassage::new(1.5, drift / (c * c), 1.0 / c).unwrap().cdf(x * c * c),
        ];
        prop_assert!(compare(cdfs(c), cdfs(1.0), &Tolerance::relative(4)).is_ok());
    }

    #[test]
    fn sides_sum_to_one_and_quantiles_invert(
        ln_phi in -20.0..15.0_f64, sign in -1..2_i32, p in 1e-6..0.999_f64,
    ) {
        let distribution = FirstPassage::new(2.0, f64::from(sign), ln_phi.exp().sqrt()).unwrap();
        let t = distribution.inverse_cdf(p);
        if p < distribution.hitting_probability() * (1.0 - 1e-9) {
            // The relative change of the probability per relative change of t.
            let steepness = t * distribution.pdf(t) / p;
            let bound = Tolerance::exact().or_absolute(1e-14 * p * (1.0 + steepness));
            prop_assert!(compare([distribution.cdf(t)], [p], &bound).is_ok());
            prop_assert!(compare([distribution.cdf(t) + distribution.sf(t)], [1.0], &Tolerance::relative(4)).is_ok());
        } else {
            prop_assert!(t > 0.0);
        }
        let q = 1.0 - p;
        let u = distribution.inverse_sf(q);
        if u < f64::INFINITY {
            let bound = Tolerance::exact().or_absolute(1e-13 * (1.0 + u * distribution.pdf(u)));
            prop_assert!(compare([distribution.sf(u)], [q], &bound).is_ok());
        }
    }
}
