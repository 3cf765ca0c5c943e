//! Allowed dependencies between the crates of the workspace, and on wgpu.
//!
//! Role: the table of edges in `ARCHITECTURE.md` as data, and the check of normal and build
//! dependencies against the table. Dev-dependencies are not checked, because cargo itself rejects
//! cycles.

use crate::workspace::{Dependency, Package};

/// The allowed dependencies of a crate.
struct Rule {
    name: &'static str,
    /// Crates of the workspace that the crate may use.
    may: Uses,
    /// Whether an optional dependency on the GPU crates is allowed (feature `gpu`).
    optional_gpu: bool,
    /// Packages that must not be part of the crate's dependencies with default features.
    never: &'static [&'static str],
}

enum Uses {
    Only(&'static [&'static str]),
    /// All libraries. No crate may depend on a crate with this rule.
    All,
}

const GPU_CRATES: [&str; 2] = ["gpu-wgsl", "shaders"];
/// The only crate that may depend on wgpu.
const WGPU_OWNER: &str = "gpu-wgsl";

const RULES: [Rule; 10] = [
    rule("tensor-core", Uses::Only(&[]), false, &["wgpu"]),
    rule("telemetry", Uses::Only(&[]), false, &["wgpu", "ndarray"]),
    rule("distributions", Uses::Only(&[]), true, &["wgpu", "ndarray"]),
    rule("shaders", Uses::Only(&[]), false, &["wgpu"]),
    rule(
        "gpu-wgsl",
        Uses::Only(&["tensor-core", "shaders"]),
        false,
        &[],
    ),
    rule("games", Uses::Only(&[]), true, &["wgpu"]),
    rule("quant", Uses::Only(&["tensor-core"]), true, &["wgpu"]),
    rule("fake-nvml", Uses::Only(&["telemetry"]), false, &["wgpu"]),
    rule("benches", Uses::All, false, &[]),
    rule("xtask", Uses::All, false, &[]),
];

const fn rule(
    name: &'static str,
    may: Uses,
    optional_gpu: bool,
    never: &'static [&'static str],
) -> Rule {
    Rule {
        name,
        may,
        optional_gpu,
        never,
    }
}

impl Rule {
    fn for_crate(name: &str) -> Option<&'static Self> {
        RULES.iter().find(|rule| rule.name == name)
    }

    fn is_library(&self) -> bool {
        matches!(self.may, Uses::Only(_))
    }

    fn allows(&self, dependency: &Dependency) -> bool {
        let name = dependency.name.as_str();
        match self.may {
            Uses::All => Self::for_crate(name).is_some_and(Self::is_library),
            Uses::Only(may) => {
                let by_feature = self.optional_gpu && dependency.optional;
                may.contains(&name) || (by_feature && GPU_CRATES.contains(&name))
            }
        }
    }
}

/// Returns a fault for every edge that is not in the table.
pub(super) fn faults(packages: &[Package]) -> Vec<String> {
    let is_ours = |name: &str| packages.iter().any(|package| package.name == name);
    let mut faults = Vec::new();
    for package in packages {
        let name = &package.name;
        let Some(rule) = Rule::for_crate(name) else {
            faults.push(format!("{name} is not in the table of edges"));
            continue;
        };
        for dependency in &package.dependencies {
            let used = &dependency.name;
            let is_wgpu = used == "wgpu" || used.starts_with("wgpu-");
            if is_wgpu && name != WGPU_OWNER {
                faults.push(format!("{name} depends on {used} (only {WGPU_OWNER} may)"));
            }
            if is_ours(used) && !dependency.dev && !rule.allows(dependency) {
                faults.push(format!("{name} -> {used} is not in the table of edges"));
            }
        }
    }
    faults
}

/// Returns the libraries of the workspace: all members except programs.
pub(super) fn libraries(packages: &[Package]) -> impl Iterator<Item = &Package> {
    packages
        .iter()
        .filter(|package| Rule::for_crate(&package.name).is_none_or(Rule::is_library))
}

/// Returns the packages that a library must not depend on.
pub(super) fn never(library: &str) -> &'static [&'static str] {
    Rule::for_crate(library).map_or(&[], |rule| rule.never)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: Vec<Dependency>) -> Package {
        Package {
            name: name.into(),
            manifest: format!("crates/{name}/Cargo.toml").into(),
            dependencies,
        }
    }

    fn normal(name: &str) -> Dependency {
        Dependency {
            name: name.into(),
            dev: false,
            optional: false,
        }
    }

    #[test]
    fn edges_of_the_table_pass() {
        let packages = [
            package("tensor-core", vec![normal("ndarray")]),
            package(
                "shaders",
                vec![Dependency {
                    dev: true,
                    ..normal("tensor-core")
                }],
            ),
            package(
                "gpu-wgsl",
                vec![normal("tensor-core"), normal("shaders"), normal("wgpu")],
            ),
            package(
                "games",
                vec![Dependency {
                    optional: true,
                    ..normal("gpu-wgsl")
                }],
            ),
            package("benches", vec![normal("gpu-wgsl"), normal("games")]),
        ];
        assert_eq!(faults(&packages), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_wrong_edge_is_named() {
        let packages = [
            package("tensor-core", vec![normal("shaders"), normal("benches")]),
            package(
                "shaders",
                vec![Dependency {
                    dev: true,
                    ..normal("wgpu")
                }],
            ),
            package("games", vec![normal("gpu-wgsl")]),
            package("gpu-wgsl", vec![normal("games")]),
            package("benches", vec![normal("xtask")]),
            package("xtask", vec![]),
            package("utils", vec![]),
        ];
        assert_eq!(
            faults(&packages),
            [
                "tensor-core -> shaders is not in the table of edges",
                "tensor-core -> benches is not in the table of edges",
                "shaders depends on wgpu (only gpu-wgsl may)",
                "games -> gpu-wgsl is not in the table of edges",
                "gpu-wgsl -> games is not in the table of edges",
                "benches -> xtask is not in the table of edges",
                "utils is not in the table of edges",
            ]
        );
    }

    #[test]
    fn programs_are_no_libraries() {
        let packages = [package("shaders", vec![]), package("xtask", vec![])];
        let names: Vec<_> = libraries(&packages).map(|package| &package.name).collect();
        assert_eq!(names, ["shaders"]);
    }
}
