//! Parameter structs of the kernels, with the memory layout of WGSL.
//!
//! Role: the parameters of a dispatch. Each struct also defines the size of its domain, so the
//! number of workgroups follows from the parameters and callers do not compute grids.
//! Method: one macro defines a struct together with the offsets of its fields. `tests/reflect.rs`
//! compares the offsets with naga's for every kernel.

mod inverse_gaussian_function;
mod matching_keep;
mod packed_conv;

pub use inverse_gaussian_function::InverseGaussianFunction;
pub use matching_keep::MatchingKeep;

use bytemuck::{Pod, Zeroable};
use std::ops::Range;

/// Name and offset of one field of a parameter struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name, equal in Rust and WGSL.
    pub name: &'static str,
    /// Offset in bytes.
    pub offset_bytes: usize,
}

/// A parameter struct: plain bytes for binding 0, and the size of the work.
pub trait Params: Pod {
    /// Name of the struct, equal in Rust and WGSL.
    const NAME: &'static str;
    /// Fields in order, padding included.
    const FIELDS: &'static [Field];

    /// Returns the size of the work in x, y, z, in elements (not in invocations or workgroups).
    fn domain(&self) -> [u64; 3];

    /// Returns the number of scalars that each storage buffer must have, in the order of the
    /// bindings.
    ///
    /// A device clamps reads past the end of a buffer, so a buffer that is too short would give
    /// wrong results without an error. The dispatcher therefore rejects such a buffer.
    fn buffer_lens(&self) -> Vec<u64>;

    /// Returns the maximum number of iterations of all loops of one invocation together, with one
    /// more for each execution of a loop.
    ///
    /// llvmpipe shares one counter among all loops of a shader, nested loops included. When the
    /// counter is used up, loops end without an error. The dispatcher rejects such work.
    fn loop_iterations(&self) -> u64;
}

/// Invocations per workgroup in `wgsl/shared/group_sum.wgsl`.
const GROUP_SUM_LANES: u32 = 256;
/// Passes of the loop in `wgsl/shared/group_sum.wgsl`: one for each level of the tree, and the
/// last.
const GROUP_SUM_PASSES: u64 = GROUP_SUM_LANES.ilog2() as u64 + 1;
/// Passes of the ten rounds of Philox4x32-10, the only loop of its kernels.
const PHILOX_PASSES: u64 = 10 + 1;
/// Side of the tiles of `wgsl/matmul_tile.wgsl`.
const MATMUL_TILE: u32 = 16;

macro_rules! params {
    ($(
        $(#[$doc:meta])*
        struct $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)+ }
        domain($this:ident) $domain:expr;
        buffers $lens:expr;
        loops $iterations:expr;
    )+) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
            pub struct $name { $($(#[$field_doc])* pub $field: $ty,)+ }

            impl Params for $name {
                const NAME: &'static str = stringify!($name);
                const FIELDS: &'static [Field] = &[$(Field {
                    name: stringify!($field),
                    offset_bytes: std::mem::offset_of!($name, $field),
                }),+];

                fn domain(&self) -> [u64; 3] {
                    let $this = self;
                    $domain
                }

                fn buffer_lens(&self) -> Vec<u64> {
                    let $this = self;
                    $lens.to_vec()
                }

                fn loop_iterations(&self) -> u64 {
                    #[allow(unused_variables, reason = "kernels without loops ignore it")]
                    let $this = self;
                    $iterations
                }
            }
        )+

        /// Name, size in bytes and fields of every parameter struct, for the comparison with
        /// reflection.
        pub const ALL: &[(&str, usize, &[Field])] =
            &[$(($name::NAME, size_of::<$name>(), $name::FIELDS)),+];
    };
}

