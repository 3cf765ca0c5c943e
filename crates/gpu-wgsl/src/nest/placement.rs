//! What changes a value, and who needs it.

use tensor_core::DType;
use tensor_core::ir::{IndexMap, LoopNest, Value, ValueId};
use tensor_core::op::{Binary, Reduce, Unary};

/// Where in a kernel the values of a nest belong.
#[derive(Debug)]
pub(super) struct Placement {
    /// For each value the innermost reduced axis that changes it, counted from 1; 0 if none does.
    pub(super) levels: Vec<usize>,
    /// For each value whether it differs along the rows and along the columns of a block.
    pub(super) spread: Vec<[bool; 2]>,
    /// Which values the result needs at all, and which of them at every point of the reduced axes.
    pub(super) needed: Vec<bool>,
    pub(super) body: Vec<bool>,
    /// Products that are only summed, and so are never values of their own: a multiply-add takes both factors.
    pub(super) multiplied: Vec<Option<[ValueId; 2]>>,
}

impl Placement {
    /// `sides` are the axes along the rows and the columns of a block; none where there are no blocks.
    pub(super) fn of(nest: &LoopNest, sides: &[Vec<usize>; 2]) -> Self {
        let (body, epilogue) = (nest.body(), nest.epilogue());
        Self {
            levels: levels(nest),
            spread: spread(nest, sides),
            needed: body.iter().zip(&epilogue).map(|(a, b)| *a || *b).collect(),
            body,
            multiplied: multiplied(nest),
        }
    }

    /// Whether a value is written down where it is computed.
    pub(super) fn is_written(&self, nest: &LoopNest, id: usize) -> bool {
        let is_reduced = matches!(nest.values[id], Value::Reduced(..));
        self.needed[id] && !is_reduced && self.multiplied[id].is_none()
    }

    /// The values from which an accumulator is computed anew.
    pub(super) fn folded(&self, operand: ValueId) -> Vec<ValueId> {
        self.multiplied[operand.0].map_or_else(|| vec![operand], Vec::from)
    }
}

fn levels(nest: &LoopNest) -> Vec<usize> {
    let n_domain = nest.domain.len();
    let mut levels: Vec<usize> = Vec::with_capacity(nest.values.len());
    for value in &nest.values {
        let innermost = |map: &IndexMap| {
            map.strides[n_domain..]
                .iter()
                .rposition(|&stride| stride != 0)
        };
        let own = value
            .maps()
            .filter_map(innermost)
            .map(|axis| axis + 1)
            .max();
        let handed = value.operands().map(|operand| levels[operand.0]).max();
        levels.push(match value {
            Value::Reduced(..) => 0,
            _ => own.max(handed).unwrap_or(0),
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
            // A compiler without a multiply-add simplifies the square of a root, and a product of
            // its own hides the root.
            && !(a == b && matches!(nest.values[a.0], Value::Unary(Unary::Sqrt, _)))
        {
            multiplied[product.0] = Some([a, b]);
        }
    }
    multiplied
}
