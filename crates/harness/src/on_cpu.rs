//! A variant on this machine's CPU: a function that fills a result, timed by the host's clock.

use crate::implementation::{Implementation, Output, OutputElement};
use crate::memory;
use anyhow::Result;
use std::hint::black_box;
use std::time::Instant;
use tensor_core::compare::sentinel_filled;

/// A function and the buffer that it fills.
#[derive(Debug)]
pub(crate) struct OnCpu<T, F> {
    work: F,
    result: Vec<T>,
}

impl<T: OutputElement, F: FnMut(&mut Vec<T>) -> Result<()>> OnCpu<T, F> {
    pub(crate) fn new(len: usize, work: F) -> Self {
        Self {
            work,
            result: sentinel_filled(len),
        }
    }

    fn run_once(&mut self) -> Result<f64> {
        let start = Instant::now();
        (self.work)(&mut self.result)?;
        let elapsed = start.elapsed().as_secs_f64();
        black_box(&self.result);
        Ok(elapsed)
    }
}

impl<T: OutputElement, F: FnMut(&mut Vec<T>) -> Result<()>> Implementation for OnCpu<T, F> {
    fn run(&mut self, times: usize) -> Result<Vec<f64>> {
        (0..times).map(|_| self.run_once()).collect()
    }

    fn peak_extra_bytes(&mut self) -> Result<Option<u64>> {
        let place = self.result.as_ptr();
        let (ran, mut peak) = memory::peak_extra_bytes(|| self.run_once());
        ran?;
        // If the work allocates a new result, the previous one is still held meanwhile. The new one
        // is the result, not extra memory, so its size is subtracted.
        if self.result.as_ptr() != place {
            peak = peak.saturating_sub(size_of_val(&self.result[..]));
        }
        Ok(Some(u64::try_from(peak)?))
    }

    fn result(&mut self) -> Result<Output> {
        Ok(T::wrap(self.result.clone()))
    }
}
