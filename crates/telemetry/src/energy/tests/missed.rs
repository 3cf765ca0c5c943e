//! Tests of energies whose reads miss updates of the sensor.

use super::*;

#[test]
fn excursions_in_missed_updates_lie_within_the_certain_bounds() {
    // Reads every 104 ms miss one of 26 updates, which are 100 ms apart. The load draws peak power
    // only in the missed updates, so no reading shows the peaks.
    let (base_w, peak_w) = (50.0, 300.0);
    let load = PowerProfile {
        pieces: vec![
            PowerSegment::level(2.4, base_w),
            PowerSegment::level(0.1, peak_w),
            PowerSegment::level(0.1, base_w),
        ],
        repeats: true,
    };
    let times_s: Vec<f64> = (0..440)
        .map(|read| 0.104 * f64::from(read) + 0.0005)
        .collect();
    let reported = Reported::Power(SensorClass::FullTime);
    let trace = sampled_at(&load, reported, 0.0, &times_s);
    let readings = trace.series(0, metric(reported));
    assert!(readings.iter().all(|&(_, watts)| watts == base_w));
    let energy = trace
        .energy_calibrated(0, seconds(3.013, 43.013), &Calibration::known(1.0))
        .unwrap();
    let truth = load.energy_j(3.013, 43.013);
    for bounds in [energy.interval, energy.sampling] {
        assert!(bounds.contains(truth), "{truth} {energy}");
    }
    // 15 updates are missed. With a clock error of 1.5 %, 23 are possible. Each is 0.1 s at up to
    // 360 W, or 36 J.
    assert!(
        energy.interval.high_j < 1.15 * truth + 23.0 * 36.0,
        "{energy}"
    );
    assert!(energy.likely.high_j < truth, "{energy}");
}
