//! Tests of failures of the sampler's thread, and of the work done while holding its lock.

use super::*;
use crate::energy::N_ESTIMATES;
use crate::format::prometheus;
use crate::synthetic::{
    Board, FaultRule, Gpu, Model, PowerProfile, Reporting, Scenario, Synthetic,
};
use crate::trace::Region;
use crate::{Calibration, Ledger, Row};

/// Returns a model of eight A100 boards.
fn boards() -> Synthetic {
    let scenario = Scenario {
        gpus: (0..8).map(|_| Gpu::from_board(Board::A100)).collect(),
        ..Scenario::default()
    };
    Synthetic::new(Model::new(scenario).unwrap())
}

/// Returns how often `work` computes cells of power, which is the expensive step of computing an
/// energy.
fn n_estimates(work: impl FnOnce()) -> usize {
    let before = N_ESTIMATES.get();
    work();
    N_ESTIMATES.get() - before
}

#[test]
fn no_energy_is_computed_under_the_lock_and_few_without_it() {
    const REGIONS: u64 = 300;
    let mut sampling = Sampler::new(boards()).capacity(1 << 11).begin().unwrap();
    let under_lock = n_estimates(|| {
        for round in 0.. {
            let now = Duration::from_millis(100 * round);
            sampling.tick(now, || now);
            if round < REGIONS {
                let start = sampling.enter(|| now).0;
                let end = now + Duration::from_millis(50);
                let mark = Region {
                    name: "region".to_owned(),
                    start,
                    end,
                    depth: 0,
                    thread: 0,
                };
                sampling.leave(mark, || end);
            }
            // While energies are computed, memory may exceed its capacity, by a factor of up to
            // two.
            if sampling.trace.rows.len() >= 3 << 10 {
                break;
            }
        }
    });
    let (batch, ticket) = sampling.batch().unwrap();
    let mut ledger = Ledger::default();
    let without_lock = n_estimates(|| ledger = batch.sum_up());
    let thinning = n_estimates(|| sampling.thin(ledger, ticket));
    assert_eq!((under_lock, thinning), (0, 0));
    // One computation per device and metric, regardless of the number of regions; each board
    // reports at most four metrics of energy and power.
    assert!((8..=32).contains(&without_lock), "{without_lock}");
    assert!(sampling.trace.rows.len() <= 1 << 11);
    let regions = &sampling.trace.regions[..100];
    let of_regions = n_estimates(|| {
        for mark in regions {
            assert!(sampling.trace.energy(7, mark.start..mark.end).is_some());
        }
    });
    assert_eq!(of_regions, 0);
}

#[test]
fn a_ledger_that_is_late_is_dropped() {
    let mut sampling = Sampler::new(boards()).capacity(64).begin().unwrap();
    let mut round = 0_u64;
    let mut fill = |sampling: &mut Sampling| {
        for _ in 0..12 {
            let now = Duration::from_millis(100 * round);
            sampling.tick(now, || now);
            round += 1;
        }
    };
    fill(&mut sampling);
    let (late, ticket) = sampling.batch().unwrap();
    sampling.make_room();
    fill(&mut sampling);
    let before = sampling.trace.clone();
    sampling.thin(late.sum_up(), ticket);
    assert_eq!(sampling.trace, before);
}

#[test]
fn a_snapshot_has_the_newest_values_of_a_lost_device() {
    let mut scenario = Scenario::from_boards(&[Board::T4; 2]);
    scenario.faults.push(FaultRule::lost(1, 500));
    let source = Synthetic::new(Model::new(scenario).unwrap());
    let mut sampling = Sampler::new(source).begin().unwrap();
    for round in 0..10 {
        let due = INTERVAL * round;
        sampling.tick(due, || due);
    }
    let trace = sampling.latest_with_values();
    let is_lost = |row: &&Row| row.device == 1;
    let rows: Vec<&Row> = trace.rows.iter().filter(is_lost).collect();
    let [valued, newest] = rows[..] else {
        panic!("{rows:?}")
    };
    assert!(valued.has_value() && !newest.has_value());
    assert_eq!(newest.time, INTERVAL * 9);
    assert_eq!(trace.device_rows(0).count(), 1);
    assert_eq!(sampling.latest().rows.len(), 2);
    let time_s = trace.began_unix_ns as f64 / 1e9 + valued.time.as_secs_f64();
    let scraped = prometheus::write(&trace);
    let expected = format!("timestamp_seconds{{device=\"1\",name=\"Tesla T4\"}} {time_s:.3}\n");
    assert!(scraped.contains(&expected), "{scraped}");
}

#[test]
fn a_panic_of_the_samplers_thread_is_reported_at_once_and_ends_the_trace() {
    let source = Synthetic::from_power(PowerProfile::constant(50.0)).unwrap();
    let sampler = Sampler::new(source).interval(Duration::from_secs(3600));
    let running = sampler.start().unwrap();
    assert_eq!(running.failure(), None);
    let shared = &running.shared;
    shared.guarded(|| {
        let _locked = shared.lock();
        panic!("the round is broken");
    });
    let failure = running.failure().unwrap();
    assert!(matches!(failure, Failure::Sampler { .. }), "{failure}");
    assert!(failure.ends_sampling());
    assert!(
        failure.to_string().ends_with("the round is broken"),
        "{failure}"
    );
    let scraped = prometheus::write_snapshot(&running.snapshot());
    assert!(scraped.contains("\ntelemetry_up 0\n"), "{scraped}");
    drop(running.span("after"));
    let stopped = running.stop();
    assert_eq!(stopped.failures, [failure]);
    assert_eq!(
        (stopped.trace.rows.len(), stopped.trace.regions.len()),
        (1, 1)
    );
}

#[test]
fn a_device_that_is_read_late_in_a_round_has_its_first_slice() {
    let mut gpu = Gpu::from_board(Board::Rtx3090);
    gpu.power = PowerProfile::square(50.0, 300.0, 7.3, 0.6);
    gpu.counter = Reporting::Never;
    let scenario = Scenario {
        gpus: vec![gpu; 8],
        ..Scenario::default()
    };
    let source = Synthetic::new(Model::new(scenario).unwrap());
    let mut sampling = Sampler::new(source.clone())
        .capacity(1 << 13)
        .begin()
        .unwrap();
    for round in 0..3000 {
        let due = INTERVAL * round;
        let n_reads = std::cell::Cell::new(0);
        // Each call of the clock advances by 4 ms: before the round, before each device, and after.
        let clock = || due + Duration::from_millis(4) * n_reads.replace(n_reads.get() + 1);
        sampling.tick(due, clock);
        sampling.make_room();
    }
    let trace = &sampling.trace;
    for device in [0, 7] {
        let times = || trace.device_rows(device).map(|row| row.time);
        let window = times().next().unwrap()..times().last().unwrap();
        let (from_s, to_s) = (window.start.as_secs_f64(), window.end.as_secs_f64());
        let truth_j = source.model().gpus()[device].energy_j(from_s, to_s);
        let one = Calibration::known(1.0);
        let energy = trace.energy_calibrated(device, window, &one).unwrap();
        assert!(energy.interval.contains(truth_j), "{energy} {truth_j}");
        // Without its first slice, a quarter of the time would be estimated from thinned rows.
        let is_narrow = energy.interval.width_j() < 0.1 * energy.joules;
        assert!(is_narrow, "{device}: {energy}");
    }
}
