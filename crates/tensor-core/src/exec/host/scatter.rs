//! Scatters on the host.
//!
//! Role: runs a nest that is a [`Scatter`]: a reduction that compares an index with each position
//! of an axis. As loops, the nest takes time in proportion to positions times elements.
//! Method: one pass over the elements folds each of them into the result at its position. The index
//! and the elements are inputs of the nest, or arrays that the interpreter computes first. The pass
//! itself checks an index that must be inside of its axis. The interpreter then computes the values
//! after the folds.
//! Order: the elements of a result are folded in the order of the reduced axes. Long scatters into
//! few results are divided into parts, each with results of its own, which are combined in the
//! order of the parts. The division depends on the nest alone, so the bits of the result do not
//! depend on the number of threads.
//! Accuracy: sums of `f32` are accumulated in `f64`, except where elements are few compared with
//! positions.
//! Memory: a copy of the index and of the elements, unless they are inputs in the order below; the
//! results of the folds, if there are several or if the values after the folds have another type;
//! the accumulators of each task.
//!
//! ```text
//! index      [ outer | terms ] or [ outer | terms | width ]
//! elements   [ outer | terms ] or [ outer | terms | width ]    any strides before `width`
//! results    [ outer | positions | width ]
//! ```

use std::sync::Arc;

use pass::{Combine, InF64, Index, Largest, Pass, Smallest, Sum};

use super::around_fold::{epilogue_of, operand_of};
use super::kernel::Kernel;
use super::lanes::{LaneType, Stored};
use super::split::Loops;
use crate::dtype::{DType, HostData, with_element};
use crate::error::Result;
#[cfg(test)]
use crate::fault::{self, Fault};
use crate::ir::{IndexMap, LoopNest, Scatter, ScatterFold, Value, ValueId};
use crate::op::Reduce;
use crate::storage::{HostStorage, Pool};

mod pass;
#[cfg(test)]
mod tests;

/// The smallest number of terms per position, on average, whose sums are accumulated in `f64`.
const MANY_TERMS: usize = 16;

/// A compiled scatter.
#[derive(Debug)]
pub(super) struct ScatterLoops {
    sizes: Sizes,
    /// The sizes of the axes before the positions, and those of the reduced axes.
    outer: Vec<usize>,
    terms: Vec<usize>,
    at: Source,
    /// The type of the index in memory, `i32` or `u32`.
    at_dtype: DType,
    index: Index,
    folds: Vec<Fold>,
    /// The loops that compute the output from the results of the folds, which are further inputs;
    /// `None` if the results of the only fold are the output.
    epilogue: Option<Loops>,
    /// Whether the epilogue overwrites the results of the only fold with the output.
    is_in_place: bool,
}

/// The sizes of the merged axes of a scatter.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    outer: usize,
    terms: usize,
    positions: usize,
    width: usize,
}

/// A fold of a scatter.
#[derive(Debug)]
struct Fold {
    op: Reduce,
    /// The type of the results.
    dtype: DType,
    /// The elements; `None` if they are counted.
    elements: Option<Source>,
}

/// An array that a scatter reads. The elements of a term are contiguous, or there is one element
/// for the whole width.
#[derive(Debug)]
struct Source {
    place: Place,
    /// The position of the first element.
    first: usize,
    /// The strides of the outer axes, and those of the reduced axes.
    outer: Vec<usize>,
    terms: Vec<usize>,
    has_width: bool,
}

/// The memory of a source.
#[derive(Debug)]
enum Place {
    /// The input of this number.
    Input(usize),
    /// The output of a kernel.
    Computed(Box<Kernel>),
}

impl Sizes {
    /// Returns the number of results of one outer index.
    fn results(self) -> usize {
        self.positions * self.width
    }

    /// Returns the number of elements of one outer index.
    fn elements(self) -> usize {
        self.terms * self.width
    }
}

