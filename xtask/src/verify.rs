//! `cargo xtask verify`: runs every check of the project.
//!
//! Role: selects the checks, runs them from cheap to expensive, and reports each result.
//! Method: fixed checks are functions that return a list of faults; each test is a check of its
//! own. A failing check does not stop the others. `layout.rs` needs no separate check, because
//! `layout_is_fresh` in `shaders` is one of the tests.
//! Limits: Ctrl-C and a request to end also end the children. The results printed before remain
//! valid, and the summary follows.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use tool_io::{commit, exit, output};

use crate::adapters::{self, Absence};
use crate::data;
use crate::mpi;
use crate::process;
use crate::record::{self, Record};
use crate::web;
use crate::workspace::Workspace;

mod api;
mod claims;
mod doc_tests;
pub(crate) mod docs;
mod edges;
mod lints;
mod optional;
mod outside;
mod packages;
mod report;
mod reporter;
mod sanitizers;
mod targets;
mod tests_run;
mod tidy;
mod unchanged;
mod unsafe_code;

use reporter::{Outcome, Reporter};

/// Environment variables, below the options.
const AFTER_HELP: &str = "\
Prints a last line `N passed, N failed, N skipped`. Two environment variables turn skips into
failures:

  REQUIRE_GPU=1     a kernel test that finds no adapter fails
  REQUIRE_TOOLS=1   a check fails if its software driver (`cargo xtask adapters`), Chromium, the
                    target wasm32-unknown-unknown, an MPI library, spirv-val or glslangValidator is
                    missing, and with --full a part of the nightly toolchain or a compiler for a
                    target; a driver that is not offered for this system is still a skip

Exit codes: 0; 1 if a check failed; 2 for wrong usage; 130 if interrupted.";

/// Placeholder in the list for the tests, whose names are known only after a build.
const ALL_TESTS: &str = "test/<package>/<target>/<test>";
/// Placeholder in the list for the claims, whose names are known only after a build.
const ALL_CLAIMS: &str = "claims/<source>.<claim>";

/// Arguments of `verify`.
#[derive(Args, Default)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Run only checks whose id contains PATTERN
    ///
    /// Tests and claims, whose ids are only known after a build, are searched if no other check
    /// matches. The prefixes `test/` and `claims/` select only tests or only claims.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// Print the ids without running the checks
    #[arg(long, conflicts_with = "record")]
    list: bool,
    /// Print one JSON object per check: id, outcome, detail
    #[arg(long)]
    json: bool,
    /// Also run the long test batteries (`VERIFY_FULL=1`), the page in a browser, sanitizers, Miri
    /// and the checks for other targets
    #[arg(long)]
    full: bool,
    /// Also run tests that passed before and whose package has not changed since; a PATTERN implies
    /// this option
    #[arg(long)]
    again: bool,
    /// Write counts and durations to the row NAME of xtask/record/verify.json
    #[arg(long, value_name = "NAME", conflicts_with = "only")]
    record: Option<String>,
    /// Rewrite golden files (`BLESS=1`), the lists of public items (`api.txt`) and `UNSAFE.md`;
    /// review the diff
    #[arg(long)]
    bless: bool,
}

/// Returns the outcome of a check.
type Run<'a> = dyn Fn(&Reporter) -> Result<Outcome> + 'a;

/// Environment variable that makes a missing driver or tool a failure, if its value is `1`. The
/// tests read `REQUIRE_GPU`, which does not require drivers and tools besides a GPU.
const REQUIRE_TOOLS: &str = "REQUIRE_TOOLS";

/// Whether tests and claims, whose ids are known only after a build, are searched for the pattern.
#[derive(Debug, PartialEq, Eq)]
struct Search {
    tests: bool,
    claims: bool,
    reports: bool,
}

