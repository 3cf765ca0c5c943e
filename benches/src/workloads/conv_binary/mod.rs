//! Convolution of levels of one or two bits: 3 x 3 windows, stride 1, padding 1 with the lowest
//! level, as many output channels as input channels.
//!
//! Role: the workload `conv-binary`: the cost of a layer with low-bit weights and activations, from
//! f32 numbers to f32 sums. The weights are packed before the run.
//! Shapes: `x` `[batch, height, width, channels]`, weights `[outputs, 3, 3, channels]`, result
//! `[batch, height, width, outputs]`, row-major.
//! Method: levels are `±1` with one bit and `±1 ± 2` with two. `x` is quantised and packed into
//! planes of words, and the sum of the products of two levels is `Σ_pq 2^(p + q) D_pq`, where
//! `D_pq` is the sum of the products of signs of two planes (`quant::conv2d_packed`). The variant
//! `host-words` starts from packed words, and `host-f32` multiplies levels in f32, from an image
//! that is quantised and padded before the run. Module `wgsl` contains the variants on a device.
//! Accuracy: within 1e-3 with one bit and 1e-2 with two, for libraries that scale int8 sums in f32.
//! Sums are integers, and a wrong level changes a sum by 2 or more.
//! Source: the class-project notes on low-bit nets; the sizes are those of the layers of `ResNet`.

mod wgsl;

use anyhow::Result;
use gpu_wgsl::Gpu;
use harness::on_gpu;
use harness::program::InputDistribution;
use harness::rivals::BaselineArguments;
use harness::script;
use harness::workload::{Extent, Problem, Task, Variant, Work, Workload};
use quant::{Alphabet, LevelSet, Outside, Packed, PackedSigns, PlaneLayout, Window, conv2d_packed};
use tensor_core::compare::Tolerance;
use tensor_core::{DType, Host, Tensor, einsum};

/// The height and width, and the channels, of each image.
const SIZES: [[usize; 2]; 4] = [[56, 64], [28, 128], [14, 256], [7, 512]];
/// The numbers of bits of weights and of activations.
const BITS: [[usize; 2]; 3] = [[1, 1], [1, 2], [2, 2]];
const BATCHES: [usize; 2] = [1, 128];
/// Maximum number of products of bits on a software driver, which computes some 10⁹ per second.
const SOFTWARE_PRODUCTS: f64 = 1e9;
/// The number of taps along each axis.
const TAPS: usize = 3;
const WINDOW: Window = Window::new([TAPS; 2]).with_padding([[1; 2]; 2]);

/// Returns the tasks.
pub fn tasks() -> impl Iterator<Item = Task> {
    let shapes = BATCHES
        .into_iter()
        .flat_map(|batch| SIZES.map(|[side, channels]| [batch, side, channels]));
    shapes.flat_map(|[batch, side, channels]| {
        BITS.map(|[weight_bits, bits]| {
            let size = format!("{side}x{side}x{channels}-3x3-w{weight_bits}a{bits}-b{batch}");
            Task::new("conv-binary", "S1", size, move || {
                Layer::new([batch, side, channels], weight_bits, bits)
            })
        })
    })
}

/// Images and weights, and the sums of the products of their levels.
#[derive(Debug)]
pub struct Layer {
    batch: usize,
    side: usize,
    channels: usize,
    /// `[batch, side, side, channels]`.
    x: Vec<f32>,
    /// The levels of the weights, `[channels, 3, 3, channels]`.
    weights: Vec<f32>,
    /// The levels of `x` with their padding, `[batch, side + 2, side + 2, channels]`.
    padded: Tensor,
    levels: LevelSet,
    signs: PackedSigns,
    /// The packed codes of `x`, `[batch, side, side, plane, word]`.
    words: Vec<u32>,
    /// `[batch, side, side, channels]`.
    expected: Vec<f64>,
}

