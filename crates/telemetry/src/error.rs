//! Error types of the crate.
//!
//! Role: [`Fault`] is the reason why a single metric has no value; sampling continues after a
//! fault. [`Error`] is the reason why a whole operation failed.

use crate::{Failure, Metric};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The result type of the crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a metric has no value, temporarily or permanently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Fault {
    /// The device has no such sensor.
    #[error("not supported by this device")]
    NotSupported,
    /// The GPU is partitioned (MIG) and reports the metric only for the whole GPU, not for an
    /// instance.
    #[error("not reported for MIG instances")]
    NotOnMig,
    /// The driver's library is too old and lacks the function.
    #[error("function missing in the driver's library")]
    MissingCall,
    /// The user of this process is not allowed to read the metric.
    #[error("no permission")]
    NoPermission,
    /// The GPU does not respond: it has fallen off the bus or needs a reset.
    #[error("GPU lost")]
    Lost,
    /// The driver was unloaded or replaced while in use.
    #[error("driver not loaded, or it does not match the NVML library")]
    DriverGone,
    /// The library exists but cannot be loaded: it is damaged or built for another architecture.
    #[error("library cannot be loaded")]
    Unloadable,
    /// The reading is outside the range that is possible for its metric, or cannot be parsed.
    #[error("reading out of range")]
    InvalidReading,
    /// An NVML return code without a variant of its own.
    #[error("NVML return code {0}")]
    Code(u32),
}

impl Fault {
    /// Returns the fault for an NVML return code.
    ///
    /// The caller is expected to handle success (0) itself; 0 maps to `Fault::Code(0)`.
    #[must_use]
    pub fn from_nvml(code: u32) -> Self {
        match code {
            3 => Self::NotSupported,
            4 => Self::NoPermission,
            13 => Self::MissingCall,
            // GPU_IS_LOST and RESET_REQUIRED.
            15 | 16 => Self::Lost,
            // UNINITIALIZED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND and LIB_RM_VERSION_MISMATCH (the
            // driver was replaced by a version other than the library's).
            1 | 9 | 12 | 18 => Self::DriverGone,
            code => Self::Code(code),
        }
    }

    /// Returns the NVML return code for a fault, 999 (`NVML_ERROR_UNKNOWN`) by default.
    #[must_use]
    pub fn nvml_code(self) -> u32 {
        match self {
            Self::NotSupported | Self::NotOnMig => 3,
            Self::NoPermission => 4,
            Self::DriverGone => 9,
            Self::Unloadable => 12,
            Self::MissingCall => 13,
            Self::Lost => 15,
            Self::Code(code) => code,
            Self::InvalidReading => 999,
        }
    }
}

/// The error of a failed operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A library is missing or cannot be used.
    #[error("{operation}: cannot use {library}: {why}")]
    Library {
        /// Name of the failed operation.
        operation: &'static str,
        /// Name or path of the library.
        library: String,
        /// Message of the loader or of the library.
        why: String,
        /// Reason why an existing library cannot be used; `None` if the library is missing.
        fault: Option<Fault>,
    },
    /// A machine without a usable source: neither NVIDIA's driver nor RAPL has a device that meets
    /// the condition of the operation.
    #[error("{operation}: no usable source ({gpus}; {cpus})")]
    NoSource {
        /// Name of the failed operation.
        operation: &'static str,
        /// Reason why NVIDIA's driver is not usable.
        gpus: Box<Self>,
        /// Reason why RAPL is not usable.
        cpus: Box<Self>,
    },
    /// A device selection that matches no device, or a name that matches several.
    #[error("{operation}: no single device matches {selection:?} ({n_devices} available)")]
    NoDevice {
        /// Name of the failed operation.
        operation: &'static str,
        /// The selection that the caller specified.
        selection: String,
        /// Number of devices of the source.
        n_devices: usize,
    },
    /// A required metric has no value.
    #[error("{operation}: device {device} has no value of {metric} ({fault})")]
    Unavailable {
        /// Name of the failed operation.
        operation: &'static str,
        /// The metric.
        metric: Metric,
        /// Index of the device.
        device: usize,
        /// Reason why the metric has no value.
        fault: Fault,
    },
    /// An argument outside its valid range.
    #[error("{operation}: {parameter} is {value} (must be {must})")]
    ParameterInvalid {
        /// Name of the failed operation.
        operation: &'static str,
        /// Name of the argument.
        parameter: &'static str,
        /// Value of the argument.
        value: f64,
        /// Condition on the argument, such as `above 0`.
        must: &'static str,
    },
    /// Text that cannot be parsed as one of the crate's formats.
    #[error("{format}, line {line}: {why}")]
    Text {
        /// Name of the format.
        format: &'static str,
        /// Line number, starting at 1.
        line: usize,
        /// Problem found in the line.
        why: String,
    },
    /// An operation that was cancelled by the caller.
    #[error("{operation}: cancelled")]
    Cancelled {
        /// Name of the failed operation.
        operation: &'static str,
    },
    /// A failure of the source, of the sampler or of a sink during sampling.
    #[error("{0}")]
    Sampling(Failure),
    /// An HTTP endpoint that could not be opened.
    #[error("serve: cannot listen on {address}: {why}")]
    Endpoint {
        /// The address to listen on.
        address: std::net::SocketAddr,
        /// Error of the operating system.
        why: std::io::Error,
    },
    /// A thread that the system could not create.
    #[error("{operation}: cannot create a thread: {why}")]
    Thread {
        /// Name of the failed operation.
        operation: &'static str,
        /// Error of the operating system.
        why: std::io::Error,
    },
    /// A file that could not be opened or created.
    #[error("cannot open or create {path}: {why}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        why: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_of_nvml_survives_being_a_fault() {
        for code in [2, 3, 4, 6, 7, 9, 13, 15, 25, 999] {
            assert_eq!(Fault::from_nvml(code).nvml_code(), code);
        }
        assert_eq!(Fault::from_nvml(3), Fault::NotSupported);
        assert_eq!(Fault::from_nvml(15), Fault::Lost);
        assert_eq!(Fault::from_nvml(18), Fault::DriverGone);
        assert_eq!(Fault::from_nvml(7), Fault::Code(7));
    }
}
