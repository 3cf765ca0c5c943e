//! Blocks of an output, each computed by one workgroup from staged inputs.
//!
//! Role: finds the axes along which output elements share inputs, like the rows and columns of a
//! matrix product, and chooses block sizes for a device. The matrix product is one such nest, with
//! or without operations before and after it. Distances between all pairs and convolutions are
//! others.
//!
//! ```text
//!                   block_cols
//!             ┌─────────────────────┐
//!             │ ┌────┐              │     one workgroup: the block
//!  block_rows │ │tile│ thread_rows  │     one invocation: thread_rows × thread_cols
//!             │ └────┘              │     elements of the block
//!             └─────────────────────┘
//!             thread_cols
//! ```

use tensor_core::DType;
use tensor_core::ir::{LoopNest, Value};
use tensor_core::op::{Binary, Reduce};

use super::access::{WORD_BITS, bits};
use super::placement::Placement;
use crate::limits::{KernelLimits, MatrixLimits};
use crate::tiles::{self, ShapeClass, Tile};

/// Bytes of a value in workgroup memory, except `f64`.
const VALUE_BYTES: u32 = 4;

/// Number of blocks that keeps any device busy.
pub(super) const ENOUGH_BLOCKS: usize = 128;

/// The division of a nest's output into blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Block {
    /// The output axes of rows and of columns. Each combination of indices of the other axes (the
    /// batch) has its own blocks.
    pub(super) sides: [Vec<usize>; 2],
    pub(super) tile: Tile,
    /// The cooperative matrices that compute the products; `None` for scalar arithmetic.
    pub(super) matrices: Option<Matrices>,
}

/// The division of a block among subgroups that multiply by cooperative matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Matrices {
    /// Rows and columns of a matrix.
    pub(super) side: u32,
    /// Number of parts of a block along its rows and its columns. A subgroup computes one part, a
    /// rectangle of matrices. On a device with subgroups of several sizes, the parts are as many
    /// as subgroups of the largest size; smaller subgroups share a part, and each computes it.
    pub(super) teams: [u32; 2],
}

/// The role of each value of a nest whose output is computed in blocks.
#[derive(Debug)]
pub(super) struct Roles {
    /// The values staged in workgroup memory: those of the rows, then those of the columns.
    pub(super) staged: [Vec<usize>; 2],
    /// For rows and for columns: for each value of the nest, whether it is needed to compute the
    /// staged values.
    pub(super) before: [Vec<bool>; 2],
    /// For each value of the nest, whether it is computed for each term.
    pub(super) inner: Vec<bool>,
    /// For each value of the nest, whether it is computed once, before the first term.
    pub(super) outer: Vec<bool>,
}

/// Returns the class of a batch of outputs of `rows × cols` elements; `None` if they have too few
/// rows or columns for blocks.
fn shape_class(
    [rows, cols]: [usize; 2],
    batch: usize,
    limits: &KernelLimits,
) -> Option<ShapeClass> {
    if rows.min(cols) < limits.least_side {
        return None;
    }
    // Large blocks need enough blocks to keep the device busy, so this class depends on the
    // block size.
    let large = &limits.tiles.tile(ShapeClass::Large);
    let n_blocks = |tile: &Tile| {
        let [high, wide] = tile.block().map(|side| side as usize);
        rows.div_ceil(high) * cols.div_ceil(wide) * batch
    };
    Some(if rows.max(cols) <= 2 * Tile::NARROW {
        ShapeClass::Small
    } else if cols <= Tile::NARROW {
        ShapeClass::Tall
    } else if rows <= Tile::NARROW {
        ShapeClass::Wide
    } else if n_blocks(large) >= ENOUGH_BLOCKS && rows.min(cols) >= large.block_rows as usize {
        ShapeClass::Large
    } else {
        ShapeClass::Square
    })
}

