//! `cargo xtask adapters`: software Vulkan drivers that test the GPU path in addition to the
//! installed drivers.
//!
//! Role: finds the drivers, or downloads them into cargo's target folder, and makes them visible to
//! `verify`. Drivers that share no code rarely have the same fault, so a kernel that passes on all
//! of them is better proven than on one.
//! Method: the Vulkan loader reads a small JSON file for each driver. The files are written into
//! the target folder, and `VK_ADD_DRIVER_FILES` contains their paths, so nothing is installed and
//! other programs see no additional adapter. `verify` also requires each driver by its name
//! (`REQUIRE_ADAPTERS`), because the loader ignores a driver that it cannot load.
//! Limits: downloads are Debian packages for the machine's own release. Elsewhere, and where Debian
//! does not offer a driver, only installed drivers are found.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::debian;
use crate::matrix_driver::{self, MatrixDriver};
use crate::process::{name, spinner, watch};
use crate::workspace::Workspace;
use tool_io::{TemporaryFolder, output, replace_file};

/// Variable in which the Vulkan loader finds drivers in addition to the installed ones.
pub(crate) const FILES: &str = "VK_ADD_DRIVER_FILES";
/// Variables with which a user chooses the drivers; the second is the older name.
pub(crate) const CHOSEN: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];
/// Variable with parts of driver names, each of which an adapter of the tests must have.
pub(crate) const REQUIRED: &str = "REQUIRE_ADAPTERS";
/// Variable with the loader's file of the driver that `explain --isa` uses.
const COMPILER: &str = "RADV_DRIVER_FILE";
/// Folders in which the Vulkan loader finds the files of installed drivers on Linux.
const LOADER_FOLDERS: [&str; 3] = [
    "/etc/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
    "/usr/share/vulkan/icd.d",
];
/// Separator of the lists of the loader.
const SEPARATOR: &str = if cfg!(windows) { ";" } else { ":" };

/// A software driver.
struct Driver {
    id: &'static str,
    /// Libraries of installed packages.
    installed: &'static [&'static str],
    package: &'static str,
    /// Size of the download, for messages.
    size: &'static str,
    /// Whether the package comes from the backports of the release.
    is_backport: bool,
    /// Architectures for which the package contains the library, as in `std::env::consts::ARCH`.
    machines: &'static [&'static str],
    /// Folder of the libraries within the package; `None` for the folder of libraries of the
    /// machine's architecture.
    folder: Option<&'static str>,
    file: &'static str,
    /// Another library of the package: the driver of AMD's GPUs, whose compiler needs no GPU. The
    /// package may lack this library.
    compiler: Option<&'static str>,
    /// Version of Vulkan that the driver implements.
    api_version: &'static str,
    /// Part of the name of the adapter's driver; the version of the package follows if the package
    /// is a backport.
    name: &'static str,
}

static DRIVERS: [Driver; 2] = [
    Driver {
        id: "swiftshader",
        installed: &[
            "/usr/lib/chromium/libvk_swiftshader.so",
            "/opt/google/chrome/libvk_swiftshader.so",
        ],
        package: "chromium",
        size: "81 MB",
        is_backport: false,
        machines: &["x86_64"],
        folder: Some("usr/lib/chromium"),
        file: "libvk_swiftshader.so",
        compiler: None,
        api_version: "1.3.0",
        name: "SwiftShader",
    },
    Driver {
        id: "mesa",
        installed: &[],
        package: "mesa-vulkan-drivers",
        size: "11 MB",
        is_backport: true,
        machines: &["x86_64", "aarch64"],
        folder: None,
        file: "libvulkan_lvp.so",
        compiler: Some("libvulkan_radeon.so"),
        api_version: "1.4.0",
        name: "Mesa ",
    },
];

/// The reason why `verify` does not use a driver.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// The driver could be used: by a download, or by other variables.
    Missing(String),
    /// Debian does not offer the driver for this system.
    NotOffered(String),
}

