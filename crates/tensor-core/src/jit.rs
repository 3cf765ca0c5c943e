//! Compiled functions: programs that are planned once and run many times.
//!
//! Role: [`jit`] wraps a function of tensors. The first call with arguments of given shapes and
//! types runs the function on placeholder tensors, plans the results, and caches the plan. Later
//! calls run the cached plan on the data of their arguments.
//! Method: a placeholder is a node with a storage without data; its address identifies it in the
//! plan's list of inputs. Other arrays that the function reads, such as captured weights, are
//! cached with the plan.
//! Memory: one plan for each list of shapes and types, until [`Compiled::clear`]. The executor owns
//! the temporary arrays of a run.

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use web_time::Instant;

use crate::dtype::{DType, HostData};
use crate::error::{Error, Result};
use crate::exec::{self, Executor, Pending, Storage};
use crate::plan::{Counters, Plan, Target};
use crate::tensor::hook;
use crate::tensor::{Op, Tensor};

/// Wraps a function of tensors. The first call with each combination of argument shapes and types
/// compiles the function; later calls reuse the plan.
///
/// The function runs once for each combination, on tensors with a shape and a type but no data.
/// Side effects of the function happen only then, and the function cannot read elements. A compiled
/// function that is called by another compiled function is inlined.
///
/// # Examples
/// ```
/// use tensor_core::ndarray::array;
/// use tensor_core::{Host, Tensor, grad, jit};
/// let host = Host::new();
/// let step = jit(|args: &[Tensor]| {
///     let (w, x) = (&args[0], &args[1]);
///     let loss = (w * x - 1.0).square().sum(..);
///     let gradient = &grad(&loss, &[w])?[0];
///     Ok(vec![w - gradient * 0.1, loss])
/// });
/// let x = Tensor::from_array(array![1.0_f32, 2.0]);
/// let mut w = Tensor::from_array(array![0.0_f32, 0.0]);
/// for _ in 0..100 {
///     w = step.call(&host, &[&w, &x])?.remove(0);
/// }
/// let w = w.to_host::<f32>()?;
/// assert!((w[[0]] - 1.0).abs() < 1e-6 && (w[[1]] - 0.5).abs() < 1e-6);
/// assert_eq!((step.counters().misses, step.counters().hits), (1, 99));
/// # Ok::<(), tensor_core::Error>(())
/// ```
pub fn jit<F>(function: F) -> Compiled<F>
where
    F: Fn(&[Tensor]) -> Result<Vec<Tensor>>,
{
    Compiled {
        function,
        programs: Mutex::default(),
        hits: AtomicU64::new(0),
        misses: AtomicU64::new(0),
        compile_ns: AtomicU64::new(0),
    }
}

/// A function of tensors with its cached plans, created by [`jit`].
pub struct Compiled<F> {
    function: F,
    programs: Mutex<HashMap<Signature, Arc<TracedPlan>>>,
    hits: AtomicU64,
    misses: AtomicU64,
    compile_ns: AtomicU64,
}

/// Shows the statistics of the calls, for functions of any type.
impl<F> fmt::Debug for Compiled<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled")
            .field("hits", &self.hits)
            .field("misses", &self.misses)
            .field("compile_ns", &self.compile_ns)
            .finish_non_exhaustive()
    }
}

/// The key of a cached plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Signature {
    arguments: Vec<(DType, Vec<usize>)>,
    target: Target,
}

/// A plan with the sources of its inputs.
#[derive(Debug)]
struct TracedPlan {
    plan: Plan,
    inputs: Vec<Source>,
    outputs: Vec<(DType, Vec<usize>)>,
}

/// The source of an input of a plan: an argument, by position, or a captured array.
#[derive(Debug)]
enum Source {
    Argument(usize),
    Captured(Arc<dyn Storage>),
}

impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>> Compiled<F> {
    /// Computes the function for these arguments, and returns the results in the memory of the
    /// executor.
    ///
    /// Arguments that are not in memory are computed first.
    ///
    /// While another function is traced, a call inlines this function: it returns the program of
    /// the function on these arguments, which becomes part of the outer function's plan. In this
    /// case nothing is computed or cached, and `executor` is ignored.
    ///
    /// # Errors
    /// An error of the function, of an argument or of the executor, with the source line of the
    /// operation. An error that belongs to no operation has the line of this call.
    #[track_caller]
    pub fn call(&self, executor: &dyn Executor, arguments: &[&Tensor]) -> Result<Vec<Tensor>> {
        let caller = Location::caller();
        if hook::is_tracing() {
            let arguments: Vec<Tensor> = arguments.iter().map(|&tensor| tensor.clone()).collect();
            return (self.function)(&arguments).map_err(|error| error.at(caller));
        }
        let data = in_memory(executor, arguments)?;
        let program = self.program(executor.target(), arguments);
        let program = program.map_err(|error| error.at(caller))?;
        let inputs: Vec<Arc<dyn Storage>> = program
            .inputs
            .iter()
            .map(|source| match source {
                Source::Argument(number) => Arc::clone(&data[*number]),
                Source::Captured(storage) => Arc::clone(storage),
            })
            .collect();
        let results = exec::run_and_wait(executor, &program.plan, &inputs);
        let results = results.map_err(|error| error.at(caller))?;
        let outputs = results.into_iter().zip(&program.outputs);
        Ok(outputs
            .map(|(storage, (dtype, shape))| Tensor::stored(storage, shape.clone(), *dtype))
            .collect())
    }

    /// Returns the plan for a call with these arguments, and creates the plan if it is not cached.
    ///
    /// # Errors
    /// An error of the function or of an argument.
    #[track_caller]
    pub fn plan(&self, executor: &dyn Executor, arguments: &[&Tensor]) -> Result<Plan> {
        let caller = Location::caller();
        let program = self.program(executor.target(), arguments);
        Ok(program.map_err(|error| error.at(caller))?.plan.clone())
    }

    /// Returns the function, whose programs can be explained or verified without a call.
    pub fn function(&self) -> &F {
        &self.function
    }

    /// Returns the statistics of all calls so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            compile_time: Duration::from_nanos(self.compile_ns.load(Ordering::Relaxed)),
        }
    }

    /// Drops all cached plans, and with them the captured arrays.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Signature, Arc<TracedPlan>>> {
        // The table is consistent even after a panic, because entries are inserted complete.
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the program for the arguments, from the cache if possible.
    fn program(&self, target: Target, arguments: &[&Tensor]) -> Result<Arc<TracedPlan>> {
        let mut signature = Signature {
            arguments: Vec::with_capacity(arguments.len()),
            target,
        };
        for argument in arguments {
            let argument = (argument.dtype()?, argument.shape()?.to_vec());
            signature.arguments.push(argument);
        }
        if let Some(program) = self.lock().get(&signature) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(Arc::clone(program));
        }
        // Trace without the lock, so that other calls can use cached plans meanwhile.
        let start = Instant::now();
        let program = Arc::new(self.trace(&signature)?);
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.compile_ns.fetch_add(nanoseconds, Ordering::Relaxed);
        self.misses.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(signature, Arc::clone(&program));
        Ok(program)
    }

    /// Runs the function on placeholders and plans its results.
    fn trace(&self, signature: &Signature) -> Result<TracedPlan> {
        let stand_ins: Vec<Arc<dyn Storage>> = signature
            .arguments
            .iter()
            .map(|(dtype, shape)| {
                let len = shape.iter().product();
                Arc::new(StandIn { dtype: *dtype, len }) as Arc<dyn Storage>
            })
            .collect();
        let arguments = signature.arguments.iter().zip(&stand_ins);
        let arguments: Vec<Tensor> = arguments
            .map(|((dtype, shape), storage)| {
                Tensor::stored(Arc::clone(storage), shape.clone(), *dtype)
            })
            .collect();
        let _lazily = hook::trace();
        let outputs = (self.function)(&arguments)?;
        let (plan, data) = Plan::new(&outputs.iter().collect::<Vec<_>>(), &signature.target)?;
        // The inputs of the plan are placeholders and captured arrays, in any order. An argument
        // that the results do not depend on is not among them.
        let source = |storage: Arc<dyn Storage>| {
            let is_it = |stand_in: &Arc<dyn Storage>| Arc::ptr_eq(stand_in, &storage);
            match stand_ins.iter().position(is_it) {
                Some(number) => Source::Argument(number),
                None => Source::Captured(storage),
            }
        };
        let output = |tensor: &Tensor| (tensor.node().dtype, tensor.node().shape.clone());
        Ok(TracedPlan {
            plan,
            inputs: data.into_iter().map(source).collect(),
            outputs: outputs.iter().map(output).collect(),
        })
    }
}

/// Returns the arrays of the arguments; arguments that are not in memory are computed together.
///
/// A constant is uploaded instead of computed: a computation would need one plan per value, and the
/// value often changes from call to call.
#[track_caller]
fn in_memory(executor: &dyn Executor, arguments: &[&Tensor]) -> Result<Vec<Arc<dyn Storage>>> {
    let mut data = Vec::with_capacity(arguments.len());
    for argument in arguments {
        data.push(match argument.node().op {
            Op::Const(scalar) => {
                let uploaded = executor.upload(HostData::from_scalar(scalar));
                Some(uploaded.map_err(|error| error.at(Location::caller()))?)
            }
            _ => argument.storage().cloned(),
        });
    }
    let pairs = arguments.iter().zip(&data);
    let lazy: Vec<&Tensor> = pairs
        .filter_map(|(argument, data)| data.is_none().then_some(*argument))
        .collect();
    let mut computed = match lazy[..] {
        [] => Vec::new(),
        _ => exec::computed(&lazy, executor)?,
    }
    .into_iter();
    let data = data.into_iter().map(|data| {
        let data = data.or_else(|| computed.next());
        data.unwrap_or_else(|| unreachable!("a plan returns one array per tensor"))
    });
    Ok(data.collect())
}

/// The storage of a placeholder, which has a type and a length but no data.
#[derive(Debug)]
struct StandIn {
    dtype: DType,
    len: usize,
}

impl Storage for StandIn {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn len(&self) -> usize {
        self.len
    }

    fn read(self: Arc<Self>) -> Pending<'static, Result<HostData>> {
        Box::pin(async move { Err(Error::NoData) })
    }
}
