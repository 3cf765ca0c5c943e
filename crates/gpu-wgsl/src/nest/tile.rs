//! Blocks of an output, which a workgroup computes from what it keeps of the inputs.
//!
//! Role: finds the axes along which a nest's elements share what they read, as the rows and the columns of a matrix product do, and
//! the sizes of blocks for a device. The product is one such nest, with or without what is computed before and after it;
//! distances between all pairs and convolutions are others.

use tensor_core::DType;
use tensor_core::ir::{LoopNest, Value};

use super::access::{WORD_BITS, bits};
use super::placement::Placement;
use super::schedule::Room;
use crate::tuning;

/// Bytes of a word in workgroup memory, and of any value there but an `f64`.
const VALUE_BYTES: u32 = 4;

/// Blocks that keep any device busy.
pub(super) const ENOUGH_BLOCKS: usize = 128;

/// Sizes of the blocks that workgroups compute of an output, and of the tiles that their invocations compute of those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows of the output that a workgroup computes; a multiple of `thread_rows`.
    pub block_rows: u32,
    /// Columns of the output that a workgroup computes; a multiple of `thread_cols`.
    pub block_cols: u32,
    /// Terms of each fold that are staged at once; a multiple of 4.
    pub block_inner: u32,
    /// Rows of the output that an invocation computes.
    pub thread_rows: u32,
    /// Columns of the output that an invocation computes.
    pub thread_cols: u32,
}

/// Outputs whose blocks have the same sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShapeClass {
    /// Many blocks of which each keeps a device busy.
    Large,
    /// Rows and columns, neither of them few.
    Square,
    /// Few columns; blocks have as many.
    Tall,
    /// Few rows; blocks have as many.
    Wide,
    /// Few of both, in a batch.
    Small,
}

/// How a nest's output is cut into blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Block {
    /// The axes of its rows and of its columns; what the others count are blocks of their own.
    pub(super) sides: [Vec<usize>; 2],
    pub(super) tile: Tile,
}

/// What each value of a nest is for when its output is computed in blocks.
#[derive(Debug)]
pub(super) struct Roles {
    /// For rows and for columns the values that wait in workgroup memory, and all that is computed to get them.
    pub(super) staged: [Vec<usize>; 2],
    pub(super) before: [Vec<bool>; 2],
    /// What is computed for each term, and what before all terms.
    pub(super) inner: Vec<bool>,
    pub(super) outer: Vec<bool>,
}

impl Tile {
    /// The side up to which an output counts as narrow or low.
    const NARROW: usize = 16;

    /// Invocations along the rows and the columns of a block; 0 where sizes make no sense.
    pub(super) fn threads(&self) -> [u32; 2] {
        let along = |block: u32, thread: u32| block.checked_div(thread).unwrap_or(0);
        [
            along(self.block_rows, self.thread_rows),
            along(self.block_cols, self.thread_cols),
        ]
    }

    /// Invocations of a workgroup.
    #[must_use]
    pub fn invocations(&self) -> u32 {
        self.threads().into_iter().product()
    }

    /// Rows and columns of a block.
    pub(crate) fn block(&self) -> [u32; 2] {
        [self.block_rows, self.block_cols]
    }

    /// Rows and columns that an invocation computes.
    pub(crate) fn thread(&self) -> [u32; 2] {
        [self.thread_rows, self.thread_cols]
    }

    /// How many neighbours along a side are staged as one vector.
    pub(super) fn vector(&self, side: usize) -> u32 {
        let mut widths = [4, 2].into_iter();
        let fits = |width: &u32| self.thread()[side].is_multiple_of(*width);
        widths.find(fits).unwrap_or(1)
    }

    /// Vectors from the values of one term to those of the next in workgroup memory: one more than there are, since neighbours
    /// would otherwise fall into the same memory bank.
    pub(super) fn stride(&self, side: usize) -> u32 {
        self.block()[side] / self.vector(side) + 1
    }

