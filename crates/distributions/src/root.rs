//! Root finding for functions that change sign within a bracket.

/// Returns the point of the bracket `[low, high]` at which `f` changes sign, to the last bits.
///
/// `f(low)` and `f(high)` must have different signs, or one of them must be 0. At a jump of `f` the
/// result is the position of the jump.
///
/// Method: the Illinois variant of the false-position method. Every third step, and every step
/// whose secant point is outside the bracket, bisects instead, which limits the number of steps.
/// Cost: about 20 evaluations for a smooth function, at most 202.
/// Source: Dowell and Jarratt 1971, "A modified regula falsi method for computing the root of an
/// equation".
pub(crate) fn bracketed(f: impl Fn(f64) -> f64, low: f64, high: f64) -> f64 {
    const MAX_STEPS: u32 = 200;
    let (mut a, mut b) = (low, high);
    let (mut f_a, mut f_b) = (f(a), f(b));
    for step in 0..MAX_STEPS {
        // The search ends at an exact root, or when no number is left between the ends.
        let middle = a + 0.5 * (b - a);
        if f_a == 0.0 || f_b == 0.0 || middle == a || middle == b {
            break;
        }
        let secant = b - f_b * ((b - a) / (f_b - f_a));
        let is_inside = (a < secant && secant < b) || (b < secant && secant < a);
        // Every third step halves the bracket, for any shape of the function.
        let c = if is_inside && step % 3 != 2 {
            secant
        } else {
            middle
        };
        let f_c = f(c);
        // Illinois: if the same end moves again, halve the value at the other end, so that the next
        // secant point is nearer to that end.
        if (f_c > 0.0) == (f_b > 0.0) {
            f_a *= 0.5;
        } else {
            (a, f_a) = (b, f_b);
        }
        (b, f_b) = (c, f_c);
    }
    if f_a == 0.0 { a } else { b }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::bracketed;
    use tensor_core::compare::{Tolerance, assert_close};

    #[test]
    fn roots_are_found_to_the_last_bits() {
        let roots = [
            bracketed(|x| x * x - 2.0, 0.0, 2.0),
            bracketed(|x| x.exp() - 2.0, -50.0, 50.0),
            bracketed(|x: f64| (x - 1.0).powi(9), 0.0, 3.0),
        ];
        assert_close(
            &roots[..2],
            [2_f64.sqrt(), 2_f64.ln()],
            Tolerance::relative(2),
        );
        assert_close(&roots[2..], [1.0], Tolerance::relative(1).or_absolute(1e-9));
        let jump = bracketed(|x| if x < 0.3 { -1.0 } else { 5.0 }, 0.0, 1.0);
        assert_close([jump], [0.3], Tolerance::relative(2));
    }

    #[test]
    fn a_search_ends_as_soon_as_the_bracket_holds_no_further_number() {
        let evaluations = |f: fn(f64) -> f64, low, high| {
            let n_calls = Cell::new(0);
            let counted = |x| {
                n_calls.set(n_calls.get() + 1);
                f(x)
            };
            bracketed(counted, low, high);
            n_calls.get()
        };
        // A root that is an f64, a root between two of them, and a root at the start.
        assert!(evaluations(|x| x * x * x - 8.0, 0.0, 5.0) <= 28);
        assert!(evaluations(|x| x.exp() - 2.0, 0.0, 2.0) <= 28);
        assert_eq!(evaluations(|x| x, 0.0, 2.0), 2);
        // A jump is found by bisection alone.
        assert!(evaluations(|x| if x < 0.3 { -1.0 } else { 5.0 }, 0.0, 1.0) <= 70);
    }
}
