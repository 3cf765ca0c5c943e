//! Adapter descriptions as plain data, available before a device is opened.

use std::fmt;

/// The kind of hardware behind an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceType {
    /// A graphics card with its own memory.
    DiscreteGpu,
    /// A GPU that shares the host's memory.
    IntegratedGpu,
    /// A GPU inside a virtual machine.
    VirtualGpu,
    /// A software driver that computes on the CPU: correct but slow.
    Cpu,
    /// Not reported by the driver.
    Other,
}

/// An optional device feature that kernels may require.
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
    /// Cooperative matrices: enabled only by
    /// [`Gpu::open_with_matrices`](crate::Gpu::open_with_matrices).
    CooperativeMatrix,
}

impl Feature {
    /// Every feature that this crate distinguishes.
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

/// The limits that this crate checks, named as in WebGPU but in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of one buffer, in bytes.
    pub max_buffer_size: u64,
    /// Maximum size of one storage binding, in bytes.
    pub max_storage_buffer_binding_size: u64,
    /// Maximum number of storage buffers in one kernel.
    pub max_storage_buffers_per_shader_stage: u32,
    /// Maximum workgroup memory, in bytes.
    pub max_compute_workgroup_storage_size: u32,
    /// Maximum number of invocations in one workgroup.
    pub max_compute_invocations_per_workgroup: u32,
    /// Maximum size of a workgroup along x, in invocations.
    pub max_compute_workgroup_size_x: u32,
    /// Maximum size of a workgroup along y, in invocations.
    pub max_compute_workgroup_size_y: u32,
    /// Maximum size of a workgroup along z, in invocations.
    pub max_compute_workgroup_size_z: u32,
    /// Maximum number of workgroups in each dimension of a grid.
    pub max_compute_workgroups_per_dimension: u32,
    /// Required alignment of a storage binding's offset, in bytes.
    pub min_storage_buffer_offset_alignment: u32,
    /// Required alignment of a uniform binding's offset, in bytes.
    pub min_uniform_buffer_offset_alignment: u32,
}

impl Limits {
    /// Returns each limit with its WebGPU name, for reports.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 11] {
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
                "maxComputeWorkgroupSizeX",
                self.max_compute_workgroup_size_x.into(),
            ),
            (
                "maxComputeWorkgroupSizeY",
                self.max_compute_workgroup_size_y.into(),
            ),
            (
                "maxComputeWorkgroupSizeZ",
                self.max_compute_workgroup_size_z.into(),
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

/// An adapter of this machine: a GPU, or a software driver, seen through one backend.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// Index in [`crate::adapters`], for [`Select::Index`].
    pub index: usize,
    /// Name from the driver, unique on a machine: if several adapters have the same name, the
    /// backend and the index are appended.
    pub name: String,
    /// Kind of hardware.
    pub device_type: DeviceType,
    /// Vulkan, Metal, Dx12 or `BrowserWebGpu`; Gl for a device of the application.
    pub backend: String,
    /// Driver name and version.
    pub driver: String,
    /// PCI vendor id, or an id defined by the backend.
    pub vendor: u32,
    /// PCI device id, or an id defined by the backend.
    pub device: u32,
    /// Smallest and largest subgroup size, in invocations.
    pub subgroup_sizes: [u32; 2],
    /// Rows and columns of the adapter's cooperative matrices that multiply `f16` and add in `f32`;
    /// `None` if it has none that kernels can use.
    pub matrix_side: Option<u32>,
    /// Number of iterations of all loops of an invocation together after which the driver ends
    /// loops without an error; each execution of a loop counts once more. `None` if no such limit
    /// is known.
    pub max_loop_iterations: Option<u64>,
    /// Limits of the adapter; an opened device has the same limits.
    pub limits: Limits,
    /// Optional features of the adapter.
    pub features: Vec<Feature>,
}

/// The selection of an adapter to open.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Select {
    /// The fastest kind of adapter: discrete, integrated, virtual, then software. The environment
    /// variable `GPU_ADAPTER` (part of a name, case-insensitive) narrows the choice.
    #[default]
    Best,
    /// The adapter at this index in [`crate::adapters`].
    Index(usize),
    /// An adapter whose name contains this text, case-insensitive; of several, the fastest kind as
    /// in [`Select::Best`].
    Name(String),
}

impl Select {
    /// Picks one of `adapters`; `None` if no adapter matches.
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
            Self::Best => f.write_str("any type"),
            Self::Index(index) => write!(f, "index {index}"),
            Self::Name(part) => write!(f, "{part:?}"),
        }
    }
}
