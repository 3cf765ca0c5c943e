//! Matrix product with register tiles: WGSL generated for a tile configuration, and the call that runs it.
//!
//! Role: the one emitter of GEMM kernels; the fixed rungs `matmul_naive` and `matmul_tile` are its reference.
//! Method: a workgroup computes a block of C. It stages `block_inner` columns of A (k-major, four rows a vector) and
//! rows of B (four columns a vector) in workgroup memory; an invocation keeps `thread_rows × thread_cols` elements
//! of C in named vector registers. Everything inside a stage is written out: naga 30 turns register arrays indexed
//! by a loop variable into memory, which costs a factor of 3 to 10.
//! Shapes: `a` `[rows, inner]`, `b` `[inner, cols]`, `c` `[rows, cols]`, row-major, contiguous, any sizes.
//! Accuracy: each element sums its `inner` products in order; a term passes at most `inner` roundings of half an
//! epsilon, fused or not, so the error is at most `(inner / 2 + 1) · f32::EPSILON · Σ|a·b|`.
//! Source: Volkov and Demmel 2008, "Benchmarking GPUs to tune dense linear algebra".

use crate::{Buffer, Error, Gpu, Result};
use shaders::params::MatmulParams;
use shaders::{Kernel, layout, source};
use std::borrow::Cow;
use std::fmt::Write as _;

/// Scalars of a vector register.
const LANES: u32 = 4;
/// Largest side of a block: beyond it no device has the workgroup memory.
const MAX_BLOCK_SIDE: u32 = 1024;
/// Most elements of C that an invocation keeps; an 8 × 8 tile already fills the registers of most devices.
const MAX_REGISTERS: u32 = 128;

/// Most multiply-adds that are written out; some drivers take minutes over a few thousand.
const MAX_STATEMENTS: u32 = 1024;

/// Sizes of the tiles of a generated product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Rows of C that a workgroup computes; a multiple of `thread_rows`.
    pub block_rows: u32,
    /// Columns of C that a workgroup computes; a multiple of `thread_cols`.
    pub block_cols: u32,
    /// Terms of each sum that are staged at once.
    pub block_inner: u32,
    /// Rows of C that an invocation keeps in registers; a multiple of 4.
    pub thread_rows: u32,
    /// Columns of C that an invocation keeps in registers; a multiple of 4.
    pub thread_cols: u32,
}

impl Config {
    /// Square blocks, for products whose sides are all large.
    pub const SQUARE: Self = Self::four_by_four(64, 64);
    /// Tall blocks, for a narrow C: a square block would compute mostly padding.
    pub const TALL: Self = Self::four_by_four(256, Self::NARROW);
    /// Wide blocks, for a low C.
    pub const WIDE: Self = Self::four_by_four(Self::NARROW, 256);
    /// Small blocks, for a C that is both.
    pub const SMALL: Self = Self::four_by_four(Self::NARROW, Self::NARROW);
    /// The side up to which C counts as narrow or low.
    const NARROW: u32 = 16;

    const fn four_by_four(block_rows: u32, block_cols: u32) -> Self {
        Self {
            block_rows,
            block_cols,
            block_inner: 16,
            thread_rows: 4,
            thread_cols: 4,
        }
    }

    /// Gives the configuration for a result of this shape.
    #[must_use]
    pub fn for_shape(rows: u32, cols: u32) -> Self {
        match (rows <= Self::NARROW, cols <= Self::NARROW) {
            (false, false) => Self::SQUARE,
            (false, true) => Self::TALL,
            (true, false) => Self::WIDE,
            (true, true) => Self::SMALL,
        }
    }

    /// Emits the kernel.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] where the sides do not divide one another as the fields' documentation demands.
    pub fn kernel(&self) -> Result<Kernel> {
        self.check()?;
        let reference = &layout::MATMUL_TILE;
        Ok(Kernel {
            name: Cow::Borrowed("matmul_registers"),
            source: Cow::Owned(
                Emitter {
                    config: *self,
                    text: String::new(),
                }
                .module(),
            ),
            workgroup_size: [
                self.block_cols / self.thread_cols,
                self.block_rows / self.thread_rows,
                1,
            ],
            items_per_invocation: [self.thread_cols, self.thread_rows, 1],
            workgroup_bytes: self.staged_vectors() * LANES * 4,
            params: reference.params.clone(),
            bindings: reference.bindings.clone(),
        })
    }

