//! Memory of a process that compiles many kernels.
//!
//! Method: each measurement runs this program again in a process of its own, with one test and one
//! adapter, because other tests also change the memory of their process.
//! Limits: reads `/proc`, so the test is skipped on systems without it.

#![expect(
    clippy::unwrap_used,
    reason = "helpers outside of test functions fail like tests"
)]

use gpu_wgsl::check::{every_adapter, skip};
use gpu_wgsl::{Gpu, Select};
use shaders::params::BufferCopyParams;
use shaders::{Kernel, layout};
use std::borrow::Cow;
use std::process::Command;
use tensor_core::random_programs::is_full;

/// The environment variable with the index of the adapter in a process of its own.
const ADAPTER: &str = "MEMORY_OF_ADAPTER";
/// The beginning of the line that a process writes after its measurement.
const MEASURED: &str = "resident bytes:";
/// The number of kernels before the first measurement, which excludes what a driver allocates once.
const FIRST: usize = 128;
/// The number of kernels between two measurements. A device then holds 128, 1,024 and 896 kernels,
/// in two generations of 512: the memory should grow in the first interval only.
const MORE: usize = 896;

#[test]
fn kernels_that_a_device_no_longer_keeps_are_freed() {
    if resident_bytes().is_none() {
        return skip("the system does not report a process's memory in /proc");
    }
    if let Ok(index) = std::env::var(ADAPTER) {
        return measure(index.parse().unwrap());
    }
    for gpu in every_adapter() {
        // llvmpipe compiles 2,000 small kernels in 25 s, SwiftShader in 6 s.
        if gpu.adapter().driver.contains("llvmpipe") && !is_full() {
            skip("llvmpipe compiles too slowly (`cargo xtask verify --full`)");
            continue;
        }
        let test = "memory::kernels_that_a_device_no_longer_keeps_are_freed";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(ADAPTER, gpu.adapter().index.to_string())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let is_measured = output.status.success() && text.contains(MEASURED);
        assert!(is_measured, "{}: {text}", gpu.adapter().driver);
        eprint!("{text}");
    }
}

/// Compiles kernels on one adapter, and checks that the memory does not grow with their number.
fn measure(adapter: usize) {
    let gpu = Gpu::open(Select::Index(adapter)).unwrap();
    let intervals = [
        0..FIRST,
        FIRST..FIRST + MORE,
        FIRST + MORE..FIRST + 2 * MORE,
    ];
    let [start, full, end] = intervals.map(|kernels| {
        compile(&gpu, kernels);
        resident_bytes().unwrap()
    });
    let [first, second] = [full.saturating_sub(start), end.saturating_sub(full)];
    eprintln!(
        "{}: {MEASURED} {first} for the first {MORE} kernels, {second} for the next",
        gpu.adapter().driver
    );
    // llvmpipe itself loses two thirds of a freed kernel.
    assert!(
        second < first * 4 / 5,
        "{}: the memory grows with each kernel",
        gpu.adapter().driver
    );
}

/// Compiles and runs a kernel with its own text for each number.
fn compile(gpu: &Gpu, numbers: std::ops::Range<usize>) {
    let x = gpu.upload("x", &[4], &[0.0_f32; 4]).unwrap();
    let y = gpu.alloc::<f32>("y", &[4]).unwrap();
    for number in numbers {
        let sum = format!("= x[i] + vec4<f32>({number});");
        let kernel = Kernel {
            source: Cow::Owned(layout::BUFFER_COPY.source.replace("= x[i];", &sum)),
            ..layout::BUFFER_COPY
        };
        gpu.dispatch(&kernel, &BufferCopyParams::new(1), &[&x, &y])
            .unwrap();
        assert_eq!(gpu.read(&y).unwrap(), [number as f32; 4]);
    }
}

fn resident_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}
