//! Long reductions in two steps.
//!
//! Role: replaces a nest with few output elements and long reduced axes by nests that keep a device
//! busy, or whose loops end within the driver's limit. One nest per fold computes many partial
//! results in parallel. A last nest combines the partial results and computes the rest.
//! Method: one reduced axis is split into pieces of equal length, and a new first axis of the
//! domain counts the pieces. The results of one piece are therefore contiguous, and the combining
//! kernel reads neighbours in parallel. If the last piece is short, guards replace the elements
//! past the end by the fold's neutral element. Both steps are ordinary nests, so the oracle can run
//! them, and the order of a fold depends only on the nest and the number of parts.
//!
//! ```text
//!  sum over 10 terms, 3 parts of piece 4:
//!  part 0: 0 1 2 3   part 1: 4 5 6 7   part 2: 8 9 n n     n: neutral element
//!  rest:   part 0 + part 1 + part 2
//! ```

use std::sync::Arc;

use tensor_core::ir::{Guard, IndexMap, LoopNest, Value, ValueId};
use tensor_core::op::Reduce;
use tensor_core::{DType, Scalar};

use super::contiguous;
use super::sequence::{NestBuilder, Sequence, reached};

/// Splits the longest reduced axis into at most `n_parts` parts; `None` for fewer than two parts,
/// or if the axis has fewer than two elements per part.
pub(super) fn cut(nest: &LoopNest, n_parts: usize) -> Option<Sequence> {
    let (axis, &size) = nest
        .reduce
        .iter()
        .enumerate()
        .max_by_key(|(_, size)| **size)?;
    if n_parts < 2 || size < 2 * n_parts {
        return None;
    }
    let piece = size.div_ceil(n_parts);
    let cut = Cut {
        nest,
        axis,
        piece,
        n_parts: size.div_ceil(piece),
    };
    let (body, epilogue) = (nest.body(), nest.epilogue());
    // Reductions whose results are used after the loops; one fold kernel for each.
    let is_result = |id: usize| epilogue[id] && !body[id];
    let reduced: Vec<(usize, Reduce, ValueId)> = (0..nest.values.len())
        .filter(|&id| is_result(id))
        .filter_map(|id| match nest.values[id] {
            Value::Reduced(op, operand) => Some((id, op, operand)),
            _ => None,
        })
        .collect();
    let mut nests: Vec<_> = reduced
        .iter()
        .map(|&(_, op, operand)| cut.fold(op, operand))
        .collect();
    nests.push(cut.rest(&epilogue));
    Some(Sequence { nests })
}

struct Cut<'n> {
    nest: &'n LoopNest,
    /// Index of the split axis among the reduced axes.
    axis: usize,
    /// Number of elements of a piece of the split axis; the last piece may be shorter.
    piece: usize,
    /// Number of pieces.
    n_parts: usize,
}

