//! Compilation of pipelines by a Vulkan driver.
#![allow(
    unsafe_code,
    reason = "ash exposes the functions of Vulkan's C interface as unsafe functions"
)]

use std::fmt;

use ash::khr::pipeline_executable_properties;

use crate::executable::code;
use crate::instance::Instance;
use crate::pipeline::Pipeline;
use crate::{Code, Error};

/// A device of a driver that reports the code of its pipelines. Nothing is ever submitted to it.
pub struct Compiler {
    device: ash::Device,
    properties: pipeline_executable_properties::Device,
    name: String,
    /// The instance of the device. Fields are dropped after `drop` has destroyed the device.
    _instance: Instance,
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut compiler = f.debug_struct("Compiler");
        compiler.field("name", &self.name).finish_non_exhaustive()
    }
}

impl Compiler {
    /// Opens the first device whose driver reports the code of its pipelines. Devices that lack an
    /// extension or a feature are passed over.
    ///
    /// # Errors
    /// [`Error::NoLoader`], [`Error::NoDriver`], [`Error::Vulkan`].
    pub fn open() -> Result<Self, Error> {
        let instance = Instance::new()?;
        let (device, name) = instance.open_device()?;
        Ok(Self {
            properties: instance.executable_properties(&device),
            device,
            name,
            _instance: instance,
        })
    }

    /// Returns the name of the device.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Compiles a compute kernel with a uniform buffer at binding 0 of group 0 and `n_buffers`
    /// storage buffers at the bindings after it.
    ///
    /// # Errors
    /// [`Error::Vulkan`] if the driver rejects the kernel.
    ///
    /// # Safety
    /// - `spirv` is a valid module, such as naga writes after its validation.
    /// - The entry point `entry` exists and has no other bindings than these.
    /// - The driver compiles every capability of the module without its feature, as RADV does:
    ///   `open` enables robust access only.
    pub unsafe fn compile(
        &self,
        spirv: &[u32],
        entry: &str,
        n_buffers: u32,
    ) -> Result<Code, Error> {
        // SAFETY: the caller guarantees the conditions, which are the same.
        let pipeline = unsafe { Pipeline::new(&self.device, spirv, entry, n_buffers) }?;
        code(self.device.handle(), &self.properties, pipeline.handle())
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        // SAFETY: no call of this device is in progress, and no handle of it is used later.
        unsafe { self.device.destroy_device(None) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// Reports on standard error that the running test was skipped, so that `xtask verify` counts
    /// the skip. The line bypasses the harness, which captures `eprintln!`.
    fn skip(why: &Error) {
        let thread = std::thread::current();
        let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("test"));
        let written = std::io::stderr().write_all(line.as_bytes());
        written.expect("standard error is writable");
    }

    #[test]
    fn devices_that_do_not_report_code_are_no_error_of_vulkan() {
        match Compiler::open() {
            Ok(compiler) => assert!(!compiler.name().is_empty()),
            Err(error @ (Error::NoLoader(_) | Error::NoDriver { .. })) => skip(&error),
            Err(error) => panic!("{error}"),
        }
    }
}
