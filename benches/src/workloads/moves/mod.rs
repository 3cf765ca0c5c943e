//! Copies of arrays in another order: transposes, padding, joins, flips, steps and gathers.
//!
//! Role: the workload `moves`: programs without arithmetic, which are limited by memory. A view is
//! stored as a new, contiguous array, by us and by the rivals.
//! Shapes: matrices `[rows, cols]`, and vectors for `elements`; row-major.
//! Accuracy: exact.
//! Source: the lecture on Python performance and the notebook on matrix multiplication, which
//! explain views by strides and the cost of their copies.

use super::WITHOUT_COMPILER;
use harness::program::{Array, Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::script;
use harness::workload::{Task, Work};
use std::rc::Rc;
use tensor_core::Tensor;
use tensor_core::compare::Tolerance;
use tensor_core::view::Slice;

/// Number of zeros at each side of a padded matrix.
const PADDING: usize = 4;
/// Distance from one selected element to the next.
const STEP: usize = 2;
/// A copy of elements of `N` inputs to a matrix.
struct Move<const N: usize> {
    /// The name, also in the script of the rivals.
    name: &'static str,
    inputs: [Input; N],
    /// Size as one word.
    size: String,
    /// Shape of the result; a vector has one column.
    shape: [usize; 2],
    /// Function that returns the element of the result at a row and a column.
    element: fn(&[Array; N], [usize; 2]) -> f32,
    expression: fn(&[Tensor; N]) -> Tensor,
}

impl<const N: usize> Move<N> {
    fn program(self) -> TensorWorkload<f32, N> {
        let ([rows, cols], element) = (self.shape, self.element);
        let loops = move |arrays: &[Array; N], out: &mut [f32]| {
            for (row, out) in out.chunks_exact_mut(cols).enumerate() {
                for (col, out) in out.iter_mut().enumerate() {
                    *out = element(arrays, [row, col]);
                }
            }
        };
        TensorWorkload {
            name: "moves",
            source: "S2",
            size: format!("{}-{}", self.name, self.size),
            script: script!("moves.py").with_case(self.name),
            inputs: self.inputs,
            truth: Rc::new(move |arrays| {
                let mut expected = vec![0.0; rows * cols];
                loops(arrays, &mut expected);
                Ok(Truth {
                    expected: expected.into_iter().map(f64::from).collect(),
                    tolerance: Tolerance::exact(),
                    work: Work::Values((rows * cols) as f64),
                })
            }),
            loops: Rc::new(move |arrays, out| {
                loops(arrays, out);
                Ok(())
            }),
            expression: Rc::new(self.expression),
            options: Options {
                libraries: WITHOUT_COMPILER,
                runs_on_software: false,
                ..Options::default()
            },
        }
    }
}

/// Returns the tasks at the sizes that are measured.
#[must_use]
pub fn tasks() -> [Task; 7] {
    [
        transpose([2048, 2048]).task(),
        pad([1000, 1000]).task(),
        join([1000, 500]).task(),
        flip([1000, 1000]).task(),
        step([2048, 2048]).task(),
        rows([16_384, 64]).task(),
        elements(1 << 20).task(),
    ]
}

/// Returns the transpose of a matrix.
#[must_use]
pub fn transpose([rows, cols]: [usize; 2]) -> TensorWorkload<f32, 1> {
    Move {
        name: "transpose",
        inputs: [matrix("x", 0, [rows, cols])],
        size: format!("{rows}x{cols}"),
        shape: [cols, rows],
        element: |[x], [row, col]| at(x, [col, row]),
        expression: |[x]| x.t(),
    }
    .program()
}

/// Returns a matrix with four zeros added at each side.
#[must_use]
pub fn pad([rows, cols]: [usize; 2]) -> TensorWorkload<f32, 1> {
    Move {
        name: "pad",
        inputs: [matrix("x", 0, [rows, cols])],
        size: format!("{rows}x{cols}-{PADDING}"),
        shape: [rows, cols].map(|side| side + 2 * PADDING),
        element: |[x], place| {
            let inside = |axis: usize| {
                place[axis]
                    .checked_sub(PADDING)
                    .filter(|&i| i < x.shape[axis])
            };
            match (inside(0), inside(1)) {
                (Some(row), Some(col)) => at(x, [row, col]),
                _ => 0.0,
            }
        },
        expression: |[x]| {
            x.pad(0, PADDING, PADDING, 0.0)
                .pad(1, PADDING, PADDING, 0.0)
        },
    }
    .program()
}

/// Returns two matrices side by side.
#[must_use]
pub fn join([rows, cols]: [usize; 2]) -> TensorWorkload<f32, 2> {
    Move {
        name: "join",
        inputs: [matrix("x", 0, [rows, cols]), matrix("y", 1, [rows, cols])],
        size: format!("{rows}x{cols}"),
        shape: [rows, 2 * cols],
        element: |[x, y], [row, col]| match col.checked_sub(x.shape[1]) {
            None => at(x, [row, col]),
            Some(col) => at(y, [row, col]),
        },
        expression: |[x, y]| Tensor::concat(&[x, y], 1),
    }
    .program()
}

/// Returns a matrix whose columns are in reverse order.
#[must_use]
pub fn flip([rows, cols]: [usize; 2]) -> TensorWorkload<f32, 1> {
    Move {
        name: "flip",
        inputs: [matrix("x", 0, [rows, cols])],
        size: format!("{rows}x{cols}"),
        shape: [rows, cols],
        element: |[x], [row, col]| at(x, [row, x.shape[1] - 1 - col]),
        expression: |[x]| x.flip(1),
    }
    .program()
}

/// Returns every second column of a matrix.
#[must_use]
pub fn step([rows, cols]: [usize; 2]) -> TensorWorkload<f32, 1> {
    Move {
        name: "step",
        inputs: [matrix("x", 0, [rows, cols])],
        size: format!("{rows}x{cols}-{STEP}"),
        shape: [rows, cols.div_ceil(STEP)],
        element: |[x], [row, col]| at(x, [row, STEP * col]),
        expression: |[x]| {
            let slice = Slice {
                start: None,
                stop: None,
                step: STEP.cast_signed(),
            };
            x.slice(1, slice)
        },
    }
    .program()
}

/// Returns as many rows of a matrix as it has, at random positions.
#[must_use]
pub fn rows([rows, cols]: [usize; 2]) -> TensorWorkload<f32, 2> {
    Move {
        name: "rows",
        inputs: [matrix("x", 0, [rows, cols]), index(rows)],
        size: format!("{rows}x{cols}"),
        shape: [rows, cols],
        element: |[x, index], [row, col]| at(x, [index.position(row), col]),
        expression: |[x, index]| x.gather(index, 0),
    }
    .program()
}

/// Returns as many elements of a vector as it has, at random positions.
#[must_use]
pub fn elements(len: usize) -> TensorWorkload<f32, 2> {
    Move {
        name: "elements",
        inputs: [
            Input::new("x", InputDistribution::Normal, 0, &[("rows", len)]),
            index(len),
        ],
        size: len.to_string(),
        shape: [len, 1],
        element: |[x, index], [row, _]| x.elements[index.position(row)],
        expression: |[x, index]| x.gather(index, 0),
    }
    .program()
}

fn matrix(name: &'static str, stream: u64, [rows, cols]: [usize; 2]) -> Input {
    let axes = [("rows", rows), ("cols", cols)];
    Input::new(name, InputDistribution::Normal, stream, &axes)
}

/// Returns random positions on an axis of `len` elements, as many as elements.
fn index(len: usize) -> Input {
    let limit = u32::try_from(len).expect("a length that is measured fits u32");
    Input::new(
        "index",
        InputDistribution::Below(limit),
        1,
        &[("rows", len)],
    )
}

fn at(x: &Array, [row, col]: [usize; 2]) -> f32 {
    x.elements[row * x.shape[1] + col]
}
