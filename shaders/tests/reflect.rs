//! Reflection of every fixed kernel by naga. Generates `src/layout.rs`, and compares the committed
//! file and the Rust structs with the reflection.
//!
//! Role: `cargo xtask codegen` runs this file with `BLESS=1`, which rewrites the committed layout.
//! Without `BLESS` the test fails if the layout is stale. The kernels also pass naga's validator
//! here, without a device.

use naga::front::wgsl;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use shaders::{Binding, Kernel, params, reflect, source};
use std::path::Path;

const LAYOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/layout.rs");

fn described(stem: &str, text: &str) -> Kernel {
    reflect(stem, text).unwrap_or_else(|why| panic!("{stem}: {why}"))
}

fn binding_text(binding: &Binding) -> String {
    let Binding {
        name,
        access,
        element,
        stride_bytes,
    } = binding;
    format!(
        "        Binding {{ name: Cow::Borrowed({name:?}), access: Access::{access:?}, element: Element::{element:?}, stride_bytes: {stride_bytes} }},\n"
    )
}

fn kernel_text(stem: &str, text: &str) -> String {
    let Kernel {
        workgroup_size,
        workgroup_bytes,
        items_per_invocation,
        params,
        bindings,
        ..
    } = described(stem, text);
    let constant = stem.to_uppercase();
    let members: String = params
        .members
        .iter()
        .map(|(name, offset)| format!("            (Cow::Borrowed({name:?}), {offset}),\n"))
        .collect();
    let bindings: String = bindings.iter().map(binding_text).collect();
    let (params, size) = (params.name, params.size_bytes);
    format!(
        "/// Kernel `{stem}`.
pub const {constant}: Kernel = Kernel {{
    name: Cow::Borrowed({stem:?}),
    source: Cow::Borrowed(source::{constant}),
    workgroup_size: {workgroup_size:?},
    workgroup_bytes: {workgroup_bytes},
    items_per_invocation: {items_per_invocation:?},
    params: ParamsLayout {{
        name: Cow::Borrowed({params:?}),
        size_bytes: {size},
        members: Cow::Borrowed(&[
{members}        ]),
    }},
    bindings: Cow::Borrowed(&[
{bindings}    ]),
}};

"
    )
}

fn layout_text() -> String {
    let kernels: String = source::ALL
        .iter()
        .map(|(stem, text)| kernel_text(stem, text))
        .collect();
    let all: String = source::ALL
        .iter()
        .map(|(stem, _)| format!("    &{},\n", stem.to_uppercase()))
        .collect();
    format!(
        "//! Interface of every fixed kernel, as naga reflects it.
//!
//! Role: written by `cargo xtask codegen`, committed, never edited; `tests/reflect.rs` holds it fresh.

use crate::{{Access, Binding, Element, Kernel, ParamsLayout, source}};
use std::borrow::Cow;

{kernels}/// Every fixed kernel.
pub const ALL: &[&Kernel] = &[
{all}];
"
    )
}

#[test]
fn layout_is_fresh() {
    let expected = layout_text();
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        std::fs::write(LAYOUT, &expected).unwrap();
    }
    let committed = std::fs::read_to_string(LAYOUT).unwrap();
    assert!(
        committed == expected,
        "shaders/src/layout.rs is stale: run `cargo xtask codegen`"
    );
}

#[test]
fn every_wgsl_file_is_a_kernel_and_every_kernel_a_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("wgsl");
    let mut stems: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "wgsl")
        })
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    stems.sort();
    let known: Vec<&str> = source::ALL.iter().map(|(stem, _)| *stem).collect();
    assert_eq!(stems, known);
}

#[test]
fn every_parameter_struct_is_laid_out_as_in_wgsl() {
    let mut used = vec![false; params::ALL.len()];
    for (stem, text) in source::ALL {
        let layout = described(stem, text).params;
        let place = params::ALL
            .iter()
            .position(|(rust, ..)| *rust == layout.name)
            .unwrap_or_else(|| panic!("{stem}: no Rust struct named {}", layout.name));
        used[place] = true;
        let (_, size, fields) = params::ALL[place];
        let wgsl: Vec<_> = layout
            .members
            .iter()
            .map(|(name, offset)| (&**name, *offset as usize))
            .collect();
        let rust: Vec<_> = fields
            .iter()
            .map(|field| (field.name, field.offset_bytes))
            .collect();
        assert_eq!(wgsl, rust, "{stem}: members of {}", layout.name);
        assert_eq!(
            layout.size_bytes as usize, size,
            "{stem}: size of {}",
            layout.name
        );
    }
    assert!(
        used.iter().all(|used| *used),
        "a parameter struct belongs to no kernel"
    );
}

#[test]
fn every_kernel_is_valid_without_any_optional_feature() {
    for (stem, text) in source::ALL {
        let module = wgsl::parse_str(text).unwrap();
        let valid = Validator::new(ValidationFlags::all(), Capabilities::empty()).validate(&module);
        assert!(
            valid.is_ok(),
            "{stem}: {}",
            valid.unwrap_err().emit_to_string(text)
        );
        assert_eq!(
            module.entry_points.len(),
            1,
            "{stem}: expected one entry point per kernel"
        );
    }
}

#[test]
fn text_that_breaks_the_rules_of_a_kernel_is_refused_by_the_rule() {
    const PARAMS: &str = "struct P { n: u32 } @group(0) @binding(0) var<uniform> p: P;";
    const ENTRY: &str = "@compute @workgroup_size(1) fn k() { let n = p.n; }";
    let cases = [
        ("fn".to_owned(), "error"),
        (
            format!("{PARAMS} {}", ENTRY.replace("fn k", "fn other")),
            "no entry point",
        ),
        (
            "@compute @workgroup_size(1) fn k() {}".to_owned(),
            "binding 0 is missing",
        ),
        (
            format!("{} {ENTRY}", PARAMS.replace("@group(0)", "@group(1)")),
            "found group 1, binding 0; expected",
        ),
        (
            format!("{PARAMS} @group(0) @binding(2) var<storage> x: array<f32>; {ENTRY}"),
            "binding 2; expected",
        ),
        (
            format!("{PARAMS} @group(0) @binding(1) var<uniform> x: P; {ENTRY}"),
            "x is not a storage buffer",
        ),
        (
            format!("{PARAMS} @group(0) @binding(1) var<storage> x: f32; {ENTRY}"),
            "x is not an array",
        ),
        (
            format!("{PARAMS} @group(0) @binding(1) var<storage> x: array<P>; {ENTRY}"),
            "neither scalars nor vectors",
        ),
    ];
    for (text, rule) in cases {
        let why = reflect("k", &text).unwrap_err();
        assert!(why.contains(rule), "{text}\n{why}");
    }
    assert!(reflect("k", &format!("{PARAMS} {ENTRY}")).is_ok());
}
