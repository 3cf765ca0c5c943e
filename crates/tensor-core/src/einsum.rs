//! Einstein summation over host arrays.
//!
//! Role: [`EinsumSpec`] is the parsed text, [`Contraction`] adds a size for each label, and
//! [`Contraction::path`] returns the steps that executors run; none of these touch data. This
//! module evaluates a contraction directly, as one loop nest over affine [`View`]s. This evaluation
//! is the reference for tests, and one of the implementations in the matrix product benchmark.
//! Method: every operand becomes a view over all labels, output labels first, then summed labels. A
//! label that an operand lacks gets stride 0; a label that it has twice gets the sum of both
//! strides (the diagonal). Then the products are added up. If the operands have stride 0 or 1 on
//! the last output label, the innermost loop runs over this label and adds whole rows, which
//! vectorizes; otherwise it runs over the last summed label (a dot product).
//! Accuracy: products are computed from left to right, and each element adds its products to zero
//! one at a time, in row-major order of the summed labels (by first appearance), all in the element
//! type. The choice of the innermost loop changes neither this order nor the bits. With `n`
//! products of two factors the error is that of any sum of products, at most about `n · EPSILON / 2
//! · Σ|a·b|` (see [`Tolerance`](crate::compare::Tolerance)); each factor beyond two adds one
//! rounding.
//! Source: the rules are those of `NumPy`'s `einsum` without `optimize`.
//! Limits: the running time of the functions in this module is proportional to the product of the
//! sizes of all labels; they do not use the path.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ndarray::{ArrayBase, ArrayD, ArrayViewD, Axis, Data, Dimension, IxDyn};

use crate::array::from_checked;
use crate::error::Result;
pub use crate::error::{EinsumError, Label};
use crate::float::Float;
use crate::shape::{allocatable_count, element_count};
use crate::view::{Odometer, View};
pub use contraction::Contraction;
pub use path::{Groups, Product, Slot, Step};
pub use spec::EinsumSpec;

mod contraction;
mod path;
mod search;
mod spec;

/// The smallest size of the last output label for which an innermost loop over this label (adding
/// rows) is faster than one over the last summed label (dot products).
const MIN_ROW_LEN: usize = 4;

/// An operand of einsum: an `ndarray` of any rank, owned or borrowed.
pub trait Operand<T> {
    /// Returns a view of the array with dynamic rank.
    fn operand_view(&self) -> ArrayViewD<'_, T>;
}

impl<T, S: Data<Elem = T>, D: Dimension> Operand<T> for ArrayBase<S, D> {
    fn operand_view(&self) -> ArrayViewD<'_, T> {
        self.view().into_dyn()
    }
}

/// Computes an Einstein summation: multiplies the operands and sums over the labels that the output
/// lacks.
///
/// `"ik,kj->ij"` means `C[i, j] = Σ_k A[i, k] · B[k, j]`. Without `->` the output consists of the
/// labels that occur once, in alphabetical order. A label that repeats in one operand selects its
/// diagonal. Blanks are ignored. As in `NumPy`, an axis of size 1 broadcasts against the axes with
/// the same label in other operands (not in the same operand). Empty sums are zero; NaN and
/// infinity follow IEEE 754.
///
/// An ellipsis represents the axes without a letter, as many as there are: `"...ij,...jk->...ik"`
/// multiplies stacks of matrices. The ellipses of different operands broadcast against each other,
/// aligned at the last axis. Their axes are never summed: without `->` they come first in the
/// output, and an output without `...` is an error unless the ellipses represent no axis.
///
/// Operands are read in place, even if they are transposed, flipped, or broadcast by stride 0. Only
/// an operand with gaps in memory, or one that overlaps itself, is copied first; a broadcast axis
/// is not repeated in the copy. The only other allocation is the output.
///
/// # Errors
/// [`Error::Einsum`](crate::Error::Einsum) if the specification is malformed or does not match the
/// operands; [`Error::TooLarge`](crate::Error::TooLarge) if the output, the loop nest or a copy is
/// too large.
///
/// # Examples
/// ```
/// use tensor_core::einsum;
/// use tensor_core::ndarray::{Array2, array};
///
/// let a = array![[1.0, 2.0], [3.0, 4.0]];
/// let b = array![[5.0, 6.0], [7.0, 8.0]];
/// let product = array![[19.0, 22.0], [43.0, 50.0]].into_dyn();
/// assert_eq!(einsum::oracle("ik,kj->ij", &[&a, &b])?, product);
/// assert_eq!(einsum::oracle("ii", &[&a])?[[]], 5.0);
///
/// let error = einsum::oracle("ik,kj->ij", &[&a, &Array2::ones((3, 3))]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "einsum \"ik,kj->ij\": index 'k' has size 2 in operand 0 of shape [2, 2] \
///      and size 3 in operand 1 of shape [3, 3]"
/// );
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub fn oracle<T: Float>(spec: &str, operands: &[&dyn Operand<T>]) -> Result<ArrayD<T>> {
    let spec = EinsumSpec::parse(spec)?;
    let arrays: Vec<ArrayViewD<'_, T>> =
        operands.iter().map(|array| array.operand_view()).collect();
    let buffers = arrays
        .into_iter()
        .map(Buffer::new)
        .collect::<Result<Vec<_>>>()?;
    let pairs: Vec<(&View, &[T])> = buffers
        .iter()
        .map(|buffer| (&buffer.view, buffer.data.as_ref()))
        .collect();
    oracle_views(&spec, &pairs)
}

