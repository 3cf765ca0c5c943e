//! The training of a net with two layers on several ranks.
//!
//! Method: the expected losses are those of the same training in one process, whose batches are not
//! divided.

use std::ops::ControlFlow;

use anyhow::Result;
use harness::workload::{Extent, Work};
use quant::InputImage;
use quant::layers::{ActivationLevels, QuantLinear};
use quant::train::{Images, Net, NetLayer, Recipe, Schedule, Training};
use tensor_core::Host;
use tensor_core::compare::Tolerance;
use tensor_core::rng::Philox;

use super::{Job, LOSS_TOLERANCE};

/// Pixels of an image, hidden units and classes.
const SIDES: [usize; 3] = [1000, 100, 10];
const N_IMAGES: usize = 8192;
const BATCH: usize = 1024;
const N_EPOCHS: usize = 2;

/// Returns the size of the task.
pub(super) fn size() -> String {
    let [pixels, hidden, classes] = SIDES;
    format!("{BATCH}-{pixels}-{hidden}-{classes}")
}

/// Returns the job with its expected losses.
pub(super) fn job() -> Result<Job> {
    let [pixels, hidden, classes] = SIDES;
    let expected = losses()?;
    let n_steps = N_EPOCHS * (N_IMAGES / BATCH);
    // Two operations for each weight and image, in the forward pass and for each of two gradients;
    // the first layer needs no gradient of its input.
    let weights = (pixels * hidden) as f64 * 4.0 + (hidden * classes) as f64 * 6.0;
    let operations = weights * (BATCH * n_steps) as f64;
    Ok(Job {
        arguments: |_| {
            format!(
                "train --random {N_IMAGES} --batch {BATCH} --hidden {} --epochs {N_EPOCHS}",
                SIDES[1]
            )
        },
        result: |run| {
            let rows = run["rows"].as_array()?.iter();
            let losses: Option<Vec<f64>> = rows.map(|row| row["loss"].as_f64()).collect();
            losses.filter(|losses| !losses.is_empty())
        },
        expected,
        tolerance: Tolerance::relative(0).or_absolute(LOSS_TOLERANCE),
        extent: Extent::new(Work::Operations(operations), (N_IMAGES * pixels) as f64),
        is_weak: false,
    })
}

/// Returns the last loss of each epoch.
fn losses() -> Result<Vec<f64>> {
    let [pixels, hidden, classes] = SIDES;
    let random = Philox::new(0);
    let byte = |place: usize| random.word(place as u64).to_le_bytes()[0];
    let images = (0..N_IMAGES * pixels).map(byte).collect();
    // As in the program, the class is the place of the largest of the first pixels.
    let label = |image: usize| {
        let pixels = (0..classes).map(|class| byte(image * pixels + class));
        let largest = pixels.enumerate().max_by_key(|&(_, pixel)| pixel);
        largest.map_or(0, |(class, _)| u32::try_from(class).unwrap_or(0))
    };
    let labels = (0..N_IMAGES).map(label).collect();
    let images = Images::new([1, 1, pixels], images, labels, classes)?;
    let linear = |units| NetLayer::Linear(QuantLinear::new(units).with_bias());
    let layers = vec![
        ("hidden1", linear(hidden)),
        ("relu1", NetLayer::Activation(ActivationLevels::Relu)),
        ("classes", linear(classes)),
    ];
    let net = Net::new(InputImage::unit(images.size()), layers)?;
    let recipe = Recipe {
        batch: BATCH,
        n_epochs: N_EPOCHS,
        schedule: Schedule::Cosine {
            first: 0.05,
            last: 0.0,
        },
        ..Recipe::default()
    };
    let host = Host::new();
    let mut losses = vec![];
    Training::new(net, recipe, &images, &host)?.run(|_, progress| {
        if let (true, Some(&loss)) = (progress.is_end_of_epoch, progress.losses.last()) {
            losses.push(f64::from(loss));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(losses)
}
