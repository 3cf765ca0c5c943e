//! Elements as bytes: reading and writing in chunks.
//!
//! Role: the code that NPY and safetensors files share.

use std::io::{Read, Write};

use half::f16;

use crate::dtype::Element;
use crate::error::DataError;
use crate::error::Result;
use crate::file_type::{ByteOrder, FileType};
use crate::shape::{MAX_RANK, count_in_bytes};
use crate::tensor::Tensor;

/// The number of bytes read or written at a time. Chunks let memory grow with the bytes that were
/// read, whatever size the header declares.
const CHUNK_BYTES: usize = 1 << 16;

/// Checks the number of axes in a header.
pub(super) fn check_rank(format: &'static str, rank: usize) -> Result<(), DataError> {
    if rank <= MAX_RANK {
        return Ok(());
    }
    let limit = MAX_RANK;
    Err(DataError::RankTooLarge {
        format,
        rank,
        limit,
    })
}

/// An element type that files can contain.
pub(super) trait FileElement: Element {
    /// Decodes the bytes of whole elements and appends the elements to `out`. Returns the first
    /// invalid byte as the error; only `bool` has invalid bytes.
    fn decode(bytes: &[u8], order: ByteOrder, out: &mut Vec<Self>) -> Result<(), u8>;

    /// Appends the bytes of the elements to `out`, in little-endian order.
    fn encode(elements: &[Self], out: &mut Vec<u8>);
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl FileElement for $type {
            fn decode(bytes: &[u8], order: ByteOrder, out: &mut Vec<Self>) -> Result<(), u8> {
                out.extend(bytes.chunks_exact(size_of::<Self>()).map(|chunk| {
                    let mut element = [0; size_of::<Self>()];
                    element.copy_from_slice(chunk);
                    match order {
                        ByteOrder::Little => Self::from_le_bytes(element),
                        ByteOrder::Big => Self::from_be_bytes(element),
                    }
                }));
                Ok(())
            }

            fn encode(elements: &[Self], out: &mut Vec<u8>) {
                out.extend(elements.iter().flat_map(|element| element.to_le_bytes()));
            }
        }
    )*};
}
numbers! { f32 f64 i32 u32 f16 }

impl FileElement for bool {
    fn decode(bytes: &[u8], _: ByteOrder, out: &mut Vec<Self>) -> Result<(), u8> {
        for &byte in bytes {
            if byte > 1 {
                return Err(byte);
            }
            out.push(byte == 1);
        }
        Ok(())
    }

    fn encode(elements: &[Self], out: &mut Vec<u8>) {
        out.extend(elements.iter().copied().map(u8::from));
    }
}

/// The description of an array according to its header.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrayHeader<'a> {
    pub(super) format: &'static str,
    pub(super) dtype: &'a FileType,
    pub(super) shape: &'a [usize],
    pub(super) order: ByteOrder,
    pub(super) is_column_major: bool,
}

impl ArrayHeader<'_> {
    /// Returns the index of element number `at`, counted in the order of the file.
    fn index_of(&self, mut at: usize) -> Vec<usize> {
        let mut index = vec![0; self.shape.len()];
        // Divide the position by the sizes, starting with the axis that varies fastest in the file.
        let mut place = |axis: usize| {
            let size = self.shape[axis].max(1);
            (index[axis], at) = (at % size, at / size);
        };
        if self.is_column_major {
            (0..self.shape.len()).for_each(&mut place);
        } else {
            (0..self.shape.len()).rev().for_each(&mut place);
        }
        index
    }
}

/// Reads all elements of an array, in the order of the file, and converts them to `T` if the file
/// has another type.
pub(super) fn read<T: FileElement>(
    input: &mut impl Read,
    claim: &ArrayHeader<'_>,
) -> Result<Vec<T>, DataError> {
    let ArrayHeader { format, order, .. } = *claim;
    let not_a_bool = |byte| DataError::NotABool {
        format,
        byte,
        shape: claim.shape.to_vec(),
    };
    let mut elements = Vec::new();
    let n_elements = count_in_bytes(claim.shape, 1).unwrap_or(usize::MAX);
    // Elements of the requested type are decoded in bulk; others are converted one by one.
    if claim.dtype.dtype() == Some(T::DTYPE) {
        read_chunks(input, claim, size_of::<T>(), |chunk| {
            reserve_of(
                format,
                &mut elements,
                chunk.len() / size_of::<T>(),
                n_elements,
            )?;
            T::decode(chunk, order, &mut elements).map_err(not_a_bool)
        })?;
        return Ok(elements);
    }
    let (Some(decode), Some(element_bytes)) = (claim.dtype.decoder(), claim.dtype.bytes()) else {
        return Err(DataError::UnsupportedDType {
            format,
            dtype: claim.dtype.clone(),
            shape: claim.shape.to_vec(),
        });
    };
    read_chunks(input, claim, size_of::<T>(), |chunk| {
        reserve_of(
            format,
            &mut elements,
            chunk.len() / element_bytes,
            n_elements,
        )?;
        for bytes in chunk.chunks_exact(element_bytes) {
            let number = decode(bytes, order).map_err(not_a_bool)?;
            let element = number.exactly().ok_or_else(|| DataError::Unrepresentable {
                format,
                index: claim.index_of(elements.len()),
                value: number.to_string(),
                from: claim.dtype.clone(),
                to: T::DTYPE,
            })?;
            elements.push(element);
        }
        Ok(())
    })?;
    Ok(elements)
}

