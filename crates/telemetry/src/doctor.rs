//! Whether this machine's power and energy can be read, and whether its CUDA parts fit together.
//!
//! Role: findings with stable ids, which `cargo xtask doctor` prints among its own; scripts match the ids.
//! Method: nothing is changed and no program is started. What is missing is no fault; what is there and does not work, or does
//! not fit, is.

pub mod toolkit;

use crate::nvml::{Nvml, Query};
use crate::rapl::Rapl;
use crate::source::Source;
use crate::{Device, Fault, Metric, Result};
use serde::Serialize;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use toolkit::Version;

/// One thing looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable id: `gpu.0.sensor`.
    pub id: String,
    /// What became of it.
    pub state: State,
    /// What it is, or what is wrong and what to do.
    pub detail: String,
}

/// What became of a thing looked for, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is there.
    Found,
    /// It is not, and need not be.
    Missing,
    /// It is there, and numbers or speed suffer from how it is.
    Warning,
    /// It is there and does not work.
    Failed,
}

/// Where to look.
#[derive(Clone, Debug)]
pub struct Places {
    /// NVIDIA's library; none is where the loader finds it.
    pub nvml: Option<PathBuf>,
    /// The folder of the RAPL domains; none is Linux's.
    pub rapl: Option<PathBuf>,
    /// Folders of CUDA toolkits.
    pub toolkits: Vec<PathBuf>,
    /// What the image of this container asks of CUDA, as `NVIDIA_REQUIRE_CUDA` says it.
    pub image: Option<String>,
    /// Frameworks, with their versions: `torch`, `2.1.0+cu118`.
    pub frameworks: Vec<(String, String)>,
}

impl Finding {
    /// Gives a finding.
    #[must_use]
    pub fn new(id: impl Into<String>, state: State, detail: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            state,
            detail: detail.into(),
        }
    }
}

impl Default for Places {
    /// Gives where things usually are: `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda`.
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
            image: env::var("NVIDIA_REQUIRE_CUDA").ok(),
            frameworks: vec![],
        }
    }
}

/// Looks at this machine; what is missing is a finding.
#[must_use]
pub fn doctor() -> Vec<Finding> {
    examine(&Places::default())
}

/// Looks at these places.
#[must_use]
pub fn examine(places: &Places) -> Vec<Finding> {
    let mut findings = vec![];
    let nvml = places
        .nvml
        .as_deref()
        .map_or_else(Nvml::open, Nvml::open_at);
    match &nvml {
        Ok(nvml) => gpus(nvml, &mut findings),
        Err(error) => findings.push(Finding::new("nvml", State::Missing, error.to_string())),
    }
    let nvml = nvml.ok();
    toolkits(places, nvml.as_ref(), &mut findings);
    let rapl = places
        .rapl
        .as_deref()
        .map_or_else(Rapl::open, Rapl::open_at);
    findings.push(of_rapl(rapl));
    findings
}

fn gpus(nvml: &Nvml, findings: &mut Vec<Finding>) {
    let driver = nvml.driver().unwrap_or("unknown");
    let cuda = nvml.cuda_version();
    let cuda = cuda.map_or("unknown".to_owned(), |(major, minor)| {
        format!("{major}.{minor}")
    });
    let n_devices = nvml.devices().len();
    let detail = format!("driver {driver}, CUDA {cuda}, GPUs: {n_devices}");
    findings.push(Finding::new("nvml", State::Found, detail));
    for (index, device) in nvml.devices().iter().enumerate() {
        let query = nvml.query(index);
        let id = |part: &str| format!("gpu.{index}.{part}");
        findings.push(Finding::new(id("device"), State::Found, described(&query)));
        findings.push(of_metrics(&id("metrics"), device));
        findings.push(of_sensor(&id("sensor"), device));
        if query.is_persistent == Some(false) {
            let why = "off: while nobody uses the GPU, each reading may start it anew; nvidia-smi -pm 1 as root";
            findings.push(Finding::new(id("persistence"), State::Warning, why));
        }
        if query.is_mig == Some(true) {
            let why =
                "divided (MIG): utilisation is not told, power and energy are those of the whole";
            findings.push(Finding::new(id("mig"), State::Warning, why));
        }
    }
}

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

