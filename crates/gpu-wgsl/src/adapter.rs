//! What is known of an adapter before it is opened, as plain data.

use std::fmt;

/// A kind of hardware behind an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceType {
    /// A card with memory of its own.
    DiscreteGpu,
    /// A GPU that shares the host's memory.
    IntegratedGpu,
    /// A GPU seen through a virtual machine.
    VirtualGpu,
    /// A driver that computes on the CPU; right, not fast.
    Cpu,
    /// Not told by the driver.
    Other,
}

/// An optional ability of a device that kernels may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Feature {
    /// 16-bit floats in shaders.
    F16,
    /// 64-bit floats in shaders.
    F64,
    /// 64-bit integers in shaders.
    Int64,
    /// Subgroup operations.
    Subgroups,
    /// Timestamps at pass boundaries.
    Timestamps,
    /// Timestamps between dispatches of one pass.
    TimestampsInPass,
    /// Cooperative matrices; reported, not opened, until they are checked against the oracle.
    CooperativeMatrix,
}

impl Feature {
    /// Every feature that matters to us.
    pub const ALL: [Self; 7] = [
        Self::F16,
        Self::F64,
        Self::Int64,
        Self::Subgroups,
        Self::Timestamps,
        Self::TimestampsInPass,
        Self::CooperativeMatrix,
    ];
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F16 => "f16",
            Self::F64 => "f64",
            Self::Int64 => "int64",
            Self::Subgroups => "subgroups",
            Self::Timestamps => "timestamps",
            Self::TimestampsInPass => "timestamps in passes",
            Self::CooperativeMatrix => "cooperative matrices",
        })
    }
}

/// The limits that our checks read; WebGPU's names in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one buffer.
    pub max_buffer_size: u64,
    /// Bytes of one storage binding.
    pub max_storage_buffer_binding_size: u64,
    /// Storage buffers of one kernel.
    pub max_storage_buffers_per_shader_stage: u32,
    /// Bytes of workgroup memory.
    pub max_compute_workgroup_storage_size: u32,
    /// Invocations of one workgroup.
    pub max_compute_invocations_per_workgroup: u32,
    /// Workgroups in each dimension of a grid.
    pub max_compute_workgroups_per_dimension: u32,
    /// Alignment in bytes of a storage binding's offset.
    pub min_storage_buffer_offset_alignment: u32,
    /// Alignment in bytes of a uniform binding's offset.
    pub min_uniform_buffer_offset_alignment: u32,
}

impl Limits {
    /// Gives the limits by WebGPU's names, for reports.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("maxBufferSize", self.max_buffer_size),
            (
                "maxStorageBufferBindingSize",
                self.max_storage_buffer_binding_size,
            ),
            (
                "maxStorageBuffersPerShaderStage",
                self.max_storage_buffers_per_shader_stage.into(),
            ),
            (
                "maxComputeWorkgroupStorageSize",
                self.max_compute_workgroup_storage_size.into(),
            ),
            (
                "maxComputeInvocationsPerWorkgroup",
                self.max_compute_invocations_per_workgroup.into(),
            ),
            (
                "maxComputeWorkgroupsPerDimension",
                self.max_compute_workgroups_per_dimension.into(),
            ),
            (
                "minStorageBufferOffsetAlignment",
                self.min_storage_buffer_offset_alignment.into(),
            ),
            (
                "minUniformBufferOffsetAlignment",
                self.min_uniform_buffer_offset_alignment.into(),
            ),
        ]
    }
}

/// An adapter of this machine: a GPU, or a driver that simulates one, through one backend.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// Its place in [`crate::adapters`], which [`Select::Index`] takes.
    pub index: usize,
    /// Name by the driver, with backend and place behind it where several adapters share it; unique on a machine.
    pub name: String,
    /// Kind of hardware.
    pub device_type: DeviceType,
    /// Vulkan, Metal or Dx12.
    pub backend: String,
    /// Driver name and version.
    pub driver: String,
    /// PCI vendor, or the backend's own number.
    pub vendor: u32,
    /// PCI device, or the backend's own number.
    pub device: u32,
    /// Smallest and largest subgroup.
    pub subgroup_sizes: [u32; 2],
    /// Iterations after which the driver ends a loop of a shader without an error, where it is known to.
    pub max_loop_iterations: Option<u64>,
    /// Limits, all of which an opened device gets.
    pub limits: Limits,
    /// Optional abilities it has.
    pub features: Vec<Feature>,
}

/// Which adapter to open.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Select {
    /// The fastest kind: discrete, integrated, virtual, then software; the environment variable
    /// `GPU_ADAPTER` (part of a name, any case) narrows the choice.
    #[default]
    Best,
    /// By place in [`crate::adapters`].
    Index(usize),
    /// The fastest kind among those whose name contains this, in any case.
    Name(String),
}

impl Select {
    /// Picks among `adapters`; `None` where none fits.
    pub(crate) fn pick<'a>(&self, adapters: &'a [Adapter]) -> Option<&'a Adapter> {
        let rank = |adapter: &&Adapter| match adapter.device_type {
            DeviceType::DiscreteGpu => 0,
            DeviceType::IntegratedGpu => 1,
            DeviceType::VirtualGpu | DeviceType::Other => 2,
            DeviceType::Cpu => 3,
        };
        match self {
            Self::Best => adapters.iter().min_by_key(rank),
            Self::Index(index) => adapters.iter().find(|adapter| adapter.index == *index),
            Self::Name(part) => {
                let part = part.to_lowercase();
                let named = adapters
                    .iter()
                    .filter(|adapter| adapter.name.to_lowercase().contains(&part));
                named.min_by_key(rank)
            }
        }
    }
}

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => f.write_str("there"),
            Self::Index(index) => write!(f, "number {index}"),
            Self::Name(part) => write!(f, "called {part:?}"),
        }
    }
}
