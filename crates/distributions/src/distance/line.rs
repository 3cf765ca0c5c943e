//! The real line of two distributions, cut into pieces on which an integrand is smooth.
//!
//! Role: chooses the variable of integration on each piece ([`Chart`]) and converts a quadrature
//! node to `x` ([`Node`]). Does not evaluate densities.
//! Method: the line is cut at landmarks (quantiles) of both distributions and at the finite ends of
//! their supports. Next to an end, and on every piece that is far longer than its distance from an
//! end, the variable is the logarithm of the distance `u` from the end. A density like `u^a` then
//! becomes an exponential, for every `a > -1`. An `x` next to an end can resolve distances of about
//! an epsilon of the end. The logarithmic chart therefore stops at the distance [`Edge::delta`];
//! below it, a place has a distance from the end but no `x` of its own.
//!
//! ```text
//! support from `end` to infinity, with landmarks l1 < l2 < … < ln
//!
//!     end      end + delta       l1        l2       …       ln              infinity
//!      |  Below     |    Near     |  Near   | Direct  …     |      Far         |
//! ```

use super::span::Landmarks;

/// The smallest distance from an end at which the f64 numbers `x` resolve the distance, as a
/// fraction of the larger of `|end|` and the distance from the end to the nearest landmark. Closer
/// points are represented by their distance from the end alone.
const RESOLUTION: f64 = 1.0 / (1_u64 << 46) as f64;
/// The distance from an end below which landmarks are removed, in units of the least distance. The
/// fit of the density next to the end uses three points in this range.
const FITTED: f64 = 8192.0;
/// Smallest distance in use; smaller distances are close to the subnormal range and have too few
/// digits.
const SMALLEST: f64 = 1e-300;
/// The factor by which the distance from an end must change over a piece so that the variable of
/// the piece is the logarithm of this distance.
const RATIO: f64 = 2.0;

/// A finite end of a support together with one of its sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    /// The value of `x` at the end.
    pub(super) end: f64,
    /// 1 for the side above the end, -1 for the side below.
    pub(super) side: f64,
    /// The least distance from the end at which `x` represents the distance.
    pub(super) delta: f64,
}

/// The relation between `x` and the variable of integration `t` of a piece.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Chart {
    /// `x = t`.
    Direct,
    /// `x = from + scale t/(1 - t)`, up to an infinite end at `t = 1`.
    Far { from: f64, scale: f64 },
    /// `x = end + side exp(t)`.
    Near { edge: usize },
    /// `|x - end| = delta exp(-t/(1 - t))`, down to the end at `t = 1`.
    Below { edge: usize },
}

/// A piece of the line: a range of the variable of a chart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) chart: Chart,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// A place: a point of the line that is a node of a quadrature.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    /// A point that `x` represents.
    At {
        /// The point, rounded.
        x: f64,
        /// The derivative of `x` with respect to the variable.
        jacobian: f64,
        /// Next to an edge: the index of the edge, and the logarithm of the ratio of the intended
        /// distance from the edge to the distance of the rounded `x`.
        near: Option<(usize, f64)>,
    },
    /// A point too close to an end to be represented by an `x` of its own.
    Below {
        /// The index of the edge.
        edge: usize,
        /// The value of `x` at the end.
        end: f64,
        /// 1 above the end, -1 below the end.
        side: f64,
        /// The logarithm of the edge's `delta`.
        ln_delta: f64,
        /// The distance from the end is `delta exp(-depth)`.
        depth: f64,
        /// The derivative of `depth` with respect to the variable.
        jacobian: f64,
    },
}

/// The real line of two distributions, cut into pieces.
#[derive(Debug)]
pub(super) struct Segments {
    /// The edges at which a logarithmic variable is used, in no particular order.
    pub(super) edges: Vec<Edge>,
    /// Finite points in ascending order, including the finite ends of the supports.
    pub(super) landmarks: Vec<f64>,
    /// The pieces between landmarks.
    pub(super) pieces: Vec<Segment>,
    /// The pieces beyond the landmarks, up to infinite ends.
    pub(super) tails: Vec<Segment>,
}

impl Segments {
    /// Cuts the line of two distributions; `width` is the width of the range that covers the bulk
    /// of both.
    pub(super) fn cut(spans: &[Landmarks; 2], width: f64) -> Self {
        let mut ends: Vec<f64> = spans.iter().flat_map(|span| span.ends).collect();
        ends.retain(|end| end.is_finite());
        sort(&mut ends);
        let mut landmarks: Vec<f64> = spans
            .iter()
            .flat_map(|span| &span.points)
            .copied()
            .collect();
        // A landmark between neighbouring ends, so that no piece touches two ends.
        landmarks.extend(
            ends.windows(2)
                .map(|pair| pair[0] + 0.5 * (pair[1] - pair[0])),
        );
        // An end replaces all landmarks that are in the range of the fit of the density next to the
        // end.
        landmarks.retain(|x| {
            let least = |end: &f64| FITTED * (RESOLUTION * end.abs()).max(SMALLEST);
            ends.iter().all(|end| (x - end).abs() > least(end))
        });
        landmarks.extend(&ends);
        sort(&mut landmarks);
        let mut line = Self {
            edges: Vec::new(),
            pieces: Vec::new(),
            tails: tails(spans, &landmarks, width),
            landmarks,
        };
        for at in 1..line.landmarks.len() {
            line.add(&ends, line.landmarks[at - 1], line.landmarks[at]);
        }
        line
    }

