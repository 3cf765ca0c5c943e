//! The translation of instructions of random programs into tensors.
//!
//! Method: operands are converted, sliced or broadcast until the operation accepts them, and axes
//! and sizes are taken modulo the available ones. So no tensor built here may be an error node.

use super::program::{Extreme, Fold, Instruction, MAX_ELEMENTS, MAX_RANK, Pick, Stream, View};
use crate::dtype::{DType, Scalar};
use crate::op::{Binary, Reduce, Sorted};
use crate::rng::Philox;
use crate::{Axes, ScanAxis, SortAxis, Tensor};

/// Returns `true` if a tensor is small enough for a program to continue with.
pub(super) fn is_small(tensor: &Tensor) -> bool {
    let shape = shape_of(tensor);
    shape.len() <= MAX_RANK && shape.iter().product::<usize>() <= MAX_ELEMENTS
}

fn shape_of(tensor: &Tensor) -> Vec<usize> {
    match tensor.shape() {
        Ok(shape) => shape.to_vec(),
        Err(error) => panic!("a valid operation was rejected: {error}"),
    }
}

fn dtype_of(tensor: &Tensor) -> DType {
    tensor.node().dtype
}

impl Instruction {
    /// Returns the new tensor, or `None` if the operands cannot be adapted.
    pub(super) fn apply(&self, pick: &dyn Fn(&Pick) -> Tensor) -> Option<Tensor> {
        Some(match self {
            Self::Arange(len) => Tensor::arange(*len),
            Self::Full(shape, number) => Tensor::full(shape, *number),
            Self::Rand {
                normal,
                shape,
                stream,
            } => random(*normal, shape, *stream, pick)?,
            Self::Unary(op, x) => accepted(&pick(x), |dtype| op.accepts(dtype)).unary(*op),
            Self::Binary(op, a, b) => {
                let (a, b) = broadcastable(pick(a), pick(b))?;
                let (a, b) = of_one_type(&a, &b, |dtype| op.accepts(dtype));
                a.binary(*op, b)
            }
            Self::Repeated { first, then, x, y } => {
                let (x, y) = broadcastable(pick(x), pick(y))?;
                let accepts = |dtype| first.accepts(dtype) && then.accepts(dtype);
                let (x, y) = of_one_type(&x, &y, accepts);
                x.binary(*first, &y).binary(*then, y)
            }
            Self::Outer(op, a, b) => {
                let (a, b) = of_one_type(&pick(a).expand_dims(-1), &pick(b).flatten(), |dtype| {
                    op.accepts(dtype)
                });
                a.binary(*op, b)
            }
            Self::WithNumber {
                op,
                x,
                number,
                reversed,
            } => {
                let x = accepted(&pick(x), |dtype| op.accepts(dtype));
                let number = constant(*number, dtype_of(&x));
                if *reversed {
                    number.binary(*op, x)
                } else {
                    x.binary(*op, number)
                }
            }
            Self::Compare(op, a, b) => {
                let (a, b) = broadcastable(pick(a), pick(b))?;
                let (a, b) = of_one_type(&a, &b, |dtype| op.accepts(dtype));
                Tensor::compared(*op, a, b)
            }
            Self::Select(condition, a, b) => {
                let (a, b) = broadcastable(pick(a), pick(b))?;
                let (a, b) = of_one_type(&a, &b, |_| true);
                let (condition, a) = broadcastable(pick(condition).cast(DType::Bool), a)?;
                let (condition, b) = broadcastable(condition, b)?;
                let (a, b) = broadcastable(a, b)?;
                condition.select(a, b)
            }
            Self::Cast(dtype, x) => pick(x).cast(*dtype),
            Self::View(view, x) => view.apply(&pick(x))?,
            Self::Concat { parts, axis } => concat(parts.iter().map(pick).collect(), *axis)?,
            Self::Gather {
                table,
                index,
                axis,
                from_end,
            } => gather(&pick(table), &pick(index), *axis, *from_end)?,
            Self::TakeAlongAxis { table, index, axis } => {
                take_along_axis(&pick(table), &pick(index), *axis)?
            }
            Self::Reduce {
                fold,
                x,
                axes,
                keep,
            } => reduce(*fold, &pick(x), *axes, *keep)?,
            Self::Scan {
                op,
                x,
                axis,
                reversed,
                exclusive,
            } => scan(*op, &pick(x), *axis, *reversed, *exclusive)?,
            Self::Sort {
                x,
                axis,
                descending,
                result,
            } => sort(&pick(x), *axis, *descending, *result)?,
            Self::Scatter {
                op,
                start,
                index,
                values,
                axis,
                is_along_axis,
            } => {
                let parts = (&pick(index), &pick(values));
                scatter(*op, &pick(start), parts, *axis, *is_along_axis)?
            }
            Self::Along { extreme, x, axis } => extreme.apply(&pick(x), *axis)?,
            Self::Matmul(a, b) => matmul(&pick(a), &pick(b))?,
            Self::Large(large) => large.tensor(),
        })
    }
}

