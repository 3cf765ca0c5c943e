//! Rule for kernels: a fixed kernel has a twin, a test of the twin, a kernel test and a use.
//!
//! Role: one rule of tidy. The stem of `shaders/wgsl/<stem>.wgsl` is searched as a whole
//! identifier, so that a kernel is not confused with a kernel whose name begins with the same text.
//! Method: a kernel test is a file below `crates/*/tests` that calls `KERNEL_CHECK`. A use is
//! non-test code of a crate (the wrapper) or of benches (the bench).

use super::tree::{SourceFile, SourceLine, Tree, names};

/// The function that compares a kernel with its twin.
const KERNEL_CHECK: &str = "check_on_every_adapter";

/// Stems that are only used in tests, each with a reason. The exemption must be removed with the
/// first use.
const UNUSED: [(&str, &str); 1] = [(
    "philox_fill",
    "random words on a device are provided for future sampling crates",
)];

/// Returns the faults of every stem.
pub(super) fn faults(tree: &Tree) -> Vec<String> {
    let files = tree.with_extension("wgsl");
    let stems = files.filter_map(|file| {
        let name = file.path.strip_prefix("shaders/wgsl/")?;
        name.strip_suffix(".wgsl")
            .filter(|stem| !stem.contains('/'))
    });
    stems.flat_map(|stem| faults_of(tree, stem)).collect()
}

fn faults_of(tree: &Tree, stem: &str) -> Vec<String> {
    let constant = stem.to_uppercase();
    let is_laid_out = |line: SourceLine<'_>| names(line.code, "layout", &constant);
    let has_twin = tree.has(&format!("shaders/src/twin/{stem}.rs"));
    let is_twin_tested = rust(tree, "shaders/tests/")
        .any(|file| file.lines().any(|line| names(line.code, "twin", stem)));
    let is_tested = rust(tree, "crates/")
        .filter(|file| file.path.contains("/tests/") && file.text.contains(KERNEL_CHECK))
        .any(|file| file.lines().any(is_laid_out));
    let is_used = rust(tree, "crates/")
        .chain(rust(tree, "benches/"))
        .filter(|file| file.path.contains("/src/"))
        .any(|file| file.shipped_lines().any(is_laid_out));
    let is_exempt = UNUSED.iter().any(|(unused, _)| *unused == stem);
    [
        (has_twin, format!("no twin in shaders/src/twin/{stem}.rs")),
        (
            is_twin_tested,
            format!("no test in shaders/tests/ uses twin::{stem}"),
        ),
        (
            is_tested,
            format!("no kernel test in crates/*/tests/ uses layout::{constant}"),
        ),
        (
            is_used || is_exempt,
            format!("no wrapper or bench uses layout::{constant}"),
        ),
        (
            !(is_used && is_exempt),
            "is used; remove it from the list of unused stems".to_owned(),
        ),
    ]
    .into_iter()
    .filter(|(holds, _)| !holds)
    .map(|(_, fault)| format!("{stem}: {fault}"))
    .collect()
}

/// Returns the Rust files below a folder.
fn rust<'a>(tree: &'a Tree, folder: &str) -> impl Iterator<Item = &'a SourceFile> {
    tree.with_extension("rs")
        .filter(move |file| file.path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WGSL: &str = "shaders/wgsl/row_sum.wgsl";
    const TWIN: &str = "shaders/src/twin/row_sum.rs";
    const TWIN_TEST: (&str, &str) = ("shaders/tests/twins.rs", "twin::row_sum(&x);\n");
    const KERNEL_TEST: (&str, &str) = (
        "crates/g/tests/kernels.rs",
        "check_on_every_adapter(&case(&layout::ROW_SUM));\n",
    );
    const WRAPPER: (&str, &str) = ("crates/g/src/gpu/row_sum.rs", "(&layout::ROW_SUM)\n");

    #[test]
    fn a_stem_that_has_everything_passes() {
        for used in [WRAPPER, ("benches/src/sums.rs", WRAPPER.1)] {
            let shared = ("shaders/wgsl/shared/grid.wgsl", "");
            let files = [(WGSL, ""), (TWIN, ""), TWIN_TEST, KERNEL_TEST, used, shared];
            assert_eq!(faults(&Tree::from_files(&files)), Vec::<String>::new());
        }
    }

    #[test]
    fn a_stem_of_which_only_a_longer_one_has_everything_is_named() {
        let tree = Tree::from_files(&[
            ("shaders/wgsl/row.wgsl", ""),
            (TWIN, ""),
            TWIN_TEST,
            KERNEL_TEST,
            WRAPPER,
        ]);
        assert_eq!(
            faults(&tree),
            [
                "row: no twin in shaders/src/twin/row.rs",
                "row: no test in shaders/tests/ uses twin::row",
                "row: no kernel test in crates/*/tests/ uses layout::ROW",
                "row: no wrapper or bench uses layout::ROW",
            ]
        );
    }

    #[test]
    fn tests_are_no_use_and_other_tests_no_kernel_test() {
        let tree = Tree::from_files(&[
            (WGSL, ""),
            (TWIN, ""),
            TWIN_TEST,
            (
                "crates/g/tests/errors.rs",
                "gpu.dispatch(&layout::ROW_SUM)\n",
            ),
            (
                "crates/g/src/sum.rs",
                "//! layout::ROW_SUM\n#[cfg(test)]\n(layout::ROW_SUM)\n",
            ),
        ]);
        assert_eq!(
            faults(&tree),
            [
                "row_sum: no kernel test in crates/*/tests/ uses layout::ROW_SUM",
                "row_sum: no wrapper or bench uses layout::ROW_SUM",
            ]
        );
    }

    #[test]
    fn an_exemption_ends_with_the_first_use() {
        let (stem, _) = UNUSED[0];
        let layout = format!(
            "check_on_every_adapter(&layout::{});\n",
            stem.to_uppercase()
        );
        let (wgsl, twin) = (
            format!("shaders/wgsl/{stem}.wgsl"),
            format!("shaders/src/twin/{stem}.rs"),
        );
        let twin_test = format!("twin::{stem}();\n");
        let mut files = vec![
            (wgsl.as_str(), ""),
            (&twin, ""),
            (TWIN_TEST.0, &twin_test),
            (KERNEL_TEST.0, &layout),
        ];
        assert_eq!(faults(&Tree::from_files(&files)), Vec::<String>::new());
        files.push((WRAPPER.0, &layout));
        let fault = format!("{stem}: is used; remove it from the list of unused stems");
        assert_eq!(faults(&Tree::from_files(&files)), [fault]);
    }
}
