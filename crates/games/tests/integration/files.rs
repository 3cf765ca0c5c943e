//! Game files: accepted texts, written texts, and error messages.

use games::extensive::{Node, Tree};
use games::files::{self, File};
use games::{Bimatrix, Error, MatrixGame, NormalForm, Rational, StrategicGame, ndarray::array};

fn fraction(top: i64, bottom: i64) -> Rational {
    Rational::new(top.into(), bottom.into())
}

/// Returns a player's payoffs in the order of the file: the first player's action changes fastest.
fn column(game: &NormalForm, player: usize) -> Vec<String> {
    let (rows, cols) = (game.shape()[0], game.shape()[1]);
    let cells = (0..cols).flat_map(|col| (0..rows).map(move |row| [row, col]));
    cells
        .map(|cell| game.payoff(player, &cell).to_string())
        .collect()
}

/// Returns the message of a file error, without the operation.
#[track_caller]
fn fault<T: std::fmt::Debug>(read: games::Result<T>) -> String {
    let error = read.expect_err("the file is invalid");
    assert!(matches!(error, Error::FileInvalid { .. }), "{error:?}");
    let message = error.to_string();
    message
        .split_once(": ")
        .expect("the message begins with the operation")
        .1
        .to_owned()
}

#[test]
fn payoffs_are_listed_with_the_first_players_strategy_first() {
    let text = "NFG 1 R \"three by two\" { \"Ann\" \"Bob\" } { 3 2 }\n\n1 10  2 20  3 30\n4 40 5 50 6 60\n";
    let game = files::read_nfg(text).unwrap();
    assert_eq!(game.shape(), [3, 2]);
    assert_eq!(column(&game, 0), ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(column(&game, 1), ["10", "20", "30", "40", "50", "60"]);
    assert_eq!(game.payoff(1, &[2, 0]), fraction(30, 1));
    assert_eq!(game.labels().title, "three by two");
    assert_eq!(game.labels().players, ["Ann", "Bob"]);
    assert!(game.labels().actions.is_empty());
}

#[test]
fn three_players_strategies_change_from_the_first_to_the_last() {
    let numbers: Vec<String> = (0..2 * 3 * 2 * 3)
        .map(|number| number.to_string())
        .collect();
    let text = format!(
        "NFG 1 R \"\" {{ \"\" \"\" \"\" }} {{ 2 3 2 }} {}",
        numbers.join(" ")
    );
    let game = files::read_nfg(text).unwrap();
    for cell in [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 2, 1]] {
        let place = cell[0] + 2 * cell[1] + 6 * cell[2];
        for player in 0..3 {
            let number = i64::try_from(3 * place + player).unwrap();
            assert_eq!(game.payoff(player, &cell), fraction(number, 1));
        }
    }
}

#[test]
fn outcomes_stand_for_payoffs_and_outcome_zero_for_none() {
    let text = r#"NFG 1 R "with outcomes" { "Ann" "Bob" }

{{ "top" "bottom" }
{ "left" "right" }}
"A comment."

{
{ "one" 1/2, -3 }
{ "" 2.5 4 }
{ 7, 1e2 }
}
2 0 1 3
"#;
    let game = files::read_nfg(text).unwrap();
    assert_eq!(column(&game, 0), ["5/2", "0", "1/2", "7"]);
    assert_eq!(column(&game, 1), ["4", "0", "-3", "100"]);
    assert_eq!(
        game.labels().actions,
        [["top", "bottom"], ["left", "right"]]
    );
    let listed = files::write_nfg(&game);
    assert_eq!(files::read_nfg(&listed).unwrap(), game);
    assert!(listed.contains("\n5/2 4\n0 0\n1/2 -3\n7 100\n"), "{listed}");
}

#[test]
fn numbers_are_exact_however_they_are_written() {
    let text = "NFG 1 D \"\" { \"\" \"\" } { 4 1 } .1, -0.25 +3 2. 1.5e-3 12E2 -22/7 340282366920938463463374607431768211456";
    let game = files::read_nfg(text).unwrap();
    assert_eq!(column(&game, 0), ["1/10", "3", "3/2000", "-22/7"]);
    assert_eq!(
        column(&game, 1),
        [
            "-1/4",
            "2",
            "1200",
            "340282366920938463463374607431768211456"
        ]
    );
}

