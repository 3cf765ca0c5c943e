//! A reader for the tensors of a file, one at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::header::{self, Entry, Header};
use super::{FORMAT, in_file, read_converted, read_same};
use crate::dtype::DType;
use crate::error::DataError;
use crate::tensor::Tensor;

/// An open file whose header has been read and checked.
///
/// If a tensor cannot be read, because of its type or because the file is truncated, the other
/// tensors can still be read.
///
/// # Examples
/// ```
/// use tensor_core::data::safetensors::{self, Reader};
/// use tensor_core::ndarray::array;
/// use tensor_core::{DType, Tensor};
/// let file = format!("tensor-core-reader-{}.safetensors", std::process::id());
/// let path = std::env::temp_dir().join(file);
/// let weight = Tensor::from_array(array![[1.0_f32, 2.0]]);
/// let steps = Tensor::from_array(array![7_i32]);
/// safetensors::write(&path, &[("weight", &weight), ("steps", &steps)])?;
///
/// let mut file = Reader::open(&path)?;
/// for entry in file.entries() {
///     println!("{}: {} {:?}", entry.name, entry.dtype, entry.shape); // weight: f32 [1, 2]
/// }
/// let weight = file.read("weight")?;
/// let steps = file.read_as("steps", DType::F64)?;
/// assert_eq!((weight.dtype()?, steps.dtype()?), (DType::F32, DType::F64));
///
/// // Read all tensors of a file, each in the closest tensor type.
/// for entry in file.entries().to_vec() {
///     if let Some(dtype) = entry.dtype.closest() {
///         let tensor = file.read_as(&entry.name, dtype)?;
///         assert_eq!(tensor.shape()?, entry.shape);
///     }
/// }
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    header: Header,
    path: Option<PathBuf>,
}

impl Reader<BufReader<File>> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`DataError::InFile`] with the path; its fault is [`DataError::BadHeader`],
    /// [`DataError::TrailingBytes`], [`DataError::Io`], or, under [`DataError::InTensor`] with the
    /// name, [`DataError::RankTooLarge`] or [`DataError::TooLarge`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, DataError> {
        let path = path.as_ref();
        let opened = File::open(path).map_err(DataError::io(FORMAT));
        let reader = opened.and_then(|file| Self::new(BufReader::new(file)));
        let reader = reader.map_err(in_file(path))?;
        Ok(Self {
            path: Some(path.to_path_buf()),
            ..reader
        })
    }
}

impl<R: Read + Seek> Reader<R> {
    /// Reads the header from a byte stream with the contents of a file, which starts at position 0.
    ///
    /// # Errors
    /// As [`open`](Reader::open), without the path.
    pub fn new(mut input: R) -> Result<Self, DataError> {
        let header = header::read(&mut input)?;
        let end = header.entries.last().map_or(0, |entry| entry.place.end);
        let len = input
            .seek(SeekFrom::End(0))
            .map_err(DataError::io(FORMAT))?;
        if len.checked_sub(header.start).is_some_and(|len| len > end) {
            return Err(DataError::TrailingBytes { format: FORMAT });
        }
        Ok(Self {
            input,
            header,
            path: None,
        })
    }

    /// Returns the tensors of the file, in the order of their elements.
    pub fn entries(&self) -> &[Entry] {
        &self.header.entries
    }

    /// Returns the texts that the file contains besides tensors.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.header.metadata
    }

    /// Reads a tensor into host memory, in the element type of the file.
    ///
    /// # Errors
    /// [`DataError::InFile`] with the path, if the file was opened by path; its fault is
    /// [`DataError::NoSuchTensor`], or, under [`DataError::InTensor`] with the name,
    /// [`DataError::UnsupportedDType`] (use [`read_as`](Reader::read_as)),
    /// [`DataError::Truncated`], [`DataError::NotABool`], [`DataError::OutOfMemory`] or
    /// [`DataError::Io`].
    pub fn read(&mut self, name: &str) -> Result<Tensor, DataError> {
        self.tensor(name, read_same)
    }

    /// Reads a tensor into host memory and converts its elements to `dtype`.
    ///
    /// Conversions never change a value: an element that is not exactly representable in `dtype` is
    /// an error. To round instead, read the best type for each element type,
    /// [`FileType::closest`](crate::data::FileType::closest), and then use [`cast`](Tensor::cast).
    ///
    /// # Errors
    /// As [`read`](Reader::read), and [`DataError::Unrepresentable`] with the index and the value
    /// of the first element that is not representable.
    pub fn read_as(&mut self, name: &str, dtype: DType) -> Result<Tensor, DataError> {
        self.tensor(name, |input, entry| read_converted(input, entry, dtype))
    }

    fn tensor(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut R, &Entry) -> Result<Tensor, DataError>,
    ) -> Result<Tensor, DataError> {
        let has_name = |entry: &&Entry| entry.name == name;
        let tensor = match self.header.entries.iter().find(has_name) {
            Some(entry) => {
                let first = self.header.start.saturating_add(entry.place.start);
                let found = self.input.seek(SeekFrom::Start(first));
                found
                    .map_err(DataError::io(FORMAT))
                    .and_then(|_| read(&mut self.input, entry))
                    .map_err(|fault| entry.fault(fault))
            }
            None => Err(DataError::NoSuchTensor {
                format: FORMAT,
                name: name.to_owned(),
                n_tensors: self.header.entries.len(),
            }),
        };
        match &self.path {
            Some(path) => tensor.map_err(in_file(path)),
            None => tensor,
        }
    }
}
