//! Games given as text, solved and printed.

use super::answer::FactValue;
use super::print::decimal;
use super::*;
use games::Rational;
use games::exact::MAX_LABELS;
use serde_json::{Value, json};
use std::time::Duration;

const CHICKEN: &str = "NFG 1 R \"chicken\" { \"A\" \"B\" } { { \"swerve\" \"go\" } { \"swerve\" \"go\" } } \"\" 6 6 7 2 2 7 0 0";

fn parsed(args: &[&str]) -> Options {
    Options::new(Solve::parse_from(["solve", "FILE"].iter().chain(args)))
}

fn solved(text: &str, args: &[&str]) -> Answer {
    answer(files::parse(text).unwrap(), &parsed(args)).unwrap()
}

fn fact<'a>(answer: &'a Answer, name: &str) -> &'a FactValue {
    let fact = answer.facts.iter().find(|fact| fact.name == name);
    &fact.unwrap_or_else(|| panic!("no {name}")).value
}

#[test]
fn a_zero_sum_game_is_solved_with_a_proof() {
    let game =
        "NFG 1 R \"crash\" { \"Row\" \"Col\" } { 3 3 } 0 0 1 -1 -2 2 -1 1 0 0 1 -1 2 -2 -1 1 0 0";
    let answer = solved(game, &[]);
    let lines = "value 0\nstrategies unique, unique\n  player Row: 1 0.25, 2 0.5, 3 0.25\n";
    assert!(answer.text(false).contains(lines), "{}", answer.text(false));
    assert!(
        answer
            .text(true)
            .contains("player Row: 1 1/4, 2 1/2, 3 1/4\n")
    );
    let learnt = solved(game, &["--learn", "--tolerance", "1e-9"]);
    assert!(learnt.is_reached() && learnt.rows.iter().all(|row| row.fraction.is_none()));
    assert!(!solved(game, &["--learn", "--tolerance", "0", "--iterations", "3"]).is_reached());
}

#[test]
fn the_smallest_target_has_the_best_answer() {
    let game =
        "NFG 1 R \"crash\" { \"Row\" \"Col\" } { 3 3 } 0 0 1 -1 -2 2 -1 1 0 0 1 -1 2 -2 -1 1 0 0";
    for target in ["0", "1e-300", "1e-17", "1e-6"] {
        let args = ["--learn", "--tolerance", target, "--iterations", "1e4"];
        match fact(&solved(game, &args), "NashConv") {
            FactValue::Floats(numbers) => assert!(numbers[0] <= 1e-15, "{target}: {numbers:?}"),
            _ => panic!("NashConv is a number"),
        }
    }
}

#[test]
fn names_of_a_file_do_not_act_on_the_terminal() {
    let bad = "\u{1b}[2J\u{7}\r\n\u{9b}\u{202e}é";
    let table = format!(
        "NFG 1 R \"{bad}\" {{ \"{bad}\" \"B\" }} {{ {{ \"{bad}\" \"b\" }} {{ \"c\" }} }} \"\" 1 -1 0 0"
    );
    let tree = format!(
        "EFG 2 R \"{bad}\" {{ \"{bad}\" \"B\" }} p \"\" 1 1 \"{bad}\" {{ \"{bad}\" \"b\" }} 0 \
         t \"\" 1 \"\" {{ 1 -1 }} p \"\" 2 1 \"{bad}\" {{ \"{bad}\" \"d\" }} 0 \
         t \"\" 2 \"\" {{ 0 0 }} t \"\" 3 \"\" {{ 0 1 }}"
    );
    let shown = "\\u{1b}[2J\\u{7}\\r\\n\\u{9b}\\u{202e}é";
    for (game, n_times) in [(&table, 3), (&tree, 4)] {
        for args in [&[][..], &["--learn"]] {
            let answer = solved(game, args);
            let text = answer.text(false);
            let is_tame = |letter: char| letter == '\n' || !letter.is_control();
            assert!(text.chars().all(is_tame), "{text:?}");
            assert!(text.matches(shown).count() >= n_times, "{text}");
            // Other programs get the names as they are.
            let first = answer.json().unwrap().lines().next().unwrap().to_owned();
            let first: Value = serde_json::from_str(&first).unwrap();
            assert_eq!(first["game"], bad);
        }
    }
}

