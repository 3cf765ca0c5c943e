//! Analyses of traces: idle times of a device, comparison of two policies, and the clock of least
//! energy.
//!
//! Role: returns verdicts, each with the numbers that support it.

mod cut;
mod dvfs;
mod estimate;
mod idle;
mod lag;
mod periodicity;
mod policies;
mod student;

pub use dvfs::{
    ClockMeasurement, ClockRuns, Curve, Optimum, PhysicalFit, Polynomial, dvfs, dvfs_from_runs,
};
pub use estimate::Estimate;
pub use idle::{
    Activity, Bottleneck, Evidence, Period, Shares, Verdict, idle_periods, idle_periods_within,
};
pub use periodicity::{Periodicity, periodicity};
pub use policies::{Comparison, Job, Policy, ReasonShare, compare_policies};

#[cfg(test)]
mod tests;
