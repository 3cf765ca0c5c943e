//! Every function at its limits: outside the support, beyond f64's range, and for parameters far
//! outside the range for which accuracy is guaranteed.

use distributions::{Error, InverseGaussian};
use tensor_core::compare::{Tolerance, assert_close};

type Function = fn(&InverseGaussian, f64) -> f64;

/// Each function with its name and its limits at 0 and at ∞, for mean and shape 1.25.
const FUNCTIONS: [(&str, Function, [f64; 2]); 7] = [
    ("pdf", InverseGaussian::pdf, [0.0, 0.0]),
    (
        "ln_pdf",
        InverseGaussian::ln_pdf,
        [f64::NEG_INFINITY, f64::NEG_INFINITY],
    ),
    ("cdf", InverseGaussian::cdf, [0.0, 1.0]),
    ("sf", InverseGaussian::sf, [1.0, 0.0]),
    ("ln_cdf", InverseGaussian::ln_cdf, [f64::NEG_INFINITY, 0.0]),
    ("ln_sf", InverseGaussian::ln_sf, [0.0, f64::NEG_INFINITY]),
    ("hazard", InverseGaussian::hazard, [0.0, 0.4]),
];
/// Magnitudes of parameters and arguments.
const SIZES: [f64; 15] = [
    5e-324,
    f64::MIN_POSITIVE,
    1e-300,
    1e-200,
    1e-100,
    1e-20,
    1e-3,
    1.0,
    37.0,
    1e8,
    1e20,
    1e100,
    1e200,
    1e300,
    f64::MAX,
];

#[test]
fn outside_the_support_functions_have_their_limits() {
    let distribution = InverseGaussian::new(1.25, 1.25).unwrap();
    for (name, function, [at_zero, at_infinity]) in FUNCTIONS {
        for x in [0.0, -0.0, -1.0, -1e300, f64::NEG_INFINITY] {
            assert_eq!(function(&distribution, x), at_zero, "{name} at {x}");
        }
        assert_eq!(
            function(&distribution, f64::INFINITY),
            at_infinity,
            "{name} at infinity"
        );
        assert!(function(&distribution, f64::NAN).is_nan(), "{name} at NaN");
    }
    assert!(distribution.sample_gradient(-1.0)[0].is_nan());
}

#[test]
fn no_function_is_nan_or_outside_its_range() {
    for mean in SIZES {
        for shape in SIZES {
            let distribution = InverseGaussian::new(mean, shape).unwrap();
            for x in SIZES {
                for (name, function, _) in FUNCTIONS {
                    let value = function(&distribution, x);
                    let range = match name {
                        "cdf" | "sf" => 0.0..=1.0,
                        "ln_cdf" | "ln_sf" => f64::NEG_INFINITY..=0.0,
                        "pdf" | "hazard" => 0.0..=f64::INFINITY,
                        _ => f64::NEG_INFINITY..=f64::INFINITY,
                    };
                    assert!(
                        range.contains(&value),
                        "{name} of {distribution:?} at {x}: {value}"
                    );
                }
            }
        }
    }
}

#[test]
fn quantiles_are_in_range_and_in_the_order_of_their_probabilities() {
    let probabilities = [
        0.0,
        5e-324,
        1e-300,
        1e-17,
        0.3,
        0.475,
        0.5,
        0.525,
        0.75,
        1.0 - f64::EPSILON,
        1.0,
    ];
    let logarithms = [
        f64::NEG_INFINITY,
        -f64::MAX,
        -1e308,
        -8e307,
        -1e300,
        -1e25,
        -1e5,
        -700.0,
        -1.0,
        -1e-17,
        -5e-324,
        0.0,
    ];
    for mean in SIZES {
        for shape in SIZES {
            let distribution = InverseGaussian::new(mean, shape).unwrap();
            let in_order = |name: &str, xs: &[f64]| {
                let is_in_range = xs.iter().all(|x| (0.0..=f64::INFINITY).contains(x));
                // Rounding errors may exchange quantiles that are almost equal, and a quantile that
                // is not a normal number may be rounded to 0.
                let is_rising =
                    xs.is_sorted_by(|a, b| a * (1.0 - 1e-9) <= b.max(f64::MIN_POSITIVE));
                // If λ/μ overflows, small differences of x and μ are lost.
                let is_supported = (shape / mean).is_finite();
                assert!(
                    is_in_range && (is_rising || !is_supported),
                    "{name} of {distribution:?}: {xs:?}"
                );
            };
            let rising = |ps: &[f64], quantile: fn(&InverseGaussian, f64) -> f64| {
                let xs = ps.iter().map(|&p| quantile(&distribution, p));
                xs.collect::<Vec<f64>>()
            };
            let falling = |ps: &[f64], quantile| {
                let mut xs = rising(ps, quantile);
                xs.reverse();
                xs
            };
            in_order(
                "inverse_cdf",
                &rising(&probabilities, InverseGaussian::inverse_cdf),
            );
            in_order(
                "inverse_sf",
                &falling(&probabilities, InverseGaussian::inverse_sf),
            );
            in_order(
                "inverse_ln_cdf",
                &rising(&logarithms, InverseGaussian::inverse_ln_cdf),
            );
            in_order(
                "inverse_ln_sf",
                &falling(&logarithms, InverseGaussian::inverse_ln_sf),
            );
        }
    }
}

