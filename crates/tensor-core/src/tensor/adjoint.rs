//! Reverse-mode rules: the cotangents of an operation's inputs, given the cotangent of its result.
//!
//! Role: the rules of [`grad`](crate::grad()) for nodes. The derivatives of scalar operations are
//! in [`crate::op`], next to their definitions.
//! Method: the rules create nodes of the same kinds as any program. A view is inverted axis by
//! axis: repeated axes are summed, slices are padded, steps are filled with zeros, and overlapping
//! windows are read along their diagonals and summed. The cotangent of a gather is a scatter.

use super::scatter::{checked_positions, is_at};
use super::{Axes, Op, Tensor, hook};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::ir::IndexMap;
use crate::op::calculus::Calculus;
use crate::op::{Binary, Compare, MAX_POSITIONS, Reduce, Unary};
use crate::shape::element_count;

/// A tensor on which derivatives are evaluated; reductions fold its last axes.
#[derive(Clone)]
struct Elements {
    tensor: Tensor,
    n_folded: usize,
}

impl Elements {
    fn new(tensor: &Tensor, n_folded: usize) -> Self {
        let tensor = tensor.clone();
        Self { tensor, n_folded }
    }

    fn with(&self, tensor: Tensor) -> Self {
        Self { tensor, ..*self }
    }
}

impl Calculus for Elements {
    fn number(&self, value: f64) -> Self {
        self.with(self.tensor.like(value))
    }

    fn unary(&self, op: Unary) -> Self {
        self.with(self.tensor.unary(op))
    }

    fn binary(&self, op: Binary, other: &Self) -> Self {
        self.with(self.tensor.binary(op, &other.tensor))
    }

    fn choose(op: Compare, a: &Self, b: &Self, yes: &Self, no: &Self) -> Self {
        let holds = Tensor::compared(op, a.tensor.clone(), b.tensor.clone());
        a.with(holds.select(&yes.tensor, &no.tensor))
    }

    fn folded(&self, op: Reduce) -> Self {
        let Ok(shape) = self.tensor.shape() else {
            return self.clone();
        };
        let rank = shape.len();
        let axes: Vec<isize> = (rank - self.n_folded..rank)
            .map(usize::cast_signed)
            .collect();
        let folded = self.tensor.reduced(op, &Axes::keepdims(&axes[..]));
        self.with(folded.broadcast_to(&self.tensor.0.shape))
    }
}

impl Tensor {
    /// Creates a constant of the shape and the type of this tensor.
    #[track_caller]
    pub(crate) fn like(&self, value: f64) -> Self {
        Self::constant(Scalar::F64(value).cast(self.0.dtype)).broadcast_to(&self.0.shape)
    }

    /// Returns the tensors of which this node is a function, each with its cotangent, given the
    /// cotangent of this node. A tensor without an entry has the derivative 0 everywhere.
    ///
    /// The tensors are the node's inputs. For a view of other views, the only tensor is the source
    /// of a chain of views, each of which `is_inner` accepts. The chain is inverted at once,
    /// because each inversion may have to store its result.
    ///
    /// The new nodes record the source line of this node.
    pub(crate) fn input_cotangents(
        &self,
        cotangent: &Self,
        is_inner: impl Fn(&Self) -> bool,
    ) -> Vec<(&Self, Self)> {
        Self::with_line(self.node().location, || {
            if let Some((source, rows)) = self.chain_of_views(cotangent, is_inner) {
                return vec![(source, cotangent_of_view(cotangent, &rows, &source.0.shape))];
            }
            let shares = self.node().inputs.iter().zip(self.shares(cotangent));
            let shares = shares.filter_map(|(input, share)| Some((input, share?)));
            shares.collect()
        })
    }

