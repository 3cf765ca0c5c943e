//! Compilation and caching of kernels, and checks of calls against a kernel's interface.

use super::{AnyBuffer, Gpu};
use crate::{Error, Result};
use shaders::{Access, Kernel, Params};
use std::sync::Arc;

/// A compiled kernel.
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) name: String,
    pub(super) pipeline: wgpu::ComputePipeline,
    pub(super) bind_group_layout: wgpu::BindGroupLayout,
    /// Access mode and element stride in bytes of each storage buffer.
    pub(super) bindings: Vec<(Access, u32)>,
}

/// Checks the name, the size and the fields of the parameter struct, and each buffer's element type
/// and length, against the kernel.
pub(super) fn check_interface<P: Params>(
    kernel: &Kernel,
    params: &P,
    buffers: &[&AnyBuffer],
) -> Result<()> {
    let misfit = |why: String| {
        Err(Error::Interface {
            kernel: kernel.name.to_string(),
            why,
        })
    };
    let layout = &kernel.params;
    let (wants, given) = (layout.size_bytes as usize, size_of::<P>());
    if layout.name != P::NAME || wants != given {
        return misfit(format!(
            "expected parameters {} ({wants} bytes), found {} ({given} bytes)",
            layout.name,
            P::NAME
        ));
    }
    // Fields in another order would be read as one another, without an error.
    let members = layout.members.iter();
    let members = members.map(|(name, offset)| (&**name, *offset as usize));
    let fields = P::FIELDS.iter();
    let fields = fields.map(|field| (field.name, field.offset_bytes));
    if !members.clone().eq(fields.clone()) {
        return misfit(format!(
            "expected fields {:?} with their offsets in {}, found {:?}",
            members.collect::<Vec<_>>(),
            P::NAME,
            fields.collect::<Vec<_>>()
        ));
    }
    let n_bindings = kernel.bindings.len();
    if n_bindings != buffers.len() {
        return misfit(format!(
            "expected {n_bindings} buffers, found {}",
            buffers.len()
        ));
    }
    let lens = params.buffer_lens();
    if n_bindings != lens.len() {
        return misfit(format!(
            "has {n_bindings} buffers, but {} defines {} lengths",
            P::NAME,
            lens.len()
        ));
    }
    for (place, &len) in lens.iter().enumerate() {
        if let Some(why) = binding_mismatch(kernel, buffers, place, len) {
            return misfit(format!(
                "binding {} ({}) {why}",
                place + 1,
                kernel.bindings[place].name
            ));
        }
    }
    Ok(())
}

/// Returns the reason why the buffer at `place` does not fit the binding, which needs `len`
/// scalars.
fn binding_mismatch(
    kernel: &Kernel,
    buffers: &[&AnyBuffer],
    place: usize,
    len: u64,
) -> Option<String> {
    let (binding, buffer) = (&kernel.bindings[place], buffers[place]);
    let name = buffer.name();
    if binding.element != buffer.element() {
        return Some(format!(
            "has element type {:?}, but {name} has {:?}",
            binding.element,
            buffer.element()
        ));
    }
    if (buffer.len() as u64) < len {
        return Some(format!(
            "needs {len} scalars, but {name} has shape {:?}",
            buffer.shape()
        ));
    }
    // WebGPU does not allow a buffer that is written to be bound twice.
    let writes = |place: usize| kernel.bindings[place].access == Access::ReadWrite;
    if buffer.is_read_only() && writes(place) {
        return Some(format!("is written, but {name} belongs to a tensor"));
    }
    let shared = (0..place)
        .find(|&other| buffers[other].is_same_buffer(buffer) && (writes(place) || writes(other)));
    shared.map(|other| format!("shares output {name} with binding {}", other + 1))
}

impl Gpu {
    /// Returns the compiled kernel, cached after the first call with this text.
    pub(super) fn pipeline(&self, kernel: &Kernel) -> Result<Arc<Pipeline>> {
        if let Some(pipeline) = self.shared.pipelines.find(kernel) {
            return Ok(pipeline);
        }
        self.check_limits(kernel)?;
        check_description(kernel)?;
        // Two threads may compile the same kernel concurrently; the second result replaces the
        // first.
        let pipeline = self.compiled(kernel)?;
        self.shared
            .pipelines
            .insert(kernel.clone(), Arc::clone(&pipeline));
        Ok(pipeline)
    }

    /// Compiles a kernel ahead of its first run, without blocking the thread, and caches it. In a
    /// browser this is the only call that returns the compiler's message: a kernel that
    /// [`Gpu::dispatch`] compiles there fails at the next read.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Interface`] if the description does not match the text,
    /// [`Error::Shader`] with the compiler's message, [`Error::Lost`].
    pub async fn compile_async(&self, kernel: &Kernel) -> Result<()> {
        self.check_limits(kernel)?;
        check_description(kernel)?;
        let device = &self.shared.device;
        let internal = device.push_error_scope(wgpu::ErrorFilter::Internal);
        let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let pipeline = compile(device, kernel);
        // Both scopes end before the function returns to the event loop: in a browser another call
        // may open scopes meanwhile, and scopes must end in reverse order.
        let (validation, internal) = (validation.pop(), internal.pop());
        let faults = [validation.await, internal.await];
        if let Some(fault) = faults.into_iter().flatten().next() {
            return Err(Error::Shader {
                kernel: kernel.name.to_string(),
                message: fault.to_string(),
            });
        }
        self.sound("compile")?;
        self.shared
            .pipelines
            .insert(kernel.clone(), Arc::new(pipeline));
        Ok(())
    }

