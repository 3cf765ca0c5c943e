//! Bands: groups of steps that run piece by piece, over rows that all of the steps share.
//!
//! Role: finds the steps of a finished plan that an executor can compute for a few rows at a time,
//! so that the arrays between these steps stay in a cache. An example is the softmax of the rows of
//! a matrix: the maximum, the sum of the exponentials and the division run on some rows, then on
//! the next rows.
//! Method: the result of each step of a band is divided into the same number of rows. To compute a
//! row of one result, a step reads the same row of other results of the band, and any elements of
//! arrays from outside. Both are decided by arithmetic on index maps. Steps join a band in the
//! order of the plan, as long as there are enough rows and a row is small enough. A product of
//! matrices joins if each piece has enough rows of the product, because the other factor is read
//! for each piece. A step does not join if the band would keep large outputs in memory longer than
//! single steps do.
//!
//! ```text
//!             step 0: maximum   step 1: sum of exp   step 2: division
//! row 0..8    +----------+      +----------+         +----------+       piece 0
//! row 8..16   |          |      |          |         |          |       piece 1
//! ...
//! ```

use std::ops::Range;

use super::guards::gcd;
use super::{Buffer, BufferId, BufferKind, Step};
use crate::hash::HashMap;
use crate::ir::{IndexMap, LoopNest, Matrices, Pairs, Scatter, Value};

/// The maximum number of bytes that the steps of a band without products read and write for one
/// piece: half of a second-level cache of 1 MiB.
pub(super) const PIECE_BYTES: usize = 1 << 19;
/// The maximum number of bytes of outputs that a band may hold after single steps would have freed
/// them.
const HELD_BYTES: usize = PIECE_BYTES / 8;
/// The number of pieces that keeps any machine busy.
const ENOUGH_PIECES: usize = 32;
/// The minimum number of bytes of a piece if there are fewer than [`ENOUGH_PIECES`].
const LEAST_PIECE_BYTES: usize = 1 << 14;

/// The maximum number of bytes of a piece if the band contains products of matrices, and of the
/// factor that all pieces read: a share of a third-level cache. A product packs this factor for
/// each piece, so larger pieces are faster than those that fit into a second-level cache.
const PRODUCT_PIECE_BYTES: usize = 1 << 21;
/// The minimum number of lines of a product in a piece. The packing of the other factor then takes
/// a small share of the time.
const PRODUCT_LINES: usize = 32;
/// The minimum number of pieces of a band with products, unless smaller arrays need fewer.
const PRODUCT_PIECES: usize = 8;

/// The maximum distance of the steps of a band in a plan, which limits the time to find it.
const MAX_STEPS: usize = 64;

/// A group of steps that may run piece by piece.
///
/// The result of each step consists of [`n_rows`](Self::n_rows) rows of equal length, contiguous in
/// memory. A row depends on the rows of the same number in the results of earlier steps of the
/// band, and on any elements of the band's inputs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Band {
    /// The numbers of the steps in [`Plan::steps`](super::Plan::steps), in ascending order.
    pub steps: Vec<usize>,
    /// The number of rows of each result.
    pub n_rows: usize,
    /// The number of rows of one piece; the last piece may have fewer.
    pub piece_rows: usize,
    /// The buffers that the steps read and no step of the band writes, in ascending order and
    /// without duplicates.
    pub inputs: Vec<BufferId>,
    /// The buffers that steps of the band write and that are outputs of the plan or read by steps
    /// outside of the band, in the order of the steps. The other results are only read within the
    /// band, so an executor needs memory for one piece of them.
    pub outputs: Vec<BufferId>,
}

/// The division of the loops over a nest's domain into loops over rows and loops within a row.
struct RowAxes {
    /// The number of leading axes that count rows.
    n_axes: usize,
    /// The number of rows along the next axis; 1 if this axis belongs to a row as a whole.
    share: usize,
}

impl RowAxes {
    /// Divides a domain into rows. Returns `None` if no leading axes count that many rows.
    fn new(domain: &[usize], n_rows: usize) -> Option<Self> {
        let mut share = n_rows;
        for (n_axes, &size) in domain.iter().enumerate() {
            if share == 1 {
                return Some(Self { n_axes, share });
            }
            if !share.is_multiple_of(size) {
                return size.is_multiple_of(share).then_some(Self { n_axes, share });
            }
            share /= size;
        }
        let n_axes = domain.len();
        (share == 1).then_some(Self { n_axes, share })
    }