    /// Returns the source of the longest chain of views that starts at this node and whose inverse
    /// needs no comparison of coordinates, with the maps of the composed view. Returns `None` if
    /// the node is no view of an accepted view.
    fn chain_of_views(
        &self,
        cotangent: &Self,
        is_inner: impl Fn(&Self) -> bool,
    ) -> Option<(&Self, Vec<IndexMap>)> {
        let mut chain = None;
        let (mut outer, mut composed) = match &self.node().op {
            Op::View { rows, .. } => (&self.node().inputs[0], rows.clone()),
            _ => return None,
        };
        while let (Op::View { rows, .. }, true) = (&outer.node().op, is_inner(outer)) {
            let rank = self.0.shape.len();
            composed = rows
                .iter()
                .map(|row| row.through_view(&composed, rank))
                .collect();
            outer = &outer.node().inputs[0];
            let inversion = ViewInversion::new(cotangent, &composed, &outer.0.shape);
            if !inversion.diagonals().is_empty() {
                break;
            }
            chain = Some((outer, composed.clone()));
        }
        chain
    }

    fn shares(&self, cotangent: &Self) -> Vec<Option<Self>> {
        let node = self.node();
        let inputs = &node.inputs;
        // The chain rule of an elementwise operation.
        let scaled = |derivative: Option<Elements>| derivative.map(|by| cotangent * by.tensor);
        match &node.op {
            Op::Error(_)
            | Op::Data(_)
            | Op::Const(_)
            | Op::Index
            | Op::Random { .. }
            | Op::Compare(_) => vec![None; inputs.len()],
            Op::Unary(op) => {
                let [x, y] = [&inputs[0], self].map(|tensor| Elements::new(tensor, 0));
                vec![scaled(op.derivative(&x, &y))]
            }
            Op::Binary(op) => {
                let [a, b, y] =
                    [&inputs[0], &inputs[1], self].map(|tensor| Elements::new(tensor, 0));
                let derivatives = op.derivatives(&a, &b, &y);
                #[cfg(test)]
                let derivatives = super::fault::derivatives(*op, derivatives);
                derivatives.map(scaled).into()
            }
            Op::Select => {
                let chosen = inputs[0].select(cotangent, 0.0);
                vec![None, Some(chosen), Some(inputs[0].select(0.0, cotangent))]
            }
            Op::Cast => {
                let dtype = cotangent_type(inputs[0].0.dtype);
                vec![Some(cotangent.cast(dtype))]
            }
            Op::Surrogate => vec![None, Some(cotangent.clone())],
            Op::Reshape => vec![Some(cotangent.reshape(&inputs[0].0.shape))],
            Op::Pad { before, .. } => vec![Some(unpadded(cotangent, before, &inputs[0].0.shape))],
            Op::View { rows, .. } => {
                vec![Some(cotangent_of_view(cotangent, rows, &inputs[0].0.shape))]
            }
            Op::Gather { axis, rows } => {
                let table = &inputs[0].0.shape;
                vec![
                    Some(cotangent_of_table(
                        cotangent, &inputs[1], *axis, rows, table,
                    )),
                    None,
                ]
            }
            Op::Scan(scan) => vec![Some(inputs[0].cotangent_of_scan(*scan, cotangent))],
            Op::Sort(sort) => vec![inputs[0].cotangent_of_sort(*sort, cotangent)],
            Op::Reduce { op, n_reduced } => {
                let x = Elements::new(&inputs[0], *n_reduced);
                // The result and its cotangent lack the reduced axes; repeat them along these axes,
                // which are the last ones of the input.
                let repeated = |tensor: &Self| {
                    let mut shape = node.shape.clone();
                    shape.resize(shape.len() + n_reduced, 1);
                    tensor.reshape(&shape).broadcast_to(&inputs[0].0.shape)
                };
                let derivative = op.derivative(&x, &x.with(repeated(self)));
                let share = derivative.map(|by| {
                    let slope = by.slope.tensor;
                    if !by.is_shared {
                        return repeated(cotangent) * slope;
                    }
                    let rank = slope.0.shape.len();
                    let axes = (rank - n_reduced..rank).map(usize::cast_signed);
                    let n_sharing = slope.sum(axes.collect::<Vec<_>>());
                    repeated(&(cotangent / n_sharing)) * slope
                });
                vec![share]
            }
        }
    }
}

