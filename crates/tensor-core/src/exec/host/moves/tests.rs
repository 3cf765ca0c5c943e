//! Moves of every kind, compared with the reference executor, in parts and whole.

use std::sync::Arc;

use super::*;
use crate::dtype::{DType, with_element};
use crate::exec::reference::host_inputs;
use crate::exec::{Executor, Host, Reference, Storage};
use crate::plan::Plan;
use crate::{Error, Scalar, Tensor};

/// Plans a program of one step, and returns its moves and its inputs.
fn moves_of(name: &str, program: &Tensor) -> (Moves, Vec<Arc<dyn Storage>>) {
    let (plan, data) = Plan::new(&[program], &Host::new().target()).unwrap();
    let [step] = &plan.steps[..] else {
        panic!("{name}: {} steps\n{}", plan.steps.len(), plan.explain());
    };
    let moves = Moves::from_nest(&step.nest);
    let moves = moves.unwrap_or_else(|| panic!("{name}: not a move\n{}", plan.explain()));
    let at = |input| plan.inputs.iter().position(|known| known == input).unwrap();
    let inputs = step.inputs.iter().map(|input| Arc::clone(&data[at(input)]));
    (moves, inputs.collect())
}

/// Compares the moves of a program with the reference: whole, and cut into tasks of different
/// lengths along every axis. The output is filled with another element before.
fn check(name: &str, program: &Tensor) {
    let (mut moves, inputs) = moves_of(name, program);
    let inputs = host_inputs(&inputs).unwrap();
    let dtype = program.dtype().unwrap();
    let expected = program.realize(&Reference).unwrap();
    with_element!(dtype, T => {
        let expected = expected.to_host::<T>().unwrap();
        let expected = expected.as_slice().unwrap();
        let sentinel = T::from_scalar(Scalar::U32(77).cast(dtype)).unwrap();
        let mut out = vec![sentinel; expected.len()];
        moves.fill(&inputs, &mut out).unwrap();
        assert_eq!(out, expected, "{name}: {:?}", moves.domain);
        let cuts: Vec<(usize, usize)> = moves.domain.iter().enumerate().flat_map(|(axis, &size)| {
            [1, 2, 7, size].map(|len| (axis, len.min(size)))
        }).collect();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for cut in cuts {
            moves.cut = cut;
            out.fill(sentinel);
            pool.install(|| moves.fill(&inputs, &mut out)).unwrap();
            assert_eq!(out, expected, "{name}: {:?}, cut {cut:?}", moves.domain);
        }
    });
}

/// Returns an array of distinct numbers, as far as the type has them.
fn array(shape: &[usize], dtype: DType) -> Tensor {
    let len: usize = shape.iter().product();
    let numbers: Vec<u32> = (1..).take(len).collect();
    let numbers = Tensor::from_vec(shape, numbers);
    let in_type = match dtype {
        DType::Bool => (numbers.clone() * 7 % 5).lt(2_u32),
        // `f16` has all integers up to 2,048.
        DType::F16 => (numbers.clone() % 2_000).cast(dtype),
        _ => numbers.cast(dtype),
    };
    in_type.realize(&Host::new()).unwrap()
}

fn indices(len: usize, extent: usize, dtype: DType) -> Tensor {
    let extent = i64::try_from(extent).unwrap();
    // Negative indices count from the end.
    let low = if dtype == DType::I32 { -extent } else { 0 };
    let index = |at: usize| low + i64::try_from(at).unwrap() * 7919 % (extent - low);
    let numbers: Vec<f64> = (0..len).map(|at| index(at) as f64).collect();
    Tensor::from_vec(&[len], numbers)
        .cast(dtype)
        .realize(&Host::new())
        .unwrap()
}

