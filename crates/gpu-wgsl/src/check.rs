//! Comparison of kernels with their CPU twins, on every adapter of this machine.
//!
//! Role: the standard form of a kernel test, for kernels of this workspace and of users. The module
//! is the second step of the test chain: the f64 oracle checks the twin, and the twin checks the
//! kernel. A case contains the kernel, the shapes, the inputs, the twin and the tolerance;
//! [`check_on_every_adapter`] runs it.
//! Method: each shape runs with zeros, ones, random, large and small values. Outputs are new
//! buffers, filled with the comparator's sentinel and followed by a guard zone. A kernel that
//! writes too few or too many elements is therefore detected even if its numbers are within the
//! tolerance.
//! Limits: NaN, infinity and subnormal numbers are not tested, because WGSL does not define them.

use crate::{AnyBuffer, Buffer, Error, Feature, Gpu, Scalar, Select, adapters};
use shaders::{Access, Element, Kernel, Params};
use std::fmt::Debug;
use std::io::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use tensor_core::compare::{self, Mismatch, Tolerance};
use tensor_core::exec::{Coverage, Executor, Storage, against_reference};
use tensor_core::plan::Plan;
use tensor_core::rng::Philox;
use tensor_core::{HostData, Tensor};

/// Environment variable that makes a missing adapter a failure instead of a skip, if its value is
/// `1`.
pub const REQUIRE_GPU: &str = "REQUIRE_GPU";
/// Environment variable that makes a missing optional tool, such as a compiler or a validator, a
/// failure instead of a skip, if its value is `1`.
pub const REQUIRE_TOOLS: &str = "REQUIRE_TOOLS";
/// Environment variable with parts of driver names, separated by colons. An adapter with each part
/// in its driver's name must exist, because a Vulkan loader ignores a driver that it cannot load.
pub const REQUIRE_ADAPTERS: &str = "REQUIRE_ADAPTERS";
/// Environment variable with the number of the first adapter of [`adapters_in_turn`].
pub const FIRST_ADAPTER: &str = "FIRST_ADAPTER";
/// Number of scalars after each output that a kernel must not change.
const GUARD_LEN: usize = 67;
/// Value of the guard scalars. It is not the sentinel, because the comparator rejects the sentinel
/// everywhere.
const GUARD: u16 = 12_345;
/// Seed of the random values, printed with every failure.
const SEED: u64 = 2019;

/// Host data of one buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 32-bit unsigned integers.
    U32(Vec<u32>),
    /// 32-bit signed integers.
    I32(Vec<i32>),
    /// 64-bit floats.
    F64(Vec<f64>),
}

macro_rules! data_access {
    ($($variant:ident $get:ident $get_mut:ident $ty:ty;)+) => {
        impl Data {
            $(
                /// Returns the scalars.
                ///
                /// # Panics
                /// If the data has another element type.
                #[must_use]
                pub fn $get(&self) -> &[$ty] {
                    match self {
                        Self::$variant(data) => data,
                        other => panic!("data has another element type ({other:?})"),
                    }
                }

                /// Returns the scalars for writing.
                ///
                /// # Panics
                /// If the data has another element type.
                pub fn $get_mut(&mut self) -> &mut [$ty] {
                    match self {
                        Self::$variant(data) => data,
                        other => panic!("data has another element type ({other:?})"),
                    }
                }
            )+

            /// Returns an output of `len` scalars, filled with the sentinel.
            fn unwritten(element: Element, len: usize) -> Self {
                match element {
                    $(Element::$variant => Self::$variant(compare::sentinel_filled(len)),)+
                }
            }

            fn upload(&self, gpu: &Gpu, name: &str, guarded: bool) -> Result<AnyBuffer, Error> {
                match self {
                    $(Self::$variant(data) => {
                        let mut data = data.clone();
                        if guarded {
                            data.extend([GUARD as $ty; GUARD_LEN]);
                        }
                        Ok(AnyBuffer::clone(&*gpu.upload(name, &[data.len()], &data)?))
                    })+
                }
            }

            /// Reads a guarded output and compares it and its guard zone with the expected values.
            fn compare(&self, gpu: &Gpu, buffer: &AnyBuffer, bound: &Tolerance) -> Result<(), FailureCause> {
                match self {
                    $(Self::$variant(expected) => {
                        let actual = gpu.read(&typed::<$ty>(buffer)?)?;
                        let (actual, guard) = actual.split_at(expected.len());
                        compare::compare(actual, expected, bound)?;
                        compare::compare(guard, &[GUARD as $ty; GUARD_LEN], &Tolerance::bits()).map_err(FailureCause::Guard)?;
                        Ok(())
                    })+
                }
            }
        }
    };
}

