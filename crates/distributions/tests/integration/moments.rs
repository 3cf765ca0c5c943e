//! Moments, entropy, mode and transforms against golden values.

use crate::support::{Row, table};
use distributions::InverseGaussian;
use statrs::statistics::{Distribution, Median, Mode};
use tensor_core::compare::{Tolerance, assert_close};

type Function = fn(&InverseGaussian) -> f64;

/// Returns the distribution of a golden row.
fn distribution(row: &Row) -> InverseGaussian {
    InverseGaussian::new(row.number("mean"), row.number("shape"))
        .expect("golden parameters are valid")
}

#[test]
fn moments_meet_their_golden_values() {
    // Each moment is a product of powers of a few rounded numbers, or a sum of such products
    // without cancellation. The tolerance allows one rounding per factor.
    let cases: [(&str, Function, usize); 14] = [
        ("raw-3", |distribution| distribution.raw_moment(-3), 12),
        ("raw-1", |distribution| distribution.raw_moment(-1), 4),
        ("raw1", |distribution| distribution.raw_moment(1), 1),
        ("raw2", |distribution| distribution.raw_moment(2), 8),
        ("raw5", |distribution| distribution.raw_moment(5), 20),
        ("central2", |distribution| distribution.central_moment(2), 6),
        ("central2", InverseGaussian::variance, 6),
        ("central2", |distribution| distribution.std_dev().powi(2), 8),
        (
            "central3",
            |distribution| distribution.skewness() * distribution.std_dev().powi(3),
            16,
        ),
        ("central2", |distribution| distribution.cumulant(2), 6),
        ("central3", |distribution| distribution.cumulant(3), 10),
        (
            "central3",
            |distribution| distribution.central_moment(3),
            10,
        ),
        (
            "central6",
            |distribution| distribution.central_moment(6),
            20,
        ),
        ("mode", InverseGaussian::mode, 6),
    ];
    let rows = table("moments.csv");
    for (column, function, epsilons) in cases {
        let found: Vec<f64> = rows
            .iter()
            .map(|row| function(&distribution(row)))
            .collect();
        let truth: Vec<f64> = rows.iter().map(|row| row.number(column)).collect();
        assert_close(found, truth, Tolerance::relative(epsilons));
    }
}

#[test]
fn the_entropy_is_finite_where_the_ratio_of_the_parameters_is_not() {
    // mpmath 1.3.0, 30 digits.
    let golden = [
        (3.378e138, 3.38e-192, -437.553_979_343_964_95),
        (1e300, 1e-300, -687.451_045_096_816_8),
        // The value omits the last term of the formula, which is below 1e-600.
        (1e-300, 1e300, -1_380.132_117_263_222_7),
    ];
    for (mean, shape, truth) in golden {
        let distribution = InverseGaussian::new(mean, shape).unwrap();
        let logarithms = 1.0 + f64::ln(mean).abs() + f64::ln(shape).abs();
        let bound = Tolerance::relative(4).scaled_by([logarithms]);
        assert_close([distribution.entropy()], [truth], bound);
    }
}

#[test]
fn entropy_and_transforms_meet_their_golden_values() {
    for row in table("moments.csv") {
        let distribution = distribution(&row);
        let logarithms = 1.0 + distribution.mean().ln().abs() + distribution.shape().ln().abs();
        assert_close(
            [distribution.entropy()],
            [row.number("entropy")],
            Tolerance::relative(4).scaled_by([logarithms]),
        );
        assert_close(
            [distribution.cgf(row.number("cgf_at"))],
            [row.number("cgf")],
            Tolerance::relative(8),
        );
        // The exponential turns a relative error of its argument into a relative error of the
        // result, multiplied by the size of the argument.
        let mgf = row.number("cgf").exp();
        assert_close(
            [distribution.mgf(row.number("cgf_at"))],
            [mgf],
            Tolerance::relative(10).scaled_by([(mgf * (1.0 + row.number("cgf"))).min(f64::MAX)]),
        );
        let (at, re, im) = (
            row.number("cf_at"),
            row.number("cf_re"),
            row.number("cf_im"),
        );
        let found = distribution.ln_characteristic_function(at);
        assert_close([found.re, found.im], [re, im], Tolerance::relative(10));
        let found = distribution.characteristic_function(at);
        let size = re.exp();
        assert_close(
            [found.re, found.im],
            [size * im.cos(), size * im.sin()],
            Tolerance::relative(14).scaled_by([size * (1.0 + re.hypot(im)); 2]),
        );
    }
}

