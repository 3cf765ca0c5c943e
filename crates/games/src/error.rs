//! The errors of this crate.

use std::path::PathBuf;
use thiserror::Error;

/// An error of a function of this crate; most are caused by invalid input.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A player has no actions, or there are no players.
    #[error("{operation}: game is empty (shape {shape:?})")]
    EmptyGame {
        /// Name of the function that was called.
        operation: &'static str,
        /// Number of actions of each player.
        shape: Vec<usize>,
    },
    /// The shapes of two arrays that belong together differ.
    #[error("{operation}: shape mismatch (shape {actual:?}; expected {expected:?})")]
    ShapeMismatch {
        /// The function that was called.
        operation: &'static str,
        /// Shape required by the rest of the input.
        expected: Vec<usize>,
        /// Actual shape.
        actual: Vec<usize>,
    },
    /// A payoff is NaN, infinite, or so large that sums of payoffs would overflow.
    #[error(
        "{operation}: payoff of player {player} at {cell:?} is not finite or too large (limit {limit:e})"
    )]
    PayoffInvalid {
        /// Name of the function that was called.
        operation: &'static str,
        /// Index of the player who receives the payoff.
        player: usize,
        /// Actions that lead to the payoff, or the number of the outcome.
        cell: Vec<usize>,
        /// Largest allowed absolute value.
        limit: f64,
    },
    /// The payoffs of two players do not sum to the same constant in every cell.
    #[error(
        "{operation}: payoffs do not have a constant sum (the sum at {cell:?} differs from the first)"
    )]
    NotConstantSum {
        /// The function that was called.
        operation: &'static str,
        /// The first cell whose sum differs from the sum of the first cell: its actions, or the
        /// number of the outcome.
        cell: Vec<usize>,
    },
    /// A numeric parameter is out of its range.
    #[error("{operation}: {parameter} out of range ({value}; must be {must})")]
    ParameterInvalid {
        /// The function that was called.
        operation: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// Actual value.
        value: f64,
        /// Allowed range, in words.
        must: &'static str,
    },
    /// The operation does not support games with this number of players.
    #[error("{operation}: unsupported number of players ({n_players}; must be {must})")]
    PlayersUnsupported {
        /// The function that was called.
        operation: &'static str,
        /// Number of players of the game.
        n_players: usize,
        /// Supported numbers of players, in words.
        must: &'static str,
    },
    /// A profile does not have one strategy for each player, or a strategy is not a probability
    /// distribution.
    #[error("{operation}: invalid strategy of player {player}: {fault}")]
    ProfileInvalid {
        /// The function that was called.
        operation: &'static str,
        /// Index of the player whose strategy is invalid.
        player: usize,
        /// Description of the fault.
        fault: String,
    },
    /// A profile is not an equilibrium with the stated payoffs.
    #[error(
        "{operation}: not an equilibrium: the value of action {action} of player {player} is above the stated payoff, or the action is played and its value is below"
    )]
    NotEquilibrium {
        /// The function that was called.
        operation: &'static str,
        /// Index of the player who could deviate.
        player: usize,
        /// The first action that violates the equilibrium conditions.
        action: usize,
    },
    /// The game exceeds a limit of the operation.
    #[error("{operation}: {what} exceeds the limit ({needed}; limit {limit})")]
    TooLarge {
        /// The function that was called.
        operation: &'static str,
        /// The quantity that is too large.
        what: &'static str,
        /// Required amount.
        needed: u128,
        /// Largest supported amount.
        limit: u128,
    },
    /// An answer exists, but its proof exceeds the limit on arithmetic steps.
    #[error("{operation}: no proof found within {limit} arithmetic steps")]
    Unproved {
        /// The function that was called.
        operation: &'static str,
        /// Largest number of arithmetic steps.
        limit: u64,
    },
    /// A proof, or its preparation, reached its deadline.
    #[error("{operation}: deadline reached before the result was complete")]
    DeadlineReached {
        /// The function that was called.
        operation: &'static str,
    },
    /// The caller's callback cancelled a proof or its preparation.
    #[error("{operation}: cancelled by the caller before the result was complete")]
    Cancelled {
        /// The function that was called.
        operation: &'static str,
    },
    /// Numbers do not form a probability distribution over the cells of a game.
    #[error("{operation}: invalid distribution over cells: {fault}")]
    DistributionInvalid {
        /// The function that was called.
        operation: &'static str,
        /// Description of the fault.
        fault: String,
    },
    /// A game tree is invalid: probabilities at a chance node, an information set, or perfect
    /// recall.
    #[error("{operation}: node {node}: {fault}")]
    TreeInvalid {
        /// The function that was called.
        operation: &'static str,
        /// Number of the node; nodes are numbered in the order of their creation.
        node: usize,
        /// Description of the fault.
        fault: String,
    },
    /// The learning rule does not support extensive games.
    #[error("{operation}: {rule:?} is not supported in extensive games (only in strategic games)")]
    RuleUnsupported {
        /// The function that was called.
        operation: &'static str,
        /// The learning rule.
        rule: crate::Rule,
    },
    /// The learning rule is not supported on GPUs.
    #[cfg(feature = "gpu")]
    #[error("{operation}: {rule:?} is not supported on GPUs (only regret matching)")]
    RuleNotOnDevice {
        /// The function that was called.
        operation: &'static str,
        /// The learning rule.
        rule: crate::Rule,
    },
    /// Games of one GPU batch have different trees.
    #[cfg(feature = "gpu")]
    #[error("{operation}: game {game} does not have the same tree as game 0")]
    TreesDiffer {
        /// The function that was called.
        operation: &'static str,
        /// Index of the first game whose tree differs from the tree of game 0.
        game: usize,
    },
    /// An error of the GPU: out of memory, lost, or a kernel that it cannot run.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Device(Box<gpu_wgsl::Error>),
    /// A saved state does not belong to the game.
    #[error("Run::resume: state does not match the game: {fault}")]
    StateInvalid {
        /// Description of the fault.
        fault: String,
    },
    /// The text of a file does not follow its format.
    #[error("{operation}: line {line}, column {column}: expected {expected}, found {found}")]
    FileInvalid {
        /// The function that was called.
        operation: &'static str,
        /// Line number, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// Text or kind of token expected at this position.
        expected: String,
        /// Text found at this position.
        found: String,
    },
    /// The operating system cannot read a file.
    #[error("{operation}: {path}: {fault}", path = path.display())]
    FileUnreadable {
        /// The function that was called.
        operation: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Message of the operating system.
        fault: String,
    },
}

/// The result type of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(feature = "gpu")]
impl From<gpu_wgsl::Error> for Error {
    /// Boxes the device error because it is much larger than the other variants.
    fn from(error: gpu_wgsl::Error) -> Self {
        Self::Device(Box::new(error))
    }
}
