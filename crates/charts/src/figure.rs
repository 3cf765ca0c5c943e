//! A figure of a workload's result: panels of named lines, an icicle, or arrays as bricks, as
//! stored in a record.
//!
//! Role: shows what the computed numbers mean, in addition to their times; `report` draws it.

use serde::{Deserialize, Serialize};

use crate::bricks::Brick;

/// Panels side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figure {
    /// Caption: a sentence that explains the figure.
    pub caption: String,
    /// Panels from left to right.
    pub panels: Vec<Panel>,
    /// Folded stacks, drawn as an icicle instead of panels: `outermost;…;innermost nanoseconds`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<String>,
    /// Arrays that explain a program's broadcasting, drawn instead of panels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bricks: Vec<Brick>,
}

/// A plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Panel {
    /// Label of the x axis, with its unit.
    pub x: String,
    /// Label of the left y axis, with its unit.
    pub y: String,
    /// Label of the right y axis, with its unit; empty if no line uses that axis. Linear axes only.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub right: String,
    /// Whether both axes are logarithmic.
    pub is_log: bool,
    /// Whether the panel is a map: both axes have the same scale and are not drawn, and the label
    /// [`x`](Self::x) is shown as a caption below.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_map: bool,
    /// Marked points.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
    /// The lines. The index of a line determines its colour, unless the line is a reference.
    pub lines: Vec<Series>,
}

/// A marked point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Point {
    /// Label; may be empty.
    pub name: String,
    /// Coordinates `[x, y]`.
    pub at: [f32; 2],
}

impl Point {
    /// Creates a marked point at finite coordinates.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "f32 has more digits than a figure can show"
    )]
    pub fn new(name: impl Into<String>, (x, y): (f64, f64)) -> Self {
        Self {
            name: name.into(),
            at: [x as f32, y as f32],
        }
    }
}

/// A sequence of points joined by a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// Name in the legend; a line without a name is not listed there.
    pub name: String,
    /// Whether the line is a reference for the others, such as a limit or an asymptote.
    pub is_reference: bool,
    /// Whether the line uses the y axis on the right.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_right: bool,
    /// Coordinates `[x, y]`, in the order in which they are joined.
    pub points: Vec<[f32; 2]>,
}

impl Series {
    /// Creates the graph of a function at ascending x; points at which the function is not finite
    /// are left out.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        places: impl IntoIterator<Item = f64>,
        function: impl Fn(f64) -> f64,
    ) -> Self {
        Self::through(name, places.into_iter().map(|x| (x, function(x))))
    }

    /// Creates a line through points in the given order; points that are not finite are left out.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "f32 has more digits than a figure can show"
    )]
    pub fn through(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().map(|(x, y)| [x as f32, y as f32]);
        Self {
            name: name.into(),
            is_reference: false,
            is_right: false,
            // JSON cannot represent NaN and infinity.
            points: points
                .filter(|point| point.iter().all(|x| x.is_finite()))
                .collect(),
        }
    }

    /// Assigns the line to the y axis on the right.
    #[must_use]
    pub fn on_the_right(self) -> Self {
        Self {
            is_right: true,
            ..self
        }
    }

    /// Marks the line as a reference.
    #[must_use]
    pub fn as_reference(self) -> Self {
        Self {
            is_reference: true,
            ..self
        }
    }
}
