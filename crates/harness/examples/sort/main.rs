//! A complete workload that is not a tensor program: sorting random numbers, next to NumPy.
//!
//! `cargo run --release -p harness --example sort` checks and times two variants and the rival, and
//! prints the table.

use anyhow::Result;
use gpu_wgsl::Gpu;
use harness::program::InputDistribution;
use harness::record::Record;
use harness::rivals::{self, BaselineArguments};
use harness::run::{RunServices, run};
use harness::workload::{Extent, Problem, Task, Variant, Work, Workload};
use harness::{machine, script, table};
use tensor_core::compare::Tolerance;
use tool_io::output;

/// Random numbers, and the same numbers in ascending order.
struct Numbers {
    unsorted: Vec<f32>,
    expected: Vec<f64>,
}

impl Numbers {
    fn new(len: usize) -> Self {
        let unsorted = InputDistribution::Normal.draw(len, 0);
        let mut expected: Vec<f64> = unsorted.iter().map(|&x| x.into()).collect();
        expected.sort_by(f64::total_cmp);
        Self { unsorted, expected }
    }

    /// Returns the variant that copies the numbers and sorts the copy with `sort`.
    fn variant<'a>(
        &'a self,
        name: &'static str,
        extent: Extent,
        sort: impl Fn(&mut [f32]) + 'a,
    ) -> Variant<'a> {
        Variant::on_cpu(
            name,
            extent,
            self.unsorted.len(),
            move |out: &mut Vec<f32>| {
                out.copy_from_slice(&self.unsorted);
                sort(out);
                Ok(())
            },
        )
    }
}

impl Problem for Numbers {
    fn workload<'a>(&'a self, _gpus: &'a [Gpu]) -> Workload<'a> {
        let len = self.unsorted.len();
        // The numbers are read once and written once.
        let whole = Extent::new(
            Work::Values(len as f64),
            (2 * len * size_of::<f32>()) as f64,
        );
        Workload::with_expected::<f32>(whole, &self.expected, Tolerance::exact())
            .with_variants([
                self.variant("stable", whole, |x| x.sort_by(f32::total_cmp)),
                self.variant("host", whole, |x| x.sort_unstable_by(f32::total_cmp)),
            ])
            .with_rivals(BaselineArguments::each(
                &["numpy"],
                script!("sort.py"),
                &[("n", len)],
                &[("x", &self.unsorted)],
            ))
    }
}

fn main() -> Result<()> {
    let task = Task::new("sort", "example", "100000", || Ok(Numbers::new(100_000)));
    let problem = task.prepare()?;
    let python = rivals::python().ok();
    let services = RunServices {
        python: python.as_deref(),
        ..RunServices::default()
    };
    let outcome = run(&task.id, problem.workload(&[]), &services);
    let mut record = Record::new(machine::describe());
    (record.rows, record.not_run) = (outcome.rows, outcome.not_run);
    Ok(output::print(table::render(&record) + "\n")?)
}
