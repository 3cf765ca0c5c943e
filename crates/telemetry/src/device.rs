//! What is sampled: a GPU or a part of a CPU, and what it can tell.

use crate::{Fault, Metric};
use serde::{Deserialize, Serialize};

/// A device, as it was found when its source was opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Its index within the source.
    pub index: usize,
    /// What it is.
    pub kind: Kind,
    /// Its product name, or that of the RAPL domain.
    pub name: String,
    /// Its UUID, which survives reboots.
    pub uuid: Option<String>,
    /// Its place on the bus, `00000000:01:00.0`.
    pub pci: Option<String>,
    /// Version of the driver.
    pub driver: Option<String>,
    /// Its architecture by NVIDIA's name: `Turing`.
    pub architecture: Option<String>,
    /// The limits on its power.
    pub limits: PowerLimits,
    /// Whether it is divided (MIG).
    pub is_mig: bool,
    /// What it tells, and from which field; one entry a metric.
    pub capabilities: Vec<Capability>,
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A GPU.
    Gpu,
    /// A part of a CPU, or its memory, by RAPL.
    Rapl,
}

/// Limits on a device's power, in W.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PowerLimits {
    /// The one that software set.
    pub set_w: Option<f64>,
    /// The one after a reset.
    pub default_w: Option<f64>,
    /// The lowest that may be set.
    pub min_w: Option<f64>,
    /// The highest.
    pub max_w: Option<f64>,
}

/// Whether and from where a device tells a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capability {
    /// The metric.
    pub metric: Metric,
    /// The call or field that it comes from: `nvmlDeviceGetFieldValues 186`.
    pub field: String,
    /// Why it is not there, if it is not.
    pub fault: Option<Fault>,
}

impl Device {
    /// Gives a device of which no more is known than what it is and its name: the first of its source, which tells nothing.
    #[must_use]
    pub fn named(kind: Kind, name: impl Into<String>) -> Self {
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

    /// Whether its energy can be found: it has a counter, or tells the power that it draws.
    #[must_use]
    pub fn tells_energy(&self) -> bool {
        let tells = |metric| self.field(metric).is_some();
        tells(Metric::Energy) || Metric::POWERS.into_iter().any(tells)
    }

    /// Gives the field that a metric comes from, if there is one.
    #[must_use]
    pub fn field(&self, metric: Metric) -> Option<&str> {
        let found =
            |capability: &&Capability| capability.metric == metric && capability.fault.is_none();
        let capability = self.capabilities.iter().find(found)?;
        Some(&capability.field)
    }
}
