//! Level sets: published codes and ties, and equal codes on slices and in tensor programs.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use proptest::prelude::*;
use quant::{Abc, Error, LevelSet, Normal, Sample, Ties, abc};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::{Executor, Host, Reference, Tensor};

const INFINITY: f32 = f32::INFINITY;

#[test]
fn ties_stay_or_go_up_by_the_chosen_rule() {
    let levels = LevelSet::signs(&[0.5, 1.25]).unwrap();
    assert_close(
        levels.levels(),
        [-1.75_f32, -0.75, 0.75, 1.75],
        Tolerance::exact(),
    );
    assert_close(
        levels.thresholds(),
        [-1.25_f32, 0.0, 1.25],
        Tolerance::exact(),
    );
    let xs = [
        -INFINITY, -2.0, -1.25, -0.75, -0.0, 0.0, 1e-30, 1.25, 1.3, INFINITY,
    ];
    assert_eq!(
        levels.quantize(&xs),
        (vec![0, 0, 0, 1, 1, 1, 2, 2, 3, 3], 0)
    );
    let up = levels.with_ties(Ties::Up);
    assert_eq!(up.quantize(&xs), (vec![0, 0, 1, 1, 2, 2, 2, 3, 3, 3], 0));
}

#[test]
fn codes_of_a_basis_that_does_not_double_are_out_of_order() {
    let levels = LevelSet::signs(&[0.5, 0.75, 1.0]).unwrap();
    let expected = [-2.25_f32, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 2.25];
    assert_close(levels.levels(), expected, Tolerance::exact());
    let xs = [-2.0, -1.1, -0.6, -0.3, 0.3, 0.6, 1.1, 2.0];
    let codes = vec![0, 1, 2, 4, 3, 5, 6, 7];
    assert_eq!(levels.quantize(&xs).0, codes);
    assert_close(
        levels.dequantize(&codes).unwrap(),
        expected,
        Tolerance::exact(),
    );
}

#[test]
fn nan_is_counted_or_an_error_and_infinities_are_the_ends() {
    let levels = LevelSet::uniform(3, 0.5).unwrap();
    let xs = [f32::NAN, -INFINITY, INFINITY, -f32::NAN];
    assert_eq!(levels.quantize(&xs), (vec![0, 0, 7, 0], 2));
    assert_eq!(
        levels.quantize_strict(&xs[1..]).unwrap_err().to_string(),
        "LevelSet::quantize_strict: element 2 is NaN"
    );
    assert_eq!(levels.quantize_strict(&xs[1..3]).unwrap(), [0, 7]);
    let program = levels.codes_of(&Tensor::from_vec(&[4], xs.to_vec()));
    assert_close(
        program.eval::<u32>(&Host::new()).unwrap(),
        [0_u32, 0, 7, 0],
        Tolerance::exact(),
    );
}

/// Returns each threshold with its neighbours in f32, the levels, and special values.
fn probes(levels: &LevelSet) -> Vec<f32> {
    let near = |&t: &f32| [t.next_down(), t, t.next_up()];
    let mut probes: Vec<f32> = levels.thresholds().iter().flat_map(near).collect();
    probes.extend(levels.levels());
    probes.extend([0.0, -0.0, INFINITY, -INFINITY, f32::NAN, f32::MAX, f32::MIN]);
    probes.extend([f32::MIN_POSITIVE, -f32::MIN_POSITIVE]);
    probes
}

