//! Counterfactual regret minimisation and best responses over a compiled game.
//!
//! Method: a player's values at terminal nodes are computed from the opponent's sequence
//! probabilities. One pass over the player's chunks, deepest first, updates every set and adds its
//! value to its parent sequence. One pass in the opposite order computes the player's new sequence
//! probabilities. The average is of these probabilities, so a strategy counts by its weight and by
//! the player's own reach.
//! Source: Zinkevich et al. 2007, "Regret minimization in games with incomplete information"; in
//! sequence form: von Stengel 1996, "Efficient computation of behavior strategies".

use super::layout::Chunk;
use super::{CompiledGame, Roundings, Side};
use crate::extensive::Decision;
use crate::game::{BestResponses, Game, Learn, Learner, Profile, SolverState, in_turn};
use crate::regret::{self, Interleaved, Sets, in_proportion};
use crate::rounding::{GainError, UNIT};
use crate::simd::{LANES, Numbers, Vector, flat, flat_mut, parts, simd, split, split_mut};
use crate::{Rule, SolverConfig};
use pulp::Simd;

/// Probabilities of both players' sequences, and values of sequences.
#[derive(Debug)]
pub struct Scratch {
    plans: [Vec<Vector>; 2],
    values: [Vec<Vector>; 2],
}

impl Game for CompiledGame {
    fn n_players(&self) -> usize {
        2
    }

    fn choices(&self, player: usize) -> Vec<usize> {
        let decisions = self.sequences.decisions(player).iter();
        decisions
            .map(|decision| decision.n_actions as usize)
            .collect()
    }

    fn range(&self) -> f64 {
        self.ranges[0].max(self.ranges[1])
    }

    fn responses(&self, profile: &[Vec<f64>]) -> BestResponses {
        let strategies = [0, 1].map(|player| self.vectors(player, &profile[player]));
        let plans = [0, 1].map(|player| self.plan(player, &strategies[player]));
        let mut answers = BestResponses::default();
        for (player, side) in self.sides.iter().enumerate() {
            let mut values = plans[player].clone();
            let mut best = strategies[player].clone();
            value_ends(side, &plans[1 - player], &mut values);
            let constant = self.constants[player];
            answers
                .values
                .push(inner(&plans[player], &values) + constant);
            respond(&side.layout.chunks, &mut values, &mut best);
            let gain = self.gain(player, &plans[player], &values);
            answers.best_values.push(values[0].0[0] + constant);
            answers.strategies.push(self.numbers(player, flat(&best)));
            answers.gains.push(gain);
            answers.rounding += self.gain_error(player, profile).bound(gain);
        }
        answers
    }
}

impl Learn for CompiledGame {
    type Scratch = Scratch;

    fn start(&self, config: &SolverConfig) -> SolverState {
        let learner = |side: &Side| {
            let n_slots = side.layout.n_vectors * LANES;
            let mut strategy = Numbers::zeros(n_slots);
            // Uniform in all lanes. Lanes without a set have reach 0, so their content is
            // irrelevant.
            for chunk in &side.layout.chunks {
                let first = chunk.first as usize * LANES;
                let n_slots = chunk.n_actions as usize * LANES;
                strategy[first..first + n_slots].fill(1.0 / f64::from(chunk.n_actions));
            }
            Learner {
                regrets: Numbers::zeros(n_slots),
                strategy,
                sum: Numbers::zeros(n_slots),
            }
        };
        SolverState {
            iteration: 0,
            config: *config,
            players: self.sides.iter().map(learner).collect(),
        }
    }

    fn scratch(&self, state: &SolverState) -> Scratch {
        let plans =
            [0, 1].map(|player| self.plan(player, state.players[player].strategy.vectors()));
        Scratch {
            values: plans.clone(),
            plans,
        }
    }

    fn iterate(
        &self,
        state: &mut SolverState,
        scratch: &mut Scratch,
        config: &SolverConfig,
        until: u64,
    ) {
        learn(self, state, scratch, config, until);
    }

    fn average(&self, state: &SolverState) -> Profile {
        let strategy = |player: usize| {
            let sums = self.numbers(player, &state.players[player].sum);
            let decisions = self.sequences.decisions(player).iter();
            decisions
                .flat_map(|decision| in_proportion(&sums[decision.actions()]))
                .collect()
        };
        (0..2).map(strategy).collect()
    }

    fn current(&self, state: &SolverState) -> Profile {
        (0..2)
            .map(|player| self.numbers(player, &state.players[player].strategy))
            .collect()
    }

