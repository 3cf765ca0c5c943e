//! A workload defined as a program on tensors: named inputs, one expression, an oracle.
//!
//! Role: the short way to define a [`Workload`]. It needs the distribution of each input, an
//! oracle, plain loops and the tensor expression; variants, bytes, check and the rivals' jobs
//! follow from these.
//! Method: a [`TensorWorkload`] is cheap to create and to list; its task draws the inputs and runs
//! the oracle. A rival's script receives every input, and the length of every axis, under the same
//! names as here.
//! Shapes: inputs and result are row-major and contiguous.
//! Limits: inputs are random numbers of f32, also if the program takes them as f64 or as integers,
//! and all variants do the whole work.

use crate::on_gpu;
use crate::rivals::{BaselineArguments, Script};
use crate::workload::{Extent, InputType, OutputElement, Problem, Task, Variant, Work, Workload};
use anyhow::{Context, Result};
use charts::Figure;
use gpu_wgsl::Gpu;
use std::rc::Rc;
use tensor_core::compare::Tolerance;
use tensor_core::ndarray::ArrayView2;
use tensor_core::rng::Philox;
use tensor_core::{Host, Tensor};

/// Seed of all random inputs.
const SEED: u64 = 457_428_938_475;
/// Largest limit of [`InputDistribution::Below`]: f32 holds all integers up to it.
const MAX_BELOW: u32 = 1 << 24;

/// Reason for which a program leaves out software drivers.
const TOO_SLOW: &str =
    "workloads of the host executor would take minutes on a driver that computes on the CPU";

/// A program of `N` inputs, written as a tensor expression.
pub type Expression<const N: usize> = Rc<dyn Fn(&[Tensor; N]) -> Tensor>;
/// An oracle of `N` inputs.
pub type Oracle<const N: usize> = Rc<dyn Fn(&[Array; N]) -> Result<Truth>>;
/// The plainest code for a program of `N` inputs, which fills the result.
pub type Loops<T, const N: usize> = Rc<dyn Fn(&[Array; N], &mut [T]) -> Result<()>>;

/// A program of `N` inputs with its oracle; elements of the result are `T`.
#[allow(
    missing_debug_implementations,
    reason = "closures do not implement Debug"
)]
#[derive(Clone)]
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
    pub truth: Oracle<N>,
    /// The variant `loops`.
    pub loops: Loops<T, N>,
    /// The program as a user writes it; run by the host executor and by each GPU.
    pub expression: Expression<N>,
    /// The other settings.
    pub options: Options<N>,
}

