//! Products and other reductions over pairs, in tiles of CPU registers.
//!
//! Role: computes most reductions over pairs ([`Pairs`]); see `product` for the others:
//! windows of any step, batches, narrow and small products, distances, counts of equal bits.
//! Method: one factor provides the rows and the other the lanes. A tile is a few rows and one to
//! four vectors of lanes; its accumulators stay in registers while all terms of a block are reduced
//! (`kernel`) by one of many functions (`reducer`). Tables contain the distances between terms,
//! rows and lanes, so no windows are stored (`fold`). A factor that cannot be read in place is
//! copied once (`operand`). The output is divided into pieces, one task each (`piece`), and the
//! operations after the reduction are computed piece by piece.
//! Symmetry: if the result is a symmetric matrix of at least 64 rows without a later operation,
//! such as the distances of all pairs of points, only the elements on and right of the diagonal
//! blocks are computed; the others are copied (`mirror`).
//! Padding: in sums of products of floats, terms that are padding are left out (`padding`).
//! Accuracy: each sum adds its terms in order, in blocks of a fixed length. Its bits depend neither
//! on tiles nor on pieces. The error is at most that of [`crate::gemm`].

use std::sync::Arc;

use super::around_fold::epilogue_of;
use super::factor::{len_of, set_index};
use super::lanes::Stored;
use super::machine::Machine;
use super::program::Bytecode;
use super::vector::Vector;
use crate::dtype::{DType, Element, HostData, with_element};
use crate::error::Result;
use crate::ir::{Guard, IndexMap, LoopNest, Pairs, Value, ValueId};
use crate::level::Level;
use crate::parallel;
use crate::storage::{HostStorage, Pool};
use fold::{Fold, points};
use kernel::MAX_LANES;
use operand::{Operand, Source};
use padding::Padding;
use piece::Piece;
use reducer::{Reducer, WithReducer};
use roles::{Limits, Roles};

mod fold;
mod kernel;
mod mirror;
mod operand;
mod padding;
mod piece;
mod reducer;
mod roles;
mod terms;
#[cfg(test)]
mod tests;

/// The maximum number of terms of a reduction: the table of its blocks takes at most 6 MB. An axis
/// that is only repeated may be much longer than any array.
const MAX_TERMS: usize = 1 << 26;
/// The maximum ratio of the elements of a copy to those of all inputs and the output.
const MAX_GROWTH: usize = 4;

/// A reduction over pairs and its division into tiles.
#[derive(Debug)]
pub(super) struct Tiles {
    /// The sizes of all loops.
    sizes: Vec<usize>,
    n_domain: usize,
    pairs: Pairs,
    roles: Roles,
    fold: Fold,
    /// The axis along which the output is divided into tasks, and the number of its indices for one
    /// task. Each task has one index of the axes before.
    cut: (usize, usize),
    /// Whether the lanes of a block are copied to adjacent memory if many rows read them.
    packs: bool,
    /// The inputs of which no element may be NaN or infinite: factors that are read without a guard
    /// that both factors have. Where the guard fails, the other factor is 0, and so is the product.
    finite: Vec<usize>,
    /// The padding of the rows, which is left out of the sums if the lanes are finite.
    padding: Option<Padding>,
    level: Level,
    end: End,
    /// Whether the output consists of symmetric matrices over the two own axes.
    is_symmetric: bool,
}

/// The computation that follows the sums.
#[derive(Debug)]
enum End {
    /// The sums are in the output; the epilogue, if there is one, replaces them by the results.
    InPlace(Option<Bytecode>),
    /// The rest of the nest, which reads the sums from scratch memory, its last input.
    Rest(Bytecode),
}

impl End {
    /// Compiles the values of a nest that follow a fold.
    fn new(nest: &LoopNest, fold: ValueId) -> Self {
        let layout = IndexMap::in_order(&nest.domain);
        let epilogue = || epilogue_of(nest, &[fold], &layout);
        if nest.dtype() != nest.dtypes[fold.0] {
            return Self::Rest(Bytecode::compile(&epilogue()));
        }
        let follows = fold != nest.result();
        Self::InPlace(follows.then(|| Bytecode::in_place(&epilogue())))
    }
}

