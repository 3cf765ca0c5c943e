//! Packing of `bool`s into words, and products of packed words.

use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::rng::Philox;
use tensor_core::{DType, Error, Executor, Host, Reference, Tensor};

/// Returns random bits.
fn bits(shape: &[usize]) -> Tensor {
    let n = shape.iter().product::<usize>() as u64;
    let stream = Philox::new(3);
    let data: Vec<bool> = (0..n).map(|i| stream.word(i) & 1 == 1).collect();
    Tensor::from_vec(shape, data)
}

#[test]
fn every_length_returns_from_its_words() {
    for n in [0, 1, 31, 32, 33, 64, 70] {
        for shape in [vec![n], vec![3, n], vec![2, 0, n]] {
            let x = bits(&shape);
            let words = x.pack_bits();
            let mut of_words = shape.clone();
            *of_words.last_mut().unwrap() = n.div_ceil(32);
            assert_eq!(words.shape().unwrap(), of_words);
            let check = |executor: &dyn Executor| {
                let back = words.unpack_bits(n).eval::<bool>(executor).unwrap();
                let expected = x.eval::<bool>(executor).unwrap();
                assert_close(back, expected, Tolerance::exact().allow_empty());
            };
            check(&Host::new());
            check(&Reference);
        }
    }
}

#[test]
fn flags_that_are_equal_for_all_bits_of_a_word_fill_it() {
    for n in [32, 64] {
        let rows = Tensor::from_vec(&[5, 1], vec![1.0_f32, -1.0, 2.0, -2.0, 3.0]);
        let x = rows.broadcast_to(&[5, n]);
        // Read, compared, and padded with rows of `false`.
        for flags in [bits(&[5, 1]).broadcast_to(&[5, n]), x.gt(0.0)] {
            let padded = flags.pad(0, 2, 1, false);
            for flags in [flags.clone(), flags.flip(0), padded] {
                let is_one = flags.eval::<bool>(&Reference).unwrap();
                let is_one = is_one.iter().step_by(32);
                let expected: Vec<u32> = is_one.map(|&one| if one { !0 } else { 0 }).collect();
                let words = flags.pack_bits().eval::<u32>(&Host::new()).unwrap();
                assert_close(words, expected, Tolerance::exact());
            }
        }
    }
}

/// Returns `bit(i)` for each `i` below 70 as words, where the bit 1 stands for -1.
fn negative(is_positive: impl Fn(usize) -> bool) -> Tensor {
    Tensor::from_vec(&[70], (0..70).map(|i| !is_positive(i)).collect::<Vec<_>>()).pack_bits()
}

#[test]
fn words_have_the_first_element_in_the_lowest_bit_and_zeros_at_the_end() {
    let (a, w) = (negative(|i| i % 3 == 0), negative(|i| i % 5 < 2));
    let words = |x: &Tensor| x.eval::<u32>(&Host::new()).unwrap();
    assert_close(
        words(&a),
        [0xb6db_6db6_u32, 0x6db6_db6d, 0x1b],
        Tolerance::exact(),
    );
    assert_close(
        words(&w),
        [0x39ce_739c_u32, 0xce73_9ce7, 0x39],
        Tolerance::exact(),
    );
    // The dot product of signs is the length less twice the number of different bits.
    let different = (&a ^ &w)
        .count_ones()
        .sum(0)
        .item::<u32>(&Host::new())
        .unwrap();
    assert_eq!((different, 70 - 2 * i64::from(different)), (32, 6));
}

#[test]
fn codes_of_several_bits_are_counted_plane_by_plane() {
    // Activations with codes i mod 4 and basis (3/4, 3/2); weights 7 i mod 4 and (1/2, 5/4).
    let plane = |code: fn(usize) -> usize, bit: usize| {
        let bits: Vec<bool> = (0..70).map(|i| code(i) >> bit & 1 == 1).collect();
        Tensor::from_vec(&[70], bits).pack_bits()
    };
    let count = |x: &Tensor| f64::from(x.count_ones().sum(0).item::<u32>(&Host::new()).unwrap());
    let mut total = 0.0;
    for (p, u) in [(0, 0.75), (1, 1.5)] {
        let a = plane(|i| i % 4, p);
        assert_eq!(count(&a), [35.0, 34.0][p]);
        for (q, v) in [(0, 0.5), (1, 1.25)] {
            let both = count(&(&a & &plane(|i| 7 * i % 4, q)));
            assert_eq!(both, [[35.0, 18.0], [17.0, 17.0]][p][q]);
            total += u * v * (2.0 * both - count(&a));
        }
    }
    assert_eq!(total, 14.0625);
}

#[test]
fn wrong_types_and_counts_are_errors() {
    let error = |x: &Tensor| match x.shape().unwrap_err() {
        Error::At { error, .. } => *error,
        other => other,
    };
    let words = bits(&[40]).pack_bits();
    assert_eq!(
        error(&words.unpack_bits(65)).to_string(),
        "unpack_bits: 65 bits are in 3 words of 32 bits (the last axis of shape [2] has another size)"
    );
    assert!(matches!(
        error(&words.unpack_bits(32)),
        Error::WordCount { n_bits: 32, .. }
    ));
    assert!(matches!(
        error(&words.pack_bits()),
        Error::DTypeUnsupported {
            operation: "pack_bits",
            dtype: DType::U32
        }
    ));
    assert!(matches!(
        error(&bits(&[3]).unpack_bits(3)),
        Error::DTypeUnsupported {
            operation: "unpack_bits",
            ..
        }
    ));
    assert!(matches!(
        error(&Tensor::from_vec(&[], vec![true]).pack_bits()),
        Error::AxisOutOfRange {
            operation: "pack_bits",
            ..
        }
    ));
}
