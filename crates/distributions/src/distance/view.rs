//! Evaluation of one distribution at the nodes of the integrals of a distance.
//!
//! Role: computes densities, their logarithms and probabilities at a [`Node`], with a bound on
//! their rounding error. Integrands of densities call a user's `pdf` and `ln_pdf` only here.
//! Method: three cases need more than a call of the user's function.
//! - Next to a finite end of a support the density may be unbounded, and `x` may have too few
//!   digits to represent the distance `u` from the end. There the density is modelled as a power of
//!   `u`, whose exponent is fitted to three points ([`Power`]).
//! - Far from the bulk `pdf` may be NaN (`inf * 0`). The density is taken as 0 if the tail is 0.
//! - `ln_pdf` may be the logarithm of an underflowed density. A density of 0 strictly inside the
//!   support may be an underflow, so the negative logarithm is extrapolated by `c + k d^r` in the
//!   distance `d` ([`LogExtrapolation`]). The error of the extrapolation is estimated from the
//!   change of `r` between two sets of points.

use super::ContinuousDistribution;
use super::line::{Edge, Node};

/// Relative error of a density, in addition to the error of its logarithm.
const DENSITY_ROUNDING: f64 = 4.0 * f64::EPSILON;
/// Error of the logarithm of a density, relative to its size. The logarithm is a sum of terms, each
/// rounded twice.
const LN_ROUNDING: f64 = 2.0 * f64::EPSILON;
/// Ratio of successive distances from an end of a support at which a density is evaluated, to fit
/// the exponent of its power law there.
const POWER_STEP: f64 = 64.0;
/// Largest uncertainty of a usable exponent. The uncertainty is far larger for densities that do
/// not behave like a power of the distance `u`, such as `exp(-1/u)`.
const TRUSTED: f64 = 1e-3;
/// Logarithms of densities above this value are accurate even where `ln_pdf` is `pdf.ln()`, because
/// the density is a normal number.
const RESOLVED: f64 = -690.0;
/// Lower limit of the logarithm of a positive f64 density. A finite `ln_pdf` below this limit was
/// not computed as the logarithm of `pdf`.
const LEAST: f64 = -746.0;
/// Range of densities in which `pdf` and `ln_pdf` are compared.
const COMPARED: std::ops::Range<f64> = 1e-30..1e30;

/// A density next to an end: `exp(ln) (u/delta)^exponent` at the distance `u` from the end.
#[derive(Clone, Copy, Debug)]
struct Power {
    /// The logarithm of the density at the distance `delta`; `-inf` where the density is 0.
    ln: f64,
    /// The exponent of `u/delta`. NaN if the density is not integrable, so that its integral is
    /// NaN.
    exponent: f64,
    /// The uncertainty of the exponent.
    doubt: f64,
}

/// The extrapolation of `-ln_pdf` beyond the last distance at which `ln_pdf` is resolved.
#[derive(Clone, Copy, Debug)]
struct LogExtrapolation {
    /// The point from which distances are measured.
    origin: f64,
    /// 1 if `x` grows with the distance, otherwise -1.
    side: f64,
    /// Whether the origin is an end of the support, so that distances decrease outwards.
    is_end: bool,
    /// The last resolved distance.
    distance: f64,
    /// The value of `-ln_pdf` at `distance`.
    size: f64,
    /// `-ln_pdf = size + gain ((d/distance)^exponent - 1)`.
    gain: f64,
    exponent: f64,
    /// The uncertainty of the exponent.
    doubt: f64,
}

/// A density at a place, multiplied by the derivative of `x` with respect to the variable of
/// integration.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightedDensity {
    pub(super) weight: f64,
    /// A bound on the relative error of the weight.
    pub(super) doubt: f64,
}

/// A distribution and its behaviour at the ends of both supports.
#[derive(Debug)]
pub(super) struct Evaluator<'a, L> {
    distribution: &'a L,
    /// Power-law model of the density next to each edge of the line.
    powers: Vec<Power>,
    /// Extrapolations of `ln_pdf`, at most one on each side.
    horizons: Vec<LogExtrapolation>,
    /// Largest disagreement of `ln pdf` and `ln_pdf` at the landmarks.
    noise: f64,
}

