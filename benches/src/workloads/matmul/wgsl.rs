//! The rungs of the ladder in WGSL: naive, 16 × 16 tiles, register tiles.

use super::Product;
use crate::on_gpu::timer;
use crate::workload::{Contestant, Output, Part, Rung};
use anyhow::Result;
use gpu_wgsl::{Buffer, DeviceType, Gpu, gemm};
use shaders::params::MatmulParams;
use shaders::{Kernel, layout};
use std::time::Instant;
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
    let [rows, _, cols] = product
        .shape
        .map(|side| u32::try_from(side).unwrap_or(u32::MAX));
    let registers = gemm::Config::for_shape(rows, cols).kernel();
    let rungs = [
        ("wgsl-naive", Ok(layout::MATMUL_NAIVE), slow.rows),
        ("wgsl-tile", Ok(layout::MATMUL_TILE), slow.rows),
        ("wgsl", registers, product.shape[0]),
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
                start: Box::new(move || Ok(Box::new(OnGpu::new(product, part, gpu, kernel?)?))),
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

/// A rung that runs on a device; inputs stay there between runs.
struct OnGpu<'a> {
    gpu: &'a Gpu,
    kernel: Kernel,
    params: MatmulParams,
    a: Buffer<f32>,
    b: Buffer<f32>,
    c: Buffer<f32>,
}

impl<'a> OnGpu<'a> {
    fn new(product: &Product, part: Part, gpu: &'a Gpu, kernel: Kernel) -> Result<Self> {
        let [_, inner, cols] = product.shape;
        let (a_shape, b_shape) = ([part.rows, inner], [inner, cols]);
        let ready = Self {
            gpu,
            kernel,
            params: gemm::matmul_params(&a_shape, &b_shape)?,
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

impl Contestant for OnGpu<'_> {
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
