//! Tests that compare the energies of thinned traces with those of complete traces.

use super::*;
use crate::Trace;
use crate::energy::Energy;
use crate::synthetic::{Board, Gpu, Model, PowerProfile, Reporting, Scenario, Synthetic};
use crate::{Calibration, Device, Reading, Region, Sampler, Source, SpanReport, Values};

/// The read interval of these tests: long, so that an hour is sampled quickly.
const INTERVAL: Duration = Duration::from_millis(100);

/// A board without an energy counter.
fn source() -> Synthetic {
    let mut gpu = Gpu::from_board(Board::Rtx3090);
    gpu.power = PowerProfile::square(50.0, 300.0, 7.3, 0.6);
    gpu.counter = Reporting::Never;
    let scenario = Scenario {
        gpus: vec![gpu],
        ..Scenario::default()
    };
    Synthetic::new(Model::new(scenario).unwrap())
}

fn recorded(capacity: usize, seconds: u64) -> Trace {
    let sampler = Sampler::new(source()).interval(INTERVAL).capacity(capacity);
    sampler.record(Duration::from_secs(seconds)).unwrap()
}

fn share_wide(energy: &Energy) -> f64 {
    energy.interval.width_j() / energy.joules
}

#[test]
fn a_long_trace_is_as_well_known_in_memory_as_in_its_file() {
    // Rows are thinned above the default capacity of 16,384: 24 min, 1 h and 24 h have 14,400,
    // 36,000 and 864,000 rows. A smaller capacity overflows by the same factors in less time.
    for (capacity, seconds) in [(1 << 14, 1440), (1 << 11, 450), (1 << 11, 10_800)] {
        let (thinned, whole) = (recorded(capacity, seconds), recorded(usize::MAX, seconds));
        let window = Duration::ZERO..Duration::from_secs(seconds);
        let truth_j = source().model().gpus()[0].energy_j(0.0, seconds as f64);
        let of_memory = thinned.energy(0, window.clone()).unwrap();
        let of_file = whole.energy(0, window).unwrap();
        assert!(thinned.rows.len() <= capacity && whole.ledger.is_empty());
        assert!(
            of_memory.interval.contains(truth_j),
            "{of_memory} {truth_j}"
        );
        let off = (of_memory.joules / of_file.joules - 1.0).abs();
        assert!(off < 0.002, "{of_memory} {of_file}");
        let wider = share_wide(&of_memory) / share_wide(&of_file);
        assert!(wider < 1.2, "{wider} {of_memory} {of_file}");
    }
}

#[test]
fn a_calibrated_energy_of_a_long_trace_is_as_narrow_as_that_of_its_file() {
    let (thinned, whole) = (recorded(1 << 11, 1800), recorded(usize::MAX, 1800));
    let window = Duration::ZERO..Duration::from_secs(1800);
    let truth_j = source().model().gpus()[0].energy_j(0.0, 1800.0);
    for calibration in [
        Calibration::known(1.0),
        Calibration::known(1.05),
        Calibration::linear(0.95, -8.0),
    ] {
        let calibrated = |trace: &Trace| {
            let all = trace.energy_calibrated(0, window.clone(), &calibration);
            let by = trace.energy_by(0, Metric::PowerInstant, window.clone(), &calibration);
            [all.unwrap(), by.unwrap()]
        };
        let reported_j = truth_j - calibration.offset_w * 1800.0;
        for (of_memory, of_file) in calibrated(&thinned).into_iter().zip(calibrated(&whole)) {
            let true_j = reported_j / calibration.gain;
            assert!(of_memory.interval.contains(true_j), "{of_memory} {true_j}");
            let wider = share_wide(&of_memory) / share_wide(&of_file);
            assert!(wider < 1.2, "{wider}: {of_memory} {of_file}");
        }
    }
}

#[test]
fn a_device_that_was_lost_for_some_minutes_has_an_energy_in_memory_too() {
    /// A board without readings from 1000 to 1400 s.
    struct Lost(Synthetic);
    impl Source for Lost {
        fn name(&self) -> &'static str {
            "lost"
        }
        fn devices(&self) -> &[Device] {
            self.0.devices()
        }
        fn read(&mut self, device: usize, now: Duration) -> Reading {
            let mut reading = self.0.read(device, now);
            if (1000..1400).contains(&now.as_secs()) {
                reading.values = Values::none();
            }
            reading
        }
    }
    let energy = |capacity: usize| {
        let sampler = Sampler::new(Lost(source())).capacity(capacity);
        let trace = sampler.record(Duration::from_secs(3600)).unwrap();
        trace.energy(0, Duration::ZERO..Duration::from_secs(3600))
    };
    let truth_j = source().model().gpus()[0].energy_j(0.0, 3600.0);
    let (of_memory, of_file) = (energy(1 << 11).unwrap(), energy(usize::MAX).unwrap());
    for energy in [&of_memory, &of_file] {
        assert!(energy.interval.contains(truth_j), "{energy} {truth_j}");
    }
    // A slice without readings for more than half of its time counts as a gap.
    let wider = share_wide(&of_memory) / share_wide(&of_file);
    assert!(wider < 1.5, "{wider} {of_memory} {of_file}");
}

