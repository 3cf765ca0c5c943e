//! Loop nests as WGSL kernels.
//!
//! Role: the one emitter of kernels for steps of a plan. What a nest means is said by [`tensor_core::ir`]; here it becomes text,
//! which depends on nothing but the nest and its [`Schedule`].
//! Method: some invocations share an output element: each folds a part of the reduced axes, and a tree in workgroup memory joins
//! their parts, always in the same order. What does not depend on an axis stands outside of its loop. Sizes and strides are
//! literals: a compiler turns divisions by them into products. Elements shorter than a word are gathered in workgroup memory,
//! and each workgroup writes whole words of its own.
//! Limits: positions are `i32`; `f64` is not emitted.

mod access;
mod expression;
mod parts;
mod text;

use std::fmt::Write as _;

use access::{WORD_BITS, bits};
use expression::{cast, compare, fold, literal, type_name};
pub(crate) use parts::Parts;
use tensor_core::DType;
use tensor_core::ir::{Guard, IndexMap, LoopNest, Value, ValueId};
use tensor_core::op::Reduce;
use text::Text;

/// Invocations of a workgroup.
pub(crate) const GROUP: u32 = 256;
/// The name of a `u32` that is 0 when the kernel runs.
const ZERO: &str = "params.zero";

/// How the loops of a nest are dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Schedule {
    /// How many invocations share an output element: a power of two, at most [`GROUP`].
    pub(crate) lanes: u32,
}

/// The parameters of every kernel written here.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct NestParams {
    /// The first element that is computed.
    start: u32,
    /// 0: what WGSL would refuse as a constant is made from it.
    zero: u32,
    pad: [u32; 2],
}

impl NestParams {
    /// For all elements.
    pub(crate) fn whole() -> Self {
        bytemuck::Zeroable::zeroed()
    }
}

/// Chooses a schedule: invocations share an element where there are too few elements to keep a device busy, or where
/// neighbours in memory are folded, which one invocation alone would read far apart from what others read.
pub(crate) fn schedule(nest: &LoopNest) -> Schedule {
    /// Elements from which on one invocation for each is enough.
    const MANY: usize = 1 << 15;
    /// What is left for each invocation to fold before the tree.
    const LEAST: usize = 4;
    let most = match bits(nest.dtype()) {
        // A workgroup writes whole words.
        Some(bits) => GROUP * bits / WORD_BITS,
        None => GROUP,
    };
    let n_domain = nest.domain.len();
    let last = nest.reduce.len().checked_sub(1);
    let walks_neighbours = last.is_some_and(|last| {
        let maps = nest.values.iter().flat_map(|value| value.maps().take(1));
        let mut maps = maps.filter(|map| map.stride(n_domain + last).unsigned_abs() == 1);
        maps.any(|map| n_domain == 0 || map.stride(n_domain - 1).unsigned_abs() != 1)
    });
    let enough_outputs = nest.output_len() >= MANY;
    let shared = if enough_outputs && !walks_neighbours {
        1
    } else {
        nest.reduce.iter().max().copied().unwrap_or(1) / LEAST
    };
    let shared = u32::try_from(shared).unwrap_or(u32::MAX).clamp(1, most);
    let lanes = 1 << shared.ilog2();
    Schedule {
        lanes: if enough_outputs { lanes.min(32) } else { lanes },
    }
}

/// Cuts the reduction of a nest in two steps where that pays, or where loops would run longer than a driver lets them.
pub(crate) fn cut(nest: &LoopNest, limit: Option<u64>) -> Option<Parts> {
    /// Iterations of one invocation from which on it may pay, and how many are left to each then.
    const LONG: u64 = 1024;
    const LEFT: u64 = 256;
    /// Invocations that keep any device busy.
    const BUSY: u64 = 1 << 17;
    let schedule = schedule(nest);
    let (runs, limit) = (iterations(nest, schedule), limit.unwrap_or(u64::MAX));
    let invocations = (nest.output_len() as u64).saturating_mul(schedule.lanes.into());
    if runs <= LONG.min(limit) || (invocations >= BUSY && runs <= limit) {
        return None;
    }
    let few = runs.div_ceil(LEFT).min(BUSY.div_ceil(invocations.max(1)));
    let needed = runs.div_ceil((limit / 2).max(1));
    let longest = nest.reduce.iter().max().copied().unwrap_or(1);
    let n_parts = usize::try_from(few.max(needed)).unwrap_or(usize::MAX);
    parts::cut(nest, n_parts.min(longest / 2))
}

