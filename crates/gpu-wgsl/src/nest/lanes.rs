//! Kernels in which several invocations share an output element.
//!
//! Method: each invocation reduces a part of the terms. A tree in workgroup memory combines the
//! partial results, always in the same order. If a whole workgroup shares an element, and the
//! device has subgroups, each subgroup combines its results without workgroup memory and barriers.
//! Elements shorter than a word are collected in workgroup memory, and each workgroup writes whole
//! words.
//!
//! ```text
//!  lid.x:    0  1  2  3 | 4  5  6  7 | ...        lanes = 4
//!  element:  first      | first + 1  | ...
//!  lane:     0  1  2  3 | 0  1  2  3 | ...
//! ```

use tensor_core::DType;
use tensor_core::ir::{LoopNest, Value};
use tensor_core::op::Reduce;

use super::access::{WORD_BITS, bits};
use super::expression::{fold, from_workgroup, to_workgroup, workgroup_type};
use super::schedule::dealt_axis;
use super::statements::Statements;
use super::stored;

/// Declares the workgroup memory of the kernel.
pub(super) fn memory(to: &mut Statements<'_>, group: u32, lanes: u32) {
    if lanes > 1 {
        for (id, op) in to.reductions() {
            let dtype = workgroup_type(to.total_type(id, op));
            to.line(format!(
                "var<workgroup> wg_v{}: array<{dtype}, {group}>;",
                id.0
            ));
        }
    }
    if bits(to.nest.dtype()).is_some() {
        to.line(format!("var<workgroup> wg_bits: array<u32, {group}>;"));
    }
}

/// Writes the body of the entry point, for workgroups of `group` invocations. `combine` writes the
/// statements that combine the partial results of the lanes of an element.
pub(super) fn body<'n>(
    to: &mut Statements<'n>,
    group: u32,
    lanes: u32,
    combine: impl FnOnce(&mut Statements<'n>, u32),
) {
    let n_items = to.nest.output_len();
    let per_group = group / lanes;
    to.line(format!(
        "let first = grid_workgroup(wid, n_workgroups) * {per_group}u;"
    ));
    match lanes {
        1 => to.line("let place = first + lid.x;"),
        _ => {
            to.line(format!("let place = first + lid.x / {lanes}u;"));
            to.line(format!("let lane = lid.x % {lanes}u;"));
        }
    }
    to.line(format!("let is_inside = place < {n_items}u;"));
    to.line("// An invocation past the end computes the last element, and does not write it.");
    to.line(format!("let at = min(place, {}u);", n_items - 1));
    domain_indices(to, None);
    to.values_of_level(0, true);
    if !to.reductions().is_empty() {
        reduction(to, lanes, combine);
    }
    to.values_of_level(0, false);
    store(to, group, lanes);
}

/// Writes the indices of the output axes that some value reads. If lines along an axis are counted
/// instead of elements, this axis is left out, and the other axes have indices even if no value
/// reads them.
pub(super) fn domain_indices(to: &mut Statements<'_>, line: Option<usize>) {
    let mut below = 1;
    for axis in (0..to.nest.domain.len()).rev() {
        let size = to.nest.domain[axis];
        if line == Some(axis) {
            continue;
        }
        if size > 1 && (line.is_some() || to.is_walked(axis)) {
            let quotient = match below {
                1 => "at".to_owned(),
                _ => format!("at / {below}u"),
            };
            let index = match axis {
                0 => quotient,
                _ => format!("({quotient}) % {size}u"),
            };
            to.index(axis, None, &index);
        } else {
            to.stays(axis);
        }
        below *= size;
    }
}

