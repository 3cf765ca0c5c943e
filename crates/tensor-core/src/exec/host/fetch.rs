//! Loads of input elements into lanes: strided, guarded and gathered.
//!
//! Method: a block of lanes is split into runs along the last lane axis. Within a run positions
//! grow by one stride, so the lanes inside all guards are consecutive. Loads whose guards hold for
//! all lanes of a block or for none find their runs in a table ([`Runs`]).
//!
//! ```text
//! lane axes of the sizes [3, 4], start = 2:
//! |  2  3 | 4  5  6  7 | 8  9 ...    runs end where the last axis ends
//! ```

use std::ops::Range;

use crate::dtype::Element;
use crate::error::Error;
use crate::exec::reference::checked_place;
use crate::ir::{Guard, held, low_bits};

use super::lane_axes::Runs;
use super::lanes::{LaneType, Stored};
use super::machine::Machine;
use super::program::{Access, Slot};
use super::register::Destination;

/// The number of lane axes whose index needs no allocation.
const FEW_AXES: usize = 8;

impl Machine<'_> {
    /// Splits the current block into runs along the last lane axis and calls `f` for each run. `f`
    /// receives the lanes of the run, and the position of the first lane and the stride between
    /// lanes for each map of the access: first the element map, then the guards' maps.
    #[inline(always)]
    fn runs(&self, access: usize, len: usize, f: impl FnMut(Range<usize>, &[isize], &[isize])) {
        let maps = self.program.accesses[access].maps.clone();
        let here = &self.positions[maps.clone()];
        // The loop over the maps of an access without guards is unrolled.
        match *here {
            [position] => self.walk_runs(&mut [position], maps, len, f),
            _ => self.walk_runs(&mut here.to_vec()[..], maps, len, f),
        }
    }

    /// Calls `f` for each run, as [`runs`](Self::runs), from the positions of the first lane on.
    #[inline(always)]
    fn walk_runs<P: AsRef<[isize]> + AsMut<[isize]> + ?Sized>(
        &self,
        positions: &mut P,
        maps: Range<usize>,
        len: usize,
        mut f: impl FnMut(Range<usize>, &[isize], &[isize]),
    ) {
        let program = self.program;
        let lanes = &program.lanes;
        let Some(last) = lanes
            .sizes
            .len()
            .checked_sub(1)
            .filter(|_| len > 1 || self.start > 0)
        else {
            return f(0..len, positions.as_ref(), &self.no_strides[..maps.len()]);
        };
        let strides = |axis: usize| &program.strides[lanes.first + axis][maps.clone()];
        let step = |positions: &mut P, axis: usize, steps: isize| {
            for (position, stride) in positions.as_mut().iter_mut().zip(strides(axis)) {
                *position = position.wrapping_add(stride.wrapping_mul(steps));
            }
        };
        // The index at the start of the block needs divisions; from there on the index is advanced
        // by counting.
        let (mut few, mut many) = ([0; FEW_AXES], Vec::new());
        let index = match few.get_mut(..=last) {
            Some(index) => index,
            None => {
                many.resize(last + 1, 0);
                &mut many[..]
            }
        };
        let mut rest = self.start;
        for axis in (0..=last).rev() {
            if rest == 0 {
                break;
            }
            index[axis] = rest % lanes.sizes[axis];
            rest /= lanes.sizes[axis];
            step(positions, axis, index[axis].cast_signed());
        }
        let (along, n_last) = (strides(last), lanes.sizes[last]);
        let mut done = 0;
        while done < len {
            let n = (n_last - index[last]).min(len - done);
            f(done..done + n, positions.as_ref(), along);
            // Advance to the next run: back to the start of the last axis, then one step of the
            // axes before it, with carry.
            done += n;
            step(positions, last, -index[last].cast_signed());
            index[last] = 0;
            for axis in (0..last).rev() {
                index[axis] += 1;
                step(positions, axis, 1);
                if index[axis] < lanes.sizes[axis] {
                    break;
                }
                step(positions, axis, -index[axis].cast_signed());
                index[axis] = 0;
            }
        }
    }

    /// Loads an element into each lane, or one element for all lanes if `uniform` is set.
    #[inline(always)]
    pub(super) fn fetch<T: Stored>(
        &self,
        access: usize,
        destination: &mut Destination<'_>,
        uniform: bool,
    ) {
        let Access {
            input,
            guards,
            maps,
            ..
        } = &self.program.accesses[access];
        if uniform && guards.is_empty() {
            let data = T::slice(self.inputs[*input]).unwrap_or_default();
            // An invalid position reads the default element; only values that the result does not
            // use have such positions.
            let at = usize::try_from(self.positions[maps.start]).unwrap_or(usize::MAX);
            destination.lanes_mut::<T::Lane>()[0] =
                Stored::load(data.get(at).copied().unwrap_or_default());
        } else {
            self.fetch_runs::<T>(access, destination, if uniform { 1 } else { self.len });
        }
    }

    /// Loads an element into each of the first `len` lanes, run by run.
    #[inline(never)]
    pub(super) fn fetch_runs<T: Stored>(
        &self,
        access: usize,
        destination: &mut Destination<'_>,
        len: usize,
    ) {
        let Access {
            input,
            guards,
            maps,
            runs,
            ..
        } = &self.program.accesses[access];
        let data = T::slice(self.inputs[*input]).unwrap_or_default();
        let lanes = destination.lanes_mut::<T::Lane>();
        if let Some(runs) = runs {
            let (positions, lanes) = (&self.positions[maps.clone()], &mut lanes[..len]);
            if inside(guards, &positions[1..], &self.no_strides, 1).is_empty() {
                lanes.fill(Stored::load(T::default()));
            } else {
                copy_runs(data, positions[0], runs, self.start, lanes);
            }
        } else {
            self.runs(access, len, |run, positions, strides| {
                copy_run(data, guards, positions, strides, &mut lanes[run]);
            });
        }
    }

    /// Writes the positions of an access into `words`, modulo 2^32.
    #[inline(never)]
    pub(super) fn count_positions(&self, access: usize, words: &mut [u32], len: usize) {
        self.runs(access, len, |run, positions, strides| {
            for (offset, word) in words[run].iter_mut().enumerate() {
                *word = low_bits(
                    positions[0].wrapping_add(strides[0].wrapping_mul(offset.cast_signed())),
                );
            }
        });
    }

    /// Writes for each lane whether all guards of an access hold (1) or not (0).
    #[inline(never)]
    pub(super) fn mark_inside(&self, access: usize, flags: &mut [u8], len: usize) {
        let guards = &self.program.accesses[access].guards;
        self.runs(access, len, |run, positions, strides| {
            let flags = &mut flags[run];
            flags.fill(0);
            let inside = inside(guards, &positions[1..], &strides[1..], flags.len());
            flags[inside].fill(1);
        });
    }

    /// Loads elements at positions that depend on the index operand. Returns an error if an index
    /// is outside the axis.
    #[inline(never)]
    pub(super) fn gather<T: Stored, I: LaneType + Element>(
        &self,
        access: usize,
        at: Slot,
        stride: isize,
        extent: usize,
        destination: &mut Destination<'_>,
        len: usize,
    ) -> Option<Error> {
        let Access { input, guards, .. } = &self.program.accesses[access];
        let data = T::slice(self.inputs[*input]).unwrap_or_default();
        let lanes = destination.lanes_mut::<T::Lane>();
        let index = self.view::<I>(at);
        let mut fault = None;
        self.runs(access, len, |run, positions, strides| {
            let first = run.start;
            let lanes = &mut lanes[run];
            // Lanes outside the guards are zero, and their indices are not checked.
            let inside = inside(guards, &positions[1..], &strides[1..], lanes.len());
            lanes.fill(Stored::load(T::default()));
            for lane in inside {
                let index = index.at(first + lane);
                let place = match checked_place(index.into_scalar(), extent) {
                    Ok(place) => place,
                    Err(error) => {
                        fault = Some(error);
                        continue;
                    }
                };
                let position = positions[0]
                    .wrapping_add(strides[0].wrapping_mul(lane.cast_signed()))
                    .wrapping_add(stride.wrapping_mul(place.cast_signed()));
                let element = usize::try_from(position).ok().and_then(|at| data.get(at));
                lanes[lane] = Stored::load(element.copied().unwrap_or_default());
            }
        });
        fault
    }

    /// Writes the positions given by the index operand. Returns an error if an index is outside the
    /// axis.
    #[inline(never)]
    pub(super) fn check_positions<I: LaneType + Element>(
        &self,
        access: usize,
        at: Slot,
        extent: usize,
        words: &mut [u32],
        len: usize,
    ) -> Option<Error> {
        let guards = &self.program.accesses[access].guards;
        let index = self.view::<I>(at);
        let mut fault = None;
        self.runs(access, len, |run, positions, strides| {
            let first = run.start;
            let words = &mut words[run];
            // Lanes outside the guards are zero, and their indices are not checked.
            let inside = inside(guards, &positions[1..], &strides[1..], words.len());
            words.fill(0);
            for lane in inside {
                match checked_place(index.at(first + lane).into_scalar(), extent) {
                    Ok(place) => words[lane] = low_bits(place.cast_signed()),
                    Err(error) => fault = Some(error),
                }
            }
        });
        fault
    }
}

