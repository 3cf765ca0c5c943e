//! The icicle graph: the tree of spans as a picture.
//!
//! Method: spans with an equal path of names from the root share one box, below the box of their
//! parent. The width of a box is its time, or the sum of its parts if they ran in parallel on
//! several threads; widths are thread times.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::Profile;
use super::data::Label;
use super::table::time;

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 8.0;
const HEAD: f64 = 30.0;
const ROW: f64 = 20.0;
/// Boxes narrower than this are not drawn.
const NARROWEST: f64 = 0.2;
/// The average width of a letter in this font size, and the space left and right of a text.
const LETTER: f64 = 6.4;
const PADDING: f64 = 4.0;
/// The boxes have the same colours in light and dark themes, so their text is always dark.
const STYLE: &str = "<style>\
svg{background:#fff}text{font:11px ui-sans-serif,system-ui,sans-serif;fill:#111}\
.note{fill:#333}rect{stroke:#fff;stroke-width:.5}rect:hover{stroke:#000;stroke-width:1}\
@media(prefers-color-scheme:dark){svg{background:#15171b}.note{fill:#ddd}rect{stroke:#15171b}rect:hover{stroke:#fff}}\
</style>\n";

/// The spans with one path of names.
struct Node {
    subject: Option<u32>,
    parts: Vec<usize>,
    calls: u64,
    time: u64,
    width: u64,
}

/// Returns the picture as SVG.
pub(super) fn svg(profile: &Profile) -> String {
    let nodes = tree(profile);
    let mut boxes = String::new();
    let mut picture = Picture {
        profile,
        nodes: &nodes,
        scale: (WIDTH - 2.0 * MARGIN) / (nodes[0].width as f64).max(1.0),
        deepest: 0,
        left_out: 0,
    };
    picture.draw(&mut boxes);
    let height = HEAD + ROW * (picture.deepest + 1) as f64 + MARGIN;
    let mut note = format!("{} of thread time in spans", time(nodes[0].width as f64));
    if picture.left_out > 0 {
        note += &format!("; {} boxes too narrow to draw", picture.left_out);
    }
    if profile.dropped_spans() > 0 {
        note += &format!("; {} spans dropped", profile.dropped_spans());
    }
    let baseline = HEAD - ROW / 2.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"Icicle graph of a profile\">\n{STYLE}\
         <text class=\"note\" x=\"{MARGIN}\" y=\"{baseline}\">{note}</text>\n{boxes}</svg>\n"
    )
}

/// Returns the tree of paths. The first node is the root, and parents precede their parts.
fn tree(profile: &Profile) -> Vec<Node> {
    let mut nodes = vec![Node::new(None)];
    let mut places: HashMap<(usize, u32), usize> = HashMap::new();
    let mut node_of: Vec<usize> = Vec::with_capacity(profile.data.spans.len());
    for span in &profile.data.spans {
        let parent = span.parent.and_then(|parent| node_of.get(parent as usize));
        let parent = parent.copied().unwrap_or(0);
        let place = *places.entry((parent, span.subject)).or_insert_with(|| {
            nodes.push(Node::new(Some(span.subject)));
            let place = nodes.len() - 1;
            nodes[parent].parts.push(place);
            place
        });
        nodes[place].calls += 1;
        nodes[place].time = nodes[place].time.saturating_add(span.end - span.start);
        node_of.push(place);
    }
    // Parts have larger numbers than their parents, so a backward pass sees them first.
    for place in (0..nodes.len()).rev() {
        let of_parts = nodes[place].parts.iter();
        let of_parts = of_parts
            .map(|&part| nodes[part].width)
            .fold(0, u64::saturating_add);
        nodes[place].width = nodes[place].time.max(of_parts);
    }
    nodes
}

impl Node {
    fn new(subject: Option<u32>) -> Self {
        Self {
            subject,
            parts: Vec::new(),
            calls: 0,
            time: 0,
            width: 0,
        }
    }
}

struct Picture<'p> {
    profile: &'p Profile,
    nodes: &'p [Node],
    scale: f64,
    deepest: usize,
    left_out: usize,
}

