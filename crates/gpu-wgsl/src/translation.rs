//! Translations of kernels: the code that a driver receives instead of WGSL.
//!
//! Role: shows what a backend of wgpu passes to a driver, for inspection and for checks by the
//! tools of each language on a machine without such a driver.
//! Method: naga, with the options that wgpu uses: positions in workgroup memory are limited to its
//! size, loops have counters that end them, and workgroup memory is cleared first.

use naga::back::spv;
#[cfg(feature = "translation")]
use naga::back::{glsl, hlsl, msl};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};

use crate::{Error, Result};

/// A text language of kernels.
#[cfg(feature = "translation")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Language {
    /// GLSL of OpenGL ES 3.1, which has no `f64`.
    Glsl,
    /// HLSL of Direct3D 12, shader model 6.0.
    Hlsl,
    /// Metal's language, version 2.4, which has no `f64`.
    Msl,
}

/// Compiles WGSL to SPIR-V words, with the options of wgpu on a driver of Vulkan 1.3. The driver
/// checks the bounds of buffers.
///
/// # Errors
/// [`Error::Shader`] with the compiler's message and the source line.
pub fn spirv(wgsl: &str) -> Result<Vec<u32>> {
    let checked = Checked::new(wgsl, spv::supported_capabilities())?;
    let options = spv::Options {
        lang_version: (1, 6),
        flags: spv::WriterFlags::empty(),
        bounds_check_policies: BoundsCheckPolicies {
            index: BoundsCheckPolicy::Restrict,
            ..BoundsCheckPolicies::default()
        },
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::Native,
        force_loop_bounding: true,
        ..spv::Options::default()
    };
    let words = spv::write_vec(&checked.module, &checked.info, &options, None);
    words.map_err(|error| checked.fault(error.to_string()))
}

/// Translates a WGSL module with a single entry point to another language.
///
/// # Errors
/// [`Error::Shader`] with the compiler's message and the source line. A type that the language does
/// not support is also an error.
///
/// # Examples
/// ```
/// use gpu_wgsl::{Language, translate};
///
/// let kernel = "
///     @group(0) @binding(0) var<storage, read_write> out: array<f32>;
///     @compute @workgroup_size(64)
///     fn double(@builtin(global_invocation_id) gid: vec3<u32>) { out[gid.x] *= 2.0; }";
/// assert!(translate(kernel, Language::Msl)?.contains("kernel void"));
/// assert!(translate(kernel, Language::Hlsl)?.contains("[numthreads(64, 1, 1)]"));
/// assert!(translate(kernel, Language::Glsl)?.contains("local_size_x = 64"));
/// # Ok::<(), gpu_wgsl::Error>(())
/// ```
#[cfg(feature = "translation")]
pub fn translate(wgsl: &str, language: Language) -> Result<String> {
    match language {
        Language::Glsl => Checked::new(wgsl, glsl::supported_capabilities())?.glsl(),
        Language::Hlsl => Checked::new(wgsl, hlsl::supported_capabilities())?.hlsl(true),
        Language::Msl => Checked::new(wgsl, msl::supported_capabilities())?.msl(),
    }
}

/// A module that is valid in the target language.
struct Checked {
    module: naga::Module,
    info: ModuleInfo,
}

impl Checked {
    fn new(wgsl: &str, capabilities: Capabilities) -> Result<Self> {
        let fault = |kernel: &str, message| Error::Shader {
            kernel: kernel.to_owned(),
            message,
        };
        let module = naga::front::wgsl::parse_str(wgsl);
        let module = module.map_err(|error| fault("wgsl", error.emit_to_string(wgsl)))?;
        let mut validator = Validator::new(ValidationFlags::all(), capabilities);
        let info = validator.validate(&module);
        let info = info.map_err(|error| fault(name(&module), error.emit_to_string(wgsl)))?;
        Ok(Self { module, info })
    }

    fn fault(&self, message: String) -> Error {
        Error::Shader {
            kernel: name(&self.module).to_owned(),
            message,
        }
    }
}

#[cfg(feature = "translation")]
impl Checked {
    fn glsl(&self) -> Result<String> {
        let options = glsl::Options {
            version: glsl::Version::new_gles(310),
            writer_flags: glsl::WriterFlags::empty(),
            ..glsl::Options::default()
        };
        let pipeline = glsl::PipelineOptions {
            shader_stage: naga::ShaderStage::Compute,
            entry_point: name(&self.module).to_owned(),
            multiview: None,
        };
        let mut text = String::new();
        let policies = BoundsCheckPolicies::default();
        let writer = glsl::Writer::new(
            &mut text,
            &self.module,
            &self.info,
            &options,
            &pipeline,
            policies,
        );
        let written = writer.and_then(|mut writer| writer.write());
        written.map_err(|error| self.fault(error.to_string()))?;
        Ok(text)
    }

