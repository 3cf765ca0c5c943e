//! The fake library, called through `nvml-wrapper`: its readings compared with the model, and its
//! errors.

use crate::support::Fake;
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, PerformanceState, Sampling, TemperatureSensor};
use nvml_wrapper::enums::device::{GpuLockedClocksSetting, SampleValue, UsedGpuMemory};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use std::time::Duration;
use telemetry::synthetic::{
    Board, Control, FaultRule, Gpu, GpuModel, Model, PowerField, PowerProfile, Process, Quantity,
    Scenario,
};

/// Converts W to mW, or J to mJ, rounded as NVML reports them; none if negative.
fn milli(value: f64) -> Option<u64> {
    serde_json::from_str(&format!("{:.0}", value * 1e3)).ok()
}

/// Returns the value of a field; none if the field is not supported.
fn field(device: &Device<'_>, id: u32) -> Result<Option<u64>, NvmlError> {
    let values = device.field_values_for(&[FieldId(id)])?;
    match values
        .into_iter()
        .next()
        .expect("one requested field returns one result")?
        .value
    {
        Ok(SampleValue::U32(value)) => Ok(Some(u64::from(value))),
        Ok(SampleValue::U64(value)) => Ok(Some(value)),
        Err(NvmlError::NotSupported) => Ok(None),
        other => panic!("field {id}: {other:?}"),
    }
}

/// Returns the result of a call; none if the call is not supported. Panics on other errors.
fn reported<T>(answer: Result<T, NvmlError>) -> Option<T> {
    match answer {
        Err(NvmlError::NotSupported) => None,
        answer => Some(answer.expect("the call succeeds or is not supported")),
    }
}

#[test]
fn every_board_reports_its_identity() -> Result<(), NvmlError> {
    let fake = Fake::play(&Scenario::from_boards(&Board::ALL));
    let nvml = fake.nvml();
    assert_eq!(nvml.device_count()?, 6);
    assert_eq!(nvml.sys_driver_version()?, "570.133.20");
    assert_eq!(nvml.sys_nvml_version()?, "12.570.133.20");
    assert_eq!(nvml.sys_cuda_driver_version()?, 12_080);
    for (index, board) in (0..).zip(Board::ALL) {
        let (device, gpu) = (nvml.device_by_index(index)?, Gpu::from_board(board));
        assert_eq!((device.index()?, device.name()?), (index, gpu.name));
        let capability = device.cuda_compute_capability()?;
        let (major, minor) = gpu.compute_capability;
        assert_eq!(i64::from(capability.major), i64::from(major));
        assert_eq!(i64::from(capability.minor), i64::from(minor));
        assert_eq!(device.architecture()?.as_c(), gpu.architecture as u32);
        assert_eq!(device.num_cores()?, gpu.n_cores);
        assert_eq!(device.memory_bus_width()?, gpu.memory_bus_bits);
        let place = device.pci_info()?;
        assert_eq!((place.domain, place.bus, place.device), (0, index + 1, 0));
        assert_eq!(nvml.device_by_pci_bus_id(&*place.bus_id)?.index()?, index);
        assert_eq!(nvml.device_by_uuid(&*device.uuid()?)?.index()?, index);
    }
    Ok(())
}

#[test]
fn a_t4_has_the_bandwidth_of_its_data_sheet() -> Result<(), NvmlError> {
    let fake = Fake::play(&Scenario::default());
    let nvml = fake.nvml();
    let device = nvml.device_by_index(0)?;
    let megabits = 2 * device.max_clock_info(Clock::Memory)? * device.memory_bus_width()?;
    assert_eq!(megabits / 8, 320_064);
    Ok(())
}

#[test]
fn reported_values_are_those_of_the_model() -> Result<(), NvmlError> {
    let scenario = Scenario::from_boards(&Board::ALL);
    let model = Model::new(scenario.clone()).expect("the scenario is valid");
    let fake = Fake::play(&scenario);
    let nvml = fake.nvml();
    // Irregular times, so that reads do not always coincide with updates.
    for time_ms in (0..60).map(|i| i * 137 + i * i) {
        fake.set_time(Duration::from_millis(time_ms));
        let time_s = Duration::from_millis(time_ms).as_secs_f64();
        for (index, gpu) in (0..).zip(model.gpus()) {
            let device = nvml.device_by_index(index)?;
            check(&device, gpu, time_s)?;
        }
    }
    Ok(())
}