/// Returns a trace of `seconds` seconds with regions of code from and to the given times, in s. A
/// few milliseconds are added to the times, so that regions begin and end between two rounds.
fn with_regions(capacity: usize, seconds: u64, regions: &[(u64, u64)]) -> Trace {
    let sampler = Sampler::new(source()).interval(INTERVAL).capacity(capacity);
    let marks = regions.iter().map(|&(from_s, to_s)| Region {
        name: "region".to_owned(),
        start: Duration::from_millis(from_s * 1000 + 37),
        end: Duration::from_millis(to_s * 1000 + 71),
        depth: 0,
        thread: 0,
    });
    let marks: Vec<Region> = marks.collect();
    sampler
        .record_regions(Duration::from_secs(seconds), &marks)
        .unwrap()
}

#[test]
fn regions_keep_their_energies_however_long_ago_they_were_left() {
    let regions = [(30, 60), (50, 700), (400, 430), (2000, 2900), (2950, 2951)];
    let thinned = with_regions(1 << 10, 3000, &regions);
    let whole = with_regions(usize::MAX, 3000, &regions);
    assert_eq!(thinned.regions, whole.regions);
    for mark in &thinned.regions {
        let energy = |trace: &Trace| {
            SpanReport::from_region(trace, mark).devices[0]
                .1
                .clone()
                .unwrap()
        };
        let (of_memory, of_file) = (energy(&thinned), energy(&whole));
        let (from_s, to_s) = (mark.start.as_secs_f64(), mark.end.as_secs_f64());
        let truth_j = source().model().gpus()[0].energy_j(from_s, to_s);
        assert!(
            of_memory.interval.contains(truth_j),
            "{of_memory} {truth_j}"
        );
        let wider = share_wide(&of_memory) / share_wide(&of_file);
        assert!(wider < 1.25, "{wider}: {of_memory} {of_file}");
    }
}

#[test]
fn the_number_of_slices_is_bounded() {
    // Each region that is open while rows are thinned begins a slice.
    let n_regions = MAX_SLICES as u64 + 1000;
    let seconds = 400;
    let open = (0..n_regions).map(|region| Region {
        name: "open".to_owned(),
        start: Duration::from_millis(50 * region + 10),
        end: Duration::from_secs(seconds - 1),
        depth: 0,
        thread: 0,
    });
    let sampler = Sampler::new(source()).interval(INTERVAL).capacity(1 << 13);
    let open: Vec<Region> = open.collect();
    let trace = sampler
        .record_regions(Duration::from_secs(seconds), &open)
        .unwrap();
    let slices = &trace.ledger.slices;
    assert!(
        (MAX_SLICES / 2..=MAX_SLICES).contains(&slices.len()),
        "{}",
        slices.len()
    );
    assert!(slices.is_sorted_by(|one, two| one.window.end == two.window.start));
    let truth_j = source().model().gpus()[0].energy_j(0.0, seconds as f64);
    let window = Duration::ZERO..Duration::from_secs(seconds);
    let energy = trace.energy(0, window).unwrap();
    assert!(energy.interval.contains(truth_j), "{energy} {truth_j}");
    assert!((energy.joules / truth_j - 1.0).abs() < 0.01, "{energy}");
}

#[test]
fn slices_that_are_joined_keep_their_energies_and_the_time_without_any() {
    let trace = recorded(1 << 10, 600);
    let slices = &trace.ledger.slices[..4];
    let metric = slices[0].energies[0][0].metric;
    let joined = |slices: &[EnergyEntry]| {
        let rest = slices[1..].iter();
        rest.fold(slices[0].clone(), |all, next| all.followed_by(next))
    };
    let (apart, _) = summed(slices, 0, metric).unwrap();
    let (whole, missing_s) = summed(&[joined(slices)], 0, metric).unwrap();
    assert!(missing_s < 1e-9, "{missing_s}");
    assert_eq!(whole, apart);
    // A metric that is absent from one slice, here the shortest, still covers the others.
    let mut lost = slices.to_vec();
    let length = |&place: &usize| slices[place].window.end - slices[place].window.start;
    let shortest = (0..slices.len()).min_by_key(length).unwrap();
    lost[shortest].energies[0].clear();
    let (apart, apart_s) = summed(&lost, 0, metric).unwrap();
    let (whole, whole_s) = summed(&[joined(&lost)], 0, metric).unwrap();
    let window = &lost[shortest].window;
    let expected_s = seconds(window.start, window.end);
    assert!(
        (whole_s - expected_s).abs() < 1e-9,
        "{whole_s} {expected_s}"
    );
    assert!(
        (apart_s - expected_s).abs() < 1e-9,
        "{apart_s} {expected_s}"
    );
    assert_eq!(whole, apart);
}

#[test]
fn a_window_that_begins_and_ends_next_to_an_edge_allows_for_the_time_between() {
    let trace = recorded(1 << 10, 600);
    let end = trace.ledger.slices[1].window.end;
    let one = Calibration::known(1.0);
    let energy = |to: Duration| {
        let energy = trace.energy_calibrated(0, Duration::ZERO..to, &one);
        energy.unwrap()
    };
    let (at, before) = (energy(end), energy(end - Duration::from_millis(60)));
    let ceiling_w = trace.ledger.ceilings_w[0];
    let wider_j = before.interval.width_j() - at.interval.width_j();
    assert!(
        (wider_j / (ceiling_w * 0.06) - 1.0).abs() < 0.01,
        "{at} {before}"
    );
}