impl Block {
    /// Returns the blocks of a nest's output; `None` if the nest cannot be computed in
    /// blocks, or if blocks would not be faster.
    pub(super) fn new(nest: &LoopNest, limits: &KernelLimits) -> Option<Self> {
        /// Minimum number of terms of a reduction.
        const LONG: usize = 2;
        /// Maximum number of values of the nest.
        const MAX_VALUES: usize = 32;
        /// Maximum number of statements per term in one invocation.
        const MAX_STATEMENTS: u32 = 512;
        /// Maximum number of values per element and term for class `Large`. A nest with more, or
        /// with several accumulators per element, uses the smaller tiles of class `Square`.
        const PLAIN: usize = 1;
        let is_gather = |value: &Value| value.checked_index().is_some();
        if nest.output_len() < limits.least_outputs
            || nest.reduce_len() < LONG
            || nest.values.len() > MAX_VALUES
            || nest.values.iter().any(is_gather)
        {
            return None;
        }
        let sides = sides(nest)?;
        let placement = Placement::new(nest, &sides);
        let roles = Roles::new(nest, &placement);
        let count = |side: &Vec<usize>| side.iter().map(|&axis| nest.domain[axis]).product();
        let counts: [usize; 2] = [count(&sides[0]), count(&sides[1])];
        let batch = nest.output_len() / (counts[0] * counts[1]);
        // Values that every invocation computes for each element and each term.
        let n_both = (0..nest.values.len())
            .filter(|&id| roles.inner[id] && placement.spread[id] == [true, true])
            .count();
        let is_reduction = |value: &Value| matches!(value, Value::Reduced(..));
        let n_reductions = nest.values.iter().filter(|value| is_reduction(value));
        let is_plain = n_both <= PLAIN && n_reductions.count() == 1 && bits(nest.dtype()).is_none();
        let class = match shape_class(counts, batch, limits)? {
            ShapeClass::Large if !is_plain => ShapeClass::Square,
            class => class,
        };
        let by_matrices = || {
            let is_wide = matches!(class, ShapeClass::Large | ShapeClass::Square);
            let class = ShapeClass::Matrices;
            is_wide.then(|| Self::of_class(nest, &sides, class, &roles, limits))?
        };
        let block =
            by_matrices().or_else(|| Self::of_class(nest, &sides, class, &roles, limits))?;
        // All elements of the tile are unrolled, so the text grows with their number.
        let elements = block.tile.thread_rows * block.tile.thread_cols;
        let statements = u32::try_from(n_both)
            .unwrap_or(u32::MAX)
            .saturating_mul(elements);
        (statements <= MAX_STATEMENTS).then_some(block)
    }

    /// Returns the blocks of a class, in the sizes of the table or, if those do not fit the device,
    /// in the default sizes.
    fn of_class(
        nest: &LoopNest,
        sides: &[Vec<usize>; 2],
        class: ShapeClass,
        roles: &Roles,
        limits: &KernelLimits,
    ) -> Option<Self> {
        let sizes = [limits.tiles.tile(class), tiles::default(class)];
        let mut blocks = sizes.into_iter().filter_map(|tile| {
            let block = Self::with_sides(nest, sides, class, tile, roles, limits)?;
            let fits = block.tile.invocations() <= limits.invocations;
            fits.then_some(block)?.within_memory(nest, roles, limits)
        });
        blocks.next()
    }

    /// Returns the blocks with as many staged terms as the workgroup memory has room for; `None` if
    /// there is too little memory. The number of terms must stay a multiple of 4, and of the side
    /// of a cooperative matrix.
    fn within_memory(
        mut self,
        nest: &LoopNest,
        roles: &Roles,
        limits: &KernelLimits,
    ) -> Option<Self> {
        let multiple = self.matrices.map_or(4, |matrices| matrices.side);
        while self.workgroup_bytes(nest, roles) > limits.workgroup_bytes {
            if !self.tile.block_inner.is_multiple_of(2 * multiple) {
                return None;
            }
            self.tile.block_inner /= 2;
        }
        Some(self)
    }

    /// Returns the blocks of a nest's output with the given sizes, without a check of the device's
    /// limits.
    pub(super) fn sized(
        nest: &LoopNest,
        class: ShapeClass,
        tile: Tile,
        limits: &KernelLimits,
    ) -> Option<Self> {
        let sides = sides(nest)?;
        let roles = Roles::new(nest, &Placement::new(nest, &sides));
        Self::with_sides(nest, &sides, class, tile, &roles, limits)
    }

