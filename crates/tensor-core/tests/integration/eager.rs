//! Scopes of eager evaluation: every operation is computed as soon as it is called.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tensor_core::ndarray::array;
use tensor_core::optim::{Adam, Optimizer};
use tensor_core::plan::{Step, Target};
use tensor_core::rng::Philox;
use tensor_core::{
    Axes, Eager, Error, Executor, Host, HostData, Reference, Result, Storage, Tensor, einsum, grad,
    jit,
};

fn net(parameters: &[Tensor; 2], x: &Tensor) -> Tensor {
    let hidden = x.matmul(&parameters[0]).relu();
    let scores = einsum("bh,hc->bc", &[&hidden, &parameters[1]]);
    let shifted = &scores - scores.max(Axes::keepdims(1));
    (shifted.exp().sum(1).ln() - shifted.slice(1, 0..1).squeeze(1)).mean(..)
}

#[test]
fn a_scope_gives_the_same_losses_and_gradients() {
    let host = Host::new();
    let random = |key, shape: &[usize]| {
        Tensor::randn(Philox::new(key), shape)
            .realize(&host)
            .unwrap()
    };
    let (parameters, x) = (
        [random(1, &[30, 20]), random(2, &[20, 5])],
        random(3, &[16, 30]),
    );
    let lazy = net(&parameters, &x);
    let gradients = grad(&lazy, &[&parameters[0], &parameters[1]]).unwrap();
    let (at_once, gradients_at_once) = Eager::new(host.clone()).run(|| {
        let loss = net(&parameters, &x);
        let gradients = grad(&loss, &[&parameters[0], &parameters[1]]).unwrap();
        (loss, gradients)
    });
    let close = |a: &Tensor, b: &Tensor| {
        let (a, b) = (a.to_host::<f32>().unwrap(), b.eval::<f32>(&host).unwrap());
        let bound = tensor_core::compare::Tolerance::relative(100).or_absolute(1e-6);
        tensor_core::compare::assert_close(a.as_slice().unwrap(), b.as_slice().unwrap(), bound);
    };
    close(&at_once, &lazy);
    close(&gradients_at_once[0], &gradients[0]);
    close(&gradients_at_once[1], &gradients[1]);
}

#[test]
fn second_derivatives_work_in_a_scope() {
    let cubes = Eager::new(Host::new()).run(|| {
        let x = Tensor::from_array(array![1.0_f64, 2.0]);
        let first = &grad(&(&x * &x * &x).sum(..), &[&x]).unwrap()[0];
        grad(&first.sum(..), &[&x]).unwrap()[0]
            .to_host::<f64>()
            .unwrap()
    });
    assert_eq!(cubes, array![6.0, 12.0].into_dyn());
}

#[test]
fn products_of_matrices_are_never_written_out() {
    let host = Host::new();
    let a = Tensor::from_vec(&[200, 300], vec![0.5_f32; 60_000]);
    Eager::new(host.clone()).run(|| {
        let product = a.matmul(&a.t());
        let again = einsum("ik,jk->ij", &[&a, &a]);
        assert_eq!(
            product.to_host::<f32>().unwrap(),
            again.to_host::<f32>().unwrap()
        );
    });
    // The limit leaves room for two results and the memory of a packed matrix.
    assert!(
        host.peak_bytes() < 4 * 200 * 200 * 4,
        "{}",
        host.peak_bytes()
    );
    // A broadcast difference is written to memory: an eager operation is not fused with its
    // readers.
    Eager::new(host.clone()).run(|| (a.expand_dims(2) - a.expand_dims(1)).lt(0.0));
    assert!(
        host.peak_bytes() > 200 * 300 * 300 * 4,
        "{}",
        host.peak_bytes()
    );
}

#[test]
fn an_operation_that_fails_is_an_error_node_with_its_line() {
    Eager::new(Host::new()).run(|| {
        let table = Tensor::from_array(array![1.0_f32, 2.0]);
        let line = line!() + 1;
        let wrong = table.gather(&Tensor::from_array(array![0, 5]), 0);
        let error = (wrong * 2.0).shape().unwrap_err();
        assert!(
            matches!(error.root(), Error::IndexOutOfRange { .. }),
            "{error}"
        );
        assert_eq!(error.location().unwrap().line(), line);
    });
}

