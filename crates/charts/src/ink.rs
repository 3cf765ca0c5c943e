//! Colours of the plots by meaning, so that the style sheet can set them for light and dark mode.
//!
//! Role: plotters draws with fixed colours. Each meaning has a marker colour that is used for
//! nothing else, and [`themed`] replaces the markers by classes of `style.css`.
//! Limits: an SVG element must have a single colour, which is true for all elements that the SVG
//! backend draws.

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::page::escape;
use crate::{Error, Result};

/// Meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Text.
    Text,
    /// Less important text.
    Muted,
    /// Grid lines and axes.
    Grid,
    /// The background.
    Paper,
    /// A failed check.
    Alarm,
    /// A result of the CPU.
    Cpu,
    /// A result of another library.
    Rival,
    /// A ratio above 1: faster than the other.
    Faster,
    /// A ratio below 1: slower than the other.
    Slower,
    /// Adapter with this hue, from 0 to 4; larger numbers start over at 0.
    Adapter(u8),
}

/// Number of hues for adapters; further adapters reuse them from the first.
const ADAPTERS: u8 = 5;
/// Ratio of line height to font size in plotters, which takes the line height as the size of a
/// text.
const LINE_HEIGHT: f64 = 1.24;

/// The drawing area of a picture, or of one panel of a figure.
pub type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Ink {
    /// Returns the colour of an adapter by its position in a list. Colours repeat once all hues are
    /// used.
    #[must_use]
    pub fn adapter(position: usize) -> Self {
        let hue = u8::try_from(position % usize::from(ADAPTERS));
        Self::Adapter(hue.unwrap_or(0))
    }

    /// Returns a colour for the line with this index in a figure; colours repeat once the hues of
    /// the CPU and of all adapters are used.
    #[must_use]
    pub fn hue(idx: usize) -> Self {
        let hues = usize::from(ADAPTERS) + 1;
        match u8::try_from(idx % hues) {
            Ok(0) | Err(_) => Self::Cpu,
            Ok(hue) => Self::Adapter(hue - 1),
        }
    }

    /// Returns the suffix of the CSS class names `fill-…`, `line-…`, `ink-…` and `swatch-…`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Text => "text".to_owned(),
            Self::Muted => "muted".to_owned(),
            Self::Grid => "grid".to_owned(),
            Self::Paper => "paper".to_owned(),
            Self::Alarm => "alarm".to_owned(),
            Self::Cpu => "cpu".to_owned(),
            Self::Rival => "rival".to_owned(),
            Self::Faster => "faster".to_owned(),
            Self::Slower => "slower".to_owned(),
            Self::Adapter(hue) => format!("adapter{}", hue % ADAPTERS),
        }
    }

    /// Returns the marker colour, which [`picture`] replaces by a CSS class.
    #[must_use]
    pub fn marker(self) -> RGBColor {
        RGBColor(1, 2, self.code())
    }

    fn code(self) -> u8 {
        match self {
            Self::Text => 0,
            Self::Muted => 1,
            Self::Grid => 2,
            Self::Paper => 3,
            Self::Alarm => 4,
            Self::Cpu => 5,
            Self::Rival => 6,
            Self::Faster => 7,
            Self::Slower => 8,
            Self::Adapter(hue) => 9 + hue % ADAPTERS,
        }
    }

    fn all() -> impl Iterator<Item = Self> {
        use Ink::{Alarm, Cpu, Faster, Grid, Muted, Paper, Rival, Slower, Text};
        [Text, Muted, Grid, Paper, Alarm, Cpu, Rival, Faster, Slower]
            .into_iter()
            .chain((0..ADAPTERS).map(Self::Adapter))
    }

    /// Returns the style of a line in this colour.
    #[must_use]
    pub fn line(self, width_px: u32) -> ShapeStyle {
        self.marker().stroke_width(width_px)
    }

    /// Returns the style of a text in this colour. `across` and `down` select the point of the text
    /// that is placed at its position.
    #[must_use]
    pub fn text(self, size_px: u32, across: HPos, down: VPos) -> TextStyle<'static> {
        let font = ("sans-serif", f64::from(size_px) * LINE_HEIGHT).into_font();
        // `TextStyle` would borrow a colour passed to its constructor, so the colour is set
        // afterwards.
        let mut style = TextStyle::from(font).pos(Pos::new(across, down));
        style.color = self.marker().to_backend_color();
        style
    }
}