/// Writes the loops over the reduced axes, and the combination of their results.
fn reduction<'n>(
    to: &mut Statements<'n>,
    lanes: u32,
    combine: impl FnOnce(&mut Statements<'n>, u32),
) {
    to.totals();
    let stop = to
        .is_fixed()
        .map(|fixed| format!("if ({fixed}) {{ break; }}"));
    let dealt = dealt_axis(to.nest, lanes);
    for (axis, &size) in to.nest.reduce.iter().enumerate() {
        let index = to.name(to.nest.domain.len() + axis).to_owned();
        // Lane `n` computes the terms n, n + lanes, n + 2 lanes and so on of the dealt axis.
        let (start, step) = match lanes {
            lanes if lanes > 1 && axis == dealt => ("bitcast<i32>(lane)", lanes),
            _ => ("0i", 1),
        };
        to.open(format!(
            "for (var {index} = {start}; {index} < {size}i; {index} += {step}i) {{"
        ));
        to.values_of_level(axis + 1, true);
    }
    // Each loop ends early if its result is final.
    to.folds();
    for _ in &to.nest.reduce {
        if let Some(stop) = &stop {
            to.line(stop);
        }
        to.close();
    }
    if lanes > 1 {
        combine(to, lanes);
    }
    to.reduced();
}

/// Writes the tree that combines the partial results of the lanes of an element.
///
/// ```text
///  step 2:  0 += 2, 1 += 3
///  step 1:  0 += 1             lane 0 has the total
/// ```
pub(super) fn tree(to: &mut Statements<'_>, lanes: u32) {
    let reductions = to.reductions();
    for &(id, op) in &reductions {
        let total = to_workgroup(to.total_type(id, op), &format!("total{}", id.0));
        to.line(format!("wg_v{}[lid.x] = {total};", id.0));
    }
    let half = lanes / 2;
    to.open(format!(
        "for (var step = {half}u; step > 0u; step /= 2u) {{"
    ));
    to.line("workgroupBarrier();");
    to.open("if (lane < step) {");
    for &(id, op) in &reductions {
        let dtype = to.total_type(id, op);
        let own = format!("wg_v{}[lid.x]", id.0);
        let other = format!("wg_v{}[lid.x + step]", id.0);
        let folded = fold_words(op, dtype, &own, &other);
        to.line(format!("{own} = {folded};"));
    }
    to.close();
    to.close();
    to.line("workgroupBarrier();");
    for &(id, op) in &reductions {
        let first = format!("wg_v{}[lid.x - lane]", id.0);
        let total = from_workgroup(to.total_type(id, op), &first);
        to.line(format!("total{} = {total};", id.0));
    }
}

/// Returns whether subgroups can combine the partial results of a nest. Some devices have no
/// subgroup operations on `f64`. Results shorter than a word need several elements per workgroup.
pub(super) fn can_use_subgroups(nest: &LoopNest) -> bool {
    let is_f64 = |value: &Value| match value {
        Value::Reduced(op, operand) => op.result(nest.dtypes[operand.0]) == DType::F64,
        _ => false,
    };
    bits(nest.dtype()).is_none() && !nest.values.iter().any(is_f64)
}

