//! Gambit's files of game trees: any bytes are a tree or an error.
//!
//! Method: a tree must be equal after it is written and read again. Probabilities of chance must
//! sum to exactly 1. A small tree must have a sequence form or an error. For a part of the inputs,
//! [`files::parse`] must agree with the reader of the format.

use games::Rational;
use games::extensive::Sequences;
use games::files::{self, File};

use crate::sample;

/// Number of inputs of which one is read by both functions. Sums of long fractions take most of the
/// time.
const READ_TWICE: u64 = 8;
/// Maximum number of nodes of a tree whose sequence form is built.
const MAX_NODES: usize = 1 << 10;

/// Checks the reader and the writer of `.efg` files.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    match files::read_efg(bytes) {
        Ok(tree) => {
            for chance in tree.chances() {
                let sum: Rational = chance.probabilities.iter().sum();
                assert_eq!(sum, Rational::from_integer(1.into()), "{chance:?}");
            }
            let written = files::write_efg(&tree);
            let again = files::read_efg(&written).expect("a written tree can be read");
            assert_eq!(again, tree);
            if tree.nodes().len() <= MAX_NODES
                && let Err(error) = Sequences::new(&tree)
            {
                assert!(!error.to_string().is_empty());
            }
            if sample::is_drawn(bytes, READ_TWICE) {
                let parsed = files::parse(bytes).expect("both readers agree");
                assert_eq!(parsed, File::Extensive(tree));
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            if sample::is_drawn(bytes, READ_TWICE) {
                let parsed = files::parse(bytes);
                assert!(!matches!(parsed, Ok(File::Extensive(_))), "{parsed:?}");
            }
        }
    }
}