params! {
    /// Parameters of every matrix product `c [rows, cols] = a [rows, inner] · b [inner, cols]`.
    struct MatmulParams {
        /// Rows of `a` and `c`.
        rows: u32,
        /// Columns of `a`, rows of `b`.
        inner: u32,
        /// Columns of `b` and `c`.
        cols: u32,
        /// Padding to 16 bytes.
        pad0: u32,
    }
    domain(p) [u64::from(p.cols), u64::from(p.rows), 1];
    buffers [area(p.rows, p.inner), area(p.inner, p.cols), area(p.rows, p.cols)];
    loops {
        // `matmul_tile` has the most: for each tile a pass of the outer loop, and the inner loop.
        let of_tile = 1 + u64::from(MATMUL_TILE + 1);
        u64::from(p.inner.div_ceil(MATMUL_TILE)) * of_tile + 1
    };

    /// Parameters of `philox_fill`.
    struct PhiloxFillParams {
        /// Key of the generator, low word first.
        key: [u32; 2],
        /// Stream number, low word first.
        stream: [u32; 2],
        /// Number of words to write.
        n_words: u32,
        /// Padding to 32 bytes.
        pad0: u32,
        /// Padding to 32 bytes.
        pad1: u32,
        /// Padding to 32 bytes.
        pad2: u32,
    }
    domain(p) [u64::from(p.n_words.div_ceil(4)), 1, 1];
    buffers [u64::from(p.n_words)];
    loops PHILOX_PASSES;

    /// Parameters of `buffer_copy`.
    struct BufferCopyParams {
        /// Number of vectors of four floats to copy.
        n_vec4: u32,
        /// Padding to 16 bytes.
        pad0: u32,
        /// Padding to 16 bytes.
        pad1: u32,
        /// Padding to 16 bytes.
        pad2: u32,
    }
    domain(p) [u64::from(p.n_vec4), 1, 1];
    buffers [area(4, p.n_vec4); 2];
    loops 0;

    /// Parameters of `fma_peak`.
    struct FmaPeakParams {
        /// Number of invocations.
        n: u32,
        /// Number of rounds, each of 64 vector operations (512 floating-point operations).
        rounds: u32,
        /// Factor of every step. The chains stay bounded if its magnitude is below 1.
        multiplier: f32,
        /// Summand of every step.
        addend: f32,
    }
    domain(p) [u64::from(p.n), 1, 1];
    buffers [area(4, p.n)];
    loops u64::from(p.rounds) + 1;

    /// Parameters of `popcount_peak`.
    struct PopcountPeakParams {
        /// Number of invocations.
        n: u32,
        /// Number of rounds, each of 64 vector steps (8192 products of bits).
        rounds: u32,
        /// Word whose bits are compared in every step.
        mask: u32,
        /// Padding to 16 bytes.
        pad0: u32,
    }
    domain(p) [u64::from(p.n), 1, 1];
    buffers [area(4, p.n)];
    loops u64::from(p.rounds) + 1;

    /// Parameters of `inverse_gaussian_eval`.
    struct InverseGaussianEvalParams {
        /// Number of arguments.
        n: u32,
        /// Code of an [`InverseGaussianFunction`].
        function: u32,
        /// The mean `μ`: the nearest f32, and the remainder.
        mean: [f32; 2],
        /// `1/μ`: the leading 12 bits, and the remainder.
        inverse_mean: [f32; 2],
        /// The shape `λ`: the leading 12 bits, and the remainder.
        shape: [f32; 2],
        /// `λ/μ²`: the leading 12 bits, and the remainder.
        rate: [f32; 2],
        /// `2 λ/μ`.
        twice_ratio: f32,
        /// Padding to 48 bytes; must be zero.
        pad0: u32,
    }
    domain(p) [u64::from(p.n), 1, 1];
    buffers [u64::from(p.n); 2];
    loops 0;

    /// Parameters of `inverse_gaussian_sample`.
    struct InverseGaussianSampleParams {
        /// Key of the generator, low word first.
        key: [u32; 2],
        /// Stream number, low word first.
        stream: [u32; 2],
        /// Index of the first draw.
        first: u32,
        /// Number of draws. The index of the last draw must fit into `u32`.
        n: u32,
        /// `sqrt(μ)`.
        root_mean: f32,
        /// `sqrt(μ/λ)`.
        root_ratio: f32,
    }
    domain(p) [u64::from(p.n), 1, 1];
    buffers [u64::from(p.n)];
    loops PHILOX_PASSES;

    /// Parameters of the kernels `matrix_games_solve_…`.
    struct MatrixGamesParams {
        /// Number of games.
        games: u32,
        /// Number of actions of the first player in each game: at most the number in the kernel's
        /// name. The kernel computes wrong results for more.
        rows: u32,
        /// Number of actions of the second player in each game: at most the number in the kernel's
        /// name.
        cols: u32,
        /// Number of iterations of earlier dispatches.
        done: u32,
        /// Number of iterations of this dispatch.
        iterations: u32,
        /// Code of a [`MatchingKeep`].
        keep: u32,
        /// 1 if the second player reacts to the first player's updated strategy, else 0.
        alternating: u32,
        /// Additional weight of the last regret in the prediction: 1 or 0.
        predictive: f32,
    }
    domain(p) [u64::from(p.games), 1, 1];
    buffers {
        let [games, cells] = [u64::from(p.games), area(p.rows, p.cols)];
        let actions = games.saturating_mul(u64::from(p.rows) + u64::from(p.cols));
        let ticks = 4 * (u64::from(p.done) + u64::from(p.iterations));
        [ticks, games.saturating_mul(cells), actions.saturating_mul(2), actions]
    };
    loops {
        // `matrix_games_solve_16` has the longest iterations: a pass, and a loop over the turns.
        // The other kernels load and store the numbers of both players' actions in loops.
        let of_iteration = 3 + u64::from(p.alternating);
        let of_actions = 2 * (u64::from(p.rows) + u64::from(p.cols) + 2);
        u64::from(p.iterations)
            .saturating_mul(of_iteration)
            .saturating_add(1 + of_actions)
    };

    /// Parameters of `matrix_game_value`.
    struct MatrixGameValueParams {
        /// Number of actions of the player.
        actions: u32,
        /// Number of actions of the other player.
        others: u32,
        /// Padding to 16 bytes.
        pad0: u32,
        /// Padding to 16 bytes.
        pad1: u32,
    }
    domain(p) [u64::from(p.actions.div_ceil(4)), 1, 1];
    buffers [area(p.actions, p.others), u64::from(p.others), u64::from(p.actions)];
    loops u64::from(p.others.div_ceil(GROUP_SUM_LANES)) + 1 + GROUP_SUM_PASSES;

    /// Parameters of `matrix_game_update`.
    struct MatrixGameUpdateParams {
        /// Number of actions of the player.
        actions: u32,
        /// Code of a [`MatchingKeep`].
        keep: u32,
        /// Additional weight of the last regret in the prediction: 1 or 0.
        predictive: f32,
        /// Step of the average towards the strategy, from 0 to 1.
        share: f32,
        /// Factors of positive and of negative sums of regrets.
        kept: [f32; 2],
        /// Padding to 32 bytes.
        pad0: u32,
        /// Padding to 32 bytes.
        pad1: u32,
    }
    domain(p) [u64::from(p.actions.min(1)), 1, 1];
    buffers [u64::from(p.actions); 4];
    loops 3 * (u64::from(p.actions.div_ceil(GROUP_SUM_LANES)) + 1) + 2 * GROUP_SUM_PASSES;

    /// Parameters of `extensive_games_solve`.
    struct ExtensiveGamesParams {
        /// Number of games.
        games: u32,
        /// Number of sequences of the first player.
        first_sequences: u32,
        /// Number of sequences of both players together.
        sequences: u32,
        /// Number of decisions of both players together.
        decisions: u32,
        /// Maximum number of successive decisions of one player.
        depths: u32,
        /// Number of pairs of a sequence and a sequence of the other player with which a game ends.
        /// Each end of a game counts once for each player.
        pairs: u32,
        /// Number of iterations of earlier dispatches.
        done: u32,
        /// Number of iterations of this dispatch.
        iterations: u32,
        /// Code of a [`MatchingKeep`].
        keep: u32,
        /// 1 if the second player reacts to the first player's updated strategy, else 0.
        alternating: u32,
        /// Additional weight of the last regret in the prediction: 1 or 0.
        predictive: f32,
        /// Padding to 48 bytes.
        pad0: u32,
    }
    domain(p) [u64::from(p.games), 1, 1];
    buffers {
        let [games, sequences, decisions] =
            [p.games, p.sequences, p.decisions].map(u64::from);
        let ticks = 4 * (u64::from(p.done) + u64::from(p.iterations));
        [
            4 * sequences,
            4 * decisions,
            2 * u64::from(p.depths) + 1,
            p.pairs.into(),
            ticks,
            area(p.games, p.pairs),
            games.saturating_mul(4 * sequences + decisions),
            games * sequences,
        ]
    };
    loops p.n_passes();

    /// Parameters of the kernels `bit_conv_…` and `byte_conv_…`: convolutions of packed numbers.
    /// Pairs are rows, then columns.
    struct PackedConvParams {
        /// Number of images.
        batch: u32,
        /// Rows of an image.
        height: u32,
        /// Columns of an image.
        width: u32,
        /// Number of words of a pixel, per plane and group.
        words: u32,
        /// Number of planes of the input.
        planes: u32,
        /// Number of groups; a divisor of `out_channels`.
        groups: u32,
        /// Number of planes of the weights.
        weight_planes: u32,
        /// Number of output channels of all groups together.
        out_channels: u32,
        /// Size of the kernel, in taps.
        kernel: [u32; 2],
        /// Distance between the first taps of neighbouring output pixels.
        stride: [u32; 2],
        /// Distance between neighbouring taps.
        dilation: [u32; 2],
        /// Rows above and columns left of the image, whose words are 0.
        padding: [u32; 2],
        /// Rows and columns of the convolution, before pooling.
        out_size: [u32; 2],
        /// Number of classes of output rows in the border table; 0 without a table.
        row_classes: u32,
        /// Number of classes of output columns in the border table; 0 without a table.
        col_classes: u32,
        /// Size of a pooling window. Kernels of sums do not read this and the next seven fields.
        pool: [u32; 2],
        /// Distance between neighbouring windows.
        pool_stride: [u32; 2],
        /// Rows above and columns left of the sums in the first window; they take no part.
        pool_padding: [u32; 2],
        /// Rows and columns after pooling.
        pooled_size: [u32; 2],
        /// Number of thresholds; 0 for kernels of sums.
        thresholds: u32,
        /// Number of planes of the output: at most 8, and 1 for bytes.
        code_planes: u32,
        /// Number of groups of the output; a divisor of `out_channels`.
        out_groups: u32,
        /// Number of channels of a word of the output: 32 for `bit_conv_codes`, 4 for
        /// `byte_conv_codes`.
        word_channels: u32,
    }
    domain(p) [p.lanes(), p.n_pixels().div_ceil(PackedConvParams::PIXELS), 1];
    buffers {
        let channels = p.out_channels;
        let [rows, cols] = p.out_size.map(u64::from);
        let mut lens = vec![
            product(&[p.batch, p.height, p.width, p.planes, p.groups, p.words]),
            product(&[p.weight_planes, p.kernel[0], p.kernel[1], p.words, channels]),
            product(&[p.planes, p.weight_planes, channels]).saturating_add(channels.into()),
            product(&[p.row_classes, p.col_classes, channels]),
            if p.row_classes > 0 { rows + cols } else { 0 },
        ];
        if p.thresholds == 0 {
            lens.push(p.n_pixels().saturating_mul(channels.into()));
        } else {
            let n_rows = 1 + u64::from(p.thresholds);
            let pixel_words = product(&[p.code_planes, p.out_groups, p.out_words()]);
            let n_words = p.n_pixels().saturating_mul(pixel_words);
            lens.extend([n_rows * u64::from(channels), n_rows, n_words]);
        }
        lens
    };
    loops p.n_iterations();
}

