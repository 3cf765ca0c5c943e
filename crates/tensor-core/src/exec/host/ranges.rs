//! Matrix products, computed one range of the output at a time.
//!
//! Role: computes products whose factors or result are not matrices in memory. Factors that strides
//! alone do not describe are packed for each range.
//! Method: if the sums have the type of the output and their rows and columns have strides in it,
//! each range is multiplied into the output, and its epilogue then runs there in place, while the
//! range is in the second-level cache. Otherwise the range is multiplied into scratch memory, which
//! the rest of the nest reads. The scratch memory has the layout of the output if the rows and the
//! columns have strides, so that the rest reads and writes in one order.

use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder, s};
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use std::sync::Arc;

use super::factor::{Factor, len_of, matrix, set_index, stride_over};
use super::lanes::Stored;
use super::machine::Machine;
use super::moves;
use super::product::epilogue_of;
use super::program::Bytecode;
use crate::dtype::{Element, HostData, with_element};
use crate::error::Result;
use crate::float::Float;
use crate::gemm;
use crate::ir::{Contract, Guard, IndexMap, LoopNest, ValueId};
use crate::plan::contiguous;
use crate::storage::{HostStorage, Pool};

/// The approximate number of multiplications in one task.
const TASK_PRODUCTS: usize = 1 << 24;

/// The division of a product's output into ranges, one task each.
///
/// The leading output axes that belong to the batch or to one factor enumerate the ranges, so each
/// range is contiguous in the output. If the last of these axes belongs to the factor and the
/// factor has no further axes, several indices of this axis form the rows of one small product.
/// Otherwise the factor's remaining axes form the rows.
///
/// ```text
/// output axes   [ outer ......... | cut axis | batch, rows, cols within a range ]
///                 one slab each     pieces     one small product for each batch index
/// ```
#[derive(Debug)]
pub(super) struct Ranges {
    /// The sizes of all loop axes.
    sizes: Vec<usize>,
    /// The reduced axes.
    inner: Vec<usize>,
    /// The leading axes that enumerate the ranges, without the axis of the rows.
    outer: Vec<usize>,
    /// The axes that form the rows of a small product.
    rows: Vec<usize>,
    /// The row axis that is split between tasks, and the number of rows for one task; `None` if no
    /// axis is split.
    cut: Option<(usize, usize)>,
    /// The maximum number of rows of one small product.
    max_rows: usize,
    cols: Vec<usize>,
    /// The batch axes within a range.
    batch: Vec<usize>,
    /// The factor with the rows, and the factor with the columns.
    factors: [ValueId; 2],
    /// The places of the sums.
    layout: Layout,
    end: End,
}

/// The places of the sums of all ranges.
#[derive(Debug)]
struct Layout {
    /// The position of each sum, for each output axis. Positions count from the first sum of a
    /// range.
    map: IndexMap,
    /// The strides of rows and columns.
    strides: [usize; 2],
    /// Whether the layout is that of the output.
    is_output: bool,
}

/// The computation that follows the sums.
#[derive(Debug)]
enum End {
    /// The sums are in the output; the epilogue, if there is one, replaces them by the results.
    InPlace(Option<Bytecode>),
    /// The rest of the nest, which reads the sums from scratch memory, its last input.
    Rest(Bytecode),
}

/// One range of the output.
struct Piece {
    /// The number of the range's first output element.
    first: usize,
    /// The index of that element; 0 along the reduced axes.
    index: Vec<usize>,
    n_rows: usize,
}

