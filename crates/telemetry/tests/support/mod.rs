//! Test helpers: loads and controls the fake NVML library.
//!
//! Role: every test that needs NVML loads the fake library by [`Fake::play`]. The library has one
//! state for the whole process, so only one [`Fake`] exists at a time; other tests wait.
#![allow(dead_code, reason = "no test file needs all of it")]
#![allow(unsafe_code, reason = "control symbols are called over the boundary")]

use libloading::Library;
use nvml_wrapper::Nvml;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::{CString, c_char};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use telemetry::synthetic::{Action, Scenario};

static ALONE: Mutex<()> = Mutex::new(());

/// The loaded fake library. After [`Fake::play`], its time is fixed at zero.
#[derive(Debug)]
pub(crate) struct Fake {
    library: Library,
    _alone: MutexGuard<'static, ()>,
}

/// Reports on standard error that the running test was skipped, so that `xtask verify` counts the
/// skip. The line bypasses the harness, which captures `eprintln!`.
pub(crate) fn skip(why: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("test"));
    io::Write::write_all(&mut io::stderr(), line.as_bytes()).expect("standard error is writable");
}

/// An in-memory file whose content other owners can read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    /// Returns the bytes that were written so far.
    #[must_use]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0
            .lock()
            .expect("no thread panics while it holds the lock")
            .clone()
    }
}

impl io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .expect("no thread panics while it holds the lock")
            .extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps the thread busy for a time, like a measured workload.
pub(crate) fn work_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::yield_now();
    }
}

/// Returns the path of the fake library, which cargo builds next to the tests.
#[must_use]
pub(crate) fn fake() -> PathBuf {
    let test = std::env::current_exe().expect("the test program has a path");
    let name = format!("{DLL_PREFIX}fake_nvml{DLL_SUFFIX}");
    let neighbour = test.with_file_name(&name);
    if neighbour.exists() {
        return neighbour;
    }
    // For an example, the library is in the sibling folder `deps`.
    let folder = test.parent().and_then(|folder| folder.parent());
    let path = folder
        .expect("the test program is two folders deep")
        .join("deps")
        .join(name);
    assert!(path.exists(), "no {}; was fake-nvml built?", path.display());
    path
}

impl Fake {
    /// Loads the library and starts a scenario, with the time fixed at zero.
    #[must_use]
    pub(crate) fn play(scenario: &Scenario) -> Self {
        let fake = Self::load();
        fake.replay(scenario);
        fake
    }

    /// Starts another scenario, as if driver and GPUs were replaced in mid-run, with the time fixed
    /// at zero.
    pub(crate) fn replay(&self, scenario: &Scenario) {
        let json = scenario.to_json().expect("a scenario has no NaN");
        let json = CString::new(json).expect("JSON has no zeros");
        let set: unsafe extern "C" fn(*const c_char) -> u32 = self.symbol("fake_nvml_set_scenario");
        // SAFETY: the argument is text that ends with a zero.
        let code = unsafe { set(json.as_ptr()) };
        assert_eq!(code, 0, "{}", self.why());
        self.set_time(Duration::ZERO);
    }