#[test]
fn information_sets_are_numbered_per_player_in_any_order() {
    let tree = "EFG 2 R \"\" { \"A\" \"B\" } p \"\" 2 7 \"\" { \"a\" \"b\" } 0 \
        p \"\" 1 3 \"\" { \"c\" \"d\" } 0 t \"\" 1 \"\" { 1 -1 } t \"\" 2 \"\" { 2 -2 } \
        p \"\" 2 1 \"\" { \"e\" } 0 p \"\" 1 9 \"\" { \"f\" } 0 t \"\" 3 \"\" { 3 -3 }";
    for args in [&[][..], &["--learn"]] {
        let answer = solved(tree, args);
        let numbers: Vec<_> = answer.rows.iter().map(|row| row.action.numbers).collect();
        assert_eq!(
            numbers,
            [
                [1, 1, 1],
                [1, 1, 2],
                [1, 2, 1],
                [2, 1, 1],
                [2, 1, 2],
                [2, 2, 1]
            ]
        );
    }
}

#[test]
fn a_large_constant_in_payoffs_leaves_what_is_learnt_as_it_is() {
    for offset in ["1", "1e12", "1e16"] {
        let tree = format!(
            "EFG 2 R \"\" {{ \"A\" \"B\" }} p \"\" 1 1 \"\" {{ \"a\" \"b\" }} 0 \
             p \"\" 2 1 \"\" {{ \"c\" \"d\" }} 0 t \"\" 1 \"\" {{ {offset} -{offset} }} \
             t \"\" 2 \"\" {{ {0} -{0} }} p \"\" 2 1 0 t \"\" 3 \"\" {{ {1} -{1} }} t \"\" 1",
            offset.parse::<f64>().unwrap() + 4.0,
            offset.parse::<f64>().unwrap() + 2.0
        );
        let learnt = solved(&tree, &["--learn", "--tolerance", "1e-6"]);
        assert!(learnt.is_reached());
        for (row, truth) in learnt
            .rows
            .iter()
            .zip([1.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0, 1.0 / 3.0])
        {
            assert!(
                (row.probability - truth).abs() < 1e-5,
                "{offset}: {}",
                row.probability
            );
        }
        let forbidden = solved(
            &tree,
            &["--learn", "--tolerance", "1e-30", "--iterations", "1e4"],
        );
        assert!(!forbidden.is_reached());
    }
}

#[test]
fn a_game_of_constant_sum_is_proved() {
    // A win is 1, a draw 1/2.
    let table = "NFG 1 R \"\" { \"A\" \"B\" } { 2 2 } 1 0 0 1 1/2 1/2 1 0";
    let answer = solved(table, &[]);
    assert_eq!(answer.method, "linear program, proved");
    assert_eq!(fact(&answer, "payoffs").text(true), "2/3, 1/3");
    assert_eq!(fact(&answer, "payoffs").fractions(), json!(["2/3", "1/3"]));
    let tree = "EFG 2 R \"\" { \"A\" \"B\" } p \"\" 1 1 \"\" { \"a\" \"b\" } 0 \
        p \"\" 2 1 \"\" { \"c\" \"d\" } 0 t \"\" 1 \"\" { 16 0 } t \"\" 2 \"\" { 4 12 } \
        p \"\" 2 1 0 t \"\" 3 \"\" { 8 8 } t \"\" 1";
    let answer = solved(tree, &[]);
    assert_eq!(answer.method, "sequence-form linear program, proved");
    // 16 p + 8 (1 - p) = 4 p + 16 (1 - p).
    assert_eq!(fact(&answer, "payoffs").text(true), "56/5, 24/5");
}

#[test]
fn all_equilibria_of_other_games_are_listed() {
    let answer = solved(CHICKEN, &[]);
    assert_eq!(answer.rows.last().unwrap().equilibrium, 3);
    let text = answer.text(true);
    let lines = "equilibrium 2: payoffs 14/3, 14/3\n  player A: swerve 2/3, go 1/3\n";
    assert!(text.contains(lines), "{text}");
    let text = answer.text(false);
    let lines = "equilibrium 2: payoffs 4.666666667, 4.666666667\n  player A: swerve 0.666666667, go 0.333333333\n";
    assert!(text.contains(lines), "{text}");
    let third = answer.csv().lines().nth(5).unwrap().to_owned();
    assert_eq!(
        third,
        "2,1,1,1,\"A\",\"\",\"swerve\",0.6666666666666666,2/3"
    );
    let json = answer.json().unwrap();
    let first: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    let known = &first["facts"][1];
    assert_eq!(known["fact"], json!([14.0 / 3.0, 14.0 / 3.0]));
    assert_eq!(
        (&known["equilibrium"], &known["fractions"][0]),
        (&json!(2), &json!("14/3"))
    );
}

