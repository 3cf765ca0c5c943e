//! Packed convolutions, compared with integer convolutions that are computed product by product.

#![expect(
    clippy::unwrap_used,
    reason = "an error in a helper fails the test that calls it"
)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "random choices are small numbers"
)]

use quant::{
    Alphabet, Error, LevelSet, Outside, Packed, PackedSigns, PlaneLayout, Window, conv2d_packed,
};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::rng::Philox;
use tensor_core::{Executor, Host, Reference, Tensor};

/// A random convolution.
#[derive(Debug)]
struct Case {
    batch: usize,
    image: [usize; 2],
    window: Window,
    groups: usize,
    group_len: usize,
    n_outputs: usize,
    planes: usize,
    sign_planes: usize,
    alphabet: Alphabet,
    outside: Outside,
    x: Vec<u8>,
    weights: Vec<u8>,
}

impl Case {
    fn random(seed: u64) -> Self {
        let stream = Philox::new(seed);
        let mut place = 0;
        let mut below = move |n: usize| {
            place += 1;
            stream.word(place) as usize % n
        };
        let mut choice = |choices: &[usize]| choices[below(choices.len())];
        let mut pair = |choices: &[usize]| [choice(choices), choice(choices)];
        let (image, size) = (pair(&[1, 2, 3, 5, 8]), pair(&[1, 2, 3]));
        let window = Window::new(size)
            .with_stride(pair(&[1, 1, 2, 3]))
            .with_dilation(pair(&[1, 1, 2]))
            .with_padding([pair(&[0, 1, 2]), pair(&[0, 1, 2])]);
        let groups = choice(&[1, 1, 2, 3]);
        let group_len = choice(&[1, 5, 31, 32, 33, 64, 70]);
        let n_outputs = groups * choice(&[1, 2, 31, 64, 67]);
        let (batch, planes, sign_planes) = (
            choice(&[0, 1, 2, 3]),
            choice(&[1, 2, 3]),
            choice(&[1, 2, 3]),
        );
        let is_signs = choice(&[0, 1]) == 1;
        let skips = choice(&[0, 1]) == 1;
        let n_pixels = batch * image[0] * image[1];
        let mut codes =
            |n: usize, bits: usize| -> Vec<u8> { (0..n).map(|_| below(1 << bits) as u8).collect() };
        Self {
            x: codes(n_pixels * groups * group_len, planes),
            weights: codes(n_outputs * window.n_taps() * group_len, sign_planes),
            batch,
            image,
            window,
            groups,
            group_len,
            n_outputs,
            planes,
            sign_planes,
            alphabet: if is_signs {
                Alphabet::Signs
            } else {
                Alphabet::Bits
            },
            outside: if skips {
                Outside::Nothing
            } else {
                Outside::ZeroBits
            },
        }
    }

    fn packed(&self) -> Packed {
        let layout = PlaneLayout::new(self.groups * self.group_len, self.groups, self.planes);
        let layout = layout.unwrap();
        let [height, width] = self.image;
        let shape = [
            self.batch,
            height,
            width,
            self.planes,
            self.groups,
            layout.group_words(),
        ];
        let words = Tensor::from_vec(&shape, layout.pack(&self.x).unwrap());
        Packed::from_words(words, layout, self.alphabet).unwrap()
    }

    fn signs(&self) -> PackedSigns {
        PackedSigns::from_codes(
            &self.weights,
            self.n_outputs,
            self.window.size,
            self.group_len,
            self.sign_planes,
        )
        .unwrap()
    }

