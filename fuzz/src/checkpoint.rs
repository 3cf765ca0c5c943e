//! Checkpoints of trainings: any bytes resume a training or are an error.
//!
//! Method: the first byte chooses the training, the rest is the file. A file that only has a wrong
//! checksum gets the right one. After a file that does not resume, the training is at its start.
//! Some inputs are checked further. After a file that resumes, the training writes a file that
//! resumes at the same step with the same values, is converted to a network or returns an error,
//! and does its next step. After another file, the training has the values of its start.

use std::cell::RefCell;
use std::fs;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use quant::layers::{ActivationLevels, BatchNorm, QuantLinear};
use quant::train::{Images, Net, NetLayer, Recipe, Training, Update};
use quant::{Error, InputImage};
use tensor_core::Host;

use crate::checksum;
use crate::sample::is_drawn;
use crate::temporary::Temporary;

/// The rules of the trainings.
const UPDATES: [Update; 2] = [Update::Sgd { momentum: 0.9 }, Update::Adam];
/// One input in this many has the checks that need a step of a training, or its values.
const ONE_IN: u64 = 16;

/// A training, and its checkpoint before the first step.
struct Resumed {
    training: Training<'static>,
    start: Vec<u8>,
}

thread_local! {
    /// The trainings. A training keeps its compiled programs.
    static TRAININGS: [RefCell<Resumed>; 2] = UPDATES.map(|update| RefCell::new(resumed(update)));
}

/// Checks the reader and the writer of checkpoints.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let Some((&choice, file)) = bytes.split_first() else {
        return;
    };
    let has_values_checked = is_drawn(bytes, ONE_IN);
    TRAININGS.with(|trainings| {
        let mut resumed = trainings[usize::from(choice) % UPDATES.len()].borrow_mut();
        check(&mut resumed, file, has_values_checked);
    });
}

/// Checks a file, and resumes the training at its start again.
fn check(Resumed { training, start }: &mut Resumed, file: &[u8], has_values_checked: bool) {
    let place = Temporary::file("checkpoint.safetensors", file);
    let mut outcome = training.resume(place.path());
    if let Some(file) = outcome
        .as_ref()
        .err()
        .and_then(|error| checksum::corrected(file, error))
    {
        fs::write(place.path(), file).expect("the file can be written again");
        outcome = training.resume(place.path());
    }
    match outcome {
        Ok(()) => {
            assert!(training.step() <= training.n_steps());
            if has_values_checked {
                check_resumed(training, &place);
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            if has_values_checked {
                assert!(saved(training, &place) == *start, "{error}");
            }
            assert_eq!(training.step(), 0, "{error}");
        }
    }
    // An error that changes a training must not become the fault of a later input.
    fs::write(place.path(), start).expect("the file can be written again");
    training
        .resume(place.path())
        .expect("a training resumes at its start");
}

/// Checks a training that has the values of a checkpoint.
fn check_resumed(training: &mut Training<'_>, place: &Temporary) {
    let step = training.step();
    match training.save(place.path()) {
        Ok(()) => {
            let first = fs::read(place.path()).expect("a checkpoint that was written can be read");
            training
                .resume(place.path())
                .expect("a checkpoint that was written resumes");
            assert_eq!(training.step(), step);
            assert!(
                saved(training, place) == first,
                "a checkpoint is not equal to its copy"
            );
        }
        Err(Error::NotFinite { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    match training.trained() {
        Ok(trained) => {
            // The deviations of a normalization may be negative, for example.
            if let Err(error) = trained.network() {
                assert!(!error.to_string().is_empty());
            }
        }
        Err(error) => assert!(matches!(error, Error::NotFinite { .. }), "{error}"),
    }
    let mut n_reads = 0;
    let outcome = training.run(|training, progress| {
        n_reads += 1;
        assert!(progress.step == step + 1 && training.step() == progress.step);
        Ok(ControlFlow::Break(()))
    });
    match outcome {
        Ok(()) => assert_eq!(n_reads == 0, step == training.n_steps()),
        Err(error) => assert!(matches!(error, Error::NotFinite { .. }), "{error}"),
    }
}

/// Returns the checkpoint of a training.
fn saved(training: &mut Training<'_>, place: &Temporary) -> Vec<u8> {
    training
        .save(place.path())
        .expect("the values of the training are finite");
    fs::read(place.path()).expect("a checkpoint that was written can be read")
}

fn resumed(update: Update) -> Resumed {
    let mut training = training(update).expect("the training is valid");
    let place = Temporary::file("start.safetensors", b"");
    let start = saved(&mut training, &place);
    Resumed { training, start }
}

/// Creates a training of two steps with layers of each kind of state.
fn training(update: Update) -> quant::Result<Training<'static>> {
    static HOST: LazyLock<Host> = LazyLock::new(Host::new);
    let images = Images::new([2, 1, 1], vec![0, 9, 9, 0], vec![0, 1], 2)?;
    let linear = || NetLayer::Linear(QuantLinear::new(2));
    let layers = vec![
        ("hidden", linear()),
        ("norm", NetLayer::BatchNorm(BatchNorm::default())),
        ("relu", NetLayer::Activation(ActivationLevels::Relu)),
        ("middle", linear()),
        ("classes", linear()),
    ];
    let net = Net::new(InputImage::unit(images.size()), layers)?.with_levels("w1a1".parse()?)?;
    let recipe = Recipe {
        batch: 1,
        n_epochs: 1,
        update,
        read_every: 1,
        ..Recipe::default()
    };
    Training::new(net, recipe, &images, &*HOST)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_corpus_has_checkpoints_that_resume() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/checkpoint");
        let place = Temporary::file("resumed.safetensors", b"");
        for (choice, update) in (0_u8..).zip(UPDATES) {
            let name = ["sgd", "adam"][usize::from(choice)];
            let mut training = training(update).unwrap();
            if env::var_os("BLESS").is_some_and(|value| value == "1") {
                training.run(|_, _| Ok(ControlFlow::Break(()))).unwrap();
                let file = saved(&mut training, &place);
                fs::write(folder.join(name), [&[choice], &file[..]].concat()).unwrap();
            }
            let input = fs::read(folder.join(name)).unwrap();
            assert_eq!(input[0], choice);
            fs::write(place.path(), &input[1..]).unwrap();
            training.resume(place.path()).unwrap();
            assert_eq!(training.step(), 1, "{name}");
        }
    }
}