#[test]
fn one_equilibrium_is_found_where_all_would_be_too_many() {
    // The game Chicken with additional dominated actions of the second player, with one label more
    // than the limit of the enumeration.
    const N_USELESS: usize = MAX_LABELS - 3;
    let useless = "0 -1 0 -1 ".repeat(N_USELESS);
    let game = format!(
        "NFG 1 R \"chicken\" {{ \"A\" \"B\" }} {{ 2 {} }} 6 6 7 2 2 7 0 0 {useless}",
        2 + N_USELESS
    );
    let answer = solved(&game, &[]);
    assert_eq!(answer.method, "one equilibrium by Lemke-Howson, proved",);
    assert!(fact(&answer, "reason").text(false).contains("limit 128"));
    assert_eq!(fact(&answer, "payoffs").text(false), "2, 7");
    assert_eq!(answer.rows.len(), MAX_LABELS + 1);
    let taken = answer.rows.iter().filter(|row| row.probability != 0.0);
    let taken: Vec<_> = taken
        .map(|row| (row.equilibrium, row.action.numbers, row.fraction.clone()))
        .collect();
    let one = Some(Rational::from_integer(1.into()));
    assert_eq!(taken, [(1, [1, 1, 1], one.clone()), (1, [2, 1, 2], one)]);
}

#[test]
fn a_game_of_long_fractions_is_learnt() {
    let fraction = |at: usize| {
        format!(
            "{}{at}/{}{}",
            "123".repeat(100),
            "457".repeat(100),
            2 * at + 1
        )
    };
    let payoffs: Vec<String> = (0..18).map(fraction).collect();
    let game = format!(
        "NFG 1 R \"\" {{ \"A\" \"B\" }} {{ 3 3 }} {}",
        payoffs.join(" ")
    );
    let answer = solved(&game, &[]);
    assert_eq!(answer.method, "average of learning by regret");
    let reason = fact(&answer, "reason").text(false);
    assert!(reason.contains("limit 4096"), "{reason}");
}

#[test]
fn proofs_end_within_the_time_and_the_game_is_learnt() {
    let side = 150_u64;
    let cells = 2 * side * side;
    // The mixing function of the generator SplitMix64.
    let mix =
        |number: u64, shift: u32, factor: u64| (number ^ (number >> shift)).wrapping_mul(factor);
    let random = |at: u64| {
        let number = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mix(
            mix(number, 30, 0xBF58_476D_1CE4_E5B9),
            27,
            0x94D0_49BB_1331_11EB,
        ) >> 45
    };
    let payoffs: Vec<String> = (0..cells)
        .map(|at| format!("0.{:06}", random(at)))
        .collect();
    let game = format!(
        "NFG 1 R \"\" {{ \"A\" \"B\" }} {{ {side} {side} }} {}",
        payoffs.join(" ")
    );
    let answer = solved(&game, &["--time-limit", "0.4", "--tolerance", "2"]);
    let reason = fact(&answer, "reason").text(false);
    assert!(reason.contains("deadline reached"), "{reason}");
    assert_eq!(answer.method, "average of learning by regret");
}

/// A battle of the sexes in which the first player may opt out.
const OUTSIDE: &str = "EFG 2 R \"outside\" { \"I\" \"II\" } p \"\" 1 1 \"entry\" { \"out\" \"in\" } 0 \
    t \"\" 1 \"\" { 2 2 } p \"\" 1 2 \"inside\" { \"T\" \"B\" } 0 \
    p \"\" 2 1 \"reply\" { \"L\" \"R\" } 0 t \"\" 2 \"\" { 3 1 } t \"\" 3 \"\" { 0 0 } \
    p \"\" 2 1 0 t \"\" 3 t \"\" 4 \"\" { 1 3 }";

