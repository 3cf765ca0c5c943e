//! Allowed dependencies between the crates of the workspace, and between the modules of a crate.
//!
//! Role: the table of edges, which `ARCHITECTURE.md` shows, as data. [`faults`] checks the normal
//! and build dependencies between crates, and all dependencies on wgpu; `tidy/modules` checks the
//! imports of modules. Dev-dependencies are not checked, because cargo itself rejects cycles.

use crate::workspace::{Dependency, Package};

/// The allowed dependencies of a crate: one row of [`RULES`].
pub(super) struct Rule {
    name: &'static str,
    /// Crates of the workspace that the crate may use.
    may: Uses,
    /// Crates of the workspace that the crate may use as optional dependencies, enabled by a
    /// feature.
    optional: &'static [&'static str],
    /// Packages that must not be part of the crate's dependencies with default features.
    never: &'static [&'static str],
    /// The modules of `src`, separated by blanks. A module may import only modules before its own
    /// name.
    modules: &'static str,
}

enum Uses {
    Only(&'static [&'static str]),
    /// All libraries of the workspace. No crate may depend on a crate with this rule.
    All,
}

/// The only crate that may depend on wgpu.
const WGPU_OWNER: &str = "gpu-wgsl";

/// Crates on which no crate may depend, except that `fuzz` reads the files of `cluster`.
const PROGRAMS: [&str; 5] = ["cluster", "fuzz", "web", "web-bind", "xtask"];

/// Heading of the table on the page of the architecture.
const HEADING: &str = "| crate | may use | modules, from the lowest |";

/// The rules of all crates. A crate may use only crates in rows before its own.
const RULES: [Rule; 19] = [
    Rule {
        name: "tensor-core",
        may: Uses::Only(&[]),
        optional: &[],
        never: &["wgpu"],
        modules: "fault hash cache dtype file_type error parallel shape array view compare float math op rng ir storage \
            level plane einsum gemm tensor plan exec eager grad init loss optim jit data profile similarity \
            random_programs",
    },
    Rule {
        name: "shaders",
        may: Uses::Only(&[]),
        optional: &[],
        never: &["wgpu"],
        modules: "kernel source layout params reflect twin",
    },
    Rule {
        name: "charts",
        may: Uses::Only(&[]),
        optional: &[],
        never: &["wgpu", "ndarray"],
        modules: "units axis page ink dots bricks icicle width figure draw",
    },
    Rule {
        name: "tool-io",
        may: Uses::Only(&[]),
        optional: &[],
        never: &["wgpu", "ndarray"],
        modules: "commit exit file output places signals temporary",
    },
    Rule {
        name: "commands",
        may: Uses::Only(&[]),
        optional: &[],
        never: &["wgpu", "ndarray"],
        modules: "bench doctor explain report soak solve trace tune",
    },
    Rule {
        name: "gpu-wgsl",
        may: Uses::Only(&["tensor-core", "shaders"]),
        optional: &["commands", "tool-io"],
        never: &[],
        modules: "adapter error tiles limits grid pool device check nest executor explain translation tuning",
    },
    Rule {
        name: "distributions",
        may: Uses::Only(&[]),
        optional: &["gpu-wgsl", "shaders"],
        never: &["wgpu", "ndarray"],
        modules: "error root quadrature lanes special point distribution inverse_gaussian \
            standardized reciprocal shifted levy first_passage custom distance estimate sprt \
            normality gpu",
    },
    Rule {
        name: "games",
        may: Uses::Only(&[]),
        optional: &["gpu-wgsl", "shaders", "commands", "tool-io"],
        never: &["wgpu"],
        modules: "rule error simd regret config number equality rounding centre draw game \
            strategic extensive profile run batch exact files gpu",
    },
    Rule {
        name: "telemetry",
        may: Uses::Only(&[]),
        optional: &["charts", "commands", "tool-io"],
        never: &["wgpu", "ndarray"],
        modules: "metric failure error device source reasons reported ledger trace snapshot \
            sensor updates least_squares power_profile synthetic probe energy analysis format \
            nvml rapl replay sampler local span sweep serve doctor",
    },
    Rule {
        name: "fake-nvml",
        may: Uses::Only(&["telemetry"]),
        optional: &[],
        never: &["wgpu"],
        modules: "",
    },
    Rule {
        name: "quant",
        may: Uses::Only(&["tensor-core"]),
        optional: &["gpu-wgsl", "shaders"],
        never: &["wgpu"],
        modules: "fault error checksum window border level_set planes conv least_squares average \
            population lloyd_max abc qem quantizer network layers train state_dict frozen report gpu",
    },
    Rule {
        name: "isa",
        may: Uses::Only(&[]),
        optional: &[],
        never: &["wgpu"],
        modules: "executable instance pipeline driver loops prediction",
    },
    Rule {
        name: "cluster",
        may: Uses::Only(&["tensor-core"]),
        optional: &["gpu-wgsl", "games", "quant", "telemetry", "tool-io"],
        never: &["wgpu", "mpi"],
        modules: "error journal queue shards ranks network map all_reduce rows",
    },
    Rule {
        name: "harness",
        may: Uses::Only(&["tensor-core", "shaders", "gpu-wgsl", "charts", "tool-io"]),
        optional: &[],
        never: &["games", "distributions", "telemetry"],
        modules: "memory sources claim findings implementation energy record machine sign_test measure process rivals \
            on_cpu on_host on_gpu staged workload curve program comparison speedup peak run columns table changes \
            trend report sampling progress campaign",
    },
    Rule {
        name: "benches",
        may: Uses::All,
        optional: &[],
        never: &[],
        modules: "mnist low_bit level_figure quadrature roundings meter training workloads \
            machine_code claims doctor soak",
    },
    Rule {
        name: "fuzz",
        may: Uses::Only(&[
            "tensor-core",
            "games",
            "telemetry",
            "quant",
            "cluster",
            "harness",
        ]),
        optional: &[],
        never: &[],
        modules: "",
    },
    Rule {
        name: "web",
        may: Uses::Only(&["tensor-core", "shaders", "gpu-wgsl"]),
        optional: &[],
        never: &[],
        modules: "page",
    },
    Rule {
        name: "web-bind",
        may: Uses::Only(&[]),
        optional: &[],
        never: &["wgpu"],
        modules: "",
    },
    Rule {
        name: "xtask",
        may: Uses::Only(&["commands", "tool-io"]),
        optional: &[],
        never: &["wgpu"],
        modules: "",
    },
];

