//! Prints the claims ledger.
//!
//! Role: `cargo xtask verify` runs this program as its check `claims`.

#![allow(clippy::print_stdout, reason = "a program prints its results")]

use anyhow::Result;
use benches::claims;

fn main() -> Result<()> {
    for entry in claims::ledger()? {
        println!("{}", serde_json::to_string(&entry)?);
    }
    Ok(())
}