/// Returns random numbers, or `None` if the tensor that provides the stream's number is empty.
fn random(
    normal: bool,
    shape: &[usize],
    stream: Stream,
    pick: &dyn Fn(&Pick) -> Tensor,
) -> Option<Tensor> {
    // A different key for each shape, because a kernel must read the key from its program.
    let seed = Philox::new(shape.iter().sum::<usize>() as u64);
    Some(match stream {
        Stream::Fixed(number) if normal => Tensor::randn(seed.stream(number), shape),
        Stream::Fixed(number) => Tensor::rand(seed.stream(number), shape),
        Stream::Computed(tensor) => {
            let flat = pick(&tensor).flatten();
            if shape_of(&flat)[0] == 0 {
                return None;
            }
            let number = flat.slice(0, 0..1).cast(DType::U32);
            match normal {
                true => Tensor::randn_in_stream(seed, &number, shape),
                false => Tensor::rand_in_stream(seed, &number, shape),
            }
        }
    })
}

impl View {
    fn apply(&self, x: &Tensor) -> Option<Tensor> {
        let shape = shape_of(x);
        let axis = |axis: isize| axis_in(axis, shape.len());
        Some(match self {
            Self::Permute(code) => x.permute(&permutation(*code, shape.len())),
            Self::Transpose => x.t(),
            Self::ExpandDims(axis) => x.expand_dims(axis_in(*axis, shape.len() + 1)?),
            Self::Squeeze(skip) => {
                let ones: Vec<isize> = (0..)
                    .zip(&shape)
                    .filter(|(_, size)| **size == 1)
                    .map(|(at, _)| at)
                    .collect();
                x.squeeze(*ones.get(skip % ones.len().max(1))?)
            }
            Self::Slice(at, slice) => x.slice(axis(*at)?, *slice),
            Self::Flip(at) => x.flip(axis(*at)?),
            Self::Window {
                axis: at,
                size,
                step,
            } => {
                let size = (*size).min(size_of_axis(x, axis(*at)?));
                (size > 0).then(|| axis(*at).map(|at| x.window(at, size, *step)))??
            }
            Self::Pad {
                axis: at,
                before,
                after,
                fill,
            } => x.pad(axis(*at)?, *before, *after, constant(*fill, dtype_of(x))),
            Self::Broadcast { times, new_axis } => {
                let mut to: Vec<usize> = shape
                    .iter()
                    .map(|&size| if size == 1 { *times } else { size })
                    .collect();
                if *new_axis {
                    to.insert(0, *times);
                }
                x.broadcast_to(&to)
            }
            Self::Reshape(code) => x.reshape(&reshaped(&shape, *code)),
        })
    }
}

impl Extreme {
    fn apply(self, x: &Tensor, axis: isize) -> Option<Tensor> {
        let axis = axis_in(axis, shape_of(x).len())?;
        if size_of_axis(x, axis) == 0 {
            return None;
        }
        let numeric = accepted(x, |dtype| Reduce::Max.accepts(dtype));
        Some(match self {
            Self::Argmax => numeric.argmax(axis),
            Self::Argmin => numeric.argmin(axis),
            Self::Softmax => accepted(x, DType::is_float).softmax(axis),
        })
    }
}

/// Returns an axis modulo the rank, negative if the argument is; `None` if the rank is 0.
fn axis_in(axis: isize, rank: usize) -> Option<isize> {
    let rank = rank.cast_signed();
    (rank > 0).then(|| {
        if axis < 0 {
            axis.rem_euclid(rank) - rank
        } else {
            axis % rank
        }
    })
}