/// Checks the search against the definition, and the tensor programs of an executor against the
/// search.
fn check(levels: &LevelSet, name: &str, executor: &dyn Executor) {
    let xs = probes(levels);
    let (codes, _) = levels.quantize(&xs);
    for (x, code) in xs.iter().zip(&codes) {
        let is_beyond = |t: &&f32| match levels.ties() {
            Ties::Down => x > *t,
            Ties::Up => x >= *t,
        };
        let place = levels.thresholds().iter().filter(is_beyond).count();
        assert_eq!(*code, levels.codes()[place], "{name}: {x}");
    }
    let of_levels = levels.dequantize(&codes).unwrap();
    // A device may flush subnormal numbers, such as the neighbours of 0, to 0.
    let kept = |i: &usize| executor.accuracy().keeps_subnormals || !xs[*i].is_subnormal();
    let places: Vec<usize> = (0..xs.len()).filter(kept).collect();
    let kept = places.iter().map(|&i| xs[i]).collect();
    let x = Tensor::from_vec(&[places.len()], kept);
    let expected: Vec<u32> = places.iter().map(|&i| codes[i].into()).collect();
    let found = levels.codes_of(&x).eval::<u32>(executor).unwrap();
    assert_close(found, expected, Tolerance::exact());
    let expected: Vec<f32> = places.iter().map(|&i| of_levels[i]).collect();
    let found = levels.levels_of(&x).eval::<f32>(executor).unwrap();
    assert_close(found, expected, Tolerance::exact());
}

#[test]
fn slices_and_programs_have_equal_codes_at_every_threshold() {
    let fibonacci = [0.1, 0.2, 0.3, 0.5, 0.8, 1.3, 2.1, 3.4];
    let mut all = vec![
        ("binary".to_owned(), LevelSet::binary(0.7).unwrap()),
        ("ternary".to_owned(), LevelSet::ternary(0.7).unwrap()),
    ];
    for bits in 1..=8 {
        let sets = [
            ("signs", LevelSet::signs(&fibonacci[..bits]).unwrap()),
            ("bits", LevelSet::bits(&fibonacci[..bits]).unwrap()),
            ("uniform", LevelSet::uniform(bits, 0.3).unwrap()),
            ("from zero", LevelSet::uniform_from_zero(bits, 0.3).unwrap()),
            (
                "affine",
                LevelSet::bits(&fibonacci[..bits])
                    .unwrap()
                    .with_offset(-0.7)
                    .unwrap(),
            ),
            (
                "abc",
                abc(&Normal::STANDARD, bits, false)
                    .unwrap()
                    .level_set()
                    .unwrap(),
            ),
        ];
        for (name, levels) in sets {
            let ties_up = levels.clone().with_ties(Ties::Up);
            all.push((format!("{name}, {bits} bits"), levels));
            all.push((format!("{name}, {bits} bits, ties up"), ties_up));
        }
    }
    for (name, levels) in &all {
        check(levels, name, &Host::new());
        check(levels, name, &Reference);
    }
    #[cfg(feature = "gpu")]
    for (gpu, (name, levels)) in gpu_wgsl::check::on_adapters_in_turn(&all) {
        check(levels, name, gpu);
    }
}

proptest! {
    #[test]
    fn quantisation_is_monotone_and_keeps_levels(
        basis in prop::collection::vec(0.01_f32..3.0, 1..6),
        offset in -2.0_f32..2.0,
        mut xs in prop::collection::vec(-9.0_f32..9.0, 2..40),
    ) {
        let levels = LevelSet::signs(&basis).unwrap().with_offset(offset).unwrap();
        let values = levels.dequantize(&levels.quantize(levels.levels()).0).unwrap();
        assert_close(values, levels.levels(), Tolerance::exact());
        xs.sort_by(f32::total_cmp);
        let values = levels.dequantize(&levels.quantize(&xs).0).unwrap();
        prop_assert!(values.is_sorted());
        // The level is the nearest one, up to the rounding of thresholds.
        for (x, value) in xs.iter().zip(&values) {
            let distance = levels.levels().iter().map(|level| (x - level).abs());
            let nearest = distance.fold(INFINITY, f32::min);
            prop_assert!((x - value).abs() <= nearest + 4.0 * f32::EPSILON * 16.0);
        }
    }
}

