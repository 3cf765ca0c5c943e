//! Games in files: Gambit's formats for strategic games (`.nfg`) and for game trees (`.efg`).
//!
//! Role: reads games written by other programs, and writes games that they can read.
//! Method: one scanner for both formats. Readers request the next expected token, so an error
//! contains line, column, the expected and the actual text. The readers do not recurse, and they
//! allocate memory only if the rest of the text is long enough for the announced number of items.
//! So time and memory grow with the length of the text; the fractions of outcomes, which many cells
//! can share, have a limit of 1 GiB.
//! Accuracy: numbers are fractions, read and written without rounding. Only probabilities of chance
//! whose sum is not 1 are changed.
//! Source: Savani and Turocy, the manual of Gambit 16, "Game representation formats".
//! Limits: files of 1 GiB, 64 players, 2^26 payoffs of a strategic game, 2^27 nodes of a tree, and
//! numbers that have at most 700 digits in numerator and denominator when written out.
//!
//! # Extensions of the formats
//! Commas count as blanks. Names of nodes, of chance outcomes and of payoffs are optional, and so
//! are names of information sets. Several sets of a player may have the same name, because their
//! numbers identify them. When a set, a chance move or an outcome occurs again, its description may
//! be repeated, shortened or left out, but must not differ. Numbers may be decimals, with or
//! without an exponent, or fractions of integers. Invalid UTF-8 becomes the replacement character;
//! a byte order mark is skipped. In a text `\"` is a quotation mark and `\\` a backslash; any other
//! backslash is a literal backslash.
//!
//! Probabilities of chance that sum to 1 are used as written. Files often have rounded decimals, so
//! probabilities whose sum differs from 1 by at most 1e-9 are corrected. A decimal of nine places
//! or more is then replaced by the simplest nonzero fraction within one unit of its last place or
//! one part in 2^52. If these fractions sum to 1, they are the probabilities; if not, the written
//! numbers are divided by their sum.

mod decimal;
mod efg;
mod nfg;
mod probability;
mod quote;
mod scanner;

use crate::exact::Prover;
use crate::extensive::{Count, Tree};
use crate::{Error, NormalForm, Result, StrategicGame};
use scanner::Scanner;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Size limit of files read by [`read`]: 1 GiB.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// Largest number of players of a game in a file.
pub const MAX_PLAYERS: usize = 64;

/// Largest number of payoffs of a strategic game in a file: cells times players.
pub const MAX_PAYOFFS: usize = 1 << 26;

/// Largest number of digits of a numerator or a denominator when it is written out.
pub const MAX_DIGITS: usize = 700;

/// A game of either format.
#[derive(Clone, Debug, PartialEq)]
pub enum File {
    /// The game of a `.nfg` file.
    Strategic(NormalForm),
    /// The game of an `.efg` file.
    Extensive(Tree),
}

/// Reads a game file of either format; the first word determines the format.
///
/// # Errors
/// [`Error::FileUnreadable`] if the system cannot read the file; [`Error::TooLarge`] if the file is
/// longer than [`MAX_FILE_BYTES`]; otherwise the errors of [`parse`].
pub fn read(path: impl AsRef<Path>) -> Result<File> {
    parse(bytes(path.as_ref())?)
}

/// Reads a game file, as [`read`] does, within the limits of a prover.
///
/// # Errors
/// Those of [`read`]; [`Error::DeadlineReached`] and [`Error::Cancelled`] at the prover's limits.
pub fn read_within(path: impl AsRef<Path>, prover: &Prover<'_>) -> Result<File> {
    parse_within(bytes(path.as_ref())?, prover)
}

/// Returns the content of a file that is not too long.
fn bytes(path: &Path) -> Result<Vec<u8>> {
    const OPERATION: &str = "files::read";
    let unreadable = |error: io::Error| Error::FileUnreadable {
        operation: OPERATION,
        path: path.to_owned(),
        fault: error.to_string(),
    };
    // The length is checked first, and again while reading because a pipe has no length.
    let file = fs::File::open(path).map_err(unreadable)?;
    let claimed = file.metadata().map_err(unreadable)?.len();
    let mut text = vec![];
    if claimed <= MAX_FILE_BYTES {
        let mut start = file.take(MAX_FILE_BYTES + 1);
        start.read_to_end(&mut text).map_err(unreadable)?;
    }
    let needed = claimed.max(text.len() as u64);
    if needed > MAX_FILE_BYTES {
        return Err(Error::TooLarge {
            operation: OPERATION,
            what: "length of the file in bytes",
            needed: needed.into(),
            limit: MAX_FILE_BYTES.into(),
        });
    }
    Ok(text)
}

/// Parses the text of a game file of either format; the first word determines the format.
///
/// # Errors
/// [`Error::FileInvalid`] if the text starts with neither `NFG` nor `EFG`; else as [`read_nfg`] or
/// [`read_efg`].
pub fn parse(text: impl AsRef<[u8]>) -> Result<File> {
    parse_counted(text.as_ref(), UNLIMITED)
}

