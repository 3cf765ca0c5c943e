//! The compiler from a loop nest to a program of instructions on blocks of lanes.
//!
//! Method: a value that is equal in all lanes is computed for one lane. A value that is equal in
//! all blocks is computed in the first block (the start phase). A value that depends on no reduced
//! axis is computed before the reduction begins (the setup phase). A register is reused after its
//! last read, so that the live registers fit the first-level cache. Operations on floats that
//! follow each other are merged into one instruction (`chain`).

use crate::dtype::DType;
use crate::ir::{Guard, IndexMap, LoopNest, Value, ValueId};
use crate::op::{Reduce, Unary};

use super::chain::{self, Chain, MAX_LINKS};
use super::lane_axes::{LaneAxes, flat_stride, max_block};
use super::lanes::are_lanes;
use super::program::{Access, Accumulator, Bytecode, Code, Instruction, NO_INPUT, Slot};

/// The phase in which a value is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Start,
    Setup,
    Body,
    Epilogue,
}

/// The state of one compilation.
pub(super) struct Compiler<'n> {
    nest: &'n LoopNest,
    program: Bytecode,
    /// The flag that is packed into words, if the nest packs flags. Its conversion and its shift
    /// are not computed.
    packed: Option<ValueId>,
    /// The phase in which each value is computed; `None` for reductions and unused values.
    phases: Vec<Option<Phase>>,
    /// For each value, whether the value differs between lanes.
    varies: Vec<bool>,
    /// For each value that is merged, its only reader, whose instruction computes the value, too.
    readers: Vec<Option<usize>>,
    /// The place of each value while it is live.
    places: Vec<Option<Slot>>,
    /// For each value, its last read: the phase and the number of the reading value. Later reads
    /// compare as greater.
    last_use: Vec<(Phase, usize)>,
    /// The registers that are free for reuse. Uniform registers (one value for all lanes) are never
    /// freed.
    free: Vec<usize>,
}

impl<'n> Compiler<'n> {
    /// Creates a compiler for a nest of loops with these lanes.
    pub(super) fn new(nest: &'n LoopNest, lanes: LaneAxes) -> Self {
        let n = nest.values.len();
        // A reduction may stop early only if nothing gathers: otherwise the early stop would decide
        // whether an index out of range is reported.
        let gathers = nest
            .values
            .iter()
            .any(|value| value.checked_index().is_some());
        let block = max_block(nest);
        let n_blocks = if lanes.reduced {
            lanes.len.div_ceil(block).max(1)
        } else {
            1
        };
        let n_units = if lanes.per_output > 1 {
            1
        } else if lanes.reduced {
            nest.reduce_len() / lanes.len.max(1) * n_blocks
        } else {
            nest.reduce_len()
        };
        let program = Bytecode {
            sizes: nest.sizes(),
            n_domain: nest.domain.len(),
            lanes,
            block,
            n_blocks,
            n_units,
            accesses: Vec::new(),
            offsets: Vec::new(),
            strides: vec![Vec::new(); nest.sizes().len()],
            instructions: Vec::new(),
            n_start: 0,
            body: 0..0,
            accumulators: Vec::new(),
            registers: Vec::new(),
            constants: Vec::new(),
            result: Slot::Uniform(0),
            before: None,
            stops: !gathers && nest.can_stop(),
        };
        Self {
            nest,
            program,
            packed: nest.packed_flag(),
            phases: vec![None; n],
            varies: vec![false; n],
            readers: vec![None; n],
            places: vec![None; n],
            last_use: vec![(Phase::Start, 0); n],
            free: Vec::new(),
        }
    }

    /// Creates a compiler for a nest whose last input is the output itself.
    pub(super) fn in_place(nest: &'n LoopNest, lanes: LaneAxes) -> Self {
        let mut compiler = Self::new(nest, lanes);
        // The register for the old elements of the output is allocated first, so that no
        // instruction overwrites these elements before they are read.
        compiler.program.before = Some(compiler.register(false));
        compiler
    }

