//! What can go wrong between here and a device.
//!
//! Role: the crate's one error type. The five faults that callers must tell apart are `NoAdapter`, `Lost`,
//! `OutOfMemory`, `TooLarge` and `Unsupported`; the rest say that a call did not fit its kernel.

use crate::adapter::Feature;
use shaders::Element;
use std::fmt;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A fault of a device, or of a call that did not fit it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No adapter fits the selection.
    #[error("open: no adapter is {wanted}; found {}", List(.found))]
    NoAdapter {
        /// What was asked for.
        wanted: String,
        /// Names of the adapters that exist.
        found: Vec<String>,
    },
    /// The device is gone: reset, unplugged, or destroyed. Host data stays valid; open a device anew.
    #[error("{op}: the device {adapter} is lost: {reason}")]
    Lost {
        /// Operation that noticed.
        op: &'static str,
        /// Name of the adapter.
        adapter: String,
        /// What the driver said.
        reason: String,
    },
    /// The device, or the budget set on it, has no room for a buffer.
    #[error(
        "alloc: out of memory for {name} {shape:?} ({bytes} bytes) beside {live_bytes} live bytes: {reason}{}", Held(.holders)
    )]
    OutOfMemory {
        /// Name of the buffer.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// Its size in bytes.
        bytes: u64,
        /// Bytes that were live when it was asked for.
        live_bytes: u64,
        /// The budget, or what the driver said.
        reason: String,
        /// Who holds most of it, the largest first.
        holders: Vec<Holder>,
    },
    /// Something exceeds a limit of the adapter; nothing was allocated.
    #[error("{op}: {name} {shape:?} needs {needed} {unit}, the adapter's {limit_name} is {limit}")]
    TooLarge {
        /// Operation.
        op: &'static str,
        /// Buffer or kernel that is too large.
        name: String,
        /// Its shape, or the domain of the kernel.
        shape: Vec<u64>,
        /// What it needs; `u64::MAX` where the true number does not fit.
        needed: u64,
        /// Unit of `needed` and `limit`.
        unit: &'static str,
        /// Name of the limit, as WebGPU calls it.
        limit_name: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The device lacks a feature.
    #[error("{op}: {adapter} does not support {feature}")]
    Unsupported {
        /// Operation.
        op: String,
        /// What is missing.
        feature: Feature,
        /// Name of the adapter.
        adapter: String,
    },
    /// Shapes of operands do not fit one another.
    #[error("{op}: shapes {left:?} and {right:?} do not fit: {why}")]
    ShapeMismatch {
        /// Operation.
        op: &'static str,
        /// Shape of the first operand.
        left: Vec<usize>,
        /// Shape of the second operand.
        right: Vec<usize>,
        /// The rule that they break.
        why: &'static str,
    },
    /// Data and shape disagree.
    #[error("{op}: {name} has shape {shape:?}, but the data has {found} elements")]
    LengthMismatch {
        /// Operation.
        op: &'static str,
        /// Name of the buffer.
        name: String,
        /// Shape asked for.
        shape: Vec<usize>,
        /// Elements given.
        found: usize,
    },
    /// A buffer holds another scalar type.
    #[error("{name} holds {holds:?}, not {wanted:?}")]
    ElementMismatch {
        /// Name of the buffer.
        name: String,
        /// What it holds.
        holds: Element,
        /// What was asked for.
        wanted: Element,
    },
    /// Parameters or buffers do not fit the kernel's interface.
    #[error("dispatch: {kernel}: {why}")]
    Interface {
        /// Name of the kernel.
        kernel: String,
        /// What does not fit.
        why: String,
    },
    /// A buffer of another device.
    #[error("{op}: {name} lives on another device")]
    ForeignBuffer {
        /// Operation.
        op: &'static str,
        /// Name of the buffer.
        name: String,
    },
    /// The WGSL text was refused.
    #[error("kernel {kernel} is refused: {message}")]
    Shader {
        /// Name of the kernel.
        kernel: String,
        /// What the compiler said.
        message: String,
    },
    /// A device measures one thing at a time.
    #[error("time: another measurement is running on this device")]
    Measuring,
    /// The driver refused something that our checks had let through.
    #[error("{op}: the device reports: {message}")]
    Device {
        /// Operation.
        op: &'static str,
        /// What the driver said.
        message: String,
    },
}

/// Live buffers of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The name; for a result of a program its last operation and the line of that.
    pub name: String,
    /// How many they are.
    pub n_buffers: usize,
    /// The bytes in all of them.
    pub bytes: u64,
}

/// Prints who holds memory, if anybody does.
struct Held<'a>(&'a [Holder]);

impl fmt::Display for Held<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, holder) in self.0.iter().enumerate() {
            let before = if place == 0 {
                "; largest holders: "
            } else {
                ", "
            };
            let Holder {
                name,
                n_buffers,
                bytes,
            } = holder;
            write!(f, "{before}{name} ({bytes} bytes in {n_buffers})")?;
        }
        Ok(())
    }
}

/// Prints `none`, or the names between commas.
struct List<'a>(&'a [String]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            f.write_str("none")
        } else {
            f.write_str(&self.0.join(", "))
        }
    }
}
