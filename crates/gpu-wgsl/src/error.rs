//! Errors of this crate.
//!
//! Role: the crate's only error type. Callers usually handle five variants separately: `NoAdapter`,
//! `Lost`, `OutOfMemory`, `TooLarge` and `Unsupported`. Most other variants report a call that does
//! not match its kernel.

use crate::adapter::Feature;
use shaders::Element;
use std::fmt;

/// A `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a device, or of a call with wrong arguments.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No adapter matches the selection.
    #[error("open: {}", MissingAdapter(.wanted, .found))]
    NoAdapter {
        /// The requested selection, as text.
        wanted: String,
        /// Names of the adapters that exist.
        found: Vec<String>,
    },
    /// The device is lost: reset, unplugged or destroyed. Host data stays valid; open a new device
    /// to continue ([`Gpu::reopen`](crate::Gpu::reopen)).
    #[error("{operation}: device {adapter} is lost: {reason}")]
    Lost {
        /// Operation that detected the loss.
        operation: &'static str,
        /// Name of the adapter.
        adapter: String,
        /// Message from the driver.
        reason: String,
    },
    /// A buffer does not fit into the device's memory or into the budget set on the device.
    #[error(
        "alloc: out of memory for {name} {shape:?} ({bytes} bytes, in addition to {live_bytes} live bytes): {reason}{}", LargestHolders(.holders)
    )]
    OutOfMemory {
        /// Name of the buffer.
        name: String,
        /// Shape of the buffer.
        shape: Vec<usize>,
        /// Size of the buffer, in bytes.
        bytes: u64,
        /// Bytes of live buffers at the time of the request.
        live_bytes: u64,
        /// The budget, or the message from the driver.
        reason: String,
        /// Names with the most live bytes, the largest first, at most five.
        holders: Vec<Holder>,
    },
    /// A size exceeds a limit of the adapter; no memory was allocated.
    #[error(
        "{operation}: {name} {shape:?} needs {needed} {unit}, but {limit_name} of the adapter is {limit}"
    )]
    TooLarge {
        /// Operation.
        operation: &'static str,
        /// Buffer or kernel that is too large.
        name: String,
        /// Shape of the buffer, or domain of the kernel.
        shape: Vec<u64>,
        /// Required amount; `u64::MAX` if it does not fit into 64 bits.
        needed: u64,
        /// Unit of `needed` and `limit`.
        unit: &'static str,
        /// Name of the limit, as in WebGPU.
        limit_name: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The device lacks a feature.
    #[error("{operation}: {adapter} does not support {feature}")]
    Unsupported {
        /// Operation.
        operation: String,
        /// The missing feature.
        feature: Feature,
        /// Name of the adapter.
        adapter: String,
    },
    /// Shapes of operands are incompatible.
    #[error("{operation}: shapes {left:?} and {right:?} are incompatible: {why}")]
    ShapeMismatch {
        /// Operation.
        operation: &'static str,
        /// Shape of the first operand.
        left: Vec<usize>,
        /// Shape of the second operand.
        right: Vec<usize>,
        /// The rule that the shapes violate.
        why: &'static str,
    },
    /// The data has a different number of elements than the shape.
    #[error("{operation}: {name} has shape {shape:?}, but the data has {found} elements")]
    LengthMismatch {
        /// Operation.
        operation: &'static str,
        /// Name of the buffer.
        name: String,
        /// Requested shape.
        shape: Vec<usize>,
        /// Number of elements in the data.
        found: usize,
    },
    /// A buffer does not have the requested scalar type.
    #[error("{operation}: {name} has element type {holds:?}, expected {wanted:?}")]
    ElementMismatch {
        /// Operation.
        operation: &'static str,
        /// Name of the buffer.
        name: String,
        /// Element type of the buffer.
        holds: Element,
        /// Requested element type.
        wanted: Element,
    },
    /// Parameters or buffers do not match the kernel's interface.
    #[error("dispatch: {kernel}: {why}")]
    Interface {
        /// Name of the kernel.
        kernel: String,
        /// Description of the mismatch.
        why: String,
    },
    /// A buffer belongs to another device.
    #[error("{operation}: {name} belongs to another device")]
    ForeignBuffer {
        /// Operation.
        operation: &'static str,
        /// Name of the buffer.
        name: String,
    },
    /// A buffer cannot become a tensor, because a kernel could still change it through another
    /// handle.
    #[error("{operation}: another handle to {name} exists, through which a kernel could write it")]
    SharedBuffer {
        /// Operation.
        operation: &'static str,
        /// Name of the buffer.
        name: String,
    },
    /// A buffer belongs to a tensor, which never changes.
    #[error("{operation}: {name} belongs to a tensor, which never changes")]
    ReadOnly {
        /// Operation.
        operation: &'static str,
        /// Name of the buffer.
        name: String,
    },
    /// The WGSL text does not compile.
    #[error("compile: kernel {kernel}: {message}")]
    Shader {
        /// Name of the kernel.
        kernel: String,
        /// Message from the compiler.
        message: String,
    },
    /// The device's cooperative matrices compute wrong products, so no device was opened; open one
    /// without them ([`Gpu::open`](crate::Gpu::open)).
    #[error("open: the cooperative matrices of {adapter} compute wrong products: {why}")]
    WrongProducts {
        /// Name of the adapter.
        adapter: String,
        /// The first difference from the exact product.
        why: String,
    },
    /// Another measurement is running; a device runs only one at a time.
    #[error("time: another measurement is running on this device")]
    Measuring,
    /// The driver reported an error that the checks of this crate did not prevent.
    #[error("{operation}: device error: {message}")]
    Device {
        /// Operation.
        operation: &'static str,
        /// Message from the driver.
        message: String,
    },
}

/// The live buffers that have the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Name of the buffers. For a result of a program: its last operation and the source line of
    /// that operation.
    pub name: String,
    /// Number of buffers.
    pub n_buffers: usize,
    /// Total size of the buffers, in bytes.
    pub bytes: u64,
}

/// Display helper for the largest holders of memory; prints nothing if there are none.
struct LargestHolders<'a>(&'a [Holder]);

impl fmt::Display for LargestHolders<'_> {
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

/// Display helper for a selection that no adapter matches.
struct MissingAdapter<'a>(&'a str, &'a [String]);

impl fmt::Display for MissingAdapter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(wanted, found) = self;
        if found.is_empty() {
            f.write_str("no adapter found (install a Vulkan driver, such as Mesa's llvmpipe)")
        } else {
            write!(
                f,
                "no adapter matches {wanted} (found: {})",
                found.join(", ")
            )
        }
    }
}
