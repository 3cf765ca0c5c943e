//! The partitioner: translates nodes into steps and decides which nodes are fused and which results
//! are stored.
//!
//! Method: nodes are visited operands first. Each becomes a computation over its own shape: a
//! scalar value whose leaves are loads from buffers, with at most one level of reductions.
//! Element-wise operations, views, padding and gathers extend such a value. A node is stored in an
//! array of its own (materialised) only for one of these reasons:
//! - the node is an output;
//! - a reduction would be inside another reduction, or a view with more elements than its array
//!   would repeat the reduction;
//! - a scan would be inside another fold or next to it, or would be read through a view;
//! - the node is a sort, or the operand of one;
//! - no strides describe a reshape of the array;
//! - a gather or a matrix product needs a plain array, or the computation exceeds the target's cap;
//! - the node would be computed again too often (`keep`).

use std::collections::{BTreeMap, BTreeSet};

use super::arena::ExprArena;
use super::emit;
use super::graph::Graph;
use super::keep::Cost;
use super::nodes::Nodes;
use super::reads::Reads;
use super::{Buffer, BufferId, BufferKind, Origin, Step, Target};
use crate::dtype::{DType, Scalar};
use crate::hash::HashMap;
use crate::ir::{IndexMap, Value, ValueId};
use crate::op::{Binary, Reduce, Sort};
use crate::tensor::Op;

/// An array in the form of a computation.
#[derive(Clone)]
pub(super) struct Lowered {
    /// The value of one element; its index maps are over the axes of the array. Reductions in this
    /// value run over loops of the sizes `reduce`.
    pub(super) value: ValueId,
    pub(super) reduce: Vec<usize>,
    /// The scan in this value; then `reduce` is empty.
    pub(super) scan: Option<ValueId>,
    /// The nodes that the computation covers, each with a flag that is `true` inside a reduction.
    pub(super) nodes: Nodes,
}

impl Lowered {
    /// Returns whether the value contains a reduction or a scan.
    pub(super) fn folds(&self) -> bool {
        !self.reduce.is_empty() || self.scan.is_some()
    }
}

/// A plan under construction.
pub(super) struct Lowering<'g> {
    pub(super) graph: &'g Graph<'g>,
    pub(super) reads: &'g Reads,
    pub(super) target: &'g Target,
    /// Nodes that are stored because an earlier draft found computing them again more expensive.
    pub(super) kept: &'g BTreeSet<usize>,
    pub(super) arena: ExprArena,
    pub(super) lowered: Vec<Lowered>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) inputs: Vec<BufferId>,
    pub(super) steps: Vec<Step>,
    /// The buffers of arrays that already have a step, by the array's value, its shape and the
    /// sizes of the reduced axes.
    computed: HashMap<(ValueId, Vec<usize>, Vec<usize>), BufferId>,
    /// The number of evaluations of each node, summed over all steps.
    pub(super) evaluations: BTreeMap<usize, f64>,
    /// The nodes to store so that matrix products can read them: the factors of these products are
    /// views of the nodes. In this draft the products run as plain loops, because a factor is
    /// larger than its inputs.
    pub(super) factors: BTreeSet<usize>,
    /// The cost of one element of each node.
    pub(super) costs: Vec<Cost>,
    /// For each node, whether it is larger than all buffers together from which it is computed, and
    /// contains no fold.
    pub(super) grown: Vec<bool>,
}

