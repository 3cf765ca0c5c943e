//! Writes arrays as NPY and safetensors files, reads them back, and computes with them.
//!
//! Run it with `cargo run -p tensor-core --example files`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::error::Error;
use tensor_core::data::{npy, safetensors};
use tensor_core::ndarray::array;
use tensor_core::{DType, Host, Tensor};

fn main() -> Result<(), Box<dyn Error>> {
    let host = Host::new();
    let folder = std::env::temp_dir().join(format!("tensor-core-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;

    // NPY: one array per file, as written by `numpy.save`.
    let pixels = folder.join("pixels.npy");
    npy::write(
        &pixels,
        &Tensor::from_array(array![[0_u32, 64], [128, 255]]),
    )?;
    let pixels = npy::read_as(&pixels, DType::F32)? / 255.0;
    println!("pixels:\n{}", pixels.eval::<f32>(&host)?);

    // safetensors: named tensors, such as the parameters of a network.
    let layer = folder.join("layer.safetensors");
    let weight = Tensor::from_array(array![[1.0_f32, -1.0], [0.5, 2.0]]);
    let bias = Tensor::from_array(array![0.25_f32, 0.5]);
    safetensors::write(&layer, &[("weight", &weight), ("bias", &bias)])?;
    // The reader loads single tensors, which matters for files larger than memory.
    let mut reader = safetensors::Reader::open(&layer)?;
    for entry in reader.entries() {
        println!("{}: {:?} {:?}", entry.name, entry.dtype, entry.shape);
    }
    let output = pixels.matmul(&reader.read("weight")?) + reader.read("bias")?;
    println!("output:\n{}", output.eval::<f32>(&host)?);

    // A damaged file is an error with the path, not a panic.
    std::fs::write(folder.join("cut.npy"), b"\x93NUMPY\x01\x00")?;
    println!(
        "{}",
        npy::read(folder.join("cut.npy"))
            .err()
            .ok_or("a cut file is an error")?
    );
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