/// Reads the bytes of an array in chunks of whole elements. In memory, an element will have
/// `bytes_in_memory`.
fn read_chunks(
    input: &mut impl Read,
    claim: &ArrayHeader<'_>,
    bytes_in_memory: usize,
    mut take: impl FnMut(&[u8]) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let ArrayHeader { format, .. } = *claim;
    let element_bytes = claim.dtype.bytes().unwrap_or(1);
    let too_large = || DataError::TooLarge {
        format,
        dtype: claim.dtype.clone(),
        shape: claim.shape.to_vec(),
    };
    // An empty array of a shape that is too large for a wider type has few bytes, too.
    let widest = element_bytes.max(bytes_in_memory);
    let n_elements = count_in_bytes(claim.shape, widest).ok_or_else(too_large)?;
    let total = n_elements * element_bytes;
    let (mut chunk, mut done) = (Vec::new(), 0);
    while done < total {
        let wanted = (total - done).min(CHUNK_BYTES);
        chunk.clear();
        // `take` and `read_to_end` read no more than the chunk, and stop at the end of the file
        // without an error.
        let got = input
            .by_ref()
            .take(wanted as u64)
            .read_to_end(&mut chunk)
            .map_err(DataError::io(format))?;
        done += got;
        if got < wanted {
            return Err(DataError::Truncated {
                format,
                dtype: claim.dtype.clone(),
                shape: claim.shape.to_vec(),
                expected_bytes: total as u64,
                actual_bytes: done as u64,
            });
        }
        take(&chunk)?;
    }
    Ok(())
}

/// Reserves memory for `n` more elements of an array that claims to have `n_elements`.
///
/// Memory doubles up to a quarter of the array. Then all of the rest is reserved, so that the array
/// takes its own size only; a file with a false claim must contain a quarter of it.
fn reserve_of<T>(
    format: &'static str,
    elements: &mut Vec<T>,
    n: usize,
    n_elements: usize,
) -> Result<(), DataError> {
    let n_left = n_elements.saturating_sub(elements.len());
    if n <= n_left && elements.len() < n_elements / 4 {
        return reserve(format, elements, n);
    }
    if elements.capacity() - elements.len() >= n_left {
        return Ok(());
    }
    let reserved = elements.try_reserve_exact(n_left);
    reserved.map_err(|_| out_of_memory(format, elements, n_left))
}

/// Reserves memory for `n` more elements.
pub(super) fn reserve<T>(
    format: &'static str,
    elements: &mut Vec<T>,
    n: usize,
) -> Result<(), DataError> {
    let reserved = elements.try_reserve(n);
    reserved.map_err(|_| out_of_memory(format, elements, n))
}

fn out_of_memory<T>(format: &'static str, elements: &[T], n: usize) -> DataError {
    let n_elements = elements.len().saturating_add(n);
    DataError::OutOfMemory {
        format,
        bytes: n_elements.saturating_mul(size_of::<T>()),
    }
}

/// Checks that the input ends here.
pub(super) fn check_end(format: &'static str, input: &mut impl Read) -> Result<(), DataError> {
    let n_left = input
        .take(1)
        .read_to_end(&mut Vec::new())
        .map_err(DataError::io(format))?;
    if n_left == 0 {
        Ok(())
    } else {
        Err(DataError::TrailingBytes { format })
    }
}

/// Writes the elements of a tensor in memory, in row-major order. Elements in host memory are
/// borrowed, so the write allocates only one chunk. `operation` is the name of the operation in
/// errors.
#[track_caller]
pub(super) fn write<T: FileElement>(
    operation: &'static str,
    format: &'static str,
    out: &mut impl Write,
    tensor: &Tensor,
) -> Result<()> {
    let written = tensor.with_elements::<T, _>(operation, |elements| {
        let mut bytes = Vec::new();
        reserve(format, &mut bytes, size_of_val(elements).min(CHUNK_BYTES))?;
        for chunk in elements.chunks(CHUNK_BYTES / size_of::<T>()) {
            bytes.clear();
            T::encode(chunk, &mut bytes);
            out.write_all(&bytes).map_err(DataError::io(format))?;
        }
        Ok::<(), DataError>(())
    })?;
    Ok(written?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn an_array_takes_its_own_size_only() {
        for n in [0, 1, 16_383, 16_385, 1_000_003] {
            let bytes = vec![0_u8; 4 * n];
            let header = ArrayHeader {
                format: "test",
                dtype: &FileType::Tensor(DType::F32),
                shape: &[n],
                order: ByteOrder::Little,
                is_column_major: false,
            };
            let floats = read::<f32>(&mut &bytes[..], &header).unwrap();
            assert_eq!((floats.len(), floats.capacity()), (n, n));
            let converted = read::<f64>(&mut &bytes[..], &header).unwrap();
            assert_eq!((converted.len(), converted.capacity()), (n, n));
        }
    }

    #[test]
    fn a_false_claim_takes_little_memory() {
        let header = ArrayHeader {
            format: "test",
            dtype: &FileType::Tensor(DType::F32),
            shape: &[1 << 50],
            order: ByteOrder::Little,
            is_column_major: false,
        };
        let error = read::<f32>(&mut &[0_u8; 1 << 20][..], &header).unwrap_err();
        assert!(matches!(error, DataError::Truncated { .. }), "{error}");
    }
}
