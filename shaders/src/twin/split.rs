//! Twin of `wgsl/shared/split.wgsl`: numbers as the sum of a head of 12 bits and a rest, some 34 bits in all.
//!
//! Role: for quantities whose error would be magnified, such as an exponent; and for quotients and roots that are
//! right to little more than half a unit, whatever the device's are.
//! Method: heads are cut off by a mask, so that products of two heads are exact, fused or not. What a quotient or a root
//! of the device leaves is computed exactly from its head.
//! Limits: a compiler may fuse products and sums, and may cancel what is added and subtracted again (Mesa's does, so that
//! the usual error of a sum, `(a - (sum - (sum - a))) + …`, is 0 there); since heads come from bits, it cannot see that
//! they are parts. It must not bracket a sum of three numbers anew; the kernels' tests would show it.

use super::float::{self, head};

/// Half a unit of a head from 1/2 to 1.
const HALF_UNIT: f32 = 1.0 / 8192.0;

/// A head of 12 bits and a rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    pub(super) head: f32,
    pub(super) tail: f32,
}

impl Sum {
    /// Gives a number without error.
    pub(super) fn of(x: f32) -> Self {
        let head = head(x);
        Self {
            head,
            tail: x - head,
        }
    }

    /// Gives `high + low`, `low` being small beside `high`.
    pub(super) fn new(high: f32, low: f32) -> Self {
        let head = head(high + low);
        Self {
            head,
            tail: (high - head) + low,
        }
    }

    /// Gives the product by a power of 2 or by -1.
    pub(super) fn times(self, power: f32) -> Self {
        Self {
            head: self.head * power,
            tail: self.tail * power,
        }
    }

    /// Gives the number in one part.
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

/// `x - c` of positive numbers, with `c` in two parts, of which the first is the nearest f32.
pub(super) fn difference(x: f32, c: [f32; 2]) -> Sum {
    let (larger, smaller) = (x.max(c[0]), x.min(c[0]));
    let size = larger - smaller;
    let head = head(size);
    // Of neighbours `size` is exact; else the larger minus the head is.
    let rest = if 2.0 * smaller >= larger {
        size - head
    } else {
        (larger - head) - smaller
    };
    let sign = if x < c[0] { -1.0 } else { 1.0 };
    Sum::new(head, rest - sign * c[1]).times(sign)
}

/// `1 / x` for |x| from 2^-126 to 2^125.
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

/// The root of `x >= 0`, whatever the device's root.
pub(super) fn sqrt(x: f32) -> f32 {
    let root = x.sqrt();
    let head = head(root);
    // The divisor is not 0 where the root is.
    head + (x - head * head) / (head + root).max(1.0e-30)
}

/// `ln(1 - x)` for x from 0 to 7/8.
pub(super) fn ln_of_complement(x: f32) -> f32 {
    // The nearest number of 12 bits, which is 1 for small `x`, and what it leaves.
    let head = head((1.0 - x) + HALF_UNIT);
    let rest = ((1.0 - head) - x) / head;
    float::ln(head) + (rest - 0.5 * rest * rest)
}
