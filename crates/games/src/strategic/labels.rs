//! Names of a game, its players and their actions.

use crate::{Error, Result};

/// Names of a game, its players and their actions; all are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Labels {
    /// The game's title; may be empty.
    pub title: String,
    /// A name for each player, or an empty list.
    pub players: Vec<String>,
    /// A name for each action of each player, or an empty list.
    pub actions: Vec<Vec<String>>,
}

impl Labels {
    /// Returns the name of a player; the default is its number, counted from 1.
    #[must_use]
    pub fn player(&self, player: usize) -> String {
        let name = self.players.get(player).filter(|name| !name.is_empty());
        name.cloned().unwrap_or_else(|| (player + 1).to_string())
    }

    /// Returns the name of an action; the default is its number, counted from 1.
    #[must_use]
    pub fn action(&self, player: usize, action: usize) -> String {
        let name = self.actions.get(player).and_then(|names| names.get(action));
        let name = name.filter(|name| !name.is_empty());
        name.cloned().unwrap_or_else(|| (action + 1).to_string())
    }

    /// Returns an error if the names do not match the number of actions of each player.
    pub(super) fn check(&self, operation: &'static str, shape: &[usize]) -> Result<()> {
        let check = |actual: &[usize], expected: &[usize]| {
            if actual == expected {
                return Ok(());
            }
            Err(Error::ShapeMismatch {
                operation,
                expected: expected.to_vec(),
                actual: actual.to_vec(),
            })
        };
        if !self.players.is_empty() {
            check(&[self.players.len()], &[shape.len()])?;
        }
        if !self.actions.is_empty() {
            let counts: Vec<usize> = self.actions.iter().map(Vec::len).collect();
            check(&counts, shape)?;
        }
        Ok(())
    }
}