impl ScatterLoops {
    /// Compiles a nest for inputs of the given types and lengths, or returns `None` if the nest is
    /// no scatter. The output must not be empty.
    ///
    /// # Errors
    /// As [`Kernel::new`].
    pub(super) fn new(nest: &LoopNest, inputs: &[(DType, usize)]) -> Result<Option<Self>> {
        let Some(Scatter {
            axis,
            at,
            first,
            is_flipped,
            folds,
        }) = Scatter::from_nest(nest)
        else {
            return Ok(None);
        };
        // The largest index of a position. The pass checks an index that belongs to no position.
        let largest = first as usize + if is_flipped { 0 } else { nest.domain[axis] - 1 };
        let (at, extent) = match &nest.values[at.0] {
            Value::Position { guards, at, extent } if guards.is_empty() && largest < *extent => {
                (*at, Some(*extent))
            }
            _ => (at, None),
        };
        #[cfg(test)]
        let first = first.wrapping_sub(u32::from(fault::is_planted(Fault::ScatteredPosition)));
        // The conversion of a signed index changes no bits.
        let bits = match nest.values[at.0] {
            Value::Cast(DType::U32, from) if nest.dtypes[from.0] == DType::I32 => from,
            _ => at,
        };
        let source = |root: ValueId| Source::new(nest, inputs, axis, root);
        let in_order = IndexMap::in_order(&nest.domain);
        let ids: Vec<ValueId> = folds.iter().map(|fold| fold.folded).collect();
        let is_in_place = ids.len() == 1 && nest.dtypes[ids[0].0] == nest.dtype();
        let epilogue = (ids != [nest.result()]).then(|| {
            let rest = epilogue_of(nest, &ids, &in_order);
            match is_in_place {
                true => Loops::in_place(&rest),
                false => Loops::new(&rest),
            }
        });
        let fold = |fold: ScatterFold| -> Result<Fold> {
            Ok(Fold {
                op: fold.op,
                dtype: nest.dtypes[fold.folded.0],
                elements: fold.elements.map(source).transpose()?,
            })
        };
        Ok(Some(Self {
            sizes: Sizes {
                outer: nest.domain[..axis].iter().product(),
                terms: nest.reduce_len(),
                positions: nest.domain[axis],
                width: nest.domain[axis + 1..].iter().product(),
            },
            outer: nest.domain[..axis].to_vec(),
            terms: nest.reduce.clone(),
            at: source(bits)?,
            at_dtype: nest.dtypes[bits.0],
            index: Index {
                extent,
                is_signed: nest.dtypes[at.0] == DType::I32,
                first,
                is_flipped,
            },
            folds: folds.into_iter().map(fold).collect::<Result<_>>()?,
            epilogue,
            is_in_place,
        }))
    }

    /// Computes all output elements.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory),
    /// [`IndexOutOfRange`](crate::Error::IndexOutOfRange), and the errors of the values before and
    /// after the folds.
    pub(super) fn fill(
        &self,
        inputs: &[&HostData],
        out: &mut HostStorage,
        pool: &Arc<Pool>,
    ) -> Result<()> {
        let at_array = self.at.array(inputs, pool)?;
        let at = match self.at_dtype {
            DType::I32 => bytemuck::cast_slice(self.at.elements::<i32>(inputs, at_array.as_ref())),
            _ => self.at.elements::<u32>(inputs, at_array.as_ref()),
        };
        if let ([fold], true) = (&self.folds[..], self.is_in_place) {
            self.run_fold(fold, at, inputs, out, pool)?;
            return match &self.epilogue {
                None => Ok(()),
                Some(epilogue) => with_element!(fold.dtype, T => {
                    epilogue.fill::<T>(inputs, out.elements_mut())
                }),
            };
        }
        let mut results = Vec::new();
        for fold in &self.folds {
            let mut array = pool.take(fold.dtype, out.data().len())?;
            self.run_fold(fold, at, inputs, &mut array, pool)?;
            results.push(array);
        }
        let results = results.iter().map(HostStorage::data);
        let inputs: Vec<&HostData> = inputs.iter().copied().chain(results).collect();
        let Some(epilogue) = &self.epilogue else {
            unreachable!("the only fold of a nest without an epilogue is the output");
        };
        with_element!(out.data().dtype(), T => epilogue.fill::<T>(&inputs, out.elements_mut()))
    }

    /// Computes the results of a fold.
    fn run_fold(
        &self,
        fold: &Fold,
        at: &[u32],
        inputs: &[&HostData],
        out: &mut HostStorage,
        pool: &Arc<Pool>,
    ) -> Result<()> {
        let array = match &fold.elements {
            Some(elements) => elements.array(inputs, pool)?,
            None => None,
        };
        let run = Run {
            loops: self,
            fold,
            at,
            inputs,
            array: array.as_ref(),
            pool,
        };
        let has_many_terms = self.sizes.elements() >= MANY_TERMS * self.sizes.results();
        match (fold.dtype, fold.op) {
            (DType::F32, Reduce::Sum) if has_many_terms => run.fill::<f32, InF64>(out),
            (DType::F32, _) => run.fill_by_op::<f32>(out),
            (DType::F64, _) => run.fill_by_op::<f64>(out),
            (DType::I32, _) => run.fill_by_op::<i32>(out),
            _ => run.fill_by_op::<u32>(out),
        }
    }
}

