//! A compute pipeline with the objects that it is created from.
#![allow(
    unsafe_code,
    reason = "ash exposes the functions of Vulkan's C interface as unsafe functions"
)]

use std::ffi::CString;

use ash::vk;

use crate::Error;
use crate::executable::failed;

/// A compute pipeline, which is destroyed with its objects when it is dropped. Objects that were
/// not created are null, and Vulkan ignores the destruction of null.
pub(crate) struct Pipeline<'a> {
    device: &'a ash::Device,
    set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    module: vk::ShaderModule,
    handle: vk::Pipeline,
}

impl<'a> Pipeline<'a> {
    /// Creates the pipeline of a kernel, with the flags that capture statistics and assembly. The
    /// parameters are those of [`Compiler::compile`](crate::Compiler::compile).
    ///
    /// # Safety
    /// As `compile`.
    pub(crate) unsafe fn new(
        device: &'a ash::Device,
        spirv: &[u32],
        entry: &str,
        n_buffers: u32,
    ) -> Result<Self, Error> {
        // An error drops the objects that exist by then.
        let mut pipeline = Self {
            device,
            set_layout: vk::DescriptorSetLayout::null(),
            layout: vk::PipelineLayout::null(),
            module: vk::ShaderModule::null(),
            handle: vk::Pipeline::null(),
        };
        pipeline.create_layouts(n_buffers)?;
        let create = vk::ShaderModuleCreateInfo::default().code(spirv);
        // SAFETY: the structures live until the call returns; the caller guarantees a valid module.
        let module = unsafe { device.create_shader_module(&create, None) };
        pipeline.module = module.map_err(failed("create module"))?;
        // SAFETY: the caller guarantees that the entry point fits module and layout.
        unsafe { pipeline.link(entry) }?;
        Ok(pipeline)
    }

    /// Returns the handle, which is valid until the pipeline is dropped.
    pub(crate) fn handle(&self) -> vk::Pipeline {
        self.handle
    }

    /// Creates the layouts of a uniform buffer at binding 0 and of storage buffers after it.
    fn create_layouts(&mut self, n_buffers: u32) -> Result<(), Error> {
        let binding = |number: u32| {
            let ty = match number {
                0 => vk::DescriptorType::UNIFORM_BUFFER,
                _ => vk::DescriptorType::STORAGE_BUFFER,
            };
            vk::DescriptorSetLayoutBinding::default()
                .binding(number)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
                .descriptor_type(ty)
        };
        let bindings: Vec<_> = (0..=n_buffers).map(binding).collect();
        let create = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the structures live until the call returns.
        let set_layout = unsafe { self.device.create_descriptor_set_layout(&create, None) };
        self.set_layout = set_layout.map_err(failed("create layout"))?;
        let sets = [self.set_layout];
        let create = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        // SAFETY: as above; the layout of the set was created by this device.
        let layout = unsafe { self.device.create_pipeline_layout(&create, None) };
        self.layout = layout.map_err(failed("create layout"))?;
        Ok(())
    }

    /// Creates the pipeline from module and layout.
    ///
    /// # Safety
    /// The entry point exists in the module and fits the layout.
    unsafe fn link(&mut self, entry: &str) -> Result<(), Error> {
        let entry = CString::new(entry).unwrap_or_default();
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(self.module)
            .name(&entry);
        let flags = vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
            | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR;
        let create = [vk::ComputePipelineCreateInfo::default()
            .flags(flags)
            .layout(self.layout)
            .stage(stage)];
        let cache = vk::PipelineCache::null();
        // SAFETY: the structures live until the call returns; layout and module were created by
        // this device, and the caller guarantees that the entry point fits them.
        let created = unsafe { self.device.create_compute_pipelines(cache, &create, None) };
        // A pipeline that was not created is null.
        let created = created.map_err(|(_, result)| failed("create pipeline")(result))?;
        self.handle = created[0];
        Ok(())
    }
}

impl Drop for Pipeline<'_> {
    fn drop(&mut self) {
        let device = self.device;
        // SAFETY: nothing was submitted, so the driver uses none of the handles. Each is null or
        // was created by this device.
        unsafe { device.destroy_pipeline(self.handle, None) };
        // SAFETY: as above.
        unsafe { device.destroy_shader_module(self.module, None) };
        // SAFETY: as above.
        unsafe { device.destroy_pipeline_layout(self.layout, None) };
        // SAFETY: as above.
        unsafe { device.destroy_descriptor_set_layout(self.set_layout, None) };
    }
}
