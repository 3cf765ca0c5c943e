//! Criterion benchmarks of the variants of `matmul`, from the same workload as the bench command.
//!
//! `cargo bench -p benches --bench matmul -- 512` runs one size. Times are measured by each
//! variant's own timer.

use benches::workloads::matmul::Product;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use gpu_wgsl::{Gpu, Select};
use harness::workload::{Problem, Workload};
use std::time::Duration;

/// Side of the square product; a software driver takes about a second for it.
const SIDE: usize = 512;

fn main() {
    let product = Product::square(SIDE).expect("a product of this size fits memory");
    let gpus: Vec<Gpu> = gpu_wgsl::adapters()
        .iter()
        .map(|adapter| {
            Gpu::open(Select::Index(adapter.index)).expect("a listed adapter can be opened")
        })
        .collect();
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let workload = product.workload(&gpus);
    let mut group = criterion.benchmark_group("matmul");
    bench(&mut group, workload);
    group.finish();
    criterion.final_summary();
}

fn bench(group: &mut BenchmarkGroup<'_, WallTime>, workload: Workload<'_>) {
    for variant in workload.variants {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count, far below 2^53"
        )]
        let operations = variant.extent.work.amount() as u64;
        let mut contestant = (variant.start)().expect("the variant starts");
        contestant.run(1).expect("the variant runs");
        let result = contestant.result().expect("the variant has a result");
        (workload.check)(&result, variant.extent.part)
            .expect("the result of the variant is correct");
        group.throughput(Throughput::Elements(operations));
        let adapter = variant.adapter.map_or("CPU", |adapter| &adapter.name);
        let id = BenchmarkId::new(format!("{} on {adapter}", variant.executor), SIDE);
        group.bench_function(id, |bencher| {
            bencher.iter_custom(|iterations| {
                let times = usize::try_from(iterations).expect("the count fits a usize");
                Duration::from_secs_f64(
                    contestant
                        .run(times)
                        .expect("the variant runs")
                        .iter()
                        .sum(),
                )
            });
        });
    }
}