/// Writes the combination of the partial results of a workgroup of `lanes` invocations by
/// subgroups. In each subgroup, the invocations exchange their results; then each invocation adds
/// the results of all subgroups.
///
/// ```text
///  step 2:  0 += 2, 1 += 3, 2 += 0, 3 += 1
///  step 1:  0 += 1, 1 += 0, 2 += 3, 3 += 2     each invocation has the total of its subgroup
/// ```
///
/// The size of a subgroup is only known when the kernel runs. Invocations may be missing in a
/// subgroup, because WGSL does not promise full ones. The results of the subgroups are then
/// ignored, and each invocation adds those of all invocations. This needs no second form of the
/// kernel and no barrier in a branch.
pub(super) fn subgroups(to: &mut Statements<'_>, lanes: u32) {
    let reductions = to.reductions();
    to.line(format!(
        "let is_full = subgroup_size * n_subgroups == {lanes}u;"
    ));
    for &(id, op) in &reductions {
        let total = to_workgroup(to.total_type(id, op), &format!("total{}", id.0));
        to.line(format!("var part{} = {total};", id.0));
    }
    to.open("for (var step = subgroup_size / 2u; step > 0u; step /= 2u) {");
    for &(id, op) in &reductions {
        let own = format!("part{}", id.0);
        let other = format!("subgroupShuffleXor({own}, step)");
        let folded = fold_words(op, to.total_type(id, op), &own, &other);
        to.line(format!("{own} = {folded};"));
    }
    to.close();
    to.open("if (!is_full) {");
    for &(id, op) in &reductions {
        let total = to_workgroup(to.total_type(id, op), &format!("total{}", id.0));
        to.line(format!("wg_v{}[lid.x] = {total};", id.0));
    }
    to.close();
    to.open("if (is_full && in_subgroup == 0u) {");
    for &(id, _) in &reductions {
        to.line(format!("wg_v{0}[subgroup] = part{0};", id.0));
    }
    to.close();
    to.line("workgroupBarrier();");
    to.line(format!(
        "let n_parts = select({lanes}u, n_subgroups, is_full);"
    ));
    for &(id, _) in &reductions {
        to.line(format!("part{0} = wg_v{0}[0];", id.0));
    }
    to.open("for (var n = 1u; n < n_parts; n += 1u) {");
    for &(id, op) in &reductions {
        let own = format!("part{}", id.0);
        let folded = fold_words(op, to.total_type(id, op), &own, &format!("wg_v{}[n]", id.0));
        to.line(format!("{own} = {folded};"));
    }
    to.close();
    for &(id, op) in &reductions {
        let total = from_workgroup(to.total_type(id, op), &format!("part{}", id.0));
        to.line(format!("total{} = {total};", id.0));
    }
}

/// Returns the fold of two values in the form that workgroup memory stores.
fn fold_words(op: Reduce, dtype: DType, a: &str, b: &str) -> String {
    let [a, b] = [a, b].map(|word| from_workgroup(dtype, word));
    to_workgroup(dtype, &fold(op, dtype, &a, &b))
}

/// Writes the store of the result.
fn store(to: &mut Statements<'_>, group: u32, lanes: u32) {
    let dtype = to.nest.dtype();
    let result = format!("v{}", to.nest.result().0);
    let is_first = if lanes > 1 { " && lane == 0u" } else { "" };
    let Some(bits) = bits(dtype) else {
        to.open(format!("if (is_inside{is_first}) {{"));
        let place = to.after_first("place", 1);
        to.line(format!("out[{place}] = {result};"));
        to.close();
        return;
    };
    // Elements shorter than a word: the first lane of each element stores its bits, then one
    // invocation per word packs and writes it.
    let (per_word, per_group) = (WORD_BITS / bits, group / lanes);
    let own = stored(dtype, &result);
    let slot = if lanes > 1 {
        format!("lid.x / {lanes}u")
    } else {
        "lid.x".to_owned()
    };
    let write = format!("wg_bits[{slot}] = select(0u, {own}, is_inside);");
    if lanes > 1 {
        to.open("if (lane == 0u) {");
        to.line(write);
        to.close();
    } else {
        to.line(write);
    }
    to.line("workgroupBarrier();");
    let n_words = to.nest.output_len().div_ceil(per_word as usize);
    // `first` is a multiple of the elements per word, so each word belongs to one workgroup.
    to.line(format!("let word = first / {per_word}u + lid.x;"));
    to.open(format!(
        "if (lid.x < {}u && word < {n_words}u) {{",
        per_group / per_word
    ));
    to.line("var bits = 0u;");
    to.open(format!("for (var n = 0u; n < {per_word}u; n += 1u) {{"));
    to.line(format!(
        "bits |= wg_bits[lid.x * {per_word}u + n] << (n * {bits}u);"
    ));
    to.close();
    let word = to.after_first("word", per_word);
    to.line(format!("out[{word}] = bits;"));
    to.close();
}
