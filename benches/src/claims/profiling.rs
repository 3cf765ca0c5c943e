//! Claims of the lecture on Python performance about measuring: profilers, memory by line, and the
//! timing of code.
//!
//! Method: the techniques of profilers are those of `tensor_core::profile`, whose tables count and
//! whose spans are a trace; samples are taken from spans. Numbers of the lecture's printed profiles
//! are computed from the numbers next to them, or on the same net.
//! Limits: times and numbers of calls of Python's own functions have no counterpart here.

use super::{Claim, Correction, Reading, Verdict, timing};
use crate::training::layer::{self, Layer};
use crate::workloads::two_layer_net;
use anyhow::{Context, Result};
use harness::program::InputDistribution;
use std::hint::black_box;
use std::sync::Arc;
use tensor_core::plan::Plan;
use tensor_core::profile::{By, Column, Profile, Profiler, Row, Span};
use tensor_core::{Eager, Executor, Host, Tensor, grad, jit};

/// Number of elements whose sum takes less time than the recording of a call.
const SMALL: usize = 8;
/// Number of elements whose sum takes far more time than the recording of a call.
const MEDIUM: usize = 1 << 16;
const MIB: f64 = (1 << 20) as f64;

/// Times of the lecture's runs of `timeit`, in ms, each of [`LOOPS`] products.
const COMMAND_MS: [f64; 5] = [210.0, 217.0, 184.0, 199.0, 211.0];
const MODULE_MS: [f64; 10] = [
    209.0, 228.0, 183.0, 170.0, 179.0, 174.0, 211.0, 191.0, 170.0, 169.0,
];
const LOOPS: f64 = 20.0;
/// Memory before the lecture's training, and the increment of each line, in MiB.
const MEMORY_MIB: [f64; 6] = [85.031, 2.184, 0.047, 0.164, 3.242, 0.574];
/// Calls and total seconds of four rows of the lecture's profile.
const PROFILE: [(u64, f64); 4] = [(500, 0.249), (1000, 0.189), (27, 0.081), (3, 0.026)];

