//! Locking of a GPU's clock.
//!
//! Role: the only operation of the crate that changes the machine and needs privileges. It runs
//! only if a caller calls [`Nvml::lock_sm_clock`] or [`crate::sweep`].

use super::{Nvml, fault};
use crate::{Error, Metric, Result};
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::enums::device::GpuLockedClocksSetting;

/// A guard that locks a GPU's multiprocessor clock until it is dropped, also by a panic.
///
/// A process that is killed leaves the clock locked until `nvidia-smi --reset-gpu-clocks` is run or
/// the driver is reloaded. A program should therefore catch signals and end the work normally, as
/// [`crate::sweep`] does through its `is_cancelled`.
#[derive(Debug)]
pub struct ClockLock<'a> {
    nvml: &'a Nvml,
    device: usize,
}

impl Nvml {
    /// Returns the multiprocessor clocks that a GPU supports at its highest memory clock, in MHz,
    /// ascending.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the GPU does not report its clocks or is lost.
    ///
    /// # Panics
    /// Panics if there is no such device.
    pub fn sm_clocks(&self, device: usize) -> Result<Vec<u32>> {
        self.control("Nvml::sm_clocks", device, |gpu| {
            let memory = gpu.max_clock_info(Clock::Memory)?;
            let mut clocks = gpu.supported_graphics_clocks(memory)?;
            clocks.sort_unstable();
            Ok(clocks)
        })
    }

    /// Locks a GPU's multiprocessors to a clock, in MHz. This needs root privileges.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the process has no permission, if the GPU is lost, or if the GPU
    /// is older than Volta, which does not support locked clocks.
    ///
    /// # Panics
    /// Panics if there is no such device.
    pub fn lock_sm_clock(&self, device: usize, clock_mhz: u32) -> Result<ClockLock<'_>> {
        let setting = GpuLockedClocksSetting::Numeric {
            min_clock_mhz: clock_mhz,
            max_clock_mhz: clock_mhz,
        };
        let lock = |mut gpu: nvml_wrapper::Device<'_>| gpu.set_gpu_locked_clocks(setting);
        self.control("Nvml::lock_sm_clock", device, lock)?;
        Ok(ClockLock { nvml: self, device })
    }

    /// Calls a function of a GPU and converts its error.
    fn control<T>(
        &self,
        operation: &'static str,
        device: usize,
        call: impl FnOnce(
            nvml_wrapper::Device<'_>,
        ) -> std::result::Result<T, nvml_wrapper::error::NvmlError>,
    ) -> Result<T> {
        let unavailable = |fault| Error::Unavailable {
            operation,
            metric: Metric::SmClock,
            device,
            fault,
        };
        let (Some(library), Ok(handle)) = (&self.library, self.handles[device]) else {
            let fault = self.handles[device].err();
            return Err(unavailable(fault.unwrap_or(crate::Fault::DriverGone)));
        };
        call(handle.device(library)).map_err(|error| unavailable(fault(&error)))
    }
}

impl Drop for ClockLock<'_> {
    fn drop(&mut self) {
        // An error is ignored: a GPU that is lost has lost its lock, too.
        let reset = |mut gpu: nvml_wrapper::Device<'_>| gpu.reset_gpu_locked_clocks();
        let _ = self.nvml.control("ClockLock::drop", self.device, reset);
    }
}