    /// Emits the instructions phase by phase. Values are emitted in the order of the nest, so
    /// operands precede their readers.
    pub(super) fn compile(mut self) -> Bytecode {
        self.find_phases();
        self.merge();
        self.find_uses();
        // Accumulators are reset before the setup, so they share no register with its values.
        self.make_accumulators();
        for phase in [Phase::Start, Phase::Setup, Phase::Body, Phase::Epilogue] {
            self.release_all_read_before(phase);
            let first = self.program.instructions.len();
            match phase {
                Phase::Start => {}
                Phase::Setup => self.program.n_start = first,
                Phase::Body => {
                    self.program.body = first..first;
                    self.fold_what_stays_the_same();
                }
                Phase::Epilogue => self.program.body.end = first,
            }
            for id in 0..self.nest.values.len() {
                if self.phases[id] == Some(phase) {
                    self.emit(id, phase);
                }
            }
        }
        self.program.result = self.place(self.nest.result());
        self.program
    }

    /// Determines the phase of each value, and whether the value differs between lanes.
    fn find_phases(&mut self) {
        let nest = self.nest;
        let (body, epilogue) = (nest.body(), nest.epilogue());
        let n_domain = nest.domain.len();
        let mut on_reduced = vec![false; nest.values.len()];
        let mut are_equal = vec![false; nest.values.len()];
        let lanes = self.program.lanes.axes();
        for (id, value) in nest.values.iter().enumerate() {
            if matches!(value, Value::Reduced(..)) {
                self.varies[id] = !self.program.lanes.reduced;
                continue;
            }
            for map in value.maps() {
                on_reduced[id] |= map.strides[n_domain..].iter().any(|&stride| stride != 0);
                self.varies[id] |= map.strides[lanes.clone()].iter().any(|&stride| stride != 0);
            }
            for operand in value.operands() {
                on_reduced[id] |= on_reduced[operand.0];
                self.varies[id] |= self.varies[operand.0];
            }
            let is_read = body[id] || epilogue[id];
            are_equal[id] = self.is_equal_in_blocks(value)
                && value.operands().all(|operand| are_equal[operand.0]);
            // The body is everything that some reduction reads, directly or not. Body values that
            // depend on no reduced axis move out of the loop, into the setup, and values that are
            // equal in all blocks into the start.
            self.phases[id] = match (body[id], epilogue[id]) {
                _ if is_read && are_equal[id] => Some(Phase::Start),
                (true, _) if on_reduced[id] => Some(Phase::Body),
                (true, _) => Some(Phase::Setup),
                (false, true) => Some(Phase::Epilogue),
                (false, false) => None,
            };
        }
        self.skip_shifts();
    }

    /// Returns whether a value is equal in all blocks, if its operands are.
    fn is_equal_in_blocks(&self, value: &Value) -> bool {
        let program = &self.program;
        // The output itself changes, and a gather may fail.
        let is_output =
            |input: usize| program.before.is_some() && input + 1 == self.nest.inputs.len();
        let changes = match value {
            Value::Load { input, .. } => is_output(*input),
            _ => value.checked_index().is_some(),
        };
        !changes
            && value
                .maps()
                .all(|map| program.lanes.has_equal_positions(map, program.block))
    }

    /// Removes the conversion and the shift of flags that are packed.
    fn skip_shifts(&mut self) {
        if self.packed.is_some() {
            for id in self.nest.packing_shifts() {
                self.phases[id.0] = None;
            }
        }
    }

