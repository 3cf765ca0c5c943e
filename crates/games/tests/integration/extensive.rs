//! Sizes of the built-in games, with the arithmetic behind each number.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests stand outside of test functions"
)]

use games::extensive::{
    CompiledGame, ExtensiveGame, Kuhn, Leduc, LiarsDice, Node, Sequences, Tree,
};

/// Returns the numbers of terminal nodes, decision nodes, chance nodes, and each player's
/// information sets and sequences.
fn sizes(game: &impl ExtensiveGame) -> (usize, usize, usize, Vec<usize>, Vec<usize>) {
    let tree = Tree::from_game(game).unwrap();
    let form = Sequences::new(&tree).unwrap();
    let count = |kind: fn(&Node) -> bool| tree.nodes().iter().filter(|node| kind(node)).count();
    let ends = count(|node| matches!(node, Node::Terminal(_)));
    assert_eq!(ends, form.leaves().len());
    (
        ends,
        count(|node| matches!(node, Node::Decision(_))),
        count(|node| matches!(node, Node::Chance(_))),
        (0..2).map(|player| form.decisions(player).len()).collect(),
        (0..2).map(|player| form.n_sequences(player)).collect(),
    )
}

#[test]
fn kuhn_has_six_deals_of_five_ends() {
    assert_eq!(
        sizes(&Kuhn),
        (6 * 5, 6 * 4, 1 + 3, vec![6, 6], vec![13, 13])
    );
}

#[test]
fn leduc_has_as_many_ends_as_counted_by_hand() {
    let ends = 30 * 4 + 120 * 5 * 9;
    assert_eq!(
        sizes(&Leduc::new()),
        (ends, 3780, 1 + 6 + 30 * 5, vec![468, 468], vec![1093, 1093])
    );
    let (ends, _, _, sets, sequences) = sizes(&Leduc::isomorphic());
    assert_eq!(
        (ends, sets, sequences),
        (1116, vec![144, 144], vec![337, 337])
    );
}

#[test]
fn liars_dice_has_two_to_the_number_of_bids_histories() {
    assert_eq!(
        sizes(&LiarsDice::new(3, 1).unwrap()),
        (9 * 63, 9 * 64, 4, vec![96, 96], vec![190, 190])
    );
    let (ends, _, _, sets, _) = sizes(&LiarsDice::new(6, 1).unwrap());
    assert_eq!((ends, sets), (36 * 4095, vec![6 * 2048, 6 * 2048]));
}

#[test]
fn two_dice_are_rolled_together() {
    // Two faces, two dice: 3 rolls of weights 1, 2, 1; 8 bids.
    let tree = Tree::from_game(&LiarsDice::new(2, 2).unwrap()).unwrap();
    let form = Sequences::new(&tree).unwrap();
    assert_eq!(
        (form.leaves().len(), form.decisions(0).len()),
        (9 * 255, 3 * 128)
    );
    let weights: Vec<String> = tree.chances()[0]
        .probabilities
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(weights, ["1/4", "1/2", "1/4"]);
    // The first deal, two ones each, has a probability of 1/16 at each of its terminal nodes.
    let total: games::Rational = form
        .leaves()
        .iter()
        .take(255)
        .map(|leaf| form.exact_reach(leaf.reach))
        .sum();
    assert_eq!(total.to_string(), "255/16");
}

#[test]
fn merging_suits_changes_no_trajectory() {
    use games::{Run, SolverConfig, nash_conv};
    use tensor_core::compare::{Tolerance, assert_close};
    let (full, merged) = (
        CompiledGame::new(&Leduc::new()).unwrap(),
        CompiledGame::new(&Leduc::isomorphic()).unwrap(),
    );
    for config in [
        SolverConfig::regret_matching(),
        SolverConfig::regret_matching_plus(),
    ] {
        let (mut one, mut other) = (
            Run::new(&full, &config).unwrap(),
            Run::new(&merged, &config).unwrap(),
        );
        for iteration in [1, 10, 100] {
            one.advance(iteration - one.state().iteration);
            other.advance(iteration - other.state().iteration);
            let found = nash_conv(&merged, &other.average()).unwrap();
            // The reference's own implementations agree with each other only to this tolerance.
            let bound = Tolerance::exact().or_absolute(1e-10);
            assert_close([found], [nash_conv(&full, &one.average()).unwrap()], bound);
        }
    }
}

#[test]
fn raw_fractions_without_a_value_are_errors_and_others_are_read() {
    use games::extensive::TreeBuilder;
    use games::{Error, MatrixGame, Number, Rational, exact, ndarray::array};
    let raw =
        |numerator: i64, denominator: i64| Rational::new_raw(numerator.into(), denominator.into());
    let names = || vec![String::new(); 2];
    for none in [raw(1, 0), raw(0, 0), raw(-1, 0)] {
        assert!(none.exact().is_none() && none.nearest().is_nan() && !none.is_float());
        let mut builder = TreeBuilder::new(String::new(), names());
        let fault = builder
            .chance(&[none.clone(), raw(1, 2)], names)
            .unwrap_err();
        assert!(matches!(fault, Error::TreeInvalid { .. }), "{fault}");
        let fault = builder.terminal(&[raw(1, 2), none.clone()]).unwrap_err();
        assert!(
            matches!(fault, Error::PayoffInvalid { player: 1, .. }),
            "{fault}"
        );
        assert!(MatrixGame::zero_sum(array![[none]]).is_err());
    }
    // Input fractions need neither lowest terms nor a positive denominator.
    let game =
        MatrixGame::zero_sum(array![[raw(2, -4), raw(3, 9)], [raw(6, 4), raw(-5, 5)]]).unwrap();
    let reduced =
        MatrixGame::zero_sum(array![[raw(-1, 2), raw(1, 3)], [raw(3, 2), raw(-1, 1)]]).unwrap();
    assert_eq!(exact(&game).unwrap(), exact(&reduced).unwrap());
}
