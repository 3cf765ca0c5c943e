//! Wald's sequential test against golden values, limits and a simulation.

#![expect(
    clippy::print_stdout,
    reason = "measured errors are printed for `--nocapture`"
)]

use crate::support::{Row, table};
use distributions::{Decision, Error, FirstPassage, Sprt};
use tensor_core::compare::{Tolerance, assert_close, compare};

/// Tolerance in epsilons: 4e-15.
const GATE: usize = 18;

/// Creates the test of a golden row.
fn test(row: &Row) -> Sprt {
    let [null, alternative, std_dev, alpha, beta] =
        ["null", "alternative", "std_dev", "alpha", "beta"].map(|name| row.number(name));
    Sprt::new(null, alternative, std_dev, alpha, beta).expect("golden parameters are valid")
}

/// A result of a test, from the true mean and the argument `u` of the transform.
type Figure = fn(&Sprt, f64, f64) -> f64;

#[test]
fn every_figure_meets_its_gate() {
    const FIGURES: [(&str, Figure); 6] = [
        ("lower", |test, _, _| test.lower()),
        ("upper", |test, _, _| test.upper()),
        ("acceptance", |test, mean, _| {
            test.acceptance_probability(mean)
        }),
        ("power", |test, mean, _| test.power(mean)),
        ("size", |test, mean, _| test.expected_sample_size(mean)),
        ("transform", |test, mean, u| test.laplace_transform(mean, u)),
    ];
    let rows = table("sprt.csv");
    for (name, figure) in FIGURES {
        let found: Vec<f64> = rows
            .iter()
            .map(|row| figure(&test(row), row.number("mean"), row.number("u")))
            .collect();
        let truth: Vec<f64> = rows.iter().map(|row| row.number(name)).collect();
        // A probability is the exponential of a rounded product, so its relative error is
        // proportional to the size of the product.
        let scale = truth
            .iter()
            .map(|value| value.abs() * (1.0 + value.abs().ln().abs()));
        let bound = Tolerance::relative(GATE).scaled_by(scale);
        let share = compare(&found, &truth, &bound)
            .unwrap_or_else(|mismatch| panic!("{name}: {mismatch}"))
            .max_share;
        println!("{name}: {:.1e}", share * GATE as f64 * f64::EPSILON);
    }
}

#[test]
fn expected_sizes_are_slopes_of_the_transform() {
    let test = Sprt::new(0.0, 0.5, 1.0, 0.05, 0.1).unwrap();
    for mean in [-0.2, 0.0, 0.1, 0.25, 0.4, 0.5, 1.0] {
        assert_close(
            [test.laplace_transform(mean, 0.0)],
            [1.0],
            Tolerance::relative(4),
        );
        let (size, u) = (test.expected_sample_size(mean), 1e-7);
        let slope = (1.0 - test.laplace_transform(mean, u)) / u;
        assert_close([slope], [size], Tolerance::exact().or_absolute(1e-4 * size));
    }
    assert!(test.laplace_transform(0.0, -1.0).is_nan());
}

#[test]
fn the_transform_is_defined_for_every_size_of_its_argument() {
    for scale in [1e-150, 1.0, 1e150] {
        let test = Sprt::new(0.0, 0.5 * scale, scale, 0.05, 0.1).unwrap();
        for mean in [-1.0, 0.0, 0.25, 0.5, 2.0] {
            for u in [f64::INFINITY, 1e308] {
                assert_eq!(test.laplace_transform(mean * scale, u), 0.0);
            }
        }
    }
    // If the means differ by 1e160 standard deviations, the squared step is outside f64's range.
    let steep = Sprt::new(0.0, 1e160, 1.0, 0.05, 0.1).unwrap();
    let plain = Sprt::new(0.0, 1.0, 1.0, 0.05, 0.1).unwrap();
    assert_close(
        [steep.laplace_transform(0.0, 1e308)],
        [plain.laplace_transform(0.0, 1e-12)],
        Tolerance::relative(4),
    );
}

#[test]
fn infinite_means_decide_at_once_and_nan_stays() {
    let test = Sprt::new(0.0, 0.5, 1.0, 0.05, 0.1).unwrap();
    for (mean, power) in [(f64::INFINITY, 1.0), (f64::NEG_INFINITY, 0.0)] {
        assert_eq!(test.power(mean), power);
        assert_eq!(test.acceptance_probability(mean), 1.0 - power);
        assert_eq!(test.expected_sample_size(mean), 0.0);
        assert_eq!(test.laplace_transform(mean, 1.0), 1.0);
    }
    let at_nan = [
        test.power(f64::NAN),
        test.acceptance_probability(f64::NAN),
        test.expected_sample_size(f64::NAN),
        test.laplace_transform(f64::NAN, 1.0),
        test.laplace_transform(f64::NAN, f64::INFINITY),
        test.laplace_transform(0.0, f64::NAN),
    ];
    assert_close(at_nan, [f64::NAN; 6], Tolerance::exact());
}

