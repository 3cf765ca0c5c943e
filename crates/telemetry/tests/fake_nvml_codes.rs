//! Error codes of the fake library for arguments that a wrapper would not pass on.
#![allow(unsafe_code, reason = "NVML is called as a C program calls it")]

mod support;

use std::ffi::{CStr, c_char};
use std::process::Command;
use std::ptr::{null, null_mut};
use std::time::Duration;
use support::Fake;
use telemetry::synthetic::{Board, Gpu, Scenario};

const UNINITIALIZED: u32 = 1;
const INVALID_ARGUMENT: u32 = 2;
const NOT_SUPPORTED: u32 = 3;
const NOT_FOUND: u32 = 6;
const INSUFFICIENT_SIZE: u32 = 7;
const VERSION_MISMATCH: u32 = 25;
const UNKNOWN: u32 = 999;

type Device = usize;

/// The layout of `nvmlFieldValue_t`, by offset in bytes: 0 field, 4 scope, 8 time stamp, 16
/// latency, 24 kind, 28 code, 32 value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct FieldValue {
    field: u32,
    scope: u32,
    stamp_us: i64,
    latency_us: i64,
    kind: u32,
    code: u32,
    value: u64,
}

fn init(fake: &Fake) {
    let init: unsafe extern "C" fn() -> u32 = fake.symbol("nvmlInit_v2");
    // SAFETY: the call has no arguments.
    assert_eq!(unsafe { init() }, 0);
}

fn shut_down(fake: &Fake) -> u32 {
    let shut_down: unsafe extern "C" fn() -> u32 = fake.symbol("nvmlShutdown");
    // SAFETY: the call has no arguments.
    unsafe { shut_down() }
}

fn handle(fake: &Fake, index: u32) -> Device {
    let get: unsafe extern "C" fn(u32, *mut Device) -> u32 =
        fake.symbol("nvmlDeviceGetHandleByIndex_v2");
    let mut device = 0;
    // SAFETY: the arguments are a number and a pointer to a handle.
    assert_eq!(unsafe { get(index, &raw mut device) }, 0);
    device
}

/// Queries a number of a device; returns the code and the number.
fn ask(fake: &Fake, symbol: &str, device: Device) -> (u32, u32) {
    let get: unsafe extern "C" fn(Device, *mut u32) -> u32 = fake.symbol(symbol);
    let mut value = 0;
    // SAFETY: the library checks the handle, and there is room for a number.
    let code = unsafe { get(device, &raw mut value) };
    (code, value)
}

#[test]
fn nothing_answers_before_the_first_initialisation_or_after_the_last_shutdown() {
    let fake = Fake::play(&Scenario::default());
    assert_eq!(shut_down(&fake), UNINITIALIZED);
    init(&fake);
    init(&fake);
    let device = handle(&fake, 0);
    assert_eq!(shut_down(&fake), 0);
    assert_eq!(ask(&fake, "nvmlDeviceGetPowerUsage", device).0, 0);
    assert_eq!(shut_down(&fake), 0);
    assert_eq!(
        ask(&fake, "nvmlDeviceGetPowerUsage", device).0,
        UNINITIALIZED
    );
}

