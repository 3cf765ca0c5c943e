//! The job of a rival: a script, a library, sizes and arrays.
//!
//! Role: the only place that passes scripts, sizes and arrays to a process. Scripts are embedded in
//! the executable, which needs no other files; scripts and inputs are written to a temporary folder
//! that is removed with the rival.

use crate::energy::Site;
use crate::implementation::{InputType, Portion};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

/// Longest wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A Python script that implements the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// File name.
    pub name: &'static str,
    /// Text.
    pub text: &'static str,
    /// Modules that the script imports in addition to `protocol`.
    pub imports: &'static [Self],
    /// Name of the program to run, if the script contains several; passed as `--case`.
    pub case: Option<&'static str>,
}

impl Script {
    /// Returns this script as one that runs the program of this name.
    #[must_use]
    pub const fn with_case(self, case: &'static str) -> Self {
        Self {
            case: Some(case),
            ..self
        }
    }
}

/// Creates the [`Script`](crate::rivals::Script) of a Python file next to the Rust file.
#[macro_export]
macro_rules! script {
    ($file:literal) => {
        $crate::rivals::Script {
            name: $file,
            text: include_str!($file),
            imports: &[],
            case: None,
        }
    };
}

/// The module that every script imports.
const PROTOCOL: Script = script!("protocol.py");

/// Arguments of a rival.
#[derive(Clone, Debug)]
pub struct BaselineArguments<'a> {
    /// Library to measure, or a way to use it, passed as `--library`; also the rival's name until
    /// its first answer.
    pub library: &'a str,
    /// Script to run.
    pub script: Script,
    /// Integers, passed as `--name value`.
    pub sizes: Vec<(&'a str, usize)>,
    /// Arrays, written as raw little-endian numbers and passed as `--name path`.
    pub arrays: Vec<(&'a str, &'a [f32])>,
    /// Types in which the rival receives arrays, by the names of the arrays; f32 if an array has
    /// no entry.
    pub types: Vec<(&'a str, InputType)>,
    /// Longest wait for one answer after the start.
    pub patience: Duration,
    /// Leading rows that the rival does, if not all of them, because the whole would take minutes
    /// per run.
    pub part: Option<Portion>,
}

impl<'a> BaselineArguments<'a> {
    /// Returns the device whose power the rival draws.
    #[must_use]
    pub fn site(&self) -> Site {
        if self.library.ends_with("-cuda") {
            Site::NvidiaGpu
        } else {
            Site::Cpu
        }
    }

    /// Returns the jobs of one script, one for each library. On a machine with an NVIDIA GPU, each
    /// way to use PyTorch has a second job that runs on the GPU.
    #[must_use]
    pub fn each(
        libraries: &[&'a str],
        script: Script,
        sizes: &[(&'a str, usize)],
        arrays: &[(&'a str, &'a [f32])],
    ) -> Vec<Self> {
        let job = |&library| Self {
            library,
            script,
            sizes: sizes.to_vec(),
            arrays: arrays.to_vec(),
            types: Vec::new(),
            patience: TIMEOUT,
            part: None,
        };
        let on_cuda = libraries.iter().filter_map(|library| match *library {
            "torch" => Some(&"torch-cuda"),
            "torch-compile" => Some(&"torch-compile-cuda"),
            _ => None,
        });
        let on_cuda = on_cuda.filter(|_| has_nvidia());
        libraries.iter().chain(on_cuda).map(job).collect()
    }

    /// Writes scripts and arrays to `folder`, and returns the command line.
    pub(super) fn write(&self, folder: &Path) -> Result<Vec<OsString>> {
        for script in [PROTOCOL, self.script].iter().chain(self.script.imports) {
            let path = folder.join(script.name);
            fs::write(&path, script.text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let script = folder.join(self.script.name).into_os_string();
        let mut arguments = vec![script, "--library".into(), self.library.into()];
        if let Some(case) = self.script.case {
            arguments.extend(["--case".into(), case.into()]);
        }
        for (name, size) in &self.sizes {
            arguments.extend([format!("--{name}").into(), size.to_string().into()]);
        }
        for (name, array) in &self.arrays {
            let element = self.type_of(name);
            let path = array_path(folder, name, element);
            write_array(&path, array, element)
                .with_context(|| format!("cannot write {}", path.display()))?;
            arguments.extend([format!("--{name}").into(), path.into_os_string()]);
        }
        Ok(arguments)
    }

    /// Removes the arrays, because large ones should not occupy the disk for the whole run.
    pub(super) fn remove_arrays(&self, folder: &Path) {
        for (name, _) in &self.arrays {
            let _ = fs::remove_file(array_path(folder, name, self.type_of(name)));
        }
    }

    fn type_of(&self, array: &str) -> InputType {
        let found = self.types.iter().find(|(name, _)| *name == array);
        found.map_or(InputType::F32, |&(_, element)| element)
    }
}

/// Returns whether one of the adapters is an NVIDIA card.
fn has_nvidia() -> bool {
    static FOUND: LazyLock<bool> = LazyLock::new(|| {
        let is_nvidia = |adapter| Site::from_adapter(Some(adapter)) == Site::NvidiaGpu;
        gpu_wgsl::adapters().iter().any(is_nvidia)
    });
    *FOUND
}

fn array_path(folder: &Path, name: &str, element: InputType) -> PathBuf {
    folder.join(format!("{name}.{}", element.name()))
}

fn write_array(path: &Path, array: &[f32], element: InputType) -> std::io::Result<()> {
    let mut file = BufWriter::new(fs::File::create(path)?);
    for &number in array {
        match element {
            InputType::F32 => file.write_all(&number.to_le_bytes())?,
            InputType::F64 => file.write_all(&f64::from(number).to_le_bytes())?,
            InputType::U32 => file.write_all(&InputType::integer(number).to_le_bytes())?,
        }
    }
    file.flush()
}
