//! Moments, entropy, mode and transforms against golden values.

mod support;

use distributions::InverseGaussian;
use statrs::statistics::{Distribution, Median, Mode};
use std::collections::HashMap;
use support::table;
use tensor_core::compare::{Bound, assert_close};

type Function = fn(&InverseGaussian) -> f64;

fn number(row: &HashMap<String, String>, name: &str) -> f64 {
    row[name].parse().expect("columns hold numbers")
}

fn law(row: &HashMap<String, String>) -> InverseGaussian {
    InverseGaussian::new(number(row, "mean"), number(row, "shape")).expect("golden parameters")
}

#[test]
fn moments_meet_their_golden_values() {
    // Each is a product of powers of a few rounded numbers and sums of such without cancellation: a rounding a factor.
    let cases: [(&str, Function, usize); 12] = [
        ("raw-3", |law| law.raw_moment(-3), 12),
        ("raw-1", |law| law.raw_moment(-1), 6),
        ("raw1", |law| law.raw_moment(1), 1),
        ("raw2", |law| law.raw_moment(2), 6),
        ("raw5", |law| law.raw_moment(5), 16),
        ("central2", |law| law.central_moment(2), 6),
        ("central2", InverseGaussian::variance, 6),
        ("central2", |law| law.std_dev().powi(2), 8),
        ("central3", |law| law.skewness() * law.std_dev().powi(3), 16),
        ("central3", |law| law.central_moment(3), 10),
        ("central6", |law| law.central_moment(6), 20),
        ("mode", InverseGaussian::mode, 6),
    ];
    let rows = table("moments.csv");
    for (column, function, epsilons) in cases {
        let found: Vec<f64> = rows.iter().map(|row| function(&law(row))).collect();
        let truth: Vec<f64> = rows.iter().map(|row| number(row, column)).collect();
        assert_close(found, truth, Bound::relative(epsilons));
    }
}

#[test]
fn entropy_and_transforms_meet_their_golden_values() {
    for row in table("moments.csv") {
        let law = law(&row);
        let logarithms = 1.0 + law.mean().ln().abs() + law.shape().ln().abs();
        assert_close(
            [law.entropy()],
            [number(&row, "entropy")],
            Bound::relative(4).scaled_by([logarithms]),
        );
        assert_close(
            [law.cgf(number(&row, "cgf_at"))],
            [number(&row, "cgf")],
            Bound::relative(8),
        );
        let found = law.ln_characteristic_function(number(&row, "cf_at"));
        // The parts of a complex number have an error of its size.
        assert_close(
            [found.re, found.im],
            [number(&row, "cf_re"), number(&row, "cf_im")],
            Bound::relative(10).scaled_by([found.norm(); 2]),
        );
        let value = law.characteristic_function(number(&row, "cf_at"));
        assert!(value.norm() <= 1.0 && (value - found.exp()).norm() < 1e-15);
    }
}

#[test]
fn transforms_begin_at_one_and_end_at_the_end() {
    let law = InverseGaussian::new(2.0, 3.0).unwrap();
    assert_eq!((law.cgf(0.0), law.mgf(0.0)), (0.0, 1.0));
    assert_eq!(law.cgf(law.mgf_end()), 1.5);
    assert_eq!(law.cgf(law.mgf_end().next_up()), f64::INFINITY);
    assert_eq!(law.mgf(f64::NEG_INFINITY), 0.0);
    assert!(law.cgf(f64::NAN).is_nan());
    assert_eq!(law.characteristic_function(0.0).re, 1.0);
}

#[test]
fn traits_say_what_methods_say() {
    let law = InverseGaussian::new(2.0, 3.0).unwrap();
    assert_eq!(Distribution::mean(&law), Some(2.0));
    assert_eq!(Distribution::variance(&law), Some(law.variance()));
    assert_eq!(Distribution::std_dev(&law), Some(law.std_dev()));
    assert_eq!(Distribution::skewness(&law), Some(law.skewness()));
    assert_eq!(Distribution::entropy(&law), Some(law.entropy()));
    assert_eq!(Median::median(&law), law.inverse_cdf(0.5));
    assert_eq!(Mode::mode(&law), Some(law.mode()));
    assert_eq!(law.cumulant(0), 0.0);
    assert_eq!(law.cumulant(1), 2.0);
    assert_eq!(law.excess_kurtosis(), 15.0 * 2.0 / 3.0);
}
