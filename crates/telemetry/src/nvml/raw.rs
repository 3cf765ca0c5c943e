//! Calls of NVML that the wrapper lacks, and the one place of the crate with `unsafe` code.
//!
//! Method: symbols come from the wrapper's own table, each of which may be missing. Structures are plain numbers, so zeros
//! are a valid value of each, and the library writes no more than their size.

#![allow(unsafe_code, reason = "calls of a C library")]

use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings as sys;

/// A device's handle, which holds until the library is shut down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle(sys::nvmlDevice_t);

// SAFETY: a handle is a name to the library, which may be called from any thread.
unsafe impl Send for Handle {}

/// What a field's power is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Scope {
    /// The GPU.
    Gpu = 0,
    /// The GPU and the CPU beside it.
    Module = 1,
    /// The GPU's memory.
    Memory = 2,
}

impl Handle {
    pub(super) fn of(device: &Device<'_>) -> Self {
        // SAFETY: the handle is only used through this module, with the library that gave it.
        Self(unsafe { device.handle() })
    }

    /// Gives the wrapper's view of the device.
    pub(super) fn device(self, nvml: &Nvml) -> Device<'_> {
        // SAFETY: `nvml` is the library that gave the handle: handles are renewed whenever it is loaded anew.
        unsafe { Device::new(self.0, nvml) }
    }

    /// Gives memory there is and memory in use, what the driver keeps included, in bytes.
    pub(super) fn memory(self, nvml: &Nvml) -> Result<[u64; 2], NvmlError> {
        let call = symbol(&nvml.lib().nvmlDeviceGetMemoryInfo)?;
        let mut memory = sys::nvmlMemory_t {
            total: 0,
            free: 0,
            used: 0,
        };
        // SAFETY: the handle is the library's, and `memory` is its structure.
        nvml_try(unsafe { call(self.0, &raw mut memory) })?;
        Ok([memory.total, memory.used])
    }

    /// Gives the temperature of the die, in °C.
    pub(super) fn temperature(self, nvml: &Nvml) -> Result<i32, NvmlError> {
        let call = symbol(&nvml.lib().nvmlDeviceGetTemperatureV)?;
        let mut temperature = sys::nvmlTemperature_t {
            version: version_of::<sys::nvmlTemperature_t>(1),
            sensorType: sys::nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU,
            temperature: 0,
        };
        // SAFETY: the handle is the library's, and `temperature` is its structure and says so.
        nvml_try(unsafe { call(self.0, &raw mut temperature) })?;
        Ok(temperature.temperature)
    }

    /// Gives why clocks are lower than they could be, one bit a reason.
    pub(super) fn event_reasons(self, nvml: &Nvml) -> Result<u64, NvmlError> {
        let call = symbol(&nvml.lib().nvmlDeviceGetCurrentClocksEventReasons)?;
        let mut reasons = 0;
        // SAFETY: the handle is the library's, and it writes one number.
        nvml_try(unsafe { call(self.0, &raw mut reasons) })?;
        Ok(reasons)
    }

    /// Gives the values of fields that are whole numbers, by one call.
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

/// Gives the value of a field, if it is a whole number that is not negative.
fn whole(field: &sys::nvmlFieldValue_t) -> Result<u64, NvmlError> {
    match field.valueType {
        // Of a shorter member, the rest of the union may hold anything.
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT => {
            // SAFETY: all bits are a number.
            Ok(unsafe { field.value.uiVal }.into())
        }
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG => {
            #[allow(clippy::unnecessary_cast, reason = "32 bits on Windows")]
            // SAFETY: all bits are a number.
            Ok(unsafe { field.value.ulVal } as u64)
        }
        sys::nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG => {
            // SAFETY: all bits are a number.
            Ok(unsafe { field.value.ullVal })
        }
        other => Err(NvmlError::UnexpectedVariant(other)),
    }
}

/// Gives a symbol of the library, if it has it.
fn symbol<F>(symbol: &Result<F, libloading::Error>) -> Result<&F, NvmlError> {
    let missing = |error: &libloading::Error| NvmlError::FailedToLoadSymbol(error.to_string());
    symbol.as_ref().map_err(missing)
}

/// Gives what a structure says of itself: its size, and its version in the highest byte.
fn version_of<T>(version: u32) -> u32 {
    u32::try_from(size_of::<T>()).map_or(0, |size| size | version << 24)
}
