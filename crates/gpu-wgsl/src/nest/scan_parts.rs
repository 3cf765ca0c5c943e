//! Scans in several steps.
//!
//! Role: replaces a nest with a scan of few long lines by nests that keep a device busy, or whose
//! loops end within the driver's limit. A scan whose results are shorter than a word is separated
//! from the values after it.
//! Method: each line is divided into parts of equal length, which a first nest scans as lines of
//! their own. A second nest scans the totals of the parts, which yields the result before each
//! part. A last nest combines both and computes the values after the scan. If the last part is
//! short, guards replace the elements past the end by the scan's start value. All steps are
//! ordinary nests, so the oracle can run them; no kernel waits for another workgroup.
//!
//! ```text
//!  cumulative sums of 10 elements, parts of 4:
//!  scanned parts:  0  0+1  0..2  0..3 | 4  4+5  4..6  4..7 | 8  8+9  n  n      n: start value
//!  before:         n                  | 0..3               | 0..7
//! ```

use std::sync::Arc;

use tensor_core::ir::{Guard, IndexMap, LoopNest, Value, ValueId};
use tensor_core::op::{Binary, Scan};
use tensor_core::{DType, Scalar};

use super::access::bits;
use super::scan::{MANY_LINES, lanes, line_len, n_lines, n_passes};
use super::sequence::{NestBuilder, Sequence, reached};
use super::{GROUP, contiguous};

/// Divides a nest with a scan; returns `None` if one kernel should compute the nest. `limit` is the
/// driver's limit on iterations of loops.
pub(super) fn cut(nest: &LoopNest, limit: Option<u64>) -> Option<Sequence> {
    /// Minimum number of elements per invocation for which dividing a line is faster.
    const LONG: usize = 16;
    let lanes = lanes(nest);
    let is_idle = n_lines(nest).saturating_mul(lanes as usize) < MANY_LINES;
    let is_long = line_len(nest) > 2 * LONG * lanes as usize;
    let exceeds = limit.is_some_and(|limit| n_passes(nest, lanes) > limit);
    let log = match lanes {
        1 => LONG.ilog2(),
        _ => (4 * GROUP).ilog2(),
    };
    // A line that is no longer than a part is not divided: its only part would be divided again,
    // without end.
    if ((is_idle && is_long) || exceeds) && line_len(nest) > 1 << log {
        return in_parts(nest, log);
    }
    bits(nest.dtype()).and_then(|_| apart(nest))
}

/// A scan that is divided.
struct Cut<'n> {
    nest: &'n LoopNest,
    id: ValueId,
    scan: Scan,
    /// The logarithm of the number of points of a part.
    log: u32,
}

/// Divides lines into parts of `1 << log` points.
pub(super) fn in_parts(nest: &LoopNest, log: u32) -> Option<Sequence> {
    let (id, scan) = nest.scan()?;
    let cut = Cut {
        nest,
        id,
        scan,
        log,
    };
    let nests = vec![cut.parts(), cut.before(), cut.rest()];
    Some(Sequence { nests })
}

/// Separates a scan from the values after it.
fn apart(nest: &LoopNest) -> Option<Sequence> {
    let (id, _) = nest.scan()?;
    let mut draft = NestBuilder::default();
    let mut places = vec![None; nest.values.len()];
    let needed = reached(nest, id);
    for at in (0..nest.values.len()).filter(|&at| needed[at]) {
        places[at] = Some(draft.copy(nest, at, &places, &IndexMap::clone, &[]));
    }
    let scanned = draft.finish(nest.domain.clone(), Vec::new());
    let mut draft = NestBuilder::default();
    let result = (nest.inputs.len(), nest.dtypes[id.0]);
    let map = contiguous(&nest.domain);
    let load = draft.load(result, map, Vec::new());
    let rest = epilogue(draft, nest, id, load);
    Some(Sequence {
        nests: vec![scanned, rest],
    })
}

/// Completes the nest of the values after a scan, whose result is the value `scanned` of the draft.
fn epilogue(
    mut draft: NestBuilder,
    nest: &LoopNest,
    id: ValueId,
    scanned: ValueId,
) -> (Arc<LoopNest>, Vec<usize>) {
    let needed = nest.epilogue();
    let mut places = vec![None; nest.values.len()];
    places[id.0] = Some(scanned);
    for at in (0..nest.values.len()).filter(|&at| needed[at] && at != id.0) {
        places[at] = Some(draft.copy(nest, at, &places, &IndexMap::clone, &[]));
    }
    draft.finish(nest.domain.clone(), Vec::new())
}

