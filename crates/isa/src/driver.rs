//! Compilation of pipelines by a Vulkan driver.
#![allow(
    unsafe_code,
    reason = "ash exposes the functions of Vulkan's C interface as unsafe functions"
)]

use std::ffi::CString;
use std::fmt;

use ash::{ext, khr, vk};

use crate::executable::{code, failed, text};
use crate::{Code, Error};

/// A device of a driver that reports the code of its pipelines. Nothing is ever submitted to it.
pub struct Compiler {
    /// The loaded library, which must outlive all handles.
    _entry: ash::Entry,
    instance: ash::Instance,
    device: ash::Device,
    properties: khr::pipeline_executable_properties::Device,
    name: String,
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut compiler = f.debug_struct("Compiler");
        compiler.field("name", &self.name).finish_non_exhaustive()
    }
}

impl Compiler {
    /// Opens the first device whose driver reports the code of its pipelines.
    ///
    /// # Errors
    /// [`Error::NoLoader`], [`Error::NoDriver`], [`Error::Vulkan`].
    pub fn open() -> Result<Self, Error> {
        // SAFETY: the library is Vulkan's loader, whose initialization has no preconditions.
        let entry = unsafe { ash::Entry::load() };
        let entry = entry.map_err(|error| Error::NoLoader(error.to_string()))?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let create = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structures live until the call returns; the loader is kept in `Self`.
        let instance = unsafe { entry.create_instance(&create, None) };
        let instance = instance.map_err(failed("create instance"))?;
        // SAFETY: the instance was created above.
        let physical = unsafe { instance.enumerate_physical_devices() };
        let mut names = Vec::new();
        for physical in physical.map_err(failed("enumerate devices"))? {
            // SAFETY: the handle is one of this instance.
            let properties = unsafe { instance.get_physical_device_properties(physical) };
            let name = text(&properties.device_name);
            // SAFETY: the handle is one of this instance.
            let found = unsafe { instance.enumerate_device_extension_properties(physical) };
            let found = found.map_err(failed("enumerate extensions"))?;
            let found: Vec<String> = found
                .iter()
                .map(|extension| text(&extension.extension_name))
                .collect();
            let wanted = [
                khr::pipeline_executable_properties::NAME,
                ext::robustness2::NAME,
            ];
            let has_all = wanted.map(|name| found.contains(&name.to_string_lossy().into_owned()));
            if has_all.contains(&false) {
                names.push(name);
                continue;
            }
            let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
            let extensions = [
                khr::pipeline_executable_properties::NAME.as_ptr(),
                ext::robustness2::NAME.as_ptr(),
            ];
            let mut code = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default()
                .pipeline_executable_info(true);
            // wgpu leaves the check of buffer bounds to the driver, too.
            let mut robust =
                vk::PhysicalDeviceRobustness2FeaturesEXT::default().robust_buffer_access2(true);
            let features = vk::PhysicalDeviceFeatures::default().robust_buffer_access(true);
            let create = vk::DeviceCreateInfo::default()
                .queue_create_infos(&queues)
                .enabled_extension_names(&extensions)
                .enabled_features(&features)
                .push_next(&mut code)
                .push_next(&mut robust);
            // SAFETY: the structures live until the call returns, and the extension exists.
            let device = unsafe { instance.create_device(physical, &create, None) };
            let device = device.map_err(failed("create device"))?;
            return Ok(Self {
                properties: khr::pipeline_executable_properties::Device::new(&instance, &device),
                _entry: entry,
                instance,
                device,
                name,
            });
        }
        Err(Error::NoDriver {
            found: names.join(", "),
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
        let device = &self.device;
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
        let set = unsafe { device.create_descriptor_set_layout(&create, None) };
        let sets = [set.map_err(failed("create layout"))?];
        let create = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        // SAFETY: as above; the layout of the set was created by this device.
        let layout = unsafe { device.create_pipeline_layout(&create, None) };
        let layout = layout.map_err(failed("create layout"))?;
        let create = vk::ShaderModuleCreateInfo::default().code(spirv);
        // SAFETY: as above; the caller guarantees a valid module.
        let module = unsafe { device.create_shader_module(&create, None) };
        let module = module.map_err(failed("create module"))?;
        let entry = CString::new(entry).unwrap_or_default();
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(&entry);
        let create = [vk::ComputePipelineCreateInfo::default()
            .flags(
                vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
                    | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR,
            )
            .layout(layout)
            .stage(stage)];
        let cache = vk::PipelineCache::null();
        // SAFETY: as above; layout and module were created by this device, and the caller
        // guarantees that the entry point fits them.
        let pipelines = unsafe { device.create_compute_pipelines(cache, &create, None) };
        let pipelines = pipelines.map_err(|(_, result)| failed("create pipeline")(result))?;
        let code = code(device.handle(), &self.properties, pipelines[0]);
        // SAFETY: nothing was submitted, so the driver uses none of the handles.
        unsafe { device.destroy_pipeline(pipelines[0], None) };
        // SAFETY: as above.
        unsafe { device.destroy_shader_module(module, None) };
        // SAFETY: as above.
        unsafe { device.destroy_pipeline_layout(layout, None) };
        // SAFETY: as above.
        unsafe { device.destroy_descriptor_set_layout(sets[0], None) };
        code
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        // SAFETY: no call of this device is in progress, and no handle of it is used later.
        unsafe { self.device.destroy_device(None) };
        // SAFETY: its only device was destroyed above.
        unsafe { self.instance.destroy_instance(None) };
    }
}