impl Source {
    fn new(nest: &LoopNest, inputs: &[(DType, usize)], axis: usize, root: ValueId) -> Result<Self> {
        let (sizes, n_domain) = (nest.sizes(), nest.domain.len());
        let depends = nest.dependence(root);
        let has_width = depends[axis + 1..n_domain].contains(&true);
        let width: Vec<usize> = (axis + 1..n_domain).filter(|_| has_width).collect();
        let before = (0..axis).chain(n_domain..sizes.len());
        let with_strides =
            |place: Place, map: &IndexMap, axis_of: &dyn Fn(usize) -> Option<usize>| {
                // No stride before the width is negative.
                let stride =
                    |axis: usize| axis_of(axis).map_or(0, |axis| map.stride(axis).unsigned_abs());
                Self {
                    place,
                    first: map.offset.unsigned_abs(),
                    outer: (0..axis).map(stride).collect(),
                    terms: (n_domain..sizes.len()).map(stride).collect(),
                    has_width,
                }
            };
        if let Value::Load { input, map, guards } = &nest.values[root.0] {
            let own: Vec<usize> = width.iter().map(|&axis| sizes[axis]).collect();
            let expected = IndexMap::in_order(&own).strides;
            let is_contiguous = width.iter().map(|&axis| map.stride(axis)).eq(expected);
            let is_forward = before.clone().all(|axis| map.stride(axis) >= 0);
            // Single elements that are apart are faster to read after a copy.
            let is_in_order = has_width || map.stride(sizes.len() - 1) <= 1;
            if guards.is_empty() && is_contiguous && is_forward && is_in_order {
                return Ok(with_strides(Place::Input(*input), map, &Some));
            }
        }
        let axes: Vec<usize> = before.filter(|&axis| depends[axis]).chain(width).collect();
        let own = operand_of(nest, root, &axes);
        let in_order = IndexMap::in_order(&own.domain);
        let kernel = Box::new(Kernel::new(&Arc::new(own), inputs)?);
        let axis_of = |axis: usize| axes.iter().position(|&own| own == axis);
        Ok(with_strides(Place::Computed(kernel), &in_order, &axis_of))
    }

    /// Computes the array, unless it is an input.
    fn array(&self, inputs: &[&HostData], pool: &Arc<Pool>) -> Result<Option<HostStorage>> {
        match &self.place {
            Place::Input(_) => Ok(None),
            Place::Computed(kernel) => kernel.run(inputs, pool).map(Some),
        }
    }

    /// Returns the elements, given the array if it is computed.
    fn elements<'a, T: Stored>(
        &self,
        inputs: &[&'a HostData],
        array: Option<&'a HostStorage>,
    ) -> &'a [T] {
        let data = match (&self.place, array) {
            (Place::Input(input), _) => inputs[*input],
            (Place::Computed(_), Some(array)) => array.data(),
            (Place::Computed(_), None) => unreachable!("`array` computes the array"),
        };
        match T::slice(data) {
            Some(elements) => elements,
            None => unreachable!("a checked nest has the types of its inputs"),
        }
    }
}

/// One run of a fold.
struct Run<'a> {
    loops: &'a ScatterLoops,
    fold: &'a Fold,
    at: &'a [u32],
    inputs: &'a [&'a HostData],
    /// The elements, if these are computed.
    array: Option<&'a HostStorage>,
    pool: &'a Arc<Pool>,
}

impl Run<'_> {
    fn fill_by_op<T: Stored<Lane = T> + LaneType>(&self, out: &mut HostStorage) -> Result<()> {
        match self.fold.op {
            Reduce::Max => self.fill::<T, Largest>(out),
            Reduce::Min => self.fill::<T, Smallest>(out),
            _ => self.fill::<T, Sum>(out),
        }
    }

    fn fill<T, C>(&self, out: &mut HostStorage) -> Result<()>
    where
        T: Stored<Lane = T> + LaneType,
        C: Combine<T, Total: Stored>,
    {
        let elements = self.fold.elements.as_ref();
        let elements = elements.map(|source| (source, source.elements(self.inputs, self.array)));
        let pass = Pass::<T, C>::new(self.loops, self.at, elements);
        pass.compute(out.elements_mut::<T>(), self.pool)
    }
}