#[test]
fn null_and_handles_of_nothing_are_invalid() {
    let fake = Fake::play(&Scenario::default());
    init(&fake);
    let device = handle(&fake, 0);
    for symbol in [
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetNumGpuCores",
        "nvmlDeviceGetPerformanceState",
    ] {
        let get: unsafe extern "C" fn(Device, *mut u32) -> u32 = fake.symbol(symbol);
        // SAFETY: the call accepts null and returns an error.
        let code = unsafe { get(device, null_mut()) };
        assert_eq!(code, INVALID_ARGUMENT, "{symbol}");
        for nothing in [0, 1, device + 1, device * 2] {
            assert_eq!(
                ask(&fake, symbol, nothing).0,
                INVALID_ARGUMENT,
                "{symbol} {nothing}"
            );
        }
    }
    let by_index: unsafe extern "C" fn(u32, *mut Device) -> u32 =
        fake.symbol("nvmlDeviceGetHandleByIndex_v2");
    let mut found = 0;
    // SAFETY: the arguments are a number and a pointer to a handle.
    assert_eq!(unsafe { by_index(1, &raw mut found) }, INVALID_ARGUMENT);
    let by_uuid: unsafe extern "C" fn(*const c_char, *mut Device) -> u32 =
        fake.symbol("nvmlDeviceGetHandleByUUID");
    // SAFETY: the arguments are text and a pointer to a handle.
    let code = unsafe { by_uuid(c"GPU-1".as_ptr(), &raw mut found) };
    assert_eq!(code, NOT_FOUND);
    // SAFETY: the call accepts null and returns an error.
    assert_eq!(unsafe { by_uuid(null(), &raw mut found) }, INVALID_ARGUMENT);
}

#[test]
fn text_that_has_no_room_is_not_written() {
    let fake = Fake::play(&Scenario::default());
    init(&fake);
    let device = handle(&fake, 0);
    let name: unsafe extern "C" fn(Device, *mut c_char, u32) -> u32 =
        fake.symbol("nvmlDeviceGetName");
    let mut room = [0x55_u8; 16];
    // SAFETY: the buffer is longer than the stated length.
    let code = unsafe { name(device, room.as_mut_ptr().cast(), 8) };
    assert_eq!((code, room), (INSUFFICIENT_SIZE, [0x55; 16]));
    // SAFETY: as above.
    let code = unsafe { name(device, room.as_mut_ptr().cast(), 9) };
    assert_eq!((code, &room[..10]), (0, &b"Tesla T4\0\x55"[..]));
}

#[test]
fn lists_that_have_no_room_report_their_length() {
    let fake = Fake::play(&Scenario::default());
    init(&fake);
    let device = handle(&fake, 0);
    let clocks: unsafe extern "C" fn(Device, u32, *mut u32, *mut u32) -> u32 =
        fake.symbol("nvmlDeviceGetSupportedGraphicsClocks");
    let expected = Gpu::from_board(Board::T4).clocks.sm_mhz;
    let mut length = 3;
    let mut room = vec![0; expected.len()];
    // SAFETY: the buffer is longer than the stated length.
    let code = unsafe { clocks(device, 5001, &raw mut length, room.as_mut_ptr()) };
    assert_eq!(
        (code, length as usize, room[0]),
        (INSUFFICIENT_SIZE, expected.len(), 0)
    );
    // SAFETY: the buffer has the stated length.
    let code = unsafe { clocks(device, 5001, &raw mut length, room.as_mut_ptr()) };
    assert_eq!((code, room), (0, expected));
}

#[test]
fn structures_of_another_version_are_rejected() {
    let fake = Fake::play(&Scenario::default());
    init(&fake);
    let device = handle(&fake, 0);
    let memory: unsafe extern "C" fn(Device, *mut [u64; 5]) -> u32 =
        fake.symbol("nvmlDeviceGetMemoryInfo_v2");
    let gpu = Gpu::from_board(Board::T4).memory;
    let mut room = [33_554_471, 0, 0, 0, 0];
    // SAFETY: the structure has room for 40 bytes.
    assert_eq!(unsafe { memory(device, &raw mut room) }, VERSION_MISMATCH);
    assert_eq!(room[1..], [0; 4]);
    room[0] = 33_554_472;
    // SAFETY: as above.
    assert_eq!(unsafe { memory(device, &raw mut room) }, 0);
    assert_eq!(room[1..3], [gpu.total_bytes, gpu.reserved_bytes]);

    let temperature: unsafe extern "C" fn(Device, *mut [u32; 3]) -> u32 =
        fake.symbol("nvmlDeviceGetTemperatureV");
    let mut room = [0x100_000B, 0, 0];
    // SAFETY: the structure has room for 12 bytes.
    let code = unsafe { temperature(device, &raw mut room) };
    assert_eq!(code, VERSION_MISMATCH);
    room[0] = 0x100_000C;
    // SAFETY: as above.
    assert_eq!(unsafe { temperature(device, &raw mut room) }, 0);
    assert_eq!(room[2], ask_temperature(&fake, device));
}