impl Cut<'_> {
    fn n_parts(&self) -> usize {
        line_len(self.nest).div_ceil(1 << self.log)
    }

    fn dtype(&self) -> DType {
        self.nest.dtypes[self.id.0]
    }

    /// Returns the loops of the parts: the axis of the scan becomes two axes.
    fn domain_of_parts(&self) -> Vec<usize> {
        let (before, after) = self.nest.domain.split_at(self.scan.axis);
        [before, &[self.n_parts(), 1 << self.log], &after[1..]].concat()
    }

    /// Converts a map to the loops of the parts.
    fn in_part(&self, map: &IndexMap) -> IndexMap {
        let (before, after) = map.strides.split_at(self.scan.axis);
        IndexMap {
            offset: map.offset,
            strides: [before, &[after[0] << self.log], after].concat(),
        }
    }

    /// Returns the nest that scans each part, and its inputs. Each result covers its own element.
    fn parts(&self) -> (Arc<LoopNest>, Vec<usize>) {
        let (nest, n) = (self.nest, line_len(self.nest));
        let mut strides = vec![0; nest.domain.len()];
        strides[self.scan.axis] = 1;
        let place = self.in_part(&IndexMap { offset: 0, strides });
        let is_short = self.n_parts() << self.log > n;
        let beyond: Vec<Guard> = is_short
            .then_some(Guard {
                map: place,
                extent: n,
            })
            .into_iter()
            .collect();
        let mut draft = NestBuilder::default();
        let mut places = vec![None; nest.values.len()];
        let needed = nest.body();
        let mut last = ValueId(0);
        for at in (0..self.id.0).filter(|&at| needed[at]) {
            last = draft.copy(nest, at, &places, &|map| self.in_part(map), &beyond);
            places[at] = Some(last);
        }
        if !beyond.is_empty() {
            let inside = draft.push(Value::Inside(beyond), DType::Bool);
            let start = self.scan.start(self.dtype());
            let start = draft.push(Value::Const(start), self.dtype());
            last = draft.push(Value::Select(inside, last, start), self.dtype());
        }
        let scan = Scan {
            axis: self.scan.axis + 1,
            exclusive: false,
            ..self.scan
        };
        draft.push(Value::Scanned(scan, last), self.dtype());
        draft.finish(self.domain_of_parts(), Vec::new())
    }

    /// Returns the nest that computes the result before each part, and its inputs.
    fn before(&self) -> (Arc<LoopNest>, Vec<usize>) {
        let IndexMap { strides, .. } = contiguous(&self.domain_of_parts());
        let axis = self.scan.axis;
        // The last result of a part, in the order of the scan, is the total of the part.
        let last = match self.scan.reversed {
            false => ((1 << self.log) - 1) * strides[axis + 1],
            true => 0,
        };
        let map = IndexMap {
            offset: last,
            strides: [&strides[..=axis], &strides[axis + 2..]].concat(),
        };
        let mut draft = NestBuilder::default();
        let total = draft.load((self.nest.inputs.len(), self.dtype()), map, Vec::new());
        let scan = Scan {
            exclusive: true,
            ..self.scan
        };
        draft.push(Value::Scanned(scan, total), self.dtype());
        draft.finish(self.domain_of_totals(), Vec::new())
    }

    fn domain_of_totals(&self) -> Vec<usize> {
        let mut domain = self.nest.domain.clone();
        domain[self.scan.axis] = self.n_parts();
        domain
    }

    /// Returns the nest that combines the results within the parts and before them, and computes
    /// the values after the scan.
    fn rest(&self) -> (Arc<LoopNest>, Vec<usize>) {
        let (nest, scan, dtype) = (self.nest, self.scan, self.dtype());
        let n = line_len(nest);
        // An exclusive result is the inclusive result of the element before, if there is one.
        let shift = match (scan.exclusive, scan.reversed) {
            (false, _) => 0,
            (true, false) => -1,
            (true, true) => 1,
        };
        let along = |strides: &[isize]| IndexMap {
            offset: shift * strides[scan.axis],
            strides: strides.to_vec(),
        };
        let mut unit = vec![0; nest.domain.len()];
        unit[scan.axis] = 1;
        let place = along(&unit);
        let guards: Vec<Guard> = scan
            .exclusive
            .then(|| Guard {
                map: place.clone(),
                extent: n,
            })
            .into_iter()
            .collect();
        let mut draft = NestBuilder::default();
        let place = draft.push(Value::Index(place), DType::U32);
        let log = draft.push(Value::Const(Scalar::U32(self.log)), DType::U32);
        let part = draft.push(Value::Binary(Binary::Shr, place, log), DType::U32);
        // The stride of the axis of totals is left out, because `part` selects the element.
        let mut totals = contiguous(&self.domain_of_totals());
        let stride = std::mem::take(&mut totals.strides[scan.axis]);
        let input = draft.input(nest.inputs.len() + 1, dtype);
        let before = draft.push(
            Value::Gather {
                input,
                map: totals,
                guards: guards.clone(),
                at: part,
                stride,
                extent: self.n_parts(),
            },
            dtype,
        );
        // The parts of a line are contiguous, so an element keeps its position in the line.
        let mut padded = nest.domain.clone();
        padded[scan.axis] = self.n_parts() << self.log;
        let within = along(&contiguous(&padded).strides);
        let within = draft.load((nest.inputs.len(), dtype), within, guards.clone());
        let both = Value::Binary(scan.op.binary(), before, within);
        let mut scanned = draft.push(both, dtype);
        if !guards.is_empty() {
            let inside = draft.push(Value::Inside(guards), DType::Bool);
            let start = draft.push(Value::Const(scan.start(dtype)), dtype);
            scanned = draft.push(Value::Select(inside, scanned, start), dtype);
        }
        epilogue(draft, nest, self.id, scanned)
    }
}

