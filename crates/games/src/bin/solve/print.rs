//! Output formats of an answer: text, CSV and JSON.

use anyhow::Result;
use serde_json::{Value, json};
use tool_io::output::printable;

use super::answer::{Action, Answer, Fact, FactValue, Row, float};

const CSV_HEADER: &str =
    "equilibrium,player,set,action,player_name,set_name,action_name,probability,fraction\n";

impl Answer {
    /// Returns the facts, then a line for each information set, with its actions of positive
    /// probability.
    pub(super) fn text(&self, exact: bool) -> String {
        let mut text = format!("{}\n{}\n", printable(&self.title), self.method);
        let is_one = self.rows.last().is_none_or(|row| row.equilibrium == 1);
        for fact in self.facts_of(0) {
            text += &format!("{}\n", fact.text(exact));
        }
        for equilibrium in self.rows.chunk_by(|a, b| a.equilibrium == b.equilibrium) {
            let number = equilibrium[0].equilibrium;
            let facts: Vec<String> = self.facts_of(number).map(|fact| fact.text(exact)).collect();
            if !is_one {
                text += &format!("\nequilibrium {number}: {}\n", facts.join(", "));
            } else if !facts.is_empty() {
                text += &format!("{}\n", facts.join("\n"));
            }
            let is_same = |a: &Row, b: &Row| a.action.numbers[..2] == b.action.numbers[..2];
            for choice in equilibrium.chunk_by(is_same) {
                text += &choice_text(choice, exact);
            }
        }
        text
    }

    /// Returns the facts of an equilibrium, or of all equilibria together for 0.
    fn facts_of(&self, equilibrium: usize) -> impl Iterator<Item = &Fact> {
        // Facts are added in the order of equilibria. A search of all facts for each equilibrium
        // would take quadratic time.
        let first = self
            .facts
            .partition_point(|fact| fact.equilibrium < equilibrium);
        let facts = self.facts[first..].iter();
        facts.take_while(move |fact| fact.equilibrium == equilibrium)
    }

    /// Returns a header, then a line for each probability.
    pub(super) fn csv(&self) -> String {
        let rows = self.rows.iter().map(Row::csv);
        std::iter::once(CSV_HEADER.to_owned()).chain(rows).collect()
    }

    /// Returns an object with the facts, then an object for each probability, one per line.
    pub(super) fn json(&self) -> Result<String> {
        let facts: Vec<Value> = self.facts.iter().map(Fact::json).collect();
        let first = json!({
            "game": self.title,
            "method": self.method,
            "is_reached": self.is_reached(),
            "facts": facts,
        });
        let mut text = String::new();
        for line in std::iter::once(first).chain(self.rows.iter().map(Row::json)) {
            text += &serde_json::to_string(&line)?;
            text.push('\n');
        }
        Ok(text)
    }
}

impl Row {
    fn csv(&self) -> String {
        let quoted = |name: &String| format!("\"{}\"", name.replace('"', "\"\""));
        let fraction = self.fraction.as_ref().map(ToString::to_string);
        format!(
            "{},{},{},{},{}\n",
            self.equilibrium,
            self.action
                .numbers
                .map(|number| number.to_string())
                .join(","),
            self.action.names.each_ref().map(quoted).join(","),
            self.probability,
            fraction.unwrap_or_default()
        )
    }

    fn json(&self) -> Value {
        let [player, set, action] = self.action.numbers;
        json!({
            "equilibrium": self.equilibrium,
            "player": player,
            "set": set,
            "action": action,
            "names": self.action.names,
            "set_is_reached": self.action.is_reached,
            "probability": self.probability,
            "fraction": self.fraction.as_ref().map(ToString::to_string),
        })
    }
}

impl Fact {
    fn text(&self, exact: bool) -> String {
        format!("{} {}", self.name, self.value.text(exact))
    }

    fn json(&self) -> Value {
        json!({
            "equilibrium": if self.equilibrium == 0 { Value::Null } else { json!(self.equilibrium) },
            "name": self.name,
            "fact": self.value.json(),
            "fractions": self.value.fractions(),
        })
    }
}

impl FactValue {
    pub(super) fn text(&self, exact: bool) -> String {
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

    /// Returns a number, or a list if there are several numbers.
    pub(super) fn json(&self) -> Value {
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

    /// Returns a list of the exact fractions, or null for other values.
    pub(super) fn fractions(&self) -> Value {
        match self {
            Self::Fractions(fractions) => {
                let texts = fractions.iter().map(ToString::to_string);
                json!(texts.collect::<Vec<_>>())
            }
            _ => Value::Null,
        }
    }
}

/// Returns a line with the actions of positive probability at one information set.
fn choice_text(choice: &[Row], exact: bool) -> String {
    let probability = |row: &Row| {
        let number = match &row.fraction {
            Some(fraction) if exact => fraction.to_string(),
            _ => decimal(row.probability),
        };
        format!("{} {number}", printable(&row.action.names[2]))
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
        format!(" at {}", printable(set))
    };
    let player = printable(player);
    if !is_reached {
        return format!("  player {player}{set}: not reached\n");
    }
    format!("  player {player}{set}: {}\n", joined(played))
}

fn joined<T: ToString>(parts: impl IntoIterator<Item = T>) -> String {
    let parts: Vec<String> = parts.into_iter().map(|part| part.to_string()).collect();
    parts.join(", ")
}

/// Formats a number with nine decimal places, without trailing zeros, or in scientific notation if
/// it is very small or very large.
pub(super) fn decimal(number: f64) -> String {
    const READABLE: std::ops::Range<f64> = 1e-6..1e12;
    if number != 0.0 && !READABLE.contains(&number.abs()) {
        return format!("{number:.3e}");
    }
    let text = format!("{number:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