/// Parses the text of a game file, as [`parse`] does, within the limits of a prover.
///
/// # Errors
/// Those of [`parse`]; [`Error::DeadlineReached`] and [`Error::Cancelled`] at the prover's limits.
///
/// # Examples
/// ```
/// use games::{Error, exact::Prover, files};
/// use std::time::Instant;
///
/// let late = Prover::new().deadline(Instant::now());
/// let read = files::parse_within(r#"NFG 1 R "" { "Ann" "Bob" } { 1 1 } 0 0"#, &late);
/// assert!(matches!(read, Err(Error::DeadlineReached { .. })));
/// ```
pub fn parse_within(text: impl AsRef<[u8]>, prover: &Prover<'_>) -> Result<File> {
    parse_counted(text.as_ref(), &prover.counter(PARSE))
}

const PARSE: &str = "files::parse";
const UNLIMITED: &Count<'static> = &|_| Ok(());

fn parse_counted(text: &[u8], count: &Count<'_>) -> Result<File> {
    let mut scanner = Scanner::new(PARSE, text, count);
    let at = scanner.position();
    match scanner.word() {
        b"NFG" => nfg::read(Scanner::new(READ_NFG, text, count)).map(File::Strategic),
        b"EFG" => efg::read(Scanner::new(READ_EFG, text, count)).map(File::Extensive),
        _ => Err(scanner.fault(at, "NFG or EFG")),
    }
}

const READ_NFG: &str = "files::read_nfg";
const READ_EFG: &str = "files::read_efg";

/// Reads the text of a `.nfg` file, of the version with payoffs or the one with outcomes.
///
/// If all names are empty, the game has no names.
///
/// # Errors
/// [`Error::FileInvalid`] if the text does not have the format, or a payoff's absolute value
/// exceeds 1e150; [`Error::TooLarge`] above [`MAX_PLAYERS`] or [`MAX_PAYOFFS`], or if the fractions
/// of outcomes need more than 1 GiB in all cells.
///
/// # Examples
/// ```
/// use games::{StrategicGame, files};
///
/// let text = r#"NFG 1 R "stag hunt" { "Ann" "Bob" } { 2 2 }  4 4  3 0  0 3  3 3"#;
/// let game = files::read_nfg(text)?;
/// // The first player's action changes first.
/// assert_eq!(game.payoff(0, &[1, 0]), game.payoff(1, &[0, 1]));
/// assert_eq!(files::read_nfg(files::write_nfg(&game))?, game);
/// # Ok::<(), games::Error>(())
/// ```
pub fn read_nfg(text: impl AsRef<[u8]>) -> Result<NormalForm> {
    nfg::read(Scanner::new(READ_NFG, text.as_ref(), UNLIMITED))
}

/// Reads the text of an `.efg` file.
///
/// Payoffs at inner nodes are added to the payoffs of the leaves below them. Names of nodes and
/// outcomes, and the comment, are ignored.
///
/// # Errors
/// [`Error::FileInvalid`] if the text does not have the format, if probabilities of chance do not
/// sum to 1, or if a payoff's absolute value exceeds 1e150; [`Error::PayoffInvalid`] if a sum of
/// payoffs exceeds this limit;
/// [`Error::TooLarge`] above [`MAX_PLAYERS`] or 2^27 nodes.
///
/// # Examples
/// ```
/// use games::files;
///
/// let text = r#"EFG 2 R "a coin, rounded" { "Ann" "Bob" }
/// c "" 1 "" { "one" 0.3333333333 "two" 0.3333333333 "three" 0.3333333333 } 0
/// t "" 1 "win" { 1, -1 }
/// t "" 0
/// t "" 2 "lose" { -1, 1 }"#;
/// let tree = files::read_efg(text)?;
/// assert_eq!(tree.chances()[0].probabilities[0].to_string(), "1/3");
/// assert_eq!(files::read_efg(files::write_efg(&tree))?, tree);
/// # Ok::<(), games::Error>(())
/// ```
pub fn read_efg(text: impl AsRef<[u8]>) -> Result<Tree> {
    efg::read(Scanner::new(READ_EFG, text.as_ref(), UNLIMITED))
}

/// Writes a game in the `.nfg` format, the version with payoffs.
///
/// [`read_nfg`] reads the file back as an equal game if the file is within the limits above.
/// Players without names get empty names, and the file has only the number of unnamed actions.
/// Names are written unchanged, although some programs reject names with line breaks.
#[must_use]
pub fn write_nfg(game: &(impl StrategicGame + ?Sized)) -> String {
    nfg::write(game)
}

/// Writes a game tree in the `.efg` format.
///
/// Probabilities of chance are fractions that sum to exactly 1. A player's information sets are
/// numbered from 1 in the order of [`Tree::information_sets`]. Each set is described at every
/// occurrence, because not every program remembers earlier descriptions.
///
/// [`read_efg`] reads the file back as an equal tree if the file is within the limits above, and
/// the tree's information sets are in depth-first order and each of them has a node: the format has
/// no place for a set without a node. Names are written unchanged, although some programs reject
/// names with line breaks or equal names of two sets of a player.
#[must_use]
pub fn write_efg(tree: &Tree) -> String {
    efg::write(tree)
}
