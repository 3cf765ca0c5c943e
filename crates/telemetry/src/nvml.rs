//! NVIDIA's management library.
//!
//! Role: the source `nvml`. What each device tells is found out when it is opened; later only that is asked for.
//! Method: a call that a device does not support, or that the library lacks, is asked for once. When a GPU is lost, or
//! the driver is gone, readings say so, and every second the library is loaded anew and the device looked for by its
//! UUID.
//! Source: NVIDIA, "NVML API Reference Guide".
//! Limits: of a GPU that is divided (MIG), what the whole of it tells.

mod clocks;
mod query;
mod raw;

pub use clocks::ClockLock;
pub use query::{Query, bandwidth};

use crate::device::{Capability, Device, Kind, PowerLimits};
use crate::source::{Reading, Source};
use crate::{Error, Fault, Metric, Result, Values};
use nvml_wrapper::Nvml as Library;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use raw::{Handle, Scope};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Fields of the newest power, and of the mean of the last second.
const POWER_INSTANT: u32 = 186;
const POWER_AVERAGE: u32 = 185;
/// What is asked for by one call.
const FIELDS: [(Metric, u32, Scope); 4] = [
    (Metric::PowerInstant, POWER_INSTANT, Scope::Gpu),
    (Metric::PowerAverage, POWER_AVERAGE, Scope::Gpu),
    (Metric::PowerModule, POWER_INSTANT, Scope::Module),
    (Metric::PowerMemory, POWER_INSTANT, Scope::Memory),
];
/// Time between two attempts to find what was lost.
const RECONNECT: Duration = Duration::from_secs(1);
const PER_MILLI: f64 = 1e-3;

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
    /// Of each device; none while it is lost.
    handles: Vec<Option<Handle>>,
    /// When what is lost was last looked for.
    looked: Duration,
}

impl Nvml {
    /// Loads the driver's library.
    ///
    /// # Errors
    /// [`Error::Library`] if there is none, or no driver behind it.
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
        };
        let library = init(path.as_deref()).map_err(refused)?;
        let count = library.device_count().map_err(refused)?;
        let driver = library.sys_driver_version().ok();
        let (mut devices, mut handles) = (vec![], vec![]);
        for index in 0..count {
            // A device that is lost already keeps its index.
            let found = library.device_by_index(index).ok();
            let handle = found.as_ref().map(Handle::of);
            devices.push(describe(index as usize, driver.clone(), &library, handle));
            handles.push(handle);
        }
        Ok(Self {
            path,
            driver,
            library: Some(library),
            devices,
            handles,
            looked: Duration::ZERO,
        })
    }

    /// Gives the driver's version.
    #[must_use]
    pub fn driver(&self) -> Option<&str> {
        self.driver.as_deref()
    }

    /// Loads the library anew, and looks for all devices.
    fn reconnect(&mut self) {
        // The old one must be shut down first: initialisations are counted.
        self.handles.fill(None);
        self.library = None;
        let Ok(library) = init(self.path.as_deref()) else {
            return;
        };
        for (device, handle) in self.devices.iter().zip(&mut self.handles) {
            let found = match &device.uuid {
                Some(uuid) => library.device_by_uuid(uuid.as_str()),
                None => library.device_by_index(u32::try_from(device.index).unwrap_or(u32::MAX)),
            };
            *handle = found.as_ref().ok().map(Handle::of);
        }
        self.library = Some(library);
    }
}

