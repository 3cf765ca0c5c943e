//! Matrix products.
//!
//! Role: runs a nest that is a product of matrices through the GEMM library, with its epilogue fused.
//! Method: where both factors and the result are matrices in memory as they lie and nothing follows the sum, the library
//! does all of it. Else the output is cut into ranges: each is multiplied into scratch memory, factors that strides alone
//! do not describe (windows, padding) being packed range by range, and then the rest of the nest reads the scratch and
//! writes the output. So no packed copy of a whole factor exists, nor an array of the products.
//! Accuracy: as [`crate::gemm`].

use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use std::sync::Arc;

use super::fetch::copy_guarded;
use super::lanes::Stored;
use super::machine::Machine;
use super::program::Program;
use crate::dtype::{DType, Element, HostData};
use crate::error::Result;
use crate::exec::storage::{Held, Meter, zeros};
use crate::float::Float;
use crate::gemm;
use crate::ir::{Contract, IndexMap, LoopNest, Value, ValueId};

/// Multiplications of one task.
const TASK_PRODUCTS: usize = 1 << 24;

/// Whether a nest is a product that this module can compute: factors in memory, and nothing empty.
pub(super) fn takes(nest: &LoopNest, contract: &Contract) -> bool {
    let is_plain = |factor: ValueId| matches!(nest.values[factor.0], Value::Load { .. });
    is_plain(contract.lhs) && is_plain(contract.rhs) && !nest.sizes().contains(&0)
}

/// Computes a product with its epilogue.
pub(super) fn multiply(
    nest: &LoopNest,
    contract: &Contract,
    inputs: &[&HostData],
    meter: &Arc<Meter>,
) -> Result<HostData> {
    match nest.dtypes[contract.sum.0] {
        DType::F64 => multiply_as::<f64>(nest, contract, inputs, meter),
        _ => multiply_as::<f32>(nest, contract, inputs, meter),
    }
}

fn multiply_as<T: Float + Stored<Lane = T>>(
    nest: &LoopNest,
    contract: &Contract,
    inputs: &[&HostData],
    meter: &Arc<Meter>,
) -> Result<HostData> {
    if contract.sum == nest.result() {
        let mut out = zeros::<T>("host", nest.output_len())?;
        if multiply_in_place(nest, contract, inputs, &mut out)? {
            return Ok(T::into_host(out));
        }
    }
    crate::dtype::with_element!(nest.dtype(), R => {
        let mut out = zeros::<R>("host", nest.output_len())?;
        Ranges::of(nest, contract).multiply::<T, R>(inputs, &mut out, meter)?;
        Ok(R::into_host(out))
    })
}

/// A factor that is read from memory.
struct Factor<'a, T> {
    data: &'a [T],
    map: &'a IndexMap,
    guards: &'a [crate::ir::Guard],
}

impl<'a, T: Element> Factor<'a, T> {
    fn of(nest: &'a LoopNest, value: ValueId, inputs: &[&'a HostData]) -> Self {
        let Value::Load { input, map, guards } = &nest.values[value.0] else {
            unreachable!("the target asks for plain factors");
        };
        Self {
            data: T::slice(inputs[*input]).unwrap_or_default(),
            map,
            guards,
        }
    }
}

/// The stride by which a map walks some loop axes flattened, in the order given; `None` if no single one does.
fn stride_over(map: &IndexMap, axes: &[usize], sizes: &[usize]) -> Option<usize> {
    let Some(&last) = axes.last() else {
        return Some(0);
    };
    let stride = map.strides[last];
    let mut expected = stride;
    for &axis in axes.iter().rev() {
        if map.strides[axis] != expected {
            return None;
        }
        expected = expected.wrapping_mul(sizes[axis].cast_signed());
    }
    usize::try_from(stride).ok()
}

fn len_of(axes: &[usize], sizes: &[usize]) -> usize {
    axes.iter().map(|&axis| sizes[axis]).product()
}

/// The index of some axes that is number `flat` in row-major order.
fn set_index(index: &mut [usize], axes: &[usize], sizes: &[usize], mut flat: usize) {
    for &axis in axes.iter().rev() {
        index[axis] = flat % sizes[axis];
        flat /= sizes[axis];
    }
}

/// The same, counted from an index that some of the axes begin at.
fn set_index_from(
    index: &mut [usize],
    base: &[usize],
    axes: &[usize],
    sizes: &[usize],
    flat: usize,
) {
    set_index(index, axes, sizes, flat);
    for &axis in axes {
        index[axis] += base[axis];
    }
}

/// A matrix in memory that begins at an offset; `None` if it does not lie within.
fn matrix<T>(
    data: &[T],
    offset: isize,
    shape: [usize; 2],
    strides: [usize; 2],
) -> Option<ArrayView2<'_, T>> {
    let data = data.get(usize::try_from(offset).ok()?..)?;
    ArrayView2::from_shape(shape.strides(strides), data).ok()
}

