//! The execution of one instruction on one block of lanes.
//!
//! Role: the `match` of the interpreter. It is inlined into code for one instruction set, except
//! for elementary functions, rare operations and pure copies.

use crate::dtype::{DType, HostData, half_of, with_element};
use crate::exec::reference::random_word;
use crate::ir::WORD_BITS;
use crate::op::{Compare, Reduce};

use super::bits;
use super::chain::{Chain, Elements, Operand, Results};
use super::chain_loops::{Links, RowChain, Rows};
use super::lanes::{LaneType, compare, lanes_of};
use super::loops::{View, choose, fold, map, update2};
use super::machine::Machine;
use super::program::{Code, Instruction, Slot};
use super::register::{Destination, with_lane};
use super::vector::FloatVector;
use crate::math::Chunks;

impl Machine<'_> {
    /// Returns an operand of the current block.
    #[inline(always)]
    pub(super) fn view<T: LaneType>(&self, place: Slot) -> View<'_, T> {
        match place {
            Slot::Lanes(register) => View::Lanes(&self.registers[register].lanes()[..self.len]),
            Slot::Uniform(register) => View::Uniform(self.registers[register].lanes()[0]),
            Slot::Input(access) => {
                let access = &self.program.accesses[access];
                let from = self.positions[access.maps.start].wrapping_add(self.start.cast_signed());
                let input = self.inputs[access.input];
                View::Lanes(input_lanes::<T>(input, from, self.len))
            }
        }
    }

    /// Returns the only operand of an instruction, with as many lanes as the instruction computes.
    #[inline(always)]
    fn lanes<T: LaneType>(&self, place: Slot) -> &[T] {
        match place {
            Slot::Uniform(register) => &self.registers[register].lanes()[..1],
            Slot::Lanes(register) => &self.registers[register].lanes()[..self.len],
            Slot::Input(_) => match self.view(place) {
                View::Lanes(lanes) => lanes,
                View::Uniform(_) => &[],
            },
        }
    }

    /// Returns one of several operands. The operands of a uniform instruction have one lane each.
    #[inline(always)]
    fn operand<T: LaneType>(&self, instruction: &Instruction, number: usize) -> View<'_, T> {
        match instruction.operands[number] {
            Slot::Uniform(register) if instruction.uniform => {
                View::Lanes(&self.registers[register].lanes()[..1])
            }
            place => self.view(place),
        }
    }

    /// Runs an instruction on the current block and writes its result to the destination.
    #[inline(always)]
    pub(super) fn step(&mut self, instruction: &Instruction, destination: &mut Destination<'_>) {
        let len = if instruction.uniform { 1 } else { self.len };
        let [a, b, _] = instruction.operands;
        let dtype = instruction.dtype;
        match &instruction.code {
            Code::Unary(op) => with_lane!(dtype, T => {
                T::unary(self.level, *op, &mut destination.lanes_mut()[..len], self.lanes::<T>(a));
            }),
            Code::IsNan => with_lane!(dtype, T => {
                #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
                map(&mut destination.lanes_mut::<u8>()[..len], self.lanes::<T>(a), |x| u8::from(x != x));
            }),
            Code::Binary(op) => with_lane!(dtype, T => {
                let (x, y) = (self.operand::<T>(instruction, 0), self.operand::<T>(instruction, 1));
                T::binary(self.level, *op, &mut destination.lanes_mut()[..len], x, y);
            }),
            Code::Compare(op) => with_lane!(dtype, T => {
                compare(*op, &mut destination.lanes_mut()[..len], self.operand::<T>(instruction, 0), self.operand::<T>(instruction, 1));
            }),
            Code::Select => with_lane!(dtype, T => {
                let condition = self.operand::<u8>(instruction, 0);
                let (yes, no) = (self.operand::<T>(instruction, 1), self.operand::<T>(instruction, 2));
                choose(&mut destination.lanes_mut()[..len], condition, yes, no);
            }),
            Code::Cast(to) => {
                with_lane!(dtype, T => cast(*to, destination, self.lanes::<T>(a), len))
            }
            Code::Chain(chain) => match dtype {
                DType::F64 => self.run_chain::<f64>(chain, destination),
                _ => self.run_chain::<f32>(chain, destination),
            },
            // A sum of `bool` counts in u32: operand and accumulator have different types.
            Code::Accumulate(op) if dtype == DType::Bool && *op == Reduce::Sum => {
                let counts = &mut destination.lanes_mut::<u32>()[..self.folded_lanes()];
                fold(
                    self.folding(),
                    counts,
                    self.view::<u8>(a),
                    0,
                    |d, a| d.wrapping_add(a.into()),
                    u32::wrapping_add,
                );
            }
            Code::Accumulate(op) => with_lane!(dtype, T => {
                let accumulators = &mut destination.lanes_mut()[..self.folded_lanes()];
                T::accumulate(*op, self.folding(), accumulators, self.view::<T>(a));
            }),
            Code::Pack => {
                let words = &mut destination.lanes_mut()[..self.len / WORD_BITS];
                match self.view::<u8>(a) {
                    View::Lanes(flags) => bits::pack(words, flags),
                    View::Uniform(flag) => words.fill(if flag == 0 { 0 } else { u32::MAX }),
                }
            }
            Code::AccumulateCompare(op, comparison) => with_lane!(dtype, T => {
                accumulate_compare(*op, *comparison, destination, self.view::<T>(a), self.view::<T>(b), self.len);
            }),
            Code::Random { key, stride, first } => {
                let drawn = |stream: [u32; 2], at: u32| {
                    random_word(*key, stream, at.wrapping_mul(*stride).wrapping_add(*first))
                };
                let words = &mut destination.lanes_mut::<u32>()[..len];
                let [at, low, high] = [0, 1, 2].map(|n| self.operand::<u32>(instruction, n));
                match (at, low, high) {
                    // Nearly always there is one stream, so the compiler moves the stream's number
                    // out of the loop.
                    (View::Lanes(at), View::Uniform(low), View::Uniform(high)) => {
                        map(words, at, |at| drawn([low, high], at));
                    }
                    _ => words.iter_mut().enumerate().for_each(|(lane, word)| {
                        *word = drawn([low.at(lane), high.at(lane)], at.at(lane));
                    }),
                }
            }
            Code::Fetch(access) => {
                with_element!(dtype, T => self.fetch::<T>(*access, destination, instruction.uniform))
            }
            Code::Index(access) => self.count_positions(*access, destination.lanes_mut(), len),
            Code::Inside(access) => self.mark_inside(*access, destination.lanes_mut(), len),
            Code::Gather {
                access,
                stride,
                extent,
            } => {
                let element = self.program.accesses[*access].dtype;
                // The instruction's type is that of the index; elements have the type of the
                // access.
                let fault = match (element, dtype) {
                    (_, DType::I32) => {
                        with_element!(element, T => self.gather::<T, i32>(*access, a, *stride, *extent, destination, len))
                    }
                    _ => {
                        with_element!(element, T => self.gather::<T, u32>(*access, a, *stride, *extent, destination, len))
                    }
                };
                // The first fault is reported.
                self.fault = self.fault.take().or(fault);
            }
            Code::Position { access, extent } => {
                let words = destination.lanes_mut();
                let fault = match dtype {
                    DType::I32 => self.check_positions::<i32>(*access, a, *extent, words, len),
                    _ => self.check_positions::<u32>(*access, a, *extent, words, len),
                };
                self.fault = self.fault.take().or(fault);
            }
        }
    }
}

