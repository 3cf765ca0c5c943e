//! Tensor programs with hostile arguments.
//!
//! Method: the input is a program of a stack machine. Each instruction applies an operation to
//! earlier tensors, with axes out of range, sizes of 0, 1 and up to `usize::MAX`, steps of any
//! sign, and types that do not fit. Building must not panic: a wrong argument becomes an error
//! node. A part of the programs of small tensors is then evaluated by the host executor or the
//! reference executor, and compared with the oracle of random programs, which bounds the error of
//! each element. Positions that come from data may be out of range; the same plan of such a program
//! must be an error on both executors, or on none. Without an error the results are compared, too.
//! Limits: tensors with more than `MAX_ELEMENTS` elements, and those computed from them, are built
//! but not evaluated.

use std::sync::Arc;

use tensor_core::op::Unary;
use tensor_core::plan::{Step, Target};
use tensor_core::random_programs::{check_program, check_reference};
use tensor_core::rng::Philox;
use tensor_core::view::Slice;
use tensor_core::{
    Axes, DType, Executor, Host, HostData, Reference, Result, ScanAxis, SortAxis, Storage, Tensor,
    einsum, grad,
};

use crate::elements::TYPES;
use crate::sample;
use crate::source::Source;

/// Number of programs of which one is evaluated. This takes longer than to build the program.
const EVALUATED: u64 = 4;
/// Maximum number of instructions.
const MAX_INSTRUCTIONS: usize = 12;
/// Maximum number of elements of a tensor that is evaluated.
const MAX_ELEMENTS: usize = 144;
/// Maximum product of the sizes, except for zeros, of a tensor that is evaluated.
const MAX_PRODUCT: usize = 1 << 20;
/// Maximum number of axes of a tensor that is evaluated.
const MAX_RANK: usize = 8;
/// Sizes at the limits of integer types.
const LARGE: [usize; 8] = [
    1 << 16,
    1 << 31,
    1 << 32,
    1 << 53,
    1 << 60,
    isize::MAX.cast_unsigned(),
    1 << 63,
    usize::MAX,
];
/// Specifications of sums over products.
const EINSUMS: [&str; 8] = [
    "ij,jk->ik",
    "ij,ij->",
    "i,j->ij",
    "ii->i",
    "...i,...i->...",
    "ijk,kl->ijl",
    "ij,kj->ikj",
    "aab,b->a",
];

/// A tensor with its properties.
#[derive(Clone)]
struct Made {
    tensor: Tensor,
    /// Whether the tensor and all tensors that it depends on are small.
    is_small: bool,
    /// Whether evaluation may fail, because positions come from data.
    may_fail: bool,
}

/// Builds a program and checks its results.
///
/// # Panics
/// On a fault of the code under test.
pub fn run(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let limits = limits(&mut source);
    let on_host = source.bool();
    let mut made = vec![input(&mut source)];
    for _ in 0..MAX_INSTRUCTIONS {
        if source.is_empty() {
            break;
        }
        let results = instruction(&mut source, &made);
        made.extend(results);
    }
    let last = made.iter().rev().filter(|made| made.is_small).take(2);
    let may_fail = last.clone().any(|made| made.may_fail);
    let program: Vec<Tensor> = last.map(|made| made.tensor.clone()).collect();
    if program.is_empty() || !sample::is_drawn(bytes, EVALUATED) {
        return;
    }
    if may_fail && has_errors(&program, &made) {
        return;
    }
    let checked = if on_host {
        check_program(&Host::new(), &program, &limits)
    } else {
        check_reference(&program, &limits)
    };
    if let Err(report) = checked {
        panic!("{report}");
    }
}

/// The reference executor with the plans of the host executor.
#[derive(Debug)]
struct ReferenceOnHostPlans(Host);

impl Executor for ReferenceOnHostPlans {
    fn name(&self) -> &'static str {
        "reference, with plans of the host executor"
    }

    fn target(&self) -> Target {
        self.0.target()
    }

    fn owns(&self, storage: &dyn Storage) -> bool {
        Reference.owns(storage)
    }

    fn upload(&self, data: HostData) -> Result<Arc<dyn Storage>> {
        Reference.upload(data)
    }

    fn run(&self, step: &Step, inputs: &[Arc<dyn Storage>]) -> Result<Arc<dyn Storage>> {
        Reference.run(step, inputs)
    }
}

