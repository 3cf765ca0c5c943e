//! The two-layer net: linear, relu, linear, fitted to random targets in 500 steps of plain gradient
//! descent.
//!
//! Role: the workload `two-layer-net`: many small steps, each with a few matrix products and
//! elementwise operations between them.
//! Shapes: inputs `[64, 1000]`, 100 hidden, outputs `[64, 10]`; the result is the summed squared
//! error before each step.
//! Accuracy: the first `FIRST` losses within 5e-6 of f64, so that any two contestants agree within
//! 1e-5.
//! Source: the lecture on Python performance: its example for profiling, with its sizes, number of
//! steps and learning rate.

use crate::training::layer::Layer;
use crate::training::{Goal, Recipe, Samples, Session, Stage};
use anyhow::Result;
use harness::program::InputDistribution;
use harness::script;
use harness::workload::Task;
use tensor_core::compare::Tolerance;

const NAME: &str = "two-layer-net";
/// Numbers of samples, inputs, hidden units and outputs in the lecture.
pub const SIDES: [usize; 4] = [64, 1000, 100, 10];
/// Number of steps in the lecture.
pub const STEPS: usize = 500;
/// Learning rate in the lecture.
pub const RATE: f32 = 1e-4;
/// Number of losses that the oracle computes.
const FIRST: usize = 50;
/// Tolerance of the first losses: 5e-6, in epsilons of f32.
const EPSILONS: usize = 42;
/// The last of the 500 losses in f64: the oracle's result with `FIRST` set to `STEPS`.
const LAST: f64 = 2.192_016_555_162_209e-6;
/// Tolerance of the last loss: 1 %, in epsilons of f32. Rounding errors of 500 steps change the
/// last loss by far less, a missing step by more.
const LAST_EPSILONS: usize = 84_000;

/// Returns the layers of the net for batch, inputs, hidden units and outputs.
#[must_use]
pub fn layers([_, inputs, hidden, outputs]: [usize; 4]) -> [Layer; 3] {
    [
        Layer::Dense {
            inputs,
            outputs: hidden,
        },
        Layer::Relu(hidden),
        Layer::Dense {
            inputs: hidden,
            outputs,
        },
    ]
}

/// Returns the training on normal inputs and targets.
///
/// # Errors
/// A side is zero.
pub fn session(sides: [usize; 4], steps: usize) -> Result<Session> {
    let [batch, inputs, _, outputs] = sides;
    let recipe = Recipe {
        name: NAME,
        script: script!("two_layer_net.py"),
        libraries: &["numpy", "torch", "torch-compile", "jax"],
        layers: layers(sides).into(),
        goal: Goal::Targets,
        batch,
        stages: vec![Stage {
            epochs: steps,
            rate: RATE,
        }],
        momentum: 0.0,
        first_losses: (FIRST, Tolerance::relative(EPSILONS)),
        least_accuracy: 0.0,
        last_loss: (sides == SIDES && steps == STEPS)
            .then_some((LAST, Tolerance::relative(LAST_EPSILONS))),
        is_profiled: true,
    };
    let samples = Samples {
        inputs: InputDistribution::Normal.draw(batch * inputs, 100),
        answers: InputDistribution::Normal.draw(batch * outputs, 101),
    };
    recipe.session(samples, Samples::default())
}

/// Returns the task at the lecture's size.
#[must_use]
pub fn task() -> Task {
    let [batch, inputs, hidden, outputs] = SIDES;
    let size = format!("{batch}-{inputs}-{hidden}-{outputs}");
    Task::new(NAME, "S2", size, || session(SIDES, STEPS))
}