    fn hlsl(&self, zero_initialize_workgroup_memory: bool) -> Result<String> {
        let options = hlsl::Options {
            shader_model: hlsl::ShaderModel::V6_0,
            zero_initialize_workgroup_memory,
            ..hlsl::Options::default()
        };
        let (mut text, pipeline) = (String::new(), hlsl::PipelineOptions::default());
        let mut writer = hlsl::Writer::new(&mut text, &options, &pipeline);
        let written = writer.write(&self.module, &self.info, None);
        written.map_err(|error| self.fault(error.to_string()))?;
        Ok(text)
    }

    fn msl(&self) -> Result<String> {
        let options = msl::Options {
            lang_version: (2, 4),
            bounds_check_policies: BoundsCheckPolicies {
                index: BoundsCheckPolicy::Restrict,
                buffer: BoundsCheckPolicy::Restrict,
                ..BoundsCheckPolicies::default()
            },
            ..msl::Options::default()
        };
        let pipeline = msl::PipelineOptions::default();
        let written = msl::write_string(&self.module, &self.info, &options, &pipeline);
        let (text, _) = written.map_err(|error| self.fault(error.to_string()))?;
        Ok(text)
    }
}

/// Returns the name of a module's first entry point.
fn name(module: &naga::Module) -> &str {
    module
        .entry_points
        .first()
        .map_or("wgsl", |entry| &entry.name)
}

