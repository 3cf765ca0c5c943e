//! `expm1`, `log1p`, `exp2` and `log_softmax`: accuracy over all magnitudes of arguments, and
//! derivatives.

use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::ndarray::{Array1, ArrayD, array};
use tensor_core::rng::Philox;
use tensor_core::{DType, Error, Executor, Host, Reference, Tensor, grad};

/// The accuracy that the documentation of the functions promises.
const ULPS: usize = 8;

fn executors() -> [Box<dyn Executor>; 2] {
    [Box::new(Host::new()), Box::new(Reference)]
}

/// Returns arguments of both signs with magnitudes from `10^low` to `10^high`, evenly spaced in
/// their logarithm.
fn arguments(n: usize, low: f64, high: f64) -> Vec<f64> {
    let size = |i: usize| 10.0_f64.powf(low + (high - low) * i as f64 / n as f64);
    (0..n).flat_map(|i| [size(i), -size(i)]).collect()
}

/// A function of tensors, its definition in `f64`, and its derivative in `f64`.
type Function = (fn(&Tensor) -> Tensor, fn(f64) -> f64, fn(f64) -> f64);

const FUNCTIONS: [Function; 3] = [
    (Tensor::expm1, f64::exp_m1, f64::exp),
    (Tensor::log1p, f64::ln_1p, |x| (1.0 + x).recip()),
    (Tensor::exp2, f64::exp2, |x| {
        x.exp2() * std::f64::consts::LN_2
    }),
];

#[test]
fn digits_are_kept_at_every_size_of_the_argument() {
    // Arguments whose results are neither NaN nor out of range, and a fine grid around the points
    // where the implementation changes its formula: √½ - 1 and √2 - 1 for `log1p`, 1 for `expm1`.
    let near: Vec<f64> = (-1100..1100).map(|i| f64::from(i) * 1e-3).collect();
    for (function, definition, _) in FUNCTIONS {
        for executor in executors() {
            let x = [arguments(1500, -30.0, 1.9), near.clone()].concat();
            let x: Vec<f64> = x.into_iter().filter(|&x| !definition(x).is_nan()).collect();
            let expected: Vec<f64> = x.iter().map(|&x| definition(x)).collect();
            let doubles = function(&Tensor::from_vec(&[x.len()], x.clone()));
            let bound = Tolerance::relative(ULPS);
            assert_close(
                doubles.eval::<f64>(&*executor).unwrap(),
                Array1::from(expected).into_dyn(),
                bound,
            );

            #[expect(
                clippy::cast_possible_truncation,
                reason = "the test needs rounded arguments"
            )]
            let x: Vec<f32> = x.iter().map(|&x| x as f32).collect();
            let expected: Vec<f64> = x.iter().map(|&x| definition(f64::from(x))).collect();
            let singles = function(&Tensor::from_vec(&[x.len()], x));
            // Below the smallest normal number the relative spacing of numbers grows.
            let bound = Tolerance::relative(ULPS).or_absolute(f64::from(f32::MIN_POSITIVE) * 1e-6);
            assert_close(
                singles.eval::<f32>(&*executor).unwrap(),
                Array1::from(expected).into_dyn(),
                bound,
            );
        }
    }
}

#[test]
fn ends_of_the_range_are_those_of_the_definitions() {
    let x = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        -1.0,
        -2.0,
        1e300,
        -1e300,
    ];
    for (function, definition, _) in FUNCTIONS {
        let expected: ArrayD<f64> = Array1::from_iter(x.map(definition)).into_dyn();
        for executor in executors() {
            let actual = function(&Tensor::from_vec(&[x.len()], x.to_vec()))
                .eval::<f64>(&*executor)
                .unwrap();
            assert_close(&actual, &expected, Tolerance::relative(ULPS));
            let signs = |array: &ArrayD<f64>| array.mapv(|x| x.is_sign_negative() && !x.is_nan());
            assert_close(signs(&actual), signs(&expected), Tolerance::exact());
        }
    }
}

