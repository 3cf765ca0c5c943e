//! Errors name the operation that the caller's line calls, also if it is composed of other
//! operations.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

use tensor_core::ndarray::array;
use tensor_core::rng::Philox;
use tensor_core::{DType, Error, Host, SortAxis, Tensor};

/// Returns the message of a tensor's error, without the source line.
fn message(tensor: &Tensor) -> String {
    tensor.shape().unwrap_err().root().to_string()
}

/// Returns the operation in the message.
fn name(tensor: &Tensor) -> String {
    message(tensor).split(':').next().unwrap().to_owned()
}

#[test]
fn errors_of_a_composed_operation_contain_its_own_name() {
    let x = Tensor::from_array(array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let (i, b) = (x.cast(DType::I32), x.gt(0));
    let half = x.cast(DType::F16);
    let seed = Philox::new(1);
    let empty = Tensor::from_vec::<f32>(&[2, 0], Vec::new());
    for (expected, tensor) in [
        ("matmul", x.matmul(&i.t())),
        ("matmul", b.matmul(&b.t())),
        ("matmul", x.matmul(&x)),
        ("softmax", x.softmax(2)),
        ("softmax", i.softmax(0)),
        ("softmax", empty.softmax(1)),
        ("mean", x.mean(2)),
        ("mean", half.mean(0)),
        ("var", x.var(2, 0)),
        ("var", half.var(0, 1)),
        ("std", x.std([0, 0], 0)),
        ("count", x.count(-3)),
        ("argmax", x.argmax(2)),
        ("argmax", b.argmax(0)),
        ("argmin", empty.argmin(1)),
        ("argmin", half.argmin(0)),
        ("cumsum", x.cumsum(2)),
        ("cumsum", half.cumsum(0)),
        ("cumprod", b.cumprod(0)),
        ("cummax", x.cummax(-3)),
        ("cummin", Tensor::scalar(1.0).cummin(0)),
        ("sort", x.sort(2)),
        ("sort", half.sort(0)),
        ("argsort", half.argsort(SortAxis::new(0).descending())),
        ("topk", x.topk(1, -3).0),
        ("topk", x.topk(4, 1).1),
        ("topk", half.topk(1, 0).0),
        ("scatter_add", x.scatter_add(&x, &x, 0)),
        ("scatter_add", x.scatter_add(&Tensor::arange(2), &x, 2)),
        ("scatter_add", x.scatter_add(&Tensor::arange(2), &x.t(), 0)),
        ("scatter_add", x.scatter_add(&Tensor::arange(2), &i, 0)),
        (
            "scatter_max",
            half.scatter_max(&Tensor::arange(2), &half, 0),
        ),
        ("scatter_min", b.scatter_min(&Tensor::arange(2), &b, 0)),
        ("scatter_add", empty.scatter_add(&Tensor::arange(3), &x, 1)),
        (
            "scatter_add_along_axis",
            x.scatter_add_along_axis(&Tensor::arange(2), &x, 0),
        ),
        (
            "scatter_max_along_axis",
            x.scatter_max_along_axis(&i.slice(1, ..2), &x, 0),
        ),
        (
            "scatter_min_along_axis",
            x.scatter_min_along_axis(&i, &i, 0),
        ),
        ("bincount", x.bincount(3)),
        ("bincount", i.bincount(0)),
        ("bincount", i.bincount((1 << 32) + 1)),
        ("histogram", i.histogram(3, 0.0, 1.0)),
        ("histogram", x.histogram(0, 0.0, 1.0)),
        ("histogram", x.histogram(3, 1.0, 1.0)),
        ("histogram", x.histogram(3, 0.0, f64::NAN)),
        ("histogram", x.histogram(3, 0.0, 1e39)),
        ("relu", b.relu()),
        ("square", b.square()),
        ("sign", b.sign()),
        ("sign", half.sign()),
        ("clip", x.clip(&i, 1)),
        ("clip", x.clip(0, true)),
        ("clip", x.clip(0, x.t())),
        ("gt", x.gt(x.t())),
        ("ge", x.ge(&i)),
        ("full", Tensor::full(&[usize::MAX, 2], 1)),
        ("rand", Tensor::rand(seed, &[1; 65])),
        ("randn", Tensor::randn(seed, &[1; 65])),
        (
            "rand_in_stream",
            Tensor::rand_in_stream(seed, &Tensor::scalar(1_u32), &[1; 65]),
        ),
        (
            "randn_in_stream",
            Tensor::randn_in_stream(seed, &Tensor::scalar(1_u32), &[1; 65]),
        ),
        (
            "unpack_bits",
            Tensor::zeros(&[1 << 59], DType::U32).unpack_bits(usize::MAX),
        ),
        (
            "unpack_bits",
            Tensor::zeros(&[1 << 58], DType::U32).unpack_bits(1 << 63),
        ),
        ("stack", Tensor::stack(&[&x, &x], 4)),
        ("stack", Tensor::stack(&[&x, &x.t()], 0)),
        ("stack", Tensor::stack(&[&x, &i], 0)),
        ("stack", Tensor::stack(&[], 0)),
        (
            "take_along_axis",
            x.take_along_axis(&Tensor::arange(15).reshape(&[3, 5]), 1),
        ),
        ("rem", &x % &x.t()),
        ("and", &b & &b.t()),
        ("or", &b | 1),
        ("xor", &x ^ &x),
        ("not", !&x),
    ] {
        assert_eq!(name(&tensor), expected, "{}", message(&tensor));
    }
}

#[test]
fn what_went_wrong_before_keeps_its_name_and_its_line() {
    let x = Tensor::from_array(array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let line = line!() + 1;
    let bad = &x + &x.t();
    for later in [
        bad.matmul(&x),
        x.matmul(&bad),
        bad.softmax(7),
        bad.mean(..),
        bad.std(.., 1),
        bad.argmax(0),
        bad.sort(0),
        bad.topk(1, 0).1,
        bad.scatter_add(&Tensor::arange(2), &x, 0),
        x.scatter_max(&bad, &x, 0),
        x.scatter_min_along_axis(&Tensor::zeros(&[1, 1], DType::I32), &bad, 0),
        bad.bincount(3),
        bad.histogram(3, 0.0, 1.0),
        bad.relu(),
        bad.sign(),
        x.clip(0, &bad),
        x.gt(&bad),
        bad.ge(1),
        Tensor::stack(&[&x, &bad], 0),
        x.gather(&bad, 0),
        !&bad,
    ] {
        assert_eq!(name(&later), "add");
        let location = later.shape().unwrap_err().location().unwrap();
        assert_eq!((location.file(), location.line()), (file!(), line));
    }
}

#[test]
fn shapes_and_types_are_reported_in_the_callers_order() {
    let x = Tensor::from_array(array![[1.0_f32, 2.0]]);
    let y = Tensor::from_array(array![1.0_f32, 2.0, 3.0]);
    assert_eq!(
        message(&x.gt(&y)),
        "gt: shapes [[1, 2], [3]] do not broadcast (sizes 2 and 3 on axis 1)"
    );
    assert_eq!(
        message(&x.ge(y.cast(DType::F64))),
        "ge: types f32 and f64 differ"
    );
    assert_eq!(
        message(&Tensor::stack(&[&x, &y], 0)),
        "stack: shapes [[1, 2], [3]] cannot be joined along axis 0"
    );
    // The shape of the operand, although the reduced axis is moved to the end.
    let empty = Tensor::from_vec(&[0, 3], Vec::<f32>::new()).argmax(0);
    assert!(message(&empty).contains("[0, 3]"), "{}", message(&empty));
    assert_eq!(
        message(&Tensor::arange(1 << 33)),
        "arange: shape [8589934592] has too many elements (limit 2147483648)"
    );
    assert_eq!(
        message(&y.reshape(&[usize::MAX, 2])),
        format!(
            "reshape: shape {:?} has too many elements (limit {})",
            [usize::MAX, 2],
            isize::MAX
        )
    );
}

#[test]
fn reading_elements_of_another_type_names_both_and_the_line() {
    let x = Tensor::from_array(array![1.0_f32, 2.0]);
    let first = line!() + 2;
    let errors = [
        x.eval::<f64>(&Host::new()).unwrap_err(),
        x.to_host::<i32>().unwrap_err(),
        (&x + 1).to_host::<f32>().unwrap_err(),
    ];
    let texts = errors.each_ref().map(|error| error.root().to_string());
    assert_eq!(
        texts,
        [
            "eval: requested elements of type f64, but the tensor has type f32",
            "to_host: requested elements of type i32, but the tensor has type f32",
            "to_host: the tensor has not been computed; call realize or eval first",
        ]
    );
    for (line, error) in (first..).zip(&errors) {
        let location = error.location().unwrap();
        assert_eq!((location.file(), location.line()), (file!(), line));
    }
    assert!(matches!(
        errors[0].root(),
        Error::ElementTypeMismatch { .. }
    ));
}

#[test]
fn scatters_of_too_many_values_or_axes_are_errors_of_their_own_name() {
    let zeros = |shape: &[usize]| Tensor::scalar(0.0_f32).broadcast_to(shape);
    let first = |shape: &[usize]| Tensor::scalar(0_u32).broadcast_to(shape);
    // Each value is compared with each position: 2^66 pairs.
    let (base, values) = (zeros(&[1 << 31]), zeros(&[1 << 35]));
    let index = first(&[1 << 35]);
    // Positions are an axis more than the largest number of axes.
    let most = vec![1; tensor_core::shape::MAX_RANK];
    let (full, at) = (zeros(&most), first(&most));
    for (expected, tensor) in [
        ("scatter_add", base.scatter_add(&index, &values, 0)),
        ("scatter_max", base.scatter_max(&index, &values, 0)),
        ("scatter_min", base.scatter_min(&index, &values, 0)),
        (
            "scatter_max_along_axis",
            full.scatter_max_along_axis(&at, &full, 0),
        ),
    ] {
        assert_eq!(name(&tensor), expected, "{}", message(&tensor));
    }
}
