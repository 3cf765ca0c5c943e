//! Nests whose arrays are longer than a kernel can bind, or whose loops are longer than a kernel may take.
//!
//! Role: cuts the loops of a nest into parts that each read and write a stretch of every array that does fit, and end in time.
//! Method: one axis of the output is cut, the outermost that can be; those before it stand still. The parts of one length have one
//! kernel: where its loops start, and where the stretches lie that it is given, are parameters.
//! Limits: the first 8 axes of an output; a part writes whole words.

use std::ops::Range;
use std::sync::Arc;

use tensor_core::DType;
use tensor_core::ir::{IndexMap, LoopNest, Value};

use super::access::{WORD_BITS, bits};
use super::contiguous;

/// Axes of an output that a kernel can start anywhere on, and arrays it can be given a stretch of.
pub(crate) const MAX_AXES: usize = 8;
pub(crate) const MAX_INPUTS: usize = 24;

/// The parameters of a kernel that is given stretches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(crate) struct WindowParams {
    /// Are 0, as in [`NestParams`](super::NestParams).
    zero: u32,
    nothing: u32,
    /// What is added to a position in the output of the part, as given by indices that begin where the loops start.
    shift: i32,
    /// Where the part's first element lies in its stretch.
    first: u32,
    /// Where the loops start.
    starts: [u32; MAX_AXES],
    /// The element with which each stretch begins.
    bases: [u32; MAX_INPUTS],
}

/// A part of a nest.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    /// Its loops, as if they began at 0.
    pub(crate) nest: Arc<LoopNest>,
    /// The last axis that may start elsewhere.
    pub(crate) axis: usize,
    pub(crate) params: WindowParams,
    /// Bytes of the inputs and then of the output.
    pub(crate) stretches: Vec<Range<u64>>,
}

/// What can be bound: so many bytes, from a multiple of so many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding {
    pub(crate) bytes: u64,
    pub(crate) alignment: u64,
}

/// The bytes of an array as it lies on a device.
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

/// Whether all arrays can be bound whole.
pub(crate) fn is_whole(nest: &LoopNest, lens: &[usize], binding: Binding) -> bool {
    let mut inputs = nest.inputs.iter().zip(lens);
    let fits = |dtype: DType, len: usize| bytes(dtype, len) <= binding.bytes;
    inputs.all(|(dtype, len)| fits(*dtype, *len)) && fits(nest.dtype(), nest.output_len())
}

/// The parts of a nest whose output is not empty, each of so many operations at most; `None` if no cut makes them and their arrays
/// fit.
pub(crate) fn windows(
    nest: &LoopNest,
    lens: &[usize],
    binding: Binding,
    operations: f64,
) -> Option<Vec<Window>> {
    /// More parts than these take longer to start than the host takes to compute.
    const MOST: usize = 1 << 12;
    if nest.inputs.len() > MAX_INPUTS {
        return None;
    }
    if nest.operations() <= operations
        && let Some(whole) = uncut(nest, lens, binding)
    {
        return Some(vec![whole]);
    }
    let mut before = 1_usize;
    for axis in 0..nest.domain.len().min(MAX_AXES) {
        let size = nest.domain[axis];
        let mut step = size;
        // Halves until the worst part fits.
        loop {
            let n_parts = before.saturating_mul(size.div_ceil(step));
            if n_parts > MOST {
                return None;
            }
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

/// The whole nest as one part, if it reads no more of each array than can be bound: a few elements
/// of a long array.
fn uncut(nest: &LoopNest, lens: &[usize], binding: Binding) -> Option<Window> {
    let mut part = nest.clone();
    part.contract = None;
    window(nest, &Arc::new(part), lens, binding, 0, [0; MAX_AXES], 0)
}

/// So many steps along an axis, or some more, after which a word of the output ends.
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

/// The parts of `step` along an axis, if all their stretches can be bound.
fn parts(
    nest: &LoopNest,
    lens: &[usize],
    binding: Binding,
    axis: usize,
    step: usize,
) -> Option<Vec<Window>> {
    let size = nest.domain[axis];
    let below: usize = nest.domain[axis + 1..].iter().product();
    // Two lengths at most: that of all parts but the last.
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

/// The part that starts at `starts`, and at element `first` of the output.
fn window(
    nest: &LoopNest,
    part: &Arc<LoopNest>,
    lens: &[usize],
    binding: Binding,
    axis: usize,
    starts: [usize; MAX_AXES],
    first: usize,
) -> Option<Window> {
    let mut stretches = Vec::with_capacity(lens.len() + 1);
    let mut params = WindowParams {
        starts: starts.map(word),
        ..bytemuck::Zeroable::zeroed()
    };
    for (input, &len) in lens.iter().enumerate() {
        let dtype = nest.inputs[input];
        let read = read(part, input, len, &starts);
        let stretch = stretch(dtype, read, binding)?;
        params.bases[input] = word(usize::try_from(stretch.start * 8 / bits_of(dtype)).ok()?);
        stretches.push(stretch);
    }
    let dtype = nest.dtype();
    if let Some(bits) = bits(dtype)
        && !first.is_multiple_of((WORD_BITS / bits) as usize)
    {
        return None;
    }
    let written = stretch(dtype, first..first + part.output_len(), binding)?;
    let base = usize::try_from(written.start * 8 / bits_of(dtype)).ok()?;
    params.first = word(first - base);
    let local = contiguous(&part.domain).at(&starts[..part.domain.len().min(MAX_AXES)]);
    params.shift = i32::try_from((first - base).cast_signed() - local).ok()?;
    stretches.push(written);
    Some(Window {
        nest: Arc::clone(part),
        axis,
        params,
        stretches,
    })
}

/// The bytes around some elements that can be bound, if they can.
fn stretch(dtype: DType, elements: Range<usize>, binding: Binding) -> Option<Range<u64>> {
    let bit = |element: usize| element as u64 * bits_of(dtype);
    let start = bit(elements.start) / 8 / binding.alignment * binding.alignment;
    let end = bit(elements.end).div_ceil(8).next_multiple_of(4);
    // An input of which nothing is read is still bound, by an element.
    let end = end.max(start + (bits_of(dtype) / 8).max(4));
    (end - start <= binding.bytes).then_some(start..end)
}

/// The elements of an input between the first and the last that a part may read.
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
    // What lies outside is guarded, and not read.
    let inside = |position: isize| usize::try_from(position).unwrap_or(0).min(len);
    let (low, high) = (inside(low), inside(high.saturating_add(1)));
    if low < high { low..high } else { 0..0 }
}

/// A map whose loops begin at `starts`.
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