impl ExtensiveGamesParams {
    /// Invocations of a workgroup of `extensive_games_solve`.
    const LANES: u64 = 128;

    /// Returns an upper bound of the passes of all loops of an invocation. The parameters state the
    /// sizes of the whole tree only. A loop over a part of the tree has at most as many passes as
    /// the parts have elements together, because lanes with fewer elements wait for the others.
    fn n_passes(&self) -> u64 {
        let [sequences, decisions] = [self.sequences, self.decisions].map(u64::from);
        let depths = u64::from(self.depths);
        let turns = 1 + u64::from(self.alternating);
        let levels = depths.saturating_mul(turns);
        // Lanes share the elements of a level, so an outer loop has a pass for each 128 elements
        // and up to two more for each level.
        let chunks = |n: u64, levels: u64| (n / Self::LANES).saturating_add(levels);
        let (of_value, of_levels) = (chunks(sequences, turns), chunks(decisions, levels));
        // `value`: outer loop, pairs. `update`: outer loop, three loops over actions, decisions
        // behind an action. `extend`: outer loop, actions. Last the loops over depths and turns.
        let terms = [
            of_value.saturating_mul(2),
            turns,
            u64::from(self.pairs),
            of_levels.saturating_mul(6),
            levels.saturating_mul(4),
            5 * sequences + decisions,
            turns.saturating_mul(3) + 2,
        ];
        let of_iteration = terms.into_iter().fold(0, u64::saturating_add);
        // `begin` initializes the state in the first dispatch.
        let of_begin = 3 * sequences + 4 * decisions + 4 * depths + 7;
        u64::from(self.iterations)
            .saturating_mul(of_iteration)
            .saturating_add(of_begin)
    }
}

