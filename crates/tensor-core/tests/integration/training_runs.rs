//! Complete trainings: repeated, interrupted and resumed, on the reference executor, and fused.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use tensor_core::compare::{Tolerance, compare};
use tensor_core::data::safetensors;
use tensor_core::optim::{Adam, Optimizer, Sgd};
use tensor_core::rng::Philox;
use tensor_core::{Compiled, DType, Host, Reference, Result, Tensor, grad, init, jit, loss};

fn values(tensor: &Tensor) -> Vec<f64> {
    let wide = tensor.cast(DType::F64).eval::<f64>(&Host::new()).unwrap();
    wide.into_iter().collect()
}

/// A net of two layers on data generated from a seed and the number of the step. All state is in
/// one list.
struct Training<F> {
    step: Compiled<F>,
    seed: Philox,
    at: Vec<Tensor>,
}

fn training(optimizer: &dyn Optimizer) -> Training<impl Fn(&[Tensor]) -> Result<Vec<Tensor>>> {
    let seed = Philox::new(11);
    let mut at = vec![
        init::he_uniform(seed.stream(0), &[12, 32], 12),
        Tensor::full(&[32], 0.0_f32),
        init::glorot_normal(seed.stream(1), &[32, 4], 32, 4),
        Tensor::full(&[4], 0.0_f32),
    ];
    at.extend(optimizer.init(&at.iter().collect::<Vec<_>>()).unwrap());
    let step = jit(move |args: &[Tensor]| {
        let [x, labels, w1, b1, w2, b2, state @ ..] = args else {
            unreachable!("there are at least six")
        };
        let logits = (x.matmul(w1) + b1).relu().matmul(w2) + b2;
        let loss = loss::softmax_cross_entropy(&logits, labels);
        let parameters = [w1, b1, w2, b2];
        let next = optimizer.step(&parameters, &grad(&loss, &parameters)?, state)?;
        Ok([vec![loss], next.parameters, next.state].concat())
    });
    Training { step, seed, at }
}

impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>> Training<F> {
    fn batch(&self, number: u64) -> [Tensor; 2] {
        let x = Tensor::randn(self.seed.stream(100 + number), &[48, 12]);
        let labels = x.slice(1, 0..4).argmax(1);
        [x, labels]
    }

    /// Returns the losses of some steps.
    fn run(&mut self, steps: std::ops::Range<u64>) -> Vec<f32> {
        let host = Host::new();
        let mut losses = Vec::new();
        for number in steps {
            let batch = self.batch(number);
            let args: Vec<&Tensor> = batch.iter().chain(&self.at).collect();
            let mut results = self.step.call(&host, &args).unwrap();
            losses.push(results.remove(0).to_host::<f32>().unwrap()[[]]);
            self.at = results;
        }
        losses
    }
}

/// Returns tensors after a round trip through a file.
fn through_a_file(tensors: &[Tensor], name: &str) -> Vec<Tensor> {
    let file = format!(
        "tensor-core-training-{name}-{}.safetensors",
        std::process::id()
    );
    let path = std::env::temp_dir().join(file);
    let names: Vec<String> = (0..tensors.len())
        .map(|number| format!("at.{number}"))
        .collect();
    let named: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(tensors).collect();
    safetensors::write(&path, &named).unwrap();
    let read = safetensors::read(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    names.iter().map(|name| read[name].clone()).collect()
}

fn optimizers() -> [(&'static str, Box<dyn Optimizer>); 3] {
    let momentum = Sgd::new(0.05).unwrap().with_nesterov_momentum(0.9).unwrap();
    let adam = Adam::new(0.01).unwrap();
    [
        ("sgd", Box::new(Sgd::new(0.2).unwrap())),
        (
            "momentum",
            Box::new(momentum.with_weight_decay(1e-4).unwrap()),
        ),
        (
            "adam",
            Box::new(adam.with_decoupled_weight_decay(1e-3).unwrap()),
        ),
    ]
}

#[test]
fn a_training_that_is_interrupted_goes_on_as_if_it_had_not_been() {
    for (name, optimizer) in &optimizers() {
        let mut whole = training(&**optimizer);
        let losses = whole.run(0..120);
        assert_eq!(whole.step.counters().misses, 1, "{name}");
        assert!(
            losses[119] < 0.5 * losses[0],
            "{name}: {} to {}",
            losses[0],
            losses[119]
        );

        let mut again = training(&**optimizer);
        assert_eq!(bits(&again.run(0..50)), bits(&losses[..50]), "{name}");
        let mut resumed = training(&**optimizer);
        resumed.at = through_a_file(&again.at, name);
        assert_eq!(bits(&resumed.run(50..120)), bits(&losses[50..]), "{name}");
        for (ours, theirs) in resumed.at.iter().zip(&whole.at) {
            assert_eq!(values(ours), values(theirs), "{name}");
        }
    }
}

fn bits(losses: &[f32]) -> Vec<u32> {
    losses.iter().map(|loss| loss.to_bits()).collect()
}

#[test]
fn a_step_is_the_same_on_the_oracle() {
    for (name, optimizer) in &optimizers() {
        let training = training(&**optimizer);
        let batch = training.batch(0);
        let args: Vec<&Tensor> = batch.iter().chain(&training.at).collect();
        let host = training.step.call(&Host::new(), &args).unwrap();
        let oracle = training.step.call(&Reference, &args).unwrap();
        for (number, (ours, theirs)) in host.iter().zip(&oracle).enumerate() {
            let (ours, theirs) = (values(ours), values(theirs));
            // A sum in a different order has a different rounding error, which is relative to the
            // largest elements; a small element may therefore differ by more than its own relative
            // tolerance.
            let largest = theirs.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
            let bound = Tolerance::relative(1 << 34).or_absolute(1e-5 * largest);
            if let Err(mismatch) = compare(&ours[..], &theirs[..], &bound) {
                panic!("{name}, result {number}: {mismatch}");
            }
        }
    }
}
