//! The variants of `matmul` in WGSL: the naive kernel, 16 × 16 tiles, and the kernel generated for
//! a tensor program.

use super::Product;
use crate::on_gpu::{OnGpu, compiled, timer};
use crate::workload::{Implementation, Portion, Variant};
use anyhow::{Result, bail};
use gpu_wgsl::{DeviceType, Gpu};
use shaders::params::MatmulParams;
use shaders::{Kernel, layout};
use tensor_core::Tensor;

/// Number of operations of the fixed kernels on a software driver; about a second.
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
    let variants = [
        ("wgsl-naive", Some(layout::MATMUL_NAIVE), slow.rows),
        ("wgsl-tile", Some(layout::MATMUL_TILE), slow.rows),
        ("wgsl", None, product.shape[0]),
    ];
    variants
        .map(|(executor, kernel, rows)| {
            let part = Portion {
                rows: rows.min(fitting),
                of: product.shape[0],
            };
            Variant {
                executor,
                adapter: Some(gpu.adapter()),
                timer: timer(gpu),
                extent: product.extent(part),
                note: String::new(),
                start: Box::new(move || match kernel {
                    Some(kernel) => fixed(product, part, gpu, kernel),
                    None => tensors(product, part, gpu),
                }),
            }
        })
        .into()
}

/// Returns the number of leading rows of A and C that fit the device's largest storage binding.
fn rows_that_fit(product: &Product, gpu: &Gpu) -> usize {
    let [rows, inner, cols] = product.shape;
    let row_bytes = (inner.max(cols).max(1) * size_of::<f32>()) as u64;
    let fitting = gpu.adapter().limits.max_storage_buffer_binding_size / row_bytes;
    usize::try_from(fitting).map_or(rows, |fitting| fitting.min(rows))
}

/// Creates the contestant that runs the product as a tensor program.
fn tensors<'a>(
    product: &Product,
    part: Portion,
    gpu: &'a Gpu,
) -> Result<Box<dyn Implementation + 'a>> {
    let [_, inner, cols] = product.shape;
    let a = product.a[..part.rows * inner].to_vec();
    let arguments = vec![
        Tensor::from_vec(&[part.rows, inner], a),
        Tensor::from_vec(&[inner, cols], product.b.to_vec()),
    ];
    let program = |args: &[Tensor]| Ok(vec![args[0].matmul(&args[1])]);
    let call = compiled::<f32>(gpu, arguments, program)?;
    Ok(Box::new(OnGpu::new(gpu, call)?))
}

/// Creates the contestant that runs the product with a fixed kernel.
fn fixed<'a>(
    product: &Product,
    part: Portion,
    gpu: &'a Gpu,
    kernel: Kernel,
) -> Result<Box<dyn Implementation + 'a>> {
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
    let call = move || {
        let c = gpu.alloc::<f32>("c", &[part.rows, cols])?;
        gpu.dispatch(&kernel, &params, &[&a, &b, &c])?;
        Ok(c)
    };
    Ok(Box::new(OnGpu::new(gpu, call)?))
}