/// Returns the type in which the cotangent of a tensor is computed. An `f16` has no arithmetic, so
/// its cotangent is an `f32`, and the gradient is rounded once, at the end.
pub(crate) fn cotangent_type(dtype: DType) -> DType {
    match dtype {
        DType::F16 => DType::F32,
        _ => dtype,
    }
}

/// Removes the padding: returns the part of shape `shape` that starts at `before`.
fn unpadded(padded: &Tensor, before: &[usize], shape: &[usize]) -> Tensor {
    let mut inner = padded.clone();
    for (axis, (&before, &size)) in before.iter().zip(shape).enumerate() {
        inner = kept(&inner, axis, before, size);
    }
    inner
}

/// Returns `size` elements of an axis, from position `first`.
fn kept(tensor: &Tensor, axis: usize, first: usize, size: usize) -> Tensor {
    let range = first.cast_signed()..(first + size).cast_signed();
    tensor.slice(axis.cast_signed(), range)
}

/// Pads one axis with zeros.
fn padded(tensor: &Tensor, axis: usize, before: usize, after: usize) -> Tensor {
    let zero = Tensor::constant(Scalar::zero(tensor.0.dtype));
    tensor.pad(axis.cast_signed(), before, after, zero)
}

/// Returns the cotangent of the table of a gather: at each position the sum of the cotangents of
/// all elements that read the position.
fn cotangent_of_table(
    cotangent: &Tensor,
    index: &Tensor,
    axis: usize,
    rows: &[IndexMap],
    table: &[usize],
) -> Tensor {
    let size = table[axis];
    // The comparison of each index with each position is never stored, not even in an eager scope.
    let lazily = hook::pause();
    let positions = match checked_positions("grad", index, size) {
        Ok(positions) => positions,
        Err(error) => return Tensor::error(error),
    };
    // A new last axis runs over all positions of the table: an element is passed on where the
    // position equals its index, and is 0 elsewhere.
    let hits = is_at("grad", &positions, size);
    let spread = hits.select(cotangent.expand_dims(-1), 0.0);
    // The coordinate along `axis` of the table now depends on the new last axis only.
    let rank = cotangent.0.shape.len();
    let rows: Vec<IndexMap> = rows
        .iter()
        .enumerate()
        .map(|(of, row)| {
            let mut row = row.clone();
            row.strides.resize(rank + 1, 0);
            row.strides[rank] = isize::from(of == axis);
            row
        })
        .collect();
    let sums = cotangent_of_view(&spread, &rows, table);
    drop(lazily);
    hook::after_operation(sums)
}

/// Returns the cotangent of the source of a view: for each position the sum over all elements that
/// read the position.
///
/// `rows` has one map per axis of the source, from the axes of `cotangent` to the coordinate on
/// that axis. `to` is the shape of the source.
fn cotangent_of_view(cotangent: &Tensor, rows: &[IndexMap], to: &[usize]) -> Tensor {
    let inverted = || -> Result<Tensor> {
        if cotangent.shape()?.contains(&0) {
            return Ok(Tensor::constant(Scalar::zero(cotangent.0.dtype)).broadcast_to(to));
        }
        // After these steps every axis of the tensor is an axis of the source.
        let mut inversion = ViewInversion::new(cotangent, rows, to);
        inversion.sum_repeated_axes()?;
        inversion.separate_diagonals()?;
        inversion.sort_axes()?;
        // The innermost axis comes first, so that an array that is stored between two sums of
        // windows has whole axes of the source behind the windows.
        for source in (0..to.len()).rev() {
            inversion.restore(source)?;
        }
        Ok(inversion.tensor)
    };
    inverted().unwrap_or_else(Tensor::error)
}