#[test]
fn every_kind_of_strategic_game_is_written() {
    let matrix = MatrixGame::zero_sum(array![[0.5, -1.0], [2.0, 0.0]]).unwrap();
    let written = files::write_nfg(&matrix);
    assert_eq!(
        written,
        "NFG 1 R \"\" { \"\" \"\" }\n{ 2 2 }\n\"\"\n\n1/2 -1/2\n2 -2\n-1 1\n0 0\n"
    );
    let bimatrix = Bimatrix::from(matrix.clone());
    assert_eq!(files::write_nfg(&bimatrix), written);
    let read = files::read_nfg(&written).unwrap();
    assert_eq!(read, NormalForm::from(bimatrix));
    assert_eq!(MatrixGame::try_from(read).unwrap(), matrix);
}

/// A file in which the second player does not see the outcome of chance, and inner nodes have
/// payoffs too.
const STAGES: &str = r#"EFG 2 R "two stages" { "Ann" "Bob" }
"What happens first counts as well."

c "root" 1 "(0,1)" { "good" 1/4 "bad" .75 } 0
p "" 1 1 "(1,1)" { "in" "out" } 1 "fee" { -1 -0.5 }
p "" 2 1 "" { "yes" "no" } 0
t "" 2 "both" { 5, 5 }
t "" 3 "none" { 0, 0 }
t "" 4 { 1/3 1/3 }
p "" 1 2 { "in" "out" } 1
p "" 2 1 0
t "" 2
t "" 0
t "" 4 "" { 1/3, 1/3 }
"#;

/// Returns the payoffs of each terminal node, in the order of the file.
fn ends(tree: &Tree) -> Vec<Vec<String>> {
    let payoffs = |node: &Node| match *node {
        Node::Terminal(outcome) => Some(&tree.outcomes()[outcome as usize]),
        Node::Chance(_) | Node::Decision(_) => None,
    };
    let ends = tree.nodes().iter().filter_map(payoffs);
    ends.map(|payoffs| payoffs.iter().map(Rational::to_string).collect())
        .collect()
}

#[test]
fn outcomes_of_inner_nodes_are_added_to_the_ends() {
    let branch = [["4", "9/2"], ["-1", "-1/2"], ["-2/3", "-1/6"]];
    let tree = files::read_efg(STAGES).unwrap();
    assert_eq!(ends(&tree), [branch, branch].concat());
    assert_eq!(
        tree.chances()[0].probabilities,
        [fraction(1, 4), fraction(3, 4)]
    );
    assert_eq!(tree.labels().players, ["Ann", "Bob"]);
}

#[test]
fn sets_are_distinguished_by_player_and_number() {
    let tree = files::read_efg(STAGES).unwrap();
    let sets: Vec<_> = tree
        .information_sets()
        .iter()
        .map(|set| (set.player, set.name.as_str()))
        .collect();
    assert_eq!(sets, [(0, "(1,1)"), (1, ""), (0, "")]);
    let text = r#"EFG 2 R "" { "A" "B" }
p 1 7 "same" { "a" "b" } 0
p 2 7 "same" { "c" } 0  t 0
p 1 3 "same" { "a" "b" } 0  t 0  t 0"#;
    let tree = files::read_efg(text).unwrap();
    assert_eq!(tree.information_sets().len(), 3);
    let written = files::write_efg(&tree);
    assert!(
        written.contains("p \"\" 1 2 \"same\" { \"a\" \"b\" } 0\n"),
        "{written}"
    );
    assert_eq!(files::read_efg(written).unwrap(), tree);
}

#[test]
fn a_tree_is_written_line_by_line() {
    let tree = files::read_efg(STAGES).unwrap();
    let expected = r#"EFG 2 R "two stages" { "Ann" "Bob" }
""

c "" 1 "" { "good" 1/4 "bad" 3/4 } 0
p "" 1 1 "(1,1)" { "in" "out" } 0
p "" 2 1 "" { "yes" "no" } 0
t "" 1 "" { 4, 9/2 }
t "" 2 "" { -1, -1/2 }
t "" 3 "" { -2/3, -1/6 }
p "" 1 2 "" { "in" "out" } 0
p "" 2 1 "" { "yes" "no" } 0
t "" 1 "" { 4, 9/2 }
t "" 2 "" { -1, -1/2 }
t "" 3 "" { -2/3, -1/6 }
"#;
    assert_eq!(files::write_efg(&tree), expected);
    assert_eq!(files::read_efg(expected).unwrap(), tree);
}

#[test]
fn an_end_alone_is_a_tree() {
    let tree = files::read_efg("EFG 2 R \"\" { \"\" } t \"\" 0").unwrap();
    assert_eq!(ends(&tree), [["0"]]);
    assert_eq!(files::read_efg(files::write_efg(&tree)).unwrap(), tree);
}

