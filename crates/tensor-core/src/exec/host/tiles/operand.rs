//! The operands of a product, and their copies.
//!
//! Method: an operand is read in place, through its map, if all its elements exist and the lanes
//! that are read together are neighbours. Otherwise it is copied once:
//! - with its border: the part of an array that the loops read is copied with its padding. Windows
//!   overlap in this copy as they do in the array;
//! - packed: the elements in the order of the loops, so that the lanes are neighbours.

use std::sync::Arc;

use super::super::moves::Moves;
use super::kernel::MAX_LANES;
use crate::dtype::{DType, Element, HostData};
use crate::error::Result;
use crate::ir::{Guard, IndexMap, LoopNest, Value, ValueId};
use crate::plan::gcd;
use crate::storage::{HostStorage, Pool};

/// An operand: the elements of an input or of a copy of it.
#[derive(Debug)]
pub(super) struct Operand {
    /// The number of the input.
    pub(super) input: usize,
    /// The copy that is read instead of the input.
    pub(super) copy: Option<Copied>,
    /// The positions of the elements, for each point of the loops.
    pub(super) map: IndexMap,
}

/// A copy of an input.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) moves: Moves,
    pub(super) len: usize,
}

/// A load of a nest.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) dtype: DType,
    pub(super) input: usize,
    pub(super) map: &'a IndexMap,
    pub(super) guards: &'a [Guard],
    /// The sizes of all loops.
    pub(super) sizes: &'a [usize],
}

/// An axis of an array: its positions in the input, and its index for each point of the loops.
struct Axis {
    /// The distance between neighbouring elements in the input.
    stride: isize,
    /// The index along the axis.
    index: IndexMap,
    size: usize,
    /// The lowest index of an element of the input, and the number of these elements; the others
    /// are padding.
    inside: Option<(isize, usize)>,
}

impl Operand {
    /// Returns the number of elements of the copy; 0 if the input is read in place.
    pub(super) fn copy_len(&self) -> usize {
        self.copy.as_ref().map_or(0, |copy| copy.len)
    }

    /// Returns the copy of the input that is read instead of it; `None` if it is read in place.
    pub(super) fn copied<T: Element>(
        &self,
        inputs: &[&HostData],
        pool: &Arc<Pool>,
    ) -> Result<Option<HostStorage>> {
        let Some(copy) = &self.copy else {
            return Ok(None);
        };
        // Elements after the end, which no sum contains, so that whole vectors can be loaded.
        let mut elements = pool.take(T::DTYPE, copy.len + MAX_LANES)?;
        let copied = &mut elements.elements_mut::<T>()[..copy.len];
        copy.moves.fill(&[inputs[self.input]], copied)?;
        Ok(Some(elements))
    }
}

impl<'a> Source<'a> {
    /// Returns the load of a factor, with some of its guards.
    pub(super) fn new(
        nest: &'a LoopNest,
        factor: ValueId,
        guards: &'a [Guard],
        sizes: &'a [usize],
    ) -> Self {
        let Value::Load { input, map, .. } = &nest.values[factor.0] else {
            unreachable!("the factors of `Pairs` are loads");
        };
        Self {
            dtype: nest.dtypes[factor.0],
            input: *input,
            map,
            guards,
            sizes,
        }
    }

    /// Returns whether an element, or whether it is padding, depends on a loop axis.
    pub(super) fn depends_on(self, axis: usize) -> bool {
        let mut guards = self.guards.iter();
        self.map.stride(axis) != 0 || guards.any(|guard| guard.map.stride(axis) != 0)
    }

    /// Returns whether the elements that are read in place or copied are inside an input of `len`
    /// elements.
    pub(super) fn fits(self, len: usize) -> bool {
        let Some(axes) = self.axes() else {
            return false;
        };
        let (mut low, mut high) = (self.map.offset, self.map.offset);
        for axis in &axes {
            let Ok(last) = isize::try_from(axis.size.saturating_sub(1)) else {
                return false;
            };
            let (first, last) = axis.inside.map_or((0, last), |(first, extent)| {
                let end = first.saturating_add_unsigned(extent).saturating_sub(1);
                (first.max(0), last.min(end))
            });
            if first > last {
                // All elements are padding.
                return true;
            }
            let ends = [first, last].map(|index| {
                let distance = index.saturating_sub(axis.index.offset);
                axis.stride.saturating_mul(distance)
            });
            low = low.saturating_add(ends[0].min(ends[1]));
            high = high.saturating_add(ends[0].max(ends[1]));
        }
        low >= 0 && high.unsigned_abs() < len
    }