impl<'a, L: ContinuousDistribution> Evaluator<'a, L> {
    /// Creates the evaluator of a distribution on a line with these edges and landmarks.
    pub(super) fn new(distribution: &'a L, edges: &[Edge], landmarks: &[f64]) -> Self {
        let noise = landmarks.iter().map(|&x| disagreement(distribution, x));
        Self {
            distribution,
            powers: edges
                .iter()
                .map(|edge| Power::measure(distribution, edge))
                .collect(),
            horizons: Vec::new(),
            noise: noise.fold(0.0, f64::max),
        }
    }

    /// Adds extrapolations of `ln_pdf` on the sides on which `ln_pdf` becomes `-inf` inside the
    /// support.
    pub(super) fn with_horizons(mut self, median: f64, outermost: [f64; 2]) -> Self {
        let sides = [
            (-1.0, self.distribution.min()),
            (1.0, self.distribution.max()),
        ];
        for ((side, end), outer) in sides.into_iter().zip(outermost) {
            let found = if end.is_finite() {
                LogExtrapolation::measure(self.distribution, end, -side, (outer - end).abs())
            } else {
                LogExtrapolation::measure(self.distribution, median, side, (outer - median).abs())
            };
            self.horizons.extend(found);
        }
        self
    }

    /// Returns the density at a place with respect to the variable of integration.
    pub(super) fn seen(&self, place: &Node) -> WeightedDensity {
        match *place {
            Node::At { x, jacobian, near } => {
                let density = density(self.distribution, x);
                let (shift, doubt) = self.correction(near);
                WeightedDensity {
                    // Far from the bulk the derivative may be infinite, and 0 times infinity is
                    // NaN.
                    weight: if density == 0.0 {
                        0.0
                    } else {
                        density * shift.exp() * jacobian
                    },
                    doubt: self.rounding(density.ln()) + doubt,
                }
            }
            Node::Below {
                edge,
                ln_delta,
                depth,
                jacobian,
                ..
            } => {
                let power = self.powers[edge];
                // Density times derivative, with u = delta exp(-depth) and |du| = u d(depth):
                // exp(ln) (u/delta)^exponent u = exp(ln) delta exp(-(exponent + 1) depth).
                let ln = power.ln + ln_delta - (power.exponent + 1.0) * depth;
                WeightedDensity {
                    weight: ln.exp() * jacobian,
                    doubt: self.rounding(power.ln) + power.doubt * depth,
                }
            }
        }
    }

    /// Returns the logarithm of the density at a place, and a bound on its error.
    pub(super) fn ln_density(&self, place: &Node) -> (f64, f64) {
        match *place {
            Node::At { x, near, .. } => {
                let beyond = self.horizons.iter().find_map(|horizon| horizon.at(x));
                let (ln, doubt) = beyond.unwrap_or_else(|| {
                    let ln = ln_density(self.distribution, x);
                    (ln, self.rounding(ln))
                });
                let (shift, more) = self.correction(near);
                (ln + shift, doubt + more)
            }
            Node::Below {
                edge,
                end,
                ln_delta,
                depth,
                ..
            } => {
                let mut horizons = self.horizons.iter();
                let beyond = horizons.find(|horizon| horizon.is_end && horizon.origin == end);
                beyond.map_or_else(
                    || {
                        let power = self.powers[edge];
                        let (shift, doubt) = power.shifted(-depth);
                        (power.ln + shift, self.rounding(power.ln) + doubt)
                    },
                    |horizon| horizon.continued(ln_delta - depth),
                )
            }
        }
    }

    /// Returns the probability between an edge and a place below the resolution of `x`: the
    /// integral of `exp(ln) (u/delta)^exponent`, the [`Power`] of the edge, over the distances `u`
    /// from 0 to `delta exp(-depth)`.
    pub(super) fn mass_below(&self, edge: usize, ln_delta: f64, depth: f64) -> f64 {
        let power = self.powers[edge];
        let order = power.exponent + 1.0;
        (power.ln + ln_delta - order * depth).exp() / order
    }

