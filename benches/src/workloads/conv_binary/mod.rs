//! Convolution of signs: 3 x 3 windows, stride 1, padding 1 with -1, as many output channels as
//! input channels.
//!
//! Role: the workload `conv-binary`: what a layer with 1-bit weights and activations costs, from
//! f32 numbers to f32 sums. The signs of the weights are packed before the run.
//! Shapes: `x` `[batch, height, width, channels]`, weights `[outputs, 3, 3, channels]`, result
//! `[batch, height, width, outputs]`, row-major.
//! Method: `x > 0` packed into words, padded with zero words, and the number of different bits
//! counted: a sum of `K` signs is `K - 2 · ones(x ^ w)`. The variant `host-words` starts from
//! packed words, and `host-f32` multiplies the signs as f32.
//! Accuracy: within 1e-3, for libraries that scale int8 sums in f32. Sums are integers, and a wrong
//! sign changes a sum by 2.
//! Source: the class-project notes on low-bit nets; the sizes are those of the layers of `ResNet`.

use anyhow::Result;
use gpu_wgsl::Gpu;
use harness::program::InputDistribution;
use harness::rivals::BaselineArguments;
use harness::script;
use harness::workload::{Extent, Problem, Task, Variant, Work, Workload};
use tensor_core::compare::Tolerance;
use tensor_core::{DType, Host, Tensor, einsum};

/// The height and width, and the channels, of each image.
const SIZES: [[usize; 2]; 4] = [[56, 64], [28, 128], [14, 256], [7, 512]];
/// The number of taps along each axis.
const TAPS: usize = 3;
const WORD_BITS: usize = 32;

/// Returns the tasks.
pub fn tasks() -> impl Iterator<Item = Task> {
    SIZES.into_iter().map(|[side, channels]| {
        let size = format!("{side}x{side}x{channels}-3x3-w1a1-b1");
        Task::new("conv-binary", "S1", size, move || {
            Signs::new(1, side, channels)
        })
    })
}

/// Images and weights of which only the signs count, and the sums of their products.
#[derive(Debug)]
pub struct Signs {
    batch: usize,
    side: usize,
    channels: usize,
    /// `[batch, side, side, channels]`.
    x: Vec<f32>,
    /// `[channels, 3, 3, channels]`.
    weights: Vec<f32>,
    /// The signs of `x`, packed: `[batch, side, side, word]`.
    words: Tensor,
    /// The signs of the weights, packed: `[3, 3, word, output]`. The outputs are innermost, so that
    /// a vector of outputs is loaded at once.
    weight_words: Tensor,
    /// `[batch, side, side, channels]`.
    expected: Vec<f64>,
}

impl Signs {
    /// Draws square images with a side of `side` pixels, and weights, and computes the sums.
    ///
    /// # Errors
    /// The host is out of memory.
    pub fn new(batch: usize, side: usize, channels: usize) -> Result<Self> {
        let x = InputDistribution::Normal.draw(batch * side * side * channels, 0);
        let weights = InputDistribution::Normal.draw(channels * TAPS * TAPS * channels, 1);
        let host = Host::new();
        let images = Tensor::from_vec(&[batch, side, side, channels], x.clone());
        let kernels = Tensor::from_vec(&[channels, TAPS, TAPS, channels], weights.clone());
        Ok(Self {
            words: packed(&images).realize(&host)?,
            weight_words: packed(&kernels).permute(&[1, 2, 3, 0]).realize(&host)?,
            expected: sums(&x, &weights, batch, side, channels),
            batch,
            side,
            channels,
            x,
            weights,
        })
    }

    fn extent(&self) -> Extent {
        let products = self.expected.len() * TAPS * TAPS * self.channels;
        let words = self.weights.len() / WORD_BITS;
        let bytes = size_of::<f32>() * (self.x.len() + self.expected.len() + words);
        Extent::new(Work::BitProducts(products as f64), bytes as f64)
    }

    fn x(&self) -> Tensor {
        let shape = [self.batch, self.side, self.side, self.channels];
        Tensor::from_vec(&shape, self.x.clone())
    }

    /// Returns the signs of the weights as f32, `[output, taps, taps, channel]`.
    fn weight_signs(&self) -> Tensor {
        let shape = [self.channels, TAPS, TAPS, self.channels];
        let signs = self
            .weights
            .iter()
            .map(|&w| if w > 0.0 { 1.0 } else { -1.0 });
        Tensor::from_vec(&shape, signs.collect::<Vec<f32>>())
    }
}

/// Returns the packed signs of numbers.
fn packed(x: &Tensor) -> Tensor {
    x.gt(0).pack_bits()
}

