//! The source `nvml`, reading the fake library, compared with the model of each scenario.

use crate::support;
use crate::support::{Fake, fake};
use std::path::Path;
use std::time::Duration;
use telemetry::nvml::Nvml;
use telemetry::synthetic::{Board, FaultRule, Model, Scenario, Synthetic};
use telemetry::{Error, Fault, Metric, Reading, Source};

fn at(fake: &Fake, nvml: &mut Nvml, device: usize, ms: u64) -> Reading {
    let now = Duration::from_millis(ms);
    fake.set_time(now);
    nvml.read(device, now)
}

#[test]
fn values_of_the_library_are_those_of_the_model() {
    for driver in [
        "450.80.02",
        "510.47.03",
        "530.30.02",
        "570.133.20",
        "580.95.05",
    ] {
        let mut scenario = Scenario::from_boards(&Board::ALL).on_driver(driver);
        scenario.gpus[0].scopes.memory = Some(0.25);
        scenario.gpus[5].scopes.module = Some(1.5);
        let fake = Fake::play(&scenario);
        let mut nvml = Nvml::open_at(&support::fake()).unwrap();
        let mut model = Synthetic::new(Model::new(scenario).unwrap());
        assert_eq!(nvml.devices().len(), Board::ALL.len());
        for (reported, known) in nvml.devices().iter().zip(model.devices()) {
            assert_eq!(reported.name, known.name);
            assert_eq!(reported.uuid, known.uuid);
            assert_eq!(reported.limits, known.limits, "{}", known.name);
            assert_eq!(reported.architecture, known.architecture);
            for (reported, known) in reported.capabilities.iter().zip(&known.capabilities) {
                assert_eq!(
                    (reported.metric, reported.fault),
                    (known.metric, known.fault),
                    "{driver}"
                );
            }
        }
        for ms in [0, 1, 99, 100, 350, 1234, 2999, 60_000] {
            for device in 0..Board::ALL.len() {
                let reported = at(&fake, &mut nvml, device, ms);
                let known = model.read(device, Duration::from_millis(ms));
                for metric in Metric::ALL {
                    let (reported, known) = (reported.values.get(metric), known.values.get(metric));
                    // NVML reports mW, mJ, whole degrees and whole per cent.
                    let step = match metric {
                        Metric::Temperature | Metric::GpuBusy | Metric::MemoryBusy => 0.51,
                        Metric::SmClock | Metric::MemoryClock => 0.51,
                        _ => 0.000_51,
                    };
                    let is_near = match (reported, known) {
                        (Some(reported), Some(known)) => (reported - known).abs() <= step,
                        (None, None) => true,
                        _ => false,
                    };
                    assert!(
                        is_near,
                        "{driver} {device} {metric} at {ms}: {reported:?} {known:?}"
                    );
                }
                assert_eq!(reported.faults, []);
            }
        }
    }
}

#[test]
fn what_is_not_supported_is_asked_for_once() {
    let rule = FaultRule::for_symbol("nvmlDeviceGetTotalEnergyConsumption", 3);
    let fake = Fake::play(&Scenario::default().with_fault(rule));
    let mut nvml = Nvml::open_at(&support::fake()).unwrap();
    let energy = nvml.devices()[0]
        .capabilities
        .iter()
        .find(|c| c.metric == Metric::Energy);
    assert_eq!(energy.unwrap().fault, Some(Fault::NotSupported));
    let before = fake.calls("nvmlDeviceGetTotalEnergyConsumption");
    for ms in 0..10 {
        let reading = at(&fake, &mut nvml, 0, ms);
        assert_eq!(reading.faults, []);
        assert!(reading.values.get(Metric::PowerDraw).is_some());
    }
    assert_eq!(fake.calls("nvmlDeviceGetTotalEnergyConsumption"), before);
}

