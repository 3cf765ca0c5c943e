//! Choice of the sensors of this machine.
//!
//! Role: the only place that chooses between NVIDIA's driver and RAPL.

use crate::nvml::Nvml;
use crate::rapl::Rapl;
use crate::sampler::Sampler;
use crate::source::Source;
use crate::{Device, Error, Fault, Metric, Result};

/// A condition that a source must meet so that it is chosen, with the name of the operation for its
/// error.
type Condition = fn(&dyn Source, &'static str) -> Result<()>;

impl Sampler {
    /// Creates a sampler of the sensors of this machine: those of NVIDIA GPUs, or of the CPUs
    /// (RAPL) if NVIDIA's driver is missing or has no GPU.
    ///
    /// # Errors
    /// [`Error::NoSource`] if there are neither.
    pub fn open() -> Result<Self> {
        first("Sampler::open", has_devices)
    }

    /// Creates a sampler of NVIDIA GPUs if any of them reports energy, or else of the CPUs (RAPL).
    ///
    /// # Errors
    /// [`Error::NoSource`] if no GPU and no CPU reports energy, for example if there is no GPU and
    /// only root may read RAPL.
    pub fn open_with_energy() -> Result<Self> {
        with_energy("Sampler::open_with_energy")
    }
}

/// Performs [`Sampler::open_with_energy`] as a part of another operation.
pub(crate) fn with_energy(operation: &'static str) -> Result<Sampler> {
    first(operation, reports_energy)
}

/// Returns a sampler of the first source that can be opened and meets a condition.
fn first(operation: &'static str, condition: Condition) -> Result<Sampler> {
    let gpus = match Nvml::open().and_then(|nvml| condition(&nvml, operation).map(|()| nvml)) {
        Ok(nvml) => return Ok(Sampler::new(nvml)),
        Err(error) => Box::new(error),
    };
    match Rapl::open().and_then(|rapl| condition(&rapl, operation).map(|()| rapl)) {
        Ok(rapl) => Ok(Sampler::new(rapl)),
        Err(error) => Err(Error::NoSource {
            operation,
            gpus,
            cpus: Box::new(error),
        }),
    }
}

/// Rejects a source without devices, such as a driver without GPUs: sampling it would end at once.
fn has_devices(source: &dyn Source, operation: &'static str) -> Result<()> {
    if source.devices().is_empty() {
        return Err(Error::Library {
            operation,
            library: source.name().to_owned(),
            why: "no device found".to_owned(),
            fault: Some(Fault::NotSupported),
        });
    }
    Ok(())
}

/// Rejects a source without a device that reports energy. The error names the first device whose
/// energy counter has a fault, or the first device if none has one.
fn reports_energy(source: &dyn Source, operation: &'static str) -> Result<()> {
    has_devices(source, operation)?;
    let devices = source.devices();
    if devices.iter().any(Device::reports_energy) {
        return Ok(());
    }
    let fault_of = |device: &Device| {
        let mut all = device.capabilities.iter();
        all.find(|capability| capability.metric == Metric::Energy)?
            .fault
    };
    let mut faults = (0..).zip(devices.iter().map(fault_of));
    let found = faults.find_map(|(device, fault)| Some((device, fault?)));
    let (device, fault) = found.unwrap_or((0, Fault::NotSupported));
    Err(Error::Unavailable {
        operation,
        metric: Metric::Energy,
        device,
        fault,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Replay;
    use crate::{Capability, Kind, Trace};

    /// Returns a source of devices, each with an energy counter and the fault of the counter.
    fn source(faults: &[Option<Fault>]) -> Replay {
        let device = |&fault: &Option<Fault>| Device {
            capabilities: vec![Capability {
                metric: Metric::Energy,
                field: "energy_uj".to_owned(),
                fault,
            }],
            ..Device::new(Kind::Rapl, "package-0")
        };
        Replay::new(Trace {
            devices: faults.iter().map(device).collect(),
            ..Trace::default()
        })
    }

    #[test]
    fn a_source_without_energy_is_rejected_with_its_fault() {
        let found = |faults: &[Option<Fault>]| reports_energy(&source(faults), "measure");
        assert!(found(&[None]).is_ok());
        assert!(found(&[Some(Fault::NoPermission), None]).is_ok());
        let mut silent = Trace::default();
        silent.devices.push(Device::new(Kind::Gpu, "silent"));
        silent
            .devices
            .extend(source(&[Some(Fault::NoPermission)]).trace().devices.clone());
        for (error, expected) in [
            (
                found(&[Some(Fault::NoPermission)]),
                "measure: device 0 has no value of energy (no permission)",
            ),
            (
                reports_energy(&Replay::new(silent), "measure"),
                "measure: device 1 has no value of energy (no permission)",
            ),
            (found(&[]), "measure: cannot use replay: no device found"),
        ] {
            assert_eq!(error.unwrap_err().to_string(), expected);
        }
    }
}
