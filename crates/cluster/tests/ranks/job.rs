//! The ranks of a test.
//!
//! Method: a test calls [`on_ranks`]. In the process that the test harness started, the function
//! starts `mpirun` with the same executable and the name of the test. In the processes that
//! `mpirun` started, it runs the body of the test.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cluster::Cluster;
use tool_io::TemporaryFolder;

/// The variable that contains the folder of the test in the processes of a job.
const FOLDER: &str = "CLUSTER_TEST_FOLDER";
/// The variable that contains the number of ranks.
const N_RANKS: &str = "CLUSTER_TEST_RANKS";

/// A folder for the files of a test, which is removed at its end.
#[derive(Debug)]
pub(crate) struct Folder(
    pub(crate) PathBuf,
    #[expect(dead_code, reason = "its drop removes the folder")] TemporaryFolder,
);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("cluster-{}", name.replace("::", "-"));
        let folder = TemporaryFolder::create(&env::temp_dir(), &name);
        let folder = folder.expect("the temporary folder can be written");
        Self(folder.path().to_owned(), folder)
    }
}

/// Returns the folder of the test if this process is a rank of a job.
pub(crate) fn folder_of_job() -> Option<PathBuf> {
    env::var_os(FOLDER).map(PathBuf::from)
}

/// Starts the cluster in a process of a job.
pub(crate) fn start() -> Cluster {
    let cluster = Cluster::start().expect("the launcher is that of the library");
    let expected = env::var(N_RANKS).expect("the test sets the variable");
    assert_eq!(cluster.n_ranks().to_string(), expected);
    cluster
}

/// Returns the command that starts a program on `n` ranks.
pub(crate) fn mpirun(n: usize) -> Command {
    let is_open_mpi = cluster::library().starts_with("Open MPI");
    let names = if is_open_mpi {
        ["mpirun.openmpi", "mpirun"]
    } else {
        ["mpirun.mpich", "mpirun"]
    };
    let path = env::var_os("PATH").unwrap_or_default();
    let exists = |name: &&&str| env::split_paths(&path).any(|folder| folder.join(name).exists());
    let name = names.iter().find(exists).unwrap_or(&"mpirun");
    let mut command = Command::new(name);
    if is_open_mpi {
        command
            .arg("--oversubscribe")
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    command.args(["-n", &n.to_string()]);
    command
}

/// Starts a test on `n` ranks.
pub(crate) fn start_test(n: usize, test: &str, folder: &Folder) -> Child {
    let test = test.split_once("::").map_or(test, |(_, test)| test);
    mpirun(n)
        .arg(env::current_exe().expect("the path of this executable is known"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(FOLDER, &folder.0)
        .env(N_RANKS, n.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the launcher can be started")
}

/// Checks that a job ended well, with one test in each rank.
pub(crate) fn check(output: &Output, n: usize) {
    let text = String::from_utf8_lossy(&output.stdout);
    let is_good = output.status.success() && text.matches(" 1 passed;").count() == n;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(is_good, "{n} ranks: {}\n{text}\n{errors}", output.status);
}

/// Runs the body of a test on `n` ranks. The body has to panic with `message` on one rank, and the
/// panic has to end the job.
pub(crate) fn panics_on_ranks(test: &str, n: usize, message: &str, body: impl Fn(&Cluster)) {
    if folder_of_job().is_some() {
        body(&start());
        unreachable!("the job has ended");
    }
    let folder = Folder::new(test);
    let output = start_test(n, test, &folder).wait_with_output();
    let output = output.expect("the job can be waited for");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = text + &String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(message), "{text}");
}

/// Runs the body of a test on each number of ranks, and then `compare` on the folder of each.
pub(crate) fn on_ranks(
    test: &str,
    numbers: &[usize],
    body: impl Fn(&Cluster, &std::path::Path),
    compare: impl Fn(&std::path::Path),
) {
    if let Some(folder) = folder_of_job() {
        let cluster = start();
        body(&cluster, &folder);
        return;
    }
    for &n in numbers {
        let folder = Folder::new(test);
        let job = start_test(n, test, &folder);
        let output = job.wait_with_output().expect("the job can be waited for");
        check(&output, n);
        compare(&folder.0);
    }
}

/// Occupies a core for a time, as a task does.
pub(crate) fn work_for(time: Duration) {
    let from = Instant::now();
    while from.elapsed() < time {
        thread::yield_now();
    }
}

/// Returns the names of the files in a folder, sorted.
pub(crate) fn names(folder: &std::path::Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("the folder exists");
    let name = |name: &OsStr| name.to_string_lossy().into_owned();
    let names = files.map(|file| name(&file.expect("the folder can be read").file_name()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}