/// A check whose id is known without a build.
struct Check<'a> {
    id: String,
    /// Whether the check runs a compiler.
    is_long: bool,
    /// Whether the check takes minutes and runs only with `--full`, or if a pattern selects it.
    is_battery: bool,
    run: Box<Run<'a>>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let tree = tidy::Tree::read(&workspace.root)?;
    let packages = packages::Packages::new(&workspace);
    let docs = docs::Docs::new(&workspace);
    let checks = fixed_checks(&workspace, &packages, &docs, &tree, options.bless)?;
    let pattern = options.only.as_deref().unwrap_or("");
    let is_selected = |check: &&Check<'_>| {
        check.id.contains(pattern) && (!check.is_battery || options.full || !pattern.is_empty())
    };
    let selected: Vec<_> = checks.iter().filter(is_selected).collect();
    let search = Search::new(pattern, selected.is_empty());
    if options.list {
        list(&selected, &search, options.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let record = options.record.as_deref().map(|name| {
        let record = Record::open(&workspace, "verify", "run")?;
        record.check_writable()?;
        let command = format!(
            "cargo xtask verify{}{} --record {name}",
            if options.full { " --full" } else { "" },
            if options.again { " --again" } else { "" },
        );
        let commit = commit::checked_out(&workspace.root);
        let mut row = record::circumstances(commit.as_deref(), &command);
        row.insert("run".to_owned(), json!(name));
        anyhow::Ok((record, row))
    });
    let record = record.transpose()?;
    let mut reporter = Reporter::new(options.json);
    process::end_children_on_stop()?;
    let done = run_checks(options, &workspace, &selected, &search, &mut reporter);
    match done {
        // Finished checks are already printed.
        Err(error) if error.is::<process::Interrupted>() => {
            reporter.close("interrupted: ")?;
            Ok(ExitCode::from(exit::INTERRUPTED))
        }
        Err(error) => Err(error),
        Ok(()) if reporter.is_empty() => {
            output::note(format_args!("error: verify: no check matches {pattern:?}"));
            Ok(ExitCode::from(exit::USAGE))
        }
        Ok(()) => {
            let summary = reporter.summary();
            let code = reporter.close("")?;
            if let Some((record, mut row)) = record {
                row.extend(summary.as_object().cloned().unwrap_or_default());
                record.put(row.into())?;
            }
            Ok(code)
        }
    }
}

/// Runs the selected checks, and the tests and claims that the pattern selects.
fn run_checks(
    options: &Options,
    workspace: &Workspace,
    selected: &[&Check<'_>],
    search: &Search,
    reporter: &mut Reporter,
) -> Result<()> {
    let pattern = options.only.as_deref().unwrap_or("");
    for check in selected {
        process::check_not_interrupted()?;
        run_fixed(check, reporter)?;
    }
    let switches = switches(options).map(|name| (name, "1".into()));
    let envs = switches.chain([data::variable(workspace)?]);
    let envs: Vec<_> = envs.chain(adapters::environment(workspace)?).collect();
    let again = options.again || !pattern.is_empty();
    // The files are read before the build, so that no later change counts as tested.
    let unchanged = unchanged::Unchanged::open(workspace, &envs, again)?;
    let executables = match search.tests || search.claims || search.reports {
        true => tests_run::build(pattern, reporter)?,
        false => None,
    };
    let Some(executables) = executables else {
        return Ok(());
    };
    if search.tests {
        let plan = tests_run::Selection {
            pattern,
            envs,
            unchanged: &unchanged,
        };
        tests_run::run(workspace, &executables, &plan, reporter)?;
    }
    if search.claims {
        claims::run(workspace, &executables, pattern, reporter)?;
    }
    if search.reports {
        let missing = |why: &str| missing_outcome(why, requires_tools());
        report::run(workspace, &executables, pattern, reporter, missing)?;
    }
    // A check that an interrupt has ended may count as a failure.
    Ok(process::check_not_interrupted()?)
}

/// Returns all checks except the tests and claims, cheap checks first.
fn fixed_checks<'a>(
    workspace: &'a Workspace,
    packages: &'a packages::Packages<'a>,
    docs: &'a docs::Docs<'a>,
    tree: &'a tidy::Tree,
    blesses: bool,
) -> Result<Vec<Check<'a>>> {
    let mut checks = vec![quick("fmt", lints::fmt)];
    for (rule, find) in tidy::RULES {
        checks.push(quick(format!("tidy/{rule}"), move |_| Ok(find(tree))));
    }
    checks.push(quick("edges", |_| {
        let page = std::fs::read_to_string(workspace.root.join("ARCHITECTURE.md"))?;
        let mut faults = edges::faults(&workspace.packages);
        faults.extend(edges::page_faults(&page));
        Ok(faults)
    }));
    for (driver, absence) in adapters::drivers(workspace)? {
        checks.push(Check::new(format!("adapters/{driver}"), move |_| {
            Ok(driver_outcome(absence.as_ref(), requires_tools()))
        }));
    }
    checks.push(Check::new("cluster/mpi", |_| {
        let missing = mpi::absence().map(|why| missing_outcome(why, requires_tools()));
        Ok(missing.unwrap_or(Outcome::Passed))
    }));
    checks.push(Check::new("unsafe", move |_| {
        unsafe_code::outcome(workspace, tree, blesses)
    }));
    checks.push(Check::new("deny", optional::deny));
    let oldest = move |reporter: &Reporter| optional::oldest_compiler(workspace, reporter);
    checks.push(Check::new("oldest-compiler", oldest).long());
    let image = move |reporter: &Reporter| optional::image(workspace, reporter);
    checks.push(Check::new("image/trace", image).long());
    checks.push(long("clippy", lints::clippy));
    checks.push(long("docs", |reporter| docs.faults(reporter)));
    let page = move |_: &Reporter| {
        Ok(match web::test(workspace)? {
            Err(missing) => missing_outcome(&missing, requires_tools()),
            Ok(report) => match report.failure() {
                None => Outcome::Passed,
                Some(failure) => Outcome::Failed(failure),
            },
        })
    };
    checks.push(Check::new("web/page", page).battery());
    for target in targets::TARGETS {
        let check = move |reporter: &Reporter| {
            let checked = targets::outcome(workspace, target, reporter)?;
            Ok(checked.unwrap_or_else(|missing| missing_outcome(&missing, requires_tools())))
        };
        checks.push(Check::new(format!("target/{target}"), check).battery());
    }
    for tool in sanitizers::Tool::ALL {
        let check = move |reporter: &Reporter| {
            let checked = tool.outcome(workspace, reporter)?;
            Ok(checked.unwrap_or_else(|missing| missing_outcome(&missing, requires_tools())))
        };
        checks.push(Check::new(tool.id(), check).battery());
    }
    for package in packages.published() {
        let compare = move |reporter: &Reporter| api::outcome(docs, package, blesses, reporter);
        checks.push(Check::new(format!("api/{}", package.name), compare).long());
    }
    checks.push(long("packages", |reporter| packages.faults(reporter)));
    for package in packages.published() {
        checks.push(long(format!("outside/{}", package.name), move |reporter| {
            outside::faults(workspace, packages, package, reporter)
        }));
    }
    Ok(checks)
}