#[cfg(test)]
mod tests {
    use tensor_core::{ScanAxis, Tensor};

    use super::super::schedule::{Division, divide};
    use super::super::sequence::reference::n_equal;
    use super::super::tests::{nests, schedule_limits};
    use super::*;
    use crate::limits::KernelLimits;

    #[test]
    fn divided_scans_give_what_whole_scans_give() {
        // Integer values, so that sums are exact in every order.
        let x = (Tensor::arange(3 * 23 * 2).reshape(&[3, 23, 2]) % 7 - 3).cast(DType::F32);
        let mut n_cut = 0;
        for axis in [0, 1, 2] {
            let along = ScanAxis::new(axis);
            for along in [
                along,
                along.exclusive(),
                along.reversed(),
                along.reversed().exclusive(),
            ] {
                for program in [
                    x.cumsum(along),
                    x.pad(axis, 1, 2, 1.0).cummax(along) * 2.0,
                    (&x * 2.0).cummin(along).lt(0.0),
                    x.cumsum(along) - &x,
                    x.cast(DType::I32).cumprod(along),
                ] {
                    n_cut += n_equal(&program, |nest| {
                        let parts = (1..5).filter_map(|log| in_parts(nest, log));
                        parts.chain(apart(nest)).collect()
                    });
                }
            }
        }
        assert_eq!(n_cut, 3 * 4 * 5 * 5);
    }

    /// Checks that no kernel of a division has longer loops than the limit, and returns the number
    /// of kernels.
    fn check(nest: &LoopNest, lens: &[usize], limits: &KernelLimits) -> usize {
        match divide(nest, lens, limits) {
            Some(Division::Parts(parts)) => {
                let nests = parts.with_lens(lens).into_iter();
                nests.map(|(part, lens)| check(part, &lens, limits)).sum()
            }
            Some(Division::Whole) => {
                let most = limits.loop_iterations.unwrap();
                if nest.scan().is_some() {
                    assert!(n_passes(nest, lanes(nest)) <= most, "{nest:?}");
                }
                1
            }
            Some(Division::Windows(_)) => panic!("a scan in windows: {nest:?}"),
            None => panic!("no division: {nest:?}"),
        }
    }

    #[test]
    fn scans_are_divided_until_their_loops_are_within_the_limit() {
        for (limit, shape) in [(50, [5, 5000]), (100, [1, 1 << 20]), (50, [100_000, 2])] {
            let limits = KernelLimits {
                loop_iterations: Some(limit),
                ..schedule_limits()
            };
            let x = Tensor::zeros(&shape, DType::F32).cast(DType::I32);
            let len = shape.iter().product();
            let x = (x + Tensor::arange(len).reshape(&shape)).cumsum(ScanAxis::new(0));
            for program in [x.clone(), x.cumsum(1), x.lt(3)] {
                for nest in nests(&program) {
                    if nest.scan().is_some() {
                        let lens = vec![len; nest.inputs.len()];
                        assert!(check(&nest, &lens, &limits) > 0);
                    }
                }
            }
        }
    }

    #[test]
    fn only_long_lines_of_an_idle_device_are_divided() {
        let is_cut = |shape: [usize; 2], limit| {
            let x = Tensor::arange(shape[0] * shape[1]).reshape(&shape);
            let program = x.cast(DType::F32).cumsum(1);
            let mut scans = nests(&program)
                .into_iter()
                .filter(|nest| nest.scan().is_some());
            cut(&scans.next().unwrap(), limit).is_some()
        };
        assert!(is_cut([3, 20_000], None));
        assert!(!is_cut([3, 20], None), "short lines");
        assert!(!is_cut([MANY_LINES, 64], None), "many lines");
        assert!(
            is_cut([MANY_LINES, 64], Some(60)),
            "too long for the driver"
        );
        assert!(!is_cut([3, 10], Some(1)), "one part");
    }
}
