//! The set of program nodes that a computation covers.

use std::rc::Rc;

/// A sorted list of nodes; each entry states whether the node is inside a reduction. Clones share
/// the list, because all views of a computation cover the same nodes.
#[derive(Clone, Default)]
pub(super) struct Nodes(Rc<[(usize, bool)]>);

impl Nodes {
    /// Returns the nodes of several computations and `node`, which is outside of reductions and has
    /// the largest number.
    pub(super) fn joined<'n>(inputs: impl Iterator<Item = &'n Self>, node: usize) -> Self {
        let listed = inputs.flat_map(|nodes| nodes.0.iter().copied());
        listed.chain([(node, false)]).collect()
    }

    /// Returns the nodes of this list, all marked as inside a reduction, and `node`, the reduction
    /// itself.
    pub(super) fn reduced(&self, node: usize) -> Self {
        let inside = self.keys().map(|&inner| (inner, true));
        inside.chain([(node, false)]).collect()
    }

    /// Iterates over the nodes, each with a flag that is `true` inside a reduction.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&usize, &bool)> {
        self.0.iter().map(|(node, inside)| (node, inside))
    }

    /// Iterates over the nodes.
    pub(super) fn keys(&self) -> impl Iterator<Item = &usize> {
        self.0.iter().map(|(node, _)| node)
    }

    /// Returns `true` if the list contains a node.
    pub(super) fn contains(&self, node: usize) -> bool {
        self.0.binary_search_by_key(&node, |&(own, _)| own).is_ok()
    }

    /// Returns the number of nodes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Sorts and merges entries. A node with several entries is inside a reduction if any of its
/// entries is.
impl FromIterator<(usize, bool)> for Nodes {
    fn from_iter<I: IntoIterator<Item = (usize, bool)>>(nodes: I) -> Self {
        let mut nodes: Vec<(usize, bool)> = nodes.into_iter().collect();
        // The list is a concatenation of a few sorted runs, which the stable sort detects and
        // merges.
        nodes.sort_by_key(|&(node, _)| node);
        nodes.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            kept.1 |= is_same && next.1;
            is_same
        });
        Self(nodes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_of_two_computations_is_listed_once_and_inside_if_it_is_so_in_one() {
        let inner = Nodes::joined([].into_iter(), 2);
        let sum = Nodes::joined([&inner].into_iter(), 3).reduced(5);
        let joined = Nodes::joined([&inner, &sum, &inner].into_iter(), 7);
        let listed: Vec<(usize, bool)> = joined
            .iter()
            .map(|(&node, &inside)| (node, inside))
            .collect();
        assert_eq!(listed, [(2, true), (3, true), (5, false), (7, false)]);
        assert_eq!(joined.len(), 4);
        assert!(joined.contains(5) && !joined.contains(4) && !Nodes::default().contains(0));
    }
}