    fn with_sides(
        nest: &LoopNest,
        sides: &[Vec<usize>; 2],
        class: ShapeClass,
        tile: Tile,
        roles: &Roles,
        limits: &KernelLimits,
    ) -> Option<Self> {
        let mut block = Self {
            sides: sides.clone(),
            tile,
            matrices: None,
        };
        block.tile = tile.fitted(class, [0, 1].map(|side| block.count(nest, side)));
        if class == ShapeClass::Matrices {
            let limits = limits.matrices.filter(|_| roles.multiply_halves(nest))?;
            block.matrices = Some(Matrices::new(&block.tile, limits)?);
        }
        block.tile.fault().is_none().then_some(block)
    }

    fn workgroup_bytes(&self, nest: &LoopNest, roles: &Roles) -> u32 {
        if self.matrices.is_some() {
            return self.matrix_bytes(nest);
        }
        let of_side = |side: usize| {
            let words = roles.staged[side].iter().map(|&id| match nest.dtypes[id] {
                DType::F64 => 2,
                _ => 1,
            });
            // Includes the padding of `stride`.
            let values = self.tile.block_inner * self.tile.stride(side) * self.tile.vector(side);
            words.sum::<u32>().saturating_mul(values)
        };
        let cells = self.cells(nest).unwrap_or(0) * self.tile.block_rows;
        // Plus the two words of the early exit, `wg_open` and `wg_goes_on`.
        let values = of_side(0)
            .saturating_add(of_side(1))
            .saturating_add(cells + 2);
        values.saturating_mul(VALUE_BYTES)
    }

    /// Returns the distance between two terms of staged halves, in elements.
    pub(super) fn half_stride(&self, side: usize) -> u32 {
        /// Alignment of a load of a matrix, in halves. So many halves between the terms put
        /// neighbouring terms into different memory banks.
        const ALIGNED: u32 = 8;
        self.tile.block()[side] + ALIGNED
    }

    /// Returns the distance between two rows of sums in workgroup memory, in elements.
    pub(super) fn total_stride(&self) -> u32 {
        /// Alignment of a store of a matrix, in elements of `f32`.
        const ALIGNED: u32 = 4;
        self.tile.block_cols + ALIGNED
    }

    /// Returns the workgroup memory of a block computed by matrices: two factors of halves, and the
    /// sums.
    fn matrix_bytes(&self, nest: &LoopNest) -> u32 {
        const HALF_BYTES: u32 = 2;
        let halves = self.tile.block_inner * (self.half_stride(0) + self.half_stride(1));
        let cells = self.cells(nest).unwrap_or(0);
        let totals = self.tile.block_rows * (self.total_stride() + cells);
        halves * HALF_BYTES + totals * VALUE_BYTES
    }

    /// Returns how many neighbouring elements of a short type an invocation packs into one word of
    /// workgroup memory.
    pub(super) fn packed(&self, bits: u32) -> u32 {
        self.tile.vector(1).min(WORD_BITS / bits)
    }

    /// Returns the number of words of workgroup memory for the packed elements of a row of a block;
    /// `None` for types that are not packed.
    pub(super) fn cells(&self, nest: &LoopNest) -> Option<u32> {
        bits(nest.dtype()).map(|bits| self.tile.block_cols / self.packed(bits))
    }

    /// Returns the number of output elements along a side (0: rows, 1: columns).
    pub(super) fn count(&self, nest: &LoopNest, side: usize) -> usize {
        let axes = self.sides[side].iter();
        axes.map(|&axis| nest.domain[axis]).product()
    }

    /// Returns the number of blocks along a side.
    pub(super) fn n_blocks_along(&self, nest: &LoopNest, side: usize) -> usize {
        let size = self.tile.block()[side] as usize;
        self.count(nest, side).div_ceil(size)
    }

    /// Returns the output axes that belong neither to rows nor to columns.
    pub(super) fn batch_axes(&self, nest: &LoopNest) -> Vec<usize> {
        let is_batch = |axis: &usize| !self.sides.iter().any(|side| side.contains(axis));
        (0..nest.domain.len()).filter(is_batch).collect()
    }

    /// Returns the number of blocks of the whole output.
    pub(super) fn n_blocks(&self, nest: &LoopNest) -> usize {
        let batch = self.batch_axes(nest).into_iter();
        let batch: usize = batch.map(|axis| nest.domain[axis]).product();
        batch * self.n_blocks_along(nest, 0) * self.n_blocks_along(nest, 1)
    }
}