    /// Compiles a kernel. Its limits and its description must have been checked.
    pub(super) fn compiled(&self, kernel: &Kernel) -> Result<Arc<Pipeline>> {
        let pipeline = self
            .scoped(|device| compile(device, kernel))
            .map_err(|fault| Error::Shader {
                kernel: kernel.name.to_string(),
                message: fault.into_message(),
            })?;
        self.sound("compile")?;
        Ok(Arc::new(pipeline))
    }

    pub(super) fn check_limits(&self, kernel: &Kernel) -> Result<()> {
        let limits = &self.adapter().limits;
        let [x, y, z] = kernel.workgroup_size.map(u64::from);
        let checks = [
            (
                x.saturating_mul(y).saturating_mul(z),
                "invocations",
                "maxComputeInvocationsPerWorkgroup",
                limits.max_compute_invocations_per_workgroup,
            ),
            (
                x,
                "invocations along x",
                "maxComputeWorkgroupSizeX",
                limits.max_compute_workgroup_size_x,
            ),
            (
                y,
                "invocations along y",
                "maxComputeWorkgroupSizeY",
                limits.max_compute_workgroup_size_y,
            ),
            (
                z,
                "invocations along z",
                "maxComputeWorkgroupSizeZ",
                limits.max_compute_workgroup_size_z,
            ),
            (
                kernel.workgroup_bytes.into(),
                "bytes of workgroup memory",
                "maxComputeWorkgroupStorageSize",
                limits.max_compute_workgroup_storage_size,
            ),
            (
                kernel.bindings.len() as u64,
                "storage buffers",
                "maxStorageBuffersPerShaderStage",
                limits.max_storage_buffers_per_shader_stage,
            ),
        ];
        for (needed, unit, limit_name, limit) in checks {
            if needed > u64::from(limit) {
                return Err(Error::TooLarge {
                    operation: "compile",
                    name: kernel.name.to_string(),
                    shape: vec![x, y, z],
                    needed,
                    unit,
                    limit_name,
                    limit: limit.into(),
                });
            }
        }
        Ok(())
    }
}

/// Checks that the WGSL text matches the kernel's description. A different workgroup size or order
/// of buffers would otherwise give wrong results without an error.
fn check_description(kernel: &Kernel) -> Result<()> {
    let invalid = |message: String| Error::Shader {
        kernel: kernel.name.to_string(),
        message,
    };
    let text = shaders::reflect(&kernel.name, &kernel.source).map_err(invalid)?;
    let (described, found) = if text.workgroup_size != kernel.workgroup_size {
        (
            format!("workgroups of {:?}", kernel.workgroup_size),
            format!("{:?}", text.workgroup_size),
        )
    } else if text.workgroup_bytes != kernel.workgroup_bytes {
        let [described, found] = [kernel.workgroup_bytes, text.workgroup_bytes];
        (
            format!("{described} bytes of workgroup memory"),
            found.to_string(),
        )
    } else if text.params != kernel.params {
        (format!("{:?}", kernel.params), format!("{:?}", text.params))
    } else if text.bindings != kernel.bindings {
        (
            format!("{:?}", kernel.bindings),
            format!("{:?}", text.bindings),
        )
    } else {
        return Ok(());
    };
    let why = format!("description does not match the text (described {described}, found {found})");
    Err(Error::Interface {
        kernel: kernel.name.to_string(),
        why,
    })
}

fn compile(device: &wgpu::Device, kernel: &Kernel) -> Pipeline {
    let label = Some(&*kernel.name);
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label,
        source: wgpu::ShaderSource::Wgsl(kernel.source.as_ref().into()),
    });
    let entry = |binding: usize, ty: wgpu::BufferBindingType| wgpu::BindGroupLayoutEntry {
        binding: u32::try_from(binding).unwrap_or(u32::MAX),
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty,
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    let mut entries = vec![entry(0, wgpu::BufferBindingType::Uniform)];
    entries.extend(kernel.bindings.iter().enumerate().map(|(place, binding)| {
        entry(
            place + 1,
            wgpu::BufferBindingType::Storage {
                read_only: binding.access == Access::Read,
            },
        )
    }));
    let bind_group_layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label,
        entries: &entries,
    });
    let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label,
        bind_group_layouts: &[Some(&bind_group_layout)],
        immediate_size: 0,
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label,
        layout: Some(&layout),
        module: &module,
        entry_point: Some(&kernel.name),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    Pipeline {
        name: kernel.name.to_string(),
        pipeline,
        bind_group_layout,
        bindings: kernel
            .bindings
            .iter()
            .map(|binding| (binding.access, binding.stride_bytes))
            .collect(),
    }
}
