//! `cargo xtask solve`: from a game file to its equilibrium.
//!
//! Role: the shortest way from Gambit's `.nfg` and `.efg` to numbers that are proved, or judged where they can't be.
//! Method: games of two players with a constant sum by linear programs with a proof in fractions; other strategic games of
//! two players, and trees by their reduced strategic form, by enumeration of all extreme equilibria, proved too, or by
//! Lemke-Howson where there would be too many; what is left learns by regret, and is judged by best responses.

use std::ffi::OsString;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use games::exact::{Equilibrium, Prover};
use games::extensive::{Arena, Sequences, StrategicForm, Tree};
use games::files::{self, File};
use games::{
    Bimatrix, Checkpoint, Dynamics, Error, Game, Labels, MatrixGame, NormalForm, Rational,
    Solution, Stopped, StrategicGame,
};
use indicatif::{ProgressBar, ProgressStyle};
use num_traits::{ToPrimitive as _, Zero as _};
use serde_json::{Value, json};

use crate::output;

const HELP: &str = "\
solve: the equilibrium of a game file

usage: cargo xtask solve FILE [--csv | --json] [--exact] [--learn] [--iterations N] [--until X] [--within SECONDS]

  FILE              a game in Gambit's format .nfg or .efg; the first word tells which. A strategic game may have any
                    number of players, an extensive one two. `-` reads standard input
  --csv             print a line for each action: numbers and names of player, information set and action, its
                    probability, and its fraction where that is proved
  --json            print the same, and first how it was found, as one JSON object a line
  --exact           print fractions in place of decimals where they are proved
  --learn           learn by regret even where a proof could be had
  --iterations N    at most so many iterations of learning (1e6)
  --until X         learn until NashConv, with its rounding error, is at most X (1e-6 of the range of payoffs)
  --within SECONDS  prove for at most half of so long, and learn for the rest (no limit of proofs, 60 for learning)
  --help            print this

Players, information sets and actions are numbered from 1, information sets for each player.

Exit: 0 where an equilibrium was found or NashConv reached; 1 where a game was left above it.
";

/// Default limit of iterations of learning.
const ITERATIONS: u64 = 1_000_000;
/// Largest limit of iterations: floats beyond are not all integers.
const MAX_ITERATIONS: f64 = 9_007_199_254_740_992.0;
/// Default NashConv at which learning ends, over the range of payoffs.
const TARGET: f64 = 1e-6;
/// Default time for learning.
const TIME: Duration = Duration::from_secs(60);

const CSV_HEADER: &str =
    "equilibrium,player,set,action,player_name,set_name,action_name,probability,fraction\n";

/// What the command line asks for.
struct Options {
    file: PathBuf,
    form: Form,
    exact: bool,
    learn: bool,
    iterations: u64,
    until: Option<f64>,
    within: Option<Duration>,
    begun: Instant,
}

impl Options {
    /// Returns a prover that stops at a share of the time.
    fn prover(&self, share: f64) -> Prover<'static> {
        let deadline = self
            .within
            .and_then(|time| self.begun.checked_add(time.mul_f64(share)));
        deadline.map_or_else(Prover::new, |deadline| Prover::new().until(deadline))
    }

    /// Returns the time that is left for learning.
    fn time_to_learn(&self) -> Duration {
        self.within
            .map_or(TIME, |time| time.saturating_sub(self.begun.elapsed()))
    }
}

/// Share of the time after which the enumeration of all equilibria is given up.
const ALL_SHARE: f64 = 0.25;
/// Share of the time after which any proof is given up.
const PROOF_SHARE: f64 = 0.5;

/// The form of the answer.
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
#[derive(Clone)]
struct Action {
    numbers: [usize; 3],
    names: [String; 3],
    /// Whether the player's own choices lead to the information set.
    is_reached: bool,
}

/// Something known of an equilibrium or of the way to it.
struct Fact {
    /// The equilibrium, from 1; 0 for all.
    equilibrium: usize,
    name: &'static str,
    known: Known,
}

/// The content of a fact.
enum Known {
    Fractions(Vec<Rational>),
    Floats(Vec<f64>),
    Count(u64),
    Text(String),
}