impl Matrices {
    /// Divides a block of these sizes; `None` if its sides are not multiples of the matrices.
    fn new(tile: &Tile, limits: MatrixLimits) -> Option<Self> {
        let MatrixLimits { side, lanes } = limits;
        let invocations = tile.invocations();
        if !invocations.is_multiple_of(lanes) || !tile.block_inner.is_multiple_of(side) {
            return None;
        }
        let n_teams = invocations / lanes;
        let whole = |teams: &[u32; 2]| {
            let mut sides = tile.block().into_iter().zip(teams);
            sides.all(|(block, teams)| block.is_multiple_of(teams * side))
        };
        // A subgroup loads the matrices of its rows and of its columns for each term.
        let loads = |teams: &[u32; 2]| {
            let sides = tile.block().into_iter().zip(teams);
            sides.map(|(block, teams)| block / teams).sum::<u32>()
        };
        let numbers = (1..=n_teams).filter(|rows| n_teams.is_multiple_of(*rows));
        let divisions = numbers.map(|rows| [rows, n_teams / rows]).filter(whole);
        let teams = divisions.min_by_key(loads)?;
        Some(Self { side, teams })
    }

    /// Returns the rows and columns of the part of a block that a subgroup computes.
    pub(super) fn part(&self, tile: &Tile) -> [u32; 2] {
        let [rows, cols] = tile.block();
        [rows / self.teams[0], cols / self.teams[1]]
    }
}

impl Roles {
    /// Returns whether the nest is a sum of products that cooperative matrices can compute: both
    /// factors are numbers of type `f16`, one depends on the row, the other on the column.
    fn multiply_halves(&self, nest: &LoopNest) -> bool {
        let (&[row], &[col]) = (&self.staged[0][..], &self.staged[1][..]) else {
            return false;
        };
        let is_half = |id: usize| match nest.values[id] {
            Value::Cast(DType::F32, half) => nest.dtypes[half.0] == DType::F16,
            _ => false,
        };
        let mut reductions = nest.values.iter().filter_map(|value| match value {
            Value::Reduced(op, operand) => Some((*op, operand.0)),
            _ => None,
        });
        let (Some((Reduce::Sum, product)), None) = (reductions.next(), reductions.next()) else {
            return false;
        };
        let is_product = match nest.values[product] {
            Value::Binary(Binary::Mul, a, b) => {
                [a.0, b.0] == [row, col] || [a.0, b.0] == [col, row]
            }
            _ => false,
        };
        is_product && is_half(row) && is_half(col)
    }

    pub(super) fn new(nest: &LoopNest, placement: &Placement) -> Self {
        let n_values = nest.values.len();
        let mut roles = Self {
            staged: [Vec::new(), Vec::new()],
            before: [vec![false; n_values], vec![false; n_values]],
            inner: vec![false; n_values],
            outer: vec![false; n_values],
        };
        let mut wanted = vec![false; n_values];
        // Backwards, so that a value's uses are visited before the value.
        for id in (0..n_values).rev() {
            match nest.values[id] {
                Value::Reduced(_, operand) if placement.needed[id] => {
                    let folded = placement.folded(operand);
                    folded.iter().for_each(|operand| wanted[operand.0] = true);
                    continue;
                }
                Value::Reduced(..) => continue,
                _ => {}
            }
            let [along_rows, along_cols] = placement.spread[id];
            let (is_of_term, is_of_one) = (placement.levels[id] > 0, along_rows != along_cols);
            let side = usize::from(along_cols);
            // Values of a reduced term that depend on rows only or on columns only are staged: one
            // computation serves the whole block. All other wanted values are computed by each
            // invocation, in the loop over terms or before it.
            if wanted[id] && is_of_term && is_of_one {
                roles.staged[side].push(id);
                roles.before[side][id] = true;
            } else if wanted[id] {
                let place = if is_of_term {
                    &mut roles.inner
                } else {
                    &mut roles.outer
                };
                place[id] = true;
            }
            for operand in nest.values[id].operands() {
                wanted[operand.0] |= roles.inner[id] || roles.outer[id];
                for side in 0..2 {
                    // An operand that is the same for the whole block is computed outside of the
                    // stage, so the stage only reads it.
                    let changes = placement.levels[operand.0] > 0
                        || placement.spread[operand.0] != [false, false];
                    if roles.before[side][id] && changes {
                        roles.before[side][operand.0] = true;
                    } else if roles.before[side][id] {
                        wanted[operand.0] = true;
                    }
                }
            }
        }
        roles.staged.iter_mut().for_each(|staged| staged.reverse());
        roles
    }
}