/// Multiplies straight into the output, if all three are matrices as they lie; else gives `false` and does nothing.
fn multiply_in_place<T: Float + Stored<Lane = T>>(
    nest: &LoopNest,
    contract: &Contract,
    inputs: &[&HostData],
    out: &mut [T],
) -> Result<bool> {
    let sizes = nest.sizes();
    let inner: Vec<usize> = (nest.domain.len()..sizes.len()).collect();
    let n_batch = contract.batch.len();
    if (0..n_batch).any(|axis| !contract.batch.contains(&axis)) {
        return Ok(false);
    }
    let batch: Vec<usize> = (0..n_batch).collect();
    let (lhs, rhs) = (
        Factor::<T>::of(nest, contract.lhs, inputs),
        Factor::<T>::of(nest, contract.rhs, inputs),
    );
    let layout = crate::plan::contiguous(&nest.domain);
    let (rows, cols) = (&contract.rows, &contract.cols);
    let strides = (|| {
        let of = |map: &IndexMap, axes: &[usize]| stride_over(map, axes, &sizes);
        Some([
            [of(lhs.map, rows)?, of(lhs.map, &inner)?],
            [of(rhs.map, &inner)?, of(rhs.map, cols)?],
            [of(&layout, rows)?, of(&layout, cols)?],
        ])
    })();
    let Some([a_strides, b_strides, c_strides]) =
        strides.filter(|_| lhs.guards.is_empty() && rhs.guards.is_empty())
    else {
        return Ok(false);
    };
    let [m, k, n] = [
        len_of(rows, &sizes),
        len_of(&inner, &sizes),
        len_of(cols, &sizes),
    ];
    // One large product uses all threads itself; of many small ones each gets one.
    let parallel_inside = len_of(&batch, &sizes) == 1;
    let one = |(number, out): (usize, &mut [T])| -> Result<bool> {
        let mut index = vec![0; sizes.len()];
        set_index(&mut index, &batch, &sizes, number);
        let a = matrix(lhs.data, lhs.map.at(&index), [m, k], a_strides);
        let b = matrix(rhs.data, rhs.map.at(&index), [k, n], b_strides);
        let c = ArrayViewMut2::from_shape([m, n].strides(c_strides), out).ok();
        let (Some(a), Some(b), Some(c)) = (a, b, c) else {
            return Ok(false);
        };
        gemm::multiply_into(a, b, c, parallel_inside)?;
        Ok(true)
    };
    if parallel_inside {
        return one((0, out));
    }
    let done: Result<Vec<bool>> = out.par_chunks_mut(m * n).enumerate().map(one).collect();
    Ok(done?.into_iter().all(|done| done))
}

/// How the output of a product is cut into ranges, one task each.
///
/// The leading axes of the output that belong to the batch or to one factor number the ranges; so each range is one piece
/// of the output. Along the last of them, if it belongs to the factor and nothing else of that factor is left, several
/// indices form the rows of one small product; else the factor's other axes do.
struct Ranges<'n> {
    nest: &'n LoopNest,
    sizes: Vec<usize>,
    inner: Vec<usize>,
    /// Leading axes, the one that rows run along left out.
    outer: Vec<usize>,
    /// The axes of the rows of a small product.
    rows: Vec<usize>,
    /// The axis among them that is cut, with the rows a task takes of it.
    cut: Option<(usize, usize)>,
    cols: Vec<usize>,
    /// Batch axes within a range.
    batch: Vec<usize>,
    /// The factor with the rows, and the one with the columns.
    factors: [ValueId; 2],
    /// The rest of the nest, with the sums as its last input.
    rest: LoopNest,
}

impl<'n> Ranges<'n> {
    fn of(nest: &'n LoopNest, contract: &Contract) -> Self {
        let sizes = nest.sizes();
        let n_domain = nest.domain.len();
        let leading = |own: &[usize]| {
            let belongs = |axis: &usize| contract.batch.contains(axis) || own.contains(axis);
            (0..n_domain).take_while(belongs).count()
        };
        let by_rows = sizes[..leading(&contract.rows)].iter().product::<usize>()
            >= sizes[..leading(&contract.cols)].iter().product::<usize>();
        let (own, cols, factors) = if by_rows {
            (&contract.rows, &contract.cols, [contract.lhs, contract.rhs])
        } else {
            (&contract.cols, &contract.rows, [contract.rhs, contract.lhs])
        };
        let n_outer = leading(own);
        let rest_of_own: Vec<usize> = own
            .iter()
            .copied()
            .filter(|&axis| axis >= n_outer)
            .collect();
        let last = n_outer
            .checked_sub(1)
            .filter(|last| own.contains(last) && rest_of_own.is_empty());
        let inner: Vec<usize> = (n_domain..sizes.len()).collect();
        let products_a_row = len_of(cols, &sizes) * len_of(&inner, &sizes);
        let cut = last.map(|axis| {
            (
                axis,
                (TASK_PRODUCTS / products_a_row.max(1))
                    .clamp(16, 1024)
                    .min(sizes[axis]),
            )
        });
        let rows = last.map_or(rest_of_own, |axis| vec![axis]);
        let outer = (0..n_outer).filter(|axis| Some(*axis) != last).collect();
        let batch = contract
            .batch
            .iter()
            .copied()
            .filter(|&axis| axis >= n_outer)
            .collect();
        let mut ranges = Self {
            nest,
            sizes,
            inner,
            outer,
            rows,
            cut,
            cols: cols.clone(),
            batch,
            factors,
            rest: nest.clone(),
        };
        ranges.rest = ranges.rest_of_nest(contract.sum);
        ranges
    }