impl Known {
    fn text(&self, exact: bool) -> String {
        match self {
            Self::Fractions(fractions) if exact => joined(fractions),
            Self::Fractions(fractions) => {
                joined(fractions.iter().map(|number| decimal(float(number))))
            }
            Self::Floats(numbers) => joined(numbers.iter().map(|&number| decimal(number))),
            Self::Count(count) => count.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    /// Returns a number, or a list of numbers if there are several.
    fn json(&self) -> Value {
        let numbers = |numbers: Vec<f64>| match numbers[..] {
            [number] => json!(number),
            _ => json!(numbers),
        };
        match self {
            Self::Fractions(fractions) => numbers(fractions.iter().map(float).collect()),
            Self::Floats(floats) => numbers(floats.clone()),
            Self::Count(count) => json!(count),
            Self::Text(text) => json!(text),
        }
    }

    /// Returns the fractions that the numbers round.
    fn fractions(&self) -> Value {
        match self {
            Self::Fractions(fractions) => {
                json!(
                    fractions
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                )
            }
            _ => Value::Null,
        }
    }
}

fn joined<T: ToString>(parts: impl IntoIterator<Item = T>) -> String {
    let parts: Vec<String> = parts.into_iter().map(|part| part.to_string()).collect();
    parts.join(", ")
}

fn float(fraction: &Rational) -> f64 {
    fraction.to_f64().unwrap_or(f64::NAN)
}

/// Writes nine digits after the point, or less if the rest are zeros; very small and very large numbers by a power of ten.
fn decimal(number: f64) -> String {
    const READABLE: std::ops::Range<f64> = 1e-6..1e12;
    if number != 0.0 && !READABLE.contains(&number.abs()) {
        return format!("{number:.3e}");
    }
    let text = format!("{number:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What was found, and how.
struct Answer {
    title: String,
    method: &'static str,
    facts: Vec<Fact>,
    rows: Vec<Row>,
    is_reached: bool,
}

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    let Some(options) = parse(args)? else {
        output::print(HELP)?;
        return Ok(ExitCode::SUCCESS);
    };
    let answer = answer(read(&options.file)?, &options)?;
    output::print(match options.form {
        Form::Text => answer.text(options.exact),
        Form::Csv => answer.csv(),
        Form::Json => answer.json()?,
    })?;
    Ok(if answer.is_reached {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Reads a game from a file or from standard input.
fn read(file: &PathBuf) -> Result<File> {
    if file.as_os_str() != "-" {
        return Ok(files::read(file)?);
    }
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("standard input")?;
    Ok(files::parse(&text)?)
}

fn parse(args: Vec<OsString>) -> Result<Option<Options>> {
    use lexopt::prelude::*;
    let mut file = None;
    let mut options = Options {
        file: PathBuf::new(),
        form: Form::Text,
        exact: false,
        learn: false,
        iterations: ITERATIONS,
        until: None,
        within: None,
        begun: Instant::now(),
    };
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("csv") => options.form = Form::Csv,
            Long("json") => options.form = Form::Json,
            Long("exact") => options.exact = true,
            Long("learn") => options.learn = true,
            Long("iterations") => options.iterations = parser.value()?.parse_with(iterations)?,
            Long("until") => options.until = Some(parser.value()?.parse_with(target)?),
            Long("within") => {
                let seconds = parser.value()?.parse()?;
                options.within = Some(Duration::try_from_secs_f64(seconds).context("--within")?);
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

/// Reads a number of iterations, which may have an exponent.
fn iterations(text: &str) -> std::result::Result<u64, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let is_count = |number: &f64| number.fract() == 0.0 && (0.0..=MAX_ITERATIONS).contains(number);
    let number = text.parse().ok().filter(is_count);
    number
        .and_then(|number| number.to_u64())
        .ok_or_else(|| "must be a whole number, such as 1e6".into())
}

/// Reads a NashConv.
fn target(text: &str) -> std::result::Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number: &f64| *number >= 0.0 && number.is_finite());
    number.ok_or_else(|| "must be a number, finite and at least 0".into())
}

fn answer(file: File, options: &Options) -> Result<Answer> {
    match file {
        File::Strategic(game) => strategic(game, options),
        File::Extensive(tree) => extensive(&tree, options),
    }
}

/// Returns whether a game that has no proof for this reason is to be learnt.
fn is_learnt(fault: &Error) -> bool {
    matches!(
        fault,
        Error::TooLarge { .. } | Error::Unproved { .. } | Error::DeadlineReached { .. }
    )
}

fn strategic(game: NormalForm, options: &Options) -> Result<Answer> {
    if options.learn || game.shape().len() != 2 {
        return learn_strategic(&game, options, None);
    }
    let labels = game.labels().clone();
    let bimatrix = Bimatrix::try_from(game.clone())?;
    if let Ok(matrix) = MatrixGame::try_from(bimatrix.clone()) {
        let found = match options.prover(PROOF_SHARE).exact(&matrix) {
            Err(fault) if is_learnt(&fault) => return learn_strategic(&game, options, Some(fault)),
            found => found?,
        };
        let unique = found
            .unique
            .map(|unique| if unique { "unique" } else { "one of several" });
        let mut answer = Answer::new(&labels.title, "linear program, proved");
        answer.push_value(&found.value, matrix.sum());
        answer.push_fact(0, "strategies", Known::Text(unique.join(", ")));
        answer.push_strategic(1, &labels, &found.strategies);
        return Ok(answer);
    }
    match equilibria(&bimatrix, options) {
        Ok(found) => {
            let mut answer = Answer::new(&labels.title, found.method);
            answer.push_reason(found.reason);
            for (number, equilibrium) in (1..).zip(found.equilibria) {
                let payoffs = Known::Fractions(equilibrium.payoffs.to_vec());
                answer.push_fact(number, "payoffs", payoffs);
                answer.push_strategic(number, &labels, &equilibrium.strategies);
            }
            Ok(answer)
        }
        Err(fault) if is_learnt(&fault) => learn_strategic(&game, options, Some(fault)),
        Err(fault) => Err(fault.into()),
    }
}

/// Equilibria of a game that has no constant sum.
struct Found {
    method: &'static str,
    equilibria: Vec<Equilibrium>,
    /// Why there may be others.
    reason: Option<Error>,
}

/// Computes all extreme equilibria, or one where all would be too many.
fn equilibria(game: &Bimatrix, options: &Options) -> games::Result<Found> {
    match options.prover(ALL_SHARE).all_equilibria(game) {
        Ok(equilibria) => Ok(Found {
            method: "all extreme equilibria, proved",
            equilibria,
            reason: None,
        }),
        Err(fault) if is_learnt(&fault) => Ok(Found {
            method: "one equilibrium by Lemke-Howson, proved",
            equilibria: vec![options.prover(PROOF_SHARE).lemke_howson(game, 0)?],
            reason: Some(fault),
        }),
        Err(fault) => Err(fault),
    }
}

fn extensive(tree: &Tree, options: &Options) -> Result<Answer> {
    let form = Sequences::of(tree)?;
    let mut reason = None;
    if !options.learn && form.n_players() == 2 {
        match prove_tree(tree, &form, options) {
            Ok(answer) => return Ok(answer),
            Err(fault) if is_learnt(&fault) => reason = Some(fault),
            Err(fault) => return Err(fault.into()),
        }
    }
    let (solution, mut answer) = learn(&Arena::from_tree(tree)?, &tree.labels().title, options)?;
    answer.push_reason(reason);
    for (player, strategy) in solution.strategies.into_iter().enumerate() {
        for (action, p) in actions(tree, &form, player).into_iter().zip(strategy) {
            answer.push(1, action, p);
        }
    }
    Ok(answer)
}

/// Solves a tree of two players with a proof: by its sequence form if the sum of payoffs is constant, else by its reduced
/// strategic form.
fn prove_tree(tree: &Tree, form: &Sequences, options: &Options) -> games::Result<Answer> {
    let title = &tree.labels().title;
    match options.prover(PROOF_SHARE).exact(form) {
        Ok(found) => {
            let mut answer = Answer::new(title, "sequence-form linear program, proved");
            answer.push_value(&found.value, &found.sum);
            answer.push_behaviour(1, tree, form, &found.strategies);
            return Ok(answer);
        }
        Err(Error::NotConstantSum { .. }) => {}
        Err(fault) => return Err(fault),
    }
    let strategic = StrategicForm::of(tree)?;
    let found = equilibria(&Bimatrix::try_from(strategic.game().clone())?, options)?;
    let mut answer = Answer::new(
        title,
        if found.reason.is_none() {
            "all extreme equilibria of the reduced strategic form, proved"
        } else {
            "one equilibrium of the reduced strategic form by Lemke-Howson, proved"
        },
    );
    answer.push_reason(found.reason);
    let mut known: Vec<Vec<Vec<Rational>>> = vec![];
    for equilibrium in found.equilibria {
        let behaviour =
            |player: usize| strategic.behaviour(player, &equilibrium.strategies[player]);
        let strategies = vec![behaviour(0), behaviour(1)];
        // Mixtures of other plans may behave alike.
        if known.contains(&strategies) {
            continue;
        }
        let number = known.len() + 1;
        answer.push_fact(
            number,
            "payoffs",
            Known::Fractions(equilibrium.payoffs.to_vec()),
        );
        answer.push_behaviour(number, tree, form, &strategies);
        known.push(strategies);
    }
    Ok(answer)
}

/// Returns the action of each number of a player's strategy.
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
        let sets = tree.information_sets();
        let set = &sets[decision.set as usize];
        let before = sets[..decision.set as usize]
            .iter()
            .filter(|set| set.player == player);
        let number = before.count() + 1;
        for (action, name) in set.actions.iter().enumerate() {
            actions.push(Action {
                numbers: [player + 1, number, action + 1],
                names: [
                    tree.labels().player(player),
                    named(&set.name, number),
                    named(name, action + 1),
                ],
                is_reached: true,
            });
        }
    }
    actions
}

/// Returns for each number of a player's strategy whether the player's own choices lead to its information set.
fn reached(form: &Sequences, player: usize, strategy: &[Rational]) -> Vec<bool> {
    let mut is_taken = vec![true; form.n_sequences(player)];
    let mut reached = vec![false; strategy.len()];
    for decision in form.decisions(player) {
        let leads_here = is_taken[decision.parent as usize];
        for place in decision.actions() {
            reached[place] = leads_here;
            is_taken[place + 1] = leads_here && !strategy[place].is_zero();
        }
    }
    reached
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
            is_reached: true,
        }
    }
}

fn learn_strategic(game: &NormalForm, options: &Options, reason: Option<Error>) -> Result<Answer> {
    let labels = game.labels();
    let matrix = Bimatrix::try_from(game.clone()).and_then(MatrixGame::try_from);
    let (solution, mut answer) = match &matrix {
        Ok(matrix) => learn(matrix, &labels.title, options)?,
        Err(_) => learn(game, &labels.title, options)?,
    };
    answer.push_reason(reason);
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
        .within(options.time_to_learn());
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
    answer.push_fact(0, "payoffs", Known::Floats(solution.values.clone()));
    answer.push_fact(0, "NashConv", Known::Floats(vec![solution.nash_conv]));
    answer.push_fact(0, "rounding", Known::Floats(vec![solution.rounding]));
    answer.push_fact(0, "iterations", Known::Count(solution.iterations));
    if let Stopped::AtRounding { bound } = solution.stopped {
        let note = format!(
            "NashConv below {bound:.3e} cannot be told from rounding errors (asked for {until:.3e})"
        );
        answer.push_fact(0, "limit", Known::Text(note));
    }
    answer.is_reached = solution.nash_conv + solution.rounding <= until;
    Ok((solution, answer))
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

    fn push_fact(&mut self, equilibrium: usize, name: &'static str, known: Known) {
        self.facts.push(Fact {
            equilibrium,
            name,
            known,
        });
    }

    /// Adds why more was not proved.
    fn push_reason(&mut self, reason: Option<Error>) {
        if let Some(reason) = reason {
            self.push_fact(0, "reason", Known::Text(reason.to_string()));
        }
    }

    /// Adds the first player's value, and what both players get where that is not zero in sum.
    fn push_value(&mut self, value: &Rational, sum: &Rational) {
        self.push_fact(0, "value", Known::Fractions(vec![value.clone()]));
        if !sum.is_zero() {
            let payoffs = vec![value.clone(), sum - value];
            self.push_fact(0, "payoffs", Known::Fractions(payoffs));
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
        self.push(equilibrium, action, float(&fraction));
        if let Some(row) = self.rows.last_mut() {
            row.fraction = Some(fraction);
        }
    }

    fn push_strategic(&mut self, number: usize, labels: &Labels, strategies: &[Vec<Rational>; 2]) {
        for (player, strategy) in strategies.iter().enumerate() {
            for (action, fraction) in strategy.iter().enumerate() {
                let action = Action::strategic(labels, player, action);
                self.push_proved(number, action, fraction.clone());
            }
        }
    }

    fn push_behaviour(
        &mut self,
        number: usize,
        tree: &Tree,
        form: &Sequences,
        strategies: &[Vec<Rational>],
    ) {
        for (player, strategy) in strategies.iter().enumerate() {
            let reached = reached(form, player, strategy);
            let actions = actions(tree, form, player).into_iter().zip(reached);
            for ((action, is_reached), fraction) in actions.zip(strategy) {
                let action = Action {
                    is_reached,
                    ..action
                };
                self.push_proved(number, action, fraction.clone());
            }
        }
    }

    /// Writes the facts, then one line for each choice of each player, with the actions that are played.
    fn text(&self, exact: bool) -> String {
        let mut text = format!("{}\n{}\n", self.title, self.method);
        let is_one = self.rows.last().is_none_or(|row| row.equilibrium == 1);
        let facts = |number: usize| {
            self.facts
                .iter()
                .filter(move |fact| fact.equilibrium == number)
        };
        for Fact { name, known, .. } in facts(0) {
            text += &format!("{name} {}\n", known.text(exact));
        }
        for equilibrium in self.rows.chunk_by(|a, b| a.equilibrium == b.equilibrium) {
            let number = equilibrium[0].equilibrium;
            let known: Vec<String> = facts(number)
                .map(|fact| format!("{} {}", fact.name, fact.known.text(exact)))
                .collect();
            if !is_one {
                text += &format!("\nequilibrium {number}: {}\n", known.join(", "));
            } else if !known.is_empty() {
                text += &format!("{}\n", known.join("\n"));
            }
            for choice in
                equilibrium.chunk_by(|a, b| a.action.numbers[..2] == b.action.numbers[..2])
            {
                text += &choice_text(choice, exact);
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
        let fact = |fact: &Fact| {
            json!({
                "equilibrium": if fact.equilibrium == 0 { Value::Null } else { json!(fact.equilibrium) },
                "name": fact.name,
                "fact": fact.known.json(),
                "fractions": fact.known.fractions(),
            })
        };
        let facts: Vec<_> = self.facts.iter().map(fact).collect();
        let mut lines = vec![json!({
            "game": self.title,
            "method": self.method,
            "is_reached": self.is_reached,
            "facts": facts,
        })];
        lines.extend(self.rows.iter().map(|row| {
            let ([player, set, action], names) = (row.action.numbers, &row.action.names);
            json!({
                "equilibrium": row.equilibrium,
                "player": player,
                "set": set,
                "action": action,
                "names": names,
                "set_is_reached": row.action.is_reached,
                "probability": row.probability,
                "fraction": row.fraction.as_ref().map(ToString::to_string),
            })
        }));
        let lines: serde_json::Result<Vec<String>> =
            lines.iter().map(serde_json::to_string).collect();
        Ok(lines?.join("\n") + "\n")
    }
}

/// Writes the actions of one choice that are played.
fn choice_text(choice: &[Row], exact: bool) -> String {
    let probability = |row: &Row| {
        let number = match &row.fraction {
            Some(fraction) if exact => fraction.to_string(),
            _ => decimal(row.probability),
        };
        format!("{} {number}", row.action.names[2])
    };
    let played = choice
        .iter()
        .filter(|row| row.probability > 0.0)
        .map(probability);
    let Action {
        names: [player, set, _],
        is_reached,
        ..
    } = &choice[0].action;
    let set = if set.is_empty() {
        String::new()
    } else {
        format!(" at {set}")
    };
    if !is_reached {
        return format!("  player {player}{set}: not reached\n");
    }
    format!("  player {player}{set}: {}\n", joined(played))
}

#[cfg(test)]
mod tests {
    use super::*;
    use games::exact::MAX_LABELS;

    const CHICKEN: &str = "NFG 1 R \"chicken\" { \"A\" \"B\" } { { \"swerve\" \"go\" } { \"swerve\" \"go\" } } \"\" 6 6 7 2 2 7 0 0";

    fn parsed(args: &[&str]) -> Result<Option<Options>> {
        parse(["FILE"].iter().chain(args).map(OsString::from).collect())
    }

    fn solved(text: &str, args: &[&str]) -> Answer {
        answer(files::parse(text).unwrap(), &parsed(args).unwrap().unwrap()).unwrap()
    }

    fn fact<'a>(answer: &'a Answer, name: &str) -> &'a Known {
        let fact = answer.facts.iter().find(|fact| fact.name == name);
        &fact.unwrap_or_else(|| panic!("no {name}")).known
    }

    #[test]
    fn a_zero_sum_game_is_solved_with_a_proof() {
        let game = "NFG 1 R \"crash\" { \"Row\" \"Col\" } { 3 3 } 0 0 1 -1 -2 2 -1 1 0 0 1 -1 2 -2 -1 1 0 0";
        let answer = solved(game, &[]);
        let lines = "value 0\nstrategies unique, unique\n  player Row: 1 0.25, 2 0.5, 3 0.25\n";
        assert!(answer.text(false).contains(lines), "{}", answer.text(false));
        assert!(
            answer
                .text(true)
                .contains("player Row: 1 1/4, 2 1/2, 3 1/4\n")
        );
        let learnt = solved(game, &["--learn", "--until", "1e-9"]);
        assert!(learnt.is_reached && learnt.rows.iter().all(|row| row.fraction.is_none()));
        assert!(!solved(game, &["--learn", "--until", "0", "--iterations", "3"]).is_reached);
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
            let learnt = solved(&tree, &["--learn", "--until", "1e-6"]);
            assert!(learnt.is_reached);
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
                &["--learn", "--until", "1e-30", "--iterations", "1e4"],
            );
            assert!(!forbidden.is_reached);
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
        // Chicken in which the second player has choices that nobody would take, for one label more than are enumerated.
        const N_USELESS: usize = MAX_LABELS - 3;
        let useless = "0 -1 0 -1 ".repeat(N_USELESS);
        let game = format!(
            "NFG 1 R \"chicken\" {{ \"A\" \"B\" }} {{ 2 {} }} 6 6 7 2 2 7 0 0 {useless}",
            2 + N_USELESS
        );
        let answer = solved(&game, &[]);
        assert_eq!(answer.method, "one equilibrium by Lemke-Howson, proved",);
        assert!(
            fact(&answer, "reason")
                .text(false)
                .contains("the limit is 128")
        );
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
        assert!(reason.contains("the limit is 4096"), "{reason}");
    }

    #[test]
    fn proofs_end_within_the_time_and_the_game_is_learnt() {
        let side = 150_u64;
        let cells = 2 * side * side;
        // The mixer of the generator SplitMix64.
        let mix = |number: u64, shift: u32, factor: u64| {
            (number ^ (number >> shift)).wrapping_mul(factor)
        };
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
        let begin = Instant::now();
        let answer = solved(&game, &["--within", "0.4", "--until", "2"]);
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "{:?}",
            begin.elapsed()
        );
        let reason = fact(&answer, "reason").text(false);
        assert!(reason.contains("deadline reached"), "{reason}");
        assert_eq!(answer.method, "average of learning by regret");
    }

