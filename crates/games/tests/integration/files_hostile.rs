//! Texts that announce many items, are deeply nested or damaged: they must give an error quickly,
//! without panics and with little memory.

use games::exact::Prover;
use games::extensive::Node;
use games::{Error, StrategicGame, files};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use std::cell::Cell;
use std::fmt::Write;
use std::ops::ControlFlow;

const PLAYERS: &str = "{ \"A\" \"B\" }";

#[track_caller]
fn too_large<T: std::fmt::Debug>(read: games::Result<T>) -> String {
    let error = read.expect_err("too large");
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
    error.to_string()
}

#[track_caller]
fn invalid<T: std::fmt::Debug>(read: games::Result<T>) -> String {
    let error = read.expect_err("invalid");
    assert!(matches!(error, Error::FileInvalid { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn claims_of_a_header_are_checked_before_memory_is_taken() {
    let players = "\"\" ".repeat(40);
    let text = format!(
        "NFG 1 R \"\" {{ {players}}} {{ {} }} 1 2 3",
        "10 ".repeat(40)
    );
    let message = too_large(files::read_nfg(text));
    assert!(
        message.starts_with("files::read_nfg: number of payoffs exceeds the limit ("),
        "{message}"
    );
    assert!(message.ends_with("limit 67108864)"), "{message}");
    let message = too_large(files::read_nfg(format!(
        "NFG 1 R \"\" {PLAYERS} {{ 1000000000 1 }} 1"
    )));
    assert!(message.contains("(2000000000;"), "{message}");
    // The count is within the limit, but the text is too short for it.
    let message = invalid(files::read_nfg(format!(
        "NFG 1 R \"\" {PLAYERS} {{ 33554432 1 }} 1 2"
    )));
    assert!(
        message.ends_with("expected 67108864 payoffs, found the last 3 bytes of the file"),
        "{message}"
    );
    let message = invalid(files::read_nfg(format!(
        "NFG 1 R \"\" {PLAYERS} {{ 33554432 1 }} {{ }} 0 0"
    )));
    assert!(
        message.contains("expected 33554432 numbers of outcomes"),
        "{message}"
    );
    let message = invalid(files::read_nfg(format!(
        "NFG 1 R \"\" {PLAYERS} {{ 99999999999999999999999 1 }} 1 2"
    )));
    assert!(
        message.contains("expected a number of strategies, found 9999"),
        "{message}"
    );
    let crowd = "\"\" ".repeat(65);
    let message = too_large(files::read_efg(format!("EFG 2 R \"\" {{ {crowd}}} t 0")));
    assert_eq!(
        message,
        "files::read_efg: number of players exceeds the limit (65; limit 64)"
    );
}

#[test]
fn children_are_not_set_aside_before_there_is_text_for_them() {
    let actions = "\"\" ".repeat(1000);
    let again = "p 1 1 0 ".repeat(1000);
    let text = format!("EFG 2 R \"\" {PLAYERS} p 1 1 {{ {actions}}} 0 {again}");
    let message = invalid(files::read_efg(text));
    assert!(
        message.contains(" more nodes, found the last "),
        "{message}"
    );
    let text = format!(
        "EFG 2 R \"\" {PLAYERS} c 1 {{ {}}} 0 {}",
        "1/1000 ".repeat(1000),
        "c 1 0 ".repeat(1000)
    );
    let message = invalid(files::read_efg(text));
    assert!(
        message.contains(" more nodes, found the last "),
        "{message}"
    );
}

#[test]
fn numbers_that_would_fill_memory_are_rejected() {
    let long = "7".repeat(100_000);
    for number in [
        "1e999999999",
        "1e-999999999",
        "-1e99999999999999999999",
        &long,
        &format!("1/{long}"),
    ] {
        let message = invalid(files::read_nfg(format!(
            "NFG 1 R \"\" {PLAYERS} {{ 1 1 }} 0 {number}"
        )));
        assert!(
            message.contains("a number of at most 700 digits"),
            "{message}"
        );
        assert!(message.len() < 200, "{message}");
    }
    // Long fractions whose sums grow with every step down.
    let mut text = format!("EFG 2 R \"\" {PLAYERS}\n");
    for step in 1..=200 {
        writeln!(
            text,
            "p 1 {step} {{ \"a\" }} {step} {{ 1/{}, 0 }}",
            10_u64.pow(15) + step
        )
        .unwrap();
    }
    text.push_str("t 0");
    let message = invalid(files::read_efg(text));
    assert!(
        message.contains("sum to numbers of at most 700 digits"),
        "{message}"
    );
}

#[test]
fn long_fractions_of_an_outcome_do_not_fill_the_memory_of_all_cells() {
    let fraction = format!("1{}/{} ", "0".repeat(699), "3".repeat(700));
    let text = |n_players: usize| {
        format!(
            "NFG 1 R \"\" {{ {} }} {{ {} }} {{ {{ \"\" {} }} }} {}",
            "\"\" ".repeat(n_players),
            "2 ".repeat(n_players),
            fraction.repeat(n_players),
            "1 ".repeat(1 << n_players)
        )
    };
    let game = files::read_nfg(text(3)).unwrap();
    assert_eq!(game.payoff(2, &[1, 0, 1]).to_string(), fraction.trim());
    // More than 2^21 fractions of 600 bytes each, in a text of 288 kB.
    let message = too_large(files::read_nfg(text(17)));
    assert!(
        message.contains("memory of all cells' fractions in bytes exceeds the limit"),
        "{message}"
    );
}

#[test]
fn payoffs_that_sum_beyond_the_limit_are_rejected() {
    let text = format!("EFG 2 R \"\" {PLAYERS} p 1 1 {{ \"a\" }} 1 {{ 1e150 0 }} t 1");
    let error = files::read_efg(text).unwrap_err();
    assert!(
        matches!(error, Error::PayoffInvalid { player: 0, .. }),
        "{error:?}"
    );
}

#[test]
fn a_tree_of_any_depth_is_read_and_written() {
    const DEPTH: usize = 50_000;
    let mut text = format!("EFG 2 R \"\" {PLAYERS}\nc 1 {{ 0.5 0.5 }} 1 {{ 1 -1 }}\n");
    text.push_str(&"c 1 1\n".repeat(DEPTH - 1));
    text.push_str(&"t 0\n".repeat(DEPTH + 1));
    let tree = files::read_efg(&text).unwrap();
    assert_eq!(tree.nodes().len(), 2 * DEPTH + 1);
    // The first end is below all chance moves, the last below a single chance move.
    let gain = |node: Node| match node {
        Node::Terminal(outcome) => tree.outcomes()[outcome as usize][0].to_string(),
        Node::Chance(_) | Node::Decision(_) => panic!("not a terminal node"),
    };
    assert_eq!(gain(tree.nodes()[DEPTH]), DEPTH.to_string());
    assert_eq!(gain(tree.nodes()[2 * DEPTH]), "1");
    assert_eq!(files::read_efg(files::write_efg(&tree)).unwrap(), tree);
    let cut = invalid(files::read_efg(&text[..text.len() / 2]));
    assert!(cut.contains("more nodes"), "{cut}");
}

#[test]
fn braces_without_end_are_an_error_of_one_line() {
    for text in ["{", "\"", "NFG 1 R \"\" {", "EFG 2 R \"\" { \"\" } p 1 1 {"] {
        let deep = format!("{text}{}", "{".repeat(100_000));
        assert!(files::parse(deep).unwrap_err().to_string().len() < 300);
    }
}

/// Returns valid files for [`damage`].
fn golden() -> Vec<Vec<u8>> {
    let kuhn = include_bytes!("../../testdata/openspiel-kuhn.efg");
    let strict = files::write_efg(&files::read_efg(kuhn).expect("the golden file is valid"));
    let listed = "NFG 1 R \"a \\\"t\\\"\" { \"A\" \"B\" \"C\" } { 2 1 3 } \"c\" 1 2 3/4 -5 .6 7e1 8 9 10 1e-2 2 3 4 5 6 7 8 9";
    let outcomes = "NFG 1 R \"t\" { \"A\" \"B\" } { { \"a\" \"b\" } { \"c\" } } { { \"o\" 1, 2 } { 1/2 0.5 } } 0 2";
    let stages = "EFG 2 R \"t\" { \"A\" \"B\" } \"c\" c \"\" 1 { 0.3333333333 0.6666666666 } 1 { 1 1 } p 1 1 { \"a\" } 1 t 1 p 1 1 0 t 2 \"x\" { 1/3, 7 }";
    let texts = [strict.as_str(), listed, outcomes, stages];
    texts
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .chain([kuhn.to_vec()])
        .collect()
}

/// Damages a text: cuts it, changes bytes, doubles a piece, or joins two texts.
fn damage(rng: &mut Xoshiro256PlusPlus, texts: &[Vec<u8>]) -> Vec<u8> {
    const MEANINGFUL: &[u8] = b"\"\\{}/.,-+eE0123456789cpt \n\x00\xff";
    let mut text = texts[rng.random_range(0..texts.len())].clone();
    for _ in 0..rng.random_range(1..4) {
        let from = rng.random_range(0..text.len());
        let to = rng.random_range(from..text.len().min(from + 60) + 1);
        match rng.random_range(0..6) {
            0 => text.truncate(from.max(1)),
            1 => text[from] = rng.random(),
            2 => text[from] = MEANINGFUL[rng.random_range(0..MEANINGFUL.len())],
            3 => text.insert(from, MEANINGFUL[rng.random_range(0..MEANINGFUL.len())]),
            4 => {
                let piece = text[from..to].to_vec();
                text.splice(from..from, piece);
            }
            _ => {
                let other = &texts[rng.random_range(0..texts.len())];
                let start = rng.random_range(0..other.len());
                let piece = &other[start..other.len().min(start + 60)];
                text.splice(from..to, piece.iter().copied());
            }
        }
    }
    text
}

#[test]
fn damaged_files_are_games_or_faults_and_never_panics() {
    let texts = golden();
    for text in &texts {
        files::parse(text).unwrap();
    }
    let seed = 20_261_122;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut n_games, mut n_faults) = (0, 0);
    for _ in 0..30_000 {
        let text = damage(&mut rng, &texts);
        // Both readers parse each text, since damage may change the first word.
        let games = [
            files::read_nfg(&text).map(|game| game.shape().len()),
            files::read_efg(&text).map(|tree| {
                assert_eq!(files::read_efg(files::write_efg(&tree)).unwrap(), tree);
                tree.n_players()
            }),
        ];
        for game in games {
            match game {
                Ok(_) => n_games += 1,
                Err(Error::FileInvalid { line, column, .. }) => {
                    assert!(line > 0 && column > 0);
                    n_faults += 1;
                }
                Err(Error::TooLarge { .. }) => n_faults += 1,
                Err(error) => panic!(
                    "seed {seed}: {error:?} of {:?}",
                    String::from_utf8_lossy(&text)
                ),
            }
        }
    }
    assert!(
        n_games > 1000 && n_faults > 30_000,
        "{n_games} games, {n_faults} faults"
    );
}

#[test]
fn arbitrary_bytes_are_faults() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    for length in 0..2000 {
        let bytes: Vec<u8> = (0..length % 97).map(|_| rng.random()).collect();
        for head in ["", "NFG 1 R ", "EFG 2 R ", "EFG 2 R \"\" { \"\" } "] {
            let text = [head.as_bytes(), &bytes].concat();
            assert!(files::parse(&text).is_err(), "{text:?}");
        }
    }
}

#[test]
fn reading_and_compiling_are_cancelled_within_milliseconds() {
    // A chain of decisions, each of which ends the game or leads to the next one.
    let mut tree = format!("EFG 2 R \"\" {PLAYERS}\n");
    for at in 0..30_000 {
        let (player, set) = (at % 2 + 1, at / 2 + 1);
        let node = "{ \"stop\" \"go\" } 0 t \"\" 1 \"\" { 1 -1 }";
        writeln!(tree, "p \"\" {player} {set} \"\" {node}").unwrap();
    }
    tree += "t \"\" 1\n";
    let table = format!(
        "NFG 1 R \"\" {PLAYERS} {{ 200 200 }} {}",
        "1 ".repeat(80_000)
    );
    // Every computation asks several times whether it shall stop, and stops when it shall.
    let cancelled = |work: &dyn Fn(&Prover<'_>) -> games::Result<()>| {
        let n_looks = Cell::new(0);
        let watch = || {
            n_looks.set(n_looks.get() + 1);
            ControlFlow::Continue(())
        };
        work(&Prover::new().interrupted_by(&watch)).unwrap();
        let n_all = n_looks.take();
        assert!(n_all >= 5, "{n_all}");
        let watch = || {
            n_looks.set(n_looks.get() + 1);
            if n_looks.get() + 1 == n_all {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let halted = work(&Prover::new().interrupted_by(&watch));
        assert!(matches!(halted, Err(Error::Cancelled { .. })), "{halted:?}");
        assert_eq!(n_looks.get() + 1, n_all);
    };
    cancelled(&|prover| files::parse_within(&tree, prover).map(drop));
    cancelled(&|prover| files::parse_within(&table, prover).map(drop));
    let tree = files::read_efg(&tree).unwrap();
    cancelled(&|prover| prover.sequences(&tree).map(drop));
    cancelled(&|prover| prover.compile(&tree).map(drop));
}

/// Returns the number of times that a prover's function is called while a text is read.
fn looks_while_reading(text: &str) -> usize {
    let n_looks = Cell::new(0);
    let watch = || {
        n_looks.set(n_looks.get() + 1);
        ControlFlow::Continue(())
    };
    files::parse_within(text, &Prover::new().interrupted_by(&watch)).expect("the text is valid");
    n_looks.get()
}

#[test]
fn long_fractions_count_as_work() {
    const N_ITEMS: usize = 100;
    let digits = |first: char, at: usize| format!("{first}{}{at:03}", "618033988".repeat(75));
    let fraction = |at: usize| format!("{}/{}", digits('1', at), digits('9', at + 7));
    // Each payoff is read, added to the sum on its path and subtracted again.
    let mut tree = format!("EFG 2 R \"\" {PLAYERS} c \"\" 1 \"\" {{");
    for _ in 0..N_ITEMS {
        write!(tree, " \"\" 1/{N_ITEMS}").expect("a string takes any text");
    }
    tree.push_str(" } 0\n");
    for at in 0..N_ITEMS {
        let (first, second) = (fraction(at), fraction(at + N_ITEMS));
        writeln!(tree, "t \"\" {} \"\" {{ {first} {second} }}", at + 1)
            .expect("a string takes any text");
    }
    assert!(looks_while_reading(&tree) >= N_ITEMS / 2);
    let payoffs: Vec<String> = (0..2 * N_ITEMS).map(fraction).collect();
    let payoffs = payoffs.join(" ");
    let table = format!("NFG 1 R \"\" {PLAYERS} {{ {N_ITEMS} 1 }} {payoffs}");
    assert!(looks_while_reading(&table) >= N_ITEMS / 8);
    // Probabilities whose sum is not 1 are replaced by simpler fractions.
    let decimals = "618033988".repeat(36);
    let shares = (0..60).map(|at| format!("\"\" 0.0166666666671{decimals}{at:02}"));
    let shares: Vec<String> = shares.collect();
    let ends = "t \"\" 0 ".repeat(shares.len());
    let text = "EFG 2 R \"\" { \"A\" \"B\" }";
    let chance = format!("{text} c \"\" 1 \"\" {{ {} }} 0 {ends}", shares.join(" "));
    assert!(looks_while_reading(&chance) >= 6);
}
