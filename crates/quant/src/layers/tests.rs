//! Layers compared with differences, with hand calculations and with fits on slices, and the
//! deliberate faults that these comparisons must detect.

use tensor_core::compare::{Tolerance, compare};
use tensor_core::{Host, Tensor, grad};

use super::*;
use crate::fault::{Fault, with_fault};
use crate::window::Window;
use crate::{LevelSet, MovingBasis, Qem, RectifiedNormal, Sample, abc};

/// Returns the tolerance of an absolute error, or of one epsilon.
fn within(error: f64) -> Tolerance {
    Tolerance::relative(1).or_absolute(error)
}

fn wave(shape: &[usize], step: f32) -> Tensor {
    let len: usize = shape.iter().product();
    let numbers = (0..len).map(|at| (at as f32 * step + 0.3).sin());
    Tensor::from_vec(shape, numbers.collect())
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor
        .eval::<f32>(&Host::new())
        .unwrap()
        .into_iter()
        .collect()
}

fn started(slots: &[Slot]) -> Vec<Tensor> {
    let tensors = slots.iter().map(|slot| {
        let len: usize = slot.shape.iter().product();
        let numbers = match &slot.start {
            Start::Constant(number) => vec![*number; len],
            Start::Numbers(numbers) => numbers.clone(),
            Start::Normal { deviation } => numbers(&(wave(&slot.shape, 1.7) * *deviation * 1.4)),
        };
        Tensor::from_vec(&slot.shape, numbers)
    });
    tensors.collect()
}

