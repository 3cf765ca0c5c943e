//! The compiled game against a plain walk over random trees.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

use games::extensive::{CompiledGame, ExtensiveGame, Node, Sequences, Tree, TreeBuilder, Turn};
use games::{Error, Profile, Run, SolverConfig, Updates, best_response, solve};
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::rng::Philox;

/// A random game: random players to move, observations and payoffs.
struct Random {
    seed: u64,
    max_moves: usize,
}

impl Random {
    /// Returns a number below `n` that depends only on the seed, `salt` and `of`.
    fn pick(&self, salt: u64, of: &[usize], n: u32) -> u32 {
        let mix = |key: u64, &number: &usize| {
            (key ^ number as u64)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29)
        };
        Philox::new(of.iter().fold(self.seed ^ (salt << 32), mix)).word(0) % n
    }

    /// Returns a player's observation of a history: its own moves and, of the other players' moves,
    /// either all, their parity, or nothing.
    fn seen(&self, player: usize, moves: &[usize]) -> Vec<usize> {
        let see = |at: usize| {
            let action = moves[at];
            match (
                self.mover(&moves[..at]) == player,
                self.pick(1, &[at, player], 3),
            ) {
                (true, _) => Some(action + 10),
                (false, 0) => Some(action + 20),
                (false, 1) => Some(action % 2 + 30),
                (false, _) => None,
            }
        };
        (0..moves.len()).filter_map(see).collect()
    }

    /// Returns who moves after these moves: player 0, player 1, or 2 for chance.
    fn mover(&self, moves: &[usize]) -> usize {
        self.pick(2, &[moves.len()], 3) as usize
    }
}

impl ExtensiveGame for Random {
    type State = Vec<usize>;

    fn title(&self) -> String {
        format!("random {}", self.seed)
    }

    fn root(&self) -> Vec<usize> {
        vec![]
    }

    fn turn(&self, moves: &Vec<usize>) -> Turn {
        if moves.len() == self.max_moves || (moves.len() > 2 && self.pick(3, moves, 5) == 0) {
            let payoff =
                |player| f64::from(self.pick(4, &[&moves[..], &[player]].concat(), 19)) - 9.0;
            return Turn::Terminal(vec![payoff(0), payoff(1)]);
        }
        let player = self.mover(moves);
        if player == 2 {
            let weight = |outcome| f64::from(self.pick(5, &[&moves[..], &[outcome]].concat(), 4));
            return Turn::Chance(vec![1.0 + weight(0), weight(1)]);
        }
        let seen = self.seen(player, moves);
        Turn::Player {
            player,
            information: format!("{} {seen:?}", moves.len()),
            n_actions: 1 + self.pick(6, &[&seen[..], &[moves.len()]].concat(), 3) as usize,
        }
    }

    fn play(&self, moves: &Vec<usize>, action: usize) -> Vec<usize> {
        [&moves[..], &[action]].concat()
    }
}

/// Returns both players' expected payoffs below a node by a traversal of the tree, with the
/// strategy of each information set in `places`.
fn walk(tree: &Tree, places: &[Vec<f64>], node: usize) -> [f64; 2] {
    let average = |weights: &[f64]| {
        let children = tree.children(node).iter().zip(weights);
        children.fold([0.0; 2], |sum, (&child, p)| {
            let values = walk(tree, places, child as usize);
            [sum[0] + p * values[0], sum[1] + p * values[1]]
        })
    };
    match tree.nodes()[node] {
        Node::Terminal(outcome) => {
            let payoffs = &tree.outcomes()[outcome as usize];
            [0, 1].map(|player| payoffs[player].to_integer().to_string().parse().unwrap())
        }
        Node::Chance(chance) => {
            let ratio = |p: &games::Rational| -> f64 {
                let float = |n: &dyn ToString| n.to_string().parse::<f64>().unwrap();
                float(p.numer()) / float(p.denom())
            };
            let weights: Vec<f64> = tree.chances()[chance as usize]
                .probabilities
                .iter()
                .map(ratio)
                .collect();
            average(&weights)
        }
        Node::Decision(set) => average(&places[set as usize]),
    }
}

/// Converts a profile to the order of the tree's information sets.
fn places(tree: &Tree, form: &Sequences, profile: &Profile) -> Vec<Vec<f64>> {
    let mut places = vec![vec![]; tree.information_sets().len()];
    for (player, strategy) in profile.iter().enumerate() {
        for decision in form.decisions(player) {
            let first = decision.first as usize - 1;
            places[decision.set as usize] =
                strategy[first..first + decision.n_actions as usize].to_vec();
        }
    }
    places
}