impl Tiles {
    /// Chooses the roles of the factors and the division of the output, for inputs of the given
    /// types and lengths. Returns `None` if a guard belongs to no axis of an array, if the factors
    /// would have to be copied to arrays that are much larger than inputs and output, or if the
    /// reduction has too many terms.
    pub(super) fn new(nest: &LoopNest, pairs: &Pairs, inputs: &[(DType, usize)]) -> Option<Self> {
        let (sizes, n_domain) = (nest.sizes(), nest.domain.len());
        let n_terms = nest
            .reduce
            .iter()
            .fold(1, |n: usize, &size| n.saturating_mul(size));
        if n_terms > MAX_TERMS {
            return None;
        }
        let level = Level::best();
        let n_vector_lanes = level.n_lanes(pairs.dtype);
        let (guards, finite) = own_guards(nest, pairs, inputs)?;
        let elements = inputs.iter().map(|&(_, len)| len).sum::<usize>();
        let elements = elements.saturating_add(nest.output_len());
        let limits = Limits {
            n_vector_lanes,
            copy_len: elements.saturating_mul(MAX_GROWTH),
        };
        let mut roles = Roles::cheapest(nest, pairs, &guards, limits)?;
        let maps = [&roles.operands[0].map, &roles.operands[1].map];
        let end = End::new(nest, pairs.folded);
        let row_guards = match pairs.is_float_product() {
            true => &guards[roles.row_factor][..],
            false => &[],
        };
        let mut fold = Fold::new(&sizes, n_domain, maps, row_guards);
        let axes = [&roles.rows[..], &roles.batch];
        let padding = Padding::new(row_guards, &fold, &sizes, n_domain, axes);
        // Rows whose padding is never read need no copy with a border.
        let is_unread = padding
            .as_ref()
            .is_some_and(|padding| padding.covers(row_guards));
        if is_unread && finite.contains(&roles.operands[1].input) {
            let factor = pairs.factors[roles.row_factor];
            roles.operands[0] = Source::new(nest, factor, &[], &sizes).in_place()?;
            let maps = [&roles.operands[0].map, &roles.operands[1].map];
            fold = Fold::new(&sizes, n_domain, maps, row_guards);
        }
        let cut_of_patterns = padding.as_ref().and_then(|padding| padding.cut(&sizes));
        let cut = cut_of_patterns.unwrap_or_else(|| roles.cut(&sizes, n_domain, n_vector_lanes));
        let n_lanes = len_of(&roles.lanes, &sizes);
        Some(Self {
            is_symmetric: matches!(end, End::InPlace(None))
                && padding.is_none()
                && pairs.is_symmetric(nest),
            padding,
            finite,
            packs: fold.crowds(pairs.dtype.bytes(), n_lanes.min(MAX_LANES)),
            fold,
            cut,
            sizes,
            n_domain,
            pairs: pairs.clone(),
            roles,
            level,
            end,
        })
    }

    /// Returns the number of elements that are copied for each run.
    pub(super) fn copy_len(&self) -> usize {
        self.roles.operands.iter().map(Operand::copy_len).sum()
    }

    /// Computes the reduction and the rest of the nest into the output. Returns `false`, and
    /// computes nothing, if an element is infinite or NaN that would be multiplied by padding.
    pub(super) fn reduce(
        &self,
        nest: &LoopNest,
        inputs: &[&HostData],
        out: &mut HostStorage,
        pool: &Arc<Pool>,
    ) -> Result<bool> {
        let run = Run {
            tiles: self,
            nest,
            inputs,
            out,
            pool,
        };
        let Pairs {
            dtype, reduction, ..
        } = self.pairs;
        reducer::dispatch(dtype, reduction, self.level.counts_words(), run)
    }