impl Rule {
    fn for_crate(name: &str) -> Option<&'static Self> {
        RULES.iter().find(|rule| rule.name == name)
    }

    fn is_library(&self) -> bool {
        matches!(self.may, Uses::Only(_)) && !PROGRAMS.contains(&self.name)
    }

    fn allows(&self, dependency: &Dependency) -> bool {
        let name = dependency.name.as_str();
        match self.may {
            Uses::All => Self::for_crate(name).is_some_and(Self::is_library),
            Uses::Only(may) => {
                may.contains(&name) || (dependency.optional && self.optional.contains(&name))
            }
        }
    }

    /// Returns the row as a line of a Markdown table.
    fn line(&self) -> String {
        let list = |names: &[&str]| {
            names
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
        };
        let mut uses = match self.may {
            Uses::All => vec!["all libraries".to_owned()],
            Uses::Only(may) => list(may),
        };
        uses.extend(list(self.optional).iter().map(|name| format!("({name})")));
        format!(
            "| `{}` | {} | {} |",
            self.name,
            uses.join(" "),
            self.modules
        )
    }
}

/// Returns the names of all crates of the table.
#[cfg(test)]
pub(super) fn crates() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name)
}

/// Returns the modules of a crate, from the lowest to the highest; none if the table has no order.
pub(super) fn modules(name: &str) -> Vec<&'static str> {
    let rule = Rule::for_crate(name);
    rule.map_or_else(Vec::new, |rule| rule.modules.split_whitespace().collect())
}

/// Returns a fault for every row that the page of the architecture does not show, and for every
/// row of its table that is not a row of this table.
pub(super) fn page_faults(page: &str) -> Vec<String> {
    let rows: Vec<String> = RULES.iter().map(Rule::line).collect();
    let missing = rows
        .iter()
        .filter(|row| !page.lines().any(|shown| shown == **row));
    let missing = missing.map(|row| format!("ARCHITECTURE.md: missing row {row}"));
    let shown = page.lines().skip_while(|line| *line != HEADING);
    // The line below the heading has the alignments of the columns.
    let shown = shown.skip(2).take_while(|line| line.starts_with('|'));
    let wrong = shown.filter(|line| !rows.iter().any(|row| row == line));
    let wrong = wrong.map(|line| format!("ARCHITECTURE.md: not in the table of edges: {line}"));
    let heading = (!page.lines().any(|line| line == HEADING))
        .then(|| format!("ARCHITECTURE.md: missing heading {HEADING}"));
    heading.into_iter().chain(missing).chain(wrong).collect()
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
            version: "0.1.0".into(),
            is_published: true,
            features: Vec::new(),
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
            package("xtask", vec![normal("tool-io")]),
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
    fn a_row_that_the_page_lacks_is_named() {
        let (head, rows) = (page_head(), page_rows());
        assert_eq!(page_faults(&(head.clone() + &rows.join("\n"))), [""; 0]);
        let faults = page_faults(&(head + &rows[1..].join("\n")));
        let expected = format!("ARCHITECTURE.md: missing row {}", rows[0]);
        assert_eq!(faults, [expected]);
        let faults = page_faults(&rows.join("\n"));
        assert_eq!(
            faults,
            [format!("ARCHITECTURE.md: missing heading {HEADING}")]
        );
    }

    #[test]
    fn a_row_that_only_the_page_has_is_named() {
        // The row of a crate with an edge that was removed is shown next to its present row.
        let removed = "| `charts` | `games` | units axis |";
        let other_table = "\n\n| tool | use |\n|---|---|\n| git | commits |\n";
        let rows = [page_rows().join("\n"), removed.to_owned()].join("\n");
        let faults = page_faults(&(page_head() + &rows + other_table));
        let expected = format!("ARCHITECTURE.md: not in the table of edges: {removed}");
        assert_eq!(faults, [expected]);
    }

    fn page_head() -> String {
        format!("# Architecture\n\n{HEADING}\n|---|---|---|\n")
    }

    fn page_rows() -> Vec<String> {
        RULES.iter().map(Rule::line).collect()
    }
}
