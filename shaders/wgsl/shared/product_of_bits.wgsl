// The product of words that hold one bit of 32 channels. A kernel includes this part or
// shared/product_of_bytes.wgsl, so both define the same function.
// Twin: `twin::packed_conv`.

// Returns the number of bits in which words of four pixels differ from a word of weights.
fn product(x: vec4<u32>, weight: u32) -> vec4<i32> {
    return bitcast<vec4<i32>>(countOneBits(x ^ vec4<u32>(weight)));
}
