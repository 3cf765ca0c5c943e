//! The compiler from a loop nest to a program of instructions on blocks of lanes.
//!
//! Method: a value that is equal in all lanes is computed once. A value that depends on no reduced
//! axis is computed before the reduction begins (the setup phase). A register is reused after its
//! last read, so that the live registers fit the first-level cache. Some pairs of operations that
//! often follow each other are merged into one instruction.

use crate::dtype::DType;
use crate::ir::{Guard, IndexMap, LoopNest, Value, ValueId};
use crate::op::{Binary, Reduce, Unary};

use super::lane_axes::{LANES, LaneAxes, WIDE_LANES, flat_stride};
use super::lanes::are_lanes;
use super::program::{Access, Accumulator, Bytecode, Code, Instruction, NO_INPUT, Slot};

/// The phase in which a value is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
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
    /// For each value, whether the value is merged: the instruction of its only reader computes it,
    /// too.
    merged: Vec<bool>,
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
    pub(super) fn new(nest: &'n LoopNest) -> Self {
        let n = nest.values.len();
        // A reduction may stop early only if nothing gathers: otherwise the early stop would decide
        // whether an index out of range is reported.
        let gathers = nest
            .values
            .iter()
            .any(|value| value.checked_index().is_some());
        let stops = |value: &Value| match value {
            Value::Reduced(op, _) => Some(op.annihilator().is_some()),
            _ => None,
        };
        // 8-byte lanes halve the number of lanes, so that a register keeps its size in bytes.
        let wide = nest.dtypes.contains(&DType::F64) || nest.inputs.contains(&DType::F64);
        let block = if wide { WIDE_LANES } else { LANES };
        let lanes = LaneAxes::choose(nest);
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
            body: 0..0,
            accumulators: Vec::new(),
            registers: Vec::new(),
            constants: Vec::new(),
            result: Slot::Uniform(0),
            before: None,
            // A reduction may stop early if its operation has an annihilator (`All`, `Any`).
            stops: !nest.reduce.is_empty()
                && !gathers
                && nest.values.iter().filter_map(stops).all(|stops| stops),
        };
        Self {
            nest,
            program,
            packed: nest.packed_flag(),
            phases: vec![None; n],
            varies: vec![false; n],
            merged: vec![false; n],
            places: vec![None; n],
            last_use: vec![(Phase::Setup, 0); n],
            free: Vec::new(),
        }
    }

    /// Creates a compiler for a nest whose last input is the output itself.
    pub(super) fn in_place(nest: &'n LoopNest) -> Self {
        let mut compiler = Self::new(nest);
        // The register for the old elements of the output is allocated first, so that no
        // instruction overwrites these elements before they are read.
        compiler.program.before = Some(compiler.register(false));
        compiler
    }

    /// Emits the instructions phase by phase. Values are emitted in the order of the nest, so
    /// operands precede their readers.
    pub(super) fn compile(mut self) -> Bytecode {
        self.find_phases();
        self.find_uses();
        // Accumulators are reset before the setup, so they share no register with its values.
        self.make_accumulators();
        for phase in [Phase::Setup, Phase::Body, Phase::Epilogue] {
            self.release_all_read_before(phase);
            let first = self.program.instructions.len();
            match phase {
                Phase::Setup => {}
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
        let lanes =
            self.program.lanes.first..self.program.lanes.first + self.program.lanes.sizes.len();
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
            // The body is everything that some reduction reads, directly or not. Body values that
            // depend on no reduced axis move out of the loop, into the setup.
            self.phases[id] = match (body[id], epilogue[id]) {
                (true, _) if on_reduced[id] => Some(Phase::Body),
                (true, _) => Some(Phase::Setup),
                (false, true) => Some(Phase::Epilogue),
                (false, false) => None,
            };
        }
        self.skip_shifts();
    }

    /// Removes the conversion and the shift of flags that are packed.
    fn skip_shifts(&mut self) {
        if self.packed.is_some() {
            for id in self.nest.packing_shifts() {
                self.phases[id.0] = None;
            }
        }
    }

    /// Determines the last reader of each value, and the values that are merged into the
    /// instruction of their only reader.
    fn find_uses(&mut self) {
        let nest = self.nest;
        let mut uses = vec![0; nest.values.len()];
        uses[nest.result().0] = 1;
        for value in &nest.values {
            value.operands().for_each(|operand| uses[operand.0] += 1);
        }
        for (id, value) in nest.values.iter().enumerate() {
            // A reduction counts as a reader in the body, whichever phase reads its result.
            let (reader, phase) = match (value, self.phases[id]) {
                (Value::Reduced(..), _) => (id, Phase::Body),
                (_, Some(phase)) => (id, phase),
                _ => continue,
            };
            // The fold of flags that are packed reads the flags, not their shifted conversion.
            let packed = self.packed.filter(|_| matches!(value, Value::Reduced(..)));
            let operands = packed.map_or_else(|| value.operands().collect(), |flag| vec![flag]);
            for operand in operands {
                let at = operand.0;
                // A fold is emitted right after its operand, whatever the fold's own number is.
                // Therefore the read has the number of the operand, not of the fold.
                let reader = if matches!(value, Value::Reduced(..)) {
                    at
                } else {
                    reader
                };
                // An instruction has room for one merged operation: a value that contains a merged
                // value cannot be merged itself.
                let is_single = !nest.values[at].operands().any(|inner| self.merged[inner.0]);
                let is_only_here =
                    uses[at] == 1 && self.phases[at] == Some(phase) && packed.is_none();
                let alone = is_single && is_only_here && self.varies[at];
                self.merged[at] = alone
                    // The supported pairs: |a - b|; a * b + c with the product on the left; a fold
                    // of a comparison.
                    && match (value, &nest.values[at]) {
                        (Value::Unary(Unary::Abs, _), Value::Binary(Binary::Sub, ..)) => {
                            nest.dtypes[at].is_float()
                        }
                        (
                            Value::Binary(Binary::Add | Binary::Sub, first, second),
                            Value::Binary(Binary::Mul, ..),
                        ) => nest.dtypes[at].is_float() && first.0 == at && second.0 != at,
                        (Value::Reduced(op, _), Value::Compare(..)) => {
                            *op != Reduce::Prod && !self.program.lanes.reduced
                        }
                        _ => false,
                    };
                self.last_use[at] = self.last_use[at].max((phase, reader));
                // The reader of a merged value reads the operands of that value, so they live until
                // the reader. The operands of a comparison that is merged into a fold are read at
                // the comparison's own number.
                let at_reader = self.merged[at] && !matches!(value, Value::Reduced(..));
                for read in nest.values[at].operands().filter(|_| at_reader) {
                    self.last_use[read.0] = self.last_use[read.0].max((phase, reader));
                }
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
            if self.phases[id].is_some_and(|own| own < phase) && self.last_use[id].0 < phase {
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

    /// Emits the folds of values that depend on no reduced axis. The values are computed in the
    /// setup, but folded once for each point of the reduction, so the folds belong to the body.
    fn fold_what_stays_the_same(&mut self) {
        for id in 0..self.nest.values.len() {
            if self.phases[id] == Some(Phase::Setup) {
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
                Value::Compare(compare, a, b) if self.merged[id] => (
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
        });
        self.program.accesses.len() - 1
    }

    /// Emits a value and then the folds that read the value.
    fn emit(&mut self, id: usize, phase: Phase) {
        let operands = if self.merged[id] {
            self.nest.values[id].operands().collect()
        } else {
            self.emit_value(id)
        };
        if phase == Phase::Body {
            self.emit_folds(id);
            // The fold may have been the last reader.
            if self.last_use[id] <= (phase, id) {
                self.release(id);
            }
        }
        for operand in operands {
            // Operands of earlier phases stay: the body runs again for the next point.
            let is_last = self.last_use[operand.0] <= (phase, id);
            if is_last && self.phases[operand.0] == Some(phase) {
                self.release(operand.0);
            }
        }
    }

    /// Emits the instruction of a value, unless no instruction is needed. Returns the operands that
    /// the instruction reads.
    fn emit_value(&mut self, id: usize) -> Vec<ValueId> {
        let Some((code, dtype, operands)) = self.code(id) else {
            return Vec::new();
        };
        let destination = self.destination(id);
        let instruction = self.instruction(code, dtype, &operands, destination, !self.varies[id]);
        self.program.instructions.push(instruction);
        operands
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
        let factors = |value: ValueId| match nest.values[value.0] {
            Value::Binary(_, a, b) => (a, b),
            _ => unreachable!("only operations of two operands are merged into others"),
        };
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
            Value::Unary(Unary::Abs, a) if self.merged[a.0] => {
                let (x, y) = factors(*a);
                (Code::AbsDifference, of(*a), vec![x, y])
            }
            Value::Unary(op, a) => (Code::Unary(*op), of(*a), vec![*a]),
            Value::Binary(op, a, c) if self.merged[a.0] => {
                let (x, y) = factors(*a);
                (Code::MulAdd(*op), of(*a), vec![x, y, *c])
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