impl MatmulParams {
    /// Creates the parameters of a product `[rows, inner] · [inner, cols]`.
    #[must_use]
    pub fn new(rows: u32, inner: u32, cols: u32) -> Self {
        Self {
            rows,
            inner,
            cols,
            pad0: 0,
        }
    }

    /// Returns `[rows, inner, cols]` as sizes of host arrays.
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        [self.rows, self.inner, self.cols].map(|side| side as usize)
    }
}

impl PhiloxFillParams {
    /// Creates the parameters to write the first `n_words` words of `stream` under `key`.
    #[must_use]
    pub fn new(key: u64, stream: u64, n_words: u32) -> Self {
        Self {
            key: halves(key),
            stream: halves(stream),
            n_words,
            ..Self::default()
        }
    }
}

impl BufferCopyParams {
    /// Creates the parameters to copy `n_vec4` vectors of four floats.
    #[must_use]
    pub fn new(n_vec4: u32) -> Self {
        Self {
            n_vec4,
            ..Self::default()
        }
    }
}

impl FmaPeakParams {
    /// Floating-point operations of one invocation in one round: 64 operations on vectors of 4
    /// lanes, each counted as 2.
    pub const OPERATIONS_PER_ROUND: u64 = 64 * 4 * 2;

    /// Creates the parameters of `n` invocations with `rounds` rounds of `x ← x / 2 + 1`, which
    /// converges to 2.
    #[must_use]
    pub fn new(n: u32, rounds: u32) -> Self {
        Self {
            n,
            rounds,
            multiplier: 0.5,
            addend: 1.0,
        }
    }
}

