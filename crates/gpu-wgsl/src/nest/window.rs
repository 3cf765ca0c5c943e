//! Windows of nests whose arrays exceed a binding, or whose loops run too long for one kernel.
//!
//! Role: divides the loops of a nest into windows. A window accesses one chunk of every array. The
//! chunks fit into bindings, and the window ends before a driver's watchdog stops it.
//! Method: one axis of the output is split: the outermost axis whose windows satisfy the limits.
//! The axes before it have a fixed index in each window. Windows of equal length share one kernel:
//! the starts of the loops and of the chunks are parameters.
//! Limits: only the first 8 axes of an output can be split. A window writes whole words.
//!
//! ```text
//!  output:   [ window 0 ][ window 1 ][ window 2 ][ 3 ]
//!  binding:          [...[ window 1 ]      starts at a multiple of the alignment
//!                    ^base
//!                        ^base + first
//! ```

use std::ops::Range;
use std::sync::Arc;

use tensor_core::DType;
use tensor_core::ir::{IndexMap, LoopNest, Value};

use super::access::{WORD_BITS, bits};
use super::contiguous;
use crate::limits::Binding;

/// Length of [`WindowParams::starts`]: only the first axes of an output can be split into windows.
pub(crate) const MAX_AXES: usize = 8;
/// Length of [`WindowParams::bases`]: the maximum number of inputs of a nest that is split.
pub(crate) const MAX_INPUTS: usize = 24;

/// The first bytes of the parameters of a kernel that binds chunks of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct WindowParams {
    /// Always 0, as in [`NestParams`](super::NestParams).
    zero: u32,
    /// Always 0, as in [`NestParams`](super::NestParams).
    other_zero: u32,
    /// Offset from a position in the window's output, computed from absolute loop indices, to a
    /// position in the bound chunk.
    shift: i32,
    /// Position of the window's first element in the chunk of the output that is bound.
    first: u32,
    /// Start index of each loop.
    starts: [u32; MAX_AXES],
    /// Index of the first element of each bound chunk.
    bases: [u32; MAX_INPUTS],
}

/// A part of a nest, run by one kernel.
#[derive(Debug, Clone)]
pub(crate) struct SubNest {
    /// The loops of the window, starting at 0.
    pub(crate) nest: Arc<LoopNest>,
    /// The last axis whose loop may start at an index other than 0.
    pub(crate) axis: usize,
    pub(crate) params: WindowParams,
    /// Bound byte ranges of the inputs, then of the output.
    pub(crate) chunks: Vec<Range<u64>>,
}

/// Returns the size of an array on a device, in bytes: a multiple of 4.
pub(crate) fn bytes(dtype: DType, len: usize) -> u64 {
    (len as u64 * bits_of(dtype))
        .div_ceil(8)
        .next_multiple_of(4)
}

fn bits_of(dtype: DType) -> u64 {
    match dtype {
        DType::F64 => 64,
        _ => bits(dtype).unwrap_or(WORD_BITS).into(),
    }
}

/// Returns whether every array fits into a binding.
pub(crate) fn is_whole(nest: &LoopNest, lens: &[usize], binding: Binding) -> bool {
    let mut inputs = nest.inputs.iter().zip(lens);
    let fits = |dtype: DType, len: usize| bytes(dtype, len) <= binding.bytes;
    inputs.all(|(dtype, len)| fits(*dtype, *len)) && fits(nest.dtype(), nest.output_len())
}

