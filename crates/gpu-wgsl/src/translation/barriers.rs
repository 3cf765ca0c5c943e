//! Barriers between uses of workgroup memory.
//!
//! Role: finds a missing barrier in the text of a kernel. Software drivers run the invocations of a
//! workgroup in order, so on these drivers a kernel without a barrier has the right results.
//! Method: the lines of a kernel are followed in order. A read after a write of an array, or a
//! write after a read, needs a barrier between them. The body of a loop is followed twice, so that
//! uses at its end are compared with uses at its start; the body of a condition is followed once.
//! An atomic store is a read as well, because the order of two stores matters.
//! Limits: functions are followed on their own, not where they are called. A loop is assumed to run
//! at least once. Two writes, and uses in one statement such as `wg_sum[i] = wg_sum[i] +
//! wg_sum[i + n]`, are assumed to be of different elements.

use std::collections::{BTreeMap, BTreeSet};

use super::tests::KERNELS;

const BARRIER: &str = "workgroupBarrier();";
/// A load that all invocations of a workgroup execute, with a barrier before and after it.
const UNIFORM_LOAD: &str = "workgroupUniformLoad(";
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
        if text.starts_with("//") || text.starts_with("var<workgroup>") {
            continue;
        }
        if text.starts_with("fn ") || text == BARRIER || text.contains(UNIFORM_LOAD) {
            uses.clear();
            continue;
        }
        if !text
            .split(['{', '}', ';'])
            .all(|statement| add(uses, statement))
        {
            return Some(line);
        }
        if ["for ", "loop ", "while "]
            .iter()
            .any(|word| text.starts_with(word))
        {
            let indent = |line: &str| line.len() - line.trim_start().len();
            let is_end = |inner: &&str| !inner.is_empty() && indent(inner) <= indent(line);
            let len = lines[at..].iter().position(is_end).unwrap_or(0);
            let body = &lines[at..at + len];
            let found = (0..2).find_map(|_| without_barrier(body, uses));
            if found.is_some() {
                return found;
            }
            at += len;
        }
    }
    None
}

/// Adds the uses of a statement; returns `false` if the statement needs a barrier before it.
fn add<'t>(uses: &mut BTreeMap<&'t str, Uses>, statement: &'t str) -> bool {
    let (read, written) = uses_of(statement.trim());
    let used = |names: &BTreeSet<&str>, is: fn(&Uses) -> bool| {
        names.iter().any(|name| uses.get(name).is_some_and(is))
    };
    if used(&read, |uses| uses.is_written) || used(&written, |uses| uses.is_read) {
        return false;
    }
    for name in read {
        uses.entry(name).or_default().is_read = true;
    }
    for name in written {
        uses.entry(name).or_default().is_written = true;
    }
    true
}

/// Returns the names of the arrays that a statement reads, and of those that it writes.
fn uses_of(text: &str) -> (BTreeSet<&str>, BTreeSet<&str>) {
    if text.starts_with("coopStore") {
        return (BTreeSet::new(), names(text).collect());
    }
    if text.starts_with("atomicStore") {
        return (names(text).collect(), names(text).collect());
    }
    let Some((target, value)) = assignment(text) else {
        return (names(text).collect(), BTreeSet::new());
    };
    let is_compound = target.ends_with(|c: char| "+-*/%&|^<>".contains(c));
    let (place, index) = target.split_once('[').unwrap_or((target, ""));
    let written: BTreeSet<&str> = names(place).filter(|_| place.starts_with(PREFIX)).collect();
    let mut read: BTreeSet<&str> = names(index).chain(names(value)).collect();
    if is_compound {
        read.extend(&written);
    }
    (read, written)
}

/// Splits an assignment at its `=`. The left part ends with the operator of a compound assignment.
fn assignment(text: &str) -> Option<(&str, &str)> {
    let is_condition = ["if ", "else if ", "for ", "while "]
        .iter()
        .any(|word| text.starts_with(word));
    let (target, value) = text.split_once("= ").filter(|_| !is_condition)?;
    Some((target.trim_end(), value))
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

/// Returns the barriers of a kernel whose removal is found, and those whose removal is not found,
/// as indices of lines.
fn barriers(wgsl: &str) -> [Vec<usize>; 2] {
    let lines: Vec<&str> = wgsl.lines().collect();
    let places = (0..lines.len()).filter(|&at| lines[at].trim() == BARRIER);
    let (found, missed) = places.partition(|&at| {
        let fewer = [&lines[..at], &lines[at + 1..]].concat();
        without_barrier(&fewer, &mut BTreeMap::new()).is_some()
    });
    [found, missed]
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
        let [found, missed] = barriers(wgsl);
        assert!(missed.is_empty(), "{name}: lines {missed:?}\n{wgsl}");
        n_barriers += found.len();
    }
    assert!(n_barriers > 20, "{n_barriers}");
}

#[test]
fn missing_barriers_of_fixed_kernels_are_found_unless_a_called_function_uses_the_memory() {
    let mut n_found = 0;
    let mut n_missed = vec![];
    for kernel in shaders::layout::ALL {
        let [found, missed] = barriers(&kernel.source);
        n_found += found.len();
        if !missed.is_empty() {
            n_missed.push((kernel.name.to_string(), missed.len()));
        }
    }
    let called = [
        ("bit_conv_codes", 1),
        ("byte_conv_codes", 1),
        ("matrix_game_update", 1),
        ("matrix_game_value", 1),
        ("matrix_games_solve_16", 4),
    ];
    let called = called.map(|(name, number)| (name.to_owned(), number));
    assert_eq!((n_found, n_missed), (6, called.to_vec()));
}
