//! The shifted inverse Gaussian: its relation to the unshifted distribution, and its fit.
//!
//! The golden values of its functions and quantiles are in `wide.csv`; `relatives.rs` tests them.

use crate::support::kolmogorov;
use distributions::estimate::{Fit, ShiftedFit};
use distributions::{Error, InverseGaussian, ShiftedInverseGaussian};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use statrs::statistics::{Distribution, Max, Min};
use tensor_core::compare::{Tolerance, assert_close, compare};

/// Creates a shifted distribution.
fn distribution(shift: f64, mean: f64, shape: f64) -> ShiftedInverseGaussian {
    ShiftedInverseGaussian::new(shift, mean, shape).expect("parameters of a distribution")
}

/// Returns `n` draws for a seed.
fn draws(distribution: &ShiftedInverseGaussian, n: usize, seed: u64) -> Vec<f64> {
    let mut xs = vec![0.0; n];
    distribution.sample_into(&mut Xoshiro256PlusPlus::seed_from_u64(seed), &mut xs);
    xs
}

#[test]
fn an_exact_difference_has_the_bits_of_the_unshifted_distribution() {
    let (shifted, plain) = (
        distribution(-0.5, 2.0, 3.0),
        InverseGaussian::new(2.0, 3.0).unwrap(),
    );
    for y in [0.125, 0.75, 2.0, 2.5, 40.0] {
        let x = y - 0.5;
        let found = [
            shifted.pdf(x),
            shifted.ln_pdf(x),
            shifted.cdf(x),
            shifted.sf(x),
            shifted.ln_cdf(x),
            shifted.ln_sf(x),
            shifted.hazard(x),
        ];
        let expected = [
            plain.pdf(y),
            plain.ln_pdf(y),
            plain.cdf(y),
            plain.sf(y),
            plain.ln_cdf(y),
            plain.ln_sf(y),
            plain.hazard(y),
        ];
        assert_close(found, expected, Tolerance::relative(2));
    }
    for p in [1e-300, 0.25, 0.75] {
        assert_eq!(shifted.inverse_sf(p), plain.inverse_sf(p) - 0.5);
    }
}

#[test]
fn the_ends_of_the_support_and_the_moments_are_moved() {
    for shift in [-3.0, 0.0, 1e3] {
        let distribution = distribution(shift, 2.0, 4.0);
        for x in [shift, shift - 1.0, f64::NEG_INFINITY] {
            assert_eq!(
                [distribution.pdf(x), distribution.cdf(x), distribution.sf(x)],
                [0.0, 0.0, 1.0]
            );
            assert_eq!([distribution.hazard(x), distribution.ln_sf(x)], [0.0, 0.0]);
        }
        let end = f64::INFINITY;
        assert_eq!(
            [
                distribution.cdf(end),
                distribution.sf(end),
                distribution.hazard(end)
            ],
            [1.0, 0.0, 0.5]
        );
        assert!(distribution.pdf(f64::NAN).is_nan() && distribution.cdf(f64::NAN).is_nan());
        assert_eq!(
            [distribution.inverse_cdf(0.0), distribution.inverse_sf(0.0)],
            [shift, end]
        );
        assert_eq!(
            [Min::min(&distribution), Max::max(&distribution)],
            [shift, end]
        );
        assert_eq!(Distribution::mean(&distribution), Some(shift + 2.0));
        assert_eq!(Distribution::variance(&distribution), Some(2.0));
        assert!(
            distribution.mode() < distribution.median()
                && distribution.median() < distribution.mean()
        );
    }
}