    /// Computes the reduction by a reducer.
    fn reduce_by<F: Reducer>(&self, reducer: F, run: Run<'_>) -> Result<bool> {
        let Run {
            nest,
            inputs,
            out,
            pool,
            ..
        } = run;
        let is_finite = |input: usize| {
            let elements = F::In::slice(inputs[input]).unwrap_or_default();
            elements.iter().all(|x| x.is_finite())
        };
        if !self.finite.iter().copied().all(is_finite) {
            return Ok(false);
        }
        let [rows, lanes] = &self.roles.operands;
        let padding = self.padding.as_ref();
        let padding =
            padding.filter(|_| self.finite.contains(&lanes.input) || is_finite(lanes.input));
        let copies = [
            rows.copied::<F::In>(inputs, pool)?,
            lanes.copied::<F::In>(inputs, pool)?,
        ];
        let elements = |number: usize| -> &[F::In] {
            let operand = &self.roles.operands[number];
            let data = copies[number].as_ref();
            let data = data.map_or(inputs[operand.input], |copy| copy.data());
            F::In::slice(data).unwrap_or_default()
        };
        let operands = [elements(0), elements(1)];
        let reduce = |place: Place<'_>, out: &mut [F::Out]| {
            let piece = self.piece(reducer, operands, padding, place, out);
            if F::COUNTS_WORDS {
                self.level.run_counting_words(piece);
            } else {
                self.level.run(piece);
            }
        };
        self.compute(&reduce, nest, inputs, out, pool)?;
        Ok(true)
    }

    /// Computes the nest piece by piece. `reduce` computes the reduction of a piece. It is a trait
    /// object, so that the code for threads and for the rest of the nest is compiled once for each
    /// type of results, and not for each reducer.
    fn compute<A: Stored>(
        &self,
        reduce: &(dyn Fn(Place<'_>, &mut [A]) + Sync),
        nest: &LoopNest,
        inputs: &[&HostData],
        out: &mut HostStorage,
        pool: &Arc<Pool>,
    ) -> Result<()> {
        match &self.end {
            End::InPlace(epilogue) => {
                let out = out.elements_mut::<A>();
                self.for_each_piece(out, |first, place, out| {
                    reduce(place, out);
                    match epilogue {
                        Some(epilogue) => Machine::new(epilogue, inputs).fill(first, out),
                        None => Ok(()),
                    }
                })?;
                if self.is_mirrored() {
                    let (axis, n) = self.cut;
                    mirror::mirror(out, self.sizes[axis], n)?;
                }
                Ok(())
            }
            End::Rest(rest) => with_element!(nest.dtype(), R => {
                self.for_each_piece(out.elements_mut::<R>(), |first, place, out| {
                    let mut sums = pool.take(A::DTYPE, out.len())?;
                    reduce(place, sums.elements_mut());
                    // The epilogue reads the sums as one more input.
                    let mut with_sums = inputs.to_vec();
                    with_sums.push(sums.data());
                    let mut machine = Machine::new(rest, &with_sums);
                    // The scratch memory begins with the first sum of the piece.
                    machine.shift_input(inputs.len(), -first.cast_signed());
                    machine.fill(first, out)
                })
            }),
        }
    }

    /// Returns whether only the results on and right of the diagonal of the last two axes are
    /// computed, and then mirrored.
    fn is_mirrored(&self) -> bool {
        self.is_symmetric && mirror::supports(&self.roles, &self.sizes[..self.n_domain], self.cut)
    }

    /// Calls `f` for each piece, on all threads, with the number of its first element, its place,
    /// and its part of the output.
    fn for_each_piece<R: Send>(
        &self,
        out: &mut [R],
        f: impl Fn(usize, Place<'_>, &mut [R]) -> Result<()> + Sync,
    ) -> Result<()> {
        let (axis, n) = self.cut;
        let outer: Vec<usize> = (0..axis).collect();
        let slab = out.len() / len_of(&outer, &self.sizes);
        let n_indices = if self.n_domain == 0 {
            1
        } else {
            self.sizes[axis]
        };
        let len = slab / n_indices * n;
        let pieces = out.chunks_mut(slab).enumerate().flat_map(|(number, out)| {
            let pieces = out.chunks_mut(len).enumerate();
            pieces.map(move |(part, out)| (number, part, out))
        });
        parallel::for_each(
            pieces,
            || vec![0; self.sizes.len()],
            |index, (number, part, out)| {
                set_index(index, &outer, &self.sizes, number);
                let first = part * n;
                if self.n_domain > 0 {
                    index[axis] = first;
                }
                f(
                    number * slab + part * len,
                    (index, n.min(n_indices - first)),
                    out,
                )
            },
        )
    }

    /// Returns a piece of the output with the positions of its rows and lanes.
    fn piece<'a, F: Reducer>(
        &'a self,
        reducer: F,
        [rows_in, lanes_in]: [&'a [F::In]; 2],
        padding: Option<&'a Padding>,
        (index, n): Place<'_>,
        out: &'a mut [F::Out],
    ) -> Piece<'a, F> {
        let roles = &self.roles;
        let maps = [&roles.operands[0].map, &roles.operands[1].map];
        let layout = IndexMap::in_order(&self.sizes[..self.n_domain]);
        let strides = |axis: usize| {
            [
                maps[0].stride(axis),
                maps[1].stride(axis),
                layout.stride(axis),
            ]
        };
        // The axes before the divided one have a single index.
        let mut sizes = self.sizes.clone();
        let (cut, _) = self.cut;
        for (axis, size) in sizes.iter_mut().enumerate().take(self.n_domain) {
            match axis.cmp(&cut) {
                std::cmp::Ordering::Less => *size = 1,
                std::cmp::Ordering::Equal => *size = n,
                std::cmp::Ordering::Greater => {}
            }
        }
        // The first lane of a mirrored piece is at the diagonal.
        let mut index = index.to_vec();
        let (mut first_lane, mut row_len) = (0, out.len());
        if self.is_mirrored() {
            first_lane = index[cut];
            row_len = sizes[cut + 1];
            index[cut + 1] = first_lane;
            sizes[cut + 1] -= first_lane;
        }
        let distances = |axes: &[usize]| points(axes.iter().copied(), &sizes, strides);
        let [row_start, lane_start] = maps.map(|map| map.at(&index));
        let row_axes = padding.map_or_else(
            || roles.rows.clone(),
            |padding| padding.in_order(&roles.rows),
        );
        let patterns = padding.map(|padding| {
            let n_rows = len_of(&roles.rows, &sizes);
            padding.patterns(&index, &sizes, n_rows)
        });
        Piece {
            reducer,
            fold: &self.fold,
            packs: self.packs,
            rows_in,
            lanes_in,
            row_len,
            first_lane,
            batches: distances(&roles.batch),
            patterns,
            rows: distances(&row_axes)
                .iter()
                .map(|[row, _, place]| {
                    let place = place.wrapping_add(first_lane.cast_signed());
                    [row.wrapping_add(row_start), place]
                })
                .collect(),
            runs: distances(&roles.runs)
                .iter()
                .map(|[_, lane, place]| [lane.wrapping_add(lane_start), *place])
                .collect(),
            lanes: distances(&roles.lanes)
                .iter()
                .map(|[_, _, place]| *place)
                .collect(),
            out,
        }
    }
}

/// The place of a piece in the output: the index of its first element, and the number of indices of
/// the divided axis.
type Place<'a> = (&'a [usize], usize);

