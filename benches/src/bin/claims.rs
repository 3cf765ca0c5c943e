//! Prints the claims ledger.
//!
//! Role: `cargo xtask verify` runs this program as its check `claims`.

use anyhow::Result;
use benches::{claims, output};

fn main() -> Result<()> {
    for entry in claims::ledger()? {
        output::print(&(serde_json::to_string(&entry)? + "\n"))?;
    }
    Ok(())
}
