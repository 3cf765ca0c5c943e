//! The interface in which derivatives are written.
//!
//! Role: each derivative is written once and evaluated on two types: on tensors by
//! [`grad`](crate::grad()), and on numbers by the tests of this module, which compare it with
//! finite differences.

use super::{Binary, Compare, Reduce, Unary};

/// Numbers, or tensors of one type and shape.
pub(crate) trait Calculus: Clone {
    /// Creates a constant of the type and shape of `self`.
    fn number(&self, value: f64) -> Self;
    /// Applies a unary operation.
    fn unary(&self, op: Unary) -> Self;
    /// Applies a binary operation.
    fn binary(&self, op: Binary, other: &Self) -> Self;
    /// Returns `yes` where `a op b` holds, else `no`.
    fn choose(op: Compare, a: &Self, b: &Self, yes: &Self, no: &Self) -> Self;
    /// Folds the axes of the reduction, and repeats the result along these axes.
    fn folded(&self, op: Reduce) -> Self;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Scalar;

    /// A vector of numbers, along which reductions fold.
    #[derive(Clone, Debug)]
    struct Vector(Vec<f64>);

    impl Vector {
        fn map(&self, f: impl Fn(f64) -> f64) -> Self {
            Self(self.0.iter().map(|&x| f(x)).collect())
        }

        fn zip(&self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Self {
            Self(
                self.0
                    .iter()
                    .zip(&other.0)
                    .map(|(&a, &b)| f(a, b))
                    .collect(),
            )
        }
    }

    fn unary(op: Unary, x: f64) -> f64 {
        op.eval(Scalar::F64(x)).to_f64()
    }

    fn binary(op: Binary, a: f64, b: f64) -> f64 {
        op.eval(Scalar::F64(a), Scalar::F64(b)).to_f64()
    }

    impl Calculus for Vector {
        fn number(&self, value: f64) -> Self {
            self.map(|_| value)
        }
        fn unary(&self, op: Unary) -> Self {
            self.map(|x| unary(op, x))
        }
        fn binary(&self, op: Binary, other: &Self) -> Self {
            self.zip(other, |a, b| binary(op, a, b))
        }
        fn choose(op: Compare, a: &Self, b: &Self, yes: &Self, no: &Self) -> Self {
            let holds = a.zip(b, |a, b| f64::from(op.eval(Scalar::F64(a), Scalar::F64(b))));
            let choices = yes.0.iter().zip(&no.0);
            let chosen = holds.0.iter().zip(choices);
            Self(
                chosen
                    .map(|(&holds, (&yes, &no))| if holds == 1.0 { yes } else { no })
                    .collect(),
            )
        }
        fn folded(&self, op: Reduce) -> Self {
            let total = self
                .0
                .iter()
                .copied()
                .reduce(|a, b| binary(op.binary(), a, b));
            self.number(total.unwrap_or_default())
        }
    }

    /// Returns the derivative of `f` at `x` by a central difference.
    fn slope(x: f64, f: impl Fn(f64) -> f64) -> f64 {
        const STEP: f64 = 1.0 / 4096.0 / 16.0;
        (f(x + STEP) - f(x - STEP)) / (2.0 * STEP)
    }

    #[track_caller]
    fn assert_near(actual: f64, expected: f64, what: &str) {
        let bound = 1e-6 * (1.0 + expected.abs());
        assert!(
            (actual - expected).abs() < bound,
            "{what}: {actual}, by finite differences {expected}"
        );
    }

    /// Arguments at which every tested operation is differentiable: no corners, ties or steps.
    const PLACES: [f64; 6] = [0.31, 0.73, 1.17, 1.9, 2.43, 3.3];

    #[test]
    fn derivatives_of_one_argument_are_the_slopes() {
        for op in Unary::ALL
            .into_iter()
            .filter(|op| op.accepts(crate::DType::F64) && *op != Unary::IsNan)
        {
            let has_negative = !matches!(op, Unary::Sqrt | Unary::Ln);
            for x in PLACES
                .into_iter()
                .flat_map(|x| [x, if has_negative { -x } else { x }])
            {
                let line = Vector(vec![x]);
                let derivative = op
                    .derivative(&line, &line.unary(op))
                    .map_or(0.0, |d| d.0[0]);
                assert_near(
                    derivative,
                    slope(x, |x| unary(op, x)),
                    &format!("{} at {x}", op.name()),
                );
            }
        }
    }

    #[test]
    fn derivatives_of_two_arguments_are_the_slopes() {
        let differentiable = |op: &Binary| op.accepts(crate::DType::F64);
        for op in Binary::ALL.into_iter().filter(differentiable) {
            for (a, b) in PLACES
                .into_iter()
                .flat_map(|a| [0.51, 1.13, -2.29].map(|b| (a, b)))
            {
                let (x, y) = (Vector(vec![a]), Vector(vec![b]));
                let [by_a, by_b] = op.derivatives(&x, &y, &x.binary(op, &y));
                let what = format!("{} at {a}, {b}", op.name());
                assert_near(
                    by_a.map_or(0.0, |d| d.0[0]),
                    slope(a, |a| binary(op, a, b)),
                    &what,
                );
                assert_near(
                    by_b.map_or(0.0, |d| d.0[0]),
                    slope(b, |b| binary(op, a, b)),
                    &what,
                );
            }
        }
    }

    /// Returns the derivative of a reduction, divided among the elements that share it.
    fn shared(op: Reduce, x: &Vector) -> Vector {
        let derivative = op.derivative(x, &x.folded(op)).unwrap();
        if derivative.is_shared {
            let n_sharing = derivative.slope.folded(Reduce::Sum);
            derivative.slope.binary(Binary::Div, &n_sharing)
        } else {
            derivative.slope
        }
    }

    #[test]
    fn derivatives_of_reductions_are_the_slopes() {
        for op in [Reduce::Sum, Reduce::Prod, Reduce::Max, Reduce::Min] {
            for line in [
                vec![0.5, -1.3, 2.0],
                vec![0.0, -1.3, 2.0],
                vec![0.0, 0.0, 2.0],
                vec![1.5],
            ] {
                let ties = line.windows(2).any(|pair| pair[0] == pair[1]);
                if ties && op != Reduce::Prod && op != Reduce::Sum {
                    continue;
                }
                let x = Vector(line.clone());
                let derivative = shared(op, &x);
                for at in 0..line.len() {
                    let moved = |value: f64| {
                        let mut line = line.clone();
                        line[at] = value;
                        Vector(line).folded(op).0[0]
                    };
                    assert_near(
                        derivative.0[at],
                        slope(line[at], moved),
                        &format!("{} of {line:?}", op.name()),
                    );
                }
            }
        }
    }

    #[test]
    fn corners_and_ties_are_shared_as_documented() {
        let line = |x: f64| Vector(vec![x]);
        assert_eq!(
            Unary::Abs.derivative(&line(0.0), &line(0.0)).unwrap().0,
            [0.0]
        );
        let halves = Binary::Maximum.derivatives(&line(2.0), &line(2.0), &line(2.0));
        assert!(halves.into_iter().all(|half| half.unwrap().0 == [0.5]));
        let tied = Vector(vec![3.0, 1.0, 3.0]);
        assert_eq!(shared(Reduce::Max, &tied).0, [0.5, 0.0, 0.5]);
        let [by_a, by_b] = Binary::Pow.derivatives(&line(0.0), &line(0.0), &line(1.0));
        assert_eq!((by_a.unwrap().0, by_b.unwrap().0), (vec![0.0], vec![0.0]));
    }
}
