//! Plain loops over lanes, without branches, which the compiler vectorizes.
//!
//! Role: the inner loops of the host executor. Every function here is inlined into `step`, and
//! `step` into the loop of `blocks`, which runs with the widest vector instructions of the CPU.

use super::lanes::LaneType;

/// An operand: one value per lane, or one value for all lanes.
#[derive(Clone, Copy)]
pub(super) enum View<'a, T> {
    Lanes(&'a [T]),
    Uniform(T),
}

impl<T: LaneType> View<'_, T> {
    /// Returns the operand's value in a lane; 0 for a lane that would be outside of the input.
    #[inline(always)]
    pub(super) fn at(&self, lane: usize) -> T {
        match *self {
            Self::Lanes(lanes) => lanes.get(lane).copied().unwrap_or_else(T::zeroed),
            Self::Uniform(value) => value,
        }
    }
}

/// Computes `d[i] = f(a[i])`.
#[inline(always)]
pub(super) fn map<A: Copy, D>(d: &mut [D], a: &[A], f: impl Fn(A) -> D) {
    d.iter_mut().zip(a).for_each(|(d, &a)| *d = f(a));
}

/// Calls `f(&mut d[i], a[i])` for each lane.
#[inline(always)]
pub(super) fn update<A: Copy, D>(d: &mut [D], a: View<'_, A>, f: impl Fn(&mut D, A)) {
    match a {
        View::Lanes(a) => d.iter_mut().zip(a).for_each(|(d, &a)| f(d, a)),
        View::Uniform(a) => d.iter_mut().for_each(|d| f(d, a)),
    }
}

/// The number of accumulators into which the lanes of a block are folded in turn: as many as stay
/// in CPU registers.
pub(super) const FOLDED_LANES: usize = 32;

/// The way in which lanes are folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    /// Each lane is folded into its own accumulator.
    Each,
    /// This many lanes are folded into [`FOLDED_LANES`] accumulators.
    Together(usize),
}

/// Folds lanes into accumulators with `f`. `join` combines two accumulators that began with
/// `identity`.
///
/// Lanes that share accumulators are first folded into CPU registers, and the registers are then
/// joined to the accumulators. A long sum is therefore a sum of block sums, whose rounding errors
/// grow with the number of blocks, not of elements.
#[inline(always)]
pub(super) fn fold<A: Copy, D: Copy>(
    fold: Fold,
    d: &mut [D],
    a: View<'_, A>,
    identity: D,
    f: impl Fn(D, A) -> D,
    join: impl Fn(D, D) -> D,
) {
    let Fold::Together(len) = fold else {
        return update(d, a, |d, a| *d = f(*d, a));
    };
    let totals = match a {
        View::Lanes(a) => folded(a, identity, f),
        View::Uniform(a) => {
            let mut totals = [identity; FOLDED_LANES];
            for lane in 0..len {
                let total = &mut totals[lane % FOLDED_LANES];
                *total = f(*total, a);
            }
            totals
        }
    };
    for (d, total) in d.iter_mut().zip(totals) {
        *d = join(*d, total);
    }
}

/// Folds lanes into accumulators that begin with `identity`.
#[inline(always)]
pub(super) fn folded<A: Copy, D: Copy>(
    a: &[A],
    identity: D,
    f: impl Fn(D, A) -> D,
) -> [D; FOLDED_LANES] {
    let (whole, rest) = a.as_chunks::<FOLDED_LANES>();
    let mut totals = [identity; FOLDED_LANES];
    for lanes in whole {
        for (total, &a) in totals.iter_mut().zip(lanes) {
            *total = f(*total, a);
        }
    }
    // The number of remaining lanes is not a constant, so the compiler stores their accumulators in
    // memory. `last` is a copy, so that `totals` stays in CPU registers in the loop above.
    let mut last = totals;
    for (total, &a) in last.iter_mut().zip(rest) {
        *total = f(*total, a);
    }
    last
}

