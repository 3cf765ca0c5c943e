//! Style rules that can be checked by a text search.
//!
//! Role: one function per rule, which returns the list of faults in the source tree.

mod language;
mod modules;
mod stems;
mod tree;

pub(super) use tree::Tree;
use tree::{SourceFile, words};

/// The name of a rule, and the function that finds its violations.
type Rule = (&'static str, fn(&Tree) -> Vec<String>);

/// All rules, in the order in which they run.
pub(super) const RULES: [Rule; 11] = [
    ("headers", headers),
    ("unfinished", unfinished),
    ("ignored", ignored),
    ("sleep", sleep),
    ("stems", stems::faults),
    ("modules", modules::faults),
    ("language", language::faults),
    ("wgsl", wgsl),
    ("wgpu", wgpu),
    ("versions", versions),
    ("comparator", comparator),
];

/// The code that may use wgpu: one folder, and the example of a device that an application opens.
const WGPU_PLACES: [&str; 2] = [
    "crates/gpu-wgsl/src/device/",
    "crates/gpu-wgsl/examples/existing_device.rs",
];
/// Crates that would add a second comparator.
const COMPARATORS: [&str; 4] = ["approx", "assert_approx_eq", "float-cmp", "float_eq"];

/// Checks that every file begins with a header.
fn headers(tree: &Tree) -> Vec<String> {
    let lacks = |extension: &'static str, mark: &'static str| {
        tree.with_extension(extension)
            .filter(move |file| !file.text.starts_with(mark))
            .map(move |file| format!("{}:1: missing `{mark}` header", file.path))
    };
    lacks("rs", "//!").chain(lacks("wgsl", "//")).collect()
}

/// Checks that every mark of unfinished work has the number of an issue.
fn unfinished(tree: &Tree) -> Vec<String> {
    const MARKS: [&str; 3] = ["TODO", "FIXME", "XXX"];
    let mut faults = Vec::new();
    for file in tree.with_extension("rs").chain(tree.with_extension("wgsl")) {
        for line in file.lines() {
            for mark in MARKS {
                if words(line.comment).any(|(word, rest)| word == mark && !has_number(rest)) {
                    let place = &line.place;
                    faults.push(format!("{place}: {mark} without an issue: {mark}(#12)"));
                }
            }
        }
    }
    faults
}

/// Returns whether a text begins like `(#12)`.
fn has_number(text: &str) -> bool {
    let number = text
        .strip_prefix("(#")
        .and_then(|rest| rest.split_once(')'));
    number.is_some_and(|(digits, _)| digits.parse::<u32>().is_ok())
}

/// Checks that no test is ignored.
fn ignored(tree: &Tree) -> Vec<String> {
    find(
        tree.with_extension("rs"),
        "a test has `#[ignore]`",
        |code| code.trim_start().starts_with("#[ignore"),
    )
}

/// Checks that no test sleeps.
fn sleep(tree: &Tree) -> Vec<String> {
    let lines = tree.with_extension("rs").flat_map(SourceFile::test_lines);
    // Written in two parts, because this file would otherwise violate the rule.
    let call = concat!("thread::", "sleep");
    lines
        .filter(|line| line.code.contains(call))
        .map(|line| format!("{}: test sleeps", line.place))
        .collect()
}

/// Checks that only the crate `shaders` reads shader files, and that no text contains a directive
/// that naga rejects.
fn wgsl(tree: &Tree) -> Vec<String> {
    // xtask reads all files of the tree, and its tests contain names of shader files.
    let is_stranger =
        |file: &&SourceFile| !file.path.starts_with("shaders/") && !file.path.starts_with("xtask/");
    let strangers = tree.with_extension("rs").filter(is_stranger);
    let mut faults = find(strangers, "reads a shader file by path", |code| {
        code.contains(".wgsl\"")
    });
    // Written in two parts, because this file would otherwise violate the rule.
    let refused = concat!("enable ", "subgroups;");
    let all = tree.with_extension("rs").chain(tree.with_extension("wgsl"));
    let why = "naga rejects this directive; the built-ins work without it";
    faults.extend(find(all, why, |code| code.contains(refused)));
    faults
}

/// Checks that only the allowed code uses wgpu; comments may mention it anywhere.
fn wgpu(tree: &Tree) -> Vec<String> {
    let files = tree.with_extension("rs");
    let is_allowed = |path: &str| WGPU_PLACES.iter().any(|place| path.starts_with(place));
    let strangers = files.filter(|file| !is_allowed(&file.path));
    find(strangers, "uses wgpu", |code| {
        let mut found = words(code);
        found.any(|(word, rest)| match word {
            "wgpu" => rest.starts_with("::"),
            "use" => words(rest).next().is_some_and(|(used, _)| used == "wgpu"),
            _ => false,
        })
    })
}

/// Checks that versions are defined in the root manifest only.
fn versions(tree: &Tree) -> Vec<String> {
    // A package that is a workspace of its own has no root to inherit from; the root is such a
    // package, too.
    let is_member = |file: &&SourceFile| !file.text.lines().any(|line| line == "[workspace]");
    let members = tree.with_extension("toml").filter(is_member);
    let mut faults = Vec::new();
    for file in members {
        for (place, line) in dependency_lines(file) {
            let compact = line.replace(' ', "");
            // A crate that depends on itself in tests has no version there, so that its package can
            // leave the dependency out.
            let is_inherited = compact.contains("workspace=true");
            if !is_inherited && !compact.contains("{path=\".\"") {
                faults.push(format!(
                    "{place}: `{line}` does not inherit from the workspace"
                ));
            }
        }
    }
    faults
}

/// Checks that `tensor_core::compare` is the only comparator.
fn comparator(tree: &Tree) -> Vec<String> {
    let manifests = tree.with_extension("toml");
    manifests
        .flat_map(dependency_lines)
        .filter_map(|(place, line)| {
            let name = line.split(['.', '=', ' ']).next()?;
            let fault = format!("{place}: {name} is a second comparator");
            COMPARATORS.contains(&name).then_some(fault)
        })
        .collect()
}

/// Returns the lines of the dependency tables of a manifest, with their places.
fn dependency_lines(manifest: &SourceFile) -> Vec<(String, &str)> {
    let mut inside = false;
    let mut lines = Vec::new();
    for (idx, line) in manifest.text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.trim_end().ends_with("dependencies]");
        } else if inside && !line.trim().is_empty() && !line.starts_with('#') {
            lines.push((format!("{}:{}", manifest.path, idx + 1), line.trim()));
        }
    }
    lines
}