/// Evaluates a parsed specification on views of flat buffers; as [`oracle`], without `ndarray`.
///
/// # Errors
/// As [`oracle`], and [`Error::OutOfBounds`](crate::Error::OutOfBounds) if a view reads past the
/// end of its buffer.
pub fn oracle_views<T: Float>(spec: &EinsumSpec, operands: &[(&View, &[T])]) -> Result<ArrayD<T>> {
    for (view, data) in operands {
        view.check_within(data.len())?;
    }
    let shapes: Vec<&[usize]> = operands.iter().map(|(view, _)| view.shape()).collect();
    let nest = Nest::new(&spec.resolve(&shapes)?, operands)?;
    let out_shape = &nest.sizes[..nest.n_out];
    let mut out = vec![T::ZERO; allocatable_count::<T>("einsum", out_shape)?];
    if !nest.sizes.contains(&0) {
        let lanes = operands
            .iter()
            .map(|(_, data)| OperandCursor {
                data,
                at: 0,
                stride: 0,
            })
            .collect();
        nest.run(lanes, &mut out);
    }
    from_checked("einsum", IxDyn(out_shape), out)
}

/// An array, stored as a flat buffer and a view.
struct Buffer<'a, T: Clone> {
    view: View,
    data: Cow<'a, [T]>,
}

impl<'a, T: Float> Buffer<'a, T> {
    fn new(array: ArrayViewD<'a, T>) -> Result<Self> {
        // A broadcast axis needs to be stored only once, because the view repeats it.
        let mut once = array.clone();
        for axis in 0..array.ndim() {
            if array.strides()[axis] == 0 && array.shape()[axis] > 1 {
                once.collapse_axis(Axis(axis), 0);
            }
        }
        let (view, data) = match once.to_slice_memory_order() {
            Some(data) => (view_in_memory_order(&once)?, Cow::Borrowed(data)),
            None => {
                allocatable_count::<T>("einsum", once.shape())?;
                let data = once.iter().copied().collect();
                (View::contiguous(once.shape())?, Cow::Owned(data))
            }
        };
        let view = view.broadcast_to(array.shape())?;
        Ok(Self { view, data })
    }
}

/// Returns the view of an array on its slice in memory order. The slice starts at the lowest
/// address, which on an axis with a negative stride belongs to the last element; the offset of the
/// first element accounts for this.
fn view_in_memory_order<T>(array: &ArrayViewD<'_, T>) -> Result<View> {
    let behind = |(&size, &stride): (&usize, &isize)| match stride {
        ..0 => size.saturating_sub(1) * stride.unsigned_abs(),
        _ => 0,
    };
    let offset = array.shape().iter().zip(array.strides()).map(behind).sum();
    View::new(array.shape(), array.strides(), offset)
}

/// The loops over all labels: output labels first, then the summed labels.
struct Nest {
    sizes: Vec<usize>,
    n_out: usize,
    /// The stride of each operand on each label.
    strides: Vec<Vec<isize>>,
    offsets: Vec<usize>,
}

/// The state of one operand in the innermost loop.
struct OperandCursor<'a, T> {
    data: &'a [T],
    at: usize,
    stride: isize,
}

