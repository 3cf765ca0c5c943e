//! Loops over elementary functions, each dispatched by itself.
//!
//! Method: the loop over a function has to inline the function, so that the function is compiled
//! for the CPU's vector instructions. The functions are long. Inside the interpreter's `match` the
//! compiler inlines some of them, and leaves calls of the others, which then run one lane at a time
//! with the instructions of every CPU. Here each loop is dispatched by itself, in a closure that is
//! marked for inlining. `for` is used instead of `for_each`: the compiler does not inline the
//! latter around a long closure.

use super::level::Level;
use super::loops::View;
use crate::math::Math;
use crate::op::Unary;

/// Computes `d[i] = op(a[i])` for an elementary function `op`.
pub(super) fn unary<T: Math>(level: Level, op: Unary, d: &mut [T], a: &[T]) {
    /// Runs the loop over a function of [`Math`].
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
    match op {
        Unary::Exp => each!(exp),
        Unary::Ln => each!(ln),
        Unary::Sin => each!(sin),
        Unary::Cos => each!(cos),
        Unary::Tanh => each!(tanh),
        Unary::Sigmoid => each!(sigmoid),
        Unary::Erf => each!(erf),
        Unary::Erfc => each!(erfc),
        _ => unreachable!("{op:?} is not an elementary function"),
    }
}

/// Computes `d[i] = a[i]` to the power of `b[i]`.
pub(super) fn pow<T: Math>(level: Level, d: &mut [T], a: View<'_, T>, b: View<'_, T>) {
    level.dispatch(
        #[inline(always)]
        || match (a, b) {
            (View::Lanes(a), View::Lanes(b)) => {
                for ((d, &a), &b) in d.iter_mut().zip(a).zip(b) {
                    *d = T::pow(a, b);
                }
            }
            (View::Lanes(a), View::Uniform(b)) => {
                for (d, &a) in d.iter_mut().zip(a) {
                    *d = T::pow(a, b);
                }
            }
            (View::Uniform(a), View::Lanes(b)) => {
                for (d, &b) in d.iter_mut().zip(b) {
                    *d = T::pow(a, b);
                }
            }
            (View::Uniform(_), View::Uniform(_)) => {
                unreachable!("a uniform value is computed as one lane")
            }
        },
    );
}
