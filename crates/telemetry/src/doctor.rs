//! Checks of a machine: readable power and energy sensors, and compatible CUDA components.
//!
//! Role: produces findings with stable ids, which scripts can match. `cargo xtask doctor` prints
//! them together with findings of its own.
//! Method: reads only; changes nothing and starts no program. A missing component is not a fault. A
//! component that exists but does not work, or is incompatible with another one, is a fault.
//! Unknown compatibility is a warning.

pub mod image;
pub mod toolkit;

use crate::nvml::{Nvml, Query};
use crate::rapl::Rapl;
use crate::source::{Reading, Source};
use crate::{Device, Error, Fault, Metric, Result, Values};
use image::{Host, ImageError};
use serde::Serialize;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toolkit::{Driver, Mismatch, Version};

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable id of the check, such as `gpu.0.sensor`.
    pub id: String,
    /// Outcome of the check.
    pub state: Status,
    /// Description of the component, or of the problem with its remedy.
    pub detail: String,
}

/// The outcome of a check, ordered from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The component exists and works.
    Found,
    /// The component does not exist, and is optional.
    Missing,
    /// The component works, but its state may affect measurements or speed, or is unknown.
    Warning,
    /// The component exists but does not work or is incompatible.
    Failed,
}

/// Locations and descriptions of the components to check.
#[derive(Clone, Debug)]
pub struct SystemPaths {
    /// Path of the NVML library; `None` uses the dynamic loader's search path.
    pub nvml: Option<PathBuf>,
    /// Folder of the RAPL domains; `None` is `/sys/class/powercap`.
    pub rapl: Option<PathBuf>,
    /// Folders of CUDA toolkits; the first one with a readable version is checked.
    pub toolkits: Vec<PathBuf>,
    /// CUDA requirement of this container's image, in the syntax of `NVIDIA_REQUIRE_CUDA`.
    pub image: Option<String>,
    /// Names and versions of frameworks, such as `torch` and `2.1.0+cu118`.
    pub frameworks: Vec<(String, String)>,
}

impl Finding {
    /// Creates a finding.
    #[must_use]
    pub fn new(id: impl Into<String>, state: Status, detail: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            state,
            detail: detail.into(),
        }
    }
}

impl Default for SystemPaths {
    /// Returns the usual locations.
    ///
    /// Toolkits are searched in `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`. The image's
    /// requirement is `NVIDIA_REQUIRE_CUDA`, unless `NVIDIA_DISABLE_REQUIRE` is `1` or `true`.
    /// There are no frameworks.
    fn default() -> Self {
        let named = ["CUDA_HOME", "CUDA_PATH"]
            .into_iter()
            .filter_map(env::var_os);
        let mut toolkits: Vec<PathBuf> = named.map(PathBuf::from).collect();
        toolkits.push("/usr/local/cuda".into());
        toolkits.dedup();
        Self {
            nvml: None,
            rapl: None,
            toolkits,
            image: env::var("NVIDIA_REQUIRE_CUDA")
                .ok()
                .filter(|_| !is_disabled()),
            frameworks: vec![],
        }
    }
}

/// Checks this machine with the default [`SystemPaths`]. A missing component is a finding, not an
/// error.
#[must_use]
pub fn doctor() -> Vec<Finding> {
    examine(&SystemPaths::default())
}

/// Checks the components at the given locations.
#[must_use]
pub fn examine(places: &SystemPaths) -> Vec<Finding> {
    let mut findings = vec![];
    let mut nvml = places
        .nvml
        .as_deref()
        .map_or_else(Nvml::open, Nvml::open_at);
    match &mut nvml {
        Ok(nvml) => gpus(nvml, &mut findings),
        Err(error) => findings.push(unopened(error)),
    }
    let nvml = nvml.ok();
    toolkits(places, nvml.as_ref(), &mut findings);
    if let (Some(condition), Some(nvml)) = (&places.image, &nvml) {
        findings.push(of_image(condition, nvml));
    }
    let rapl = places
        .rapl
        .as_deref()
        .map_or_else(Rapl::open, Rapl::open_at);
    findings.push(of_rapl(rapl));
    findings
}

