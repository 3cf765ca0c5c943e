//! Operations on the lanes of a row.
//!
//! Role: computes the operations of a chain that need no loop of their own.
//! Method: see `chain_loops`. The number of vectors in CPU registers depends on the instruction
//! set and on the number of lanes. `chunk` is long because it has a branch for each operation.

use pulp::{Simd, WithSimd};

use crate::exec::host::chain::Link;
use crate::exec::host::loops::View;
use crate::exec::host::vector::{FloatVector, Vector, load_vectors, vector_at, vector_lanes};
use crate::math::Chunks;
use crate::op::{Binary, Reduce, Unary};

/// Computes operations on the lanes of `value`.
#[inline(always)]
pub(super) fn fill<S: Simd, T: FloatVector + Chunks>(
    simd: S,
    value: View<'_, T>,
    links: &[Link<View<'_, T>>],
    out: &mut [T],
) {
    // The constants of functions are loaded at each call, which takes as long as an operation on
    // some hundred lanes. Loops without functions are therefore separate.
    if links.iter().any(Link::is_function) {
        simd.vectorize(Fill::<T, true> { value, links, out });
    } else {
        simd.vectorize(Fill::<T, false> { value, links, out });
    }
}

/// Operations on the lanes of `value`. `FUNCTIONS` is `true` if an operation is a function.
struct Fill<'a, T, const FUNCTIONS: bool> {
    value: View<'a, T>,
    links: &'a [Link<View<'a, T>>],
    out: &'a mut [T],
}

impl<T: FloatVector + Chunks, const FUNCTIONS: bool> WithSimd for Fill<'_, T, FUNCTIONS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // The vectors of the value stay in the registers of the CPU, with those that a function
        // needs, and the lanes fill these vectors.
        match self.out.len() / T::n_lanes::<S>() {
            0 => self.run::<S, 1>(simd),
            8.. if S::REGISTER_COUNT >= 32 => self.run::<S, 8>(simd),
            _ => self.run::<S, 4>(simd),
        }
    }
}

impl<T: FloatVector + Chunks, const FUNCTIONS: bool> Fill<'_, T, FUNCTIONS> {
    /// Computes all lanes, in chunks of `N` vectors.
    #[inline(always)]
    fn run<S: Simd, const N: usize>(self, simd: S) {
        let Self { value, links, out } = self;
        let width = T::n_lanes::<S>();
        let n = out.len();
        let mut done = 0;
        while done < n {
            // The last chunk ends with the last lane. It computes some lanes again, which is faster
            // than vectors that are not full.
            let at = n.saturating_sub(N * width).min(done);
            let x = chunk::<S, T, N, FUNCTIONS>(simd, value, links, at);
            if n >= N * width {
                let to = &mut out[at..][..N * width];
                for (to, x) in to.chunks_exact_mut(width).zip(x) {
                    to.copy_from_slice(vector_lanes::<S, T>(&x));
                }
            } else {
                // The copy keeps `x` itself in CPU registers.
                let copy = x;
                let lanes: &[T] = bytemuck::cast_slice(&copy);
                out.copy_from_slice(&lanes[..n]);
            }
            done = at + N * width;
        }
    }
}

/// Evaluates to an operand from a lane on, with `N` vectors of lanes: if the operand has fewer, a
/// copy with zeros after its end. The copy is a variable of the caller that has no value before, so
/// that nothing is written for other operands.
macro_rules! whole {
    ($simd:ident, $operand:expr, $at:expr, $copy:ident) => {{
        let n = N * T::n_lanes::<S>();
        match $operand {
            View::Uniform(x) => View::Uniform(x),
            View::Lanes(lanes) if lanes.len() >= $at + n => View::Lanes(&lanes[$at..$at + n]),
            View::Lanes(lanes) => {
                $copy = load_vectors::<S, T, N>($simd, lanes, $at);
                View::Lanes(bytemuck::cast_slice(&$copy))
            }
        }
    }};
}

