//! First values of weights, scaled so that signals neither fade nor grow from layer to layer.
//!
//! Role: uniform and normal random weights by the rules of Glorot and of He. Biases begin at zero, with [`Tensor::full`].
//! Method: [`Tensor::rand`] and [`Tensor::randn`] times a scale; so a stream gives the same weights every time, they are
//! `f32` (a [`cast`](Tensor::cast) makes them `f64`), and they take no memory before they are realized. Give each
//! weight a [`stream`](Philox::stream) of its own: two of one stream hold the same numbers.
//! Shapes: a fan is the number of inputs that meet in one output of a layer (`fan_in`), or of outputs that one input goes
//! to (`fan_out`). A shape does not tell, so the caller does: `inputs` and `outputs` for a dense layer, whichever axis
//! comes first; `in · kh · kw` and `out · kh · kw` for the windows of a convolution. A fan of 0 counts as 1.
//! Source: Glorot and Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks", AISTATS,
//! equations 12 and 16; He, Zhang, Ren and Sun 2015, "Delving deep into rectifiers", ICCV, equation 10.

use crate::rng::Philox;
use crate::tensor::Tensor;

/// Uniform numbers of variance `2 / (fan_in + fan_out)`: in [-b, b) with `b = sqrt(6 / (fan_in + fan_out))`. For `tanh`,
/// the logistic function, and layers without either.
///
/// The error node of [`Error::TooLarge`](crate::Error::TooLarge) as of [`Tensor::rand`].
///
/// # Examples
/// ```
/// use tensor_core::rng::Philox;
/// use tensor_core::{Host, Tensor, init};
/// let (host, seed) = (Host::new(), Philox::new(42));
/// let weight = init::glorot_uniform(seed.stream(0), &[64, 100], 64, 100).realize(&host)?;
/// let bias = Tensor::full(&[100], 0.0_f32).realize(&host)?;
///
/// // 16 filters that read windows of 3 by 5 in each of 8 channels.
/// let filters = init::he_normal(seed.stream(1), &[16, 8, 3, 5], 8 * 3 * 5).realize(&host)?;
/// assert!((filters.std(.., 0).eval::<f32>(&host)?[[]] / (2.0_f32 / 120.0).sqrt() - 1.0).abs() < 0.05);
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[track_caller]
#[must_use]
pub fn glorot_uniform(stream: Philox, shape: &[usize], fan_in: usize, fan_out: usize) -> Tensor {
    uniform(stream, shape, glorot(fan_in, fan_out)).composed("glorot_uniform", &[])
}

/// Normal numbers of variance `2 / (fan_in + fan_out)`; for what [`glorot_uniform`] is for.
///
/// The error node of [`Error::TooLarge`](crate::Error::TooLarge) as of [`Tensor::randn`].
#[track_caller]
#[must_use]
pub fn glorot_normal(stream: Philox, shape: &[usize], fan_in: usize, fan_out: usize) -> Tensor {
    normal(stream, shape, glorot(fan_in, fan_out)).composed("glorot_normal", &[])
}

/// Uniform numbers of variance `2 / fan_in`: in [-b, b) with `b = sqrt(6 / fan_in)`. For [`relu`](Tensor::relu), which
/// lets half of the signal through.
///
/// The error node of [`Error::TooLarge`](crate::Error::TooLarge) as of [`Tensor::rand`].
#[track_caller]
#[must_use]
pub fn he_uniform(stream: Philox, shape: &[usize], fan_in: usize) -> Tensor {
    uniform(stream, shape, he(fan_in)).composed("he_uniform", &[])
}

/// Normal numbers of variance `2 / fan_in`; for what [`he_uniform`] is for.
///
/// The error node of [`Error::TooLarge`](crate::Error::TooLarge) as of [`Tensor::randn`].
#[track_caller]
#[must_use]
pub fn he_normal(stream: Philox, shape: &[usize], fan_in: usize) -> Tensor {
    normal(stream, shape, he(fan_in)).composed("he_normal", &[])
}

/// In [-b, b), whose variance is `b² / 3`.
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
    reason = "a fan beyond 2^53 does not fit any memory"
)]
fn glorot(fan_in: usize, fan_out: usize) -> f64 {
    2.0 / (fan_in.max(1) as f64 + fan_out.max(1) as f64)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a fan beyond 2^53 does not fit any memory"
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
            // Five standard errors; that of a normal number's square is the larger one.
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
                    op: "he_normal",
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(error.location().unwrap().file(), file!());
    }
}
