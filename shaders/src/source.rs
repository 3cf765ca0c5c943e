//! WGSL text of every fixed kernel, embedded in the crate.
//!
//! Role: the only module that reads `.wgsl` files. Shared parts are concatenated explicitly,
//! without a preprocessor. `cargo xtask codegen` reflects [`ALL`] into [`crate::layout`].

macro_rules! wgsl {
    ($($part:literal),+) => { concat!($(include_str!(concat!("../wgsl/", $part, ".wgsl"))),+) };
}

/// Convolution of packed bits, pooled and quantised to packed bits.
pub const BIT_CONV_CODES: &str = wgsl!(
    "bit_conv_codes",
    "shared/packed_codes",
    "shared/packed_conv",
    "shared/product_of_bits",
    "shared/grid"
);
/// Convolution of packed bits, with sums as output.
pub const BIT_CONV_SUMS: &str = wgsl!(
    "bit_conv_sums",
    "shared/packed_sums",
    "shared/packed_conv",
    "shared/product_of_bits",
    "shared/grid"
);
/// `y = x`, used to measure the peak bandwidth.
pub const BUFFER_COPY: &str = wgsl!("buffer_copy", "shared/grid");
/// Convolution of packed bytes, pooled and quantised to packed bytes.
pub const BYTE_CONV_CODES: &str = wgsl!(
    "byte_conv_codes",
    "shared/packed_codes",
    "shared/packed_conv",
    "shared/product_of_bytes",
    "shared/grid"
);
/// Convolution of packed bytes, with sums as output.
pub const BYTE_CONV_SUMS: &str = wgsl!(
    "byte_conv_sums",
    "shared/packed_sums",
    "shared/packed_conv",
    "shared/product_of_bytes",
    "shared/grid"
);
/// Counterfactual regret minimization in many extensive games.
pub const EXTENSIVE_GAMES_SOLVE: &str =
    wgsl!("extensive_games_solve", "shared/matching", "shared/grid");
/// Chains of fused multiply-adds, used to measure the peak arithmetic rate.
pub const FMA_PEAK: &str = wgsl!("fma_peak", "shared/grid");
/// A function of the inverse Gaussian distribution, evaluated at many numbers.
pub const INVERSE_GAUSSIAN_EVAL: &str = wgsl!(
    "inverse_gaussian_eval",
    "shared/erfcx",
    "shared/split",
    "shared/float",
    "shared/grid"
);
/// Samples of the inverse Gaussian distribution.
pub const INVERSE_GAUSSIAN_SAMPLE: &str = wgsl!(
    "inverse_gaussian_sample",
    "shared/philox",
    "shared/split",
    "shared/float",
    "shared/grid"
);
/// Regret matching in many matrix games of at most 16 actions per player, one game per workgroup.
pub const MATRIX_GAMES_SOLVE_16: &str = wgsl!(
    "matrix_games_solve_16",
    "shared/matrix_games",
    "shared/matching",
    "shared/grid"
);
/// Regret matching in many matrix games of at most 3 actions per player, one game per invocation.
pub const MATRIX_GAMES_SOLVE_3: &str = wgsl!(
    "matrix_games_solve_3",
    "shared/tiny_games",
    "shared/matrix_games",
    "shared/matching",
    "shared/grid"
);
/// Regret matching in many matrix games of at most 4 actions per player, one game per invocation.
pub const MATRIX_GAMES_SOLVE_4: &str = wgsl!(
    "matrix_games_solve_4",
    "shared/tiny_games",
    "shared/matrix_games",
    "shared/matching",
    "shared/grid"
);
/// A regret matching step of one player, in a matrix game of any size.
pub const MATRIX_GAME_UPDATE: &str =
    wgsl!("matrix_game_update", "shared/matching", "shared/group_sum");
/// Value of each action of one player against the other player's strategy.
pub const MATRIX_GAME_VALUE: &str = wgsl!("matrix_game_value", "shared/group_sum", "shared/grid");
/// Matrix product, one invocation per element.
pub const MATMUL_NAIVE: &str = wgsl!("matmul_naive", "shared/matmul", "shared/grid");
/// Matrix product with 16 × 16 tiles in workgroup memory.
pub const MATMUL_TILE: &str = wgsl!("matmul_tile", "shared/matmul", "shared/grid");
/// Words of one Philox stream.
pub const PHILOX_FILL: &str = wgsl!("philox_fill", "shared/philox", "shared/grid");
/// Chains that count ones, used to measure the peak rate of products of bits.
pub const POPCOUNT_PEAK: &str = wgsl!("popcount_peak", "shared/grid");

/// Shared part: the linear index of a workgroup in a folded grid.
pub const GRID: &str = wgsl!("shared/grid");

/// Shared part: functions of `f32`. Generated kernels use this part and the next three.
pub const FLOAT: &str = wgsl!("shared/float");
/// Shared part: operations on integers.
pub const INT: &str = wgsl!("shared/int");
/// Shared part: 16-bit floats.
pub const HALF: &str = wgsl!("shared/half");
/// Shared part: the Philox random number generator.
pub const PHILOX: &str = wgsl!("shared/philox");

/// Shared part: parameters and bindings of a matrix product. Generated kernels use this part, too.
pub const MATMUL: &str = wgsl!("shared/matmul");

/// Name and text of every fixed kernel.
pub const ALL: &[(&str, &str)] = &[
    ("bit_conv_codes", BIT_CONV_CODES),
    ("bit_conv_sums", BIT_CONV_SUMS),
    ("buffer_copy", BUFFER_COPY),
    ("byte_conv_codes", BYTE_CONV_CODES),
    ("byte_conv_sums", BYTE_CONV_SUMS),
    ("extensive_games_solve", EXTENSIVE_GAMES_SOLVE),
    ("fma_peak", FMA_PEAK),
    ("inverse_gaussian_eval", INVERSE_GAUSSIAN_EVAL),
    ("inverse_gaussian_sample", INVERSE_GAUSSIAN_SAMPLE),
    ("matmul_naive", MATMUL_NAIVE),
    ("matmul_tile", MATMUL_TILE),
    ("matrix_game_update", MATRIX_GAME_UPDATE),
    ("matrix_game_value", MATRIX_GAME_VALUE),
    ("matrix_games_solve_16", MATRIX_GAMES_SOLVE_16),
    ("matrix_games_solve_3", MATRIX_GAMES_SOLVE_3),
    ("matrix_games_solve_4", MATRIX_GAMES_SOLVE_4),
    ("philox_fill", PHILOX_FILL),
    ("popcount_peak", POPCOUNT_PEAK),
];
