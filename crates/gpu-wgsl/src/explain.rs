//! The kernels of a plan, to be read.
//!
//! Role: what lies below [`Plan::explain`]: for each step the WGSL that this device is given, and the SPIR-V that a Vulkan driver gets.

use tensor_core::ir::LoopNest;
use tensor_core::plan::{Plan, Step};

use crate::executor::refusal;
use crate::nest::{self, Division};
use crate::{Error, Gpu, Result};

/// A kernel of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// The number of its step in the plan.
    pub step: usize,
    /// Its entry point.
    pub name: String,
    /// Its text; for a step that runs on the host a comment that says why.
    pub wgsl: String,
}

impl Gpu {
    /// Gives the kernels that a plan runs as on this device, in order; those that differ only in where they start once.
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
    /// let (plan, _) = Plan::of(&[&(x * 2.0).sum(1)], &gpu.target())?;
    /// let kernels = gpu.explain(&plan);
    /// assert_eq!(kernels[0].name, "nest_mul_sum");
    /// println!("{}\n{}", plan.explain(), kernels[0].wgsl);
    /// assert_eq!(gpu_wgsl::spirv(&kernels[0].wgsl)?[0], 0x0723_0203); // its magic number
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn explain(&self, plan: &Plan) -> Vec<Explained> {
        let mut kernels = Vec::new();
        for (number, step) in plan.steps.iter().enumerate() {
            let lens: Vec<usize> = step
                .inputs
                .iter()
                .map(|input| plan.buffers[input.0].len())
                .collect();
            self.explain_step(number, step, &lens, &mut kernels);
        }
        kernels
    }

    fn explain_step(&self, number: usize, step: &Step, lens: &[usize], to: &mut Vec<Explained>) {
        match refusal(&step.nest, lens, self.room()) {
            None => self.explain_nest(number, &step.nest, lens, to),
            Some(why) => to.push(Explained {
                step: number,
                name: "host".to_owned(),
                wgsl: format!("// runs on the host: {why}\n"),
            }),
        }
    }

    fn explain_nest(&self, step: usize, nest: &LoopNest, lens: &[usize], to: &mut Vec<Explained>) {
        let kernel = |nest: &LoopNest, window: Option<usize>| {
            let (form, _) = nest::split(nest);
            let emitted = nest::emit(&form, &nest::schedule(nest, self.room()), window);
            Explained {
                step,
                name: emitted.name,
                wgsl: emitted.source,
            }
        };
        if nest.output_len() == 0 {
            return;
        }
        match nest::division(nest, lens, self.room()) {
            None => {}
            Some(Division::Whole) => to.push(kernel(nest, None)),
            Some(Division::Windows(windows)) => {
                let mut texts: Vec<Explained> = Vec::new();
                for window in windows {
                    let text = kernel(&window.nest, Some(window.axis));
                    if texts.last() != Some(&text) {
                        texts.push(text);
                    }
                }
                to.extend(texts);
            }
            Some(Division::Parts(parts)) => {
                let at = |places: &[usize]| -> Vec<usize> {
                    places.iter().map(|&place| lens[place]).collect()
                };
                let mut rest = at(&parts.rest_inputs);
                for (fold, inputs) in &parts.folds {
                    self.explain_nest(step, fold, &at(inputs), to);
                    rest.push(fold.output_len());
                }
                self.explain_nest(step, &parts.rest, &rest, to);
            }
        }
    }
}

/// Gives the SPIR-V of a kernel's text, in words.
///
/// # Errors
/// [`Error::Shader`] with the compiler's words and the line.
pub fn spirv(wgsl: &str) -> Result<Vec<u32>> {
    let refused = |message: String| Error::Shader {
        kernel: "spirv".to_owned(),
        message,
    };
    let module = naga::front::wgsl::parse_str(wgsl);
    let module = module.map_err(|error| refused(error.emit_to_string(wgsl)))?;
    let flags = naga::valid::ValidationFlags::all();
    let mut validator = naga::valid::Validator::new(flags, naga::valid::Capabilities::all());
    let info = validator.validate(&module);
    let info = info.map_err(|error| refused(error.emit_to_string(wgsl)))?;
    let options = naga::back::spv::Options::default();
    naga::back::spv::write_vec(&module, &info, &options, None)
        .map_err(|error| refused(error.to_string()))
}
