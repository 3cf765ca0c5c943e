//! Product of matrices of signs: 512 x K and K x 512.
//!
//! Role: the workload `bit-gemm`: the rate of products of bits without convolution and packing,
//! next to the measured peak.
//! Shapes: `a` `[512, words]` and `b` `[words, 512]` of `u32`, result `[512, 512]` of f32. `b` has
//! its columns innermost, so that a vector of columns is loaded at once.
//! Method: the bit 1 is the sign +1, so an element is `K - 2 · ones(a ^ b)`. No library of the
//! comparison has such a product.
//! Accuracy: exact.
//! Source: the class-project notes on low-bit nets. A length of 4608 is that of a window of 3 x 3
//! taps and 512 channels.

use gpu_wgsl::Gpu;
use harness::workload::{Extent, Problem, Task, Variant, Work, Workload};
use tensor_core::compare::Tolerance;
use tensor_core::rng::Philox;
use tensor_core::{DType, Tensor};

/// The numbers of rows of the left matrix and of columns of the right one.
const SIDE: usize = 512;
/// The lengths of the sums, in bits.
const LENGTHS: [usize; 4] = [2560, 4608, 9216, 32768];
const WORD_BITS: usize = 32;
/// The seed of the random words.
const SEED: u64 = 0xB175;

/// Returns the tasks.
pub fn tasks() -> impl Iterator<Item = Task> {
    LENGTHS.into_iter().map(|len| {
        Task::new(
            "bit-gemm",
            "S1",
            format!("{SIDE}x{len}x{SIDE}"),
            move || Ok(BitMatrices::new([SIDE, len, SIDE])),
        )
    })
}

/// Two matrices of packed signs, and their product.
#[derive(Debug)]
pub struct BitMatrices {
    /// Rows, length of the sums, columns.
    shape: [usize; 3],
    /// `[rows, words]`.
    a: Vec<u32>,
    /// `[words, columns]`.
    b: Vec<u32>,
    /// `[rows, columns]`.
    expected: Vec<f64>,
}

impl BitMatrices {
    /// Draws two matrices and multiplies them; `len` is a multiple of 32.
    #[must_use]
    pub fn new([rows, len, cols]: [usize; 3]) -> Self {
        let n_words = len / WORD_BITS;
        let draw = |n: usize, stream: u64| -> Vec<u32> {
            let stream = Philox::new(SEED).stream(stream);
            (0..n as u64).map(|place| stream.word(place)).collect()
        };
        let (a, b) = (draw(rows * n_words, 0), draw(n_words * cols, 1));
        Self {
            expected: product(&a, &b, [rows, len, cols]),
            shape: [rows, len, cols],
            a,
            b,
        }
    }

    fn extent(&self) -> Extent {
        let [rows, len, cols] = self.shape;
        let bytes = size_of::<u32>() * (self.a.len() + self.b.len() + self.expected.len());
        Extent::new(Work::BitProducts((rows * len * cols) as f64), bytes as f64)
    }

    fn arguments(&self) -> Vec<Tensor> {
        let [rows, len, cols] = self.shape;
        let n_words = len / WORD_BITS;
        let a = Tensor::from_vec(&[rows, n_words], self.a.clone());
        let b = Tensor::from_vec(&[n_words, cols], self.b.clone());
        vec![a, b]
    }
}

impl Problem for BitMatrices {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        let whole = self.extent();
        let multiply = |tensors: &[Tensor]| multiplied(tensors, self.shape[1]);
        let on_host = Variant::compiled::<f32>("host", whole, self.arguments(), multiply);
        let on_gpu = |gpu| Variant::on_gpu::<f32>(gpu, whole, self.arguments(), multiply);
        Workload::with_expected::<f32>(whole, &self.expected, Tolerance::exact())
            .with_variants([on_host])
            .with_variants(gpus.iter().map(on_gpu))
    }
}

/// Returns the product of matrices of signs as a tensor program.
fn multiplied(tensors: &[Tensor], len: usize) -> Tensor {
    // [row, column, word]
    let (a, b) = (tensors[0].expand_dims(1), tensors[1].t());
    let ones = (a ^ b).count_ones().sum(-1).cast(DType::I32);
    let len = i32::try_from(len).unwrap_or(i32::MAX);
    (ones * -2 + len).cast(DType::F32)
}

/// Returns the product, element by element.
fn product(a: &[u32], b: &[u32], [rows, len, cols]: [usize; 3]) -> Vec<f64> {
    let n_words = len / WORD_BITS;
    let mut product = Vec::with_capacity(rows * cols);
    let mut ones = vec![0_u32; cols];
    for row in a.chunks(n_words) {
        ones.fill(0);
        for (a, b) in row.iter().zip(b.chunks(cols)) {
            for (ones, b) in ones.iter_mut().zip(b) {
                *ones += (a ^ b).count_ones();
            }
        }
        product.extend(ones.iter().map(|&ones| len as f64 - 2.0 * f64::from(ones)));
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_signs_are_multiplied_by_hand() {
        // Equal bits but for the lowest two: 30 products of +1 and two of -1.
        assert_eq!(product(&[0b11], &[0b00], [1, 32, 1]), [28.0]);
        assert_eq!(
            product(&[0, u32::MAX], &[0, 1], [2, 32, 2]),
            [32.0, 30.0, -32.0, -30.0]
        );
    }
}