/// Returns the lanes of a run for which all guards hold. The lanes are consecutive.
fn inside(guards: &[Guard], positions: &[isize], strides: &[isize], len: usize) -> Range<usize> {
    let mut range = 0..len;
    for ((guard, &position), &stride) in guards.iter().zip(positions).zip(strides) {
        let held = held(position, stride, guard.extent, len);
        // The lanes inside several guards are the intersection of their ranges.
        range = range.start.max(held.start)..range.end.min(held.end);
    }
    range.start.min(range.end)..range.end
}

/// Copies a run into lanes; lanes outside the guards become zero. The first entries of `positions`
/// and `strides` belong to the elements, the others to the guards.
pub(super) fn copy_run<T: Stored>(
    data: &[T],
    guards: &[Guard],
    positions: &[isize],
    strides: &[isize],
    lanes: &mut [T::Lane],
) {
    let inside = inside(guards, &positions[1..], &strides[1..], lanes.len());
    if inside.len() < lanes.len() {
        lanes.fill(Stored::load(T::default()));
    }
    let first = positions[0].wrapping_add(strides[0].wrapping_mul(inside.start.cast_signed()));
    copy_strided(data, first, strides[0], &mut lanes[inside]);
}

/// Copies elements into lanes, from lane number `start` on. `first` is the position of lane 0.
fn copy_runs<T: Stored>(
    data: &[T],
    first: isize,
    runs: &Runs,
    mut start: usize,
    mut lanes: &mut [T::Lane],
) {
    let Runs {
        group_len, run_len, ..
    } = *runs;
    while !lanes.is_empty() {
        let (group, place) = (start / group_len, start % group_len);
        let position = first.wrapping_add(runs.group_stride.wrapping_mul(group.cast_signed()));
        let len = lanes.len().min(group_len - place);
        let (mut part, rest) = lanes.split_at_mut(len);
        // The lanes may begin and end in the middle of a run.
        let mut skipped = place % run_len;
        for run in &runs.starts[place / run_len..] {
            let n = part.len().min(run_len - skipped);
            if n == 0 {
                break;
            }
            let (run_lanes, rest) = part.split_at_mut(n);
            let along = runs.stride.wrapping_mul(skipped.cast_signed());
            let from = position.wrapping_add(*run).wrapping_add(along);
            copy_strided(data, from, runs.stride, run_lanes);
            (part, skipped) = (rest, 0);
        }
        (lanes, start) = (rest, start + len);
    }
}

