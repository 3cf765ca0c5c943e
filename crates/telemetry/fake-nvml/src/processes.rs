//! Symbols of the processes on a GPU.
#![allow(unsafe_code, reason = "symbols are exported by their names")]

use crate::abi::{Answer, Code, Out, put_list};
use crate::samples::stamp_us;
use crate::state::{GpuQuery, Handle, on_gpu};
use telemetry::synthetic::Process;

/// `nvmlProcessInfo_v1_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct ProcessV1 {
    pid: u32,
    memory_bytes: u64,
}

/// `nvmlProcessInfo_v2_t`; the calls `_v3` use this layout too.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct ProcessV2 {
    pid: u32,
    memory_bytes: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

/// `nvmlProcessUtilizationSample_t`, in per cent.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct ProcessBusy {
    pid: u32,
    stamp_us: u64,
    multiprocessors: u32,
    memory: u32,
    encoder: u32,
    decoder: u32,
}

/// The instance id of a process on a GPU that is not in MIG mode.
const NO_INSTANCE: u32 = u32::MAX;

/// Exports functions that list the running processes of a GPU. The arguments for each function are:
/// whether the listed processes use graphics rather than compute, the conversion of a process to a
/// list element, and the type of an element.
macro_rules! running {
    ($($symbol:ident: $is_graphics:literal, $info:ident, $process:ty;)+) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $symbol(
            device: Handle,
            n_processes: Out<u32>,
            processes: Out<$process>,
        ) -> Code {
            running(stringify!($symbol), device, $is_graphics, $info, n_processes, processes)
        }
    )+};
}

running! {
    nvmlDeviceGetComputeRunningProcesses: false, v1, ProcessV1;
    nvmlDeviceGetComputeRunningProcesses_v2: false, v2, ProcessV2;
    nvmlDeviceGetComputeRunningProcesses_v3: false, v2, ProcessV2;
    nvmlDeviceGetGraphicsRunningProcesses: true, v1, ProcessV1;
    nvmlDeviceGetGraphicsRunningProcesses_v2: true, v2, ProcessV2;
    nvmlDeviceGetGraphicsRunningProcesses_v3: true, v2, ProcessV2;
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetProcessUtilization(
    device: Handle,
    samples: Out<ProcessBusy>,
    n_samples: Out<u32>,
    last_seen_us: u64,
) -> Code {
    on_gpu("nvmlDeviceGetProcessUtilization", device, |asked| {
        let busy = busy(&asked, last_seen_us)?;
        put_list(&busy, n_samples, samples)
    })
}

fn running<T: Copy>(
    symbol: &'static str,
    device: Handle,
    is_graphics: bool,
    info: impl Fn(&Process) -> T,
    n_processes: Out<u32>,
    processes: Out<T>,
) -> Code {
    on_gpu(symbol, device, |asked| {
        let all = asked.gpu().gpu().processes.iter();
        let asked_for = all.filter(|process| process.is_graphics == is_graphics);
        put_list(
            &asked_for.map(info).collect::<Vec<_>>(),
            n_processes,
            processes,
        )
    })
}

fn v1(process: &Process) -> ProcessV1 {
    ProcessV1 {
        pid: process.pid,
        memory_bytes: process.memory_bytes,
    }
}

fn v2(process: &Process) -> ProcessV2 {
    ProcessV2 {
        pid: process.pid,
        memory_bytes: process.memory_bytes,
        gpu_instance: NO_INSTANCE,
        compute_instance: NO_INSTANCE,
    }
}

/// Returns the utilisation by each process at the last update. Returns [`Code::NOT_FOUND`] if that
/// update is not later than `last_seen_us`, or if there are no processes.
fn busy(asked: &GpuQuery<'_>, last_seen_us: u64) -> Answer<Vec<ProcessBusy>> {
    let gpu = asked.gpu().gpu();
    if gpu.mig {
        return Err(Code::NOT_SUPPORTED);
    }
    let update_s = gpu.utilisation.update_s;
    let stamp_us = stamp_us(asked.model, (asked.now_s / update_s).floor() * update_s);
    let sample = |process: &Process| ProcessBusy {
        pid: process.pid,
        stamp_us,
        multiprocessors: process.gpu_pct,
        memory: process.memory_pct,
        encoder: 0,
        decoder: 0,
    };
    if stamp_us <= last_seen_us || gpu.processes.is_empty() {
        return Err(Code::NOT_FOUND);
    }
    Ok(gpu.processes.iter().map(sample).collect())
}
