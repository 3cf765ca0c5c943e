//! Game trees: `EFG 2 R "title" { players } "comment"`, then the nodes, each before its children.

use super::probability::{self, MendError};
use super::scanner::Scanner;
use super::{MAX_DIGITS, decimal, quote};
use crate::extensive::{Chance, InformationSet, Node, Tree, TreeBuilder};
use crate::number::{compare_lists, words, words_of_sum};
use crate::{Rational, Result};
use num_traits::{Signed, Zero};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::{self, Write};

/// Smallest size of a node with the blank after it: `t 0 `.
const MIN_NODE_BYTES: usize = 4;

/// Reads a tree.
pub(super) fn read(mut scanner: Scanner<'_>) -> Result<Tree> {
    scanner.keyword(&["EFG"])?;
    scanner.keyword(&["2"])?;
    scanner.keyword(&["R", "D"])?;
    let title = scanner.text("the game's title")?;
    let players = scanner.players()?;
    scanner.optional_text()?;
    let mut reader = Reader {
        scanner,
        sums: vec![Rational::zero(); players.len()],
        builder: TreeBuilder::new(title, players),
        sets: HashMap::new(),
        chances: HashMap::new(),
        outcomes: HashMap::new(),
        path: vec![],
    };
    while reader.builder.n_missing() > 0 {
        reader.node()?;
    }
    reader.scanner.end()?;
    reader.builder.finish()
}

/// An inner node on the path to the node being read.
struct Inner {
    /// The number of the node's outcome; 0 for no outcome.
    outcome: u64,
    /// Number of children that are not complete.
    n_open: usize,
}

/// The state of the parser.
struct Reader<'a> {
    scanner: Scanner<'a>,
    builder: TreeBuilder,
    /// The builder's indices of information sets, by player and number in the file.
    sets: HashMap<(usize, u64), u32>,
    chances: HashMap<u64, Chance>,
    outcomes: HashMap<u64, Vec<Rational>>,
    /// The inner nodes from the root to the next node.
    path: Vec<Inner>,
    /// Each player's sum of the outcomes on the path. Outcomes are added on the way down and
    /// subtracted on the way up, so that memory does not grow with depth.
    sums: Vec<Rational>,
}