/// One run of a reduction.
struct Run<'a> {
    tiles: &'a Tiles,
    nest: &'a LoopNest,
    inputs: &'a [&'a HostData],
    out: &'a mut HostStorage,
    pool: &'a Arc<Pool>,
}

impl WithReducer for Run<'_> {
    type Output = Result<bool>;

    fn with<F: Reducer>(self, reducer: F) -> Result<bool> {
        self.tiles.reduce_by(reducer, self)
    }
}

/// Returns the guards with which both factors are read, and the inputs that must be finite. In a
/// product of floats, a guard that both factors have is needed only by the factor whose array it
/// pads. Returns `None` if a guard belongs to no axis of an array, if a factor would be read
/// outside of its input, or if a factor depends on an axis of the other.
fn own_guards(
    nest: &LoopNest,
    pairs: &Pairs,
    inputs: &[(DType, usize)],
) -> Option<([Vec<Guard>; 2], Vec<usize>)> {
    let sizes = nest.sizes();
    let factors = pairs.factors;
    let guards_of = |factor: ValueId| match &nest.values[factor.0] {
        Value::Load { guards, .. } => &guards[..],
        _ => &[],
    };
    let all = factors.map(guards_of);
    let mut own = [Vec::new(), Vec::new()];
    let mut finite = Vec::new();
    for (number, factor) in factors.into_iter().enumerate() {
        let others = all[1 - number];
        let source = Source::new(nest, factor, &[], &sizes);
        let other = Source::new(nest, factors[1 - number], &[], &sizes);
        let mut leaves_some = false;
        for guard in all[number] {
            let is_left = pairs.is_float_product()
                && others.contains(guard)
                && !source.moves_with(guard)
                && other.moves_with(guard);
            leaves_some |= is_left;
            if !is_left {
                own[number].push(guard.clone());
            }
        }
        if leaves_some {
            finite.push(source.input);
        }
        let source = Source::new(nest, factor, &own[number], &sizes);
        let is_guarded = !all[number].is_empty();
        let mut axes_of_other = pairs.own[1 - number].iter();
        let fits = || source.fits(inputs.get(source.input).map_or(0, |&(_, len)| len));
        if is_guarded && (axes_of_other.any(|&axis| source.depends_on(axis)) || !fits()) {
            return None;
        }
    }
    Some((own, finite))
}