/// Divides a nest whose output is not empty into windows of at most `operations` operations each;
/// `None` if no division makes the arrays of every window fit.
pub(crate) fn windows(
    nest: &LoopNest,
    lens: &[usize],
    binding: Binding,
    operations: f64,
) -> Option<Vec<SubNest>> {
    /// Maximum number of windows. More windows take longer to start than the host takes to compute
    /// the nest.
    const MOST: usize = 1 << 12;
    if nest.inputs.len() > MAX_INPUTS {
        return None;
    }
    if nest.operations() <= operations
        && let Some(whole) = uncut(nest, lens, binding)
    {
        return Some(vec![whole]);
    }
    // `before` is the number of index combinations of the axes before `axis`, which all have
    // windows of their own.
    let mut before = 1_usize;
    for axis in 0..nest.domain.len().min(MAX_AXES) {
        let size = nest.domain[axis];
        let mut step = size;
        // Halves the step until the largest window fits.
        loop {
            let n_parts = before.saturating_mul(size.div_ceil(step));
            if n_parts > MOST {
                return None;
            }
            // Fraction of the nest's operations in one window.
            let share = step as f64 / size as f64 / before as f64;
            if nest.operations() * share <= operations
                && let Some(parts) = parts(nest, lens, binding, axis, step)
            {
                return Some(parts);
            }
            let half = whole_words(nest, axis, step.div_ceil(2));
            if half >= step {
                break;
            }
            step = half;
        }
        before = before.saturating_mul(size);
    }
    None
}

/// Returns the whole nest as one window, if the elements that it accesses of each array fit into
/// one binding, e.g. a few elements of a long array.
fn uncut(nest: &LoopNest, lens: &[usize], binding: Binding) -> Option<SubNest> {
    let mut part = nest.clone();
    part.contract = None;
    window(nest, &Arc::new(part), lens, binding, 0, [0; MAX_AXES], 0)
}

/// Rounds `step` up so that a window along `axis` ends at a word boundary of the output.
fn whole_words(nest: &LoopNest, axis: usize, step: usize) -> usize {
    let Some(bits) = bits(nest.dtype()) else {
        return step;
    };
    let per_word = (WORD_BITS / bits) as usize;
    let below: usize = nest.domain[axis + 1..].iter().product();
    match below.is_multiple_of(per_word) {
        true => step,
        false => step.next_multiple_of(per_word),
    }
}

/// Returns the windows of length `step` along an axis, if all their chunks fit into bindings.
fn parts(
    nest: &LoopNest,
    lens: &[usize],
    binding: Binding,
    axis: usize,
    step: usize,
) -> Option<Vec<SubNest>> {
    let size = nest.domain[axis];
    let below: usize = nest.domain[axis + 1..].iter().product();
    // At most two lengths occur: the last window may be shorter.
    let of_length = |length: usize| {
        let mut part = nest.clone();
        part.domain[..axis].fill(1);
        part.domain[axis] = length;
        part.contract = None;
        Arc::new(part)
    };
    let whole = of_length(step.min(size));
    let rest = (!size.is_multiple_of(step)).then(|| of_length(size % step));
    let n_before: usize = nest.domain[..axis].iter().product();
    let mut windows = Vec::new();
    for outer in 0..n_before {
        let mut starts = [0; MAX_AXES];
        // Splits the linear index `outer` into the indices of the axes before `axis`.
        let mut left = outer;
        for place in (0..axis).rev() {
            starts[place] = left % nest.domain[place];
            left /= nest.domain[place];
        }
        for start in (0..size).step_by(step) {
            starts[axis] = start;
            let part = match &rest {
                Some(rest) if start + step > size => rest,
                _ => &whole,
            };
            let first = (outer * size + start) * below;
            windows.push(window(nest, part, lens, binding, axis, starts, first)?);
        }
    }
    Some(windows)
}

