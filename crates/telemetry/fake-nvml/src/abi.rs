//! Pointers and return codes of the C interface.
//!
//! Role: the only module that reads and writes a caller's memory. The modules with the symbols
//! cannot dereference a pointer.
//! Method: every pointer parameter of a symbol has one of the transparent types below. Rust code
//! cannot construct them from an address, so a value comes from a C caller, who guarantees its
//! validity as NVML's documentation requires.
#![allow(
    unsafe_code,
    reason = "a C caller's pointers are followed here, and nowhere else"
)]

use bytemuck::AnyBitPattern;
use std::ffi::{CStr, c_char};

/// A value of `nvmlReturn_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u32);

/// The result of an exported function's body: a value, or the return code of the failure.
pub(crate) type Answer<T = ()> = Result<T, Code>;

impl Code {
    pub(crate) const SUCCESS: Self = Self(0);
    pub(crate) const UNINITIALIZED: Self = Self(1);
    pub(crate) const INVALID_ARGUMENT: Self = Self(2);
    pub(crate) const NOT_SUPPORTED: Self = Self(3);
    pub(crate) const NOT_FOUND: Self = Self(6);
    pub(crate) const INSUFFICIENT_SIZE: Self = Self(7);
    pub(crate) const ARGUMENT_VERSION_MISMATCH: Self = Self(25);
    pub(crate) const UNKNOWN: Self = Self(999);
}

/// A caller's output buffer: null, or a pointer to space for as many values as the call specifies.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Returns the pointer to the value that is `index` places after this one.
    pub(crate) fn at(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// Writes a value.
    pub(crate) fn put(self, value: T) -> Answer {
        if self.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: the pointer comes from a C caller and is not null, so there is room for a `T`;
        // the write does not require alignment.
        unsafe { self.0.write_unaligned(value) }
        Ok(())
    }

    /// Writes consecutive values.
    pub(crate) fn put_all(self, values: &[T]) -> Answer {
        let mut places = values.iter().enumerate();
        places.try_for_each(|(i, value)| self.at(i).put(*value))
    }
}

impl<T: AnyBitPattern> Out<T> {
    /// Reads the value that the caller wrote.
    pub(crate) fn get(self) -> Answer<T> {
        if self.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: the pointer comes from a C caller and is not null, so it points to a `T`, for
        // which any bit pattern is valid; the read does not require alignment.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

impl Out<c_char> {
    /// Writes text and a terminating zero if both fit into `length` characters.
    pub(crate) fn put_text(self, length: u32, text: &str) -> Answer {
        if self.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        let characters = characters(text);
        if characters.len() > usize::try_from(length).unwrap_or(usize::MAX) {
            return Err(Code::INSUFFICIENT_SIZE);
        }
        self.put_all(&characters)
    }
}

/// A caller's text: null or zero-terminated.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// Returns the text. Bytes that are not UTF-8 become the replacement character U+FFFD.
    pub(crate) fn read(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: the pointer comes from a C caller and is not null, so it points to
        // zero-terminated text.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(text.to_string_lossy().into_owned())
    }
}

/// A pointer to static text.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message(*const c_char);

impl Message {
    pub(crate) fn new(text: &'static CStr) -> Self {
        Self(text.as_ptr())
    }
}

/// Writes a list and its length if the list fits; otherwise writes only the length and returns
/// `NVML_ERROR_INSUFFICIENT_SIZE`.
pub(crate) fn put_list<T: Copy>(values: &[T], n_values: Out<u32>, places: Out<T>) -> Answer {
    let n_room = n_values.get()?;
    let n_needed = u32::try_from(values.len()).unwrap_or(u32::MAX);
    n_values.put(n_needed)?;
    if n_room < n_needed {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    places.put_all(values)
}

/// Converts text to zero-terminated C characters, without any zeros inside the text.
pub(crate) fn characters(text: &str) -> Vec<c_char> {
    let bytes = text.bytes().filter(|byte| *byte != 0).chain([0]);
    // `c_char` is signed on some targets and unsigned on others; the byte is the same.
    bytes.map(|byte| c_char::from_ne_bytes([byte])).collect()
}