fn of_metrics(id: &str, device: &Device) -> Finding {
    let missing = device.capabilities.iter().filter_map(|capability| {
        let fault = capability.fault?;
        Some(format!(
            "{} ({}): {fault}",
            capability.metric, capability.field
        ))
    });
    let missing: Vec<String> = missing.collect();
    let n_told = device.capabilities.len() - missing.len();
    if missing.is_empty() {
        return Finding::new(id, State::Found, format!("all {n_told} are told"));
    }
    let detail = format!("{n_told} are told; not {}", missing.join("; "));
    // Without power there is nothing to integrate, and without the counter nothing else.
    let is_told = |metric| device.field(metric).is_some();
    let power = [
        Metric::PowerInstant,
        Metric::PowerDraw,
        Metric::PowerAverage,
    ];
    let state = if is_told(Metric::Energy) || power.into_iter().any(is_told) {
        State::Found
    } else {
        State::Failed
    };
    Finding::new(id, state, detail)
}

fn of_sensor(id: &str, device: &Device) -> Finding {
    let metrics = [
        Metric::PowerInstant,
        Metric::PowerDraw,
        Metric::PowerAverage,
    ];
    let told = metrics
        .into_iter()
        .filter(|&metric| device.field(metric).is_some());
    let known: Vec<String> = told
        .filter_map(|metric| {
            let (update_s, window_s) = device.sensor_class(metric)?.update_and_window_s();
            let [update_ms, window_ms] = [update_s, window_s].map(|seconds| seconds * 1e3);
            Some(format!("{metric}: {window_ms} ms, every {update_ms} ms"))
        })
        .collect();
    if known.is_empty() {
        let why = "unknown for this architecture and driver; `cargo xtask trace` measures it";
        return Finding::new(id, State::Warning, why);
    }
    Finding::new(id, State::Found, known.join("; "))
}

fn of_rapl(rapl: Result<Rapl>) -> Finding {
    let rapl = match rapl {
        Ok(rapl) => rapl,
        Err(error) => return Finding::new("rapl", State::Missing, error.to_string()),
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
        None => Finding::new("rapl", State::Found, names.join(", ")),
        Some(Fault::NoPermission) => Finding::new(
            "rapl",
            State::Warning,
            "only root may read it; as root: chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj (until the next start)",
        ),
        Some(fault) => Finding::new("rapl", State::Warning, fault.to_string()),
    }
}

fn toolkits(places: &Places, nvml: Option<&Nvml>, findings: &mut Vec<Finding>) {
    let found = places
        .toolkits
        .iter()
        .find_map(|folder| Some((folder, toolkit_in(folder)?)));
    let driver: Option<Version> = nvml.and_then(|nvml| nvml.driver()?.parse().ok());
    match found {
        None => findings.push(Finding::new(
            "cuda.toolkit",
            State::Missing,
            "no CUDA toolkit",
        )),
        Some((folder, toolkit)) => {
            let detail = format!("{toolkit} in {}", folder.display());
            findings.push(Finding::new("cuda.toolkit", State::Found, detail));
            if let Some(driver) = driver {
                let fits = toolkit::driver_runs(driver, toolkit);
                let fine = format!("driver {driver} runs what CUDA {toolkit} builds");
                findings.push(judged("cuda.driver", fits, fine));
            }
            for (name, version) in &places.frameworks {
                let Some(framework) = toolkit::of_framework(version) else {
                    continue;
                };
                let fits = toolkit::toolkit_builds(toolkit, framework);
                let fine = format!("{name} {version} and toolkit {toolkit} fit");
                findings.push(judged(&format!("cuda.framework.{name}"), fits, fine));
            }
        }
    }
    let cuda = nvml.and_then(Nvml::cuda_version);
    if let (Some(condition), Some((major, minor))) = (&places.image, cuda) {
        let cuda = Version { major, minor };
        let fine = format!("the driver's CUDA {cuda} is what the image asks for");
        findings.push(judged(
            "cuda.image",
            toolkit::image_starts(condition, cuda),
            fine,
        ));
    }
}

fn judged(id: &str, fits: std::result::Result<(), toolkit::Mismatch>, fine: String) -> Finding {
    match fits {
        Ok(()) => Finding::new(id, State::Found, fine),
        Err(mismatch) => Finding::new(id, State::Failed, mismatch.to_string()),
    }
}

fn toolkit_in(folder: &Path) -> Option<Version> {
    let names = ["version.json", "version.txt"];
    let texts = names
        .into_iter()
        .filter_map(|name| fs::read_to_string(folder.join(name)).ok());
    texts
        .filter_map(|text| toolkit::of_version_file(&text))
        .next()
}
