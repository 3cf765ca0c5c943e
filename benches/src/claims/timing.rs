//! Ratios of times for claims about speed.
//!
//! Role: the only place of the ledger that reads a clock.
//! Method: the two sides run in turns, and the median of the ratios within rounds is returned, as
//! for the rivals of a workload ([`Ratio`]). The claims compare the ratio with 1; their margins are
//! larger than the disturbance of a busy machine, and they count work instead wherever it suffices.

use anyhow::{Context, Result};
use harness::measure::{self, Ratio};
use tensor_core::{Host, Tensor, jit};

/// Number of rounds; odd, so that the median is one of the ratios.
const ROUNDS: usize = 15;
/// Number of later calls per round, whose mean time is compared with that of the first call.
const LATER_CALLS: u32 = 50;

/// Returns the time of `ours` divided by the time of `theirs`, after one run of each.
pub(super) fn ratio<A, B>(
    mut ours: impl FnMut() -> Result<A>,
    mut theirs: impl FnMut() -> Result<B>,
) -> Result<f64> {
    ours()?;
    theirs()?;
    median((0..ROUNDS).map(|_| Ok([seconds(&mut ours)?, seconds(&mut theirs)?])))
}

/// Returns the mean time of later calls of a compiled function, divided by the time of the first
/// call, which compiles it. Every round begins with empty caches.
pub(super) fn later_by_first(
    function: fn(&[Tensor]) -> tensor_core::Result<Vec<Tensor>>,
    arguments: &[&Tensor],
) -> Result<f64> {
    median((0..ROUNDS).map(|_| {
        let (host, compiled) = (Host::new(), jit(function));
        let mut call = || Ok(compiled.call(&host, arguments)?);
        let first = seconds(&mut call)?;
        let later = seconds(&mut || (0..LATER_CALLS).try_for_each(|_| call().map(drop)))?;
        Ok([later / f64::from(LATER_CALLS), first])
    }))
}

/// Returns the median of the ratios of the first to the second time of each round.
fn median(rounds: impl Iterator<Item = Result<[f64; 2]>>) -> Result<f64> {
    let rounds: Vec<[f64; 2]> = rounds.collect::<Result<_>>()?;
    let side = |i: usize| rounds.iter().map(|round| round[i]).collect::<Vec<_>>();
    let ratio = Ratio::from_pairs(&side(1), &side(0)).context("a run took no measurable time")?;
    Ok(ratio.median)
}

fn seconds<T>(work: &mut impl FnMut() -> Result<T>) -> Result<f64> {
    let mut result = None;
    let elapsed = measure::wall(|| result = Some(work()));
    result.context("the work did not run")??;
    Ok(elapsed)
}
