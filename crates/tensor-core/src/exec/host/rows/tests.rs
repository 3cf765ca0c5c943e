//! Tests of chains on rows, at every level, with the definition of each operation.

use std::sync::Arc;

use super::*;
use crate::exec::Executor;
use crate::exec::host::lanes::{LaneType, total};
use crate::exec::host::loops::{FOLDED_LANES, View};
use crate::op::{Binary, Unary};
use crate::plan::Plan;
use crate::tensor::Tensor;
use crate::{Host, Reference};

/// Lengths of rows around those of vectors, of all vectors of a chunk, and of a group.
const LENS: [usize; 17] = [
    1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 400, 1000, 1025,
];
const N_ROWS: usize = 3;

/// Returns numbers of both signs, with special ones among them from `first_special` on.
fn numbers<T>(from_f64: fn(f64) -> T, n: usize, seed: usize, first_special: usize) -> Vec<T> {
    const SPECIAL: [f64; 9] = [
        0.0,
        -0.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e-40,
        -3e38,
        1.0,
        -1.0,
    ];
    let number = |i: usize| {
        if i >= first_special && (i + seed).is_multiple_of(7) {
            SPECIAL[(i / 7 + seed) % SPECIAL.len()]
        } else {
            ((i * 7919 + seed * 104_729) % 2003) as f64 / 501.5 - 2.0
        }
    };
    (0..n).map(number).map(from_f64).collect()
}

/// Returns the result of a link for one lane, by the definition of its operation.
fn applied<T: FloatVector>(level: Level, link: Link<T>, x: T) -> T {
    let mut result = [T::identity(Reduce::Sum)];
    let mut binary = |op, a, b| {
        T::binary(level, op, &mut result, View::Lanes(&[a]), View::Lanes(&[b]));
        result[0]
    };
    match link {
        Link::Binary(op, y) => binary(op, x, y),
        Link::Swapped(op, y) => binary(op, y, x),
        Link::Twice(op) => binary(op, x, x),
        Link::Unary(op) => {
            T::unary(level, op, &mut result, &[x]);
            result[0]
        }
    }
}

/// Chains of every operation, on operands of each kind.
fn chains() -> Vec<(usize, Vec<Link<usize>>)> {
    use Binary::{Add, Div, Maximum, Minimum, Mul, Sub};
    use Unary::{Abs, Cos, Erf, Erfc, Exp, Ln, Neg, Recip, Sigmoid, Sin, Sqrt, Tanh};
    let binary = [Add, Div, Maximum, Minimum, Mul, Sub];
    // The numbers of operands: a number, a NaN, one for each row, two for each lane.
    let mut chains: Vec<(usize, Vec<Link<usize>>)> = Vec::new();
    for first in [3, 2, 0] {
        for op in binary {
            for operand in 0..5 {
                chains.push((first, vec![Link::Binary(op, operand)]));
                chains.push((first, vec![Link::Swapped(op, operand)]));
            }
            chains.push((first, vec![Link::Twice(op)]));
        }
        for op in [
            Abs, Cos, Erf, Erfc, Exp, Ln, Neg, Recip, Sigmoid, Sin, Sqrt, Tanh,
        ] {
            let unary = Link::Unary(op);
            chains.push((first, vec![unary]));
            chains.push((
                first,
                vec![Link::Binary(Sub, 2), unary, Link::Swapped(Div, 4)],
            ));
            chains.push((first, vec![unary, unary]));
            chains.push((first, vec![Link::Twice(Mul), Link::Unary(Neg), unary]));
        }
    }
    let long = [
        Link::Binary(Mul, 0),
        Link::Swapped(Sub, 4),
        Link::Unary(Abs),
        Link::Binary(Add, 3),
    ];
    chains.push((3, (0..MAX_LINKS).map(|i| long[i % 4]).collect()));
    chains.push((3, vec![]));
    chains
}

