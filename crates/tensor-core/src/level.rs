//! The instruction sets that the loops are compiled for.
//!
//! Role: the only place that chooses vector instructions. Every loop, in plain Rust or over
//! explicit vectors, is compiled once for each instruction set (a level). A machine stores the
//! level at which its loops run.
//! Method: `pulp` detects the features of the CPU. It has no level with the AVX-512 instruction
//! that counts the ones of words (VPOPCNTDQ), so its macro creates one here. Only the loops that
//! count ones are compiled for that level; all others run on plain AVX-512.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::dtype::DType;

/// Set if this process uses the baseline only.
static IS_RESTRICTED: AtomicBool = AtomicBool::new(false);

/// An instruction set of the CPU, which loops in plain Rust are compiled for.
///
/// # Examples
/// ```
/// use tensor_core::exec::Level;
///
/// let mut ones = 0;
/// // The argument is true if the CPU counts the ones of words in vectors.
/// Level::best().dispatch_count(|_by_words| ones = [7_u32, 1].map(u32::count_ones).iter().sum());
/// assert_eq!(ones, 4);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Level {
    #[cfg_attr(
        target_arch = "wasm32",
        expect(dead_code, reason = "a browser has a single level")
    )]
    arch: pulp::Arch,
    /// Set if the loops that count ones may use the instruction that counts the ones of words.
    #[cfg(target_arch = "x86_64")]
    popcount: Option<Popcount>,
}

/// A closure that `pulp` inlines into code for a level. The call goes through `FnMut`, because the
/// shim of `FnOnce` is not inlined and would run narrow code.
struct Wide<F>(F);

impl<F: FnMut()> pulp::WithSimd for Wide<F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(mut self, _: S) {
        (self.0)();
    }
}

/// A function for `pulp` that returns the number of lanes of a vector of a type.
struct LaneCount(DType);

impl pulp::WithSimd for LaneCount {
    type Output = usize;

    fn with_simd<S: pulp::Simd>(self, _: S) -> usize {
        match self.0 {
            DType::F64 => S::F64_LANES,
            _ => S::F32_LANES,
        }
    }
}

impl Level {
    /// Returns the best level of the CPU, or the baseline after
    /// [`restrict_to_baseline`](Self::restrict_to_baseline).
    #[must_use]
    pub fn best() -> Self {
        if Self::is_restricted() {
            return Self::baseline();
        }
        Self {
            arch: pulp::Arch::new(),
            #[cfg(target_arch = "x86_64")]
            popcount: Popcount::try_new(),
        }
    }

    /// Returns the level that all CPUs of the architecture have.
    fn baseline() -> Self {
        Self {
            arch: pulp::Arch::Scalar,
            #[cfg(target_arch = "x86_64")]
            popcount: None,
        }
    }

    /// Restricts this process to instructions that all CPUs of the architecture have, and products
    /// of matrices to the loops of this crate: the GEMM library has an order of sums for each kind
    /// of CPU. Then [`Host`](crate::Host) computes the same bits on all CPUs of an architecture.
    ///
    /// Call this function before the first computation. Products of large matrices then take
    /// several times as long.
    pub fn restrict_to_baseline() {
        IS_RESTRICTED.store(true, Ordering::Relaxed);
    }

    /// Returns whether this process is restricted to the baseline.
    #[must_use]
    pub fn is_restricted() -> bool {
        IS_RESTRICTED.load(Ordering::Relaxed)
    }