    /// Returns whether the loops of a row read only the row of the same number of an array, whose
    /// rows have `row_len` elements.
    fn stays_in_row(&self, nest: &LoopNest, map: &IndexMap, row_len: usize) -> bool {
        #[cfg(test)]
        if super::fault::ignores_rows() {
            return true;
        }
        let mut sizes = nest.sizes();
        let mut expected = row_len.cast_signed();
        // From the last axis of rows to the first, each stride must be that of row-major order.
        if self.share > 1 {
            sizes[self.n_axes] /= self.share;
            let within = sizes[self.n_axes].cast_signed();
            if map.stride(self.n_axes).wrapping_mul(within) != expected {
                return false;
            }
            expected = expected.wrapping_mul(self.share.cast_signed());
        }
        for axis in (0..self.n_axes).rev() {
            if map.stride(axis) != expected && sizes[axis] > 1 {
                return false;
            }
            expected = expected.wrapping_mul(sizes[axis].cast_signed());
            sizes[axis] = 1;
        }
        let (low, high) = map.range(&sizes);
        low >= 0 && high.unsigned_abs() < row_len
    }

    /// Returns the end of the axes that count rows, as a whole or in part.
    fn end(&self) -> usize {
        self.n_axes + usize::from(self.share > 1)
    }

    /// Returns whether a map depends on the row.
    fn moves(&self, map: &IndexMap) -> bool {
        (0..self.end()).any(|axis| map.stride(axis) != 0)
    }
}

/// The steps of a plan, in which bands are found.
#[derive(Clone, Copy)]
struct Steps<'a> {
    buffers: &'a [Buffer],
    steps: &'a [Step],
}

/// The steps that read each buffer: their outputs and their waves, if all steps run one by one.
type Readers = Vec<Vec<(BufferId, usize)>>;

/// The place of a buffer that depends on a band.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A step of the band writes the buffer.
    Within,
    /// A step outside of the band writes the buffer.
    After,
}

/// The buffers that depend on a band.
type Places = HashMap<BufferId, Place>;

fn is_within(places: &Places, buffer: BufferId) -> bool {
    places.get(&buffer) == Some(&Place::Within)
}

/// The steps of a band, which are adjacent, before the steps of the plan are sorted into waves.
pub(super) struct Group {
    pub(super) steps: Range<usize>,
    pub(super) n_rows: usize,
}

/// Finds bands whose steps read and write at least `least_bytes`. The order of `steps` respects
/// dependencies, and their waves are those of single steps. Returns the steps in an order in which
/// the steps of a band are adjacent, and the bands; `None` if there are no bands.
pub(super) fn find(
    buffers: &[Buffer],
    steps: &[Step],
    least_bytes: usize,
) -> Option<(Vec<Step>, Vec<Group>)> {
    let bytes = buffers.iter().map(Buffer::bytes);
    if bytes.fold(0, usize::saturating_add) < least_bytes {
        return None;
    }
    let mut steps = steps.to_vec();
    let mut readers: Readers = vec![Vec::new(); buffers.len()];
    for step in &steps {
        for input in &step.inputs {
            readers[input.0].push((step.output, step.wave));
        }
    }
    let mut groups = Vec::new();
    let mut start = 0;
    // For each buffer, whether a step of a band that was too small writes the buffer. Such a step
    // starts no other search, so that the time of planning stays linear.
    let mut is_small = vec![false; buffers.len()];
    while start < steps.len() {
        let all = Steps {
            buffers,
            steps: &steps,
        };
        let found = (!is_small[steps[start].output.0])
            .then(|| all.band_from(start, &readers))
            .flatten();
        let Some((members, n_rows, places)) = found else {
            start += 1;
            continue;
        };
        let row_bytes = all.row_bytes(&members, &places, n_rows);
        if row_bytes.saturating_mul(n_rows) < least_bytes {
            // A step with a large result that could not join this band may join a smaller one.
            let is_small_or_within = |(id, place): (&BufferId, &Place)| {
                *place == Place::Within || buffers[id.0].bytes() < least_bytes
            };
            if places.iter().all(is_small_or_within) {
                for member in members {
                    is_small[steps[member].output.0] = true;
                }
            }
            start += 1;
            continue;
        }
        // Steps between the first and the last step of the band that do not depend on the band run
        // before it, the others run after it.
        let last = members[members.len() - 1];
        let rank = |step: &Step| match places.get(&step.output) {
            None => 0,
            Some(Place::Within) => 1,
            Some(Place::After) => 2,
        };
        let ranks = steps[start..=last].iter().map(rank);
        let mut sorted: Vec<(usize, Step)> =
            ranks.zip(steps[start..=last].iter().cloned()).collect();
        sorted.sort_by_key(|&(rank, _)| rank);
        let first = start + sorted.iter().filter(|&&(rank, _)| rank == 0).count();
        for (at, (_, step)) in (start..).zip(sorted) {
            steps[at] = step;
        }
        start = first + members.len();
        groups.push(Group {
            steps: first..start,
            n_rows,
        });
    }
    (!groups.is_empty()).then_some((steps, groups))
}