    /// Returns the sums `[batch, row, col, plane, sign plane, output]`, product by product.
    fn expected(&self, [rows, cols]: [usize; 2]) -> Vec<i32> {
        let [height, width] = self.image;
        let channels = self.groups * self.group_len;
        let bit = |code: u8, plane: usize| i32::from(code >> plane & 1);
        let factor = |bit: i32| match self.alphabet {
            Alphabet::Signs => 2 * bit - 1,
            Alphabet::Bits => bit,
        };
        let outside = match self.outside {
            Outside::Nothing => 0,
            Outside::ZeroBits => factor(0),
        };
        let place = |axis: usize, output: usize, tap: usize, len: usize| {
            let window = &self.window;
            let from = output * window.stride[axis] + tap * window.dilation[axis];
            from.checked_sub(window.padding[axis][0])
                .filter(|&at| at < len)
        };
        let [taps_y, taps_x] = self.window.size;
        let mut sums = Vec::new();
        for at in 0..self.batch * rows * cols * self.planes * self.sign_planes * self.n_outputs {
            let (output, at) = (at % self.n_outputs, at / self.n_outputs);
            let (q, at) = (at % self.sign_planes, at / self.sign_planes);
            let (p, at) = (at % self.planes, at / self.planes);
            let (col, row, image) = (at % cols, at / cols % rows, at / cols / rows);
            let group = output / (self.n_outputs / self.groups);
            let mut sum = 0;
            for tap in 0..taps_y * taps_x {
                let y = place(0, row, tap / taps_x, height);
                let x = place(1, col, tap % taps_x, width);
                for channel in 0..self.group_len {
                    let weight = (output * taps_y * taps_x + tap) * self.group_len + channel;
                    let sign = 2 * bit(self.weights[weight], q) - 1;
                    sum += sign
                        * match (y, x) {
                            (Some(y), Some(x)) => {
                                let pixel = (image * height + y) * width + x;
                                let channel = group * self.group_len + channel;
                                factor(bit(self.x[pixel * channels + channel], p))
                            }
                            _ => outside,
                        };
                }
            }
            sums.push(sum);
        }
        sums
    }
}

/// Compares random convolutions with sums of single products; returns the number of convolutions.
fn check(seeds: std::ops::Range<u64>, executor: &dyn Executor) -> usize {
    let mut n_checked = 0;
    for seed in seeds {
        let case = Case::random(seed);
        let Ok(size) = case.window.output_size(case.image) else {
            let sums = conv2d_packed(&case.packed(), &case.signs(), &case.window, case.outside);
            assert!(matches!(sums, Err(Error::Window { .. })), "{case:?}");
            continue;
        };
        let sums = conv2d_packed(&case.packed(), &case.signs(), &case.window, case.outside);
        let sums = sums.unwrap().eval::<i32>(executor).unwrap();
        let shape = [
            size[0],
            size[1],
            case.planes,
            case.sign_planes,
            case.n_outputs,
        ];
        assert_eq!(sums.shape()[0], case.batch);
        assert_eq!(sums.shape()[1..], shape);
        let expected = case.expected(size);
        if expected.is_empty() {
            assert!(sums.is_empty(), "seed {seed}");
        } else {
            let sums: Vec<i32> = sums.into_iter().collect();
            assert_close(&sums, &expected, Tolerance::exact());
        }
        n_checked += 1;
    }
    n_checked
}

#[test]
fn packed_convolutions_are_integer_convolutions() {
    let n_checked = check(0..150, &Host::new());
    assert!(n_checked > 100, "{n_checked} convolutions");
    assert!(check(150..180, &Reference) > 15);
}

#[test]
#[cfg(feature = "gpu")]
fn packed_convolutions_on_devices_are_integer_convolutions() {
    let on_adapters = gpu_wgsl::check::on_adapters_in_turn(200..224);
    let n_checked: usize = on_adapters
        .map(|(gpu, seed)| check(seed..seed + 1, gpu))
        .sum();
    let is_any = !gpu_wgsl::check::every_adapter().is_empty();
    assert!(!is_any || n_checked > 12, "{n_checked} convolutions");
}

