//! Positions of a player's information sets in the compiled game.

#![expect(
    clippy::cast_possible_truncation,
    reason = "a tree has fewer than 2^27 nodes, so slots are below 2^32"
)]

use crate::extensive::Sequences;
use crate::simd::{LANES, Vector};

/// The slot of the empty sequence.
const ROOT: u32 = 0;
/// The parent slot of lanes without a set: its probability and its value are 0.
const NOWHERE: u32 = LANES as u32 - 1;
/// The component of a sequence without terminal nodes directly after it.
const NO_COMPONENT: usize = usize::MAX;
/// Largest factor by which separate chunks for each public state may multiply the number of chunks;
/// beyond it, public states share chunks.
const MAX_CHUNK_GROWTH: usize = 2;

/// Information sets in parallel lanes: one vector for each action, starting at vector `first`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) first: u32,
    pub(super) n_actions: u32,
    /// The slot of the parent sequence of each lane's set.
    pub(super) parents: [u32; LANES],
}

/// A player's chunks, each after the chunks that lead to it, and the slot of each sequence.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) chunks: Vec<Chunk>,
    pub(super) slots: Vec<u32>,
    pub(super) n_vectors: usize,
}

/// The sort key of a set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SortKey {
    depth: u32,
    n_actions: u32,
    public: usize,
    decision: usize,
}

/// Computes the layouts of both players' sets.
pub(super) fn layouts(sequences: &Sequences) -> [Layout; 2] {
    let components = components(sequences);
    [0, 1].map(|player| {
        let mut places = places(sequences, player, &components[player]);
        places.sort_unstable();
        Layout::new(sequences, player, &places)
    })
}

impl Layout {
    fn new(sequences: &Sequences, player: usize, places: &[SortKey]) -> Self {
        let mut layout = Self {
            chunks: vec![],
            slots: vec![ROOT; sequences.n_sequences(player)],
            n_vectors: 1,
        };
        for level in places.chunk_by(|a, b| (a.depth, a.n_actions) == (b.depth, b.n_actions)) {
            let states = || level.chunk_by(|a, b| a.public == b.public);
            // Sets of one public state in common chunks make dense tiles of payoffs, but partly
            // empty chunks cost time. The growth limit decides between the two.
            let n_apart: usize = states().map(|state| state.len().div_ceil(LANES)).sum();
            if n_apart <= MAX_CHUNK_GROWTH * level.len().div_ceil(LANES) {
                states().for_each(|state| layout.push(sequences, player, state));
            } else {
                layout.push(sequences, player, level);
            }
        }
        layout
    }

    /// Adds sets with equally many actions, in as few chunks as possible.
    ///
    /// ```text
    /// vector first     : action 0 of set 0 | action 0 of set 1 | … (one set for each lane)
    /// vector first + 1 : action 1 of set 0 | action 1 of set 1 | …
    /// ```
    fn push(&mut self, sequences: &Sequences, player: usize, places: &[SortKey]) {
        for places in places.chunks(LANES) {
            let mut chunk = Chunk {
                first: self.n_vectors as u32,
                n_actions: places[0].n_actions,
                parents: [NOWHERE; LANES],
            };
            for (lane, place) in places.iter().enumerate() {
                let decision = sequences.decisions(player)[place.decision];
                chunk.parents[lane] = self.slots[decision.parent as usize];
                for action in 0..decision.n_actions {
                    let slot = (chunk.first + action) * LANES as u32 + lane as u32;
                    self.slots[(decision.first + action) as usize] = slot;
                }
            }
            self.n_vectors += chunk.n_actions as usize;
            self.chunks.push(chunk);
        }
    }

    /// Returns a plan with probability 1 for the empty sequence and 0 for all other sequences.
    pub(super) fn plan(&self) -> Vec<Vector> {
        let mut plan = vec![Vector::default(); self.n_vectors];
        plan[0].0[ROOT as usize] = 1.0;
        plan
    }
}

/// Returns the sort key of each of a player's sets.
fn places(sequences: &Sequences, player: usize, components: &[usize]) -> Vec<SortKey> {
    let decisions = sequences.decisions(player);
    let mut depth_after = vec![0; sequences.n_sequences(player)];
    // Terminal nodes directly after a set determine its public state; without such nodes, the sets
    // behind it do.
    let mut behind = vec![NO_COMPONENT; sequences.n_sequences(player)];
    let mut places = Vec::with_capacity(decisions.len());
    for (index, decision) in decisions.iter().enumerate() {
        let depth = depth_after[decision.parent as usize];
        let own = decision.first as usize..(decision.first + decision.n_actions) as usize;
        depth_after[own].fill(depth + 1);
        places.push(SortKey {
            depth,
            n_actions: decision.n_actions,
            public: NO_COMPONENT,
            decision: index,
        });
    }
    for (place, decision) in places.iter_mut().zip(decisions).rev() {
        let own = decision.first as usize..(decision.first + decision.n_actions) as usize;
        let least = |all: &[usize]| all[own.clone()].iter().copied().min();
        let direct = least(components).unwrap_or(NO_COMPONENT);
        place.public = if direct == NO_COMPONENT {
            least(&behind).unwrap_or(NO_COMPONENT)
        } else {
            direct
        };
        let parent = &mut behind[decision.parent as usize];
        *parent = place.public.min(*parent);
    }
    places
}

/// Returns, for each sequence of each player, the first terminal node of its connected component:
/// two sequences are connected if they lead to the same terminal node.
fn components(sequences: &Sequences) -> [Vec<usize>; 2] {
    let second = sequences.n_sequences(0);
    let mut links: Vec<usize> = (0..second + sequences.n_sequences(1)).collect();
    for leaf in 0..sequences.leaves().len() {
        let &[row, col] = sequences.leaf_sequences(leaf) else {
            continue;
        };
        // The empty sequence is connected with everything and so carries no information.
        if row != ROOT && col != ROOT {
            let (a, b) = (
                representative(&mut links, row as usize),
                representative(&mut links, second + col as usize),
            );
            // The smaller index is the representative, so the result does not depend on the order.
            links[a.max(b)] = a.min(b);
        }
    }
    let mut first_end = vec![NO_COMPONENT; links.len()];
    // In reverse order, so that the last write is the first terminal node.
    for leaf in (0..sequences.leaves().len()).rev() {
        for (offset, &sequence) in [0, second].iter().zip(sequences.leaf_sequences(leaf)) {
            let root = representative(&mut links, offset + sequence as usize);
            first_end[root] = leaf;
        }
    }
    let mut has_end = vec![false; links.len()];
    for leaf in 0..sequences.leaves().len() {
        for (offset, &sequence) in [0, second].iter().zip(sequences.leaf_sequences(leaf)) {
            has_end[offset + sequence as usize] = true;
        }
    }
    let mut component = |sequence: usize| {
        let root = representative(&mut links, sequence);
        if has_end[sequence] {
            first_end[root]
        } else {
            NO_COMPONENT
        }
    };
    let all: Vec<usize> = (0..has_end.len()).map(&mut component).collect();
    let (rows, cols) = all.split_at(second);
    [rows.to_vec(), cols.to_vec()]
}

/// Returns the representative of a class, and halves the path to the representative.
fn representative(links: &mut [usize], mut member: usize) -> usize {
    while links[member] != member {
        links[member] = links[links[member]];
        member = links[member];
    }
    member
}
