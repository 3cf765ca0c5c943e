//! One step of quantisation error minimisation as a tensor program, compared with the step on
//! slices, on every executor.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use quant::{Alphabet, Error, LevelSet, Population, Qem, QemStep, Sample};
use tensor_core::compare::{Tolerance, assert_close, compare};
use tensor_core::rng::Philox;
use tensor_core::{DType, Executor, Host, Reference, Tensor, grad};

/// Calls a check with every executor of this machine.
fn on_every_executor(check: impl Fn(&dyn Executor)) {
    check(&Host::new());
    check(&Reference);
    #[cfg(feature = "gpu")]
    for gpu in gpu_wgsl::check::every_adapter() {
        check(gpu);
    }
}

/// A configuration of a step.
#[derive(Clone, Copy, Debug)]
struct Case {
    alphabet: Alphabet,
    bits: usize,
    is_affine: bool,
}

impl Case {
    fn qem(self) -> Qem {
        let qem = match self.alphabet {
            Alphabet::Signs => Qem::signs(self.bits),
            Alphabet::Bits => Qem::bits(self.bits),
        };
        let qem = qem.unwrap();
        if self.is_affine { qem.affine() } else { qem }
    }

    fn all() -> impl Iterator<Item = Self> {
        let alphabets = [Alphabet::Signs, Alphabet::Bits].into_iter();
        let kinds = alphabets.flat_map(|alphabet| [false, true].map(|affine| (alphabet, affine)));
        kinds.flat_map(|(alphabet, is_affine)| {
            (1..=Qem::MAX_STEP_BITS).map(move |bits| Self {
                alphabet,
                bits,
                is_affine,
            })
        })
    }
}

/// The data, the basis and the offset of some channels.
struct Channels {
    n_elements: usize,
    data: Vec<f32>,
    basis: Vec<f32>,
    offset: Vec<f32>,
}

impl Channels {
    /// Returns channels of all kinds of data. The numbers of bases are small multiples of 1/64
    /// times a power of two, so levels and thresholds are exact in f32.
    fn random(case: Case, n_elements: usize) -> Self {
        let stream = Philox::new(17 + case.bits as u64);
        let mut place = 0;
        let mut below = |n: u32| {
            place += 1;
            stream.word(place) % n
        };
        let mut channels = Self {
            n_elements,
            data: vec![],
            basis: vec![],
            offset: vec![],
        };
        for kind in 0..24 {
            // The second third has large numbers, the last third small ones.
            let scale = [1.0, 2_f32.powi(40), 2_f32.powi(-40)][kind / 8];
            let mut dyadic = |n: u32| scale * (below(2 * n + 1) as f32 - n as f32) / 64.0;
            channels
                .basis
                .extend((0..case.bits).map(|_| dyadic(if kind % 8 == 7 { 2 } else { 150 })));
            channels.offset.push(dyadic(100));
            let constant = dyadic(400);
            let few = [constant, dyadic(300), dyadic(300)];
            let mut uniform = || scale * (below(1 << 24) as f32 / (1 << 22) as f32 - 2.0);
            let data = (0..n_elements).map(|i| match kind % 8 {
                // Elements that hit one or two levels, which do not determine the basis.
                0 => constant,
                1 => 0.0,
                2 => 64.0 * scale,
                3 => few[usize::from(i > 0)],
                4 => few[i % 3],
                // One element far from all others.
                5 if i == 0 => -90.0 * scale,
                _ => uniform(),
            });
            channels.data.extend(data);
        }
        channels
    }

    fn n_channels(&self) -> usize {
        self.offset.len()
    }

    fn step(&self, case: Case, dtype: DType) -> QemStep {
        let tensor = |shape: &[usize], numbers: &[f32]| {
            Tensor::from_vec(shape, numbers.to_vec()).cast(dtype)
        };
        let n = self.n_channels();
        let offset = case.is_affine.then(|| tensor(&[n], &self.offset));
        let x = tensor(&[n, self.n_elements], &self.data);
        let basis = tensor(&[n, case.bits], &self.basis);
        case.qem().step_of(&x, &basis, offset.as_ref()).unwrap()
    }
}

fn numbers(tensor: &Tensor, executor: &dyn Executor) -> Vec<f64> {
    all_numbers(&[tensor], executor).remove(0)
}

