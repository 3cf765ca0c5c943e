//! A variant on this machine's CPU in three stages, of which only the second is timed: start, work,
//! judge.
//!
//! Role: for work whose result is expensive to evaluate, such as the distance of a strategy from an
//! equilibrium. Every run starts from scratch, so all runs end in the same state.

use crate::implementation::{Implementation, Output, OutputElement};
use anyhow::{Context, Result};
use std::hint::black_box;
use std::marker::PhantomData;
use std::time::Instant;

/// The functions of the three stages, and the final state of the last run.
#[derive(Debug)]
pub(crate) struct Staged<S, T, A, W, J> {
    start: A,
    work: W,
    judge: J,
    last: Option<S>,
    element: PhantomData<T>,
}

impl<S, T, A, W, J> Staged<S, T, A, W, J>
where
    A: Fn() -> Result<S>,
    W: Fn(&mut S) -> Result<()>,
{
    pub(crate) fn new(start: A, work: W, judge: J) -> Self {
        Self {
            start,
            work,
            judge,
            last: None,
            element: PhantomData,
        }
    }

    fn run_once(&mut self) -> Result<f64> {
        let mut state = (self.start)()?;
        let begin = Instant::now();
        (self.work)(&mut state)?;
        let elapsed = begin.elapsed().as_secs_f64();
        self.last = Some(black_box(state));
        Ok(elapsed)
    }
}

impl<S, T, A, W, J> Implementation for Staged<S, T, A, W, J>
where
    T: OutputElement,
    A: Fn() -> Result<S>,
    W: Fn(&mut S) -> Result<()>,
    J: Fn(&S) -> Result<Vec<T>>,
{
    fn run(&mut self, times: usize) -> Result<Vec<f64>> {
        (0..times).map(|_| self.run_once()).collect()
    }

    fn result(&mut self) -> Result<Output> {
        let last = self
            .last
            .as_ref()
            .context("no result before the first run")?;
        Ok(T::wrap((self.judge)(last)?))
    }
}