impl Reader<'_> {
    fn node(&mut self) -> Result<()> {
        let at = self.scanner.position();
        let kind = self.scanner.word();
        if !matches!(kind, b"c" | b"p" | b"t") {
            let expected = format!("a node (c, p or t; {} remaining)", self.builder.n_missing());
            return Err(self.scanner.fault(at, expected));
        }
        // The node's name.
        self.scanner.optional_text()?;
        match kind {
            b"c" => self.chance(),
            b"p" => self.decision(),
            _ => self.terminal(),
        }
    }

    fn chance(&mut self) -> Result<()> {
        let at = self.scanner.position();
        let number = self.scanner.natural("the number of a chance move")?;
        self.scanner.optional_text()?;
        if self.scanner.peek() == Some(b'{') {
            let chance = self.outcomes_of_chance()?;
            let known = self.chances.entry(number).or_insert_with(|| chance.clone());
            let (old, new) = (&known.probabilities, &chance.probabilities);
            if known.actions != chance.actions || compare_lists(old, new).is_ne() {
                let expected = format!("the earlier description of chance move {number}");
                return Err(self.scanner.fault(at, expected));
            }
        }
        let outcome = self.outcome()?;
        let Some(chance) = self.chances.get(&number) else {
            let expected = "a chance move described earlier";
            return Err(self.scanner.fault(at, expected));
        };
        let n_children = chance.actions.len();
        check_room(&mut self.scanner, &self.builder, n_children)?;
        let bits = chance
            .probabilities
            .iter()
            .map(|share| share.denom().bits());
        (self.scanner.counter())(words(bits.sum()))?;
        // The probabilities of a file sum to 1, so they need no division by their sum.
        self.builder.distribution(chance.clone())?;
        self.enter(outcome, n_children)
    }

    /// Reads names and probabilities in braces.
    fn outcomes_of_chance(&mut self) -> Result<Chance> {
        let start = self.scanner.position();
        self.scanner.open("probabilities")?;
        let (mut actions, mut written) = (vec![], vec![]);
        while written.is_empty() || !self.scanner.passes(b'}') {
            actions.push(self.scanner.optional_text()?.unwrap_or_default());
            let at = self.scanner.position();
            let probability = self.scanner.number("a probability")?;
            if probability.value.is_negative() {
                return Err(self.scanner.fault(at, "a nonnegative probability"));
            }
            written.push(probability);
        }
        let mended = probability::mend(&written, self.scanner.counter());
        let probabilities = mended.map_err(|fault| match fault {
            MendError::NoProbabilities(found) => {
                let expected = "probabilities that sum to 1 within 1e-9";
                self.scanner.fault_found(start, expected, found)
            }
            MendError::Halted(halt) => halt,
        })?;
        Ok(Chance {
            actions,
            probabilities,
        })
    }

    fn decision(&mut self) -> Result<()> {
        let set = self.information_set()?;
        let outcome = self.outcome()?;
        let n_children = self.builder.information_sets()[set as usize].actions.len();
        check_room(&mut self.scanner, &self.builder, n_children)?;
        self.builder.decision(set, n_children)?;
        self.enter(outcome, n_children)
    }

    /// Reads an information set: its player, number, and optional name and actions. Returns the
    /// builder's index.
    fn information_set(&mut self) -> Result<u32> {
        let player = self.player()?;
        let at = self.scanner.position();
        let number = self.scanner.natural("the number of an information set")?;
        let name = self.scanner.optional_text()?;
        let is_described = self.scanner.peek() == Some(b'{');
        let actions = is_described.then(|| self.scanner.texts("an action's name"));
        let actions = actions.transpose()?;
        let Some(&set) = self.sets.get(&(player, number)) else {
            let Some(actions) = actions else {
                let expected = "an information set described earlier";
                return Err(self.scanner.fault(at, expected));
            };
            let name = name.unwrap_or_default();
            let set = self.builder.information_set(player, &name, actions)?;
            self.sets.insert((player, number), set);
            return Ok(set);
        };
        let known = &self.builder.information_sets()[set as usize];
        if name.is_some_and(|name| name != known.name)
            || actions.is_some_and(|actions| actions != known.actions)
        {
            let player = player + 1;
            let expected =
                format!("the earlier description of information set {number} of player {player}");
            return Err(self.scanner.fault(at, expected));
        }
        Ok(set)
    }

    /// Reads a player's number, and returns it counted from 0.
    fn player(&mut self) -> Result<usize> {
        let at = self.scanner.position();
        let n_players = self.sums.len();
        let number = self.scanner.natural("a player's number")?;
        let player = (0..n_players).find(|&player| player as u64 + 1 == number);
        player.ok_or_else(|| {
            let expected = format!("a player's number, from 1 to {n_players}");
            self.scanner.fault(at, expected)
        })
    }

    fn terminal(&mut self) -> Result<()> {
        let outcome = self.outcome()?;
        self.add(outcome)?;
        self.builder.terminal(&self.sums)?;
        self.take_off(outcome)?;
        // Inner nodes whose last child is complete are complete.
        while let Some(inner) = self.path.last_mut() {
            inner.n_open -= 1;
            if inner.n_open > 0 {
                break;
            }
            let outcome = inner.outcome;
            self.path.pop();
            self.take_off(outcome)?;
        }
        Ok(())
    }

    /// Reads an outcome's number and its optional name and payoffs; 0 means no outcome.
    fn outcome(&mut self) -> Result<u64> {
        let at = self.scanner.position();
        let number = self
            .scanner
            .natural("an outcome's number (0 for no outcome)")?;
        if number == 0 {
            return Ok(0);
        }
        self.scanner.optional_text()?;
        let is_described = self.scanner.passes(b'{');
        let payoffs = is_described.then(|| self.payoffs()).transpose()?;
        let expected = match (self.outcomes.entry(number), payoffs) {
            (Entry::Vacant(_), None) => "an outcome described earlier".into(),
            (Entry::Occupied(known), Some(payoffs))
                if compare_lists(known.get(), &payoffs).is_ne() =>
            {
                format!("the earlier description of outcome {number}")
            }
            (Entry::Occupied(_), _) => return Ok(number),
            (Entry::Vacant(place), Some(payoffs)) => {
                place.insert(payoffs);
                return Ok(number);
            }
        };
        Err(self.scanner.fault(at, expected))
    }

    /// Reads a payoff for each player and the closing brace.
    fn payoffs(&mut self) -> Result<Vec<Rational>> {
        let n_players = self.sums.len();
        let payoffs: Result<_> = (0..n_players).map(|_| self.scanner.payoff()).collect();
        let payoffs = payoffs?;
        self.scanner.close(&format!("{n_players} payoffs"))?;
        Ok(payoffs)
    }

    /// Goes down to the first child of a node.
    fn enter(&mut self, outcome: u64, n_open: usize) -> Result<()> {
        self.add(outcome)?;
        self.path.push(Inner { outcome, n_open });
        Ok(())
    }

    /// Adds an outcome to the sums.
    fn add(&mut self, outcome: u64) -> Result<()> {
        let Some(payoffs) = self.outcomes.get(&outcome) else {
            return Ok(());
        };
        let count = self.scanner.counter();
        for (sum, payoff) in self.sums.iter_mut().zip(payoffs) {
            count(words_of_sum(sum, payoff))?;
            *sum += payoff;
        }
        // Sums of unlimited length would make the time quadratic in the length of the text.
        if self.sums.iter().all(decimal::fits) {
            return Ok(());
        }
        let at = self.scanner.position();
        let expected =
            format!("payoffs on a path that sum to numbers of at most {MAX_DIGITS} digits");
        Err(self
            .scanner
            .fault_found(at, expected, "a longer sum".into()))
    }

    /// Subtracts an outcome from the sums.
    fn take_off(&mut self, outcome: u64) -> Result<()> {
        let payoffs = self.outcomes.get(&outcome).into_iter().flatten();
        let count = self.scanner.counter();
        for (sum, payoff) in self.sums.iter_mut().zip(payoffs) {
            count(words_of_sum(sum, payoff))?;
            *sum -= payoff;
        }
        Ok(())
    }
}

