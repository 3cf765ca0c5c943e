//! Finds a mistake with eager evaluation, and the slowest steps with a profiler.
//!
//! Run it with `cargo run -p tensor-core --example debug`.
#![allow(clippy::print_stdout, reason = "the program prints its results")]

use std::error::Error;
use tensor_core::profile::{By, Column};
use tensor_core::rng::Philox;
use tensor_core::{Eager, Host, Profiler, Tensor};

fn distances(x: &Tensor) -> Tensor {
    (x.expand_dims(1) - x.expand_dims(0)).square().sum(2).sqrt()
}

fn main() -> Result<(), Box<dyn Error>> {
    let host = Host::new();
    let x = Tensor::randn(Philox::new(7), &[300, 16]);

    // In an eager scope every operation runs at once, so intermediate results can be inspected.
    Eager::new(host.clone()).run(|| -> tensor_core::Result<()> {
        let squares = (x.expand_dims(1) - x.expand_dims(0)).square();
        let largest = squares.max(..).to_host::<f32>()?;
        println!(
            "largest square {largest:.3} of shape {:?}",
            squares.shape()?
        );
        Ok(())
    })?;

    // Without the scope the whole program is fused; the profiler shows where the time goes.
    let profiler = Profiler::new(&host);
    let nearest = distances(&x).sum(1).min(0).item::<f32>(&profiler)?;
    println!("smallest sum of distances {nearest:.3}");
    println!("{}", profiler.profile().table(By::Step, Column::Time));

    // A mistake is reported with its operation, shapes and source line when it is evaluated.
    let wrong = distances(&x).matmul(&x.t());
    println!(
        "{}",
        wrong
            .eval::<f32>(&host)
            .err()
            .ok_or("the shapes do not match")?
    );
    Ok(())
}
