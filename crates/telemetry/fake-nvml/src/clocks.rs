//! Symbols of clocks and of the reasons for low clocks.
#![allow(unsafe_code, reason = "symbols are exported by their names")]

use crate::abi::{Code, Out, put_list};
use crate::power::control;
use crate::state::{Handle, on_gpu, whole_u32};
use telemetry::synthetic::Control;

/// NVML's bits of the supported reasons for low clocks: idle, a user setting, the power limit,
/// temperature.
const SUPPORTED_REASONS: u64 = 1 | 2 | 4 | 32;
/// Number of clock types in NVML: graphics, multiprocessors, memory, video.
const N_KINDS: u32 = 4;
/// NVML's number of the memory clock.
const MEMORY: u32 = 2;

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetClockInfo(device: Handle, kind: u32, clock_mhz: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetClockInfo", device, |asked| {
        let gpu = asked.gpu();
        clock_mhz.put(whole_u32(match kind {
            MEMORY => gpu.memory_mhz(),
            kind if kind < N_KINDS => gpu.sm_mhz(asked.now_s),
            _ => return Err(Code::INVALID_ARGUMENT),
        }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxClockInfo(device: Handle, kind: u32, clock_mhz: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetMaxClockInfo", device, |asked| {
        let gpu = asked.gpu();
        clock_mhz.put(match kind {
            MEMORY => whole_u32(gpu.memory_mhz()),
            kind if kind < N_KINDS => gpu.gpu().clocks.top_sm_mhz(),
            _ => return Err(Code::INVALID_ARGUMENT),
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSupportedMemoryClocks(
    device: Handle,
    n_clocks: Out<u32>,
    clocks_mhz: Out<u32>,
) -> Code {
    on_gpu("nvmlDeviceGetSupportedMemoryClocks", device, |asked| {
        put_list(&asked.gpu().gpu().clocks.memory_mhz, n_clocks, clocks_mhz)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSupportedGraphicsClocks(
    device: Handle,
    memory_mhz: u32,
    n_clocks: Out<u32>,
    clocks_mhz: Out<u32>,
) -> Code {
    on_gpu("nvmlDeviceGetSupportedGraphicsClocks", device, |asked| {
        let clocks = &asked.gpu().gpu().clocks;
        if !clocks.memory_mhz.contains(&memory_mhz) {
            return Err(Code::NOT_FOUND);
        }
        put_list(&clocks.sm_mhz, n_clocks, clocks_mhz)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceSetGpuLockedClocks(device: Handle, min_mhz: u32, max_mhz: u32) -> Code {
    on_gpu("nvmlDeviceSetGpuLockedClocks", device, |asked| {
        control(asked, Control::LockClocks(min_mhz, max_mhz))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceResetGpuLockedClocks(device: Handle) -> Code {
    on_gpu("nvmlDeviceResetGpuLockedClocks", device, |asked| {
        control(asked, Control::ResetClocks)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(device: Handle, reasons: Out<u64>) -> Code {
    current_reasons("nvmlDeviceGetCurrentClocksThrottleReasons", device, reasons)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrentClocksEventReasons(device: Handle, reasons: Out<u64>) -> Code {
    current_reasons("nvmlDeviceGetCurrentClocksEventReasons", device, reasons)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSupportedClocksThrottleReasons(
    device: Handle,
    reasons: Out<u64>,
) -> Code {
    let symbol = "nvmlDeviceGetSupportedClocksThrottleReasons";
    on_gpu(symbol, device, |_| reasons.put(SUPPORTED_REASONS))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSupportedClocksEventReasons(device: Handle, reasons: Out<u64>) -> Code {
    let symbol = "nvmlDeviceGetSupportedClocksEventReasons";
    on_gpu(symbol, device, |_| reasons.put(SUPPORTED_REASONS))
}

fn current_reasons(symbol: &'static str, device: Handle, reasons: Out<u64>) -> Code {
    on_gpu(symbol, device, |asked| {
        reasons.put(asked.gpu().clock_reasons(asked.now_s))
    })
}
