//! Views compared with ndarray and with an evaluator that does not use strides.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]
#![expect(
    clippy::cast_sign_loss,
    reason = "axes and indices were checked before"
)]

use ndarray::{ArrayD, Axis, IxDyn};
use proptest::prelude::*;
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::shape::broadcast;
use tensor_core::view::{Reshape, Slice, View};
use tensor_core::{Error, array, ndarray};

/// Returns an array of consecutive numbers, so that a wrong element is detected.
fn numbered(shape: &[usize]) -> ArrayD<i32> {
    let len = shape.iter().product();
    ArrayD::from_shape_vec(IxDyn(shape), (0..).take(len).collect()).unwrap()
}

#[derive(Debug, Clone)]
enum Op {
    Permute(usize),
    Transpose,
    Expand(isize),
    Squeeze(isize),
    Slice(isize, Slice),
    Flip(isize),
    Window(isize, usize, usize),
    Broadcast(usize),
    Reshape(usize),
}

fn random_op() -> impl Strategy<Value = Op> {
    let bound = || prop::option::of(-8_isize..8);
    let step = prop_oneof![-3_isize..0, 1_isize..4];
    let axis = || -4_isize..4;
    prop_oneof![
        (0_usize..24).prop_map(Op::Permute),
        Just(Op::Transpose),
        axis().prop_map(Op::Expand),
        axis().prop_map(Op::Squeeze),
        (axis(), bound(), bound(), step)
            .prop_map(|(axis, start, stop, step)| Op::Slice(axis, Slice { start, stop, step })),
        axis().prop_map(Op::Flip),
        (axis(), 0_usize..4, 0_usize..3)
            .prop_map(|(axis, size, step)| Op::Window(axis, size, step)),
        (0_usize..64).prop_map(Op::Broadcast),
        (0_usize..64).prop_map(Op::Reshape),
    ]
}

fn axis_of(axis: isize, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis + rank as isize } else { axis };
    (0..rank as isize).contains(&axis).then_some(axis as usize)
}

/// Returns a permutation of the axes that depends on `choice`.
fn axes_in_order(mut choice: usize, rank: usize) -> Vec<isize> {
    let mut left: Vec<isize> = (0..rank as isize).collect();
    let mut axes = Vec::new();
    while !left.is_empty() {
        axes.push(left.remove(choice % left.len()));
        choice /= 2;
    }
    axes
}

/// Returns a shape with the same number of elements: a range of axes is merged into one axis or
/// into two axes `[2, n / 2]`.
fn other_shape(choice: usize, shape: &[usize]) -> Vec<usize> {
    let from = choice % (shape.len() + 1);
    let upto = from + (choice / 4) % (shape.len() - from + 1);
    let mut other = shape[..from].to_vec();
    let merged: usize = shape[from..upto].iter().product();
    if choice.is_multiple_of(3) && merged.is_multiple_of(2) {
        other.extend([2, merged / 2]);
    } else {
        other.push(merged);
    }
    other.extend(&shape[upto..]);
    other
}

/// Applies the operation by copying elements; `None` if the operation must be rejected.
fn on_array(operation: &Op, x: &ArrayD<i32>) -> Option<ArrayD<i32>> {
    let rank = x.ndim();
    Some(match *operation {
        Op::Permute(choice) => {
            let axes: Vec<usize> = axes_in_order(choice, rank)
                .iter()
                .map(|&axis| axis as usize)
                .collect();
            x.view().permuted_axes(IxDyn(&axes)).to_owned()
        }
        Op::Transpose => x.t().to_owned(),
        Op::Expand(axis) => x.clone().insert_axis(Axis(axis_of(axis, rank + 1)?)),
        Op::Squeeze(axis) => {
            let axis = axis_of(axis, rank).filter(|&axis| x.shape()[axis] == 1)?;
            x.index_axis(Axis(axis), 0).to_owned()
        }
        Op::Slice(axis, slice) => {
            let axis = axis_of(axis, rank)?;
            let len = x.shape()[axis] as isize;
            // ndarray slices the range between two bounds and then walks it backwards. Python's
            // rule for the start of a backward walk is covered by the unit tests.
            let (first, kept) = python_indices(slice, len);
            let indices: Vec<usize> = (0..kept)
                .map(|i| (first + i * slice.step) as usize)
                .collect();
            x.select(Axis(axis), &indices)
        }
        Op::Flip(axis) => {
            let mut flipped = x.clone();
            flipped.invert_axis(Axis(axis_of(axis, rank)?));
            flipped
        }
        Op::Window(axis, size, step) => {
            let axis = axis_of(axis, rank)?;
            let len = x.shape()[axis];
            if size == 0 || step == 0 || size > len {
                return None;
            }
            let windows: Vec<ArrayD<i32>> = (0..=len - size)
                .step_by(step)
                .map(|start| {
                    let part = x.select(Axis(axis), &(start..start + size).collect::<Vec<_>>());
                    let mut axes: Vec<usize> = (0..rank).filter(|&a| a != axis).collect();
                    axes.push(axis);
                    part.permuted_axes(IxDyn(&axes)).insert_axis(Axis(axis))
                })
                .collect();
            ndarray::concatenate(
                Axis(axis),
                &windows.iter().map(|w| w.view()).collect::<Vec<_>>(),
            )
            .unwrap()
        }
        Op::Broadcast(choice) => x
            .broadcast(IxDyn(&grown(choice, x.shape())))
            .unwrap()
            .to_owned(),
        Op::Reshape(choice) => {
            let shape = other_shape(choice, x.shape());
            ArrayD::from_shape_vec(IxDyn(&shape), x.iter().copied().collect()).unwrap()
        }
    })
}

