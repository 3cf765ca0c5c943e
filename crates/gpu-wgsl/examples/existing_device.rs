//! Shares a wgpu device that an application has opened itself.
//!
//! Run it with `cargo run -p gpu-wgsl --features existing-device --example existing_device`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use gpu_wgsl::{Gpu, wgpu};
use std::error::Error;
use tensor_core::Tensor;

fn main() -> Result<(), Box<dyn Error>> {
    pollster::block_on(async {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let found = instance.enumerate_adapters(wgpu::Backends::all()).await;
        let Some(adapter) = found.into_iter().next() else {
            eprintln!("skipped: existing_device: no adapter");
            return Ok(());
        };
        // The application chooses limits and features; only enabled ones are used.
        let (device, queue) = adapter
            .request_device(&wgpu::DeviceDescriptor::default())
            .await?;
        let gpu = Gpu::from_existing(&adapter, device, queue);
        let sum = (Tensor::arange(1000) % 7).sum(0).item::<i32>(&gpu)?;
        println!("{}: {sum}", gpu.adapter().name);
        assert_eq!(sum, (0..1000).map(|i| i % 7).sum::<i32>());
        Ok(())
    })
}
