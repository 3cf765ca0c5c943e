//! What each operation hands on to its inputs of the cotangent it was handed.
//!
//! Role: the rules of [`grad`](crate::grad()) for nodes; those of scalar operations stand beside their definitions in
//! [`crate::op`].
//! Method: all that is made here are nodes of the same dozen kinds. A view is undone axis by axis: an axis that it repeats is
//! summed; a slice is padded; a step is filled with zeros; overlapping windows are read along their diagonals and summed.
//! A gather compares each place of the table with each index.

use super::{Axes, Op, Tensor};
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::ir::IndexMap;
use crate::op::calculus::Calculus;
use crate::op::{Binary, Compare, Reduce, Unary};
use crate::shape::element_count;

/// The elements of a tensor as derivatives are written in them; reductions fold its last axes.
#[derive(Clone)]
struct Elements {
    tensor: Tensor,
    n_folded: usize,
}

impl Elements {
    fn of(tensor: &Tensor, n_folded: usize) -> Self {
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
        let folded = self.tensor.reduced(op, &Axes::keep(&axes[..]));
        self.with(folded.broadcast_to(&self.tensor.0.shape))
    }
}

impl Tensor {
    /// A constant in the shape and the type of this tensor.
    pub(crate) fn like(&self, value: f64) -> Self {
        Self::constant(Scalar::F64(value).cast(self.0.dtype)).broadcast_to(&self.0.shape)
    }

    /// What a node hands on to each of its inputs of its cotangent; `None` where it is constant.
    ///
    /// What is made for that counts as made by the node's own line.
    pub(crate) fn handed_on(&self, cotangent: &Self) -> Vec<Option<Self>> {
        Self::on_behalf_of(self.node().location, || self.shares(cotangent))
    }

    fn shares(&self, cotangent: &Self) -> Vec<Option<Self>> {
        let node = self.node();
        let inputs = &node.inputs;
        let scaled = |derivative: Option<Elements>| derivative.map(|by| cotangent * by.tensor);
        match &node.op {
            Op::Error(_)
            | Op::Data(_)
            | Op::Const(_)
            | Op::Index
            | Op::Random { .. }
            | Op::Compare(_) => vec![None; inputs.len()],
            Op::Unary(op) => {
                let [x, y] = [&inputs[0], self].map(|tensor| Elements::of(tensor, 0));
                vec![scaled(op.derivative(&x, &y))]
            }
            Op::Binary(op) => {
                let [a, b, y] =
                    [&inputs[0], &inputs[1], self].map(|tensor| Elements::of(tensor, 0));
                let derivatives = op.derivatives(&a, &b, &y);
                #[cfg(test)]
                let derivatives = crate::grad::fault::derivatives(*op, derivatives);
                derivatives.map(scaled).into()
            }
            Op::Select => {
                let chosen = inputs[0].select(cotangent, 0.0);
                vec![None, Some(chosen), Some(inputs[0].select(0.0, cotangent))]
            }
            Op::Cast => vec![Some(cotangent.cast(inputs[0].0.dtype))],
            Op::Surrogate => vec![None, Some(cotangent.clone())],
            Op::Reshape => vec![Some(cotangent.reshape(&inputs[0].0.shape))],
            Op::Pad { before, .. } => vec![Some(unpadded(cotangent, before, &inputs[0].0.shape))],
            Op::Move { rows, .. } => vec![Some(unmoved(cotangent, rows, &inputs[0].0.shape))],
            Op::Gather { axis, rows } => {
                let table = &inputs[0].0.shape;
                vec![
                    Some(ungathered(cotangent, &inputs[1], *axis, rows, table)),
                    None,
                ]
            }
            Op::Reduce { op, n_reduced } => {
                let x = Elements::of(&inputs[0], *n_reduced);
                let repeated = |tensor: &Self| {
                    let mut shape = node.shape.clone();
                    shape.resize(shape.len() + n_reduced, 1);
                    tensor.reshape(&shape).broadcast_to(&inputs[0].0.shape)
                };
                let derivative = op.derivative(&x, &x.with(repeated(self)));
                vec![derivative.map(|by| repeated(cotangent) * by.tensor)]
            }
        }
    }
}

/// What of a padded tensor is not padding.
fn unpadded(padded: &Tensor, before: &[usize], shape: &[usize]) -> Tensor {
    let mut inner = padded.clone();
    for (axis, (&before, &size)) in before.iter().zip(shape).enumerate() {
        inner = kept(&inner, axis, before, size);
    }
    inner
}

/// `size` elements of an axis, from `first` on.
fn kept(tensor: &Tensor, axis: usize, first: usize, size: usize) -> Tensor {
    let range = first.cast_signed()..(first + size).cast_signed();
    tensor.slice(axis.cast_signed(), range)
}

/// Zeros around one axis.
fn padded(tensor: &Tensor, axis: usize, before: usize, after: usize) -> Tensor {
    let zero = Tensor::constant(Scalar::zero(tensor.0.dtype));
    tensor.pad(axis.cast_signed(), before, after, zero)
}

