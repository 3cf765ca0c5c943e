//! NVML calls that `nvml-wrapper` lacks; the only `unsafe` code of the crate.
//!
//! Method: symbols come from the wrapper's own table, in which each may be missing. All structures
//! are plain numbers, so zeros are a valid value, and the library writes no more than their size.

#![allow(unsafe_code, reason = "calls of a C library")]

use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings as sys;

/// The handle of a device, valid until the library is shut down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle(sys::nvmlDevice_t);

// SAFETY: a handle is an opaque identifier, and NVML may be called from any thread.
unsafe impl Send for Handle {}

/// The part of the hardware whose power a field reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Scope {
    /// The GPU.
    Gpu = 0,
    /// The module that contains the GPU and a CPU.
    Module = 1,
    /// The GPU's memory.
    Memory = 2,
}

impl Handle {
    pub(super) fn new(device: &Device<'_>) -> Self {
        // SAFETY: the handle is only used in this module, with the library that created it.
        Self(unsafe { device.handle() })
    }

    /// Returns the wrapper's type for the device.
    pub(super) fn device(self, nvml: &Nvml) -> Device<'_> {
        // SAFETY: `nvml` is the library that created the handle, because handles are replaced
        // whenever the library is loaded again.
        unsafe { Device::new(self.0, nvml) }
    }

    /// Returns total and used memory, in bytes; used memory includes the driver's reserved memory.
    pub(super) fn memory(self, nvml: &Nvml) -> Result<[u64; 2], NvmlError> {
        let call = symbol(&nvml.lib().nvmlDeviceGetMemoryInfo)?;
        let mut memory = sys::nvmlMemory_t {
            total: 0,
            free: 0,
            used: 0,
        };
        // SAFETY: the handle is the library's, and `memory` is the structure that this call writes.
        nvml_try(unsafe { call(self.0, &raw mut memory) })?;
        Ok([memory.total, memory.used])
    }

    /// Returns the temperature of the die, in °C.
    pub(super) fn temperature(self, nvml: &Nvml) -> Result<i32, NvmlError> {
        let call = symbol(&nvml.lib().nvmlDeviceGetTemperatureV)?;
        let mut temperature = sys::nvmlTemperature_t {
            version: version_of::<sys::nvmlTemperature_t>(1),
            sensorType: sys::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU,
            temperature: 0,
        };
        // SAFETY: the handle is the library's, and `temperature` is the structure that this call
        // writes, with its size and version in the first field.
        nvml_try(unsafe { call(self.0, &raw mut temperature) })?;
        Ok(temperature.temperature)
    }

    /// Returns the reasons why clocks are below their maximum, one bit per reason.
    pub(super) fn event_reasons(self, nvml: &Nvml) -> Result<u64, NvmlError> {
        let call = symbol(&nvml.lib().nvmlDeviceGetCurrentClocksEventReasons)?;
        let mut reasons = 0;
        // SAFETY: the handle is the library's, and the call writes one number.
        nvml_try(unsafe { call(self.0, &raw mut reasons) })?;
        Ok(reasons)
    }

    /// Returns the values of several integer fields, read in one call.
    pub(super) fn fields<const N: usize>(
        self,
        nvml: &Nvml,
        fields: [(u32, Scope); N],
    ) -> Result<[Result<u64, NvmlError>; N], NvmlError> {
        let call = symbol(&nvml.lib().nvmlDeviceGetFieldValues)?;
        let mut values = fields.map(|(id, scope)| sys::nvmlFieldValue_t {
            fieldId: id,
            scopeId: scope as u32,
            timestamp: 0,
            latencyUsec: 0,
            valueType: 0,
            nvmlReturn: sys::nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED,
            value: sys::nvmlValue_t { ullVal: 0 },
        });
        let count = i32::try_from(N).map_err(|_| NvmlError::InvalidArg)?;
        // SAFETY: the handle is the library's, and there are `count` structures.
        nvml_try(unsafe { call(self.0, count, values.as_mut_ptr()) })?;
        Ok(values.map(|value| {
            nvml_try(value.nvmlReturn)?;
            whole(&value)
        }))
    }
}

/// Returns the value of a field of an unsigned integer type.
///
/// # Errors
/// [`NvmlError::UnexpectedVariant`] for a field of another type.
fn whole(field: &sys::nvmlFieldValue_t) -> Result<u64, NvmlError> {
    match field.valueType {
        // Each length is read separately: the bytes of the union behind a shorter member are
        // undefined.
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => {
            // SAFETY: the type tag names this member, and every bit pattern is a valid integer.
            Ok(unsafe { field.value.uiVal }.into())
        }
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG => {
            #[allow(clippy::unnecessary_cast, reason = "32 bits on Windows")]
            // SAFETY: the type tag names this member, and every bit pattern is a valid integer.
            Ok(unsafe { field.value.ulVal } as u64)
        }
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => {
            // SAFETY: the type tag names this member, and every bit pattern is a valid integer.
            Ok(unsafe { field.value.ullVal })
        }
        other => Err(NvmlError::UnexpectedVariant(other)),
    }
}

/// Returns a symbol of the library, or an error if the symbol is missing.
fn symbol<F>(symbol: &Result<F, libloading::Error>) -> Result<&F, NvmlError> {
    let missing = |error: &libloading::Error| NvmlError::FailedToLoadSymbol(error.to_string());
    symbol.as_ref().map_err(missing)
}

/// Returns the version field of an NVML structure: its size, with its version in the highest byte.
fn version_of<T>(version: u32) -> u32 {
    u32::try_from(size_of::<T>()).map_or(0, |size| size | version << 24)
}
