//! Zero-sum trees solved by their sequence form, with proofs. The tests verify results by
//! traversing the tree in fractions.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

use games::exact::{TreeSolution, sequence_form_lp};
use games::extensive::{
    ExtensiveGame, Kuhn, Leduc, LiarsDice, Node, Sequences, Tree, TreeBuilder, Turn,
};
use games::ndarray::Array2;
use games::{Error, MatrixGame, Number, Rational, exact};
use num_traits::{One, Signed};
use proptest::prelude::*;
use proptest::test_runner::Config;
use tensor_core::compare::{Tolerance, assert_close};

/// A player's best response, found by walking the tree: at each information set the action that is
/// worth most over all nodes of the set, weighted by the probabilities of chance and of the other
/// players.
struct Response<'a> {
    tree: &'a Tree,
    player: usize,
    /// The strategy of each information set, by its number in the tree.
    strategies: Vec<&'a [Rational]>,
    /// The nodes of each information set, with the probability of reaching each node by the moves
    /// of chance and of the other players.
    members: Vec<Vec<(usize, Rational)>>,
    choices: Vec<Option<usize>>,
}

impl<'a> Response<'a> {
    fn value(tree: &'a Tree, player: usize, strategies: &'a [Vec<Rational>]) -> Rational {
        let form = Sequences::new(tree).unwrap();
        let n_sets = tree.information_sets().len();
        let mut by_set: Vec<&[Rational]> = vec![&[]; n_sets];
        for (side, strategy) in strategies.iter().enumerate() {
            for decision in form.decisions(side) {
                let range =
                    decision.first as usize - 1..(decision.first + decision.n_actions) as usize - 1;
                by_set[decision.set as usize] = &strategy[range];
            }
        }
        let mut response = Self {
            tree,
            player,
            strategies: by_set,
            members: vec![vec![]; n_sets],
            choices: vec![None; n_sets],
        };
        response.reach(0, Rational::one());
        response.value_of(0)
    }

    fn reach(&mut self, node: usize, reach: Rational) {
        let tree = self.tree;
        let children = tree.children(node).iter().map(|&child| child as usize);
        match tree.nodes()[node] {
            Node::Terminal(_) => {}
            Node::Chance(chance) => {
                let shares = &tree.chances()[chance as usize].probabilities;
                children
                    .zip(shares)
                    .for_each(|(child, share)| self.reach(child, &reach * share));
            }
            Node::Decision(set) => {
                let set = set as usize;
                if tree.information_sets()[set].player == self.player {
                    self.members[set].push((node, reach.clone()));
                    children.for_each(|child| self.reach(child, reach.clone()));
                } else {
                    let shares = self.strategies[set];
                    children
                        .zip(shares)
                        .for_each(|(child, share)| self.reach(child, &reach * share));
                }
            }
        }
    }

    fn value_of(&mut self, node: usize) -> Rational {
        let tree = self.tree;
        let children = tree.children(node).iter().map(|&child| child as usize);
        let shares = match tree.nodes()[node] {
            Node::Terminal(outcome) => {
                return tree.outcomes()[outcome as usize][self.player].clone();
            }
            Node::Chance(chance) => &tree.chances()[chance as usize].probabilities,
            Node::Decision(set) => {
                let set = set as usize;
                if tree.information_sets()[set].player == self.player {
                    let choice = self.choice(set);
                    return self.value_of(tree.children(node)[choice] as usize);
                }
                self.strategies[set]
            }
        };
        children
            .zip(shares)
            .map(|(child, share)| self.value_of(child) * share)
            .sum()
    }

    fn choice(&mut self, set: usize) -> usize {
        if let Some(choice) = self.choices[set] {
            return choice;
        }
        let members = self.members[set].clone();
        let n_actions = self.tree.information_sets()[set].actions.len();
        let mut value = |action: usize| -> Rational {
            let children = members.iter().map(|(node, reach)| {
                self.value_of(self.tree.children(*node)[action] as usize) * reach
            });
            children.sum()
        };
        let values: Vec<Rational> = (0..n_actions).map(&mut value).collect();
        let choice = (0..n_actions)
            .max_by_key(|&action| values[action].clone())
            .unwrap();
        self.choices[set] = Some(choice);
        choice
    }
}