fn ask_temperature(fake: &Fake, device: Device) -> u32 {
    let get: unsafe extern "C" fn(Device, u32, *mut u32) -> u32 =
        fake.symbol("nvmlDeviceGetTemperature");
    let mut degrees = 0;
    // SAFETY: the arguments are a handle, a number, and a pointer to a number.
    assert_eq!(unsafe { get(device, 0, &raw mut degrees) }, 0);
    degrees
}

#[test]
fn each_field_has_its_scope_its_stamp_and_its_code() {
    let mut scenario = Scenario::from_boards(&[Board::H100]);
    scenario.gpus[0].scopes.module = Some(1.5);
    let fake = Fake::play(&scenario);
    init(&fake);
    fake.set_time(Duration::from_millis(1250));
    let device = handle(&fake, 0);
    let get: unsafe extern "C" fn(Device, i32, *mut FieldValue) -> u32 =
        fake.symbol("nvmlDeviceGetFieldValues");
    let of = |field, scope| FieldValue {
        field,
        scope,
        ..FieldValue::default()
    };
    let mut values = [
        of(186, 0),
        of(186, 1),
        of(186, 2),
        of(186, 3),
        of(82, 0),
        of(999, 0),
    ];
    // SAFETY: the array has the stated six values.
    assert_eq!(unsafe { get(device, 6, values.as_mut_ptr()) }, 0);
    let codes = values.map(|value| value.code);
    let expected = [
        0,
        0,
        NOT_SUPPORTED,
        INVALID_ARGUMENT,
        NOT_SUPPORTED,
        INVALID_ARGUMENT,
    ];
    assert_eq!(codes, expected);
    assert_eq!((values[0].value, values[1].value), (600_000, 900_000));
    assert_eq!((values[0].kind, values[0].latency_us), (1, 0));
    let stamp_us = scenario.began_unix_us + 1_250_000;
    assert_eq!(values[0].stamp_us.cast_unsigned(), stamp_us);
    // SAFETY: with a count of 0, the call reads no value.
    let code = unsafe { get(device, 0, values.as_mut_ptr()) };
    assert_eq!(code, INVALID_ARGUMENT);
    // SAFETY: the call accepts null and returns an error.
    assert_eq!(unsafe { get(device, 1, null_mut()) }, INVALID_ARGUMENT);
}

#[test]
fn memory_of_version_one_counts_what_the_driver_keeps_as_used() {
    let fake = Fake::play(&Scenario::default().on_driver("450.80.02"));
    init(&fake);
    let get: unsafe extern "C" fn(Device, *mut [u64; 3]) -> u32 =
        fake.symbol("nvmlDeviceGetMemoryInfo");
    let mut memory = [0; 3];
    // SAFETY: the structure has room for 24 bytes.
    assert_eq!(unsafe { get(handle(&fake, 0), &raw mut memory) }, 0);
    let [total, free, used] = memory;
    assert_eq!((used, free + used), (2304 << 20, total));
}

#[test]
fn what_a_device_does_not_have_is_not_supported() {
    let fake = Fake::play(&Scenario::default());
    init(&fake);
    let device = handle(&fake, 0);
    assert_eq!(ask(&fake, "nvmlDeviceGetFanSpeed", device).0, NOT_SUPPORTED);
    assert_eq!(ask(&fake, "nvmlDeviceGetDisplayActive", device), (0, 0));
}

