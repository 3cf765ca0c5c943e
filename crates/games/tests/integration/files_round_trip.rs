//! Random games, written and read again.

use games::extensive::{Tree, TreeBuilder};
use games::{Labels, NormalForm, Rational, StrategicGame, files, ndarray::ArrayD};
use proptest::collection::vec;
use proptest::prelude::*;

/// Generates names from characters that are difficult for a format.
fn name() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        3 => any::<char>(),
        1 => prop::sample::select(vec!['"', '\\', '\n', '\r', '{', '}', ',', ' ', 'a', '/', '\0']),
    ];
    vec(letter, 0..8).prop_map(|letters| letters.into_iter().collect())
}

/// Generates integers, short and long fractions, and floats as fractions.
fn number() -> impl Strategy<Value = Rational> {
    let fraction = |(top, bottom): (i128, i128)| Rational::new(top.into(), bottom.into());
    prop_oneof![
        (-9..10_i128).prop_map(|integer| Rational::from_integer(integer.into())),
        (-99..100_i128, 1..100_i128).prop_map(fraction),
        (any::<i128>(), 1..i128::MAX).prop_map(fraction),
        (-1e150..1e150_f64)
            .prop_map(|float| Rational::from_float(float).expect("the float is finite")),
        (-1e-150..1e-150_f64)
            .prop_map(|float| Rational::from_float(float).expect("the float is finite")),
    ]
}

/// Generates no names, or names that are not all empty: a file cannot distinguish empty names from
/// no names.
fn names(count: usize) -> impl Strategy<Value = Vec<String>> {
    let some =
        vec(name(), count).prop_filter("a name", |names| names.iter().any(|name| !name.is_empty()));
    prop_oneof![Just(vec![]), some]
}

fn normal_form() -> impl Strategy<Value = NormalForm> {
    let with_shape = |shape: Vec<usize>| {
        let n_cells: usize = shape.iter().product();
        let (n_players, n_actions) = (shape.len(), shape.iter().sum());
        let payoffs = vec(vec(number(), n_cells), n_players);
        (
            Just(shape),
            payoffs,
            name(),
            names(n_players),
            names(n_actions),
        )
    };
    let game = |(shape, payoffs, title, players, mut actions): (
        Vec<usize>,
        Vec<Vec<Rational>>,
        _,
        _,
        Vec<String>,
    )| {
        let array = |payoffs| {
            ArrayD::from_shape_vec(shape.clone(), payoffs)
                .expect("there is one payoff for each cell")
        };
        let game = NormalForm::new(shape.len(), payoffs.into_iter().map(array).collect())
            .expect("all players have payoffs of one shape");
        let actions = if actions.is_empty() {
            vec![]
        } else {
            shape
                .iter()
                .map(|&count| actions.drain(..count).collect())
                .collect()
        };
        game.with_labels(Labels {
            title,
            players,
            actions,
        })
        .expect("the names match the shape")
    };
    vec(1..4_usize, 1..5)
        .prop_flat_map(with_shape)
        .prop_map(game)
}

/// A node of a random tree: its kind, number of children, names, weights of chance (as numerator
/// and denominator) and payoffs.
type Draft = (u8, usize, Vec<String>, Vec<(u64, u64)>, Vec<Rational>);

fn draft() -> impl Strategy<Value = Draft> {
    let weight = (1..u64::MAX, 1..u64::MAX);
    (
        any::<u8>(),
        1..4_usize,
        vec(name(), 4),
        vec(weight, 3),
        vec(number(), 3),
    )
}

/// Builds a tree from drafts of its nodes. All nodes that are missing after the last draft become
/// leaves.
fn tree_of(title: String, players: Vec<String>, drafts: Vec<Draft>) -> Tree {
    let n_players = players.len();
    let mut builder = TreeBuilder::new(title, players);
    let mut sets: Vec<(u32, usize)> = vec![];
    let mut drafts = drafts.into_iter();
    while builder.n_missing() > 0 {
        let (kind, n_children, names, weights, numbers) = drafts.next().unwrap_or_default();
        match kind % 8 {
            1 | 2 => {
                let weight = |&(top, bottom): &(u64, u64)| Rational::new(top.into(), bottom.into());
                let weights: Vec<Rational> = weights[..n_children].iter().map(weight).collect();
                builder
                    .chance(&weights, || names[..n_children].to_vec())
                    .expect("the weights are positive");
            }
            3 | 4 if !sets.is_empty() => {
                let (set, n_actions) = sets[usize::from(kind) % sets.len()];
                builder
                    .decision(set, n_actions)
                    .expect("the set has these actions");
            }
            3..=6 => {
                let player = usize::from(kind / 8) % n_players;
                let set = builder
                    .information_set(player, &names[3], names[..n_children].to_vec())
                    .expect("the player exists");
                sets.push((set, n_children));
                builder
                    .decision(set, n_children)
                    .expect("the set has these actions");
            }
            _ => {
                let numbers = numbers.into_iter().cycle().take(n_players);
                let mut payoffs: Vec<Rational> = numbers.collect();
                payoffs.resize(n_players, Rational::default());
                builder
                    .terminal(&payoffs)
                    .expect("there is one payoff for each player");
            }
        }
    }
    builder.finish().expect("the drafts form a valid tree")
}

fn tree() -> impl Strategy<Value = Tree> {
    (name(), vec(name(), 1..4), vec(draft(), 0..60))
        .prop_map(|(title, players, drafts)| tree_of(title, players, drafts))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn strategic_games_come_back_as_they_were(game in normal_form()) {
        let text = files::write_nfg(&game);
        let read = files::read_nfg(&text).unwrap();
        prop_assert_eq!(&read, &game);
        prop_assert_eq!(read.labels(), game.labels());
        prop_assert_eq!(files::write_nfg(&read), text);
    }

    #[test]
    fn outcomes_and_payoffs_describe_the_same_game(game in normal_form()) {
        let (shape, n_players) = (game.shape().to_vec(), game.shape().len());
        let listed = files::write_nfg(&game);
        // Each line after the header's blank line is a cell; the cell becomes an outcome of the
        // same number.
        let n_cells = shape.iter().product();
        let cells: Vec<&str> = listed.lines().rev().take(n_cells).collect();
        let outcomes: String = cells.iter().map(|cell| format!("{{ \"\" {} }}\n", cell.replace(' ', ", "))).collect();
        let numbers: Vec<String> = (1..=n_cells).rev().map(|number| number.to_string()).collect();
        let sides: Vec<String> = shape.iter().map(usize::to_string).collect();
        let players = "\"\" ".repeat(n_players);
        let text = format!(
            "NFG 1 R \"\" {{ {players}}} {{ {} }} {{ {outcomes} }} {}", sides.join(" "), numbers.join(" "),
        );
        let read = files::read_nfg(text).unwrap();
        prop_assert_eq!(read, game.with_labels(Labels::default()).unwrap());
    }

    #[test]
    fn trees_come_back_as_they_were(tree in tree()) {
        let text = files::write_efg(&tree);
        let read = files::read_efg(&text).unwrap();
        prop_assert_eq!(&read, &tree);
        prop_assert_eq!(files::write_efg(&read), text);
    }
}
