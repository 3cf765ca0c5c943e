//! Tests of gains and offsets of sensors: published cards, models of boards with power rails that
//! the sensor does not measure, and fits to a meter.

use super::*;
use crate::MeteredWindow;

/// Name, offset (W), error of the gain (%) and power limit (W) of published cards.
///
/// Source: Yang, Adamek and Armour 2024, "Part-time power measurements: nvidia-smi's lack of
/// attention", figure of steady-state accuracy (`plotting/figure_plotting.py` of
/// `JimZeyuYang/GPU_Power_Benchmark`). The limits are from NVIDIA's and the vendors' data sheets.
const PUBLISHED: [(&str, f64, f64, f64); 19] = [
    ("RTX 3090 1", 3.4686, -5.493, 350.0),
    ("RTX 3090 2", -1.6615, -0.6464, 350.0),
    ("RTX 3090 3", 3.9206, -1.772, 350.0),
    ("RTX 3090 4", -5.0714, 1.4763, 350.0),
    ("RTX 3090 5", -8.5276, 1.7246, 350.0),
    ("RTX 4090", -12.354, 4.4503, 450.0),
    ("RTX 3070 Ti", -4.8016, 0.3940, 290.0),
    ("RTX 2080 Ti", -5.7953, -3.3428, 250.0),
    ("RTX 2060 Super", 11.8485, -1.3034, 175.0),
    ("Titan X Pascal", 2.5377, -2.5911, 250.0),
    ("GTX 1080 Ti", -0.3343, -0.1220, 250.0),
    ("GTX 1080", -5.1553, 6.3630, 180.0),
    ("GTX Titan X", 1.2307, 1.0577, 250.0),
    ("RTX A5000", 8.764, -9.4997, 230.0),
    ("A100 PCIe", -1.2103, -4.5826, 250.0),
    ("P100 PCIe", 0.8832, -0.7221, 250.0),
    ("M40", 1.4497, -2.8742, 250.0),
    ("K80", -6.2932, -3.6307, 300.0),
    ("K40m", 0.8057, 2.4105, 235.0),
];

fn board(architecture: &str, limit_w: Option<f64>) -> Device {
    Device {
        architecture: Some(architecture.into()),
        limits: PowerLimits {
            max_w: limit_w,
            ..PowerLimits::default()
        },
        ..Device::new(Kind::Gpu, "a board")
    }
}

fn contains(calibration: &Calibration, reported_w: f64, true_w: f64) -> bool {
    calibration
        .interval((reported_w, reported_w), 1.0)
        .contains(true_w)
}

#[test]
fn a_limit_that_is_no_power_is_unknown() {
    let unknown = Calibration::for_device(&board("Ampere", None));
    for limit_w in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let found = Calibration::for_device(&board("Ampere", Some(limit_w)));
        assert_eq!(found, unknown, "{limit_w} W");
        // The default limit takes its place.
        let mut both = board("Ampere", Some(limit_w));
        both.limits.default_w = Some(75.0);
        let known = Calibration::for_device(&board("Ampere", Some(75.0)));
        assert_eq!(Calibration::for_device(&both), known, "{limit_w} W");
    }
}

#[test]
fn published_cards_lie_within_the_bounds_from_idle_to_full_load() {
    for (name, offset_w, gain_pct, limit_w) in PUBLISHED {
        for limit in [Some(limit_w), None] {
            let calibration = Calibration::for_device(&board("Ampere", limit));
            for share in [0.08, 0.15, 0.3, 0.6, 1.0] {
                let true_w = share * limit_w;
                let reported_w = (offset_w + (1.0 + 0.01 * gain_pct) * true_w).max(0.0);
                assert!(
                    contains(&calibration, reported_w, true_w),
                    "{name} {limit:?} {true_w} {reported_w} {:?}",
                    calibration.interval((reported_w, reported_w), 1.0)
                );
            }
        }
    }
}

