//! Counts of the instructions of a kernel's main loop.
//!
//! Method: a branch to an earlier label closes a loop. The main loop contains no other loop and has
//! the most multiply-adds of these.
//! Limits: the names of AMD's instructions, from GCN to RDNA 3 (`v_fma_f32`, `v_fmac_f32`,
//! `v_dual_fmac_f32`, `v_dot4_i32_iu8`, `v_wmma_f32_16x16x16_f16`, `ds_load_b128`,
//! `ds_read2_b64`). Products of single integers are not counted.

use std::collections::HashMap;
use std::ops::AddAssign;

/// Bits of a byte.
const BYTE: u32 = 8;
/// Multiply-adds of an instruction that multiplies four pairs of bytes.
const DOT_PRODUCT: u32 = 4;
/// Multiply-adds of an instruction that multiplies matrices of 16 × 16, per invocation of a wave of
/// 64.
const MATRIX_PRODUCT: u32 = 16 * 16 * 16 / 64;

/// Counts of the instructions of a loop, for one pass through the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loop {
    /// Number of instructions.
    pub instructions: u32,
    /// Number of vector instructions. A dual instruction counts once.
    pub vector: u32,
    /// Number of multiply-adds that are not part of a dot product or of a product of matrices. A
    /// dual instruction may contain two.
    pub single_multiply_adds: u32,
    /// Number of vector instructions with such multiply-adds. A dual instruction and a packed
    /// instruction count once.
    pub single_instructions: u32,
    /// Number of dot products of four bytes.
    pub dot_products: u32,
    /// Number of products of matrices, which a wave computes together.
    pub matrix_products: u32,
    /// Bytes that an invocation reads from workgroup memory.
    pub workgroup_bytes: u32,
}

impl Loop {
    /// Returns the number of multiply-adds of an invocation. A dot product of bytes contains four,
    /// and a product of matrices contains 64 (in waves of 64).
    #[must_use]
    pub fn multiply_adds(&self) -> u32 {
        let together = DOT_PRODUCT * self.dot_products + MATRIX_PRODUCT * self.matrix_products;
        self.single_multiply_adds + together
    }

    /// Returns the number of operations that multiply and add: a dot product, or a product of
    /// matrices, is one operation.
    #[must_use]
    pub fn multiplying(&self) -> u32 {
        self.single_multiply_adds + self.dot_products + self.matrix_products
    }
}

impl AddAssign for Loop {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.vector += other.vector;
        self.single_multiply_adds += other.single_multiply_adds;
        self.single_instructions += other.single_instructions;
        self.dot_products += other.dot_products;
        self.matrix_products += other.matrix_products;
        self.workgroup_bytes += other.workgroup_bytes;
    }
}

/// A branch whose target is not a label of the text, so that loops cannot be found. The texts of
/// compilers differ, and RADV writes its compiler's internal text if it has no disassembler for a
/// GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("main_loop: the target of a branch is no label of the assembly ({branch:?})")]
pub struct UnknownTarget {
    /// The line of the branch.
    pub branch: String,
}

/// Returns the counts of the main loop of an assembly text; `None` if the kernel has no loop.
///
/// # Errors
/// [`UnknownTarget`] if the text has another format.
///
/// # Examples
/// ```
/// let assembly = "\
/// BB1:
///     ds_load_b64 v[0:1], v2 ; d9d80000
///     v_fmac_f32_e32 v3, v0, v1 ; 56060300
///     s_cbranch_scc1 BB1 ; bfa2fffd
///     s_endpgm ; bfb00000
/// ";
/// let counts = isa::loops::main_loop(assembly)?.expect("a branch closes the loop");
/// assert_eq!((counts.instructions, counts.multiply_adds(), counts.workgroup_bytes), (3, 1, 8));
/// # Ok::<(), isa::loops::UnknownTarget>(())
/// ```
pub fn main_loop(assembly: &str) -> Result<Option<Loop>, UnknownTarget> {
    let lines: Vec<&str> = assembly.lines().map(str::trim).collect();
    let label = |line: &str| line.strip_suffix(':').map(str::to_owned);
    let labels: HashMap<String, usize> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| Some((label(line)?, at)))
        .collect();
    let mut loops = Vec::new();
    for (end, line) in lines.iter().enumerate() {
        let mut words = line.split_whitespace();
        if !words.next().is_some_and(|name| name.contains("branch")) {
            continue;
        }
        // LLVM writes `.LBB0_2` for the label `BB0_2`.
        let target = words.next().unwrap_or_default().trim_start_matches(".L");
        let Some(&start) = labels.get(target) else {
            let branch = (*line).to_owned();
            return Err(UnknownTarget { branch });
        };
        if start <= end {
            loops.push(start..end + 1);
        }
    }
    let innermost = loops.iter().filter(|outer| {
        let contains = |inner: &&std::ops::Range<usize>| {
            inner != outer && outer.start <= inner.start && inner.end <= outer.end
        };
        !loops.iter().any(|inner| contains(&inner))
    });
    let counted = innermost.map(|range| {
        let mut counts = Loop::default();
        lines[range.clone()]
            .iter()
            .for_each(|line| counts += instruction(line));
        counts
    });
    Ok(counted.max_by_key(|counts| (counts.multiply_adds(), counts.instructions)))
}