/// Returns whether the container toolkit's check of the image's requirement is disabled.
fn is_disabled() -> bool {
    let said = env::var("NVIDIA_DISABLE_REQUIRE").unwrap_or_default();
    ["1", "true"].contains(&said.to_ascii_lowercase().as_str())
}

/// Returns the finding for an NVML library that could not be opened: missing, or present but
/// broken.
fn unopened(error: &Error) -> Finding {
    match error {
        Error::Library {
            fault: Some(fault), ..
        } => {
            let detail = format!("{error}; {}", remedy(*fault));
            Finding::new("nvml", Status::Failed, detail)
        }
        _ => Finding::new("nvml", Status::Missing, error.to_string()),
    }
}

/// Returns the remedy for a fault of the driver or of a whole GPU.
fn remedy(fault: Fault) -> &'static str {
    match fault {
        Fault::NoPermission => {
            "let this user open /dev/nvidia*; start a container with its GPUs: --gpus all"
        }
        Fault::DriverGone => {
            "load the driver (modprobe nvidia as root); after an update while in use, restart the machine"
        }
        Fault::Lost => {
            "restart the machine; if the GPU is lost again, see the kernel log: dmesg | grep Xid"
        }
        Fault::MissingCall => "update the driver: its library is too old",
        Fault::Unloadable => {
            "reinstall the driver's library: it is damaged or built for another architecture"
        }
        _ => "see the kernel log: dmesg | grep NVRM",
    }
}

/// Adds the findings of the driver and of each GPU.
fn gpus(nvml: &mut Nvml, findings: &mut Vec<Finding>) {
    let driver = nvml.driver().unwrap_or("unknown");
    let cuda = cuda_of(nvml).map_or("unknown".to_owned(), |cuda| cuda.to_string());
    let n_devices = nvml.devices().len();
    let detail = format!("driver {driver}, CUDA {cuda}, GPUs: {n_devices}");
    findings.push(Finding::new("nvml", Status::Found, detail));
    for index in 0..n_devices {
        let reading = nvml.read(index, Duration::ZERO);
        let device = &nvml.devices()[index];
        let id = |part: &str| format!("gpu.{index}.{part}");
        if let Some(fault) = unreachable(device, &reading) {
            let detail = format!("reports no metrics: {fault}; {}", remedy(fault));
            findings.push(Finding::new(id("device"), Status::Failed, detail));
            continue;
        }
        let query = nvml.query(index);
        findings.push(Finding::new(id("device"), Status::Found, described(&query)));
        findings.push(of_metrics(&id("metrics"), device));
        findings.push(of_sensor(&id("sensor"), device));
        if query.is_persistent == Some(false) {
            let why = "off: each reading of an unused GPU may initialize the GPU again; to turn it on: \
                nvidia-smi -pm 1 as root";
            findings.push(Finding::new(id("persistence"), Status::Warning, why));
        }
        if query.is_mig == Some(true) {
            let why =
                "MIG is enabled: no utilisation is reported, power and energy are of the whole GPU";
            findings.push(Finding::new(id("mig"), Status::Warning, why));
        }
    }
}

/// Returns the fault because of which a device reports no metric at all.
///
/// Returns `None` if the device has a value, or if it has none only because it lacks sensors.
fn unreachable(device: &Device, reading: &Reading) -> Option<Fault> {
    let is_fatal =
        |fault: &Fault| matches!(fault, Fault::NoPermission | Fault::Lost | Fault::DriverGone);
    if reading.values != Values::none() {
        return None;
    }
    // Faults found when the source was opened come before those of this reading.
    let lasting = device
        .capabilities
        .iter()
        .filter_map(|reported| reported.fault);
    let passing = reading.faults.iter().map(|(_, fault)| *fault);
    lasting.chain(passing).find(is_fatal)
}