/// The meaning of an axis of [`ViewInversion::tensor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    /// An axis of the view.
    View(usize),
    /// An axis of the source, at its full size.
    Source(usize),
}

/// A cotangent while a view is inverted axis by axis: some axes of `tensor` are still axes of the
/// view, others are already axes of its source (`axes`).
///
/// Each intermediate tensor may be an error node, if its shape is too large. An error node has no
/// axes, so the code reads shapes by [`Tensor::shape`], which returns the error.
struct ViewInversion<'a> {
    tensor: Tensor,
    axes: Vec<Axis>,
    rows: Vec<IndexMap>,
    to: &'a [usize],
}

impl<'a> ViewInversion<'a> {
    fn new(cotangent: &Tensor, rows: &[IndexMap], to: &'a [usize]) -> Self {
        let shape = &cotangent.0.shape;
        let mut rows = rows.to_vec();
        for row in &mut rows {
            row.strides.resize(shape.len(), 0);
            // On an axis of size 1 the stride is irrelevant.
            for (stride, &size) in row.strides.iter_mut().zip(shape) {
                *stride = if size == 1 { 0 } else { *stride };
            }
        }
        Self {
            tensor: cotangent.clone(),
            axes: (0..shape.len()).map(Axis::View).collect(),
            rows,
            to,
        }
    }

    /// Returns the current position of an axis.
    fn place(&self, axis: Axis) -> usize {
        match self.axes.iter().position(|&own| own == axis) {
            Some(place) => place,
            None => unreachable!("an axis is used once"),
        }
    }

    /// Returns the axes of the view on which a coordinate of the source depends.
    fn walked(&self, source: usize) -> Vec<usize> {
        let strides = self.rows[source].strides.iter().enumerate();
        strides
            .filter(|(_, stride)| **stride != 0)
            .map(|(axis, _)| axis)
            .collect()
    }

    /// Sums over the axes of the view on which no coordinate depends, which repeat the source.
    fn sum_repeated_axes(&mut self) -> Result<()> {
        let repeats = |axis: &usize| self.rows.iter().all(|row| row.strides[*axis] == 0);
        let repeated: Vec<usize> = (0..self.axes.len()).filter(repeats).collect();
        self.sum_places(&repeated)
    }

    /// Sums over some axes and removes them; axes of size 1 are removed without a sum.
    fn sum_places(&mut self, places: &[usize]) -> Result<()> {
        let shape = self.tensor.shape()?;
        let longer = places.iter().filter(|&&place| shape[place] != 1);
        let longer: Vec<isize> = longer.map(|place| place.cast_signed()).collect();
        let left: Vec<usize> = (0..shape.len())
            .filter(|place| !places.contains(place))
            .collect();
        let sizes: Vec<usize> = left.iter().map(|&place| shape[place]).collect();
        if !longer.is_empty() {
            self.tensor = self.tensor.sum(&longer[..]);
        }
        self.tensor = self.tensor.reshape(&sizes);
        self.axes = left.iter().map(|&place| self.axes[place]).collect();
        Ok(())
    }

    /// Adds an axis for each coordinate of the source that [`Self::restore`] cannot invert, for
    /// example the second coordinate of a diagonal, which depends on the same axis of the view as
    /// the first one. The new axis is an axis of the source; elements are 0 where the position on
    /// this axis differs from the coordinate.
    fn separate_diagonals(&mut self) -> Result<()> {
        let apart = self.diagonals();
        for (source, walked) in &apart {
            let row = &self.rows[*source];
            // Compute the coordinate at each element of the view, and compare it with every
            // position on the axis of the source.
            let mut coordinate = Tensor::constant(offset_of(row.offset));
            for &axis in walked {
                let place = self.place(Axis::View(axis));
                let mut line = vec![1; self.axes.len()];
                line[place] = self.tensor.shape()?[place];
                let steps = Tensor::index("grad", line[place], MAX_POSITIONS).cast(DType::I32);
                let stride = Tensor::constant(offset_of(row.strides[axis]));
                coordinate += (steps * stride).reshape(&line);
            }
            let places = Tensor::index("grad", self.to[*source], MAX_POSITIONS).cast(DType::I32);
            let agree = coordinate.expand_dims(-1).eq(places);
            self.tensor = agree.select(self.tensor.expand_dims(-1), 0.0);
            self.axes.push(Axis::Source(*source));
        }
        let simple = (0..self.to.len()).filter(|source| apart.iter().all(|(of, _)| of != source));
        let taken: Vec<usize> = simple.flat_map(|source| self.walked(source)).collect();
        // No coordinate depends any more on the axes that only diagonals used, so they can be
        // summed.
        let left = |axis: &Axis| matches!(axis, Axis::View(axis) if !taken.contains(axis));
        let places = (0..self.axes.len()).filter(|&place| left(&self.axes[place]));
        let places: Vec<usize> = places.collect();
        self.sum_places(&places)
    }

