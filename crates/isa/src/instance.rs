//! The Vulkan instance, and the devices whose drivers report the code of their pipelines.
#![allow(
    unsafe_code,
    reason = "ash exposes the functions of Vulkan's C interface as unsafe functions"
)]

use std::ffi::CStr;

use ash::{ext, khr, vk};

use crate::Error;
use crate::executable::{failed, text};

/// Extensions that a device must support.
const EXTENSIONS: [&CStr; 2] = [
    khr::pipeline_executable_properties::NAME,
    ext::robustness2::NAME,
];

/// An instance, which is destroyed when it is dropped.
pub(crate) struct Instance {
    /// The loaded library, which must outlive all handles. Fields are dropped after `drop` returns.
    _entry: ash::Entry,
    handle: ash::Instance,
}

impl Instance {
    /// Loads Vulkan and creates an instance.
    pub(crate) fn new() -> Result<Self, Error> {
        // SAFETY: the library is Vulkan's loader, whose initialization has no preconditions.
        let entry = unsafe { ash::Entry::load() };
        let entry = entry.map_err(|error| Error::NoLoader(error.to_string()))?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let create = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: the structures live until the call returns; the loader is kept in `Self`.
        let handle = unsafe { entry.create_instance(&create, None) };
        let handle = handle.map_err(|result| match result {
            // The loader found no driver that it can use.
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => Error::NoDriver {
                found: "none".to_owned(),
            },
            result => failed("create instance")(result),
        })?;
        Ok(Self {
            _entry: entry,
            handle,
        })
    }

    /// Creates a device of the first driver that reports the code of its pipelines, and returns it
    /// with its name.
    pub(crate) fn open_device(&self) -> Result<(ash::Device, String), Error> {
        // SAFETY: the instance was created by `new`.
        let physical = unsafe { self.handle.enumerate_physical_devices() };
        let mut names = Vec::new();
        for physical in physical.map_err(failed("enumerate devices"))? {
            // SAFETY: the handle is one of this instance.
            let properties = unsafe { self.handle.get_physical_device_properties(physical) };
            let name = text(&properties.device_name);
            // The query of features is a function of Vulkan 1.1.
            let is_recent = properties.api_version >= vk::API_VERSION_1_1;
            if is_recent && self.has_extensions(physical)? && self.has_features(physical) {
                return Ok((self.create_device(physical)?, name));
            }
            names.push(name);
        }
        Err(Error::NoDriver {
            found: listed(&names),
        })
    }

    /// Returns the functions of the extension that reports code.
    pub(crate) fn executable_properties(
        &self,
        device: &ash::Device,
    ) -> khr::pipeline_executable_properties::Device {
        khr::pipeline_executable_properties::Device::new(&self.handle, device)
    }

    fn has_extensions(&self, physical: vk::PhysicalDevice) -> Result<bool, Error> {
        // SAFETY: the handle is one of this instance.
        let found = unsafe { self.handle.enumerate_device_extension_properties(physical) };
        let found = found.map_err(failed("enumerate extensions"))?;
        let names: Vec<String> = found
            .iter()
            .map(|extension| text(&extension.extension_name))
            .collect();
        let is_found = |name: &CStr| {
            names
                .iter()
                .any(|found| found.as_bytes() == name.to_bytes())
        };
        Ok(EXTENSIONS.into_iter().all(is_found))
    }

    /// Returns whether a device that has the extensions supports the features of `create_device`.
    fn has_features(&self, physical: vk::PhysicalDevice) -> bool {
        let mut code = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default();
        let mut robust = vk::PhysicalDeviceRobustness2FeaturesEXT::default();
        let mut features = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut code)
            .push_next(&mut robust);
        // SAFETY: the handle is one of this instance, its version is 1.1 or later, and the chained
        // structures belong to extensions of the device.
        unsafe {
            self.handle
                .get_physical_device_features2(physical, &mut features);
        }
        let features = features.features;
        is_sufficient(&features, &code, &robust)
    }

    fn create_device(&self, physical: vk::PhysicalDevice) -> Result<ash::Device, Error> {
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let extensions = EXTENSIONS.map(CStr::as_ptr);
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
        // SAFETY: the structures live until the call returns, and the device supports the
        // extensions and features.
        let device = unsafe { self.handle.create_device(physical, &create, None) };
        device.map_err(failed("create device"))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: the owner of a device destroys it before this instance.
        unsafe { self.handle.destroy_instance(None) };
    }
}

/// Returns the names of the devices, separated by commas; `none` without devices.
fn listed(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

/// Returns whether a device has all features that are enabled.
fn is_sufficient(
    features: &vk::PhysicalDeviceFeatures,
    code: &vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR<'_>,
    robust: &vk::PhysicalDeviceRobustness2FeaturesEXT<'_>,
) -> bool {
    let needed = [
        features.robust_buffer_access,
        code.pipeline_executable_info,
        robust.robust_buffer_access2,
    ];
    !needed.contains(&vk::FALSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_without_devices_lists_none() {
        let error = |names: &[&str]| {
            let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
            let found = listed(&names);
            Error::NoDriver { found }.to_string()
        };
        assert!(error(&[]).ends_with("(found: none)"));
        assert!(error(&["a", "b"]).ends_with("(found: a, b)"));
    }

    #[test]
    fn a_device_that_lacks_a_feature_is_not_sufficient() {
        for lacking in [None, Some(0), Some(1), Some(2)] {
            let has = |feature| lacking != Some(feature);
            let features = vk::PhysicalDeviceFeatures::default().robust_buffer_access(has(0));
            let code = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default()
                .pipeline_executable_info(has(1));
            let robust =
                vk::PhysicalDeviceRobustness2FeaturesEXT::default().robust_buffer_access2(has(2));
            let expected = lacking.is_none();
            assert_eq!(
                is_sufficient(&features, &code, &robust),
                expected,
                "{lacking:?}"
            );
        }
    }
}
