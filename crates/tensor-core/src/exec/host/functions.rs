//! Loops over elementary functions, each dispatched by itself.
//!
//! Method: the loop over a function has to inline the function, so that the function is compiled
//! for the CPU's vector instructions. The functions are long. Inside the interpreter's `match` the
//! compiler inlines some of them, and leaves calls of the others, which then run one lane at a time
//! with the instructions of every CPU. Here each loop is dispatched by itself, in a closure that is
//! marked for inlining. `for` is used instead of `for_each`: the compiler does not inline the
//! latter around a long closure.

use super::loops::View;
use crate::Float;
use crate::level::Level;
use crate::math::{CHUNK, Chunks};
use crate::op::Unary;

/// Returns whether an operation is an elementary function.
#[inline(always)]
pub(super) fn has(op: Unary) -> bool {
    use Unary::{Cos, Erf, Erfc, Exp, Ln, Sigmoid, Sin, Tanh};
    matches!(op, Cos | Erf | Erfc | Exp | Ln | Sigmoid | Sin | Tanh)
}

/// Computes `d[i] = op(a[i])` for an elementary function `op`.
pub(super) fn unary<T: Chunks>(level: Level, op: Unary, d: &mut [T], a: &[T]) {
    /// Runs the loop over a function of `Math`.
    macro_rules! each {
        ($function:ident) => {
            level.dispatch(
                #[inline(always)]
                || {
                    for (d, &a) in d.iter_mut().zip(a) {
                        *d = T::$function(a);
                    }
                },
            )
        };
    }
    /// Runs the loop over a function of `Chunks`.
    macro_rules! each_chunk {
        ($function:ident) => {{
            let a = Chunked::new(View::Lanes(a));
            level.dispatch(
                #[inline(always)]
                || {
                    for_chunks(
                        d,
                        #[inline(always)]
                        |number, d| T::$function(a.chunk(number), d),
                    );
                },
            )
        }};
    }
    match op {
        Unary::Exp => each!(exp),
        Unary::Ln => each!(ln),
        Unary::Sin => each_chunk!(sin_chunk),
        Unary::Cos => each_chunk!(cos_chunk),
        Unary::Tanh => each!(tanh),
        Unary::Sigmoid => each!(sigmoid),
        Unary::Erf => each!(erf),
        Unary::Erfc => each!(erfc),
        _ => unreachable!("{op:?} is not an elementary function"),
    }
}

/// Computes `d[i] = a[i]` to the power of `b[i]`.
pub(super) fn pow<T: Chunks>(level: Level, d: &mut [T], a: View<'_, T>, b: View<'_, T>) {
    let (a, b) = (Chunked::new(a), Chunked::new(b));
    level.dispatch(
        #[inline(always)]
        || {
            for_chunks(
                d,
                #[inline(always)]
                |number, d| T::pow_chunk(a.chunk(number), b.chunk(number), d),
            );
        },
    );
}

/// Calls `f(number, chunk)` for each chunk of `d`. The lanes of the last chunk beyond the end of
/// `d` are computed and dropped, so that `f` is compiled once.
#[inline(always)]
fn for_chunks<T: Float>(d: &mut [T], f: impl Fn(usize, &mut [T; CHUNK])) {
    let n_chunks = d.len().div_ceil(CHUNK);
    let (whole, rest) = d.as_chunks_mut();
    let mut last = [T::ONE; CHUNK];
    for number in 0..n_chunks {
        f(number, whole.get_mut(number).unwrap_or(&mut last));
    }
    rest.copy_from_slice(&last[..rest.len()]);
}

/// An operand in chunks.
struct Chunked<'a, T> {
    whole: &'a [[T; CHUNK]],
    /// The chunk after the whole ones. The lanes beyond the operand's end are 1, an argument that
    /// is usual for all functions.
    last: [T; CHUNK],
}