impl Absence {
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Missing(why) | Self::NotOffered(why) => why,
        }
    }
}

/// A driver of this machine.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    library: PathBuf,
    /// The compiler for AMD's GPUs, if the package has one.
    compiler: Option<PathBuf>,
    /// Part of the name of the adapter's driver.
    name: String,
}

/// Description of the drivers, below the options.
const AFTER_HELP: &str = "\
Drivers that `cargo xtask verify` tests in addition to the installed ones:

  swiftshader    SwiftShader, which is part of Chromium and Chrome
  mesa           the llvmpipe driver of a newer Mesa than the installed one, and its compiler for AMD's
                 GPUs, which `cargo xtask explain --isa` uses
  mesa-matrices  on Debian 12, a Mesa of the next release with the C library of that release, which
                 runs the tests of cooperative matrices

`verify` uses each driver that is there. For other commands, set the printed variables.
Exit codes: 0; 1 if a download failed (a driver that Debian does not offer for this system is no
failure); 2 for wrong usage.";

/// Arguments of `adapters`.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Download the missing drivers into cargo's target folder
    #[arg(long)]
    fetch: bool,
    /// Print one JSON object per driver: driver, library, missing
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let (fetch, as_json) = (options.fetch, options.json);
    let workspace = Workspace::load()?;
    let folder = folder(&workspace);
    let is_complete = !fetch || fetch_missing(&folder);
    for (id, found) in found(&folder)? {
        let (library, absence) = (found.as_ref().ok(), found.as_ref().err());
        let missing = absence.map(Absence::reason);
        if as_json {
            output::print_line(json!({"driver": id, "library": library, "missing": missing}))?;
        } else {
            let library = library.cloned().unwrap_or_default();
            let place = missing.map_or_else(|| library.display().to_string(), str::to_owned);
            output::print_line(format_args!("{id:<13} {place}"))?;
        }
    }
    if !as_json {
        if is_chosen() {
            let variables = CHOSEN.join(" or ");
            output::print_line(format_args!(
                "adapters are not added, because {variables} is set"
            ))?;
        }
        for (name, value) in environment(&workspace)? {
            output::print_line(format_args!("{name}={}", quoted(&value.to_string_lossy())))?;
        }
    }
    Ok(match is_complete {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Returns a text as a word of a POSIX shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:+".contains(c);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Fetches each missing driver that this system can have. Reports failures on stderr, and returns
/// whether there was none.
fn fetch_missing(folder: &Path) -> bool {
    let mut is_complete = true;
    for driver in &DRIVERS {
        if driver.find(folder).is_some() || driver.unsupported().is_some() {
            continue;
        }
        if let Err(error) = driver.fetch(folder) {
            output::note(format_args!(
                "error: adapters: could not fetch {}: {error:#}",
                driver.package
            ));
            is_complete = false;
        }
    }
    if let Err(error) = matrix_driver::fetch_missing(folder) {
        let id = matrix_driver::ID;
        output::note(format_args!(
            "error: adapters: could not fetch {id}: {error:#}"
        ));
        is_complete = false;
    }
    is_complete
}

/// Returns the folder of fetched drivers and of the loader's files.
pub(crate) fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("drivers")
}

/// Returns the id of each driver, with the path of its library or the reason why it is missing.
fn found(folder: &Path) -> Result<Vec<(&'static str, std::result::Result<PathBuf, Absence>)>> {
    let of_driver = |driver: &'static Driver| {
        let found = driver.find(folder).map(|found| found.library);
        (driver.id, found.ok_or_else(|| driver.absence(folder)))
    };
    let with_matrices = MatrixDriver::find(folder)?.map(|found| found.library().to_owned());
    let with_matrices = with_matrices.ok_or_else(matrix_driver::absence);
    let drivers = DRIVERS.iter().map(of_driver);
    Ok(drivers
        .chain([(matrix_driver::ID, with_matrices)])
        .collect())
}

