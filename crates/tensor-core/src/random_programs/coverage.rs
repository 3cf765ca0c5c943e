//! Statistics on the nests in plans of random programs.
//!
//! Role: verifies that a run reached the code paths that an executor may have for special nests,
//! without a query to any executor. The thresholds here are therefore sizes of nests, chosen above
//! the executors' own thresholds.

use crate::dtype::Scalar;
use crate::ir::{Contract, IndexMap, LoopNest, Pairs, Scatter, Value, ValueId};
use crate::op::{Binary, Compare, Unary};

/// The maximum number of lanes in a block.
const BLOCK: usize = 1024;
/// The minimum number of lanes for which lanes run along the last axis alone.
const LANES: usize = 512;
/// The number of rows and of columns of a transposed block.
const BLOCK_SIDE: usize = 16;
/// The minimum number of multiplications of a product that is divided into pieces.
const PIECES: usize = 1 << 19;
/// The minimum size of both sides of a product that is narrow, but not a few vectors.
const NARROW: usize = 4;
/// The minimum size of both sides of a product that is a large matrix.
const LARGE: usize = 64;
/// The minimum number of values of one block for which a reduction is split into parts.
const PART_VALUES: usize = 1 << 20;
/// The length of rows from which chains of operations run row by row.
const CHAINED: usize = 64;
/// The maximum length of a row that a chain folds as a whole.
const CHAINED_IN_CHUNKS: usize = 1 << 16;
/// The number of elements that the host scans at a time.
const SCANNED: usize = 1 << 12;
/// A line length above the limit for sorting by comparisons.
const COMPARED: usize = 512;
/// A line length that several threads sort together.
const SORTED_IN_RUNS: usize = 1 << 16;

/// The minimum number of elements per index of a wide scatter.
const WIDE: usize = 16;

/// The number of nests of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Coverage {
    /// Reductions over at least 512 points.
    pub(super) long_folds: usize,
    /// Long reductions with an axis within 2 of the length of a block or half a block.
    pub(super) folds_near_a_block: usize,
    /// Reductions with so much work for so few outputs that they are split into parts.
    pub(super) parts: usize,
    /// Reductions over all pairs of plain inputs with at least 4 rows and 64 lanes.
    pub(super) pairs: usize,
    /// Reductions over all pairs of plain inputs with at least 4 rows and [`LANES`] lanes.
    pub(super) wide_pairs: usize,
    /// Wide pairs that reduce comparisons.
    pub(super) compared_pairs: usize,
    /// Pairs that count ones.
    pub(super) counted_pairs: usize,
    /// Pairs whose rows are padded.
    pub(super) padded_pairs: usize,
    /// Pairs that reduce several axes.
    pub(super) pairs_over_axes: usize,
    /// Pairs of which neighbouring rows of the output meet other lanes.
    pub(super) alternating_pairs: usize,
    /// Pairs of elements of one array, whose result is a symmetric matrix.
    pub(super) symmetric_pairs: usize,
    /// Products with an epilogue and at least [`PIECES`] multiplications, in several pieces.
    pub(super) cut_products: usize,
    /// Products of which a side has between [`NARROW`] and [`LARGE`] elements.
    pub(super) narrow_products: usize,
    /// Products that are narrow and have sums of more than 512 terms.
    pub(super) long_products: usize,
    /// Products over results of another product: both factors have the same guard.
    pub(super) merged_products: usize,
    /// Products with row axes on both sides of a column axis in the output, or the reverse.
    pub(super) split_products: usize,
    /// Products with a factor that is padded or reads elements twice.
    pub(super) window_products: usize,
    /// Reductions by `All` or `Any` that may stop after a block of their elements: they have more
    /// than two blocks of elements, and the last output axis is shorter than [`LANES`].
    pub(super) stops_in_blocks: usize,
    /// Reductions by `All` or `Any` that may stop after a point: they have at least 8 points, and
    /// the last output axis has at least [`LANES`] elements.
    pub(super) stops_in_points: usize,
    /// Transpositions of planes with more than [`BLOCK_SIDE`] rows and columns.
    pub(super) transpositions: usize,
    /// Elements of padded arrays.
    pub(super) padded_moves: usize,
    /// Elements of one of several arrays, or of a constant, chosen by position.
    pub(super) joins: usize,
    /// Gathers of runs of elements that follow one index.
    pub(super) gathered_runs: usize,
    /// Gathers of elements by an index for each.
    pub(super) gathered_elements: usize,
    /// Scans of many short lines.
    pub(super) short_scans: usize,
    /// Scans of lines of more than [`SCANNED`] elements.
    pub(super) long_scans: usize,
    /// Scans of points of more than [`SCANNED`] elements.
    pub(super) wide_scans: usize,
    /// Scans of few lines that are long enough for several threads.
    pub(super) scans_in_parts: usize,
    /// Sorts of contiguous lines of at most [`COMPARED`] elements.
    pub(super) short_sorts: usize,
    /// Sorts of contiguous lines of more than [`COMPARED`] elements.
    pub(super) long_sorts: usize,
    /// Sorts of lines whose elements are apart in memory.
    pub(super) sorts_of_columns: usize,
    /// Sorts of one line that is long enough for several threads.
    pub(super) sorts_in_runs: usize,
    /// Scatters of an index along an axis before or after the others.
    pub(super) scatters: usize,
    /// Scatters of several folds, or with operations after them.
    pub(super) scatters_with_more: usize,
    /// Scatters of at least [`WIDE`] elements with each index.
    pub(super) wide_scatters: usize,
    /// Scatters with an index for each of several columns.
    pub(super) scatters_of_columns: usize,
    /// Scatters whose elements are divided into parts.
    pub(super) scatters_in_parts: usize,
    /// Chains of operations that the host computes row by row.
    pub(super) chains: usize,
    /// Chains of operations on rows, with a fold of each row.
    pub(super) folded_chains: usize,
    /// Chains that fold rows in several chunks.
    pub(super) chains_in_chunks: usize,
}

