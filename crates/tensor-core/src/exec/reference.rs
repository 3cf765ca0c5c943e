//! The reference executor: computes one element at a time, without optimization.
//!
//! Role: the oracle that every other executor is compared with.
//! Method: for each output element, computes all values in order by their definitions in
//! [`crate::op`] and rounds each to its own type. Integers wrap. Float sums and products are
//! accumulated in f64 and rounded once; those of a scan are rounded at each point. The operand of a
//! scan is computed at all points first.
//! Cost: one pass over the loops with a `match` at every value; meant for tests and
//! `TENSOR_VERIFY=1`.

use std::sync::Arc;

use super::accuracy::Accuracy;
use super::analysis::{Approximate, FoldError};
use super::{Executor, HostStorage, Storage};
use crate::dtype::{DType, Element, HostData, Scalar, with_element};
use crate::error::{Error, Result};
use crate::ir::{Guard, LoopNest, Value, ValueId, low_bits};
use crate::op::{Reduce, Scan, Sort, Sorted};
use crate::plan::{Step, Target};
use crate::rng::philox4x32_10;
use crate::storage::zeros;

/// The executor that defines correct results.
///
/// # Examples
/// ```
/// use tensor_core::ndarray::arr0;
/// use tensor_core::{Reference, Tensor};
/// let mean = Tensor::arange(5).mean(..);
/// assert_eq!(mean.eval::<f32>(&Reference)?, arr0(2.0).into_dyn());
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Reference;

impl Executor for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn target(&self) -> Target {
        Target {
            max_values: 64,
            max_inputs: 16,
            min_product: None,
            computes_factors: true,
            stores_halves: false,
            merges_sums: false,
            min_band: None,
        }
    }

    fn owns(&self, storage: &dyn Storage) -> bool {
        HostStorage::downcast(storage).is_some()
    }

    fn upload(&self, data: HostData) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(HostStorage::foreign(data)))
    }

    fn run(&self, step: &Step, inputs: &[Arc<dyn Storage>]) -> Result<Arc<dyn Storage>> {
        let data = host_inputs(inputs)?;
        let output = evaluate(&step.nest, &data, None)?.output;
        Ok(Arc::new(HostStorage::foreign(output)))
    }
}

/// Returns an error if a nest breaks a rule of the intermediate representation.
pub(super) fn checked(nest: &LoopNest, inputs: &[&HostData]) -> Result<()> {
    let inputs: Vec<(DType, usize)> = inputs
        .iter()
        .map(|data| (data.dtype(), data.len()))
        .collect();
    nest.check(&inputs).map_err(|what| Error::BadStep { what })
}

/// Returns the data of inputs in host memory.
pub(super) fn host_inputs(inputs: &[Arc<dyn Storage>]) -> Result<Vec<&HostData>> {
    let foreign = || Error::ForeignStorage;
    inputs
        .iter()
        .map(|input| HostStorage::downcast(input.as_ref()).ok_or_else(foreign))
        .collect()
}

/// The output of a nest.
pub(super) struct Evaluated {
    pub(super) output: HostData,
    /// For each element, a bound on the error that an executor may make; empty without accuracy.
    pub(super) errors: Vec<f64>,
    /// For each element, whether it depends on a comparison that could fall either way, as far as
    /// the comparison is no part of a scan or sort; empty without accuracy.
    pub(super) is_open: Vec<bool>,
}

/// Computes the output of a nest, and the errors that an executor of an accuracy may make.
pub(super) fn evaluate(
    nest: &LoopNest,
    inputs: &[&HostData],
    accuracy: Option<Accuracy>,
) -> Result<Evaluated> {
    checked(nest, inputs)?;
    let len = nest.output_len();
    with_element!(nest.dtype(), T => {
        let mut out: Vec<T> = zeros("reference", len)?;
        out.clear();
        let (mut errors, mut is_open) = (Vec::new(), Vec::new());
        let mut point = LoopPoint::new(nest, inputs, accuracy);
        point.run_lines()?;
        for number in 0..len {
            point.compute_all(number)?;
            let result = nest.result().0;
            out.push(T::from_scalar(point.values[result]).unwrap_or_default());
            if accuracy.is_some() {
                errors.push(point.errors[result]);
                is_open.push(point.is_open[result]);
            }
            point.advance(0..nest.domain.len());
        }
        let output = T::into_host(out);
        Ok(Evaluated { output, errors, is_open })
    })
}

