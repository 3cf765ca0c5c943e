//! Compiles kernels and keeps them; checks that a call fits a kernel's interface.

use super::{AnyBuffer, Gpu, lock};
use crate::{Error, Result};
use shaders::{Access, Kernel, Params};
use std::sync::Arc;

/// A compiled kernel.
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) name: String,
    pub(super) pipeline: wgpu::ComputePipeline,
    pub(super) bind_group_layout: wgpu::BindGroupLayout,
}

/// Checks the parameter struct's name and size, and each buffer's element type and length, against the kernel.
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
    if kernel.params.name != P::NAME || kernel.params.size_bytes as usize != size_of::<P>() {
        let layout = &kernel.params;
        return misfit(format!(
            "takes {} of {} bytes, not {} of {}",
            layout.name,
            layout.size_bytes,
            P::NAME,
            size_of::<P>()
        ));
    }
    if kernel.bindings.len() != buffers.len() {
        return misfit(format!(
            "takes {} buffers, not {}",
            kernel.bindings.len(),
            buffers.len()
        ));
    }
    for (place, (binding, buffer)) in kernel.bindings.iter().zip(buffers).enumerate() {
        if binding.element != buffer.element() {
            let (wants, got) = (binding.element, buffer.element());
            return misfit(format!(
                "binding {} ({}) holds {wants:?}, {} holds {got:?}",
                place + 1,
                binding.name,
                buffer.name()
            ));
        }
        let needed = params.buffer_lens().get(place).copied().unwrap_or(0);
        if (buffer.len() as u64) < needed {
            let (name, shape) = (buffer.name(), buffer.shape());
            return misfit(format!(
                "binding {} ({}) needs {needed} scalars, {name} has {shape:?}",
                place + 1,
                binding.name
            ));
        }
        let aliased = buffers
            .iter()
            .take(place)
            .position(|other| other.is(buffer));
        let writes = |place: usize| kernel.bindings[place].access == Access::ReadWrite;
        if let Some(other) = aliased.filter(|&other| writes(place) || writes(other)) {
            return misfit(format!(
                "{} is bound at {} and {} and written",
                buffer.name(),
                other + 1,
                place + 1
            ));
        }
    }
    Ok(())
}

impl Gpu {
    /// Gives the compiled kernel, from the cache after the first call with this text.
    pub(super) fn pipeline(&self, kernel: &Kernel) -> Result<Arc<Pipeline>> {
        if let Some(pipeline) = lock(&self.shared.pipelines).get(kernel) {
            return Ok(Arc::clone(pipeline));
        }
        self.check_limits(kernel)?;
        // Two threads may compile the same text at once; the second result is simply kept.
        let pipeline = self
            .scoped(|device| compile(device, kernel))
            .map_err(|fault| Error::Shader {
                kernel: kernel.name.to_string(),
                message: fault.into_message(),
            })?;
        self.sound("compile")?;
        let pipeline = Arc::new(pipeline);
        lock(&self.shared.pipelines).insert(kernel.clone(), Arc::clone(&pipeline));
        Ok(pipeline)
    }

    fn check_limits(&self, kernel: &Kernel) -> Result<()> {
        let limits = &self.adapter().limits;
        let [x, y, z] = kernel.workgroup_size.map(u64::from);
        let checks = [
            (
                x * y * z,
                "invocations",
                "maxComputeInvocationsPerWorkgroup",
                limits.max_compute_invocations_per_workgroup,
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
                    op: "compile",
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
    }
}