fn python_indices(slice: Slice, len: isize) -> (isize, isize) {
    let (low, high) = if slice.step > 0 {
        (0, len)
    } else {
        (-1, len - 1)
    };
    let place = |bound: isize| (if bound < 0 { bound + len } else { bound }).clamp(low, high);
    let start = slice
        .start
        .map_or(if slice.step > 0 { low } else { high }, place);
    let stop = slice
        .stop
        .map_or(if slice.step > 0 { high } else { low }, place);
    let mut kept = 0;
    while (stop - start - kept * slice.step) * slice.step.signum() > 0 {
        kept += 1;
    }
    (start, kept)
}

fn grown(choice: usize, shape: &[usize]) -> Vec<usize> {
    let sizes = shape
        .iter()
        .map(|&size| if size == 1 { choice % 4 } else { size });
    [choice % 3]
        .into_iter()
        .take(choice % 2)
        .chain(sizes)
        .collect()
}

/// Applies the operation to the view; gathers the elements if a reshape needs a copy.
fn on_view(operation: &Op, view: &View, data: &mut Vec<i32>) -> Result<View, Error> {
    match *operation {
        Op::Permute(choice) => view.permute(&axes_in_order(choice, view.shape().len())),
        Op::Transpose => Ok(view.t()),
        Op::Expand(axis) => view.expand_dims(axis),
        Op::Squeeze(axis) => view.squeeze(axis),
        Op::Slice(axis, slice) => view.slice(axis, slice),
        Op::Flip(axis) => view.flip(axis),
        Op::Window(axis, size, step) => view.window(axis, size, step),
        Op::Broadcast(choice) => view.broadcast_to(&grown(choice, view.shape())),
        Op::Reshape(choice) => {
            let shape = other_shape(choice, view.shape());
            match view.reshape(&shape)? {
                Reshape::View(view) => Ok(view),
                Reshape::NeedsCopy => {
                    *data = view.gather(data)?.into_iter().collect();
                    View::contiguous(&shape)
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn chains_of_operations_gather_what_copies_give(
        shape in prop::collection::vec(prop_oneof![Just(1), 0_usize..6], 0..4),
        ops in prop::collection::vec(random_op(), 1..7),
    ) {
        let mut array = numbered(&shape);
        let mut data: Vec<i32> = array.iter().copied().collect();
        let mut view = View::contiguous(&shape).unwrap();
        for op in &ops {
            if array.ndim() > 6 || array.len() > 20_000 {
                break;
            }
            match (on_array(op, &array), on_view(op, &view, &mut data)) {
                (Some(next_array), Ok(next_view)) => (array, view) = (next_array, next_view),
                (None, Err(_)) => continue,
                (expected, got) => prop_assert!(false, "{op:?}: {expected:?} but {got:?}"),
            }
            view.check_within(data.len()).unwrap();
            prop_assert_eq!(view.len(), view.offsets().len());
            assert_close(view.gather(&data).unwrap(), &array, Tolerance::exact().allow_empty());
        }
    }

    #[test]
    fn two_shapes_broadcast_to_what_ndarray_makes_of_them(
        a in prop::collection::vec(prop_oneof![Just(1), 0_usize..4], 0..4),
        b in prop::collection::vec(prop_oneof![Just(1), 0_usize..4], 0..4),
    ) {
        let both = broadcast("add", &a, &b);
        let (x, y) = (numbered(&a), numbered(&b));
        if let Ok(shape) = &both {
            for (array, from) in [(&x, &a), (&y, &b)] {
                let data: Vec<i32> = array.iter().copied().collect();
                let view = View::contiguous(from).unwrap().broadcast_to(shape).unwrap();
                let expected = array.broadcast(IxDyn(shape)).unwrap();
                assert_close(view.gather(&data).unwrap(), expected, Tolerance::exact().allow_empty());
            }
        }
        let disagree = a.iter().rev().zip(b.iter().rev()).any(|(&m, &n)| m != n && m != 1 && n != 1);
        prop_assert_eq!(both.is_err(), disagree);
    }
}

#[test]
fn reshapes_copy_exactly_where_numpy_does() {
    let grid = View::contiguous(&[4, 6]).unwrap();
    let view_of = |outcome: Reshape| match outcome {
        Reshape::View(view) => Some((view.shape().to_vec(), view.strides().to_vec())),
        Reshape::NeedsCopy => None,
    };
    type Case<'a> = (View, &'a [usize], Option<&'a [isize]>);
    let cases: [Case<'_>; 9] = [
        (grid.clone(), &[2, 2, 3, 2], Some(&[12, 6, 2, 1])),
        (grid.clone(), &[24], Some(&[1])),
        (grid.t(), &[24], None),
        (grid.t(), &[6, 2, 2], Some(&[1, 12, 6])),
        (grid.t(), &[3, 2, 4], Some(&[2, 1, 6])),
        (grid.slice(1, ..3).unwrap(), &[12], None),
        (grid.slice(1, ..3).unwrap(), &[2, 2, 3], Some(&[12, 6, 1])),
        (
            grid.flip(0).unwrap().flip(1).unwrap(),
            &[8, 3],
            Some(&[-3, -1]),
        ),
        (
            View::contiguous(&[1])
                .unwrap()
                .broadcast_to(&[4, 6])
                .unwrap(),
            &[24],
            Some(&[0]),
        ),
    ];
    for (view, shape, strides) in cases {
        let expected = strides.map(|strides| (shape.to_vec(), strides.to_vec()));
        assert_eq!(
            view_of(view.reshape(shape).unwrap()),
            expected,
            "{view:?} to {shape:?}"
        );
    }
}

#[test]
fn views_that_cannot_be_are_errors() {
    let view = View::contiguous(&[2, 3]).unwrap();
    assert!(matches!(
        View::new(&[2], &[-1], 0),
        Err(Error::OutOfBounds {
            low: -1,
            high: 0,
            ..
        })
    ));
    assert!(matches!(
        View::new(&[3], &[isize::MAX], 0),
        Err(Error::OutOfBounds { .. })
    ));
    assert!(matches!(
        View::new(&[3], &[], 0),
        Err(Error::StrideCount { .. })
    ));
    assert!(matches!(
        View::new(&[usize::MAX, 2], &[0, 0], 0),
        Err(Error::TooLarge { .. })
    ));
    assert!(matches!(
        View::new(&[1], &[1], usize::MAX),
        Err(Error::OutOfBounds { .. })
    ));
    assert!(matches!(
        view.check_within(5),
        Err(Error::OutOfBounds {
            high: 5,
            len: 5,
            ..
        })
    ));
    assert!(matches!(
        view.gather(&[0; 5]),
        Err(Error::OutOfBounds {
            operation: "gather",
            ..
        })
    ));
    assert!(matches!(
        view.broadcast_to(&[3]),
        Err(Error::NotBroadcastable { .. })
    ));
    assert!(matches!(
        view.broadcast_to(&[2, 6]),
        Err(Error::NotBroadcastable { .. })
    ));
    assert!(matches!(
        view.permute(&[0, -2]),
        Err(Error::NotAPermutation { .. })
    ));
    assert!(matches!(
        view.permute(&[0]),
        Err(Error::NotAPermutation { .. })
    ));
    assert!(matches!(
        view.permute(&[0, 2]),
        Err(Error::AxisOutOfRange { axis: 2, .. })
    ));
    assert!(matches!(
        view.reshape(&[7]),
        Err(Error::ElementCount {
            from_len: 6,
            to_len: 7,
            ..
        })
    ));
    assert!(matches!(view.squeeze(0), Err(Error::NotSizeOne { .. })));
    assert!(matches!(
        view.window(1, 4, 1),
        Err(Error::WindowSize { size: 4, .. })
    ));
    let stuck = Slice {
        start: None,
        stop: None,
        step: 0,
    };
    assert!(matches!(
        view.slice(-1, stuck),
        Err(Error::ZeroStep { axis: -1, .. })
    ));
    let one = View::contiguous(&[1]).unwrap();
    assert!(matches!(
        one.broadcast_to(&[1 << 40, 1 << 40]),
        Err(Error::TooLarge { .. })
    ));
    let endless = one.broadcast_to(&[1 << 60]).unwrap();
    assert!(matches!(
        endless.gather(&[1.0_f64]),
        Err(Error::TooLarge {
            operation: "gather",
            ..
        })
    ));
    assert!(endless.window(0, 1 << 30, 1).is_err());
}

#[test]
fn extreme_steps_on_short_axes_stay_in_range() {
    let view = View::new(&[2], &[isize::MAX / 2], 1).unwrap();
    for step in [isize::MAX, isize::MIN] {
        let first = view
            .slice(
                0,
                Slice {
                    start: None,
                    stop: None,
                    step,
                },
            )
            .unwrap();
        let again = first
            .slice(
                0,
                Slice {
                    start: None,
                    stop: None,
                    step,
                },
            )
            .unwrap()
            .flip(0)
            .unwrap();
        assert_eq!(
            (again.shape(), again.offset()),
            (first.shape(), first.offset())
        );
        assert!(
            again
                .window(0, 1, usize::MAX)
                .unwrap()
                .reshape(&[1])
                .is_ok()
        );
        assert!(
            again
                .broadcast_to(&[3])
                .unwrap()
                .offsets()
                .all(|offset| offset == first.offset())
        );
    }
    let empty = View::contiguous(&[0, 5]).unwrap();
    assert_eq!(
        empty
            .slice(
                1,
                Slice {
                    start: None,
                    stop: None,
                    step: -2
                }
            )
            .unwrap()
            .shape(),
        [0, 3]
    );
    assert_eq!(
        empty.flip(0).unwrap().gather::<u8>(&[]).unwrap().shape(),
        [0, 5]
    );
    assert_eq!(View::contiguous(&[]).unwrap().gather(&[7]).unwrap()[[]], 7);
}

#[test]
fn a_zero_next_to_a_side_too_long_is_rejected_everywhere() {
    let most = isize::MAX.unsigned_abs();
    let one = View::contiguous(&[1]).unwrap();
    let empty = View::contiguous(&[0, 1]).unwrap();
    let ones = ndarray::arr0(1.0_f64);
    for shape in [
        [0, usize::MAX],
        [usize::MAX, 0],
        [0, most + 1],
        [most + 1, 0],
    ] {
        let outcomes = [
            View::contiguous(&shape).map(drop),
            View::new(&shape, &[0, 0], 0).map(drop),
            one.broadcast_to(&shape).map(drop),
            empty.reshape(&shape).map(drop),
            array::from_vec::<u8>(&shape, vec![]).map(drop),
            broadcast("add", &[shape[0], 1], &[1, shape[1]]).map(drop),
        ];
        for (at, outcome) in outcomes.into_iter().enumerate() {
            assert!(
                matches!(outcome, Err(Error::TooLarge { .. })),
                "{at} of {shape:?}: {outcome:?}"
            );
        }
    }
    // The longest axis that remains is valid if elements are only counted or take one byte.
    let longest = View::contiguous(&[0, most]).unwrap();
    assert_eq!((longest.len(), longest.offsets().count()), (0, 0));
    assert_eq!(longest.flip(1).unwrap().t().shape(), [most, 0]);
    assert_eq!(longest.gather::<u8>(&[]).unwrap().shape(), [0, most]);
    let wide = longest.gather::<f64>(&[]);
    assert!(matches!(wide, Err(Error::TooLarge { .. })), "{wide:?}");
    let windows = longest.window(1, most / 2, 1);
    assert!(matches!(windows, Err(Error::TooLarge { .. })));
    let column = ones.broadcast((most, 1)).unwrap();
    let nothing = ndarray::Array2::<f64>::zeros((1, 0));
    let sum = array::zip_with("add", &column, &nothing, |x, y| x + y);
    assert!(matches!(sum, Err(Error::TooLarge { .. })), "{sum:?}");
}