/// Solves a tree and checks that neither player can get more than the value against the other's
/// strategy.
fn proved(tree: &Tree) -> TreeSolution {
    let solution = exact(tree).unwrap();
    for strategy in &solution.strategies {
        assert!(!strategy.iter().any(Signed::is_negative));
    }
    let form = Sequences::new(tree).unwrap();
    for player in 0..2 {
        let strategy = &solution.strategies[player];
        assert_eq!(strategy.len(), form.n_sequences(player) - 1);
        for decision in form.decisions(player) {
            let range =
                decision.first as usize - 1..(decision.first + decision.n_actions) as usize - 1;
            assert!(strategy[range].iter().sum::<Rational>().is_one());
        }
    }
    assert_eq!(
        Response::value(tree, 0, &solution.strategies),
        solution.value
    );
    assert_eq!(
        Response::value(tree, 1, &solution.strategies),
        -&solution.value
    );
    solution
}

fn value(game: &impl ExtensiveGame) -> String {
    proved(&Tree::from_game(game).unwrap()).value.to_string()
}

#[test]
fn kuhn_poker_is_worth_minus_one_eighteenth() {
    assert_eq!(value(&Kuhn), "-1/18");
    let solution = exact(&Tree::from_game(&Kuhn).unwrap()).unwrap();
    assert_eq!(solution.to_string(), "value -1/18");
}

#[test]
fn liars_dice_of_three_faces_is_worth_one_ninth() {
    assert_eq!(value(&LiarsDice::new(3, 1).unwrap()), "1/9");
}

#[test]
fn liars_dice_of_four_faces_is_worth_one_sixteenth() {
    assert_eq!(value(&LiarsDice::new(4, 1).unwrap()), "1/16");
}

/// The value of Leduc hold'em, the same for its two forms of 288 and of 936 information sets.
const LEDUC: &str = "-1454920850547486749701863871533/16995463438839962469905132501930";

#[test]
fn leduc_of_ranks_is_proved() {
    assert_eq!(value(&Leduc::isomorphic()), LEDUC);
}

#[test]
fn leduc_of_suits_is_proved() {
    assert_eq!(value(&Leduc::new()), LEDUC);
}

#[test]
fn leduc_of_suits_is_solved_to_the_last_float() {
    let tree = Tree::from_game(&Leduc::new()).unwrap();
    let solution = sequence_form_lp(&tree).unwrap();
    assert_eq!(solution.value, LEDUC.parse::<Rational>().unwrap().nearest());
    // Results of two other solvers, in floats.
    assert_close(
        [solution.value],
        [-0.085_606_424_078_00],
        Tolerance::relative(0).or_absolute(1e-14),
    );
    assert!(solution.nash_conv.abs() < 1e-14, "{:e}", solution.nash_conv);
    let floats = &solution.strategies;
    assert_eq!(
        floats.iter().map(Vec::len).collect::<Vec<_>>(),
        [1092, 1092]
    );
}

#[test]
fn floats_are_the_fractions_rounded() {
    for tree in [
        Tree::from_game(&Kuhn),
        Tree::from_game(&LiarsDice::new(2, 1).unwrap()),
    ] {
        let tree = tree.unwrap();
        let fractions = exact(&tree).unwrap();
        let floats = sequence_form_lp(&tree).unwrap();
        assert_eq!(floats.value, fractions.value.nearest());
        let rounded = |strategy: &Vec<Rational>| strategy.iter().map(Number::nearest).collect();
        let rounded: Vec<Vec<f64>> = fractions.strategies.iter().map(rounded).collect();
        assert_eq!(floats.strategies, rounded);
        assert!(floats.nash_conv.abs() < 1e-15);
    }
}

