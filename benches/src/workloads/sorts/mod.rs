//! Sorts of a matrix along one axis, the positions of sorted elements, and the largest elements.
//!
//! Role: the workload `sorts`: many lines of contiguous elements (`axis1`), of elements that are
//! apart (`axis0`), and a single long line. A size is, for example, `sort-axis0-4096x1000`.
//! Shapes: `x` is `[rows, cols]`, row-major; the result has the same shape, or
//! `[rows, LARGEST]` for `topk`.
//! Accuracy: exact. Rivals sort positions by their stable algorithms, because equal elements occur.

use super::WITHOUT_COMPILER;
use harness::program::{Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::script;
use harness::workload::{OutputElement, Task, Work};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use tensor_core::Tensor;
use tensor_core::compare::Tolerance;

/// The numbers of rows and columns that are measured: a matrix, and a single line.
pub const SHAPES: [[usize; 2]; 2] = [[4096, 1000], [1, 1 << 20]];
/// The number of elements that `topk` selects.
const LARGEST: usize = 10;

/// Returns the tasks for normal numbers: sorts along both axes, positions and largest elements of a
/// matrix, and the sort and the positions of a line.
pub fn tasks([matrix, line]: [[usize; 2]; 2]) -> impl Iterator<Item = Task> {
    let sorts = [
        ("sort-axis0", 0, matrix),
        ("sort-axis1", 1, matrix),
        ("sort-axis1", 1, line),
    ];
    let sorts = sorts.into_iter().map(|(case, axis, shape)| {
        Sort {
            case,
            axis,
            shape,
            descending: false,
            selected: shape[axis],
            result: |element: f32, _| element,
        }
        .program(move |[x]| x.sort(axis))
    });
    let positions = [matrix, line].into_iter().map(|shape| {
        Sort {
            case: "argsort-axis1",
            axis: 1,
            shape,
            descending: false,
            selected: shape[1],
            result: |_, position: u32| position,
        }
        .program(|[x]| x.argsort(1))
    });
    let largest = Sort {
        case: "topk-axis1",
        axis: 1,
        shape: matrix,
        descending: true,
        selected: LARGEST,
        result: |element: f32, _| element,
    };
    sorts
        .map(TensorWorkload::task)
        .chain(positions.map(TensorWorkload::task))
        .chain([largest.program(|[x]| x.topk(LARGEST, 1).0).task()])
}

/// A sort, and the choice of its results.
#[derive(Clone, Copy)]
struct Sort<T> {
    /// The name, also in the script of the rivals.
    case: &'static str,
    axis: usize,
    shape: [usize; 2],
    descending: bool,
    /// The number of results per line: the first `selected` elements of the sorted line.
    selected: usize,
    /// Returns the result, given a sorted element and its position on the unsorted line.
    result: fn(f32, u32) -> T,
}

impl<T: OutputElement> Sort<T> {
    fn program(
        self,
        expression: impl Fn(&[Tensor; 1]) -> Tensor + 'static,
    ) -> TensorWorkload<T, 1> {
        let Self {
            case,
            shape: [rows, cols],
            ..
        } = self;
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
            truth: Rc::new(move |[x]| {
                Ok(Truth {
                    expected: self.expected(&x.elements),
                    tolerance: Tolerance::exact(),
                    work: Work::Values((rows * cols) as f64),
                })
            }),
            loops: Rc::new(move |[x], out| {
                self.loops(&x.elements, out);
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

    /// Returns for each line the place of its first result, the distance between neighbouring
    /// elements, and its elements.
    fn lines(self, x: &[f32]) -> impl Iterator<Item = (usize, usize, Vec<f32>)> {
        let [rows, cols] = self.shape;
        (0..self.shape[1 - self.axis]).map(move |line| match self.axis {
            0 => (
                line,
                cols,
                (0..rows).map(|row| x[row * cols + line]).collect(),
            ),
            _ => (line * self.selected, 1, x[line * cols..][..cols].to_vec()),
        })
    }

    /// Returns the results, by a stable sort of the elements and positions of each line.
    fn expected(self, x: &[f32]) -> Vec<f64> {
        let mut expected = vec![0.0; x.len() / self.shape[self.axis] * self.selected];
        for (first, stride, line) in self.lines(x) {
            let mut order: Vec<(f32, u32)> = line.into_iter().zip(0..).collect();
            order.sort_by(|(a, _), (b, _)| match self.descending {
                true => b.total_cmp(a),
                false => a.total_cmp(b),
            });
            for (place, &(element, position)) in order[..self.selected].iter().enumerate() {
                let result = (self.result)(element, position).into_scalar();
                expected[first + place * stride] = result.to_f64();
            }
        }
        expected
    }

    /// Computes the results by a heap of the elements of each line.
    fn loops(self, x: &[f32], out: &mut [T]) {
        // Bits in the order of normal numbers. The smallest item of the heap is at its top.
        let key = |x: f32| {
            let bits = x.to_bits().cast_signed();
            let key = bits ^ ((bits >> 31) & i32::MAX);
            if self.descending { !key } else { key }
        };
        for (first, stride, line) in self.lines(x) {
            let items = line.iter().zip(0..).map(|(&x, at)| Reverse((key(x), at)));
            let mut heap: BinaryHeap<Reverse<(i32, u32)>> = items.collect();
            for place in 0..self.selected {
                if let Some(Reverse((_, at))) = heap.pop() {
                    out[first + place * stride] = (self.result)(line[at as usize], at);
                }
            }
        }
    }
}