#[cfg(all(test, feature = "translation"))]
mod barriers;
#[cfg(all(test, feature = "translation"))]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::sync::LazyLock;

    use tensor_core::half::f16;
    use tensor_core::plan::{Plan, Target};
    use tensor_core::{DType, Tensor, random_programs};
    use tool_io::TemporaryFolder;

    use super::*;
    use crate::check::skip_without_tool;
    use crate::explain::Texts;
    use crate::limits::{KernelLimits, MatrixLimits};
    use crate::nest::tests::schedule_limits;

    /// Seed and number of the random programs.
    const SEED: u64 = 2026;
    const N_PROGRAMS: u32 = 30;

    /// A checker of translated kernels.
    struct Tool {
        name: &'static str,
        package: &'static str,
        extension: &'static str,
        /// Returns the arguments before the file, for the name of an entry point.
        args: fn(&str) -> Vec<&str>,
        write: fn(&str) -> Result<Vec<u8>>,
    }

    const TOOLS: [Tool; 3] = [
        Tool {
            name: "spirv-val",
            package: "spirv-tools",
            extension: "spv",
            args: |_| vec!["--target-env", "vulkan1.3"],
            write: |wgsl| Ok(bytemuck::cast_slice(&spirv(wgsl)?).to_vec()),
        },
        Tool {
            name: "glslangValidator",
            package: "glslang-tools",
            extension: "comp",
            args: |_| Vec::new(),
            write: |wgsl| translate(wgsl, Language::Glsl).map(String::into_bytes),
        },
        Tool {
            name: "glslangValidator",
            package: "glslang-tools",
            extension: "hlsl",
            args: |entry| vec!["-D", "-S", "comp", "-V", "-o", "/dev/null", "-e", entry],
            // Without the statement that clears workgroup memory: naga casts 0 to an array, which
            // Direct3D's compiler accepts but glslang does not.
            write: |wgsl| {
                let checked = Checked::new(wgsl, hlsl::supported_capabilities())?;
                checked.hlsl(false).map(String::into_bytes)
            },
        },
    ];

    /// The fixed kernels and those of random programs: name and text.
    pub(super) static KERNELS: LazyLock<Vec<(String, String)>> = LazyLock::new(kernels);

    #[expect(clippy::unwrap_used, reason = "a helper of tests")]
    fn kernels() -> Vec<(String, String)> {
        let limits = schedule_limits();
        let fixed = shaders::layout::ALL.iter();
        let fixed = fixed.map(|kernel| (kernel.name.to_string(), kernel.source.to_string()));
        let mut kernels: BTreeSet<_> = fixed.collect();
        let target = Target {
            max_values: 96,
            max_inputs: 6,
            min_product: None,
            computes_factors: true,
            stores_halves: false,
            merges_sums: false,
            min_band: None,
        };
        for plan in random_programs::plans(&target, N_PROGRAMS, SEED).unwrap() {
            let steps = Texts(&limits).of_plan(&plan);
            let steps = steps.into_iter().filter(|step| step.name != "host");
            kernels.extend(steps.map(|step| (step.name, step.wgsl)));
        }
        // Rows long enough for subgroups.
        let rows = Tensor::from_vec(&[3, 4000], vec![1.0_f32; 12_000]);
        for program in [rows.sum(1), rows.max(1), rows.gt(0.0).count(1)] {
            let (plan, _) = Plan::new(&[&program], &target).unwrap();
            let limits = KernelLimits {
                uses_subgroups: true,
                ..schedule_limits()
            };
            let steps = Texts(&limits).of_plan(&plan).into_iter();
            kernels.extend(steps.map(|step| (step.name, step.wgsl)));
        }
        // Products by cooperative matrices.
        for side in [8, 16] {
            let halves = Tensor::from_vec(&[80, 80], vec![f16::ONE; 6400]).cast(DType::F32);
            let (plan, _) = Plan::new(&[&halves.matmul(&halves)], &target).unwrap();
            let limits = KernelLimits {
                matrices: Some(MatrixLimits { side, lanes: 32 }),
                workgroup_bytes: 32 << 10,
                ..schedule_limits()
            };
            let steps = Texts(&limits).of_plan(&plan).into_iter();
            kernels.extend(steps.map(|step| (step.name, step.wgsl)));
        }
        // A product of blocks that may end early.
        let x = Tensor::from_vec(&[64, 300], vec![1.0_f32; 64 * 300]);
        let all = x.expand_dims(1).le(x.expand_dims(0)).all(2);
        let (plan, _) = Plan::new(&[&all], &target).unwrap();
        let steps = Texts(&limits).of_plan(&plan);
        let first = kernels.len();
        kernels.extend(steps.into_iter().map(|step| (step.name, step.wgsl)));
        assert!(
            kernels.len() > first && kernels.iter().any(|(_, wgsl)| wgsl.contains("wg_goes_on"))
        );
        kernels.into_iter().collect()
    }

    /// Returns whether a language has the types of a kernel: `f64` is missing in GLSL of OpenGL ES
    /// and in MSL, cooperative matrices are missing in GLSL and HLSL.
    fn has_types(language: Language, wgsl: &str) -> bool {
        let (is_wide, is_matrix) = (wgsl.contains("f64"), wgsl.contains("coop_mat"));
        match language {
            Language::Glsl => !is_wide && !is_matrix,
            Language::Hlsl => !is_matrix,
            Language::Msl => !is_wide,
        }
    }

    #[test]
    fn all_kernels_have_translations() {
        let mut n_translated = 0;
        for (name, wgsl) in KERNELS.iter() {
            for language in [Language::Glsl, Language::Hlsl, Language::Msl] {
                let translated = translate(wgsl, language);
                if !has_types(language, wgsl) {
                    assert!(translated.is_err(), "{name}: {language:?} lacks its types");
                    continue;
                }
                let text = translated.unwrap_or_else(|error| panic!("{language:?}: {error}"));
                assert!(text.len() > 100, "{name}: {text}");
                n_translated += 1;
            }
        }
        assert!(n_translated > 150, "{n_translated}");
    }

    #[test]
    fn tools_of_each_language_accept_the_translations() {
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "translations").unwrap();
        for tool in &TOOLS {
            match tool.check(folder.path()) {
                None => skip_without_tool(&format!(
                    "{} is not installed (Debian: `apt-get install {}`)",
                    tool.name, tool.package
                )),
                Some(n_kernels) => assert!(n_kernels > 100, "{n_kernels}"),
            }
        }
    }

    #[test]
    fn a_tool_reports_the_kernel_and_the_line_of_a_fault() {
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "fault").unwrap();
        let file = folder.path().join("fault.comp");
        let text = "#version 310 es\nlayout(local_size_x = 1) in;\nvoid main() { undeclared(); }\n";
        fs::write(&file, text).unwrap();
        match TOOLS[1].complaint("main", &file) {
            None => skip_without_tool("glslangValidator is not installed"),
            Some(complaint) => {
                let output = complaint.unwrap();
                assert!(output.contains("3: 'undeclared'"), "{output}");
            }
        }
    }

    impl Tool {
        /// Checks all kernels, and returns their number; `None` if the tool is not installed.
        #[expect(clippy::unwrap_used, reason = "a helper of tests")]
        fn check(&self, folder: &Path) -> Option<usize> {
            let mut n_kernels = 0;
            for (number, (name, wgsl)) in KERNELS.iter().enumerate() {
                // glslang lacks HLSL's loads of f64. The spirv-val of Debian 12 (2023.1) lacks
                // cooperative matrices; their kernels are valid for naga, and run on a driver.
                let is_matrix = wgsl.contains("coop_mat");
                if is_matrix
                    || (self.name == "glslangValidator" && !has_types(Language::Glsl, wgsl))
                {
                    continue;
                }
                let bytes = (self.write)(wgsl).unwrap();
                let file: PathBuf = folder.join(format!("{number}-{name}.{}", self.extension));
                fs::write(&file, bytes).unwrap();
                if let Some(output) = self.complaint(name, &file)? {
                    panic!("{name}: {} reports\n{output}\n{wgsl}", self.name);
                }
                n_kernels += 1;
            }
            Some(n_kernels)
        }

        /// Returns the tool's output if it rejects a file; `None` if the tool is not installed.
        fn complaint(&self, entry: &str, file: &Path) -> Option<Option<String>> {
            let mut command = Command::new(self.name);
            let output = command.args((self.args)(entry)).arg(file).output().ok()?;
            let text = [output.stdout, output.stderr].concat();
            let is_rejected = !output.status.success();
            Some(is_rejected.then(|| String::from_utf8_lossy(&text).into_owned()))
        }
    }
}
