//! Gradients of single operations, compared with central differences in f64.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use tensor_core::compare::{Tolerance, compare};
use tensor_core::ndarray::array;
use tensor_core::rng::Philox;
use tensor_core::view::Slice;
use tensor_core::{Axes, DType, Error, Host, ScanAxis, SortAxis, Tensor, einsum, grad};

/// Returns numbers alternately in 0.25..0.95 and in 1.05..1.75, so that none is near an integer.
fn numbers(shape: &[usize], stream: u64) -> Vec<f64> {
    let stream = Philox::new(77).stream(stream);
    let len = shape.iter().product::<usize>() as u64;
    let number = |at| 0.25 + 0.7 * f64::from(stream.uniform_f32(at)) + 0.8 * (at % 2) as f64;
    (0..len).map(number).collect()
}

fn weights(like: &Tensor) -> Tensor {
    let shape = like.shape().unwrap();
    Tensor::from_vec(shape, numbers(shape, 9))
}

/// Compares the gradient of the weighted sum of `f` with central differences, at one element of
/// each input.
#[track_caller]
fn check(name: &str, shapes: &[&[usize]], f: impl Fn(&[Tensor]) -> Tensor) {
    const STEP: f64 = 1.0 / 65536.0;
    let host = Host::new();
    let data: Vec<Vec<f64>> = (0..)
        .zip(shapes)
        .map(|(at, shape)| numbers(shape, at))
        .collect();
    let tensors = |data: &[Vec<f64>]| -> Vec<Tensor> {
        let pairs = data.iter().zip(shapes);
        pairs
            .map(|(data, shape)| Tensor::from_vec(shape, data.clone()))
            .collect()
    };
    let loss = |tensors: &[Tensor]| {
        let y = f(tensors);
        (&y * weights(&y)).sum(..)
    };
    let at = tensors(&data);
    let wrt: Vec<&Tensor> = at.iter().collect();
    let gradients = grad(&loss(&at), &wrt).unwrap();
    for (input, gradient) in gradients.iter().enumerate() {
        assert_eq!(gradient.shape().unwrap(), shapes[input], "{name}");
        let moved = |element: usize, by: f64| {
            let mut data = data.clone();
            data[input][element] += by;
            loss(&tensors(&data)).eval::<f64>(&host).unwrap()[[]]
        };
        let slope = |element| (moved(element, STEP) - moved(element, -STEP)) / (2.0 * STEP);
        let slopes: Vec<f64> = (0..data[input].len()).map(slope).collect();
        let gradient = gradient.eval::<f64>(&host).unwrap();
        let bound = Tolerance::relative(1 << 26).or_absolute(1e-7);
        if let Err(mismatch) = compare(gradient, slopes, &bound) {
            panic!("{name}, input {input}: {mismatch}");
        }
    }
}

#[test]
fn views_hand_back_what_they_were_handed() {
    let steps = |start, stop, step| Slice { start, stop, step };
    check("permute", &[&[2, 3, 4]], |x| x[0].permute(&[2, 0, 1]));
    check("expand, squeeze", &[&[3, 1]], |x| {
        x[0].expand_dims(1).squeeze(-1)
    });
    check("broadcast", &[&[3, 1, 2]], |x| {
        x[0].broadcast_to(&[4, 3, 5, 2])
    });
    check("slice", &[&[7, 3]], |x| x[0].slice(0, 2..5));
    check("slice with a step", &[&[7, 2]], |x| {
        x[0].slice(0, steps(Some(1), None, 2))
    });
    check("slice with a step that ends early", &[&[8, 2]], |x| {
        x[0].slice(0, steps(None, Some(6), 3))
    });
    check("slice backwards", &[&[2, 8]], |x| {
        x[0].slice(1, steps(Some(6), Some(0), -2))
    });
    check("slice backwards to the start", &[&[8]], |x| {
        x[0].slice(0, steps(None, None, -3))
    });
    check("one element", &[&[4]], |x| x[0].slice(0, 2..3));
    check("nothing", &[&[4]], |x| x[0].slice(0, 2..2));
    check("flip", &[&[3, 4]], |x| x[0].flip(1));
    check("pad", &[&[3, 2]], |x| {
        x[0].pad(0, 2, 1, 0.5).pad(1, 0, 3, 0.0)
    });
    check("reshape", &[&[2, 6]], |x| x[0].t().reshape(&[3, 4]));
    check("concat", &[&[2, 3], &[1, 3], &[4, 3]], |x| {
        Tensor::concat(&[&x[0], &x[1], &x[2]], 0)
    });
    check("stack", &[&[3], &[3]], |x| {
        Tensor::stack(&[&x[0], &x[1]], 1)
    });
    check("concat of many", &[&[2], &[3]], |x| {
        let parts: Vec<&Tensor> = (0..11).map(|at| &x[at % 2]).collect();
        Tensor::concat(&parts, 0)
    });
}