    /// Returns the axes of the source whose coordinates [`Self::restore`] cannot invert, each with
    /// the axes of the view on which it depends.
    fn diagonals(&self) -> Vec<(usize, Vec<usize>)> {
        let mut taken: Vec<usize> = Vec::new();
        let mut diagonals = Vec::new();
        for source in 0..self.to.len() {
            let walked = self.walked(source);
            if self.is_simple(source) && walked.iter().all(|axis| !taken.contains(axis)) {
                taken.extend(walked);
            } else {
                diagonals.push((source, walked));
            }
        }
        diagonals
    }

    /// Returns whether `restore` can invert a coordinate: it is constant, or depends on one axis,
    /// or on the starts and the inner positions of windows.
    fn is_simple(&self, source: usize) -> bool {
        let strides = &self.rows[source].strides;
        match self.walked(source)[..] {
            [] | [_] => true,
            [starts, inside] => strides[inside] == 1 && strides[starts] > 0,
            _ => false,
        }
    }

    /// Permutes the axes into the order of the source; the inner positions of windows follow the
    /// starts. Results that must be stored on the way are then stored in the order in which they
    /// are read, with the longest runs of neighbours.
    fn sort_axes(&mut self) -> Result<()> {
        let mut order = Vec::with_capacity(self.axes.len());
        for source in 0..self.to.len() {
            if let Some(place) = self.separated(source) {
                order.push(place);
            } else {
                let walked = self.walked(source).into_iter();
                order.extend(walked.map(|axis| self.place(Axis::View(axis))));
            }
        }
        self.axes = order.iter().map(|&place| self.axes[place]).collect();
        let order: Vec<isize> = order.into_iter().map(usize::cast_signed).collect();
        self.tensor = self.tensor.permute(&order);
        self.tensor.shape().map(drop)
    }

    /// Returns the position of an axis of the source that `separate_diagonals` added.
    fn separated(&self, source: usize) -> Option<usize> {
        self.axes
            .iter()
            .position(|&own| own == Axis::Source(source))
    }

    /// Merges the axes of the gradient that step along one axis of the source into that axis, of
    /// the source's length; elements that no step reaches are 0. The axes are sorted, and the axes
    /// of the source after this one are restored.
    fn restore(&mut self, source: usize) -> Result<()> {
        if self.separated(source).is_some() {
            return Ok(());
        }
        let n_places = |before: usize| match self.separated(before) {
            Some(_) => 1,
            None => self.walked(before).len(),
        };
        let place: usize = (0..source).map(n_places).sum();
        let row = self.rows[source].clone();
        let mut backwards = false;
        match self.walked(source)[..] {
            [] => {
                self.tensor = self.tensor.expand_dims(place.cast_signed());
                self.axes.insert(place, Axis::Source(source));
            }
            [axis] => {
                self.restore_line(place, row.strides[axis].unsigned_abs())?;
                self.axes[place] = Axis::Source(source);
                backwards = row.strides[axis] < 0;
            }
            [starts, ..] => {
                self.restore_windows(place, row.strides[starts].unsigned_abs())?;
                self.axes[place] = Axis::Source(source);
            }
        }
        // The elements occupy coordinates from the first one upwards, or downwards if the axis is
        // reversed; a step leaves zeros at the end, which are cut off. The other coordinates are
        // padded.
        let first = row.offset.unsigned_abs();
        // The number of coordinates from the first one to the end of the axis in the walking
        // direction.
        let room = if backwards {
            first + 1
        } else {
            self.to[source] - first
        };
        let len = self.tensor.shape()?[place].min(room);
        let line = kept(&self.tensor, place, 0, len);
        self.tensor = if backwards {
            let turned = line.flip(place.cast_signed());
            padded(&turned, place, room - len, self.to[source] - room)
        } else {
            padded(&line, place, first, room - len)
        };
        Ok(())
    }

