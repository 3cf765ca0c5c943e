//! The loops over a box.
//!
//! Method: axes that every map walks like one axis are one loop. When a loop advances, the position
//! of each map changes by one stride. A guard bounds the innermost loop that it names: the indices
//! inside the guard are computed once for each index of the loops around, and the elements at the
//! other indices are zeros. An index that is gathered is read as soon as the loops that it depends
//! on are fixed, so that whole runs follow one index.
//! Order: the loops run in the order of the output. For a transposition, the axis that is
//! contiguous in the source comes next to last and forms a plane with the last axis.

use std::ops::Range;

use bytemuck::cast_slice;

use super::boxes::{Gathered, Load};
use super::line;
use crate::dtype::{Element, HostData, Scalar};
use crate::error::{Error, Result};
use crate::exec::reference::gathered_place;
use crate::ir::{IndexMap, held};
use crate::level::Level;
use crate::op::MAX_POSITIONS;
use crate::plane::Plane;

/// The map of the source among the maps of a walk.
const SOURCE: usize = 0;
/// The map of the gathered indices, if indices are gathered.
const INDEX: usize = 1;
/// The smallest sides of a plane.
const LEAST_SIDE: usize = 4;
/// The largest stride that a loop along one axis handles better than a plane: it still uses several
/// elements of each cache line.
const SHORT_STRIDE: usize = 8;

/// The loops over a box, and the current positions.
pub(super) struct Walk<'a> {
    loops: Vec<Loop>,
    /// The position of each map at the current point: the source, the gathered indices if there are
    /// any, the guards.
    positions: Vec<isize>,
    /// The element of the output at which the box begins.
    start: usize,
    guards: Vec<Bound>,
    gather: Option<Reader<'a>>,
    input: usize,
    /// Whether the last two loops form a plane.
    has_plane: bool,
    /// The first index that is out of range.
    fault: Option<Error>,
}

#[derive(Debug)]
struct Loop {
    len: usize,
    /// The distance in the output between neighbouring elements.
    out: usize,
    /// The stride of each map.
    strides: Vec<isize>,
}

/// A guard: the innermost loop that it names, and its extent.
struct Bound {
    innermost: usize,
    extent: usize,
}

/// The indices of a gather.
struct Reader<'a> {
    indices: Indices<'a>,
    stride: isize,
    extent: usize,
    /// The number of the outer loops that the index depends on. It is read inside of them.
    n_outer: usize,
    /// The last index that was read.
    current: Scalar,
}

