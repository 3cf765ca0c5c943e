//! The tree of spans as folded stacks, the text that flame-graph tools read.
//!
//! Method: spans with an equal path of names from the root are one stack. The value of a stack is
//! its own time, without that of its parts. Parts that ran in parallel on several threads may
//! together take longer than the span that contains them, whose own time is then 0; the values are
//! thread times.
//! Limits: a stack has at most [`MAX_DEPTH`] names, because the text repeats the whole path in
//! every line; deeper spans count as time of the span at this depth.
//! Source: Gregg 2016, "The flame graph", Communications of the ACM 59 (6).

use std::collections::HashMap;

use super::Profile;

const MAX_DEPTH: usize = 128;

/// All spans with the same path of names from the root.
struct Node {
    /// The path of names, each followed by a semicolon.
    path: String,
    depth: usize,
    /// The time of the spans, in nanoseconds.
    time: u64,
    /// The time of the spans' parts, in nanoseconds.
    of_parts: u64,
}

/// Returns a line `outermost;…;innermost nanoseconds` for each path, in the order of first
/// appearance.
pub(super) fn stacks(profile: &Profile) -> String {
    let mut nodes: Vec<Node> = Vec::new();
    let mut places: HashMap<(Option<usize>, u32), usize> = HashMap::new();
    // The node of each span; parents precede their parts.
    let mut node_of: Vec<usize> = Vec::with_capacity(profile.data.spans.len());
    for span in &profile.data.spans {
        let parent = span.parent.and_then(|parent| node_of.get(parent as usize));
        let parent = parent.copied();
        let depth = parent.map_or(0, |parent| nodes[parent].depth) + 1;
        if let Some(parent) = parent.filter(|_| depth > MAX_DEPTH) {
            node_of.push(parent);
            continue;
        }
        let time = span.end - span.start;
        if let Some(parent) = parent {
            let of_parts = &mut nodes[parent].of_parts;
            *of_parts = of_parts.saturating_add(time);
        }
        let place = *places.entry((parent, span.subject)).or_insert_with(|| {
            let subject = &profile.data.subjects[span.subject as usize];
            let before = parent.map_or("", |parent| &nodes[parent].path);
            let path = format!("{before}{};", one_word(&subject.what.short()));
            nodes.push(Node {
                path,
                depth,
                time: 0,
                of_parts: 0,
            });
            nodes.len() - 1
        });
        nodes[place].time = nodes[place].time.saturating_add(time);
        node_of.push(place);
    }
    let line = |node: &Node| {
        let path = node.path.trim_end_matches(';');
        format!("{path} {}\n", node.time.saturating_sub(node.of_parts))
    };
    nodes.iter().map(line).collect()
}

/// Replaces the characters that separate names and lines.
fn one_word(name: &str) -> String {
    let replaced = |letter: char| match letter {
        ';' => ',',
        letter if letter.is_control() => ' ',
        letter => letter,
    };
    name.chars().map(replaced).collect()
}
