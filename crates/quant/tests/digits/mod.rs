//! The digits that ship, and a network for them.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses a part of this module"
)]
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use std::ops::ControlFlow;

use quant::Result;
use quant::layers::{ActivationLevels, BatchNorm, MaxPool, QuantConv2d, QuantLinear};
use quant::train::{Images, Net, NetLayer, Recipe, Schedule, Training};
use quant::{InputImage, Window};
use tensor_core::data::idx::{IdxArray, Reader};

/// The digits of `testdata/README.md`: 1500 images to train with, and 297 test images.
pub fn digits() -> [Images; 2] {
    let read = |bytes: &[u8]| match Reader::new(bytes).unwrap().read_all().unwrap() {
        IdxArray::U8(array) => array.iter().copied().collect::<Vec<u8>>(),
        other => panic!("unexpected type: {other:?}"),
    };
    let pixels = read(include_bytes!("../../testdata/digits-images.idx.gz"));
    let labels = read(include_bytes!("../../testdata/digits-labels.idx.gz"));
    let labels = labels.into_iter().map(u32::from).collect();
    let images = Images::new([8, 8, 1], pixels, labels, 10).unwrap();
    images.split_at(1500).unwrap()
}

pub fn product(n_outputs: usize, size: usize) -> NetLayer {
    NetLayer::Conv2d(QuantConv2d::new(n_outputs, Window::new([size, size])))
}

pub fn norm() -> NetLayer {
    NetLayer::BatchNorm(BatchNorm::default())
}

pub fn relu() -> NetLayer {
    NetLayer::Activation(ActivationLevels::Relu)
}

pub fn pool() -> NetLayer {
    let window = Window::new([2, 2]).with_stride([2, 2]);
    NetLayer::MaxPool(MaxPool::new(window).unwrap())
}

/// A network with two convolutions and two linear layers for 8 × 8 digits of 17 grey levels.
pub fn float_net() -> Net {
    let input = InputImage::standardized([8, 8, 1], &[4.9 / 255.0], &[6.0 / 255.0]).unwrap();
    let layers = vec![
        ("conv1", product(16, 3)),
        ("norm1", norm()),
        ("act1", relu()),
        ("conv2", product(24, 3)),
        ("pool2", pool()),
        ("norm2", norm()),
        ("act2", relu()),
        ("hidden", NetLayer::Linear(QuantLinear::new(48))),
        ("norm3", norm()),
        ("act3", relu()),
        (
            "classes",
            NetLayer::Linear(QuantLinear::new(10).with_bias()),
        ),
    ];
    Net::new(input, layers).unwrap()
}

pub fn with_levels(levels: &str) -> Net {
    float_net().with_levels(levels.parse().unwrap()).unwrap()
}

pub fn recipe(n_epochs: usize) -> Recipe {
    Recipe {
        batch: 50,
        n_epochs,
        read_every: 7,
        schedule: Schedule::Cosine {
            first: 0.05,
            last: 0.0,
        },
        ..Recipe::default()
    }
}

/// Trains to the end, and returns all losses.
pub fn losses(training: &mut Training<'_>) -> Result<Vec<f32>> {
    let mut losses = Vec::new();
    training.run(|_, progress| {
        losses.extend(progress.losses);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(losses)
}
