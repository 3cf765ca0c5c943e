//! Twin of `wgsl/shared/split.wgsl`: numbers as the sum of a head of 12 bits and a tail, about 34
//! bits in all.
//!
//! Role: for quantities whose error would be amplified, such as an exponent, and for quotients and
//! roots with errors slightly above half a unit, whatever the precision of the device.
//! Method: heads are cut off by a mask, so that products of two heads are exact, fused or not. The
//! residual of a device's quotient or root is computed exactly from its head.
//! Limits: a compiler may fuse products and sums, and may cancel terms that are added and
//! subtracted again. Mesa's compiler does, so that the usual error term of a sum,
//! `(a - (sum - (sum - a))) + …`, becomes 0. Heads are computed from bits, so a compiler cannot
//! cancel them. A compiler must not reassociate a sum of three numbers; the tests of the kernels
//! detect this.

use super::float::{self, head};

/// Half a unit in the last place of a head between 1/2 and 1.
const HALF_UNIT: f32 = 1.0 / 8192.0;

/// A number as a head of 12 bits and a tail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    pub(super) head: f32,
    pub(super) tail: f32,
}

impl Sum {
    /// Splits a number without error.
    pub(super) fn from_f32(x: f32) -> Self {
        let head = head(x);
        Self {
            head,
            tail: x - head,
        }
    }

    /// Returns `high + low`. Requires that `low` is small compared with `high`.
    pub(super) fn new(high: f32, low: f32) -> Self {
        let head = head(high + low);
        Self {
            head,
            tail: (high - head) + low,
        }
    }

    /// Returns the product with a power of 2 or with -1.
    pub(super) fn times(self, power: f32) -> Self {
        Self {
            head: self.head * power,
            tail: self.tail * power,
        }
    }

    /// Returns the number as one f32.
    pub(super) fn value(self) -> f32 {
        self.head + self.tail
    }
}

impl From<[f32; 2]> for Sum {
    fn from([head, tail]: [f32; 2]) -> Self {
        Self { head, tail }
    }
}

pub(super) fn product(a: Sum, b: Sum) -> Sum {
    Sum::new(
        a.head * b.head,
        a.head * b.tail + a.tail * (b.head + b.tail),
    )
}

/// Returns `x - c` for positive numbers. `c` has two parts, the first of which is the nearest f32.
pub(super) fn difference(x: f32, c: [f32; 2]) -> Sum {
    let (larger, smaller) = (x.max(c[0]), x.min(c[0]));
    let size = larger - smaller;
    let head = head(size);
    // If the numbers are within a factor of 2, `size` is exact; otherwise the larger minus the head
    // is exact.
    let rest = if 2.0 * smaller >= larger {
        size - head
    } else {
        (larger - head) - smaller
    };
    let sign = if x < c[0] { -1.0 } else { 1.0 };
    Sum::new(head, rest - sign * c[1]).times(sign)
}

/// Returns `1 / x` for |x| from 2^-126 to 2^125.
pub(super) fn inverse(x: f32) -> Sum {
    let x_head = head(x);
    let inverse = 1.0 / x;
    let head = head(inverse);
    let left = (1.0 - head * x_head) - head * (x - x_head);
    Sum {
        head,
        tail: left * inverse,
    }
}

/// Returns the square root of `x >= 0`, accurate independently of the device's `sqrt`.
pub(super) fn sqrt(x: f32) -> f32 {
    let root = x.sqrt();
    let head = head(root);
    // The lower limit avoids a division by 0 if the root is 0.
    head + (x - head * head) / (head + root).max(1.0e-30)
}

/// Returns `ln(1 - x)` for x from 0 to 7/8.
pub(super) fn ln_of_complement(x: f32) -> f32 {
    // The nearest number of 12 bits, which is 1 for small `x`, and the remainder.
    let head = head((1.0 - x) + HALF_UNIT);
    let rest = ((1.0 - head) - x) / head;
    float::ln(head) + (rest - 0.5 * rest * rest)
}
