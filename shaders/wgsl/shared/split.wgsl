// Numbers as the sum of a head of 12 bits and a tail, about 34 bits in all, for quantities whose
// error would be amplified.
// Requires `wgsl/shared/float.wgsl`. Twin: `twin::split`, whose header describes the method and the
// requirements on compilers.

// Half a unit in the last place of a head between 1/2 and 1.
const SPLIT_HALF_UNIT: f32 = 0.0001220703125;

// `high + low`. Requires that `low` is small compared with `high`.
fn split_sum(high: f32, low: f32) -> FloatSum {
    let head = float_head(high + low);
    return FloatSum(head, (high - head) + low);
}

fn split_product(a: FloatSum, b: FloatSum) -> FloatSum {
    return split_sum(a.head * b.head, a.head * b.tail + a.tail * (b.head + b.tail));
}

// `x - c` for positive numbers. `c` has two parts, the first of which is the nearest f32.
fn split_difference(x: f32, c: vec2<f32>) -> FloatSum {
    let larger = max(x, c.x);
    let smaller = min(x, c.x);
    let size = larger - smaller;
    let head = float_head(size);
    // If the numbers are within a factor of 2, `size` is exact; otherwise the larger minus the head
    // is exact.
    let rest = select((larger - head) - smaller, size - head, 2.0 * smaller >= larger);
    let sign = select(1.0, -1.0, x < c.x);
    let sum = split_sum(head, rest - sign * c.y);
    return FloatSum(sign * sum.head, sign * sum.tail);
}

// `1 / x` for |x| from 2^-126 to 2^125.
fn split_inverse(x: f32) -> FloatSum {
    let x_head = float_head(x);
    let inverse = 1.0 / x;
    let head = float_head(inverse);
    let left = (1.0 - head * x_head) - head * (x - x_head);
    return FloatSum(head, left * inverse);
}

// `1 / x` for the same range, as one f32, accurate whatever the precision of the device's quotient.
fn split_inverse_rounded(x: f32) -> f32 {
    let inverse = split_inverse(x);
    return inverse.head + inverse.tail;
}

// The square root of `x >= 0`, accurate whatever the precision of the device's root.
fn split_sqrt(x: f32) -> f32 {
    let root = sqrt(x);
    let head = float_head(root);
    // The lower limit avoids a division by 0 if the root is 0.
    return head + (x - head * head) / max(head + root, 1.0e-30);
}

// `ln(1 - x)` for x from 0 to 7/8.
fn split_ln_of_complement(x: f32) -> f32 {
    // The nearest number of 12 bits, which is 1 for small `x`, and the remainder.
    let head = float_head((1.0 - x) + SPLIT_HALF_UNIT);
    let rest = ((1.0 - head) - x) / head;
    return float_ln(head) + (rest - 0.5 * rest * rest);
}
