//! The cache of the plans that `eval` and `realize` need.
//!
//! Role: planning a small program takes longer than running it, and a program that is evaluated in
//! a loop has the same structure each time. The cache belongs to the process, because plans contain
//! only the limits of an executor.
//! Method: the key is the structure of a program: operations, shapes, types, constants, source
//! lines and the edges between them, without the data of its inputs. A hash finds an entry, which
//! is then compared in full.
//! Memory: about a thousand plans of up to [`MAX_NODES`] nodes, and no arrays. Planning a larger
//! program takes a small share of the time to run it.

use std::hash::{BuildHasher, Hash, Hasher};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use web_time::Instant;

use super::graph::Graph;
use super::{Plan, Target};
use crate::cache::Cache;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::tensor::{Node, Op, Tensor};

/// The maximum number of nodes of a program whose plan is cached.
const MAX_NODES: usize = 2048;

/// The plans of all programs so far, by the hash of their structure.
static PLANS: LazyLock<Plans> = LazyLock::new(Plans::default);

#[derive(Default)]
struct Plans {
    entries: Cache<u64, Arc<Entry>>,
    hits: AtomicU64,
    misses: AtomicU64,
    compile_ns: AtomicU64,
}

/// Statistics of a cache of plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// The number of calls that used a cached plan.
    pub hits: u64,
    /// The number of calls that created a plan.
    pub misses: u64,
    /// The total time spent creating plans.
    pub compile_time: Duration,
}

/// A program's structure and its plan.
struct Entry {
    nodes: Vec<Structure>,
    outputs: Vec<usize>,
    target: Target,
    plan: Plan,
}

/// The structure of a node.
struct Structure {
    /// The operation; `None` for an array in memory.
    op: Option<Op>,
    shape: Vec<usize>,
    dtype: DType,
    inputs: Vec<usize>,
    location: &'static Location<'static>,
}

/// Returns the statistics of the cache of plans that [`Tensor::eval`] and [`Tensor::realize`] use,
/// for the whole process.
///
/// # Examples
/// ```
/// use tensor_core::{Host, Tensor, plan};
///
/// for i in 0..3 {
///     let x = Tensor::from_vec(&[2], vec![i as f32, 1.0]);
///     (x + 1.0).eval::<f32>(&Host::new())?;
/// }
/// assert!(plan::cache_counters().hits >= 2);
/// # Ok::<(), tensor_core::Error>(())
/// ```
#[must_use]
pub fn cache_counters() -> Counters {
    Counters {
        hits: PLANS.hits.load(Ordering::Relaxed),
        misses: PLANS.misses.load(Ordering::Relaxed),
        compile_time: Duration::from_nanos(PLANS.compile_ns.load(Ordering::Relaxed)),
    }
}

impl Plan {
    /// Returns the plan of some tensors from the cache, and creates the plan if it is missing. Also
    /// returns the data of the plan's inputs.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub(crate) fn cached(
        tensors: &[&Tensor],
        target: &Target,
    ) -> Result<(Self, Vec<Arc<dyn Storage>>)> {
        let graph = Graph::from_outputs(tensors)?;
        #[cfg(test)]
        let is_faulty = crate::fault::changes_plans();
        #[cfg(not(test))]
        let is_faulty = false;
        if is_faulty || graph.nodes.len() > MAX_NODES {
            return Ok((Self::of_graph(&graph, target)?, graph.data()));
        }
        let plans = &*PLANS;
        let mut planned_in = None;
        let entry = plans.entries.get(hash(&graph, target), |_| {
            let start = Instant::now();
            let entry = Arc::new(Entry::new(&graph, target)?);
            let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            planned_in = Some(nanoseconds);
            Ok::<_, Error>(entry)
        })?;
        if let Some(nanoseconds) = planned_in {
            plans.misses.fetch_add(1, Ordering::Relaxed);
            plans.compile_ns.fetch_add(nanoseconds, Ordering::Relaxed);
        } else if entry.is_of(&graph, target) {
            plans.hits.fetch_add(1, Ordering::Relaxed);
        } else {
            // Another program with the same hash.
            plans.misses.fetch_add(1, Ordering::Relaxed);
            return Ok((Self::of_graph(&graph, target)?, graph.data()));
        }
        Ok((entry.plan.clone(), graph.data()))
    }
}

impl Entry {
    fn new(graph: &Graph<'_>, target: &Target) -> Result<Self> {
        let nodes = graph.nodes.iter().zip(&graph.inputs);
        Ok(Self {
            nodes: nodes
                .map(|(node, inputs)| Structure::new(node, inputs))
                .collect(),
            outputs: graph.outputs.clone(),
            target: target.clone(),
            plan: Plan::of_graph(graph, target)?,
        })
    }

    /// Returns whether the entry is that of a program.
    fn is_of(&self, graph: &Graph<'_>, target: &Target) -> bool {
        let mut nodes = self.nodes.iter().zip(graph.nodes.iter().zip(&graph.inputs));
        self.nodes.len() == graph.nodes.len()
            && self.outputs == graph.outputs
            && self.target == *target
            && nodes.all(|(own, (node, inputs))| own.is_of(node, inputs))
    }
}

impl Structure {
    fn new(node: &Node, inputs: &[usize]) -> Self {
        Self {
            op: match &node.op {
                Op::Data(_) => None,
                op => Some(op.clone()),
            },
            shape: node.shape.clone(),
            dtype: node.dtype,
            inputs: inputs.to_vec(),
            location: node.location,
        }
    }

