//! The functions that the page's JavaScript calls.

use gpu_wgsl::{Gpu, Select};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// Receives the number of rows that follow; defined by the page.
    #[wasm_bindgen(js_name = expectRows)]
    fn expect_rows(n_rows: usize);

    /// Shows a row of the table; defined by the page.
    #[wasm_bindgen(js_name = showRow)]
    fn show_row(name: &str, passed: bool, detail: &str, seconds: f64, operations: f64);
}

/// Opens the browser's GPU and runs all checks. Seconds are NaN in rows without a time.
///
/// # Errors
/// A text, if the browser has no adapter.
#[wasm_bindgen(js_name = runChecks)]
pub async fn run_checks() -> Result<(), JsValue> {
    let opened = Gpu::open_async(Select::Best).await;
    let gpu = opened.map_err(|error| JsValue::from_str(&error.to_string()))?;
    expect_rows(crate::checks(&gpu).len());
    crate::run(&gpu, |row| {
        let passed = row.check.is_ok();
        let (Ok(detail) | Err(detail)) = &row.check;
        let seconds = row.seconds.unwrap_or(f64::NAN);
        show_row(&row.name, passed, detail, seconds, row.operations);
    })
    .await;
    Ok(())
}
