//! Scatters: counts and sums of elements by their index, the gradient of an embedding, and a
//! histogram.
//!
//! Role: the workload `scatters`. A size is, for example, `sums-1048576-1000`: the number of
//! elements and of results.
//! Shapes: `index` `[rows]` with elements below the number of results; `x` `[rows]`, or
//! `[rows, COLUMNS]` for `rows`; the result is a vector, or a matrix of the same columns.
//! Accuracy: counts and largest elements are exact. Sums are compared with sums in f64; the
//! tolerance in epsilons of `Σ|x|` is that of a sum of as many terms.
//! Source: the lecture on Python performance, whose examples reduce arrays by NumPy and PyTorch.

use super::WITHOUT_COMPILER;
use crate::roundings;
use harness::program::{Array, Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::script;
use harness::workload::{OutputElement, Task, Work};
use std::rc::Rc;
use tensor_core::compare::Tolerance;
use tensor_core::{DType, Tensor};

/// The number of elements that are scattered, and of the rows of an embedding's gradient.
pub const LENS: [usize; 2] = [1 << 20, 1 << 13];
/// The number of results of most cases.
const RESULTS: usize = 1000;
/// The number of rows of an embedding.
const VOCABULARY: usize = 5000;
/// The number of elements of a row.
const COLUMNS: usize = 256;
/// The number of bins of a histogram.
const BINS: usize = 64;
/// The upper limit of a histogram; the lower limit is `-RANGE`.
const RANGE: f32 = 4.0;

/// The way in which the elements of a result are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fold {
    Sum,
    /// The largest element, or 0 if all are negative.
    Max,
}

/// A scatter of elements, which are numbered in the order of the largest input.
struct Scatter<T, const N: usize> {
    /// The name, also in the script of the rivals.
    case: &'static str,
    inputs: [Input; N],
    len: usize,
    n_results: usize,
    fold: Fold,
    /// Returns the result that an element belongs to, if any.
    place: fn(&[Array; N], usize) -> Option<usize>,
    /// Returns an element.
    element: fn(&[Array; N], usize) -> f32,
    /// Converts a result.
    convert: fn(f32) -> T,
    expression: fn(&[Tensor; N]) -> Tensor,
}

/// Returns one task for each kind of scatter.
pub fn tasks([len, rows]: [usize; 2]) -> [Task; 5] {
    [
        counts(len).program().task(),
        sums(len).program().task(),
        maxima(len).program().task(),
        rows_of_embedding(rows).program().task(),
        histogram(len).program().task(),
    ]
}

/// Returns the number of elements of each index.
fn counts(len: usize) -> Scatter<u32, 1> {
    Scatter {
        case: "counts",
        inputs: [index(len, RESULTS)],
        len,
        n_results: RESULTS,
        fold: Fold::Sum,
        place: |[index], at| Some(index.position(at)),
        element: |_, _| 1.0,
        convert: whole,
        expression: |[index]| index.bincount(RESULTS),
    }
}

/// Returns the sum of the elements of each index.
fn sums(len: usize) -> Scatter<f32, 2> {
    Scatter {
        case: "sums",
        inputs: [index(len, RESULTS), numbers(&[("rows", len)])],
        len,
        n_results: RESULTS,
        fold: Fold::Sum,
        place: |[index, _], at| Some(index.position(at)),
        element: |[_, x], at| x.elements[at],
        convert: |sum| sum,
        expression: |[index, x]| Tensor::zeros(&[RESULTS], DType::F32).scatter_add(index, x, 0),
    }
}

/// Returns the largest of 0 and the elements of each index.
fn maxima(len: usize) -> Scatter<f32, 2> {
    Scatter {
        case: "maxima",
        fold: Fold::Max,
        expression: |[index, x]| Tensor::zeros(&[RESULTS], DType::F32).scatter_max(index, x, 0),
        ..sums(len)
    }
}

