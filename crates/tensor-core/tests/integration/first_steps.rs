//! First steps of a user: axes and ranges of any integer type, numbers as left and right operands,
//! compound assignment, lists, single elements.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::half::f16;
use tensor_core::ndarray::{ArrayD, array};
use tensor_core::{Axes, DType, Eager, Error, Host, Tensor, grad, value_and_grad};

fn evaluated(tensor: &Tensor) -> ArrayD<f32> {
    tensor.eval::<f32>(&Host::new()).unwrap()
}

#[track_caller]
fn assert_equal(actual: &Tensor, expected: &Tensor) {
    assert_eq!(actual.shape().unwrap(), expected.shape().unwrap());
    assert_close(evaluated(actual), evaluated(expected), Tolerance::exact());
}

fn cube() -> Tensor {
    Tensor::arange(24).reshape(&[2, 3, 4]).cast(DType::F32)
}

#[test]
fn axes_are_integers_of_any_type_alone_or_in_any_list() {
    let x = cube();
    let rank = x.shape().unwrap().len();
    let expected = x.sum(-1);
    for sum in [x.sum(2), x.sum(2_isize), x.sum(rank - 1), x.sum(2_i32)] {
        assert_equal(&sum, &expected);
    }
    let expected = x.sum([0, -1]);
    let (slice, vector): (&[usize], Vec<isize>) = (&[0, 2], vec![0, 2]);
    let pair = &[0, 2];
    for sum in [
        x.sum(pair),
        x.sum(vec![0, 2]),
        x.sum(&vector),
        x.sum(slice),
        x.sum([0, rank - 1]),
        x.sum(vec![0_usize, 2]),
    ] {
        assert_equal(&sum, &expected);
    }
    assert_equal(&x.max(Axes::keepdims(rank - 1)), &x.max(Axes::keepdims(2)));
    let last = rank - 1;
    assert_equal(&x.softmax(last), &x.softmax(-1));
    assert_equal(&x.flip(last).expand_dims(rank).squeeze(rank), &x.flip(-1));
    assert_equal(&x.permute(&[0, last, 1]), &x.swap_axes(1, last));
    assert_equal(
        &x.window(last, 2, 1).pad(last, 1, 0, 0),
        &x.window(2, 2, 1).pad(2, 1, 0, 0),
    );
    assert_equal(
        &Tensor::concat(&[&x, &x], last),
        &Tensor::concat(&[&x, &x], -1),
    );
    assert_equal(
        &Tensor::stack(&[&x, &x], rank),
        &Tensor::stack(&[&x, &x], -1),
    );
    let first = Tensor::zeros(&[1], DType::U32);
    assert_equal(&x.gather(&first, last), &x.slice(last, 0..1));
    let error = x.sum(usize::MAX).shape().unwrap_err();
    assert!(
        matches!(
            error.root(),
            Error::AxisOutOfRange {
                axis: isize::MAX,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn ranges_are_of_integers_of_any_type_and_may_include_their_end() {
    let x = cube();
    let n = x.shape().unwrap()[2];
    let expected = x.slice(2, 1..3_isize);
    for slice in [
        x.slice(2, 1..3),
        x.slice(2, 1..n - 1),
        x.slice(2, 1..=2),
        x.slice(2, 1..=n - 2),
        x.slice(2, -3..=-2),
        x.slice(2, 1..=2_i32),
    ] {
        assert_equal(&slice, &expected);
    }
    assert_equal(&x.slice(0, ..=0_usize), &x.slice(0, ..1));
    assert_equal(&x.slice(0, 1_usize..), &x.slice(0, -1..));
}

#[test]
fn numbers_stand_on_both_sides_and_are_assigned() {
    let x = cube();
    let (rate, n): (f32, usize) = (0.5, 4);
    assert_equal(&(&x * rate), &(0.5 * &x));
    assert_equal(&(&x / n), &(&x * 0.25));
    assert_equal(&(&x - n), &-(4 - &x));
    assert_equal(&(&x / n).maximum(n), &(x.clone() * 0.25).maximum(4));
    let mut y = x.clone();
    y += &x;
    y -= 1.0;
    y *= rate;
    y /= n;
    y %= 2.0;
    assert_equal(&y, &((((&x + &x) - 1.0) * 0.5 / 4.0) % 2.0));
    let mut mask = x.gt(3);
    mask &= x.lt(9);
    mask |= x.eq(0);
    mask ^= true;
    let expected = !((x.gt(3) & x.lt(9)) | x.eq(0));
    assert_equal(&mask.cast(DType::F32), &expected.cast(DType::F32));
    let counts = Tensor::arange(3);
    let error = (&counts + usize::MAX).shape().unwrap_err();
    assert!(
        matches!(
            error.root(),
            Error::Unrepresentable {
                operation: "add",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!((&counts * n).sum(..).item::<i32>(&Host::new()).unwrap(), 12);
}

#[test]
fn constants_have_the_type_that_is_asked_for() {
    let host = Host::new();
    for dtype in DType::ALL {
        let [zeros, ones, eye] = [
            Tensor::zeros(&[2, 2], dtype),
            Tensor::ones(&[2, 2], dtype),
            Tensor::eye(2, dtype),
        ];
        let count = |tensor: &Tensor| tensor.cast(DType::F32).eval::<f32>(&host).unwrap();
        assert_eq!(zeros.dtype().unwrap(), dtype);
        assert_eq!(count(&zeros), ArrayD::<f32>::zeros(vec![2, 2]));
        assert_eq!(count(&ones), ArrayD::<f32>::ones(vec![2, 2]));
        assert_eq!(count(&eye), array![[1.0, 0.0], [0.0, 1.0]].into_dyn());
    }
    assert_eq!(Tensor::eye(0, DType::F32).shape().unwrap(), [0, 0]);
    for (name, tensor) in [
        ("zeros", Tensor::zeros(&[usize::MAX, 2], DType::F32)),
        ("ones", Tensor::ones(&[usize::MAX, 2], DType::Bool)),
        ("eye", Tensor::eye(usize::MAX, DType::F32)),
        ("tril", Tensor::arange(3).tril(0)),
        ("triu", Tensor::zeros(&[1, 1 << 33], DType::I32).triu(0)),
        ("swap_axes", cube().swap_axes(0, 3)),
    ] {
        let error = tensor.shape().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{name}: ")), "{error}");
    }
    assert_eq!(
        Tensor::scalar(f16::from_f32(0.5))
            .item::<f16>(&host)
            .unwrap()
            .to_f32(),
        0.5
    );
}

#[test]
fn parts_that_do_not_divide_an_axis_are_errors_of_that_number() {
    let x = cube();
    for n in [0, 5, 1 << 17, usize::MAX] {
        let parts = x.split(2, n);
        assert_eq!(parts.len(), n.clamp(1, 1 << 16));
        for part in [&parts[0], &parts[parts.len() - 1]] {
            let error = part.shape().unwrap_err();
            assert!(
                matches!(
                    error.root(),
                    Error::UnevenSplit {
                        operation: "split",
                        ..
                    }
                ),
                "{error}"
            );
            assert_eq!(error.location().unwrap().file(), file!());
        }
    }
    assert_eq!(
        Tensor::zeros(&[0], DType::F32).split(0, usize::MAX).len(),
        1 << 16
    );
}

#[test]
fn one_element_is_read_of_any_rank_and_of_one_only() {
    let host = Host::new();
    assert_eq!(cube().sum(..).item::<f32>(&host).unwrap(), 276.0);
    assert_eq!(
        cube().max(Axes::keepdims(..)).item::<f32>(&host).unwrap(),
        23.0
    );
    let line = line!() + 1;
    let error = cube().item::<f32>(&host).unwrap_err();
    assert!(
        matches!(
            error.root(),
            Error::NotAScalar {
                operation: "item",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.location().unwrap().line(), line);
    let error = cube().sum(..).item::<i32>(&host).unwrap_err();
    assert!(
        matches!(
            error.root(),
            Error::ElementTypeMismatch {
                operation: "item",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn lists_are_realized_together_and_keep_their_form() {
    let host = Host::new();
    let x = cube().realize(&host).unwrap();
    let expensive = x.exp().sum(Axes::keepdims(0));
    let many: Vec<Tensor> = (0..5).map(|n| &expensive * n).collect();
    let borrowed: Vec<&Tensor> = many.iter().collect();
    let [a, b]: [Tensor; 2] = Tensor::realize_all([&many[0], &many[4]], &host).unwrap();
    let lists: [Vec<Tensor>; 4] = [
        Tensor::realize_all(&many, &host).unwrap(),
        Tensor::realize_all(&many[..], &host).unwrap(),
        Tensor::realize_all(&borrowed, &host).unwrap(),
        Tensor::realize_all(&borrowed[..], &host).unwrap(),
    ];
    for list in &lists {
        assert_eq!(list.len(), 5);
        assert!(list.iter().all(|tensor| tensor.to_host::<f32>().is_ok()));
        assert_equal(&list[0], &a);
        assert_equal(&list[4], &b);
    }
    let none: Vec<Tensor> = Vec::new();
    assert_eq!(Tensor::realize_all(&none, &host).unwrap().len(), 0);
}

#[test]
fn a_loss_and_its_gradients_are_computed_in_one_pass() {
    let host = Host::new();
    let w = Tensor::from_array(array![[1.0_f32, 2.0], [3.0, 4.0]]);
    let loss = w.matmul(&w).tanh().square().sum(..);
    let (value, gradients) = value_and_grad(&loss, &[&w], &host).unwrap();
    let gradient = grad(&loss, &[&w]).unwrap().remove(0);
    assert_close(
        value.to_host::<f32>().unwrap(),
        evaluated(&loss),
        Tolerance::relative(4),
    );
    assert_close(
        gradients[0].to_host::<f32>().unwrap(),
        evaluated(&gradient),
        Tolerance::relative(16),
    );
    let line = line!() + 1;
    let error = value_and_grad(&w, &[&w], &host).unwrap_err();
    assert!(
        matches!(
            error.root(),
            Error::NotAScalar {
                operation: "grad",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.location().unwrap().line(), line);
}

#[test]
fn composed_operations_are_one_operation_each_in_an_eager_scope() {
    let host = Host::new();
    let x = Tensor::from_array(array![0.25_f32, -0.5, 3.0]);
    let lazy = [x.log1p(), x.expm1(), x.exp2(), x.log_softmax(0)];
    let lazy = lazy.each_ref().map(evaluated);
    let eager = Eager::new(host).run(|| [x.log1p(), x.expm1(), x.exp2(), x.log_softmax(0)]);
    for (eager, lazy) in eager.iter().zip(lazy) {
        assert_close(
            eager.to_host::<f32>().unwrap(),
            lazy,
            Tolerance::relative(4),
        );
    }
}