impl<'a, T: Float> Chunked<'a, T> {
    fn new(operand: View<'a, T>) -> Self {
        match operand {
            View::Lanes(lanes) => {
                let (whole, rest) = lanes.as_chunks();
                let mut last = [T::ONE; CHUNK];
                last[..rest.len()].copy_from_slice(rest);
                Self { whole, last }
            }
            View::Uniform(value) => Self {
                whole: &[],
                last: [value; CHUNK],
            },
        }
    }

    #[inline(always)]
    fn chunk(&self, number: usize) -> &[T; CHUNK] {
        self.whole.get(number).unwrap_or(&self.last)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::exec::host::lanes::LaneType;
    use crate::op::Rounding;

    /// The number of arguments.
    const LEN: usize = 1000;

    /// Returns numbers between 0 and 11, and, after the first chunks, rare arguments among them.
    fn arguments<T>(from_f64: fn(f64) -> T) -> Vec<T> {
        #[rustfmt::skip]
        const RARE: [f64; 12] = [
            0.0, -0.0, -1.5, -2.0, -3.0, 1e-40, 1e-310, 1e20, 1e300, f64::INFINITY,
            f64::NEG_INFINITY, f64::NAN,
        ];
        let number = |i: usize| {
            if i > 3 * CHUNK && i.is_multiple_of(53) {
                RARE[i / 53 % RARE.len()]
            } else {
                (i * 7919 % 1009) as f64 / 97.0 + 0.01
            }
        };
        (0..LEN).map(number).map(from_f64).collect()
    }

    /// Asserts that `run` computes the same lanes at every level, and alone as well as next to
    /// others. The range of `run` selects the lanes.
    fn assert_lanes_agree<T: LaneType + Float>(
        name: &str,
        run: impl Fn(Level, Range<usize>, &mut [T]),
    ) {
        // All NaN are equal.
        let bits = |x: T| {
            if x.to_f64().is_nan() {
                f64::NAN
            } else {
                x.to_f64()
            }
            .to_bits()
        };
        let compute = |level, range: Range<usize>| {
            let mut lanes = vec![T::ZERO; range.len()];
            run(level, range, &mut lanes);
            lanes.into_iter().map(bits).collect::<Vec<u64>>()
        };
        let levels = Level::all();
        let baseline = levels[0].1.expect("every CPU has the baseline");
        let expected: Vec<u64> = (0..LEN).flat_map(|i| compute(baseline, i..i + 1)).collect();
        for (level, available) in levels {
            let Some(available) = available else { continue };
            for range in [0..CHUNK - 1, 0..CHUNK, 3..CHUNK + 4, 0..LEN, 990..LEN, 7..7] {
                let actual = compute(available, range.clone());
                assert_eq!(actual, expected[range], "{name} with {level}");
            }
        }
    }

    /// Tests all functions of a type.
    fn assert_functions_agree<T: LaneType + Chunks>(from_f64: fn(f64) -> T) {
        let x = arguments(from_f64);
        let y: Vec<T> = x.iter().rev().copied().collect();
        for op in Unary::ALL {
            if op.rounding() == Rounding::Function {
                assert_lanes_agree(op.name(), |level, range, d| unary(level, op, d, &x[range]));
            }
        }
        assert_lanes_agree("pow", |level, range, d| {
            let exponents = View::Lanes(&y[range.clone()]);
            pow(level, d, View::Lanes(&x[range]), exponents);
        });
        for number in [2.5, -1.0, 0.0, f64::NAN].map(from_f64) {
            assert_lanes_agree("pow with one exponent", |level, range, d| {
                pow(level, d, View::Lanes(&x[range]), View::Uniform(number));
            });
            assert_lanes_agree("pow with one base", |level, range, d| {
                pow(level, d, View::Uniform(number), View::Lanes(&y[range]));
            });
        }
    }

    #[test]
    fn functions_have_the_same_bits_at_every_level_and_in_every_chunk() {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "numbers beyond the range of f32 become 0 or infinite"
        )]
        assert_functions_agree(|x| x as f32);
        assert_functions_agree(|x| x);
    }
}