#[test]
fn no_function_is_nan_at_the_ends_of_the_range_of_f64() {
    let sizes = [1e-300, 1.0, 1e300];
    for shift in [-f64::MAX, -1.0, 1e-300, 1e300, f64::MAX] {
        for (mean, shape) in sizes.iter().flat_map(|&a| sizes.map(|b| (a, b))) {
            let distribution = distribution(shift, mean, shape);
            for x in [shift.next_up(), -1e300, 0.0, 1.0, 1e300, f64::MAX] {
                let values = [
                    distribution.pdf(x),
                    distribution.ln_pdf(x),
                    distribution.cdf(x),
                    distribution.sf(x),
                    distribution.hazard(x),
                ];
                assert!(
                    values.iter().all(|value| !value.is_nan()),
                    "{distribution:?} at {x:e}"
                );
                assert!(
                    [distribution.cdf(x), distribution.sf(x)]
                        .iter()
                        .all(|p| (0.0..=1.0).contains(p))
                );
            }
            let quantiles = [1e-300, 0.5, 0.9].map(|p| distribution.inverse_cdf(p));
            assert!(
                quantiles.iter().all(|x| *x >= shift),
                "{distribution:?}: {quantiles:?}"
            );
            assert!(
                draws(&distribution, 8, 1)
                    .iter()
                    .all(|x| *x >= shift && x.is_finite())
            );
        }
    }
}

#[test]
fn draws_follow_the_distribution() {
    for (shift, mean, shape) in [(0.2, 0.4, 1.5), (-1e3, 2.0, 0.1)] {
        let distribution = distribution(shift, mean, shape);
        // A correct sampler exceeds this distance with probability 1.3e-4.
        assert!(kolmogorov(draws(&distribution, 20_000, 3), |x| distribution.cdf(x)) < 2.2);
    }
}

#[test]
fn invalid_parameters_are_rejected() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = ShiftedInverseGaussian::new(bad, 1.0, 1.0).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("shifted inverse Gaussian: shift is invalid ({bad}; expected finite)")
        );
        let error = ShiftedFit::from_sample(&[1.0, 2.0, 3.0, bad], 0.0).unwrap_err();
        assert!(matches!(error, Error::ObservationInvalid { index: 3, .. }));
        assert!(error.to_string().ends_with("; expected finite)"), "{error}");
        let error = ShiftedFit::from_sample(&[1.0, 2.0, 3.0, 5.0], bad).unwrap_err();
        assert!(matches!(error, Error::ParameterInvalid { .. }));
    }
    let error = ShiftedFit::from_sample(&[], 0.0).unwrap_err();
    assert!(matches!(error, Error::TooFewObservations { .. }), "{error}");
    let error = ShiftedFit::from_sample(&[1.0, 2.0, 3.0, 5.0], 1.0).unwrap_err();
    assert!(matches!(error, Error::ParameterInvalid { .. }));
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        for error in [
            InverseGaussian::from_mean_dispersion(1.0, bad).unwrap_err(),
            InverseGaussian::from_mean_variance(1.0, bad).unwrap_err(),
        ] {
            assert!(matches!(error, Error::ParameterInvalid { .. }), "{error}");
        }
    }
    let error = InverseGaussian::from_mean_variance(1e200, 1e-200).unwrap_err();
    assert!(matches!(error, Error::ShapeInvalid { .. }));
    // The shape mean³/variance is in f64's range although the cube of the mean is not.
    let large = InverseGaussian::from_mean_variance(1e150, 1e300).unwrap();
    assert_close([large.shape()], [1e150], Tolerance::relative(4));
}

#[test]
fn a_shift_is_found_to_its_standard_error() {
    for (seed, shift) in (0..).zip([-5.0, 0.0, 0.3, 2.0]) {
        let xs = draws(&distribution(shift, 1.0, 1.5), 2000, seed);
        let fit = ShiftedFit::from_sample(&xs, shift - 10.0).unwrap();
        assert!(!fit.is_at_bound());
        let found = fit.distribution();
        let parameters = [
            found.shift(),
            found.unshifted().mean(),
            found.unshifted().shape(),
        ];
        assert_close(
            parameters,
            [shift, 1.0, 1.5],
            Tolerance::exact().or_absolute(0.3),
        );
        let at_truth: f64 = xs
            .iter()
            .map(|&x| distribution(shift, 1.0, 1.5).ln_pdf(x))
            .sum();
        let gain = fit.ln_likelihood() - at_truth;
        // Twice the gain has a χ² distribution with 3 degrees of freedom; it exceeds 20 in one of
        // 5,900 samples.
        assert!((0.0..10.0).contains(&gain), "{gain}");
        assert_eq!(fit.aic(), 6.0 - 2.0 * fit.ln_likelihood());
    }
}