#[test]
fn sequences_are_solved_like_their_tree() {
    let tree = Tree::from_game(&Kuhn).unwrap();
    let form = Sequences::new(&tree).unwrap();
    assert_eq!(exact(&form).unwrap(), exact(&tree).unwrap());
}

/// Returns the tree of a matrix game: the first player chooses a row, which the second player does
/// not see, then the second player chooses a column.
fn table(gains: &Array2<i32>) -> Tree {
    let names = |n: usize| (0..n).map(|action| action.to_string()).collect::<Vec<_>>();
    let mut builder = TreeBuilder::new("table".into(), names(2));
    let (n_rows, n_cols) = gains.dim();
    let row = builder.information_set(0, "", names(n_rows)).unwrap();
    let col = builder.information_set(1, "", names(n_cols)).unwrap();
    builder.decision(row, n_rows).unwrap();
    for gains in gains.rows() {
        builder.decision(col, n_cols).unwrap();
        for gain in gains {
            builder.terminal(&[*gain, -gain]).unwrap();
        }
    }
    builder.finish().unwrap()
}

#[test]
fn the_value_of_games_without_choices_is_the_expected_payoff() {
    let mut builder = TreeBuilder::new("end".into(), vec![String::new(); 2]);
    builder.terminal(&[3, -3]).unwrap();
    let solution = proved(&builder.finish().unwrap());
    assert_eq!(solution.value.to_string(), "3");
    assert_eq!(solution.strategies, [[], []]);

    let mut builder = TreeBuilder::new("lottery".into(), vec![String::new(); 2]);
    builder
        .chance(&[1, 0, 2], || vec![String::new(); 3])
        .unwrap();
    for gain in [1, 1_000, -1] {
        builder.terminal(&[gain, -gain]).unwrap();
    }
    assert_eq!(proved(&builder.finish().unwrap()).value.to_string(), "-1/3");
}

#[test]
fn a_player_alone_takes_the_best() {
    assert_eq!(
        proved(&table(&ndarray_of(&[&[2], &[5], &[3]])))
            .value
            .to_string(),
        "5"
    );
    assert_eq!(
        proved(&table(&ndarray_of(&[&[2, 5, -3]])))
            .value
            .to_string(),
        "-3"
    );
}

fn ndarray_of(rows: &[&[i32]]) -> Array2<i32> {
    Array2::from_shape_vec((rows.len(), rows[0].len()), rows.concat()).unwrap()
}

#[test]
fn payoffs_of_hostile_scales_are_solved() {
    let mut builder = TreeBuilder::new("scales".into(), vec![String::new(); 2]);
    let sides = || vec!["l".to_owned(), "r".to_owned()];
    let first = builder.information_set(0, "", sides()).unwrap();
    let second = builder.information_set(1, "", sides()).unwrap();
    builder.chance(&[1e-300, 1.0], sides).unwrap();
    for gains in [[1e150, -1e150, 1e-150, 3.0], [0.0, -1e-150, 1e-150, 5e-324]] {
        builder.decision(first, 2).unwrap();
        for gains in gains.chunks(2) {
            builder.decision(second, 2).unwrap();
            for &gain in gains {
                builder.terminal(&[gain, -gain]).unwrap();
            }
        }
    }
    proved(&builder.finish().unwrap());
}

#[test]
fn games_of_three_and_of_other_sums_are_rejected() {
    let mut builder = TreeBuilder::new("three".into(), vec![String::new(); 3]);
    builder.terminal(&[1, -1, 0]).unwrap();
    let rejected = exact(&builder.finish().unwrap()).unwrap_err();
    assert!(matches!(
        rejected,
        Error::PlayersUnsupported { n_players: 3, .. }
    ));

    let mut builder = TreeBuilder::new("tenths".into(), vec![String::new(); 2]);
    builder.chance(&[1, 1], || vec![String::new(); 2]).unwrap();
    builder.terminal(&[1.0, -1.0]).unwrap();
    builder.terminal(&[0.3, -(0.1 + 0.2)]).unwrap();
    let rejected = sequence_form_lp(&builder.finish().unwrap()).unwrap_err();
    assert_eq!(
        rejected,
        Error::NotConstantSum {
            operation: "exact::sequence_form_lp",
            cell: vec![1],
        }
    );
}