/// Returns the elements of several tensors, which are computed together.
fn all_numbers(tensors: &[&Tensor], executor: &dyn Executor) -> Vec<Vec<f64>> {
    let computed = Tensor::realize_all(tensors, executor).unwrap();
    let elements = |tensor: &Tensor| -> Vec<f64> {
        if tensor.dtype().unwrap() == DType::F64 {
            tensor.to_host::<f64>().unwrap().into_iter().collect()
        } else {
            let elements = tensor.to_host::<f32>().unwrap();
            elements.into_iter().map(f64::from).collect()
        }
    };
    computed.iter().map(elements).collect()
}

/// Returns the factors of the unknowns and the distance from its level, for each element.
fn assigned(case: Case, data: &[f32], state: &[f64]) -> Vec<(Vec<f64>, f64)> {
    let mut levels: Vec<(f64, Vec<f64>)> = (0..1_u32 << case.bits)
        .map(|code| {
            let bits = (0..case.bits).map(|j| case.alphabet.factor(code >> j & 1 == 1));
            let factors: Vec<f64> = bits.chain(case.is_affine.then_some(1.0)).collect();
            let level = factors.iter().zip(state).map(|(c, v)| c * v).sum::<f64>();
            (level + 0.0, factors)
        })
        .collect();
    levels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let of_element = |&x: &f32| {
        let x = f64::from(x);
        let is_passed = |pair: &&[(f64, Vec<f64>)]| x > (pair[0].0 + pair[1].0) / 2.0;
        let (level, factors) = &levels[levels.windows(2).filter(is_passed).count()];
        (factors.clone(), x - level)
    };
    data.iter().map(of_element).collect()
}

/// Returns the ratio of the largest to the smallest nonzero eigenvalue of a symmetric matrix, by
/// Jacobi's rotations.
fn condition(mut matrix: Vec<Vec<f64>>) -> f64 {
    let n = matrix.len();
    for _ in 0..60 {
        for (p, q) in (0..n).flat_map(|q| (0..q).map(move |p| (p, q))) {
            let angle = 0.5 * (2.0 * matrix[p][q]).atan2(matrix[q][q] - matrix[p][p]);
            let (sin, cos) = angle.sin_cos();
            for row in &mut matrix {
                (row[p], row[q]) = (cos * row[p] - sin * row[q], sin * row[p] + cos * row[q]);
            }
            let (head, tail) = matrix.split_at_mut(q);
            for (a, b) in head[p].iter_mut().zip(&mut tail[0]) {
                (*a, *b) = (cos * *a - sin * *b, sin * *a + cos * *b);
            }
        }
    }
    let values: Vec<f64> = (0..n).map(|i| matrix[i][i]).collect();
    let largest = values.iter().fold(0.0, |a: f64, &b| a.max(b));
    let nonzero = values.iter().filter(|&&value| value > 1e-9 * largest);
    largest / nonzero.fold(f64::INFINITY, |a, &b| a.min(b))
}

/// Compares a step with the step on slices, within the documented tolerance for the unit roundoff.
fn check_step(case: Case, channels: &Channels, found: &[Vec<f64>], unit: f64) {
    let (n, n_unknowns) = (channels.n_elements, case.bits + usize::from(case.is_affine));
    for channel in 0..channels.n_channels() {
        let data = &channels.data[channel * n..][..n];
        let basis: Vec<f64> = channels.basis[channel * case.bits..][..case.bits]
            .iter()
            .copied()
            .map(f64::from)
            .collect();
        let offset = match case.is_affine {
            true => f64::from(channels.offset[channel]),
            false => 0.0,
        };
        let sample = Sample::new(data).unwrap();
        let qem = case.qem();
        let (expected, expected_offset) = qem.step(&sample, &basis, offset).unwrap();
        let error = qem.error(&sample, &basis, offset).unwrap();
        let state: Vec<f64> = basis
            .iter()
            .copied()
            .chain(case.is_affine.then_some(offset))
            .collect();
        let assigned = assigned(case, data, &state);
        let mut matrix = vec![vec![0.0; n_unknowns]; n_unknowns];
        for (factors, _) in &assigned {
            for (row, a) in matrix.iter_mut().zip(factors) {
                row.iter_mut()
                    .zip(factors)
                    .for_each(|(cell, b)| *cell += a * b);
            }
        }
        let distances = assigned.iter().map(|(_, distance)| distance.abs());
        let largest = distances.fold(0.0, f64::max);
        let size: f64 = state.iter().map(|v| v.abs()).sum();
        // A channel all of whose elements have a level without factors has no eigenvalue.
        let ratio = condition(matrix);
        let kappa = if ratio.is_finite() { ratio.sqrt() } else { 1.0 };
        // The step on slices solves equations whose condition is at most that of one element in a
        // direction and the ridge in another one.
        let of_slices = f64::EPSILON * 64.0 * (n * n_unknowns) as f64 / 1e-4 * (largest + size);
        let tolerance = kappa * (n + 64) as f64 * unit * largest + 5.0 * unit * size + of_slices;
        let place = channel * case.bits;
        let close = |quantity: &str, found: &[f64], expected: &[f64], tolerance: f64| {
            let tolerance = Tolerance::exact().or_absolute(tolerance);
            if let Err(mismatch) = compare(found, expected, &tolerance) {
                panic!("{case:?}, channel {channel}, kappa {kappa}: {quantity}: {mismatch}");
            }
        };
        let found_basis = &found[0][place..][..case.bits];
        close("basis", found_basis, &expected, tolerance);
        if case.is_affine {
            close(
                "offset",
                &found[3][channel..=channel],
                &[expected_offset],
                tolerance,
            );
        }
        // The sum of `n` squares, each with the rounding of the distance and of the square; the
        // error on slices is a difference of sums of squares.
        let squares = sample.sum_of_squares() / n as f64 + size * size;
        let tolerance = (n + 8) as f64 * unit * error
            + 4.0 * unit * size * error.sqrt()
            + 64.0 * f64::EPSILON * squares;
        close("error", &found[1][channel..=channel], &[error], tolerance);
    }
}