    /// Says what is wrong with the sizes, if anything is.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        /// Beyond it no device has the workgroup memory, the invocations or the registers.
        const LARGEST: u32 = 1024;
        const MOST_ELEMENTS: u32 = 128;
        let [rows, cols] = self.thread();
        let divides = |part: u32, whole: u32| part > 0 && whole > 0 && whole.is_multiple_of(part);
        if !divides(rows, self.block_rows) || !divides(cols, self.block_cols) {
            Some("the sides of a block are multiples of those of a tile")
        } else if !divides(4, self.block_inner) {
            Some("the terms staged at once are a multiple of 4")
        } else if [self.block_rows, self.block_cols, self.block_inner]
            .into_iter()
            .any(|side| side > LARGEST)
        {
            Some("no side of a block exceeds 1024")
        } else if rows.saturating_mul(cols) > MOST_ELEMENTS {
            Some("an invocation computes at most 128 elements")
        } else if self.invocations() > LARGEST {
            Some("a workgroup has at most 1024 invocations")
        } else {
            None
        }
    }

    /// As wide as the output and no wider: with a narrow side of just so many, or with blocks as large but of another form.
    fn fitted(self, class: ShapeClass, [rows, cols]: [usize; 2]) -> Self {
        let side = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        match class {
            ShapeClass::Tall => Self {
                block_cols: side(cols),
                thread_cols: side(cols),
                ..self
            },
            ShapeClass::Wide => Self {
                block_rows: side(rows),
                thread_rows: side(rows),
                ..self
            },
            ShapeClass::Square => {
                let mut tile = self;
                while 2 * cols <= tile.block_cols as usize && tile.block_cols > 4 * tile.thread_cols
                {
                    tile.block_cols /= 2;
                    tile.block_rows *= 2;
                }
                while 2 * rows <= tile.block_rows as usize && tile.block_rows > 4 * tile.thread_rows
                {
                    tile.block_rows /= 2;
                    tile.block_cols *= 2;
                }
                tile
            }
            ShapeClass::Large | ShapeClass::Small => self,
        }
    }
}

impl ShapeClass {
    /// All classes.
    pub const ALL: [Self; 5] = [
        Self::Large,
        Self::Square,
        Self::Tall,
        Self::Wide,
        Self::Small,
    ];

    /// Its name in the table of tiles.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Large => "large",
            Self::Square => "square",
            Self::Tall => "tall",
            Self::Wide => "wide",
            Self::Small => "small",
        }
    }

    /// The class of a batch of outputs, if blocks are any good for them.
    fn of([rows, cols]: [usize; 2], batch: usize, room: &Room) -> Option<Self> {
        if rows.min(cols) < room.least_side {
            return None;
        }
        let large = &room.tiles.tile(Self::Large);
        let n_blocks = |tile: &Tile| {
            let [high, wide] = tile.block().map(|side| side as usize);
            rows.div_ceil(high) * cols.div_ceil(wide) * batch
        };
        Some(if rows.max(cols) <= 2 * Tile::NARROW {
            Self::Small
        } else if cols <= Tile::NARROW {
            Self::Tall
        } else if rows <= Tile::NARROW {
            Self::Wide
        } else if n_blocks(large) >= ENOUGH_BLOCKS && rows.min(cols) >= large.block_rows as usize {
            Self::Large
        } else {
            Self::Square
        })
    }
}