impl Source for Nvml {
    fn name(&self) -> &'static str {
        "nvml"
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn read(&mut self, device: usize, now: Duration) -> Reading {
        let is_lost = self.handles[device].is_none();
        if is_lost && now.saturating_sub(self.looked) >= RECONNECT {
            self.looked = now;
            self.reconnect();
        }
        let capabilities = &self.devices[device].capabilities;
        let told = capabilities
            .iter()
            .filter(|capability| capability.fault.is_none());
        let told: Vec<Metric> = told.map(|capability| capability.metric).collect();
        let (Some(library), Some(handle)) = (&self.library, self.handles[device]) else {
            let fault = if self.library.is_some() {
                Fault::Lost
            } else {
                Fault::DriverGone
            };
            return Reading {
                values: Values::none(),
                faults: told.into_iter().map(|metric| (metric, fault)).collect(),
            };
        };
        let (mut values, mut faults) = (Values::none(), vec![]);
        let answers = ask(library, handle, |metric| told.contains(&metric));
        for (metric, answer) in answers {
            match answer {
                Ok(value) => values.set(metric, value),
                Err(fault) => faults.push((metric, fault)),
            }
        }
        let is_gone =
            |(_, fault): &(Metric, Fault)| matches!(fault, Fault::Lost | Fault::DriverGone);
        if faults.iter().any(is_gone) {
            self.handles[device] = None;
            self.looked = now;
        }
        Reading { values, faults }
    }
}

type Answer = std::result::Result<f64, Fault>;

/// Asks a device for what is wanted, and gives its answers; calls that tell two metrics are made once.
fn ask(library: &Library, handle: Handle, wants: impl Fn(Metric) -> bool) -> Vec<(Metric, Answer)> {
    let device = handle.device(library);
    let mut answers = vec![];
    let mut add = |metrics: &[Metric], values: &dyn Fn() -> Vec<Answer>| {
        if metrics.iter().any(|&metric| wants(metric)) {
            let told = metrics.iter().copied().zip(values());
            answers.extend(told.filter(|&(metric, _)| wants(metric)));
        }
    };
    let milli = |value: std::result::Result<u32, NvmlError>| match value {
        Ok(value) => Ok(f64::from(value) * PER_MILLI),
        Err(error) => Err(fault(&error)),
    };
    let plain = |value: std::result::Result<u32, NvmlError>| match value {
        Ok(value) => Ok(f64::from(value)),
        Err(error) => Err(fault(&error)),
    };
    add(&FIELDS.map(|(metric, ..)| metric), &|| match handle
        .fields(library, FIELDS.map(|(_, id, scope)| (id, scope)))
    {
        Ok(fields) => fields
            .into_iter()
            .map(|field| field.map_err(|error| fault(&error)))
            .map(|field| Ok(field? as f64 * PER_MILLI))
            .collect(),
        Err(error) => vec![Err(fault(&error)); FIELDS.len()],
    });
    add(&[Metric::PowerDraw], &|| vec![milli(device.power_usage())]);
    add(&[Metric::PowerLimit], &|| {
        vec![milli(device.enforced_power_limit())]
    });
    add(&[Metric::Energy], &|| {
        let energy = device.total_energy_consumption();
        vec![energy.map_or_else(|error| Err(fault(&error)), |mj| Ok(mj as f64 * PER_MILLI))]
    });
    add(&[Metric::Temperature], &|| {
        vec![match handle.temperature(library) {
            Ok(degrees) => Ok(f64::from(degrees)),
            // The older call, which drivers keep for as long as they can.
            Err(_) => plain(device.temperature(TemperatureSensor::Gpu)),
        }]
    });
    add(
        &[Metric::GpuBusy, Metric::MemoryBusy],
        &|| match device.utilization_rates() {
            Ok(busy) => vec![Ok(busy.gpu.into()), Ok(busy.memory.into())],
            Err(error) => vec![Err(fault(&error)); 2],
        },
    );
    add(
        &[Metric::MemoryTotal, Metric::MemoryUsed],
        &|| match handle.memory(library) {
            Ok(bytes) => bytes.map(|bytes| Ok(bytes as f64)).to_vec(),
            Err(error) => vec![Err(fault(&error)); 2],
        },
    );
    add(&[Metric::SmClock], &|| {
        vec![plain(device.clock_info(Clock::SM))]
    });
    add(&[Metric::MemoryClock], &|| {
        vec![plain(device.clock_info(Clock::Memory))]
    });
    add(&[Metric::PerformanceState], &|| {
        vec![match device.performance_state() {
            Ok(state) => Ok(f64::from(state.as_c())),
            Err(error) => Err(fault(&error)),
        }]
    });
    add(&[Metric::ClockReasons], &|| {
        let older = |_| {
            device
                .current_throttle_reasons()
                .map(|reasons| reasons.bits())
        };
        let reasons = handle.event_reasons(library).or_else(older);
        vec![reasons.map_or_else(|error| Err(fault(&error)), |bits| Ok(bits as f64))]
    });
    answers
}

