//! Twins of the packed convolutions, compared with a convolution of integers.
//!
//! Role: the oracle multiplies the numbers of unpacked codes, pools and searches levels by
//! counting. The test packs the codes and computes the constants of the packed sums: for bits b and
//! signs s with the words x and w, `sum b s = ones(w) - ones(x ^ w)`, and for two signs
//! `sum s t = n - 2 ones(x ^ w)`. Sums of products of bytes have no constants.

use shaders::params::PackedConvParams;
use shaders::twin;
use shaders::twin::packed_conv::PackedConvInputs;
use tensor_core::compare::{Tolerance, compare, sentinel_filled};
use tensor_core::rng::Philox;

/// The numbers of the input that are packed in a word. Padding is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Numbers {
    /// Bits 0 and 1.
    ZeroOne,
    /// Bits that stand for -1 and 1, which needs a border.
    Signs,
    /// Signed bytes. The weights are bytes, too; otherwise they are signs.
    Bytes,
}

/// Sizes and numbers of a random convolution.
#[derive(Clone, Debug)]
struct Case {
    params: PackedConvParams,
    numbers: Numbers,
    group_channels: usize,
    /// Factors of the planes of the input and of the weights.
    factors: [Vec<i32>; 2],
    /// Bits or bytes of the input, `[batch, height, width, planes, groups, group_channels]`.
    x: Vec<i32>,
    /// Bits or bytes of the weights, `[weight_planes, taps, group_channels, out_channels]`.
    weights: Vec<i32>,
    bias: Vec<i32>,
    flips: Vec<i32>,
    thresholds: Vec<i32>,
    /// Code of each level.
    codes: Vec<u32>,
}

