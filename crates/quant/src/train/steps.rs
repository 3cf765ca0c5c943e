//! Steps of training, for any model.
//!
//! Role: the training loop without data: [`Steps`] holds the parameters, the state of the optimizer
//! and the state of the model on an executor, and replaces them at each step.
//! Method: loss, gradients, update and the next state are one compiled function, whose arguments
//! include the batch and the learning rate. Losses and the flags of values that are not finite stay
//! on the executor until [`Steps::read`]: a read after each step would wait for a device each time.

use std::fmt;
use std::sync::Arc;

use tensor_core::optim::Optimizer;
use tensor_core::{Compiled, DType, Executor, Tensor, grad, jit};

use super::shards::Shards;
use crate::error::{Error, Result, check_count, finite};

/// A function that is trained.
pub trait Model: Send + Sync {
    /// Returns the loss of a batch and the next state as tensor programs.
    ///
    /// # Errors
    /// The errors of the model.
    fn loss(&self, parameters: &[Tensor], state: &[Tensor], batch: &[Tensor]) -> Result<Loss>;

    /// Returns the names of the layers that [`Loss::are_finite`] describes.
    fn checked_layers(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether weight decay applies to a parameter.
    fn is_decayed(&self, parameter: usize) -> bool {
        let _ = parameter;
        true
    }
}

/// The loss of a batch.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The loss, a float without axes.
    pub loss: Tensor,
    /// The next state of the model.
    pub state: Vec<Tensor>,
    /// For each checked layer, whether its output is finite: a bool without axes.
    pub are_finite: Vec<Tensor>,
}

/// An optimizer that can be shared among threads.
pub type SharedOptimizer = Box<dyn Optimizer + Send + Sync>;

/// A function of tensors that is compiled.
pub(super) type Program = Box<dyn Fn(&[Tensor]) -> tensor_core::Result<Vec<Tensor>> + Send + Sync>;

/// A training that does steps on batches of the caller's choice.
#[derive(Debug)]
pub struct Steps {
    step: Compiled<Program>,
    /// The gradients of a shard of a batch, and the update after the sum over all shards.
    in_shards: [Compiled<Program>; 2],
    stack: Compiled<Program>,
    groups: Arc<Groups>,
    n_parameters: usize,
    n_optimizer: usize,
    layers: Vec<String>,
    /// Parameters, then the state of the optimizer, then the state of the model.
    values: Vec<Tensor>,
    /// The rate of the last step, with its copy on the executor.
    rate: Option<(f32, Tensor)>,
    /// The number of steps so far.
    n_steps: usize,
    /// The loss and the flags of each step since the last read.
    unread: Vec<Tensor>,
}

/// The optimizers of the two groups of parameters: those with weight decay, and the others.
struct Groups {
    is_decayed: Vec<bool>,
    optimizers: [SharedOptimizer; 2],
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Groups")
            .field("is_decayed", &self.is_decayed)
            .finish_non_exhaustive()
    }
}

impl Groups {
    fn optimizer(&self, is_decayed: bool) -> &SharedOptimizer {
        &self.optimizers[usize::from(!is_decayed)]
    }

    fn of<'t, T>(&self, is_decayed: bool, all: &'t [T]) -> Vec<&'t T> {
        let pairs = all.iter().zip(&self.is_decayed);
        let own = pairs.filter(|&(_, &decayed)| decayed == is_decayed);
        own.map(|(tensor, _)| tensor).collect()
    }

    fn init(&self, parameters: &[Tensor]) -> Result<[Vec<Tensor>; 2]> {
        let init = |is_decayed| {
            let parameters = self.of(is_decayed, parameters);
            self.optimizer(is_decayed).init(&parameters)
        };
        Ok([init(true)?, init(false)?])
    }

    /// Returns the next parameters, and the next state of both groups.
    fn step(
        &self,
        rate: &Tensor,
        parameters: &[Tensor],
        gradients: &[Tensor],
        state: [&[Tensor]; 2],
    ) -> tensor_core::Result<[Vec<Tensor>; 2]> {
        let step = |is_decayed, state| {
            let gradients = self.of(is_decayed, gradients).into_iter().cloned();
            let gradients: Vec<Tensor> = gradients.collect();
            let parameters = self.of(is_decayed, parameters);
            let optimizer = self.optimizer(is_decayed);
            optimizer.step_with_rate(rate, &parameters, &gradients, state)
        };
        let (decayed, others) = (step(true, state[0])?, step(false, state[1])?);
        let state = [decayed.state, others.state].concat();
        let mut decayed = decayed.parameters.into_iter();
        let mut others = others.parameters.into_iter();
        let parameters = self.is_decayed.iter().filter_map(|&is_decayed| {
            if is_decayed {
                decayed.next()
            } else {
                others.next()
            }
        });
        Ok([parameters.collect(), state])
    }
}

