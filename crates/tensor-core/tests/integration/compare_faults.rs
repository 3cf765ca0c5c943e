//! Seeded faults that the comparator must report, and correct results that it must accept.

use ndarray::{Array1, Array2, ArrayD, array, s};
use tensor_core::compare::{
    Deviation, Element, Mismatch, Side, Tolerance, Value, assert_close, compare, sentinel_filled,
};
use tensor_core::ndarray;
use tensor_core::rng::Philox;

const MILLION: usize = 1_000_000;

fn random(len: usize, stream: u64) -> Vec<f32> {
    let mut values = vec![0.0; len];
    Philox::new(2)
        .stream(stream)
        .fill_normal_f32(0, &mut values);
    values
}

/// Returns the number of bad elements, and the worst element. Panics if the comparison reports no
/// bad elements.
#[track_caller]
fn reported(outcome: Result<impl std::fmt::Debug, Mismatch>) -> (usize, Deviation) {
    match outcome {
        Err(Mismatch::Elements { n_bad, worst, .. }) => (n_bad, *worst),
        other => panic!("expected bad elements, got {other:?}"),
    }
}

#[test]
fn a_wrong_length_is_reported() {
    let error = compare([1.0; 3], [1.0; 4], &Tolerance::relative(4)).unwrap_err();
    assert_eq!(
        error,
        Mismatch::Length {
            actual: 3,
            expected: 4
        }
    );
    assert!(matches!(
        compare([0.0; 0], [1.0; 1], &Tolerance::exact().allow_empty()),
        Err(Mismatch::Length { .. })
    ));
}

#[test]
fn one_outlier_in_a_million_is_reported_with_its_index() {
    let expected = Array2::from_shape_vec((1000, 1000), random(MILLION, 0)).unwrap();
    let mut actual = expected.clone();
    assert_eq!(
        compare(&actual, &expected, &Tolerance::exact())
            .unwrap()
            .n_elements,
        MILLION
    );
    actual[[123, 456]] += 1e-2;
    let (n_bad, worst) = reported(compare(&actual, &expected, &Tolerance::relative(8)));
    assert_eq!((n_bad, worst.index), (1, vec![123, 456]));
    assert_eq!(worst.actual, Value::Float(f64::from(actual[[123, 456]])));
}

#[test]
fn a_nan_is_reported_on_either_side_and_matches_itself() {
    let (good, bad) = ([1.0, 2.0], [1.0, f64::NAN]);
    let wide = Tolerance::relative(1000).or_absolute(1e300);
    for outcome in [compare(bad, good, &wide), compare(good, bad, &wide)] {
        let (n_bad, worst) = reported(outcome);
        assert_eq!(
            (n_bad, worst.index, worst.error),
            (1, vec![1], f64::INFINITY)
        );
    }
    assert_close(bad, bad, Tolerance::exact());
}

#[test]
fn infinities_match_only_themselves() {
    let wide = Tolerance::relative(1000).or_absolute(1e300);
    for (actual, expected) in [
        (f64::INFINITY, f64::MAX),
        (1.0, f64::INFINITY),
        (f64::INFINITY, f64::NEG_INFINITY),
        (f64::NAN, f64::INFINITY),
    ] {
        reported(compare([actual], [expected], &wide));
        reported(compare(
            [actual],
            [expected],
            &wide.clone().scaled_by([1.0]),
        ));
    }
    assert_close([f64::NEG_INFINITY], [f64::NEG_INFINITY], Tolerance::exact());
    assert_close([f32::INFINITY], [f64::INFINITY], Tolerance::relative(1));
    reported(compare([f64::MAX], [f64::MIN], &wide));
}