#[test]
fn moments_of_high_orders_leave_f64_only_where_they_are_outside() {
    // mpmath 1.3.0, 60 digits, by Bessel functions as in testdata/moments.py.
    let golden: [((f64, f64), i32, f64); 7] = [
        ((1e-07, 1e-15), 40, 1.0098473748363363e89),
        ((1e-07, 1e-15), 50, 2.752921380812756e118),
        ((1e-07, 1e-15), -10, 6.547290815472902e158),
        ((2.0, 3.0), 60, 1.2233589838492542e105),
        ((2.0, 3.0), -60, 7.302646936983342e70),
        ((1000.0, 10000000000000.0), 90, 1.0000004005000802e270),
        ((0.0001, 0.0001), 60, 1.586028138714334e-143),
    ];
    for ((mean, shape), n, truth) in golden {
        let distribution = InverseGaussian::new(mean, shape).unwrap();
        let bound = Tolerance::relative(4 * n.unsigned_abs() as usize);
        assert_close([distribution.raw_moment(n)], [truth], bound.clone());
        assert_close([distribution.reciprocal().raw_moment(-n)], [truth], bound);
    }
    let distribution = InverseGaussian::new(1e-4, 1e-4).unwrap();
    // Moments decrease up to about order 5000, to exp(-5000), and then increase again.
    assert_eq!(distribution.raw_moment(5000), 0.0);
    assert_eq!(distribution.raw_moment(20_000), f64::INFINITY);
    for distribution in [distribution, InverseGaussian::new(1.0, 1.0).unwrap()] {
        assert_eq!(distribution.raw_moment(i32::MIN), f64::INFINITY);
        assert_eq!(distribution.raw_moment(i32::MAX), f64::INFINITY);
        assert_eq!(
            distribution.reciprocal().raw_moment(i32::MIN),
            f64::INFINITY
        );
        assert_eq!(distribution.raw_moment(0), 1.0);
    }
    let tiny = InverseGaussian::new(1e-140, 1e-126).unwrap();
    assert_eq!(tiny.raw_moment(i32::MAX), 0.0);
}

#[test]
fn cumulants_and_central_moments_of_high_orders_meet_their_golden_values() {
    for row in table("high-orders.csv") {
        let distribution = distribution(&row);
        let n: u32 = row.text("n").parse().expect("orders are integers");
        // A golden value above f64's range is parsed as infinity, and a value below the range as 0.
        let truth = [row.number("cumulant"), row.number("central")];
        let bound = Tolerance::relative(4 * n as usize).or_absolute(f64::MIN_POSITIVE);
        assert_close(
            [distribution.cumulant(n), distribution.central_moment(n)],
            truth,
            bound,
        );
    }
}

#[test]
fn huge_orders_are_settled_without_their_steps() {
    for (mean, shape) in [(1e-7, 1e-15), (1.0, 1.0), (1e140, 1e132)] {
        let distribution = InverseGaussian::new(mean, shape).unwrap();
        assert_eq!(distribution.cumulant(u32::MAX), f64::INFINITY);
        assert_eq!(distribution.central_moment(u32::MAX), f64::INFINITY);
    }
    let tiny = InverseGaussian::new(1e-140, 1e-126).unwrap();
    assert_eq!(tiny.cumulant(u32::MAX), 0.0);
    assert_eq!(tiny.central_moment(u32::MAX), 0.0);
}

#[test]
fn the_cumulant_generating_function_keeps_its_digits_next_to_the_end() {
    for row in table("cgf.csv") {
        let found = distribution(&row).cgf(row.number("t"));
        assert_close([found], [row.number("cgf")], Tolerance::relative(8));
    }
}

#[test]
fn no_central_moment_is_nan_where_a_cumulant_overflows() {
    let distribution = InverseGaussian::new(1e140, 1e132).unwrap();
    assert_eq!(distribution.central_moment(4), f64::INFINITY);
    assert_eq!(
        (
            distribution.central_moment(0),
            distribution.central_moment(1)
        ),
        (1.0, 0.0)
    );
    let tiny = InverseGaussian::new(1e-140, 1e-132).unwrap();
    assert!(!tiny.central_moment(1500).is_nan());
}

#[test]
fn transforms_have_limits_far_out() {
    let distribution = InverseGaussian::new(1e10, 1.0).unwrap();
    for sign in [1.0, -1.0] {
        // For large t the logarithm is -sqrt(-2iλt), whose parts have the size sqrt(λ|t|).
        let found = distribution.ln_characteristic_function(sign * 1e290);
        assert_close(
            [found.re, found.im],
            [-1e145, sign * 1e145],
            Tolerance::relative(4),
        );
        let found = distribution.ln_characteristic_function(sign * f64::INFINITY);
        let end = [f64::NEG_INFINITY, sign * f64::INFINITY];
        assert_close([found.re, found.im], end, Tolerance::exact());
        let found = distribution.characteristic_function(sign * f64::INFINITY);
        assert_close([found.re, found.im], [0.0, 0.0], Tolerance::exact());
    }
    let found = distribution.characteristic_function(f64::NAN);
    assert!(found.re.is_nan() && found.im.is_nan());
    assert_close([distribution.cgf(-2e290)], [-2e145], Tolerance::relative(4));
    assert_eq!(distribution.cgf(f64::NEG_INFINITY), f64::NEG_INFINITY);
}