fn check(device: &Device<'_>, gpu: &GpuModel, time_s: f64) -> Result<(), NvmlError> {
    let at = format!("{} at {time_s} s", gpu.gpu().name);
    let power = |field| gpu.reported_w(field, time_s).and_then(milli);
    let draw = reported(device.power_usage()).map(u64::from);
    assert_eq!(draw, power(PowerField::Draw), "{at}");
    assert_eq!(field(device, 186)?, power(PowerField::Instant), "{at}");
    assert_eq!(field(device, 185)?, power(PowerField::Average), "{at}");
    let counted = gpu.counted_j(time_s).and_then(milli);
    assert_eq!(reported(device.total_energy_consumption()), counted, "{at}");
    assert_eq!(
        (field(device, 83)?, field(device, 191)?),
        (counted, counted),
        "{at}"
    );
    let degrees = device.temperature(TemperatureSensor::Gpu)?;
    assert!(
        (f64::from(degrees) - gpu.temperature_c(time_s)).abs() <= 0.5,
        "{at}"
    );
    let busy = reported(device.utilization_rates()).map(|rates| rates.gpu);
    let expected = gpu.busy_pct(time_s).map(|busy| busy.0);
    assert!(
        (f64::from(busy.unwrap_or(0)) - expected.unwrap_or(0.0)).abs() <= 0.5,
        "{at}"
    );
    assert_eq!(
        f64::from(device.clock_info(Clock::SM)?),
        gpu.sm_mhz(time_s),
        "{at}"
    );
    let is_idle = device.performance_state()? == PerformanceState::Eight;
    assert_eq!(is_idle, gpu.performance_state(time_s) == 8, "{at}");
    let reasons = device.current_throttle_reasons()?.bits();
    assert_eq!(reasons, gpu.clock_reasons(time_s), "{at}");
    let memory = device.memory_info()?;
    let described = &gpu.gpu().memory;
    assert_eq!(
        (memory.total, memory.reserved),
        (described.total_bytes, described.reserved_bytes)
    );
    assert_eq!(memory.total, memory.free + memory.used + memory.reserved);
    Ok(())
}

#[test]
fn limits_thresholds_and_clocks_are_those_described() -> Result<(), NvmlError> {
    let fake = Fake::play(&Scenario::from_boards(&[Board::V100]));
    let nvml = fake.nvml();
    let (device, gpu) = (nvml.device_by_index(0)?, Gpu::from_board(Board::V100));
    let limits = device.power_management_limit_constraints()?;
    assert_eq!((limits.min_limit, limits.max_limit), (150_000, 300_000));
    assert_eq!(device.power_management_limit_default()?, 300_000);
    assert_eq!(device.enforced_power_limit()?, 300_000);
    assert_eq!(device.supported_memory_clocks()?, gpu.clocks.memory_mhz);
    let clocks_mhz = device.supported_graphics_clocks(877)?;
    assert!(clocks_mhz.is_sorted_by(|higher, lower| higher - lower == 15));
    assert_eq!(clocks_mhz, gpu.clocks.sm_mhz);
    let unknown = device.supported_graphics_clocks(876);
    assert!(matches!(unknown, Err(NvmlError::NotFound)), "{unknown:?}");
    assert_eq!(device.max_clock_info(Clock::Graphics)?, 1530);
    Ok(())
}

#[test]
fn used_memory_of_any_size_is_reported() -> Result<(), NvmlError> {
    let mut scenario = Scenario::from_boards(&[Board::V100]);
    scenario.gpus[0].memory.used_bytes = Quantity::Constant(1e30);
    let fake = Fake::play(&scenario);
    let memory = fake.nvml().device_by_index(0)?.memory_info()?;
    assert_eq!((memory.used, memory.free), (u64::MAX, 0));
    Ok(())
}

