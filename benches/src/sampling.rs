//! Where a workload spends its time: samples of its stacks while the host executor runs it.
//!
//! Role: the option `--sample` of the bench command; no other run starts it, and what it measures enters no record.
//! Method: a timer signal stops the process [`FREQUENCY_HZ`] times in each second of CPU time, on whichever thread runs, and the
//! stack there is walked. Stacks are folded: one line for each that was seen, its functions from the outermost to the innermost
//! and how often it was seen, which is what tools for flame graphs read. The same work runs without the sampler in turns,
//! so what sampling costs is told beside what it found.
//! Limits: Unix only, and no more samples than the kernel's clock ticks. Functions that the compiler inlined have names where the
//! build holds line tables, as that of `cargo xtask bench --sample` does; else they count for the function around them.
//! What happens inside the C library is not seen: walking a stack from there could wait for a lock that the stopped
//! thread holds.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::measure::{Ratio, Timing};
use crate::units;
use crate::workload::{Contestant, Workload};

/// Samples in a second of CPU time; a prime, so as not to keep step with anything that repeats.
pub const FREQUENCY_HZ: i32 = 499;
/// How long the work runs under the sampler, and as long without, in seconds.
pub const SAMPLED_S: f64 = 5.0;
/// A turn with or without the sampler, in seconds.
const TURN_S: f64 = 0.5;
/// Functions that a summary names.
const N_FUNCTIONS: usize = 10;
/// Letters of a function's name that it shows, which may hold whole types; the folded stacks have them all.
const LONGEST_NAME: usize = 108;

/// How often each stack was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks(BTreeMap<String, usize>);

/// What sampling a workload found, and what it cost.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// The stacks.
    pub stacks: Stacks,
    /// Median time of a run without the sampler, in seconds.
    pub median_s: f64,
    /// Time under the sampler over that without.
    pub cost: Ratio,
}

impl Stacks {
    /// Adds a stack, outermost function first, that was seen so many times.
    fn add(&mut self, functions: &[String], times: usize) {
        // Separators of the format; a type such as `[f32; 4]` may hold one.
        let names = functions.iter().map(|name| name.replace(';', ","));
        let stack = names.collect::<Vec<_>>().join(";");
        *self.0.entry(stack).or_default() += times;
    }

    fn join(&mut self, other: Self) {
        for (stack, times) in other.0 {
            *self.0.entry(stack).or_default() += times;
        }
    }

    /// Gives the number of samples.
    #[must_use]
    pub fn n_samples(&self) -> usize {
        self.0.values().sum()
    }

    /// Gives one line for each stack, `outermost;…;innermost times`, in the order of their text.
    #[must_use]
    pub fn folded(&self) -> String {
        let lines = self.0.iter();
        lines
            .map(|(stack, times)| format!("{stack} {times}\n"))
            .collect()
    }

    /// Gives each function that a sample found at work, with the share of samples that did, largest first.
    #[must_use]
    pub fn by_self_time(&self) -> Vec<(&str, f64)> {
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        for (stack, n) in &self.0 {
            let innermost = stack.rsplit(';').next().unwrap_or(stack);
            *times.entry(innermost).or_default() += n;
        }
        let mut times: Vec<(&str, usize)> = times.into_iter().collect();
        // Functions of one share keep the order of their names.
        times.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
        let all = self.n_samples() as f64;
        times
            .into_iter()
            .map(|(name, n)| (name, n as f64 / all))
            .collect()
    }
}

impl Sampled {
    /// Says in some lines what was found: the functions that took most time themselves, and what the sampler cost.
    #[must_use]
    pub fn summary(&self) -> String {
        let interval = self.cost.interval().map_or(String::new(), |ends| {
            let [low, high] = ends.map(units::digits);
            format!(" ({low}–{high})")
        });
        let mut text = format!(
            "{} samples; median {}, while sampled {} of that{interval}\n",
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

/// Samples the rung `host` of a workload; nothing if it has none.
///
/// # Errors
/// The rung fails, its result is wrong before or after, or this system cannot sample.
pub fn sample_host(mut workload: Workload<'_>) -> Result<Option<Sampled>> {
    let mut rungs = std::mem::take(&mut workload.rungs).into_iter();
    let Some(host) = rungs.find(|rung| rung.executor == "host") else {
        return Ok(None);
    };
    let part = host.extent.part;
    let mut contestant = (host.start)()?;
    contestant.run(1)?;
    (workload.check)(&contestant.result()?, part)?;
    let sampled = sample(contestant.as_mut(), SAMPLED_S)?;
    (workload.check)(&contestant.result()?, part).context("after it was sampled")?;
    Ok(Some(sampled))
}

/// Lets a contestant run without and under the sampler in turns, until it was under it for `seconds`.
fn sample(contestant: &mut dyn Contestant, seconds: f64) -> Result<Sampled> {
    let median = |times: &[f64]| {
        let timing = Timing::from_samples(times).context("a run told no time")?;
        Ok::<_, anyhow::Error>(timing.median)
    };
    let mut stacks = Stacks::default();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut sampled_s = 0.0;
    while sampled_s < seconds {
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
        "sampling saw no stack in {sampled_s} s"
    );
    Ok(Sampled {
        stacks,
        median_s: median(&without)?,
        cost: Ratio::from_pairs(&without, &with).context("a run took no time")?,
    })
}

/// Runs a contestant again and again until so many seconds are over; gives the times.
fn runs_for(contestant: &mut dyn Contestant, seconds: f64) -> Result<Vec<f64>> {
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

    /// Libraries in which a stack is not walked, as the sampler's authors advise.
    const NOT_WALKED: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

    /// Does the work under the sampler; gives what it gave, and the stacks.
    pub(super) fn sampled<T>(work: impl FnOnce() -> T) -> Result<(T, Stacks)> {
        let sampler = ProfilerGuardBuilder::default()
            .frequency(FREQUENCY_HZ)
            .blocklist(&NOT_WALKED)
            .build()
            .context("sampling could not be started")?;
        let output = work();
        let report = sampler.report().build();
        let report = report.context("samples could not be read")?;
        let mut stacks = Stacks::default();
        for (frames, times) in &report.data {
            stacks.add(&functions(frames), usize::try_from(*times)?);
        }
        Ok((output, stacks))
    }

    /// Gives the functions of a stack, outermost first.
    fn functions(frames: &Frames) -> Vec<String> {
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
        bail!("sampling needs the signals of a Unix system")
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
        // Tests beside it run on other threads and are sampled too.
        let folded = sampled.stacks.folded();
        assert!(folded.contains("a_function_that_takes_long"), "{folded}");
        assert!(sampled.median_s > 0.0 && sampled.cost.n == 1);
    }

    #[cfg(not(unix))]
    #[test]
    fn where_there_are_no_signals_it_says_so() {
        let mut contestant = OnCpu::new(1, |_: &mut Vec<f32>| Ok(()));
        let error = sample(&mut contestant, 0.0).unwrap_err();
        assert!(error.to_string().contains("Unix"), "{error}");
    }
}
