//! CPU profiles of workloads: sampled stacks while the host executor runs.
//!
//! Role: the option `--sample` of the bench command. No other run is sampled, and no result of
//! sampling enters a record.
//! Method: a timer signal interrupts the process [`FREQUENCY_HZ`] times per second of CPU time, on
//! whichever thread runs, and the stack of that thread is walked. Stacks are stored in folded form,
//! which flame-graph tools read: one line per distinct stack, with its functions from the outermost
//! to the innermost and its number of samples. The same work also runs without the sampler, in
//! turns, to measure the overhead of sampling.
//! Limits: Unix only, with at most one sample per tick of the kernel's clock. Inlined functions
//! have names only in builds with line tables, as `cargo xtask bench --sample` makes; otherwise
//! they count for the enclosing function. Code inside the C library is not sampled, because walking
//! a stack from there could wait for a lock that the interrupted thread holds.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::measure::{Ratio, Timing};
use crate::workload::{Implementation, Workload};
use charts::units;

/// Samples per second of CPU time; a prime, to avoid synchronizing with periodic work.
pub const FREQUENCY_HZ: i32 = 499;
/// Seconds for which the work runs under the sampler. The work also runs about as long without the
/// sampler.
pub const SAMPLED_S: f64 = 5.0;
/// Duration of a turn with or without the sampler, in seconds.
const TURN_S: f64 = 0.5;
/// Number of functions listed in a summary.
const N_FUNCTIONS: usize = 10;
/// Maximum length of a function name in the summary, in characters; the folded stacks contain the
/// full names.
const LONGEST_NAME: usize = 108;

/// Number of samples of each distinct stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks(BTreeMap<String, usize>);

/// Profile of a workload, and the overhead of sampling.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// Sampled stacks.
    pub stacks: Stacks,
    /// Median time of a run without the sampler, in seconds.
    pub median_s: f64,
    /// Time under the sampler divided by the time without.
    pub cost: Ratio,
}

impl Stacks {
    /// Adds `times` samples of a stack, given with the outermost function first.
    #[cfg(any(unix, test))]
    fn add(&mut self, functions: &[String], times: usize) {
        // A semicolon separates functions in the folded format; types such as `[f32; 4]` contain
        // one.
        let names = functions.iter().map(|name| name.replace(';', ","));
        let stack = names.collect::<Vec<_>>().join(";");
        *self.0.entry(stack).or_default() += times;
    }

    fn join(&mut self, other: Self) {
        for (stack, times) in other.0 {
            *self.0.entry(stack).or_default() += times;
        }
    }

    /// Returns the total number of samples.
    #[must_use]
    pub fn n_samples(&self) -> usize {
        self.0.values().sum()
    }

    /// Returns the folded stacks: one line `outermost;…;innermost times` per stack, in alphabetical
    /// order.
    #[must_use]
    pub fn folded(&self) -> String {
        let lines = self.0.iter();
        lines
            .map(|(stack, times)| format!("{stack} {times}\n"))
            .collect()
    }

    /// Returns each function that was innermost in a sample with its share of all samples, largest
    /// first.
    #[must_use]
    pub fn by_self_time(&self) -> Vec<(&str, f64)> {
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        for (stack, n) in &self.0 {
            let innermost = stack.rsplit(';').next().unwrap_or(stack);
            *times.entry(innermost).or_default() += n;
        }
        let mut times: Vec<(&str, usize)> = times.into_iter().collect();
        // The sort is stable, so functions with equal shares stay in alphabetical order.
        times.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
        let all = self.n_samples() as f64;
        times
            .into_iter()
            .map(|(name, n)| (name, n as f64 / all))
            .collect()
    }
}

impl Sampled {
    /// Returns a summary in a few lines: number of samples, overhead of sampling, and the functions
    /// with the largest self time.
    #[must_use]
    pub fn summary(&self) -> String {
        let interval = self.cost.interval.map_or(String::new(), |ends| {
            let [low, high] = ends.map(units::digits);
            format!(" ({low}–{high})")
        });
        let mut text = format!(
            "{} samples; median {}, under the sampler {} of this time{interval}\n",
            self.stacks.n_samples(),
            units::seconds(self.median_s),
            units::times(self.cost.median),
        );
        for (function, share) in self.stacks.by_self_time().iter().take(N_FUNCTIONS) {
            let name: String = function.chars().take(LONGEST_NAME).collect();
            text += &format!("{:>8}  {name}\n", units::percent(*share));
        }
        text
    }
}

/// Profiles the variant `host` of a workload; returns `None` if the workload has no such variant.
///
/// # Errors
/// The variant fails, its result is wrong before or after, or sampling is not supported on this
/// system.
pub fn sample_host(mut workload: Workload<'_>) -> Result<Option<Sampled>> {
    let mut variants = std::mem::take(&mut workload.variants).into_iter();
    let Some(host) = variants.find(|variant| variant.executor == "host") else {
        return Ok(None);
    };
    let part = host.extent.part;
    let mut contestant = (host.start)()?;
    contestant.run(1)?;
    (workload.check)(&contestant.result()?, part)?;
    let sampled = sample(contestant.as_mut(), SAMPLED_S)?;
    (workload.check)(&contestant.result()?, part).context("the result after sampling is wrong")?;
    Ok(Some(sampled))
}

