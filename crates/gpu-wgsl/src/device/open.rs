//! Enumeration of adapters, and opening of devices.

use super::{FeatureSet, Gpu, Shared, Timer, experimental};
use crate::adapter::{Adapter, DeviceType, Feature, Limits, Select};
use crate::limits::KernelLimits;
use crate::{Error, Result};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use tensor_core::exec::Cache;

/// Environment variable that narrows [`Select::Best`] to adapters whose name contains its value.
const ADAPTER_VARIABLE: &str = "GPU_ADAPTER";
/// Environment variable that enables verification: new buffers are filled with the sentinel.
const VERIFY_VARIABLE: &str = "TENSOR_VERIFY";
/// Iterations after which Mesa's llvmpipe ends all loops of an invocation: its
/// `LP_MAX_TGSI_LOOP_ITERATIONS` (65 535), which all loops of a shader share, each with one more
/// iteration than its body runs. Subtracted are those of a loop with which Mesa may clear the
/// workgroup memory of 32 KiB, at 16 bytes per iteration and invocation. Mesa 25.0 has no limit.
const LLVMPIPE_LOOP_ITERATIONS: u64 = 65_535 - (32 * 1024 / 16 + 1);

/// Returns the adapters of this machine, including software adapters; empty if there is no driver.
/// Blocks; in a browser, use [`Gpu::open_async`] instead.
#[must_use]
pub fn adapters() -> Vec<Adapter> {
    pollster::block_on(find())
        .into_iter()
        .map(|(adapter, _)| adapter)
        .collect()
}

async fn find() -> Vec<(Adapter, wgpu::Adapter)> {
    let backends = wgpu::Backends::VULKAN
        | wgpu::Backends::METAL
        | wgpu::Backends::DX12
        | wgpu::Backends::BROWSER_WEBGPU;
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    // No flags: they would only enable debug layers of drivers. wgpu's own validation is always on.
    descriptor.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(descriptor);
    let found = instance.enumerate_adapters(backends).await;
    let mut found: Vec<_> = found
        .into_iter()
        .enumerate()
        .map(|(index, adapter)| (describe(index, &adapter), adapter))
        .collect();
    name_apart(found.iter_mut().map(|(adapter, _)| adapter).collect());
    found
}

/// Appends backend and index to names that several adapters share, e.g. two equal cards, or one
/// card with two backends.
fn name_apart(adapters: Vec<&mut Adapter>) {
    let names: Vec<String> = adapters
        .iter()
        .map(|adapter| adapter.name.clone())
        .collect();
    for adapter in adapters {
        if names.iter().filter(|name| **name == adapter.name).count() > 1 {
            adapter.name = format!("{} ({} {})", adapter.name, adapter.backend, adapter.index);
        }
    }
}

pub(super) async fn open(select: Select, features: FeatureSet) -> Result<Gpu> {
    let (select, wanted) = match (std::env::var(ADAPTER_VARIABLE), select) {
        (Ok(part), Select::Best) if !part.is_empty() => {
            let wanted = format!("{part:?} (environment variable {ADAPTER_VARIABLE})");
            (Select::Name(part), wanted)
        }
        (_, select) => {
            let wanted = select.to_string();
            (select, wanted)
        }
    };
    let mut found = find().await;
    let plain: Vec<Adapter> = found.iter().map(|(adapter, _)| adapter.clone()).collect();
    let Some(place) = select.pick(&plain).map(|picked| picked.index) else {
        let found = plain.into_iter().map(|adapter| adapter.name).collect();
        return Err(Error::NoAdapter { wanted, found });
    };
    let (adapter, handle) = found.swap_remove(place);
    let with_matrices = features == FeatureSet::WithMatrices;
    if with_matrices && adapter.matrix_side.is_none() {
        return Err(Error::Unsupported {
            operation: "open".to_owned(),
            feature: Feature::CooperativeMatrix,
            adapter: adapter.name,
        });
    }
    let (device, queue) = handle
        .request_device(&wgpu::DeviceDescriptor {
            label: Some(&adapter.name),
            required_features: opened_features(&adapter, features),
            required_limits: handle.limits(),
            experimental_features: match features {
                FeatureSet::Stable => wgpu::ExperimentalFeatures::disabled(),
                FeatureSet::WithMatrices => experimental::permission(),
            },
            ..Default::default()
        })
        .await
        .map_err(|error| Error::Device {
            operation: "open",
            message: error.to_string(),
        })?;
    let limits = match features {
        FeatureSet::Stable => KernelLimits::for_adapter(&adapter),
        FeatureSet::WithMatrices => KernelLimits::for_adapter(&adapter).with_matrices(&adapter),
    };
    Ok(assemble(adapter, limits, device, queue))
}

