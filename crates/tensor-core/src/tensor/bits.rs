//! Packing of `bool` tensors into words, and back.
//!
//! Layout: bit `b` of word `w` of a row is element `32 w + b`; the bits after the end of a row are
//! 0.
//!
//! ```text
//! elements   0  1  2 ... 31 | 32 33 ... 63 | 64 ... 69
//! words             0       |      1       |     2  (bits 6 to 31 are 0)
//! bit        0  1  2 ... 31 |  0  1 ... 31 |  0 ...  5
//! ```

use super::{Tensor, or_error_node};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::WORD_BITS;
use crate::shape::{element_count, resolve_axis};

impl Tensor {
    /// Packs the `bool`s of each row of the last axis into `u32` words, the first element in the
    /// lowest bit: shape `[…, n]` becomes `[…, ⌈n / 32⌉]`. The unused bits of the last word are 0.
    ///
    /// Returns an error node of [`Error::DTypeUnsupported`] for another type than `bool`, and of
    /// [`Error::AxisOutOfRange`] for a tensor without axes.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor};
    /// let x = Tensor::from_array(array![[0.5_f32, -1.0, 2.0], [-3.0, -1.0, 1.0]]);
    /// let signs = x.gt(0).pack_bits();
    /// assert_eq!(signs.eval::<u32>(&Host::new())?, array![[0b101_u32], [0b100]].into_dyn());
    /// assert_eq!(signs.unpack_bits(3).eval::<bool>(&Host::new())?, x.gt(0).eval(&Host::new())?);
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn pack_bits(&self) -> Self {
        let operation = "pack_bits";
        let (mut shape, n) = or_error_node!(self.rows(operation, DType::Bool));
        let n_words = n.div_ceil(WORD_BITS);
        let packed = Self::by_caller(|| {
            let whole = self.pad(-1, 0, n_words * WORD_BITS - n, false);
            shape.extend([n_words, WORD_BITS]);
            let bits = whole.reshape(&shape).cast(DType::U32);
            // The bits of a word do not overlap, so their sum is the word.
            bits.shl(bit_numbers()).sum(-1)
        });
        packed.composed(operation, &[self])
    }

    /// Returns the first `n` bits of each row of `u32` words as `bool`: the inverse of
    /// [`pack_bits`](Self::pack_bits). Shape `[…, ⌈n / 32⌉]` becomes `[…, n]`; the unused bits of
    /// the last word are ignored.
    ///
    /// Returns an error node of [`Error::DTypeUnsupported`] for another type than `u32`, of
    /// [`Error::AxisOutOfRange`] for a tensor without axes, of [`Error::WordCount`] if the rows do
    /// not have `⌈n / 32⌉` words, and of [`Error::TooLarge`] for a result that is too large.
    #[track_caller]
    #[must_use]
    pub fn unpack_bits(&self, n: usize) -> Self {
        let operation = "unpack_bits";
        let (mut shape, n_words) = or_error_node!(self.rows(operation, DType::U32));
        if n_words != n.div_ceil(WORD_BITS) {
            return Self::error(Error::WordCount {
                operation,
                shape: self.0.shape.to_vec(),
                n_bits: n,
            });
        }
        let n_padded = n.checked_next_multiple_of(WORD_BITS).unwrap_or(usize::MAX);
        shape.push(n_padded);
        or_error_node!(element_count(operation, &shape));
        let bits = Self::by_caller(|| {
            let bits = self.expand_dims(-1).shr(bit_numbers()).and(1).ne(0);
            bits.reshape(&shape).slice(-1, ..n.cast_signed())
        });
        bits.composed(operation, &[self])
    }

    /// Returns the shape without the last axis, and the size of the last axis.
    fn rows(&self, operation: &'static str, dtype: DType) -> Result<(Vec<usize>, usize)> {
        let mut shape = self.shape()?.to_vec();
        if self.0.dtype != dtype {
            return Err(Error::DTypeUnsupported {
                operation,
                dtype: self.0.dtype,
            });
        }
        let last = resolve_axis(operation, -1, &shape)?;
        let n = shape.remove(last);
        Ok((shape, n))
    }
}

/// Returns the numbers of the bits of a word.
#[track_caller]
fn bit_numbers() -> Tensor {
    Tensor::index("bit_numbers", WORD_BITS, WORD_BITS)
}
