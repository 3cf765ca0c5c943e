//! What can be wrong with what a caller gives.

use std::path::PathBuf;
use thiserror::Error;

/// Input that has no answer.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A player has no actions, or there are no players.
    #[error("{operation}: the game is empty, its shape is {shape:?}")]
    EmptyGame {
        /// What was to be made.
        operation: &'static str,
        /// Actions of each player.
        shape: Vec<usize>,
    },
    /// Arrays that belong together differ in shape.
    #[error("{operation}: shape is {actual:?}, it must be {expected:?}")]
    ShapeMismatch {
        /// The function that was called.
        operation: &'static str,
        /// The shape that the rest of the input asks for.
        expected: Vec<usize>,
        /// The shape given.
        actual: Vec<usize>,
    },
    /// A payoff is NaN, infinite, or so large that sums of it would overflow.
    #[error(
        "{operation}: payoff of player {player} at {cell:?} is not finite, or its size is above {limit:e}"
    )]
    PayoffInvalid {
        /// What was to be made.
        operation: &'static str,
        /// Whose payoff it is.
        player: usize,
        /// The actions that lead there, or the outcome's number.
        cell: Vec<usize>,
        /// The largest size.
        limit: f64,
    },
    /// The payoffs of two players do not have a constant sum, such as zero.
    #[error(
        "{operation}: payoffs do not have a constant sum (the sum at {cell:?} differs from the first)"
    )]
    NotConstantSum {
        /// The function that was called.
        operation: &'static str,
        /// The first cell whose sum differs from that of the first cell, by its actions, or the
        /// outcome's number.
        cell: Vec<usize>,
    },
    /// A number is out of its range.
    #[error("{operation}: {parameter} is {value}, it must be {must}")]
    ParameterInvalid {
        /// The function that was called.
        operation: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// Its value.
        value: f64,
        /// What it must be.
        must: &'static str,
    },
    /// The number of players is not one that the operation is made for.
    #[error("{operation}: the game has {n_players} players, it must have {must}")]
    PlayersUnsupported {
        /// The function that was called.
        operation: &'static str,
        /// Players of the game.
        n_players: usize,
        /// What it must be.
        must: &'static str,
    },
    /// A profile is not one strategy for each player, or a strategy is no distribution.
    #[error("{operation}: strategy of player {player} is {fault}")]
    ProfileInvalid {
        /// The function that was called.
        operation: &'static str,
        /// Whose strategy it is.
        player: usize,
        /// What is wrong with it.
        fault: String,
    },
    /// A profile is no equilibrium of the payoffs stated with it.
    #[error(
        "{operation}: action {action} of player {player} is worth more than the payoff stated, or is played and worth less"
    )]
    NotEquilibrium {
        /// The function that was called.
        operation: &'static str,
        /// Whose action it is.
        player: usize,
        /// The first such action.
        action: usize,
    },
    /// The game is larger than the operation can hold.
    #[error("{operation}: {what} would be {needed}, the limit is {limit}")]
    TooLarge {
        /// The function that was called.
        operation: &'static str,
        /// What is too many.
        what: &'static str,
        /// How many there would be.
        needed: u128,
        /// How many there may be.
        limit: u128,
    },
    /// An answer exists, but its proof is too long.
    #[error("{operation}: no proof within {limit} steps of arithmetic")]
    Unproved {
        /// The function that was called.
        operation: &'static str,
        /// How many steps there may be.
        limit: u64,
    },
    /// A proof reached its deadline.
    #[error("{operation}: deadline reached before the proof was complete")]
    DeadlineReached {
        /// The function that was called.
        operation: &'static str,
    },
    /// The caller's function cancelled a proof.
    #[error("{operation}: cancelled by the caller before the proof was complete")]
    Cancelled {
        /// The function that was called.
        operation: &'static str,
    },
    /// Numbers are no distribution over the cells of a game.
    #[error("{operation}: the distribution over cells is invalid: {fault}")]
    DistributionInvalid {
        /// The function that was called.
        operation: &'static str,
        /// What is wrong with it.
        fault: String,
    },
    /// A tree breaks the rules of a game: a chance node's probabilities, an information set, recall.
    #[error("{operation}: node {node}: {fault}")]
    TreeInvalid {
        /// The function that was called.
        operation: &'static str,
        /// The node's number, in the order in which nodes are made.
        node: usize,
        /// What is wrong with it.
        fault: String,
    },
    /// A rule of learning is not made for games of this form.
    #[error("solve: {rule:?} is for strategic games, this game is extensive")]
    RuleUnsupported {
        /// The rule.
        rule: crate::Rule,
    },
    /// A rule of learning is not made for devices.
    #[cfg(feature = "gpu")]
    #[error("{operation}: {rule:?} is for the CPU, devices match regrets")]
    RuleNotOnDevice {
        /// The function that was called.
        operation: &'static str,
        /// The rule.
        rule: crate::Rule,
    },
    /// Games that are to be learnt together have different trees.
    #[cfg(feature = "gpu")]
    #[error("{operation}: game {game} has another tree than the first")]
    TreesDiffer {
        /// The function that was called.
        operation: &'static str,
        /// The first game that differs.
        game: usize,
    },
    /// A device has no room, was lost, or refuses a kernel.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Device(Box<gpu_wgsl::Error>),
    /// A state is not of this game.
    #[error("Run::resume: the state does not fit the game: {fault}")]
    StateInvalid {
        /// What is wrong with it.
        fault: String,
    },
    /// A file's text is not what its format asks for.
    #[error("{operation}: line {line}, column {column}: expected {expected}, found {found}")]
    FileInvalid {
        /// The function that was called.
        operation: &'static str,
        /// The line, from 1.
        line: usize,
        /// The letter in that line, from 1.
        column: usize,
        /// What may stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// The system can't read a file.
    #[error("{operation}: {path}: {fault}", path = path.display())]
    FileUnreadable {
        /// The function that was called.
        operation: &'static str,
        /// Where the file was looked for.
        path: PathBuf,
        /// What the system says.
        fault: String,
    },
}

/// What the crate's functions give.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(feature = "gpu")]
impl From<gpu_wgsl::Error> for Error {
    /// Boxes the device's error, which is larger than all others.
    fn from(error: gpu_wgsl::Error) -> Self {
        Self::Device(Box::new(error))
    }
}
