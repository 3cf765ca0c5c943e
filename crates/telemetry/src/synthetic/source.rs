//! A measurement source that reads a model.
//!
//! Role: lets sampler, energy and analysis run on a scenario without loading a library.

use super::{Call, GpuModel, Model, PowerField, PowerProfile, Scenario};
use crate::{Capability, Device, Fault, Kind, Metric, PowerLimits, Reading, Source, Values};
use std::time::Duration;

/// A measurement source that reads a [`Model`].
#[derive(Clone, Debug)]
pub struct Synthetic {
    model: Model,
    devices: Vec<Device>,
}

impl Synthetic {
    /// Opens a model at time zero. A metric that is permanently unsupported at time zero is marked
    /// with its fault in the capabilities and is not read later.
    #[must_use]
    pub fn new(model: Model) -> Self {
        let devices = (0..model.gpus().len()).map(|gpu| device(&model, gpu));
        Self {
            devices: devices.collect(),
            model,
        }
    }

    /// Creates a source with one T4 that has the given power profile.
    ///
    /// # Errors
    /// [`crate::Error::ParameterInvalid`] if the profile is invalid: a piece without a positive
    /// duration, or a value that is negative or not finite.
    pub fn from_power(power: PowerProfile) -> crate::Result<Self> {
        let mut scenario = Scenario::default();
        scenario.gpus.truncate(1);
        scenario
            .gpus
            .iter_mut()
            .for_each(|gpu| gpu.power = power.clone());
        Ok(Self::new(Model::new(scenario)?))
    }

    /// Returns the model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns a mutable reference to the model, for setting clocks and limits.
    pub fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }
}

impl Source for Synthetic {
    fn name(&self) -> &'static str {
        "synthetic"
    }

    fn devices(&self) -> &[Device] {
        &self.devices
    }

    fn read(&mut self, device: usize, now: Duration) -> Reading {
        let mut reading = Reading {
            values: Values::none(),
            faults: vec![],
        };
        for capability in &self.devices[device].capabilities {
            if capability.fault.is_some() {
                continue;
            }
            match value(&self.model, device, capability.metric, now.as_secs_f64()) {
                Ok(value) => reading.values.set(capability.metric, value),
                Err(fault) => reading.faults.push((capability.metric, fault)),
            }
        }
        reading
    }
}

fn device(model: &Model, gpu: usize) -> Device {
    let described = model.gpus()[gpu].gpu();
    let capability = |metric| {
        let (symbol, field) = call(model, metric);
        let fault = value(model, gpu, metric, 0.0).err();
        let lasting = [Fault::NotSupported, Fault::NotOnMig, Fault::MissingCall];
        Capability {
            metric,
            field: field.map_or_else(|| symbol.to_owned(), |field| format!("{symbol} {field}")),
            fault: fault.filter(|fault| lasting.contains(fault)),
        }
    };
    Device {
        index: gpu,
        kind: Kind::Gpu,
        name: described.name.clone(),
        uuid: Some(model.uuid(gpu)),
        pci: Some(model.pci(gpu)),
        driver: Some(model.scenario().driver.version.clone()),
        architecture: Some(described.architecture.name().to_owned()),
        limits: PowerLimits {
            set_w: Some(model.gpus()[gpu].limit_w(0.0)),
            default_w: Some(described.limits.default_w),
            min_w: Some(described.limits.min_w),
            max_w: Some(described.limits.max_w),
        },
        is_mig: described.mig,
        capabilities: Metric::ALL.into_iter().map(capability).collect(),
    }
}

/// Returns the NVML call that reports a metric, and the id of the field if the call queries field
/// values.
fn call(model: &Model, metric: Metric) -> (&'static str, Option<u32>) {
    let memory = "nvmlDeviceGetMemoryInfo_v2";
    match metric {
        Metric::PowerInstant | Metric::PowerModule | Metric::PowerMemory => {
            ("nvmlDeviceGetFieldValues", Some(186))
        }
        Metric::PowerAverage => ("nvmlDeviceGetFieldValues", Some(185)),
        Metric::PowerDraw => ("nvmlDeviceGetPowerUsage", None),
        Metric::PowerLimit => ("nvmlDeviceGetEnforcedPowerLimit", None),
        Metric::Energy => ("nvmlDeviceGetTotalEnergyConsumption", None),
        Metric::Temperature => ("nvmlDeviceGetTemperature", None),
        Metric::GpuBusy | Metric::MemoryBusy => ("nvmlDeviceGetUtilizationRates", None),
        Metric::MemoryUsed | Metric::MemoryTotal if model.scenario().driver.has(memory) => {
            (memory, None)
        }
        Metric::MemoryUsed | Metric::MemoryTotal => ("nvmlDeviceGetMemoryInfo", None),
        Metric::SmClock | Metric::MemoryClock => ("nvmlDeviceGetClockInfo", None),
        Metric::PerformanceState => ("nvmlDeviceGetPerformanceState", None),
        Metric::ClockReasons => ("nvmlDeviceGetCurrentClocksThrottleReasons", None),
    }
}

