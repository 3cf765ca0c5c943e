//! Products of a matrix and vectors, from both sides.
//!
//! Method: plain loops over blocks of lanes, compiled for the SIMD of this CPU at run time. No fused multiply-add, and
//! sums are in an order that depends on the shape alone, so every CPU gives the same bits.
//! Shapes: `a` is `[rows, cols]`, row-major; `x` has `rows` numbers and `y` has `cols`.

use std::sync::LazyLock;

static ARCH: LazyLock<pulp::Arch> = LazyLock::new(pulp::Arch::new);

/// Numbers that are summed side by side.
const LANES: usize = 8;
/// Accumulators of [`LANES`] numbers each, so that sums do not wait for one another.
const SUMS: usize = 4;
/// Rows that [`left`] adds in one pass over its result.
const ROWS: usize = 4;

/// Writes `a y`, the worth of each row.
pub(crate) fn right(a: &[f64], y: &[f64], out: &mut [f64]) {
    assert_eq!(a.len(), y.len() * out.len(), "shapes of a product");
    ARCH.dispatch(
        #[inline(always)]
        || {
            for (row, out) in a.chunks_exact(y.len()).zip(out) {
                *out = dot(row, y);
            }
        },
    );
}

/// Writes `aᵀ x`, the worth of each column.
pub(crate) fn left(a: &[f64], x: &[f64], out: &mut [f64]) {
    assert_eq!(a.len(), x.len() * out.len(), "shapes of a product");
    let cols = out.len();
    ARCH.dispatch(
        #[inline(always)]
        || {
            out.fill(0.0);
            let whole = x.len() / ROWS * ROWS;
            let blocks = a.chunks_exact(ROWS * cols);
            for (block, x) in blocks.zip(x.chunks_exact(ROWS)) {
                add_rows(block, x, out);
            }
            for (row, &x) in a[whole * cols..].chunks_exact(cols).zip(&x[whole..]) {
                for (out, &a) in out.iter_mut().zip(row) {
                    *out += x * a;
                }
            }
        },
    );
}

/// Writes `a y` and `aᵀ x` in one pass over the matrix; the same bits as [`right`] and [`left`].
pub(crate) fn both(a: &[f64], x: &[f64], y: &[f64], right: &mut [f64], left: &mut [f64]) {
    assert_eq!(a.len(), x.len() * y.len(), "shapes of a product");
    let cols = y.len();
    ARCH.dispatch(
        #[inline(always)]
        || {
            left.fill(0.0);
            let blocks = a.chunks(ROWS * cols);
            for ((block, x), right) in blocks.zip(x.chunks(ROWS)).zip(right.chunks_mut(ROWS)) {
                for (row, right) in block.chunks_exact(cols).zip(right) {
                    *right = dot(row, y);
                }
                if x.len() == ROWS {
                    add_rows(block, x, left);
                } else {
                    for (row, &x) in block.chunks_exact(cols).zip(x) {
                        for (left, &a) in left.iter_mut().zip(row) {
                            *left += x * a;
                        }
                    }
                }
            }
        },
    );
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

#[inline(always)]
fn add_rows(block: &[f64], x: &[f64], out: &mut [f64]) {
    let cols = out.len();
    let (first, rest) = block.split_at(cols);
    let (second, rest) = rest.split_at(cols);
    let (third, fourth) = rest.split_at(cols);
    for col in 0..cols {
        out[col] = out[col]
            + x[0] * first[col]
            + x[1] * second[col]
            + x[2] * third[col]
            + x[3] * fourth[col];
    }
}
