//! Writes the text of a kernel, statement by statement.
//!
//! Method: a value is written where the innermost loop that changes it begins, once for each element of a tile at which it is another
//! one; its name says which: `v3_0_2` is value 3 at the element in row 0 and column 2, `v3_2` one that differs along one side alone.

use std::fmt::Write as _;

use tensor_core::DType;
use tensor_core::ir::{Guard, IndexMap, LoopNest, Value, ValueId};
use tensor_core::op::Reduce;

use super::GROUP;
use super::access::{self, WORD_BITS, bits};
use super::expression::{self, cast, compare, fold, literal, type_name};
use super::placement::{levels, spread};
use super::schedule::{Schedule, TILE, dealt_axis, n_items, n_items_along};
use super::text::Text;

/// The name of a `u32` that is 0 when the kernel runs.
const ZERO: &str = "params.zero";

/// The kernel's name and its text, shared parts apart.
pub(super) fn entry_and_text(nest: &LoopNest, schedule: Schedule) -> (String, String) {
    let name = name(nest);
    let needed = nest.body().into_iter().zip(nest.epilogue());
    let mut emitter = Emitter {
        nest,
        schedule,
        names: (0..nest.sizes().len()).map(axis_name).collect(),
        levels: levels(nest),
        spread: spread(nest, schedule.tile),
        at: [0, 0],
        needed: needed.map(|(body, epilogue)| body || epilogue).collect(),
        body: nest.body(),
        text: Text::default(),
    };
    emitter.header();
    emitter.bindings();
    emitter.entry(&name);
    (name, emitter.text.finish())
}

/// The operations of a nest in order, joined.
fn name(nest: &LoopNest) -> String {
    const LONGEST: usize = 48;
    let mut name = "nest".to_owned();
    for value in &nest.values {
        let op = match value {
            Value::Unary(op, _) => op.name(),
            Value::Binary(op, ..) => op.name(),
            Value::Compare(op, ..) => op.name(),
            Value::Reduced(op, _) => op.name(),
            Value::Select(..) => "select",
            Value::Gather { .. } => "gather",
            Value::Random { .. } => "random",
            Value::Cast(..) => "cast",
            Value::Const(_) | Value::Index(_) | Value::Inside(_) | Value::Load { .. } => continue,
        };
        if name.len() + op.len() >= LONGEST {
            break;
        }
        let _ = write!(name, "_{op}");
    }
    name
}

/// Axes have the names that plans print: i, j, k and so on.
fn axis_name(axis: usize) -> String {
    const LETTERS: &[u8] = b"ijklmnop";
    LETTERS.get(axis).map_or_else(
        || format!("axis{axis}"),
        |&letter| char::from(letter).to_string(),
    )
}

struct Emitter<'n> {
    nest: &'n LoopNest,
    schedule: Schedule,
    /// Of the loop axes.
    names: Vec<String>,
    levels: Vec<usize>,
    /// For each value whether it differs along each axis of a tile, and the element of the tile that is being written.
    spread: Vec<[bool; 2]>,
    at: [usize; 2],
    /// Which values the result needs at all, and which of them at every point of the reduced axes.
    needed: Vec<bool>,
    body: Vec<bool>,
    text: Text,
}