impl Ranges {
    /// Chooses the division for a product. The factor whose axes lead the output further provides
    /// the rows.
    pub(super) fn new(nest: &LoopNest, contract: &Contract) -> Self {
        let sizes = nest.sizes();
        let n_domain = nest.domain.len();
        let leading = |own: &[usize]| {
            let belongs = |axis: &usize| contract.batch.contains(axis) || own.contains(axis);
            (0..n_domain).take_while(belongs).count()
        };
        // The factor whose axes lead the output further gets the role of the rows; the product is
        // computed as its transpose if that is the right factor.
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
        // The last leading axis can only be split if it is the factor's last axis: its indices are
        // then consecutive rows of the factor.
        let last = n_outer
            .checked_sub(1)
            .filter(|last| own.contains(last) && rest_of_own.is_empty());
        let inner: Vec<usize> = (n_domain..sizes.len()).collect();
        // A task gets rows for about TASK_PRODUCTS multiplications, between 16 and 1024.
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
        let batch: Vec<usize> = contract
            .batch
            .iter()
            .copied()
            .filter(|&axis| axis >= n_outer)
            .collect();
        let max_rows = cut.map_or_else(|| len_of(&rows, &sizes), |(_, rows)| rows);
        let layout = Layout::of_output(nest, &rows, cols)
            .unwrap_or_else(|| Layout::one_by_one(nest, &batch, (&rows, max_rows), cols));
        let sum = contract.sum;
        let end = if layout.is_output && nest.dtype() == nest.dtypes[sum.0] {
            let follows = sum != nest.result();
            let epilogue = || Bytecode::in_place(&epilogue_of(nest, sum, &layout.map));
            End::InPlace(follows.then(epilogue))
        } else {
            End::Rest(Bytecode::compile(&epilogue_of(nest, sum, &layout.map)))
        };
        Self {
            sizes,
            inner,
            outer,
            rows,
            cut,
            cols: cols.clone(),
            batch,
            factors,
            max_rows,
            layout,
            end,
        }
    }

    /// Computes the product and the rest of the nest into the output.
    pub(super) fn multiply<T: Float + Stored<Lane = T>>(
        &self,
        nest: &LoopNest,
        inputs: &[&HostData],
        out: &mut HostStorage,
        pool: &Arc<Pool>,
    ) -> Result<()> {
        let factors = self.factors.map(|id| Factor::<T>::new(nest, id, inputs));
        match &self.end {
            End::InPlace(epilogue) => self.for_each_piece(out.elements_mut(), |piece, out| {
                self.sums(&factors, piece, out, pool)?;
                match epilogue {
                    Some(epilogue) => Machine::new(epilogue, inputs).fill(piece.first, out),
                    None => Ok(()),
                }
            }),
            End::Rest(rest) => with_element!(nest.dtype(), R => {
                self.for_each_piece(out.elements_mut::<R>(), |piece, out| {
                    let mut sums = pool.take(T::DTYPE, self.scratch_len(out.len()))?;
                    self.sums(&factors, piece, sums.elements_mut(), pool)?;
                    // The epilogue reads the sums as one more input.
                    let mut with_sums = inputs.to_vec();
                    with_sums.push(sums.data());
                    let mut machine = Machine::new(rest, &with_sums);
                    // The scratch memory begins with the first sum of the range.
                    machine.shift_input(inputs.len(), -self.layout.map.at(&piece.index));
                    machine.fill(piece.first, out)
                })
            }),
        }
    }

    /// Calls `f` for each range with its part of the output, on all threads.
    fn for_each_piece<R: Send>(
        &self,
        out: &mut [R],
        f: impl Fn(&Piece, &mut [R]) -> Result<()> + Sync,
    ) -> Result<()> {
        // A slab is the output of one outer index; a piece is the part of it for one task.
        let slab = out.len() / len_of(&self.outer, &self.sizes);
        let len = self
            .cut
            .map_or(slab, |(axis, rows)| slab / self.sizes[axis] * rows);
        let slabs = out.par_chunks_mut(slab).enumerate();
        slabs.try_for_each(|(outer, out)| {
            let pieces = out.par_chunks_mut(len).enumerate();
            pieces.try_for_each(|(number, out)| {
                let mut index = vec![0; self.sizes.len()];
                set_index(&mut index, &self.outer, &self.sizes, outer);
                let mut n_rows = self.max_rows;
                if let Some((axis, rows)) = self.cut {
                    index[axis] = number * rows;
                    n_rows = rows.min(self.sizes[axis] - index[axis]);
                }
                let piece = Piece {
                    first: outer * slab + number * len,
                    index,
                    n_rows,
                };
                f(&piece, out)
            })
        })
    }

