//! Counterfactual regret minimisation and best responses over an arena.
//!
//! Method: a player's values at ends come from the other's probabilities of sequences; one pass over its chunks from the
//! deepest up updates every set and hands its worth to the sequence that led to it; one pass down gives the player's new
//! probabilities of sequences. The average is of those: a strategy counts by its weight and by the player's own reach.
//! Source: Zinkevich et al. 2007, "Regret minimization in games with incomplete information"; in sequence form: von Stengel
//! 1996.

use super::layout::Chunk;
use super::{ARCH, Arena, LANES, Side, Vector};
use crate::extensive::Decision;
use crate::profile::{BestResponses, Game, Profile};
use crate::regret;
use crate::run::{Learner, Play, State, in_turn};
use crate::{Dynamics, Rule};

/// Probabilities of both players' sequences, and what sequences are worth.
#[derive(Debug)]
pub struct Scratch {
    plans: [Vec<Vector>; 2],
    values: [Vec<Vector>; 2],
}

impl Game for Arena {
    fn n_players(&self) -> usize {
        2
    }

    fn choices(&self, player: usize) -> Vec<usize> {
        let decisions = self.sequences.decisions(player).iter();
        decisions
            .map(|decision| decision.n_actions as usize)
            .collect()
    }

    fn responses(&self, profile: &[Vec<f64>]) -> BestResponses {
        let strategies = [0, 1].map(|player| self.vectors(player, &profile[player]));
        let plans = [0, 1].map(|player| {
            let layout = &self.sides[player].layout;
            let mut plan = layout.plan();
            ARCH.dispatch(
                #[inline(always)]
                || extend(&layout.chunks, &strategies[player], &mut plan),
            );
            plan
        });
        let mut answers = BestResponses {
            values: vec![],
            best_values: vec![],
            strategies: vec![],
        };
        for (player, side) in self.sides.iter().enumerate() {
            let mut values = plans[player].clone();
            let mut best = strategies[player].clone();
            ARCH.dispatch(
                #[inline(always)]
                || side.payoffs.values(&plans[1 - player], &mut values),
            );
            answers.values.push(inner(&plans[player], &values));
            ARCH.dispatch(
                #[inline(always)]
                || respond(&side.layout.chunks, &mut values, &mut best),
            );
            answers.best_values.push(values[0][0]);
            answers
                .strategies
                .push(self.numbers(player, best.as_flattened()));
        }
        answers
    }
}

impl Play for Arena {
    type Scratch = Scratch;

    fn start(&self, _dynamics: &Dynamics) -> State {
        let learner = |side: &Side| {
            let n_slots = side.layout.n_vectors * LANES;
            let mut strategy = vec![0.0; n_slots];
            for chunk in &side.layout.chunks {
                let first = chunk.first as usize * LANES;
                let n_slots = chunk.n_actions as usize * LANES;
                strategy[first..first + n_slots].fill(1.0 / f64::from(chunk.n_actions));
            }
            Learner {
                regrets: vec![0.0; n_slots],
                strategy,
                sum: vec![0.0; n_slots],
            }
        };
        State {
            iteration: 0,
            players: self.sides.iter().map(learner).collect(),
        }
    }

    fn scratch(&self, state: &State) -> Scratch {
        let plans = [0, 1].map(|player| {
            let layout = &self.sides[player].layout;
            let mut plan = layout.plan();
            extend(
                &layout.chunks,
                vectors(&state.players[player].strategy),
                &mut plan,
            );
            plan
        });
        Scratch {
            values: plans.clone(),
            plans,
        }
    }

    fn iterate(&self, state: &mut State, scratch: &mut Scratch, dynamics: &Dynamics, until: u64) {
        ARCH.dispatch(
            #[inline(always)]
            || {
                while state.iteration < until {
                    state.iteration += 1;
                    for players in in_turn(dynamics.updates, 2) {
                        for player in players.clone() {
                            let (payoffs, plan) =
                                (&self.sides[player].payoffs, &scratch.plans[1 - player]);
                            payoffs.values(plan, &mut scratch.values[player]);
                        }
                        for player in players {
                            self.update(state, scratch, dynamics, player);
                        }
                    }
                }
            },
        );
    }

    fn average(&self, state: &State) -> Profile {
        let average = |player: usize| self.numbers(player, &state.players[player].sum);
        let profile = [0, 1].map(average);
        let normalised = |player: usize| {
            let mut strategy = profile[player].clone();
            for Decision {
                first, n_actions, ..
            } in self.sequences.decisions(player)
            {
                let own = *first as usize - 1..(*first + *n_actions) as usize - 1;
                normalise(&mut strategy[own]);
            }
            strategy
        };
        (0..2).map(normalised).collect()
    }

    fn range(&self) -> f64 {
        self.ranges[0].max(self.ranges[1])
    }

