//! Findings about this machine that matter to the project, with stable ids.
//!
//! Role: the content of `cargo xtask doctor`. Scripts match the ids; people read the details.

use crate::mnist;
use charts::units;
use gpu_wgsl::{Adapter, Feature};
use harness::{machine, rivals};
use std::fmt::Write as _;
use std::path::PathBuf;
use telemetry::doctor::{Finding, Status, SystemPaths};

/// Frameworks whose version string contains the CUDA version that they were built for.
const FRAMEWORKS: [&str; 2] = ["torch", "jaxlib"];

/// Examines this machine. It never fails: a missing part is a finding.
#[must_use]
pub fn examine() -> Vec<Finding> {
    let machine = machine::describe();
    let memory = machine.memory_bytes.map(|bytes| units::bytes(bytes as f64));
    let mut findings = vec![
        found("system", format!("{} {}", machine.os, machine.arch)),
        found(
            "cpu.model",
            format!("{}, {} threads", machine.cpu, machine.cores),
        ),
        found("cpu.features", machine.cpu_features.join(" ")),
        either("memory", memory, "not reported by the system"),
    ];
    let adapters = gpu_wgsl::adapters();
    if adapters.is_empty() {
        let how = "no GPU adapter; on Debian without a GPU: apt-get install mesa-vulkan-drivers libvulkan1";
        findings.push(missing("adapter", how));
    }
    findings.extend(adapters.iter().flat_map(adapter));
    findings.extend(telemetry::doctor::examine(&SystemPaths {
        frameworks: frameworks(),
        ..SystemPaths::default()
    }));
    let images = mnist::found().map(|path| path.display().to_string());
    findings.push(either(
        "data.mnist",
        images,
        "not found; to download it: cargo xtask data mnist",
    ));
    findings.push(match rivals::python() {
        Ok(path) => found("rivals.python", path.display().to_string()),
        Err(absent) => missing("rivals.python", &format!("{}: {}", absent.why, absent.how)),
    });
    findings
}

/// Formats findings for a terminal, one line each; the mark is `+` for found, `-` for missing, `!`
/// for a warning and `x` for a failure.
#[must_use]
pub fn table(findings: &[Finding]) -> String {
    let width = findings
        .iter()
        .map(|finding| finding.id.len())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for Finding { id, state, detail } in findings {
        let mark = match state {
            Status::Found => '+',
            Status::Missing => '-',
            Status::Warning => '!',
            Status::Failed => 'x',
        };
        let _ = writeln!(out, "{mark} {id:width$}  {detail}");
    }
    out
}

fn found(id: &str, detail: String) -> Finding {
    Finding::new(id, Status::Found, detail)
}

fn missing(id: &str, how: &str) -> Finding {
    Finding::new(id, Status::Missing, how)
}

fn either(id: &str, detail: Option<String>, how: &str) -> Finding {
    detail.map_or_else(|| missing(id, how), |detail| found(id, detail))
}

/// Returns the versions of the frameworks in the rivals' Python, from the `.dist-info` folders that
/// pip creates.
fn frameworks() -> Vec<(String, String)> {
    let python = rivals::python().ok();
    let root = python
        .as_deref()
        .and_then(|python| python.parent()?.parent());
    let libraries = root.map(|root| root.join("lib"));
    let versions = libraries.into_iter().flat_map(entries);
    let packages = versions.flat_map(|version| entries(version.join("site-packages")));
    let framework = |folder: PathBuf| {
        let name = folder.file_name()?.to_str()?.strip_suffix(".dist-info")?;
        let (name, version) = name.split_once('-')?;
        FRAMEWORKS
            .contains(&name)
            .then(|| (name.to_owned(), version.to_owned()))
    };
    packages.filter_map(framework).collect()
}

fn entries(folder: PathBuf) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

fn adapter(adapter: &Adapter) -> Vec<Finding> {
    let id = |part: &str| format!("adapter.{}.{part}", adapter.index);
    let names = |has: bool| {
        let chosen = Feature::ALL
            .into_iter()
            .filter(|feature| adapter.features.contains(feature) == has);
        chosen
            .map(|feature| feature.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let limits = adapter
        .limits
        .named()
        .map(|(name, limit)| format!("{name}={limit}"))
        .join(" ");
    let [smallest, largest] = adapter.subgroup_sizes;
    let mut findings = vec![
        found(
            &id("name"),
            format!("{} ({:?})", adapter.name, adapter.device_type),
        ),
        found(
            &id("driver"),
            format!("{}, {}", adapter.backend, adapter.driver),
        ),
        found(
            &id("subgroups"),
            format!("{smallest} to {largest} invocations"),
        ),
        found(&id("limits"), limits),
        found(&id("features"), names(true)),
    ];
    let absent = names(false);
    if !absent.is_empty() {
        findings.push(missing(&id("features.absent"), &absent));
    }
    findings
}
