//! Arrays of three axes as bricks: a picture that explains broadcasting.
//!
//! Role: shows which elements of a broadcast array exist in memory, and over which axis a reduction
//! runs.
//! Method: an isometric projection of boxes. An axis of stride 0 repeats the same elements: the
//! elements in memory are the front slice, and the repetitions behind it are hatched. An array that
//! is reduced over an axis is a cylinder along this axis. Its silhouettes are where the tangent of
//! the end circle is parallel to the projected axis, which is exact for any axis and any view.
//! Limits: three axes; the drawn lengths are fixed and not those of the array.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::escape;

/// An axis of an array.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Axis {
    /// Name: `d`.
    pub name: String,
    /// Number of elements.
    pub len: usize,
    /// Distance of neighbours in memory, in elements; 0 repeats the same elements.
    pub stride: isize,
}

/// An array in a picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Brick {
    /// Operator before the array: `−`, `=`; empty before the first.
    pub operator: String,
    /// Name below the array.
    pub name: String,
    /// The axes, outermost first: towards the viewer's left, towards the right, upwards. An axis
    /// without elements in the array has length 1.
    pub axes: [Axis; 3],
    /// Index of the axis over which the array is reduced; an index of 3 or more counts as `None`.
    pub reduced: Option<usize>,
}

/// Side of a picture, in pixels.
const SIDE: f64 = 150.0;
/// Drawn length of an axis of more than one element.
const LONG: f64 = 3.0;
/// Drawn length of a single element, and of the elements in memory along an axis of stride 0.
const SHORT: f64 = 0.6;
/// Pixels per unit of length.
const SCALE: f64 = 17.0;
/// Distance between two lines of a hatching, in units of length.
const HATCH: f64 = 0.3;
/// Number of segments of an ellipse.
const SEGMENTS: u32 = 48;

/// A point or a direction in space.
type Space = [f64; 3];
/// A point or a direction in the picture, in pixels.
type Plane = [f64; 2];

/// Draws arrays side by side, with the operators between them.
#[must_use]
pub fn draw(bricks: &[Brick]) -> String {
    let mut html = String::from("<div class=\"bricks\">\n");
    for brick in bricks {
        if !brick.operator.is_empty() {
            let operator = escape(&brick.operator);
            let _ = write!(html, "<b>{operator}</b>");
        }
        let axes = brick.axes.iter().filter(|axis| axis.len > 1);
        let axes = axes.map(|axis| {
            let repeated = if axis.stride == 0 { ", stride 0" } else { "" };
            format!("{} = {}{repeated}", axis.name, axis.len)
        });
        let axes = axes.collect::<Vec<_>>().join("; ");
        let (name, axes) = (escape(&brick.name), escape(&axes));
        let _ = writeln!(
            html,
            "<span>{}<br>{name}<br><small>{axes}</small></span>",
            picture(brick)
        );
    }
    html + "</div>\n"
}

fn picture(brick: &Brick) -> String {
    let label = escape(&brick.name);
    let shapes = match brick.reduced {
        Some(axis) if axis < brick.axes.len() => cylinder(brick, axis),
        _ => boxes(brick),
    };
    format!(
        "<svg role=\"img\" aria-label=\"{label}\" viewBox=\"0 0 {SIDE} {SIDE}\" width=\"{SIDE}\" height=\"{SIDE}\">{shapes}</svg>"
    )
}

/// Projects a direction: the first axis points to the lower left, the second to the lower right,
/// the third upwards.
fn direction([x, y, z]: Space) -> Plane {
    let (cos, sin) = (0.75_f64.sqrt(), 0.5);
    [SCALE * cos * (y - x), SCALE * (sin * (x + y) - z)]
}

/// Projects a point of an array whose middle is the middle of the picture.
fn project(point: Space, middle: Space) -> Plane {
    let [x, y] = direction([0, 1, 2].map(|axis| point[axis] - middle[axis]));
    [0.5 * SIDE + x, 0.5 * SIDE + y]
}

