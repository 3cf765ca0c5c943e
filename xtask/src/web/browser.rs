//! Headless Chromium that opens the page.
//!
//! Role: the browser's command line.
//! Method: the page sends a report to the server when it has finished. The test waits for this
//! report, so that it needs no driver of the browser.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::server::PageServer;

/// Names of the browser.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Time after which a test without a report fails. A run takes half a minute on two cores.
const PATIENCE: Duration = Duration::from_secs(300);

/// Returns the path of Chromium or Chrome.
pub(super) fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut places = env::split_paths(&path)
        .flat_map(|folder| BROWSERS.map(|browser| folder.join(browser)))
        .filter(|place| place.is_file());
    places.next()
}

/// Opens the page in a headless browser and waits for its report.
pub(super) fn report(folder: &Path, browser: &Path) -> Result<String> {
    let server = PageServer::listen(0, folder.to_owned())?;
    let profile = env::temp_dir().join(format!("xtask-web-{}", std::process::id()));
    fs::create_dir_all(&profile)?;
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-first-run", "--disable-sync"])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
        ])
        .args(["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(server.address())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // Chromium does not start its sandbox as root.
    if env::var_os("USER").is_none_or(|user| user == "root") {
        command.arg("--no-sandbox");
    }
    let browser = Running {
        child: command.spawn().context("could not start the browser")?,
        profile,
    };
    let report = wait(&server);
    drop(browser);
    report
}

/// Answers requests until the report arrives.
fn wait(server: &PageServer) -> Result<String> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(report) = server.next_report(Duration::from_secs(1))? {
            return Ok(report);
        }
    }
    bail!("the page sent no report within {} s", PATIENCE.as_secs())
}

/// A running browser with its temporary profile; ended and removed on drop.
struct Running {
    child: Child,
    profile: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A browser that has already ended, or a profile that cannot be removed, is no fault.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}
