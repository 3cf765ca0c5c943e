//! Prints the claims ledger, one JSON object per line.
//!
//! Role: run by `cargo xtask verify` as its check `claims`.

use anyhow::Result;
use benches::claims;
use tool_io::output;

fn main() -> Result<()> {
    for entry in claims::ledger()? {
        output::print(&(serde_json::to_string(&entry)? + "\n"))?;
    }
    Ok(())
}
