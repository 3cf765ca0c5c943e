//! The simulated NVML as a loaded library, with its control symbols.
//!
//! Role: sets the scenario and the time of `fake-nvml`. Cargo builds the library into the folder
//! `deps` next to the programs.
//! Method: the state of the library is that of a file, so that a copy of the file is a second
//! machine in the same process.

#![expect(
    unsafe_code,
    reason = "the control symbols are called over the boundary"
)]

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::{CString, c_char};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use libloading::Library;
use telemetry::synthetic::Scenario;

/// A copy of the simulated NVML; the file is removed when the value is dropped.
#[derive(Debug)]
pub(super) struct FakeNvml {
    library: Library,
    path: PathBuf,
}

impl FakeNvml {
    /// Copies the library to a path, and loads the copy.
    pub(super) fn copied_to(path: &Path) -> Result<Self> {
        let original = original()?;
        fs::copy(&original, path).with_context(|| format!("cannot copy {}", original.display()))?;
        // SAFETY: the library has no initialisers that run when it is loaded.
        let library = unsafe { Library::new(path) };
        Ok(Self {
            library: library.context("cannot load the simulated NVML")?,
            path: path.to_owned(),
        })
    }

    /// Returns the path of the copy.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a scenario; its time begins when the library is initialised.
    pub(super) fn play(&self, scenario: &Scenario) -> Result<()> {
        let json = CString::new(scenario.to_json()?).context("the scenario has a zero byte")?;
        let set: unsafe extern "C" fn(*const c_char) -> u32 =
            self.symbol("fake_nvml_set_scenario")?;
        // SAFETY: the argument is text that ends with a zero.
        let code = unsafe { set(json.as_ptr()) };
        ensure!(
            code == 0,
            "the simulated NVML rejects the scenario (code {code})"
        );
        Ok(())
    }

    /// Returns the function that fixes the time since the start of the scenario.
    pub(super) fn clock(&self) -> Result<Clock> {
        Ok(Clock(self.symbol("fake_nvml_set_time_ns")?))
    }

    /// Returns the time since the start of the scenario.
    pub(super) fn time(&self) -> Result<Duration> {
        let get: unsafe extern "C" fn(*mut u64) -> u32 = self.symbol("fake_nvml_time_ns")?;
        let mut time_ns = 0;
        // SAFETY: the argument has room for a number.
        let code = unsafe { get(&raw mut time_ns) };
        ensure!(code == 0, "the simulated NVML has no time (code {code})");
        Ok(Duration::from_nanos(time_ns))
    }

    /// Returns a symbol as a function of type `F`, which must be the symbol's type.
    fn symbol<F: Copy>(&self, name: &str) -> Result<F> {
        // SAFETY: the callers state the types that the symbols have in `fake-nvml`.
        let found = unsafe { self.library.get::<F>(name.as_bytes()) };
        Ok(*found.with_context(|| format!("the simulated NVML has no symbol {name}"))?)
    }
}

impl Drop for FakeNvml {
    fn drop(&mut self) {
        // A file in the temporary folder that remains is harmless.
        let _ = fs::remove_file(&self.path);
    }
}

/// The control of the time of a simulated NVML, which must stay loaded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(unsafe extern "C" fn(u64) -> u32);

impl Clock {
    /// Fixes the time since the start of the scenario.
    pub(super) fn set(self, time: Duration) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the call takes a number.
        let _ = unsafe { (self.0)(time_ns) };
    }
}

/// Returns the path of the library that cargo built with this program.
fn original() -> Result<PathBuf> {
    let program = std::env::current_exe().context("the program has no path")?;
    let name = format!("{DLL_PREFIX}fake_nvml{DLL_SUFFIX}");
    // A test is in `deps` itself.
    let places = [
        program.with_file_name(&name),
        program.with_file_name("deps").join(&name),
    ];
    let found = places.iter().find(|place| place.exists());
    let found = found.with_context(|| format!("{} is missing", places[1].display()));
    found.cloned()
}