#[test]
fn samples_are_the_updates_since_the_last_seen_one() -> Result<(), NvmlError> {
    let scenario = Scenario::from_boards(&[Board::V100]);
    let model = Model::new(scenario.clone()).expect("the scenario is valid");
    let fake = Fake::play(&scenario);
    let nvml = fake.nvml();
    let device = nvml.device_by_index(0)?;
    fake.set_time(Duration::from_millis(3010));
    let samples = device.samples(Sampling::Power, None)?;
    // The sample buffer holds 120 updates of 20 ms.
    assert_eq!(samples.len(), 120);
    let began_us = scenario.began_unix_us;
    for (i, sample) in (0_u32..).zip(&samples) {
        let time_ms = 3000 - 20 * (119 - u64::from(i));
        assert_eq!(sample.timestamp, began_us + time_ms * 1000);
        let time = Duration::from_millis(time_ms + 10).as_secs_f64();
        let expected = model.gpus()[0]
            .reported_w(PowerField::Instant, time)
            .and_then(milli);
        let SampleValue::U32(reported) = sample.value else {
            panic!("{sample:?}")
        };
        assert_eq!(Some(u64::from(reported)), expected, "{time_ms} ms");
    }
    let seen = samples[117].timestamp;
    assert_eq!(device.samples(Sampling::Power, seen)?, samples[118..]);
    let none = device.samples(Sampling::Power, samples[119].timestamp);
    assert!(matches!(none, Err(NvmlError::NotFound)), "{none:?}");
    let busy = device.samples(Sampling::GpuUtilization, None)?;
    assert_eq!(busy.len(), 19);
    Ok(())
}

#[test]
fn an_old_driver_lacks_what_came_later() -> Result<(), NvmlError> {
    let fake = Fake::play(&Scenario::from_boards(&[Board::Rtx3090]).on_driver("470.57.02"));
    let nvml = fake.nvml();
    let device = nvml.device_by_index(0)?;
    assert_eq!(nvml.sys_cuda_driver_version()?, 11_040);
    let memory = device.memory_info();
    assert!(
        matches!(memory, Err(NvmlError::FunctionNotFound)),
        "{memory:?}"
    );
    let processes = device.running_compute_processes();
    assert!(
        matches!(processes, Err(NvmlError::FunctionNotFound)),
        "{processes:?}"
    );
    assert_eq!((field(&device, 185)?, field(&device, 186)?), (None, None));
    assert!(device.power_usage().is_ok());
    Ok(())
}

#[test]
fn fields_that_were_renumbered_are_found_under_either_driver() -> Result<(), NvmlError> {
    // The wrapper translates the number. Without the translation it would query power smoothing,
    // which is not supported.
    for version in ["580.65.06", "580.82.07"] {
        let fake = Fake::play(&Scenario::default().on_driver(version));
        let nvml = fake.nvml();
        let device = nvml.device_by_index(0)?;
        assert_eq!(field(&device, 251)?, Some(0), "{version}");
        assert_eq!(field(&device, 256)?, None, "{version}");
    }
    Ok(())
}

#[test]
fn a_divided_gpu_reports_no_utilisation() -> Result<(), NvmlError> {
    let mut scenario = Scenario::from_boards(&[Board::A100, Board::A100, Board::T4]);
    scenario.gpus[0].mig = true;
    let fake = Fake::play(&scenario);
    let nvml = fake.nvml();
    let (divided, whole) = (nvml.device_by_index(0)?, nvml.device_by_index(1)?);
    assert_eq!(
        (divided.mig_mode()?.current, whole.mig_mode()?.current),
        (1, 0)
    );
    assert!(matches!(
        divided.utilization_rates(),
        Err(NvmlError::NotSupported)
    ));
    assert!(whole.utilization_rates().is_ok() && divided.power_usage().is_ok());
    let other = nvml.device_by_index(2)?.mig_mode();
    assert!(matches!(other, Err(NvmlError::NotSupported)));
    Ok(())
}

