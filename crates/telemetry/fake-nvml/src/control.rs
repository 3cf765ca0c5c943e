//! Control symbols for tests, which NVML does not have.
//!
//! Role: set the scenario and the time, and query calls and control operations. A test looks the
//! symbols up in the library that it loaded. All of them return NVML's return codes, and none
//! requires an initialised library.
#![allow(unsafe_code, reason = "symbols are exported by their names")]

use crate::abi::{Answer, Code, Out, Text};
use crate::state::{LibraryState, answer};
use std::ffi::c_char;
use std::time::Duration;
use telemetry::synthetic::Scenario;

/// Starts a scenario, given as zero-terminated JSON, from its beginning. Resets the call counts;
/// time starts at the next call of `nvmlInit` unless a test sets a fixed time.
#[unsafe(no_mangle)]
extern "C" fn fake_nvml_set_scenario(json: Text) -> Code {
    answer("fake_nvml_set_scenario", |state| {
        let scenario = Scenario::from_json(&json.read()?);
        let scenario = scenario.map_err(|fault| state.explain(&fault.to_string()))?;
        state.play(scenario)
    })
}

/// Fixes the time, in ns since the scenario began.
#[unsafe(no_mangle)]
extern "C" fn fake_nvml_set_time_ns(time_ns: u64) -> Code {
    answer("fake_nvml_set_time_ns", |state| {
        state.set_fixed_time(Some(Duration::from_nanos(time_ns)));
        Ok(())
    })
}

/// Lets the time run in real time again.
#[unsafe(no_mangle)]
extern "C" fn fake_nvml_use_real_time() -> Code {
    answer("fake_nvml_use_real_time", |state| {
        state.set_fixed_time(None);
        Ok(())
    })
}

/// Returns the time, in ns since the scenario began.
#[unsafe(no_mangle)]
extern "C" fn fake_nvml_time_ns(time_ns: Out<u64>) -> Code {
    answer("fake_nvml_time_ns", |state| {
        time_ns.put(u64::try_from(state.now().as_nanos()).unwrap_or(u64::MAX))
    })
}

/// Returns the number of calls of a symbol since the scenario began.
#[unsafe(no_mangle)]
extern "C" fn fake_nvml_calls(symbol: Text, n_calls: Out<u64>) -> Code {
    answer("fake_nvml_calls", |state| {
        n_calls.put(state.n_calls(&symbol.read()?))
    })
}

/// Returns whether a GPU's clocks are locked: 1 or 0.
#[unsafe(no_mangle)]
extern "C" fn fake_nvml_is_locked(gpu: u32, is_locked: Out<u32>) -> Code {
    answer("fake_nvml_is_locked", |state| {
        let now_s = state.now().as_secs_f64();
        let gpus = state.model()?.gpus();
        let gpu = usize::try_from(gpu).ok().and_then(|gpu| gpus.get(gpu));
        let locked_mhz = gpu.ok_or(Code::INVALID_ARGUMENT)?.locked_mhz(now_s);
        is_locked.put(u32::from(locked_mhz.is_some()))
    })
}

/// Returns the work that a GPU does from `from_s` to `to_s`, in the units of its clock model.
#[unsafe(no_mangle)]
extern "C" fn fake_nvml_work(gpu: u32, from_s: f64, to_s: f64, work: Out<f64>) -> Code {
    answer("fake_nvml_work", |state| {
        let gpus = state.model()?.gpus();
        let gpu = usize::try_from(gpu).ok().and_then(|gpu| gpus.get(gpu));
        work.put(gpu.ok_or(Code::INVALID_ARGUMENT)?.work(from_s, to_s))
    })
}

/// Writes the control operations on GPUs as JSON: a list of `telemetry::synthetic::Action`. If the
/// buffer is too small, writes the required length and returns NVML's code 7 (insufficient size).
#[unsafe(no_mangle)]
extern "C" fn fake_nvml_actions(text: Out<c_char>, length: Out<u32>) -> Code {
    answer("fake_nvml_actions", |state| {
        let json = serde_json::to_string(state.model()?.actions());
        let json = json.map_err(|fault| state.explain(&fault.to_string()))?;
        put_text(&json, text, length)
    })
}

/// Writes the message of the last failure for which NVML has no code, such as an invalid scenario.
/// Lengths are handled as in `fake_nvml_actions`.
#[unsafe(no_mangle)]
extern "C" fn fake_nvml_why(text: Out<c_char>, length: Out<u32>) -> Code {
    answer("fake_nvml_why", |state: &mut LibraryState| {
        put_text(state.why(), text, length)
    })
}

/// Panics inside the library, so that a test can check that a panic becomes return code 999.
#[unsafe(no_mangle)]
extern "C" fn fake_nvml_panic() -> Code {
    answer("fake_nvml_panic", |_| {
        panic!("fake_nvml_panic: panic requested by the caller")
    })
}

fn put_text(words: &str, text: Out<c_char>, length: Out<u32>) -> Answer {
    let n_room = length.get()?;
    let n_needed = u32::try_from(words.len() + 1).unwrap_or(u32::MAX);
    length.put(n_needed)?;
    if n_room < n_needed {
        return Err(Code::INSUFFICIENT_SIZE);
    }
    text.put_text(n_room, words)
}