    /// Returns the number of sums in the scratch memory of a range of `n_outputs` elements.
    fn scratch_len(&self, n_outputs: usize) -> usize {
        if self.layout.is_output {
            return n_outputs;
        }
        self.max_rows * len_of(&self.cols, &self.sizes) * len_of(&self.batch, &self.sizes)
    }

    /// Computes the sums of one range into `sums`, in the layout.
    fn sums<T: Float + Stored<Lane = T>>(
        &self,
        [a, b]: &[Factor<'_, T>; 2],
        piece: &Piece,
        sums: &mut [T],
        pool: &Arc<Pool>,
    ) -> Result<()> {
        let (k, n) = (
            len_of(&self.inner, &self.sizes),
            len_of(&self.cols, &self.sizes),
        );
        let mut index = piece.index.clone();
        let first = self.layout.map.at(&index);
        let (rows_an_index, indices) = self.rows_at_once(piece.n_rows);
        let rows_at_once = indices * rows_an_index;
        for number in 0..len_of(&self.batch, &self.sizes) {
            set_index(&mut index, &self.batch, &self.sizes, number);
            let b = self.matrix_of(b, &index, (&self.inner, k), (&self.cols, n), pool)?;
            let here = (self.layout.map.at(&index) - first).unsigned_abs();
            let shape = [piece.n_rows, n].strides(self.layout.strides);
            let Ok(mut c) = ArrayViewMut2::from_shape(shape, &mut sums[here..]) else {
                unreachable!("each sum of a range has its own place");
            };
            // Several indices of the first row axis are packed and multiplied at a time.
            for (number, row) in (0..piece.n_rows).step_by(rows_at_once).enumerate() {
                let m = rows_at_once.min(piece.n_rows - row);
                let mut index = index.clone();
                // Without a split axis, `number` counts groups of indices of the first row axis.
                if let (None, Some(&axis)) = (self.cut, self.rows.first()) {
                    index[axis] = number * indices;
                }
                let a = self.matrix_of(a, &index, (&self.rows, m), (&self.inner, k), pool)?;
                let c = c.slice_mut(s![row..row + m, ..]);
                gemm::multiply_into(a.view(), b.view(), c, false)?;
            }
        }
        Ok(())
    }

    /// Returns the number of rows for one index of the first row axis, and the number of such
    /// indices that are packed and multiplied at once. The product of both is about 512, so that
    /// the packed rows stay in the second-level cache.
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

    /// Returns a factor as a matrix over two groups of axes, with the other axes fixed at an index:
    /// a view of the input if strides describe the matrix, otherwise a packed copy.
    fn matrix_of<'a, T: Float + Stored<Lane = T>>(
        &self,
        factor: &Factor<'a, T>,
        index: &[usize],
        (row_axes, n_rows): (&[usize], usize),
        (col_axes, n_cols): (&[usize], usize),
        pool: &Arc<Pool>,
    ) -> Result<Matrix<'a, T>> {
        let shape = [n_rows, n_cols];
        // A view needs one stride for the rows and one for the columns. Padded factors are always
        // copied.
        let strides = [row_axes, col_axes].map(|axes| stride_over(factor.map, axes, &self.sizes));
        if let ([Some(row), Some(col)], true) = (strides, factor.guards.is_empty())
            && let Some(matrix) = matrix(factor.elements, factor.map.at(index), shape, [row, col])
        {
            return Ok(Matrix::AsItLies(matrix));
        }
        let cols_run_longer = run_of(col_axes, &self.sizes) >= run_of(row_axes, &self.sizes);
        // The group of axes with the longer contiguous runs comes last in the packed copy, because
        // each run is copied in one go.
        let (groups, strides) = if cols_run_longer {
            ([(row_axes, n_rows), (col_axes, n_cols)], [n_cols, 1])
        } else {
            ([(col_axes, n_cols), (row_axes, n_rows)], [1, n_rows])
        };
        let mut packed = pool.take(T::DTYPE, n_rows * n_cols)?;
        self.pack(factor, index, groups, packed.elements_mut::<T>())?;
        Ok(Matrix::Packed {
            elements: packed,
            shape,
            strides,
        })
    }

    /// Copies a factor over two groups of axes, beginning at an index.
    fn pack<T: Stored<Lane = T>>(
        &self,
        factor: &Factor<'_, T>,
        index: &[usize],
        groups: [(&[usize], usize); 2],
        out: &mut [T],
    ) -> Result<()> {
        let axes: Vec<usize> = groups.iter().flat_map(|group| group.0).copied().collect();
        let mut domain = Vec::with_capacity(axes.len());
        for (axes, len) in groups {
            let Some((_, rest)) = axes.split_first() else {
                continue;
            };
            // Only the first axis of a group may be split, so the sizes of the others are complete.
            domain.push(len / len_of(rest, &self.sizes));
            domain.extend(rest.iter().map(|&axis| self.sizes[axis]));
        }
        let from_here = |map: &IndexMap| IndexMap {
            offset: map.at(index),
            strides: axes.iter().map(|&axis| map.strides[axis]).collect(),
        };
        let guards = factor.guards.iter().map(|guard| Guard {
            map: from_here(&guard.map),
            extent: guard.extent,
        });
        moves::copy(
            factor.data,
            &domain,
            from_here(factor.map),
            guards.collect(),
            out,
        )
    }
}