/// Returns the fold of a row by the definition: groups of lanes into accumulators in turn.
fn folded<T: FloatVector>(op: Reduce, row: &[T]) -> T {
    let join = |a: T, b: T| match op {
        Reduce::Sum => a.plus(b),
        Reduce::Prod => a.times(b),
        Reduce::Max => crate::exec::host::lanes::larger(b, a),
        _ => crate::exec::host::lanes::smaller(b, a),
    };
    let mut accumulators = [T::identity(op); FOLDED_LANES];
    for group in row.chunks(GROUP) {
        let mut totals = [T::identity(op); FOLDED_LANES];
        for (lane, &x) in group.iter().enumerate() {
            totals[lane % FOLDED_LANES] = join(totals[lane % FOLDED_LANES], x);
        }
        for (accumulator, total) in accumulators.iter_mut().zip(totals) {
            *accumulator = join(*accumulator, total);
        }
    }
    total(op, &accumulators)
}

/// Runs a chain on rows of lanes.
fn run<T: FloatVector + Chunks>(
    level: Level,
    first: Operand<'_, T>,
    links: &[Link<Operand<'_, T>>],
    [n_rows, len]: [usize; 2],
    fold: Option<Reduce>,
    sentinel: T,
) -> Vec<T> {
    let mut out = vec![sentinel; n_rows * if fold.is_some() { 1 } else { len }];
    let mut scratch = [[sentinel; GROUP]; 2];
    let (a, b) = scratch.split_at_mut(1);
    let chain = RowChain {
        first,
        links: links_of(links),
        len,
        fold: fold.map(|op| (op, Links::default())),
    };
    let is_needed = chain.needs_scratch();
    let row_len = if fold.is_some() { 1 } else { len };
    level.run(Rows {
        level,
        chains: &[chain],
        results: &mut [Results::new(&mut out, row_len)],
        n_rows,
        n_block_rows: n_rows,
        scratch: match is_needed {
            true => [&mut a[0], &mut b[0]],
            false => [&mut [], &mut []],
        },
    });
    out
}

/// Asserts that numbers are equal: all NaN are, and zeros if `zeros` is set.
#[track_caller]
fn assert_equal<T: LaneType>(actual: &[T], expected: &[T], zeros: bool, case: &str) {
    assert_eq!(actual.len(), expected.len(), "{case}");
    for (at, (&a, &b)) in actual.iter().zip(expected).enumerate() {
        let (a, b) = (a.to_f64(), b.to_f64());
        let is_equal =
            a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) || (zeros && a == b);
        assert!(is_equal, "{case}: {a} instead of {b} at {at}");
    }
}

fn links_of<'a, T: FloatVector>(links: &[Link<Operand<'a, T>>]) -> Links<'a, T> {
    Links::new(links, |operand| *operand)
}

/// Checks three chains on the same rows: a fold with operations after it, a chain that reads the
/// result of the fold, and a fold of both. All rows of the second chain are stored, or only those
/// of the last block.
fn check_together<T: FloatVector + Chunks>(level: Level, from_f64: fn(f64) -> T, len: usize) {
    use Binary::{Add, Mul, Sub};
    let sentinel = from_f64(-7.25e22);
    let n_block_rows = (BLOCK_LANES / len).clamp(1, 8);
    let n_block_rows = 1 << n_block_rows.ilog2();
    let n_rows = 2 * n_block_rows + 1;
    let array = numbers(from_f64, n_rows * len, 1, usize::MAX);
    let [half, three] = [0.5, 3.0].map(from_f64);
    let lanes = Operand::Lanes(Elements {
        array: &array,
        start: 0,
        step: len.cast_signed(),
    });
    let position = |chain: usize| ResultPosition { chain, start: 0 };
    let number = |number: T| Operand::Number(number);
    for op in [Reduce::Sum, Reduce::Prod, Reduce::Max, Reduce::Min] {
        let mut expected: [Vec<T>; 3] = Default::default();
        for row in array.chunks(len) {
            let total = applied(level, Link::Binary(Mul, half), folded(op, row));
            let total = applied(level, Link::Swapped(Sub, three), total);
            let scaled = |&x: &T| applied(level, Link::Binary(Mul, total), x);
            let scaled: Vec<T> = row.iter().map(scaled).collect();
            let moved = scaled
                .iter()
                .map(|&x| applied(level, Link::Binary(Add, total), x));
            expected[2].push(folded(op, &moved.collect::<Vec<T>>()));
            expected[1].extend(scaled);
            expected[0].push(total);
        }
        for n_stored in [n_rows, n_block_rows, n_block_rows / 2] {
            let after = [
                Link::Binary(Mul, number(half)),
                Link::Swapped(Sub, number(three)),
            ];
            let total = Operand::ResultNumber(position(0));
            let chains = [
                (lanes, links_of(&[]), Some((op, links_of(&after)))),
                (lanes, links_of(&[Link::Binary(Mul, total)]), None),
                (
                    Operand::ResultLanes(position(1)),
                    links_of(&[Link::Binary(Add, total)]),
                    Some((op, Links::default())),
                ),
            ];
            let chains = chains.map(|(first, links, fold)| RowChain {
                first,
                links,
                len,
                fold,
            });
            if n_stored == 0 {
                continue;
            }
            let mut out = [n_rows, n_stored * len, n_rows].map(|len| vec![sentinel; len]);
            let [first, second, third] = &mut out;
            let second = match n_stored == n_rows {
                true => Results::new(second, len),
                false => Results::with_last_rows(second, len, n_stored),
            };
            let results = &mut [Results::new(first, 1), second, Results::new(third, 1)];
            run_rows(level, &chains, results, [n_rows, n_block_rows]);
            let case = format!("{op:?}, {len} lanes, {n_stored} rows are stored");
            if n_stored < n_block_rows {
                // The third chain reads rows that later rows of the block have replaced. Products
                // and extremes of other rows may be equal.
                assert!(op != Reduce::Sum || out[2] != expected[2], "{case}");
                continue;
            }
            assert_equal(&out[0], &expected[0], false, &case);
            assert_equal(&out[2], &expected[2], false, &case);
            for (row, expected) in expected[1].chunks(len.max(1)).enumerate() {
                if row + n_stored >= n_rows {
                    let stored = &out[1][row % n_stored * len..][..len];
                    assert_equal(stored, expected, false, &case);
                }
            }
        }
    }
}