    /// Determines the values that are merged into the instruction of their only reader.
    fn merge(&mut self) {
        let nest = self.nest;
        let mut n_reads = vec![0; nest.values.len()];
        n_reads[nest.result().0] = 1;
        for value in &nest.values {
            value.operands().for_each(|operand| n_reads[operand.0] += 1);
        }
        // The number of operations that the instruction of each value computes.
        let mut n_links = vec![1; nest.values.len()];
        for (id, value) in nest.values.iter().enumerate() {
            let is_mergeable = |operand: ValueId, phase: Phase| {
                let n_own = value.operands().filter(|&it| it == operand).count();
                n_reads[operand.0] == n_own
                    && self.phases[operand.0] == Some(phase)
                    && self.varies[operand.0]
            };
            match *value {
                // Flags that are packed are not folded.
                Value::Reduced(op, operand) if self.packed.is_none() => {
                    let is_compare = matches!(nest.values[operand.0], Value::Compare(..));
                    let is_supported = op != Reduce::Prod && !self.program.lanes.reduced;
                    if is_compare && is_supported && is_mergeable(operand, Phase::Body) {
                        self.readers[operand.0] = Some(id);
                    }
                }
                Value::Unary(..) | Value::Binary(..) if chain::is_arithmetic(nest, ValueId(id)) => {
                    let Some(phase) = self.phases[id] else {
                        continue;
                    };
                    let candidates = value.operands().filter(|&operand| {
                        chain::is_arithmetic(nest, operand)
                            && is_mergeable(operand, phase)
                            && n_links[operand.0] < MAX_LINKS
                    });
                    if let Some(operand) = candidates.max_by_key(|operand| n_links[operand.0]) {
                        self.readers[operand.0] = Some(id);
                        n_links[id] = n_links[operand.0] + 1;
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns whether a value is merged into the instruction of its reader.
    fn is_merged(&self, id: ValueId) -> bool {
        self.readers[id.0].is_some()
    }

    /// Determines the last reader of each value.
    fn find_uses(&mut self) {
        let nest = self.nest;
        let is_fold = |id: usize| matches!(nest.values[id], Value::Reduced(..));
        // The number of the value whose instruction computes each value. A fold is emitted right
        // after its operand, whatever the number of the fold is.
        let mut ends: Vec<usize> = (0..nest.values.len()).collect();
        for id in (0..nest.values.len()).rev() {
            if let Some(reader) = self.readers[id].filter(|&reader| !is_fold(reader)) {
                ends[id] = ends[reader];
            }
        }
        for (id, value) in nest.values.iter().enumerate() {
            // A reduction counts as a reader in the body, whichever phase reads its result.
            let phase = match self.phases[id] {
                _ if is_fold(id) => Phase::Body,
                Some(phase) => phase,
                None => continue,
            };
            // The fold of flags that are packed reads the flags, not their shifted conversion.
            let packed = self.packed.filter(|_| is_fold(id));
            let operands = packed.map_or_else(|| value.operands().collect(), |flag| vec![flag]);
            for operand in operands {
                let reader = if is_fold(id) { operand.0 } else { ends[id] };
                let last_use = &mut self.last_use[operand.0];
                *last_use = (*last_use).max((phase, reader));
            }
        }
        // The result is read after all values.
        self.last_use[nest.result().0] = (Phase::Epilogue, nest.values.len());
    }

    /// Returns a free register with lanes, or a new register. Uniform registers are never reused.
    fn register(&mut self, uniform: bool) -> usize {
        if let (false, Some(register)) = (uniform, self.free.last().copied()) {
            self.free.pop();
            return register;
        }
        self.program.registers.push(uniform);
        self.program.registers.len() - 1
    }

    /// Allocates the register of a value, which holds the value until [`release`](Self::release).
    fn destination(&mut self, id: usize) -> usize {
        let register = self.register(!self.varies[id]);
        self.places[id] = Some(if self.varies[id] {
            Slot::Lanes(register)
        } else {
            Slot::Uniform(register)
        });
        register
    }

    fn release(&mut self, id: usize) {
        if let Some(Slot::Lanes(register)) = self.places[id] {
            self.places[id] = None;
            self.free.push(register);
        }
    }

    /// Frees the registers of values that neither this phase nor a later phase reads.
    fn release_all_read_before(&mut self, phase: Phase) {
        for id in 0..self.nest.values.len() {
            let (own, last) = (self.phases[id], self.last_use[id].0);
            // Values of the start are read again in each block.
            let is_read_again = own == Some(Phase::Start) && last > Phase::Start;
            if own.is_some_and(|own| own < phase) && last < phase && !is_read_again {
                self.release(id);
            }
        }
    }

    fn place(&self, id: ValueId) -> Slot {
        match self.places[id.0] {
            Some(place) => place,
            None => unreachable!("operands are computed before their uses"),
        }
    }

    /// Allocates the accumulators, which live from before the setup until the end. If the lanes are
    /// reduced, a uniform register holds the total of the lanes.
    fn make_accumulators(&mut self) {
        for (id, value) in self.nest.values.iter().enumerate() {
            if let Value::Reduced(op, _) = *value {
                let register = self.register(false);
                let total = if self.program.lanes.reduced {
                    self.register(true)
                } else {
                    register
                };
                self.places[id] = Some(if self.program.lanes.reduced {
                    Slot::Uniform(total)
                } else {
                    Slot::Lanes(register)
                });
                let dtype = self.nest.dtypes[id];
                self.program.accumulators.push(Accumulator {
                    register,
                    total,
                    op,
                    dtype,
                });
            }
        }
    }

    /// Emits the folds of values that depend on no reduced axis. The values are computed before the
    /// body, but folded once for each point of the reduction, so the folds belong to the body.
    fn fold_what_stays_the_same(&mut self) {
        for id in 0..self.nest.values.len() {
            if self.phases[id].is_some_and(|phase| phase < Phase::Body) {
                self.emit_folds(id);
            }
        }
    }

    /// Emits the instructions that fold a value into accumulators.
    fn emit_folds(&mut self, id: usize) {
        let nest = self.nest;
        let reductions = nest
            .values
            .iter()
            .filter(|value| matches!(value, Value::Reduced(..)));
        for (number, reduction) in reductions.enumerate() {
            let Value::Reduced(op, operand) = *reduction else {
                continue;
            };
            if self.packed.unwrap_or(operand).0 != id {
                continue;
            }
            let (code, dtype, operands) = match nest.values[id] {
                _ if self.packed.is_some() => (Code::Pack, DType::Bool, vec![ValueId(id)]),
                Value::Compare(compare, a, b) if self.is_merged(operand) => (
                    Code::AccumulateCompare(op, compare),
                    nest.dtypes[a.0],
                    vec![a, b],
                ),
                _ => (Code::Accumulate(op), nest.dtypes[id], vec![operand]),
            };
            let destination = self.program.accumulators[number].register;
            let instruction = self.instruction(code, dtype, &operands, destination, false);
            self.program.instructions.push(instruction);
        }
    }

    /// Adds an access and returns its number. The maps of an access are consecutive: first the map
    /// of the elements, then the map of each guard.
    ///
    /// ```text
    /// offsets   | element | guard 0 | guard 1 | next access ...
    ///           ^ maps.start                  ^ maps.end
    /// ```
    fn access(&mut self, input: usize, dtype: DType, map: &IndexMap, guards: &[Guard]) -> usize {
        let program = &mut self.program;
        let first = program.offsets.len();
        // Append the element map and the guards' maps to the tables of offsets and strides.
        for map in std::iter::once(map).chain(guards.iter().map(|guard| &guard.map)) {
            program.offsets.push(map.offset);
            for (strides, &stride) in program.strides.iter_mut().zip(&map.strides) {
                strides.push(stride);
            }
        }
        program.accesses.push(Access {
            input,
            dtype,
            guards: guards.to_vec(),
            maps: first..program.offsets.len(),
            runs: program.lanes.runs(map, guards),
        });
        self.program.accesses.len() - 1
    }

    /// Emits a value and then the folds that read the value.
    fn emit(&mut self, id: usize, phase: Phase) {
        if !self.is_merged(ValueId(id)) {
            self.emit_value(id);
        }
        if phase == Phase::Body {
            self.emit_folds(id);
            // The fold may have been the last reader.
            if self.last_use[id] <= (phase, id) {
                self.release(id);
            }
        }
        for operand in self.operands(id) {
            // Operands of earlier phases stay: the body runs again for the next point.
            let is_last = self.last_use[operand.0] <= (phase, id);
            if is_last && self.phases[operand.0] == Some(phase) {
                self.release(operand.0);
            }
        }
    }

    /// Emits the instruction of a value, unless no instruction is needed.
    fn emit_value(&mut self, id: usize) {
        let Some((code, dtype, operands)) = self.code(id) else {
            return;
        };
        let destination = self.destination(id);
        let instruction = self.instruction(code, dtype, &operands, destination, !self.varies[id]);
        self.program.instructions.push(instruction);
    }

    /// Returns the operands of a value and of the values that are merged into its instruction.
    fn operands(&self, id: usize) -> Vec<ValueId> {
        let mut operands = Vec::new();
        let mut open = vec![ValueId(id)];
        while let Some(id) = open.pop() {
            for operand in self.nest.values[id.0].operands() {
                if self.is_merged(operand) {
                    open.push(operand);
                } else {
                    operands.push(operand);
                }
            }
        }
        operands
    }

    /// Returns the code of the chain that ends with a value.
    fn chain(&self, id: usize) -> Code {
        let is_merged = |id| self.is_merged(id);
        let chain = Chain::new(self.nest, ValueId(id), is_merged, |id| Some(self.place(id)));
        let chain = chain.unwrap_or_else(|| unreachable!("each value has a place"));
        Code::Chain(Box::new(chain))
    }

    /// Returns a map for an access that reads no input.
    fn nowhere(&self) -> IndexMap {
        IndexMap {
            offset: 0,
            strides: vec![0; self.program.sizes.len()],
        }
    }

    /// Returns the code, type and operands that compute a value; `None` for constants, which are
    /// set once, and for inputs that are read in place.
    fn code(&mut self, id: usize) -> Option<(Code, DType, Vec<ValueId>)> {
        let nest = self.nest;
        let of = |value: ValueId| nest.dtypes[value.0];
        Some(match &nest.values[id] {
            Value::Const(scalar) => {
                let register = self.register(true);
                self.program.constants.push((register, *scalar));
                self.places[id] = Some(Slot::Uniform(register));
                return None;
            }
            Value::Index(map) => (
                Code::Index(self.access(NO_INPUT, DType::U32, map, &[])),
                DType::U32,
                vec![],
            ),
            Value::Inside(guards) => {
                let access = self.access(NO_INPUT, DType::Bool, &self.nowhere(), guards);
                (Code::Inside(access), DType::Bool, vec![])
            }
            Value::Load { input, map, guards } => {
                let dtype = nest.inputs[*input];
                // In a program that runs in place, the last input is the output itself, whose block
                // is loaded into the register `before`.
                if let (Some(register), true) =
                    (self.program.before, *input + 1 == nest.inputs.len())
                {
                    self.places[id] = Some(Slot::Lanes(register));
                    return None;
                }
                let access = self.access(*input, dtype, map, guards);
                let lanes = &self.program.lanes;
                // Contiguous elements without guards that need no conversion: instructions read
                // them in place, without a copy into a register.
                let walks_memory = flat_stride(map, lanes.first, &lanes.sizes) == Some(1);
                if self.varies[id] && walks_memory && guards.is_empty() && are_lanes(dtype) {
                    self.places[id] = Some(Slot::Input(access));
                    return None;
                }
                (Code::Fetch(access), dtype, vec![])
            }
            Value::Gather {
                input,
                map,
                guards,
                at,
                stride,
                extent,
            } => {
                let access = self.access(*input, nest.inputs[*input], map, guards);
                let (stride, extent) = (*stride, *extent);
                let code = Code::Gather {
                    access,
                    stride,
                    extent,
                };
                (code, of(*at), vec![*at])
            }
            Value::Position { guards, at, extent } => {
                let access = self.access(NO_INPUT, DType::U32, &self.nowhere(), guards);
                let extent = *extent;
                (Code::Position { access, extent }, of(*at), vec![*at])
            }
            Value::Random {
                key,
                stream,
                at,
                stride,
                first,
            } => {
                let operands = vec![*at, stream[0], stream[1]];
                let code = Code::Random {
                    key: *key,
                    stride: *stride,
                    first: *first,
                };
                (code, DType::U32, operands)
            }
            Value::Unary(Unary::IsNan, a) => (Code::IsNan, of(*a), vec![*a]),
            Value::Unary(_, a) if self.is_merged(*a) => (self.chain(id), of(*a), vec![]),
            Value::Unary(op, a) => (Code::Unary(*op), of(*a), vec![*a]),
            Value::Binary(_, a, b) if self.is_merged(*a) || self.is_merged(*b) => {
                (self.chain(id), of(*a), vec![])
            }
            Value::Binary(op, a, b) => (Code::Binary(*op), of(*a), vec![*a, *b]),
            Value::Compare(op, a, b) => (Code::Compare(*op), of(*a), vec![*a, *b]),
            Value::Select(condition, a, b) => (Code::Select, of(*a), vec![*condition, *a, *b]),
            Value::Cast(to, a) => (Code::Cast(*to), of(*a), vec![*a]),
            Value::Reduced(..) | Value::Scanned(..) | Value::Sorted(..) => return None,
        })
    }

    fn instruction(
        &self,
        code: Code,
        dtype: DType,
        operands: &[ValueId],
        destination: usize,
        uniform: bool,
    ) -> Instruction {
        // Unused operands name the destination; no instruction reads them.
        let mut places = [Slot::Uniform(destination); 3];
        for (place, &operand) in places.iter_mut().zip(operands) {
            *place = self.place(operand);
        }
        Instruction {
            code,
            dtype,
            operands: places,
            destination,
            uniform,
        }
    }
}
