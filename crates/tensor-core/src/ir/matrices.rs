//! Products of large matrices in memory.
//!
//! Role: finds the nests that a matrix library can compute from strides alone. The host executor
//! multiplies them directly into the output, and can compute some lines of the output at a time, so
//! the planner may put them into bands.

use std::ops::RangeInclusive;

use super::{IndexMap, LoopNest, Pairs, Value, ValueId};
use crate::dtype::DType;

/// The smallest number of multiplications of a product for which the cost of a call to the library
/// does not matter.
const LONG: usize = 1 << 17;
/// The largest number of vectors with which the library multiplies a matrix faster than tiles do.
const FEW: usize = 3;
/// The largest number of vectors for which tiles multiply a large matrix faster than the library.
/// This limit, the next, and the smallest number of terms were measured on an AMD EPYC (Zen 4) with
/// a third-level cache of 32 MiB.
const NARROW: usize = 16;
/// The smallest size of a large matrix, in bytes.
const LARGE_BYTES: usize = 32 << 20;
/// The numbers of neighbouring terms for which tiles are faster. A row of the largest number of
/// `f32` takes 256 KiB, which fits into a second-level cache; longer rows were not measured.
const TERMS_IN_PLACE: RangeInclusive<usize> = 200..=1 << 16;

/// The matrices of a (batched) product whose factors and result are matrices in memory.
#[derive(Debug, Clone)]
pub(crate) struct Matrices {
    /// The strides of rows and columns of the left factor, of the right factor, and of the product
    /// in the output.
    pub(crate) strides: [[usize; 2]; 3],
    /// The numbers of rows and columns of the product of one batch index.
    pub(crate) sides: [usize; 2],
    /// The number of terms of each sum.
    pub(crate) n_terms: usize,
    pub(crate) n_batches: usize,
    /// The side whose indices are outermost in the output: 0 for rows, 1 for columns.
    pub(crate) outer: usize,
    /// The number of leading axes of the output: those of the batch and those of the outer side.
    pub(crate) n_outer_axes: usize,
}

impl Matrices {
    /// Returns the matrices of a product. Returns `None` if the nest is no marked product, if one
    /// of the three is not a matrix in memory, if the output has another type than the sums, if the
    /// products are too small for the library, or if the library would copy an input of the program
    /// that is read once ([`Contract::reads_once`](super::Contract::reads_once)).
    pub(crate) fn from_nest(nest: &LoopNest, pairs: &Pairs) -> Option<Self> {
        let contract = nest.contract.as_ref()?;
        if contract.reads_once || nest.dtype() != pairs.dtype {
            return None;
        }
        let sizes = nest.sizes();
        let n_domain = nest.domain.len();
        // The batch axes must come first in the output, so that the product of each batch index is
        // one contiguous chunk.
        let n_batch_axes = pairs.batch.len();
        if (0..n_batch_axes).any(|axis| !pairs.batch.contains(&axis)) {
            return None;
        }
        let len_of = |axes: &[usize]| -> usize { axes.iter().map(|&axis| sizes[axis]).product() };
        let sides = pairs.own.each_ref().map(|axes| len_of(axes));
        let n_terms = nest.reduce_len();
        let n_multiplications = sides[0].saturating_mul(sides[1]).saturating_mul(n_terms);
        if sides[0].min(sides[1]) > FEW && n_multiplications < LONG {
            return None;
        }
        // Padding has guards, which strides cannot express.
        let map_of = |factor: ValueId| match &nest.values[factor.0] {
            Value::Load { map, guards, .. } if guards.is_empty() => Some(map),
            _ => None,
        };
        let (lhs, rhs) = (map_of(pairs.factors[0])?, map_of(pairs.factors[1])?);
        let layout = IndexMap::in_order(&nest.domain);
        let inner: Vec<usize> = (n_domain..sizes.len()).collect();
        let [rows, cols] = &pairs.own;
        let of = |map: &IndexMap, axes: &[usize]| stride_over(map, axes, &sizes);
        let outer = usize::from(!rows.contains(&n_batch_axes));
        Some(Self {
            strides: [
                [of(lhs, rows)?, of(lhs, &inner)?],
                [of(rhs, &inner)?, of(rhs, cols)?],
                [of(&layout, rows)?, of(&layout, cols)?],
            ],
            sides,
            n_terms,
            n_batches: len_of(&pairs.batch),
            outer,
            n_outer_axes: n_batch_axes + pairs.own[outer].len(),
        })
    }

    /// Returns the side of a large factor that tiles multiply faster than the library, because the
    /// other factor has few vectors: 0 for the left factor, 1 for the right factor. The library
    /// copies this factor; tiles read it once, in place. With 784 terms and 10 vectors, tiles take
    /// 0.67 of the time (workload `matmul/50000x784x10`).
    pub(crate) fn factor_read_once(&self, dtype: DType) -> Option<usize> {
        let [[row, left_term], [right_term, col], _] = self.strides;
        let steps = [[row, left_term], [col, right_term]];
        (0..2).find(|&side| {
            let [vector, term] = steps[side];
            let len = self.sides[side].saturating_mul(self.n_terms);
            self.n_batches == 1
                && (FEW + 1..=NARROW).contains(&self.sides[1 - side])
                && self.sides[side] > NARROW
                && len.saturating_mul(dtype.bytes()) >= LARGE_BYTES
                && TERMS_IN_PLACE.contains(&self.n_terms)
                && term == 1
                && vector >= self.n_terms
        })
    }

    /// Returns whether some lines of the output can be computed alone, with the bits of the whole.
    /// The sums of a single row or column have an order that depends on its length.
    pub(crate) fn has_lines(&self) -> bool {
        !self.sides.contains(&1)
    }

    /// Returns the number of lines of the output: consecutive elements of one row of a product, or
    /// of one column if the columns are the outer side.
    pub(crate) fn n_lines(&self) -> usize {
        self.n_batches * self.sides[self.outer]
    }

    /// Returns the number of elements of a line.
    pub(crate) fn line_len(&self) -> usize {
        self.sides[1 - self.outer]
    }
}

/// Returns the distance between consecutive positions of a map if the given loop axes advance in
/// row-major order, the last given axis fastest. Returns `None` if the distance varies or is
/// negative.
fn stride_over(map: &IndexMap, axes: &[usize], sizes: &[usize]) -> Option<usize> {
    let Some(&last) = axes.last() else {
        return Some(0);
    };
    let stride = map.strides[last];
    let mut expected = stride;
    // Each axis, from the last, must step over the whole extent of the axes after it.
    for &axis in axes.iter().rev() {
        if map.strides[axis] != expected {
            return None;
        }
        expected = expected.wrapping_mul(sizes[axis].cast_signed());
    }
    usize::try_from(stride).ok()
}
