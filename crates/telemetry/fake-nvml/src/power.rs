//! Symbols of power, energy and temperature.
#![allow(unsafe_code, reason = "symbols are exported by their names")]

use crate::abi::{Answer, Code, Out};
use crate::state::{GpuQuery, Handle, milli, on_gpu, whole, whole_u32};
use bytemuck::AnyBitPattern;
use telemetry::synthetic::{Control, GpuModel, PowerField};

/// `nvmlTemperature_v1_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
struct TemperatureV1 {
    version: u32,
    sensor: u32,
    temperature_c: i32,
}

/// The version word of [`TemperatureV1`], which the caller sets: the structure's size and version
/// 1.
const TEMPERATURE_V1: u32 = 12 | 1 << 24;
/// Number of temperature threshold types in NVML.
const N_THRESHOLDS: u32 = 8;

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerUsage(device: Handle, power_mw: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetPowerUsage", device, |asked| {
        let power_w = asked.gpu().reported_w(PowerField::Draw, asked.now_s);
        power_mw.put(whole_u32(milli(power_w.ok_or(Code::NOT_SUPPORTED)?)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTotalEnergyConsumption(device: Handle, energy_mj: Out<u64>) -> Code {
    on_gpu("nvmlDeviceGetTotalEnergyConsumption", device, |asked| {
        let energy_j = asked.gpu().counted_j(asked.now_s);
        energy_mj.put(whole(milli(energy_j.ok_or(Code::NOT_SUPPORTED)?)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerManagementLimit(device: Handle, limit_mw: Out<u32>) -> Code {
    limit(
        "nvmlDeviceGetPowerManagementLimit",
        device,
        limit_mw,
        GpuModel::limit_w,
    )
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetEnforcedPowerLimit(device: Handle, limit_mw: Out<u32>) -> Code {
    limit(
        "nvmlDeviceGetEnforcedPowerLimit",
        device,
        limit_mw,
        GpuModel::limit_w,
    )
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerManagementDefaultLimit(device: Handle, limit_mw: Out<u32>) -> Code {
    limit(
        "nvmlDeviceGetPowerManagementDefaultLimit",
        device,
        limit_mw,
        |gpu, _| gpu.gpu().limits.default_w,
    )
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerManagementLimitConstraints(
    device: Handle,
    min_mw: Out<u32>,
    max_mw: Out<u32>,
) -> Code {
    on_gpu(
        "nvmlDeviceGetPowerManagementLimitConstraints",
        device,
        |asked| {
            let limits = asked.gpu().gpu().limits;
            min_mw.put(whole_u32(milli(limits.min_w)))?;
            max_mw.put(whole_u32(milli(limits.max_w)))
        },
    )
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceSetPowerManagementLimit(device: Handle, limit_mw: u32) -> Code {
    on_gpu("nvmlDeviceSetPowerManagementLimit", device, |asked| {
        control(asked, Control::SetLimit(f64::from(limit_mw) / 1e3))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperature(device: Handle, sensor: u32, degrees: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetTemperature", device, |asked| {
        if sensor != 0 {
            return Err(Code::INVALID_ARGUMENT);
        }
        degrees.put(whole_u32(asked.gpu().temperature_c(asked.now_s)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperatureV(device: Handle, temperature: Out<TemperatureV1>) -> Code {
    on_gpu("nvmlDeviceGetTemperatureV", device, |asked| {
        let asked_for = temperature.get()?;
        if asked_for.version != TEMPERATURE_V1 {
            return Err(Code::ARGUMENT_VERSION_MISMATCH);
        }
        if asked_for.sensor != 0 {
            return Err(Code::INVALID_ARGUMENT);
        }
        let degrees = whole_u32(asked.gpu().temperature_c(asked.now_s));
        temperature.put(TemperatureV1 {
            temperature_c: degrees.cast_signed(),
            ..asked_for
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperatureThreshold(
    device: Handle,
    kind: u32,
    degrees: Out<u32>,
) -> Code {
    on_gpu("nvmlDeviceGetTemperatureThreshold", device, |asked| {
        let thermal = asked.gpu().gpu().thermal;
        let threshold_c = match kind {
            0 => thermal.shutdown_c,
            1 => thermal.slowdown_c,
            kind if kind < N_THRESHOLDS => return Err(Code::NOT_SUPPORTED),
            _ => return Err(Code::INVALID_ARGUMENT),
        };
        degrees.put(whole_u32(threshold_c))
    })
}

/// Executes a control operation, which requires root on a real machine.
pub(crate) fn control(asked: GpuQuery<'_>, control: Control) -> Answer {
    let outcome = asked.model.control(asked.index, control, asked.now_s);
    outcome.map_err(|fault| Code(fault.nvml_code()))
}

fn limit(
    symbol: &'static str,
    device: Handle,
    limit_mw: Out<u32>,
    limit_w: impl Fn(&GpuModel, f64) -> f64,
) -> Code {
    on_gpu(symbol, device, |asked| {
        limit_mw.put(whole_u32(milli(limit_w(asked.gpu(), asked.now_s))))
    })
}
