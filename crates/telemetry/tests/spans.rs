//! Spans, `measure` and sweeps, on devices whose power is known.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{Fake, work_for};
use telemetry::analysis::dvfs;
use telemetry::nvml::Nvml;
use telemetry::synthetic::{Action, Board, Gpu, Program, Quantity, Scenario, Synthetic};
use telemetry::{Error, Plan, Sampler, Spent, measure_by, sweep};

const WATTS: f64 = 50.0;

fn sampler() -> Sampler {
    let source = Synthetic::of(Program::constant(WATTS)).expect("a sound program");
    Sampler::new(source).interval(Duration::from_millis(10))
}

/// Whether an interval says little: gains alone make its ends differ by a quarter, and a phase of 20 ms in a window of
/// 300 at either end by as much again.
fn is_vague(spent: &Spent) -> bool {
    let interval = spent.interval().expect("a model tells energy");
    interval.high_j > 1.6 * interval.low_j
}

#[test]
fn the_energy_of_a_region_is_that_of_its_time() {
    let running = sampler().start().unwrap();
    let outer = running.span("outer");
    work_for(Duration::from_millis(300));
    let inner = running.span("inner");
    work_for(Duration::from_millis(400));
    let inner = inner.end();
    let outer = outer.end();
    work_for(Duration::from_millis(250));
    let trace = running.stop().trace;
    let names: Vec<_> = trace
        .marks
        .iter()
        .map(|mark| (mark.name.as_str(), mark.depth))
        .collect();
    assert_eq!(names, [("outer", 0), ("inner", 1)]);
    for (mark, at_once) in trace.marks.iter().zip([outer, inner]) {
        let later = Spent::of_mark(&trace, mark).unwrap();
        assert_eq!(later.window, at_once.window);
        let truth = WATTS * later.duration().as_secs_f64();
        for spent in [&at_once, &later] {
            let interval = spent.interval().unwrap();
            assert!(
                interval.contains(truth),
                "{}: {truth} {interval:?}",
                spent.name
            );
        }
        assert!(!is_vague(&later), "{later:?}");
    }
}

#[test]
fn work_is_waited_for_before_both_readings() {
    let waits = AtomicUsize::new(0);
    let running = sampler().start().unwrap();
    let sync = || {
        waits.fetch_add(1, Ordering::Relaxed);
    };
    let span = running.span_synced("queued", sync);
    assert_eq!(waits.load(Ordering::Relaxed), 1);
    drop(span);
    assert_eq!(waits.load(Ordering::Relaxed), 2);
    let trace = running.stop().trace;
    assert!(trace.marks[0].end.is_some());
    // The rows at both ends are there, beside those of the rounds.
    let is_at = |time| trace.rows.iter().any(|row| row.time >= time);
    assert!(is_at(trace.marks[0].start) && trace.rows.len() >= 4);
}

#[test]
fn a_region_that_is_not_left_has_no_energy() {
    let running = sampler().start().unwrap();
    let span = running.span("endless");
    let trace = running.look(Clone::clone);
    assert_eq!(Spent::of_mark(&trace, &trace.marks[0]), None);
    drop(span);
}

#[test]
fn measured_work_gives_its_output_and_its_energy() {
    let work = || {
        work_for(Duration::from_millis(300));
        42
    };
    let (output, spent) = measure_by(sampler(), work).unwrap();
    assert_eq!(output, 42);
    let truth = WATTS * spent.duration().as_secs_f64();
    assert!(
        spent.interval().unwrap().contains(truth),
        "{truth} {spent:?}"
    );
    assert!(!is_vague(&spent), "{spent:?}");
}

/// A V100 with the clocks and the power of the source's table, whose library lets clocks be set.
fn table() -> Scenario {
    let mut scenario = Scenario::of(&[Board::V100]);
    let p100 = Gpu::of(Board::P100);
    scenario.gpus[0].power = Program::constant(p100.power.peak_w());
    scenario.gpus[0].utilisation.gpu_pct = Quantity::Constant(100.0);
    scenario.gpus[0].clocks = p100.clocks;
    scenario.may_control = true;
    scenario
}

/// Whether every lock was followed by a reset.
fn is_balanced(actions: &[Action]) -> bool {
    let said: Vec<String> = actions.iter().map(|action| format!("{action:?}")).collect();
    let n_of = |what: &str| said.iter().filter(|action| action.contains(what)).count();
    n_of("Lock") > 0 && n_of("Reset") >= n_of("Lock")
}

#[test]
fn a_sweep_finds_the_energy_curve_and_resets_the_clock() {
    let fake = Fake::play(&table());
    fake.use_real_time();
    let control = Nvml::open_at(&support::fake()).unwrap();
    let sampled = Nvml::open_at(&support::fake()).unwrap();
    let running = Sampler::new(sampled)
        .interval(Duration::from_millis(10))
        .start()
        .unwrap();
    let clocks = control.sm_clocks(0).unwrap();
    let plan = Plan {
        clocks_mhz: vec![
            clocks[0],
            clocks[clocks.len() / 2],
            clocks[clocks.len() - 1],
        ],
        repeats: 2,
        settle: Duration::from_millis(120),
    };
    let job = |_| {
        let from = fake.time();
        work_for(Duration::from_millis(400));
        fake.work(0, from, fake.time())
    };
    let points = sweep(&control, 0, &running, &plan, || false, job).unwrap();
    assert!(
        !fake.is_locked(0) && is_balanced(&fake.actions()),
        "{:?}",
        fake.actions()
    );
    // Higher clocks are faster and draw more.
    for two in points.windows(2) {
        assert!(
            two[0].rate < two[1].rate && two[0].watts < two[1].watts,
            "{points:?}"
        );
    }
    assert_eq!(dvfs(&points).unwrap().points.len(), 3);
}

#[test]
fn a_clock_is_reset_when_the_job_panics_or_is_cancelled() {
    let fake = Fake::play(&table());
    fake.use_real_time();
    let control = Nvml::open_at(&support::fake()).unwrap();
    let sampled = Nvml::open_at(&support::fake()).unwrap();
    let running = Sampler::new(sampled).start().unwrap();
    let plan = Plan {
        clocks_mhz: vec![control.sm_clocks(0).unwrap()[0]],
        repeats: 3,
        settle: Duration::ZERO,
    };
    let panics = AssertUnwindSafe(|| {
        let _ = sweep(
            &control,
            0,
            &running,
            &plan,
            || false,
            |_| {
                assert!(fake.is_locked(0));
                panic!("the job is broken");
            },
        );
    });
    assert!(catch_unwind(panics).is_err());
    assert!(!fake.is_locked(0));
    let runs = AtomicUsize::new(0);
    let job = |_| {
        runs.fetch_add(1, Ordering::Relaxed);
        1.0
    };
    let is_cancelled = || runs.load(Ordering::Relaxed) > 0;
    let error = sweep(&control, 0, &running, &plan, is_cancelled, job).unwrap_err();
    assert!(matches!(error, Error::Cancelled { .. }), "{error}");
    assert!(!fake.is_locked(0));
}

#[test]
fn who_may_not_set_clocks_is_told_so() {
    let mut scenario = table();
    scenario.may_control = false;
    let fake = Fake::play(&scenario);
    let control = Nvml::open_at(&support::fake()).unwrap();
    let error = control.lock_sm_clock(0, 1000).unwrap_err();
    assert!(error.to_string().contains("no permission"), "{error}");
    assert!(!fake.is_locked(0));
}