    fn supports(&self, rule: &Rule) -> bool {
        matches!(rule, Rule::RegretMatching { .. } | Rule::Hedge { .. })
    }

    /// Sums of counterfactual regrets are only an upper bound of NashConv.
    fn regret_nash_conv(&self, _state: &SolverState) -> Option<f64> {
        None
    }
}

simd! {
    fn learn<'a, S>(simd; compiled: &'a CompiledGame, state: &'a mut SolverState, scratch: &'a mut Scratch, config: &'a SolverConfig, until: u64) {
        while state.iteration < until {
            state.iteration += 1;
            // All values of a turn are computed before any update: simultaneous updates must not
            // see the new strategy of the other player.
            for players in in_turn(config.updates, 2) {
                for player in players.clone() {
                    let payoffs = &compiled.sides[player].payoffs;
                    payoffs.values(simd, &scratch.plans[1 - player], &mut scratch.values[player]);
                }
                for player in players {
                    compiled.update(simd, state, scratch, config, player);
                }
            }
        }
    }

    /// Writes the value of the terminal nodes directly after each sequence.
    fn value_ends<'a, S>(simd; side: &'a Side, plan: &'a [Vector], values: &'a mut [Vector]) {
        side.payoffs.values(simd, plan, values);
    }

    /// Writes a best response to the values of terminal nodes, and propagates values up to the
    /// empty sequence.
    fn respond<'a, S>(simd; chunks: &'a [Chunk], values: &'a mut [Vector], best: &'a mut [Vector]) {
        for chunk in chunks.iter().rev() {
            let own = chunk.vectors();
            let mut value = Vector::default();
            for (at, value) in split_mut::<S>(std::slice::from_mut(&mut value)).iter_mut().enumerate() {
                let part = Interleaved { at, of: parts::<S>() };
                let values = split::<S>(&values[own.clone()]);
                let highest = regret::highest(simd, values, part);
                regret::first(simd, highest, values, split_mut::<S>(&mut best[own.clone()]), part);
                *value = highest;
            }
            add_to_parents(chunk, value, values);
        }
    }

    /// Writes the sequence probabilities of a strategy.
    fn extend_plan<'a, S>(simd; chunks: &'a [Chunk], strategy: &'a [Vector], plan: &'a mut [Vector]) {
        extend(simd, chunks, strategy, plan);
    }
}

impl CompiledGame {
    /// Returns the sequence probabilities of a strategy.
    fn plan(&self, player: usize, strategy: &[Vector]) -> Vec<Vector> {
        let layout = &self.sides[player].layout;
        let mut plan = layout.plan();
        extend_plan(&layout.chunks, strategy, &mut plan);
        plan
    }

    /// Adds the player's current strategy to its average, and updates the strategy from the values
    /// of terminal nodes.
    #[inline(always)]
    fn update<S: Simd>(
        &self,
        simd: S,
        state: &mut SolverState,
        scratch: &mut Scratch,
        config: &SolverConfig,
        player: usize,
    ) {
        let t = state.iteration;
        let (weight, step) = (config.weight(t), config.step(t, self.ranges[player]));
        let learner = &mut state.players[player];
        let (plan, values) = (&mut scratch.plans[player], &mut scratch.values[player]);
        // Add the strategy that was played in this iteration, before the update replaces it.
        for (sum, p) in learner.sum.iter_mut().zip(flat(plan)) {
            *sum += weight * p;
        }
        let regrets = learner.regrets.vectors_mut();
        let strategy = learner.strategy.vectors_mut();
        let chunks = &self.sides[player].layout.chunks;
        // Deepest chunks first: the value of a set is part of the values of the actions before it.
        for chunk in chunks.iter().rev() {
            let own = chunk.vectors();
            let mut value = Vector::default();
            // A vector of the layout is several SIMD vectors on CPUs with fewer lanes. Number `at`
            // of each action belongs to the same sets, so these sets are updated together.
            for (at, value) in split_mut::<S>(std::slice::from_mut(&mut value))
                .iter_mut()
                .enumerate()
            {
                let sets = Sets::<S> {
                    values: split::<S>(&values[own.clone()]),
                    regrets: split_mut::<S>(&mut regrets[own.clone()]),
                    strategy: split_mut::<S>(&mut strategy[own.clone()]),
                };
                let part = Interleaved {
                    at,
                    of: parts::<S>(),
                };
                *value = regret::step(simd, step, sets, part);
            }
            add_to_parents(chunk, value, values);
        }
        extend(simd, chunks, strategy, plan);
    }