/// Folds accumulators into one, by halves: 32 accumulators into 16, then into 8, and so on. The
/// lengths are constants, so that all accumulators stay in CPU registers.
#[inline(always)]
pub(super) fn halved<T: Copy>(lanes: &[T; FOLDED_LANES], join: impl Fn(T, T) -> T) -> T {
    // This is a plain loop because the compiler does not always inline calls of `array::from_fn`.
    #[inline(always)]
    fn half<T: Copy, const N: usize, const HALF: usize>(
        lanes: &[T; N],
        join: impl Fn(T, T) -> T,
    ) -> [T; HALF] {
        let mut joined = [lanes[0]; HALF];
        for (lane, joined) in joined.iter_mut().enumerate() {
            *joined = join(lanes[lane], lanes[lane + HALF]);
        }
        joined
    }
    let lanes: [T; FOLDED_LANES / 2] = half(lanes, &join);
    let lanes: [T; FOLDED_LANES / 4] = half(&lanes, &join);
    let lanes: [T; FOLDED_LANES / 8] = half(&lanes, &join);
    let [a, b, c, d]: [T; FOLDED_LANES / 8] = lanes;
    join(join(a, c), join(b, d))
}

/// Calls `f(&mut d[i], a[i], b[i])` for each lane. At most one operand may be uniform: the result
/// of two uniform operands is uniform, and is computed from operands of one lane each.
#[inline(always)]
pub(super) fn update2<A: Copy, B: Copy, D>(
    d: &mut [D],
    a: View<'_, A>,
    b: View<'_, B>,
    f: impl Fn(&mut D, A, B),
) {
    match (a, b) {
        (View::Lanes(a), View::Lanes(b)) => {
            d.iter_mut()
                .zip(a)
                .zip(b)
                .for_each(|((d, &a), &b)| f(d, a, b));
        }
        (View::Lanes(a), View::Uniform(b)) => d.iter_mut().zip(a).for_each(|(d, &a)| f(d, a, b)),
        (View::Uniform(a), View::Lanes(b)) => d.iter_mut().zip(b).for_each(|(d, &b)| f(d, a, b)),
        (View::Uniform(_), View::Uniform(_)) => {
            unreachable!("a uniform value is computed as one lane")
        }
    }
}

/// Computes `d[i] = f(a[i], b[i])`.
#[inline(always)]
pub(super) fn map2<A: Copy, B: Copy, D>(
    d: &mut [D],
    a: View<'_, A>,
    b: View<'_, B>,
    f: impl Fn(A, B) -> D,
) {
    update2(d, a, b, |d, a, b| *d = f(a, b));
}

/// Computes `d[i] = f(a[i], b[i])` for rare or slow functions: one loop that is compiled once, not
/// for each instruction set.
#[inline(never)]
pub(super) fn rare<T: Copy>(d: &mut [T], a: View<'_, T>, b: View<'_, T>, f: impl Fn(T, T) -> T) {
    let of = |operand: View<'_, T>, at: usize| match operand {
        View::Lanes(lanes) => lanes[at],
        View::Uniform(value) => value,
    };
    for (at, d) in d.iter_mut().enumerate() {
        *d = f(of(a, at), of(b, at));
    }
}

/// Computes `d[i] = c[i] != 0 ? a[i] : b[i]`.
#[inline(always)]
pub(super) fn choose<T: Copy>(d: &mut [T], c: View<'_, u8>, a: View<'_, T>, b: View<'_, T>) {
    match c {
        View::Uniform(c) => update(d, if c != 0 { a } else { b }, |d, x| *d = x),
        View::Lanes(c) => match (a, b) {
            (View::Lanes(a), View::Lanes(b)) => {
                let pairs = c.iter().zip(a).zip(b);
                d.iter_mut()
                    .zip(pairs)
                    .for_each(|(d, ((&c, &a), &b))| *d = if c != 0 { a } else { b });
            }
            (View::Lanes(a), View::Uniform(b)) => {
                map2(d, View::Lanes(c), View::Lanes(a), |c, a| {
                    if c != 0 { a } else { b }
                });
            }
            (View::Uniform(a), b) => map2(d, View::Lanes(c), b, |c, b| if c != 0 { a } else { b }),
        },
    }
}