/// Returns the windows `[batch, row, column, …, tap, tap]` of images with a padding of zeros.
fn windows(x: &Tensor) -> Tensor {
    let padded = x.pad(1, 1, 1, 0).pad(2, 1, 1, 0);
    padded.window(1, TAPS, 1).window(2, TAPS, 1)
}

/// Returns the sums of packed signs.
fn convolved(words: &Tensor, weights: &Tensor, channels: usize) -> Tensor {
    // [batch, row, column, output, tap, tap, word]
    let x = windows(words).permute(&[0, 1, 2, 4, 5, 3]).expand_dims(3);
    let w = weights.permute(&[3, 0, 1, 2]);
    let ones = (x ^ w).count_ones().sum([-1, -2, -3]);
    let n_products = TAPS * TAPS * channels;
    (ones.cast(DType::I32) * -2 + i32::try_from(n_products).unwrap_or(i32::MAX)).cast(DType::F32)
}

/// Returns the sums of signs that are multiplied as f32.
fn convolved_as_floats(x: &Tensor, weights: &Tensor) -> Tensor {
    // Outside of the image, the signs are -1.
    let signs = x.gt(0).select(1.0_f32, -1.0_f32) + 1.0;
    let windows = windows(&signs) - 1.0;
    einsum("byxcuv,ouvc->byxo", &[&windows, weights])
}

impl Problem for Signs {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        let (whole, channels) = (self.extent(), self.channels);
        let from_words = move |tensors: &[Tensor]| convolved(&tensors[0], &tensors[1], channels);
        let from_floats =
            move |tensors: &[Tensor]| convolved(&packed(&tensors[0]), &tensors[1], channels);
        let arguments = || vec![self.x(), self.weight_words.clone()];
        let words = vec![self.words.clone(), self.weight_words.clone()];
        let floats = vec![self.x(), self.weight_signs()];
        let as_floats = |tensors: &[Tensor]| convolved_as_floats(&tensors[0], &tensors[1]);
        let on_host = [
            Variant::compiled::<f32>("host-f32", whole, floats, as_floats),
            Variant::compiled::<f32>("host-words", whole, words, from_words),
            Variant::compiled::<f32>("host", whole, arguments(), from_floats),
        ];
        let on_gpu = |gpu| Variant::on_gpu::<f32>(gpu, whole, arguments(), from_floats);
        let sizes = [
            ("batch", self.batch),
            ("side", self.side),
            ("channels", channels),
        ];
        let arrays: [(&str, &[f32]); 2] = [("x", &self.x), ("weights", &self.weights)];
        let libraries = ["openvino", "openvino-int8", "openvino-f32"];
        let tolerance = Tolerance::relative(0).or_absolute(1e-3);
        Workload::with_expected::<f32>(whole, &self.expected, tolerance)
            .with_variants(on_host)
            .with_variants(gpus.iter().map(on_gpu))
            .with_rivals(BaselineArguments::each(
                &libraries,
                script!("conv_binary.py"),
                &sizes,
                &arrays,
            ))
    }
}

/// Returns the sums of products of signs; signs outside of the image are -1.
fn sums(x: &[f32], weights: &[f32], batch: usize, side: usize, channels: usize) -> Vec<f64> {
    // Bits of a pixel or a tap in words of 64, the plainest form that is fast enough.
    let bits = |numbers: &[f32]| -> Vec<u64> {
        let word = |numbers: &[f32]| {
            let signs = numbers.iter().enumerate();
            signs.fold(0, |word, (bit, &x)| word | u64::from(x > 0.0) << bit)
        };
        numbers.chunks(u64::BITS as usize).map(word).collect()
    };
    let pixels: Vec<Vec<u64>> = x.chunks(channels).map(bits).collect();
    let taps: Vec<Vec<u64>> = weights.chunks(channels).map(bits).collect();
    let outside = bits(&vec![-1.0; channels]);
    let pixel = |image: usize, row: usize, col: usize| {
        // Rows and columns are counted from the padding.
        match (row.checked_sub(1), col.checked_sub(1)) {
            (Some(row), Some(col)) if row < side && col < side => {
                &pixels[(image * side + row) * side + col]
            }
            _ => &outside,
        }
    };
    let mut sums = Vec::with_capacity(batch * side * side * channels);
    for place in 0..batch * side * side {
        let (image, row, col) = (place / side / side, place / side % side, place % side);
        for output in 0..channels {
            let mut ones = 0;
            for tap in 0..TAPS * TAPS {
                let x = pixel(image, row + tap / TAPS, col + tap % TAPS);
                let pairs = x.iter().zip(&taps[output * TAPS * TAPS + tap]);
                ones += pairs.map(|(x, w)| (x ^ w).count_ones()).sum::<u32>();
            }
            sums.push((TAPS * TAPS * channels) as f64 - 2.0 * f64::from(ones));
        }
    }
    sums
}