#[cfg(any(test, feature = "existing-device"))]
impl Gpu {
    /// Creates a `Gpu` from a device that an application has already opened, and its queue. Arrays,
    /// programs and kernels then share the device with other work of the application. Sizes are
    /// checked against the limits with which the device was opened, and only its enabled features
    /// are used. The function replaces the device's callbacks for loss and for uncaptured errors.
    /// Blocks; not available in a browser.
    ///
    /// # Examples
    /// ```
    /// use gpu_wgsl::{Gpu, wgpu};
    ///
    /// # pollster::block_on(async {
    /// let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    /// # let found = instance.enumerate_adapters(wgpu::Backends::VULKAN).await;
    /// # let Some(adapter) = found.into_iter().next() else { return Ok(()) };
    /// let (device, queue) = adapter.request_device(&wgpu::DeviceDescriptor::default()).await?;
    /// let gpu = Gpu::from_existing(&adapter, device, queue);
    /// let sum = tensor_core::Tensor::arange(5).sum(0).eval::<i32>(&gpu)?;
    /// assert_eq!(sum[[]], 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn from_existing(
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
    ) -> Self {
        let mut description = describe_with(0, adapter, &device.limits(), device.features());
        // The index and the name come from the list of this machine's adapters.
        let found = pollster::block_on(find());
        let key = |adapter: &Adapter, handle: &wgpu::Adapter| {
            // Two equal cards differ in the bus id only.
            let bus_id = handle.get_info().device_pci_bus_id;
            let ids = (adapter.vendor, adapter.device, bus_id);
            (ids, adapter.backend.clone(), adapter.driver.clone())
        };
        let own = key(&description, adapter);
        if let Some((known, _)) = found
            .iter()
            .find(|(other, handle)| key(other, handle) == own)
        {
            (description.index, description.name) = (known.index, known.name.clone());
        }
        let limits = KernelLimits::for_adapter(&description);
        assemble(description, limits, device, queue)
    }
}

#[cfg(test)]
impl Gpu {
    /// Opens a device with a reduced binding limit (in bytes) and a reduced limit of operations per
    /// kernel.
    pub(crate) fn limited(select: Select, bytes: u64, operations: f64) -> Result<Self> {
        let mut gpu = Self::open(select)?;
        let shared = Arc::get_mut(&mut gpu.shared).expect("a new device has no other owner");
        shared.adapter.limits.max_storage_buffer_binding_size = bytes;
        shared.limits.binding.bytes = bytes;
        shared.limits.operations = operations;
        Ok(gpu)
    }
}

fn assemble(
    adapter: Adapter,
    limits: KernelLimits,
    device: wgpu::Device,
    queue: wgpu::Queue,
) -> Gpu {
    let lost = Arc::new(OnceLock::new());
    let faults = Arc::new(Mutex::new(Vec::new()));
    let mark = Arc::clone(&lost);
    device.set_device_lost_callback(move |reason, message| {
        // Only the first loss is stored, because later reports are its consequences.
        let _ = mark.set(format!("{reason:?} {message}").trim().to_owned());
    });
    let sink = Arc::clone(&faults);
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        super::lock(&sink).push(error.to_string())
    }));
    let is_verifying = std::env::var_os(VERIFY_VARIABLE).is_some_and(|value| value == "1");
    let timer = Timer::best(&adapter);
    Gpu {
        shared: Arc::new(Shared {
            adapter,
            device,
            queue,
            timer,
            pool: Mutex::default(),
            pipelines: Cache::default(),
            limits,
            extension: OnceLock::new(),
            batch: Mutex::default(),
            marks_unwritten: AtomicBool::new(is_verifying),
            staging: Mutex::default(),
            lost,
            faults,
        }),
    }
}