/// Compares the gradients of a scalar function with central differences, in f64.
fn assert_slopes(what: &str, at: &[Tensor], f: impl Fn(&[Tensor]) -> Tensor) {
    const STEP: f64 = 1e-5;
    let host = Host::new();
    let at: Vec<Tensor> = at
        .iter()
        .map(|tensor| tensor.cast(tensor_core::DType::F64))
        .collect();
    let wanted: Vec<&Tensor> = at.iter().collect();
    let gradients = grad(&f(&at), &wanted).unwrap();
    for (number, gradient) in gradients.iter().enumerate() {
        let gradient = gradient.eval::<f64>(&host).unwrap();
        let start = at[number].eval::<f64>(&host).unwrap();
        let shape = start.shape().to_vec();
        let slopes: Vec<f64> = (0..start.len())
            .map(|place| {
                let moved = |by: f64| {
                    let mut numbers: Vec<f64> = start.iter().copied().collect();
                    numbers[place] += by;
                    let mut at = at.clone();
                    at[number] = Tensor::from_vec(&shape, numbers);
                    f(&at).eval::<f64>(&host).unwrap()[[]]
                };
                (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
            })
            .collect();
        let gradient: Vec<f64> = gradient.into_iter().collect();
        // A central difference has an error of at most STEP² / 6 times the third derivative, and a
        // rounding error of about EPSILON / STEP times the value; each factor is at most 2e-11. The
        // third derivative and the value are below 200 here, so the sum is below 8e-9; the largest
        // error is 2e-10.
        let tolerance = within(1e-8);
        if let Err(mismatch) = compare(&gradient[..], &slopes[..], &tolerance) {
            panic!("{what}, operand {number}: {mismatch}");
        }
    }
}

#[test]
fn gradients_of_float_layers_are_the_slopes() {
    let image = [5, 5, 4];
    let x = wave(&[2, 5, 5, 4], 0.7);
    let conv = QuantConv2d {
        n_groups: 2,
        padding_value: 0.5,
        has_bias: true,
        ..QuantConv2d::new(6, Window::new([3, 3]).with_padding([[1, 0], [1, 1]]))
    };
    let weighted = |y: Tensor| {
        let weights = wave(y.shape().unwrap(), 0.9).cast(y.dtype().unwrap());
        (y * weights).sum(..)
    };
    let operands = |slots: Vec<Slot>| [vec![x.clone()], started(&slots)].concat();
    assert_slopes("conv2d", &operands(conv.parameters(image)), |at| {
        weighted(conv.apply(&at[0], &at[1..], &[]).unwrap().output)
    });
    let linear = QuantLinear::new(3).with_bias();
    assert_slopes("linear", &operands(linear.parameters(image)), |at| {
        weighted(linear.apply(&at[0], &at[1..], &[]).unwrap().output)
    });
    let norm = BatchNorm::default();
    let state = started(&norm.state(4));
    let state: Vec<Tensor> = state
        .iter()
        .map(|t| t.cast(tensor_core::DType::F64))
        .collect();
    assert_slopes("batch norm", &operands(norm.parameters(4)), |at| {
        weighted(norm.apply(&at[0], &at[1..], &state).unwrap().output)
    });
    let pool = MaxPool::new(Window::new([2, 3]).with_stride([2, 2])).unwrap();
    assert_slopes("max pool", &operands(Vec::new()), |at| {
        weighted(pool.apply(&at[0]).unwrap())
    });
}

#[test]
fn ties_of_a_max_pool_share_the_gradient() {
    let x = Tensor::from_vec(&[1, 2, 2, 1], vec![3.0_f32, 1.0, 3.0, 3.0]);
    let pool = MaxPool::new(Window::new([2, 2])).unwrap();
    let y = pool.apply(&x).unwrap() * 6.0;
    let gradient = &grad(&y.sum(..), &[&x]).unwrap()[0];
    assert_eq!(numbers(gradient), [2.0, 0.0, 2.0, 2.0]);
}

#[test]
fn a_batch_normalization_is_that_of_the_formula() {
    let x = Tensor::from_vec(&[2, 1, 2, 1], vec![1.0_f32, 3.0, 5.0, 7.0]);
    let norm = BatchNorm::new(1e-5, 0.75).unwrap();
    let parameters = [vec![2.0_f32], vec![0.5]].map(|numbers| Tensor::from_vec(&[1], numbers));
    let state = started(&norm.state(1));
    let applied = norm.apply(&x, &parameters, &state).unwrap();
    // Mean 4, variance 5, unbiased variance 20 / 3.
    let y = [-3.0_f64, -1.0, 1.0, 3.0].map(|d| 2.0 * d / (5.0_f64 + 1e-5).sqrt() + 0.5);
    let tolerance = within(1e-6);
    let wide = |numbers: Vec<f32>| numbers.into_iter().map(f64::from).collect::<Vec<_>>();
    compare(&wide(numbers(&applied.output))[..], &y[..], &tolerance).unwrap();
    let state: Vec<f64> = applied
        .state
        .iter()
        .flat_map(|t| wide(numbers(t)))
        .collect();
    compare(&state[..], &[1.0, 0.75 + 20.0 / 12.0][..], &tolerance).unwrap();
    // A single element has no unbiased variance; the biased one is 0.
    let one = Tensor::from_vec(&[1, 1, 1, 1], vec![2.0_f32]);
    let applied = norm
        .apply(&one, &parameters, &started(&norm.state(1)))
        .unwrap();
    assert_eq!(numbers(&applied.output), [0.5]);
    assert_eq!(numbers(&applied.state[1]), [0.75]);
    for (epsilon, decay) in [(0.0, 0.5), (f32::NAN, 0.5), (1e-5, 1.0), (1e-5, f32::NAN)] {
        assert!(BatchNorm::new(epsilon, decay).is_err(), "{epsilon} {decay}");
    }
}

const WEIGHT_LEVELS: [WeightLevels; 8] = [
    WeightLevels::Lq { bits: 1 },
    WeightLevels::Lq { bits: 2 },
    WeightLevels::Lq { bits: 3 },
    WeightLevels::Uniform { bits: 2 },
    WeightLevels::DoReFa { bits: 1 },
    WeightLevels::Abc { bases: 1 },
    WeightLevels::Abc { bases: 3 },
    WeightLevels::Abc { bases: 5 },
];

/// Compares the derivative with respect to quantised weights with the rule of the straight-through
/// estimator: it is that with respect to float weights that have the values of the levels. Both are
/// sums of 7 products with sums of 30 products, whose terms may cancel, in any order: each may have
/// an error of 39 rounding errors of the sum of the absolute terms.
fn check_weight_gradients(levels: WeightLevels) -> Result<(), String> {
    let weights = wave(&[4, 30], 1.3);
    let state = started(&levels.state(&numbers(&weights), 4).unwrap());
    let x = wave(&[7, 30], 0.7);
    let loss = |levels: &Tensor| x.matmul(&levels.t()).square().sum(..);
    let (quantized, _) = levels.apply(&weights, &state).unwrap();
    let through = &grad(&loss(&quantized), &[&weights]).unwrap()[0];
    let values = Tensor::from_vec(&[4, 30], numbers(&quantized));
    let expected = &grad(&loss(&values), &[&values]).unwrap()[0];
    // The same sums of absolute terms.
    let absolute = Tensor::from_vec(&[4, 30], numbers(&values.abs()));
    let of_absolute = x.abs().matmul(&absolute.t()).square().sum(..);
    let magnitudes = numbers(&grad(&of_absolute, &[&absolute]).unwrap()[0]);
    let relative = |gradient: &Tensor| -> Vec<f64> {
        let pairs = numbers(gradient).into_iter().zip(&magnitudes);
        pairs
            .map(|(number, &magnitude)| f64::from(number) / f64::from(magnitude))
            .collect()
    };
    // The magnitudes have rounding errors as well.
    let tolerance = Tolerance::exact().or_absolute(40.0 * f64::from(f32::EPSILON));
    let compared = compare(&relative(through)[..], &relative(expected)[..], &tolerance);
    compared.map(drop).map_err(|mismatch| mismatch.to_string())
}

#[test]
fn weights_have_the_gradients_of_their_levels() {
    for levels in WEIGHT_LEVELS {
        check_weight_gradients(levels).unwrap_or_else(|error| panic!("{levels}: {error}"));
    }
    let fault = Fault::DifferentiatedFactors;
    let found = with_fault(fault, || {
        check_weight_gradients(WeightLevels::Abc { bases: 3 })
    });
    assert!(found.is_err(), "the fault was not found");
}

#[test]
fn dorefa_weights_have_the_gradient_of_the_scaled_tanh() {
    let weights = wave(&[3, 5], 1.3);
    let levels = WeightLevels::DoReFa { bits: 2 };
    let (quantized, _) = levels.apply(&weights, &[]).unwrap();
    let gradient = numbers(&grad(&quantized.sum(..), &[&weights]).unwrap()[0]);
    let weights = numbers(&weights);
    let largest = weights.iter().map(|w| w.tanh().abs()).fold(0.0, f32::max);
    let expected: Vec<f32> = weights
        .iter()
        .map(|w| (1.0 - w.tanh().powi(2)) / largest)
        .collect();
    // Both sides compute tanh within 1 epsilon. The square is at most 0.6, so 1 − tanh² has an
    // error of at most 3 epsilons from tanh and 2 from its own roundings. With the largest tanh and
    // the quotient, each side has an error of at most 7 epsilons; the largest difference is 3.
    compare(&gradient[..], &expected[..], &Tolerance::relative(16)).unwrap();
    let steps: Vec<f32> = numbers(&quantized)
        .iter()
        .map(|level| (level * 3.0 + 3.0) / 2.0)
        .collect();
    assert!(
        steps.iter().all(|step| (step - step.round()).abs() < 1e-5),
        "{steps:?}"
    );
}

/// Compares the output and the next state of learned levels with a fit on slices: the output has
/// the levels of the old basis, and the state the debiased average.
fn check_learned_levels() -> Result<(), String> {
    for (levels, qem) in [
        (WeightLevels::Lq { bits: 2 }, Qem::signs(2).unwrap()),
        (
            WeightLevels::Uniform { bits: 2 },
            Qem::signs(2).unwrap().uniform(),
        ),
    ] {
        let weights = wave(&[2, 40], 1.3);
        let slices = numbers(&weights);
        // The state is that of other weights, so that the basis changes.
        let state = started(
            &levels
                .state(&numbers(&(wave(&[2, 40], 0.4) * 1.5)), 2)
                .unwrap(),
        );
        let (quantized, next) = levels.apply(&weights, &state).unwrap();
        let (output, next_basis, old) =
            (numbers(&quantized), numbers(&next[0]), numbers(&state[0]));
        let len = old.len() / 2;
        for channel in 0..2 {
            let own = &slices[40 * channel..][..40];
            let basis: Vec<f64> = old[len * channel..][..len]
                .iter()
                .map(|&v| v.into())
                .collect();
            let full: Vec<f32> = match levels {
                WeightLevels::Uniform { .. } => vec![old[channel], 2.0 * old[channel]],
                _ => old[len * channel..][..len].to_vec(),
            };
            let set = LevelSet::signs(&full).unwrap();
            let expected = set.dequantize(&set.quantize(own).0).unwrap();
            // A level is a sum of two numbers, so both sides round once.
            let bound = Tolerance::exact();
            let error = |mismatch: tensor_core::compare::Mismatch| mismatch.to_string();
            compare(&output[40 * channel..][..40], &expected[..], &bound).map_err(error)?;
            let (fitted, _) = qem.step(&Sample::new(own).unwrap(), &basis, 0.0).unwrap();
            let mut average = MovingBasis::debiased(&basis, 0.9).unwrap();
            average.update(&basis).unwrap();
            average.update(&fitted).unwrap();
            let actual: Vec<f64> = next_basis[len * channel..][..len]
                .iter()
                .map(|&v| v.into())
                .collect();
            // Sums of 40 elements in pairs have errors of up to 6 half epsilons in f32, and the
            // system of two unknowns multiplies them by its condition number. 17 epsilons cover a
            // condition number of 5; the largest error is 7e-8.
            let bound = within(2e-6);
            compare(&actual[..], average.basis(), &bound).map_err(error)?;
        }
    }
    Ok(())
}

#[test]
fn the_output_has_the_levels_of_the_old_basis_and_the_state_is_an_average() {
    check_learned_levels().unwrap();
    for fault in [Fault::NewBasis, Fault::NoAverage] {
        let found = with_fault(fault, check_learned_levels);
        assert!(found.is_err(), "{fault:?} was not found");
    }
}

#[test]
fn levels_of_abc_weights_are_those_of_the_fit_on_slices() {
    for bases in 1..=5 {
        let weights = wave(&[3, 200], 0.77) + wave(&[3, 200], 2.1);
        let (quantized, _) = WeightLevels::Abc { bases }.apply(&weights, &[]).unwrap();
        let (output, slices) = (numbers(&quantized), numbers(&weights));
        for channel in 0..3 {
            let own = &slices[200 * channel..][..200];
            let set = abc(&Sample::new(own).unwrap(), bases, false)
                .unwrap()
                .level_set()
                .unwrap();
            let expected = set.dequantize(&set.quantize(own).0).unwrap();
            // Sums of 200 elements in pairs have errors of up to 4 epsilons in f32. 17 epsilons
            // cover a condition number of 4 of the system; the largest error is 2e-7.
            let bound = within(2e-6);
            compare(&output[200 * channel..][..200], &expected[..], &bound).unwrap();
        }
    }
}

#[test]
fn weights_of_a_single_value_have_finite_levels() {
    let weights = Tensor::from_vec(&[2, 3], vec![0.5_f32, 0.5, 0.5, 0.0, 0.0, 0.0]);
    for levels in WEIGHT_LEVELS {
        let state = started(&levels.state(&numbers(&weights), 2).unwrap());
        let (quantized, next) = levels.apply(&weights, &state).unwrap();
        let all = next.iter().chain([&quantized]).flat_map(numbers);
        assert!(all.into_iter().all(f32::is_finite), "{levels}");
    }
}

/// Compares the derivatives of activations with those by hand.
fn check_activation_gradients() -> Result<(), String> {
    let highest = |bits: usize, basis: &[f32]| match bits {
        0 => 3.0 * basis[0],
        _ => basis[0] + basis[1],
    };
    for (levels, bits) in [
        (ActivationLevels::Lq { bits: 2 }, 2),
        (ActivationLevels::Uniform { bits: 2 }, 0),
    ] {
        let state = started(&levels.state().unwrap());
        let top = highest(bits, &numbers(&state[0]));
        let places = [
            -1.0,
            -0.0,
            0.0,
            1e-3,
            top / 2.0,
            top,
            top.next_up(),
            2.0 * top,
            f32::MAX,
        ];
        let x = Tensor::from_vec(&[places.len()], places.to_vec());
        let output = levels.apply(&x, &[], &state).unwrap().output;
        let gradient = numbers(&grad(&output.sum(..), &[&x]).unwrap()[0]);
        if gradient != [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0] {
            return Err(format!("{levels}: {gradient:?} at {places:?}"));
        }
    }
    Ok(())
}

#[test]
fn activations_have_a_clipped_gradient() {
    check_activation_gradients().unwrap();
    let found = with_fault(Fault::UnclippedGradient, check_activation_gradients);
    assert!(found.is_err(), "the fault was not found");
    let x = Tensor::from_vec(&[6], vec![-0.1_f32, 0.0, 0.4, 0.6, 1.0, 1.1]);
    let output = ActivationLevels::DoReFa { bits: 2 }
        .apply(&x, &[], &[])
        .unwrap()
        .output;
    let third = 1.0 / 3.0;
    let expected = [0.0, 0.0, third, 2.0 * third, 1.0, 1.0];
    compare(
        &numbers(&output)[..],
        &expected[..],
        &Tolerance::relative(2),
    )
    .unwrap();
    let gradient = numbers(&grad(&output.sum(..), &[&x]).unwrap()[0]);
    assert_eq!(gradient, [0.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
}

#[test]
fn abc_activations_and_their_parameters_have_the_gradients_of_the_paper() {
    let levels = ActivationLevels::Abc { bases: 2 };
    let x = Tensor::from_vec(&[5], vec![-0.5_f32, 0.125, 0.25, 0.75, 1.5]);
    let shifts = Tensor::from_vec(&[2], vec![0.25_f32, -0.25]);
    let factors = Tensor::from_vec(&[2], vec![2.0_f32, 3.0]);
    let output = levels
        .apply(&x, &[shifts.clone(), factors.clone()], &[])
        .unwrap()
        .output;
    // Base 0 is 1 from 0.25 on, base 1 from 0.75 on.
    assert_eq!(numbers(&output), [-5.0, -5.0, -1.0, 5.0, 5.0]);
    let gradients = grad(&output.sum(..), &[&x, &shifts, &factors]).unwrap();
    // x + 0.25 is in [0, 1] for 0.125, 0.25 and 0.75; x - 0.25 for 0.25 and 0.75.
    assert_eq!(numbers(&gradients[0]), [0.0, 2.0, 5.0, 5.0, 0.0]);
    assert_eq!(numbers(&gradients[1]), [6.0, 6.0]);
    assert_eq!(numbers(&gradients[2]), [1.0, -1.0]);
    // The exported levels are the same function.
    let frozen = levels
        .frozen(&[vec![0.25, -0.25], vec![2.0, 3.0]], &[])
        .unwrap();
    assert_eq!(numbers(&frozen.apply(&x)), numbers(&output));
}

#[test]
fn a_batch_without_elements_above_the_threshold_keeps_the_basis() {
    let levels = ActivationLevels::Lq { bits: 1 };
    let state = started(&levels.state().unwrap());
    let x = Tensor::from_vec(&[2, 2], vec![-1.0_f32, 0.0, 0.1, -0.0]);
    let applied = levels.apply(&x, &[], &state).unwrap();
    assert_eq!(numbers(&applied.output), [0.0; 4]);
    let basis = numbers(&state[0])[0];
    let next = numbers(&applied.state[0])[0];
    assert!((next - basis).abs() < 1e-5 * basis, "{next} after {basis}");
}

#[test]
fn uniform_fits_have_the_published_errors() {
    // Steps that are optimal for the normal distribution.
    for (bits, error, step) in [
        (1, 0.363_380_23, 1.595_769),
        (2, 0.118_846_05, 0.995_687),
        (3, 0.037_439_66, 0.586_019),
        (4, 0.011_542_88, 0.335_201),
    ] {
        let fit = Qem::signs(bits)
            .unwrap()
            .uniform()
            .fit(&crate::Normal::STANDARD)
            .unwrap();
        assert!(
            (fit.mean_square_error - error).abs() < 1e-8,
            "{bits}: {fit:?}"
        );
        assert!((2.0 * fit.basis[0] - step).abs() < 1e-5, "{bits}: {fit:?}");
        let doubled = fit.basis.windows(2).all(|pair| pair[1] == 2.0 * pair[0]);
        assert!(doubled && fit.basis.len() == bits, "{fit:?}");
    }
    let fit = Qem::bits(2)
        .unwrap()
        .uniform()
        .fit(&RectifiedNormal)
        .unwrap();
    let best = Qem::bits(2).unwrap().fit(&RectifiedNormal).unwrap();
    assert!(fit.mean_square_error >= best.mean_square_error);
    assert!(fit.mean_square_error < 1.0003 * best.mean_square_error);
}

#[test]
fn exported_weights_are_those_of_the_program() {
    for levels in WEIGHT_LEVELS
        .into_iter()
        .chain([WeightLevels::DoReFa { bits: 3 }])
    {
        // Some weights leave cells between thresholds empty.
        for weights in [
            wave(&[4, 30], 1.3) + wave(&[4, 30], 0.21),
            wave(&[4, 3], 1.3),
            Tensor::from_vec(&[4, 2], vec![0.5_f32, 0.5, 0.0, 0.0, 1.0, -1.0, 0.25, 0.5]),
        ] {
            let slices = numbers(&weights);
            let state = started(&levels.state(&slices, 4).unwrap());
            let (quantized, _) = levels.apply(&weights, &state).unwrap();
            let state: Vec<Vec<f32>> = state.iter().map(numbers).collect();
            let frozen = levels.frozen(slices, 4, &state).unwrap();
            // The export computes in f64, the program in f32 with a few roundings per level; the
            // largest error is 2e-7.
            let bound = within(1e-6);
            compare(
                &frozen.values().unwrap()[..],
                &numbers(&quantized)[..],
                &bound,
            )
            .unwrap_or_else(|mismatch| panic!("{levels}: {mismatch}"));
        }
    }
}
