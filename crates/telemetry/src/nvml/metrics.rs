//! Which call of NVML tells which metric.
//!
//! Role: the one list of calls; [`super::Nvml`] decides when they are made.

use super::fault;
use super::raw::{Handle, Scope};
use crate::{Fault, Metric};
use nvml_wrapper::Nvml as Library;
use nvml_wrapper::enum_wrappers::device::{Clock, PerformanceState, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use std::borrow::Borrow;

/// Fields of the newest power, and of the mean of the last second.
const POWER_INSTANT: u32 = 186;
const POWER_AVERAGE: u32 = 185;
/// What is asked for by one call.
const FIELDS: [(Metric, u32, Scope); 4] = [
    (Metric::PowerInstant, POWER_INSTANT, Scope::Gpu),
    (Metric::PowerAverage, POWER_AVERAGE, Scope::Gpu),
    (Metric::PowerModule, POWER_INSTANT, Scope::Module),
    (Metric::PowerMemory, POWER_INSTANT, Scope::Memory),
];
pub(super) const PER_MILLI: f64 = 1e-3;

/// A metric's value, or why there is none.
pub(super) type Answer = Result<f64, Fault>;

/// Asks a device for what is wanted, and tells its answers; calls that answer for several metrics are made once.
pub(super) fn ask(
    library: &Library,
    handle: Handle,
    wants: impl Fn(Metric) -> bool,
    mut tell: impl FnMut(Metric, Answer),
) {
    let device = handle.device(library);
    if FIELDS.iter().any(|&(metric, ..)| wants(metric)) {
        let fields = handle.fields(library, FIELDS.map(|(_, id, scope)| (id, scope)));
        for (place, (metric, ..)) in FIELDS.into_iter().enumerate() {
            let field = fields.as_ref().and_then(|fields| fields[place].as_ref());
            if wants(metric) {
                tell(metric, answer(field, |&milliwatts| milli(milliwatts)));
            }
        }
    }
    if wants(Metric::PowerDraw) {
        let power = device.power_usage();
        tell(Metric::PowerDraw, answer(power, |mw| milli(mw.into())));
    }
    if wants(Metric::PowerLimit) {
        let limit = device.enforced_power_limit();
        tell(Metric::PowerLimit, answer(limit, |mw| milli(mw.into())));
    }
    if wants(Metric::Energy) {
        let energy = device.total_energy_consumption();
        tell(Metric::Energy, answer(energy, milli));
    }
    if wants(Metric::Temperature) {
        let degrees = handle.temperature(library).map(f64::from);
        // The older call, which drivers keep for as long as they can.
        let older = |_| device.temperature(TemperatureSensor::Gpu).map(f64::from);
        tell(
            Metric::Temperature,
            answer(degrees.or_else(older), |degrees| degrees),
        );
    }
    if wants(Metric::GpuBusy) || wants(Metric::MemoryBusy) {
        let busy = device.utilization_rates();
        let busy = busy.as_ref();
        tell(Metric::GpuBusy, answer(busy, |busy| busy.gpu.into()));
        tell(Metric::MemoryBusy, answer(busy, |busy| busy.memory.into()));
    }
    if wants(Metric::MemoryTotal) || wants(Metric::MemoryUsed) {
        let memory = handle.memory(library);
        let memory = memory.as_ref();
        tell(Metric::MemoryTotal, answer(memory, |bytes| bytes[0] as f64));
        tell(Metric::MemoryUsed, answer(memory, |bytes| bytes[1] as f64));
    }
    for (metric, clock) in [
        (Metric::SmClock, Clock::SM),
        (Metric::MemoryClock, Clock::Memory),
    ] {
        if wants(metric) {
            tell(metric, answer(device.clock_info(clock), f64::from));
        }
    }
    if wants(Metric::PerformanceState) {
        let state = match device.performance_state() {
            // NVML has a number for what it does not know.
            Ok(PerformanceState::Unknown) => Err(Fault::Senseless),
            state => answer(state, |state| f64::from(state.as_c())),
        };
        tell(Metric::PerformanceState, state);
    }
    if wants(Metric::ClockReasons) {
        let older = |_| {
            device
                .current_throttle_reasons()
                .map(|reasons| reasons.bits())
        };
        let reasons = handle.event_reasons(library).or_else(older);
        tell(Metric::ClockReasons, answer(reasons, |bits| bits as f64));
    }
}

/// Gives what a call told as a number, or its fault.
fn answer<T, E: Borrow<NvmlError>>(told: Result<T, E>, number: impl FnOnce(T) -> f64) -> Answer {
    told.map(number).map_err(|error| fault(error.borrow()))
}

fn milli(thousandths: u64) -> f64 {
    thousandths as f64 * PER_MILLI
}

/// Gives the call, and the field, that a metric comes from.
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