/// Returns the basis, the mean square error, the levels and, if there is one, the offset.
fn evaluated(step: &QemStep, executor: &dyn Executor) -> Vec<Vec<f64>> {
    let outputs = [&step.basis, &step.mean_square_error, &step.levels];
    let outputs: Vec<&Tensor> = outputs.into_iter().chain(&step.offset).collect();
    all_numbers(&outputs, executor)
}

/// Returns the level of each element, by the level sets of the channels.
fn levels_of(case: Case, channels: &Channels) -> Vec<f64> {
    let data = channels.data.chunks(channels.n_elements);
    let levels_of = |(channel, data): (usize, &[f32])| {
        let basis = &channels.basis[channel * case.bits..][..case.bits];
        let levels = match case.alphabet {
            Alphabet::Signs => LevelSet::signs(basis),
            Alphabet::Bits => LevelSet::bits(basis),
        };
        let offset = if case.is_affine {
            channels.offset[channel]
        } else {
            0.0
        };
        let levels = levels.unwrap().with_offset(offset).unwrap();
        levels.dequantize(&levels.quantize(data).0).unwrap()
    };
    data.enumerate()
        .flat_map(levels_of)
        .map(f64::from)
        .collect()
}

#[test]
fn steps_of_all_channels_are_those_on_slices() {
    let check = |case: Case, executor: &dyn Executor| {
        let channels = Channels::random(case, 61);
        let found = evaluated(&channels.step(case, DType::F32), executor);
        let unit = f64::from(f32::EPSILON) / 2.0;
        check_step(case, &channels, &found, unit);
        // Elements have the levels of the old basis.
        assert_close(
            &found[2][..],
            levels_of(case, &channels),
            Tolerance::exact(),
        );
    };
    for case in Case::all() {
        check(case, &Host::new());
        check(case, &Reference);
    }
    #[cfg(feature = "gpu")]
    for (gpu, case) in gpu_wgsl::check::on_adapters_in_turn(Case::all()) {
        check(case, gpu);
    }
}

#[test]
fn steps_in_f64_are_those_on_slices() {
    let host = Host::new();
    for case in Case::all() {
        for n_elements in [1, 61] {
            let channels = Channels::random(case, n_elements);
            let step = channels.step(case, DType::F64);
            let executors: [&dyn Executor; 2] = [&host, &Reference];
            for executor in executors {
                check_step(
                    case,
                    &channels,
                    &evaluated(&step, executor),
                    f64::EPSILON / 2.0,
                );
            }
        }
    }
}

#[test]
fn many_elements_do_not_hide_the_ridge() {
    // With 10,000 elements, the ridge of 1e-4 is below half a unit in the last place of the counts
    // in f32, for data that determines the basis and for data that does not.
    let host = Host::new();
    for case in Case::all() {
        let channels = Channels::random(case, 10_000);
        let step = channels.step(case, DType::F32);
        let unit = f64::from(f32::EPSILON) / 2.0;
        check_step(case, &channels, &evaluated(&step, &host), unit);
    }
}