proptest! {
    #[test]
    fn permuted_and_negated_bases_have_other_codes_of_the_same_levels(
        numbers in prop::collection::vec(-200_i16..200, 1..=8),
        order in any::<u64>(),
        signs in any::<u8>(),
        xs in prop::collection::vec(-9.0_f32..9.0, 1..40),
    ) {
        // Multiples of 1/64, whose sums are exact in any order.
        let basis: Vec<f32> = numbers.iter().map(|&n| f32::from(n) / 64.0).collect();
        let mut places: Vec<usize> = (0..basis.len()).collect();
        places.sort_by_key(|&place| order.rotate_left(8 * u32::try_from(place).unwrap()) % 251);
        let is_negated = |bit: usize| signs >> bit & 1 == 1;
        let changed: Vec<f32> = places
            .iter()
            .enumerate()
            .map(|(bit, &place)| if is_negated(bit) { -basis[place] } else { basis[place] })
            .collect();
        let [set, other] = [&basis, &changed].map(|basis| LevelSet::signs(basis).unwrap());
        assert_close(other.levels(), set.levels(), Tolerance::exact());
        assert_close(other.thresholds(), set.thresholds(), Tolerance::exact());
        let of = |set: &LevelSet| set.quantize(&xs).0;
        let restored = other.dequantize(&of(&other)).unwrap();
        assert_close(restored, set.dequantize(&of(&set)).unwrap(), Tolerance::exact());
        // Equal levels have several codes.
        let is_unique = set.levels().windows(2).all(|pair| pair[0] < pair[1]);
        for (code, other) in of(&set).into_iter().zip(of(&other)).filter(|_| is_unique) {
            let bits = places.iter().enumerate().map(|(bit, &place)| {
                let was_set = code >> place & 1 == 1;
                u8::from(was_set != is_negated(bit)) << bit
            });
            prop_assert_eq!(other, bits.sum::<u8>());
        }
    }
}

#[test]
fn ternary_has_three_levels() {
    let levels = LevelSet::ternary(2.0).unwrap();
    assert_close(levels.levels(), [-2.0_f32, 0.0, 2.0], Tolerance::exact());
    assert_eq!(
        levels.quantize(&[-1.5, -1.0, 0.0, 1.0, 1.5]).0,
        [0, 0, 1, 1, 3]
    );
    assert_eq!(
        levels.dequantize(&[0, 2]).unwrap_err().to_string(),
        "LevelSet::dequantize: element 1 has code 2 (expected a code of the level set)"
    );
}

#[test]
fn an_offset_shifts_levels_and_thresholds_alike() {
    // The thresholds of ABC-Net are not midpoints, and must stay where they are between its levels.
    let weights = Sample::new(&[-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5]).unwrap();
    let sets = [
        abc(&weights, 3, false).unwrap().level_set().unwrap(),
        LevelSet::signs(&[0.5, 0.75, 1.0]).unwrap(),
        LevelSet::ternary(2.0).unwrap(),
    ];
    for set in sets {
        let shifted = set.clone().with_offset(4.0).unwrap();
        let plus = |numbers: &[f32]| numbers.iter().map(|x| x + 4.0).collect::<Vec<f32>>();
        let close = Tolerance::relative(2);
        assert_close(shifted.levels(), plus(set.levels()), close.clone());
        assert_close(shifted.thresholds(), plus(set.thresholds()), close);
        assert_eq!((shifted.codes(), shifted.ties()), (set.codes(), set.ties()));
    }
}