impl Layout {
    /// Returns the layout of the output; `None` if its rows or columns have no single stride.
    fn of_output(nest: &LoopNest, rows: &[usize], cols: &[usize]) -> Option<Self> {
        let (map, sizes) = (contiguous(&nest.domain), nest.sizes());
        let strides = [
            stride_over(&map, rows, &sizes)?,
            stride_over(&map, cols, &sizes)?,
        ];
        Some(Self {
            map,
            strides,
            is_output: true,
        })
    }

    /// Returns the layout of small products that are stored one after the other, each row-major:
    /// `[batch][max_rows][cols]`.
    fn one_by_one(
        nest: &LoopNest,
        batch: &[usize],
        (rows, max_rows): (&[usize], usize),
        cols: &[usize],
    ) -> Self {
        let sizes = nest.sizes();
        let n_cols = len_of(cols, &sizes);
        let mut map = IndexMap {
            offset: 0,
            strides: vec![0; nest.domain.len()],
        };
        // The innermost group comes first. `within` is the stride of a group's last axis.
        for (axes, within) in [(cols, 1), (rows, n_cols), (batch, max_rows * n_cols)] {
            let mut stride = within;
            for &axis in axes.iter().rev() {
                map.strides[axis] = usize::cast_signed(stride);
                stride *= sizes[axis];
            }
        }
        Self {
            map,
            strides: [n_cols, 1],
            is_output: false,
        }
    }
}

/// A factor in the form of a matrix.
enum Matrix<'a, T> {
    AsItLies(ArrayView2<'a, T>),
    Packed {
        elements: HostStorage,
        shape: [usize; 2],
        strides: [usize; 2],
    },
}

impl<T: Element> Matrix<'_, T> {
    /// Returns the matrix as a view.
    fn view(&self) -> ArrayView2<'_, T> {
        match self {
            Self::AsItLies(matrix) => matrix.view(),
            Self::Packed {
                elements,
                shape,
                strides,
            } => {
                let elements = T::slice(elements.data()).unwrap_or_default();
                match ArrayView2::from_shape(shape.strides(*strides), elements) {
                    Ok(matrix) => matrix,
                    Err(_) => unreachable!("the packed copy has as many elements as the shape"),
                }
            }
        }
    }
}

/// Returns the size of the last of some axes, or 1 without axes.
fn run_of(axes: &[usize], sizes: &[usize]) -> usize {
    axes.last().map_or(1, |&axis| sizes[axis])
}
