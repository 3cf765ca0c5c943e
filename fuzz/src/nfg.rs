//! Gambit's files of strategic games: any bytes are a game or an error.
//!
//! Method: a game must be equal after it is written and read again, and [`files::parse`] must agree
//! with the reader of the format.

use games::files::{self, File};

/// Checks the reader and the writer of `.nfg` files.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    match files::read_nfg(bytes) {
        Ok(game) => {
            let written = files::write_nfg(&game);
            let again = files::read_nfg(&written).expect("a written game can be read");
            assert_eq!(again, game);
            let parsed = files::parse(bytes).expect("both readers agree");
            assert_eq!(parsed, File::Strategic(game));
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let parsed = files::parse(bytes);
            assert!(!matches!(parsed, Ok(File::Strategic(_))), "{parsed:?}");
        }
    }
}
