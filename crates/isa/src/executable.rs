//! The code of a compiled pipeline, as the driver reports it.
#![allow(
    unsafe_code,
    reason = "ash exposes the functions of Vulkan's C interface as unsafe functions"
)]

use std::ffi::{CStr, c_char};

use ash::khr::pipeline_executable_properties;
use ash::vk;

use crate::{Code, Error};

/// Returns the error of a call.
pub(crate) fn failed(operation: &'static str) -> impl FnOnce(vk::Result) -> Error {
    move |result| Error::Vulkan {
        operation,
        result: result.to_string(),
    }
}

/// Returns the text of an array of characters that ends with a zero.
pub(crate) fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|&c| c.to_ne_bytes()[0]).collect();
    let text = CStr::from_bytes_until_nul(&bytes);
    text.map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Returns statistics and assembly of a pipeline of the device, which was created with the flags
/// that capture both.
pub(crate) fn code(
    device: vk::Device,
    properties: &pipeline_executable_properties::Device,
    pipeline: vk::Pipeline,
) -> Result<Code, Error> {
    let executable = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline);
    Ok(Code {
        statistics: statistics(properties, &executable)?,
        assembly: assembly(device, properties, &executable)?,
    })
}

fn statistics(
    properties: &pipeline_executable_properties::Device,
    executable: &vk::PipelineExecutableInfoKHR<'_>,
) -> Result<Vec<(String, f64)>, Error> {
    use vk::PipelineExecutableStatisticFormatKHR as Format;
    // SAFETY: the pipeline was created by this device, with the flag that captures statistics.
    let statistics = unsafe { properties.get_pipeline_executable_statistics(executable) };
    let value = |statistic: &vk::PipelineExecutableStatisticKHR<'_>| match statistic.format {
        // SAFETY: the format states which field of the union is set.
        Format::FLOAT64 => unsafe { statistic.value.f64 },
        // SAFETY: as above; a bool has 32 bits.
        Format::BOOL32 => f64::from(unsafe { statistic.value.b32 }),
        // SAFETY: as above.
        Format::INT64 => unsafe { statistic.value.i64 as f64 },
        // SAFETY: as above. Counts are far below 2^53; hashes are not, and nothing reads them.
        _ => unsafe { statistic.value.u64 as f64 },
    };
    let statistics = statistics.map_err(failed("read statistics"))?;
    let named = statistics
        .iter()
        .map(|statistic| (text(&statistic.name), value(statistic)));
    Ok(named.collect())
}

/// Returns the last representation of a pipeline, which is its assembly.
fn assembly(
    device: vk::Device,
    properties: &pipeline_executable_properties::Device,
    executable: &vk::PipelineExecutableInfoKHR<'_>,
) -> Result<String, Error> {
    let functions = properties.fp();
    let read = functions.get_pipeline_executable_internal_representations_khr;
    let get = |count: &mut u32, to: *mut vk::PipelineExecutableInternalRepresentationKHR<'_>| {
        // SAFETY: `to` is null or has room for `count` structures, each of which has no memory for
        // its text or the size that the driver reported.
        let result = unsafe { read(device, executable, count, to) };
        result.result().map_err(failed("read assembly"))
    };
    let mut count = 0;
    get(&mut count, std::ptr::null_mut())?;
    let none = vk::PipelineExecutableInternalRepresentationKHR::default();
    let mut found = vec![none; count as usize];
    get(&mut count, found.as_mut_ptr())?;
    let mut texts: Vec<Vec<u8>> = found.iter().map(|text| vec![0; text.data_size]).collect();
    for (found, text) in found.iter_mut().zip(&mut texts) {
        found.p_data = text.as_mut_ptr().cast();
    }
    get(&mut count, found.as_mut_ptr())?;
    let assembly = texts.last().map(|text| String::from_utf8_lossy(text));
    let assembly = assembly.unwrap_or_default();
    Ok(assembly.trim_end_matches('\0').to_owned())
}