#[test]
fn derivatives_are_those_of_the_definitions() {
    let host = Host::new();
    let x = [-0.999, -0.5, -1e-9, 0.0, 1e-9, 0.41, 0.42, 0.99, 1.01, 20.0];
    for (function, _, derivative) in FUNCTIONS {
        let tensor = Tensor::from_vec(&[x.len()], x.to_vec());
        let first = grad(&function(&tensor).sum(..), &[&tensor])
            .unwrap()
            .remove(0);
        let expected: ArrayD<f64> = Array1::from_iter(x.map(derivative)).into_dyn();
        assert_close(
            first.eval::<f64>(&host).unwrap(),
            expected,
            Tolerance::relative(ULPS),
        );
        // The second derivative, compared with a difference of first derivatives.
        let second = grad(&first.sum(..), &[&tensor]).unwrap().remove(0);
        let step = 1e-6;
        let slope = |x: f64| (derivative(x + step) - derivative(x - step)) / (2.0 * step);
        let expected: Vec<f64> = x[1..].iter().map(|&x| slope(x)).collect();
        let actual = second.slice(0, 1..).eval::<f64>(&host).unwrap();
        let relative = (actual / Array1::from(expected).into_dyn()) - 1.0;
        // Next to 20, numbers are 3.6e-15 apart, so the rounded arguments alone change the step by
        // up to 3.6e-9 of its size. The tolerance leaves room for the other roundings.
        assert!(
            relative.iter().all(|error| error.abs() < 1e-7),
            "{relative}"
        );
    }
    let ends = Tensor::from_vec(&[2], vec![f64::INFINITY, 1e300]);
    let gradient = grad(&ends.log1p().sum(..), &[&ends]).unwrap().remove(0);
    let expected = array![0.0, 1e-300].into_dyn();
    assert_close(
        gradient.eval::<f64>(&host).unwrap(),
        expected,
        Tolerance::relative(ULPS),
    );
}

#[test]
fn log_softmax_is_the_logarithm_of_softmax_and_stays_finite() {
    let x = Tensor::randn(Philox::new(3), &[20, 7]).cast(DType::F64) * 5.0;
    let weights = Tensor::randn(Philox::new(4), &[20, 7]).cast(DType::F64);
    for executor in executors() {
        for axis in [0, 1, -1] {
            // Results near 0 are differences of numbers below 32, whose roundings are up to 1.8e-15
            // each.
            let actual = x.log_softmax(axis).eval::<f64>(&*executor).unwrap();
            let expected = x.softmax(axis).ln().eval::<f64>(&*executor).unwrap();
            assert_close(
                actual,
                expected,
                Tolerance::relative(ULPS).or_absolute(1e-14),
            );
            // An element is a weight minus a sum of up to 20 weights below 4 in magnitude, whose
            // error is up to 20 * 4 * EPSILON / 2 = 1e-14 in one formula. The tolerance is ten
            // times that.
            let gradient = |y: Tensor| grad(&(y * &weights).sum(..), &[&x]).unwrap().remove(0);
            let actual = gradient(x.log_softmax(axis))
                .eval::<f64>(&*executor)
                .unwrap();
            let expected = gradient(x.softmax(axis).ln())
                .eval::<f64>(&*executor)
                .unwrap();
            assert_close(
                actual,
                expected,
                Tolerance::relative(ULPS).or_absolute(1e-13),
            );
        }
        let far = Tensor::from_array(array![[0.0_f32, -1e4, f32::NEG_INFINITY]]).log_softmax(1);
        let expected = array![[0.0, -1e4, f64::NEG_INFINITY]].into_dyn();
        assert_close(
            far.eval::<f32>(&*executor).unwrap(),
            expected,
            Tolerance::exact(),
        );
    }
}

#[test]
fn integers_are_rejected_under_the_name_of_the_function() {
    let x = Tensor::arange(3);
    for (name, tensor) in [
        ("expm1", x.expm1()),
        ("log1p", x.log1p()),
        ("exp2", x.exp2()),
        ("log_softmax", x.log_softmax(0)),
        ("log_softmax", x.cast(DType::F32).log_softmax(1)),
    ] {
        let error = tensor.shape().unwrap_err();
        assert!(
            error.to_string().starts_with(&format!("{name}: ")),
            "{error}"
        );
        assert!(matches!(
            error.root(),
            Error::DTypeUnsupported { .. } | Error::AxisOutOfRange { .. }
        ));
    }
}
