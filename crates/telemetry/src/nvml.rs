//! NVIDIA's management library.
//!
//! Role: the source `nvml`. What each device tells is found out when it is opened; later only that is asked for.
//! Method: a call that a device does not support, or that the library lacks, is asked for once. When a GPU is lost, or
//! the driver is gone, readings say so, and the library is loaded anew and devices told by their UUID: after a second, and
//! ever less often, since that takes time from the GPUs that are there. A GPU that may not be opened is not asked again.
//! Source: NVIDIA, "NVML API Reference Guide".
//! Limits: of a GPU that is divided (MIG), what the whole of it tells. A GPU that is lost while the library is opened has
//! neither name nor limits when it comes back.

mod clocks;
mod lookout;
mod metrics;
mod query;
mod raw;

pub use clocks::ClockLock;
pub use query::{Query, bandwidth, cores_per_multiprocessor};

use crate::device::{Capability, Device, Kind, PowerLimits};
use crate::source::{Reading, Source};
use crate::{Error, Fault, Metric, Result, Values};
use lookout::Lookout;
use metrics::{PER_MILLI, ask, field};
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
///     // A machine without a driver says so; nothing else fails.
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), telemetry::Error>(())
/// ```
#[derive(Debug)]
pub struct Nvml {
    path: Option<PathBuf>,
    driver: Option<String>,
    /// None while the driver is gone.
    library: Option<Library>,
    devices: Vec<Device>,
    /// Of each device, whether it tells a metric.
    told: Vec<[bool; Metric::COUNT]>,
    handles: Vec<Opened>,
    /// Of each device, when to look for it.
    lookouts: Vec<Lookout>,
}

/// The handle of a device, or why there is none.
type Opened = std::result::Result<Handle, Fault>;

impl Nvml {
    /// Loads the driver's library.
    ///
    /// # Errors
    /// [`Error::Library`] if there is none, or no driver behind it. A GPU that can't be opened is a device all the same, whose
    /// metrics have that fault.
    pub fn open() -> Result<Self> {
        Self::load(None)
    }

    /// Loads a library from a path: where a container keeps it, or one that plays a GPU.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_at(path: &Path) -> Result<Self> {
        Self::load(Some(path.to_owned()))
    }

    fn load(path: Option<PathBuf>) -> Result<Self> {
        let refused = |error: NvmlError| Error::Library {
            operation: "Nvml::open",
            library: name_of(path.as_deref()),
            why: error.to_string(),
            fault: (!is_absent(path.as_deref(), &error)).then(|| fault(&error)),
        };
        let library = init(path.as_deref()).map_err(refused)?;
        let count = library.device_count().map_err(refused)?;
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
            told: devices.iter().map(told).collect(),
            devices,
            handles,
            lookouts: vec![Lookout::default(); count as usize],
        })
    }

    /// Gives the driver's version.
    #[must_use]
    pub fn driver(&self) -> Option<&str> {
        self.driver.as_deref()
    }

    /// Loads the library anew, and looks for all devices.
    ///
    /// They are looked for by index and told by their UUID: to ask for a UUID fails as soon as any GPU is lost.
    fn reconnect(&mut self) {
        // The old one must be shut down first: initialisations are counted.
        self.library = None;
        let library = init(self.path.as_deref());
        let count = library.as_ref().map_or(Ok(0), Library::device_count);
        let gone = if library.is_ok() && count.is_ok() {
            Fault::Lost
        } else {
            Fault::DriverGone
        };
        for handle in self.handles.iter_mut().filter(|handle| !is_refused(handle)) {
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
                // One that was lost from the beginning told none.
                None => device.index == index as usize,
            };
            if let Some(device) = self.devices.iter().find(is_it) {
                self.handles[device.index] = Ok(Handle::of(&found));
            }
        }
    }
}

/// Gives the handle of a device that was found, or why it was not.
fn opened(found: std::result::Result<nvml_wrapper::Device<'_>, NvmlError>) -> Opened {
    match found {
        Ok(device) => Ok(Handle::of(&device)),
        Err(error) => Err(match fault(&error) {
            known @ (Fault::NoPermission | Fault::NotSupported | Fault::DriverGone) => known,
            // Fallen off the bus, or its UUID is none of those that are there.
            _ => Fault::Lost,
        }),
    }
}

