//! Spans, `measure` and sweeps, on devices with known power.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{Fake, Shared, work_for};
use telemetry::analysis::dvfs_from_runs;
use telemetry::format::{self, Dialect, Writer};
use telemetry::nvml::Nvml;
use telemetry::synthetic::{Action, Board, Gpu, PowerProfile, Quantity, Scenario, Synthetic};
use telemetry::{
    Error, Margins, Sampler, SpanReport, SweepPlan, measure_by, measure_within, sweep,
};

const WATTS: f64 = 50.0;

fn sampler() -> Sampler {
    let source = Synthetic::from_power(PowerProfile::constant(WATTS)).expect("a valid profile");
    Sampler::new(source).interval(Duration::from_millis(10))
}

/// Returns whether the bounds from sampling are wider than the uncertain ends of the window
/// explain. Each end of 300 ms may be off by half an update of 100 ms, which gives a factor of 1.4
/// for both ends.
fn is_vague(spent: &SpanReport) -> bool {
    let energies = spent.devices.iter().map(|(_, energy)| {
        let energy = energy.as_ref().expect("a model reports energy");
        (energy.sampling.low_j, energy.sampling.high_j)
    });
    let (low_j, high_j) = energies.fold((0.0, 0.0), |sum, ends| (sum.0 + ends.0, sum.1 + ends.1));
    high_j > 1.4 * low_j
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
        .regions
        .iter()
        .map(|mark| (mark.name.as_str(), mark.depth))
        .collect();
    assert_eq!(names, [("outer", 0), ("inner", 1)]);
    for (mark, at_once) in trace.regions.iter().zip([outer, inner]) {
        let later = SpanReport::from_region(&trace, mark);
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
    assert_eq!(trace.regions.len(), 1);
    // The trace has rows at both ends of the region, in addition to the scheduled rows.
    let is_at = |time| trace.rows.iter().any(|row| row.time >= time);
    assert!(is_at(trace.regions[0].start) && trace.rows.len() >= 4);
}

#[test]
fn regions_are_kept_when_they_are_left_in_the_order_in_which_they_began() {
    let running = sampler().start().unwrap();
    let (long, early) = (running.span("long"), running.span("early"));
    assert!(running.with_trace(|trace| trace.regions.is_empty()));
    drop(early);
    drop(running.span("late"));
    drop(long);
    let trace = running.stop().trace;
    let said: Vec<_> = trace
        .regions
        .iter()
        .map(|m| (m.name.as_str(), m.depth))
        .collect();
    assert_eq!(said, [("long", 0), ("early", 1), ("late", 1)]);
}

#[test]
fn any_number_of_regions_fits_into_memory() {
    const REGIONS: u64 = 10_000;
    let file = Shared::default();
    let running = sampler()
        .capacity(1000)
        .with_sink(Writer::new(Dialect::Csv, file.clone()))
        .start()
        .unwrap();
    let begun = Instant::now();
    for _ in 0..REGIONS {
        drop(running.span("short"));
    }
    // The cost of a region does not grow with the number of regions: 10,000 of them take well below
    // a millisecond each.
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    let whole = running.span("whole");
    work_for(Duration::from_millis(300));
    let window = whole.end().window;
    let trace = running.stop().trace;
    assert!(
        trace.rows.len() <= 1000
            && trace.regions.len() as u64 + trace.n_regions_left_out == REGIONS + 1
    );
    // Rows of regions did not displace the scheduled rows.
    let seconds = trace.duration().as_secs_f64();
    assert!(
        trace.interval.as_secs_f64() <= (8.0 * seconds / 1000.0).max(0.01),
        "{:?}",
        trace.interval
    );
    assert!(trace.energy(0, window).is_some());
    let written = format::read(&file.bytes()).unwrap().trace;
    assert_eq!(written.regions.len() as u64, REGIONS + 1);
    assert!(written.rows.len() as u64 > 2 * REGIONS);
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
    assert!(spent.window.start >= Margins::default().before, "{spent:?}");
    let none = Margins {
        before: Duration::ZERO,
        after: Duration::ZERO,
    };
    let began = Instant::now();
    let ((), spent) = measure_within(sampler(), none, || ()).unwrap();
    assert!(spent.window.start <= began.elapsed(), "{spent:?}");
}

/// Returns a scenario of a V100 with the clocks and the power of a P100. Programs may lock its
/// clocks.
fn table() -> Scenario {
    let mut scenario = Scenario::from_boards(&[Board::V100]);
    let p100 = Gpu::from_board(Board::P100);
    scenario.gpus[0].power = PowerProfile::constant(p100.power.peak_w());
    scenario.gpus[0].utilisation.gpu_pct = Quantity::Constant(100.0);
    scenario.gpus[0].clocks = p100.clocks;
    scenario.may_control = true;
    scenario
}

/// Returns whether there are at least as many resets as locks, and at least one lock.
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
    let plan = SweepPlan {
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
    let clocks = sweep(&control, 0, &running, &plan, || false, job).unwrap();
    assert!(
        !fake.is_locked(0) && is_balanced(&fake.actions()),
        "{:?}",
        fake.actions()
    );
    let points = dvfs_from_runs(&clocks).unwrap().points;
    assert_eq!(points.len(), 3);
    // Higher clocks are faster and draw more power.
    for two in points.windows(2) {
        assert!(
            two[0].rate < two[1].rate && two[0].watts < two[1].watts,
            "{points:?}"
        );
    }
}

#[test]
fn a_sweep_of_a_device_that_does_not_exist_is_an_error() {
    let _fake = Fake::play(&table());
    let control = Nvml::open_at(&support::fake()).unwrap();
    let sampled = Nvml::open_at(&support::fake()).unwrap();
    let running = Sampler::new(sampled).start().unwrap();
    let plan = SweepPlan {
        clocks_mhz: control.sm_clocks(0).unwrap(),
        repeats: 1,
        settle: Duration::ZERO,
    };
    let error = sweep(&control, 1, &running, &plan, || false, |_| 1.0).unwrap_err();
    assert!(matches!(error, Error::NoDevice { .. }), "{error}");
}

#[test]
fn a_clock_is_reset_when_the_job_panics_or_is_cancelled() {
    let fake = Fake::play(&table());
    fake.use_real_time();
    let control = Nvml::open_at(&support::fake()).unwrap();
    let sampled = Nvml::open_at(&support::fake()).unwrap();
    let running = Sampler::new(sampled).start().unwrap();
    let plan = SweepPlan {
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

/// The environment variable with the path of a file that the child process creates once its job
/// runs.
#[cfg(unix)]
const STARTED: &str = "TELEMETRY_TEST_SWEEPS";

/// Runs a sweep until the process receives SIGTERM. Exits with code 0 if the clock was locked
/// during the sweep and is unlocked at the end.
#[cfg(unix)]
fn sweep_until_asked_to_end(started: &std::path::Path) -> ! {
    let fake = Fake::play(&table());
    fake.use_real_time();
    let control = Nvml::open_at(&support::fake()).expect("the fake library can be opened");
    let sampled = Nvml::open_at(&support::fake()).expect("the fake library can be opened");
    let running = Sampler::new(sampled)
        .start()
        .expect("the fake library can be sampled");
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, stop.clone())
        .expect("a signal can be caught");
    let plan = SweepPlan {
        clocks_mhz: control.sm_clocks(0).expect("the board reports its clocks")[..1].to_vec(),
        repeats: 1000,
        settle: Duration::ZERO,
    };
    let was_locked = AtomicUsize::new(0);
    let job = |_| {
        was_locked.fetch_add(usize::from(fake.is_locked(0)), Ordering::Relaxed);
        std::fs::write(started, "").expect("the file can be written");
        while !stop.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        1.0
    };
    let ended = sweep(
        &control,
        0,
        &running,
        &plan,
        || stop.load(Ordering::Relaxed),
        job,
    );
    let is_fine = matches!(ended, Err(Error::Cancelled { .. }))
        && was_locked.load(Ordering::Relaxed) == 1
        && !fake.is_locked(0);
    std::process::exit(i32::from(!is_fine))
}

#[cfg(unix)]
#[test]
fn a_clock_is_reset_when_a_signal_ends_the_sweep() {
    if let Some(started) = std::env::var_os(STARTED) {
        sweep_until_asked_to_end(started.as_ref());
    }
    let folder =
        tool_io::TemporaryFolder::create(&std::env::temp_dir(), "telemetry-sweeps").unwrap();
    let started = folder.path().join("started");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_clock_is_reset_when_a_signal_ends_the_sweep"])
        .env(STARTED, &started)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !started.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn setting_clocks_without_permission_is_an_error() {
    let mut scenario = table();
    scenario.may_control = false;
    let fake = Fake::play(&scenario);
    let control = Nvml::open_at(&support::fake()).unwrap();
    let error = control.lock_sm_clock(0, 1000).unwrap_err();
    assert!(error.to_string().contains("no permission"), "{error}");
    assert!(!fake.is_locked(0));
    // A caller without permission must not reset a lock of another program.
    let resets = |action: &Action| format!("{action:?}").contains("Reset");
    assert!(!fake.actions().iter().any(resets), "{:?}", fake.actions());
}
