//! Records of `bench`: any text is a record or an error, and every record has a report.
//!
//! Method: a record must be equal after it is written and read again. For a part of the inputs, the
//! tables, the page, the comparison with itself and the trend must be rendered.

use harness::record::Record;
use harness::{changes, comparison, report, table, trend};

use crate::sample;

/// Maximum number of rows of a record that is rendered.
const MAX_ROWS: usize = 16;
/// Number of inputs of which one is rendered. This takes longer than all other checks.
const RENDERED: u64 = 16;

/// Checks the reader of records, and the reports.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let record = match Record::from_json(text) {
        Ok(record) => record,
        Err(error) => {
            assert!(!format!("{error:#}").is_empty());
            return;
        }
    };
    let written = serde_json::to_string(&record).expect("a record has string keys");
    let again = Record::from_json(&written).expect("a written record can be read");
    assert_eq!(again, record);
    if record.rows.len() > MAX_ROWS || !sample::is_drawn(bytes, RENDERED) {
        return;
    }
    assert!(!record.file_name().is_empty());
    assert!(table::render(&record).ends_with(&table::summary(&record)));
    let _ = comparison::comparisons(&record);
    let page = report::render(&record);
    assert!(page.ends_with("</html>\n"), "the page is complete");
    let records = [record];
    let _ = trend::trends(&records);
    match changes::changes(&records, &records) {
        Ok(changes) => assert!(!changes.to_string().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
