//! Names at the right edge of a plot, joined with their points by thin lines.
//!
//! Role: the roofline and the loss curves name their lines directly, so that no key is needed.

use charts::plotters::prelude::*;
use charts::plotters::style::text_anchor::{HPos, VPos};
use charts::{Canvas, Ink, Result, drawing};

/// Size of text, in pixels.
const SIZE: u32 = 11;
/// Smallest vertical distance between two names, in pixels.
const STEP: i32 = 13;
/// Distance between the edge of the plot and the names, in pixels.
const TIE: i32 = 20;
/// Space above the bottom of the picture, in pixels.
const BOTTOM: i32 = 8;
/// Approximate width of a character, in pixels.
const LETTER: u32 = 6;

/// A name for the point at which a line ends.
pub(super) struct Label {
    /// Position of the point, in pixels.
    pub(super) at: (i32, i32),
    pub(super) text: String,
    pub(super) ink: Ink,
}

/// Draws labels between `right`, the edge of the plot, and the edge of the picture, at least
/// [`STEP`] apart and as close to the heights of their points as possible. Text that is too long is
/// cut.
pub(super) fn draw(canvas: &Canvas<'_>, mut labels: Vec<Label>, right: i32) -> Result<()> {
    let (width, height) = canvas.dim_in_pixel();
    let [width, height] = [width, height].map(|size| i32::try_from(size).unwrap_or(i32::MAX));
    let room = u32::try_from(width - right - TIE).unwrap_or(0) / LETTER;
    // The sort is stable: points at the same height keep their order.
    labels.sort_by_key(|label| label.at.1);
    let wanted: Vec<i32> = labels.iter().map(|label| label.at.1).collect();
    let heights = spread(&wanted);
    // If names would extend beyond the bottom of the picture, move all of them up.
    let lowest = heights.last().copied().unwrap_or(0);
    let lift = (lowest - (height - BOTTOM)).max(0);
    for (label, y) in labels.into_iter().zip(heights) {
        let at = (right + TIE, y - lift);
        let tie = PathElement::new([label.at, (at.0 - 4, at.1)], label.ink.line(1));
        canvas.draw(&tie).map_err(drawing)?;
        let text = shortened(&label.text, room as usize);
        let style = label.ink.text(SIZE, HPos::Left, VPos::Center);
        canvas.draw(&Text::new(text, at, style)).map_err(drawing)?;
    }
    Ok(())
}

fn shortened(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let kept = text.chars().take(longest.saturating_sub(1));
    kept.chain(['…']).collect()
}

/// Moves ascending heights apart until neighbours are at least [`STEP`] apart. Each run of touching
/// labels is centred on the mean of its wanted heights.
fn spread(wanted: &[i32]) -> Vec<i32> {
    let step = f64::from(STEP);
    // A run is its number of members and the height of its first member.
    let mut runs: Vec<(usize, f64)> = Vec::new();
    for &height in wanted {
        let mut run = (1, f64::from(height));
        while let Some(&(above, first)) = runs.last()
            && first + above as f64 * step > run.1
        {
            // The first member of the joined run is at the mean of the positions that all members
            // want for it.
            let (n, m) = (above as f64, run.0 as f64);
            run = (
                above + run.0,
                (first * n + (run.1 - n * step) * m) / (n + m),
            );
            runs.pop();
        }
        runs.push(run);
    }
    let heights = runs
        .iter()
        .flat_map(|&(members, first)| (0..members).map(move |member| first + member as f64 * step));
    #[expect(
        clippy::cast_possible_truncation,
        reason = "pixels of a plot are small numbers"
    )]
    heights.map(|height| height.round() as i32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_labels_that_meet_are_joined() {
        assert_eq!(spread(&[]), [0; 0]);
        assert_eq!(spread(&[50, 50]), [44, 57]);
        let heights = spread(&[0, 0, 0, 20, 21, 22, 90]);
        assert!(
            heights.windows(2).all(|pair| pair[1] - pair[0] >= STEP),
            "{heights:?}"
        );
        assert_eq!(heights[6], 90);
    }

    #[test]
    fn long_names_end_with_an_ellipsis() {
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("abc", 4), "abc");
        assert_eq!(shortened("abc", 0), "…");
    }
}
