//! A streaming reader of IDX files.

use std::fmt;
use std::io::{BufReader, Chain, Cursor, ErrorKind, Read};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use ndarray::{ArrayD, IxDyn};

use super::element::{DType, IdxArray, IdxElement};
use crate::error::IdxError;
use crate::shape::count_in_bytes;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The number of bytes read at a time. Chunks let memory grow with the bytes that were read,
/// whatever size the header declares.
const CHUNK_BYTES: usize = 1 << 16;

/// A streaming reader of an IDX file: reads the header first, then as many rows as requested.
///
/// After an error the position in the file is undefined; start again with a new reader.
///
/// # Examples
/// ```
/// use tensor_core::data::idx::{self, DType, Reader};
/// use tensor_core::ndarray::Array3;
/// let mut file = Vec::new();
/// idx::write(&mut file, &Array3::<u8>::zeros((5, 28, 28)))?;
///
/// let mut reader = Reader::new(&file[..])?;
/// assert_eq!((reader.dtype(), reader.shape()), (DType::U8, &[5, 28, 28][..]));
/// let mut n_rows = 0;
/// while let Some(batch) = reader.read_rows(2)? {
///     n_rows += batch.shape()[0];
/// }
/// assert_eq!(n_rows, 5);
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub struct Reader<R: Read> {
    bytes: Source<R>,
    dtype: DType,
    shape: Vec<usize>,
    rows_left: usize,
    bytes_read: u64,
}

/// The input, preceded by the two bytes that were read to detect gzip.
type Peeked<R> = Chain<Cursor<Vec<u8>>, R>;

enum Source<R: Read> {
    Plain(BufReader<Peeked<R>>),
    Gzip(BufReader<MultiGzDecoder<Peeked<R>>>),
}

