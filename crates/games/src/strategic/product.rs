//! Products of a matrix and vectors, from both sides.
//!
//! Method: plain loops over blocks of lanes, compiled for the SIMD of this CPU at run time. No
//! fused multiply-add, and sums are in an order that depends on the shape alone, so every CPU
//! computes the same bits.
//! Shapes: `a` is `[rows, cols]`, row-major; `x` has `rows` numbers and `y` has `cols`.

use crate::simd::{LANES, simd};

/// Number of independent accumulators of [`LANES`] numbers; they hide the latency of additions.
const SUMS: usize = 4;
/// Number of rows that [`left`] adds in one pass over its result.
const ROWS: usize = 4;

simd! {
    /// Writes `a y`, the value of each row.
    pub(super) fn right<'a, S>(_simd; a: &'a [f64], y: &'a [f64], out: &'a mut [f64]) {
        assert_eq!(a.len(), y.len() * out.len(), "shapes of a product");
        for (row, out) in a.chunks_exact(y.len()).zip(out) {
            *out = dot(row, y);
        }
    }

    /// Writes `aᵀ x`, the value of each column.
    pub(super) fn left<'a, S>(_simd; a: &'a [f64], x: &'a [f64], out: &'a mut [f64]) {
        assert_eq!(a.len(), x.len() * out.len(), "shapes of a product");
        out.fill(0.0);
        for (rows, x) in a.chunks(ROWS * out.len()).zip(x.chunks(ROWS)) {
            add_rows(rows, x, out);
        }
    }

    /// Writes `a y` and `aᵀ x` in one pass over the matrix, bit-identical to [`right`] and
    /// [`left`].
    pub(super) fn both<'a, S>(_simd; a: &'a [f64], x: &'a [f64], y: &'a [f64], right: &'a mut [f64], left: &'a mut [f64]) {
        assert_eq!(a.len(), x.len() * y.len(), "shapes of a product");
        left.fill(0.0);
        let blocks = a.chunks(ROWS * y.len()).zip(x.chunks(ROWS));
        for ((rows, x), right) in blocks.zip(right.chunks_mut(ROWS)) {
            for (row, right) in rows.chunks_exact(y.len()).zip(right) {
                *right = dot(row, y);
            }
            add_rows(rows, x, left);
        }
    }
}

#[inline(always)]
fn dot(row: &[f64], y: &[f64]) -> f64 {
    let (blocks, rest) = row.as_chunks::<{ LANES * SUMS }>();
    let (y_blocks, y_rest) = y.as_chunks::<{ LANES * SUMS }>();
    let mut sums = [0.0; LANES * SUMS];
    for (a, y) in blocks.iter().zip(y_blocks) {
        for lane in 0..LANES * SUMS {
            sums[lane] += a[lane] * y[lane];
        }
    }
    for (sum, (a, y)) in sums.iter_mut().zip(rest.iter().zip(y_rest)) {
        *sum += a * y;
    }
    let mut width = LANES * SUMS / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

/// Adds weighted rows, in groups of four where possible.
#[inline(always)]
fn add_rows(rows: &[f64], x: &[f64], out: &mut [f64]) {
    let n = out.len();
    if let &[x0, x1, x2, x3] = x {
        let (r0, rest) = rows.split_at(n);
        let (r1, rest) = rest.split_at(n);
        let (r2, r3) = rest.split_at(n);
        for ((((out, r0), r1), r2), r3) in out.iter_mut().zip(r0).zip(r1).zip(r2).zip(r3) {
            *out = *out + x0 * r0 + x1 * r1 + x2 * r2 + x3 * r3;
        }
        return;
    }
    for (row, x) in rows.chunks_exact(n).zip(x) {
        for (out, a) in out.iter_mut().zip(row) {
            *out += x * a;
        }
    }
}
