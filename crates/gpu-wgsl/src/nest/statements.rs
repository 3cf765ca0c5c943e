//! Statements that compute the values of a nest.
//!
//! Method: the expression of a value is written once for each element of a tile, but only once
//! along a side on which the value does not depend. The name contains the element: `v3_0_2` is
//! value 3 at the element in row 0 and column 2, `v3_2` is a value that changes along one side
//! only, at position 2 of this side.

use std::fmt::Write as _;

use tensor_core::ir::{Guard, LoopNest, Value, ValueId};
use tensor_core::op::Reduce;
use tensor_core::{DType, Scalar};

use super::access;
use super::expression::{self, cast, compare, first, fold, literal, opaque, type_name};
use super::numbers;
use super::opaque::Copies;
use super::placement::Placement;
use super::text::Text;

/// Writer of a kernel's text, with the names of its variables.
pub(super) struct Statements<'n> {
    pub(super) nest: &'n LoopNest,
    pub(super) placement: Placement,
    pub(super) copies: Copies<'n>,
    pub(super) text: Text,
    /// Names of the loop indices.
    names: Vec<String>,
    /// For each loop axis, whether its index is constant.
    stays: Vec<bool>,
    /// The axes of the rows and the columns of a tile.
    sides: [Vec<usize>; 2],
    /// If arrays are bound in part: the last axis whose loop may start at an index other than 0.
    window: Option<usize>,
    /// Number of elements of the tile along each side.
    extent: [usize; 2],
    /// Index within the tile of the element that is being written.
    at: [usize; 2],
}

