//! Source of GPU readings from NVIDIA's management library (NVML).
//!
//! Role: the source `nvml`. Opening it determines which metrics each device supports; later
//! readings query only these metrics.
//! Method: a call that a device does not support, or that the library lacks, is tried once. When a
//! GPU is lost or the driver is unloaded, readings contain that fault. The library is then loaded
//! again and devices are identified by their UUID: first after one second, then with growing
//! pauses, because reloading delays the readings of the other GPUs. A GPU that cannot be
//! opened for lack of permission or support is not tried again.
//! Source: NVIDIA, "NVML API Reference Guide".
//! Limits: a partitioned GPU (MIG) is read as a whole, not per instance. A GPU that is lost while
//! the library is opened has neither a name nor limits when it comes back.

mod backoff;
mod clocks;
mod metrics;
mod query;
mod raw;

pub use clocks::ClockLock;
pub use query::{Query, bandwidth, cores_per_multiprocessor};

use crate::device::{Capability, Device, Kind, PowerLimits};
use crate::source::{Reading, Source};
use crate::{Error, Fault, Metric, Result, Values};
use backoff::Backoff;
use metrics::{PER_MILLI, field, query};
use nvml_wrapper::Nvml as Library;
use nvml_wrapper::error::NvmlError;
use raw::Handle;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The GPUs of NVIDIA's driver.
///
/// # Examples
/// ```
/// use telemetry::{Sampler, nvml::Nvml};
///
/// match Nvml::open() {
///     Ok(nvml) => {
///         let running = Sampler::new(nvml).start()?;
///         // …
///         let trace = running.stop().trace;
///         assert!(!trace.rows.is_empty());
///     }
///     // A machine without a driver returns an error.
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), telemetry::Error>(())
/// ```
#[derive(Debug)]
pub struct Nvml {
    path: Option<PathBuf>,
    driver: Option<String>,
    /// The loaded library; `None` while the driver is unavailable.
    library: Option<Library>,
    devices: Vec<Device>,
    /// Supported metrics of each device, indexed by [`Metric`].
    reported: Vec<[bool; Metric::COUNT]>,
    handles: Vec<Opened>,
    /// Times of the next attempts to find each lost device.
    backoffs: Vec<Backoff>,
}

/// The handle of a device, or the fault because of which there is no handle.
type Opened = std::result::Result<Handle, Fault>;

impl Nvml {
    /// Loads the driver's library from the dynamic loader's search path.
    ///
    /// # Errors
    /// [`Error::Library`] if the library or the driver is missing or does not work. A GPU that
    /// cannot be opened is no error: it is listed as a device, and each of its metrics has the
    /// fault because of which it could not be opened.
    pub fn open() -> Result<Self> {
        Self::load(None)
    }

    /// Loads the library from a path, such as the path in a container or of a simulated library. A
    /// relative path, also one without a folder, starts at the current folder.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_at(path: &Path) -> Result<Self> {
        // The dynamic loader would look for a name without a folder in its search path.
        let is_name = path.parent() == Some(Path::new(""));
        let folder = Path::new(if is_name { "." } else { "" });
        Self::load(Some(folder.join(path)))
    }

    fn load(path: Option<PathBuf>) -> Result<Self> {
        let library_error = |error: NvmlError| Error::Library {
            operation: "Nvml::open",
            library: name_of(path.as_deref()),
            why: error.to_string(),
            fault: (!is_absent(path.as_deref(), &error)).then(|| fault(&error)),
        };
        let library = init(path.as_deref()).map_err(library_error)?;
        let count = library.device_count().map_err(library_error)?;
        let driver = library.sys_driver_version().ok();
        let (mut devices, mut handles) = (vec![], vec![]);
        for index in 0..count {
            let handle = opened(library.device_by_index(index));
            devices.push(describe(index as usize, driver.clone(), &library, handle));
            handles.push(handle);
        }
        Ok(Self {
            path,
            driver,
            library: Some(library),
            reported: devices.iter().map(reported).collect(),
            devices,
            handles,
            backoffs: vec![Backoff::default(); count as usize],
        })
    }

    /// Returns the driver's version, or `None` if the version is unknown.
    #[must_use]
    pub fn driver(&self) -> Option<&str> {
        self.driver.as_deref()
    }

    /// Loads the library again and looks for all devices.
    ///
    /// Devices are opened by index and then identified by their UUID. Opening a device by UUID
    /// would fail for every device as soon as one GPU is lost.
    fn reconnect(&mut self) {
        // Shut the old library down first: NVML counts initialisations and would not start afresh.
        self.library = None;
        let library = init(self.path.as_deref());
        let count = library.as_ref().map_or(Ok(0), Library::device_count);
        let gone = if library.is_ok() && count.is_ok() {
            Fault::Lost
        } else {
            Fault::DriverGone
        };
        for handle in self
            .handles
            .iter_mut()
            .filter(|handle| !is_permanent(handle))
        {
            *handle = Err(gone);
        }
        self.library = library.ok();
        for index in 0..count.unwrap_or(0) {
            let found = self
                .library
                .as_ref()
                .map(|library| library.device_by_index(index));
            let Some(Ok(found)) = found else { continue };
            let uuid = found.uuid().ok();
            let is_it = |device: &&Device| match &device.uuid {
                Some(known) => Some(known) == uuid.as_ref(),
                // A device that was lost when the source was opened has no known UUID.
                None => device.index == index as usize,
            };
            if let Some(device) = self.devices.iter().find(is_it) {
                self.handles[device.index] = Ok(Handle::new(&found));
            }
        }
    }
}