impl Nest {
    fn new<T>(contraction: &Contraction, operands: &[(&View, &[T])]) -> Result<Self> {
        let (labels, sizes): (Vec<Label>, Vec<usize>) = contraction.sizes().iter().copied().unzip();
        element_count("einsum", &sizes)?;
        let places: BTreeMap<Label, usize> = labels.into_iter().zip(0..).collect();
        let mut strides = Vec::with_capacity(operands.len());
        for (input, (view, _)) in contraction.inputs().iter().zip(operands) {
            let mut by_label = vec![0; sizes.len()];
            for ((label, &size), &stride) in input.iter().zip(view.shape()).zip(view.strides()) {
                // Stride 0 broadcasts an axis of size 1 if its label has a larger size in another
                // operand.
                if size != 1 {
                    by_label[places[label]] += stride;
                }
            }
            strides.push(by_label);
        }
        let offsets = operands.iter().map(|(view, _)| view.offset()).collect();
        Ok(Self {
            sizes,
            n_out: contraction.output().len(),
            strides,
            offsets,
        })
    }

    /// Returns whether the innermost loop runs over the last output label.
    fn adds_rows(&self) -> bool {
        let Some(last) = self.n_out.checked_sub(1) else {
            return self.sizes.is_empty();
        };
        let walks_memory = self
            .strides
            .iter()
            .all(|strides| matches!(strides[last], 0 | 1));
        self.n_out == self.sizes.len() || walks_memory && self.sizes[last] >= MIN_ROW_LEN
    }

    /// Adds all products to `out`, which must contain zeros. No size may be zero.
    fn run<T: Float>(&self, mut lanes: Vec<OperandCursor<'_, T>>, out: &mut [T]) {
        let rows = self.adds_rows();
        let n_labels = self.sizes.len();
        // Split the labels into three nested loops:
        //
        //               outer loop             summed labels      innermost loop
        // adding rows   output labels but last all summed labels  last output label
        // dot products  all output labels      summed but last    last summed label
        let (outer, summed, inner) = if rows {
            let n_outer = self.n_out.saturating_sub(1);
            (0..n_outer, self.n_out..n_labels, n_outer..self.n_out)
        } else {
            (
                0..self.n_out,
                self.n_out..n_labels - 1,
                n_labels - 1..n_labels,
            )
        };
        let inner_len = self.sizes[inner.clone()].iter().product();
        for (lane, strides) in lanes.iter_mut().zip(&self.strides) {
            lane.stride = strides[inner.clone()].iter().sum();
        }
        let part = |axes: &std::ops::Range<usize>| -> Vec<&[isize]> {
            self.strides
                .iter()
                .map(|strides| &strides[axes.clone()])
                .collect()
        };
        let mut place = Odometer::new(
            &self.sizes[outer.clone()],
            part(&outer),
            self.offsets.clone(),
        );
        let mut term = Odometer::new(
            &self.sizes[summed.clone()],
            part(&summed),
            self.offsets.clone(),
        );
        // `place` walks the outer loop, one row or element of the output at a time; `term` starts
        // at the same offsets and walks the summed labels.
        for row in out.chunks_exact_mut(if rows { inner_len } else { 1 }) {
            term.offsets.copy_from_slice(&place.offsets);
            loop {
                for (lane, &offset) in lanes.iter_mut().zip(&term.offsets) {
                    lane.at = offset;
                }
                if rows {
                    add_row(row, &lanes);
                } else {
                    row[0] = add_dot(row[0], inner_len, &lanes);
                }
                if !term.advance() {
                    break;
                }
            }
            place.advance();
        }
    }
}

impl<T: Float> OperandCursor<'_, T> {
    /// Returns the element at a step of the innermost loop.
    fn get(&self, step: usize) -> T {
        self.data[self
            .at
            .wrapping_add_signed(self.stride * step.cast_signed())]
    }

    /// Returns the `len` elements of the innermost loop as a slice; the stride must be 1.
    fn run(&self, len: usize) -> &[T] {
        &self.data[self.at..self.at + len]
    }
}