/// Returns the places whose code violates a rule.
fn find<'a>(
    files: impl Iterator<Item = &'a SourceFile>,
    fault: &str,
    breaks: impl Fn(&str) -> bool,
) -> Vec<String> {
    files
        .flat_map(SourceFile::lines)
        .filter(|line| breaks(line.code))
        .map(|line| format!("{}: {fault}", line.place))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_is_named() {
        let tree = Tree::from_files(&[
            ("a.rs", "//! Header.\n"),
            ("b.rs", "// Comment.\n"),
            ("c.wgsl", "// Header.\n"),
            ("d.wgsl", "fn f() {}\n"),
        ]);
        assert_eq!(
            headers(&tree),
            [
                "b.rs:1: missing `//!` header",
                "d.wgsl:1: missing `//` header",
            ]
        );
    }

    #[test]
    fn unfinished_work_needs_a_number() {
        let text = ["TODO: x", "TODO(#12): x", "AUTODOC", "FIXME(me)", "XXX"]
            .map(|comment| format!("let a = 1; // {comment}\n"))
            .concat();
        let faults = unfinished(&Tree::from_files(&[("a.rs", &text)]));
        let places: Vec<_> = faults.iter().map(|fault| &fault[..6]).collect();
        assert_eq!(places, ["a.rs:1", "a.rs:4", "a.rs:5"]);
    }

    #[test]
    fn tests_may_neither_be_off_nor_sleep() {
        let nap = concat!("std::thread::", "sleep(d);\n");
        let off = concat!("    #[ig", "nore]\n");
        let tested = format!("{nap}#[cfg(test)]\nmod tests {{\n{off}{nap}}}\n");
        let tree = Tree::from_files(&[("a/src/x.rs", &tested), ("a/tests/y.rs", nap)]);
        assert_eq!(ignored(&tree), ["a/src/x.rs:4: a test has `#[ignore]`"]);
        assert_eq!(
            sleep(&tree),
            ["a/src/x.rs:5: test sleeps", "a/tests/y.rs:1: test sleeps"]
        );
    }

    #[test]
    fn shader_text_stays_in_its_crate_and_free_of_the_directive() {
        let read = "include_str!(\"a.wgsl\")\n";
        let directive = concat!("enable ", "subgroups;\n");
        let tree = Tree::from_files(&[
            ("shaders/src/source.rs", read),
            ("crates/g/src/x.rs", read),
            ("shaders/wgsl/a.wgsl", directive),
            ("shaders/wgsl/b.wgsl", &format!("// Never {directive}")),
        ]);
        let faults = wgsl(&tree);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("crates/g/src/x.rs:1: reads"));
        assert!(faults[1].starts_with("shaders/wgsl/a.wgsl:1: naga"));
    }

    #[test]
    fn wgpu_is_named_by_the_device_module_only() {
        // Written in two parts, because this file would otherwise violate the rule.
        let path = concat!("let limits = wg", "pu::Limits::default();\n");
        let import = concat!("pub use wg", "pu as gpu;\n");
        let innocent = "// wgpu::Limits\n/// use wgpu\nlet names = [\"wgpu\"]; by_wgpu::f();\n";
        let tree = Tree::from_files(&[
            ("crates/gpu-wgsl/src/device/open.rs", path),
            ("crates/gpu-wgsl/src/pool.rs", path),
            ("crates/games/src/gpu.rs", import),
            ("xtask/src/edges.rs", innocent),
        ]);
        assert_eq!(
            wgpu(&tree),
            [
                "crates/gpu-wgsl/src/pool.rs:1: uses wgpu",
                "crates/games/src/gpu.rs:1: uses wgpu",
            ]
        );
    }

    #[test]
    fn members_inherit_versions_and_compare_one_way() {
        let member = "[package]\nversion.workspace = true\n[dependencies]\n# Why.\n\
            a.workspace = true\nb = { workspace = true, optional = true }\nc = \"1\"\n\n\
            [target.'cfg(unix)'.dev-dependencies]\napprox.workspace = true\nd = { path = \"x\" }\n";
        let apart = "[workspace]\n\n[dependencies]\ne = \"1\"\n";
        let root = "[workspace]\n[workspace.dependencies]\na = \"1\"\nfloat-cmp = \"0.10\"\n";
        let tree = Tree::from_files(&[
            ("Cargo.toml", root),
            ("apart/Cargo.toml", apart),
            ("m/Cargo.toml", member),
        ]);
        assert_eq!(
            versions(&tree),
            [
                "m/Cargo.toml:7: `c = \"1\"` does not inherit from the workspace",
                "m/Cargo.toml:11: `d = { path = \"x\" }` does not inherit from the workspace",
            ]
        );
        assert_eq!(
            comparator(&tree),
            [
                "Cargo.toml:4: float-cmp is a second comparator",
                "m/Cargo.toml:10: approx is a second comparator",
            ]
        );
    }
}
