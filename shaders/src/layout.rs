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

/// Kernel `extensive_games_solve`.
pub const EXTENSIVE_GAMES_SOLVE: Kernel = Kernel {
    name: Cow::Borrowed("extensive_games_solve"),
    source: Cow::Borrowed(source::EXTENSIVE_GAMES_SOLVE),
    workgroup_size: [1, 128, 1],
    workgroup_bytes: 0,
    items_per_invocation: [1, 1, 1],
    params: ParamsLayout {
        name: Cow::Borrowed("ExtensiveGamesParams"),
        size_bytes: 48,
        members: Cow::Borrowed(&[
            (Cow::Borrowed("games"), 0),
            (Cow::Borrowed("first_sequences"), 4),
            (Cow::Borrowed("sequences"), 8),
            (Cow::Borrowed("decisions"), 12),
            (Cow::Borrowed("depths"), 16),
            (Cow::Borrowed("pairs"), 20),
            (Cow::Borrowed("done"), 24),
            (Cow::Borrowed("iterations"), 28),
            (Cow::Borrowed("keep"), 32),
            (Cow::Borrowed("alternating"), 36),
            (Cow::Borrowed("predictive"), 40),
            (Cow::Borrowed("pad0"), 44),
        ]),
    },
    bindings: Cow::Borrowed(&[
        Binding { name: Cow::Borrowed("sequences"), access: Access::Read, element: Element::U32, stride_bytes: 16 },
        Binding { name: Cow::Borrowed("decisions"), access: Access::Read, element: Element::U32, stride_bytes: 16 },
        Binding { name: Cow::Borrowed("levels"), access: Access::Read, element: Element::U32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("others"), access: Access::Read, element: Element::U32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("ticks"), access: Access::Read, element: Element::F32, stride_bytes: 16 },
        Binding { name: Cow::Borrowed("payoffs"), access: Access::Read, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("state"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("averages"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
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

/// Kernel `matrix_game_update`.
pub const MATRIX_GAME_UPDATE: Kernel = Kernel {
    name: Cow::Borrowed("matrix_game_update"),
    source: Cow::Borrowed(source::MATRIX_GAME_UPDATE),
    workgroup_size: [1, 256, 1],
    workgroup_bytes: 4096,
    items_per_invocation: [1, 1, 1],
    params: ParamsLayout {
        name: Cow::Borrowed("MatrixGameUpdateParams"),
        size_bytes: 32,
        members: Cow::Borrowed(&[
            (Cow::Borrowed("actions"), 0),
            (Cow::Borrowed("keep"), 4),
            (Cow::Borrowed("predictive"), 8),
            (Cow::Borrowed("share"), 12),
            (Cow::Borrowed("kept"), 16),
            (Cow::Borrowed("pad0"), 24),
            (Cow::Borrowed("pad1"), 28),
        ]),
    },
    bindings: Cow::Borrowed(&[
        Binding { name: Cow::Borrowed("values"), access: Access::Read, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("strategy"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("regrets"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("average"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
    ]),
};

/// Kernel `matrix_game_value`.
pub const MATRIX_GAME_VALUE: Kernel = Kernel {
    name: Cow::Borrowed("matrix_game_value"),
    source: Cow::Borrowed(source::MATRIX_GAME_VALUE),
    workgroup_size: [1, 256, 1],
    workgroup_bytes: 4096,
    items_per_invocation: [1, 1, 1],
    params: ParamsLayout {
        name: Cow::Borrowed("MatrixGameValueParams"),
        size_bytes: 16,
        members: Cow::Borrowed(&[
            (Cow::Borrowed("actions"), 0),
            (Cow::Borrowed("others"), 4),
            (Cow::Borrowed("pad0"), 8),
            (Cow::Borrowed("pad1"), 12),
        ]),
    },
    bindings: Cow::Borrowed(&[
        Binding { name: Cow::Borrowed("payoffs"), access: Access::Read, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("strategy"), access: Access::Read, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("values"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
    ]),
};

/// Kernel `matrix_games_solve_16`.
pub const MATRIX_GAMES_SOLVE_16: Kernel = Kernel {
    name: Cow::Borrowed("matrix_games_solve_16"),
    source: Cow::Borrowed(source::MATRIX_GAMES_SOLVE_16),
    workgroup_size: [1, 16, 2],
    workgroup_bytes: 384,
    items_per_invocation: [1, 1, 1],
    params: ParamsLayout {
        name: Cow::Borrowed("MatrixGamesParams"),
        size_bytes: 32,
        members: Cow::Borrowed(&[
            (Cow::Borrowed("games"), 0),
            (Cow::Borrowed("rows"), 4),
            (Cow::Borrowed("cols"), 8),
            (Cow::Borrowed("done"), 12),
            (Cow::Borrowed("iterations"), 16),
            (Cow::Borrowed("keep"), 20),
            (Cow::Borrowed("alternating"), 24),
            (Cow::Borrowed("predictive"), 28),
        ]),
    },
    bindings: Cow::Borrowed(&[
        Binding { name: Cow::Borrowed("ticks"), access: Access::Read, element: Element::F32, stride_bytes: 16 },
        Binding { name: Cow::Borrowed("gains"), access: Access::Read, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("state"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("averages"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
    ]),
};

/// Kernel `matrix_games_solve_3`.
pub const MATRIX_GAMES_SOLVE_3: Kernel = Kernel {
    name: Cow::Borrowed("matrix_games_solve_3"),
    source: Cow::Borrowed(source::MATRIX_GAMES_SOLVE_3),
    workgroup_size: [64, 1, 1],
    workgroup_bytes: 0,
    items_per_invocation: [1, 1, 1],
    params: ParamsLayout {
        name: Cow::Borrowed("MatrixGamesParams"),
        size_bytes: 32,
        members: Cow::Borrowed(&[
            (Cow::Borrowed("games"), 0),
            (Cow::Borrowed("rows"), 4),
            (Cow::Borrowed("cols"), 8),
            (Cow::Borrowed("done"), 12),
            (Cow::Borrowed("iterations"), 16),
            (Cow::Borrowed("keep"), 20),
            (Cow::Borrowed("alternating"), 24),
            (Cow::Borrowed("predictive"), 28),
        ]),
    },
    bindings: Cow::Borrowed(&[
        Binding { name: Cow::Borrowed("ticks"), access: Access::Read, element: Element::F32, stride_bytes: 16 },
        Binding { name: Cow::Borrowed("gains"), access: Access::Read, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("state"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("averages"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
    ]),
};

/// Kernel `matrix_games_solve_4`.
pub const MATRIX_GAMES_SOLVE_4: Kernel = Kernel {
    name: Cow::Borrowed("matrix_games_solve_4"),
    source: Cow::Borrowed(source::MATRIX_GAMES_SOLVE_4),
    workgroup_size: [64, 1, 1],
    workgroup_bytes: 0,
    items_per_invocation: [1, 1, 1],
    params: ParamsLayout {
        name: Cow::Borrowed("MatrixGamesParams"),
        size_bytes: 32,
        members: Cow::Borrowed(&[
            (Cow::Borrowed("games"), 0),
            (Cow::Borrowed("rows"), 4),
            (Cow::Borrowed("cols"), 8),
            (Cow::Borrowed("done"), 12),
            (Cow::Borrowed("iterations"), 16),
            (Cow::Borrowed("keep"), 20),
            (Cow::Borrowed("alternating"), 24),
            (Cow::Borrowed("predictive"), 28),
        ]),
    },
    bindings: Cow::Borrowed(&[
        Binding { name: Cow::Borrowed("ticks"), access: Access::Read, element: Element::F32, stride_bytes: 16 },
        Binding { name: Cow::Borrowed("gains"), access: Access::Read, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("state"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
        Binding { name: Cow::Borrowed("averages"), access: Access::ReadWrite, element: Element::F32, stride_bytes: 4 },
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
    &EXTENSIVE_GAMES_SOLVE,
    &FMA_PEAK,
    &INVERSE_GAUSSIAN_EVAL,
    &INVERSE_GAUSSIAN_SAMPLE,
    &MATMUL_NAIVE,
    &MATMUL_TILE,
    &MATRIX_GAME_UPDATE,
    &MATRIX_GAME_VALUE,
    &MATRIX_GAMES_SOLVE_16,
    &MATRIX_GAMES_SOLVE_3,
    &MATRIX_GAMES_SOLVE_4,
    &PHILOX_FILL,
];