impl Picture<'_> {
    /// Draws the tree. An explicit stack of boxes replaces recursion, because spans may be nested
    /// arbitrarily deep.
    fn draw(&mut self, out: &mut String) {
        let mut waiting = vec![(0, 0, MARGIN)];
        while let Some((place, depth, left)) = waiting.pop() {
            let node = &self.nodes[place];
            let width = node.width as f64 * self.scale;
            if width < NARROWEST && place != 0 {
                self.left_out += 1;
                continue;
            }
            self.deepest = self.deepest.max(depth);
            self.draw_box(out, place, depth, (left, width));
            let mut left = left;
            for &part in &node.parts {
                waiting.push((part, depth + 1, left));
                left += self.nodes[part].width as f64 * self.scale;
            }
        }
    }

    fn draw_box(&self, out: &mut String, place: usize, depth: usize, (left, width): (f64, f64)) {
        let node = &self.nodes[place];
        let (name, title, hue) = self.words(node);
        let top = HEAD + ROW * depth as f64;
        let colour = hue.map_or_else(|| "#c9ced6".to_owned(), |hue| format!("hsl({hue} 55% 74%)"));
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<g><title>{}</title><rect x=\"{left:.2}\" y=\"{top}\" width=\"{width:.2}\" height=\"{ROW}\" fill=\"{colour}\"/>{}</g>",
            escaped(&title),
            label(&name, left, top, width),
        );
    }

    /// Returns the text of a box, its tooltip, and the hue of its operation if the box is a step.
    fn words(&self, node: &Node) -> (String, String, Option<u32>) {
        let Some(subject) = node.subject else {
            let name = "all spans".to_owned();
            return (name.clone(), name, None);
        };
        let what = &self.profile.data.subjects[subject as usize].what;
        let total = self.nodes[0].width as f64;
        let figures = format!(
            "{}, {} calls, {} each, {:.1}% of all",
            time(node.time as f64),
            node.calls,
            time(node.time as f64 / node.calls.max(1) as f64),
            100.0 * node.time as f64 / total.max(1.0),
        );
        let (long, hue) = match what {
            Label::Step(info) => {
                let operation = info.origins.last().map_or("", |last| last.operation);
                (info.long(), Some(hue(operation)))
            }
            Label::Named(name) => (name.to_string(), None),
        };
        (what.short().into_owned(), format!("{long}\n{figures}"), hue)
    }
}

/// Returns the label of a box, cut to the width of the box, or an empty string if fewer than three
/// letters fit.
fn label(name: &str, left: f64, top: f64, width: f64) -> String {
    const FEWEST: usize = 3;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a width of a picture, and not negative"
    )]
    let fits = ((width - 2.0 * PADDING).max(0.0) / LETTER) as usize;
    if fits < FEWEST {
        return String::new();
    }
    let shown = if name.chars().count() <= fits {
        name.to_owned()
    } else {
        name.chars().take(fits - 1).chain(['…']).collect()
    };
    let (x, y) = (left + PADDING, top + 0.7 * ROW);
    format!(
        "<text x=\"{x:.2}\" y=\"{y:.2}\" pointer-events=\"none\">{}</text>",
        escaped(&shown)
    )
}

/// Returns a hue in degrees that depends only on the name.
fn hue(name: &str) -> u32 {
    const PRIME: u32 = 31;
    /// 2^32 divided by the golden ratio: spreads similar hash values over the circle.
    const GOLDEN: u32 = 0x9e37_79b9;
    const FULL_CIRCLE: u32 = 360;
    let sum = name.bytes().fold(0_u32, |sum, byte| {
        sum.wrapping_mul(PRIME).wrapping_add(u32::from(byte))
    });
    (sum.wrapping_mul(GOLDEN) >> 16) % FULL_CIRCLE
}

/// Escapes a text for XML. Control characters other than tab and newline are not allowed in XML and
/// are replaced.
fn escaped(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    for character in words.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            control if control.is_control() && !matches!(control, '\t' | '\n') => {
                out.push('\u{fffd}')
            }
            other => out.push(other),
        }
    }
    out
}
