//! Widths of screens: each picture exists for a wide and a narrow one.
//!
//! Role: text of an SVG shrinks with the picture, so a picture for a desk would be illegible on a
//! phone. The style sheet shows one of the two.

use crate::Result;

/// Width of the screen that a picture is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// A desk or paper.
    Wide,
    /// A phone.
    Narrow,
}

impl Width {
    /// Returns the width of a picture, in pixels.
    #[must_use]
    pub fn px(self) -> u32 {
        match self {
            Self::Wide => 960,
            Self::Narrow => 360,
        }
    }
}

/// Draws a picture for both widths and returns HTML of which a page shows one.
///
/// # Errors
/// An error of the drawing backend.
pub fn for_both(draw: impl Fn(Width) -> Result<String>) -> Result<String> {
    let (wide, narrow) = (draw(Width::Wide)?, draw(Width::Narrow)?);
    Ok(format!(
        "<div class=\"wide-only\">{wide}</div>\n<div class=\"narrow-only\">{narrow}</div>\n"
    ))
}
