//! The direction of imports between the modules of a crate.
//!
//! Role: keeps circles out. The table of edges lists the modules of each crate from the lowest to
//! the highest; a module may import only modules before it. A file counts for its top-level module.
//! Method: a text search for `crate::`, and for `super::` in the file of a top-level module. A name
//! that the crate's root re-exports counts for the module that it comes from.

use std::collections::HashMap;

use super::tree::{SourceFile, Tree, words};
use crate::verify::edges;

/// The sources of the crates whose modules have an order, by name.
const SOURCES: [(&str, &str); 15] = [
    ("tensor-core", "crates/tensor-core/src/"),
    ("shaders", "shaders/src/"),
    ("charts", "crates/charts/src/"),
    ("tool-io", "crates/tool-io/src/"),
    ("commands", "crates/commands/src/"),
    ("gpu-wgsl", "crates/gpu-wgsl/src/"),
    ("quant", "crates/quant/src/"),
    ("distributions", "crates/distributions/src/"),
    ("games", "crates/games/src/"),
    ("telemetry", "crates/telemetry/src/"),
    ("isa", "crates/isa/src/"),
    ("cluster", "crates/cluster/src/"),
    ("harness", "crates/harness/src/"),
    ("benches", "benches/src/"),
    ("web", "web/src/"),
];

/// Returns a fault for every import of a module that comes after the importing module in the order,
/// and for every module without a place in the order.
pub(super) fn faults(tree: &Tree) -> Vec<String> {
    let of_crate =
        |&(name, folder): &(&str, &str)| order_faults(tree, folder, &edges::modules(name));
    SOURCES.iter().flat_map(of_crate).collect()
}

fn order_faults(tree: &Tree, folder: &str, order: &[&str]) -> Vec<String> {
    let files = || {
        tree.with_extension("rs")
            .filter(|file| file.path.starts_with(folder))
    };
    let root = format!("{folder}lib.rs");
    let exports = files()
        .find(|file| file.path == root)
        .map(exports)
        .unwrap_or_default();
    let place = |module: &str| order.iter().position(|known| *known == module);
    let mut faults = Vec::new();
    for file in files() {
        let inside = &file.path[folder.len()..];
        let module = inside.split(['/', '.']).next().unwrap_or_default();
        if matches!(module, "lib" | "main" | "bin") || inside.ends_with("testdata.rs") {
            continue;
        }
        let Some(own) = place(module) else {
            faults.push(format!(
                "{}: module {module} is not in the table of edges",
                file.path
            ));
            continue;
        };
        let code = shipped_code(file);
        let is_top = !inside.contains('/') || inside.ends_with("/mod.rs");
        let mut names = imported(&code, "crate");
        if is_top {
            names.extend(imported(&code, "super"));
        }
        for name in names {
            let used = exports.get(name).map_or(name, String::as_str);
            if place(used).is_some_and(|used| used > own) {
                faults.push(format!(
                    "{}: module {module} imports {used}, a module after it in the table",
                    file.path
                ));
            }
        }
    }
    faults.dedup();
    faults
}

/// Returns the code of the lines that do not belong to tests, without comments.
fn shipped_code(file: &SourceFile) -> String {
    file.shipped_lines()
        .map(|line| line.code.to_owned() + "\n")
        .collect()
}

/// Returns the module of each name that the root re-exports.
fn exports(root: &SourceFile) -> HashMap<String, String> {
    let code = shipped_code(root);
    let mut exports = HashMap::new();
    for statement in code
        .split("pub use ")
        .skip(1)
        .filter_map(|rest| rest.split(';').next())
    {
        let mut names = words(statement).map(|(word, _)| word);
        let Some(module) = names.next() else { continue };
        exports.extend(names.map(|name| (name.to_owned(), module.to_owned())));
    }
    exports
}

/// Returns the first names of all paths that begin with `origin::`: of `crate::{a::B, C}`, `a` and
/// `C`.
fn imported<'a>(code: &'a str, origin: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (_, rest) in words(code).filter(|(word, _)| *word == origin) {
        let Some(path) = rest.strip_prefix("::") else {
            continue;
        };
        let Some(group) = path.strip_prefix('{') else {
            names.extend(words(path).next().map(|(name, _)| name));
            continue;
        };
        // The names at the first level of the braces.
        let mut depth = 0_usize;
        let mut is_first = true;
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_first = true,
                _ if is_first && !c.is_whitespace() => {
                    names.extend(words(&group[at..]).next().map(|(name, _)| name));
                    is_first = false;
                }
                _ => {}
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "pub use low::{Data, Kind};\npub use high::Run;\n";

    #[test]
    fn every_crate_whose_modules_have_an_order_has_a_source() {
        let ordered = edges::crates().filter(|name| !edges::modules(name).is_empty());
        let mut ordered: Vec<&str> = ordered.collect();
        let mut sources = SOURCES.map(|(name, _)| name);
        ordered.sort_unstable();
        sources.sort_unstable();
        assert_eq!(ordered, sources);
    }

    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::from_files(&[("c/src/lib.rs", ROOT), (path, text)]);
        order_faults(&tree, "c/src/", &["low", "high"])
    }

    #[test]
    fn imports_of_lower_modules_pass() {
        for text in [
            "use crate::low::Data;",
            "use crate::{Data, low::{Kind, other}};",
            "fn f(x: crate::Kind) {}",
            "use std::fmt;",
        ] {
            assert_eq!(found("c/src/high.rs", text), Vec::<String>::new(), "{text}");
            assert_eq!(
                found("c/src/high/part.rs", text),
                Vec::<String>::new(),
                "{text}"
            );
        }
    }

    #[test]
    fn every_form_of_an_import_upwards_is_found() {
        for text in [
            "use crate::high::Run;",
            "use crate::{\n    Data,\n    high::{self, Run},\n};",
            "use crate::{low::Data, Run};",
            "fn f(x: crate::Run) {}",
            "use super::high;",
        ] {
            let faults = found("c/src/low.rs", text);
            assert_eq!(
                faults,
                ["c/src/low.rs: module low imports high, a module after it in the table"],
                "{text}"
            );
        }
        assert_eq!(found("c/src/low/part.rs", "use crate::Run;").len(), 1);
    }

    #[test]
    fn tests_may_import_everything_and_a_new_module_needs_a_place() {
        let tests = "#[cfg(test)]\nmod tests {\n    use crate::Run;\n}\n";
        assert_eq!(found("c/src/low.rs", tests), Vec::<String>::new());
        let faults = found("c/src/new.rs", "");
        assert_eq!(
            faults,
            ["c/src/new.rs: module new is not in the table of edges"]
        );
    }
}