impl PopcountPeakParams {
    /// Products of bits of one invocation in one round: 64 steps on vectors of 4 lanes of 32 bits.
    pub const PRODUCTS_PER_ROUND: u64 = 64 * 4 * 32;

    /// Creates the parameters of `n` invocations with `rounds` rounds of `x ← x + ones(x ^ mask)`.
    #[must_use]
    pub fn new(n: u32, rounds: u32, mask: u32) -> Self {
        Self {
            n,
            rounds,
            mask,
            ..Self::default()
        }
    }
}

impl InverseGaussianEvalParams {
    /// Creates the parameters to evaluate `function` at `n` numbers, for the inverse Gaussian
    /// distribution with this mean and shape.
    ///
    /// The constants are computed in f64 and split into two f32. Both parts must be in the range of
    /// f32, so mean, shape and shape/mean² must be from 1e-30 to 1e30, and shape/mean from 1e-12 to
    /// 1e12.
    #[must_use]
    pub fn new(function: InverseGaussianFunction, mean: f64, shape: f64, n: u32) -> Self {
        let first = narrowed(mean);
        Self {
            n,
            function: function as u32,
            mean: [first, narrowed(mean - f64::from(first))],
            inverse_mean: head_and_rest(1.0 / mean),
            shape: head_and_rest(shape),
            rate: head_and_rest(shape / mean / mean),
            twice_ratio: narrowed(2.0 * (shape / mean)),
            pad0: 0,
        }
    }
}

impl InverseGaussianSampleParams {
    /// Creates the parameters for the draws `draws` of `stream` under `key`, from the inverse
    /// Gaussian distribution with this mean and shape.
    #[must_use]
    pub fn new(mean: f64, shape: f64, key: u64, stream: u64, draws: Range<u32>) -> Self {
        Self {
            key: halves(key),
            stream: halves(stream),
            first: draws.start,
            n: draws.end.saturating_sub(draws.start),
            root_mean: narrowed(mean.sqrt()),
            root_ratio: narrowed((mean / shape).sqrt()),
        }
    }
}

/// Splits a number into its leading 12 bits and the remainder, for `wgsl/shared/split.wgsl`.
fn head_and_rest(value: f64) -> [f32; 2] {
    let head = f32::from_bits(narrowed(value).to_bits() & 0xffff_f000);
    [head, narrowed(value - f64::from(head))]
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to f32 is intended"
)]
fn narrowed(value: f64) -> f32 {
    value as f32
}

/// Splits a number into its low and high words, the order in WGSL.
fn halves(value: u64) -> [u32; 2] {
    [(value & 0xFFFF_FFFF) as u32, (value >> 32) as u32]
}

/// Returns the product of some counts. Saturates at `u64::MAX`, which no device accepts.
fn product(counts: &[u32]) -> u64 {
    let counts = counts.iter().map(|&count| u64::from(count));
    // The fold would saturate before a later 0.
    if counts.clone().any(|count| count == 0) {
        return 0;
    }
    counts.fold(1, u64::saturating_mul)
}

fn area(rows: u32, cols: u32) -> u64 {
    u64::from(rows) * u64::from(cols)
}