#[test]
fn permutations_are_those_of_the_reference() {
    let orders = [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let sizes = [
        [3, 4, 5],
        [15, 2, 17],
        [16, 3, 16],
        [33, 5, 18],
        [2, 40, 31],
    ];
    for dtype in DType::ALL {
        for sizes in sizes {
            let x = array(&sizes, dtype);
            for order in orders {
                check("permute", &x.permute(&order));
            }
        }
    }
}

#[test]
fn steps_and_flips_are_those_of_the_reference() {
    let by = |step| crate::view::Slice {
        start: None,
        stop: None,
        step,
    };
    for cols in [1, 2, 15, 16, 17, 63, 64, 65, 300] {
        let x = array(&[5, cols], DType::F32);
        check("flip rows", &x.flip(0));
        check("flip columns", &x.flip(1));
        for step in [-9, -3, -2, -1, 2, 3, 4, 5, 8, 9, 20] {
            check("step", &x.slice(1, by(step)));
            check(
                "steps of a flip of both axes",
                &x.slice(1, by(step)).flip(0),
            );
        }
        check("broadcast", &x.expand_dims(1).broadcast_to(&[5, 3, cols]));
        check(
            "broadcast columns",
            &x.expand_dims(2).broadcast_to(&[5, cols, 3]),
        );
    }
}

#[test]
fn padding_is_that_of_the_reference() {
    for sizes in [[1, 1], [3, 20], [17, 33], [40, 16]] {
        for dtype in [DType::F32, DType::Bool, DType::F64] {
            let x = array(&sizes, dtype);
            let number = |fill: u32| Scalar::U32(fill).cast(dtype);
            for fill in [0, 1] {
                let fill = Tensor::constant(number(fill));
                let padded = x.pad(0, 2, 1, &fill).pad(1, 1, 4, &fill);
                check("pad", &padded);
                check(
                    "pad of a transposition",
                    &x.t().pad(0, 3, 0, &fill).pad(1, 0, 2, &fill),
                );
                check("transposition of padding", &padded.t());
                check("slice of padding", &padded.slice(1, 0..3));
                check(
                    "twice padded",
                    &padded.pad(0, 1, 1, Tensor::constant(number(1))),
                );
            }
        }
    }
}

#[test]
fn windows_with_padding_are_those_of_the_reference() {
    for [size, padding, window, step] in [[7, 1, 3, 1], [20, 2, 5, 2], [18, 1, 3, 3], [5, 4, 4, 1]]
    {
        let x = array(&[2, size, 3, size], DType::F32);
        let padded = x
            .pad(1, padding, padding, 0.0)
            .pad(3, padding, padding, 0.0);
        let windows = padded.window(1, window, step).window(3, window, step);
        check("windows", &windows);
        check("taps first", &windows.permute(&[4, 5, 2, 0, 1, 3]));
        check(
            "taps and channels last",
            &windows.permute(&[0, 1, 3, 2, 4, 5]),
        );
        check("flipped windows", &windows.flip(4).flip(5));
    }
}

#[test]
fn joins_are_those_of_the_reference() {
    for n_pieces in 2..=8 {
        let piece = |number: usize| array(&[3, 2 + number, 20], DType::I32);
        let pieces: Vec<Tensor> = (0..n_pieces).map(piece).collect();
        let pieces: Vec<&Tensor> = pieces.iter().collect();
        check("join", &Tensor::concat(&pieces, 1));
        check("flipped join", &Tensor::concat(&pieces, 1).flip(1));
        check(
            "transposed join",
            &Tensor::concat(&pieces, 1).permute(&[2, 1, 0]),
        );
        let slice = Tensor::concat(&pieces, 1).slice(1, 1..3);
        check("slice of a join", &slice);
        let equal = array(&[4, 17], DType::F32);
        let equal = vec![&equal; n_pieces];
        for axis in [0, 1, 2] {
            check("stack", &Tensor::stack(&equal, axis));
        }
    }
    let constant = Tensor::full(&[4, 5], 3.0_f32);
    let x = array(&[4, 5], DType::F32);
    check("join with a constant", &Tensor::concat(&[&x, &constant], 1));
    check("a constant", &Tensor::full(&[4, 5], 3.0_f32));
}

#[test]
fn gathers_are_those_of_the_reference() {
    for dtype in [DType::I32, DType::U32] {
        for cols in [1, 3, 16, 50] {
            let x = array(&[11, cols], DType::F32);
            for n in [1, 2, 30] {
                let rows = indices(n, 11, dtype);
                check("rows", &x.gather(&rows, 0));
                check("columns", &x.gather(&indices(n, cols, dtype), 1));
                check("rows of a transposition", &x.t().gather(&rows, 1));
                check(
                    "padded rows",
                    &x.gather(&rows, 0).pad(0, 1, 1, 0.0).pad(1, 2, 0, 0.0),
                );
                check("columns of rows", &x.gather(&rows, 0).t());
                let table = indices(n * cols, 11, dtype).reshape(&[n, cols]);
                check("along an axis", &x.take_along_axis(&table, 0));
                check("rows of a table", &x.gather(&table, 0));
                let scalar = rows.slice(0, 0..1).reshape(&[]);
                check("one row", &x.gather(&scalar, 0));
            }
        }
        let long = array(&[70_000], DType::F32);
        check("elements", &long.gather(&indices(3_000, 70_000, dtype), 0));
    }
}

#[test]
fn an_index_out_of_range_is_an_error_unless_no_element_follows_it() {
    let x = array(&[10, 20], DType::F32);
    for (number, index) in [(10, 10.0), (-11, -11.0), (i32::MIN, f64::from(i32::MIN))] {
        let rows = Tensor::from_vec(&[3], vec![1, number, 2]);
        for program in [
            x.gather(&rows, 0),
            x.t().gather(&rows, 1),
            x.gather(&rows, 0).t(),
        ] {
            let (moves, inputs) = moves_of("gather", &program);
            let mut out = vec![0.0_f32; 60];
            let fault = moves
                .fill(&host_inputs(&inputs).unwrap(), &mut out)
                .unwrap_err();
            let expected = Error::IndexOutOfRange { index, extent: 10 };
            assert_eq!(fault.to_string(), expected.to_string());
        }
        // The guard of the padding excludes the row before its index is read.
        let hidden = x.gather(&rows, 0).slice(0, 0..1).pad(0, 0, 2, 0.0);
        check("a row that is cut off", &hidden);
    }
}

#[test]
fn selections_by_positions_are_those_of_the_reference() {
    let [x, y] = [1, -1].map(|step| {
        let steps = crate::view::Slice {
            start: None,
            stop: None,
            step,
        };
        array(&[9, 20], DType::F32).slice(1, steps)
    });
    for (axis, len) in [(0, 9), (1, 20)] {
        let positions = Tensor::arange(len).cast(DType::U32);
        let positions = positions.expand_dims(1 - axis).broadcast_to(&[9, 20]);
        for bound in [0, 1, 7, 8, 19, 20, 100] {
            let conditions = [
                ("lt", positions.lt(bound)),
                ("le", positions.le(bound)),
                ("gt", positions.gt(bound)),
                ("ge", positions.ge(bound)),
                ("eq", positions.eq(bound)),
                ("ne", positions.ne(bound)),
            ];
            for (name, condition) in conditions {
                check(name, &condition.select(&x, &y));
                check(name, &condition.select(&x, 2.0));
            }
        }
    }
}

#[test]
fn nests_that_compute_are_no_moves() {
    let x = array(&[4, 5], DType::F32);
    let flags = array(&[4, 5], DType::Bool);
    for program in [
        &x + 1.0,
        x.sum(0),
        flags.select(&x, 1.0),
        x.cast(DType::I32),
        -&x,
    ] {
        let (plan, _) = Plan::new(&[&program], &Host::new().target()).unwrap();
        assert!(Moves::from_nest(&plan.steps[0].nest).is_none());
    }
}
