// Interface of every matrix product, fixed or generated: c [rows, cols] = a [rows, inner] * b
// [inner, cols], row-major, contiguous.

struct MatmulParams {
    rows: u32,
    inner: u32,
    cols: u32,
    pad0: u32,
}

@group(0) @binding(0) var<uniform> params: MatmulParams;
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> c: array<f32>;
