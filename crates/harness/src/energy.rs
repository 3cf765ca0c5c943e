//! Energy of a run: the interface of a meter, and the devices whose power a run draws.
//!
//! Role: `run` meters every contestant through an [`EnergyMeter`]; the program that measures
//! provides the meter, because this crate does not depend on sensors.

use crate::implementation::Implementation;
use anyhow::Result;
use gpu_wgsl::{Adapter, DeviceType};
use std::fmt::Debug;

/// PCI vendor id of NVIDIA.
pub const NVIDIA: u32 = 0x10DE;

/// The device whose power a run draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU.
    NvidiaGpu,
    /// A device without an energy sensor that is supported here.
    Unmetered,
}

/// Energy of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunEnergy {
    /// Estimate, in joules.
    pub joules: f64,
    /// Error interval of the estimate, in joules.
    pub interval: [f64; 2],
}

/// A meter of the energy that a contestant uses.
pub trait EnergyMeter: Debug {
    /// Runs a contestant repeatedly and returns the energy of one run. Returns `None` if the meter
    /// does not cover `site` or reports no energy.
    ///
    /// # Errors
    /// An error of the contestant.
    fn measure(&self, contestant: &mut dyn Implementation, site: Site)
    -> Result<Option<RunEnergy>>;
}

/// The meter of a machine without energy sensors: runs nothing and reports nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMeter;

impl EnergyMeter for NoMeter {
    fn measure(&self, _: &mut dyn Implementation, _: Site) -> Result<Option<RunEnergy>> {
        Ok(None)
    }
}

impl Site {
    /// Returns the site of a variant that runs on `adapter`, or on the CPU without one.
    #[must_use]
    pub fn from_adapter(adapter: Option<&Adapter>) -> Self {
        match adapter {
            None => Self::Cpu,
            Some(adapter) if adapter.device_type == DeviceType::Cpu => Self::Cpu,
            Some(adapter) if adapter.vendor == NVIDIA => Self::NvidiaGpu,
            Some(_) => Self::Unmetered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_a_software_adapter_are_the_cpus() {
        assert_eq!(Site::from_adapter(None), Site::Cpu);
        for adapter in gpu_wgsl::adapters() {
            let site = Site::from_adapter(Some(&adapter));
            let is_software = adapter.device_type == DeviceType::Cpu;
            assert_eq!(site == Site::Cpu, is_software, "{adapter:?}");
        }
    }
}