#[test]
fn scopes_end_when_they_are_left_and_inner_ones_count() {
    let (outer, inner) = (Host::new(), Host::new());
    let is_lazy = || (Tensor::arange(3) + 1).to_host::<i32>().is_err();
    Eager::new(outer.clone()).run(|| {
        let first = Tensor::arange(3) + 1;
        let second = Eager::new(inner.clone()).run(|| &first + 1);
        assert_eq!(
            (outer.live_bytes(), inner.live_bytes()),
            (24, 12),
            "{first:?} {second:?}"
        );
        let third = Eager::new(Reference).run(|| &second + 1);
        assert_eq!(third.to_host::<i32>().unwrap(), array![3, 4, 5].into_dyn());
        assert!(!is_lazy());
        let elsewhere = std::thread::scope(|scope| scope.spawn(is_lazy).join().unwrap());
        assert!(elsewhere, "a scope applies to its thread only");
    });
    assert!(is_lazy());
    let scope = Eager::new(outer);
    let left = catch_unwind(AssertUnwindSafe(|| scope.run(|| panic!("on purpose"))));
    assert!(left.is_err() && is_lazy());
}

#[test]
fn functions_are_traced_lazily_in_a_scope() {
    let host = Host::new();
    let double = jit(|args: &[Tensor]| Ok(vec![&args[0] * 2, args[0].matmul(&args[0])]));
    let results = Eager::new(host.clone()).run(|| {
        let x = Tensor::arange(4).reshape(&[2, 2]);
        double.call(&host, &[&x]).unwrap()
    });
    assert_eq!(
        results[1].to_host::<i32>().unwrap(),
        array![[2, 3], [6, 11]].into_dyn()
    );
    // An eager scope inside the traced function is ignored, too.
    let inside = jit(|args: &[Tensor]| Ok(vec![Eager::new(Host::new()).run(|| &args[0] + 1)]));
    let result = inside.call(&host, &[&Tensor::arange(2)]).unwrap();
    assert_eq!(result[0].to_host::<i32>().unwrap(), array![1, 2].into_dyn());
}

/// A faulty executor.
#[derive(Debug)]
enum Broken {
    /// Panics in `run`.
    Panics,
    /// Loses its device in `submit`.
    Gone,
}

impl Executor for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn target(&self) -> Target {
        Reference.target()
    }

    fn owns(&self, storage: &dyn Storage) -> bool {
        Reference.owns(storage)
    }

    fn upload(&self, data: HostData) -> Result<Arc<dyn Storage>> {
        Reference.upload(data)
    }

    fn run(&self, step: &Step, inputs: &[Arc<dyn Storage>]) -> Result<Arc<dyn Storage>> {
        match self {
            Self::Panics => panic!("on purpose"),
            Self::Gone => Reference.run(step, inputs),
        }
    }

    fn submit(&self) -> Result<()> {
        Err(Error::NoExecutor)
    }
}

#[test]
fn lines_are_right_after_a_panic_in_an_executor() {
    let x = Tensor::from_array(array![1.0_f32, 2.0]);
    let adam = Adam::new(0.1).unwrap();
    let state = adam.init(&[&x]).unwrap();
    let step = || adam.step(&[&x], std::slice::from_ref(&x), &state);
    let panicked = catch_unwind(AssertUnwindSafe(|| Eager::new(Broken::Panics).run(step)));
    assert!(panicked.is_err());
    let line = line!() + 1;
    let wrong = &x + &Tensor::from_array(array![1.0_f32, 2.0, 3.0]);
    assert_eq!(wrong.shape().unwrap_err().location().unwrap().line(), line);
}

#[test]
fn an_error_of_no_operation_has_the_line_that_asked() {
    let x = Tensor::from_array(array![1.0_f32, 2.0]);
    let (eager, same) = (
        Eager::new(Broken::Gone),
        jit(|args: &[Tensor]| Ok(args.to_vec())),
    );
    let first = line!() + 2;
    let errors = [
        eager.run(|| &x + 1.0).shape().unwrap_err(),
        eager.run(|| grad(&x.sum(..), &[&x])).unwrap_err(),
        (&x + 1.0).realize(&Broken::Gone).unwrap_err(),
        (&x + 1.0).eval::<f32>(&Broken::Gone).unwrap_err(),
        same.call(&Broken::Gone, &[&x]).unwrap_err(),
        Adam::new(-1.0).unwrap_err(),
    ];
    for (line, error) in (first..).zip(errors) {
        let location = error.location().unwrap();
        assert!(location.file().ends_with("eager.rs"), "{error}");
        assert_eq!(location.line(), line, "{error}");
    }
}
