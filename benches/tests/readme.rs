//! The measured table of the README, compared with the record that the README names.
//!
//! Role: `cargo xtask readme` runs this test with `BLESS=1`, which rewrites the table.

use std::fs;
use std::path::{Path, PathBuf};

use harness::record::Record;
use harness::report::markdown;

/// Beginning of the line above the table; the path of the record and [`CLOSE`] follow.
const BEGIN: &str = "<!-- speed: ";
/// End of a comment.
const CLOSE: &str = " -->";
/// The line below the table.
const END: &str = "<!-- end of speed -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Splits a README into the text before the table, the path of the record, the table, and the text
/// after it; the first and the last part contain the markers.
fn split(readme: &str) -> Option<[&str; 4]> {
    let path_from = readme.find(BEGIN)? + BEGIN.len();
    let path_to = path_from + readme[path_from..].find(CLOSE)?;
    let table_from = path_to + CLOSE.len();
    let table_to = table_from + readme[table_from..].find(END)?;
    Some([
        &readme[..table_from],
        &readme[path_from..path_to],
        &readme[table_from..table_to],
        &readme[table_to..],
    ])
}

/// Returns the picture, the table, and how to repeat both.
fn table(path: &str, record: &Record) -> String {
    let picture = path.replace(".json", ".png");
    let commit = record.machine.commit.as_deref().unwrap_or("unknown");
    format!(
        "\n[![Speed of this project, relative to the best rival, in each workload]({picture})]({picture})\n\n\
         {}\n\
         Speed-up: the time of the fastest rival divided by the time of our fastest executor, at each size of a workload; above 1 we are \
         faster. A comparison is undecided if the 95 % confidence interval of its ratio contains 1, or if a workload was timed once.\n\
         `cargo xtask bench --full` measured commit {commit} ([record]({path})); `cargo xtask report {path}` shows the whole page, and \
         `cargo xtask readme` writes this table.\n",
        markdown::render(record)
    )
}

#[test]
fn the_table_is_that_of_the_record() {
    let file = root().join("README.md");
    let readme = fs::read_to_string(&file).unwrap();
    let [before, path, table_now, after] = split(&readme).unwrap();
    let record = Record::read(&root().join(path)).unwrap();
    assert_eq!(record.finished, Some(true), "{path} was interrupted");
    let fresh = table(path, &record);
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        fs::write(file, [before, &fresh, after].concat()).unwrap();
        return;
    }
    assert_eq!(table_now, fresh, "run `cargo xtask readme`");
    let picture = root().join(path).with_extension("png");
    assert!(picture.exists(), "run `cargo xtask readme`");
}

#[test]
fn the_readme_is_split_at_its_markers() {
    let readme = "a\n<!-- speed: r.json -->\n| table |\n<!-- end of speed -->\nb\n";
    let parts = [
        "a\n<!-- speed: r.json -->",
        "r.json",
        "\n| table |\n",
        "<!-- end of speed -->\nb\n",
    ];
    assert_eq!(split(readme), Some(parts));
    assert_eq!(split("no markers"), None);
}
