//! The solve command: computes the equilibrium of a game file.
//!
//! Role: `cargo xtask solve` builds and runs this program. It computes solutions of Gambit's `.nfg`
//! and `.efg` files, with a proof if possible, otherwise evaluated by best responses.
//! Method: `commands` parses the command line; `options` holds the settings. `prove` solves games
//! of one or two players; `learn` solves games without a proof. Both solve trees of one player, and
//! of three or more, by the reduced strategic form. Both return an `answer`, which `print` writes
//! as text, CSV or JSON.

mod answer;
mod learn;
mod options;
mod print;
mod prove;
#[cfg(test)]
mod tests;

use std::io::{self, Read as _};
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use commands::Solve;
use commands::clap::Parser as _;
use games::extensive::Tree;
use games::files::{self, File, MAX_FILE_BYTES};
use games::{Error, NormalForm, StrategicGame as _};
use tool_io::exit;

use answer::Answer;
use options::{Form, Options};
use tool_io::output;

fn main() -> ExitCode {
    run(&Options::new(Solve::parse())).unwrap_or_else(|error| {
        let fault = error.downcast_ref::<Error>();
        let hint = fault.map_or("", answer::hint);
        output::note(format_args!("error: solve: {error:#}{hint}"));
        ExitCode::from(exit::FAILURE)
    })
}

fn run(options: &Options) -> Result<ExitCode> {
    let answer = answer(read(options)?, options)?;
    output::print(match options.form {
        Form::Text => answer.text(options.exact),
        Form::Csv => answer.csv(),
        Form::Json => answer.json()?,
    })?;
    Ok(match answer.shortfall {
        None => ExitCode::SUCCESS,
        Some(shortfall) => {
            output::note(format_args!("error: solve: {shortfall}"));
            ExitCode::FAILURE
        }
    })
}

/// Reads a game from a file or from standard input.
fn read(options: &Options) -> Result<File> {
    let prover = options.preparation();
    if options.file.as_os_str() != "-" {
        return Ok(files::read_within(&options.file, &prover)?);
    }
    let mut text = vec![];
    let mut start = io::stdin().take(MAX_FILE_BYTES + 1);
    start.read_to_end(&mut text).context("standard input")?;
    ensure!(
        text.len() as u64 <= MAX_FILE_BYTES,
        "standard input: too long (limit {MAX_FILE_BYTES} bytes)"
    );
    Ok(files::parse_within(&text, &prover)?)
}

/// Returns an equilibrium of a game, or all equilibria.
fn answer(file: File, options: &Options) -> Result<Answer> {
    match file {
        File::Strategic(game) => strategic(&game, options),
        File::Extensive(tree) => extensive(&tree, options),
    }
}

fn strategic(game: &NormalForm, options: &Options) -> Result<Answer> {
    proved_or_learnt(
        !options.learn && game.shape().len() <= 2,
        || prove::strategic(game, options),
        |reason| learn::strategic(game, options, reason),
    )
}

fn extensive(tree: &Tree, options: &Options) -> Result<Answer> {
    if tree.n_players() != 2 {
        let strategic = options.preparation().strategic_form(tree)?;
        return proved_or_learnt(
            !options.learn && tree.n_players() == 1,
            || prove::one_player_tree(tree, &strategic, options),
            |reason| learn::plans(tree, &strategic, options, reason),
        );
    }
    let form = options.preparation().sequences(tree)?;
    proved_or_learnt(
        !options.learn,
        || prove::extensive(tree, &form, options),
        |reason| learn::extensive(tree, &form, options, reason),
    )
}

/// Returns the answer of a proof or, if the proof meets a limit, of learning. The answer of
/// learning reports the limit.
fn proved_or_learnt(
    has_proof: bool,
    prove: impl FnOnce() -> games::Result<Answer>,
    learn: impl FnOnce(Option<Error>) -> Result<Answer>,
) -> Result<Answer> {
    if !has_proof {
        return learn(None);
    }
    match prove() {
        Err(fault) if prove::is_limit(&fault) => learn(Some(fault)),
        proved => Ok(proved?),
    }
}
