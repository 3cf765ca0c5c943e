//! Field values: many numbers in one call, each with its own return code.
//!
//! Method: field numbers in the code are those before driver 580.82; the numbers that this release
//! changed are converted.
#![allow(unsafe_code, reason = "symbols are exported by their names")]

use crate::abi::{Answer, Code, Out};
use crate::samples::stamp_us;
use crate::state::{GpuQuery, Handle, milli, on_gpu, whole};
use bytemuck::AnyBitPattern;
use telemetry::synthetic::{Call, PowerField};

/// `nvmlFieldValue_t`, with its union as the bytes of an integer.
#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
struct FieldValue {
    field: u32,
    scope: u32,
    stamp_us: i64,
    latency_us: i64,
    kind: u32,
    code: u32,
    value: u64,
}

/// Value type `unsigned int`.
const UNSIGNED_INT: u32 = 1;
/// Value type `unsigned long long`. On little-endian machines its low bytes coincide with an
/// `unsigned int` in the union.
const UNSIGNED_LONG_LONG: u32 = 3;
/// One more than the largest field number.
const N_FIELDS: u32 = 274;
const SYMBOL: &str = "nvmlDeviceGetFieldValues";

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetFieldValues(
    device: Handle,
    n_values: i32,
    values: Out<FieldValue>,
) -> Code {
    on_gpu(SYMBOL, device, |asked| {
        let n_values = usize::try_from(n_values).unwrap_or(0);
        if n_values == 0 || values.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        (0..n_values).try_for_each(|i| answer(&asked, values.at(i)))
    })
}

fn answer(asked: &GpuQuery<'_>, place: Out<FieldValue>) -> Answer {
    let mut value = place.get()?;
    let call = Call {
        symbol: SYMBOL,
        gpu: Some(asked.index),
        field: Some(value.field),
    };
    let reported = match asked.model.failure(&call, asked.now_s) {
        Some(code) => Err(Code(code)),
        None => reported(asked, value.field, value.scope),
    };
    value.stamp_us = stamp_us(asked.model, asked.now_s).cast_signed();
    value.latency_us = 0;
    match reported {
        Ok((kind, number)) => (value.kind, value.value, value.code) = (kind, number, 0),
        Err(code) => value.code = code.0,
    }
    place.put(value)
}

fn reported(asked: &GpuQuery<'_>, field: u32, scope: u32) -> Answer<(u32, u64)> {
    let (gpu, now_s) = (asked.gpu(), asked.now_s);
    let limits = gpu.gpu().limits;
    let milliwatts = |power_w: f64| Ok((UNSIGNED_INT, whole(milli(power_w))));
    let energy = || {
        let energy_j = gpu.counted_j(now_s).ok_or(Code::NOT_SUPPORTED)?;
        Ok((
            UNSIGNED_LONG_LONG,
            whole(milli(energy_j * share(asked, scope)?)),
        ))
    };
    let power = |field| {
        let power_w = gpu.reported_w(field, now_s).ok_or(Code::NOT_SUPPORTED)?;
        milliwatts(power_w * share(asked, scope)?)
    };
    // Fields 251 to 253 are the time with low clocks because of temperature, hardware or power
    // supply, which is always 0 here.
    let driver = &asked.model.scenario().driver;
    let is_slowdown = || (251..=253).any(|before| driver.field_number(before) == field);
    match field {
        83 | 191 => energy(),
        185 => power(PowerField::Average),
        186 => power(PowerField::Instant),
        187 => milliwatts(limits.min_w),
        188 => milliwatts(limits.max_w),
        189 => milliwatts(limits.default_w),
        190 | 192 => milliwatts(gpu.limit_w(now_s)),
        _ if is_slowdown() => Ok((UNSIGNED_LONG_LONG, 0)),
        known if known < N_FIELDS => Err(Code::NOT_SUPPORTED),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}

/// Returns the power of a scope (0: GPU, 1: module, 2: memory) as a fraction of the GPU's power.
fn share(asked: &GpuQuery<'_>, scope: u32) -> Answer<f64> {
    let scopes = asked.gpu().gpu().scopes;
    let share = match scope {
        0 => Some(1.0),
        1 => scopes.module,
        2 => scopes.memory,
        _ => return Err(Code::INVALID_ARGUMENT),
    };
    share.ok_or(Code::NOT_SUPPORTED)
}
