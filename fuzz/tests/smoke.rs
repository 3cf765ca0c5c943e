//! Replays the corpus of every target, and a fixed number of mutations of it.
//!
//! Method: a panic is caught and reported with the input. The corpus has all checks, mutations have
//! the expensive checks as in a run of libFuzzer. The numbers of mutations take about a second each
//! in the profile `dev`.

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fuzz::mutator::Mutator;
use fuzz::{TARGETS, Target, with_all_checks};

/// Creates a test for each target, and a list of their names.
macro_rules! smoke {
    ($($name:ident: $n_mutations:expr,)*) => {
        mod target {
            $(
                #[test]
                fn $name() {
                    super::replay(stringify!($name), $n_mutations);
                }
            )*
        }
        const SMOKE: &[&str] = &[$(stringify!($name)),*];
    };
}

smoke! {
    bench_record: 25_000,
    checkpoint: 2_000,
    efg: 4_000,
    einsum: 25_000,
    game: 1_500,
    idx: 50_000,
    journal: 500,
    names: 100_000,
    nfg: 20_000,
    npy: 50_000,
    packed_model: 20_000,
    rapl: 200,
    rows: 500,
    safetensors: 50_000,
    scenario: 10_000,
    state_dict: 2_500,
    tensor_program: 10_000,
    trace: 2_000,
    trace_chrome: 5_000,
    trace_csv: 12_000,
    trace_json_lines: 10_000,
    trace_semicolon_csv: 10_000,
}

/// Runs a target on its corpus, and on a number of mutations of it.
fn replay(name: &str, n_mutations: usize) {
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.expect("the test has the name of a target");
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "{name} has no corpus");
    let mut mutator = Mutator::new(n_mutations as u64);
    let mutations = (0..n_mutations).map(|_| mutator.mutate(&corpus));
    let known = with_all_checks(|| check(target, corpus.iter().cloned()));
    if let Err(fault) = known.and_then(|_| check(target, mutations)) {
        panic!("{fault}");
    }
}

/// Runs a target on some inputs.
///
/// # Errors
/// The input at which the target panicked, escaped as in a byte string.
fn check(target: &Target, inputs: impl Iterator<Item = Vec<u8>>) -> Result<usize, String> {
    let mut n_inputs = 0;
    for (number, input) in inputs.enumerate() {
        let run = AssertUnwindSafe(|| (target.run)(&input));
        if catch_unwind(run).is_err() {
            let input = input.escape_ascii();
            return Err(format!(
                "{}: input {number} fails: b\"{input}\"",
                target.name
            ));
        }
        n_inputs += 1;
    }
    Ok(n_inputs)
}

/// Reads the corpus of a target, in the order of the file names.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let files = names(&folder("corpus").join(name));
    let read = |file: &String| fs::read(folder("corpus").join(name).join(file));
    files
        .iter()
        .map(|file| read(file).expect("a file of the corpus can be read"))
        .collect()
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns the names in a folder, sorted.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("the folder exists");
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.expect("the folder can be read").file_name();
    entries
        .map(|entry| name(entry).into_string().expect("names are ASCII"))
        .collect()
}

#[test]
fn every_target_has_a_program_a_corpus_and_a_test() {
    let expected: BTreeSet<String> = TARGETS.iter().map(|target| target.name.into()).collect();
    assert_eq!(expected.len(), TARGETS.len(), "a name occurs twice");
    assert_eq!(names(&folder("corpus")), expected);
    let programs = names(&folder("fuzz_targets")).into_iter();
    let programs = programs.map(|file| file.trim_end_matches(".rs").to_owned());
    assert_eq!(programs.collect::<BTreeSet<_>>(), expected);
    let tests: BTreeSet<String> = SMOKE.iter().map(|&name| name.into()).collect();
    assert_eq!(tests, expected);
    let manifest = fs::read_to_string(folder("Cargo.toml")).unwrap();
    for name in expected {
        let program = format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"");
        assert!(manifest.contains(&program), "Cargo.toml lacks {name}");
    }
}

#[test]
fn a_target_that_panics_is_reported_with_its_input() {
    let target = Target {
        name: "sevens",
        run: |bytes| assert!(!bytes.contains(&b'7'), "a seven"),
    };
    let inputs = [&b"12"[..], b"6\x007", b"7"].map(<[u8]>::to_vec);
    assert_eq!(check(&target, inputs[..1].iter().cloned()), Ok(1));
    assert_eq!(
        check(&target, inputs.into_iter()),
        Err(r#"sevens: input 1 fails: b"6\x007""#.to_owned())
    );
}

#[test]
fn mutations_reach_a_fault_that_the_corpus_does_not() {
    let target = Target {
        name: "length",
        run: |bytes| assert!(bytes.len() != 3),
    };
    let corpus = [b"abcdef"];
    let mut mutator = Mutator::new(1);
    let mutations = (0..1000).map(|_| mutator.mutate(&corpus));
    assert!(check(&target, mutations).is_err());
}
