//! A variant on a GPU: a function that is called repeatedly, with inputs and results in device
//! memory.

use crate::implementation::{Implementation, Output, OutputElement};
use crate::record::{NotRun, Timer};
use anyhow::{Context, Result, ensure};
use gpu_wgsl::{Buffer, DeviceType, Gpu};
use std::marker::PhantomData;
use std::time::Instant;
use tensor_core::{Tensor, jit};

/// A result in device memory.
pub trait DeviceResult {
    /// Copies the result to the host.
    ///
    /// # Errors
    /// The device cannot be read.
    fn read(&self, gpu: &Gpu) -> Result<Output>;
}

/// A tensor with elements of type `T`.
pub(crate) struct Typed<T> {
    tensor: Tensor,
    element: PhantomData<T>,
}

impl<T: OutputElement> DeviceResult for Typed<T> {
    fn read(&self, _gpu: &Gpu) -> Result<Output> {
        Ok(T::wrap(self.tensor.to_host::<T>()?.into_iter().collect()))
    }
}

impl DeviceResult for Buffer<f32> {
    fn read(&self, gpu: &Gpu) -> Result<Output> {
        Ok(Output::F32(gpu.read(self)?))
    }
}

/// A function to call, with its last result.
#[derive(Debug)]
pub(crate) struct OnGpu<'a, R, F> {
    gpu: &'a Gpu,
    call: F,
    last: Option<R>,
}

/// Returns the kind of clock that measures times on a device.
pub(crate) fn timer(gpu: &Gpu) -> Timer {
    match gpu.timer() {
        gpu_wgsl::Timer::InPass => Timer::GpuInPass,
        gpu_wgsl::Timer::PerPass => Timer::GpuPass,
        gpu_wgsl::Timer::WallClock => Timer::Wall,
    }
}

/// Returns the hardware devices, and an entry for each software driver. Software drivers are left
/// out because they compute on the CPU; `why` is the reason shown to the user.
#[must_use]
pub fn hardware<'a>(gpus: &'a [Gpu], why: &str) -> (Vec<&'a Gpu>, Vec<NotRun>) {
    let is_hardware = |gpu: &&Gpu| gpu.adapter().device_type != DeviceType::Cpu;
    let (hardware, software): (Vec<&Gpu>, Vec<&Gpu>) = gpus.iter().partition(is_hardware);
    let left_out = |gpu: &Gpu| NotRun {
        what: format!("wgsl on {}", gpu.adapter().name),
        why: why.to_owned(),
        how: "a machine with a GPU".to_owned(),
    };
    (hardware, software.into_iter().map(left_out).collect())
}

/// Uploads the arguments to the device, and returns a closure that calls a function of tensors with
/// these arguments. The first call of the closure compiles the function.
pub(crate) fn compiled<T>(
    gpu: &Gpu,
    arguments: Vec<Tensor>,
    function: impl Fn(&[Tensor]) -> tensor_core::Result<Vec<Tensor>>,
) -> Result<impl Fn() -> Result<Typed<T>>> {
    let arguments = arguments.into_iter().map(|argument| argument.realize(gpu));
    let arguments = arguments.collect::<tensor_core::Result<Vec<_>>>()?;
    let function = jit(function);
    Ok(move || {
        let arguments: Vec<&Tensor> = arguments.iter().collect();
        let results = function.call(gpu, &arguments)?;
        Ok(Typed {
            tensor: results.into_iter().next().context("no result")?,
            element: PhantomData,
        })
    })
}

impl<'a, R: DeviceResult, F: Fn() -> Result<R>> OnGpu<'a, R, F> {
    /// Creates the variant of a function whose inputs are being uploaded to the device, and waits
    /// until the uploads are complete.
    pub(crate) fn new(gpu: &'a Gpu, call: F) -> Result<Self> {
        // Uploads are executed with the next submission. Waiting here counts their time as upload
        // time.
        gpu.finish()?;
        Ok(Self {
            gpu,
            call,
            last: None,
        })
    }

    /// Calls the function once and returns the seconds that its kernels took on the device.
    fn run_once(&mut self) -> Result<f64> {
        let mut result = None;
        let timings = self.gpu.time(|| {
            result = Some((self.call)());
            Ok(())
        })?;
        self.last = result.transpose()?;
        ensure!(!timings.is_empty(), "no step ran on the device");
        let seconds = timings.iter().map(|timing| timing.elapsed.as_secs_f64());
        Ok(seconds.sum())
    }
}

impl<R: DeviceResult, F: Fn() -> Result<R>> Implementation for OnGpu<'_, R, F> {
    fn run(&mut self, times: usize) -> Result<Vec<f64>> {
        (0..times).map(|_| self.run_once()).collect()
    }

    fn wall(&mut self, times: usize) -> Result<Option<Vec<f64>>> {
        let once = |_| {
            let start = Instant::now();
            let result = (self.call)()?;
            self.gpu.finish()?;
            let elapsed = start.elapsed().as_secs_f64();
            self.last = Some(result);
            Ok(elapsed)
        };
        (0..times).map(once).collect::<Result<_>>().map(Some)
    }

    fn peak_extra_bytes(&mut self) -> Result<Option<u64>> {
        self.last = None;
        self.gpu.reset_peak();
        let before = self.gpu.pool().live_bytes();
        self.last = Some((self.call)()?);
        self.gpu.finish()?;
        let (peak, after) = (self.gpu.pool().peak_bytes(), self.gpu.pool().live_bytes());
        let result = after.saturating_sub(before);
        Ok(Some(peak.saturating_sub(before + result)))
    }

    fn result(&mut self) -> Result<Output> {
        let result = self
            .last
            .as_ref()
            .context("no result before the first run")?;
        result.read(self.gpu)
    }
}