/// Copies elements `first`, `first + stride`, … into lanes. Stride 1, stride 0 and larger strides
/// have loops of their own, which the compiler vectorizes or at least keeps free of bounds checks.
#[inline(always)]
fn copy_strided<T: Stored>(data: &[T], first: isize, stride: isize, lanes: &mut [T::Lane]) {
    let start = usize::try_from(first).unwrap_or(usize::MAX);
    match stride {
        // Contiguous: one copy, or a conversion of each element.
        1 => {
            let from = data
                .get(start..start.saturating_add(lanes.len()))
                .unwrap_or_default();
            match T::as_lanes(from) {
                Some(from) if from.len() == lanes.len() => copy_lanes(from, lanes),
                _ => lanes
                    .iter_mut()
                    .zip(from)
                    .for_each(|(lane, &element)| *lane = Stored::load(element)),
            }
        }
        0 => lanes.fill(Stored::load(data.get(start).copied().unwrap_or_default())),
        stride if stride > 1 => {
            let from = data
                .get(start..)
                .unwrap_or_default()
                .iter()
                .step_by(stride.unsigned_abs());
            lanes
                .iter_mut()
                .zip(from)
                .for_each(|(lane, &element)| *lane = Stored::load(element));
        }
        // Negative strides: each position is checked separately.
        stride => {
            for (offset, lane) in lanes.iter_mut().enumerate() {
                let position = first.wrapping_add(stride.wrapping_mul(offset.cast_signed()));
                let element = usize::try_from(position).ok().and_then(|at| data.get(at));
                *lane = Stored::load(element.copied().unwrap_or_default());
            }
        }
    }
}

/// Copies lanes. Short runs are copied without a call.
#[inline(always)]
fn copy_lanes<L: LaneType>(from: &[L], to: &mut [L]) {
    /// The number of lanes that are copied at a time.
    const CHUNK: usize = 16;
    /// The number of lanes from which the call pays.
    const LONG: usize = 256;
    if to.len() >= LONG {
        return to.copy_from_slice(from);
    }
    let (chunks, rest) = to.as_chunks_mut::<CHUNK>();
    let (from_chunks, from_rest) = from.as_chunks::<CHUNK>();
    for (to, from) in chunks.iter_mut().zip(from_chunks) {
        *to = *from;
    }
    for (to, from) in rest.iter_mut().zip(from_rest) {
        *to = *from;
    }
}