/// Whether loops stay within a driver's limit, cut or not.
pub(crate) fn fits(nest: &LoopNest, limit: Option<u64>) -> bool {
    let runs = iterations(nest, schedule(nest));
    limit.is_none_or(|most| runs <= most)
        || cut(nest, limit).is_some_and(|parts| {
            let folds = parts.folds.iter().map(|(fold, _)| fold);
            let mut nests = folds.chain([&parts.rest]);
            nests.all(|part| part.reduce != nest.reduce && fits(part, limit))
        })
}

/// How often the loops of one invocation run.
pub(crate) fn iterations(nest: &LoopNest, schedule: Schedule) -> u64 {
    let dealt = dealt_axis(nest, schedule);
    let mut total = 0_u64;
    let mut runs = 1_u64;
    for (axis, &size) in nest.reduce.iter().enumerate() {
        let size = if axis == dealt {
            size.div_ceil(schedule.lanes as usize)
        } else {
            size
        };
        runs = runs.saturating_mul(size as u64);
        total = total.saturating_add(runs);
    }
    // The tree, and the words of short elements.
    total.saturating_add(u64::from(WORD_BITS + GROUP.ilog2()))
}

/// The reduced axis that the invocations of one element share: the last that gives each of them something to do.
fn dealt_axis(nest: &LoopNest, schedule: Schedule) -> usize {
    let sizes = &nest.reduce;
    let enough = sizes
        .iter()
        .rposition(|&size| size >= schedule.lanes as usize);
    let largest = || (0..sizes.len()).max_by_key(|&axis| sizes[axis]);
    enough.or_else(largest).unwrap_or(0)
}

/// A kernel's entry point and its text.
#[derive(Clone, Debug)]
pub(crate) struct Emitted {
    pub(crate) name: String,
    pub(crate) source: String,
}