/// Duration of an iteration of the sampled program, and of its first part, in ns.
const ITERATION_NS: u64 = 10_000;
const FIRST_PART_NS: u64 = 7_000;
/// Number of iterations of the sampled program.
const ITERATIONS: u64 = 1000;
/// Time between samples that is a multiple of an iteration, and another, in ns.
const IN_STEP_NS: u64 = 100_000;
const OUT_OF_STEP_NS: u64 = 99_700;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "s2.profile.counting",
        claim: "counts of events are deterministic: number of different counts in the profiles of two runs",
        claimed: &[0.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let counts = |profile: &Profile| {
                let table = profile.table(By::Op, Column::Calls);
                let mut rows: Vec<_> = table.rows.into_iter().map(counted).collect();
                rows.sort();
                rows
            };
            let (one, two) = (counts(&profiled(1)?), counts(&profiled(1)?));
            let n_different = one.iter().zip(&two).filter(|(a, b)| a != b).count();
            Ok(Some(vec![
                (n_different + one.len().abs_diff(two.len())) as f64,
            ]))
        },
    },
    Claim {
        id: "s2.profile.tracing",
        claim: "a trace has the time of every event, from which the relative times follow: number of counted steps without a span, \
            and sum of the relative times",
        claimed: &[0.0, 1.0],
        reading: Reading::Printed(6),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let profile = profiled(10)?;
            let table = profile.table(By::Step, Column::Time);
            let n_counted: u64 = table.rows.iter().map(|row| row.calls).sum();
            let times = table.rows.iter().map(|row| row.time_ns as f64);
            // All spans but those of runs and transfers are steps.
            let others = profile.table(By::Span, Column::Time).rows;
            let is_step = |span: &Span| others.iter().all(|row| row.name != *span.name);
            let n_traced = profile.spans().filter(is_step).count();
            Ok(Some(vec![
                n_counted as f64 - n_traced as f64,
                times.sum::<f64>() / table.total_ns as f64,
            ]))
        },
    },
    Claim {
        id: "s2.profile.sampling",
        claim: "samples at regular intervals infer the relative time of each part of a program: share of a part that takes 7 of \
            every 10 µs, from samples every 100 µs",
        claimed: &[0.7],
        reading: Reading::Printed(1),
        correction: Some(Correction {
            claim: "only if the interval is not in step with the program: share from samples every 99.7 µs",
            verdict: Verdict::HoldsWithCorrection,
            claimed: &[0.7],
            reading: Reading::Printed(1),
            measure: || Ok(Some(vec![sampled_share(OUT_OF_STEP_NS)?])),
        }),
        expected: Verdict::HoldsWithCorrection,
        measure: || Ok(Some(vec![sampled_share(IN_STEP_NS)?])),
    },
    Claim {
        id: "s2.profile.footprint",
        claim: "counting needs memory for each kind of event, tracing for each event: growth of the number of counters and of \
            spans from 10 runs of a program to 100",
        claimed: &[1.0, 10.0],
        reading: Reading::Printed(2),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let sizes = |n_runs| {
                let profile = profiled(n_runs)?;
                let n_counters = profile.table(By::Step, Column::Calls).rows.len();
                anyhow::Ok([n_counters, profile.spans().count()].map(|n| n as f64))
            };
            let (few, many) = (sizes(10)?, sizes(100)?);
            Ok(Some(vec![many[0] / few[0], many[1] / few[1]]))
        },
    },
    Claim {
        id: "s2.profile.overhead",
        claim: "profiling introduces overhead: time of calls that add 8 numbers, divided by the time with a recorded span for each \
            call",
        claimed: &[1.0],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || Ok(Some(vec![1.0 / overhead(SMALL, 1000)?])),
    },
    Claim {
        id: "s2.profile.distortion",
        claim: "a profiler affects the parts of an application in different ways: factor on the time of calls that add 65,536 \
            numbers, divided by the factor on calls that add 8",
        claimed: &[1.0],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || Ok(Some(vec![overhead(MEDIUM, 10)? / overhead(SMALL, 1000)?])),
    },
    Claim {
        id: "s2.profile.per-call",
        claim: "the profile's column per call is the total time divided by the number of calls: s per call in four rows",
        claimed: &[0.0, 0.0, 0.003, 0.009],
        reading: Reading::Printed(3),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let per_call = |(calls, seconds): (u64, f64)| seconds / calls as f64;
            Ok(Some(PROFILE.map(per_call).to_vec()))
        },
    },
    Claim {
        id: "s2.net.calls",
        claim: "500 steps of the net 64-1000-100-10 have 500 backward passes, 1000 products in the forward pass, and 2000 scaled \
            updates",
        claimed: &[500.0, 1000.0, 2000.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (host, net) = (Host::new(), Net::new());
            let step = jit(train);
            let mut parameters = net.parameters.clone();
            let mut n_updates = 0;
            for _ in 0..two_layer_net::STEPS {
                let arguments: Vec<&Tensor> = net.batch.iter().chain(&parameters).collect();
                parameters = step.call(&host, &arguments)?;
                n_updates += parameters.len();
            }
            let counters = step.counters();
            let (forward, _) = Plan::new(&[&net.outputs()], &host.target())?;
            let products = forward
                .steps
                .iter()
                .filter(|step| step.nest.contract.is_some());
            let n_products = products.count();
            let n_steps = counters.hits + counters.misses;
            Ok(Some(vec![
                n_steps as f64,
                (n_steps * n_products as u64) as f64,
                n_updates as f64,
            ]))
        },
    },
    Claim {
        id: "s2.memory.sum",
        claim: "the increments of all lines add up to the memory after the training, 91.242 MiB",
        claimed: &[91.242],
        reading: Reading::Printed(3),
        correction: None,
        expected: Verdict::Holds,
        measure: || Ok(Some(vec![MEMORY_MIB.iter().sum()])),
    },
    Claim {
        id: "s2.memory.lines",
        claim: "the lines of the forward pass, the loss and the backward pass of the net need 2.184, 0.047 and 3.242 MiB: MiB of \
            the arrays of each line",
        claimed: &[2.184, 0.047, 3.242],
        reading: Reading::Printed(3),
        correction: Some(Correction {
            claim: "the increments are growths of the process at its first step; the arrays of the three lines are smaller: MiB of each",
            verdict: Verdict::DoesNotHold,
            claimed: &[0.078, 0.005, 0.386],
            reading: Reading::Printed(3),
            measure: memory_of_lines,
        }),
        expected: Verdict::DoesNotHold,
        measure: memory_of_lines,
    },
    Claim {
        id: "s2.memory.reuse",
        claim: "allocations in critical paths can be avoided by reuse of memory: allocations per step in steps 3 to 20 of the \
            training",
        claimed: &[1.0],
        reading: Reading::Below,
        correction: None,
        expected: Verdict::Holds,
        measure: || {
            let (host, net) = (Host::new(), Net::new());
            let step = jit(train);
            let mut parameters = net.parameters.clone();
            let mut counts = vec![];
            for _ in 0..20 {
                let arguments: Vec<&Tensor> = net.batch.iter().chain(&parameters).collect();
                parameters = step.call(&host, &arguments)?;
                counts.push(host.n_allocations());
            }
            let after_two = counts.get(1).context("no second step")?;
            let last = counts.last().context("no step")?;
            Ok(Some(vec![
                (last - after_two) as f64 / (counts.len() - 2) as f64,
            ]))
        },
    },
    Claim {
        id: "s2.timeit.command",
        claim: "the best of 5 runs of 20 products takes 9.19 ms per product: ms from the printed times, which are rounded to 1 ms",
        claimed: &[9.19],
        reading: Reading::Printed(1),
        correction: None,
        expected: Verdict::Holds,
        measure: || Ok(Some(vec![best(&COMMAND_MS) / LOOPS])),
    },
    Claim {
        id: "s2.timeit.module",
        claim: "the best of 10 runs of 20 products takes 8 ms per product: ms from the printed times",
        claimed: &[8.0],
        reading: Reading::Printed(0),
        correction: None,
        expected: Verdict::Holds,
        measure: || Ok(Some(vec![best(&MODULE_MS) / LOOPS])),
    },
];

