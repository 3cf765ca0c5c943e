//! Evaluation of a function at one number or at each element of a slice, with the SIMD instructions
//! of the CPU.
//!
//! Role: selects code for the CPU at run time; no other module does. The baseline of x86-64 has no
//! fused multiply-add, which would be a slow library call. A single number is therefore dispatched
//! in the same way as a slice. Both run the same operations and yield the same bits.

use crate::Error;
use std::sync::LazyLock;

/// The instruction sets of this CPU, detected once.
static ARCH: LazyLock<pulp::Arch> = LazyLock::new(pulp::Arch::new);

/// The number of elements that a thread processes at a time: about ten microseconds of work, which
/// is long compared with the overhead of a task.
#[cfg(feature = "rayon")]
pub(crate) const PIECE: usize = 4096;

/// An element type of slices, `f32` or `f64`. All functions compute in f64.
pub trait Real: Copy + Send + Sync + sealed::Sealed {
    /// Converts the number to f64.
    fn widened(self) -> f64;
    /// Rounds `x` to the nearest number of this type.
    fn narrowed(x: f64) -> Self;
}

/// Prevents implementations of [`Real`] outside this crate.
mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

impl Real for f64 {
    #[inline(always)]
    fn widened(self) -> f64 {
        self
    }

    #[inline(always)]
    fn narrowed(x: f64) -> Self {
        x
    }
}

impl Real for f32 {
    #[inline(always)]
    fn widened(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "rounding to f32 is the purpose"
    )]
    fn narrowed(x: f64) -> Self {
        x as Self
    }
}

/// A function of one number that the compiler can vectorize: without branches and calls.
///
/// Implementors mark the method `#[inline(always)]`. A closure of this size is not always inlined,
/// and would then be compiled without SIMD.
pub(crate) trait LaneFunction: Copy + Sync {
    /// Returns the value at `x`.
    fn at(&self, x: f64) -> f64;
}

/// Returns `f(x)`.
pub(crate) fn eval(f: impl LaneFunction, x: f64) -> f64 {
    run(One { f, x })
}

/// Writes `f(x)` for each `x` of `xs` into `out`, which must have the same length. `operation` is
/// the name in the error.
pub(crate) fn eval_slice<T: Real>(
    operation: &'static str,
    f: impl LaneFunction,
    xs: &[T],
    out: &mut [T],
) -> Result<(), Error> {
    check(operation, xs, out)?;
    run(Each { f, xs, out });
    Ok(())
}

/// Writes `f(x)` for each `x` of `xs` into `out`, which must have the same length, on all threads
/// of the current `rayon` pool.
#[cfg(feature = "rayon")]
pub(crate) fn par_each<T: Real>(
    operation: &'static str,
    f: impl LaneFunction,
    xs: &[T],
    out: &mut [T],
) -> Result<(), Error> {
    use rayon::prelude::*;
    check(operation, xs, out)?;
    let pieces = xs.par_chunks(PIECE).zip(out.par_chunks_mut(PIECE));
    pieces.for_each(|(xs, out)| run(Each { f, xs, out }));
    Ok(())
}

/// Checks that input and output have the same length.
pub(crate) fn check<T>(operation: &'static str, xs: &[T], out: &[T]) -> Result<(), Error> {
    if xs.len() == out.len() {
        Ok(())
    } else {
        Err(Error::LengthMismatch {
            operation,
            input: xs.len(),
            output: out.len(),
        })
    }
}

/// Runs `work`, compiled with the SIMD instructions that the CPU supports.
pub(crate) fn run<W: pulp::NullaryFnOnce>(work: W) -> W::Output {
    ARCH.dispatch(work)
}

/// The evaluation of `f` at `x`, in the form that `pulp` dispatches.
struct One<F> {
    f: F,
    x: f64,
}

impl<F: LaneFunction> pulp::NullaryFnOnce for One<F> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        self.f.at(self.x)
    }
}

/// The evaluation of `f` at each element of `xs`, in the form that `pulp` dispatches.
struct Each<'a, F, T> {
    f: F,
    xs: &'a [T],
    out: &'a mut [T],
}

impl<F: LaneFunction, T: Real> pulp::NullaryFnOnce for Each<'_, F, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        // The compiler vectorizes this loop, because `at` is inlined and has no branches.
        for (out, &x) in self.out.iter_mut().zip(self.xs) {
            *out = T::narrowed(self.f.at(x.widened()));
        }
    }
}
