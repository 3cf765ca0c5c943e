//! The program `cluster`, as a user starts it.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::env::current_exe;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tensor_core::Tensor;
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::data::npy;

use crate::job::{Folder, mpirun, names};

/// Returns the command that runs the program on `n` ranks in a folder.
fn command(n: usize, folder: &Path, args: &str) -> Command {
    let mut command = mpirun(n);
    command
        .arg(env!("CARGO_BIN_EXE_cluster"))
        .args(args.split_whitespace())
        .current_dir(folder);
    command
}

/// Runs the program on `n` ranks in a folder.
fn run(n: usize, folder: &Path, args: &str) -> Output {
    command(n, folder, args).output().unwrap()
}

/// Runs the program and returns its results.
fn results_of(n: usize, folder: &Path, args: &str) -> Value {
    let output = run(n, folder, &format!("{args} --json --quiet"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args}\n{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs the program, which fails, and returns its messages.
fn failure(n: usize, folder: &Path, args: &str) -> String {
    let output = run(n, folder, args);
    assert!(!output.status.success(), "{args}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn similar_pairs_do_not_depend_on_ranks_and_tiles_are_files() {
    let folder = Folder::new("similarity");
    // Two rows of quarters, whose differences are exact.
    let n = 150;
    let number = |place: usize| (place * 37 % 23) as f32 / 4.0;
    let numbers: Vec<f32> = (0..2 * n).map(number).collect();
    let similar = |i: usize, j: usize| {
        let differs = |row: usize| (numbers[row * n + i] - numbers[row * n + j]).abs() < 1.0;
        differs(0) && differs(1)
    };
    let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
    let expected = pairs.filter(|&(i, j)| similar(i, j)).count();
    assert!(expected > n && expected < n * n / 2);
    npy::write(
        folder.0.join("x.npy"),
        &Tensor::from_vec(&[2, n], numbers.clone()),
    )
    .unwrap();
    for n_ranks in [1, 3] {
        let output = format!("tiles-{n_ranks}");
        let args = format!("similarity --input x.npy --tile 64 --output {output}");
        let results = results_of(n_ranks, &folder.0, &args);
        assert_eq!(results["similar_pairs"], expected);
        assert_eq!(results["pairs"], n * n);
        assert_eq!(results["ranks"], n_ranks);
        let tiles = folder.0.join(output);
        assert_eq!(names(&tiles).len(), 6);
        let tile = npy::read(tiles.join("tile-64-128.npy")).unwrap();
        assert_eq!(tile.shape().unwrap(), [64, 1]);
        let args = format!("similarity --input x.npy --tile 64 --journal j-{n_ranks}");
        let counted = results_of(n_ranks, &folder.0, &args);
        assert_eq!(counted["similar_pairs"], expected);
        // The journal of a job without files is not that of a job with files.
        let text = failure(n_ranks, &folder.0, &format!("{args} --output more"));
        assert!(text.contains("belongs to another job"), "{text}");
        for (row, word) in tile.to_host::<u32>().unwrap().into_iter().enumerate() {
            let bit = |col: usize| word >> col & 1 == 1;
            assert!((0..22).all(|col| bit(col) == similar(64 + row, 128 + col)));
        }
    }
}

#[test]
fn a_training_has_the_same_bits_on_any_number_of_ranks_and_continues() {
    let folder = Folder::new("train");
    let args = "train --random 320 --batch 64 --shards 8 --hidden 24,12 --rate 0.2";
    let rows = |n_ranks: usize, more: &str| {
        let results = results_of(n_ranks, &folder.0, &format!("{args} {more}"));
        results["rows"].as_array().unwrap().clone()
    };
    let one = rows(1, "--epochs 4");
    assert_eq!(one.len(), 4);
    assert!(one[3]["loss"].as_f64().unwrap() < one[0]["loss"].as_f64().unwrap());
    assert_eq!(rows(2, "--epochs 4"), one);
    assert_eq!(rows(3, "--epochs 4 --threads 1"), one);
    let portable = rows(1, "--epochs 4 --portable");
    assert_eq!(rows(2, "--epochs 4 --portable"), portable);
    // Without the widest vectors and the GEMM library, the sums have other roundings: 20 steps
    // change a loss by less than a hundred of them.
    let losses = |rows: &[Value]| -> Vec<f32> {
        let bits = rows.iter().map(|row| row["bits"].as_str().unwrap());
        let bits = bits.map(|bits| u32::from_str_radix(bits, 16).unwrap());
        bits.map(f32::from_bits).collect()
    };
    assert_close(
        &losses(&portable)[..],
        &losses(&one)[..],
        Tolerance::relative(100),
    );
    // Four shards are another order of the sums.
    assert_ne!(rows(2, "--epochs 4 --shards 4"), one);
    // A checkpoint of the last epoch leaves nothing to do.
    assert_eq!(rows(2, "--epochs 4 --checkpoint c"), one);
    assert_eq!(rows(3, "--epochs 4 --checkpoint c"), Vec::<Value>::new());
    let text = failure(
        2,
        &folder.0,
        &format!("{args} --epochs 5 --checkpoint c --quiet"),
    );
    assert!(text.contains("recipe"), "{text}");
    let text = failure(2, &folder.0, &format!("{args} --shards 7"));
    assert!(
        text.contains("--batch 64 is not a multiple of --shards 7"),
        "{text}"
    );
}

#[test]
fn games_have_the_same_results_on_any_number_of_ranks_and_continue() {
    let folder = Folder::new("games");
    let args = "games --games 700 --batch 64 --rules all --seeds 2 --iterations 50";
    let one = results_of(1, &folder.0, args);
    let rows = one["rows"].as_array().unwrap();
    assert_eq!(
        (rows.len(), &rows[3]["rule"]),
        (12, &"regret-matching+".into())
    );
    assert!(rows.iter().all(|row| row["games"] == 700));
    assert_eq!(results_of(4, &folder.0, args)["rows"], one["rows"]);
    let first = results_of(3, &folder.0, &format!("{args} --journal j"));
    assert_eq!(
        (&first["rows"], &first["resumed_tasks"]),
        (&one["rows"], &0.into())
    );
    let again = results_of(2, &folder.0, &format!("{args} --journal j"));
    assert_eq!(
        (&again["rows"], &again["resumed_tasks"]),
        (&one["rows"], &132.into())
    );
    let text = failure(2, &folder.0, &format!("{args} --seeds 3 --journal j"));
    assert!(text.contains("belongs to another job"), "{text}");
}

#[test]
fn a_sweep_runs_each_line_once_and_reports_failures() {
    let folder = Folder::new("sweep");
    let lines = "echo $TASK; env | grep -c ^OMPI_ ; env | grep -c ^PMI; \
        env | grep -E '^SLURM_(STEP_NUM_TASKS|TEST_JOB)='; true\n# no\n\n echo on >&2\n\
        exit 7\n";
    fs::write(folder.0.join("lines"), lines).unwrap();
    for n in [1, 3] {
        // Variables of `srun`: the number of ranks, and the number of the job.
        let mut command = command(n, &folder.0, "sweep lines --output out --journal j --json");
        command.env("SLURM_STEP_NUM_TASKS", n.to_string());
        let output = command.env("SLURM_TEST_JOB", "5").output().unwrap();
        assert!(!output.status.success());
        let results: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(results["failed_commands"], 1);
        assert_eq!(results["rows"][2]["exit_code"], 7);
        assert_eq!(results["resumed_tasks"], if n == 1 { 0 } else { 3 });
        let read = |name: &str| fs::read_to_string(folder.0.join("out").join(name)).unwrap();
        // The launcher's variables are gone, and the variable of the job is not.
        let expected = ("1\n0\n0\nSLURM_TEST_JOB=5\n", "on\n");
        assert_eq!((&*read("1.out"), &*read("2.err")), expected);
    }
    let text = failure(2, &folder.0, "sweep nothing");
    assert!(text.contains("cannot read nothing"), "{text}");
    let text = failure(2, &folder.0, "sweep lines --output elsewhere --journal j");
    assert!(text.contains("belongs to another job"), "{text}");
    fs::write(folder.0.join("bytes"), b"echo a\necho \xff\n").unwrap();
    let text = failure(2, &folder.0, "sweep bytes");
    assert!(text.contains("bytes: line 2 is not UTF-8"), "{text}");
}

#[test]
fn commands_that_cannot_run_are_failures_and_killed_ones_are_not_finished() {
    let folder = Folder::new("commands");
    // A zero byte; and a process in the background, which does not hold the job open.
    let lines = "echo \0\ntail -f /dev/null & echo $!\n";
    fs::write(folder.0.join("lines"), lines).unwrap();
    let output = run(2, &folder.0, "sweep lines --json");
    assert!(!output.status.success());
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["rows"][0]["exit_code"], 126);
    assert_eq!(results["rows"][1]["exit_code"], 0);
    let background = fs::read_to_string(folder.0.join("sweep/2.out")).unwrap();
    let ended = Command::new("kill").arg(background.trim()).status();
    assert!(ended.unwrap().success(), "{background}");
    // A journal does not contain a command that a scheduler killed, whether the signal ended the
    // shell or a program that the shell ran.
    for (name, end) in [
        ("shell", "kill -TERM $$"),
        ("program", "sh -c 'kill -TERM $$'; exit $?"),
    ] {
        let lines = format!("test -e {name} && exit 0; touch {name}; {end}\n");
        fs::write(folder.0.join("lines"), lines).unwrap();
        let args = format!("sweep lines --journal {name}.journal");
        let text = failure(2, &folder.0, &args);
        assert!(text.contains("command 1 was ended by signal 15"), "{text}");
        let again = results_of(2, &folder.0, &args);
        assert_eq!(
            (&again["resumed_tasks"], &again["failed_commands"]),
            (&0.into(), &0.into())
        );
    }
}

#[test]
fn wrong_command_lines_are_errors_without_mpi() {
    let program = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_cluster"))
            .args(args)
            .output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (
            output.status.code(),
            text + &String::from_utf8_lossy(&output.stdout),
        )
    };
    for args in [&["--help"][..], &["train", "--help"], &["--version"]] {
        let (code, text) = program(args);
        assert!(code == Some(0) && text.contains("cluster"), "{text}");
    }
    for (args, problem) in [
        (&[][..], "Usage: cluster"),
        (&["swep"], "unrecognized subcommand 'swep'"),
        (&["similarity"], "<--input <FILE>|--random <ROWSxCOLUMNS>>"),
        (&["similarity", "--random", "3"], "expected two numbers"),
        (&["similarity", "--random", "3x0"], "at least 1"),
        (&["similarity", "x.npy"], "unexpected argument"),
        (
            &["similarity", "--random", "3x3", "--input", "x"],
            "cannot be used with",
        ),
        (
            &["similarity", "--random", "3x3", "--limit", "nan"],
            "above 0",
        ),
        (&["tasks", "--threads", "1025"], "at most 1024"),
        (&["tasks", "--predict", "1000001"], "at most 1000000"),
        (&["tasks", "--predict", "9", "--network", "1,0"], "GB/s"),
        (&["tasks", "--network", "1,1"], "--predict <LIST>"),
        (&["tasks", "--nvml", "x"], "--trace <FOLDER>"),
        (
            &["tasks", "--trace", "x", "--repeat"],
            "cannot be used with",
        ),
        (&["games", "--rules", "linear,linear"], "listed twice"),
        (&["sweep", "a", "--predict", "4"], "not for this command"),
        (&["games", "--rules", "luck"], "unknown rule \"luck\""),
        (&["games", "--games", "-1"], "at least 1"),
        (&["train"], "--images <FILE>"),
        (&["train", "--random", "9", "--rate", "NaN"], "--rate <X>"),
        (
            &["train", "--random", "9", "--levels", "w9"],
            "--levels <NAME>",
        ),
        (
            &["train", "--random", "9", "--classes", "1001"],
            "--classes 1001 is more than a random image has pixels (1000)",
        ),
        (
            &["train", "--random", "9", "--classes", "65537"],
            "--classes <N>",
        ),
        (
            &["train", "--random", "99", "--batch", "50"],
            "--batch 50 is not a multiple of --shards 8",
        ),
        (
            &["similarity", "--random", "3x3", "--executor="],
            "--executor <NAME>",
        ),
        (
            &["similarity", "--random", "3x3", "--limit", "inf"],
            "above 0",
        ),
        (&["tasks", "--tasks", "-1"], "--tasks <N>"),
        (
            &["train", "--random", "9", "--journal", "j"],
            "use --checkpoint",
        ),
        (&["sweep"], "arguments were not provided:\n  <FILE>"),
        (&["sweep", "a", "--bad"], "--bad"),
    ] {
        let (code, text) = program(args);
        assert!(
            code == Some(2) && text.contains(problem),
            "{args:?}: {code:?} {text}"
        );
    }
}

#[test]
fn ranks_with_different_arguments_or_without_a_gpu_are_errors() {
    let folder = Folder::new("ranks");
    let program = env!("CARGO_BIN_EXE_cluster");
    let output = mpirun(1)
        .args([program, "games", "--games", "10", ":", "-n", "1", program])
        .args(["games", "--games", "11"])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(text.contains("command line of rank 1 differs"), "{text}");
    // A rank with a wrong command line, or with a request for help, does not leave the other one
    // waiting.
    for other in [
        &["tasks", "--stps", "1"][..],
        &["--help"],
        &["tasks", "--threads", "0"],
        // An argument with a blank is not two arguments.
        &["tasks --tasks 3"],
    ] {
        for is_first in [false, true] {
            let mut ranks = [&["tasks"][..], other];
            if is_first {
                ranks.reverse();
            }
            let mut job = mpirun(1);
            job.arg(program).args(ranks[0]);
            job.args([":", "-n", "1", program]).args(ranks[1]);
            let output = job.current_dir(&folder.0).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success());
            assert!(text.contains("command line of rank 1 differs"), "{text}");
        }
    }
    // Sizes that no memory holds.
    for args in [
        "similarity --random 1000000x1000000000",
        "games --games 1000000000000 --batch 1000000000000 --actions 1000",
        "games --seeds 18446744073709551615 --rules all",
        "games --seeds 1000000000000",
        "train --random 100000000000000",
    ] {
        let text = failure(2, &folder.0, args);
        assert!(
            text.matches("error: cluster").count() == 1,
            "{args}: {text}"
        );
        let is_known = [
            "not enough memory",
            "too many games",
            "number of tasks is invalid",
        ];
        assert!(
            is_known.iter().any(|known| text.contains(known)),
            "{args}: {text}"
        );
    }
    let args = "similarity --random 2x64 --executor no-such-adapter";
    let text = failure(2, &folder.0, args);
    assert!(text.contains("no-such-adapter"), "{text}");
    // More ranks than any machine of tests has GPUs.
    let text = failure(
        9,
        &folder.0,
        "similarity --random 2x64 --executor gpu --threads 1",
    );
    assert!(text.contains("no GPU for rank"), "{text}");
    // A single matrix on a software adapter, if there is one.
    let has_adapter = gpu_wgsl::adapters().into_iter().next();
    if let Some(adapter) = has_adapter {
        let name = adapter
            .name
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned();
        let args = format!("similarity --random 8x96 --tile 32 --executor {name}");
        let on_device = results_of(2, &folder.0, &args);
        let on_host = results_of(2, &folder.0, "similarity --random 8x96 --tile 32");
        assert_eq!(on_device["similar_pairs"], on_host["similar_pairs"]);
    }
}

#[test]
fn each_host_has_one_trace_and_the_energies_are_added() {
    let folder = Folder::new("trace");
    let library = format!("{DLL_PREFIX}fake_nvml{DLL_SUFFIX}");
    let library = current_exe().unwrap().with_file_name(library);
    assert!(library.exists(), "no {}", library.display());
    let library = library.display();
    let args = format!("tasks --tasks 300 --steps 300000 --trace traces --nvml {library}");
    let results = results_of(3, &folder.0, &args);
    let host = results["hosts"].as_u64().unwrap();
    assert_eq!((host, names(&folder.0.join("traces")).len()), (1, 1));
    let number = |name: &str| results[name].as_f64().unwrap();
    let (low, high) = (number("energy_low_j"), number("energy_high_j"));
    // Simulated GPUs draw tens of watts each while they are idle.
    assert!(low > 0.1 * number("elapsed_s"), "{low} J");
    assert!(low <= number("energy_j") && number("energy_j") <= high);
    let text = failure(2, &folder.0, "tasks --trace traces --nvml nothing.so");
    assert!(text.contains("nothing.so"), "{text}");
}

#[test]
fn an_exchange_of_nothing_is_a_barrier() {
    crate::job::on_ranks(
        concat!(module_path!(), "::an_exchange_of_nothing_is_a_barrier"),
        &[1, 3],
        |cluster, _| {
            assert_eq!(
                cluster.exchange("wait", &()).unwrap().len(),
                cluster.n_ranks()
            )
        },
        |_| (),
    );
}
