//! Extraction of a kernel's interface from its WGSL text.
//!
//! Role: the only reflection in the workspace. `cargo xtask codegen` writes [`crate::layout`] with
//! it, `gpu-wgsl` checks every kernel's description against its text, and users describe their own
//! kernels. The feature `reflect` enables the module and its dependency naga.

use crate::{Access, Binding, Element, Kernel, ParamsLayout};
use naga::front::wgsl;
use naga::{AddressSpace, GlobalVariable, Module, ScalarKind, StorageAccess, TypeInner};
use std::borrow::Cow;

/// Returns the description of the kernel whose entry point is `name`.
///
/// Requirements on the text: all bindings are in group 0; binding 0 is the parameter struct
/// (uniform); the next bindings, without gaps, are storage buffers. Each buffer is an array of
/// 32-bit scalars (atomic or not), of `f64`, or of vectors of such scalars. The description assumes
/// one item per invocation; for a kernel with tiles, set `items_per_invocation` afterwards.
///
/// # Errors
/// The compiler's message with the source line, or the violated requirement.
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
        .ok_or("no entry point of this name")?;
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

/// Returns the variables of group 0, ordered by binding number.
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
                "found group {group}, binding {binding}; expected group 0, binding {expected}"
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
    let scalar = match module.types[base].inner {
        TypeInner::Scalar(scalar)
        | TypeInner::Vector { scalar, .. }
        | TypeInner::Atomic(scalar) => Some(scalar),
        _ => None,
    };
    let scalar = scalar
        .ok_or_else(|| format!("{name} has elements that are neither scalars nor vectors"))?;
    let element = match (scalar.kind, scalar.width) {
        (ScalarKind::Float, 4) => Element::F32,
        (ScalarKind::Float, 8) => Element::F64,
        (ScalarKind::Uint, 4) => Element::U32,
        (ScalarKind::Sint, 4) => Element::I32,
        _ => return Err(format!("{name}: scalars must be f32, f64, u32 or i32")),
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
