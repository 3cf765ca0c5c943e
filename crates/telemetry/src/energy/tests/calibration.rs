//! Gains and offsets of sensors: published ones, models of boards with rails that no sensor sees, and fits to a meter.

use super::*;
use crate::Metered;

/// Offset (W), error of the gain (%) and power limit (W) of the cards in the figure of steady-state accuracy of Yang,
/// Adamek and Armour 2024 (`plotting/figure_plotting.py` of `JimZeyuYang/GPU_Power_Benchmark`); limits by NVIDIA's and
/// the vendors' data sheets.
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
        ..Device::named(Kind::Gpu, "a board")
    }
}

fn contains(calibration: &Calibration, reported_w: f64, true_w: f64) -> bool {
    calibration
        .interval((reported_w, reported_w), 1.0)
        .contains(true_w)
}

#[test]
fn published_cards_lie_within_the_bounds_from_idle_to_full_load() {
    for (name, offset_w, gain_pct, limit_w) in PUBLISHED {
        for limit in [Some(limit_w), None] {
            let calibration = Calibration::of_device(&board("Ampere", limit));
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

#[test]
fn boards_that_report_too_little_at_idle_and_right_under_load_lie_within_the_bounds() {
    for limit_w in [250.0, 350.0, 450.0] {
        for missing_w in [5.0, 10.0, 20.0] {
            let calibration = Calibration::of_device(&board("Ada", Some(limit_w)));
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
    let load = Program::square(45.0, 280.0, 20.0, 0.5);
    let sensor = Sensor {
        offset_w: -18.0,
        gain: 1.05,
        ..Sensor::of(SensorClass::FullTime)
    };
    let mut trace = sampled(&load, Teller::Power(SensorClass::FullTime), 0.0, 0.02, 19.0);
    for row in &mut trace.rows {
        let reported_w = sensor.told_w(&load, row.time.as_secs_f64());
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
        let calibration = Calibration::of_device(&board(architecture, Some(300.0)));
        calibration.interval((watts, watts), 1.0).width_j()
    };
    for watts in [30.0, 150.0, 300.0] {
        assert!(
            width("Blackwell", watts) > 1.3 * width("Ada", watts),
            "{watts}"
        );
    }
    let rapl = Calibration::of_device(&Device::named(Kind::Rapl, "package-0"));
    assert_eq!(rapl, Calibration::known(1.0));
}

#[test]
fn a_meter_determines_gain_and_offset_at_two_powers_and_their_ratio_at_one() {
    let metered = |true_w: f64, off_w: f64| Metered {
        reported_j: 10.0 * (1.03 * true_w - 14.0 + off_w),
        true_j: 10.0 * true_w,
        lasts: Duration::from_secs(10),
    };
    let both = Calibration::from_meter(&[metered(40.0, 0.0), metered(300.0, 0.0)]).unwrap();
    assert!((both.gain - 1.03).abs() < 1e-9 && (both.offset_w + 14.0).abs() < 1e-9);
    assert!(both.is_offset_known());
    assert!((both.joules(10.0 * (1.03 * 90.0 - 14.0), 10.0) - 900.0).abs() < 1e-6);
    // Windows beside the line leave bounds.
    let noisy = [
        metered(40.0, 1.0),
        metered(150.0, -1.0),
        metered(300.0, 1.0),
    ];
    let bounds = Calibration::from_meter(&noisy).unwrap();
    let (low_w, high_w) = bounds.offsets_w();
    assert!(low_w < -14.0 && high_w > -14.0 && bounds.is_offset_known());
    // One power: exact there, and open elsewhere.
    let one = Calibration::from_meter(&[metered(300.0, 0.0), metered(310.0, 0.0)]).unwrap();
    assert!(!one.is_offset_known());
    let width = |true_w: f64| {
        let reported_w = 1.03 * true_w - 14.0;
        let interval = one.interval((reported_w - 1e-9, reported_w + 1e-9), 1.0);
        assert!(interval.contains(true_w), "{true_w} {interval:?}");
        interval.width_j()
    };
    assert!(width(305.0) < 1e-6 && width(40.0) > 20.0);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let window = Metered {
            true_j: bad,
            ..metered(100.0, 0.0)
        };
        let refused = Calibration::from_meter(&[window]);
        assert!(matches!(
            refused,
            Err(crate::Error::ParameterInvalid { .. })
        ));
    }
    assert!(Calibration::from_meter(&[]).is_err());
    let falling = [metered(40.0, 300.0), metered(300.0, 0.0)];
    assert!(Calibration::from_meter(&falling).is_err());
}
