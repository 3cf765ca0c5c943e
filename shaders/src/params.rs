//! Parameter structs of the kernels, byte for byte as WGSL lays them out.
//!
//! Role: what a caller hands to a dispatch. Each struct also says how large its domain is, so the number of
//! workgroups follows from the parameters and no caller computes a grid.
//! Method: one macro defines a struct together with the offsets of its fields; `tests/reflect.rs` compares them
//! with naga's for every kernel, so nobody writes those tests by hand.

use bytemuck::{Pod, Zeroable};
use std::ops::Range;

/// Name and place of one field of a parameter struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name, equal in Rust and WGSL.
    pub name: &'static str,
    /// Offset in bytes.
    pub offset_bytes: usize,
}

/// A parameter struct: plain bytes for binding 0 and the size of the work.
pub trait Params: Pod {
    /// Name of the struct, equal in Rust and WGSL.
    const NAME: &'static str;
    /// Its fields in order.
    const FIELDS: &'static [Field];

    /// Gives the extent of the work in x, y, z: elements, not invocations and not workgroups.
    fn domain(&self) -> [u64; 3];

    /// Gives the scalars that each storage buffer must hold, in the order of the bindings.
    ///
    /// A device clamps what a shader reads beyond a buffer, so a buffer that is too short would give wrong numbers
    /// in silence; the dispatcher refuses it instead.
    fn buffer_lens(&self) -> Vec<u64>;

    /// Gives the most iterations that a loop of one invocation may run.
    ///
    /// Some software drivers end every loop after a fixed number in silence; the dispatcher refuses work beyond it.
    fn loop_iterations(&self) -> u64;
}