/// Returns whether a tensor of a program is an error when it is evaluated alone.
///
/// Checks that the same plan is an error on both executors, or on none. Another plan may compute
/// other elements that the results do not need, so it may check other positions; but it must not be
/// an error if no tensor is.
fn has_errors(program: &[Tensor], made: &[Made]) -> bool {
    let mut small = made.iter().filter(|made| made.is_small && made.may_fail);
    let has_errors = small.any(|made| n_elements(&made.tensor, &Reference).is_err());
    let host = Host::new();
    let with_host_plans = ReferenceOnHostPlans(host.clone());
    for tensor in program {
        let [on_host, expected, reference] = [&host as &dyn Executor, &with_host_plans, &Reference]
            .map(|executor| n_elements(tensor, executor));
        match (&on_host, &expected) {
            (Ok(on_host), Ok(expected)) => assert_eq!(on_host, expected),
            (Err(on_host), Err(expected)) => {
                assert!(!on_host.to_string().is_empty() && !expected.to_string().is_empty());
            }
            _ => panic!("host: {on_host:?}, reference: {expected:?}, {tensor:?}"),
        }
        assert!(
            has_errors || (on_host.is_ok() && reference.is_ok()),
            "host: {on_host:?}, reference: {reference:?}, {tensor:?}, but no tensor is an error"
        );
    }
    has_errors
}

/// Evaluates a tensor, and returns the number of its elements.
fn n_elements(tensor: &Tensor, executor: &dyn Executor) -> Result<usize> {
    let numbers = tensor.cast(DType::F64).eval::<f64>(executor)?;
    Ok(numbers.len())
}

/// Chooses the limits of a second plan.
fn limits(source: &mut Source<'_>) -> Target {
    let switches = source.byte();
    let is_set = |bit: u8| switches >> bit & 1 == 1;
    Target {
        max_values: [4, 6, 8, 64][usize::from(switches % 4)],
        max_inputs: if is_set(2) { 3 } else { 16 },
        min_product: is_set(3).then_some(1),
        computes_factors: is_set(4),
        stores_halves: is_set(5),
        merges_sums: is_set(6),
        min_band: is_set(7).then_some(0),
    }
}

/// Creates a tensor of data. Mostly small multiples of 1/4, so that comparisons are certain.
fn input(source: &mut Source<'_>) -> Made {
    let rank = source.below(4);
    let shape: Vec<usize> = (0..rank).map(|_| source.below(5)).collect();
    let len: usize = shape.iter().product();
    let is_hostile = source.byte() > 240;
    let numbers = (0..len).map(|_| match is_hostile {
        true => source.hostile(),
        false => source.dyadic(),
    });
    let numbers: Vec<f64> = numbers.collect();
    let tensor = Tensor::from_vec(&shape, numbers).cast(source.choose(&TYPES));
    Made {
        tensor,
        is_small: true,
        may_fail: false,
    }
}

/// Returns an axis, mostly of a tensor of a few axes.
fn axis(source: &mut Source<'_>) -> isize {
    match source.byte() {
        byte @ 0..248 => isize::from(byte.cast_signed()) % 5,
        byte => [isize::MIN, isize::MAX, 63, 64, -64, -65, 1 << 32, 5][usize::from(byte % 8)],
    }
}

fn axes(source: &mut Source<'_>) -> Axes {
    let n_axes = source.below(4);
    let axes: Vec<isize> = (0..n_axes).map(|_| axis(source)).collect();
    match source.byte() {
        0..32 => Axes::from(..),
        byte if byte % 2 == 1 => Axes::keepdims(&axes[..]),
        _ => Axes::from(&axes[..]),
    }
}

/// Returns a size, mostly below 6.
fn size(source: &mut Source<'_>) -> usize {
    match source.byte() {
        byte @ 0..244 => usize::from(byte) % 6,
        244..252 => source.choose(&LARGE),
        _ => usize::from(source.short()),
    }
}

fn shape(source: &mut Source<'_>) -> Vec<usize> {
    let rank = match source.byte() {
        byte @ 0..250 => usize::from(byte) % 5,
        byte => 60 + usize::from(byte % 8),
    };
    (0..rank).map(|_| size(source)).collect()
}

fn slice(source: &mut Source<'_>) -> Slice {
    let bound = |source: &mut Source<'_>| match source.byte() {
        0..64 => None,
        byte @ 64..250 => Some(isize::from(byte) % 13 - 6),
        byte => Some([isize::MIN, isize::MAX, -1, 1 << 32][usize::from(byte % 4)]),
    };
    Slice {
        start: bound(source),
        stop: bound(source),
        step: match source.byte() {
            byte @ 0..250 => isize::from(byte) % 7 - 3,
            byte => [isize::MIN, isize::MAX, 0, -1][usize::from(byte % 4)],
        },
    }
}

