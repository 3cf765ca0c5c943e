//! Two distributions on a common real line, and integrals over the line.
//!
//! Role: connects the pieces of the line ([`Segments`]), the evaluation of both distributions
//! ([`Evaluator`]) and the quadrature. Measures how far the densities and the distribution
//! functions of the caller disagree ([`Disagreement`]), searches for sign changes, and checks the
//! error estimate of a result.

use super::ContinuousDistribution;
use super::line::{Chart, Node, Segment, Segments};
use super::span::Landmarks;
use super::view::{Evaluator, WeightedDensity};
use crate::Error;
use crate::quadrature::{Estimate, Term, integrate_charts};
use crate::root::bracketed;

/// Limit of the relative error of every distance.
const MAX_RELATIVE_ERROR: f64 = 1e-10;
/// Relative tolerance of the quadrature.
const TOLERANCE: f64 = 1e-12;
/// Rounding error of a distance of size 1, from distribution functions and sums.
const ROUNDING: f64 = 8.0 * f64::EPSILON;
/// Limit of the absolute error in units of the distance, for distances so small that the relative
/// limit cannot be met.
const FLOOR: f64 = 1e-13;
/// Number of parts of a piece in the coarsest grid of the search for sign changes.
const COARSEST: usize = 8;
/// Number of parts of a piece in the finest grid.
const FINEST: usize = 512;
/// Maximum number of halvings of a piece on which density and distribution function disagree.
const MOST_HALVINGS: u32 = 60;
/// Tolerance of the difference between the integral of the density over a piece and the probability
/// of the piece by the distribution function. A smaller tolerance would fail for distribution
/// functions with errors of their own.
const UNSEEN: f64 = 1e-8;
/// Absolute error at which the refinement of the integral of a density over a piece stops.
const SEEN: f64 = 1e-15;

/// Two distributions on a common real line.
pub(super) struct Pair<'a, P, Q> {
    operation: &'static str,
    distributions: (&'a P, &'a Q),
    spans: [Landmarks; 2],
    line: Segments,
    views: (Evaluator<'a, P>, Evaluator<'a, Q>),
    /// Width of the smallest range that covers the bulk of both distributions.
    width: f64,
    /// Rounding error of a distance of size 1.
    rounding: f64,
    noise: Disagreement,
}

/// A piece, with the disagreement of densities and distribution functions on that piece.
#[derive(Clone, Copy, Debug)]
struct SegmentCheck {
    piece: Segment,
    /// The values of `x` at the ends of the piece, ascending.
    ends: [f64; 2],
    /// For each distribution, the integral of the density over the piece minus the probability of
    /// the piece by the distribution function.
    excess: [f64; 2],
}

/// The disagreement of densities and distribution functions, of both distributions together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Disagreement {
    /// Disagreement on the probability of the whole line.
    pub(super) of_whole: f64,
    /// Largest disagreement on the value of a distribution function.
    pub(super) of_cdf: f64,
    /// Integral over `x` of the disagreement on the distribution functions.
    pub(super) of_area: f64,
}

impl<'a, P: ContinuousDistribution, Q: ContinuousDistribution> Pair<'a, P, Q> {
    /// Cuts the line of both distributions into pieces and measures the disagreement of their
    /// functions.
    ///
    /// # Errors
    /// [`Error::NotConverged`]: a distribution function returned NaN, or a density and a
    /// distribution function disagree after the maximum number of halvings.
    pub(super) fn new(operation: &'static str, p: &'a P, q: &'a Q) -> Result<Self, Error> {
        let (Some(of_p), Some(of_q)) = (Landmarks::find(p), Landmarks::find(q)) else {
            return Err(not_found(operation));
        };
        let spans = [of_p, of_q];
        let [one, other] = [spans[0].bulk, spans[1].bulk];
        let width = one[1].max(other[1]) - one[0].min(other[0]);
        // If a narrow distribution is far from 0, the rounding error of `x` is a noticeable
        // fraction of the width of the distribution.
        let remote = |span: &Landmarks| span.median.abs() / (span.bulk[1] - span.bulk[0]);
        let remoteness = spans.iter().map(remote).fold(0.0, f64::max);
        let line = Segments::cut(&spans, width);
        let views = (
            Evaluator::new(p, &line.edges, &spans[0].points),
            Evaluator::new(q, &line.edges, &spans[1].points),
        );
        let mut pair = Self {
            operation,
            distributions: (p, q),
            spans,
            line,
            views,
            width,
            rounding: ROUNDING + 0.5 * f64::EPSILON * remoteness,
            noise: Disagreement::default(),
        };
        let mut parts = pair.resolved()?;
        parts.sort_by(|one, other| one.ends[0].total_cmp(&other.ends[0]));
        pair.noise = Disagreement::measure(&parts, &pair.spans);
        // Distribution functions often use the same building blocks as `ln_pdf`, so include the
        // disagreement of `pdf` and `ln_pdf`.
        pair.noise.of_cdf += pair.views.0.noise() + pair.views.1.noise();
        pair.line.pieces = parts.into_iter().map(|part| part.piece).collect();
        Ok(pair)
    }