fn check_all<T: FloatVector + Chunks>(from_f64: fn(f64) -> T) {
    let sentinel = from_f64(-7.25e22);
    let levels: Vec<(&str, Level)> = Level::all()
        .into_iter()
        .filter_map(|(name, level)| Some((name, level?)))
        .collect();
    for &len in &LENS {
        for &(_, level) in &levels {
            check_together(level, from_f64, len);
        }
        for first_special in [len / 2, usize::MAX] {
            let n = N_ROWS * (len + 3);
            let arrays = [1, 2].map(|seed| numbers(from_f64, n, seed, first_special));
            let rows = numbers(from_f64, N_ROWS, 3, usize::MAX);
            // The rows of the first array are apart, those of the second are in reversed order.
            let lanes = |number: usize| match number {
                3 => (0, (len + 3).cast_signed()),
                _ => ((N_ROWS - 1) * len, -len.cast_signed()),
            };
            let operand = |number: usize| match number {
                0 => Operand::Number(from_f64(0.75)),
                1 => Operand::Number(from_f64(f64::NAN)),
                2 => Operand::Row(Elements {
                    array: &rows,
                    start: 0,
                    step: 1,
                }),
                _ => {
                    let (start, step) = lanes(number);
                    let array = &arrays[number - 3];
                    Operand::Lanes(Elements {
                        array,
                        start: start.cast_signed(),
                        step,
                    })
                }
            };
            let element = |number: usize, row: usize, lane: usize| match number {
                0 => from_f64(0.75),
                1 => from_f64(f64::NAN),
                2 => rows[row],
                _ => {
                    let (start, step) = lanes(number);
                    let start = start.cast_signed() + step * row.cast_signed();
                    arrays[number - 3][start.unsigned_abs() + lane]
                }
            };
            for (first, links) in chains() {
                // The functions have tests of their own; their results count here as they are.
                let expected: Vec<T> = (0..N_ROWS * len)
                    .map(|at| {
                        let (row, lane) = (at / len, at % len);
                        links.iter().fold(element(first, row, lane), |x, link| {
                            applied(levels[0].1, link.map(|it| element(it, row, lane)), x)
                        })
                    })
                    .collect();
                let operands: Vec<_> = links.iter().map(|link| link.map(operand)).collect();
                let folds_of =
                    |op| -> Vec<T> { expected.chunks(len).map(|row| folded(op, row)).collect() };
                let folds = [Reduce::Sum, Reduce::Prod, Reduce::Max, Reduce::Min];
                let folds = folds.map(|op| (op, folds_of(op)));
                for &(name, level) in &levels {
                    let case = format!("{first}, {links:?}, {len} lanes, {name}");
                    let first = operand(first);
                    if !links.is_empty() {
                        let out = run(level, first, &operands, [N_ROWS, len], None, sentinel);
                        assert_equal(&out, &expected, false, &case);
                    }
                    for (op, folds) in &folds {
                        let shape = [N_ROWS, len];
                        let out = run(level, first, &operands, shape, Some(*op), sentinel);
                        let is_extreme = matches!(op, Reduce::Max | Reduce::Min);
                        assert_equal(&out, folds, is_extreme, &format!("{op:?}: {case}"));
                    }
                }
            }
        }
    }
}