/// Returns the id of each driver, with the reason if `verify` does not use the driver.
pub(crate) fn drivers(workspace: &Workspace) -> Result<Vec<(&'static str, Option<Absence>)>> {
    let found = found(&folder(workspace))?.into_iter();
    let drivers = found.map(|(id, found)| {
        // The tests of cooperative matrices have a driver of their own in any case.
        let is_left_out = is_chosen() && id != matrix_driver::ID;
        let left_out = || {
            let variables = CHOSEN.join(" or ");
            Absence::Missing(format!("not used, because {variables} is set"))
        };
        (id, found.err().or_else(|| is_left_out.then(left_out)))
    });
    Ok(drivers.collect())
}

/// Writes the loader's files of all drivers that are there, and returns the environment variables
/// that make programs use them. If the user has chosen the drivers (`VK_DRIVER_FILES`), only the
/// compiler for AMD's GPUs is added, which is not an adapter.
pub(crate) fn environment(workspace: &Workspace) -> Result<Vec<(&'static str, OsString)>> {
    let is_chosen = is_chosen();
    let folder = folder(workspace);
    let mut files: Vec<OsString> = env::var_os(FILES).into_iter().collect();
    let mut names = Vec::new();
    for driver in DRIVERS.iter().filter(|_| !is_chosen) {
        let Some(found) = driver.find(&folder) else {
            continue;
        };
        let file = write_loader_file(&folder, driver.id, &found.library, driver.api_version)?;
        files.push(file.into());
        names.push(found.name);
    }
    let mut variables = Vec::new();
    if !names.is_empty() {
        variables.push((FILES, files.join(SEPARATOR.as_ref())));
        variables.push((REQUIRED, names.join(SEPARATOR).into()));
    }
    variables.extend(compiler(workspace)?);
    Ok(variables)
}

/// Returns the variable with the fetched compiler for AMD's GPUs, if there is one and the user has
/// not set the variable.
pub(crate) fn compiler(workspace: &Workspace) -> Result<Option<(&'static str, OsString)>> {
    if env::var_os(COMPILER).is_some_and(|file| !file.is_empty()) {
        return Ok(None);
    }
    let folder = folder(workspace);
    for driver in &DRIVERS {
        if let Some(library) = driver.find(&folder).and_then(|found| found.compiler) {
            let name = format!("{}-compiler", driver.id);
            let file = write_loader_file(&folder, &name, &library, driver.api_version)?;
            return Ok(Some((COMPILER, file.into())));
        }
    }
    Ok(None)
}

/// Returns the files that determine which adapters a program finds, sorted: devices, the files in
/// which the Vulkan loader finds drivers, each with its text, and the libraries of the drivers,
/// each with its length and time. The user's files are in folders of the user, and in environment
/// variables of the loader.
pub(crate) fn files(workspace: &Workspace) -> Vec<(PathBuf, String)> {
    let mut files: Vec<_> = entries(Path::new("/dev/dri"))
        .chain(entries(Path::new("/dev")).filter(|path| {
            let name = path.file_name().unwrap_or_default();
            name.as_encoded_bytes().starts_with(b"nvidia")
        }))
        .map(|device| (device, String::new()))
        .collect();
    let of_user = ["XDG_DATA_HOME", "HOME"]
        .into_iter()
        .zip(["", ".local/share"]);
    let of_user = of_user.filter_map(|(name, below)| {
        let home = PathBuf::from(env::var_os(name)?);
        Some(home.join(below).join("vulkan/icd.d"))
    });
    let folders = LOADER_FOLDERS.map(PathBuf::from).into_iter();
    let mut places: Vec<PathBuf> = folders.chain([folder(workspace)]).chain(of_user).collect();
    for name in CHOSEN.into_iter().chain([FILES]) {
        places.extend(env::split_paths(&env::var_os(name).unwrap_or_default()));
    }
    files.extend(loader_files(places));
    files.sort();
    files
}