/// The table's share: each element goes where the index says. Every place is compared with every index.
fn ungathered(
    cotangent: &Tensor,
    index: &Tensor,
    axis: usize,
    rows: &[IndexMap],
    table: &[usize],
) -> Tensor {
    let size = table[axis];
    let places = Tensor::index("grad", size, 1 << 32).cast(index.0.dtype);
    let index = if index.0.dtype == DType::I32 {
        let from_end = index.binary(Binary::Add, Tensor::constant(offset_of(size.cast_signed())));
        index.lt(0).select(from_end, index)
    } else {
        index.clone()
    };
    let hits = index.expand_dims(-1).eq(places);
    let spread = hits.select(cotangent.expand_dims(-1), 0.0);
    // The place is one more axis of what was read, and the axis of the table walks along it.
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
    unmoved(&spread, &rows, table)
}

/// The source's share of what was read at affine coordinates: at each place the sum over all that read it.
///
/// `rows` has a map for each axis of the source, whose shape is `to`, over the axes of `cotangent`.
fn unmoved(cotangent: &Tensor, rows: &[IndexMap], to: &[usize]) -> Tensor {
    let undone = || -> Result<Tensor> {
        if cotangent.shape()?.contains(&0) {
            return Ok(Tensor::constant(Scalar::zero(cotangent.0.dtype)).broadcast_to(to));
        }
        let mut undone = Undone::of(cotangent, rows, to);
        undone.sum_what_repeats()?;
        undone.separate_diagonals()?;
        for axis in 0..to.len() {
            undone.restore(axis)?;
        }
        Ok(undone.in_order())
    };
    undone().unwrap_or_else(Tensor::error)
}

/// What an axis of a view half undone stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Axis {
    /// An axis of the view.
    View(usize),
    /// An axis of the source, complete.
    Source(usize),
}

/// A view on its way back to its source.
///
/// Each operation on the way may be an error node, of a shape that is too large. An error node has
/// no axes, so the shape is read by [`Tensor::shape`] alone, which returns the error.
struct Undone<'a> {
    tensor: Tensor,
    axes: Vec<Axis>,
    rows: Vec<IndexMap>,
    to: &'a [usize],
}