#[test]
fn chains_of_views_hand_back_what_they_were_handed() {
    let every = |step| Slice {
        start: None,
        stop: None,
        step,
    };
    check("windows of windows", &[&[9, 2]], |x| {
        x[0].window(0, 4, 2).window(2, 2, 1)
    });
    check("windows with a dilation", &[&[2, 9]], |x| {
        x[0].window(1, 5, 1).slice(-1, every(2))
    });
    check("pools of moved axes", &[&[6, 2, 4]], |x| {
        x[0].permute(&[1, 2, 0])
            .window(2, 2, 2)
            .window(1, 2, 2)
            .permute(&[3, 0, 4, 2, 1])
    });
    check("windows of a flip", &[&[7]], |x| {
        x[0].flip(0).window(0, 3, 2).flip(1)
    });
    check("a part of windows, repeated", &[&[8, 2]], |x| {
        x[0].slice(0, 1..7)
            .window(0, 3, 1)
            .slice(0, 1..3)
            .expand_dims(1)
            .broadcast_to(&[2, 4, 2, 3])
    });
    check("a diagonal of windows", &[&[5, 5]], |x| {
        einsum(
            "iij->ij",
            &[&x[0].window(0, 3, 1).permute(&[0, 2, 1]).slice(1, 0..3)],
        )
    });
    // A view that is read twice, and one whose gradient is requested, are inverted on their own.
    check("two readers", &[&[8]], |x| {
        let windows = x[0].window(0, 4, 2);
        windows.window(1, 2, 1).sum(2) + windows.slice(1, ..3)
    });
    let x = Tensor::from_vec(&[6], numbers(&[6], 3));
    let windows = x.window(0, 3, 1);
    let inner = windows.window(1, 2, 1);
    let gradients = grad(&(&inner * weights(&inner)).sum(..), &[&windows, &x]).unwrap();
    let alone = grad(&(&inner * weights(&inner)).sum(..), &[&windows]).unwrap();
    let host = Host::new();
    let [of_both, of_one] = [&gradients[0], &alone[0]].map(|t| t.eval::<f64>(&host).unwrap());
    assert_eq!(of_both, of_one);
    // The sums of at most six terms are added in another order.
    let of_source = grad(&(&inner * weights(&inner)).sum(..), &[&x]).unwrap();
    let [of_both, of_one] = [&gradients[1], &of_source[0]].map(|t| t.eval::<f64>(&host).unwrap());
    compare(of_both, of_one, &Tolerance::relative(8)).unwrap();
}

#[test]
fn windows_are_summed_where_they_overlap() {
    for (len, size, step) in [
        (7, 3, 1),
        (8, 2, 2),
        (9, 2, 3),
        (9, 3, 2),
        (10, 5, 3),
        (11, 4, 2),
        (5, 5, 1),
        (6, 1, 4),
    ] {
        let name = format!("windows of {size}, {step} apart, in {len}");
        check(&name, &[&[2, len]], |x| x[0].window(1, size, step));
        check(&name, &[&[len, 2]], |x| x[0].window(0, size, step));
    }
    check("convolution", &[&[2, 6, 5], &[3, 2, 3, 2]], |x| {
        let windows = x[0].window(1, 3, 1).window(2, 2, 1);
        einsum("cijkl,ockl->oij", &[&windows, &x[1]])
    });
    check(
        "convolution with steps and padding",
        &[&[1, 7, 6], &[2, 1, 3, 3]],
        |x| {
            let padded = x[0].pad(1, 1, 1, 0.0).pad(2, 1, 1, 0.0);
            let windows = padded.window(1, 3, 2).window(2, 3, 2);
            einsum("cijkl,ockl->oij", &[&windows, &x[1]])
        },
    );
}