/// Formats the known properties of a GPU as a list.
fn described(query: &Query) -> String {
    let mut parts = vec![query.name.clone().unwrap_or_else(|| "unnamed".to_owned())];
    if let Some((major, minor)) = query.compute_capability {
        parts.push(format!("compute capability {major}.{minor}"));
    }
    parts.extend(
        query
            .multiprocessors
            .map(|count| format!("{count} multiprocessors")),
    );
    parts.extend(
        query
            .bandwidth_gb_s
            .map(|rate| format!("{rate:.3} GB/s at most")),
    );
    parts.extend(
        query
            .memory_bytes
            .map(|bytes| format!("{bytes} B of memory")),
    );
    parts.extend(
        query
            .power_limit_w
            .map(|watts| format!("power limit {watts} W")),
    );
    parts.join(", ")
}

/// Returns the finding on supported metrics, with the reason for each missing metric.
fn of_metrics(id: &str, device: &Device) -> Finding {
    let missing = device.capabilities.iter().filter_map(|capability| {
        let fault = capability.fault?;
        Some(format!(
            "{} ({}): {fault}",
            capability.metric, capability.field
        ))
    });
    let missing: Vec<String> = missing.collect();
    let n_reported = device.capabilities.len() - missing.len();
    if missing.is_empty() {
        return Finding::new(
            id,
            Status::Found,
            format!("all {n_reported} metrics are reported"),
        );
    }
    let detail = format!(
        "{n_reported} metrics are reported; missing: {}",
        missing.join("; ")
    );
    // Energy needs either the energy counter or a power metric to integrate.
    let state = if device.reports_energy() {
        Status::Found
    } else {
        Status::Failed
    };
    Finding::new(id, state, detail)
}

/// Returns the finding on averaging window and update interval of each power sensor.
fn of_sensor(id: &str, device: &Device) -> Finding {
    let reported = Metric::POWERS
        .into_iter()
        .filter(|&metric| device.field(metric).is_some());
    let known: Vec<String> = reported
        .filter_map(|metric| {
            let (update_s, window_s) = device.sensor_class(metric)?.update_and_window_s();
            let [update_ms, window_ms] = [update_s, window_s].map(|seconds| seconds * 1e3);
            Some(format!("{metric}: {window_ms} ms, every {update_ms} ms"))
        })
        .collect();
    if known.is_empty() {
        let why = "unknown for this architecture and driver; `cargo xtask trace --interval 10ms` \
            measures how often each power metric is updated";
        return Finding::new(id, Status::Warning, why);
    }
    Finding::new(id, Status::Found, known.join("; "))
}

/// Returns the finding on RAPL, with the first fault of any domain.
fn of_rapl(rapl: Result<Rapl>) -> Finding {
    let rapl = match rapl {
        Ok(rapl) => rapl,
        Err(error) => return Finding::new("rapl", Status::Missing, error.to_string()),
    };
    let faults = rapl
        .devices()
        .iter()
        .flat_map(|device| &device.capabilities);
    let fault = faults.filter_map(|capability| capability.fault).next();
    let names: Vec<&str> = rapl
        .devices()
        .iter()
        .map(|device| device.name.as_str())
        .collect();
    match fault {
        None => Finding::new("rapl", Status::Found, names.join(", ")),
        Some(Fault::NoPermission) => Finding::new(
            "rapl",
            Status::Warning,
            "readable by root only; as root: chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj \
             (until the next reboot)",
        ),
        Some(fault) => Finding::new("rapl", Status::Warning, fault.to_string()),
    }
}