#[test]
fn errors_have_words_in_any_state() {
    let fake = Fake::play(&Scenario::default());
    let words: unsafe extern "C" fn(u32) -> *const c_char = fake.symbol("nvmlErrorString");
    for (code, expected) in [
        (0, c"Success"),
        (15, c"GPU is lost"),
        (12_345, c"Unknown Error"),
    ] {
        // SAFETY: the argument is a number.
        let reported = unsafe { words(code) };
        // SAFETY: the returned text is static.
        assert_eq!(unsafe { CStr::from_ptr(reported) }, expected);
    }
}

#[test]
fn a_scenario_that_makes_no_sense_is_rejected_with_a_reason() {
    let fake = Fake::play(&Scenario::from_boards(&[Board::A100]));
    let set: unsafe extern "C" fn(*const c_char) -> u32 = fake.symbol("fake_nvml_set_scenario");
    // SAFETY: the argument is text that ends with a zero.
    assert_eq!(unsafe { set(c"{\"gpu\": 1}".as_ptr()) }, UNKNOWN);
    assert!(fake.why().contains("unknown field `gpu`"), "{}", fake.why());
    // The previous scenario stays in effect.
    init(&fake);
    assert_eq!(
        ask(&fake, "nvmlDeviceGetNumGpuCores", handle(&fake, 0)),
        (0, 6912)
    );
}

#[test]
fn a_panic_ends_at_the_boundary() {
    let fake = Fake::play(&Scenario::default());
    init(&fake);
    let panic: unsafe extern "C" fn() -> u32 = fake.symbol("fake_nvml_panic");
    // SAFETY: the call has no arguments.
    assert_eq!(unsafe { panic() }, UNKNOWN);
    // The lock that the panicking call held does not block later calls.
    assert_eq!(ask(&fake, "nvmlDeviceGetPowerUsage", handle(&fake, 0)).0, 0);
}

/// The test that runs in a child process, with another environment.
const CHILD: &str = "the_environment_decides_what_is_played_first";

#[test]
fn the_environment_decides_what_is_played_first() {
    if let Ok(expected) = std::env::var("FAKE_NVML_TEST_EXPECTS") {
        return play_what_the_environment_says(&expected);
    }
    let json = r#"{"gpus": [{"n_cores": 77}]}"#;
    let folder = tool_io::TemporaryFolder::create(&std::env::temp_dir(), "fake-nvml")
        .expect("the folder can be created");
    let path = folder.path().join("scenario.json");
    std::fs::write(&path, json.replace("77", "78")).expect("the temporary folder is writable");
    let file = path.to_string_lossy().into_owned();
    let scenarios = [
        (Some(json), "77"),
        (Some(&*file), "78"),
        (None, "2560"),
        (Some("/x/y"), "none"),
    ];
    for (scenario, expected) in scenarios {
        let mut child = Command::new(std::env::current_exe().expect("the test program has a path"));
        child
            .args([CHILD, "--exact"])
            .env("FAKE_NVML_TEST_EXPECTS", expected);
        child.env_remove("FAKE_NVML_SCENARIO");
        child.envs(scenario.map(|scenario| ("FAKE_NVML_SCENARIO", scenario)));
        let output = child.output().expect("the test program can start itself");
        let reported = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{scenario:?}: {reported}");
    }
}

fn play_what_the_environment_says(expected: &str) {
    let fake = Fake::load();
    if expected == "none" {
        assert!(fake.init().is_err());
        assert!(fake.why().contains("/x/y"), "{}", fake.why());
        return;
    }
    init(&fake);
    let (code, n_cores) = ask(&fake, "nvmlDeviceGetNumGpuCores", handle(&fake, 0));
    assert_eq!((code, n_cores.to_string().as_str()), (0, expected));
    let began = fake.time();
    assert!(
        (0..10_000_000).any(|_| fake.time() > began),
        "time runs from the start"
    );
}