/// Returns the drawn length of an axis.
fn length(axis: &Axis) -> f64 {
    if axis.len > 1 { LONG } else { SHORT }
}

/// Draws a box for the whole array, hatched along each axis of stride 0, and a solid box for the
/// elements in memory.
fn boxes(brick: &Brick) -> String {
    let whole = [0, 1, 2].map(|axis| length(&brick.axes[axis]));
    let middle = whole.map(|side| 0.5 * side);
    let is_repeated =
        [0, 1, 2].map(|axis| brick.axes[axis].stride == 0 && brick.axes[axis].len > 1);
    let mut svg = String::new();
    if is_repeated.contains(&true) {
        svg += &faces([0.0; 3], whole, middle, "fill-paper", &is_repeated);
    }
    // The elements in memory are the slice that the viewer sees first.
    let start = [0, 1, 2].map(|axis| {
        if is_repeated[axis] {
            whole[axis] - SHORT
        } else {
            0.0
        }
    });
    svg + &faces(start, whole, middle, "fill-cpu", &[false; 3])
}

/// Draws the three visible faces of a box between two corners; `hatched` selects the axes along
/// which lines are drawn on them.
fn faces(from: Space, to: Space, middle: Space, fill: &str, hatched: &[bool; 3]) -> String {
    let mut svg = String::new();
    // The visible faces are at the far ends of their axes. Each face has its own shade.
    for (normal, opacity) in [(2, 0.35), (0, 0.6), (1, 0.85)] {
        let (one, other) = ((normal + 1) % 3, (normal + 2) % 3);
        let corner = |a: bool, b: bool| {
            let mut point = to;
            point[one] = if a { to[one] } else { from[one] };
            point[other] = if b { to[other] } else { from[other] };
            project(point, middle)
        };
        let corners = [(false, false), (true, false), (true, true), (false, true)];
        let corners = corners.map(|(a, b)| corner(a, b));
        let opacity = if fill == "fill-paper" { 1.0 } else { opacity };
        svg += &polygon(&corners, fill, opacity);
        for axis in [one, other].into_iter().filter(|&axis| hatched[axis]) {
            let across = one + other - axis;
            let mut at = from[across] + HATCH;
            while at < to[across] {
                let mut ends = [to, to];
                ends[0][axis] = from[axis];
                ends.iter_mut().for_each(|end| end[across] = at);
                svg += &line(ends.map(|end| project(end, middle)), "line-muted");
                at += HATCH;
            }
        }
    }
    svg
}

/// Draws a cylinder along the reduced axis.
fn cylinder(brick: &Brick, axis: usize) -> String {
    let (one, other) = ((axis + 1) % 3, (axis + 2) % 3);
    let radius = 0.5 * LONG;
    let mut middle = [0.0; 3];
    middle[axis] = 0.5 * length(&brick.axes[axis]);
    let unit = |axis: usize| {
        let mut unit = [0.0; 3];
        unit[axis] = 1.0;
        direction(unit)
    };
    let cross = |[a, b]: Plane, [c, d]: Plane| a * d - b * c;
    let (u, v, along) = (unit(one), unit(other), unit(axis));
    // The tangent of the circle, −sin θ u + cos θ v, is parallel to the axis at the silhouettes.
    let silhouette = cross(v, along).atan2(cross(u, along));
    let at = |angle: f64, height: f64| {
        let mut point = [0.0; 3];
        point[one] = radius * angle.cos();
        point[other] = radius * angle.sin();
        point[axis] = height;
        project(point, middle)
    };
    let arc = |from: f64, turn: f64, height: f64| -> Vec<Plane> {
        let part = |k: u32| from + turn * f64::from(k) / f64::from(SEGMENTS);
        (0..=SEGMENTS).map(|k| at(part(k), height)).collect()
    };
    let (turn, half) = (std::f64::consts::TAU, std::f64::consts::PI);
    let far = length(&brick.axes[axis]);
    // Of the hidden end, the half on the side away from the visible end is seen.
    let seen = |turn: f64| -> Vec<Plane> { arc(silhouette, turn, 0.0) };
    let centre = at(0.0, 0.0);
    let middle_of = |points: &[Plane]| points[points.len() / 2];
    let away = |points: &[Plane]| {
        let point = middle_of(points);
        let opposite = at(half, 0.0);
        let centre = [
            0.5 * (centre[0] + opposite[0]),
            0.5 * (centre[1] + opposite[1]),
        ];
        (point[0] - centre[0]) * along[0] + (point[1] - centre[1]) * along[1]
    };
    let (left, right) = (seen(half), seen(-half));
    let (hidden_end, back) = if away(&left) < away(&right) {
        (left, half)
    } else {
        (right, -half)
    };
    let mut body = hidden_end;
    body.extend(arc(silhouette + back, 0.0, far).first());
    body.push(at(silhouette, far));
    polygon(&body, "fill-cpu", 0.6) + &polygon(&arc(0.0, turn, far), "fill-cpu", 0.35)
}