#[test]
fn a_lost_gpu_stays_lost_until_the_library_is_initialised_again() -> Result<(), NvmlError> {
    let rule = FaultRule {
        until_init: true,
        ..FaultRule::lost(1, 2000)
    };
    let fake = Fake::play(&Scenario::from_boards(&[Board::T4, Board::T4]).with_fault(rule));
    let nvml = fake.nvml();
    let (whole, lost) = (nvml.device_by_index(0)?, nvml.device_by_index(1)?);
    fake.set_time(Duration::from_millis(1999));
    assert!(lost.power_usage().is_ok());
    fake.set_time(Duration::from_secs(2));
    assert!(matches!(lost.power_usage(), Err(NvmlError::GpuLost)));
    assert!(matches!(nvml.device_by_index(1), Err(NvmlError::GpuLost)));
    assert!(whole.power_usage().is_ok());
    assert_eq!(nvml.device_count()?, 2);
    fake.set_time(Duration::from_secs(3));
    drop(nvml);
    let nvml = fake.nvml();
    assert!(nvml.device_by_index(1)?.power_usage().is_ok());
    Ok(())
}

#[test]
fn faults_of_one_symbol_or_field_leave_others_alone() -> Result<(), NvmlError> {
    let scenario = Scenario::from_boards(&[Board::T4])
        .with_fault(FaultRule::for_symbol(
            "nvmlDeviceGetTotalEnergyConsumption",
            3,
        ))
        .with_fault(FaultRule::for_symbol("nvmlDeviceGetUtilizationRates", 4))
        .with_fault(FaultRule {
            field: Some(186),
            ..FaultRule::for_symbol("nvmlDeviceGetFieldValues", 3)
        });
    let fake = Fake::play(&scenario);
    let nvml = fake.nvml();
    let device = nvml.device_by_index(0)?;
    assert!(matches!(
        device.total_energy_consumption(),
        Err(NvmlError::NotSupported)
    ));
    assert!(matches!(
        device.utilization_rates(),
        Err(NvmlError::NoPermission)
    ));
    assert_eq!(field(&device, 186)?, None);
    assert_eq!(field(&device, 83)?, Some(0));
    Ok(())
}

#[test]
fn a_driver_that_is_not_loaded_fails_the_initialisation() {
    let rule = FaultRule {
        until_ms: Some(1000),
        ..FaultRule::for_symbol("nvmlInit*", 9)
    };
    let fake = Fake::play(&Scenario::default().with_fault(rule));
    assert!(matches!(fake.init(), Err(NvmlError::DriverNotLoaded)));
    fake.set_time(Duration::from_secs(1));
    assert!(fake.init().is_ok());
    assert_eq!(fake.calls("nvmlInit_v2"), 2);
}

#[test]
fn clocks_are_locked_and_reset_and_both_are_remembered() -> Result<(), NvmlError> {
    let mut scenario = Scenario::from_boards(&[Board::V100]);
    let gpu = &mut scenario.gpus[0];
    gpu.clocks = Gpu::from_board(Board::P100).clocks;
    gpu.power = PowerProfile::constant(56.18 + 1.776e-11 * 1328_f64.powi(4));
    gpu.utilisation.gpu_pct = Quantity::Constant(100.0);
    let fake = Fake::play(&scenario);
    let nvml = fake.nvml();
    let mut device = nvml.device_by_index(0)?;
    fake.set_time(Duration::from_secs(1));
    device.set_gpu_locked_clocks(GpuLockedClocksSetting::Numeric {
        min_clock_mhz: 936,
        max_clock_mhz: 936,
    })?;
    assert!(fake.is_locked(0));
    fake.set_time(Duration::from_secs(2));
    assert_eq!(device.clock_info(Clock::SM)?, 936);
    let expected_w = 56.18 + 1.776e-11 * 936_f64.powi(4);
    assert_eq!(
        u64::from(device.power_usage()?),
        milli(expected_w).expect("the power is not negative")
    );
    let images = fake.work(0, Duration::from_secs(1), Duration::from_secs(2));
    assert!((images - 1.0 / (2.346e-3 + 7.677 / 936.0)).abs() < 1e-9);
    device.reset_gpu_locked_clocks()?;
    assert!(!fake.is_locked(0));
    device.set_power_management_limit(200_000)?;
    assert_eq!(device.enforced_power_limit()?, 200_000);
    let rejected = device.set_power_management_limit(100_000);
    assert!(
        matches!(rejected, Err(NvmlError::InvalidArg)),
        "{rejected:?}"
    );
    let actions = fake.actions();
    let controls: Vec<Control> = actions.iter().map(|action| action.control).collect();
    let expected = [
        Control::LockClocks(936, 936),
        Control::ResetClocks,
        Control::SetLimit(200.0),
        Control::SetLimit(100.0),
    ];
    assert_eq!(controls, expected);
    assert_eq!((actions[0].time_s, actions[1].time_s), (1.0, 2.0));
    assert!(actions[2].rejected.is_none() && actions[3].rejected.is_some());
    Ok(())
}