fn describe(index: usize, adapter: &wgpu::Adapter) -> Adapter {
    describe_with(index, adapter, &adapter.limits(), adapter.features())
}

/// Returns the description of an adapter with these limits and features.
fn describe_with(
    index: usize,
    adapter: &wgpu::Adapter,
    limits: &wgpu::Limits,
    features: wgpu::Features,
) -> Adapter {
    let info = adapter.get_info();
    let is_llvmpipe = info.driver.contains("llvmpipe");
    Adapter {
        matrix_side: matrix_side(adapter, features),
        max_loop_iterations: is_llvmpipe.then_some(LLVMPIPE_LOOP_ITERATIONS),
        index,
        name: info.name,
        device_type: match info.device_type {
            wgpu::DeviceType::DiscreteGpu => DeviceType::DiscreteGpu,
            wgpu::DeviceType::IntegratedGpu => DeviceType::IntegratedGpu,
            wgpu::DeviceType::VirtualGpu => DeviceType::VirtualGpu,
            wgpu::DeviceType::Cpu => DeviceType::Cpu,
            wgpu::DeviceType::Other => DeviceType::Other,
        },
        backend: format!("{:?}", info.backend),
        driver: format!("{} {}", info.driver, info.driver_info)
            .trim()
            .to_owned(),
        vendor: info.vendor,
        device: info.device,
        subgroup_sizes: [info.subgroup_min_size, info.subgroup_max_size],
        limits: Limits {
            max_buffer_size: limits.max_buffer_size,
            max_storage_buffer_binding_size: limits.max_storage_buffer_binding_size,
            max_storage_buffers_per_shader_stage: limits.max_storage_buffers_per_shader_stage,
            max_compute_workgroup_storage_size: limits.max_compute_workgroup_storage_size,
            max_compute_invocations_per_workgroup: limits.max_compute_invocations_per_workgroup,
            max_compute_workgroup_size_x: limits.max_compute_workgroup_size_x,
            max_compute_workgroup_size_y: limits.max_compute_workgroup_size_y,
            max_compute_workgroup_size_z: limits.max_compute_workgroup_size_z,
            max_compute_workgroups_per_dimension: limits.max_compute_workgroups_per_dimension,
            min_storage_buffer_offset_alignment: limits.min_storage_buffer_offset_alignment,
            min_uniform_buffer_offset_alignment: limits.min_uniform_buffer_offset_alignment,
        },
        features: Feature::ALL
            .into_iter()
            .filter(|&feature| features.contains(by_wgpu(feature)))
            .collect(),
    }
}

fn by_wgpu(feature: Feature) -> wgpu::Features {
    match feature {
        Feature::F16 => wgpu::Features::SHADER_F16,
        Feature::F64 => wgpu::Features::SHADER_F64,
        Feature::Int64 => wgpu::Features::SHADER_INT64,
        Feature::Subgroups => wgpu::Features::SUBGROUP,
        Feature::Timestamps => wgpu::Features::TIMESTAMP_QUERY,
        Feature::TimestampsInPass => {
            wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES
                | wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS
        }
        Feature::CooperativeMatrix => wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX,
    }
}

