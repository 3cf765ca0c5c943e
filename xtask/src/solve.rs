//! `cargo xtask solve`: from a game file to its equilibrium.
//!
//! Role: the shortest way from Gambit's `.nfg` and `.efg` to numbers that are proved, or judged where they can't be.
//! Method: zero-sum games of two players by linear programs with a proof in fractions; other strategic games of two players
//! by enumeration of all extreme equilibria, proved too, or by Lemke-Howson where there would be too many; what is left
//! learns by regret, and is judged by best responses.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use games::exact::{self, Equilibrium};
use games::extensive::{Arena, Sequences, Tree};
use games::files::{self, File};
use games::{
    Bimatrix, Checkpoint, Dynamics, Error, Game, Labels, MatrixGame, NormalForm, Rational,
    Solution, StrategicGame,
};
use indicatif::{ProgressBar, ProgressStyle};
use num_traits::ToPrimitive as _;

const HELP: &str = "\
solve: the equilibrium of a game file

usage: cargo xtask solve FILE [--csv | --json] [--learn] [--iterations N] [--until X] [--within SECONDS]

  FILE              a game in Gambit's format .nfg or .efg; the first word tells which. A strategic game may have any
                    number of players, an extensive one two
  --csv             print a line for each action: numbers and names of player, information set and action, its
                    probability, and its fraction where that is proved
  --json            print the same, and first how it was found, as one JSON object a line
  --learn           learn by regret even where a proof could be had
  --iterations N    at most so many iterations of learning (1000000)
  --until X         learn until NashConv is at most X (1e-6 of the range of payoffs)
  --within SECONDS  learn for at most so long (60)
  --help            print this

Exit: 0 where an equilibrium was found or NashConv reached; 1 where a game was left above it.
";

/// Iterations of learning, unless told.
const ITERATIONS: u64 = 1_000_000;
/// NashConv over the range of payoffs at which learning ends, unless told.
const TARGET: f64 = 1e-6;
/// Time for learning, unless told.
const TIME: Duration = Duration::from_secs(60);

const CSV_HEADER: &str =
    "equilibrium,player,set,action,player_name,set_name,action_name,probability,fraction\n";

/// Letters of a fraction that can be read at a glance.
const READABLE: usize = 12;

/// What the command line asks for.
struct Options {
    file: PathBuf,
    form: Form,
    learn: bool,
    iterations: u64,
    until: Option<f64>,
    within: Duration,
}

/// How the answer is written.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Text,
    Csv,
    Json,
}

/// One probability of one equilibrium.
struct Row {
    equilibrium: usize,
    action: Action,
    probability: f64,
    fraction: Option<Rational>,
}

/// An action: numbers, from 1, of player, information set and action, since names need not differ; and the names.
struct Action {
    numbers: [usize; 3],
    names: [String; 3],
}