#[test]
#[expect(
    clippy::cast_possible_truncation,
    reason = "numbers beyond the range of f32 become infinite"
)]
fn chains_of_f32_are_their_operations_at_every_level() {
    check_all(|x| x as f32);
}

#[test]
fn chains_of_f64_are_their_operations_at_every_level() {
    check_all(|x| x);
}

/// Returns a matrix of small multiples of 1/8, so that sums are exact.
fn matrix(rows: usize, cols: usize) -> Tensor {
    let element = |i: usize| ((i * 7919 + i / 13) % 33) as f32 / 8.0 - 2.0;
    Tensor::from_vec(&[rows, cols], (0..rows * cols).map(element).collect())
}

/// Returns the nests of a program that are chains on rows.
fn chains_of(tensor: &Tensor) -> Vec<(ChainRows, Arc<LoopNest>)> {
    let (plan, _) = Plan::new(&[tensor], &Host::new().target()).expect("the program is valid");
    let nests = plan.steps.iter().map(|step| &step.nest);
    nests
        .filter_map(|nest| Some((ChainRows::new(nest)?, Arc::clone(nest))))
        .collect()
}

#[track_caller]
fn assert_exact(tensor: &Tensor) {
    assert_eq!(chains_of(tensor).len(), 1, "the program is one chain");
    assert_equals_reference(tensor);
}

#[track_caller]
fn assert_equals_reference(tensor: &Tensor) {
    let expected = tensor
        .eval::<f32>(&Reference)
        .expect("the program is valid");
    let actual = tensor
        .eval::<f32>(&Host::new())
        .expect("the program is valid");
    assert_eq!(actual, expected);
}

#[test]
fn rows_of_all_lengths_are_those_of_the_reference() {
    for (rows, cols) in [
        (1, 1),
        (1, 63),
        (2, 64),
        (5, 65),
        (3, 1024),
        (70, 1100),
        (4, 70_001),
    ] {
        let x = matrix(rows, cols);
        let row = matrix(1, cols);
        let column = matrix(rows, 1);
        let programs = [
            &x * 2.0 - &row,
            (&column - &x).abs() * &row + &column,
            (&x - &column).sum(1),
            (1.0 - (&x * 2.0).sum(1) * &column.reshape(&[rows])).relu(),
            (&x * &x).max(1) + &column.reshape(&[rows]) * 3.0,
            (1.0 - &x).min(..),
            (&x * 0.5).relu().sum(..),
        ];
        // The interpreter folds short rows.
        let check = match cols >= LEAST_LANES {
            true => assert_exact,
            false => assert_equals_reference,
        };
        programs.iter().for_each(check);
    }
}

#[test]
fn long_rows_are_folded_in_chunks_of_any_remainder() {
    for cols in [CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 5] {
        for rows in [1, 3] {
            let x = matrix(rows, cols);
            assert_exact(&(&x + 1.0).max(1));
            assert_exact(&(&x * 4.0).sum(1));
            assert_exact(&(x.sum(1) * 0.25 - 1.0));
        }
    }
}

#[test]
fn arrays_of_several_tasks_are_computed_to_the_last_element() {
    for len in [TASK_VALUES - 1, 3 * TASK_VALUES + 1] {
        let x = matrix(1, len).reshape(&[len]);
        assert_exact(&(&x * 2.0 + 1.0));
        assert_exact(&(1.0 - &x));
    }
}