impl<'g> Lowering<'g> {
    /// Translates all nodes of a graph into computations, and creates the steps of the nodes that
    /// have to be stored.
    pub(super) fn new(
        graph: &'g Graph<'g>,
        reads: &'g Reads,
        target: &'g Target,
        kept: &'g BTreeSet<usize>,
    ) -> Self {
        let mut draft = Self {
            graph,
            reads,
            target,
            kept,
            arena: ExprArena::default(),
            lowered: Vec::with_capacity(graph.nodes.len()),
            buffers: Vec::new(),
            inputs: Vec::new(),
            steps: Vec::new(),
            computed: HashMap::default(),
            evaluations: BTreeMap::new(),
            factors: BTreeSet::new(),
            costs: Vec::with_capacity(graph.nodes.len()),
            grown: Vec::with_capacity(graph.nodes.len()),
        };
        // Outputs and nodes that an earlier draft found expensive are stored right after their
        // lowering.
        let mut is_asked_for: Vec<bool> = vec![false; graph.nodes.len()];
        for &node in graph.outputs.iter().chain(kept) {
            is_asked_for[node] = true;
        }
        for (node, is_asked_for) in is_asked_for.into_iter().enumerate() {
            let mut lowered = draft.lower(node);
            // Too large for one step: store the inputs, so that the computation only loads them.
            if !draft.fits(&lowered) {
                for &input in &graph.inputs[node] {
                    draft.materialise(input);
                }
                lowered = draft.lower(node);
            }
            draft.costs.push(draft.cost(&lowered));
            let grown = draft.outgrows(lowered.value, len(draft.shape(node)));
            draft.grown.push(grown && !lowered.folds());
            draft.lowered.push(lowered);
            if is_asked_for || draft.is_read_too_often(node) {
                draft.store(node);
            }
        }
        draft
    }

    /// Returns the buffers of the requested nodes, and creates the steps that compute these.
    pub(super) fn outputs(&mut self) -> Vec<BufferId> {
        let outputs = self.graph.outputs.clone();
        outputs
            .into_iter()
            .map(|node| self.materialise(node))
            .collect()
    }

