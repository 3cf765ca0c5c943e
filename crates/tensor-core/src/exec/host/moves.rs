//! Nests that only move elements: copies, transpositions, padding, joins and gathers.
//!
//! Role: runs each nest whose elements are elements of inputs or constants, and copies factors of
//! matrix products. A move needs no lanes, so no instructions are interpreted.
//! Method: `boxes` cuts the output where the conditions of selections change, so that each box has
//! one source: an input, or a constant. `walk` runs the loops over a box. A guard bounds the
//! innermost loop that it names, so no guard is evaluated inside a loop. `line` and `crate::plane`
//! are the innermost loops: along one axis, or over the blocks of a transposition.
//!
//! ```text
//! output of a join, two boxes        output of padding, one box, bounded loops
//! +-----------+--------+             +-------------------+
//! |           |        |             | 0    0    0    0  |   the loop over rows starts at 1
//! |   input 0 | input 1|             | 0  +---------+ 0  |
//! |           |        |             | 0  | input 0 | 0  |   the loop over columns runs 1..3
//! +-----------+--------+             +----+---------+----+
//! ```
//! Parallelism: the output is divided into ranges, one task each.

use std::ops::Range;

use crate::dtype::{Element, HostData};
use crate::error::Result;
use crate::ir::LoopNest;
use crate::parallel;
use boxes::{Region, Source};
use walk::Walk;

mod boxes;
mod line;
#[cfg(test)]
mod tests;
mod walk;

/// The approximate number of elements that one task moves: some tens of microseconds.
const TASK_ELEMENTS: usize = 1 << 16;

/// A nest that only moves elements.
#[derive(Debug)]
pub(super) struct Moves {
    domain: Vec<usize>,
    regions: Vec<Region>,
    /// The axis along which the output is divided into tasks, and the number of its indices for one
    /// task. Each task has one index of the axes before.
    cut: (usize, usize),
}

impl Moves {
    /// Returns the moves of a nest, or `None` if the nest computes something.
    pub(super) fn from_nest(nest: &LoopNest) -> Option<Self> {
        Some(Self {
            regions: boxes::regions(nest)?,
            domain: nest.domain.clone(),
            cut: cut(&nest.domain),
        })
    }

    /// Moves all elements.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange) from a gather.
    pub(super) fn fill<T: Element>(&self, inputs: &[&HostData], out: &mut [T]) -> Result<()> {
        let whole: Vec<Range<usize>> = self.domain.iter().map(|&size| 0..size).collect();
        let (axis, len) = self.cut;
        let slab = out.len() / self.domain[..axis].iter().product::<usize>().max(1);
        let piece = self.domain.get(axis).map_or(slab, |size| slab / size * len);
        if piece >= out.len() {
            return self.fill_part(&whole, inputs, out);
        }
        let pieces = out.chunks_mut(slab).enumerate().flat_map(|(outer, out)| {
            let pieces = out.chunks_mut(piece).enumerate();
            pieces.map(move |(number, out)| (outer, number, out))
        });
        parallel::for_each(
            pieces,
            || (),
            |(), (mut outer, number, out)| {
                let mut part = whole.clone();
                for axis in (0..axis).rev() {
                    let index = outer % self.domain[axis];
                    outer /= self.domain[axis];
                    part[axis] = index..index + 1;
                }
                part[axis] = number * len..((number + 1) * len).min(self.domain[axis]);
                self.fill_part(&part, inputs, out)
            },
        )
    }

    /// Moves the elements of a part of the output, which is contiguous in memory.
    fn fill_part<T: Element>(
        &self,
        part: &[Range<usize>],
        inputs: &[&HostData],
        out: &mut [T],
    ) -> Result<()> {
        self.regions.iter().try_for_each(|region| {
            let meet =
                |(a, b): (&Range<usize>, &Range<usize>)| a.start.max(b.start)..a.end.min(b.end);
            let block: Vec<Range<usize>> = region.block.iter().zip(part).map(meet).collect();
            if block.iter().any(Range::is_empty) {
                return Ok(());
            }
            match &region.source {
                Source::Fill(scalar) => {
                    let element = T::from_scalar(*scalar).unwrap_or_default();
                    Walk::constant(&self.domain, &block, part).fill(element, out);
                    Ok(())
                }
                Source::Load(load) => {
                    Walk::new(load, &self.domain, &block, part, inputs).run(inputs, out)
                }
            }
        })
    }
}

/// Returns the axis along which an array is divided into tasks, and the number of its indices for
/// one task.
fn cut(domain: &[usize]) -> (usize, usize) {
    // The number of elements for one index of each axis, from the last axis on.
    let mut below = 1;
    for (axis, &size) in domain.iter().enumerate().rev() {
        if below * size > TASK_ELEMENTS || axis == 0 {
            return (axis, (TASK_ELEMENTS / below).clamp(1, size.max(1)));
        }
        below *= size;
    }
    (0, 1)
}