#[test]
fn transforms_have_no_seam_where_the_limit_takes_over() {
    let distribution = InverseGaussian::new(0.5, 3.0).unwrap();
    let seam = 1e34 * distribution.mgf_end();
    let parts = |t: f64| {
        let found = distribution.ln_characteristic_function(t);
        [found.re, found.im, distribution.cgf(-t)]
    };
    assert_close(
        parts(seam * (1.0 - 1e-15)),
        parts(seam),
        Tolerance::relative(10),
    );
}

#[test]
fn transforms_begin_at_one_and_end_at_the_end() {
    let distribution = InverseGaussian::new(2.0, 3.0).unwrap();
    assert_eq!((distribution.cgf(0.0), distribution.mgf(0.0)), (0.0, 1.0));
    assert_eq!(distribution.cgf(distribution.mgf_end()), 1.5);
    assert_eq!(
        distribution.cgf(distribution.mgf_end().next_up()),
        f64::INFINITY
    );
    assert_eq!(distribution.mgf(f64::NEG_INFINITY), 0.0);
    assert!(distribution.cgf(f64::NAN).is_nan());
    assert_eq!(distribution.characteristic_function(0.0).re, 1.0);
}

#[test]
fn traits_return_the_numbers_of_methods() {
    let distribution = InverseGaussian::new(2.0, 3.0).unwrap();
    assert_eq!(Distribution::mean(&distribution), Some(2.0));
    assert_eq!(
        Distribution::variance(&distribution),
        Some(distribution.variance())
    );
    assert_eq!(
        Distribution::std_dev(&distribution),
        Some(distribution.std_dev())
    );
    assert_eq!(
        Distribution::skewness(&distribution),
        Some(distribution.skewness())
    );
    assert_eq!(
        Distribution::entropy(&distribution),
        Some(distribution.entropy())
    );
    assert_eq!(Median::median(&distribution), distribution.inverse_cdf(0.5));
    assert_eq!(Mode::mode(&distribution), Some(distribution.mode()));
    assert_eq!(distribution.cumulant(0), 0.0);
    assert_eq!(distribution.cumulant(1), 2.0);
    assert_eq!(distribution.excess_kurtosis(), 15.0 * 2.0 / 3.0);
}

#[test]
fn central_moments_of_huge_orders_outside_the_range_take_no_steps() {
    // The recursion would take minutes or more for each of these orders.
    for (shape, order, expected) in [
        (1e15, 200_000, 0.0),
        (1e6, 200_001, 0.0),
        (1e6, u32::MAX, f64::INFINITY),
        (1e6, u32::MAX - 1, f64::INFINITY),
        (1e15, u32::MAX, 0.0),
    ] {
        let distribution = InverseGaussian::new(1.0, shape).unwrap();
        assert_eq!(
            distribution.central_moment(order),
            expected,
            "order {order} of shape {shape:e}"
        );
    }
    // Orders next to the limits of f64's range still use the recursion.
    let distribution = InverseGaussian::new(1.0, 100.0).unwrap();
    let ln_moments: Vec<f64> = (500..540)
        .map(|n| distribution.central_moment(n).log2())
        .collect();
    assert!(ln_moments.iter().all(|ln| !ln.is_nan()));
    let first_infinite = ln_moments
        .iter()
        .position(|ln| *ln == f64::INFINITY)
        .unwrap();
    assert!(
        ln_moments[first_infinite..]
            .iter()
            .all(|ln| *ln == f64::INFINITY)
    );
    assert!(ln_moments[first_infinite - 1] > 1000.0);
}

#[test]
fn raw_moments_of_extreme_parameters_are_outside_the_range_only_if_the_moment_is() {
    // E X² = μ² + μ³/λ, in an order in which no factor leaves the range of f64.
    for (mean, shape, order, expected) in [
        (1e-170, 1e-170, 2, 0.0),
        (1e-170, 1e-170, 3, 0.0),
        (1e-310, 1.0, 1, 1e-310),
        (1e-310, 1e-310, 2, 0.0),
        (1e-160, 1e-160, 2, 2e-320),
        (1e-15, 5e-324, 2, 1e-30 / 5e-324 * 1e-15),
        (1e170, 1e170, 2, f64::INFINITY),
        (1e170, 1e170, -2, 0.0),
        (1e-310, 1.0, -2, f64::INFINITY),
    ] {
        let moment = InverseGaussian::new(mean, shape).unwrap().raw_moment(order);
        // Subnormal numbers have few digits.
        let is_close = moment == expected || (moment / expected - 1.0).abs() < 1e-3;
        assert!(
            is_close,
            "{mean:e} {shape:e} {order}: {moment:e} {expected:e}"
        );
    }
}