#[test]
fn wrong_bases_are_errors() {
    let message = |set: Result<LevelSet, Error>| set.unwrap_err().to_string();
    assert_eq!(
        message(LevelSet::signs(&[])),
        "LevelSet::signs: unsupported number of bits (0; expected 1 to 8)"
    );
    assert_eq!(
        message(LevelSet::bits(&[1.0; 9])),
        "LevelSet::bits: unsupported number of bits (9; expected 1 to 8)"
    );
    assert_eq!(
        message(LevelSet::signs(&[1.0, f32::NAN])),
        "LevelSet::signs: basis number is NaN (expected a finite number)"
    );
    assert_eq!(
        message(LevelSet::signs(&[f32::MAX, f32::MAX])),
        "LevelSet::signs: level is -inf (expected a finite number)"
    );
    assert_eq!(
        message(LevelSet::uniform(2, -1.0)),
        "LevelSet::uniform: step is -1 (expected a positive finite number)"
    );
    let least = f32::from_bits(1);
    let value = f64::from(least);
    let expected = "expected a number whose half is not 0 in f32";
    assert_eq!(
        message(LevelSet::uniform(2, least)),
        format!("LevelSet::uniform: step is {value} ({expected})")
    );
    assert_eq!(
        message(LevelSet::ternary(least)),
        format!("LevelSet::ternary: scale is {value} ({expected})")
    );
    let levels = LevelSet::uniform_from_zero(1, least).unwrap();
    assert_close(levels.levels(), [0.0, least], Tolerance::exact());
    assert_eq!(
        message(LevelSet::uniform_from_zero(2, 0.0)),
        "LevelSet::uniform_from_zero: step is 0 (expected a positive finite number)"
    );
    assert!(LevelSet::binary(0.0).is_err());
    assert!(LevelSet::ternary(INFINITY).is_err());
    let levels = LevelSet::signs(&[1.0]).unwrap();
    assert!(levels.with_offset(f32::NAN).is_err());
}

#[test]
fn abc_has_the_published_factors() {
    let weights = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.5];
    let sample = Sample::new(&weights).unwrap();
    let check = |fit: &Abc, factors: &[f64], error: f64| {
        assert_close(
            fit.factors.clone(),
            factors.to_vec(),
            Tolerance::relative(64),
        );
        assert_close([fit.mean_square_error], [error], Tolerance::relative(64));
    };
    let three = abc(&sample, 3, false).unwrap();
    check(&three, &[0.625, 0.75, 0.875], 0.140_625);
    check(&abc(&sample, 3, true).unwrap(), &[0.75; 3], 0.125);
    let five = abc(&sample, 5, false).unwrap();
    check(&five, &[0.5, 0.375, 0.25, 0.375, 0.75], 0.046_875);
    // The standard deviation is that of the population.
    let deviation = 1.346_291_201_783_626;
    assert_close(
        three.thresholds.clone(),
        [0.25 + deviation, 0.25, 0.25 - deviation],
        Tolerance::relative(8),
    );
    // The signs of the bases, from the codes: base 2 turns positive first.
    let codes = three.level_set().unwrap().quantize(&weights).0;
    assert_eq!(
        codes,
        [0b000, 0b100, 0b100, 0b100, 0b110, 0b110, 0b110, 0b111]
    );
    // A threshold that overflows f32.
    let beyond = Abc {
        thresholds: vec![1e300, 0.0, -1.0],
        ..three
    };
    assert_eq!(
        beyond.level_set().unwrap_err().to_string(),
        "Abc::level_set: threshold is inf (expected a finite number)"
    );
    assert_eq!(
        abc(&Sample::new(&[3.0; 9]).unwrap(), 2, false)
            .unwrap_err()
            .to_string(),
        "abc: the least squares of 2 unknowns have no unique solution (number of cells that contain data: 1)"
    );
}

#[test]
fn abc_of_the_normal_distribution_has_the_known_errors() {
    for (n_bases, error) in [
        (1, 0.363_380_23),
        (2, 0.261_923_82),
        (3, 0.117_553_25),
        (4, 0.087_941_32),
        (5, 0.077_231_59),
        (8, 0.067_801_89),
    ] {
        let fit = abc(&Normal::STANDARD, n_bases, false).unwrap();
        assert_close(
            [fit.mean_square_error],
            [error],
            Tolerance::exact().or_absolute(6e-9),
        );
    }
}
