//! A copy of the workspace whose sources contain all mutants of a sample behind switches.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::sites::Site;
use crate::process;
use crate::workspace::Workspace;

/// Environment variable with the number of the mutant that is switched on.
pub(super) const MUTANT: &str = "MUTANT";
/// Environment variable with the file to which a test program writes the mutants that it reaches.
pub(super) const REACHED: &str = "MUTANTS_REACHED";
/// Largest sample, which is the number of switches in the copy.
pub(super) const MAX_SAMPLE: i64 = 1000;

/// The function that each switch calls, at the end of the crate.
fn switch() -> String {
    format!(
        "\n#[doc(hidden)]\n#[inline(never)]\n#[allow(missing_docs, clippy::all)]\n\
         pub fn mutant_is_on(number: usize) -> bool {{\n\
         \x20   use std::io::Write as _;\n\
         \x20   use std::sync::OnceLock;\n\
         \x20   use std::sync::atomic::{{AtomicBool, Ordering}};\n\
         \x20   static SEEN: [AtomicBool; {MAX_SAMPLE}] = [const {{ AtomicBool::new(false) }}; {MAX_SAMPLE}];\n\
         \x20   static STATE: OnceLock<(usize, Option<std::ffi::OsString>)> = OnceLock::new();\n\
         \x20   let (on, file) = STATE.get_or_init(|| {{\n\
         \x20       let on = std::env::var(\"{MUTANT}\").ok().and_then(|text| text.parse().ok());\n\
         \x20       (on.unwrap_or(usize::MAX), std::env::var_os(\"{REACHED}\"))\n\
         \x20   }});\n\
         \x20   if let Some(file) = file {{\n\
         \x20       if !SEEN[number].swap(true, Ordering::Relaxed) {{\n\
         \x20           let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).unwrap();\n\
         \x20           file.write_all(format!(\"{{number}}\\n\").as_bytes()).unwrap();\n\
         \x20       }}\n\
         \x20   }}\n\
         \x20   *on == number\n\
         }}\n"
    )
}

/// A copy of the workspace.
pub(super) struct Tree {
    root: PathBuf,
}

/// The places of the mutants in the changed files.
pub(super) struct Placed {
    root: PathBuf,
    /// Number, file and bytes of each mutant.
    mutants: Vec<(usize, PathBuf, Range<usize>)>,
}

impl Tree {
    /// Copies the files that git does not ignore.
    pub(super) fn copy(workspace: &Workspace) -> Result<Self> {
        let root = workspace.target.join("mutants");
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        let mut git = Command::new("git");
        git.current_dir(&workspace.root).args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            // Git would write names that are not ASCII with escapes.
            "-z",
        ]);
        let listed = process::watch(&mut git, |_| ())?;
        ensure!(
            listed.status.success(),
            "mutants: git: {}",
            listed.err.trim()
        );
        for file in listed
            .out
            .trim_end()
            .split('\0')
            .filter(|name| !name.is_empty())
        {
            let (from, to) = (workspace.root.join(file), root.join(file));
            let context = || from.display().to_string();
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder).with_context(context)?;
            }
            if from.is_file() {
                fs::copy(&from, &to).with_context(context)?;
            }
        }
        Ok(Self { root })
    }

    /// Writes the files, whose texts are given, with a switch at each place of the sample; a file
    /// without places is that of the workspace.
    pub(super) fn mutate(
        &self,
        workspace: &Workspace,
        package: &str,
        files: &BTreeSet<PathBuf>,
        texts: &BTreeMap<PathBuf, String>,
        sample: &[Site],
    ) -> Result<Placed> {
        let mut mutants = Vec::new();
        for file in files {
            let text = texts.get(file).context("mutants: unknown file")?;
            let own = sample
                .iter()
                .enumerate()
                .filter(|(_, site)| site.file == *file);
            let (changed, places) = with_switches(text, own);
            let places = places.into_iter();
            mutants.extend(places.map(|(number, range)| (number, file.clone(), range)));
            fs::write(self.root.join(file), changed)?;
        }
        let folder = workspace.package(package)?.folder();
        let library = folder.join("src").join("lib.rs");
        let library = library
            .strip_prefix(&workspace.root)
            .unwrap_or(&library)
            .to_owned();
        let own = self.root.join(&library);
        let text = fs::read_to_string(&own)?;
        if !text.contains("fn mutant_is_on") {
            fs::write(own, text + &switch())?;
        }
        Ok(Placed {
            root: self.root.clone(),
            mutants,
        })
    }

    /// Returns a cargo command in the copy, which uses the build folder of the workspace.
    pub(super) fn cargo(&self, workspace: &Workspace) -> Command {
        let mut cargo = process::cargo();
        cargo
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &workspace.target)
            .env("CARGO_INCREMENTAL", "0")
            .env_remove("CARGO_MANIFEST_DIR");
        cargo
    }
}

/// Returns the text with a switch at each site, and the bytes of each switch.
fn with_switches<'s>(
    text: &str,
    sites: impl Iterator<Item = (usize, &'s Site)>,
) -> (String, Vec<(usize, Range<usize>)>) {
    let (mut changed, mut places) = (String::new(), Vec::new());
    let mut at = 0;
    for (number, site) in sites {
        changed += &text[at..site.range.start];
        let old = &text[site.range.clone()];
        let start = changed.len();
        changed += &match site.is_statement {
            true => format!("if !crate::mutant_is_on({number}) {{ {old} }}"),
            false => {
                let fault = &site.fault;
                format!("(if crate::mutant_is_on({number}) {{ {fault} }} else {{ {old} }})")
            }
        };
        places.push((number, start..changed.len()));
        at = site.range.end;
    }
    (changed + &text[at..], places)
}

impl Placed {
    /// Returns the numbers of the mutants that cargo's messages name in errors.
    pub(super) fn wrong(&self, messages: &str) -> BTreeSet<usize> {
        let messages = messages
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let mut wrong = BTreeSet::new();
        for message in messages {
            let message: Value = message;
            let message = &message["message"];
            if message["level"] != "error" {
                continue;
            }
            for span in message["spans"].as_array().into_iter().flatten() {
                let (Some(file), Some(start)) =
                    (span["file_name"].as_str(), span["byte_start"].as_u64())
                else {
                    continue;
                };
                wrong.extend(self.nearest(Path::new(file), start));
            }
        }
        wrong
    }

    /// Returns the mutant at a byte of a file, or the nearest one.
    fn nearest(&self, file: &Path, at: u64) -> Option<usize> {
        let at = usize::try_from(at).ok()?;
        let file = file.strip_prefix(&self.root).unwrap_or(file);
        let own = self.mutants.iter().filter(|(_, of, _)| of == file);
        let distance = |range: &Range<usize>| match range.contains(&at) {
            true => 0,
            false => range.start.abs_diff(at).min(range.end.abs_diff(at)),
        };
        let nearest = own.min_by_key(|(_, _, range)| distance(range));
        nearest.map(|(number, _, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::sites;

    #[test]
    fn switches_contain_the_fault_and_the_text() {
        let text = "fn f(a: i32) -> i32 { g(); a + 1 }";
        let found = sites::find_in(text, Path::new("a.rs")).unwrap();
        let sites = sites::sample(&found.sites, usize::MAX, 3);
        let (changed, places) = with_switches(text, sites.iter().enumerate());
        assert_eq!(places.len(), sites.len());
        for (number, range) in places {
            assert!(changed[range].contains(&format!("mutant_is_on({number})")));
        }
        assert!(syn::parse_file(&changed).is_ok(), "{changed}");
    }
}