/// Returns the axes of rows and of columns. An axis moves a load if the position of the load
/// depends on the axis. The two groups of axes are chosen such that each moves a load of the
/// reduction that the other does not move. Of several pairs of groups, the pair whose smaller side
/// is the longest is returned.
fn sides(nest: &LoopNest) -> Option<[Vec<usize>; 2]> {
    let body = nest.body();
    let loads: Vec<_> = nest
        .values
        .iter()
        .zip(&body)
        .filter_map(|(value, in_body)| match value {
            Value::Load { map, .. } if *in_body => Some(map),
            _ => None,
        })
        // Loads that no reduced axis moves are read once anyway, so sharing them saves nothing.
        .filter(|map| {
            map.strides[nest.domain.len()..]
                .iter()
                .any(|&stride| stride != 0)
        })
        .collect();
    // Axes that move the same loads form one group.
    let mut groups: Vec<(Vec<bool>, Vec<usize>)> = Vec::new();
    for axis in (0..nest.domain.len()).filter(|&axis| nest.domain[axis] > 1) {
        let moved: Vec<bool> = loads.iter().map(|map| map.stride(axis) != 0).collect();
        match groups.iter_mut().find(|(known, _)| *known == moved) {
            Some((_, axes)) => axes.push(axis),
            None => groups.push((moved, vec![axis])),
        }
    }
    let count = |axes: &Vec<usize>| {
        axes.iter()
            .map(|&axis| nest.domain[axis])
            .product::<usize>()
    };
    // Whether `one` moves a load that `other` does not move.
    let is_beyond = |one: &[bool], other: &[bool]| one.iter().zip(other).any(|(a, b)| *a && !*b);
    let mut best: Option<(usize, [Vec<usize>; 2])> = None;
    for (place, (moved, axes)) in groups.iter().enumerate() {
        for (other_moved, other_axes) in &groups[..place] {
            if !is_beyond(moved, other_moved) || !is_beyond(other_moved, moved) {
                continue;
            }
            let worth = count(axes).min(count(other_axes));
            if best.as_ref().is_none_or(|(most, _)| worth > *most) {
                let mut sides = [other_axes.clone(), axes.clone()];
                // The last axis of the output belongs to the columns, because columns are
                // neighbours in memory.
                sides.sort_by_key(|axes| axes.last().copied());
                best = Some((worth, sides));
            }
        }
    }
    let (_, sides) = best?;
    // Short elements are packed along the last axes of the output, so these axes must be the
    // columns.
    let cols = &sides[1];
    let is_end = cols
        .iter()
        .rev()
        .copied()
        .eq((0..nest.domain.len()).rev().take(cols.len()));
    (bits(nest.dtype()).is_none() || is_end).then_some(sides)
}

#[cfg(test)]
mod tests {
    use tensor_core::{Tensor, einsum};

    use super::super::tests::nests;
    use super::*;

    #[test]
    fn the_side_with_the_last_axis_of_the_output_has_the_columns() {
        let zeros =
            |shape: &[usize]| Tensor::from_vec(shape, vec![0.0_f32; shape.iter().product()]);
        let (pairs, rows) = (zeros(&[6, 7, 8]), zeros(&[5, 8]));
        let of = |equation: &str| sides(&nests(&einsum(equation, &[&pairs, &rows]))[0]).unwrap();
        // The axes a and c belong together, before, around and after b. Neighbours are one axis.
        assert_eq!(of("ack,bk->acb"), [[0], [1]]);
        assert_eq!(of("ack,bk->abc"), [vec![1], vec![0, 2]]);
        assert_eq!(of("ack,bk->bac"), [[0], [1]]);
    }
}
