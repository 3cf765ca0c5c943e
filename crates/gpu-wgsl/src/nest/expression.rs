//! WGSL expressions of scalar operations.
//!
//! Role: one expression for each operation of [`tensor_core::op`], with the semantics defined
//! there. Functions in `shaders/wgsl/shared/{float,int}.wgsl` implement operations that WGSL leaves
//! undefined (division by zero, NaN, shifts by 32) or specifies with too little accuracy. A value
//! of type `f16` is an `f32` whose value is representable in `f16`.

use std::fmt::Write as _;

use tensor_core::ir::{LoopNest, Value, ValueId};
use tensor_core::op::{Binary, Compare, Reduce, Unary};
use tensor_core::{DType, Scalar};

use super::opaque::Copied;

/// The name of a `u32` that is 0 when the kernel runs. Copies that must differ use `other_zero`.
const ZERO: &str = "params.zero";

/// WGSL functions that return opaque copies of floats: a compiler can prove neither that a copy
/// equals the original nor that two copies (`opaque`, `opaque_apart`) are equal.
const OPAQUE_F32: &str = "
fn opaque_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) | params.zero);
}
";
const OPAQUE_APART_F32: &str = "
fn opaque_apart_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) | params.other_zero);
}
";
const OPAQUE_F64: &str = "
fn opaque_f64(x: f64) -> f64 {
    return bitcast<f64>(bitcast<u64>(x) | u64(params.zero));
}
";
const OPAQUE_APART_F64: &str = "
fn opaque_apart_f64(x: f64) -> f64 {
    return bitcast<f64>(bitcast<u64>(x) | u64(params.other_zero));
}
";

/// WGSL function that returns an opaque copy of a flag.
const OPAQUE_BOOL: &str = "
fn opaque_bool(x: bool) -> bool {
    return (u32(x) | params.zero) != 0u;
}
";

/// WGSL functions that find NaN by its bits, because WGSL lets a compiler take `x == x` as true,
/// and that round an `f64` to an integer: after the addition of 2^52, no bits are left for a
/// fraction. Mesa's own `f64` functions are wrong at ties and beyond 2^32.
const WIDE: &str = "
fn wide_is_nan(x: f64) -> bool {
    return (bitcast<u64>(x) & 0x7ffffffffffffffflu) > 0x7ff0000000000000lu;
}
fn wide_round(x: f64) -> f64 {
    let magnitude = abs(x);
    let whole = opaque_f64(magnitude + 4503599627370496.0lf) - 4503599627370496.0lf;
    let signed = select(whole, -whole, x < 0.0lf);
    return select(x, signed, magnitude > 0.0lf && magnitude < 4503599627370496.0lf);
}
fn wide_trunc(x: f64) -> f64 {
    let magnitude = abs(x);
    let near = wide_round(magnitude);
    let whole = select(near, near - 1.0lf, near > magnitude);
    return select(x, select(whole, -whole, x < 0.0lf), magnitude > 0.0lf);
}
fn wide_floor(x: f64) -> f64 {
    let whole = wide_trunc(x);
    return select(whole, whole - 1.0lf, whole > x);
}
fn wide_ceil(x: f64) -> f64 {
    let whole = wide_trunc(x);
    return select(whole, whole + 1.0lf, whole < x);
}
";

/// Returns the expression of a float or a flag, or of an opaque copy.
pub(super) fn opaque(copied: Copied, dtype: DType, x: &str) -> String {
    match copied {
        Copied::Not => x.to_owned(),
        Copied::Once => format!("opaque_{}({x})", type_name(dtype)),
        Copied::Apart => format!("opaque_apart_{}({x})", type_name(dtype)),
    }
}

/// Returns the WGSL type of a value in registers.
pub(super) fn type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 | DType::F16 => "f32",
        DType::F64 => "f64",
        DType::I32 => "i32",
        DType::U32 => "u32",
        DType::Bool => "bool",
    }
}

/// Returns the WGSL type of a value in workgroup memory. A `bool` is stored as a word: NVIDIA's
/// driver (580.159, on an H100) reads every `bool` of workgroup memory as `false`.
pub(super) fn workgroup_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "u32",
        _ => type_name(dtype),
    }
}

/// Returns the expression of a value in the form that workgroup memory stores.
pub(super) fn to_workgroup(dtype: DType, x: &str) -> String {
    match dtype {
        DType::Bool => format!("u32({x})"),
        _ => x.to_owned(),
    }
}