/// Returns the window whose loops begin at `starts`, and whose output begins at element `first`;
/// `None` if a chunk of an array exceeds the binding limit.
fn window(
    nest: &LoopNest,
    part: &Arc<LoopNest>,
    lens: &[usize],
    binding: Binding,
    axis: usize,
    starts: [usize; MAX_AXES],
    first: usize,
) -> Option<SubNest> {
    let mut chunks = Vec::with_capacity(lens.len() + 1);
    let mut params = WindowParams {
        starts: starts.map(word),
        ..bytemuck::Zeroable::zeroed()
    };
    for (input, &len) in lens.iter().enumerate() {
        let dtype = nest.inputs[input];
        let read = read(part, input, len, &starts);
        let chunk = chunk(dtype, read, binding)?;
        params.bases[input] = word(usize::try_from(chunk.start * 8 / bits_of(dtype)).ok()?);
        chunks.push(chunk);
    }
    let dtype = nest.dtype();
    if let Some(bits) = bits(dtype)
        && !first.is_multiple_of((WORD_BITS / bits) as usize)
    {
        return None;
    }
    let written = chunk(dtype, first..first + part.output_len(), binding)?;
    let base = usize::try_from(written.start * 8 / bits_of(dtype)).ok()?;
    params.first = word(first - base);
    // Kernels in blocks compute positions from absolute loop indices, with the strides of the
    // window: `local` is the result for the first element, so `shift` moves it to `first - base`.
    let local = contiguous(&part.domain).at(&starts[..part.domain.len().min(MAX_AXES)]);
    params.shift = i32::try_from((first - base).cast_signed() - local).ok()?;
    chunks.push(written);
    Some(SubNest {
        nest: Arc::clone(part),
        axis,
        params,
        chunks,
    })
}

/// Returns the aligned byte range around some elements; `None` if it exceeds a binding.
fn chunk(dtype: DType, elements: Range<usize>, binding: Binding) -> Option<Range<u64>> {
    // Computed in bits, because several elements may share a byte.
    let bit = |element: usize| element as u64 * bits_of(dtype);
    let start = bit(elements.start) / 8 / binding.alignment * binding.alignment;
    let end = bit(elements.end).div_ceil(8).next_multiple_of(4);
    // An input that is not read is still bound, with one element.
    let end = end.max(start + (bits_of(dtype) / 8).max(4));
    (end - start <= binding.bytes).then_some(start..end)
}

/// Returns the range of elements of an input that a window may read.
fn read(part: &LoopNest, input: usize, len: usize, starts: &[usize; MAX_AXES]) -> Range<usize> {
    let sizes = part.sizes();
    let (mut low, mut high) = (isize::MAX, isize::MIN);
    for value in &part.values {
        let (map, along) = match value {
            Value::Load {
                input: own, map, ..
            } if *own == input => (map, 0),
            Value::Gather {
                input: own,
                map,
                stride,
                extent,
                ..
            } if *own == input => (map, stride * (extent - 1).cast_signed()),
            _ => continue,
        };
        let (first, last) = moved(map, starts).range(&sizes);
        low = low.min(first.min(first + along));
        high = high.max(last.max(last + along));
    }
    // Positions outside of the array fail their guards and are not read.
    let inside = |position: isize| usize::try_from(position).unwrap_or(0).min(len);
    let (low, high) = (inside(low), inside(high.saturating_add(1)));
    if low < high { low..high } else { 0..0 }
}

/// Converts a map for loops that begin at `starts` to loops that begin at 0.
fn moved(map: &IndexMap, starts: &[usize; MAX_AXES]) -> IndexMap {
    IndexMap {
        offset: map.at(starts),
        strides: map.strides.clone(),
    }
}

fn word(number: usize) -> u32 {
    // Arrays have less than 2^31 elements.
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_has_whole_words_and_at_least_one_element() {
        let binding = Binding {
            bytes: 64,
            alignment: 16,
        };
        let of = |dtype, elements| chunk(dtype, elements, binding);
        assert_eq!(of(DType::F32, 0..16), Some(0..64));
        assert_eq!(of(DType::F32, 0..17), None);
        assert_eq!(of(DType::F32, 7..9), Some(16..36));
        assert_eq!(of(DType::Bool, 33..65), Some(0..12));
        for (dtype, bytes) in [
            (DType::Bool, 4),
            (DType::F16, 4),
            (DType::F32, 4),
            (DType::F64, 8),
        ] {
            assert_eq!(of(dtype, 0..0), Some(0..bytes), "{dtype}");
        }
    }
}
