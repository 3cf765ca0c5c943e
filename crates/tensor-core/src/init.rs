//! Initial values of weights, scaled so that the variance of signals is similar in all layers.
//!
//! Role: uniform and normal random weights by the rules of Glorot and of He. Biases usually start
//! at zero, with [`Tensor::zeros`].
//! Method: [`Tensor::rand`] and [`Tensor::randn`] times a scale. A stream therefore always produces
//! the same weights; their type is `f32` (use [`cast`](Tensor::cast) for `f64`), and they take no
//! memory before they are realized. Use a separate [`stream`](Philox::stream) for each weight,
//! because two weights from one stream contain the same numbers.
//! Shapes: `fan_in` is the number of inputs that contribute to one output of a layer, and `fan_out`
//! the number of outputs to which one input contributes. They cannot be derived from the shape, so
//! the caller passes them: `inputs` and `outputs` for a dense layer, in either order of the axes;
//! `in · kh · kw` and `out · kh · kw` for a convolution with windows of `kh` by `kw`. A fan of 0
//! counts as 1.
//! Source: Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward
//! neural networks", AISTATS, equations 12 and 16; He, Zhang, Ren and Sun 2015, "Delving deep into
//! rectifiers", ICCV, equation 10.

use crate::rng::Philox;
use crate::tensor::Tensor;

/// Creates uniform weights of variance `2 / (fan_in + fan_out)`: in [-b, b) with `b = sqrt(6 /
/// (fan_in + fan_out))`. Recommended for `tanh`, the logistic function, and layers without an
/// activation.
///
/// Returns an error node of [`Error::TooLarge`](crate::Error::TooLarge) as [`Tensor::rand`].
///
/// # Examples
/// ```
/// use tensor_core::rng::Philox;
/// use tensor_core::{Host, Tensor, init};
/// let (host, seed) = (Host::new(), Philox::new(42));
/// let weight = init::glorot_uniform(seed.stream(0), &[64, 100], 64, 100).realize(&host)?;
/// let bias = Tensor::full(&[100], 0.0_f32).realize(&host)?;
///
/// // 16 filters with windows of 3 by 5 in each of 8 channels.
/// let filters = init::he_normal(seed.stream(1), &[16, 8, 3, 5], 8 * 3 * 5).realize(&host)?;
/// let deviation = filters.std(.., 0).item::<f32>(&host)?;
/// assert!((deviation / (2.0_f32 / 120.0).sqrt() - 1.0).abs() < 0.05);
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[track_caller]
#[must_use]
pub fn glorot_uniform(stream: Philox, shape: &[usize], fan_in: usize, fan_out: usize) -> Tensor {
    uniform(stream, shape, glorot(fan_in, fan_out)).composed("glorot_uniform", &[])
}

/// Creates normal weights of variance `2 / (fan_in + fan_out)`, for the same layers as
/// [`glorot_uniform`].
///
/// Returns an error node of [`Error::TooLarge`](crate::Error::TooLarge) as [`Tensor::randn`].
#[track_caller]
#[must_use]
pub fn glorot_normal(stream: Philox, shape: &[usize], fan_in: usize, fan_out: usize) -> Tensor {
    normal(stream, shape, glorot(fan_in, fan_out)).composed("glorot_normal", &[])
}

/// Creates uniform weights of variance `2 / fan_in`: in [-b, b) with `b = sqrt(6 / fan_in)`.
/// Recommended for [`relu`](Tensor::relu), which sets about half of its inputs to zero.
///
/// Returns an error node of [`Error::TooLarge`](crate::Error::TooLarge) as [`Tensor::rand`].
#[track_caller]
#[must_use]
pub fn he_uniform(stream: Philox, shape: &[usize], fan_in: usize) -> Tensor {
    uniform(stream, shape, he(fan_in)).composed("he_uniform", &[])
}

