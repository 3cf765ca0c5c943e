//! Programs that only move elements.

use proptest::prelude::*;

use super::super::apply::{constant, is_small};
use super::super::inputs::{Input, Values};
use crate::Tensor;
use crate::dtype::DType;
use crate::view::Slice;

/// A sequence of moves of the elements of an array with three axes.
#[derive(Debug, Clone)]
pub(in super::super) struct Moves {
    x: Input,
    moves: Vec<Move>,
}

/// A move, which keeps the number of axes.
#[derive(Debug, Clone, Copy)]
enum Move {
    Permute([usize; 3]),
    Flip(isize),
    Step(isize, isize),
    Pad {
        axis: isize,
        before: usize,
        after: usize,
        fill: u8,
    },
    /// The array, joined with itself in reverse.
    Join(isize),
    /// The elements at some indices of an axis, and the seed of the indices.
    Gather(isize, u16),
    /// The elements at some indices of the last axis, which differ from row to row.
    TakeAlong(u16),
    /// The windows of the middle axis, which the last axis is replaced by.
    Windows(usize),
}

pub(super) fn moves() -> impl Strategy<Value = Moves> {
    let axis = || 0_isize..3;
    let order = prop::sample::select(vec![[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]);
    let step = prop::sample::select(vec![-9, -3, -2, 2, 3, 4, 5, 8, 9]);
    let one = prop_oneof![
        7 => order.prop_map(Move::Permute),
        1 => axis().prop_map(Move::Flip),
        1 => (axis(), step).prop_map(|(axis, step)| Move::Step(axis, step)),
        3 => (axis(), 0_usize..4, 0_usize..20, 0_u8..2).prop_map(|(axis, before, after, fill)| {
            Move::Pad { axis, before, after, fill }
        }),
        2 => axis().prop_map(Move::Join),
        2 => (axis(), any::<u16>()).prop_map(|(axis, seed)| Move::Gather(axis, seed)),
        1 => any::<u16>().prop_map(Move::TakeAlong),
        1 => (1_usize..6).prop_map(Move::Windows),
    ];
    let shape = (1_usize..4, 15_usize..36, 15_usize..36);
    let data = (prop::sample::select(DType::ALL.to_vec()), any::<u16>());
    (shape, data, prop::collection::vec(one, 1..4)).prop_map(
        |((depth, rows, cols), (dtype, seed), moves)| Moves {
            x: Input::new(&[depth, rows, cols], dtype, Values::Dyadic, seed),
            moves,
        },
    )
}

impl Moves {
    /// Returns the result of the moves, up to the first that would make the array too large.
    pub(super) fn tensor(&self) -> Tensor {
        let mut x = self.x.tensor();
        for one in &self.moves {
            let next = one.apply(&x);
            if !is_small(&next) {
                break;
            }
            x = next;
        }
        x
    }
}

impl Move {
    fn apply(self, x: &Tensor) -> Tensor {
        let shape = &x.node().shape;
        let size = |axis: isize| shape[axis.unsigned_abs()];
        match self {
            Self::Permute(order) => x.permute(&order),
            Self::Flip(axis) => x.flip(axis),
            Self::Step(axis, step) => x.slice(
                axis,
                Slice {
                    start: None,
                    stop: None,
                    step,
                },
            ),
            Self::Pad {
                axis,
                before,
                after,
                fill,
            } => {
                let fill = constant(fill.into(), x.node().dtype);
                x.pad(axis, before, after, fill)
            }
            Self::Join(axis) => Tensor::concat(&[x, &x.flip(axis)], axis),
            Self::Gather(axis, seed) => x.gather(&indices(&[20], size(axis), seed), axis),
            Self::TakeAlong(seed) => {
                let along = [&shape[..2], &[17]].concat();
                x.take_along_axis(&indices(&along, size(2), seed), 2)
            }
            Self::Windows(len) => {
                let windows = x.slice(2, ..1).window(1, len.min(size(1)), 1);
                windows.permute(&[0, 1, 3, 2]).reshape(&[
                    shape[0],
                    size(1) + 1 - len.min(size(1)),
                    len.min(size(1)),
                ])
            }
        }
    }
}

/// Returns indices below an extent.
fn indices(shape: &[usize], extent: usize, seed: u16) -> Tensor {
    let len: usize = shape.iter().product();
    let place = |at: usize| {
        let spread = (at + usize::from(seed)).wrapping_mul(0x9E37_79B9) >> 7;
        u32::try_from(spread % extent.max(1)).unwrap_or(0)
    };
    Tensor::from_vec(shape, (0..len).map(place).collect::<Vec<u32>>())
}
