//! Compiles a nest into a program.
//!
//! Method: a value that is the same for all lanes is computed once for all of them. A value that no reduced axis changes is
//! computed before the reduction begins. Registers are reused as soon as nothing reads them, so that what lives fits the
//! first-level cache. Two operations that often stand together become one instruction.

use crate::dtype::DType;
use crate::ir::{Guard, IndexMap, LoopNest, Value, ValueId};
use crate::op::{Binary, Reduce, Unary};

use super::lane_axes::{LANES, LaneAxes, WIDE_LANES, flat_stride};
use super::lanes::are_lanes;
use super::program::{Access, Accumulator, Code, Instruction, Phase, Place, Program};

/// A compilation under way.
pub(super) struct Compiler<'n> {
    nest: &'n LoopNest,
    program: Program,
    phases: Vec<Option<Phase>>,
    /// Whether lanes differ, for each value.
    varies: Vec<bool>,
    /// Whether a value is computed by the instruction of its only reader.
    merged: Vec<bool>,
    places: Vec<Option<Place>>,
    /// The last phase that reads a value, and the last value there that does.
    last_use: Vec<(Phase, usize)>,
    free: Vec<usize>,
}

impl<'n> Compiler<'n> {
    pub(super) fn new(nest: &'n LoopNest) -> Self {
        let n = nest.values.len();
        // Whether an index is out of range must not depend on where the loop was left.
        let gathers = nest
            .values
            .iter()
            .any(|value| matches!(value, Value::Gather { .. }));
        let stops = |value: &Value| match value {
            Value::Reduced(op, _) => Some(op.annihilator().is_some()),
            _ => None,
        };
        let wide = nest.dtypes.contains(&DType::F64) || nest.inputs.contains(&DType::F64);
        let program = Program {
            sizes: nest.sizes(),
            n_domain: nest.domain.len(),
            lanes: LaneAxes::choose(nest),
            block: if wide { WIDE_LANES } else { LANES },
            accesses: Vec::new(),
            streams: Vec::new(),
            offsets: Vec::new(),
            strides: vec![Vec::new(); nest.sizes().len()],
            setup: Vec::new(),
            body: Vec::new(),
            epilogue: Vec::new(),
            accumulators: Vec::new(),
            registers: Vec::new(),
            constants: Vec::new(),
            result: Place::Uniform(0),
            before: None,
            pairs: None,
            stops: !nest.reduce.is_empty()
                && !gathers
                && nest.values.iter().filter_map(stops).all(|stops| stops),
        };
        Self {
            nest,
            program,
            phases: vec![None; n],
            varies: vec![false; n],
            merged: vec![false; n],
            places: vec![None; n],
            last_use: vec![(Phase::Setup, 0); n],
            free: Vec::new(),
        }
    }

    /// For a nest whose last input is the output itself.
    pub(super) fn in_place(nest: &'n LoopNest) -> Self {
        let mut compiler = Self::new(nest);
        // A register of its own, which nothing has written when the block begins.
        compiler.program.before = Some(compiler.register(false));
        compiler
    }