impl Layer {
    /// Draws square images with a side of `side` pixels, and weights, and computes the sums.
    ///
    /// # Errors
    /// The host is out of memory.
    pub fn new(
        [batch, side, channels]: [usize; 3],
        weight_bits: usize,
        bits: usize,
    ) -> Result<Self> {
        // Levels of two bits reach from -3 to 3, those of one bit from -1 to 1. Numbers with the
        // standard deviation 2 instead of 1 have all four levels.
        let draw = |n, stream, bits| -> Vec<f32> {
            let numbers = InputDistribution::Normal.draw(n, stream);
            let numbers = numbers.into_iter().map(|x| x * bits as f32);
            numbers.map(off_thresholds).collect()
        };
        let x = draw(batch * side * side * channels, 0, bits);
        let weights = draw(channels * TAPS * TAPS * channels, 1, weight_bits);
        let (levels, weight_levels) = (levels(bits)?, levels(weight_bits)?);
        let (codes, _) = levels.quantize(&x);
        let (weight_codes, _) = weight_levels.quantize(&weights);
        let signs =
            PackedSigns::from_codes(&weight_codes, channels, [TAPS; 2], channels, weight_bits)?;
        let layout = PlaneLayout::new(channels, 1, bits)?;
        let lowest = levels.levels()[0];
        let images = Tensor::from_vec(&[batch, side, side, channels], x.clone());
        let padded = levels.levels_of(&images);
        let padded = padded.pad(1, 1, 1, lowest).pad(2, 1, 1, lowest);
        Ok(Self {
            padded: padded.realize(&Host::new())?,
            expected: sums(
                &planes(&codes, channels, bits),
                &planes(&weight_codes, channels, weight_bits),
                [batch, side, channels],
            ),
            words: layout.pack(&codes)?,
            weights: weight_levels.dequantize(&weight_codes)?,
            batch,
            side,
            channels,
            x,
            levels,
            signs,
        })
    }

    /// Returns the number of planes of the activations and of the weights.
    fn n_planes(&self) -> [usize; 2] {
        [self.levels.basis().len(), self.signs.n_planes()]
    }

    /// Returns the work from images of f32 and packed weights.
    fn extent(&self) -> Extent {
        self.extent_of(self.x.len() + self.signs.words().len())
    }

    /// Returns the work from packed images and weights.
    fn extent_of_words(&self) -> Extent {
        self.extent_of(self.words.len() + self.signs.words().len())
    }

    /// Returns the work from padded images and weights of f32.
    fn extent_of_levels(&self) -> Extent {
        let padded_side = self.side + TAPS - 1;
        let n_pixels = self.batch * padded_side * padded_side;
        self.extent_of(n_pixels * self.channels + self.weights.len())
    }

    /// Returns the work of a variant that reads this number of words of 32 bits.
    fn extent_of(&self, n_words: usize) -> Extent {
        let [planes, weight_planes] = self.n_planes();
        let products = self.expected.len() * TAPS * TAPS * self.channels;
        let bytes = size_of::<f32>() * (n_words + self.expected.len());
        let bit_products = products * planes * weight_planes;
        Extent::new(Work::BitProducts(bit_products as f64), bytes as f64)
    }

    fn x(&self) -> Tensor {
        let shape = [self.batch, self.side, self.side, self.channels];
        Tensor::from_vec(&shape, self.x.clone())
    }

    /// Returns the sums of f32 images.
    fn sums_of_values(&self, x: &Tensor) -> quant::Result<Tensor> {
        self.sums_of_packed(&Packed::from_values(&self.levels, x, 1)?)
    }

    /// Returns the sums of packed words.
    fn sums_of_words(&self, words: &Tensor) -> quant::Result<Tensor> {
        let layout = PlaneLayout::new(self.channels, 1, self.levels.basis().len())?;
        self.sums_of_packed(&Packed::from_words(words.clone(), layout, Alphabet::Signs)?)
    }

    fn sums_of_packed(&self, x: &Packed) -> quant::Result<Tensor> {
        let sums = conv2d_packed(x, &self.signs, &WINDOW, Outside::ZeroBits)?;
        let shape = [self.batch, self.side, self.side, self.channels];
        if self.n_planes() == [1, 1] {
            return Ok(sums.reshape(&shape).cast(DType::F32));
        }
        let powers = |bits: usize| -> Vec<i32> { (0..bits).map(|bit| 1 << bit).collect() };
        let [planes, weight_planes] = self.n_planes();
        let of_planes = Tensor::from_vec(&[planes, 1, 1], powers(planes));
        let of_weights = Tensor::from_vec(&[weight_planes, 1], powers(weight_planes));
        let products = sums * (of_planes * of_weights);
        Ok(products.sum([3, 4]).cast(DType::F32))
    }

