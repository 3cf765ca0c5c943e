// The product of words that hold the signed bytes of 4 channels. A kernel includes this part or
// shared/product_of_bits.wgsl, so both define the same function.
// Twin: `twin::packed_conv`.

// Returns the sum of the products of four pairs of bytes, for words of four pixels and a word of
// weights.
fn product(x: vec4<u32>, weight: u32) -> vec4<i32> {
    return vec4<i32>(
        dot4I8Packed(x.x, weight),
        dot4I8Packed(x.y, weight),
        dot4I8Packed(x.z, weight),
        dot4I8Packed(x.w, weight),
    );
}