    fn is_of(&self, node: &Node, inputs: &[usize]) -> bool {
        let is_same_op = match (&self.op, &node.op) {
            (None, Op::Data(_)) => true,
            #[cfg(test)]
            (Some(Op::Const(_)), Op::Const(_))
                if crate::fault::is_planted(crate::fault::Fault::CachedConstant) =>
            {
                true
            }
            // Views of different names are equal, but a plan contains the names.
            (Some(own), op) => own == op && own.name() == op.name(),
            (None, _) => false,
        };
        is_same_op
            && self.dtype == node.dtype
            && self.shape == node.shape
            && self.inputs == inputs
            && self.location == node.location
    }
}

/// Returns a hash of a program's structure.
fn hash(graph: &Graph<'_>, target: &Target) -> u64 {
    let mut state = foldhash::fast::FixedState::default().build_hasher();
    target.hash(&mut state);
    graph.outputs.hash(&mut state);
    for (node, inputs) in graph.nodes.iter().zip(&graph.inputs) {
        match &node.op {
            Op::Data(_) => {}
            #[cfg(test)]
            Op::Const(_) if crate::fault::is_planted(crate::fault::Fault::CachedConstant) => {}
            op => op.hash(&mut state),
        }
        (&node.shape, node.dtype, inputs).hash(&mut state);
        // A line with two addresses has two hashes, and its program two entries.
        std::ptr::from_ref(node.location).hash(&mut state);
    }
    state.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Scalar;
    use crate::fault::{Fault, planted};
    use crate::{Executor as _, Host, Tensor};

    /// Returns `x * scale + 1`, always with the same source lines.
    fn scaled(x: &[f32], scale: f32) -> Tensor {
        Tensor::from_vec(&[x.len()], x.to_vec()) * scale + 1.0
    }

    fn planned(tensor: &Tensor) -> Plan {
        Plan::cached(&[tensor], &Host::new().target()).unwrap().0
    }

    fn is_shared(a: &Plan, b: &Plan) -> bool {
        Arc::ptr_eq(&a.steps, &b.steps)
    }

    #[test]
    fn data_and_a_constant_of_one_source_line_have_different_structures() {
        #[track_caller]
        fn created(is_data: bool) -> Tensor {
            match is_data {
                true => Tensor::from_vec(&[], vec![1.0_f32]),
                false => Tensor::constant(Scalar::F32(1.0)),
            }
        }
        let mut tensors = Vec::new();
        for is_data in [true, false] {
            tensors.push(created(is_data));
        }
        let nodes = [tensors[0].node(), tensors[1].node()];
        assert_eq!(nodes[0].location, nodes[1].location);
        for own in nodes {
            let structure = Structure::new(own, &[]);
            let equal = nodes.map(|node| structure.is_of(node, &[]));
            assert_eq!(equal, nodes.map(|node| std::ptr::eq(own, node)));
        }
    }

    #[test]
    fn programs_of_equal_structure_share_a_plan_and_compute_their_own_data() {
        let [a, b] = [[1.0, 2.0], [3.0, 4.0]].map(|x| scaled(&x, 2.0));
        assert!(is_shared(&planned(&a), &planned(&b)));
        for (tensor, expected) in [(a, [3.0, 5.0]), (b, [7.0, 9.0])] {
            let result = tensor.eval::<f32>(&Host::new()).unwrap();
            assert_eq!(result.as_slice().unwrap(), expected);
        }
    }

    #[test]
    fn programs_that_differ_have_plans_of_their_own() {
        let first = planned(&scaled(&[1.0, 2.0], 2.0));
        let x = Tensor::from_vec(&[2], vec![1.0_f32, 2.0]);
        let others = [
            scaled(&[1.0, 2.0], 3.0),
            scaled(&[1.0, 2.0], -2.0),
            scaled(&[1.0, 2.0, 3.0], 2.0),
            // Another line, and another edge.
            &x * 2.0 + 1.0,
            &x * &x + 1.0,
        ];
        for other in &others {
            assert!(!is_shared(&first, &planned(other)));
        }
        let target = Target {
            max_inputs: 7,
            ..Host::new().target()
        };
        let (other, _) = Plan::cached(&[&scaled(&[1.0, 2.0], 2.0)], &target).unwrap();
        assert!(!is_shared(&first, &other));
        // One array read twice is another program than two arrays.
        let pair = |x: &Tensor, y: &Tensor| x + y;
        let y = Tensor::from_vec(&[2], vec![5.0_f32, 6.0]);
        assert!(!is_shared(&planned(&pair(&x, &x)), &planned(&pair(&x, &y))));
    }

    #[test]
    fn a_cache_that_ignores_constants_is_found() {
        let results = |scale| {
            let result = scaled(&[1.0, 2.0], scale).eval::<f32>(&Host::new());
            result.unwrap().into_raw_vec_and_offset().0
        };
        let own = [results(4.0), results(5.0)];
        assert_eq!(own, [[5.0, 9.0], [6.0, 11.0]]);
        let wrong = planted(Fault::CachedConstant, || [results(4.0), results(5.0)]);
        assert_ne!(own, wrong);
    }

    #[test]
    fn the_cache_holds_no_data() {
        let data: Arc<dyn Storage> = {
            let x = Tensor::from_vec(&[2], vec![1.0_f32, 2.0]);
            let storage = Arc::clone(x.storage().unwrap());
            (x + 2.0).eval::<f32>(&Host::new()).unwrap();
            storage
        };
        assert_eq!(Arc::strong_count(&data), 1);
    }
}
