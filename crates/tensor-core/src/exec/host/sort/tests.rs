//! Tests of sorts around each threshold, by the definition of the order.

use crate::dtype::{Element, Scalar};
use crate::exec::host::sort::{COLUMNS, LEAST_RUN, TASK, line};
use crate::op::{Sort, Sorted};
use crate::rng::philox4x32_10;
use crate::{Host, SortAxis, Tensor};

/// Sorts an array by the definition, and compares the elements and positions on several numbers of
/// threads bit by bit.
fn check<T: Element>(shape: &[usize], axis: usize, elements: Vec<T>) {
    let n = shape[axis];
    let width: usize = shape[axis + 1..].iter().product();
    let x = Tensor::from_vec(shape, elements.clone());
    for descending in [false, true] {
        let sort = Sort {
            axis,
            descending,
            result: Sorted::Elements,
        };
        let mut expected = elements.clone();
        let mut positions = vec![0_u32; elements.len()];
        for first in (0..elements.len()).filter(|at| (at / width).is_multiple_of(n)) {
            let mut order: Vec<u32> = (0..).take(n).collect();
            let element = |at: u32| elements[first + at as usize * width].into_scalar();
            order.sort_by(|&a, &b| sort.compare(element(a), element(b)));
            for (place, at) in order.into_iter().enumerate() {
                positions[first + place * width] = at;
                expected[first + place * width] = elements[first + at as usize * width];
            }
        }
        let along = SortAxis::new(axis);
        let along = if descending {
            along.descending()
        } else {
            along
        };
        for n_threads in [1, 2, 3, 8] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads);
            pool.build().unwrap().install(|| {
                let host = Host::new();
                let bits = |scalars: &mut dyn Iterator<Item = Scalar>| scalars.collect::<Vec<_>>();
                let sorted = x.sort(along).eval::<T>(&host).unwrap();
                let what = format!("{shape:?}, axis {axis}, {n_threads} threads");
                assert!(
                    bits(&mut sorted.iter().map(|x| x.into_scalar()))
                        == bits(&mut expected.iter().map(|x| x.into_scalar())),
                    "elements of {what}"
                );
                let order = x.argsort(along).eval::<u32>(&host).unwrap();
                assert!(order.iter().eq(positions.iter()), "positions of {what}");
            });
        }
    }
}

/// Returns random words.
fn words(len: usize) -> Vec<u32> {
    let blocks = (0..).map(|at| philox4x32_10([at, 0, 0, 0], [7, 0]));
    blocks.flatten().take(len).collect()
}

#[test]
fn lines_around_each_threshold_are_sorted_and_stable() {
    let sizes = [
        1,
        2,
        line::SHORT - 1,
        line::SHORT,
        line::SHORT + 1,
        TASK + 1,
        2 * LEAST_RUN - 1,
        2 * LEAST_RUN,
        3 * LEAST_RUN + 77,
    ];
    for n in sizes {
        let words = words(n);
        check(&[n], 0, words.clone());
        // Few values, so that many are equal.
        check(
            &[n],
            0,
            words.iter().map(|word| (word % 7) as i32 - 3).collect(),
        );
        check(
            &[n],
            0,
            words.iter().map(|&word| f32::from_bits(word)).collect(),
        );
    }
}

#[test]
fn columns_and_many_lines_are_sorted() {
    for shape in [
        [3, 5, 1],
        [2, 40, COLUMNS - 1],
        [1, 600, COLUMNS + 1],
        [40, 600, 2],
        [1, 1, 40],
        [200, 130, 1],
        [2, 2 * LEAST_RUN + 5, 1],
    ] {
        let words = words(shape.iter().product());
        let floats = words.iter().map(|word| f64::from(word % 1000) - 500.0);
        check(&shape, 1, floats.collect());
        check(&shape, 1, words);
    }
}

#[test]
fn zeros_and_nans_keep_their_bits_and_their_order() {
    let variants = [
        0.0,
        -0.0,
        f32::NAN,
        -f32::NAN,
        f32::from_bits(0x7fc0_0001),
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MIN_POSITIVE / 2.0,
        -1.0,
        1.0,
    ];
    for n in [10, 1000, 3 * LEAST_RUN] {
        let words = words(2 * n);
        let pick = |word: &u32| variants[*word as usize % variants.len()];
        check(&[n], 0, words[..n].iter().map(pick).collect());
        check(&[n, 2], 0, words.iter().map(pick).collect());
        check(&[2, n], 1, words.iter().map(pick).collect());
        let wide = |word: &u32| f64::from(pick(word));
        check(&[n], 0, words[..n].iter().map(wide).collect());
    }
}

#[test]
fn a_nan_with_the_bits_of_a_key_keeps_its_bits() {
    for bits in [0x7fff_ffff, 0xffff_ffff] {
        check(&[3], 0, vec![1.0, f32::from_bits(bits), -1.0]);
        check(&[3, 1], 0, vec![f32::from_bits(bits); 3]);
    }
}

#[test]
fn integers_at_the_ends_of_their_range_are_sorted() {
    check(&[5], 0, vec![i32::MAX, i32::MIN, -1, 0, 1]);
    check(&[4], 0, vec![u32::MAX, 0, 1 << 31, 1]);
}

#[test]
fn arrays_without_elements_are_sorted() {
    for (shape, axis) in [([0, 3], 0), ([0, 3], 1), ([3, 0], 1), ([3, 0], 0)] {
        let x = Tensor::from_vec(&shape, Vec::<f32>::new());
        let sorted = x.sort(axis).eval::<f32>(&Host::new()).unwrap();
        assert_eq!(sorted.shape(), shape);
    }
}
