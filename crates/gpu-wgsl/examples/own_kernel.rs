//! Runs a kernel of one's own: `y = factor * x + y` on the best adapter.
//!
//! Run it with `cargo run -p gpu-wgsl --example own_kernel`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use gpu_wgsl::{Error, Gpu, Select};
use shaders::{Field, Params};

const SOURCE: &str = "
    struct AxpyParams { n: u32, factor: f32 }
    @group(0) @binding(0) var<uniform> params: AxpyParams;
    @group(0) @binding(1) var<storage, read> x: array<f32>;
    @group(0) @binding(2) var<storage, read_write> y: array<f32>;

    @compute @workgroup_size(64)
    fn axpy(
        @builtin(workgroup_id) wid: vec3<u32>,
        @builtin(num_workgroups) n_workgroups: vec3<u32>,
        @builtin(local_invocation_index) lid: u32,
    ) {
        // A long grid has several rows of workgroups.
        let i = (wid.y * n_workgroups.x + wid.x) * 64u + lid;
        if (i < params.n) {
            y[i] += params.factor * x[i];
        }
    }";

/// The parameters, with the memory layout of the struct in WGSL.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct AxpyParams {
    n: u32,
    factor: f32,
}

impl Params for AxpyParams {
    const NAME: &'static str = "AxpyParams";
    const FIELDS: &'static [Field] = &[
        Field {
            name: "n",
            offset_bytes: std::mem::offset_of!(Self, n),
        },
        Field {
            name: "factor",
            offset_bytes: std::mem::offset_of!(Self, factor),
        },
    ];

    fn domain(&self) -> [u64; 3] {
        [self.n.into(), 1, 1]
    }

    fn buffer_lens(&self) -> Vec<u64> {
        vec![self.n.into(); 2]
    }

    fn loop_iterations(&self) -> u64 {
        0
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gpu = match Gpu::open(Select::Best) {
        Err(error @ Error::NoAdapter { .. }) => {
            eprintln!("skipped: own_kernel: {error}");
            return Ok(());
        }
        opened => opened?,
    };
    let kernel = shaders::reflect("axpy", SOURCE)?;
    let x = gpu.upload("x", &[4], &[1.0_f32, 2.0, 3.0, 4.0])?;
    let y = gpu.upload("y", &[4], &[0.5_f32; 4])?;
    let params = AxpyParams { n: 4, factor: 10.0 };
    gpu.dispatch(&kernel, &params, &[&x, &y])?;
    println!("{}: {:?}", gpu.adapter().name, gpu.read(&y)?);
    Ok(())
}
