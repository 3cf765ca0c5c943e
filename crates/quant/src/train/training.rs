//! The training of a network as a classifier: steps, checkpoints and results.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use tensor_core::rng::Philox;
use tensor_core::{Compiled, Executor, Tensor, jit};

use super::checkpoint::{self, Identity};
use super::steps::Program;
use super::{Images, Net, Progress, Recipe, Shards, Steps, Trained};
use crate::checksum::Checksum;
use crate::error::{Error, Result, check, check_count, product};
use crate::layers::{BatchNorm, Slot, Start};
use crate::network::InputImage;

/// A training of a [`Net`] as a classifier by the mean cross-entropy of a softmax.
#[derive(Debug)]
pub struct Training<'a> {
    net: Net,
    recipe: Recipe,
    executor: &'a dyn Executor,
    steps: Steps,
    data: Data,
    /// The division of each batch, if several processes train together.
    shards: Option<Shards<'a>>,
    /// The order of the images in an epoch, and the number of the epoch.
    order: (usize, Vec<u32>),
    n_images: usize,
    /// The checksums of the images, and of the values before the first step.
    images: Checksum,
    start: Checksum,
}

/// The images and labels on the executor.
#[derive(Debug)]
struct Data {
    codes: Tensor,
    labels: Tensor,
    take: Compiled<Program>,
}

impl Data {
    fn new(images: &Images, input: &InputImage, executor: &dyn Executor) -> Result<Self> {
        let codes = images.codes(0..images.len()).realize(executor)?;
        let labels = Tensor::from_vec(&[images.len()], images.labels().to_vec());
        let input = input.clone();
        let take = move |args: &[Tensor]| {
            let [codes, labels, index] = args else {
                unreachable!("there are three")
            };
            let images = input.values_of(&codes.gather(index, 0));
            Ok(vec![images, labels.gather(index, 0)])
        };
        let take: Program = Box::new(take);
        Ok(Self {
            codes,
            labels: labels.realize(executor)?,
            take: jit(take),
        })
    }

    /// Returns the numbers and the labels of some images.
    fn batch(&self, executor: &dyn Executor, images: &[u32]) -> Result<Vec<Tensor>> {
        let index = Tensor::from_vec(&[images.len()], images.to_vec());
        let arguments = [&self.codes, &self.labels, &index];
        Ok(self.take.call(executor, &arguments)?)
    }
}

impl<'a> Training<'a> {
    /// Creates a training that starts with random weights.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] for a batch of 0 images or more than there are, for `read_every` 0,
    /// for a rate out of range, and for more steps than can be counted; [`Error::ImageShape`] for
    /// images of another size; [`Error::Length`] unless the net has an output for each class;
    /// [`Error::Layer`]; [`Error::Tensor`] for a momentum or a weight decay out of range, and for
    /// an error of the executor.
    pub fn new(
        net: Net,
        recipe: Recipe,
        images: &Images,
        executor: &'a dyn Executor,
    ) -> Result<Self> {
        let parameters = net.parameters();
        let streams = (0..).map(|number| Philox::new(recipe.seed).stream(number));
        let parameters = parameters.iter().zip(streams);
        let parameters = parameters
            .map(|((_, slot), stream)| started(slot, stream))
            .collect();
        Self::with_parameters(net, recipe, images, executor, parameters)?.begun()
    }

