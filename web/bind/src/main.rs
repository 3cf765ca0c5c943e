//! Writes the JavaScript with which a page loads the compiled library.
//!
//! Role: built and run by `cargo xtask web`. Usage: `web-bind WASM FOLDER`.

use anyhow::{Context as _, Result};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<()> {
    let mut args = std::env::args_os().skip(1);
    let library = args.next().context("usage: web-bind WASM FOLDER")?;
    let folder = args.next().context("usage: web-bind WASM FOLDER")?;
    Bindgen::new()
        .input_path(library)
        .web(true)?
        .omit_default_module_path(false)
        .typescript(false)
        .generate(folder)
}
