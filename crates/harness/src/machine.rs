//! Description of this machine for the readers of a record.
//!
//! Role: fills the fields of [`Machine`] that need no measurement; peaks, adapters and the origin
//! of the data are added by the code that determines them.
//! Method: reads system files and runs system tools. A field without an answer stays empty, so
//! [`describe`] never fails.

use std::env::consts::{ARCH, OS};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

use serde::{Deserialize, Serialize};
use tool_io::commit;

use crate::record::Machine;

/// Commit and compiler that the program was built from.
///
/// In a source tree they are queried from git and rustc. A bundle for machines without these tools
/// contains them as a file next to the executable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BuildFacts {
    /// Commit of the project, with `-dirty` if the working tree had changes.
    pub commit: Option<String>,
    /// Version line of the compiler.
    pub rustc: Option<String>,
}

impl BuildFacts {
    /// Name of the file next to the executable of a bundle.
    pub const FILE: &str = "build.json";

    /// Reads the file of a bundle if there is one; otherwise queries git and rustc.
    #[must_use]
    pub fn find() -> Self {
        Self::from_bundle().unwrap_or_else(Self::from_source_tree)
    }

    /// Queries git in the current package's folder, and rustc.
    #[must_use]
    pub fn from_source_tree() -> Self {
        // Cargo sets this variable to the folder of the package; without cargo, use the current
        // folder.
        let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| ".".to_owned());
        Self {
            commit: commit::checked_out(Path::new(&folder)),
            rustc: answer("rustc", &["--version"]),
        }
    }

    fn from_bundle() -> Option<Self> {
        let executable = std::env::current_exe().ok()?;
        Self::read_from(executable.parent()?)
    }

    fn read_from(bundle: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(bundle.join(Self::FILE)).ok()?).ok()
    }
}

/// Describes this machine at the time of the call.
#[must_use]
pub fn describe() -> Machine {
    let build = BuildFacts::find();
    Machine {
        cpu: cpu_model().unwrap_or_else(|| format!("unknown {ARCH} CPU")),
        cores: available_parallelism().map_or(1, usize::from),
        cpu_features: cpu_features().into_iter().map(str::to_owned).collect(),
        memory_bytes: memory_bytes(),
        os: OS.to_owned(),
        arch: ARCH.to_owned(),
        rustc: build.rustc,
        commit: build.commit,
        date: charts::now(),
        ..Machine::default()
    }
}

fn cpu_model() -> Option<String> {
    match OS {
        "linux" => linux_cpu_model(),
        "macos" => answer("sysctl", &["-n", "machdep.cpu.brand_string"]),
        "windows" => std::env::var("PROCESSOR_IDENTIFIER").ok(),
        _ => None,
    }
}

/// Reads the CPU model from `/proc/cpuinfo`; on boards with ARM cores, the board's model is in the
/// device tree.
fn linux_cpu_model() -> Option<String> {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let board = || fs::read_to_string("/proc/device-tree/model").ok();
    let model = value_of(&cpus, "model name").or_else(board)?;
    let model = model.trim_matches(['\0', '\n', ' ']);
    (!model.is_empty()).then(|| model.to_owned())
}

fn memory_bytes() -> Option<u64> {
    const BYTES_PER_KIB: u64 = 1024;
    match OS {
        "linux" => {
            let text = value_of(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal")?;
            Some(text.trim_end_matches("kB").trim().parse::<u64>().ok()? * BYTES_PER_KIB)
        }
        "macos" => answer("sysctl", &["-n", "hw.memsize"])?.parse().ok(),
        _ => None,
    }
}

/// Finds the value of `key : value` in the text of one of the kernel's files.
fn value_of(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

#[cfg(target_arch = "x86_64")]
fn cpu_features() -> Vec<&'static str> {
    let found = [
        ("sse4.2", is_x86_feature_detected!("sse4.2")),
        ("avx", is_x86_feature_detected!("avx")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("fma", is_x86_feature_detected!("fma")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
        (
            "avx512vpopcntdq",
            is_x86_feature_detected!("avx512vpopcntdq"),
        ),
    ];
    names_of(&found)
}

#[cfg(target_arch = "aarch64")]
fn cpu_features() -> Vec<&'static str> {
    use std::arch::is_aarch64_feature_detected;
    let found = [
        ("neon", is_aarch64_feature_detected!("neon")),
        ("fp16", is_aarch64_feature_detected!("fp16")),
        ("dotprod", is_aarch64_feature_detected!("dotprod")),
        ("sve", is_aarch64_feature_detected!("sve")),
    ];
    names_of(&found)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn cpu_features() -> Vec<&'static str> {
    Vec::new()
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn names_of(found: &[(&'static str, bool)]) -> Vec<&'static str> {
    found
        .iter()
        .filter(|(_, there)| *there)
        .map(|(name, _)| *name)
        .collect()
}

/// Returns the output of a tool, or `None` if the tool is absent, fails or prints nothing.
fn answer(tool: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(tool)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_io::TemporaryFolder;

    #[test]
    fn this_machine_has_a_name_cores_and_a_date() {
        let machine = describe();
        assert!(!machine.cpu.is_empty());
        assert!(machine.cores >= 1);
        assert_eq!(machine.date.len(), "2026-11-21T03:53:00Z".len());
        assert_eq!(machine.os, OS);
        if OS == "linux" {
            assert!(machine.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
        }
    }

    #[test]
    fn values_of_kernel_files_are_found_by_whole_key() {
        let text = "model\t\t: 17\nmodel name\t: Some CPU: fast\n";
        assert_eq!(
            value_of(text, "model name").as_deref(),
            Some("Some CPU: fast")
        );
        assert_eq!(value_of(text, "name"), None);
    }

    #[test]
    fn absent_and_failing_tools_give_nothing() {
        assert_eq!(answer("a-tool-that-nobody-has", &[]), None);
        assert_eq!(answer("git", &["no-such-command"]), None);
    }

    #[test]
    fn a_bundle_carries_what_it_was_built_from() {
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "build-facts").unwrap();
        let folder = folder.path();
        assert_eq!(BuildFacts::read_from(folder), None);
        let facts = BuildFacts {
            commit: Some("1a2b3c4-dirty".into()),
            rustc: None,
        };
        let text = serde_json::to_string(&facts).unwrap();
        fs::write(folder.join(BuildFacts::FILE), text).unwrap();
        assert_eq!(BuildFacts::read_from(folder), Some(facts));
    }
}