#[test]
fn published_steps_are_reproduced() {
    let row = |numbers: &[f32]| Tensor::from_vec(&[1, numbers.len()], numbers.to_vec());
    let close = |found: &Tensor, expected: &[f64], executor: &dyn Executor| {
        let tolerance = Tolerance::exact().or_absolute(1e-6);
        assert_close(numbers(found, executor), expected.to_vec(), tolerance);
    };
    on_every_executor(|executor| {
        let signs = Qem::signs(2).unwrap();
        let basis = row(&[1.0, 2.0]);
        let x = row(&[-3.0, -1.5, -0.5, 0.25, 1.0, 1.25, 2.5, 4.0]);
        let step = signs.step_of(&x, &basis, None).unwrap();
        close(&step.basis, &[1.133_331_444, 2.033_332_444], executor);
        close(&step.mean_square_error, &[0.296_875], executor);
        // All elements have one level: the nearest solution to the old basis.
        let step = signs
            .step_of(&row(&[2.5, 3.0, 3.5, 4.0]), &basis, None)
            .unwrap();
        close(&step.basis, &[1.124_998_438, 2.124_998_438], executor);
        let x = row(&[0.0, 0.5, 0.5, 1.0, 1.5, 2.0, 3.0, 4.5]);
        let affine = Qem::signs(2).unwrap().affine().ridge(1e-9).unwrap();
        let offset = Tensor::from_vec(&[1], vec![1.5_f32]);
        let step = affine
            .step_of(&x, &row(&[0.5, 1.0]), Some(&offset))
            .unwrap();
        close(&step.basis, &[0.607_142_857, 1.071_428_571], executor);
        close(&step.offset.unwrap(), &[1.892_857_143], executor);
        close(&step.mean_square_error, &[0.375], executor);
    });
}

#[test]
fn scaled_channels_have_scaled_steps() {
    let n = 400;
    let x: Vec<f32> = (0..n)
        .map(|i| ((i * i) as f32 * 0.37).sin() * 3.0)
        .collect();
    let (scale, basis) = (2_f32.powi(40), [0.3, 0.7, 1.1]);
    let both = |numbers: &[f32]| {
        let scaled = numbers.iter().map(|x| x * scale);
        let both = numbers.iter().copied().chain(scaled).collect();
        Tensor::from_vec(&[2, numbers.len()], both)
    };
    let step = Qem::signs(3)
        .unwrap()
        .step_of(&both(&x), &both(&basis), None)
        .unwrap();
    on_every_executor(|executor| {
        let found = numbers(&step.basis, executor);
        let scaled: Vec<f64> = found[..3].iter().map(|v| v * f64::from(scale)).collect();
        assert_close(&found[3..], scaled, Tolerance::exact());
    });
}

#[test]
fn a_channel_with_a_nan_or_an_infinity_is_not_finite_and_affects_no_other() {
    let bad = [f32::NAN, f32::INFINITY, -f32::INFINITY];
    let x: Vec<f32> = (0..4 * 9).map(|i| (i as f32 * 0.7).sin()).collect();
    let mut with_bad = x.clone();
    for (channel, &bad) in bad.iter().enumerate() {
        with_bad[channel * 9 + 4] = bad;
    }
    for case in Case::all() {
        let channels = |data: &[f32]| Channels {
            n_elements: 9,
            data: data.to_vec(),
            basis: (0..4 * case.bits).map(|i| 0.3 + 0.1 * i as f32).collect(),
            offset: vec![0.1; 4],
        };
        let (good, step) = (
            channels(&x).step(case, DType::F32),
            channels(&with_bad).step(case, DType::F32),
        );
        let executors: [&dyn Executor; 2] = [&Host::new(), &Reference];
        for executor in executors {
            let (good, found) = (evaluated(&good, executor), evaluated(&step, executor));
            for (number, (good, found)) in good.iter().zip(&found).enumerate() {
                let (bad, rest) = found.split_at(found.len() / 4 * 3);
                // The levels are those of the old basis.
                let is_finite = number == 2;
                assert!(
                    bad.iter().all(|number| number.is_finite() == is_finite),
                    "{case:?}: {bad:?}"
                );
                assert_close(rest, &good[found.len() / 4 * 3..], Tolerance::exact());
            }
        }
    }
}

#[test]
fn results_are_constants_for_gradients() {
    let case = Case {
        alphabet: Alphabet::Bits,
        bits: 2,
        is_affine: true,
    };
    let channels = Channels::random(case, 5);
    let x = Tensor::from_vec(&[24, 5], channels.data.clone());
    let basis = Tensor::from_vec(&[24, 2], channels.basis.clone());
    let offset = Tensor::from_vec(&[24], channels.offset.clone());
    let step = case.qem().step_of(&x, &basis, Some(&offset)).unwrap();
    let loss = step.basis.sum(..) + step.offset.unwrap().sum(..) + step.levels.sum(..);
    let loss = loss + step.mean_square_error.sum(..);
    for gradient in grad(&loss, &[&x, &basis, &offset]).unwrap() {
        let zeros = vec![0.0; gradient.shape().unwrap().iter().product()];
        assert_close(numbers(&gradient, &Host::new()), zeros, Tolerance::exact());
    }
}