/// Returns a player's largest payoff over all of its pure strategies; `None` if there are too many
/// strategies.
fn best_by_trial(tree: &Tree, form: &Sequences, profile: &Profile, player: usize) -> Option<f64> {
    let counts: Vec<usize> = form
        .decisions(player)
        .iter()
        .map(|decision| decision.n_actions as usize)
        .collect();
    let n_pure = counts.iter().try_fold(1_usize, |n, &count| {
        n.checked_mul(count).filter(|&n| n <= 3000)
    })?;
    let mut best = f64::NEG_INFINITY;
    for number in 0..n_pure {
        let mut rest = number;
        let mut trial = profile.clone();
        trial[player].clear();
        for &count in &counts {
            trial[player]
                .extend((0..count).map(|action| f64::from(u8::from(action == rest % count))));
            rest /= count;
        }
        best = best.max(walk(tree, &places(tree, form, &trial), 0)[player]);
    }
    Some(best)
}

/// Returns a profile of random probabilities.
fn random_profile(compiled: &CompiledGame, seed: u64) -> Profile {
    let words = Philox::new(seed);
    let mut at = 0;
    let mut strategy = |player: usize| {
        let mut strategy = vec![];
        for decision in compiled.sequences().decisions(player) {
            let draws: Vec<f64> = (0..decision.n_actions)
                .map(|action| words.uniform_f64(at + u64::from(action)) + 1e-3)
                .collect();
            at += u64::from(decision.n_actions);
            let total: f64 = draws.iter().sum();
            strategy.extend(draws.iter().map(|draw| draw / total));
        }
        strategy
    };
    vec![strategy(0), strategy(1)]
}

#[test]
fn values_and_best_responses_are_those_of_a_walk() {
    let mut n_tried = 0;
    for seed in 0..150 {
        let tree = Tree::from_game(&Random {
            seed,
            max_moves: 4 + usize::try_from(seed % 4).unwrap(),
        })
        .unwrap();
        let compiled = CompiledGame::from_tree(&tree).unwrap();
        let form = compiled.sequences();
        let profile = random_profile(&compiled, seed);
        let answers = best_response(&compiled, &profile).unwrap();
        let bound = Tolerance::exact().or_absolute(1e-12);
        assert_close(
            &answers.values,
            walk(&tree, &places(&tree, form, &profile), 0),
            bound.clone(),
        );
        for player in 0..2 {
            // The best response achieves its reported value.
            let mut deviation = profile.clone();
            deviation[player].clone_from(&answers.strategies[player]);
            let gets = walk(&tree, &places(&tree, form, &deviation), 0)[player];
            assert_close([gets], [answers.best_values[player]], bound.clone());
            if let Some(best) = best_by_trial(&tree, form, &profile, player) {
                n_tried += 1;
                assert_close([answers.best_values[player]], [best], bound.clone());
            }
        }
    }
    assert!(n_tried > 100, "{n_tried}");
}

/// A plain CFR: recursive, over the tree, alternating, uniform average.
struct PlainCfr<'t> {
    tree: &'t Tree,
    regrets: Vec<Vec<f64>>,
    sums: Vec<Vec<f64>>,
}

impl PlainCfr<'_> {
    fn strategy(&self, set: usize) -> Vec<f64> {
        let positive: Vec<f64> = self.regrets[set]
            .iter()
            .map(|regret| regret.max(0.0))
            .collect();
        let total: f64 = positive.iter().sum();
        let equal = 1.0 / positive.len() as f64;
        positive
            .iter()
            .map(|regret| if total > 0.0 { regret / total } else { equal })
            .collect()
    }

    /// Adds a player's regrets below a node to `found`, with the player's reach of each set.
    /// Returns the node's value for the player.
    fn visit(
        &self,
        node: usize,
        player: usize,
        own: f64,
        others: f64,
        found: &mut [(Vec<f64>, Option<f64>)],
    ) -> f64 {
        let tree = self.tree;
        match tree.nodes()[node] {
            Node::Terminal(_) => walk(tree, &[], node)[player],
            Node::Chance(chance) => {
                let mut value = 0.0;
                for (&child, p) in tree
                    .children(node)
                    .iter()
                    .zip(&tree.chances()[chance as usize].probabilities)
                {
                    let float = |n: &dyn ToString| n.to_string().parse::<f64>().unwrap();
                    let p = float(p.numer()) / float(p.denom());
                    value += p * self.visit(child as usize, player, own, others * p, found);
                }
                value
            }
            Node::Decision(set) => {
                let set = set as usize;
                let is_own = tree.information_sets()[set].player == player;
                let strategy = self.strategy(set);
                let mut values = vec![];
                for (&child, p) in tree.children(node).iter().zip(&strategy) {
                    let (own, others) = if is_own {
                        (own * p, others)
                    } else {
                        (own, others * p)
                    };
                    values.push(self.visit(child as usize, player, own, others, found));
                }
                let value: f64 = values
                    .iter()
                    .zip(&strategy)
                    .map(|(value, p)| value * p)
                    .sum();
                if is_own {
                    found[set].1 = Some(own);
                    for (regret, action) in found[set].0.iter_mut().zip(values) {
                        *regret += others * (action - value);
                    }
                }
                value
            }
        }
    }

    fn iterate(&mut self) {
        for player in 0..2 {
            let mut found: Vec<(Vec<f64>, Option<f64>)> = self
                .regrets
                .iter()
                .map(|regrets| (vec![0.0; regrets.len()], None))
                .collect();
            self.visit(0, player, 1.0, 1.0, &mut found);
            for (set, (regrets, own)) in found.into_iter().enumerate() {
                let Some(own) = own else { continue };
                let strategy = self.strategy(set);
                for (sum, p) in self.sums[set].iter_mut().zip(strategy) {
                    *sum += own * p;
                }
                for (sum, regret) in self.regrets[set].iter_mut().zip(regrets) {
                    *sum += regret;
                }
            }
        }
    }
}

