//! A variant on the host executor: a function of tensors, compiled once and called repeatedly.

use crate::implementation::{Implementation, Output, OutputElement};
use crate::memory;
use anyhow::{Context, Result};
use std::marker::PhantomData;
use std::time::Instant;
use tensor_core::{Compiled, Host, Tensor, jit};

/// A compiled function with its arguments and its last result, whose elements are `T`.
#[derive(Debug)]
pub(crate) struct OnHost<T, F> {
    function: Compiled<F>,
    host: Host,
    arguments: Vec<Tensor>,
    last: Option<Tensor>,
    element: PhantomData<T>,
}

impl<T, F> OnHost<T, F>
where
    T: OutputElement,
    F: Fn(&[Tensor]) -> tensor_core::Result<Vec<Tensor>>,
{
    pub(crate) fn new(arguments: Vec<Tensor>, function: F) -> Self {
        Self {
            function: jit(function),
            host: Host::new(),
            arguments,
            last: None,
            element: PhantomData,
        }
    }

    fn run_once(&mut self) -> Result<f64> {
        let arguments: Vec<&Tensor> = self.arguments.iter().collect();
        let start = Instant::now();
        let result = self.function.call(&self.host, &arguments)?.pop();
        let elapsed = start.elapsed().as_secs_f64();
        // The previous result is freed here, outside the measured time, as for rivals.
        self.last = result;
        Ok(elapsed)
    }
}

impl<T, F> Implementation for OnHost<T, F>
where
    T: OutputElement,
    F: Fn(&[Tensor]) -> tensor_core::Result<Vec<Tensor>>,
{
    fn run(&mut self, times: usize) -> Result<Vec<f64>> {
        (0..times).map(|_| self.run_once()).collect()
    }

    fn peak_extra_bytes(&mut self) -> Result<Option<u64>> {
        // Memory in the executor's cache would be reused without being counted, so clear the cache
        // first.
        self.last = None;
        self.host.clear_cache();
        let (ran, peak) = memory::peak_extra_bytes(|| self.run_once());
        ran?;
        let result = self.last.as_ref().context("no result")?;
        let bytes = result.shape()?.iter().product::<usize>() * size_of::<T>();
        Ok(Some(u64::try_from(peak.saturating_sub(bytes))?))
    }

    fn result(&mut self) -> Result<Output> {
        let result = self
            .last
            .as_ref()
            .context("no result before the first run")?;
        Ok(T::wrap(result.to_host::<T>()?.into_iter().collect()))
    }
}