    /// Loads the library without changing its scenario.
    #[must_use]
    pub(crate) fn load() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the fake library has no initialisers that run when it is loaded.
        let library = unsafe { Library::new(fake()) }.expect("the fake library can be loaded");
        Self {
            library,
            _alone: alone,
        }
    }

    /// Initialises the library through `nvml-wrapper`.
    ///
    /// # Errors
    /// The error that the scenario sets for `nvmlInit_v2`.
    pub(crate) fn init(&self) -> Result<Nvml, nvml_wrapper::error::NvmlError> {
        Nvml::builder().lib_path(fake().as_os_str()).init()
    }

    /// Initialises the library through `nvml-wrapper`; panics on an error.
    #[must_use]
    pub(crate) fn nvml(&self) -> Nvml {
        self.init().expect("the fake library can be initialised")
    }

    /// Fixes the time of the library.
    pub(crate) fn set_time(&self, time: Duration) {
        let set: unsafe extern "C" fn(u64) -> u32 = self.symbol("fake_nvml_set_time_ns");
        let time_ns = u64::try_from(time.as_nanos()).expect("the time is less than 500 years");
        // SAFETY: the call takes a number.
        assert_eq!(unsafe { set(time_ns) }, 0);
    }

    /// Lets the time of the library run on from its present value.
    pub(crate) fn use_real_time(&self) {
        let run: unsafe extern "C" fn() -> u32 = self.symbol("fake_nvml_use_real_time");
        // SAFETY: the call has no arguments.
        assert_eq!(unsafe { run() }, 0);
    }

    /// Returns the time of the library.
    #[must_use]
    pub(crate) fn time(&self) -> Duration {
        let get: unsafe extern "C" fn(*mut u64) -> u32 = self.symbol("fake_nvml_time_ns");
        let mut time_ns = 0;
        // SAFETY: the argument has room for a number.
        assert_eq!(unsafe { get(&raw mut time_ns) }, 0);
        Duration::from_nanos(time_ns)
    }

    /// Returns the number of calls of a symbol since the start of the scenario.
    #[must_use]
    pub(crate) fn calls(&self, symbol: &str) -> u64 {
        let get: unsafe extern "C" fn(*const c_char, *mut u64) -> u32 =
            self.symbol("fake_nvml_calls");
        let symbol = CString::new(symbol).expect("a symbol name has no NUL byte");
        let mut n_calls = 0;
        // SAFETY: the arguments are text that ends with a zero, and room for a number.
        assert_eq!(unsafe { get(symbol.as_ptr(), &raw mut n_calls) }, 0);
        n_calls
    }

    /// Returns whether a GPU's clocks are locked.
    #[must_use]
    pub(crate) fn is_locked(&self, gpu: u32) -> bool {
        let get: unsafe extern "C" fn(u32, *mut u32) -> u32 = self.symbol("fake_nvml_is_locked");
        let mut is_locked = 2;
        // SAFETY: the arguments are a number and a pointer to a number.
        assert_eq!(unsafe { get(gpu, &raw mut is_locked) }, 0);
        is_locked == 1
    }

    /// Returns the work that a GPU did between two times, in units of its clock model.
    #[must_use]
    pub(crate) fn work(&self, gpu: u32, from: Duration, to: Duration) -> f64 {
        let get: unsafe extern "C" fn(u32, f64, f64, *mut f64) -> u32 =
            self.symbol("fake_nvml_work");
        let mut work = f64::NAN;
        // SAFETY: the arguments are numbers and a pointer to a number.
        let code = unsafe { get(gpu, from.as_secs_f64(), to.as_secs_f64(), &raw mut work) };
        assert_eq!(code, 0);
        work
    }

    /// Returns the privileged actions on GPUs, failed attempts included.
    #[must_use]
    pub(crate) fn actions(&self) -> Vec<Action> {
        let json = self.text("fake_nvml_actions");
        serde_json::from_str(&json).expect("the fake library writes JSON")
    }

    /// Returns the message of the last failure that has no NVML code of its own.
    #[must_use]
    pub(crate) fn why(&self) -> String {
        self.text("fake_nvml_why")
    }

    /// Returns a symbol of the library as a function of type `F`, which must be the symbol's type.
    ///
    /// # Panics
    /// If the library does not have the symbol.
    #[must_use]
    pub(crate) fn symbol<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the callers are tests, and state the type that the symbol has in the fake
        // library.
        let found = unsafe { self.library.get::<F>(name.as_bytes()) };
        *found.unwrap_or_else(|fault| panic!("{name}: {fault}"))
    }

    fn text(&self, symbol: &str) -> String {
        let get: unsafe extern "C" fn(*mut c_char, *mut u32) -> u32 = self.symbol(symbol);
        let mut length = 0;
        // SAFETY: a null buffer requests the length only, for which there is room.
        let code = unsafe { get(std::ptr::null_mut(), &raw mut length) };
        assert_eq!(code, 7, "{symbol} reports the required size");
        let mut bytes = vec![0_u8; length as usize];
        // SAFETY: the buffer has room for `length` characters.
        let code = unsafe { get(bytes.as_mut_ptr().cast(), &raw mut length) };
        assert_eq!(code, 0);
        bytes.pop();
        String::from_utf8(bytes).expect("the fake library writes UTF-8")
    }
}

impl Drop for Fake {
    /// Shuts the library down once for each initialisation that a failed test has not undone.
    fn drop(&mut self) {
        // SAFETY: the symbol has this type in NVML.
        let found = unsafe {
            self.library
                .get::<unsafe extern "C" fn() -> u32>(b"nvmlShutdown")
        };
        let Ok(shut_down) = found else { return };
        // SAFETY: the call has no arguments.
        while unsafe { shut_down() } == 0 {}
    }
}