/// Asserts that spans of the output have the bits of the whole output, if each input begins with
/// the first row of the span.
fn check_spans(tensor: &Tensor, n_rows: usize, inputs: &[&Tensor]) {
    let arrays: Vec<Vec<f32>> = inputs
        .iter()
        .map(|it| {
            it.to_host::<f32>()
                .expect("inputs are in memory")
                .into_iter()
                .collect()
        })
        .collect();
    let (chain, nest) = chains_of(tensor).remove(0);
    // The inputs of a nest are known by their lengths.
    let lens: Vec<usize> = inputs_of(&nest);
    let array = |len: usize| {
        arrays
            .iter()
            .find(|array| array.len() == len)
            .expect("an input")
    };
    let whole: Vec<HostData> = lens
        .iter()
        .map(|&len| HostData::F32(array(len).clone()))
        .collect();
    let whole: Vec<&HostData> = whole.iter().collect();
    let mut expected = vec![0.0_f32; nest.output_len()];
    chain
        .fill(&whole, &mut expected)
        .expect("the nest is valid");
    let row = expected.len() / n_rows;
    for first in [0, 1, row - 1, row, expected.len() / 2, expected.len() - 1] {
        for len in [1, row, row + 1, 3 * row, expected.len()] {
            let end = expected.len().min(first + len);
            let starts: Vec<usize> = lens
                .iter()
                .map(|len| {
                    if len % n_rows == 0 {
                        first / row * (len / n_rows)
                    } else {
                        0
                    }
                })
                .collect();
            let shifted: Vec<HostData> = lens
                .iter()
                .zip(&starts)
                .map(|(&len, &start)| HostData::F32(array(len)[start..].to_vec()))
                .collect();
            let shifted: Vec<&HostData> = shifted.iter().collect();
            let span = Span {
                inputs: &shifted,
                starts: &starts,
                first,
            };
            let mut out = vec![f32::NAN; end - first];
            chain.fill_span(&span, &mut out).expect("the nest is valid");
            assert_equal(
                &out,
                &expected[first..end],
                false,
                &format!("{len} from {first}"),
            );
        }
    }
}

/// Returns the number of elements that a nest reads of each of its inputs.
fn inputs_of(nest: &LoopNest) -> Vec<usize> {
    let sizes = nest.sizes();
    let mut lens = vec![0; nest.inputs.len()];
    for value in &nest.values {
        if let Value::Load { input, map, .. } = value {
            let (_, last) = map.range(&sizes);
            lens[*input] = lens[*input].max(last.unsigned_abs() + 1);
        }
    }
    lens
}

#[test]
fn spans_have_the_bits_of_the_whole_output() {
    let (x, row, column) = (matrix(6, 101), matrix(1, 101), matrix(6, 1));
    let inputs = [&x, &row, &column];
    check_spans(&((&x - &column).exp() * &row), 6, &inputs);
    check_spans(&((&x - &column).sum(1) / column.reshape(&[6])), 6, &inputs);
    // The interpreter runs this epilogue, which has two chains.
    let two = (&x - &column).sum(1) + column.reshape(&[6]) * 3.0;
    assert!(matches!(
        chains_of(&two)[0].0.epilogue,
        Epilogue::Program(_)
    ));
    check_spans(&two, 6, &inputs);
    let long = matrix(3, CHUNK + 100);
    let column = matrix(3, 1);
    check_spans(
        &((&long * &column).sum(1) + column.reshape(&[3])),
        3,
        &[&long, &column],
    );
}

#[test]
fn nests_that_are_no_chain_of_floats_are_left_to_others() {
    let compiled = |tensor: &Tensor| chains_of(tensor).len();
    let x = matrix(40, 100);
    assert_eq!(compiled(&(&x * 2.0 + 1.0)), 1);
    assert_eq!(compiled(&(&x * 2.0).sum(1)), 1);
    // Sliding sums, whose neighbours the interpreter folds side by side.
    let line = matrix(1, 1000).reshape(&[1000]);
    assert_eq!(compiled(&line.window(0, 64, 1).sum(1)), 0);
    // Two chains, a column of neighbours, short rows, comparisons.
    assert_eq!(compiled(&((&x + 1.0) * (&x - 1.0))), 0);
    assert_eq!(compiled(&(&x * 2.0).sum(0)), 0);
    assert_eq!(compiled(&matrix(100, 10).sum(1)), 0);
    assert_eq!(compiled(&x.lt(0.5)), 0);
}