#[test]
fn without_drift_nothing_jumps() {
    let test = Sprt::new(-0.5, 0.5, 2.0, 0.01, 0.2).unwrap();
    for tiny in [1e-18, 1e-14, 1e-12] {
        for figure in [
            Sprt::power,
            Sprt::acceptance_probability,
            Sprt::expected_sample_size,
        ] {
            let (found, limit) = (figure(&test, tiny), figure(&test, 0.0));
            // The results change by less than 20 times the mean.
            let allowed = limit * (20.0 * tiny + 4.0 * f64::EPSILON);
            assert_close([found], [limit], Tolerance::exact().or_absolute(allowed));
        }
    }
    let squared = test.volatility() * test.volatility();
    let size = -test.upper() * test.lower() / squared;
    assert_close(
        [test.expected_sample_size(0.0)],
        [size],
        Tolerance::relative(4),
    );
}

#[test]
fn one_sided_tests_stop_by_the_distribution_of_a_first_passage() {
    let test = Sprt::new(1.0, 3.0, 2.0, 0.05, 0.1).unwrap();
    let stop = test.passage_to_upper(3.0).unwrap();
    assert_eq!(stop, FirstPassage::new(test.upper(), 0.5, 1.0).unwrap());
    assert_close([stop.mean()], [2.0 * test.upper()], Tolerance::relative(2));
    let never = test.passage_to_lower(3.0).unwrap();
    assert_close(
        [never.ln_hitting_probability()],
        [test.lower()],
        Tolerance::relative(2),
    );
    assert!(test.passage_to_upper(f64::INFINITY).is_err());
}

#[test]
fn increments_sum_to_a_decision() {
    let test = Sprt::new(0.0, 1.0, 1.0, 0.1, 0.2).unwrap();
    assert_eq!([0.0, 0.5, 2.0].map(|x| test.increment(x)), [-0.5, 0.0, 1.5]);
    assert_eq!(test.decision(test.upper()), Decision::AcceptAlternative);
    assert_eq!(test.decision(test.lower()), Decision::AcceptNull);
    assert_eq!(test.decision(0.0), Decision::Continue);
    assert_eq!(test.decision(f64::NAN), Decision::Continue);
    // The alternative may be the smaller mean.
    let mirrored = Sprt::new(1.0, 0.0, 1.0, 0.1, 0.2).unwrap();
    assert_eq!(mirrored.increment(2.0), -1.5);
    assert_close(
        [mirrored.power(0.0)],
        [test.power(1.0)],
        Tolerance::relative(4),
    );
}

#[test]
fn tests_that_make_no_sense_are_rejected() {
    let bad = [
        (f64::NAN, 1.0, 1.0, 0.1, 0.1, "null mean"),
        (0.0, f64::INFINITY, 1.0, 0.1, 0.1, "alternative mean"),
        (1.0, 1.0, 1.0, 0.1, 0.1, "alternative mean"),
        // The difference of the means, or its ratio to the standard deviation, overflows or
        // underflows.
        (-f64::MAX, f64::MAX, 1.0, 0.1, 0.1, "alternative mean"),
        (0.0, 5e-324, 1.0, 0.1, 0.1, "alternative mean"),
        (0.0, 1e200, 1e-200, 0.1, 0.1, "alternative mean"),
        (0.0, 1e-200, 1e200, 0.1, 0.1, "alternative mean"),
        (0.0, 1.0, 0.0, 0.1, 0.1, "standard deviation"),
        (0.0, 1.0, 1.0, 0.0, 0.1, "alpha"),
        (0.0, 1.0, 1.0, 0.6, 0.4, "alpha"),
        (0.0, 1.0, 1.0, 0.1, f64::NAN, "alpha"),
        (0.0, 1.0, 1.0, 0.1, -0.1, "beta"),
    ];
    for (null, alternative, std_dev, alpha, beta, name) in bad {
        let rejected = Sprt::new(null, alternative, std_dev, alpha, beta).unwrap_err();
        assert!(
            matches!(rejected, Error::ParameterInvalid { parameter, .. } if parameter == name),
            "{rejected}"
        );
    }
}
