//! Checksums of files and of training images.
//!
//! Role: a changed bit of a file must not become another network silently, and a training must not
//! go on with other images. The checksum does not protect against deliberate changes.
//! Method: each word of 64 bits is mixed into the sum by an invertible function, so two inputs of
//! equal length that differ in one word always have different sums.

use std::collections::BTreeMap;
use std::fmt;

use tensor_core::{DType, Tensor};

use crate::error::{Error, Result};

/// The key of the checksum among the texts of a file.
pub(crate) const KEY: &str = "checksum";

/// A checksum of texts, bytes and tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checksum(u64);

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Checksum {
    /// Creates the checksum of nothing.
    pub(crate) fn new() -> Self {
        /// The first bits of the fraction of pi.
        const START: u64 = 0x243f_6a88_85a3_08d3;
        Self(START)
    }

    /// Returns the checksum of the texts of a file without that of [`KEY`], and of its tensors.
    pub(crate) fn of_file(
        texts: &BTreeMap<String, String>,
        tensors: &BTreeMap<&str, &Tensor>,
    ) -> Result<Self> {
        let mut sum = Self::new();
        for (key, text) in texts.iter().filter(|(key, _)| *key != KEY) {
            sum.add_bytes(key.as_bytes());
            sum.add_bytes(text.as_bytes());
        }
        for (name, tensor) in tensors {
            sum.add_bytes(name.as_bytes());
            sum.add_tensor(tensor)?;
        }
        Ok(sum)
    }

    pub(crate) fn add_word(&mut self, word: u64) {
        /// An odd number, so that the product is invertible: the golden ratio times 2^64.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        const HALF: u32 = u64::BITS / 2;
        let mixed = (self.0 ^ word).wrapping_mul(FACTOR);
        self.0 = mixed ^ (mixed >> HALF);
    }

    /// Adds bytes and their number.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.add_word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for &word in words {
            self.add_word(u64::from_le_bytes(word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add_word(u64::from_le_bytes(last));
    }

    /// Adds the type, the shape and the elements of a tensor.
    ///
    /// # Errors
    /// [`Error::Tensor`] for an error of the tensor or of its executor.
    pub(crate) fn add_tensor(&mut self, tensor: &Tensor) -> Result<()> {
        let dtype = tensor.dtype()?;
        self.add_bytes(dtype.to_string().as_bytes());
        for &size in tensor.shape()? {
            self.add_word(size as u64);
        }
        let words: Vec<u32> = match dtype {
            DType::F32 => tensor
                .to_host::<f32>()?
                .iter()
                .map(|x| x.to_bits())
                .collect(),
            DType::I32 => tensor
                .to_host::<i32>()?
                .iter()
                .map(|x| x.cast_unsigned())
                .collect(),
            DType::U32 => tensor.to_host::<u32>()?.iter().copied().collect(),
            DType::Bool => tensor
                .to_host::<bool>()?
                .iter()
                .map(|&x| x.into())
                .collect(),
            _ => {
                return Err(Error::Type {
                    operation: "checksum",
                    quantity: "tensor",
                    actual: dtype,
                    expected: DType::F32,
                });
            }
        };
        for pair in words.chunks(2) {
            let high = pair.get(1).copied().unwrap_or(0);
            self.add_word(u64::from(pair[0]) | u64::from(high) << u32::BITS);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_changed_bit_changes_the_sum() {
        let of = |bytes: &[u8]| {
            let mut sum = Checksum::new();
            sum.add_bytes(bytes);
            sum
        };
        let bytes: Vec<u8> = (0..21).collect();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(of(&changed), of(&bytes), "bit {bit}");
        }
        assert_ne!(of(&bytes[..20]), of(&bytes));
        assert_ne!(of(&[0; 8]), of(&[0; 16]));
    }

    #[test]
    fn type_and_shape_of_a_tensor_count() {
        let of = |tensor: Tensor| {
            let mut sum = Checksum::new();
            sum.add_tensor(&tensor).unwrap();
            sum
        };
        let zeros = || vec![0_i32; 6];
        let first = of(Tensor::from_vec(&[2, 3], zeros()));
        assert_eq!(first, of(Tensor::from_vec(&[2, 3], zeros())));
        assert_ne!(first, of(Tensor::from_vec(&[3, 2], zeros())));
        assert_ne!(first, of(Tensor::from_vec(&[2, 3], vec![0_u32; 6])));
        assert_ne!(first, of(Tensor::from_vec(&[2, 3], vec![0, 0, 0, 0, 0, 1])));
    }
}