impl<'a> Undone<'a> {
    fn of(cotangent: &Tensor, rows: &[IndexMap], to: &'a [usize]) -> Self {
        let shape = &cotangent.0.shape;
        let mut rows = rows.to_vec();
        for row in &mut rows {
            row.strides.resize(shape.len(), 0);
            // An axis with one position moves nothing.
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

    /// Where an axis of the view stands now.
    fn place(&self, axis: Axis) -> usize {
        match self.axes.iter().position(|&own| own == axis) {
            Some(place) => place,
            None => unreachable!("an axis is taken once"),
        }
    }

    /// The axes of the view that a coordinate of the source depends on.
    fn walked(&self, source: usize) -> Vec<usize> {
        let strides = self.rows[source].strides.iter().enumerate();
        strides
            .filter(|(_, stride)| **stride != 0)
            .map(|(axis, _)| axis)
            .collect()
    }

    fn sum_what_repeats(&mut self) -> Result<()> {
        let repeats = |axis: &usize| self.rows.iter().all(|row| row.strides[*axis] == 0);
        let repeated: Vec<usize> = (0..self.axes.len()).filter(repeats).collect();
        self.sum_places(&repeated)
    }

    /// Sums over some axes; those with one position just go.
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

    /// A coordinate that walks along an axis which another one walks already (a diagonal) becomes an axis of its own, with
    /// zeros where the two disagree.
    fn separate_diagonals(&mut self) -> Result<()> {
        let mut taken: Vec<usize> = Vec::new();
        let mut apart = Vec::new();
        for source in 0..self.to.len() {
            let walked = self.walked(source);
            if self.is_simple(source) && walked.iter().all(|axis| !taken.contains(axis)) {
                taken.extend(walked);
            } else {
                apart.push((source, walked));
            }
        }
        for (source, walked) in &apart {
            let row = &self.rows[*source];
            let mut coordinate = Tensor::constant(offset_of(row.offset));
            for &axis in walked {
                let place = self.place(Axis::View(axis));
                let mut line = vec![1; self.axes.len()];
                line[place] = self.tensor.shape()?[place];
                let steps = Tensor::index("grad", line[place], 1 << 32).cast(DType::I32);
                let stride = Tensor::constant(offset_of(row.strides[axis]));
                coordinate += (steps * stride).reshape(&line);
            }
            let places = Tensor::index("grad", self.to[*source], 1 << 32).cast(DType::I32);
            let agree = coordinate.expand_dims(-1).eq(places);
            self.tensor = agree.select(self.tensor.expand_dims(-1), 0.0);
            self.axes.push(Axis::Source(*source));
        }
        // Nothing else walks along what only diagonals did.
        let left = |axis: &Axis| matches!(axis, Axis::View(axis) if !taken.contains(axis));
        let places = (0..self.axes.len()).filter(|&place| left(&self.axes[place]));
        let places: Vec<usize> = places.collect();
        self.sum_places(&places)
    }

    /// Whether a coordinate is one that `restore` undoes: constant, along one axis, or along the starts and the insides of
    /// windows.
    fn is_simple(&self, source: usize) -> bool {
        let strides = &self.rows[source].strides;
        match self.walked(source)[..] {
            [] | [_] => true,
            [starts, inside] => strides[inside] == 1 && strides[starts] > 0,
            _ => false,
        }
    }

    /// Restores one axis of the source.
    fn restore(&mut self, source: usize) -> Result<()> {
        if self.axes.contains(&Axis::Source(source)) {
            return Ok(());
        }
        let row = self.rows[source].clone();
        let (place, backwards) = match self.walked(source)[..] {
            [] => {
                self.tensor = self.tensor.expand_dims(-1);
                self.axes.push(Axis::Source(source));
                (self.axes.len() - 1, false)
            }
            [axis] => (self.restore_line(source, axis)?, row.strides[axis] < 0),
            [starts, inside, ..] => (self.restore_windows(source, starts, inside)?, false),
        };
        // Elements lie from the first one's coordinate on, to higher ones or to lower ones; a step leaves zeros at the end.
        let first = row.offset.unsigned_abs();
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

    /// A line with steps: zeros are put between its elements.
    fn restore_line(&mut self, source: usize, axis: usize) -> Result<usize> {
        let place = self.place(Axis::View(axis));
        let step = self.rows[source].strides[axis].unsigned_abs();
        if step > 1 {
            let mut shape = self.tensor.shape()?.to_vec();
            // Not more than the axis of the source and one step, so there is no overflow.
            shape[place] *= step;
            let apart = self.tensor.expand_dims(place.cast_signed() + 1);
            self.tensor = padded(&apart, place + 1, 0, step - 1).reshape(&shape);
        }
        self.axes[place] = Axis::Source(source);
        Ok(place)
    }

    /// Windows: position `step u + v` of the source was read by the windows that start at `u - m` steps, at their position
    /// `v + step m`, for each m. So both axes are padded, read along these diagonals, and summed over m.
    fn restore_windows(&mut self, source: usize, starts: usize, inside: usize) -> Result<usize> {
        let (at, within) = (
            self.place(Axis::View(starts)),
            self.place(Axis::View(inside)),
        );
        let step = self.rows[source].strides[starts].unsigned_abs();
        let shape = self.tensor.shape()?;
        let (n, size) = (shape[at], shape[within]);
        let overlap = size.div_ceil(step);
        let wide = padded(&self.tensor, at, overlap - 1, overlap - 1);
        let wide = padded(&wide, within, 0, overlap * step - size);
        // The axes: all others as they were, u in the place of the starts, v in that of the insides, and m last.
        let rank = self.axes.len();
        let apart = step.cast_signed();
        #[cfg(test)]
        let apart = crate::grad::fault::step(apart);
        let rows = (0..rank).map(|axis| {
            let mut row = IndexMap {
                offset: 0,
                strides: vec![0; rank + 1],
            };
            row.strides[axis] = 1;
            if axis == at {
                row.strides[rank] = -1;
                row.offset = overlap.cast_signed() - 1;
            }
            if axis == within {
                row.strides[rank] = apart;
            }
            row
        });
        let mut shape = wide.shape()?.to_vec();
        shape[at] = n + overlap - 1;
        shape[within] = step;
        shape.push(overlap);
        element_count("grad", &shape)?;
        let (dtype, rows) = (wide.0.dtype, rows.collect());
        let name = "window";
        let summed = Tensor::new(Op::Move { name, rows }, vec![wide], shape, dtype).sum(-1);
        // v after u, then both are one axis.
        let mut order: Vec<usize> = (0..rank).filter(|&axis| axis != within).collect();
        let place = at - usize::from(within < at);
        order.insert(place + 1, within);
        let order: Vec<isize> = order.into_iter().map(usize::cast_signed).collect();
        let ordered = summed.permute(&order);
        let mut merged = ordered.shape()?.to_vec();
        let inner = if merged.len() > place + 1 {
            merged.remove(place + 1)
        } else {
            1
        };
        merged[place] *= inner;
        self.tensor = ordered.reshape(&merged);
        self.axes.remove(within);
        self.axes[place] = Axis::Source(source);
        Ok(place)
    }

    fn in_order(self) -> Tensor {
        let places =
            (0..self.to.len()).map(|source| self.place(Axis::Source(source)).cast_signed());
        let order: Vec<isize> = places.collect();
        self.tensor.permute(&order)
    }
}

/// A position as an `i32`, modulo 2^32 as all positions are.
fn offset_of(position: isize) -> Scalar {
    Scalar::U32(crate::exec::low_bits(position)).cast(DType::I32)
}