/// Returns the counts of a line.
fn instruction(line: &str) -> Loop {
    // The encoding in hexadecimal digits follows a semicolon.
    let text = line.split(';').next().unwrap_or_default().trim();
    let name = text.split_whitespace().next().unwrap_or_default();
    if name.is_empty() || name.ends_with(':') {
        return Loop::default();
    }
    // The two halves of a dual instruction are separated by `::`.
    let multiplies = |half: &str| {
        let name = half.split_whitespace().next().unwrap_or_default();
        let is_one = ["v_fma", "v_mac_f32", "v_mad_f32", "v_dual_fma"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        // A mixed multiply-add by 1 converts between types of floats.
        let converts = name.starts_with("v_fma_mix") && half.contains(" 1.0,");
        u32::from(is_one && !converts) + 2 * u32::from(name.starts_with("v_pk_fma"))
    };
    let single_multiply_adds = text.split("::").map(multiplies).sum();
    Loop {
        instructions: 1,
        vector: u32::from(name.starts_with("v_")),
        single_multiply_adds,
        single_instructions: u32::from(single_multiply_adds > 0),
        dot_products: u32::from(name.starts_with("v_dot4")),
        matrix_products: u32::from(name.starts_with("v_wmma_f32_16x16x16")),
        workgroup_bytes: workgroup_bytes(name),
    }
}

/// Returns the bytes that an instruction reads from workgroup memory: the number in its name, twice
/// for the forms with two addresses.
fn workgroup_bytes(name: &str) -> u32 {
    let read = ["ds_load_", "ds_read_", "ds_read2_", "ds_read2st64_"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix));
    let Some(read) = read else {
        return 0;
    };
    let width = |part: &str| part.trim_start_matches(['b', 'u', 'i']).parse::<u32>().ok();
    let bits = read.split('_').find_map(width).unwrap_or_default();
    let n_addresses = if read.contains("2addr") || name.starts_with("ds_read2") {
        2
    } else {
        1
    };
    n_addresses * bits / BYTE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_loop_is_the_innermost_with_the_most_multiply_adds() {
        let assembly = "\
BB0:
    s_mov_b32 s0, 0 ; be800080
BB1:
    v_mov_b32_e32 v0, 0 ; 7e000280
BB2:
    v_dual_fmac_f32 v1, v2, v3 :: v_dual_fmac_f32 v4, v5, v6 ; c8000702
    ds_load_2addr_b32 v[7:8], v9 offset1:1 ; d8dc0100
    ds_load_b128 v[7:10], v9 ; dbfc0000
    s_cbranch_scc1 BB2 ; bfa2fffa
BB3:
    v_add_f32_e32 v1, v1, v2 ; 06020501
    s_cbranch_scc0 BB3 ; bfa1fffe
    s_branch BB1 ; bfa0fff0
BB4:
    s_endpgm ; bfb00000
";
        let expected = Loop {
            instructions: 4,
            vector: 1,
            single_multiply_adds: 2,
            single_instructions: 1,
            dot_products: 0,
            matrix_products: 0,
            workgroup_bytes: 24,
        };
        assert_eq!(main_loop(assembly), Ok(Some(expected)));
        for (name, bytes) in [
            ("ds_read_b64", 8),
            ("ds_read2_b32", 8),
            ("ds_read2st64_b64", 16),
            ("ds_load_2addr_stride64_b32", 8),
            ("ds_load_u16_d16", 2),
            ("ds_store_b32", 0),
        ] {
            assert_eq!(workgroup_bytes(name), bytes, "{name}");
        }
        let together = "\
BB1:
    v_dot4_i32_iu8 v1, v2, v3, v1 neg_lo:[1,1,0] ; cc164001
    v_wmma_f32_16x16x16_f16 v[8:15], v[0:7], v[16:23], v[8:15] ; cc404008
    v_fmac_f32_e32 v4, v5, v6 ; 56080d05
    v_fma_mixlo_f16 v4, v5, 1.0, 0 ; cc218004
    s_cbranch_scc1 BB1 ; bfa2fffa
";
        let counts = main_loop(together).unwrap().unwrap();
        assert_eq!((counts.dot_products, counts.matrix_products), (1, 1));
        assert_eq!(counts.multiply_adds(), 4 + 64 + 1);
        assert_eq!((counts.single_multiply_adds, counts.multiplying()), (1, 3));
        let packed = "\
BB1:
    v_pk_fma_f16 v4, v5, v6, v4 ; cc0e4004
    v_dual_fmac_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5 ; c8100702
    v_add_f32_e32 v1, v1, v2 ; 06020501
    s_cbranch_scc1 BB1 ; bfa2fffa
";
        let counts = main_loop(packed).unwrap().unwrap();
        assert_eq!((counts.vector, counts.single_instructions), (3, 2));
        assert_eq!(counts.single_multiply_adds, 3);
        let forward = "BB0:\n s_branch BB1\nBB1:\n s_endpgm\n";
        assert_eq!(main_loop(forward), Ok(None));
        assert_eq!(main_loop(""), Ok(None));
    }

    #[test]
    fn labels_of_other_compilers_are_found_or_reported() {
        let by_llvm = "BB0_3:\n v_fmac_f32_e32 v4, v5, v6\n s_branch .LBB0_3\n";
        let counts = main_loop(by_llvm).unwrap().unwrap();
        assert_eq!((counts.instructions, counts.multiply_adds()), (2, 1));
        let internal = "BB7\n v1: %0:v[4] = v_mov_b32 0\n s_branch block:BB7\n";
        let branch = "s_branch block:BB7".to_owned();
        assert_eq!(main_loop(internal), Err(UnknownTarget { branch }));
    }
}