#[test]
fn controls_without_root_are_rejected() -> Result<(), NvmlError> {
    let fake = Fake::play(&Scenario {
        may_control: false,
        ..Scenario::default()
    });
    let nvml = fake.nvml();
    let mut device = nvml.device_by_index(0)?;
    let rejected = device.set_power_management_limit(65_000);
    assert!(
        matches!(rejected, Err(NvmlError::NoPermission)),
        "{rejected:?}"
    );
    assert_eq!(device.enforced_power_limit()?, 70_000);
    Ok(())
}

#[test]
fn processes_are_listed_by_kind() -> Result<(), NvmlError> {
    let mut scenario = Scenario::default();
    let process = |pid, is_graphics| Process {
        pid,
        is_graphics,
        gpu_pct: 70,
        ..Process::default()
    };
    scenario.gpus[0].processes = vec![process(1, false), process(2, true), process(3, false)];
    let fake = Fake::play(&scenario);
    let nvml = fake.nvml();
    let device = nvml.device_by_index(0)?;
    let computing = device.running_compute_processes()?;
    assert_eq!(
        computing
            .iter()
            .map(|process| process.pid)
            .collect::<Vec<_>>(),
        [1, 3]
    );
    assert!(matches!(computing[0].used_gpu_memory, UsedGpuMemory::Used(bytes) if bytes == 1 << 30));
    assert_eq!(device.running_graphics_processes_count()?, 1);
    assert_eq!(nvml.sys_process_name(3, 64)?, "python3");
    assert!(matches!(
        nvml.sys_process_name(4, 64),
        Err(NvmlError::NotFound)
    ));
    let busy = device.process_utilization_stats(None)?;
    assert_eq!(
        busy.iter().map(|sample| sample.sm_util).collect::<Vec<_>>(),
        [70; 3]
    );
    let later = device.process_utilization_stats(busy[0].timestamp);
    assert!(matches!(later, Err(NvmlError::NotFound)), "{later:?}");
    Ok(())
}

#[test]
fn threads_ask_at_once_and_every_call_counts() -> Result<(), NvmlError> {
    let fake = Fake::play(&Scenario::default());
    let nvml = fake.nvml();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let device = nvml.device_by_index(0).expect("there is a GPU");
                for _ in 0..500 {
                    device.power_usage().expect("the board reports power");
                }
            });
        }
    });
    assert_eq!(fake.calls("nvmlDeviceGetPowerUsage"), 4000);
    fake.replay(&Scenario::default());
    assert_eq!(fake.calls("nvmlDeviceGetPowerUsage"), 0);
    Ok(())
}

#[test]
fn time_runs_on_from_where_it_stood() {
    let fake = Fake::play(&Scenario::default());
    fake.set_time(Duration::from_secs(100));
    assert_eq!(fake.time(), Duration::from_secs(100));
    fake.use_real_time();
    let first = fake.time();
    assert!(first >= Duration::from_secs(100) && first < Duration::from_secs(200));
    while fake.time() == first {
        std::hint::spin_loop();
    }
}
