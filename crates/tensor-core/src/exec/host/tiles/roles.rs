//! The roles of the two factors, and the division of the output into tasks.
//!
//! Method: one factor provides the rows of tiles and the other the lanes. All ways to read both are
//! listed, in place or copied, and the one with the lowest estimated cost is chosen.

use super::super::factor::len_of;
use super::operand::{Operand, Source};
use crate::ir::{Guard, LoopNest, Pairs};

/// The approximate numbers of terms of the smallest and of the largest tasks: from six to fifty
/// microseconds with AVX-512. A large task reads the lanes of a block for many rows.
const TASK_PRODUCTS: [usize; 2] = [1 << 19, 1 << 22];
/// The number of tasks for each thread, within the limits of [`TASK_PRODUCTS`].
const TASKS_PER_THREAD: usize = 4;
/// The approximate maximum number of results of one task, unless a few whole rows have more. Their
/// sums stay in the cache until the operations after the reduction read them.
const TASK_RESULTS: usize = 1 << 14;
/// The number of rows that tiles divide well.
const ROW_UNIT: usize = 12;

/// The operands in their roles.
#[derive(Debug)]
pub(super) struct Roles {
    /// The operand of the rows, and that of the lanes.
    pub(super) operands: [Operand; 2],
    /// The number of the factor that is the operand of the rows.
    pub(super) row_factor: usize,
    pub(super) batch: Vec<usize>,
    pub(super) rows: Vec<usize>,
    /// The axes of which each index is a run of neighbouring lanes.
    pub(super) runs: Vec<usize>,
    /// The axes of the lanes of a run.
    pub(super) lanes: Vec<usize>,
}

impl Roles {
    /// Returns the cheapest roles of the factors.
    pub(super) fn cheapest(
        nest: &LoopNest,
        pairs: &Pairs,
        guards: &[Vec<Guard>; 2],
        limits: Limits,
    ) -> Option<Self> {
        let sizes = nest.sizes();
        let source = |number: usize, factor| Source::new(nest, factor, &guards[number], &sizes);
        let factors = [
            (source(0, pairs.factors[0]), &pairs.own[0]),
            (source(1, pairs.factors[1]), &pairs.own[1]),
        ];
        let mut candidates = Vec::new();
        for (lanes, row_factor) in [(1, 0), (0, 1)] {
            let [lanes, rows] = [lanes, row_factor].map(|factor| factors[factor]);
            let case = Case {
                row_factor,
                nest,
                sizes: &sizes,
                batch: &pairs.batch,
                rows,
                lanes,
                limits,
            };
            case.add_candidates(&mut candidates);
        }
        let cheapest = candidates
            .into_iter()
            .min_by(|(a, _), (b, _)| a.total_cmp(b));
        cheapest.map(|(_, roles)| roles)
    }

    /// Returns the axis along which the output is divided into tasks, and the number of its indices
    /// for one task. Tasks have whole tiles, and smaller tiles if there would not be a task for
    /// each thread otherwise. The bits of the output do not depend on the division.
    pub(super) fn cut(
        &self,
        sizes: &[usize],
        n_domain: usize,
        n_vector_lanes: usize,
    ) -> (usize, usize) {
        let units = [
            [ROW_UNIT, 2 * n_vector_lanes],
            [4, 2 * n_vector_lanes],
            [1, n_vector_lanes],
        ];
        let n_tasks = |&(axis, n): &(usize, usize)| {
            let outer: usize = sizes[..axis].iter().product();
            outer * sizes[axis].div_ceil(n)
        };
        let cuts = units.map(|units| self.cut_by(sizes, n_domain, units));
        let n_threads = rayon::current_num_threads();
        let is_enough = |cut: &&(usize, usize)| n_tasks(cut) >= n_threads;
        let most = cuts.iter().rev().max_by_key(|cut| n_tasks(cut));
        cuts.iter()
            .find(is_enough)
            .or(most)
            .copied()
            .unwrap_or((0, 1))
    }

    /// Returns the division into tasks of about [`TASK_PRODUCTS`] terms that have at least these
    /// numbers of rows and lanes, if the output has.
    fn cut_by(&self, sizes: &[usize], n_domain: usize, units: [usize; 2]) -> (usize, usize) {
        let groups = [(&self.rows, units[0]), (&self.lanes, units[1])];
        let reduce_len: usize = sizes[n_domain..].iter().product();
        let n_tasks = TASKS_PER_THREAD * rayon::current_num_threads();
        let n_products = sizes
            .iter()
            .fold(1, |n: usize, &size| n.saturating_mul(size));
        let [smallest, largest] = TASK_PRODUCTS;
        let n_products = (n_products / n_tasks).clamp(smallest, largest);
        let mut below = reduce_len.max(n_products / TASK_RESULTS);
        for axis in (0..n_domain).rev() {
            let mut n = (n_products / below).max(1);
            let mut is_enough = true;
            for (axes, unit) in groups {
                let after: usize = axes
                    .iter()
                    .filter(|&&other| other > axis)
                    .map(|&other| sizes[other])
                    .product();
                if axes.contains(&axis) {
                    n = n.next_multiple_of(unit.div_ceil(after));
                } else {
                    is_enough &= after >= unit.min(len_of(axes, sizes));
                }
            }
            if axis == 0 || (is_enough && n < sizes[axis]) {
                return (axis, n.min(sizes[axis]));
            }
            below *= sizes[axis];
        }
        (0, 1)
    }
}