#[test]
fn players_that_forget_are_rejected() {
    let mut builder = TreeBuilder::new("sleepy".into(), vec![String::new(); 2]);
    let sides = || vec!["l".to_owned(), "r".to_owned()];
    let set = builder.information_set(0, "driver", sides()).unwrap();
    builder.decision(set, 2).unwrap();
    builder.terminal(&[0, 0]).unwrap();
    builder.decision(set, 2).unwrap();
    builder.terminal(&[4, -4]).unwrap();
    builder.terminal(&[1, -1]).unwrap();
    let rejected = exact(&builder.finish().unwrap()).unwrap_err();
    assert!(matches!(rejected, Error::TreeInvalid { .. }));
}

/// A game of random rules: chance deals each player a hand, hands are secret, all moves are seen.
struct Drawn {
    n_hands: usize,
    n_moves: usize,
    seed: u64,
}

impl Drawn {
    fn hash(&self, moves: &[usize]) -> u64 {
        moves.iter().fold(self.seed, |hash, &at| {
            (hash ^ at as u64)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(23)
        })
    }
}

impl ExtensiveGame for Drawn {
    type State = Vec<usize>;

    fn title(&self) -> String {
        "drawn".into()
    }

    fn root(&self) -> Vec<usize> {
        vec![]
    }

    fn turn(&self, moves: &Vec<usize>) -> Turn {
        if moves.len() < 2 {
            return Turn::Chance((0..self.n_hands).map(|hand| 1.0 + hand as f64).collect());
        }
        let seen = &moves[2..];
        // The player to move and the end of the game must not reveal the hands.
        let hash = self.hash(seen);
        if seen.len() == self.n_moves || (seen.len() > 1 && hash.is_multiple_of(5)) {
            let gain = (self.hash(moves) % 19) as f64 - 9.0;
            return Turn::Terminal(vec![gain, -gain]);
        }
        let player = usize::try_from(hash >> 7 & 1).unwrap();
        Turn::Player {
            player,
            information: format!("{} {seen:?}", moves[player]),
            n_actions: 1 + usize::try_from(hash >> 11 & 1).unwrap() + seen.len() % 2,
        }
    }

    fn play(&self, moves: &Vec<usize>, action: usize) -> Vec<usize> {
        [&moves[..], &[action]].concat()
    }
}

proptest! {
    #![proptest_config(Config { cases: 40, failure_persistence: None, ..Config::default() })]

    #[test]
    fn random_games_are_proved(n_hands in 1_usize..4, n_moves in 1_usize..5, seed in any::<u64>()) {
        let tree = Tree::from_game(&Drawn { n_hands, n_moves, seed }).unwrap();
        let solution = proved(&tree);
        let floats = sequence_form_lp(&tree).unwrap();
        prop_assert_eq!(floats.value, solution.value.nearest());
        prop_assert!(floats.nash_conv.abs() < 1e-13);
    }

    #[test]
    fn matrix_games_written_as_trees_have_the_same_value(
        gains in prop::collection::vec(-9..=9_i32, 12)
    ) {
        let gains = Array2::from_shape_vec((3, 4), gains).unwrap();
        let solution = proved(&table(&gains));
        let other = exact(&MatrixGame::zero_sum(gains).unwrap()).unwrap();
        prop_assert_eq!(&solution.value, &other.value);
        for player in 0..2 {
            if other.unique[player] {
                prop_assert_eq!(&solution.strategies[player], &other.strategies[player]);
            }
        }
    }
}
