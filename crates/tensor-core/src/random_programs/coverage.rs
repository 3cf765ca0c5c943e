//! What the plans of random programs contain, by the shapes of their nests.
//!
//! Role: tells that a run reached what an executor may treat in a way of its own, without asking any executor: so the
//! sizes here are those of the nests, and the executors' own limits lie below them.

use crate::dtype::Scalar;
use crate::ir::{Contract, IndexMap, LoopNest, Value, ValueId};
use crate::op::{Binary, Compare, Unary};

/// A block of lanes, at most.
const BLOCK: usize = 1024;
/// The fewest lanes for which they are the last axis alone.
const LANES: usize = 512;
/// The most rows that one range of a product has.
const RANGE_ROWS: usize = 1024;
/// The fewest values of one block for which a fold is cut in parts.
const PART_VALUES: usize = 1 << 20;

/// How many nests of each kind there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Coverage {
    /// Folds of 512 points and more.
    pub(super) long_folds: usize,
    /// Those of which an axis is as long as a block or half of it, or shorter or longer by up to 2.
    pub(super) folds_near_a_block: usize,
    /// Folds with so much to do, for so few outputs, that they are cut in parts.
    pub(super) parts: usize,
    /// Plain pairs of at least 4 rows and 64 lanes, joined and folded; those of at least [`LANES`] lanes.
    pub(super) pairs: usize,
    pub(super) wide_pairs: usize,
    /// Those of the wide ones that fold comparisons.
    pub(super) compared_pairs: usize,
    /// Products with an epilogue whose leading rows are more than one range; those with rows on both sides of columns.
    pub(super) cut_products: usize,
    pub(super) split_products: usize,
    /// Products of which a factor reads elements twice, or is padded.
    pub(super) window_products: usize,
    /// Folds that may stop, over several blocks; over many points for a block of lanes each.
    pub(super) stops_in_blocks: usize,
    pub(super) stops_in_points: usize,
}

impl Coverage {
    /// Each kind with its number, and the least that a run of 2,000 programs must have.
    pub(super) fn kinds(&self) -> [(&'static str, usize, usize); 11] {
        [
            ("long folds", self.long_folds, 50),
            ("folds near a block", self.folds_near_a_block, 4),
            ("folds in parts", self.parts, 2),
            ("pairs", self.pairs, 30),
            ("wide pairs", self.wide_pairs, 25),
            ("compared pairs", self.compared_pairs, 8),
            ("cut products", self.cut_products, 6),
            ("split products", self.split_products, 10),
            ("products of windows", self.window_products, 8),
            (
                "folds that may stop after a block",
                self.stops_in_blocks,
                20,
            ),
            ("folds that may stop after a point", self.stops_in_points, 6),
        ]
    }

    pub(super) fn count(&mut self, nest: &LoopNest) {
        if nest.sizes().contains(&0) {
            return;
        }
        if let Some(contract) = &nest.contract {
            self.count_product(nest, contract);
        } else if !nest.reduce.is_empty() {
            self.count_fold(nest);
        }
    }

    fn count_product(&mut self, nest: &LoopNest, contract: &Contract) {
        let (rows, cols) = (&contract.rows, &contract.cols);
        let is_leading = |axes: &[usize]| axes.contains(&0) && nest.domain[0] > RANGE_ROWS;
        let has_epilogue = contract.sum != nest.result();
        let is_cut = has_epilogue && (is_leading(rows) || is_leading(cols));
        let encloses = |outer: &[usize], inner: &[usize]| {
            let within = |axis: &usize| outer.first() < Some(axis) && Some(axis) < outer.last();
            inner.iter().any(within)
        };
        let is_window = |factor: ValueId| match &nest.values[factor.0] {
            Value::Load { map, guards, .. } => !guards.is_empty() || overlaps(map),
            _ => false,
        };
        self.cut_products += usize::from(is_cut);
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
        if let Some(is_compared) = pairs(nest) {
            self.pairs += 1;
            self.wide_pairs += usize::from(last >= LANES);
            self.compared_pairs += usize::from(is_compared && last >= LANES);
        }
    }
}

/// Whether two loops walk an input with one stride, so that they meet elements again.
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

/// Whether a nest folds `x * y`, `x + y`, `|x - y|` or comparisons of those with an `f32`, where `x` is the same for
/// all of at least 64 lanes and `y` for all of at least 4 rows; and if so, whether it folds comparisons.
fn pairs(nest: &LoopNest) -> Option<bool> {
    let [.., n_rows, n_lanes] = nest.domain[..] else {
        return None;
    };
    let one_fold = nest
        .values
        .iter()
        .filter(|value| matches!(value, Value::Reduced(..)));
    if n_rows < 4 || n_lanes < 64 || nest.reduce.len() != 1 || one_fold.count() != 1 {
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
    let (x, y) = match *of(joined) {
        Value::Binary(Binary::Mul | Binary::Add, x, y) => (x, y),
        Value::Unary(Unary::Abs, difference) => match *of(difference) {
            Value::Binary(Binary::Sub, x, y) => (x, y),
            _ => return None,
        },
        _ => return None,
    };
    let axis = nest.domain.len();
    let steps = |id: ValueId| match of(id) {
        Value::Load { map, guards, .. } if guards.is_empty() && map.stride(axis) >= 0 => {
            Some((map.stride(axis - 2) != 0, map.stride(axis - 1)))
        }
        _ => None,
    };
    let is_pair = |row: ValueId, lane: ValueId| {
        steps(row) == Some((true, 0)) && steps(lane) == Some((false, 1))
    };
    (is_pair(x, y) || is_pair(y, x)).then_some(is_compared)
}