fn polygon(points: &[Plane], fill: &str, opacity: f64) -> String {
    let points = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}"));
    let points = points.collect::<Vec<_>>().join(" ");
    // A background of the page's colour, so that what is behind does not shine through.
    format!(
        "<polygon points=\"{points}\" class=\"fill-paper\"/>\
         <polygon points=\"{points}\" class=\"{fill} line-text\" fill-opacity=\"{opacity}\"/>"
    )
}

fn line([from, to]: [Plane; 2], class: &str) -> String {
    format!(
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"/>",
        from[0], from[1], to[0], to[1]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brick(strides: [isize; 3], reduced: Option<usize>) -> Brick {
        let axis = |stride| Axis {
            name: "<d>".into(),
            len: 4,
            stride,
        };
        Brick {
            operator: "−".into(),
            name: "x".into(),
            axes: strides.map(axis),
            reduced,
        }
    }

    #[test]
    fn only_axes_of_stride_0_are_hatched() {
        assert!(!picture(&brick([16, 4, 1], None)).contains("<line"));
        let one = picture(&brick([4, 0, 1], None)).matches("<line").count();
        let two = picture(&brick([0, 0, 1], None)).matches("<line").count();
        assert!(0 < one && one < two, "{one} {two}");
        let html = draw(&[brick([16, 0, 1], None)]);
        assert!(
            html.contains("&lt;d&gt; = 4, stride 0") && html.contains("<b>−</b>"),
            "{html}"
        );
    }

    #[test]
    fn an_array_that_is_reduced_over_no_axis_of_its_own_is_a_box() {
        let plain = picture(&brick([16, 4, 1], None));
        for axis in [3, usize::MAX] {
            assert_eq!(picture(&brick([16, 4, 1], Some(axis))), plain);
        }
    }

    #[test]
    fn the_silhouettes_of_a_cylinder_touch_both_ends() {
        for axis in 0..3 {
            let svg = picture(&brick([16, 4, 1], Some(axis)));
            let points = svg.split("points=\"").nth(1).unwrap();
            let points = points.split('"').next().unwrap();
            let points: Vec<Vec<f64>> = points
                .split(' ')
                .map(|point| point.split(',').map(|x| x.parse().unwrap()).collect())
                .collect();
            // The two straight edges are parallel to the axis: the last three corners and the first
            // form a parallelogram with it.
            let n = points.len();
            let edge =
                |a: usize, b: usize| [points[b][0] - points[a][0], points[b][1] - points[a][1]];
            let (one, other) = (edge(n - 3, n - 2), edge(0, n - 1));
            let along = direction([0, 1, 2].map(|k| if k == axis { LONG } else { 0.0 }));
            for edge in [one, other] {
                assert!(
                    (edge[0] - along[0]).abs() < 0.2 && (edge[1] - along[1]).abs() < 0.2,
                    "{axis}: {edge:?} {along:?}"
                );
            }
            // No corner is outside of the picture.
            assert!(points.iter().flatten().all(|x| (0.0..=SIDE).contains(x)));
        }
    }
}