#[test]
fn a_call_that_fails_for_a_time_is_a_fault_of_one_metric() {
    let rule = FaultRule {
        from_ms: 100,
        until_ms: Some(200),
        ..FaultRule::for_symbol("nvmlDeviceGetTemperature*", 999)
    };
    let fake = Fake::play(&Scenario::default().with_fault(rule));
    let mut nvml = Nvml::open_at(&support::fake()).unwrap();
    assert!(at(&fake, &mut nvml, 0, 50).faults.is_empty());
    let reading = at(&fake, &mut nvml, 0, 150);
    assert_eq!(reading.faults, [(Metric::Temperature, Fault::Code(999))]);
    assert!(reading.values.get(Metric::PowerInstant).is_some());
    assert!(
        at(&fake, &mut nvml, 0, 250)
            .values
            .get(Metric::Temperature)
            .is_some()
    );
}

#[test]
fn a_lost_gpu_ends_nothing_and_is_found_again() {
    let lost = FaultRule {
        until_init: true,
        ..FaultRule::lost(1, 2000)
    };
    let fake = Fake::play(&Scenario::from_boards(&[Board::T4, Board::A100]).with_fault(lost));
    let mut nvml = Nvml::open_at(&support::fake()).unwrap();
    assert!(at(&fake, &mut nvml, 1, 1900).faults.is_empty());
    for ms in [2100, 2200, 3000] {
        let reading = at(&fake, &mut nvml, 1, ms);
        assert!(reading.values.iter().next().is_none());
        assert!(
            reading
                .faults
                .iter()
                .all(|(_, fault)| *fault == Fault::Lost),
            "{reading:?}"
        );
        assert!(
            reading
                .faults
                .iter()
                .any(|(metric, _)| *metric == Metric::PowerInstant)
        );
        assert!(at(&fake, &mut nvml, 0, ms).faults.is_empty());
    }
    // One second after the loss the source probes for the device and reloads the library.
    let found = at(&fake, &mut nvml, 1, 3200);
    assert!(found.faults.is_empty() && found.values.get(Metric::Energy).is_some());
    assert!(at(&fake, &mut nvml, 0, 3300).faults.is_empty());
}

/// Reads two GPUs ten times a second for ten minutes, and returns how often the library was
/// reloaded. Reads of the first GPU must never fail.
fn looks_in_ten_minutes(fake: &Fake) -> u64 {
    let mut nvml = Nvml::open_at(&support::fake()).expect("the fake library can be opened");
    let before = fake.calls("nvmlInit_v2");
    for tenth in 0..6000 {
        assert!(at(fake, &mut nvml, 0, tenth * 100).faults.is_empty());
        let _ = at(fake, &mut nvml, 1, tenth * 100);
    }
    fake.calls("nvmlInit_v2") - before
}

#[test]
fn a_gpu_that_is_lost_for_good_is_looked_for_ever_less_often() {
    let lost = FaultRule::lost(1, 2000);
    let fake = Fake::play(&Scenario::from_boards(&[Board::T4, Board::A100]).with_fault(lost));
    // Backoff: after 1, 2, 4, … 64 s, and then every 64 s, which is 14 times in ten minutes.
    assert_eq!(looks_in_ten_minutes(&fake), 14);
}

#[test]
fn a_gpu_that_is_found_without_readings_is_probed_ever_less_often() {
    let silent = FaultRule {
        gpu: Some(1),
        from_ms: 2000,
        ..FaultRule::for_symbol("nvmlDeviceGetPowerUsage", 15)
    };
    let fake = Fake::play(&Scenario::from_boards(&[Board::T4, Board::A100]).with_fault(silent));
    let looks = looks_in_ten_minutes(&fake);
    assert!((10..=14).contains(&looks), "{looks}");
}

#[test]
fn a_gpu_that_is_lost_for_good_delays_no_other() {
    let for_good = FaultRule::lost(0, 1000);
    let for_a_time = FaultRule {
        until_init: true,
        ..FaultRule::lost(1, 300_000)
    };
    let scenario = Scenario::from_boards(&[Board::T4, Board::A100, Board::H100]);
    let fake = Fake::play(&scenario.with_fault(for_good).with_fault(for_a_time));
    let mut nvml = Nvml::open_at(&support::fake()).unwrap();
    let mut blind = 0;
    for tenth in 0..4000 {
        let _ = at(&fake, &mut nvml, 0, tenth * 100);
        blind += usize::from(!at(&fake, &mut nvml, 1, tenth * 100).faults.is_empty());
        assert!(at(&fake, &mut nvml, 2, tenth * 100).faults.is_empty());
    }
    assert!((1..=11).contains(&blind), "{blind} tenths of a second");
}