impl<'n> Statements<'n> {
    pub(super) fn new(nest: &'n LoopNest, sides: [Vec<usize>; 2], window: Option<usize>) -> Self {
        Self {
            nest,
            placement: Placement::new(nest, &sides),
            copies: Copies::new(nest),
            text: Text::default(),
            names: (0..nest.sizes().len()).map(axis_name).collect(),
            stays: vec![false; nest.sizes().len()],
            sides,
            window,
            extent: [1, 1],
            at: [0, 0],
        }
    }

    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        self.text.line(line);
    }

    pub(super) fn open(&mut self, line: impl AsRef<str>) {
        self.text.open(line);
    }

    pub(super) fn close(&mut self) {
        self.text.close();
    }

    /// Sets the number of elements of a tile along each side.
    pub(super) fn set_extent(&mut self, extent: [usize; 2]) {
        self.extent = extent;
    }

    /// Returns the side (0: rows, 1: columns) to which a loop axis belongs.
    pub(super) fn side_of(&self, axis: usize) -> Option<usize> {
        (0..2).find(|&side| self.sides[side].contains(&axis))
    }

    /// Writes the index of an axis: `count` plus the start of its loop.
    pub(super) fn index(&mut self, axis: usize, element: Option<usize>, count: &str) {
        let name = &self.names[axis];
        let name = element.map_or_else(|| name.clone(), |element| format!("{name}_{element}"));
        let index = match self.start(axis) {
            Some(start) => format!("{count} + {start}"),
            None => count.to_owned(),
        };
        self.line(format!("let {name} = bitcast<i32>({index});"));
    }

    /// Fixes the index of an axis at the start of its loop. Used for axes that nothing
    /// reads and axes of one element.
    pub(super) fn stays(&mut self, axis: usize) {
        self.stays[axis] = true;
        self.names[axis] = match self.start(axis) {
            Some(start) => format!("bitcast<i32>({start})"),
            None => "0i".to_owned(),
        };
    }

    fn start(&self, axis: usize) -> Option<String> {
        // `starts` is an array of vec4, so axis 5 is at `starts[1][1]`.
        let is_moved = self.window.is_some_and(|last| axis <= last);
        is_moved.then(|| format!("params.starts[{}][{}]", axis / 4, axis % 4))
    }

    /// Converts a position in the output, computed from loop indices, to a position in the bound
    /// chunk.
    pub(super) fn in_chunk(&self, position: &str) -> String {
        match self.window {
            Some(_) => format!("{position} + params.shift"),
            None => position.to_owned(),
        }
    }

    /// Converts a position that is counted from the first element of the loops, in units of `unit`
    /// elements, to a position in the bound chunk.
    pub(super) fn after_first(&self, position: &str, unit: u32) -> String {
        match (self.window, unit) {
            (None, _) => position.to_owned(),
            (Some(_), 1) => format!("{position} + params.first"),
            (Some(_), unit) => format!("{position} + params.first / {unit}u"),
        }
    }

    /// Returns the names of the loop indices, with the column axes at the start of their loops.
    pub(super) fn names_at_first_col(&self) -> Vec<String> {
        let mut names = self.names();
        for &axis in &self.sides[1] {
            names[axis] = self
                .start(axis)
                .map_or_else(|| "0i".to_owned(), |start| format!("bitcast<i32>({start})"));
        }
        names
    }

    /// Returns the name of a loop index.
    pub(super) fn name(&self, axis: usize) -> &str {
        &self.names[axis]
    }

    /// Returns the names of the loop indices at the current element of the tile.
    pub(super) fn names(&self) -> Vec<String> {
        let named = self.names.iter().enumerate().map(|(axis, name)| {
            let element = self.side_of(axis).map(|side| self.at[side]);
            match element {
                Some(element) if !self.stays[axis] => format!("{name}_{element}"),
                _ => name.clone(),
            }
        });
        named.collect()
    }

    /// Returns the row and column, within the tile, of the element that is being written.
    pub(super) fn element(&self) -> [usize; 2] {
        self.at
    }

    /// Returns the name of the variable for a value at the current element of the tile. The name
    /// begins with `of`.
    pub(super) fn local(&self, of: &str, id: usize) -> String {
        self.local_at(of, id, self.at)
    }

    /// Returns the name of the variable for a value at the element `at` of the tile. The name
    /// begins with `of`.
    pub(super) fn local_at(&self, of: &str, id: usize, at: [usize; 2]) -> String {
        let mut name = format!("{of}{id}");
        // A value that does not change along a side has the same variable for all elements along
        // this side.
        for (is_spread, element) in self.placement.spread[id].into_iter().zip(at) {
            if is_spread {
                let _ = write!(name, "_{element}");
            }
        }
        name
    }

    /// Calls `write` for each element of a tile, but only once along a side on which the value does
    /// not depend.
    pub(super) fn each(&mut self, id: usize, write: impl FnMut(&mut Self)) {
        let spread = self.placement.spread[id];
        let along = |side: usize| if spread[side] { self.extent[side] } else { 1 };
        let counts = [along(0), along(1)];
        self.each_of(counts, write);
    }

    /// Calls `write` for each element of a tile.
    pub(super) fn each_element(&mut self, write: impl FnMut(&mut Self, [usize; 2])) {
        let mut write = write;
        self.each_of(self.extent, |this| write(this, this.at));
    }

    fn each_of(&mut self, counts: [usize; 2], mut write: impl FnMut(&mut Self)) {
        let before = self.at;
        for row in 0..counts[0] {
            for col in 0..counts[1] {
                self.at = [row, col];
                write(self);
            }
        }
        self.at = before;
    }

    /// Returns whether the map of any value depends on an axis.
    pub(super) fn is_walked(&self, axis: usize) -> bool {
        let maps = self.nest.values.iter().flat_map(Value::maps);
        maps.into_iter().any(|map| map.stride(axis) != 0)
    }

    /// Writes the values whose innermost loop is `level`, counted from 1 (0: outside of all loops).
    /// If `before` is true, only the values that the reduction needs are written, otherwise only
    /// the others.
    pub(super) fn values_of_level(&mut self, level: usize, before: bool) {
        for id in 0..self.nest.values.len() {
            let placement = &self.placement;
            if placement.is_written(self.nest, id)
                && placement.levels[id] == level
                && placement.body[id] == before
            {
                self.value(id);
            }
        }
    }

    /// Writes a value at each element of the tile.
    pub(super) fn value(&mut self, id: usize) {
        self.each(id, |this| this.value_at(id));
    }

    fn value_at(&mut self, id: usize) {
        let nest = self.nest;
        let names = self.names();
        let of = |value: &ValueId| self.local("v", value.0);
        let dtype = |value: &ValueId| nest.dtypes[value.0];
        let operand = |place: usize, value: &ValueId| self.operand(id, place, *value);
        let text = match &nest.values[id] {
            Value::Const(scalar) => numbers::constant(*scalar),
            Value::Index(map) => format!("bitcast<u32>({})", access::position(map, &names)),
            Value::Inside(guards) => access::condition(guards, &names),
            Value::Load { input, map, guards } => {
                let position = access::position(map, &names);
                self.read(id, *input, &position, guards)
            }
            // A gather adds index × stride to the position of its map.
            Value::Gather {
                input,
                map,
                guards,
                at,
                stride,
                extent,
            } => {
                let index = self.gathered(id, *at, *extent, guards);
                let position = access::position(map, &names);
                let step = access::distance(*stride);
                let position = format!("{position} + {index} * {step}");
                self.read(id, *input, &position, guards)
            }
            Value::Position { guards, at, extent } => {
                let index = self.gathered(id, *at, *extent, guards);
                let condition = access::condition(guards, &names);
                format!("select(0u, bitcast<u32>({index}), {condition})")
            }
            Value::Random {
                key,
                stream,
                at,
                stride,
                first,
            } => format!(
                "philox_word(vec2<u32>({}, {}), vec2<u32>({}, {}), {} * {stride}u + {first}u)",
                numbers::word(key[0]),
                numbers::word(key[1]),
                of(&stream[0]),
                of(&stream[1]),
                of(at)
            ),
            Value::Unary(op, a) => expression::unary(*op, dtype(a), &operand(0, a)),
            Value::Binary(op, a, b) => {
                expression::binary(*op, dtype(a), &operand(0, a), &operand(1, b))
            }
            Value::Compare(op, a, b) => compare(*op, &operand(0, a), &operand(1, b)),
            Value::Select(condition, a, b) => {
                let [condition, a, b] =
                    [(0, condition), (1, a), (2, b)].map(|(n, x)| operand(n, x));
                format!("select({b}, {a}, {condition})")
            }
            Value::Cast(to, a) => cast(dtype(a), *to, &operand(0, a)),
            Value::Reduced(..) | Value::Scanned(..) | Value::Sorted(..) => return,
        };
        let name = self.local("v", id);
        self.line(format!(
            "let {name}: {} = {text};",
            type_name(nest.dtypes[id])
        ));
    }

    /// Returns operand 0, 1 or 2 of a value, as an opaque copy if the compiler must not see the
    /// operation behind the operand.
    fn operand(&self, id: usize, place: usize, operand: ValueId) -> String {
        let name = self.local("v", operand.0);
        let dtype = self.nest.dtypes[operand.0];
        opaque(self.copies.operand(id, place), dtype, &name)
    }

    /// Returns the expression of an element of an input; 0 if a guard fails. WGSL makes
    /// reads outside of a buffer safe, and `select` discards the value of such a read.
    fn read(&mut self, id: usize, input: usize, position: &str, guards: &[Guard]) -> String {
        let dtype = self.nest.inputs[input];
        let at = self.local("p", id);
        // Positions count from the start of the array, the binding may start later at `bases`.
        let base = match self.window {
            Some(_) => format!(" - params.bases[{}][{}]", input / 4, input % 4),
            None => String::new(),
        };
        self.line(format!("let {at} = bitcast<u32>({position}){base};"));
        let element = access::element(dtype, &format!("in{input}"), &at);
        if guards.is_empty() {
            return element;
        }
        let condition = access::condition(guards, &self.names());
        let zero = literal(Scalar::I32(0).cast(dtype));
        format!("select({zero}, {element}, {condition})")
    }

    /// Writes the index along an axis, counted from the start of the axis. An index out of range is
    /// recorded in the buffer of faults and replaced by 0.
    fn gathered(&mut self, id: usize, at: ValueId, extent: usize, guards: &[Guard]) -> String {
        let place = self.gathers().position(|gather| gather == id).unwrap_or(0);
        let (index, at_name) = (self.local("g", id), self.local("v", at.0));
        let is_signed = self.nest.dtypes[at.0] == DType::I32;
        // Negative indices count from the end of the axis.
        let from_start = if is_signed {
            format!("select({at_name}, {at_name} + {extent}i, {at_name} < 0i)")
        } else {
            format!("bitcast<i32>({at_name})")
        };
        self.line(format!("var {index} = {from_start};"));
        // As `u32`, negative indices are out of range, too. An index is recorded only if its guards
        // hold, because other indices are never used.
        let condition = access::condition(guards, &self.names());
        self.open(format!("if (bitcast<u32>({index}) >= {extent}u) {{"));
        self.open(format!("if ({condition}) {{"));
        // Two words per gather: flag and index. If several invocations write, any of their indices
        // may remain, which is enough for an error message.
        let (flag, noted) = (2 * place, 2 * place + 1);
        self.line(format!("atomicStore(&faults[{flag}], 1u);"));
        self.line(format!(
            "atomicStore(&faults[{noted}], bitcast<u32>({at_name}));"
        ));
        self.close();
        self.line(format!("{index} = 0i;"));
        self.close();
        index
    }

    /// Writes an accumulator for each reduction, initialized with the neutral element.
    pub(super) fn totals(&mut self) {
        for (id, op) in self.reductions() {
            let dtype = self.total_type(id, op);
            let neutral = first(op.neutral(self.operand_type(id)).cast(dtype));
            self.each(id.0, |this| {
                let total = this.local("total", id.0);
                this.line(format!("var {total}: {} = {neutral};", type_name(dtype)));
            });
        }
    }

    /// Writes the update of each accumulator by one more value.
    pub(super) fn folds(&mut self) {
        for (id, op) in self.reductions() {
            let Value::Reduced(_, operand) = self.nest.values[id.0] else {
                continue;
            };
            self.each(id.0, |this| {
                let total = this.local("total", id.0);
                let folded = match this.placement.multiplied[operand.0] {
                    Some(factors) => {
                        let [a, b] = factors.map(|factor| {
                            let name = this.local("v", factor.0);
                            opaque(this.copies.factor(factor), DType::F32, &name)
                        });
                        format!("fma({a}, {b}, {total})")
                    }
                    None => {
                        let value = this.local("v", operand.0);
                        let dtype = this.nest.dtypes[operand.0];
                        let value = opaque(this.copies.folded(operand), dtype, &value);
                        fold(op, this.nest.dtypes[operand.0], &total, &value)
                    }
                };
                this.line(format!("{total} = {folded};"));
            });
        }
    }

    /// Writes the results of the reductions as values.
    pub(super) fn reduced(&mut self) {
        for (id, _) in self.reductions() {
            self.each(id.0, |this| {
                let (value, total) = (this.local("v", id.0), this.local("total", id.0));
                this.line(format!("let {value} = {total};"));
            });
        }
    }

    /// Returns the condition under which further terms cannot change any result at the current
    /// elements, e.g. `any` that is already true; `None` if there is no such condition. Kernels
    /// with gathers run to the end, because they report positions out of range.
    pub(super) fn is_fixed(&mut self) -> Option<String> {
        let reductions = self.reductions();
        if self.gathers().next().is_some() || reductions.is_empty() {
            return None;
        }
        let mut fixed = Vec::new();
        for (id, op) in reductions {
            // `any` is final once it is true, `all` once it is false; other reductions are never
            // final.
            let sign = if op.annihilator()? { "" } else { "!" };
            self.each(id.0, |this| {
                fixed.push(format!("{sign}{}", this.local("total", id.0)));
            });
        }
        Some(fixed.join(" & "))
    }

    pub(super) fn reductions(&self) -> Vec<(ValueId, Reduce)> {
        let values = self.nest.values.iter().enumerate();
        let reductions = values.filter_map(|(id, value)| match value {
            Value::Reduced(op, _) if self.placement.needed[id] => Some((ValueId(id), *op)),
            _ => None,
        });
        reductions.collect()
    }

    pub(super) fn gathers(&self) -> impl Iterator<Item = usize> + use<'n> {
        let values = self.nest.values.iter().enumerate();
        values.filter_map(|(id, value)| value.checked_index().map(|_| id))
    }

    pub(super) fn total_type(&self, reduced: ValueId, op: Reduce) -> DType {
        op.result(self.operand_type(reduced))
    }

    fn operand_type(&self, reduced: ValueId) -> DType {
        match self.nest.values[reduced.0] {
            Value::Reduced(_, operand) => self.nest.dtypes[operand.0],
            _ => self.nest.dtypes[reduced.0],
        }
    }
}

/// Returns the name of an axis as printed by plans: i, j, k and so on.
fn axis_name(axis: usize) -> String {
    const LETTERS: &[u8] = b"ijklmnop";
    LETTERS.get(axis).map_or_else(
        || format!("axis{axis}"),
        |&letter| char::from(letter).to_string(),
    )
}