#[test]
fn cfr_in_the_compiled_is_cfr_on_the_tree() {
    for seed in 0..60 {
        let tree = Tree::from_game(&Random { seed, max_moves: 7 }).unwrap();
        let compiled = CompiledGame::from_tree(&tree).unwrap();
        let zeros: Vec<Vec<f64>> = tree
            .information_sets()
            .iter()
            .map(|set| vec![0.0; set.actions.len()])
            .collect();
        let mut plain = PlainCfr {
            tree: &tree,
            regrets: zeros.clone(),
            sums: zeros,
        };
        let config = SolverConfig::regret_matching();
        let mut run = Run::new(&compiled, &config).unwrap();
        for _ in 0..5 {
            plain.iterate();
        }
        run.advance(5);
        let ours = places(&tree, compiled.sequences(), &run.average());
        for (set, sums) in plain.sums.iter().enumerate() {
            let total: f64 = sums.iter().sum();
            if total > 1e-9 {
                let plain: Vec<f64> = sums.iter().map(|sum| sum / total).collect();
                assert_close(&ours[set], plain, Tolerance::exact().or_absolute(1e-9));
            }
        }
    }
}

#[test]
fn a_run_that_is_cut_in_pieces_is_the_same_run() {
    let compiled = CompiledGame::new(&Random {
        seed: 5,
        max_moves: 8,
    })
    .unwrap();
    for updates in [Updates::Alternating, Updates::Simultaneous] {
        let config = SolverConfig::default().updates(updates).iterations(60);
        let whole = solve(&compiled, &config).unwrap();
        let mut first = Run::new(&compiled, &config).unwrap();
        first.advance(23);
        let state = first.state().clone();
        let rest = Run::resume(&compiled, &config, state)
            .unwrap()
            .finish(|_| std::ops::ControlFlow::Continue(()));
        assert_eq!(whole.strategies, rest.strategies);
    }
}

#[test]
fn a_player_who_forgets_is_rejected() {
    let mut builder = TreeBuilder::new(String::new(), vec![String::new(); 2]);
    let names = || vec!["a".to_owned(), "b".to_owned()];
    let first = builder.information_set(0, "first", names()).unwrap();
    let second = builder.information_set(0, "second", names()).unwrap();
    builder.decision(first, 2).unwrap();
    for _ in 0..2 {
        builder.decision(second, 2).unwrap();
        builder.terminal(&[1, -1]).unwrap();
        builder.terminal(&[-1, 1]).unwrap();
    }
    let tree = builder.finish().unwrap();
    let fault = CompiledGame::from_tree(&tree).unwrap_err();
    assert!(matches!(fault, Error::TreeInvalid { .. }), "{fault}");
}

#[test]
fn a_game_without_choices_has_a_value() {
    let mut builder = TreeBuilder::new(String::new(), vec![String::new(); 2]);
    builder.chance(&[1, 2], || vec![String::new(); 2]).unwrap();
    builder.terminal(&[3, -3]).unwrap();
    builder.terminal(&[0, 0]).unwrap();
    let compiled = CompiledGame::from_tree(&builder.finish().unwrap()).unwrap();
    let solution = solve(&compiled, &SolverConfig::default().iterations(3)).unwrap();
    assert_eq!((solution.value, solution.nash_conv), (1.0, 0.0));
}
