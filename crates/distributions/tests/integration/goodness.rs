//! Goodness-of-fit statistics against golden values, and rejection rates of the tests.

use crate::support::samples::{N_SAMPLES, Sample, check, draws, is_binomial};
use crate::support::table;
use distributions::estimate::{GoodnessOfFit, kolmogorov_p_value};
use distributions::{Error, InverseGaussian};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tensor_core::compare::{Tolerance, assert_close};

/// Returns the distribution from which a golden sample was drawn.
fn true_distribution(sample: &Sample) -> InverseGaussian {
    InverseGaussian::new(sample.number("mu"), sample.number("lambda"))
        .expect("golden parameters are valid")
}

#[test]
fn statistics_of_fit_meet_their_golden_values() {
    // Each of the 2n logarithms has a few roundings, and their sum exceeds the statistic by n, so
    // the error is relative to n plus the statistic.
    let samples = Sample::all();
    let scales = samples
        .iter()
        .map(|sample| sample.number("anderson_darling") + sample.xs.len() as f64);
    let bound = Tolerance::relative(8).scaled_by(scales);
    check("anderson_darling", bound, |sample, _| {
        let statistic =
            GoodnessOfFit::AndersonDarling.statistic(&true_distribution(sample), &sample.xs);
        statistic.unwrap()
    });
    let bound = Tolerance::relative(8).scaled_by(samples.iter().map(|_| 1.0));
    check("kolmogorov", bound, |sample, _| {
        let statistic = GoodnessOfFit::Kolmogorov.statistic(&true_distribution(sample), &sample.xs);
        statistic.unwrap()
    });
}

#[test]
fn kolmogorovs_p_value_is_near_everywhere_and_exact_in_the_tail() {
    for row in table("estimate-kolmogorov.csv") {
        let [n, d, truth] = ["n", "d", "p"].map(|column| row.number(column));
        // The tolerances of the documentation. In the tail the result neglects the probability of
        // deviations on both sides, which is a fraction exp(-6 n d²) of the p-value.
        let relative = match (n, truth) {
            (_, ..0.011) => 2e-7,
            (_, ..0.051) => 2e-5,
            (10.0.., _) => 4e-3,
            _ => 0.08,
        };
        let p = kolmogorov_p_value(row.text("n").parse().unwrap(), d);
        assert_close(
            [p],
            [truth],
            Tolerance::exact().or_absolute(relative * truth),
        );
    }
}

#[test]
fn kolmogorovs_p_value_is_defined_for_any_number() {
    for (d, p) in [
        (-1.0, 1.0),
        (0.0, 1.0),
        (1e-300, 1.0),
        (1.0, 0.0),
        (f64::INFINITY, 0.0),
    ] {
        assert_eq!(kolmogorov_p_value(7, d), p);
    }
    assert!(kolmogorov_p_value(7, f64::NAN).is_nan() && kolmogorov_p_value(0, 0.5).is_nan());
}

#[test]
fn p_values_of_given_distributions_are_uniform() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(9);
    let distribution = InverseGaussian::new(1.0, 1.0).unwrap();
    let mut below = [0; 2];
    for _ in 0..N_SAMPLES {
        let d = GoodnessOfFit::Kolmogorov
            .statistic(&distribution, &draws(1.0, 50, &mut rng))
            .unwrap();
        for (below, p) in below.iter_mut().zip([0.05, 0.5]) {
            *below += u32::from(kolmogorov_p_value(50, d) <= p);
        }
    }
    assert!(
        is_binomial(below[0], N_SAMPLES, 0.05) && is_binomial(below[1], N_SAMPLES, 0.5),
        "{below:?}"
    );
}

#[test]
fn an_observation_beyond_f64s_distribution_function_leaves_the_statistic_finite() {
    let distribution = InverseGaussian::new(1.0, 1.0).unwrap();
    assert_eq!(distribution.cdf(1e6), 1.0);
    let statistic = GoodnessOfFit::AndersonDarling
        .statistic(&distribution, &[0.5, 1.0, 1e6])
        .unwrap();
    // The outlier dominates the statistic by its term -ln P(X > x)/n, about λ x/(2 μ² n).
    let term = 1e6 / 2.0 / 3.0;
    assert_close(
        [statistic],
        [term],
        Tolerance::exact().or_absolute(1e-3 * term),
    );
}

#[test]
fn bootstrap_p_values_are_uniform_where_the_distribution_fits() {
    const N_RUNS: u32 = 400;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(6);
    for measure in [GoodnessOfFit::AndersonDarling, GoodnessOfFit::Kolmogorov] {
        let mut below = [0; 3];
        for _ in 0..N_RUNS {
            let xs = draws(0.7, 20, &mut rng);
            let test = measure.bootstrap(&xs, 99, &mut rng).unwrap();
            for (below, p) in below.iter_mut().zip([0.1, 0.5, 0.9]) {
                *below += u32::from(test.p_value <= p);
            }
        }
        let as_said = below.iter().zip([0.1, 0.5, 0.9]);
        assert!(
            as_said
                .into_iter()
                .all(|(&count, p)| is_binomial(count, N_RUNS, p)),
            "{measure:?} {below:?}"
        );
    }
}

#[test]
fn bootstrap_finds_other_distributions_out() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut sample =
        |of: &dyn Fn(f64) -> f64| -> Vec<f64> { (0..400).map(|_| of(rng.random())).collect() };
    // Weibull with shape 3, exponential, and gamma with shape 2: all have more probability near 0
    // than any inverse Gaussian of the same spread.
    let weibull = sample(&|u| (-u.ln()).cbrt());
    let exponential = sample(&|u| -u.ln());
    let gamma = sample(&|u| -u.ln())
        .into_iter()
        .zip(sample(&|u| -u.ln()))
        .map(|(a, b)| a + b)
        .collect();
    for xs in [weibull, exponential, gamma] {
        for measure in [GoodnessOfFit::AndersonDarling, GoodnessOfFit::Kolmogorov] {
            let test = measure.bootstrap(&xs, 199, &mut rng).unwrap();
            assert_eq!(
                (test.p_value, test.n_replicates),
                (1.0 / 200.0, 199),
                "{measure:?}"
            );
        }
    }
}

#[test]
fn a_bootstrap_repeats_with_its_generator() {
    let xs = draws(1.0, 30, &mut Xoshiro256PlusPlus::seed_from_u64(8));
    let run = |seed| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        GoodnessOfFit::AndersonDarling
            .bootstrap(&xs, 99, &mut rng)
            .unwrap()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).p_value, run(2).p_value);
}

#[test]
fn what_is_no_sample_is_rejected() {
    let distribution = InverseGaussian::new(1.0, 1.0).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    for measure in [GoodnessOfFit::AndersonDarling, GoodnessOfFit::Kolmogorov] {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = measure.statistic(&distribution, &[1.0, value]).unwrap_err();
            assert!(
                matches!(error, Error::ObservationInvalid { index: 1, .. }),
                "{error}"
            );
        }
        let error = measure.statistic(&distribution, &[]).unwrap_err();
        assert!(
            matches!(error, Error::TooFewObservations { above: 0.0, .. }),
            "{error}"
        );
        let error = measure.bootstrap(&[1.0], 9, &mut rng).unwrap_err();
        assert!(
            matches!(error, Error::TooFewObservations { above: 1.0, .. }),
            "{error}"
        );
    }
}
