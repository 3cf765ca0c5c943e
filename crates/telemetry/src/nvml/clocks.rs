//! Setting the clock of a GPU: the one privileged thing that this crate does, and only for who asks for it by name.

use super::{Nvml, fault};
use crate::{Error, Metric, Result};
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::enums::device::GpuLockedClocksSetting;

/// A GPU whose multiprocessors keep to one clock until this is dropped: after the work, or when it panics.
///
/// A process that is killed leaves the clock locked until `nvidia-smi --reset-gpu-clocks`, or until the driver is loaded anew;
/// signals that can be caught have to end the work, as [`crate::sweep`] does by its `is_cancelled`.
#[derive(Debug)]
pub struct ClockLock<'a> {
    nvml: &'a Nvml,
    device: usize,
}

impl Nvml {
    /// Gives the clocks that a GPU's multiprocessors can keep to, in MHz and rising.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it does not tell, or is lost.
    ///
    /// # Panics
    /// If there is no such device.
    pub fn sm_clocks(&self, device: usize) -> Result<Vec<u32>> {
        self.control("Nvml::sm_clocks", device, |gpu| {
            let memory = gpu.max_clock_info(Clock::Memory)?;
            let mut clocks = gpu.supported_graphics_clocks(memory)?;
            clocks.sort_unstable();
            Ok(clocks)
        })
    }

    /// Keeps a GPU's multiprocessors to a clock, which only root may.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it may not, before Volta, or if the GPU is lost.
    ///
    /// # Panics
    /// If there is no such device.
    pub fn lock_sm_clock(&self, device: usize, clock_mhz: u32) -> Result<ClockLock<'_>> {
        let setting = GpuLockedClocksSetting::Numeric {
            min_clock_mhz: clock_mhz,
            max_clock_mhz: clock_mhz,
        };
        let lock = |mut gpu: nvml_wrapper::Device<'_>| gpu.set_gpu_locked_clocks(setting);
        self.control("Nvml::lock_sm_clock", device, lock)?;
        Ok(ClockLock { nvml: self, device })
    }

    fn control<T>(
        &self,
        operation: &'static str,
        device: usize,
        call: impl FnOnce(
            nvml_wrapper::Device<'_>,
        ) -> std::result::Result<T, nvml_wrapper::error::NvmlError>,
    ) -> Result<T> {
        let refused = |fault| Error::Unavailable {
            operation,
            metric: Metric::SmClock,
            device,
            fault,
        };
        let (Some(library), Ok(handle)) = (&self.library, self.handles[device]) else {
            let fault = self.handles[device].err();
            return Err(refused(fault.unwrap_or(crate::Fault::DriverGone)));
        };
        call(handle.device(library)).map_err(|error| refused(fault(&error)))
    }
}

impl Drop for ClockLock<'_> {
    fn drop(&mut self) {
        // A GPU that is lost has lost its lock, too.
        let reset = |mut gpu: nvml_wrapper::Device<'_>| gpu.reset_gpu_locked_clocks();
        let _ = self.nvml.control("ClockLock::drop", self.device, reset);
    }
}