    /// Adds the pieces between two landmarks.
    fn add(&mut self, ends: &[f64], low: f64, high: f64) {
        let below = ends.iter().rev().find(|end| **end <= low);
        let above = ends.iter().find(|end| **end >= high);
        // The factor by which the distance from an end changes over the piece; infinite if the
        // piece begins at the end.
        let by_below = below.map_or(0.0, |end| (high - end) / (low - end));
        let by_above = above.map_or(0.0, |end| (end - low) / (end - high));
        let (end, side, ratio) = if by_below >= by_above {
            (below, 1.0, by_below)
        } else {
            (above, -1.0, by_above)
        };
        let Some(&end) = end.filter(|_| ratio > RATIO) else {
            self.pieces.push(Segment {
                chart: Chart::Direct,
                low,
                high,
            });
            return;
        };
        let mut distances = [(low - end).abs(), (high - end).abs()];
        distances.sort_by(f64::total_cmp);
        let is_known = |edge: &Edge| edge.end == end && edge.side == side;
        let edge = self.edges.iter().position(is_known).unwrap_or_else(|| {
            // The distance of the nearest landmark determines `delta`. It is searched for, because
            // the piece at hand may not be the nearest: pieces are added from left to right, so the
            // nearest piece comes first above an end, but last below an end.
            let nearest = self.nearest(end, side);
            self.edges.push(Edge {
                end,
                side,
                delta: (RESOLUTION * end.abs().max(nearest)).max(SMALLEST),
            });
            self.edges.len() - 1
        });
        // A piece that touches the end is split at `delta` into a chart without an `x` and a chart
        // of the logarithm.
        if distances[0] == 0.0 {
            distances[0] = self.edges[edge].delta;
            self.pieces.push(Segment {
                chart: Chart::Below { edge },
                low: 0.0,
                high: 1.0,
            });
        }
        let [low, high] = distances.map(f64::ln);
        self.pieces.push(Segment {
            chart: Chart::Near { edge },
            low,
            high,
        });
    }

    /// Returns the distance from an end to the nearest landmark on one side of the end.
    fn nearest(&self, end: f64, side: f64) -> f64 {
        let distances = self.landmarks.iter().map(|x| side * (x - end));
        distances.filter(|d| *d > 0.0).fold(f64::MAX, f64::min)
    }

    /// Returns the values of `x` at the ends of a piece, ascending.
    pub(super) fn range(&self, piece: Segment) -> [f64; 2] {
        // The chart `Below` has no place at `t = 1`, so use the edge directly.
        let mut ends = if let Chart::Below { edge } = piece.chart {
            let Edge { end, side, delta } = self.edges[edge];
            [end, end + side * delta]
        } else {
            [piece.low, piece.high].map(|t| match self.place(piece.chart, t) {
                Node::At { x, .. } => x,
                Node::Below { end, .. } => end,
            })
        };
        ends.sort_by(f64::total_cmp);
        ends
    }

    /// Returns the place at the value `t` of a chart's variable.
    pub(super) fn place(&self, chart: Chart, t: f64) -> Node {
        match chart {
            Chart::Direct => Node::At {
                x: t,
                jacobian: 1.0,
                near: None,
            },
            Chart::Far { from, scale } => {
                let rest = 1.0 - t;
                Node::At {
                    x: from + scale * (t / rest),
                    jacobian: scale.abs() / (rest * rest),
                    near: None,
                }
            }
            Chart::Near { edge } => {
                let Edge { end, side, .. } = self.edges[edge];
                let distance = t.exp();
                let x = end + side * distance;
                // `x` is rounded, so the distance of `x` differs from the intended distance. The
                // view corrects the density by this ratio.
                Node::At {
                    x,
                    jacobian: distance,
                    near: Some((edge, (distance / (x - end).abs()).ln())),
                }
            }
            Chart::Below { edge } => {
                let Edge { end, side, delta } = self.edges[edge];
                let rest = 1.0 - t;
                Node::Below {
                    edge,
                    end,
                    side,
                    ln_delta: delta.ln(),
                    depth: t / rest,
                    jacobian: 1.0 / (rest * rest),
                }
            }
        }
    }
}

impl Segment {
    /// Returns the parts of the piece between ascending points inside the piece.
    pub(super) fn split(self, points: impl Iterator<Item = f64>) -> impl Iterator<Item = Self> {
        let mut low = self.low;
        points.chain([self.high]).map(move |high| {
            let part = Self { low, high, ..self };
            low = high;
            part
        })
    }
}

/// Returns the pieces from the outermost landmarks to the infinite ends of the supports.
fn tails(spans: &[Landmarks; 2], landmarks: &[f64], width: f64) -> Vec<Segment> {
    let (Some(&first), Some(&last)) = (landmarks.first(), landmarks.last()) else {
        return Vec::new();
    };
    let ends = [(0, first, -1.0), (1, last, 1.0)].into_iter();
    let open = ends.filter(|&(end, ..)| spans.iter().any(|span| span.ends[end].is_infinite()));
    // The scale is at least `|from|`, because the width of the bulk is too small for a heavy tail.
    let tail = |(_, from, side): (usize, f64, f64)| Segment {
        chart: Chart::Far {
            from,
            scale: side * width.max(from.abs()),
        },
        low: 0.0,
        high: 1.0,
    };
    open.map(tail)
        .flat_map(|piece| piece.split([0.5].into_iter()))
        .collect()
}

/// Sorts points in ascending order and removes duplicates.
fn sort(points: &mut Vec<f64>) {
    points.sort_by(f64::total_cmp);
    points.dedup();
}
