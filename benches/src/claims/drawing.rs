//! Claims of the blog notes "Lego Bricks in LaTeX" and "Cylinders in LaTeX the Easy and Correct
//! Way".
//!
//! Method: the notes' package tikz-3dplot turns the scene by the azimuth about z, and then by the
//! elevation about the horizontal axis of the page. The second rotation does not change horizontal
//! positions, so a point `(x, y, z)` has the position `x cos(azimuth) + y sin(azimuth)` there. The
//! edges of an upright cylinder are where its circle has the largest and the least position.

use super::{Claim, Reading, Verdict};

/// Azimuths of the notes' cylinder and of their bricks, in degrees.
const AZIMUTHS: [f64; 2] = [110.0, 120.0];
/// Number of points of a circle per degree.
const PER_DEGREE: u32 = 10;

pub(super) const CLAIMS: &[Claim] = &[Claim {
    id: "s0.drawing.edges",
    claim: "the edges of an upright cylinder are at the azimuth of the view and opposite to it: angles in degrees of the \
        largest and of the least horizontal position on the circle, for the views of the cylinder and of the bricks",
    claimed: &[110.0, 290.0, 120.0, 300.0],
    reading: Reading::Printed(1),
    correction: None,
    expected: Verdict::Holds,
    measure: || Ok(Some(AZIMUTHS.map(edges).concat())),
}];

/// Returns the angles at which a circle has its largest and its least horizontal position.
fn edges(azimuth: f64) -> [f64; 2] {
    let (sin, cos) = azimuth.to_radians().sin_cos();
    let angles = || (0..360 * PER_DEGREE).map(|i| f64::from(i) / f64::from(PER_DEGREE));
    let position = |angle: f64| {
        let (y, x) = angle.to_radians().sin_cos();
        x * cos + y * sin
    };
    let farthest = |side: f64| {
        let of = |angle: &f64| side * position(*angle);
        angles().max_by(|a, b| of(a).total_cmp(&of(b)))
    };
    [1.0, -1.0].map(|side| farthest(side).unwrap_or(f64::NAN))
}