/// Returns the handle of a device, or the fault because of which it could not be opened.
fn opened(found: std::result::Result<nvml_wrapper::Device<'_>, NvmlError>) -> Opened {
    match found {
        Ok(device) => Ok(Handle::new(&device)),
        Err(error) => Err(match fault(&error) {
            known @ (Fault::NoPermission | Fault::NotSupported | Fault::DriverGone) => known,
            // Fallen off the bus, or not found.
            _ => Fault::Lost,
        }),
    }
}

/// Returns whether a device failed permanently, so that there is no point in trying again.
fn is_permanent(handle: &Opened) -> bool {
    matches!(handle, Err(Fault::NoPermission | Fault::NotSupported))
}

/// Returns whether a device is lost and should be looked for again.
fn is_lost(handle: &Opened) -> bool {
    handle.is_err() && !is_permanent(handle)
}

impl Source for Nvml {
    fn name(&self) -> &'static str {
        "nvml"
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn read(&mut self, device: usize, now: Duration) -> Reading {
        if is_lost(&self.handles[device]) && self.backoffs[device].is_due(now) {
            self.reconnect();
        }
        let reported = &self.reported[device];
        let is_reported = |metric: Metric| reported[metric as usize];
        let (library, handle) = match (&self.library, self.handles[device]) {
            (Some(library), Ok(handle)) => (library, handle),
            (_, handle) => {
                let fault = handle.err().unwrap_or(Fault::DriverGone);
                return Reading {
                    values: Values::none(),
                    faults: Metric::ALL
                        .into_iter()
                        .filter(|&metric| is_reported(metric))
                        .map(|metric| (metric, fault))
                        .collect(),
                };
            }
        };
        // `query` may report a metric that was not requested, if one call returns several metrics.
        let (mut values, mut faults) = (Values::none(), vec![]);
        query(
            library,
            handle,
            is_reported,
            |metric, answer| match answer {
                _ if !is_reported(metric) => {}
                Ok(value) => values.set(metric, value),
                Err(fault) => faults.push((metric, fault)),
            },
        );
        let is_gone =
            |&&(_, fault): &&(Metric, Fault)| matches!(fault, Fault::Lost | Fault::DriverGone);
        // A device without a single readable metric is lost, whatever code the driver returns.
        let nothing = faults.first().filter(|_| values == Values::none());
        match faults.iter().find(is_gone).or(nothing) {
            Some(&(_, fault)) => {
                self.handles[device] = Err(if fault == Fault::DriverGone {
                    fault
                } else {
                    Fault::Lost
                });
                self.backoffs[device].lost(now);
            }
            None => self.backoffs[device] = Backoff::default(),
        }
        Reading { values, faults }
    }
}

/// Returns which metrics a device supports, indexed by metric.
fn reported(device: &Device) -> [bool; Metric::COUNT] {
    Metric::ALL.map(|metric| device.field(metric).is_some())
}