#[test]
fn no_array_has_an_axis_of_levels_and_one_of_elements() {
    let (n_channels, n_elements) = (8, 100_000);
    let host = Host::new();
    let x = Tensor::randn(Philox::new(3), &[n_channels, n_elements])
        .realize(&host)
        .unwrap();
    let basis = Tensor::from_vec(&[1, 4], vec![0.3_f32, 0.55, 0.7, 1.1]);
    let basis = basis.broadcast_to(&[n_channels, 4]).realize(&host).unwrap();
    let step = Qem::signs(4).unwrap().step_of(&x, &basis, None).unwrap();
    // An array of bytes with both axes would take 16 times the elements of `x`.
    let peak_of = |tensor: &Tensor| {
        host.clear_cache();
        host.reset_peak();
        let before = host.peak_bytes();
        let result = tensor.realize(&host).unwrap();
        let bytes = 4 * result.shape().unwrap().iter().product::<usize>();
        host.peak_bytes() - before - bytes
    };
    for tensor in [&step.basis, &step.levels, &step.mean_square_error] {
        let peak = peak_of(tensor);
        assert!(peak < n_channels * n_elements / 2, "{peak} bytes");
    }
}

#[test]
fn wrong_operands_are_errors() {
    let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32);
    let qem = Qem::signs(2).unwrap();
    let message = |step: quant::Result<QemStep>| step.unwrap_err().to_string();
    let step =
        |qem: &Qem, x: &[usize], basis: &[usize]| qem.step_of(&zeros(x), &zeros(basis), None);
    let five = Qem::bits(5).unwrap();
    assert_eq!(
        message(step(&five, &[1, 9], &[1, 5])),
        "Qem::step_of: unsupported number of bits (5; expected 1 to 4)"
    );
    assert_eq!(
        message(step(&qem, &[9], &[1, 2])),
        "Qem::step_of: data has shape [9] (expected [channels, elements])"
    );
    assert_eq!(
        message(step(&qem, &[3, 9], &[1, 2])),
        "Qem::step_of: basis has shape [1, 2] (expected [3, 2])"
    );
    assert!(matches!(
        step(&qem, &[3, 0], &[3, 2]),
        Err(Error::Empty { .. })
    ));
    assert!(matches!(
        step(&qem, &[0, 9], &[0, 2]),
        Err(Error::Empty { .. })
    ));
    let affine = qem.clone().affine();
    assert_eq!(
        message(step(&affine, &[3, 9], &[3, 2])),
        "Qem::step_of: offset is missing (expected [3])"
    );
    let with_offset =
        |qem: &Qem, n| qem.step_of(&zeros(&[3, 9]), &zeros(&[3, 2]), Some(&zeros(&[n])));
    assert!(matches!(with_offset(&affine, 2), Err(Error::Shape { .. })));
    assert!(matches!(with_offset(&qem, 3), Err(Error::Shape { .. })));
    for ridge in [0.0, 1e-40] {
        let error = step(&qem.clone().ridge(ridge).unwrap(), &[3, 9], &[3, 2]).unwrap_err();
        assert!(
            matches!(
                error,
                Error::InvalidNumber {
                    quantity: "ridge",
                    ..
                }
            ),
            "{error}"
        );
    }
    let integers = Tensor::zeros(&[3, 9], DType::I32);
    assert_eq!(
        message(qem.step_of(&integers, &zeros(&[3, 2]), None)),
        "Qem::step_of: not defined on i32"
    );
    let doubles = Tensor::zeros(&[3, 9], DType::F64);
    assert_eq!(
        message(qem.step_of(&doubles, &zeros(&[3, 2]), None)),
        "Qem::step_of: basis has type f32 (expected f64)"
    );
    let offset = Tensor::zeros(&[3], DType::F64);
    assert_eq!(
        message(affine.step_of(&zeros(&[3, 9]), &zeros(&[3, 2]), Some(&offset))),
        "Qem::step_of: offset has type f64 (expected f32)"
    );
    let faulty = zeros(&[2, 3]) + zeros(&[3, 2]);
    assert!(matches!(
        qem.step_of(&faulty, &zeros(&[3, 2]), None),
        Err(Error::Tensor(_))
    ));
}