/// Invocations over which `wgsl/shared/group_sum.wgsl` sums.
const GROUP_SUM_LANES: u32 = 256;
/// Rounds of Philox4x32-10, the one loop of its kernel.
const PHILOX_ROUNDS: u32 = 10;

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
                    #[allow(unused_variables, reason = "a kernel without loops asks for nothing")]
                    let $this = self;
                    u64::from($iterations)
                }
            }
        )+

        /// Every parameter struct: name, size in bytes and fields, for the comparison with reflection.
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
        /// Fills the struct to 16 bytes.
        pad0: u32,
    }
    domain(p) [u64::from(p.cols), u64::from(p.rows), 1];
    buffers [area(p.rows, p.inner), area(p.inner, p.cols), area(p.rows, p.cols)];
    loops p.inner;

    /// Parameters of `philox_fill`.
    struct PhiloxFillParams {
        /// Key of the generator, low word first.
        key: [u32; 2],
        /// Stream number, low word first.
        stream: [u32; 2],
        /// Words to write.
        n_words: u32,
        /// Fills the struct to 32 bytes.
        pad0: u32,
        /// Fills the struct to 32 bytes.
        pad1: u32,
        /// Fills the struct to 32 bytes.
        pad2: u32,
    }
    domain(p) [u64::from(p.n_words.div_ceil(4)), 1, 1];
    buffers [u64::from(p.n_words)];
    loops PHILOX_ROUNDS;

    /// Parameters of `buffer_copy`.
    struct BufferCopyParams {
        /// Vectors of four floats to copy.
        n_vec4: u32,
        /// Fills the struct to 16 bytes.
        pad0: u32,
        /// Fills the struct to 16 bytes.
        pad1: u32,
        /// Fills the struct to 16 bytes.
        pad2: u32,
    }
    domain(p) [u64::from(p.n_vec4), 1, 1];
    buffers [area(4, p.n_vec4); 2];
    loops 0_u32;

    /// Parameters of `fma_peak`.
    struct FmaPeakParams {
        /// Invocations.
        n: u32,
        /// Rounds of 64 vector operations (512 floating-point operations) each.
        rounds: u32,
        /// Factor of every step; below 1 in size the chains stay bounded.
        multiplier: f32,
        /// Summand of every step.
        addend: f32,
    }
    domain(p) [u64::from(p.n), 1, 1];
    buffers [area(4, p.n)];
    loops p.rounds;

    /// Parameters of `inverse_gaussian_eval`.
    struct InverseGaussianEvalParams {
        /// Numbers at which the function is taken.
        n: u32,
        /// Code of an [`InverseGaussianFunction`].
        function: u32,
        /// The mean `μ`: the nearest f32, and the rest.
        mean: [f32; 2],
        /// `1/μ`: 12 bits, and the rest.
        inverse_mean: [f32; 2],
        /// The shape `λ`: 12 bits, and the rest.
        shape: [f32; 2],
        /// `λ/μ²`: 12 bits, and the rest.
        rate: [f32; 2],
        /// `2 λ/μ`.
        twice_ratio: f32,
        /// Fills the struct to 48 bytes; zero.
        pad0: u32,
    }
    domain(p) [u64::from(p.n), 1, 1];
    buffers [u64::from(p.n); 2];
    loops 0_u32;

    /// Parameters of `inverse_gaussian_sample`.
    struct InverseGaussianSampleParams {
        /// Key of the generator, low word first.
        key: [u32; 2],
        /// Stream number, low word first.
        stream: [u32; 2],
        /// Number of the first draw.
        first: u32,
        /// Draws to make; the last one's number is a `u32` too.
        n: u32,
        /// `sqrt(μ)`.
        root_mean: f32,
        /// `sqrt(μ/λ)`.
        root_ratio: f32,
    }
    domain(p) [u64::from(p.n), 1, 1];
    buffers [u64::from(p.n)];
    loops PHILOX_ROUNDS;

    /// Parameters of the kernels `matrix_games_solve_…`.
    struct MatrixGamesParams {
        /// Games.
        games: u32,
        /// Actions of each game's first player.
        rows: u32,
        /// Actions of its second player.
        cols: u32,
        /// Iterations that earlier dispatches did.
        done: u32,
        /// Iterations to do.
        iterations: u32,
        /// Code of a [`MatchingKeep`].
        keep: u32,
        /// 1 if the second player sees what the first has just learnt, else 0.
        alternating: u32,
        /// How many times more the last regret counts: 1 or 0.
        predictive: f32,
    }
    domain(p) [u64::from(p.games), 1, 1];
    buffers {
        let [games, cells] = [u64::from(p.games), area(p.rows, p.cols)];
        let actions = games * (u64::from(p.rows) + u64::from(p.cols));
        let ticks = 4 * (u64::from(p.done) + u64::from(p.iterations));
        [ticks, games * cells, 2 * actions, actions]
    };
    loops p.iterations;

    /// Parameters of `matrix_game_value`.
    struct MatrixGameValueParams {
        /// Actions of the player.
        actions: u32,
        /// Actions of the other.
        others: u32,
        /// Fills the struct to 16 bytes.
        pad0: u32,
        /// Fills the struct to 16 bytes.
        pad1: u32,
    }
    domain(p) [u64::from(p.actions.div_ceil(4)), 1, 1];
    buffers [area(p.actions, p.others), u64::from(p.others), u64::from(p.actions)];
    loops p.others.div_ceil(GROUP_SUM_LANES);

    /// Parameters of `matrix_game_update`.
    struct MatrixGameUpdateParams {
        /// Actions of the player.
        actions: u32,
        /// Code of a [`MatchingKeep`].
        keep: u32,
        /// How many times more the last regret counts: 1 or 0.
        predictive: f32,
        /// How far the average moves to the strategy, from 0 to 1.
        share: f32,
        /// What positive and negative sums of regrets are multiplied by.
        kept: [f32; 2],
        /// Fills the struct to 32 bytes.
        pad0: u32,
        /// Fills the struct to 32 bytes.
        pad1: u32,
    }
    domain(p) [u64::from(p.actions.min(1)), 1, 1];
    buffers [u64::from(p.actions); 4];
    loops p.actions.div_ceil(GROUP_SUM_LANES);

    /// Parameters of `extensive_games_solve`.
    struct ExtensiveGamesParams {
        /// Games.
        games: u32,
        /// Sequences of the first player.
        first_sequences: u32,
        /// Sequences of both players.
        sequences: u32,
        /// Decisions of both players.
        decisions: u32,
        /// Decisions of a player that may follow one another.
        depths: u32,
        /// Pairs of a sequence and one of the other player's that end a game.
        pairs: u32,
        /// Iterations that earlier dispatches did.
        done: u32,
        /// Iterations to do.
        iterations: u32,
        /// Code of a [`MatchingKeep`].
        keep: u32,
        /// 1 if the second player sees what the first has just learnt, else 0.
        alternating: u32,
        /// How many times more the last regret counts: 1 or 0.
        predictive: f32,
        /// Fills the struct to 48 bytes.
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
            games * (4 * sequences + decisions),
            games * sequences,
        ]
    };
    loops p.iterations.max(p.sequences);
}