    /// Rows of one small product, at most.
    fn max_rows(&self) -> usize {
        self.cut
            .map_or_else(|| len_of(&self.rows, &self.sizes), |(_, rows)| rows)
    }

    /// The nest without its reduction: the sums are read from scratch memory, of which one small product after the other
    /// holds `max_rows` times its columns.
    fn rest_of_nest(&self, sum: ValueId) -> LoopNest {
        let mut map = IndexMap {
            offset: 0,
            strides: vec![0; self.nest.domain.len()],
        };
        let mut place = |axes: &[usize], mut stride: usize| {
            for &axis in axes.iter().rev() {
                map.strides[axis] = stride.cast_signed();
                stride *= self.sizes[axis];
            }
        };
        let n_cols = len_of(&self.cols, &self.sizes);
        place(&self.cols, 1);
        place(&self.rows, n_cols);
        place(&self.batch, n_cols * self.max_rows());
        let needed = self.nest.epilogue();
        let mut places = vec![ValueId(0); self.nest.values.len()];
        let mut rest = LoopNest {
            domain: self.nest.domain.clone(),
            reduce: Vec::new(),
            values: Vec::new(),
            dtypes: Vec::new(),
            inputs: [&self.nest.inputs[..], &[self.nest.dtypes[sum.0]]].concat(),
            contract: None,
        };
        for (id, value) in self.nest.values.iter().enumerate() {
            if !needed[id] {
                continue;
            }
            let mut value = if id == sum.0 {
                Value::Load {
                    input: self.nest.inputs.len(),
                    map: map.clone(),
                    guards: Vec::new(),
                }
            } else {
                value.clone()
            };
            value.map_operands(|operand| places[operand.0]);
            value
                .maps_mut()
                .for_each(|map| map.strides.truncate(rest.domain.len()));
            places[id] = ValueId(rest.values.len());
            rest.values.push(value);
            rest.dtypes.push(self.nest.dtypes[id]);
        }
        rest
    }

    fn multiply<T: Float + Stored<Lane = T>, R: Stored>(
        &self,
        inputs: &[&HostData],
        out: &mut [R],
        meter: &Arc<Meter>,
    ) -> Result<()> {
        let program = Program::of(&self.rest);
        let slab = out.len() / len_of(&self.outer, &self.sizes);
        let piece = self
            .cut
            .map_or(slab, |(axis, rows)| slab / self.sizes[axis] * rows);
        out.par_chunks_mut(slab)
            .enumerate()
            .try_for_each(|(outer, out)| {
                out.par_chunks_mut(piece)
                    .enumerate()
                    .try_for_each(|(number, out)| {
                        let mut index = vec![0; self.sizes.len()];
                        set_index(&mut index, &self.outer, &self.sizes, outer);
                        let mut n_rows = self.max_rows();
                        if let Some((axis, rows)) = self.cut {
                            index[axis] = number * rows;
                            n_rows = rows.min(self.sizes[axis] - index[axis]);
                        }
                        let (sums, _held) = self.sums::<T>(inputs, &mut index, n_rows, meter)?;
                        let sums = T::into_host(sums);
                        let mut with_sums = inputs.to_vec();
                        with_sums.push(&sums);
                        let mut machine = Machine::new(&program, &with_sums);
                        if let Some((_, rows)) = self.cut {
                            let before = number * rows * len_of(&self.cols, &self.sizes);
                            machine.shift_input(inputs.len(), -before.cast_signed());
                        }
                        machine.fill(outer * slab + number * piece, out)
                    })
            })
    }

