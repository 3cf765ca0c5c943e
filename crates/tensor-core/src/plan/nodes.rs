//! The nodes that a computation does.

use std::rc::Rc;

/// Some nodes, each with whether it is inside a reduction, in the order of the program. A clone
/// shares them: each view of a computation does the same nodes.
#[derive(Clone, Default)]
pub(super) struct Nodes(Rc<[(usize, bool)]>);

impl Nodes {
    /// The nodes of several computations and one more outside of reductions, which comes after all
    /// of them.
    pub(super) fn joined<'n>(inputs: impl Iterator<Item = &'n Self>, node: usize) -> Self {
        let listed = inputs.flat_map(|nodes| nodes.0.iter().copied());
        listed.chain([(node, false)]).collect()
    }

    /// The same nodes inside a reduction, and the node of that.
    pub(super) fn reduced(&self, node: usize) -> Self {
        let inside = self.keys().map(|&inner| (inner, true));
        inside.chain([(node, false)]).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&usize, &bool)> {
        self.0.iter().map(|(node, inside)| (node, inside))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &usize> {
        self.0.iter().map(|(node, _)| node)
    }

    pub(super) fn contains(&self, node: usize) -> bool {
        self.0.binary_search_by_key(&node, |&(own, _)| own).is_ok()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A node listed twice is inside a reduction if it is so in one of the two.
impl FromIterator<(usize, bool)> for Nodes {
    fn from_iter<I: IntoIterator<Item = (usize, bool)>>(nodes: I) -> Self {
        let mut nodes: Vec<(usize, bool)> = nodes.into_iter().collect();
        // The stable sort finds the few runs that the list is made of.
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