impl Emitter<'_> {
    fn header(&mut self) {
        let nest = self.nest;
        let reduced = match &nest.reduce[..] {
            [] => String::new(),
            axes => format!(", reduced over {axes:?}"),
        };
        self.text
            .line(format!("// {} {:?}{reduced}", nest.dtype(), nest.domain));
        for (id, (value, dtype)) in nest.values.iter().zip(&nest.dtypes).enumerate() {
            self.text.line(format!("//     v{id} = {value}: {dtype}"));
        }
        self.text.line("");
    }

    fn bindings(&mut self) {
        self.text.open("struct NestParams {");
        self.text.line("zero: u32,");
        self.text.line("pad0: u32,");
        self.text.line("pad1: u32,");
        self.text.line("pad2: u32,");
        self.text.close();
        self.text.line("");
        self.text
            .line("@group(0) @binding(0) var<uniform> params: NestParams;");
        let inputs = self.nest.inputs.iter().enumerate();
        let mut lines: Vec<String> = inputs
            .map(|(input, dtype)| {
                let (binding, word) = (input + 1, access::word(*dtype));
                format!(
                    "@group(0) @binding({binding}) var<storage, read> in{input}: array<{word}>;"
                )
            })
            .collect();
        let n_inputs = self.nest.inputs.len();
        lines.push(format!(
            "@group(0) @binding({}) var<storage, read_write> out: array<{}>;",
            n_inputs + 1,
            access::word(self.nest.dtype())
        ));
        if self.gathers().next().is_some() {
            lines.push(format!(
                "@group(0) @binding({}) var<storage, read_write> faults: array<atomic<u32>>;",
                n_inputs + 2
            ));
        }
        if self.schedule.lanes > 1 {
            for (id, op) in self.reductions() {
                let dtype = type_name(self.total_type(id, op));
                lines.push(format!(
                    "var<workgroup> wg_v{}: array<{dtype}, {GROUP}>;",
                    id.0
                ));
            }
        }
        if bits(self.nest.dtype()).is_some() {
            lines.push(format!("var<workgroup> wg_bits: array<u32, {GROUP}>;"));
        }
        for line in lines {
            self.text.line(line);
        }
        self.text.line("");
    }

    fn entry(&mut self, name: &str) {
        let (lanes, n_items) = (self.schedule.lanes, n_items(self.nest, self.schedule));
        self.text.line(format!("@compute @workgroup_size({GROUP})"));
        self.text.line(format!("fn {name}("));
        self.text.line("    @builtin(workgroup_id) wid: vec3<u32>,");
        self.text
            .line("    @builtin(num_workgroups) n_workgroups: vec3<u32>,");
        self.text
            .line("    @builtin(local_invocation_id) lid: vec3<u32>,");
        self.text.open(") {");
        let per_group = GROUP / lanes;
        self.text.line(format!(
            "let first = grid_workgroup(wid, n_workgroups) * {per_group}u;"
        ));
        match lanes {
            1 => self.text.line("let place = first + lid.x;"),
            _ => {
                self.text
                    .line(format!("let place = first + lid.x / {lanes}u;"));
                self.text.line(format!("let lane = lid.x % {lanes}u;"));
            }
        }
        self.text
            .line(format!("let is_inside = place < {n_items}u;"));
        self.text
            .line("// Who has no element of his own computes the last one, and does not write it.");
        self.text
            .line(format!("let at = min(place, {}u);", n_items - 1));
        self.domain_indices();
        self.values_of_level(0, true);
        if self.reductions().next().is_some() {
            self.reduction();
        }
        self.values_of_level(0, false);
        match self.schedule.tile {
            Some(tile) => self.store_tile(tile),
            None => self.store(per_group),
        }
        self.text.close();
    }

    /// The indices of the output's axes, as far as anything reads them; along those of a tile several.
    fn domain_indices(&mut self) {
        let tile = self.schedule.tile.unwrap_or([usize::MAX; 2]);
        let mut below = 1;
        for axis in (0..self.nest.domain.len()).rev() {
            let (size, is_tiled) = (self.nest.domain[axis], tile.contains(&axis));
            let n_items = n_items_along(self.nest, self.schedule, axis);
            // A tile is written by its indices.
            if size > 1 && (self.schedule.tile.is_some() || self.is_walked(axis)) {
                let quotient = match below {
                    1 => "at".to_owned(),
                    _ => format!("at / {below}u"),
                };
                let index = match axis {
                    0 => quotient,
                    _ => format!("({quotient}) % {n_items}u"),
                };
                let name = self.names[axis].clone();
                self.text
                    .line(format!("let {name} = bitcast<i32>({index});"));
                for element in (0..TILE).filter(|_| is_tiled) {
                    let (step, last) = (element * n_items, size - 1);
                    self.text.line(format!(
                        "let {name}_{element} = min({name} + {step}i, {last}i);"
                    ));
                }
            } else {
                self.names[axis] = "0i".to_owned();
            }
            below *= n_items;
        }
    }

    /// The names of the loop indices at the element of the tile that is being written.
    fn names(&self) -> Vec<String> {
        let mut names = self.names.clone();
        for (axis, element) in self.schedule.tile.into_iter().flatten().zip(self.at) {
            names[axis] = format!("{}_{element}", names[axis]);
        }
        names
    }

    /// What belongs to a value, by its name at the element of the tile that is being written.
    fn local(&self, of: &str, id: usize) -> String {
        let mut name = format!("{of}{id}");
        for (is_spread, element) in self.spread[id].into_iter().zip(self.at) {
            if is_spread {
                let _ = write!(name, "_{element}");
            }
        }
        name
    }

    /// Writes something for each element of a tile at which a value is another one.
    fn each(&mut self, id: usize, mut write: impl FnMut(&mut Self)) {
        let [rows, cols] = self.spread[id].map(|is_spread| if is_spread { TILE } else { 1 });
        for row in 0..rows {
            for col in 0..cols {
                self.at = [row, col];
                write(self);
            }
        }
        self.at = [0, 0];
    }

    /// Whether any map moves along an axis.
    fn is_walked(&self, axis: usize) -> bool {
        let maps = self.nest.values.iter().flat_map(Value::maps);
        maps.into_iter().any(|map| map.stride(axis) != 0)
    }

    /// Loops over the reduced axes, and the tree.
    fn reduction(&mut self) {
        let reductions: Vec<(ValueId, Reduce)> = self.reductions().collect();
        for &(id, op) in &reductions {
            let dtype = self.total_type(id, op);
            let neutral = literal(op.neutral(self.operand_type(id)).cast(dtype), ZERO);
            self.each(id.0, |this| {
                let total = this.local("total", id.0);
                this.text
                    .line(format!("var {total}: {} = {neutral};", type_name(dtype)));
            });
        }
        let stop = self.stop(&reductions);
        let dealt = dealt_axis(self.nest, self.schedule);
        for (axis, &size) in self.nest.reduce.iter().enumerate() {
            let index = &self.names[self.nest.domain.len() + axis];
            let (start, step) = match self.schedule.lanes {
                lanes if lanes > 1 && axis == dealt => ("bitcast<i32>(lane)".to_owned(), lanes),
                _ => ("0i".to_owned(), 1),
            };
            self.text.open(format!(
                "for (var {index} = {start}; {index} < {size}i; {index} += {step}i) {{"
            ));
            self.values_of_level(axis + 1, true);
        }
        for &(id, op) in &reductions {
            let Value::Reduced(_, operand) = self.nest.values[id.0] else {
                continue;
            };
            self.each(id.0, |this| {
                let (total, value) = (this.local("total", id.0), this.local("v", operand.0));
                let folded = fold(op, this.nest.dtypes[operand.0], &total, &value);
                this.text.line(format!("{total} = {folded};"));
            });
        }
        for _ in &self.nest.reduce {
            if let Some(stop) = &stop {
                self.text.line(stop);
            }
            self.text.close();
        }
        if self.schedule.lanes > 1 {
            self.tree(&reductions);
        }
        for &(id, _) in &reductions {
            self.each(id.0, |this| {
                let (value, total) = (this.local("v", id.0), this.local("total", id.0));
                this.text.line(format!("let {value} = {total};"));
            });
        }
    }

    /// Joins the parts of the invocations that share an element.
    fn tree(&mut self, reductions: &[(ValueId, Reduce)]) {
        for (id, _) in reductions {
            self.text.line(format!("wg_v{0}[lid.x] = total{0};", id.0));
        }
        let half = self.schedule.lanes / 2;
        self.text.open(format!(
            "for (var step = {half}u; step > 0u; step /= 2u) {{"
        ));
        self.text.line("workgroupBarrier();");
        self.text.open("if (lane < step) {");
        for &(id, op) in reductions {
            let total = format!("wg_v{}", id.0);
            let (own, other) = (format!("{total}[lid.x]"), format!("{total}[lid.x + step]"));
            let folded = fold(op, self.total_type(id, op), &own, &other);
            self.text.line(format!("{own} = {folded};"));
        }
        self.text.close();
        self.text.close();
        self.text.line("workgroupBarrier();");
        for (id, _) in reductions {
            self.text
                .line(format!("total{0} = wg_v{0}[lid.x - lane];", id.0));
        }
    }

    /// The line that leaves a loop whose outcome is fixed, if there can be one. What reports its positions runs to the end.
    fn stop(&self, reductions: &[(ValueId, Reduce)]) -> Option<String> {
        // A tile would have to wait for its last element.
        if self.gathers().next().is_some() || self.schedule.tile.is_some() {
            return None;
        }
        let is_fixed = |&(id, op): &(ValueId, Reduce)| {
            let sign = if op.annihilator()? { "" } else { "!" };
            Some(format!("{sign}{}", self.local("total", id.0)))
        };
        let fixed: Option<Vec<String>> = reductions.iter().map(is_fixed).collect();
        Some(format!("if ({}) {{ break; }}", fixed?.join(" && ")))
    }

    /// The values that change first inside of so many loops; before the reduction those it needs, after it the rest.
    fn values_of_level(&mut self, level: usize, before: bool) {
        for id in 0..self.nest.values.len() {
            let is_reduced = matches!(self.nest.values[id], Value::Reduced(..));
            if self.needed[id] && !is_reduced && self.levels[id] == level && self.body[id] == before
            {
                self.each(id, |this| this.value(id));
            }
        }
    }

    fn value(&mut self, id: usize) {
        let nest = self.nest;
        let names = self.names();
        let of = |value: &ValueId| self.local("v", value.0);
        let dtype = |value: &ValueId| nest.dtypes[value.0];
        let text = match &nest.values[id] {
            Value::Const(scalar) => literal(*scalar, ZERO),
            Value::Index(map) => format!("bitcast<u32>({})", access::position(map, &names)),
            Value::Inside(guards) => access::condition(guards, &names),
            Value::Load { input, map, guards } => {
                let position = access::position(map, &names);
                self.read(id, *input, &position, guards)
            }
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
                let step = access::position(
                    &IndexMap {
                        offset: *stride,
                        strides: Vec::new(),
                    },
                    &[],
                );
                self.read(
                    id,
                    *input,
                    &format!("{position} + {index} * {step}"),
                    guards,
                )
            }
            Value::Random { key, stream, at } => format!(
                "philox_word(vec2<u32>({}u, {}u), vec2<u32>({}u, {}u), {})",
                key[0],
                key[1],
                stream[0],
                stream[1],
                of(at)
            ),
            Value::Unary(op, a) => expression::unary(*op, dtype(a), &of(a)),
            Value::Binary(op, a, b) => expression::binary(*op, dtype(a), &of(a), &of(b)),
            Value::Compare(op, a, b) => compare(*op, &of(a), &of(b)),
            Value::Select(condition, a, b) => {
                format!("select({}, {}, {})", of(b), of(a), of(condition))
            }
            Value::Cast(to, a) => cast(dtype(a), *to, &of(a)),
            Value::Reduced(..) => return,
        };
        let name = self.local("v", id);
        self.text.line(format!(
            "let {name}: {} = {text};",
            type_name(nest.dtypes[id])
        ));
    }

    /// An element of an input; 0 where a guard fails. What stands outside of a buffer is read inside of it and thrown away.
    fn read(&mut self, id: usize, input: usize, position: &str, guards: &[Guard]) -> String {
        let dtype = self.nest.inputs[input];
        let at = self.local("p", id);
        self.text
            .line(format!("let {at} = bitcast<u32>({position});"));
        let element = access::element(dtype, &format!("in{input}"), &at);
        if guards.is_empty() {
            return element;
        }
        let condition = access::condition(guards, &self.names());
        let zero = literal(tensor_core::Scalar::I32(0).cast(dtype), ZERO);
        format!("select({zero}, {element}, {condition})")
    }

    /// The index of a gather, counted from the start of its axis; one out of range is noted and becomes 0.
    fn gathered(&mut self, id: usize, at: ValueId, extent: usize, guards: &[Guard]) -> String {
        let place = self.gathers().position(|gather| gather == id).unwrap_or(0);
        let at_name = format!("v{}", at.0);
        let is_signed = self.nest.dtypes[at.0] == DType::I32;
        let from_start = if is_signed {
            format!("select({at_name}, {at_name} + {extent}i, {at_name} < 0i)")
        } else {
            format!("bitcast<i32>({at_name})")
        };
        self.text.line(format!("var g{id} = {from_start};"));
        let condition = access::condition(guards, &self.names());
        self.text
            .open(format!("if (bitcast<u32>(g{id}) >= {extent}u) {{"));
        self.text.open(format!("if ({condition}) {{"));
        self.text
            .line(format!("atomicStore(&faults[{}], 1u);", 2 * place));
        self.text.line(format!(
            "atomicStore(&faults[{}], bitcast<u32>({at_name}));",
            2 * place + 1
        ));
        self.text.close();
        self.text.line(format!("g{id} = 0i;"));
        self.text.close();
        format!("g{id}")
    }

    /// Writes a tile of the result.
    fn store_tile(&mut self, tile: [usize; 2]) {
        let nest = self.nest;
        let mut strides = vec![1; nest.domain.len()];
        for axis in (1..nest.domain.len()).rev() {
            strides[axis - 1] = strides[axis] * nest.domain[axis].cast_signed();
        }
        let map = IndexMap { offset: 0, strides };
        self.text.open("if (is_inside) {");
        for row in 0..TILE {
            for col in 0..TILE {
                self.at = [row, col];
                let own = tile.into_iter().zip(self.at);
                let inside = own.filter_map(|(axis, element)| {
                    let (size, n_items) =
                        (nest.domain[axis], n_items_along(nest, self.schedule, axis));
                    let step = element * n_items;
                    // Elsewhere the index is that of the last element, which another invocation writes.
                    (step + n_items > size)
                        .then(|| format!("{} + {step}i < {size}i", self.names[axis]))
                });
                let inside: Vec<String> = inside.collect();
                let result = self.local("v", nest.result().0);
                let position = access::position(&map, &self.names());
                let write = format!("out[{position}] = {result};");
                match &inside[..] {
                    [] => self.text.line(write),
                    _ => self
                        .text
                        .line(format!("if ({}) {{ {write} }}", inside.join(" && "))),
                }
            }
        }
        self.at = [0, 0];
        self.text.close();
    }

    /// Writes the result.
    fn store(&mut self, per_group: u32) {
        let dtype = self.nest.dtype();
        let result = format!("v{}", self.nest.result().0);
        let is_first = if self.schedule.lanes > 1 {
            " && lane == 0u"
        } else {
            ""
        };
        let Some(bits) = bits(dtype) else {
            self.text.open(format!("if (is_inside{is_first}) {{"));
            self.text.line(format!("out[place] = {result};"));
            self.text.close();
            return;
        };
        let per_word = WORD_BITS / bits;
        let own = match dtype {
            DType::Bool => format!("u32({result})"),
            _ => format!("half_bits({result})"),
        };
        let slot = if self.schedule.lanes > 1 {
            format!("lid.x / {}u", self.schedule.lanes)
        } else {
            "lid.x".to_owned()
        };
        let write = format!("wg_bits[{slot}] = select(0u, {own}, is_inside);");
        if self.schedule.lanes > 1 {
            self.text.open("if (lane == 0u) {");
            self.text.line(write);
            self.text.close();
        } else {
            self.text.line(write);
        }
        self.text.line("workgroupBarrier();");
        let len = self.nest.output_len();
        self.text
            .line(format!("let word = first / {per_word}u + lid.x;"));
        self.text.open(format!(
            "if (lid.x < {}u && word < {}u) {{",
            per_group / per_word,
            len.div_ceil(per_word as usize)
        ));
        self.text.line("var bits = 0u;");
        self.text
            .open(format!("for (var n = 0u; n < {per_word}u; n += 1u) {{"));
        self.text.line(format!(
            "bits |= wg_bits[lid.x * {per_word}u + n] << (n * {bits}u);"
        ));
        self.text.close();
        self.text.line("out[word] = bits;");
        self.text.close();
    }

    fn reductions(&self) -> impl Iterator<Item = (ValueId, Reduce)> + use<'_> {
        let values = self.nest.values.iter().enumerate();
        values.filter_map(|(id, value)| match value {
            Value::Reduced(op, _) if self.needed[id] => Some((ValueId(id), *op)),
            _ => None,
        })
    }

    fn gathers(&self) -> impl Iterator<Item = usize> + use<'_> {
        let values = self.nest.values.iter().enumerate();
        values.filter_map(|(id, value)| matches!(value, Value::Gather { .. }).then_some(id))
    }

    fn operand_type(&self, reduced: ValueId) -> DType {
        match self.nest.values[reduced.0] {
            Value::Reduced(_, operand) => self.nest.dtypes[operand.0],
            _ => self.nest.dtypes[reduced.0],
        }
    }

    fn total_type(&self, reduced: ValueId, op: Reduce) -> DType {
        op.result(self.operand_type(reduced))
    }
}