impl Steps {
    /// Creates a training of a model with initial parameters and state. `optimizers` are those of
    /// the parameters with and without weight decay.
    ///
    /// # Errors
    /// [`Error::Tensor`] for parameters that the optimizers reject.
    pub fn new(
        model: impl Model + 'static,
        optimizers: [SharedOptimizer; 2],
        parameters: Vec<Tensor>,
        state: Vec<Tensor>,
    ) -> Result<Self> {
        let groups = Arc::new(Groups {
            is_decayed: (0..parameters.len())
                .map(|number| model.is_decayed(number))
                .collect(),
            optimizers,
        });
        let optimizer_state = groups.init(&parameters)?;
        let n_states = [optimizer_state[0].len(), optimizer_state[1].len()];
        let (n_parameters, n_state) = (parameters.len(), state.len());
        let layers = model.checked_layers();
        let model = Arc::new(model);
        let of_step = (Arc::clone(&model), Arc::clone(&groups));
        let step = move |args: &[Tensor]| {
            let (parameters, rest) = args.split_at(n_parameters);
            let (decayed, rest) = rest.split_at(n_states[0]);
            let (others, rest) = rest.split_at(n_states[1]);
            let (state, rest) = rest.split_at(n_state);
            let (rate, batch) = (&rest[0], &rest[1..]);
            let (model, groups) = &of_step;
            let (report, gradients, state) = differentiated(&**model, parameters, state, batch)?;
            let [parameters, optimizer_state] =
                groups.step(rate, parameters, &gradients, [decayed, others])?;
            Ok([vec![report], parameters, optimizer_state, state].concat())
        };
        let of_shard = move |args: &[Tensor]| {
            let (parameters, rest) = args.split_at(n_parameters);
            let (state, batch) = rest.split_at(n_state);
            let (report, gradients, state) = differentiated(&*model, parameters, state, batch)?;
            Ok([vec![report], gradients, state].concat())
        };
        let of_update = Arc::clone(&groups);
        let update = move |args: &[Tensor]| {
            let (parameters, rest) = args.split_at(n_parameters);
            let (decayed, rest) = rest.split_at(n_states[0]);
            let (others, rest) = rest.split_at(n_states[1]);
            let (rate, n_shards, sums) = (&rest[0], &rest[1], &rest[2..]);
            // A device may round a quotient of equal numbers, so flags are compared before.
            let flags = sums[0].slice(0, 1..).eq(n_shards).cast(DType::F32);
            let loss = sums[0].slice(0, 0..1) / n_shards;
            let report = Tensor::concat(&[&loss, &flags], 0);
            // A sum over shards has the type of its terms, and becomes their mean.
            let means: Vec<Tensor> = sums[1..].iter().map(|sum| sum / n_shards).collect();
            let (gradients, state) = means.split_at(n_parameters);
            let [parameters, optimizer_state] =
                of_update.step(rate, parameters, gradients, [decayed, others])?;
            Ok([vec![report], parameters, optimizer_state, state.to_vec()].concat())
        };
        let (step, stack): (Program, Program) = (Box::new(step), Box::new(stacked));
        let in_shards: [Program; 2] = [Box::new(of_shard), Box::new(update)];
        let [decayed, others] = optimizer_state;
        Ok(Self {
            step: jit(step),
            in_shards: in_shards.map(jit),
            stack: jit(stack),
            groups,
            n_parameters,
            n_optimizer: n_states.iter().sum(),
            layers,
            values: [parameters, decayed, others, state].concat(),
            rate: None,
            n_steps: 0,
            unread: Vec::new(),
        })
    }

    /// Restarts the training with other parameters and another state of the same shapes, and with
    /// the initial state of the optimizers. The compiled step is reused.
    ///
    /// # Errors
    /// [`Error::Length`] and [`Error::Shape`] for other numbers or shapes of tensors;
    /// [`Error::Tensor`] for parameters that the optimizers reject. The training is then as before.
    pub fn restart(&mut self, parameters: Vec<Tensor>, state: Vec<Tensor>) -> Result<()> {
        let operation = "Steps::restart";
        for (quantity, new, old) in [
            ("parameters", &parameters, self.parameters()),
            ("state", &state, self.state()),
        ] {
            check_count(operation, quantity, new.len(), old.len())?;
            for (new, old) in new.iter().zip(old) {
                let (actual, expected) = (new.shape()?, old.shape()?);
                if actual != expected {
                    return Err(Error::Shape {
                        operation,
                        quantity,
                        actual: actual.to_vec(),
                        expected: format!("{expected:?}"),
                    });
                }
            }
        }
        let [decayed, others] = self.groups.init(&parameters)?;
        self.set(0, [parameters, decayed, others, state].concat());
        Ok(())
    }