/// Returns the gradient of the rows of an embedding: the sums of the rows of each index.
fn rows_of_embedding(rows: usize) -> Scatter<f32, 2> {
    Scatter {
        case: "rows",
        inputs: [
            index(rows, VOCABULARY),
            numbers(&[("rows", rows), ("cols", COLUMNS)]),
        ],
        len: rows * COLUMNS,
        n_results: VOCABULARY * COLUMNS,
        fold: Fold::Sum,
        place: |[index, _], at| Some(index.position(at / COLUMNS) * COLUMNS + at % COLUMNS),
        element: |[_, x], at| x.elements[at],
        convert: |sum| sum,
        expression: |[index, x]| {
            Tensor::zeros(&[VOCABULARY, COLUMNS], DType::F32).scatter_add(index, x, 0)
        },
    }
}

/// Returns the number of elements in each of [`BINS`] bins.
fn histogram(len: usize) -> Scatter<u32, 1> {
    Scatter {
        case: "histogram",
        inputs: [numbers(&[("rows", len)])],
        len,
        n_results: BINS,
        fold: Fold::Sum,
        place: |[x], at| {
            // The quotient is exact, because the width of the bins is a power of two.
            let bin = (x.elements[at] / (2.0 * RANGE / BINS as f32)).floor() + (BINS / 2) as f32;
            let is_inside = x.elements[at].abs() <= RANGE;
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the bin is the integer below"
            )]
            is_inside.then(|| (bin as usize).min(BINS - 1))
        },
        element: |_, _| 1.0,
        convert: whole,
        expression: |[x]| x.histogram(BINS, f64::from(-RANGE), f64::from(RANGE)),
    }
}

/// Returns a count below 2²⁴ as an integer.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are whole"
)]
fn whole(count: f32) -> u32 {
    count as u32
}

fn index(len: usize, limit: usize) -> Input {
    let limit = u32::try_from(limit).expect("the number of results is a small constant");
    let distribution = InputDistribution::Below(limit);
    Input::new("index", distribution, 1, &[("rows", len)])
}

fn numbers(axes: &[(&'static str, usize)]) -> Input {
    Input::new("x", InputDistribution::Normal, 0, axes)
}

impl<T: OutputElement, const N: usize> Scatter<T, N> {
    fn program(self) -> TensorWorkload<T, N> {
        let Self {
            case,
            inputs,
            len,
            n_results,
            fold,
            place,
            element,
            convert,
            expression,
        } = self;
        TensorWorkload {
            name: "scatters",
            source: "S2",
            size: format!("{case}-{len}-{n_results}"),
            script: script!("scatters.py").with_case(case),
            inputs,
            truth: Rc::new(move |arrays| {
                let mut expected = vec![0.0_f64; n_results];
                let (mut magnitudes, mut n_terms) = (expected.clone(), vec![0; n_results]);
                for at in 0..len {
                    let Some(place) = place(arrays, at) else {
                        continue;
                    };
                    let x = f64::from(element(arrays, at));
                    magnitudes[place] += x.abs();
                    n_terms[place] += 1;
                    expected[place] = match fold {
                        Fold::Sum => expected[place] + x,
                        Fold::Max => expected[place].max(x),
                    };
                }
                let most = n_terms.into_iter().max().unwrap_or(0);
                let is_sum = fold == Fold::Sum && T::DTYPE == DType::F32;
                Ok(Truth {
                    expected,
                    tolerance: if is_sum {
                        Tolerance::relative(roundings::of_sum(most)).scaled_by(magnitudes)
                    } else {
                        Tolerance::exact()
                    },
                    work: Work::Operations(len as f64),
                })
            }),
            loops: Rc::new(move |arrays, out| {
                let mut results = vec![0.0_f32; n_results];
                for at in 0..len {
                    if let Some(place) = place(arrays, at) {
                        let x = element(arrays, at);
                        match fold {
                            Fold::Sum => results[place] += x,
                            Fold::Max => results[place] = results[place].max(x),
                        }
                    }
                }
                for (out, result) in out.iter_mut().zip(results) {
                    *out = convert(result);
                }
                Ok(())
            }),
            expression: Rc::new(expression),
            options: Options {
                libraries: WITHOUT_COMPILER,
                runs_on_software: false,
                ..Options::default()
            },
        }
    }
}
