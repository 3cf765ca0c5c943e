//! A workload defined as a program on tensors: named inputs, one expression, an oracle.
//!
//! Role: the short way to define a [`Workload`]. It needs the distribution of each input, an
//! oracle, plain loops and the tensor expression; variants, bytes, check and the rivals' jobs
//! follow from these.
//! Method: a [`TensorWorkload`] is cheap to create and to list; its task draws the inputs and runs
//! the oracle. A rival's script receives every input, and the length of every axis, under the same
//! names as here.
//! Shapes: inputs and result are row-major and contiguous.
//! Limits: inputs are random and in f32, and all variants do the whole work.

use crate::rivals::{BaselineArguments, Script};
use crate::workload::{Extent, OutputElement, Problem, Task, Variant, Work, Workload};
use anyhow::{Context, Result};
use gpu_wgsl::Gpu;
use tensor_core::Tensor;
use tensor_core::compare::Tolerance;
use tensor_core::ndarray::ArrayView2;
use tensor_core::rng::Philox;

/// Seed of all random inputs.
const SEED: u64 = 457_428_938_475;
/// Libraries that a program is compared with.
const LIBRARIES: [&str; 4] = ["numpy", "torch", "torch-compile", "jax"];

/// A program of `N` inputs, written as a tensor expression.
pub type Expression<const N: usize> = fn(&[Tensor; N]) -> Tensor;

/// A program of `N` inputs with its oracle; elements of the result are `T`.
#[derive(Clone, Debug)]
pub struct TensorWorkload<T, const N: usize> {
    /// Name of the workload, as in records: `chain`.
    pub name: &'static str,
    /// Id of the document that the program comes from: `S2`; [`crate::sources`] has the titles.
    pub source: &'static str,
    /// Size as one word.
    pub size: String,
    /// Script of the rivals.
    pub script: Script,
    /// Inputs.
    pub inputs: [Input; N],
    /// The oracle.
    pub truth: fn(&[Array; N]) -> Result<Truth>,
    /// The variant `loops`, the plainest code, which fills the result.
    pub loops: fn(&[Array; N], &mut [T]) -> Result<()>,
    /// The program as a user writes it; run by the host executor and by each GPU.
    pub expression: Expression<N>,
    /// Other ways to write the program, by the names of their variants on the host executor.
    pub variants: &'static [(&'static str, Expression<N>)],
}

/// An input before it is drawn.
#[derive(Clone, Debug)]
pub struct Input {
    name: &'static str,
    distribution: InputDistribution,
    stream: u64,
    /// Name and length of each axis; axes with the same name have the same length.
    axes: Vec<(&'static str, usize)>,
}

/// Distribution of random inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputDistribution {
    /// Uniform in [0, 1).
    Uniform,
    /// Uniform in [-1, 1).
    Centred,
    /// Normal, with mean 0 and variance 1.
    Normal,
}

/// An input with its numbers.
#[derive(Clone, Debug)]
pub struct Array {
    /// Length of each axis.
    pub shape: Vec<usize>,
    /// Elements, row-major.
    pub elements: Vec<f32>,
}

/// Result of an oracle.
#[derive(Clone, Debug)]
pub struct Truth {
    /// Expected result; integers and truth values (0 or 1) are exact in f64.
    pub expected: Vec<f64>,
    /// Tolerance for a result.
    pub tolerance: Tolerance,
    /// Arithmetic operations of the program, including comparisons and selections.
    pub operations: f64,
}

impl InputDistribution {
    /// Draws `len` numbers from one stream of the generator whose seed all workloads share.
    #[must_use]
    pub fn draw(self, len: usize, stream: u64) -> Vec<f32> {
        let random = Philox::new(SEED).stream(stream);
        let mut numbers = vec![0.0; len];
        match self {
            Self::Uniform | Self::Centred => random.fill_uniform_f32(0, &mut numbers),
            Self::Normal => random.fill_normal_f32(0, &mut numbers),
        }
        if self == Self::Centred {
            numbers.iter_mut().for_each(|x| *x = 2.0 * *x - 1.0);
        }
        numbers
    }
}