impl Machine<'_> {
    /// Runs a chain on the current block.
    #[inline(never)]
    fn run_chain<T: FloatVector + Chunks>(
        &self,
        chain: &Chain<Slot>,
        destination: &mut Destination<'_>,
    ) {
        let operand = |&slot: &Slot| match self.view::<T>(slot) {
            View::Uniform(number) => Operand::Number(number),
            View::Lanes(array) => Operand::Lanes(Elements {
                array,
                start: 0,
                step: 0,
            }),
        };
        self.level.run(Rows {
            level: self.level,
            chains: &[RowChain {
                first: operand(&chain.first),
                links: Links::new(&chain.links, operand),
                len: self.len,
                fold: None,
            }],
            results: &mut [Results::new(&mut destination.lanes_mut()[..self.len], 0)],
            n_rows: 1,
            n_block_rows: 1,
            scratch: [&mut [], &mut []],
        });
    }
}

/// Returns all elements of an input as lanes, or an empty slice if elements must be converted or
/// are of another type.
#[inline(always)]
fn input_of<T: LaneType>(input: &HostData) -> &[T] {
    let lanes: Option<&[T]> = match input {
        HostData::F32(_) => lanes_of::<f32>(input).map(same_lanes),
        HostData::F64(_) => lanes_of::<f64>(input).map(same_lanes),
        HostData::I32(_) => lanes_of::<i32>(input).map(same_lanes),
        HostData::U32(_) => lanes_of::<u32>(input).map(same_lanes),
        HostData::Bool(_) => lanes_of::<bool>(input).map(same_lanes),
        HostData::F16(_) => None,
    };
    lanes.unwrap_or_default()
}

