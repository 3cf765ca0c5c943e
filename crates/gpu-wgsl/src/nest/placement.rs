//! The loop axes on which the values of a nest depend, and the parts of a kernel that need the
//! values.

use tensor_core::DType;
use tensor_core::ir::{IndexMap, LoopNest, Value, ValueId};
use tensor_core::op::{Binary, Reduce, Unary};

/// Facts about each value of a nest that determine where a kernel computes the value.
#[derive(Debug)]
pub(super) struct Placement {
    /// For each value: the innermost reduced axis on which it depends, counted from 1; 0 if there
    /// is none.
    pub(super) levels: Vec<usize>,
    /// For each value: whether it depends on the row, and on the column, of an element of a block.
    pub(super) spread: Vec<[bool; 2]>,
    /// For each value, whether the result needs it.
    pub(super) needed: Vec<bool>,
    /// For each value, whether it is needed inside of the reduction.
    pub(super) body: Vec<bool>,
    /// For each value: the two factors, if it is an `f32` product whose only use is a reduction by
    /// sum. Such a product has no variable, because `fma` takes both factors.
    pub(super) multiplied: Vec<Option<[ValueId; 2]>>,
}

impl Placement {
    /// Computes the placement. `sides` are the axes of the rows and the columns of a block; both
    /// are empty for a kernel without blocks.
    pub(super) fn new(nest: &LoopNest, sides: &[Vec<usize>; 2]) -> Self {
        let (body, epilogue) = (nest.body(), nest.epilogue());
        Self {
            levels: levels(nest),
            spread: spread(nest, sides),
            needed: body.iter().zip(&epilogue).map(|(a, b)| *a || *b).collect(),
            body,
            multiplied: multiplied(nest),
        }
    }

    /// Returns whether a value has a variable in the kernel.
    pub(super) fn is_written(&self, nest: &LoopNest, id: usize) -> bool {
        let is_fold = nest.values[id].is_fold();
        self.needed[id] && !is_fold && self.multiplied[id].is_none()
    }

    /// Returns the values that a fold reads to update its accumulator.
    pub(super) fn folded(&self, operand: ValueId) -> Vec<ValueId> {
        self.multiplied[operand.0].map_or_else(|| vec![operand], Vec::from)
    }
}

fn levels(nest: &LoopNest) -> Vec<usize> {
    let n_domain = nest.domain.len();
    let mut levels: Vec<usize> = Vec::with_capacity(nest.values.len());
    for value in &nest.values {
        // The innermost reduced axis with a nonzero stride.
        let innermost = |map: &IndexMap| {
            map.strides[n_domain..]
                .iter()
                .rposition(|&stride| stride != 0)
        };
        // A value changes at the innermost loop of its own maps or of its operands.
        let own = value
            .maps()
            .filter_map(innermost)
            .map(|axis| axis + 1)
            .max();
        let inherited = value.operands().map(|operand| levels[operand.0]).max();
        // The result of a reduction is computed after all loops.
        levels.push(match value {
            Value::Reduced(..) => 0,
            _ => own.max(inherited).unwrap_or(0),
        });
    }
    levels
}

fn spread(nest: &LoopNest, sides: &[Vec<usize>; 2]) -> Vec<[bool; 2]> {
    let mut spread: Vec<[bool; 2]> = Vec::with_capacity(nest.values.len());
    for value in &nest.values {
        let along = |side: usize| {
            let walks = |map: &IndexMap| sides[side].iter().any(|&axis| map.stride(axis) != 0);
            let mut operands = value.operands();
            value.maps().any(walks) || operands.any(|operand| spread[operand.0][side])
        };
        let both = [along(0), along(1)];
        spread.push(both);
    }
    spread
}

fn multiplied(nest: &LoopNest) -> Vec<Option<[ValueId; 2]>> {
    let mut n_uses = vec![0; nest.values.len()];
    for operand in nest.values.iter().flat_map(Value::operands) {
        n_uses[operand.0] += 1;
    }
    let mut multiplied = vec![None; nest.values.len()];
    for value in &nest.values {
        if let Value::Reduced(Reduce::Sum, product) = value
            && nest.dtypes[product.0] == DType::F32
            && n_uses[product.0] == 1
            && let Value::Binary(Binary::Mul, a, b) = nest.values[product.0]
            && ![a, b].into_iter().any(|factor| cancels(nest, factor))
        {
            multiplied[product.0] = Some([a, b]);
        }
    }
    multiplied
}

/// Returns whether a factor could cancel with the other factor, as in `sqrt(x) * sqrt(x)`,
/// `x * (1 / x)` and `y * (x / y)`. A compiler simplifies such products inside `fma`, too. As
/// separate products, they have factors that are opaque copies.
fn cancels(nest: &LoopNest, factor: ValueId) -> bool {
    match nest.values[factor.0] {
        Value::Unary(Unary::Sqrt | Unary::Recip, _) | Value::Binary(Binary::Div, ..) => true,
        // A compiler drops the sign of a root, because a root is not negative.
        Value::Unary(Unary::Abs, a) => cancels(nest, a),
        _ => false,
    }
}
