//! Tests of poker games exported by OpenSpiel against the built-in games.

use flate2::read::GzDecoder;
use games::extensive::{ExtensiveGame, Kuhn, Leduc, Node, Sequences, Tree};
use games::files::{self, File};
use games::{Rational, exact};
use std::io::Read;

fn exported(name: &str) -> Tree {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    match files::read(path).expect("the file is valid") {
        File::Extensive(tree) => tree,
        File::Strategic(game) => panic!("not a tree: {game:?}"),
    }
}

/// Returns Leduc poker with suits, from a compressed file.
fn exported_leduc() -> Tree {
    let packed = include_bytes!("../../testdata/openspiel-leduc.efg.gz");
    let mut text = vec![];
    GzDecoder::new(&packed[..])
        .read_to_end(&mut text)
        .expect("the archive is complete");
    files::read_efg(text).expect("the file is valid")
}

/// Returns the probability of each of a player's sequences if the player chooses all actions with
/// equal probability.
fn even_reaches(form: &Sequences, player: usize) -> Vec<Rational> {
    let one = || Rational::from_integer(1.into());
    let mut reaches = vec![one(); form.n_sequences(player)];
    for decision in form.decisions(player) {
        let each =
            &reaches[decision.parent as usize] / Rational::from_integer(decision.n_actions.into());
        let first = decision.first as usize;
        reaches[first..first + decision.n_actions as usize].fill(each);
    }
    reaches
}

/// Returns the first player's payoff if both players always choose uniformly.
fn even_value(form: &Sequences) -> Rational {
    let reaches: Vec<_> = (0..form.n_players())
        .map(|player| even_reaches(form, player))
        .collect();
    let value = |(at, leaf): (usize, &games::extensive::Leaf)| {
        let sequences = form.leaf_sequences(at).iter().zip(&reaches);
        let reach: Rational = sequences
            .map(|(&sequence, reaches)| reaches[sequence as usize].clone())
            .product();
        reach * form.exact_reach(leaf.reach) * &form.outcomes()[leaf.outcome as usize][0]
    };
    form.leaves().iter().enumerate().map(value).sum()
}

/// Returns the first player's payoff at each leaf, with the probability of the chance moves on the
/// path.
fn weighted_gains(form: &Sequences) -> Vec<Rational> {
    let gain = |leaf: &games::extensive::Leaf| {
        form.exact_reach(leaf.reach) * &form.outcomes()[leaf.outcome as usize][0]
    };
    form.leaves().iter().map(gain).collect()
}

/// Checks that a game from a file equals the same game defined by its rules, except for names. Both
/// deal and bet in the same order, so their sequences and leaves have the same order.
fn is_same_game(file: &Tree, rules: &impl ExtensiveGame, value: Rational) {
    let file = Sequences::new(file).expect("the game has perfect recall");
    let rules = Tree::from_game(rules).expect("the rules form a valid tree");
    let ours = Sequences::new(&rules).expect("the game has perfect recall");
    for player in 0..2 {
        assert_eq!(file.decisions(player), ours.decisions(player));
        assert_eq!(file.n_sequences(player), ours.n_sequences(player));
    }
    assert_eq!(file.leaves().len(), ours.leaves().len());
    for leaf in 0..ours.leaves().len() {
        assert_eq!(file.leaf_sequences(leaf), ours.leaf_sequences(leaf));
    }
    assert_eq!(weighted_gains(&file), weighted_gains(&ours));
    assert_eq!(even_value(&file), value);
    assert_eq!(even_value(&ours), value);
}

#[test]
fn kuhn_from_openspiel_is_ours() {
    is_same_game(
        &exported("openspiel-kuhn.efg"),
        &Kuhn,
        Rational::new(1.into(), 8.into()),
    );
}

#[test]
fn isomorphic_leduc_from_openspiel_is_ours() {
    let value = Rational::new((-5).into(), 64.into());
    is_same_game(
        &exported("openspiel-leduc-isomorphic.efg"),
        &Leduc::isomorphic(),
        value,
    );
}

#[test]
fn leduc_from_openspiel_is_ours() {
    let file = exported_leduc();
    assert_eq!(file.information_sets().len(), 936);
    // Uniform play has the same value whether or not players see suits.
    let value = Rational::new((-5).into(), 64.into());
    is_same_game(&file, &Leduc::new(), value);
}

#[test]
fn leduc_from_openspiel_is_worth_what_ours_is() {
    let value = "-1454920850547486749701863871533/16995463438839962469905132501930";
    let solution = exact(&exported_leduc()).expect("the game is zero-sum");
    assert_eq!(solution.value.to_string(), value);
}

#[test]
fn what_was_rounded_is_written_as_fractions() {
    let tree = exported("openspiel-kuhn.efg");
    let written = files::write_efg(&tree);
    let first = r#"c "" 1 "" { "Deal:0" 1/3 "Deal:1" 1/3 "Deal:2" 1/3 } 0"#;
    assert_eq!(written.lines().nth(3), Some(first));
    assert_eq!(files::read_efg(&written).unwrap(), tree);
}

#[test]
fn built_in_games_survive_their_files() {
    let full = Tree::from_game(&Leduc::new()).unwrap();
    let written = files::write_efg(&full);
    assert!(written.len() > 300_000, "{}", written.len());
    assert_eq!(files::read_efg(&written).unwrap(), full);
    let n_ends = |tree: &Tree| {
        tree.nodes()
            .iter()
            .filter(|node| matches!(node, Node::Terminal(_)))
            .count()
    };
    assert_eq!(n_ends(&full), 5520);
    let kuhn = Tree::from_game(&Kuhn).unwrap();
    assert_eq!(files::read_efg(files::write_efg(&kuhn)).unwrap(), kuhn);
}