data_access! {
    F32 f32s f32s_mut f32;
    U32 u32s u32s_mut u32;
    I32 i32s i32s_mut i32;
    F64 f64s f64s_mut f64;
}

fn typed<T: Scalar>(buffer: &AnyBuffer) -> Result<Buffer<T>, Error> {
    Buffer::try_from(buffer.clone())
}

/// The kind of values that fill the inputs of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Every element is 0.
    Zeros,
    /// Every element is 1.
    Ones,
    /// Uniform in [-1, 1).
    Random,
    /// Uniform in [-1, 1), times 2⁵⁰.
    Large,
    /// Uniform in [-1, 1), times 2⁻⁵⁰. The product of two values is a normal number unless the
    /// product of their uniform factors is below 2⁻²⁶ in magnitude.
    Small,
}

impl Values {
    /// All kinds of values.
    pub const ALL: [Self; 5] = [
        Self::Zeros,
        Self::Ones,
        Self::Random,
        Self::Large,
        Self::Small,
    ];

    /// Returns `len` floats. Different `stream` numbers give independent values.
    #[must_use]
    pub fn f32s(self, len: usize, stream: u64) -> Data {
        // The factor of u - 1/2, u in [0, 1): 2^1 gives the range [-1, 1).
        let factor = 2_f32.powi(match self {
            Self::Zeros => return Data::F32(vec![0.0; len]),
            Self::Ones => return Data::F32(vec![1.0; len]),
            Self::Random => 1,
            Self::Large => 51,
            Self::Small => -49,
        });
        let random = Philox::new(SEED).stream(stream);
        Data::F32(
            (0..len as u64)
                .map(|i| (random.uniform_f32(i) - 0.5) * factor)
                .collect(),
        )
    }
}

/// An adapter on which a case is known to fail. The case must fail there, so that a fix is noticed.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedFailure {
    /// Backend, as in [`crate::Adapter::backend`].
    pub backend: &'static str,
    /// Part of the driver's name and version.
    pub driver: &'static str,
    /// Reason of the failure.
    pub why: &'static str,
}

/// A kernel test: the kernel, its inputs and the expected outputs.
#[derive(Debug)]
pub struct KernelCase<'a, P> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// Required features; adapters without them are skipped.
    pub needs: &'a [Feature],
    /// Parameters of every run. They should include the sizes 0, 1, workgroup ± 1, a prime and
    /// several workgroups, and shapes that are not square.
    pub shapes: Vec<P>,
    /// Returns the read-only buffers, in the order of the bindings.
    pub inputs: fn(&P, Values) -> Vec<Data>,
    /// Computes the expected outputs on the CPU.
    pub twin: fn(&Kernel, &P, &[Data], &mut [Data]),
    /// Returns the tolerance for parameters and inputs. An empty output is accepted only if the
    /// domain is empty.
    pub tolerance: fn(&P, &[Data]) -> Tolerance,
    /// Adapters on which the case is known to fail.
    pub fails_on: &'a [ExpectedFailure],
}

