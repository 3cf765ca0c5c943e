//! Elements as bytes: read as they come, written in pieces.
//!
//! Role: the part that NPY and safetensors share.

use std::io::{self, Read, Write};

use half::f16;

use super::error::DataError;
use crate::dtype::Element;
use crate::error::Result;
use crate::shape::count_in_bytes;
use crate::tensor::Tensor;

/// How much is read or written at a time; a claim beyond it costs no memory before its bytes arrive.
const CHUNK_BYTES: usize = 1 << 16;

/// Which byte of an element comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

/// A type that files hold.
pub(super) trait FileElement: Element {
    /// Appends the elements that whole bytes stand for, or gives a byte that stands for none.
    fn decode(bytes: &[u8], order: ByteOrder, out: &mut Vec<Self>) -> Result<(), u8>;

    /// Appends the bytes of elements, the lowest first.
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

/// Reads all elements of `shape`, in the order in which they stand.
pub(super) fn read<T: FileElement>(
    format: &'static str,
    input: &mut impl Read,
    shape: &[usize],
    order: ByteOrder,
) -> Result<Vec<T>, DataError> {
    let element_bytes = size_of::<T>();
    let too_large = || DataError::TooLarge {
        format,
        dtype: T::DTYPE,
        shape: shape.to_vec(),
    };
    let n_elements = count_in_bytes(shape, element_bytes).ok_or_else(too_large)?;
    let total = n_elements * element_bytes;
    let (mut elements, mut chunk, mut done) = (Vec::new(), Vec::new(), 0);
    while done < total {
        let wanted = (total - done).min(CHUNK_BYTES);
        chunk.clear();
        let got = input
            .by_ref()
            .take(wanted as u64)
            .read_to_end(&mut chunk)
            .map_err(DataError::io(format))?;
        done += got;
        if got < wanted {
            return Err(DataError::Truncated {
                format,
                dtype: T::DTYPE,
                shape: shape.to_vec(),
                expected_bytes: total as u64,
                actual_bytes: done as u64,
            });
        }
        T::decode(&chunk, order, &mut elements).map_err(|byte| DataError::NotABool {
            format,
            byte,
            shape: shape.to_vec(),
        })?;
    }
    Ok(elements)
}

/// Refuses a file that goes on.
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

/// Writes the elements of a tensor that is in memory, in row-major order, for an operation of that name; the inner result is
/// what writing gave.
#[track_caller]
pub(super) fn write<T: FileElement>(
    op: &'static str,
    out: &mut impl Write,
    tensor: &Tensor,
) -> Result<io::Result<()>> {
    let array = tensor.in_memory::<T>(op)?;
    let elements: Vec<T> = array.into_iter().collect();
    let mut bytes = Vec::new();
    Ok(elements
        .chunks(CHUNK_BYTES / size_of::<T>())
        .try_for_each(|chunk| {
            bytes.clear();
            T::encode(chunk, &mut bytes);
            out.write_all(&bytes)
        }))
}