fn size_of_axis(x: &Tensor, axis: isize) -> usize {
    let shape = shape_of(x);
    shape[axis.rem_euclid(shape.len().cast_signed()).cast_unsigned()]
}

/// Returns the permutation of the axes that `code` encodes.
fn permutation(mut code: usize, rank: usize) -> Vec<isize> {
    let mut left: Vec<isize> = (0..rank.cast_signed()).collect();
    let mut axes = Vec::with_capacity(rank);
    while !left.is_empty() {
        // The digits of the code, in a mixed radix, choose among the axes that are left.
        axes.push(left.remove(code % left.len()));
        code /= left.len() + 1;
    }
    axes
}

/// Returns another shape with as many elements: flat, with two axes merged, or with one axis split.
fn reshaped(shape: &[usize], code: usize) -> Vec<usize> {
    let len: usize = shape.iter().product();
    let mut all = vec![vec![len], vec![1, len, 1]];
    for at in 1..shape.len() {
        let merged = shape[at - 1] * shape[at];
        all.push([&shape[..at - 1], &[merged], &shape[at + 1..]].concat());
    }
    for factor in (2..6).filter(|factor| len.is_multiple_of(*factor)) {
        all.push(vec![len / factor, factor]);
        for (at, &size) in shape
            .iter()
            .enumerate()
            .filter(|(_, size)| *size % factor == 0)
        {
            all.push([&shape[..at], &[factor, size / factor], &shape[at + 1..]].concat());
        }
    }
    all.swap_remove(code % all.len())
}

pub(super) fn constant(number: f64, dtype: DType) -> Tensor {
    Tensor::constant(Scalar::F64(number).cast(dtype))
}

/// Returns the tensor in its own type if the operation accepts the type, otherwise converted to the
/// first accepted type.
fn accepted(x: &Tensor, accepts: impl Fn(DType) -> bool) -> Tensor {
    let types = [dtype_of(x), DType::F32, DType::I32, DType::Bool];
    let dtype = types.into_iter().find(|&dtype| accepts(dtype));
    x.cast(dtype.expect("every operation accepts one of these types"))
}

/// Returns both tensors in one type that the operation accepts.
fn of_one_type(a: &Tensor, b: &Tensor, accepts: impl Fn(DType) -> bool) -> (Tensor, Tensor) {
    let a = accepted(a, accepts);
    let b = b.cast(dtype_of(&a));
    (a, b)
}

/// Returns the tensors, sliced so that they broadcast; `None` if an empty axis meets a longer axis.
fn broadcastable(a: Tensor, b: Tensor) -> Option<(Tensor, Tensor)> {
    let (mut a, mut b) = (a, b);
    let common = shape_of(&a).len().min(shape_of(&b).len());
    for axis in (1..=common).map(|back| -back.cast_signed()) {
        let (left, right) = (size_of_axis(&a, axis), size_of_axis(&b, axis));
        // Size 1 broadcasts; a longer axis is sliced to the shorter size.
        let cut = |x: Tensor, from: usize, to: usize| match (from, to) {
            (_, 1) | (1, _) => Some(x),
            (from, to) if from == to => Some(x),
            (0, _) => None,
            (from, to) if from > to && to > 0 => Some(x.slice(axis, ..to.cast_signed())),
            _ => Some(x.slice(axis, ..1)),
        };
        if left >= right {
            a = cut(a, left, right)?;
        } else {
            b = cut(b, right, left)?;
        }
    }
    Some((a, b))
}

fn concat(parts: Vec<Tensor>, axis: isize) -> Option<Tensor> {
    let first = parts[0].clone();
    let axis = axis_in(axis, shape_of(&first).len())?;
    let (mut joined, dtype) = (vec![first.clone()], dtype_of(&first));
    for part in &parts[1..] {
        // All sizes but that of the joined axis must be equal.
        let fits = |part: &Tensor| {
            let (mut a, mut b) = (shape_of(&first), shape_of(part));
            let at = axis.rem_euclid(a.len().cast_signed()).cast_unsigned();
            a.len() == b.len() && {
                (a[at], b[at]) = (0, 0);
                a == b
            }
        };
        let part = part.cast(dtype);
        joined.push(if fits(&part) { part } else { first.flip(axis) });
    }
    Some(Tensor::concat(&joined.iter().collect::<Vec<_>>(), axis))
}