    fn supports(&self, rule: &Rule) -> bool {
        matches!(rule, Rule::RegretMatching { .. } | Rule::Hedge { .. })
    }

    /// Sums of counterfactual regrets bound NashConv, but are not it.
    fn regret_nash_conv(&self, _state: &State) -> Option<f64> {
        None
    }
}

impl Arena {
    /// Takes up what a player played, and updates it by the values of its ends.
    #[inline(always)]
    fn update(&self, state: &mut State, scratch: &mut Scratch, dynamics: &Dynamics, player: usize) {
        let t = state.iteration;
        let (weight, step) = (dynamics.weight(t), dynamics.step(t, self.ranges[player]));
        let learner = &mut state.players[player];
        let (plan, values) = (&mut scratch.plans[player], &mut scratch.values[player]);
        for (sum, p) in learner.sum.iter_mut().zip(plan.as_flattened()) {
            *sum += weight * p;
        }
        let regrets = learner.regrets.as_chunks_mut().0;
        let strategy = learner.strategy.as_chunks_mut().0;
        let chunks = &self.sides[player].layout.chunks;
        for chunk in chunks.iter().rev() {
            let own = chunk.vectors();
            let worth = regret::step(
                step,
                &values[own.clone()],
                &mut regrets[own.clone()],
                &mut strategy[own],
            );
            hand_up(chunk, worth, values);
        }
        extend(chunks, strategy, plan);
    }

    /// Brings a strategy's numbers into the arena's order.
    fn vectors(&self, player: usize, strategy: &[f64]) -> Vec<Vector> {
        let layout = &self.sides[player].layout;
        let mut vectors = vec![[0.0; LANES]; layout.n_vectors];
        for (&slot, &p) in layout.slots[1..].iter().zip(strategy) {
            vectors.as_flattened_mut()[slot as usize] = p;
        }
        vectors
    }

    /// Brings numbers in the arena's order into that of a strategy.
    fn numbers(&self, player: usize, slots: &[f64]) -> Vec<f64> {
        let places = self.sides[player].layout.slots[1..].iter();
        places.map(|&slot| slots[slot as usize]).collect()
    }
}

impl Chunk {
    #[inline(always)]
    fn vectors(&self) -> std::ops::Range<usize> {
        self.first as usize..(self.first + self.n_actions) as usize
    }
}

/// Writes the probabilities of sequences that a strategy gives.
#[inline(always)]
fn extend(chunks: &[Chunk], strategy: &[Vector], plan: &mut [Vector]) {
    for chunk in chunks {
        let reach = chunk.parents.map(|slot| plan.as_flattened()[slot as usize]);
        let own = chunk.vectors();
        for (plan, strategy) in plan[own.clone()].iter_mut().zip(&strategy[own]) {
            for lane in 0..LANES {
                plan[lane] = reach[lane] * strategy[lane];
            }
        }
    }
}

/// Adds what sets are worth to the sequences that lead to them.
#[inline(always)]
fn hand_up(chunk: &Chunk, worth: Vector, values: &mut [Vector]) {
    let values = values.as_flattened_mut();
    for (&slot, worth) in chunk.parents.iter().zip(worth) {
        values[slot as usize] += worth;
    }
}

/// Writes a best response to values of ends, and hands its worth up to the empty sequence.
#[inline(always)]
fn respond(chunks: &[Chunk], values: &mut [Vector], best: &mut [Vector]) {
    for chunk in chunks.iter().rev() {
        let own = chunk.vectors();
        let mut highest = [f64::NEG_INFINITY; LANES];
        for values in &values[own.clone()] {
            for lane in 0..LANES {
                highest[lane] = highest[lane].max(values[lane]);
            }
        }
        // The first of equals is chosen: what comes later finds nothing left.
        let mut left = [1.0; LANES];
        for (best, values) in best[own.clone()].iter_mut().zip(&values[own]) {
            for lane in 0..LANES {
                best[lane] = if values[lane] >= highest[lane] {
                    left[lane]
                } else {
                    0.0
                };
                left[lane] -= best[lane];
            }
        }
        hand_up(chunk, highest, values);
    }
}

fn inner(plan: &[Vector], values: &[Vector]) -> f64 {
    let pairs = plan.as_flattened().iter().zip(values.as_flattened());
    pairs.map(|(p, value)| p * value).sum()
}

/// Makes probabilities of sums; where there are none, all are equal.
fn normalise(sums: &mut [f64]) {
    let total: f64 = sums.iter().sum();
    let equal = 1.0 / sums.len() as f64;
    for sum in sums {
        *sum = if total > 0.0 { *sum / total } else { equal };
    }
}

fn vectors(numbers: &[f64]) -> &[Vector] {
    numbers.as_chunks().0
}