impl Cut<'_> {
    /// Returns the nest that computes the partial results of one reduction, and its inputs.
    fn fold(&self, op: Reduce, operand: ValueId) -> (Arc<LoopNest>, Vec<usize>) {
        let nest = self.nest;
        let beyond: Vec<Guard> = self.last_piece().into_iter().collect();
        let mut draft = NestBuilder::default();
        let mut places = vec![None; nest.values.len()];
        let needed = reached(nest, operand);
        // Copies only the values on which the fold's operand depends.
        for id in (0..nest.values.len()).filter(|&id| needed[id]) {
            let place = draft.copy(nest, id, &places, &|map| self.cut_map(map), &beyond);
            places[id] = Some(place);
        }
        let dtype = nest.dtypes[operand.0];
        let mut last = ValueId(draft.values.len() - 1);
        if !beyond.is_empty() {
            let inside = draft.push(Value::Inside(beyond), DType::Bool);
            let neutral = neutral(op, dtype);
            let neutral = draft.push(Value::Const(neutral), dtype);
            last = draft.push(Value::Select(inside, last, neutral), dtype);
        }
        draft.push(Value::Reduced(op, last), op.result(dtype));
        let mut reduce = nest.reduce.clone();
        reduce[self.axis] = self.piece;
        draft.finish([&[self.n_parts], &nest.domain[..]].concat(), reduce)
    }

    /// Returns the nest that combines the partial results and computes all later values, and its
    /// inputs.
    fn rest(&self, epilogue: &[bool]) -> (Arc<LoopNest>, Vec<usize>) {
        let nest = self.nest;
        let n_domain = nest.domain.len();
        // The values after the reduction depend on domain axes only; the single reduced axis of
        // this nest counts the parts.
        let on_domain = |map: &IndexMap| IndexMap {
            offset: map.offset,
            strides: [&map.strides[..n_domain], &[0]].concat(),
        };
        let mut draft = NestBuilder::default();
        let mut places = vec![None; nest.values.len()];
        // The partial results follow the inputs of the whole nest.
        let mut partials = nest.inputs.len()..;
        for id in (0..nest.values.len()).filter(|&id| epilogue[id]) {
            places[id] = Some(if let Value::Reduced(op, _) = nest.values[id] {
                let dtype = nest.dtypes[id];
                let partial = partials.next().unwrap_or_default();
                let load = draft.load((partial, dtype), self.of_partial(), Vec::new());
                draft.push(Value::Reduced(op, load), dtype)
            } else {
                draft.copy(nest, id, &places, &on_domain, &[])
            });
        }
        draft.finish(nest.domain.clone(), vec![self.n_parts])
    }

    /// Converts a map of the original nest to the axes of a fold: the part, then the domain, then
    /// the reduced axes. The split axis counts within its piece, so the next part is `piece`
    /// elements further.
    fn cut_map(&self, map: &IndexMap) -> IndexMap {
        let (domain, reduced) = map.strides.split_at(self.nest.domain.len());
        let of_part = reduced[self.axis] * self.piece.cast_signed();
        IndexMap {
            offset: map.offset,
            strides: [&[of_part], domain, reduced].concat(),
        }
    }

    /// Returns the guard that rejects positions past the end of the split axis; `None` if the last
    /// piece has full length.
    fn last_piece(&self) -> Option<Guard> {
        let size = self.nest.reduce[self.axis];
        let n_domain = self.nest.domain.len();
        let mut strides = vec![0; 1 + n_domain + self.nest.reduce.len()];
        strides[0] = self.piece.cast_signed();
        strides[n_domain + 1 + self.axis] = 1;
        (self.piece * self.n_parts > size).then_some(Guard {
            map: IndexMap { offset: 0, strides },
            extent: size,
        })
    }

    /// Returns the map with which the combining nest loads a partial result. The axes of this nest
    /// are the domain, then the part; the partial results are stored as `[part, domain]`.
    fn of_partial(&self) -> IndexMap {
        let IndexMap { offset, strides } = contiguous(&self.nest.domain);
        let of_part = self.nest.output_len().cast_signed();
        IndexMap {
            offset,
            strides: [&strides[..], &[of_part]].concat(),
        }
    }
}

/// Returns the neutral element of a fold, in the type of its operand.
fn neutral(op: Reduce, dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(op == Reduce::All),
        _ => op.neutral(dtype),
    }
}

#[cfg(test)]
mod tests {
    use tensor_core::rng::Philox;
    use tensor_core::{Axes, Tensor};

    use super::super::sequence::reference::n_equal;
    use super::*;

    #[test]
    fn parts_give_what_the_whole_gives() {
        // Integer values, so that sums are exact in every order.
        let x = (Tensor::arange(5 * 23).reshape(&[5, 23]) % 7 - 3).cast(DType::F32);
        let table = Tensor::arange(23) * 3;
        let rows = Tensor::arange(5 * 23).reshape(&[5, 23]) % 23;
        let random = |stream| {
            let words = Tensor::rand(Philox::new(5).stream(stream), &[5, 23]);
            (words * 1000.0).cast(DType::I32)
        };
        let programs = [
            x.sum(1) * 2.0 + x.slice(1, 0..1).squeeze(1),
            x.max(..) - x.min(..) * x.lt(0.0).count(..).cast(DType::F32),
            x.lt(4.0).all(1),
            x.lt(-3.0).any(1),
            x.sum(0).exp(),
            x.prod(1),
            table.gather(&rows, 0).sum(1),
            (rows.flatten() - 3).slice(0, 3..23).bincount(23),
            x.pad(1, 2, 3, 1.0).window(1, 4, 1).sum(Axes::from([1, 2])),
            Tensor::arange(23).sum(0),
            random(4).max(..) * 3 + random((1 << 40) + 9).min(..),
        ];
        let divide = |nest: &LoopNest| (2..12).filter_map(|n_parts| cut(nest, n_parts)).collect();
        let n_cut: usize = programs.iter().map(|it| n_equal(it, divide)).sum();
        assert!(n_cut > 50, "{n_cut}");
    }
}