    /// Returns the tensor programs of a step with a batch and a learning rate, without computing
    /// anything, to verify or explain them: a row with the loss and the flags of the layers, then
    /// the next parameters and states.
    ///
    /// # Errors
    /// [`Error::Tensor`] for an error of the model's program.
    pub fn programs(&self, batch: &[&Tensor], rate: f32) -> Result<Vec<Tensor>> {
        let rate = Tensor::scalar(rate);
        let args = self
            .values
            .iter()
            .chain([&rate])
            .chain(batch.iter().copied());
        Ok(self.step.function()(&args.cloned().collect::<Vec<_>>())?)
    }

    /// Does a step with a batch and a learning rate.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] for a rate that is not finite; [`Error::Tensor`] for an error of
    /// the model's program or of the executor. The training is then as before the step.
    pub fn step(&mut self, executor: &dyn Executor, batch: &[&Tensor], rate: f32) -> Result<()> {
        let rate = self.rate_on(executor, rate)?;
        let args: Vec<&Tensor> = self
            .values
            .iter()
            .chain([&rate])
            .chain(batch.iter().copied())
            .collect();
        let next = self.step.call(executor, &args)?;
        self.advance(next);
        Ok(())
    }

    /// Does a step whose batch is divided into shards of equal size, of which `batches` contains
    /// those of this process.
    ///
    /// The loss, the gradients and the next state are means over all shards, so the result differs
    /// from that of an undivided step by roundings. It differs by more for models whose loss or
    /// state is no mean over the elements of a batch, such as batch normalization.
    ///
    /// # Errors
    /// As [`step`](Self::step); [`Error::ShardSum`].
    pub fn step_in_shards(
        &mut self,
        executor: &dyn Executor,
        batches: &[Vec<Tensor>],
        shards: &mut Shards<'_>,
        rate: f32,
    ) -> Result<()> {
        let rate = self.rate_on(executor, rate)?;
        let [of_shard, update] = &self.in_shards;
        let of_shard = |batch: &Vec<Tensor>| {
            let args = self.parameters().iter().chain(self.state()).chain(batch);
            of_shard.call(executor, &args.collect::<Vec<_>>())
        };
        let own = batches.iter().map(of_shard);
        let own = own.collect::<tensor_core::Result<Vec<_>>>()?;
        let sums = shards.sum(&own)?;
        let n_sums = 1 + self.n_parameters + self.state().len();
        check_count("Steps::step_in_shards", "sums", sums.len(), n_sums)?;
        let n_shards = Tensor::scalar(shards.n_shards() as f32);
        let values = self.parameters().iter().chain(self.optimizer_state());
        let args: Vec<&Tensor> = values.chain([&rate, &n_shards]).chain(&sums).collect();
        let next = update.call(executor, &args)?;
        self.advance(next);
        Ok(())
    }

    /// Returns a learning rate on the executor.
    fn rate_on(&mut self, executor: &dyn Executor, rate: f32) -> Result<Tensor> {
        finite("Steps::step", "learning rate", rate.into())?;
        Ok(match &self.rate {
            Some((old, tensor)) if old.to_bits() == rate.to_bits() => tensor.clone(),
            _ => {
                let tensor = Tensor::scalar(rate).realize(executor)?;
                self.rate = Some((rate, tensor.clone()));
                tensor
            }
        })
    }

    /// Replaces the values by those after a step, which follow the step's report.
    fn advance(&mut self, mut next: Vec<Tensor>) {
        self.unread.push(next.remove(0));
        self.values = next;
        self.n_steps += 1;
    }

    /// Returns the losses since the last read.
    ///
    /// # Errors
    /// [`Error::NotFinite`] with the first step in which the sum of a layer's output or the loss is
    /// not finite, and the first such layer; [`Error::Tensor`] for an error of the executor.
    pub fn read(&mut self, executor: &dyn Executor) -> Result<Vec<f32>> {
        if self.unread.is_empty() {
            return Ok(Vec::new());
        }
        let reports: Vec<&Tensor> = self.unread.iter().collect();
        let reports = self
            .stack
            .call(executor, &reports)?
            .remove(0)
            .to_host::<f32>()?;
        let first = self.n_steps - self.unread.len();
        let mut losses = Vec::with_capacity(self.unread.len());
        for (number, report) in reports.outer_iter().enumerate() {
            let flags = report.iter().skip(1);
            let mut layers = flags.zip(&self.layers).filter(|&(&flag, _)| flag != 1.0);
            let layer = layers.next().map(|(_, name)| name.clone());
            let loss = report[0];
            let layer = layer.or((!loss.is_finite()).then(|| "loss".to_owned()));
            if let Some(layer) = layer {
                return Err(Error::NotFinite {
                    step: first + number,
                    layer,
                });
            }
            losses.push(loss);
        }
        self.unread.clear();
        Ok(losses)
    }

