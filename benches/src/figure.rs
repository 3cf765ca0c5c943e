//! A picture that a result shows: panels of named lines, as a record keeps them.
//!
//! Role: what a workload says with its numbers beyond how long they took; `report` draws it.

use serde::{Deserialize, Serialize};

/// Panels side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figure {
    /// One sentence that says what is seen.
    pub caption: String,
    /// From left to right.
    pub panels: Vec<Panel>,
}

/// One plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Panel {
    /// What x is, with its unit.
    pub x: String,
    /// What y is, with its unit.
    pub y: String,
    /// What y is of lines that belong to the axis on the right, with its unit; without such lines none. Linear axes only.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub right: String,
    /// Whether both axes are logarithmic.
    pub is_log: bool,
    /// Whether the plane is a map: one scale for both axes, of which none is drawn; what `x` says stands below.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_map: bool,
    /// Places that are marked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
    /// The lines; the first stand out.
    pub lines: Vec<Line>,
}

/// A place that is marked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Point {
    /// Its name, maybe none.
    pub name: String,
    /// x and y.
    pub at: [f32; 2],
}

impl Point {
    /// Marks a place, which must be finite.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a picture has fewer digits"
    )]
    pub fn new(name: impl Into<String>, (x, y): (f64, f64)) -> Self {
        Self {
            name: name.into(),
            at: [x as f32, y as f32],
        }
    }
}

/// Points that belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// Its name; without one it has no place among the names.
    pub name: String,
    /// Whether it is what the others are held against: a limit, an asymptote.
    pub is_reference: bool,
    /// Whether its y is that of the axis on the right.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_right: bool,
    /// x and y, in the order in which they are joined.
    pub points: Vec<[f32; 2]>,
}

impl Line {
    /// Gives the line of a function at ascending places, without those at which it is not finite.
    #[must_use]
    pub fn of(
        name: impl Into<String>,
        places: impl IntoIterator<Item = f64>,
        function: impl Fn(f64) -> f64,
    ) -> Self {
        Self::through(name, places.into_iter().map(|x| (x, function(x))))
    }

    /// Gives the line through points in their order, without those that are not finite.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a picture has fewer digits"
    )]
    pub fn through(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let points = points.into_iter().map(|(x, y)| [x as f32, y as f32]);
        Self {
            name: name.into(),
            is_reference: false,
            is_right: false,
            // JSON has no word for other numbers.
            points: points
                .filter(|point| point.iter().all(|x| x.is_finite()))
                .collect(),
        }
    }

    /// Gives its y to the axis on the right.
    #[must_use]
    pub fn on_the_right(self) -> Self {
        Self {
            is_right: true,
            ..self
        }
    }

    /// Makes it a reference.
    #[must_use]
    pub fn as_reference(self) -> Self {
        Self {
            is_reference: true,
            ..self
        }
    }
}
