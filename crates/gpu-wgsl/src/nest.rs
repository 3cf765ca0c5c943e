//! WGSL kernels for loop nests.
//!
//! Role: the only code generator for kernels of plan steps. [`tensor_core::ir`] defines the meaning
//! of a nest. The generated text depends only on the nest and its [`Schedule`].
//! Method: either a workgroup computes a block of the output from inputs staged in workgroup memory
//! (`blocks`), or several invocations share an output element (`lanes`) or a line of a scan
//! (`scan`). Values that do not depend on an axis are computed outside of its loop. Sizes and
//! strides are literals, because compilers turn divisions by literals into multiplications.
//! Limits: positions are `i32`. WGSL has no elementary functions of `f64` ([`has_text`]).

mod access;
mod blocking;
mod blocks;
mod emitter;
mod expression;
mod lanes;
mod numbers;
mod opaque;
mod parts;
mod passes;
mod placement;
mod scan;
mod scan_parts;
mod schedule;
mod sequence;
mod statements;
mod text;
mod window;

pub(crate) use numbers::{Numbers, split};
pub(crate) use schedule::{Division, Schedule, divide, schedule};
pub(crate) use sequence::Sequence;
pub(crate) use window::{SubNest, bytes};

use tensor_core::DType;
use tensor_core::ir::{IndexMap, LoopNest};

/// Invocations per workgroup in a `lanes` kernel.
pub(crate) const GROUP: u32 = 256;

/// The first 16 bytes of the parameters of a kernel that binds whole arrays; [`Numbers`] follow.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct NestParams {
    /// Always 0 at run time, but not a constant for the compiler. Kernels combine a value with this
    /// word to hide the value from the compiler.
    zero: u32,
    /// Always 0 at run time as well. A compiler can equate neither word with the other.
    other_zero: u32,
    /// Padding to 16 bytes.
    pad: [u32; 2],
}

impl NestParams {
    pub(crate) fn new() -> Self {
        bytemuck::Zeroable::zeroed()
    }
}

/// Returns whether every value of a nest has a WGSL expression.
pub(crate) fn has_text(nest: &LoopNest) -> bool {
    nest.values
        .iter()
        .all(|value| expression::has_text(nest, value))
}

/// A kernel's entry point and source text.
#[derive(Clone, Debug)]
pub(crate) struct Emitted {
    pub(crate) name: String,
    pub(crate) source: String,
}

/// Generates the kernel of a form whose output is not empty.
///
/// `form` is a nest whose constants are replaced by parameter indices ([`split`]), and `schedule`
/// is the schedule of the original nest. If arrays are bound in part, `window` is the last axis
/// whose loop may start at an index other than 0.
pub(crate) fn emit(form: &LoopNest, schedule: &Schedule, window: Option<usize>) -> Emitted {
    let (name, main) = emitter::entry_and_text(form, schedule, window);
    let source = format!("{main}{}", expression::parts(&main));
    Emitted { name, source }
}

/// Returns the expression of the bits that represent a value of a short type (`bool`, `f16`) in a
/// buffer.
fn stored(dtype: DType, value: &str) -> String {
    match dtype {
        DType::Bool => format!("u32({value})"),
        _ => format!("half_bits({value})"),
    }
}

/// Returns the map of a contiguous, row-major array.
fn contiguous(shape: &[usize]) -> IndexMap {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].cast_signed();
    }
    IndexMap { offset: 0, strides }
}

#[cfg(test)]
pub(crate) mod tests {
    use naga::TypeInner;
    use naga::valid::{Capabilities, ValidationFlags, Validator};
    use tensor_core::plan::{Plan, Target};
    use tensor_core::rng::Philox;
    use tensor_core::{Axes, DType, Reference, ScanAxis, Tensor};

    use super::*;
    use crate::limits::{Binding, KernelLimits};
    use crate::tiles::Tiles;

    pub(super) fn nests(tensor: &Tensor) -> Vec<LoopNest> {
        use tensor_core::Executor;
        let target = Target {
            max_values: 96,
            ..Reference.target()
        };
        let (plan, _) = Plan::new(&[tensor], &target).unwrap();
        let steps = plan.steps.iter();
        steps.map(|step| LoopNest::clone(&step.nest)).collect()
    }

    pub(crate) fn schedule_limits() -> KernelLimits {
        KernelLimits {
            binding: Binding {
                bytes: 1 << 27,
                alignment: 256,
            },
            operations: f64::INFINITY,
            workgroup_bytes: 16 << 10,
            invocations: 256,
            has_f64: true,
            uses_subgroups: false,
            matrices: None,
            least_outputs: 1 << 12,
            least_side: 4,
            loop_iterations: None,
            tiles: Tiles::default(),
        }
    }

