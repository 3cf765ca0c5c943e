//! Test of the extra memory of the column similarity. It is the only test in its process, because
//! the counters include all threads of a process.

use benches::workloads::similarity::{self, SHAPE};

/// Maximum extra memory in bytes. One row of `(n, d, d)` takes 16 MB in f32 at the real size, all
/// rows 4.1 GB.
const LIMIT: u64 = 4_000_000;

#[test]
fn the_intermediate_of_the_similarity_is_never_in_memory() {
    // Also at the small sizes, `(n, d, d)` takes more than the limit.
    for shape in [[64, 257], [1, 1500], [3000, 31], SHAPE] {
        let [n, d] = shape;
        assert!((n * d * d * size_of::<f32>()) as u64 > LIMIT);
        for program in [
            similarity::sum(shape).problem(),
            similarity::all(shape).problem(),
        ] {
            let problem = program.unwrap();
            let mut workload = problem.workload(&[]);
            let mut variants = workload.variants.drain(..);
            let host = variants.find(|variant| variant.executor == "host").unwrap();
            let mut contestant = (host.start)().unwrap();
            // The first run also allocates what stays allocated: threads and their stacks.
            contestant.run(1).unwrap();
            let extra = contestant.peak_extra_bytes().unwrap().unwrap();
            assert!(extra < LIMIT, "{shape:?}: {extra} bytes");
            (workload.check)(&contestant.result().unwrap(), workload.whole.part).unwrap();
        }
    }
}