/// Returns whether a valid tensor is small enough to be evaluated. The other sizes of an empty
/// array count, too: a plan with the sizes of three arrays is rejected if their product overflows.
fn is_small(tensor: &Tensor) -> bool {
    tensor.shape().is_ok_and(|shape| {
        let len: usize = shape.iter().product();
        let others = shape.iter().filter(|&&size| size > 0);
        let product = others.fold(1_usize, |product, &size| product.saturating_mul(size));
        shape.len() <= MAX_RANK && len <= MAX_ELEMENTS && product <= MAX_PRODUCT
    })
}

/// Applies an operation.
fn instruction(source: &mut Source<'_>, made: &[Made]) -> Vec<Made> {
    let mut used = vec![];
    let code = source.byte() % 64;
    let tensors = {
        let mut pick = |source: &mut Source<'_>| {
            let at = made.len() - 1 - source.below(made.len());
            used.push(at);
            made[at].tensor.clone()
        };
        match code {
            0..8 => created(code, source),
            8..12 => vec![pick(source).unary(source.choose(&Unary::ALL))],
            12..24 => vec![elementwise(source, &mut pick)],
            24..38 => viewed(source, &mut pick),
            38..44 => vec![reduced(source, &mut pick)],
            44..49 => vec![positioned(source, &mut pick)],
            49..54 => along_axis(source, &mut pick),
            54..58 => vec![multiplied(source, &mut pick)],
            58..62 => packed(source, &mut pick),
            _ => gradients(source, &mut pick),
        }
    };
    let depends = |is: fn(&Made) -> bool| used.iter().any(|&at| is(&made[at]));
    let is_large = depends(|made| !made.is_small);
    let may_fail = (44..49).contains(&code) || depends(|made| made.may_fail);
    let results = tensors
        .into_iter()
        .filter_map(|tensor| match tensor.shape() {
            Ok(shape) => {
                assert!(tensor.dtype().is_ok());
                assert!(shape.len() <= tensor_core::shape::MAX_RANK);
                let is_small = !is_large && is_small(&tensor);
                Some(Made {
                    tensor,
                    is_small,
                    may_fail,
                })
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                // Some error nodes stay operands, so that errors of operands are built, too.
                let is_kept = error.to_string().len().is_multiple_of(4);
                is_kept.then_some(Made {
                    tensor,
                    is_small: false,
                    may_fail,
                })
            }
        });
    results.collect()
}

/// Picks an earlier tensor.
type Pick<'p> = dyn FnMut(&mut Source<'_>) -> Tensor + 'p;

fn created(code: u8, source: &mut Source<'_>) -> Vec<Tensor> {
    let dtype = source.choose(&TYPES);
    let stream = Philox::new(source.byte().into());
    vec![match code {
        0..3 => input(source).tensor,
        3 => Tensor::arange(size(source)),
        // The number of elements is that of another shape at times.
        4 => Tensor::from_vec(&shape(source), vec![1.0_f32; source.below(8)]),
        5 => Tensor::full(&shape(source), source.hostile()).cast(dtype),
        6 if source.bool() => Tensor::rand(stream, &shape(source)),
        6 => Tensor::randn(stream, &shape(source)),
        _ if source.bool() => Tensor::zeros(&shape(source), dtype),
        _ => Tensor::eye(size(source), dtype),
    }]
}

fn elementwise(source: &mut Source<'_>, pick: &mut Pick<'_>) -> Tensor {
    let (a, b) = (pick(source), pick(source));
    match source.byte() % 32 {
        0 => a + b,
        1 => a - b,
        2 => a * b,
        3 => a / b,
        4 => a.floor_div(b),
        5 => a.rem(b),
        6 => a.pow(b),
        7 => a.maximum(b),
        8 => a.minimum(b),
        9 => a.and(b),
        10 => a.or(b),
        11 => a.xor(b),
        12 => a.shl(b),
        13 => a.shr(b),
        14 => a.dot4_i8(b),
        15 => a.lt(b),
        16 => a.le(b),
        17 => a.eq(b),
        18 => a.ne(b),
        19 => a.gt(b),
        20 => a.ge(b),
        21 => pick(source).select(a, b),
        22 => pick(source).cast(DType::Bool).select(a, b),
        23 => a.clip(source.hostile(), b),
        24 => a + source.hostile(),
        25 => a * i32::from(source.byte().cast_signed()),
        26 => a.maximum(source.dyadic()),
        27 => a.relu(),
        28 => a.sign(),
        _ => a.cast(source.choose(&TYPES)),
    }
}

