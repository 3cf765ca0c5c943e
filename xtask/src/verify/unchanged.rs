//! Results of passed tests whose inputs have not changed since.
//!
//! Role: the only module that decides whether a test runs again.
//! Method: a result depends on a key, a hash of all that a test can read: the files of its package
//! and of the packages that it depends on, all manifests, the lock file, the settings of cargo and
//! the features, the compiler, the CPU, the environment, and the files of devices and graphics
//! drivers. Passed tests are stored with their key in cargo's target folder, and run again if the
//! key differs, as in `go test` and Bazel. Failed and skipped tests are never stored.
//! Limits: random programs draw new seeds, and tests on the adapter of the day meet another
//! adapter, only if they run. A new version of a program in `PATH`, or a change of a downloaded
//! data set, does not change the key; `--again` runs all tests.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use tool_io::replace_file;

use crate::adapters;
use crate::mpi;
use crate::workspace::{Package, Workspace};
use crate::{cpu, process};

/// The file of passed tests, relative to cargo's target folder.
const FILE: &str = "verify/passed.json";
/// The record that `verify` itself writes, which no test reads.
const OWN_RECORD: &str = "xtask/record/verify.json";
/// Hidden folders whose files are read: the settings of cargo, and files that tests read.
const HIDDEN: [&str; 3] = [".cargo", ".ci", ".github"];
/// Packages whose tests read files of the whole workspace.
const READ_ALL: [&str; 2] = ["benches", "xtask"];
/// Environment variables that differ from terminal to terminal.
const IGNORED_VARIABLES: [&str; 8] = [
    "_", "COLUMNS", "LINES", "OLDPWD", "PWD", "SHLVL", "TERM", "WINDOWID",
];

/// The tests of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    key: u64,
    /// The names of all tests.
    pub(super) all: Vec<String>,
    /// The names of those that passed.
    pub(super) passed: BTreeSet<String>,
}

impl Known {
    /// Creates the tests of a process of which none has passed.
    pub(super) fn none_of(all: Vec<String>) -> Self {
        Self {
            all,
            ..Self::default()
        }
    }

    /// Returns whether all tests passed.
    pub(super) fn is_good(&self) -> bool {
        self.all.iter().all(|name| self.passed.contains(name))
    }
}

/// The passed tests of earlier runs.
#[derive(Debug)]
pub(super) struct Unchanged {
    file: PathBuf,
    /// The key of each package.
    keys: HashMap<String, u64>,
    /// The tests of each process, under its id.
    known: Mutex<BTreeMap<String, Known>>,
    /// Whether all tests run again.
    again: bool,
}