/// Returns an integer tensor with every element inside an axis; negative indices that count from
/// the end if `from_end` is set.
pub(super) fn positions(index: &Tensor, extent: usize, from_end: bool) -> Tensor {
    let extent = i32::try_from(extent).expect("programs are small");
    if from_end {
        index.cast(DType::I32).rem(extent) + -extent
    } else if dtype_of(index) == DType::U32 {
        index.rem(extent)
    } else {
        index.cast(DType::I32).rem(extent)
    }
}

fn gather(table: &Tensor, index: &Tensor, axis: isize, from_end: bool) -> Option<Tensor> {
    let axis = axis_in(axis, shape_of(table).len())?;
    let index = index_of_axis(table, index, axis, from_end)?;
    Some(table.gather(&index, axis))
}

/// Returns an index into `axis`; `None` if the axis is empty or the index has more than two axes.
fn index_of_axis(table: &Tensor, index: &Tensor, axis: isize, from_end: bool) -> Option<Tensor> {
    let extent = size_of_axis(table, axis);
    let fits = extent > 0 && shape_of(index).len() <= 2;
    fits.then(|| positions(index, extent, from_end))
}

fn take_along_axis(table: &Tensor, index: &Tensor, axis: isize) -> Option<Tensor> {
    let axis = axis_in(axis, shape_of(table).len())?;
    let index = index_along_axis(table, index, axis)?;
    Some(table.take_along_axis(&index, axis))
}

/// Returns an index for a gather along an axis, sliced so that it broadcasts; `None` if there is
/// none.
fn index_along_axis(table: &Tensor, index: &Tensor, axis: isize) -> Option<Tensor> {
    let shape = shape_of(table);
    let mut index = if shape_of(index).len() == shape.len() {
        index.clone()
    } else {
        table.clone()
    };
    for (other, &size) in (0..).zip(&shape) {
        let own = size_of_axis(&index, other);
        let is_picked = other == axis.rem_euclid(shape.len().cast_signed());
        if !is_picked && own != size && own != 1 {
            index = index.slice(other, ..1);
            if own == 0 {
                return None;
            }
        }
    }
    let extent = size_of_axis(table, axis);
    (extent > 0).then(|| positions(&index, extent, false))
}

/// Folds elements of `values` into `start` at the positions of an index. Returns `None` if the
/// tensors cannot be adapted.
fn scatter(
    op: Reduce,
    start: &Tensor,
    (index, values): (&Tensor, &Tensor),
    axis: isize,
    is_along_axis: bool,
) -> Option<Tensor> {
    let numbers = |dtype: DType| dtype != DType::F16 && dtype != DType::Bool;
    let (start, values) = of_one_type(start, values, numbers);
    let axis = axis_in(axis, shape_of(&start).len())?;
    let extent = size_of_axis(&start, axis);
    let index = if is_along_axis {
        index_along_axis(&start, index, axis)?
    } else {
        index_of_axis(&start, index, axis, true)?
    };
    let read = match is_along_axis {
        true => start.take_along_axis(&index, axis),
        false => start.gather(&index, axis),
    };
    // A scatter compares each index with each position.
    if !is_small(&read.expand_dims(-1))
        || shape_of(&read).iter().product::<usize>() * extent > MAX_ELEMENTS
    {
        return None;
    }
    let is_number = shape_of(&values).is_empty();
    let fits = is_number || shape_of(&values) == shape_of(&read);
    let values = if fits { values } else { read };
    Some(scattered(
        op,
        &start,
        (&index, &values),
        axis,
        is_along_axis,
    ))
}

