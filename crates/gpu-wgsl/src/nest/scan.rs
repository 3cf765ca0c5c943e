//! Kernels that scan lines.
//!
//! Method: a long line along the last axis belongs to a workgroup. Each of its invocations computes
//! one of `GROUP` neighbouring elements, and they combine these in workgroup memory over distances
//! 1, 2, 4, …, and then with the total of all earlier elements. A line along another axis belongs
//! to one invocation, because neighbouring invocations then read neighbouring elements. Short
//! lines, and lines that keep a device busy by their number, belong to one invocation each as well.
//! The results are written with the values after the scan. Every value before or after the scan is
//! computed at each point of a line, even if it is the same at all points.
//! Limits: results have whole words (`scan_parts` divides other nests).
//!
//! ```text
//!  distance 1:  0  0+1  1+2   2+3     ...
//!  distance 2:  0  0+1  0..2  0..3    ...        element n is combined with element n - distance
//! ```

use tensor_core::ir::{LoopNest, Value, ValueId};
use tensor_core::op::Scan;

use super::access;
use super::expression::{fold, literal, opaque, type_name};
use super::lanes::domain_indices;
use super::passes;
use super::statements::Statements;
use super::{GROUP, contiguous};

/// Returns the number of lines of a nest with a scan.
pub(super) fn n_lines(nest: &LoopNest) -> usize {
    nest.output_len() / line_len(nest).max(1)
}

/// Returns the number of elements of a line.
pub(super) fn line_len(nest: &LoopNest) -> usize {
    let axis = nest.scan().map(|(_, scan)| scan.axis);
    let len = axis.and_then(|axis| nest.domain.get(axis));
    len.copied().unwrap_or(1)
}

/// Minimum number of lines for which one invocation per line keeps a device busy.
pub(super) const MANY_LINES: usize = 1 << 16;

/// Returns the number of invocations that scan a line.
pub(super) fn lanes(nest: &LoopNest) -> u32 {
    let is_last = nest
        .scan()
        .is_some_and(|(_, scan)| scan.axis + 1 == nest.domain.len());
    let has_many = n_lines(nest) >= MANY_LINES || line_len(nest) < GROUP as usize / 2;
    if is_last && !has_many { GROUP } else { 1 }
}

/// Returns the number of iterations of all loops of an invocation together, with one more for each
/// execution of a loop.
pub(super) fn n_passes(nest: &LoopNest, lanes: u32) -> u64 {
    let rounds = (line_len(nest) as u64).div_ceil(lanes.into());
    // The loop over the distances, and its end.
    let distances = match lanes {
        1 => 0,
        lanes => u64::from(lanes.ilog2()) + 1,
    };
    let values = [nest.body(), nest.epilogue()].map(|which| passes::of_calls(nest, &which));
    let of_round = 1 + distances + values[0] + values[1];
    rounds.saturating_mul(of_round).saturating_add(1)
}

/// Declares the workgroup memory of the kernel.
pub(super) fn memory(to: &mut Statements<'_>, lanes: u32) {
    if let (Some((id, _)), true) = (to.nest.scan(), lanes > 1) {
        let dtype = type_name(to.nest.dtypes[id.0]);
        to.line(format!("var<workgroup> wg_scan: array<{dtype}, {GROUP}>;"));
    }
}

/// Writes the body of the entry point.
pub(super) fn body(to: &mut Statements<'_>, lanes: u32) {
    let Some((id, scan)) = to.nest.scan() else {
        unreachable!("the schedule is that of a scan");
    };
    let Value::Scanned(_, operand) = to.nest.values[id.0] else {
        unreachable!("`LoopNest::scan` returns a scanned value");
    };
    let (n, n_lines) = (line_len(to.nest), n_lines(to.nest));
    let per_group = GROUP / lanes;
    to.line(format!(
        "let first = grid_workgroup(wid, n_workgroups) * {per_group}u;"
    ));
    to.line(format!("let line = first + lid.x / {lanes}u;"));
    to.line(format!("let lane = lid.x % {lanes}u;"));
    to.line(format!("let is_inside = line < {n_lines}u;"));
    to.line("// Invocations past the end compute the last line, and do not write it.");
    to.line(format!("let at = min(line, {}u);", n_lines - 1));
    domain_indices(to, Some(scan.axis));
    let dtype = to.nest.dtypes[id.0];
    let start = literal(scan.start(dtype));
    to.line(format!("var total: {} = {start};", type_name(dtype)));
    to.open(format!(
        "for (var start = 0u; start < {n}u; start += {lanes}u) {{"
    ));
    to.line("let point = start + lane;");
    to.line(format!("let is_point = point < {n}u;"));
    let last = n - 1;
    let point = match scan.reversed {
        false => format!("min(point, {last}u)"),
        true => format!("{last}u - min(point, {last}u)"),
    };
    to.index(scan.axis, None, &point);
    to.values_of_level(0, true);
    let element = to.local("v", operand.0);
    let element = opaque(to.copies.folded(operand), dtype, &element);
    let result = to.local("v", id.0);
    if lanes > 1 {
        together(to, (id, scan), &element, &result);
    } else {
        let next = fold(scan.op, dtype, "total", &element);
        if scan.exclusive {
            to.line(format!("let {result} = total;"));
            to.line(format!("total = {next};"));
        } else {
            to.line(format!("total = {next};"));
            to.line(format!("let {result} = total;"));
        }
    }
    to.values_of_level(0, false);
    to.open("if (is_inside && is_point) {");
    let place = access::position(&contiguous(&to.nest.domain), &to.names());
    let value = to.local("v", to.nest.result().0);
    to.line(format!("out[{place}] = {value};"));
    to.close();
    to.close();
}

/// Writes the scan of as many elements as a workgroup has invocations.
fn together(to: &mut Statements<'_>, (id, scan): (ValueId, Scan), element: &str, result: &str) {
    let dtype = to.nest.dtypes[id.0];
    let start = literal(scan.start(dtype));
    let combined = |before: &str, after: &str| fold(scan.op, dtype, before, after);
    to.line(format!("var upto = select({start}, {element}, is_point);"));
    let stored = "wg_scan[lid.x] = upto;";
    let at = |place: &str| format!("wg_scan[{place}]");
    to.line(stored);
    to.open(format!(
        "for (var reach = 1u; reach < {GROUP}u; reach *= 2u) {{"
    ));
    to.line("workgroupBarrier();");
    to.line(format!("let earlier = {};", at("max(lane, reach) - reach")));
    to.line("workgroupBarrier();");
    to.open("if (lane >= reach) {");
    to.line(format!("upto = {};", combined("earlier", "upto")));
    to.line(stored);
    to.close();
    to.close();
    to.line("workgroupBarrier();");
    if scan.exclusive {
        let before = combined("total", &at("max(lane, 1u) - 1u"));
        to.line(format!(
            "let {result} = select({before}, total, lane == 0u);"
        ));
    } else {
        to.line(format!("let {result} = {};", combined("total", "upto")));
    }
    let all = at(&format!("{}", GROUP - 1));
    to.line(format!("total = {};", combined("total", &all)));
    to.line("workgroupBarrier();");
}
