//! Pointers and codes that cross the boundary.
//!
//! Role: the only module that reads and writes a caller's memory; the symbols themselves hold no pointer that they
//! could follow.
//! Method: a parameter of a symbol is one of the transparent types below. None of them can be made in Rust, so a value
//! of them came from a C caller, who vouches for it as NVML's documentation asks.
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

/// The result of what a symbol does.
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

/// Where a caller wants values written: null, or room for as many as the call says.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T: Copy> Out<T> {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Gives the place of a later value.
    pub(crate) fn at(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// Writes a value.
    pub(crate) fn put(self, value: T) -> Answer {
        if self.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: the pointer is a C caller's and not null, so it has room for a `T`; alignment is not relied on.
        unsafe { self.0.write_unaligned(value) }
        Ok(())
    }

    /// Writes values one after the other.
    pub(crate) fn put_all(self, values: &[T]) -> Answer {
        let mut places = values.iter().enumerate();
        places.try_for_each(|(i, value)| self.at(i).put(*value))
    }
}

impl<T: AnyBitPattern> Out<T> {
    /// Reads what the caller wrote.
    pub(crate) fn get(self) -> Answer<T> {
        if self.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: the pointer is a C caller's and not null, so a `T` is there, and any bytes are one; alignment is not
        // relied on.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

impl Out<c_char> {
    /// Writes text and its final zero, if there is room for `length` characters.
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

/// A caller's text: null, or ending with a zero.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// Reads it, bytes that are not UTF-8 becoming question marks.
    pub(crate) fn read(self) -> Answer<String> {
        if self.0.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: the pointer is a C caller's and not null, so it is text that ends with a zero.
        let text = unsafe { CStr::from_ptr(self.0) };
        Ok(text.to_string_lossy().into_owned())
    }
}

/// Text that lives as long as the program.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message(*const c_char);

impl Message {
    pub(crate) fn of(text: &'static CStr) -> Self {
        Self(text.as_ptr())
    }
}

/// Writes a list and its length, if there is room; only its length, and that there is not, otherwise.
pub(crate) fn put_list<T: Copy>(values: &[T], n_values: Out<u32>, places: Out<T>) -> Answer {
    let n_room = n_values.get()?;
    let n_needed = u32::try_from(values.len()).unwrap_or(u32::MAX);
    n_values.put(n_needed)?;
    if n_room < n_needed {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    places.put_all(values)
}

/// Gives text as C has it.
pub(crate) fn characters(text: &str) -> Vec<c_char> {
    let bytes = text.bytes().filter(|byte| *byte != 0).chain([0]);
    // A C character is signed on some machines and not on others; its one byte is the same.
    bytes.map(|byte| c_char::from_ne_bytes([byte])).collect()
}