/// Returns an error if the rest of the text is too short for this number of children.
fn check_room(scanner: &mut Scanner<'_>, builder: &TreeBuilder, n_children: usize) -> Result<()> {
    let n_missing = builder.n_missing() - 1 + n_children;
    scanner.check_room(n_missing, MIN_NODE_BYTES, "more nodes")
}

/// Writes a tree, a line for each node.
pub(super) fn write(tree: &Tree) -> String {
    let labels = tree.labels();
    let mut out = String::from("EFG 2 R ");
    quote::push(&mut out, &labels.title);
    out.push(' ');
    quote::push_list(&mut out, labels.players.iter().map(String::as_str));
    out.push_str("\n\"\"\n\n");
    let set_numbers = set_numbers(tree);
    let mut n_chances = 0;
    // The tree holds its nodes in the order of the file.
    for node in tree.nodes() {
        let written = match *node {
            Node::Chance(chance) => {
                n_chances += 1;
                push_chance(&mut out, n_chances, &tree.chances()[chance as usize])
            }
            Node::Decision(set) => {
                let number = set_numbers[set as usize];
                push_decision(&mut out, number, &tree.information_sets()[set as usize])
            }
            Node::Terminal(outcome) => {
                push_end(&mut out, outcome, &tree.outcomes()[outcome as usize])
            }
        };
        written.expect("writing to a string cannot fail");
    }
    out
}

/// Numbers each player's information sets from 1.
fn set_numbers(tree: &Tree) -> Vec<usize> {
    let mut counts = vec![0; tree.n_players()];
    let number = |set: &InformationSet| {
        counts[set.player] += 1;
        counts[set.player]
    };
    tree.information_sets().iter().map(number).collect()
}

fn push_chance(out: &mut String, number: usize, chance: &Chance) -> fmt::Result {
    write!(out, "c \"\" {number} \"\" {{")?;
    for (action, probability) in chance.actions.iter().zip(&chance.probabilities) {
        out.push(' ');
        quote::push(out, action);
        write!(out, " {probability}")?;
    }
    out.write_str(" } 0\n")
}

fn push_decision(out: &mut String, number: usize, set: &InformationSet) -> fmt::Result {
    write!(out, "p \"\" {} {number} ", set.player + 1)?;
    quote::push(out, &set.name);
    out.push(' ');
    quote::push_list(out, set.actions.iter().map(String::as_str));
    out.write_str(" 0\n")
}

fn push_end(out: &mut String, outcome: u32, payoffs: &[Rational]) -> fmt::Result {
    write!(out, "t \"\" {} \"\" {{", outcome + 1)?;
    for (player, payoff) in payoffs.iter().enumerate() {
        let separator = if player == 0 { " " } else { ", " };
        write!(out, "{separator}{payoff}")?;
    }
    out.write_str(" }\n")
}
