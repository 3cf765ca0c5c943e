//! The choice of the reductions and scans whose results are stored.
//!
//! Role: the part of the partitioner (`lower`) that keeps each step at one fold.
//! Method: a step computes one reduction or one scan. Folds that cannot share a step are stored
//! before an operation combines them. A fold that views read is stored as its source, in the order
//! of its own axes, not as the view.

use super::emit;
use super::lower::{Lowering, len};
use crate::ir::Value;
use crate::tensor::Op;

impl Lowering<'_> {
    /// Stores folds that cannot share one nest: reductions over other loops than the first one,
    /// matrix products, which run faster as steps of their own, in parallel and by a GEMM library,
    /// and a scan next to another fold.
    pub(super) fn separate_folds(&mut self, inputs: &[usize]) {
        self.store_shared_fold(inputs);
        let mut folded: Vec<usize> = inputs
            .iter()
            .copied()
            .filter(|&input| self.lowered[input].folds())
            .collect();
        folded.sort_unstable();
        folded.dedup();
        if folded.len() < 2 {
            return;
        }
        for &input in &folded {
            if emit::is_product(self, &self.lowered[input], self.shape(input)) {
                self.materialise_fold(input);
            }
        }
        folded.retain(|&input| self.lowered[input].folds());
        for &input in folded.iter().skip(1) {
            let [own, first] = [input, folded[0]].map(|input| &self.lowered[input]);
            if own.reduce != first.reduce || own.scan != first.scan {
                self.materialise_fold(input);
            }
        }
    }

    /// Stores a fold if several inputs are views of it, and lowers views of a stored fold again, so
    /// that the inputs only load its results. One nest computes one fold: most loops of executors
    /// that are faster than the general one are for a single fold.
    ///
    /// For example, the maximum of the elements at even and at odd places of a row of sums reads
    /// two views of the sums.
    fn store_shared_fold(&mut self, inputs: &[usize]) {
        let mut folds = Vec::new();
        for &input in inputs {
            let mut source = input;
            while !self.lowered[source].reduce.is_empty() && self.graph.is_view(source) {
                source = self.graph.inputs[source][0];
            }
            if !self.lowered[input].reduce.is_empty() && !folds.contains(&(input, source)) {
                folds.push((input, source));
            }
        }
        for &(input, source) in &folds {
            let is_shared = folds.iter().filter(|fold| fold.1 == source).count() > 1;
            let n_results = self.graph.len(source);
            // All views of a single result are equal, and are loaded or computed once.
            let is_read = n_results > 1.0 && self.reads.demands[source].reads >= n_results;
            if is_shared && is_read && !self.is_merged(source) {
                self.materialise_fold(source);
            }
            if self.lowered[source].reduce.is_empty() {
                self.lower_views(input, source);
            }
        }
    }

    /// Lowers the views between a node and its source again, after the source was stored.
    fn lower_views(&mut self, node: usize, source: usize) {
        let mut views = Vec::new();
        let mut last = node;
        while last != source {
            views.push(last);
            last = self.graph.inputs[last][0];
        }
        for view in views.into_iter().rev() {
            self.lowered[view] = self.lower(view);
        }
    }

    /// Stores a node in memory if its computation contains a scan.
    pub(super) fn materialise_scan(&mut self, node: usize) {
        if self.lowered[node].scan.is_some() {
            self.store(node);
        }
    }

    /// Stores a node in memory if its computation contains a fold. Views between the node and a
    /// reduction become strides of the load, so that the reduction is stored in the order of its
    /// own axes.
    ///
    /// For example, a sum over the first axis reads its input through a transposition. If the input
    /// is a sum as well, its loops run fastest in its own order, not in the transposed order.
    pub(super) fn materialise_fold(&mut self, node: usize) {
        self.store_fold(node, false);
    }

    /// Stores the result of a fold on which a node depends. The stored node is the node itself, the
    /// source of its views, or, with `narrows`, the node after the fold with the narrowest
    /// elements. For example, flags that are packed into words take a fourth of the memory of the
    /// numbers 0 and 1. This pays for readers that read each element once.
    pub(super) fn store_fold(&mut self, node: usize, narrows: bool) {
        self.materialise_scan(node);
        let width = |node: usize| self.graph.nodes[node].dtype.bytes();
        // A loop, because programs may be deeper than the stack.
        let mut later = Vec::new();
        let (mut stored, mut n_later) = (node, 0);
        let mut last = node;
        while let Some(source) = self.only_folding_input(last) {
            later.push(last);
            let is_viewed = stored == last && self.graph.is_view(last);
            if is_viewed || (narrows && width(source) < width(stored)) {
                (stored, n_later) = (source, later.len());
            }
            last = source;
        }
        later.truncate(n_later);
        // The source may have been stored since its view was lowered.
        if !self.lowered[stored].reduce.is_empty() {
            self.materialise(stored);
        }
        for node in later.into_iter().rev() {
            self.lowered[node] = self.lower(node);
        }
    }

    /// Returns the input with a reduction from which a node follows by a view, or by an operation
    /// on single elements that reads no other array. Returns `None` for other nodes, for a view
    /// with fewer elements, such as a slice, because storing the view takes less memory, and for a
    /// node whose own value has no reduction.
    fn only_folding_input(&self, node: usize) -> Option<usize> {
        if self.lowered[node].reduce.is_empty() {
            return None;
        }
        let inputs = &self.graph.inputs[node];
        if self.graph.is_view(node) {
            let source = inputs[0];
            return (len(self.shape(node)) >= len(self.shape(source))).then_some(source);
        }
        if !matches!(
            self.graph.nodes[node].op,
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Cast
        ) {
            return None;
        }
        let is_free = |value: &Value| matches!(value, Value::Const(_) | Value::Index(_));
        let mut others = inputs
            .iter()
            .filter(|&&input| !is_free(self.arena.value(self.lowered[input].value)));
        others.next().copied().filter(|_| others.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use crate::exec::{Executor, Host};
    use crate::plan::Plan;
    use crate::tensor::Tensor;

    /// Returns for each step of a program whether it contains a reduction.
    fn folds(program: &Tensor) -> Vec<bool> {
        let (plan, _) = Plan::new(&[program], &Host::new().target()).unwrap();
        let nests = plan.steps.iter().map(|step| &step.nest);
        nests.map(|nest| !nest.reduce.is_empty()).collect()
    }

    #[test]
    fn a_fold_of_which_several_views_are_combined_is_stored() {
        let numbers = (0..20 * 31).map(|i: u16| f32::from(i % 17)).collect();
        let sums = Tensor::from_vec(&[20, 31], numbers).sum(-1);
        let part = |first: isize| sums.slice(0, first..first + 5);
        let parts = [0, 5, 10, 15].map(part);
        let [a, b, c, d] = &parts;
        let maximum = a.maximum(b).maximum(c).maximum(d);
        assert_eq!(folds(&maximum), [true, false]);
        let flipped = &sums + sums.flip(0);
        assert_eq!(folds(&flipped), [true, false]);
        // Views that read less than a half are computed where they are read.
        assert_eq!(folds(&(sums.slice(0, 0..1) + sums.slice(0, 1..2))), [true]);
    }
}