/// Tolerance factors for 18 and 19 samples: the mean ± factor · standard deviation contains 95 % of
/// a normal distribution with a confidence of 95 % (Howe 1969, "Two-sided tolerance limits for
/// normal populations").
const TOLERANCE_FACTORS: [f64; 2] = [2.819, 2.784];

/// Returns the tolerance interval of 18 or 19 numbers.
fn tolerance_interval(numbers: &[f64]) -> Range<f64> {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let reach = TOLERANCE_FACTORS[numbers.len() - 18] * (squares / (n - 1.0)).sqrt();
    mean - reach..mean + reach
}

#[test]
fn bounds_from_all_published_cards_but_one_contain_that_card() {
    let ratio = |(_, offset_w, gain_pct, limit_w): (&str, f64, f64, f64)| {
        1.0 + 0.01 * gain_pct + offset_w / limit_w
    };
    let ratios = PUBLISHED.map(ratio);
    let offsets_w = PUBLISHED.map(|card| card.1);
    for numbers in [ratios, offsets_w] {
        for (left_out, (name, ..)) in PUBLISHED.iter().enumerate() {
            let others = [&numbers[..left_out], &numbers[left_out + 1..]].concat();
            let found = tolerance_interval(&others);
            assert!(found.contains(&numbers[left_out]), "{name} {found:?}");
        }
    }
    // The bounds in the code contain the tolerance intervals of all 19 cards.
    let limit_w = 350.0;
    let calibration = Calibration::for_device(&board("Ampere", Some(limit_w)));
    let (low_w, high_w) = calibration.offsets_w();
    let found = tolerance_interval(&offsets_w);
    assert!(low_w <= found.start && high_w >= found.end, "{found:?}");
    let (least, most) = calibration.gains();
    let found = tolerance_interval(&ratios);
    assert!(least + high_w / limit_w <= found.start && most + low_w / limit_w >= found.end);
}

#[test]
fn cards_of_a_few_watts_have_gains_above_zero_and_finite_intervals() {
    for architecture in ["Ada", "Blackwell"] {
        for limit_w in [1e-3, 1.0, 5.0, 10.0, 75.0] {
            let calibration = Calibration::for_device(&board(architecture, Some(limit_w)));
            let (least, _) = calibration.gains();
            assert!(least > 0.3, "{limit_w} {calibration:?}");
            for share in [0.1, 0.5, 1.0] {
                let watts = share * limit_w;
                let interval = calibration.interval((watts, watts), 1.0);
                assert!(interval.contains(watts), "{limit_w} {interval:?}");
                assert!(interval.high_j < 5.0 * limit_w, "{limit_w} {interval:?}");
            }
        }
    }
}

#[test]
fn a_calibration_of_a_file_that_no_sensor_can_have_is_an_error() {
    let calibration = Calibration::for_device(&board("Ada", Some(75.0)));
    let text = serde_json::to_string(&calibration).unwrap();
    assert_eq!(
        serde_json::from_str::<Calibration>(&text).unwrap(),
        calibration
    );
    let known = serde_json::to_value(Calibration::linear(1.05, -3.0)).unwrap();
    for (field, value) in [
        ("gain", serde_json::json!(0.0)),
        ("gain", serde_json::json!(1.2)),
        ("offset_w", serde_json::json!(7.0)),
        (
            "corners",
            serde_json::json!([[-0.1, 0], [1, 0], [1, 0], [2, 0]]),
        ),
        // The gain and the offset are each within their range, but the pair is outside the hull.
        (
            "corners",
            serde_json::json!([[0.9, 20], [0.9, 20], [1.2, -20], [1.2, -20]]),
        ),
    ] {
        let mut changed = known.clone();
        changed[field] = value;
        let error = serde_json::from_value::<Calibration>(changed).unwrap_err();
        assert!(error.to_string().contains("Calibration"), "{error}");
    }
}

