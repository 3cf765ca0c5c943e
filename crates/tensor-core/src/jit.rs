//! Programs that are built and planned once and run many times.
//!
//! Role: [`jit`] takes a function of tensors. The first call with arguments of some shapes and types runs it on stand-ins,
//! plans what it gives, and keeps the plan; later calls hand their arguments' data to that plan.
//! Method: a stand-in is a node with a storage that holds nothing; in the plan's list of inputs it is told by its address.
//! What else the function reads (weights it captured, say) is kept with the plan.
//! Memory: a plan for each list of shapes and types, until [`Compiled::clear`]; temporaries of a run are the executor's.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::dtype::{DType, HostData};
use crate::eager;
use crate::error::{Error, Result};
use crate::exec::{self, Executor, Pending, Storage};
use crate::plan::{Plan, Target};
use crate::tensor::{self, Op, Tensor};

/// Compiles a function of tensors when it is first called with arguments of some shapes and types.
///
/// The function is run once for each such list, on tensors that have a shape and a type and no
/// data: what it does besides building tensors happens then and never again, and it cannot ask for
/// their elements. A compiled function called by another one is inlined.
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

/// A function of tensors with the plans made for it so far; [`jit`] makes it.
#[derive(Debug)]
pub struct Compiled<F> {
    function: F,
    programs: Mutex<HashMap<Signature, Arc<Program>>>,
    hits: AtomicU64,
    misses: AtomicU64,
    compile_ns: AtomicU64,
}

/// How often a plan was at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Calls that found one.
    pub hits: u64,
    /// Calls that made one.
    pub misses: u64,
    /// The time that making them took.
    pub compile_time: Duration,
}

/// What a plan was made for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Signature {
    arguments: Vec<(DType, Vec<usize>)>,
    target: Target,
}

/// A plan, and where the data of its inputs comes from.
#[derive(Debug)]
struct Program {
    plan: Plan,
    inputs: Vec<Source>,
    outputs: Vec<(DType, Vec<usize>)>,
}

#[derive(Debug)]
enum Source {
    Argument(usize),
    Captured(Arc<dyn Storage>),
}

impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>> Compiled<F> {
    /// Gives what the function gives for these arguments, computed, where the executor has it.
    ///
    /// Arguments that are not in memory yet are computed first.
    ///
    /// While another function is traced, a call inlines this one: it returns the program of the
    /// function on these arguments, which becomes a part of the outer function's plan. Nothing is
    /// computed or cached then, and `executor` is not used.
    ///
    /// # Errors
    /// What the function gives; what is wrong with an argument; what the executor meets, with the line of the operation or, if
    /// none is to blame, the caller's.
    #[track_caller]
    pub fn call(&self, executor: &dyn Executor, arguments: &[&Tensor]) -> Result<Vec<Tensor>> {
        let caller = Location::caller();
        if eager::is_tracing() {
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

    /// The plan that a call with such arguments runs; made now, if there is none.
    ///
    /// # Errors
    /// What the function gives; what is wrong with an argument.
    #[track_caller]
    pub fn plan(&self, executor: &dyn Executor, arguments: &[&Tensor]) -> Result<Plan> {
        let caller = Location::caller();
        let program = self.program(executor.target(), arguments);
        Ok(program.map_err(|error| error.at(caller))?.plan.clone())
    }

    /// How often a plan was at hand so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            compile_time: Duration::from_nanos(self.compile_ns.load(Ordering::Relaxed)),
        }
    }

    /// Forgets all plans, and lets go of what the function captured through them.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Signature, Arc<Program>>> {
        // A panic in between leaves the table whole: entries are put in finished.
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn program(&self, target: Target, arguments: &[&Tensor]) -> Result<Arc<Program>> {
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
        let start = Instant::now();
        let program = Arc::new(self.trace(&signature)?);
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.compile_ns.fetch_add(nanoseconds, Ordering::Relaxed);
        self.misses.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(signature, Arc::clone(&program));
        Ok(program)
    }

    /// Runs the function on stand-ins and plans what it gives.
    fn trace(&self, signature: &Signature) -> Result<Program> {
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
        let _lazily = eager::trace();
        let outputs = (self.function)(&arguments)?;
        let (plan, data) = Plan::of(&outputs.iter().collect::<Vec<_>>(), &signature.target)?;
        let source = |storage: Arc<dyn Storage>| {
            let is_it = |stand_in: &Arc<dyn Storage>| Arc::ptr_eq(stand_in, &storage);
            match stand_ins.iter().position(is_it) {
                Some(number) => Source::Argument(number),
                None => Source::Captured(storage),
            }
        };
        let output = |tensor: &Tensor| (tensor.node().dtype, tensor.node().shape.clone());
        Ok(Program {
            plan,
            inputs: data.into_iter().map(source).collect(),
            outputs: outputs.iter().map(output).collect(),
        })
    }
}

/// The data of arguments; those that have none are computed together.
///
/// A constant is uploaded. To compute it would take a plan for each value, and the value is often a
/// new one in every call.
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
        _ => tensor::computed(&lazy, executor)?,
    }
    .into_iter();
    let data = data.into_iter().map(|data| {
        let data = data.or_else(|| computed.next());
        data.unwrap_or_else(|| unreachable!("a plan gives as many arrays as it was asked for"))
    });
    Ok(data.collect())
}

/// The storage of a tensor that has no data while a function is traced.
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
