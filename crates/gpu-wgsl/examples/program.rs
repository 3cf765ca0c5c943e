//! Runs a tensor program on the best adapter and compares it with the reference executor.
//!
//! Run it with `cargo run -p gpu-wgsl --example program`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use gpu_wgsl::{Gpu, Select, adapters};
use std::error::Error;
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::rng::Philox;
use tensor_core::{Reference, Tensor};

fn main() -> Result<(), Box<dyn Error>> {
    for adapter in adapters() {
        println!(
            "found {} ({:?}, {})",
            adapter.name, adapter.device_type, adapter.driver
        );
    }
    if adapters().is_empty() {
        eprintln!(
            "skipped: program: no adapter (install a Vulkan driver, such as Mesa's llvmpipe)"
        );
        return Ok(());
    }
    let gpu = Gpu::open(Select::Best)?;

    // Upload once; later programs use the array on the device.
    let x = Tensor::randn(Philox::new(1), &[200, 64]).realize(&gpu)?;
    let probabilities = x.matmul(&x.t()).softmax(1);
    let on_gpu = probabilities.eval::<f32>(&gpu)?;
    let expected = probabilities.eval::<f32>(&Reference)?;
    assert_close(
        &on_gpu,
        &expected,
        Tolerance::relative(400).or_absolute(1e-6),
    );

    println!(
        "{} kernels, {} bytes live",
        gpu.compiled_kernels(),
        gpu.pool().live_bytes()
    );
    for (reason, steps) in gpu.fallbacks() {
        println!("{steps} steps ran on the host: {reason}");
    }
    Ok(())
}
