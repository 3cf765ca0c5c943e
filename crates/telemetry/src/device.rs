//! Description of a sampled device: a GPU or a part of a CPU, with the metrics that it reports.

use crate::{Fault, Metric};
use serde::{Deserialize, Serialize};

/// A device, with the properties found when its source was opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Index of the device within its source.
    pub index: usize,
    /// Kind of the device.
    pub kind: Kind,
    /// Product name of the GPU, or name of the RAPL domain.
    pub name: String,
    /// UUID of the GPU, which stays the same after a reboot.
    pub uuid: Option<String>,
    /// PCI address, such as `00000000:01:00.0`.
    pub pci: Option<String>,
    /// Version of the driver.
    pub driver: Option<String>,
    /// NVIDIA's name of the architecture, such as `Turing`.
    pub architecture: Option<String>,
    /// Power limits of the device.
    pub limits: PowerLimits,
    /// Whether the GPU is partitioned into instances (MIG).
    pub is_mig: bool,
    /// Supported and unsupported metrics with the field that they come from, one entry per metric.
    pub capabilities: Vec<Capability>,
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A GPU.
    Gpu,
    /// A CPU package or its memory, measured by RAPL.
    Rapl,
}

/// Limits on a device's power, in W.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PowerLimits {
    /// The limit that is currently set by software.
    pub set_w: Option<f64>,
    /// The default limit, which applies after a reset.
    pub default_w: Option<f64>,
    /// The lowest limit that can be set.
    pub min_w: Option<f64>,
    /// The highest limit that can be set.
    pub max_w: Option<f64>,
}

/// The availability of a metric on a device, and the field that it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capability {
    /// The metric.
    pub metric: Metric,
    /// Function or field that the metric is read from, such as `nvmlDeviceGetFieldValues 186`.
    pub field: String,
    /// Reason why the metric is unavailable; `None` if it is available.
    pub fault: Option<Fault>,
}

impl Device {
    /// Creates a device with index 0, a kind and a name, and without further properties or metrics.
    #[must_use]
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self {
            index: 0,
            kind,
            name: name.into(),
            uuid: None,
            pci: None,
            driver: None,
            architecture: None,
            limits: PowerLimits::default(),
            is_mig: false,
            capabilities: vec![],
        }
    }

    /// Returns whether the device's energy can be measured: by an energy counter or a power metric.
    #[must_use]
    pub fn reports_energy(&self) -> bool {
        let has = |metric| self.field(metric).is_some();
        has(Metric::Energy) || Metric::POWERS.into_iter().any(has)
    }

    /// Returns the field that a metric is read from, or `None` if the metric is unavailable.
    #[must_use]
    pub fn field(&self, metric: Metric) -> Option<&str> {
        let found =
            |capability: &&Capability| capability.metric == metric && capability.fault.is_none();
        let capability = self.capabilities.iter().find(found)?;
        Some(&capability.field)
    }
}