    /// Vectors of workgroup memory: a stage of A with one vector of padding a row, and a stage of B.
    fn staged_vectors(&self) -> u32 {
        self.block_inner * (self.block_rows / LANES + 1 + self.block_cols / LANES)
    }

    fn check(&self) -> Result<()> {
        let Self {
            block_rows,
            block_cols,
            block_inner,
            thread_rows,
            thread_cols,
        } = *self;
        let multiple = |of: u32, part: u32| of > 0 && part > 0 && of.is_multiple_of(part);
        let divide = multiple(block_rows, thread_rows)
            && multiple(block_cols, thread_cols)
            && multiple(thread_rows, LANES)
            && multiple(thread_cols, LANES);
        let sides = [block_rows, block_cols, block_inner];
        let small = sides.iter().all(|side| (1..=MAX_BLOCK_SIDE).contains(side))
            && thread_rows * thread_cols <= MAX_REGISTERS
            && block_inner * thread_rows * thread_cols / LANES <= MAX_STATEMENTS;
        if divide && small {
            return Ok(());
        }
        Err(Error::ShapeMismatch {
            op: "matmul_registers",
            left: sides.map(|side| side as usize).to_vec(),
            right: [thread_rows, thread_cols]
                .map(|side| side as usize)
                .to_vec(),
            why: "block sides are multiples of thread sides, those of 4, and what is written out stays small",
        })
    }
}

/// Computes `a · b` on the device with the configuration for its shape; nothing is read back.
///
/// # Errors
/// [`Error::ShapeMismatch`] unless the shapes are `[rows, inner]` and `[inner, cols]`; else as [`Gpu::alloc`] and
/// [`Gpu::dispatch`].
///
/// # Examples
/// ```
/// # use gpu_wgsl::{Error, Gpu, Select, gemm};
/// # fn main() -> Result<(), Error> {
/// # if gpu_wgsl::adapters().is_empty() { return Ok(()) }
/// let gpu = Gpu::open(Select::Best)?;
/// let a = gpu.upload("a", &[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let b = gpu.upload("b", &[3, 1], &[1.0_f32, 0.0, -1.0])?;
/// assert_eq!(gpu.read(&gemm::matmul(&gpu, &a, &b)?)?, [-2.0, -2.0]);
/// # Ok(())
/// # }
/// ```
pub fn matmul(gpu: &Gpu, a: &Buffer<f32>, b: &Buffer<f32>) -> Result<Buffer<f32>> {
    let params = matmul_params(a.shape(), b.shape())?;
    let c = gpu.alloc("matmul", &[params.rows as usize, params.cols as usize])?;
    let kernel = Config::for_shape(params.rows, params.cols).kernel()?;
    gpu.dispatch(&kernel, &params, &[a, b, &c])?;
    Ok(c)
}

/// Gives the parameters of a product of these shapes.
///
/// # Errors
/// [`Error::ShapeMismatch`] unless the shapes are `[rows, inner]` and `[inner, cols]`, all below 2³².
pub fn matmul_params(a: &[usize], b: &[usize]) -> Result<MatmulParams> {
    let mismatch = |why| Error::ShapeMismatch {
        op: "matmul",
        left: a.to_vec(),
        right: b.to_vec(),
        why,
    };
    let (&[rows, inner], &[inner_b, cols]) = (a, b) else {
        return Err(mismatch("both operands have rank 2"));
    };
    if inner != inner_b {
        return Err(mismatch("columns of the first equal rows of the second"));
    }
    let side = |n: usize| u32::try_from(n).map_err(|_| mismatch("kernels count in 32 bits"));
    Ok(MatmulParams::new(side(rows)?, side(inner)?, side(cols)?))
}

/// Writes one module.
struct Emitter {
    config: Config,
    text: String,
}

