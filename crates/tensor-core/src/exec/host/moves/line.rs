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

/// Copies every element number `S · i`. The compiler turns chunks of fixed length into shuffles of
/// vectors.
#[inline(always)]
fn every<T: Copy, const S: usize>(from: &[T], out: &mut [T]) {
    // The elements end with the last one that is copied, so they have one whole chunk less than
    // results.
    let (chunks, _) = from.as_chunks::<S>();
    let results = out.iter_mut().zip(chunks);
    results.for_each(|(out, chunk)| *out = chunk[0]);
    if let (Some(out), Some(&last)) = (out.last_mut(), from.last()) {
        *out = last;
    }
}
