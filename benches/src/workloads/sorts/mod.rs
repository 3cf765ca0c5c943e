//! Sorts of a matrix along one axis, the positions of sorted elements, and the largest elements.
//!
//! Role: the workload `sorts`: many lines of contiguous elements (`axis1`), of elements that are
//! apart (`axis0`), and a single long line. A size is, for example, `sort-axis0-4096x1000`.
//! Shapes: `x` is `[rows, cols]`, row-major; the result has the same shape, or
//! `[rows, LARGEST]` for `topk`.
//! Accuracy: exact. Rivals sort positions by their stable algorithms, because equal elements occur.

use super::WITHOUT_COMPILER;
use anyhow::{Context, Result};
use harness::program::{Array, Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::script;
use harness::workload::{Task, Work};
use std::rc::Rc;
use tensor_core::compare::Tolerance;
use tensor_core::{Element, Tensor};

/// The numbers of rows and columns that are measured: a matrix, and a single line.
pub const SHAPES: [[usize; 2]; 2] = [[4096, 1000], [1, 1 << 20]];
/// The number of elements that `topk` selects.
const LARGEST: usize = 10;

/// Returns the tasks for normal numbers: sorts along both axes, positions and largest elements of a
/// matrix, and the sort and the positions of a line.
pub fn tasks([matrix, line]: [[usize; 2]; 2]) -> impl Iterator<Item = Task> {
    let elements = |order: &[usize], x: &[f32]| order.iter().map(|&at| x[at].into()).collect();
    let sorts = [
        ("sort-axis0", 0, matrix),
        ("sort-axis1", 1, matrix),
        ("sort-axis1", 1, line),
    ];
    let sorts = sorts.into_iter().map(move |(case, axis, shape)| {
        let sorted = move |[x]: &[Tensor; 1]| x.sort(axis);
        Sort {
            case,
            axis,
            shape,
            selected: shape[axis],
            result: elements,
        }
        .program::<f32>(sorted)
    });
    let positions = [matrix, line].into_iter().map(|shape| {
        let result = move |order: &[usize], _: &[f32]| {
            order.iter().map(|&at| (at % shape[1]) as f64).collect()
        };
        let case = "argsort-axis1";
        Sort {
            case,
            axis: 1,
            shape,
            selected: shape[1],
            result,
        }
        .program::<u32>(|[x]| x.argsort(1))
    });
    let largest = Sort {
        case: "topk-axis1",
        axis: 1,
        shape: matrix,
        selected: LARGEST,
        result: elements,
    };
    sorts
        .map(TensorWorkload::task)
        .chain(positions.map(TensorWorkload::task))
        .chain([largest.program::<f32>(|[x]| x.topk(LARGEST, 1).0).task()])
}

/// A sort, and the choice of its results.
struct Sort<R> {
    /// The name, also in the script of the rivals.
    case: &'static str,
    axis: usize,
    shape: [usize; 2],
    /// The number of results of each line: the first ones, or the last ones of `topk`.
    selected: usize,
    /// Returns the results, given the numbers of elements in the order of the results.
    result: R,
}

impl<R: Fn(&[usize], &[f32]) -> Vec<f64> + Copy + 'static> Sort<R> {
    fn program<T: Element>(
        self,
        expression: impl Fn(&[Tensor; 1]) -> Tensor + 'static,
    ) -> TensorWorkload<T, 1> {
        let Self {
            case,
            axis,
            shape: [rows, cols],
            selected,
            result,
        } = self;
        let expected = move |[x]: &[Array; 1]| {
            let order = order(
                case == "topk-axis1",
                axis,
                [rows, cols],
                selected,
                &x.elements,
            );
            result(&order, &x.elements)
        };
        TensorWorkload {
            name: "sorts",
            source: "S2",
            size: format!("{case}-{rows}x{cols}"),
            script: script!("sorts.py").with_case(case),
            inputs: [Input::new(
                "x",
                InputDistribution::Normal,
                0,
                &[("rows", rows), ("cols", cols)],
            )],
            truth: Rc::new(move |arrays| {
                Ok(Truth {
                    expected: expected(arrays),
                    tolerance: Tolerance::exact(),
                    work: Work::Values((rows * cols) as f64),
                })
            }),
            loops: Rc::new(move |arrays, out| {
                for (out, expected) in out.iter_mut().zip(expected(arrays)) {
                    *out = converted(expected)?;
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

fn converted<T: Element>(number: f64) -> Result<T> {
    let scalar = tensor_core::Scalar::F64(number).cast(T::DTYPE);
    T::from_scalar(scalar).context("the type of the result is that of the workload")
}

/// Returns the numbers of the elements of a matrix in the order of the results.
fn order(
    descending: bool,
    axis: usize,
    [rows, cols]: [usize; 2],
    selected: usize,
    x: &[f32],
) -> Vec<usize> {
    let (n_lines, n, stride) = if axis == 0 {
        (cols, rows, cols)
    } else {
        (rows, cols, 1)
    };
    let mut order = vec![0; n_lines * selected];
    for line in 0..n_lines {
        let first = if axis == 0 { line } else { line * cols };
        let mut sorted: Vec<usize> = (0..n).map(|at| first + at * stride).collect();
        sorted.sort_by(|&a, &b| {
            let (a, b) = if descending { (b, a) } else { (a, b) };
            x[a].total_cmp(&x[b])
        });
        for (at, number) in sorted.into_iter().take(selected).enumerate() {
            let place = if axis == 0 {
                at * cols + line
            } else {
                line * selected + at
            };
            order[place] = number;
        }
    }
    order
}