/// Finds out what a device is and what it tells.
fn describe(
    index: usize,
    driver: Option<String>,
    library: &Library,
    handle: Option<Handle>,
) -> Device {
    let device = handle.map(|handle| handle.device(library));
    let device = device.as_ref();
    let watts = |milliwatts: Option<u32>| milliwatts.map(|mw| f64::from(mw) * PER_MILLI);
    let constraints = device.and_then(|d| d.power_management_limit_constraints().ok());
    let is_mig = device
        .and_then(|device| device.mig_mode().ok())
        .is_some_and(|mode| mode.current != 0);
    let answers = handle.map_or_else(Vec::new, |handle| ask(library, handle, |_| true));
    let has_temperature_v = handle.is_some_and(|handle| handle.temperature(library).is_ok());
    let has_event_reasons = handle.is_some_and(|handle| handle.event_reasons(library).is_ok());
    let capability = |metric: Metric| {
        let answer = answers.iter().find(|(asked, _)| *asked == metric);
        let fault = answer.map_or(Some(Fault::Lost), |(_, answer)| answer.err());
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
                Some(Fault::Lost | Fault::DriverGone | Fault::Code(_)) => None,
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

/// Gives the call, and the field, that a metric comes from.
fn field(metric: Metric) -> &'static str {
    match metric {
        Metric::PowerInstant => "nvmlDeviceGetFieldValues 186",
        Metric::PowerAverage => "nvmlDeviceGetFieldValues 185",
        Metric::PowerModule => "nvmlDeviceGetFieldValues 186, scope 1",
        Metric::PowerMemory => "nvmlDeviceGetFieldValues 186, scope 2",
        Metric::PowerDraw => "nvmlDeviceGetPowerUsage",
        Metric::PowerLimit => "nvmlDeviceGetEnforcedPowerLimit",
        Metric::Energy => "nvmlDeviceGetTotalEnergyConsumption",
        Metric::Temperature => "nvmlDeviceGetTemperatureV",
        Metric::GpuBusy => "nvmlDeviceGetUtilizationRates gpu",
        Metric::MemoryBusy => "nvmlDeviceGetUtilizationRates memory",
        Metric::MemoryUsed => "nvmlDeviceGetMemoryInfo used",
        Metric::MemoryTotal => "nvmlDeviceGetMemoryInfo total",
        Metric::SmClock => "nvmlDeviceGetClockInfo SM",
        Metric::MemoryClock => "nvmlDeviceGetClockInfo memory",
        Metric::PerformanceState => "nvmlDeviceGetPerformanceState",
        Metric::ClockReasons => "nvmlDeviceGetCurrentClocksEventReasons",
    }
}

fn fault(error: &NvmlError) -> Fault {
    match error {
        NvmlError::UnexpectedVariant(_) | NvmlError::IncorrectBits(_) => Fault::Senseless,
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

fn name_of(path: Option<&Path>) -> String {
    path.map_or_else(|| DEFAULT.to_owned(), |path| path.display().to_string())
}

/// Name of the library, where the loader finds it.
const DEFAULT: &str = if cfg!(windows) {
    "nvml.dll"
} else {
    "libnvidia-ml.so.1"
};
