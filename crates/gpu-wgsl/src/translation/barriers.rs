//! Barriers between uses of workgroup memory.
//!
//! Role: finds a missing barrier in the text of a kernel. Software drivers run the invocations of a
//! workgroup in order, so on these drivers a kernel without a barrier has the right results.
//! Method: the lines of a kernel are followed in order. A read behind a write of the same array, or
//! a write behind a read, needs a barrier in between. The body of a loop is followed twice, so that
//! its end meets its start, and the body of a condition always.
//! Limits: functions are followed on their own, not where they are called. Uses in one statement,
//! such as `wg_sum[i] = wg_sum[i] + wg_sum[i + n]`, are taken for uses of different elements.

use std::collections::{BTreeMap, BTreeSet};

use super::tests::KERNELS;

const BARRIER: &str = "workgroupBarrier();";
/// Start of the names of workgroup memory.
const PREFIX: &str = "wg_";

/// The uses of an array since the last barrier.
#[derive(Clone, Copy, Default)]
struct Uses {
    is_read: bool,
    is_written: bool,
}

/// Returns the first line that needs a barrier before it.
fn without_barrier<'t>(lines: &[&'t str], uses: &mut BTreeMap<&'t str, Uses>) -> Option<&'t str> {
    let mut at = 0;
    while let Some(&line) = lines.get(at) {
        let text = line.trim_start();
        at += 1;
        if text.starts_with("fn ") || text == BARRIER {
            uses.clear();
        } else if ["for ", "loop ", "while "]
            .iter()
            .any(|word| text.starts_with(word))
        {
            let indent = |line: &str| line.len() - line.trim_start().len();
            let is_end = |inner: &&str| indent(inner) <= indent(line);
            let len = lines[at..].iter().position(is_end).unwrap_or(0);
            let body = &lines[at..at + len];
            let found = (0..2).find_map(|_| without_barrier(body, uses));
            if found.is_some() {
                return found;
            }
            at += len;
        } else if !text.starts_with("//") && !text.starts_with("var<workgroup>") {
            let (read, written) = uses_of(text);
            let used = |names: &BTreeSet<&str>, is: fn(&Uses) -> bool| {
                names.iter().any(|name| uses.get(name).is_some_and(is))
            };
            if used(&read, |uses| uses.is_written) || used(&written, |uses| uses.is_read) {
                return Some(line);
            }
            for name in read {
                uses.entry(name).or_default().is_read = true;
            }
            for name in written {
                uses.entry(name).or_default().is_written = true;
            }
        }
    }
    None
}

/// Returns the names of the arrays that a statement reads, and of those that it writes.
fn uses_of(text: &str) -> (BTreeSet<&str>, BTreeSet<&str>) {
    if text.starts_with("coopStore") {
        return (BTreeSet::new(), names(text).collect());
    }
    let (target, value) = text.split_once(" = ").unwrap_or(("", text));
    let (place, index) = target.split_once('[').unwrap_or((target, ""));
    let written = names(place).filter(|_| place.starts_with(PREFIX));
    (
        names(index).chain(names(value)).collect(),
        written.collect(),
    )
}

/// Returns the names of workgroup memory in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_end = |c: char| c != '_' && !c.is_ascii_alphanumeric();
    let name = move |text: &'_ str| text.find(is_end).unwrap_or(text.len());
    let places = text.match_indices(PREFIX);
    places.map(move |(at, _)| &text[at..at + name(&text[at..])])
}

#[test]
fn uses_of_workgroup_memory_are_separated_by_barriers() {
    for (name, wgsl) in KERNELS.iter() {
        let lines: Vec<&str> = wgsl.lines().collect();
        assert_eq!(
            without_barrier(&lines, &mut BTreeMap::new()),
            None,
            "{name}"
        );
    }
}

#[test]
fn each_missing_barrier_of_a_generated_kernel_is_found() {
    let is_fixed = |name: &str| {
        shaders::layout::ALL
            .iter()
            .any(|kernel| kernel.name == name)
    };
    let mut n_barriers = 0;
    for (name, wgsl) in KERNELS.iter().filter(|(name, _)| !is_fixed(name)) {
        let lines: Vec<&str> = wgsl.lines().collect();
        for at in (0..lines.len()).filter(|&at| lines[at].trim() == BARRIER) {
            let fewer = [&lines[..at], &lines[at + 1..]].concat();
            let found = without_barrier(&fewer, &mut BTreeMap::new());
            assert!(found.is_some(), "{name}: line {at}");
            n_barriers += 1;
        }
    }
    assert!(n_barriers > 20, "{n_barriers}");
}
