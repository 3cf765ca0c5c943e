//! Choice of the sensors of this machine.
//!
//! Role: the only place that chooses between NVIDIA's driver and RAPL.

use crate::nvml::Nvml;
use crate::rapl::Rapl;
use crate::sampler::Sampler;
use crate::source::Source;
use crate::{Device, Error, Fault, Metric, Result};

/// A condition that a source must meet so that it is chosen.
type Condition = fn(&dyn Source) -> Result<()>;

impl Sampler {
    /// Creates a sampler of the sensors of this machine: those of NVIDIA GPUs, or of the CPUs
    /// (RAPL) if NVIDIA's driver is missing or has no GPU.
    ///
    /// # Errors
    /// [`Error::NoSource`] if there are neither.
    pub fn open() -> Result<Self> {
        first("Sampler::open", has_devices)
    }

    /// Creates a sampler of the first of these sources that reports energy.
    ///
    /// # Errors
    /// [`Error::NoSource`] if neither does.
    pub(crate) fn open_with_energy(operation: &'static str) -> Result<Self> {
        first(operation, reports_energy)
    }
}

/// Returns a sampler of the first source that can be opened and meets a condition.
fn first(operation: &'static str, condition: Condition) -> Result<Sampler> {
    let gpus = match Nvml::open().and_then(|nvml| condition(&nvml).map(|()| nvml)) {
        Ok(nvml) => return Ok(Sampler::new(nvml)),
        Err(error) => Box::new(error),
    };
    match Rapl::open().and_then(|rapl| condition(&rapl).map(|()| rapl)) {
        Ok(rapl) => Ok(Sampler::new(rapl)),
        Err(error) => Err(Error::NoSource {
            operation,
            gpus,
            cpus: Box::new(error),
        }),
    }
}

/// Rejects a driver without GPUs: sampling it would end at once.
fn has_devices(source: &dyn Source) -> Result<()> {
    if source.devices().is_empty() {
        return Err(Error::Library {
            operation: "Nvml::open",
            library: source.name().to_owned(),
            why: "the driver has no GPU".to_owned(),
            fault: Some(Fault::NotSupported),
        });
    }
    Ok(())
}

/// Rejects a source without a device that reports energy.
fn reports_energy(source: &dyn Source) -> Result<()> {
    let devices = source.devices();
    if devices.iter().any(Device::reports_energy) {
        return Ok(());
    }
    let all = devices.iter().flat_map(|device| &device.capabilities);
    let mut of_energy = all.filter(|capability| capability.metric == Metric::Energy);
    let fault = of_energy.find_map(|capability| capability.fault);
    Err(Error::Unavailable {
        operation: "Source::devices",
        metric: Metric::Energy,
        device: 0,
        fault: fault.unwrap_or(Fault::NotSupported),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Replay;
    use crate::{Capability, Kind, Trace};

    #[test]
    fn a_source_without_energy_is_rejected_with_its_fault() {
        let source = |fault| {
            let device = Device {
                capabilities: vec![Capability {
                    metric: Metric::Energy,
                    field: "energy_uj".to_owned(),
                    fault,
                }],
                ..Device::new(Kind::Rapl, "package-0")
            };
            Replay::new(Trace {
                devices: vec![device],
                ..Trace::default()
            })
        };
        assert!(reports_energy(&source(None)).is_ok());
        let error = reports_energy(&source(Some(Fault::NoPermission))).unwrap_err();
        assert!(error.to_string().contains("no permission"), "{error}");
    }
}