    /// Returns every level of the architecture with its name, the lowest first; `None` for a
    /// level that the CPU does not support.
    #[must_use]
    pub fn all() -> Vec<(&'static str, Option<Self>)> {
        let plain = |arch| Self {
            arch,
            #[cfg(target_arch = "x86_64")]
            popcount: None,
        };
        #[cfg(target_arch = "x86_64")]
        let levels = {
            use pulp::x86::{V3, V4};
            let counts = Popcount::try_new();
            vec![
                ("baseline", Some(Self::baseline())),
                ("AVX2", V3::try_new().map(|v3| plain(pulp::Arch::V3(v3)))),
                ("AVX-512", V4::try_new().map(|v4| plain(pulp::Arch::V4(v4)))),
                (
                    "AVX-512 VPOPCNTDQ",
                    V4::try_new().zip(counts).map(|(v4, counts)| Self {
                        arch: pulp::Arch::V4(v4),
                        popcount: Some(counts),
                    }),
                ),
            ]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let levels = vec![
            ("baseline", Some(Self::baseline())),
            ("widest vectors", Some(plain(pulp::Arch::new()))),
        ];
        levels
    }

    /// Runs loops that are compiled for the level.
    #[inline(always)]
    pub(crate) fn dispatch(self, loops: impl FnMut()) {
        self.run(Wide(loops));
    }

    /// Runs loops over explicit vectors of the level.
    #[inline(always)]
    pub(crate) fn run<O: pulp::WithSimd>(self, loops: O) -> O::Output {
        // LLVM 22 fails to compile pulp's vectors for WebAssembly ("cannot select setcc").
        #[cfg(target_arch = "wasm32")]
        return loops.with_simd(pulp::Scalar::new());
        #[cfg(not(target_arch = "wasm32"))]
        self.arch.dispatch(loops)
    }

    /// Returns whether one instruction of the level counts the ones of each word of a vector.
    pub(crate) fn counts_words(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.popcount.is_some();
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Runs loops over explicit vectors, compiled for the instruction that counts the ones of
    /// words.
    ///
    /// # Panics
    /// If the level does not have the instruction ([`counts_words`](Self::counts_words)).
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(unused_variables, reason = "no other architecture has the instruction")
    )]
    pub(crate) fn run_counting_words<O: pulp::WithSimd<Output = ()>>(self, loops: O) {
        #[cfg(target_arch = "x86_64")]
        if let (Some(popcount), pulp::Arch::V4(v4)) = (self.popcount, self.arch) {
            return popcount.vectorize(OnV4(v4, loops));
        }
        unreachable!("the level counts the ones of words");
    }

    /// Returns the number of lanes of a vector of a type.
    pub(crate) fn n_lanes(self, dtype: DType) -> usize {
        self.run(LaneCount(dtype))
    }

    /// Runs loops that count ones. The argument of `loops` is true if one instruction of the level
    /// counts the ones of each word; it is a constant in the code for each level.
    #[inline(always)]
    pub fn dispatch_count(self, mut loops: impl FnMut(bool)) {
        #[cfg(target_arch = "x86_64")]
        if let Some(popcount) = self.popcount {
            return popcount.vectorize(ByWords(loops));
        }
        self.dispatch(
            #[inline(always)]
            || loops(false),
        );
    }
}

#[cfg(target_arch = "x86_64")]
pulp::simd_type! {
    /// The features of `pulp`'s AVX-512 level, and the instruction that counts the ones of words.
    struct Popcount {
        sse: "sse",
        sse2: "sse2",
        fxsr: "fxsr",
        sse3: "sse3",
        ssse3: "ssse3",
        sse4_1: "sse4.1",
        sse4_2: "sse4.2",
        popcnt: "popcnt",
        avx: "avx",
        avx2: "avx2",
        bmi1: "bmi1",
        bmi2: "bmi2",
        fma: "fma",
        lzcnt: "lzcnt",
        avx512f: "avx512f",
        avx512bw: "avx512bw",
        avx512cd: "avx512cd",
        avx512dq: "avx512dq",
        avx512vl: "avx512vl",
        avx512vpopcntdq: "avx512vpopcntdq",
    }
}

/// A closure that counts ones by words, in the form that the macro's level calls.
#[cfg(target_arch = "x86_64")]
struct ByWords<F>(F);

#[cfg(target_arch = "x86_64")]
impl<F: FnMut(bool)> pulp::NullaryFnOnce for ByWords<F> {
    type Output = ();

    #[inline(always)]
    fn call(mut self) {
        (self.0)(true);
    }
}

/// Loops over AVX-512 vectors, in the form that the macro's level calls.
#[cfg(target_arch = "x86_64")]
struct OnV4<O>(pulp::x86::V4, O);

#[cfg(target_arch = "x86_64")]
impl<O: pulp::WithSimd<Output = ()>> pulp::NullaryFnOnce for OnV4<O> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.1.with_simd(self.0);
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "x86_64")]
    mod x86_64 {
        use super::super::Level;
        use crate::dtype::DType;

        #[test]
        fn the_best_level_uses_all_that_the_cpu_has() {
            // The features that compilers call x86-64-v3 and -v4, as far as pulp uses them.
            let has_v3 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt");
            let has_v4 = has_v3
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512cd")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            let widest = if has_v4 {
                16
            } else if has_v3 {
                8
            } else {
                1
            };
            assert_eq!(Level::best().n_lanes(DType::F32), widest);
            let has_popcount = has_v4 && is_x86_feature_detected!("avx512vpopcntdq");
            let mut by_words = None;
            Level::best().dispatch_count(|words| by_words = Some(words));
            assert_eq!(by_words, Some(has_popcount));
        }
    }
}
