//! The fake library, for tests: where it is, what it plays, what was done to it.
//!
//! Role: every test that needs NVML loads the fake by [`Fake::play`]. The library has one state for a whole process, so
//! only one [`Fake`] exists at a time; others wait.
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

/// The fake library, playing a scenario at time zero, where time stands.
#[derive(Debug)]
pub(crate) struct Fake {
    library: Library,
    _alone: MutexGuard<'static, ()>,
}

/// Says that the running test had nothing to test, past the harness, so that `xtask verify` counts it.
pub(crate) fn skip(why: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("test"));
    io::Write::write_all(&mut io::stderr(), line.as_bytes()).expect("standard error takes a line");
}

/// A file that others look into.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    /// Gives what was written so far.
    #[must_use]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("nobody panics").clone()
    }
}

impl io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Works for a time, as whoever is measured does.
pub(crate) fn work_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::yield_now();
    }
}

/// Gives the path of the fake library, which cargo builds beside the tests.
#[must_use]
pub(crate) fn fake() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let name = format!("{DLL_PREFIX}fake_nvml{DLL_SUFFIX}");
    let beside = test.with_file_name(&name);
    if beside.exists() {
        return beside;
    }
    // Examples lie one folder beside the dependencies.
    let folder = test.parent().and_then(|folder| folder.parent());
    let path = folder
        .expect("a test lies two folders deep")
        .join("deps")
        .join(name);
    assert!(path.exists(), "no {}; was fake-nvml built?", path.display());
    path
}

impl Fake {
    /// Plays a scenario; time stands at zero.
    #[must_use]
    pub(crate) fn play(scenario: &Scenario) -> Self {
        let fake = Self::load();
        fake.replay(scenario);
        fake
    }

    /// Plays another scenario, as if driver and GPUs were changed in mid-run; time stands at zero.
    pub(crate) fn replay(&self, scenario: &Scenario) {
        let json = scenario.to_json().expect("a scenario has no NaN");
        let json = CString::new(json).expect("JSON has no zeros");
        let set: unsafe extern "C" fn(*const c_char) -> u32 = self.symbol("fake_nvml_set_scenario");
        // SAFETY: the argument is text that ends with a zero.
        let code = unsafe { set(json.as_ptr()) };
        assert_eq!(code, 0, "{}", self.why());
        self.set_time(Duration::ZERO);
    }