/// Applies all operations to `N` vectors of lanes.
#[inline(always)]
fn chunk<S: Simd, T: FloatVector + Chunks, const N: usize, const FUNCTIONS: bool>(
    simd: S,
    value: View<'_, T>,
    links: &[Link<View<'_, T>>],
    at: usize,
) -> [T::Of<S>; N] {
    let mut x = match value {
        View::Uniform(x) => [T::splat(simd, x); N],
        View::Lanes(lanes) => load_vectors::<S, T, N>(simd, lanes, at),
    };
    macro_rules! each {
        (|$x:ident| $result:expr) => {
            for $x in &mut x {
                *$x = $result;
            }
        };
        // A number takes one CPU register. Vectors of lanes are loaded one by one.
        (|$x:ident, $y:ident| $result:expr, $operand:expr) => {
            match $operand {
                View::Uniform(number) => {
                    let $y = T::splat(simd, number);
                    for $x in &mut x {
                        *$x = $result;
                    }
                }
                View::Lanes(lanes) => {
                    let lanes = &lanes[..N * T::n_lanes::<S>()];
                    for (number, $x) in x.iter_mut().enumerate() {
                        let $y = vector_at::<S, T>(lanes, number);
                        *$x = $result;
                    }
                }
            }
        };
    }
    // The loop over the lanes of all vectors has a constant length, so the compiler turns it into
    // vector instructions. It runs on a copy: the address of `x` itself would keep `x` in memory.
    macro_rules! function {
        ($function:ident) => {{
            let mut copy = x;
            for lane in bytemuck::cast_slice_mut::<T::Of<S>, T>(&mut copy) {
                *lane = T::$function(*lane);
            }
            x = copy;
        }};
    }
    for &link in links {
        match link {
            Link::Unary(op) => match op {
                Unary::Neg => each!(|x| <T as FloatVector>::neg(simd, *x)),
                Unary::Abs => each!(|x| T::abs(simd, *x)),
                Unary::Sqrt => each!(|x| T::sqrt(simd, *x)),
                Unary::Recip => {
                    let one = T::splat(simd, T::identity(Reduce::Prod));
                    each!(|x| <T as FloatVector>::div(simd, one, *x));
                }
                Unary::Exp if FUNCTIONS => function!(exp),
                Unary::Ln if FUNCTIONS => function!(ln),
                Unary::Tanh if FUNCTIONS => function!(tanh),
                Unary::Sigmoid if FUNCTIONS => function!(sigmoid),
                _ => unreachable!("{op:?} has a loop of its own"),
            },
            Link::Binary(op, operand) => {
                let copy: [T::Of<S>; N];
                let y = whole!(simd, operand, at, copy);
                match op {
                    Binary::Add => each!(|x, y| <T as Vector>::add(simd, *x, y), y),
                    Binary::Sub => each!(|x, y| <T as FloatVector>::sub(simd, *x, y), y),
                    Binary::Mul => each!(|x, y| <T as Vector>::mul(simd, *x, y), y),
                    Binary::Div => each!(|x, y| <T as FloatVector>::div(simd, *x, y), y),
                    // A comparison with a number that is not NaN takes fewer instructions.
                    Binary::Maximum if is_number(operand) => {
                        each!(|x, y| T::at_least(simd, *x, y), y);
                    }
                    Binary::Minimum if is_number(operand) => {
                        each!(|x, y| T::at_most(simd, *x, y), y);
                    }
                    Binary::Maximum => each!(|x, y| T::larger(simd, *x, y), y),
                    Binary::Minimum => each!(|x, y| T::smaller(simd, *x, y), y),
                    _ => unreachable!("{op:?} is not supported by chains"),
                }
            }
            Link::Swapped(op, operand) => {
                let copy: [T::Of<S>; N];
                let y = whole!(simd, operand, at, copy);
                match op {
                    Binary::Add => each!(|x, y| <T as Vector>::add(simd, y, *x), y),
                    Binary::Sub => each!(|x, y| <T as FloatVector>::sub(simd, y, *x), y),
                    Binary::Mul => each!(|x, y| <T as Vector>::mul(simd, y, *x), y),
                    Binary::Div => each!(|x, y| <T as FloatVector>::div(simd, y, *x), y),
                    Binary::Maximum => each!(|x, y| T::larger(simd, y, *x), y),
                    Binary::Minimum => each!(|x, y| T::smaller(simd, y, *x), y),
                    _ => unreachable!("{op:?} is not supported by chains"),
                }
            }
            Link::Twice(op) => match op {
                Binary::Add => each!(|x| <T as Vector>::add(simd, *x, *x)),
                Binary::Sub => each!(|x| <T as FloatVector>::sub(simd, *x, *x)),
                Binary::Mul => each!(|x| <T as Vector>::mul(simd, *x, *x)),
                Binary::Div => each!(|x| <T as FloatVector>::div(simd, *x, *x)),
                // The extreme of a number and itself is that number.
                Binary::Maximum | Binary::Minimum => {}
                _ => unreachable!("{op:?} is not supported by chains"),
            },
        }
    }
    x
}

/// Returns whether an operand is one number for all lanes, and not NaN.
#[inline(always)]
#[allow(clippy::eq_op, reason = "only NaN differs from itself")]
fn is_number<T: FloatVector>(operand: View<'_, T>) -> bool {
    matches!(operand, View::Uniform(x) if x == x)
}
