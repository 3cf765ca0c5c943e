//! Symbols of utilisation, memory, the bus and modes.
#![allow(unsafe_code, reason = "symbols are exported by their names")]

use crate::abi::{Code, Out};
use crate::state::{Handle, on_gpu, whole, whole_u32};
use bytemuck::AnyBitPattern;
use telemetry::synthetic::Quantity;

/// `nvmlUtilization_t`, in per cent.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Utilization {
    gpu: u32,
    memory: u32,
}

/// `nvmlMemory_t`, in bytes; the used memory includes the driver's reserve.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Memory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`, in bytes; the used memory does not include the driver's reserve.
#[repr(C)]
#[derive(Clone, Copy, Debug, AnyBitPattern)]
struct MemoryV2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// The version word of [`MemoryV2`], which the caller sets: the structure's size and version 2.
const MEMORY_V2: u32 = 40 | 2 << 24;
/// Compute capabilities of the GPUs that support multi-instance mode (MIG).
const CAN_DIVIDE: [(u32, u32); 3] = [(8, 0), (9, 0), (10, 0)];

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUtilizationRates(device: Handle, rates: Out<Utilization>) -> Code {
    on_gpu("nvmlDeviceGetUtilizationRates", device, |asked| {
        let busy_pct = asked.gpu().busy_pct(asked.now_s);
        let (gpu_pct, memory_pct) = busy_pct.ok_or(Code::NOT_SUPPORTED)?;
        rates.put(Utilization {
            gpu: whole_u32(gpu_pct),
            memory: whole_u32(memory_pct),
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo(device: Handle, memory: Out<Memory>) -> Code {
    on_gpu("nvmlDeviceGetMemoryInfo", device, |asked| {
        let described = &asked.gpu().gpu().memory;
        let total = described.total_bytes;
        let used = whole(asked.gpu().used_bytes(asked.now_s));
        let used = used.saturating_add(described.reserved_bytes);
        memory.put(Memory {
            total,
            free: total.saturating_sub(used),
            used,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Handle, memory: Out<MemoryV2>) -> Code {
    on_gpu("nvmlDeviceGetMemoryInfo_v2", device, |asked| {
        let version = memory.get()?.version;
        if version != MEMORY_V2 {
            return Err(Code::ARGUMENT_VERSION_MISMATCH);
        }
        let described = &asked.gpu().gpu().memory;
        let (total, reserved) = (described.total_bytes, described.reserved_bytes);
        let used = whole(asked.gpu().used_bytes(asked.now_s));
        memory.put(MemoryV2 {
            version,
            total,
            reserved,
            free: total.saturating_sub(used.saturating_add(reserved)),
            used,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPcieThroughput(device: Handle, counter: u32, rate: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetPcieThroughput", device, |asked| {
        let pcie = &asked.gpu().gpu().pcie;
        let kb_per_s: &Quantity = match counter {
            0 => &pcie.sent_kb_per_s,
            1 => &pcie.received_kb_per_s,
            _ => return Err(Code::INVALID_ARGUMENT),
        };
        rate.put(whole_u32(kb_per_s.at(asked.now_s)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPerformanceState(device: Handle, state: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetPerformanceState", device, |asked| {
        state.put(asked.gpu().performance_state(asked.now_s))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPersistenceMode(device: Handle, mode: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetPersistenceMode", device, |asked| {
        mode.put(u32::from(asked.gpu().gpu().persistence))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigMode(device: Handle, current: Out<u32>, pending: Out<u32>) -> Code {
    on_gpu("nvmlDeviceGetMigMode", device, |asked| {
        let gpu = asked.gpu().gpu();
        if !CAN_DIVIDE.contains(&gpu.compute_capability) {
            return Err(Code::NOT_SUPPORTED);
        }
        current.put(u32::from(gpu.mig))?;
        pending.put(u32::from(gpu.mig))
    })
}
