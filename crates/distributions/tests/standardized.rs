//! The standardized inverse Gaussian against golden values and the unstandardized distribution.

mod support;

use distributions::{Error, InverseGaussian, Standardized};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use support::table;
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
    let number = |row: &std::collections::HashMap<String, String>, column: &str| -> f64 {
        row[column].parse().unwrap()
    };
    for (column, function) in cases {
        let (mut found, mut truth) = (Vec::new(), Vec::new());
        for row in &rows {
            let law = Standardized::new(number(row, "k")).unwrap();
            found.push(function(&law, number(row, "y")));
            truth.push(number(row, column));
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
        let law = Standardized::new(k).unwrap();
        for p in [1e-200, 1e-20, 1e-3, 0.2, 0.5, 0.8] {
            for (y, tail) in [
                (law.inverse_cdf(p), law.ln_cdf(law.inverse_cdf(p))),
                (law.inverse_sf(p), law.ln_sf(law.inverse_sf(p))),
            ] {
                // A relative change of y by one epsilon changes ln P by `slope` epsilons.
                let slope = law.pdf(y) / p * y.abs();
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
    let law = InverseGaussian::new(2.0, 18.0).unwrap();
    let standardized = law.standardized();
    assert_eq!(standardized, Standardized::new(3.0).unwrap());
    for x in [0.1, 1.0, 2.0, 5.0] {
        let y = (x - law.mean()) / law.std_dev();
        let found = [standardized.cdf(y), standardized.hazard(y)];
        let truth = [law.cdf(x), law.hazard(x) * law.std_dev()];
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
            law.entropy() - law.std_dev().ln(),
            (law.median() - law.mean()) / law.std_dev(),
            (law.mode() - law.mean()) / law.std_dev(),
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
    let law = Standardized::new(2.0).unwrap();
    assert_eq!([law.cdf(-2.0), law.pdf(-3.0), law.hazard(-2.0)], [0.0; 3]);
    assert_eq!([law.sf(-2.0), law.cdf(f64::INFINITY)], [1.0; 2]);
    assert_eq!(
        (law.inverse_cdf(0.0), law.inverse_cdf(1.0)),
        (-2.0, f64::INFINITY)
    );
    assert_eq!(law.hazard(f64::INFINITY), 1.0);
    assert!(law.pdf(f64::NAN).is_nan());
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
        let law = Standardized::new(k).unwrap();
        let draws: Vec<f64> = Xoshiro256PlusPlus::seed_from_u64(3)
            .sample_iter(law)
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
        let law = Standardized::new(k).unwrap();
        for y in [-1e300, -1.0, -1e-300, 0.0, 1e-300, 1.0, 1e300] {
            assert!(
                (0.0..=1.0).contains(&law.cdf(y)) && (0.0..=1.0).contains(&law.sf(y)),
                "{k} {y}"
            );
            assert!(
                law.pdf(y) >= 0.0 && law.ln_sf(y) <= 0.0 && law.hazard(y) >= 0.0,
                "{k} {y}"
            );
        }
        for p in [0.0, 1e-300, 0.5, 1.0] {
            assert!(law.inverse_cdf(p) >= -k, "{k} {p}");
        }
    }
}