    fn zeros(shape: &[usize]) -> Tensor {
        Tensor::from_vec(shape, vec![0.0_f32; shape.iter().product()])
    }

    /// Returns whether values of a type of workgroup memory hold a `bool`.
    fn has_bool(module: &naga::Module, ty: naga::Handle<naga::Type>) -> bool {
        match module.types[ty].inner {
            TypeInner::Array { base, .. } => has_bool(module, base),
            TypeInner::Scalar(scalar)
            | TypeInner::Vector { scalar, .. }
            | TypeInner::Atomic(scalar) => scalar.kind == naga::ScalarKind::Bool,
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn texts_are_valid_without_any_device() {
        let x = zeros(&[80, 90]);
        let whole = Tensor::arange(7200).reshape(&[80, 90]);
        for tensor in [
            (&x * f32::INFINITY).maximum(f32::NAN) + f32::MIN_POSITIVE,
            x.softmax(1),
            x.matmul(&x.t()).tanh(),
            (x.expand_dims(1) - &x).abs().lt(1.0).all(2),
            (x.gt(0.0).expand_dims(1) & x.gt(1.0)).any(2),
            x.lt(1.0).all(..),
            x.pow(&x).sin() + x.cos().exp().ln().sigmoid().sqrt().recip(),
            x.cast(DType::F16).cast(DType::I32).cast(DType::Bool).any(0),
            whole.floor_div(i32::MIN) + whole.rem(7).shl(3) - whole.shr(40),
            x.gather(&(&whole % 80).slice(0, 0..3), 0),
            Tensor::randn(Philox::new(1).stream(2), &[50]),
            x.argmax(0),
            x.cumsum(1),
            x.cummax(0),
            x.cumprod(ScanAxis::new(1).exclusive()) * 2.0,
            (x.cast(DType::F64).maximum(f64::NAN) + f64::INFINITY).max(0),
            x.cast(DType::F64)
                .matmul(&x.t().cast(DType::F64))
                .cast(DType::I32),
            x.pad(0, 3, 1, 2.0)
                .window(0, 4, 3)
                .flip(2)
                .mean(Axes::from([1, 2])),
        ] {
            for nest in nests(&tensor) {
                let schedule = schedule(&nest, &schedule_limits());
                let (form, _) = split(&nest);
                let emitted = emit(&form, &schedule, None);
                let module = naga::front::wgsl::parse_str(&emitted.source);
                let module = module
                    .unwrap_or_else(|error| panic!("{}", error.emit_to_string(&emitted.source)));
                // A driver reads such booleans as false; see `workgroup_type`.
                let in_workgroup = |(_, global): &(_, &naga::GlobalVariable)| {
                    global.space == naga::AddressSpace::WorkGroup
                };
                for (_, global) in module.global_variables.iter().filter(in_workgroup) {
                    assert!(!has_bool(&module, global.ty), "{}", emitted.source);
                }
                let wide = Capabilities::FLOAT64 | Capabilities::SHADER_INT64;
                let mut validator = Validator::new(ValidationFlags::all(), wide);
                if let Err(error) = validator.validate(&module) {
                    panic!("{}", error.emit_to_string(&emitted.source));
                }
                assert_eq!(emit(&form, &schedule, None).source, emitted.source);
            }
        }
    }

    fn last_schedule(tensor: &Tensor) -> Schedule {
        let nests = nests(tensor);
        schedule(nests.last().unwrap(), &schedule_limits())
    }

    #[test]
    fn what_two_axes_read_apart_is_computed_in_blocks() {
        let x = zeros(&[80, 90]);
        let has_blocks = |tensor: &Tensor| matches!(last_schedule(tensor), Schedule::Blocks(_));
        let distances = (x.expand_dims(1) - &x).abs();
        assert!(has_blocks(&x.matmul(&x.t())));
        assert!(has_blocks(&distances.lt(1.0).count(2)));
        assert!(has_blocks(&distances.lt(1.0).all(2)));
        assert!(!has_blocks(&x.sum(1)));
        assert!(!has_blocks(&(&x + &x)));
    }

    #[test]
    fn rows_of_neighbours_are_shared_and_columns_are_not() {
        assert_eq!(
            last_schedule(&zeros(&[3, 4096]).sum(1)),
            Schedule::Lanes(256)
        );
        assert_eq!(
            last_schedule(&zeros(&[8, 1 << 15]).sum(0)),
            Schedule::Lanes(1)
        );
    }
}
