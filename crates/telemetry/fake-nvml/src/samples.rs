//! The driver's ring buffers of recent samples.
#![allow(unsafe_code, reason = "symbols are exported by their names")]

use crate::abi::{Answer, Code, Out};
use crate::state::{GpuQuery, Handle, milli, on_gpu, whole};
use telemetry::synthetic::{Model, PowerField};

/// `nvmlSample_t`, with its union as the bytes of an integer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Sample {
    stamp_us: u64,
    value: u64,
}

/// Capacity of a ring buffer, in samples.
const N_KEPT: u64 = 120;
/// Time between two samples of a clock, in s.
const CLOCK_UPDATE_S: f64 = 0.1;
/// The value type `unsigned int`.
const UNSIGNED_INT: u32 = 1;
/// Number of sample types in NVML.
const N_KINDS: u32 = 10;

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSamples(
    device: Handle,
    kind: u32,
    last_seen_us: u64,
    value_kind: Out<u32>,
    n_samples: Out<u32>,
    samples: Out<Sample>,
) -> Code {
    on_gpu("nvmlDeviceGetSamples", device, |asked| {
        let n_room = n_samples.get()?;
        let mut kept = kept(&asked, kind)?;
        kept.retain(|sample| sample.stamp_us > last_seen_us);
        if kept.is_empty() {
            return Err(Code::NOT_FOUND);
        }
        value_kind.put(UNSIGNED_INT)?;
        if !samples.is_null() {
            // Oldest first, so that a caller with a small buffer gets every sample by calling
            // again.
            kept.truncate(usize::try_from(n_room).unwrap_or(usize::MAX));
            samples.put_all(&kept)?;
        }
        n_samples.put(u32::try_from(kept.len()).unwrap_or(u32::MAX))
    })
}

/// Converts a time to µs since 1970, the unit of NVML's timestamps.
pub(crate) fn stamp_us(model: &Model, time_s: f64) -> u64 {
    let began_us = model.scenario().began_unix_us;
    began_us.saturating_add(whole(time_s * 1e6))
}

/// Returns the contents of the ring buffer of a sample type, oldest first.
fn kept(asked: &GpuQuery<'_>, kind: u32) -> Answer<Vec<Sample>> {
    let gpu = asked.gpu();
    let field = match gpu.sensor(PowerField::Instant) {
        Some(_) => PowerField::Instant,
        None => PowerField::Draw,
    };
    let power = gpu.sensor(field).ok_or(Code::NOT_SUPPORTED);
    let busy = || gpu.busy_pct(0.0).ok_or(Code::NOT_SUPPORTED);
    let busy_update_s = gpu.gpu().utilisation.update_s;
    let (update_s, phase_s) = match kind {
        0 => power.map(|sensor| (sensor.update_s, sensor.phase_s))?,
        1 | 2 => busy().map(|_| (busy_update_s, 0.0))?,
        5 | 6 => (CLOCK_UPDATE_S, 0.0),
        kind if kind < N_KINDS => return Err(Code::NOT_SUPPORTED),
        _ => return Err(Code::INVALID_ARGUMENT),
    };
    let reported = |time_s: f64| match kind {
        0 => gpu.reported_w(field, time_s).map_or(0.0, milli),
        1 => gpu.busy_pct(time_s).map_or(0.0, |busy| busy.0),
        2 => gpu.busy_pct(time_s).map_or(0.0, |busy| busy.1),
        5 => gpu.sm_mhz(time_s),
        _ => gpu.memory_mhz(),
    };
    let n_updates = whole(((asked.now_s - phase_s) / update_s).floor() + 1.0);
    let sample = |back: u64| {
        let newest_s = phase_s + ((asked.now_s - phase_s) / update_s).floor() * update_s;
        let ago = f64::from(u32::try_from(back).unwrap_or(u32::MAX));
        let update_at_s = newest_s - ago * update_s;
        Sample {
            stamp_us: stamp_us(asked.model, update_at_s),
            // Reads at the middle of the update interval, so that rounding cannot select a
            // neighbouring update.
            value: whole(reported(update_at_s + 0.5 * update_s)),
        }
    };
    Ok((0..n_updates.min(N_KEPT)).rev().map(sample).collect())
}