/// Writes the kernel of a nest that keeps all rules and whose output is not empty.
pub(crate) fn emit(nest: &LoopNest, schedule: Schedule) -> Emitted {
    let name = name(nest);
    let sizes = nest.sizes();
    let mut emitter = Emitter {
        nest,
        schedule,
        names: (0..sizes.len()).map(axis_name).collect(),
        levels: levels(nest),
        needed: nest
            .body()
            .into_iter()
            .zip(nest.epilogue())
            .map(|(a, b)| a || b)
            .collect(),
        body: nest.body(),
        text: Text::default(),
    };
    emitter.header();
    emitter.bindings();
    emitter.entry(&name);
    let main = emitter.text.finish();
    let source = format!("{main}{}", expression::parts(&main));
    Emitted { name, source }
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

/// For each value the innermost reduced axis that changes it, counted from 1; 0 if none does.
fn levels(nest: &LoopNest) -> Vec<usize> {
    let n_domain = nest.domain.len();
    let mut levels: Vec<usize> = Vec::with_capacity(nest.values.len());
    for value in &nest.values {
        let innermost = |map: &IndexMap| {
            map.strides[n_domain..]
                .iter()
                .rposition(|&stride| stride != 0)
        };
        let own = value
            .maps()
            .filter_map(innermost)
            .map(|axis| axis + 1)
            .max();
        let handed = value.operands().map(|operand| levels[operand.0]).max();
        levels.push(match value {
            Value::Reduced(..) => 0,
            _ => own.max(handed).unwrap_or(0),
        });
    }
    levels
}

struct Emitter<'n> {
    nest: &'n LoopNest,
    schedule: Schedule,
    /// Of the loop axes.
    names: Vec<String>,
    levels: Vec<usize>,
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
        self.text.line("start: u32,");
        self.text.line("zero: u32,");
        self.text.line("pad0: u32,");
        self.text.line("pad1: u32,");
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
        let (lanes, len) = (self.schedule.lanes, self.nest.output_len());
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
            "let first = params.start + grid_workgroup(wid, n_workgroups) * {per_group}u;"
        ));
        match lanes {
            1 => self.text.line("let place = first + lid.x;"),
            _ => {
                self.text
                    .line(format!("let place = first + lid.x / {lanes}u;"));
                self.text.line(format!("let lane = lid.x % {lanes}u;"));
            }
        }
        self.text.line(format!("let is_inside = place < {len}u;"));
        self.text
            .line("// Who has no element of his own computes the last one, and does not write it.");
        self.text
            .line(format!("let at = min(place, {}u);", len - 1));
        self.domain_indices();
        self.values_of_level(0, true);
        if self.reductions().next().is_some() {
            self.reduction();
        }
        self.values_of_level(0, false);
        self.store(per_group);
        self.text.close();
    }

    /// The indices of the output's axes, as far as anything reads them.
    fn domain_indices(&mut self) {
        let mut below = 1;
        for axis in (0..self.nest.domain.len()).rev() {
            let size = self.nest.domain[axis];
            if size > 1 && self.is_walked(axis) {
                let quotient = if below == 1 {
                    "at".to_owned()
                } else {
                    format!("at / {below}u")
                };
                let index = if axis == 0 {
                    quotient
                } else {
                    format!("({quotient}) % {size}u")
                };
                self.text
                    .line(format!("let {} = bitcast<i32>({index});", self.names[axis]));
            } else {
                self.names[axis] = "0i".to_owned();
            }
            below *= size;
        }
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
            self.text.line(format!(
                "var total{}: {} = {neutral};",
                id.0,
                type_name(dtype)
            ));
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
            let total = format!("total{}", id.0);
            let folded = fold(
                op,
                self.nest.dtypes[operand.0],
                &total,
                &format!("v{}", operand.0),
            );
            self.text.line(format!("{total} = {folded};"));
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
            self.text.line(format!("let v{0} = total{0};", id.0));
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
        if self.gathers().next().is_some() {
            return None;
        }
        let is_fixed = |&(id, op): &(ValueId, Reduce)| {
            let sign = if op.annihilator()? { "" } else { "!" };
            Some(format!("{sign}total{}", id.0))
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
                self.value(id);
            }
        }
    }

    fn value(&mut self, id: usize) {
        let nest = self.nest;
        let of = |value: &ValueId| format!("v{}", value.0);
        let dtype = |value: &ValueId| nest.dtypes[value.0];
        let text = match &nest.values[id] {
            Value::Const(scalar) => literal(*scalar, ZERO),
            Value::Index(map) => format!("bitcast<u32>({})", access::position(map, &self.names)),
            Value::Inside(guards) => access::condition(guards, &self.names),
            Value::Load { input, map, guards } => {
                let position = access::position(map, &self.names);
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
                let position = access::position(map, &self.names);
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
        self.text.line(format!(
            "let v{id}: {} = {text};",
            type_name(nest.dtypes[id])
        ));
    }

    /// An element of an input; 0 where a guard fails. What stands outside of a buffer is read inside of it and thrown away.
    fn read(&mut self, id: usize, input: usize, position: &str, guards: &[Guard]) -> String {
        let dtype = self.nest.inputs[input];
        self.text
            .line(format!("let p{id} = bitcast<u32>({position});"));
        let element = access::element(dtype, &format!("in{input}"), &format!("p{id}"));
        if guards.is_empty() {
            return element;
        }
        let condition = access::condition(guards, &self.names);
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
        let condition = access::condition(guards, &self.names);
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