#[test]
fn a_gpu_that_may_not_be_opened_is_a_device_with_that_fault() {
    let rejected = FaultRule {
        gpu: Some(1),
        ..FaultRule::for_symbol("nvmlDeviceGetHandleByIndex*", 4)
    };
    let fake = Fake::play(&Scenario::from_boards(&[Board::T4, Board::A100]).with_fault(rejected));
    let mut nvml = Nvml::open_at(&support::fake()).unwrap();
    let device = &nvml.devices()[1];
    let is_rejected = |c: &telemetry::Capability| c.fault == Some(Fault::NoPermission);
    assert!(device.capabilities.iter().all(is_rejected), "{device:?}");
    let before = fake.calls("nvmlInit_v2");
    for second in 0..100 {
        assert!(at(&fake, &mut nvml, 0, second * 1000).faults.is_empty());
        let reading = at(&fake, &mut nvml, 1, second * 1000);
        assert!(reading.faults.is_empty() && reading.values == telemetry::Values::none());
    }
    assert_eq!(fake.calls("nvmlInit_v2"), before);
}

#[test]
fn a_driver_that_goes_and_comes_back_is_waited_for() {
    let gone = FaultRule {
        from_ms: 1000,
        until_ms: Some(5000),
        ..FaultRule::for_symbol("nvml*", 9)
    };
    let fake = Fake::play(&Scenario::default().with_fault(gone));
    let mut nvml = Nvml::open_at(&support::fake()).unwrap();
    for ms in [1100, 2500, 4000] {
        let faults = at(&fake, &mut nvml, 0, ms).faults;
        let is_gone = |(_, fault): &(Metric, Fault)| *fault == Fault::DriverGone;
        assert!(
            !faults.is_empty() && faults.iter().all(is_gone),
            "{ms}: {faults:?}"
        );
    }
    let reading = at(&fake, &mut nvml, 0, 6000);
    assert!(reading.faults.is_empty() && reading.values.get(Metric::Energy).is_some());
}

#[test]
fn a_divided_gpu_says_what_only_the_whole_would() {
    let mut scenario = Scenario::from_boards(&[Board::A100]);
    scenario.gpus[0].mig = true;
    let _fake = Fake::play(&scenario);
    let nvml = Nvml::open_at(&fake()).unwrap();
    let device = &nvml.devices()[0];
    assert!(device.is_mig);
    let busy = device
        .capabilities
        .iter()
        .find(|c| c.metric == Metric::GpuBusy)
        .unwrap();
    assert_eq!(busy.fault, Some(Fault::NotOnMig));
    assert!(device.field(Metric::Energy).is_some());
}

#[test]
fn a_query_reports_what_a_t4_is() {
    let _fake = Fake::play(&Scenario::default().on_driver("510.47.03"));
    let nvml = Nvml::open_at(&fake()).unwrap();
    let query = nvml.query(0);
    assert_eq!(query.name.as_deref(), Some("Tesla T4"));
    assert_eq!(query.compute_capability, Some((7, 5)));
    assert_eq!(query.multiprocessors, Some(40));
    assert!((query.bandwidth_gb_s.unwrap() - 320.064).abs() < 1e-9);
    // 15360 MiB, as `nvidia-smi` reports; CUDA reports less, because the driver reserves memory.
    assert_eq!(query.memory_bytes, Some(15_360 << 20));
    assert_eq!(nvml.cuda_version(), Some((11, 6)));
    assert_eq!(nvml.driver(), Some("510.47.03"));
}

#[test]
fn a_library_that_is_not_there_is_a_typed_error() {
    for path in ["/nowhere/libnvidia-ml.so.1", "/etc/hostname", ""] {
        let error = Nvml::open_at(Path::new(path)).unwrap_err();
        assert!(matches!(error, Error::Library { .. }), "{path}: {error}");
    }
    let _fake = Fake::play(&Scenario::default().with_fault(FaultRule::for_symbol("nvmlInit*", 9)));
    let error = Nvml::open_at(&fake()).unwrap_err();
    assert!(error.to_string().contains("driver"), "{error}");
}