/// At such probabilities, `ln P(X <= x)` is `-λ/(2x)` and `ln P(X > x)` is `-λx/(2μ²)`. The
/// logarithms of smaller probabilities are rounded to -∞ or to about -9e307, half the least f64.
#[test]
fn quantiles_of_the_least_logarithms_are_those_of_the_exponents() {
    for (mean, shape, lower, upper) in [
        (1.0, 30.0, 15.0 / 8e307, 1.6e308 / 30.0),
        (1.0, 1e-8, 0.0, f64::INFINITY),
        (1e-150, 1e-150, 0.0, 1.6e158),
        (1e150, 1e150, 6.25e-159, f64::INFINITY),
        (1e308, 1e308, 0.625, f64::INFINITY),
    ] {
        let distribution = InverseGaussian::new(mean, shape).unwrap();
        let found = [
            distribution.inverse_ln_cdf(-8e307),
            distribution.inverse_ln_sf(-8e307),
        ];
        assert_close(found, [lower, upper], Tolerance::relative(64));
    }
}

#[test]
fn quantiles_of_subnormal_probabilities_are_those_of_their_logarithms() {
    for (mean, shape) in [(1.0, 1.0), (3.0, 40.0), (40.0, 0.3)] {
        let distribution = InverseGaussian::new(mean, shape).expect("the parameters are positive");
        for p in [5e-324, 1e-315, 1e-308, f64::MIN_POSITIVE] {
            let (lower, upper) = (distribution.inverse_cdf(p), distribution.inverse_sf(p));
            assert_close(
                [lower],
                [distribution.inverse_ln_cdf(p.ln())],
                Tolerance::relative(16),
            );
            assert_close(
                [upper],
                [distribution.inverse_ln_sf(p.ln())],
                Tolerance::relative(16),
            );
        }
    }
}

#[test]
fn the_ends_of_the_quantile_are_those_of_the_support() {
    let distribution = InverseGaussian::new(2.0, 3.0).unwrap();
    let zeros = [
        distribution.inverse_cdf(0.0),
        distribution.inverse_sf(1.0),
        distribution.inverse_ln_cdf(f64::NEG_INFINITY),
        distribution.inverse_ln_sf(0.0),
    ];
    let infinities = [
        distribution.inverse_cdf(1.0),
        distribution.inverse_sf(0.0),
        distribution.inverse_ln_cdf(0.0),
        distribution.inverse_ln_sf(f64::NEG_INFINITY),
    ];
    assert_eq!(zeros, [0.0; 4]);
    assert_eq!(infinities, [f64::INFINITY; 4]);
}

#[test]
fn what_is_no_probability_is_rejected() {
    let distribution = InverseGaussian::new(2.0, 3.0).unwrap();
    for p in [-1e-300, 1.0 + f64::EPSILON, f64::NAN, f64::INFINITY] {
        for found in [
            distribution.try_inverse_cdf(p),
            distribution.try_inverse_sf(p),
        ] {
            assert!(
                matches!(found, Err(Error::ProbabilityInvalid { .. })),
                "{p}"
            );
        }
    }
    for ln_p in [5e-324, f64::NAN, f64::INFINITY] {
        for found in [
            distribution.try_inverse_ln_cdf(ln_p),
            distribution.try_inverse_ln_sf(ln_p),
        ] {
            assert!(
                matches!(found, Err(Error::LnProbabilityInvalid { .. })),
                "{ln_p}"
            );
        }
    }
    let message = distribution.try_inverse_sf(1.5).unwrap_err().to_string();
    assert_eq!(
        message,
        "inverse_sf: probability is invalid (1.5; expected from 0 to 1)"
    );
}

#[test]
#[should_panic(expected = "inverse_cdf: probability is invalid (-0.5")]
fn the_inverse_of_no_probability_panics_as_in_statrs() {
    let _ = InverseGaussian::new(2.0, 3.0).unwrap().inverse_cdf(-0.5);
}

#[test]
fn parameters_that_no_distribution_has_are_rejected() {
    for wrong in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let found = InverseGaussian::new(wrong, 1.0).unwrap_err();
        assert!(matches!(found, Error::MeanInvalid { .. }), "{wrong}");
        let found = InverseGaussian::new(1.0, wrong).unwrap_err();
        assert!(matches!(found, Error::ShapeInvalid { .. }), "{wrong}");
    }
}

#[test]
fn the_mean_the_mode_and_their_neighbours_are_no_seams() {
    for phi in [1e-14, 1e-7, 1e-2, 1.0, 1e2, 1e8] {
        let distribution = InverseGaussian::new(1.0, 1.0 / phi).unwrap();
        for centre in [distribution.mean(), distribution.mode()] {
            let near = [centre.next_down(), centre, centre.next_up()];
            for function in [InverseGaussian::cdf as Function, InverseGaussian::ln_pdf] {
                let [below, at, above] = near.map(|x| function(&distribution, x));
                // A change of x by one epsilon changes the result by about x f(x) epsilons, and the
                // result itself is rounded.
                let step = 1.0 + centre * distribution.pdf(centre);
                let bound = Tolerance::relative(10).scaled_by([step + at.abs(); 2]);
                assert_close([below, above], [at; 2], bound);
            }
        }
    }
}
