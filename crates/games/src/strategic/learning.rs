//! Learning in strategic games.

use super::{Base, StrategicGame};
use crate::game::{BestResponses, Game, Learn, Learner, Profile, SolverState, in_turn};
use crate::regret::{self, Sets, WHOLE, in_proportion};
use crate::rounding::{GainError, UNIT};
use crate::simd::Numbers;
use crate::{Rule, SolverConfig};
use pulp::Scalar;

impl<G: StrategicGame> Game for G {
    fn n_players(&self) -> usize {
        self.shape().len()
    }

    fn choices(&self, player: usize) -> Vec<usize> {
        vec![self.shape()[player]]
    }

    fn range(&self) -> f64 {
        let ranges = (0..self.shape().len()).map(|player| self.payoff_range(player));
        ranges.fold(0.0, f64::max)
    }

    fn responses(&self, profile: &[Vec<f64>]) -> BestResponses {
        let mut all: Vec<Vec<f64>> = self
            .shape()
            .iter()
            .map(|&n_actions| vec![0.0; n_actions])
            .collect();
        self.all_expected(Base::Centred, profile, &mut all);
        let n_played = |strategy: &Vec<f64>| strategy.iter().filter(|&&p| p > 0.0).count();
        let n_played: Vec<usize> = profile.iter().map(n_played).collect();
        // Bound on the distance of a sum of probabilities from 1, in units of roundoff.
        let excess = |strategy: &Vec<f64>| {
            let sum: f64 = strategy.iter().sum();
            (sum - 1.0).abs() / UNIT + strategy.len() as f64
        };
        let excess: f64 = profile.iter().map(excess).sum();
        let mut answers = BestResponses::default();
        for (player, (values, strategy)) in all.iter().zip(profile).enumerate() {
            let best = first_best(values);
            let pairs = || values.iter().zip(strategy);
            let value: f64 = pairs().map(|(value, p)| value * p).sum();
            // The gain is a sum of losses of actions. No term is negative, so there is no
            // cancellation.
            let gain: f64 = pairs().map(|(value, p)| p * (values[best] - value)).sum();
            let n_others: usize = n_played.iter().sum::<usize>() - n_played[player];
            let error = GainError {
                size: self.payoff_size(player),
                // One product for each other player, the sums, and the payoff.
                n_roundings: (n_others + profile.len()) as f64,
                depth: 1.0,
                // The sums of probabilities, the sum of the gain, its product and difference, and
                // the sum over players.
                n_relative: excess + (strategy.len() + 3) as f64,
            };
            let constant = self.constant(player);
            answers.values.push(value + constant);
            answers.best_values.push(values[best] + constant);
            answers.strategies.push(pure(values.len(), best));
            answers.gains.push(gain);
            answers.rounding += error.bound(gain);
        }
        answers
    }
}

/// Returns the first of the largest values.
fn first_best(values: &[f64]) -> usize {
    (1..values.len()).fold(
        0,
        |best, at| if values[at] > values[best] { at } else { best },
    )
}

/// Returns the strategy that plays one action.
fn pure(n_actions: usize, action: usize) -> Vec<f64> {
    let mut strategy = vec![0.0; n_actions];
    strategy[action] = 1.0;
    strategy
}

/// Action values of an iteration, and each player's range of payoffs.
#[derive(Debug)]
pub struct Scratch {
    values: Vec<Vec<f64>>,
    ranges: Vec<f64>,
    strategies: Vec<Vec<f64>>,
}

impl<G: StrategicGame> Learn for G {
    type Scratch = Scratch;

    fn start(&self, config: &SolverConfig) -> SolverState {
        let learner = |&n_actions: &usize| {
            let first = |action| config.first(action, n_actions);
            let strategy: Vec<f64> = (0..n_actions).map(first).collect();
            Learner {
                regrets: Numbers::zeros(n_actions),
                strategy: strategy.into(),
                sum: Numbers::zeros(n_actions),
            }
        };
        SolverState {
            iteration: 0,
            config: *config,
            players: self.shape().iter().map(learner).collect(),
        }
    }

    fn scratch(&self, state: &SolverState) -> Scratch {
        let strategies = self.current(state);
        Scratch {
            values: strategies.clone(),
            ranges: (0..strategies.len())
                .map(|player| self.payoff_range(player))
                .collect(),
            strategies,
        }
    }

    fn iterate(
        &self,
        state: &mut SolverState,
        scratch: &mut Scratch,
        config: &SolverConfig,
        until: u64,
    ) {
        let Scratch {
            values,
            ranges,
            strategies,
        } = scratch;
        while state.iteration < until {
            state.iteration += 1;
            let weight = config.weight(state.iteration);
            for players in in_turn(config.updates, ranges.len()) {
                if players.len() == 1 {
                    let player = players.start;
                    self.expected(Base::Centred, player, strategies, &mut values[player]);
                } else {
                    self.all_expected(Base::Centred, strategies, values);
                }
                for player in players {
                    let learner = &mut state.players[player];
                    for (sum, p) in learner.sum.iter_mut().zip(&*learner.strategy) {
                        *sum += weight * p;
                    }
                    let step = config.step(state.iteration, ranges[player]);
                    let sets = Sets::<Scalar> {
                        values: &values[player],
                        regrets: &mut learner.regrets,
                        strategy: &mut learner.strategy,
                    };
                    regret::step(Scalar, step, sets, WHOLE);
                    strategies[player].copy_from_slice(&learner.strategy);
                }
            }
        }
    }

    fn average(&self, state: &SolverState) -> Profile {
        let average = |learner: &Learner| in_proportion(&learner.sum);
        state.players.iter().map(average).collect()
    }

    fn current(&self, state: &SolverState) -> Profile {
        state
            .players
            .iter()
            .map(|player| player.strategy.to_vec())
            .collect()
    }

    fn polished(&self, profile: &[Vec<f64>]) -> Option<Profile> {
        StrategicGame::polished(self, profile)
    }

    fn supports(&self, _rule: &Rule) -> bool {
        true
    }

    fn regret_nash_conv(&self, state: &SolverState) -> Option<f64> {
        let largest = |learner: &Learner| {
            learner
                .regrets
                .iter()
                .copied()
                .fold(f64::NEG_INFINITY, f64::max)
        };
        let sum: f64 = state.players.iter().map(largest).sum();
        self.constant_sum().map(|_| sum / state.iteration as f64)
    }
}
