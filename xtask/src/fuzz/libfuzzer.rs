//! Parsers of libFuzzer's output.

use std::path::Path;

use anyhow::{Context as _, Result};

/// Numbers that libFuzzer prints at the end of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Statistics {
    pub(super) executions: u64,
    /// Edges of all instrumented code that were reached, libraries included.
    pub(super) edges: u64,
    /// Edges, counted again for each range of the number of their executions, and further features
    /// of a run such as compared values.
    pub(super) features: u64,
    pub(super) peak_memory_mib: u64,
    pub(super) slowest_s: u64,
}

/// The edges of functions of the workspace that were reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Coverage {
    pub(super) functions: usize,
    pub(super) edges: usize,
    /// Edges of these functions, reached or not.
    pub(super) all_edges: usize,
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
        // The last line of a run: `#1000 DONE cov: 12 ft: 34 corp: 5/67b lim: 8 …`.
        let done = text.lines().rev().find(|line| line.contains("\tDONE "));
        let after = |word: &str| -> Result<u64> {
            let mut words = done.unwrap_or_default().split_whitespace();
            let found = words
                .find(|found| *found == word)
                .and_then(|_| words.next());
            let number = found.and_then(|number| number.parse().ok());
            number.with_context(|| format!("the output has no number after {word}"))
        };
        Ok(Self {
            executions: statistic("number_of_executed_units")?,
            edges: after("cov:")?,
            features: after("ft:")?,
            peak_memory_mib: statistic("peak_rss_mb")?,
            slowest_s: statistic("slowest_unit_time_sec")?,
        })
    }
}

impl Coverage {
    /// Parses the output of a run with `-print_coverage=1`. Counts the functions whose files are in
    /// a folder.
    pub(super) fn parse(text: &str, root: &Path) -> Self {
        let folder = format!("{}/", root.display());
        let mut coverage = Self::default();
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
        coverage
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
            executions: 1000,
            edges: 12,
            features: 34,
            peak_memory_mib: 41,
            slowest_s: 0,
        };
        assert_eq!(Statistics::parse(text).unwrap(), expected);
        assert!(Statistics::parse("stat::peak_rss_mb: 1").is_err());
    }

    #[test]
    fn only_reached_functions_of_the_folder_count() {
        let text = "COVERED_FUNC: hits: 3 edges: 2/5 <a as b>::c /w/crates/a/src/lib.rs:3\n  \
            UNCOVERED_PC: /w/crates/a/src/lib.rs:4\n\
            COVERED_FUNC: hits: 1 edges: 1/1 d /w/fuzz/src/lib.rs:3\n\
            COVERED_FUNC: hits: 1 edges: 1/1 e /home/x/serde/src/lib.rs:3\n\
            UNCOVERED_FUNC: hits: 0 edges: 0/9 f /w/crates/a/src/f.rs:3\n";
        let expected = Coverage {
            functions: 2,
            edges: 3,
            all_edges: 6,
        };
        assert_eq!(Coverage::parse(text, Path::new("/w")), expected);
    }
}