#[test]
fn all_equilibria_of_a_small_tree_are_listed() {
    let answer = solved(OUTSIDE, &[]);
    assert_eq!(
        answer.method,
        "all extreme equilibria of the reduced strategic form, proved"
    );
    // Opting out is optimal while the probability of the reply L is at most 2/3. Inside the game, T
    // and B are both played only if it is 3/4.
    let text = "\
outside
all extreme equilibria of the reduced strategic form, proved

equilibrium 1: payoffs 2, 2
  player I at entry: out 1
  player I at inside: not reached
  player II at reply: L 2/3, R 1/3

equilibrium 2: payoffs 2, 2
  player I at entry: out 1
  player I at inside: not reached
  player II at reply: R 1

equilibrium 3: payoffs 3, 1
  player I at entry: in 1
  player I at inside: T 1
  player II at reply: L 1
";
    assert_eq!(answer.text(true), text);
    // Information sets are numbered per player.
    assert_eq!(answer.rows.last().unwrap().action.numbers, [2, 1, 2]);
    let learnt = solved(OUTSIDE, &["--learn"]);
    assert!(learnt.is_reached() && learnt.method == "average of learning by regret");
    assert!(
        !solved(
            OUTSIDE,
            &["--learn", "--tolerance", "0", "--iterations", "3"]
        )
        .is_reached()
    );
}

#[test]
fn a_tree_is_learnt_when_the_time_for_proofs_is_over() {
    let answer = solved(OUTSIDE, &["--time-limit", "0"]);
    assert_eq!(answer.method, "average of learning by regret");
    assert_eq!(
        fact(&answer, "reason").text(false),
        "exact: deadline reached before the result was complete \
         (`--time-limit SECONDS` sets the time)"
    );
}

#[test]
fn every_proof_has_a_deadline() {
    let proof_time = |args| parsed(args).proof_time();
    assert_eq!(proof_time(&[]), Duration::from_secs(300));
    assert_eq!(
        proof_time(&["--time-limit", "3"]),
        Duration::from_millis(1500)
    );
}

#[test]
fn a_tree_is_solved_set_by_set() {
    let tree = "EFG 2 R \"coin\" { \"A\" \"B\" } p \"\" 1 1 \"mine\" { \"h\" \"t\" } 0 \
        p \"\" 2 1 \"yours\" { \"h\" \"t\" } 0 t \"\" 1 \"\" { 1 -1 } t \"\" 2 \"\" { -1 1 } \
        p \"\" 2 1 0 t \"\" 2 t \"\" 1";
    let answer = solved(tree, &[]);
    let lines: Vec<String> = answer.json().unwrap().lines().map(str::to_owned).collect();
    assert_eq!(
        (
            lines.len(),
            answer.rows[3].fraction.clone().unwrap().to_string()
        ),
        (5, "1/2".into())
    );
    assert!(
        solved(tree, &["--learn"])
            .rows
            .iter()
            .all(|row| (row.probability - 0.5).abs() < 1e-3)
    );
}

#[test]
fn numbers_are_short() {
    assert_eq!(decimal(1.0 / 3.0), "0.333333333");
    assert_eq!(
        [0.0, 2.0, -0.25, 1e-9, 1e30].map(decimal).join(" "),
        "0 2 -0.25 1.000e-9 1.000e30"
    );
}

#[test]
fn the_command_line_determines_the_form() {
    assert!(parsed(&[]).form == Form::Text);
    assert!(parsed(&["--csv", "--csv"]).form == Form::Csv);
    assert!(parsed(&["--json"]).form == Form::Json);
}

#[test]
fn a_game_of_one_player_is_proved() {
    let answer = solved("NFG 1 R \"\" { \"A\" } { 4 } 1/3 2/3 0 2/3", &[]);
    assert_eq!(answer.method, "all best actions, proved");
    assert_eq!(fact(&answer, "payoffs").text(true), "2/3");
    let one = Some(Rational::from_integer(1.into()));
    let taken = answer.rows.iter().filter(|row| row.fraction == one);
    let taken: Vec<_> = taken
        .map(|row| (row.equilibrium, row.action.numbers))
        .collect();
    assert_eq!(taken, [(1, [1, 1, 2]), (2, [1, 1, 4])]);
    assert_eq!(answer.rows.len(), 8);
    let learnt = solved("NFG 1 R \"\" { \"A\" } { 2 } 1 2", &["--learn"]);
    assert!(learnt.rows.iter().all(|row| row.fraction.is_none()));
}