impl Steps<'_> {
    /// Returns the numbers of the steps of the band that begins with a step, the number of rows,
    /// and the place of each buffer; `None` if no other step joins.
    fn band_from(self, start: usize, readers: &Readers) -> Option<(Vec<usize>, usize, Places)> {
        let mut places = Places::default();
        let mut members = vec![start];
        // The number of rows of the band that ends with each member.
        let mut n_rows = vec![self.n_rows_alone(start)?];
        places.insert(self.steps[start].output, Place::Within);
        // The number of reads of the band's buffers by steps that are not visited yet.
        let mut n_open = readers[self.steps[start].output.0].len();
        let steps = self.steps.iter().enumerate();
        for (at, step) in steps.take(start + MAX_STEPS).skip(start + 1) {
            if n_open == 0 {
                break;
            }
            let reads = step.inputs.iter().filter_map(|input| places.get(input));
            let Some(&place) = reads.clone().max() else {
                continue;
            };
            n_open -= reads.filter(|&&place| place == Place::Within).count();
            members.push(at);
            places.insert(step.output, Place::Within);
            let is_visited = |output| places.contains_key(&output);
            let joined = (place == Place::Within)
                .then(|| self.n_rows_of(&members, &places, n_rows[n_rows.len() - 1]))
                .flatten()
                .filter(|_| self.frees_in_time(&members, &places, readers, is_visited));
            if let Some(fewer) = joined {
                n_rows.push(fewer);
                n_open += readers[step.output.0].len();
            } else {
                members.pop();
                places.insert(step.output, Place::After);
            }
        }
        // Steps that were not visited stay outside.
        while members.len() > 1 && !self.frees_in_time(&members, &places, readers, |_| true) {
            n_rows.pop();
            let last = members.pop()?;
            places.insert(self.steps[last].output, Place::After);
        }
        (members.len() > 1).then_some((members, n_rows.pop()?, places))
    }

    /// Returns whether a band holds at most [`HELD_BYTES`] that single steps would have freed. All
    /// outputs of a band exist until its end, and steps outside read them after it. With single
    /// steps, an output whose last reader outside runs in the last wave of the band, or earlier,
    /// would be free by then.
    /// Ignores outputs with a reader for which `is_decided`, called with the output of the reader,
    /// is `false`, because the reader may still join the band.
    fn frees_in_time(
        self,
        members: &[usize],
        places: &Places,
        readers: &Readers,
        is_decided: impl Fn(BufferId) -> bool,
    ) -> bool {
        let end = members.iter().map(|&at| self.steps[at].wave).max();
        let is_held = |id: &BufferId| {
            let readers = &readers[id.0];
            let outside = readers.iter();
            let outside = outside.filter(|&&(output, _)| !is_within(places, output));
            let last = outside.map(|&(_, wave)| wave).max();
            self.buffers[id.0].kind == BufferKind::Temporary
                && last.is_some()
                && last <= end
                && readers.iter().all(|&(output, _)| is_decided(output))
        };
        let outputs = members.iter().map(|&at| self.steps[at].output);
        let held = outputs.filter(is_held).map(|id| self.buffers[id.0].bytes());
        held.fold(0, usize::saturating_add) <= HELD_BYTES
    }

    /// Returns the maximum number of rows of a band that consists of one step; `None` if the step
    /// cannot belong to a band.
    fn n_rows_alone(self, at: usize) -> Option<usize> {
        let nest = &self.steps[at].nest;
        let n_rows = if nest.contract.is_some() {
            matrices(nest)?.n_lines()
        } else {
            // The host computes these reductions by separate code, which reads whole arrays.
            let is_pairs = Pairs::from_nest(nest).is_some_and(|pairs| pairs.is_large(nest));
            if is_pairs || Scatter::from_nest(nest).is_some() {
                return None;
            }
            nest.output_len()
        };
        (n_rows > 1).then_some(n_rows)
    }

    /// Returns the largest number of rows into which all members can be divided, if all but the
    /// last can be divided into `n_before` rows; `None` if there is no such number.
    fn n_rows_of(self, members: &[usize], places: &Places, n_before: usize) -> Option<usize> {
        let (&last, others) = members.split_last()?;
        let most = gcd(n_before, self.n_rows_alone(last)?);
        let is_divided = |&n_rows: &usize| {
            let mut others = others.iter();
            n_rows > 1
                && self.has_rows(last, places, n_rows)
                && (n_rows == n_before || others.all(|&at| self.has_rows(at, places, n_rows)))
        };
        let n_rows = if is_divided(&most) {
            most
        } else {
            // With fewer rows, each row is longer and may contain all elements that a step reads.
            // The axes of the loops say where such rows end.
            let mut fewer = Vec::new();
            for &member in members {
                let mut n_rows = 1_usize;
                for &size in &self.steps[member].nest.domain {
                    n_rows = n_rows.saturating_mul(size);
                    if n_rows < most && most.is_multiple_of(n_rows) {
                        fewer.push(n_rows);
                    }
                }
            }
            fewer.sort_unstable_by(|a, b| b.cmp(a));
            fewer.dedup();
            fewer.into_iter().find(is_divided)?
        };
        self.piece_rows(members, places, n_rows)
            .is_some()
            .then_some(n_rows)
    }

    /// Returns the number of rows of a piece of a band. Returns `None` if a row is too large, if
    /// there are too few rows, or if a piece has too few lines of a product.
    fn piece_rows(self, members: &[usize], places: &Places, n_rows: usize) -> Option<usize> {
        let row_bytes = self.row_bytes(members, places, n_rows).max(1);
        let n_pieces = n_pieces(n_rows, row_bytes);
        let product = |&at: &usize| Some((at, matrices(&self.steps[at].nest)?));
        let products: Vec<(usize, Matrices)> = members.iter().filter_map(product).collect();
        if products.is_empty() {
            let piece = (n_rows / n_pieces).min(PIECE_BYTES / row_bytes);
            return (piece > 0).then_some(piece);
        }
        let most = PRODUCT_PIECE_BYTES / row_bytes;
        let mut piece = (n_rows / n_pieces).min(most);
        for (at, product) in products {
            // A row consists of whole products, or of some lines of one.
            if product.n_batches.is_multiple_of(n_rows) {
                continue;
            }
            let rows_of_a_product = n_rows / product.n_batches;
            let factor_bytes = product.n_terms * product.line_len() * self.element_bytes(at);
            if !n_rows.is_multiple_of(product.n_batches) || factor_bytes > PRODUCT_PIECE_BYTES {
                return None;
            }
            let least = PRODUCT_LINES.div_ceil(product.n_lines() / n_rows);
            let least = least.min(rows_of_a_product);
            piece = piece.max(least);
            // Each product is divided into pieces of nearly equal length.
            piece = match rows_of_a_product / piece {
                0 => piece / rows_of_a_product * rows_of_a_product,
                _ => rows_of_a_product.div_ceil(rows_of_a_product.div_ceil(piece)),
            };
            if piece < least {
                return None;
            }
        }
        let is_enough = n_rows.div_ceil(piece.max(1)) >= n_pieces.min(PRODUCT_PIECES);
        (piece > 0 && piece <= most && is_enough).then_some(piece)
    }

    /// Returns the number of bytes of an element of a step's result.
    fn element_bytes(self, at: usize) -> usize {
        self.buffers[self.steps[at].output.0].dtype.bytes()
    }

    /// Returns whether a step can be divided into rows: each row reads only the same row of results
    /// of the band.
    fn has_rows(self, at: usize, places: &Places, n_rows: usize) -> bool {
        let step = &self.steps[at];
        let is_within = |input: usize| is_within(places, step.inputs[input]);
        let Some(axes) = RowAxes::new(&step.nest.domain, n_rows) else {
            return false;
        };
        step.nest.values.iter().all(|value| match value {
            Value::Load { input, map, .. } if is_within(*input) => {
                let row_len = self.buffers[step.inputs[*input].0].len() / n_rows;
                axes.stays_in_row(&step.nest, map, row_len)
            }
            Value::Gather { input, .. } => !is_within(*input),
            Value::Scanned(scan, _) => axes.end() <= scan.axis,
            // A sort is a step of its own.
            Value::Sorted(..) => false,
            _ => true,
        })
    }

    /// Returns the bytes of one row of all arrays that the members read or write and whose elements
    /// depend on the row.
    fn row_bytes(self, members: &[usize], places: &Places, n_rows: usize) -> usize {
        let mut moving: Vec<BufferId> = Vec::new();
        for &at in members {
            let step = &self.steps[at];
            moving.push(step.output);
            let Some(axes) = RowAxes::new(&step.nest.domain, n_rows) else {
                continue;
            };
            for value in &step.nest.values {
                if let Value::Load { input, map, .. } = value
                    && !is_within(places, step.inputs[*input])
                    && axes.moves(map)
                {
                    moving.push(step.inputs[*input]);
                }
            }
        }
        moving.sort_unstable();
        moving.dedup();
        let bytes = moving.iter().map(|id| self.buffers[id.0].bytes());
        bytes.fold(0, usize::saturating_add).div_ceil(n_rows)
    }
}