    /// The sums of one range.
    fn sums<'m, T: Float + Stored<Lane = T>>(
        &self,
        inputs: &[&HostData],
        index: &mut [usize],
        n_rows: usize,
        meter: &'m Meter,
    ) -> Result<(Vec<T>, Held<'m>)> {
        let [a, b] = self
            .factors
            .map(|factor| Factor::<T>::of(self.nest, factor, inputs));
        let (k, n) = (
            len_of(&self.inner, &self.sizes),
            len_of(&self.cols, &self.sizes),
        );
        let product = self.max_rows() * n;
        let len = product * len_of(&self.batch, &self.sizes);
        let held = meter.hold(len * size_of::<T>());
        let mut sums = zeros::<T>("host", len)?;
        let (mut packed_a, mut packed_b) = (Vec::new(), Vec::new());
        let (rows_an_index, indices) = self.rows_at_once(n_rows);
        for (number, sums) in sums.chunks_mut(product).enumerate() {
            set_index(index, &self.batch, &self.sizes, number);
            let b = self.matrix_of(&b, index, (&self.inner, k), (&self.cols, n), &mut packed_b);
            let pieces = sums[..n_rows * n].chunks_mut(indices * rows_an_index * n);
            for (piece, sums) in pieces.enumerate() {
                if let (None, Some(&axis)) = (self.cut, self.rows.first()) {
                    index[axis] = piece * indices;
                }
                let m = sums.len() / n;
                let a = self.matrix_of(&a, index, (&self.rows, m), (&self.inner, k), &mut packed_a);
                let Ok(c) = ArrayViewMut2::from_shape([m, n], sums) else {
                    unreachable!("the slice has as many elements as the shape");
                };
                gemm::multiply_into(a, b, c, false)?;
            }
        }
        // What was packed lived until here, beside the sums.
        drop(meter.hold((packed_a.len() + packed_b.len()) * size_of::<T>()));
        Ok((sums, held))
    }

    /// How many rows one index of their first axis has, and how many such indices are packed and multiplied at once, so
    /// that what is packed stays in the second-level cache.
    fn rows_at_once(&self, n_rows: usize) -> (usize, usize) {
        const ROWS: usize = 512;
        match (self.cut, self.rows.first()) {
            (None, Some(&axis)) => {
                let rows_an_index = n_rows / self.sizes[axis];
                (
                    rows_an_index,
                    (ROWS / rows_an_index).clamp(1, self.sizes[axis]),
                )
            }
            _ => (n_rows, 1),
        }
    }

    /// A factor at an index as a matrix over two groups of axes: as it lies, or else packed.
    fn matrix_of<'a, T: Float + Stored<Lane = T>>(
        &self,
        factor: &Factor<'a, T>,
        index: &[usize],
        (row_axes, n_rows): (&[usize], usize),
        (col_axes, n_cols): (&[usize], usize),
        packed: &'a mut Vec<T>,
    ) -> ArrayView2<'a, T> {
        let shape = [n_rows, n_cols];
        let strides = [row_axes, col_axes].map(|axes| stride_over(factor.map, axes, &self.sizes));
        if let ([Some(row), Some(col)], true) = (strides, factor.guards.is_empty())
            && let Some(matrix) = matrix(factor.data, factor.map.at(index), shape, [row, col])
        {
            return matrix;
        }
        // The longer runs are copied in one go: that group of axes comes last in the packed copy.
        let run = |axes: &[usize]| axes.last().map_or(1, |&axis| self.sizes[axis]);
        let by_row = run(col_axes) >= run(row_axes);
        let (slow, fast) = if by_row {
            ((row_axes, n_rows), (col_axes, n_cols))
        } else {
            ((col_axes, n_cols), (row_axes, n_rows))
        };
        packed.resize(n_rows * n_cols, T::ZERO);
        // Axes that are cut begin where the range does.
        let (base, mut index) = (index, index.to_vec());
        for (line, out) in packed.chunks_mut(fast.1.max(1)).enumerate() {
            set_index_from(&mut index, base, slow.0, &self.sizes, line);
            self.pack_line(factor, &mut index, base, fast.0, out);
        }
        let strides = if by_row { [n_cols, 1] } else { [1, n_rows] };
        match ArrayView2::from_shape(shape.strides(strides), &packed[..]) {
            Ok(matrix) => matrix,
            Err(_) => unreachable!("the packed copy has as many elements as the shape"),
        }
    }

    /// Copies a factor along some axes, which begin at `base`.
    fn pack_line<T: Stored<Lane = T>>(
        &self,
        factor: &Factor<'_, T>,
        index: &mut [usize],
        base: &[usize],
        axes: &[usize],
        out: &mut [T],
    ) {
        let Some((&last, before)) = axes.split_last() else {
            copy_guarded(factor.data, factor.map, factor.guards, index, None, out);
            return;
        };
        let run = self.sizes[last].min(out.len().max(1));
        for (number, out) in out.chunks_mut(run).enumerate() {
            set_index_from(index, base, before, &self.sizes, number);
            index[last] = base[last];
            copy_guarded(
                factor.data,
                factor.map,
                factor.guards,
                index,
                Some(last),
                out,
            );
        }
    }
}