/// What kernels that match regrets keep of sums of regrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum MatchingKeep {
    /// Everything.
    All,
    /// Positive ones.
    Positive,
    /// Shares of positive and of negative ones, which may differ from iteration to iteration.
    Shares,
}

/// What `inverse_gaussian_eval` computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum InverseGaussianFunction {
    /// The density.
    Pdf,
    /// Its logarithm.
    LnPdf,
    /// The distribution function, `P(X <= x)`.
    Cdf,
    /// The survival function, `P(X > x)`.
    Sf,
    /// The logarithm of the distribution function.
    LnCdf,
    /// The logarithm of the survival function.
    LnSf,
}

impl InverseGaussianFunction {
    /// Every function, in the order of their codes.
    pub const ALL: [Self; 6] = [
        Self::Pdf,
        Self::LnPdf,
        Self::Cdf,
        Self::Sf,
        Self::LnCdf,
        Self::LnSf,
    ];

    /// Gives the function of a code; the last one for codes that none has, as the kernel does.
    #[must_use]
    pub fn from_code(code: u32) -> Self {
        Self::ALL
            .into_iter()
            .find(|function| *function as u32 == code)
            .unwrap_or(Self::LnSf)
    }
}

impl MatmulParams {
    /// Gives the parameters of a product `[rows, inner] · [inner, cols]`.
    #[must_use]
    pub fn new(rows: u32, inner: u32, cols: u32) -> Self {
        Self {
            rows,
            inner,
            cols,
            pad0: 0,
        }
    }

    /// Gives `[rows, inner, cols]` as sizes of host arrays.
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        [self.rows, self.inner, self.cols].map(|side| side as usize)
    }
}

impl PhiloxFillParams {
    /// Gives the parameters that write the first `n_words` words of `stream` under `key`.
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
    /// Gives the parameters that copy `n_vec4` vectors of four floats.
    #[must_use]
    pub fn new(n_vec4: u32) -> Self {
        Self {
            n_vec4,
            ..Self::default()
        }
    }
}

impl FmaPeakParams {
    /// Floating-point operations of one invocation in one round: 64 vectors of 4 lanes, 2 operations each.
    pub const OPERATIONS_PER_ROUND: u64 = 64 * 4 * 2;

    /// Gives the parameters of `n` invocations and `rounds` rounds of `x ← x / 2 + 1`, whose limit is 2.
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

impl InverseGaussianEvalParams {
    /// Gives the parameters that take `function` of the law with this mean and shape at `n` numbers.
    ///
    /// The constants are prepared in f64, and must lie in f32's range with room below for what their first parts leave:
    /// mean, shape and shape/mean² from 1e-30 to 1e30, shape/mean from 1e-12 to 1e12.
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
    /// Gives the parameters that make draws `draws` of `stream` under `key`, of the law with this mean and shape.
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

/// Splits into 12 leading bits and the rest, for `wgsl/shared/split.wgsl`.
fn head_and_rest(value: f64) -> [f32; 2] {
    let head = f32::from_bits(narrowed(value).to_bits() & 0xffff_f000);
    [head, narrowed(value - f64::from(head))]
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to f32 is what is asked for"
)]
fn narrowed(value: f64) -> f32 {
    value as f32
}

/// Splits a number into its low and high word, as WGSL holds it.
fn halves(value: u64) -> [u32; 2] {
    [(value & 0xFFFF_FFFF) as u32, (value >> 32) as u32]
}

fn area(rows: u32, cols: u32) -> u64 {
    u64::from(rows) * u64::from(cols)
}
