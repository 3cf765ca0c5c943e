//! Programs of a few elements, which take microseconds.
//!
//! Role: the workload `small-eval`: the overhead of a call. The variant `eval` plans the program at
//! each run, as a library without compilation does; `host` calls a compiled function.
//! Shapes: vectors of 16 and 64 elements, matrices `[8, 8]`.
//! Accuracy: as in the families that the programs come from: `functions`, `softmax`, `products`.
//! Source: the lecture on Python performance, on the overhead of an interpreter per operation.

use super::functions::Function;
use super::{products, softmax};
use harness::program::{InputDistribution, Options, TensorWorkload};
use harness::workload::Task;

/// Returns the tasks.
#[must_use]
pub fn tasks() -> [Task; 4] {
    use InputDistribution::{Normal, Uniform};
    let add = Function::new(
        "add",
        [Normal; 2],
        |[x, y]| x + y,
        |[x, y]| x + y,
        |[x, y]| x + y,
    );
    // Five operations. All results are positive, so nothing cancels, and each operation adds half
    // an epsilon.
    let chain = Function::new(
        "chain",
        [Uniform],
        |[x]| (2.0 * x + 1.0).max(0.0) * x + 3.0,
        |[x]| (2.0 * x + 1.0).max(0.0) * x + 3.0,
        |[x]| (2.0 * x + 1.0).relu() * x + 3.0,
    );
    [
        small("add-16", add.narrow(16)),
        small("softmax-8x8", softmax::program([8, 8])),
        small(
            "product-8x8x8",
            products::program(products::Form::Single, [8; 3]),
        ),
        small("chain-64", chain.narrow(64)),
    ]
}

/// Returns a task of this workload from a program of another one.
fn small<const N: usize>(size: &str, program: TensorWorkload<f32, N>) -> Task {
    let small = TensorWorkload {
        name: "small-eval",
        size: size.to_owned(),
        source: "S2",
        options: Options {
            is_evaluated: true,
            runs_on_software: false,
            ..Options::default()
        },
        ..program
    };
    small.task()
}
