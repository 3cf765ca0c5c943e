//! A player's payoffs, stored as tiles between vectors and as single entries.
//!
//! Method: the payoffs between the lanes of one vector of each player form a small matrix. A matrix
//! with enough entries is stored densely as a tile, because it is then applied with SIMD
//! instructions; the remaining payoffs are stored one by one. Equal matrices are stored once.

#![expect(
    clippy::cast_possible_truncation,
    reason = "a tree has fewer than 2^27 nodes, so slots are below 2^32"
)]

use super::WORDS_PER_LEAF;
use super::layout::Layout;
use crate::Result;
use crate::extensive::{Count, Sequences};
use crate::simd::{LANES, Vector, flat, flat_mut, mul_then_add, parts, split, split_mut};
use pulp::Simd;
use std::collections::{BTreeMap, HashMap};

/// Smallest number of payoffs between two vectors for which they are stored as a tile.
const MIN_TILE: usize = LANES;

/// The payoffs of one player between a vector of this player and a vector of the other: row `i`
/// contains, for each lane of the player's vector, the payoff against lane `i` of the other.
type Matrix = [Vector; LANES];

/// A tile: the index of a vector of the other player, and the index of the matrix that multiplies
/// the vector.
#[derive(Clone, Copy, Debug)]
struct PayoffTile {
    other: u32,
    matrix: u32,
}

/// A payoff outside of tiles, with the slots (vector and lane) of both players' sequences.
#[derive(Clone, Copy, Debug)]
struct Single {
    own: u32,
    other: u32,
    payoff: f64,
}

/// The payoffs of one player, times the probabilities of chance.
#[derive(Clone, Debug)]
pub(super) struct Payoffs {
    /// For each of the player's vectors, the index of its first tile; after the last vector, the
    /// number of tiles.
    starts: Vec<u32>,
    tiles: Vec<PayoffTile>,
    matrices: Vec<Matrix>,
    singles: Vec<Single>,
}

impl Payoffs {
    /// Collects a player's payoffs from the sequence form. An error of `count`, which takes the
    /// number of operations on machine words, ends the computation.
    pub(super) fn new(
        sequences: &Sequences,
        layouts: &[Layout; 2],
        player: usize,
        count: &Count<'_>,
    ) -> Result<Self> {
        let (own, other) = (&layouts[player], &layouts[1 - player]);
        let mut between: BTreeMap<(u32, u32), Vec<Single>> = BTreeMap::new();
        for (leaf, payoff) in sequences.weighted_payoffs(player).into_iter().enumerate() {
            count(WORDS_PER_LEAF)?;
            let ends = sequences.leaf_sequences(leaf);
            let single = Single {
                own: own.slots[ends[player] as usize],
                other: other.slots[ends[1 - player] as usize],
                payoff,
            };
            let vectors = (single.own / LANES as u32, single.other / LANES as u32);
            between.entry(vectors).or_default().push(single);
        }
        let mut payoffs = Self {
            starts: vec![0; own.n_vectors + 1],
            tiles: vec![],
            matrices: vec![],
            singles: vec![],
        };
        // Bit patterns are the keys, because f64 has no hash. In card games many tiles are equal up
        // to their vectors.
        let mut known = HashMap::new();
        for ((vector, other), singles) in between {
            count(WORDS_PER_LEAF)?;
            if singles.len() < MIN_TILE {
                payoffs.singles.extend(singles);
                continue;
            }
            let mut matrix = [Vector::default(); LANES];
            for single in singles {
                let lane = |slot: u32| slot as usize % LANES;
                matrix[lane(single.other)].0[lane(single.own)] += single.payoff;
            }
            let bits = flat(&matrix).iter().map(|payoff| payoff.to_bits());
            let matrices = &mut payoffs.matrices;
            let matrix = *known.entry(bits.collect::<Vec<u64>>()).or_insert_with(|| {
                matrices.push(matrix);
                matrices.len() as u32 - 1
            });
            payoffs.tiles.push(PayoffTile { other, matrix });
            payoffs.starts[vector as usize + 1] += 1;
        }
        // Counts become starts by a running sum; tiles are already in the order of vectors.
        for vector in 0..own.n_vectors {
            payoffs.starts[vector + 1] += payoffs.starts[vector];
        }
        Ok(payoffs)
    }

    /// Writes the value of the terminal nodes directly after each sequence, against the other
    /// player's sequence probabilities.
    #[inline(always)]
    pub(super) fn values<S: Simd>(&self, simd: S, plan: &[Vector], values: &mut [Vector]) {
        let n_parts = parts::<S>();
        for (ends, values) in self
            .starts
            .windows(2)
            .zip(split_mut::<S>(values).chunks_exact_mut(n_parts))
        {
            values.fill(simd.splat_f64s(0.0));
            for tile in &self.tiles[ends[0] as usize..ends[1] as usize] {
                let Vector(plan) = &plan[tile.other as usize];
                let rows = split::<S>(&self.matrices[tile.matrix as usize]).chunks_exact(n_parts);
                for (&p, row) in plan.iter().zip(rows) {
                    let p = simd.splat_f64s(p);
                    for (value, &payoff) in values.iter_mut().zip(row) {
                        *value = mul_then_add(simd, p, payoff, *value);
                    }
                }
            }
        }
        let (plan, values) = (flat(plan), flat_mut(values));
        for single in &self.singles {
            values[single.own as usize] += single.payoff * plan[single.other as usize];
        }
    }
}