    /// Returns the gain of a best response over a plan.
    ///
    /// The gain is a sum over the player's sequences: the probability of the sequence in the plan
    /// times the loss of its last action against the best action of the same set, assuming that a
    /// best response follows in both cases. No term is negative, so there is no cancellation.
    /// `values` contains the value of each sequence if a best response follows.
    fn gain(&self, player: usize, plan: &[Vector], values: &[Vector]) -> f64 {
        let (plan, values) = (flat(plan), flat(values));
        let slots = &self.sides[player].layout.slots;
        let loss = |decision: &Decision| -> f64 {
            let first = decision.first as usize;
            let own = || {
                slots[first..first + decision.n_actions as usize]
                    .iter()
                    .map(|&slot| slot as usize)
            };
            let best = own().fold(f64::NEG_INFINITY, |best, slot| best.max(values[slot]));
            own().map(|slot| plan[slot] * (best - values[slot])).sum()
        };
        self.sequences.decisions(player).iter().map(loss).sum()
    }

    /// Returns the terms of the rounding error of [`Self::gain`].
    fn gain_error(&self, player: usize, profile: &[Vec<f64>]) -> GainError {
        let Roundings { size, n, depth } = self.roundings[player];
        // Bound on the distance of a set's sum of probabilities from 1, in units of roundoff.
        let excess = |player: usize| {
            let decisions = self.sequences.decisions(player).iter();
            let excesses = decisions.map(|decision| {
                // The second term is the rounding error of the sum itself.
                let sum: f64 = profile[player][decision.actions()].iter().sum();
                (sum - 1.0).abs() / UNIT + f64::from(decision.n_actions)
            });
            excesses.fold(0.0, f64::max)
        };
        let other = 1 - player;
        GainError {
            size,
            // Each of the opponent's sets on the path contributes one product, and probabilities
            // that may not sum exactly to 1.
            n_roundings: n + self.roundings[other].depth * (1.0 + excess(other)),
            depth,
            // Each sequence contributes one addition, and its probability has the errors of the
            // player's own sets on the path, as above.
            n_relative: self.sequences.n_sequences(player) as f64 + depth * (1.0 + excess(player)),
        }
    }

    /// Converts a strategy's numbers to vectors in the order of the compiled game.
    fn vectors(&self, player: usize, strategy: &[f64]) -> Vec<Vector> {
        let layout = &self.sides[player].layout;
        // Sequence 0 is the empty sequence, which is no action of a strategy.
        let mut vectors = vec![Vector::default(); layout.n_vectors];
        for (&slot, &p) in layout.slots[1..].iter().zip(strategy) {
            flat_mut(&mut vectors)[slot as usize] = p;
        }
        vectors
    }

    /// Converts numbers in the compiled game's order to the order of a strategy.
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

/// Writes the sequence probabilities of a strategy.
#[inline(always)]
fn extend<S: Simd>(simd: S, chunks: &[Chunk], strategy: &[Vector], plan: &mut [Vector]) {
    for chunk in chunks {
        // The parents of a chunk's sets are anywhere before the chunk, so their probabilities are
        // loaded one by one. The products below are SIMD.
        let reach = chunk.parents.map(|slot| flat(plan)[slot as usize]);
        let reach = Vector(reach);
        let reach = split::<S>(std::slice::from_ref(&reach));
        let own = chunk.vectors();
        let actions = plan[own.clone()].iter_mut().zip(&strategy[own]);
        for (plan, strategy) in actions {
            let (plan, strategy) = (
                split_mut::<S>(std::slice::from_mut(plan)),
                split::<S>(std::slice::from_ref(strategy)),
            );
            for ((plan, &reach), &p) in plan.iter_mut().zip(reach).zip(strategy) {
                *plan = simd.mul_f64s(reach, p);
            }
        }
    }
}

/// Adds the value of each set of a chunk to the value of the set's parent sequence.
#[inline(always)]
fn add_to_parents(chunk: &Chunk, value: Vector, values: &mut [Vector]) {
    let values = flat_mut(values);
    // One by one, because several sets of a chunk can have the same parent.
    for (&slot, value) in chunk.parents.iter().zip(value.0) {
        values[slot as usize] += value;
    }
}

/// Returns the sum over sequences of probability times value.
fn inner(plan: &[Vector], values: &[Vector]) -> f64 {
    let pairs = flat(plan).iter().zip(flat(values));
    pairs.map(|(p, value)| p * value).sum()
}