/// A point of the loops, and the values at this point.
struct LoopPoint<'n> {
    nest: &'n LoopNest,
    inputs: &'n [&'n HostData],
    sizes: Vec<usize>,
    index: Vec<usize>,
    values: Vec<Scalar>,
    /// The error bound of each value; used only if `accuracy` is set.
    errors: Vec<f64>,
    /// Whether each value depends on an open comparison; used only if `accuracy` is set.
    is_open: Vec<bool>,
    accuracy: Option<Accuracy>,
    body: Vec<usize>,
    reductions: Vec<usize>,
    epilogue: Vec<usize>,
    /// The results of the scan or sort at all points of the domain; empty if the nest has neither.
    lines: Vec<Approximate>,
}

impl<'n> LoopPoint<'n> {
    fn new(nest: &'n LoopNest, inputs: &'n [&'n HostData], accuracy: Option<Accuracy>) -> Self {
        let sizes = nest.sizes();
        let is_reduction = |&id: &usize| matches!(nest.values[id], Value::Reduced(..));
        let marked = |marks: Vec<bool>| {
            let ids = (0..marks.len()).filter(move |&id| marks[id]);
            ids.collect::<Vec<usize>>()
        };
        let mut epilogue = marked(nest.epilogue());
        epilogue.retain(|&id| !nest.values[id].is_fold());
        Self {
            nest,
            inputs,
            index: vec![0; sizes.len()],
            sizes,
            values: nest
                .dtypes
                .iter()
                .map(|&dtype| Scalar::zero(dtype))
                .collect(),
            errors: vec![0.0; nest.values.len()],
            is_open: vec![false; nest.values.len()],
            accuracy,
            body: marked(nest.body()),
            reductions: (0..nest.values.len()).filter(is_reduction).collect(),
            epilogue,
            lines: Vec::new(),
        }
    }

    /// Advances the index of some axes by one, in row-major order. Returns `false` when it wraps
    /// around to the first index.
    fn advance(&mut self, axes: std::ops::Range<usize>) -> bool {
        for axis in axes.rev() {
            self.index[axis] += 1;
            if self.index[axis] < self.sizes[axis] {
                return true;
            }
            self.index[axis] = 0;
        }
        false
    }

    /// Computes all values at the current index of the domain axes, the point of this number.
    fn compute_all(&mut self, number: usize) -> Result<()> {
        if !self.reductions.is_empty() {
            self.reduce()?;
        }
        if let Some((id, _)) = self.line_value() {
            let Approximate { value, error } = self.lines[number];
            (self.values[id], self.errors[id]) = (value, error);
        }
        for number in 0..self.epilogue.len() {
            self.set(self.epilogue[number])?;
        }
        Ok(())
    }

    /// Returns the scan or sort of the nest and its number, or `None` if the nest has neither.
    fn line_value(&self) -> Option<(usize, &'n Value)> {
        let mut values = self.nest.values.iter().enumerate();
        values.find(|(_, value)| value.line_axis().is_some())
    }

    /// Computes the scan or sort of the nest, if it has one, at all points.
    fn run_lines(&mut self) -> Result<()> {
        let nest = self.nest;
        let (Some((_, value)), Some(axis)) = (self.line_value(), nest.line_axis()) else {
            return Ok(());
        };
        for operand in value.operands() {
            for _ in 0..nest.output_len() {
                self.compute_body()?;
                self.lines.push(self.approximate(operand));
                self.advance(0..nest.domain.len());
            }
        }
        // An element and the next one along the axis are `stride` elements apart.
        let (n, stride) = (
            nest.domain[axis],
            nest.domain[axis + 1..].iter().product::<usize>(),
        );
        for block in self.lines.chunks_mut((n * stride).max(1)) {
            for first in 0..stride {
                let line = block[first..].iter_mut().step_by(stride).collect();
                match value {
                    Value::Scanned(scan, _) => run_scan(*scan, line, self.accuracy),
                    Value::Sorted(sort, _) => run_sort(*sort, line),
                    _ => unreachable!("a value with lines is a scan or a sort"),
                }
            }
        }
        Ok(())
    }

    /// Computes the values on which folds depend, at the current index.
    fn compute_body(&mut self) -> Result<()> {
        for number in 0..self.body.len() {
            self.set(self.body[number])?;
        }
        Ok(())
    }

    /// Runs the reduction loops for the current domain index: computes the body values at every
    /// index of the reduction axes and folds the results.
    fn reduce(&mut self) -> Result<()> {
        let nest = self.nest;
        let fold_of = |&id: &usize| {
            let Value::Reduced(op, operand) = nest.values[id] else {
                unreachable!("only reductions are folded");
            };
            let fold = Accumulator::of_reduction(op, nest.dtypes[operand.0]);
            (fold, FoldError::new(op))
        };
        let mut folds: Vec<(Accumulator, FoldError)> =
            self.reductions.iter().map(fold_of).collect();
        for &id in &self.reductions {
            self.is_open[id] = false;
        }
        let loops = nest.domain.len()..self.sizes.len();
        // Every value of the body is computed at every point of the reduction, then folded.
        let mut more = nest.reduce_len() > 0;
        while more {
            self.compute_body()?;
            for ((fold, error), &id) in folds.iter_mut().zip(&self.reductions) {
                if let Value::Reduced(_, operand) = nest.values[id] {
                    fold.push(self.values[operand.0]);
                    if self.accuracy.is_some() {
                        error.push(self.approximate(operand));
                        self.is_open[id] |= self.is_open[operand.0];
                    }
                }
            }
            more = self.advance(loops.clone());
        }
        for ((fold, mut error), &id) in folds.into_iter().zip(&self.reductions) {
            self.values[id] = fold.result();
            self.errors[id] = match self.accuracy {
                Some(accuracy) => accuracy.folded(&mut error, self.values[id]),
                None => 0.0,
            };
        }
        Ok(())
    }

    fn approximate(&self, id: ValueId) -> Approximate {
        Approximate {
            value: self.values[id.0],
            error: self.errors[id.0],
        }
    }

    /// Returns whether a value depends on a comparison that could fall either way.
    fn depends_on_open_comparison(&self, id: usize) -> bool {
        let is_open = |operand: ValueId| self.is_open[operand.0];
        match self.nest.values[id] {
            Value::Compare(..) => self.errors[id] > 0.0,
            Value::Select(condition, a, b) => {
                let [condition_value, a_value, b_value] =
                    [condition, a, b].map(|operand| self.values[operand.0]);
                let is_a = condition_value == Scalar::Bool(true);
                (is_open(condition) && a_value != b_value) || is_open(if is_a { a } else { b })
            }
            ref value => value.operands().any(is_open),
        }
    }

    /// Computes a value and, if an accuracy is given, the bound on its error.
    fn set(&mut self, id: usize) -> Result<()> {
        let value = self.compute(id)?;
        if let Some(accuracy) = self.accuracy {
            let of = |operand: ValueId| self.approximate(operand);
            self.errors[id] = match &self.nest.values[id] {
                Value::Unary(op, a) => accuracy.unary(*op, of(*a), value),
                Value::Binary(op, a, b) => accuracy.binary(*op, of(*a), of(*b), value),
                Value::Compare(op, a, b) => accuracy.compare(*op, of(*a), of(*b)),
                Value::Select(condition, a, b) if of(*condition).value == Scalar::Bool(true) => {
                    accuracy.select(of(*condition), of(*a), of(*b))
                }
                Value::Select(condition, a, b) => accuracy.select(of(*condition), of(*b), of(*a)),
                Value::Cast(_, a) => accuracy.cast(of(*a), value),
                // A wrong index or random counter selects an unrelated element or word, so its
                // error has no bound.
                Value::Gather { at, .. } | Value::Position { at, .. } if of(*at).error > 0.0 => {
                    f64::INFINITY
                }
                Value::Random { at, stream, .. }
                    if [*at, stream[0], stream[1]]
                        .iter()
                        .any(|word| of(*word).error > 0.0) =>
                {
                    f64::INFINITY
                }
                _ => 0.0,
            };
            self.is_open[id] = self.depends_on_open_comparison(id);
        }
        self.values[id] = value;
        Ok(())
    }

    fn compute(&self, id: usize) -> Result<Scalar> {
        let of = |value: ValueId| self.values[value.0];
        let inside = |guards: &[Guard]| guards.iter().all(|guard| guard.holds(&self.index));
        let dtype = self.nest.dtypes[id];
        Ok(match &self.nest.values[id] {
            Value::Const(scalar) => *scalar,
            Value::Index(map) => Scalar::U32(low_bits(map.at(&self.index))),
            Value::Inside(guards) => Scalar::Bool(inside(guards)),
            Value::Load { guards, .. }
            | Value::Gather { guards, .. }
            | Value::Position { guards, .. }
                if !inside(guards) =>
            {
                Scalar::zero(dtype)
            }
            Value::Load { input, map, .. } => self.read(*input, map.at(&self.index), dtype),
            Value::Gather {
                input,
                map,
                at,
                stride,
                extent,
                ..
            } => {
                let place = checked_place(of(*at), *extent)?;
                // A stride of a nest that was built by hand may overflow.
                let shift = stride.wrapping_mul(place.cast_signed());
                self.read(*input, map.at(&self.index).wrapping_add(shift), dtype)
            }
            Value::Position { at, extent, .. } => {
                let place = checked_place(of(*at), *extent)?;
                Scalar::U32(low_bits(place.cast_signed()))
            }
            Value::Random {
                key,
                stream,
                at,
                stride,
                first,
            } => {
                let word = |value: ValueId| match of(value) {
                    Scalar::U32(word) => word,
                    other => unreachable!("random: {} word (expected u32)", other.dtype()),
                };
                Scalar::U32(random_word(
                    *key,
                    stream.map(word),
                    word(*at).wrapping_mul(*stride).wrapping_add(*first),
                ))
            }
            Value::Unary(op, a) => op.eval(of(*a)),
            Value::Binary(op, a, b) => op.eval(of(*a), of(*b)),
            Value::Compare(op, a, b) => Scalar::Bool(op.eval(of(*a), of(*b))),
            Value::Select(condition, a, b) if of(*condition) == Scalar::Bool(true) => of(*a),
            Value::Select(_, _, b) => of(*b),
            Value::Cast(to, a) => of(*a).cast(*to),
            Value::Reduced(..) | Value::Scanned(..) | Value::Sorted(..) => self.values[id],
        })
    }

    /// Returns an element of an input, or zero if the position is out of range. Only values that
    /// the result does not use have such positions.
    fn read(&self, input: usize, position: isize, dtype: DType) -> Scalar {
        let element = usize::try_from(position)
            .ok()
            .and_then(|at| self.inputs[input].get(at));
        element.unwrap_or_else(|| Scalar::zero(dtype))
    }
}

/// Returns the position on an axis that belongs to an index.
///
/// # Errors
/// [`Error::IndexOutOfRange`] for an index outside `-extent..extent`.
pub(super) fn checked_place(index: Scalar, extent: usize) -> Result<usize> {
    gathered_place(index, extent).ok_or_else(|| Error::IndexOutOfRange {
        index: index.to_f64(),
        extent,
    })
}

/// Returns the position at which a gather reads along an axis. A negative index counts from the
/// end. Returns `None` outside `-extent..extent`.
pub(super) fn gathered_place(index: Scalar, extent: usize) -> Option<usize> {
    let place = match index {
        Scalar::I32(index) if index < 0 => extent.checked_sub(index.unsigned_abs() as usize)?,
        Scalar::I32(index) => index.unsigned_abs() as usize,
        Scalar::U32(index) => index as usize,
        _ => return None,
    };
    (place < extent).then_some(place)
}

/// Returns word `at` of a random stream. Each Philox block has four words, so the block number is
/// `at / 4`.
pub(super) fn random_word(key: [u32; 2], stream: [u32; 2], at: u32) -> u32 {
    philox4x32_10([at / 4, 0, stream[0], stream[1]], key)[at as usize % 4]
}

/// Replaces the elements of a line by the results of a scan. If an accuracy is given, replaces the
/// errors of the elements by bounds on the errors of the results.
fn run_scan(scan: Scan, mut line: Vec<&mut Approximate>, accuracy: Option<Accuracy>) {
    if scan.reversed {
        line.reverse();
    }
    let Some(dtype) = line.first().map(|element| element.value.dtype()) else {
        return;
    };
    let mut fold = Accumulator::new(scan.op, dtype, scan.start(dtype));
    let mut error = FoldError::new(scan.op);
    let so_far = |fold: &Accumulator, error: &mut FoldError| {
        let value = fold.result();
        let error = accuracy.map_or(0.0, |accuracy| accuracy.folded(error, value));
        Approximate { value, error }
    };
    for element in line {
        let before = scan.exclusive.then(|| so_far(&fold, &mut error));
        fold.push(element.value);
        if accuracy.is_some() {
            error.push(*element);
        }
        *element = before.unwrap_or_else(|| so_far(&fold, &mut error));
    }
}

/// Replaces the elements of a line by the results of a sort. The elements are exact, because they
/// are those of an input.
fn run_sort(sort: Sort, line: Vec<&mut Approximate>) {
    let mut sorted: Vec<(u32, Approximate)> =
        (0..).zip(line.iter().map(|element| **element)).collect();
    sorted.sort_by(|(_, a), (_, b)| sort.compare(a.value, b.value));
    for (result, (position, element)) in line.into_iter().zip(sorted) {
        *result = match sort.result {
            Sorted::Elements => element,
            Sorted::Positions => Approximate {
                value: Scalar::U32(position),
                error: 0.0,
            },
        };
    }
}

/// The accumulator of a fold.
struct Accumulator {
    op: Reduce,
    /// The type of the result.
    dtype: DType,
    /// The partial result, in the type of the result, except that sums and products of floats are
    /// kept in f64; `None` before the first element.
    so_far: Option<Scalar>,
    /// The result of a fold over no elements.
    empty: Scalar,
}

impl Accumulator {
    /// Creates the accumulator of a reduction over elements of a type.
    fn of_reduction(op: Reduce, elements: DType) -> Self {
        // The builder of a program rejects a maximum or minimum over no elements, so this value is
        // never read for those two operations.
        let dtype = op.result(elements);
        let empty = op.identity(elements).unwrap_or_else(|| Scalar::zero(dtype));
        Self::new(op, dtype, empty)
    }

    fn new(op: Reduce, dtype: DType, empty: Scalar) -> Self {
        Self {
            op,
            dtype,
            so_far: None,
            empty,
        }
    }

    fn push(&mut self, element: Scalar) {
        // Sums and products of floats are accumulated in f64 and rounded once, in `result`.
        let wide = self.dtype.is_float() && matches!(self.op, Reduce::Sum | Reduce::Prod);
        let element = element.cast(if wide { DType::F64 } else { self.dtype });
        self.so_far = Some(match self.so_far {
            // Starts at +0.0, so that a sum of negative zeros is +0.0 on every executor.
            None if self.op == Reduce::Sum => self
                .op
                .binary()
                .eval(Scalar::zero(element.dtype()), element),
            None => element,
            Some(so_far) => self.op.binary().eval(so_far, element),
        });
    }

    fn result(&self) -> Scalar {
        self.so_far.unwrap_or(self.empty).cast(self.dtype)
    }
}