fn value(model: &Model, gpu: usize, metric: Metric, time_s: f64) -> Result<f64, Fault> {
    let (symbol, field) = call(model, metric);
    let asks = |field| Call {
        symbol,
        gpu: Some(gpu),
        field,
    };
    let whole = model.failure(&asks(None), time_s);
    let of_field = || field.and_then(|field| model.failure(&asks(Some(field)), time_s));
    if let Some(code) = whole.or_else(of_field) {
        return Err(Fault::from_nvml(code));
    }
    reported(&model.gpus()[gpu], metric, time_s)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "no device has 2^53 bytes, and reasons are low bits"
)]
/// Returns the reported value of a metric, in the metric's unit.
fn reported(gpu: &GpuModel, metric: Metric, time_s: f64) -> Result<f64, Fault> {
    let power = |field| gpu.reported_w(field, time_s).ok_or(Fault::NotSupported);
    let of_scope = |share: Option<f64>| {
        let share = share.ok_or(Fault::NotSupported)?;
        Ok(share * power(PowerField::Instant)?)
    };
    let memory = &gpu.gpu().memory;
    match metric {
        Metric::PowerInstant => power(PowerField::Instant),
        Metric::PowerAverage => power(PowerField::Average),
        Metric::PowerDraw => power(PowerField::Draw),
        Metric::PowerModule => of_scope(gpu.gpu().scopes.module),
        Metric::PowerMemory => of_scope(gpu.gpu().scopes.memory),
        Metric::PowerLimit => Ok(gpu.limit_w(time_s)),
        Metric::Energy => gpu.counted_j(time_s).ok_or(Fault::NotSupported),
        Metric::Temperature => Ok(gpu.temperature_c(time_s)),
        Metric::GpuBusy => gpu
            .busy_pct(time_s)
            .map(|busy| busy.0)
            .ok_or(Fault::NotOnMig),
        Metric::MemoryBusy => gpu
            .busy_pct(time_s)
            .map(|busy| busy.1)
            .ok_or(Fault::NotOnMig),
        Metric::MemoryUsed => Ok(gpu.used_bytes(time_s) + memory.reserved_bytes as f64),
        Metric::MemoryTotal => Ok(memory.total_bytes as f64),
        Metric::SmClock => Ok(gpu.sm_mhz(time_s)),
        Metric::MemoryClock => Ok(gpu.memory_mhz()),
        Metric::PerformanceState => Ok(f64::from(gpu.performance_state(time_s))),
        Metric::ClockReasons => Ok(gpu.clock_reasons(time_s) as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Board, FaultRule, Scenario};

    fn source(scenario: Scenario) -> crate::Result<Synthetic> {
        Ok(Synthetic::new(Model::new(scenario)?))
    }

    #[test]
    fn a_reading_is_what_the_model_reports() -> crate::Result<()> {
        let mut source = source(Scenario::from_boards(&[Board::Rtx3090]))?;
        let time_s = 1.25;
        let reading = source.read(0, Duration::from_secs_f64(time_s));
        let gpu = &source.model().gpus()[0];
        let values = reading.values;
        assert_eq!(
            values.get(Metric::PowerAverage),
            gpu.reported_w(PowerField::Average, time_s)
        );
        assert_eq!(values.get(Metric::PowerInstant), Some(340.0));
        assert_eq!(values.get(Metric::Energy), gpu.counted_j(time_s));
        assert_eq!(values.get(Metric::SmClock), Some(2100.0));
        // All metrics except the power of the module and of the memory.
        assert_eq!(values.iter().count(), Metric::COUNT - 2);
        assert_eq!(reading.faults, []);
        Ok(())
    }

    #[test]
    fn what_a_device_cannot_tell_is_no_fault_of_a_reading() -> crate::Result<()> {
        let mut scenario =
            Scenario::from_boards(&[Board::P100, Board::A100]).on_driver("470.57.02");
        scenario.gpus[1].mig = true;
        let mut source = source(scenario)?;
        let fault = |source: &Synthetic, device: usize, metric| {
            source.devices()[device].capabilities[metric as usize].fault
        };
        assert_eq!(fault(&source, 0, Metric::Energy), Some(Fault::NotSupported));
        assert_eq!(fault(&source, 1, Metric::Energy), None);
        assert_eq!(fault(&source, 1, Metric::GpuBusy), Some(Fault::NotOnMig));
        assert_eq!(
            source.devices()[0].field(Metric::MemoryUsed),
            Some("nvmlDeviceGetMemoryInfo")
        );
        assert_eq!(source.read(0, Duration::ZERO).faults, []);
        Ok(())
    }

    #[test]
    fn a_field_that_fails_is_a_fault_of_its_metric_alone() -> crate::Result<()> {
        let rule = FaultRule {
            field: Some(186),
            from_ms: 1,
            ..FaultRule::for_symbol("nvmlDeviceGetFieldValues", 4)
        };
        let mut source = source(Scenario::from_boards(&[Board::H100]).with_fault(rule))?;
        let faults = source.read(0, Duration::from_millis(1)).faults;
        assert_eq!(faults, [(Metric::PowerInstant, Fault::NoPermission)]);
        Ok(())
    }

    #[test]
    fn a_lost_gpu_faults_everything_while_it_is_gone() -> crate::Result<()> {
        let rule = FaultRule {
            until_ms: Some(3000),
            ..FaultRule::lost(0, 2000)
        };
        let mut source = source(Scenario::default().with_fault(rule))?;
        let mut faults = |time_ms| source.read(0, Duration::from_millis(time_ms)).faults;
        assert!(faults(1999).is_empty() && faults(3000).is_empty());
        let gone = faults(2500);
        // All metrics except the power of module and memory, and the average power, which Turing
        // does not report.
        assert_eq!(gone.len(), Metric::COUNT - 3);
        assert!(gone.iter().all(|(_, fault)| *fault == Fault::Lost));
        Ok(())
    }

    #[test]
    fn a_gpu_that_is_lost_at_first_is_read_when_it_returns() -> crate::Result<()> {
        let rule = FaultRule {
            until_ms: Some(1000),
            ..FaultRule::lost(0, 0)
        };
        let mut source = source(Scenario::default().with_fault(rule))?;
        let reading = source.read(0, Duration::from_secs(1));
        assert_eq!(reading.values.get(Metric::PowerLimit), Some(70.0));
        Ok(())
    }
}