    /// Adds extrapolations of `ln_pdf` for densities that underflow inside the support.
    pub(super) fn with_horizons(self) -> Self {
        let [of_p, of_q] = &self.spans;
        let (p, q) = self.views;
        let views = (
            p.with_horizons(of_p.median, of_p.outermost),
            q.with_horizons(of_q.median, of_q.outermost),
        );
        Self { views, ..self }
    }

    /// Returns the landmarks of both distributions and the finite ends of the supports, ascending.
    pub(super) fn landmarks(&self) -> &[f64] {
        &self.line.landmarks
    }

    /// Returns the width of the smallest range that covers the bulk of both distributions.
    pub(super) fn width(&self) -> f64 {
        self.width
    }

    /// Returns the rounding error of a distance of size 1.
    pub(super) fn rounding(&self) -> f64 {
        self.rounding
    }

    /// Returns the disagreement of densities and distribution functions.
    pub(super) fn noise(&self) -> Disagreement {
        self.noise
    }

    /// Returns the disagreement of densities and distribution functions between the lower end of a
    /// piece and the point `t` inside the piece.
    pub(super) fn noise_at(&self, chart: Chart, t: f64) -> f64 {
        let (p, q) = self.distributions;
        let holds = |piece: &&Segment| piece.chart == chart && piece.low < t && t < piece.high;
        let parts = self.line.pieces.iter().filter(holds);
        // `Below` has a model of the density only, so there is no distribution function to compare.
        parts
            .filter(|piece| !matches!(piece.chart, Chart::Below { .. }))
            .map(|&piece| {
                let part = Segment { high: t, ..piece };
                excess_mass(p, &self.views.0, &self.line, part).abs()
                    + excess_mass(q, &self.views.1, &self.line, part).abs()
            })
            .sum()
    }

    /// Returns the place at the value `t` of a chart's variable.
    pub(super) fn place(&self, chart: Chart, t: f64) -> Node {
        self.line.place(chart, t)
    }

    /// Returns both densities with respect to the variable of integration.
    pub(super) fn densities(&self, place: &Node) -> [WeightedDensity; 2] {
        [self.views.0.seen(place), self.views.1.seen(place)]
    }

    /// Returns the logarithms of both densities, and bounds on their errors.
    pub(super) fn ln_densities(&self, place: &Node) -> [(f64, f64); 2] {
        [
            self.views.0.ln_density(place),
            self.views.1.ln_density(place),
        ]
    }

    /// Returns `f - g` times the derivative of `x`, which has the sign of `f - g`.
    pub(super) fn density_difference(&self, place: &Node) -> f64 {
        let [f, g] = self.densities(place);
        f.weight - g.weight
    }

    /// Returns `F - G` at a place.
    pub(super) fn cdf_difference(&self, place: &Node) -> f64 {
        match *place {
            Node::At { x, .. } => self.cdf_difference_at(x),
            Node::Below {
                edge,
                end,
                side,
                ln_delta,
                depth,
                ..
            } => {
                // `x` has too few digits here: start at the end and add the model's probability of
                // the range between the end and the place.
                let from_end = self.views.0.mass_below(edge, ln_delta, depth)
                    - self.views.1.mass_below(edge, ln_delta, depth);
                self.cdf_difference_at(end) + side * from_end
            }
        }
    }

    /// Returns `F - G`, computed from the upper tails if they are the smaller ones, to avoid
    /// cancellation.
    pub(super) fn cdf_difference_at(&self, x: f64) -> f64 {
        let (p, q) = self.distributions;
        let (f, g) = (p.cdf(x), q.cdf(x));
        if f + g > 1.0 {
            q.sf(x) - p.sf(x)
        } else {
            f - g
        }
    }