    /// Creates a training that starts with the parameters of a trained network: those with equal
    /// names and shapes. Other parameters start as in [`new`](Self::new). The state of batch
    /// normalizations is copied, too. Levels of weights are fitted to the weights.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_trained(
        net: Net,
        trained: &Trained,
        recipe: Recipe,
        images: &Images,
        executor: &'a dyn Executor,
    ) -> Result<Self> {
        let slots = trained.net.parameters();
        let known = slots.iter().map(|(name, slot)| (name, &slot.shape));
        let known: HashMap<_, &Vec<f32>> = known.zip(&trained.parameters).collect();
        let streams = (0..).map(|number| Philox::new(recipe.seed).stream(number));
        let parameters = net.parameters();
        let parameters = parameters.iter().zip(streams);
        let parameters = parameters.map(|((name, slot), stream)| {
            let trained = known.get(&(name, &slot.shape));
            trained.map_or_else(|| started(slot, stream), |&trained| trained.clone())
        });
        let parameters = parameters.collect();
        let mut training = Self::with_parameters(net, recipe, images, executor, parameters)?;
        training.copy_averages(trained)?;
        training.begun()
    }

    /// Copies the averages of batch normalizations.
    fn copy_averages(&mut self, trained: &Trained) -> Result<()> {
        let known = trained.net.state_names().into_iter().zip(&trained.state);
        let known: HashMap<String, &Vec<f32>> = known.collect();
        let names = self.net.state_names();
        let mut values = self.steps.values().to_vec();
        let first = values.len() - names.len();
        for (name, value) in names.iter().zip(&mut values[first..]) {
            let is_average = BatchNorm::STATE
                .iter()
                .any(|own| name.ends_with(&format!(".{own}")));
            let shape = value.shape()?.to_vec();
            let numbers = known.get(name).filter(|numbers| shape == [numbers.len()]);
            if let (true, Some(numbers)) = (is_average, numbers) {
                *value = Tensor::from_vec(&shape, numbers.to_vec()).realize(self.executor)?;
            }
        }
        self.steps.set(0, values);
        Ok(())
    }

    /// Continues at the step of a checkpoint, a file that [`save`](Self::save) wrote for a training
    /// that was created in the same way. The losses that follow have the same bits as without the
    /// interruption.
    ///
    /// # Errors
    /// [`Error::File`] with [`Error::ModelFile`] for a file of another net, other options, other
    /// images or another start, and for a file that was changed; [`Error::Tensor`] for a file that
    /// is no complete safetensors file, and for an error of the executor. The training is then as
    /// before.
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let read = checkpoint::read(path, &self.identity(), &self.named_values());
        let (n_steps, tensors) = read.map_err(|error| error.in_file(path))?;
        let all: Vec<&Tensor> = tensors.iter().collect();
        let values = Tensor::realize_all(&all, self.executor)?;
        self.steps.set(n_steps, values);
        Ok(())
    }

    /// Divides each batch into shards, of which this process computes some. Several processes
    /// train one network together in this way: each creates the same training with its own
    /// [`Shards`].
    ///
    /// The loss and the gradients are means over the shards, and so are the averages of batch
    /// normalizations, each of which normalizes within a shard. A checkpoint states the number of
    /// shards, but not that of the processes.
    ///
    /// # Errors
    /// [`Error::InvalidNumber`] if the batch is no multiple of the number of shards.
    ///
    /// # Examples
    /// ```
    /// use std::ops::ControlFlow;
    ///
    /// use quant::layers::QuantLinear;
    /// use quant::train::{Images, Net, NetLayer, Recipe, Shards, Training};
    /// use quant::InputImage;
    /// use tensor_core::{Host, Tensor};
    ///
    /// let images = Images::new([2, 1, 1], vec![0, 9, 9, 0], vec![0, 1], 2)?;
    /// let classes = NetLayer::Linear(QuantLinear::new(2));
    /// let net = Net::new(InputImage::unit([2, 1, 1]), vec![("classes", classes)])?;
    /// let recipe = Recipe { batch: 2, n_epochs: 1, ..Recipe::default() };
    /// let host = Host::new();
    ///
    /// // One process computes both shards, and adds their tensors.
    /// let add = |own: &[Vec<Tensor>]| {
    ///     let sums = own[0].iter().zip(&own[1]).map(|(a, b)| (a + b).realize(&host));
    ///     sums.collect::<Result<_, _>>().map_err(|error| error.to_string())
    /// };
    /// let shards = Shards::new(2, 0..2, Box::new(add))?;
    /// let mut training = Training::new(net, recipe, &images, &host)?.with_shards(shards)?;
    /// training.run(|_, progress| {
    ///     assert!(progress.losses[0].is_finite());
    ///     Ok(ControlFlow::Continue(()))
    /// })?;
    /// # Ok::<(), quant::Error>(())
    /// ```
    pub fn with_shards(self, shards: Shards<'a>) -> Result<Self> {
        let is_multiple = self.recipe.batch.is_multiple_of(shards.n_shards());
        check(
            "Training::with_shards",
            "batch",
            self.recipe.batch as f64,
            is_multiple,
            "a multiple of the number of shards",
        )?;
        Ok(Self {
            shards: Some(shards),
            ..self
        })
    }

    /// Returns the training with the checksum of its parameters and state.
    fn begun(mut self) -> Result<Self> {
        for tensor in self.steps.parameters().iter().chain(self.steps.state()) {
            self.start.add_tensor(tensor)?;
        }
        Ok(self)
    }

    fn with_parameters(
        net: Net,
        recipe: Recipe,
        images: &Images,
        executor: &'a dyn Executor,
        parameters: Vec<Vec<f32>>,
    ) -> Result<Self> {
        let operation = "Training::new";
        images.check_batch(operation, recipe.batch)?;
        let read_every = recipe.read_every as f64;
        check(
            operation,
            "read_every",
            read_every,
            recipe.read_every > 0,
            "at least 1",
        )?;
        recipe.schedule.check(operation)?;
        let n_steps = (images.len() / recipe.batch).checked_mul(recipe.n_epochs);
        check(
            operation,
            "number of epochs",
            recipe.n_epochs as f64,
            n_steps.is_some(),
            "fewer than 2^64 steps in total",
        )?;
        if images.size() != net.input().size {
            return Err(Error::ImageShape {
                operation,
                actual: [&[images.len()], &images.size()[..]].concat(),
                expected: net.input().size,
            });
        }
        let n_outputs = product(&net.output_size());
        check_count(
            operation,
            "the output of the net",
            n_outputs,
            images.n_classes(),
        )?;
        let state = net.state(&parameters)?;
        let state = state.iter().map(|slot| {
            let numbers = started(slot, Philox::new(recipe.seed));
            Tensor::from_vec(&slot.shape, numbers).realize(executor)
        });
        let state = state.collect::<tensor_core::Result<Vec<_>>>()?;
        let slots = net.parameters();
        let tensors = slots
            .iter()
            .zip(parameters)
            .map(|((_, slot), numbers)| Tensor::from_vec(&slot.shape, numbers).realize(executor));
        let tensors = tensors.collect::<tensor_core::Result<Vec<_>>>()?;
        let steps = Steps::new(net.clone(), recipe.optimizers()?, tensors, state)?;
        Ok(Self {
            data: Data::new(images, net.input(), executor)?,
            shards: None,
            net,
            recipe,
            executor,
            steps,
            order: (usize::MAX, Vec::new()),
            n_images: images.len(),
            images: images.checksum(),
            start: Checksum::new(),
        })
    }

    /// Returns the number of steps of an epoch.
    #[must_use]
    pub fn steps_per_epoch(&self) -> usize {
        self.n_images / self.recipe.batch
    }

    /// Returns the number of all steps.
    #[must_use]
    pub fn n_steps(&self) -> usize {
        self.steps_per_epoch() * self.recipe.n_epochs
    }

    /// Returns the number of steps so far.
    #[must_use]
    pub fn step(&self) -> usize {
        self.steps.n_steps()
    }

    /// Returns the images of a step, in the order of its epoch.
    fn images_of(&mut self, step: usize) -> &[u32] {
        let (epoch, number) = (step / self.steps_per_epoch(), step % self.steps_per_epoch());
        if self.order.0 != epoch {
            self.order = (epoch, self.recipe.order(epoch, self.n_images));
        }
        &self.order.1[number * self.recipe.batch..][..self.recipe.batch]
    }

    /// Returns the tensor programs of the next step, as [`Steps::programs`].
    ///
    /// # Errors
    /// [`Error::Tensor`] for an error of the executor or of a program.
    pub fn programs(&mut self) -> Result<Vec<Tensor>> {
        let step = self.step();
        let images = self.images_of(step).to_vec();
        let batch = self.data.batch(self.executor, &images)?;
        let rate = self
            .recipe
            .schedule
            .rate(step, self.n_steps(), self.steps_per_epoch());
        self.steps.programs(&batch.iter().collect::<Vec<_>>(), rate)
    }

    /// Trains until the last step, or until `observe` breaks. `observe` is called after each read
    /// of the losses: every `read_every` steps, and at the end of each epoch. It may save or
    /// evaluate the training.
    ///
    /// # Errors
    /// [`Error::NotFinite`] with the step and the layer; the errors of `observe`;
    /// [`Error::Tensor`] for an error of the executor.
    pub fn run(
        &mut self,
        mut observe: impl FnMut(&mut Self, Progress) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let (n_steps, per_epoch) = (self.n_steps(), self.steps_per_epoch());
        while self.step() < n_steps {
            let rate = self.recipe.schedule.rate(self.step(), n_steps, per_epoch);
            self.next_step(rate)?;
            let is_end_of_epoch = self.step().is_multiple_of(per_epoch);
            if is_end_of_epoch || self.steps.n_unread() >= self.recipe.read_every {
                let progress = Progress {
                    step: self.step(),
                    n_steps,
                    n_epochs: self.step() / per_epoch,
                    losses: self.steps.read(self.executor)?,
                    rate,
                    is_end_of_epoch,
                };
                if observe(self, progress)?.is_break() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Does the next step.
    fn next_step(&mut self, rate: f32) -> Result<()> {
        let images = self.images_of(self.step()).to_vec();
        let (data, executor) = (&self.data, self.executor);
        let Some(shards) = &mut self.shards else {
            let batch = data.batch(executor, &images)?;
            let batch: Vec<&Tensor> = batch.iter().collect();
            return self.steps.step(executor, &batch, rate);
        };
        let batches = shards.parts(&images);
        let batches = batches.map(|images| data.batch(executor, images));
        let batches = batches.collect::<Result<Vec<_>>>()?;
        self.steps.step_in_shards(executor, &batches, shards, rate)
    }

    /// Writes a checkpoint. An existing file is replaced once the new one is complete, and only if
    /// all values so far and all numbers of the checkpoint are finite.
    ///
    /// # Errors
    /// [`Error::NotFinite`] with the step and the layer or tensor; [`Error::Tensor`] for an error
    /// of the executor or of the file system.
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.steps.read(self.executor)?;
        let named = self.named_values();
        for (name, tensor) in &named {
            // The number of steps of an optimizer is an integer.
            if tensor.dtype()?.is_float() {
                self.finite_numbers(name, tensor)?;
            }
        }
        checkpoint::write(path.as_ref(), &self.identity(), self.step(), &named)
    }

    /// Returns the network with the current parameters.
    ///
    /// # Errors
    /// [`Error::NotFinite`]; [`Error::Tensor`] for an error of the executor.
    pub fn trained(&mut self) -> Result<Trained> {
        self.steps.read(self.executor)?;
        let names = self.net.parameters().into_iter().map(|(name, _)| name);
        let parameters = names.zip(self.steps.parameters());
        let state = self.net.state_names().into_iter().zip(self.steps.state());
        let numbers = |(name, tensor): (String, &Tensor)| self.finite_numbers(&name, tensor);
        Ok(Trained {
            net: self.net.clone(),
            parameters: parameters.map(numbers).collect::<Result<_>>()?,
            state: state.map(numbers).collect::<Result<_>>()?,
        })
    }

    /// Returns the numbers of a tensor. The last step can have made them infinite without a flag,
    /// because flags describe the values before the update.
    fn finite_numbers(&self, name: &str, tensor: &Tensor) -> Result<Vec<f32>> {
        let numbers: Vec<f32> = tensor.to_host::<f32>()?.into_iter().collect();
        if numbers.iter().all(|number| number.is_finite()) {
            return Ok(numbers);
        }
        Err(Error::NotFinite {
            step: self.step().saturating_sub(1),
            layer: name.to_owned(),
        })
    }

    fn identity(&self) -> Identity {
        Identity {
            net: self.net.to_string(),
            recipe: match &self.shards {
                None => format!("{:?}", self.recipe),
                Some(shards) => format!("{:?}, {} shards", self.recipe, shards.n_shards()),
            },
            images: self.images.to_string(),
            start: self.start.to_string(),
            n_steps: self.n_steps(),
        }
    }

    /// Returns the tensors of a checkpoint.
    fn named_values(&self) -> Vec<(String, &Tensor)> {
        let parameters = self.net.parameters().into_iter();
        let parameters = parameters.map(|(name, _)| format!("parameter.{name}"));
        let n_optimizer = self.steps.optimizer_state().len();
        let optimizer = (0..n_optimizer).map(|number| format!("optimizer.{number}"));
        let state = self.net.state_names().into_iter();
        let state = state.map(|name| format!("state.{name}"));
        let names = parameters.chain(optimizer).chain(state);
        names.zip(self.steps.values()).collect()
    }
}

/// Returns the values of a tensor before the first step.
pub(super) fn started(slot: &Slot, stream: Philox) -> Vec<f32> {
    let len = slot.shape.iter().product();
    match &slot.start {
        Start::Constant(number) => vec![*number; len],
        Start::Numbers(numbers) => numbers.clone(),
        Start::Normal { deviation } => {
            let mut numbers = vec![0.0; len];
            stream.fill_normal_f32(0, &mut numbers);
            numbers
                .into_iter()
                .map(|number| number * deviation)
                .collect()
        }
    }
}