#[test]
fn boards_that_report_too_little_at_idle_and_right_under_load_lie_within_the_bounds() {
    for limit_w in [250.0, 350.0, 450.0] {
        for missing_w in [5.0, 10.0, 20.0] {
            let calibration = Calibration::for_device(&board("Ada", Some(limit_w)));
            for true_w in [missing_w + 3.0, 40.0, 80.0, 0.5 * limit_w, limit_w] {
                let reported_w = true_w - missing_w * (1.0 - true_w / limit_w);
                assert!(
                    contains(&calibration, reported_w, true_w),
                    "{limit_w} {missing_w} {true_w}"
                );
            }
        }
    }
}

#[test]
fn intervals_of_a_sensor_with_an_offset_hold_at_idle_and_say_how_wide_they_are() {
    let load = PowerProfile::square(45.0, 280.0, 20.0, 0.5);
    let sensor = Sensor {
        offset_w: -18.0,
        gain: 1.05,
        ..Sensor::for_class(SensorClass::FullTime)
    };
    let mut trace = sampled(
        &load,
        Reported::Power(SensorClass::FullTime),
        0.0,
        0.02,
        19.0,
    );
    for row in &mut trace.rows {
        let reported_w = sensor.reported_w(&load, row.time.as_secs_f64());
        row.values.set(Metric::PowerInstant, reported_w);
    }
    let idle = trace.energy(0, seconds(12.0, 18.0)).unwrap();
    let busy = trace.energy(0, seconds(2.0, 8.0)).unwrap();
    for (energy, watts) in [(&idle, 45.0), (&busy, 280.0)] {
        assert!(energy.interval.contains(6.0 * watts), "{energy}");
    }
    let wide = |energy: &Energy| energy.relative().unwrap().1;
    assert!(wide(&idle) > 0.5 && wide(&busy) < 0.15, "{idle}; {busy}");
    assert!(idle.to_string().contains(" %, +"), "{idle}");
}

#[test]
fn cards_that_nobody_compared_have_wider_bounds() {
    let width = |architecture: &str, watts: f64| {
        let calibration = Calibration::for_device(&board(architecture, Some(300.0)));
        calibration.interval((watts, watts), 1.0).width_j()
    };
    for watts in [30.0, 150.0, 300.0] {
        assert!(
            width("Blackwell", watts) > 1.3 * width("Ada", watts),
            "{watts}"
        );
    }
    let rapl = Calibration::for_device(&Device::new(Kind::Rapl, "package-0"));
    assert_eq!(rapl, Calibration::known(1.0));
}

/// Returns a window of 10 s at `true_w` of a device with gain 1.03 and offset −14 W. The reported
/// power has the error `off_w` and the bounds ± `bound_w`.
fn metered(true_w: f64, off_w: f64, bound_w: f64) -> MeteredWindow {
    let reported_j = 10.0 * (1.03 * true_w - 14.0 + off_w);
    MeteredWindow {
        reported_j,
        sampling: Interval {
            low_j: reported_j - 10.0 * bound_w,
            high_j: reported_j + 10.0 * bound_w,
        },
        true_j: 10.0 * true_w,
        lasts: Duration::from_secs(10),
    }
}

/// Returns the width of the calibrated interval of an exact reading, in W, and asserts that the
/// interval contains the truth.
fn width_w(calibration: &Calibration, true_w: f64) -> f64 {
    let reported_w = 1.03 * true_w - 14.0;
    let interval = calibration.interval((reported_w - 1e-9, reported_w + 1e-9), 1.0);
    assert!(interval.contains(true_w), "{true_w} {interval:?}");
    interval.width_j()
}

