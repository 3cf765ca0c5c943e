//! Symbols of features that the simulated devices lack: fans, displays, encoders, error correction.
//!
//! Role: programs that display all device properties call these symbols; every real library exports
//! them.
#![allow(unsafe_code, reason = "symbols are exported by their names")]

use crate::abi::{Code, Out};
use crate::state::{Handle, on_gpu};

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetFanSpeed(device: Handle, _speed_pct: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetFanSpeed", device, |_| {
        Err(Code::NOT_SUPPORTED)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDisplayActive(device: Handle, is_active: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetDisplayActive", device, |_| is_active.put(0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDisplayMode(device: Handle, mode: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetDisplayMode", device, |_| mode.put(0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeMode(device: Handle, mode: Out<u32>) -> Code {
    // Any number of programs may compute at once.
    on_gpu("nvmlDeviceGetComputeMode", device, |_| mode.put(0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetEncoderUtilization(
    device: Handle,
    _busy_pct: Out<u32>,
    _update_us: Out<u32>,
) -> Code {
    on_gpu("nvmlDeviceGetEncoderUtilization", device, |_| {
        Err(Code::NOT_SUPPORTED)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDecoderUtilization(
    device: Handle,
    _busy_pct: Out<u32>,
    _update_us: Out<u32>,
) -> Code {
    on_gpu("nvmlDeviceGetDecoderUtilization", device, |_| {
        Err(Code::NOT_SUPPORTED)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: Handle,
    _kind: u32,
    _counter: u32,
    _count: Out<u64>,
) -> Code {
    on_gpu("nvmlDeviceGetTotalEccErrors", device, |_| {
        Err(Code::NOT_SUPPORTED)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDriverModel(
    device: Handle,
    _current: Out<u32>,
    _pending: Out<u32>,
) -> Code {
    // Driver models exist only on Windows.
    on_gpu("nvmlDeviceGetDriverModel", device, |_| {
        Err(Code::NOT_SUPPORTED)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: Handle, count: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetMaxMigDeviceCount", device, |_| count.put(0))
}
