//! What a device must know of a kernel before it can run it.
//!
//! Role: the one description shared by fixed kernels ([`crate::layout`], borrowed text) and generated ones
//! (`gpu-wgsl`, owned text), so that both go through the same checks and the same dispatch.

use std::borrow::Cow;

/// How a kernel touches a storage buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The kernel only reads.
    Read,
    /// The kernel writes, and may read what it wrote.
    ReadWrite,
}

/// The scalar type that a storage buffer holds; vectors of it count as several scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// 32-bit float.
    F32,
    /// 32-bit unsigned integer.
    U32,
    /// 32-bit signed integer.
    I32,
    /// 64-bit float, where a device has it.
    F64,
}

/// One storage buffer of a kernel; its binding number is its place in [`Kernel::bindings`] plus one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// Name of the variable in WGSL.
    pub name: Cow<'static, str>,
    /// Read or written.
    pub access: Access,
    /// Scalar type of the elements.
    pub element: Element,
    /// Bytes from one array element to the next (16 for `array<vec4<f32>>`).
    pub stride_bytes: u32,
}

/// The parameter struct at binding 0, as reflection saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ParamsLayout {
    /// Name of the WGSL struct, equal to the Rust struct's.
    pub name: Cow<'static, str>,
    /// Size in bytes.
    pub size_bytes: u32,
    /// Name and byte offset of each member.
    pub members: Cow<'static, [(Cow<'static, str>, u32)]>,
}

/// A compute kernel: text, entry point and interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// Stem, also the entry point's name in WGSL.
    pub name: Cow<'static, str>,
    /// Complete WGSL module.
    pub source: Cow<'static, str>,
    /// Invocations per workgroup in x, y, z.
    pub workgroup_size: [u32; 3],
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u32,
    /// Elements of the domain that one invocation covers in x, y, z (1 unless a kernel is generated with tiles).
    pub items_per_invocation: [u32; 3],
    /// The parameter struct.
    pub params: ParamsLayout,
    /// Storage buffers, bindings 1, 2, …: inputs, then outputs.
    pub bindings: Cow<'static, [Binding]>,
}

impl Kernel {
    /// Gives the number of workgroups that cover `domain` (x, y, z), as one linear count.
    ///
    /// Zero where any side of the domain is zero; saturates at `u64::MAX`, which no device accepts.
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