    /// Returns whether the position in the input is a multiple of the position of a guard, up to
    /// other loop axes. The guard then belongs to an axis of the array.
    pub(super) fn moves_with(self, guard: &Guard) -> bool {
        let axes = || (0..self.sizes.len()).filter(|&axis| guard.map.stride(axis) != 0);
        let ratio = |axis: usize| {
            let (own, step) = (self.map.stride(axis), guard.map.stride(axis));
            (own.wrapping_rem(step) == 0).then_some(own.wrapping_div(step))
        };
        let Some(first) = axes().next().and_then(ratio) else {
            return false;
        };
        first != 0 && axes().all(|axis| ratio(axis) == Some(first))
    }

    /// Returns the operand that reads the input in place; `None` if some elements are padding.
    pub(super) fn in_place(self) -> Option<Operand> {
        self.guards.is_empty().then(|| Operand {
            input: self.input,
            copy: None,
            map: self.map.clone(),
        })
    }

    /// Returns the operand that reads a copy of the array with its border; `None` if the array's
    /// axes cannot be found.
    pub(super) fn bordered(self) -> Option<Operand> {
        let mut axes = self.axes()?;
        // In the order of the input.
        axes.sort_by_key(|axis| std::cmp::Reverse(axis.stride.unsigned_abs()));
        let sizes: Vec<usize> = axes.iter().map(|axis| axis.size).collect();
        let len = sizes
            .iter()
            .try_fold(1, |len: usize, &size| len.checked_mul(size))?;
        // The first element of the copy has index 0 along all axes.
        let mut offset = self.map.offset;
        let mut map = IndexMap {
            offset: 0,
            strides: vec![0; self.sizes.len()],
        };
        let mut guards = Vec::new();
        let mut below = 1;
        for (number, axis) in axes.iter().enumerate().rev() {
            offset = offset.wrapping_sub(axis.stride.wrapping_mul(axis.index.offset));
            map.offset = map
                .offset
                .wrapping_add(axis.index.offset.wrapping_mul(below));
            for (sum, &step) in map.strides.iter_mut().zip(&axis.index.strides) {
                *sum = sum.wrapping_add(step.wrapping_mul(below));
            }
            below = below.wrapping_mul(axis.size.cast_signed());
            if let Some((first, extent)) = axis.inside {
                let mut strides = vec![0; axes.len()];
                strides[number] = 1;
                let map = IndexMap {
                    offset: -first,
                    strides,
                };
                guards.push(Guard { map, extent });
            }
        }
        let from = IndexMap {
            offset,
            strides: axes.iter().map(|axis| axis.stride).collect(),
        };
        self.copied(sizes, len, from, guards, map)
    }

    /// Returns the operand that reads a copy with the elements in the order of some loop axes.
    pub(super) fn packed(self, axes: &[usize]) -> Option<Operand> {
        let over_axes = |map: &IndexMap| IndexMap {
            offset: map.offset,
            strides: axes.iter().map(|&axis| map.stride(axis)).collect(),
        };
        let sizes: Vec<usize> = axes.iter().map(|&axis| self.sizes[axis]).collect();
        let len = self.packed_len(axes)?;
        let mut map = IndexMap {
            offset: 0,
            strides: vec![0; self.sizes.len()],
        };
        let mut below = 1;
        for &axis in axes.iter().rev() {
            map.strides[axis] = usize::cast_signed(below);
            below *= self.sizes[axis];
        }
        let guards = self.guards.iter().map(|guard| Guard {
            map: over_axes(&guard.map),
            extent: guard.extent,
        });
        self.copied(sizes, len, over_axes(self.map), guards.collect(), map)
    }

    /// Returns the number of elements of a copy in the order of some loop axes.
    pub(super) fn packed_len(self, axes: &[usize]) -> Option<usize> {
        let mut sizes = axes.iter().map(|&axis| self.sizes[axis]);
        sizes.try_fold(1, |len: usize, size| len.checked_mul(size))
    }

    /// Returns the number of elements of the array that the loops read, with its border; `None` if
    /// the array's axes cannot be found.
    pub(super) fn array_len(self) -> Option<usize> {
        let axes = self.axes()?;
        let mut sizes = axes.iter().map(|axis| axis.size);
        sizes.try_fold(1, |len: usize, size| len.checked_mul(size))
    }