impl Input {
    /// Creates an input with these axes, drawn from `stream`; inputs of one program need different
    /// streams.
    #[must_use]
    pub fn new(
        name: &'static str,
        distribution: InputDistribution,
        stream: u64,
        axes: &[(&'static str, usize)],
    ) -> Self {
        Self {
            name,
            distribution,
            stream,
            axes: axes.to_vec(),
        }
    }

    /// Returns a tensor of zeros of the input's shape.
    fn zeros(&self) -> Tensor {
        let shape: Vec<usize> = self.axes.iter().map(|&(_, len)| len).collect();
        Tensor::from_vec(&shape, vec![0.0_f32; shape.iter().product()])
    }

    fn draw(&self) -> Array {
        let shape: Vec<usize> = self.axes.iter().map(|&(_, len)| len).collect();
        let elements = self.distribution.draw(shape.iter().product(), self.stream);
        Array { shape, elements }
    }
}

impl Array {
    /// Returns the lengths of the array's `D` axes.
    ///
    /// # Panics
    /// If the array does not have `D` axes.
    #[must_use]
    pub fn sides<const D: usize>(&self) -> [usize; D] {
        let sides = self.shape[..].try_into();
        sides.expect(
            "the number of axes must be the one for which the oracle and the loops were written",
        )
    }

    /// Iterates over the items of the first axis: the rows of a matrix, the images of a batch.
    pub fn items(&self) -> impl Iterator<Item = &[f32]> + Clone {
        let len = self.shape.iter().skip(1).product::<usize>();
        // With an item length of 0 the array is empty, and the iterator yields no items.
        self.elements.chunks_exact(len.max(1))
    }

    /// Returns a view of a matrix.
    ///
    /// # Errors
    /// The array does not have two axes.
    pub fn matrix(&self) -> Result<ArrayView2<'_, f32>> {
        let shape: [usize; 2] = self.shape[..]
            .try_into()
            .context("matrix: array does not have two axes")?;
        Ok(ArrayView2::from_shape(shape, &self.elements)?)
    }

    fn tensor(&self) -> Tensor {
        Tensor::from_vec(&self.shape, self.elements.clone())
    }
}

impl<T: OutputElement, const N: usize> TensorWorkload<T, N> {
    /// Draws the inputs and computes the expected result.
    ///
    /// # Errors
    /// An error of the oracle.
    pub fn problem(self) -> Result<Box<dyn Problem>> {
        let arrays = self.inputs.each_ref().map(Input::draw);
        let truth = (self.truth)(&arrays)?;
        Ok(Box::new(Drawn {
            program: self,
            arrays,
            truth,
        }))
    }

    /// Returns the task of running this program.
    #[must_use]
    pub fn task(self) -> Task {
        let (inputs, expression) = (self.inputs.clone(), self.expression);
        Task::new(self.name, self.source, self.size.clone(), move || {
            self.clone().problem()
        })
        .with_program(move || expression(&inputs.each_ref().map(Input::zeros)))
    }
}

/// A program with its inputs and the expected result.
struct Drawn<T, const N: usize> {
    program: TensorWorkload<T, N>,
    arrays: [Array; N],
    truth: Truth,
}

impl<T: OutputElement, const N: usize> Drawn<T, N> {
    fn whole(&self) -> Extent {
        let n_inputs: usize = self.arrays.iter().map(|array| array.elements.len()).sum();
        let n_results = self.truth.expected.len();
        let bytes = n_inputs * size_of::<f32>() + n_results * size_of::<T>();
        Extent::new(Work::Operations(self.truth.operations), bytes as f64)
    }

    fn variants<'a>(&'a self, gpus: &'a [Gpu]) -> Vec<Variant<'a>> {
        let (whole, len) = (self.whole(), self.truth.expected.len());
        let loops = |out: &mut Vec<T>| (self.program.loops)(&self.arrays, out);
        let tensors = self.arrays.each_ref().map(Array::tensor);
        let compiled = |&(name, expression): &(&'static str, Expression<N>)| {
            Variant::compiled::<T>(name, whole, tensors.to_vec(), called(expression))
        };
        let mut variants = vec![Variant::on_cpu("loops", whole, len, loops)];
        variants.extend(self.program.variants.iter().map(compiled));
        variants.push(compiled(&("host", self.program.expression)));
        variants.extend(gpus.iter().map(|gpu| {
            Variant::on_gpu::<T>(
                gpu,
                whole,
                tensors.to_vec(),
                called(self.program.expression),
            )
        }));
        variants
    }

    fn rivals(&self) -> Vec<BaselineArguments<'_>> {
        let inputs = &self.program.inputs;
        let mut sizes: Vec<(&str, usize)> = Vec::new();
        for axis in inputs.iter().flat_map(|input| &input.axes) {
            if !sizes.contains(axis) {
                sizes.push(*axis);
            }
        }
        let drawn = inputs.iter().zip(&self.arrays);
        let arrays: Vec<(&str, &[f32])> = drawn
            .map(|(input, array)| (input.name, &array.elements[..]))
            .collect();
        BaselineArguments::each(&LIBRARIES, self.program.script, &sizes, &arrays)
    }
}

/// Converts an expression of an array of tensors to a function of a slice.
fn called<const N: usize>(expression: Expression<N>) -> impl Fn(&[Tensor]) -> Tensor {
    move |args| {
        let args = args.try_into();
        expression(args.expect("number of tensors must be the number of inputs"))
    }
}

impl<T: OutputElement, const N: usize> Problem for Drawn<T, N> {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        let (expected, tolerance) = (&self.truth.expected, self.truth.tolerance.clone());
        Workload::with_expected::<T>(self.whole(), expected, tolerance)
            .with_variants(self.variants(gpus))
            .with_rivals(self.rivals())
    }
}
