//! Reflection of every fixed kernel by naga: writes `src/layout.rs`, and holds it and the Rust structs to it.
//!
//! Role: `cargo xtask codegen` runs this file with `BLESS=1`, which rewrites the committed layout; without it the
//! test fails when the layout is stale. The kernels also pass naga's validator here, without any device.

use naga::front::wgsl;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, Handle, Module, ScalarKind, StorageAccess, Type, TypeInner};
use shaders::{params, source};
use std::path::Path;

const LAYOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/layout.rs");

fn parse(stem: &str, text: &str) -> Module {
    let module = wgsl::parse_str(text)
        .unwrap_or_else(|error| panic!("{stem}: {}", error.emit_to_string(text)));
    Validator::new(ValidationFlags::all(), Capabilities::empty())
        .validate(&module)
        .unwrap_or_else(|error| panic!("{stem}: {}", error.emit_to_string(text)));
    module
}

/// Global variables of group 0 by binding number, which must run 0, 1, 2, … without a gap.
fn bound_variables<'a>(stem: &str, module: &'a Module) -> Vec<&'a naga::GlobalVariable> {
    let mut bound: Vec<_> = module
        .global_variables
        .iter()
        .filter_map(|(_, variable)| variable.binding.map(|at| (at.group, at.binding, variable)))
        .collect();
    bound.sort_by_key(|&(group, binding, _)| (group, binding));
    for (expected, &(group, binding, _)) in bound.iter().enumerate() {
        assert_eq!(
            (group, binding as usize),
            (0, expected),
            "{stem}: bindings are group 0, numbered without gaps"
        );
    }
    bound.into_iter().map(|(_, _, variable)| variable).collect()
}

/// Name, size and members (name, offset) of the parameter struct at binding 0.
fn params_struct(
    stem: &str,
    module: &Module,
    ty: Handle<Type>,
) -> (String, u32, Vec<(String, u32)>) {
    let ty = &module.types[ty];
    let TypeInner::Struct { members, span } = &ty.inner else {
        panic!("{stem}: binding 0 is the parameter struct");
    };
    let name = |name: &Option<String>| name.clone().expect("WGSL names every struct and member");
    let members = members
        .iter()
        .map(|member| (name(&member.name), member.offset))
        .collect();
    (name(&ty.name), *span, members)
}

/// The Rust text of one storage binding.
fn binding_text(stem: &str, module: &Module, variable: &naga::GlobalVariable) -> String {
    let AddressSpace::Storage { access } = variable.space else {
        panic!("{stem}: bindings after 0 are storage buffers");
    };
    let TypeInner::Array { base, stride, .. } = module.types[variable.ty].inner else {
        panic!("{stem}: a storage buffer is an array");
    };
    let scalar = module.types[base]
        .inner
        .scalar()
        .expect("arrays of scalars or vectors");
    let element = match (scalar.kind, scalar.width) {
        (ScalarKind::Float, 4) => "F32",
        (ScalarKind::Uint, 4) => "U32",
        (ScalarKind::Sint, 4) => "I32",
        other => panic!("{stem}: element type {other:?} is not described by shaders::Element"),
    };
    let access = if access.contains(StorageAccess::STORE) {
        "ReadWrite"
    } else {
        "Read"
    };
    let name = variable.name.as_deref().expect("WGSL names every variable");
    format!(
        "Binding {{ name: Cow::Borrowed({name:?}), access: Access::{access}, element: Element::{element}, stride_bytes: {stride} }}"
    )
}

fn kernel_text(stem: &str, text: &str) -> String {
    let module = parse(stem, text);
    let [entry] = &module.entry_points[..] else {
        panic!("{stem}: one entry point per kernel")
    };
    assert_eq!(entry.name, stem, "the entry point bears the kernel's stem");
    let variables = bound_variables(stem, &module);
    let (params, size, members) = params_struct(stem, &module, variables[0].ty);
    let constant = stem.to_uppercase();
    let workgroup_size = entry.workgroup_size;
    let members: String = members
        .iter()
        .map(|(name, offset)| format!("            (Cow::Borrowed({name:?}), {offset}),\n"))
        .collect();
    let bindings: String = variables[1..]
        .iter()
        .map(|variable| format!("        {},\n", binding_text(stem, &module, variable)))
        .collect();
    format!(
        "/// Kernel `{stem}`.
pub const {constant}: Kernel = Kernel {{
    name: Cow::Borrowed({stem:?}),
    source: Cow::Borrowed(source::{constant}),
    workgroup_size: {workgroup_size:?},
    items_per_invocation: [1, 1, 1],
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
        let module = parse(stem, text);
        let variables = bound_variables(stem, &module);
        assert_eq!(
            variables[0].space,
            AddressSpace::Uniform,
            "{stem}: parameters are uniform"
        );
        let (name, size, members) = params_struct(stem, &module, variables[0].ty);
        let place = params::ALL
            .iter()
            .position(|(rust, ..)| *rust == name)
            .unwrap_or_else(|| panic!("{stem}: no Rust struct is named {name}"));
        used[place] = true;
        let (_, rust_size, fields) = params::ALL[place];
        let fields: Vec<_> = fields
            .iter()
            .map(|field| {
                (
                    field.name.to_string(),
                    u32::try_from(field.offset_bytes).unwrap(),
                )
            })
            .collect();
        assert_eq!(members, fields, "{stem}: members of {name}");
        assert_eq!(size as usize, rust_size, "{stem}: size of {name}");
    }
    assert!(
        used.iter().all(|used| *used),
        "a parameter struct belongs to no kernel"
    );
}