/// A failed case, with its adapter, parameters and inputs.
#[derive(Debug, thiserror::Error)]
#[error("{kernel} on {adapter}, {params}, {values:?} (seed {SEED}): {fault}")]
pub struct Failure {
    /// Name of the kernel.
    pub kernel: String,
    /// Name of the adapter.
    pub adapter: String,
    /// Parameters of the run, as text.
    pub params: String,
    /// Kind of values in the inputs.
    pub values: Values,
    /// Cause of the failure.
    pub fault: FailureCause,
}

/// The cause of a failed case.
#[derive(Debug, thiserror::Error)]
pub enum FailureCause {
    /// The device returned an error or was lost.
    #[error(transparent)]
    Device(#[from] Error),
    /// The result differs from the twin's.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// The kernel wrote past the end of its output.
    #[error("out-of-bounds write past the output: {0}")]
    Guard(Mismatch),
}

/// Returns an open device for every adapter of this machine. Each device is opened once per process
/// and fills new buffers with the sentinel ([`Gpu::poison_allocations`]).
///
/// # Panics
/// If a device cannot be opened, if there is no adapter and `REQUIRE_GPU=1` is set, or if an
/// adapter of `REQUIRE_ADAPTERS` does not exist.
pub fn every_adapter() -> &'static [Gpu] {
    static DEVICES: OnceLock<Vec<Gpu>> = OnceLock::new();
    let devices = DEVICES.get_or_init(|| {
        let open = |adapter: crate::Adapter| match Gpu::open(Select::Index(adapter.index)) {
            Ok(gpu) => {
                gpu.poison_allocations(true);
                gpu
            }
            Err(error) => panic!("{}: {error}", adapter.name),
        };
        adapters().into_iter().map(open).collect()
    });
    if devices.is_empty() {
        let why = "no GPU adapter found, not even a software adapter";
        let required = std::env::var_os(REQUIRE_GPU).is_some_and(|value| value == "1");
        assert!(!required, "{REQUIRE_GPU}=1: {why}");
        skip(why);
        return devices;
    }
    let required = std::env::var(REQUIRE_ADAPTERS).unwrap_or_default();
    for part in required.split(':').filter(|part| !part.is_empty()) {
        let drivers: Vec<&str> = devices.iter().map(|gpu| &*gpu.adapter().driver).collect();
        assert!(
            drivers.iter().any(|driver| driver.contains(part)),
            "{REQUIRE_ADAPTERS}: no adapter has the driver {part:?} (found: {drivers:?})"
        );
    }
    devices
}

/// Returns the adapters of this machine in turn, without an end. The first adapter changes daily;
/// the environment variable [`FIRST_ADAPTER`] sets its number. The number is printed, so that a
/// failure can be repeated on another day.
///
/// # Panics
/// As [`every_adapter`], and if the variable contains no number.
pub fn adapters_in_turn() -> impl Iterator<Item = &'static Gpu> {
    const SECONDS_OF_A_DAY: u64 = 24 * 60 * 60;
    let adapters = every_adapter();
    let first = match std::env::var(FIRST_ADAPTER) {
        Ok(number) => number.parse().unwrap_or_else(|error| {
            panic!("{FIRST_ADAPTER}: {error} (actual {number:?}; expected a number)")
        }),
        Err(_) => {
            let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
            since_1970.as_secs() / SECONDS_OF_A_DAY
        }
    };
    let first = usize::try_from(first).unwrap_or(0);
    let first = first.checked_rem(adapters.len()).unwrap_or(0);
    if let Some(gpu) = adapters.get(first) {
        eprintln!("{FIRST_ADAPTER}={first}: {}", gpu.adapter().driver);
    }
    adapters.iter().cycle().skip(first)
}