    /// Returns the quantised images with their padding, and the levels of the weights.
    fn levels_in_memory(&self) -> Vec<Tensor> {
        let shape = [self.channels, TAPS, TAPS, self.channels];
        let weights = Tensor::from_vec(&shape, self.weights.clone());
        vec![self.padded.clone(), weights]
    }
}

/// Returns the nearest odd multiple of `1 / (2 GRID)` below or above a number. Such a number is at
/// least that far from every threshold, so the rounding of a rival's quantiser does not decide its
/// level: of the 26 million numbers of the largest layer, some are closer to a threshold than the
/// distance of neighbouring f32.
fn off_thresholds(x: f32) -> f32 {
    /// The thresholds -2, 0 and 2 are multiples of `1 / GRID`.
    const GRID: f32 = 1024.0;
    ((x * GRID).floor() + 0.5) / GRID
}

/// Returns the levels `±1` or `±1 ± 2`.
fn levels(bits: usize) -> quant::Result<LevelSet> {
    LevelSet::uniform(bits, 2.0)
}

/// Returns the sums of padded images and weights that are multiplied in f32.
fn multiplied(tensors: &[Tensor]) -> Tensor {
    let windows = tensors[0].window(1, TAPS, 1).window(2, TAPS, 1);
    einsum("byxcuv,ouvc->byxo", &[&windows, &tensors[1]])
}

impl Problem for Layer {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        let whole = self.extent();
        let fits = "the sizes were checked when the problem was created";
        let from_words = move |tensors: &[Tensor]| self.sums_of_words(&tensors[0]).expect(fits);
        let from_values = move |tensors: &[Tensor]| self.sums_of_values(&tensors[0]).expect(fits);
        let [bits, _] = self.n_planes();
        let n_words = self.channels.div_ceil(32);
        let shape = [self.batch, self.side, self.side, bits, 1, n_words];
        let words = vec![Tensor::from_vec(&shape, self.words.clone())];
        let (levels, values) = (self.levels_in_memory(), vec![self.x()]);
        let on_host = [
            Variant::compiled::<f32>("host-f32", self.extent_of_levels(), levels, multiplied),
            Variant::compiled::<f32>("host-words", self.extent_of_words(), words, from_words),
            Variant::compiled::<f32>("host", whole, values, from_values),
        ];
        let (devices, left_out) = if whole.work.amount() <= SOFTWARE_PRODUCTS {
            (gpus.iter().collect(), Vec::new())
        } else {
            let why = "a batch would take seconds for each run on a software driver";
            on_gpu::hardware(gpus, why)
        };
        let on_gpu = |gpu| {
            let program = Variant::on_gpu::<f32>(gpu, whole, vec![self.x()], from_values);
            let mut variants = wgsl::variants(self, gpu);
            variants.push(program);
            variants
        };
        let sizes = [
            ("batch", self.batch),
            ("side", self.side),
            ("channels", self.channels),
            ("bits", self.levels.basis().len()),
        ];
        let arrays: [(&str, &[f32]); 2] = [("x", &self.x), ("weights", &self.weights)];
        // OpenVINO has a convolution of bits for one bit of weights and one of activations only.
        let libraries: &[&str] = if self.n_planes() == [1, 1] {
            &["openvino", "openvino-int8", "openvino-f32"]
        } else {
            &["openvino-int8", "openvino-f32"]
        };
        let tolerance = if self.n_planes() == [1, 1] {
            1e-3
        } else {
            1e-2
        };
        let tolerance = Tolerance::relative(0).or_absolute(tolerance);
        Workload::with_expected::<f32>(whole, &self.expected, tolerance)
            .with_variants(on_host)
            .with_variants(devices.into_iter().flat_map(on_gpu))
            .with_left_out(left_out)
            .with_rivals(BaselineArguments::each(
                libraries,
                script!("conv_binary.py"),
                &sizes,
                &arrays,
            ))
    }
}

