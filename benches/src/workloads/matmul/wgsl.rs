//! The rungs of the ladder in WGSL: naive, 16 × 16 tiles, and what a user of tensors gets.

use super::Product;
use crate::on_gpu::{OnGpu, timer};
use crate::workload::{Contestant, Output, Part, Rung};
use anyhow::{Result, bail};
use gpu_wgsl::{Buffer, DeviceType, Gpu};
use shaders::params::MatmulParams;
use shaders::{Kernel, layout};
use std::time::Instant;
use tensor_core::Tensor;
use tensor_core::compare::sentinel_filled;

/// Operations that the slow rungs do on a driver that computes on the CPU, in about a second.
const SOFTWARE_OPERATIONS: f64 = 0.8e9;

/// Gives the rungs of one device in order.
pub fn rungs<'a>(product: &'a Product, gpu: &'a Gpu) -> Vec<Rung<'a>> {
    let software = gpu.adapter().device_type == DeviceType::Cpu;
    let fitting = rows_that_fit(product, gpu);
    let slow = product.part(if software {
        SOFTWARE_OPERATIONS
    } else {
        f64::INFINITY
    });
    let rungs = [
        ("wgsl-naive", Some(layout::MATMUL_NAIVE), slow.rows),
        ("wgsl-tile", Some(layout::MATMUL_TILE), slow.rows),
        ("wgsl", None, product.shape[0]),
    ];
    rungs
        .map(|(executor, kernel, rows)| {
            let part = Part {
                rows: rows.min(fitting),
                of: product.shape[0],
            };
            Rung {
                executor,
                adapter: Some(gpu.adapter().name.clone()),
                timer: timer(gpu),
                extent: product.extent(part),
                start: Box::new(move || match kernel {
                    Some(kernel) => Ok(Box::new(FixedKernel::new(product, part, gpu, kernel)?)),
                    None => tensors(product, part, gpu),
                }),
            }
        })
        .into()
}

/// Gives the leading rows of A and C that the device's largest binding holds.
fn rows_that_fit(product: &Product, gpu: &Gpu) -> usize {
    let [rows, inner, cols] = product.shape;
    let row_bytes = (inner.max(cols).max(1) * size_of::<f32>()) as u64;
    let fitting = gpu.adapter().limits.max_storage_buffer_binding_size / row_bytes;
    usize::try_from(fitting).map_or(rows, |fitting| fitting.min(rows))
}

/// The product as a program of tensors.
fn tensors<'a>(product: &Product, part: Part, gpu: &'a Gpu) -> Result<Box<dyn Contestant + 'a>> {
    let [_, inner, cols] = product.shape;
    let a = product.a[..part.rows * inner].to_vec();
    let arguments = [
        Tensor::from_vec(&[part.rows, inner], a),
        Tensor::from_vec(&[inner, cols], product.b.to_vec()),
    ];
    let program = |args: &[Tensor]| Ok(vec![args[0].matmul(&args[1])]);
    Ok(Box::new(OnGpu::<f32, _>::new(gpu, &arguments, program)?))
}

/// A rung of one fixed kernel; inputs stay on the device between runs.
struct FixedKernel<'a> {
    gpu: &'a Gpu,
    kernel: Kernel,
    params: MatmulParams,
    a: Buffer<f32>,
    b: Buffer<f32>,
    c: Buffer<f32>,
}

impl<'a> FixedKernel<'a> {
    fn new(product: &Product, part: Part, gpu: &'a Gpu, kernel: Kernel) -> Result<Self> {
        let [_, inner, cols] = product.shape;
        let (a_shape, b_shape) = ([part.rows, inner], [inner, cols]);
        let sides = [part.rows, inner, cols].map(u32::try_from);
        let [Ok(rows), Ok(terms), Ok(columns)] = sides else {
            bail!(
                "kernels count in 32 bits, the product is {:?}",
                product.shape
            );
        };
        let ready = Self {
            gpu,
            kernel,
            params: MatmulParams::new(rows, terms, columns),
            a: gpu.upload("a", &a_shape, &product.a[..part.rows * inner])?,
            b: gpu.upload("b", &b_shape, &product.b)?,
            c: gpu.upload(
                "c",
                &[part.rows, cols],
                &sentinel_filled::<f32>(part.rows * cols),
            )?,
        };
        // Uploads run with the next submission; the time of the start is theirs, so they must end here.
        gpu.finish()?;
        Ok(ready)
    }
}

impl Contestant for FixedKernel<'_> {
    fn run(&mut self, times: usize) -> Result<Vec<f64>> {
        let buffers = [&*self.a, &*self.b, &*self.c];
        let timings = self.gpu.time(|| {
            (0..times).try_for_each(|_| self.gpu.dispatch(&self.kernel, &self.params, &buffers))
        })?;
        Ok(timings
            .iter()
            .map(|timing| timing.elapsed.as_secs_f64())
            .collect())
    }

    fn wall(&mut self, times: usize) -> Result<Option<Vec<f64>>> {
        let buffers = [&*self.a, &*self.b, &*self.c];
        let once = |_| {
            let start = Instant::now();
            self.gpu.dispatch(&self.kernel, &self.params, &buffers)?;
            self.gpu.finish()?;
            Ok(start.elapsed().as_secs_f64())
        };
        (0..times).map(once).collect::<Result<_>>().map(Some)
    }

    fn result(&mut self) -> Result<Output> {
        Ok(Output::F32(self.gpu.read(&self.c)?))
    }
}
