//! Kernel descriptions: all a device needs to run a kernel.
//!
//! Role: the same description serves fixed kernels ([`crate::layout`], borrowed text) and generated
//! kernels (`gpu-wgsl`, owned text), so both go through the same checks and the same dispatch.

use std::borrow::Cow;

/// The access mode of a storage buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The kernel only reads.
    Read,
    /// The kernel writes, and may also read.
    ReadWrite,
}

/// The scalar type of a storage buffer. A vector counts as several scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// 32-bit float.
    F32,
    /// 32-bit unsigned integer.
    U32,
    /// 32-bit signed integer.
    I32,
    /// 64-bit float; not supported by every device.
    F64,
}

/// A storage buffer of a kernel. Its binding number is its index in [`Kernel::bindings`] plus
/// one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// Name of the variable in WGSL.
    pub name: Cow<'static, str>,
    /// Access mode.
    pub access: Access,
    /// Scalar type of the elements.
    pub element: Element,
    /// Bytes from one array element to the next (16 for `array<vec4<f32>>`).
    pub stride_bytes: u32,
}

/// The parameter struct at binding 0, from reflection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ParamsLayout {
    /// Name of the WGSL struct, equal to the name of the Rust struct.
    pub name: Cow<'static, str>,
    /// Size in bytes.
    pub size_bytes: u32,
    /// Name and byte offset of each member.
    pub members: Cow<'static, [(Cow<'static, str>, u32)]>,
}

/// A compute kernel: text, entry point and interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// Name of the kernel and of its entry point in WGSL.
    pub name: Cow<'static, str>,
    /// Complete WGSL module.
    pub source: Cow<'static, str>,
    /// Invocations per workgroup in x, y, z.
    pub workgroup_size: [u32; 3],
    /// Workgroup memory, in bytes.
    pub workgroup_bytes: u32,
    /// Elements of the domain per invocation in x, y, z (1 except for generated kernels with
    /// tiles).
    pub items_per_invocation: [u32; 3],
    /// The parameter struct.
    pub params: ParamsLayout,
    /// Storage buffers at bindings 1, 2, …: inputs, then outputs.
    pub bindings: Cow<'static, [Binding]>,
}

impl Kernel {
    /// Returns the number of workgroups that cover `domain` (x, y, z), as one linear count.
    ///
    /// Returns zero if any side of the domain is zero. Saturates at `u64::MAX`, which no device
    /// accepts.
    #[must_use]
    pub fn n_workgroups(&self, domain: [u64; 3]) -> u64 {
        (0..3)
            .map(|axis| {
                let invocations = u64::from(self.workgroup_size[axis]);
                let items = invocations * u64::from(self.items_per_invocation[axis]);
                domain[axis].div_ceil(items.max(1))
            })
            .fold(1, u64::saturating_mul)
    }
}
