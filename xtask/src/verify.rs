//! `cargo xtask verify`: everything that must hold.
//!
//! Role: chooses the checks, runs them in order of cheapness and reports each.
//! Method: fixed checks are functions that return their faults; tests are one check
//! each. A failing check stops no other. There is no check of `layout.rs` beside the
//! tests: `layout_is_fresh` in `shaders` is one of them.
//! Limits: Ctrl-C ends the run and its children at once; what was reported stands.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::USAGE;
use crate::workspace::Workspace;
use crate::{data, output};

mod claims;
mod edges;
mod libtest;
mod lints;
mod outside;
mod reporter;
mod tests_run;
mod tidy;

use reporter::{Outcome, Reporter};

const HELP: &str = "\
usage: cargo xtask verify [--only PATTERN] [--list] [--json] [--full] [--bless]

Runs every check and ends with one line `N passed, N failed, N skipped`; non-zero exit
where one failed. With REQUIRE_GPU=1 a skip for want of an adapter is a failure.

  --only PATTERN   only checks whose id contains PATTERN; tests and claims, whose ids only a
                   build tells, are searched where no other check matches (`test/` and
                   `claims/` at the beginning mean these alone)
  --list           print the ids and run nothing
  --json           one object per check on stdout: id, outcome, detail; the rest on stderr
  --full           run the long batteries of the tests too (VERIFY_FULL=1)
  --bless          let tests rewrite their golden files (BLESS=1); review the diff
";

/// What stands in the list for the tests, whose names are only known after a build.
const ALL_TESTS: &str = "test/<package>/<target>/<test>";
/// And for the claims, likewise.
const ALL_CLAIMS: &str = "claims/<source>.<claim>";

#[derive(Default)]
struct Options {
    only: Option<String>,
    list: bool,
    json: bool,
    full: bool,
    bless: bool,
}

/// Gives the faults of a check; none means that it passed.
type Find<'a> = dyn Fn(&Reporter) -> Result<Vec<String>> + 'a;

/// Which of the checks that only a build names are searched for the pattern.
#[derive(Debug, PartialEq, Eq)]
struct Search {
    tests: bool,
    claims: bool,
}

/// A check that is known without building anything.
struct Check<'a> {
    id: String,
    /// Whether it starts a compiler.
    is_long: bool,
    run: Box<Find<'a>>,
}

pub(crate) fn run(args: Vec<OsString>) -> Result<ExitCode> {
    let Some(options) = parse(args)? else {
        output::print(HELP)?;
        return Ok(ExitCode::SUCCESS);
    };
    let workspace = Workspace::load()?;
    let tree = tidy::Tree::read(&workspace.root)?;
    let checks = fixed_checks(&workspace, &tree);
    let pattern = options.only.as_deref().unwrap_or("");
    let matches = |check: &&Check<'_>| check.id.contains(pattern);
    let selected: Vec<_> = checks.iter().filter(matches).collect();
    let search = Search::of(pattern, selected.is_empty());
    if options.list {
        list(&selected, &search, options.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut reporter = Reporter::new(options.json);
    for check in &selected {
        run_fixed(check, &mut reporter)?;
    }
    if search.tests {
        let switches = switches(&options).map(|name| (name, "1".into()));
        let plan = tests_run::Plan {
            pattern,
            envs: switches.chain([data::variable(&workspace)?]).collect(),
        };
        tests_run::run(&workspace, &plan, &mut reporter)?;
    }
    if search.claims {
        claims::run(&workspace, pattern, &mut reporter)?;
    }
    if reporter.is_empty() {
        eprintln!("error: verify: no check has an id that contains {pattern:?}");
        return Ok(ExitCode::from(USAGE));
    }
    reporter.close()
}

/// Reads the arguments; `None` where they ask for help.
fn parse(args: Vec<OsString>) -> Result<Option<Options>> {
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            lexopt::Arg::Long("only") => {
                options.only = Some(parser.value()?.to_string_lossy().into_owned());
            }
            lexopt::Arg::Long("list") => options.list = true,
            lexopt::Arg::Long("json") => options.json = true,
            lexopt::Arg::Long("full") => options.full = true,
            lexopt::Arg::Long("bless") => options.bless = true,
            lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => return Ok(None),
            _ => return Err(arg.unexpected().into()),
        }
    }
    Ok(Some(options))
}

