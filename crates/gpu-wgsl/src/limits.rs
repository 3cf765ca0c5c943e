//! The limits of a device that affect kernels of nests.
//!
//! Role: plain data, computed once per device from its adapter. The kernel generator and the device
//! both use this module, so neither depends on the other.

use crate::adapter::{Adapter, DeviceType, Feature};
use crate::tiles::{Combination, Tiles};

/// Limits of a storage binding: maximum size and required alignment of its start, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding {
    pub(crate) bytes: u64,
    pub(crate) alignment: u64,
}

/// The cooperative matrices of a device, which multiply `f16` and add in `f32`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatrixLimits {
    /// Rows and columns of each of the three matrices of a product.
    pub(crate) side: u32,
    /// Largest size of the subgroups that compute a product together, in invocations.
    pub(crate) lanes: u32,
}

/// The limits of a device that affect kernels of nests.
#[derive(Clone, Debug)]
pub(crate) struct KernelLimits {
    pub(crate) binding: Binding,
    /// Maximum number of operations in one kernel and in one submission. A driver's watchdog might
    /// stop longer work.
    pub(crate) operations: f64,
    /// Maximum memory of a workgroup, in bytes.
    pub(crate) workgroup_bytes: u32,
    /// Maximum number of invocations of a workgroup.
    pub(crate) invocations: u32,
    /// Whether the device supports `f64`, and the 64-bit integers by which kernels copy an `f64`.
    pub(crate) has_f64: bool,
    /// Whether reductions use subgroup operations. `false` without the feature, in a browser, or if
    /// the table of tiles selects the tree.
    pub(crate) uses_subgroups: bool,
    /// The cooperative matrices that kernels may use; `None` unless a caller requested them.
    pub(crate) matrices: Option<MatrixLimits>,
    /// Minimum number of output elements for a kernel in blocks. With fewer elements
    /// there are too few blocks to keep the device busy.
    pub(crate) least_outputs: usize,
    /// Minimum number of rows, and of columns, for a kernel in blocks.
    pub(crate) least_side: usize,
    /// Number of iterations of all loops of an invocation together after which the driver ends
    /// loops without an error; each execution of a loop counts once more. `None` if no such limit
    /// is known.
    pub(crate) loop_iterations: Option<u64>,
    pub(crate) tiles: Tiles,
}

impl KernelLimits {
    /// Returns the limits of an adapter, without its cooperative matrices.
    pub(crate) fn for_adapter(adapter: &Adapter) -> Self {
        // Few outputs are enough to keep a CPU busy.
        let [least_outputs, least_side] = match adapter.device_type {
            DeviceType::Cpu => [8, 2],
            _ => [1 << 12, 4],
        };
        // Estimates of the operations that a slow device of each kind completes in one second.
        let operations = match adapter.device_type {
            DeviceType::Cpu => f64::INFINITY,
            DeviceType::DiscreteGpu => 1e12,
            _ => 1e11,
        };
        let tiles = Tiles::for_adapter(adapter);
        Self {
            // An opaque copy of an `f64` is computed on its bits, as a `u64`.
            has_f64: [Feature::F64, Feature::Int64]
                .iter()
                .all(|feature| adapter.features.contains(feature)),
            // A browser's compiler requires a directive for subgroups that naga rejects.
            uses_subgroups: adapter.features.contains(&Feature::Subgroups)
                && cfg!(not(target_arch = "wasm32"))
                && tiles.combination == Combination::Subgroups,
            matrices: None,
            operations,
            binding: Binding {
                bytes: adapter.limits.max_storage_buffer_binding_size,
                alignment: adapter.limits.min_storage_buffer_offset_alignment.into(),
            },
            least_outputs,
            least_side,
            workgroup_bytes: adapter.limits.max_compute_workgroup_storage_size,
            // Workgroups of generated kernels are lines along x.
            invocations: u32::min(
                adapter.limits.max_compute_invocations_per_workgroup,
                adapter.limits.max_compute_workgroup_size_x,
            ),
            loop_iterations: adapter.max_loop_iterations,
            tiles,
        }
    }

    /// Allows the cooperative matrices of an adapter, if it has any that kernels can use.
    pub(crate) fn with_matrices(mut self, adapter: &Adapter) -> Self {
        self.matrices = adapter.matrix_side.map(|side| MatrixLimits {
            side,
            lanes: adapter.subgroup_sizes[1],
        });
        self
    }
}
