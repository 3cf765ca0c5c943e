//! Registers, spills, occupancy, instruction counts and assembly of a compute kernel, from a Vulkan
//! driver's compiler.
//!
//! Role: compiles SPIR-V without running it. Mesa's RADV opens without a GPU if the environment
//! variable `RADV_FORCE_FAMILY` names one (`navi31`, `navi21`, `vega10`, …), so that the code for
//! AMD's GPUs can be read on any Linux machine.
//! Method: [`Compiler`] opens a device and queries each pipeline by
//! `VK_KHR_pipeline_executable_properties`. [`loops`] finds the innermost loop in the assembly and
//! counts its instructions. [`prediction`] predicts the kernel's time from these counts.
//!
//! # Examples
//! ```no_run
//! let compiler = isa::Compiler::open()?; // RADV_FORCE_FAMILY=navi31
//! # let spirv: Vec<u32> = Vec::new();
//! // SAFETY: naga has validated the module, whose entry point `matmul` has three storage buffers.
//! let code = unsafe { compiler.compile(&spirv, "matmul", 3) }?;
//! println!("{:?} VGPRs\n{}", code.statistic("VGPRs"), code.assembly);
//! # Ok::<(), isa::Error>(())
//! ```

mod driver;
mod executable;
mod instance;
pub mod loops;
mod pipeline;
pub mod prediction;

pub use driver::Compiler;

/// The machine code of a compiled kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Code {
    /// Statistics with the driver's names, in its order.
    pub statistics: Vec<(String, f64)>,
    /// Assembly with a label in front of each block.
    pub assembly: String,
}

impl Code {
    /// Returns a statistic by the driver's name.
    #[must_use]
    pub fn statistic(&self, name: &str) -> Option<f64> {
        let mut statistics = self.statistics.iter();
        statistics
            .find(|(found, _)| found == name)
            .map(|(_, value)| *value)
    }
}

/// The reason why a kernel has no statistics.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no Vulkan loader on this machine.
    #[error("open: no Vulkan loader ({0})")]
    NoLoader(String),
    /// There is no driver that reports the code of its pipelines.
    #[error("open: no driver reports the code of its pipelines (found: {found})")]
    NoDriver {
        /// Names of the devices.
        found: String,
    },
    /// A call of Vulkan failed.
    #[error("{operation}: {result}")]
    Vulkan {
        /// The call.
        operation: &'static str,
        /// The error of the driver.
        result: String,
    },
}
