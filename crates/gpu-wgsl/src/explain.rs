//! Source text of the kernels of a plan, for inspection.
//!
//! Role: the level below [`Plan::explain`]. For each step: the WGSL that is compiled for this
//! device.

use std::sync::Arc;

use tensor_core::ir::LoopNest;
use tensor_core::plan::Plan;

use crate::Gpu;
use crate::adapter::Adapter;
use crate::executor::{Route, packed_bools};
use crate::limits::KernelLimits;
use crate::nest::{self, Division};

/// A kernel of a step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepExplanation {
    /// Index of the step in the plan.
    pub step: usize,
    /// Entry point, or `host` for a step that runs on the host.
    pub name: String,
    /// WGSL text. For a step that runs on the host: a comment with the reason.
    pub wgsl: String,
    /// Number of workgroups of a dispatch; 0 for a step that runs on the host.
    pub workgroups: u64,
}

impl Gpu {
    /// Returns the kernels that a plan runs on this device, in order. Consecutive kernels that
    /// differ only in their start positions are listed once. A step without a kernel, such as the
    /// packing of `bool`s that are packed already, is not listed.
    ///
    /// # Examples
    /// ```
    /// # use gpu_wgsl::{Gpu, Select};
    /// use tensor_core::plan::Plan;
    /// use tensor_core::{Executor, Tensor};
    ///
    /// # if gpu_wgsl::adapters().is_empty() { return Ok(()) }
    /// let gpu = Gpu::open(Select::Best)?;
    /// let x = Tensor::from_vec(&[3, 4], vec![1.0_f32; 12]);
    /// let (plan, _) = Plan::new(&[&(x * 2.0).sum(1)], &gpu.target())?;
    /// let kernels = gpu.explain(&plan);
    /// assert_eq!(kernels[0].name, "nest_mul_sum");
    /// println!("{}\n{}", plan.explain(), kernels[0].wgsl);
    /// assert_eq!(gpu_wgsl::spirv(&kernels[0].wgsl)?[0], 0x0723_0203); // its magic number
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn explain(&self, plan: &Plan) -> Vec<StepExplanation> {
        Texts(self.limits()).of_plan(plan)
    }
}

/// Returns the kernels that a plan would run on a device of an adapter, as [`Gpu::explain`] does,
/// without opening the device. The plan should be made for the adapter's
/// [`target`](crate::target).
#[must_use]
pub fn explain(plan: &Plan, adapter: &Adapter) -> Vec<StepExplanation> {
    Texts(&KernelLimits::for_adapter(adapter)).of_plan(plan)
}

/// Returns the kernels that a plan would run on a device with cooperative matrices
/// ([`Gpu::open_with_matrices`]), as [`explain`] does. The result equals that of `explain` for an
/// adapter without such matrices.
#[must_use]
pub fn explain_with_matrices(plan: &Plan, adapter: &Adapter) -> Vec<StepExplanation> {
    Texts(&KernelLimits::for_adapter(adapter).with_matrices(adapter)).of_plan(plan)
}

/// The kernels of plans under the limits of a device.
pub(crate) struct Texts<'l>(pub(crate) &'l KernelLimits);

impl Texts<'_> {
    pub(crate) fn of_plan(&self, plan: &Plan) -> Vec<StepExplanation> {
        let mut kernels = Vec::new();
        for (number, step) in plan.steps.iter().enumerate() {
            let lens: Vec<usize> = step
                .inputs
                .iter()
                .map(|input| plan.buffers[input.0].len())
                .collect();
            self.of_nest(number, &step.nest, &lens, &mut kernels);
        }
        kernels
    }

    fn of_nest(
        &self,
        step: usize,
        nest: &Arc<LoopNest>,
        lens: &[usize],
        to: &mut Vec<StepExplanation>,
    ) {
        let kernel = |nest: &LoopNest, window: Option<usize>| {
            let (form, _) = nest::split(nest);
            let schedule = nest::schedule(nest, self.0);
            let emitted = nest::emit(&form, &schedule, window);
            StepExplanation {
                step,
                name: emitted.name,
                wgsl: emitted.source,
                workgroups: schedule.n_groups(nest),
            }
        };
        if nest.output_len() == 0 || packed_bools(nest, lens).is_some() {
            return;
        }
        match Route::new(nest, lens, self.0).division() {
            Err(why) => to.push(StepExplanation {
                step,
                name: "host".to_owned(),
                wgsl: format!("// runs on the host: {why}\n"),
                workgroups: 0,
            }),
            Ok(Division::Whole) => to.push(kernel(nest, None)),
            Ok(Division::Windows(windows)) => {
                let mut texts: Vec<StepExplanation> = Vec::new();
                for window in windows {
                    // Windows of equal size have the same text: their starts are parameters.
                    let text = kernel(&window.nest, Some(window.axis));
                    if texts.last() != Some(&text) {
                        texts.push(text);
                    }
                }
                to.extend(texts);
            }
            Ok(Division::Parts(parts)) => {
                for (part, lens) in parts.with_lens(lens) {
                    self.of_nest(step, part, &lens, to);
                }
            }
        }
    }
}