/// Returns the files of the Vulkan loader in folders, and single files, each with its text, and the
/// libraries that they name, each with its length and time.
fn loader_files(places: Vec<PathBuf>) -> Vec<(PathBuf, String)> {
    let of_loader = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "json");
    let paths = places.into_iter().flat_map(|place| match place.is_dir() {
        true => entries(&place).filter(of_loader).collect(),
        false => vec![place],
    });
    let mut files = Vec::new();
    for path in paths {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let parsed: Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(library) = parsed["ICD"]["library_path"].as_str() {
            let folder = path.parent().unwrap_or(Path::new("/"));
            for library in libraries(folder, library) {
                let found = fs::metadata(&library).ok();
                let stamp = found.map(|found| (found.len(), found.modified().ok()));
                files.push((library, format!("{stamp:?}")));
            }
        }
        files.push((path, text));
    }
    files
}

/// Returns the possible paths of a driver's library. A name without a folder, as in NVIDIA's file,
/// is that of a library of the system, which may have several for different processors.
fn libraries(folder: &Path, library: &str) -> Vec<PathBuf> {
    if library.contains('/') {
        return vec![folder.join(library)];
    }
    let systems = ["/usr/lib64", "/usr/lib", "/usr/local/lib"].map(PathBuf::from);
    let inside = entries(Path::new("/usr/lib")).filter(|path| path.is_dir());
    let paths = systems
        .into_iter()
        .chain(inside)
        .map(|folder| folder.join(library));
    paths.filter(|path| path.exists()).collect()
}

/// Returns the paths of a folder's entries; none if the folder cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

/// Returns whether the user has chosen the drivers.
fn is_chosen() -> bool {
    CHOSEN.into_iter().any(|name| env::var_os(name).is_some())
}

/// Writes the loader's file of a library, and returns the file's path.
///
/// A loader of another process may read the file at any time, so the file is replaced as a whole,
/// and only if its text changes.
pub(crate) fn write_loader_file(
    folder: &Path,
    name: &str,
    library: &Path,
    api_version: &str,
) -> Result<PathBuf> {
    let file = folder.join(format!("{name}.json"));
    let icd = json!({"library_path": library, "api_version": api_version});
    let text = json!({"file_format_version": "1.0.0", "ICD": icd});
    let text = format!("{text}\n");
    if fs::read_to_string(&file).ok().as_ref() != Some(&text) {
        replace_file(&file, &text)?;
    }
    Ok(file)
}

impl Driver {
    /// Returns the reason why the driver is not found.
    fn absence(&self, folder: &Path) -> Absence {
        let earlier = || fs::read_to_string(self.note(folder)).ok();
        match self.unsupported().or_else(earlier) {
            Some(why) => Absence::NotOffered(format!("not offered: {why}")),
            None => Absence::Missing(format!(
                "missing; `cargo xtask adapters --fetch` downloads it ({}, Debian package {})",
                self.size, self.package
            )),
        }
    }

    /// Returns why this system cannot have the package, as far as it is known without a network.
    fn unsupported(&self) -> Option<String> {
        debian::unsupported(self.is_backport).or_else(|| self.unsupported_on(env::consts::ARCH))
    }

    fn unsupported_on(&self, machine: &str) -> Option<String> {
        let expected = self.machines.join(" or ");
        (!self.machines.contains(&machine)).then(|| {
            format!(
                "Debian's package {} contains no such driver for this architecture ({machine}; \
                 expected {expected})",
                self.package
            )
        })
    }

    /// Returns the path of the file with the reason why the last download found no package.
    fn note(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.not-offered", self.id))
    }