/// Returns the expression of a value that is read from workgroup memory.
pub(super) fn from_workgroup(dtype: DType, x: &str) -> String {
    match dtype {
        DType::Bool => format!("({x} != 0u)"),
        _ => x.to_owned(),
    }
}

/// Returns a literal for the neutral element of a fold or the zero of a guard.
///
/// A float is built from its bits and from a `u32` that is 0 at run time, because WGSL rejects
/// constants that are not finite, and a compiler folds other constants into the operations around
/// them.
pub(super) fn literal(scalar: Scalar) -> String {
    let float = |x: f32| format!("bitcast<f32>({:#010x}u | {ZERO})", x.to_bits());
    match scalar {
        Scalar::F32(x) => float(x),
        Scalar::F16(x) => float(x.to_f32()),
        // Neutral elements are 0, 1 and infinities, which `f32` has.
        Scalar::F64(_) => format!("f64({})", literal(scalar.cast(DType::F32))),
        Scalar::I32(i32::MIN) => "bitcast<i32>(0x80000000u)".to_owned(),
        Scalar::I32(x) => format!("{x}i"),
        Scalar::U32(x) => format!("{x}u"),
        Scalar::Bool(x) => x.to_string(),
    }
}

/// Returns the first value of an accumulator, which a compiler must not know.
pub(super) fn first(neutral: Scalar) -> String {
    match neutral {
        Scalar::Bool(true) => format!("({ZERO} == 0u)"),
        Scalar::Bool(false) => format!("({ZERO} != 0u)"),
        // Integers are exact in any order, and literals of floats are opaque.
        _ => literal(neutral),
    }
}

pub(super) fn unary(op: Unary, dtype: DType, x: &str) -> String {
    match op {
        Unary::Round | Unary::Trunc | Unary::Floor | Unary::Ceil if dtype == DType::F64 => {
            format!("wide_{}({x})", op.name())
        }
        Unary::Neg => format!("-{x}"),
        Unary::Abs | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc | Unary::Sqrt => {
            format!("{}({x})", op.name())
        }
        // The abstract literal takes the type of `x`, `f32` or `f64`.
        Unary::Recip => format!("1.0 / {x}"),
        Unary::IsNan if dtype == DType::F64 => format!("wide_is_nan({x})"),
        Unary::Not if dtype == DType::Bool => format!("!{x}"),
        Unary::Not => format!("~{x}"),
        Unary::CountOnes => format!("countOneBits({x})"),
        Unary::Exp
        | Unary::Ln
        | Unary::Sin
        | Unary::Cos
        | Unary::Tanh
        | Unary::Sigmoid
        | Unary::Erf
        | Unary::Erfc
        | Unary::IsNan => format!("float_{}({x})", op.name()),
    }
}

pub(super) fn binary(op: Binary, dtype: DType, a: &str, b: &str) -> String {
    let is_float = dtype.is_float();
    let infix = |sign: &str| format!("{a} {sign} {b}");
    match op {
        Binary::Add => infix("+"),
        Binary::Sub => infix("-"),
        Binary::Mul => infix("*"),
        Binary::Div => infix("/"),
        // `&` and `|` instead of `&&` and `||`, which a compiler may turn into branches: both
        // operands are computed anyway.
        Binary::Xor if dtype == DType::Bool => infix("!="),
        Binary::And => infix("&"),
        Binary::Or => infix("|"),
        Binary::Xor => infix("^"),
        Binary::Maximum if dtype == DType::F64 => extreme(a, b, ">"),
        Binary::Minimum if dtype == DType::F64 => extreme(a, b, "<"),
        Binary::Maximum if !is_float => format!("max({a}, {b})"),
        Binary::Minimum if !is_float => format!("min({a}, {b})"),
        Binary::Pow | Binary::Maximum | Binary::Minimum => format!("float_{}({a}, {b})", op.name()),
        Binary::FloorDiv | Binary::Rem if is_float => format!("float_{}({a}, {b})", op.name()),
        Binary::Dot4I8 if dtype == DType::U32 => format!("bitcast<u32>(dot4I8Packed({a}, {b}))"),
        Binary::Dot4I8 => format!("dot4I8Packed(bitcast<u32>({a}), bitcast<u32>({b}))"),
        Binary::FloorDiv | Binary::Rem | Binary::Shl | Binary::Shr => {
            format!("int_{}_{dtype}({a}, {b})", op.name())
        }
    }
}