#[test]
fn a_sample_that_is_not_skewed_has_its_shift_at_the_bound() {
    let xs = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.5];
    for bound in [-10.0, -1e3, 0.0] {
        let fit = ShiftedFit::from_sample(&xs, bound).unwrap();
        assert!(fit.is_at_bound());
        assert_eq!(fit.distribution().shift(), bound);
    }
    let fit = ShiftedFit::from_sample(&xs, 0.0).unwrap();
    assert_eq!(fit.above_shift(), Fit::from_sample(&xs).unwrap());
}

#[test]
fn a_likelihood_without_a_maximum_is_an_error() {
    for xs in [
        &[1.0, 2.0, 5.0][..],
        &[1.0, 1.0, 2.0, 3.0, 4.0, 9.0],
        &[1.0, 1.0 + 1e-13, 2.0, 3.0, 4.0],
        &[2.0; 9],
    ] {
        let error = ShiftedFit::from_sample(xs, 0.0).unwrap_err();
        assert!(
            matches!(error, Error::LikelihoodUnbounded { .. }),
            "{error}"
        );
    }
    let error = ShiftedFit::from_sample(&[1.0, 1.0, 2.0, 3.0, 4.0, 9.0], 0.0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ShiftedFit::from_sample: likelihood has no maximum (2 of 6 observations are at or next to the smallest, 1.0; expected fewer \
         than a third)"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_other_shift_has_a_larger_likelihood(seed in 0..1000_u64, n in 5..40_usize, share in 0.0..0.999_f64) {
        let xs = draws(&distribution(1.0, 1.0, 2.0), n, seed);
        let fit = ShiftedFit::from_sample(&xs, 0.0);
        // If the two smallest observations are nearly equal, the likelihood may have no maximum.
        prop_assume!(!matches!(fit, Err(Error::LikelihoodUnbounded { .. })));
        let smallest = xs.iter().copied().fold(f64::INFINITY, f64::min);
        let moved: Vec<f64> = xs.iter().map(|x| x - share * smallest).collect();
        let other = Fit::from_sample(&moved).unwrap().ln_likelihood();
        // Tolerance: the rounding errors of two sums.
        prop_assert!(other <= fit.unwrap().ln_likelihood() + 1e-9);
    }

    #[test]
    fn quantiles_lead_back(shift in -100.0..100.0_f64, ln_phi in -5.0..5.0_f64, p in 1e-9..0.999_f64) {
        let distribution = distribution(shift, 1.0, (-ln_phi).exp());
        let x = distribution.inverse_cdf(p);
        // The change of the probability per relative change of x and of the shift.
        let steepness = (x.abs() + shift.abs()) * distribution.pdf(x);
        let bound = Tolerance::relative(8).scaled_by([p + steepness]);
        prop_assert!(compare([distribution.cdf(x)], [p], &bound).is_ok());
    }
}

#[cfg(feature = "serde")]
#[test]
fn a_shifted_distribution_is_read_back_and_checked() {
    let distribution = distribution(-0.25, 2.0, 3.0);
    let text = serde_json::to_string(&distribution).unwrap();
    assert_eq!(text, r#"{"shift":-0.25,"mean":2.0,"shape":3.0}"#);
    assert_eq!(
        serde_json::from_str::<ShiftedInverseGaussian>(&text).unwrap(),
        distribution
    );
    let bad = text.replace("2.0", "-2.0");
    assert!(serde_json::from_str::<ShiftedInverseGaussian>(&bad).is_err());
}