/// Returns whether a missing driver or tool is a failure.
fn requires_tools() -> bool {
    std::env::var_os(REQUIRE_TOOLS).is_some_and(|value| value == "1")
}

/// Returns the outcome of the check that a software driver is used.
fn driver_outcome(absence: Option<&Absence>, is_required: bool) -> Outcome {
    match absence {
        None => Outcome::Passed,
        Some(Absence::Missing(why)) => missing_outcome(why, is_required),
        Some(Absence::NotOffered(why)) => Outcome::Skipped(why.clone()),
    }
}

/// Returns the outcome of a check for which a driver or a tool is missing.
fn missing_outcome(why: &str, is_required: bool) -> Outcome {
    match is_required {
        true => Outcome::Failed(format!("{REQUIRE_TOOLS}=1: {why}")),
        false => Outcome::Skipped(why.to_owned()),
    }
}

impl<'a> Check<'a> {
    /// Creates a check that takes seconds at most.
    fn new(id: impl Into<String>, run: impl Fn(&Reporter) -> Result<Outcome> + 'a) -> Self {
        Self {
            id: id.into(),
            is_long: false,
            is_battery: false,
            run: Box::new(run),
        }
    }

    /// Marks a check that runs a compiler.
    fn long(self) -> Self {
        Self {
            is_long: true,
            ..self
        }
    }

