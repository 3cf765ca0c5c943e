//! Test of the count of extra memory. It is the only test in its process, because the counters
//! include all threads of a process.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use anyhow::Result;
use harness::workload::{Extent, Portion, Variant, Work};
use std::hint::black_box;

/// Bytes of a result; allocations of the test harness are far smaller.
const LEN: usize = 64 << 20;

fn extra_bytes(work: impl FnMut(&mut Vec<bool>) -> Result<()>) -> u64 {
    let extent = Extent {
        part: Portion::whole(1),
        work: Work::Operations(1.0),
        bytes: 1.0,
    };
    let variant = Variant::on_cpu("counted", extent, LEN, work);
    let mut contestant = (variant.start)().unwrap();
    contestant.run(2).unwrap();
    contestant.peak_extra_bytes().unwrap().unwrap()
}

#[test]
fn scratch_counts_every_time_and_a_result_never() {
    for n_scratch in [0, 1, 3] {
        let filling = extra_bytes(|_| {
            drop(black_box(vec![true; n_scratch * LEN]));
            drop(black_box(vec![true; n_scratch * LEN / 2]));
            Ok(())
        });
        let replacing = extra_bytes(|result| {
            drop(black_box(vec![true; n_scratch * LEN]));
            *result = black_box(vec![true; LEN]);
            Ok(())
        });
        let scratch = (n_scratch * LEN) as u64;
        assert!((scratch..scratch + 4096).contains(&filling), "{filling}");
        // The new result may reuse the memory of the freed scratch.
        let replaced = scratch.saturating_sub(LEN as u64);
        assert!(
            (replaced..scratch + 4096).contains(&replacing),
            "{replacing}"
        );
    }
}