    /// Returns the installed or the fetched driver.
    fn find(&self, folder: &Path) -> Option<Found> {
        let mut installed = self.installed.iter().map(PathBuf::from);
        if let Some(library) = installed.find(|library| library.is_file()) {
            return Some(Found {
                library,
                compiler: None,
                name: self.name.to_owned(),
            });
        }
        let entries = fs::read_dir(folder.join(self.id)).ok()?;
        let versions = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let place = |file: &str, version: &str| self.library(folder, file, version);
        let complete = versions.filter(|version| place(self.file, version).is_file());
        // A file of a package has the date of its build, which is later in a newer version. So
        // Debian's rules for the order of versions are not needed here.
        let build = |version: &String| fs::metadata(place(self.file, version))?.modified();
        let version = complete.max_by_key(|version| build(version).ok())?;
        let compiler = self.compiler.map(|file| place(file, &version));
        Some(Found {
            library: place(self.file, &version),
            compiler: compiler.filter(|library| library.is_file()),
            name: match self.is_backport {
                true => format!("{}{version}", self.name),
                false => self.name.to_owned(),
            },
        })
    }

    /// Returns the path of a fetched library.
    fn library(&self, folder: &Path, file: &str, version: &str) -> PathBuf {
        folder.join(self.id).join(version).join(file)
    }

    /// Downloads the package and moves its libraries into the folder. If there is no package, the
    /// reason is stored in the folder, because `verify` does not use the network.
    fn fetch(&self, folder: &Path) -> Result<()> {
        let incoming = TemporaryFolder::create(folder, ".incoming")
            .with_context(|| folder.display().to_string())?;
        let bar = spinner(format!(
            "apt-get: fetching {} ({})",
            self.package, self.size
        ));
        let fetched = self.fetch_into(incoming.path(), folder);
        bar.finish_and_clear();
        let note = self.note(folder);
        match fetched? {
            Err(why) => replace_file(&note, &why)?,
            Ok(()) if note.exists() => fs::remove_file(&note)?,
            Ok(()) => (),
        }
        Ok(())
    }