impl Block {
    /// The blocks of a nest's output, where elements share enough of what they read.
    pub(super) fn of(nest: &LoopNest, room: &Room) -> Option<Self> {
        /// What is worth it to fold.
        const LONG: usize = 2;
        /// The most values, and the most that are computed for each element of a tile and each term.
        const MAX_VALUES: usize = 32;
        const MAX_STATEMENTS: u32 = 512;
        /// The most values at each element and term for which an invocation computes many elements.
        const PLAIN: usize = 1;
        let is_gather = |value: &Value| matches!(value, Value::Gather { .. });
        if nest.output_len() < room.least_outputs
            || nest.reduce_len() < LONG
            || nest.values.len() > MAX_VALUES
            || nest.values.iter().any(is_gather)
        {
            return None;
        }
        let sides = sides(nest)?;
        let placement = Placement::of(nest, &sides);
        let roles = Roles::of(nest, &placement);
        let count = |side: &Vec<usize>| side.iter().map(|&axis| nest.domain[axis]).product();
        let counts: [usize; 2] = [count(&sides[0]), count(&sides[1])];
        let batch = nest.output_len() / (counts[0] * counts[1]);
        let n_both = (0..nest.values.len())
            .filter(|&id| roles.inner[id] && placement.spread[id] == [true, true])
            .count();
        let class = match ShapeClass::of(counts, batch, room)? {
            ShapeClass::Large if n_both > PLAIN || bits(nest.dtype()).is_some() => {
                ShapeClass::Square
            }
            class => class,
        };
        let fits = |tile: &Tile| tile.fault().is_none() && tile.invocations() <= room.invocations;
        let sizes = [room.tiles.tile(class), tuning::default(class)];
        let mut sizes = sizes.into_iter().map(|tile| tile.fitted(class, counts));
        let mut block = Self {
            tile: sizes.find(fits)?,
            sides,
        };
        let elements = block.tile.thread_rows * block.tile.thread_cols;
        let statements = u32::try_from(n_both)
            .unwrap_or(u32::MAX)
            .saturating_mul(elements);
        if statements > MAX_STATEMENTS {
            return None;
        }
        while block.workgroup_bytes(nest, &roles) > room.workgroup_bytes {
            if !block.tile.block_inner.is_multiple_of(8) {
                return None;
            }
            block.tile.block_inner /= 2;
        }
        Some(block)
    }

    /// The blocks of a nest's output in sizes of one's choice.
    pub(super) fn sized(nest: &LoopNest, class: ShapeClass, tile: Tile) -> Option<Self> {
        let sides = sides(nest)?;
        let block = Self { tile, sides };
        let counts = [0, 1].map(|side| block.count(nest, side));
        let tile = tile.fitted(class, counts);
        tile.fault().is_none().then_some(Self { tile, ..block })
    }

    fn workgroup_bytes(&self, nest: &LoopNest, roles: &Roles) -> u32 {
        let of_side = |side: usize| {
            let words = roles.staged[side].iter().map(|&id| match nest.dtypes[id] {
                DType::F64 => 2,
                _ => 1,
            });
            let values = self.tile.block_inner * self.tile.stride(side) * self.tile.vector(side);
            words.sum::<u32>().saturating_mul(values)
        };
        let cells = self.cells(nest).unwrap_or(0) * self.tile.block_rows;
        // And the two words that tell whether an element is still open.
        let values = of_side(0)
            .saturating_add(of_side(1))
            .saturating_add(cells + 2);
        values.saturating_mul(VALUE_BYTES)
    }

    /// How many neighbours in a row of a short type an invocation packs.
    pub(super) fn packed(&self, bits: u32) -> u32 {
        self.tile.vector(1).min(WORD_BITS / bits)
    }

    /// For a short type, the packed neighbours in a row of a block.
    pub(super) fn cells(&self, nest: &LoopNest) -> Option<u32> {
        bits(nest.dtype()).map(|bits| self.tile.block_cols / self.packed(bits))
    }

    /// The elements along rows or columns.
    pub(super) fn count(&self, nest: &LoopNest, side: usize) -> usize {
        let axes = self.sides[side].iter();
        axes.map(|&axis| nest.domain[axis]).product()
    }

    /// The blocks along rows or columns.
    pub(super) fn n_blocks_along(&self, nest: &LoopNest, side: usize) -> usize {
        let size = self.tile.block()[side] as usize;
        self.count(nest, side).div_ceil(size)
    }

    /// The axes that are neither of rows nor of columns.
    pub(super) fn batch_axes(&self, nest: &LoopNest) -> Vec<usize> {
        let is_batch = |axis: &usize| !self.sides.iter().any(|side| side.contains(axis));
        (0..nest.domain.len()).filter(is_batch).collect()
    }

    /// All blocks.
    pub(super) fn n_blocks(&self, nest: &LoopNest) -> usize {
        let batch = self.batch_axes(nest).into_iter();
        let batch: usize = batch.map(|axis| nest.domain[axis]).product();
        batch * self.n_blocks_along(nest, 0) * self.n_blocks_along(nest, 1)
    }
}