fn viewed(source: &mut Source<'_>, pick: &mut Pick<'_>) -> Vec<Tensor> {
    let x = pick(source);
    let at = axis(source);
    vec![match source.byte() % 16 {
        0 => x.reshape(&shape(source)),
        1 => x.flatten(),
        2 => {
            let n_axes = source.below(5);
            let axes: Vec<isize> = (0..n_axes).map(|_| axis(source)).collect();
            x.permute(&axes)
        }
        3 => x.swap_axes(at, axis(source)),
        4 => x.t(),
        5 => x.expand_dims(at),
        6 => x.squeeze(at),
        7 => x.broadcast_to(&shape(source)),
        8 | 9 => x.slice(at, slice(source)),
        10 => x.flip(at),
        11 => x.window(at, size(source), size(source)),
        12 => x.pad(at, size(source), size(source), source.hostile()),
        13 => {
            let other = pick(source);
            let parts = [&x, &other, &x];
            let parts = &parts[..source.below(4)];
            match source.bool() {
                true => Tensor::concat(parts, at),
                false => Tensor::stack(parts, at),
            }
        }
        14 => return x.split(at, size(source) % 9),
        _ if source.bool() => x.tril(axis(source)),
        _ => x.triu(axis(source)),
    }]
}

fn reduced(source: &mut Source<'_>, pick: &mut Pick<'_>) -> Tensor {
    let x = pick(source);
    let (axes, at) = (axes(source), axis(source));
    match source.byte() % 16 {
        0..4 => x.sum(axes),
        4 => x.prod(axes),
        5 => x.max(axes),
        6 => x.min(axes),
        7 => x.all(axes),
        8 => x.any(axes),
        9 => x.count(axes),
        10 => x.mean(axes),
        11 => x.var(axes, size(source)),
        12 => x.argmax(at),
        13 => x.argmin(at),
        14 => x.softmax(at),
        _ => x.log_softmax(at),
    }
}

/// Reads or writes elements at positions that come from data.
fn positioned(source: &mut Source<'_>, pick: &mut Pick<'_>) -> Tensor {
    let (x, index, values) = (pick(source), pick(source), pick(source));
    let (at, index) = (
        axis(source),
        match source.bool() {
            true => index.cast(DType::I32),
            false => index,
        },
    );
    match source.byte() % 8 {
        0 => x.gather(&index, at),
        1 => x.take_along_axis(&index, at),
        2 => x.scatter_add(&index, &values, at),
        3 => x.scatter_max(&index, &values, at),
        4 => x.scatter_min(&index, &values, at),
        5 => x.scatter_add_along_axis(&index, &values, at),
        6 => index.bincount(size(source)),
        _ => x.histogram(size(source), source.hostile(), source.hostile()),
    }
}

fn along_axis(source: &mut Source<'_>, pick: &mut Pick<'_>) -> Vec<Tensor> {
    let x = pick(source);
    let at = axis(source);
    let mut scan = ScanAxis::new(at);
    let switches = source.byte();
    if switches & 1 == 1 {
        scan = scan.reversed();
    }
    if switches & 2 == 2 {
        scan = scan.exclusive();
    }
    let mut sort = SortAxis::new(at);
    if switches & 4 == 4 {
        sort = sort.descending();
    }
    vec![match source.byte() % 8 {
        0 => x.cumsum(scan),
        1 => x.cumprod(scan),
        2 => x.cummax(scan),
        3 => x.cummin(scan),
        4 => x.sort(sort),
        5 => x.argsort(sort),
        _ => {
            let (elements, positions) = x.topk(size(source), at);
            return vec![elements, positions];
        }
    }]
}

fn multiplied(source: &mut Source<'_>, pick: &mut Pick<'_>) -> Tensor {
    let (a, b) = (pick(source), pick(source));
    match source.byte() % 4 {
        0 | 1 => a.matmul(&b),
        2 => einsum(source.choose(&EINSUMS), &[&a, &b]),
        _ => {
            let text = String::from_utf8_lossy(source.take(8)).into_owned();
            einsum(&text, &[&a, &b][..source.below(3)])
        }
    }
}

fn packed(source: &mut Source<'_>, pick: &mut Pick<'_>) -> Vec<Tensor> {
    let x = pick(source);
    vec![match source.byte() % 4 {
        0 => x.pack_bits(),
        1 => x.cast(DType::Bool).pack_bits(),
        2 => x.unpack_bits(size(source)),
        _ => x.cast(DType::U32).unpack_bits(size(source)),
    }]
}

/// Returns gradients of a sum. An error, for example for integers, is no tensor.
fn gradients(source: &mut Source<'_>, pick: &mut Pick<'_>) -> Vec<Tensor> {
    let (loss, x) = (pick(source), pick(source));
    let loss = match source.bool() {
        true => loss.sum(..),
        false => loss,
    };
    match grad(&loss, &[&x]) {
        Ok(gradients) => gradients,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            vec![]
        }
    }
}
