//! A file that all ranks write, through MPI-IO.
//!
//! Role: the only module that calls MPI's C interface, because the crate `mpi` has no files.
//! Limits: the path must contain no zero byte.
#![expect(unsafe_code, reason = "the crate `mpi` offers MPI's files in C only")]

use std::ffi::{CString, c_char, c_int};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

use mpi::ffi;
use mpi::traits::{AsRaw as _, Equivalence as _};

use crate::error::{Error, Result};
use crate::ranks::Cluster;

/// The largest number of bytes of a write, whose count is a 32-bit integer.
const MAX_WRITE_BYTES: usize = 1 << 30;

/// An open file. All ranks create it and close it together.
#[derive(Debug)]
pub(super) struct SharedFile {
    handle: ffi::MPI_File,
    path: PathBuf,
}

impl SharedFile {
    /// Creates a file, or opens an existing one. All ranks call the function together.
    ///
    /// After an error on another rank, the file cannot be closed: closing would wait for that rank.
    pub(super) fn create(cluster: &Cluster, path: &Path) -> Result<Self> {
        let mode = ffi::MPI_MODE_CREATE | ffi::MPI_MODE_WRONLY;
        let mode = c_int::try_from(mode).unwrap_or(c_int::MAX);
        let name = path.as_os_str().as_encoded_bytes();
        let fault = |problem| Error::file("gather_rows", path)(problem);
        let name = CString::new(name).map_err(|error| fault(error.into()))?;
        // SAFETY: a constant of the library, which is initialized.
        let no_hints = unsafe { ffi::RSMPI_INFO_NULL };
        // SAFETY: a constant of the library.
        let mut handle = unsafe { ffi::RSMPI_FILE_NULL };
        // SAFETY: the communicator lives as long as `cluster`, `name` ends with a zero byte, and
        // `handle` is a place for the result.
        let code = unsafe {
            ffi::MPI_File_open(cluster.raw(), name.as_ptr(), mode, no_hints, &mut handle)
        };
        let file = Self {
            handle,
            path: path.to_owned(),
        };
        file.check(code)?;
        Ok(file)
    }

    /// Removes the contents. All ranks call the function together.
    pub(super) fn clear(&mut self) -> Result<()> {
        // SAFETY: the file is open.
        let code = unsafe { ffi::MPI_File_set_size(self.handle, 0) };
        self.check(code)
    }

    /// Writes bytes at a position of the file.
    pub(super) fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut offset = offset;
        for part in bytes.chunks(MAX_WRITE_BYTES) {
            let count = c_int::try_from(part.len()).unwrap_or(c_int::MAX);
            let place = ffi::MPI_Offset::try_from(offset).unwrap_or(ffi::MPI_Offset::MAX);
            let byte = u8::equivalent_datatype();
            let mut status = MaybeUninit::uninit();
            // SAFETY: the file is open, and `part` has `count` bytes.
            let code = unsafe {
                ffi::MPI_File_write_at(
                    self.handle,
                    place,
                    part.as_ptr().cast(),
                    count,
                    byte.as_raw(),
                    status.as_mut_ptr(),
                )
            };
            self.check(code)?;
            let mut n_written: c_int = 0;
            // SAFETY: the write has succeeded, so the library has filled the status.
            let code =
                unsafe { ffi::MPI_Get_count(status.as_ptr(), byte.as_raw(), &mut n_written) };
            self.check(code)?;
            if n_written != count {
                let problem = format!("{n_written} of {count} bytes were written");
                return Err(self.fault(problem));
            }
            offset += part.len() as u64;
        }
        Ok(())
    }

    /// Waits until the disk confirms the writes of all ranks, which call the function together.
    pub(super) fn sync(&mut self) -> Result<()> {
        // SAFETY: the file is open.
        let code = unsafe { ffi::MPI_File_sync(self.handle) };
        self.check(code)
    }

    /// Closes the file. All ranks call the function together.
    pub(super) fn close(mut self) -> Result<()> {
        // SAFETY: the file is open, and `self` is not used afterwards.
        let code = unsafe { ffi::MPI_File_close(&mut self.handle) };
        self.check(code)
    }

    /// Returns the error of a code.
    fn check(&self, code: c_int) -> Result<()> {
        if code == ffi::MPI_SUCCESS as c_int {
            return Ok(());
        }
        let mut text = vec![0_u8; ffi::MPI_MAX_ERROR_STRING as usize];
        let mut len: c_int = 0;
        // SAFETY: `text` has room for the longest message of the library, and `len` for its length.
        unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &mut len) };
        text.truncate(usize::try_from(len).unwrap_or(0));
        Err(self.fault(String::from_utf8_lossy(&text).into_owned()))
    }

    fn fault(&self, problem: String) -> Error {
        Error::file("gather_rows", &self.path)(std::io::Error::other(problem))
    }
}