    pub(super) fn shape(&self, node: usize) -> &'g [usize] {
        &self.graph.nodes[node].shape
    }

    /// Returns the computation of a node from the computations of its inputs. May store inputs.
    pub(super) fn lower(&mut self, node: usize) -> Lowered {
        let graph = self.graph;
        let this = graph.nodes[node];
        let inputs = &graph.inputs[node];
        match &this.op {
            Op::Error(_) | Op::Surrogate => unreachable!("a graph has no such nodes"),
            Op::Data(_) => {
                let buffer = self.buffer(BufferKind::Input, this.dtype, &this.shape);
                self.inputs.push(buffer);
                self.load(buffer, &this.shape)
            }
            Op::Const(scalar) => self.leaf(|arena| arena.constant(*scalar)),
            Op::Index => self.leaf(|arena| {
                let map = IndexMap {
                    offset: 0,
                    strides: vec![1],
                };
                arena.intern(Value::Index(map), DType::U32)
            }),
            Op::Random { key, stride, first } => self.combined(node, inputs, |arena, ids| {
                let word = Value::Random {
                    key: *key,
                    stream: [ids[1], ids[2]],
                    at: ids[0],
                    stride: *stride,
                    first: *first,
                };
                arena.intern(word, DType::U32)
            }),
            Op::Unary(op) => self.combined(node, inputs, |arena, ids| arena.unary(*op, ids[0])),
            Op::Binary(op) => self.combined(node, inputs, |arena, ids| {
                let (a, b) = (ids[0], ids[1]);
                #[cfg(test)]
                let (a, b) = super::fault::operands(*op, a, b);
                // The power is defined in f64 and rounded to f32. The square of an f32 is exact in
                // f64, so x * x in f32 has the same bits. The square of an f64 is not exact in f64.
                if *op == Binary::Pow && arena.as_constant(b) == Some(Scalar::F32(2.0)) {
                    return arena.binary(Binary::Mul, a, a);
                }
                arena.binary(*op, a, b)
            }),
            Op::Compare(op) => self.combined(node, inputs, |arena, ids| {
                arena.compare(*op, ids[0], ids[1])
            }),
            Op::Select => self.combined(node, inputs, |arena, ids| {
                arena.select(ids[0], ids[1], ids[2])
            }),
            // Positions are computed, not loaded, so a cast of positions counts as plain and is
            // never stored for its readers.
            Op::Cast if this.dtype.is_integer() && self.is_index(inputs[0]) => {
                let positions = self.lowered[inputs[0]].value;
                let leaf = self.leaf(|arena| arena.cast(this.dtype, positions));
                Lowered {
                    nodes: Nodes::joined([].into_iter(), node),
                    ..leaf
                }
            }
            Op::Cast => self.combined(node, inputs, |arena, ids| arena.cast(this.dtype, ids[0])),
            Op::View { rows, .. } => {
                let grows = len(&this.shape) > len(self.shape(inputs[0]));
                // A view with more elements than its array would repeat the reduction for each
                // copy.
                if grows {
                    self.materialise_fold(inputs[0]);
                }
                self.materialise_scan(inputs[0]);
                let source = self.lowered[inputs[0]].clone();
                let value = self
                    .arena
                    .moved(source.value, rows, &this.shape, &source.reduce);
                self.viewed(source, value)
            }
            Op::Reshape => self.reshape(inputs[0], &this.shape),
            Op::Pad { before, fill } => {
                // The guards of padding apply to loads, so a reduction cannot be padded from
                // outside; but a sum of products of loads is 0 where these are.
                let is_sum = self.is_merged(inputs[0])
                    && self.arena.is_zero_outside(self.lowered[inputs[0]].value);
                if !is_sum {
                    self.materialise_fold(inputs[0]);
                }
                let source = self.lowered[inputs[0]].clone();
                let shapes = (self.shape(inputs[0]), &this.shape[..]);
                let value = self
                    .arena
                    .padded(source.value, shapes, &source.reduce, before, *fill);
                self.viewed(source, value)
            }
            Op::Gather { axis, rows } => self.gather(node, inputs[0], inputs[1], *axis, rows),
            Op::Reduce { op, n_reduced } => {
                let (input, reduced) = (graph.nodes[inputs[0]], this.shape.len()..);
                if input.shape[reduced].contains(&0) {
                    // A maximum or minimum over no elements exists only for an empty output, so the
                    // replacement is never read.
                    let nothing = op
                        .identity(input.dtype)
                        .unwrap_or_else(|| Scalar::zero(this.dtype));
                    return self.leaf(|arena| arena.constant(nothing));
                }
                // A nest has one level of reductions: store an input that contains a reduction.
                if let Some(merged) = self.sum_of_products(node, inputs[0]) {
                    return merged;
                }
                self.store_fold(inputs[0], true);
                let source = self.lowered[inputs[0]].clone();
                // A reduction over no axes only converts the type.
                if *n_reduced == 0 {
                    let value = self.arena.cast(this.dtype, source.value);
                    return Lowered { value, ..source };
                }
                if (*op, *n_reduced) == (Reduce::Sum, 1)
                    && this.dtype == input.dtype
                    && let Some(value) = self.arena.term_at_index(source.value, &input.shape)
                {
                    return Lowered {
                        value,
                        nodes: Nodes::joined([&source.nodes].into_iter(), node),
                        ..source
                    };
                }
                let nodes = source.nodes.reduced(node);
                Lowered {
                    value: self.arena.reduced(*op, source.value),
                    reduce: self.shape(inputs[0])[this.shape.len()..].to_vec(),
                    scan: None,
                    nodes,
                }
            }
            Op::Sort(sort) => self.sort(node, inputs[0], *sort),
            Op::Scan(scan) => {
                self.materialise_fold(inputs[0]);
                let source = self.lowered[inputs[0]].clone();
                #[cfg(test)]
                let scan = &super::fault::scan(*scan);
                let value = self.arena.scanned(*scan, source.value);
                Lowered {
                    value,
                    reduce: Vec::new(),
                    scan: Some(value),
                    nodes: Nodes::joined([&source.nodes].into_iter(), node),
                }
            }
        }
    }

    /// Returns the computation of a sum over results of a product, if it is one product itself: the
    /// sum over all terms of these results. `None` if it is not.
    fn sum_of_products(&mut self, node: usize, input: usize) -> Option<Lowered> {
        let source = &self.lowered[input];
        let is_candidate = self.is_merged(input)
            && !source.reduce.is_empty()
            && self.arena.summed_product(source.value).is_some();
        if !is_candidate {
            return None;
        }
        let shape = self.shape(node);
        // The reduced axes of this node follow those of its result, and the reduced axes of the
        // source follow these.
        let merged = Lowered {
            value: source.value,
            reduce: [&self.shape(input)[shape.len()..], &source.reduce].concat(),
            scan: None,
            nodes: source.nodes.reduced(node),
        };
        emit::is_product(self, &merged, shape).then_some(merged)
    }

    /// Returns a computation that covers no nodes.
    fn leaf(&mut self, make: impl FnOnce(&mut ExprArena) -> ValueId) -> Lowered {
        Lowered {
            value: make(&mut self.arena),
            reduce: Vec::new(),
            scan: None,
            nodes: Nodes::default(),
        }
    }

    /// Returns the computation that loads a whole buffer.
    fn load(&mut self, buffer: BufferId, shape: &[usize]) -> Lowered {
        let dtype = self.buffers[buffer.0].dtype;
        let value = Value::Load {
            input: buffer.0,
            map: IndexMap::in_order(shape),
            guards: Vec::new(),
        };
        self.leaf(|arena| arena.intern(value, dtype))
    }

    /// Combines the computations of inputs of equal shape. Inputs whose computations do not fit
    /// together are stored.
    fn combined(
        &mut self,
        node: usize,
        inputs: &[usize],
        make: impl Fn(&mut ExprArena, &[ValueId]) -> ValueId,
    ) -> Lowered {
        self.separate_folds(inputs);
        loop {
            let ids: Vec<ValueId> = inputs
                .iter()
                .map(|&input| self.lowered[input].value)
                .collect();
            let value = make(&mut self.arena, &ids);
            let joined = self.joined(node, inputs, value);
            if self.fits(&joined) {
                return joined;
            }
            // The largest computation is stored first, but a reduction before all others, because
            // its result is small.
            let size = |&&input: &&usize| {
                let lowered = &self.lowered[input];
                let n_values = self.arena.reached(lowered.value).len();
                (!lowered.reduce.is_empty(), n_values)
            };
            let largest = inputs
                .iter()
                .filter(|&&input| !self.is_plain(input))
                .max_by_key(size);
            match largest {
                Some(&input) => self.materialise(input),
                None => return joined,
            };
        }
    }

    /// Returns the computation of a node whose value was created from its inputs' values.
    fn joined(&self, node: usize, inputs: &[usize], value: ValueId) -> Lowered {
        if matches!(self.arena.value(value), Value::Const(_)) {
            return Lowered {
                value,
                reduce: Vec::new(),
                scan: None,
                nodes: Nodes::default(),
            };
        }
        let mut reduces = inputs
            .iter()
            .map(|&input| &self.lowered[input].reduce)
            .filter(|reduce| !reduce.is_empty());
        // Simplifications may have removed all reductions from the value.
        let reduce = reduces.next().filter(|_| self.arena.reduces(value));
        let reduce = reduce.cloned().unwrap_or_default();
        let scan = inputs.iter().find_map(|&input| self.lowered[input].scan);
        let is_reached = |scan: &ValueId| self.arena.reached(value).binary_search(scan).is_ok();
        let nodes = inputs.iter().map(|&input| &self.lowered[input].nodes);
        Lowered {
            value,
            reduce,
            scan: scan.filter(is_reached),
            nodes: Nodes::joined(nodes, node),
        }
    }

    /// Returns a computation that is read through a view. The view may exclude so much that no
    /// reduction remains.
    fn viewed(&self, source: Lowered, value: ValueId) -> Lowered {
        let reduces = !source.reduce.is_empty() && self.arena.reduces(value);
        Lowered {
            value,
            reduce: if reduces { source.reduce } else { Vec::new() },
            scan: None,
            nodes: source.nodes,
        }
    }

    /// Returns `true` if a computation stays within the target's caps, and its values after folds
    /// still do if an executor stores the folds' results.
    fn fits(&self, lowered: &Lowered) -> bool {
        let Target {
            max_values,
            max_inputs,
            ..
        } = *self.target;
        let after_folds = || self.arena.n_inputs_after_folds(lowered.value);
        self.arena.reached(lowered.value).len() <= max_values
            && lowered.nodes.len() <= max_values
            && self.arena.inputs_of(lowered.value).len() <= max_inputs
            && (!lowered.folds() || after_folds() <= max_inputs)
    }

    /// Returns `true` if a node is loaded from memory, a constant or an index, so storing it would
    /// not simplify its readers.
    pub(super) fn is_plain(&self, node: usize) -> bool {
        let value = self.arena.value(self.lowered[node].value);
        matches!(value, Value::Load { .. } | Value::Const(_)) || self.is_index(node)
    }

    /// Returns `true` if a node is an index, perhaps as a signed integer.
    fn is_index(&self, node: usize) -> bool {
        match self.arena.value(self.lowered[node].value) {
            Value::Index(_) => true,
            Value::Cast(to, from) => {
                to.is_integer() && matches!(self.arena.value(*from), Value::Index(_))
            }
            _ => false,
        }
    }

    /// Returns the computation of a reshape; stores the input if no strides describe the reshape.
    fn reshape(&mut self, input: usize, to: &[usize]) -> Lowered {
        self.materialise_scan(input);
        let from = self.shape(input);
        let source = self.lowered[input].clone();
        let reshaped = self.arena.reshaped(source.value, from, to, &source.reduce);
        if let Some(value) = reshaped {
            return self.viewed(source, value);
        }
        let buffer = self.materialise(input);
        self.load(buffer, to)
    }

    /// Returns the computation of a gather. The table must be a plain array, and the index must not
    /// contain a reduction. A table of positions becomes a [`Value::Position`] and needs no array.
    fn gather(
        &mut self,
        node: usize,
        table: usize,
        index: usize,
        axis: usize,
        rows: &[IndexMap],
    ) -> Lowered {
        self.materialise_fold(index);
        // An element of a table of positions is its own position.
        if let Value::Index(map) = self.arena.value(self.lowered[table].value)
            && map.is_coordinate(axis)
        {
            let source = self.lowered[index].clone();
            let value = Value::Position {
                guards: Vec::new(),
                at: source.value,
                extent: self.shape(table)[axis],
            };
            return Lowered {
                value: self.arena.intern(value, DType::U32),
                nodes: Nodes::joined([&source.nodes].into_iter(), node),
                ..source
            };
        }
        // A gather reads positions of a whole buffer, so the table must be a load without guards.
        let guarded =
            |value: &Value| !matches!(value, Value::Load { guards, .. } if guards.is_empty());
        if guarded(self.arena.value(self.lowered[table].value)) {
            let buffer = self.materialise(table);
            self.lowered[table] = self.load(buffer, self.shape(table));
        }
        let Value::Load { input, map, .. } = self.arena.value(self.lowered[table].value).clone()
        else {
            unreachable!("a materialised node is a load");
        };
        let rank = self.shape(node).len();
        let source = self.lowered[index].clone();
        let (stride, extent) = (map.stride(axis), self.shape(table)[axis]);
        let dtype = self.graph.nodes[node].dtype;
        let value = Value::Gather {
            input,
            map: super::arena::moved_map(&map, rows, rank),
            guards: Vec::new(),
            at: source.value,
            stride,
            extent,
        };
        let nodes = Nodes::joined([&source.nodes].into_iter(), node);
        Lowered {
            value: self.arena.intern(value, dtype),
            reduce: Vec::new(),
            scan: None,
            nodes,
        }
    }

    /// Adds the step of a sort, which reads a whole array, and returns the computation that loads
    /// its results.
    fn sort(&mut self, node: usize, input: usize, sort: Sort) -> Lowered {
        let shape = self.shape(node);
        let buffer = self.materialise(input);
        let elements = self.load(buffer, shape);
        #[cfg(test)]
        let sort = super::fault::sort(sort);
        let sorted = Lowered {
            value: self.arena.sorted(sort, elements.value),
            nodes: Nodes::joined([].into_iter(), node),
            ..elements
        };
        let buffer = self.compute(&sorted, shape);
        self.load(buffer, shape)
    }

    /// Stores a node in memory for its readers, unless it is stored already. On targets that store
    /// halves, numbers that were converted from `f16` are stored as `f16` and converted where they
    /// are read. So halves remain halves between the layers of a network.
    pub(super) fn store(&mut self, node: usize) {
        let lowered = self.lowered[node].clone();
        match self.arena.value(lowered.value) {
            &Value::Cast(to, from)
                if self.target.stores_halves
                    && self.arena.dtype(from) == DType::F16
                    && !self.graph.is_viewed_by_output(node) =>
            {
                let shape = self.shape(node);
                let narrow = Lowered {
                    value: from,
                    ..lowered
                };
                let buffer = self.compute(&narrow, shape);
                let loaded = self.load(buffer, shape);
                self.lowered[node] = Lowered {
                    value: self.arena.cast(to, loaded.value),
                    ..loaded
                };
            }
            _ => {
                self.materialise(node);
            }
        }
    }

    /// Stores a node in memory, unless it is stored already, and returns its buffer.
    pub(super) fn materialise(&mut self, node: usize) -> BufferId {
        let shape = self.shape(node);
        let lowered = self.lowered[node].clone();
        let buffer = self.compute(&lowered, shape);
        self.lowered[node] = self.load(buffer, shape);
        buffer
    }

    /// Returns the buffer that contains an array, and adds a step that computes the array if there
    /// is no such buffer.
    pub(super) fn compute(&mut self, lowered: &Lowered, shape: &[usize]) -> BufferId {
        if let Value::Load { input, map, guards } = self.arena.value(lowered.value)
            && guards.is_empty()
            && trimmed(&IndexMap::in_order(shape)) == *map
            && self.buffers[*input].len() == len(shape)
        {
            return BufferId(*input);
        }
        let key = (lowered.value, shape.to_vec(), lowered.reduce.clone());
        if let Some(&buffer) = self.computed.get(&key) {
            return buffer;
        }
        let buffer = emit::step(self, lowered, shape);
        self.computed.insert(key, buffer);
        let outputs = len(shape) as f64;
        // Nodes inside the reduction are evaluated at every point of it, the others once per
        // output.
        let points = outputs * lowered.reduce.iter().product::<usize>() as f64;
        for (&node, &inside) in lowered.nodes.iter() {
            *self.evaluations.entry(node).or_default() += if inside { points } else { outputs };
        }
        buffer
    }

    /// Adds a buffer and returns its id.
    pub(super) fn buffer(&mut self, kind: BufferKind, dtype: DType, shape: &[usize]) -> BufferId {
        self.buffers.push(Buffer {
            kind,
            dtype,
            shape: shape.to_vec(),
        });
        BufferId(self.buffers.len() - 1)
    }

    /// Returns the operations and source lines of a computation's nodes, in the order of the
    /// program.
    pub(super) fn origins(&self, lowered: &Lowered) -> Vec<Origin> {
        let origin = |&node: &usize| Origin {
            operation: self.graph.nodes[node].op.name(),
            location: self.graph.nodes[node].location,
        };
        lowered.nodes.keys().map(origin).collect()
    }
}

/// Returns the number of elements of a shape.
pub(super) fn len(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Returns a map without trailing zero strides, as the arena stores maps.
fn trimmed(map: &IndexMap) -> IndexMap {
    let used = map.strides.iter().rposition(|&stride| stride != 0);
    IndexMap {
        offset: map.offset,
        strides: map.strides[..used.map_or(0, |last| last + 1)].to_vec(),
    }
}