/// Adds the findings on toolkit, driver and frameworks, each pair of which must be compatible.
fn toolkits(places: &SystemPaths, nvml: Option<&Nvml>, findings: &mut Vec<Finding>) {
    let found = places
        .toolkits
        .iter()
        .find_map(|folder| Some((folder, toolkit_in(folder)?)));
    let driver = nvml.and_then(|nvml| {
        Some(Driver {
            version: nvml.driver()?.parse().ok()?,
            cuda: cuda_of(nvml),
        })
    });
    let (state, detail) = match found {
        None => (Status::Missing, "no CUDA toolkit".to_owned()),
        Some((folder, toolkit)) => (Status::Found, format!("{toolkit} in {}", folder.display())),
    };
    findings.push(Finding::new("cuda.toolkit", state, detail));
    let toolkit = found.map(|(_, toolkit)| toolkit);
    if let (Some(driver), Some(toolkit)) = (driver, toolkit) {
        let what = format!("programs built with CUDA {toolkit}");
        findings.push(of_driver("cuda.driver", driver, toolkit, &what));
    }
    for (name, version) in &places.frameworks {
        let Some(framework) = toolkit::from_framework(version) else {
            continue;
        };
        let id = format!("cuda.framework.{name}");
        let what = format!("{name} {version}");
        if let Some(driver) = driver {
            findings.push(of_driver(&format!("{id}.driver"), driver, framework, &what));
        }
        if let Some(toolkit) = toolkit {
            let fits = toolkit::toolkit_builds(toolkit, framework);
            findings.push(judged(
                &id,
                fits,
                format!("{what} and toolkit {toolkit} are compatible"),
            ));
        }
    }
}

fn of_driver(id: &str, driver: Driver, cuda: Version, what: &str) -> Finding {
    let fine = format!("driver {} runs {what}", driver.version);
    judged(id, driver.runs(cuda), fine)
}

/// Converts the result of a compatibility check to a finding; `fine` is the detail on success.
fn judged(id: &str, fits: std::result::Result<(), Mismatch>, fine: String) -> Finding {
    match fits {
        Ok(()) => Finding::new(id, Status::Found, fine),
        Err(unknown @ Mismatch::NotInTable { .. }) => {
            Finding::new(id, Status::Warning, unknown.to_string())
        }
        Err(mismatch) => Finding::new(id, Status::Failed, mismatch.to_string()),
    }
}

/// Checks the image's requirement against each GPU, as the container toolkit does, and returns the
/// worst outcome.
fn of_image(condition: &str, nvml: &Nvml) -> Finding {
    let id = "cuda.image";
    let of_machine = Host {
        cuda: cuda_of(nvml).map(|cuda| cuda.to_string()),
        driver: nvml.driver().map(str::to_owned),
        ..Host::default()
    };
    let of_gpu = |index| {
        let query = nvml.query(index);
        let arch = query.compute_capability;
        Host {
            arch: arch.map(|(major, minor)| Version { major, minor }.to_string()),
            brand: query.brand.map(str::to_owned),
            ..of_machine.clone()
        }
    };
    // Compute capability and brand differ from GPU to GPU; CUDA and the driver do not.
    let mut hosts: Vec<Host> = (0..nvml.devices().len()).map(of_gpu).collect();
    if hosts.is_empty() {
        hosts.push(of_machine.clone());
    }
    let errors = hosts
        .iter()
        .filter_map(|host| image::starts(condition, host).err());
    let judged = errors.map(|error| match error {
        ImageError::Unclear { .. } => (Status::Warning, error.to_string()),
        ImageError::Unmet { .. } => (Status::Failed, error.to_string()),
    });
    match judged.max_by_key(|(state, _)| *state) {
        Some((state, why)) => Finding::new(id, state, why),
        None => {
            let fine = format!("the image's requirement is met: {}", hosts[0]);
            Finding::new(id, Status::Found, fine)
        }
    }
}

fn cuda_of(nvml: &Nvml) -> Option<Version> {
    let (major, minor) = nvml.cuda_version()?;
    Some(Version { major, minor })
}

/// Returns the version of the toolkit in a folder, from the first version file that can be parsed.
fn toolkit_in(folder: &Path) -> Option<Version> {
    let names = ["version.json", "version.txt"];
    let texts = names
        .into_iter()
        .filter_map(|name| fs::read_to_string(folder.join(name)).ok());
    texts
        .filter_map(|text| toolkit::from_version_file(&text))
        .next()
}