    fn copied(
        self,
        domain: Vec<usize>,
        len: usize,
        from: IndexMap,
        guards: Vec<Guard>,
        map: IndexMap,
    ) -> Option<Operand> {
        let nest = LoopNest {
            domain,
            reduce: Vec::new(),
            values: vec![Value::Load {
                input: 0,
                map: from,
                guards,
            }],
            dtypes: vec![self.dtype],
            inputs: vec![self.dtype],
            contract: None,
        };
        let moves = Moves::from_nest(&nest)?;
        Some(Operand {
            input: self.input,
            copy: Some(Copied { moves, len }),
            map,
        })
    }

    /// Returns the axes of the array that the loops read. The loop axes of one guard are one axis
    /// of the array. The other loop axes are one axis of the array if their steps overlap. Returns
    /// `None` if two guards depend on one loop axis, or if a position in the input is not a
    /// multiple of the position of a guard.
    fn axes(self) -> Option<Vec<Axis>> {
        let n = self.sizes.len();
        let mut is_free = vec![true; n];
        let mut axes = Vec::new();
        for guard in self.guards {
            let mut stride = None;
            for axis in (0..n).filter(|&axis| guard.map.stride(axis) != 0) {
                let (own, step) = (self.map.stride(axis), guard.map.stride(axis));
                let is_multiple = {
                    let ratio = own.wrapping_div(step);
                    own.wrapping_rem(step) == 0 && *stride.get_or_insert(ratio) == ratio
                };
                if !is_multiple || !std::mem::take(&mut is_free[axis]) {
                    return None;
                }
            }
            let mut axis = Axis::new(stride.unwrap_or(0), &guard.map, self.sizes);
            axis.inside = Some((
                axis.index.offset.wrapping_sub(guard.map.offset),
                guard.extent,
            ));
            axes.push(axis);
        }
        let mut free: Vec<usize> = (0..n)
            .filter(|&axis| is_free[axis] && self.map.stride(axis) != 0)
            .collect();
        free.sort_by_key(|&axis| self.map.stride(axis).unsigned_abs());
        let mut free = free.into_iter().peekable();
        while let Some(first) = free.next() {
            let span = |axis: usize| {
                let steps = self.sizes[axis].saturating_sub(1);
                self.map.stride(axis).unsigned_abs().saturating_mul(steps)
            };
            let (mut group, mut end) = (vec![first], span(first));
            while let Some(next) = free.next_if(|&axis| self.map.stride(axis).unsigned_abs() <= end)
            {
                end = end.saturating_add(span(next));
                group.push(next);
            }
            let strides = group
                .iter()
                .map(|&axis| self.map.stride(axis).unsigned_abs());
            let stride = strides.fold(0, gcd).cast_signed();
            let mut index = IndexMap {
                offset: 0,
                strides: vec![0; n],
            };
            for axis in group {
                index.strides[axis] = self.map.stride(axis) / stride;
            }
            axes.push(Axis::new(stride, &index, self.sizes));
        }
        Some(axes)
    }
}

impl Axis {
    /// Creates an axis whose lowest index is 0.
    fn new(stride: isize, index: &IndexMap, sizes: &[usize]) -> Self {
        let (low, high) = index.range(sizes);
        Self {
            stride,
            index: IndexMap {
                offset: index.offset.wrapping_sub(low),
                strides: index.strides.clone(),
            },
            size: high.abs_diff(low).saturating_add(1),
            inside: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::{Executor as _, Host, Tensor};

    #[test]
    fn factors_fit_into_arrays_that_are_long_enough() {
        let x = Tensor::from_vec(&[4, 5], vec![1.0_f32; 20]);
        let y = Tensor::from_vec(&[5, 3], vec![1.0_f32; 15]);
        let padded = |x: Tensor| x.pad(0, 1, 2, 0);
        for factor in [
            x.clone(),
            x.flip(0),
            x.flip(1),
            padded(x.clone()),
            padded(x.clone()).flip(0),
            padded(x.flip(0)),
        ] {
            let product = factor.matmul(&y);
            let (plan, data) = Plan::new(&[&product], &Host::new().target()).unwrap();
            let nest = &plan.steps[0].nest;
            let sizes = nest.sizes();
            let mut n_factors = 0;
            for (id, value) in nest.values.iter().enumerate() {
                let Value::Load { input, guards, .. } = value else {
                    continue;
                };
                let source = Source::new(nest, ValueId(id), guards, &sizes);
                let len = data[*input].len();
                assert!(source.fits(len), "{}", plan.explain());
                assert!(!source.fits(len - 1), "{}", plan.explain());
                n_factors += 1;
            }
            assert_eq!(n_factors, 2, "{}", plan.explain());
        }
    }
}
