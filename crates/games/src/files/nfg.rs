//! Strategic games: `NFG 1 R "title" { players } { strategies } "comment"`, then payoffs, or
//! outcomes and their numbers.

use super::scanner::Scanner;
use super::{MAX_PAYOFFS, quote};
use crate::number::nearest;
use crate::{Labels, NormalForm, Number, Rational, Result, StrategicGame};
use ndarray::{ArrayD, IxDyn, ShapeBuilder};
use std::fmt::Write;
use std::rc::Rc;

/// Smallest size of a number and the following blank, in bytes.
const MIN_NUMBER_BYTES: usize = 2;

/// Largest memory of the fractions of all cells, in bytes, if cells contain numbers of outcomes: a
/// short text can use a long fraction in many cells. The longest file with a payoff for each cell
/// needs about as much.
const MAX_FRACTION_BYTES: usize = 1 << 30;

/// A payoff in a quarter of a fraction's memory, because tables are large and most payoffs are
/// floats. The cells of an outcome share its fractions.
#[derive(Clone)]
enum Payoff {
    Float(f64),
    Fraction(Rc<Rational>),
}

impl From<Rational> for Payoff {
    fn from(payoff: Rational) -> Self {
        if payoff.is_float() {
            Self::Float(nearest(&payoff))
        } else {
            Self::Fraction(Rc::new(payoff))
        }
    }
}

impl Number for Payoff {
    fn nearest(&self) -> f64 {
        match self {
            Self::Float(payoff) => *payoff,
            Self::Fraction(payoff) => nearest(payoff),
        }
    }

    fn is_float(&self) -> bool {
        matches!(self, Self::Float(_))
    }

    fn exact(&self) -> Option<Rational> {
        match self {
            Self::Float(payoff) => payoff.exact(),
            Self::Fraction(payoff) => Some((**payoff).clone()),
        }
    }
}

/// Reads a game.
pub(super) fn read(mut scanner: Scanner<'_>) -> Result<NormalForm> {
    scanner.keyword(&["NFG"])?;
    scanner.keyword(&["1"])?;
    scanner.keyword(&["R", "D"])?;
    let title = scanner.text("the game's title")?;
    let mut players = scanner.players()?;
    let n_players = players.len();
    let (shape, actions) = strategies(&mut scanner, n_players)?;
    scanner.optional_text()?;
    let times = |product: u128, &side: &usize| product.saturating_mul(side as u128);
    let needed = shape.iter().fold(n_players as u128, times);
    scanner.limit("number of payoffs", needed, MAX_PAYOFFS)?;
    let n_cells = shape.iter().product();
    let payoffs = if scanner.peek() == Some(b'{') {
        outcome_version(&mut scanner, n_players, n_cells)?
    } else {
        payoff_version(&mut scanner, n_players, n_cells)?
    };
    scanner.end()?;
    // The first player's strategy changes fastest, which is column-major order.
    let array = |payoffs| {
        ArrayD::from_shape_vec(IxDyn(&shape).f(), payoffs).expect("one payoff for each cell")
    };
    if players.iter().all(String::is_empty) {
        players.clear();
    }
    let labels = Labels {
        title,
        players,
        actions,
    };
    NormalForm::new(n_players, payoffs.into_iter().map(array).collect())?.with_labels(labels)
}

/// Reads how many strategies each player has, and their names if there are any: `{ 2 3 }` or `{ {
/// "a" "b" } … }`.
fn strategies(
    scanner: &mut Scanner<'_>,
    n_players: usize,
) -> Result<(Vec<usize>, Vec<Vec<String>>)> {
    let what = format!("the strategies of {n_players} players");
    scanner.open(&what)?;
    let (mut shape, mut actions) = (vec![], vec![]);
    let has_names = scanner.peek() == Some(b'{');
    for _ in 0..n_players {
        if has_names {
            let names = scanner.texts("a strategy's name")?;
            shape.push(names.len());
            actions.push(names);
        } else {
            let at = scanner.position();
            let count = scanner.natural("a number of strategies")?;
            let count = usize::try_from(count).ok().filter(|&count| count > 0);
            shape.push(count.ok_or_else(|| scanner.fault(at, "a number of strategies above 0"))?);
        }
    }
    scanner.close(&what)?;
    if actions.iter().flatten().all(String::is_empty) {
        actions.clear();
    }
    Ok((shape, actions))
}