/// Returns the WGSL expression of the maximum or minimum of two `f64`, which is NaN if an operand
/// is NaN; `beyond` is the comparison `>` or `<`.
fn extreme(a: &str, b: &str, beyond: &str) -> String {
    let (further, numbers) = (
        format!("{b} {beyond} {a}"),
        format!("!(wide_is_nan({a}) | wide_is_nan({b}))"),
    );
    format!("select({a} + {b}, select({a}, {b}, {further}), {numbers})")
}

/// Returns whether WGSL can express the operation of a value for the types of its operands. WGSL
/// has no elementary functions of `f64`.
pub(super) fn has_text(nest: &LoopNest, value: &Value) -> bool {
    let is_wide = |operand: &ValueId| nest.dtypes[operand.0] == DType::F64;
    match value {
        Value::Unary(op, a) if is_wide(a) => matches!(
            op,
            Unary::Neg
                | Unary::Abs
                | Unary::Floor
                | Unary::Ceil
                | Unary::Round
                | Unary::Trunc
                | Unary::Sqrt
                | Unary::Recip
                | Unary::IsNan
        ),
        Value::Binary(op, a, _) if is_wide(a) => {
            !matches!(op, Binary::Pow | Binary::FloorDiv | Binary::Rem)
        }
        Value::Cast(to, a) if is_wide(a) => *to != DType::F16,
        _ => true,
    }
}

pub(super) fn compare(op: Compare, a: &str, b: &str) -> String {
    match op {
        Compare::Lt => format!("{a} < {b}"),
        Compare::Le => format!("{a} <= {b}"),
        Compare::Eq => format!("{a} == {b}"),
        // In SPIR-V `!=` becomes an ordered comparison, which is false for NaN.
        Compare::Ne => format!("!({a} == {b})"),
    }
}

/// Returns the expression that folds a value into an accumulator. Booleans are summed as `u32`.
pub(super) fn fold(op: Reduce, dtype: DType, total: &str, x: &str) -> String {
    match (op, dtype) {
        (Reduce::Sum, DType::Bool) => format!("{total} + u32({x})"),
        _ => binary(op.binary(), dtype, total, x),
    }
}

pub(super) fn cast(from: DType, to: DType, x: &str) -> String {
    let is_real = |dtype: DType| matches!(dtype, DType::F32 | DType::F16);
    match (from, to) {
        _ if from == to => x.to_owned(),
        (DType::F16, DType::F32) => x.to_owned(),
        (_, DType::Bool) => format!("!({x} == {}(0))", type_name(from)),
        (_, DType::F16) => {
            // `half_round` takes an `f32` and returns the nearest half, again as an `f32`.
            let wide = cast(from, DType::F32, x);
            format!("half_round({wide})")
        }
        (from, DType::I32 | DType::U32) if is_real(from) => format!("float_to_{to}({x})"),
        (DType::F64, DType::I32 | DType::U32) => {
            let [low, high] = match to {
                DType::I32 => [f64::from(i32::MIN), i32::MAX.into()],
                _ => [0.0, u32::MAX.into()],
            };
            // NaN becomes 0; values beyond the range of the type become its smallest or largest
            // value.
            format!("select({to}(clamp({x}, {low:?}lf, {high:?}lf)), {to}(0), wide_is_nan({x}))")
        }
        (DType::Bool, DType::F64) => format!("select(0.0lf, 1.0lf, {x})"),
        (DType::I32, DType::U32) | (DType::U32, DType::I32) => format!("bitcast<{to}>({x})"),
        _ => format!("{}({x})", type_name(to)),
    }
}

/// Returns the shared functions that a text calls, directly or through other shared functions.
pub(super) fn parts(text: &str) -> String {
    let mut parts = String::new();
    for (prefix, part) in [
        ("float_", shaders::source::FLOAT),
        ("int_", shaders::source::INT),
        ("half_", shaders::source::HALF),
        ("philox_", shaders::source::PHILOX),
        ("grid_", shaders::source::GRID),
        ("wide_", WIDE),
        ("opaque_bool(", OPAQUE_BOOL),
        ("opaque_f32(", OPAQUE_F32),
        ("opaque_f64(", OPAQUE_F64),
        ("opaque_apart_f32(", OPAQUE_APART_F32),
        ("opaque_apart_f64(", OPAQUE_APART_F64),
    ] {
        // The order of the list matters: a part may only call parts that come later.
        if text.contains(prefix) || parts.contains(prefix) {
            let _ = write!(parts, "\n{part}");
        }
    }
    parts
}
