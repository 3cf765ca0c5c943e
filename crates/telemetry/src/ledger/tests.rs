//! Energies of traces that outgrew their memory, next to those of whole traces of the same time.

use super::*;
use crate::synthetic::{Board, Gpu, Model, Program, Scenario, Synthetic, Tells};
use crate::{Mark, Sampler, Spent};

/// The interval of these tests, in which an hour is sampled quickly.
const INTERVAL: Duration = Duration::from_millis(100);

/// A board without a counter.
fn source() -> Synthetic {
    let mut gpu = Gpu::of(Board::Rtx3090);
    gpu.power = Program::square(50.0, 300.0, 7.3, 0.6);
    gpu.counter = Tells::Never;
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
    // 24 min, 1 h and 24 h in the default memory are 14,400, 36,000 and 864,000 rows of 16,384: the same overflow in
    // a smaller memory takes less time.
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

/// Samples a region of a model that its caller's clock drives.
fn with_regions(capacity: usize, seconds: u64, regions: &[(u64, u64)]) -> Trace {
    let sampler = Sampler::new(source()).interval(INTERVAL).capacity(capacity);
    let marks = regions.iter().map(|&(from_s, to_s)| Mark {
        name: "region".to_owned(),
        start: Duration::from_millis(from_s * 1000 + 37),
        end: Duration::from_millis(to_s * 1000 + 71),
        depth: 0,
        thread: 0,
    });
    let marks: Vec<Mark> = marks.collect();
    sampler
        .record_with(Duration::from_secs(seconds), &marks)
        .unwrap()
}

#[test]
fn regions_keep_their_energies_however_long_ago_they_were_left() {
    let regions = [(30, 60), (50, 700), (400, 430), (2000, 2900), (2950, 2951)];
    let thinned = with_regions(1 << 10, 3000, &regions);
    let whole = with_regions(usize::MAX, 3000, &regions);
    assert_eq!(thinned.marks, whole.marks);
    for mark in &thinned.marks {
        let energy = |trace: &Trace| Spent::of_mark(trace, mark).devices[0].1.clone().unwrap();
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
    let kept = |second: u64| Kept {
        window: Duration::from_secs(second)..Duration::from_secs(second + 1),
        energies: vec![recorded(usize::MAX, 3).energy(0, Duration::ZERO..Duration::from_secs(2))],
    };
    let one = kept(0);
    let mut ledger = Ledger {
        interval: INTERVAL,
        ..Ledger::default()
    };
    ledger.slices = (0..MAX_SLICES as u64 + 1)
        .map(|second| Kept {
            window: Duration::from_secs(second)..Duration::from_secs(second + 1),
            ..one.clone()
        })
        .collect();
    let joules = |ledger: &Ledger| {
        let energies = ledger
            .slices
            .iter()
            .map(|slice| slice.energies[0].clone().unwrap());
        energies.map(|energy| energy.joules).sum::<f64>()
    };
    let before_j = joules(&ledger);
    ledger.halve();
    assert_eq!(ledger.slices.len(), MAX_SLICES / 2 + 1);
    assert!((joules(&ledger) / before_j - 1.0).abs() < 1e-9);
    assert_eq!(ledger.end(), Duration::from_secs(MAX_SLICES as u64 + 1));
}