/// Creates normal weights of variance `2 / fan_in`, for the same layers as [`he_uniform`].
///
/// Returns an error node of [`Error::TooLarge`](crate::Error::TooLarge) as [`Tensor::randn`].
#[track_caller]
#[must_use]
pub fn he_normal(stream: Philox, shape: &[usize], fan_in: usize) -> Tensor {
    normal(stream, shape, he(fan_in)).composed("he_normal", &[])
}

/// Creates uniform numbers of a variance. A uniform distribution on [-b, b) has variance `b² / 3`.
#[track_caller]
fn uniform(stream: Philox, shape: &[usize], variance: f64) -> Tensor {
    (Tensor::rand(stream, shape) * 2.0 - 1.0) * (3.0 * variance).sqrt()
}

#[track_caller]
fn normal(stream: Philox, shape: &[usize], variance: f64) -> Tensor {
    Tensor::randn(stream, shape) * variance.sqrt()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the rounding of the fans is far below the rounding of the result"
)]
fn glorot(fan_in: usize, fan_out: usize) -> f64 {
    2.0 / (fan_in.max(1) as f64 + fan_out.max(1) as f64)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the rounding of the fans is far below the rounding of the result"
)]
fn he(fan_in: usize) -> f64 {
    2.0 / fan_in.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;
    use crate::error::Error;

    const SHAPE: [usize; 2] = [300, 400];

    fn elements(tensor: &Tensor) -> Vec<f32> {
        let elements = tensor.eval::<f32>(&Host::new()).unwrap();
        elements.into_iter().collect()
    }

    #[test]
    fn variances_are_those_of_the_formulas() {
        let stream = Philox::new(3).stream(1);
        for (weights, variance) in [
            (glorot_uniform(stream, &SHAPE, 300, 400), 2.0 / 700.0),
            (glorot_normal(stream, &SHAPE, 300, 400), 2.0 / 700.0),
            (he_uniform(stream, &SHAPE, 300), 2.0 / 300.0),
            (he_normal(stream, &SHAPE, 300), 2.0 / 300.0),
        ] {
            let x = elements(&weights);
            let n = x.len() as f64;
            let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
            let square = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / n;
            // The tolerance is five standard errors. The squares have a larger standard error for
            // normal than for uniform weights, so the tolerance is that of normal weights.
            assert!(mean.abs() < 5.0 * (variance / n).sqrt(), "{mean}");
            assert!(
                (square / variance - 1.0).abs() < 5.0 * (2.0 / n).sqrt(),
                "{square}"
            );
        }
    }

    #[test]
    fn uniform_weights_are_the_numbers_of_the_stream_within_the_bound() {
        let stream = Philox::new(3).stream(2);
        let expected: Vec<f32> = (0..1000)
            .map(|at| (2.0 * stream.uniform_f32(at) - 1.0) * 0.5)
            .collect();
        assert_eq!(
            elements(&glorot_uniform(stream, &[20, 50], 20, 4)),
            expected
        );
        assert!(expected.iter().all(|x| x.abs() <= 0.5));
    }

    #[test]
    fn one_stream_gives_the_same_weights_and_another_does_not() {
        let (a, b) = (Philox::new(3), Philox::new(3).stream(1));
        let first = elements(&he_normal(a, &[30], 5));
        assert_eq!(first, elements(&he_normal(a, &[30], 5)));
        assert_ne!(first, elements(&he_normal(b, &[30], 5)));
    }

    #[test]
    fn a_fan_of_zero_counts_as_one() {
        assert!(
            elements(&he_uniform(Philox::new(1), &[4], 0))
                .iter()
                .all(|x| x.is_finite())
        );
        let shape = [0, 3];
        assert!(elements(&glorot_normal(Philox::new(1), &shape, 0, 0)).is_empty());
    }

    #[test]
    fn what_no_memory_holds_is_an_error_under_the_callers_name() {
        let error = he_normal(Philox::new(1), &[usize::MAX, 2], 2)
            .shape()
            .unwrap_err();
        assert!(
            matches!(
                error.root(),
                Error::TooLarge {
                    operation: "he_normal",
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(error.location().unwrap().file(), file!());
    }
}