/// The twins of the kernels of sums and of codes.
type Twins = (
    fn(&PackedConvParams, &PackedConvInputs<'_>, &mut [i32]),
    fn(&PackedConvParams, &PackedConvInputs<'_>, &[i32], &[u32], &mut [u32]),
);

/// Random numbers of one test case.
struct Random {
    words: Philox,
    next: u64,
}

impl Random {
    /// Returns a number below `n`.
    fn below(&mut self, n: usize) -> usize {
        self.next += 1;
        self.words.word(self.next) as usize % n
    }

    fn among<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// Returns the elements of words: bits 0 and 1, or bytes.
    fn elements(&mut self, numbers: Numbers, n: usize) -> Vec<i32> {
        let (first, span) = match numbers {
            Numbers::Bytes => (i32::from(i8::MIN), 256),
            Numbers::ZeroOne | Numbers::Signs => (0, 2),
        };
        (0..n)
            .map(|_| first + i32::try_from(self.below(span)).expect("the span is small"))
            .collect()
    }

    /// Returns numbers from `-n` to `n`.
    fn signed(&mut self, n: i32, len: usize) -> Vec<i32> {
        let span = 2 * n.unsigned_abs() as usize + 1;
        (0..len)
            .map(|_| i32::try_from(self.below(span)).expect("the span is small") - n)
            .collect()
    }
}

/// Returns the number of windows of `size` at distance `stride` in `n` places.
fn n_windows(n: u32, size: u32, stride: u32) -> Option<u32> {
    Some(n.checked_sub(size)? / stride + 1)
}

/// Returns a random case, or `None` if the kernel is larger than the padded image.
fn case(seed: u64) -> Option<Case> {
    let mut random = Random {
        words: Philox::new(seed),
        next: 0,
    };
    let [groups, group_channels] = random.among(&[
        [1, 1],
        [1, 31],
        [1, 32],
        [1, 33],
        [1, 64],
        [1, 70],
        [2, 35],
        [3, 1],
    ]);
    let block = random.among(&[1, 5, 11, 32, 33]);
    let out_groups = random.among(&[1, 1, groups]);
    let kernel = random.among(&[[1, 1], [3, 3], [5, 1]]);
    let [planes, weight_planes] = [random.among(&[1, 2, 3]), random.among(&[1, 2, 3])];
    let (mut code_planes, n_thresholds) = random.among(&[(1, 1), (2, 3), (3, 7)]);
    let (pool, pool_stride, pool_padding) = random.among(&[(1, 1, 0), (2, 2, 0), (3, 2, 1)]);
    let mut pair = |values: &[u32]| [random.among(values), random.among(values)];
    let (stride, dilation, padding) = (pair(&[1, 2, 3]), pair(&[1, 2]), pair(&[0, 1, 2]));
    let [height, width] = [pair(&[1, 4, 13])[0], pair(&[1, 5, 9])[1]];
    let batch = random.among(&[1, 1, 2]);
    let windows = |axis: usize, n: u32| {
        let reach = dilation[axis] * (kernel[axis] - 1) + 1;
        let n = n_windows(n + 2 * padding[axis], reach, stride[axis])?;
        Some([n, n_windows(n + 2 * pool_padding, pool, pool_stride)?])
    };
    let [rows, cols] = [windows(0, height)?, windows(1, width)?];
    let numbers = random.among(&[Numbers::ZeroOne, Numbers::Signs, Numbers::Bytes]);
    let [row_classes, col_classes] = match numbers {
        Numbers::ZeroOne | Numbers::Bytes => [0, 0],
        // Every row and every column is a class of its own.
        Numbers::Signs => [rows[0], cols[0]],
    };
    let word_channels = numbers.word_channels();
    let mut codes: Vec<u32> = (0..=n_thresholds).collect();
    if numbers == Numbers::Bytes {
        code_planes = 1;
        codes.iter_mut().for_each(|code| *code = 251 - 31 * *code);
    }
    let params = PackedConvParams {
        batch,
        height,
        width,
        words: u32::div_ceil(group_channels, word_channels),
        planes,
        groups,
        weight_planes,
        out_channels: block * groups,
        kernel,
        stride,
        dilation,
        padding,
        out_size: [rows[0], cols[0]],
        row_classes,
        col_classes,
        pool: [pool; 2],
        pool_stride: [pool_stride; 2],
        pool_padding: [pool_padding; 2],
        pooled_size: [rows[1], cols[1]],
        thresholds: n_thresholds,
        code_planes,
        out_groups,
        word_channels,
    };
    let [n_channels, group_channels] = [params.out_channels, group_channels].map(|n| n as usize);
    let n_x = (batch * height * width * planes * groups) as usize * group_channels;
    let n_weights = (weight_planes * kernel[0] * kernel[1]) as usize * group_channels * n_channels;
    for last in (1..codes.len()).rev() {
        codes.swap(last, random.below(last + 1));
    }
    let mut thresholds: Vec<Vec<i32>> = (0..n_channels)
        .map(|_| random.signed(numbers.typical_sum(), n_thresholds as usize))
        .collect();
    thresholds.iter_mut().for_each(|row| row.sort_unstable());
    let thresholds =
        (0..n_thresholds as usize).flat_map(|t| thresholds.iter().map(move |row| row[t]));
    Some(Case {
        numbers,
        group_channels,
        factors: [planes, weight_planes].map(|n| random.signed(7, n as usize)),
        x: random.elements(numbers, n_x),
        weights: random.elements(numbers, n_weights),
        bias: random.signed(50, n_channels),
        flips: (0..n_channels)
            .map(|_| -i32::from(random.below(2) == 1))
            .collect(),
        thresholds: thresholds.collect(),
        codes,
        params,
    })
}

impl Numbers {
    fn twins(self) -> Twins {
        match self {
            Self::ZeroOne | Self::Signs => (twin::bit_conv_sums, twin::bit_conv_codes),
            Self::Bytes => (twin::byte_conv_sums, twin::byte_conv_codes),
        }
    }

    /// Returns the number of channels of a word.
    fn word_channels(self) -> u32 {
        match self {
            Self::ZeroOne | Self::Signs => 32,
            Self::Bytes => 4,
        }
    }

    /// Returns the magnitude of thresholds, so that sums pass some of them.
    fn typical_sum(self) -> i32 {
        match self {
            Self::ZeroOne | Self::Signs => 60,
            Self::Bytes => 300_000,
        }
    }

    /// Returns the number that a bit or byte of the input stands for.
    fn of_input(self, element: i32) -> i32 {
        match self {
            Self::ZeroOne | Self::Bytes => element,
            Self::Signs => 2 * element - 1,
        }
    }

    /// Returns the number that a bit or byte of the weights stands for.
    fn of_weight(self, element: i32) -> i32 {
        match self {
            Self::ZeroOne | Self::Signs => 2 * element - 1,
            Self::Bytes => element,
        }
    }

    /// Packs rows of bits or bytes into words.
    fn packed(self, elements: &[i32], n: usize) -> Vec<u32> {
        let word_channels = self.word_channels() as usize;
        let bits = 32 / word_channels;
        let word = |elements: &[i32]| {
            let elements = elements.iter().enumerate();
            elements.fold(0, |word, (place, element)| {
                let element = element.cast_unsigned() & (u32::MAX >> (32 - bits));
                word | element << (bits * place)
            })
        };
        elements
            .chunks(n)
            .flat_map(|row| row.chunks(word_channels).map(word))
            .collect()
    }
}

impl Case {
    /// Returns the number of a weight: a sum over the planes.
    fn weight(&self, tap: usize, group_channel: usize, channel: usize) -> i32 {
        let taps = (self.params.kernel[0] * self.params.kernel[1]) as usize;
        let n_channels = self.params.out_channels as usize;
        let of_plane = |(plane, factor): (usize, &i32)| {
            let place = (plane * taps + tap) * self.group_channels + group_channel;
            factor
                * self
                    .numbers
                    .of_weight(self.weights[place * n_channels + channel])
        };
        self.factors[1].iter().enumerate().map(of_plane).sum()
    }

    /// Returns the number of an input: a sum over the planes.
    fn input(&self, pixel: usize, group: usize, group_channel: usize) -> i32 {
        let [planes, groups] = [self.params.planes, self.params.groups].map(|n| n as usize);
        let of_plane = |(plane, factor): (usize, &i32)| {
            let place = (pixel * planes + plane) * groups + group;
            let element = self.x[place * self.group_channels + group_channel];
            factor * self.numbers.of_input(element)
        };
        self.factors[0].iter().enumerate().map(of_plane).sum()
    }

    /// Returns the index of the input pixel under a tap, unless it is outside of the image.
    fn pixel(&self, image: usize, at: [usize; 2], tap: usize) -> Option<usize> {
        let p = &self.params;
        let taps = [tap / p.kernel[1] as usize, tap % p.kernel[1] as usize];
        let place = |axis: usize, n: u32| {
            let moved = at[axis] * p.stride[axis] as usize + taps[axis] * p.dilation[axis] as usize;
            let place = moved.checked_sub(p.padding[axis] as usize)?;
            (place < n as usize).then_some(place)
        };
        let row = place(0, p.height)?;
        Some((image * p.height as usize + row) * p.width as usize + place(1, p.width)?)
    }

    fn taps(&self) -> usize {
        (self.params.kernel[0] * self.params.kernel[1]) as usize
    }

    /// Returns the sum of products of an output pixel, by multiplication.
    fn sum(&self, image: usize, at: [usize; 2], channel: usize) -> i32 {
        let group = channel / (self.params.out_channels / self.params.groups) as usize;
        let mut sum = self.bias[channel];
        for tap in 0..self.taps() {
            let Some(pixel) = self.pixel(image, at, tap) else {
                continue;
            };
            for c in 0..self.group_channels {
                sum += self.input(pixel, group, c) * self.weight(tap, c, channel);
            }
        }
        sum
    }

    fn sums(&self) -> Vec<i32> {
        let [rows, cols] = self.params.out_size.map(|n| n as usize);
        let n_channels = self.params.out_channels as usize;
        let places = 0..self.params.batch as usize * rows * cols * n_channels;
        let sum = |place: usize| {
            let pixel = place / n_channels;
            let at = [pixel / cols % rows, pixel % cols];
            self.sum(pixel / cols / rows, at, place % n_channels)
        };
        places.map(sum).collect()
    }

    /// Returns the packed codes of the pooled sums.
    fn packed_codes(&self, sums: &[i32]) -> Vec<u32> {
        let p = &self.params;
        let [rows, cols] = p.pooled_size.map(|n| n as usize);
        let n_channels = p.out_channels as usize;
        let n_pixels = p.batch as usize * rows * cols;
        let code = |pixel: usize, channel: usize| {
            let at = [pixel / cols % rows, pixel % cols];
            let places = |axis: usize| {
                let start = at[axis] * p.pool_stride[axis] as usize;
                let padding = p.pool_padding[axis] as usize;
                let end = start + p.pool[axis] as usize;
                (start.max(padding) - padding)..(end - padding).min(p.out_size[axis] as usize)
            };
            let image = pixel / cols / rows;
            let window = places(0).flat_map(|row| places(1).map(move |col| (row, col)));
            let window = window.map(|(row, col)| {
                let row = image * p.out_size[0] as usize + row;
                sums[(row * p.out_size[1] as usize + col) * n_channels + channel]
            });
            let is_flipped = self.flips[channel] != 0;
            let pooled = if is_flipped {
                window.min()
            } else {
                window.max()
            };
            let pooled = pooled.expect("each window has a sum");
            let thresholds = self.thresholds.iter().skip(channel).step_by(n_channels);
            self.codes[thresholds.filter(|threshold| pooled > **threshold).count()]
        };
        let group_channels = n_channels / p.out_groups as usize;
        let mask = match self.numbers {
            Numbers::ZeroOne | Numbers::Signs => 1,
            Numbers::Bytes => 255,
        };
        let elements = (0..n_pixels).flat_map(|pixel| {
            (0..p.code_planes).flat_map(move |plane| {
                (0..n_channels)
                    .map(move |channel| (code(pixel, channel) >> plane & mask).cast_signed())
            })
        });
        let elements: Vec<i32> = elements.collect();
        self.numbers.packed(&elements, group_channels)
    }

    /// Returns the constants of packed sums: `channels` and `border`.
    fn constants(&self) -> [Vec<i32>; 2] {
        let p = &self.params;
        let n_channels = p.out_channels as usize;
        // What a coefficient subtracts for each one, or for each unit of a product of bytes.
        let unit = match self.numbers {
            Numbers::ZeroOne => 1,
            Numbers::Signs => 2,
            Numbers::Bytes => -1,
        };
        let scale: i32 = self.factors[0].iter().sum();
        // The contribution of a tap whose words of x are 0, without the term of `ones`.
        let constant = |tap: usize, channel: usize| -> i32 {
            let of_plane = |(plane, factor): (usize, &i32)| -> i32 {
                let first = (plane * self.taps() + tap) * self.group_channels;
                let place = |c| (first + c) * n_channels + channel;
                let bits = (0..self.group_channels).map(|c| self.weights[place(c)]);
                factor
                    * match self.numbers {
                        Numbers::ZeroOne => bits.sum::<i32>(),
                        Numbers::Signs => {
                            i32::try_from(self.group_channels).expect("there are few channels")
                        }
                        Numbers::Bytes => 0,
                    }
            };
            scale
                * self.factors[1]
                    .iter()
                    .enumerate()
                    .map(of_plane)
                    .sum::<i32>()
        };
        let mut channels: Vec<i32> = (0..n_channels)
            .map(|o| self.bias[o] + (0..self.taps()).map(|tap| constant(tap, o)).sum::<i32>())
            .collect();
        for u in &self.factors[0] {
            for v in &self.factors[1] {
                channels.extend(vec![unit * u * v; n_channels]);
            }
        }
        // Zero words outside of the image are -1 for signs, but padding is 0.
        let mut border = vec![];
        for class in 0..p.row_classes * p.col_classes {
            let at = [class / p.col_classes, class % p.col_classes].map(|n| n as usize);
            border.extend((0..n_channels).map(|channel| {
                let taps = (0..self.taps()).filter(|tap| self.pixel(0, at, *tap).is_none());
                let weights = taps.flat_map(|tap| {
                    (0..self.group_channels).map(move |c| self.weight(tap, c, channel))
                });
                scale * weights.sum::<i32>()
            }));
        }
        [channels, border]
    }
}

/// Returns the packed weights, `[weight_planes, taps, words, out_channels]`.
fn packed_weights(case: &Case) -> Vec<u32> {
    let n_channels = case.params.out_channels as usize;
    let word_channels = case.numbers.word_channels() as usize;
    let columns = case.weights.chunks(case.group_channels * n_channels);
    columns
        .flat_map(|rows| {
            rows.chunks(word_channels * n_channels).flat_map(|rows| {
                (0..n_channels).map(|channel| {
                    let column: Vec<i32> = rows
                        .iter()
                        .skip(channel)
                        .step_by(n_channels)
                        .copied()
                        .collect();
                    case.numbers.packed(&column, word_channels)[0]
                })
            })
        })
        .collect()
}

#[test]
fn packed_convolutions_are_convolutions_of_integers() {
    let [mut n_cases, mut n_cases_of_bytes] = [0; 2];
    for seed in 0..180 {
        let Some(case) = case(seed) else {
            continue;
        };
        n_cases += 1;
        let Case { params, .. } = &case;
        n_cases_of_bytes += usize::from(case.numbers == Numbers::Bytes);
        let x = case.numbers.packed(&case.x, case.group_channels);
        let weights = packed_weights(&case);
        let [channels, border] = case.constants();
        let classes: Vec<u32> = if border.is_empty() {
            vec![]
        } else {
            (0..params.out_size[0])
                .chain(0..params.out_size[1])
                .collect()
        };
        let inputs = PackedConvInputs {
            x: &x,
            weights: &weights,
            channels: &channels,
            border: &border,
            classes: &classes,
        };
        let expected = case.sums();
        let (twin_sums, twin_codes) = case.numbers.twins();
        let mut sums = sentinel_filled(expected.len());
        twin_sums(params, &inputs, &mut sums);
        let same = compare(&sums, &expected, &Tolerance::bits());
        assert!(same.is_ok(), "seed {seed}: {same:?}\n{params:?}");

        let expected = case.packed_codes(&expected);
        let thresholds = [&case.flips[..], &case.thresholds].concat();
        let steps = case.codes.windows(2).map(|codes| codes[0] ^ codes[1]);
        let toggles: Vec<u32> = case.codes[..1].iter().copied().chain(steps).collect();
        let mut codes = sentinel_filled(expected.len());
        twin_codes(params, &inputs, &thresholds, &toggles, &mut codes);
        let same = compare(&codes, &expected, &Tolerance::bits());
        assert!(same.is_ok(), "seed {seed}: {same:?}\n{params:?}");
    }
    assert!(
        n_cases > 90 && n_cases_of_bytes > 25,
        "only {n_cases} cases have an output, and only {n_cases_of_bytes} of bytes"
    );
}