#[test]
fn products_and_sums_have_their_gradients() {
    check("matmul", &[&[3, 4], &[4, 2]], |x| x[0].matmul(&x[1]));
    check("batched matmul", &[&[2, 1, 3, 4], &[5, 4, 2]], |x| {
        x[0].matmul(&x[1])
    });
    check("dot", &[&[4], &[4]], |x| x[0].matmul(&x[1]));
    check("diagonal", &[&[3, 3]], |x| einsum("ii->i", &[&x[0]]));
    check("trace", &[&[3, 3]], |x| einsum("ii", &[&x[0]]));
    check("diagonal of three", &[&[2, 2, 2]], |x| {
        einsum("iii->i", &[&x[0]])
    });
    check("einsum", &[&[2, 3], &[3, 4], &[4, 2]], |x| {
        einsum("ij,jk,kl->il", &[&x[0], &x[1], &x[2]])
    });
    check("outer", &[&[3], &[2]], |x| {
        einsum("i,j->ij", &[&x[0], &x[1]])
    });
    check("sum", &[&[2, 3, 4]], |x| x[0].sum([0, 2]));
    check("sum kept", &[&[2, 3]], |x| x[0].sum(Axes::keepdims(1)));
    check("mean", &[&[2, 3]], |x| x[0].mean(0));
    check("prod", &[&[2, 3]], |x| x[0].prod(1));
    check("max, min", &[&[3, 4]], |x| x[0].max(1) - x[0].min(1));
    let along = ScanAxis::new(1);
    for along in [
        along,
        along.reversed(),
        along.exclusive(),
        along.reversed().exclusive(),
    ] {
        check("cumsum", &[&[2, 4, 3]], |x| x[0].cumsum(along));
        check("cumprod", &[&[2, 4, 3]], |x| x[0].cumprod(along));
        // Exclusive extremes begin with an infinity, which has no weighted sum.
        check("cummax", &[&[2, 4, 3]], |x| {
            x[0].cummax(along).maximum(-9.0)
        });
        check("cummin", &[&[2, 4, 3]], |x| x[0].cummin(along).minimum(9.0));
        // Lines with one zero, with two, and with none.
        check("cumprod with zeros", &[&[3, 4]], |x| {
            let is_kept = array![
                [1.0, 0.0, 1.0, 1.0],
                [0.0, 1.0, 0.0, 1.0],
                [1.0, 1.0, 1.0, 1.0]
            ];
            let zeros = Tensor::from_array(is_kept);
            (&x[0] * zeros).cumprod(along)
        });
    }
    for axis in [SortAxis::new(1), SortAxis::new(1).descending()] {
        check("sort", &[&[2, 4, 3]], |x| x[0].sort(axis));
    }
    check("topk", &[&[2, 4, 3]], |x| x[0].topk(2, 1).0);
    check("softmax", &[&[3, 4]], |x| x[0].softmax(1));
    check("var", &[&[3, 4]], |x| x[0].var(1, 1));
}

#[test]
fn functions_broadcast_and_choose() {
    check("arithmetic", &[&[2, 3], &[3]], |x| {
        &x[0] * &x[1] + &x[0] / &x[1] - &x[1]
    });
    check("pow", &[&[2, 3], &[3]], |x| x[0].pow(&x[1]));
    check("maximum", &[&[5], &[5]], |x| {
        x[0].maximum(&x[1]).minimum(1.3)
    });
    check("relu", &[&[6]], |x| (&x[0] - 1.0).relu());
    check("select", &[&[6], &[6]], |x| {
        x[0].lt(1.0).select(x[0].exp(), &x[1])
    });
    check("functions", &[&[6]], |x| {
        (x[0].exp().ln() + x[0].sin() * x[0].cos() + x[0].tanh() - x[0].sigmoid()).sqrt()
            + x[0].recip()
    });
    check("cast to f32 and back", &[&[3]], |x| {
        x[0].with_surrogate_gradient(&x[0]) * 2.0 + x[0].cast(DType::F32).cast(DType::F64) * 0.0
    });
    check("gather", &[&[4, 3]], |x| {
        x[0].gather(&Tensor::from_array(array![[2, -1], [0, 2]]), 0)
    });
    check("gather, unsigned", &[&[3, 4]], |x| {
        x[0].gather(&Tensor::from_array(array![3_u32, 3, 1]), 1)
    });
    check("take along axis", &[&[2, 4]], |x| {
        x[0].take_along_axis(&Tensor::from_array(array![[2, -4, 2], [1, 1, 3]]), 1)
    });
}