/// Returns each item with an adapter, the adapters in turn. Use this function in tests that are
/// slow on each adapter or mostly compile kernels. With one run per day of all tests, each item
/// runs on each adapter after as many days as there are adapters. With `VERIFY_FULL=1`, each item
/// runs on each adapter in every run.
///
/// # Panics
/// As [`adapters_in_turn`].
pub fn on_adapters_in_turn<T: Clone>(
    items: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = (&'static Gpu, T)> {
    let is_full = std::env::var_os("VERIFY_FULL").is_some_and(|value| value == "1");
    let n_adapters = if is_full { every_adapter().len() } else { 1 };
    let items = items.into_iter();
    let items = items.flat_map(move |item| std::iter::repeat_n(item, n_adapters));
    adapters_in_turn().zip(items)
}

/// Returns one adapter of this machine, the first of [`adapters_in_turn`]; `None` if there is no
/// adapter.
///
/// # Panics
/// As [`adapters_in_turn`].
pub fn adapter_of_the_day() -> Option<&'static Gpu> {
    adapters_in_turn().next()
}

/// Reports that the running test, or a part of it, is skipped. Writes a line to standard error,
/// which `xtask verify` counts.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    let line = format!(
        "skipped: {}: {why}\n",
        thread.name().unwrap_or("kernel test")
    );
    // The test harness captures the output of `eprintln!`, but not direct writes to the stream.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Reports that the running test is skipped because an optional tool is missing, as [`skip`] does.
///
/// # Panics
/// If [`REQUIRE_TOOLS`] is `1`.
pub fn skip_without_tool(why: &str) {
    let required = std::env::var_os(REQUIRE_TOOLS).is_some_and(|value| value == "1");
    assert!(!required, "{REQUIRE_TOOLS}=1: {why}");
    skip(why);
}

/// Runs the plan of some tensors on a device, step by step, compares every step with the oracle,
/// and returns the numbers of elements of all steps. Each step reads the results that the device
/// computed before. A step that would run on the host is an error.
///
/// # Errors
/// The first step that differs, fails or is rejected, as text, with the explained plan.
pub fn compare_steps(gpu: &Gpu, tensors: &[&Tensor]) -> Result<Coverage, String> {
    pollster::block_on(compare_steps_async(gpu, tensors))
}

/// Compares the steps of a plan as [`compare_steps`] does, without blocking the thread.
///
/// # Errors
/// As [`compare_steps`].
pub async fn compare_steps_async(gpu: &Gpu, tensors: &[&Tensor]) -> Result<Coverage, String> {
    let (plan, data) =
        Plan::new(tensors, &gpu.target()).map_err(|error| format!("no plan: {error}"))?;
    let read = |storage: &Arc<dyn Storage>| Arc::clone(storage).read();
    let mut arrays: Vec<Option<Arc<dyn Storage>>> = vec![None; plan.buffers.len()];
    let walk = async {
        let mut coverage = Coverage::default();
        for (input, storage) in plan.inputs.iter().zip(&data) {
            arrays[input.0] = Some(Executor::upload(gpu, read(storage).await?)?);
        }
        for step in plan.steps.iter() {
            // A plan lists steps after the steps whose outputs they read, so every input exists.
            let inputs = step
                .inputs
                .iter()
                .filter_map(|input| arrays[input.0].clone());
            let inputs: Vec<Arc<dyn Storage>> = inputs.collect();
            let lens: Vec<usize> = inputs.iter().map(|input| input.len()).collect();
            if !gpu.accepts(step, &lens) {
                let what = format!("the device does not support {:?}", step.nest);
                return Err(tensor_core::Error::BadStep { what });
            }
            let output = gpu.run(step, &inputs)?;
            let mut given = Vec::with_capacity(inputs.len());
            for input in &inputs {
                given.push(read(input).await?);
            }
            let given: Vec<&HostData> = given.iter().collect();
            coverage += against_reference(gpu, step, &given, &read(&output).await?)?;
            arrays[step.output.0] = Some(output);
        }
        Ok(coverage)
    };
    let walked: tensor_core::Result<Coverage> = walk.await;
    walked.map_err(|error| format!("{error}\n{}", plan.explain()))
}