impl Coverage {
    /// Returns each kind with its count and the minimum count for a run of 2,000 programs.
    pub(super) fn kinds(&self) -> [(&'static str, usize, usize); 40] {
        [
            ("long folds", self.long_folds, 50),
            ("folds near a block", self.folds_near_a_block, 4),
            ("folds in parts", self.parts, 2),
            ("pairs", self.pairs, 30),
            ("wide pairs", self.wide_pairs, 25),
            ("compared pairs", self.compared_pairs, 8),
            ("pairs that count ones", self.counted_pairs, 4),
            ("padded pairs", self.padded_pairs, 8),
            ("pairs over several axes", self.pairs_over_axes, 10),
            ("pairs with alternating lanes", self.alternating_pairs, 2),
            ("symmetric pairs", self.symmetric_pairs, 4),
            ("cut products", self.cut_products, 4),
            ("narrow products", self.narrow_products, 20),
            ("long products", self.long_products, 4),
            ("merged products", self.merged_products, 3),
            ("split products", self.split_products, 10),
            ("products of windows", self.window_products, 8),
            (
                "folds that may stop after a block",
                self.stops_in_blocks,
                20,
            ),
            ("folds that may stop after a point", self.stops_in_points, 6),
            ("transpositions", self.transpositions, 4),
            ("padded moves", self.padded_moves, 4),
            ("joins", self.joins, 20),
            ("gathered runs", self.gathered_runs, 10),
            ("gathered elements", self.gathered_elements, 10),
            ("short scans", self.short_scans, 3),
            ("long scans", self.long_scans, 8),
            ("wide scans", self.wide_scans, 2),
            ("scans in parts", self.scans_in_parts, 1),
            ("short sorts", self.short_sorts, 3),
            ("long sorts", self.long_sorts, 3),
            ("sorts of columns", self.sorts_of_columns, 5),
            ("sorts in runs", self.sorts_in_runs, 1),
            ("scatters", self.scatters, 10),
            ("scatters with more", self.scatters_with_more, 5),
            ("wide scatters", self.wide_scatters, 1),
            ("scatters of columns", self.scatters_of_columns, 5),
            ("scatters in parts", self.scatters_in_parts, 1),
            ("chains", self.chains, 15),
            ("folded chains", self.folded_chains, 10),
            ("chains in chunks", self.chains_in_chunks, 1),
        ]
    }

    /// Adds a nest to the statistics.
    pub(super) fn count(&mut self, nest: &LoopNest) {
        if nest.sizes().contains(&0) {
            return;
        }
        if let Some(contract) = &nest.contract {
            self.count_product(nest, contract);
        } else if let Some((_, scan)) = nest.scan() {
            self.count_scan(nest, scan.axis);
        } else if let Some(sort) = nest.sort() {
            self.count_sort(nest, sort.axis);
        } else if let Some(scatter) = Scatter::from_nest(nest) {
            self.count_scatter(nest, &scatter);
        } else if !nest.reduce.is_empty() {
            self.count_fold(nest);
        } else {
            self.chains += usize::from(is_chain(nest));
            self.count_move(nest);
        }
    }

    fn count_scan(&mut self, nest: &LoopNest, axis: usize) {
        let width: usize = nest.domain[axis + 1..].iter().product();
        let line = nest.domain[axis] * width;
        self.short_scans += usize::from(line < SCANNED && nest.output_len() > SCANNED / 2);
        self.long_scans += usize::from(line > SCANNED);
        self.wide_scans += usize::from(width > SCANNED);
        let n_chains = nest.output_len() / line * width.div_ceil(SCANNED);
        let is_long = nest.domain[axis] * width.min(SCANNED) >= 16 * SCANNED;
        self.scans_in_parts += usize::from(n_chains <= 32 && is_long);
    }

    fn count_sort(&mut self, nest: &LoopNest, axis: usize) {
        let width: usize = nest.domain[axis + 1..].iter().product();
        let n = nest.domain[axis];
        self.short_sorts += usize::from(width == 1 && (2..=COMPARED).contains(&n));
        self.long_sorts += usize::from(width == 1 && n > COMPARED);
        self.sorts_of_columns += usize::from(width > 1 && n > 1);
        self.sorts_in_runs += usize::from(nest.output_len() == n && n >= SORTED_IN_RUNS);
    }

    fn count_scatter(&mut self, nest: &LoopNest, scatter: &Scatter) {
        let width: usize = nest.domain[scatter.axis + 1..].iter().product();
        let depends = nest.dependence(scatter.at);
        let is_one_of_each = depends[scatter.axis + 1..nest.domain.len()].contains(&true);
        let is_plain = scatter.folds.len() == 1 && scatter.folds[0].folded == nest.result();
        self.scatters += 1;
        self.scatters_with_more += usize::from(!is_plain);
        self.wide_scatters += usize::from(width >= WIDE && !is_one_of_each);
        self.scatters_of_columns += usize::from(is_one_of_each);
        self.scatters_in_parts += usize::from(width < WIDE && nest.reduce_len() * width > 1 << 16);
    }

    fn count_move(&mut self, nest: &LoopNest) {
        let last = nest.domain.len().wrapping_sub(1);
        match &nest.values[nest.result().0] {
            Value::Load { guards, .. } if !guards.is_empty() => self.padded_moves += 1,
            Value::Load { map, .. } => {
                let is_long = |axis: usize| nest.domain[axis] > BLOCK_SIDE;
                let is_row = |axis: usize| map.stride(axis) == 1 && is_long(axis);
                let is_turned = map.stride(last).unsigned_abs() > BLOCK_SIDE;
                self.transpositions +=
                    usize::from(is_turned && is_long(last) && (0..last).any(is_row));
            }
            Value::Select(condition, ..) => {
                let by_position = match &nest.values[condition.0] {
                    Value::Inside(_) => true,
                    Value::Compare(_, a, _) => matches!(nest.values[a.0], Value::Index(_)),
                    _ => false,
                };
                self.joins += usize::from(by_position);
            }
            Value::Gather { at, .. } => {
                if let Value::Load { map, .. } = &nest.values[at.0] {
                    let counter = match map.stride(last) {
                        0 => &mut self.gathered_runs,
                        _ => &mut self.gathered_elements,
                    };
                    *counter += 1;
                }
            }
            _ => {}
        }
    }

    fn count_product(&mut self, nest: &LoopNest, contract: &Contract) {
        let (rows, cols) = (&contract.rows, &contract.cols);
        let has_epilogue = contract.sum != nest.result();
        let multiplications = nest.output_len() * nest.reduce_len();
        let is_cut = has_epilogue && multiplications >= PIECES;
        let side = |axes: &[usize]| {
            axes.iter()
                .map(|&axis| nest.domain[axis])
                .product::<usize>()
        };
        let is_narrow = (NARROW..LARGE).contains(&side(rows).min(side(cols)));
        // Columns lie between the first and the last row axis, or the reverse.
        let encloses = |outer: &[usize], inner: &[usize]| {
            let within = |axis: &usize| outer.first() < Some(axis) && Some(axis) < outer.last();
            inner.iter().any(within)
        };
        let is_window = |factor: ValueId| match &nest.values[factor.0] {
            Value::Load { map, guards, .. } => !guards.is_empty() || overlaps(map),
            _ => false,
        };
        self.cut_products += usize::from(is_cut);
        self.narrow_products += usize::from(is_narrow);
        self.long_products += usize::from(is_narrow && nest.reduce_len() > BLOCK / 2);
        let guards = |factor: ValueId| match &nest.values[factor.0] {
            Value::Load { guards, .. } => &guards[..],
            _ => &[],
        };
        let is_shared = |guard| guards(contract.rhs).contains(guard);
        self.merged_products += usize::from(guards(contract.lhs).iter().any(is_shared));
        self.split_products += usize::from(encloses(rows, cols) || encloses(cols, rows));
        self.window_products += usize::from(is_window(contract.lhs) || is_window(contract.rhs));
    }

    fn count_fold(&mut self, nest: &LoopNest) {
        let (outputs, points) = (nest.output_len(), nest.reduce_len());
        let last = nest.domain.last().copied().unwrap_or(1);
        let is_near = |&size: &usize| size.abs_diff(BLOCK) <= 2 || size.abs_diff(BLOCK / 2) <= 2;
        self.long_folds += usize::from(points >= BLOCK / 2);
        self.folds_near_a_block += usize::from(nest.reduce.iter().any(is_near));
        let values = nest.values.len() * points;
        let a_block = if outputs < BLOCK && last >= LANES {
            outputs
        } else {
            1
        };
        self.parts += usize::from(outputs < BLOCK && values * a_block >= PART_VALUES);
        let may_stop = nest.values.iter().all(|value| match value {
            Value::Reduced(op, _) => op.annihilator().is_some(),
            _ => true,
        });
        self.stops_in_blocks += usize::from(may_stop && last < LANES && points > 2 * BLOCK);
        self.stops_in_points += usize::from(may_stop && last >= LANES && points >= 8);
        if pairs(nest).is_none() && is_chain(nest) {
            self.folded_chains += 1;
            self.chains_in_chunks += usize::from(points > CHAINED_IN_CHUNKS);
        }
        if let Some(pairs) = pairs(nest) {
            self.pairs += 1;
            self.wide_pairs += usize::from(last >= LANES);
            self.compared_pairs += usize::from(pairs.is_compared && last >= LANES);
            self.counted_pairs += usize::from(pairs.counts_ones);
            self.padded_pairs += usize::from(pairs.is_padded);
            self.pairs_over_axes += usize::from(nest.reduce.len() > 1);
            self.alternating_pairs += usize::from(pairs.alternates);
            let is_symmetric = Pairs::from_nest(nest).is_some_and(|it| it.is_symmetric(nest));
            self.symmetric_pairs += usize::from(is_symmetric && last >= LARGE);
        }
    }
}

/// Returns `true` if two loops walk an input with the same stride, so that they read elements
/// repeatedly.
fn overlaps(map: &IndexMap) -> bool {
    let mut strides: Vec<isize> = map
        .strides
        .iter()
        .copied()
        .filter(|&step| step != 0)
        .collect();
    strides.sort_unstable();
    strides.windows(2).any(|pair| pair[0] == pair[1])
}

/// A nest that computes one reduction for each pair of a row and a lane.
struct PairKind {
    is_compared: bool,
    counts_ones: bool,
    is_padded: bool,
    /// Whether neighbouring rows of the output meet other lanes.
    alternates: bool,
}

/// Returns the kind of a nest that computes one reduction for each pair of a row and a lane; `None`
/// for other nests. The reduced value must be `x * y`, `x + y`, `|x - y|`, the sum of the products
/// of bytes of `x` and `y`, a comparison of one of these with an `f32` constant, or the number of
/// ones of `x & y` or `x ^ y`. One of `x` and `y` must not depend on the lane, and the other must
/// not depend on the row; there must be at least 4 rows and 64 lanes. If neighbouring rows of the
/// output meet other lanes, the rows are those of the last two axes before the lanes.
fn pairs(nest: &LoopNest) -> Option<PairKind> {
    let [.., last_rows, n_lanes] = nest.domain[..] else {
        return None;
    };
    let one_fold = nest
        .values
        .iter()
        .filter(|value| matches!(value, Value::Reduced(..)));
    if n_lanes < 64 || one_fold.count() != 1 {
        return None;
    }
    let of = |id: ValueId| &nest.values[id.0];
    let folded = nest.values.iter().find_map(|value| match value {
        Value::Reduced(_, operand) => Some(*operand),
        _ => None,
    })?;
    let (joined, is_compared) = match *of(folded) {
        Value::Compare(Compare::Lt | Compare::Le, joined, bound) => {
            let is_plain = matches!(of(bound), Value::Const(Scalar::F32(_)));
            is_plain.then_some((joined, true))?
        }
        _ => (folded, false),
    };
    let (x, y, counts_ones) = match *of(joined) {
        Value::Binary(Binary::Mul | Binary::Add | Binary::Dot4I8, x, y) => (x, y, false),
        Value::Unary(Unary::Abs, difference) => match *of(difference) {
            Value::Binary(Binary::Sub, x, y) => (x, y, false),
            _ => return None,
        },
        Value::Unary(Unary::CountOnes, bits) => match *of(bits) {
            Value::Binary(Binary::And | Binary::Xor, x, y) => (x, y, true),
            _ => return None,
        },
        _ => return None,
    };
    let n_axes = nest.domain.len();
    let load = |id: ValueId| match of(id) {
        Value::Load { map, guards, .. } => Some((map, !guards.is_empty())),
        _ => None,
    };
    let is_lane = |id: ValueId| {
        load(id).is_some_and(|(map, is_padded)| map.stride(n_axes - 1) == 1 && !is_padded)
    };
    let (row, lane) = if is_lane(y) { (x, y) } else { (y, x) };
    let ((row, is_padded), (lane, _)) = (load(row)?, load(lane)?);
    let alternates = lane.stride(n_axes - 2) != 0;
    let row_axis = n_axes - if alternates { 3.min(n_axes) } else { 2 };
    let n_rows = nest.domain[row_axis] * if alternates { last_rows } else { 1 };
    let is_pair = is_lane(x) != is_lane(y)
        && row.stride(n_axes - 1) == 0
        && row.stride(row_axis) != 0
        && lane.stride(row_axis) == 0;
    (is_pair && n_rows >= 4).then_some(PairKind {
        is_compared,
        counts_ones,
        is_padded,
        alternates,
    })
}

/// Returns whether a nest is a chain of operations on floats, on rows of neighbours.
fn is_chain(nest: &LoopNest) -> bool {
    let sizes = nest.sizes();
    let Some(last) = sizes.len().checked_sub(1) else {
        return false;
    };
    let is_operation = |id: ValueId| {
        let value = &nest.values[id.0];
        matches!(value, Value::Unary(..) | Value::Binary(..))
    };
    let is_supported = |(id, value): (usize, &Value)| match value {
        Value::Const(_) => true,
        Value::Load { map, guards, .. } => guards.is_empty() && matches!(map.stride(last), 0 | 1),
        Value::Unary(Unary::Exp | Unary::Neg | Unary::Abs | Unary::Tanh, _)
        | Value::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div, ..) => {
            let n_before = value.operands().filter(|&it| is_operation(it)).count();
            nest.dtypes[id].is_float() && n_before <= 1
        }
        Value::Reduced(..) => true,
        _ => false,
    };
    let has_operation = (0..nest.values.len()).any(|id| is_operation(ValueId(id)));
    let n_folds = nest.values.iter().filter(|value| value.is_fold()).count();
    sizes[last] >= CHAINED
        && (has_operation || n_folds > 0)
        && nest.reduce.len() <= 1
        && n_folds == nest.reduce.len()
        && nest.values.iter().enumerate().all(is_supported)
}