#[test]
fn second_derivatives_are_gradients_of_gradients() {
    let once = |f: fn(&Tensor) -> Tensor| {
        move |x: &[Tensor]| grad(&f(&x[0]).sum(..), &[&x[0]]).unwrap().remove(0)
    };
    check("cube", &[&[4]], once(|x| x * x * x));
    check("softmax", &[&[2, 3]], once(|x| x.softmax(1).square()));
    check("windows", &[&[6]], once(|x| x.window(0, 3, 1).prod(1)));
    check("cumsum", &[&[2, 3]], once(|x| x.cumsum(1).square()));
    check("cumprod", &[&[2, 3]], once(|x| x.cumprod(1)));
    check("sort", &[&[2, 3]], once(|x| x.sort(1).square()));
    check("cummax", &[&[2, 3]], once(|x| x.cummax(1).square()));
    check(
        "slice",
        &[&[6]],
        once(|x| {
            x.slice(
                0,
                Slice {
                    start: None,
                    stop: None,
                    step: 2,
                },
            )
            .square()
                * 3.0
        }),
    );
    check(
        "diagonal",
        &[&[3, 3]],
        once(|x| einsum("ii->i", &[x]).exp()),
    );
    check("matmul", &[&[3, 3]], once(|x| x.matmul(x).tanh()));
    check(
        "gather",
        &[&[4]],
        once(|x| x.gather(&Tensor::from_array(array![1, 1, 3]), 0).exp()),
    );
}

#[test]
fn powers_have_second_derivatives_at_and_below_zero() {
    let host = Host::new();
    let a = Tensor::from_array(array![-2.0_f64, -1.0, 0.0, 0.0, 4.0]);
    let b = Tensor::from_array(array![3.0_f64, -1.0, 2.0, 0.0, 0.0]);
    let second = |first: &Tensor, then: &Tensor| {
        let slope = grad(&a.pow(&b).sum(..), &[first]).unwrap().remove(0);
        let slope = grad(&slope.sum(..), &[then]).unwrap().remove(0);
        slope.eval::<f64>(&host).unwrap()
    };
    assert_eq!(
        second(&a, &a),
        array![-12.0, -2.0, 2.0, 0.0, 0.0].into_dyn()
    );
    let by_exponent = second(&b, &b);
    let expected = array![0.0, 0.0, 0.0, 0.0, 4.0_f64.ln().powi(2)].into_dyn();
    let bound = Tolerance::relative(8);
    assert!(compare(by_exponent, expected, &bound).is_ok());
    assert_eq!(second(&b, &a)[[4]], 0.25);
    assert_eq!(second(&a, &b)[[4]], 0.25);
}

#[test]
fn gradients_can_be_stopped_and_replaced() {
    let host = Host::new();
    let x = Tensor::from_array(array![0.2_f64, 1.7, -3.4]);
    let gradient = |loss: &Tensor| grad(loss, &[&x]).unwrap()[0].eval::<f64>(&host).unwrap();
    let stopped = (x.stop_gradient() * &x).sum(..);
    assert_eq!(gradient(&stopped), x.eval::<f64>(&host).unwrap());
    let through = x.round().with_surrogate_gradient(&(&x * 2.0)).sum(..);
    assert_eq!(gradient(&through), array![2.0, 2.0, 2.0].into_dyn());
    assert_eq!(through.eval::<f64>(&host).unwrap()[[]], -1.0);
    assert_eq!(
        gradient(&x.floor().sum(..)),
        array![0.0, 0.0, 0.0].into_dyn()
    );
    assert_eq!(
        gradient(&Tensor::scalar(3.0_f64)),
        array![0.0, 0.0, 0.0].into_dyn()
    );
    let zero = Tensor::from_array(array![0.0_f64]);
    let at_zero = |y: Tensor| {
        grad(&y.sum(..), &[&zero]).unwrap()[0]
            .eval::<f64>(&host)
            .unwrap()[[0]]
    };
    assert_eq!(at_zero(zero.relu()), 0.0);
    assert_eq!(at_zero(zero.abs()), 0.0);
    assert_eq!(at_zero(zero.maximum(0.0)), 0.5);
}