/// Reads each player's payoff for each cell; returns each player's payoffs.
fn payoff_version(
    scanner: &mut Scanner<'_>,
    n_players: usize,
    n_cells: usize,
) -> Result<Vec<Vec<Payoff>>> {
    scanner.check_room(n_cells * n_players, MIN_NUMBER_BYTES, "payoffs")?;
    let mut payoffs = vec![vec![]; n_players];
    for _ in 0..n_cells {
        for payoffs in &mut payoffs {
            payoffs.push(scanner.payoff()?.into());
        }
    }
    Ok(payoffs)
}

/// Returns the memory of a payoff as a fraction, in bytes.
fn fraction_bytes(payoff: &Payoff) -> u128 {
    let long = payoff.exact().map_or(0, |fraction| {
        fraction.numer().bits() + fraction.denom().bits()
    });
    size_of::<Rational>() as u128 + u128::from(long.div_ceil(u64::from(u8::BITS)))
}

/// Reads outcomes and the number of an outcome for each cell; returns each player's payoffs.
fn outcome_version(
    scanner: &mut Scanner<'_>,
    n_players: usize,
    n_cells: usize,
) -> Result<Vec<Vec<Payoff>>> {
    scanner.open("the outcomes")?;
    // Outcome 0 pays 0 to every player.
    let mut outcomes = vec![vec![Payoff::Float(0.0); n_players]];
    while !scanner.passes(b'}') {
        scanner.open("an outcome")?;
        scanner.optional_text()?;
        let payoffs: Result<_> = (0..n_players)
            .map(|_| Ok(scanner.payoff()?.into()))
            .collect();
        outcomes.push(payoffs?);
        scanner.close(&format!("{n_players} payoffs"))?;
    }
    scanner.check_room(n_cells, MIN_NUMBER_BYTES, "numbers of outcomes")?;
    // A table stores all of a player's payoffs as fractions if any is not a float.
    let players = 0..n_players;
    let players_with_fractions: Vec<usize> = players
        .filter(|&player| outcomes.iter().any(|payoffs| !payoffs[player].is_float()))
        .collect();
    let bytes_of = |payoffs: &Vec<Payoff>| {
        let fractions = players_with_fractions.iter();
        fractions
            .map(|&player| fraction_bytes(&payoffs[player]))
            .sum()
    };
    let outcome_bytes: Vec<u128> = outcomes.iter().map(bytes_of).collect();
    let mut n_bytes = 0;
    let mut payoffs = vec![vec![]; n_players];
    for _ in 0..n_cells {
        let at = scanner.position();
        let number = usize::try_from(scanner.natural("an outcome's number")?);
        let number = number.ok().filter(|&number| number < outcomes.len());
        let number = number.ok_or_else(|| {
            let last = outcomes.len() - 1;
            scanner.fault(at, format!("an outcome's number, from 0 to {last}"))
        })?;
        n_bytes += outcome_bytes[number];
        for (payoffs, payoff) in payoffs.iter_mut().zip(&outcomes[number]) {
            payoffs.push(payoff.clone());
        }
    }
    scanner.limit(
        "memory of all cells' fractions in bytes",
        n_bytes,
        MAX_FRACTION_BYTES,
    )?;
    Ok(payoffs)
}

/// Writes a game, a line for each cell.
pub(super) fn write(game: &(impl StrategicGame + ?Sized)) -> String {
    let (shape, labels) = (game.shape(), game.labels());
    let mut out = String::from("NFG 1 R ");
    quote::push(&mut out, &labels.title);
    out.push(' ');
    let name = |player| labels.players.get(player).map_or("", String::as_str);
    quote::push_list(&mut out, (0..shape.len()).map(name));
    out.push_str("\n{");
    for (player, n_actions) in shape.iter().enumerate() {
        out.push(' ');
        match labels.actions.get(player) {
            Some(names) => quote::push_list(&mut out, names.iter().map(String::as_str)),
            None => out.push_str(&n_actions.to_string()),
        }
    }
    out.push_str(" }\n\"\"\n\n");
    let mut cell = vec![0; shape.len()];
    loop {
        for player in 0..shape.len() {
            let end = if player + 1 < shape.len() { ' ' } else { '\n' };
            write!(out, "{}{end}", game.payoff(player, &cell))
                .expect("writing to a string cannot fail");
        }
        // The first player whose action is not its last takes its next action. All players before
        // this player start again with their first action.
        let Some(next) = (0..shape.len()).find(|&player| cell[player] + 1 < shape[player]) else {
            return out;
        };
        cell[..next].fill(0);
        cell[next] += 1;
    }
}