impl Band {
    /// Returns the band of some steps of a plan, or `None` if not all of these steps can be divided
    /// into the same number of rows. `n_readers` is the number of steps that read each buffer.
    pub(super) fn new(
        (buffers, steps): (&[Buffer], &[Step]),
        n_readers: &[usize],
        members: Vec<usize>,
        n_rows: usize,
    ) -> Option<Self> {
        let all = Steps { buffers, steps };
        let outputs = members.iter().map(|&at| (steps[at].output, Place::Within));
        let places: Places = outputs.collect();
        let is_divided = |&at: &usize| {
            let most = all.n_rows_alone(at);
            most.is_some_and(|most| n_rows > 1 && most.is_multiple_of(n_rows))
                && all.has_rows(at, &places, n_rows)
        };
        if members.is_empty() || !members.iter().all(is_divided) {
            return None;
        }
        let piece_rows = all.piece_rows(&members, &places, n_rows)?;
        let read: Vec<BufferId> = members
            .iter()
            .flat_map(|&at| steps[at].inputs.iter().copied())
            .collect();
        let mut inputs = read.clone();
        inputs.retain(|&input| !is_within(&places, input));
        inputs.sort_unstable();
        inputs.dedup();
        let is_output = |id: &BufferId| {
            let n_own_readers = read.iter().filter(|&input| input == id).count();
            buffers[id.0].kind == BufferKind::Output || n_own_readers < n_readers[id.0]
        };
        let outputs = members.iter().map(|&at| steps[at].output);
        Some(Self {
            outputs: outputs.filter(is_output).collect(),
            inputs,
            n_rows,
            piece_rows,
            steps: members,
        })
    }

    /// Returns the buffers that only the band uses.
    pub(super) fn scratch<'a>(&'a self, steps: &'a [Step]) -> impl Iterator<Item = BufferId> + 'a {
        let written = self.steps.iter().map(|&at| steps[at].output);
        written.filter(|id| !self.outputs.contains(id))
    }
}

/// Returns the matrices of a product if a matrix library can compute some of its lines alone.
fn matrices(nest: &LoopNest) -> Option<Matrices> {
    Matrices::from_nest(nest, &Pairs::from_nest(nest)?).filter(Matrices::has_lines)
}

/// Returns the minimum number of pieces of a band, so that all threads have work.
fn n_pieces(n_rows: usize, row_bytes: usize) -> usize {
    let bytes = n_rows.saturating_mul(row_bytes);
    (bytes / LEAST_PIECE_BYTES).clamp(2, ENOUGH_PIECES)
}