#[test]
fn values_are_packed_by_their_codes_and_return() {
    for n_groups in [1, 2] {
        for levels in [
            LevelSet::binary(0.5).unwrap(),
            LevelSet::signs(&[0.5, 0.75, 1.0]).unwrap(),
            LevelSet::uniform_from_zero(2, 0.4).unwrap(),
            LevelSet::ternary(1.0).unwrap(),
            // The bit of the lowest level is 1.
            LevelSet::bits(&[-0.5]).unwrap(),
        ] {
            let x: Vec<f32> = (0..2 * 3 * 70)
                .map(|i| (i as f32 * 0.77).sin() * 2.0)
                .collect();
            let (codes, _) = levels.quantize(&x);
            let x = Tensor::from_vec(&[2, 1, 3, 70], x);
            let packed = Packed::from_values(&levels, &x, n_groups).unwrap();
            let layout = packed.layout();
            assert_eq!(layout.n_groups(), n_groups);
            let words = packed.words().eval::<u32>(&Host::new()).unwrap();
            let words: Vec<u32> = words.into_iter().collect();
            assert_eq!(words, layout.pack(&codes).unwrap());
            let returned = packed.codes().eval::<u32>(&Host::new()).unwrap();
            let expected: Vec<u32> = codes.iter().map(|&code| code.into()).collect();
            assert_close(returned, expected, Tolerance::exact());
        }
    }
}

#[test]
fn convolutions_of_no_channels_are_zero_and_those_without_outputs_are_empty() {
    let window = Window::new([3, 3]).with_padding([[1, 1], [0, 2]]);
    for (channels, n_outputs) in [(0, 2), (4, 0), (0, 0)] {
        for alphabet in [Alphabet::Signs, Alphabet::Bits] {
            let layout = PlaneLayout::new(channels, 1, 2).unwrap();
            let shape = [1, 4, 5, 2, 1, layout.group_words()];
            let words = vec![0_u32; shape.iter().product()];
            let x = Packed::from_words(Tensor::from_vec(&shape, words), layout, alphabet).unwrap();
            let codes = vec![1; n_outputs * 9 * channels];
            let signs = PackedSigns::from_codes(&codes, n_outputs, [3, 3], channels, 1).unwrap();
            let sums = conv2d_packed(&x, &signs, &window, Outside::Nothing).unwrap();
            let sums = sums.eval::<i32>(&Host::new()).unwrap();
            assert_eq!(sums.shape(), [1, 4, 5, 2, 1, n_outputs]);
            assert!(sums.iter().all(|&sum| sum == 0));
        }
    }
}

#[test]
fn sizes_that_do_not_match_are_errors() {
    let x = Tensor::from_vec(&[1, 2, 2, 4], vec![0.5_f32; 16]);
    let levels = LevelSet::binary(1.0).unwrap();
    let packed = Packed::from_values(&levels, &x, 2).unwrap();
    let window = Window::new([1, 1]);
    let signs = |codes: &[u8], outputs, taps, len| {
        PackedSigns::from_codes(codes, outputs, taps, len, 1).unwrap()
    };
    let error = |signs: PackedSigns| {
        let sums = conv2d_packed(&packed, &signs, &window, Outside::Nothing);
        sums.unwrap_err().to_string()
    };
    assert_eq!(
        error(signs(&[0; 4], 4, [1, 1], 1)),
        "conv2d_packed: a group of channels has 1 elements (expected 2)"
    );
    assert_eq!(
        error(signs(&[0; 12], 2, [3, 1], 2)),
        "conv2d_packed: a column of taps has 3 elements (expected 1)"
    );
    assert_eq!(
        error(signs(&[0; 6], 3, [1, 1], 2)),
        "conv2d_packed: 3 channels cannot be divided into 2 groups"
    );
    let flat = Tensor::from_vec(&[4], vec![0.5_f32; 4]);
    assert!(matches!(
        Packed::from_values(&levels, &flat, 1),
        Err(Error::Shape { .. })
    ));
    assert!(matches!(
        Packed::from_values(&levels, &x, 3),
        Err(Error::Groups { .. })
    ));
    let words = Tensor::from_vec(&[1, 2, 2, 1, 1, 2], vec![0_u32; 8]);
    assert!(matches!(
        Packed::from_words(words, packed.layout(), Alphabet::Signs),
        Err(Error::Shape { .. })
    ));
    let codes = |codes: &[u8], planes| PackedSigns::from_codes(codes, 1, [1, 1], 2, planes);
    assert!(matches!(codes(&[0; 3], 1), Err(Error::Length { .. })));
    assert_eq!(
        codes(&[0, 4], 2).unwrap_err().to_string(),
        "PackedSigns::from_codes: element 1 has code 4 (expected a code of at most 2 bits)"
    );
    assert!(matches!(codes(&[0, 0], 9), Err(Error::BitCount { .. })));
    for taps in [[0, 1], [1, Window::MAX + 1], [usize::MAX; 2]] {
        let signs = PackedSigns::from_codes(&[], 0, taps, 2, 1);
        assert!(matches!(signs, Err(Error::Window { .. })), "{taps:?}");
    }
    for n_planes in [0, 9, usize::MAX] {
        assert!(matches!(
            PlaneLayout::new(4, 1, n_planes),
            Err(Error::BitCount { .. })
        ));
    }
}

