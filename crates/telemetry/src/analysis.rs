//! What a trace says about a job: was the device busy, which policy served it better, which clock costs least energy.
//!
//! Role: verdicts, each with the evidence that it rests on.

mod cut;
mod dvfs;
mod idle;
mod lag;
mod periodicity;
mod policies;

pub use cut::Estimate;
pub use dvfs::{Curve, Optimum, PhysicalFit, Point, Polynomial, dvfs};
pub use idle::{
    Activity, Bottleneck, Evidence, Shares, Stretch, Verdict, idle_periods, idle_periods_within,
};
pub use periodicity::{Periodicity, periodicity};
pub use policies::{Comparison, Job, Policy, ReasonShare, compare_policies};

#[cfg(test)]
mod tests;