/// The lecture's net with the weights that its training starts from.
struct Net {
    /// Inputs and targets.
    batch: [Tensor; 2],
    parameters: Vec<Tensor>,
}

impl Net {
    fn new() -> Self {
        let [batch, inputs, _, outputs] = two_layer_net::SIDES;
        let draw = |shape: &[usize], stream, scale: f32| {
            let elements = InputDistribution::Centred.draw(shape.iter().product(), stream);
            let elements = elements.into_iter().map(|x| x * scale).collect();
            Tensor::from_vec(shape, elements)
        };
        let layers = layers();
        let parameters = layers.iter().flat_map(Layer::parameters).zip(2..);
        Self {
            batch: [
                draw(&[batch, inputs], 0, 1.0),
                draw(&[batch, outputs], 1, 1.0),
            ],
            parameters: parameters
                .map(|((shape, scale), stream)| draw(&shape, stream, scale))
                .collect(),
        }
    }

    fn outputs(&self) -> Tensor {
        layer::outputs(&layers(), &self.parameters, &self.batch[0])
    }
}

fn layers() -> [Layer; 3] {
    two_layer_net::layers(two_layer_net::SIDES)
}

/// Computes the parameters after one step from inputs, targets and parameters.
fn train(arguments: &[Tensor]) -> tensor_core::Result<Vec<Tensor>> {
    let (batch, parameters) = arguments.split_at(2);
    let outputs = layer::outputs(&layers(), parameters, &batch[0]);
    let loss = (outputs - &batch[1]).square().sum(..);
    let gradients = grad(&loss, &parameters.iter().collect::<Vec<_>>())?;
    let updates = parameters.iter().zip(gradients);
    Ok(updates
        .map(|(parameter, gradient)| parameter - gradient * two_layer_net::RATE)
        .collect())
}