/// Returns the side of the largest cooperative matrices that multiply `f16` and add in `f32`, if
/// the adapter has them and all features that kernels use together with them.
fn matrix_side(adapter: &wgpu::Adapter, features: wgpu::Features) -> Option<u32> {
    let needed = [Feature::CooperativeMatrix, Feature::F16, Feature::Subgroups];
    if !needed
        .into_iter()
        .all(|feature| features.contains(by_wgpu(feature)))
    {
        return None;
    }
    let kinds = adapter.cooperative_matrix_properties().into_iter();
    let usable = kinds.filter(|kind| {
        kind.ab_type == wgpu::CooperativeScalarType::F16
            && kind.cr_type == wgpu::CooperativeScalarType::F32
            && [kind.m_size, kind.n_size] == [kind.k_size; 2]
    });
    usable.map(|kind| kind.k_size).max()
}

/// Returns the features to enable: those of the adapter, without cooperative matrices unless
/// requested, because they are experimental in wgpu.
fn opened_features(adapter: &Adapter, features: FeatureSet) -> wgpu::Features {
    adapter
        .features
        .iter()
        .filter(|feature| {
            **feature != Feature::CooperativeMatrix || features == FeatureSet::WithMatrices
        })
        .fold(wgpu::Features::empty(), |all, &feature| {
            all | by_wgpu(feature)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(index: usize, name: &str) -> Adapter {
        Adapter {
            index,
            name: name.to_owned(),
            device_type: DeviceType::Other,
            backend: "Vulkan".to_owned(),
            driver: String::new(),
            vendor: 0,
            device: 0,
            subgroup_sizes: [1, 1],
            matrix_side: None,
            max_loop_iterations: None,
            limits: Limits {
                max_buffer_size: 0,
                max_storage_buffer_binding_size: 0,
                max_storage_buffers_per_shader_stage: 0,
                max_compute_workgroup_storage_size: 0,
                max_compute_invocations_per_workgroup: 0,
                max_compute_workgroup_size_x: 0,
                max_compute_workgroup_size_y: 0,
                max_compute_workgroup_size_z: 0,
                max_compute_workgroups_per_dimension: 0,
                min_storage_buffer_offset_alignment: 256,
                min_uniform_buffer_offset_alignment: 0,
            },
            features: Vec::new(),
        }
    }

    #[test]
    fn a_device_that_is_there_already_computes_within_what_it_was_opened_with() {
        use tensor_core::{DType, Tensor};
        for shared in crate::check::every_adapter() {
            let mut found = pollster::block_on(find());
            let (_, adapter) = found.swap_remove(shared.adapter().index);
            // WebGPU's defaults: 8 buffers, 16 KiB of workgroup memory, no optional feature.
            let opened = adapter.request_device(&wgpu::DeviceDescriptor::default());
            let (device, queue) = pollster::block_on(opened).unwrap();
            let gpu = Gpu::from_existing(&adapter, device.clone(), queue);
            let limits = gpu.adapter().limits;
            assert_eq!(limits.max_storage_buffers_per_shader_stage, 8);
            assert!(gpu.adapter().features.is_empty());
            let x = Tensor::arange(12_000).reshape(&[100, 120]).cast(DType::F32) / 8192.0;
            let sums: Vec<Tensor> = (0..9).map(|n| &x + n).collect();
            let sums: Vec<&Tensor> = sums.iter().collect();
            let stacked = Tensor::stack(&sums, 0).matmul(&x.t()).sum(0);
            let on_device = stacked.eval::<f32>(&gpu).unwrap();
            let on_host = stacked.eval::<f32>(&tensor_core::Host::new()).unwrap();
            let bound = tensor_core::compare::Tolerance::relative(2000);
            tensor_core::compare::assert_close(on_device, on_host, bound);
            // Destroying the application's device must be visible through `gpu`.
            device.destroy();
            let error = stacked.eval::<f32>(&gpu).unwrap_err();
            assert!(error.to_string().contains("lost"), "{error}");
        }
    }

    #[test]
    fn work_that_was_lost_makes_what_is_computed_from_it_an_error() {
        use shaders::{layout, params::MatmulParams};
        for shared in crate::check::every_adapter() {
            let gpu = shared.reopen().unwrap();
            let [one, b, c] =
                ["one", "b", "c"].map(|name| gpu.upload(name, &[1, 1], &[1.0_f32]).unwrap());
            b.bound().mark_stale("its submission was lost");
            let params = MatmulParams::new(1, 1, 1);
            gpu.dispatch(&layout::MATMUL_NAIVE, &params, &[&b, &one, &c])
                .unwrap();
            assert!(gpu.read(&b).is_err());
            let error = gpu.read(&c).unwrap_err();
            assert!(error.to_string().contains("lost"), "{error}");
            assert_eq!(gpu.read(&one).unwrap(), [1.0]);
        }
    }

    #[test]
    fn a_device_of_small_limits_leaves_to_the_host_what_it_has_no_room_for() {
        use tensor_core::{Host, Tensor};
        for shared in crate::check::every_adapter() {
            let mut found = pollster::block_on(find());
            let (_, adapter) = found.swap_remove(shared.adapter().index);
            let small = wgpu::DeviceDescriptor {
                required_limits: wgpu::Limits {
                    max_compute_invocations_per_workgroup: 64,
                    max_compute_workgroup_size_x: 32,
                    max_buffer_size: 1 << 14,
                    max_storage_buffer_binding_size: 1 << 14,
                    ..wgpu::Limits::default()
                },
                ..Default::default()
            };
            let (device, queue) = pollster::block_on(adapter.request_device(&small)).unwrap();
            let gpu = Gpu::from_existing(&adapter, device, queue);
            let x = Tensor::arange(600).reshape(&[20, 30]);
            let program = (0..200).fold(x.clone(), |y, _| &y - y.max(0));
            let expected = program.eval::<i32>(&Host::new()).unwrap();
            assert_eq!(program.eval::<i32>(&gpu).unwrap(), expected);
            assert!(!gpu.fallbacks().is_empty());
        }
    }

    /// A nest that is divided needs more bindings than the whole nest: those of partial results.
    #[test]
    fn divided_folds_run_with_the_default_number_of_bindings() {
        use tensor_core::{Host, Tensor};
        for shared in crate::check::every_adapter() {
            let mut found = pollster::block_on(find());
            let (_, adapter) = found.swap_remove(shared.adapter().index);
            let default = wgpu::DeviceDescriptor::default();
            let (device, queue) = pollster::block_on(adapter.request_device(&default)).unwrap();
            let gpu = Gpu::from_existing(&adapter, device, queue);
            let x = Tensor::arange(4 * 20_000).reshape(&[4, 20_000]) % 11;
            let others = |shape: &[usize]| -> Vec<Tensor> {
                let of = |at: i32| {
                    let numbers = (0..1_000).map(|x| x * at % 100).cycle();
                    Tensor::from_vec(shape, numbers.take(shape.iter().product()).collect())
                };
                (1..6).map(of).collect()
            };
            let plus = |to: Tensor, others: Vec<Tensor>| {
                others.into_iter().fold(to, |sum, other| sum + other)
            };
            for program in [
                plus(x.cumsum(1), others(&[4, 20_000])),
                plus(x.sum(1) - x.max(1) * x.min(1), others(&[4])),
                x.cumsum(1) + plus(x.clone(), others(&[4, 20_000])).cumsum(1),
            ] {
                let expected = program.eval::<i32>(&Host::new()).unwrap();
                assert_eq!(program.eval::<i32>(&gpu).unwrap(), expected);
            }
            assert_eq!(gpu.fallbacks(), [].into());
        }
    }

    #[test]
    fn equal_names_are_distinguished_and_others_are_unchanged() {
        let mut all = [adapter(0, "card"), adapter(1, "card"), adapter(2, "other")];
        name_apart(all.iter_mut().collect());
        let names = all.map(|adapter| adapter.name);
        assert_eq!(names, ["card (Vulkan 0)", "card (Vulkan 1)", "other"]);
    }
}