/// Planes of bits: for each row of codes, the words of 64 bits of each plane.
struct Planes {
    words: Vec<u64>,
    n_planes: usize,
    row_words: usize,
}

impl Planes {
    fn plane(&self, row: usize, plane: usize) -> &[u64] {
        &self.words[(row * self.n_planes + plane) * self.row_words..][..self.row_words]
    }
}

/// Packs rows of codes. The oracle has a packing of its own, so that it shares no code with the
/// results that it checks.
fn planes(codes: &[u8], row_len: usize, n_planes: usize) -> Planes {
    let row_words = row_len.div_ceil(64);
    let mut words = vec![0; codes.len() / row_len * n_planes * row_words];
    for (place, code) in codes.iter().enumerate() {
        let (row, element) = (place / row_len, place % row_len);
        for plane in 0..n_planes {
            let word = (row * n_planes + plane) * row_words + element / 64;
            words[word] |= u64::from(code >> plane & 1) << (element % 64);
        }
    }
    Planes {
        words,
        n_planes,
        row_words,
    }
}

/// Returns the sums of products of levels; outside of the image is the lowest level, whose bits are
/// 0.
fn sums(x: &Planes, weights: &Planes, [batch, side, channels]: [usize; 3]) -> Vec<f64> {
    let outside = vec![0; x.row_words];
    let pixel = |image: usize, row: usize, col: usize, plane: usize| {
        // Rows and columns are counted from the padding.
        match (row.checked_sub(1), col.checked_sub(1)) {
            (Some(row), Some(col)) if row < side && col < side => {
                x.plane((image * side + row) * side + col, plane)
            }
            _ => &outside,
        }
    };
    let mut sums = Vec::with_capacity(batch * side * side * channels);
    for place in 0..batch * side * side {
        let (image, row, col) = (place / side / side, place / side % side, place % side);
        for output in 0..channels {
            let mut sum = 0.0;
            for (p, q) in (0..x.n_planes).flat_map(|p| (0..weights.n_planes).map(move |q| (p, q))) {
                let mut ones = 0;
                for tap in 0..TAPS * TAPS {
                    let x = pixel(image, row + tap / TAPS, col + tap % TAPS, p);
                    let w = weights.plane(output * TAPS * TAPS + tap, q);
                    ones += x
                        .iter()
                        .zip(w)
                        .map(|(x, w)| (x ^ w).count_ones())
                        .sum::<u32>();
                }
                let n_products = (TAPS * TAPS * channels) as f64;
                sum += f64::from(1 << (p + q)) * (n_products - 2.0 * f64::from(ones));
            }
            sums.push(sum);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_close_to_a_threshold() {
        let layer = Layer::new([1, 20, 32], 2, 2).unwrap();
        for threshold in [-2.0, 0.0, 2.0_f32] {
            let next = [threshold.next_down(), threshold, threshold.next_up()];
            for x in layer.x.iter().copied().chain(next.map(off_thresholds)) {
                assert!((x - threshold).abs() >= 1.0 / 2048.0, "{x}");
            }
        }
    }

    #[test]
    fn a_single_pixel_is_summed_by_hand() {
        // Codes 3 and 0 are the levels 3 and -3; the eight taps outside have the level -3.
        let x = planes(&[3, 0], 2, 2);
        let mut codes = vec![0; 2 * 9 * 2];
        // The first output has the level 1 (code 2 is -1 + 2) in the middle tap of both channels,
        // and the level -3 elsewhere, as the second output has everywhere.
        codes[4 * 2..5 * 2].fill(2);
        let weights = planes(&codes, 2, 2);
        // 8 taps of 2 channels: -3 · -3 each. The middle tap: 3 · 1 + -3 · 1 for the first output,
        // 3 · -3 + -3 · -3 for the second.
        assert_eq!(sums(&x, &weights, [1, 1, 2]), [144.0, 144.0]);
        assert_eq!(levels(2).unwrap().levels(), [-3.0, -1.0, 1.0, 3.0]);
    }
}