/// The limits of a choice of roles.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// The number of lanes of a vector.
    pub(super) n_vector_lanes: usize,
    /// The maximum number of elements of a copy.
    pub(super) copy_len: usize,
}

/// One assignment of the factors to rows and lanes.
struct Case<'a> {
    nest: &'a LoopNest,
    sizes: &'a [usize],
    batch: &'a [usize],
    row_factor: usize,
    /// The factors with the axes of their own.
    rows: (Source<'a>, &'a Vec<usize>),
    lanes: (Source<'a>, &'a Vec<usize>),
    limits: Limits,
}

impl Case<'_> {
    /// Returns some axes in groups, without those on which a factor does not depend.
    fn axes_of(source: Source<'_>, groups: [&[usize]; 3]) -> Vec<usize> {
        let axes = groups.concat().into_iter();
        axes.filter(|&axis| source.depends_on(axis)).collect()
    }

    /// Adds the ways to read the lanes, each with its estimated cost in cycles.
    fn add_candidates(&self, candidates: &mut Vec<(f64, Roles)>) {
        let (nest, sizes) = (self.nest, self.sizes);
        let reduced: Vec<usize> = (nest.domain.len()..sizes.len()).collect();
        let row_source = self.rows.0;
        let rows_in = || {
            let packed = || {
                row_source.packed(&Self::axes_of(
                    row_source,
                    [self.batch, self.rows.1, &reduced],
                ))
            };
            let copies = || {
                let copies = [row_source.bordered(), packed()].into_iter().flatten();
                copies.min_by_key(Operand::copy_len)
            };
            row_source.in_place().or_else(copies)
        };
        let source = self.lanes.0;
        let mut add = |lanes_in: Operand, runs: Vec<usize>, lanes: Vec<usize>, growth: f64| {
            let Some(rows_in) = rows_in() else {
                return;
            };
            if rows_in.copy_len().max(lanes_in.copy_len()) > self.limits.copy_len {
                return;
            }
            let roles = Roles {
                operands: [rows_in, lanes_in],
                row_factor: self.row_factor,
                batch: self.batch.to_vec(),
                rows: self.rows.1.clone(),
                runs,
                lanes,
            };
            candidates.push((self.cost(&roles) * growth, roles));
        };
        let in_place = source.in_place().or_else(|| source.bordered());
        if let Some(operand) = in_place {
            let own = self.lanes.1.iter().copied();
            let neighbours = own.filter(|&axis| operand.map.stride(axis) == 1);
            if let Some(lane) = neighbours.max_by_key(|&axis| sizes[axis]) {
                let runs = self.lanes.1.iter().copied().filter(|&axis| axis != lane);
                let runs = runs.collect();
                add(operand, runs, vec![lane], 1.0);
            }
        }
        let axes = Self::axes_of(source, [self.batch, &reduced, self.lanes.1]);
        if let Some(operand) = source.packed(&axes) {
            // A packed copy of windows is the last resort: it is larger than the array.
            let packed = source.packed_len(&axes);
            let grows = source.array_len() < packed;
            /// A factor that is larger than the ratio of any two costs.
            const LAST_RESORT: f64 = 1e6;
            add(
                operand,
                Vec::new(),
                self.lanes.1.clone(),
                if grows { LAST_RESORT } else { 1.0 },
            );
        }
    }

    /// Returns the estimated cost of a product in cycles. Rates were measured with AVX2.
    fn cost(&self, roles: &Roles) -> f64 {
        let sizes = self.sizes;
        let len = |axes: &[usize]| len_of(axes, sizes) as f64;
        let n_lanes = len_of(&roles.lanes, sizes);
        // The cycles that a product of a vector and a row takes: two products in a cycle in tiles
        // of two vectors.
        let (n_vectors, rest) = (
            n_lanes / self.limits.n_vector_lanes,
            n_lanes % self.limits.n_vector_lanes,
        );
        let last = match (n_vectors % 2, rest) {
            (0, 0) => 0.0,
            (1, rest) if rest > 0 => 1.0,
            _ => 0.9,
        };
        let vectors = (n_vectors / 2) as f64 + last;
        // Few rows cannot hide the latency of an addition.
        let few = (4.0 / len(&roles.rows)).max(1.0);
        let n_terms = self.nest.reduce_len() as f64;
        let products = len(&roles.batch) * len(&roles.rows) * len(&roles.runs) * vectors * n_terms;
        let copies: usize = roles.operands.iter().map(Operand::copy_len).sum();
        // If the last lanes fill no vector, those at the end of an array are loaded one by one.
        let is_copy = roles.operands[1].copy.is_some();
        let ends = if rest == 0 || is_copy { 1.0 } else { 1.5 };
        // Lanes that are not neighbours in the output are stored one by one.
        let are_neighbours = roles.lanes.last() == self.nest.domain.len().checked_sub(1).as_ref();
        let stores = if are_neighbours { 0.25 } else { 1.5 };
        products * few * ends + copies as f64 + stores * self.nest.output_len() as f64
    }
}
