//! Brings a float network from another library to packed inference: reads its weights from a
//! safetensors file in the layout of PyTorch, quantises them, freezes the network, and stores and
//! runs the packed model.
//!
//! Run it with `cargo run --release -p quant --example packed_inference`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::collections::BTreeMap;
use std::path::Path;

use quant::{Activation, FrozenNetwork, InputImage, Layer, Network, Packing, StateDict, Window};
use tensor_core::data::safetensors;
use tensor_core::rng::Philox;
use tensor_core::{Executor, Host, Tensor};

const IMAGE: [usize; 3] = [12, 12, 3];
const N_IMAGES: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::new();
    let folder = std::env::temp_dir().join(format!("packed-inference-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (float_file, packed_file) = (
        folder.join("float.safetensors"),
        folder.join("packed.safetensors"),
    );
    write_float_network(&float_file, &host)?;

    let float = read_float_network(&float_file)?;
    // Pixels of smooth random images; the same images calibrate the levels of the activations.
    let pixels = pixels();
    let shape = [&[N_IMAGES], &IMAGE[..]].concat();
    let codes = Tensor::from_vec(&shape, pixels.iter().map(|&p| i32::from(p)).collect());
    let images = float.input().values_of(&codes);
    let expected = classes(&float.outputs_of(&images)?, &host)?;

    println!(
        "bits of weights and activations, bytes of the file, images with the float network's class"
    );
    let float_bytes = std::fs::metadata(&float_file)?.len();
    println!("  float     {float_bytes:7}   {N_IMAGES} of {N_IMAGES}");
    // The time and the memory of a layer of bytes do not grow with the number of bits.
    for (weight_bits, activation_bits, packing) in [
        (1, 1, Packing::Bits),
        (1, 2, Packing::Bits),
        (2, 2, Packing::Bits),
        (3, 4, Packing::Bits),
        (3, 4, Packing::Bytes),
    ] {
        let quantized = float.quantized(weight_bits, activation_bits, &images, &host)?;
        quantized.freeze_to(packing)?.write(&packed_file)?;
        let packed = FrozenNetwork::read(&packed_file)?;
        let scores = packed.run(&pixels, &host)?;
        let scores = Tensor::from_array(scores);
        let actual = classes(&scores, &host)?;
        let n_equal = actual.iter().zip(&expected).filter(|(a, b)| a == b).count();
        let bytes = std::fs::metadata(&packed_file)?.len();
        println!(
            "  {weight_bits} and {activation_bits}   {bytes:7}   {n_equal} of {N_IMAGES}   packed as {packing:?}"
        );
        assert!(bytes < float_bytes, "packed weights are smaller");
        assert!(
            weight_bits < 3 || n_equal > N_IMAGES / 2,
            "three bits keep most classes"
        );
    }
    let quantized = float.quantized(2, 2, &images, &host)?;
    let report = quantized.report(&float, &images, &host)?;
    println!("\nthe layers with 2 and 2 bits\n{report}");
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

/// Returns the class with the highest score of each image.
fn classes(scores: &Tensor, host: &Host) -> tensor_core::Result<Vec<u32>> {
    Ok(scores.argmax(-1).eval::<u32>(host)?.into_iter().collect())
}

/// Returns smooth images, each with waves of its own.
fn pixels() -> Vec<u8> {
    let [height, width, channels] = IMAGE;
    let n = N_IMAGES * height * width * channels;
    let pixel = |i: usize| {
        let (c, x) = (i % channels, i / channels % width);
        let (y, image) = (i / channels / width % height, i / channels / width / height);
        let phase = (image * (c + 2)) as f32;
        let wave =
            (0.5 * x as f32 + phase).sin() + (0.3 * y as f32 * (1.0 + (phase * 0.1).sin())).cos();
        (wave.mul_add(63.0, 127.0)).clamp(0.0, 255.0)
    };
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a pixel is between 0 and 255"
    )]
    (0..n).map(|i| pixel(i) as u8).collect()
}

/// Writes a network as PyTorch's `state_dict` has it: weights `[outputs, channels, height, width]`
/// of convolutions and `[outputs, inputs]` of a linear layer, and the four vectors of a batch
/// normalization.
fn write_float_network(path: &Path, executor: &dyn Executor) -> tensor_core::Result<()> {
    let mut tensors = BTreeMap::new();
    for (number, (name, shape)) in [
        ("conv1", vec![16, 3, 3, 3]),
        ("conv2", vec![32, 16, 3, 3]),
        ("conv3", vec![32, 32, 3, 3]),
        ("fc", vec![5, 32 * 3 * 3]),
    ]
    .into_iter()
    .enumerate()
    {
        let (outputs, n_inputs) = (shape[0], shape[1..].iter().product::<usize>());
        let stream = Philox::new(7).stream(number as u64);
        let weights = Tensor::randn(stream, &shape) * (2.0 / n_inputs as f32).sqrt();
        tensors.insert(format!("{name}.weight"), weights);
        if name != "fc" {
            let row = |value: f32| Tensor::full(&[outputs], value);
            tensors.insert(format!("{name}.bn.weight"), row(1.0));
            tensors.insert(
                format!("{name}.bn.bias"),
                Tensor::randn(Philox::new(8).stream(number as u64), &[outputs]) * 0.1,
            );
            tensors.insert(format!("{name}.bn.running_mean"), row(0.0));
            tensors.insert(format!("{name}.bn.running_var"), row(1.0));
        }
    }
    let realized = tensors
        .into_iter()
        .map(|(name, tensor)| Ok((name, tensor.realize(executor)?)))
        .collect::<tensor_core::Result<Vec<_>>>()?;
    let named: Vec<_> = realized
        .iter()
        .map(|(name, t)| (name.as_str(), t))
        .collect();
    safetensors::write(path, &named)
}

/// Reads the network.
fn read_float_network(path: &Path) -> quant::Result<Network> {
    let mut file = StateDict::open(path)?;
    let mut block = |name: &str| -> quant::Result<Layer> {
        let window = Window::new([3, 3]).with_padding([[1, 1], [1, 1]]);
        let layer = file.layer(name, Some(&format!("{name}.bn")), window)?;
        Ok(layer.with_activation(Activation::Relu))
    };
    let halved = Window::new([2, 2]).with_stride([2, 2]);
    let layers = vec![
        block("conv1")?,
        block("conv2")?.with_pool(halved),
        block("conv3")?.with_pool(halved),
        // A fully connected layer is a convolution with a window of the whole image.
        file.layer("fc", None, Window::new([3, 3]))?,
    ];
    let input = InputImage::standardized(IMAGE, &[0.5; 3], &[0.25; 3])?;
    Network::new(input, layers)
}
