//! Options of `explain`.

use clap::{Parser, ValueEnum};

/// Show a workload's program at each level: plan, kernels, machine code
#[derive(Clone, Debug, Parser)]
#[command(
    name = "explain",
    version,
    args_override_self = true,
    after_help = "Exit codes: 0; 1 if nothing matches or the adapter is missing; 2 for wrong usage."
)]
pub struct Explain {
    /// Part of a `name/size` as printed by `bench --list`; the first match is shown
    #[arg(default_value = "similarity-all")]
    pub workload: String,
    /// Level of the program
    #[arg(long, value_name = "LEVEL", default_value = "plan")]
    pub emit: Emit,
    /// Use the adapter whose name contains NAME [default: the best one]
    #[arg(long, value_name = "NAME")]
    pub adapter: Option<String>,
    /// Compile the kernels for AMD GPUs of FAMILY (such as navi31, navi21, vega10) with Mesa's
    /// driver RADV, without such a GPU, and show registers, spills, waves, instructions and
    /// assembly
    ///
    /// WORKLOAD may also be the name of a fixed kernel; part of such a name selects fixed kernels
    /// only if no workload matches.
    #[arg(long, value_name = "FAMILY", conflicts_with_all = ["emit", "adapter"])]
    pub isa: Option<String>,
    /// With --isa: one line per kernel without assembly, for all workloads and fixed kernels that
    /// match
    #[arg(long, requires = "isa")]
    pub table: bool,
    /// Print one JSON object per kernel, or one for the plan: step, name, text
    #[arg(long)]
    pub json: bool,
}

/// The level of a program to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Emit {
    /// The steps as loops
    Plan,
    /// The kernels of each step in WGSL
    Wgsl,
    /// The kernels as passed to drivers of Vulkan
    Spirv,
    /// The kernels as passed to drivers of OpenGL
    Glsl,
    /// The kernels as passed to drivers of Direct3D
    Hlsl,
    /// The kernels as passed to drivers of Metal
    Msl,
}
