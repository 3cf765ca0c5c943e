//! Gathers: reading a tensor at positions that another tensor holds.

use super::views::coordinates;
use super::{Axis, Op, Tensor, or_error_node};
use crate::error::{Error, Result};
use crate::ir::IndexMap;
use crate::shape::{check_rank, element_count, resolve_axis};

impl Tensor {
    /// Selects elements along `axis` by an integer tensor of any shape, as `numpy.take`: the shape
    /// of `index` replaces the axis in the result. Negative positions count from the end. The type
    /// of `index` is `i32` or `u32`; the result is empty if `index` is empty.
    ///
    /// A position outside the axis is an error on evaluation, [`Error::IndexOutOfRange`]; if there
    /// are several such positions, the error shows only one of them. A position is not checked if
    /// its element is never computed. An executor may or may not compute elements that the result
    /// does not need:
    /// - elements that a view leaves out;
    /// - the choice that a [`select`](Tensor::select) with a single constant as its condition
    ///   leaves out;
    /// - the condition of a `select` between two equal tensors.
    ///
    /// Returns an error node of [`Error::DTypeUnsupported`] if `index` does not consist of
    /// integers, of [`Error::EmptyReduction`] if the axis has size 0 but the result has elements,
    /// of [`Error::AxisOutOfRange`] if there is no such axis, and of [`Error::RankTooLarge`] or
    /// [`Error::TooLarge`] for a result that no tensor can have.
    ///
    /// # Examples
    /// ```
    /// use tensor_core::ndarray::array;
    /// use tensor_core::{Host, Tensor};
    /// let table = Tensor::from_array(array![[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    /// let rows = table.gather(&Tensor::from_array(array![2, -3]), 0);
    /// assert_eq!(rows.eval::<f32>(&Host::new())?, array![[5.0, 6.0], [1.0, 2.0]].into_dyn());
    /// # Ok::<(), tensor_core::Error>(())
    /// ```
    #[track_caller]
    #[must_use]
    pub fn gather(&self, index: &Self, axis: impl Into<Axis>) -> Self {
        let axis = axis.into().number();
        or_error_node!(self.gathered("gather", index, axis, |shape, at| {
            let n_index = index.0.shape.len();
            let out = [&shape[..at], &index.0.shape, &shape[at + 1..]].concat();
            // Maps an axis of the source to its axis in the result. Axes before the selected one
            // keep their number; the others move by the number of index axes, less the selected
            // axis:
            //
            //     source  a b [axis] c
            //     result  a b i j k  c      with the index axes i j k
            let place = |source: usize| {
                if source < at {
                    source
                } else {
                    source + n_index - 1
                }
            };
            let rows = (0..shape.len()).map(|source| {
                let mut strides = vec![0; out.len()];
                if source != at {
                    strides[place(source)] = 1;
                }
                IndexMap { offset: 0, strides }
            });
            let mut line = vec![1; out.len()];
            line[at..at + n_index].copy_from_slice(&index.0.shape);
            let wide = index.reshape(&line).broadcast_to(&out);
            Ok((rows.collect(), out, wide.composed("gather", &[index])))
        }))
    }

    /// Selects one element along `axis` for each element of an integer tensor, as
    /// `numpy.take_along_axis`. `index` has the rank of this tensor, and its other axes broadcast.
    ///
    /// Positions are checked as in [`gather`](Tensor::gather). Returns an error node as `gather`
    /// does, and of [`Error::NotBroadcastable`] if `index` has another rank or does not broadcast.
    #[track_caller]
    #[must_use]
    pub fn take_along_axis(&self, index: &Self, axis: impl Into<Axis>) -> Self {
        let axis = axis.into().number();
        or_error_node!(self.gathered("take_along_axis", index, axis, |shape, at| {
            let operation = "take_along_axis";
            if index.0.shape.len() != shape.len() {
                return Err(Error::NotBroadcastable {
                    operation,
                    from: index.0.shape.clone(),
                    to: shape.to_vec(),
                });
            }
            let mut out = shape.to_vec();
            out[at] = index.0.shape.get(at).copied().unwrap_or(1);
            let index = index.broadcast_to(&out).composed(operation, &[index]);
            index.check()?;
            // The coordinate on the selected axis comes from the index only, so its map is
            // constant.
            let mut line = shape.to_vec();
            line[at] = 1;
            let mut rows = coordinates(&line, |view| view.broadcast_to(&out))?;
            rows[at] = IndexMap {
                offset: 0,
                strides: vec![0; out.len()],
            };
            Ok((rows, out, index))
        }))
    }

    #[track_caller]
    fn gathered(
        &self,
        operation: &'static str,
        index: &Self,
        axis: isize,
        plan: impl FnOnce(&[usize], usize) -> Result<(Vec<IndexMap>, Vec<usize>, Self)>,
    ) -> Result<Self> {
        let shape = self.shape()?;
        let at = resolve_axis(operation, axis, shape)?;
        index.check()?;
        if !index.0.dtype.is_integer() {
            return Err(Error::DTypeUnsupported {
                operation,
                dtype: index.0.dtype,
            });
        }
        let (rows, out, index) = Self::by_caller(|| plan(shape, at))?;
        check_rank(operation, out.len())?;
        element_count(operation, &out)?;
        if shape[at] == 0 && !out.contains(&0) {
            return Err(Error::EmptyReduction {
                operation,
                shape: shape.to_vec(),
            });
        }
        let operation = Op::Gather { axis: at, rows };
        Ok(Self::new(
            operation,
            vec![self.clone(), index],
            out,
            self.0.dtype,
        ))
    }
}