/// All checks but the tests, cheap ones first.
fn fixed_checks<'a>(workspace: &'a Workspace, tree: &'a tidy::Tree) -> Vec<Check<'a>> {
    let mut checks = vec![quick("fmt", lints::fmt)];
    for (rule, find) in tidy::RULES {
        checks.push(quick(format!("tidy/{rule}"), move |_| Ok(find(tree))));
    }
    checks.push(quick("edges", |_| Ok(edges::faults(&workspace.packages))));
    checks.push(long("clippy", lints::clippy));
    checks.push(long("docs", lints::docs));
    for package in edges::libraries(&workspace.packages) {
        checks.push(long(format!("outside/{}", package.name), move |reporter| {
            outside::faults(workspace, package, reporter)
        }));
    }
    checks
}

fn quick<'a>(
    id: impl Into<String>,
    run: impl Fn(&Reporter) -> Result<Vec<String>> + 'a,
) -> Check<'a> {
    Check {
        id: id.into(),
        is_long: false,
        run: Box::new(run),
    }
}

fn long<'a>(
    id: impl Into<String>,
    run: impl Fn(&Reporter) -> Result<Vec<String>> + 'a,
) -> Check<'a> {
    Check {
        is_long: true,
        ..quick(id, run)
    }
}

fn run_fixed(check: &Check<'_>, reporter: &mut Reporter) -> Result<()> {
    if check.is_long {
        reporter.begin_long(&check.id)?;
    } else {
        reporter.begin(&check.id);
    }
    let outcome = match (check.run)(reporter) {
        Ok(faults) if faults.is_empty() => Outcome::Passed,
        Ok(faults) => Outcome::Failed(faults.join("\n")),
        // A tool that could not be started is a failure of the check, not of the run.
        Err(error) => Outcome::Failed(format!("{error:#}")),
    };
    reporter.end(&check.id, outcome)
}

impl Search {
    /// Everything where no pattern narrows the run; else only what nothing cheaper answers.
    fn of(pattern: &str, no_fixed_check_matches: bool) -> Self {
        let is_open = pattern.is_empty() || no_fixed_check_matches;
        Self {
            tests: is_open && !pattern.starts_with(claims::PREFIX),
            claims: is_open && !pattern.starts_with(tests_run::PREFIX),
        }
    }
}

/// Environment variables that are set to 1 for the tests.
fn switches(options: &Options) -> impl Iterator<Item = &'static str> {
    let switches = [(options.full, "VERIFY_FULL"), (options.bless, "BLESS")];
    let on = switches.into_iter().filter(|(on, _)| *on);
    on.map(|(_, name)| name)
}

fn list(selected: &[&Check<'_>], search: &Search, as_json: bool) -> Result<()> {
    let ids = selected.iter().map(|check| check.id.as_str());
    let by_build = [(search.tests, ALL_TESTS), (search.claims, ALL_CLAIMS)];
    let by_build = by_build.into_iter().filter(|(searched, _)| *searched);
    for id in ids.chain(by_build.map(|(_, id)| id)) {
        if as_json {
            output::print_line(json!({ "id": id }))?;
        } else {
            output::print_line(id)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_reach_the_tests_as_environment() {
        let args = ["--full", "--bless", "--only", "fmt"];
        let options = parse(args.iter().map(OsString::from).collect()).unwrap();
        let options = options.unwrap();
        assert_eq!(options.only.as_deref(), Some("fmt"));
        assert!(switches(&options).eq(["VERIFY_FULL", "BLESS"]));
        assert_eq!(switches(&Options::default()).count(), 0);
    }

    #[test]
    fn a_pattern_reaches_every_id_that_only_a_build_tells() {
        let search = |pattern, none_fixed| {
            let Search { tests, claims } = Search::of(pattern, none_fixed);
            (tests, claims)
        };
        assert_eq!(search("", false), (true, true));
        assert_eq!(search("clippy", false), (false, false));
        for part in ["s3.einsum", "einsum", "claims", "cl"] {
            assert_eq!(search(part, true), (true, true), "{part}");
        }
        assert_eq!(search("claims/s3", true), (false, true));
        assert_eq!(search("test/games", true), (true, false));
    }

    #[test]
    fn an_unknown_argument_is_wrong_use() {
        let error = parse(vec!["--fast".into()]).err().unwrap();
        assert!(error.downcast_ref::<lexopt::Error>().is_some());
    }
}
