//! Reads a kernel's interface out of its WGSL text.
//!
//! Role: the one reflection. `cargo xtask codegen` writes [`crate::layout`] with it, `gpu-wgsl` holds every kernel's
//! description to its text with it, and a user describes a kernel of their own with it. Behind the feature
//! `reflect`, which brings naga.

use crate::{Access, Binding, Element, Kernel, ParamsLayout};
use naga::front::wgsl;
use naga::{AddressSpace, GlobalVariable, Module, ScalarKind, StorageAccess, TypeInner};
use std::borrow::Cow;

/// Describes the kernel whose entry point is `name`.
///
/// The text must keep to our rules: group 0 only, binding 0 the parameter struct (uniform), then storage buffers that
/// are arrays of 32-bit scalars, atomic or not, or vectors of them, numbered without gaps. The description covers one item an
/// invocation; a kernel with tiles sets `items_per_invocation` itself.
///
/// # Errors
/// What keeps the text from being such a kernel: the compiler's words with their place, or the rule that it breaks.
///
/// # Examples
/// ```
/// # #[cfg(feature = "reflect")] {
/// let kernel = shaders::reflect("buffer_copy", shaders::source::BUFFER_COPY).unwrap();
/// assert_eq!(kernel, shaders::layout::BUFFER_COPY);
/// # }
/// ```
pub fn reflect(name: &str, source: &str) -> Result<Kernel, String> {
    let module = wgsl::parse_str(source).map_err(|error| error.emit_to_string(source))?;
    let entry = module
        .entry_points
        .iter()
        .find(|entry| entry.name == name)
        .ok_or("the text has no entry point of that name")?;
    let variables = bound_variables(&module)?;
    let (params, buffers) = variables.split_first().ok_or("binding 0 is missing")?;
    let bindings = buffers
        .iter()
        .map(|variable| binding(&module, variable))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Kernel {
        name: Cow::Owned(name.to_owned()),
        source: Cow::Owned(source.to_owned()),
        workgroup_size: entry.workgroup_size,
        workgroup_bytes: workgroup_bytes(&module),
        items_per_invocation: [1, 1, 1],
        params: params_layout(&module, params)?,
        bindings: Cow::Owned(bindings),
    })
}

/// Gives the variables of group 0 by binding number.
fn bound_variables(module: &Module) -> Result<Vec<&GlobalVariable>, String> {
    let mut bound: Vec<_> = module
        .global_variables
        .iter()
        .filter_map(|(_, variable)| variable.binding.map(|at| (at.group, at.binding, variable)))
        .collect();
    bound.sort_by_key(|&(group, binding, _)| (group, binding));
    for (expected, &(group, binding, _)) in bound.iter().enumerate() {
        if (group, binding as usize) != (0, expected) {
            return Err(format!(
                "group {group}, binding {binding} stands where group 0, binding {expected} belongs"
            ));
        }
    }
    Ok(bound.into_iter().map(|(_, _, variable)| variable).collect())
}

fn params_layout(module: &Module, variable: &GlobalVariable) -> Result<ParamsLayout, String> {
    let ty = &module.types[variable.ty];
    let (AddressSpace::Uniform, TypeInner::Struct { members, span }) = (variable.space, &ty.inner)
    else {
        return Err("binding 0 is not a uniform struct".to_owned());
    };
    let named = |name: &Option<String>| Cow::Owned(name.clone().unwrap_or_default());
    Ok(ParamsLayout {
        name: named(&ty.name),
        size_bytes: *span,
        members: members
            .iter()
            .map(|member| (named(&member.name), member.offset))
            .collect(),
    })
}

fn binding(module: &Module, variable: &GlobalVariable) -> Result<Binding, String> {
    let name = variable.name.clone().unwrap_or_default();
    let AddressSpace::Storage { access } = variable.space else {
        return Err(format!("{name} is not a storage buffer"));
    };
    let TypeInner::Array { base, stride, .. } = module.types[variable.ty].inner else {
        return Err(format!("{name} is not an array"));
    };
    let scalar = match &module.types[base].inner {
        TypeInner::Atomic(scalar) => Some(*scalar),
        inner => inner.scalar(),
    };
    let scalar = scalar.ok_or_else(|| format!("{name} holds neither scalars nor vectors"))?;
    let element = match (scalar.kind, scalar.width) {
        (ScalarKind::Float, 4) => Element::F32,
        (ScalarKind::Float, 8) => Element::F64,
        (ScalarKind::Uint, 4) => Element::U32,
        (ScalarKind::Sint, 4) => Element::I32,
        _ => return Err(format!("{name} holds scalars other than f32, u32 and i32")),
    };
    let access = if access.contains(StorageAccess::STORE) {
        Access::ReadWrite
    } else {
        Access::Read
    };
    Ok(Binding {
        name: Cow::Owned(name),
        access,
        element,
        stride_bytes: stride,
    })
}

fn workgroup_bytes(module: &Module) -> u32 {
    let shared = module
        .global_variables
        .iter()
        .filter(|(_, variable)| variable.space == AddressSpace::WorkGroup);
    shared
        .map(|(_, variable)| module.types[variable.ty].inner.size(module.to_ctx()))
        .fold(0, u32::saturating_add)
}
