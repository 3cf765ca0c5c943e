//! Defects of the prototype in the class-project notes on learned low-bit networks, each with the
//! test that fails on it.
//!
//! | defect | test |
//! |---|---|
//! | 1. The factor of the moving average is `int(0.9)`, which is 0. | `fits::averages_are_plain_or_without_bias` |
//! | 2. The property of the extra bit returns another flag. | [`an_offset_depends_on_no_other_option`] |
//! | 3. The extra bit is counted among the bits, so levels and thresholds have one bit too many. | [`an_offset_adds_no_level`] |
//! | 4. The least squares scramble the codes and drop the coefficient of the extra bit. | `fits::data_in_one_cell_moves_the_basis_as_little_as_possible` (affine), `qem_program::steps_of_all_channels_are_those_on_slices` |
//! | 5. A step quantises with the new basis, without the extra bit. | `qem_program::steps_of_all_channels_are_those_on_slices` (levels) |
//! | 6. The first basis has equal levels and does not depend on the data. | [`first_levels_differ_and_scale_with_the_data`] |
//! | 7. Infinity and NaN return uninitialised memory. | `levels::nan_is_counted_or_an_error_and_infinities_are_the_ends` |
//! | 8. An element at a threshold goes up, unlike in the published code. | `levels::ties_stay_or_go_up_by_the_chosen_rule` |
//! | 9. Codes become levels by a product over the wrong axis. | [`codes_and_levels_keep_the_shape_of_their_tensor`] |
//! | 10. The least squares fail on singular data, and drag the graph of gradients along. | `fits::data_in_one_cell_moves_the_basis_as_little_as_possible`, `qem_program::results_are_constants_for_gradients` |
//! | 11. The gradient of activations is not clipped. | [`levels_have_no_gradient`]; `layers::activations_have_a_clipped_gradient` |
//! | 12. A cache whose keys depend on the order of arguments grows without bound; a method drops its arguments; an exception is undefined. | no counterpart: this crate has no cache, and the compiler finds the others |

use quant::{LevelSet, Normal, Qem};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::{Host, Tensor, grad};

#[test]
fn an_offset_depends_on_no_other_option() {
    // Data far from 0, which levels without an offset cannot be near to on both sides.
    let data = Normal::new(5.0, 1.0).unwrap();
    let with_options = |qem: Qem| qem.ridge(1e-3).unwrap().max_iterations(50);
    for bits in 1..=3 {
        for qem in [Qem::signs(bits), Qem::bits(bits)] {
            let qem = qem.unwrap();
            let offset = |qem: Qem| qem.fit(&data).unwrap().offset;
            assert_eq!(
                [offset(qem.clone()), offset(with_options(qem.clone()))],
                [0.0; 2]
            );
            for affine in [
                qem.clone().affine(),
                with_options(qem.clone().affine()),
                with_options(qem).affine(),
            ] {
                assert!(offset(affine).abs() > 1.0);
            }
        }
    }
}

#[test]
fn an_offset_adds_no_level() {
    for bits in 1..=4 {
        let fit = Qem::bits(bits)
            .unwrap()
            .affine()
            .fit(&Normal::STANDARD)
            .unwrap();
        let levels = fit.level_set().unwrap();
        let n_levels = 1 << bits;
        assert_eq!(
            (
                fit.basis.len(),
                levels.levels().len(),
                levels.thresholds().len()
            ),
            (bits, n_levels, n_levels - 1)
        );
        assert!(
            levels
                .codes()
                .iter()
                .all(|&code| usize::from(code) < n_levels)
        );
    }
}

#[test]
fn first_levels_differ_and_scale_with_the_data() {
    for bits in 1..=4 {
        for qem in [Qem::signs(bits), Qem::bits(bits)] {
            // Without an iteration, a fit is the best one of its starts.
            let qem = qem.unwrap().max_iterations(0);
            let levels = |deviation: f64| {
                let data = Normal::new(0.0, deviation).unwrap();
                qem.fit(&data).unwrap().level_set().unwrap()
            };
            let (first, wide) = (levels(1.0), levels(8.0));
            let is_distinct = |pair: &[f32]| pair[1] - pair[0] > 0.05;
            assert!(first.levels().windows(2).all(is_distinct), "{first:?}");
            let scaled: Vec<f32> = first.levels().iter().map(|level| 8.0 * level).collect();
            assert_close(wide.levels(), scaled, Tolerance::relative(8));
        }
    }
}

#[test]
fn codes_and_levels_keep_the_shape_of_their_tensor() {
    let host = Host::new();
    // As many axes and channels as an image has, and as many channels as the basis has numbers.
    let levels = LevelSet::signs(&[0.5, 0.75, 1.0]).unwrap();
    let shape = [2, 3, 4, 5];
    let data: Vec<f32> = (0..120)
        .map(|i| ((i * i) as f32 * 0.3).sin() * 2.0)
        .collect();
    let x = Tensor::from_vec(&shape, data.clone());
    let codes = levels.codes_of(&x).eval::<u32>(&host).unwrap();
    let values = levels.levels_of(&x).eval::<f32>(&host).unwrap();
    assert_eq!([codes.shape(), values.shape()], [&shape; 2]);
    let (expected, _) = levels.quantize(&data);
    assert_close(
        values,
        levels.dequantize(&expected).unwrap(),
        Tolerance::exact(),
    );
    let expected: Vec<u32> = expected.into_iter().map(u32::from).collect();
    assert_close(codes, expected, Tolerance::exact());
}

#[test]
fn levels_have_no_gradient() {
    let x = Tensor::from_vec(&[4], vec![-1.0_f32, 0.2, 0.9, 7.0]);
    let levels = LevelSet::bits(&[0.5, 1.0]).unwrap().levels_of(&x);
    let gradient = &grad(&levels.sum(..), &[&x]).unwrap()[0];
    assert_close(
        gradient.eval::<f32>(&Host::new()).unwrap(),
        [0.0_f32; 4],
        Tolerance::exact(),
    );
}
