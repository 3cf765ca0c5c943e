//! A rung of a device: a function of tensors, compiled once and called again and again; inputs and result stay there.

use crate::record::Timer;
use crate::workload::{Contestant, Output, OutputElement};
use anyhow::{Context, Result, ensure};
use gpu_wgsl::Gpu;
use std::marker::PhantomData;
use std::time::Instant;
use tensor_core::{Compiled, Tensor, jit};

/// A compiled function with its arguments on a device, and what it gave last; elements of that are `T`.
#[derive(Debug)]
pub(crate) struct OnGpu<'a, T, F> {
    gpu: &'a Gpu,
    function: Compiled<F>,
    arguments: Vec<Tensor>,
    last: Option<Tensor>,
    element: PhantomData<T>,
}

/// What measures times on a device.
pub(crate) fn timer(gpu: &Gpu) -> Timer {
    match gpu.timer() {
        gpu_wgsl::Timer::InPass => Timer::GpuInPass,
        gpu_wgsl::Timer::PerPass => Timer::GpuPass,
        gpu_wgsl::Timer::WallClock => Timer::Wall,
    }
}

impl<'a, T, F> OnGpu<'a, T, F>
where
    T: OutputElement,
    F: Fn(&[Tensor]) -> tensor_core::Result<Vec<Tensor>>,
{
    pub(crate) fn new(gpu: &'a Gpu, arguments: &[Tensor], function: F) -> Result<Self> {
        let arguments = arguments.iter().map(|argument| argument.realize(gpu));
        let arguments = arguments.collect::<tensor_core::Result<_>>()?;
        // Uploads run with the next submission; the time of the start is theirs, so they must end here.
        gpu.finish()?;
        Ok(Self {
            gpu,
            function: jit(function),
            arguments,
            last: None,
            element: PhantomData,
        })
    }

    fn call(&self) -> Result<Tensor> {
        let arguments: Vec<&Tensor> = self.arguments.iter().collect();
        let results = self.function.call(self.gpu, &arguments)?;
        results.into_iter().next().context("no result")
    }

    /// The seconds that the steps of one call took on the device.
    fn run_once(&mut self) -> Result<f64> {
        let mut result = None;
        let timings = self.gpu.time(|| {
            result = Some(self.call());
            Ok(())
        })?;
        self.last = result.transpose()?;
        ensure!(!timings.is_empty(), "no step ran on the device");
        let seconds = timings.iter().map(|timing| timing.elapsed.as_secs_f64());
        Ok(seconds.sum())
    }
}

impl<T, F> Contestant for OnGpu<'_, T, F>
where
    T: OutputElement,
    F: Fn(&[Tensor]) -> tensor_core::Result<Vec<Tensor>>,
{
    fn run(&mut self, times: usize) -> Result<Vec<f64>> {
        (0..times).map(|_| self.run_once()).collect()
    }

    fn wall(&mut self, times: usize) -> Result<Option<Vec<f64>>> {
        let once = |_| {
            let start = Instant::now();
            let result = self.call()?;
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
        self.last = Some(self.call()?);
        self.gpu.finish()?;
        let (peak, after) = (self.gpu.pool().peak_bytes(), self.gpu.pool().live_bytes());
        let result = after.saturating_sub(before);
        Ok(Some(peak.saturating_sub(before + result)))
    }

    fn result(&mut self) -> Result<Output> {
        let result = self.last.as_ref().context("nothing was run yet")?;
        Ok(T::wrap(result.to_host::<T>()?.into_iter().collect()))
    }
}
