//! Parsers of libFuzzer's output.

use std::path::Path;

use anyhow::{Context as _, Result};

/// Numbers that libFuzzer prints at the end of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Statistics {
    /// Executions of new inputs; those of the corpus at the start do not count.
    pub(super) executions: u64,
    pub(super) peak_memory_mib: u64,
    pub(super) slowest_s: u64,
}

/// The edges that a run has reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Coverage {
    /// Functions of the workspace that were reached.
    pub(super) functions: usize,
    pub(super) edges: usize,
    /// Edges of these functions, reached or not.
    pub(super) all_edges: usize,
    /// Edges of all instrumented code that were reached, libraries included.
    pub(super) edges_with_libraries: u64,
}

impl Statistics {
    /// Parses the output of a run with `-print_final_stats=1`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let statistic = |name: &str| -> Result<u64> {
            let found = text.lines().find_map(|line| {
                let (key, number) = line.strip_prefix("stat::")?.split_once(':')?;
                (key == name).then(|| number.trim().parse().ok())?
            });
            found.with_context(|| format!("the output has no number {name}"))
        };
        // `#2 INITED cov: 1 …`: the number of executions of the corpus.
        let status = status(text, "INITED")?;
        let corpus = status.split_whitespace().next().unwrap_or_default();
        let corpus: u64 = corpus.trim_start_matches('#').parse()?;
        Ok(Self {
            executions: statistic("number_of_executed_units")?.saturating_sub(corpus),
            peak_memory_mib: statistic("peak_rss_mb")?,
            slowest_s: statistic("slowest_unit_time_sec")?,
        })
    }
}

/// Returns the last line about the state of a run that contains a word, such as
/// `#1000 DONE cov: 12 ft: 34 corp: 5/67b lim: 8 …`.
fn status<'t>(text: &'t str, word: &str) -> Result<&'t str> {
    let mut lines = text.lines().rev().filter(|line| line.starts_with('#'));
    let found = lines.find(|line| line.split_whitespace().nth(1) == Some(word));
    found.with_context(|| format!("the output has no line {word}"))
}

impl Coverage {
    /// Parses the output of a run with `-print_coverage=1`. Counts the functions whose files are in
    /// a folder.
    ///
    /// # Errors
    /// An output without its last line.
    pub(super) fn parse(text: &str, root: &Path) -> Result<Self> {
        let mut words = status(text, "DONE")?.split_whitespace();
        let edges_with_libraries = words
            .find(|word| *word == "cov:")
            .and_then(|_| words.next());
        let edges_with_libraries = edges_with_libraries
            .and_then(|number| number.parse().ok())
            .context("the output has no number of edges")?;
        let folder = format!("{}/", root.display());
        let mut coverage = Self {
            edges_with_libraries,
            ..Self::default()
        };
        // `COVERED_FUNC: hits: 3 edges: 2/5 name file:line`, where the name may contain blanks.
        for line in text.lines() {
            let Some((_, rest)) = line
                .strip_prefix("COVERED_FUNC: hits: ")
                .filter(|rest| rest.contains(&folder))
                .and_then(|rest| rest.split_once(" edges: "))
            else {
                continue;
            };
            let edges = rest
                .split(' ')
                .next()
                .and_then(|edges| edges.split_once('/'));
            let Some((Ok(edges), Ok(all))) =
                edges.map(|(some, all)| (some.parse::<usize>(), all.parse::<usize>()))
            else {
                continue;
            };
            coverage.functions += 1;
            coverage.edges += edges;
            coverage.all_edges += all;
        }
        Ok(coverage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_run_is_parsed() {
        let text = "#2\tINITED cov: 1 ft: 2 corp: 1/1b exec/s: 0 rss: 30Mb\n\
            #1000\tDONE   cov: 12 ft: 34 corp: 5/67b lim: 8 exec/s: 0 rss: 40Mb\n\
            Done 1000 runs in 1 second(s)\n\
            stat::number_of_executed_units: 1000\n\
            stat::average_exec_per_sec:     500\n\
            stat::slowest_unit_time_sec:    0\n\
            stat::peak_rss_mb:              41\n";
        let expected = Statistics {
            executions: 998,
            peak_memory_mib: 41,
            slowest_s: 0,
        };
        assert_eq!(Statistics::parse(text).unwrap(), expected);
        for part in ["INITED", "number_of_executed_units"] {
            assert!(
                Statistics::parse(&text.replace(part, "x")).is_err(),
                "{part}"
            );
        }
    }

    #[test]
    fn only_reached_functions_of_the_folder_count() {
        let text = "COVERED_FUNC: hits: 3 edges: 2/5 <a as b>::c /w/crates/a/src/lib.rs:3\n  \
            UNCOVERED_PC: /w/crates/a/src/lib.rs:4\n\
            COVERED_FUNC: hits: 1 edges: 1/1 d /w/fuzz/src/lib.rs:3\n\
            COVERED_FUNC: hits: 1 edges: 1/1 e /home/x/serde/src/lib.rs:3\n\
            UNCOVERED_FUNC: hits: 0 edges: 0/9 f /w/crates/a/src/f.rs:3\n\
            #7\tDONE   cov: 12 ft: 34 corp: 5/67b lim: 8 exec/s: 0 rss: 40Mb\n";
        let expected = Coverage {
            functions: 2,
            edges: 3,
            all_edges: 6,
            edges_with_libraries: 12,
        };
        assert_eq!(Coverage::parse(text, Path::new("/w")).unwrap(), expected);
    }
}