#[test]
fn an_image_without_outputs_has_no_sums() {
    let x = Tensor::from_vec(&[1, 3, 3, 4], vec![0.5_f32; 36]);
    let packed = Packed::from_values(&LevelSet::binary(1.0).unwrap(), &x, 2).unwrap();
    let signs = PackedSigns::from_codes(&[], 0, [3, 3], 2, 2).unwrap();
    let window = Window::new([3, 3]).with_padding([[1, 1], [1, 1]]);
    let sums = conv2d_packed(&packed, &signs, &window, Outside::Nothing).unwrap();
    let sums = sums.eval::<i32>(&Host::new()).unwrap();
    assert_eq!(sums.shape(), [1, 3, 3, 1, 2, 0]);
}

#[test]
fn absurd_sizes_next_to_zero_do_not_overflow() {
    let max = usize::MAX;
    for taps in [[max, max], [max, 2], [0, 0]] {
        let signs = PackedSigns::from_codes(&[], 0, taps, 4, 8);
        assert!(matches!(signs, Err(Error::Window { .. })), "{taps:?}");
    }
    for (n_outputs, group_len) in [(0, 4), (1 << 20, 0), (1, 0)] {
        let signs = PackedSigns::from_codes(&[], n_outputs, [3, 3], group_len, 8).unwrap();
        assert!(signs.words().is_empty());
    }
    // The sums of 0 channels would have one start for each of `usize::MAX` outputs.
    for n_outputs in [(1 << 20) + 1, max] {
        let signs = PackedSigns::from_codes(&[], n_outputs, [1, 1], 0, 1);
        assert!(
            matches!(signs, Err(Error::InvalidNumber { .. })),
            "{signs:?}"
        );
    }
    assert_eq!(Window::new([max, 2]).n_taps(), max);
    let layout = PlaneLayout::new(max, max, 8).unwrap();
    assert_eq!(layout.pack(&[]).unwrap(), []);
    assert_eq!(layout.unpack(&[]).unwrap(), []);
    assert!(matches!(layout.pack(&[0]), Err(Error::Length { .. })));
}

#[test]
fn layouts_have_as_many_planes_as_a_code_has_bits() {
    for n_planes in [0, 9, 33, usize::MAX] {
        assert!(matches!(
            PlaneLayout::new(4, 1, n_planes),
            Err(Error::BitCount { limit: 8, .. })
        ));
    }
    for layout in [PlaneLayout::new(0, 1, 1), PlaneLayout::bytes(0, 1)] {
        let layout = layout.unwrap();
        assert_eq!(layout.unpack(&layout.pack(&[]).unwrap()).unwrap(), []);
        assert!(matches!(layout.pack(&[1]), Err(Error::Length { .. })));
    }
    let layout = PlaneLayout::new(4, 1, 1).unwrap();
    assert_eq!(
        layout.pack(&[0; 3]).unwrap_err().to_string(),
        "PlaneLayout::pack: codes has 3 elements (expected 4)"
    );
}

#[test]
fn wrong_types_are_errors_that_name_the_operand() {
    let x = Tensor::from_vec(&[1, 1, 1, 2], vec![1_i32, 2]);
    let error = Packed::from_values(&LevelSet::binary(1.0).unwrap(), &x, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Packed::from_values: x has type i32 (expected f32)"
    );
    let words = Tensor::from_vec(&[1; 6], vec![1_i32]);
    let layout = PlaneLayout::new(4, 1, 1).unwrap();
    assert_eq!(
        Packed::from_words(words, layout, Alphabet::Signs)
            .unwrap_err()
            .to_string(),
        "Packed::from_words: words has type i32 (expected u32)"
    );
}