#[test]
fn swapped_elements_a_shift_and_a_transpose_are_reported() {
    let expected = random(64, 1);
    let mut swapped = expected.clone();
    swapped.swap(10, 50);
    assert_eq!(
        reported(compare(&swapped, &expected, &Tolerance::relative(16))).0,
        2
    );
    let mut shifted = expected.clone();
    shifted.rotate_left(1);
    assert_eq!(
        reported(compare(&shifted, &expected, &Tolerance::relative(16))).0,
        64
    );
    let square = Array2::from_shape_vec((8, 8), expected.clone()).unwrap();
    let transposed = square.t().to_owned();
    assert_eq!(
        reported(compare(&transposed, &square, &Tolerance::relative(16))).0,
        56
    );
    let wide = Array2::from_shape_vec((4, 16), expected).unwrap();
    let error = compare(wide.t().to_owned(), &wide, &Tolerance::relative(16)).unwrap_err();
    assert_eq!(
        error,
        Mismatch::Shape {
            actual: vec![16, 4],
            expected: vec![4, 16]
        }
    );
}

#[test]
fn a_sentinel_left_in_place_is_reported_on_either_side() {
    let mut out = sentinel_filled::<f32>(6);
    out[..4].fill(1.0);
    let expected = Array2::<f64>::ones((2, 3));
    let wide = Tolerance::relative(1).or_absolute(1e38);
    let error = compare(&out, &expected, &wide).unwrap_err();
    let first = vec![1, 1];
    let (n_left, n_elements) = (2, 6);
    assert_eq!(
        error,
        Mismatch::Sentinel {
            side: Side::Actual,
            first,
            n_left,
            n_elements
        }
    );
    // Both sides left the same elements unwritten. The oracle's sentinels were converted to f64.
    let oracle: Vec<f64> = out.iter().map(|&x| f64::from(x)).collect();
    assert!(matches!(
        compare(&out, &oracle, &wide),
        Err(Mismatch::Sentinel { .. })
    ));
    assert!(matches!(
        compare(&expected.into_raw_vec_and_offset().0, &oracle, &wide),
        Err(Mismatch::Sentinel {
            side: Side::Expected,
            ..
        })
    ));
    assert!(matches!(
        compare([1_u32, u32::SENTINEL], [1_u32, 2], &Tolerance::exact()),
        Err(Mismatch::Sentinel { .. })
    ));
    // Every value of an 8-bit type can be a correct result, so there is no sentinel; a wrong value
    // is simply unequal.
    assert_close([u8::SENTINEL], [u8::SENTINEL], Tolerance::exact());
    reported(compare(
        sentinel_filled::<i8>(1),
        [3_i8],
        &Tolerance::exact(),
    ));
}

#[test]
fn the_same_buffer_twice_is_reported() {
    let mut values = random(100, 2);
    let bound = Tolerance::exact();
    assert_eq!(compare(&values, &values, &bound), Err(Mismatch::SameBuffer));
    assert_eq!(
        compare(&values[..60], &values[40..], &bound),
        Err(Mismatch::SameBuffer)
    );
    values[50..].fill(1.5);
    assert_close(&values[50..75], &values[75..], Tolerance::exact());
    let matrix = Array2::from_elem((4, 4), 2.0_f32);
    assert_eq!(
        compare(&matrix, matrix.t(), &bound),
        Err(Mismatch::SameBuffer)
    );
    let upwards = matrix.slice(s![..;-1, 1]);
    assert_eq!(
        compare(matrix.column(1), upwards, &bound),
        Err(Mismatch::SameBuffer)
    );
    assert_close(matrix.column(0), matrix.column(1), Tolerance::exact());
    assert_close(
        matrix.slice(s![..;2, ..]),
        matrix.slice(s![1..;2, ..]),
        Tolerance::exact(),
    );
    let nothing: [f32; 0] = [];
    assert_close(nothing, nothing, Tolerance::exact().allow_empty());
}

#[test]
fn empty_input_passes_only_where_it_is_allowed() {
    let nothing = Array2::<f32>::zeros((0, 3));
    assert_eq!(
        compare(&nothing, &nothing, &Tolerance::relative(1)),
        Err(Mismatch::Empty)
    );
    let bound = Tolerance::relative(1).allow_empty();
    assert_eq!(compare(&nothing, &nothing, &bound).unwrap().n_elements, 0);
    let error = compare(&nothing, Array2::<f32>::zeros((3, 0)), &bound).unwrap_err();
    assert!(matches!(error, Mismatch::Shape { .. }));
}