#[test]
fn rounded_chances_become_the_fractions_that_were_meant() {
    let deal = |chances: &str| {
        let ends = "t 0\n".repeat(chances.split(' ').count());
        files::read_efg(format!(
            "EFG 2 R \"\" {{ \"\" }} c 1 {{ {chances} }} 0 {ends}"
        ))
    };
    let chances = |text| {
        let tree = deal(text).unwrap();
        let chances = &tree.chances()[0].probabilities;
        assert_eq!(chances.iter().sum::<Rational>(), fraction(1, 1));
        chances.iter().map(Rational::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        chances("0.3333333333333333 0.3333333333333333 0.3333333333333333"),
        ["1/3"; 3]
    );
    assert_eq!(chances("0.5 0.16666666667 1/3"), ["1/2", "1/6", "1/3"]);
    assert_eq!(chances("0.1 0.9 0"), ["1/10", "9/10", "0"]);
    assert_eq!(
        fault(deal("0.3 0.3")),
        "line 1, column 23: expected probabilities that sum to 1 within 1e-9, found a sum of 0.6"
    );
    assert_eq!(
        fault(deal("-0.5 1.5")),
        "line 1, column 25: expected a nonnegative probability, found -0.5"
    );
}

#[test]
fn names_may_hold_anything() {
    let name = "\\ \"quoted\" \\\" back\\slash\\\\, { a }\r\n\ttabs, π, \0 \\";
    let read = files::read_nfg(r#"NFG 1 R "a \"b\" \c \\" { "" } { 1 } 0"#).unwrap();
    assert_eq!(read.labels().title, r#"a "b" \c \"#);
    let labels = games::Labels {
        title: name.into(),
        players: vec![name.into(), String::new()],
        actions: vec![vec![name.into()], vec![name.into()]],
    };
    let game = NormalForm::from(MatrixGame::zero_sum(array![[1]]).unwrap())
        .with_labels(labels)
        .unwrap();
    assert_eq!(files::read_nfg(files::write_nfg(&game)).unwrap(), game);
}

#[test]
fn marks_of_byte_order_and_other_encodings_are_no_fault() {
    let game = files::read_nfg(b"\xef\xbb\xbfNFG 1 R \"caf\xe9\"{\"\"}{2}\r\n1\x0b2\r\n").unwrap();
    assert_eq!(game.labels().title, "caf\u{fffd}");
    assert_eq!(game.payoffs(0), [1.0, 2.0]);
}

#[test]
fn faults_of_strategic_games_name_place_expectation_and_find() {
    let head = "NFG 1 R \"t\" { \"A\" \"B\" }";
    let cases = [
        (
            "",
            "line 1, column 1: expected NFG, found the end of the file",
        ),
        ("EFG 2", "line 1, column 1: expected NFG, found EFG"),
        ("NFG 2 R", "line 1, column 5: expected 1, found 2"),
        ("NFG 1 Q", "line 1, column 7: expected R or D, found Q"),
        (
            "NFG 1 R \"t",
            "line 1, column 9: expected a text with a closing quotation mark, found \\\"t",
        ),
        (
            "NFG 1 R t",
            "line 1, column 9: expected the game's title in quotation marks, found t",
        ),
        (
            "NFG 1 R \"t\" { }",
            "line 1, column 15: expected a player's name in quotation marks, found }",
        ),
        (
            "#\n{ 2 }",
            "line 2, column 5: expected a number of strategies, found }",
        ),
        (
            "#\n{ 2 2 2 }",
            "line 2, column 7: expected } after the strategies of 2 players, found 2",
        ),
        (
            "#\n{ 2 0 } 1",
            "line 2, column 5: expected a number of strategies above 0, found 0",
        ),
        (
            "#\n{ 2 -1 } 1",
            "line 2, column 5: expected a number of strategies, found -1",
        ),
        (
            "#\n{ {\"é\" 2} 1 }",
            "line 2, column 8: expected a strategy's name in quotation marks, found 2",
        ),
        (
            "#\n{ 1 1 } 1",
            "line 2, column 9: expected 2 payoffs, found the last 1 bytes of the file",
        ),
        (
            "#\n{ 2 1 } 1 2 3 x",
            "line 2, column 15: expected a payoff, a number of at most 700 digits, found x",
        ),
        (
            "#\n{ 2 1 } 1 2 3 1/0",
            "line 2, column 15: expected a payoff, a number of at most 700 digits, found 1/0",
        ),
        (
            "#\n{ 2 1 } 1 2 3 -1e151",
            "line 2, column 15: expected a payoff of absolute value at most 1e150, found -1e151",
        ),
        (
            "#\n{ 1 1 } 1 2 3",
            "line 2, column 13: expected the end of the file, found 3",
        ),
        (
            "#\n{ 1 1 } { { 1 2 3 } } 1",
            "line 2, column 17: expected } after 2 payoffs, found 3",
        ),
        (
            "#\n{ 1 1 } { { 1 2 } }\n 2",
            "line 3, column 2: expected an outcome's number, from 0 to 1, found 2",
        ),
        (
            "#\n{ 1 1 } { 1 2 } 1",
            "line 2, column 11: expected { before an outcome, found 1",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(
            fault(files::read_nfg(text.replace('#', head))),
            message,
            "{text}"
        );
    }
}

#[test]
fn faults_of_trees_name_place_expectation_and_find() {
    let head = "EFG 2 R \"t\" { \"A\" \"B\" } \"comment\"\n";
    let set = "p \"\" 1 1 \"s\" { \"a\" \"b\" } 0\n";
    let cases = [
        ("EFG 1", "line 1, column 5: expected 2, found 1"),
        (
            "#",
            "line 2, column 1: expected a node (c, p or t; 1 remaining), found the end of the file",
        ),
        (
            "#x",
            "line 2, column 1: expected a node (c, p or t; 1 remaining), found x",
        ),
        (
            "#t",
            "line 2, column 2: expected an outcome's number (0 for no outcome), found the end of the file",
        ),
        (
            "#t \"\" 1 { 1, 2, 3 }",
            "line 2, column 16: expected } after 2 payoffs, found 3",
        ),
        (
            "#t 5",
            "line 2, column 3: expected an outcome described earlier, found 5",
        ),
        (
            "#t 0 t 0",
            "line 2, column 5: expected the end of the file, found t",
        ),
        (
            "#t 0 { 1, 2 }",
            "line 2, column 5: expected the end of the file, found {",
        ),
        (
            "#p \"\" 3 1 { \"a\" } 0 t 0",
            "line 2, column 6: expected a player's number, from 1 to 2, found 3",
        ),
        (
            "#p \"\" 0 1 { \"a\" } 0 t 0",
            "line 2, column 6: expected a player's number, from 1 to 2, found 0",
        ),
        (
            "#p \"\" 1 1 0 t 0",
            "line 2, column 8: expected an information set described earlier, found 1",
        ),
        (
            "#p \"\" 1 1 { } 0 t 0",
            "line 2, column 12: expected an action's name in quotation marks, found }",
        ),
        (
            "#c \"\" 1 0 t 0",
            "line 2, column 6: expected a chance move described earlier, found 1",
        ),
        (
            "#!t 0",
            "line 3, column 1: expected 2 more nodes, found the last 3 bytes of the file",
        ),
        (
            "#!t \"left\" 0",
            "line 3, column 11: expected a node (c, p or t; 1 remaining), found the end of the file",
        ),
        (
            "#!p 1 1 { \"a\" } 0 t 0 t 0",
            "line 3, column 5: expected the earlier description of information set 1 of player 1, found 1",
        ),
        (
            "#!p 1 1 \"x\" 0 t 0 t 0 t 0",
            "line 3, column 5: expected the earlier description of information set 1 of player 1, found 1",
        ),
        (
            "#!t 1 { 1 1 } t 1 { 1 2 }",
            "line 3, column 15: expected the earlier description of outcome 1, found 1",
        ),
        (
            "#!c 1 { 1/2 1/2 } 0 t 0 t 0 c 1 { 1/3 2/3 } 0 t 0 t 0",
            "line 3, column 29: expected the earlier description of chance move 1, found 1",
        ),
    ];
    for (text, message) in cases {
        let text = text.replace('!', set).replace('#', head);
        assert_eq!(fault(files::read_efg(&text)), message, "{text}");
    }
}

#[test]
fn the_first_word_determines_the_format() {
    assert!(matches!(files::parse(STAGES), Ok(File::Extensive(tree)) if tree.n_players() == 2));
    let strategic = files::parse("\n NFG 1 R \"\" { \"\" } { 1 } 7");
    assert!(matches!(strategic, Ok(File::Strategic(game)) if game.payoffs(0) == [7.0]));
    assert_eq!(
        fault(files::parse("nfg 1")),
        "line 1, column 1: expected NFG or EFG, found nfg"
    );
}

#[test]
fn errors_of_missing_files_contain_their_paths() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/openspiel-kuhn.efg");
    assert!(matches!(files::read(golden), Ok(File::Extensive(_))));
    let error = files::read("no/such/file.efg").unwrap_err();
    assert!(
        matches!(&error, Error::FileUnreadable { path, .. } if path.ends_with("file.efg")),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .starts_with("files::read: no/such/file.efg: "),
        "{error}"
    );
    let folder = files::read(env!("CARGO_MANIFEST_DIR"));
    assert!(
        matches!(folder, Err(Error::FileUnreadable { .. })),
        "{folder:?}"
    );
}
