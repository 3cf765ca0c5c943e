//! Faults of one metric, which a run survives, and errors, which end an operation.

use crate::{Failure, Metric};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The result of the crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a metric has no value, for now or for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Fault {
    /// The device has no such sensor.
    #[error("not supported by this device")]
    NotSupported,
    /// It has, but a GPU that is divided (MIG) tells it of the parent only.
    #[error("not told of a GPU that is divided by MIG")]
    NotOnMig,
    /// The library is older than the call.
    #[error("this driver's library has no such call")]
    MissingCall,
    /// The call may be made by others only.
    #[error("no permission")]
    NoPermission,
    /// The GPU is gone: fallen off the bus, or reset.
    #[error("the GPU is lost")]
    Lost,
    /// The driver was unloaded or replaced while in use.
    #[error("the driver is not loaded, or not the library's")]
    DriverGone,
    /// The library is there, and is none that this program can load.
    #[error("the library can't be loaded")]
    Unloadable,
    /// The number is none that the unit allows.
    #[error("the reading makes no sense")]
    Senseless,
    /// Another code of NVML.
    #[error("NVML's code {0}")]
    Code(u32),
}

impl Fault {
    /// Gives the fault of a code that NVML returned; success has none, so 0 is [`Fault::Code`] too.
    #[must_use]
    pub fn from_nvml(code: u32) -> Self {
        match code {
            3 => Self::NotSupported,
            4 => Self::NoPermission,
            13 => Self::MissingCall,
            // Fallen off the bus, or to be reset.
            15 | 16 => Self::Lost,
            // Not initialised, not loaded, or replaced by one that is not the library's.
            1 | 9 | 12 | 18 => Self::DriverGone,
            code => Self::Code(code),
        }
    }

    /// Gives the code that NVML has for a fault, 999 (unknown) if it has none.
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
            Self::Senseless => 999,
        }
    }
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A library is not on this machine, or not usable.
    #[error("{operation}: {library}: {why}")]
    Library {
        /// What was asked for.
        operation: &'static str,
        /// Name or path of the library.
        library: String,
        /// What the loader or the library said.
        why: String,
        /// Why it is of no use; none if it is not there.
        fault: Option<Fault>,
    },
    /// Nothing can be sampled.
    #[error("{operation}: {selection:?} is none of this source's {n_devices} devices")]
    NoDevice {
        /// What was asked for.
        operation: &'static str,
        /// What was selected.
        selection: String,
        /// How many devices there are.
        n_devices: usize,
    },
    /// A metric that is needed has no value.
    #[error("{operation}: {metric} of device {device}: {fault}")]
    Unavailable {
        /// What was asked for.
        operation: &'static str,
        /// The metric.
        metric: Metric,
        /// Index of the device.
        device: usize,
        /// Why.
        fault: Fault,
    },
    /// An argument without a meaning.
    #[error("{operation}: {parameter} is {value}, it must be {must}")]
    ParameterInvalid {
        /// What was asked for.
        operation: &'static str,
        /// Name of the argument.
        parameter: &'static str,
        /// What it was.
        value: f64,
        /// What it may be.
        must: &'static str,
    },
    /// Text that is none of the crate's formats.
    #[error("{format}, line {line}: {why}")]
    Text {
        /// Name of the format.
        format: &'static str,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// Somebody wanted it to end.
    #[error("{operation}: cancelled")]
    Cancelled {
        /// What was asked for.
        operation: &'static str,
    },
    /// A part of a sampler failed.
    #[error("{0}")]
    Sampling(Failure),
    /// An endpoint that could not be opened.
    #[error("serve: {address}: {why}")]
    Endpoint {
        /// The address.
        address: std::net::SocketAddr,
        /// The system's error.
        why: std::io::Error,
    },
    /// A file that could not be read or written.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
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
