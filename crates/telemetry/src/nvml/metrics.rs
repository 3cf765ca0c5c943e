//! Table of NVML calls, by metric.
//!
//! Role: the only place that maps a metric to its call; [`super::Nvml`] decides which metrics are
//! queried, and when.

use super::fault;
use super::raw::{Handle, Scope};
use crate::{Fault, Metric};
use nvml_wrapper::Nvml as Library;
use nvml_wrapper::enum_wrappers::device::{Clock, PerformanceState, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use std::borrow::Borrow;

/// NVML's field id of the instantaneous power.
const POWER_INSTANT: u32 = 186;
/// NVML's field id of the average power over one second.
const POWER_AVERAGE: u32 = 185;
/// Metrics that are queried together in one call, with field id and scope.
const FIELDS: [(Metric, u32, Scope); 4] = [
    (Metric::PowerInstant, POWER_INSTANT, Scope::Gpu),
    (Metric::PowerAverage, POWER_AVERAGE, Scope::Gpu),
    (Metric::PowerModule, POWER_INSTANT, Scope::Module),
    (Metric::PowerMemory, POWER_INSTANT, Scope::Memory),
];
pub(super) const PER_MILLI: f64 = 1e-3;

/// The value of a metric, or its fault.
pub(super) type Answer = Result<f64, Fault>;

/// Queries the metrics for which `wants` is true, and passes each result to `report`.
///
/// A call that returns several metrics is made once. For utilisation and memory, `report` then
/// receives both metrics of the call, even if only one of them is wanted.
pub(super) fn query(
    library: &Library,
    handle: Handle,
    wants: impl Fn(Metric) -> bool,
    mut report: impl FnMut(Metric, Answer),
) {
    let device = handle.device(library);
    if FIELDS.iter().any(|&(metric, ..)| wants(metric)) {
        let fields = handle.fields(library, FIELDS.map(|(_, id, scope)| (id, scope)));
        for (place, (metric, ..)) in FIELDS.into_iter().enumerate() {
            let field = fields.as_ref().and_then(|fields| fields[place].as_ref());
            if wants(metric) {
                report(metric, answer(field, |&milliwatts| milli(milliwatts)));
            }
        }
    }
    if wants(Metric::PowerDraw) {
        let power = device.power_usage();
        report(Metric::PowerDraw, answer(power, |mw| milli(mw.into())));
    }
    if wants(Metric::PowerLimit) {
        let limit = device.enforced_power_limit();
        report(Metric::PowerLimit, answer(limit, |mw| milli(mw.into())));
    }
    if wants(Metric::Energy) {
        let energy = device.total_energy_consumption();
        report(Metric::Energy, answer(energy, milli));
    }
    if wants(Metric::Temperature) {
        let degrees = handle.temperature(library).map(f64::from);
        // Fallback for drivers that lack `nvmlDeviceGetTemperatureV`.
        let older = |_| device.temperature(TemperatureSensor::Gpu).map(f64::from);
        report(
            Metric::Temperature,
            answer(degrees.or_else(older), |degrees| degrees),
        );
    }
    if wants(Metric::GpuBusy) || wants(Metric::MemoryBusy) {
        let busy = device.utilization_rates();
        let busy = busy.as_ref();
        report(Metric::GpuBusy, answer(busy, |busy| busy.gpu.into()));
        report(Metric::MemoryBusy, answer(busy, |busy| busy.memory.into()));
    }
    if wants(Metric::MemoryTotal) || wants(Metric::MemoryUsed) {
        let memory = handle.memory(library);
        let memory = memory.as_ref();
        report(Metric::MemoryTotal, answer(memory, |bytes| bytes[0] as f64));
        report(Metric::MemoryUsed, answer(memory, |bytes| bytes[1] as f64));
    }
    for (metric, clock) in [
        (Metric::SmClock, Clock::SM),
        (Metric::MemoryClock, Clock::Memory),
    ] {
        if wants(metric) {
            report(metric, answer(device.clock_info(clock), f64::from));
        }
    }
    if wants(Metric::PerformanceState) {
        let state = match device.performance_state() {
            // NVML reports an unknown state as a value, not as an error.
            Ok(PerformanceState::Unknown) => Err(Fault::InvalidReading),
            state => answer(state, |state| f64::from(state.as_c())),
        };
        report(Metric::PerformanceState, state);
    }
    if wants(Metric::ClockReasons) {
        let older = |_| {
            device
                .current_throttle_reasons()
                .map(|reasons| reasons.bits())
        };
        let reasons = handle.event_reasons(library).or_else(older);
        report(Metric::ClockReasons, answer(reasons, |bits| bits as f64));
    }
}

/// Converts the result of a call to a number or a fault.
fn answer<T, E: Borrow<NvmlError>>(
    reported: Result<T, E>,
    number: impl FnOnce(T) -> f64,
) -> Answer {
    reported.map(number).map_err(|error| fault(error.borrow()))
}

/// Converts thousandths, such as mW or mJ, to the unit itself.
fn milli(thousandths: u64) -> f64 {
    thousandths as f64 * PER_MILLI
}

/// Returns the NVML function, and the field if there is one, that a metric is read from.
pub(super) fn field(metric: Metric) -> &'static str {
    match metric {
        Metric::PowerInstant => "nvmlDeviceGetFieldValues 186",
        Metric::PowerAverage => "nvmlDeviceGetFieldValues 185",
        Metric::PowerModule => "nvmlDeviceGetFieldValues 186, scope 1",
        Metric::PowerMemory => "nvmlDeviceGetFieldValues 186, scope 2",
        Metric::PowerDraw => "nvmlDeviceGetPowerUsage",
        Metric::PowerLimit => "nvmlDeviceGetEnforcedPowerLimit",
        Metric::Energy => "nvmlDeviceGetTotalEnergyConsumption",
        Metric::Temperature => "nvmlDeviceGetTemperatureV",
        Metric::GpuBusy => "nvmlDeviceGetUtilizationRates gpu",
        Metric::MemoryBusy => "nvmlDeviceGetUtilizationRates memory",
        Metric::MemoryUsed => "nvmlDeviceGetMemoryInfo used",
        Metric::MemoryTotal => "nvmlDeviceGetMemoryInfo total",
        Metric::SmClock => "nvmlDeviceGetClockInfo SM",
        Metric::MemoryClock => "nvmlDeviceGetClockInfo memory",
        Metric::PerformanceState => "nvmlDeviceGetPerformanceState",
        Metric::ClockReasons => "nvmlDeviceGetCurrentClocksEventReasons",
    }
}