    /// Returns the number of steps so far.
    #[must_use]
    pub fn n_steps(&self) -> usize {
        self.n_steps
    }

    /// Returns the number of steps whose losses were not read yet.
    #[must_use]
    pub fn n_unread(&self) -> usize {
        self.unread.len()
    }

    /// Returns the parameters.
    #[must_use]
    pub fn parameters(&self) -> &[Tensor] {
        &self.values[..self.n_parameters]
    }

    /// Returns the state of the optimizers.
    #[must_use]
    pub fn optimizer_state(&self) -> &[Tensor] {
        &self.values[self.n_parameters..][..self.n_optimizer]
    }

    /// Returns the state of the model.
    #[must_use]
    pub fn state(&self) -> &[Tensor] {
        &self.values[self.n_parameters + self.n_optimizer..]
    }

    /// Replaces the parameters and states by those of a training after `n_steps` steps.
    pub(super) fn set(&mut self, n_steps: usize, values: Vec<Tensor>) {
        self.n_steps = n_steps;
        self.values = values;
        self.unread.clear();
    }

    /// Returns the parameters, the state of the optimizers and the state of the model.
    pub(super) fn values(&self) -> &[Tensor] {
        &self.values
    }
}

/// Returns the report of a batch, the gradients, and the next state.
fn differentiated(
    model: &dyn Model,
    parameters: &[Tensor],
    state: &[Tensor],
    batch: &[Tensor],
) -> tensor_core::Result<(Tensor, Vec<Tensor>, Vec<Tensor>)> {
    let loss = model.loss(parameters, state, batch).map_err(in_program)?;
    let (n_state, n_layers) = (state.len(), model.checked_layers().len());
    let operation = "Steps::step";
    check_count(operation, "the next state", loss.state.len(), n_state)
        .and_then(|()| check_count(operation, "flags", loss.are_finite.len(), n_layers))
        .map_err(in_program)?;
    let gradients = grad(&loss.loss, &parameters.iter().collect::<Vec<_>>())?;
    let flags = loss.are_finite.iter().map(|flag| flag.cast(DType::F32));
    let report = [loss.loss.cast(DType::F32)].into_iter().chain(flags);
    let report: Vec<Tensor> = report.collect();
    let report = Tensor::stack(&report.iter().collect::<Vec<_>>(), 0);
    Ok((report, gradients, loss.state))
}

/// Stacks the reports of several steps.
fn stacked(reports: &[Tensor]) -> tensor_core::Result<Vec<Tensor>> {
    let reports: Vec<&Tensor> = reports.iter().collect();
    Ok(vec![Tensor::stack(&reports, 0)])
}

/// Returns an error of a model as an error of its program.
fn in_program(error: Error) -> tensor_core::Error {
    match error {
        Error::Tensor(error) => error,
        other => tensor_core::Error::BadStep {
            what: other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use tensor_core::Host;
    use tensor_core::optim::Sgd;

    use super::*;

    /// The square of the only parameter, with one checked layer.
    struct Square;

    impl Model for Square {
        fn loss(&self, parameters: &[Tensor], _: &[Tensor], _: &[Tensor]) -> Result<Loss> {
            let loss = parameters[0].square();
            Ok(Loss {
                are_finite: vec![loss.abs().lt(f32::INFINITY)],
                loss,
                state: vec![],
            })
        }

        fn checked_layers(&self) -> Vec<String> {
            vec!["square".to_owned()]
        }
    }

    #[test]
    fn flags_of_shards_are_not_divided() {
        let optimizer = || -> SharedOptimizer { Box::new(Sgd::new(0.1).unwrap()) };
        let parameters = vec![Tensor::scalar(1.0_f32)];
        let steps = Steps::new(Square, [optimizer(), optimizer()], parameters, vec![]).unwrap();
        let [_, update] = &steps.in_shards;
        // With a count of 0, a flag that is a quotient is NaN on every executor.
        let [rate, n_shards, gradient] = [0.5_f32, 0.0, 2.0].map(Tensor::scalar);
        let report = Tensor::from_vec(&[2], vec![3.0_f32, 0.0]);
        let values = steps.parameters().iter().chain(steps.optimizer_state());
        let args = values.chain([&rate, &n_shards, &report, &gradient]);
        let next = update.function()(&args.cloned().collect::<Vec<_>>()).unwrap();
        let report = next[0].eval::<f32>(&Host::new()).unwrap();
        assert_eq!(report[1].to_bits(), 1.0_f32.to_bits());
    }
}