    /// Implements `fetch`; returns the reason if there is no package for this system.
    fn fetch_into(&self, incoming: &Path, folder: &Path) -> Result<Result<(), String>> {
        let options = match self.is_backport {
            true => match debian::backports(incoming, self.package)? {
                Ok(options) => options,
                Err(why) => return Ok(Err(why)),
            },
            false => Vec::new(),
        };
        let run = |mut command: std::process::Command| -> Result<()> {
            let finished = watch(command.current_dir(incoming), |_| ())?;
            if !finished.status.success() {
                bail!("{}: {}", name(&command), debian::reason(&finished.err));
            }
            Ok(())
        };
        run(debian::download(self.package, &options))?;
        let package = debian::downloaded(incoming, self.package)?;
        let version = debian::version(&package).context("the package has no version")?;
        run(debian::extract(&package))?;
        let unpacked = self
            .folder
            .map_or_else(debian::library_folder, str::to_owned);
        let unpacked = incoming.join(unpacked);
        fs::create_dir_all(folder.join(self.id).join(&version))?;
        let compiler = self.compiler.filter(|file| unpacked.join(file).is_file());
        // The driver's own library comes last, because the driver is found as soon as it is there.
        for file in compiler.into_iter().chain([self.file]) {
            fs::rename(unpacked.join(file), self.library(folder, file, &version))
                .with_context(|| format!("the package does not contain {file}"))?;
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_fetched_driver_is_found_with_its_version() {
        let folder = env::temp_dir().join(format!("xtask-adapters-{}", std::process::id()));
        let [_, mesa] = &DRIVERS;
        assert_eq!(mesa.find(&folder), None);
        let library = mesa.library(&folder, mesa.file, "25.0.7-2");
        let compiler = mesa.library(&folder, mesa.compiler.unwrap(), "25.0.7-2");
        fs::create_dir_all(library.parent().unwrap()).unwrap();
        fs::write(&compiler, "").unwrap();
        assert_eq!(mesa.find(&folder), None, "the library is missing");
        fs::write(&library, "").unwrap();
        let found = mesa.find(&folder).unwrap();
        fs::remove_file(&compiler).unwrap();
        assert_eq!(mesa.find(&folder).unwrap().compiler, None);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.name, "Mesa 25.0.7-2");
        assert_eq!((found.library, found.compiler), (library, Some(compiler)));
    }

    #[test]
    fn a_changed_library_of_a_driver_changes_the_files_of_the_loader() {
        let folder = TemporaryFolder::create(&env::temp_dir(), "xtask-loader").unwrap();
        let (json, library) = (folder.path().join("a.json"), folder.path().join("lib.so"));
        fs::write(&json, r#"{"ICD": {"library_path": "./lib.so"}}"#).unwrap();
        fs::write(folder.path().join("notes.txt"), "").unwrap();
        let files = |place: &Path| loader_files(vec![place.to_owned(), "/no/file".into()]);
        for place in [folder.path(), &json] {
            fs::write(&library, "1").unwrap();
            let before = files(place);
            assert_eq!(before.len(), 2, "{before:?}");
            fs::write(&library, "22").unwrap();
            let after = files(place);
            assert!(before != after && before[1] == after[1], "{after:?}");
        }
    }

    #[test]
    fn a_driver_without_a_package_is_not_offered() {
        let folder = env::temp_dir().join(format!("xtask-offer-{}", std::process::id()));
        let [swiftshader, mesa] = &DRIVERS;
        assert_eq!(mesa.unsupported_on("aarch64"), None);
        let why = swiftshader.unsupported_on("aarch64").unwrap();
        assert!(why.contains("chromium") && why.contains("aarch64"), "{why}");
        // The note of a download decides only where Debian offers the driver in general.
        fs::create_dir_all(&folder).unwrap();
        fs::write(mesa.note(&folder), "no package").unwrap();
        let why = mesa.unsupported();
        let why = why.as_deref().unwrap_or("no package");
        let expected = Absence::NotOffered(format!("not offered: {why}"));
        assert_eq!(mesa.absence(&folder), expected);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_version_that_was_built_last_is_used() {
        let folder = env::temp_dir().join(format!("xtask-versions-{}", std::process::id()));
        let [_, mesa] = &DRIVERS;
        // The first version sorts after the second as text, and is older.
        for (version, built) in [("9.0-1", 1), ("25.0.7-2~bpo12+1", 3), ("25.0.7-1", 2)] {
            for file in [mesa.file, mesa.compiler.unwrap()] {
                let library = mesa.library(&folder, file, version);
                fs::create_dir_all(library.parent().unwrap()).unwrap();
                let library = fs::File::create(library).unwrap();
                let built = UNIX_EPOCH + std::time::Duration::from_secs(built);
                library.set_modified(built).unwrap();
            }
        }
        let found = mesa.find(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.name, "Mesa 25.0.7-2~bpo12+1");
    }

    #[test]
    fn variables_are_words_of_a_shell() {
        assert_eq!(quoted("/a/b.json:/c.json"), "/a/b.json:/c.json");
        assert_eq!(quoted("Mesa 25.0~bpo"), "'Mesa 25.0~bpo'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn the_loaders_file_is_replaced_only_if_its_text_changes() {
        let folder = env::temp_dir().join(format!("xtask-loader-{}", std::process::id()));
        let write = |library: &str| write_loader_file(&folder, "x", library.as_ref(), "1.3.0");
        let file = write("/a.so").unwrap();
        assert!(fs::read_to_string(&file).unwrap().contains("/a.so"));
        let opened = fs::File::options().write(true).open(&file).unwrap();
        opened.set_modified(UNIX_EPOCH).unwrap();
        let date = || fs::metadata(&file).unwrap().modified().unwrap();
        write("/a.so").unwrap();
        assert_eq!(date(), UNIX_EPOCH);
        write("/b.so").unwrap();
        assert!(date() > UNIX_EPOCH);
        assert!(fs::read_to_string(&file).unwrap().contains("/b.so"));
        // No temporary file is left.
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