    pub(super) fn compile(mut self) -> Program {
        self.find_phases();
        self.find_uses();
        for phase in [Phase::Setup, Phase::Body, Phase::Epilogue] {
            self.release_all_read_before(phase);
            if phase == Phase::Body {
                self.make_accumulators();
                self.fold_what_stays_the_same();
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

    /// Finds when each value is computed, and whether lanes differ.
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
            self.phases[id] = match (body[id], epilogue[id]) {
                (true, _) if on_reduced[id] => Some(Phase::Body),
                (true, _) => Some(Phase::Setup),
                (false, true) => Some(Phase::Epilogue),
                (false, false) => None,
            };
        }
    }

    /// Finds who reads each value last, and which values their only reader computes along with itself.
    fn find_uses(&mut self) {
        let nest = self.nest;
        let mut uses = vec![0; nest.values.len()];
        uses[nest.result().0] = 1;
        for value in &nest.values {
            value.operands().for_each(|operand| uses[operand.0] += 1);
        }
        for (id, value) in nest.values.iter().enumerate() {
            let (reader, phase) = match (value, self.phases[id]) {
                (Value::Reduced(..), _) => (id, Phase::Body),
                (_, Some(phase)) => (id, phase),
                _ => continue,
            };
            for operand in value.operands() {
                let at = operand.0;
                // A fold reads its operand where that is computed, however far behind it stands itself.
                let reader = if matches!(value, Value::Reduced(..)) {
                    at
                } else {
                    reader
                };
                // What computes another value along with itself cannot be computed along with its reader.
                let is_single = !nest.values[at].operands().any(|inner| self.merged[inner.0]);
                let is_only_here = uses[at] == 1 && self.phases[at] == Some(phase);
                let alone = is_single && is_only_here && self.varies[at];
                self.merged[at] = alone
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
                // What is merged into a value is computed there; what is merged into a fold, where it stands.
                let at_reader = self.merged[at] && !matches!(value, Value::Reduced(..));
                for read in nest.values[at].operands().filter(|_| at_reader) {
                    self.last_use[read.0] = self.last_use[read.0].max((phase, reader));
                }
            }
        }
        self.last_use[nest.result().0] = (Phase::Epilogue, nest.values.len());
    }

    fn register(&mut self, uniform: bool) -> usize {
        if let (false, Some(register)) = (uniform, self.free.last().copied()) {
            self.free.pop();
            return register;
        }
        self.program.registers.push(uniform);
        self.program.registers.len() - 1
    }

    /// Where a value will be computed, in a register of its own until it is released.
    fn destination(&mut self, id: usize) -> usize {
        let register = self.register(!self.varies[id]);
        self.places[id] = Some(if self.varies[id] {
            Place::Lanes(register)
        } else {
            Place::Uniform(register)
        });
        register
    }

    fn release(&mut self, id: usize) {
        if let Some(Place::Lanes(register)) = self.places[id] {
            self.places[id] = None;
            self.free.push(register);
        }
    }

    /// Frees what neither this phase nor a later one reads.
    fn release_all_read_before(&mut self, phase: Phase) {
        for id in 0..self.nest.values.len() {
            if self.phases[id].is_some_and(|own| own < phase) && self.last_use[id].0 < phase {
                self.release(id);
            }
        }
    }

    fn place(&self, id: ValueId) -> Place {
        match self.places[id.0] {
            Some(place) => place,
            None => unreachable!("operands are computed before their uses"),
        }
    }

    /// Accumulators live from before the body until the end.
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
                    Place::Uniform(total)
                } else {
                    Place::Lanes(register)
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

    /// A value that no reduced axis changes is still folded at every point.
    fn fold_what_stays_the_same(&mut self) {
        for id in 0..self.nest.values.len() {
            if self.phases[id] == Some(Phase::Setup) {
                self.emit_folds(id);
            }
        }
    }

    /// Emits the accumulations that read a value.
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
            if operand.0 != id {
                continue;
            }
            let (code, dtype, operands) = match nest.values[id] {
                Value::Compare(compare, a, b) if self.merged[id] => (
                    Code::AccumulateCompare(op, compare),
                    nest.dtypes[a.0],
                    vec![a, b],
                ),
                _ => (Code::Accumulate(op), nest.dtypes[id], vec![operand]),
            };
            let destination = self.program.accumulators[number].register;
            let instruction = self.instruction(code, dtype, &operands, destination, false);
            self.program.body.push(instruction);
        }
    }

    fn access(&mut self, input: usize, dtype: DType, map: &IndexMap, guards: &[Guard]) -> usize {
        let program = &mut self.program;
        let first = program.offsets.len();
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

    /// Emits a value, then what folds it.
    fn emit(&mut self, id: usize, phase: Phase) {
        let operands = if self.merged[id] {
            self.nest.values[id].operands().collect()
        } else {
            self.emit_value(id, phase)
        };
        if phase == Phase::Body {
            self.emit_folds(id);
            // Folded at once, it may be dead already.
            if self.last_use[id] <= (phase, id) {
                self.release(id);
            }
        }
        for operand in operands {
            let is_last = self.last_use[operand.0] <= (phase, id);
            if is_last && self.phases[operand.0] == Some(phase) {
                self.release(operand.0);
            }
        }
    }

    /// Emits the instruction of a value, if it has one, and gives what it reads.
    fn emit_value(&mut self, id: usize, phase: Phase) -> Vec<ValueId> {
        let Some((code, dtype, operands)) = self.code(id) else {
            return Vec::new();
        };
        let destination = self.destination(id);
        let instruction = self.instruction(code, dtype, &operands, destination, !self.varies[id]);
        match phase {
            Phase::Setup => self.program.setup.push(instruction),
            Phase::Body => self.program.body.push(instruction),
            Phase::Epilogue => self.program.epilogue.push(instruction),
        }
        operands
    }

    /// What computes a value; `None` for constants and for inputs that are read where they lie.
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
                self.places[id] = Some(Place::Uniform(register));
                return None;
            }
            Value::Index(map) => (
                Code::Index(self.access(0, DType::U32, map, &[])),
                DType::U32,
                vec![],
            ),
            Value::Inside(guards) => {
                let nowhere = IndexMap {
                    offset: 0,
                    strides: vec![0; self.program.sizes.len()],
                };
                let access = self.access(0, DType::Bool, &nowhere, guards);
                (Code::Inside(access), DType::Bool, vec![])
            }
            Value::Load { input, map, guards } => {
                let dtype = nest.inputs[*input];
                if let (Some(register), true) =
                    (self.program.before, *input + 1 == nest.inputs.len())
                {
                    self.places[id] = Some(Place::Lanes(register));
                    return None;
                }
                let access = self.access(*input, dtype, map, guards);
                let lanes = &self.program.lanes;
                let walks_memory = flat_stride(map, lanes.first, &lanes.sizes) == Some(1);
                if self.varies[id] && walks_memory && guards.is_empty() && are_lanes(dtype) {
                    self.places[id] = Some(Place::Input(access));
                    self.program.streams.push(access);
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
            Value::Reduced(..) => return None,
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
        let mut places = [Place::Uniform(destination); 3];
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