#[test]
fn what_has_no_gradient_is_an_error() {
    let x = Tensor::from_array(array![1.0_f32, 2.0]);
    let line = line!() + 1;
    let error = grad(&x, &[&x]).unwrap_err();
    assert!(matches!(
        error.root(),
        Error::NotAScalar {
            operation: "grad",
            ..
        }
    ));
    assert_eq!(error.location().unwrap().line(), line);
    let whole = Tensor::arange(3);
    for (loss, wrt) in [(whole.sum(..), &x), (x.sum(..), &whole)] {
        let error = grad(&loss, &[wrt]).unwrap_err();
        assert!(matches!(error.root(), Error::NotDifferentiable { .. }));
    }
    let wrong = &x + Tensor::from_array(array![1.0_f32, 2.0, 3.0]);
    assert!(grad(&wrong.sum(..), &[&x]).is_err());
}

#[test]
fn a_deep_chain_is_differentiated_without_recursion() {
    let x = Tensor::from_array(array![1.0_f64]);
    let mut y = x.clone();
    for _ in 0..20_000 {
        y = &y * 1.0001 + 0.001;
    }
    assert!(grad(&y.sum(..), &[&x]).is_ok());
}

/// A function from a tensor to a view of the tensor.
type View<'a> = dyn Fn(&Tensor) -> Tensor + 'a;

#[test]
fn gradients_of_halves_are_those_of_floats_rounded_once() {
    let host = Host::new();
    let halves = Tensor::from_vec(&[2, 3], numbers(&[2, 3], 1)).cast(DType::F16);
    let halves = halves.realize(&host).unwrap();
    let floats = halves.cast(DType::F32).realize(&host).unwrap();
    let is_first = Tensor::arange(3).lt(1);
    let index = Tensor::from_array(array![1, 0, 1, -1]);
    let views: [(&str, &View<'_>); 8] = [
        ("itself", &|x| x.clone()),
        ("broadcast", &|x| x.broadcast_to(&[4, 2, 3])),
        ("slice", &|x| x.slice(1, 1..3)),
        ("pad", &|x| {
            x.pad(0, 1, 2, Tensor::zeros(&[], x.dtype().unwrap()))
        }),
        ("window", &|x| x.window(1, 2, 1)),
        ("gather", &|x| x.gather(&index, 0)),
        ("concat", &|x| Tensor::concat(&[x, x], 0)),
        ("select", &|x| is_first.select(x, x.slice(0, 1..2))),
    ];
    for (name, view) in views {
        let gradient = |x: &Tensor| {
            let wide = view(x).cast(DType::F32);
            let again = view(x).cast(DType::F32).sin();
            let loss = (&wide * &again * weights(&wide).cast(DType::F32)).sum(..);
            let gradient = grad(&loss, &[x]).unwrap().remove(0);
            assert_eq!(gradient.dtype().unwrap(), x.dtype().unwrap(), "{name}");
            gradient.cast(DType::F16).cast(DType::F32)
        };
        let [of_halves, of_floats] = [&halves, &floats].map(|x| gradient(x).eval::<f32>(&host));
        assert_eq!(of_halves.unwrap(), of_floats.unwrap(), "{name}");
    }
    // The cotangent of a half in the middle of a program is not rounded.
    let rounded = floats.cast(DType::F16).cast(DType::F32);
    let slope = |x: &Tensor| {
        grad(&(x * 0.1 / 3.0).sum(..), &[&floats])
            .unwrap()
            .remove(0)
    };
    let [through, direct] = [&rounded, &floats].map(|x| slope(x).eval::<f32>(&host).unwrap());
    assert_eq!(through, direct);
}