/// Runs `case` on every adapter of this machine.
///
/// # Panics
/// If a result differs from the twin's by more than the tolerance, if a device fails, or if an
/// expected failure passes; otherwise as [`check_on`].
pub fn check_on_every_adapter<P: Params + Debug>(case: &KernelCase<'_, P>) {
    for gpu in every_adapter() {
        let adapter = gpu.adapter();
        if let Err(missing) = gpu.require(&case.kernel.name, case.needs) {
            // A missing optional feature is normal, even under `REQUIRE_GPU=1`; a missing device is
            // not.
            skip(&missing.to_string());
            continue;
        }
        let expected = case.fails_on.iter().find(|failure| {
            failure.backend == adapter.backend && adapter.driver.contains(failure.driver)
        });
        match (check_on(gpu, case), expected) {
            (Ok(()), None) | (Err(_), Some(_)) => {}
            (Err(report), None) => panic!("{report}"),
            (Ok(()), Some(failure)) => {
                panic!(
                    "{} passes on {}, but is listed as an expected failure: {}",
                    case.kernel.name, adapter.name, failure.why
                )
            }
        }
    }
}

/// Runs `case` on one device.
///
/// # Errors
/// The first failure.
///
/// # Panics
/// If the case has no shapes, or the kernel no output, because then nothing would be compared.
pub fn check_on<P: Params + Debug>(
    gpu: &Gpu,
    case: &KernelCase<'_, P>,
) -> Result<(), Box<Failure>> {
    let name = &case.kernel.name;
    assert!(!case.shapes.is_empty(), "{name}: the case has no shapes");
    let mut bindings = case.kernel.bindings.iter();
    let has_output = bindings.any(|binding| binding.access == Access::ReadWrite);
    assert!(has_output, "{name}: the kernel has no output");
    for params in &case.shapes {
        for values in Values::ALL {
            check_once(gpu, case, params, values).map_err(|fault| {
                Box::new(Failure {
                    kernel: case.kernel.name.to_string(),
                    adapter: gpu.adapter().name.clone(),
                    params: format!("{params:?}"),
                    values,
                    fault,
                })
            })?;
        }
    }
    Ok(())
}

fn check_once<P: Params>(
    gpu: &Gpu,
    case: &KernelCase<'_, P>,
    params: &P,
    values: Values,
) -> Result<(), FailureCause> {
    let inputs = (case.inputs)(params, values);
    let mut expected = Vec::new();
    let mut buffers = Vec::new();
    let mut given = inputs.iter();
    for (binding, len) in case.kernel.bindings.iter().zip(params.buffer_lens()) {
        let guarded = binding.access == Access::ReadWrite;
        let data = if guarded {
            let len = usize::try_from(len).expect("test buffers fit into memory");
            let unwritten = Data::unwritten(binding.element, len);
            expected.push(unwritten.clone());
            unwritten
        } else {
            given
                .next()
                .expect("`inputs` returns one buffer for each read-only binding")
                .clone()
        };
        buffers.push((guarded, data.upload(gpu, &binding.name, guarded)?));
    }
    let bound: Vec<&AnyBuffer> = buffers.iter().map(|(_, buffer)| buffer).collect();
    gpu.dispatch(case.kernel, params, &bound)?;
    (case.twin)(case.kernel, params, &inputs, &mut expected);
    let outputs = buffers
        .iter()
        .filter(|(written, _)| *written)
        .map(|(_, buffer)| buffer);
    for (expected, buffer) in expected.iter().zip(outputs) {
        let bound = (case.tolerance)(params, &inputs);
        // An empty comparison is correct only if the domain is empty.
        let bound = if params.domain().contains(&0) {
            bound.allow_empty()
        } else {
            bound
        };
        expected.compare(gpu, buffer, &bound)?;
    }
    Ok(())
}
