// Integer operations that WGSL defines only in part: division by zero, rounding down, shifts by 32
// and more. `&` and `|` join conditions, as in `float.wgsl`.
// Twin: `twin::int`.

fn int_floor_div_i32(a: i32, b: i32) -> i32 {
    let safe = select(b, 1, (b == 0) | ((b == -1) & (a == bitcast<i32>(0x80000000u))));
    let quotient = a / safe;
    let below = select(0, 1, (a % safe != 0) & ((a < 0) != (b < 0)));
    return select(quotient - below, 0, b == 0);
}

fn int_rem_i32(a: i32, b: i32) -> i32 {
    let safe = select(b, 1, (b == 0) | (b == -1));
    let rem = a % safe;
    return rem + select(0, b, (rem != 0) & ((rem < 0) != (b < 0)));
}

fn int_floor_div_u32(a: u32, b: u32) -> u32 {
    return select(a / max(b, 1u), 0u, b == 0u);
}

fn int_rem_u32(a: u32, b: u32) -> u32 {
    return select(a % max(b, 1u), 0u, b == 0u);
}

fn int_shl_i32(a: i32, b: i32) -> i32 {
    let places = bitcast<u32>(b);
    return select(0, a << (places & 31u), places < 32u);
}

fn int_shl_u32(a: u32, b: u32) -> u32 {
    return select(0u, a << (b & 31u), b < 32u);
}

fn int_shr_i32(a: i32, b: i32) -> i32 {
    return a >> min(bitcast<u32>(b), 31u);
}

fn int_shr_u32(a: u32, b: u32) -> u32 {
    return select(0u, a >> (b & 31u), b < 32u);
}