impl<R: Read> Reader<R> {
    /// Reads and checks the header.
    ///
    /// # Errors
    /// [`IdxError::Truncated`], [`IdxError::BadMagic`], [`IdxError::UnknownDType`] or
    /// [`IdxError::TooLarge`] for a bad header; [`IdxError::CorruptGzip`] or [`IdxError::Io`] if
    /// reading fails.
    pub fn new(input: R) -> Result<Self, IdxError> {
        let mut bytes = Source::open(input)?;
        let mut start = [0; 4];
        bytes.fill_header(&mut start, 0, 4)?;
        let [zero, zero_too, code, rank] = start;
        if [zero, zero_too] != [0, 0] {
            return Err(IdxError::BadMagic {
                found: [zero, zero_too],
            });
        }
        let dtype = DType::from_code(code)?;
        let header_bytes = 4 + 4 * u64::from(rank);
        let mut shape = Vec::new();
        for _ in 0..rank {
            let mut size = [0; 4];
            bytes.fill_header(&mut size, 4 + 4 * shape.len() as u64, header_bytes)?;
            shape.push(usize::try_from(u32::from_be_bytes(size)).unwrap_or(usize::MAX));
        }
        let element_bytes = dtype.size_bytes();
        if count_in_bytes(&shape, element_bytes).is_none() {
            return Err(IdxError::TooLarge {
                shape,
                element_bytes,
            });
        }
        let rows_left = shape.first().copied().unwrap_or(1);
        Ok(Self {
            bytes,
            dtype,
            shape,
            rows_left,
            bytes_read: 0,
        })
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the shape of the array in the file.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Reads up to `max_rows` entries of the first axis; returns `None` only after the last entry.
    ///
    /// With `max_rows` 0 this function returns an empty batch and reads nothing. A file of rank 0
    /// counts as one row, which is an array of rank 0; an empty batch of such a file has shape
    /// `[0]`. If the rows have no elements, one call returns all of them.
    ///
    /// # Errors
    /// [`IdxError::Truncated`] if the file ends too early; [`IdxError::TrailingBytes`], when
    /// reading the last row, if the file has additional bytes; [`IdxError::OutOfMemory`] if there
    /// is no memory for the elements; [`IdxError::CorruptGzip`] or [`IdxError::Io`] if reading
    /// fails.
    pub fn read_rows(&mut self, max_rows: usize) -> Result<Option<IdxArray>, IdxError> {
        if self.rows_left == 0 {
            self.check_end()?;
            return Ok(None);
        }
        // A file of a dozen bytes can claim billions of rows without elements. Returning them all
        // at once avoids a loop over them in the caller.
        let is_empty = self.shape.contains(&0);
        let n_rows = if is_empty {
            self.rows_left
        } else {
            max_rows.min(self.rows_left)
        };
        self.read_next(n_rows).map(Some)
    }

    /// Reads all remaining entries of the first axis. Returns an empty batch after the last entry.
    ///
    /// # Errors
    /// As [`Self::read_rows`].
    pub fn read_all(mut self) -> Result<IdxArray, IdxError> {
        self.read_next(self.rows_left)
    }

    fn read_next(&mut self, n_rows: usize) -> Result<IdxArray, IdxError> {
        match self.dtype {
            DType::U8 => self.read_typed::<u8>(n_rows),
            DType::I8 => self.read_typed::<i8>(n_rows),
            DType::I16 => self.read_typed::<i16>(n_rows),
            DType::I32 => self.read_typed::<i32>(n_rows),
            DType::F32 => self.read_typed::<f32>(n_rows),
            DType::F64 => self.read_typed::<f64>(n_rows),
        }
    }

    fn read_typed<T: IdxElement>(&mut self, n_rows: usize) -> Result<IdxArray, IdxError> {
        let mut shape = self.shape.clone();
        match shape.first_mut() {
            Some(rows) => *rows = n_rows,
            None if n_rows == 0 => shape.push(0),
            None => {}
        }
        let elements = self.read_elements::<T>(shape.iter().product())?;
        self.rows_left -= n_rows;
        self.check_end()?;
        let element_bytes = size_of::<T>();
        let array = ArrayD::from_shape_vec(IxDyn(&shape), elements);
        array.map(T::wrap).map_err(|_| IdxError::TooLarge {
            shape,
            element_bytes,
        })
    }

    fn read_elements<T: IdxElement>(&mut self, n_elements: usize) -> Result<Vec<T>, IdxError> {
        let element_bytes = size_of::<T>();
        let out_of_memory = |n_elements: usize| IdxError::OutOfMemory {
            bytes: n_elements.saturating_mul(element_bytes),
        };
        let mut chunk = vec![0; CHUNK_BYTES.min(n_elements * element_bytes)];
        let mut elements = Vec::with_capacity(chunk.len() / element_bytes);
        while elements.len() < n_elements {
            let wanted = chunk
                .len()
                .min((n_elements - elements.len()) * element_bytes);
            let got = self.bytes.fill(&mut chunk[..wanted])?;
            self.bytes_read += got as u64;
            if got < wanted {
                return Err(IdxError::Truncated {
                    part: "elements",
                    expected_bytes: self.element_bytes(),
                    actual_bytes: self.bytes_read,
                });
            }
            let n = wanted / element_bytes;
            elements
                .try_reserve(n)
                .map_err(|_| out_of_memory(elements.len().saturating_add(n)))?;
            elements.extend(chunk[..wanted].chunks_exact(element_bytes).map(|bytes| {
                let mut element = T::Bytes::default();
                element.as_mut().copy_from_slice(bytes);
                T::from_be(element)
            }));
        }
        Ok(elements)
    }

    /// Returns the size of all elements, in bytes. The product does not overflow, because the
    /// header was checked.
    fn element_bytes(&self) -> u64 {
        (self.shape.iter().product::<usize>() * self.dtype.size_bytes()) as u64
    }

    fn check_end(&mut self) -> Result<(), IdxError> {
        if self.rows_left == 0 && self.bytes.fill(&mut [0])? > 0 {
            return Err(IdxError::TrailingBytes {
                expected_bytes: self.element_bytes(),
            });
        }
        Ok(())
    }
}

impl<R: Read> Source<R> {
    fn open(mut input: R) -> Result<Self, IdxError> {
        let mut start = vec![0; GZIP_MAGIC.len()];
        let got = fill(&mut input, &mut start)?;
        start.truncate(got);
        // Put the bytes back in front of the input, because both kinds of files need them.
        let is_gzip = start == GZIP_MAGIC;
        let input = Cursor::new(start).chain(input);
        Ok(if is_gzip {
            Self::Gzip(BufReader::new(MultiGzDecoder::new(input)))
        } else {
            Self::Plain(BufReader::new(input))
        })
    }

    /// Reads bytes until `out` is full or the input ends. Returns the number of bytes read.
    fn fill(&mut self, out: &mut [u8]) -> Result<usize, IdxError> {
        match self {
            Self::Plain(input) => Ok(fill(input, out)?),
            Self::Gzip(input) => fill(input, out).map_err(|source| match source.kind() {
                // The kinds that flate2 uses for corrupt streams. Errors of other kinds come from
                // the input.
                ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
                    IdxError::CorruptGzip {
                        source: Arc::new(source),
                    }
                }
                _ => source.into(),
            }),
        }
    }

    fn fill_header(
        &mut self,
        out: &mut [u8],
        before: u64,
        expected_bytes: u64,
    ) -> Result<(), IdxError> {
        let got = self.fill(out)?;
        if got == out.len() {
            return Ok(());
        }
        let actual_bytes = before + got as u64;
        Err(IdxError::Truncated {
            part: "header",
            expected_bytes,
            actual_bytes,
        })
    }
}

fn fill(input: &mut impl Read, out: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < out.len() {
        match input.read(&mut out[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

impl<R: Read> fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("dtype", &self.dtype)
            .field("shape", &self.shape)
            .field("rows_left", &self.rows_left)
            .finish_non_exhaustive()
    }
}
