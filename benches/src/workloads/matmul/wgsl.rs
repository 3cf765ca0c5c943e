//! The variants of `matmul` in WGSL: the naive kernel, 16 × 16 tiles, and the kernel generated for
//! a tensor program.

use super::Product;
use anyhow::{Result, bail};
use gpu_wgsl::{Buffer, DeviceType, Gpu};
use harness::workload::{Portion, Variant};
use shaders::params::MatmulParams;
use shaders::{Kernel, layout};
use tensor_core::Tensor;

/// Maximum number of operations of a fixed kernel on a software driver, about one second of work.
const SOFTWARE_OPERATIONS: f64 = 0.8e9;

/// Returns the variants of one device in order.
pub fn variants<'a>(product: &'a Product, gpu: &'a Gpu) -> Vec<Variant<'a>> {
    let software = gpu.adapter().device_type == DeviceType::Cpu;
    let fitting = rows_that_fit(product, gpu);
    let slow = product.part(if software {
        SOFTWARE_OPERATIONS
    } else {
        f64::INFINITY
    });
    let part = |rows: usize| Portion {
        rows: rows.min(fitting),
        of: product.shape[0],
    };
    let fixed = |executor, kernel| {
        let (part, extent) = (part(slow.rows), product.extent(part(slow.rows)));
        Variant::called_on_gpu(gpu, extent, move || call(product, part, gpu, kernel))
            .with_executor(executor)
    };
    vec![
        fixed("wgsl-naive", layout::MATMUL_NAIVE),
        fixed("wgsl-tile", layout::MATMUL_TILE),
        generated(product, part(product.shape[0]), gpu),
    ]
}

/// Returns the number of leading rows of A and C that fit the device's largest storage binding.
fn rows_that_fit(product: &Product, gpu: &Gpu) -> usize {
    let [rows, inner, cols] = product.shape;
    let row_bytes = (inner.max(cols).max(1) * size_of::<f32>()) as u64;
    let fitting = gpu.adapter().limits.max_storage_buffer_binding_size / row_bytes;
    usize::try_from(fitting).map_or(rows, |fitting| fitting.min(rows))
}

/// Returns the variant that runs the product as a tensor program.
fn generated<'a>(product: &Product, part: Portion, gpu: &'a Gpu) -> Variant<'a> {
    let [_, inner, cols] = product.shape;
    let a = product.a[..part.rows * inner].to_vec();
    let arguments = vec![
        Tensor::from_vec(&[part.rows, inner], a),
        Tensor::from_vec(&[inner, cols], product.b.clone()),
    ];
    Variant::on_gpu::<f32>(gpu, product.extent(part), arguments, |args| {
        args[0].matmul(&args[1])
    })
}

/// Uploads the operands and returns the function that runs the product with a fixed kernel.
fn call<'a>(
    product: &Product,
    part: Portion,
    gpu: &'a Gpu,
    kernel: Kernel,
) -> Result<impl Fn() -> Result<Buffer<f32>> + use<'a>> {
    let [_, inner, cols] = product.shape;
    let sides = [part.rows, inner, cols].map(u32::try_from);
    let [Ok(rows), Ok(terms), Ok(columns)] = sides else {
        bail!(
            "matmul: a side does not fit 32 bits (product {:?})",
            product.shape
        );
    };
    let params = MatmulParams::new(rows, terms, columns);
    let a = gpu.upload("a", &[part.rows, inner], &product.a[..part.rows * inner])?;
    let b = gpu.upload("b", &[inner, cols], &product.b)?;
    Ok(move || {
        let c = gpu.alloc::<f32>("c", &[part.rows, cols])?;
        gpu.dispatch(&kernel, &params, &[&a, &b, &c])?;
        Ok(c)
    })
}
