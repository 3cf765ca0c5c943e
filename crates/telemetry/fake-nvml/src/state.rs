//! The library's state and the common entry of all symbols (exported functions).
//!
//! Role: counts calls, and checks that the library is initialised, that the driver has the call,
//! that the handle is valid and that no fault rule applies, before it runs the symbol's body. A
//! panic becomes `NVML_ERROR_UNKNOWN` here.

use crate::abi::{Answer, Code};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use telemetry::synthetic::{Call, GpuModel, Model, Scenario};

/// The environment variable that contains a scenario as JSON, or the path of a scenario file.
const VARIABLE: &str = "FAKE_NVML_SCENARIO";
/// Distance between two handles. A handle differs from an index, so that a caller who confuses the
/// two gets an error.
const HANDLE_STEP: usize = 0x100;

/// A value of `nvmlDevice_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(usize);

/// The state of the library.
#[derive(Debug)]
pub(crate) struct LibraryState {
    model: Option<Model>,
    n_initialised: u32,
    began: Option<Instant>,
    fixed_at: Option<Duration>,
    /// Number of calls of each symbol. A linear search is fast enough: there are few symbols, and
    /// most names differ in length.
    calls: Vec<(&'static str, u64)>,
    why: String,
}

/// The simulated machine and the current time, for a call that concerns no single GPU.
pub(crate) struct Query<'a> {
    pub(crate) model: &'a mut Model,
    pub(crate) now_s: f64,
}

/// The simulated machine, the index of a GPU and the current time, for a call that concerns this
/// GPU.
pub(crate) struct GpuQuery<'a> {
    pub(crate) model: &'a mut Model,
    pub(crate) index: usize,
    pub(crate) now_s: f64,
}

static STATE: Mutex<LibraryState> = Mutex::new(LibraryState {
    model: None,
    n_initialised: 0,
    began: None,
    fixed_at: None,
    calls: Vec::new(),
    why: String::new(),
});

impl Handle {
    pub(crate) fn new(index: usize) -> Self {
        Self((index + 1) * HANDLE_STEP)
    }

    fn index(self, n_gpus: usize) -> Answer<usize> {
        let found = (0..n_gpus).find(|&index| Self::new(index) == self);
        found.ok_or(Code::INVALID_ARGUMENT)
    }
}

impl LibraryState {
    /// Starts a scenario from its beginning.
    pub(crate) fn play(&mut self, scenario: Scenario) -> Answer {
        self.model = Some(self.make(scenario)?);
        self.began = None;
        self.fixed_at = None;
        self.calls.clear();
        Ok(())
    }

    /// Stores the message of a failure, for `fake_nvml_why`.
    pub(crate) fn explain(&mut self, why: &str) -> Code {
        why.clone_into(&mut self.why);
        Code::UNKNOWN
    }

    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    pub(crate) fn model(&self) -> Answer<&Model> {
        self.model.as_ref().ok_or(Code::UNINITIALIZED)
    }

    /// Fixes the time at `at`. If `at` is `None`, lets time run on from its present value.
    pub(crate) fn set_fixed_time(&mut self, at: Option<Duration>) {
        if at.is_none() {
            self.began = Instant::now().checked_sub(self.now());
        }
        self.fixed_at = at;
    }

    pub(crate) fn now(&self) -> Duration {
        let running = || self.began.map_or(Duration::ZERO, |began| began.elapsed());
        self.fixed_at.unwrap_or_else(running)
    }

    pub(crate) fn n_calls(&self, symbol: &str) -> u64 {
        let found = self.calls.iter().find(|(called, _)| *called == symbol);
        found.map_or(0, |(_, n_calls)| *n_calls)
    }

    pub(crate) fn initialise(&mut self, symbol: &'static str) -> Answer {
        if self.model.is_none() {
            let scenario = scenario_of_environment().map_err(|why| self.explain(&why))?;
            self.model = Some(self.make(scenario)?);
        }
        self.began.get_or_insert_with(Instant::now);
        let now_s = self.now().as_secs_f64();
        let model = self.model.as_mut().ok_or(Code::UNKNOWN)?;
        if self.n_initialised == 0 {
            model.initialise(now_s);
        }
        check_faults(model, symbol, None, now_s)?;
        self.n_initialised += 1;
        Ok(())
    }