/// Returns the product of all operands at a step of the innermost loop.
fn product<T: Float>(lanes: &[OperandCursor<'_, T>], step: usize) -> T {
    match lanes {
        [first, rest @ ..] => rest
            .iter()
            .fold(first.get(step), |product, lane| product * lane.get(step)),
        [] => T::ONE,
    }
}

/// Adds the products to a row of sums. The first match arms are faster versions of the last one for
/// common strides.
fn add_row<T: Float>(row: &mut [T], lanes: &[OperandCursor<'_, T>]) {
    let len = row.len();
    match lanes {
        [x, y] if matches!((x.stride, y.stride), (0, 1) | (1, 0)) => {
            // The product of two floats is commutative, so one case covers both orders.
            let (factor, other) = if x.stride == 0 {
                (x.get(0), y)
            } else {
                (y.get(0), x)
            };
            for (sum, &other) in row.iter_mut().zip(other.run(len)) {
                *sum = *sum + factor * other;
            }
        }
        [x, y] if x.stride == 1 && y.stride == 1 => {
            let pairs = x.run(len).iter().zip(y.run(len));
            for (sum, (&x, &y)) in row.iter_mut().zip(pairs) {
                *sum = *sum + x * y;
            }
        }
        _ => {
            for (step, sum) in row.iter_mut().enumerate() {
                *sum = *sum + product(lanes, step);
            }
        }
    }
}

/// Adds the products to one sum, in order. The first match arms are faster versions of the last one
/// for common strides.
fn add_dot<T: Float>(sum: T, len: usize, lanes: &[OperandCursor<'_, T>]) -> T {
    match lanes {
        [x] if x.stride == 1 => x.run(len).iter().fold(sum, |sum, &x| sum + x),
        [x, y] if x.stride == 1 && y.stride == 1 => x
            .run(len)
            .iter()
            .zip(y.run(len))
            .fold(sum, |sum, (&x, &y)| sum + x * y),
        _ => (0..len).fold(sum, |sum, step| sum + product(lanes, step)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Tolerance, assert_close};
    use crate::rng::Philox;
    use ndarray::{Array2, arr0, array, s};

    fn matrix(rows: usize, cols: usize, seed: u64) -> Array2<f32> {
        let mut data = vec![0.0; rows * cols];
        Philox::new(seed).fill_uniform_f32(0, &mut data);
        Array2::from_shape_vec((rows, cols), data).unwrap()
    }

    #[test]
    fn the_innermost_loop_does_not_change_the_bits() {
        // The first product adds rows, the second uses dot products.
        let (a, b) = (matrix(7, 33, 1), matrix(33, 9, 2));
        let rows = oracle("ik,kj->ij", &[&a, &b]).unwrap();
        let dots = oracle("ik,jk->ij", &[&a, &b.t().as_standard_layout()]).unwrap();
        assert_close(&rows, &dots, Tolerance::bits());
    }

    #[test]
    fn only_operands_with_gaps_or_overlaps_are_copied() {
        let (a, b) = (matrix(6, 8, 3), matrix(8, 5, 4));
        let row = a.row(2);
        let cases = [
            (a.slice(s![..;-1, ..]), false),
            (a.slice(s![1..2, ..]), false),
            (row.broadcast((4, 8)).unwrap(), false),
            (a.slice(s![..;2, ..]), true),
            (b.t().slice_move(s![1..3, ..]), true),
        ];
        for (view, copied) in cases {
            let buffer = Buffer::new(view.into_dyn()).unwrap();
            assert_eq!(matches!(buffer.data, Cow::Owned(_)), copied, "{view:?}");
            let expected = oracle("ik,kj->ij", &[&view.to_owned(), &b]).unwrap();
            let product = oracle("ik,kj->ij", &[&view, &b]).unwrap();
            assert_close(product, expected, Tolerance::bits());
        }
        let one = arr0(1.0_f32);
        let sums = oracle("ij,j->i", &[&a, &one.broadcast(8).unwrap()]).unwrap();
        assert_close(sums, oracle("ij->i", &[&a]).unwrap(), Tolerance::bits());
    }

    #[test]
    fn a_broadcast_that_no_copy_could_hold_is_read_in_place() {
        let (gapped, long) = (array![1.0, f64::NAN, 2.0], 1 << 59);
        let gapped = gapped.slice(s![..;2]);
        let wide = gapped.broadcast((long, 2)).unwrap();
        let buffer = Buffer::new(wide.into_dyn()).unwrap();
        assert_eq!(
            (buffer.view.shape(), buffer.view.strides()),
            (&[long, 2][..], &[0, 1][..])
        );
        assert_eq!(buffer.data[..], [1.0, 2.0]);
        assert!(oracle("ij->ij", &[&wide]).is_err());
    }

    #[test]
    fn no_operand_is_one_too_few() {
        for spec in ["", "->", ",", "i->i"] {
            let error = oracle::<f32>(spec, &[]).unwrap_err().to_string();
            assert!(error.ends_with("got 0"), "{error}");
        }
    }

    #[test]
    fn every_letter_can_be_an_index() {
        let letters: String = ('a'..='z').chain('A'..='Z').collect();
        let mut array = ArrayD::<f64>::ones(vec![1; 52]);
        array.fill(3.0);
        let implicit = oracle(&letters, &[&array]).unwrap();
        assert_eq!(implicit.shape(), [1; 52]);
        let product = oracle(&format!("{letters},{letters}->"), &[&array, &array]);
        assert_eq!(product.unwrap()[[]], 9.0);
    }

    #[test]
    fn long_specifications_are_ordinary() {
        let n = 10_000;
        let scalars = vec![arr0(1.0_f32); n];
        let operands: Vec<&dyn Operand<f32>> = scalars.iter().map(|x| x as _).collect();
        let commas = ",".repeat(n - 1);
        assert_eq!(oracle(&commas, &operands).unwrap()[[]], 1.0);
        let diagonal = "i".repeat(n);
        let error = oracle(&diagonal, &operands[..1]).unwrap_err();
        assert!(error.to_string().contains("operand 0 has 10000 indices"));
        let array = |rank: usize| ArrayD::<f32>::ones(vec![1; rank]);
        assert_eq!(oracle(&diagonal[..64], &[&array(64)]).unwrap()[[]], 1.0);
        let error = oracle(&diagonal, &[&array(n)]).unwrap_err();
        assert!(
            matches!(
                error.root(),
                crate::Error::RankTooLarge {
                    rank: 10_000,
                    limit: 64,
                    ..
                }
            ),
            "{error}"
        );
        assert!(EinsumSpec::parse(&format!("{diagonal}->{diagonal}")).is_err());
        assert!(EinsumSpec::parse(&".".repeat(n)).is_err());
    }

    #[test]
    fn sizes_of_one_broadcast_between_operands_but_not_within_one() {
        let (row, table) = (array![[1.0, 2.0, 3.0]], Array2::ones((2, 3)));
        let product = oracle("ij,ij->ij", &[&row, &table]).unwrap();
        assert_eq!(product, array![[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]].into_dyn());
        assert!(oracle("ii->i", &[&row]).is_err());
    }

    #[test]
    fn empty_sums_are_zero_and_empty_outputs_are_empty() {
        let (a, b) = (Array2::<f64>::zeros((2, 0)), Array2::<f64>::zeros((0, 3)));
        assert_eq!(
            oracle("ik,kj->ij", &[&a, &b]).unwrap(),
            Array2::zeros((2, 3)).into_dyn()
        );
        assert_eq!(oracle("ki,jk->ij", &[&a, &b]).unwrap_err().to_string(), {
            "einsum \"ki,jk->ij\": index 'k' has size 2 in operand 0 of shape [2, 0] and size 3 in operand 1 of shape [0, 3]"
        });
        assert_eq!(oracle("ij->j", &[&a]).unwrap().shape(), [0]);
        assert_eq!(oracle("->", &[&arr0(3.0)]).unwrap()[[]], 3.0);
        assert_eq!(oracle(",", &[&arr0(3.0), &arr0(2.0)]).unwrap()[[]], 6.0);
    }

    #[test]
    fn a_nan_stays_in_the_sums_it_belongs_to() {
        let a = array![[f64::NAN, 1.0], [1.0, 1.0]];
        let sums = oracle("ij->i", &[&a]).unwrap();
        assert_close(sums, [f64::NAN, 2.0], Tolerance::exact());
    }

    #[test]
    fn loop_nests_that_overflow_are_errors() {
        // The operands share one element, so the test allocates nothing large.
        let view = View::contiguous(&[1])
            .unwrap()
            .broadcast_to(&[1 << 40])
            .unwrap();
        let spec = EinsumSpec::parse("i,j->").unwrap();
        assert!(oracle_views(&spec, &[(&view, &[1.0_f64]), (&view, &[1.0])]).is_err());
        // A size of zero does not excuse an overflow of the other sizes.
        let none = View::contiguous(&[0]).unwrap();
        let spec = EinsumSpec::parse("i,j,k->").unwrap();
        let operands = [(&none, &[][..]), (&view, &[1.0_f64][..]), (&view, &[1.0])];
        assert!(oracle_views(&spec, &operands).is_err());
    }
}