/// Returns the MiB of the arrays that forward pass, loss and backward pass leave in memory, one
/// operation after the other.
fn memory_of_lines() -> Result<Option<Vec<f64>>> {
    let (host, net) = (Host::new(), Net::new());
    Eager::new(host.clone()).run(|| {
        let outputs = net.outputs();
        let forward = host.live_bytes();
        let loss = (outputs - &net.batch[1]).square().sum(..);
        let with_loss = host.live_bytes();
        let _gradients = grad(&loss, &net.parameters.iter().collect::<Vec<_>>())?;
        let bytes = [forward, with_loss - forward, host.live_bytes() - with_loss];
        Ok(Some(bytes.map(|bytes| bytes as f64 / MIB).to_vec()))
    })
}

/// Returns the profile of `n_runs` runs of a program with several steps.
fn profiled(n_runs: usize) -> Result<Profile> {
    let (host, net) = (Host::new(), Net::new());
    let profiler = Profiler::new(&host);
    let step = jit(train);
    let arguments: Vec<&Tensor> = net.batch.iter().chain(&net.parameters).collect();
    for _ in 0..n_runs {
        step.call(&profiler, &arguments)?;
    }
    Ok(profiler.profile())
}

/// Returns what a row counts, without its times. Operations are whole numbers.
fn counted(row: Row) -> (String, u64, u64, u64, String) {
    let operations = row.operations.to_string();
    (
        row.name,
        row.calls,
        row.bytes_read,
        row.bytes_written,
        operations,
    )
}

/// Returns the share of samples, taken at regular intervals, that hit the first part of a program
/// whose two parts alternate.
fn sampled_share(interval_ns: u64) -> Result<f64> {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let parts: [Arc<str>; 2] = ["first", "second"].map(Arc::from);
    for start_ns in (0..ITERATIONS).map(|i| i * ITERATION_NS) {
        let middle_ns = start_ns + FIRST_PART_NS;
        let times = [(start_ns, middle_ns), (middle_ns, start_ns + ITERATION_NS)];
        for (name, (start_ns, end_ns)) in parts.iter().zip(times) {
            let span = Span {
                name: Arc::clone(name),
                track: "program".into(),
                start_ns,
                end_ns,
                parent: None,
                args: vec![],
            };
            profiler.record(span).context("no space for a span")?;
        }
    }
    let profile = profiler.profile();
    let spans: Vec<Span> = profile.spans().collect();
    let (mut n_first, mut n_samples, mut at) = (0, 0, 0);
    // Spans are in the order of time, so one pass finds the span of each sample.
    for time_ns in (0..ITERATIONS * ITERATION_NS).step_by(usize::try_from(interval_ns)?) {
        while spans[at].end_ns <= time_ns {
            at += 1;
        }
        n_first += usize::from(spans[at].name == parts[0]);
        n_samples += 1;
    }
    Ok(n_first as f64 / f64::from(n_samples))
}

/// Returns the time of calls of a function that adds `len` numbers, with a span for each call,
/// divided by the time without spans.
fn overhead(len: usize, n_calls: usize) -> Result<f64> {
    let host = Host::new();
    let profiler = Profiler::new(&host);
    let numbers = vec![1.0_f32; len];
    let call = || black_box(black_box(&numbers).iter().sum::<f32>());
    let with_spans = || {
        (0..n_calls)
            .map(|_| profiler.span("call", call))
            .sum::<f32>()
    };
    let without = || (0..n_calls).map(|_| call()).sum::<f32>();
    timing::ratio(|| Ok(with_spans()), || Ok(without()))
}

fn best(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}
