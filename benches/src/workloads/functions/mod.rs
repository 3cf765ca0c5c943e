//! Elementary functions of a million numbers, in f32 and in f64.
//!
//! Role: the workload `functions`: the cost of a single function, without an operation before or
//! after. A size such as `exp-f64-1048576` has the function, the type and the number of elements.
//! Shapes: arguments and result are vectors.
//! Accuracy: compared with f64, relative: `EPSILONS` of the type.
//! Source: the lecture on Python performance, on the cost of operations on whole arrays.

use super::WITHOUT_COMPILER;
use harness::program::{Array, Input, InputDistribution, Options, TensorWorkload, Truth};
use harness::rivals::Script;
use harness::script;
use harness::workload::{InputType, OutputElement, Task, Work};
use std::rc::Rc;
use tensor_core::Tensor;
use tensor_core::compare::Tolerance;

/// Number of elements that is measured.
pub const LEN: usize = 1 << 20;
const SCRIPT: Script = script!("functions.py");
/// Relative error of a result, in epsilons of its type: 4 units in the last place, as executors
/// guarantee, and one for the oracle, whose functions are rounded to f64 as well.
const EPSILONS: usize = 5;

/// An elementwise function of `N` vectors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function<const N: usize> {
    /// The name, also in the script of the rivals.
    name: &'static str,
    /// The distribution of each argument.
    arguments: [InputDistribution; N],
    in_f32: fn([f32; N]) -> f32,
    /// The function in f64, which is the oracle.
    in_f64: fn([f64; N]) -> f64,
    of_tensors: fn(&[Tensor; N]) -> Tensor,
    /// Libraries that have the function.
    libraries: &'static [&'static str],
}

impl<const N: usize> Function<N> {
    /// Creates a function that all libraries have.
    pub(super) const fn new(
        name: &'static str,
        arguments: [InputDistribution; N],
        in_f32: fn([f32; N]) -> f32,
        in_f64: fn([f64; N]) -> f64,
        of_tensors: fn(&[Tensor; N]) -> Tensor,
    ) -> Self {
        Self {
            name,
            arguments,
            in_f32,
            in_f64,
            of_tensors,
            libraries: WITHOUT_COMPILER,
        }
    }

    /// Returns the program in f32.
    pub(super) fn narrow(self, len: usize) -> TensorWorkload<f32, N> {
        self.program(len, InputType::F32, self.in_f32)
    }

    /// Returns the program in f64.
    fn wide(self, len: usize) -> TensorWorkload<f64, N> {
        self.program(len, InputType::F64, self.in_f64)
    }

    fn tasks(self, len: usize) -> [Task; 2] {
        [self.narrow(len).task(), self.wide(len).task()]
    }

    fn program<T: OutputElement + From<f32>>(
        self,
        len: usize,
        element: InputType,
        scalar: fn([T; N]) -> T,
    ) -> TensorWorkload<T, N> {
        let input = |at: usize, stream| {
            let name = ["x", "y"][at];
            Input::new(name, self.arguments[at], stream, &[("n", len)]).with_type(element)
        };
        TensorWorkload {
            name: "functions",
            source: "S2",
            size: format!("{}-{}-{len}", self.name, element.name()),
            script: SCRIPT.with_case(self.name),
            inputs: std::array::from_fn(|at| input(at, at as u64)),
            truth: Rc::new(move |arrays| Ok(truth(values(arrays, self.in_f64).collect()))),
            loops: Rc::new(move |arrays, out| {
                let values = values(arrays, scalar);
                out.iter_mut().zip(values).for_each(|(y, value)| *y = value);
                Ok(())
            }),
            expression: Rc::new(self.of_tensors),
            options: Options {
                libraries: self.libraries,
                runs_on_software: false,
                ..Options::default()
            },
        }
    }
}

/// Returns the tasks: each function of `len` numbers, in both types. Normal numbers are common
/// arguments of all functions that are defined on them.
pub fn tasks(len: usize) -> impl Iterator<Item = Task> {
    use InputDistribution::{Normal, Uniform};
    let unary = [
        Function::new("exp", [Normal], |[x]| x.exp(), |[x]| x.exp(), |[x]| x.exp()),
        Function::new("ln", [Uniform], |[x]| x.ln(), |[x]| x.ln(), |[x]| x.ln()),
        Function::new(
            "tanh",
            [Normal],
            |[x]| x.tanh(),
            |[x]| x.tanh(),
            |[x]| x.tanh(),
        ),
        Function::new("sin", [Normal], |[x]| x.sin(), |[x]| x.sin(), |[x]| x.sin()),
        Function::new("cos", [Normal], |[x]| x.cos(), |[x]| x.cos(), |[x]| x.cos()),
        Function::new(
            "sigmoid",
            [Normal],
            |[x]| 1.0 / (1.0 + (-x).exp()),
            |[x]| 1.0 / (1.0 + (-x).exp()),
            |[x]| x.sigmoid(),
        ),
        Function {
            // NumPy has no error function.
            libraries: &WITHOUT_COMPILER[1..],
            ..Function::new(
                "erf",
                [Normal],
                |[x]| libm::erff(x),
                |[x]| libm::erf(x),
                |[x]| x.erf(),
            )
        },
    ];
    let pow = Function::new(
        "pow",
        [Uniform, Normal],
        |[x, y]| x.powf(y),
        |[x, y]| x.powf(y),
        |[x, y]| x.pow(y),
    );
    let unary = unary
        .into_iter()
        .flat_map(move |function| function.tasks(len));
    unary.chain(pow.tasks(len))
}

/// Iterates over the values of a function of all elements.
fn values<T: From<f32>, const N: usize>(
    arrays: &[Array; N],
    function: fn([T; N]) -> T,
) -> impl Iterator<Item = T> {
    (0..arrays[0].elements.len())
        .map(move |at| function(arrays.each_ref().map(|array| T::from(array.elements[at]))))
}

fn truth(expected: Vec<f64>) -> Truth {
    Truth {
        tolerance: Tolerance::relative(EPSILONS),
        work: Work::Values(expected.len() as f64),
        expected,
    }
}