    pub(crate) fn shut_down(&mut self) -> Answer {
        let left = self.n_initialised.checked_sub(1);
        self.n_initialised = left.ok_or(Code::UNINITIALIZED)?;
        Ok(())
    }

    fn make(&mut self, scenario: Scenario) -> Answer<Model> {
        Model::new(scenario).map_err(|fault| self.explain(&fault.to_string()))
    }

    fn count(&mut self, symbol: &'static str) {
        match self.calls.iter_mut().find(|(called, _)| *called == symbol) {
            Some((_, n_calls)) => *n_calls += 1,
            None => self.calls.push((symbol, 1)),
        }
    }
}

impl GpuQuery<'_> {
    pub(crate) fn gpu(&self) -> &GpuModel {
        &self.model.gpus()[self.index]
    }
}

/// Runs the body of a symbol that does not require an initialised library.
pub(crate) fn answer(symbol: &'static str, body: impl FnOnce(&mut LibraryState) -> Answer) -> Code {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut state = lock();
        state.count(symbol);
        body(&mut state)
    }));
    match outcome {
        Ok(Ok(())) => Code::SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => Code::UNKNOWN,
    }
}

/// Runs the body of a symbol that concerns no single GPU, or a GPU that its body looks up.
pub(crate) fn on_system(symbol: &'static str, body: impl FnOnce(Query<'_>) -> Answer) -> Code {
    answer(symbol, |state| {
        let asked = ask(state)?;
        check_faults(asked.model, symbol, None, asked.now_s)?;
        body(asked)
    })
}

/// Runs the body of a symbol that queries a GPU by its handle.
pub(crate) fn on_gpu(
    symbol: &'static str,
    handle: Handle,
    body: impl FnOnce(GpuQuery<'_>) -> Answer,
) -> Code {
    answer(symbol, |state| {
        let Query { model, now_s } = ask(state)?;
        let index = handle.index(model.gpus().len())?;
        check_faults(model, symbol, Some(index), now_s)?;
        body(GpuQuery {
            model,
            index,
            now_s,
        })
    })
}

/// Returns an error if the scenario's driver is too old to have the symbol, or if one of the
/// scenario's fault rules applies to the call.
pub(crate) fn check_faults(model: &Model, symbol: &str, gpu: Option<usize>, now_s: f64) -> Answer {
    let call = Call {
        symbol,
        gpu,
        field: None,
    };
    model
        .failure(&call, now_s)
        .map_or(Ok(()), |code| Err(Code(code)))
}

/// Rounds a quantity to an integer for NVML; values outside the range of the type are clamped.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float to integer saturates"
)]
pub(crate) fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// Rounds a quantity to 32 bits, the type of most of NVML's numbers; larger values are clamped.
pub(crate) fn whole_u32(value: f64) -> u32 {
    u32::try_from(whole(value)).unwrap_or(u32::MAX)
}

/// Converts to thousandths: W to mW, J to mJ.
pub(crate) fn milli(value: f64) -> f64 {
    value * 1e3
}

/// Returns the machine at the present time, or an error if the library is not initialised.
fn ask(state: &mut LibraryState) -> Answer<Query<'_>> {
    if state.n_initialised == 0 {
        return Err(Code::UNINITIALIZED);
    }
    let now_s = state.now().as_secs_f64();
    let model = state.model.as_mut().ok_or(Code::UNINITIALIZED)?;
    Ok(Query { model, now_s })
}

/// Reads the scenario of the environment variable: JSON if the value begins with a brace, and else
/// the path of a file. Without the variable, the default scenario is used.
fn scenario_of_environment() -> Result<Scenario, String> {
    let Ok(setting) = std::env::var(VARIABLE) else {
        return Ok(Scenario::default());
    };
    let text = if setting.trim_start().starts_with('{') {
        setting
    } else {
        std::fs::read_to_string(&setting).map_err(|fault| format!("{setting}: {fault}"))?
    };
    Scenario::from_json(&text).map_err(|fault| fault.to_string())
}

/// Locks the state. A panic in another call leaves the state valid, so poisoning is ignored.
fn lock() -> MutexGuard<'static, LibraryState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
