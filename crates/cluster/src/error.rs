//! The errors of this crate.

use std::io;
use std::path::PathBuf;

/// An error of a function of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a file failed.
    #[error("{operation}: {path}: {why}", path = path.display())]
    File {
        /// The function that was called.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        why: io::Error,
    },
    /// A file does not begin as a journal does.
    #[error("journal: {path} is not a journal", path = path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
    },
    /// A journal has the format of another version of this crate.
    #[error(
        "journal: {path} has format {actual} (expected format {expected}); continue with the version that wrote the \
         journal",
        path = path.display()
    )]
    JournalFormat {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        actual: u8,
        /// The format of this version.
        expected: u8,
    },
    /// A journal belongs to another job.
    #[error(
        "journal: {path} belongs to another job (\"{actual}\"; expected \"{expected}\"); choose another file or repeat \
         the arguments of the journal's job",
        path = path.display()
    )]
    OtherJob {
        /// The file.
        path: PathBuf,
        /// The description of the job that wrote the file.
        actual: String,
        /// The description of this job.
        expected: String,
    },
    /// A record of a journal was changed after it was written.
    #[error(
        "journal: {path} is damaged at byte {offset} ({problem}); the first {n_results} results are intact, and a copy \
         of the file's first {offset} bytes is a valid journal",
        path = path.display()
    )]
    JournalDamaged {
        /// The file.
        path: PathBuf,
        /// The position of the first byte of the record.
        offset: u64,
        /// The number of results before the record.
        n_results: usize,
        /// The difference between the record and a valid record.
        problem: String,
    },
    /// Another process has the journal open.
    #[error("journal: {path} is in use by another process", path = path.display())]
    JournalInUse {
        /// The file.
        path: PathBuf,
    },
    /// A value cannot be converted to or from bytes.
    #[error("{operation}: {value} cannot be converted ({problem})")]
    Encoding {
        /// The function that was called.
        operation: &'static str,
        /// The value, such as "the result of task 7".
        value: String,
        /// The error of the format.
        problem: String,
    },
    /// A message or a result is larger than the limit.
    #[error("{operation}: {value} has {len_bytes} bytes (limit {limit_bytes})")]
    TooLarge {
        /// The function that was called.
        operation: &'static str,
        /// The value, such as "the result of task 7".
        value: String,
        /// The size of the value.
        len_bytes: usize,
        /// The largest allowed size.
        limit_bytes: usize,
    },
    /// An argument is invalid.
    #[error("{operation}: {parameter} is invalid ({actual}; must be {must})")]
    ParameterInvalid {
        /// The function that was called.
        operation: &'static str,
        /// The name of the argument.
        parameter: &'static str,
        /// The argument.
        actual: String,
        /// The allowed values.
        must: String,
    },
    /// MPI was initialized before, by this crate or by other code of the process.
    #[error("start: MPI was initialized before; a process can start one cluster")]
    AlreadyStarted,
    /// The MPI library does not allow several threads in a process.
    #[error(
        "start: the MPI library supports no threads besides the main thread (level {level}; expected Funneled)"
    )]
    NoThreads {
        /// The level of the library.
        level: String,
    },
    /// The program was started by the launcher of another MPI library.
    #[error(
        "start: this process is alone, but its launcher started {n_processes} processes ({variable}); use the `mpirun` \
         of the library that the program was built with ({library})"
    )]
    OtherLauncher {
        /// The number of processes that the launcher started.
        n_processes: usize,
        /// The environment variable that contains this number.
        variable: &'static str,
        /// The MPI library of the program.
        library: String,
    },
    /// The arguments of a function that all ranks call differ.
    #[error("{operation}: {argument} of rank {rank} differs ({actual}; rank 0 has {expected})")]
    RanksDiffer {
        /// The function that was called.
        operation: &'static str,
        /// The name of the argument.
        argument: &'static str,
        /// The first rank with another argument than rank 0.
        rank: usize,
        /// The argument of that rank.
        actual: String,
        /// The argument of rank 0.
        expected: String,
    },
    /// A task returned an error or panicked.
    #[error("map: task {task} failed on rank {rank}: {message}")]
    TaskFailed {
        /// The number of the task.
        task: u64,
        /// The rank that ran the task.
        rank: usize,
        /// The message of the error or of the panic.
        message: String,
    },
    /// A function that all ranks call failed on another rank.
    #[error("{operation}: failed on rank {rank}: {message}")]
    OnRank {
        /// The function that was called.
        operation: &'static str,
        /// The first rank on which the function failed.
        rank: usize,
        /// The message of the rank's error.
        message: String,
    },
    /// The rows of files, or of ranks, do not form an array.
    #[error("{operation}: {path}: {problem}", path = path.display())]
    RowFiles {
        /// The function that was called.
        operation: &'static str,
        /// The index, or the array.
        path: PathBuf,
        /// The difference.
        problem: String,
    },
    /// An error of a tensor.
    #[error(transparent)]
    Tensor(#[from] tensor_core::Error),
    /// An error of a file of arrays.
    #[error(transparent)]
    Data(#[from] tensor_core::data::DataError),
}

/// A `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns a function that adds the operation and the path to an error of a file.
    pub(crate) fn file(
        operation: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |why| Self::File {
            operation,
            path,
            why,
        }
    }
}
