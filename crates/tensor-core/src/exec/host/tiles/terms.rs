//! The terms of the sums of a tile, and the check that their positions are inside the operands.

use std::ops::Range;

/// The terms of a sum: the distance of each from the start of a row, and from the start of the
/// lanes.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    distances: &'a [[isize; 2]],
    /// The lowest and the highest distance in both operands.
    reach: [[isize; 2]; 2],
}

impl<'a> Terms<'a> {
    /// Creates terms from their distances.
    pub(super) fn new(distances: &'a [[isize; 2]]) -> Self {
        let mut reach = [[0; 2]; 2];
        for (operand, reach) in reach.iter_mut().enumerate() {
            let all = || distances.iter().map(|distance| distance[operand]);
            *reach = [all().min().unwrap_or(0), all().max().unwrap_or(0)];
        }
        Self { distances, reach }
    }

    /// Returns some of the terms.
    pub(super) fn part(self, terms: Range<usize>) -> Self {
        if terms == (0..self.distances.len()) {
            return self;
        }
        Self::new(&self.distances[terms])
    }

    /// Returns the distances of the terms.
    #[inline(always)]
    pub(super) fn distances(self) -> &'a [[isize; 2]] {
        self.distances
    }

    /// Splits the terms at the first term where `n` lanes from a start are not inside an operand of
    /// `len` elements. The second part begins with that term.
    #[cold]
    pub(super) fn split(self, start: isize, n: usize, len: usize) -> [Self; 2] {
        let fit = |[_, lane]: &&[isize; 2]| is_inside(start, [*lane; 2], n, len);
        let n_before = self.distances.iter().take_while(fit).count();
        let (before, after) = self.distances.split_at(n_before);
        [before, after].map(Self::new)
    }

    /// Returns whether the rows from some starts are inside an operand of `len` elements, at all
    /// terms.
    #[inline(always)]
    pub(super) fn rows_fit(self, starts: &[isize], len: usize) -> bool {
        let is_inside = |&start: &isize| is_inside(start, self.reach[0], 1, len);
        self.distances.is_empty() || starts.iter().all(is_inside)
    }

    /// Returns whether `n` lanes from a start are inside an operand of `len` elements, at all
    /// terms.
    #[inline(always)]
    pub(super) fn lanes_fit(self, start: isize, n: usize, len: usize) -> bool {
        self.distances.is_empty() || is_inside(start, self.reach[1], n, len)
    }
}

/// Returns whether `n` elements from a start are inside an operand of `len` elements, at the lowest
/// and at the highest distance.
#[inline(always)]
fn is_inside(start: isize, [low, high]: [isize; 2], n: usize, len: usize) -> bool {
    start.saturating_add(low) >= 0
        && usize::try_from(start.saturating_add(high))
            .is_ok_and(|last| last.saturating_add(n) <= len)
}