#[test]
fn bounds_that_would_pass_anything_are_rejected() {
    let ones = [1.0_f32; 2];
    for bound in [
        Tolerance::exact().or_absolute(f64::NAN),
        Tolerance::exact().or_absolute(f64::INFINITY),
        Tolerance::exact().or_absolute(-1.0),
        Tolerance::relative(1 << 23),
        Tolerance::relative(usize::MAX),
        Tolerance::relative(1).scaled_by([1.0]),
        Tolerance::relative(1).scaled_by([1.0; 3]),
        Tolerance::relative(1).scaled_by([1.0, f64::NAN]),
        Tolerance::relative(1).scaled_by([1.0, f64::INFINITY]),
        Tolerance::relative(1).scaled_by([1.0, -1.0]),
        Tolerance::exact().scaled_by([1.0; 2]),
        Tolerance::bits().or_absolute(0.0),
        Tolerance::bits().scaled_by([1.0; 2]),
    ] {
        let error = compare(ones, [1.0_f32; 2], &bound).unwrap_err();
        assert!(
            matches!(error, Mismatch::InvalidBound { .. }),
            "{bound:?}: {error}"
        );
    }
    let summary = compare([0.0], [1e-3], &Tolerance::exact().or_absolute(1.0)).unwrap();
    assert_eq!(summary.n_zero_passes, 1);
}

#[test]
fn the_tail_of_an_f64_counts() {
    let next = f64::from_bits(1.0_f64.to_bits() + 1);
    reported(compare([next], [1.0], &Tolerance::exact()));
    assert_close([next], [1.0], Tolerance::relative(1));
    reported(compare(
        [1.0 + 3.0 * f64::EPSILON],
        [1.0],
        &Tolerance::relative(2),
    ));
    // The epsilon is that of the actual type, and the f64 oracle is not rounded to f32.
    assert_close([1.0_f32 + f32::EPSILON], [1.0_f64], Tolerance::relative(1));
    reported(compare(
        [1.0_f32],
        [1.0 + f64::EPSILON],
        &Tolerance::exact(),
    ));
    reported(compare([1.0_f64], [1.0 + 1e-9], &Tolerance::relative(100)));
}

#[test]
fn subnormals_are_not_zero() {
    let tiny = f32::from_bits(1);
    reported(compare([0.0], [tiny], &Tolerance::relative(1000)));
    reported(compare([2.0 * tiny], [tiny], &Tolerance::exact()));
    assert_close([tiny], [tiny], Tolerance::exact());
    assert_close(
        [0.0_f32],
        [tiny],
        Tolerance::relative(8).or_absolute(f64::from(f32::MIN_POSITIVE)),
    );
    reported(compare(
        [f64::from_bits(1)],
        [0.0],
        &Tolerance::relative(1000),
    ));
}

#[test]
fn bits_are_stricter_than_equality() {
    assert_close([-0.0_f32], [0.0_f32], Tolerance::exact());
    reported(compare([-0.0_f32], [0.0_f32], &Tolerance::bits()));
    let other_nan = f32::from_bits(f32::NAN.to_bits() ^ 1);
    assert_close([other_nan], [f32::NAN], Tolerance::exact());
    reported(compare([other_nan], [f32::NAN], &Tolerance::bits()));
    assert_close([f32::NAN, 1.0], [f32::NAN, 1.0], Tolerance::bits());
    let error = compare([1.0_f32], [1.0_f64], &Tolerance::bits()).unwrap_err();
    assert_eq!(
        error,
        Mismatch::BitsOfTwoTypes {
            actual: "f32",
            expected: "f64"
        }
    );
}