/// Settings of a [`TensorWorkload`] that have a default.
#[allow(
    missing_debug_implementations,
    reason = "closures do not implement Debug"
)]
#[derive(Clone)]
pub struct Options<const N: usize> {
    /// Libraries that the program is compared with; by default NumPy, PyTorch with and without
    /// compilation, and JAX.
    pub libraries: &'static [&'static str],
    /// Integers that a rival receives in addition to the lengths of the axes; by default none.
    pub sizes: Vec<(&'static str, usize)>,
    /// Other ways to write the program, by the names of their variants on the host executor; by
    /// default none.
    pub variants: Vec<(&'static str, Expression<N>)>,
    /// Whether a variant `eval` plans the program at each run, to show the cost of planning; by
    /// default not.
    pub is_evaluated: bool,
    /// Whether software drivers run the program, which compute on the CPU; by default they do.
    pub runs_on_software: bool,
    /// Figure that explains the program; by default none.
    pub figure: Option<Figure>,
}

impl<const N: usize> Default for Options<N> {
    fn default() -> Self {
        Self {
            libraries: &["numpy", "torch", "torch-compile", "jax"],
            sizes: Vec::new(),
            variants: Vec::new(),
            is_evaluated: false,
            runs_on_software: true,
            figure: None,
        }
    }
}

/// An input before it is drawn.
#[derive(Clone, Debug)]
pub struct Input {
    name: &'static str,
    distribution: InputDistribution,
    stream: u64,
    element: InputType,
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
    /// Uniform among the integers from 0 and below this limit, which is at most 2²⁴.
    Below(u32),
}

/// An input with its numbers.
#[derive(Clone, Debug)]
pub struct Array {
    /// Length of each axis.
    pub shape: Vec<usize>,
    /// Elements, row-major, in f32 whatever the type of the input.
    pub elements: Vec<f32>,
}

/// Result of an oracle.
#[derive(Clone, Debug)]
pub struct Truth {
    /// Expected result; integers and truth values (0 or 1) are exact in f64.
    pub expected: Vec<f64>,
    /// Tolerance for a result.
    pub tolerance: Tolerance,
    /// Amount of work of the program.
    pub work: Work,
}

impl InputDistribution {
    /// Draws `len` numbers from one stream of the generator whose seed all workloads share.
    ///
    /// # Panics
    /// If the limit of integers is 0 or too large.
    #[must_use]
    pub fn draw(self, len: usize, stream: u64) -> Vec<f32> {
        let random = Philox::new(SEED).stream(stream);
        let mut numbers = vec![0.0; len];
        if self == Self::Normal {
            random.fill_normal_f32(0, &mut numbers);
        } else {
            random.fill_uniform_f32(0, &mut numbers);
        }
        match self {
            Self::Centred => numbers.iter_mut().for_each(|x| *x = 2.0 * *x - 1.0),
            Self::Below(limit) => {
                assert!(
                    (1..=MAX_BELOW).contains(&limit),
                    "draw: limit of integers out of range (got {limit}; expected 1 to {MAX_BELOW})"
                );
                // The product may round up to the limit itself.
                let (scale, last) = (limit as f32, (limit - 1) as f32);
                numbers
                    .iter_mut()
                    .for_each(|x| *x = (*x * scale).floor().min(last));
            }
            Self::Uniform | Self::Normal => {}
        }
        numbers
    }
}

impl Input {
    /// Creates an input with these axes, drawn from `stream`; inputs of one program need different
    /// streams. The program takes integers as u32 and other numbers as f32.
    #[must_use]
    pub fn new(
        name: &'static str,
        distribution: InputDistribution,
        stream: u64,
        axes: &[(&'static str, usize)],
    ) -> Self {
        let element = match distribution {
            InputDistribution::Below(_) => InputType::U32,
            _ => InputType::F32,
        };
        Self {
            name,
            distribution,
            stream,
            element,
            axes: axes.to_vec(),
        }
    }

    /// Returns this input as one that the program takes in another type, which must hold the
    /// numbers exactly.
    #[must_use]
    pub fn with_type(self, element: InputType) -> Self {
        Self { element, ..self }
    }

    fn shape(&self) -> Vec<usize> {
        self.axes.iter().map(|&(_, len)| len).collect()
    }

    /// Returns a tensor of zeros of the input's shape and type.
    fn zeros(&self) -> Tensor {
        let len = self.shape().iter().product();
        self.tensor(&vec![0.0; len])
    }

    fn draw(&self) -> Array {
        let shape = self.shape();
        let elements = self.distribution.draw(shape.iter().product(), self.stream);
        Array { shape, elements }
    }

    /// Returns a tensor of these elements, in the input's type.
    fn tensor(&self, elements: &[f32]) -> Tensor {
        let (shape, elements) = (self.shape(), elements.iter().copied());
        match self.element {
            InputType::F32 => Tensor::from_vec(&shape, elements.collect::<Vec<f32>>()),
            InputType::F64 => Tensor::from_vec(&shape, elements.map(f64::from).collect()),
            InputType::U32 => Tensor::from_vec(&shape, elements.map(InputType::integer).collect()),
        }
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

    /// Returns the elements in f64.
    #[must_use]
    pub fn in_f64(&self) -> Vec<f64> {
        self.elements.iter().copied().map(f64::from).collect()
    }

    /// Returns an element of an array of integers as a position in another array.
    ///
    /// # Panics
    /// If there is no such element.
    #[must_use]
    pub fn position(&self, at: usize) -> usize {
        InputType::integer(self.elements[at]) as usize
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
        let (inputs, expression) = (self.inputs.clone(), self.expression.clone());
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
        let inputs = self.program.inputs.iter().zip(&self.arrays);
        let n_bytes =
            |(input, array): (&Input, &Array)| array.elements.len() * input.element.bytes();
        let results = self.truth.expected.len() * size_of::<T>();
        let bytes = inputs.map(n_bytes).sum::<usize>() + results;
        Extent::new(self.truth.work, bytes as f64)
    }

    fn variants<'a>(&'a self, gpus: &[&'a Gpu]) -> Vec<Variant<'a>> {
        let (whole, len) = (self.whole(), self.truth.expected.len());
        let loops = |out: &mut Vec<T>| (self.program.loops)(&self.arrays, out);
        let (inputs, options) = (&self.program.inputs, &self.program.options);
        let tensors: [Tensor; N] =
            std::array::from_fn(|at| inputs[at].tensor(&self.arrays[at].elements));
        let expression = &self.program.expression;
        let compiled = |name, expression| {
            Variant::compiled::<T>(name, whole, tensors.to_vec(), called(expression))
        };
        let mut variants = vec![Variant::on_cpu("loops", whole, len, loops)];
        let others = options.variants.iter();
        variants.extend(others.map(|(name, expression)| compiled(name, expression)));
        if options.is_evaluated {
            let tensors = tensors.clone();
            let program = move || expression(&tensors);
            variants.push(Variant::evaluated::<T>("eval", Host::new(), whole, program));
        }
        variants.push(compiled("host", expression));
        variants.extend(
            gpus.iter()
                .map(|gpu| Variant::on_gpu::<T>(gpu, whole, tensors.to_vec(), called(expression))),
        );
        variants
    }

    fn rivals(&self) -> Vec<BaselineArguments<'_>> {
        let (inputs, options) = (&self.program.inputs, &self.program.options);
        let mut sizes: Vec<(&str, usize)> = options.sizes.clone();
        for axis in inputs.iter().flat_map(|input| &input.axes) {
            if !sizes.contains(axis) {
                sizes.push(*axis);
            }
        }
        let drawn = inputs.iter().zip(&self.arrays);
        let arrays: Vec<(&str, &[f32])> = drawn
            .map(|(input, array)| (input.name, &array.elements[..]))
            .collect();
        let types = inputs.iter().map(|input| (input.name, input.element));
        let types: Vec<(&str, InputType)> = types.collect();
        let mut jobs =
            BaselineArguments::each(options.libraries, self.program.script, &sizes, &arrays);
        jobs.iter_mut().for_each(|job| job.types.clone_from(&types));
        jobs
    }
}

/// Converts an expression of an array of tensors to a function of a slice.
fn called<const N: usize>(expression: &Expression<N>) -> impl Fn(&[Tensor]) -> Tensor {
    move |args| {
        let args = args.try_into();
        expression(args.expect("number of tensors must be the number of inputs"))
    }
}

impl<T: OutputElement, const N: usize> Problem for Drawn<T, N> {
    fn workload<'a>(&'a self, gpus: &'a [Gpu]) -> Workload<'a> {
        let (expected, tolerance) = (&self.truth.expected, self.truth.tolerance.clone());
        let (gpus, left_out) = if self.program.options.runs_on_software {
            (gpus.iter().collect(), Vec::new())
        } else {
            on_gpu::hardware(gpus, TOO_SLOW)
        };
        let workload = Workload::with_expected::<T>(self.whole(), expected, tolerance)
            .with_variants(self.variants(&gpus))
            .with_left_out(left_out)
            .with_rivals(self.rivals());
        match &self.program.options.figure {
            Some(figure) => workload.with_figure(|_| Ok(figure.clone())),
            None => workload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor_core::DType;

    #[test]
    fn integers_are_whole_and_reach_both_ends() {
        let mut numbers = InputDistribution::Below(3).draw(1000, 0);
        assert!(numbers.iter().all(|x| x.fract() == 0.0));
        numbers.sort_by(f32::total_cmp);
        assert_eq!((numbers[0], numbers[999]), (0.0, 2.0));
    }

    #[test]
    fn inputs_become_tensors_of_their_types() {
        let uniform = Input::new("x", InputDistribution::Uniform, 0, &[("n", 2)]);
        let integers = Input::new("index", InputDistribution::Below(9), 0, &[("n", 2)]);
        let wide = uniform.clone().with_type(InputType::F64);
        let types = [uniform, integers, wide].map(|input| input.zeros().dtype().unwrap());
        assert_eq!(types, [DType::F32, DType::U32, DType::F64]);
    }
}