/// Runs a contestant without and under the sampler in turns, until it has run under the sampler for
/// `seconds`.
fn sample(contestant: &mut dyn Implementation, seconds: f64) -> Result<Sampled> {
    let median = |times: &[f64]| {
        let timing = Timing::from_samples(times).context("a run reported no time")?;
        Ok::<_, anyhow::Error>(timing.median)
    };
    let mut stacks = Stacks::default();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut sampled_s = 0.0;
    while sampled_s < seconds {
        // Turns alternate, so that a drift of the machine's speed affects both sides.
        without.push(median(&runs_for(contestant, TURN_S)?)?);
        let clock = Instant::now();
        let (times, seen) = signals::sampled(|| {
            let times = runs_for(contestant, TURN_S);
            sampled_s += clock.elapsed().as_secs_f64();
            times
        })?;
        with.push(median(&times?)?);
        stacks.join(seen);
    }
    ensure!(
        stacks.n_samples() > 0,
        "sampling: no stack was sampled in {sampled_s} s"
    );
    Ok(Sampled {
        stacks,
        median_s: median(&without)?,
        cost: Ratio::from_pairs(&without, &with)
            .context("sampling: a run took no measurable time")?,
    })
}

/// Runs a contestant repeatedly for at least `seconds` and returns the seconds of each run.
fn runs_for(contestant: &mut dyn Implementation, seconds: f64) -> Result<Vec<f64>> {
    let clock = Instant::now();
    let mut times = contestant.run(1)?;
    while clock.elapsed().as_secs_f64() < seconds {
        times.extend(contestant.run(1)?);
    }
    Ok(times)
}

#[cfg(unix)]
mod signals {
    use super::{FREQUENCY_HZ, Stacks};
    use anyhow::{Context, Result};
    use pprof::{Frames, ProfilerGuardBuilder};

    /// Libraries whose frames are not walked, as the documentation of the sampler recommends.
    const NOT_WALKED: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

    /// Runs `work` under the sampler; returns its result and the stacks.
    pub(super) fn sampled<T>(work: impl FnOnce() -> T) -> Result<(T, Stacks)> {
        let sampler = ProfilerGuardBuilder::default()
            .frequency(FREQUENCY_HZ)
            .blocklist(&NOT_WALKED)
            .build()
            .context("sampling: cannot start the sampler")?;
        let output = work();
        let report = sampler.report().build();
        let report = report.context("sampling: cannot read the samples")?;
        let mut stacks = Stacks::default();
        for (frames, times) in &report.data {
            stacks.add(&functions(frames), usize::try_from(*times)?);
        }
        Ok((output, stacks))
    }

    /// Returns the functions of a stack, outermost first. A frame holds several symbols if
    /// functions were inlined into it.
    fn functions(frames: &Frames) -> Vec<String> {
        // The sampler lists the innermost frame first.
        let symbols = frames
            .frames
            .iter()
            .rev()
            .flat_map(|frame| frame.iter().rev());
        symbols.map(|symbol| symbol.name()).collect()
    }
}

#[cfg(not(unix))]
mod signals {
    use super::Stacks;
    use anyhow::{Result, bail};

    pub(super) fn sampled<T>(_work: impl FnOnce() -> T) -> Result<(T, Stacks)> {
        bail!("sampling: not supported on this system (requires Unix signals)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::on_cpu::OnCpu;
    use std::hint::black_box;

    fn stacks(seen: &[(&[&str], usize)]) -> Stacks {
        let mut stacks = Stacks::default();
        for (functions, times) in seen {
            let names: Vec<String> = functions.iter().map(|&name| name.to_owned()).collect();
            stacks.add(&names, *times);
        }
        stacks
    }

    #[test]
    fn stacks_are_folded_in_one_order() {
        let seen: [(&[&str], usize); 4] = [
            (&["main", "work"], 2),
            (&["main"], 1),
            (&["main", "work"], 3),
            (&["main", "of<[f32; 4]>"], 1),
        ];
        let forwards = stacks(&seen);
        assert_eq!(
            forwards.folded(),
            "main 1\nmain;of<[f32, 4]> 1\nmain;work 5\n"
        );
        let mut backwards = seen;
        backwards.reverse();
        assert_eq!(stacks(&backwards), forwards);
    }

    #[test]
    fn self_time_belongs_to_the_innermost_function() {
        let stacks = stacks(&[(&["a", "b"], 3), (&["b"], 3), (&["a"], 1), (&["c", "a"], 1)]);
        assert_eq!(stacks.n_samples(), 8);
        assert_eq!(stacks.by_self_time(), [("b", 0.75), ("a", 0.25)]);
        assert_eq!(Stacks::default().by_self_time(), []);
    }

    #[inline(never)]
    fn a_function_that_takes_long(result: &mut [f32]) {
        for idx in 0..3_000_000_u32 {
            result[0] = black_box(result[0] * 0.5 + idx as f32);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_function_that_takes_long_is_found_by_name() {
        let mut contestant = OnCpu::new(1, |result: &mut Vec<f32>| {
            result.resize(1, 0.0);
            a_function_that_takes_long(result);
            Ok(())
        });
        let sampled = sample(&mut contestant, 0.4).unwrap();
        // Other tests run on other threads at the same time and are sampled, too.
        let folded = sampled.stacks.folded();
        assert!(folded.contains("a_function_that_takes_long"), "{folded}");
        assert!(sampled.median_s > 0.0 && sampled.cost.n == 1);
    }

    #[cfg(not(unix))]
    #[test]
    fn where_there_are_no_signals_it_says_so() {
        let mut contestant = OnCpu::new(1, |_: &mut Vec<f32>| Ok(()));
        // With a duration of 0, no turn is taken.
        let error = sample(&mut contestant, 0.4).unwrap_err();
        assert!(error.to_string().contains("Unix"), "{error}");
    }
}