    /// Marks a check that takes minutes.
    fn battery(self) -> Self {
        Self {
            is_battery: true,
            ..self.long()
        }
    }
}

/// Creates a check from a function that returns faults; an empty list means that the check passed.
fn quick<'a>(
    id: impl Into<String>,
    find: impl Fn(&Reporter) -> Result<Vec<String>> + 'a,
) -> Check<'a> {
    Check::new(id, move |reporter| {
        Ok(Outcome::from_faults(&find(reporter)?))
    })
}

fn long<'a>(
    id: impl Into<String>,
    find: impl Fn(&Reporter) -> Result<Vec<String>> + 'a,
) -> Check<'a> {
    quick(id, find).long()
}

fn run_fixed(check: &Check<'_>, reporter: &mut Reporter) -> Result<()> {
    if check.is_long {
        reporter.begin_long(&check.id)?;
    } else {
        reporter.begin(&check.id);
    }
    // A tool that cannot be started fails its check, not the whole run.
    let outcome = match (check.run)(reporter) {
        Err(error) if error.is::<process::Interrupted>() => return Err(error),
        outcome => outcome.unwrap_or_else(|error| Outcome::Failed(format!("{error:#}"))),
    };
    reporter.end(&check.id, outcome)
}

impl Search {
    /// Decides where to search for `pattern`. Without a pattern, tests and claims are searched.
    /// With a pattern, they are searched only if no fixed check matches and if the prefix of the
    /// pattern allows a match.
    fn new(pattern: &str, no_fixed_check_matches: bool) -> Self {
        let is_open = pattern.is_empty() || no_fixed_check_matches;
        let is_page = pattern.starts_with(report::PREFIX);
        let is_claim = pattern.starts_with(claims::PREFIX);
        let is_test = pattern.starts_with(tests_run::PREFIX);
        Self {
            tests: is_open && !is_claim && !is_page,
            claims: is_open && !is_test && !is_page,
            reports: is_open && report::IDS.iter().any(|id| id.contains(pattern)),
        }
    }
}

/// Returns the environment variables that are set to 1 for the tests.
fn switches(options: &Options) -> impl Iterator<Item = &'static str> {
    let switches = [(options.full, "VERIFY_FULL"), (options.bless, "BLESS")];
    let on = switches.into_iter().filter(|(on, _)| *on);
    on.map(|(_, name)| name)
}

fn list(selected: &[&Check<'_>], search: &Search, as_json: bool) -> Result<()> {
    let ids = selected.iter().map(|check| check.id.as_str());
    let of_reports = report::IDS.map(|id| (search.reports, id));
    let by_build = [(search.tests, ALL_TESTS), (search.claims, ALL_CLAIMS)];
    let by_build = by_build.into_iter().chain(of_reports);
    let by_build = by_build.filter(|(searched, _)| *searched);
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
        let options = Options {
            full: true,
            bless: true,
            ..Options::default()
        };
        assert!(switches(&options).eq(["VERIFY_FULL", "BLESS"]));
        assert_eq!(switches(&Options::default()).count(), 0);
    }

    #[test]
    fn a_pattern_matches_every_id_that_only_a_build_lists() {
        let search = |pattern, none_fixed| {
            let Search { tests, claims, .. } = Search::new(pattern, none_fixed);
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
    fn only_a_driver_that_is_offered_can_be_required() {
        let (why, not_offered) = ("missing".to_owned(), "not offered".to_owned());
        let missing = Absence::Missing(why.clone());
        let outcome = |is_required| driver_outcome(Some(&missing), is_required);
        assert_eq!(outcome(false), Outcome::Skipped(why));
        assert_eq!(
            outcome(true),
            Outcome::Failed("REQUIRE_TOOLS=1: missing".into())
        );
        let absence = Absence::NotOffered(not_offered.clone());
        let skipped = Outcome::Skipped(not_offered);
        assert_eq!(driver_outcome(Some(&absence), true), skipped);
        assert_eq!(driver_outcome(None, true), Outcome::Passed);
    }
}
