//! Criterion benchmarks of the functions of the inverse Gaussian distribution, for slices on one
//! thread.
//!
//! `cargo bench -p benches --bench inverse_gaussian -- sf` runs those whose name contains `sf`.
//! Throughput is values per second. Two distributions are used: `narrow`, whose upper tail has no
//! cancellation, and `wide`, for which the textbook's difference loses digits nearly everywhere.

use criterion::{BenchmarkId, Criterion, Throughput};
use distributions::{Error, InverseGaussian};
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

/// Values per call: few enough for the second-level cache, enough for a negligible cost of the
/// call.
const LEN: usize = 4096;

type Into = fn(&InverseGaussian, &[f64], &mut [f64]) -> Result<(), Error>;

const FUNCTIONS: [(&str, Into); 8] = [
    ("pdf", |distribution, xs, out| {
        distribution.pdf_into(xs, out)
    }),
    ("ln_pdf", |distribution, xs, out| {
        distribution.ln_pdf_into(xs, out)
    }),
    ("cdf", |distribution, xs, out| {
        distribution.cdf_into(xs, out)
    }),
    ("sf", |distribution, xs, out| distribution.sf_into(xs, out)),
    ("ln_cdf", |distribution, xs, out| {
        distribution.ln_cdf_into(xs, out)
    }),
    ("ln_sf", |distribution, xs, out| {
        distribution.ln_sf_into(xs, out)
    }),
    ("hazard", |distribution, xs, out| {
        distribution.hazard_into(xs, out)
    }),
    ("inverse_cdf", |distribution, ps, out| {
        distribution.inverse_cdf_into(ps, out)
    }),
];

fn main() {
    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    for (name, mean, shape) in [("narrow", 0.5, 1.0), ("wide", 1e4, 1.0)] {
        let distribution = InverseGaussian::new(mean, shape).expect("the parameters are valid");
        bench(&mut criterion, name, distribution);
    }
    criterion.final_summary();
}

fn bench(criterion: &mut Criterion, name: &str, distribution: InverseGaussian) {
    let ps: Vec<f64> = (0..LEN).map(|i| (i as f64 + 0.5) / LEN as f64).collect();
    let xs: Vec<f64> = ps.iter().map(|&p| distribution.inverse_cdf(p)).collect();
    let mut out = vec![0.0; LEN];
    for (function, into) in FUNCTIONS {
        let inputs = if function == "inverse_cdf" { &ps } else { &xs };
        let mut group = criterion.benchmark_group(function);
        group.throughput(Throughput::Elements(LEN as u64));
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| {
                into(&distribution, inputs, &mut out).expect("the slices have equal lengths")
            });
        });
        group.finish();
    }
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut group = criterion.benchmark_group("sample");
    group.throughput(Throughput::Elements(LEN as u64));
    group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
        bencher.iter(|| distribution.sample_into(&mut rng, &mut out));
    });
    group.finish();
}