    /// A battle of the sexes that the first player may stay out of.
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
        // Staying out is best while the reply is L with at most 2/3; inside, T and B mix for 3/4 alone.
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
        // Sets are numbered for each player.
        assert_eq!(answer.rows.last().unwrap().action.numbers, [2, 1, 2]);
        let learnt = solved(OUTSIDE, &["--learn"]);
        assert!(learnt.is_reached && learnt.method == "average of learning by regret");
        assert!(!solved(OUTSIDE, &["--learn", "--until", "0", "--iterations", "3"]).is_reached);
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
    fn numbers_of_the_command_line_are_read_or_refused() {
        let iterations =
            |text| parsed(&["--iterations", text]).map(|options| options.unwrap().iterations);
        assert_eq!(iterations("1e6").unwrap(), 1_000_000);
        assert_eq!(iterations("18446744073709551615").unwrap(), u64::MAX);
        for bad in ["1.5", "-1", "nan", "1e20", "many"] {
            assert!(iterations(bad).is_err(), "{bad}");
        }
        for bad in ["nan", "inf", "-1e-3"] {
            assert!(parsed(&["--until", bad]).is_err(), "{bad}");
        }
        assert_eq!(decimal(1.0 / 3.0), "0.333333333");
        assert_eq!(
            [0.0, 2.0, -0.25, 1e-9, 1e30].map(decimal).join(" "),
            "0 2 -0.25 1.000e-9 1.000e30"
        );
    }
}