impl Roles {
    pub(super) fn of(nest: &LoopNest, placement: &Placement) -> Self {
        let n_values = nest.values.len();
        let mut roles = Self {
            staged: [Vec::new(), Vec::new()],
            before: [vec![false; n_values], vec![false; n_values]],
            inner: vec![false; n_values],
            outer: vec![false; n_values],
        };
        let mut wanted = vec![false; n_values];
        for id in (0..n_values).rev() {
            match nest.values[id] {
                Value::Reduced(_, operand) if placement.needed[id] => {
                    let folded = placement.folded(operand);
                    folded.iter().for_each(|operand| wanted[operand.0] = true);
                    continue;
                }
                Value::Reduced(..) => continue,
                _ => {}
            }
            let [along_rows, along_cols] = placement.spread[id];
            let (is_of_term, is_of_one) = (placement.levels[id] > 0, along_rows != along_cols);
            let side = usize::from(along_cols);
            if wanted[id] && is_of_term && is_of_one {
                roles.staged[side].push(id);
                roles.before[side][id] = true;
            } else if wanted[id] {
                let place = if is_of_term {
                    &mut roles.inner
                } else {
                    &mut roles.outer
                };
                place[id] = true;
            }
            for operand in nest.values[id].operands() {
                wanted[operand.0] |= roles.inner[id] || roles.outer[id];
                for side in 0..2 {
                    // What is the same everywhere is there already.
                    let changes = placement.levels[operand.0] > 0
                        || placement.spread[operand.0] != [false, false];
                    if roles.before[side][id] && changes {
                        roles.before[side][operand.0] = true;
                    } else if roles.before[side][id] {
                        wanted[operand.0] = true;
                    }
                }
            }
        }
        roles.staged.iter_mut().for_each(|staged| staged.reverse());
        roles
    }
}

/// The axes of rows and of columns: those along which some elements that are folded change together while others stay. Where there
/// are several pairs, it is the one with the most of both.
fn sides(nest: &LoopNest) -> Option<[Vec<usize>; 2]> {
    let body = nest.body();
    let loads: Vec<_> = nest
        .values
        .iter()
        .zip(&body)
        .filter_map(|(value, in_body)| match value {
            Value::Load { map, .. } if *in_body => Some(map),
            _ => None,
        })
        // What no term moves is read once anyway.
        .filter(|map| {
            map.strides[nest.domain.len()..]
                .iter()
                .any(|&stride| stride != 0)
        })
        .collect();
    // Axes that move the same elements belong together.
    let mut groups: Vec<(Vec<bool>, Vec<usize>)> = Vec::new();
    for axis in (0..nest.domain.len()).filter(|&axis| nest.domain[axis] > 1) {
        let moved: Vec<bool> = loads.iter().map(|map| map.stride(axis) != 0).collect();
        match groups.iter_mut().find(|(known, _)| *known == moved) {
            Some((_, axes)) => axes.push(axis),
            None => groups.push((moved, vec![axis])),
        }
    }
    let count = |axes: &Vec<usize>| {
        axes.iter()
            .map(|&axis| nest.domain[axis])
            .product::<usize>()
    };
    let is_beyond = |one: &[bool], other: &[bool]| one.iter().zip(other).any(|(a, b)| *a && !*b);
    let mut best: Option<(usize, [Vec<usize>; 2])> = None;
    for (place, (moved, axes)) in groups.iter().enumerate() {
        for (other_moved, other_axes) in &groups[..place] {
            if !is_beyond(moved, other_moved) || !is_beyond(other_moved, moved) {
                continue;
            }
            let worth = count(axes).min(count(other_axes));
            if best.as_ref().is_none_or(|(most, _)| worth > *most) {
                let mut sides = [other_axes.clone(), axes.clone()];
                // Columns are neighbours in memory.
                sides.sort_by_key(|axes| axes.last().copied());
                best = Some((worth, sides));
            }
        }
    }
    let (_, sides) = best?;
    // Short elements are packed along the end of the output.
    let cols = &sides[1];
    let is_end = cols
        .iter()
        .rev()
        .copied()
        .eq((0..nest.domain.len()).rev().take(cols.len()));
    (bits(nest.dtype()).is_none() || is_end).then_some(sides)
}