    /// Converts the axis at `place`, which has a step: inserts zeros between its elements.
    fn restore_line(&mut self, place: usize, step: usize) -> Result<()> {
        if step > 1 {
            let mut shape = self.tensor.shape()?.to_vec();
            // At most the size of the source axis plus one step, so this product does not overflow.
            shape[place] *= step;
            let apart = self.tensor.expand_dims(place.cast_signed() + 1);
            self.tensor = padded(&apart, place + 1, 0, step - 1).reshape(&shape);
        }
        Ok(())
    }

    /// Converts the starts of windows at position `place` and the inner positions after it.
    ///
    /// Position `step * u + v` of the source, with `v < step`, is read by window `u - m` at its
    /// inner position `v + step * m`, for each `m`. Therefore both axes are padded, read along
    /// these diagonals, and summed over `m`:
    /// ```text
    /// size 3, step 1   source position   0   1   2   3
    /// window 0         inner position    0   1   2
    /// window 1         inner position        0   1   2
    /// ```
    /// A position is in at most one window if the size is at most the step; there is no sum then.
    fn restore_windows(&mut self, place: usize, step: usize) -> Result<()> {
        let within = place + 1;
        let shape = self.tensor.shape()?;
        let (n, size) = (shape[place], shape[within]);
        let overlap = size.div_ceil(step);
        // Up to `overlap` windows read a position. Pad the starts on both sides, so that `u - m` is
        // always valid, and the inner positions up to a multiple of the step.
        let wide = padded(&self.tensor, place, overlap - 1, overlap - 1);
        let wide = padded(&wide, within, 0, overlap * step - size);
        let summed = if overlap == 1 {
            wide
        } else {
            // In the new view, u replaces the starts, v replaces the inner positions, m is the last
            // axis, and all others are unchanged.
            let rank = self.axes.len();
            let apart = step.cast_signed();
            #[cfg(test)]
            let apart = super::fault::step(apart);
            let rows = (0..rank).map(|axis| {
                let mut row = IndexMap {
                    offset: 0,
                    strides: vec![0; rank + 1],
                };
                row.strides[axis] = 1;
                if axis == place {
                    row.strides[rank] = -1;
                    row.offset = overlap.cast_signed() - 1;
                }
                if axis == within {
                    row.strides[rank] = apart;
                }
                row
            });
            let mut shape = wide.shape()?.to_vec();
            shape[place] = n + overlap - 1;
            shape[within] = step;
            shape.push(overlap);
            element_count("grad", &shape)?;
            let (dtype, rows) = (wide.0.dtype, rows.collect());
            let name = "window";
            Tensor::new(Op::View { name, rows }, vec![wide], shape, dtype).sum(-1)
        };
        let mut merged = summed.shape()?.to_vec();
        merged[place] *= merged.remove(within);
        self.tensor = summed.reshape(&merged);
        self.axes.remove(within);
        Ok(())
    }
}

/// Converts a position to `i32`, modulo 2^32 like all positions.
fn offset_of(position: isize) -> Scalar {
    Scalar::U32(crate::ir::low_bits(position)).cast(DType::I32)
}