#[test]
fn integers_and_booleans_must_be_equal_under_every_bound() {
    let wide = Tolerance::relative(1000).or_absolute(1e9);
    reported(compare([3_i32], [4_i32], &wide));
    reported(compare([u64::MAX], [u64::MAX - 1], &wide));
    reported(compare([i64::MIN], [i64::MAX], &wide));
    reported(compare([true], [false], &wide));
    reported(compare([3.5_f32], [3_i16], &wide));
    reported(compare([f64::NAN], [0_i64], &wide));
    reported(compare([i64::MAX], [9_223_372_036_854_775_808.0], &wide));
    assert_close([-1_i8, 5], [-1_i64, 5], Tolerance::exact());
    assert_close([200_u8], [200.0_f32], Tolerance::exact());
    assert_close([u64::MAX], [u64::MAX], Tolerance::bits());
    // An integer compared with a float must be equal, whatever the tolerance; the report contains
    // the error.
    let (_, worst) = reported(compare([0.5_f32], [1_u8], &wide));
    assert_eq!((worst.error, worst.allowed), (0.5, 0.0));
    reported(compare([1_u8], [1.25_f64], &wide));
    reported(compare([0_i32], [f64::from_bits(1)], &wide));
    assert_close([0_i32, 1], [-0.0_f32, 1.0], Tolerance::exact());
    assert_close([true, false], [1.0_f64, 0.0], Tolerance::exact());
    assert_close([1_u64, 0], [true, false], Tolerance::exact());
    let error = compare([1_i32], [1_u32], &Tolerance::bits()).unwrap_err();
    assert!(matches!(error, Mismatch::BitsOfTwoTypes { .. }), "{error}");
}

#[test]
fn sums_that_cancel_are_measured_by_their_terms() {
    // In f32, 1e6 + 1 - 1e6 may lose the whole 1.
    let (actual, expected, magnitude) = ([0.96875_f32], [1.0_f64], [2_000_001.0]);
    reported(compare(actual, expected, &Tolerance::relative(3)));
    let summary = compare(
        actual,
        expected,
        &Tolerance::relative(3).scaled_by(magnitude),
    )
    .unwrap();
    assert_eq!(summary.max_error, 0.03125);
    assert!(summary.max_share < 0.05);
}

#[test]
fn the_worst_element_is_the_one_furthest_beyond_its_allowance() {
    let expected = [1e6, 1.0, 1e-6];
    let actual = [1e6 + 1.0, 1.0 + 1e-3, 2e-6];
    let (n_bad, worst) = reported(compare(actual, expected, &Tolerance::relative(1)));
    assert_eq!((n_bad, worst.index), (3, vec![2]));
    let nan_is_worst = reported(compare(
        [f64::NAN, 1e300],
        [1.0, 1.0],
        &Tolerance::relative(1),
    ))
    .1;
    assert_eq!(nan_is_worst.index, [0]);
}

#[test]
fn arrays_slices_and_vectors_mix() {
    let matrix = array![[1.0_f32, 2.0], [3.0, 4.0]];
    assert_close(&matrix, [1.0, 2.0, 3.0, 4.0_f64], Tolerance::exact());
    assert_close(vec![1.0_f32, 3.0, 2.0, 4.0], matrix.t(), Tolerance::exact());
    assert_close(matrix.clone().into_dyn(), &matrix, Tolerance::exact());
    assert_close(&[1.0_f32, 2.0][..], matrix.row(0), Tolerance::exact());
    assert_close(ArrayD::from_elem(vec![], 1.0), [1.0], Tolerance::exact());
    let strided = Array1::from_vec(random(10, 3));
    let flipped = strided.slice(s![..;-1]);
    assert_close(flipped, flipped.to_vec(), Tolerance::bits());
}

#[test]
#[should_panic(
    expected = "compare: 1 of 2 elements exceed the tolerance\n  worst at [0, 1]: actual 2.5, expected 2.0, error 5e-1, allowed 4.440892098500626e-16"
)]
fn a_failed_assertion_says_what_where_and_how_much() {
    assert_close(
        array![[1.0, 2.5]],
        array![[1.0, 2.0]],
        Tolerance::relative(1),
    );
}
