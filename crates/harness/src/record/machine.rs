//! The machine of a run: CPU, adapters, measured peaks, rivals.

use std::collections::BTreeMap;

use charts::units;
use serde::{Deserialize, Serialize};

use crate::implementation::{BIT_PRODUCT_UNIT, FLOP_UNIT};

/// Machine and time of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Model of the CPU.
    pub cpu: String,
    /// Number of threads that this process may run at once.
    pub cores: usize,
    /// CPU instruction sets that matter to the kernels and are available.
    pub cpu_features: Vec<String>,
    /// Main memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Operating system.
    pub os: String,
    /// Architecture.
    pub arch: String,
    /// Version line of the compiler that built the program.
    pub rustc: Option<String>,
    /// Commit of the project, with `-dirty` if the working tree had changes.
    pub commit: Option<String>,
    /// Start of the run in UTC, RFC 3339.
    pub date: String,
    /// Origin of the data that the tasks read, for example `MNIST`.
    pub data_origin: Option<String>,
    /// Measured peaks of the devices.
    pub peaks: Peaks,
    /// Warning if the peaks changed during the run, which indicates that another program was using
    /// the machine, or if a result exceeds a peak.
    pub disturbed: Option<String>,
    /// Adapters of the machine.
    pub adapters: Vec<AdapterFacts>,
    /// Versions of the rivals' Python packages that are installed, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rivals: BTreeMap<String, String>,
}

/// Measured peaks, the denominators of every share of peak.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Peaks {
    /// Multiply-adds of all CPU threads, in operations per second.
    pub cpu_flops: Option<f64>,
    /// Copy of a large array on the CPU, in bytes read and written per second.
    pub cpu_copy_bytes_per_s: Option<f64>,
    /// Products of bits of all CPU threads per second, for each instruction set of the CPU.
    pub cpu_bit_products: BTreeMap<String, f64>,
    /// Peaks of each adapter, by name.
    pub adapters: BTreeMap<String, AdapterPeaks>,
}

impl Peaks {
    /// Returns the peaks of the CPU in the form of an adapter's.
    #[must_use]
    pub fn cpu(&self) -> AdapterPeaks {
        AdapterPeaks {
            flops: self.cpu_flops,
            copy_bytes_per_s: self.cpu_copy_bytes_per_s,
            bit_products: self
                .cpu_bit_products
                .values()
                .copied()
                .max_by(f64::total_cmp),
        }
    }
}

/// Measured peaks of one adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdapterPeaks {
    /// Multiply-adds, in operations per second.
    pub flops: Option<f64>,
    /// Copy of a large buffer, in bytes read and written per second.
    pub copy_bytes_per_s: Option<f64>,
    /// Products of bits, each an exclusive or, a count of ones and an addition, per second.
    pub bit_products: Option<f64>,
}

impl AdapterPeaks {
    /// Returns the limit of the arithmetic for rates in a unit, per second and without the unit's
    /// prefix; `None` if the limit was not measured, and for other units.
    #[must_use]
    pub fn per_second(&self, unit: &str) -> Option<f64> {
        let base = |unit| units::split_prefix(unit).1;
        match base(unit) {
            unit if unit == base(FLOP_UNIT) => self.flops,
            unit if unit == base(BIT_PRODUCT_UNIT) => self.bit_products,
            _ => None,
        }
    }
}

/// An adapter, as described by its driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdapterFacts {
    /// Name of the adapter, used by rows and peaks to refer to it.
    pub name: String,
    /// `Vulkan`, `Metal` or `Dx12`.
    pub backend: String,
    /// Driver and its version.
    pub driver: String,
    /// `DiscreteGpu`, `IntegratedGpu`, `Cpu`, …
    pub device_type: String,
    /// Limits that matter to the kernels, by name.
    pub limits: BTreeMap<String, u64>,
    /// Features that matter to the kernels, and whether the adapter has them.
    pub features: BTreeMap<String, bool>,
}