    /// Loads the library without changing what it plays.
    #[must_use]
    pub(crate) fn load() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: loading the fake runs no code.
        let library = unsafe { Library::new(fake()) }.expect("the fake loads");
        Self {
            library,
            _alone: alone,
        }
    }

    /// Initialises it through the wrapper.
    ///
    /// # Errors
    /// What the scenario makes `nvmlInit_v2` say.
    pub(crate) fn init(&self) -> Result<Nvml, nvml_wrapper::error::NvmlError> {
        Nvml::builder().lib_path(fake().as_os_str()).init()
    }

    /// Initialises it through the wrapper, which is to succeed.
    #[must_use]
    pub(crate) fn nvml(&self) -> Nvml {
        self.init().expect("the fake is initialised")
    }

    /// Sets the time, where it stands.
    pub(crate) fn set_time(&self, time: Duration) {
        let set: unsafe extern "C" fn(u64) -> u32 = self.symbol("fake_nvml_set_time_ns");
        let time_ns = u64::try_from(time.as_nanos()).expect("a time of less than 500 years");
        // SAFETY: the call takes a number.
        assert_eq!(unsafe { set(time_ns) }, 0);
    }

    /// Lets time run on.
    pub(crate) fn use_real_time(&self) {
        let run: unsafe extern "C" fn() -> u32 = self.symbol("fake_nvml_use_real_time");
        // SAFETY: the call takes nothing.
        assert_eq!(unsafe { run() }, 0);
    }

    /// Gives the time.
    #[must_use]
    pub(crate) fn time(&self) -> Duration {
        let get: unsafe extern "C" fn(*mut u64) -> u32 = self.symbol("fake_nvml_time_ns");
        let mut time_ns = 0;
        // SAFETY: the argument is room for a number.
        assert_eq!(unsafe { get(&raw mut time_ns) }, 0);
        Duration::from_nanos(time_ns)
    }

    /// Gives how often a symbol was called since the scenario began.
    #[must_use]
    pub(crate) fn calls(&self, symbol: &str) -> u64 {
        let get: unsafe extern "C" fn(*const c_char, *mut u64) -> u32 =
            self.symbol("fake_nvml_calls");
        let symbol = CString::new(symbol).expect("a symbol has no zeros");
        let mut n_calls = 0;
        // SAFETY: the arguments are text that ends with a zero, and room for a number.
        assert_eq!(unsafe { get(symbol.as_ptr(), &raw mut n_calls) }, 0);
        n_calls
    }

    /// Gives whether a GPU's clocks are locked.
    #[must_use]
    pub(crate) fn is_locked(&self, gpu: u32) -> bool {
        let get: unsafe extern "C" fn(u32, *mut u32) -> u32 = self.symbol("fake_nvml_is_locked");
        let mut is_locked = 2;
        // SAFETY: the arguments are a number and room for one.
        assert_eq!(unsafe { get(gpu, &raw mut is_locked) }, 0);
        is_locked == 1
    }

    /// Gives the work that a GPU did between two times, in units of its clock model.
    #[must_use]
    pub(crate) fn work(&self, gpu: u32, from: Duration, to: Duration) -> f64 {
        let get: unsafe extern "C" fn(u32, f64, f64, *mut f64) -> u32 =
            self.symbol("fake_nvml_work");
        let mut work = f64::NAN;
        // SAFETY: the arguments are numbers and room for one.
        let code = unsafe { get(gpu, from.as_secs_f64(), to.as_secs_f64(), &raw mut work) };
        assert_eq!(code, 0);
        work
    }

    /// Gives what was done to GPUs, or tried, that only root may.
    #[must_use]
    pub(crate) fn actions(&self) -> Vec<Action> {
        let json = self.text("fake_nvml_actions");
        serde_json::from_str(&json).expect("the fake writes JSON")
    }

    /// Gives why the last thing that failed without a code of its own did.
    #[must_use]
    pub(crate) fn why(&self) -> String {
        self.text("fake_nvml_why")
    }

    /// Gives a symbol of the library, as a function of the caller's type, which has to be its own.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub(crate) fn symbol<F: Copy>(&self, name: &str) -> F {
        // SAFETY: callers, all of them in tests, give the type that the symbol has in the fake's source.
        let found = unsafe { self.library.get::<F>(name.as_bytes()) };
        *found.unwrap_or_else(|fault| panic!("{name}: {fault}"))
    }

    fn text(&self, symbol: &str) -> String {
        let get: unsafe extern "C" fn(*mut c_char, *mut u32) -> u32 = self.symbol(symbol);
        let mut length = 0;
        // SAFETY: room for no characters is asked for by null, and the length is room for a number.
        let code = unsafe { get(std::ptr::null_mut(), &raw mut length) };
        assert_eq!(code, 7, "{symbol} asks for room");
        let mut bytes = vec![0_u8; length as usize];
        // SAFETY: there is room for as many characters as the length says.
        let code = unsafe { get(bytes.as_mut_ptr().cast(), &raw mut length) };
        assert_eq!(code, 0);
        bytes.pop();
        String::from_utf8(bytes).expect("the fake writes UTF-8")
    }
}

impl Drop for Fake {
    /// Takes back what a test that failed had initialised.
    fn drop(&mut self) {
        // SAFETY: the symbol has this type in NVML.
        let found = unsafe {
            self.library
                .get::<unsafe extern "C" fn() -> u32>(b"nvmlShutdown")
        };
        let Ok(shut_down) = found else { return };
        // SAFETY: the call takes nothing.
        while unsafe { shut_down() } == 0 {}
    }
}
