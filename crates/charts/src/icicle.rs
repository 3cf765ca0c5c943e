//! Folded stacks as an icicle: nested blocks whose widths are times.
//!
//! Role: shows where a program spends its time, from the outermost part at the top to the innermost
//! at the bottom.
//! Method: blocks are nested elements of the page with widths in percent, so that the picture fits
//! any screen and its names are text. Each block has its share of the whole and, under the pointer,
//! its full name and time.
//! Limits: blocks narrower than [`LEAST`] of the whole are left out.

use std::fmt::Write;

use crate::{escape, units};

/// Smallest drawn share of the whole.
const LEAST: f64 = 0.004;
/// Maximum number of parts of a stack; inner parts count as time of the last one.
const MOST_PARTS: usize = 128;

/// A part of a program, with its parts.
#[derive(Debug, Default, PartialEq)]
struct Part {
    name: String,
    /// Time of the part itself and of all its parts, in nanoseconds.
    total: f64,
    parts: Vec<Self>,
}

/// Draws folded stacks, each `outermost;…;innermost nanoseconds`. Lines in another form are
/// ignored.
#[must_use]
pub(crate) fn draw(stacks: &[String]) -> String {
    let mut whole = Part::default();
    for line in stacks {
        let Some((path, time)) = line.rsplit_once(' ') else {
            continue;
        };
        let time: Option<f64> = time.parse().ok();
        let Some(time) = time.filter(|time| *time >= 0.0 && time.is_finite()) else {
            continue;
        };
        // Adding and drawing recurse, so a file must not choose the depth.
        whole.add(path.split(';').take(MOST_PARTS), time);
    }
    if whole.total <= 0.0 {
        return String::new();
    }
    let mut html = String::from("<div class=\"icicle\">");
    whole.render_parts(&mut html, whole.total);
    html + "</div>\n"
}

impl Part {
    /// Adds the time of a path to this part and to the parts on the path.
    fn add<'p>(&mut self, mut path: impl Iterator<Item = &'p str>, time: f64) {
        self.total += time;
        let Some(name) = path.next().filter(|name| !name.is_empty()) else {
            return;
        };
        let at = self.parts.iter().position(|part| part.name == name);
        let at = at.unwrap_or_else(|| {
            self.parts.push(Self {
                name: name.to_owned(),
                ..Self::default()
            });
            self.parts.len() - 1
        });
        self.parts[at].add(path, time);
    }

    /// Appends the blocks of the parts, whose widths are shares of this part.
    fn render_parts(&self, html: &mut String, whole: f64) {
        let is_drawn = |part: &&Self| part.total >= LEAST * whole;
        if !self.parts.iter().any(|part| is_drawn(&part)) {
            return;
        }
        html.push_str("<div class=\"row\">");
        for (idx, part) in self
            .parts
            .iter()
            .enumerate()
            .filter(|(_, part)| is_drawn(part))
        {
            let width = 100.0 * part.total / self.total;
            let name = escape(&part.name);
            let (share, time) = (
                units::percent(part.total / whole),
                units::seconds(1e-9 * part.total),
            );
            // Neighbours differ in their shades.
            let shade = if idx % 2 == 0 { "even" } else { "odd" };
            let _ = write!(
                html,
                "<div style=\"width:{width:.2}%\"><span class=\"{shade}\" title=\"{name}: {time}, {share}\">{name} {share}</span>"
            );
            part.render_parts(html, whole);
            html.push_str("</div>");
        }
        html.push_str("</div>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_part_contains_that_of_its_parts() {
        let lines = [
            "step;loss 30",
            "step;grad 60",
            "step 10",
            "tiny 0.1",
            "broken",
            "x nan",
        ];
        let html = draw(&lines.map(str::to_owned));
        assert!(
            html.contains("step 99.9 %") && html.contains("grad 59.9 %"),
            "{html}"
        );
        assert!(!html.contains("tiny"), "{html}");
        // The gradient is 60 of the 100 of its step.
        assert!(html.contains("width:60.00%"), "{html}");
    }

    #[test]
    fn a_very_deep_stack_is_cut_off() {
        let stack = "a;".repeat(1 << 20) + "b 1";
        let html = draw(&[stack]);
        assert_eq!(html.matches("class=\"row\"").count(), MOST_PARTS);
    }

    #[test]
    fn names_are_escaped_and_nothing_is_drawn_without_time() {
        assert!(draw(&["<b> 1".to_owned()]).contains("&lt;b&gt;"));
        assert_eq!(draw(&[]), "");
        assert_eq!(draw(&["a 0".to_owned()]), "");
    }
}