/// Folds elements of `values` into `start` at the positions of `index`.
pub(super) fn scattered(
    op: Reduce,
    start: &Tensor,
    (index, values): (&Tensor, &Tensor),
    axis: isize,
    is_along_axis: bool,
) -> Tensor {
    match (op, is_along_axis) {
        (Reduce::Max, false) => start.scatter_max(index, values, axis),
        (Reduce::Min, false) => start.scatter_min(index, values, axis),
        (_, false) => start.scatter_add(index, values, axis),
        (Reduce::Max, true) => start.scatter_max_along_axis(index, values, axis),
        (Reduce::Min, true) => start.scatter_min_along_axis(index, values, axis),
        (_, true) => start.scatter_add_along_axis(index, values, axis),
    }
}

/// Reduces over the axes whose bits are set in `axes`; `None` for an extreme over no elements.
fn reduce(fold: Fold, x: &Tensor, axes: u8, keep: bool) -> Option<Tensor> {
    let shape = shape_of(x);
    let folded: Vec<isize> = (0..)
        .take(shape.len())
        .filter(|axis| axes >> axis & 1 == 1)
        .collect();
    let is_extreme = matches!(fold, Fold::Plain(Reduce::Max | Reduce::Min));
    if is_extreme && shape.contains(&0) {
        return None;
    }
    let axes = || {
        if keep {
            Axes::keepdims(&folded[..])
        } else {
            Axes::from(&folded[..])
        }
    };
    Some(match fold {
        Fold::Plain(op) => accepted(x, |dtype| op.accepts(dtype)).reduced(op, &axes()),
        Fold::Count => x.count(axes()),
        Fold::Mean => accepted(x, |dtype| dtype != DType::F16).mean(axes()),
    })
}

/// Scans along an axis; `None` if the tensor has no axes.
fn scan(op: Reduce, x: &Tensor, axis: isize, reversed: bool, exclusive: bool) -> Option<Tensor> {
    let mut along = ScanAxis::new(axis_in(axis, shape_of(x).len())?);
    if reversed {
        along = along.reversed();
    }
    if exclusive {
        along = along.exclusive();
    }
    Some(accepted(x, |dtype| op.accepts(dtype)).scanned(op, along))
}

/// Sorts along an axis; `None` if the tensor has no axes.
fn sort(x: &Tensor, axis: isize, descending: bool, result: Sorted) -> Option<Tensor> {
    let along = SortAxis::new(axis_in(axis, shape_of(x).len())?);
    let along = if descending {
        along.descending()
    } else {
        along
    };
    let x = accepted(x, |dtype| dtype != DType::F16);
    Some(match result {
        Sorted::Elements => x.sort(along),
        Sorted::Positions => x.argsort(along),
    })
}

/// Returns a matrix product of operands that are sliced to fit, or `None` if they cannot fit or the
/// product is too large.
fn matmul(a: &Tensor, b: &Tensor) -> Option<Tensor> {
    let (a, b) = of_one_type(a, b, |dtype| Binary::Mul.accepts(dtype));
    let (a_rank, mut b_rank) = (shape_of(&a).len(), shape_of(&b).len());
    if a_rank == 0 || b_rank == 0 {
        return None;
    }
    let mut b = b;
    if a_rank > 1 && (b_rank == 1 || size_of_axis(&b, -2) == 1) {
        // Multiply `a` by its own transpose instead of `b`: with a vector, or with an inner axis of
        // size 1, the product would not be a matrix product.
        let mut axes: Vec<isize> = (0..a_rank.cast_signed()).collect();
        axes.swap(a_rank - 1, a_rank - 2);
        (b, b_rank) = (a.permute(&axes), a_rank);
    }
    let b_axis = if b_rank == 1 { -1 } else { -2 };
    // Slice both inner axes to their common size.
    let inner = size_of_axis(&a, -1)
        .min(size_of_axis(&b, b_axis))
        .cast_signed();
    let (a, mut b) = (a.slice(-1, ..inner), b.slice(b_axis, ..inner));
    // Batch axes must broadcast.
    for axis in (3..=a_rank.min(b_rank)).map(|back| -back.cast_signed()) {
        let (left, right) = (size_of_axis(&a, axis), size_of_axis(&b, axis));
        if left != right && left != 1 && right != 1 {
            if right == 0 {
                return None;
            }
            b = b.slice(axis, ..1);
        }
    }
    let product = a.matmul(&b);
    let points = shape_of(&product).iter().product::<usize>() * inner.cast_unsigned();
    (points <= MAX_ELEMENTS).then_some(product)
}