#[test]
fn a_meter_determines_gain_and_offset_at_two_powers() {
    let exact = [metered(40.0, 0.0, 0.0), metered(300.0, 0.0, 0.0)];
    let both = Calibration::from_meter(&exact).unwrap();
    assert!((both.gain - 1.03).abs() < 1e-9 && (both.offset_w + 14.0).abs() < 1e-9);
    assert!((both.joules(10.0 * (1.03 * 90.0 - 14.0), 10.0) - 900.0).abs() < 1e-6);
    // Windows that deviate from the line widen the bounds.
    let noisy = [(40.0, 1.0), (150.0, -1.0), (300.0, 1.0)];
    let windows = noisy.map(|(true_w, off_w)| metered(true_w, off_w, 0.0));
    let bounds = Calibration::from_meter(&windows).unwrap();
    let (low_w, high_w) = bounds.offsets_w();
    assert!(low_w < -14.0 && high_w > -14.0);
}

#[test]
fn a_calibration_by_a_meter_contains_all_lines_within_the_windows_sampling_intervals() {
    let (idle_w, busy_w) = (40.0, 300.0);
    for (idle_off_w, busy_off_w) in [
        (2.0, 6.0),
        (2.0, -6.0),
        (-2.0, 6.0),
        (-2.0, -6.0),
        (0.5, 1.0),
    ] {
        let windows = [
            metered(idle_w, idle_off_w, 2.0),
            metered(busy_w, busy_off_w, 6.0),
        ];
        let calibration = Calibration::from_meter(&windows).unwrap();
        let widths_w = [40.0, 90.0, 300.0].map(|true_w| width_w(&calibration, true_w));
        // The expected widths are those of the windows' own intervals, 4 W and 12 W, divided by
        // gains of 1.00 to 1.06.
        assert!(widths_w[0] > 3.7 && widths_w[0] < 4.2, "{widths_w:?}");
        assert!(widths_w[2] > 11.0 && widths_w[2] < 12.5, "{widths_w:?}");
    }
    // Ten windows at each power do not narrow the bounds, because the sampling errors of all
    // windows may be the same.
    let mut windows = vec![metered(idle_w, 2.0, 2.0); 10];
    windows.extend(vec![metered(busy_w, 6.0, 6.0); 10]);
    let calibration = Calibration::from_meter(&windows).unwrap();
    assert!(width_w(&calibration, busy_w) > 11.3);
}

#[test]
fn a_meter_determines_the_ratio_at_one_power_only() {
    let windows = [metered(300.0, 0.0, 3.0), metered(310.0, 0.0, 3.0)];
    let one = Calibration::from_meter(&windows).unwrap();
    let (low_w, high_w) = one.offsets_w();
    assert!(low_w <= -40.0 && high_w >= 30.0);
    // The expected width is the window's own 6 W plus 0.5 W of deviation, divided by gains of 0.86
    // to 1.1.
    let width = width_w(&one, 305.0);
    assert!(width > 5.5 && width < 7.6, "{width}");
    assert!(width_w(&one, 40.0) > 20.0);
}

#[test]
fn windows_of_a_meter_that_no_sensor_can_report_are_errors() {
    let is_rejected = |windows: &[MeteredWindow]| {
        let rejected = Calibration::from_meter(windows);
        matches!(rejected, Err(crate::Error::ParameterInvalid { .. }))
    };
    let fine = metered(100.0, 0.0, 1.0);
    assert!(!is_rejected(&[fine]) && is_rejected(&[]));
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let window = MeteredWindow {
            true_j: bad,
            ..fine
        };
        assert!(is_rejected(&[window]));
    }
    for (low_j, high_j) in [
        (0.0, 1.0),
        (2e3, 3e3),
        (f64::NAN, 3e3),
        (0.0, f64::INFINITY),
    ] {
        let sampling = Interval { low_j, high_j };
        assert!(
            is_rejected(&[MeteredWindow { sampling, ..fine }]),
            "{sampling:?}"
        );
    }
    let falling = [metered(40.0, 300.0, 0.0), metered(300.0, 0.0, 0.0)];
    assert!(is_rejected(&falling));
    // If sampling intervals overlap, reported power may not increase with true power.
    assert!(is_rejected(&[
        metered(100.0, 0.0, 40.0),
        metered(130.0, 0.0, 40.0)
    ]));
}