    /// Returns the derivative of `x` with respect to the variable of integration.
    pub(super) fn jacobian(&self, place: &Node) -> f64 {
        match *place {
            Node::At { jacobian, .. } => jacobian,
            Node::Below {
                ln_delta,
                depth,
                jacobian,
                ..
            } => (ln_delta - depth).exp() * jacobian,
        }
    }

    /// Halves pieces until the densities and the distribution functions agree on the probability of
    /// each piece.
    fn resolved(&self) -> Result<Vec<SegmentCheck>, Error> {
        let (p, q) = self.distributions;
        // Quadrature with too few nodes misses a narrow peak, but the distribution function shows
        // its probability: halve the piece until the integral of the density contains the peak.
        let mut finer = Vec::new();
        let mut open: Vec<(Segment, u32)> =
            self.line.pieces.iter().map(|&piece| (piece, 0)).collect();
        while let Some((piece, n_halvings)) = open.pop() {
            let part = SegmentCheck {
                piece,
                ends: self.line.range(piece),
                excess: [
                    excess_mass(p, &self.views.0, &self.line, piece),
                    excess_mass(q, &self.views.1, &self.line, piece),
                ],
            };
            if part.excess.iter().all(|excess| excess.abs() <= UNSEEN) {
                finer.push(part);
                continue;
            }
            let middle = piece.low + 0.5 * (piece.high - piece.low);
            let is_divisible = piece.low < middle && middle < piece.high;
            let is_end = matches!(piece.chart, Chart::Below { .. });
            if n_halvings == MOST_HALVINGS || !is_divisible || is_end {
                return Err(not_found(self.operation));
            }
            let halves = piece.split([middle].into_iter());
            open.extend(halves.map(|half| (half, n_halvings + 1)));
        }
        Ok(finer)
    }

    /// Returns the points at which `difference` changes its sign.
    ///
    /// Compares grids of `COARSEST`, twice `COARSEST`, … up to `FINEST` parts per piece and accepts
    /// the first grid that has as many sign changes as the grid before.
    ///
    /// # Errors
    /// [`Error::NotConverged`]: no two consecutive grids have the same number of sign changes.
    pub(super) fn sign_changes(
        &self,
        difference: impl Fn(&Node) -> f64,
    ) -> Result<Vec<(Chart, f64)>, Error> {
        let mut n_parts = COARSEST;
        let mut before = self.brackets(&difference, n_parts);
        while n_parts < FINEST {
            n_parts *= 2;
            let now = self.brackets(&difference, n_parts);
            if now.len() == before.len() {
                let root = |part: Segment| {
                    let at = |t| difference(&self.place(part.chart, t));
                    (part.chart, bracketed(at, part.low, part.high))
                };
                return Ok(now.into_iter().map(root).collect());
            }
            before = now;
        }
        Err(not_found(self.operation))
    }

    /// Returns the ranges between two grid points with different signs of `difference`, for a grid
    /// of `n_parts` parts per piece.
    fn brackets(&self, difference: impl Fn(&Node) -> f64, n_parts: usize) -> Vec<Segment> {
        let mut changes = Vec::new();
        for &piece in &self.line.pieces {
            let width = (piece.high - piece.low) / n_parts as f64;
            // In this chart the last grid point is the end itself, which has no place.
            let n_points = match piece.chart {
                Chart::Below { .. } => n_parts,
                _ => n_parts + 1,
            };
            let mut last: Option<(f64, f64)> = None;
            for part in 0..n_points {
                let t = if part == n_parts {
                    piece.high
                } else {
                    piece.low + width * part as f64
                };
                let value = difference(&self.place(piece.chart, t));
                // Skip zeros, because a difference that is 0 on a whole range does not change its
                // sign there. A sign change across the range is still found.
                if value == 0.0 || value.is_nan() {
                    continue;
                }
                if let Some((low, before)) = last
                    && (before > 0.0) != (value > 0.0)
                {
                    let high = t;
                    changes.push(Segment { low, high, ..piece });
                }
                last = Some((t, value));
            }
        }
        changes
    }