/// Whether it is no use to look for a device again.
fn is_refused(handle: &Opened) -> bool {
    matches!(handle, Err(Fault::NoPermission | Fault::NotSupported))
}

/// Whether a device is to be looked for.
fn is_lost(handle: &Opened) -> bool {
    handle.is_err() && !is_refused(handle)
}

impl Source for Nvml {
    fn name(&self) -> &'static str {
        "nvml"
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn read(&mut self, device: usize, now: Duration) -> Reading {
        if is_lost(&self.handles[device]) && self.lookouts[device].is_due(now) {
            self.reconnect();
        }
        let told = &self.told[device];
        let is_told = |metric: Metric| told[metric as usize];
        let (library, handle) = match (&self.library, self.handles[device]) {
            (Some(library), Ok(handle)) => (library, handle),
            (_, handle) => {
                let fault = handle.err().unwrap_or(Fault::DriverGone);
                return Reading {
                    values: Values::none(),
                    faults: Metric::ALL
                        .into_iter()
                        .filter(|&metric| is_told(metric))
                        .map(|metric| (metric, fault))
                        .collect(),
                };
            }
        };
        let (mut values, mut faults) = (Values::none(), vec![]);
        ask(library, handle, is_told, |metric, answer| match answer {
            _ if !is_told(metric) => {}
            Ok(value) => values.set(metric, value),
            Err(fault) => faults.push((metric, fault)),
        });
        let is_gone =
            |&&(_, fault): &&(Metric, Fault)| matches!(fault, Fault::Lost | Fault::DriverGone);
        // A device of which nothing can be read is gone, whatever the driver calls it.
        let nothing = faults.first().filter(|_| values == Values::none());
        match faults.iter().find(is_gone).or(nothing) {
            Some(&(_, fault)) => {
                self.handles[device] = Err(if fault == Fault::DriverGone {
                    fault
                } else {
                    Fault::Lost
                });
                self.lookouts[device].lost(now);
            }
            None => self.lookouts[device] = Lookout::default(),
        }
        Reading { values, faults }
    }
}

/// Gives whether a device tells a metric, for each of them.
fn told(device: &Device) -> [bool; Metric::COUNT] {
    Metric::ALL.map(|metric| device.field(metric).is_some())
}

/// Finds out what a device is and what it tells.
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
        ask(library, handle, everything, |metric, answer| {
            answers.push((metric, answer));
        });
    }
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
                // What may come back is asked for again.
                Some(Fault::Lost | Fault::DriverGone | Fault::Senseless | Fault::Code(_)) => None,
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

fn fault(error: &NvmlError) -> Fault {
    match error {
        NvmlError::UnexpectedVariant(_) | NvmlError::IncorrectBits(_) => Fault::Senseless,
        NvmlError::LibloadingError(_) => Fault::Unloadable,
        other => Fault::from_nvml(code(other)),
    }
}

/// Gives NVML's number of an error, which the wrapper gave a name; 999 of what has none.
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

fn init(path: Option<&Path>) -> std::result::Result<Library, NvmlError> {
    match path {
        Some(path) => Library::builder().lib_path(path.as_os_str()).init(),
        None => Library::builder().lib_path(OsStr::new(DEFAULT)).init(),
    }
}

/// Whether a library can't be loaded because there is none.
fn is_absent(path: Option<&Path>, error: &NvmlError) -> bool {
    let NvmlError::LibloadingError(why) = error else {
        return false;
    };
    match path {
        Some(path) => !path.exists(),
        // The loader knows where it looked, and says what it found there.
        None => cfg!(windows) || why.to_string().contains("No such file"),
    }
}

fn name_of(path: Option<&Path>) -> String {
    path.map_or_else(|| DEFAULT.to_owned(), |path| path.display().to_string())
}

/// Name of the library, where the loader finds it.
const DEFAULT: &str = if cfg!(windows) {
    "nvml.dll"
} else {
    "libnvidia-ml.so.1"
};
