//! Headless Chromium: opens pages and takes pictures of them.
//!
//! Role: the browser's command line, and a server for the files of a page.
//! Method: the page sends a report to the server when it has finished. The test waits for this
//! report or for the end of the browser, so that it needs no driver of the browser.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

use crate::process::{self, Running, tail};
use server::Files;
use tool_io::TemporaryFolder;

mod server;

pub(crate) use server::PageServer;

/// Names of the browser.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Time after which a test without a report fails. A run takes half a minute on two cores.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time between two checks that the browser is running.
const INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of displayed lines of the browser's stderr.
const TAIL_LINES: usize = 20;

/// Returns the path of Chromium or Chrome.
///
/// # Errors
/// If there is no browser; the message contains a command that installs one.
pub(crate) fn find() -> Result<PathBuf> {
    process::find_in_path(&BROWSERS).with_context(|| {
        let expected = BROWSERS.join(" or ");
        format!(
            "browser: not found in PATH (expected {expected}); on Debian, run `apt-get install chromium`"
        )
    })
}

/// Opens `index.html` of a folder in a headless browser, and returns the text that the page sends
/// to `/report`. `files` are the files that the browser may read, with their media types.
pub(crate) fn report(folder: &Path, files: &'static Files, browser: &Path) -> Result<String> {
    let server = PageServer::listen(0, folder.to_owned(), files)?;
    // Dropped after the browser, which writes into the folder.
    let profile = profile()?;
    let mut command = headless(browser, &profile)?;
    command
        .args(["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"])
        .arg(server.address());
    let mut running = process::start(&mut command)?;
    let waited = wait(&server, &mut running)?;
    let err = running.end();
    waited.map_err(|problem| {
        let browser = browser.display();
        anyhow!("{browser}: {problem}\n{}", tail(&err, TAIL_LINES))
    })
}

/// Writes a picture of an HTML file as PNG. `size` is the width and the height of the window, in
/// pixels.
pub(crate) fn screenshot(
    page: &Path,
    [width, height]: [u32; 2],
    picture: &Path,
    browser: &Path,
) -> Result<()> {
    let profile = profile()?;
    let fresh = profile.path().join("picture.png");
    let mut command = headless(browser, &profile)?;
    command
        .arg("--hide-scrollbars")
        .arg(format!("--window-size={width},{height}"))
        .arg(format!("--screenshot={}", fresh.display()))
        .arg(page);
    let finished = process::watch(&mut command, |_| ())?;
    if !finished.status.success() || !fresh.exists() {
        let err = tail(&finished.err, TAIL_LINES);
        bail!("{}: no picture\n{err}", browser.display());
    }
    fs::copy(fresh, picture).with_context(|| picture.display().to_string())?;
    Ok(())
}

/// Creates a folder for the browser's settings.
fn profile() -> Result<TemporaryFolder> {
    let folder = TemporaryFolder::create(&env::temp_dir(), "xtask-web");
    folder.context("browser: could not create a profile")
}

/// Returns the command that starts the browser without a window.
fn headless(browser: &Path, profile: &TemporaryFolder) -> Result<Command> {
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-first-run", "--disable-sync"])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()));
    // Chromium does not start its sandbox as root.
    if is_root(profile.path())? {
        command.arg("--no-sandbox");
    }
    Ok(command)
}

/// Returns whether this process has the rights of root: whether a folder that it created belongs to
/// root. `$USER` may be missing, or differ from the effective user.
#[cfg(unix)]
fn is_root(created: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    Ok(fs::metadata(created)?.uid() == 0)
}

#[cfg(not(unix))]
fn is_root(_: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Answers requests until the report arrives. Returns the problem if the browser ends or does not
/// send a report in time.
fn wait(server: &PageServer, browser: &mut Running) -> Result<Result<String, String>> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        process::check_not_interrupted()?;
        // A browser may end after it has sent the report, so the status is read before the request.
        let ended = browser.status()?;
        if let Some(report) = server.next_report(INTERVAL)? {
            return Ok(Ok(report));
        }
        if let Some(status) = ended {
            return Ok(Err(format!(
                "ended without a report of the page ({status})"
            )));
        }
    }
    let limit = PATIENCE.as_secs();
    Ok(Err(format!("no report of the page (limit {limit} s)")))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_browser_that_ends_early_is_reported_with_its_last_lines() {
        // `cat` rejects the options of a browser.
        let start = Instant::now();
        let error = report(Path::new("/"), &[], Path::new("cat")).unwrap_err();
        assert!(start.elapsed() < PATIENCE / 2);
        let text = error.to_string();
        assert!(text.contains("(exit status: 1)\ncat: "), "{text}");
    }

    #[test]
    fn browsers_that_run_at_the_same_time_have_different_profiles() {
        let (one, other) = (profile().unwrap(), profile().unwrap());
        assert_ne!(one.path(), other.path());
        assert!(one.path().exists() && other.path().exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_owner_of_a_new_folder_is_the_effective_user() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = TemporaryFolder::create(&env::temp_dir(), "xtask-owner").unwrap();
        // The folder of a process belongs to its effective user.
        let user = fs::metadata("/proc/self").unwrap().uid();
        assert_eq!(is_root(folder.path()).unwrap(), user == 0);
    }
}