#[derive(Clone, Copy)]
enum Indices<'a> {
    I32(&'a [i32]),
    U32(&'a [u32]),
}

impl<'a> Walk<'a> {
    /// Creates the loops over a box of the output `domain`. `part` is the part of the output that
    /// is written, in the same form; it is contiguous and contains the box.
    pub(super) fn new(
        load: &Load,
        domain: &[usize],
        block: &[Range<usize>],
        part: &[Range<usize>],
        inputs: &[&'a HostData],
    ) -> Self {
        let index_map = load.gathered.as_ref().map(|gathered| &gathered.map);
        let guards = load.guards.iter().map(|guard| &guard.map);
        let maps: Vec<&IndexMap> = [&load.map]
            .into_iter()
            .chain(index_map)
            .chain(guards)
            .collect();
        let mut walk = Self::over(&maps, domain, block, part);
        walk.input = load.input;
        walk.has_plane = walk.form_plane(load.gathered.is_some());
        let innermost = |map: usize| {
            let names = |one: &Loop| one.strides[map] != 0;
            walk.loops.iter().rposition(names)
        };
        let first_guard = maps.len() - load.guards.len();
        let guards = load.guards.iter().enumerate().map(|(number, guard)| Bound {
            innermost: innermost(first_guard + number).unwrap_or(0),
            extent: guard.extent,
        });
        let n_outer = || innermost(INDEX).map_or(0, |last| last + 1);
        let gather = load.gathered.as_ref();
        let gather = gather.map(|gathered| Reader::new(gathered, n_outer(), inputs));
        (walk.guards, walk.gather) = (guards.collect(), gather);
        walk
    }

    /// Creates the loops over a box whose elements are all equal.
    pub(super) fn constant(
        domain: &[usize],
        block: &[Range<usize>],
        part: &[Range<usize>],
    ) -> Self {
        Self::over(&[], domain, block, part)
    }

    fn over(
        maps: &[&IndexMap],
        domain: &[usize],
        block: &[Range<usize>],
        part: &[Range<usize>],
    ) -> Self {
        let layout = IndexMap::in_order(domain);
        let first: Vec<usize> = block.iter().map(|range| range.start).collect();
        let (mut loops, mut start) = (Vec::<Loop>::with_capacity(domain.len()), 0);
        for (axis, range) in block.iter().enumerate() {
            let out = layout.stride(axis).unsigned_abs();
            start += (range.start - part[axis].start) * out;
            let next = Loop {
                len: range.len(),
                out,
                strides: maps.iter().map(|map| map.stride(axis)).collect(),
            };
            match loops.last_mut() {
                _ if next.len == 1 => {}
                Some(last) if next.continues(last) => {
                    let len = last.len * next.len;
                    *last = Loop { len, ..next };
                }
                _ => loops.push(next),
            }
        }
        if loops.is_empty() {
            loops.push(Loop {
                len: 1,
                out: 1,
                strides: vec![0; maps.len()],
            });
        }
        Self {
            loops,
            positions: maps.iter().map(|map| map.at(&first)).collect(),
            start,
            guards: Vec::new(),
            gather: None,
            input: 0,
            has_plane: false,
            fault: None,
        }
    }

    /// Moves the axis that is contiguous in the source next to the last one, if both should form a
    /// plane. Returns whether they do.
    fn form_plane(&mut self, is_gathered: bool) -> bool {
        let Some((last, others)) = self.loops.split_last() else {
            return false;
        };
        // The maps of a guard or of indices that name both loops vary within the plane.
        let is_apart = |row: &Loop| {
            let both = row.strides.iter().zip(&last.strides).skip(1);
            both.enumerate().all(|(number, (row, last))| {
                let is_index = is_gathered && number + 1 == INDEX;
                if is_index {
                    *row == 0 && *last == 0
                } else {
                    *row == 0 || *last == 0
                }
            })
        };
        let is_row =
            |row: &Loop| row.strides[SOURCE] == 1 && row.len >= LEAST_SIDE && is_apart(row);
        let is_spread = last.strides[SOURCE].unsigned_abs() > SHORT_STRIDE;
        if !is_spread || last.out != 1 || last.len < LEAST_SIDE {
            return false;
        }
        let Some(row) = others.iter().rposition(is_row) else {
            return false;
        };
        let row = self.loops.remove(row);
        self.loops.insert(self.loops.len() - 1, row);
        true
    }

    /// Sets all elements of the box to one element.
    pub(super) fn fill<T: Element>(&self, element: T, out: &mut [T]) {
        fill(
            &self.loops,
            0..self.loops[0].len,
            element,
            &mut out[self.start..],
        );
    }

    /// Copies the elements of the box.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] from a gather.
    pub(super) fn run<T: Element>(mut self, inputs: &[&HostData], out: &mut [T]) -> Result<()> {
        let data = T::slice(inputs[self.input]).unwrap_or_default();
        let start = self.start;
        self.run_loop(0, data, &mut out[start..]);
        self.fault.map_or(Ok(()), Err)
    }

    /// Runs a loop and the loops inside of it. The output begins at the first element of the loop.
    fn run_loop<T: Element>(&mut self, number: usize, data: &[T], out: &mut [T]) {
        if let Some(gather) = &mut self.gather
            && gather.n_outer == number
        {
            gather.current = gather.indices.at(self.positions[INDEX]);
        }
        let n_loops = self.loops.len();
        if self.has_plane && number + 2 == n_loops {
            return self.run_plane(data, out);
        }
        if number + 2 == n_loops && self.gather_rows(data, out) {
            return;
        }
        let held = self.held_in(number);
        let (len, step) = (self.loops[number].len, self.loops[number].out);
        let zero = T::default();
        fill(&self.loops[number..], 0..held.start, zero, out);
        fill(&self.loops[number..], held.end..len, zero, out);
        if held.is_empty() {
            return;
        }
        if number + 1 == n_loops {
            return self.run_line(held, data, out);
        }
        self.advance(number, held.start.cast_signed());
        for index in held.clone() {
            self.run_loop(number + 1, data, &mut out[index * step..]);
            self.advance(number, 1);
        }
        self.advance(number, -held.end.cast_signed());
    }

    /// Moves all positions by some steps of a loop.
    fn advance(&mut self, number: usize, steps: isize) {
        let strides = &self.loops[number].strides;
        for (position, stride) in self.positions.iter_mut().zip(strides) {
            *position = position.wrapping_add(stride.wrapping_mul(steps));
        }
    }

    /// Returns the indices of a loop for which the guards hold whose innermost loop it is.
    fn held_in(&self, number: usize) -> Range<usize> {
        let one = &self.loops[number];
        let mut range = 0..one.len;
        let first_guard = self.positions.len() - self.guards.len();
        for (guard, bound) in self.guards.iter().enumerate() {
            if bound.innermost == number {
                let map = first_guard + guard;
                let held = held(self.positions[map], one.strides[map], bound.extent, one.len);
                range = range.start.max(held.start)..range.end.min(held.end);
            }
        }
        range.start.min(range.end)..range.end
    }

    /// Returns the position in the source, with the gathered index; `None` and a fault if the index
    /// is out of range.
    fn source(&mut self) -> Option<isize> {
        let position = self.positions[SOURCE];
        let Some(gather) = &self.gather else {
            return Some(position);
        };
        match gather.shift(gather.current) {
            Ok(shift) => Some(position.wrapping_add(shift)),
            Err(fault) => {
                self.fault.get_or_insert(fault);
                None
            }
        }
    }

    /// Copies the elements `range` of the last loop.
    fn run_line<T: Element>(&mut self, range: Range<usize>, data: &[T], out: &mut [T]) {
        let last = self.loops.len() - 1;
        if self
            .gather
            .as_ref()
            .is_some_and(|gather| gather.n_outer > last)
        {
            return self.gather_line(range, data, out);
        }
        let Some(position) = self.source() else {
            return;
        };
        let (stride, step) = (self.loops[last].strides[SOURCE], self.loops[last].out);
        let first = position.wrapping_add(stride.wrapping_mul(range.start.cast_signed()));
        match (step, stride) {
            (1, 0 | 1) => line::copy(data, first, stride, &mut out[range]),
            (1, _) => Level::best().dispatch(
                #[inline(always)]
                || line::copy(data, first, stride, &mut out[range.clone()]),
            ),
            _ => {
                for index in range {
                    let from = position.wrapping_add(stride.wrapping_mul(index.cast_signed()));
                    line::copy(data, from, 0, &mut out[index * step..][..1]);
                }
            }
        }
    }

    /// Copies the plane of the last two loops, and sets the elements outside of guards to zero.
    fn run_plane<T: Element>(&mut self, data: &[T], out: &mut [T]) {
        let last = self.loops.len() - 1;
        let (rows, cols) = (self.held_in(last - 1), self.held_in(last));
        let [row, col] = [last - 1, last].map(|number| &self.loops[number]);
        let zero = T::default();
        for outside in [0..rows.start, rows.end..row.len] {
            fill(&self.loops[last - 1..], outside, zero, out);
        }
        for outside in [0..cols.start, cols.end..col.len] {
            for index in rows.clone() {
                out[index * row.out..][outside.clone()].fill(zero);
            }
        }
        let plane = Plane {
            len: [rows.len(), cols.len()],
            source_stride: col.strides[SOURCE],
            out_stride: row.out,
        };
        let from = rows.start * row.out + cols.start;
        if plane.len.contains(&0) {
            return;
        }
        let Some(position) = self.source() else {
            return;
        };
        let first = position
            .wrapping_add(rows.start.cast_signed())
            .wrapping_add(plane.source_stride.wrapping_mul(cols.start.cast_signed()));
        Level::best().dispatch(
            #[inline(always)]
            || plane.copy(data, first, &mut out[from..]),
        );
    }

    /// Copies one run of the last loop for each index of the loop before. Returns `false`, and
    /// copies nothing, if the runs are not of this simple form or if an index is out of range.
    fn gather_rows<T: Element>(&self, data: &[T], out: &mut [T]) -> bool {
        let [.., outer, row] = &self.loops[..] else {
            return false;
        };
        let Some(gather) = &self.gather else {
            return false;
        };
        let is_plain = self.guards.is_empty()
            && gather.n_outer + 1 == self.loops.len()
            && outer.strides[INDEX] == 1
            && (row.out, row.strides[SOURCE]) == (1, 1);
        if !is_plain {
            return false;
        }
        let Some(places) = gather.places(self.positions[INDEX], outer.len) else {
            return false;
        };
        let mut start = self.positions[SOURCE];
        for (out, &place) in out.chunks_mut(outer.out).zip(places) {
            let from = start.wrapping_add(gather.stride.wrapping_mul(place as isize));
            let from = usize::try_from(from).ok().and_then(|from| data.get(from..));
            if let Some(from) = from.and_then(|from| from.get(..row.len)) {
                out[..row.len].copy_from_slice(from);
            }
            start = start.wrapping_add(outer.strides[SOURCE]);
        }
        true
    }

    /// Copies the elements `range` of the last loop, each at an index of its own.
    fn gather_line<T: Element>(&mut self, range: Range<usize>, data: &[T], out: &mut [T]) {
        let Some(gather) = &self.gather else {
            return;
        };
        let one = &self.loops[self.loops.len() - 1];
        let at = |map: usize, index: usize| {
            let steps = one.strides[map].wrapping_mul(index.cast_signed());
            self.positions[map].wrapping_add(steps)
        };
        // The usual case: consecutive indices, all in range, select elements of one array.
        let is_plain = (
            one.out,
            one.strides[SOURCE],
            one.strides[INDEX],
            gather.stride,
        ) == (1, 0, 1, 1);
        if is_plain
            && let Some(places) = gather.places(at(INDEX, range.start), range.len())
            && let Some(data) = usize::try_from(at(SOURCE, 0))
                .ok()
                .and_then(|at| data.get(at..))
        {
            for (out, &place) in out[range].iter_mut().zip(places) {
                if let Some(&element) = data.get(place as usize) {
                    *out = element;
                }
            }
            return;
        }
        for index in range {
            match gather.shift(gather.indices.at(at(INDEX, index))) {
                Ok(shift) => {
                    let from = at(SOURCE, index).wrapping_add(shift);
                    line::copy(data, from, 0, &mut out[index * one.out..][..1]);
                }
                Err(fault) => {
                    self.fault.get_or_insert(fault);
                }
            }
        }
    }
}

impl Loop {
    /// Returns whether the outer loop `last` and this loop are one loop for the output and for
    /// every map.
    fn continues(&self, last: &Self) -> bool {
        let is_step = |last: isize, own: isize| last == own.wrapping_mul(self.len.cast_signed());
        let mut maps = last.strides.iter().zip(&self.strides);
        last.out == self.out * self.len && maps.all(|(&last, &own)| is_step(last, own))
    }
}

impl<'a> Reader<'a> {
    fn new(gathered: &Gathered, n_outer: usize, inputs: &[&'a HostData]) -> Self {
        let indices = match inputs[gathered.input] {
            HostData::I32(indices) => Indices::I32(indices),
            HostData::U32(indices) => Indices::U32(indices),
            _ => Indices::U32(&[]),
        };
        Self {
            indices,
            stride: gathered.stride,
            extent: gathered.extent,
            n_outer,
            current: Scalar::U32(0),
        }
    }

    /// Returns the distance in the source of the element at an index.
    fn shift(&self, index: Scalar) -> Result<isize> {
        match gathered_place(index, self.extent) {
            Some(place) => Ok(self.stride.wrapping_mul(place.cast_signed())),
            None => Err(Error::IndexOutOfRange {
                index: index.to_f64(),
                extent: self.extent,
            }),
        }
    }

    /// Returns consecutive indices if none of them is negative or out of range.
    fn places(&self, first: isize, len: usize) -> Option<&'a [u32]> {
        // As a `u32`, a negative `i32` is at least 2^31.
        let (indices, limit): (&[u32], usize) = match self.indices {
            Indices::I32(indices) => (cast_slice(indices), 1 << 31),
            Indices::U32(indices) => (indices, MAX_POSITIONS),
        };
        let first = usize::try_from(first).ok()?;
        let indices = indices.get(first..first.checked_add(len)?)?;
        let mut largest = 0;
        Level::best().dispatch(
            #[inline(always)]
            || largest = indices.iter().fold(0, |largest, &index| index.max(largest)),
        );
        let is_inside = (largest as usize) < self.extent.min(limit);
        is_inside.then_some(indices)
    }
}

impl Indices<'_> {
    /// Returns an index; 0 for a position outside of the input, which valid nests do not have.
    fn at(self, position: isize) -> Scalar {
        let at = usize::try_from(position).unwrap_or(usize::MAX);
        match self {
            Self::I32(indices) => Scalar::I32(indices.get(at).copied().unwrap_or_default()),
            Self::U32(indices) => Scalar::U32(indices.get(at).copied().unwrap_or_default()),
        }
    }
}

/// Sets the elements at the indices `range` of the first loop, and at all indices of the others.
fn fill<T: Element>(loops: &[Loop], range: Range<usize>, element: T, out: &mut [T]) {
    let Some((first, rest)) = loops.split_first().filter(|_| !range.is_empty()) else {
        return;
    };
    // Whether the loops inside cover consecutive elements.
    let inner: usize = rest.iter().map(|one| one.len).product();
    let mut below = 1;
    let is_dense = first.out == inner
        && rest.iter().rev().all(|one| {
            let is_next = one.out == below;
            below *= one.len;
            is_next
        });
    if is_dense {
        out[range.start * inner..range.end * inner].fill(element);
        return;
    }
    for index in range {
        let out = &mut out[index * first.out..];
        match rest {
            [] => out[0] = element,
            _ => fill(rest, 0..rest[0].len, element, out),
        }
    }
}