#[test]
fn a_target_that_is_missed_has_a_reason() {
    let missed = solved(
        CHICKEN,
        &["--learn", "--tolerance", "0", "--iterations", "3"],
    );
    let reason = missed.shortfall.unwrap();
    for part in [
        "NashConv",
        "target 0",
        "3 iterations",
        "--iterations",
        "--time-limit",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    assert_eq!(solved(CHICKEN, &[]).shortfall, None);
}

#[test]
fn learning_has_its_half_of_the_time_after_a_proof_that_was_late() {
    let mut options = parsed(&["--time-limit", "2"]);
    options.begun -= Duration::from_secs(5);
    assert_eq!(options.time_to_learn(), Duration::from_secs(1));
    options.learn = true;
    assert_eq!(options.time_to_learn(), Duration::ZERO);
    // A proof that ended early leaves its time to learning.
    let fresh = parsed(&["--time-limit", "2000"]);
    assert!(fresh.time_to_learn() > Duration::from_secs(1900));
}

#[test]
fn a_game_of_one_player_with_too_many_best_actions_is_learnt() {
    let game = |n_actions: usize| {
        let payoffs = "0 ".repeat(n_actions);
        format!("NFG 1 R \"\" {{ \"A\" }} {{ {n_actions} }} {payoffs}")
    };
    // Each of 1000 best actions is an equilibrium with a probability of each action.
    assert_eq!(solved(&game(1000), &[]).rows.len(), 1_000_000);
    let answer = solved(&game(2000), &[]);
    let reason = fact(&answer, "reason").text(false);
    assert!(
        reason.contains("number of probabilities of all equilibria exceeds the limit (4000000;"),
        "{reason}"
    );
    assert!(answer.is_reached() && answer.rows.len() == 2000);
    // Even a short time is enough to learn.
    let answer = solved(&game(1000), &["--time-limit", "1e-9"]);
    let reason = fact(&answer, "reason").text(false);
    assert!(reason.contains("solve: deadline reached"), "{reason}");
}

/// A hidden draw of one of two urns, and a choice between a payoff of 1 and a guess of the urn,
/// which pays 3 if it is right.
const GUESS: &str = "EFG 2 R \"guess\" { \"A\" } c \"\" 1 \"\" { \"left\" 1/3 \"right\" 2/3 } 0 \
    p \"\" 1 1 \"start\" { \"stop\" \"go\" } 0 t \"\" 1 \"\" { 1 } \
    p \"\" 1 2 \"guess\" { \"left\" \"right\" } 0 t \"\" 2 \"\" { 3 } t \"\" 3 \"\" { 0 } \
    p \"\" 1 1 0 t \"\" 1 p \"\" 1 2 0 t \"\" 3 t \"\" 2";

#[test]
fn a_tree_of_one_player_is_proved() {
    let answer = solved(GUESS, &[]);
    let text = "\
guess
all best plans of the reduced strategic form, proved
payoffs 2
  player A at start: go 1
  player A at guess: right 1
";
    assert_eq!(answer.text(true), text);
    let learnt = solved(GUESS, &["--learn"]);
    assert!(learnt.is_reached() && learnt.rows.iter().all(|row| row.fraction.is_none()));
    let probabilities = learnt.rows.iter().map(|row| row.probability);
    assert!(
        probabilities
            .zip([0.0, 1.0, 0.0, 1.0])
            .all(|(found, truth)| (found - truth).abs() < 1e-5)
    );
    // If stopping pays 2 as well, there are two best plans.
    let answer = solved(&GUESS.replace("{ 1 }", "{ 2 }"), &[]);
    let numbers: Vec<usize> = answer.rows.iter().map(|row| row.equilibrium).collect();
    assert_eq!(numbers, [1, 1, 1, 1, 2, 2, 2, 2]);
}

#[test]
fn a_tree_of_three_players_is_learnt() {
    // Each player after the first sees only that the game has come this far. The players gain 1 if
    // nobody stops, and else nothing.
    let tree = "EFG 2 R \"relay\" { \"A\" \"B\" \"C\" } p \"\" 1 1 \"\" { \"stop\" \"go\" } 0 \
        t \"\" 1 \"\" { 0 0 0 } p \"\" 2 1 \"\" { \"stop\" \"go\" } 0 t \"\" 1 \
        p \"\" 3 1 \"\" { \"stop\" \"go\" } 0 t \"\" 1 t \"\" 2 \"\" { 1 1 1 }";
    for args in [&[][..], &["--learn"]] {
        let answer = solved(tree, args);
        assert_eq!(answer.method, "average of learning by regret");
        assert!(answer.is_reached(), "{:?}", answer.shortfall);
        let numbers: Vec<_> = answer.rows.iter().map(|row| row.action.numbers).collect();
        let expected = [1, 2, 3].map(|player| [[player, 1, 1], [player, 1, 2]]);
        assert_eq!(numbers, expected.concat());
        let go = answer.rows.iter().skip(1).step_by(2);
        assert!(go.into_iter().all(|row| row.probability > 0.999));
    }
}