    /// Computes the integral of `f` over the line, cut at the landmarks and at `changes`, the sign
    /// changes of the difference in the integrand.
    pub(super) fn integral(&self, changes: &[(Chart, f64)], f: impl Fn(&Node) -> Term) -> Estimate {
        let parts = self.line.pieces.iter().flat_map(|piece| {
            let inside = |&&(chart, t): &&(Chart, f64)| {
                chart == piece.chart && piece.low < t && t < piece.high
            };
            let mut points: Vec<f64> = changes.iter().filter(inside).map(|&(_, t)| t).collect();
            points.sort_by(f64::total_cmp);
            piece.split(points.into_iter())
        });
        let ranges = parts.chain(self.line.tails.iter().copied());
        integrate_charts(
            |chart, t| f(&self.place(chart, t)),
            ranges.map(|piece| (piece.chart, piece.low, piece.high)),
            TOLERANCE,
        )
    }

    /// Returns the distance if its estimated error is within the limits, and an error otherwise.
    ///
    /// `noise`, the error of the distributions' own functions, is added to the estimated error
    /// after the check, because no refinement can reduce it. `unit` is the scale of absolute
    /// errors, in the unit of the distance.
    pub(super) fn promised(
        &self,
        found: Estimate,
        unit: f64,
        noise: f64,
    ) -> Result<Estimate, Error> {
        let Estimate { value, error } = found;
        // For NaN both comparisons are false.
        let is_kept = error <= MAX_RELATIVE_ERROR * value || error <= FLOOR * unit;
        if !value.is_finite() {
            Err(not_found(self.operation))
        } else if is_kept && noise.is_finite() {
            Ok(Estimate {
                value,
                error: error + noise,
            })
        } else {
            Err(Error::NotConverged {
                operation: self.operation,
                value,
                error,
            })
        }
    }
}

/// Returns whether `p` has probability or a positive density outside the support of `q`.
pub(super) fn exceeds(p: &impl ContinuousDistribution, q: &impl ContinuousDistribution) -> bool {
    // Check the density as well, because the probability may underflow.
    let below = q.min().next_down();
    let above = q.max().next_up();
    p.min() < q.min() && (p.cdf(q.min()) > 0.0 || p.ln_pdf(below).is_finite())
        || p.max() > q.max() && (p.sf(q.max()) > 0.0 || p.ln_pdf(above).is_finite())
}

/// Returns the probability of a piece according to the density, minus its probability according to
/// the distribution function.
fn excess_mass<L: ContinuousDistribution>(
    distribution: &L,
    view: &Evaluator<'_, L>,
    line: &Segments,
    piece: Segment,
) -> f64 {
    let seen = if let Chart::Below { edge } = piece.chart {
        view.mass_below(edge, line.edges[edge].delta.ln(), 0.0)
    } else {
        let weight = |chart, t| Term {
            value: view.seen(&line.place(chart, t)).weight,
            // A constant rounding error per node, which ends the refinement at `SEEN`.
            rounding: SEEN / (piece.high - piece.low),
        };
        let range = [(piece.chart, piece.low, piece.high)];
        integrate_charts(weight, range.into_iter(), TOLERANCE).value
    };
    let [low, high] = line.range(piece);
    let (below, above) = (distribution.cdf(low), distribution.cdf(high));
    // Use the tails that are smaller, because they have more digits.
    let held = if below > 0.5 {
        distribution.sf(low) - distribution.sf(high)
    } else {
        above - below
    };
    seen - held
}

impl Disagreement {
    /// Sums up the disagreement of the parts, which are in ascending order.
    fn measure(parts: &[SegmentCheck], spans: &[Landmarks; 2]) -> Self {
        let mut noise = Self::default();
        for (which, span) in spans.iter().enumerate() {
            let whole: f64 = parts.iter().map(|part| part.excess[which]).sum();
            let mut below = 0.0;
            for part in parts {
                below += part.excess[which];
                let [low, high] = part.ends;
                // Errors accumulate from the end whose tail the caller uses: the lower tail up to
                // the median, and the upper tail above it.
                let excess = if high <= span.median {
                    below
                } else {
                    whole - below
                };
                noise.of_cdf = noise.of_cdf.max(excess.abs());
                noise.of_area += excess.abs() * (high - low);
            }
            noise.of_whole += whole.abs();
        }
        // A density and both tails may be wrong by the same factor. Only the disagreement on the
        // whole line reveals this, so add it. `of_cdf` is the maximum over both distributions; the
        // factor 2 limits the sum of both errors.
        noise.of_cdf = 2.0 * noise.of_cdf + noise.of_whole;
        noise
    }
}

/// Returns [`Error::NotConverged`] with the value NaN, for a search that found no result.
fn not_found(operation: &'static str) -> Error {
    Error::NotConverged {
        operation,
        value: f64::NAN,
        error: f64::INFINITY,
    }
}
