//! Interface of every fixed kernel, as naga reflects it.
//!
//! Role: written by `cargo xtask codegen`, committed, never edited; `tests/reflect.rs` holds it fresh.

use crate::{Access, Binding, Element, Kernel, ParamsLayout, source};
use std::borrow::Cow;

/// Kernel `buffer_copy`.
pub const BUFFER_COPY: Kernel = Kernel {
    name: Cow::Borrowed("buffer_copy"),
    source: Cow::Borrowed(source::BUFFER_COPY),
    workgroup_size: [256, 1, 1],
    workgroup_bytes: 0,
    items_per_invocation: [1, 1, 1],
    params: ParamsLayout {
        name: Cow::Borrowed("BufferCopyParams"),
        size_bytes: 16,
        members: Cow::Borrowed(&[
            (Cow::Borrowed("n_vec4"), 0),
            (Cow::Borrowed("pad0"), 4),
            (Cow::Borrowed("pad1"), 8),
            (Cow::Borrowed("pad2"), 12),
        ]),
    },
    bindings: Cow::Borrowed(&[
        Binding { name: Cow::Borrowed("x"), access: Access::Read, element: Element::F32, stride_bytes: 16 },
        Binding { name: Cow::Borrowed("y"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 16 },
    ]),
};

/// Kernel `fma_peak`.
pub const FMA_PEAK: Kernel = Kernel {
    name: Cow::Borrowed("fma_peak"),
    source: Cow::Borrowed(source::FMA_PEAK),
    workgroup_size: [64, 1, 1],
    workgroup_bytes: 0,
    items_per_invocation: [1, 1, 1],
    params: ParamsLayout {
        name: Cow::Borrowed("FmaPeakParams"),
        size_bytes: 16,
        members: Cow::Borrowed(&[
            (Cow::Borrowed("n"), 0),
            (Cow::Borrowed("rounds"), 4),
            (Cow::Borrowed("multiplier"), 8),
            (Cow::Borrowed("addend"), 12),
        ]),
    },
    bindings: Cow::Borrowed(&[
        Binding { name: Cow::Borrowed("y"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 16 },
    ]),
};

/// Kernel `inverse_gaussian_eval`.
pub const INVERSE_GAUSSIAN_EVAL: Kernel = Kernel {
    name: Cow::Borrowed("inverse_gaussian_eval"),
    source: Cow::Borrowed(source::INVERSE_GAUSSIAN_EVAL),
    workgroup_size: [256, 1, 1],
    workgroup_bytes: 0,
    items_per_invocation: [1, 1, 1],
    params: ParamsLayout {
        name: Cow::Borrowed("InverseGaussianEvalParams"),
        size_bytes: 48,
        members: Cow::Borrowed(&[
            (Cow::Borrowed("n"), 0),
            (Cow::Borrowed("function"), 4),
            (Cow::Borrowed("mean"), 8),
            (Cow::Borrowed("inverse_mean"), 16),
            (Cow::Borrowed("shape"), 24),
            (Cow::Borrowed("rate"), 32),
            (Cow::Borrowed("twice_ratio"), 40),
            (Cow::Borrowed("pad0"), 44),
        ]),
    },
    bindings: Cow::Borrowed(&[
        Binding { name: Cow::Borrowed("xs"), access: Access::Read, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("ys"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
    ]),
};

/// Kernel `inverse_gaussian_sample`.
pub const INVERSE_GAUSSIAN_SAMPLE: Kernel = Kernel {
    name: Cow::Borrowed("inverse_gaussian_sample"),
    source: Cow::Borrowed(source::INVERSE_GAUSSIAN_SAMPLE),
    workgroup_size: [256, 1, 1],
    workgroup_bytes: 0,
    items_per_invocation: [1, 1, 1],
    params: ParamsLayout {
        name: Cow::Borrowed("InverseGaussianSampleParams"),
        size_bytes: 32,
        members: Cow::Borrowed(&[
            (Cow::Borrowed("key"), 0),
            (Cow::Borrowed("stream"), 8),
            (Cow::Borrowed("first"), 16),
            (Cow::Borrowed("n"), 20),
            (Cow::Borrowed("root_mean"), 24),
            (Cow::Borrowed("root_ratio"), 28),
        ]),
    },
    bindings: Cow::Borrowed(&[
        Binding { name: Cow::Borrowed("draws"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
    ]),
};

/// Kernel `matmul_naive`.
pub const MATMUL_NAIVE: Kernel = Kernel {
    name: Cow::Borrowed("matmul_naive"),
    source: Cow::Borrowed(source::MATMUL_NAIVE),
    workgroup_size: [16, 16, 1],
    workgroup_bytes: 0,
    items_per_invocation: [1, 1, 1],
    params: ParamsLayout {
        name: Cow::Borrowed("MatmulParams"),
        size_bytes: 16,
        members: Cow::Borrowed(&[
            (Cow::Borrowed("rows"), 0),
            (Cow::Borrowed("inner"), 4),
            (Cow::Borrowed("cols"), 8),
            (Cow::Borrowed("pad0"), 12),
        ]),
    },
    bindings: Cow::Borrowed(&[
        Binding { name: Cow::Borrowed("a"), access: Access::Read, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("b"), access: Access::Read, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("c"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
    ]),
};

/// Kernel `matmul_tile`.
pub const MATMUL_TILE: Kernel = Kernel {
    name: Cow::Borrowed("matmul_tile"),
    source: Cow::Borrowed(source::MATMUL_TILE),
    workgroup_size: [16, 16, 1],
    workgroup_bytes: 2048,
    items_per_invocation: [1, 1, 1],
    params: ParamsLayout {
        name: Cow::Borrowed("MatmulParams"),
        size_bytes: 16,
        members: Cow::Borrowed(&[
            (Cow::Borrowed("rows"), 0),
            (Cow::Borrowed("inner"), 4),
            (Cow::Borrowed("cols"), 8),
            (Cow::Borrowed("pad0"), 12),
        ]),
    },
    bindings: Cow::Borrowed(&[
        Binding { name: Cow::Borrowed("a"), access: Access::Read, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("b"), access: Access::Read, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("c"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
    ]),
};

/// Kernel `philox_fill`.
pub const PHILOX_FILL: Kernel = Kernel {
    name: Cow::Borrowed("philox_fill"),
    source: Cow::Borrowed(source::PHILOX_FILL),
    workgroup_size: [256, 1, 1],
    workgroup_bytes: 0,
    items_per_invocation: [1, 1, 1],
    params: ParamsLayout {
        name: Cow::Borrowed("PhiloxFillParams"),
        size_bytes: 32,
        members: Cow::Borrowed(&[
            (Cow::Borrowed("key"), 0),
            (Cow::Borrowed("stream"), 8),
            (Cow::Borrowed("n_words"), 16),
            (Cow::Borrowed("pad0"), 20),
            (Cow::Borrowed("pad1"), 24),
            (Cow::Borrowed("pad2"), 28),
        ]),
    },
    bindings: Cow::Borrowed(&[
        Binding { name: Cow::Borrowed("words"), access: Access::ReadWrite, element: Element::U32, stride_bytes: 4 },
    ]),
};

/// Every fixed kernel.
pub const ALL: &[&Kernel] = &[
    &BUFFER_COPY,
    &FMA_PEAK,
    &INVERSE_GAUSSIAN_EVAL,
    &INVERSE_GAUSSIAN_SAMPLE,
    &MATMUL_NAIVE,
    &MATMUL_TILE,
    &PHILOX_FILL,
];