    /// Returns the logarithm of the density at the intended point minus that at the rounded `x`,
    /// and the error of this correction. Returns 0 for both if the exponent is too uncertain.
    fn correction(&self, near: Option<(usize, f64)>) -> (f64, f64) {
        let power = near.map(|(edge, ln_ratio)| (self.powers[edge], ln_ratio));
        power
            .filter(|(power, _)| power.doubt < TRUSTED)
            .map_or((0.0, 0.0), |(power, ln_ratio)| power.shifted(ln_ratio))
    }

    /// Returns the disagreement of `pdf` and `ln_pdf`.
    pub(super) fn noise(&self) -> f64 {
        self.noise
    }

    /// Returns a bound on the relative error of a density with this logarithm.
    fn rounding(&self, ln: f64) -> f64 {
        let of_size = if ln.is_finite() {
            LN_ROUNDING * ln.abs()
        } else {
            0.0
        };
        DENSITY_ROUNDING + of_size + self.noise
    }
}

impl Power {
    fn measure(distribution: &impl ContinuousDistribution, edge: &Edge) -> Self {
        let none = Self {
            ln: f64::NEG_INFINITY,
            exponent: 0.0,
            doubt: 0.0,
        };
        let points = [1.0, POWER_STEP, POWER_STEP * POWER_STEP].map(|times| {
            let x = edge.end + edge.side * edge.delta * times;
            // Use the distance of the rounded point.
            ((x - edge.end).abs().ln(), ln_density(distribution, x))
        });
        let [(u0, l0), (u1, l1), (u2, l2)] = points;
        if l0 == f64::NEG_INFINITY {
            return none;
        }
        let [near, far] = [(l1 - l0) / (u1 - u0), (l2 - l1) / (u2 - u1)];
        let rounding = LN_ROUNDING * (l0.abs() + l1.abs()) / (u1 - u0);
        // The next term of the density, u^(exponent + 1), changes a measured slope in proportion to
        // the distance. The slope `far` is measured POWER_STEP times as far out as `near`, so the
        // difference of the slopes determines the contribution of this term to `near`. The
        // extrapolation to u = 0 subtracts this contribution.
        let next_term = (far - near) / (POWER_STEP - 1.0);
        let exponent = near - next_term;
        // A power with an exponent of -1 or below is not integrable. NaN marks that the model does
        // not apply.
        let is_sound = exponent > -1.0 && exponent.is_finite();
        Self {
            ln: l0 + exponent * (edge.delta.ln() - u0),
            exponent: if is_sound { exponent } else { f64::NAN },
            doubt: next_term.abs() + rounding,
        }
    }

    /// Returns the change of the logarithm of the density for a change `ln_ratio` of the logarithm
    /// of the distance, and the error of the result.
    fn shifted(&self, ln_ratio: f64) -> (f64, f64) {
        if self.ln == f64::NEG_INFINITY {
            (0.0, 0.0)
        } else {
            (self.exponent * ln_ratio, self.doubt * ln_ratio.abs())
        }
    }
}