/// Returns some elements of an input as lanes. The planner keeps positions inside the input; an
/// invalid range yields an empty slice.
#[inline(always)]
fn input_lanes<T: LaneType>(input: &HostData, from: isize, len: usize) -> &[T] {
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    input_of(input)
        .get(from..from.saturating_add(len))
        .unwrap_or_default()
}

/// Returns lanes as lanes of an identical type under another generic name.
#[inline(always)]
fn same_lanes<A: LaneType, B: LaneType>(lanes: &[A]) -> &[B] {
    bytemuck::try_cast_slice(lanes).unwrap_or_default()
}

/// Converts lanes to the lane type of `to`.
#[inline(always)]
fn cast<T: LaneType>(to: DType, destination: &mut Destination<'_>, a: &[T], len: usize) {
    match to {
        DType::F32 => map(&mut destination.lanes_mut()[..len], a, T::to_f32),
        DType::F64 => map(&mut destination.lanes_mut()[..len], a, T::to_f64),
        DType::I32 => map(&mut destination.lanes_mut()[..len], a, T::to_i32),
        DType::U32 => map(&mut destination.lanes_mut()[..len], a, T::to_u32),
        DType::Bool => map(&mut destination.lanes_mut()[..len], a, T::to_bool),
        DType::F16 => to_half(&mut destination.lanes_mut()[..len], a),
    }
}

/// Rounds lanes to half precision. The lanes of halves are `f32`.
#[inline(never)]
fn to_half<T: LaneType>(d: &mut [f32], a: &[T]) {
    map(d, a, |x| half_of(x.to_f64()).to_f32());
}

/// Folds a comparison into accumulators, without a register for the flags. The macro creates one
/// branch-free loop for each comparison.
#[inline(always)]
fn accumulate_compare<T: LaneType>(
    op: Reduce,
    comparison: Compare,
    destination: &mut Destination<'_>,
    a: View<'_, T>,
    b: View<'_, T>,
    len: usize,
) {
    use Compare::{Eq, Le, Lt, Ne};
    macro_rules! fold {
        ($type:ty, |$d:ident, $hit:ident| $update:expr) => {{
            let lanes = &mut destination.lanes_mut::<$type>()[..len];
            match comparison {
                Lt => update2(lanes, a, b, |$d, a, b| {
                    let $hit = a < b;
                    $update
                }),
                Le => update2(lanes, a, b, |$d, a, b| {
                    let $hit = a <= b;
                    $update
                }),
                Eq => update2(lanes, a, b, |$d, a, b| {
                    let $hit = a == b;
                    $update
                }),
                Ne => update2(lanes, a, b, |$d, a, b| {
                    let $hit = a != b;
                    $update
                }),
            }
        }};
    }
    match op {
        Reduce::All => fold!(u8, |d, hit| *d &= u8::from(hit)),
        Reduce::Any => fold!(u8, |d, hit| *d |= u8::from(hit)),
        _ => fold!(u32, |d, hit| *d = d.wrapping_add(u32::from(hit))),
    }
}