/// Determines the properties of a device and the metrics that it supports.
///
/// Each metric is queried once. The fault of a failed query is stored as the reason why the metric
/// is unsupported, unless the fault may be temporary.
fn describe(index: usize, driver: Option<String>, library: &Library, opened: Opened) -> Device {
    let handle = opened.ok();
    let device = handle.map(|handle| handle.device(library));
    let device = device.as_ref();
    let watts = |milliwatts: Option<u32>| milliwatts.map(|mw| f64::from(mw) * PER_MILLI);
    let constraints = device.and_then(|d| d.power_management_limit_constraints().ok());
    let is_mig = device
        .and_then(|device| device.mig_mode().ok())
        .is_some_and(|mode| mode.current != 0);
    let mut answers = vec![];
    if let Some(handle) = handle {
        let everything = |_| true;
        query(library, handle, everything, |metric, answer| {
            answers.push((metric, answer));
        });
    }
    // Two metrics have a fallback call for older drivers; the field should name the call in use.
    let has_temperature_v = handle.is_some_and(|handle| handle.temperature(library).is_ok());
    let has_event_reasons = handle.is_some_and(|handle| handle.event_reasons(library).is_ok());
    let capability = |metric: Metric| {
        let answer = answers.iter().find(|(asked, _)| *asked == metric);
        let fault = answer.map_or(opened.err(), |(_, answer)| answer.err());
        Capability {
            metric,
            field: match metric {
                Metric::Temperature if !has_temperature_v => "nvmlDeviceGetTemperature",
                Metric::ClockReasons if !has_event_reasons => {
                    "nvmlDeviceGetCurrentClocksThrottleReasons"
                }
                _ => field(metric),
            }
            .to_owned(),
            fault: match fault {
                Some(Fault::NotSupported) if is_mig => Some(Fault::NotOnMig),
                // These faults may be temporary, so the metric counts as supported.
                Some(Fault::Lost | Fault::DriverGone | Fault::InvalidReading | Fault::Code(_)) => {
                    None
                }
                other => other,
            },
        }
    };
    Device {
        index,
        kind: Kind::Gpu,
        name: device.and_then(|d| d.name().ok()).unwrap_or_default(),
        uuid: device.and_then(|d| d.uuid().ok()),
        pci: device.and_then(|d| d.pci_info().ok()).map(|pci| pci.bus_id),
        driver,
        architecture: device
            .and_then(|d| d.architecture().ok())
            .map(|architecture| architecture.to_string()),
        limits: PowerLimits {
            set_w: watts(device.and_then(|d| d.power_management_limit().ok())),
            default_w: watts(device.and_then(|d| d.power_management_limit_default().ok())),
            min_w: watts(constraints.as_ref().map(|limits| limits.min_limit)),
            max_w: watts(constraints.as_ref().map(|limits| limits.max_limit)),
        },
        is_mig,
        capabilities: Metric::ALL.map(capability).to_vec(),
    }
}

/// Converts an error of the wrapper crate to a fault.
fn fault(error: &NvmlError) -> Fault {
    match error {
        NvmlError::UnexpectedVariant(_) | NvmlError::IncorrectBits(_) => Fault::InvalidReading,
        NvmlError::LibloadingError(_) => Fault::Unloadable,
        other => Fault::from_nvml(code(other)),
    }
}

/// Returns the NVML return code for an error of the wrapper crate, or 999 (unknown) by default.
fn code(error: &NvmlError) -> u32 {
    const UNKNOWN: u32 = 999;
    match error {
        NvmlError::Uninitialized => 1,
        NvmlError::InvalidArg => 2,
        NvmlError::NotSupported => 3,
        NvmlError::NoPermission => 4,
        NvmlError::NotFound => 6,
        NvmlError::InsufficientSize(_) => 7,
        NvmlError::InsufficientPower => 8,
        NvmlError::DriverNotLoaded => 9,
        NvmlError::Timeout => 10,
        NvmlError::IrqIssue => 11,
        NvmlError::LibraryNotFound => 12,
        NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => 13,
        NvmlError::CorruptedInfoROM => 14,
        NvmlError::GpuLost => 15,
        NvmlError::ResetRequired => 16,
        NvmlError::OperatingSystem => 17,
        NvmlError::LibRmVersionMismatch => 18,
        NvmlError::InUse => 19,
        NvmlError::InsufficientMemory => 20,
        NvmlError::NoData => 21,
        _ => UNKNOWN,
    }
}

/// Loads and initialises the library at a path, or the default library.
fn init(path: Option<&Path>) -> std::result::Result<Library, NvmlError> {
    match path {
        Some(path) => Library::builder().lib_path(path.as_os_str()).init(),
        None => Library::builder().lib_path(OsStr::new(DEFAULT)).init(),
    }
}

/// Returns whether loading failed because the library does not exist.
fn is_absent(path: Option<&Path>, error: &NvmlError) -> bool {
    let NvmlError::LibloadingError(why) = error else {
        return false;
    };
    match path {
        Some(path) => !path.exists(),
        // Only the loader has the search path, so its message shows whether it found a file.
        None => cfg!(windows) || why.to_string().contains("No such file"),
    }
}

fn name_of(path: Option<&Path>) -> String {
    path.map_or_else(|| DEFAULT.to_owned(), |path| path.display().to_string())
}

/// File name of the library in the dynamic loader's search path.
const DEFAULT: &str = if cfg!(windows) {
    "nvml.dll"
} else {
    "libnvidia-ml.so.1"
};