impl LogExtrapolation {
    /// Searches for the last distance at which `ln_pdf` is resolved, and fits the extrapolation to
    /// nearby values. `from` is a distance at which `ln_pdf` is resolved, usually that of the
    /// outermost quantile.
    ///
    /// Returns `None` if `ln_pdf` is finite in the whole range of f64, or was not computed from an
    /// underflowed density.
    fn measure(
        distribution: &impl ContinuousDistribution,
        origin: f64,
        side: f64,
        from: f64,
    ) -> Option<Self> {
        let is_end = distribution.min() == origin || distribution.max() == origin;
        let outwards: f64 = if is_end { 0.5 } else { 2.0 };
        let ln_at = |distance: f64| distribution.ln_pdf(origin + side * distance);
        let is_resolved = |distance: f64| ln_at(distance) > RESOLVED;
        let is_inside = |distance: f64| {
            let x = origin + side * distance;
            distance.is_finite() && x.is_finite() && x != origin
        };
        // Towards an end the distance halves in each step; otherwise it doubles.
        let (mut near, mut far) = (from, from);
        while is_inside(far) && ln_at(far) > f64::NEG_INFINITY {
            near = far;
            far *= outwards;
        }
        let is_underflow = is_inside(far) && ln_at(near) > LEAST;
        let is_continued = is_underflow && is_resolved(from);
        if !is_continued {
            return None;
        }
        // `near` may be in the subnormal range, where the logarithm has too few digits.
        near = if is_resolved(near) { near } else { from };
        // A few bisection steps suffice, because any resolved distance will do.
        const N_HALVINGS: u32 = 12;
        for _ in 0..N_HALVINGS {
            let middle = 0.5 * (near + far);
            if is_resolved(middle) {
                near = middle;
            } else {
                far = middle;
            }
        }
        // Along distances in geometric progression, differences of c + k d^r are in geometric
        // progression too: their ratio is outwards^r. Two ratios yield two values of r.
        let sizes = [0, 1, 2, 3].map(|n_steps| -ln_at(near * outwards.powi(-n_steps)));
        let [first, second, third] = [0, 1, 2].map(|i| sizes[i] - sizes[i + 1]);
        let step = outwards.ln();
        let [exponent, before] = [(first / second).ln() / step, (second / third).ln() / step];
        Some(Self {
            origin,
            side,
            is_end,
            distance: near,
            size: sizes[0],
            // size - sizes[1] is gain (1 - outwards^-exponent).
            gain: first / -(-exponent * step).exp_m1(),
            exponent,
            doubt: (exponent - before).abs(),
        })
    }

    /// Returns the extrapolated logarithm and its error if `x` is beyond the last resolved
    /// distance, otherwise `None`.
    fn at(&self, x: f64) -> Option<(f64, f64)> {
        let distance = self.side * (x - self.origin);
        let is_beyond = if self.is_end {
            0.0 < distance && distance < self.distance
        } else {
            distance > self.distance
        };
        is_beyond.then(|| self.continued(distance.ln()))
    }

    /// Returns the extrapolated logarithm and its error at the distance `exp(ln_distance)`.
    fn continued(&self, ln_distance: f64) -> (f64, f64) {
        let ln_ratio = ln_distance - self.distance.ln();
        // The exponent is NaN if the fitted differences have different signs. The integral is then
        // NaN, which the caller reports as an error.
        let change = self.gain * (self.exponent * ln_ratio).exp_m1();
        let doubt = self.doubt * ln_ratio.abs() * (self.gain.abs() + change.abs());
        let rounding = LN_ROUNDING * (self.size + self.gain.abs() + change.abs());
        (-(self.size + change), doubt + rounding)
    }
}

/// Returns the density at an `x` strictly inside the support; 0 instead of NaN if a tail is 0.
pub(super) fn density(distribution: &impl ContinuousDistribution, x: f64) -> f64 {
    let density = distribution.pdf(x);
    if density.is_finite() {
        return density;
    }
    // A power in `pdf` may overflow although the exponential keeps the density finite.
    let by_logarithm = distribution.ln_pdf(x).exp();
    if by_logarithm.is_finite() {
        by_logarithm
    } else if distribution.cdf(x) == 0.0 || distribution.sf(x) == 0.0 {
        0.0
    } else {
        f64::NAN
    }
}

/// Returns the logarithm of the density: `ln_pdf` if it is finite, otherwise the logarithm of
/// [`density`].
fn ln_density(distribution: &impl ContinuousDistribution, x: f64) -> f64 {
    let ln = distribution.ln_pdf(x);
    if ln.is_finite() {
        ln
    } else {
        density(distribution, x).ln()
    }
}

/// Returns the absolute difference of `ln_pdf` and the logarithm of `pdf`; 0 if `pdf` is outside
/// [`COMPARED`] or `ln_pdf` is not finite.
fn disagreement(distribution: &impl ContinuousDistribution, x: f64) -> f64 {
    let (density, ln) = (distribution.pdf(x), distribution.ln_pdf(x));
    if COMPARED.contains(&density) && ln.is_finite() {
        (density.ln() - ln).abs()
    } else {
        0.0
    }
}
