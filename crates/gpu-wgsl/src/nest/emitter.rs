//! Frame of a kernel: a comment with the nest, the parameters, the buffers, the workgroup memory
//! and the entry point.

use std::fmt::Write as _;

use tensor_core::ir::{LoopNest, Value};

use super::access;
use super::blocking::Matrices;
use super::blocks::{self, Writer};
use super::lanes::{self, subgroups, tree};
use super::numbers::{self, Counts};
use super::scan;
use super::schedule::Schedule;
use super::statements::Statements;
use super::window::{MAX_AXES, MAX_INPUTS};

/// Returns the kernel's name and its text, without shared functions.
pub(super) fn entry_and_text(
    nest: &LoopNest,
    schedule: &Schedule,
    window: Option<usize>,
) -> (String, String) {
    let name = name(nest);
    let (sides, group) = match schedule {
        Schedule::Lanes(_) | Schedule::Scan(_) => (Default::default(), super::GROUP),
        Schedule::Subgroups(lanes) => (Default::default(), *lanes),
        Schedule::Blocks(block) => (block.sides.clone(), block.tile.invocations()),
    };
    let mut to = Statements::new(nest, sides, window);
    if schedule.has_matrices() {
        to.line("enable f16;");
        to.line("enable wgpu_cooperative_matrix;");
        to.line("");
    }
    // A comment with the nest, for readers of the text.
    header(&mut to, schedule);
    bindings(&mut to, schedule, window);
    match schedule {
        Schedule::Lanes(lanes) | Schedule::Subgroups(lanes) => {
            lanes::memory(&mut to, group, *lanes);
        }
        Schedule::Blocks(block) => Writer::new(&mut to, block).memory(),
        Schedule::Scan(lanes) => scan::memory(&mut to, *lanes),
    }
    to.line("");
    to.line(format!("@compute @workgroup_size({group})"));
    to.line(format!("fn {name}("));
    to.line("    @builtin(workgroup_id) wid: vec3<u32>,");
    to.line("    @builtin(num_workgroups) n_workgroups: vec3<u32>,");
    to.line("    @builtin(local_invocation_id) lid: vec3<u32>,");
    if let Schedule::Subgroups(_) = schedule {
        to.line("    @builtin(num_subgroups) n_subgroups: u32,");
        to.line("    @builtin(subgroup_size) subgroup_size: u32,");
        to.line("    @builtin(subgroup_id) subgroup: u32,");
        to.line("    @builtin(subgroup_invocation_id) in_subgroup: u32,");
    }
    if schedule.has_matrices() {
        to.line("    @builtin(subgroup_id) subgroup: u32,");
    }
    to.open(") {");
    match schedule {
        Schedule::Lanes(lanes) => lanes::body(&mut to, group, *lanes, tree),
        Schedule::Subgroups(lanes) => lanes::body(&mut to, group, *lanes, subgroups),
        Schedule::Blocks(block) => Writer::new(&mut to, block).body(),
        Schedule::Scan(lanes) => scan::body(&mut to, *lanes),
    }
    to.close();
    (name, to.text.finish())
}

/// Returns a name made of the nest's operations in order, at most 48 characters.
fn name(nest: &LoopNest) -> String {
    const LONGEST: usize = 48;
    let mut name = "nest".to_owned();
    for value in &nest.values {
        let op = match value {
            Value::Unary(op, _) => op.name(),
            Value::Binary(op, ..) => op.name(),
            Value::Compare(op, ..) => op.name(),
            Value::Reduced(op, _) => op.name(),
            Value::Scanned(scan, _) => scan.name(),
            Value::Sorted(sort, _) => sort.name(),
            Value::Select(..) => "select",
            Value::Gather { .. } => "gather",
            Value::Position { .. } => "position",
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

fn header(to: &mut Statements<'_>, schedule: &Schedule) {
    let nest = to.nest;
    let reduced = match &nest.reduce[..] {
        [] => String::new(),
        axes => format!(", reduced over {axes:?}"),
    };
    to.line(format!("// {} {:?}{reduced}", nest.dtype(), nest.domain));
    for (id, (value, dtype)) in nest.values.iter().zip(&nest.dtypes).enumerate() {
        to.line(format!("//     v{id} = {}: {dtype}", numbers::shown(value)));
    }
    if let Schedule::Blocks(block) = schedule {
        let tile = block.tile;
        to.line(format!(
            "// in blocks of {} x {}, {} terms at a time, {} x {} elements an invocation",
            tile.block_rows, tile.block_cols, tile.block_inner, tile.thread_rows, tile.thread_cols
        ));
        if let Some(Matrices { side, teams }) = block.matrices {
            let [rows, cols] = teams;
            to.line(format!(
                "// products of {side} x {side} matrices, by {rows} x {cols} subgroups a block"
            ));
        }
    }
    to.line("");
}

fn bindings(to: &mut Statements<'_>, schedule: &Schedule, window: Option<usize>) {
    let nest = to.nest;
    to.open("struct NestParams {");
    to.line("zero: u32,");
    to.line("other_zero: u32,");
    // The members match `NestParams`, or `WindowParams` for a kernel that binds chunks.
    if window.is_none() {
        to.line("pad1: u32,");
        to.line("pad2: u32,");
    } else {
        to.line("shift: i32,");
        to.line("first: u32,");
        to.line(format!("starts: array<vec4<u32>, {}>,", MAX_AXES / 4));
        to.line(format!("bases: array<vec4<u32>, {}>,", MAX_INPUTS / 4));
    }
    for member in Counts::new(nest).members() {
        to.line(member);
    }
    to.close();
    to.line("");
    to.line("@group(0) @binding(0) var<uniform> params: NestParams;");
    for (input, dtype) in nest.inputs.iter().enumerate() {
        let (binding, word) = (input + 1, access::word(*dtype));
        to.line(format!(
            "@group(0) @binding({binding}) var<storage, read> in{input}: array<{word}>;"
        ));
    }
    // Invocations that share a word of the output change their own bits with atomic operations.
    let word = match schedule {
        Schedule::Blocks(block) if blocks::shares_words(nest, block) => "atomic<u32>",
        _ => access::word(nest.dtype()),
    };
    let binding = nest.inputs.len() + 1;
    to.line(format!(
        "@group(0) @binding({binding}) var<storage, read_write> out: array<{word}>;"
    ));
    if to.gathers().next().is_some() {
        let binding = binding + 1;
        to.line(format!(
            "@group(0) @binding({binding}) var<storage, read_write> faults: array<atomic<u32>>;"
        ));
    }
}
