//! The standardized inverse Gaussian against golden values and the unstandardized distribution.

use crate::support::table;
use distributions::{Error, InverseGaussian, Standardized};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tensor_core::compare::{Tolerance, assert_close};

/// Tolerance in epsilons: 4e-15.
const GATE: usize = 18;

/// A function of a distribution and an argument.
type Function = fn(&Standardized, f64) -> f64;

#[test]
fn functions_meet_their_golden_values() {
    let cases: [(&str, Function); 6] = [
        ("pdf", Standardized::pdf),
        ("logpdf", Standardized::ln_pdf),
        ("cdf", Standardized::cdf),
        ("sf", Standardized::sf),
        ("logcdf", Standardized::ln_cdf),
        ("logsf", Standardized::ln_sf),
    ];
    let rows = table("standardized.csv");
    assert!(rows.len() > 100);
    for (column, function) in cases {
        let (mut found, mut truth) = (Vec::new(), Vec::new());
        for row in &rows {
            let distribution = Standardized::new(row.number("k")).unwrap();
            found.push(function(&distribution, row.number("y")));
            truth.push(row.number(column));
        }
        let at_least = if column == "logpdf" { 1.0 } else { 0.0 };
        let scales: Vec<f64> = truth.iter().map(|t| t.abs().max(at_least)).collect();
        let bound = Tolerance::relative(GATE).scaled_by(scales);
        assert_close(found, truth, bound.or_absolute(f64::MIN_POSITIVE));
    }
}

#[test]
fn quantiles_lead_back_however_large_k_is() {
    for k in [1e-2, 1.0, 40.0, 1e4, 1e8, 1e12] {
        let distribution = Standardized::new(k).unwrap();
        for p in [1e-200, 1e-20, 1e-3, 0.2, 0.5, 0.8] {
            for (y, tail) in [
                (
                    distribution.inverse_cdf(p),
                    distribution.ln_cdf(distribution.inverse_cdf(p)),
                ),
                (
                    distribution.inverse_sf(p),
                    distribution.ln_sf(distribution.inverse_sf(p)),
                ),
            ] {
                // A relative change of y by one epsilon changes ln P by `slope` epsilons.
                let slope = distribution.pdf(y) / p * y.abs();
                let size = p.ln().abs() + slope;
                // The tolerance of ln P counts twice, for the search and for this check. The
                // remaining 4 epsilons are for the rounding of y.
                let bound = Tolerance::relative(2 * GATE + 4).scaled_by([size]);
                assert_close([tail], [p.ln()], bound);
            }
        }
    }
}

#[test]
fn it_is_the_inverse_gaussian_moved_and_scaled() {
    let distribution = InverseGaussian::new(2.0, 18.0).unwrap();
    let standardized = distribution.standardized();
    assert_eq!(standardized, Standardized::new(3.0).unwrap());
    for x in [0.1, 1.0, 2.0, 5.0] {
        let y = (x - distribution.mean()) / distribution.std_dev();
        let found = [standardized.cdf(y), standardized.hazard(y)];
        let truth = [
            distribution.cdf(x),
            distribution.hazard(x) * distribution.std_dev(),
        ];
        // The tails magnify a relative error of y, here by up to 200.
        assert_close(found, truth, Tolerance::relative(1000));
    }
    assert_close(
        [
            standardized.entropy(),
            standardized.median(),
            standardized.mode(),
        ],
        [
            distribution.entropy() - distribution.std_dev().ln(),
            (distribution.median() - distribution.mean()) / distribution.std_dev(),
            (distribution.mode() - distribution.mean()) / distribution.std_dev(),
        ],
        Tolerance::relative(50),
    );
}

#[test]
fn the_median_is_a_little_below_the_mean() {
    for step in -200..=200 {
        let k = 10_f64.powf(f64::from(step) / 50.0);
        let median = Standardized::new(k).unwrap().median();
        assert!(-0.344 < median && median < 0.0, "{k}: {median}");
    }
}

#[test]
fn the_support_ends_at_minus_k() {
    let distribution = Standardized::new(2.0).unwrap();
    assert_eq!(
        [
            distribution.cdf(-2.0),
            distribution.pdf(-3.0),
            distribution.hazard(-2.0)
        ],
        [0.0; 3]
    );
    assert_eq!(
        [distribution.sf(-2.0), distribution.cdf(f64::INFINITY)],
        [1.0; 2]
    );
    assert_eq!(
        (distribution.inverse_cdf(0.0), distribution.inverse_cdf(1.0)),
        (-2.0, f64::INFINITY)
    );
    assert_eq!(distribution.hazard(f64::INFINITY), 1.0);
    assert!(distribution.pdf(f64::NAN).is_nan());
    for k in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            Standardized::new(k),
            Err(Error::RatioInvalid { .. })
        ));
    }
}

#[test]
fn draws_have_mean_zero_and_variance_one() {
    const N: usize = 100_000;
    for k in [0.5, 3.0, 1e7] {
        let distribution = Standardized::new(k).unwrap();
        let draws: Vec<f64> = Xoshiro256PlusPlus::seed_from_u64(3)
            .sample_iter(distribution)
            .take(N)
            .collect();
        let mean = draws.iter().sum::<f64>() / N as f64;
        let square = draws.iter().map(|y| y * y).sum::<f64>() / N as f64;
        // Five standard errors. The variance of y² is the kurtosis 3 + 15/k² minus 1.
        let error = 5.0 / (N as f64).sqrt();
        let within = |allowed| Tolerance::exact().or_absolute(allowed);
        assert_close([mean], [0.0], within(error));
        let spread = (2.0 + 15.0 / k / k).sqrt();
        assert_close([square], [1.0], within(error * spread));
    }
}

#[test]
fn extreme_ratios_stay_in_range() {
    for k in [5e-324, 1e-200, 1e-100, 1e100, 1e200, f64::MAX] {
        let distribution = Standardized::new(k).unwrap();
        for y in [-1e300, -1.0, -1e-300, 0.0, 1e-300, 1.0, 1e300] {
            assert!(
                (0.0..=1.0).contains(&distribution.cdf(y))
                    && (0.0..=1.0).contains(&distribution.sf(y)),
                "{k} {y}"
            );
            assert!(
                distribution.pdf(y) >= 0.0
                    && distribution.ln_sf(y) <= 0.0
                    && distribution.hazard(y) >= 0.0,
                "{k} {y}"
            );
        }
        for p in [0.0, 1e-300, 0.5, 1.0] {
            assert!(distribution.inverse_cdf(p) >= -k, "{k} {p}");
        }
    }
}