/// Draws on a new canvas of `size` pixels and returns the SVG, with CSS classes in place of
/// colours. `label` is the description for screen readers.
///
/// # Errors
/// An error of the drawing backend, as text.
pub fn picture(
    size: (u32, u32),
    label: &str,
    draw: impl FnOnce(&Canvas<'_>) -> Result<()>,
) -> Result<String> {
    let mut svg = String::new();
    {
        let canvas = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(&canvas)?;
        canvas.present().map_err(drawing)?;
    }
    Ok(themed(&svg, label))
}

/// Converts an error of plotters to text, because the error type borrows the backend.
pub fn drawing(error: impl std::fmt::Display) -> Error {
    Error(error.to_string())
}

fn themed(svg: &str, label: &str) -> String {
    let mut themed = svg.replacen(
        "<svg ",
        &format!("<svg role=\"img\" aria-label=\"{}\" ", escape(label)),
        1,
    );
    for ink in Ink::all() {
        let RGBColor(red, green, blue) = ink.marker();
        let (marker, name) = (format!("#{red:02X}{green:02X}{blue:02X}"), ink.name());
        // Quotes in drawn text are escaped, so only attributes match.
        themed = themed
            .replace(
                &format!("fill=\"{marker}\""),
                &format!("class=\"fill-{name}\""),
            )
            .replace(
                &format!("stroke=\"{marker}\""),
                &format!("class=\"line-{name}\""),
            );
    }
    // These attributes are defaults of SVG or set by the style sheet; they would be a tenth of the
    // page.
    for granted in [" opacity=\"1\"", " font-family=\"sans-serif\""] {
        themed = themed.replace(granted, "");
    }
    themed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_marker_becomes_a_class_that_the_style_sheet_knows() {
        let style = include_str!("style.css");
        let svg = picture((100, 100), "all \"inks\"", |canvas| {
            for ink in Ink::all() {
                let bar = Rectangle::new([(0, 0), (5, 5)], ink.marker().filled());
                canvas.draw(&bar).map_err(drawing)?;
                canvas
                    .draw(&PathElement::new([(0, 0), (5, 5)], ink.line(1)))
                    .map_err(drawing)?;
            }
            Ok(())
        });
        let svg = svg.unwrap();
        assert!(!svg.contains("#0102"), "{svg}");
        assert!(svg.contains("aria-label=\"all &quot;inks&quot;\""));
        for ink in Ink::all() {
            let name = ink.name();
            assert!(svg.contains(&format!("fill-{name}")) && svg.contains(&format!("line-{name}")));
            // The paper and the grid are no colours of text.
            if !matches!(ink, Ink::Paper | Ink::Grid) {
                assert!(
                    style.contains(&format!(".ink-{name}")),
                    "ink-{name} has no style"
                );
            }
            assert!(
                style.contains(&format!(".fill-{name}")),
                "fill-{name} has no style"
            );
            assert!(
                style.contains(&format!(".line-{name}")),
                "line-{name} has no style"
            );
        }
    }

    #[test]
    fn drawn_text_is_escaped_and_keeps_its_words() {
        let svg = picture((100, 100), "", |canvas| {
            let style = Ink::Text.text(12, HPos::Left, VPos::Top);
            canvas
                .draw(&Text::new("<i>fill=\"#010200\" & co", (0, 0), style))
                .map_err(drawing)
        });
        assert!(
            svg.unwrap()
                .contains("&lt;i&gt;fill=&quot;#010200&quot; &amp; co")
        );
    }

    #[test]
    fn adapters_beyond_the_hues_start_over() {
        assert_eq!(Ink::adapter(0), Ink::adapter(5));
        assert_ne!(Ink::adapter(0), Ink::adapter(4));
        assert_eq!(Ink::Adapter(7).name(), Ink::Adapter(2).name());
        assert_eq!(Ink::Adapter(7).marker(), Ink::Adapter(2).marker());
    }
}
