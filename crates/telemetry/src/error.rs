//! What can go wrong: faults of one metric, which a run survives, and errors, which end an operation.

use crate::Metric;
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
    /// The number is none that the unit allows.
    #[error("the reading makes no sense")]
    Senseless,
    /// Another code of NVML.
    #[error("NVML's code {0}")]
    Code(u32),
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
    },
    /// Nothing can be sampled.
    #[error("{operation}: {selection} is none of this source's {n_devices} devices")]
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
    /// What was to take the rows of a trace failed.
    #[error("sampling: {0}")]
    Sink(std::io::Error),
    /// A file that could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