impl Unchanged {
    /// Reads the results of earlier runs. With `again`, all tests run again.
    ///
    /// `environment` are the variables that tests get in addition to those of this process.
    pub(super) fn open(
        workspace: &Workspace,
        environment: &[(&'static str, OsString)],
        again: bool,
    ) -> Result<Self> {
        let file = workspace.target.join(FILE);
        // A file of another version is an empty one.
        let known = fs::read(&file).ok();
        let known = known.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let mut circumstances = DefaultHasher::new();
        process::output(process::rustc().arg("-vV")).hash(&mut circumstances);
        let own = env::vars_os().filter(|(name, _)| {
            let mut ignored = IGNORED_VARIABLES.iter();
            !ignored.any(|ignored| name == ignored)
        });
        let own: BTreeMap<OsString, OsString> = own.collect();
        (own, environment).hash(&mut circumstances);
        (mpi::arguments(), cargo_settings(), cpu::features()).hash(&mut circumstances);
        adapters::files(workspace).hash(&mut circumstances);
        Ok(Self {
            file,
            keys: keys(workspace, circumstances.finish())?,
            known: Mutex::new(known.unwrap_or_default()),
            again,
        })
    }

    /// Returns the known tests of a process; `None` if its package has changed, or if all tests run
    /// again.
    pub(super) fn known(&self, package: &Package, process: &str) -> Option<Known> {
        if self.again {
            return None;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(process)?;
        (self.keys.get(&package.name) == Some(&known.key)).then(|| known.clone())
    }

    /// Stores the tests of a process, and whether each test that ran has passed. Tests that did not
    /// run keep their result of an earlier run with the same key.
    pub(super) fn store(
        &self,
        package: &Package,
        process: &str,
        all: &[String],
        ran: impl IntoIterator<Item = (String, bool)>,
    ) -> Result<()> {
        let Some(&key) = self.keys.get(&package.name) else {
            return Ok(());
        };
        let mut processes = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = processes.entry(process.to_owned()).or_default();
        if known.key != key {
            *known = Known {
                key,
                ..Known::default()
            };
        }
        all.clone_into(&mut known.all);
        for (name, has_passed) in ran {
            if has_passed {
                known.passed.insert(name);
            } else {
                known.passed.remove(&name);
            }
        }
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        Ok(replace_file(
            &self.file,
            &serde_json::to_string(&*processes)?,
        )?)
    }
}

/// Returns the texts of cargo's settings for this user.
fn cargo_settings() -> Vec<String> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let files = ["config.toml", "config"].map(|name| Some(home.as_ref()?.join(name)));
    let read = |file: Option<PathBuf>| fs::read_to_string(file?).ok();
    files.into_iter().filter_map(read).collect()
}

/// Returns the key of each package.
fn keys(workspace: &Workspace, circumstances: u64) -> Result<HashMap<String, u64>> {
    let files = files(&workspace.root, &workspace.target)?;
    let folders: Vec<(&Package, &Path)> = workspace
        .packages
        .iter()
        .map(|package| (package, package.folder()))
        .collect();
    // The package of a file is the innermost.
    let owner = |path: &Path| {
        let inside = folders
            .iter()
            .filter(|(_, folder)| path.starts_with(folder));
        let innermost = inside.max_by_key(|(_, folder)| folder.as_os_str().len());
        innermost.map(|(package, _)| package.name.as_str())
    };
    let owned: Vec<(Option<&str>, bool, &(PathBuf, u64))> = files
        .iter()
        .map(|file| {
            let name = file.0.file_name().unwrap_or_default();
            let is_of_build = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"]
                .iter()
                .any(|file| name == *file)
                || file.0.starts_with(workspace.root.join(".cargo"));
            (owner(&file.0), is_of_build, file)
        })
        .collect();
    let key = |package: &Package| {
        let used = closure(workspace, package);
        let reads_all = READ_ALL.contains(&package.name.as_str());
        let mut hasher = DefaultHasher::new();
        circumstances.hash(&mut hasher);
        for (owner, is_of_build, file) in &owned {
            if reads_all || *is_of_build || owner.is_some_and(|owner| used.contains(owner)) {
                file.hash(&mut hasher);
            }
        }
        (package.name.clone(), hasher.finish())
    };
    Ok(workspace.packages.iter().map(key).collect())
}

/// Returns a package and all members that it depends on, also for tests.
fn closure<'w>(workspace: &'w Workspace, package: &'w Package) -> BTreeSet<&'w str> {
    let mut found = BTreeSet::from([package.name.as_str()]);
    let mut open = vec![package];
    while let Some(next) = open.pop() {
        for used in &next.dependencies {
            let mut members = workspace.packages.iter();
            if let Some(member) = members.find(|member| member.name == used.name)
                && found.insert(&member.name)
            {
                open.push(member);
            }
        }
    }
    found
}

/// Returns the path and the hash of each file below a folder, except build output and hidden
/// folders, sorted.
fn files(root: &Path, target: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type()?;
            let is_hidden = name.as_encoded_bytes().starts_with(b".");
            if kind.is_dir() {
                let is_known = HIDDEN.iter().any(|known| name == *known);
                let is_output = name == "target" || path == target;
                if (is_known || !is_hidden) && !is_output {
                    open.push(path);
                }
            } else if kind.is_file() && path != root.join(OWN_RECORD) {
                let mut hasher = DefaultHasher::new();
                let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
                bytes.hash(&mut hasher);
                files.push((path, hasher.finish()));
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool_io::TemporaryFolder;

    use super::*;

    /// A workspace in a temporary folder: `user` depends on `used` for its tests, `inner` is a
    /// package in the folder of `used`, and `xtask` depends on none.
    fn workspace(root: &Path) -> Workspace {
        let package = |name: &str, folder: &str, used: &[&str]| {
            let dependencies = used.iter().map(|name| json!({"name": name, "kind": "dev"}));
            let manifest = root.join(folder).join("Cargo.toml");
            fs::create_dir_all(root.join(folder)).unwrap();
            fs::write(&manifest, name).unwrap();
            json!({
                "name": name,
                "version": "0.1.0",
                "manifest_path": manifest,
                "dependencies": dependencies.collect::<Vec<_>>(),
            })
        };
        let packages = [
            package("used", "used", &[]),
            package("inner", "used/inner", &[]),
            package("user", "user", &["used", "serde"]),
            package("xtask", "xtask", &[]),
        ];
        Workspace::from_metadata(&json!({
            "workspace_root": root,
            "target_directory": root.join("target"),
            "packages": packages,
        }))
        .unwrap()
    }

    /// Returns the packages whose tests run again after a change.
    fn changed_by(change: impl Fn(&Path)) -> Vec<String> {
        let folder = TemporaryFolder::create(&env::temp_dir(), "xtask-unchanged").unwrap();
        let root = folder.path();
        let workspace = workspace(root);
        fs::write(root.join("used/golden.txt"), "1").unwrap();
        let before = Unchanged::open(&workspace, &[], false).unwrap();
        for package in &workspace.packages {
            assert_eq!(before.known(package, "test/lib"), None);
            before
                .store(package, &package.name, &["a".into()], [("a".into(), true)])
                .unwrap();
        }
        change(root);
        let after = Unchanged::open(&workspace, &[], false).unwrap();
        let packages = workspace.packages.iter();
        let changed = packages.filter(|package| after.known(package, &package.name).is_none());
        changed.map(|package| package.name.clone()).collect()
    }

    #[test]
    fn a_change_affects_the_tests_that_can_read_it() {
        let none: [&str; 0] = [];
        assert_eq!(changed_by(|_| ()), none);
        let write = |path: &'static str| {
            move |root: &Path| {
                fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
                fs::write(root.join(path), "2").unwrap();
            }
        };
        assert_eq!(
            changed_by(write("used/golden.txt")),
            ["used", "user", "xtask"]
        );
        assert_eq!(
            changed_by(write("used/src/new.rs")),
            ["used", "user", "xtask"]
        );
        assert_eq!(
            changed_by(write("used/inner/src/lib.rs")),
            ["inner", "xtask"]
        );
        assert_eq!(changed_by(write("README.md")), ["xtask"]);
        let all = ["used", "inner", "user", "xtask"];
        assert_eq!(changed_by(write("Cargo.lock")), all);
        assert_eq!(changed_by(write("user/Cargo.toml")), all);
        assert_eq!(changed_by(write(".cargo/config.toml")), all);
        assert_eq!(changed_by(write(".ci/run")), ["xtask"]);
        assert_eq!(changed_by(write("target/used.txt")), none);
        assert_eq!(changed_by(write("xtask/record/verify.json")), none);
        assert_eq!(changed_by(write("xtask/record/mutants.json")), ["xtask"]);
        assert_eq!(changed_by(write(".git/index")), none);
        let remove = |root: &Path| fs::remove_file(root.join("used/golden.txt")).unwrap();
        assert_eq!(changed_by(remove), ["used", "user", "xtask"]);
    }

    #[test]
    fn tests_that_did_not_pass_run_again_and_so_does_everything_on_request() {
        let folder = TemporaryFolder::create(&env::temp_dir(), "xtask-unchanged").unwrap();
        let workspace = workspace(folder.path());
        let package = &workspace.packages[0];
        let open = |environment: &[(&'static str, OsString)], again| {
            Unchanged::open(&workspace, environment, again).unwrap()
        };
        let all = ["good", "bad"].map(str::to_owned).to_vec();
        let store = |name: &str, has_passed| {
            let ran = [(name.to_owned(), has_passed)];
            let unchanged = open(&[], false);
            unchanged
                .store(package, "test/used/lib", &all, ran)
                .unwrap();
            let known = open(&[], false).known(package, "test/used/lib").unwrap();
            let passed: Vec<_> = known.passed.iter().cloned().collect();
            (passed.join(" "), known.is_good())
        };
        assert_eq!(store("good", true), ("good".into(), false));
        assert_eq!(store("bad", false), ("good".into(), false));
        assert_eq!(store("bad", true), ("bad good".into(), true));
        assert_eq!(store("good", false), ("bad".into(), false));
        assert_eq!(open(&[], true).known(package, "test/used/lib"), None);
        let full = [("VERIFY_FULL", "1".into())];
        assert_eq!(open(&full, false).known(package, "test/used/lib"), None);
    }
}
