//! Moves along one axis.

/// Copies the elements `first`, `first + stride`, … of `data` into consecutive elements of `out`.
/// Elements outside of `data` are left unchanged; valid nests have none.
#[inline(always)]
pub(super) fn copy<T: Copy>(data: &[T], first: isize, stride: isize, out: &mut [T]) {
    let Some(last) = out.len().checked_sub(1) else {
        return;
    };
    let span = stride.unsigned_abs().saturating_mul(last);
    let start = match stride {
        0.. => usize::try_from(first).ok(),
        _ => usize::try_from(first)
            .ok()
            .and_then(|at| at.checked_sub(span)),
    };
    let from = start.and_then(|at| data.get(at..=at.checked_add(span)?));
    let Some(from) = from else {
        return;
    };
    match stride {
        1 => out.copy_from_slice(from),
        0 => out.fill(from[0]),
        -1 => {
            let reversed = from.iter().rev();
            out.iter_mut().zip(reversed).for_each(|(out, &x)| *out = x);
        }
        2 => every::<_, 2>(from, out),
        3 => every::<_, 3>(from, out),
        4 => every::<_, 4>(from, out),
        8 => every::<_, 8>(from, out),
        stride if stride > 1 => {
            let spread = from.iter().step_by(stride.unsigned_abs());
            out.iter_mut().zip(spread).for_each(|(out, &x)| *out = x);
        }
        _ => {
            let spread = from.iter().rev().step_by(stride.unsigned_abs());
            out.iter_mut().zip(spread).for_each(|(out, &x)| *out = x);
        }
    }
}

/// Copies every element number `S · i`. The compiler turns a chunk of fixed length into shuffles of
/// vectors.
#[inline(always)]
fn every<T: Copy, const S: usize>(from: &[T], out: &mut [T]) {
    /// The number of results of a chunk.
    const CHUNK: usize = 16;
    let (chunks, rest) = out.as_chunks_mut::<CHUNK>();
    let n_chunks = chunks.len();
    // The last chunk of elements may lack the elements after its last result.
    let whole = from.chunks_exact(CHUNK * S);
    let n_whole = whole.len();
    for (out, from) in chunks.iter_mut().zip(whole) {
        *out = std::array::from_fn(|at| from[S * at]);
    }
    for (chunk, out) in chunks.iter_mut().enumerate().skip(n_whole) {
        *out = std::array::from_fn(|at| from[S * (CHUNK * chunk + at)]);
    }
    for (at, out) in rest.iter_mut().enumerate() {
        *out = from[S * (CHUNK * n_chunks + at)];
    }
}