impl Emitter {
    fn module(mut self) -> String {
        let Config {
            block_rows,
            block_cols,
            block_inner,
            thread_rows,
            thread_cols,
        } = self.config;
        let [width, height] = [block_cols / thread_cols, block_rows / thread_rows];
        // One vector of padding a row: neighbouring k would otherwise fall into the same memory bank.
        let a_stride = block_rows / LANES + 1;
        let b_stride = block_cols / LANES;
        self.line(&format!(
            "// C = A * B, generated: blocks of {block_rows} x {block_cols}, {block_inner} terms a stage, \
             {thread_rows} x {thread_cols} elements an invocation."
        ));
        self.line(&format!(
            "var<workgroup> wg_a: array<vec4<f32>, {}>;",
            block_inner * a_stride
        ));
        self.line(&format!(
            "var<workgroup> wg_b: array<vec4<f32>, {}>;",
            block_inner * b_stride
        ));
        self.loads();
        self.line(&format!("@compute @workgroup_size({width}, {height})"));
        self.line("fn matmul_registers(");
        self.line("    @builtin(workgroup_id) wid: vec3<u32>,");
        self.line("    @builtin(num_workgroups) n_workgroups: vec3<u32>,");
        self.line("    @builtin(local_invocation_id) lid: vec3<u32>,");
        self.line("    @builtin(local_invocation_index) index: u32,");
        self.line(") {");
        self.line(&format!(
            "    let blocks_per_row = (params.cols + {}u) / {block_cols}u;",
            block_cols - 1
        ));
        self.line("    let block = grid_workgroup(wid, n_workgroups);");
        self.line(&format!(
            "    let first_row = block / blocks_per_row * {block_rows}u;"
        ));
        self.line(&format!(
            "    let first_col = block % blocks_per_row * {block_cols}u;"
        ));
        for (row, col) in self.registers() {
            self.line(&format!("    var acc_{row}_{col} = vec4<f32>();"));
        }
        self.line(&format!(
            "    for (var start = 0u; start < params.inner; start += {block_inner}u) {{"
        ));
        self.stage("a", width * height, block_inner * block_rows / LANES, |slot| {
            let (k, rows) = (format!("{slot} % {block_inner}u"), format!("{slot} / {block_inner}u"));
            format!("wg_a[{k} * {a_stride}u + {rows}] = load_a(first_row + {rows} * {LANES}u, start + {k});")
        });
        self.stage("b", width * height, block_inner * b_stride, |slot| {
            let (k, cols) = (
                format!("{slot} / {b_stride}u"),
                format!("{slot} % {b_stride}u"),
            );
            format!("wg_b[{slot}] = load_b(start + {k}, first_col + {cols} * {LANES}u);")
        });
        self.line("        workgroupBarrier();");
        for k in 0..block_inner {
            self.multiply(k, k * a_stride, k * b_stride, width);
        }
        self.line("        workgroupBarrier();");
        self.line("    }");
        self.stores(width);
        self.line("}");
        [&self.text, source::MATMUL, source::GRID].join("\n")
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Row and vector column of every register.
    fn registers(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let Config {
            thread_rows,
            thread_cols,
            ..
        } = self.config;
        (0..thread_rows).flat_map(move |row| (0..thread_cols / LANES).map(move |col| (row, col)))
    }

    /// Functions that read four elements and give zero beyond the matrix.
    fn loads(&mut self) {
        self.line("fn load_a(row: u32, k: u32) -> vec4<f32> {");
        self.line("    var out = vec4<f32>();");
        self.line("    if (k < params.inner) {");
        for lane in 0..LANES {
            self.line(&format!(
                "        if (row + {lane}u < params.rows) {{ out[{lane}] = a[(row + {lane}u) * params.inner + k]; }}"
            ));
        }
        self.line("    }\n    return out;\n}");
        self.line("fn load_b(k: u32, col: u32) -> vec4<f32> {");
        self.line("    var out = vec4<f32>();");
        self.line("    if (k < params.inner) {");
        for lane in 0..LANES {
            self.line(&format!(
                "        if (col + {lane}u < params.cols) {{ out[{lane}] = b[k * params.cols + col + {lane}u]; }}"
            ));
        }
        self.line("    }\n    return out;\n}");
    }

    /// Stages `n_slots` vectors with `n_threads` invocations, each taking every `n_threads`-th slot.
    fn stage(&mut self, matrix: &str, n_threads: u32, n_slots: u32, copy: impl Fn(&str) -> String) {
        for turn in 0..n_slots.div_ceil(n_threads) {
            let slot = format!("slot_{matrix}_{turn}");
            self.line(&format!(
                "        let {slot} = index + {}u;",
                turn * n_threads
            ));
            let copy = copy(&slot);
            // Only the last turn can run over the end.
            if (turn + 1) * n_threads > n_slots {
                self.line(&format!("        if ({slot} < {n_slots}u) {{ {copy} }}"));
            } else {
                self.line(&format!("        {copy}"));
            }
        }
    }

    /// Adds the products of one `k` to every register.
    fn multiply(&mut self, k: u32, a_first: u32, b_first: u32, width: u32) {
        let Config {
            thread_rows,
            thread_cols,
            ..
        } = self.config;
        for row in 0..thread_rows / LANES {
            let at = format!("{}u + lid.y * {}u", a_first + row, thread_rows / LANES);
            self.line(&format!("        let a_{k}_{row} = wg_a[{at}];"));
        }
        for col in 0..thread_cols / LANES {
            self.line(&format!(
                "        let b_{k}_{col} = wg_b[{}u + lid.x];",
                b_first + col * width
            ));
        }
        for (row, col) in self.registers() {
            let (vector, lane) = (row / LANES, row % LANES);
            let mut line = String::new();
            let _ = write!(
                line,
                "        acc_{row}_{col} = fma(vec4<f32>(a_{k}_{vector}[{lane}]), "
            );
            let _ = write!(line, "b_{k}_{col}, acc_{row}_{col});");
            self.line(&line);
        }
    }

    /// Writes the registers to C, guarded by its logical size.
    fn stores(&mut self, width: u32) {
        let thread_rows = self.config.thread_rows;
        self.line(&format!(
            "    let row = first_row + lid.y * {thread_rows}u;"
        ));
        for (row, col) in self.registers() {
            if row == 0 {
                self.line(&format!(
                    "    let col_{col} = first_col + (lid.x + {}u) * {LANES}u;",
                    col * width
                ));
            }
            for lane in 0..LANES {
                let place = format!("(row + {row}u) * params.cols + col_{col} + {lane}u");
                self.line(&format!(
                    "    if (row + {row}u < params.rows && col_{col} + {lane}u < params.cols) {{ c[{place}] = acc_{row}_{col}[{lane}]; }}"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_text_is_valid_and_as_described() {
        for config in [
            Config::SQUARE,
            Config::TALL,
            Config {
                thread_cols: 8,
                thread_rows: 8,
                ..Config::SQUARE
            },
        ] {
            let kernel = config.kernel().unwrap();
            let module = naga::front::wgsl::parse_str(&kernel.source)
                .unwrap_or_else(|error| panic!("{}", error.emit_to_string(&kernel.source)));
            let [entry] = &module.entry_points[..] else {
                panic!("one entry point")
            };
            assert_eq!(entry.name, kernel.name);
            assert_eq!(entry.workgroup_size, kernel.workgroup_size);
        }
    }

    #[test]
    fn sides_that_do_not_divide_are_refused() {
        for config in [
            Config {
                thread_rows: 3,
                ..Config::SQUARE
            },
            Config {
                block_cols: 66,
                ..Config::SQUARE
            },
            Config {
                block_inner: 0,
                ..Config::SQUARE
            },
            Config {
                thread_cols: 0,
                ..Config::SQUARE
            },
        ] {
            assert!(
                matches!(config.kernel(), Err(Error::ShapeMismatch { .. })),
                "{config:?}"
            );
        }
    }

    #[test]
    fn shapes_that_do_not_multiply_are_named() {
        let error = matmul_params(&[2, 3], &[4, 5]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "matmul: shapes [2, 3] and [4, 5] do not fit: columns of the first equal rows of the second"
        );
    }
}