/// What is known of an equilibrium: names, and numbers as text.
type Facts = Vec<(&'static str, String)>;

/// What was found, and how.
struct Answer {
    title: String,
    method: &'static str,
    /// What is known of the value or of NashConv, a name and a number each.
    facts: Facts,
    rows: Vec<Row>,
    is_reached: bool,
}

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    let Some(options) = parse(args)? else {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    };
    let answer = answer(files::read(&options.file)?, &options)?;
    match options.form {
        Form::Text => print!("{}", answer.text()),
        Form::Csv => print!("{}", answer.csv()),
        Form::Json => print!("{}", answer.json()?),
    }
    Ok(if answer.is_reached {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn parse(args: Vec<OsString>) -> Result<Option<Options>> {
    use lexopt::prelude::*;
    let mut file = None;
    let mut options = Options {
        file: PathBuf::new(),
        form: Form::Text,
        learn: false,
        iterations: ITERATIONS,
        until: None,
        within: TIME,
    };
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("csv") => options.form = Form::Csv,
            Long("json") => options.form = Form::Json,
            Long("learn") => options.learn = true,
            Long("iterations") => options.iterations = parser.value()?.parse()?,
            Long("until") => options.until = Some(parser.value()?.parse()?),
            Long("within") => {
                let seconds = parser.value()?.parse()?;
                options.within = Duration::try_from_secs_f64(seconds).context("--within")?;
            }
            Long("help") | Short('h') => return Ok(None),
            Value(value) if file.is_none() => file = Some(PathBuf::from(value)),
            other => return Err(other.unexpected().into()),
        }
    }
    let Some(file) = file else {
        bail!(lexopt::Error::MissingValue {
            option: Some("FILE".into())
        });
    };
    Ok(Some(Options { file, ..options }))
}

fn answer(file: File, options: &Options) -> Result<Answer> {
    match file {
        File::Strategic(game) => strategic(game, options),
        File::Extensive(tree) => extensive(&tree, options),
    }
}

fn strategic(game: NormalForm, options: &Options) -> Result<Answer> {
    if options.learn || game.shape().len() != 2 {
        return learn_strategic(&game, options);
    }
    let labels = game.labels().clone();
    let equilibria = |method, proved: Vec<([Vec<Rational>; 2], Facts)>| {
        let mut answer = Answer::new(&labels.title, method);
        for (number, (strategies, facts)) in proved.into_iter().enumerate() {
            answer.facts.extend(facts);
            for (player, strategy) in strategies.into_iter().enumerate() {
                for (action, fraction) in strategy.into_iter().enumerate() {
                    let action = Action::strategic(&labels, player, action);
                    answer.push_proved(number + 1, action, fraction);
                }
            }
        }
        answer
    };
    let bimatrix = Bimatrix::try_from(game)?;
    if bimatrix.is_zero_sum() {
        let matrix = MatrixGame::try_from(bimatrix)?;
        let found = match games::exact(&matrix) {
            // What is too long to prove is learnt.
            Err(Error::TooLarge { .. } | Error::Unproved { .. }) => {
                return learn_strategic(&matrix.into(), options);
            }
            found => found?,
        };
        let unique = found
            .unique
            .map(|unique| if unique { "unique" } else { "one of several" });
        let facts = vec![
            ("value", shown(&found.value)),
            ("strategies", unique.join(", ")),
        ];
        return Ok(equilibria(
            "linear program, proved",
            vec![(found.strategies, facts)],
        ));
    }
    let with_payoffs = |found: Vec<Equilibrium>| {
        let facts =
            |found: &Equilibrium| vec![("payoffs", found.payoffs.each_ref().map(shown).join(", "))];
        found
            .into_iter()
            .map(|found| (found.strategies.clone(), facts(&found)))
            .collect()
    };
    match exact::all_equilibria(&bimatrix) {
        Ok(all) => Ok(equilibria(
            "all extreme equilibria, proved",
            with_payoffs(all),
        )),
        Err(Error::TooLarge { .. }) => {
            let one = exact::lemke_howson(&bimatrix, 0)?;
            Ok(equilibria(
                "one equilibrium by Lemke-Howson, proved",
                with_payoffs(vec![one]),
            ))
        }
        Err(fault) => Err(fault.into()),
    }
}

fn extensive(tree: &Tree, options: &Options) -> Result<Answer> {
    let form = Sequences::of(tree)?;
    if !options.learn {
        match games::exact(&form) {
            Ok(found) => {
                let mut answer =
                    Answer::new(&tree.labels().title, "sequence-form linear program, proved");
                answer.facts.push(("value", shown(&found.value)));
                for (player, strategy) in found.strategies.into_iter().enumerate() {
                    let actions = actions(tree, &form, player);
                    for (action, fraction) in actions.into_iter().zip(strategy) {
                        answer.push_proved(1, action, fraction);
                    }
                }
                return Ok(answer);
            }
            // What is too long to prove, or is no zero-sum game of two, is learnt.
            Err(Error::TooLarge { .. } | Error::Unproved { .. } | Error::NotZeroSum { .. }) => {}
            Err(fault) => return Err(fault.into()),
        }
    }
    let (solution, mut answer) = learn(&Arena::from_tree(tree)?, &tree.labels().title, options)?;
    for (player, strategy) in solution.strategies.into_iter().enumerate() {
        for (action, p) in actions(tree, &form, player).into_iter().zip(strategy) {
            answer.push(1, action, p);
        }
    }
    Ok(answer)
}

/// Gives the action of each number of a player's strategy.
fn actions(tree: &Tree, form: &Sequences, player: usize) -> Vec<Action> {
    let named = |name: &String, number: usize| {
        if name.is_empty() {
            number.to_string()
        } else {
            name.clone()
        }
    };
    let mut actions = vec![];
    for decision in form.decisions(player) {
        let number = decision.set as usize + 1;
        let set = &tree.information_sets()[decision.set as usize];
        for (action, name) in set.actions.iter().enumerate() {
            actions.push(Action {
                numbers: [player + 1, number, action + 1],
                names: [
                    tree.labels().player(player),
                    named(&set.name, number),
                    named(name, action + 1),
                ],
            });
        }
    }
    actions
}

impl Action {
    /// An action of a strategic game, which has one choice and no name for it.
    fn strategic(labels: &Labels, player: usize, action: usize) -> Self {
        Self {
            numbers: [player + 1, 1, action + 1],
            names: [
                labels.player(player),
                String::new(),
                labels.action(player, action),
            ],
        }
    }
}

fn learn_strategic(game: &NormalForm, options: &Options) -> Result<Answer> {
    let labels = game.labels();
    let matrix = Bimatrix::try_from(game.clone()).and_then(MatrixGame::try_from);
    let (solution, mut answer) = match &matrix {
        Ok(matrix) => learn(matrix, &labels.title, options)?,
        Err(_) => learn(game, &labels.title, options)?,
    };
    for (player, strategy) in solution.strategies.iter().enumerate() {
        for (action, &p) in strategy.iter().enumerate() {
            answer.push(1, Action::strategic(labels, player, action), p);
        }
    }
    Ok(answer)
}

/// Learns, and shows how far it is where somebody looks.
fn learn<G: Game>(game: &G, title: &str, options: &Options) -> Result<(Solution, Answer)> {
    let range = game.range();
    // Without a range there is nothing to gain, and 0 would stop no run.
    let until = options
        .until
        .unwrap_or((TARGET * range).max(f64::MIN_POSITIVE));
    let dynamics = Dynamics::default()
        .iterations(options.iterations)
        .until(until)
        .within(options.within);
    let bar = ProgressBar::no_length().with_style(ProgressStyle::with_template("{spinner} {msg}")?);
    let solution = games::solve_with(game, &dynamics, |look: &Checkpoint| {
        bar.set_message(format!(
            "iteration {}, NashConv {:.3e}",
            look.iteration, look.nash_conv
        ));
        bar.tick();
        ControlFlow::Continue(())
    })?;
    bar.finish_and_clear();
    let mut answer = Answer::new(
        title,
        if solution.polished {
            "linear algebra from an average of learning"
        } else {
            "average of learning by regret"
        },
    );
    let values: Vec<String> = solution
        .values
        .iter()
        .map(|value| format!("{value:.9}"))
        .collect();
    answer.facts = vec![
        ("payoffs", values.join(", ")),
        ("NashConv", format!("{:.3e}", solution.nash_conv)),
        ("iterations", solution.iterations.to_string()),
    ];
    answer.is_reached = solution.nash_conv <= until;
    Ok((solution, answer))
}

/// Gives a fraction, and where nobody could read it, about what it is.
fn shown(fraction: &Rational) -> String {
    let text = fraction.to_string();
    if text.len() <= READABLE {
        return text;
    }
    format!(
        "{text} (about {:.9})",
        fraction.to_f64().unwrap_or(f64::NAN)
    )
}

impl Answer {
    fn new(title: &str, method: &'static str) -> Self {
        Self {
            title: title.to_owned(),
            method,
            facts: vec![],
            rows: vec![],
            is_reached: true,
        }
    }

    fn push(&mut self, equilibrium: usize, action: Action, probability: f64) {
        self.rows.push(Row {
            equilibrium,
            action,
            probability,
            fraction: None,
        });
    }

    fn push_proved(&mut self, equilibrium: usize, action: Action, fraction: Rational) {
        self.push(equilibrium, action, fraction.to_f64().unwrap_or(f64::NAN));
        if let Some(row) = self.rows.last_mut() {
            row.fraction = Some(fraction);
        }
    }

    /// One line for each choice of each player.
    fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.title, self.method);
        let one_each = self
            .facts
            .iter()
            .filter(|(name, _)| *name == "payoffs")
            .count()
            > 1;
        for (name, fact) in self.facts.iter().filter(|_| !one_each) {
            text += &format!("{name} {fact}\n");
        }
        let mut facts = self.facts.iter();
        for equilibrium in self.rows.chunk_by(|a, b| a.equilibrium == b.equilibrium) {
            if one_each && let Some((name, fact)) = facts.next() {
                text += &format!(
                    "\nequilibrium {}: {name} {fact}\n",
                    equilibrium[0].equilibrium
                );
            }
            for choice in
                equilibrium.chunk_by(|a, b| a.action.numbers[..2] == b.action.numbers[..2])
            {
                let probability = |row: &Row| match &row.fraction {
                    Some(fraction) => format!("{} {}", row.action.names[2], shown(fraction)),
                    None => format!("{} {:.6}", row.action.names[2], row.probability),
                };
                let all: Vec<String> = choice.iter().map(probability).collect();
                let [player, set, _] = &choice[0].action.names;
                let set = if set.is_empty() {
                    String::new()
                } else {
                    format!(" at {set}")
                };
                text += &format!("  player {player}{set}: {}\n", all.join(", "));
            }
        }
        text
    }

    fn csv(&self) -> String {
        let mut text = String::from(CSV_HEADER);
        for row in &self.rows {
            let numbers = row
                .action
                .numbers
                .map(|number| number.to_string())
                .join(",");
            let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
            let names = row.action.names.each_ref().map(quoted).join(",");
            let fraction = row
                .fraction
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            text += &format!(
                "{},{numbers},{names},{},{fraction}\n",
                row.equilibrium, row.probability
            );
        }
        text
    }

    fn json(&self) -> Result<String> {
        let fact =
            |(name, fact): &(&str, String)| serde_json::json!({ "name": name, "fact": fact });
        let facts: Vec<_> = self.facts.iter().map(fact).collect();
        let mut lines =
            vec![serde_json::json!({ "game": self.title, "method": self.method, "facts": facts })];
        lines.extend(self.rows.iter().map(|row| {
            let ([player, set, action], names) = (row.action.numbers, &row.action.names);
            serde_json::json!({
                "equilibrium": row.equilibrium,
                "player": player,
                "set": set,
                "action": action,
                "names": names,
                "probability": row.probability,
                "fraction": row.fraction.as_ref().map(ToString::to_string),
            })
        }));
        let lines: serde_json::Result<Vec<String>> =
            lines.iter().map(serde_json::to_string).collect();
        Ok(lines?.join("\n") + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHICKEN: &str = "NFG 1 R \"chicken\" { \"A\" \"B\" } { { \"swerve\" \"go\" } { \"swerve\" \"go\" } } \"\" 6 6 7 2 2 7 0 0";

    fn solved(text: &str, args: &[&str]) -> Answer {
        let args = ["FILE"].iter().chain(args).map(OsString::from).collect();
        answer(files::parse(text).unwrap(), &parse(args).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn a_zero_sum_game_is_solved_with_a_proof() {
        let game = "NFG 1 R \"crash\" { \"Row\" \"Col\" } { 3 3 } 0 0 1 -1 -2 2 -1 1 0 0 1 -1 2 -2 -1 1 0 0";
        let text = solved(game, &[]).text();
        assert!(
            text.contains(
                "value 0\nstrategies unique, unique\n  player Row: 1 1/4, 2 1/2, 3 1/4\n"
            ),
            "{text}"
        );
        let learnt = solved(game, &["--learn", "--until", "1e-9"]);
        assert!(learnt.is_reached && learnt.rows.iter().all(|row| row.fraction.is_none()));
        assert!(!solved(game, &["--learn", "--until", "0", "--iterations", "3"]).is_reached);
    }

    #[test]
    fn all_equilibria_of_other_games_are_listed() {
        let answer = solved(CHICKEN, &[]);
        assert_eq!(answer.rows.last().unwrap().equilibrium, 3);
        assert!(
            answer
                .text()
                .contains("equilibrium 2: payoffs 14/3, 14/3\n  player A: swerve 2/3, go 1/3\n"),
            "{}",
            answer.text()
        );
        let third = answer.csv().lines().nth(5).unwrap().to_owned();
        assert_eq!(
            third,
            "2,1,1,1,\"A\",\"\",\"swerve\",0.6666666666666666,2/3"
        );
    }

    #[test]
    fn one_equilibrium_is_found_where_all_would_be_too_many() {
        // Chicken in which the second player has choices that nobody would take, for one label more than are enumerated.
        const N_USELESS: usize = exact::MAX_LABELS - 3;
        let useless = "0 -1 0 -1 ".repeat(N_USELESS);
        let game = format!(
            "NFG 1 R \"chicken\" {{ \"A\" \"B\" }} {{ 2 {} }} 6 6 7 2 2 7 0 0 {useless}",
            2 + N_USELESS
        );
        let answer = solved(&game, &[]);
        assert_eq!(answer.method, "one equilibrium by Lemke-Howson, proved",);
        assert_eq!(answer.facts, [("payoffs", "2, 7".to_owned())]);
        assert_eq!(answer.rows.len(), exact::MAX_LABELS + 1);
        let taken = answer.rows.iter().filter(|row| row.probability != 0.0);
        let taken: Vec<_> = taken
            .map(|row| (row.equilibrium, row.action.numbers, row.fraction.clone()))
            .collect();
        let one = Some(Rational::from_integer(1.into()));
        assert_eq!(taken, [(1, [1, 1, 1], one.clone()), (1, [2, 1, 2], one)]);
    }

    #[test]
    fn a_tree_of_other_payoffs_is_learnt() {
        // The market is worth entering since a fight would cost its owner, too.
        let tree = "EFG 2 R \"entry\" { \"A\" \"B\" } p \"\" 1 1 \"new\" { \"in\" \"out\" } 0 \
            p \"\" 2 1 \"old\" { \"fight\" \"share\" } 0 t \"\" 1 \"\" { -1 -1 } t \"\" 2 \"\" { 2 1 } \
            t \"\" 3 \"\" { 0 2 }";
        let answer = solved(tree, &[]);
        assert_eq!(answer.method, "average of learning by regret");
        assert!(answer.is_reached, "{:?}", answer.facts);
        for (row, expected) in answer.rows.iter().zip([1.0, 0.0, 0.0, 1.0]) {
            assert!((row.probability - expected).abs() < 1e-5);
            assert_eq!(row.fraction, None);
        }
        assert_eq!(answer.rows.len(), 4);
        assert!(!solved(tree, &["--until", "0", "--iterations", "3"]).is_reached);
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
}
